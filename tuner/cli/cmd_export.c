/* fuseplan export, import: a database as sorted JSON lines, and back. */
#include "db/db.h"
#include "tuner/base/str.h"
#include "tuner/base/sys.h"
#include "tuner/cli/cli.h"
#include "tuner/cli/t1t4.h"

#include <stdio.h>
#include <string.h>

static const struct fpl_command export_command = {
    .verb = "export",
    .arguments = "",
    .summary =
        "Writes a database as sorted JSON lines: plans, candidates, samples, environments. For "
        "other\n"
        "autotuners, Kernel Tuner among them, --format t4 writes the results of one problem and\n"
        "--format t1 its tuning parameters, each as one JSON object of the community's schemas.",
    .example = "fuseplan export --db /tmp/plans.db -o /tmp/plans.jsonl"};

static const struct fpl_command import_command = {
    .verb = "import",
    .arguments = "FILE.jsonl",
    .summary = "Reads exported text into a database, all or nothing. Importing twice adds nothing.",
    .example = "fuseplan import /tmp/plans.jsonl --db /tmp/copy.db",
    .least_arguments = 1,
    .most_arguments = 1};

static enum fpl_status collect(void *context, const char *bytes, size_t length,
                               struct fpl_err *err) {
  struct fpl_text *const text = context;
  fpl_text_append_bytes(text, bytes, length);
  return text->is_broken ? fpl_fail(err, FPL_NO_MEMORY, "out of memory") : FPL_OK;
}

enum format { FORMAT_JSONL, FORMAT_T4, FORMAT_T1 };
static const char *const format_names[] = {"jsonl", "t4", "t1", NULL};

/* What is exported: all, or one problem on one device. */
struct selection {
  int format;
  bool with_cubins;
  const char *problem, *device;
};

static enum fpl_status export_one(struct fpl_db *db, const struct selection *s,
                                  struct fpl_text *out, struct fpl_err *err) {
  if (s->format != FORMAT_JSONL && s->with_cubins)
    return fpl_fail(err, FPL_USAGE, "--cubins: only with --format jsonl");
  if (s->format == FORMAT_T4)
    return fpl_t4_write(db, s->problem, s->device, out, err);
  if (s->format == FORMAT_T1)
    return fpl_t1_write(db, s->problem, s->device, out, err);
  if (s->problem || s->device)
    return fpl_fail(err, FPL_USAGE, "--problem and --device: only with --format t4 or t1");
  return fpl_db_export(db, s->with_cubins, collect, out, err);
}

int fpl_cmd_export(int argc, char **argv) {
  const char *db_path = NULL, *file = "-";
  struct selection selection = {.format = FORMAT_JSONL};
  bool is_json = false;
  const struct fpl_option options[] = {
      {"--db", FPL_OPTION_TEXT, &db_path, "FILE", "database (default: $FUSEPLAN_DB)", 0, 0, NULL},
      {"--cubins", FPL_OPTION_FLAG, &selection.with_cubins, NULL, "compiled kernels too (large)", 0,
       0, NULL},
      {"--format", FPL_OPTION_NAME, &selection.format, "FORMAT", "default jsonl", 0, 0,
       format_names},
      {"--problem", FPL_OPTION_TEXT, &selection.problem, "ID",
       "t4, t1: problem by its id in `show`", 0, 0, NULL},
      {"--device", FPL_OPTION_TEXT, &selection.device, "NAME",
       "t4, t1: where the problem was tuned on several", 0, 0, NULL},
      {"--json", FPL_OPTION_FLAG, &is_json, NULL,
       "with -o FILE: one JSON object about it (the export itself is JSON lines)", 0, 0, NULL},
      {"-o", FPL_OPTION_TEXT, &file, "FILE", "where to (default: - for stdout)", 0, 0, NULL}};
  int n_arguments = 0, exit_code = 0;
  if (!fpl_cli_begin(&export_command, options, 7, argc, argv, NULL, &n_arguments, &exit_code))
    return exit_code;
  struct fpl_arena arena = {0};
  struct fpl_err err = {0};
  struct fpl_paths paths;
  struct fpl_db *db = NULL;
  struct fpl_text text = {0};
  enum fpl_status status = fpl_paths_find(&arena, &paths, &err);
  if (status == FPL_OK)
    status = fpl_cli_database(&paths, db_path, &db_path, &err);
  if (status == FPL_OK)
    status = fpl_cli_open_existing(db_path, &db, &err);
  if (status == FPL_OK)
    status = export_one(db, &selection, &text, &err);
  if (status == FPL_OK)
    status = fpl_cli_write(file, &text, &err);
  if (status == FPL_OK && is_json && strcmp(file, "-") != 0)
    fpl_cli_print_json(json_pack("{s:s, s:I}", "file", file, "bytes", (json_int_t)text.length));
  fpl_text_free(&text);
  fpl_db_close(db);
  fpl_arena_free(&arena);
  return status == FPL_OK ? FPL_EXIT_OK : fpl_cli_fail(&export_command, &err);
}

enum { MOST_IMPORT_BYTES = 1 << 30 };

int fpl_cmd_import(int argc, char **argv) {
  const char *db_path = NULL, *file = NULL;
  bool is_json = false;
  const struct fpl_option options[] = {
      {"--db", FPL_OPTION_TEXT, &db_path, "FILE", "database (default: $FUSEPLAN_DB)", 0, 0, NULL},
      {"--json", FPL_OPTION_FLAG, &is_json, NULL, "one JSON object", 0, 0, NULL}};
  int n_arguments = 0, exit_code = 0;
  if (!fpl_cli_begin(&import_command, options, 2, argc, argv, &file, &n_arguments, &exit_code))
    return exit_code;
  struct fpl_arena arena = {0};
  struct fpl_err err = {0};
  struct fpl_paths paths;
  struct fpl_db *db = NULL;
  struct fpl_import_counts counts = {0};
  char *text = NULL;
  size_t length = 0;
  enum fpl_status status = fpl_paths_find(&arena, &paths, &err);
  if (status == FPL_OK)
    status = fpl_cli_database(&paths, db_path, &db_path, &err);
  if (status == FPL_OK)
    status = fpl_file_read(&arena, file, MOST_IMPORT_BYTES, &text, &length, &err);
  if (status == FPL_OK)
    status = fpl_paths_make_parent(&arena, db_path, &err);
  if (status == FPL_OK)
    status = fpl_db_open(db_path, FPL_DB_CREATE, &db, &err);
  if (status == FPL_OK)
    status = fpl_db_import(db, file, text, length, &counts, &err);
  if (status == FPL_OK)
    status = fpl_db_refresh(db, &err);
  fpl_db_close(db);
  fpl_arena_free(&arena);
  if (status != FPL_OK)
    return fpl_cli_fail_input(&import_command, &err);
  if (is_json)
    fpl_cli_print_json(json_pack("{s:I, s:I, s:I, s:I, s:I}", "lines", (json_int_t)counts.n_lines,
                                 "added", (json_int_t)counts.n_added, "known",
                                 (json_int_t)counts.n_known, "plans", (json_int_t)counts.n_plans,
                                 "flagged", (json_int_t)counts.n_flagged));
  else
    printf("%lld added, %lld there already, %lld plans, %lld flagged as illegal here\n",
           (long long)counts.n_added, (long long)counts.n_known, (long long)counts.n_plans,
           (long long)counts.n_flagged);
  return FPL_EXIT_OK;
}
