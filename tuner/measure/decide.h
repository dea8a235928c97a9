/* Choice of the winner among the measured candidates of one problem. */
#ifndef FPL_MEASURE_DECIDE_H
#define FPL_MEASURE_DECIDE_H

#include "tuner/core/plan.h"

enum { FPL_DECIDE_REASON = 256 };

/* Index of the winner by cold median among results that are ok and have cold samples; -1 when there
 * is none. The library plan stays unless the best kernel is separated from it by the paired
 * interval, or its median is lower by at least `least_gain` (0.02: 2 %). Kernels that cannot be
 * told apart (not separated, medians within 0.5 %) are ranked by less shared memory, then by
 * schedule text. `reason`: one sentence with numbers. */
int fpl_decide(const struct fpl_result *results, int n, double least_gain,
               char reason[FPL_DECIDE_REASON]);

#endif
