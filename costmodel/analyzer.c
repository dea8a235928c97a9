/* Bytes per level. Every term is a product of a count (how often, over the whole chip) and the
 * bytes of one tile; MODEL.md section 2 derives the counts and numbers the equations. All
 * arithmetic is in double: counts times bytes stay below 2^53, so that every result is an exact
 * integer. */
#include "costmodel/analyzer.h"

const char *const fpl_level_names[FPL_LEVELS + 1] = {"register", "smem", "dsm", "l2", "hbm", NULL};

enum {
  SUM_BYTES = 4,      /* f32 */
  WGMMA_ROWS = 64,    /* rows of A one instruction multiplies; B is read again for each 64 */
  REDUCTION_STEP = 16 /* elements of the reduction in one instruction (PTX ISA, wgmma m64nNk16) */
};

/* How often things happen, whole chip. */
struct counts {
  bool is_two_phase;
  bool is_dsm_reduced, is_l2_reduced;
  double branches_of_problem; /* matrices in B */
  double layers;              /* k layers that read the same A: 2 for a spatial gate */
  double repeats;             /* times each C tile is made: steps[l] for recompute, else 1 */
  double c_blocks;            /* (block, GEMM0 run) pairs, empty ones included */
  double e_blocks;            /* (block, round) pairs, empty ones included */
  double e_tiles;             /* E tiles that are not empty */
  double gemm0_products;      /* (m, n, k) tile triples multiplied, a branch counts once */
  double gemm1_products;      /* (m, step along n, l) triples multiplied */
  double e_waits; /* (block, m, n, l step) with a product, if E waits in shared memory */
};

/* Bytes of one tile. */
struct tile_bytes {
  double a, b, c, d;     /* elements */
  double c_step;         /* of C that one GEMM1 product takes */
  double c_sums, e_sums; /* f32 */
};

static struct counts count(const struct fpl_problem *p, const struct fpl_schedule *s,
                           const struct fpl_tiling *t, const struct fpl_footprint *f) {
  const double m_tiles = (double)t->tiles[FPL_DIM_M], n_tiles = (double)t->tiles[FPL_DIM_N],
               k_tiles = (double)t->tiles[FPL_DIM_K], l_tiles = (double)t->tiles[FPL_DIM_L];
  struct counts c = {0};
  c.is_two_phase = fpl_is_two_phase(s);
  c.is_dsm_reduced = s->reduce == FPL_REDUCE_DSM || s->reduce == FPL_REDUCE_DSM_L2;
  c.is_l2_reduced = s->reduce == FPL_REDUCE_L2 || s->reduce == FPL_REDUCE_DSM_L2;
  c.branches_of_problem = (double)fpl_problem_branches(p);
  c.layers = s->cls_k > t->k_layers ? (double)s->cls_k : 1;
  c.repeats = s->exchange == FPL_EXCHANGE_RECOMPUTE ? (double)t->steps[FPL_DIM_L] : 1;
  c.c_blocks = (double)t->units * (double)t->c_steps * (double)t->blocks;
  c.e_blocks = (double)t->units_gemm1 * (double)t->e_rounds * (double)t->blocks;
  c.e_tiles = m_tiles * l_tiles;
  c.gemm0_products = c.repeats * m_tiles * n_tiles * k_tiles * c.layers * (double)t->branches;
  c.gemm1_products = m_tiles * (double)t->gemm1_steps * l_tiles;
  if (f->e_home == FPL_HOME_SMEM) {
    const int64_t strips = (t->tiles[FPL_DIM_N] + t->shuffle - 1) / t->shuffle;
    c.e_waits = m_tiles * l_tiles * (double)strips;
  }
  return c;
}

static struct tile_bytes size_tiles(const struct fpl_schedule *s, const struct fpl_tiling *t) {
  const double m = s->blk_m, n = s->blk_n, k = s->blk_k, l = s->blk_l, e = FPL_ELEMENT_BYTES;
  const double depth = (double)t->gemm1_depth;
  return (struct tile_bytes){.a = m * k * e,
                             .b = n * k * e,
                             .c = m * n * e,
                             .d = l * depth * e,
                             .c_step = m * depth * e,
                             .c_sums = m * n * SUM_BYTES,
                             .e_sums = m * l * SUM_BYTES};
}

/* MODEL.md 2.2 */
static double hbm_bytes(const struct fpl_problem *p, const struct fpl_schedule *s,
                        const struct counts *c) {
  const double m = (double)p->m, n = (double)p->n, k = (double)p->k, l = (double)p->l;
  const double a = (double)fpl_problem_a_elements(p);
  const double c_trips = s->exchange == FPL_EXCHANGE_HBM ? 2 : 0;
  return FPL_ELEMENT_BYTES * (a + c->branches_of_problem * n * k + n * l + m * l + c_trips * m * n);
}

/* MODEL.md 2.3 */
static void add_l2(const struct fpl_problem *p, const struct fpl_tiling *t, const struct counts *c,
                   const struct tile_bytes *b, struct fpl_traffic *out) {
  const double m = (double)p->m, n = (double)p->n, k = (double)p->k, l = (double)p->l;
  const double m_tiles = (double)t->tiles[FPL_DIM_M], e = FPL_ELEMENT_BYTES;
  const double a_reads = (double)fpl_problem_a_reads(p);
  const double a_loads = e * a_reads * (double)t->tiles[FPL_DIM_N] * c->layers * c->repeats;
  const double b_loads = e * n * k * c->branches_of_problem * m_tiles * c->repeats;
  const double d_loads = e * n * l * m_tiles;
  const double c_loads = c->is_two_phase ? e * m * n * (double)t->tiles[FPL_DIM_L] : 0;
  const double c_stores = c->is_two_phase ? e * m * n : 0;
  const double e_stores = e * m * l;
  double workspace = 0;
  if (c->is_l2_reduced) {
    const double parts = (double)t->e_parts * (c->is_dsm_reduced ? 1 : (double)t->groups);
    out->l2_reduce_bytes = c->e_tiles * parts * b->e_sums;
    workspace = out->l2_reduce_bytes + 2 * c->e_tiles * b->e_sums;
  }
  out->bytes[FPL_LEVEL_L2] =
      a_loads + b_loads + d_loads + c_loads + c_stores + e_stores + workspace;
  out->l2_shared_bytes = a_loads + c_loads + (m_tiles > 1 ? b_loads + d_loads : 0);
}

/* MODEL.md 2.4 */
static void add_dsm(const struct fpl_schedule *s, const struct fpl_tiling *t,
                    const struct counts *c, const struct tile_bytes *b, struct fpl_traffic *out) {
  const double peers = s->cls_k - 1, partials = (double)t->branches * b->c_sums;
  struct fpl_dsm_traffic *const dsm = &out->dsm;
  if (c->is_two_phase)
    dsm->reduce_scatter = c->c_blocks * peers * partials / s->cls_k;
  else
    dsm->all_exchange = c->c_blocks * peers * partials;
  dsm->shuffle = c->is_two_phase ? 0 : c->c_blocks * (double)(t->shuffle - 1) * b->c;
  if (c->is_dsm_reduced)
    dsm->reduce_scatter += c->e_blocks * (double)(t->groups - 1) * (b->e_sums / (double)t->groups);
  out->bytes[FPL_LEVEL_DSM] = dsm->all_exchange + dsm->shuffle + dsm->reduce_scatter;
}

/* MODEL.md 2.5 */
static double smem_bytes(const struct fpl_schedule *s, const struct fpl_tiling *t,
                         const struct counts *c, const struct tile_bytes *b,
                         const struct fpl_traffic *so_far) {
  const double row_groups = (double)((s->blk_m + WGMMA_ROWS - 1) / WGMMA_ROWS);
  const double g = (double)t->branches;
  const bool is_c_in_register = s->exchange == FPL_EXCHANGE_REGISTER;
  const double fills = c->gemm0_products * (b->a / g + b->b) +
                       c->gemm1_products * (b->d + (c->is_two_phase ? b->c_step : 0));
  const double operands =
      c->gemm0_products * (b->a + row_groups * b->b) +
      c->gemm1_products * ((is_c_in_register ? 0 : b->c_step) + row_groups * b->d);
  const double strip = c->is_two_phase || is_c_in_register ? 0 : c->c_blocks * b->c;
  double staging = 0, added = 0;
  if (s->cls_k > 1) {
    staging += c->c_blocks * g * b->c_sums;
    added += c->c_blocks * g * b->c_sums * (c->is_two_phase ? 1 : s->cls_k);
  }
  /* Two phases send from registers, and keep their own part there. */
  const double own = c->is_two_phase ? 1 : 0, groups = (double)t->groups;
  if (s->reduce != FPL_REDUCE_NONE && !c->is_two_phase)
    staging += c->e_blocks * b->e_sums;
  if (c->is_dsm_reduced)
    added += c->e_blocks * (groups - own) * (b->e_sums / groups);
  const double waits = 2 * c->e_waits * b->e_sums;
  return fills + operands + strip + so_far->bytes[FPL_LEVEL_DSM] + staging + added + waits;
}

/* MODEL.md 2.6 */
static double register_bytes(const struct fpl_schedule *s, const struct fpl_tiling *t,
                             const struct counts *c, const struct tile_bytes *b) {
  const double gemm0_steps = c->gemm0_products * (double)(s->blk_k / REDUCTION_STEP);
  const double gemm1_steps = c->gemm1_products * (double)(t->gemm1_depth / REDUCTION_STEP);
  const double c_moves = s->exchange == FPL_EXCHANGE_REGISTER ? c->c_blocks * b->c : 0;
  return 2 * (gemm0_steps * b->c_sums + gemm1_steps * b->e_sums) + c_moves;
}

void fpl_analyze(const struct fpl_problem *p, const struct fpl_schedule *s,
                 const struct fpl_tiling *t, const struct fpl_footprint *f,
                 struct fpl_traffic *out) {
  const struct counts c = count(p, s, t, f);
  const struct tile_bytes b = size_tiles(s, t);
  *out = (struct fpl_traffic){0};
  out->bytes[FPL_LEVEL_HBM] = hbm_bytes(p, s, &c);
  add_l2(p, t, &c, &b, out);
  add_dsm(s, t, &c, &b, out);
  out->bytes[FPL_LEVEL_SMEM] = smem_bytes(s, t, &c, &b, out);
  out->bytes[FPL_LEVEL_REGISTER] = register_bytes(s, t, &c, &b);
}
