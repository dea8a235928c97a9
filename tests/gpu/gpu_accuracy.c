/* On a GPU: one candidate of every family on three problems. Integer inputs give the reference's
 * bits where the activation keeps integers; on random inputs the error against the f64 reference is
 * at most 1.5 times the library pair's; and a schedule that is called deterministic gives the same
 * bits a hundred times. Speaks TAP. */
#include "tests/gpu/launch.h"

#include "tests/gpu/gpu_tap.h"
#include "tuner/measure/baseline_pair.h"
#include "tuner/measure/sample_verify.h"

enum { RUNS = 100 };
static const double WORST_RATIO = 1.5;

static const struct {
  const char *name;
  struct fpl_problem problem;
} problems[] = {
    {"chain", {FPL_KIND_GEMM_CHAIN, FPL_DTYPE_F16, FPL_ACT_RELU, 200, 512, 264, 328, {0}}},
    {"gelu chain", {FPL_KIND_GEMM_CHAIN, FPL_DTYPE_BF16, FPL_ACT_GELU, 128, 1024, 512, 512, {0}}},
    {"gated", {FPL_KIND_GATED_FFN, FPL_DTYPE_BF16, FPL_ACT_SILU, 128, 1024, 512, 512, {0}}},
};
enum { N_PROBLEMS = sizeof problems / sizeof *problems };

static struct {
  struct gpu_place place;
  struct fpl_gpu gpu;
} run;

/* Elements that differ from the first of RUNS runs on random inputs, over all of them. */
static bool count_changes(const struct fpl_inputs *inputs, struct fpl_cuda_kernel *kernel,
                          uint64_t *out, struct fpl_failure *failure) {
  const struct fpl_gpu *const gpu = &run.gpu;
  const struct fpl_runner runner = fpl_cuda_kernel_runner(kernel);
  unsigned long long count = launch_e_elements(&inputs->problem);
  CUdeviceptr e = inputs->e, copy = inputs->e_copy, counter = inputs->counters;
  void *parameters[] = {&e, &copy, &count, &counter};
  const struct fpl_support_grid grid = {COMPARE_BLOCKS, 1, LAUNCH_THREADS};
  bool is_ok = gpu->call.mem_set(counter, 0, sizeof *out, gpu->stream) == CUDA_SUCCESS;
  for (int i = 0; i < RUNS && is_ok; i++)
    is_ok = runner.enqueue(runner.self, 0, failure) &&
            (i > 0 ? fpl_gpu_support(gpu, FPL_SUPPORT_COUNT_DIFFERENT, grid, parameters, failure)
                   : gpu->call.mem_copy(copy, e, count * FPL_ELEMENT_BYTES, gpu->stream) ==
                         CUDA_SUCCESS);
  return is_ok && fpl_gpu_read(gpu, counter, sizeof *out, out, failure);
}

static void check_candidate(const char *name, const struct fpl_inputs *inputs,
                            const struct fpl_result *r, double library_error) {
  struct fpl_failure failure = {0};
  struct fpl_verification verification;
  struct fpl_cuda_kernel kernel;
  char note[FPL_SAMPLE_NOTE], what[128];
  uint64_t n_changes = 0;
  snprintf(what, sizeof what, "%s %s %s%s", name, fpl_exchange_names[r->schedule.exchange],
           fpl_reduce_names[r->schedule.reduce],
           r->schedule.gate == FPL_GATE_SPATIAL ? " split gate" : "");
  bool is_ok =
      fpl_cuda_kernel_load(&run.gpu, inputs, &r->kernel, r->kernel.cubin, false, &kernel, &failure);
  const struct fpl_runner runner = fpl_cuda_kernel_runner(&kernel);
  is_ok = is_ok && fpl_sample_verify(&run.gpu, inputs, &runner, &verification, note, &failure) &&
          count_changes(inputs, &kernel, &n_changes, &failure);
  if (!is_ok) {
    tap_tell(false, "%s: %s", what, failure.reason);
    fpl_cuda_kernel_unload(&kernel);
    return;
  }
  const bool is_integral = inputs->problem.act == FPL_ACT_RELU;
  if (is_integral)
    tap_tell(verification.was_exact_ok, "%s: integer inputs give the reference's bits", what);
  tap_tell(verification.relative_error <= WORST_RATIO * library_error,
           "%s: error %.3g, the library's %.3g", what, verification.relative_error, library_error);
  if (fpl_schedule_is_deterministic(&r->schedule))
    tap_tell(n_changes == 0, "%s: the same bits in %d runs (%llu elements differ)", what, RUNS,
             (unsigned long long)n_changes);
  else
    printf("# %s: not deterministic, %llu elements differ in %d runs\n", what,
           (unsigned long long)n_changes, RUNS);
  fpl_cuda_kernel_unload(&kernel);
}

static bool check_library(const char *name, const struct fpl_inputs *inputs, double *out_error,
                          struct fpl_failure *failure) {
  struct fpl_baseline *library = NULL;
  struct fpl_verification verification = {0};
  char text[FPL_BASELINE_TEXT], note[FPL_SAMPLE_NOTE];
  bool is_ok = fpl_baseline_open(&run.gpu, inputs, &library, text, failure);
  if (is_ok) {
    const struct fpl_runner runner = fpl_baseline_runner(library);
    is_ok = fpl_sample_verify(&run.gpu, inputs, &runner, &verification, note, failure);
  }
  fpl_baseline_close(library);
  *out_error = verification.relative_error;
  tap_tell(is_ok && *out_error > 0, "%s: the library pair has an error to compare with: %s", name,
           is_ok ? text : failure->reason);
  return is_ok;
}

static enum fpl_status check_problem(int index, struct fpl_err *err) {
  const struct fpl_problem *const p = &problems[index].problem;
  const struct fpl_builder_port port = fpl_builder_port(run.place.builder);
  struct fpl_result results[GPU_FAMILIES_MOST] = {0};
  struct gpu_picks picks = {.n = 0};
  struct fpl_inputs inputs = {0};
  struct fpl_failure failure = {0};
  double library_error = 0;
  gpu_pick_drawn(&picks, p, &run.place.device, GPU_FAMILIES_MOST, false);
  for (int i = 0; i < picks.n; i++)
    results[i].schedule = picks.schedules[i];
  enum fpl_status status =
      port.build(port.self, p, &run.place.device, results, picks.n, NULL, NULL, err);
  if (status == FPL_OK && !fpl_inputs_open(&run.gpu, p, 1, &inputs, &failure))
    status = fpl_fail(err, FPL_DEVICE, "%s", failure.reason);
  if (status == FPL_OK && check_library(problems[index].name, &inputs, &library_error, &failure))
    for (int i = 0; i < picks.n; i++)
      check_candidate(problems[index].name, &inputs, &results[i], library_error);
  fpl_inputs_close(&run.gpu, &inputs);
  for (int i = 0; i < picks.n; i++)
    fpl_result_free(&results[i]);
  return status;
}

int main(void) {
  struct fpl_err err = {0};
  enum fpl_status status = gpu_place_open(&run.place, &err);
  if (status == FPL_OK)
    status = launch_gpu_open(&run.place, &run.gpu, &err);
  if (status == FPL_DEVICE || status == FPL_TOOLCHAIN) {
    tap_skip("accuracy and determinism", err.text);
    gpu_place_close(&run.place);
    return tap_end();
  }
  for (int i = 0; i < N_PROBLEMS && status == FPL_OK; i++)
    status = check_problem(i, &err);
  if (status != FPL_OK)
    tap_tell(false, "gpu_accuracy: %s", err.text);
  if (run.gpu.call.library)
    fpl_gpu_close(&run.gpu);
  gpu_place_close(&run.place);
  return tap_end();
}
