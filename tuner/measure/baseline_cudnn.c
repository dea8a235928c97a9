/* The only user of libcudnn. Decides where it is found and which of its algorithms there are to
 * choose from; which is fastest beside the second product is baseline_search's. */
#include "tuner/measure/baseline_cudnn.h"

#include "tuner/launch/library.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FOUND = 16, WORKSPACE_BYTES = 256 << 20 };

/* The few values and types of cuDNN 9 that are needed. Source: NVIDIA cuDNN API reference, graph,
 * ops and cnn libraries. Enumerations are passed as int; descriptors and the handle are opaque. */
enum {
  CUDNN_SUCCESS = 0,
  CUDNN_FLOAT = 0,
  CUDNN_HALF = 2,
  CUDNN_BFLOAT16 = 9,
  CUDNN_NHWC = 1,
  CUDNN_CROSS_CORRELATION = 1,
  CUDNN_TENSOR_OP_MATH = 1,
  CUDNN_RELU = 1,
  CUDNN_NOT_PROPAGATE_NAN = 0
};
/* cudnnConvolutionFwdAlgoPerf_t */
struct found {
  int algo;
  int status;
  float time_ms;
  size_t memory_bytes;
  int determinism;
  int math_type;
  int reserved[3];
};

struct calls {
  size_t (*cudnnGetVersion)(void);
  const char *(*cudnnGetErrorString)(int status);
  int (*cudnnCreate)(void **handle);
  int (*cudnnDestroy)(void *handle);
  int (*cudnnSetStream)(void *handle, CUstream stream);
  int (*cudnnCreateTensorDescriptor)(void **tensor);
  int (*cudnnSetTensor4dDescriptor)(void *tensor, int format, int type, int n, int c, int h, int w);
  int (*cudnnDestroyTensorDescriptor)(void *tensor);
  int (*cudnnCreateFilterDescriptor)(void **filter);
  int (*cudnnSetFilter4dDescriptor)(void *filter, int type, int format, int k, int c, int h, int w);
  int (*cudnnDestroyFilterDescriptor)(void *filter);
  int (*cudnnCreateConvolutionDescriptor)(void **conv);
  int (*cudnnSetConvolution2dDescriptor)(void *conv, int pad_h, int pad_w, int stride_h,
                                         int stride_w, int dilation_h, int dilation_w, int mode,
                                         int compute_type);
  int (*cudnnSetConvolutionMathType)(void *conv, int math_type);
  int (*cudnnDestroyConvolutionDescriptor)(void *conv);
  int (*cudnnCreateActivationDescriptor)(void **activation);
  int (*cudnnSetActivationDescriptor)(void *activation, int mode, int nan_option, double coef);
  int (*cudnnDestroyActivationDescriptor)(void *activation);
  int (*cudnnFindConvolutionForwardAlgorithmEx)(void *handle, void *x_desc, const void *x,
                                                void *w_desc, const void *w, void *conv,
                                                void *y_desc, void *y, int n_requested,
                                                int *n_returned, struct found *results,
                                                void *workspace, size_t workspace_bytes);
  int (*cudnnConvolutionForward)(void *handle, const void *alpha, void *x_desc, const void *x,
                                 void *w_desc, const void *w, void *conv, int algo, void *workspace,
                                 size_t workspace_bytes, const void *beta, void *y_desc, void *y);
  /* y = act(alpha1 conv(x, w) + alpha2 z + bias) */
  int (*cudnnConvolutionBiasActivationForward)(void *handle, const void *alpha1, void *x_desc,
                                               const void *x, void *w_desc, const void *w,
                                               void *conv, int algo, void *workspace,
                                               size_t workspace_bytes, const void *alpha2,
                                               void *z_desc, const void *z, void *bias_desc,
                                               const void *bias, void *activation, void *y_desc,
                                               void *y);
};

struct fpl_cudnn {
  struct calls call;
  const struct fpl_gpu *gpu;
  void *handle;
  void *x_desc, *w_desc, *y_desc, *bias_desc, *conv, *activation;
  CUdeviceptr workspace;
  CUdeviceptr bias; /* [n] zeros */
  struct found found[MOST_FOUND];
  int n_found;
  bool has_fused;
};

/* A library of a Python installation: the first file of a pattern that loads. */
static void *open_matching(const char *pattern) {
  glob_t files;
  void *library = NULL;
  if (glob(pattern, 0, NULL, &files) != 0)
    return NULL;
  for (size_t i = 0; i < files.gl_pathc && library == NULL; i++) {
    const char *const names[] = {files.gl_pathv[i], NULL};
    library = fpl_library_open(names);
  }
  globfree(&files);
  return library;
}

static void *open_library(void) {
  static const char *const names[] = {"libcudnn.so.9",
                                      "/usr/local/cuda/lib64/libcudnn.so.9",
                                      "/usr/local/cuda/lib/libcudnn.so.9",
                                      "/usr/lib/x86_64-linux-gnu/libcudnn.so.9",
                                      "/usr/lib64/libcudnn.so.9",
                                      NULL};
  static const char *const patterns[] = {
      "/usr/lib/python3*/*-packages/nvidia/cudnn/lib/libcudnn.so.9",
      "/usr/local/lib/python3*/*-packages/nvidia/cudnn/lib/libcudnn.so.9",
      "/opt/*/lib/python3*/site-packages/nvidia/cudnn/lib/libcudnn.so.9",
      "/opt/*/lib/libcudnn.so.9"};
  void *library = fpl_library_open(names);
  for (size_t i = 0; i < sizeof patterns / sizeof *patterns && library == NULL; i++)
    library = open_matching(patterns[i]);
  return library;
}

static bool find_functions(void *library, struct calls *out) {
  bool has_all = true;
#define FPL_CUDNN_FIND(function)                                                                   \
  has_all = fpl_library_symbol(library, #function, &out->function) && has_all;
  FPL_CUDNN_FIND(cudnnGetVersion)
  FPL_CUDNN_FIND(cudnnGetErrorString)
  FPL_CUDNN_FIND(cudnnCreate)
  FPL_CUDNN_FIND(cudnnDestroy)
  FPL_CUDNN_FIND(cudnnSetStream)
  FPL_CUDNN_FIND(cudnnCreateTensorDescriptor)
  FPL_CUDNN_FIND(cudnnSetTensor4dDescriptor)
  FPL_CUDNN_FIND(cudnnDestroyTensorDescriptor)
  FPL_CUDNN_FIND(cudnnCreateFilterDescriptor)
  FPL_CUDNN_FIND(cudnnSetFilter4dDescriptor)
  FPL_CUDNN_FIND(cudnnDestroyFilterDescriptor)
  FPL_CUDNN_FIND(cudnnCreateConvolutionDescriptor)
  FPL_CUDNN_FIND(cudnnSetConvolution2dDescriptor)
  FPL_CUDNN_FIND(cudnnSetConvolutionMathType)
  FPL_CUDNN_FIND(cudnnDestroyConvolutionDescriptor)
  FPL_CUDNN_FIND(cudnnCreateActivationDescriptor)
  FPL_CUDNN_FIND(cudnnSetActivationDescriptor)
  FPL_CUDNN_FIND(cudnnDestroyActivationDescriptor)
  FPL_CUDNN_FIND(cudnnFindConvolutionForwardAlgorithmEx)
  FPL_CUDNN_FIND(cudnnConvolutionForward)
  FPL_CUDNN_FIND(cudnnConvolutionBiasActivationForward)
#undef FPL_CUDNN_FIND
  return has_all;
}

static bool check_status(const struct fpl_cudnn *conv, int status, const char *what,
                         struct fpl_failure *failure) {
  if (status == CUDNN_SUCCESS)
    return true;
  return fpl_failure_candidate(failure, FPL_OUTCOME_LAUNCH_ERROR, "cuDNN: %s: %s (%d)", what,
                               conv->call.cudnnGetErrorString(status), status);
}

static bool describe(struct fpl_cudnn *conv, const struct fpl_problem *p,
                     struct fpl_failure *failure) {
  const struct calls *call = &conv->call;
  const int type = p->dtype == FPL_DTYPE_F16 ? CUDNN_HALF : CUDNN_BFLOAT16;
  const int batch = (int)p->conv.batch, h = (int)p->conv.h, w = (int)p->conv.w;
  const int ic = (int)p->conv.ic, oc = (int)p->n, k1 = (int)p->conv.k1, pad = (k1 - 1) / 2;
  const int statuses[] = {
      call->cudnnCreateTensorDescriptor(&conv->x_desc),
      call->cudnnCreateTensorDescriptor(&conv->y_desc),
      call->cudnnCreateTensorDescriptor(&conv->bias_desc),
      call->cudnnCreateFilterDescriptor(&conv->w_desc),
      call->cudnnCreateConvolutionDescriptor(&conv->conv),
      call->cudnnCreateActivationDescriptor(&conv->activation),
      call->cudnnSetTensor4dDescriptor(conv->x_desc, CUDNN_NHWC, type, batch, ic, h, w),
      call->cudnnSetTensor4dDescriptor(conv->y_desc, CUDNN_NHWC, type, batch, oc, h, w),
      call->cudnnSetTensor4dDescriptor(conv->bias_desc, CUDNN_NHWC, type, 1, oc, 1, 1),
      call->cudnnSetFilter4dDescriptor(conv->w_desc, type, CUDNN_NHWC, oc, ic, k1, k1),
      call->cudnnSetConvolution2dDescriptor(conv->conv, pad, pad, 1, 1, 1, 1,
                                            CUDNN_CROSS_CORRELATION, CUDNN_FLOAT),
      call->cudnnSetConvolutionMathType(conv->conv, CUDNN_TENSOR_OP_MATH),
      call->cudnnSetActivationDescriptor(conv->activation, CUDNN_RELU, CUDNN_NOT_PROPAGATE_NAN, 0),
  };
  for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
    if (!check_status(conv, statuses[i], "descriptor", failure))
      return false;
  return true;
}

static void *host_view(CUdeviceptr address) {
  void *pointer = NULL;
  memcpy(&pointer, &address, sizeof pointer);
  return pointer;
}

static bool allocate(struct fpl_cudnn *conv, const struct fpl_problem *p,
                     struct fpl_failure *failure) {
  const struct fpl_gpu *gpu = conv->gpu;
  const uint64_t bias_bytes = (uint64_t)p->n * FPL_ELEMENT_BYTES;
  return fpl_gpu_alloc(gpu, WORKSPACE_BYTES, &conv->workspace, failure) &&
         fpl_gpu_alloc(gpu, bias_bytes, &conv->bias, failure) &&
         fpl_driver_ok(&gpu->call, gpu->call.mem_set(conv->bias, 0, bias_bytes, gpu->stream),
                       "zero the bias", failure);
}

static bool search(struct fpl_cudnn *conv, CUdeviceptr x, CUdeviceptr w, CUdeviceptr y,
                   struct fpl_failure *failure) {
  struct found results[MOST_FOUND] = {{0}};
  int n_results = 0;
  if (!check_status(conv,
                    conv->call.cudnnFindConvolutionForwardAlgorithmEx(
                        conv->handle, conv->x_desc, host_view(x), conv->w_desc, host_view(w),
                        conv->conv, conv->y_desc, host_view(y), MOST_FOUND, &n_results, results,
                        host_view(conv->workspace), WORKSPACE_BYTES),
                    "search", failure) ||
      !fpl_gpu_wait(conv->gpu, "cuDNN's search", failure))
    return false;
  for (int i = 0; i < n_results; i++)
    if (results[i].status == CUDNN_SUCCESS && results[i].memory_bytes <= WORKSPACE_BYTES)
      conv->found[conv->n_found++] = results[i];
  return conv->n_found > 0 || fpl_failure_candidate(failure, FPL_OUTCOME_LAUNCH_ERROR,
                                                    "cuDNN: no algorithm for this convolution");
}

static bool prepare(struct fpl_cudnn *conv, const struct fpl_problem *p, CUdeviceptr x,
                    CUdeviceptr w, CUdeviceptr y, struct fpl_failure *failure) {
  void *library = open_library();
  if (library == NULL || !find_functions(library, &conv->call))
    return fpl_failure_candidate(failure, FPL_OUTCOME_LAUNCH_ERROR,
                                 "no library plan: libcudnn.so.9 %s",
                                 library == NULL ? "cannot be loaded" : "lacks a function");
  return check_status(conv, conv->call.cudnnCreate(&conv->handle), "create", failure) &&
         check_status(conv, conv->call.cudnnSetStream(conv->handle, conv->gpu->stream), "stream",
                      failure) &&
         describe(conv, p, failure) && allocate(conv, p, failure) && search(conv, x, w, y, failure);
}

bool fpl_cudnn_open(const struct fpl_gpu *gpu, const struct fpl_problem *p, CUdeviceptr x,
                    CUdeviceptr w, CUdeviceptr y, struct fpl_cudnn **out,
                    struct fpl_failure *failure) {
  *out = NULL;
  struct fpl_cudnn *conv = calloc(1, sizeof *conv);
  if (conv == NULL)
    return fpl_failure_candidate(failure, FPL_OUTCOME_OOM, "out of host memory");
  conv->gpu = gpu;
  conv->has_fused = p->act == FPL_ACT_RELU;
  if (!prepare(conv, p, x, w, y, failure)) {
    fpl_cudnn_close(conv);
    return false;
  }
  *out = conv;
  return true;
}

void fpl_cudnn_close(struct fpl_cudnn *conv) {
  if (conv == NULL)
    return;
  const struct calls *call = &conv->call;
  if (conv->activation != NULL)
    call->cudnnDestroyActivationDescriptor(conv->activation);
  if (conv->conv != NULL)
    call->cudnnDestroyConvolutionDescriptor(conv->conv);
  if (conv->w_desc != NULL)
    call->cudnnDestroyFilterDescriptor(conv->w_desc);
  if (conv->bias_desc != NULL)
    call->cudnnDestroyTensorDescriptor(conv->bias_desc);
  if (conv->y_desc != NULL)
    call->cudnnDestroyTensorDescriptor(conv->y_desc);
  if (conv->x_desc != NULL)
    call->cudnnDestroyTensorDescriptor(conv->x_desc);
  if (conv->handle != NULL)
    call->cudnnDestroy(conv->handle);
  fpl_gpu_free(conv->gpu, &conv->bias);
  fpl_gpu_free(conv->gpu, &conv->workspace);
  free(conv);
}

int fpl_cudnn_algorithms(const struct fpl_cudnn *conv) {
  return conv->has_fused ? 2 * conv->n_found : conv->n_found;
}

bool fpl_cudnn_is_fused(const struct fpl_cudnn *conv, int algorithm) {
  return conv->has_fused && algorithm < conv->n_found;
}

bool fpl_cudnn_enqueue(const struct fpl_cudnn *conv, int algorithm, CUdeviceptr x, CUdeviceptr w,
                       CUdeviceptr y, struct fpl_failure *failure) {
  const struct calls *call = &conv->call;
  const struct found *found = &conv->found[algorithm % conv->n_found];
  const float one = 1, zero = 0;
  if (!check_status(conv, call->cudnnSetConvolutionMathType(conv->conv, found->math_type),
                    "math type", failure))
    return false;
  if (fpl_cudnn_is_fused(conv, algorithm))
    return check_status(conv,
                        call->cudnnConvolutionBiasActivationForward(
                            conv->handle, &one, conv->x_desc, host_view(x), conv->w_desc,
                            host_view(w), conv->conv, found->algo, host_view(conv->workspace),
                            WORKSPACE_BYTES, &zero, conv->y_desc, host_view(y), conv->bias_desc,
                            host_view(conv->bias), conv->activation, conv->y_desc, host_view(y)),
                        "convolution with relu", failure);
  return check_status(conv,
                      call->cudnnConvolutionForward(
                          conv->handle, &one, conv->x_desc, host_view(x), conv->w_desc,
                          host_view(w), conv->conv, found->algo, host_view(conv->workspace),
                          WORKSPACE_BYTES, &zero, conv->y_desc, host_view(y)),
                      "convolution", failure);
}

void fpl_cudnn_algorithm_text(const struct fpl_cudnn *conv, int algorithm,
                              char out[FPL_CUDNN_TEXT]) {
  const struct found *found = &conv->found[algorithm % conv->n_found];
  const size_t version = conv->call.cudnnGetVersion(); /* major * 10000 + minor * 100 + patch */
  snprintf(out, FPL_CUDNN_TEXT, "cuDNN %zu.%zu.%zu algo %d math %d%s", version / 10000,
           version / 100 % 100, version % 100, found->algo, found->math_type,
           fpl_cudnn_is_fused(conv, algorithm) ? " fused" : "");
}
