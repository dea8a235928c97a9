/* Text import: one transaction over all lines. A line is checked against its type's columns, then
 * against itself (keys are hashes of what they name), then inserted or joined with the row of its
 * key, then compared with what stands now: a record is written once, so that two versions of it mean
 * that one was altered. */
#include "db/records.h"

#include "tuner/base/arena.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A column's value as it is bound. */
struct value {
  bool is_null;
  int64_t integer; /* also booleans, and the row's number of a reference */
  double real;
  const char *text; /* also the key of a reference */
  void *bytes;
  size_t length;
};

struct reader {
  struct fpl_db *db;
  const char *name;
  const char *text;
  size_t length;
  int64_t line;
  int64_t schema;         /* of the last header */
  struct fpl_arena arena; /* of the current line */
  json_t *object;
  struct value values[FPL_RECORD_COLUMNS];
  struct fpl_environment environment; /* value of a FIELDS column */
  struct fpl_import_counts counts;
};

static enum fpl_status fail_line(const struct reader *in, struct fpl_err *err, const char *format,
                                 ...) __attribute__((format(printf, 3, 4)));

static enum fpl_status fail_line(const struct reader *in, struct fpl_err *err, const char *format,
                                 ...) {
  char what[256];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  fpl_clean_text(what);
  return fpl_fail(err, FPL_PARSE, "%s:%lld: %s: correct it or export again; nothing was imported",
                  in->name, (long long)in->line, what);
}

static bool is_hex(const char *text, size_t digits) {
  return strlen(text) == digits && strspn(text, "0123456789abcdef") == digits;
}

static enum fpl_status take_text(struct reader *in, const struct fpl_column *column,
                                 const json_t *json, struct value *out, struct fpl_err *err) {
  if (!json_is_string(json))
    return fail_line(in, err, "%s is not a text", column->name);
  out->text = json_string_value(json);
  if (column->kind == FPL_COLUMN_TEXT && json_string_length(json) > (size_t)column->most)
    return fail_line(in, err, "%s is longer than %lld bytes", column->name,
                     (long long)column->most);
  if (column->kind == FPL_COLUMN_NAME && fpl_name_index(column->names, out->text) < 0)
    return fail_line(in, err, "%s '%.40s' is unknown", column->name, out->text);
  if (column->kind == FPL_COLUMN_KEY && !is_hex(out->text, FPL_KEY_HEX - 1))
    return fail_line(in, err, "%s is not %d hex digits", column->name, FPL_KEY_HEX - 1);
  if (column->kind == FPL_COLUMN_SHA && !is_hex(out->text, FPL_HASH_HEX - 1))
    return fail_line(in, err, "%s is not %d hex digits", column->name, FPL_HASH_HEX - 1);
  if (column->kind != FPL_COLUMN_REFERENCE)
    return FPL_OK;
  const enum fpl_status status = fpl_db_id(in->db, column->find, out->text, &out->integer, err);
  if (status == FPL_OK && out->integer == 0)
    return fail_line(in, err, "%s '%.64s' is in no earlier line", column->name, out->text);
  return status;
}

static enum fpl_status take_number(struct reader *in, const struct fpl_column *column,
                                   const json_t *json, struct value *out, struct fpl_err *err) {
  if (column->kind == FPL_COLUMN_BOOL) {
    if (!json_is_boolean(json))
      return fail_line(in, err, "%s is not true or false", column->name);
    out->integer = json_is_true(json);
    return FPL_OK;
  }
  if (column->kind == FPL_COLUMN_I64) {
    if (!json_is_integer(json))
      return fail_line(in, err, "%s is not an integer", column->name);
    out->integer = json_integer_value(json);
    if (out->integer < column->least || out->integer > column->most)
      return fail_line(in, err, "%s is %lld: it must lie between %lld and %lld", column->name,
                       (long long)out->integer, (long long)column->least, (long long)column->most);
    return FPL_OK;
  }
  out->real = json_number_value(json);
  if (!json_is_number(json) || !isfinite(out->real) || out->real < (double)column->least)
    return fail_line(in, err, "%s is not a number%s", column->name,
                     column->least == 0 ? " >= 0" : "");
  return FPL_OK;
}

static enum fpl_status take_fields(struct reader *in, const struct fpl_column *column, json_t *json,
                                   struct fpl_err *err) {
  struct fpl_environment *const e = &in->environment;
  *e = (struct fpl_environment){0};
  if (!json_is_object(json) || json_object_size(json) > FPL_ENVIRONMENT_FIELDS)
    return fail_line(in, err, "%s is not an object of at most %d texts", column->name,
                     FPL_ENVIRONMENT_FIELDS);
  for (void *i = json_object_iter(json); i; i = json_object_iter_next(json, i)) {
    const char *const name = json_object_iter_key(i);
    const json_t *const text = json_object_iter_value(i);
    if (*name == '\0' || strlen(name) >= sizeof e->fields[0].name || !json_is_string(text) ||
        json_string_length(text) >= sizeof e->fields[0].value)
      return fail_line(in, err, "%s has a bad field '%.40s'", column->name, name);
    fpl_environment_set(e, name, json_string_value(text));
  }
  return FPL_OK;
}

static enum fpl_status take_samples(struct reader *in, const struct fpl_column *column,
                                    const json_t *json, struct value *out, struct fpl_err *err) {
  if (!json_is_array(json))
    return fail_line(in, err, "%s is not an array", column->name);
  const size_t n = json_array_size(json);
  double *const us = fpl_arena_alloc(&in->arena, n * sizeof *us);
  if (!us)
    return fpl_fail(err, FPL_NO_MEMORY, "%s: out of memory", in->name);
  for (size_t i = 0; i < n; i++) {
    const json_t *const sample = json_array_get(json, i);
    if (!json_is_number(sample) && !json_is_null(sample))
      return fail_line(in, err, "%s[%zu] is not a number", column->name, i);
    us[i] = json_is_null(sample) ? (double)NAN : json_number_value(sample);
  }
  out->bytes = us;
  out->length = n * sizeof *us;
  return FPL_OK;
}

static enum fpl_status take_bytes(struct reader *in, const struct fpl_column *column,
                                  const json_t *json, struct value *out, struct fpl_err *err) {
  const size_t length = json_string_length(json);
  out->bytes = fpl_arena_alloc(&in->arena, length / 4 * 3);
  if (!out->bytes)
    return fpl_fail(err, FPL_NO_MEMORY, "%s: out of memory", in->name);
  if (!json_is_string(json) ||
      !fpl_base64_decode(json_string_value(json), length, out->bytes, &out->length))
    return fail_line(in, err, "%s is not base64", column->name);
  return FPL_OK;
}

static enum fpl_status take_column(struct reader *in, const struct fpl_column *column,
                                   struct value *out, struct fpl_err *err) {
  *out = (struct value){0};
  json_t *const json = json_object_get(in->object, column->name);
  if (!json && in->schema < column->since_schema) {
    out->integer = column->older_value;
    return FPL_OK;
  }
  if (!json) {
    out->is_null = true;
    return column->is_optional ? FPL_OK : fail_line(in, err, "%s is missing", column->name);
  }
  switch (column->kind) {
  case FPL_COLUMN_I64:
  case FPL_COLUMN_F64:
  case FPL_COLUMN_BOOL:
    return take_number(in, column, json, out, err);
  case FPL_COLUMN_FIELDS:
    return take_fields(in, column, json, err);
  case FPL_COLUMN_SAMPLES:
    return take_samples(in, column, json, out, err);
  case FPL_COLUMN_BYTES:
    return take_bytes(in, column, json, out, err);
  default:
    return take_text(in, column, json, out, err);
  }
}

static enum fpl_status refuse_unknown(const struct reader *in, const struct fpl_record_type *type,
                                      struct fpl_err *err) {
  for (void *i = json_object_iter(in->object); i; i = json_object_iter_next(in->object, i)) {
    const char *const name = json_object_iter_key(i);
    bool is_known = strcmp(name, "type") == 0;
    for (int c = 0; !is_known && c < type->n_columns; c++)
      is_known = strcmp(name, type->columns[c].name) == 0;
    if (!is_known)
      return fail_line(in, err, "a %s has no '%.40s'", type->name, name);
  }
  return FPL_OK;
}

static void bind_values(struct fpl_bind *b, const struct fpl_record_type *type,
                        const struct value *values) {
  for (int i = 0; i < type->n_columns; i++) {
    const struct value *const v = &values[i];
    const enum fpl_column_kind kind = type->columns[i].kind;
    if (v->is_null)
      fpl_bind_null(b);
    else if (kind == FPL_COLUMN_F64)
      fpl_bind_f64(b, v->real);
    else if (kind == FPL_COLUMN_I64 || kind == FPL_COLUMN_BOOL || kind == FPL_COLUMN_REFERENCE)
      fpl_bind_i64(b, v->integer);
    else if (kind == FPL_COLUMN_SAMPLES || kind == FPL_COLUMN_BYTES)
      fpl_bind_blob(b, v->bytes, v->length);
    else
      fpl_bind_text(b, v->text);
  }
}

/* A rule of the schema that the line breaks is the line's fault. */
static enum fpl_status insert(struct reader *in, struct fpl_bind *b, bool *out_is_new,
                              struct fpl_err *err) {
  const enum fpl_status status = fpl_bind_run(b, out_is_new, err);
  if (status == FPL_DB && (sqlite3_errcode(in->db->handle) & 0xff) == SQLITE_CONSTRAINT)
    return fail_line(in, err, "%s", sqlite3_errmsg(in->db->handle));
  return status;
}

static enum fpl_status check_key(const struct reader *in, const char *what, const char *text,
                                 struct fpl_err *err) {
  char key[FPL_KEY_HEX];
  fpl_hash_key(text, key);
  return strcmp(key, in->values[0].text) == 0
             ? FPL_OK
             : fail_line(in, err, "key is not that of its %s, which is %s", what, key);
}

static enum fpl_status import_device_class(struct reader *in, bool *out_is_new,
                                           struct fpl_err *err) {
  const enum fpl_status status = check_key(in, "class", in->values[1].text, err);
  if (status != FPL_OK)
    return status;
  struct fpl_bind b = fpl_bind_start(in->db, FPL_QUERY_INSERT_DEVICE_CLASS);
  bind_values(&b, &fpl_record_types[FPL_RECORD_DEVICE_CLASS], in->values);
  return insert(in, &b, out_is_new, err);
}

static enum fpl_status import_environment(struct reader *in, bool *out_is_new,
                                          struct fpl_err *err) {
  char key[FPL_KEY_HEX];
  fpl_environment_key(&in->environment, key);
  if (strcmp(key, in->values[0].text) != 0)
    return fail_line(in, err, "key is not that of its fields, which is %s", key);
  int64_t id = 0;
  return fpl_db_put_environment(in->db, &in->environment, &id, out_is_new, err);
}

static enum fpl_status import_problem(struct reader *in, bool *out_is_new, struct fpl_err *err) {
  enum fpl_status status = check_key(in, "text", in->values[1].text, err);
  if (status != FPL_OK)
    return status;
  struct fpl_problem p;
  struct fpl_err inner = {0};
  if (fpl_problem_parse(in->values[1].text, &p, &inner) != FPL_OK)
    return fail_line(in, err, "%.200s", inner.text);
  char text[FPL_PROBLEM_TEXT];
  fpl_problem_text(&p, text);
  if (strcmp(text, in->values[1].text) != 0)
    return fail_line(in, err, "text is not in its one form '%.160s'", text);
  int64_t id = 0;
  return fpl_db_put_problem(in->db, &p, &id, out_is_new, err);
}

static enum fpl_status import_run(struct reader *in, bool *out_is_new, struct fpl_err *err) {
  struct fpl_bind b = fpl_bind_start(in->db, FPL_QUERY_INSERT_RUN);
  bind_values(&b, &fpl_record_types[FPL_RECORD_RUN], in->values);
  return insert(in, &b, out_is_new, err);
}

static enum fpl_status import_kernel(struct reader *in, bool *out_is_new, struct fpl_err *err) {
  const struct fpl_record_type *const type = &fpl_record_types[FPL_RECORD_KERNEL];
  const struct value *const cubin = &in->values[type->n_columns - 1];
  if (!cubin->is_null) {
    char sha[FPL_HASH_HEX];
    fpl_hash_bytes_hex(cubin->bytes, cubin->length, sha);
    if (strcmp(sha, in->values[0].text) != 0)
      return fail_line(in, err, "sha is not that of its cubin");
  }
  struct fpl_bind b = fpl_bind_start(in->db, FPL_QUERY_INSERT_KERNEL);
  bind_values(&b, type, in->values);
  return insert(in, &b, out_is_new, err);
}

static enum fpl_status import_candidate(struct reader *in, bool *out_is_new, struct fpl_err *err) {
  const struct value *const v = in->values;
  const bool is_library = v[5].integer != 0;
  struct fpl_schedule s = {0};
  char text[FPL_SCHEDULE_TEXT] = "";
  struct fpl_err inner = {0};
  if (!is_library && fpl_schedule_parse(v[6].text, &s, &inner) != FPL_OK)
    return fail_line(in, err, "%.200s", inner.text);
  if (!is_library)
    fpl_schedule_text(&s, text);
  if (strcmp(text, v[6].text) != 0)
    return fail_line(in, err, "schedule is not in its one form '%.200s'", text);
  char key[FPL_KEY_HEX];
  fpl_candidate_key(v[1].text, v[2].text, v[3].text, v[4].integer, text, key);
  if (strcmp(key, v[0].text) != 0)
    return fail_line(in, err, "key is not that of this candidate, which is %s", key);
  struct fpl_bind b = fpl_bind_start(in->db, FPL_QUERY_INSERT_CANDIDATE);
  bind_values(&b, &fpl_record_types[FPL_RECORD_CANDIDATE], v);
  fpl_bind_schedule(&b, &s, is_library);
  return insert(in, &b, out_is_new, err);
}

static enum fpl_status import_measurement(struct reader *in, bool *out_is_new,
                                          struct fpl_err *err) {
  struct fpl_bind b = fpl_bind_start(in->db, FPL_QUERY_INSERT_MEASUREMENT);
  bind_values(&b, &fpl_record_types[FPL_RECORD_MEASUREMENT], in->values);
  return insert(in, &b, out_is_new, err);
}

static enum fpl_status import_plan(struct reader *in, bool *out_is_new, struct fpl_err *err) {
  char flag[FPL_FLAG_TEXT];
  enum fpl_status status = fpl_db_judge(in->db, in->values[0].integer, flag, err);
  if (status != FPL_OK)
    return status;
  struct fpl_bind b = fpl_bind_start(in->db, FPL_QUERY_INSERT_PLAN);
  bind_values(&b, &fpl_record_types[FPL_RECORD_PLAN], in->values);
  fpl_bind_text(&b, flag);
  status = insert(in, &b, out_is_new, err);
  in->counts.n_flagged += *flag != '\0';
  in->counts.n_plans += *out_is_new;
  return status;
}

/* The flag of the first plan after `id`, as the rules and the device class now are; *out_id 0: there
 * is none. */
static enum fpl_status judge_next(struct fpl_db *db, int64_t id, int64_t *out_id,
                                  struct fpl_err *err) {
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_NEXT_PLAN);
  fpl_bind_i64(&b, id);
  bool has_row = false;
  enum fpl_status status = fpl_bind_step(&b, &has_row, err);
  *out_id = 0;
  if (status != FPL_OK || !has_row)
    return status;
  struct fpl_read r = {.statement = b.statement};
  *out_id = fpl_read_i64(&r);
  const int64_t candidate_id = fpl_read_i64(&r);
  fpl_bind_reset(&b);
  char flag[FPL_FLAG_TEXT];
  status = fpl_db_judge(db, candidate_id, flag, err);
  if (status != FPL_OK)
    return status;
  b = fpl_bind_start(db, FPL_QUERY_SET_FLAG);
  fpl_bind_i64(&b, *out_id);
  fpl_bind_text(&b, flag);
  return fpl_bind_run(&b, NULL, err);
}

enum fpl_status fpl_db_judge_plans(struct fpl_db *db, struct fpl_err *err) {
  int64_t id = 0;
  enum fpl_status status = FPL_OK;
  do
    status = judge_next(db, id, &id, err);
  while (status == FPL_OK && id != 0);
  return status;
}

typedef enum fpl_status import_record(struct reader *in, bool *out_is_new, struct fpl_err *err);
static import_record *const importers[FPL_N_RECORDS] = {
    import_device_class, import_environment, import_problem,     import_run,
    import_kernel,       import_candidate,   import_measurement, import_plan};

static enum fpl_status refuse_altered(const struct reader *in, const struct fpl_record_type *type,
                                      struct fpl_err *err) {
  if (type->same == FPL_N_QUERIES)
    return FPL_OK;
  struct fpl_bind b = fpl_bind_start(in->db, type->same);
  bind_values(&b, type, in->values);
  int64_t is_same = 0;
  const enum fpl_status status = fpl_bind_answer(&b, 0, &is_same, err);
  if (status == FPL_OK && !is_same)
    return fail_line(in, err, "this %s is another than the one of its key in %s: one was altered",
                     type->name, in->db->path);
  return status;
}

static enum fpl_status take_header(struct reader *in, struct fpl_err *err) {
  const char *const format = json_string_value(json_object_get(in->object, "format"));
  const json_t *const schema = json_object_get(in->object, "schema");
  if (!format || strcmp(format, "fuseplan") != 0 || !json_is_integer(schema) ||
      json_object_size(in->object) != 3)
    return fail_line(in, err, "not the header of a fuseplan export");
  if (json_integer_value(schema) > fpl_db_newest_schema)
    return fpl_fail(err, FPL_PARSE,
                    "%s:%lld: schema %lld is newer than this fuseplan, which knows schema %d: use "
                    "a newer fuseplan",
                    in->name, (long long)in->line, (long long)json_integer_value(schema),
                    fpl_db_newest_schema);
  if (json_integer_value(schema) < 1)
    return fail_line(in, err, "schema %lld does not exist", (long long)json_integer_value(schema));
  in->schema = json_integer_value(schema);
  return FPL_OK;
}

static enum fpl_status take_object(struct reader *in, struct fpl_err *err) {
  const char *const name = json_string_value(json_object_get(in->object, "type"));
  if (!name)
    return fail_line(in, err, "not an object with a type");
  const bool is_header = strcmp(name, "header") == 0;
  if (is_header)
    return take_header(in, err);
  if (in->line == 1)
    return fail_line(in, err, "the first line is not a header");
  int type = 0;
  while (type < FPL_N_RECORDS && strcmp(name, fpl_record_types[type].name) != 0)
    type++;
  if (type == FPL_N_RECORDS)
    return fail_line(in, err, "type '%.40s' is unknown", name);
  enum fpl_status status = refuse_unknown(in, &fpl_record_types[type], err);
  for (int i = 0; status == FPL_OK && i < fpl_record_types[type].n_columns; i++)
    status = take_column(in, &fpl_record_types[type].columns[i], &in->values[i], err);
  bool is_new = false;
  if (status == FPL_OK)
    status = importers[type](in, &is_new, err);
  if (status == FPL_OK)
    status = refuse_altered(in, &fpl_record_types[type], err);
  in->counts.n_added += is_new;
  in->counts.n_known += !is_new;
  return status;
}

static enum fpl_status take_line(struct reader *in, const char *line, size_t length,
                                 struct fpl_err *err) {
  in->line++;
  json_error_t error;
  in->object = json_loadb(line, length, JSON_REJECT_DUPLICATES, &error);
  const enum fpl_status status =
      in->object
          ? take_object(in, err)
          : fail_line(in, err, "not a JSON object (column %d: %.120s)", error.column, error.text);
  json_decref(in->object);
  in->object = NULL;
  fpl_arena_free(&in->arena);
  return status;
}

static enum fpl_status import_body(struct fpl_db *db, void *context, struct fpl_err *err) {
  (void)db;
  struct reader *const in = context;
  in->line = 0;
  in->counts = (struct fpl_import_counts){0};
  enum fpl_status status = FPL_OK;
  for (size_t at = 0; status == FPL_OK && at < in->length;) {
    const char *const line = in->text + at;
    const char *const end = memchr(line, '\n', in->length - at);
    const size_t length = end ? (size_t)(end - line) : in->length - at;
    status = take_line(in, line, length, err);
    at += length + 1;
  }
  in->counts.n_lines = in->line;
  if (status == FPL_OK && in->line == 0) {
    in->line = 1;
    return fail_line(in, err, "empty, without a header");
  }
  return status == FPL_OK ? fpl_db_judge_plans(in->db, err) : status;
}

static enum fpl_status take_exported(void *context, const char *bytes, size_t length,
                                     struct fpl_err *err) {
  return take_line(context, bytes, length - 1, err); /* without the line's end */
}

enum fpl_status fpl_db_import_from(struct fpl_db *db, struct fpl_db *other,
                                   struct fpl_import_counts *counts, struct fpl_err *err) {
  struct reader in = {.db = db, .name = other->path};
  const enum fpl_status status = fpl_db_export(other, true, take_exported, &in, err);
  counts->n_lines += in.line;
  counts->n_added += in.counts.n_added;
  counts->n_known += in.counts.n_known;
  counts->n_plans += in.counts.n_plans;
  counts->n_flagged += in.counts.n_flagged;
  return status;
}

enum fpl_status fpl_db_import(struct fpl_db *db, const char *name, const char *text, size_t length,
                              struct fpl_import_counts *out, struct fpl_err *err) {
  *out = (struct fpl_import_counts){0};
  if (!db)
    return FPL_OK;
  struct reader in = {.db = db, .name = name, .text = text, .length = length};
  const enum fpl_status status = fpl_db_transaction(db, import_body, &in, err);
  if (status == FPL_OK)
    *out = in.counts;
  return status;
}
