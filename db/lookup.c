/* Reading: one plan by its problem and device class, and walks for people. */
#include "db/handle.h"

#include "tuner/base/str.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_KEY_DIGITS = 4 };

/* Columns of a LEFT JOIN to kernels: the first one, sha, is NULL when there is none. */
static void read_kernel(struct fpl_read *r, struct fpl_kernel *out) {
  enum { KERNEL_COLUMNS = 4 + 9 + 7 * FPL_KERNEL_MAPS };
  if (sqlite3_column_type(r->statement, r->next) == SQLITE_NULL) {
    r->next += KERNEL_COLUMNS;
    return;
  }
  fpl_read_copy(r, out->sha, sizeof out->sha);
  fpl_read_copy(r, out->name, sizeof out->name);
  fpl_read_copy(r, out->family, sizeof out->family);
  fpl_read_copy(r, out->source_key, sizeof out->source_key);
  out->cluster = (int32_t)fpl_read_i64(r);
  out->block_threads = (int32_t)fpl_read_i64(r);
  out->smem_bytes = fpl_read_i64(r);
  out->rows_per_unit = fpl_read_i64(r);
  out->units_per_row = fpl_read_i64(r);
  out->max_clusters = fpl_read_i64(r);
  out->workspace_bytes_per_row_group = fpl_read_i64(r);
  out->registers = (int32_t)fpl_read_i64(r);
  out->spill_bytes = (int32_t)fpl_read_i64(r);
  for (int i = 0; i < FPL_KERNEL_MAPS; i++) {
    struct fpl_map_recipe *const map = &out->maps[i];
    map->rows = fpl_read_i64(r);
    map->cols = fpl_read_i64(r);
    map->box_rows = (int32_t)fpl_read_i64(r);
    map->box_cols = (int32_t)fpl_read_i64(r);
    map->slabs = (int32_t)fpl_read_i64(r);
    map->parts = (int32_t)fpl_read_i64(r);
    map->is_image = (int32_t)fpl_read_i64(r);
  }
  /* Divisors and factors of a launch: a damaged row must not become a division by zero. */
  if (out->rows_per_unit < 1 || out->units_per_row < 1 || out->max_clusters < 1 ||
      out->cluster < 1 || out->block_threads < 1)
    r->is_bad = true;
}

static void read_schedule(struct fpl_read *r, bool is_library, struct fpl_schedule *out) {
  const char *const text = fpl_read_text(r);
  if (!is_library && fpl_schedule_parse(text, out, NULL) != FPL_OK)
    r->is_bad = true;
}

enum fpl_status fpl_db_read_environment(struct fpl_db *db, int64_t id, struct fpl_environment *out,
                                        struct fpl_err *err) {
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_ENVIRONMENT_FIELDS);
  fpl_bind_i64(&b, id);
  bool has_row = false;
  enum fpl_status status = FPL_OK;
  while ((status = fpl_bind_step(&b, &has_row, err)) == FPL_OK && has_row) {
    struct fpl_read r = {.statement = b.statement};
    const char *const name = fpl_read_text(&r);
    fpl_environment_set(out, name, fpl_read_text(&r));
  }
  return status;
}

static enum fpl_status read_cubin(struct fpl_db *db, struct fpl_kernel *k, struct fpl_err *err) {
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_KERNEL_CUBIN);
  fpl_bind_text(&b, k->sha);
  bool has_row = false;
  enum fpl_status status = fpl_bind_step(&b, &has_row, err);
  if (status != FPL_OK || !has_row)
    return status;
  const void *const bytes = sqlite3_column_blob(b.statement, 0);
  const int length = sqlite3_column_bytes(b.statement, 0);
  if (bytes && length > 0) {
    k->cubin = malloc((size_t)length);
    if (k->cubin) {
      memcpy(k->cubin, bytes, (size_t)length);
      k->cubin_bytes = (size_t)length;
    } else {
      status = fpl_fail(err, FPL_NO_MEMORY, "%s: out of memory", db->path);
    }
  }
  fpl_bind_reset(&b);
  return status;
}

enum fpl_status fpl_db_read_plan(struct fpl_db *db, sqlite3_stmt *row,
                                 const struct fpl_problem *problem, struct fpl_plan *out,
                                 struct fpl_err *err) {
  struct fpl_read r = {.statement = row};
  out->id = fpl_read_i64(&r);
  const char *const problem_text = fpl_read_text(&r);
  if (problem)
    out->problem = *problem;
  else if (fpl_problem_parse(problem_text, &out->problem, NULL) != FPL_OK)
    r.is_bad = true;
  fpl_read_copy(&r, out->device_name, sizeof out->device_name);
  out->is_library = fpl_read_i64(&r) != 0;
  read_schedule(&r, out->is_library, &out->schedule);
  read_kernel(&r, &out->kernel);
  out->has_cubin = fpl_read_i64(&r) != 0;
  out->m_low = fpl_read_i64(&r);
  out->m_high = fpl_read_i64(&r);
  out->provenance = (enum fpl_provenance)fpl_read_name(&r, fpl_provenance_names);
  out->est_us = fpl_read_f64(&r);
  out->measured_us = fpl_read_f64(&r);
  out->measured_hot_us = fpl_read_f64(&r);
  out->library_us = fpl_read_f64(&r);
  out->library_hot_us = fpl_read_f64(&r);
  out->n_candidates = fpl_read_i64(&r);
  out->n_ok = fpl_read_i64(&r);
  out->created_unix = fpl_read_i64(&r);
  fpl_read_copy(&r, out->reason, sizeof out->reason);
  const int64_t environment_id = fpl_read_i64(&r);
  if (r.is_bad)
    return fpl_db_fail_row(db, "a plan's row holds what no fuseplan wrote", err);
  return fpl_db_read_environment(db, environment_id, &out->environment, err);
}

struct fpl_bind fpl_bind_keys(struct fpl_db *db, enum fpl_query query,
                              const struct fpl_problem *problem, const struct fpl_device *device) {
  char problem_key[FPL_KEY_HEX], device_class_key[FPL_KEY_HEX];
  fpl_problem_key(problem, problem_key);
  fpl_device_class_key(device, device_class_key);
  struct fpl_bind b = fpl_bind_start(db, query);
  fpl_bind_text(&b, problem_key);
  fpl_bind_text(&b, device_class_key);
  return b;
}

enum fpl_status fpl_db_has_plan(struct fpl_db *db, const struct fpl_problem *problem,
                                const struct fpl_device *device, enum fpl_provenance provenance,
                                bool *out, struct fpl_err *err) {
  *out = false;
  if (!db)
    return FPL_OK;
  struct fpl_bind b = fpl_bind_keys(db, FPL_QUERY_HAS_PLAN, problem, device);
  fpl_bind_text(&b, fpl_provenance_names[provenance]);
  int64_t has_one = 0;
  const enum fpl_status status = fpl_bind_answer(&b, 0, &has_one, err);
  *out = has_one != 0;
  return status;
}

enum fpl_status fpl_db_find(struct fpl_db *db, const struct fpl_wanted *wanted, bool with_cubin,
                            struct fpl_plan *out, bool *out_found, struct fpl_err *err) {
  static const enum fpl_query queries[2][2] = {
      {FPL_QUERY_FIND_PLAN, FPL_QUERY_FIND_PLAN_WITH_CUBIN},
      {FPL_QUERY_FIND_DETERMINISTIC_PLAN, FPL_QUERY_FIND_DETERMINISTIC_PLAN_WITH_CUBIN}};
  memset(out, 0, sizeof *out);
  *out_found = false;
  if (!db)
    return FPL_OK;
  struct fpl_bind b = fpl_bind_keys(db, queries[wanted->is_deterministic][wanted->needs_kernel],
                                    wanted->problem, wanted->device);
  bool has_row = false;
  enum fpl_status status = fpl_bind_step(&b, &has_row, err);
  if (status != FPL_OK || !has_row)
    return status;
  /* The open statement keeps the snapshot in which the parts are read. */
  status = fpl_db_read_plan(db, b.statement, wanted->problem, out, err);
  if (status == FPL_OK && with_cubin && out->has_cubin)
    status = read_cubin(db, &out->kernel, err);
  fpl_bind_reset(&b);
  *out_found = status == FPL_OK;
  if (status != FPL_OK)
    fpl_plan_free(out);
  return status;
}

enum fpl_status fpl_db_find_plan(struct fpl_db *db, const struct fpl_problem *problem,
                                 const struct fpl_device *device, bool with_cubin,
                                 struct fpl_plan *out, bool *out_found, struct fpl_err *err) {
  const struct fpl_wanted wanted = {.problem = problem, .device = device};
  return fpl_db_find(db, &wanted, with_cubin, out, out_found, err);
}

enum fpl_status fpl_db_load_cubin(struct fpl_db *db, struct fpl_kernel *kernel,
                                  struct fpl_err *err) {
  return db && kernel->sha[0] ? read_cubin(db, kernel, err) : FPL_OK;
}

static enum fpl_status walk_plans(struct fpl_bind *b, fpl_db_visit_plan *visit, void *context,
                                  struct fpl_err *err) {
  bool has_row = false;
  enum fpl_status status = FPL_OK;
  while (status == FPL_OK && (status = fpl_bind_step(b, &has_row, err)) == FPL_OK && has_row) {
    struct fpl_plan plan = {0};
    status = fpl_db_read_plan(b->db, b->statement, NULL, &plan, err);
    if (status == FPL_OK)
      status = visit(context, &plan, err);
    fpl_plan_free(&plan);
  }
  fpl_bind_reset(b);
  return status;
}

enum fpl_status fpl_db_each_plan(struct fpl_db *db, fpl_db_visit_plan *visit, void *context,
                                 struct fpl_err *err) {
  if (!db)
    return FPL_OK;
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_EACH_PLAN);
  return walk_plans(&b, visit, context, err);
}

enum fpl_status fpl_db_each_plan_as_of(struct fpl_db *db, int64_t as_of_unix,
                                       fpl_db_visit_plan *visit, void *context,
                                       struct fpl_err *err) {
  if (!db)
    return FPL_OK;
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_EACH_PLAN_AS_OF);
  fpl_bind_i64(&b, as_of_unix);
  return walk_plans(&b, visit, context, err);
}

static enum fpl_status find_problem_row(struct fpl_db *db, struct fpl_bind *b, int64_t *out_id,
                                        struct fpl_problem *out, bool *out_found,
                                        struct fpl_err *err) {
  bool has_row = false;
  enum fpl_status status = fpl_bind_step(b, &has_row, err);
  if (status != FPL_OK || !has_row)
    return status;
  struct fpl_read r = {.statement = b->statement};
  *out_id = fpl_read_i64(&r);
  if (fpl_problem_parse(fpl_read_text(&r), out, NULL) != FPL_OK)
    r.is_bad = true;
  if (r.is_bad)
    status = fpl_db_fail_row(db, "a problem's text cannot be read", err);
  if (status == FPL_OK)
    status = fpl_bind_step(b, &has_row, err);
  /* A second row: the beginning of the key is not unique. */
  *out_found = status == FPL_OK && !has_row;
  fpl_bind_reset(b);
  return status;
}

enum fpl_status fpl_db_find_problem(struct fpl_db *db, const char *id, int64_t *out_id,
                                    struct fpl_problem *out, bool *out_found, struct fpl_err *err) {
  *out_id = 0;
  *out_found = false;
  if (!db)
    return FPL_OK;
  int64_t number = 0;
  if (fpl_parse_i64(id, 1, INT64_MAX, &number)) {
    struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_PROBLEM_BY_ID);
    fpl_bind_i64(&b, number);
    const enum fpl_status status = find_problem_row(db, &b, out_id, out, out_found, err);
    if (status != FPL_OK || *out_found)
      return status;
  }
  const size_t length = strlen(id);
  if (length < LEAST_KEY_DIGITS || strspn(id, "0123456789abcdef") != length)
    return FPL_OK;
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_PROBLEM_BY_KEY);
  fpl_bind_text(&b, id);
  return find_problem_row(db, &b, out_id, out, out_found, err);
}

enum fpl_status fpl_db_problem_id(struct fpl_db *db, const struct fpl_problem *problem,
                                  int64_t *out_id, struct fpl_err *err) {
  *out_id = 0;
  if (!db)
    return FPL_OK;
  char key[FPL_KEY_HEX];
  fpl_problem_key(problem, key);
  return fpl_db_id(db, FPL_QUERY_PROBLEM_ID, key, out_id, err);
}

/* NULL where the candidate was not measured in this cache state: all zero. */
static void read_stats(struct fpl_read *r, struct fpl_stats *out) {
  out->n = fpl_read_i64(r);
  double *const numbers[] = {&out->median_us, &out->p05_us, &out->p95_us,
                             &out->least_us,  &out->low_us, &out->high_us};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    const double value = fpl_read_f64(r);
    *numbers[i] = isnan(value) ? 0 : value;
  }
}

static int read_method(struct fpl_read *r) {
  if (sqlite3_column_type(r->statement, r->next) == SQLITE_NULL) {
    r->next++;
    return FPL_METHOD_NONE;
  }
  return fpl_read_name(r, fpl_method_names);
}

/* A row of EACH_CANDIDATE. */
static bool read_candidate(sqlite3_stmt *row, struct fpl_db_candidate *out) {
  struct fpl_read r = {.statement = row};
  struct fpl_result *const result = &out->result;
  out->id = fpl_read_i64(&r);
  out->run_id = fpl_read_i64(&r);
  out->attempt = fpl_read_i64(&r);
  fpl_read_copy(&r, out->device_name, sizeof out->device_name);
  out->is_plan = fpl_read_i64(&r) != 0;
  result->is_library = fpl_read_i64(&r) != 0;
  read_schedule(&r, result->is_library, &result->schedule);
  result->est_us = fpl_read_f64(&r);
  result->est_plain_us = fpl_read_f64(&r);
  result->outcome = (enum fpl_outcome)fpl_read_name(&r, fpl_outcome_names);
  fpl_read_copy(&r, result->reason, sizeof result->reason);
  result->verification.was_exact_ok = fpl_read_i64(&r) != 0;
  result->verification.relative_error = fpl_read_f64(&r);
  result->verification.was_in_bounds = fpl_read_i64(&r) != 0;
  const int cold = read_method(&r), hot = read_method(&r);
  result->method = (enum fpl_method)(cold != FPL_METHOD_NONE ? cold : hot);
  for (int state = 0; state < FPL_CACHE_STATES; state++)
    read_stats(&r, &result->stats[state]);
  read_kernel(&r, &result->kernel);
  return !r.is_bad;
}

enum fpl_status fpl_db_each_candidate(struct fpl_db *db, int64_t problem_id,
                                      fpl_db_visit_candidate *visit, void *context,
                                      struct fpl_err *err) {
  if (!db)
    return FPL_OK;
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_EACH_CANDIDATE);
  fpl_bind_i64(&b, problem_id);
  bool has_row = false;
  enum fpl_status status = FPL_OK;
  while (status == FPL_OK && (status = fpl_bind_step(&b, &has_row, err)) == FPL_OK && has_row) {
    struct fpl_db_candidate candidate = {0};
    if (read_candidate(b.statement, &candidate))
      status = visit(context, &candidate, err);
    else
      status = fpl_db_fail_row(db, "a candidate's row holds what no fuseplan wrote", err);
  }
  fpl_bind_reset(&b);
  return status;
}

static enum fpl_status copy_samples(struct fpl_db *db, sqlite3_stmt *row, int column,
                                    struct fpl_samples *out, struct fpl_err *err) {
  const void *const bytes = sqlite3_column_blob(row, column);
  const size_t length = (size_t)sqlite3_column_bytes(row, column);
  if (length == 0)
    return FPL_OK;
  out->us = malloc(length);
  if (!out->us)
    return fpl_fail(err, FPL_NO_MEMORY, "%s: out of memory", db->path);
  memcpy(out->us, bytes, length);
  out->n = (int64_t)(length / sizeof *out->us);
  return FPL_OK;
}

enum fpl_status fpl_db_read_samples(struct fpl_db *db, int64_t candidate_id,
                                    struct fpl_samples out[FPL_CACHE_STATES],
                                    int64_t *out_run_started_unix, struct fpl_err *err) {
  memset(out, 0, FPL_CACHE_STATES * sizeof *out);
  *out_run_started_unix = 0;
  if (!db)
    return FPL_OK;
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_CANDIDATE_SAMPLES);
  fpl_bind_i64(&b, candidate_id);
  bool has_row = false;
  enum fpl_status status = fpl_bind_step(&b, &has_row, err);
  if (status != FPL_OK || !has_row)
    return status;
  *out_run_started_unix = sqlite3_column_int64(b.statement, 0);
  for (int state = 0; status == FPL_OK && state < FPL_CACHE_STATES; state++)
    status = copy_samples(db, b.statement, 1 + state, &out[state], err);
  fpl_bind_reset(&b);
  for (int state = 0; status != FPL_OK && state < FPL_CACHE_STATES; state++) {
    free(out[state].us);
    out[state] = (struct fpl_samples){0};
  }
  return status;
}
