/* Files as they are found after an accident: full or limited disk, read-only folder, removed,
 * replaced, empty, of another program, of a newer fuseplan, with flipped bits. Each is one clear
 * line, and what was there stays as it was. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/chaos/chaos.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { M_STORED = 128, FIRST_MORE = 1000, MOST_MORE = 5000, HEADER_BYTES = 100 };

static bool is_one_line(const struct fpl_err *err, const char *path) {
  return err->text[0] != '\0' && !strchr(err->text, '\n') && strstr(err->text, path) != NULL;
}

/* In a child: stores problems until it fails, which must be told, then has lost none but the last. */
static void store_until_it_fails(const char *path) {
  struct fpl_db *db = NULL;
  struct fpl_err err = {0};
  int64_t run = 0, m = FIRST_MORE;
  enum fpl_status status = fpl_db_open(path, FPL_DB_WRITE, &db, &err);
  if (status == FPL_OK)
    status = fpl_db_begin_run(db, 1, "1", "", &run, &err);
  while (status == FPL_OK && m < FIRST_MORE + MOST_MORE)
    status = chaos_store(db, run, m++, &err);
  chaos_expect(status == FPL_DB || status == FPL_IO, "status", &err);
  chaos_expect(is_one_line(&err, path), "message", &err);
  fpl_db_close(db);
  chaos_expect(fpl_db_open(path, FPL_DB_READ, &db, &err) == FPL_OK, "open after", &err);
  chaos_expect(fpl_db_check(db, &err) == FPL_OK, "check after", &err);
  const struct fpl_device d = fixture_device("h200");
  for (int64_t i = FIRST_MORE - 1; i < m - 1; i++) {
    const struct fpl_problem p = fixture_problem(i < FIRST_MORE ? M_STORED : i);
    bool has_plan = false;
    const enum fpl_status asked =
        fpl_db_has_plan(db, &p, &d, FPL_PROVENANCE_MEASURED, &has_plan, &err);
    chaos_expect(asked == FPL_OK && has_plan, "a stored problem is lost", &err);
  }
  fpl_db_close(db);
}

enum { CANNOT = 77 };

/* Runs `body` in a child; answers its exit code. */
static int in_child(void (*body)(const struct scratch *s), const struct scratch *s) {
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    body(s);
    _exit(0);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

static void fill_a_small_disk(const struct scratch *s) {
  char folder[300], path[320];
  snprintf(folder, sizeof folder, "%s/small", s->folder);
  snprintf(path, sizeof path, "%s/plans.db", folder);
  if (mkdir(folder, 0755) != 0 || unshare(CLONE_NEWNS) != 0 ||
      mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
      mount("chaos", folder, "tmpfs", 0, "size=768k") != 0)
    _exit(CANNOT);
  chaos_make(path, M_STORED, M_STORED);
  store_until_it_fails(path);
}

static void a_small_disk_fills_up(void **state) {
  const int code = in_child(fill_a_small_disk, *state);
  if (code == CANNOT)
    skip(); /* only root mounts */
  assert_int_equal(code, 0);
}

static void write_up_to_a_limit(const struct scratch *s) {
  chaos_make(s->path, M_STORED, M_STORED);
  const struct rlimit most = {768 << 10, 768 << 10};
  signal(SIGXFSZ, SIG_IGN);
  if (setrlimit(RLIMIT_FSIZE, &most) != 0)
    _exit(1);
  store_until_it_fails(s->path);
}

static void a_limit_of_file_sizes_is_told(void **state) {
  assert_int_equal(in_child(write_up_to_a_limit, *state), 0);
}

static void create_where_nothing_may_be_made(const struct scratch *s) {
  char path[300];
  struct fpl_db *db = NULL;
  struct fpl_err err = {0};
  snprintf(path, sizeof path, "%s/new.db", s->folder);
  if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
    _exit(1);
  chaos_expect(fpl_db_open(path, FPL_DB_CREATE, &db, &err) == FPL_IO, "create", &err);
  chaos_expect(is_one_line(&err, path) && strstr(err.text, "permissions"), "message", &err);
  chaos_expect(!fpl_path_exists(path), "left behind", &err);
  enum fpl_status status = fpl_db_open(s->path, FPL_DB_WRITE, &db, &err);
  if (status == FPL_OK)
    status = chaos_store_run(db, 1, 1, &err);
  fpl_db_close(db);
  chaos_expect(status == FPL_DB || status == FPL_IO, "write", &err);
  chaos_expect(is_one_line(&err, s->path), "message", &err);
  chaos_expect(fpl_db_open(s->path, FPL_DB_READ, &db, &err) == FPL_OK, "read", &err);
  chaos_expect(fpl_db_check(db, &err) == FPL_OK, "check", &err);
  fpl_db_close(db);
}

static void a_read_only_folder_is_told(void **state) {
  const struct scratch *const s = *state;
  chaos_make(s->path, M_STORED, M_STORED);
  struct fpl_arena arena = {0};
  size_t length = 0, length_after = 0;
  const char *const before = chaos_read_file(&arena, s->path, &length);
  assert_int_equal(chmod(s->path, 0444), 0);
  assert_int_equal(chmod(s->folder, 0555), 0);
  const int code = in_child(create_where_nothing_may_be_made, s);
  assert_int_equal(chmod(s->folder, 0755), 0);
  assert_int_equal(code, 0);
  const char *const after = chaos_read_file(&arena, s->path, &length_after);
  assert_int_equal(length, length_after);
  assert_memory_equal(before, after, length);
  fpl_arena_free(&arena);
}

/* The answer, as long as no file beside the database is needed; otherwise what happened. */
static void look_up_in_removed(struct fpl_db *db, const char *path) {
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(M_STORED);
  struct fpl_plan plan = {0};
  bool found = false;
  struct fpl_err err = {0};
  const enum fpl_status status = fpl_db_find_plan(db, &p, &d, true, &plan, &found, &err);
  assert_true(status == FPL_OK ? found
                               : status == FPL_IO && is_one_line(&err, path) &&
                                     strstr(err.text, "removed or replaced"));
  fpl_plan_free(&plan);
}

static void nothing_is_written_to_a_removed_file(void **state) {
  const struct scratch *const s = *state;
  chaos_make(s->path, M_STORED, M_STORED);
  struct fpl_db *const reader = open_or_fail(s->path, FPL_DB_READ);
  assert_true(chaos_has(reader, M_STORED));
  struct fpl_db *db = open_or_fail(s->path, FPL_DB_WRITE);
  struct fpl_err err = {0};
  chaos_remove(s->path);
  look_up_in_removed(reader, s->path);
  assert_int_equal(chaos_store_run(db, 1, 1, &err), FPL_IO);
  assert_true(is_one_line(&err, s->path) && strstr(err.text, "removed or replaced"));
  fpl_db_close(db);
  fpl_db_close(reader);
  assert_false(fpl_path_exists(s->path));
  static const enum fpl_db_mode modes[] = {FPL_DB_READ, FPL_DB_WRITE};
  for (size_t i = 0; i < 2; i++) {
    assert_int_equal(fpl_db_open(s->path, modes[i], &db, &err), FPL_IO);
    assert_true(is_one_line(&err, s->path) && strstr(err.text, "no such database"));
  }
  assert_false(fpl_path_exists(s->path));
}

static void nothing_is_written_to_a_replaced_file(void **state) {
  const struct scratch *const s = *state;
  char other[300];
  snprintf(other, sizeof other, "%s.other", s->path);
  chaos_make(s->path, M_STORED, M_STORED);
  chaos_make(other, 1, 1);
  struct fpl_db *db = open_or_fail(s->path, FPL_DB_WRITE);
  struct fpl_err err = {0};
  chaos_remove(s->path);
  assert_int_equal(rename(other, s->path), 0);
  assert_int_equal(chaos_store_run(db, 2, 2, &err), FPL_IO);
  assert_non_null(strstr(err.text, "removed or replaced"));
  fpl_db_close(db);
  db = open_or_fail(s->path, FPL_DB_READ);
  chaos_is_whole(db);
  assert_true(chaos_has(db, 1));
  assert_int_equal(chaos_ask(db, "SELECT count(*) FROM plans"), 1);
  fpl_db_close(db);
}

/* Refused in this mode, with this status and text, and every byte stays. */
static void is_refused(const struct scratch *s, enum fpl_db_mode mode, enum fpl_status status,
                       const char *text) {
  struct fpl_arena arena = {0};
  struct fpl_db *db = NULL;
  struct fpl_err err = {0};
  size_t length = 0, length_after = 0;
  const char *const before = chaos_read_file(&arena, s->path, &length);
  assert_int_equal(fpl_db_open(s->path, mode, &db, &err), status);
  assert_null(db);
  if (!is_one_line(&err, s->path) || !strstr(err.text, text))
    fail_msg("message: %s", err.text);
  const char *const after = chaos_read_file(&arena, s->path, &length_after);
  assert_int_equal(length, length_after);
  if (length > 0)
    assert_memory_equal(before, after, length);
  fpl_arena_free(&arena);
}

static void change(const char *path, const char *sql) {
  sqlite3 *handle = NULL;
  assert_int_equal(sqlite3_open(path, &handle), SQLITE_OK);
  assert_int_equal(sqlite3_exec(handle, sql, NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(handle);
}

static void what_is_no_plan_database_is_refused_untouched(void **state) {
  const struct scratch *const s = *state;
  static const enum fpl_db_mode modes[] = {FPL_DB_READ, FPL_DB_WRITE, FPL_DB_CREATE};
  for (size_t i = 0; i < 3; i++) {
    chaos_remove(s->path);
    chaos_write_file(s->path, "", 0);
    if (modes[i] != FPL_DB_CREATE)
      is_refused(s, modes[i], FPL_DB_CORRUPT, "empty");
    chaos_write_file(s->path, "SQLite format 3", 16);
    is_refused(s, modes[i], FPL_DB_CORRUPT, "not an SQLite database");
    chaos_remove(s->path);
    change(s->path, "CREATE TABLE t (x); INSERT INTO t VALUES (1)");
    is_refused(s, modes[i], FPL_DB_SCHEMA, "another program");
    change(s->path, "PRAGMA journal_mode = WAL");
    is_refused(s, modes[i], FPL_DB_SCHEMA, "another program");
    change(s->path, "PRAGMA application_id = 7");
    is_refused(s, modes[i], FPL_DB_SCHEMA, "another program");
    chaos_remove(s->path);
    chaos_make(s->path, M_STORED, M_STORED);
    change(s->path, "PRAGMA user_version = 1000");
    is_refused(s, modes[i], FPL_DB_SCHEMA, "schema 1000 is newer");
    change(s->path, "PRAGMA user_version = 0");
    is_refused(s, modes[i], FPL_DB_SCHEMA, "schema 0 does not exist");
  }
}

static enum fpl_status count_plan(void *context, const struct fpl_plan *plan, struct fpl_err *err) {
  (void)plan, (void)err;
  ++*(int *)context;
  return FPL_OK;
}

/* Uses a file in every way; true when something was told. */
static bool read_all(const char *path) {
  struct fpl_db *db = NULL;
  struct fpl_err err = {0};
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(M_STORED);
  struct fpl_plan plan = {0};
  struct fpl_text text = {0};
  bool found = false;
  int n = 0;
  enum fpl_status first = fpl_db_open(path, FPL_DB_READ, &db, &err);
  if (first == FPL_OK) {
    const enum fpl_status each[] = {fpl_db_find_plan(db, &p, &d, true, &plan, &found, &err),
                                    fpl_db_each_plan(db, count_plan, &n, &err),
                                    fpl_db_export(db, true, append_export, &text, &err),
                                    fpl_db_check(db, &err)};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
      first = first == FPL_OK ? each[i] : first;
    fpl_plan_free(&plan);
    fpl_text_free(&text);
    fpl_db_close(db);
  }
  assert_true(first == FPL_OK || is_one_line(&err, path));
  return first != FPL_OK;
}

/* Stores into a file; where that fails it is told, and no byte past the header is another. */
static bool write_one(const char *path, const char *bytes, size_t length) {
  struct fpl_arena arena = {0};
  struct fpl_db *db = NULL;
  struct fpl_err err = {0};
  size_t length_after = 0;
  int64_t run = 0;
  enum fpl_status status = fpl_db_open(path, FPL_DB_WRITE, &db, &err);
  const bool was_opened = status == FPL_OK;
  if (was_opened)
    status = fpl_db_begin_run(db, 1, "1", "", &run, &err);
  const bool was_begun = status == FPL_OK;
  if (was_begun)
    status = chaos_store(db, run, 1, &err);
  fpl_db_close(db);
  assert_true(status == FPL_OK || is_one_line(&err, path));
  if (!was_begun) {
    const size_t skipped = was_opened ? HEADER_BYTES : 0; /* journal mode, counters of changes */
    const char *const after = chaos_read_file(&arena, path, &length_after);
    assert_int_equal(length, length_after);
    assert_memory_equal(bytes + skipped, after + skipped, length - skipped);
  }
  fpl_arena_free(&arena);
  return status != FPL_OK;
}

static void flipped_bits_give_clear_errors(void **state) {
  const struct scratch *const s = *state;
  uint64_t random = chaos_seed();
  const int64_t flips = 10 * chaos_setting("CHAOS_KILLS", 200);
  struct fpl_arena arena = {0};
  size_t length = 0, length_after = 0;
  chaos_make(s->path, M_STORED, M_STORED + 1);
  char *const bytes = chaos_read_file(&arena, s->path, &length);
  int64_t n_told = 0;
  for (int64_t i = 0; i < flips; i++) {
    /* one bit of the header, of the schema's page, or anywhere; every fourth time eight of them */
    const size_t within = i % 3 == 0 ? HEADER_BYTES : i % 3 == 1 ? 4096 : length;
    size_t at[8];
    char bit[8];
    const int n = i % 4 == 3 ? 8 : 1;
    for (int j = 0; j < n; j++) {
      at[j] = (size_t)chaos_random(&random, within);
      bit[j] = (char)(1 << chaos_random(&random, 8));
      bytes[at[j]] ^= bit[j];
    }
    chaos_remove(s->path);
    chaos_write_file(s->path, bytes, length);
    struct fpl_arena again = {0};
    n_told += read_all(s->path);
    const char *const after = chaos_read_file(&again, s->path, &length_after);
    assert_int_equal(length, length_after);
    assert_memory_equal(bytes, after, length);
    fpl_arena_free(&again);
    n_told += write_one(s->path, bytes, length);
    for (int j = n - 1; j >= 0; j--)
      bytes[at[j]] ^= bit[j];
  }
  assert_true(n_told > flips / 4);
  fpl_arena_free(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_small_disk_fills_up, scratch_make, scratch_remove),
      cmocka_unit_test_setup_teardown(a_limit_of_file_sizes_is_told, scratch_make, scratch_remove),
      cmocka_unit_test_setup_teardown(a_read_only_folder_is_told, scratch_make, scratch_remove),
      cmocka_unit_test_setup_teardown(nothing_is_written_to_a_removed_file, scratch_make,
                                      scratch_remove),
      cmocka_unit_test_setup_teardown(nothing_is_written_to_a_replaced_file, scratch_make,
                                      scratch_remove),
      cmocka_unit_test_setup_teardown(what_is_no_plan_database_is_refused_untouched, scratch_make,
                                      scratch_remove),
      cmocka_unit_test_setup_teardown(flipped_bits_give_clear_errors, scratch_make, scratch_remove),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
