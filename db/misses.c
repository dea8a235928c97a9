/* The log of misses. */
#include "db/handle.h"

#include <string.h>

const char *const fpl_miss_names[] = {"miss", "stale", NULL};

enum fpl_status fpl_db_note_miss(struct fpl_db *db, const struct fpl_problem *problem,
                                 const char *device_name, enum fpl_miss_cause cause,
                                 int64_t now_unix, struct fpl_err *err) {
  if (!db)
    return FPL_OK;
  char text[FPL_PROBLEM_TEXT];
  fpl_problem_text(problem, text);
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_NOTE_MISS);
  fpl_bind_text(&b, text);
  fpl_bind_text(&b, device_name);
  fpl_bind_text(&b, fpl_miss_names[cause]);
  fpl_bind_i64(&b, now_unix);
  return fpl_bind_run(&b, NULL, err);
}

static bool read_miss(sqlite3_stmt *row, struct fpl_miss *out) {
  struct fpl_read r = {.statement = row};
  if (fpl_problem_parse(fpl_read_text(&r), &out->problem, NULL) != FPL_OK)
    r.is_bad = true;
  fpl_read_copy(&r, out->device_name, sizeof out->device_name);
  out->cause = (enum fpl_miss_cause)fpl_read_name(&r, fpl_miss_names);
  out->n = fpl_read_i64(&r);
  out->first_unix = fpl_read_i64(&r);
  out->last_unix = fpl_read_i64(&r);
  return !r.is_bad;
}

enum fpl_status fpl_db_each_miss(struct fpl_db *db, const char *device_name,
                                 fpl_db_visit_miss *visit, void *context, struct fpl_err *err) {
  if (!db)
    return FPL_OK;
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_EACH_MISS);
  fpl_bind_text(&b, device_name);
  bool has_row = false;
  enum fpl_status status = FPL_OK;
  while (status == FPL_OK && (status = fpl_bind_step(&b, &has_row, err)) == FPL_OK && has_row) {
    struct fpl_miss miss = {0};
    status = read_miss(b.statement, &miss)
                 ? visit(context, &miss, err)
                 : fpl_db_fail_row(db, "a miss holds what no fuseplan wrote", err);
  }
  fpl_bind_reset(&b);
  return status;
}

enum fpl_status fpl_db_clear_misses(struct fpl_db *db, const char *device_name,
                                    struct fpl_err *err) {
  if (!db)
    return FPL_OK;
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_CLEAR_MISSES);
  fpl_bind_text(&b, device_name);
  return fpl_bind_run(&b, NULL, err);
}
