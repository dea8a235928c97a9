/* Two phases: exchange l2 and hbm (MODEL.md section 1.4). C passes through global memory; here
 * all of phase 1 ends before phase 2 begins. */
#include "costmodel/interp_cluster.h"
#include "costmodel/primitives.h"

#include <string.h>

/* Rows `first_row ...` of the C tile that block (im, in) of step (tm, tn) made. */
static void store_c(struct fpl_interp *run, const struct fpl_interp_block *block, int64_t tm,
                    int64_t tn, int64_t first_row, int64_t rows) {
  const struct fpl_schedule *const s = run->s;
  const struct fpl_window window = {(tm * s->cls_m + block->at.im) * s->blk_m + first_row,
                                    (tn * s->cls_n + block->at.in) * s->blk_n, rows, s->blk_n};
  fpl_counted_store(block->c_done, &run->c, &window, &run->traffic);
}

/* dsm_reduce_scatter over the k layers of (im, in), one product's tile. */
static void reduce_scatter_c(struct fpl_interp *run, int64_t im, int64_t in, int64_t branch) {
  const struct fpl_schedule *const s = run->s;
  const float *staged[FPL_INTERP_BLOCKS] = {NULL};
  float *received[FPL_INTERP_BLOCKS] = {NULL}, *result[FPL_INTERP_BLOCKS] = {NULL};
  const size_t c_floats = fpl_interp_c_floats(run), n = (size_t)s->cls_k;
  const size_t share_floats = c_floats / n;
  for (size_t ik = 0; ik < n; ik++) {
    struct fpl_interp_block *const block =
        &run->blocks[fpl_block_rank_gemm0(s, im, in, (int64_t)ik)];
    staged[ik] = block->staging + (size_t)branch * c_floats;
    received[ik] = block->received + (size_t)branch * (n - 1) * share_floats;
    result[ik] = block->reduced + (size_t)branch * share_floats;
  }
  fpl_dsm_reduce_scatter(n, share_floats, staged, received, result, &run->traffic);
}

static void make_c(struct fpl_interp *run, int64_t tm, int64_t tn) {
  const struct fpl_schedule *const s = run->s;
  const int64_t rows = s->blk_m / s->cls_k;
  const size_t share_floats = (size_t)(rows * s->blk_n);
  fpl_interp_gemm0(run, tm, tn);
  if (s->cls_k > 1) {
    fpl_interp_stage_c(run);
    for (int64_t im = 0; im < s->cls_m; im++)
      for (int64_t in = 0; in < s->cls_n; in++)
        for (int64_t branch = 0; branch < run->t.branches; branch++)
          reduce_scatter_c(run, im, in, branch);
  }
  for (int64_t rank = 0; rank < run->t.blocks; rank++) {
    struct fpl_interp_block *const block = &run->blocks[rank];
    const float *const sums = s->cls_k > 1 ? block->reduced : block->c_sums;
    fpl_interp_finish_c(run, share_floats, sums, sums + share_floats, block->c_done);
    store_c(run, block, tm, tn, block->at.ik * rows, rows);
  }
}

static void make_e(struct fpl_interp *run, struct fpl_interp_block *block, int64_t tm, int64_t tl) {
  const struct fpl_schedule *const s = run->s;
  const struct fpl_tiling *const t = &run->t;
  const int64_t mt = tm * s->cls_m + block->at.im, lt = tl * s->cls_l + block->at.il;
  memset(block->e_waiting, 0, fpl_interp_e_floats(run) * sizeof *block->e_waiting);
  if (mt >= t->tiles[FPL_DIM_M] || lt >= t->tiles[FPL_DIM_L])
    return;
  const int64_t begin = block->at.ir * t->gemm1_steps / t->groups;
  const int64_t end = (block->at.ir + 1) * t->gemm1_steps / t->groups;
  for (int64_t step = begin; step < end; step++) {
    const struct fpl_window c = {mt * s->blk_m, step * s->blk_k, s->blk_m, s->blk_k};
    fpl_counted_load(&run->c, &c, FPL_TILE_AS_STORED, block->c_tile, &run->traffic);
    fpl_interp_multiply_d(run, block, step, lt, block->c_tile, FPL_HOME_SMEM, block->e_waiting);
  }
}

void fpl_interp_run_two_phase(struct fpl_interp *run) {
  const struct fpl_tiling *const t = &run->t;
  for (int64_t tm = 0; tm < t->steps[FPL_DIM_M]; tm++)
    for (int64_t tn = 0; tn < t->steps[FPL_DIM_N]; tn++)
      make_c(run, tm, tn);
  for (int64_t tm = 0; tm < t->steps[FPL_DIM_M]; tm++)
    for (int64_t tl = 0; tl < t->steps[FPL_DIM_L]; tl++) {
      for (int64_t rank = 0; rank < t->blocks; rank++)
        make_e(run, &run->blocks[rank], tm, tl);
      fpl_interp_finish_e(run, tm, tl, 0);
    }
}
