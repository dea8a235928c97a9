/* Decides what a heap of samples says; when there are enough of them is stop.c's business. */
#include "tuner/measure/stats.h"

#include <math.h>
#include <stdlib.h>

static const double TAIL = 0.025; /* each side of a 95 % interval */

static int compare_numbers(const void *a, const void *b) {
  const double x = *(const double *)a;
  const double y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median_of_sorted(const double *v, int64_t n) {
  return n % 2 ? v[n / 2] : 0.5 * (v[n / 2 - 1] + v[n / 2]);
}

/* Nearest rank. */
static double percentile_of_sorted(const double *v, int64_t n, double part) {
  const int64_t rank = (int64_t)ceil(part * (double)n);
  return v[rank < 1 ? 0 : rank - 1];
}

bool fpl_sample_is_valid(double us) {
  return isfinite(us) && us > 0;
}

int64_t fpl_interval_rank(int64_t n) {
  /* P(B <= i), B binomial(n, 1/2), summed in logarithms: 2^-n underflows beyond n = 1074. */
  double log_term = -(double)n * log(2.0);
  double sum = 0;
  int64_t rank = 0;
  while (rank < n / 2) {
    sum += exp(log_term);
    if (sum > TAIL)
      break;
    log_term += log((double)(n - rank) / (double)(rank + 1));
    rank++;
  }
  return rank;
}

static void interval_of_sorted(const double *v, int64_t n, double *low, double *high) {
  const int64_t rank = fpl_interval_rank(n);
  *low = v[rank > 0 ? rank - 1 : 0];
  *high = v[rank > 0 ? n - rank : n - 1];
}

int64_t fpl_stats_make(const double *us, int64_t n, double *scratch, struct fpl_stats *out) {
  *out = (struct fpl_stats){0};
  int64_t n_valid = 0;
  for (int64_t i = 0; i < n; i++)
    if (fpl_sample_is_valid(us[i]))
      scratch[n_valid++] = us[i];
  if (n_valid > 0) {
    qsort(scratch, (size_t)n_valid, sizeof *scratch, compare_numbers);
    out->n = n_valid;
    out->median_us = median_of_sorted(scratch, n_valid);
    out->p05_us = percentile_of_sorted(scratch, n_valid, 0.05);
    out->p95_us = percentile_of_sorted(scratch, n_valid, 0.95);
    out->least_us = scratch[0];
    interval_of_sorted(scratch, n_valid, &out->low_us, &out->high_us);
  }
  return n - n_valid;
}

double fpl_stats_relative_width(const struct fpl_stats *s) {
  return s->n < FPL_INTERVAL_LEAST ? (double)INFINITY : (s->high_us - s->low_us) / s->median_us;
}

void fpl_pair_compare(const double *first, const double *second, int64_t n, double *scratch,
                      struct fpl_pair *out) {
  *out = (struct fpl_pair){0};
  int64_t n_pairs = 0;
  for (int64_t i = 0; i < n; i++)
    if (fpl_sample_is_valid(first[i]) && fpl_sample_is_valid(second[i]))
      scratch[n_pairs++] = first[i] / second[i];
  if (n_pairs == 0)
    return;
  qsort(scratch, (size_t)n_pairs, sizeof *scratch, compare_numbers);
  out->n = n_pairs;
  out->ratio = median_of_sorted(scratch, n_pairs);
  interval_of_sorted(scratch, n_pairs, &out->low, &out->high);
  out->is_separated = n_pairs >= FPL_INTERVAL_LEAST && (out->high < 1 || out->low > 1);
}
