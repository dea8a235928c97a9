/* The paper's rules on loops and clusters do not look at the tiles, and the capacity rule looks at
 * k and l apart once m and n are fixed; so a count is a sum of products, and the walk over the
 * survivors never meets a refused candidate more than one level deep. */
#include "tuner/core/space_paper.h"

#include "tuner/base/str.h"

enum {
  GRAIN = 16,         /* smallest tile: one MMA is 16 x 16 x 16 (FlashFuser IV-B) */
  N_CLUSTER_DIMS = 5, /* 1 2 4 8 16 */
  N_VECTORS = 625,
  DIVISORS_MOST = 2048, /* more than any extent below 2^31 has */
  SUM_BYTES = 4         /* f32 */
};

static void vector_at(int index, int32_t cls[FPL_DIMS]) {
  for (int d = FPL_DIMS - 1; d >= 0; d--) {
    cls[d] = 1 << index % N_CLUSTER_DIMS;
    index /= N_CLUSTER_DIMS;
  }
}

int64_t fpl_space_d16(int64_t extent) {
  int64_t n = 0;
  if (extent < GRAIN || extent % GRAIN != 0)
    return 0;
  const int64_t units = extent / GRAIN;
  for (int64_t i = 1; i * i <= units; i++)
    if (units % i == 0)
      n += i * i == units ? 1 : 2;
  return n;
}

bool fpl_vector_is_valid(enum fpl_vectors reading, const int32_t cls[FPL_DIMS], int64_t limit) {
  const int64_t nk = (int64_t)cls[FPL_DIM_N] * cls[FPL_DIM_K];
  const int64_t blocks = cls[FPL_DIM_M] * nk;
  const bool has_shuffle = cls[FPL_DIM_K] <= cls[FPL_DIM_L]; /* powers of two: divides */
  const bool has_reduce = cls[FPL_DIM_L] <= nk;
  if (blocks > limit)
    return false;
  switch (reading) {
  case FPL_VECTORS_BLOCKS:
    return true;
  case FPL_VECTORS_SHUFFLE:
    return has_shuffle;
  case FPL_VECTORS_PAPER:
    return has_shuffle && blocks >= 2;
  case FPL_VECTORS_REDUCE:
    return has_reduce;
  case FPL_VECTORS_FLOW:
    return has_shuffle && has_reduce;
  }
  return false;
}

int64_t fpl_vectors_count(enum fpl_vectors reading, int64_t limit) {
  int64_t n = 0;
  for (int i = 0; i < N_VECTORS; i++) {
    int32_t cls[FPL_DIMS];
    vector_at(i, cls);
    n += fpl_vector_is_valid(reading, cls, limit);
  }
  return n;
}

bool fpl_space_paper_keeps_activation(const struct fpl_loops *loops) {
  return loops->is_spatial[FPL_DIM_K] || loops->temporal[loops->n_temporal - 1] == FPL_DIM_K;
}

bool fpl_space_paper_keeps_dependency(const struct fpl_loops *loops) {
  return !loops->is_spatial[FPL_DIM_L];
}

/* Tiles of each dimension, ascending. */
struct tiles {
  int n[FPL_DIMS];
  int32_t blk[FPL_DIMS][DIVISORS_MOST];
};

static void list_tiles(const int64_t extent[FPL_DIMS], struct tiles *out) {
  for (int d = 0; d < FPL_DIMS; d++) {
    out->n[d] = 0;
    if (extent[d] % GRAIN != 0)
      continue;
    const int64_t units = extent[d] / GRAIN;
    int64_t i = 1;
    for (; i * i <= units; i++)
      if (units % i == 0)
        out->blk[d][out->n[d]++] = (int32_t)(i * GRAIN);
    for (i--; i >= 1; i--)
      if (units % i == 0 && i * i != units)
        out->blk[d][out->n[d]++] = (int32_t)(units / i * GRAIN);
  }
}

/* What the capacity rule and the traffic need of one (loops, cluster vector). */
struct frame {
  const struct fpl_problem *p;
  const struct fpl_device *d;
  const struct fpl_loops *loops;
  int64_t extent[FPL_DIMS];
  struct fpl_schedule s;
  int64_t branches;
  int depth[FPL_DIMS]; /* place among the temporal loops; -1 for spatial */
};

static void set_extents(const struct fpl_problem *p, int64_t extent[FPL_DIMS]) {
  extent[FPL_DIM_M] = p->m;
  extent[FPL_DIM_N] = p->n;
  extent[FPL_DIM_K] = p->k;
  extent[FPL_DIM_L] = p->l;
}

static void set_loops(struct frame *f, int32_t loops) {
  f->s.loops = loops;
  f->loops = fpl_loops_get(loops);
  for (int d = 0; d < FPL_DIMS; d++)
    f->depth[d] = -1;
  for (int i = 0; i < f->loops->n_temporal; i++)
    f->depth[f->loops->temporal[i]] = i;
}

static void set_vector(struct frame *f, const int32_t cls[FPL_DIMS]) {
  f->s.cls_m = cls[FPL_DIM_M];
  f->s.cls_n = cls[FPL_DIM_N];
  f->s.cls_k = cls[FPL_DIM_K];
  f->s.cls_l = cls[FPL_DIM_L];
}

static int64_t cluster_steps(int64_t extent, int64_t blk, int64_t cls) {
  return fpl_ceil_div(extent, blk * cls);
}

/* Capacity, the part without l and k: whether the A and B tiles fit is asked per k. */
static bool fits_k(const struct frame *f, int64_t blk_k) {
  const int64_t most = f->d->smem_bytes_per_block;
  return f->s.blk_m * blk_k * FPL_ELEMENT_BYTES <= most &&
         f->s.blk_n * blk_k * FPL_ELEMENT_BYTES <= most;
}

/* Capacity, the part without k: the D tile, and a block's share of the C strip and of the E sums
 * that wait, each by itself in the shared memory the block adds to the cluster's DSM. */
static bool fits_l(const struct frame *f, int64_t blk_l) {
  const int64_t most = f->d->smem_bytes_per_block, m = f->s.blk_m, n = f->s.blk_n;
  if (n * blk_l * FPL_ELEMENT_BYTES > most)
    return false;
  const int depth_m = f->depth[FPL_DIM_M], depth_n = f->depth[FPL_DIM_N],
            depth_l = f->depth[FPL_DIM_L];
  const int64_t steps_m = cluster_steps(f->p->m, m, f->s.cls_m);
  const int64_t steps_n = cluster_steps(f->p->n, n, f->s.cls_n);
  const int64_t steps_l = cluster_steps(f->p->l, blk_l, f->s.cls_l);
  int64_t c_kept = 1, e_kept = 1;
  if (steps_l > 1 && depth_m > depth_l)
    c_kept *= steps_m;
  if (steps_l > 1 && depth_n > depth_l)
    c_kept *= steps_n;
  if (depth_n >= 0 && steps_n > 1 && depth_m > depth_n)
    e_kept *= steps_m;
  if (depth_n >= 0 && steps_n > 1 && depth_l > depth_n)
    e_kept *= steps_l;
  return c_kept * m * n * FPL_ELEMENT_BYTES <= most && e_kept * m * blk_l * SUM_BYTES <= most;
}

/* Calls `visit` for each survivor; counts only when it is NULL. */
struct walk {
  bool (*visit)(void *context, const struct fpl_schedule *s);
  void *context;
  int64_t n_survivors;
};

static int32_t needed_reduce(const struct frame *f) {
  const bool has_groups = (int64_t)f->s.cls_n * f->s.cls_k > f->s.cls_l;
  const bool has_parts =
      f->loops->is_spatial[FPL_DIM_N] && cluster_steps(f->p->n, f->s.blk_n, f->s.cls_n) > 1;
  if (has_groups)
    return has_parts ? FPL_REDUCE_DSM_L2 : FPL_REDUCE_DSM;
  return has_parts ? FPL_REDUCE_L2 : FPL_REDUCE_NONE;
}

/* m and n are fixed: the k that fit times the l that fit. */
static bool walk_k_l(struct frame *f, const struct tiles *tiles, struct walk *w) {
  int32_t fit_k[DIVISORS_MOST];
  int n_k = 0;
  for (int i = 0; i < tiles->n[FPL_DIM_K] && fits_k(f, tiles->blk[FPL_DIM_K][i]); i++)
    fit_k[n_k++] = tiles->blk[FPL_DIM_K][i];
  if (n_k == 0)
    return true;
  f->s.reduce = needed_reduce(f);
  for (int i = 0; i < tiles->n[FPL_DIM_L]; i++) {
    f->s.blk_l = tiles->blk[FPL_DIM_L][i];
    if (!fits_l(f, f->s.blk_l))
      continue;
    w->n_survivors += n_k;
    for (int j = 0; w->visit && j < n_k; j++) {
      f->s.blk_k = fit_k[j];
      if (!w->visit(w->context, &f->s))
        return false;
    }
  }
  return true;
}

static bool walk_tiles(struct frame *f, const struct tiles *tiles, struct walk *w) {
  for (int i = 0; i < tiles->n[FPL_DIM_M]; i++)
    for (int j = 0; j < tiles->n[FPL_DIM_N]; j++) {
      f->s.blk_m = tiles->blk[FPL_DIM_M][i];
      f->s.blk_n = tiles->blk[FPL_DIM_N][j];
      if (!walk_k_l(f, tiles, w))
        return false;
    }
  return true;
}

static bool walk_survivors(const struct fpl_problem *p, const struct fpl_device *d,
                           const struct tiles *tiles, struct walk *w) {
  struct frame f = {.p = p, .d = d};
  f.s.exchange = FPL_EXCHANGE_DSM;
  f.s.stages = 1;
  for (int32_t loops = 0; loops < FPL_N_LOOPS; loops++) {
    set_loops(&f, loops);
    if (!fpl_space_paper_keeps_activation(f.loops) || !fpl_space_paper_keeps_dependency(f.loops))
      continue;
    for (int i = 0; i < N_VECTORS; i++) {
      int32_t cls[FPL_DIMS];
      vector_at(i, cls);
      set_vector(&f, cls);
      if (fpl_vector_is_valid(FPL_VECTORS_PAPER, cls, d->max_cluster) && !walk_tiles(&f, tiles, w))
        return false;
    }
  }
  return true;
}

/* Product, or INT64_MAX where it does not fit. */
static int64_t product(const int64_t *factors, int n) {
  uint64_t value = 1;
  for (int i = 0; i < n; i++)
    if (!fpl_mul_u64(value, (uint64_t)factors[i], &value) || value > INT64_MAX)
      return INT64_MAX;
  return (int64_t)value;
}

static void count_factors(const struct fpl_problem *p, const struct fpl_device *d,
                          struct fpl_space_counts *out) {
  int64_t extent[FPL_DIMS], n_activation = 0, n_dependency = 0;
  set_extents(p, extent);
  for (int32_t i = 0; i < FPL_N_LOOPS; i++) {
    const struct fpl_loops *const loops = fpl_loops_get(i);
    const bool is_kept = fpl_space_paper_keeps_activation(loops);
    n_activation += is_kept;
    n_dependency += is_kept && fpl_space_paper_keeps_dependency(loops);
  }
  const int64_t n_vectors = fpl_vectors_count(FPL_VECTORS_PAPER, d->max_cluster);
  int64_t all[FPL_DIMS + 2] = {0}, divisible[FPL_DIMS + 2] = {0};
  for (int i = 0; i < FPL_DIMS; i++) {
    all[i] = extent[i] / GRAIN;
    divisible[i] = fpl_space_d16(extent[i]);
  }
  const struct {
    const char *name;
    const int64_t *tiles;
    int64_t n_loops, n_vectors;
  } rules[] = {{"initial", all, FPL_N_LOOPS, N_VECTORS},
               {"divisible_tiles", divisible, FPL_N_LOOPS, N_VECTORS},
               {"cluster_size", divisible, FPL_N_LOOPS, n_vectors},
               {"activation", divisible, n_activation, n_vectors},
               {"dependency", divisible, n_dependency, n_vectors}};
  out->n_rules = 0;
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    int64_t factors[FPL_DIMS + 2] = {0};
    for (int j = 0; j < FPL_DIMS; j++)
      factors[j] = rules[i].tiles[j];
    factors[FPL_DIMS] = rules[i].n_loops;
    factors[FPL_DIMS + 1] = rules[i].n_vectors;
    out->rules[out->n_rules++] =
        (struct fpl_space_count){rules[i].name, product(factors, FPL_DIMS + 2)};
  }
}

void fpl_space_paper_count(const struct fpl_problem *p, const struct fpl_device *d,
                           struct fpl_space_counts *out) {
  struct tiles tiles;
  int64_t extent[FPL_DIMS];
  set_extents(p, extent);
  list_tiles(extent, &tiles);
  struct walk w = {NULL, NULL, 0};
  walk_survivors(p, d, &tiles, &w);
  count_factors(p, d, out);
  out->rules[out->n_rules++] = (struct fpl_space_count){"capacity", w.n_survivors};
}

bool fpl_space_paper_each(const struct fpl_problem *p, const struct fpl_device *d,
                          bool (*visit)(void *context, const struct fpl_schedule *s),
                          void *context) {
  struct tiles tiles;
  int64_t extent[FPL_DIMS];
  set_extents(p, extent);
  list_tiles(extent, &tiles);
  struct walk w = {visit, context, 0};
  return walk_survivors(p, d, &tiles, &w);
}

bool fpl_space_paper_traffic(const struct fpl_problem *p, const struct fpl_schedule *s,
                             struct fpl_paper_traffic *out) {
  const struct fpl_loops *const loops = fpl_loops_get(s->loops);
  const bool *const is_spatial = loops->is_spatial;
  const int32_t cls[FPL_DIMS] = {s->cls_m, s->cls_n, s->cls_k, s->cls_l};
  const int64_t blocks = (int64_t)s->cls_m * s->cls_n * s->cls_k;
  if (!fpl_vector_is_valid(FPL_VECTORS_FLOW, cls, blocks))
    return false;
  const double steps_m = (double)cluster_steps(p->m, s->blk_m, s->cls_m);
  const double steps_n = (double)cluster_steps(p->n, s->blk_n, s->cls_n);
  const double steps_k = (double)cluster_steps(p->k, s->blk_k, s->cls_k);
  const double steps_l = (double)cluster_steps(p->l, s->blk_l, s->cls_l);
  if (is_spatial[FPL_DIM_K] && steps_k > 1)
    return false;
  const double e = FPL_ELEMENT_BYTES, g = fpl_problem_branches(p);
  const double m = (double)p->m, n = (double)p->n, k = (double)p->k, l = (double)p->l;
  const double blk_m = s->blk_m, blk_n = s->blk_n, blk_k = s->blk_k, blk_l = s->blk_l;
  const double shuffle = s->cls_l / s->cls_k;
  const double groups = (double)((int64_t)s->cls_n * s->cls_k / s->cls_l);
  /* Algorithm 1 multiplies a tile by the loops that index it: each cluster reads its part of the
   * tensor once. Clusters along a spatial dimension that does not index it each read it anew. */
  const double a_readers = is_spatial[FPL_DIM_N] ? steps_n : 1;
  const double w_readers = is_spatial[FPL_DIM_M] ? steps_m : 1;
  const double parts = is_spatial[FPL_DIM_N] ? steps_n : 1;
  const double e_bytes = parts > 1 ? m * l * SUM_BYTES * parts : m * l * e;
  out->global_bytes = m * k * e * a_readers + (g * k * n + n * l) * e * w_readers + e_bytes;
  /* Per block, times all cluster tiles of C and of E, wherever they run (section 2.4). */
  const double c_tiles = steps_m * steps_n, e_tiles = steps_m * steps_l * parts;
  const double exchange = (s->cls_k - 1) * g * blk_m * blk_n * SUM_BYTES;
  const double shuffled = (shuffle - 1) * blk_m * blk_n * e;
  const double scattered = (groups - 1) / groups * blk_m * blk_l * SUM_BYTES;
  out->dsm_bytes = (double)blocks * (c_tiles * (exchange + shuffled) + e_tiles * scattered);
  const double gemm0_fill = (blk_m + g * blk_n) * blk_k * e * steps_k;
  const double gemm1_fill = shuffle * blk_n * blk_l * e * steps_l;
  out->smem_bytes = (double)blocks * c_tiles * (gemm0_fill + gemm1_fill);
  return true;
}

struct ranking {
  const struct fpl_problem *p;
  const struct fpl_device *d;
  struct fpl_best *best;
  int64_t n_ranked;
};

static bool rank_one(void *context, const struct fpl_schedule *s) {
  struct ranking *const r = context;
  struct fpl_paper_traffic traffic;
  if (!fpl_space_paper_traffic(r->p, s, &traffic))
    return true;
  const int64_t blocks = (int64_t)s->cls_m * s->cls_n * s->cls_k;
  const double global_us = traffic.global_bytes / r->d->hbm_bytes_per_us;
  const double smem_us = traffic.smem_bytes / r->d->smem_bytes_per_us;
  const double dsm_us =
      blocks > 1 ? traffic.dsm_bytes / r->d->dsm_bytes_per_us[fpl_cluster_index(blocks)] : 0;
  struct fpl_ranked candidate = {.tie_us = global_us + smem_us + dsm_us};
  candidate.est_us = global_us > smem_us ? global_us : smem_us;
  candidate.est_us = candidate.est_us > dsm_us ? candidate.est_us : dsm_us;
  r->n_ranked++;
  /* Most candidates end here, before the schedule is copied. */
  if (r->best->n == r->best->most && candidate.est_us > r->best->items[0].est_us)
    return true;
  candidate.schedule = *s;
  fpl_best_offer(r->best, &candidate);
  return true;
}

int64_t fpl_space_paper_rank(const struct fpl_problem *p, const struct fpl_device *d,
                             struct fpl_best *best, struct fpl_space_counts *counts) {
  struct ranking ranking = {p, d, best, 0};
  fpl_space_paper_count(p, d, counts);
  fpl_space_paper_each(p, d, rank_one, &ranking);
  fpl_best_sort(best);
  return ranking.n_ranked;
}
