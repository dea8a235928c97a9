/* Work of the two products of a candidate, per cluster unit: what the waves of the time model run.
 * Source: MODEL.md sections 3.2 (split of the bytes) and 3.4 (block amounts). */
#ifndef FPL_COSTMODEL_WORK_H
#define FPL_COSTMODEL_WORK_H

#include "costmodel/analyzer.h"
#include "tuner/core/device.h"

enum { FPL_GEMM0, FPL_GEMM1, FPL_PRODUCTS };

struct fpl_work {
  int64_t units;
  double hbm_bytes;         /* of one unit, average */
  double l2_shared_bytes;   /* of one unit, average */
  double l2_disjoint_bytes; /* of one unit, average */
  double load_bytes;        /* one unit, busiest block: from L2 into its SM */
  double smem_bytes;        /* one unit, busiest block */
  double copies;            /* one unit, busiest block */
  double copy_rows;         /* one unit, busiest block: slab rows that those copies bring */
  double tensor_us;         /* one unit, busiest block */
  double stages;            /* one unit, busiest block: turns of the ring */
};

/* Splits `traffic` between the products and adds what a block does; cannot fail. */
void fpl_work_make(const struct fpl_problem *p, const struct fpl_schedule *s,
                   const struct fpl_device *d, const struct fpl_tiling *t,
                   const struct fpl_traffic *traffic, struct fpl_work out[FPL_PRODUCTS]);

#endif
