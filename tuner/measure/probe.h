/* Probe: what a machine's driver, GPUs and measuring libraries are. Runs in a process of its own
 * (`fuseplan probe`), since the supervisor never touches CUDA. */
#ifndef FPL_MEASURE_PROBE_H
#define FPL_MEASURE_PROBE_H

#include <stdbool.h>
#include <stdint.h>

enum { FPL_PROBE_DEVICES = 16 };

struct fpl_probed_device {
  char name[96];
  int64_t capability_major, capability_minor;
  int64_t sms, l2_bytes, hbm_bytes, smem_bytes_per_block;
  double sm_clock_mhz;     /* the device's maximum */
  double sm_clock_now_mhz; /* 0: unknown */
  char throttle[96];       /* "" unknown */
  int is_mig, n_processes; /* cut into slices; processes that compute on it; -1 unknown */
};

struct fpl_probe {
  bool has_driver;
  char driver[256]; /* version, or why there is none */
  int n_devices;
  struct fpl_probed_device devices[FPL_PROBE_DEVICES];
  char cupti[96];     /* version, or why not */
  char cublaslt[256]; /* version, or "none" */
};

void fpl_probe_run(struct fpl_probe *out);

#endif
