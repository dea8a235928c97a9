/* Rounding to f16 and bf16, and the activations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "costmodel/element.h"

#include <math.h>

struct rounding {
  float value, f16, bf16;
};

/* Ties, subnormals and the largest values: IEEE 754 binary16; bf16 is the upper half of a float. */
static const struct rounding roundings[] = {
    {0.0f, 0.0f, 0.0f},
    {1.0f, 1.0f, 1.0f},
    {-3.0f, -3.0f, -3.0f},
    {2049.0f, 2048.0f, 2048.0f},
    {2051.0f, 2052.0f, 2048.0f},
    {257.0f, 257.0f, 256.0f},
    {259.0f, 259.0f, 260.0f},
    {0x1.002p0f, 0x1.0p0f, 0x1.0p0f},
    {0x1.006p0f, 0x1.008p0f, 0x1.0p0f},
    {65504.0f, 65504.0f, 65536.0f},
    {65519.0f, 65504.0f, 65536.0f},
    {65520.0f, INFINITY, 65536.0f},
    {-70000.0f, -INFINITY, -70144.0f},
    {0x1.8p-24f, 0x1p-23f, 0x1.8p-24f},
    {0x1p-25f, 0.0f, 0x1p-25f},
    {0x1.3p-15f, 0x1.3p-15f, 0x1.3p-15f},
};

static void test_rounds_to_nearest_even(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof roundings / sizeof *roundings; i++) {
    const struct rounding *const r = &roundings[i];
    if (fpl_element_round(FPL_DTYPE_F16, r->value) != r->f16)
      fail_msg("%a to f16: %a", (double)r->value,
               (double)fpl_element_round(FPL_DTYPE_F16, r->value));
    if (fpl_element_round(FPL_DTYPE_BF16, r->value) != r->bf16)
      fail_msg("%a to bf16: %a", (double)r->value,
               (double)fpl_element_round(FPL_DTYPE_BF16, r->value));
  }
}

static void test_keeps_nan_and_infinity(void **state) {
  (void)state;
  assert_true(isnan(fpl_element_round(FPL_DTYPE_F16, NAN)));
  assert_true(isnan(fpl_element_round(FPL_DTYPE_BF16, NAN)));
  assert_true(isinf(fpl_element_round(FPL_DTYPE_BF16, -INFINITY)));
}

static void test_activations_have_known_values(void **state) {
  (void)state;
  assert_true(fpl_act_apply(FPL_ACT_NONE, -2.5) == -2.5);
  assert_true(fpl_act_apply(FPL_ACT_RELU, -2.5) == 0);
  assert_true(fpl_act_apply(FPL_ACT_RELU, 2.5) == 2.5);
  assert_true(fpl_act_apply(FPL_ACT_GELU, 0) == 0);
  /* PyTorch: gelu(1, approximate="tanh"), silu(1) */
  assert_true(fabs(fpl_act_apply(FPL_ACT_GELU, 1) - 0.8411919906) < 1e-9);
  assert_true(fabs(fpl_act_apply(FPL_ACT_SILU, 1) - 0.7310585786) < 1e-9);
  assert_true(fabs(fpl_act_apply(FPL_ACT_SILU, -1) + 0.2689414214) < 1e-9);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      {"rounds to nearest, ties to even", test_rounds_to_nearest_even, NULL, NULL, NULL},
      {"keeps NaN and infinity", test_keeps_nan_and_infinity, NULL, NULL, NULL},
      {"activations have known values", test_activations_have_known_values, NULL, NULL, NULL},
  };
  cmocka_set_message_output(CM_OUTPUT_TAP);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
