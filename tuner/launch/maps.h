/* Maps: tensor maps encoded from a kernel's recipes (tuner/core/kernel.h). */
#ifndef FPL_LAUNCH_MAPS_H
#define FPL_LAUNCH_MAPS_H

#include "tuner/core/kernel.h"
#include "tuner/launch/driver.h"

/* Does the recipe of map `index` (A, B, D) stay within its matrix? One that reaches past it would
 * read a neighbour's memory without a fault. Failure: launch_error. */
bool fpl_map_check(const struct fpl_map_recipe *recipe, const struct fpl_problem *p, int index,
                   struct fpl_failure *failure);
/* Over the matrix at `address`, 16-byte aligned, for a recipe that fpl_map_check let pass. Needs no
 * context and allocates nothing. Failure: launch_error. */
bool fpl_map_encode(const struct fpl_driver *driver, const struct fpl_map_recipe *recipe,
                    const struct fpl_problem *p, CUdeviceptr address, CUtensorMap *out,
                    struct fpl_failure *failure);

#endif
