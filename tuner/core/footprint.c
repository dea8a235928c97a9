/* Shared-memory map, in the order of the regions in codegen/skeletons/chain_sm90.cuh. */
#include "tuner/core/footprint.h"

#include "tuner/base/str.h"

int64_t fpl_consumer_threads(const struct fpl_schedule *s) {
  return s->blk_m > 64 ? 256 : 128;
}

static bool is_reduced_in(const struct fpl_schedule *s, enum fpl_reduce level) {
  return s->reduce == (int32_t)level || s->reduce == FPL_REDUCE_DSM_L2;
}

void fpl_footprint_make(const struct fpl_tiling *t, const struct fpl_schedule *s,
                        struct fpl_footprint *out) {
  const int64_t e = FPL_ELEMENT_BYTES;
  const int64_t m = s->blk_m, n = s->blk_n, k = s->blk_k, l = s->blk_l;
  const bool is_two_phase = s->exchange == FPL_EXCHANGE_L2 || s->exchange == FPL_EXCHANGE_HBM;
  struct fpl_footprint f = {0};
  const int64_t ab_bytes = (m + t->branches * n) * k * e;
  const int64_t cd_bytes = (is_two_phase ? m + l : l) * n * e;
  f.stage_bytes = fpl_round_up(fpl_max_i64(ab_bytes, cd_bytes), FPL_SWIZZLE_ALIGN);
  f.ring_bytes = s->stages * f.stage_bytes;
  if (s->exchange != FPL_EXCHANGE_REGISTER && !is_two_phase)
    f.strip_bytes = fpl_round_up(t->c_kept * t->shuffle * m * n * e, FPL_SWIZZLE_ALIGN);
  const int64_t c_partial_bytes = m * (n + FPL_PAD_FLOATS) * 4;
  const int64_t e_partial_bytes = m * (l + FPL_PAD_FLOATS) * 4;
  if (s->cls_k > 1) {
    f.staging_bytes = t->branches * c_partial_bytes;
    f.exchange_bytes = is_two_phase ? (s->cls_k - 1) * t->branches * c_partial_bytes / s->cls_k
                                    : (s->cls_k - 1) * t->branches * c_partial_bytes;
  }
  if (s->reduce != FPL_REDUCE_NONE && !(t->e_rounds == 1 && e_partial_bytes <= f.ring_bytes))
    f.staging_bytes = fpl_max_i64(f.staging_bytes, e_partial_bytes);
  if (is_reduced_in(s, FPL_REDUCE_DSM))
    f.reduce_bytes = (t->groups - 1) * (e_partial_bytes / t->groups);
  const int64_t threads = fpl_consumer_threads(s);
  const int64_t c_sums = t->branches * fpl_ceil_div(m * n, threads);
  const int64_t e_sums = fpl_ceil_div(m * l, threads);
  f.smem_bytes = f.ring_bytes + f.strip_bytes + f.staging_bytes + f.exchange_bytes +
                 f.reduce_bytes + FPL_BARRIER_BYTES + FPL_SWIZZLE_ALIGN;
  f.accumulators = fpl_max_i64(c_sums, e_sums);
  f.e_home = FPL_HOME_REGISTER;
  if (t->e_kept > 1 && c_sums + t->e_kept * e_sums > FPL_ACCUMULATOR_MOST) {
    f.e_home = FPL_HOME_SMEM;
    f.e_bytes = t->e_kept * m * l * 4;
    f.smem_bytes += f.e_bytes;
  }
  *out = f;
}
