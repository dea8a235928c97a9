/* Decides in which context a kernel is loaded, launched and unloaded. */
#include "tuner/launch/resident.h"

#include "tuner/launch/loaded.h"
#include "tuner/launch/maps.h"

#include <stdlib.h>
#include <string.h>

struct fpl_resident {
  const struct fpl_driver *driver;
  CUcontext context;
  struct fpl_loaded loaded;
};

bool fpl_resident_driver(struct fpl_driver **out, struct fpl_failure *failure) {
  *out = calloc(1, sizeof **out);
  if (*out == NULL)
    return fpl_failure_candidate(failure, FPL_OUTCOME_OOM, "out of host memory");
  if (fpl_driver_open(*out, failure))
    return true;
  free(*out);
  *out = NULL;
  return false;
}

static bool current_context(const struct fpl_driver *call, CUcontext *out,
                            struct fpl_failure *failure) {
  *out = NULL;
  if (!fpl_driver_ok(call, call->context_current(out), "current context", failure))
    return false;
  if (*out == NULL)
    return fpl_failure_device(failure, "this thread has no CUDA context: make one current first "
                                       "(cuCtxSetCurrent, or cudaSetDevice and cudaFree(0))");
  return true;
}

static bool read_attributes(const struct fpl_driver *call, CUdevice device, struct fpl_context *out,
                            struct fpl_failure *failure) {
  const struct {
    CUdevice_attribute attribute;
    int64_t *to;
  } wanted[] = {{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &out->capability_major},
                {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &out->capability_minor},
                {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &out->sms},
                {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &out->l2_bytes}};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    int value = 0;
    if (!fpl_driver_ok(call, call->device_attribute(&value, wanted[i].attribute, device),
                       "device attribute", failure))
      return false;
    *wanted[i].to = value;
  }
  return true;
}

bool fpl_context_current(const struct fpl_driver *call, struct fpl_context *out,
                         struct fpl_failure *failure) {
  CUcontext context = NULL;
  CUdevice device = 0;
  unsigned long long id = 0;
  size_t memory_bytes = 0;
  int version = 0;
  *out = (struct fpl_context){0};
  if (!current_context(call, &context, failure) ||
      !fpl_driver_ok(call, call->context_id(context, &id), "context id", failure) ||
      !fpl_driver_ok(call, call->context_device(&device), "context's device", failure) ||
      !fpl_driver_ok(call, call->device_memory(&memory_bytes, device), "memory", failure) ||
      !fpl_driver_ok(call, call->driver_version(&version), "driver version", failure) ||
      !read_attributes(call, device, out, failure))
    return false;
  out->id = id;
  out->memory_bytes = (int64_t)memory_bytes;
  out->driver_version = version;
  return true;
}

bool fpl_resident_open(const struct fpl_driver *call, const struct fpl_kernel *kernel,
                       const void *image, int64_t m, struct fpl_resident **out,
                       struct fpl_failure *failure) {
  struct fpl_context facts;
  *out = NULL;
  if (!fpl_context_current(call, &facts, failure))
    return false;
  struct fpl_resident *const resident = calloc(1, sizeof *resident);
  if (resident == NULL)
    return fpl_failure_candidate(failure, FPL_OUTCOME_OOM, "out of host memory");
  resident->driver = call;
  if (!current_context(call, &resident->context, failure) ||
      !fpl_loaded_open(call, kernel, image, (int)facts.sms, m, false, &resident->loaded, failure)) {
    free(resident);
    return false;
  }
  *out = resident;
  return true;
}

/* Makes the kernel's context the thread's; leave() puts the former one back. */
static bool enter(const struct fpl_resident *resident, bool *out_pushed,
                  struct fpl_failure *failure) {
  const struct fpl_driver *call = resident->driver;
  CUcontext context = NULL;
  *out_pushed = false;
  if (!fpl_driver_ok(call, call->context_current(&context), "current context", failure))
    return false;
  if (context == resident->context)
    return true;
  *out_pushed = fpl_driver_ok(call, call->context_push(resident->context),
                              "use the kernel's context", failure);
  return *out_pushed;
}

static void leave(const struct fpl_resident *resident, bool was_pushed) {
  CUcontext context = NULL;
  if (was_pushed)
    resident->driver->context_pop(&context);
}

void fpl_resident_close(struct fpl_resident *resident) {
  if (resident == NULL)
    return;
  struct fpl_failure failure;
  bool was_pushed = false;
  if (enter(resident, &was_pushed, &failure))
    fpl_loaded_close(resident->driver, &resident->loaded);
  leave(resident, was_pushed);
  free(resident);
}

bool fpl_resident_fits(const struct fpl_kernel *kernel, const struct fpl_problem *problem,
                       struct fpl_failure *failure) {
  for (int i = 0; i < FPL_KERNEL_MAPS; i++)
    if (!fpl_map_check(&kernel->maps[i], problem, i, failure))
      return false;
  return true;
}

bool fpl_resident_launch(const struct fpl_resident *resident, const struct fpl_problem *problem,
                         const struct fpl_resident_addresses *at, void *stream,
                         struct fpl_failure *failure) {
  const struct fpl_driver *call = resident->driver;
  CUtensorMap maps[FPL_KERNEL_MAPS];
  const CUdeviceptr matrices[FPL_KERNEL_MAPS] = {at->a, at->b, at->d};
  for (int i = 0; i < FPL_KERNEL_MAPS; i++)
    if (!fpl_map_encode(call, &resident->loaded.kernel.maps[i], problem, matrices[i], &maps[i],
                        failure))
      return false;
  const struct fpl_launch launch = {
      .maps = maps, .e = at->e, .workspace = at->workspace, .m = (int)problem->m};
  bool was_pushed = false;
  const bool is_ok = enter(resident, &was_pushed, failure) &&
                     fpl_loaded_launch(call, &resident->loaded, &launch, (CUstream)stream, failure);
  leave(resident, was_pushed);
  return is_ok;
}
