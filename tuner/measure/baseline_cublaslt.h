/* The library plan: two cuBLASLt products, with the activation in the first one's epilogue where
 * it has one (relu, gelu), else a small kernel between them (silu, gated).
 *
 *   C[m, branches n] = A[m,k] . B^T;  [C[m,n] = act(C[:, :n]) * C[:, n:]];  E[m,l] = C . D^T
 *
 * Tuned over the library's own heuristic list (up to 32 algorithms a product, 32 MB workspace): the
 * first product's algorithm is chosen by the cold time of the whole pair with the second one's
 * first suggestion, then the second one's with the winner. So the first suggestions are among those
 * timed, and an algorithm is judged where it will run.
 */
#ifndef FPL_MEASURE_BASELINE_CUBLASLT_H
#define FPL_MEASURE_BASELINE_CUBLASLT_H

#include "tuner/measure/sample_cuda.h"

struct fpl_cublaslt; /* one tuned pair */

enum { FPL_CUBLASLT_TEXT = 256 };

/* Version text ("13.0.2") or "none". Loads the library. */
void fpl_cublaslt_version(char out[FPL_CUBLASLT_TEXT]);

/* Loads, tunes; `out_text`: which algorithms won and by how much. The GPU and the inputs must
 * outlive it. Failures: launch_error where the library is missing or has no algorithm, oom. */
bool fpl_cublaslt_open(const struct fpl_gpu *gpu, const struct fpl_inputs *inputs,
                       struct fpl_cublaslt **out, char out_text[FPL_CUBLASLT_TEXT],
                       struct fpl_failure *failure);
void fpl_cublaslt_close(struct fpl_cublaslt *pair);
struct fpl_runner fpl_cublaslt_runner(struct fpl_cublaslt *pair);

#endif
