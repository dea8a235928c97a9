/* Asking the plan databases: the layers, the machine that asks, and the answer. What `lookup` and
 * `explain` share.
 *
 * Layers: --db names a file, and that file alone is asked; it may be a snapshot. Without it the user's database
 * ($FUSEPLAN_DB, else the default) lies above the one that comes with the program; either may be
 * missing. Who wins: tuner/core/answer.h.
 */
#ifndef FPL_CLI_ASK_H
#define FPL_CLI_ASK_H

#include "db/snapshot.h"
#include "tuner/cli/cli.h"

enum { FPL_ASK_LAYERS = 2, FPL_ASK_OPTIONS = FPL_PROBLEM_OPTIONS + 6 };

struct fpl_ask {
  /* From the command line */
  struct fpl_problem_opts problem_opts;
  const char *device_name, *db_path, *driver;
  bool is_deterministic, needs_kernel, is_json;
  /* From those */
  struct fpl_arena arena;
  struct fpl_paths paths;
  struct fpl_problem problem;
  struct fpl_device device;
  struct fpl_environment environment;
  const char *layer_paths[FPL_ASK_LAYERS];
  struct fpl_db *databases[FPL_ASK_LAYERS]; /* NULL where the layer is a snapshot */
  struct fpl_snapshot *snapshots[FPL_ASK_LAYERS];
  int n_layers;
  struct fpl_answer answer;
};

/* Zeroes, and fills the options to parse. */
void fpl_ask_init(struct fpl_ask *ask, struct fpl_option out[FPL_ASK_OPTIONS]);
/* Opens the layers and asks. `trace` may be NULL. */
enum fpl_status fpl_ask_layers(struct fpl_ask *ask, enum fpl_tier last, struct fpl_trace *trace,
                               struct fpl_err *err);
/* Closes the layers; asks anew, opening them where they are closed. */
void fpl_ask_close(struct fpl_ask *ask);
enum fpl_status fpl_ask_again(struct fpl_ask *ask, enum fpl_tier last, struct fpl_trace *trace,
                              struct fpl_err *err);
void fpl_ask_free(struct fpl_ask *ask);

/* The words that tune the problem: "tune", options and their values. Texts live in the ask. */
enum { FPL_ASK_WORDS = 32, FPL_ASK_COMMAND = 1024 };
int fpl_ask_tune_words(struct fpl_ask *ask, const char *words[FPL_ASK_WORDS]);
/* The same as a command for a shell. */
void fpl_ask_tune_command(struct fpl_ask *ask, char out[FPL_ASK_COMMAND]);

#endif
