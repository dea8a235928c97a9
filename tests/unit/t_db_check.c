/* The thorough check and the garbage collection: each planted fault is found in its row, repaired
 * only where it is safe, and every answer stays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/db_fixture.h"

static struct fpl_db *filled(void) {
  struct fpl_db *const db = open_or_fail(":memory:", FPL_DB_CREATE);
  const struct fpl_device d = fixture_device("h200");
  for (int64_t m = 128; m <= 256; m += 128) {
    const struct fpl_problem p = fixture_problem(m);
    const struct fpl_plan plan = fixture_plan(&p, 10);
    fixture_store(db, &p, &d, 10, &plan);
  }
  return db;
}

static void change(struct fpl_db *db, const char *sql) {
  sqlite3_exec(db->handle, "PRAGMA foreign_keys = OFF", NULL, NULL, NULL);
  char *message = NULL;
  if (sqlite3_exec(db->handle, sql, NULL, NULL, &message) != SQLITE_OK)
    fail_msg("%s: %s", sql, message);
  sqlite3_exec(db->handle, "PRAGMA foreign_keys = ON", NULL, NULL, NULL);
}

static int64_t ask(struct fpl_db *db, const char *sql) {
  sqlite3_stmt *statement = NULL;
  assert_int_equal(sqlite3_prepare_v2(db->handle, sql, -1, &statement, NULL), SQLITE_OK);
  assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
  const int64_t answer = sqlite3_column_int64(statement, 0);
  sqlite3_finalize(statement);
  return answer;
}

static enum fpl_status append_finding(void *context, const struct fpl_finding *f,
                                      struct fpl_err *err) {
  (void)err;
  assert_null(strchr(f->what, '\n'));
  fpl_text_append(context, "%s %s %lld%s: %s\n", fpl_finding_names[f->kind], f->table,
                  (long long)f->row, f->is_repaired ? " repaired" : "", f->what);
  return FPL_OK;
}

/* The findings, one a line; the caller frees them. */
static struct fpl_text findings(struct fpl_db *db, bool repair) {
  struct fpl_text text = {0};
  struct fpl_err err = {0};
  fpl_text_append(&text, "%s", "");
  must(fpl_db_check_all(db, repair, append_finding, &text, &err), &err);
  return text;
}

static void finds(struct fpl_db *db, bool repair, const char *wanted) {
  struct fpl_text text = findings(db, repair);
  if (*wanted == '\0')
    assert_string_equal(text.text, "");
  else if (!strstr(text.text, wanted))
    fail_msg("'%s' is not among\n%s", wanted, text.text);
  fpl_text_free(&text);
}

static bool answers(struct fpl_db *db, int64_t m) {
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(m);
  struct fpl_plan plan = {0};
  struct fpl_err err = {0};
  bool found = false;
  must(fpl_db_find_plan(db, &p, &d, true, &plan, &found, &err), &err);
  fpl_plan_free(&plan);
  return found;
}

static void a_sound_database_has_no_findings(void **state) {
  (void)state;
  struct fpl_db *const db = filled();
  finds(db, false, "");
  finds(db, true, "");
  fpl_db_close(db);
  struct fpl_err err = {0};
  must(fpl_db_check_all(NULL, true, append_finding, NULL, &err), &err);
}

/* A fault, the finding, and whether a repair removes it. */
static const struct {
  const char *sql, *finding;
  bool is_repairable;
} faults[] = {
    {"UPDATE kernels SET cubin = x'00' WHERE id = 1", "cubin kernels 1", true},
    {"UPDATE kernels SET cubin = x'' WHERE id = 1", "cubin kernels 1", true},
    {"INSERT INTO problems (key, text, kind, dtype, act, m, n, k, l) SELECT"
     " '5ae25d1af5f0d9d2f0f1d6aae4d9a0f4', 'x', kind, dtype, act, m, n, k, l FROM problems LIMIT 1",
     "unreadable problems 3: its text cannot be read", true},
    {"INSERT INTO environments (key) VALUES ('5ae25d1af5f0d9d2f0f1d6aae4d9a0f4')",
     "orphan environments 2", true},
    {"UPDATE candidates SET kernel_id = NULL; UPDATE plans SET kernel_id = NULL",
     "orphan kernels 1", true},
    {"INSERT INTO runs (key, started_unix, seed, tool_version, arguments, state) VALUES"
     " ('5ae25d1af5f0d9d2f0f1d6aae4d9a0f4', 1, 1, '1', 'tune', 'running')",
     "orphan runs 3", true},
    {"UPDATE device_classes SET max_cluster = 1", "illegal plans 1: ", true},
    {"DROP INDEX candidates_by_kernel", "unreadable file 0: its tables, indices or views", false},
    {"UPDATE problems SET text = replace(text, 'm=128', 'm=129') WHERE id = 1",
     "unreadable problems 1: its key is not that of its text", false},
    {"UPDATE problems SET m = 7 WHERE id = 1", "unreadable problems 1: its columns", false},
    {"UPDATE device_classes SET class = 'sm_90'", "unreadable device_classes 1: its key", false},
    {"UPDATE environment_fields SET value = 'x' WHERE name = 'driver'",
     "unreadable environments 1: its key", false},
    {"UPDATE candidates SET schedule = replace(schedule, 'stages=4', 'stages=3')"
     " WHERE id = 2",
     "unreadable candidates 2: its key", false},
    {"UPDATE candidates SET reduce = 'none' WHERE id = 2", "unreadable candidates 2: its columns",
     false},
    {"UPDATE candidates SET attempt = 9 WHERE id = 1", "unreadable candidates 1: its key", false},
    {"UPDATE plans SET problem_id = 2 WHERE id = 1", "dangling plans 1: names another", false},
    {"DELETE FROM problems WHERE id = 2",
     "dangling plans 2: names a row of problems that does not exist", false},
    {"DELETE FROM candidates WHERE id = 2",
     "dangling measurements 2: names a row of candidates that does not exist", false},
};

static void every_planted_fault_is_found(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    struct fpl_db *const db = filled();
    change(db, faults[i].sql);
    finds(db, false, faults[i].finding);
    struct fpl_text first = findings(db, false), again = findings(db, false);
    assert_string_equal(first.text, again.text); /* a check changes nothing */
    fpl_text_free(&first);
    fpl_text_free(&again);
    struct fpl_text repaired = findings(db, true);
    assert_int_equal(strstr(repaired.text, " repaired: ") != NULL, faults[i].is_repairable);
    fpl_text_free(&repaired);
    if (faults[i].is_repairable)
      finds(db, false, "");
    else
      finds(db, false, faults[i].finding);
    fpl_db_close(db);
  }
}

static void a_dropped_cubin_can_be_stored_anew(void **state) {
  (void)state;
  struct fpl_db *const db = filled();
  change(db, "UPDATE kernels SET cubin = zeroblob(9)");
  finds(db, true, "cubin kernels 1 repaired");
  assert_int_equal(ask(db, "SELECT count(*) FROM kernels WHERE cubin IS NULL"), 1);
  assert_true(answers(db, 128));
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(128);
  const struct fpl_plan plan = fixture_plan(&p, 10);
  fixture_store(db, &p, &d, 10, &plan);
  assert_int_equal(ask(db, "SELECT count(*) FROM kernels WHERE cubin IS NULL"), 0);
  finds(db, false, "");
  fpl_db_close(db);
}

/* Otherwise one bad row makes a lookup fail that an older plan could answer. */
static void a_plan_that_cannot_be_read_is_flagged(void **state) {
  (void)state;
  struct fpl_db *const db = filled();
  change(db, "UPDATE candidates SET schedule = 'x' WHERE id IN (SELECT candidate_id FROM plans"
             " WHERE id = 1)");
  finds(db, true, "illegal plans 1 repaired: unreadable: ");
  assert_false(answers(db, 128));
  assert_true(answers(db, 256));
  fpl_db_close(db);
}

static void a_run_at_work_is_no_orphan(void **state) {
  (void)state;
  struct fpl_db *const db = filled();
  struct fpl_err err = {0};
  int64_t run = 0;
  must(fpl_db_begin_run(db, 1, "1", "tune", &run, &err), &err);
  finds(db, true, "");
  must(fpl_db_end_run(db, run, FPL_RUN_INTERRUPTED, &err), &err);
  finds(db, true, "orphan runs 3 repaired: 'tune'");
  assert_int_equal(ask(db, "SELECT count(*) FROM runs"), 2);
  fpl_db_close(db);
}

static void a_damaged_file_is_a_finding_and_left_alone(void **state) {
  const struct scratch *const s = *state;
  struct fpl_db *db = open_or_fail(s->path, FPL_DB_CREATE);
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(128);
  const struct fpl_plan plan = fixture_plan(&p, 10);
  fixture_store(db, &p, &d, 10, &plan);
  change(db, "UPDATE kernels SET cubin = x'00'");
  const long page = (long)ask(db, "SELECT rootpage FROM sqlite_schema WHERE name = 'measurements'");
  fpl_db_close(db);
  FILE *const file = fopen(s->path, "r+b");
  assert_non_null(file);
  assert_int_equal(fseek(file, (page - 1) * 4096L, SEEK_SET), 0);
  assert_int_equal(fwrite("\xa5\xa5\xa5\xa5\xa5\xa5\xa5\xa5", 1, 8, file), 8);
  fclose(file);
  db = open_or_fail(s->path, FPL_DB_WRITE);
  struct fpl_text text = findings(db, true);
  assert_int_equal(strncmp(text.text, "damage file 0: ", 15), 0);
  assert_null(strstr(text.text, "repaired"));
  fpl_text_free(&text);
  assert_int_equal(ask(db, "SELECT length(cubin) FROM kernels"), 1);
  fpl_db_close(db);
}

/* Runs of one problem, the oldest first: the plan of run 1 is promoted, the others have none. */
static struct fpl_db *with_history(const char *path, int n_runs) {
  struct fpl_db *const db = open_or_fail(path, FPL_DB_CREATE);
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(128);
  const struct fpl_plan plan = fixture_plan(&p, 10);
  for (int i = 0; i < n_runs; i++)
    fixture_store(db, &p, &d, 10 + i, i == 0 ? &plan : NULL);
  change(db, "UPDATE runs SET started_unix = id");
  return db;
}

static struct fpl_gc_counts gc(struct fpl_db *db, int64_t keep_runs, bool dry_run) {
  struct fpl_gc_counts counts;
  struct fpl_err err = {0};
  must(fpl_db_gc(db, keep_runs, dry_run, &counts, &err), &err);
  return counts;
}

static void gc_keeps_plans_and_the_newest_runs(void **state) {
  const struct scratch *const s = *state;
  struct fpl_db *const db = with_history(s->path, 5);
  /* Run 1 keeps its plan and library, runs 4 and 5 all; 2 and 3 go, with the other two of run 1. */
  const struct fpl_gc_counts would = gc(db, 2, true);
  assert_int_equal(ask(db, "SELECT count(*) FROM candidates"), 5 * FIXTURE_RESULTS);
  const struct fpl_gc_counts did = gc(db, 2, false);
  assert_int_equal(would.n_candidates, 2 + 2 * FIXTURE_RESULTS);
  assert_int_equal(did.n_candidates, would.n_candidates);
  assert_int_equal(did.n_measurements, 2 * 3);
  assert_int_equal(would.n_measurements, did.n_measurements);
  assert_int_equal(did.n_orphans, 2); /* runs 2 and 3 */
  assert_int_equal(did.n_cubins, 0);
  assert_int_equal(ask(db, "SELECT count(*) FROM candidates WHERE run_id IN (4, 5)"),
                   2 * FIXTURE_RESULTS);
  assert_int_equal(ask(db, "SELECT count(*) FROM candidates WHERE run_id = 1 AND is_library"), 1);
  assert_int_equal(ask(db, "SELECT count(*) FROM measurements m JOIN candidates c"
                           " ON c.id = m.candidate_id WHERE c.run_id = 1"),
                   3);
  assert_true(answers(db, 128));
  finds(db, false, "");
  assert_int_equal(gc(db, 2, false).n_candidates, 0);
  fpl_db_close(db);
}

/* A run without a plan, whose one kernel is of 400000 bytes. */
static void store_large_kernel(struct fpl_db *db) {
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(128);
  const struct fpl_environment e = fixture_environment();
  struct fpl_result results[FIXTURE_RESULTS];
  struct fpl_err err = {0};
  int64_t run = 0;
  fixture_results(results, 10);
  struct fpl_kernel *const k = &results[1].kernel;
  free(k->cubin);
  k->cubin_bytes = 400000;
  k->cubin = calloc(1, k->cubin_bytes);
  assert_non_null(k->cubin);
  fpl_hash_bytes_hex(k->cubin, k->cubin_bytes, k->sha);
  must(fpl_db_begin_run(db, 1, "1", "", &run, &err), &err);
  must(fpl_db_store_problem(db, run, &p, &d, results, FIXTURE_RESULTS, &e, NULL, &err), &err);
  fixture_results_free(results);
}

static void gc_drops_cubins_that_no_plan_names_and_gives_space_back(void **state) {
  const struct scratch *const s = *state;
  struct fpl_db *const db = with_history(s->path, 1);
  store_large_kernel(db);
  const struct fpl_gc_counts would = gc(db, 1, true), did = gc(db, 1, false);
  assert_int_equal(did.n_cubins, 1);
  assert_int_equal(would.n_cubins, 1);
  assert_int_equal(did.n_orphans, 0); /* the kernel itself is still a candidate's */
  assert_true(did.bytes_before - did.bytes_after >= 400000);
  assert_true(would.bytes_before == did.bytes_before && would.bytes_after >= did.bytes_after);
  assert_true(would.bytes_before - would.bytes_after >= 390000);
  assert_int_equal(ask(db, "SELECT count(*) FROM kernels WHERE cubin IS NOT NULL"), 1);
  assert_true(answers(db, 128));
  fpl_db_close(db);
  struct fpl_gc_counts none;
  struct fpl_err err = {0};
  must(fpl_db_gc(NULL, 1, false, &none, &err), &err);
  assert_int_equal(none.bytes_before, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_sound_database_has_no_findings),
      cmocka_unit_test(every_planted_fault_is_found),
      cmocka_unit_test(a_dropped_cubin_can_be_stored_anew),
      cmocka_unit_test(a_plan_that_cannot_be_read_is_flagged),
      cmocka_unit_test(a_run_at_work_is_no_orphan),
      cmocka_unit_test_setup_teardown(a_damaged_file_is_a_finding_and_left_alone, scratch_make,
                                      scratch_remove),
      cmocka_unit_test_setup_teardown(gc_keeps_plans_and_the_newest_runs, scratch_make,
                                      scratch_remove),
      cmocka_unit_test_setup_teardown(gc_drops_cubins_that_no_plan_names_and_gives_space_back,
                                      scratch_make, scratch_remove),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
