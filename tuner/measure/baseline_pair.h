/* The library plan: what a user has without generated kernels, as strong as the libraries make it.
 *
 *   gemm_chain   cuBLASLt, relu and gelu in the first product's epilogue; silu: a kernel between
 *   gated_ffn    cuBLASLt on gate and up as one product, a kernel between, cuBLASLt
 *   conv_chain   k1 = 1: as gemm_chain, for an NHWC 1 x 1 convolution is a product; larger: cuDNN,
 *                relu fused or by a kernel, then cuBLASLt
 *
 * Tuned over all algorithms of both libraries, by the cold time of the pair (baseline_search.h).
 * The kernel between may be launched early (programmatic dependent launch: its launch overlaps the
 * end of the first product, for which it then waits); whichever is faster is kept. Gate and up as
 * two products are not tried: neither has an epilogue that would spare the kernel.
 */
#ifndef FPL_MEASURE_BASELINE_PAIR_H
#define FPL_MEASURE_BASELINE_PAIR_H

#include "tuner/measure/sample_cuda.h"

struct fpl_baseline; /* one tuned pair */

enum { FPL_BASELINE_TEXT = 256 };

/* Loads the libraries and tunes, in about 5 s; `out_text`: which algorithms won, of how many, and
 * by how much. The GPU and the inputs must outlive it. Failures: launch_error where a library is
 * missing or has no algorithm, oom. */
bool fpl_baseline_open(const struct fpl_gpu *gpu, const struct fpl_inputs *inputs,
                       struct fpl_baseline **out, char out_text[FPL_BASELINE_TEXT],
                       struct fpl_failure *failure);
void fpl_baseline_close(struct fpl_baseline *pair); /* NULL is allowed */
struct fpl_runner fpl_baseline_runner(struct fpl_baseline *pair);

#endif
