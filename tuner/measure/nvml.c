/* Reads clocks; decides nothing. */
#include "tuner/measure/nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { CLOCK_SM = 1, INSUFFICIENT_SIZE = 7 }; /* NVML_CLOCK_SM, NVML_ERROR_INSUFFICIENT_SIZE */

static bool find(void *library, const char *symbol, void *out) {
  void *address = dlsym(library, symbol);
  memcpy(out, &address, sizeof address);
  return address != NULL;
}

void fpl_nvml_open(const char *pci, struct fpl_nvml *out) {
  *out = (struct fpl_nvml){0};
  int (*init)(void) = NULL;
  out->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (out->library == NULL)
    out->library = dlopen("/usr/local/nvidia/lib64/libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (out->library == NULL || !find(out->library, "nvmlInit_v2", &init) ||
      !find(out->library, "nvmlDeviceGetHandleByPciBusId_v2", &out->device_by_pci) ||
      !find(out->library, "nvmlDeviceGetClockInfo", &out->clock) ||
      !find(out->library, "nvmlDeviceGetCurrentClocksThrottleReasons", &out->throttle))
    return;
  find(out->library, "nvmlDeviceGetMigMode", &out->mig);
  find(out->library, "nvmlDeviceGetComputeRunningProcesses_v3", &out->processes);
  if (init() != 0 || out->device_by_pci(pci, &out->device) != 0)
    out->device = NULL;
}

void fpl_nvml_throttle_text(unsigned long long bits, char *out, size_t size) {
  static const struct {
    unsigned long long bit;
    const char *name;
  } reasons[] = {
      {0x2, "applications_clocks"}, {0x4, "sw_power_cap"}, {0x8, "hw_slowdown"},
      {0x10, "sync_boost"},         {0x20, "sw_thermal"},  {0x40, "hw_thermal"},
      {0x80, "hw_power_brake"},     {0x100, "display"},
  };
  size_t length = 0;
  out[0] = '\0';
  for (size_t i = 0; i < sizeof reasons / sizeof reasons[0] && length < size; i++)
    if ((bits & reasons[i].bit) != 0)
      length += (size_t)snprintf(out + length, size - length, "%s%s", length == 0 ? "" : "+",
                                 reasons[i].name);
  if (length == 0)
    snprintf(out, size, "none");
}

void fpl_nvml_read(const struct fpl_nvml *nvml, struct fpl_nvml_reading *out) {
  *out = (struct fpl_nvml_reading){0};
  if (nvml->device == NULL)
    return;
  unsigned mhz = 0;
  unsigned long long bits = 0;
  if (nvml->clock(nvml->device, CLOCK_SM, &mhz) == 0)
    out->sm_clock_mhz = mhz;
  if (nvml->throttle(nvml->device, &bits) == 0)
    fpl_nvml_throttle_text(bits, out->throttle, sizeof out->throttle);
}

void fpl_nvml_read_sharing(const struct fpl_nvml *nvml, struct fpl_nvml_sharing *out) {
  *out = (struct fpl_nvml_sharing){-1, -1};
  if (nvml->device == NULL)
    return;
  unsigned now = 0, pending = 0, count = 0;
  if (nvml->mig != NULL && nvml->mig(nvml->device, &now, &pending) == 0)
    out->is_mig = now != 0;
  if (nvml->processes == NULL)
    return;
  const int status = nvml->processes(nvml->device, &count, NULL); /* asks for the count alone */
  if (status == 0 || status == INSUFFICIENT_SIZE)
    out->n_processes = (int)count;
}
