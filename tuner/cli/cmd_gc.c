/* fuseplan gc: removes what no answer needs. */
#include "db/db.h"
#include "tuner/cli/cli.h"

#include <stdio.h>

static const struct fpl_command command = {
    .verb = "gc",
    .arguments = "",
    .summary =
        "Removes candidates and samples of old runs, cubins that no plan names, rows that nothing\n"
        "names, and gives the space back. Every plan stays, with the library's time beside it.",
    .example = "fuseplan gc --db /tmp/plans.db --keep-runs 2 --dry-run"};

enum { KEEP_RUNS = 3, KEEP_RUNS_MOST = 1000000 };

static void print_counts(const struct fpl_gc_counts *c, bool is_json, bool is_dry_run) {
  if (is_json)
    fpl_cli_print_json(json_pack(
        "{s:b, s:I, s:I, s:I, s:I, s:I, s:I}", "dry_run", is_dry_run, "candidates",
        (json_int_t)c->n_candidates, "measurements", (json_int_t)c->n_measurements, "cubins",
        (json_int_t)c->n_cubins, "orphans", (json_int_t)c->n_orphans, "bytes_before",
        (json_int_t)c->bytes_before, "bytes_after", (json_int_t)c->bytes_after));
  else
    printf("%s %lld candidates, %lld measurements, %lld cubins, %lld rows that nothing names; "
           "%lld bytes of %lld remain\n",
           is_dry_run ? "would remove" : "removed", (long long)c->n_candidates,
           (long long)c->n_measurements, (long long)c->n_cubins, (long long)c->n_orphans,
           (long long)c->bytes_after, (long long)c->bytes_before);
}

int fpl_cmd_gc(int argc, char **argv) {
  const char *db_path = NULL;
  int64_t keep_runs = KEEP_RUNS;
  bool is_dry_run = false, is_json = false;
  const struct fpl_option options[] = {
      {"--db", FPL_OPTION_TEXT, &db_path, "FILE", "database (default: $FUSEPLAN_DB)", 0, 0, NULL},
      {"--keep-runs", FPL_OPTION_I64, &keep_runs, "N",
       "runs of a problem and device class that keep all (default: 3)", 0, KEEP_RUNS_MOST, NULL},
      {"--dry-run", FPL_OPTION_FLAG, &is_dry_run, NULL, "only say what would be removed", 0, 0,
       NULL},
      {"--json", FPL_OPTION_FLAG, &is_json, NULL, "one JSON object", 0, 0, NULL}};
  int n_arguments = 0, exit_code = 0;
  if (!fpl_cli_begin(&command, options, 4, argc, argv, NULL, &n_arguments, &exit_code))
    return exit_code;
  struct fpl_arena arena = {0};
  struct fpl_err err = {0};
  struct fpl_paths paths;
  struct fpl_db *db = NULL;
  struct fpl_gc_counts counts = {0};
  enum fpl_status status = fpl_paths_find(&arena, &paths, &err);
  if (status == FPL_OK)
    status = fpl_cli_database(&paths, db_path, &db_path, &err);
  if (status == FPL_OK)
    status = fpl_cli_open_to_write(db_path, &db, &err);
  if (status == FPL_OK)
    status = fpl_db_gc(db, keep_runs, is_dry_run, &counts, &err);
  fpl_db_close(db);
  if (status == FPL_OK)
    print_counts(&counts, is_json, is_dry_run);
  fpl_arena_free(&arena);
  return status == FPL_OK ? FPL_EXIT_OK : fpl_cli_fail(&command, &err);
}
