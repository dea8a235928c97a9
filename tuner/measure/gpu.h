/* GPU: one device in use by the measurement: its context, plain memory and the support kernels. */
#ifndef FPL_MEASURE_GPU_H
#define FPL_MEASURE_GPU_H

#include "tuner/core/plan.h"
#include "tuner/launch/driver.h"

#include <stdint.h>

/* Kernels of codegen/skeletons/support_sm90.cu, by name. */
enum fpl_support {
  FPL_SUPPORT_FILL_BITS,
  FPL_SUPPORT_FILL_RANDOM,
  FPL_SUPPORT_FILL_INTEGERS,
  FPL_SUPPORT_REFERENCE_GEMM0,
  FPL_SUPPORT_REFERENCE_GEMM1,
  FPL_SUPPORT_REFERENCE_CONV0,
  FPL_SUPPORT_COMPARE,
  FPL_SUPPORT_COUNT_CHANGED,
  FPL_SUPPORT_COUNT_DIFFERENT,
  FPL_SUPPORT_ACTIVATION,
  FPL_N_SUPPORT
};

/* One device in use; all work goes to `stream`. All-zero is closed. */
struct fpl_gpu {
  struct fpl_driver call;
  CUdevice device;
  CUcontext context; /* the primary one, which the library uses too */
  CUstream stream;
  CUevent start, stop;
  CUmodule support_module;
  CUfunction support[FPL_N_SUPPORT];
  int64_t l2_bytes;
  int sms;
};

/* Context, stream, events, for a gpu that is all-zero but for `call`, which is open; then the
 * support kernels from the cubin ⟨image⟩ (a whole ELF image). Failures: the device's. */
bool fpl_gpu_open(int ordinal, struct fpl_gpu *gpu, struct fpl_failure *failure);
bool fpl_gpu_load_support(struct fpl_gpu *gpu, const void *image, struct fpl_failure *failure);
void fpl_gpu_close(struct fpl_gpu *gpu);

/* Sets driver, device_name, uuid, sms, l2_bytes, hbm_mib, sm_clock_mhz (the device's maximum). */
bool fpl_gpu_describe(const struct fpl_gpu *gpu, struct fpl_environment *environment,
                      struct fpl_failure *failure);

/* Waits for the stream; `what` names the work in the failure. */
bool fpl_gpu_wait(const struct fpl_gpu *gpu, const char *what, struct fpl_failure *failure);
/* Device memory, 256-byte aligned at least (CUDA programming guide); free with fpl_gpu_free. */
bool fpl_gpu_alloc(const struct fpl_gpu *gpu, uint64_t bytes, CUdeviceptr *out,
                   struct fpl_failure *failure);
void fpl_gpu_free(const struct fpl_gpu *gpu, CUdeviceptr *pointer);
/* Waits, then copies to the host. */
bool fpl_gpu_read(const struct fpl_gpu *gpu, CUdeviceptr from, size_t bytes, void *out,
                  struct fpl_failure *failure);
/* Queues a support kernel. */
struct fpl_support_grid {
  unsigned x, y, threads;
};
bool fpl_gpu_support(const struct fpl_gpu *gpu, enum fpl_support kernel,
                     struct fpl_support_grid grid, void **parameters, struct fpl_failure *failure);

#endif
