/* fuseplan snapshot: the answers of a database as one immutable file. */
#include "db/snapshot.h"
#include "tuner/cli/cli.h"

#include <stdio.h>

static const struct fpl_command command = {
    .verb = "snapshot",
    .arguments = "FILE",
    .summary =
        "Writes a database's answers as one file that is mapped and looked up without SQLite "
        "or locks.\n`lookup` and `explain` read it with --db; --check verifies one instead.",
    .example = "fuseplan snapshot /tmp/plans.snapshot --db /tmp/plans.db",
    .least_arguments = 1,
    .most_arguments = 1};

static enum fpl_status check(const char *file, struct fpl_snapshot_counts *counts,
                             struct fpl_err *err) {
  struct fpl_snapshot *snapshot = NULL;
  enum fpl_status status = fpl_snapshot_open(file, &snapshot, err);
  if (status == FPL_OK)
    status = fpl_snapshot_check(snapshot, err);
  if (status == FPL_OK)
    counts->n_plans = fpl_snapshot_plans(snapshot);
  fpl_snapshot_close(snapshot);
  return status;
}

static enum fpl_status write_snapshot(const char *file, const char *db_path,
                                      struct fpl_snapshot_counts *counts, struct fpl_err *err) {
  struct fpl_arena arena = {0};
  struct fpl_paths paths;
  struct fpl_db *db = NULL;
  enum fpl_status status = fpl_paths_find(&arena, &paths, err);
  if (status == FPL_OK)
    status = fpl_cli_database(&paths, db_path, &db_path, err);
  if (status == FPL_OK)
    status = fpl_cli_open_existing(db_path, &db, err);
  if (status == FPL_OK)
    status = fpl_snapshot_write(db, file, counts, err);
  fpl_db_close(db);
  fpl_arena_free(&arena);
  return status;
}

int fpl_cmd_snapshot(int argc, char **argv) {
  const char *db_path = NULL, *file = NULL;
  bool is_check = false, is_json = false;
  const struct fpl_option options[] = {
      {"--db", FPL_OPTION_TEXT, &db_path, "FILE", "database (default: $FUSEPLAN_DB)", 0, 0, NULL},
      {"--check", FPL_OPTION_FLAG, &is_check, NULL, "read FILE whole and verify its digest", 0, 0,
       NULL},
      {"--json", FPL_OPTION_FLAG, &is_json, NULL, "one JSON object", 0, 0, NULL}};
  int n_arguments = 0, exit_code = 0;
  if (!fpl_cli_begin(&command, options, 3, argc, argv, &file, &n_arguments, &exit_code))
    return exit_code;
  struct fpl_err err = {0};
  struct fpl_snapshot_counts counts = {0};
  const enum fpl_status status =
      is_check ? check(file, &counts, &err) : write_snapshot(file, db_path, &counts, &err);
  if (status != FPL_OK)
    return fpl_cli_fail(&command, &err);
  if (is_json)
    fpl_cli_print_json(
        json_pack("{s:s, s:I, s:I, s:I}", "file", file, "plans", (json_int_t)counts.n_plans,
                  "kernels", (json_int_t)counts.n_kernels, "bytes", (json_int_t)counts.n_bytes));
  else if (is_check)
    printf("%s: sound, %lld plans\n", file, (long long)counts.n_plans);
  else
    printf("%s: %lld plans, %lld kernels, %lld bytes\n", file, (long long)counts.n_plans,
           (long long)counts.n_kernels, (long long)counts.n_bytes);
  return FPL_EXIT_OK;
}
