/* Statistics of samples: order statistics only, since GPU times have heavy right tails.
 * Numbers in, numbers out; no clock, no allocation.
 *
 * A sample is valid when it is finite and > 0; others are left out and counted.
 */
#ifndef FPL_MEASURE_STATS_H
#define FPL_MEASURE_STATS_H

#include "tuner/core/plan.h"

#include <stdbool.h>
#include <stdint.h>

/* Fewest samples whose least and greatest enclose the median with 95 % confidence: 2 / 2^6 < 5 %.
 * With fewer, an interval is [least, greatest] and proves nothing. */
enum { FPL_INTERVAL_LEAST = 6 };

bool fpl_sample_is_valid(double us);

/* Median (mean of the middle two), 5th and 95th percentile (nearest rank), least, and the
 * distribution-free 95 % interval of the median. `scratch` holds n numbers. All zero when no
 * sample is valid. Returns the number of invalid samples. */
int64_t fpl_stats_make(const double *us, int64_t n, double *scratch, struct fpl_stats *out);

/* (high - low) / median, or infinity without enough samples for an interval. */
double fpl_stats_relative_width(const struct fpl_stats *s);

/* Rank k, from 1, such that the k-th least and the k-th greatest of n samples enclose the median
 * with at least 95 %; 0 when n < FPL_INTERVAL_LEAST. Source: binomial(n, 1/2), sign test. */
int64_t fpl_interval_rank(int64_t n);

/* Two candidates sampled in the same rounds: drift of clocks and temperature cancels in the ratio
 * of samples with the same index. */
struct fpl_pair {
  int64_t n;         /* pairs of which both samples are valid */
  double ratio;      /* median of first / second; 0 without pairs */
  double low, high;  /* its 95 % interval */
  bool is_separated; /* the interval is one, and 1 lies outside */
};

/* Compares first[i] with second[i], i < n. `scratch` holds n numbers. */
void fpl_pair_compare(const double *first, const double *second, int64_t n, double *scratch,
                      struct fpl_pair *out);

#endif
