/* The paper's space: numbers of FlashFuser Tables III and IV, and their derivations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tuner/core/space_paper.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* What the paper's rules and cost look at. Shared memory, cluster: CUDA C Programming Guide,
 * compute capability 9.0; HBM: H100 SXM data sheet; DSM: FlashFuser Fig. 4; shared memory rate: 132
 * SMs x 128 B x 1.98 GHz, rounded down. */
static const struct fpl_device h100 = {
    .smem_bytes_per_block = 232448,
    .max_cluster = 16,
    .hbm_bytes_per_us = 3.35e6,
    .smem_bytes_per_us = 33e6,
    .dsm_bytes_per_us = {0, 3.3e6, 3.2e6, 3.1e6, 2.9e6},
};

static struct fpl_problem make_problem(int64_t m, int64_t n, int64_t k, int64_t l) {
  return (struct fpl_problem){FPL_KIND_GEMM_CHAIN, FPL_DTYPE_F16, FPL_ACT_RELU, m, n, k, l, {0}};
}

static void counts_divisors_that_are_multiples_of_16(void **state) {
  (void)state;
  assert_int_equal(fpl_space_d16(128), 4);
  assert_int_equal(fpl_space_d16(256), 5);
  assert_int_equal(fpl_space_d16(4096), 9);
  assert_int_equal(fpl_space_d16(16384), 11);
  assert_int_equal(fpl_space_d16(144), 3); /* 16 48 144 */
  assert_int_equal(fpl_space_d16(16), 1);
  assert_int_equal(fpl_space_d16(100), 0);
  assert_int_equal(fpl_space_d16(8), 0);
}

static void counts_cluster_vectors_by_each_reading(void **state) {
  (void)state;
  assert_int_equal(fpl_vectors_count(FPL_VECTORS_BLOCKS, 16), 175);
  assert_int_equal(fpl_vectors_count(FPL_VECTORS_SHUFFLE, 16), 140);
  assert_int_equal(fpl_vectors_count(FPL_VECTORS_PAPER, 16), 135);
  assert_int_equal(fpl_vectors_count(FPL_VECTORS_REDUCE, 16), 105);
  assert_int_equal(fpl_vectors_count(FPL_VECTORS_FLOW, 16), 70);
}

static void accepts_the_paper_s_cluster_vectors(void **state) {
  (void)state;
  const int32_t good[][FPL_DIMS] = {
      {2, 4, 2, 4}, {2, 4, 2, 8}, {1, 4, 1, 4}, {1, 8, 2, 4}, {4, 2, 2, 4}};
  const int32_t bad[][FPL_DIMS] = {{2, 4, 4, 4}, {1, 2, 4, 2}};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    assert_true(fpl_vector_is_valid(FPL_VECTORS_FLOW, good[i], 16));
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_false(fpl_vector_is_valid(FPL_VECTORS_FLOW, bad[i], 16));
}

static void keeps_the_16_loops_of_the_paper(void **state) {
  (void)state;
  const char *const expected[] = {"m|nlk", "m|lnk", "n|mlk", "n|lmk", "k|mnl", "k|mln",
                                  "k|nml", "k|nlm", "k|lmn", "k|lnm", "mn|lk", "mk|nl",
                                  "mk|ln", "nk|ml", "nk|lm", "mnk|l", NULL};
  int n_activation = 0, n_both = 0;
  for (int32_t i = 0; i < FPL_N_LOOPS; i++) {
    const struct fpl_loops *const loops = fpl_loops_get(i);
    const bool is_kept = fpl_space_paper_keeps_activation(loops);
    n_activation += is_kept;
    if (!is_kept || !fpl_space_paper_keeps_dependency(loops))
      continue;
    n_both++;
    bool is_listed = false;
    for (int j = 0; expected[j]; j++)
      is_listed |= strcmp(expected[j], fpl_loops_names[i]) == 0;
    assert_true(is_listed);
  }
  assert_int_equal(n_activation, 26);
  assert_int_equal(n_both, 16);
}

static void reproduces_table_iii(void **state) {
  (void)state;
  const struct fpl_problem p = make_problem(256, 16384, 4096, 4096);
  const struct {
    const char *name;
    int64_t remaining;
    double paper;
  } expected[] = {{"initial", INT64_C(27514634240000), 2.75e13},
                  {"divisible_tiles", 114159375, 1.14e8},
                  {"cluster_size", 24658425, 2.47e7},
                  {"activation", 15637050, 1.44e7},
                  {"dependency", 9622800, 9.62e6},
                  {"capacity", 1197437, 1.15e6}};
  struct fpl_space_counts counts;
  fpl_space_paper_count(&p, &h100, &counts);
  assert_int_equal(counts.n_rules, 6);
  for (int i = 0; i < counts.n_rules; i++) {
    assert_string_equal(counts.rules[i].name, expected[i].name);
    assert_int_equal(counts.rules[i].remaining, expected[i].remaining);
    assert_true(fabs((double)counts.rules[i].remaining / expected[i].paper - 1) < 0.10);
  }
}

static void counts_the_evaluated_shape(void **state) {
  (void)state;
  const struct fpl_problem p = make_problem(128, 16384, 4096, 4096);
  struct fpl_space_counts counts;
  fpl_space_paper_count(&p, &h100, &counts);
  assert_int_equal(counts.rules[1].remaining, INT64_C(41) * 625 * 3564);
}

static void says_zero_when_nothing_divides_and_saturates_when_too_much(void **state) {
  (void)state;
  struct fpl_space_counts counts;
  const struct fpl_problem odd = make_problem(100, 64, 64, 64);
  fpl_space_paper_count(&odd, &h100, &counts);
  assert_int_equal(counts.rules[0].remaining, INT64_C(41) * 625 * 6 * 4 * 4 * 4);
  for (int i = 1; i < 6; i++)
    assert_int_equal(counts.rules[i].remaining, 0);
  const struct fpl_problem vast = make_problem(1 << 20, 1 << 21, 1 << 21, 1 << 21);
  fpl_space_paper_count(&vast, &h100, &counts);
  assert_true(counts.rules[0].remaining == INT64_MAX);
}

static void capacity_shrinks_with_shared_memory(void **state) {
  (void)state;
  const struct fpl_problem p = make_problem(128, 512, 416, 256);
  struct fpl_device small = h100;
  small.smem_bytes_per_block /= 4;
  struct fpl_space_counts with, without;
  fpl_space_paper_count(&p, &h100, &with);
  fpl_space_paper_count(&p, &small, &without);
  assert_true(without.rules[5].remaining < with.rules[5].remaining);
  assert_true(without.rules[5].remaining > 0);
  assert_int_equal(with.rules[4].remaining, without.rules[4].remaining);
}

struct seen {
  int64_t n;
  int64_t stop_at;
};

static bool see(void *context, const struct fpl_schedule *s) {
  struct seen *const seen = context;
  const int32_t cls[FPL_DIMS] = {s->cls_m, s->cls_n, s->cls_k, s->cls_l};
  assert_true(fpl_vector_is_valid(FPL_VECTORS_PAPER, cls, 16));
  assert_false(fpl_loops_get(s->loops)->is_spatial[FPL_DIM_L]);
  return ++seen->n != seen->stop_at;
}

static void visits_as_many_survivors_as_it_counts(void **state) {
  (void)state;
  const struct fpl_problem p = make_problem(128, 512, 416, 256);
  struct fpl_space_counts counts;
  struct seen seen = {0, 0};
  fpl_space_paper_count(&p, &h100, &counts);
  assert_true(fpl_space_paper_each(&p, &h100, see, &seen));
  assert_int_equal(seen.n, counts.rules[5].remaining);
  seen = (struct seen){0, 7};
  assert_false(fpl_space_paper_each(&p, &h100, see, &seen));
  assert_int_equal(seen.n, 7);
}

static struct fpl_schedule make_schedule(const char *loops, int32_t cls_m, int32_t cls_n,
                                         int32_t cls_k, int32_t cls_l) {
  return (struct fpl_schedule){.loops = fpl_loops_index(loops),
                               .cls_m = cls_m,
                               .cls_n = cls_n,
                               .cls_k = cls_k,
                               .cls_l = cls_l,
                               .blk_m = 128,
                               .blk_n = 128,
                               .blk_k = 64,
                               .blk_l = 128,
                               .exchange = FPL_EXCHANGE_DSM,
                               .stages = 1};
}

static void moves_the_compulsory_bytes_by_the_literal_rule(void **state) {
  (void)state;
  const struct fpl_problem g5 = make_problem(128, 16384, 4096, 4096);
  const struct fpl_schedule s = make_schedule("m|nlk", 1, 1, 1, 1);
  struct fpl_paper_traffic traffic;
  assert_true(fpl_space_paper_traffic(&g5, &s, &traffic));
  assert_true(traffic.global_bytes == 270532608.0);
  assert_true(traffic.dsm_bytes == 0.0);
}

static void reads_again_along_spatial_loops_that_do_not_index_a_tensor(void **state) {
  (void)state;
  /* mn|lk, 2 x 4 cluster tiles: A once for each n step, B and D for each m step, E added 4 times.
   */
  const struct fpl_problem p = make_problem(256, 512, 64, 128);
  const struct fpl_schedule s = make_schedule("mn|lk", 1, 1, 1, 1);
  struct fpl_paper_traffic traffic;
  assert_true(fpl_space_paper_traffic(&p, &s, &traffic));
  const double a = 256 * 64 * 2, b = 512 * 64 * 2, d = 512 * 128 * 2, e_sums = 256 * 128 * 4;
  assert_true(traffic.global_bytes == 4 * a + 2 * (b + d) + 4 * e_sums);
  /* 8 C tiles, each with one A, B and D tile */
  assert_true(traffic.smem_bytes == 8.0 * (128 * 64 + 128 * 64 + 128 * 128) * 2);
}

static void moves_the_worked_example_over_dsm(void **state) {
  (void)state;
  /* Fig. 7, one cluster tile: m 256, n 512, l 512. FP32 partials: all_exchange 65536 a block. */
  const struct fpl_problem p = make_problem(256, 512, 256, 512);
  struct fpl_schedule s = make_schedule("m|lnk", 2, 4, 2, 4);
  struct fpl_paper_traffic traffic;
  assert_true(fpl_space_paper_traffic(&p, &s, &traffic));
  assert_true(traffic.dsm_bytes == 16.0 * (65536 + 32768 + 32768));
  s.cls_l = 8;
  assert_true(fpl_space_paper_traffic(&p, &s, &traffic));
  assert_true(traffic.dsm_bytes == 16.0 * (65536 + 98304));
}

static void gives_no_traffic_where_there_is_no_data_flow(void **state) {
  (void)state;
  const struct fpl_problem p = make_problem(256, 512, 4096, 512);
  struct fpl_paper_traffic traffic;
  const struct fpl_schedule no_strip = make_schedule("m|lnk", 2, 1, 1, 2);
  assert_false(fpl_space_paper_traffic(&p, &no_strip, &traffic));
  const struct fpl_schedule split_k = make_schedule("k|mnl", 1, 1, 2, 2);
  assert_false(fpl_space_paper_traffic(&p, &split_k, &traffic));
}

enum { ALL_MOST = 400000 };
static struct fpl_ranked all[ALL_MOST];

struct brute {
  const struct fpl_problem *p;
  int64_t n;
};

static bool cost_by_hand(void *context, const struct fpl_schedule *s) {
  struct brute *const brute = context;
  struct fpl_paper_traffic t;
  if (!fpl_space_paper_traffic(brute->p, s, &t))
    return true;
  const int64_t blocks = (int64_t)s->cls_m * s->cls_n * s->cls_k;
  const double us[3] = {t.global_bytes / h100.hbm_bytes_per_us,
                        t.smem_bytes / h100.smem_bytes_per_us,
                        t.dsm_bytes / h100.dsm_bytes_per_us[fpl_cluster_index(blocks)]};
  assert_true(brute->n < ALL_MOST);
  all[brute->n++] = (struct fpl_ranked){*s, fmax(us[0], fmax(us[1], us[2])), us[0] + us[1] + us[2]};
  return true;
}

static void ranks_like_sorting_everything(void **state) {
  (void)state;
  enum { TOP = 20 };
  const struct fpl_problem p = make_problem(64, 96, 64, 48);
  struct brute brute = {&p, 0};
  fpl_space_paper_each(&p, &h100, cost_by_hand, &brute);
  struct fpl_ranked items[TOP];
  struct fpl_best best = {items, 0, TOP};
  struct fpl_space_counts counts;
  assert_int_equal(fpl_space_paper_rank(&p, &h100, &best, &counts), brute.n);
  assert_int_equal(best.n, TOP);
  for (int i = 0; i < TOP; i++) {
    int64_t least = i;
    for (int64_t j = i + 1; j < brute.n; j++)
      if (fpl_ranked_before(&all[j], &all[least]))
        least = j;
    const struct fpl_ranked held = all[i];
    all[i] = all[least];
    all[least] = held;
    assert_memory_equal(&best.items[i].schedule, &all[i].schedule, sizeof all[i].schedule);
    assert_true(best.items[i].est_us == all[i].est_us);
  }
}

static void ranks_the_example_and_says_how_long_it_took(void **state) {
  (void)state;
  const struct fpl_problem p = make_problem(256, 16384, 4096, 4096);
  struct fpl_ranked items[11];
  struct fpl_best best = {items, 0, 11};
  struct fpl_space_counts counts;
  const clock_t start = clock();
  const int64_t n_ranked = fpl_space_paper_rank(&p, &h100, &best, &counts);
  const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
  char text[FPL_SCHEDULE_TEXT];
  fpl_schedule_text(&best.items[0].schedule, text);
  printf("# counted, pruned and ranked %lld of %lld survivors in %.3f s; best %.2f us: %s\n",
         (long long)n_ranked, (long long)counts.rules[5].remaining, seconds, best.items[0].est_us,
         text);
  assert_int_equal(best.n, 11);
  assert_true(n_ranked > 100000 && n_ranked < counts.rules[5].remaining);
  const double floor_us = fpl_problem_min_bytes(&p) / h100.hbm_bytes_per_us;
  assert_true(best.items[0].est_us >= floor_us * 0.999999);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counts_divisors_that_are_multiples_of_16),
      cmocka_unit_test(counts_cluster_vectors_by_each_reading),
      cmocka_unit_test(accepts_the_paper_s_cluster_vectors),
      cmocka_unit_test(keeps_the_16_loops_of_the_paper),
      cmocka_unit_test(reproduces_table_iii),
      cmocka_unit_test(counts_the_evaluated_shape),
      cmocka_unit_test(says_zero_when_nothing_divides_and_saturates_when_too_much),
      cmocka_unit_test(capacity_shrinks_with_shared_memory),
      cmocka_unit_test(visits_as_many_survivors_as_it_counts),
      cmocka_unit_test(moves_the_compulsory_bytes_by_the_literal_rule),
      cmocka_unit_test(reads_again_along_spatial_loops_that_do_not_index_a_tensor),
      cmocka_unit_test(moves_the_worked_example_over_dsm),
      cmocka_unit_test(gives_no_traffic_where_there_is_no_data_flow),
      cmocka_unit_test(ranks_like_sorting_everything),
      cmocka_unit_test(ranks_the_example_and_says_how_long_it_took),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
