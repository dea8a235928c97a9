/* Failure: why a request to the GPU was not met. A typed answer, not a status: it belongs to
 * one candidate (with its outcome), or to the device. */
#ifndef FPL_LAUNCH_FAILURE_H
#define FPL_LAUNCH_FAILURE_H

#include "tuner/core/outcome.h"

struct fpl_failure {
  enum fpl_outcome outcome; /* meaningless when is_device */
  bool is_device;           /* nothing can be measured here, whatever the candidate */
  bool is_sticky;           /* the context is lost: this process must end */
  char reason[256];
};

/* Both write the failure and return false, the answer of the functions that report one. */
bool fpl_failure_candidate(struct fpl_failure *out, enum fpl_outcome outcome, const char *format,
                           ...) __attribute__((format(printf, 3, 4)));
bool fpl_failure_device(struct fpl_failure *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
