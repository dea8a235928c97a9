/* Time model: predicted time of a candidate, term by term. No allocation, no GPU.
 * Source: MODEL.md section 3 (every term with its source) and section 4 (the plain form). */
#ifndef FPL_COSTMODEL_TIMEMODEL_H
#define FPL_COSTMODEL_TIMEMODEL_H

#include "costmodel/analyzer.h"
#include "tuner/core/ports.h"

/* One of the two products, over all waves; microseconds. The chip's levels, the ring and the
 * consumers work at the same time: within a wave the slowest one counts. */
struct fpl_product_terms {
  double hbm_us;     /* bytes from HBM, whole chip */
  double l2_us;      /* shared and disjoint L2 reads, whole chip */
  double issue_us;   /* the busiest block's copies, or their rows where they come over L2 twice */
  double smem_us;    /* its shared-memory traffic */
  double tensor_us;  /* its matrix instructions at the tile's efficiency */
  double consume_us; /* the larger of those two, and what each stage costs beside */
  double ring_us;    /* turns of its ring's slots, and waiting for HBM; gemm1: less prefetch */
  double stream_us;  /* sum over waves of the largest of hbm, l2, issue, consume, ring */
};

/* total_us = launch + fill + gemm0.stream + exchange + handover + gemm1.stream + reduce. */
struct fpl_time_terms {
  double launch_us;
  double fill_us; /* first latency: nothing can be multiplied before */
  struct fpl_product_terms gemm0, gemm1;
  double exchange_us; /* finishing C, all-exchange, shuffle: GEMM1 waits for it */
  double handover_us; /* two-phase: C through L2 (l2) or second kernel (hbm) */
  double reduce_us;   /* of E, over DSM and in L2 */
  double prefetch_us; /* of gemm1's ring: spent behind exchange or handover (not in the sum) */
  double total_us;
};

/* Predicted time, cold weights, > 0 and finite for a legal candidate; (t, f) from fpl_legal,
 * `traffic` from fpl_analyze. Never less when a byte count grows or a rate of d falls. `out` may be
 * NULL. */
double fpl_time_us(const struct fpl_problem *p, const struct fpl_schedule *s,
                   const struct fpl_device *d, const struct fpl_tiling *t,
                   const struct fpl_footprint *f, const struct fpl_traffic *traffic,
                   struct fpl_time_terms *out);

/* The paper's plain form: max over levels of V / B, B of dsm by cluster size (FlashFuser IV-C). */
double fpl_time_plain_us(const struct fpl_device *d, const struct fpl_schedule *s,
                         const struct fpl_traffic *traffic);

/* Analyzer and time model behind the port; no state. */
struct fpl_cost_port fpl_cost_port(void);
struct fpl_cost_port fpl_cost_plain_port(void);

#endif
