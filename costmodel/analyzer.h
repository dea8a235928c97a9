/* Analyzer: bytes a candidate moves at each memory level, in closed form. No allocation, no GPU.
 * Source: MODEL.md section 1 (dataflow, what counts) and section 2 (derivation of every term). */
#ifndef FPL_COSTMODEL_ANALYZER_H
#define FPL_COSTMODEL_ANALYZER_H

#include "tuner/core/footprint.h"

enum fpl_level {
  FPL_LEVEL_REGISTER,
  FPL_LEVEL_SMEM,
  FPL_LEVEL_DSM,
  FPL_LEVEL_L2,
  FPL_LEVEL_HBM,
  FPL_LEVELS
};
extern const char *const fpl_level_names[FPL_LEVELS + 1]; /* register smem dsm l2 hbm */

/* Bytes received over DSM by each primitive, whole chip. */
struct fpl_dsm_traffic {
  double all_exchange, shuffle, reduce_scatter;
};

/* Whole chip, one run. double holds every integer below 2^53 exactly. */
struct fpl_traffic {
  double bytes[FPL_LEVELS];
  struct fpl_dsm_traffic dsm;
  double l2_shared_bytes; /* part of l2: data that several blocks read (A; with several m tiles
                             also B and D) */
  double l2_reduce_bytes; /* part of l2: bulk adds to the workspace */
};

/* For a legal candidate; (t, f) from fpl_legal. */
void fpl_analyze(const struct fpl_problem *p, const struct fpl_schedule *s,
                 const struct fpl_tiling *t, const struct fpl_footprint *f,
                 struct fpl_traffic *out);

#endif
