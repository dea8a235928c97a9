/* Writing: runs, and what a run found for one problem. */
#include "db/handle.h"

#include "tuner/base/sys.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const fpl_run_state_names[] = {"running", "done", "failed", "interrupted", NULL};
const char *const fpl_cache_state_names[] = {"cold", "hot", NULL};

enum fpl_status fpl_db_begin_run(struct fpl_db *db, uint64_t seed, const char *tool_version,
                                 const char *arguments, int64_t *out_run_id, struct fpl_err *err) {
  *out_run_id = 0;
  if (!db)
    return FPL_OK;
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_BEGIN_RUN);
  fpl_bind_i64(&b, fpl_unix_seconds());
  fpl_bind_i64(&b, (int64_t)seed);
  fpl_bind_text(&b, tool_version);
  fpl_bind_text(&b, arguments);
  const enum fpl_status status = fpl_bind_run(&b, NULL, err);
  if (status == FPL_OK)
    *out_run_id = sqlite3_last_insert_rowid(db->handle);
  return status;
}

enum fpl_status fpl_db_end_run(struct fpl_db *db, int64_t run_id, enum fpl_run_state state,
                               struct fpl_err *err) {
  if (!db)
    return FPL_OK;
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_END_RUN);
  fpl_bind_i64(&b, run_id);
  fpl_bind_i64(&b, fpl_unix_seconds());
  fpl_bind_text(&b, fpl_run_state_names[state]);
  const enum fpl_status status = fpl_bind_run(&b, NULL, err);
  if (status != FPL_OK)
    return status;
  b = fpl_bind_start(db, FPL_QUERY_DELETE_EMPTY_RUN);
  fpl_bind_i64(&b, run_id);
  return fpl_bind_run(&b, NULL, err);
}

enum fpl_status fpl_db_id(struct fpl_db *db, enum fpl_query query, const char *key, int64_t *out,
                          struct fpl_err *err) {
  struct fpl_bind b = fpl_bind_start(db, query);
  fpl_bind_text(&b, key);
  return fpl_bind_answer(&b, 0, out, err);
}

void fpl_environment_key(const struct fpl_environment *e, char out[FPL_KEY_HEX]) {
  struct fpl_hash_piece pieces[2 * FPL_ENVIRONMENT_FIELDS];
  for (int i = 0; i < e->n_fields; i++) {
    pieces[2 * i] = (struct fpl_hash_piece){e->fields[i].name, strlen(e->fields[i].name)};
    pieces[2 * i + 1] = (struct fpl_hash_piece){e->fields[i].value, strlen(e->fields[i].value)};
  }
  char full[FPL_HASH_HEX];
  fpl_hash_hex(pieces, 2 * (size_t)e->n_fields, full);
  snprintf(out, FPL_KEY_HEX, "%.*s", FPL_KEY_HEX - 1, full);
}

void fpl_candidate_key(const char *run_key, const char *problem_key, const char *device_class_key,
                       int64_t attempt, const char *schedule, char out[FPL_KEY_HEX]) {
  char text[4 * FPL_KEY_HEX + FPL_SCHEDULE_TEXT];
  snprintf(text, sizeof text, "%s %s %s %lld %s", run_key, problem_key, device_class_key,
           (long long)attempt, schedule);
  fpl_hash_key(text, out);
}

enum fpl_status fpl_db_put_environment(struct fpl_db *db, const struct fpl_environment *e,
                                       int64_t *out_id, bool *out_is_new, struct fpl_err *err) {
  *out_is_new = false;
  char key[FPL_KEY_HEX];
  fpl_environment_key(e, key);
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_INSERT_ENVIRONMENT);
  fpl_bind_text(&b, key);
  enum fpl_status status = fpl_bind_run(&b, out_is_new, err);
  if (status == FPL_OK)
    status = fpl_db_id(db, FPL_QUERY_ENVIRONMENT_ID, key, out_id, err);
  for (int i = 0; status == FPL_OK && *out_is_new && i < e->n_fields; i++) {
    b = fpl_bind_start(db, FPL_QUERY_INSERT_ENVIRONMENT_FIELD);
    fpl_bind_i64(&b, *out_id);
    fpl_bind_text(&b, e->fields[i].name);
    fpl_bind_text(&b, e->fields[i].value);
    status = fpl_bind_run(&b, NULL, err);
  }
  return status;
}

enum fpl_status fpl_db_put_problem(struct fpl_db *db, const struct fpl_problem *p, int64_t *out_id,
                                   bool *out_is_new, struct fpl_err *err) {
  char key[FPL_KEY_HEX], text[FPL_PROBLEM_TEXT];
  fpl_problem_key(p, key);
  fpl_problem_text(p, text);
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_INSERT_PROBLEM);
  fpl_bind_text(&b, key);
  fpl_bind_text(&b, text);
  fpl_bind_text(&b, fpl_kind_names[p->kind]);
  fpl_bind_text(&b, fpl_dtype_names[p->dtype]);
  fpl_bind_text(&b, fpl_act_names[p->act]);
  const int64_t extents[] = {p->m,       p->n,      p->k,      p->l,      p->conv.batch,
                             p->conv.ic, p->conv.h, p->conv.w, p->conv.k1};
  for (size_t i = 0; i < sizeof extents / sizeof *extents; i++) {
    if (i >= FPL_DIMS && p->kind != FPL_KIND_CONV_CHAIN)
      fpl_bind_null(&b);
    else
      fpl_bind_i64(&b, extents[i]);
  }
  const enum fpl_status status = fpl_bind_run(&b, out_is_new, err);
  return status == FPL_OK ? fpl_db_id(db, FPL_QUERY_PROBLEM_ID, key, out_id, err) : status;
}

static enum fpl_status put_device_class(struct fpl_db *db, const struct fpl_device *d,
                                        const char *key, int64_t *out_id, struct fpl_err *err) {
  char text[FPL_DEVICE_CLASS_TEXT];
  fpl_device_class_text(d, text);
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_INSERT_DEVICE_CLASS);
  fpl_bind_text(&b, key);
  fpl_bind_text(&b, text);
  fpl_bind_text(&b, d->name);
  fpl_bind_text(&b, d->title);
  fpl_bind_i64(&b, d->capability_major);
  fpl_bind_i64(&b, d->capability_minor);
  fpl_bind_i64(&b, d->sms);
  fpl_bind_i64(&b, d->l2_bytes);
  fpl_bind_i64(&b, d->hbm_bytes);
  fpl_bind_f64(&b, d->sm_clock_mhz);
  fpl_bind_i64(&b, d->smem_bytes_per_block);
  fpl_bind_i64(&b, d->smem_bytes_per_sm);
  fpl_bind_i64(&b, d->registers_per_sm);
  fpl_bind_i64(&b, d->threads_per_sm);
  fpl_bind_i64(&b, d->max_cluster);
  const enum fpl_status status = fpl_bind_run(&b, NULL, err);
  return status == FPL_OK ? fpl_db_id(db, FPL_QUERY_DEVICE_CLASS_ID, key, out_id, err) : status;
}

static enum fpl_status put_kernel(struct fpl_db *db, const struct fpl_kernel *k, int64_t *out_id,
                                  struct fpl_err *err) {
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_INSERT_KERNEL);
  fpl_bind_text(&b, k->sha);
  fpl_bind_text(&b, k->name);
  fpl_bind_text(&b, k->family);
  fpl_bind_text(&b, k->source_key);
  const int64_t launch[] = {k->cluster,
                            k->block_threads,
                            k->smem_bytes,
                            k->rows_per_unit,
                            k->units_per_row,
                            k->max_clusters,
                            k->workspace_bytes_per_row_group,
                            k->registers,
                            k->spill_bytes};
  for (size_t i = 0; i < sizeof launch / sizeof *launch; i++)
    fpl_bind_i64(&b, launch[i]);
  for (int i = 0; i < FPL_KERNEL_MAPS; i++) {
    const struct fpl_map_recipe *const map = &k->maps[i];
    fpl_bind_i64(&b, map->rows);
    fpl_bind_i64(&b, map->cols);
    fpl_bind_i64(&b, map->box_rows);
    fpl_bind_i64(&b, map->box_cols);
    fpl_bind_i64(&b, map->slabs);
    fpl_bind_i64(&b, map->parts);
    fpl_bind_i64(&b, map->is_image);
  }
  if (k->cubin)
    fpl_bind_blob(&b, k->cubin, k->cubin_bytes);
  else
    fpl_bind_null(&b);
  const enum fpl_status status = fpl_bind_run(&b, NULL, err);
  return status == FPL_OK ? fpl_db_id(db, FPL_QUERY_KERNEL_ID, k->sha, out_id, err) : status;
}

void fpl_bind_schedule(struct fpl_bind *b, const struct fpl_schedule *s, bool is_library) {
  for (int i = 0; i < FPL_N_FIELDS; i++) {
    const struct fpl_schedule_field *const field = &fpl_schedule_fields[i];
    if (is_library)
      fpl_bind_null(b);
    else if (field->names)
      fpl_bind_text(b, field->names[fpl_schedule_get(s, i)]);
    else
      fpl_bind_i64(b, fpl_schedule_get(s, i));
  }
}

/* What store_problem was given, and the rows it has made so far. */
struct store {
  int64_t run_id;
  const struct fpl_problem *problem;
  const struct fpl_device *device;
  const struct fpl_result *results;
  int n;
  const struct fpl_environment *environment;
  const struct fpl_plan *plan;
  char run_key[FPL_KEY_HEX], problem_key[FPL_KEY_HEX], device_class_key[FPL_KEY_HEX];
  int64_t problem_id, device_class_id, environment_id, attempt;
};

static enum fpl_status put_samples(struct fpl_db *db, const struct store *s, int64_t candidate_id,
                                   const struct fpl_result *r, int state, struct fpl_err *err) {
  const struct fpl_samples *const samples = &r->samples[state];
  const struct fpl_stats *const stats = &r->stats[state];
  if (stats->n == 0 && samples->n == 0)
    return FPL_OK;
  const size_t n = samples->us ? (size_t)samples->n : 0;
  double *const us = malloc((n ? n : 1) * sizeof *us);
  if (!us)
    return fpl_fail(err, FPL_NO_MEMORY, "%s: out of memory", db->path);
  for (size_t i = 0; i < n; i++)
    us[i] = isfinite(samples->us[i]) ? samples->us[i] : (double)NAN;
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_INSERT_MEASUREMENT);
  fpl_bind_i64(&b, candidate_id);
  fpl_bind_text(&b, fpl_cache_state_names[state]);
  fpl_bind_text(&b, fpl_method_names[r->method]);
  fpl_bind_i64(&b, s->environment_id);
  fpl_bind_i64(&b, stats->n);
  const double numbers[] = {stats->median_us, stats->p05_us, stats->p95_us,
                            stats->least_us,  stats->low_us, stats->high_us};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    fpl_bind_f64(&b, numbers[i]);
  fpl_bind_blob(&b, us, n * sizeof *us);
  const enum fpl_status status = fpl_bind_run(&b, NULL, err);
  free(us);
  return status;
}

static void schedule_text(const struct fpl_schedule *s, bool is_library,
                          char out[FPL_SCHEDULE_TEXT]) {
  *out = '\0';
  if (!is_library)
    fpl_schedule_text(s, out);
}

static enum fpl_status put_candidate(struct fpl_db *db, const struct store *s,
                                     const struct fpl_result *r, struct fpl_err *err) {
  int64_t kernel_id = 0;
  enum fpl_status status = FPL_OK;
  if (r->kernel.sha[0])
    status = put_kernel(db, &r->kernel, &kernel_id, err);
  if (status != FPL_OK)
    return status;
  char key[FPL_KEY_HEX], schedule[FPL_SCHEDULE_TEXT];
  schedule_text(&r->schedule, r->is_library, schedule);
  fpl_candidate_key(s->run_key, s->problem_key, s->device_class_key, s->attempt, schedule, key);
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_INSERT_CANDIDATE);
  fpl_bind_text(&b, key);
  fpl_bind_i64(&b, s->run_id);
  fpl_bind_i64(&b, s->problem_id);
  fpl_bind_i64(&b, s->device_class_id);
  fpl_bind_i64(&b, s->attempt);
  fpl_bind_i64(&b, r->is_library);
  fpl_bind_text(&b, schedule);
  fpl_bind_f64(&b, r->est_us);
  fpl_bind_f64(&b, r->est_plain_us);
  fpl_bind_text(&b, fpl_outcome_names[r->outcome]);
  fpl_bind_text(&b, r->reason);
  fpl_bind_i64(&b, r->verification.was_exact_ok);
  if (isfinite(r->verification.relative_error))
    fpl_bind_f64(&b, r->verification.relative_error);
  else
    fpl_bind_null(&b);
  fpl_bind_i64(&b, r->verification.was_in_bounds);
  if (kernel_id)
    fpl_bind_i64(&b, kernel_id);
  else
    fpl_bind_null(&b);
  fpl_bind_schedule(&b, &r->schedule, r->is_library);
  bool is_new = false;
  status = fpl_bind_run(&b, &is_new, err);
  if (status == FPL_OK && !is_new)
    return fpl_fail(err, FPL_INTERNAL, "%s: candidate '%s' stands twice among the results",
                    db->path, r->is_library ? "library" : schedule);
  const int64_t candidate_id = sqlite3_last_insert_rowid(db->handle);
  for (int state = 0; status == FPL_OK && state < FPL_CACHE_STATES; state++)
    status = put_samples(db, s, candidate_id, r, state, err);
  return status;
}

static enum fpl_status put_plan(struct fpl_db *db, const struct store *s, struct fpl_err *err) {
  const struct fpl_plan *const p = s->plan;
  char key[FPL_KEY_HEX], schedule[FPL_SCHEDULE_TEXT];
  schedule_text(&p->schedule, p->is_library, schedule);
  fpl_candidate_key(s->run_key, s->problem_key, s->device_class_key, s->attempt, schedule, key);
  int64_t candidate_id = 0;
  const enum fpl_status status = fpl_db_id(db, FPL_QUERY_CANDIDATE_ID, key, &candidate_id, err);
  if (status != FPL_OK)
    return status;
  if (candidate_id == 0)
    return fpl_fail(err, FPL_INTERNAL, "%s: the plan '%s' is not among the results", db->path,
                    p->is_library ? "library" : schedule);
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_INSERT_PLAN);
  fpl_bind_i64(&b, candidate_id);
  fpl_bind_i64(&b, s->environment_id);
  fpl_bind_text(&b, fpl_provenance_names[p->provenance]);
  const double times[] = {p->est_us, p->measured_us, p->measured_hot_us, p->library_us,
                          p->library_hot_us};
  for (size_t i = 0; i < sizeof times / sizeof *times; i++)
    fpl_bind_f64(&b, times[i]);
  fpl_bind_i64(&b, p->n_candidates);
  fpl_bind_i64(&b, p->n_ok);
  fpl_bind_text(&b, p->reason);
  fpl_bind_i64(&b, p->created_unix ? p->created_unix : fpl_unix_seconds());
  fpl_bind_i64(&b, 1);
  fpl_bind_text(&b, "");
  return fpl_bind_run(&b, NULL, err);
}

static enum fpl_status read_run_key(struct fpl_db *db, struct store *s, struct fpl_err *err) {
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_RUN_KEY);
  fpl_bind_i64(&b, s->run_id);
  bool has_row = false;
  const enum fpl_status status = fpl_bind_step(&b, &has_row, err);
  if (status == FPL_OK && !has_row)
    return fpl_fail(err, FPL_INTERNAL, "%s: run %lld was never begun", db->path,
                    (long long)s->run_id);
  if (status == FPL_OK) {
    struct fpl_read r = {.statement = b.statement};
    fpl_read_copy(&r, s->run_key, sizeof s->run_key);
    fpl_bind_reset(&b);
  }
  return status;
}

static enum fpl_status store_body(struct fpl_db *db, void *context, struct fpl_err *err) {
  struct store *const s = context;
  bool is_new = false;
  enum fpl_status status = read_run_key(db, s, err);
  if (status == FPL_OK)
    status = fpl_db_put_problem(db, s->problem, &s->problem_id, &is_new, err);
  if (status == FPL_OK)
    status = put_device_class(db, s->device, s->device_class_key, &s->device_class_id, err);
  if (status == FPL_OK)
    status = fpl_db_put_environment(db, s->environment, &s->environment_id, &is_new, err);
  if (status != FPL_OK)
    return status;
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_NEXT_ATTEMPT);
  fpl_bind_i64(&b, s->run_id);
  fpl_bind_i64(&b, s->problem_id);
  fpl_bind_i64(&b, s->device_class_id);
  status = fpl_bind_answer(&b, 1, &s->attempt, err);
  for (int i = 0; status == FPL_OK && i < s->n; i++)
    status = put_candidate(db, s, &s->results[i], err);
  if (status == FPL_OK && s->plan)
    status = put_plan(db, s, err);
  return status;
}

enum fpl_status fpl_db_store_problem(struct fpl_db *db, int64_t run_id,
                                     const struct fpl_problem *problem,
                                     const struct fpl_device *device,
                                     const struct fpl_result *results, int n,
                                     const struct fpl_environment *environment,
                                     const struct fpl_plan *plan, struct fpl_err *err) {
  if (!db)
    return FPL_OK;
  struct fpl_environment clean = *environment; /* its key is that of what is stored */
  for (int i = 0; i < clean.n_fields; i++) {
    fpl_clean_text(clean.fields[i].name);
    fpl_clean_text(clean.fields[i].value);
  }
  struct store s = {.run_id = run_id,
                    .problem = problem,
                    .device = device,
                    .results = results,
                    .n = n,
                    .environment = &clean,
                    .plan = plan};
  fpl_problem_key(problem, s.problem_key);
  fpl_device_class_key(device, s.device_class_key);
  return fpl_db_transaction(db, store_body, &s, err);
}
