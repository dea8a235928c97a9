/* One problem for other autotuners, in the schemas that the autotuning community shares and Kernel
 * Tuner reads and writes (kernel_tuner/schema: T1 1.0.0 input, T4 1.0.0 results). db/SCHEMA.md says
 * what stands where. */
#ifndef FPL_CLI_T1T4_H
#define FPL_CLI_T1T4_H

#include "db/db.h"
#include "tuner/base/str.h"

/* The candidates that were tried for a problem (by its id) on a device (NULL: where there is one).
 * One JSON object and a newline are appended. Errors: FPL_USAGE (no such problem or device, or
 * several devices). */
enum fpl_status fpl_t4_write(struct fpl_db *db, const char *problem, const char *device,
                             struct fpl_text *out, struct fpl_err *err);
/* Its tuning parameters, with the values that its candidates have, and the kernel of the fastest. */
enum fpl_status fpl_t1_write(struct fpl_db *db, const char *problem, const char *device,
                             struct fpl_text *out, struct fpl_err *err);

#endif
