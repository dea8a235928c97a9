/* On a GPU: each instance is launched ten thousand times back to back, on inputs that change with
 * every launch, every result compared on the device: as it is, started early, and (unless it is the
 * device's fill) with fewer rows from launch to launch. Then two kernels at once on two streams, of
 * one family and of two, started early and with priority for one of them.
 *
 * Speaks TAP, a line after each run; a kernel that hangs is for the caller's deadline.
 *   gpu_launches [N]   launches a run, 10000 by default */
#include "tests/gpu/launch.h"

#include "tuner/launch/library.h"

#include "tests/gpu/gpu_tap.h"

enum { LAUNCHES = 10000, ROW_COUNTS = 4 };

static struct {
  struct gpu_place place;
  struct fpl_gpu gpus[2];
  struct fpl_result results[N_INSTANCES];
  int64_t n_launches;
} run;

/* An instance on a stage of its own. `kernels`: one for each number of rows, the most first; all use
 * the first one's workspace, as launches of one plan do. */
struct actor {
  struct launch_stage stage;
  struct fpl_cuda_kernel kernels[ROW_COUNTS];
  CUdeviceptr workspaces[ROW_COUNTS];
  int n_kernels;
};

static bool actor_open(const struct fpl_gpu *gpu, int instance, int n_kernels, bool is_early,
                       struct actor *out, struct fpl_failure *failure) {
  const struct fpl_kernel *const kernel = &run.results[instance].kernel;
  const struct fpl_problem *const p = &instance_problems[instances[instance].problem];
  const int64_t rows[ROW_COUNTS] = {p->m, 1, p->m / 2 + 1, 64};
  *out = (struct actor){.n_kernels = n_kernels};
  bool is_ok = launch_stage_open(gpu, p, &out->stage, failure);
  for (int i = 0; i < n_kernels && is_ok; i++) {
    struct fpl_inputs inputs = out->stage.inputs;
    inputs.problem.m = rows[i];
    is_ok = fpl_cuda_kernel_load(gpu, &inputs, kernel, kernel->cubin, is_early, &out->kernels[i],
                                 failure);
    out->workspaces[i] = out->kernels[i].workspace;
    out->kernels[i].workspace = out->workspaces[0];
  }
  return is_ok;
}

static void actor_close(struct actor *actor) {
  for (int i = 0; i < actor->n_kernels; i++) {
    actor->kernels[i].workspace = actor->workspaces[i];
    fpl_cuda_kernel_unload(&actor->kernels[i]);
  }
  launch_stage_close(&actor->stage);
}

static struct fpl_cuda_kernel *actor_kernel(struct actor *actor, int64_t launch) {
  return &actor->kernels[launch % actor->n_kernels];
}

/* BATCH launches, then as many comparisons. With several row counts outputs are first filled with
 * sentinels, and those behind the rows must remain. */
static bool actor_batch(struct actor *actor, int64_t first, struct fpl_failure *failure) {
  const struct launch_stage *const stage = &actor->stage;
  const struct fpl_problem *const p = &stage->inputs.problem;
  const uint64_t n_e = launch_e_elements(p);
  bool is_ok = actor->n_kernels == 1 ||
               fpl_inputs_fill_sentinel(stage->gpu, stage->outputs, BATCH * n_e, failure);
  for (int64_t i = first; i < first + BATCH && is_ok; i++)
    is_ok = launch_one(stage, actor_kernel(actor, i), i, failure);
  for (int64_t i = first; i < first + BATCH && is_ok; i++) {
    const int64_t rows = actor_kernel(actor, i)->m;
    CUdeviceptr behind = launch_output(stage, i) + (uint64_t)(rows * p->l) * FPL_ELEMENT_BYTES;
    CUdeviceptr counter = stage->inputs.counters + offsetof(struct launch_counts, n_unwritten);
    unsigned long long count = n_e - (unsigned long long)(rows * p->l);
    unsigned sentinel = FPL_SENTINEL;
    void *parameters[] = {&behind, &count, &sentinel, &counter};
    const struct fpl_support_grid grid = {COMPARE_BLOCKS, 1, LAUNCH_THREADS};
    is_ok = launch_compare(stage, i, rows, failure) &&
            (count == 0 ||
             fpl_gpu_support(stage->gpu, FPL_SUPPORT_COUNT_CHANGED, grid, parameters, failure));
  }
  return is_ok;
}

/* All actors in turn, batch by batch, and the elements that were wrong. */
static bool run_actors(struct actor *actors, int n, uint64_t *out_wrong,
                       struct fpl_failure *failure) {
  bool is_ok = true;
  *out_wrong = 0;
  for (int64_t first = 0; first < run.n_launches && is_ok; first += BATCH)
    for (int i = 0; i < n && is_ok; i++)
      is_ok = actor_batch(&actors[i], first, failure);
  for (int i = 0; i < n && is_ok; i++) {
    uint64_t n_wrong = 0;
    is_ok = launch_wrong(&actors[i].stage, &n_wrong, failure);
    *out_wrong += n_wrong;
  }
  return is_ok;
}

static void tell(bool is_ok, const char *what, uint64_t n_wrong, double start_us,
                 const struct fpl_failure *failure) {
  if (!is_ok)
    tap_tell(false, "%s: %s", what, failure->reason);
  else
    tap_tell(n_wrong == 0, "%s: %lld launches, %llu wrong elements (%.2f s)", what,
             (long long)run.n_launches, (unsigned long long)n_wrong,
             (fpl_now_us() - start_us) * 1e-6);
}

static void run_alone(int instance, bool is_early, bool has_row_counts) {
  struct actor actor;
  struct fpl_failure failure = {0};
  uint64_t n_wrong = 0;
  char what[96];
  const double start_us = fpl_now_us();
  snprintf(what, sizeof what, "%s%s%s", instances[instance].name, is_early ? ", started early" : "",
           has_row_counts ? ", rows change" : "");
  bool is_ok = actor_open(&run.gpus[0], instance, has_row_counts ? ROW_COUNTS : 1, is_early, &actor,
                          &failure) &&
               run_actors(&actor, 1, &n_wrong, &failure);
  tell(is_ok, what, n_wrong, start_us, &failure);
  actor_close(&actor);
}

static int instance_index(const char *name) {
  int i = 0;
  while (i < N_INSTANCES && strcmp(instances[i].name, name) != 0)
    i++;
  return i;
}

static void run_pair(const char *first, const char *second, bool is_early) {
  struct actor actors[2];
  struct fpl_failure failure = {0};
  uint64_t n_wrong = 0;
  char what[128];
  const double start_us = fpl_now_us();
  const int pair[2] = {instance_index(first), instance_index(second)};
  snprintf(what, sizeof what, "%s and %s on two streams%s", first, second,
           is_early ? ", started early" : "");
  bool is_ok = true;
  for (int i = 0; i < 2; i++)
    is_ok = actor_open(&run.gpus[i], pair[i], 1, is_early, &actors[i], &failure) && is_ok;
  is_ok = is_ok && run_actors(actors, 2, &n_wrong, &failure);
  tell(is_ok, what, n_wrong, start_us, &failure);
  for (int i = 0; i < 2; i++)
    actor_close(&actors[i]);
}

static void run_all(void) {
  static const char *const pairs[][2] = {
      {"wide dsm dsm_l2", "wide smem l2"}, {"wide dsm dsm_l2", "wide l2 1"},
      {"wide smem l2", "wide l2 4"},       {"wide l2 1", "wide l2 1"},
      {"wide l2 1", "wide l2 4"},          {"wide l2 2", "wide l2 4"},
      {"l2 128 none", "wide l2 2"},        {"l2 16 dsm", "gated l2 64"},
  };
  for (int i = 0; i < N_INSTANCES; i++) {
    run_alone(i, false, false);
    run_alone(i, true, false);
    run_alone(i, true, true);
  }
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    for (int is_early = 0; is_early <= 1; is_early++)
      run_pair(pairs[i][0], pairs[i][1], is_early != 0);
}

/* The second device's stream goes first where both wait. */
static enum fpl_status open_gpus(struct fpl_err *err) {
  enum { PRIORITY = -3 };
  enum fpl_status status = FPL_OK;
  for (int i = 0; i < 2 && status == FPL_OK; i++)
    status = launch_gpu_open(&run.place, &run.gpus[i], err);
  if (status != FPL_OK)
    return status;
  struct fpl_gpu *const second = &run.gpus[1];
  second->call.stream_destroy(second->stream);
  second->stream = NULL;
  __typeof__(cuStreamCreateWithPriority) *create = NULL;
  if (!fpl_library_symbol(second->call.library, "cuStreamCreateWithPriority", &create) ||
      create(&second->stream, CU_STREAM_NON_BLOCKING, PRIORITY) != CUDA_SUCCESS)
    return fpl_fail(err, FPL_DEVICE, "no stream of a higher priority");
  return FPL_OK;
}

int main(int argc, char **argv) {
  struct fpl_err err = {0};
  run.n_launches = LAUNCHES;
  if (argc > 2 || (argc == 2 && !fpl_parse_i64(argv[1], BATCH, 1 << 24, &run.n_launches))) {
    fprintf(stderr, "usage: gpu_launches [N]\n");
    return 2;
  }
  enum fpl_status status = gpu_place_open(&run.place, &err);
  if (status == FPL_OK)
    status = open_gpus(&err);
  if (status == FPL_OK)
    status = instances_build(&run.place, run.results, &err);
  if (status == FPL_OK)
    run_all();
  else if (status == FPL_DEVICE || status == FPL_TOOLCHAIN)
    tap_skip("long runs of launches, on one stream and on two", err.text);
  else
    tap_tell(false, "gpu_launches starts: %s", err.text);
  for (int i = 0; i < N_INSTANCES; i++)
    fpl_result_free(&run.results[i]);
  for (int i = 0; i < 2; i++)
    if (run.gpus[i].call.library)
      fpl_gpu_close(&run.gpus[i]);
  gpu_place_close(&run.place);
  return tap_end();
}
