/* The search for the library plan over a library of which every time is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tuner/measure/baseline_search.h"

#include <math.h>

enum { N_FIRST = 40, N_SECOND = 30 };
static const double enough_us = 60e6;

/* A library of which every time is known: a pair takes first[i] + second[j], an early activation
 * less by early_gain. Quick times are wrong by quick_error where the algorithm is odd. */
struct library {
  double first[N_FIRST];
  double second[N_SECOND]; /* INFINITY: refused */
  double quick_error, early_gain;
  int sticky_at; /* first algorithm that loses the context; -1: none */
  bool has_activation, is_all_refused;
  int n_quick, n_well;
};

static double true_us(const struct library *l, const struct fpl_baseline_choice *c) {
  return l->first[c->algorithms[0]] + l->second[c->algorithms[1]] -
         (c->is_early ? l->early_gain : 0);
}

static bool quickly(void *self, const struct fpl_baseline_choice *c, double *out_us,
                    struct fpl_failure *failure) {
  struct library *l = self;
  l->n_quick++;
  if (c->algorithms[0] == l->sticky_at)
    return fpl_failure_candidate(failure, FPL_OUTCOME_STICKY_ERROR, "lost");
  if (l->is_all_refused || !isfinite(true_us(l, c)))
    return fpl_failure_candidate(failure, FPL_OUTCOME_LAUNCH_ERROR, "refused");
  *out_us = true_us(l, c) * (c->algorithms[0] % 2 == 1 ? 1 + l->quick_error : 1);
  return true;
}

static bool well(void *self, const struct fpl_baseline_choice *choices, int n, double *out_us,
                 struct fpl_failure *failure) {
  struct library *l = self;
  (void)failure;
  assert_in_range(n, 1, FPL_BASELINE_WELL_MOST);
  for (int i = 0; i < n; i++)
    out_us[i] = true_us(l, &choices[i]);
  l->n_well += n;
  return true;
}

static bool has_activation(void *self, const struct fpl_baseline_choice *choice) {
  const struct library *l = self;
  (void)choice;
  return l->has_activation;
}

static void make_library(struct library *l) {
  *l = (struct library){.sticky_at = -1};
  for (int i = 0; i < N_FIRST; i++)
    l->first[i] = 20 + (i * 7) % N_FIRST;
  for (int i = 0; i < N_SECOND; i++)
    l->second[i] = 10 + (i * 11) % N_SECOND;
  l->first[23] = 12;
  l->second[17] = 5;
}

static bool search(struct library *l, double most_us, struct fpl_baseline_found *found,
                   struct fpl_failure *failure) {
  const struct fpl_baseline_timer timer = {l, quickly, well, has_activation};
  const int n[2] = {N_FIRST, N_SECOND};
  *failure = (struct fpl_failure){0};
  return fpl_baseline_search(&timer, n, most_us, found, failure);
}

static void finds_the_fastest_algorithm_of_each_product(void **state) {
  (void)state;
  struct library l;
  struct fpl_baseline_found found;
  struct fpl_failure failure;
  make_library(&l);
  assert_true(search(&l, enough_us, &found, &failure));
  assert_int_equal(found.choice.algorithms[0], 23);
  assert_int_equal(found.choice.algorithms[1], 17);
  assert_false(found.choice.is_early);
  assert_true(fabs(found.us - 17) < 1e-9);
  assert_true(fabs(found.suggested_us - 30) < 1e-9);
  assert_int_equal(found.n_tried[0], N_FIRST);
  assert_int_equal(found.n_tried[1], N_SECOND);
}

static void quick_times_are_not_the_last_word(void **state) {
  (void)state;
  struct library l;
  struct fpl_baseline_found found;
  struct fpl_failure failure;
  make_library(&l);
  l.quick_error = 0.2; /* the best, 23, looks slower than 22 below */
  l.first[22] = 13;
  assert_true(search(&l, enough_us, &found, &failure));
  assert_int_equal(found.choice.algorithms[0], 23);
  assert_true(l.n_well < 3 * FPL_BASELINE_WELL_MOST);
}

static void an_early_activation_is_kept_only_where_it_is_faster(void **state) {
  (void)state;
  struct library l;
  struct fpl_baseline_found found;
  struct fpl_failure failure;
  make_library(&l);
  l.has_activation = true;
  l.early_gain = 1;
  assert_true(search(&l, enough_us, &found, &failure));
  assert_true(found.choice.is_early);
  assert_true(fabs(found.us - 16) < 1e-9);
  l.early_gain = -1;
  assert_true(search(&l, enough_us, &found, &failure));
  assert_false(found.choice.is_early);
  l.has_activation = false;
  l.early_gain = 1;
  assert_true(search(&l, enough_us, &found, &failure));
  assert_false(found.choice.is_early);
}

static void refused_algorithms_are_passed_over(void **state) {
  (void)state;
  struct library l;
  struct fpl_baseline_found found;
  struct fpl_failure failure;
  make_library(&l);
  l.first[0] = INFINITY;
  l.first[23] = INFINITY;
  l.first[30] = 13;
  assert_true(search(&l, enough_us, &found, &failure));
  assert_int_equal(found.choice.algorithms[0], 30);
  assert_int_equal(found.n_tried[0], N_FIRST - 2);
  assert_true(found.suggested_us > 1e300);
}

static void nothing_that_runs_is_a_failure_with_its_reason(void **state) {
  (void)state;
  struct library l;
  struct fpl_baseline_found found;
  struct fpl_failure failure;
  make_library(&l);
  l.is_all_refused = true;
  assert_false(search(&l, enough_us, &found, &failure));
  assert_string_equal(failure.reason, "refused");
  assert_int_equal(l.n_quick, N_FIRST);
}

static void a_lost_context_ends_the_search(void **state) {
  (void)state;
  struct library l;
  struct fpl_baseline_found found;
  struct fpl_failure failure;
  make_library(&l);
  l.sticky_at = 3;
  assert_false(search(&l, enough_us, &found, &failure));
  assert_true(failure.is_sticky);
  assert_int_equal(l.n_quick, 4);
}

static void without_time_the_first_suggestions_stay(void **state) {
  (void)state;
  struct library l;
  struct fpl_baseline_found found;
  struct fpl_failure failure;
  make_library(&l);
  assert_true(search(&l, 0, &found, &failure));
  assert_int_equal(found.choice.algorithms[0], 0);
  assert_int_equal(found.choice.algorithms[1], 0);
  assert_int_equal(found.n_tried[0], 1);
  assert_int_equal(l.n_quick, 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(finds_the_fastest_algorithm_of_each_product),
      cmocka_unit_test(quick_times_are_not_the_last_word),
      cmocka_unit_test(an_early_activation_is_kept_only_where_it_is_faster),
      cmocka_unit_test(refused_algorithms_are_passed_over),
      cmocka_unit_test(nothing_that_runs_is_a_failure_with_its_reason),
      cmocka_unit_test(a_lost_context_ends_the_search),
      cmocka_unit_test(without_time_the_first_suggestions_stay),
  };
  cmocka_set_message_output(CM_OUTPUT_TAP);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
