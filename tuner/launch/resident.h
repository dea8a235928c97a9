/* Resident: a kernel in a CUDA context of the caller, for callers that know nothing of cuda.h. In a
 * build without CUDA headers resident_none.c answers every call with a failure. */
#ifndef FPL_LAUNCH_RESIDENT_H
#define FPL_LAUNCH_RESIDENT_H

#include "tuner/core/kernel.h"
#include "tuner/launch/failure.h"

struct fpl_driver;
struct fpl_resident;

/* Loads libcuda and starts it. The caller frees `*out` with free(). Failure: the device's. */
bool fpl_resident_driver(struct fpl_driver **out, struct fpl_failure *failure);

/* The calling thread's context and its device. */
struct fpl_context {
  uint64_t id; /* not given to a second context of this process */
  int64_t capability_major, capability_minor, sms, l2_bytes, memory_bytes;
  int64_t driver_version; /* 13000 for CUDA 13.0 */
};
/* Failure: the device's, also where the thread has no context. */
bool fpl_context_current(const struct fpl_driver *driver, struct fpl_context *out,
                         struct fpl_failure *failure);

/* Loads ⟨image⟩, a whole cubin, into the calling thread's context; `m`: rows of a usual launch. The
 * driver must outlive it. Failures as those of fpl_loaded_open. */
bool fpl_resident_open(const struct fpl_driver *driver, const struct fpl_kernel *kernel,
                       const void *image, int64_t m, struct fpl_resident **out,
                       struct fpl_failure *failure);
/* While its context lives. NULL allowed. */
void fpl_resident_close(struct fpl_resident *resident);

struct fpl_resident_addresses {
  uint64_t a, b, d, e, workspace;
};
/* Queues one launch over problem->m rows on a stream of the kernel's context, whichever context the
 * thread has. The recipes must fit the problem (fpl_resident_fits). Allocates nothing, waits for
 * nothing, and any number of threads may call it at once. */
bool fpl_resident_launch(const struct fpl_resident *resident, const struct fpl_problem *problem,
                         const struct fpl_resident_addresses *at, void *stream,
                         struct fpl_failure *failure);
/* Do the kernel's tensor maps stay within the problem's matrices? */
bool fpl_resident_fits(const struct fpl_kernel *kernel, const struct fpl_problem *problem,
                       struct fpl_failure *failure);

#endif
