/* Stopping rule: has a candidate been sampled enough? A pure function of numbers. */
#ifndef FPL_MEASURE_STOP_H
#define FPL_MEASURE_STOP_H

#include "tuner/measure/stats.h"

enum fpl_stop {
  FPL_STOP_NOT,    /* go on */
  FPL_STOP_STEADY, /* the median is known well enough */
  FPL_STOP_MOST,   /* most_samples taken */
  FPL_STOP_SLOWER, /* clearly slower than the best: abandoned */
  FPL_STOP_BUDGET  /* time is up */
};

struct fpl_stop_options {
  int64_t least_samples; /* before a candidate counts as steady */
  int64_t most_samples;
  double budget_us;
  double relative_width;  /* steady: the median's 95 % interval is narrower than this part of it */
  double slower_factor;   /* abandoned at more than this times the best ... */
  int64_t slower_samples; /* ... after so many samples */
  double hopeless_factor; /* abandoned at more than this times the best, however few samples */
};

/* The rule's own numbers, with the caller's counts and budget. */
struct fpl_stop_options fpl_stop_options_make(int64_t least_samples, int64_t most_samples,
                                              double budget_us);

/* `best_us`: median of the best candidate so far; 0 when there is none, or when this candidate is
 * never to be abandoned. "More than" is judged at the low end of the own interval. */
enum fpl_stop fpl_stop_decide(const struct fpl_stats *own, double best_us, double elapsed_us,
                              const struct fpl_stop_options *options);

#endif
