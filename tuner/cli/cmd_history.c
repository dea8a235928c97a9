/* fuseplan history: every plan that was ever stored for a problem. */
#include "db/db.h"
#include "tuner/cli/cli.h"
#include "tuner/cli/stored.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct fpl_command command = {
    .verb = "history",
    .arguments = "",
    .summary =
        "Lists every plan ever stored for a problem, by device class, oldest first; * marks the "
        "one\n"
        "that answers: the most trusted (measured, predicted, simulated), then the newest. With\n"
        "--as-of the plans there were by then, and the one that answered then; promotions and "
        "flags\n"
        "are those of today. Exit 1: nothing stored.",
    .example = "fuseplan history --problem 1 --db /tmp/plans.db"};

static void print_us(double us) {
  if (us > 0)
    printf(" %8.2f", us);
  else
    printf(" %8s", "-");
}

static void print_plan(const struct fpl_stored_plan *p) {
  char date[FPL_DATE_TEXT];
  fpl_date_text(p->created_unix, date);
  printf("%s %s  %.8s  %-9s", p->is_answer ? "*" : " ", date, p->run_key,
         fpl_provenance_names[p->provenance]);
  print_us(p->measured_us);
  print_us(p->measured_hot_us);
  print_us(p->library_us);
  print_us(p->est_us);
  printf("  %-24s %-8s %s%s%s%s\n", p->driver[0] ? p->driver : "-", p->nvrtc[0] ? p->nvrtc : "-",
         fpl_stored_winner(p), p->is_promoted ? "" : "  # not promoted",
         p->flag[0] ? "  # refused by " : "", p->flag);
}

static void print_history(const struct fpl_stored_plan *plans, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (i == 0 || fpl_stored_plan_compare(&plans[i - 1], &plans[i]) != 0)
      printf("%s%s on %s\n  %-20s  %-8s  %-9s %8s %8s %8s %8s  %-24s %-8s winner\n", i ? "\n" : "",
             plans[i].problem, plans[i].device_class, "date", "run", "found", "cold us", "hot us",
             "library", "est us", "driver", "nvrtc");
    print_plan(&plans[i]);
  }
}

static void print_history_json(const char *problem, const struct fpl_stored_plan *plans, size_t n) {
  json_t *const list = json_array();
  for (size_t i = 0; i < n; i++) {
    json_t *const plan = json_pack("{s:s}", "device_class", plans[i].device_class);
    json_object_update_new(plan, fpl_json_stored_plan(&plans[i]));
    json_array_append_new(list, plan);
  }
  fpl_cli_print_json(json_pack("{s:s, s:o}", "problem", problem, "plans", list));
}

/* The problem of --problem, or of the options. Exit code 0: it is in *out. */
static int find_problem(struct fpl_db *db, const char *id, const struct fpl_problem_opts *opts,
                        struct fpl_problem *out) {
  struct fpl_err err = {0};
  if (!id)
    return fpl_problem_opts_make(opts, out, &err) == FPL_OK ? FPL_EXIT_OK
                                                            : fpl_cli_fail(&command, &err);
  int64_t number = 0;
  bool is_found = false;
  if (fpl_db_find_problem(db, id, &number, out, &is_found, &err) != FPL_OK)
    return fpl_cli_fail(&command, &err);
  if (is_found)
    return FPL_EXIT_OK;
  fprintf(stderr, "fuseplan: no problem '%s': 'fuseplan show' lists the ids\n", id);
  return FPL_EXIT_NEGATIVE;
}

static int answer(struct fpl_db *db, const struct fpl_problem *problem, int64_t as_of_unix,
                  bool is_json) {
  struct fpl_stored_plan *plans = NULL;
  size_t n = 0;
  struct fpl_err err = {0};
  if (fpl_db_stored_plans(db, problem, as_of_unix, false, &plans, &n, &err) != FPL_OK)
    return fpl_cli_fail(&command, &err);
  char text[FPL_PROBLEM_TEXT];
  fpl_problem_text(problem, text);
  if (is_json)
    print_history_json(text, plans, n);
  else if (n > 0)
    print_history(plans, n);
  else
    fprintf(stderr, "fuseplan: no plan for '%s' %s\n", text,
            as_of_unix < INT64_MAX ? "was stored by then" : "is stored");
  free(plans);
  return n > 0 ? FPL_EXIT_OK : FPL_EXIT_NEGATIVE;
}

enum { OWN_OPTIONS = 4 };

int fpl_cmd_history(int argc, char **argv) {
  struct fpl_problem_opts problem_opts;
  struct fpl_option options[FPL_PROBLEM_OPTIONS + OWN_OPTIONS];
  const char *db_path = NULL, *id = NULL, *as_of = NULL;
  bool is_json = false;
  fpl_problem_opts_init(&problem_opts, options);
  const struct fpl_option own[OWN_OPTIONS] = {
      {"--problem", FPL_OPTION_TEXT, &id, "ID", "problem by its id in `show`, instead of a shape",
       0, 0, NULL},
      {"--db", FPL_OPTION_TEXT, &db_path, "FILE", "database (default: $FUSEPLAN_DB)", 0, 0, NULL},
      {"--as-of", FPL_OPTION_TEXT, &as_of, "DATE", FPL_AS_OF_MEANING, 0, 0, NULL},
      {"--json", FPL_OPTION_FLAG, &is_json, NULL, "one JSON object", 0, 0, NULL}};
  memcpy(options + FPL_PROBLEM_OPTIONS, own, sizeof own);
  int n_arguments = 0, exit_code = 0;
  if (!fpl_cli_begin(&command, options, FPL_PROBLEM_OPTIONS + OWN_OPTIONS, argc, argv, NULL,
                     &n_arguments, &exit_code))
    return exit_code;
  struct fpl_arena arena = {0};
  struct fpl_err err = {0};
  struct fpl_paths paths;
  struct fpl_db *db = NULL;
  struct fpl_problem problem;
  int64_t as_of_unix = INT64_MAX;
  enum fpl_status status = FPL_OK;
  if (id && problem_opts.kind >= 0)
    status = fpl_fail(&err, FPL_USAGE, "--problem and --kind: give one of them");
  if (status == FPL_OK)
    status = fpl_as_of_read(as_of, &as_of_unix, &err);
  if (status == FPL_OK)
    status = fpl_paths_find(&arena, &paths, &err);
  if (status == FPL_OK)
    status = fpl_cli_database(&paths, db_path, &db_path, &err);
  if (status == FPL_OK)
    status = fpl_cli_open_existing(db_path, &db, &err);
  if (status != FPL_OK)
    exit_code = fpl_cli_fail(&command, &err);
  else
    exit_code = find_problem(db, id, &problem_opts, &problem);
  if (exit_code == FPL_EXIT_OK)
    exit_code = answer(db, &problem, as_of_unix, is_json);
  fpl_db_close(db);
  fpl_arena_free(&arena);
  return exit_code;
}
