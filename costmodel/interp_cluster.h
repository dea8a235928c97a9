/* State and steps of the interpreter that both dataflows share: one cluster at a time, its blocks
 * with memories of their own. A block sees another block's memory only through a primitive. */
#ifndef FPL_COSTMODEL_INTERP_CLUSTER_H
#define FPL_COSTMODEL_INTERP_CLUSTER_H

#include "costmodel/blockmap.h"
#include "costmodel/counted.h"
#include "tuner/base/arena.h"

enum {
  FPL_INTERP_BLOCKS = 16, /* most blocks of a cluster (CUDA, non-portable cluster size) */
  FPL_INTERP_BRANCHES = 2
};

struct fpl_interp_block {
  struct fpl_block_address at;
  /* shared memory */
  float *a_tile;                      /* [blk_m][blk_k] */
  float *b_tile[FPL_INTERP_BRANCHES]; /* [blk_k][blk_n] */
  float *c_tile;                      /* [blk_m][gemm1_depth], two phases: C loaded */
  float *d_tile;                      /* [gemm1_depth][blk_l] */
  float *strip;                       /* [c_kept][shuffle][blk_m][blk_n] */
  float *staging;                     /* [branches][blk_m][blk_n] or [blk_m][blk_l], f32 */
  float *received;                    /* partial tiles or shares of peers */
  /* registers, or shared memory where footprint.e_home says so */
  float *e_waiting; /* [e_kept][blk_m][blk_l] */
  /* registers */
  float *c_sums;  /* [branches][blk_m][blk_n] */
  float *c_done;  /* [blk_m][blk_n], rounded */
  float *e_sums;  /* [blk_m][blk_l], at work or read back from the workspace */
  float *reduced; /* what a primitive hands back */
};

struct fpl_interp {
  const struct fpl_problem *p;
  const struct fpl_schedule *s;
  struct fpl_tiling t;
  struct fpl_footprint f;
  struct fpl_matrix a, b[FPL_INTERP_BRANCHES], c, d, e;
  float *workspace;  /* [tiles m][tiles l][blk_m][blk_l], f32, in L2 */
  int64_t *arrivals; /* [tiles m][tiles l][groups] */
  int64_t *c_held;   /* [c_kept]: which C cluster tile each slot of the strips holds, or -1 */
  struct fpl_interp_block blocks[FPL_INTERP_BLOCKS];
  struct fpl_traffic traffic;
};

/* Allocates the blocks and the workspace; p, s, t, f are set. FPL_NO_MEMORY. */
enum fpl_status fpl_interp_cluster_make(struct fpl_interp *run, struct fpl_arena *arena,
                                        struct fpl_err *err);

/* Product of a cluster in GEMM0 at steps (tm, tn): fills every block's c_sums. */
void fpl_interp_gemm0(struct fpl_interp *run, int64_t tm, int64_t tn);

/* Writes every block's c_sums (f32) to its staging. */
void fpl_interp_stage_c(struct fpl_interp *run);

/* Activation, product of the branches, rounding: n values. `gate` and `up` are the sums of both
 * branches; `up` is not read unless the problem is gated. */
void fpl_interp_finish_c(const struct fpl_interp *run, size_t n, const float *gate, const float *up,
                         float *c);

/* One GEMM1 product of a block: loads the D tile (step along n, lt), adds C tile . D to e_sums. */
void fpl_interp_multiply_d(struct fpl_interp *run, struct fpl_interp_block *block, int64_t step,
                           int64_t lt, const float *c_tile, enum fpl_home c_home, float *e_sums);

/* A round: reduces and stores the E tiles of the cluster at steps (tm, tl). e_slot: which of the
 * waiting tiles. */
void fpl_interp_finish_e(struct fpl_interp *run, int64_t tm, int64_t tl, int64_t e_slot);

/* The parts of the above that gate spatial needs apart: activation in place, and rounding. */
void fpl_interp_activate(const struct fpl_interp *run, size_t n, float *values);
void fpl_interp_round_c(const struct fpl_interp *run, size_t n, const float *values, float *c);

/* Whole runs. */
void fpl_interp_run_fused(struct fpl_interp *run);
void fpl_interp_run_two_phase(struct fpl_interp *run);

static inline bool fpl_interp_is_two_phase(const struct fpl_interp *run) {
  return run->s->exchange == FPL_EXCHANGE_L2 || run->s->exchange == FPL_EXCHANGE_HBM;
}
static inline size_t fpl_interp_c_floats(const struct fpl_interp *run) {
  return (size_t)run->s->blk_m * (size_t)run->s->blk_n;
}
static inline size_t fpl_interp_e_floats(const struct fpl_interp *run) {
  return (size_t)run->s->blk_m * (size_t)run->s->blk_l;
}

#endif
