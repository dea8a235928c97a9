/* fuseplan merge: other databases into one, all or nothing. */
#include "db/db.h"
#include "tuner/cli/cli.h"
#include "tuner/cli/stored.h"

#include <stdio.h>

enum { MOST_OTHERS = 1024 };

static const struct fpl_command command = {
    .verb = "merge",
    .arguments = "OTHER.db...",
    .summary =
        "Joins other plan databases into one, all of them or none, compiled kernels included. The\n"
        "order does not matter, nor does merging twice. Where both sides had an answer with\n"
        "different winners, a line says which answers now: the more trusted (measured, predicted,\n"
        "simulated), then the newer, then the one whose run has the lesser key.",
    .example = "fuseplan merge /tmp/plans.db --db /tmp/all.db",
    .least_arguments = 1,
    .most_arguments = MOST_OTHERS};

static const char *const rule_texts[] = {
    [FPL_PLAN_RULE_PROVENANCE] = "is the more trusted",
    [FPL_PLAN_RULE_NEWER] = "is the newer",
    [FPL_PLAN_RULE_RUN] = "is as old, of the run with the lesser key",
    [FPL_PLAN_RULE_ATTEMPT] = "is the later attempt of one run",
    [FPL_PLAN_RULE_OTHER] = "neither answers: a rule refuses them here"};

static void print_side(const char *path, const struct fpl_stored_plan *plan) {
  char date[FPL_DATE_TEXT];
  fpl_date_text(plan->created_unix, date);
  printf("%s: %s, %s %.2f us, %lld of %lld verified, %s", path, fpl_stored_winner(plan),
         fpl_provenance_names[plan->provenance], fpl_stored_us(plan), (long long)plan->n_ok,
         (long long)plan->n_candidates, date);
}

static void print_conflict(const struct fpl_merge_conflict *c) {
  printf("conflict: %s on %s: ", c->answers[0].problem, c->answers[0].device_class);
  print_side(c->paths[0], &c->answers[0]);
  printf("; ");
  print_side(c->paths[1], &c->answers[1]);
  if (c->answering < 0)
    printf("; %s\n", rule_texts[c->rule]);
  else
    printf("; that of %s answers, it %s\n", c->paths[c->answering], rule_texts[c->rule]);
}

static json_t *conflict_json(const struct fpl_merge_conflict *c) {
  json_t *const answers = json_array();
  for (int side = 0; side < 2; side++) {
    json_t *const answer =
        json_pack("{s:s, s:b}", "database", c->paths[side], "answers_now", c->answering == side);
    json_object_update_new(answer, fpl_json_stored_plan(&c->answers[side]));
    json_array_append_new(answers, answer);
  }
  return json_pack("{s:s, s:s, s:s, s:o}", "problem", c->answers[0].problem, "device_class",
                   c->answers[0].device_class, "rule", fpl_plan_rule_names[c->rule], "answers",
                   answers);
}

static void print_merge(const struct fpl_merge *m, bool is_json) {
  const struct fpl_import_counts *const n = &m->counts;
  if (!is_json) {
    for (size_t i = 0; i < m->n_conflicts; i++)
      print_conflict(&m->conflicts[i]);
    printf("%lld added, %lld there already, %lld plans, %lld flagged as illegal here, "
           "%zu conflicts\n",
           (long long)n->n_added, (long long)n->n_known, (long long)n->n_plans,
           (long long)n->n_flagged, m->n_conflicts);
    return;
  }
  json_t *const conflicts = json_array();
  for (size_t i = 0; i < m->n_conflicts; i++)
    json_array_append_new(conflicts, conflict_json(&m->conflicts[i]));
  fpl_cli_print_json(json_pack("{s:I, s:I, s:I, s:I, s:o}", "added", (json_int_t)n->n_added,
                               "known", (json_int_t)n->n_known, "plans", (json_int_t)n->n_plans,
                               "flagged", (json_int_t)n->n_flagged, "conflicts", conflicts));
}

/* So that a file that cannot be read does not leave a new database without plans. */
static enum fpl_status check_others(const char *const *others, int n, struct fpl_err *err) {
  enum fpl_status status = FPL_OK;
  for (int i = 0; status == FPL_OK && i < n; i++) {
    struct fpl_db *other = NULL;
    status = fpl_db_open(others[i], FPL_DB_READ, &other, err);
    fpl_db_close(other);
  }
  return status;
}

int fpl_cmd_merge(int argc, char **argv) {
  const char *db_path = NULL, *others[MOST_OTHERS];
  bool is_json = false;
  const struct fpl_option options[] = {
      {"--db", FPL_OPTION_TEXT, &db_path, "FILE",
       "database merged into, made where missing (default: $FUSEPLAN_DB)", 0, 0, NULL},
      {"--json", FPL_OPTION_FLAG, &is_json, NULL, "one JSON object", 0, 0, NULL}};
  int n_others = 0, exit_code = 0;
  if (!fpl_cli_begin(&command, options, 2, argc, argv, others, &n_others, &exit_code))
    return exit_code;
  struct fpl_arena arena = {0};
  struct fpl_err err = {0};
  struct fpl_paths paths;
  struct fpl_db *db = NULL;
  struct fpl_merge merge = {0};
  enum fpl_status status = fpl_paths_find(&arena, &paths, &err);
  if (status == FPL_OK)
    status = fpl_cli_database(&paths, db_path, &db_path, &err);
  if (status == FPL_OK)
    status = check_others(others, n_others, &err);
  if (status == FPL_OK)
    status = fpl_paths_make_parent(&arena, db_path, &err);
  if (status == FPL_OK)
    status = fpl_db_open(db_path, FPL_DB_CREATE, &db, &err);
  if (status == FPL_OK)
    status = fpl_db_merge(db, others, n_others, &merge, &err);
  if (status == FPL_OK)
    status = fpl_db_refresh(db, &err);
  if (status == FPL_OK)
    print_merge(&merge, is_json);
  else
    exit_code = fpl_cli_fail_input(&command, &err);
  fpl_merge_free(&merge);
  fpl_db_close(db);
  fpl_arena_free(&arena);
  return exit_code;
}
