/* Interpreter: runs a schedule's dataflow (MODEL.md section 1) on the CPU, cluster by cluster and
 * block by block, with real numbers and counted bytes. It knows none of the analyzer's formulas:
 * every byte it reports was moved. */
#ifndef FPL_COSTMODEL_INTERP_H
#define FPL_COSTMODEL_INTERP_H

#include "costmodel/analyzer.h"
#include "tuner/core/legal.h"

/* Largest problem: multiply-adds m n (branches k + l). */
enum { FPL_INTERP_MULTIPLY_ADDS = 1 << 27 };

struct fpl_interp_report {
  struct fpl_verdict verdict; /* FPL_RULE_NONE: legal and run; otherwise all below is zero */
  bool is_sound;              /* E (and C of two phases) stored exactly once, workspace left zero */
  bool is_exact;              /* sound, and E equals the reference everywhere */
  double max_abs_error;       /* of E against the reference; infinity for a NaN */
  double max_abs_value;       /* of the reference */
  struct fpl_traffic traffic;
};

/* On inputs -1, 0 and 1 drawn from the seed: all sums are exact in f32, so that with act none or
 * relu a right dataflow is exact, in any order of adding. The reference is a plain triple loop (a
 * direct convolution for conv_chain) in double, C rounded to the element type.
 * Errors: FPL_USAGE for a problem above FPL_INTERP_MULTIPLY_ADDS, a schedule field out of its range
 * or a device with clusters above 16 blocks; FPL_NO_MEMORY. */
enum fpl_status fpl_interpret(const struct fpl_problem *p, const struct fpl_schedule *s,
                              const struct fpl_device *d, uint64_t seed,
                              struct fpl_interp_report *out, struct fpl_err *err);

/* The same on reals between -1 and 1, rounded to the element type; the weights of the second
 * product are scaled by 1/sqrt(n), the others by 1/sqrt(k). */
enum fpl_status fpl_interpret_reals(const struct fpl_problem *p, const struct fpl_schedule *s,
                                    const struct fpl_device *d, uint64_t seed,
                                    struct fpl_interp_report *out, struct fpl_err *err);

#endif
