#include "tuner/measure/stop.h"

/* nvbench's `stdrel` rule: relative deviation below 0.5 %. */
static const double RELATIVE_WIDTH = 0.005;
/* A median that is known from 8 samples to some 3 % at 2 % noise cannot be off by half. */
static const double SLOWER_FACTOR = 1.5;
enum { SLOWER_SAMPLES = 8 };
/* Above the greatest start-up effect reported for single launches (2.6 x). */
static const double HOPELESS_FACTOR = 3.0;

struct fpl_stop_options fpl_stop_options_make(int64_t least_samples, int64_t most_samples,
                                              double budget_us) {
  return (struct fpl_stop_options){
      .least_samples = least_samples,
      .most_samples = most_samples,
      .budget_us = budget_us,
      .relative_width = RELATIVE_WIDTH,
      .slower_factor = SLOWER_FACTOR,
      .slower_samples = SLOWER_SAMPLES,
      .hopeless_factor = HOPELESS_FACTOR,
  };
}

static bool is_slower(const struct fpl_stats *own, double best_us,
                      const struct fpl_stop_options *o) {
  if (own->n == 0 || best_us <= 0)
    return false;
  return own->low_us > o->hopeless_factor * best_us ||
         (own->n >= o->slower_samples && own->low_us > o->slower_factor * best_us);
}

enum fpl_stop fpl_stop_decide(const struct fpl_stats *own, double best_us, double elapsed_us,
                              const struct fpl_stop_options *options) {
  if (elapsed_us >= options->budget_us)
    return FPL_STOP_BUDGET;
  if (own->n >= options->most_samples)
    return FPL_STOP_MOST;
  if (is_slower(own, best_us, options))
    return FPL_STOP_SLOWER;
  if (own->n >= options->least_samples && fpl_stats_relative_width(own) < options->relative_width)
    return FPL_STOP_STEADY;
  return FPL_STOP_NOT;
}
