/* One walk, from the fields that refuse most to those that refuse least:
 *
 *   gate, cluster vector        cluster_size
 *     loops, blk_k list         activation
 *       blk_m, blk_n            dependency: the (exchange, reduce) pairs that remain
 *         blk_l, blk_k          capacity: the deepest ring that fits
 *           stages              skeleton
 *
 * Every rule is asked of legal.c, with the fields that are not fixed yet at their smallest value:
 * no rule above looks at a field below it. Sampling is in space_sample.c. */
#include "tuner/core/space_alphabet.h"

#include "tuner/base/str.h"

const int32_t fpl_space_clusters[FPL_SPACE_N_CLUSTERS] = {1, 2, 4, 8, 16};
const int32_t fpl_space_tiles_mk[FPL_SPACE_N_TILES_MK] = {16, 32, 64, 128, 256};

int32_t fpl_space_tile(enum fpl_dim dim, int index) {
  const bool is_coarse = dim == FPL_DIM_M || dim == FPL_DIM_K;
  return is_coarse ? fpl_space_tiles_mk[index] : (index + 1) * 16;
}

int fpl_space_n_tiles(enum fpl_dim dim) {
  return dim == FPL_DIM_M || dim == FPL_DIM_K ? FPL_SPACE_N_TILES_MK : FPL_SPACE_N_TILES_NL;
}

int fpl_space_n_gates(const struct fpl_problem *p) {
  return p->kind == FPL_KIND_GATED_FFN ? 2 : 1;
}

enum { N_PAIRS = FPL_SPACE_N_EXCHANGES * FPL_SPACE_N_REDUCES };

struct tile_list {
  int n;
  int32_t blk[FPL_SPACE_N_TILES_NL];
};

struct walk {
  const struct fpl_problem *p;
  const struct fpl_device *d;
  enum fpl_space_filter filter;
  struct fpl_space_visitor visitor; /* visit NULL: count only */
  struct tile_list tiles[FPL_DIMS]; /* those within tile_limits */
  int64_t n_clusters, n_activation, n_dependency, n_capacity, n_skeleton;
};

static int32_t *tile_field(struct fpl_schedule *s, enum fpl_dim dim) {
  int32_t *const fields[FPL_DIMS] = {&s->blk_m, &s->blk_n, &s->blk_k, &s->blk_l};
  return fields[dim];
}

static void list_tiles(struct walk *w) {
  for (int dim = 0; dim < FPL_DIMS; dim++) {
    struct tile_list *const list = &w->tiles[dim];
    for (int i = 0; i < fpl_space_n_tiles((enum fpl_dim)dim); i++) {
      struct fpl_schedule s = {.blk_m = 16, .blk_n = 16, .blk_k = 16, .blk_l = 16};
      *tile_field(&s, (enum fpl_dim)dim) = fpl_space_tile((enum fpl_dim)dim, i);
      if (fpl_legal_passes(FPL_RULE_TILE_LIMITS, w->p, &s, w->d, NULL, NULL))
        list->blk[list->n++] = fpl_space_tile((enum fpl_dim)dim, i);
    }
  }
}

/* Cluster tiles may cover a third more than the extent: a quarter of what they cover is waste. */
static bool is_cover_wasteful(int64_t extent, int64_t steps, int64_t blk, int64_t cls) {
  const int64_t covered = steps * blk * cls;
  return 3 * covered > 4 * extent && covered > fpl_round_up(extent, 16);
}

static bool has_idle_blocks(int64_t tiles, int64_t cls) {
  return cls > 1 && cls >= 2 * tiles;
}

/* Waves that `tiles` tiles of each of `row_groups` row groups take, cls of them a cluster. */
static int64_t count_waves(const struct walk *w, const struct fpl_schedule *s, int64_t row_groups,
                           int64_t tiles, int64_t cls) {
  const int64_t clusters = w->d->active_sms[fpl_cluster_index(s->cls_n)] / s->cls_n;
  return fpl_ceil_div(row_groups * fpl_ceil_div(tiles, cls), fpl_max_i64(1, clusters));
}

/* Exchange l2: a tile is worth measuring if a smaller one would take more waves (or one of two
 * steps smaller): anything wider only leaves SMs idle. */
static bool is_tile_worthwhile(const struct walk *w, const struct fpl_schedule *s, int64_t extent,
                               int64_t blk, int64_t cls) {
  enum { STEP = 16, STEPS = 2 };
  const int64_t row_groups = fpl_ceil_div(w->p->m, s->blk_m);
  const int64_t waves = count_waves(w, s, row_groups, fpl_ceil_div(extent, blk), cls);
  const int64_t smaller = blk - STEP * STEPS;
  return smaller <= 0 || count_waves(w, s, row_groups, fpl_ceil_div(extent, smaller), cls) > waves;
}

/* Rows: the least that cover m, or half of them beside it (two row groups share the weights'
 * passage through L2); more than 256 rows take several row groups. */
static bool are_rows_worthwhile(const struct walk *w, const struct fpl_schedule *s) {
  const int64_t m = w->p->m;
  if (s->blk_m >= 2 * m && s->blk_m > fpl_space_tiles_mk[0])
    return false;
  return s->blk_m >= m || 2 * s->blk_m >= m || s->blk_m >= 128;
}

/* Exchange smem, dsm, recompute: fewer rows than the tensor cores take only to let more SMs share the
 * weights' way: where all blocks run at once, and nothing is added up in L2. */
static bool are_few_rows_worthwhile(const struct walk *w, const struct fpl_schedule *s,
                                    const struct fpl_tiling *t) {
  return (s->reduce == FPL_REDUCE_NONE || s->reduce == FPL_REDUCE_DSM) &&
         t->units * t->blocks <= w->d->active_sms[fpl_cluster_index(t->blocks)];
}

static bool is_phases_worthwhile(const struct walk *w, const struct fpl_schedule *s) {
  return are_rows_worthwhile(w, s) && is_tile_worthwhile(w, s, w->p->n, s->blk_n, s->cls_n);
}

static bool is_worth_measuring(const struct walk *w, const struct fpl_schedule *s,
                               const struct fpl_tiling *t) {
  const struct fpl_problem *const p = w->p;
  if (has_idle_blocks(t->tiles[FPL_DIM_M], s->cls_m) ||
      has_idle_blocks(t->tiles[FPL_DIM_N], s->cls_n) ||
      has_idle_blocks(t->tiles[FPL_DIM_L], s->cls_l))
    return false;
  if (s->exchange == FPL_EXCHANGE_L2)
    return s->blk_k <= 128 && is_tile_worthwhile(w, s, p->l, s->blk_l, s->cls_l);
  if (s->blk_m < FPL_MMA_ROWS && !are_few_rows_worthwhile(w, s, t))
    return false;
  if (is_cover_wasteful(p->n, t->steps[FPL_DIM_N], s->blk_n, s->cls_n) ||
      is_cover_wasteful(p->k, t->steps[FPL_DIM_K], s->blk_k, t->k_layers) ||
      is_cover_wasteful(p->l, t->steps[FPL_DIM_L], s->blk_l, s->cls_l))
    return false;
  return s->exchange != FPL_EXCHANGE_RECOMPUTE || t->steps[FPL_DIM_L] > 1;
}

/* Depths of the ring, 1 to FPL_SPACE_STAGES_MOST: index stages - 1. Which fit is asked one by one:
 * a ring that holds the staged E tile needs less than a shorter one that does not. */
struct rings {
  struct fpl_footprint footprints[FPL_SPACE_STAGES_MOST];
  bool fits[FPL_SPACE_STAGES_MOST];
  int32_t deepest; /* 0: none fits */
};

static void fit_rings(struct walk *w, struct fpl_schedule *s, const struct fpl_tiling *t,
                      struct rings *out) {
  out->deepest = 0;
  for (int32_t stages = 1; stages <= FPL_SPACE_STAGES_MOST; stages++) {
    struct fpl_footprint *const f = &out->footprints[stages - 1];
    s->stages = stages;
    fpl_footprint_make(t, s, f);
    out->fits[stages - 1] = fpl_legal_passes(FPL_RULE_CAPACITY, w->p, s, w->d, t, f);
    if (!out->fits[stages - 1])
      continue;
    out->deepest = stages;
    w->n_capacity++;
  }
}

/* Offers one depth of the ring, if it fits. */
static bool offer(struct walk *w, struct fpl_schedule *s, const struct fpl_tiling *t,
                  const struct rings *rings, int32_t stages) {
  s->stages = stages;
  if (!rings->fits[stages - 1])
    return true;
  if (w->filter != FPL_SPACE_LEGAL && !fpl_skeleton_fits(w->p, s, NULL))
    return true;
  w->n_skeleton++;
  if (!w->visitor.visit)
    return true;
  return w->visitor.visit(w->visitor.context, s, t, &rings->footprints[stages - 1]);
}

/* All fields but stages are fixed. */
static bool walk_stages(struct walk *w, struct fpl_schedule *s, const struct fpl_tiling *t,
                        const struct rings *rings) {
  const int32_t deepest = rings->deepest;
  if (w->filter == FPL_SPACE_TUNING) {
    if (!is_worth_measuring(w, s, t))
      return true;
    const bool has_half = deepest >= 4 && s->exchange != FPL_EXCHANGE_L2;
    return offer(w, s, t, rings, deepest) && (!has_half || offer(w, s, t, rings, deepest / 2));
  }
  for (int32_t stages = deepest; stages >= 1; stages--)
    if (!offer(w, s, t, rings, stages))
      return false;
  return true;
}

static bool walk_k(struct walk *w, struct fpl_schedule *s, struct fpl_tiling *t,
                   const struct tile_list *blk_k, bool is_implemented) {
  for (int i = 0; i < blk_k->n; i++) {
    struct rings rings;
    s->blk_k = blk_k->blk[i];
    t->steps[FPL_DIM_K] = fpl_ceil_div(w->p->k, s->blk_k * t->k_layers);
    t->tiles[FPL_DIM_K] = fpl_ceil_div(w->p->k, s->blk_k);
    if (fpl_is_two_phase(s)) {
      t->gemm1_depth = s->blk_k;
      t->gemm1_steps = fpl_ceil_div(w->p->n, s->blk_k);
    }
    fit_rings(w, s, t, &rings);
    if (rings.deepest > 0 && is_implemented && !walk_stages(w, s, t, &rings))
      return false;
  }
  return true;
}

static bool walk_l(struct walk *w, struct fpl_schedule *s, const struct tile_list *blk_k) {
  struct fpl_verdict verdict = {FPL_RULE_NONE, ""};
  s->stages = 2;
  if (w->filter != FPL_SPACE_LEGAL)
    fpl_skeleton_fits(w->p, s, &verdict);
  const bool is_implemented =
      verdict.rule != FPL_RULE_SKELETON_KIND && verdict.rule != FPL_RULE_SKELETON_LOOPS;
  if (!is_implemented && w->visitor.visit)
    return true;
  if (w->filter == FPL_SPACE_TUNING && s->exchange == FPL_EXCHANGE_L2 &&
      !is_phases_worthwhile(w, s))
    return true;
  const struct tile_list *const blk_l = &w->tiles[FPL_DIM_L];
  for (int i = 0; i < blk_l->n; i++) {
    struct fpl_tiling t;
    s->blk_l = blk_l->blk[i];
    s->blk_k = blk_k->blk[blk_k->n - 1]; /* legal ones differ in steps along k only */
    fpl_tiling_make(w->p, s, &t);
    if (!walk_k(w, s, &t, blk_k, is_implemented))
      return false;
  }
  return true;
}

/* The pairs of exchange and reduce that agree with loops, cluster, gate, blk_m and blk_n. */
static int list_pairs(const struct walk *w, struct fpl_schedule s, int32_t pairs[N_PAIRS][2]) {
  int n = 0;
  s.blk_l = w->tiles[FPL_DIM_L].blk[0];
  for (int32_t exchange = 0; exchange < FPL_SPACE_N_EXCHANGES; exchange++) {
    struct fpl_tiling t;
    s.exchange = exchange;
    fpl_tiling_make(w->p, &s, &t);
    for (int32_t reduce = 0; reduce < FPL_SPACE_N_REDUCES; reduce++) {
      s.reduce = reduce;
      if (!fpl_legal_passes(FPL_RULE_DEPENDENCY, w->p, &s, w->d, &t, NULL))
        continue;
      pairs[n][0] = exchange;
      pairs[n++][1] = reduce;
    }
  }
  return n;
}

static bool walk_m_n(struct walk *w, struct fpl_schedule *s, const struct tile_list *blk_k) {
  const struct tile_list *const blk_m = &w->tiles[FPL_DIM_M], *const blk_n = &w->tiles[FPL_DIM_N];
  for (int i = 0; i < blk_m->n; i++)
    for (int j = 0; j < blk_n->n; j++) {
      int32_t pairs[N_PAIRS][2];
      s->blk_m = blk_m->blk[i];
      s->blk_n = blk_n->blk[j];
      s->blk_k = blk_k->blk[blk_k->n - 1];
      const int n_pairs = list_pairs(w, *s, pairs);
      w->n_dependency +=
          (int64_t)n_pairs * blk_k->n * w->tiles[FPL_DIM_L].n * FPL_SPACE_STAGES_MOST;
      for (int pair = 0; pair < n_pairs; pair++) {
        s->exchange = pairs[pair][0];
        s->reduce = pairs[pair][1];
        if (!walk_l(w, s, blk_k))
          return false;
      }
    }
  return true;
}

/* Tiles along k with which the sums of C are complete before the activation. */
static struct tile_list list_blk_k(const struct walk *w, struct fpl_schedule s) {
  struct tile_list out = {0};
  s.blk_m = s.blk_n = s.blk_l = 16;
  for (int i = 0; i < w->tiles[FPL_DIM_K].n; i++) {
    struct fpl_tiling t;
    s.blk_k = w->tiles[FPL_DIM_K].blk[i];
    fpl_tiling_make(w->p, &s, &t);
    if (fpl_legal_passes(FPL_RULE_ACTIVATION, w->p, &s, w->d, &t, NULL))
      out.blk[out.n++] = s.blk_k;
  }
  return out;
}

static bool walk_loops(struct walk *w, struct fpl_schedule *s) {
  const int64_t n_m_n_l =
      (int64_t)w->tiles[FPL_DIM_M].n * w->tiles[FPL_DIM_N].n * w->tiles[FPL_DIM_L].n;
  for (s->loops = 0; s->loops < FPL_N_LOOPS; s->loops++) {
    const struct tile_list blk_k = list_blk_k(w, *s);
    w->n_activation += n_m_n_l * blk_k.n * N_PAIRS * FPL_SPACE_STAGES_MOST;
    if (blk_k.n > 0 && !walk_m_n(w, s, &blk_k))
      return false;
  }
  return true;
}

static bool walk_vectors(struct walk *w) {
  const int n_gates = fpl_space_n_gates(w->p);
  for (int i = 0; i < n_gates * FPL_SPACE_N_VECTORS; i++) {
    struct fpl_schedule s = {.gate = i / FPL_SPACE_N_VECTORS};
    fpl_space_set_vector(&s, i % FPL_SPACE_N_VECTORS);
    if (!fpl_legal_passes(FPL_RULE_CLUSTER_SIZE, w->p, &s, w->d, NULL, NULL))
      continue;
    w->n_clusters++;
    if (!walk_loops(w, &s))
      return false;
  }
  return true;
}

void fpl_space_set_vector(struct fpl_schedule *s, int index) {
  int32_t *const fields[FPL_DIMS] = {&s->cls_l, &s->cls_k, &s->cls_n, &s->cls_m};
  for (int i = 0; i < FPL_DIMS; i++) {
    *fields[i] = fpl_space_clusters[index % FPL_SPACE_N_CLUSTERS];
    index /= FPL_SPACE_N_CLUSTERS;
  }
}

void fpl_space_count(const struct fpl_problem *p, const struct fpl_device *d,
                     struct fpl_space_counts *out) {
  struct walk w = {.p = p, .d = d, .filter = FPL_SPACE_SKELETON};
  list_tiles(&w);
  walk_vectors(&w);
  int64_t all = (int64_t)FPL_N_LOOPS * N_PAIRS * FPL_SPACE_STAGES_MOST, limited = all;
  for (int dim = 0; dim < FPL_DIMS; dim++) {
    all *= fpl_space_n_tiles((enum fpl_dim)dim);
    limited *= w.tiles[dim].n;
  }
  const int64_t n_vectors = (int64_t)fpl_space_n_gates(p) * FPL_SPACE_N_VECTORS;
  *out = (struct fpl_space_counts){{{"initial", all * n_vectors},
                                    {fpl_rule_names[FPL_RULE_TILE_LIMITS], limited * n_vectors},
                                    {fpl_rule_names[FPL_RULE_CLUSTER_SIZE], limited * w.n_clusters},
                                    {fpl_rule_names[FPL_RULE_ACTIVATION], w.n_activation},
                                    {fpl_rule_names[FPL_RULE_DEPENDENCY], w.n_dependency},
                                    {fpl_rule_names[FPL_RULE_CAPACITY], w.n_capacity},
                                    {"skeleton", w.n_skeleton}},
                                   7};
}

bool fpl_space_each(const struct fpl_problem *p, const struct fpl_device *d,
                    enum fpl_space_filter filter, struct fpl_space_visitor visitor) {
  struct walk w = {.p = p, .d = d, .filter = filter, .visitor = visitor};
  list_tiles(&w);
  return walk_vectors(&w);
}
