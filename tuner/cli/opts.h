/* Command-line options: one table a command, from which both parsing and --help are made. */
#ifndef FPL_CLI_OPTS_H
#define FPL_CLI_OPTS_H

#include "tuner/base/status.h"
#include "tuner/core/problem.h"

#include <stdbool.h>
#include <stdint.h>

enum fpl_option_kind {
  FPL_OPTION_FLAG, /* bool */
  FPL_OPTION_TEXT, /* const char * */
  FPL_OPTION_I64,  /* int64_t within least..most */
  FPL_OPTION_NAME  /* int: index into names */
};

struct fpl_option {
  const char *name; /* "--m" */
  enum fpl_option_kind kind;
  void *out; /* of the kind's type; holds the default before parsing */
  const char *value;
  const char *meaning;
  int64_t least, most;
  const char *const *names;
};

struct fpl_command {
  const char *verb;
  const char *arguments; /* what follows the options: "FILE.yaml", or "" */
  const char *summary;   /* one line */
  const char *example;   /* one line that can be run from the repository root */
  int least_arguments, most_arguments;
};

/* Fills the options' outputs and the positional arguments (argv's own strings). Answers FPL_USAGE
 * with a message, or sets *out_help when --help stands anywhere (nothing else is then checked). */
enum fpl_status fpl_opts_parse(const struct fpl_command *command, const struct fpl_option *options,
                               int n_options, int argc, char **argv, const char **arguments,
                               int *out_n_arguments, bool *out_help, struct fpl_err *err);

void fpl_opts_help(const struct fpl_command *command, const struct fpl_option *options,
                   int n_options);

/* The options that name a problem, shared by several commands. */
struct fpl_problem_opts {
  int kind, dtype, act; /* -1: not given */
  int64_t m, n, k, l;   /* 0: not given */
  struct fpl_conv conv;
};
enum { FPL_PROBLEM_OPTIONS = 12 };
void fpl_problem_opts_init(struct fpl_problem_opts *o, struct fpl_option out[FPL_PROBLEM_OPTIONS]);
/* Defaults: act relu (gated_ffn: silu), dtype f16, l = k. Errors: FPL_USAGE. */
enum fpl_status fpl_problem_opts_make(const struct fpl_problem_opts *o, struct fpl_problem *out,
                                      struct fpl_err *err);

#endif
