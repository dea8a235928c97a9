/* Steps of a cluster: MODEL.md section 1.3, steps 1 and 6, and what surrounds them. */
#include "costmodel/interp_cluster.h"

#include "costmodel/element.h"
#include "costmodel/primitives.h"
#include "tuner/base/str.h"

#include <string.h>

enum { FLOAT_BYTES = 4 };

static float *alloc_floats(struct fpl_arena *arena, int64_t n, bool *is_broken) {
  float *const floats = fpl_arena_alloc(arena, (size_t)n * sizeof *floats);
  *is_broken = *is_broken || !floats;
  return floats;
}

static void make_block(const struct fpl_interp *run, struct fpl_arena *arena,
                       struct fpl_interp_block *block, bool *is_broken) {
  const struct fpl_schedule *const s = run->s;
  const struct fpl_tiling *const t = &run->t;
  const int64_t c_floats = (int64_t)fpl_interp_c_floats(run);
  const int64_t e_floats = (int64_t)fpl_interp_e_floats(run);
  const int64_t c_sums = t->branches * c_floats;
  const int64_t most = fpl_max_i64(c_sums, e_floats);
  block->a_tile = alloc_floats(arena, (int64_t)s->blk_m * s->blk_k, is_broken);
  for (int i = 0; i < t->branches; i++)
    block->b_tile[i] = alloc_floats(arena, (int64_t)s->blk_n * s->blk_k, is_broken);
  const int64_t depth = t->gemm1_depth;
  block->c_tile = alloc_floats(arena, s->blk_m * depth, is_broken);
  block->d_tile = alloc_floats(arena, depth * s->blk_l, is_broken);
  block->strip = alloc_floats(arena, t->c_kept * t->shuffle * c_floats, is_broken);
  block->staging = alloc_floats(arena, most, is_broken);
  block->received = alloc_floats(
      arena, fpl_max_i64((s->cls_k - 1) * c_sums, (t->groups - 1) * e_floats), is_broken);
  block->e_waiting = alloc_floats(arena, t->e_kept * e_floats, is_broken);
  block->c_sums = alloc_floats(arena, c_sums, is_broken);
  block->c_done = alloc_floats(arena, c_floats, is_broken);
  block->e_sums = alloc_floats(arena, e_floats, is_broken);
  block->reduced = alloc_floats(arena, most, is_broken);
}

enum fpl_status fpl_interp_cluster_make(struct fpl_interp *run, struct fpl_arena *arena,
                                        struct fpl_err *err) {
  bool is_broken = false;
  for (int64_t rank = 0; rank < run->t.blocks; rank++) {
    run->blocks[rank].at = fpl_block_at(run->s, &run->t, rank);
    make_block(run, arena, &run->blocks[rank], &is_broken);
  }
  const int64_t e_tiles = run->t.tiles[FPL_DIM_M] * run->t.tiles[FPL_DIM_L];
  run->workspace = alloc_floats(arena, e_tiles * (int64_t)fpl_interp_e_floats(run), &is_broken);
  run->arrivals = fpl_arena_alloc(arena, (size_t)(e_tiles * run->t.groups) * sizeof *run->arrivals);
  run->c_held = fpl_arena_alloc(arena, (size_t)run->t.c_kept * sizeof *run->c_held);
  if (is_broken || !run->arrivals || !run->c_held)
    return fpl_fail(err, FPL_NO_MEMORY, "interpreter: out of memory for the blocks of a cluster");
  return FPL_OK;
}

static bool is_empty(const struct fpl_interp *run, enum fpl_dim dim, int64_t tile) {
  return tile >= run->t.tiles[dim];
}

/* One k tile of one block. */
static void multiply_ab(struct fpl_interp *run, struct fpl_interp_block *block, int64_t mt,
                        int64_t nt, int64_t kt) {
  const struct fpl_schedule *const s = run->s;
  const struct fpl_window a = {mt * s->blk_m, kt * s->blk_k, s->blk_m, s->blk_k};
  const struct fpl_window b = {nt * s->blk_n, kt * s->blk_k, s->blk_n, s->blk_k};
  const int64_t first_branch = s->gate == FPL_GATE_SPATIAL ? block->at.ik : 0;
  fpl_counted_load(&run->a, &a, FPL_TILE_AS_STORED, block->a_tile, &run->traffic);
  for (int64_t i = 0; i < run->t.branches; i++)
    fpl_counted_load(&run->b[first_branch + i], &b, FPL_TILE_TURNED, block->b_tile[i],
                     &run->traffic);
  for (int64_t i = 0; i < run->t.branches; i++)
    fpl_counted_product(s->blk_m, s->blk_k, s->blk_n, block->a_tile, FPL_HOME_SMEM,
                        block->b_tile[i], block->c_sums + (size_t)i * fpl_interp_c_floats(run),
                        &run->traffic);
}

void fpl_interp_gemm0(struct fpl_interp *run, int64_t tm, int64_t tn) {
  const struct fpl_tiling *const t = &run->t;
  for (int64_t rank = 0; rank < t->blocks; rank++) {
    struct fpl_interp_block *const block = &run->blocks[rank];
    const int64_t mt = tm * run->s->cls_m + block->at.im;
    const int64_t nt = tn * run->s->cls_n + block->at.in;
    memset(block->c_sums, 0,
           (size_t)t->branches * fpl_interp_c_floats(run) * sizeof *block->c_sums);
    if (is_empty(run, FPL_DIM_M, mt) || is_empty(run, FPL_DIM_N, nt))
      continue;
    const int64_t layer = t->k_layers > 1 ? block->at.ik : 0;
    for (int64_t tk = 0; tk < t->steps[FPL_DIM_K]; tk++) {
      const int64_t kt = tk * t->k_layers + layer;
      if (!is_empty(run, FPL_DIM_K, kt))
        multiply_ab(run, block, mt, nt, kt);
    }
  }
}

void fpl_interp_stage_c(struct fpl_interp *run) {
  for (int64_t rank = 0; rank < run->t.blocks; rank++) {
    struct fpl_interp_block *const block = &run->blocks[rank];
    fpl_counted_copy(block->c_sums, block->staging,
                     (size_t)run->t.branches * fpl_interp_c_floats(run), FLOAT_BYTES,
                     FPL_LEVEL_SMEM, &run->traffic);
  }
}

void fpl_interp_activate(const struct fpl_interp *run, size_t n, float *values) {
  for (size_t i = 0; i < n; i++)
    values[i] = (float)fpl_act_apply(run->p->act, values[i]);
}

void fpl_interp_round_c(const struct fpl_interp *run, size_t n, const float *values, float *c) {
  for (size_t i = 0; i < n; i++)
    c[i] = fpl_element_round(run->p->dtype, values[i]);
}

void fpl_interp_finish_c(const struct fpl_interp *run, size_t n, const float *gate, const float *up,
                         float *c) {
  memcpy(c, gate, n * sizeof *c);
  fpl_interp_activate(run, n, c);
  if (run->p->kind == FPL_KIND_GATED_FFN)
    for (size_t i = 0; i < n; i++)
      c[i] *= up[i];
  fpl_interp_round_c(run, n, c, c);
}

void fpl_interp_multiply_d(struct fpl_interp *run, struct fpl_interp_block *block, int64_t step,
                           int64_t lt, const float *c_tile, enum fpl_home c_home, float *e_sums) {
  const struct fpl_schedule *const s = run->s;
  const int64_t depth = run->t.gemm1_depth;
  const struct fpl_window d = {lt * s->blk_l, step * depth, s->blk_l, depth};
  fpl_counted_load(&run->d, &d, FPL_TILE_TURNED, block->d_tile, &run->traffic);
  fpl_counted_product(s->blk_m, depth, s->blk_l, c_tile, c_home, block->d_tile, e_sums,
                      &run->traffic);
}

/* A row share of the E tile (mt, lt): whole tiles are the only share of one. */
struct share {
  int64_t mt, lt;
  int64_t index, n_shares;
};

static void store_share(struct fpl_interp *run, const struct share *share, const float *values) {
  const struct fpl_schedule *const s = run->s;
  const int64_t rows = s->blk_m / share->n_shares;
  const struct fpl_window window = {share->mt * s->blk_m + share->index * rows,
                                    share->lt * s->blk_l, rows, s->blk_l};
  fpl_counted_store(values, &run->e, &window, &run->traffic);
}

/* Bulk-adds to the workspace; the last adder stores E. */
static void add_share(struct fpl_interp *run, const struct share *share, int64_t parts,
                      const float *values, float *registers) {
  const int64_t tile = share->mt * run->t.tiles[FPL_DIM_L] + share->lt;
  const size_t floats = fpl_interp_e_floats(run) / (size_t)share->n_shares;
  float *const sums =
      run->workspace + (size_t)tile * fpl_interp_e_floats(run) + (size_t)share->index * floats;
  int64_t *const arrivals = &run->arrivals[tile * run->t.groups + share->index];
  if (fpl_inter_cluster_reduce(parts, floats, values, sums, arrivals, registers, &run->traffic))
    store_share(run, share, registers);
}

/* The blocks (im, il, 0 .. groups - 1), whose E sums are staged: dsm_reduce_scatter. */
static void reduce_scatter_e(struct fpl_interp *run, int64_t im, int64_t il) {
  const float *staged[FPL_INTERP_BLOCKS] = {NULL};
  float *received[FPL_INTERP_BLOCKS] = {NULL}, *result[FPL_INTERP_BLOCKS] = {NULL};
  const size_t n = (size_t)run->t.groups;
  for (size_t ir = 0; ir < n; ir++) {
    struct fpl_interp_block *const block =
        &run->blocks[fpl_block_rank_gemm1(run->s, &run->t, im, il, (int64_t)ir)];
    staged[ir] = block->staging;
    received[ir] = block->received;
    result[ir] = block->reduced;
  }
  fpl_dsm_reduce_scatter(n, fpl_interp_e_floats(run) / n, staged, received, result, &run->traffic);
}

/* Two phases: the same blocks, from registers. */
static void reduce_octets_e(struct fpl_interp *run, int64_t im, int64_t il) {
  float *sums[FPL_INTERP_BLOCKS] = {NULL}, *received[FPL_INTERP_BLOCKS] = {NULL};
  const size_t n = (size_t)run->t.groups;
  for (size_t ir = 0; ir < n; ir++) {
    struct fpl_interp_block *const block =
        &run->blocks[fpl_block_rank_gemm1(run->s, &run->t, im, il, (int64_t)ir)];
    sums[ir] = block->e_waiting;
    received[ir] = block->received;
  }
  fpl_dsm_reduce_octets(n, (size_t)run->s->blk_m, (size_t)run->s->blk_l, sums, received,
                        &run->traffic);
}

/* The octets of columns that the block has summed up. */
static void store_octets(struct fpl_interp *run, const struct fpl_interp_block *block, int64_t mt,
                         int64_t lt) {
  const struct fpl_schedule *const s = run->s;
  const int64_t octet = FPL_OCTET_COLUMNS;
  for (int64_t j = block->at.ir; j < s->blk_l / octet; j += run->t.groups)
    for (int64_t row = 0; row < s->blk_m; row++) {
      const struct fpl_window window = {mt * s->blk_m + row, lt * s->blk_l + j * octet, 1, octet};
      fpl_counted_store(block->e_waiting + row * s->blk_l + j * octet, &run->e, &window,
                        &run->traffic);
    }
}

static void finish_block_two_phase(struct fpl_interp *run, struct fpl_interp_block *block,
                                   int64_t mt, int64_t lt) {
  const struct share whole = {mt, lt, 0, 1};
  if (run->s->reduce == FPL_REDUCE_DSM)
    store_octets(run, block, mt, lt);
  else if (run->s->reduce == FPL_REDUCE_L2)
    add_share(run, &whole, run->t.groups, block->e_waiting, block->e_sums);
  else
    store_share(run, &whole, block->e_waiting);
}

static void finish_block(struct fpl_interp *run, struct fpl_interp_block *block, int64_t mt,
                         int64_t lt, const float *e_sums) {
  const struct share whole = {mt, lt, 0, 1};
  const struct share own = {mt, lt, block->at.ir, run->t.groups};
  switch ((enum fpl_reduce)run->s->reduce) {
  case FPL_REDUCE_NONE:
    store_share(run, &whole, e_sums);
    break;
  case FPL_REDUCE_DSM:
    store_share(run, &own, block->reduced);
    break;
  case FPL_REDUCE_L2:
    add_share(run, &whole, run->t.e_parts * run->t.groups, block->staging, block->e_sums);
    break;
  case FPL_REDUCE_DSM_L2:
    add_share(run, &own, run->t.e_parts, block->reduced, block->e_sums);
    break;
  }
}

void fpl_interp_finish_e(struct fpl_interp *run, int64_t tm, int64_t tl, int64_t e_slot) {
  const struct fpl_schedule *const s = run->s;
  const size_t e_floats = fpl_interp_e_floats(run);
  const bool is_scattered = s->reduce == FPL_REDUCE_DSM || s->reduce == FPL_REDUCE_DSM_L2;
  const bool is_two_phase = fpl_interp_is_two_phase(run);
  if (s->reduce != FPL_REDUCE_NONE && !is_two_phase)
    for (int64_t rank = 0; rank < run->t.blocks; rank++) {
      struct fpl_interp_block *const block = &run->blocks[rank];
      fpl_counted_copy(block->e_waiting + (size_t)e_slot * e_floats, block->staging, e_floats,
                       FLOAT_BYTES, FPL_LEVEL_SMEM, &run->traffic);
    }
  if (is_scattered)
    for (int64_t im = 0; im < s->cls_m; im++)
      for (int64_t il = 0; il < s->cls_l; il++) {
        if (is_two_phase)
          reduce_octets_e(run, im, il);
        else
          reduce_scatter_e(run, im, il);
      }
  for (int64_t rank = 0; rank < run->t.blocks; rank++) {
    struct fpl_interp_block *const block = &run->blocks[rank];
    const int64_t mt = tm * s->cls_m + block->at.im, lt = tl * s->cls_l + block->at.il;
    if (is_empty(run, FPL_DIM_M, mt) || is_empty(run, FPL_DIM_L, lt))
      continue;
    if (is_two_phase)
      finish_block_two_phase(run, block, mt, lt);
    else
      finish_block(run, block, mt, lt, block->e_waiting + (size_t)e_slot * e_floats);
  }
}
