/* One walk fills a heap of the best of all and a small heap for each family; the choice among them
 * comes after. The walk hands over variants in stages one after the other, so a group of variants
 * is thinned before it enters the heaps. */
#include "tuner/search/rank.h"

#include "tuner/core/space.h"

#include <math.h>
#include <string.h>

enum { N_REDUCES = FPL_REDUCE_DSM_L2 + 1, N_FAMILIES = (FPL_EXCHANGE_RECOMPUTE + 1) * N_REDUCES };

const struct fpl_rank_options fpl_rank_defaults = {.stages_variants = 1, .diversity = 3};

struct ranking {
  const struct fpl_problem *p;
  const struct fpl_device *d;
  const struct fpl_cost_port *cost;
  bool is_deterministic;
  struct fpl_rank_counts counts;
  struct fpl_best overall;
  struct fpl_best families[N_FAMILIES];
  bool has_family[N_FAMILIES];
  struct fpl_best group; /* variants of one schedule in stages */
  struct fpl_ranked overall_items[FPL_RANK_MOST];
  struct fpl_ranked family_items[N_FAMILIES][FPL_RANK_DIVERSITY_MOST];
  struct fpl_ranked group_items[FPL_SPACE_STAGES_MOST];
};

static int family_of(const struct fpl_schedule *s) {
  return s->exchange * N_REDUCES + s->reduce;
}

static bool are_variants(const struct fpl_schedule *a, const struct fpl_schedule *b) {
  struct fpl_schedule same_depth = *b;
  same_depth.stages = a->stages;
  return memcmp(a, &same_depth, sizeof *a) == 0; /* int32_t fields only: no padding */
}

static void close_group(struct ranking *r) {
  for (int i = 0; i < r->group.n; i++) {
    const struct fpl_ranked *const item = &r->group.items[i];
    struct fpl_best *const family = &r->families[family_of(&item->schedule)];
    fpl_best_offer(&r->overall, item);
    if (family->most > 0)
      fpl_best_offer(family, item);
  }
  r->group.n = 0;
}

static bool cost_one(void *context, const struct fpl_schedule *s, const struct fpl_tiling *t,
                     const struct fpl_footprint *f) {
  struct ranking *const r = context;
  if (r->is_deterministic && !fpl_schedule_is_deterministic(s))
    return true;
  const struct fpl_ranked candidate = {*s, r->cost->est_us(r->cost->self, r->p, s, r->d, t, f), 0};
  const int family = family_of(s);
  r->counts.n_costed++;
  r->counts.n_families += !r->has_family[family];
  r->has_family[family] = true;
  if (r->group.n > 0 && !are_variants(&r->group.items[0].schedule, s))
    close_group(r);
  if (isfinite(candidate.est_us))
    fpl_best_offer(&r->group, &candidate);
  return true;
}

static bool is_chosen(const struct fpl_ranked *chosen, int n, const struct fpl_ranked *candidate) {
  for (int i = 0; i < n; i++)
    if (!fpl_ranked_before(&chosen[i], candidate) && !fpl_ranked_before(candidate, &chosen[i]))
      return true;
  return false;
}

/* Families in the order of their best; answers how many there are. */
static int order_families(struct ranking *r, const struct fpl_best *ordered[N_FAMILIES]) {
  int n = 0;
  for (int i = 0; i < N_FAMILIES; i++) {
    struct fpl_best *const family = &r->families[i];
    if (family->n == 0)
      continue;
    fpl_best_sort(family);
    int at = n++;
    for (; at > 0 && fpl_ranked_before(&family->items[0], &ordered[at - 1]->items[0]); at--)
      ordered[at] = ordered[at - 1];
    ordered[at] = family;
  }
  return n;
}

/* Chooses k of the heaps' contents: the best of all for the first half, then the families' turns,
 * then the best of all again. */
static int choose(struct ranking *r, int k, struct fpl_ranked *out) {
  const struct fpl_best *ordered[N_FAMILIES];
  const int n_families = order_families(r, ordered);
  fpl_best_sort(&r->overall);
  int n = 0, next = 0;
  for (; next < r->overall.n && n < k - k / 2; next++)
    out[n++] = r->overall.items[next];
  for (int round = 0; round < FPL_RANK_DIVERSITY_MOST; round++)
    for (int i = 0; i < n_families && n < k; i++)
      if (round < ordered[i]->n && !is_chosen(out, n, &ordered[i]->items[round]))
        out[n++] = ordered[i]->items[round];
  for (; next < r->overall.n && n < k; next++)
    if (!is_chosen(out, n, &r->overall.items[next]))
      out[n++] = r->overall.items[next];
  struct fpl_best chosen = {out, 0, k};
  for (int i = 0; i < n; i++) {
    const struct fpl_ranked item = out[i];
    fpl_best_offer(&chosen, &item);
  }
  fpl_best_sort(&chosen);
  return n;
}

static int clamp(int value, int least, int most) {
  return value < least ? least : value > most ? most : value;
}

int fpl_rank(const struct fpl_problem *p, const struct fpl_device *d,
             const struct fpl_cost_port *cost, int k, const struct fpl_rank_options *options,
             struct fpl_ranked *out, struct fpl_rank_counts *counts) {
  struct ranking r = {.p = p, .d = d, .cost = cost, .is_deterministic = options->is_deterministic};
  const int n_kept = clamp(k, 1, FPL_RANK_MOST);
  r.overall = (struct fpl_best){r.overall_items, 0, n_kept};
  r.group = (struct fpl_best){r.group_items, 0,
                              clamp(options->stages_variants, 1, FPL_SPACE_STAGES_MOST)};
  for (int i = 0; i < N_FAMILIES; i++)
    r.families[i] = (struct fpl_best){r.family_items[i], 0,
                                      clamp(options->diversity, 0, FPL_RANK_DIVERSITY_MOST)};
  const struct fpl_space_visitor visitor = {&r, cost_one};
  fpl_space_each(p, d, FPL_SPACE_TUNING, visitor);
  close_group(&r);
  const int n = choose(&r, n_kept, out);
  if (counts)
    *counts = r.counts;
  return n;
}
