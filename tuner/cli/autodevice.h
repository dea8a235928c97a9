/* The GPU of this machine, matched to a device profile. Asks a child process (`fuseplan probe`). */
#ifndef FPL_CLI_AUTODEVICE_H
#define FPL_CLI_AUTODEVICE_H

#include "tuner/cli/paths.h"
#include "tuner/core/plan.h"

#include <jansson.h>

/* The probe's answer as JSON (cmd_probe.c); the caller frees it. Errors: FPL_DEVICE, FPL_IO. */
enum fpl_status fpl_probe_ask(const struct fpl_paths *paths, json_t **out, struct fpl_err *err);

/* The profile whose capability, SM count and shared memory are this GPU's and whose memory is
 * nearest to its, never more than a tenth apart. `environment` (NULL allowed) gets the driver. Errors: FPL_DEVICE: no GPU, or no profile. */
enum fpl_status fpl_auto_device(struct fpl_arena *arena, const struct fpl_paths *paths,
                                struct fpl_device *out, struct fpl_environment *environment,
                                struct fpl_err *err);

#endif
