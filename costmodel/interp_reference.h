/* Inputs of an interpreted problem, and what it should compute, written without any schedule. */
#ifndef FPL_COSTMODEL_INTERP_REFERENCE_H
#define FPL_COSTMODEL_INTERP_REFERENCE_H

#include "tuner/base/arena.h"
#include "tuner/core/problem.h"

enum fpl_interp_values { FPL_INTERP_INTEGERS, FPL_INTERP_REALS };

struct fpl_interp_inputs {
  float *raw;     /* conv_chain: the image [batch][h][w][ic]; else NULL */
  float *a;       /* [m][k]; conv_chain: the im2col matrix of raw, column (dy k1 + dx) ic + c */
  int64_t *a_raw; /* [m][k]: which element of raw that is, -1: padding; NULL without raw */
  float *b[2];    /* [n][k] each; [1] only for gated_ffn */
  float *d;       /* [l][n] */
};

/* Draws the inputs from the seed: elements of the problem's type. FPL_NO_MEMORY. */
enum fpl_status fpl_interp_inputs_make(const struct fpl_problem *p, enum fpl_interp_values values,
                                       uint64_t seed, struct fpl_arena *arena,
                                       struct fpl_interp_inputs *out, struct fpl_err *err);

/* E [m][l], an element each; sums in double, C rounded to the element type. conv_chain runs on
 * `raw`, as a convolution. FPL_NO_MEMORY. */
enum fpl_status fpl_interp_reference(const struct fpl_problem *p,
                                     const struct fpl_interp_inputs *inputs,
                                     struct fpl_arena *arena, float **out, struct fpl_err *err);

#endif
