/* What the commands share: exit codes, error lines, JSON of the vocabulary. */
#ifndef FPL_CLI_CLI_H
#define FPL_CLI_CLI_H

#include "tuner/base/status.h"
#include "tuner/base/str.h"
#include "tuner/cli/opts.h"
#include "tuner/cli/paths.h"
#include "tuner/core/plan.h"

#include <jansson.h>

/* Exit codes of fuseplan; the README's table. */
enum fpl_exit {
  FPL_EXIT_OK = 0, /* done; lookup: hit */
  FPL_EXIT_NEGATIVE =
      1,              /* no plan, a check found a difference, a problem was left without a plan */
  FPL_EXIT_USAGE = 2, /* command line, workload or profile */
  FPL_EXIT_INPUT = 3, /* import file */
  FPL_EXIT_DATABASE = 4, /* corrupt, foreign, newer schema, locked too long */
  FPL_EXIT_DEVICE = 5,   /* toolchain or device unusable */
  FPL_EXIT_INTERNAL = 70,
  FPL_EXIT_BUDGET = 75, /* budget spent, state saved: --resume goes on */
  FPL_EXIT_SIGNAL = 128 /* plus the signal's number, after flushing */
};

/* The commands: argv without the program's name and the verb. */
int fpl_cmd_space(int argc, char **argv);
int fpl_cmd_tune(int argc, char **argv);
int fpl_cmd_lookup(int argc, char **argv);
int fpl_cmd_explain(int argc, char **argv);
int fpl_cmd_list_misses(int argc, char **argv);
int fpl_cmd_snapshot(int argc, char **argv);
int fpl_cmd_show(int argc, char **argv);
int fpl_cmd_export(int argc, char **argv);
int fpl_cmd_import(int argc, char **argv);
int fpl_cmd_merge(int argc, char **argv);
int fpl_cmd_diff(int argc, char **argv);
int fpl_cmd_history(int argc, char **argv);
int fpl_cmd_check(int argc, char **argv);
int fpl_cmd_gc(int argc, char **argv);
int fpl_cmd_doctor(int argc, char **argv);
/* Hidden: processes that tune starts. */
int fpl_cmd_worker(int argc, char **argv);
int fpl_cmd_compile_kernel(int argc, char **argv);
int fpl_cmd_probe(int argc, char **argv);

/* Exit code of a status: FPL_PARSE counts as usage. */
int fpl_cli_exit(enum fpl_status status);
/* One line "fuseplan: text" on stderr (usage errors: and where to find help); answers the exit
 * code.
 */
int fpl_cli_fail(const struct fpl_command *command, const struct fpl_err *err);
/* As above, but FPL_PARSE is the fault of an input file. */
int fpl_cli_fail_input(const struct fpl_command *command, const struct fpl_err *err);

/* Parses, or prints help. False: return *out_exit. */
bool fpl_cli_begin(const struct fpl_command *command, const struct fpl_option *options,
                   int n_options, int argc, char **argv, const char **arguments,
                   int *out_n_arguments, int *out_exit);

/* --db, else the default; "" is refused. */
enum fpl_status fpl_cli_database(const struct fpl_paths *paths, const char *given, const char **out,
                                 struct fpl_err *err);

/* Opens a database that must exist; one that does not is FPL_DB with a remedy. */
struct fpl_db;
enum fpl_status fpl_cli_open_existing(const char *path, struct fpl_db **out, struct fpl_err *err);
/* The same, to change it. */
enum fpl_status fpl_cli_open_to_write(const char *path, struct fpl_db **out, struct fpl_err *err);

/* Prints and frees; keys in insertion order, one object, a newline. False: out of memory. */
bool fpl_cli_print_json(json_t *object);

/* Writes a whole file, atomically; "-" is stdout. */
enum fpl_status fpl_cli_write(const char *file, const struct fpl_text *text, struct fpl_err *err);

json_t *fpl_json_schedule(const struct fpl_schedule *s);
json_t *fpl_json_kernel(const struct fpl_kernel *k, int64_t m);
json_t *fpl_json_environment(const struct fpl_environment *e);
json_t *fpl_json_plan(const struct fpl_plan *p);
json_t *fpl_json_result(const struct fpl_result *r);

#endif
