/* Rotation: numbers of the measurement that need no GPU: how many input sets a cold measurement
 * rotates over, how dense the exact inputs are, which kernel records make up one plan's time. */
#ifndef FPL_MEASURE_ROTATION_H
#define FPL_MEASURE_ROTATION_H

#include "tuner/core/problem.h"

#include <stdbool.h>
#include <stdint.h>

/* Sets of (A, B, D): enough for their weights to exceed twice the L2 (and 240 MB, the amount that
 * the H200 library baselines were taken with), so that weights come from memory. At least 2, at
 * most 400 and at most 24 GB of inputs; the least wins over the most. */
int64_t fpl_rotation_sets(int64_t weight_bytes, int64_t set_bytes, int64_t l2_bytes);

/* Launches of one graph replay: whole rotations, at least 8 launches. */
int64_t fpl_rotation_launches(int64_t n_sets);

/* Share of nonzero (-1 or 1) elements of the exact inputs. Chosen so that C stays within the
 * integers that bf16 holds (256) and E far below f16's largest (65504), both at six standard
 * deviations; then every f32 sum is an exact integer in any order, and the one rounding to the
 * element type gives the same bits everywhere. */
struct fpl_integer_density {
  double a, b, d;
};
void fpl_rotation_density(const struct fpl_problem *p, struct fpl_integer_density *out);

/* One kernel record. */
struct fpl_span {
  uint64_t start_ns, end_ns;
};

/* Sorts the records by start and cuts them into n_launches groups of equal size, in order; a
 * group's time is its first start to its last end, microseconds (negative where the records say
 * so). False when the records do not divide evenly: some were lost. */
bool fpl_rotation_group(struct fpl_span *spans, int64_t n_spans, int64_t n_launches,
                        double *out_us);

#endif
