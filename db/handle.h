/* The inside of the database folder: the connection, its statements, binding and reading.
 * Included by db/ and its tests alone. */
#ifndef FPL_DB_HANDLE_H
#define FPL_DB_HANDLE_H

#include "db/db.h"

#include <sqlite3.h>

enum fpl_query {
#define FPL_QUERY(name, text) FPL_QUERY_##name,
#include "db/queries.def"
#undef FPL_QUERY
  FPL_N_QUERIES
};

struct fpl_db {
  sqlite3 *handle;
  sqlite3_stmt *statements[FPL_N_QUERIES]; /* NULL until first used */
  char *path;
  enum fpl_db_mode mode;
  int busy_ms;
};

/* 'FPLN', in the file's header. */
enum { FPL_DB_APPLICATION_ID = 0x46504c4e };

/* Generated from db/sql by tools/embed-sql.sh: entry i brings schema i to schema i + 1. */
extern const unsigned char *const fpl_db_migrations[];
extern const int fpl_db_newest_schema;

/* What every new connection is told. */
enum fpl_status fpl_db_configure(struct fpl_db *db, struct fpl_err *err);
/* Ends all prepared statements. */
void fpl_db_finalize(struct fpl_db *db);

/* Checks whose database this is, and makes or upgrades the schema in one transaction: in the file
 * with `may_write`, otherwise in a copy in memory, which the connection then reads. Errors: FPL_DB_SCHEMA and those of db.h. */
enum fpl_status fpl_db_migrate(struct fpl_db *db, bool may_write, struct fpl_err *err);

/* Turns an SQLite result code into a status and "path: what: remedy". */
enum fpl_status fpl_db_fail(const struct fpl_db *db, int rc, struct fpl_err *err);
/* FPL_DB_CORRUPT: a row holds what no writer stores. */
enum fpl_status fpl_db_fail_row(const struct fpl_db *db, const char *what, struct fpl_err *err);

/* Puts '?' for each byte that is not UTF-8. */
void fpl_clean_text(char *text);

/* Parameters, in order. After the last one, the first failure is in `rc`. */
struct fpl_bind {
  struct fpl_db *db;
  sqlite3_stmt *statement; /* NULL when it could not be prepared */
  int next;
  int rc;
};
struct fpl_bind fpl_bind_start(struct fpl_db *db, enum fpl_query query);
void fpl_bind_i64(struct fpl_bind *b, int64_t value);
void fpl_bind_f64(struct fpl_bind *b, double value);      /* 0 for what is not finite */
void fpl_bind_text(struct fpl_bind *b, const char *text); /* bad UTF-8 becomes '?' */
void fpl_bind_blob(struct fpl_bind *b, const void *bytes, size_t length); /* kept until the step */
void fpl_bind_null(struct fpl_bind *b);
/* Runs a statement that answers no row. `out_changed` may be NULL. */
enum fpl_status fpl_bind_run(struct fpl_bind *b, bool *out_changed, struct fpl_err *err);
/* Advances to the next row; resets the statement when there is none, or on failure. */
enum fpl_status fpl_bind_step(struct fpl_bind *b, bool *out_has_row, struct fpl_err *err);
/* Ends a walk early. Harmless after the last row. */
void fpl_bind_reset(struct fpl_bind *b);
/* The single integer that a bound statement answers; `fallback` when there is no row. */
enum fpl_status fpl_bind_answer(struct fpl_bind *b, int64_t fallback, int64_t *out,
                                struct fpl_err *err);
/* A statement without parameters or answer. */
enum fpl_status fpl_db_run(struct fpl_db *db, enum fpl_query query, struct fpl_err *err);

/* Columns of the current row, in order. Texts live until the next step. */
struct fpl_read {
  sqlite3_stmt *statement;
  int next;
  bool is_bad; /* a NULL, a name or a text that no writer stores was met */
};
int64_t fpl_read_i64(struct fpl_read *r);
double fpl_read_f64(struct fpl_read *r);       /* NULL: NaN */
const char *fpl_read_text(struct fpl_read *r); /* never NULL */
void fpl_read_copy(struct fpl_read *r, char *out, size_t size);
int fpl_read_name(struct fpl_read *r, const char *const *names);

/* Runs `body` inside BEGIN IMMEDIATE ... COMMIT; rolls back on failure, and starts again a few
 * times while other processes hold the lock. */
typedef enum fpl_status fpl_db_body(struct fpl_db *db, void *context, struct fpl_err *err);
enum fpl_status fpl_db_transaction(struct fpl_db *db, fpl_db_body *body, void *context,
                                   struct fpl_err *err);

/* Imports another database's export, cubins included, line by line; in the caller's transaction.
 * Adds to `counts`. */
enum fpl_status fpl_db_import_from(struct fpl_db *db, struct fpl_db *other,
                                   struct fpl_import_counts *counts, struct fpl_err *err);

/* Flags every plan that a rule refuses by now, and takes the flag off the others, so that the answers
 * are those of the records, whatever came first. In the caller's transaction. */
enum fpl_status fpl_db_judge_plans(struct fpl_db *db, struct fpl_err *err);

/* Rows shared by store and import; each answers the row's number, whether new or known. */
enum fpl_status fpl_db_put_environment(struct fpl_db *db, const struct fpl_environment *e,
                                       int64_t *out_id, bool *out_is_new, struct fpl_err *err);
enum fpl_status fpl_db_put_problem(struct fpl_db *db, const struct fpl_problem *p, int64_t *out_id,
                                   bool *out_is_new, struct fpl_err *err);
/* Number of the row with this key, or 0. */
enum fpl_status fpl_db_id(struct fpl_db *db, enum fpl_query query, const char *key, int64_t *out,
                          struct fpl_err *err);
/* Columns loops ... stages; all NULL for the library. */
void fpl_bind_schedule(struct fpl_bind *b, const struct fpl_schedule *s, bool is_library);
void fpl_environment_key(const struct fpl_environment *e, char out[FPL_KEY_HEX]);
/* Identity of a candidate in every database: keys of its run, problem and device class, attempt,
 * schedule. */
void fpl_candidate_key(const char *run_key, const char *problem_key, const char *device_class_key,
                       int64_t attempt, const char *schedule, char out[FPL_KEY_HEX]);

/* Fills the table anew, within a transaction. */
enum fpl_status fpl_db_put_regrets(struct fpl_db *db, struct fpl_err *err);
/* Binds the keys of both as parameters 1 and 2. */
struct fpl_bind fpl_bind_keys(struct fpl_db *db, enum fpl_query query,
                              const struct fpl_problem *problem, const struct fpl_device *device);
/* A row of plan_records, in the order of that view. `problem` NULL: parsed from the row. */
enum fpl_status fpl_db_read_plan(struct fpl_db *db, sqlite3_stmt *row,
                                 const struct fpl_problem *problem, struct fpl_plan *out,
                                 struct fpl_err *err);

extern const char *const fpl_cache_state_names[]; /* cold hot */

/* Fields of an environment's row, appended to `out`. */
enum fpl_status fpl_db_read_environment(struct fpl_db *db, int64_t id, struct fpl_environment *out,
                                        struct fpl_err *err);

/* "rule: why" of the rule that refuses a candidate as a plan, or "". */
enum { FPL_FLAG_TEXT = 224 };
enum fpl_status fpl_db_judge(struct fpl_db *db, int64_t candidate_id, char out_flag[FPL_FLAG_TEXT],
                             struct fpl_err *err);

/* Findings of a check. All zero is empty; the caller frees `list`. */
struct fpl_findings {
  struct fpl_finding *list;
  size_t n, room;
};
enum fpl_status fpl_db_find_orphans(struct fpl_db *db, struct fpl_findings *out,
                                    struct fpl_err *err);
/* Removes the orphans among the findings, and marks them. */
enum fpl_status fpl_db_remove_orphans(struct fpl_db *db, struct fpl_findings *findings,
                                      struct fpl_err *err);

#endif
