/* Tiling: the counts that a problem and a schedule fix, with no device. Pure arithmetic; the
 * dataflow they describe is costmodel/MODEL.md, section "Dataflow". */
#ifndef FPL_CORE_TILING_H
#define FPL_CORE_TILING_H

#include "tuner/core/problem.h"
#include "tuner/core/schedule.h"

/* Columns of the widest swizzled row that divides a tile: 64, 32 or 16 elements of 2 bytes. */
static inline int64_t fpl_slab_columns(int64_t columns) {
  return columns % 64 == 0 ? 64 : columns % 32 == 0 ? 32 : 16;
}

/* Whether GEMM1 starts from a C that lies in memory, all of it: exchange l2, hbm. */
static inline bool fpl_is_two_phase(const struct fpl_schedule *s) {
  return s->exchange == FPL_EXCHANGE_L2 || s->exchange == FPL_EXCHANGE_HBM;
}

/* Where the running sums of E wait while the loop over n goes on. */
enum fpl_home { FPL_HOME_REGISTER, FPL_HOME_SMEM };

struct fpl_tiling {
  int64_t blocks;   /* of a cluster: cls_m cls_n cls_k */
  int64_t shuffle;  /* blocks of a shuffle group: cls_l / cls_k */
  int64_t groups;   /* shuffle groups that share an E tile: cls_n cls_k / cls_l (cls_reduce) */
  int64_t k_layers; /* blocks that share the k range of a C tile: cls_k, or 1 for a spatial gate */
  int64_t branches; /* products a block runs in GEMM0: 2 for a gated_ffn with sequential gate */
  int64_t steps[FPL_DIMS]; /* cluster tiles that cover each dimension */
  int64_t tiles[FPL_DIMS]; /* block tiles that cover each dimension: ceil(extent / blk) */
  int64_t units;           /* cluster work units: product of steps over spatial dimensions.
                              l2, hbm: units of GEMM0, steps m x n */
  int64_t units_gemm1;     /* l2, hbm: steps m x l; otherwise equal to units */
  int64_t c_steps;         /* C cluster tiles made by one unit */
  int64_t c_kept;          /* C cluster tiles kept at a time */
  int64_t e_kept;          /* E cluster tiles whose sums wait at a time */
  int64_t e_rounds;        /* E cluster tiles finished (and reduced) by one unit */
  int64_t e_parts;         /* clusters that add to one E tile */
  int64_t gemm1_depth;     /* columns of C that one GEMM1 product takes: blk_k for l2 and hbm,
                              otherwise blk_n */
  int64_t gemm1_steps;     /* such products of one E tile, all groups together */
};

/* The schedule must satisfy cls_k | cls_l | cls_n cls_k (see fpl_legal). */
void fpl_tiling_make(const struct fpl_problem *p, const struct fpl_schedule *s,
                     struct fpl_tiling *out);

#endif
