/* Rounding works on the bits of a float: both types are prefixes of its significand. */
#include "costmodel/element.h"

#include <math.h>
#include <string.h>

enum {
  F16_DROPPED_BITS = 13,  /* 23 - 10 bits of significand */
  BF16_DROPPED_BITS = 16, /* 23 - 7 */
};

/* Keeps all but the last `dropped` bits of the significand. A carry runs into the exponent, which
 * is then right as well. */
static float round_significand(float value, int dropped) {
  uint32_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  const uint32_t half_less_one = (UINT32_C(1) << (dropped - 1)) - 1;
  bits += half_less_one + (bits >> dropped & 1);
  bits &= ~((UINT32_C(1) << dropped) - 1);
  memcpy(&value, &bits, sizeof bits);
  return value;
}

static float round_f16(float value) {
  const float least_normal = 0x1p-14f, largest = 65504.0f, subnormal_step = 0x1p-24f;
  if (fabsf(value) < least_normal)
    return rintf(value / subnormal_step) * subnormal_step;
  const float rounded = round_significand(value, F16_DROPPED_BITS);
  return fabsf(rounded) > largest ? copysignf(INFINITY, value) : rounded;
}

float fpl_element_round(enum fpl_dtype dtype, float value) {
  if (!isfinite(value))
    return value;
  return dtype == FPL_DTYPE_F16 ? round_f16(value) : round_significand(value, BF16_DROPPED_BITS);
}

double fpl_act_apply(enum fpl_act act, double x) {
  const double sqrt_2_over_pi = 0.79788456080286535588;
  switch (act) {
  case FPL_ACT_NONE:
    return x;
  case FPL_ACT_RELU:
    return x > 0 ? x : 0;
  case FPL_ACT_GELU:
    return 0.5 * x * (1 + tanh(sqrt_2_over_pi * (x + 0.044715 * x * x * x)));
  case FPL_ACT_SILU:
    return x / (1 + exp(-x));
  }
  return x;
}
