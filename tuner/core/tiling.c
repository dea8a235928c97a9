/* Counts of tiles, steps and units. */
#include "tuner/core/tiling.h"

#include "tuner/base/str.h"

/* Product of the steps of `dims` among the temporal loops inside loop `outer`. */
static int64_t steps_inside(const struct fpl_loops *loops, const int64_t *steps, enum fpl_dim outer,
                            enum fpl_dim a, enum fpl_dim b) {
  int64_t product = 1;
  bool is_inside = false;
  for (int i = 0; i < loops->n_temporal; i++) {
    const int dim = loops->temporal[i];
    if (is_inside && (dim == (int)a || dim == (int)b))
      product *= steps[dim];
    if (dim == (int)outer)
      is_inside = true;
  }
  return product;
}

static int64_t temporal_steps(const struct fpl_loops *loops, const int64_t *steps, enum fpl_dim d) {
  return loops->is_spatial[d] ? 1 : steps[d];
}

void fpl_tiling_make(const struct fpl_problem *p, const struct fpl_schedule *s,
                     struct fpl_tiling *out) {
  const bool is_gated = p->kind == FPL_KIND_GATED_FFN;
  const bool is_split_gate = is_gated && s->gate == FPL_GATE_SPATIAL;
  struct fpl_tiling t = {0};
  t.blocks = (int64_t)s->cls_m * s->cls_n * s->cls_k;
  t.shuffle = s->cls_l / s->cls_k;
  t.groups = (int64_t)s->cls_n * s->cls_k / s->cls_l;
  t.k_layers = is_split_gate ? 1 : s->cls_k;
  t.branches = is_gated && !is_split_gate ? 2 : 1;
  const int64_t extent[FPL_DIMS] = {p->m, p->n, p->k, p->l};
  const int64_t blk[FPL_DIMS] = {s->blk_m, s->blk_n, s->blk_k, s->blk_l};
  const int64_t cls[FPL_DIMS] = {s->cls_m, s->cls_n, t.k_layers, s->cls_l};
  for (int d = 0; d < FPL_DIMS; d++) {
    t.steps[d] = fpl_ceil_div(extent[d], blk[d] * cls[d]);
    t.tiles[d] = fpl_ceil_div(extent[d], blk[d]);
  }
  const struct fpl_loops *const loops = fpl_loops_get(s->loops);
  if (fpl_is_two_phase(s)) {
    t.units = t.steps[FPL_DIM_M] * t.steps[FPL_DIM_N];
    t.units_gemm1 = t.steps[FPL_DIM_M] * t.steps[FPL_DIM_L];
    t.c_steps = t.c_kept = t.e_kept = t.e_rounds = t.e_parts = 1;
    t.gemm1_depth = s->blk_k;
    t.gemm1_steps = fpl_ceil_div(p->n, s->blk_k);
    *out = t;
    return;
  }
  t.units = 1;
  for (int d = 0; d < FPL_DIMS; d++)
    if (loops->is_spatial[d])
      t.units *= t.steps[d];
  t.units_gemm1 = t.units;
  const int64_t m_steps = temporal_steps(loops, t.steps, FPL_DIM_M);
  const int64_t n_steps = temporal_steps(loops, t.steps, FPL_DIM_N);
  const int64_t l_steps = temporal_steps(loops, t.steps, FPL_DIM_L);
  t.c_steps = m_steps * n_steps;
  t.c_kept = l_steps > 1 ? steps_inside(loops, t.steps, FPL_DIM_L, FPL_DIM_M, FPL_DIM_N) : 1;
  t.e_kept = n_steps > 1 ? steps_inside(loops, t.steps, FPL_DIM_N, FPL_DIM_M, FPL_DIM_L) : 1;
  t.e_rounds = m_steps * l_steps;
  t.e_parts = loops->is_spatial[FPL_DIM_N] ? t.steps[FPL_DIM_N] : 1;
  t.gemm1_depth = s->blk_n;
  t.gemm1_steps = t.tiles[FPL_DIM_N];
  *out = t;
}
