/* FlashFuser's plan space: 41 loop schedules, cluster vectors over {1,2,4,8,16}^4, block tiles, and
 * five rules that prune them. Kept to reproduce the paper's Table III and its plain ranking; tuning
 * walks the larger space of space.h. Nothing is ever listed: counts factorise, survivors are
 * visited one by one. Readings taken where the paper is silent: costmodel/MODEL.md, section 5. */
#ifndef FPL_CORE_SPACE_PAPER_H
#define FPL_CORE_SPACE_PAPER_H

#include "tuner/core/device.h"
#include "tuner/core/problem.h"
#include "tuner/core/ranked.h"
#include "tuner/core/space.h"

/* Divisors of `extent` that are multiples of 16: d16(4096) = 9. */
int64_t fpl_space_d16(int64_t extent);

/* Readings of "valid cluster vector", of 625; counts for a limit of 16 blocks. */
enum fpl_vectors {
  FPL_VECTORS_BLOCKS,  /* cls_m cls_n cls_k <= limit: 175 */
  FPL_VECTORS_SHUFFLE, /* and cls_k <= cls_l: 140 */
  FPL_VECTORS_PAPER,   /* and at least 2 blocks: 135, as Table III implies */
  FPL_VECTORS_REDUCE,  /* blocks, and cls_l <= cls_n cls_k: 105 */
  FPL_VECTORS_FLOW     /* blocks, and cls_k | cls_l | cls_n cls_k: 70, those with a data flow */
};
bool fpl_vector_is_valid(enum fpl_vectors reading, const int32_t cls[FPL_DIMS], int64_t limit);
int64_t fpl_vectors_count(enum fpl_vectors reading, int64_t limit);

/* Rules of the paper on the loops alone. */
bool fpl_space_paper_keeps_activation(const struct fpl_loops *loops); /* k spatial or innermost */
bool fpl_space_paper_keeps_dependency(const struct fpl_loops *loops); /* l temporal */

/* Remaining candidates after: initial, divisible_tiles, cluster_size, activation, dependency,
 * capacity. An extent that is no multiple of 16 has no divisible tile: 0 from there on. */
void fpl_space_paper_count(const struct fpl_problem *p, const struct fpl_device *d,
                           struct fpl_space_counts *out);

/* Visits the survivors of all rules, in a fixed order, until `visit` answers false. Schedules carry
 * exchange dsm, the reduce their sums need, stages 1. Answers false if stopped. */
bool fpl_space_paper_each(const struct fpl_problem *p, const struct fpl_device *d,
                          bool (*visit)(void *context, const struct fpl_schedule *s),
                          void *context);

/* Bytes of one run, whole chip, by the paper's Algorithm 1. */
struct fpl_paper_traffic {
  double global_bytes, dsm_bytes, smem_bytes;
};
/* False when the schedule has no data flow (cluster vector not in FPL_VECTORS_FLOW, or partial sums
 * of C in several clusters): such survivors are counted as the paper does, never ranked. */
bool fpl_space_paper_traffic(const struct fpl_problem *p, const struct fpl_schedule *s,
                             struct fpl_paper_traffic *out);

/* Counts, then ranks every survivor that has a data flow by max over levels of bytes / bandwidth;
 * equal costs by the sum over the levels. Fills best->items, sorted; answers how many were ranked.
 */
int64_t fpl_space_paper_rank(const struct fpl_problem *p, const struct fpl_device *d,
                             struct fpl_best *best, struct fpl_space_counts *counts);

#endif
