/* Driver: libcuda, loaded at run time: the table of its functions and the classification of its
 * errors.
 *
 * The functions are looked up by the versioned names of the cuda.h this was built with
 * (cuMemAlloc_v2, ...), so that types and entry points agree.
 */
#ifndef FPL_LAUNCH_DRIVER_H
#define FPL_LAUNCH_DRIVER_H

#include "tuner/launch/failure.h"

#include <cuda.h>
#include <stddef.h>

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
  X(context_current, cuCtxGetCurrent)                                                              \
  X(context_id, cuCtxGetId)                                                                        \
  X(context_device, cuCtxGetDevice)                                                                \
  X(context_push, cuCtxPushCurrent)                                                                \
  X(context_pop, cuCtxPopCurrent)                                                                  \
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

/* Loads libcuda and starts it; no context yet. Failure: the device's. */
bool fpl_driver_open(struct fpl_driver *out, struct fpl_failure *failure);

/* What became of a candidate whose call answered `code`; FPL_OUTCOME_OK for success. */
enum fpl_outcome fpl_driver_outcome(CUresult code);
/* True on success; else the candidate's failure "what: NAME: text". */
bool fpl_driver_ok(const struct fpl_driver *driver, CUresult code, const char *what,
                   struct fpl_failure *failure);

#endif
