/* Opening, schema, and what a run stores. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/db_fixture.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int64_t ask(struct fpl_db *db, const char *sql) {
  sqlite3_stmt *statement = NULL;
  assert_int_equal(sqlite3_prepare_v2(db->handle, sql, -1, &statement, NULL), SQLITE_OK);
  assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
  const int64_t answer = sqlite3_column_int64(statement, 0);
  sqlite3_finalize(statement);
  return answer;
}

static void write_file(const char *path, const void *bytes, size_t length) {
  FILE *const file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, length, file), length);
  assert_int_equal(fclose(file), 0);
}

static void make_foreign(const char *path, const char *sql) {
  sqlite3 *handle = NULL;
  assert_int_equal(sqlite3_open(path, &handle), SQLITE_OK);
  assert_int_equal(sqlite3_exec(handle, sql, NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(handle);
}

/* Opening must fail so, in every mode given, and leave the file's bytes alone. */
static void refuses(const char *path, enum fpl_db_mode mode, enum fpl_status status,
                    const char *part) {
  struct fpl_arena arena = {0};
  char *before = NULL, *after = NULL;
  size_t n_before = 0, n_after = 0;
  const bool exists = fpl_path_exists(path);
  struct fpl_err err = {0};
  if (exists)
    must(fpl_file_read(&arena, path, 1 << 20, &before, &n_before, &err), &err);
  struct fpl_db *db = NULL;
  assert_int_equal(fpl_db_open(path, mode, &db, &err), status);
  assert_null(db);
  assert_int_equal(err.code, status);
  assert_non_null(strstr(err.text, path));
  if (!strstr(err.text, part))
    fail_msg("'%s' lacks '%s'", err.text, part);
  assert_null(strchr(err.text, '\n'));
  assert_int_equal(fpl_path_exists(path), exists);
  if (exists) {
    must(fpl_file_read(&arena, path, 1 << 20, &after, &n_after, &err), &err);
    assert_int_equal(n_before, n_after);
    assert_true(memcmp(before, after, n_before) == 0);
  }
  fpl_arena_free(&arena);
}

static void a_new_database_carries_its_name_and_schema(void **state) {
  const struct scratch *const s = *state;
  struct fpl_db *const db = open_or_fail(s->path, FPL_DB_CREATE);
  assert_int_equal(ask(db, "PRAGMA application_id"), 0x46504c4e);
  assert_int_equal(ask(db, "PRAGMA user_version"), fpl_db_newest_schema);
  assert_int_equal(ask(db, "PRAGMA foreign_keys"), 1);
  assert_int_equal(ask(db, "SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND type "
                           "= 'table' AND NOT strict AND name NOT LIKE 'sqlite_%'"),
                   0);
  struct fpl_err err = {0};
  must(fpl_db_check(db, &err), &err);
  fpl_db_close(db);
}

static void candidates_have_one_column_for_each_schedule_field(void **state) {
  (void)state;
  struct fpl_db *const db = open_or_fail(":memory:", FPL_DB_CREATE);
  sqlite3_stmt *statement = NULL;
  assert_int_equal(sqlite3_prepare_v2(db->handle,
                                      "SELECT name, type FROM pragma_table_info('candidates') "
                                      "WHERE cid >= (SELECT cid FROM "
                                      "pragma_table_info('candidates') WHERE name = 'loops')",
                                      -1, &statement, NULL),
                   SQLITE_OK);
  for (int i = 0; i < FPL_N_FIELDS; i++) {
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(statement, 0),
                        fpl_schedule_fields[i].name);
    assert_string_equal((const char *)sqlite3_column_text(statement, 1),
                        fpl_schedule_fields[i].names ? "TEXT" : "INTEGER");
  }
  assert_int_equal(sqlite3_step(statement), SQLITE_DONE);
  sqlite3_finalize(statement);
  fpl_db_close(db);
}

static void every_name_and_bound_of_the_vocabulary_can_be_stored(void **state) {
  (void)state;
  struct fpl_db *const db = open_or_fail(":memory:", FPL_DB_CREATE);
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_environment e = fixture_environment();
  struct fpl_err err = {0};
  int64_t run = 0;
  must(fpl_db_begin_run(db, UINT64_MAX, "1", "", &run, &err), &err);
  enum { MOST = 64 };
  struct fpl_result results[MOST] = {0};
  int n = 0;
  for (int outcome = 0; outcome < FPL_N_OUTCOMES; outcome++) {
    results[n].schedule = fixture_schedule(4);
    results[n].schedule.blk_m = 17 + outcome;
    results[n++].outcome = (enum fpl_outcome)outcome;
  }
  for (int field = 0; field < FPL_N_FIELDS; field++) {
    const struct fpl_schedule_field *const f = &fpl_schedule_fields[field];
    const int32_t values[] = {f->least, f->most};
    for (int i = 0; i < 2; i++) {
      results[n].schedule = fixture_schedule(4);
      results[n].schedule.blk_m = 1024 + n; /* all differ */
      fpl_schedule_set(&results[n++].schedule, field, values[i]);
    }
  }
  const struct fpl_conv conv = {1, 64, 14, 14, 3};
  for (int kind = 0; kind <= FPL_KIND_CONV_CHAIN; kind++)
    for (int dtype = 0; dtype <= FPL_DTYPE_BF16; dtype++)
      for (int act = 0; act <= FPL_ACT_SILU; act++) {
        const bool is_conv = kind == FPL_KIND_CONV_CHAIN;
        struct fpl_problem p;
        must(fpl_problem_make((enum fpl_kind)kind, (enum fpl_dtype)dtype, (enum fpl_act)act,
                              is_conv ? 0 : 128, 256, is_conv ? 0 : 64, 64, is_conv ? &conv : NULL,
                              &p, &err),
             &err);
        must(fpl_db_store_problem(db, run, &p, &d, results, n, &e, NULL, &err), &err);
      }
  assert_int_equal(ask(db, "SELECT count(*) FROM problems"), 24);
  assert_int_equal(ask(db, "SELECT count(*) FROM candidates"), 24 * n);
  for (int run_state = FPL_RUN_RUNNING; run_state <= FPL_RUN_INTERRUPTED; run_state++)
    must(fpl_db_end_run(db, run, (enum fpl_run_state)run_state, &err), &err);
  fpl_db_close(db);
}

static void schema_document_names_every_table_and_column(void **state) {
  (void)state;
  struct fpl_arena arena = {0};
  struct fpl_err err = {0};
  char *document = NULL;
  size_t length = 0;
  must(fpl_file_read(&arena, "db/SCHEMA.md", 1 << 20, &document, &length, &err), &err);
  struct fpl_db *const db = open_or_fail(":memory:", FPL_DB_CREATE);
  sqlite3_stmt *statement = NULL;
  assert_int_equal(sqlite3_prepare_v2(db->handle,
                                      "SELECT t.name, c.name FROM pragma_table_list t JOIN "
                                      "pragma_table_info(t.name) c WHERE t.type = 'table' AND "
                                      "t.name NOT LIKE 'sqlite_%'",
                                      -1, &statement, NULL),
                   SQLITE_OK);
  int n = 0;
  for (; sqlite3_step(statement) == SQLITE_ROW; n++) {
    char table[64], column[64];
    snprintf(table, sizeof table, "\n## %s\n", (const char *)sqlite3_column_text(statement, 0));
    snprintf(column, sizeof column, "`%s`", (const char *)sqlite3_column_text(statement, 1));
    const char *const section = strstr(document, table);
    if (!section)
      fail_msg("db/SCHEMA.md has no section '%s'", table + 1);
    const char *const end = strstr(section + 1, "\n## ");
    const char *const found = strstr(section, column);
    if (!found || (end && found > end))
      fail_msg("db/SCHEMA.md, section%s: no %s", table + 1, column);
  }
  assert_true(n > 80);
  sqlite3_finalize(statement);
  fpl_db_close(db);
  fpl_arena_free(&arena);
}

static void an_empty_path_is_no_store(void **state) {
  (void)state;
  struct fpl_db *db = NULL;
  struct fpl_err err = {0};
  must(fpl_db_open("", FPL_DB_CREATE, &db, &err), &err);
  assert_null(db);
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(128);
  const struct fpl_plan plan = fixture_plan(&p, 10);
  fixture_store(NULL, &p, &d, 10, &plan);
  struct fpl_plan out;
  bool found = true;
  must(fpl_db_find_plan(NULL, &p, &d, true, &out, &found, &err), &err);
  assert_false(found);
  must(fpl_db_check(NULL, &err), &err);
  fpl_db_close(NULL);
}

static void a_missing_file_is_named_and_not_made(void **state) {
  const struct scratch *const s = *state;
  refuses(s->path, FPL_DB_READ, FPL_IO, "no such database");
  refuses(s->path, FPL_DB_WRITE, FPL_IO, "no such database");
  struct fpl_db *db = NULL;
  struct fpl_err err = {0};
  assert_int_equal(fpl_db_open(s->folder, FPL_DB_CREATE, &db, &err), FPL_IO);
  assert_non_null(strstr(err.text, "not a regular file"));
}

static void foreign_files_are_refused_untouched(void **state) {
  const struct scratch *const s = *state;
  write_file(s->path, "", 0);
  refuses(s->path, FPL_DB_READ, FPL_DB_CORRUPT, "zero bytes");
  refuses(s->path, FPL_DB_WRITE, FPL_DB_CORRUPT, "zero bytes");
  char text[4096];
  memset(text, 'x', sizeof text);
  write_file(s->path, text, sizeof text);
  refuses(s->path, FPL_DB_READ, FPL_DB_CORRUPT, "not an SQLite database");
  refuses(s->path, FPL_DB_CREATE, FPL_DB_CORRUPT, "not an SQLite database");
  write_file(s->path, "SQLite format 3", 16);
  refuses(s->path, FPL_DB_CREATE, FPL_DB_CORRUPT, "not an SQLite database");
  unlink(s->path);
  make_foreign(s->path, "PRAGMA application_id = 77; CREATE TABLE t (x)");
  refuses(s->path, FPL_DB_READ, FPL_DB_SCHEMA, "another program");
  refuses(s->path, FPL_DB_CREATE, FPL_DB_SCHEMA, "another program");
  unlink(s->path);
  make_foreign(s->path, "CREATE TABLE t (x)");
  refuses(s->path, FPL_DB_READ, FPL_DB_SCHEMA, "another program");
  refuses(s->path, FPL_DB_CREATE, FPL_DB_SCHEMA, "another program");
}

static void a_newer_schema_is_refused_with_both_versions(void **state) {
  const struct scratch *const s = *state;
  fpl_db_close(open_or_fail(s->path, FPL_DB_CREATE));
  make_foreign(s->path, "PRAGMA user_version = 99");
  refuses(s->path, FPL_DB_READ, FPL_DB_SCHEMA, "schema 99");
  refuses(s->path, FPL_DB_CREATE, FPL_DB_SCHEMA, "knows schema 3");
}

/* A database of schema 1 at `path` with the rows of `from`, a file of the newest schema. */
static void make_schema_1(const char *path, const char *from) {
  static const char *const tables[] = {"runs",     "environments", "environment_fields",
                                       "problems", "kernels",      "device_classes",
                                       "plans",    "candidates",   "measurements"};
  sqlite3 *handle = NULL;
  char sql[2048];
  assert_int_equal(sqlite3_open(path, &handle), SQLITE_OK);
  assert_int_equal(sqlite3_exec(handle, (const char *)fpl_db_migrations[0], NULL, NULL, NULL),
                   SQLITE_OK);
  snprintf(sql, sizeof sql, "ATTACH '%s' AS newest", from);
  assert_int_equal(sqlite3_exec(handle, sql, NULL, NULL, NULL), SQLITE_OK);
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
    sqlite3_stmt *statement = NULL;
    snprintf(sql, sizeof sql,
             "SELECT format('INSERT INTO main.%s (%%s) SELECT %%s FROM newest.%s', names, names)"
             " FROM (SELECT group_concat(name) AS names FROM pragma_table_info('%s', 'main'))",
             tables[i], tables[i], tables[i]);
    assert_int_equal(sqlite3_prepare_v2(handle, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    assert_int_equal(
        sqlite3_exec(handle, (const char *)sqlite3_column_text(statement, 0), NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_finalize(statement);
  }
  sqlite3_close(handle);
}

static void a_database_of_schema_1_is_migrated_without_loss(void **state) {
  const struct scratch *const s = *state;
  char newest[sizeof s->path + 8];
  snprintf(newest, sizeof newest, "%s.newest", s->path);
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(128);
  const struct fpl_plan plan = fixture_plan(&p, 10);
  struct fpl_db *db = open_or_fail(newest, FPL_DB_CREATE);
  fixture_store(db, &p, &d, 10, &plan);
  assert_int_equal(ask(db, "SELECT count(*) FROM kernels"), 1);
  fpl_db_close(db);
  /* What schema 1 cannot say has the value that every kernel of its time had. */
  make_foreign(newest, "UPDATE kernels SET map_a_is_image = 0, map_b_parts = 1");
  db = open_or_fail(newest, FPL_DB_READ);
  struct fpl_text before = export_or_fail(db, true);
  fpl_db_close(db);
  make_schema_1(s->path, newest);
  /* A reader leaves the file as it is, and reads it as migrated. */
  db = open_or_fail(s->path, FPL_DB_READ);
  struct fpl_text copy = export_or_fail(db, true);
  assert_string_equal(before.text, copy.text);
  fpl_text_free(&copy);
  fpl_db_close(db);
  sqlite3 *handle = NULL;
  assert_int_equal(sqlite3_open(s->path, &handle), SQLITE_OK);
  assert_int_equal(ask(&(struct fpl_db){.handle = handle}, "PRAGMA user_version"), 1);
  sqlite3_close(handle);

  db = open_or_fail(s->path, FPL_DB_WRITE);
  struct fpl_err err = {0};
  must(fpl_db_check(db, &err), &err);
  assert_int_equal(ask(db, "PRAGMA user_version"), fpl_db_newest_schema);
  struct fpl_text after = export_or_fail(db, true);
  assert_string_equal(before.text, after.text);
  struct fpl_plan found_plan;
  bool found = false;
  must(fpl_db_find_plan(db, &p, &d, true, &found_plan, &found, &err), &err);
  assert_true(found);
  for (int i = 0; i < FPL_KERNEL_MAPS; i++) {
    assert_int_equal(found_plan.kernel.maps[i].parts, 1);
    assert_int_equal(found_plan.kernel.maps[i].is_image, 0);
  }
  assert_int_equal(found_plan.kernel.maps[2].slabs, 2);
  fpl_plan_free(&found_plan);
  fpl_text_free(&before);
  fpl_text_free(&after);
  fpl_db_close(db);
}

static void an_empty_file_becomes_a_database_when_asked(void **state) {
  const struct scratch *const s = *state;
  write_file(s->path, "", 0);
  fpl_db_close(open_or_fail(s->path, FPL_DB_CREATE));
  fpl_db_close(open_or_fail(s->path, FPL_DB_READ));
}

static bool has_file(const struct scratch *s, const char *suffix) {
  char path[300];
  snprintf(path, sizeof path, "%s%s", s->path, suffix);
  return fpl_path_exists(path);
}

static void a_database_at_rest_is_one_file(void **state) {
  const struct scratch *const s = *state;
  struct fpl_db_file_system system;
  struct fpl_err err = {0};
  must(fpl_db_file_system(s->path, &system, &err), &err);
  struct fpl_db *const writer = open_or_fail(s->path, FPL_DB_CREATE);
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(128);
  const struct fpl_plan plan = fixture_plan(&p, 10);
  fixture_store(writer, &p, &d, 10, &plan);
  assert_int_equal(has_file(s, "-wal"), system.is_wal_safe);
  fpl_db_close(writer);
  assert_false(has_file(s, "-wal") || has_file(s, "-shm") || has_file(s, "-journal"));
  struct fpl_db *const reader = open_or_fail(s->path, FPL_DB_READ);
  bool has_plan = false;
  must(fpl_db_has_plan(reader, &p, &d, FPL_PROVENANCE_MEASURED, &has_plan, &err), &err);
  assert_true(has_plan);
  assert_false(has_file(s, "-wal") || has_file(s, "-shm") || has_file(s, "-journal"));
  int64_t run = 0;
  assert_int_equal(fpl_db_begin_run(reader, 1, "1", "", &run, &err), FPL_DB);
  assert_non_null(strstr(err.text, "not writable"));
  fpl_db_close(reader);
}

static void file_systems_have_names(void **state) {
  (void)state;
  struct fpl_db_file_system system;
  struct fpl_err err = {0};
  must(fpl_db_file_system("/proc/self/status", &system, &err), &err);
  assert_string_equal(system.name, "local");
  assert_int_equal(fpl_db_file_system("/no/such/folder/x.db", &system, &err), FPL_IO);
  assert_non_null(strstr(err.text, "/no/such/folder"));
}

static void processes_may_create_and_write_at_once(void **state) {
  enum { PROCESSES = 8 };
  const struct scratch *const s = *state;
  for (int i = 0; i < PROCESSES; i++) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
      struct fpl_db *db = NULL;
      int64_t run = 0;
      struct fpl_err err = {0};
      enum fpl_status status = fpl_db_open(s->path, FPL_DB_CREATE, &db, &err);
      for (int r = 0; status == FPL_OK && r < 5; r++)
        status = fpl_db_begin_run(db, (uint64_t)i, "1", "", &run, &err);
      fpl_db_close(db);
      if (status != FPL_OK)
        fprintf(stderr, "# %s\n", err.text);
      _exit(status == FPL_OK ? 0 : 1);
    }
  }
  for (int i = 0; i < PROCESSES; i++) {
    int status = 0;
    assert_true(wait(&status) > 0);
    assert_int_equal(status, 0);
  }
  struct fpl_db *const db = open_or_fail(s->path, FPL_DB_READ);
  assert_int_equal(ask(db, "SELECT count(*) FROM runs"), 5 * PROCESSES);
  assert_int_equal(ask(db, "SELECT count(DISTINCT key) FROM runs"), 5 * PROCESSES);
  fpl_db_close(db);
}

static void a_failed_store_leaves_nothing(void **state) {
  (void)state;
  struct fpl_db *const db = open_or_fail(":memory:", FPL_DB_CREATE);
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(128);
  const struct fpl_environment e = fixture_environment();
  struct fpl_result results[FIXTURE_RESULTS];
  fixture_results(results, 10);
  struct fpl_plan plan = fixture_plan(&p, 10);
  plan.schedule.stages = 9;
  struct fpl_err err = {0};
  int64_t run = 0;
  must(fpl_db_begin_run(db, 1, "1", "", &run, &err), &err);
  assert_int_equal(fpl_db_store_problem(db, run, &p, &d, results, FIXTURE_RESULTS, &e, &plan, &err),
                   FPL_INTERNAL);
  assert_non_null(strstr(err.text, "not among the results"));
  results[3].schedule = results[2].schedule;
  plan.schedule.stages = 4;
  assert_int_equal(fpl_db_store_problem(db, run, &p, &d, results, FIXTURE_RESULTS, &e, &plan, &err),
                   FPL_INTERNAL);
  assert_non_null(strstr(err.text, "stands twice"));
  assert_int_equal(fpl_db_store_problem(db, 5, &p, &d, results, 1, &e, NULL, &err), FPL_INTERNAL);
  assert_non_null(strstr(err.text, "never begun"));
  assert_int_equal(ask(db, "SELECT count(*) FROM problems"), 0);
  assert_int_equal(ask(db, "SELECT count(*) FROM candidates"), 0);
  fixture_results_free(results);
  fpl_db_close(db);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_new_database_carries_its_name_and_schema, scratch_make,
                                      scratch_remove),
      cmocka_unit_test(candidates_have_one_column_for_each_schedule_field),
      cmocka_unit_test(every_name_and_bound_of_the_vocabulary_can_be_stored),
      cmocka_unit_test(schema_document_names_every_table_and_column),
      cmocka_unit_test(an_empty_path_is_no_store),
      cmocka_unit_test_setup_teardown(a_missing_file_is_named_and_not_made, scratch_make,
                                      scratch_remove),
      cmocka_unit_test_setup_teardown(foreign_files_are_refused_untouched, scratch_make,
                                      scratch_remove),
      cmocka_unit_test_setup_teardown(a_database_of_schema_1_is_migrated_without_loss, scratch_make,
                                      scratch_remove),
      cmocka_unit_test_setup_teardown(a_newer_schema_is_refused_with_both_versions, scratch_make,
                                      scratch_remove),
      cmocka_unit_test_setup_teardown(an_empty_file_becomes_a_database_when_asked, scratch_make,
                                      scratch_remove),
      cmocka_unit_test_setup_teardown(a_database_at_rest_is_one_file, scratch_make, scratch_remove),
      cmocka_unit_test(file_systems_have_names),
      cmocka_unit_test_setup_teardown(processes_may_create_and_write_at_once, scratch_make,
                                      scratch_remove),
      cmocka_unit_test(a_failed_store_leaves_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
