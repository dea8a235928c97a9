/* What the examples that need a GPU share: the driver, loaded at run time so that they can say that
 * there is none (exit code 77), and matrices of small integers in f16. */
#ifndef EXAMPLES_GPU_H
#define EXAMPLES_GPU_H

#include <cuda.h>
#include <dlfcn.h>
#include <fuseplan.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
#define GPU_CALLS(X) \
  X(cuInit) X(cuDeviceGet) X(cuDevicePrimaryCtxRetain) X(cuCtxSetCurrent) \
  X(cuMemAlloc) X(cuMemcpyHtoD) X(cuMemcpyDtoH) X(cuMemsetD8) \
  X(cuStreamCreate) X(cuStreamSynchronize) X(cuStreamBeginCapture) X(cuStreamEndCapture) \
  X(cuGraphInstantiate) X(cuGraphLaunch)
/* clang-format on */
#define GPU_TEXT(name) #name
#define GPU_SYMBOL(name) GPU_TEXT(name) /* cuMemAlloc is cuMemAlloc_v2 by now */
#define GPU_POINTER(name) static __typeof__(name) *p_##name;
#define GPU_FIND(name)                                                                             \
  *(void **)&p_##name = dlsym(library, GPU_SYMBOL(name));                                          \
  is_ok = is_ok && p_##name;
GPU_CALLS(GPU_POINTER)

enum { NO_GPU = 77 };

static void check(int is_ok, const char *what, const char *why) {
  if (is_ok)
    return;
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

/* Opens the first GPU and makes its context current, or ends the program. */
static void gpu_open(void) {
  void *const library = dlopen("libcuda.so.1", RTLD_NOW);
  int is_ok = library != NULL;
  CUdevice device = 0;
  CUcontext context = NULL;
  if (is_ok) {
    GPU_CALLS(GPU_FIND)
  }
  if (!is_ok || p_cuInit(0) || p_cuDeviceGet(&device, 0) ||
      p_cuDevicePrimaryCtxRetain(&context, device) || p_cuCtxSetCurrent(context)) {
    fprintf(stderr, "this example needs a GPU: skipped\n");
    exit(NO_GPU);
  }
}

/* Device memory with a copy of `from`, or zeros where that is NULL. */
static CUdeviceptr gpu_put(const void *from, size_t bytes) {
  CUdeviceptr to = 0;
  const int is_ok = !p_cuMemAlloc(&to, bytes ? bytes : 1) &&
                    (from ? !p_cuMemcpyHtoD(to, from, bytes) : !p_cuMemsetD8(to, 0, bytes));
  check(is_ok, "device memory", "no room");
  return to;
}

/* n elements of 0, 1 and -1 in f16, about one in `sparse` not 0. */
static uint16_t *integers(int64_t n, uint32_t seed, uint32_t sparse) {
  static const uint16_t one = 0x3c00, minus_one = 0xbc00;
  uint16_t *const out = calloc((size_t)n, sizeof *out);
  check(out != NULL, "host memory", "no room");
  for (int64_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    if ((seed >> 8) % sparse == 0)
      out[i] = seed >> 31 ? one : minus_one;
  }
  return out;
}

/* The plan of this GPU for a gemm_chain of f16 with relu, "M N K L", that has a kernel. */
static fuseplan_kernel *load_plan(fuseplan_store **store, const char *database, char **mnkl,
                                  struct fuseplan_problem *problem) {
  struct fuseplan_message message;
  struct fuseplan_device device = {.size = sizeof device};
  struct fuseplan_answer answer = {.size = sizeof answer};
  const struct fuseplan_options options = {
      .size = sizeof options, .needs_kernel = 1, .last_tier = FUSEPLAN_TIER_NEAREST};
  fuseplan_kernel *kernel = NULL;
  *problem = (struct fuseplan_problem){.size = sizeof *problem, .act = FUSEPLAN_ACT_RELU};
  int64_t *const extents[] = {&problem->m, &problem->n, &problem->k, &problem->l};
  for (int i = 0; i < 4; i++)
    *extents[i] = strtoll(mnkl[i], NULL, 10);
  const int is_ok = !fuseplan_open(&database, 1, store, &message) &&
                    !fuseplan_device_current(*store, &device, &message) &&
                    !fuseplan_lookup(*store, problem, &device, &options, &answer, &message) &&
                    !fuseplan_kernel_load(*store, problem, &answer, &kernel, &message);
  check(is_ok, "plan", message.text);
  printf("%s by %s\n", answer.problem, answer.kernel);
  return kernel;
}

#endif
