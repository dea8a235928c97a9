#include "tuner/measure/probe.h"

#include "tuner/launch/driver.h"
#include "tuner/measure/baseline_cublaslt.h"
#include "tuner/measure/nvml.h"
#include "tuner/measure/sample_cupti.h"

#include <stdio.h>

static int64_t attribute(const struct fpl_driver *call, CUdevice_attribute which, CUdevice device) {
  int value = 0;
  return call->device_attribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
}

static void probe_device(const struct fpl_driver *call, CUdevice device,
                         struct fpl_probed_device *out) {
  if (call->device_name(out->name, sizeof out->name, device) != CUDA_SUCCESS)
    snprintf(out->name, sizeof out->name, "unknown");
  out->capability_major = attribute(call, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  out->capability_minor = attribute(call, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  out->sms = attribute(call, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  out->l2_bytes = attribute(call, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, device);
  out->smem_bytes_per_block =
      attribute(call, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device);
  out->sm_clock_mhz = (double)attribute(call, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, device) / 1000.0;
  size_t bytes = 0;
  if (call->device_memory(&bytes, device) == CUDA_SUCCESS)
    out->hbm_bytes = (int64_t)bytes;
  char pci[32] = "";
  struct fpl_nvml nvml = {0};
  if (call->device_pci(pci, sizeof pci, device) == CUDA_SUCCESS)
    fpl_nvml_open(pci, &nvml);
  struct fpl_nvml_reading reading;
  fpl_nvml_read(&nvml, &reading);
  struct fpl_nvml_sharing sharing;
  fpl_nvml_read_sharing(&nvml, &sharing);
  out->is_mig = sharing.is_mig;
  out->n_processes = sharing.n_processes;
  out->sm_clock_now_mhz = reading.sm_clock_mhz;
  snprintf(out->throttle, sizeof out->throttle, "%s", reading.throttle);
}

void fpl_probe_run(struct fpl_probe *out) {
  *out = (struct fpl_probe){0};
  struct fpl_driver call = {0};
  struct fpl_failure failure = {0};
  fpl_cublaslt_version(out->cublaslt);
  if (!fpl_driver_open(&call, &failure)) {
    snprintf(out->driver, sizeof out->driver, "%s", failure.reason);
    snprintf(out->cupti, sizeof out->cupti, "not tried: no driver");
    return;
  }
  out->has_driver = true;
  int version = 0;
  if (call.driver_version(&version) == CUDA_SUCCESS)
    snprintf(out->driver, sizeof out->driver, "%d.%d", version / 1000, version % 1000 / 10);
  if (fpl_cupti_open(out->cupti))
    fpl_cupti_close();
  CUdevice device = 0;
  while (out->n_devices < FPL_PROBE_DEVICES &&
         call.device_get(&device, out->n_devices) == CUDA_SUCCESS)
    probe_device(&call, device, &out->devices[out->n_devices++]);
}
