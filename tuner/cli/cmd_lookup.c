/* fuseplan lookup: the stored plan for exactly this problem on this device. Needs no GPU. */
#include "db/db.h"
#include "tuner/cli/autodevice.h"
#include "tuner/cli/cli.h"
#include "tuner/core/legal.h"

#include <stdio.h>
#include <string.h>

static const struct fpl_command command = {
    .verb = "lookup",
    .arguments = "",
    .summary = "Prints the stored plan for a shape. Exit 0: hit; 1: nothing stored; 2: usage.",
    .example = "fuseplan lookup --kind gemm_chain --m 128 --n 3072 --k 768 --l 768 --dtype f16 "
               "--act relu --device h200 --db /tmp/plans.db --json"};

static void print_hit(const struct fpl_plan *plan) {
  char text[FPL_SCHEDULE_TEXT];
  printf("tier        exact\nprovenance  %s\nwinner      %s\n",
         fpl_provenance_names[plan->provenance],
         plan->is_library       ? "library"
         : plan->kernel.name[0] ? plan->kernel.name
                                : "a kernel, not compiled");
  printf("estimated   %.2f us\n", plan->est_us);
  if (plan->measured_us > 0)
    printf("measured    %.2f us cold, %.2f us hot\nlibrary     %.2f us cold, %.2f us hot\n"
           "speedup     %.2f\n",
           plan->measured_us, plan->measured_hot_us, plan->library_us, plan->library_hot_us,
           plan->library_us / plan->measured_us);
  if (!plan->is_library) {
    fpl_schedule_text(&plan->schedule, text);
    printf("schedule    %s\n", text);
  }
  if (plan->kernel.cluster > 0)
    printf("kernel      grid %lld, cluster %d, block %d, %lld bytes of shared memory\n",
           (long long)fpl_kernel_grid(&plan->kernel, plan->problem.m), plan->kernel.cluster,
           plan->kernel.block_threads, (long long)plan->kernel.smem_bytes);
  printf("bits        %s\n",
         fpl_plan_is_deterministic(plan) ? "the same every time" : "may differ from run to run");
  printf("why         %s\n", plan->reason);
}

/* A stored schedule that a rule refuses by now (the device's profile or the rules have changed) is
 * not an answer. */
static bool is_still_legal(const struct fpl_problem *p, const struct fpl_device *d,
                           const struct fpl_plan *plan, struct fpl_verdict *why) {
  struct fpl_tiling t;
  struct fpl_footprint f;
  return plan->is_library || fpl_legal(p, &plan->schedule, d, &t, &f, why);
}

static int answer_miss(const struct fpl_problem *p, const struct fpl_device *d, const char *why,
                       bool is_json) {
  char text[FPL_PROBLEM_TEXT];
  fpl_problem_text(p, text);
  if (is_json)
    fpl_cli_print_json(json_pack("{s:s, s:s, s:s, s:s}", "tier", "miss", "problem", text, "device",
                                 d->name, "reason", why));
  else
    fprintf(stderr, "fuseplan: no plan for '%s' on %s: %s\n", text, d->name, why);
  return FPL_EXIT_NEGATIVE;
}

static int answer(const struct fpl_problem *p, const struct fpl_device *d, bool is_found,
                  struct fpl_plan *plan, bool is_deterministic, bool is_json) {
  struct fpl_verdict verdict = {FPL_RULE_NONE, ""};
  if (!is_found)
    return answer_miss(
        p, d,
        is_deterministic
            ? "nothing deterministic is stored: 'fuseplan tune --deterministic' makes one"
            : "nothing is stored: 'fuseplan tune' makes one",
        is_json);
  if (!is_still_legal(p, d, plan, &verdict)) {
    char why[256];
    snprintf(why, sizeof why, "the stored one is refused by rule %s (%s)",
             fpl_rule_names[verdict.rule], verdict.why);
    return answer_miss(p, d, why, is_json);
  }
  if (is_json) {
    json_t *const out = json_pack("{s:s}", "tier", "exact");
    json_t *const rest = fpl_json_plan(plan);
    json_object_update(out, rest);
    json_decref(rest);
    fpl_cli_print_json(out);
  } else {
    print_hit(plan);
  }
  return FPL_EXIT_OK;
}

static enum fpl_status find(const struct fpl_problem_opts *problem_opts, const char *device,
                            const char *db_path, bool is_deterministic, struct fpl_problem *p,
                            struct fpl_device *d, struct fpl_plan *plan, bool *out_found,
                            struct fpl_err *err) {
  struct fpl_arena arena = {0};
  struct fpl_paths paths;
  struct fpl_db *db = NULL;
  enum fpl_status status = fpl_problem_opts_make(problem_opts, p, err);
  if (status == FPL_OK)
    status = fpl_paths_find(&arena, &paths, err);
  if (status == FPL_OK)
    status = strcmp(device, "auto") == 0 ? fpl_auto_device(&arena, &paths, d, err)
                                         : fpl_paths_device(&arena, &paths, device, d, err);
  if (status == FPL_OK)
    status = fpl_cli_database(&paths, db_path, &db_path, err);
  if (status == FPL_OK)
    status = fpl_cli_open_existing(db_path, &db, err);
  if (status == FPL_OK)
    status = is_deterministic
                 ? fpl_db_find_deterministic_plan(db, p, d, false, plan, out_found, err)
                 : fpl_db_find_plan(db, p, d, false, plan, out_found, err);
  fpl_db_close(db);
  fpl_arena_free(&arena);
  return status;
}

enum { OWN_OPTIONS = 4 };

int fpl_cmd_lookup(int argc, char **argv) {
  struct fpl_problem_opts problem_opts;
  struct fpl_option options[FPL_PROBLEM_OPTIONS + OWN_OPTIONS];
  const char *device = "auto", *db_path = NULL;
  bool is_json = false, is_deterministic = false;
  fpl_problem_opts_init(&problem_opts, options);
  const struct fpl_option own[] = {
      {"--device", FPL_OPTION_TEXT, &device, "NAME", "profile, or auto: this machine's GPU", 0, 0,
       NULL},
      {"--db", FPL_OPTION_TEXT, &db_path, "FILE", "database (default: $FUSEPLAN_DB)", 0, 0, NULL},
      {"--deterministic", FPL_OPTION_FLAG, &is_deterministic, NULL,
       "a plan that gives the same bits every time", 0, 0, NULL},
      {"--json", FPL_OPTION_FLAG, &is_json, NULL, "one JSON object", 0, 0, NULL}};
  for (int i = 0; i < OWN_OPTIONS; i++)
    options[FPL_PROBLEM_OPTIONS + i] = own[i];
  int n_arguments = 0, exit_code = 0;
  if (!fpl_cli_begin(&command, options, FPL_PROBLEM_OPTIONS + OWN_OPTIONS, argc, argv, NULL,
                     &n_arguments, &exit_code))
    return exit_code;
  struct fpl_err err = {0};
  struct fpl_problem p;
  struct fpl_device d;
  struct fpl_plan plan = {0};
  bool is_found = false;
  const enum fpl_status status =
      find(&problem_opts, device, db_path, is_deterministic, &p, &d, &plan, &is_found, &err);
  exit_code = status == FPL_OK ? answer(&p, &d, is_found, &plan, is_deterministic, is_json)
                               : fpl_cli_fail(&command, &err);
  fpl_plan_free(&plan);
  return exit_code;
}
