/* Whose database is this, and of which schema? Brings an older one up to date. */
#include "db/handle.h"

/* What the file says about itself. */
struct identity {
  int64_t application_id;
  int64_t schema;
  int64_t n_objects;
};

static enum fpl_status ask(struct fpl_db *db, enum fpl_query query, int64_t *out,
                           struct fpl_err *err) {
  struct fpl_bind b = fpl_bind_start(db, query);
  return fpl_bind_answer(&b, 0, out, err);
}

static enum fpl_status read_identity(struct fpl_db *db, struct identity *out, struct fpl_err *err) {
  enum fpl_status status = ask(db, FPL_QUERY_APPLICATION_ID, &out->application_id, err);
  if (status == FPL_OK)
    status = ask(db, FPL_QUERY_USER_VERSION, &out->schema, err);
  if (status == FPL_OK)
    status = ask(db, FPL_QUERY_COUNT_OBJECTS, &out->n_objects, err);
  return status;
}

static bool is_fresh(const struct identity *id) {
  return id->application_id == 0 && id->schema == 0 && id->n_objects == 0;
}

static enum fpl_status check_identity(const struct fpl_db *db, const struct identity *id,
                                      struct fpl_err *err) {
  if (id->application_id != FPL_DB_APPLICATION_ID)
    return fpl_fail(err, FPL_DB_SCHEMA,
                    "%s: a database of another program (application id 0x%08llx): give another "
                    "path",
                    db->path, (unsigned long long)id->application_id & 0xffffffffu);
  if (id->schema > fpl_db_newest_schema)
    return fpl_fail(err, FPL_DB_SCHEMA,
                    "%s: schema %lld is newer than this fuseplan, which knows schema %d: use a "
                    "newer fuseplan",
                    db->path, (long long)id->schema, fpl_db_newest_schema);
  if (id->schema < 1)
    return fpl_fail(err, FPL_DB_SCHEMA, "%s: schema %lld does not exist: restore a copy", db->path,
                    (long long)id->schema);
  return FPL_OK;
}

static enum fpl_status apply_migrations(struct fpl_db *db, void *context, struct fpl_err *err) {
  (void)context;
  /* Asked again: another process may have migrated while this one waited for the lock. */
  struct identity id = {0};
  enum fpl_status status = read_identity(db, &id, err);
  if (status == FPL_OK && !is_fresh(&id))
    status = check_identity(db, &id, err);
  for (int64_t schema = id.schema; status == FPL_OK && schema < fpl_db_newest_schema; schema++) {
    const char *const sql = (const char *)fpl_db_migrations[schema];
    const int rc = sqlite3_exec(db->handle, sql, NULL, NULL, NULL);
    if (rc != SQLITE_OK)
      status = fpl_db_fail(db, rc, err);
  }
  return status;
}

/* In one snapshot: another process may be making the schema at this moment. */
static enum fpl_status read_identity_at_once(struct fpl_db *db, struct identity *out,
                                             struct fpl_err *err) {
  enum fpl_status status = fpl_db_run(db, FPL_QUERY_BEGIN_READ, err);
  if (status != FPL_OK)
    return status;
  status = read_identity(db, out, err);
  fpl_db_run(db, FPL_QUERY_ROLLBACK, NULL);
  return status;
}

/* A reader, who may not write the file, goes on with a private copy of it. */
static enum fpl_status copy_to_memory(struct fpl_db *db, struct fpl_err *err) {
  sqlite3 *copy = NULL;
  int rc = sqlite3_open_v2(":memory:", &copy,
                           SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_READWRITE |
                               SQLITE_OPEN_CREATE | SQLITE_OPEN_MEMORY,
                           NULL);
  sqlite3_backup *const backup =
      rc == SQLITE_OK ? sqlite3_backup_init(copy, "main", db->handle, "main") : NULL;
  if (backup) {
    const int end = sqlite3_backup_step(backup, -1);
    rc = sqlite3_backup_finish(backup);
    if (rc == SQLITE_OK && end != SQLITE_DONE) /* locked: no error of the backup's */
      rc = end;
  } else if (rc == SQLITE_OK) {
    rc = sqlite3_errcode(copy);
  }
  if (rc != SQLITE_OK) {
    sqlite3_close(copy);
    return fpl_db_fail(db, rc, err);
  }
  fpl_db_finalize(db);
  sqlite3_close(db->handle);
  db->handle = copy;
  return fpl_db_configure(db, err);
}

enum fpl_status fpl_db_migrate(struct fpl_db *db, bool may_write, struct fpl_err *err) {
  struct identity id = {0};
  enum fpl_status status = read_identity_at_once(db, &id, err);
  if (status != FPL_OK)
    return status;
  if (is_fresh(&id) && db->mode != FPL_DB_CREATE) /* its first writer was killed */
    return fpl_fail(err, FPL_DB_CORRUPT,
                    "%s: empty (no table): restore a copy, or fill it by `fuseplan tune`",
                    db->path);
  if (!is_fresh(&id)) {
    status = check_identity(db, &id, err);
    if (status != FPL_OK || id.schema == fpl_db_newest_schema)
      return status;
  }
  if (!may_write) {
    status = copy_to_memory(db, err);
    if (status != FPL_OK)
      return status;
  }
  return fpl_db_transaction(db, apply_migrations, NULL, err);
}
