/* Footprint: shared memory and registers of one block, region by region. One formula for legality,
 * for the analyzer's placement, and (as a static_assert) for the skeletons. */
#ifndef FPL_CORE_FOOTPRINT_H
#define FPL_CORE_FOOTPRINT_H

#include "tuner/core/tiling.h"

enum {
  FPL_SWIZZLE_ALIGN = 1024,  /* bytes; alignment of a 128-byte-swizzled tile (PTX ISA, swizzling) */
  FPL_BARRIER_BYTES = 1024,  /* mbarriers of a block */
  FPL_STAGES_E_MOST = 16,    /* of a two-phase block's second ring, so that its barriers fit */
  FPL_MMA_ROWS = 64,         /* rows that one wgmma reads and sums (PTX ISA, wgmma m64nNk16) */
  FPL_ACCUMULATOR_MOST = 128 /* f32 sums per thread: what a consumer of 224 registers holds beside
                                addresses (measured: no spills at 128) */
};

struct fpl_footprint {
  int64_t stage_bytes;   /* one ring stage: max(A + B tiles, D tile); l2, hbm: A + B tiles */
  int64_t ring_bytes;    /* stages x stage_bytes */
  int64_t stages_e;      /* l2, hbm: stages of C + D tiles in the same memory, in phase 2; else 0 */
  int64_t strip_bytes;   /* C tiles kept, own and gathered */
  int64_t staging_bytes; /* E's sums on their way to L2: the block's share, or all */
  int64_t exchange_bytes; /* partial C tiles received */
  int64_t reduce_bytes;   /* partial E shares received */
  int64_t e_bytes;        /* sums of E that wait in shared memory */
  int64_t smem_bytes;     /* all, with barriers and alignment */
  int64_t accumulators;   /* f32 sums per consumer thread, the larger of both products */
  enum fpl_home e_home;   /* registers where they suffice, else shared memory */
};

/* Consumer threads of a block: 128 for each 64 rows, at least 128, at most 256. */
int64_t fpl_consumer_threads(const struct fpl_schedule *s);

void fpl_footprint_make(const struct fpl_tiling *t, const struct fpl_schedule *s,
                        struct fpl_footprint *out);

#endif
