/* NVML, if this machine has it: clock and throttle reasons while work runs. Optional: without it
 * both are unknown. nvml.h is not part of every toolkit, so the functions used are declared
 * here. Source: NVML API reference, device queries and "Clocks Throttle Reasons". */
#ifndef FPL_MEASURE_NVML_H
#define FPL_MEASURE_NVML_H

#include <stdbool.h>
#include <stddef.h>

struct fpl_nvml {
  void *library;
  void *device; /* NULL: not available */
  int (*device_by_pci)(const char *pci, void **out);
  int (*clock)(void *device, int kind, unsigned *out_mhz);
  int (*throttle)(void *device, unsigned long long *out_bits);
  int (*mig)(void *device, unsigned *out_now, unsigned *out_pending);     /* NULL: not known */
  int (*processes)(void *device, unsigned *in_out_count, void *out_list); /* NULL: not known */
};

/* `pci`: "0000:1b:00.0". Never fails: an unavailable NVML answers 0 and "". */
void fpl_nvml_open(const char *pci, struct fpl_nvml *out);

struct fpl_nvml_reading {
  double sm_clock_mhz; /* 0: unknown */
  char throttle[96];   /* "" unknown, "none", or reasons joined by '+' */
};
void fpl_nvml_read(const struct fpl_nvml *nvml, struct fpl_nvml_reading *out);

/* Who shares the card: is it cut into MIG slices, and how many processes compute on it. -1: unknown.
 */
struct fpl_nvml_sharing {
  int is_mig;
  int n_processes;
};
void fpl_nvml_read_sharing(const struct fpl_nvml *nvml, struct fpl_nvml_sharing *out);

/* Spells the bits; idle is not a reason. */
void fpl_nvml_throttle_text(unsigned long long bits, char *out, size_t size);

#endif
