/* Arguments: the public structures checked and turned into the vocabulary of tuner/core. Every
 * failure is FPL_USAGE and names the argument. */
#ifndef FPL_LIB_ARGUMENTS_H
#define FPL_LIB_ARGUMENTS_H

#include "tuner/core/device.h"
#include "tuner/core/problem.h"
#include "tuner/lib/fuseplan.h"

/* A structure of this version: neither NULL nor of another size. `size`: its first member. */
enum fpl_status fpl_argument_struct(const void *structure, size_t known_size, const char *name,
                                    struct fpl_err *err);
enum fpl_status fpl_argument_problem(const struct fuseplan_problem *given, struct fpl_problem *out,
                                     struct fpl_err *err);
/* Fills what makes a device class; the rest is 0. */
enum fpl_status fpl_argument_device(const struct fuseplan_device *given, struct fpl_device *out,
                                    struct fpl_err *err);
/* NULL: every plan, at every tier. */
enum fpl_status fpl_argument_options(const struct fuseplan_options *given,
                                     struct fuseplan_options *out, struct fpl_err *err);
/* The problem with m rows instead of its own: of a conv_chain, with as many whole images. */
enum fpl_status fpl_argument_rows(const struct fpl_problem *problem, int64_t m,
                                  struct fpl_problem *out, struct fpl_err *err);

#endif
