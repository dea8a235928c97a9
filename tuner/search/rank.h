/* Rank: cost every schedule worth measuring by a cost model, keep the best few. */
#ifndef FPL_SEARCH_RANK_H
#define FPL_SEARCH_RANK_H

#include "tuner/core/ports.h"
#include "tuner/core/ranked.h"

enum {
  FPL_RANK_MOST = 256, /* candidates kept at most */
  FPL_RANK_DIVERSITY_MOST = 8
};

struct fpl_rank_options {
  /* Kept candidates that differ in stages alone, at most; >= 1. */
  int32_t stages_variants;
  /* 0 to FPL_RANK_DIVERSITY_MOST. Up to half of the k places go to the best `diversity` of each
   * family, so that one wrong term of the model cannot hide a family. A family is a pair of
   * exchange and reduce. Those places are dealt in rounds, each family's best before any family's
   * second, families with the better best first. The other places go to the best of all. */
  int32_t diversity;
  bool is_deterministic; /* deterministic schedules alone */
};
extern const struct fpl_rank_options fpl_rank_defaults; /* 1 variant, diversity 3 */

struct fpl_rank_counts {
  int64_t n_costed;   /* schedules of FPL_SPACE_TUNING */
  int64_t n_families; /* pairs of exchange and reduce among them */
};

/* Walks FPL_SPACE_TUNING and fills out[0..k), best first; equal costs in the order of
 * fpl_ranked_before. 1 <= k <= FPL_RANK_MOST. Answers how many were kept: fewer than k when the
 * space holds fewer. A cost that is not finite keeps its candidate out. `counts` may be NULL. */
int fpl_rank(const struct fpl_problem *p, const struct fpl_device *d,
             const struct fpl_cost_port *cost, int k, const struct fpl_rank_options *options,
             struct fpl_ranked *out, struct fpl_rank_counts *counts);

#endif
