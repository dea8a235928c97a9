/* The walk over the space against legal.h: what it visits is legal, what is legal it visits, and
 * its counts are those of asking fpl_legal about every element of the alphabets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tuner/core/space.h"

#include <stdlib.h>
#include <string.h>

static const struct fpl_device wide = {.smem_bytes_per_block = 100000, .max_cluster = 16};
static const struct fpl_device pairs = {.smem_bytes_per_block = 232448, .max_cluster = 2};
static const struct fpl_device small = {.smem_bytes_per_block = 60000, .max_cluster = 4};

/* Problems with few tiles, masked edges, and a k that one step covers. */
static const struct {
  struct fpl_problem p;
  const struct fpl_device *d;
} cases[] = {
    {{FPL_KIND_GEMM_CHAIN, FPL_DTYPE_F16, FPL_ACT_RELU, 128, 3072, 768, 768, {0}}, &pairs},
    {{FPL_KIND_GATED_FFN, FPL_DTYPE_BF16, FPL_ACT_SILU, 33, 200, 72, 40, {0}}, &wide},
    {{FPL_KIND_GEMM_CHAIN, FPL_DTYPE_F16, FPL_ACT_NONE, 16, 32, 16, 48, {0}}, &small},
    {{FPL_KIND_GATED_FFN, FPL_DTYPE_F16, FPL_ACT_GELU, 1, 520, 1040, 264, {0}}, &small},
};
enum { N_CASES = sizeof cases / sizeof *cases, N_PROBES = 400 };

struct check {
  const struct fpl_problem *p;
  const struct fpl_device *d;
  enum fpl_space_filter filter;
  int64_t n;
  const struct fpl_schedule *probes; /* sorted */
  bool was_seen[N_PROBES];
};

static int compare(const void *a, const void *b) {
  return memcmp(a, b, sizeof(struct fpl_schedule));
}

static void check_visit(const struct check *c, const struct fpl_schedule *s,
                        const struct fpl_tiling *t, const struct fpl_footprint *f) {
  struct fpl_tiling tiling;
  struct fpl_footprint footprint;
  assert_true(fpl_legal(c->p, s, c->d, &tiling, &footprint, NULL));
  assert_true(c->filter == FPL_SPACE_LEGAL || fpl_skeleton_fits(c->p, s, NULL));
  assert_memory_equal(t, &tiling, sizeof tiling);
  assert_int_equal(f->smem_bytes, footprint.smem_bytes);
  assert_int_equal(f->ring_bytes, footprint.ring_bytes);
  assert_int_equal(f->accumulators, footprint.accumulators);
}

static bool see(void *context, const struct fpl_schedule *s, const struct fpl_tiling *t,
                const struct fpl_footprint *f) {
  struct check *const c = context;
  if (c->n++ % 37 == 0)
    check_visit(c, s, t, f);
  const struct fpl_schedule *const probe = bsearch(s, c->probes, N_PROBES, sizeof *s, compare);
  if (probe)
    for (const struct fpl_schedule *at = c->probes; at < c->probes + N_PROBES; at++)
      c->was_seen[at - c->probes] |= memcmp(at, probe, sizeof *at) == 0;
  return true;
}

/* Half of the probes legal, half refused by rules in turn. */
static void draw_probes(const struct fpl_problem *p, const struct fpl_device *d, uint64_t seed,
                        struct fpl_schedule out[N_PROBES]) {
  const enum fpl_rule refusals[] = {FPL_RULE_CLUSTER_SIZE, FPL_RULE_ACTIVATION, FPL_RULE_DEPENDENCY,
                                    FPL_RULE_CAPACITY};
  int64_t n = fpl_space_sample(p, d, FPL_SPACE_LEGAL, FPL_RULE_NONE, seed, N_PROBES / 2, out);
  for (int i = 0; i < 4; i++)
    n += fpl_space_sample(p, d, FPL_SPACE_LEGAL, refusals[i], seed, N_PROBES / 8, out + n);
  assert_true(n > N_PROBES * 5 / 8);
  for (; n < N_PROBES; n++) /* a rule that never refuses here */
    out[n] = out[0];
  qsort(out, N_PROBES, sizeof *out, compare);
}

static void visits_a_schedule_if_and_only_if_it_is_legal(void **state) {
  (void)state;
  for (int i = 0; i < N_CASES; i++) {
    static struct fpl_schedule probes[N_PROBES];
    draw_probes(&cases[i].p, cases[i].d, (uint64_t)i + 1, probes);
    struct check c = {.p = &cases[i].p, .d = cases[i].d, .probes = probes};
    const struct fpl_space_visitor visitor = {&c, see};
    assert_true(fpl_space_each(c.p, c.d, FPL_SPACE_LEGAL, visitor));
    struct fpl_space_counts counts;
    fpl_space_count(c.p, c.d, &counts);
    assert_int_equal(c.n, counts.rules[5].remaining);
    int n_legal = 0;
    for (int j = 0; j < N_PROBES; j++) {
      struct fpl_tiling t;
      struct fpl_footprint f;
      const bool is_legal = fpl_legal(c.p, &probes[j], c.d, &t, &f, NULL);
      assert_int_equal(c.was_seen[j], is_legal);
      n_legal += is_legal;
    }
    assert_true(n_legal >= N_PROBES / 2 && n_legal < N_PROBES);
  }
}

static void visits_what_the_skeletons_implement(void **state) {
  (void)state;
  for (int i = 0; i < N_CASES; i++) {
    static struct fpl_schedule probes[N_PROBES];
    draw_probes(&cases[i].p, cases[i].d, (uint64_t)i + 11, probes);
    struct check c = {
        .p = &cases[i].p, .d = cases[i].d, .filter = FPL_SPACE_SKELETON, .probes = probes};
    const struct fpl_space_visitor visitor = {&c, see};
    assert_true(fpl_space_each(c.p, c.d, FPL_SPACE_SKELETON, visitor));
    struct fpl_space_counts counts;
    fpl_space_count(c.p, c.d, &counts);
    assert_int_equal(c.n, counts.rules[6].remaining);
    for (int j = 0; j < N_PROBES; j++) {
      struct fpl_tiling t;
      struct fpl_footprint f;
      assert_int_equal(c.was_seen[j], fpl_legal(c.p, &probes[j], c.d, &t, &f, NULL) &&
                                          fpl_skeleton_fits(c.p, &probes[j], NULL));
    }
  }
}

static int64_t count_depths(const struct fpl_problem *p, struct fpl_schedule s) {
  int64_t n = 0;
  for (s.stages = 1; s.stages <= FPL_SPACE_STAGES_MOST; s.stages++) {
    struct fpl_tiling t;
    struct fpl_footprint f;
    n += fpl_legal(p, &s, &small, &t, &f, NULL);
  }
  return n;
}

/* Case 2 by brute force: no cluster above 4 and no tile above these is legal there. */
static void counts_as_asking_about_everything_does(void **state) {
  (void)state;
  const int32_t cluster[] = {1, 2, 4}, tile_mk[] = {16, 32, 64};
  int64_t n_legal = 0;
  for (int vector = 0; vector < 3 * 3 * 3 * 3; vector++)
    for (int tiles = 0; tiles < 3 * 4 * 3 * 5; tiles++)
      for (int rest = 0; rest < FPL_N_LOOPS * 6 * 4; rest++) {
        const struct fpl_schedule s = {.loops = rest % FPL_N_LOOPS,
                                       .cls_m = cluster[vector % 3],
                                       .cls_n = cluster[vector / 3 % 3],
                                       .cls_k = cluster[vector / 9 % 3],
                                       .cls_l = cluster[vector / 27],
                                       .blk_m = tile_mk[tiles % 3],
                                       .blk_n = 16 * (1 + tiles / 3 % 4),
                                       .blk_k = tile_mk[tiles / 12 % 3],
                                       .blk_l = 16 * (1 + tiles / 36),
                                       .exchange = rest / FPL_N_LOOPS % 6,
                                       .reduce = rest / FPL_N_LOOPS / 6};
        n_legal += count_depths(&cases[2].p, s);
      }
  struct fpl_space_counts counts;
  fpl_space_count(&cases[2].p, &small, &counts);
  assert_int_equal(counts.rules[5].remaining, n_legal);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(visits_a_schedule_if_and_only_if_it_is_legal),
      cmocka_unit_test(visits_what_the_skeletons_implement),
      cmocka_unit_test(counts_as_asking_about_everything_does),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
