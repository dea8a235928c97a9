/* Opening and closing. Decides, before SQLite sees the file, whether it may be ours, how to open it
 * and which journal its file system bears.
 *
 * While it is written, a database on a sound file system is in WAL mode: readers never wait. The
 * last writer to close returns it to the rollback journal, so that a database at rest is one file,
 * which a reader can open in a folder where it may make none.
 */
#define _POSIX_C_SOURCE 200809L
#include "db/handle.h"

#include "tuner/base/str.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { FIRST_BUSY_MS = 10000, HEADER_BYTES = 100 };

/* File systems on which locks or shared mappings cannot be trusted between processes.
 * Source of the numbers: statfs(2) and linux/magic.h. */
static const struct {
  uint32_t magic;
  const char *name;
} unsafe_file_systems[] = {
    {0x00006969, "nfs"},    {0x0000517b, "smb"},  {0xfe534d42, "smb2"},    {0xff534d42, "cifs"},
    {0x65735546, "fuse"},   {0x01021997, "9p"},   {0x794c7630, "overlay"}, {0x0bd00bd0, "lustre"},
    {0x47504653, "gpfs"},   {0x00c36400, "ceph"}, {0x5346414f, "afs"},     {0x6b414653, "kafs"},
    {0x19830326, "beegfs"}, {0x01161970, "gfs2"}, {0x7461636f, "ocfs2"},   {0x0000564c, "ncp"},
    {0xaad7aaea, "panfs"},  {0x73757245, "coda"},
};

/* What can be known of the file without SQLite. */
struct file_facts {
  bool exists;
  bool is_empty;
  bool has_journal; /* of an interrupted or a running transaction */
  bool is_wal;      /* the header says so */
  bool has_wal_file;
};

static bool has_companion(const char *path, const char *suffix) {
  struct fpl_text name = {0};
  fpl_text_append(&name, "%s%s", path, suffix);
  struct stat info;
  const bool exists = !name.is_broken && stat(name.text, &info) == 0 && info.st_size > 0;
  fpl_text_free(&name);
  return exists;
}

static uint32_t read_u32(const unsigned char *bytes) {
  return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* Source of the offsets: SQLite, "Database File Format", section 1.3. */
static enum fpl_status check_header(const struct fpl_db *db, struct file_facts *facts,
                                    struct fpl_err *err) {
  unsigned char header[HEADER_BYTES] = {0};
  FILE *const file = fopen(db->path, "rb");
  if (!file)
    return fpl_fail(err, FPL_IO, "%s: cannot be read (%s): check its permissions", db->path,
                    strerror(errno));
  const size_t length = fread(header, 1, sizeof header, file);
  fclose(file);
  if (length < sizeof header || memcmp(header, "SQLite format 3", 16) != 0)
    return fpl_fail(err, FPL_DB_CORRUPT,
                    "%s: not an SQLite database: give another path, or restore a copy", db->path);
  const uint32_t application_id = read_u32(header + 68);
  if (application_id != 0 && application_id != FPL_DB_APPLICATION_ID)
    return fpl_fail(err, FPL_DB_SCHEMA,
                    "%s: a database of another program (application id 0x%08x): give another path",
                    db->path, (unsigned)application_id);
  facts->is_wal = header[18] == 2 || header[19] == 2;
  return FPL_OK;
}

static enum fpl_status examine(const struct fpl_db *db, struct file_facts *facts,
                               struct fpl_err *err) {
  struct stat info;
  facts->exists = stat(db->path, &info) == 0;
  if (!facts->exists && errno != ENOENT)
    return fpl_fail(err, FPL_IO, "%s: %s: check the path", db->path, strerror(errno));
  if (!facts->exists && db->mode != FPL_DB_CREATE)
    return fpl_fail(err, FPL_IO, "%s: no such database: `fuseplan tune --db %s` makes one",
                    db->path, db->path);
  if (!facts->exists)
    return FPL_OK;
  if (!S_ISREG(info.st_mode))
    return fpl_fail(err, FPL_IO, "%s: not a regular file: give the path of a database", db->path);
  facts->has_journal = has_companion(db->path, "-journal");
  facts->has_wal_file = has_companion(db->path, "-wal");
  facts->is_empty = info.st_size == 0;
  /* An interrupted first transaction leaves what its journal repairs. */
  if (facts->has_journal)
    return FPL_OK;
  if (facts->is_empty && db->mode != FPL_DB_CREATE)
    return fpl_fail(err, FPL_DB_CORRUPT,
                    "%s: empty (zero bytes): restore a copy, or fill it by `fuseplan tune`",
                    db->path);
  return facts->is_empty ? FPL_OK : check_header(db, facts, err);
}

/* The folder of a path; the caller frees it. */
static char *folder_of(const char *path) {
  const char *const slash = strrchr(path, '/');
  if (!slash)
    return strdup(".");
  return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

enum fpl_status fpl_db_file_system(const char *path, struct fpl_db_file_system *out,
                                   struct fpl_err *err) {
  *out = (struct fpl_db_file_system){.name = "local", .is_wal_safe = true};
  if (*path == '\0' || strcmp(path, ":memory:") == 0)
    return FPL_OK;
  struct statfs info;
  int failed = statfs(path, &info);
  if (failed && errno == ENOENT) {
    char *const folder = folder_of(path);
    if (!folder)
      return fpl_fail(err, FPL_NO_MEMORY, "%s: out of memory", path);
    failed = statfs(folder, &info);
    free(folder);
  }
  if (failed)
    return fpl_fail(err, FPL_IO, "%s: %s: check the path", path, strerror(errno));
  out->is_read_only = ((unsigned long)info.f_flags & ST_RDONLY) != 0;
  for (size_t i = 0; i < sizeof unsafe_file_systems / sizeof *unsafe_file_systems; i++) {
    if ((uint32_t)info.f_type == unsafe_file_systems[i].magic) {
      snprintf(out->name, sizeof out->name, "%s", unsafe_file_systems[i].name);
      out->is_wal_safe = false;
    }
  }
  return FPL_OK;
}

static bool is_folder_writable(const char *path) {
  char *const folder = folder_of(path);
  const bool is_writable = folder && access(folder, W_OK) == 0;
  free(folder);
  return is_writable;
}

/* SQLite's URI form, by which a file is declared immutable. */
static void append_uri(struct fpl_text *uri, const char *path) {
  fpl_text_append(uri, "file:");
  for (const char *s = path; *s; s++) {
    if (strchr("%?#", *s))
      fpl_text_append(uri, "%%%02X", (unsigned)(unsigned char)*s);
    else
      fpl_text_append_bytes(uri, s, 1);
  }
  fpl_text_append(uri, "?immutable=1");
}

static enum fpl_status open_handle(struct fpl_db *db, const struct file_facts *facts,
                                   struct fpl_err *err) {
  int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_READWRITE;
  if (db->mode == FPL_DB_CREATE)
    flags |= SQLITE_OPEN_CREATE;
  /* A journal left by a killed writer must be played back before anything can be read. */
  const bool may_repair = facts->has_journal && access(db->path, W_OK) == 0;
  if (db->mode == FPL_DB_READ && !may_repair)
    flags = (flags & ~SQLITE_OPEN_READWRITE) | SQLITE_OPEN_READONLY;
  /* A WAL database needs -wal and -shm beside it. Where they neither exist nor can be made, nobody
   * can be writing, and SQLite may read the file as it stands. */
  const bool is_immutable = db->mode == FPL_DB_READ && facts->is_wal && !facts->has_wal_file &&
                            !is_folder_writable(db->path);
  struct fpl_text name = {0};
  if (is_immutable) {
    append_uri(&name, db->path);
    flags |= SQLITE_OPEN_URI;
  } else {
    fpl_text_append(&name, "%s", db->path);
  }
  const int rc =
      name.is_broken ? SQLITE_NOMEM : sqlite3_open_v2(name.text, &db->handle, flags, NULL);
  fpl_text_free(&name);
  return rc == SQLITE_OK ? FPL_OK : fpl_db_fail(db, rc, err);
}

enum fpl_status fpl_db_configure(struct fpl_db *db, struct fpl_err *err) {
  fpl_db_set_busy_ms(db, FIRST_BUSY_MS); /* before the first pragma, which may need a lock */
  sqlite3_db_config(db->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
  static const enum fpl_query pragmas[] = {FPL_QUERY_FOREIGN_KEYS_ON, FPL_QUERY_TRUST_NO_SCHEMA,
                                           FPL_QUERY_CHECK_CELLS};
  enum fpl_status status = FPL_OK;
  for (size_t i = 0; status == FPL_OK && i < sizeof pragmas / sizeof *pragmas; i++)
    status = fpl_db_run(db, pragmas[i], err);
  return status;
}

static bool is_in_memory(const struct fpl_db *db) {
  return strcmp(db->path, ":memory:") == 0;
}

/* WAL where it is safe. Busy neighbours are no failure: a later writer switches. */
static enum fpl_status choose_journal(struct fpl_db *db, struct fpl_err *err) {
  if (db->mode == FPL_DB_READ || is_in_memory(db))
    return FPL_OK;
  struct fpl_db_file_system system;
  enum fpl_status status = fpl_db_file_system(db->path, &system, err);
  if (status != FPL_OK)
    return status;
  status =
      fpl_db_run(db, system.is_wal_safe ? FPL_QUERY_JOURNAL_WAL : FPL_QUERY_JOURNAL_ROLLBACK, err);
  return status == FPL_DB_BUSY ? FPL_OK : status;
}

enum fpl_status fpl_db_open(const char *path, enum fpl_db_mode mode, struct fpl_db **out,
                            struct fpl_err *err) {
  *out = NULL;
  if (*path == '\0')
    return FPL_OK;
  struct fpl_db *const db = calloc(1, sizeof *db);
  char *const copy = strdup(path);
  if (!db || !copy) {
    free(db);
    free(copy);
    return fpl_fail(err, FPL_NO_MEMORY, "%s: out of memory", path);
  }
  *db = (struct fpl_db){.path = copy, .mode = mode, .busy_ms = FIRST_BUSY_MS};
  struct file_facts facts = {0};
  enum fpl_status status = is_in_memory(db) ? FPL_OK : examine(db, &facts, err);
  if (status == FPL_OK)
    status = open_handle(db, &facts, err);
  if (status == FPL_OK)
    status = fpl_db_configure(db, err);
  if (status == FPL_OK)
    status = fpl_db_migrate(db, mode != FPL_DB_READ, err);
  if (status == FPL_OK)
    status = choose_journal(db, err);
  if (status == FPL_OK) {
    *out = db;
    return FPL_OK;
  }
  db->mode = FPL_DB_READ; /* not ours to tidy */
  fpl_db_close(db);
  return status;
}

void fpl_db_finalize(struct fpl_db *db) {
  for (int i = 0; i < FPL_N_QUERIES; i++) {
    sqlite3_finalize(db->statements[i]);
    db->statements[i] = NULL;
  }
}

void fpl_db_close(struct fpl_db *db) {
  if (!db)
    return;
  if (db->mode != FPL_DB_READ && !is_in_memory(db)) {
    for (int i = 0; i < FPL_N_QUERIES; i++)
      sqlite3_reset(db->statements[i]);
    sqlite3_busy_timeout(db->handle, 0);
    fpl_db_run(db, FPL_QUERY_JOURNAL_ROLLBACK, NULL);
  }
  fpl_db_finalize(db);
  sqlite3_close(db->handle);
  free(db->path);
  free(db);
}

void fpl_db_set_busy_ms(struct fpl_db *db, int busy_ms) {
  if (!db)
    return;
  db->busy_ms = busy_ms;
  sqlite3_busy_timeout(db->handle, busy_ms);
}
