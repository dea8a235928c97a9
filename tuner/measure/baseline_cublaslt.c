/* The only user of cublasLt.h. Decides which of the library's algorithms there are to choose from;
 * which is fastest is baseline_search's. */
#include "tuner/measure/baseline_cublaslt.h"

#include "tuner/launch/library.h"

#include <cublasLt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  MOST_SUGGESTED = 256, /* of one request */
  N_REQUESTS = 3,
  MOST_ALGORITHMS = N_REQUESTS * MOST_SUGGESTED,
  WORKSPACE_BYTES = 64 << 20
};
static const size_t requests_bytes[N_REQUESTS] = {32 << 20, WORKSPACE_BYTES, 0};

#define FPL_CUBLASLT_CALLS(X)                                                                      \
  X(create, cublasLtCreate)                                                                        \
  X(destroy, cublasLtDestroy)                                                                      \
  X(version, cublasLtGetVersion)                                                                   \
  X(status_name, cublasLtGetStatusName)                                                            \
  X(matmul, cublasLtMatmul)                                                                        \
  X(heuristic, cublasLtMatmulAlgoGetHeuristic)                                                     \
  X(algo_get, cublasLtMatmulAlgoConfigGetAttribute)                                                \
  X(desc_create, cublasLtMatmulDescCreate)                                                         \
  X(desc_destroy, cublasLtMatmulDescDestroy)                                                       \
  X(desc_set, cublasLtMatmulDescSetAttribute)                                                      \
  X(layout_create, cublasLtMatrixLayoutCreate)                                                     \
  X(layout_destroy, cublasLtMatrixLayoutDestroy)                                                   \
  X(preference_create, cublasLtMatmulPreferenceCreate)                                             \
  X(preference_destroy, cublasLtMatmulPreferenceDestroy)                                           \
  X(preference_set, cublasLtMatmulPreferenceSetAttribute)

struct calls {
#define FPL_CUBLASLT_MEMBER(member, function) __typeof__(function) *member;
  FPL_CUBLASLT_CALLS(FPL_CUBLASLT_MEMBER)
#undef FPL_CUBLASLT_MEMBER
};

struct fpl_cublaslt {
  struct calls call;
  const struct fpl_gpu *gpu;
  cublasLtHandle_t handle;
  CUdeviceptr workspace; /* of all products: they run one after the other */
};

/* To the column-major library out^T = w . x^T: its A is w (transposed), its B is x. */
struct fpl_cublaslt_product {
  const struct fpl_cublaslt *library;
  cublasLtMatmulDesc_t desc;
  cublasLtMatrixLayout_t w, x, out;
  cublasLtMatmulAlgo_t algorithms[MOST_ALGORITHMS];
  int n_algorithms;
};

static bool find_functions(struct calls *out) {
  static const char *const names[] = {
      "libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13",
      "/usr/local/cuda/targets/x86_64-linux/lib/libcublasLt.so.13", NULL};
  void *library = fpl_library_open(names);
  bool has_all = library != NULL;
#define FPL_CUBLASLT_FIND(member, function)                                                        \
  has_all = has_all && fpl_library_symbol(library, #function, &out->member);
  FPL_CUBLASLT_CALLS(FPL_CUBLASLT_FIND)
#undef FPL_CUBLASLT_FIND
  return has_all;
}

void fpl_cublaslt_version(char out[FPL_CUBLASLT_TEXT]) {
  struct calls call = {0};
  if (!find_functions(&call)) {
    snprintf(out, FPL_CUBLASLT_TEXT, "none");
    return;
  }
  const size_t version = call.version(); /* major * 10000 + minor * 100 + patch */
  snprintf(out, FPL_CUBLASLT_TEXT, "%zu.%zu.%zu", version / 10000, version / 100 % 100,
           version % 100);
}

static bool check_status(const struct calls *call, cublasStatus_t status, const char *what,
                         struct fpl_failure *failure) {
  if (status == CUBLAS_STATUS_SUCCESS)
    return true;
  const char *name = call->status_name(status);
  return fpl_failure_candidate(
      failure, status == CUBLAS_STATUS_ALLOC_FAILED ? FPL_OUTCOME_OOM : FPL_OUTCOME_LAUNCH_ERROR,
      "cublasLt: %s: %s", what, name == NULL ? "unknown error" : name);
}

bool fpl_cublaslt_open(const struct fpl_gpu *gpu, struct fpl_cublaslt **out,
                       struct fpl_failure *failure) {
  *out = NULL;
  struct fpl_cublaslt *library = calloc(1, sizeof *library);
  if (library == NULL)
    return fpl_failure_candidate(failure, FPL_OUTCOME_OOM, "out of host memory");
  library->gpu = gpu;
  const bool is_found = find_functions(&library->call);
  if (!is_found)
    fpl_failure_candidate(failure, FPL_OUTCOME_LAUNCH_ERROR, "libcublasLt.so.13 cannot be loaded");
  if (!is_found ||
      !check_status(&library->call, library->call.create(&library->handle), "create", failure) ||
      !fpl_gpu_alloc(gpu, WORKSPACE_BYTES, &library->workspace, failure)) {
    fpl_cublaslt_close(library);
    return false;
  }
  *out = library;
  return true;
}

void fpl_cublaslt_close(struct fpl_cublaslt *library) {
  if (library == NULL)
    return;
  fpl_gpu_free(library->gpu, &library->workspace);
  if (library->handle != NULL)
    library->call.destroy(library->handle);
  free(library);
}

static bool set_desc(const struct fpl_cublaslt_product *product,
                     cublasLtMatmulDescAttributes_t attribute, const void *value, size_t size,
                     struct fpl_failure *failure) {
  const struct calls *call = &product->library->call;
  return check_status(call, call->desc_set(product->desc, attribute, value, size), "descriptor",
                      failure);
}

static bool describe(struct fpl_cublaslt_product *product, const struct fpl_cublaslt_shape *shape,
                     struct fpl_failure *failure) {
  static const cublasLtEpilogue_t epilogues[] = {
      [FPL_CUBLASLT_PLAIN] = CUBLASLT_EPILOGUE_DEFAULT,
      [FPL_CUBLASLT_RELU] = CUBLASLT_EPILOGUE_RELU,
      [FPL_CUBLASLT_GELU] = CUBLASLT_EPILOGUE_GELU,
  };
  const struct calls *call = &product->library->call;
  const cudaDataType_t type = shape->dtype == FPL_DTYPE_F16 ? CUDA_R_16F : CUDA_R_16BF;
  const cublasOperation_t transposed = CUBLAS_OP_T;
  const cublasOperation_t plain = CUBLAS_OP_N;
  const cublasLtEpilogue_t epilogue = epilogues[shape->epilogue];
  const uint64_t rows = (uint64_t)shape->rows, cols = (uint64_t)shape->cols;
  const uint64_t depth = (uint64_t)shape->depth;
  return check_status(call, call->desc_create(&product->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                      "descriptor", failure) &&
         set_desc(product, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed, failure) &&
         set_desc(product, CUBLASLT_MATMUL_DESC_TRANSB, &plain, sizeof plain, failure) &&
         set_desc(product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue, failure) &&
         check_status(call, call->layout_create(&product->w, type, depth, cols, shape->depth),
                      "layout", failure) &&
         check_status(call, call->layout_create(&product->x, type, depth, rows, shape->depth),
                      "layout", failure) &&
         check_status(call, call->layout_create(&product->out, type, cols, rows, shape->cols),
                      "layout", failure);
}

static void add_algorithm(struct fpl_cublaslt_product *product,
                          const cublasLtMatmulAlgo_t *algorithm) {
  for (int i = 0; i < product->n_algorithms; i++)
    if (memcmp(&product->algorithms[i], algorithm, sizeof *algorithm) == 0)
      return;
  if (product->n_algorithms < MOST_ALGORITHMS)
    product->algorithms[product->n_algorithms++] = *algorithm;
}

/* Adds what the library suggests for so much workspace; a request that it refuses adds nothing. */
static bool add_suggestions(struct fpl_cublaslt_product *product, size_t workspace_bytes,
                            struct fpl_failure *failure) {
  const struct fpl_cublaslt *library = product->library;
  const struct calls *call = &library->call;
  cublasLtMatmulPreference_t preference = NULL;
  int n = 0;
  cublasLtMatmulHeuristicResult_t *results = calloc(MOST_SUGGESTED, sizeof *results);
  if (results == NULL)
    return fpl_failure_candidate(failure, FPL_OUTCOME_OOM, "out of host memory");
  const bool is_ok =
      check_status(call, call->preference_create(&preference), "preference", failure) &&
      check_status(call,
                   call->preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                        &workspace_bytes, sizeof workspace_bytes),
                   "workspace", failure);
  if (is_ok && call->heuristic(library->handle, product->desc, product->w, product->x, product->out,
                               product->out, preference, MOST_SUGGESTED, results,
                               &n) != CUBLAS_STATUS_SUCCESS)
    n = 0;
  for (int i = 0; i < n; i++)
    if (results[i].state == CUBLAS_STATUS_SUCCESS && results[i].workspaceSize <= WORKSPACE_BYTES)
      add_algorithm(product, &results[i].algo);
  if (preference != NULL)
    call->preference_destroy(preference);
  free(results);
  return is_ok;
}

static bool list_algorithms(struct fpl_cublaslt_product *product, struct fpl_failure *failure) {
  for (int i = 0; i < N_REQUESTS; i++)
    if (!add_suggestions(product, requests_bytes[i], failure))
      return false;
  return product->n_algorithms > 0 ||
         fpl_failure_candidate(failure, FPL_OUTCOME_LAUNCH_ERROR,
                               "cublasLt: no algorithm for this product");
}

bool fpl_cublaslt_product_open(const struct fpl_cublaslt *library,
                               const struct fpl_cublaslt_shape *shape,
                               struct fpl_cublaslt_product **out, struct fpl_failure *failure) {
  *out = NULL;
  struct fpl_cublaslt_product *product = calloc(1, sizeof *product);
  if (product == NULL)
    return fpl_failure_candidate(failure, FPL_OUTCOME_OOM, "out of host memory");
  product->library = library;
  if (!describe(product, shape, failure) || !list_algorithms(product, failure)) {
    fpl_cublaslt_product_close(product);
    return false;
  }
  *out = product;
  return true;
}

void fpl_cublaslt_product_close(struct fpl_cublaslt_product *product) {
  if (product == NULL)
    return;
  const struct calls *call = &product->library->call;
  if (product->out != NULL)
    call->layout_destroy(product->out);
  if (product->x != NULL)
    call->layout_destroy(product->x);
  if (product->w != NULL)
    call->layout_destroy(product->w);
  if (product->desc != NULL)
    call->desc_destroy(product->desc);
  free(product);
}

int fpl_cublaslt_algorithms(const struct fpl_cublaslt_product *product) {
  return product->n_algorithms;
}

static void *host_view(CUdeviceptr address) {
  void *pointer = NULL;
  memcpy(&pointer, &address, sizeof pointer);
  return pointer;
}

bool fpl_cublaslt_enqueue(const struct fpl_cublaslt_product *product, int algorithm, CUdeviceptr x,
                          CUdeviceptr w, CUdeviceptr out, struct fpl_failure *failure) {
  const struct fpl_cublaslt *library = product->library;
  const float one = 1, zero = 0;
  return check_status(
      &library->call,
      library->call.matmul(library->handle, product->desc, &one, host_view(w), product->w,
                           host_view(x), product->x, &zero, host_view(out), product->out,
                           host_view(out), product->out, &product->algorithms[algorithm],
                           host_view(library->workspace), WORKSPACE_BYTES, library->gpu->stream),
      "matmul", failure);
}

/* Attributes of one algorithm are of 2 or of 4 bytes. */
static int number_of(const struct fpl_cublaslt_product *product, int algorithm,
                     cublasLtMatmulAlgoConfigAttributes_t attribute) {
  int32_t wide = 0;
  uint16_t narrow = 0;
  size_t written = 0;
  const struct calls *call = &product->library->call;
  const cublasLtMatmulAlgo_t *algo = &product->algorithms[algorithm];
  if (call->algo_get(algo, attribute, &wide, sizeof wide, &written) == CUBLAS_STATUS_SUCCESS)
    return wide;
  if (call->algo_get(algo, attribute, &narrow, sizeof narrow, &written) == CUBLAS_STATUS_SUCCESS)
    return narrow;
  return -1;
}

void fpl_cublaslt_algorithm_text(const struct fpl_cublaslt_product *product, int algorithm,
                                 char out[FPL_CUBLASLT_TEXT]) {
  snprintf(out, FPL_CUBLASLT_TEXT, "algo %d tile %d stages %d cluster %d split_k %d",
           number_of(product, algorithm, CUBLASLT_ALGO_CONFIG_ID),
           number_of(product, algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID),
           number_of(product, algorithm, CUBLASLT_ALGO_CONFIG_STAGES_ID),
           number_of(product, algorithm, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID),
           number_of(product, algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM));
}
