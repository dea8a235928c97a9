/* Plans as they were stored, one behind the other. */
#include "db/handle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double read_time(struct fpl_read *r) {
  const double us = fpl_read_f64(r);
  return isnan(us) ? 0 : us;
}

/* A row of STORED_PLANS. */
static bool read_stored_plan(sqlite3_stmt *row, struct fpl_stored_plan *out) {
  struct fpl_read r = {.statement = row};
  fpl_read_copy(&r, out->problem_key, sizeof out->problem_key);
  fpl_read_copy(&r, out->problem, sizeof out->problem);
  fpl_read_copy(&r, out->device_class, sizeof out->device_class);
  fpl_read_copy(&r, out->device_name, sizeof out->device_name);
  out->is_library = fpl_read_i64(&r) != 0;
  fpl_read_copy(&r, out->schedule, sizeof out->schedule);
  fpl_read_copy(&r, out->kernel, sizeof out->kernel);
  out->provenance = (enum fpl_provenance)fpl_read_name(&r, fpl_provenance_names);
  double *const times[] = {&out->est_us, &out->measured_us, &out->measured_hot_us, &out->library_us,
                           &out->library_hot_us};
  for (size_t i = 0; i < sizeof times / sizeof *times; i++)
    *times[i] = read_time(&r);
  out->n_candidates = fpl_read_i64(&r);
  out->n_ok = fpl_read_i64(&r);
  out->created_unix = fpl_read_i64(&r);
  fpl_read_copy(&r, out->reason, sizeof out->reason);
  fpl_read_copy(&r, out->run_key, sizeof out->run_key);
  out->run_started_unix = fpl_read_i64(&r);
  fpl_read_copy(&r, out->tool_version, sizeof out->tool_version);
  out->attempt = fpl_read_i64(&r);
  fpl_read_copy(&r, out->driver, sizeof out->driver);
  fpl_read_copy(&r, out->nvrtc, sizeof out->nvrtc);
  out->cold.n = fpl_read_i64(&r);
  out->cold.median_us = read_time(&r);
  out->cold.low_us = read_time(&r);
  out->cold.high_us = read_time(&r);
  out->is_promoted = fpl_read_i64(&r) != 0;
  fpl_read_copy(&r, out->flag, sizeof out->flag);
  out->is_answer = fpl_read_i64(&r) != 0;
  return !r.is_bad;
}

static enum fpl_status read_all(struct fpl_db *db, struct fpl_bind *b, struct fpl_stored_plan **out,
                                size_t *out_n, struct fpl_err *err) {
  size_t capacity = 0;
  bool has_row = false;
  enum fpl_status status = FPL_OK;
  while ((status = fpl_bind_step(b, &has_row, err)) == FPL_OK && has_row) {
    if (*out_n == capacity) {
      capacity = capacity ? 2 * capacity : 16;
      struct fpl_stored_plan *const grown = realloc(*out, capacity * sizeof **out);
      if (!grown)
        return fpl_fail(err, FPL_NO_MEMORY, "%s: out of memory", db->path);
      *out = grown;
    }
    if (!read_stored_plan(b->statement, memset(&(*out)[*out_n], 0, sizeof **out)))
      return fpl_db_fail_row(db, "a plan's row holds what no fuseplan wrote", err);
    ++*out_n;
  }
  return status;
}

enum fpl_status fpl_db_stored_plans(struct fpl_db *db, const struct fpl_problem *problem,
                                    int64_t as_of_unix, bool only_answers,
                                    struct fpl_stored_plan **out, size_t *out_n,
                                    struct fpl_err *err) {
  *out = NULL;
  *out_n = 0;
  if (!db)
    return FPL_OK;
  int64_t problem_id = 0;
  enum fpl_status status = problem ? fpl_db_problem_id(db, problem, &problem_id, err) : FPL_OK;
  if (status != FPL_OK || (problem && problem_id == 0))
    return status;
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_STORED_PLANS);
  fpl_bind_i64(&b, problem_id);
  fpl_bind_i64(&b, as_of_unix);
  fpl_bind_i64(&b, only_answers);
  status = read_all(db, &b, out, out_n, err);
  fpl_bind_reset(&b);
  if (status != FPL_OK) {
    free(*out);
    *out = NULL;
    *out_n = 0;
  }
  return status;
}

int fpl_stored_plan_compare(const struct fpl_stored_plan *a, const struct fpl_stored_plan *b) {
  const int order = strcmp(a->problem, b->problem);
  return order ? order : strcmp(a->device_class, b->device_class);
}

bool fpl_stored_plan_same_winner(const struct fpl_stored_plan *a, const struct fpl_stored_plan *b) {
  return a->is_library == b->is_library && strcmp(a->schedule, b->schedule) == 0;
}
