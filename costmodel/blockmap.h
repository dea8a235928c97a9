/* Addresses of the blocks of a cluster: MODEL.md section 1.1.
 * Source: FlashFuser section IV-A, Fig. 7. */
#ifndef FPL_COSTMODEL_BLOCKMAP_H
#define FPL_COSTMODEL_BLOCKMAP_H

#include "tuner/core/tiling.h"

/* One block, seen from both products; `im` is the same in both. */
struct fpl_block_address {
  int64_t im, in, ik; /* GEMM0: which tile of C, which part of k (or branch) */
  int64_t il, ir;     /* GEMM1: which tile of E, which shuffle group's part of n */
};

/* 0 <= rank < t->blocks. */
struct fpl_block_address fpl_block_at(const struct fpl_schedule *s, const struct fpl_tiling *t,
                                      int64_t rank);
/* The inverses. */
int64_t fpl_block_rank_gemm0(const struct fpl_schedule *s, int64_t im, int64_t in, int64_t ik);
int64_t fpl_block_rank_gemm1(const struct fpl_schedule *s, const struct fpl_tiling *t, int64_t im,
                             int64_t il, int64_t ir);

#endif
