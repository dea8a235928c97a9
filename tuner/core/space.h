/* Space: all schedules a problem may be given, and walks over them. Larger than the paper's
 * (space_paper.h): masked tiles, exchange of C at six levels, reduction of E at four.
 *
 * Alphabets
 *   loops            all 41
 *   cls_m n k l      1 2 4 8 16 each
 *   blk_m, blk_k     16 32 64 128 256
 *   blk_n, blk_l     multiples of 16 up to 256
 *   exchange 6, reduce 4, gate 2 (gated_ffn; otherwise 1), stages 1 to 8
 *
 * Nothing is listed: counting and visiting share one walk that asks each rule of legal.h as soon as
 * the fields it looks at are fixed. No allocation, no clock. */
#ifndef FPL_CORE_SPACE_H
#define FPL_CORE_SPACE_H

#include "tuner/core/legal.h"

enum { FPL_SPACE_RULES_MOST = 8, FPL_SPACE_STAGES_MOST = 8 };

struct fpl_space_count {
  const char *name;  /* of the rule; static */
  int64_t remaining; /* candidates after it; INT64_MAX stands for that many or more */
};
struct fpl_space_counts {
  struct fpl_space_count rules[FPL_SPACE_RULES_MOST]; /* in the order of application */
  int n_rules;
};

enum fpl_space_filter {
  FPL_SPACE_LEGAL,    /* every legal schedule */
  FPL_SPACE_SKELETON, /* and one that a skeleton implements */
  FPL_SPACE_TUNING    /* and one worth measuring; see fpl_space_each */
};

/* Remaining candidates after: initial, tile_limits, cluster_size, activation, dependency, capacity
 * (= legal), skeleton. */
void fpl_space_count(const struct fpl_problem *p, const struct fpl_device *d,
                     struct fpl_space_counts *out);

/* A visitor gets a legal schedule with its tiling and footprint, and answers false to stop. */
struct fpl_space_visitor {
  void *context;
  bool (*visit)(void *context, const struct fpl_schedule *s, const struct fpl_tiling *t,
                const struct fpl_footprint *f);
};

/* Visits in a fixed order, variants that differ only in stages one after the other, deepest first.
 * Answers false if stopped.
 *
 * FPL_SPACE_TUNING leaves out
 *   - all stages but the deepest ring that fits, and half of that where it is 4 or more (not l2);
 *   - cls_m, cls_n, cls_l with more blocks than the next power of two above the tiles there are;
 *   - n, k, l covered by cluster tiles with more than a quarter of waste, unless no tile does
 * better than to cover the extent rounded up to 16;
 *   - recompute where one step covers l: the same dataflow as smem;
 *   - fewer than 64 rows where not all blocks run at once, or E is added up in L2;
 * and of exchange l2, instead of the last but one rule: blk_n and blk_l that take no fewer waves of
 * the active clusters than tiles two steps narrower, row groups of more than twice or less than
 * half of m, up to 128 rows, and blk_k above 128. */
bool fpl_space_each(const struct fpl_problem *p, const struct fpl_device *d,
                    enum fpl_space_filter filter, struct fpl_space_visitor visitor);

/* Draws up to n schedules, equal for equal seeds; repetitions are possible. `rule` FPL_RULE_NONE:
 * legal ones, with filter FPL_SPACE_SKELETON or FPL_SPACE_TUNING such that a skeleton implements.
 * Another rule: ones that this rule is the first to refuse (legal ones for a skeleton's rule). The
 * exchanges take turns as far as they occur. Answers how many were found; fewer when the space
 * seems to hold none (the tries are bounded). */
int64_t fpl_space_sample(const struct fpl_problem *p, const struct fpl_device *d,
                         enum fpl_space_filter filter, enum fpl_rule rule, uint64_t seed, int64_t n,
                         struct fpl_schedule *out);

#endif
