/* Schedules that won before, to be measured beside the ranking's: what a problem's own plans were,
 * and the plans of near shapes. So a stale plan is measured anew when its problem is tuned again,
 * and what a near shape's plan loses here becomes known. */
#ifndef FPL_CLI_KNOWN_H
#define FPL_CLI_KNOWN_H

#include "db/db.h"

enum { FPL_KNOWN_OWN = 3, FPL_KNOWN_NEAR = 5, FPL_KNOWN_MOST = FPL_KNOWN_OWN + FPL_KNOWN_NEAR };
struct fpl_known {
  struct fpl_schedule schedules[FPL_KNOWN_MOST];
  int n;
};
/* The best own ones of the newest run first, then the plans of the nearest shapes; no schedule
 * twice. */
enum fpl_status fpl_known_find(struct fpl_db *db, const struct fpl_problem *p,
                               const struct fpl_device *d, struct fpl_known *out,
                               struct fpl_err *err);

#endif
