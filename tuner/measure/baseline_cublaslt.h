/* cuBLASLt: one product, with every algorithm that the library suggests for it.
 *
 *   out[rows][cols] = epilogue(x[rows][depth] . w[cols][depth]^T), all row-major, sums in f32
 *
 * The algorithms are the library's whole heuristic list, asked for with 32 MB of workspace (what
 * cuBLAS itself takes on Hopper), then with 64 MB and with none for those that only then appear.
 */
#ifndef FPL_MEASURE_BASELINE_CUBLASLT_H
#define FPL_MEASURE_BASELINE_CUBLASLT_H

#include "tuner/measure/gpu.h"

struct fpl_cublaslt;         /* the library in use: a handle and workspace */
struct fpl_cublaslt_product; /* one product */

enum { FPL_CUBLASLT_TEXT = 256 };
enum fpl_cublaslt_epilogue { FPL_CUBLASLT_PLAIN, FPL_CUBLASLT_RELU, FPL_CUBLASLT_GELU };

struct fpl_cublaslt_shape {
  int64_t rows, cols, depth;
  enum fpl_dtype dtype;
  enum fpl_cublaslt_epilogue epilogue; /* gelu is the tanh form */
};

/* Version text ("13.0.2") or "none". Loads the library. */
void fpl_cublaslt_version(char out[FPL_CUBLASLT_TEXT]);

/* The GPU must outlive it. Failures: launch_error where the library is missing, oom. */
bool fpl_cublaslt_open(const struct fpl_gpu *gpu, struct fpl_cublaslt **out,
                       struct fpl_failure *failure);
void fpl_cublaslt_close(struct fpl_cublaslt *library); /* NULL is allowed, here and below */

/* The library must outlive it. Failures: launch_error where it has no algorithm, oom. */
bool fpl_cublaslt_product_open(const struct fpl_cublaslt *library,
                               const struct fpl_cublaslt_shape *shape,
                               struct fpl_cublaslt_product **out, struct fpl_failure *failure);
void fpl_cublaslt_product_close(struct fpl_cublaslt_product *product);

/* Algorithms 0 .. n-1, the library's first suggestion first. */
int fpl_cublaslt_algorithms(const struct fpl_cublaslt_product *product);

/* Queues. Addresses are multiples of 256 bytes. */
bool fpl_cublaslt_enqueue(const struct fpl_cublaslt_product *product, int algorithm, CUdeviceptr x,
                          CUdeviceptr w, CUdeviceptr out, struct fpl_failure *failure);

/* "algo 66 tile 393 stages 36 cluster 4 split_k 1": the library's own numbers. */
void fpl_cublaslt_algorithm_text(const struct fpl_cublaslt_product *product, int algorithm,
                                 char out[FPL_CUBLASLT_TEXT]);

#endif
