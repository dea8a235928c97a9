/* A database as a source of answers. */
#include "db/handle.h"

#include <string.h>

static enum fpl_status find(void *self, const struct fpl_wanted *wanted, struct fpl_plan *out,
                            bool *out_found, struct fpl_err *err) {
  return fpl_db_find(self, wanted, false, out, out_found, err);
}

static enum fpl_status read(void *self, int64_t plan_id, struct fpl_plan *out,
                            struct fpl_err *err) {
  struct fpl_db *const db = self;
  memset(out, 0, sizeof *out);
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_READ_PLAN);
  fpl_bind_i64(&b, plan_id);
  bool has_row = false;
  enum fpl_status status = fpl_bind_step(&b, &has_row, err);
  if (status == FPL_OK && !has_row)
    status = fpl_fail(err, FPL_DB, "%s: plan %lld was removed meanwhile: look it up again",
                      db->path, (long long)plan_id);
  if (status == FPL_OK)
    status = fpl_db_read_plan(db, b.statement, NULL, out, err);
  fpl_bind_reset(&b);
  return status;
}

static bool read_neighbour(sqlite3_stmt *row, struct fpl_neighbour *out) {
  struct fpl_read r = {.statement = row};
  out->plan_id = fpl_read_i64(&r);
  if (fpl_problem_parse(fpl_read_text(&r), &out->problem, NULL) != FPL_OK)
    r.is_bad = true;
  out->provenance = (enum fpl_provenance)fpl_read_name(&r, fpl_provenance_names);
  out->is_library = fpl_read_i64(&r) != 0;
  const char *const reduce = fpl_read_text(&r);
  out->is_deterministic = strcmp(reduce, fpl_reduce_names[FPL_REDUCE_NONE]) == 0 ||
                          strcmp(reduce, fpl_reduce_names[FPL_REDUCE_DSM]) == 0;
  out->has_cubin = fpl_read_i64(&r) != 0;
  out->schedule = fpl_read_text(&r);
  out->est_us = fpl_read_f64(&r);
  out->measured_us = fpl_read_f64(&r);
  out->library_us = fpl_read_f64(&r);
  out->created_unix = fpl_read_i64(&r);
  out->m_low = fpl_read_i64(&r);
  out->m_high = fpl_read_i64(&r);
  return !r.is_bad;
}

static enum fpl_status each_neighbour(void *self, const struct fpl_wanted *wanted,
                                      fpl_visit_neighbour *visit, void *context,
                                      struct fpl_err *err) {
  struct fpl_db *const db = self;
  if (!db)
    return FPL_OK;
  const struct fpl_problem *const p = wanted->problem;
  char device_class_key[FPL_KEY_HEX];
  fpl_device_class_key(wanted->device, device_class_key);
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_EACH_NEIGHBOUR);
  fpl_bind_text(&b, fpl_kind_names[p->kind]);
  fpl_bind_text(&b, fpl_dtype_names[p->dtype]);
  fpl_bind_text(&b, fpl_act_names[p->act]);
  fpl_bind_i64(&b, p->n);
  fpl_bind_i64(&b, p->k);
  fpl_bind_i64(&b, p->l);
  fpl_bind_i64(&b, FPL_NEAREST_MOST);
  fpl_bind_i64(&b, p->conv.k1);
  fpl_bind_text(&b, device_class_key);
  bool has_row = false;
  enum fpl_status status = FPL_OK;
  while (status == FPL_OK && (status = fpl_bind_step(&b, &has_row, err)) == FPL_OK && has_row) {
    struct fpl_neighbour neighbour = {0};
    if (!read_neighbour(b.statement, &neighbour))
      status = fpl_db_fail_row(db, "a plan's row holds what no fuseplan wrote", err);
    else if (fpl_is_wanted(wanted, &neighbour))
      status = visit(context, &neighbour, err);
  }
  fpl_bind_reset(&b);
  return status;
}

static enum fpl_status regret(void *self, const struct fpl_wanted *wanted, int regret_class,
                              struct fpl_regret *out, struct fpl_err *err) {
  struct fpl_db *const db = self;
  *out = (struct fpl_regret){0};
  if (!db)
    return FPL_OK;
  char device_class_key[FPL_KEY_HEX];
  fpl_device_class_key(wanted->device, device_class_key);
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_REGRET);
  fpl_bind_text(&b, device_class_key);
  fpl_bind_text(&b, fpl_kind_names[wanted->problem->kind]);
  fpl_bind_i64(&b, regret_class);
  bool has_row = false;
  const enum fpl_status status = fpl_bind_step(&b, &has_row, err);
  if (status == FPL_OK && has_row) {
    struct fpl_read r = {.statement = b.statement};
    out->n = fpl_read_i64(&r);
    out->low = fpl_read_f64(&r);
    out->expected = fpl_read_f64(&r);
    out->high = fpl_read_f64(&r);
  }
  fpl_bind_reset(&b);
  return status;
}

struct fpl_source fpl_db_source(struct fpl_db *db) {
  return (struct fpl_source){
      .self = db, .find = find, .each_neighbour = each_neighbour, .read = read, .regret = regret};
}
