#include "tests/fakes/libcuda/fake_cuda.h"

#include <cuda.h>
#include <stddef.h>

#define VISIBLE __attribute__((visibility("default")))

static struct fake_cuda state = {.sms = 132};
static _Thread_local CUcontext current;

VISIBLE struct fake_cuda *fake_cuda_state(void) {
  return &state;
}

VISIBLE CUresult cuGetErrorName(CUresult code, const char **out) {
  (void)code;
  *out = "CUDA_ERROR_FAKE";
  return CUDA_SUCCESS;
}

VISIBLE CUresult cuGetErrorString(CUresult code, const char **out) {
  (void)code;
  *out = "as asked";
  return CUDA_SUCCESS;
}

VISIBLE CUresult cuDriverGetVersion(int *out) {
  *out = 13000;
  return CUDA_SUCCESS;
}

VISIBLE CUresult cuCtxGetCurrent(CUcontext *out) {
  *out = current;
  return CUDA_SUCCESS;
}

VISIBLE CUresult cuCtxSetCurrent(CUcontext context) {
  current = context;
  return CUDA_SUCCESS;
}

VISIBLE CUresult cuCtxPushCurrent(CUcontext context) {
  state.n_pushes++;
  current = context;
  return CUDA_SUCCESS;
}

/* One level is all that is pushed. */
VISIBLE CUresult cuCtxPopCurrent(CUcontext *out) {
  state.n_pops++;
  *out = current;
  current = NULL;
  return CUDA_SUCCESS;
}

VISIBLE CUresult cuCtxGetId(CUcontext context, unsigned long long *out) {
  *out = (unsigned long long)(uintptr_t)context;
  return CUDA_SUCCESS;
}

VISIBLE CUresult cuCtxGetDevice(CUdevice *out) {
  *out = 0;
  return CUDA_SUCCESS;
}

VISIBLE CUresult cuDeviceTotalMem(size_t *out, CUdevice device) {
  (void)device;
  *out = (size_t)143771 << 20;
  return CUDA_SUCCESS;
}

VISIBLE CUresult cuDeviceGetAttribute(int *out, CUdevice_attribute attribute, CUdevice device) {
  (void)device;
  switch (attribute) {
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
    *out = 9;
    break;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
    *out = state.sms;
    break;
  case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
    *out = 60 << 20;
    break;
  default:
    *out = 0;
  }
  return CUDA_SUCCESS;
}

VISIBLE CUresult cuModuleLoadData(CUmodule *out, const void *image) {
  (void)image;
  state.n_loads++;
  *out = (CUmodule)&state;
  return CUDA_SUCCESS;
}

VISIBLE CUresult cuModuleUnload(CUmodule module) {
  (void)module;
  state.n_unloads++;
  return CUDA_SUCCESS;
}

VISIBLE CUresult cuOccupancyMaxActiveClusters(int *out, CUfunction function,
                                              const CUlaunchConfig *config) {
  (void)function, (void)config;
  *out = 60;
  return CUDA_SUCCESS;
}

VISIBLE CUresult cuTensorMapEncodeTiled(CUtensorMap *out, CUtensorMapDataType type, cuuint32_t rank,
                                        void *address, const cuuint64_t *sizes,
                                        const cuuint64_t *strides_bytes, const cuuint32_t *box,
                                        const cuuint32_t *steps, CUtensorMapInterleave interleave,
                                        CUtensorMapSwizzle swizzle,
                                        CUtensorMapL2promotion promotion,
                                        CUtensorMapFloatOOBfill fill) {
  (void)out, (void)type, (void)rank, (void)sizes, (void)strides_bytes, (void)box, (void)steps;
  (void)interleave, (void)swizzle, (void)promotion, (void)fill;
  state.addresses[state.n_maps++ % 3] = (uint64_t)(uintptr_t)address;
  return CUDA_SUCCESS;
}

VISIBLE CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
                                  void **parameters, void **extra) {
  (void)function, (void)extra;
  if (state.is_failing_launches)
    return CUDA_ERROR_INVALID_VALUE;
  state.n_launches++;
  state.stream = config->hStream;
  state.context = current;
  state.grid = config->gridDimX;
  state.cluster = 1;
  state.is_cooperative = 0;
  for (unsigned i = 0; i < config->numAttrs; i++) {
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      state.cluster = config->attrs[i].value.clusterDim.x;
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
      state.is_cooperative = config->attrs[i].value.cooperative;
  }
  state.e = *(const CUdeviceptr *)parameters[3];
  state.workspace = *(const CUdeviceptr *)parameters[4];
  state.m = *(const int *)parameters[5];
  return CUDA_SUCCESS;
}
