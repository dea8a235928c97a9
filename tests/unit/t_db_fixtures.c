/* A database of each released schema (tests/fixtures/schema_N.sql, made by tests/fixtures/make.sh)
 * is migrated to the newest one and then holds what its text form (schema_N.jsonl) says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/db_fixture.h"

/* What each fixture held when it was made; its own fuseplan would say the same. */
static const struct {
  const char *table;
  int64_t n;
} rows[] = {{"runs", 4},          {"environments", 3}, {"device_classes", 2},
            {"problems", 4},      {"kernels", 9},      {"candidates", 19},
            {"measurements", 26}, {"plans", 5},        {"answers", 4}};
enum { MOST_BYTES = 1 << 20 };

static int64_t ask(struct fpl_db *db, const char *sql) {
  sqlite3_stmt *statement = NULL;
  assert_int_equal(sqlite3_prepare_v2(db->handle, sql, -1, &statement, NULL), SQLITE_OK);
  assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
  const int64_t answer = sqlite3_column_int64(statement, 0);
  sqlite3_finalize(statement);
  return answer;
}

static char *read_fixture(struct fpl_arena *arena, int schema, const char *ending, size_t *length) {
  char path[128];
  char *text = NULL;
  struct fpl_err err = {0};
  snprintf(path, sizeof path, "tests/fixtures/schema_%d.%s", schema, ending);
  must(fpl_file_read(arena, path, MOST_BYTES, &text, length, &err), &err);
  return text;
}

static void make_old(struct scratch *s, int schema, const char *journal) {
  size_t length = 0;
  const char *const sql = read_fixture(&s->arena, schema, "sql", &length);
  sqlite3 *handle = NULL;
  assert_int_equal(sqlite3_open(s->path, &handle), SQLITE_OK);
  assert_int_equal(sqlite3_exec(handle, sql, NULL, NULL, NULL), SQLITE_OK);
  assert_int_equal(sqlite3_exec(handle, journal, NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(handle);
}

static void check_rows(struct fpl_db *db) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char sql[64];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", rows[i].table);
    if (ask(db, sql) != rows[i].n)
      fail_msg("%s: %lld rows, not %lld", rows[i].table, (long long)ask(db, sql),
               (long long)rows[i].n);
  }
}

/* An answer with its kernel, as text. */
static enum fpl_status append_answer(void *context, const struct fpl_plan *p, struct fpl_err *err) {
  (void)err;
  char problem[FPL_PROBLEM_TEXT], schedule[FPL_SCHEDULE_TEXT] = "library";
  fpl_problem_text(&p->problem, problem);
  if (!p->is_library)
    fpl_schedule_text(&p->schedule, schedule);
  fpl_text_append(context, "%s | %s | %s | %s | %d %g %g %g | %s\n", problem, p->device_name,
                  schedule, p->kernel.sha, (int)p->provenance, p->measured_us, p->library_us,
                  p->est_us, p->reason);
  for (int i = 0; i < FPL_KERNEL_MAPS; i++)
    fpl_text_append(context, "%lld %d %d\n", (long long)p->kernel.maps[i].rows,
                    (int)p->kernel.maps[i].parts, (int)p->kernel.maps[i].is_image);
  return FPL_OK;
}

static void is_migrated(struct scratch *s, int schema, const char *journal) {
  make_old(s, schema, journal);
  struct fpl_err err = {0};
  /* A reader leaves the file as it is, in whichever journal mode it was left. */
  struct fpl_db *const reader = open_or_fail(s->path, FPL_DB_READ);
  check_rows(reader);
  struct fpl_text read = export_or_fail(reader, true);
  fpl_db_close(reader);
  struct fpl_db *const old = open_or_fail(s->path, FPL_DB_WRITE);
  assert_int_equal(ask(old, "PRAGMA user_version"), fpl_db_newest_schema);
  must(fpl_db_check(old, &err), &err);
  check_rows(old);
  size_t length = 0;
  const char *const text = read_fixture(&s->arena, schema, "jsonl", &length);
  struct fpl_db *const fresh = open_or_fail(":memory:", FPL_DB_CREATE);
  struct fpl_import_counts counts;
  must(fpl_db_import(fresh, "fixture", text, length, &counts, &err), &err);
  check_rows(fresh);
  struct fpl_text wanted = {0}, found = {0};
  must(fpl_db_each_plan(fresh, append_answer, &wanted, &err), &err);
  must(fpl_db_each_plan(old, append_answer, &found, &err), &err);
  assert_string_equal(found.text, wanted.text);
  fpl_text_free(&wanted);
  fpl_text_free(&found);
  wanted = export_or_fail(fresh, true);
  found = export_or_fail(old, true);
  assert_string_equal(found.text, wanted.text);
  assert_string_equal(read.text, wanted.text);
  fpl_text_free(&read);
  fpl_text_free(&wanted);
  fpl_text_free(&found);
  /* Reading the text into the migrated database finds every record there. */
  must(fpl_db_import(old, "fixture", text, length, &counts, &err), &err);
  assert_int_equal(counts.n_added, 0);
  fpl_db_close(fresh);
  fpl_db_close(old);
}

static void schema_1_is_migrated(void **state) {
  is_migrated(*state, 1, "PRAGMA journal_mode = DELETE");
}

static void schema_1_in_wal_mode_is_migrated(void **state) {
  is_migrated(*state, 1, "PRAGMA journal_mode = WAL");
}

static void schema_2_is_migrated(void **state) {
  is_migrated(*state, 2, "PRAGMA journal_mode = DELETE");
}

static void schema_2_in_wal_mode_is_migrated(void **state) {
  is_migrated(*state, 2, "PRAGMA journal_mode = WAL");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(schema_1_is_migrated, scratch_make, scratch_remove),
      cmocka_unit_test_setup_teardown(schema_1_in_wal_mode_is_migrated, scratch_make,
                                      scratch_remove),
      cmocka_unit_test_setup_teardown(schema_2_is_migrated, scratch_make, scratch_remove),
      cmocka_unit_test_setup_teardown(schema_2_in_wal_mode_is_migrated, scratch_make,
                                      scratch_remove),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
