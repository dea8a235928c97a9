/* The probe of a build without CUDA headers; takes the place of probe.c. */
#include "tuner/measure/probe.h"

#include <stdio.h>

void fpl_probe_run(struct fpl_probe *out) {
  *out = (struct fpl_probe){0};
  snprintf(out->driver, sizeof out->driver, "not looked for: built without CUDA headers");
  snprintf(out->cupti, sizeof out->cupti, "not looked for: built without CUDA headers");
  snprintf(out->cublaslt, sizeof out->cublaslt, "not looked for: built without CUDA headers");
}
