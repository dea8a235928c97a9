/* Bytes come from the analyzer's chip totals, split in the proportion of what each product moves;
 * copies and matrix instructions are counted from the busiest block's steps. */
#include "costmodel/work.h"

#include "tuner/base/str.h"

enum {
  WGMMA_ROWS = 64,          /* rows of one instruction (PTX ISA, wgmma m64nNk16) */
  WGMMA_K = 16,             /* its step along the reduction */
  SMEM_BYTES_PER_CLK = 128, /* one SM's shared memory (CUDA C++ programming guide: 32 banks x 4) */
  FLOPS_PER_CLK = 4096 /* one SM, dense f16 (H100 white paper: 989 TFLOP/s, 132 SMs, 1.83 GHz) */
};

/* Of one product: what a block multiplies in one unit, and the bytes that set the proportions. */
struct proportions {
  double products; /* tile products; each branch counts */
  double hbm, shared, disjoint, smem;
  double excess;      /* busiest block against the average block, in whole tiles */
  double edge_excess; /* whole tiles against tiles clipped at the edges */
};

static int64_t gemm1_products(const struct fpl_schedule *s, const struct fpl_tiling *t) {
  if (fpl_is_two_phase(s))
    return fpl_ceil_div(t->gemm1_steps, t->groups);
  const bool is_l_spatial = fpl_loops_get(s->loops)->is_spatial[FPL_DIM_L];
  return t->c_steps * (is_l_spatial ? 1 : t->steps[FPL_DIM_L]) * t->shuffle;
}

/* Tiles that the blocks of all units stand over, against tiles that are there. */
static double cover_excess(const struct fpl_tiling *t, enum fpl_dim dim, int64_t cls) {
  return (double)(t->steps[dim] * cls) / (double)t->tiles[dim];
}

static double edge_excess(const struct fpl_tiling *t, enum fpl_dim dim, int64_t extent,
                          int64_t blk) {
  return (double)(t->tiles[dim] * fpl_min_i64(blk, extent)) / (double)extent;
}

static struct proportions weigh_gemm0(const struct fpl_problem *p, const struct fpl_schedule *s,
                                      const struct fpl_tiling *t) {
  const double m = (double)p->m, n = (double)p->n, k = (double)p->k;
  const double branches = (double)fpl_problem_branches(p), g = (double)t->branches;
  const double repeats = s->exchange == FPL_EXCHANGE_RECOMPUTE ? (double)t->steps[FPL_DIM_L] : 1;
  const double layers = s->cls_k > t->k_layers ? s->cls_k : 1;
  const double c_elements = fpl_is_two_phase(s) ? m * n : 0;
  const double a_reads = (double)fpl_problem_a_reads(p);
  const double a_loads = a_reads * (double)t->tiles[FPL_DIM_N] * layers * repeats;
  const double b_loads = branches * n * k * (double)t->tiles[FPL_DIM_M] * repeats;
  const bool is_b_shared = t->tiles[FPL_DIM_M] > 1;
  const double rows = s->blk_m, row_groups = (double)fpl_ceil_div(s->blk_m, WGMMA_ROWS);
  struct proportions x;
  x.products = (double)t->c_steps * (double)t->steps[FPL_DIM_K] * g;
  x.hbm = (double)fpl_problem_a_elements(p) + branches * n * k +
          (s->exchange == FPL_EXCHANGE_HBM ? c_elements : 0);
  x.shared = a_loads + (is_b_shared ? b_loads : 0);
  x.disjoint = c_elements + (is_b_shared ? 0 : b_loads);
  x.smem = x.products * s->blk_k * (rows * (1 + 1 / g) + s->blk_n * (1 + row_groups));
  x.excess = cover_excess(t, FPL_DIM_M, s->cls_m) * cover_excess(t, FPL_DIM_N, s->cls_n) *
             cover_excess(t, FPL_DIM_K, t->k_layers);
  x.edge_excess =
      edge_excess(t, FPL_DIM_M, p->m, s->blk_m) * edge_excess(t, FPL_DIM_N, p->n, s->blk_n);
  return x;
}

static struct proportions weigh_gemm1(const struct fpl_problem *p, const struct fpl_schedule *s,
                                      const struct fpl_tiling *t) {
  const double m = (double)p->m, n = (double)p->n, l = (double)p->l;
  const bool is_two_phase = fpl_is_two_phase(s);
  const double c_loads = is_two_phase ? m * n * (double)t->tiles[FPL_DIM_L] : 0;
  const double d_loads = n * l * (double)t->tiles[FPL_DIM_M];
  const bool is_d_shared = t->tiles[FPL_DIM_M] > 1;
  const double rows = s->blk_m, row_groups = (double)fpl_ceil_div(s->blk_m, WGMMA_ROWS);
  const double c_reads = (is_two_phase ? 1 : 0) + (s->exchange == FPL_EXCHANGE_REGISTER ? 0 : 1);
  struct proportions x;
  x.products = (double)gemm1_products(s, t);
  x.hbm = n * l + m * l + (s->exchange == FPL_EXCHANGE_HBM ? m * n : 0);
  x.shared = c_loads + (is_d_shared ? d_loads : 0);
  x.disjoint = m * l + (is_d_shared ? 0 : d_loads);
  x.smem = x.products * (double)t->gemm1_depth * (rows * c_reads + s->blk_l * (1 + row_groups));
  const double n_cover = is_two_phase ? x.products * (double)t->groups / (double)t->gemm1_steps
                                      : cover_excess(t, FPL_DIM_N, s->cls_n);
  x.excess = cover_excess(t, FPL_DIM_M, s->cls_m) * cover_excess(t, FPL_DIM_L, s->cls_l) * n_cover;
  x.edge_excess =
      edge_excess(t, FPL_DIM_M, p->m, s->blk_m) * edge_excess(t, FPL_DIM_L, p->l, s->blk_l);
  return x;
}

/* MODEL.md 3.4: `products` tiles of blk_m x columns x depth on one SM. */
static double tensor_us(const struct fpl_device *d, int64_t blk_m, double columns, double depth,
                        double products, bool is_a_in_register) {
  const double rows = (double)fpl_round_up(blk_m, WGMMA_ROWS);
  const double flops = 2 * rows * columns * depth * products;
  const double multiply_clk = 2.0 * WGMMA_ROWS * WGMMA_K * columns / FLOPS_PER_CLK;
  const double a_elements = is_a_in_register ? 0 : WGMMA_ROWS * WGMMA_K;
  const double read_clk = (a_elements + columns * WGMMA_K) * FPL_ELEMENT_BYTES / SMEM_BYTES_PER_CLK;
  const double slowdown = read_clk > multiply_clk ? read_clk / multiply_clk : 1;
  return flops * slowdown * (double)d->sms / d->tensor_flops_per_us;
}

/* Rows as a copy brings them: `rows` of each slab of a tile `columns` wide. */
static double slab_rows(double rows, int64_t columns) {
  return rows * (double)fpl_ceil_div(columns, fpl_slab_columns(columns));
}

/* Part `mine` of `whole`, in the proportion mine : other. */
static double take(double whole, double mine, double other) {
  return mine > 0 ? whole * (mine / (mine + other)) : 0;
}

static void fill(const struct proportions *mine, const struct proportions *other, int64_t units,
                 int64_t blocks, const struct fpl_traffic *v, struct fpl_work *out) {
  const double rest = v->bytes[FPL_LEVEL_L2] - v->l2_shared_bytes - v->l2_reduce_bytes;
  const double n = (double)units, block_units = n * (double)blocks;
  out->units = units;
  out->hbm_bytes = take(v->bytes[FPL_LEVEL_HBM], mine->hbm, other->hbm) / n;
  out->l2_shared_bytes = take(v->l2_shared_bytes, mine->shared, other->shared) / n;
  out->l2_disjoint_bytes = take(rest > 0 ? rest : 0, mine->disjoint, other->disjoint) / n;
  out->load_bytes = (out->l2_shared_bytes + out->l2_disjoint_bytes) / (double)blocks *
                    mine->excess * mine->edge_excess;
  out->smem_bytes =
      take(v->bytes[FPL_LEVEL_SMEM], mine->smem, other->smem) / block_units * mine->excess;
}

void fpl_work_make(const struct fpl_problem *p, const struct fpl_schedule *s,
                   const struct fpl_device *d, const struct fpl_tiling *t,
                   const struct fpl_traffic *traffic, struct fpl_work out[FPL_PRODUCTS]) {
  const struct proportions x0 = weigh_gemm0(p, s, t), x1 = weigh_gemm1(p, s, t);
  /* the analyzer has one smem total for the chip; the products may differ in units */
  struct proportions weighed0 = x0, weighed1 = x1;
  weighed0.smem *= (double)t->units;
  weighed1.smem *= (double)t->units_gemm1;
  fill(&weighed0, &weighed1, t->units, t->blocks, traffic, &out[FPL_GEMM0]);
  fill(&weighed1, &weighed0, t->units_gemm1, t->blocks, traffic, &out[FPL_GEMM1]);
  const double g = (double)t->branches;
  struct fpl_work *const w0 = &out[FPL_GEMM0], *const w1 = &out[FPL_GEMM1];
  w0->copies = x0.products * (1 + 1 / g);
  w0->tensor_us = tensor_us(d, s->blk_m, s->blk_n, s->blk_k, x0.products, false);
  w0->stages = x0.products / g;
  w0->copy_rows = w0->stages * slab_rows(s->blk_m + g * s->blk_n, s->blk_k);
  w1->copies = x1.products * (fpl_is_two_phase(s) ? 2 : 1);
  w1->tensor_us = tensor_us(d, s->blk_m, s->blk_l, (double)t->gemm1_depth, x1.products,
                            s->exchange == FPL_EXCHANGE_REGISTER);
  w1->stages = x1.products;
  w1->copy_rows =
      w1->stages * slab_rows(s->blk_l + (fpl_is_two_phase(s) ? s->blk_m : 0), t->gemm1_depth);
}
