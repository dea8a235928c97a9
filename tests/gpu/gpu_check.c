/* On a GPU: builds candidates of every problem of the paper's workload, of odd row counts and of odd
 * images, and has a real worker verify them; then plants kernels that hang, fault and compute
 * wrongly among good ones. Speaks TAP; without a GPU each test is skipped with the reason.
 *
 * Leaves the candidates' cubins in GPU_DIR/cubins. */
#include "tests/gpu/gpu_common.h"

#include "codegen/emit.h"
#include "costmodel/timemodel.h"
#include "tuner/base/sys.h"
#include "tuner/core/workload.h"
#include "tuner/measure/measure.h"
#include "tuner/search/rank.h"

#include <stdio.h>

#define CUBIN_DIR GPU_DIR "/cubins"

enum { N_RANKED = 96, CHECKS_MOST = 48 };

/* One problem with its candidates. */
struct check {
  const char *label;
  struct fpl_problem problem;
  int n_wanted;
  struct fpl_result results[GPU_PICKS_MOST];
  int n;
};

static struct {
  struct gpu_place place;
  struct check checks[CHECKS_MOST];
  int n_checks;
  int n_told, n_failed;
} run;

static void tell(bool is_ok, const char *label, const char *what, const char *detail) {
  run.n_told++;
  run.n_failed += !is_ok;
  printf("%sok %d - %s: %s%s%s%s\n", is_ok ? "" : "not ", run.n_told, label, what,
         *detail ? " (" : "", detail, *detail ? ")" : "");
  fflush(stdout);
}

static void tell_skipped(const char *label, const char *reason) {
  run.n_told++;
  printf("ok %d - %s # SKIP %s\n", run.n_told, label, reason);
}

static void add_check(const char *label, const struct fpl_problem *p, int n_wanted) {
  struct check *const check = &run.checks[run.n_checks++];
  check->label = label;
  check->problem = *p;
  check->n_wanted = n_wanted;
}

static enum fpl_status list_paper(struct fpl_err *err) {
  struct fpl_workload *all = NULL;
  size_t n = 0;
  double budget_us = 0;
  const enum fpl_status status = fpl_workloads_read(
      &run.place.arena, "profiles/workloads/paper.yaml", &all, &n, &budget_us, err);
  for (size_t i = 0; status == FPL_OK && i < n; i++)
    if (run.n_checks < CHECKS_MOST)
      add_check(all[i].id, &all[i].problem, 6);
  return status;
}

/* Rows that fill no tile, and other extents that fill none. The chain is narrow enough for kernels
 * that reduce nothing, and has candidates of all families. */
static void list_odd(void) {
  static const struct {
    const char *label;
    struct fpl_problem problem;
  } odd[] = {
#define CHAIN(rows) FPL_KIND_GEMM_CHAIN, FPL_DTYPE_F16, FPL_ACT_RELU, rows, 232, 264, 328, {0}
#define GATED(rows)                                                                                \
  FPL_KIND_GATED_FFN, FPL_DTYPE_BF16, FPL_ACT_SILU, rows, 520, 264, 136, {                         \
    0                                                                                              \
  }
      {"chain m=1", {CHAIN(1)}},   {"chain m=7", {CHAIN(7)}},     {"chain m=63", {CHAIN(63)}},
      {"chain m=65", {CHAIN(65)}}, {"chain m=129", {CHAIN(129)}}, {"chain m=200", {CHAIN(200)}},
      {"gated m=1", {GATED(1)}},   {"gated m=7", {GATED(7)}},     {"gated m=63", {GATED(63)}},
      {"gated m=65", {GATED(65)}}, {"gated m=129", {GATED(129)}}, {"gated m=200", {GATED(200)}},
#undef CHAIN
#undef GATED
  };
  for (size_t i = 0; i < sizeof odd / sizeof *odd && run.n_checks < CHECKS_MOST; i++)
    add_check(odd[i].label, &odd[i].problem,
              odd[i].problem.kind == FPL_KIND_GEMM_CHAIN ? GPU_PICKS_MOST : 6);
}

/* Tiles that reach over the ends of lines and images, last k tiles that reach over the last tap,
 * slabs of 16 to 64 channels, more taps than pixels. */
static void list_images(void) {
  static const struct {
    const char *label;
    enum fpl_dtype dtype;
    struct fpl_conv conv;
  } images[] = {
      {"2 images 7 x 13 x 264, 1 x 1", FPL_DTYPE_F16, {2, 264, 7, 13, 1}},
      {"2 images 7 x 13 x 64, 3 x 3", FPL_DTYPE_F16, {2, 64, 7, 13, 3}},
      {"3 images 9 x 5 x 96, 3 x 3", FPL_DTYPE_BF16, {3, 96, 9, 5, 3}},
      {"11 images 3 x 2 x 48, 5 x 5", FPL_DTYPE_F16, {11, 48, 3, 2, 5}},
  };
  for (size_t i = 0; i < sizeof images / sizeof *images && run.n_checks < CHECKS_MOST; i++) {
    struct fpl_problem p;
    if (fpl_problem_make(FPL_KIND_CONV_CHAIN, images[i].dtype, FPL_ACT_RELU, 0, 232, 0, 328,
                         &images[i].conv, &p, NULL) == FPL_OK)
      add_check(images[i].label, &p, 8);
  }
}

/* The model's best of several families, then the others, then any. */
static void choose(struct check *check) {
  static struct fpl_ranked ranked[N_RANKED];
  const struct fpl_rank_options options = {.stages_variants = 1,
                                           .diversity = FPL_RANK_DIVERSITY_MOST};
  const struct fpl_cost_port cost = fpl_cost_port();
  struct gpu_picks picks = {.n = 0};
  const int n =
      fpl_rank(&check->problem, &run.place.device, &cost, N_RANKED, &options, ranked, NULL);
  for (int i = 0; i < n; i++)
    gpu_pick(&picks, &ranked[i].schedule, true, check->n_wanted - 2);
  gpu_pick_drawn(&picks, &check->problem, &run.place.device, check->n_wanted, true);
  check->n = picks.n;
  for (int i = 0; i < picks.n; i++)
    check->results[i].schedule = picks.schedules[i];
}

/* Compiles all texts at once, into the cache: the port then builds problem by problem from there.
 */
static enum fpl_status warm_cache(struct fpl_err *err) {
  enum { ITEMS_MOST = CHECKS_MOST * GPU_PICKS_MOST };
  static struct fpl_build_item items[ITEMS_MOST];
  static struct fpl_text texts[ITEMS_MOST];
  int n = 0;
  enum fpl_status status = FPL_OK;
  for (int c = 0; c < run.n_checks; c++)
    for (int i = 0; i < run.checks[c].n && status == FPL_OK; i++) {
      struct fpl_kernel kernel;
      status = fpl_emit(&run.checks[c].problem, &run.checks[c].results[i].schedule,
                        &run.place.device, &texts[n], &kernel, err);
      items[n].source = texts[n].text;
      n++;
    }
  if (status == FPL_OK)
    status = fpl_builder_compile(run.place.builder, items, n, NULL, NULL, err);
  for (int i = 0; i < n; i++) {
    fpl_build_item_free(&items[i]);
    fpl_text_free(&texts[i]);
  }
  return status;
}

static enum fpl_status build(struct check *check, struct fpl_err *err) {
  const struct fpl_builder_port port = fpl_builder_port(run.place.builder);
  enum fpl_status status = port.build(port.self, &check->problem, &run.place.device, check->results,
                                      check->n, NULL, NULL, err);
  for (int i = 0; i < check->n && status == FPL_OK; i++) {
    const struct fpl_kernel *const k = &check->results[i].kernel;
    char path[256];
    snprintf(path, sizeof path, CUBIN_DIR "/%s.cubin", k->name);
    if (k->cubin)
      status = fpl_file_write(path, k->cubin, k->cubin_bytes, err);
  }
  return status;
}

/* Deadlines of one request; 0: the measurer's own. */
static enum fpl_status measure(const struct fpl_problem *p, struct fpl_result *results, int n,
                               double request_timeout_us, struct fpl_environment *environment,
                               struct fpl_err *err) {
  const struct fpl_measurer_options options = {.self_path = GPU_PROGRAM,
                                               .support_cubin_path = run.place.support,
                                               .work_dir = GPU_DIR "/work",
                                               .verify_timeout_us = request_timeout_us,
                                               .sample_timeout_us = request_timeout_us};
  const struct fpl_measure_options limits = {
      .budget_us = 120e6, .seed = 1, .least_samples = 1, .most_samples = 1};
  struct fpl_measurer *measurer = NULL;
  enum fpl_status status = fpl_measurer_open(&options, &measurer, err);
  if (status != FPL_OK)
    return status;
  const struct fpl_measurer_port port = fpl_measurer_port(measurer);
  status = port.measure(port.self, p, &limits, results, n, environment, NULL, NULL, err);
  fpl_measurer_close(measurer);
  return status;
}

/* A throttled candidate was verified before it was to be timed. */
static bool is_verified(const struct fpl_result *r) {
  return r->verification.was_in_bounds &&
         (r->outcome == FPL_OUTCOME_OK || r->outcome == FPL_OUTCOME_THROTTLED);
}

static void tell_candidate(const struct check *check, const struct fpl_result *r,
                           const char *failure) {
  char schedule[FPL_SCHEDULE_TEXT], detail[600];
  fpl_schedule_text(&r->schedule, schedule);
  if (failure)
    snprintf(detail, sizeof detail, "%s", failure);
  else if (is_verified(r))
    snprintf(detail, sizeof detail, "relative error %.2g", r->verification.relative_error);
  else
    snprintf(detail, sizeof detail, "%s: %s", fpl_outcome_names[r->outcome], r->reason);
  tell(!failure && is_verified(r), check->label, schedule, detail);
}

static void run_check(struct check *check) {
  struct fpl_err err = {0};
  struct fpl_environment environment = {0};
  enum fpl_status status = build(check, &err);
  if (status == FPL_OK)
    status = measure(&check->problem, check->results, check->n, 0, &environment, &err);
  for (int i = 0; i < check->n; i++) {
    tell_candidate(check, &check->results[i], status == FPL_OK ? NULL : err.text);
    fpl_result_free(&check->results[i]);
  }
  if (check->n == 0)
    tell(false, check->label, "no schedule was found", "");
}

/* A kernel under the launch descriptor of a good one. */
static enum fpl_status plant(const char *name, const struct fpl_problem *p, struct fpl_result *r,
                             struct fpl_err *err) {
  char path[128];
  char *source = NULL;
  size_t length = 0;
  struct fpl_text unused = {0};
  struct fpl_build_item item = {0};
  snprintf(path, sizeof path, "tests/gpu/planted/%s.cu", name);
  enum fpl_status status = fpl_emit(p, &r->schedule, &run.place.device, &unused, &r->kernel, err);
  fpl_text_free(&unused);
  if (status == FPL_OK)
    status = fpl_file_read(&run.place.arena, path, 1 << 20, &source, &length, err);
  if (status == FPL_OK) {
    item.source = source;
    status = fpl_builder_compile(run.place.builder, &item, 1, NULL, NULL, err);
  }
  if (status == FPL_OK && item.outcome != FPL_OUTCOME_BUILT)
    status = fpl_fail(err, FPL_TOOLCHAIN, "%s: %s", path, item.reason);
  snprintf(r->kernel.name, sizeof r->kernel.name, "planted_%s", name);
  r->kernel.cubin = item.cubin;
  r->kernel.cubin_bytes = item.cubin_bytes;
  return status;
}

static const struct fpl_problem fault_problem = {
    FPL_KIND_GEMM_CHAIN, FPL_DTYPE_F16, FPL_ACT_RELU, 100, 256, 128, 128, {0}};

/* In the order in which they are asked: each fault is followed by one that must not suffer. */
static const struct {
  const char *planted; /* NULL: good */
  const char *what;
  enum fpl_outcome outcome;
} faults[] = {
    {NULL, "the library's plan is measured", FPL_OUTCOME_OK},
    {NULL, "a good kernel before the faults is measured", FPL_OUTCOME_OK},
    {"hang", "a kernel that never ends runs into its deadline", FPL_OUTCOME_RUN_TIMEOUT},
    {"illegal", "a write to a wild address is a sticky error", FPL_OUTCOME_STICKY_ERROR},
    {"wrong", "a kernel that computes something else is wrong", FPL_OUTCOME_WRONG_RESULT},
    {NULL, "a good kernel after the faults is measured", FPL_OUTCOME_OK},
};
enum { N_FAULTS = sizeof faults / sizeof *faults };

static void run_faults(void) {
  static const char label[] = "planted faults";
  const double deadline_us = 5e6;
  struct fpl_result results[N_FAULTS] = {0};
  struct gpu_picks picks = {.n = 0};
  struct fpl_environment environment = {0};
  struct fpl_err err = {0};
  enum fpl_status status = FPL_OK;
  gpu_pick_drawn(&picks, &fault_problem, &run.place.device, GPU_PICKS_MOST, true);
  results[0].is_library = true;
  for (int i = 1; i < N_FAULTS && status == FPL_OK; i++) {
    const struct fpl_builder_port port = fpl_builder_port(run.place.builder);
    results[i].schedule = picks.schedules[faults[i].planted ? 0 : i];
    status = faults[i].planted ? plant(faults[i].planted, &fault_problem, &results[i], &err)
                               : port.build(port.self, &fault_problem, &run.place.device,
                                            &results[i], 1, NULL, NULL, &err);
  }
  if (status == FPL_OK)
    status = measure(&fault_problem, results, N_FAULTS, deadline_us, &environment, &err);
  for (int i = 0; i < N_FAULTS; i++) {
    char detail[600];
    snprintf(detail, sizeof detail, "%s: %s", fpl_outcome_names[results[i].outcome],
             results[i].reason);
    tell(status == FPL_OK && results[i].outcome == faults[i].outcome, label, faults[i].what,
         status == FPL_OK ? detail : err.text);
    fpl_result_free(&results[i]);
  }
}

static void skip_all(const char *reason) {
  for (int c = 0; c < run.n_checks; c++)
    tell_skipped(run.checks[c].label, reason);
  for (int i = 0; i < N_FAULTS; i++)
    tell_skipped(faults[i].what, reason);
}

static void run_all(void) {
  struct fpl_err err = {0};
  for (int c = 0; c < run.n_checks; c++)
    choose(&run.checks[c]);
  const double started_us = fpl_now_us();
  if (warm_cache(&err) != FPL_OK || fpl_dir_make(CUBIN_DIR, &err) != FPL_OK) {
    tell(false, "candidates", "are built", err.text);
    return;
  }
  printf("# built in %.1f s\n", (fpl_now_us() - started_us) * 1e-6);
  for (int c = 0; c < run.n_checks; c++)
    run_check(&run.checks[c]);
  printf("# verified after %.1f s\n", (fpl_now_us() - started_us) * 1e-6);
  run_faults();
  printf("# done after %.1f s\n", (fpl_now_us() - started_us) * 1e-6);
}

/* A session without a kernel: opens the device and nothing else. */
static enum fpl_status probe(struct fpl_err *err) {
  struct fpl_environment environment = {0};
  struct fpl_result none = {.outcome = FPL_OUTCOME_PENDING};
  const enum fpl_status status = measure(&fault_problem, &none, 1, 0, &environment, err);
  if (status == FPL_OK)
    printf("# %s, driver %s\n", fpl_environment_get(&environment, "device_name"),
           fpl_environment_get(&environment, "driver"));
  return status;
}

int main(void) {
  struct fpl_err err = {0};
  if (fpl_path_exists(CUBIN_DIR) && fpl_dir_remove(CUBIN_DIR, &err) != FPL_OK) {
    fprintf(stderr, "gpu_check: %s\n", err.text);
    return 1;
  }
  enum fpl_status status = list_paper(&err);
  list_odd();
  list_images();
  if (status == FPL_OK)
    status = gpu_place_open(&run.place, &err);
  if (status == FPL_OK)
    status = probe(&err);
  if (status == FPL_OK)
    run_all();
  else if (status == FPL_DEVICE || status == FPL_TOOLCHAIN)
    skip_all(err.text);
  else
    tell(false, "gpu_check", "starts", err.text);
  gpu_place_close(&run.place);
  printf("1..%d\n", run.n_told);
  return run.n_failed > 0;
}
