/* fuseplan check: everything in a database that no fuseplan wrote, and what can safely be done. */
#include "db/db.h"
#include "tuner/cli/cli.h"

#include <stdio.h>

static const struct fpl_command command = {
    .verb = "check",
    .arguments = "",
    .summary =
        "Reads a whole database: pages, references, hashes, texts, legality of plans. One line a\n"
        "finding. Exit 0: nothing was found, or all was repaired; 1: findings are left;\n"
        "4: damaged, so that no repair is tried: move it away and import a text export.",
    .example = "fuseplan check --db /tmp/plans.db --json"};

/* What --repair does about a kind of finding; NULL: nothing. Indexed by enum fpl_finding_kind. */
static const char *const repairs[] = {
    NULL,     NULL, "cubin dropped, to be compiled anew", NULL, "flagged, no answer any more",
    "removed"};

struct report {
  bool is_json, is_damaged;
  json_t *findings; /* with --json */
  int64_t n_found, n_repaired;
};

static enum fpl_status print_finding(void *context, const struct fpl_finding *f,
                                     struct fpl_err *err) {
  (void)err;
  struct report *const report = context;
  const char *const repair = f->is_repaired ? repairs[f->kind] : NULL;
  report->n_found++;
  report->n_repaired += f->is_repaired;
  report->is_damaged = report->is_damaged || f->kind == FPL_FINDING_DAMAGE;
  if (report->is_json)
    json_array_append_new(report->findings,
                          json_pack("{s:s, s:s, s:I, s:s, s:s?}", "kind",
                                    fpl_finding_names[f->kind], "table", f->table, "row",
                                    (json_int_t)f->row, "what", f->what, "repair", repair));
  else if (f->row)
    printf("%s %s %lld: %s%s%s\n", fpl_finding_names[f->kind], f->table, (long long)f->row, f->what,
           repair ? ": " : "", repair ? repair : "");
  else
    printf("%s %s: %s\n", fpl_finding_names[f->kind], f->table, f->what);
  return FPL_OK;
}

static int conclude(struct report *report) {
  if (report->is_json)
    fpl_cli_print_json(json_pack("{s:I, s:I, s:O}", "found", (json_int_t)report->n_found,
                                 "repaired", (json_int_t)report->n_repaired, "findings",
                                 report->findings));
  else
    printf("%lld findings, %lld repaired\n", (long long)report->n_found,
           (long long)report->n_repaired);
  if (report->is_damaged)
    return FPL_EXIT_DATABASE;
  return report->n_found == report->n_repaired ? FPL_EXIT_OK : FPL_EXIT_NEGATIVE;
}

int fpl_cmd_check(int argc, char **argv) {
  const char *db_path = NULL;
  bool repair = false;
  struct report report = {0};
  const struct fpl_option options[] = {
      {"--db", FPL_OPTION_TEXT, &db_path, "FILE", "database (default: $FUSEPLAN_DB)", 0, 0, NULL},
      {"--repair", FPL_OPTION_FLAG, &repair, NULL,
       "remove rows that nothing names, drop cubins whose hash is wrong, flag illegal plans", 0, 0,
       NULL},
      {"--json", FPL_OPTION_FLAG, &report.is_json, NULL, "one JSON object", 0, 0, NULL}};
  int n_arguments = 0, exit_code = 0;
  if (!fpl_cli_begin(&command, options, 3, argc, argv, NULL, &n_arguments, &exit_code))
    return exit_code;
  struct fpl_arena arena = {0};
  struct fpl_err err = {0};
  struct fpl_paths paths;
  struct fpl_db *db = NULL;
  report.findings = json_array();
  enum fpl_status status = fpl_paths_find(&arena, &paths, &err);
  if (status == FPL_OK)
    status = fpl_cli_database(&paths, db_path, &db_path, &err);
  if (status == FPL_OK)
    status = (repair ? fpl_cli_open_to_write : fpl_cli_open_existing)(db_path, &db, &err);
  if (status == FPL_OK)
    status = fpl_db_check_all(db, repair, print_finding, &report, &err);
  fpl_db_close(db);
  exit_code = status == FPL_OK ? conclude(&report) : fpl_cli_fail(&command, &err);
  json_decref(report.findings);
  fpl_arena_free(&arena);
  return exit_code;
}
