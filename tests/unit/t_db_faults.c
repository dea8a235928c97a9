/* Disk full, read-only, locked, damaged, killed: a clear error and an intact database. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/db_fixture.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void store_m(struct fpl_db *db, int64_t m) {
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(m);
  const struct fpl_plan plan = fixture_plan(&p, 10);
  fixture_store(db, &p, &d, 10, &plan);
}

static void make_database(const char *path) {
  struct fpl_db *const db = open_or_fail(path, FPL_DB_CREATE);
  store_m(db, 128);
  fpl_db_close(db);
}

static bool has_m(struct fpl_db *db, int64_t m) {
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(m);
  bool has_plan = false;
  struct fpl_err err = {0};
  must(fpl_db_has_plan(db, &p, &d, FPL_PROVENANCE_MEASURED, &has_plan, &err), &err);
  return has_plan;
}

/* Tries to store problem m; the run itself exists already. */
static enum fpl_status try_store(struct fpl_db *db, int64_t run, int64_t m, struct fpl_err *err) {
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(m);
  const struct fpl_environment e = fixture_environment();
  const struct fpl_plan plan = fixture_plan(&p, 10);
  struct fpl_result results[FIXTURE_RESULTS];
  fixture_results(results, 10);
  const enum fpl_status status =
      fpl_db_store_problem(db, run, &p, &d, results, FIXTURE_RESULTS, &e, &plan, err);
  fixture_results_free(results);
  return status;
}

static void set_pages(struct fpl_db *db, int most) {
  char sql[64];
  snprintf(sql, sizeof sql, "PRAGMA max_page_count = %d", most);
  assert_int_equal(sqlite3_exec(db->handle, sql, NULL, NULL, NULL), SQLITE_OK);
}

static void a_full_disk_loses_one_problem_and_no_more(void **state) {
  const struct scratch *const s = *state;
  make_database(s->path);
  struct fpl_db *const db = open_or_fail(s->path, FPL_DB_WRITE);
  struct fpl_err err = {0};
  int64_t run = 0;
  must(fpl_db_begin_run(db, 1, "1", "", &run, &err), &err);
  set_pages(db, 1); /* at least what the file holds: no page may be added */
  enum fpl_status status = FPL_OK;
  int64_t m = 1000;
  while (status == FPL_OK && ++m < 1100)
    status = try_store(db, run, m, &err);
  assert_int_equal(status, FPL_DB);
  assert_non_null(strstr(err.text, "no space left"));
  assert_non_null(strstr(err.text, s->path));
  assert_false(has_m(db, m));
  assert_true(has_m(db, 128));
  set_pages(db, 1 << 20);
  must(try_store(db, run, m, &err), &err);
  assert_true(has_m(db, m));
  must(fpl_db_check(db, &err), &err);
  fpl_db_close(db);
}

/* Runs `body` in a child without root's rights, which no permission stops. */
static void without_root(void (*body)(const struct scratch *s), const struct scratch *s) {
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
      _exit(2);
    body(s);
    _exit(0); /* a failed assertion ends the child elsewhere, with another code */
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

static void expect(bool is_so, const char *what, const struct fpl_err *err) {
  if (is_so)
    return;
  fprintf(stderr, "# %s: %s\n", what, err->text);
  _exit(1);
}

static void use_read_only(const struct scratch *s) {
  struct fpl_db *db = NULL;
  struct fpl_err err = {0};
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(128);
  bool has_plan = false;
  expect(fpl_db_open(s->path, FPL_DB_READ, &db, &err) == FPL_OK, "open to read", &err);
  expect(fpl_db_has_plan(db, &p, &d, FPL_PROVENANCE_MEASURED, &has_plan, &err) == FPL_OK &&
             has_plan,
         "look up", &err);
  fpl_db_close(db);
  int64_t run = 0;
  enum fpl_status status = fpl_db_open(s->path, FPL_DB_WRITE, &db, &err);
  if (status == FPL_OK)
    status = fpl_db_begin_run(db, 1, "1", "", &run, &err);
  fpl_db_close(db);
  expect(status == FPL_DB || status == FPL_IO, "open to write", &err);
  expect(strstr(err.text, "permissions") != NULL, "remedy", &err);
}

static void a_read_only_folder_serves_lookups(void **state) {
  const struct scratch *const s = *state;
  make_database(s->path);
  assert_int_equal(chmod(s->path, 0444), 0);
  assert_int_equal(chmod(s->folder, 0555), 0);
  without_root(use_read_only, s);
  assert_int_equal(chmod(s->folder, 0755), 0);
}

static void a_wal_database_in_a_read_only_folder_serves_lookups(void **state) {
  const struct scratch *const s = *state;
  make_database(s->path);
  sqlite3 *handle = NULL;
  assert_int_equal(sqlite3_open(s->path, &handle), SQLITE_OK);
  assert_int_equal(sqlite3_exec(handle, "PRAGMA journal_mode = WAL", NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(handle);
  assert_int_equal(chmod(s->path, 0444), 0);
  assert_int_equal(chmod(s->folder, 0555), 0);
  without_root(use_read_only, s);
  assert_int_equal(chmod(s->folder, 0755), 0);
}

static void an_unreadable_file_is_named(const struct scratch *s) {
  struct fpl_db *db = NULL;
  struct fpl_err err = {0};
  expect(fpl_db_open(s->path, FPL_DB_READ, &db, &err) == FPL_IO, "status", &err);
  expect(strstr(err.text, s->path) && strstr(err.text, "permission"), "message", &err);
}

static void permission_denied_is_told(void **state) {
  const struct scratch *const s = *state;
  make_database(s->path);
  assert_int_equal(chmod(s->folder, 0755), 0);
  assert_int_equal(chmod(s->path, 0), 0);
  without_root(an_unreadable_file_is_named, s);
}

static void a_lock_held_too_long_is_busy_and_later_succeeds(void **state) {
  const struct scratch *const s = *state;
  make_database(s->path);
  struct fpl_db *const holder = open_or_fail(s->path, FPL_DB_WRITE);
  struct fpl_db *const other = open_or_fail(s->path, FPL_DB_WRITE);
  struct fpl_err err = {0};
  int64_t run = 0;
  must(fpl_db_begin_run(other, 1, "1", "", &run, &err), &err);
  must(fpl_db_run(holder, FPL_QUERY_BEGIN, &err), &err);
  fpl_db_set_busy_ms(other, 20);
  assert_int_equal(try_store(other, run, 200, &err), FPL_DB_BUSY);
  assert_non_null(strstr(err.text, "more than 20 ms"));
  assert_true(has_m(other, 128)); /* readers do not wait for a writer */
  must(fpl_db_run(holder, FPL_QUERY_ROLLBACK, &err), &err);
  must(try_store(other, run, 200, &err), &err);
  fpl_db_close(other);
  assert_true(has_m(holder, 200));
  fpl_db_close(holder);
}

static enum fpl_status count_plan(void *context, const struct fpl_plan *plan, struct fpl_err *err) {
  (void)plan, (void)err;
  ++*(int *)context;
  return FPL_OK;
}

static enum fpl_status count_candidate(void *context, const struct fpl_db_candidate *candidate,
                                       struct fpl_err *err) {
  (void)candidate, (void)err;
  ++*(int *)context;
  return FPL_OK;
}

/* Uses a damaged database in every way; each answer is a result or one clear error. */
static bool use_damaged(const char *path) {
  struct fpl_db *db = NULL;
  struct fpl_err err = {0};
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(128);
  enum fpl_status status = fpl_db_open(path, FPL_DB_READ, &db, &err);
  bool was_seen = status != FPL_OK;
  if (status == FPL_OK) {
    struct fpl_plan plan;
    bool found = false;
    int n = 0;
    struct fpl_text text = {0};
    enum fpl_status each[5];
    each[0] = fpl_db_find_plan(db, &p, &d, true, &plan, &found, &err);
    if (found)
      fpl_plan_free(&plan);
    each[1] = fpl_db_each_plan(db, count_plan, &n, &err);
    each[2] = fpl_db_each_candidate(db, 1, count_candidate, &n, &err);
    each[3] = fpl_db_export(db, true, append_export, &text, &err);
    each[4] = fpl_db_check(db, &err);
    for (int i = 0; i < 5; i++)
      was_seen = was_seen || each[i] != FPL_OK;
    fpl_text_free(&text);
  }
  assert_true(!was_seen || (err.text[0] != '\0' && !strchr(err.text, '\n')));
  fpl_db_close(db);
  return was_seen;
}

static void damaged_pages_give_errors_not_crashes(void **state) {
  const struct scratch *const s = *state;
  make_database(s->path);
  struct fpl_arena arena = {0};
  struct fpl_err err = {0};
  char *bytes = NULL;
  size_t length = 0;
  must(fpl_file_read(&arena, s->path, 1 << 24, &bytes, &length, &err), &err);
  unsigned random = 12345;
  int n_seen = 0;
  for (int round = 0; round < 150; round++) {
    for (int flips = 0; flips < 12; flips++) {
      random = random * 1103515245u + 12345u;
      const size_t at = round % 3 == 0 ? random % 4096 : random % length;
      bytes[at] = (char)(bytes[at] ^ (1 << (random >> 24 & 7)));
    }
    FILE *const file = fopen(s->path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    fclose(file);
    n_seen += use_damaged(s->path);
    if (round % 10 == 9) { /* start again from a good file */
      assert_int_equal(unlink(s->path), 0);
      make_database(s->path);
      must(fpl_file_read(&arena, s->path, 1 << 24, &bytes, &length, &err), &err);
    }
  }
  assert_true(n_seen > 50);
  fpl_arena_free(&arena);
}

static long root_page(const char *path, const char *table) {
  sqlite3 *handle = NULL;
  sqlite3_stmt *statement = NULL;
  assert_int_equal(sqlite3_open(path, &handle), SQLITE_OK);
  assert_int_equal(sqlite3_prepare_v2(handle, "SELECT rootpage FROM sqlite_schema WHERE name = ?1",
                                      -1, &statement, NULL),
                   SQLITE_OK);
  sqlite3_bind_text(statement, 1, table, -1, SQLITE_STATIC);
  assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
  const long page = (long)sqlite3_column_int64(statement, 0);
  sqlite3_finalize(statement);
  sqlite3_close(handle);
  return page;
}

static void a_destroyed_page_is_called_damaged(void **state) {
  const struct scratch *const s = *state;
  make_database(s->path);
  const long page = root_page(s->path, "plans");
  FILE *const file = fopen(s->path, "r+b");
  assert_non_null(file);
  char noise[4096];
  memset(noise, 0xa5, sizeof noise);
  assert_int_equal(fseek(file, (page - 1) * (long)sizeof noise, SEEK_SET), 0);
  assert_int_equal(fwrite(noise, 1, sizeof noise, file), sizeof noise);
  fclose(file);
  struct fpl_db *const db = open_or_fail(s->path, FPL_DB_READ);
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(128);
  struct fpl_plan plan;
  bool found = true;
  struct fpl_err err = {0};
  assert_int_equal(fpl_db_find_plan(db, &p, &d, true, &plan, &found, &err), FPL_DB_CORRUPT);
  assert_false(found);
  assert_non_null(strstr(err.text, "damaged"));
  assert_int_equal(fpl_db_check(db, &err), FPL_DB_CORRUPT);
  fpl_db_close(db);
}

static void a_cut_file_is_called_damaged(void **state) {
  const struct scratch *const s = *state;
  make_database(s->path);
  assert_int_equal(truncate(s->path, 3 * 4096), 0);
  struct fpl_db *db = NULL;
  struct fpl_err err = {0};
  enum fpl_status status = fpl_db_open(s->path, FPL_DB_READ, &db, &err);
  if (status == FPL_OK)
    status = fpl_db_check(db, &err);
  assert_int_equal(status, FPL_DB_CORRUPT);
  fpl_db_close(db);
}

/* Writes problems until it is killed, and tells the parent of each that was stored. */
static void write_until_killed(const char *path, int report, bool in_transaction) {
  struct fpl_db *db = NULL;
  struct fpl_err err = {0};
  int64_t run = 0;
  enum fpl_status status = fpl_db_open(path, FPL_DB_CREATE, &db, &err);
  if (status == FPL_OK)
    status = fpl_db_begin_run(db, 1, "1", "", &run, &err);
  for (int64_t m = 1; status == FPL_OK && m < 100000; m++) {
    status = try_store(db, run, m, &err);
    if (status != FPL_OK || write(report, &m, sizeof m) != sizeof m)
      break;
    if (in_transaction && m == 3) { /* a large write that is spilled to disk before its end */
      sqlite3_exec(db->handle,
                   "PRAGMA cache_size = 2; BEGIN IMMEDIATE; UPDATE kernels SET cubin = "
                   "zeroblob(4000000); DELETE FROM measurements",
                   NULL, NULL, NULL);
      m = -1;
      if (write(report, &m, sizeof m) == sizeof m)
        pause();
    }
  }
  _exit(1);
}

static void kill_writer(const char *path, bool in_transaction, int64_t last) {
  int pipes[2];
  assert_int_equal(pipe(pipes), 0);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0)
    write_until_killed(path, pipes[1], in_transaction);
  close(pipes[1]);
  int64_t m = 0, stored = 0;
  while (m != last) {
    assert_int_equal(read(pipes[0], &m, sizeof m), sizeof m);
    stored = m > 0 ? m : stored;
  }
  assert_int_equal(kill(child, SIGKILL), 0);
  assert_int_equal(waitpid(child, NULL, 0), child);
  while (read(pipes[0], &m, sizeof m) == sizeof m)
    stored = m > 0 ? m : stored;
  close(pipes[0]);
  /* A lookup comes first: it must not need a writer to repair the file. */
  struct fpl_db *const reader = open_or_fail(path, FPL_DB_READ);
  for (m = 1; m <= stored; m++)
    assert_true(has_m(reader, m));
  struct fpl_err err = {0};
  must(fpl_db_check(reader, &err), &err);
  fpl_db_close(reader);
  struct fpl_db *const writer = open_or_fail(path, FPL_DB_WRITE);
  int64_t run = 0;
  must(fpl_db_begin_run(writer, 1, "1", "", &run, &err), &err);
  must(try_store(writer, run, 99999, &err), &err);
  must(fpl_db_check(writer, &err), &err);
  fpl_db_close(writer);
}

static void a_killed_writer_loses_at_most_the_problem_in_flight(void **state) {
  const struct scratch *const s = *state;
  for (int64_t last = 1; last <= 7; last += 2) {
    char path[300];
    snprintf(path, sizeof path, "%s-%d", s->path, (int)last);
    kill_writer(path, false, last);
  }
}

static void a_writer_killed_inside_a_transaction_leaves_no_trace(void **state) {
  const struct scratch *const s = *state;
  kill_writer(s->path, true, -1);
}

/* As on a network file system: the interrupted transaction lies in a rollback journal. */
static void a_rollback_journal_of_a_killed_writer_is_played_back_by_a_lookup(void **state) {
  const struct scratch *const s = *state;
  make_database(s->path);
  int pipes[2];
  assert_int_equal(pipe(pipes), 0);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    sqlite3 *handle = NULL;
    const int rc = sqlite3_open(s->path, &handle);
    if (rc == SQLITE_OK &&
        sqlite3_exec(handle,
                     "PRAGMA cache_size = 2; BEGIN IMMEDIATE; DELETE FROM plans; UPDATE kernels "
                     "SET cubin = zeroblob(4000000); DELETE FROM measurements",
                     NULL, NULL, NULL) == SQLITE_OK &&
        write(pipes[1], "x", 1) == 1)
      pause();
    _exit(1);
  }
  char byte = 0;
  assert_int_equal(read(pipes[0], &byte, 1), 1);
  assert_int_equal(kill(child, SIGKILL), 0);
  assert_int_equal(waitpid(child, NULL, 0), child);
  close(pipes[0]);
  close(pipes[1]);
  char journal[300];
  snprintf(journal, sizeof journal, "%s-journal", s->path);
  assert_true(fpl_path_exists(journal));
  struct fpl_db *const reader = open_or_fail(s->path, FPL_DB_READ);
  assert_true(has_m(reader, 128));
  struct fpl_err err = {0};
  must(fpl_db_check(reader, &err), &err);
  fpl_db_close(reader);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_full_disk_loses_one_problem_and_no_more, scratch_make,
                                      scratch_remove),
      cmocka_unit_test_setup_teardown(a_read_only_folder_serves_lookups, scratch_make,
                                      scratch_remove),
      cmocka_unit_test_setup_teardown(a_wal_database_in_a_read_only_folder_serves_lookups,
                                      scratch_make, scratch_remove),
      cmocka_unit_test_setup_teardown(permission_denied_is_told, scratch_make, scratch_remove),
      cmocka_unit_test_setup_teardown(a_lock_held_too_long_is_busy_and_later_succeeds, scratch_make,
                                      scratch_remove),
      cmocka_unit_test_setup_teardown(damaged_pages_give_errors_not_crashes, scratch_make,
                                      scratch_remove),
      cmocka_unit_test_setup_teardown(a_destroyed_page_is_called_damaged, scratch_make,
                                      scratch_remove),
      cmocka_unit_test_setup_teardown(a_cut_file_is_called_damaged, scratch_make, scratch_remove),
      cmocka_unit_test_setup_teardown(a_killed_writer_loses_at_most_the_problem_in_flight,
                                      scratch_make, scratch_remove),
      cmocka_unit_test_setup_teardown(a_writer_killed_inside_a_transaction_leaves_no_trace,
                                      scratch_make, scratch_remove),
      cmocka_unit_test_setup_teardown(
          a_rollback_journal_of_a_killed_writer_is_played_back_by_a_lookup, scratch_make,
          scratch_remove),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
