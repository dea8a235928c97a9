/* fuseplan probe (hidden): one frame of JSON on stdout about driver, GPUs and libraries. */
#include "tuner/base/sys.h"
#include "tuner/cli/cli.h"
#include "tuner/measure/probe.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static json_t *device_json(const struct fpl_probed_device *d) {
  return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:s, s:i, s:i}", "name", d->name,
                   "capability_major", (json_int_t)d->capability_major, "capability_minor",
                   (json_int_t)d->capability_minor, "sms", (json_int_t)d->sms, "l2_bytes",
                   (json_int_t)d->l2_bytes, "hbm_bytes", (json_int_t)d->hbm_bytes,
                   "smem_bytes_per_block", (json_int_t)d->smem_bytes_per_block, "sm_clock_mhz",
                   d->sm_clock_mhz, "sm_clock_now_mhz", d->sm_clock_now_mhz, "throttle",
                   d->throttle, "is_mig", d->is_mig, "n_processes", d->n_processes);
}

int fpl_cmd_probe(int argc, char **argv) {
  (void)argc;
  (void)argv;
  static struct fpl_probe probe;
  fpl_probe_run(&probe);
  json_t *const out = json_pack("{s:b, s:s, s:s, s:s}", "has_driver", probe.has_driver, "driver",
                                probe.driver, "cupti", probe.cupti, "cublaslt", probe.cublaslt);
  json_t *const devices = json_array();
  for (int i = 0; i < probe.n_devices; i++)
    json_array_append_new(devices, device_json(&probe.devices[i]));
  json_object_set_new(out, "devices", devices);
  char *const text = json_dumps(out, JSON_COMPACT);
  json_decref(out);
  struct fpl_err err = {0};
  const enum fpl_status status =
      text ? fpl_pipe_write(STDOUT_FILENO, text, strlen(text), 5e6, &err) : FPL_NO_MEMORY;
  free(text);
  return fpl_cli_exit(status);
}
