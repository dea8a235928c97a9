/* Ports: the tables of functions through which the middle layers meet. The command line fills them;
 * tests fill them with fakes (tests/fakes). Object first; every slot is set. */
#ifndef FPL_CORE_PORTS_H
#define FPL_CORE_PORTS_H

#include "tuner/core/legal.h"
#include "tuner/core/plan.h"

/* Cost model. No allocation; called millions of times; (t, f) come from fpl_legal. */
struct fpl_cost_port {
  void *self;
  /* Predicted time of a legal candidate, microseconds, > 0 and finite. */
  double (*est_us)(void *self, const struct fpl_problem *p, const struct fpl_schedule *s,
                   const struct fpl_device *d, const struct fpl_tiling *t,
                   const struct fpl_footprint *f);
};

/* Builder. */
struct fpl_builder_port {
  void *self;
  /* Builds the kernels of results[0..n) that are pending (not the library's), in parallel; fills
   * kernel, and on failure outcome and reason. Returns a status only when nothing can be built at
   * all (no NVRTC). `progress` may be NULL; called with the number done. */
  enum fpl_status (*build)(void *self, const struct fpl_problem *p, const struct fpl_device *d,
                           struct fpl_result *results, int n,
                           void (*progress)(void *context, int n_done, int n_all), void *context,
                           struct fpl_err *err);
};

/* Measurer: verifies, then times, all candidates of one problem against one another. */
struct fpl_measure_options {
  double budget_us;      /* wall clock for this problem */
  uint64_t seed;         /* of inputs and of the order */
  int64_t least_samples; /* per candidate and cache state */
  int64_t most_samples;
};
struct fpl_measurer_port {
  void *self;
  /* Fills outcome, reason, verification, samples, stats, method of every result whose outcome is
   * pending; a fault costs one candidate. Returns a status only when the device is unusable. */
  enum fpl_status (*measure)(void *self, const struct fpl_problem *p,
                             const struct fpl_measure_options *options, struct fpl_result *results,
                             int n, struct fpl_environment *environment,
                             void (*progress)(void *context, const char *phase, int n_done,
                                              int n_all),
                             void *context, struct fpl_err *err);
};

#endif
