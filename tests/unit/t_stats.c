#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tuner/measure/stats.h"

#include <math.h>
#include <stdlib.h>

enum { MOST = 2000 };
static double scratch[MOST];

static void near_to(double got, double want) {
  if (fabs(got - want) > 1e-12 * (1 + fabs(want)))
    fail_msg("got %.17g, want %.17g", got, want);
}

static void finds_order_statistics(void **state) {
  (void)state;
  double us[100];
  for (int i = 0; i < 100; i++)
    us[(i * 37) % 100] = i + 1; /* 1 .. 100, mixed */
  struct fpl_stats s;
  assert_int_equal(fpl_stats_make(us, 100, scratch, &s), 0);
  assert_int_equal(s.n, 100);
  near_to(s.median_us, 50.5);
  near_to(s.p05_us, 5);
  near_to(s.p95_us, 95);
  near_to(s.least_us, 1);
  near_to(s.low_us, 40); /* sign test at n = 100: ranks 40 and 61 (textbook table) */
  near_to(s.high_us, 61);
}

static void median_of_an_odd_count_is_the_middle(void **state) {
  (void)state;
  const double us[] = {9, 1, 5};
  struct fpl_stats s;
  fpl_stats_make(us, 3, scratch, &s);
  near_to(s.median_us, 5);
  near_to(s.low_us, 1);
  near_to(s.high_us, 9);
}

static void interval_ranks_match_the_sign_test_table(void **state) {
  (void)state;
  /* Two-sided 5 % critical values of the sign test, plus one. */
  const struct {
    int64_t n, rank;
  } table[] = {{0, 0},  {1, 0},  {5, 0},  {6, 1},  {8, 1},   {9, 2},     {11, 2},
               {12, 3}, {15, 4}, {20, 6}, {25, 8}, {30, 10}, {1500, 712}};
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
    assert_int_equal(fpl_interval_rank(table[i].n), table[i].rank);
}

static void rejects_and_counts_invalid_samples(void **state) {
  (void)state;
  const double us[] = {0, -3, (double)NAN, (double)INFINITY, -(double)INFINITY, 4, 2, 3};
  struct fpl_stats s;
  assert_int_equal(fpl_stats_make(us, 8, scratch, &s), 5);
  assert_int_equal(s.n, 3);
  near_to(s.median_us, 3);
  near_to(s.least_us, 2);
}

static void nothing_valid_gives_zeros(void **state) {
  (void)state;
  const double us[] = {0, -1};
  struct fpl_stats s = {.n = 7, .median_us = 7};
  assert_int_equal(fpl_stats_make(us, 2, scratch, &s), 2);
  assert_int_equal(s.n, 0);
  near_to(s.median_us, 0);
  assert_true(isinf(fpl_stats_relative_width(&s)));
}

static void width_needs_six_samples(void **state) {
  (void)state;
  const double us[] = {10, 10, 10, 10, 10, 10};
  struct fpl_stats s;
  fpl_stats_make(us, 5, scratch, &s);
  assert_true(isinf(fpl_stats_relative_width(&s)));
  fpl_stats_make(us, 6, scratch, &s);
  near_to(fpl_stats_relative_width(&s), 0);
}

static double random_unit(uint64_t *r) {
  *r = *r * 6364136223846793005U + 1442695040888963407U;
  return ((double)(*r >> 11) + 0.5) / 9007199254740992.0;
}

static void interval_covers_the_median_in_95_of_100(void **state) {
  (void)state;
  enum { RUNS = 2000, N = 31 };
  uint64_t r = 5;
  int n_covered = 0;
  for (int run = 0; run < RUNS; run++) {
    double us[N];
    for (int i = 0; i < N; i++)
      us[i] = 10 - log(random_unit(&r)); /* a right tail; the median is 10 + ln 2 */
    struct fpl_stats s;
    fpl_stats_make(us, N, scratch, &s);
    n_covered += s.low_us <= 10 + log(2) && 10 + log(2) <= s.high_us;
  }
  assert_in_range(n_covered, RUNS * 94 / 100, RUNS * 99 / 100);
}

static void pair_cancels_common_drift(void **state) {
  (void)state;
  enum { N = 40 };
  double a[N];
  double b[N];
  for (int i = 0; i < N; i++) {
    const double drift = 1 + 0.02 * i; /* clocks fall by half over the run */
    a[i] = 10.0 * drift * (1 + 0.0001 * (i % 3));
    b[i] = 10.1 * drift;
  }
  struct fpl_pair p;
  fpl_pair_compare(a, b, N, scratch, &p);
  assert_int_equal(p.n, N);
  assert_true(p.is_separated);
  assert_true(p.ratio < 0.995 && p.high < 1);
  fpl_pair_compare(b, a, N, scratch, &p);
  assert_true(p.is_separated && p.low > 1);
}

static void pair_of_equals_is_not_separated(void **state) {
  (void)state;
  const double a[] = {10, 11, 10, 11, 10, 11, 10, 11};
  const double b[] = {11, 10, 11, 10, 11, 10, 11, 10};
  struct fpl_pair p;
  fpl_pair_compare(a, b, 8, scratch, &p);
  assert_false(p.is_separated);
}

static void pair_of_five_proves_nothing(void **state) {
  (void)state;
  const double a[] = {1, 1, 1, 1, 1, 1};
  const double b[] = {2, 2, 2, 2, 2, 2};
  struct fpl_pair p;
  fpl_pair_compare(a, b, 5, scratch, &p);
  assert_false(p.is_separated);
  fpl_pair_compare(a, b, 6, scratch, &p);
  assert_true(p.is_separated);
}

static void pair_leaves_out_invalid_samples_on_either_side(void **state) {
  (void)state;
  const double a[] = {0, 5, 5};
  const double b[] = {4, (double)NAN, 10};
  struct fpl_pair p;
  fpl_pair_compare(a, b, 3, scratch, &p);
  assert_int_equal(p.n, 1);
  near_to(p.ratio, 0.5);
  fpl_pair_compare(a, b, 2, scratch, &p);
  assert_int_equal(p.n, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(finds_order_statistics),
      cmocka_unit_test(median_of_an_odd_count_is_the_middle),
      cmocka_unit_test(interval_ranks_match_the_sign_test_table),
      cmocka_unit_test(rejects_and_counts_invalid_samples),
      cmocka_unit_test(nothing_valid_gives_zeros),
      cmocka_unit_test(width_needs_six_samples),
      cmocka_unit_test(interval_covers_the_median_in_95_of_100),
      cmocka_unit_test(pair_cancels_common_drift),
      cmocka_unit_test(pair_of_equals_is_not_separated),
      cmocka_unit_test(pair_of_five_proves_nothing),
      cmocka_unit_test(pair_leaves_out_invalid_samples_on_either_side),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
