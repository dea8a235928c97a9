/* Each rule is a function that answers true or writes its verdict. */
#include "tuner/core/legal.h"

#include "tuner/base/str.h"

#include <stdarg.h>
#include <stdio.h>

const char *const fpl_rule_names[FPL_N_RULES + 1] = {
    "none",     "tile_limits",   "cluster_size",   "activation",     "dependency",
    "capacity", "skeleton_kind", "skeleton_loops", "skeleton_tiles", "skeleton_alignment",
    NULL};

enum {
  TILE_MULTIPLE = 16,
  TILE_MOST = 256
}; /* one MMA is 16 x 16 x 16 (FlashFuser IV-B); TMA
      boxes and wgmma end at 256 (PTX ISA) */

static bool refuse(struct fpl_verdict *why, enum fpl_rule rule, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool refuse(struct fpl_verdict *why, enum fpl_rule rule, const char *format, ...) {
  if (why) {
    va_list args;
    va_start(args, format);
    vsnprintf(why->why, sizeof why->why, format, args);
    va_end(args);
    why->rule = rule;
  }
  return false;
}

static bool check_tile(const char *name, int64_t tile, int64_t extent, struct fpl_verdict *why) {
  if (tile % TILE_MULTIPLE != 0 || tile < TILE_MULTIPLE || tile > TILE_MOST)
    return refuse(why, FPL_RULE_TILE_LIMITS, "%s is %lld: it must be a multiple of %d up to %d",
                  name, (long long)tile, TILE_MULTIPLE, TILE_MOST);
  /* More than the smallest cover is allowed up to twice of it, and up to 64 in any case: the kernels
   * have no smaller rows. */
  if (tile >= 2 * fpl_round_up(extent, TILE_MULTIPLE) && tile > 64)
    return refuse(why, FPL_RULE_TILE_LIMITS, "%s is %lld: the problem has only %lld", name,
                  (long long)tile, (long long)extent);
  return true;
}

static bool check_tiles(const struct fpl_problem *p, const struct fpl_schedule *s,
                        struct fpl_verdict *why) {
  return check_tile("blk_m", s->blk_m, p->m, why) && check_tile("blk_n", s->blk_n, p->n, why) &&
         check_tile("blk_k", s->blk_k, p->k, why) && check_tile("blk_l", s->blk_l, p->l, why);
}

static bool is_power_of_two(int64_t x) {
  return x >= 1 && (x & (x - 1)) == 0;
}

static bool check_cluster(const struct fpl_schedule *s, const struct fpl_device *d,
                          struct fpl_verdict *why) {
  const int64_t dims[] = {s->cls_m, s->cls_n, s->cls_k, s->cls_l};
  for (int i = 0; i < FPL_DIMS; i++)
    if (!is_power_of_two(dims[i]))
      return refuse(why, FPL_RULE_CLUSTER_SIZE, "cls_%c is %lld: it must be 1, 2, 4, 8 or 16",
                    "mnkl"[i], (long long)dims[i]);
  const int64_t blocks = (int64_t)s->cls_m * s->cls_n * s->cls_k;
  if (blocks > d->max_cluster)
    return refuse(why, FPL_RULE_CLUSTER_SIZE, "%lld blocks: the device allows %lld",
                  (long long)blocks, (long long)d->max_cluster);
  if (s->cls_l % s->cls_k != 0)
    return refuse(why, FPL_RULE_CLUSTER_SIZE, "cls_k %d does not divide cls_l %d", s->cls_k,
                  s->cls_l);
  if (s->cls_n * s->cls_k % s->cls_l != 0)
    return refuse(why, FPL_RULE_CLUSTER_SIZE, "cls_l %d does not divide cls_n cls_k %d", s->cls_l,
                  s->cls_n * s->cls_k);
  return true;
}

static bool check_activation(const struct fpl_schedule *s, const struct fpl_tiling *t,
                             struct fpl_verdict *why) {
  const struct fpl_loops *const loops = fpl_loops_get(s->loops);
  if (t->steps[FPL_DIM_K] == 1)
    return true;
  if (loops->is_spatial[FPL_DIM_K])
    return refuse(why, FPL_RULE_ACTIVATION, "k is spatial and one step covers 1 of %lld parts",
                  (long long)t->steps[FPL_DIM_K]);
  if (loops->temporal[loops->n_temporal - 1] != FPL_DIM_K)
    return refuse(why, FPL_RULE_ACTIVATION, "k is not the innermost loop of %s",
                  fpl_loops_names[s->loops]);
  return true;
}

static bool check_exchange(const struct fpl_problem *p, const struct fpl_schedule *s,
                           struct fpl_verdict *why) {
  const struct fpl_loops *const loops = fpl_loops_get(s->loops);
  const char *const name = fpl_exchange_names[s->exchange];
  const bool is_two_phase = fpl_is_two_phase(s);
  const bool needs_spatial_l = is_two_phase || s->exchange == FPL_EXCHANGE_RECOMPUTE;
  if (loops->is_spatial[FPL_DIM_L] != needs_spatial_l)
    return refuse(why, FPL_RULE_DEPENDENCY, "l is %s, which exchange %s %s",
                  needs_spatial_l ? "temporal" : "spatial", name,
                  needs_spatial_l ? "does not serve" : "cannot serve");
  if (is_two_phase && (!loops->is_spatial[FPL_DIM_M] || !loops->is_spatial[FPL_DIM_N] ||
                       loops->is_spatial[FPL_DIM_K]))
    return refuse(why, FPL_RULE_DEPENDENCY, "exchange %s needs loops mnl|k", name);
  const bool is_alone = s->cls_k == 1 && s->cls_l == 1;
  if (s->exchange == FPL_EXCHANGE_DSM && is_alone)
    return refuse(why, FPL_RULE_DEPENDENCY, "exchange dsm with cls_k = cls_l = 1 has no peer");
  if (!is_two_phase && s->exchange != FPL_EXCHANGE_DSM && !is_alone)
    return refuse(why, FPL_RULE_DEPENDENCY, "exchange %s needs cls_k = cls_l = 1", name);
  if (is_two_phase && s->blk_m % s->cls_k != 0)
    return refuse(why, FPL_RULE_DEPENDENCY, "blk_m %d is not divisible by cls_k %d", s->blk_m,
                  s->cls_k);
  if (s->gate == FPL_GATE_SPATIAL && p->kind != FPL_KIND_GATED_FFN)
    return refuse(why, FPL_RULE_DEPENDENCY, "gate spatial is for gated_ffn");
  if (s->gate == FPL_GATE_SPATIAL && (s->cls_k != 2 || is_two_phase))
    return refuse(why, FPL_RULE_DEPENDENCY, "gate spatial needs cls_k = 2 and exchange dsm");
  return true;
}

static bool check_reduce(const struct fpl_schedule *s, const struct fpl_tiling *t,
                         struct fpl_verdict *why) {
  const bool has_groups = t->groups > 1, has_parts = t->e_parts > 1;
  const bool uses_dsm = s->reduce == FPL_REDUCE_DSM || s->reduce == FPL_REDUCE_DSM_L2;
  const bool uses_l2 = s->reduce == FPL_REDUCE_L2 || s->reduce == FPL_REDUCE_DSM_L2;
  const char *const name = fpl_reduce_names[s->reduce];
  if (uses_dsm && !has_groups)
    return refuse(why, FPL_RULE_DEPENDENCY, "reduce %s, but one group makes each E tile", name);
  if (has_groups && s->reduce == FPL_REDUCE_NONE)
    return refuse(why, FPL_RULE_DEPENDENCY, "%lld groups make one E tile, reduce is none",
                  (long long)t->groups);
  if (has_parts && !uses_l2)
    return refuse(why, FPL_RULE_DEPENDENCY, "%lld clusters add to one E tile, reduce is %s",
                  (long long)t->e_parts, name);
  const bool needs_l2 = has_parts || (has_groups && !uses_dsm);
  if (uses_l2 && !needs_l2)
    return refuse(why, FPL_RULE_DEPENDENCY, "reduce %s, but nothing is left to add in L2", name);
  if (uses_dsm && s->blk_m % t->groups != 0)
    return refuse(why, FPL_RULE_DEPENDENCY, "blk_m %d is not divisible into %lld shares", s->blk_m,
                  (long long)t->groups);
  return true;
}

static bool check_capacity(const struct fpl_schedule *s, const struct fpl_device *d,
                           const struct fpl_tiling *t, const struct fpl_footprint *f,
                           struct fpl_verdict *why) {
  if (f->smem_bytes > d->smem_bytes_per_block)
    return refuse(why, FPL_RULE_CAPACITY, "needs %lld of %lld bytes of shared memory",
                  (long long)f->smem_bytes, (long long)d->smem_bytes_per_block);
  if (fpl_is_two_phase(s) && f->stages_e < 2)
    return refuse(why, FPL_RULE_CAPACITY, "the ring holds %lld stages of C and D: it takes 2",
                  (long long)f->stages_e);
  if (f->accumulators > FPL_ACCUMULATOR_MOST)
    return refuse(why, FPL_RULE_CAPACITY, "needs %lld sums a thread, registers hold %d",
                  (long long)f->accumulators, FPL_ACCUMULATOR_MOST);
  if (s->exchange == FPL_EXCHANGE_REGISTER && t->c_kept > 1)
    return refuse(why, FPL_RULE_CAPACITY, "registers keep 1 C tile, the loops keep %lld",
                  (long long)t->c_kept);
  return true;
}

bool fpl_legal(const struct fpl_problem *p, const struct fpl_schedule *s,
               const struct fpl_device *d, struct fpl_tiling *t, struct fpl_footprint *f,
               struct fpl_verdict *why) {
  if (why)
    *why = (struct fpl_verdict){FPL_RULE_NONE, ""};
  if (!check_tiles(p, s, why) || !check_cluster(s, d, why))
    return false;
  fpl_tiling_make(p, s, t);
  if (!check_activation(s, t, why) || !check_exchange(p, s, why) || !check_reduce(s, t, why))
    return false;
  fpl_footprint_make(t, s, f);
  return check_capacity(s, d, t, f, why);
}

bool fpl_legal_passes(enum fpl_rule rule, const struct fpl_problem *p, const struct fpl_schedule *s,
                      const struct fpl_device *d, const struct fpl_tiling *t,
                      const struct fpl_footprint *f) {
  switch (rule) {
  case FPL_RULE_TILE_LIMITS:
    return check_tiles(p, s, NULL);
  case FPL_RULE_CLUSTER_SIZE:
    return check_cluster(s, d, NULL);
  case FPL_RULE_ACTIVATION:
    return check_activation(s, t, NULL);
  case FPL_RULE_DEPENDENCY:
    return check_exchange(p, s, NULL) && check_reduce(s, t, NULL);
  case FPL_RULE_CAPACITY:
    return check_capacity(s, d, t, f, NULL);
  default:
    return true;
  }
}

/* A copy brings channels of one tap: a slab must not reach into the next. */
static bool check_image(const struct fpl_problem *p, int64_t slab, struct fpl_verdict *why) {
  if (!fpl_problem_has_image(p) || p->conv.ic % slab == 0)
    return true;
  return refuse(why, FPL_RULE_SKELETON_TILES, "slabs of %lld channels reach over the %lld of a tap",
                (long long)slab, (long long)p->conv.ic);
}

static bool check_stages(const struct fpl_schedule *s, const char *skeleton,
                         struct fpl_verdict *why) {
  if (s->stages >= 2 && s->stages <= 8)
    return true;
  return refuse(why, FPL_RULE_SKELETON_TILES, "stages is %d: %s has 2 to 8", s->stages, skeleton);
}

static bool check_alignment(const struct fpl_problem *p, struct fpl_verdict *why) {
  if (p->n % 8 == 0 && p->k % 8 == 0 && p->l % 8 == 0)
    return true;
  return refuse(why, FPL_RULE_SKELETON_ALIGNMENT, "n, k and l must be multiples of 8");
}

/* chain_sm90: exchange smem, dsm, recompute. */
static bool fits_chain(const struct fpl_problem *p, const struct fpl_schedule *s,
                       struct fpl_verdict *why) {
  const bool is_fused = s->exchange == FPL_EXCHANGE_SMEM || s->exchange == FPL_EXCHANGE_DSM;
  const char *const wanted = is_fused ? "mn|lk" : "mnl|k";
  if (!is_fused && s->exchange != FPL_EXCHANGE_RECOMPUTE)
    return refuse(why, FPL_RULE_SKELETON_LOOPS, "no skeleton has exchange %s",
                  fpl_exchange_names[s->exchange]);
  if (s->loops != fpl_loops_index(wanted))
    return refuse(why, FPL_RULE_SKELETON_LOOPS, "chain_sm90 runs exchange %s in loops %s only",
                  fpl_exchange_names[s->exchange], wanted);
  if (s->blk_m != 16 && s->blk_m != 32 && s->blk_m != 64 && s->blk_m != 128)
    return refuse(why, FPL_RULE_SKELETON_TILES, "blk_m is %d: chain_sm90 has 16, 32, 64 and 128",
                  s->blk_m);
  if (!check_image(p, fpl_slab_columns(s->blk_k), why) || !check_stages(s, "chain_sm90", why))
    return false;
  const int64_t branches = p->kind == FPL_KIND_GATED_FFN && s->gate == FPL_GATE_SEQUENTIAL ? 2 : 1;
  const int64_t k_layers = s->gate == FPL_GATE_SPATIAL ? 1 : s->cls_k;
  if (k_layers > 1 && branches * s->blk_n > 192)
    return refuse(why, FPL_RULE_SKELETON_TILES,
                  "blk_n is %d: with a split k chain_sm90 adds at most 192 columns", s->blk_n);
  return check_alignment(p, why);
}

/* phases_sm90: exchange l2. */
static bool fits_phases(const struct fpl_problem *p, const struct fpl_schedule *s,
                        struct fpl_verdict *why) {
  if (s->cls_m != 1 || s->cls_k != 1)
    return refuse(why, FPL_RULE_SKELETON_LOOPS, "phases_sm90 splits neither m nor k in a cluster");
  if (s->reduce != FPL_REDUCE_NONE && s->reduce != FPL_REDUCE_DSM)
    return refuse(why, FPL_RULE_SKELETON_LOOPS, "phases_sm90 has no reduce %s",
                  fpl_reduce_names[s->reduce]);
  if (s->blk_k % 64 != 0)
    return refuse(why, FPL_RULE_SKELETON_TILES, "blk_k is %d: phases_sm90 has multiples of 64",
                  s->blk_k);
  if (!check_image(p, 64, why))
    return false;
  const int64_t branches = fpl_problem_branches(p);
  if (branches * s->blk_n > 256)
    return refuse(why, FPL_RULE_SKELETON_TILES,
                  "blk_n is %d: phases_sm90 makes at most 256 columns of all branches", s->blk_n);
  return check_stages(s, "phases_sm90", why) && check_alignment(p, why);
}

bool fpl_skeleton_fits(const struct fpl_problem *p, const struct fpl_schedule *s,
                       struct fpl_verdict *why) {
  if (why)
    *why = (struct fpl_verdict){FPL_RULE_NONE, ""};
  if (fpl_problem_has_image(p) && p->conv.ic % TILE_MULTIPLE != 0)
    return refuse(why, FPL_RULE_SKELETON_KIND,
                  "no skeleton reads an image of %lld channels: they must be a multiple of %d",
                  (long long)p->conv.ic, TILE_MULTIPLE);
  return s->exchange == FPL_EXCHANGE_L2 ? fits_phases(p, s, why) : fits_chain(p, s, why);
}
