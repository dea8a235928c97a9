/* Decides what numbers the candidates compute on and what the right answer is. */
#include "tuner/measure/inputs.h"

#include "tuner/base/str.h"
#include "tuner/measure/rotation.h"

#include <math.h>
#include <stdlib.h>

/* Start of every matrix: a tensor map wants 16 bytes, wide library kernels up to 256. */
enum { MATRIX_ALIGN_BYTES = 1024 };
/* Rows of E before and after it that must stay untouched: a block tile has at most 256 rows, so
 * that is how far a store without a mask reaches. */
enum { GUARD_ROWS = 256, LEAST_GUARD_BYTES = 65536 };
enum { FILL_THREADS = 256, MOST_FILL_BLOCKS = 4096, REFERENCE_TILE = 64, REFERENCE_THREADS = 256 };

static struct fpl_support_grid fill_grid(uint64_t n_elements) {
  const int64_t blocks = fpl_ceil_div((int64_t)n_elements, FILL_THREADS);
  return (struct fpl_support_grid){(unsigned)fpl_max_i64(1, fpl_min_i64(blocks, MOST_FILL_BLOCKS)),
                                   1, FILL_THREADS};
}

bool fpl_inputs_fill_sentinel(const struct fpl_gpu *gpu, CUdeviceptr to, uint64_t n_elements,
                              struct fpl_failure *failure) {
  unsigned value = FPL_SENTINEL;
  unsigned long long count = n_elements;
  void *parameters[] = {&to, &count, &value};
  return fpl_gpu_support(gpu, FPL_SUPPORT_FILL_BITS, fill_grid(n_elements), parameters, failure);
}

bool fpl_inputs_poison(const struct fpl_gpu *gpu, const struct fpl_inputs *inputs,
                       struct fpl_failure *failure) {
  return fpl_inputs_fill_sentinel(gpu, inputs->output, inputs->output_bytes / FPL_ELEMENT_BYTES,
                                  failure);
}

/* One matrix: fill_random (amount: the scale) and fill_integers (amount: the density) have the
 * same parameters. */
static bool fill(const struct fpl_gpu *gpu, enum fpl_support kernel, CUdeviceptr to, int64_t count,
                 uint64_t seed, double amount, enum fpl_dtype dtype, struct fpl_failure *failure) {
  unsigned long long n = (unsigned long long)count;
  unsigned long long stream = seed;
  float value = (float)amount;
  int type = (int)dtype;
  void *parameters[] = {&to, &n, &stream, &value, &type};
  return fpl_gpu_support(gpu, kernel, fill_grid(n), parameters, failure);
}

static bool fill_set(const struct fpl_gpu *gpu, const struct fpl_inputs *inputs, int64_t set,
                     uint64_t seed, struct fpl_failure *failure) {
  const struct fpl_problem *p = &inputs->problem;
  const struct fpl_operands *to = &inputs->sets[set];
  const bool is_exact = set == inputs->n_sets;
  const enum fpl_support kernel = is_exact ? FPL_SUPPORT_FILL_INTEGERS : FPL_SUPPORT_FILL_RANDOM;
  /* A uniform variable in [-s, s) has variance s^2 / 3. */
  struct fpl_integer_density amount = {sqrt(3), sqrt(3 / (double)p->k), sqrt(3 / (double)p->n)};
  if (is_exact)
    fpl_rotation_density(p, &amount);
  /* Streams of different matrices must differ: 2^32 apart under an odd multiplier. */
  const uint64_t stream = (seed + 1) * UINT64_C(0xd1342543de82ef95) + ((uint64_t)set * 3 << 32);
  const uint64_t step = UINT64_C(1) << 32;
  return fill(gpu, kernel, to->a, fpl_problem_a_elements(p), stream, amount.a, p->dtype, failure) &&
         fill(gpu, kernel, to->b, fpl_problem_branches(p) * p->n * p->k, stream + step, amount.b,
              p->dtype, failure) &&
         fill(gpu, kernel, to->d, p->l * p->n, stream + 2 * step, amount.d, p->dtype, failure);
}

/* C [m][n], rounded to the element type. */
static bool compute_c(const struct fpl_gpu *gpu, const struct fpl_problem *p,
                      const struct fpl_operands *from, CUdeviceptr c, struct fpl_failure *failure) {
  long long m = p->m, n = p->n, k = p->k;
  int branches = fpl_problem_branches(p), act = (int)p->act, dtype = (int)p->dtype;
  int h = (int)p->conv.h, w = (int)p->conv.w, ic = (int)p->conv.ic, k1 = (int)p->conv.k1;
  CUdeviceptr a = from->a, b = from->b;
  void *gemm[] = {&a, &b, &c, &m, &n, &k, &branches, &act, &dtype};
  void *conv[] = {&a, &b, &c, &m, &n, &h, &w, &ic, &k1, &act, &dtype};
  const bool is_conv = p->kind == FPL_KIND_CONV_CHAIN;
  const struct fpl_support_grid grid = {(unsigned)fpl_ceil_div(m, REFERENCE_TILE),
                                        (unsigned)fpl_ceil_div(n, REFERENCE_TILE),
                                        REFERENCE_THREADS};
  return fpl_gpu_support(gpu, is_conv ? FPL_SUPPORT_REFERENCE_CONV0 : FPL_SUPPORT_REFERENCE_GEMM0,
                         grid, is_conv ? conv : gemm, failure);
}

/* C goes to `scratch` [m][n], E to `out` [m][l] in f64. */
static bool compute_reference(const struct fpl_gpu *gpu, const struct fpl_problem *p,
                              const struct fpl_operands *from, CUdeviceptr scratch, CUdeviceptr out,
                              struct fpl_failure *failure) {
  long long m = p->m, n = p->n, l = p->l;
  int dtype = (int)p->dtype;
  CUdeviceptr d = from->d;
  void *parameters[] = {&scratch, &d, &out, &m, &l, &n, &dtype};
  const struct fpl_support_grid grid = {(unsigned)fpl_ceil_div(m, REFERENCE_TILE),
                                        (unsigned)fpl_ceil_div(l, REFERENCE_TILE),
                                        REFERENCE_THREADS};
  return compute_c(gpu, p, from, scratch, failure) &&
         fpl_gpu_support(gpu, FPL_SUPPORT_REFERENCE_GEMM1, grid, parameters, failure) &&
         fpl_gpu_wait(gpu, "compute the reference", failure);
}

static bool compute_references(const struct fpl_gpu *gpu, const struct fpl_inputs *inputs,
                               struct fpl_failure *failure) {
  const struct fpl_problem *p = &inputs->problem;
  CUdeviceptr scratch = 0;
  const bool is_ok =
      fpl_gpu_alloc(gpu, (uint64_t)(p->m * p->n) * FPL_ELEMENT_BYTES, &scratch, failure) &&
      compute_reference(gpu, p, &inputs->sets[0], scratch, inputs->reference, failure) &&
      compute_reference(gpu, p, &inputs->sets[inputs->n_sets], scratch, inputs->reference_exact,
                        failure);
  fpl_gpu_free(gpu, &scratch);
  return is_ok;
}

static uint64_t matrix_bytes(int64_t n_elements) {
  return (uint64_t)fpl_round_up(n_elements * FPL_ELEMENT_BYTES, MATRIX_ALIGN_BYTES);
}

/* Cuts the slab into sets. */
static bool allocate_sets(const struct fpl_gpu *gpu, struct fpl_inputs *inputs,
                          struct fpl_failure *failure) {
  const struct fpl_problem *p = &inputs->problem;
  const uint64_t a_bytes = matrix_bytes(fpl_problem_a_elements(p));
  const uint64_t b_bytes = matrix_bytes(fpl_problem_branches(p) * p->n * p->k);
  const uint64_t d_bytes = matrix_bytes(p->l * p->n);
  const uint64_t set_bytes = a_bytes + b_bytes + d_bytes;
  inputs->n_sets =
      fpl_rotation_sets((int64_t)(b_bytes + d_bytes), (int64_t)set_bytes, gpu->l2_bytes);
  const uint64_t n_all = (uint64_t)inputs->n_sets + 1;
  inputs->sets = calloc((size_t)n_all, sizeof *inputs->sets);
  if (inputs->sets == NULL)
    return fpl_failure_device(failure, "out of host memory");
  if (!fpl_gpu_alloc(gpu, n_all * set_bytes, &inputs->slab, failure))
    return false;
  for (uint64_t i = 0; i < n_all; i++) {
    const CUdeviceptr base = inputs->slab + i * set_bytes;
    inputs->sets[i] = (struct fpl_operands){base, base + a_bytes, base + a_bytes + b_bytes};
  }
  return true;
}

static bool allocate_outputs(const struct fpl_gpu *gpu, struct fpl_inputs *inputs,
                             struct fpl_failure *failure) {
  const struct fpl_problem *p = &inputs->problem;
  const uint64_t e_elements = (uint64_t)(p->m * p->l);
  const uint64_t e_bytes = e_elements * FPL_ELEMENT_BYTES;
  const int64_t guard_bytes = fpl_max_i64(GUARD_ROWS * p->l * FPL_ELEMENT_BYTES, LEAST_GUARD_BYTES);
  inputs->guard_bytes = (uint64_t)fpl_round_up(guard_bytes, MATRIX_ALIGN_BYTES);
  inputs->output_bytes = e_bytes + 2 * inputs->guard_bytes;
  if (!fpl_gpu_alloc(gpu, inputs->output_bytes, &inputs->output, failure))
    return false;
  inputs->e = inputs->output + inputs->guard_bytes;
  return fpl_gpu_alloc(gpu, e_bytes, &inputs->e_copy, failure) &&
         fpl_gpu_alloc(gpu, e_elements * sizeof(double), &inputs->reference, failure) &&
         fpl_gpu_alloc(gpu, e_elements * sizeof(double), &inputs->reference_exact, failure) &&
         fpl_gpu_alloc(gpu, FPL_COUNTER_BYTES, &inputs->counters, failure);
}

static bool fill_sets(const struct fpl_gpu *gpu, const struct fpl_inputs *inputs, uint64_t seed,
                      struct fpl_failure *failure) {
  for (int64_t set = 0; set <= inputs->n_sets; set++)
    if (!fill_set(gpu, inputs, set, seed, failure))
      return false;
  return true;
}

bool fpl_inputs_open(const struct fpl_gpu *gpu, const struct fpl_problem *problem, uint64_t seed,
                     struct fpl_inputs *out, struct fpl_failure *failure) {
  *out = (struct fpl_inputs){.problem = *problem};
  if (allocate_sets(gpu, out, failure) && allocate_outputs(gpu, out, failure) &&
      fill_sets(gpu, out, seed, failure) && compute_references(gpu, out, failure))
    return true;
  failure->is_device = true;
  return false;
}

void fpl_inputs_close(const struct fpl_gpu *gpu, struct fpl_inputs *inputs) {
  fpl_gpu_free(gpu, &inputs->slab);
  fpl_gpu_free(gpu, &inputs->output);
  fpl_gpu_free(gpu, &inputs->e_copy);
  fpl_gpu_free(gpu, &inputs->reference);
  fpl_gpu_free(gpu, &inputs->reference_exact);
  fpl_gpu_free(gpu, &inputs->counters);
  free(inputs->sets);
  *inputs = (struct fpl_inputs){0};
}
