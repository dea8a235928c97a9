#include "tuner/cli/cli.h"

#include "db/db.h"
#include "tuner/base/sys.h"

#include <stdio.h>
#include <string.h>

int fpl_cli_exit(enum fpl_status status) {
  switch (status) {
  case FPL_OK:
    return FPL_EXIT_OK;
  case FPL_USAGE:
  case FPL_PARSE:
    return FPL_EXIT_USAGE;
  case FPL_IO:
  case FPL_IO_TIMEOUT:
    return FPL_EXIT_INPUT;
  case FPL_DB:
  case FPL_DB_BUSY:
  case FPL_DB_SCHEMA:
  case FPL_DB_CORRUPT:
    return FPL_EXIT_DATABASE;
  case FPL_TOOLCHAIN:
  case FPL_DEVICE:
    return FPL_EXIT_DEVICE;
  case FPL_VERIFY:
    return FPL_EXIT_NEGATIVE;
  case FPL_INTERNAL:
  case FPL_NO_MEMORY:
    return FPL_EXIT_INTERNAL;
  }
  return FPL_EXIT_INTERNAL;
}

int fpl_cli_fail(const struct fpl_command *command, const struct fpl_err *err) {
  fprintf(stderr, "fuseplan: %s\n", err->text);
  if (err->code == FPL_USAGE && command)
    fprintf(stderr, "see 'fuseplan %s --help'\n", command->verb);
  return fpl_cli_exit(err->code);
}

int fpl_cli_fail_input(const struct fpl_command *command, const struct fpl_err *err) {
  const int exit_code = fpl_cli_fail(command, err);
  return err->code == FPL_PARSE ? FPL_EXIT_INPUT : exit_code;
}

bool fpl_cli_begin(const struct fpl_command *command, const struct fpl_option *options,
                   int n_options, int argc, char **argv, const char **arguments,
                   int *out_n_arguments, int *out_exit) {
  struct fpl_err err = {0};
  bool is_help = false;
  const enum fpl_status status = fpl_opts_parse(command, options, n_options, argc, argv, arguments,
                                                out_n_arguments, &is_help, &err);
  *out_exit = status == FPL_OK ? FPL_EXIT_OK : fpl_cli_fail(command, &err);
  if (status == FPL_OK && is_help)
    fpl_opts_help(command, options, n_options);
  return status == FPL_OK && !is_help;
}

enum fpl_status fpl_cli_database(const struct fpl_paths *paths, const char *given, const char **out,
                                 struct fpl_err *err) {
  *out = given ? given : paths->database;
  if ((*out)[0] == '\0')
    return fpl_fail(err, FPL_USAGE, "no database: give --db FILE or set FUSEPLAN_DB");
  return FPL_OK;
}

static enum fpl_status open_existing(const char *path, enum fpl_db_mode mode, struct fpl_db **out,
                                     struct fpl_err *err) {
  if (!fpl_path_exists(path))
    return fpl_fail(err, FPL_DB,
                    "%s: no such database: 'fuseplan tune' or 'fuseplan import' makes one", path);
  return fpl_db_open(path, mode, out, err);
}

enum fpl_status fpl_cli_open_existing(const char *path, struct fpl_db **out, struct fpl_err *err) {
  return open_existing(path, FPL_DB_READ, out, err);
}

enum fpl_status fpl_cli_open_to_write(const char *path, struct fpl_db **out, struct fpl_err *err) {
  return open_existing(path, FPL_DB_WRITE, out, err);
}

bool fpl_cli_print_json(json_t *object) {
  if (!object)
    return false;
  const int status = json_dumpf(object, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER);
  putchar('\n');
  json_decref(object);
  return status == 0;
}

enum fpl_status fpl_cli_write(const char *file, const struct fpl_text *text, struct fpl_err *err) {
  const char *const bytes = text->text ? text->text : "";
  if (strcmp(file, "-") != 0)
    return fpl_file_write(file, bytes, text->length, err);
  if (fwrite(bytes, 1, text->length, stdout) != text->length || fflush(stdout) != 0)
    return fpl_fail(err, FPL_IO, "stdout: cannot write");
  return FPL_OK;
}

json_t *fpl_json_schedule(const struct fpl_schedule *s) {
  json_t *const out = json_object();
  for (int i = 0; i < FPL_N_FIELDS; i++) {
    const struct fpl_schedule_field *const f = &fpl_schedule_fields[i];
    const int32_t value = fpl_schedule_get(s, i);
    json_object_set_new(out, f->name,
                        f->names ? json_string(f->names[value]) : json_integer(value));
  }
  return out;
}

json_t *fpl_json_kernel(const struct fpl_kernel *k, int64_t m) {
  return json_pack("{s:s, s:s, s:I, s:i, s:i, s:I, s:i, s:I, s:s}", "name", k->name, "family",
                   k->family, "grid", (json_int_t)(k->cluster > 0 ? fpl_kernel_grid(k, m) : 0),
                   "cluster", (int)k->cluster, "block", (int)k->block_threads, "smem_bytes",
                   (json_int_t)k->smem_bytes, "registers", (int)k->registers, "workspace_bytes",
                   (json_int_t)(k->cluster > 0 ? fpl_kernel_workspace_bytes(k, m) : 0), "sha",
                   k->sha);
}

json_t *fpl_json_environment(const struct fpl_environment *e) {
  json_t *const out = json_object();
  for (int i = 0; i < e->n_fields; i++)
    json_object_set_new(out, e->fields[i].name, json_string(e->fields[i].value));
  return out;
}

json_t *fpl_json_plan(const struct fpl_plan *p) {
  char text[FPL_PROBLEM_TEXT];
  fpl_problem_text(&p->problem, text);
  json_t *const out = json_pack(
      "{s:s, s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:s}", "problem", text,
      "device", p->device_name, "winner", p->is_library ? "library" : "kernel", "provenance",
      fpl_provenance_names[p->provenance], "est_us", p->est_us, "measured_us", p->measured_us,
      "measured_hot_us", p->measured_hot_us, "library_us", p->library_us, "library_hot_us",
      p->library_hot_us, "speedup", p->measured_us > 0 ? p->library_us / p->measured_us : 0.0,
      "n_candidates", (json_int_t)p->n_candidates, "n_ok", (json_int_t)p->n_ok, "created_unix",
      (json_int_t)p->created_unix, "reason", p->reason);
  /* The library plan has neither: the same keys, with what it is. */
  const struct fpl_kernel library = {.name = "library", .family = "library"};
  json_object_set_new(out, "schedule",
                      p->is_library ? json_pack("{s:b}", "library", 1)
                                    : fpl_json_schedule(&p->schedule));
  json_object_set_new(out, "kernel",
                      fpl_json_kernel(p->is_library ? &library : &p->kernel, p->problem.m));
  json_object_set_new(out, "deterministic", json_boolean(fpl_plan_is_deterministic(p)));
  json_object_set_new(out, "environment", fpl_json_environment(&p->environment));
  return out;
}

json_t *fpl_json_result(const struct fpl_result *r) {
  const struct fpl_stats *const cold = &r->stats[FPL_COLD], *const hot = &r->stats[FPL_HOT];
  json_t *const out = json_pack(
      "{s:b, s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:s, s:b, s:f}", "is_library",
      r->is_library, "outcome", fpl_outcome_names[r->outcome], "reason", r->reason, "est_us",
      r->est_us, "est_plain_us", r->est_plain_us, "cold_us", cold->median_us, "cold_low_us",
      cold->low_us, "cold_high_us", cold->high_us, "hot_us", hot->median_us, "n_samples",
      (json_int_t)cold->n, "method", fpl_method_names[r->method], "is_exact",
      r->verification.was_exact_ok, "relative_error", r->verification.relative_error);
  json_object_set_new(out, "schedule",
                      r->is_library ? json_null() : fpl_json_schedule(&r->schedule));
  json_object_set_new(out, "kernel", r->is_library ? json_null() : fpl_json_kernel(&r->kernel, 1));
  return out;
}
