#include "tuner/measure/decide.h"

#include "tuner/base/str.h"
#include "tuner/measure/stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Medians farther apart are no tie, however noisy: half of the regret a winner may have (1 %). */
static const double TIE_WIDTH = 0.005;

static bool is_measured(const struct fpl_result *r) {
  return r->outcome == FPL_OUTCOME_OK && r->stats[FPL_COLD].n > 0;
}

static double cold_us(const struct fpl_result *r) {
  return r->stats[FPL_COLD].median_us;
}

/* Index of the least cold median among the library's plans, or among the kernels; -1 if none. */
static int find_best(const struct fpl_result *results, int n, bool is_library) {
  int best = -1;
  for (int i = 0; i < n; i++)
    if (results[i].is_library == is_library && is_measured(&results[i]) &&
        (best < 0 || cold_us(&results[i]) < cold_us(&results[best])))
      best = i;
  return best;
}

/* Without memory for the comparison, two candidates count as not separated. */
static struct fpl_pair compare(const struct fpl_result *a, const struct fpl_result *b) {
  struct fpl_pair pair = {0};
  const int64_t n = fpl_min_i64(a->samples[FPL_COLD].n, b->samples[FPL_COLD].n);
  double *const scratch = n > 0 ? malloc((size_t)n * sizeof *scratch) : NULL;
  if (scratch)
    fpl_pair_compare(a->samples[FPL_COLD].us, b->samples[FPL_COLD].us, n, scratch, &pair);
  free(scratch);
  return pair;
}

static bool beats_library(const struct fpl_result *own, const struct fpl_result *library,
                          double least_gain) {
  const struct fpl_pair pair = compare(own, library);
  if (pair.is_separated)
    return pair.ratio < 1;
  return cold_us(own) < cold_us(library) && cold_us(own) <= (1 - least_gain) * cold_us(library);
}

static bool is_tie(const struct fpl_result *best, const struct fpl_result *other) {
  return cold_us(other) <= (1 + TIE_WIDTH) * cold_us(best) && !compare(best, other).is_separated;
}

static bool needs_less(const struct fpl_result *a, const struct fpl_result *b) {
  if (a->kernel.smem_bytes != b->kernel.smem_bytes)
    return a->kernel.smem_bytes < b->kernel.smem_bytes;
  char text_a[FPL_SCHEDULE_TEXT];
  char text_b[FPL_SCHEDULE_TEXT];
  fpl_schedule_text(&a->schedule, text_a);
  fpl_schedule_text(&b->schedule, text_b);
  return strcmp(text_a, text_b) < 0;
}

/* Of the kernels tied with `best`, the one that needs least; `library` may be NULL. */
static int break_tie(const struct fpl_result *results, int n, int best,
                     const struct fpl_result *library, double least_gain) {
  int chosen = best;
  for (int i = 0; i < n; i++) {
    const struct fpl_result *const r = &results[i];
    if (i != best && !r->is_library && is_measured(r) && is_tie(&results[best], r) &&
        (!library || beats_library(r, library, least_gain)) && needs_less(r, &results[chosen]))
      chosen = i;
  }
  return chosen;
}

static void write_win(const struct fpl_result *own, const struct fpl_result *library,
                      char reason[FPL_DECIDE_REASON]) {
  const struct fpl_stats *const s = &own->stats[FPL_COLD];
  if (!library) {
    snprintf(reason, FPL_DECIDE_REASON,
             "best kernel at %.3f us cold (95 %% interval %.3f to %.3f us, %lld samples); the "
             "library plan has no time",
             s->median_us, s->low_us, s->high_us, (long long)s->n);
    return;
  }
  const struct fpl_pair pair = compare(own, library);
  snprintf(reason, FPL_DECIDE_REASON,
           "%.3f us cold against the library's %.3f us: %.3f times as fast (paired ratio %.4f, "
           "95 %% interval %.4f to %.4f, %lld pairs)",
           s->median_us, cold_us(library), cold_us(library) / s->median_us, pair.ratio, pair.low,
           pair.high, (long long)pair.n);
}

static void write_stay(const struct fpl_result *own, const struct fpl_result *library,
                       double least_gain, char reason[FPL_DECIDE_REASON]) {
  if (!own) {
    snprintf(reason, FPL_DECIDE_REASON,
             "library at %.3f us cold; no kernel was verified and measured", cold_us(library));
    return;
  }
  const struct fpl_pair pair = compare(own, library);
  if (pair.is_separated || cold_us(own) > cold_us(library))
    snprintf(reason, FPL_DECIDE_REASON,
             "library at %.3f us cold; the best kernel takes %.3f us (paired ratio %.4f, 95 %% "
             "interval %.4f to %.4f)",
             cold_us(library), cold_us(own), pair.ratio, pair.low, pair.high);
  else
    snprintf(reason, FPL_DECIDE_REASON,
             "tie keeps the library at %.3f us cold; the best kernel's %.3f us is not separated "
             "(paired ratio %.4f, 95 %% interval %.4f to %.4f) nor %.3g %% lower",
             cold_us(library), cold_us(own), pair.ratio, pair.low, pair.high, 100 * least_gain);
}

int fpl_decide(const struct fpl_result *results, int n, double least_gain,
               char reason[FPL_DECIDE_REASON]) {
  const int best = find_best(results, n, false);
  const int library = find_best(results, n, true);
  const struct fpl_result *const own = best < 0 ? NULL : &results[best];
  const struct fpl_result *const rival = library < 0 ? NULL : &results[library];
  if (!own && !rival) {
    snprintf(reason, FPL_DECIDE_REASON, "none of %d candidates was verified and measured", n);
    return -1;
  }
  if (!own || (rival && !beats_library(own, rival, least_gain))) {
    write_stay(own, rival, least_gain, reason);
    return library;
  }
  const int chosen = break_tie(results, n, best, rival, least_gain);
  write_win(&results[chosen], rival, reason);
  return chosen;
}
