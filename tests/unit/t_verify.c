#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tuner/measure/verify.h"

#include <math.h>
#include <string.h>

static const struct fpl_problem F16_RELU = {.dtype = FPL_DTYPE_F16, .act = FPL_ACT_RELU};

static void judges_each_check(void **state) {
  (void)state;
  const struct {
    struct fpl_verification v;
    enum fpl_outcome want;
    const char *reason;
  } rows[] = {
      {{true, 2.9e-4, true}, FPL_OUTCOME_OK, ""},
      {{true, 0, true}, FPL_OUTCOME_OK, ""},
      {{false, 2.9e-4, true}, FPL_OUTCOME_WRONG_RESULT, "exact"},
      {{true, 2.9e-4, false}, FPL_OUTCOME_WRONG_RESULT, "bounds"},
      {{true, 1.1e-3, true}, FPL_OUTCOME_WRONG_RESULT, "relative error 0.0011"},
      {{true, (double)NAN, true}, FPL_OUTCOME_WRONG_RESULT, "relative error"},
      {{true, (double)INFINITY, true}, FPL_OUTCOME_WRONG_RESULT, "relative error"},
      {{true, -1, true}, FPL_OUTCOME_WRONG_RESULT, "relative error"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char reason[FPL_VERIFY_REASON];
    assert_int_equal(fpl_verify_judge(&F16_RELU, false, &rows[i].v, reason), rows[i].want);
    assert_int_equal(strncmp(reason, rows[i].reason, strlen(rows[i].reason)), 0);
    assert_int_equal(reason[0] == '\0', rows[i].want == FPL_OUTCOME_OK);
  }
}

static void exactness_is_asked_of_kernels_whose_activation_keeps_integers(void **state) {
  (void)state;
  const struct fpl_verification inexact = {false, 2.9e-4, true};
  char reason[FPL_VERIFY_REASON];
  for (enum fpl_act act = FPL_ACT_NONE; act <= FPL_ACT_SILU; act++) {
    const struct fpl_problem p = {.dtype = FPL_DTYPE_F16, .act = act};
    const bool is_integral = act == FPL_ACT_NONE || act == FPL_ACT_RELU;
    assert_int_equal(fpl_verify_judge(&p, false, &inexact, reason),
                     is_integral ? FPL_OUTCOME_WRONG_RESULT : FPL_OUTCOME_OK);
    assert_int_equal(fpl_verify_judge(&p, true, &inexact, reason), FPL_OUTCOME_OK);
  }
}

static void thresholds_follow_the_type_and_the_activation(void **state) {
  (void)state;
  const enum fpl_act acts[] = {FPL_ACT_NONE, FPL_ACT_RELU, FPL_ACT_GELU, FPL_ACT_SILU};
  for (size_t i = 0; i < 4; i++) {
    const double f16 = fpl_verify_most_error(FPL_DTYPE_F16, acts[i]);
    const double bf16 = fpl_verify_most_error(FPL_DTYPE_BF16, acts[i]);
    assert_true(f16 > 2.9e-4 && bf16 > 8 * 2.9e-4); /* what correct kernels show */
    assert_true(f16 < bf16);
    /* One tile of 64 missing: sqrt(1/64). One of 4096 elements of a sum missing: 0.0156. */
    assert_true(bf16 < 0.0156);
  }
  assert_true(fpl_verify_most_error(FPL_DTYPE_F16, FPL_ACT_GELU) >
              fpl_verify_most_error(FPL_DTYPE_F16, FPL_ACT_RELU));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(judges_each_check),
      cmocka_unit_test(exactness_is_asked_of_kernels_whose_activation_keeps_integers),
      cmocka_unit_test(thresholds_follow_the_type_and_the_activation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
