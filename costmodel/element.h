/* Element arithmetic of the dataflow: rounding to the problem's element type and the activations.
 * Values travel as float; "an element" is a float that the type holds exactly. */
#ifndef FPL_COSTMODEL_ELEMENT_H
#define FPL_COSTMODEL_ELEMENT_H

#include "tuner/core/problem.h"

/* Nearest value of the type, ties to even; beyond the largest finite value infinity (IEEE 754). */
float fpl_element_round(enum fpl_dtype dtype, float value);

/* none, relu, gelu (tanh form), silu: as defined at enum fpl_act. */
double fpl_act_apply(enum fpl_act act, double x);

#endif
