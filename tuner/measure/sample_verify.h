/* Verification: a plan is run before it is timed, on exact and on random inputs, twice each, over
 * an output full of sentinels, and compared with the reference. */
#ifndef FPL_MEASURE_SAMPLE_VERIFY_H
#define FPL_MEASURE_SAMPLE_VERIFY_H

#include "tuner/measure/sample_cuda.h"

enum { FPL_SAMPLE_NOTE = 128 };

/* Fills `out` and answers true, or answers false with wrong_result (or what the launch failed
 * with). `out_note`: "" or a remark ("order-dependent": two runs differ in bits, within the
 * tolerance).
 *
 * Exact inputs: with activation none or relu every sum is an integer that f32 holds, so a generated
 * kernel must equal the reference rounded once, bit by bit; was_exact_ok says whether it does. With
 * gelu or silu C is not an integer: the tolerance decides and was_exact_ok stays false. The library
 * may add partial sums in the element type (split k), so the tolerance decides for it too.
 * Tolerance: |out - ref| / |ref| at most 2e-3 for f16, 1.6e-2 for bf16: about four times the
 * rounding of C and E to the element type. The second run finds the workspace as the first left
 * it. */
bool fpl_sample_verify(const struct fpl_gpu *gpu, const struct fpl_inputs *inputs,
                       const struct fpl_runner *runner, struct fpl_verification *out,
                       char out_note[FPL_SAMPLE_NOTE], struct fpl_failure *failure);

#endif
