#include "tuner/cli/ask.h"

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

enum fpl_status fpl_ask_layers(struct fpl_ask *ask, enum fpl_tier last, struct fpl_trace *trace,
                               struct fpl_err *err) {
  enum fpl_status status = fpl_problem_opts_make(&ask->problem_opts, &ask->problem, err);
  if (status == FPL_OK)
    status = fpl_paths_find(&ask->arena, &ask->paths, err);
  if (status == FPL_OK)
    status = find_device(ask, err);
  if (status == FPL_OK)
    status = open_layers(ask, err);
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

void fpl_ask_free(struct fpl_ask *ask) {
  fpl_plan_free(&ask->answer.plan);
  for (int i = 0; i < ask->n_layers; i++) {
    fpl_db_close(ask->databases[i]);
    fpl_snapshot_close(ask->snapshots[i]);
  }
  fpl_arena_free(&ask->arena);
}
