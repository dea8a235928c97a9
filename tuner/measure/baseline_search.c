/* Decides which pairs of algorithms are timed, and how well. */
#include "tuner/measure/baseline_search.h"

#include "tuner/base/sys.h"

#include <math.h>

enum { SHORTLIST = 8, AGAIN = 4 };
/* A quick time may be wrong by so much: slower ones are not timed well. */
static const double QUICK_MARGIN = 1.25;

/* The best few, best first. */
struct shortlist {
  struct fpl_baseline_choice choices[SHORTLIST];
  double us[SHORTLIST];
  int n;
};

static void insert(struct shortlist *list, const struct fpl_baseline_choice *choice, double us) {
  if (!isfinite(us))
    return;
  int at = list->n < SHORTLIST ? list->n++ : SHORTLIST;
  for (; at > 0 && us < list->us[at - 1]; at--)
    if (at < SHORTLIST) {
      list->choices[at] = list->choices[at - 1];
      list->us[at] = list->us[at - 1];
    }
  if (at < SHORTLIST) {
    list->choices[at] = *choice;
    list->us[at] = us;
  }
}

/* Times all algorithms of product `index` beside `base`; *out_n_tried counts those that ran. */
static bool time_all(const struct fpl_baseline_timer *timer, const struct fpl_baseline_choice *base,
                     int index, int n, double most_us, struct shortlist *out, int *out_n_tried,
                     struct fpl_failure *failure) {
  const double started_us = fpl_now_us();
  *out = (struct shortlist){.n = 0};
  *out_n_tried = 0;
  for (int i = 0; i < n && (out->n == 0 || fpl_now_us() - started_us < most_us); i++) {
    struct fpl_baseline_choice choice = *base;
    double us = 0;
    choice.algorithms[index] = i;
    if (timer->quickly(timer->self, &choice, &us, failure)) {
      insert(out, &choice, us);
      ++*out_n_tried;
    } else if (failure->is_sticky) {
      return false;
    }
  }
  return out->n > 0;
}

/* Replaces the quick times by good ones, and the order with them. */
static bool time_shortlist(const struct fpl_baseline_timer *timer, struct shortlist *list,
                           struct fpl_failure *failure) {
  double us[SHORTLIST];
  int n = 1;
  while (n < list->n && list->us[n] <= QUICK_MARGIN * list->us[0])
    n++;
  if (!timer->well(timer->self, list->choices, n, us, failure))
    return false;
  const struct shortlist timed = *list;
  list->n = 0;
  for (int i = 0; i < n; i++)
    insert(list, &timed.choices[i], us[i]);
  return list->n > 0;
}

static bool search_product(const struct fpl_baseline_timer *timer,
                           const struct fpl_baseline_choice *base, int index, int n, double most_us,
                           struct shortlist *out, int *out_n_tried, struct fpl_failure *failure) {
  return time_all(timer, base, index, n, most_us, out, out_n_tried, failure) &&
         time_shortlist(timer, out, failure);
}

/* The first product's best few beside the second one's winner, each with and without an early
 * activation; and the library's own suggestions, to compare. */
static bool search_again(const struct fpl_baseline_timer *timer, const struct shortlist *firsts,
                         int second, struct fpl_baseline_found *out, struct fpl_failure *failure) {
  struct fpl_baseline_choice choices[FPL_BASELINE_WELL_MOST] = {{{0, 0}, false}};
  double us[FPL_BASELINE_WELL_MOST];
  int n = 1;
  for (int i = 0; i < firsts->n && i < AGAIN; i++) {
    struct fpl_baseline_choice choice = firsts->choices[i];
    choice.algorithms[1] = second;
    choices[n++] = choice;
    choice.is_early = true;
    if (timer->has_activation(timer->self, &choice))
      choices[n++] = choice;
  }
  if (!timer->well(timer->self, choices, n, us, failure))
    return false;
  int best = 0;
  for (int i = 1; i < n; i++)
    if (us[i] < us[best])
      best = i;
  out->choice = choices[best];
  out->us = us[best];
  out->suggested_us = us[0];
  return isfinite(us[best]);
}

bool fpl_baseline_search(const struct fpl_baseline_timer *timer, const int n_algorithms[2],
                         double most_us, struct fpl_baseline_found *out,
                         struct fpl_failure *failure) {
  struct fpl_baseline_choice base = {{0, 0}, false};
  struct shortlist firsts, seconds;
  *out = (struct fpl_baseline_found){.choice = base};
  if (!search_product(timer, &base, 0, n_algorithms[0], most_us, &firsts, &out->n_tried[0],
                      failure))
    return false;
  base = firsts.choices[0];
  return search_product(timer, &base, 1, n_algorithms[1], most_us, &seconds, &out->n_tried[1],
                        failure) &&
         search_again(timer, &firsts, seconds.choices[0].algorithms[1], out, failure);
}
