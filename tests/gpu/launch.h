/* Many launches of one kernel on inputs that change with each, judged on the device.
 *
 * A stage holds SETS input sets of integers with their references, and BATCH outputs. Launch i reads
 * set i mod SETS and writes output i mod BATCH; after BATCH launches back to back each output is
 * compared with the reference of its set. BATCH and SETS have no common divisor, so an output that a
 * launch leaves alone still holds another set's result. Counts add up on the device. */
#ifndef FPL_TESTS_GPU_LAUNCH_H
#define FPL_TESTS_GPU_LAUNCH_H

#include "tests/gpu/instances.h"

#include "tuner/base/str.h"
#include "tuner/base/sys.h"
#include "tuner/measure/rotation.h"
#include "tuner/measure/sample_cuda.h"

enum { SETS = 5, BATCH = 8, COMPARE_BLOCKS = 64, FILL_BLOCKS = 256, LAUNCH_THREADS = 256 };

/* As `sums` of support_sm90.cu. */
struct launch_counts {
  double diff_squares, ref_squares;
  uint64_t max_abs_bits, n_unequal, n_unwritten;
};

struct launch_stage {
  const struct fpl_gpu *gpu; /* its stream */
  struct fpl_inputs inputs;  /* n_sets = SETS - 1: the kernel's maps are made for SETS sets */
  CUdeviceptr references;    /* [SETS][m][l] f64 */
  CUdeviceptr outputs;       /* [BATCH][m][l] */
};

static uint64_t launch_e_elements(const struct fpl_problem *p) {
  return (uint64_t)(p->m * p->l);
}

static bool launch_fill(const struct fpl_gpu *gpu, CUdeviceptr to, int64_t n_elements,
                        uint64_t seed, double density, enum fpl_dtype dtype,
                        struct fpl_failure *failure) {
  unsigned long long n = (unsigned long long)n_elements, stream = seed << 40;
  float share = (float)density;
  int type = (int)dtype;
  void *parameters[] = {&to, &n, &stream, &share, &type};
  const struct fpl_support_grid grid = {FILL_BLOCKS, 1, LAUNCH_THREADS};
  return fpl_gpu_support(gpu, FPL_SUPPORT_FILL_INTEGERS, grid, parameters, failure);
}

static bool launch_reference(const struct fpl_gpu *gpu, const struct fpl_problem *p,
                             const struct fpl_operands *from, CUdeviceptr c, CUdeviceptr e,
                             struct fpl_failure *failure) {
  enum { TILE = 64 };
  long long m = p->m, n = p->n, k = p->k, l = p->l;
  int branches = fpl_problem_branches(p), act = (int)p->act, dtype = (int)p->dtype;
  CUdeviceptr a = from->a, b = from->b, d = from->d;
  void *first[] = {&a, &b, &c, &m, &n, &k, &branches, &act, &dtype};
  void *second[] = {&c, &d, &e, &m, &l, &n, &dtype};
  const unsigned rows = (unsigned)fpl_ceil_div(m, TILE);
  const struct fpl_support_grid grid_c = {rows, (unsigned)fpl_ceil_div(n, TILE), LAUNCH_THREADS};
  const struct fpl_support_grid grid_e = {rows, (unsigned)fpl_ceil_div(l, TILE), LAUNCH_THREADS};
  return fpl_gpu_support(gpu, FPL_SUPPORT_REFERENCE_GEMM0, grid_c, first, failure) &&
         fpl_gpu_support(gpu, FPL_SUPPORT_REFERENCE_GEMM1, grid_e, second, failure);
}

/* Fills the sets and computes their references; C goes to `scratch`. */
static bool launch_fill_sets(struct launch_stage *stage, CUdeviceptr scratch,
                             struct fpl_failure *failure) {
  const struct fpl_problem *const p = &stage->inputs.problem;
  const int64_t a = p->m * p->k, b = fpl_problem_branches(p) * p->n * p->k, d = p->l * p->n;
  const int64_t align = 1024; /* bytes */
  const uint64_t a_bytes = (uint64_t)fpl_round_up(a * FPL_ELEMENT_BYTES, align);
  const uint64_t b_bytes = (uint64_t)fpl_round_up(b * FPL_ELEMENT_BYTES, align);
  const uint64_t d_bytes = (uint64_t)fpl_round_up(d * FPL_ELEMENT_BYTES, align);
  struct fpl_integer_density density = {0};
  fpl_rotation_density(p, &density);
  bool is_ok =
      fpl_gpu_alloc(stage->gpu, SETS * (a_bytes + b_bytes + d_bytes), &stage->inputs.slab, failure);
  for (uint64_t i = 0; i < SETS && is_ok; i++) {
    const CUdeviceptr at = stage->inputs.slab + i * (a_bytes + b_bytes + d_bytes);
    const struct fpl_operands set = {at, at + a_bytes, at + a_bytes + b_bytes};
    stage->inputs.sets[i] = set;
    is_ok =
        launch_fill(stage->gpu, set.a, a, 3 * i + 1, density.a, p->dtype, failure) &&
        launch_fill(stage->gpu, set.b, b, 3 * i + 2, density.b, p->dtype, failure) &&
        launch_fill(stage->gpu, set.d, d, 3 * i + 3, density.d, p->dtype, failure) &&
        launch_reference(stage->gpu, p, &set, scratch,
                         stage->references + i * launch_e_elements(p) * sizeof(double), failure);
  }
  return is_ok;
}

/* The GPU must outlive it; close in any case. */
static inline bool launch_stage_open(const struct fpl_gpu *gpu, const struct fpl_problem *p,
                                     struct launch_stage *out, struct fpl_failure *failure) {
  CUdeviceptr scratch = 0;
  const uint64_t n_e = launch_e_elements(p);
  *out = (struct launch_stage){.gpu = gpu, .inputs = {.problem = *p, .n_sets = SETS - 1}};
  out->inputs.sets = calloc(SETS, sizeof *out->inputs.sets);
  const bool is_ok =
      out->inputs.sets &&
      fpl_gpu_alloc(gpu, (uint64_t)(p->m * p->n) * FPL_ELEMENT_BYTES, &scratch, failure) &&
      fpl_gpu_alloc(gpu, SETS * n_e * sizeof(double), &out->references, failure) &&
      fpl_gpu_alloc(gpu, BATCH * n_e * FPL_ELEMENT_BYTES, &out->outputs, failure) &&
      fpl_gpu_alloc(gpu, FPL_COUNTER_BYTES, &out->inputs.counters, failure) &&
      gpu->call.mem_set(out->inputs.counters, 0, FPL_COUNTER_BYTES, gpu->stream) == CUDA_SUCCESS &&
      launch_fill_sets(out, scratch, failure) && fpl_gpu_wait(gpu, "make inputs", failure);
  fpl_gpu_free(gpu, &scratch);
  return is_ok;
}

static inline void launch_stage_close(struct launch_stage *stage) {
  if (!stage->gpu)
    return;
  fpl_gpu_free(stage->gpu, &stage->references);
  fpl_gpu_free(stage->gpu, &stage->outputs);
  fpl_inputs_close(stage->gpu, &stage->inputs);
}

static CUdeviceptr launch_output(const struct launch_stage *stage, int64_t launch) {
  return stage->outputs +
         (uint64_t)(launch % BATCH) * launch_e_elements(&stage->inputs.problem) * FPL_ELEMENT_BYTES;
}

/* Queues launch number `launch` of a kernel that was loaded for the stage's inputs. */
static inline bool launch_one(const struct launch_stage *stage, struct fpl_cuda_kernel *kernel,
                              int64_t launch, struct fpl_failure *failure) {
  const struct fpl_runner runner = fpl_cuda_kernel_runner(kernel);
  kernel->e = launch_output(stage, launch);
  return runner.enqueue(runner.self, launch % SETS, failure);
}

/* Queues the comparison of the first `rows` rows of a launch's output. */
static inline bool launch_compare(const struct launch_stage *stage, int64_t launch, int64_t rows,
                                  struct fpl_failure *failure) {
  const struct fpl_problem *const p = &stage->inputs.problem;
  CUdeviceptr e = launch_output(stage, launch), counters = stage->inputs.counters;
  CUdeviceptr reference =
      stage->references + (uint64_t)(launch % SETS) * launch_e_elements(p) * sizeof(double);
  unsigned long long count = (unsigned long long)(rows * p->l);
  unsigned sentinel = FPL_SENTINEL;
  int dtype = (int)p->dtype;
  void *parameters[] = {&e, &reference, &count, &sentinel, &dtype, &counters};
  const struct fpl_support_grid grid = {COMPARE_BLOCKS, 1, LAUNCH_THREADS};
  return fpl_gpu_support(stage->gpu, FPL_SUPPORT_COMPARE, grid, parameters, failure);
}

/* Elements that differ from their references, or were not written, so far. Waits. */
static inline bool launch_wrong(const struct launch_stage *stage, uint64_t *out,
                                struct fpl_failure *failure) {
  struct launch_counts counts;
  if (!fpl_gpu_read(stage->gpu, stage->inputs.counters, sizeof counts, &counts, failure))
    return false;
  /* References of zeros alone would compare with anything that is zero. */
  if (!(counts.ref_squares > 0))
    return fpl_failure_device(failure, "the references are zero");
  *out = counts.n_unequal + counts.n_unwritten;
  return true;
}

/* A device with its support kernels; a second one has a stream of its own. */
static enum fpl_status launch_gpu_open(struct gpu_place *place, struct fpl_gpu *gpu,
                                       struct fpl_err *err) {
  char *image = NULL;
  size_t bytes = 0;
  struct fpl_failure failure = {0};
  *gpu = (struct fpl_gpu){0};
  const enum fpl_status status =
      fpl_file_read(&place->arena, place->support, 64 << 20, &image, &bytes, err);
  if (status != FPL_OK)
    return status;
  if (fpl_driver_open(&gpu->call, &failure) && fpl_gpu_open(0, gpu, &failure) &&
      fpl_gpu_load_support(gpu, image, &failure))
    return FPL_OK;
  return fpl_fail(err, FPL_DEVICE, "%s", failure.reason);
}

#endif
