#include "tuner/cli/t1t4.h"

#include "tuner/cli/cli.h"
#include "tuner/cli/stored.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Kernel Tuner's unit of time. */
static const double US_PER_MS = 1000;

/* What the schema calls an outcome; NULL: not a result, for nothing was tried to its end. */
static const char *const invalidities[FPL_N_OUTCOMES] = {
    [FPL_OUTCOME_OK] = "correct",
    [FPL_OUTCOME_CONSTRAINT] = "constraints",
    [FPL_OUTCOME_COMPILE_ERROR] = "compile",
    [FPL_OUTCOME_COMPILE_TIMEOUT] = "timeout",
    [FPL_OUTCOME_RESOURCE_LIMIT] = "constraints",
    [FPL_OUTCOME_LAUNCH_ERROR] = "runtime",
    [FPL_OUTCOME_STICKY_ERROR] = "runtime",
    [FPL_OUTCOME_RUN_TIMEOUT] = "timeout",
    [FPL_OUTCOME_WRONG_RESULT] = "correctness",
    [FPL_OUTCOME_NONDETERMINISTIC] = "correctness",
    [FPL_OUTCOME_INVALID_TIME] = "runtime",
    [FPL_OUTCOME_THROTTLED] = "runtime",
    [FPL_OUTCOME_CONTENDED] = "runtime",
    [FPL_OUTCOME_OOM] = "runtime",
    [FPL_OUTCOME_WORKER_LOST] = "runtime",
};

/* The candidates of one problem on one device, without the library: it has no schedule. */
struct selection {
  struct fpl_problem problem;
  const char *device; /* NULL: any */
  char first_device[32], other_device[32];
  struct fpl_db_candidate *candidates;
  size_t n, capacity;
};

static enum fpl_status select_candidate(void *context, const struct fpl_db_candidate *c,
                                        struct fpl_err *err) {
  struct selection *const s = context;
  if (s->device && strcmp(s->device, c->device_name) != 0)
    return FPL_OK;
  if (!s->first_device[0])
    snprintf(s->first_device, sizeof s->first_device, "%s", c->device_name);
  else if (strcmp(s->first_device, c->device_name) != 0)
    snprintf(s->other_device, sizeof s->other_device, "%s", c->device_name);
  if (c->result.is_library)
    return FPL_OK;
  if (s->n == s->capacity) {
    s->capacity = s->capacity ? 2 * s->capacity : 64;
    struct fpl_db_candidate *const grown = realloc(s->candidates, s->capacity * sizeof *grown);
    if (!grown)
      return fpl_fail(err, FPL_NO_MEMORY, "out of memory");
    s->candidates = grown;
  }
  s->candidates[s->n++] = *c;
  return FPL_OK;
}

static enum fpl_status select_problem(struct fpl_db *db, const char *id, struct selection *s,
                                      struct fpl_err *err) {
  if (!id)
    return fpl_fail(err, FPL_USAGE, "--problem is missing: t4 and t1 describe one problem");
  int64_t number = 0;
  bool is_found = false;
  enum fpl_status status = fpl_db_find_problem(db, id, &number, &s->problem, &is_found, err);
  if (status == FPL_OK && !is_found)
    return fpl_fail(err, FPL_USAGE, "no problem '%s': 'fuseplan show' lists the ids", id);
  if (status == FPL_OK)
    status = fpl_db_each_candidate(db, number, select_candidate, s, err);
  if (status == FPL_OK && s->other_device[0])
    return fpl_fail(err, FPL_USAGE, "problem '%s' was tuned on %s and %s: choose one by --device",
                    id, s->first_device, s->other_device);
  if (status == FPL_OK && !s->first_device[0])
    return fpl_fail(err, FPL_USAGE, "problem '%s' was not tuned on '%s'", id,
                    s->device ? s->device : "any device");
  return status;
}

static enum fpl_status append_json(json_t *object, struct fpl_text *out, struct fpl_err *err) {
  char *const text = object ? json_dumps(object, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
  if (text)
    fpl_text_append(out, "%s\n", text);
  const bool is_good = text && !out->is_broken;
  free(text);
  json_decref(object);
  return is_good ? FPL_OK : fpl_fail(err, FPL_NO_MEMORY, "out of memory");
}

static void add_measurement(json_t *list, const char *name, double us) {
  if (us > 0)
    json_array_append_new(
        list, json_pack("{s:s, s:f, s:s}", "name", name, "value", us / US_PER_MS, "unit", "ms"));
}

static json_t *runtimes_json(const struct fpl_samples *samples) {
  json_t *const out = json_array();
  for (int64_t i = 0; i < samples->n; i++)
    if (isfinite(samples->us[i]))
      json_array_append_new(out, json_real(samples->us[i] / US_PER_MS));
  return out;
}

static json_t *result_json(const struct fpl_db_candidate *c, const struct fpl_samples *cold,
                           int64_t run_started_unix) {
  const struct fpl_result *const r = &c->result;
  char date[FPL_DATE_TEXT];
  fpl_date_text(run_started_unix, date);
  json_t *const measurements = json_array();
  const bool is_ok = r->outcome == FPL_OUTCOME_OK;
  if (is_ok) {
    add_measurement(measurements, "time", r->stats[FPL_COLD].median_us);
    add_measurement(measurements, "time_hot", r->stats[FPL_HOT].median_us);
  }
  add_measurement(measurements, "time_predicted", r->est_us);
  return json_pack("{s:s, s:o, s:{s:o}, s:s, s:i, s:o, s:[s]}", "timestamp", date, "configuration",
                   fpl_json_schedule(&r->schedule), "times", "runtimes", runtimes_json(cold),
                   "invalidity", invalidities[r->outcome], "correctness", is_ok, "measurements",
                   measurements, "objectives", "time");
}

static enum fpl_status add_result(struct fpl_db *db, const struct fpl_db_candidate *c,
                                  json_t *results, struct fpl_err *err) {
  if (!invalidities[c->result.outcome])
    return FPL_OK;
  struct fpl_samples samples[FPL_CACHE_STATES];
  int64_t run_started_unix = 0;
  const enum fpl_status status = fpl_db_read_samples(db, c->id, samples, &run_started_unix, err);
  if (status != FPL_OK)
    return status;
  json_array_append_new(results, result_json(c, &samples[FPL_COLD], run_started_unix));
  for (int state = 0; state < FPL_CACHE_STATES; state++)
    free(samples[state].us);
  return FPL_OK;
}

enum fpl_status fpl_t4_write(struct fpl_db *db, const char *problem, const char *device,
                             struct fpl_text *out, struct fpl_err *err) {
  struct selection s = {.device = device};
  json_t *const results = json_array();
  enum fpl_status status = select_problem(db, problem, &s, err);
  for (size_t i = 0; status == FPL_OK && i < s.n; i++)
    status = add_result(db, &s.candidates[i], results, err);
  if (status == FPL_OK)
    status = append_json(json_pack("{s:s, s:O}", "schema_version", "1.0.0", "results", results),
                         out, err);
  json_decref(results);
  free(s.candidates);
  return status;
}

static int compare_i32(const void *a, const void *b) {
  const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

/* "[1, 2, 4]" or "['dsm', 'l2']": a list as Python writes it. */
static void append_values(const struct fpl_schedule_field *field, int32_t *values, size_t n,
                          struct fpl_text *out) {
  qsort(values, n, sizeof *values, compare_i32);
  fpl_text_append(out, "[");
  for (size_t i = 0; i < n; i++) {
    if (i > 0 && values[i] == values[i - 1])
      continue;
    fpl_text_append(out, "%s", i ? ", " : "");
    if (field->names)
      fpl_text_append(out, "'%s'", field->names[values[i]]);
    else
      fpl_text_append(out, "%d", values[i]);
  }
  fpl_text_append(out, "]");
}

/* NULL: out of memory. */
static json_t *parameters_json(const struct selection *s) {
  int32_t *const values = calloc(s->n + 1, sizeof *values);
  json_t *const out = values ? json_array() : NULL;
  for (int field = 0; out && field < FPL_N_FIELDS; field++) {
    for (size_t i = 0; i < s->n; i++)
      values[i] = fpl_schedule_get(&s->candidates[i].result.schedule, field);
    struct fpl_text text = {0};
    append_values(&fpl_schedule_fields[field], values, s->n, &text);
    json_array_append_new(
        out, json_pack("{s:s, s:s, s:s}", "Name", fpl_schedule_fields[field].name, "Type",
                       fpl_schedule_fields[field].names ? "string" : "int", "Values", text.text));
    fpl_text_free(&text);
  }
  free(values);
  return out;
}

/* The fastest verified candidate with a kernel; else the first with one; NULL: none has. */
static const struct fpl_kernel *best_kernel(const struct selection *s) {
  const struct fpl_result *best = NULL;
  for (size_t i = 0; i < s->n; i++) {
    const struct fpl_result *const r = &s->candidates[i].result;
    if (!r->kernel.sha[0])
      continue;
    const bool is_faster = best && r->outcome == FPL_OUTCOME_OK &&
                           (best->outcome != FPL_OUTCOME_OK ||
                            r->stats[FPL_COLD].median_us < best->stats[FPL_COLD].median_us);
    if (!best || is_faster)
      best = r;
  }
  return best ? &best->kernel : NULL;
}

static json_t *specification_json(const struct selection *s, const struct fpl_kernel *k) {
  char file[64], grid[24], block[24];
  snprintf(file, sizeof file, "codegen/skeletons/%s.cuh", k->family);
  snprintf(grid, sizeof grid, "%lld", (long long)fpl_kernel_grid(k, s->problem.m));
  snprintf(block, sizeof block, "%d", (int)k->block_threads);
  return json_pack("{s:s, s:s, s:s, s:s, s:I, s:{s:s}, s:{s:s}, s:{s:s}}", "Language", "CUDA",
                   "KernelName", k->name, "KernelFile", file, "GlobalSizeType", "CUDA",
                   "SharedMemory", (json_int_t)k->smem_bytes, "Device", "Name", s->first_device,
                   "GlobalSize", "X", grid, "LocalSize", "X", block);
}

enum fpl_status fpl_t1_write(struct fpl_db *db, const char *problem, const char *device,
                             struct fpl_text *out, struct fpl_err *err) {
  struct selection s = {.device = device};
  enum fpl_status status = select_problem(db, problem, &s, err);
  const struct fpl_kernel *const k = status == FPL_OK ? best_kernel(&s) : NULL;
  if (status == FPL_OK && !k)
    status =
        fpl_fail(err, FPL_USAGE,
                 "problem '%s' has no compiled kernel, which T1 must name: tune it where NVRTC "
                 "is",
                 problem);
  if (status == FPL_OK) {
    char text[FPL_PROBLEM_TEXT];
    fpl_problem_text(&s.problem, text);
    status = append_json(json_pack("{s:{s:o}, s:[{s:s, s:I}], s:{s:i, s:s, s:s, s:s}, s:o}",
                                   "ConfigurationSpace", "TuningParameters", parameters_json(&s),
                                   "Budget", "Type", "ConfigurationCount", "BudgetValue",
                                   (json_int_t)s.n, "General", "FormatVersion", 1, "TimeUnit",
                                   "Milliseconds", "OutputFormat", "JSON", "BenchmarkName", text,
                                   "KernelSpecification", specification_json(&s, k)),
                         out, err);
  }
  free(s.candidates);
  return status;
}
