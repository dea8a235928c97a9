#define _POSIX_C_SOURCE 200809L
#include "tuner/cli/progress.h"

#include "tuner/base/sys.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile sig_atomic_t caught;

static void remember(int number) {
  caught = number;
}

void fpl_progress_catch_signals(void) {
  struct sigaction action = {.sa_handler = remember};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
}

int fpl_progress_signal(void) {
  return caught;
}

void fpl_progress_init(struct fpl_progress *p, bool is_shown, int n_problems) {
  *p = (struct fpl_progress){.is_shown = is_shown && isatty(STDERR_FILENO),
                             .n_problems = n_problems,
                             .start_us = fpl_now_us()};
}

/* Minutes left if the problems to come take as long as those so far. */
static double left_minutes(const struct fpl_progress *p) {
  const double spent_us = fpl_now_us() - p->start_us;
  const int done = p->problem > 1 ? p->problem - 1 : 0;
  return done == 0 ? 0 : spent_us / done * (p->n_problems - done) / 60e6;
}

static void show(const struct fpl_progress *p, const char *phase, int n_done, int n_all) {
  if (p->is_shown)
    fprintf(stderr,
            "\r\033[K[%d/%d] %s: %s %d/%d | ok %d refused %d failed %d timed out %d | best %.2fx"
            " | %.0f min left",
            p->problem, p->n_problems, p->id, phase, n_done, n_all, p->n_ok, p->n_refused,
            p->n_failed, p->n_timed_out, p->best_ratio, left_minutes(p));
}

void fpl_progress_measure(void *context, const char *phase, int n_done, int n_all) {
  const struct fpl_progress *const p = context;
  if (caught != 0 && p->on_signal)
    p->on_signal(p->context, caught);
  show(p, phase, n_done, n_all);
}

void fpl_progress_build(void *context, int n_done, int n_all) {
  fpl_progress_measure(context, "build", n_done, n_all);
}

void fpl_progress_clear(const struct fpl_progress *p) {
  if (p->is_shown)
    fputs("\r\033[K", stderr);
}
