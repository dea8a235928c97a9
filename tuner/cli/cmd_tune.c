/* fuseplan tune: the problems of a workload, one after the other, into a database. */
#define _POSIX_C_SOURCE 200809L
#include "codegen/build.h"
#include "costmodel/analyzer.h"
#include "db/db.h"
#include "tuner/base/str.h"
#include "tuner/base/sys.h"
#include "tuner/cli/autodevice.h"
#include "tuner/cli/cli.h"
#include "tuner/cli/known.h"
#include "tuner/cli/tune.h"
#include "tuner/core/legal.h"
#include "tuner/core/workload.h"
#include "tuner/measure/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct fpl_command command = {
    .verb = "tune",
    .arguments = "[FILE.yaml]",
    .summary =
        "Tunes the problems of a workload: ranks by the cost model, compiles the top K, verifies "
        "every one,\nmeasures them against one another and the library, stores plans and "
        "evidence.",
    .example =
        "fuseplan tune profiles/workloads/paper.yaml --only G4 --device h200 --measure model "
        "--db /tmp/plans.db",
    .most_arguments = 1};

enum { MEASURE_AUTO, MEASURE_CUPTI, MEASURE_GRAPH, MEASURE_MODEL };
static const char *const measure_names[] = {"auto", "cupti", "graph", "model", NULL};
enum { AGAIN_MOST = 16 };

struct session {
  struct fpl_problem_opts problem_opts; /* in place of a file */
  const char *file, *db_path, *only, *device_name, *budget_text;
  int measure;
  int64_t top_k, seed, jobs, samples, again;
  bool is_resume, is_json, is_quiet, is_kernels_only, is_deterministic;

  struct fpl_arena arena;
  struct fpl_paths paths;
  struct fpl_device device;
  struct fpl_workload *workloads;
  size_t n_workloads;
  double budget_us; /* 0: none */
  struct fpl_db *db;
  int64_t run_id;
  struct fpl_builder *builder;
  struct fpl_measurer *measurer;
  char *work_dir;
  struct fpl_progress progress;
  struct fpl_tuner tuner;
  json_t *answers;
  int n_planned, n_without, n_skipped;
  bool is_budget_spent;
};

/* Is the id in the comma list --only? */
static bool is_wanted(const struct session *s, const char *id) {
  if (!s->only)
    return true;
  const size_t length = strlen(id);
  for (const char *at = s->only; *at;) {
    const size_t part = strcspn(at, ",");
    if (part == length && strncmp(at, id, length) == 0)
      return true;
    at += part + (at[part] == ',');
  }
  return false;
}

/* Every id of --only must be in the workload. */
static enum fpl_status check_only(const struct session *s, struct fpl_err *err) {
  if (!s->only)
    return FPL_OK;
  for (const char *at = s->only; *at;) {
    const size_t part = strcspn(at, ",");
    bool is_found = false;
    for (size_t i = 0; i < s->n_workloads && !is_found; i++)
      is_found = strlen(s->workloads[i].id) == part && strncmp(s->workloads[i].id, at, part) == 0;
    if (!is_found)
      return fpl_fail(err, FPL_USAGE, "--only: %s has no problem '%.*s'", s->file, (int)part, at);
    at += part + (at[part] == ',');
  }
  return FPL_OK;
}

/* A workload, or the one problem that the options name. */
static enum fpl_status read_problems(struct session *s, struct fpl_err *err) {
  if (s->file && s->problem_opts.kind >= 0)
    return fpl_fail(err, FPL_USAGE, "%s and --kind: give a workload or one shape", s->file);
  if (s->file)
    return fpl_workloads_read(&s->arena, s->file, &s->workloads, &s->n_workloads, &s->budget_us,
                              err);
  if (s->problem_opts.kind < 0)
    return fpl_fail(err, FPL_USAGE, "name a workload FILE.yaml, or a shape with --kind, --m, ...");
  s->file = "shape";
  s->n_workloads = 1;
  s->workloads = fpl_arena_alloc(&s->arena, sizeof *s->workloads);
  if (!s->workloads)
    return fpl_fail(err, FPL_NO_MEMORY, "out of memory");
  *s->workloads = (struct fpl_workload){.id = "shape", .model = "", .calls = 1};
  return fpl_problem_opts_make(&s->problem_opts, &s->workloads->problem, err);
}

static enum fpl_status read_inputs(struct session *s, struct fpl_err *err) {
  if (s->again > 0 && s->is_resume)
    return fpl_fail(err, FPL_USAGE, "--again measures what is stored, --resume what is not");
  enum fpl_status status = fpl_paths_find(&s->arena, &s->paths, err);
  if (status != FPL_OK)
    return status;
  status = read_problems(s, err);
  if (status == FPL_IO)
    err->code = status = FPL_USAGE;
  if (status == FPL_OK && s->budget_text && !fpl_budget_parse(s->budget_text, &s->budget_us))
    status = fpl_fail(err, FPL_USAGE, "--budget is '%s': a number above 0 and s, m or h",
                      s->budget_text);
  if (status == FPL_OK)
    status = check_only(s, err);
  if (status == FPL_OK)
    status = fpl_cli_database(&s->paths, s->db_path, &s->db_path, err);
  if (status != FPL_OK)
    return status;
  if (strcmp(s->device_name, "auto") == 0)
    return fpl_auto_device(&s->arena, &s->paths, &s->device, NULL, err);
  return fpl_paths_device(&s->arena, &s->paths, s->device_name, &s->device, err);
}

/* --measure auto: cupti on a GPU that answers and fits the profile, else by model. */
static enum fpl_status choose_measure(struct session *s, struct fpl_err *err) {
  if (s->measure == MEASURE_MODEL)
    return FPL_OK;
  struct fpl_device here;
  struct fpl_err why = {0};
  const enum fpl_status status = fpl_auto_device(&s->arena, &s->paths, &here, NULL, &why);
  char wanted[FPL_KEY_HEX], found[FPL_KEY_HEX] = "";
  fpl_device_class_key(&s->device, wanted);
  if (status == FPL_OK)
    fpl_device_class_key(&here, found);
  const bool fits = status == FPL_OK && strcmp(wanted, found) == 0;
  if (s->measure == MEASURE_AUTO)
    s->measure = fits ? MEASURE_CUPTI : MEASURE_MODEL;
  else if (status != FPL_OK)
    return fpl_fail(err, FPL_DEVICE, "--measure %s: %.400s", measure_names[s->measure], why.text);
  else if (!fits)
    return fpl_fail(err, FPL_DEVICE, "--measure %s: this GPU is '%s', not '%s'",
                    measure_names[s->measure], here.name, s->device.name);
  return FPL_OK;
}

/* Without NVRTC a plan can still be predicted; measuring needs it. */
static enum fpl_status open_builder(struct session *s, struct fpl_err *err) {
  const struct fpl_builder_options options = {.cache_dir = s->paths.cache,
                                              .self_path = s->paths.self,
                                              .jobs = (int)s->jobs,
                                              .compile_timeout_us = 120e6};
  struct fpl_err why = {0};
  enum fpl_status status = fpl_dir_make(s->paths.cache, err);
  if (status == FPL_OK)
    status = fpl_builder_open(&options, &s->builder, &why);
  if (status == FPL_TOOLCHAIN && s->measure == MEASURE_MODEL) {
    if (!s->is_quiet)
      fprintf(stderr, "fuseplan: kernels are not compiled: %s\n", why.text);
    return FPL_OK;
  }
  if (status != FPL_OK)
    return why.text[0] ? fpl_fail(err, status, "%s", why.text) : status;
  s->tuner.has_builder = true;
  s->tuner.builder = fpl_builder_port(s->builder);
  fpl_environment_set(&s->tuner.base_environment, "nvrtc", fpl_builder_nvrtc_version(s->builder));
  fpl_environment_set(&s->tuner.base_environment, "toolkit_headers",
                      fpl_builder_headers_version(s->builder));
  return FPL_OK;
}

static enum fpl_status open_measurer(struct session *s, struct fpl_err *err) {
  if (s->measure == MEASURE_MODEL)
    return FPL_OK;
  const char *support = NULL;
  enum fpl_status status = fpl_builder_support(s->builder, &support, err);
  if (status == FPL_OK)
    status = fpl_dir_temporary(&s->arena, s->paths.cache, "work", &s->work_dir, err);
  if (status != FPL_OK)
    return status;
  const struct fpl_measurer_options options = {.self_path = s->paths.self,
                                               .support_cubin_path = support,
                                               .work_dir = s->work_dir,
                                               .is_untraced = s->measure == MEASURE_GRAPH,
                                               .verify_timeout_us = 10e6,
                                               .sample_timeout_us = 10e6};
  status = fpl_measurer_open(&options, &s->measurer, err);
  if (status == FPL_OK) {
    s->tuner.has_measurer = true;
    s->tuner.measurer = fpl_measurer_port(s->measurer);
  }
  return status;
}

static enum fpl_status open_database(struct session *s, struct fpl_err *err) {
  char arguments[512];
  if (s->again > 0)
    return fpl_cli_open_existing(s->db_path, &s->db, err);
  snprintf(arguments, sizeof arguments, "tune %s --device %s --measure %s --top-k %lld%s", s->file,
           s->device.name, measure_names[s->measure], (long long)s->top_k,
           s->is_deterministic ? " --deterministic" : "");
  enum fpl_status status = fpl_paths_make_parent(&s->arena, s->db_path, err);
  if (status == FPL_OK)
    status = fpl_db_open(s->db_path, FPL_DB_CREATE, &s->db, err);
  if (status == FPL_OK)
    status = fpl_db_begin_run(s->db, (uint64_t)s->seed, FPL_VERSION, arguments, &s->run_id, err);
  return status;
}

static void close_session(struct session *s, enum fpl_run_state state) {
  struct fpl_err ignored = {0};
  fpl_measurer_close(s->measurer);
  fpl_builder_close(s->builder);
  if (s->work_dir)
    fpl_dir_remove(s->work_dir, &ignored);
  if (s->db && s->run_id)
    fpl_db_end_run(s->db, s->run_id, state, &ignored);
  fpl_db_close(s->db);
  json_decref(s->answers);
  fpl_arena_free(&s->arena);
}

/* Called between two requests: nothing of the problem in flight is stored, all before it is. */
static void leave_on_signal(void *context, int number) {
  struct session *const s = context;
  fpl_progress_clear(&s->progress);
  fprintf(stderr, "fuseplan: interrupted: %d plans are stored; --resume goes on\n", s->n_planned);
  close_session(s, FPL_RUN_INTERRUPTED);
  exit(FPL_EXIT_SIGNAL + number);
}

static void count_outcomes(struct session *s, const struct fpl_tuned *tuned) {
  for (int i = 0; i < tuned->n_results; i++) {
    const enum fpl_outcome outcome = tuned->results[i].outcome;
    if (outcome == FPL_OUTCOME_OK || outcome == FPL_OUTCOME_BUILT)
      s->progress.n_ok++;
    else if (outcome == FPL_OUTCOME_RUN_TIMEOUT || outcome == FPL_OUTCOME_COMPILE_TIMEOUT)
      s->progress.n_timed_out++;
    else if (outcome == FPL_OUTCOME_CONSTRAINT || outcome == FPL_OUTCOME_RESOURCE_LIMIT)
      s->progress.n_refused++;
    else if (outcome != FPL_OUTCOME_PENDING && outcome != FPL_OUTCOME_SKIPPED)
      s->progress.n_failed++;
  }
}

/* The kernel of the plan; where the library won, the fastest kernel. NULL: none was measured. */
static const struct fpl_result *best_kernel(const struct fpl_tuned *tuned) {
  const struct fpl_result *best = NULL;
  const bool is_kernel_plan = tuned->has_plan && !tuned->plan.is_library;
  for (int i = 0; i < tuned->n_results; i++) {
    const struct fpl_result *const r = &tuned->results[i];
    if (r->is_library || r->outcome != FPL_OUTCOME_OK)
      continue;
    if (is_kernel_plan && memcmp(&r->schedule, &tuned->plan.schedule, sizeof r->schedule) == 0)
      return r;
    if (!best || r->stats[FPL_COLD].median_us < best->stats[FPL_COLD].median_us)
      best = r;
  }
  return best;
}

/* A result with what the analyzer says of its bytes. */
static json_t *result_answer(const struct session *s, const struct fpl_problem *p,
                             const struct fpl_result *r) {
  json_t *const out = fpl_json_result(r);
  struct fpl_tiling t;
  struct fpl_footprint f;
  struct fpl_traffic traffic;
  char text[FPL_SCHEDULE_TEXT];
  if (r->is_library || !fpl_legal(p, &r->schedule, &s->device, &t, &f, NULL))
    return out;
  fpl_analyze(p, &r->schedule, &t, &f, &traffic);
  fpl_schedule_text(&r->schedule, text);
  json_object_set_new(out, "kernel", fpl_json_kernel(&r->kernel, p->m));
  json_object_set_new(out, "schedule_text", json_string(text));
  json_object_set_new(out, "hbm_bytes", json_real(traffic.bytes[FPL_LEVEL_HBM]));
  json_object_set_new(out, "l2_bytes", json_real(traffic.bytes[FPL_LEVEL_L2]));
  return out;
}

static void report(struct session *s, const struct fpl_workload *w, const struct fpl_tuned *tuned,
                   double seconds) {
  const struct fpl_plan *const plan = &tuned->plan;
  const struct fpl_result *const kernel = best_kernel(tuned);
  const double ratio = tuned->has_plan && plan->measured_us > 0 && plan->library_us > 0
                           ? plan->library_us / plan->measured_us
                           : 0;
  if (ratio > s->progress.best_ratio)
    s->progress.best_ratio = ratio;
  if (s->is_json) {
    json_t *const answer = tuned->has_plan ? fpl_json_plan(plan) : json_object();
    json_object_set_new(answer, "id", json_string(w->id));
    json_object_set_new(answer, "has_plan", json_boolean(tuned->has_plan));
    json_object_set_new(answer, "seconds", json_real(seconds));
    if (!tuned->has_plan)
      json_object_set_new(answer, "reason", json_string(tuned->reason));
    json_object_set_new(answer, "best_kernel",
                        kernel ? result_answer(s, &w->problem, kernel) : json_null());
    const bool has_library = tuned->n_results > 0 && tuned->results[0].is_library;
    json_object_set_new(answer, "library",
                        has_library ? result_answer(s, &w->problem, tuned->results) : json_null());
    json_array_append_new(s->answers, answer);
    return;
  }
  if (s->is_quiet)
    return;
  if (!tuned->has_plan)
    printf("%-24s no plan: %s\n", w->id, tuned->reason);
  else if (plan->provenance == FPL_PROVENANCE_MEASURED)
    printf("%-24s %8.2f us  library %8.2f us  %5.2fx  %s  %lld of %lld ok  %.1f s\n", w->id,
           plan->measured_us, plan->library_us, ratio,
           plan->is_library ? "library" : plan->kernel.name, (long long)plan->n_ok,
           (long long)plan->n_candidates, seconds);
  else
    printf("%-24s %8.2f us predicted  %s  %.1f s\n", w->id, plan->est_us, plan->kernel.name,
           seconds);
  fflush(stdout);
}

struct again {
  const char *device_name;
  int64_t run_id; /* of the first that was taken */
  int n, n_most;
  struct fpl_schedule schedules[AGAIN_MOST];
};

/* Candidates come newest run first, measured ones by time: the first n of one run, its plan in
 * front. */
static enum fpl_status take_again(void *context, const struct fpl_db_candidate *c,
                                  struct fpl_err *err) {
  (void)err;
  struct again *const a = context;
  if (c->result.is_library || c->result.outcome != FPL_OUTCOME_OK ||
      strcmp(c->device_name, a->device_name) != 0 || (a->n > 0 && c->run_id != a->run_id))
    return FPL_OK;
  if (a->n == a->n_most && !c->is_plan)
    return FPL_OK;
  const int at = a->n < a->n_most ? a->n++ : a->n - 1;
  a->run_id = c->run_id;
  a->schedules[at] = c->result.schedule;
  if (c->is_plan) {
    memmove(&a->schedules[1], &a->schedules[0], (size_t)at * sizeof a->schedules[0]);
    a->schedules[0] = c->result.schedule;
  }
  return FPL_OK;
}

static enum fpl_status find_again(struct session *s, const struct fpl_problem *p, struct again *out,
                                  struct fpl_err *err) {
  int64_t problem_id = 0;
  *out = (struct again){.device_name = s->device.name, .n_most = (int)s->again};
  if (s->again == 0)
    return FPL_OK;
  enum fpl_status status = fpl_db_problem_id(s->db, p, &problem_id, err);
  if (status == FPL_OK && problem_id != 0)
    status = fpl_db_each_candidate(s->db, problem_id, take_again, out, err);
  s->tuner.is_again = true;
  s->tuner.again = out->schedules;
  s->tuner.n_again = out->n;
  return status;
}

/* For --resume: is there a plan of this provenance or a better one, deterministic where wanted? */
static enum fpl_status find_known(struct session *s, const struct fpl_problem *p,
                                  enum fpl_provenance provenance, bool *out, struct fpl_err *err) {
  if (!s->is_deterministic)
    return fpl_db_has_plan(s->db, p, &s->device, provenance, out, err);
  const struct fpl_wanted wanted = {.problem = p, .device = &s->device, .is_deterministic = true};
  struct fpl_plan plan;
  const enum fpl_status status = fpl_db_find(s->db, &wanted, false, &plan, out, err);
  *out = *out && plan.provenance <= provenance;
  fpl_plan_free(&plan);
  return status;
}

static enum fpl_status tune_one(struct session *s, const struct fpl_workload *w,
                                struct fpl_err *err) {
  bool is_known = false;
  const enum fpl_provenance provenance =
      s->measure != MEASURE_MODEL ? FPL_PROVENANCE_MEASURED : FPL_PROVENANCE_PREDICTED;
  enum fpl_status status = FPL_OK;
  if (s->is_resume)
    status = find_known(s, &w->problem, provenance, &is_known, err);
  if (status != FPL_OK || is_known) {
    s->n_skipped += is_known;
    return status;
  }
  struct fpl_tuned tuned;
  struct again again;
  struct fpl_known known = {.n = 0};
  const double start_us = fpl_now_us();
  status = find_again(s, &w->problem, &again, err);
  if (status == FPL_OK && s->again == 0 && s->measure != MEASURE_MODEL)
    status = fpl_known_find(s->db, &w->problem, &s->device, &known, err);
  s->tuner.known = known.schedules;
  s->tuner.n_known = known.n;
  if (status != FPL_OK)
    return status;
  s->tuner.measure.seed = (uint64_t)s->seed;
  status = fpl_tune_problem(&s->tuner, &w->problem, &tuned, err);
  if (status == FPL_OK && tuned.n_results > 0 && s->again == 0)
    status = fpl_db_store_problem(s->db, s->run_id, &w->problem, &s->device, tuned.results,
                                  tuned.n_results, &tuned.environment,
                                  tuned.has_plan ? &tuned.plan : NULL, err);
  if (status == FPL_OK) {
    s->n_planned += tuned.has_plan;
    s->n_without += !tuned.has_plan;
    count_outcomes(s, &tuned);
    report(s, w, &tuned, (fpl_now_us() - start_us) / 1e6);
  } else {
    fpl_err_prefix(err, "%s", w->id);
  }
  fpl_tuned_free(&tuned);
  return status;
}

static enum fpl_status tune_all(struct session *s, struct fpl_err *err) {
  int n_wanted = 0;
  for (size_t i = 0; i < s->n_workloads; i++)
    n_wanted += is_wanted(s, s->workloads[i].id);
  fpl_progress_init(&s->progress, !s->is_json && !s->is_quiet, n_wanted);
  s->progress.on_signal = leave_on_signal;
  s->progress.context = s;
  s->tuner.progress = &s->progress;
  for (size_t i = 0; i < s->n_workloads; i++) {
    const struct fpl_workload *const w = &s->workloads[i];
    if (!is_wanted(s, w->id))
      continue;
    if (s->budget_us > 0 && fpl_now_us() - s->progress.start_us > s->budget_us) {
      s->is_budget_spent = true;
      break;
    }
    s->progress.problem++;
    snprintf(s->progress.id, sizeof s->progress.id, "%s", w->id);
    const enum fpl_status status = tune_one(s, w, err);
    if (fpl_progress_signal() != 0)
      leave_on_signal(s, fpl_progress_signal());
    if (status != FPL_OK)
      return status;
  }
  return FPL_OK;
}

static int finish(struct session *s) {
  int exit_code = s->n_without > 0 ? FPL_EXIT_NEGATIVE : FPL_EXIT_OK;
  if (s->is_budget_spent)
    exit_code = FPL_EXIT_BUDGET;
  if (s->is_json) {
    json_t *const out = json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:b}", "db", s->db_path, "device",
                                  s->device.name, "measure", measure_names[s->measure], "planned",
                                  s->n_planned, "without_plan", s->n_without, "already_planned",
                                  s->n_skipped, "budget_spent", s->is_budget_spent);
    json_object_set(out, "problems", s->answers);
    fpl_cli_print_json(out);
  } else if (!s->is_quiet) {
    fprintf(stderr, "%d planned, %d without a plan, %d already there; %s\n", s->n_planned,
            s->n_without, s->n_skipped,
            s->is_budget_spent ? "budget spent: --resume goes on" : s->db_path);
  }
  return exit_code;
}

static enum fpl_status open_session(struct session *s, struct fpl_err *err) {
  enum fpl_status status = read_inputs(s, err);
  if (status == FPL_OK)
    status = choose_measure(s, err);
  s->tuner.device = &s->device;
  s->tuner.top_k = (int)s->top_k;
  s->tuner.is_kernels_only = s->is_kernels_only;
  s->tuner.is_deterministic = s->is_deterministic;
  s->tuner.least_gain = 0.02;
  s->tuner.measure = (struct fpl_measure_options){
      .budget_us = 45e6, .least_samples = 20, .most_samples = s->samples};
  if (status == FPL_OK)
    status = open_builder(s, err);
  if (status == FPL_OK)
    status = open_measurer(s, err);
  if (status == FPL_OK)
    status = open_database(s, err);
  return status;
}

int fpl_cmd_tune(int argc, char **argv) {
  struct session s = {.device_name = "auto", .top_k = 24, .seed = 1, .samples = 200};
  const struct fpl_option own[] = {
      {"--db", FPL_OPTION_TEXT, &s.db_path, "FILE", "database (default: $FUSEPLAN_DB)", 0, 0, NULL},
      {"--only", FPL_OPTION_TEXT, &s.only, "ID,...", "these problems alone", 0, 0, NULL},
      {"--device", FPL_OPTION_TEXT, &s.device_name, "NAME", "profile, or auto: this machine's GPU",
       0, 0, NULL},
      {"--measure", FPL_OPTION_NAME, &s.measure, "HOW",
       "auto: cupti where the GPU is the device, else model; graph: replays, without CUPTI", 0, 0,
       measure_names},
      {"--top-k", FPL_OPTION_I64, &s.top_k, "N", "candidates to compile (default 24)", 1, 256,
       NULL},
      {"--samples", FPL_OPTION_I64, &s.samples, "N", "most samples a candidate (default 200)", 8,
       100000, NULL},
      {"--budget", FPL_OPTION_TEXT, &s.budget_text, "TIME", "stop after 90s, 10m, 6h", 0, 0, NULL},
      {"--jobs", FPL_OPTION_I64, &s.jobs, "N", "compilations at a time (default: processors)", 1,
       1024, NULL},
      {"--seed", FPL_OPTION_I64, &s.seed, "N", "of inputs and of the order (default 1)", 0,
       INT64_MAX, NULL},
      {"--resume", FPL_OPTION_FLAG, &s.is_resume, NULL, "skip what has a plan already", 0, 0, NULL},
      {"--again", FPL_OPTION_I64, &s.again, "N",
       "measure the N best stored kernels and the library anew; store nothing", 1, AGAIN_MOST,
       NULL},
      {"--deterministic", FPL_OPTION_FLAG, &s.is_deterministic, NULL,
       "plans that give the same bits every time; the library's is none", 0, 0, NULL},
      {"--kernels-only", FPL_OPTION_FLAG, &s.is_kernels_only, NULL,
       "leave the library plan out, as for a profiler", 0, 0, NULL},
      {"--json", FPL_OPTION_FLAG, &s.is_json, NULL, "one JSON object", 0, 0, NULL},
      {"--quiet", FPL_OPTION_FLAG, &s.is_quiet, NULL, "no talk, no progress", 0, 0, NULL}};
  enum { OWN_OPTIONS = sizeof own / sizeof *own };
  struct fpl_option options[OWN_OPTIONS + FPL_PROBLEM_OPTIONS];
  memcpy(options, own, sizeof own);
  fpl_problem_opts_init(&s.problem_opts, options + OWN_OPTIONS);
  int n_arguments = 0, exit_code = 0;
  if (!fpl_cli_begin(&command, options, OWN_OPTIONS + FPL_PROBLEM_OPTIONS, argc, argv, &s.file,
                     &n_arguments, &exit_code))
    return exit_code;
  fpl_progress_catch_signals();
  struct fpl_err err = {0};
  s.answers = json_array();
  enum fpl_status status = open_session(&s, &err);
  if (status == FPL_OK)
    status = tune_all(&s, &err);
  if (status == FPL_OK && s.again == 0)
    status = fpl_db_refresh(s.db, &err);
  exit_code = status == FPL_OK ? finish(&s) : fpl_cli_fail(&command, &err);
  close_session(&s, status == FPL_OK ? FPL_RUN_DONE : FPL_RUN_FAILED);
  return exit_code;
}
