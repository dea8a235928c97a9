/* The worker of a build without CUDA headers; takes the place of worker.c. */
#include "tuner/measure/worker.h"

enum fpl_status fpl_worker_run(int in_fd, int out_fd, struct fpl_err *err) {
  (void)in_fd;
  (void)out_fd;
  return fpl_fail(err, FPL_DEVICE,
                  "worker: built without CUDA headers: install the toolkit and build again");
}
