/* Fuzz target: any bytes, as a command line (one argument a line) and as the text forms that a
 * database or an argument may hold: problem, schedule, budget, numbers. A refusal must be one line;
 * what was read must come back from its own text. */
#include "tuner/base/str.h"
#include "tuner/cli/opts.h"
#include "tuner/core/schedule.h"
#include "tuner/core/workload.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

enum { ARGUMENTS_MOST = 64 };

static void require(bool holds) {
  if (!holds)
    abort();
}

static void check_status(enum fpl_status status, enum fpl_status wanted,
                         const struct fpl_err *err) {
  if (status != FPL_OK)
    require(status == wanted && err->code == wanted && err->text[0] && !strchr(err->text, '\n'));
}

/* An exact heap block, so that the address sanitizer sees a read past the end. */
static char *copied(const char *text, size_t length) {
  char *const out = malloc(length + 1);
  require(out != NULL);
  memcpy(out, text, length);
  out[length] = '\0';
  return out;
}

static void run_options(int argc, char **argv) {
  static const struct fpl_command command = {.verb = "fuzz",
                                             .arguments = "FILE",
                                             .summary = "",
                                             .example = "",
                                             .least_arguments = 0,
                                             .most_arguments = 2};
  struct fpl_problem_opts problem_opts;
  struct fpl_option options[FPL_PROBLEM_OPTIONS + 2];
  bool is_json = false, is_help = false;
  const char *device = "h200", *arguments[2] = {NULL, NULL};
  const struct fpl_option own[] = {{"--device", FPL_OPTION_TEXT, &device, "NAME", "", 0, 0, NULL},
                                   {"--json", FPL_OPTION_FLAG, &is_json, NULL, "", 0, 0, NULL}};
  int n_arguments = 0;
  struct fpl_err err = {0};
  struct fpl_problem p;
  fpl_problem_opts_init(&problem_opts, options);
  memcpy(&options[FPL_PROBLEM_OPTIONS], own, sizeof own);
  const enum fpl_status status = fpl_opts_parse(&command, options, FPL_PROBLEM_OPTIONS + 2, argc,
                                                argv, arguments, &n_arguments, &is_help, &err);
  check_status(status, FPL_USAGE, &err);
  if (status != FPL_OK || is_help)
    return;
  require(n_arguments <= 2 && (n_arguments < 2 || arguments[1]) && device);
  check_status(fpl_problem_opts_make(&problem_opts, &p, &err), FPL_USAGE, &err);
}

static void run_command_line(const char *text, size_t length) {
  char *argv[ARGUMENTS_MOST + 1] = {NULL};
  int argc = 0;
  for (size_t at = 0; at < length && argc < ARGUMENTS_MOST;) {
    const char *const end = memchr(text + at, '\n', length - at);
    const size_t part = end ? (size_t)(end - text) - at : length - at;
    argv[argc++] = copied(text + at, part);
    at += part + 1;
  }
  run_options(argc, argv);
  for (int i = 0; i < argc; i++)
    free(argv[i]);
}

static void run_problem(const char *text) {
  struct fpl_problem p, again;
  struct fpl_err err = {0};
  char own[FPL_PROBLEM_TEXT], own_again[FPL_PROBLEM_TEXT];
  const enum fpl_status status = fpl_problem_parse(text, &p, &err);
  check_status(status, FPL_PARSE, &err);
  if (status != FPL_OK)
    return;
  fpl_problem_text(&p, own);
  require(fpl_problem_parse(own, &again, &err) == FPL_OK);
  fpl_problem_text(&again, own_again);
  require(strcmp(own, own_again) == 0);
}

static void run_schedule(const char *text) {
  struct fpl_schedule s, again;
  struct fpl_err err = {0};
  char own[FPL_SCHEDULE_TEXT];
  const enum fpl_status status = fpl_schedule_parse(text, &s, &err);
  check_status(status, FPL_PARSE, &err);
  if (status != FPL_OK)
    return;
  for (int i = 0; i < FPL_N_FIELDS; i++) {
    const int32_t value = fpl_schedule_get(&s, i);
    require(value >= fpl_schedule_fields[i].least && value <= fpl_schedule_fields[i].most);
  }
  fpl_schedule_text(&s, own);
  require(fpl_schedule_parse(own, &again, &err) == FPL_OK);
  require(memcmp(&s, &again, sizeof s) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  char *const text = copied((const char *)bytes, length);
  double number = 0, budget_us = 0;
  int64_t integer = 0;
  run_command_line((const char *)bytes, length);
  run_problem(text);
  run_schedule(text);
  require(!fpl_budget_parse(text, &budget_us) || budget_us > 0);
  require(!fpl_parse_f64(text, &number) || (number - number == 0));
  require(!fpl_parse_i64(text, -5, 1 << 20, &integer) || (integer >= -5 && integer <= 1 << 20));
  free(text);
  return 0;
}
