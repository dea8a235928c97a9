/* Decides what a well-formed request is and how an answer is spelt. */
#include "tuner/measure/worker_text.h"

#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const fpl_op_names[] = {"open", "load", "verify", "sample", "unload", "close", NULL};
static const char *const state_names[] = {"cold", "hot", NULL};

static enum fpl_status get_i64(const json_t *object, const char *key, int64_t least, int64_t most,
                               int64_t *out, struct fpl_err *err) {
  const json_t *value = json_object_get(object, key);
  if (!json_is_integer(value))
    return fpl_fail(err, FPL_PARSE, "request: %s: an integer is wanted", key);
  *out = json_integer_value(value);
  if (*out < least || *out > most)
    return fpl_fail(err, FPL_PARSE, "request: %s: %lld is out of range", key, (long long)*out);
  return FPL_OK;
}

static enum fpl_status get_i32(const json_t *object, const char *key, int32_t least, int32_t most,
                               int32_t *out, struct fpl_err *err) {
  int64_t wide = 0;
  const enum fpl_status status = get_i64(object, key, least, most, &wide, err);
  *out = (int32_t)wide;
  return status;
}

static enum fpl_status get_text(const json_t *object, const char *key, size_t size, char *out,
                                struct fpl_err *err) {
  const char *text = json_string_value(json_object_get(object, key));
  if (text == NULL)
    return fpl_fail(err, FPL_PARSE, "request: %s: text is wanted", key);
  if (text[0] == '\0' || strlen(text) >= size)
    return fpl_fail(err, FPL_PARSE, "request: %s: empty or longer than %zu characters", key,
                    size - 1);
  memcpy(out, text, strlen(text) + 1);
  return FPL_OK;
}

static enum fpl_status get_name(const json_t *object, const char *key, const char *const *names,
                                int *out, struct fpl_err *err) {
  char text[32];
  const enum fpl_status status = get_text(object, key, sizeof text, text, err);
  if (status != FPL_OK)
    return status;
  *out = fpl_name_index(names, text);
  if (*out < 0)
    return fpl_fail(err, FPL_PARSE, "request: %s: \"%s\" is unknown", key, text);
  return FPL_OK;
}

static enum fpl_status get_flag(const json_t *object, const char *key, int32_t *out,
                                struct fpl_err *err) {
  const json_t *value = json_object_get(object, key);
  if (!json_is_boolean(value))
    return fpl_fail(err, FPL_PARSE, "request: %s: true or false is wanted", key);
  *out = json_is_true(value) ? 1 : 0;
  return FPL_OK;
}

/* Box limits: cuTensorMapEncodeTiled takes at most 256 elements along each box dimension. */
static enum fpl_status parse_map(const json_t *object, struct fpl_map_recipe *out,
                                 struct fpl_err *err) {
  enum fpl_status status = get_i64(object, "rows", -1, INT32_MAX, &out->rows, err);
  if (status == FPL_OK)
    status = get_i64(object, "cols", 1, INT32_MAX, &out->cols, err);
  if (status == FPL_OK)
    status = get_i32(object, "box_rows", 1, 256, &out->box_rows, err);
  if (status == FPL_OK)
    status = get_i32(object, "box_cols", 1, 256, &out->box_cols, err);
  if (status == FPL_OK)
    status = get_i32(object, "slabs", 1, 256, &out->slabs, err);
  if (status == FPL_OK)
    status = get_i32(object, "parts", 1, 256, &out->parts, err);
  if (status == FPL_OK)
    status = get_flag(object, "is_image", &out->is_image, err);
  if (status == FPL_OK && out->rows == 0)
    status = fpl_fail(err, FPL_PARSE, "request: rows: 0 is neither a count nor the run-time m");
  return status;
}

static enum fpl_status parse_maps(const json_t *maps, struct fpl_map_recipe *out,
                                  struct fpl_err *err) {
  if (!json_is_array(maps) || json_array_size(maps) != FPL_KERNEL_MAPS)
    return fpl_fail(err, FPL_PARSE, "request: maps: a list of %d is wanted", FPL_KERNEL_MAPS);
  for (size_t i = 0; i < FPL_KERNEL_MAPS; i++) {
    const enum fpl_status status = parse_map(json_array_get(maps, i), &out[i], err);
    if (status != FPL_OK) {
      fpl_err_prefix(err, "map %zu", i);
      return status;
    }
  }
  return FPL_OK;
}

/* Bounds are those of the launch call: 1024 threads a block and clusters of 16 (CUDA programming
 * guide, technical specifications); everything finer is the driver's to refuse. */
static enum fpl_status parse_kernel(const json_t *object, struct fpl_kernel *out,
                                    struct fpl_err *err) {
  *out = (struct fpl_kernel){0};
  enum fpl_status status = get_text(object, "name", sizeof out->name, out->name, err);
  if (status == FPL_OK)
    status = get_i32(object, "cluster", 1, 16, &out->cluster, err);
  if (status == FPL_OK)
    status = get_i32(object, "block_threads", 1, 1024, &out->block_threads, err);
  if (status == FPL_OK)
    status = get_i64(object, "smem_bytes", 0, INT32_MAX, &out->smem_bytes, err);
  if (status == FPL_OK)
    status = get_i64(object, "rows_per_unit", 1, INT32_MAX, &out->rows_per_unit, err);
  if (status == FPL_OK)
    status = get_i64(object, "units_per_row", 1, INT32_MAX, &out->units_per_row, err);
  if (status == FPL_OK)
    status = get_i64(object, "max_clusters", 1, 1 << 20, &out->max_clusters, err);
  if (status == FPL_OK)
    status = get_i64(object, "workspace_bytes_per_row_group", 0, INT64_C(1) << 40,
                     &out->workspace_bytes_per_row_group, err);
  if (status == FPL_OK)
    status = parse_maps(json_object_get(object, "maps"), out->maps, err);
  return status;
}

static enum fpl_status parse_open(const json_t *root, struct fpl_request *out,
                                  struct fpl_err *err) {
  char problem[FPL_PROBLEM_TEXT];
  int64_t seed = 0;
  enum fpl_status status = get_i32(root, "device", 0, 1023, &out->device, err);
  if (status == FPL_OK)
    status = get_text(root, "problem", sizeof problem, problem, err);
  if (status == FPL_OK)
    status = fpl_problem_parse(problem, &out->problem, err);
  if (status == FPL_OK)
    status = get_i64(root, "seed", INT64_MIN, INT64_MAX, &seed, err);
  if (status == FPL_OK)
    status = get_text(root, "support", sizeof out->support, out->support, err);
  out->seed = (uint64_t)seed;
  out->is_untraced = json_is_false(json_object_get(root, "trace"));
  return status;
}

static enum fpl_status parse_load(const json_t *root, struct fpl_request *out,
                                  struct fpl_err *err) {
  out->is_library = json_is_true(json_object_get(root, "library"));
  if (out->is_library)
    return FPL_OK;
  enum fpl_status status = parse_kernel(json_object_get(root, "kernel"), &out->kernel, err);
  if (status == FPL_OK)
    status = get_text(root, "cubin", sizeof out->cubin, out->cubin, err);
  return status;
}

static enum fpl_status parse_sample(const json_t *root, struct fpl_request *out,
                                    struct fpl_err *err) {
  int state = 0;
  enum fpl_status status = get_name(root, "state", state_names, &state, err);
  if (status == FPL_OK)
    status = get_i64(root, "n", 1, FPL_REQUEST_MOST_SAMPLES, &out->n, err);
  out->state = state == 0 ? FPL_COLD : FPL_HOT;
  return status;
}

static enum fpl_status parse_request(const json_t *root, struct fpl_request *out,
                                     struct fpl_err *err) {
  int op = 0;
  enum fpl_status status = get_name(root, "op", fpl_op_names, &op, err);
  if (status != FPL_OK)
    return status;
  out->op = (enum fpl_op)op;
  if (out->op == FPL_OP_OPEN)
    return parse_open(root, out, err);
  if (out->op == FPL_OP_CLOSE)
    return FPL_OK;
  status = get_i64(root, "id", 0, FPL_REQUEST_MOST_ID, &out->id, err);
  if (status == FPL_OK && out->op == FPL_OP_LOAD)
    status = parse_load(root, out, err);
  if (status == FPL_OK && out->op == FPL_OP_SAMPLE)
    status = parse_sample(root, out, err);
  return status;
}

enum fpl_status fpl_request_parse(const char *text, size_t length, struct fpl_request *out,
                                  struct fpl_err *err) {
  *out = (struct fpl_request){0};
  json_error_t where;
  json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &where);
  if (root == NULL)
    return fpl_fail(err, FPL_PARSE, "request: %s", where.text);
  const enum fpl_status status = parse_request(root, out, err);
  json_decref(root);
  return status;
}

/* Takes the object over. */
static void append_object(json_t *object, struct fpl_text *out) {
  char *text = object == NULL ? NULL : json_dumps(object, JSON_COMPACT);
  if (text == NULL)
    out->is_broken = true;
  else
    fpl_text_append_bytes(out, text, strlen(text));
  free(text);
  json_decref(object);
}

/* Text from a driver or a library may not be UTF-8, which JSON must be. */
static json_t *make_string(const char *text) {
  json_t *value = json_string(text);
  return value != NULL ? value : json_string("(text that is not UTF-8)");
}

void fpl_answer_ok(struct fpl_text *out) {
  append_object(json_pack("{s:b}", "ok", 1), out);
}

void fpl_answer_failure(const struct fpl_failure *failure, struct fpl_text *out) {
  const char *outcome = failure->is_device ? "none" : fpl_outcome_names[failure->outcome];
  json_t *object = json_pack("{s:b,s:s,s:o}", "ok", 0, "outcome", outcome, "reason",
                             make_string(failure->reason));
  if (object != NULL && failure->is_sticky)
    json_object_set_new(object, "sticky", json_true());
  append_object(object, out);
}

void fpl_answer_open(const struct fpl_environment *environment, struct fpl_text *out) {
  json_t *fields = json_object();
  for (int i = 0; i < environment->n_fields; i++)
    json_object_set_new(fields, environment->fields[i].name,
                        make_string(environment->fields[i].value));
  append_object(json_pack("{s:b,s:o}", "ok", 1, "environment", fields), out);
}

void fpl_answer_load(const char *reason, struct fpl_text *out) {
  append_object(json_pack("{s:b,s:o}", "ok", 1, "reason", make_string(reason)), out);
}

void fpl_answer_verify(const struct fpl_verification *v, const char *reason, struct fpl_text *out) {
  append_object(json_pack("{s:b,s:b,s:f,s:b,s:o}", "ok", 1, "exact", (int)v->was_exact_ok,
                          "relative_error", v->relative_error, "in_bounds", (int)v->was_in_bounds,
                          "reason", make_string(reason)),
                out);
}

void fpl_answer_sample(const struct fpl_sample_answer *sample, struct fpl_text *out) {
  json_t *us = json_array();
  for (int64_t i = 0; i < sample->n; i++)
    json_array_append_new(us, json_real(isfinite(sample->us[i]) ? sample->us[i] : -1));
  append_object(json_pack("{s:b,s:o,s:s,s:f,s:o}", "ok", 1, "us", us, "method",
                          fpl_method_names[sample->method], "sm_clock_mhz", sample->sm_clock_mhz,
                          "throttle", make_string(sample->throttle)),
                out);
}
