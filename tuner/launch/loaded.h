/* Loaded: a kernel's machine code in the current context, fitted to its device, and its launch. */
#ifndef FPL_LAUNCH_LOADED_H
#define FPL_LAUNCH_LOADED_H

#include "tuner/core/kernel.h"
#include "tuner/launch/driver.h"

/* All-zero is closed. */
struct fpl_loaded {
  struct fpl_kernel kernel; /* max_clusters lowered to what fits; without its cubin */
  CUmodule module;
  CUfunction function;
  bool is_early;
};

/* `image`: a whole cubin. sms: of the device; m: rows of a usual launch. is_early: launched before
 * the kernels before it have ended (programmatic stream serialization). Failures: launch_error (bad
 * image or symbol), resource_limit, oom. On failure nothing is left open. */
bool fpl_loaded_open(const struct fpl_driver *driver, const struct fpl_kernel *kernel,
                     const void *image, int sms, int64_t m, bool is_early, struct fpl_loaded *out,
                     struct fpl_failure *failure);
void fpl_loaded_close(const struct fpl_driver *driver, struct fpl_loaded *loaded);

struct fpl_launch {
  CUtensorMap *maps; /* [FPL_KERNEL_MAPS], for m rows */
  CUdeviceptr e, workspace;
  int m;
};
/* Queues one launch; allocates nothing and waits for nothing, so `stream` may be capturing. */
bool fpl_loaded_launch(const struct fpl_driver *driver, const struct fpl_loaded *loaded,
                       const struct fpl_launch *launch, CUstream stream,
                       struct fpl_failure *failure);

#endif
