/* Outcome of a candidate: what became of it. Stored with every candidate; not a function status. */
#ifndef FPL_CORE_OUTCOME_H
#define FPL_CORE_OUTCOME_H

#include <stdbool.h>

enum fpl_outcome {
  FPL_OUTCOME_PENDING,         /* not tried yet */
  FPL_OUTCOME_OK,              /* verified and measured */
  FPL_OUTCOME_CONSTRAINT,      /* refused by a legality rule */
  FPL_OUTCOME_COMPILE_ERROR,   /* NVRTC failed, or the kernel spills */
  FPL_OUTCOME_COMPILE_TIMEOUT, /* NVRTC exceeded its deadline */
  FPL_OUTCOME_RESOURCE_LIMIT,  /* shared memory, registers or cluster refused by the driver */
  FPL_OUTCOME_LAUNCH_ERROR,    /* launch refused */
  FPL_OUTCOME_STICKY_ERROR,    /* illegal access and the like: the context is lost */
  FPL_OUTCOME_RUN_TIMEOUT,     /* killed at its deadline */
  FPL_OUTCOME_WRONG_RESULT,
  FPL_OUTCOME_NONDETERMINISTIC,
  FPL_OUTCOME_INVALID_TIME, /* a sample <= 0 or not finite */
  FPL_OUTCOME_THROTTLED,
  FPL_OUTCOME_CONTENDED,
  FPL_OUTCOME_OOM,
  FPL_OUTCOME_WORKER_LOST, /* the worker ended unexpectedly */
  FPL_OUTCOME_SKIPPED,
  FPL_OUTCOME_BUILT, /* compiled, not measured (no GPU, or --measure model) */
  FPL_N_OUTCOMES
};

/* "ok", "constraint", ...; NULL-terminated. */
extern const char *const fpl_outcome_names[FPL_N_OUTCOMES + 1];

#endif
