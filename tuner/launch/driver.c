/* Decides where libcuda is found and whose fault an error is. Leaves to others what is launched. */
#include "tuner/launch/driver.h"

#include "tuner/launch/library.h"

#define FPL_TEXT_OF(name) #name
/* Two steps, so that cuda.h's macro turns cuMemAlloc into cuMemAlloc_v2 before it becomes text. */
#define FPL_EXPANDED_TEXT_OF(name) FPL_TEXT_OF(name)

static bool find_functions(struct fpl_driver *driver, const char **out_missing) {
  static const struct {
    const char *symbol;
    size_t offset;
  } table[] = {
#define FPL_DRIVER_ENTRY(member, function)                                                         \
  {FPL_EXPANDED_TEXT_OF(function), offsetof(struct fpl_driver, member)},
      FPL_DRIVER_CALLS(FPL_DRIVER_ENTRY)
#undef FPL_DRIVER_ENTRY
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
    if (!fpl_library_symbol(driver->library, table[i].symbol, (char *)driver + table[i].offset)) {
      *out_missing = table[i].symbol;
      return false;
    }
  return true;
}

bool fpl_driver_open(struct fpl_driver *out, struct fpl_failure *failure) {
  static const char *const names[] = {"libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1",
                                      "libcuda.so", NULL};
  *out = (struct fpl_driver){0};
  out->library = fpl_library_open(names);
  if (out->library == NULL)
    return fpl_failure_device(failure, "libcuda.so.1 cannot be loaded: is a driver installed?");
  const char *missing = NULL;
  if (!find_functions(out, &missing))
    return fpl_failure_device(failure, "the driver lacks %s: it is older than CUDA %d.%d", missing,
                              CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);
  if (!fpl_driver_ok(out, out->init(0), "cuInit", failure)) {
    failure->is_device = true;
    return false;
  }
  return true;
}

enum fpl_outcome fpl_driver_outcome(CUresult code) {
  switch (code) {
  case CUDA_SUCCESS:
    return FPL_OUTCOME_OK;
  case CUDA_ERROR_OUT_OF_MEMORY:
    return FPL_OUTCOME_OOM;
  case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
  case CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE:
  case CUDA_ERROR_INVALID_CLUSTER_SIZE:
  case CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION:
    return FPL_OUTCOME_RESOURCE_LIMIT;
  /* cuda.h says of each of these that the process must end to go on, or that the device is gone. */
  case CUDA_ERROR_ECC_UNCORRECTABLE:
  case CUDA_ERROR_NVLINK_UNCORRECTABLE:
  case CUDA_ERROR_CONTAINED:
  case CUDA_ERROR_ILLEGAL_ADDRESS:
  case CUDA_ERROR_LAUNCH_TIMEOUT:
  case CUDA_ERROR_CONTEXT_IS_DESTROYED:
  case CUDA_ERROR_ASSERT:
  case CUDA_ERROR_HARDWARE_STACK_ERROR:
  case CUDA_ERROR_ILLEGAL_INSTRUCTION:
  case CUDA_ERROR_MISALIGNED_ADDRESS:
  case CUDA_ERROR_INVALID_ADDRESS_SPACE:
  case CUDA_ERROR_INVALID_PC:
  case CUDA_ERROR_LAUNCH_FAILED:
  case CUDA_ERROR_TENSOR_MEMORY_LEAK:
  case CUDA_ERROR_EXTERNAL_DEVICE:
  case CUDA_ERROR_DEVICE_UNAVAILABLE:
  case CUDA_ERROR_UNKNOWN:
    return FPL_OUTCOME_STICKY_ERROR;
  default:
    return FPL_OUTCOME_LAUNCH_ERROR;
  }
}

bool fpl_driver_ok(const struct fpl_driver *driver, CUresult code, const char *what,
                   struct fpl_failure *failure) {
  if (code == CUDA_SUCCESS)
    return true;
  const char *name = NULL;
  const char *text = NULL;
  if (driver->error_name(code, &name) != CUDA_SUCCESS || name == NULL)
    name = "unknown error";
  if (driver->error_string(code, &text) != CUDA_SUCCESS || text == NULL)
    text = "no text";
  return fpl_failure_candidate(failure, fpl_driver_outcome(code), "%s: %s (%d): %s", what, name,
                               (int)code, text);
}
