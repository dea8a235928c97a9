/* The worker: the process that owns the GPU. Started by the supervisor as `fuseplan worker`, killed
 * by it at will; see protocol.h. */
#ifndef FPL_MEASURE_WORKER_H
#define FPL_MEASURE_WORKER_H

#include "tuner/base/status.h"

/* Answers requests until "close", the end of the input, or a sticky error (all FPL_OK). What the
 * GPU's libraries or kernels print goes to stderr, also when out_fd is the standard output.
 * A request that cannot be read is answered with a failure. Errors: FPL_IO, FPL_IO_TIMEOUT when an
 * answer cannot be written, FPL_DEVICE in a build without CUDA headers. */
enum fpl_status fpl_worker_run(int in_fd, int out_fd, struct fpl_err *err);

#endif
