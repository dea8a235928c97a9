/* Ranking with fake cost models. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tuner/core/space.h"
#include "tuner/search/rank.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct fpl_device h200 = {.smem_bytes_per_block = 232448, .max_cluster = 16};
static const struct fpl_problem ffn = {
    FPL_KIND_GEMM_CHAIN, FPL_DTYPE_F16, FPL_ACT_RELU, 128, 3072, 768, 768, {0}};

/* Any function of the schedule will do; this one has many ties and hides recompute. */
static double fake_us(void *self, const struct fpl_problem *p, const struct fpl_schedule *s,
                      const struct fpl_device *d, const struct fpl_tiling *t,
                      const struct fpl_footprint *f) {
  (void)self;
  (void)p;
  (void)d;
  const double penalty = s->exchange == FPL_EXCHANGE_RECOMPUTE ? 1000 : 0;
  return 10 + (double)(t->units % 7) + (double)(f->ring_bytes % 5) + (double)t->blocks + penalty;
}
static const struct fpl_cost_port fake_cost = {NULL, fake_us};

struct collected {
  struct fpl_ranked *items;
  int64_t n, capacity;
};

static bool collect(void *context, const struct fpl_schedule *s, const struct fpl_tiling *t,
                    const struct fpl_footprint *f) {
  struct collected *const all = context;
  if (all->n == all->capacity) {
    all->capacity = 2 * all->capacity + 1024;
    all->items = realloc(all->items, (size_t)all->capacity * sizeof *all->items);
    assert_non_null(all->items);
  }
  all->items[all->n++] = (struct fpl_ranked){*s, fake_us(NULL, &ffn, s, &h200, t, f), 0};
  return true;
}

/* Field by field: the struct has padding. */
static void assert_same_ranked(const struct fpl_ranked *a, const struct fpl_ranked *b, int n) {
  for (int i = 0; i < n; i++) {
    assert_memory_equal(&a[i].schedule, &b[i].schedule, sizeof a[i].schedule);
    assert_true(!fpl_ranked_before(&a[i], &b[i]) && !fpl_ranked_before(&b[i], &a[i]));
  }
}

static int compare(const void *a, const void *b) {
  const struct fpl_ranked *const x = a, *const y = b;
  return fpl_ranked_before(x, y) ? -1 : fpl_ranked_before(y, x);
}

static void keeps_the_best_of_sorting_everything(void **state) {
  (void)state;
  enum { TOP = 40 };
  struct collected all = {0};
  const struct fpl_space_visitor visitor = {&all, collect};
  fpl_space_each(&ffn, &h200, FPL_SPACE_TUNING, visitor);
  qsort(all.items, (size_t)all.n, sizeof *all.items, compare);
  const struct fpl_rank_options everything = {FPL_SPACE_STAGES_MOST, 0, false};
  struct fpl_ranked out[TOP];
  struct fpl_rank_counts counts;
  assert_int_equal(fpl_rank(&ffn, &h200, &fake_cost, TOP, &everything, out, &counts), TOP);
  assert_int_equal(counts.n_costed, all.n);
  for (int i = 0; i < TOP; i++)
    assert_memory_equal(&out[i].schedule, &all.items[i].schedule, sizeof out[i].schedule);
  free(all.items);
}

static void keeps_one_of_the_variants_in_stages(void **state) {
  (void)state;
  enum { TOP = 40 };
  const struct fpl_rank_options options = {1, 0, false};
  struct fpl_ranked out[TOP];
  assert_int_equal(fpl_rank(&ffn, &h200, &fake_cost, TOP, &options, out, NULL), TOP);
  for (int i = 0; i < TOP; i++)
    for (int j = 0; j < i; j++) {
      struct fpl_schedule a = out[i].schedule, b = out[j].schedule;
      a.stages = b.stages = 1;
      assert_memory_not_equal(&a, &b, sizeof a);
    }
}

static int count_exchange(const struct fpl_ranked *items, int n, enum fpl_exchange exchange) {
  int count = 0;
  for (int i = 0; i < n; i++)
    count += items[i].schedule.exchange == (int32_t)exchange;
  return count;
}

static void diversity_keeps_families_the_model_dislikes(void **state) {
  (void)state;
  enum { TOP = 24 };
  const struct fpl_rank_options greedy = {1, 0, false};
  struct fpl_ranked plain[TOP], varied[TOP];
  struct fpl_rank_counts counts;
  fpl_rank(&ffn, &h200, &fake_cost, TOP, &greedy, plain, NULL);
  assert_int_equal(count_exchange(plain, TOP, FPL_EXCHANGE_RECOMPUTE), 0);
  assert_int_equal(fpl_rank(&ffn, &h200, &fake_cost, TOP, &fpl_rank_defaults, varied, &counts),
                   TOP);
  assert_true(counts.n_families > 4);
  assert_true(count_exchange(varied, TOP, FPL_EXCHANGE_RECOMPUTE) > 0);
  /* The first half is the model's own. */
  assert_same_ranked(plain, varied, TOP / 2);
  for (int i = 1; i < TOP; i++)
    assert_true(fpl_ranked_before(&varied[i - 1], &varied[i]));
}

static void answers_the_same_every_time(void **state) {
  (void)state;
  struct fpl_ranked a[11], b[11], best;
  assert_int_equal(fpl_rank(&ffn, &h200, &fake_cost, 11, &fpl_rank_defaults, a, NULL), 11);
  assert_int_equal(fpl_rank(&ffn, &h200, &fake_cost, 11, &fpl_rank_defaults, b, NULL), 11);
  assert_same_ranked(a, b, 11);
  assert_int_equal(fpl_rank(&ffn, &h200, &fake_cost, 1, &fpl_rank_defaults, &best, NULL), 1);
  assert_same_ranked(a, &best, 1);
}

static double infinite_us(void *self, const struct fpl_problem *p, const struct fpl_schedule *s,
                          const struct fpl_device *d, const struct fpl_tiling *t,
                          const struct fpl_footprint *f) {
  return s->cls_m == 2 ? fake_us(self, p, s, d, t, f) : (double)INFINITY;
}

static void leaves_out_costs_that_are_not_finite(void **state) {
  (void)state;
  const struct fpl_cost_port cost = {NULL, infinite_us};
  struct fpl_problem p = ffn;
  p.m = 256;
  struct fpl_ranked out[11];
  assert_int_equal(fpl_rank(&p, &h200, &cost, 11, &fpl_rank_defaults, out, NULL), 11);
  for (int i = 0; i < 11; i++)
    assert_int_equal(out[i].schedule.cls_m, 2);
}

static double later_is_better_us(void *self, const struct fpl_problem *p,
                                 const struct fpl_schedule *s, const struct fpl_device *d,
                                 const struct fpl_tiling *t, const struct fpl_footprint *f) {
  int64_t *const n_calls = self;
  (void)p;
  (void)s;
  (void)d;
  (void)t;
  (void)f;
  return 1e9 - (double)++*n_calls;
}

static void counts_the_last_schedule_too(void **state) {
  (void)state;
  int64_t n_calls = 0;
  const struct fpl_cost_port cost = {&n_calls, later_is_better_us};
  struct fpl_ranked best;
  assert_int_equal(fpl_rank(&ffn, &h200, &cost, 1, &fpl_rank_defaults, &best, NULL), 1);
  assert_true(best.est_us == 1e9 - (double)n_calls);
}

static void keeps_deterministic_schedules_where_asked(void **state) {
  (void)state;
  enum { MOST = 32 };
  struct fpl_ranked out[MOST];
  struct fpl_rank_options options = fpl_rank_defaults;
  int n_others = 0;
  for (int turn = 0; turn < 2; turn++) {
    options.is_deterministic = turn == 1;
    const int n = fpl_rank(&ffn, &h200, &fake_cost, MOST, &options, out, NULL);
    assert_int_equal(n, MOST);
    for (int i = 0; i < n; i++)
      n_others += !fpl_schedule_is_deterministic(&out[i].schedule);
    assert_true(turn == 0 ? n_others > 0 : n_others == 0);
    n_others = 0;
  }
}

static void finds_nothing_where_no_skeleton_fits(void **state) {
  (void)state;
  struct fpl_problem p = ffn;
  p.kind = FPL_KIND_CONV_CHAIN;
  p.conv = (struct fpl_conv){.batch = 1, .ic = 8, .h = 8, .w = 16, .k1 = 3};
  struct fpl_ranked out[11];
  assert_int_equal(fpl_rank(&p, &h200, &fake_cost, 11, &fpl_rank_defaults, out, NULL), 0);
}

static void says_how_long_it_took(void **state) {
  (void)state;
  struct fpl_problem p = ffn;
  p.kind = FPL_KIND_GATED_FFN;
  p.n = 16384;
  p.k = p.l = 4096;
  struct fpl_ranked out[11];
  struct fpl_rank_counts counts;
  const clock_t start = clock();
  assert_int_equal(fpl_rank(&p, &h200, &fake_cost, 11, &fpl_rank_defaults, out, &counts), 11);
  printf("# ranked %lld schedules in %.3f s\n", (long long)counts.n_costed,
         (double)(clock() - start) / CLOCKS_PER_SEC);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keeps_the_best_of_sorting_everything),
      cmocka_unit_test(keeps_one_of_the_variants_in_stages),
      cmocka_unit_test(diversity_keeps_families_the_model_dislikes),
      cmocka_unit_test(answers_the_same_every_time),
      cmocka_unit_test(leaves_out_costs_that_are_not_finite),
      cmocka_unit_test(counts_the_last_schedule_too),
      cmocka_unit_test(keeps_deterministic_schedules_where_asked),
      cmocka_unit_test(finds_nothing_where_no_skeleton_fits),
      cmocka_unit_test(says_how_long_it_took),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
