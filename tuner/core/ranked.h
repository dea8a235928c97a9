/* The best few of very many candidates: a heap of fixed size in the caller's memory. */
#ifndef FPL_CORE_RANKED_H
#define FPL_CORE_RANKED_H

#include "tuner/core/schedule.h"

struct fpl_ranked {
  struct fpl_schedule schedule;
  double est_us;
  double tie_us; /* second criterion among equal est_us; 0 where the model has none */
};

/* Order: est_us, tie_us, then the fields in the order of schedule_fields.def, smaller first: total
 * on distinct schedules, so that a ranking does not depend on the order of enumeration. */
bool fpl_ranked_before(const struct fpl_ranked *a, const struct fpl_ranked *b);

/* `items` has room for `most` >= 1 entries and belongs to the caller. Start with n = 0. */
struct fpl_best {
  struct fpl_ranked *items;
  int n;
  int most;
};

/* Keeps the candidate if it is among the `most` best so far. */
void fpl_best_offer(struct fpl_best *best, const struct fpl_ranked *candidate);
/* Sorts items[0..n), best first; nothing may be offered afterwards. */
void fpl_best_sort(struct fpl_best *best);

#endif
