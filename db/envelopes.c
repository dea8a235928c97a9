/* For which m a plan is the best one known: crossovers between neighbouring plans of a family. */
#include "db/handle.h"

#include "tuner/base/str.h"

#include <math.h>
#include <string.h>

/* A measured answer. */
struct anchor {
  int64_t plan_id, device_class_id, candidate_id;
  struct fpl_problem problem;
  char schedule[FPL_SCHEDULE_TEXT];
  int64_t m_low;
};

/* Time of b's schedule over a's at a's m; 0 when it was not measured there. */
static enum fpl_status find_loss(struct fpl_db *db, const struct anchor *a, const struct anchor *b,
                                 double *out, struct fpl_err *err) {
  struct fpl_bind bind = fpl_bind_start(db, FPL_QUERY_LOSS);
  fpl_bind_i64(&bind, a->candidate_id);
  fpl_bind_text(&bind, b->schedule);
  bool has_row = false;
  *out = 0;
  const enum fpl_status status = fpl_bind_step(&bind, &has_row, err);
  if (status == FPL_OK && has_row) {
    const double loss = sqlite3_column_double(bind.statement, 0);
    *out = isfinite(loss) ? fmax(loss, 1) : 0;
  }
  fpl_bind_reset(&bind);
  return status;
}

/* The last m for which a is the better of the two; a's own m when it cannot be told, with
 * `*out_is_known` false. */
static enum fpl_status find_crossover(struct fpl_db *db, const struct anchor *a,
                                      const struct anchor *b, int64_t *out, bool *out_is_known,
                                      struct fpl_err *err) {
  *out = a->problem.m;
  *out_is_known = false;
  if (a->device_class_id != b->device_class_id ||
      !fpl_problem_is_same_family(&a->problem, &b->problem) || a->problem.m >= b->problem.m ||
      b->problem.m > a->problem.m * FPL_NEAREST_MOST_M)
    return FPL_OK;
  const double low = log((double)a->problem.m), high = log((double)b->problem.m);
  double b_at_a = 1, a_at_b = 1;
  enum fpl_status status = FPL_OK;
  if (strcmp(a->schedule, b->schedule) != 0) {
    status = find_loss(db, a, b, &b_at_a, err);
    if (status == FPL_OK)
      status = find_loss(db, b, a, &a_at_b, err);
    if (status != FPL_OK || b_at_a == 0 || a_at_b == 0)
      return status;
  }
  const double rise = log(b_at_a) + log(a_at_b);
  const double share = rise > 0 ? log(b_at_a) / rise : 0.5;
  const double crossover = exp(low + share * (high - low));
  *out = fpl_max_i64(a->problem.m, fpl_min_i64((int64_t)floor(crossover), b->problem.m - 1));
  *out_is_known = true;
  return FPL_OK;
}

static enum fpl_status store_envelope(struct fpl_db *db, const struct anchor *a, int64_t m_high,
                                      struct fpl_err *err) {
  if (a->plan_id == 0 || (a->m_low == a->problem.m && m_high == a->problem.m))
    return FPL_OK;
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_INSERT_ENVELOPE);
  fpl_bind_i64(&b, a->plan_id);
  fpl_bind_i64(&b, a->m_low);
  fpl_bind_i64(&b, m_high);
  return fpl_bind_run(&b, NULL, err);
}

static bool read_anchor(sqlite3_stmt *row, struct anchor *out) {
  struct fpl_read r = {.statement = row};
  out->plan_id = fpl_read_i64(&r);
  if (fpl_problem_parse(fpl_read_text(&r), &out->problem, NULL) != FPL_OK)
    r.is_bad = true;
  out->device_class_id = fpl_read_i64(&r);
  fpl_read_copy(&r, out->schedule, sizeof out->schedule);
  out->candidate_id = fpl_read_i64(&r);
  out->m_low = out->problem.m;
  return !r.is_bad;
}

static enum fpl_status put_envelopes(struct fpl_db *db, struct fpl_err *err) {
  enum fpl_status status = fpl_db_run(db, FPL_QUERY_CLEAR_ENVELOPES, err);
  struct anchor last = {0};
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_EACH_FAMILY_PLAN);
  bool has_row = false;
  while (status == FPL_OK && (status = fpl_bind_step(&b, &has_row, err)) == FPL_OK && has_row) {
    struct anchor next;
    int64_t m_high = 0;
    bool is_known = false;
    if (!read_anchor(b.statement, &next)) {
      status = fpl_db_fail_row(db, "a plan's row holds what no fuseplan wrote", err);
      break;
    }
    status = find_crossover(db, &last, &next, &m_high, &is_known, err);
    if (status == FPL_OK)
      status = store_envelope(db, &last, m_high, err);
    if (is_known)
      next.m_low = m_high + 1;
    last = next;
  }
  fpl_bind_reset(&b);
  return status == FPL_OK ? store_envelope(db, &last, last.problem.m, err) : status;
}

static enum fpl_status refresh(struct fpl_db *db, void *context, struct fpl_err *err) {
  (void)context;
  const enum fpl_status status = fpl_db_put_regrets(db, err);
  return status == FPL_OK ? put_envelopes(db, err) : status;
}

enum fpl_status fpl_db_refresh(struct fpl_db *db, struct fpl_err *err) {
  return db ? fpl_db_transaction(db, refresh, NULL, err) : FPL_OK;
}
