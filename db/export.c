/* Text export: walks each record type's export statement and writes one line a row. */
#include "db/records.h"

#include <math.h>
#include <string.h>

static json_t *samples_value(const void *bytes, size_t length) {
  json_t *const array = json_array();
  for (size_t at = 0; at + sizeof(double) <= length; at += sizeof(double)) {
    double us = 0;
    memcpy(&us, (const char *)bytes + at, sizeof us);
    json_array_append_new(array, isfinite(us) ? json_real(us) : json_null());
  }
  return array;
}

static json_t *bytes_value(const void *bytes, size_t length) {
  struct fpl_text text = {0};
  fpl_base64_append(&text, bytes, length);
  json_t *const value = text.is_broken ? NULL : json_string(text.text ? text.text : "");
  fpl_text_free(&text);
  return value;
}

/* NULL: the row holds what cannot be written (or memory is out). */
static json_t *column_value(sqlite3_stmt *row, int i, const struct fpl_column *column) {
  switch (column->kind) {
  case FPL_COLUMN_I64:
    return json_integer(sqlite3_column_int64(row, i));
  case FPL_COLUMN_BOOL:
    return json_boolean(sqlite3_column_int64(row, i) != 0);
  case FPL_COLUMN_F64:
    return json_real(sqlite3_column_double(row, i));
  case FPL_COLUMN_FIELDS:
    return json_loads((const char *)sqlite3_column_text(row, i), 0, NULL);
  case FPL_COLUMN_SAMPLES:
  case FPL_COLUMN_BYTES: {
    const void *const bytes = sqlite3_column_blob(row, i);
    const size_t length = (size_t)sqlite3_column_bytes(row, i);
    return column->kind == FPL_COLUMN_SAMPLES ? samples_value(bytes, length)
                                              : bytes_value(bytes, length);
  }
  default: {
    const char *const text = (const char *)sqlite3_column_text(row, i);
    return text ? json_string(text) : NULL;
  }
  }
}

struct writer {
  struct fpl_db *db;
  bool with_cubins;
  fpl_db_write *write;
  void *context;
};

static enum fpl_status write_line(const struct writer *x, const json_t *object,
                                  struct fpl_err *err) {
  struct fpl_text line = {0};
  fpl_json_append(&line, object);
  fpl_text_append_bytes(&line, "\n", 1);
  const enum fpl_status status =
      line.is_broken ? fpl_fail(err, FPL_NO_MEMORY, "%s: out of memory", x->db->path)
                     : x->write(x->context, line.text, line.length, err);
  fpl_text_free(&line);
  return status;
}

static enum fpl_status write_row(const struct writer *x, const struct fpl_record_type *type,
                                 sqlite3_stmt *row, struct fpl_err *err) {
  json_t *const object = json_pack("{s:s}", "type", type->name);
  bool is_good = object != NULL;
  for (int i = 0; is_good && i < type->n_columns; i++) {
    const struct fpl_column *const column = &type->columns[i];
    const bool is_absent = sqlite3_column_type(row, i) == SQLITE_NULL ||
                           (column->kind == FPL_COLUMN_BYTES && !x->with_cubins);
    if (is_absent && column->is_optional)
      continue;
    json_t *const value = column_value(row, i, column);
    is_good = value && json_object_set_new(object, column->name, value) == 0;
  }
  const enum fpl_status status =
      is_good ? write_line(x, object, err)
              : fpl_db_fail_row(x->db, "a row cannot be written as text", err);
  json_decref(object);
  return status;
}

static enum fpl_status write_type(const struct writer *x, const struct fpl_record_type *type,
                                  struct fpl_err *err) {
  struct fpl_bind b = fpl_bind_start(x->db, type->rows);
  bool has_row = false;
  enum fpl_status status = FPL_OK;
  while (status == FPL_OK && (status = fpl_bind_step(&b, &has_row, err)) == FPL_OK && has_row)
    status = write_row(x, type, b.statement, err);
  fpl_bind_reset(&b);
  return status;
}

static enum fpl_status write_header(const struct writer *x, struct fpl_err *err) {
  json_t *const header = json_pack("{s:s, s:s, s:i}", "type", "header", "format", "fuseplan",
                                   "schema", fpl_db_newest_schema);
  const enum fpl_status status = write_line(x, header, err);
  json_decref(header);
  return status;
}

enum fpl_status fpl_db_export(struct fpl_db *db, bool with_cubins, fpl_db_write *write,
                              void *context, struct fpl_err *err) {
  if (!db)
    return FPL_OK;
  const struct writer x = {db, with_cubins, write, context};
  /* One snapshot for all types. */
  enum fpl_status status = fpl_db_run(db, FPL_QUERY_BEGIN_READ, err);
  if (status != FPL_OK)
    return status;
  status = write_header(&x, err);
  for (int i = 0; status == FPL_OK && i < FPL_N_RECORDS; i++)
    status = write_type(&x, &fpl_record_types[i], err);
  fpl_db_run(db, FPL_QUERY_ROLLBACK, NULL);
  return status;
}
