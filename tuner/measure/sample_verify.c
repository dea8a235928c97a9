/* Decides whether a plan's results are right. */
#include "tuner/measure/sample_verify.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* What the support kernels count; the first five are `sums` of support_sm90.cu. */
struct counters {
  double diff_squares, ref_squares;
  uint64_t max_abs_bits;
  uint64_t n_unequal, n_unwritten;
  uint64_t n_before, n_after; /* changed elements of the guards of E */
  uint64_t n_workspace;       /* changed elements of the plan's own guard */
  uint64_t n_different;       /* between the first and the second run */
};
enum { COUNT_BLOCKS = 512, COUNT_THREADS = 256 };

static const struct fpl_support_grid count_grid = {COUNT_BLOCKS, 1, COUNT_THREADS};

static double tolerance(enum fpl_dtype dtype) {
  return dtype == FPL_DTYPE_F16 ? 2e-3 : 1.6e-2;
}

static bool count_changed(const struct fpl_gpu *gpu, CUdeviceptr from, uint64_t n_elements,
                          CUdeviceptr counter, struct fpl_failure *failure) {
  unsigned long long count = n_elements;
  unsigned sentinel = FPL_SENTINEL;
  void *parameters[] = {&from, &count, &sentinel, &counter};
  return fpl_gpu_support(gpu, FPL_SUPPORT_COUNT_CHANGED, count_grid, parameters, failure);
}

static bool compare(const struct fpl_gpu *gpu, const struct fpl_inputs *inputs,
                    CUdeviceptr reference, struct fpl_failure *failure) {
  CUdeviceptr e = inputs->e, counters = inputs->counters;
  unsigned long long count = (unsigned long long)(inputs->problem.m * inputs->problem.l);
  unsigned sentinel = FPL_SENTINEL;
  int dtype = (int)inputs->problem.dtype;
  void *parameters[] = {&e, &reference, &count, &sentinel, &dtype, &counters};
  return fpl_gpu_support(gpu, FPL_SUPPORT_COMPARE, count_grid, parameters, failure);
}

static bool count_different(const struct fpl_gpu *gpu, const struct fpl_inputs *inputs,
                            struct fpl_failure *failure) {
  CUdeviceptr e = inputs->e, copy = inputs->e_copy;
  CUdeviceptr counter = inputs->counters + offsetof(struct counters, n_different);
  unsigned long long count = (unsigned long long)(inputs->problem.m * inputs->problem.l);
  void *parameters[] = {&e, &copy, &count, &counter};
  return fpl_gpu_support(gpu, FPL_SUPPORT_COUNT_DIFFERENT, count_grid, parameters, failure);
}

/* All counts of the E that the last launch left. */
static bool count_all(const struct fpl_gpu *gpu, const struct fpl_inputs *inputs,
                      const struct fpl_runner *runner, bool is_second, CUdeviceptr reference,
                      struct counters *out, struct fpl_failure *failure) {
  const uint64_t e_bytes = (uint64_t)(inputs->problem.m * inputs->problem.l) * FPL_ELEMENT_BYTES;
  const uint64_t guard_elements = inputs->guard_bytes / FPL_ELEMENT_BYTES;
  const CUdeviceptr counters = inputs->counters;
  return fpl_driver_ok(&gpu->call, gpu->call.mem_set(counters, 0, FPL_COUNTER_BYTES, gpu->stream),
                       "zero the counters", failure) &&
         compare(gpu, inputs, reference, failure) &&
         count_changed(gpu, inputs->output, guard_elements,
                       counters + offsetof(struct counters, n_before), failure) &&
         count_changed(gpu, inputs->e + e_bytes, guard_elements,
                       counters + offsetof(struct counters, n_after), failure) &&
         (runner->guard == 0 ||
          count_changed(gpu, runner->guard, runner->guard_elements,
                        counters + offsetof(struct counters, n_workspace), failure)) &&
         (!is_second || count_different(gpu, inputs, failure)) &&
         fpl_gpu_read(gpu, counters, sizeof *out, out, failure);
}

static bool run_once(const struct fpl_gpu *gpu, const struct fpl_inputs *inputs,
                     const struct fpl_runner *runner, int64_t set, struct fpl_failure *failure) {
  return fpl_inputs_poison(gpu, inputs, failure) && fpl_gpu_wait(gpu, "poison", failure) &&
         runner->enqueue(runner->self, set, failure) && fpl_gpu_wait(gpu, "run the plan", failure);
}

struct check {
  const char *name; /* of the inputs, for messages */
  int64_t set;
  CUdeviceptr reference;
  bool must_be_equal; /* every element */
};

static bool judge(const struct fpl_inputs *inputs, const struct check *check, int run,
                  const struct counters *c, double relative_error, struct fpl_failure *failure) {
  const long long n_elements = (long long)(inputs->problem.m * inputs->problem.l);
  double max_abs = 0;
  memcpy(&max_abs, &c->max_abs_bits, sizeof max_abs);
  if (c->n_before != 0 || c->n_after != 0 || c->n_workspace != 0)
    return fpl_failure_candidate(
        failure, FPL_OUTCOME_WRONG_RESULT,
        "%s inputs, run %d: wrote out of bounds: %llu elements before E, %llu after, %llu after "
        "the workspace",
        check->name, run, (unsigned long long)c->n_before, (unsigned long long)c->n_after,
        (unsigned long long)c->n_workspace);
  if (c->n_unwritten != 0)
    return fpl_failure_candidate(failure, FPL_OUTCOME_WRONG_RESULT,
                                 "%s inputs, run %d: %llu of %lld elements were not written",
                                 check->name, run, (unsigned long long)c->n_unwritten, n_elements);
  /* Negated, so that NaN fails. */
  if (!(relative_error <= tolerance(inputs->problem.dtype)))
    return fpl_failure_candidate(failure, FPL_OUTCOME_WRONG_RESULT,
                                 "%s inputs, run %d: relative error %.3g, largest difference %.3g",
                                 check->name, run, relative_error, max_abs);
  if (check->must_be_equal && c->n_unequal != 0)
    return fpl_failure_candidate(failure, FPL_OUTCOME_WRONG_RESULT,
                                 "%s inputs, run %d: %llu of %lld elements differ, by at most %.3g",
                                 check->name, run, (unsigned long long)c->n_unequal, n_elements,
                                 max_abs);
  return true;
}

/* Zero reference and zero result agree. */
static double relative_error_of(const struct counters *c) {
  return c->ref_squares > 0 ? sqrt(c->diff_squares / c->ref_squares) : sqrt(c->diff_squares);
}

static bool run_check(const struct fpl_gpu *gpu, const struct fpl_inputs *inputs,
                      const struct fpl_runner *runner, const struct check *check,
                      struct counters *out, double *out_error, struct fpl_failure *failure) {
  const size_t e_bytes = (size_t)(inputs->problem.m * inputs->problem.l) * FPL_ELEMENT_BYTES;
  for (int run = 1; run <= 2; run++) {
    if (!run_once(gpu, inputs, runner, check->set, failure) ||
        !count_all(gpu, inputs, runner, run == 2, check->reference, out, failure))
      return false;
    *out_error = relative_error_of(out);
    if (!judge(inputs, check, run, out, *out_error, failure))
      return false;
    if (run == 1 &&
        !fpl_driver_ok(&gpu->call,
                       gpu->call.mem_copy(inputs->e_copy, inputs->e, e_bytes, gpu->stream),
                       "copy E", failure))
      return false;
  }
  return true;
}

bool fpl_sample_verify(const struct fpl_gpu *gpu, const struct fpl_inputs *inputs,
                       const struct fpl_runner *runner, struct fpl_verification *out,
                       char out_note[FPL_SAMPLE_NOTE], struct fpl_failure *failure) {
  const enum fpl_act act = inputs->problem.act;
  const bool is_integral = act == FPL_ACT_NONE || act == FPL_ACT_RELU;
  const struct check exact = {"exact", inputs->n_sets, inputs->reference_exact,
                              is_integral && !runner->is_library};
  const struct check random = {"random", 0, inputs->reference, false};
  struct counters exact_counts, random_counts;
  double exact_error = 0, random_error = 0;
  *out = (struct fpl_verification){0};
  out_note[0] = '\0';
  if (!run_check(gpu, inputs, runner, &exact, &exact_counts, &exact_error, failure) ||
      !run_check(gpu, inputs, runner, &random, &random_counts, &random_error, failure))
    return false;
  out->was_exact_ok = is_integral && exact_counts.n_unequal == 0;
  out->relative_error = random_error;
  out->was_in_bounds = true;
  if (exact_counts.n_different != 0 || random_counts.n_different != 0)
    snprintf(out_note, FPL_SAMPLE_NOTE, "order-dependent: two runs differ in %llu elements",
             (unsigned long long)(exact_counts.n_different + random_counts.n_different));
  return true;
}
