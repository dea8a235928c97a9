/* Legality: may this schedule run this problem on this device? An answer, not an error: the first
 * rule that refuses, and why. Rules stand in the order in which they are checked; a skeleton's
 * check_plan has the same rules in the same order, each message beginning with the rule's name. */
#ifndef FPL_CORE_LEGAL_H
#define FPL_CORE_LEGAL_H

#include "tuner/core/device.h"
#include "tuner/core/footprint.h"

enum fpl_rule {
  FPL_RULE_NONE, /* legal */
  /* of the plan space */
  FPL_RULE_TILE_LIMITS,  /* tiles are multiples of 16, at most 256, not larger than the problem */
  FPL_RULE_CLUSTER_SIZE, /* blocks <= limit, cls_k | cls_l | cls_n cls_k */
  FPL_RULE_ACTIVATION,   /* k innermost, or covered by one step: sums are complete before act */
  FPL_RULE_DEPENDENCY,   /* loops, cluster, exchange, gate and reduce agree on who needs what */
  FPL_RULE_CAPACITY,     /* shared memory and registers of a block suffice */
  /* of the skeletons */
  FPL_RULE_SKELETON_KIND,      /* kinds of problem and channels of an image no family has */
  FPL_RULE_SKELETON_LOOPS,     /* loops and exchange no family implements */
  FPL_RULE_SKELETON_TILES,     /* tile shapes the instructions lack */
  FPL_RULE_SKELETON_ALIGNMENT, /* rows of A, B, D not a multiple of 16 bytes */
  FPL_N_RULES
};
extern const char *const fpl_rule_names[FPL_N_RULES + 1];

struct fpl_verdict {
  enum fpl_rule rule; /* FPL_RULE_NONE: legal */
  char why[160];
};

/* Rules of the plan space. Fills tiling and footprint as far as they were computed (both are
 * complete when the answer is true). `why` may be NULL (faster: no text is written). */
bool fpl_legal(const struct fpl_problem *p, const struct fpl_schedule *s,
               const struct fpl_device *d, struct fpl_tiling *t, struct fpl_footprint *f,
               struct fpl_verdict *why);

/* One rule of the plan space alone, no text; those before it have passed. `t` must be made from
 * FPL_RULE_ACTIVATION on, `f` for FPL_RULE_CAPACITY; before that they may be NULL. */
bool fpl_legal_passes(enum fpl_rule rule, const struct fpl_problem *p, const struct fpl_schedule *s,
                      const struct fpl_device *d, const struct fpl_tiling *t,
                      const struct fpl_footprint *f);

/* Rules of the skeleton families, for a schedule that is legal. */
bool fpl_skeleton_fits(const struct fpl_problem *p, const struct fpl_schedule *s,
                       struct fpl_verdict *why);

#endif
