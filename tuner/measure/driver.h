/* Driver: libcuda, loaded at run time, and what every user of it shares: the table of its
 * functions, the context, the classification of its errors, plain memory and the support kernels.
 *
 * The functions are looked up by the versioned names of the cuda.h this was built with
 * (cuMemAlloc_v2, ...), so that types and entry points agree.
 */
#ifndef FPL_MEASURE_DRIVER_H
#define FPL_MEASURE_DRIVER_H

#include "tuner/core/plan.h"
#include "tuner/measure/failure.h"

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

/* X(member, function of cuda.h) */
#define FPL_DRIVER_CALLS(X)                                                                        \
  X(init, cuInit)                                                                                  \
  X(driver_version, cuDriverGetVersion)                                                            \
  X(error_name, cuGetErrorName)                                                                    \
  X(error_string, cuGetErrorString)                                                                \
  X(device_get, cuDeviceGet)                                                                       \
  X(device_name, cuDeviceGetName)                                                                  \
  X(device_uuid, cuDeviceGetUuid)                                                                  \
  X(device_pci, cuDeviceGetPCIBusId)                                                               \
  X(device_memory, cuDeviceTotalMem)                                                               \
  X(device_attribute, cuDeviceGetAttribute)                                                        \
  X(context_retain, cuDevicePrimaryCtxRetain)                                                      \
  X(context_release, cuDevicePrimaryCtxRelease)                                                    \
  X(context_use, cuCtxSetCurrent)                                                                  \
  X(mem_alloc, cuMemAlloc)                                                                         \
  X(mem_free, cuMemFree)                                                                           \
  X(mem_set, cuMemsetD8Async)                                                                      \
  X(mem_read, cuMemcpyDtoHAsync)                                                                   \
  X(mem_copy, cuMemcpyDtoDAsync)                                                                   \
  X(stream_create, cuStreamCreate)                                                                 \
  X(stream_destroy, cuStreamDestroy)                                                               \
  X(stream_wait, cuStreamSynchronize)                                                              \
  X(capture_begin, cuStreamBeginCapture)                                                           \
  X(capture_end, cuStreamEndCapture)                                                               \
  X(graph_instantiate, cuGraphInstantiate)                                                         \
  X(graph_upload, cuGraphUpload)                                                                   \
  X(graph_launch, cuGraphLaunch)                                                                   \
  X(graph_nodes, cuGraphGetNodes)                                                                  \
  X(graph_node_type, cuGraphNodeGetType)                                                           \
  X(graph_destroy, cuGraphDestroy)                                                                 \
  X(graph_exec_destroy, cuGraphExecDestroy)                                                        \
  X(event_create, cuEventCreate)                                                                   \
  X(event_destroy, cuEventDestroy)                                                                 \
  X(event_record, cuEventRecord)                                                                   \
  X(event_elapsed_ms, cuEventElapsedTime)                                                          \
  X(module_load, cuModuleLoadData)                                                                 \
  X(module_unload, cuModuleUnload)                                                                 \
  X(module_function, cuModuleGetFunction)                                                          \
  X(function_set, cuFuncSetAttribute)                                                              \
  X(active_clusters, cuOccupancyMaxActiveClusters)                                                 \
  X(active_blocks, cuOccupancyMaxActiveBlocksPerMultiprocessor)                                    \
  X(launch, cuLaunchKernel)                                                                        \
  X(launch_with, cuLaunchKernelEx)                                                                 \
  X(map_encode, cuTensorMapEncodeTiled)                                                            \
  X(map_encode_image, cuTensorMapEncodeIm2col)

struct fpl_driver {
  void *library; /* dlopen handle */
#define FPL_DRIVER_MEMBER(member, function) __typeof__(function) *member;
  FPL_DRIVER_CALLS(FPL_DRIVER_MEMBER)
#undef FPL_DRIVER_MEMBER
};

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

/* dlopen of the first name of a NULL-terminated list that loads, or NULL. */
void *fpl_library_open(const char *const *names);
/* Copies the address of `symbol` into the function pointer at `out`; false when it has none. */
bool fpl_library_symbol(void *library, const char *symbol, void *out);

/* Loads libcuda and starts it; no context yet. Failure: the device's. */
bool fpl_driver_open(struct fpl_driver *out, struct fpl_failure *failure);

/* What became of a candidate whose call answered `code`; FPL_OUTCOME_OK for success. */
enum fpl_outcome fpl_driver_outcome(CUresult code);
/* True on success; else the candidate's failure "what: NAME: text". */
bool fpl_driver_ok(const struct fpl_driver *driver, CUresult code, const char *what,
                   struct fpl_failure *failure);

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
