/* Records of the text form: one JSON object a line, {"type":TYPE, COLUMN:VALUE, ...}. One table
 * says, for each type, which columns it has, in the order of its export statement's columns and of
 * its import statement's parameters. A column that is NULL in the database is left out.
 * Used by export.c and import.c alone. */
#ifndef FPL_DB_RECORDS_H
#define FPL_DB_RECORDS_H

#include "db/handle.h"

#include "tuner/base/str.h"

#include <jansson.h>

enum fpl_column_kind {
  FPL_COLUMN_KEY,       /* 32 hex digits */
  FPL_COLUMN_SHA,       /* 64 hex digits */
  FPL_COLUMN_REFERENCE, /* key of an earlier record; its row's number in the database */
  FPL_COLUMN_TEXT,      /* at most `most` bytes */
  FPL_COLUMN_I64,       /* least .. most */
  FPL_COLUMN_F64,       /* finite, >= least */
  FPL_COLUMN_BOOL,
  FPL_COLUMN_NAME,    /* one of `names` */
  FPL_COLUMN_FIELDS,  /* object of texts: an environment */
  FPL_COLUMN_SAMPLES, /* array of numbers, null for NaN; a blob of native doubles */
  FPL_COLUMN_BYTES    /* base64; a blob */
};

struct fpl_column {
  const char *name;
  enum fpl_column_kind kind;
  bool is_optional;
  int64_t least, most;
  const char *const *names;
  enum fpl_query find; /* of a reference */
  /* A text of a schema before this one may lack the column, an integer or a boolean: it then holds
   * older_value, as after the migration. */
  int since_schema;
  int64_t older_value;
};

/* In the order of the text: a record refers to earlier types alone. */
enum fpl_record {
  FPL_RECORD_DEVICE_CLASS,
  FPL_RECORD_ENVIRONMENT,
  FPL_RECORD_PROBLEM,
  FPL_RECORD_RUN,
  FPL_RECORD_KERNEL,
  FPL_RECORD_CANDIDATE,
  FPL_RECORD_MEASUREMENT,
  FPL_RECORD_PLAN,
  FPL_N_RECORDS
};
enum { FPL_RECORD_COLUMNS = 40 };

struct fpl_record_type {
  const char *name;
  const struct fpl_column *columns;
  int n_columns;
  enum fpl_query rows; /* of the export */
  /* Binds the columns too, and answers whether the stored row is this record. FPL_N_QUERIES: rows of
   * one key may differ, or cannot. */
  enum fpl_query same;
};
extern const struct fpl_record_type fpl_record_types[FPL_N_RECORDS];

/* Appends a value in its one form: keys sorted, no blanks, the shortest number that reads back
 * equal. */
void fpl_json_append(struct fpl_text *text, const json_t *value);

/* RFC 4648, with padding. Decoding answers false for anything else; `out` has room for
 * length / 4 * 3 bytes. */
void fpl_base64_append(struct fpl_text *text, const unsigned char *bytes, size_t length);
bool fpl_base64_decode(const char *text, size_t length, unsigned char *out, size_t *out_length);

#endif
