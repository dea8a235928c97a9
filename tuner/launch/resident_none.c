/* Kernels of a build without CUDA headers; takes the place of resident.c. */
#include "tuner/launch/resident.h"

#include <stddef.h>

static bool refuse(struct fpl_failure *failure) {
  return fpl_failure_device(failure,
                            "built without CUDA headers: install the toolkit and build again");
}

bool fpl_resident_driver(struct fpl_driver **out, struct fpl_failure *failure) {
  *out = NULL;
  return refuse(failure);
}

bool fpl_context_current(const struct fpl_driver *driver, struct fpl_context *out,
                         struct fpl_failure *failure) {
  (void)driver;
  *out = (struct fpl_context){0};
  return refuse(failure);
}

bool fpl_resident_open(const struct fpl_driver *driver, const struct fpl_kernel *kernel,
                       const void *image, int64_t m, struct fpl_resident **out,
                       struct fpl_failure *failure) {
  (void)driver, (void)kernel, (void)image, (void)m;
  *out = NULL;
  return refuse(failure);
}

void fpl_resident_close(struct fpl_resident *resident) {
  (void)resident;
}

bool fpl_resident_fits(const struct fpl_kernel *kernel, const struct fpl_problem *problem,
                       struct fpl_failure *failure) {
  (void)kernel, (void)problem;
  return refuse(failure);
}

bool fpl_resident_launch(const struct fpl_resident *resident, const struct fpl_problem *problem,
                         const struct fpl_resident_addresses *at, void *stream,
                         struct fpl_failure *failure) {
  (void)resident, (void)problem, (void)at, (void)stream;
  return refuse(failure);
}
