/* Progress: one line on stderr while a problem is worked on, on a terminal only; and the way out
 * when a signal has asked for it. */
#ifndef FPL_CLI_PROGRESS_H
#define FPL_CLI_PROGRESS_H

#include <stdbool.h>

struct fpl_progress {
  bool is_shown; /* stderr is a terminal and neither --quiet nor --json was given */
  int problem;   /* number of the present one, from 1 */
  int n_problems;
  int n_ok, n_refused, n_failed, n_timed_out; /* candidates so far */
  double best_ratio;                          /* best library / plan so far; 0: none */
  double start_us;
  char id[64];
  void (*on_signal)(void *context, int signal); /* called when a signal has come; does not return */
  void *context;
};

/* Installs handlers for SIGINT and SIGTERM that only remember the signal. */
void fpl_progress_catch_signals(void);
/* The signal that came, or 0. */
int fpl_progress_signal(void);

void fpl_progress_init(struct fpl_progress *p, bool is_shown, int n_problems);
/* Callbacks for the ports; `context` is the struct fpl_progress. */
void fpl_progress_build(void *context, int n_done, int n_all);
void fpl_progress_measure(void *context, const char *phase, int n_done, int n_all);
/* Removes the line. */
void fpl_progress_clear(const struct fpl_progress *p);

#endif
