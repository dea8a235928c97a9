#include "tuner/cli/ask.h"

#include "tuner/base/str.h"
#include "tuner/base/sys.h"
#include "tuner/cli/autodevice.h"

#include <stdio.h>
#include <string.h>

void fpl_ask_init(struct fpl_ask *ask, struct fpl_option out[FPL_ASK_OPTIONS]) {
  *ask = (struct fpl_ask){.device_name = "auto"};
  fpl_problem_opts_init(&ask->problem_opts, out);
  const struct fpl_option own[] = {
      {"--device", FPL_OPTION_TEXT, &ask->device_name, "NAME",
       "profile, or auto: this machine's GPU", 0, 0, NULL},
      {"--db", FPL_OPTION_TEXT, &ask->db_path, "FILE",
       "this database alone (default: yours over the program's own)", 0, 0, NULL},
      {"--driver", FPL_OPTION_TEXT, &ask->driver, "VERSION",
       "compare plans with this driver (default: this machine's)", 0, 0, NULL},
      {"--deterministic", FPL_OPTION_FLAG, &ask->is_deterministic, NULL,
       "a plan that gives the same bits every time", 0, 0, NULL},
      {"--runnable", FPL_OPTION_FLAG, &ask->needs_kernel, NULL,
       "a plan whose machine code is stored", 0, 0, NULL},
      {"--json", FPL_OPTION_FLAG, &ask->is_json, NULL, "one JSON object", 0, 0, NULL}};
  memcpy(out + FPL_PROBLEM_OPTIONS, own, sizeof own);
}

static enum fpl_status find_device(struct fpl_ask *ask, struct fpl_err *err) {
  enum fpl_status status =
      strcmp(ask->device_name, "auto") == 0
          ? fpl_auto_device(&ask->arena, &ask->paths, &ask->device, &ask->environment, err)
          : fpl_paths_device(&ask->arena, &ask->paths, ask->device_name, &ask->device, err);
  if (status == FPL_OK && ask->driver)
    fpl_environment_set(&ask->environment, "driver", ask->driver);
  return status;
}

static enum fpl_status open_layer(struct fpl_ask *ask, const char *path, struct fpl_err *err) {
  const int at = ask->n_layers;
  ask->layer_paths[at] = path;
  const enum fpl_status status = fpl_snapshot_is_one(path)
                                     ? fpl_snapshot_open(path, &ask->snapshots[at], err)
                                     : fpl_cli_open_existing(path, &ask->databases[at], err);
  if (status == FPL_OK)
    ask->n_layers++;
  return status;
}

static enum fpl_status open_layers(struct fpl_ask *ask, struct fpl_err *err) {
  const char *const user = ask->paths.database, *const program = ask->paths.system_database;
  enum fpl_status status = FPL_OK;
  if (!ask->db_path && user[0] && fpl_path_exists(user))
    status = open_layer(ask, user, err);
  if (!ask->db_path && status == FPL_OK && program[0])
    status = open_layer(ask, program, err);
  if (status != FPL_OK || ask->n_layers > 0)
    return status;
  const char *path = NULL;
  status = fpl_cli_database(&ask->paths, ask->db_path, &path, err);
  return status == FPL_OK ? open_layer(ask, path, err) : status;
}

enum fpl_status fpl_ask_again(struct fpl_ask *ask, enum fpl_tier last, struct fpl_trace *trace,
                              struct fpl_err *err) {
  const enum fpl_status status = ask->n_layers == 0 ? open_layers(ask, err) : FPL_OK;
  if (status != FPL_OK)
    return status;
  struct fpl_source sources[FPL_ASK_LAYERS];
  for (int i = 0; i < ask->n_layers; i++)
    sources[i] = ask->snapshots[i] ? fpl_snapshot_source(ask->snapshots[i])
                                   : fpl_db_source(ask->databases[i]);
  const struct fpl_wanted wanted = {.problem = &ask->problem,
                                    .device = &ask->device,
                                    .is_deterministic = ask->is_deterministic,
                                    .needs_kernel = ask->needs_kernel};
  return fpl_answer(sources, ask->n_layers, &wanted,
                    ask->environment.n_fields > 0 ? &ask->environment : NULL, last, &ask->answer,
                    trace, err);
}

enum fpl_status fpl_ask_layers(struct fpl_ask *ask, enum fpl_tier last, struct fpl_trace *trace,
                               struct fpl_err *err) {
  enum fpl_status status = fpl_problem_opts_make(&ask->problem_opts, &ask->problem, err);
  if (status == FPL_OK)
    status = fpl_paths_find(&ask->arena, &ask->paths, err);
  if (status == FPL_OK)
    status = find_device(ask, err);
  return status == FPL_OK ? fpl_ask_again(ask, last, trace, err) : status;
}

void fpl_ask_close(struct fpl_ask *ask) {
  for (int i = 0; i < ask->n_layers; i++) {
    fpl_db_close(ask->databases[i]);
    fpl_snapshot_close(ask->snapshots[i]);
    ask->databases[i] = NULL;
    ask->snapshots[i] = NULL;
  }
  ask->n_layers = 0;
}

void fpl_ask_free(struct fpl_ask *ask) {
  fpl_ask_close(ask);
  fpl_arena_free(&ask->arena);
}

static void add_number(struct fpl_ask *ask, const char *words[FPL_ASK_WORDS], int *n,
                       const char *option, int64_t value) {
  char digits[24];
  const int length = snprintf(digits, sizeof digits, "%lld", (long long)value);
  const char *const copy = fpl_arena_copy(&ask->arena, digits, (size_t)length);
  words[(*n)++] = option;
  words[(*n)++] = copy ? copy : "";
}

int fpl_ask_tune_words(struct fpl_ask *ask, const char *words[FPL_ASK_WORDS]) {
  const struct fpl_problem *const p = &ask->problem;
  const bool is_conv = p->kind == FPL_KIND_CONV_CHAIN;
  const struct {
    const char *option;
    int64_t value;
  } numbers[] = {{"--m", is_conv ? 0 : p->m}, {"--batch", p->conv.batch},
                 {"--ic", p->conv.ic},        {"--h", p->conv.h},
                 {"--w", p->conv.w},          {"--n", p->n},
                 {"--k", is_conv ? 0 : p->k}, {"--l", p->l},
                 {"--k1", p->conv.k1}};
  int n = 0;
  words[n++] = "tune";
  words[n++] = "--kind";
  words[n++] = fpl_kind_names[p->kind];
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (numbers[i].value > 0)
      add_number(ask, words, &n, numbers[i].option, numbers[i].value);
  const char *const rest[] = {"--dtype",  fpl_dtype_names[p->dtype], "--act", fpl_act_names[p->act],
                              "--device", ask->device.name};
  for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
    words[n++] = rest[i];
  if (ask->db_path) {
    words[n++] = "--db";
    words[n++] = ask->db_path;
  }
  return n;
}

/* A word as a shell reads it back. */
static void put_quoted(struct fpl_line *line, const char *word) {
  static const char plain[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./=:,@";
  if (*word && word[strspn(word, plain)] == '\0') {
    fpl_line_text(line, word);
    return;
  }
  fpl_line_text(line, "'");
  for (; *word; word++) {
    const char letter[] = {*word, '\0'};
    fpl_line_text(line, *word == '\'' ? "'\\''" : letter);
  }
  fpl_line_text(line, "'");
}

void fpl_ask_tune_command(struct fpl_ask *ask, char out[FPL_ASK_COMMAND]) {
  const char *words[FPL_ASK_WORDS];
  const int n = fpl_ask_tune_words(ask, words);
  struct fpl_line line = fpl_line_start(out, FPL_ASK_COMMAND);
  fpl_line_text(&line, "fuseplan");
  for (int i = 0; i < n; i++) {
    fpl_line_text(&line, " ");
    put_quoted(&line, words[i]);
  }
}
