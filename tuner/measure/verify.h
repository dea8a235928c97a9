/* Judgement of a candidate's results: thresholds and the outcome they give. Numbers only; the
 * comparison that makes the numbers runs in the worker. */
#ifndef FPL_MEASURE_VERIFY_H
#define FPL_MEASURE_VERIFY_H

#include "tuner/core/outcome.h"
#include "tuner/core/plan.h"
#include "tuner/core/problem.h"

#include <stdbool.h>

enum { FPL_VERIFY_REASON = 256 };

/* Greatest |out - ref| / |ref| (Frobenius norms, ref in f64) that a correct kernel may show on
 * random inputs. */
double fpl_verify_most_error(enum fpl_dtype dtype, enum fpl_act act);

/* Must results on integer inputs be bit-equal? Sums are exact in any order, so yes where the
 * activation keeps integers (none, relu). Not asked of the library: how it splits a sum and what it
 * rounds between is its own choice. */
bool fpl_verify_needs_exact(enum fpl_act act, bool is_library);

/* FPL_OUTCOME_OK or FPL_OUTCOME_WRONG_RESULT; `reason` is "" when ok, else names the check that
 * failed, with its numbers. */
enum fpl_outcome fpl_verify_judge(const struct fpl_problem *p, bool is_library,
                                  const struct fpl_verification *v, char reason[FPL_VERIFY_REASON]);

#endif
