/* One kernel: exchange register, smem, dsm, recompute (MODEL.md section 1.3). Each unit walks its
 * temporal loops; C tiles wait in the strip, E sums in e_waiting, each in the slot that its place
 * among the loops inside the one it outlives gives it. */
#include "costmodel/interp_cluster.h"
#include "costmodel/primitives.h"

#include <string.h>

/* Where a unit stands: the step of each dimension. */
struct walk {
  struct fpl_interp *run;
  const struct fpl_loops *loops;
  int64_t step[FPL_DIMS];
};

/* Number of the current (a, b) among the iterations of those loops inside loop `outer`. */
static int64_t slot_inside(const struct walk *walk, enum fpl_dim outer, enum fpl_dim a,
                           enum fpl_dim b) {
  int64_t slot = 0;
  bool is_inside = false;
  for (int i = 0; i < walk->loops->n_temporal; i++) {
    const int dim = walk->loops->temporal[i];
    if (is_inside && (dim == (int)a || dim == (int)b))
      slot = slot * walk->run->t.steps[dim] + walk->step[dim];
    if (dim == (int)outer)
      is_inside = true;
  }
  return slot;
}

static int64_t c_slot(const struct walk *walk) {
  return walk->run->t.c_kept == 1 ? 0 : slot_inside(walk, FPL_DIM_L, FPL_DIM_M, FPL_DIM_N);
}

static int64_t e_slot(const struct walk *walk) {
  return walk->run->t.e_kept == 1 ? 0 : slot_inside(walk, FPL_DIM_N, FPL_DIM_M, FPL_DIM_L);
}

/* The block's strip in one slot: shuffle tiles. */
static float *strip_at(const struct fpl_interp *run, const struct fpl_interp_block *block,
                       int64_t slot) {
  return block->strip + (size_t)(slot * run->t.shuffle) * fpl_interp_c_floats(run);
}

/* The cls_k blocks (im, in): all-exchange of their staged partials, then C in every one. */
static void exchange_c(struct fpl_interp *run, int64_t im, int64_t in) {
  const struct fpl_schedule *const s = run->s;
  const float *staged[FPL_INTERP_BLOCKS] = {NULL};
  float *received[FPL_INTERP_BLOCKS] = {NULL}, *result[FPL_INTERP_BLOCKS] = {NULL};
  const size_t c_floats = fpl_interp_c_floats(run), n = (size_t)s->cls_k;
  const bool is_gate_spatial = s->gate == FPL_GATE_SPATIAL;
  for (size_t ik = 0; ik < n; ik++) {
    struct fpl_interp_block *const block =
        &run->blocks[fpl_block_rank_gemm0(s, im, in, (int64_t)ik)];
    staged[ik] = block->staging;
    received[ik] = block->received;
    result[ik] = block->reduced;
  }
  fpl_dsm_all_exchange(is_gate_spatial ? FPL_EXCHANGE_MUL : FPL_EXCHANGE_ADD, n,
                       (size_t)run->t.branches * c_floats, staged, received, result, &run->traffic);
  for (size_t ik = 0; ik < n; ik++) {
    float *const c_done = run->blocks[fpl_block_rank_gemm0(s, im, in, (int64_t)ik)].c_done;
    if (is_gate_spatial)
      fpl_interp_round_c(run, c_floats, result[ik], c_done);
    else
      fpl_interp_finish_c(run, c_floats, result[ik], result[ik] + c_floats, c_done);
  }
}

/* Sums of all blocks to finished C tiles. */
static void finish_c(struct fpl_interp *run) {
  const struct fpl_schedule *const s = run->s;
  const size_t c_floats = fpl_interp_c_floats(run);
  if (s->cls_k == 1) {
    for (int64_t rank = 0; rank < run->t.blocks; rank++) {
      struct fpl_interp_block *const block = &run->blocks[rank];
      fpl_interp_finish_c(run, c_floats, block->c_sums, block->c_sums + c_floats, block->c_done);
    }
    return;
  }
  if (s->gate == FPL_GATE_SPATIAL)
    for (int64_t rank = 0; rank < run->t.blocks; rank++)
      if (run->blocks[rank].at.ik == 0)
        fpl_interp_activate(run, c_floats, run->blocks[rank].c_sums);
  fpl_interp_stage_c(run);
  for (int64_t im = 0; im < s->cls_m; im++)
    for (int64_t in = 0; in < s->cls_n; in++)
      exchange_c(run, im, in);
}

/* C tiles to their place: registers, or the block's own tile of its strip. */
static void place_c(struct fpl_interp *run, int64_t slot) {
  const size_t c_floats = fpl_interp_c_floats(run);
  const enum fpl_level level =
      run->s->exchange == FPL_EXCHANGE_REGISTER ? FPL_LEVEL_REGISTER : FPL_LEVEL_SMEM;
  for (int64_t rank = 0; rank < run->t.blocks; rank++) {
    struct fpl_interp_block *const block = &run->blocks[rank];
    const int64_t own = block->at.in % run->t.shuffle;
    fpl_counted_copy(block->c_done, strip_at(run, block, slot) + (size_t)own * c_floats, c_floats,
                     FPL_ELEMENT_BYTES, level, &run->traffic);
  }
}

/* The blocks of one shuffle group (im, ik, ir). */
static void shuffle_c(struct fpl_interp *run, int64_t slot, int64_t im, int64_t ik, int64_t ir) {
  float *strip[FPL_INTERP_BLOCKS] = {NULL};
  const int64_t shuffle = run->t.shuffle;
  for (int64_t j = 0; j < shuffle; j++) {
    const int64_t rank = fpl_block_rank_gemm0(run->s, im, ir * shuffle + j, ik);
    strip[j] = strip_at(run, &run->blocks[rank], slot);
  }
  fpl_dsm_shuffle((size_t)shuffle, fpl_interp_c_floats(run), strip, &run->traffic);
}

/* GEMM0 up to strips that every block's GEMM1 can read. */
static void make_c(struct fpl_interp *run, int64_t tm, int64_t tn, int64_t slot) {
  fpl_interp_gemm0(run, tm, tn);
  finish_c(run);
  place_c(run, slot);
  if (run->t.shuffle == 1)
    return;
  for (int64_t im = 0; im < run->s->cls_m; im++)
    for (int64_t ik = 0; ik < run->s->cls_k; ik++)
      for (int64_t ir = 0; ir < run->t.groups; ir++)
        shuffle_c(run, slot, im, ik, ir);
}

/* GEMM1 of one block at the walk's point, over its group's strip. */
static void multiply_strip(const struct walk *walk, struct fpl_interp_block *block) {
  struct fpl_interp *const run = walk->run;
  const struct fpl_schedule *const s = run->s;
  const struct fpl_tiling *const t = &run->t;
  const int64_t mt = walk->step[FPL_DIM_M] * s->cls_m + block->at.im;
  const int64_t lt = walk->step[FPL_DIM_L] * s->cls_l + block->at.il;
  const int64_t first_nt = walk->step[FPL_DIM_N] * s->cls_n + block->at.ir * t->shuffle;
  if (mt >= t->tiles[FPL_DIM_M] || lt >= t->tiles[FPL_DIM_L] || first_nt >= t->tiles[FPL_DIM_N])
    return;
  const size_t e_floats = fpl_interp_e_floats(run);
  const float *const strip = strip_at(run, block, c_slot(walk));
  float *const waiting = block->e_waiting + (size_t)e_slot(walk) * e_floats;
  const bool is_fetched = run->f.e_home == FPL_HOME_SMEM;
  float *const sums = is_fetched ? block->e_sums : waiting;
  const enum fpl_home c_home =
      s->exchange == FPL_EXCHANGE_REGISTER ? FPL_HOME_REGISTER : FPL_HOME_SMEM;
  if (is_fetched)
    fpl_counted_copy(waiting, sums, e_floats, sizeof *sums, FPL_LEVEL_SMEM, &run->traffic);
  for (int64_t j = 0; j < t->shuffle && first_nt + j < t->tiles[FPL_DIM_N]; j++)
    fpl_interp_multiply_d(run, block, first_nt + j, lt,
                          strip + (size_t)j * fpl_interp_c_floats(run), c_home, sums);
  if (is_fetched)
    fpl_counted_copy(sums, waiting, e_floats, sizeof *sums, FPL_LEVEL_SMEM, &run->traffic);
}

static void clear_e(const struct walk *walk) {
  const size_t e_floats = fpl_interp_e_floats(walk->run);
  for (int64_t rank = 0; rank < walk->run->t.blocks; rank++)
    memset(walk->run->blocks[rank].e_waiting + (size_t)e_slot(walk) * e_floats, 0,
           e_floats * sizeof(float));
}

static void visit(struct walk *walk) {
  struct fpl_interp *const run = walk->run;
  const int64_t tm = walk->step[FPL_DIM_M], tn = walk->step[FPL_DIM_N], tl = walk->step[FPL_DIM_L];
  const int64_t n_steps = run->t.steps[FPL_DIM_N];
  const bool is_n_spatial = walk->loops->is_spatial[FPL_DIM_N];
  int64_t *const held = &run->c_held[c_slot(walk)];
  if (*held != tm * n_steps + tn) {
    make_c(run, tm, tn, c_slot(walk));
    *held = tm * n_steps + tn;
  }
  if (is_n_spatial || tn == 0)
    clear_e(walk);
  for (int64_t rank = 0; rank < run->t.blocks; rank++)
    multiply_strip(walk, &run->blocks[rank]);
  if (is_n_spatial || tn == n_steps - 1)
    fpl_interp_finish_e(run, tm, tl, e_slot(walk));
}

/* The temporal loops from `depth` inwards; k runs inside GEMM0. */
static void walk_loops(struct walk *walk, int depth) {
  if (depth == walk->loops->n_temporal) {
    visit(walk);
    return;
  }
  const int dim = walk->loops->temporal[depth];
  const int64_t n_steps = dim == FPL_DIM_K ? 1 : walk->run->t.steps[dim];
  for (int64_t i = 0; i < n_steps; i++) {
    walk->step[dim] = i;
    walk_loops(walk, depth + 1);
  }
}

void fpl_interp_run_fused(struct fpl_interp *run) {
  struct walk walk = {.run = run, .loops = fpl_loops_get(run->s->loops)};
  for (int64_t unit = 0; unit < run->t.units; unit++) {
    int64_t rest = unit;
    for (int dim = FPL_DIMS - 1; dim >= 0; dim--)
      if (walk.loops->is_spatial[dim]) {
        walk.step[dim] = rest % run->t.steps[dim];
        rest /= run->t.steps[dim];
      }
    for (int64_t slot = 0; slot < run->t.c_kept; slot++)
      run->c_held[slot] = -1;
    walk_loops(&walk, 0);
  }
}
