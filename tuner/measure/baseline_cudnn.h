/* cuDNN: one convolution of stride 1 with padding (k1 - 1) / 2, with every algorithm that the
 * library's own search finds for it, each also with relu fused where that is wanted.
 *
 *   y[batch][h][w][n] = act(conv(x[batch][h][w][ic], w[n][k1][k1][ic])), sums in f32
 *
 * libcudnn.so.9 is loaded at run time; its header is not needed.
 */
#ifndef FPL_MEASURE_BASELINE_CUDNN_H
#define FPL_MEASURE_BASELINE_CUDNN_H

#include "tuner/measure/gpu.h"

struct fpl_cudnn;

enum { FPL_CUDNN_TEXT = 96 };

/* Searches with the operands given; y is overwritten. The GPU must outlive it. Failures:
 * launch_error where the library is missing or has no algorithm, oom. */
bool fpl_cudnn_open(const struct fpl_gpu *gpu, const struct fpl_problem *p, CUdeviceptr x,
                    CUdeviceptr w, CUdeviceptr y, struct fpl_cudnn **out,
                    struct fpl_failure *failure);
void fpl_cudnn_close(struct fpl_cudnn *conv); /* NULL is allowed */

/* Algorithms 0 .. n-1: the fused ones first, each in the order of the library's search. */
int fpl_cudnn_algorithms(const struct fpl_cudnn *conv);
/* Whether it applies the problem's relu; else y is the bare convolution. */
bool fpl_cudnn_is_fused(const struct fpl_cudnn *conv, int algorithm);

bool fpl_cudnn_enqueue(const struct fpl_cudnn *conv, int algorithm, CUdeviceptr x, CUdeviceptr w,
                       CUdeviceptr y, struct fpl_failure *failure);

/* "cuDNN 9.19.0 algo 1 math 1 fused" */
void fpl_cudnn_algorithm_text(const struct fpl_cudnn *conv, int algorithm,
                              char out[FPL_CUDNN_TEXT]);

#endif
