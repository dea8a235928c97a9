/* What merge, diff and history say of a stored plan. */
#ifndef FPL_CLI_STORED_H
#define FPL_CLI_STORED_H

#include "db/db.h"

#include <jansson.h>

enum { FPL_DATE_TEXT = 24 };
/* "2026-12-01T09:30:00Z" */
void fpl_date_text(int64_t unix_seconds, char out[FPL_DATE_TEXT]);
/* Reads --as-of: ISO 8601 in UTC, "2026-12-01" (its last second) or "2026-12-01T09:30:00", with or
 * without "Z". NULL: INT64_MAX. Errors: FPL_USAGE. */
#define FPL_AS_OF_MEANING "as it was then: 2026-12-01 or 2026-12-01T09:30:00, UTC"
enum fpl_status fpl_as_of_read(const char *text, int64_t *out_unix_seconds, struct fpl_err *err);

/* "library", a kernel's name, or the schedule of a kernel that was never compiled. */
const char *fpl_stored_winner(const struct fpl_stored_plan *plan);
/* The cold median where it was measured, else the prediction. */
double fpl_stored_us(const struct fpl_stored_plan *plan);
/* All of it but the problem, which the caller says. */
json_t *fpl_json_stored_plan(const struct fpl_stored_plan *plan);

#endif
