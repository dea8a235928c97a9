/* The only user of cublasLt.h. Decides which of the library's algorithms the library plan uses. */
#include "tuner/measure/baseline_cublaslt.h"

#include "tuner/base/str.h"

#include <cublasLt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  MOST_ALGORITHMS = 32,
  WORKSPACE_BYTES = 32 << 20, /* what cuBLAS itself takes on Hopper (cuBLAS guide, workspace) */
  N_PRODUCTS = 2,
  TIMED_REPLAYS = 3,
  ENOUGH_REPLAY_US = 30000,
  ACTIVATION_THREADS = 128,
  ACTIVATION_ELEMENTS = 8, /* a thread, see support_sm90.cu */
  MOST_GRID_Y = 65535
};

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

/* out[rows][cols] = x[rows][depth] . w[cols][depth]^T, row-major; to the column-major library
 * out^T = w . x^T: its A is w (transposed), its B is x. */
struct product {
  cublasLtMatmulDesc_t desc;
  cublasLtMatrixLayout_t w, x, out;
  cublasLtMatmulHeuristicResult_t algorithms[MOST_ALGORITHMS];
  int n_algorithms;
  int chosen;
};

struct fpl_cublaslt {
  struct calls call;
  const struct fpl_gpu *gpu;
  const struct fpl_inputs *inputs;
  cublasLtHandle_t handle;
  struct product products[N_PRODUCTS];
  bool has_activation;   /* a kernel between the products */
  CUdeviceptr made;      /* first product's result, [m][branches n] */
  CUdeviceptr activated; /* [m][n]; 0 without has_activation */
  CUdeviceptr workspace;
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

static bool check_status(const struct fpl_cublaslt *pair, cublasStatus_t status, const char *what,
                         struct fpl_failure *failure) {
  if (status == CUBLAS_STATUS_SUCCESS)
    return true;
  const char *name = pair->call.status_name(status);
  return fpl_failure_candidate(
      failure, status == CUBLAS_STATUS_ALLOC_FAILED ? FPL_OUTCOME_OOM : FPL_OUTCOME_LAUNCH_ERROR,
      "cublasLt: %s: %s", what, name == NULL ? "unknown error" : name);
}

static cudaDataType_t data_type(const struct fpl_cublaslt *pair) {
  return pair->inputs->problem.dtype == FPL_DTYPE_F16 ? CUDA_R_16F : CUDA_R_16BF;
}

static bool describe(struct fpl_cublaslt *pair, struct product *product, int64_t rows, int64_t cols,
                     int64_t depth, cublasLtEpilogue_t epilogue, struct fpl_failure *failure) {
  const struct calls *call = &pair->call;
  const cudaDataType_t type = data_type(pair);
  const cublasOperation_t transposed = CUBLAS_OP_T;
  const cublasOperation_t plain = CUBLAS_OP_N;
  const uint64_t r = (uint64_t)rows, c = (uint64_t)cols, d = (uint64_t)depth;
  return check_status(pair, call->desc_create(&product->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                      "descriptor", failure) &&
         check_status(pair,
                      call->desc_set(product->desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                     sizeof transposed),
                      "transpose", failure) &&
         check_status(
             pair, call->desc_set(product->desc, CUBLASLT_MATMUL_DESC_TRANSB, &plain, sizeof plain),
             "transpose", failure) &&
         check_status(pair,
                      call->desc_set(product->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                     sizeof epilogue),
                      "epilogue", failure) &&
         check_status(pair, call->layout_create(&product->w, type, d, c, depth), "layout",
                      failure) &&
         check_status(pair, call->layout_create(&product->x, type, d, r, depth), "layout",
                      failure) &&
         check_status(pair, call->layout_create(&product->out, type, c, r, cols), "layout",
                      failure);
}

static bool list_algorithms(struct fpl_cublaslt *pair, struct product *product,
                            struct fpl_failure *failure) {
  const struct calls *call = &pair->call;
  const size_t workspace_bytes = WORKSPACE_BYTES;
  cublasLtMatmulPreference_t preference = NULL;
  bool is_ok =
      check_status(pair, call->preference_create(&preference), "preference", failure) &&
      check_status(pair,
                   call->preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                        &workspace_bytes, sizeof workspace_bytes),
                   "workspace", failure) &&
      check_status(pair,
                   call->heuristic(pair->handle, product->desc, product->w, product->x,
                                   product->out, product->out, preference, MOST_ALGORITHMS,
                                   product->algorithms, &product->n_algorithms),
                   "heuristic", failure);
  if (preference != NULL)
    call->preference_destroy(preference);
  int n_usable = 0;
  for (int i = 0; is_ok && i < product->n_algorithms; i++)
    if (product->algorithms[i].state == CUBLAS_STATUS_SUCCESS)
      product->algorithms[n_usable++] = product->algorithms[i];
  product->n_algorithms = n_usable;
  if (is_ok && n_usable == 0)
    is_ok = fpl_failure_candidate(failure, FPL_OUTCOME_LAUNCH_ERROR,
                                  "cublasLt: no algorithm for this product");
  return is_ok;
}

static void *host_view(CUdeviceptr address) {
  void *pointer = NULL;
  memcpy(&pointer, &address, sizeof pointer);
  return pointer;
}

static bool enqueue_product(const struct fpl_cublaslt *pair, const struct product *product,
                            CUdeviceptr x, CUdeviceptr w, CUdeviceptr out,
                            struct fpl_failure *failure) {
  const float one = 1, zero = 0;
  return check_status(
      pair,
      pair->call.matmul(pair->handle, product->desc, &one, host_view(w), product->w, host_view(x),
                        product->x, &zero, host_view(out), product->out, host_view(out),
                        product->out, &product->algorithms[product->chosen].algo,
                        host_view(pair->workspace), WORKSPACE_BYTES, pair->gpu->stream),
      "matmul", failure);
}

static bool enqueue_activation(const struct fpl_cublaslt *pair, struct fpl_failure *failure) {
  const struct fpl_problem *p = &pair->inputs->problem;
  CUdeviceptr from = pair->made, to = pair->activated;
  int m = (int)p->m, n = (int)p->n, is_gated = fpl_problem_branches(p) == 2 ? 1 : 0;
  int act = (int)p->act, dtype = (int)p->dtype;
  void *parameters[] = {&from, &to, &m, &n, &is_gated, &act, &dtype};
  const struct fpl_support_grid grid = {
      (unsigned)fpl_ceil_div(p->n, ACTIVATION_THREADS * ACTIVATION_ELEMENTS),
      (unsigned)fpl_min_i64(p->m, MOST_GRID_Y), ACTIVATION_THREADS};
  return fpl_gpu_support(pair->gpu, FPL_SUPPORT_ACTIVATION, grid, parameters, failure);
}

static bool enqueue_pair(void *self, int64_t set, struct fpl_failure *failure) {
  const struct fpl_cublaslt *pair = self;
  const struct fpl_operands *from = &pair->inputs->sets[set];
  return enqueue_product(pair, &pair->products[0], from->a, from->b, pair->made, failure) &&
         (!pair->has_activation || enqueue_activation(pair, failure)) &&
         enqueue_product(pair, &pair->products[1],
                         pair->has_activation ? pair->activated : pair->made, from->d,
                         pair->inputs->e, failure);
}

struct fpl_runner fpl_cublaslt_runner(struct fpl_cublaslt *pair) {
  return (struct fpl_runner){.self = pair, .is_library = true, .enqueue = enqueue_pair};
}

/* Cold time of the pair as chosen: the least of a few replays' means (a choice between algorithms,
 * not a measurement). The first replay warms up; one twice as slow as the best so far ends it, and
 * long pairs need no second. */
static bool time_pair(struct fpl_cublaslt *pair, double best_us, double *out_us,
                      struct fpl_failure *failure) {
  const struct fpl_runner runner = fpl_cublaslt_runner(pair);
  struct fpl_replay replay;
  /* Once outside the capture: the library loads a kernel at its first use. */
  if (!runner.enqueue(runner.self, 0, failure) ||
      !fpl_gpu_wait(pair->gpu, "run the library pair", failure) ||
      !fpl_replay_make(pair->gpu, &runner, pair->inputs, FPL_COLD, &replay, failure))
    return false;
  double spent_us = 0;
  bool is_ok = true;
  for (int i = 0; is_ok && i <= TIMED_REPLAYS && spent_us < ENOUGH_REPLAY_US; i++) {
    double us = 0;
    is_ok = fpl_replay_mean_us(pair->gpu, &replay, &us, failure);
    spent_us += us * (double)replay.n_launches;
    if (i == 0 || us < *out_us)
      *out_us = us;
    if (best_us > 0 && *out_us > 2 * best_us)
      break;
  }
  fpl_replay_free(pair->gpu, &replay);
  return is_ok;
}

/* Chooses product `index`'s algorithm, the other one's standing. An algorithm that the library
 * refuses when run is passed over; a sticky error ends the search. */
static bool choose(struct fpl_cublaslt *pair, int index, double *best_us, double *first_us,
                   struct fpl_failure *failure) {
  struct product *product = &pair->products[index];
  int best = -1;
  *best_us = 0;
  for (int i = 0; i < product->n_algorithms; i++) {
    double us = 0;
    product->chosen = i;
    if (!time_pair(pair, *best_us, &us, failure)) {
      if (failure->is_sticky)
        return false;
      continue;
    }
    if (first_us != NULL && i == 0)
      *first_us = us;
    if (best < 0 || us < *best_us) {
      best = i;
      *best_us = us;
    }
  }
  product->chosen = best < 0 ? 0 : best;
  return best >= 0;
}

static int algorithm_number(const struct fpl_cublaslt *pair, const struct product *product,
                            cublasLtMatmulAlgoConfigAttributes_t attribute) {
  int32_t value = -1;
  size_t written = 0;
  if (pair->call.algo_get(&product->algorithms[product->chosen].algo, attribute, &value,
                          sizeof value, &written) != CUBLAS_STATUS_SUCCESS)
    return -1;
  return value;
}

static void write_text(const struct fpl_cublaslt *pair, double best_us, double first_us,
                       char out[FPL_CUBLASLT_TEXT]) {
  size_t length = 0;
  for (int i = 0; i < N_PRODUCTS && length < FPL_CUBLASLT_TEXT; i++) {
    const struct product *product = &pair->products[i];
    length += (size_t)snprintf(out + length, FPL_CUBLASLT_TEXT - length,
                               "gemm%d: choice %d of %d, algo %d tile %d stages %d split_k %d; ", i,
                               product->chosen + 1, product->n_algorithms,
                               algorithm_number(pair, product, CUBLASLT_ALGO_CONFIG_ID),
                               algorithm_number(pair, product, CUBLASLT_ALGO_CONFIG_TILE_ID),
                               algorithm_number(pair, product, CUBLASLT_ALGO_CONFIG_STAGES_ID),
                               algorithm_number(pair, product, CUBLASLT_ALGO_CONFIG_SPLITK_NUM));
  }
  if (length < FPL_CUBLASLT_TEXT)
    snprintf(out + length, FPL_CUBLASLT_TEXT - length, "graph %.2f us, first choices %.2f us",
             best_us, first_us);
}

static cublasLtEpilogue_t epilogue_of(const struct fpl_problem *p) {
  if (fpl_problem_branches(p) == 1 && p->act == FPL_ACT_RELU)
    return CUBLASLT_EPILOGUE_RELU;
  if (fpl_problem_branches(p) == 1 && p->act == FPL_ACT_GELU)
    return CUBLASLT_EPILOGUE_GELU; /* the tanh form */
  return CUBLASLT_EPILOGUE_DEFAULT;
}

static bool prepare(struct fpl_cublaslt *pair, struct fpl_failure *failure) {
  const struct fpl_problem *p = &pair->inputs->problem;
  const int64_t made_cols = fpl_problem_branches(p) * p->n;
  const uint64_t made_bytes = (uint64_t)(p->m * made_cols) * FPL_ELEMENT_BYTES;
  const uint64_t activated_bytes = (uint64_t)(p->m * p->n) * FPL_ELEMENT_BYTES;
  pair->has_activation = fpl_problem_branches(p) == 2 || p->act == FPL_ACT_SILU;
  return check_status(pair, pair->call.create(&pair->handle), "create", failure) &&
         fpl_gpu_alloc(pair->gpu, WORKSPACE_BYTES, &pair->workspace, failure) &&
         fpl_gpu_alloc(pair->gpu, made_bytes, &pair->made, failure) &&
         (!pair->has_activation ||
          fpl_gpu_alloc(pair->gpu, activated_bytes, &pair->activated, failure)) &&
         describe(pair, &pair->products[0], p->m, made_cols, p->k, epilogue_of(p), failure) &&
         describe(pair, &pair->products[1], p->m, p->l, p->n, CUBLASLT_EPILOGUE_DEFAULT, failure) &&
         list_algorithms(pair, &pair->products[0], failure) &&
         list_algorithms(pair, &pair->products[1], failure);
}

bool fpl_cublaslt_open(const struct fpl_gpu *gpu, const struct fpl_inputs *inputs,
                       struct fpl_cublaslt **out, char out_text[FPL_CUBLASLT_TEXT],
                       struct fpl_failure *failure) {
  *out = NULL;
  struct fpl_cublaslt *pair = calloc(1, sizeof *pair);
  if (pair == NULL)
    return fpl_failure_candidate(failure, FPL_OUTCOME_OOM, "out of host memory");
  pair->gpu = gpu;
  pair->inputs = inputs;
  double best_us = 0, first_us = 0;
  bool is_ok =
      find_functions(&pair->call) || fpl_failure_candidate(failure, FPL_OUTCOME_LAUNCH_ERROR,
                                                           "libcublasLt.so.13 cannot be loaded");
  is_ok = is_ok && prepare(pair, failure) && choose(pair, 0, &best_us, &first_us, failure) &&
          choose(pair, 1, &best_us, NULL, failure);
  if (!is_ok) {
    fpl_cublaslt_close(pair);
    return false;
  }
  write_text(pair, best_us, first_us, out_text);
  *out = pair;
  return true;
}

void fpl_cublaslt_close(struct fpl_cublaslt *pair) {
  if (pair == NULL)
    return;
  const struct calls *call = &pair->call;
  for (int i = 0; i < N_PRODUCTS; i++) {
    const struct product *product = &pair->products[i];
    if (product->out != NULL)
      call->layout_destroy(product->out);
    if (product->x != NULL)
      call->layout_destroy(product->x);
    if (product->w != NULL)
      call->layout_destroy(product->w);
    if (product->desc != NULL)
      call->desc_destroy(product->desc);
  }
  fpl_gpu_free(pair->gpu, &pair->made);
  fpl_gpu_free(pair->gpu, &pair->activated);
  fpl_gpu_free(pair->gpu, &pair->workspace);
  if (pair->handle != NULL)
    call->destroy(pair->handle);
  free(pair);
}
