/* Where the thresholds come from. Inputs are exact and sums are f32, so errors come from rounding C
 * and E to the element type. Rounding to nearest moves a value by at most the unit roundoff u of
 * the type and, over random mantissas, by about 0.4 u in the mean square. Errors of C are
 * independent and of zero mean, so the second product keeps their relative size: sqrt(2) * 0.4 u,
 * or 0.6 u, for a chain (f16, H200, measured: 2.9e-4 = 0.6 u), and 0.8 u for a library pair that
 * also stores both branches of a gated_ffn. 2 u therefore leaves room for every correct kernel,
 * while one missing block tile of k or n among 64 shows as 0.12.
 */
#include "tuner/measure/verify.h"

#include <math.h>
#include <stdio.h>

/* Unit roundoff: 11 and 8 significant bits. Source: IEEE 754 binary16; bfloat16. */
static const double UNIT_ROUNDOFF[] = {
    [FPL_DTYPE_F16] = 1.0 / 2048,
    [FPL_DTYPE_BF16] = 1.0 / 256,
};
/* gelu and silu use tanh.approx.f32: greatest relative error 2^-11 (PTX ISA, tanh). */
static const double APPROXIMATION[] = {
    [FPL_ACT_NONE] = 0,
    [FPL_ACT_RELU] = 0,
    [FPL_ACT_GELU] = 2.0 / 2048,
    [FPL_ACT_SILU] = 2.0 / 2048,
};

double fpl_verify_most_error(enum fpl_dtype dtype, enum fpl_act act) {
  return 2 * UNIT_ROUNDOFF[dtype] + APPROXIMATION[act];
}

bool fpl_verify_needs_exact(enum fpl_act act, bool is_library) {
  return !is_library && (act == FPL_ACT_NONE || act == FPL_ACT_RELU);
}

enum fpl_outcome fpl_verify_judge(const struct fpl_problem *p, bool is_library,
                                  const struct fpl_verification *v,
                                  char reason[FPL_VERIFY_REASON]) {
  const double most = fpl_verify_most_error(p->dtype, p->act);
  reason[0] = '\0';
  if (!v->was_in_bounds)
    snprintf(reason, FPL_VERIFY_REASON,
             "bounds: wrote past the end of E, or left elements of E unwritten");
  else if (!v->was_exact_ok && fpl_verify_needs_exact(p->act, is_library))
    snprintf(reason, FPL_VERIFY_REASON, "exact: differs from the reference on integer inputs");
  else if (!isfinite(v->relative_error) || v->relative_error < 0 || v->relative_error > most)
    snprintf(reason, FPL_VERIFY_REASON, "relative error %.3g exceeds %.3g (%s, %s)",
             v->relative_error, most, fpl_dtype_names[p->dtype], fpl_act_names[p->act]);
  return reason[0] == '\0' ? FPL_OUTCOME_OK : FPL_OUTCOME_WRONG_RESULT;
}
