/* Sampling by rejection: draw every field, keep what the wanted rule says. Cluster vectors are
 * drawn among the valid ones (or the others, where cluster_size is to refuse): nearly every draw
 * would be refused by them. */
#include "tuner/core/space_alphabet.h"

enum {
  TRIES_PER_TURN = 200000, /* then this exchange is taken not to occur */
  ODD_TILE = 24            /* no multiple of 16: for schedules that tile_limits refuses */
};

/* SplitMix64 (Steele, Lea, Flood, OOPSLA 2014). */
static uint64_t next_random(uint64_t *state) {
  uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

static int32_t draw(uint64_t *state, int n) {
  return (int32_t)(next_random(state) % (uint64_t)n);
}

static int32_t draw_tile(uint64_t *state, enum fpl_dim dim) {
  return fpl_space_tile(dim, draw(state, fpl_space_n_tiles(dim)));
}

struct want {
  const struct fpl_problem *p;
  const struct fpl_device *d;
  enum fpl_space_filter filter;
  enum fpl_rule rule;
  int n_vectors; /* cluster vectors to draw from */
  int16_t vectors[FPL_SPACE_N_VECTORS];
};

static void list_vectors(struct want *want) {
  for (int i = 0; i < FPL_SPACE_N_VECTORS; i++) {
    struct fpl_schedule s = {0};
    fpl_space_set_vector(&s, i);
    if (fpl_legal_passes(FPL_RULE_CLUSTER_SIZE, want->p, &s, want->d, NULL, NULL) !=
        (want->rule == FPL_RULE_CLUSTER_SIZE))
      want->vectors[want->n_vectors++] = (int16_t)i;
  }
}

/* The rule that fpl_legal would name, without its text. */
static enum fpl_rule first_refusal(const struct want *want, const struct fpl_schedule *s) {
  struct fpl_tiling t;
  struct fpl_footprint f;
  for (enum fpl_rule rule = FPL_RULE_TILE_LIMITS; rule <= FPL_RULE_CAPACITY; rule++) {
    if (rule == FPL_RULE_ACTIVATION)
      fpl_tiling_make(want->p, s, &t);
    if (rule == FPL_RULE_CAPACITY)
      fpl_footprint_make(&t, s, &f);
    if (!fpl_legal_passes(rule, want->p, s, want->d, &t, &f))
      return rule;
  }
  return FPL_RULE_NONE;
}

static bool is_wanted(const struct want *want, const struct fpl_schedule *s) {
  const enum fpl_rule refusal = first_refusal(want, s);
  if (want->rule >= FPL_RULE_SKELETON_KIND) {
    struct fpl_verdict verdict;
    return refusal == FPL_RULE_NONE && !fpl_skeleton_fits(want->p, s, &verdict) &&
           verdict.rule == want->rule;
  }
  return refusal == want->rule && (refusal != FPL_RULE_NONE || want->filter == FPL_SPACE_LEGAL ||
                                   fpl_skeleton_fits(want->p, s, NULL));
}

static void draw_schedule(const struct want *want, uint64_t *state, struct fpl_schedule *s) {
  fpl_space_set_vector(s, want->vectors[draw(state, want->n_vectors)]);
  s->loops = draw(state, FPL_N_LOOPS);
  s->blk_m = draw_tile(state, FPL_DIM_M);
  s->blk_n = draw_tile(state, FPL_DIM_N);
  s->blk_k = draw_tile(state, FPL_DIM_K);
  s->blk_l = draw_tile(state, FPL_DIM_L);
  if (want->rule == FPL_RULE_TILE_LIMITS) {
    int32_t *const tiles[FPL_DIMS] = {&s->blk_m, &s->blk_n, &s->blk_k, &s->blk_l};
    *tiles[draw(state, FPL_DIMS)] += ODD_TILE;
  }
  s->reduce = draw(state, FPL_SPACE_N_REDUCES);
  s->gate = draw(state, fpl_space_n_gates(want->p));
  s->stages = 1 + draw(state, FPL_SPACE_STAGES_MOST);
}

int64_t fpl_space_sample(const struct fpl_problem *p, const struct fpl_device *d,
                         enum fpl_space_filter filter, enum fpl_rule rule, uint64_t seed, int64_t n,
                         struct fpl_schedule *out) {
  struct want want = {.p = p, .d = d, .filter = filter, .rule = rule};
  list_vectors(&want);
  uint64_t state = seed;
  int64_t n_found = 0;
  bool is_absent[FPL_SPACE_N_EXCHANGES] = {false};
  int n_absent = 0;
  for (int32_t turn = 0; n_found < n && n_absent < FPL_SPACE_N_EXCHANGES; turn++) {
    const int32_t exchange = turn % FPL_SPACE_N_EXCHANGES;
    bool is_found = is_absent[exchange];
    for (int tries = 0; !is_found && tries < TRIES_PER_TURN; tries++) {
      struct fpl_schedule s = {.exchange = exchange};
      draw_schedule(&want, &state, &s);
      is_found = is_wanted(&want, &s);
      if (is_found)
        out[n_found++] = s;
    }
    if (!is_found) {
      is_absent[exchange] = true;
      n_absent++;
    }
  }
  return n_found;
}
