/* Statements: prepared once, bound, stepped; and what SQLite's answers mean to a user. */
#include "db/handle.h"

#include "tuner/base/str.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const query_texts[FPL_N_QUERIES] = {
#define FPL_QUERY(name, text) text,
#include "db/queries.def"
#undef FPL_QUERY
};

enum { TRANSACTION_TRIES = 3 };

/* SQLite's texts may hold line ends, and names from a damaged file anything. */
static enum fpl_status on_one_line(enum fpl_status status, struct fpl_err *err) {
  for (char *s = err ? err->text : NULL; s && *s; s++)
    if ((unsigned char)*s < ' ')
      *s = ' ';
  return status;
}

static bool has_moved(const struct fpl_db *db) {
  int answer = 0;
  if (db->handle)
    sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_HAS_MOVED, &answer);
  return answer != 0;
}

static enum fpl_status fail_moved(const struct fpl_db *db, struct fpl_err *err) {
  return fpl_fail(err, FPL_IO,
                  "%s: removed or replaced while it was open: run again, which opens what is there "
                  "now",
                  db->path);
}

static enum fpl_status describe(const struct fpl_db *db, int rc, struct fpl_err *err) {
  const char *const detail = db->handle ? sqlite3_errmsg(db->handle) : sqlite3_errstr(rc);
  const char *const path = db->path;
  switch (rc & 0xff) {
  case SQLITE_BUSY:
  case SQLITE_LOCKED:
    return fpl_fail(err, FPL_DB_BUSY,
                    "%s: locked by another process for more than %d ms: wait until it ends, then "
                    "run again",
                    path, db->busy_ms);
  case SQLITE_CORRUPT:
  case SQLITE_NOTADB:
    return fpl_fail(err, FPL_DB_CORRUPT,
                    "%s: not a database or damaged (%s): move it away and import a text export, "
                    "or restore a copy",
                    path, detail);
  case SQLITE_FULL:
    return fpl_fail(err, FPL_DB, "%s: no space left: free some, then run again with --resume",
                    path);
  case SQLITE_READONLY:
    return fpl_fail(err, FPL_DB, "%s: not writable (%s): check permissions of file and folder",
                    path, detail);
  case SQLITE_CANTOPEN:
  case SQLITE_PERM:
  case SQLITE_AUTH:
    return fpl_fail(err, FPL_IO, "%s: cannot be opened (%s): check permissions of file and folder",
                    path, detail);
  case SQLITE_IOERR:
    return fpl_fail(err, FPL_IO, "%s: %s: check the disk; `fuseplan doctor` names its file system",
                    path, detail);
  case SQLITE_NOMEM:
    return fpl_fail(err, FPL_NO_MEMORY, "%s: out of memory", path);
  default:
    return fpl_fail(err, FPL_DB, "%s: %s", path, detail);
  }
}

enum fpl_status fpl_db_fail(const struct fpl_db *db, int rc, struct fpl_err *err) {
  const int kind = rc & 0xff;
  if ((kind == SQLITE_IOERR || kind == SQLITE_CANTOPEN || kind == SQLITE_READONLY) && has_moved(db))
    return fail_moved(db, err);
  return on_one_line(describe(db, rc, err), err);
}

enum fpl_status fpl_db_fail_row(const struct fpl_db *db, const char *what, struct fpl_err *err) {
  return on_one_line(
      fpl_fail(err, FPL_DB_CORRUPT,
               "%s: damaged (%s): move it away and import a text export, or restore a copy",
               db->path, what),
      err);
}

struct fpl_bind fpl_bind_start(struct fpl_db *db, enum fpl_query query) {
  struct fpl_bind b = {.db = db, .next = 1, .rc = SQLITE_OK};
  sqlite3_stmt **const slot = &db->statements[query];
  if (!*slot)
    b.rc = sqlite3_prepare_v3(db->handle, query_texts[query], -1, SQLITE_PREPARE_PERSISTENT, slot,
                              NULL);
  else
    sqlite3_reset(*slot);
  b.statement = *slot;
  return b;
}

static void keep_first(struct fpl_bind *b, int rc) {
  if (b->rc == SQLITE_OK)
    b->rc = rc;
  b->next++;
}

void fpl_bind_i64(struct fpl_bind *b, int64_t value) {
  if (b->statement)
    keep_first(b, sqlite3_bind_int64(b->statement, b->next, value));
}

void fpl_bind_f64(struct fpl_bind *b, double value) {
  if (b->statement)
    keep_first(b, sqlite3_bind_double(b->statement, b->next, isfinite(value) ? value : 0));
}

/* Length of the UTF-8 sequence at `s`, or 0 (RFC 3629). */
static size_t sequence_length(const unsigned char *s) {
  if (s[0] < 0x80)
    return 1;
  const size_t length = s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;
  for (size_t i = 1; i < length; i++)
    if ((s[i] & 0xc0) != 0x80)
      return 0;
  const bool is_overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
  const bool is_outside = (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf4 && s[1] > 0x8f);
  return is_overlong || is_outside ? 0 : length;
}

void fpl_clean_text(char *text) {
  for (char *s = text; *s;) {
    const size_t length = sequence_length((const unsigned char *)s);
    if (length == 0)
      *s = '?';
    s += length ? length : 1;
  }
}

static bool is_clean(const char *text) {
  size_t length = 1;
  for (const char *s = text; *s && length > 0; s += length)
    length = sequence_length((const unsigned char *)s);
  return length > 0;
}

void fpl_bind_text(struct fpl_bind *b, const char *text) {
  if (!b->statement)
    return;
  if (is_clean(text)) {
    keep_first(b, sqlite3_bind_text(b->statement, b->next, text, -1, SQLITE_TRANSIENT));
    return;
  }
  char *const copy = sqlite3_mprintf("%s", text);
  if (copy)
    fpl_clean_text(copy);
  keep_first(b, copy ? sqlite3_bind_text(b->statement, b->next, copy, -1, sqlite3_free)
                     : SQLITE_NOMEM);
}

void fpl_bind_blob(struct fpl_bind *b, const void *bytes, size_t length) {
  if (b->statement)
    keep_first(
        b, sqlite3_bind_blob64(b->statement, b->next, bytes ? bytes : "", length, SQLITE_STATIC));
}

void fpl_bind_null(struct fpl_bind *b) {
  if (b->statement)
    keep_first(b, sqlite3_bind_null(b->statement, b->next));
}

enum fpl_status fpl_bind_step(struct fpl_bind *b, bool *out_has_row, struct fpl_err *err) {
  *out_has_row = false;
  const int rc = b->rc != SQLITE_OK ? b->rc : sqlite3_step(b->statement);
  if (rc == SQLITE_ROW) {
    *out_has_row = true;
    return FPL_OK;
  }
  const enum fpl_status status = rc == SQLITE_DONE ? FPL_OK : fpl_db_fail(b->db, rc, err);
  fpl_bind_reset(b);
  return status;
}

void fpl_bind_reset(struct fpl_bind *b) {
  sqlite3_reset(b->statement);
}

enum fpl_status fpl_bind_run(struct fpl_bind *b, bool *out_changed, struct fpl_err *err) {
  bool has_row = false;
  enum fpl_status status = FPL_OK;
  do
    status = fpl_bind_step(b, &has_row, err);
  while (status == FPL_OK && has_row);
  if (out_changed)
    *out_changed = status == FPL_OK && sqlite3_changes(b->db->handle) > 0;
  return status;
}

enum fpl_status fpl_bind_answer(struct fpl_bind *b, int64_t fallback, int64_t *out,
                                struct fpl_err *err) {
  bool has_row = false;
  const enum fpl_status status = fpl_bind_step(b, &has_row, err);
  *out = has_row ? sqlite3_column_int64(b->statement, 0) : fallback;
  fpl_bind_reset(b);
  return status;
}

enum fpl_status fpl_db_run(struct fpl_db *db, enum fpl_query query, struct fpl_err *err) {
  struct fpl_bind b = fpl_bind_start(db, query);
  return fpl_bind_run(&b, NULL, err);
}

int64_t fpl_read_i64(struct fpl_read *r) {
  return sqlite3_column_int64(r->statement, r->next++);
}

double fpl_read_f64(struct fpl_read *r) {
  const int column = r->next++;
  if (sqlite3_column_type(r->statement, column) == SQLITE_NULL)
    return NAN;
  return sqlite3_column_double(r->statement, column);
}

const char *fpl_read_text(struct fpl_read *r) {
  const char *const text = (const char *)sqlite3_column_text(r->statement, r->next++);
  if (!text)
    r->is_bad = true;
  return text ? text : "";
}

void fpl_read_copy(struct fpl_read *r, char *out, size_t size) {
  snprintf(out, size, "%s", fpl_read_text(r));
}

int fpl_read_name(struct fpl_read *r, const char *const *names) {
  const int index = fpl_name_index(names, fpl_read_text(r));
  if (index < 0)
    r->is_bad = true;
  return index < 0 ? 0 : index;
}

static void roll_back(struct fpl_db *db) {
  /* After SQLITE_FULL or SQLITE_IOERR SQLite may have rolled back by itself. */
  if (!sqlite3_get_autocommit(db->handle))
    fpl_db_run(db, FPL_QUERY_ROLLBACK, NULL);
}

/* What is written to a file that was removed or replaced is lost; in WAL mode SQLite does not look. */
static enum fpl_status check_place(const struct fpl_db *db, struct fpl_err *err) {
  return has_moved(db) ? fail_moved(db, err) : FPL_OK;
}

enum fpl_status fpl_db_transaction(struct fpl_db *db, fpl_db_body *body, void *context,
                                   struct fpl_err *err) {
  enum fpl_status status = FPL_DB_BUSY;
  for (int tries = 0; status == FPL_DB_BUSY && tries < TRANSACTION_TRIES; tries++) {
    status = fpl_db_run(db, FPL_QUERY_BEGIN, err);
    if (status == FPL_OK)
      status = body(db, context, err);
    if (status == FPL_OK)
      status = check_place(db, err);
    if (status == FPL_OK)
      status = fpl_db_run(db, FPL_QUERY_COMMIT, err);
    if (status != FPL_OK)
      roll_back(db);
  }
  return status;
}
