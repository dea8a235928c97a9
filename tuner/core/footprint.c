/* Shared-memory maps, in the order of the regions in codegen/skeletons: chain_plan.cuh,
 * phases_plan.cuh. */
#include "tuner/core/footprint.h"

#include "tuner/base/str.h"

enum { OCTET = 8 }; /* columns of E that travel together, phases_sm90.cuh */

int64_t fpl_consumer_threads(const struct fpl_schedule *s) {
  return s->blk_m > 64 ? 256 : 128;
}

static bool is_reduced_in(const struct fpl_schedule *s, enum fpl_reduce level) {
  return s->reduce == (int32_t)level || s->reduce == FPL_REDUCE_DSM_L2;
}

/* Sums of a tile of `columns` that one of `n_shares` blocks adds up (pipe/shares.cuh). */
static int64_t share_bytes(const struct fpl_schedule *s, int64_t columns, int64_t n_shares) {
  const int64_t rows = fpl_round_up(s->blk_m, FPL_MMA_ROWS);
  return fpl_ceil_div(columns / OCTET, n_shares) * OCTET * rows * (int64_t)sizeof(float);
}

/* Two rings, one after the other in the same memory; what peers send of E lies behind the second. */
static void make_two_phase(const struct fpl_tiling *t, const struct fpl_schedule *s,
                           struct fpl_footprint *f) {
  const int64_t e = FPL_ELEMENT_BYTES, m = s->blk_m, k = s->blk_k, l = s->blk_l;
  const int64_t b_bytes = t->branches * s->blk_n * k * e;
  f->stage_bytes = m * k * e + b_bytes;
  f->ring_bytes = s->stages * f->stage_bytes;
  f->stages_e =
      fpl_min_i64(FPL_STAGES_E_MOST, (f->ring_bytes - f->reduce_bytes) / ((m + l) * k * e));
  f->exchange_bytes = (s->cls_k - 1) * t->branches * share_bytes(s, s->blk_n, s->cls_k);
  /* Fewer rows than a wgmma reads: it reads on, over what follows the last A tile. */
  const int64_t overrun_bytes = fpl_max_i64(0, (FPL_MMA_ROWS - m) * 2 * FPL_MMA_ROWS - b_bytes);
  f->smem_bytes =
      f->ring_bytes + overrun_bytes + f->exchange_bytes + FPL_BARRIER_BYTES + FPL_SWIZZLE_ALIGN;
}

static void make_fused(const struct fpl_tiling *t, const struct fpl_schedule *s,
                       struct fpl_footprint *f) {
  const int64_t e = FPL_ELEMENT_BYTES;
  const int64_t m = s->blk_m, n = s->blk_n, k = s->blk_k, l = s->blk_l;
  f->stage_bytes =
      fpl_round_up(fpl_max_i64((m + t->branches * n) * k * e, l * n * e), FPL_SWIZZLE_ALIGN);
  f->ring_bytes = s->stages * f->stage_bytes;
  if (s->exchange != FPL_EXCHANGE_REGISTER)
    f->strip_bytes = fpl_round_up(t->c_kept * t->shuffle * m * n * e, FPL_SWIZZLE_ALIGN);
  if (is_reduced_in(s, FPL_REDUCE_L2))
    f->staging_bytes = share_bytes(s, l, is_reduced_in(s, FPL_REDUCE_DSM) ? t->groups : 1);
  f->exchange_bytes = (s->cls_k - 1) * t->branches * share_bytes(s, n, 1);
  /* Fewer rows than a wgmma reads: it reads on, over what follows the last tile. */
  const int64_t overrun_bytes = fpl_max_i64(0, (FPL_MMA_ROWS - m) * 2 * FPL_MMA_ROWS);
  f->smem_bytes = f->ring_bytes + f->strip_bytes + f->staging_bytes + f->exchange_bytes +
                  f->reduce_bytes + FPL_BARRIER_BYTES + overrun_bytes + FPL_SWIZZLE_ALIGN;
}

void fpl_footprint_make(const struct fpl_tiling *t, const struct fpl_schedule *s,
                        struct fpl_footprint *out) {
  struct fpl_footprint f = {.e_home = FPL_HOME_REGISTER};
  const int64_t rows = fpl_round_up(s->blk_m, FPL_MMA_ROWS), threads = fpl_consumer_threads(s);
  const int64_t c_sums = fpl_ceil_div(t->branches * rows * s->blk_n, threads);
  const int64_t e_sums = fpl_ceil_div(rows * s->blk_l, threads);
  f.accumulators = fpl_max_i64(c_sums, e_sums);
  if (is_reduced_in(s, FPL_REDUCE_DSM))
    f.reduce_bytes = (t->groups - 1) * share_bytes(s, s->blk_l, t->groups);
  if (fpl_is_two_phase(s))
    make_two_phase(t, s, &f);
  else
    make_fused(t, s, &f);
  if (!fpl_is_two_phase(s) && t->e_kept > 1 && c_sums + t->e_kept * e_sums > FPL_ACCUMULATOR_MOST) {
    f.e_home = FPL_HOME_SMEM;
    f.e_bytes = t->e_kept * s->blk_m * s->blk_l * (int64_t)sizeof(float);
    f.smem_bytes += f.e_bytes;
  }
  *out = f;
}
