/* Decides what a device in use holds and how it is described. Leaves to others what is launched. */
#include "tuner/measure/gpu.h"

#include <stdio.h>
#include <string.h>

static const char *const support_names[FPL_N_SUPPORT] = {
    "fill_bits",       "fill_random", "fill_integers", "reference_gemm0", "reference_gemm1",
    "reference_conv0", "compare",     "count_changed", "count_different", "activation",
};

/* The attribute, or 0 where the driver does not know it. */
static int get_attribute(const struct fpl_gpu *gpu, CUdevice_attribute attribute) {
  int value = 0;
  if (gpu->call.device_attribute(&value, attribute, gpu->device) != CUDA_SUCCESS)
    return 0;
  return value;
}

static bool open_context(int ordinal, struct fpl_gpu *gpu, struct fpl_failure *failure) {
  const struct fpl_driver *call = &gpu->call;
  return fpl_driver_ok(call, call->device_get(&gpu->device, ordinal), "find the device", failure) &&
         fpl_driver_ok(call, call->context_retain(&gpu->context, gpu->device), "make a context",
                       failure) &&
         fpl_driver_ok(call, call->context_use(gpu->context), "use the context", failure) &&
         fpl_driver_ok(call, call->stream_create(&gpu->stream, CU_STREAM_NON_BLOCKING),
                       "make a stream", failure) &&
         fpl_driver_ok(call, call->event_create(&gpu->start, CU_EVENT_DEFAULT), "make an event",
                       failure) &&
         fpl_driver_ok(call, call->event_create(&gpu->stop, CU_EVENT_DEFAULT), "make an event",
                       failure);
}

bool fpl_gpu_open(int ordinal, struct fpl_gpu *gpu, struct fpl_failure *failure) {
  if (!open_context(ordinal, gpu, failure)) {
    failure->is_device = true;
    return false;
  }
  gpu->l2_bytes = get_attribute(gpu, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  gpu->sms = get_attribute(gpu, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  return true;
}

bool fpl_gpu_load_support(struct fpl_gpu *gpu, const void *image, struct fpl_failure *failure) {
  const struct fpl_driver *call = &gpu->call;
  if (!fpl_driver_ok(call, call->module_load(&gpu->support_module, image),
                     "load the support kernels", failure)) {
    failure->is_device = true;
    return false;
  }
  for (int i = 0; i < FPL_N_SUPPORT; i++)
    if (!fpl_driver_ok(
            call, call->module_function(&gpu->support[i], gpu->support_module, support_names[i]),
            support_names[i], failure)) {
      failure->is_device = true;
      return false;
    }
  return true;
}

void fpl_gpu_close(struct fpl_gpu *gpu) {
  const struct fpl_driver *call = &gpu->call;
  if (gpu->support_module != NULL)
    call->module_unload(gpu->support_module);
  if (gpu->stop != NULL)
    call->event_destroy(gpu->stop);
  if (gpu->start != NULL)
    call->event_destroy(gpu->start);
  if (gpu->stream != NULL)
    call->stream_destroy(gpu->stream);
  if (gpu->context != NULL)
    call->context_release(gpu->device);
  /* libcuda stays loaded: it registers work for the end of the process. */
  *gpu = (struct fpl_gpu){0};
}

/* "580.159.04 (CUDA 13.0)"; the kernel module's version where the file tells it. */
static void describe_driver(int version, struct fpl_environment *environment) {
  char line[256] = "";
  char module[64] = "";
  FILE *file = fopen("/proc/driver/nvidia/version", "r");
  if (file != NULL) {
    if (fgets(line, sizeof line, file) == NULL)
      line[0] = '\0';
    fclose(file);
  }
  /* "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build ..." */
  const char *at = line;
  for (; *at != '\0' && module[0] == '\0'; at += strcspn(at, " "), at += strspn(at, " ")) {
    int major = 0, minor = 0;
    if (sscanf(at, "%d.%d", &major, &minor) == 2 && sscanf(at, "%63[0-9.]", module) != 1)
      module[0] = '\0';
  }
  char value[96];
  snprintf(value, sizeof value, "%s%s(CUDA %d.%d)", module, module[0] == '\0' ? "" : " ",
           version / 1000, version % 1000 / 10);
  fpl_environment_set(environment, "driver", value);
}

static void set_number(struct fpl_environment *environment, const char *name, int64_t value) {
  char text[32];
  snprintf(text, sizeof text, "%lld", (long long)value);
  fpl_environment_set(environment, name, text);
}

bool fpl_gpu_describe(const struct fpl_gpu *gpu, struct fpl_environment *environment,
                      struct fpl_failure *failure) {
  const struct fpl_driver *call = &gpu->call;
  int version = 0;
  char name[96] = "";
  CUuuid uuid = {{0}};
  size_t memory_bytes = 0;
  if (!fpl_driver_ok(call, call->driver_version(&version), "driver version", failure) ||
      !fpl_driver_ok(call, call->device_name(name, sizeof name, gpu->device), "name", failure) ||
      !fpl_driver_ok(call, call->device_uuid(&uuid, gpu->device), "uuid", failure) ||
      !fpl_driver_ok(call, call->device_memory(&memory_bytes, gpu->device), "memory", failure)) {
    failure->is_device = true;
    return false;
  }
  describe_driver(version, environment);
  fpl_environment_set(environment, "device_name", name);
  char text[48] = "GPU-";
  size_t length = 4;
  for (int i = 0; i < 16; i++) {
    const char *dash = i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
    length += (size_t)snprintf(text + length, sizeof text - length, "%s%02x", dash,
                               (unsigned)(unsigned char)uuid.bytes[i]);
  }
  fpl_environment_set(environment, "uuid", text);
  set_number(environment, "sms", gpu->sms);
  set_number(environment, "l2_bytes", gpu->l2_bytes);
  set_number(environment, "hbm_mib", (int64_t)(memory_bytes >> 20));
  set_number(environment, "sm_clock_mhz",
             get_attribute(gpu, CU_DEVICE_ATTRIBUTE_CLOCK_RATE) / 1000);
  return true;
}

bool fpl_gpu_wait(const struct fpl_gpu *gpu, const char *what, struct fpl_failure *failure) {
  return fpl_driver_ok(&gpu->call, gpu->call.stream_wait(gpu->stream), what, failure);
}

bool fpl_gpu_alloc(const struct fpl_gpu *gpu, uint64_t bytes, CUdeviceptr *out,
                   struct fpl_failure *failure) {
  char what[48];
  snprintf(what, sizeof what, "allocate %llu bytes", (unsigned long long)bytes);
  *out = 0;
  return fpl_driver_ok(&gpu->call, gpu->call.mem_alloc(out, bytes == 0 ? 1 : bytes), what, failure);
}

void fpl_gpu_free(const struct fpl_gpu *gpu, CUdeviceptr *pointer) {
  if (*pointer != 0)
    gpu->call.mem_free(*pointer);
  *pointer = 0;
}

bool fpl_gpu_read(const struct fpl_gpu *gpu, CUdeviceptr from, size_t bytes, void *out,
                  struct fpl_failure *failure) {
  return fpl_driver_ok(&gpu->call, gpu->call.mem_read(out, from, bytes, gpu->stream),
                       "read from the device", failure) &&
         fpl_gpu_wait(gpu, "read from the device", failure);
}

bool fpl_gpu_support(const struct fpl_gpu *gpu, enum fpl_support kernel,
                     struct fpl_support_grid grid, void **parameters, struct fpl_failure *failure) {
  return fpl_driver_ok(&gpu->call,
                       gpu->call.launch(gpu->support[kernel], grid.x, grid.y, 1, grid.threads, 1, 1,
                                        0, gpu->stream, parameters, NULL),
                       support_names[kernel], failure);
}
