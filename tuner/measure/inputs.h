/* Inputs: the matrices on the device that all candidates of a problem share, and the reference
 * results in f64.
 *
 * Sets 0 .. n_sets-1 are random and for timing (set 0 also for verification), drawn so that C and E
 * are of order 1: A uniform of variance 1, B of variance 1/k, D of variance 1/n. One more set,
 * index n_sets, holds only -1, 0 and 1 (fpl_rotation_density), for exact verification. Where a conv's
 * kernel reaches past the image C has fewer terms, and both hold all the more.
 */
#ifndef FPL_MEASURE_INPUTS_H
#define FPL_MEASURE_INPUTS_H

#include "tuner/measure/gpu.h"

/* Bits of an element that nobody has written: a NaN in f16 and in bf16. */
enum { FPL_SENTINEL = 0x7FDA };

struct fpl_operands {
  CUdeviceptr a; /* [m][k]; conv_chain: the image [batch][h][w][ic] */
  CUdeviceptr b; /* [branches n][k]; conv_chain: [n][k1][k1][ic] */
  CUdeviceptr d; /* [l][n] */
};

struct fpl_inputs {
  struct fpl_problem problem;
  int64_t n_sets;              /* of random values; there is one set more */
  struct fpl_operands *sets;   /* [n_sets + 1], heap */
  CUdeviceptr slab;            /* all sets */
  CUdeviceptr output;          /* guard, E [m][l], guard */
  uint64_t output_bytes;       /* with both guards */
  uint64_t guard_bytes;        /* each */
  CUdeviceptr e;               /* inside output */
  CUdeviceptr e_copy;          /* [m][l]: first of two results, compared with the second */
  CUdeviceptr reference;       /* [m][l] f64, of random set 0 */
  CUdeviceptr reference_exact; /* [m][l] f64, of set n_sets */
  CUdeviceptr counters;        /* results of comparisons: FPL_COUNTER_BYTES */
};
enum { FPL_COUNTER_BYTES = 256 };

/* Allocates, fills, computes both references and waits. All-zero inputs are closed.
 * Failures: out of memory is the device's failure, as every other. */
bool fpl_inputs_open(const struct fpl_gpu *gpu, const struct fpl_problem *problem, uint64_t seed,
                     struct fpl_inputs *out, struct fpl_failure *failure);
void fpl_inputs_close(const struct fpl_gpu *gpu, struct fpl_inputs *inputs);

/* Queues: writes the sentinel over E and its guards. */
bool fpl_inputs_poison(const struct fpl_gpu *gpu, const struct fpl_inputs *inputs,
                       struct fpl_failure *failure);

/* Queues: writes the sentinel over n_elements 16-bit elements. */
bool fpl_inputs_fill_sentinel(const struct fpl_gpu *gpu, CUdeviceptr to, uint64_t n_elements,
                              struct fpl_failure *failure);

#endif
