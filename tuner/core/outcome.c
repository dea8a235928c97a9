#include "tuner/core/outcome.h"

#include <stddef.h>

const char *const fpl_outcome_names[FPL_N_OUTCOMES + 1] = {"pending",
                                                           "ok",
                                                           "constraint",
                                                           "compile_error",
                                                           "compile_timeout",
                                                           "resource_limit",
                                                           "launch_error",
                                                           "sticky_error",
                                                           "run_timeout",
                                                           "wrong_result",
                                                           "nondeterministic",
                                                           "invalid_time",
                                                           "throttled",
                                                           "contended",
                                                           "oom",
                                                           "worker_lost",
                                                           "skipped",
                                                           "built",
                                                           NULL};
