/* Builds failures; who is to blame is decided by the callers. */
#include "tuner/launch/failure.h"

#include <stdarg.h>
#include <stdio.h>

bool fpl_failure_candidate(struct fpl_failure *out, enum fpl_outcome outcome, const char *format,
                           ...) {
  *out = (struct fpl_failure){.outcome = outcome, .is_sticky = outcome == FPL_OUTCOME_STICKY_ERROR};
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(out->reason, sizeof out->reason, format, arguments);
  va_end(arguments);
  return false;
}

bool fpl_failure_device(struct fpl_failure *out, const char *format, ...) {
  *out = (struct fpl_failure){.outcome = FPL_OUTCOME_PENDING, .is_device = true};
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(out->reason, sizeof out->reason, format, arguments);
  va_end(arguments);
  return false;
}
