/* The larger space: exact counts where they are products, filters, sampling. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tuner/core/space.h"

#include "tuner/base/str.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Active SMs by cluster size as in profiles/devices/h200.yaml. */
static const struct fpl_device h200 = {
    .smem_bytes_per_block = 232448, .max_cluster = 16, .active_sms = {132, 132, 120, 120, 112}};

static struct fpl_problem make_problem(enum fpl_kind kind, int64_t m, int64_t n, int64_t k,
                                       int64_t l) {
  return (struct fpl_problem){kind, FPL_DTYPE_F16, FPL_ACT_RELU, m, n, k, l, {0}};
}

static void counts_the_products_exactly(void **state) {
  (void)state;
  const struct fpl_problem p = make_problem(FPL_KIND_GEMM_CHAIN, 128, 3072, 768, 768);
  const int64_t tiles = 5 * 16 * 5 * 16, others = 6 * 4 * 8;
  struct fpl_space_counts counts;
  fpl_space_count(&p, &h200, &counts);
  const char *const names[] = {"initial",    "tile_limits", "cluster_size", "activation",
                               "dependency", "capacity",    "skeleton"};
  assert_int_equal(counts.n_rules, 7);
  for (int i = 0; i < 7; i++) {
    assert_string_equal(counts.rules[i].name, names[i]);
    assert_true(counts.rules[i].remaining > 0);
    assert_true(i == 0 || counts.rules[i].remaining <= counts.rules[i - 1].remaining);
  }
  assert_int_equal(counts.rules[0].remaining, 41 * 625 * tiles * others);
  /* blk_m = 256 is twice the problem */
  assert_int_equal(counts.rules[1].remaining, 41 * 625 * (tiles / 5 * 4) * others);
  assert_int_equal(counts.rules[2].remaining, 41 * 70 * (tiles / 5 * 4) * others);
  /* A gated problem has two gates. */
  const struct fpl_problem gated = make_problem(FPL_KIND_GATED_FFN, 128, 3072, 768, 768);
  fpl_space_count(&gated, &h200, &counts);
  assert_int_equal(counts.rules[0].remaining, 41 * 625 * tiles * others * 2);
}

/* Of ic channels, convolved k1 x k1. */
static struct fpl_problem make_conv(int64_t ic, int64_t k1) {
  const struct fpl_conv conv = {.batch = 1, .ic = ic, .h = 28, .w = 28, .k1 = k1};
  struct fpl_problem p;
  assert_int_equal(fpl_problem_make(FPL_KIND_CONV_CHAIN, FPL_DTYPE_F16, FPL_ACT_RELU, 0, 128, 0, 64,
                                    &conv, &p, NULL),
                   FPL_OK);
  return p;
}

static void counts_a_convolution_like_the_chain_of_its_im2col_form(void **state) {
  (void)state;
  struct fpl_space_counts conv, chain;
  const struct fpl_problem lone = make_conv(256, 1), image = make_conv(64, 3);
  const struct fpl_problem like_lone = make_problem(FPL_KIND_GEMM_CHAIN, 784, 128, 256, 64);
  const struct fpl_problem like_image = make_problem(FPL_KIND_GEMM_CHAIN, 784, 128, 576, 64);
  fpl_space_count(&lone, &h200, &conv);
  fpl_space_count(&like_lone, &h200, &chain);
  assert_int_equal(conv.rules[6].remaining, chain.rules[6].remaining);
  assert_true(conv.rules[6].remaining > 0);
  /* 64 channels hold every slab. */
  fpl_space_count(&image, &h200, &conv);
  fpl_space_count(&like_image, &h200, &chain);
  assert_int_equal(conv.rules[6].remaining, chain.rules[6].remaining);
}

static void has_skeletons_for_images_of_whole_slabs(void **state) {
  (void)state;
  struct fpl_space_counts whole, narrow, none;
  const struct fpl_problem of_64 = make_conv(64, 3), of_48 = make_conv(48, 3),
                           of_8 = make_conv(8, 3);
  fpl_space_count(&of_64, &h200, &whole);
  fpl_space_count(&of_48, &h200, &narrow);
  fpl_space_count(&of_8, &h200, &none);
  assert_in_range(narrow.rules[6].remaining, 1, whole.rules[6].remaining - 1);
  assert_true(none.rules[5].remaining > 0);
  assert_int_equal(none.rules[6].remaining, 0);
}

static void counts_a_large_problem_and_says_how_long_it_took(void **state) {
  (void)state;
  const struct fpl_problem p = make_problem(FPL_KIND_GATED_FFN, 256, 16384, 4096, 4096);
  struct fpl_space_counts counts;
  const clock_t start = clock();
  fpl_space_count(&p, &h200, &counts);
  printf("# counted in %.3f s:", (double)(clock() - start) / CLOCKS_PER_SEC);
  for (int i = 0; i < counts.n_rules; i++)
    printf(" %s %lld", counts.rules[i].name, (long long)counts.rules[i].remaining);
  printf("\n");
  assert_int_equal(counts.n_rules, 7);
}

struct tuning {
  const struct fpl_problem *p;
  int64_t n, n_phases; /* schedules seen; of exchange l2 */
  int64_t stop_at;
  struct fpl_schedule last;
};

static bool is_cover_wasteful(int64_t extent, int64_t covered) {
  return 3 * covered > 4 * fpl_round_up(extent, 16);
}

/* Waves of tiles `blk` wide along an extent, cls a cluster of cls_n blocks. */
static int64_t count_waves(const struct fpl_problem *p, const struct fpl_schedule *s,
                           int64_t extent, int64_t blk, int64_t cls) {
  const int64_t clusters = h200.active_sms[fpl_cluster_index(s->cls_n)] / s->cls_n;
  const int64_t units = fpl_ceil_div(p->m, s->blk_m) * fpl_ceil_div(fpl_ceil_div(extent, blk), cls);
  return fpl_ceil_div(units, clusters);
}

/* Exchange l2: tiles that two steps less of width would make one more wave of. */
static void see_phases(const struct fpl_problem *p, const struct fpl_schedule *s) {
  const int64_t narrower_n = s->blk_n - 32, narrower_l = s->blk_l - 32;
  assert_true(s->blk_k <= 128);
  assert_true(narrower_n <= 0 || count_waves(p, s, p->n, narrower_n, s->cls_n) >
                                     count_waves(p, s, p->n, s->blk_n, s->cls_n));
  assert_true(narrower_l <= 0 || count_waves(p, s, p->l, narrower_l, s->cls_l) >
                                     count_waves(p, s, p->l, s->blk_l, s->cls_l));
  assert_true(s->blk_m == 16 || s->blk_m < 2 * p->m);
  assert_true(s->blk_m >= 128 || 2 * s->blk_m >= p->m);
}

static bool see_tuning(void *context, const struct fpl_schedule *s, const struct fpl_tiling *t,
                       const struct fpl_footprint *f) {
  struct tuning *const seen = context;
  const bool is_phases = s->exchange == FPL_EXCHANGE_L2;
  assert_true(fpl_skeleton_fits(seen->p, s, NULL));
  if (is_phases)
    see_phases(seen->p, s);
  else
    assert_false(is_cover_wasteful(seen->p->n, t->steps[FPL_DIM_N] * s->blk_n * s->cls_n));
  seen->n_phases += is_phases;
  assert_true(s->cls_m == 1 || s->cls_m < 2 * t->tiles[FPL_DIM_M]);
  assert_true(s->cls_n == 1 || s->cls_n < 2 * t->tiles[FPL_DIM_N]);
  assert_true(s->cls_l == 1 || s->cls_l < 2 * t->tiles[FPL_DIM_L]);
  assert_false(s->exchange == FPL_EXCHANGE_RECOMPUTE && t->steps[FPL_DIM_L] == 1);
  assert_true(f->smem_bytes <= h200.smem_bytes_per_block);
  /* The deepest ring comes first, and one stage more would not fit; l2 has no other. */
  struct fpl_schedule same = *s;
  same.stages = seen->last.stages;
  if (seen->n > 0 && memcmp(&same, &seen->last, sizeof same) == 0) {
    assert_false(is_phases);
    assert_int_equal(s->stages, seen->last.stages / 2);
  } else
    assert_true(s->stages == FPL_SPACE_STAGES_MOST ||
                f->smem_bytes + f->stage_bytes > h200.smem_bytes_per_block);
  seen->last = *s;
  return ++seen->n != seen->stop_at;
}

static void tunes_only_what_is_worth_measuring(void **state) {
  (void)state;
  const struct fpl_problem problems[] = {
      make_problem(FPL_KIND_GEMM_CHAIN, 128, 3072, 768, 768),
      make_problem(FPL_KIND_GATED_FFN, 1, 1376, 512, 328),
      make_problem(FPL_KIND_GEMM_CHAIN, 129, 264, 72, 40),
  };
  for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
    struct tuning seen = {.p = &problems[i]};
    const struct fpl_space_visitor visitor = {&seen, see_tuning};
    assert_true(fpl_space_each(&problems[i], &h200, FPL_SPACE_TUNING, visitor));
    printf("# %lld schedules worth measuring, %lld of exchange l2\n", (long long)seen.n,
           (long long)seen.n_phases);
    assert_true(seen.n_phases > 0 && seen.n > seen.n_phases);
  }
}

static void stops_when_told(void **state) {
  (void)state;
  const struct fpl_problem p = make_problem(FPL_KIND_GEMM_CHAIN, 128, 3072, 768, 768);
  struct tuning seen = {.p = &p, .stop_at = 5};
  const struct fpl_space_visitor visitor = {&seen, see_tuning};
  assert_false(fpl_space_each(&p, &h200, FPL_SPACE_TUNING, visitor));
  assert_int_equal(seen.n, 5);
}

enum { N_SAMPLE = 60 };

static void samples_legal_schedules_of_every_exchange(void **state) {
  (void)state;
  const struct fpl_problem p = make_problem(FPL_KIND_GATED_FFN, 100, 200, 120, 72);
  struct fpl_schedule out[N_SAMPLE];
  int n_exchange[FPL_EXCHANGE_RECOMPUTE + 1] = {0};
  assert_int_equal(fpl_space_sample(&p, &h200, FPL_SPACE_LEGAL, FPL_RULE_NONE, 1, N_SAMPLE, out),
                   N_SAMPLE);
  for (int i = 0; i < N_SAMPLE; i++) {
    struct fpl_tiling t;
    struct fpl_footprint f;
    assert_true(fpl_legal(&p, &out[i], &h200, &t, &f, NULL));
    n_exchange[out[i].exchange]++;
  }
  for (int i = 0; i <= FPL_EXCHANGE_RECOMPUTE; i++)
    assert_int_equal(n_exchange[i], N_SAMPLE / 6);
}

static void samples_what_a_skeleton_implements(void **state) {
  (void)state;
  const struct fpl_problem p = make_problem(FPL_KIND_GEMM_CHAIN, 128, 3072, 768, 768);
  struct fpl_schedule out[N_SAMPLE];
  assert_int_equal(fpl_space_sample(&p, &h200, FPL_SPACE_SKELETON, FPL_RULE_NONE, 2, N_SAMPLE, out),
                   N_SAMPLE);
  for (int i = 0; i < N_SAMPLE; i++)
    assert_true(fpl_skeleton_fits(&p, &out[i], NULL));
}

static void samples_refusals_of_each_rule(void **state) {
  (void)state;
  const struct fpl_problem p = make_problem(FPL_KIND_GEMM_CHAIN, 128, 3072, 768, 768);
  const enum fpl_rule rules[] = {
      FPL_RULE_TILE_LIMITS, FPL_RULE_CLUSTER_SIZE,   FPL_RULE_ACTIVATION,    FPL_RULE_DEPENDENCY,
      FPL_RULE_CAPACITY,    FPL_RULE_SKELETON_LOOPS, FPL_RULE_SKELETON_TILES};
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    struct fpl_schedule out[12];
    assert_int_equal(fpl_space_sample(&p, &h200, FPL_SPACE_LEGAL, rules[i], 3, 12, out), 12);
    for (int j = 0; j < 12; j++) {
      struct fpl_tiling t;
      struct fpl_footprint f;
      struct fpl_verdict verdict;
      if (fpl_legal(&p, &out[j], &h200, &t, &f, &verdict))
        fpl_skeleton_fits(&p, &out[j], &verdict);
      assert_int_equal(verdict.rule, rules[i]);
    }
  }
}

static void samples_the_same_from_the_same_seed(void **state) {
  (void)state;
  const struct fpl_problem p = make_problem(FPL_KIND_GEMM_CHAIN, 128, 3072, 768, 768);
  struct fpl_schedule a[12], b[12], c[12];
  fpl_space_sample(&p, &h200, FPL_SPACE_LEGAL, FPL_RULE_NONE, 7, 12, a);
  fpl_space_sample(&p, &h200, FPL_SPACE_LEGAL, FPL_RULE_NONE, 7, 12, b);
  fpl_space_sample(&p, &h200, FPL_SPACE_LEGAL, FPL_RULE_NONE, 8, 12, c);
  assert_memory_equal(a, b, sizeof a);
  assert_memory_not_equal(a, c, sizeof a);
}

static void samples_nothing_where_there_is_nothing(void **state) {
  (void)state;
  const struct fpl_problem p = make_conv(8, 3);
  struct fpl_schedule out[4];
  assert_int_equal(fpl_space_sample(&p, &h200, FPL_SPACE_SKELETON, FPL_RULE_NONE, 1, 4, out), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counts_the_products_exactly),
      cmocka_unit_test(counts_a_convolution_like_the_chain_of_its_im2col_form),
      cmocka_unit_test(has_skeletons_for_images_of_whole_slabs),
      cmocka_unit_test(counts_a_large_problem_and_says_how_long_it_took),
      cmocka_unit_test(tunes_only_what_is_worth_measuring),
      cmocka_unit_test(stops_when_told),
      cmocka_unit_test(samples_legal_schedules_of_every_exchange),
      cmocka_unit_test(samples_what_a_skeleton_implements),
      cmocka_unit_test(samples_refusals_of_each_rule),
      cmocka_unit_test(samples_the_same_from_the_same_seed),
      cmocka_unit_test(samples_nothing_where_there_is_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
