/* Merging generated databases: A+B = B+A, A+A = A, (A+B)+C = A+(B+C), by text export with cubins
 * and by answers. The databases share runs, one of them still running in some; they name a device
 * class differently, know different things of one kernel, miss cubins, and disagree on winners, also
 * at equal times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/db_fixture.h"

enum { N_TRIALS = 12, N_SIDES = 3 };

static uint64_t random_state;
static int draw(int n) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (int)((random_state >> 33) % (uint64_t)n);
}

static void file_in(const struct scratch *s, const char *name, char out[300]) {
  snprintf(out, 300, "%s/%s.db", s->folder, name);
}

/* One problem's results as a tune would store them, with a winner by lot. */
static void store_one(struct fpl_db *db, int64_t run) {
  static const char *const names[] = {"h200", "my_card", "lab"};
  struct fpl_device d = fixture_device(names[draw(3)]);
  d.sms = 132 - 2 * draw(4);
  const struct fpl_problem p = fixture_problem(64 << draw(3));
  struct fpl_result results[FIXTURE_RESULTS];
  const double us = 10 + draw(4);
  fixture_results(results, us);
  struct fpl_kernel *const k = &results[1].kernel;
  k->max_clusters = 60 + draw(4);
  k->registers = draw(2) ? 168 : 0;
  k->source_key[0] = (char)('a' + draw(3));
  if (draw(2)) {
    free(k->cubin);
    k->cubin = NULL;
    k->cubin_bytes = 0;
  }
  struct fpl_environment e = fixture_environment();
  fpl_environment_set(&e, "driver", draw(2) ? "580.65.06" : "590.1");
  struct fpl_plan plan = fixture_plan(&p, us);
  plan.is_library = draw(2) != 0;
  plan.created_unix = 1000 * (1 + draw(2));
  plan.provenance = draw(3) ? FPL_PROVENANCE_MEASURED : FPL_PROVENANCE_PREDICTED;
  struct fpl_err err = {0};
  must(fpl_db_store_problem(db, run, &p, &d, results, FIXTURE_RESULTS, &e, draw(5) ? &plan : NULL,
                            &err),
       &err);
  fixture_results_free(results);
}

static void merge_or_fail(const char *into, const char *const *others, int n,
                          struct fpl_merge *out) {
  struct fpl_err err = {0};
  struct fpl_db *const db = open_or_fail(into, FPL_DB_CREATE);
  struct fpl_merge merge;
  must(fpl_db_merge(db, others, n, &merge, &err), &err);
  must(fpl_db_check(db, &err), &err);
  fpl_db_close(db);
  if (out)
    *out = merge;
  else
    fpl_merge_free(&merge);
}

static struct fpl_text text_of(const char *path) {
  struct fpl_db *const db = open_or_fail(path, FPL_DB_READ);
  const struct fpl_text text = export_or_fail(db, true);
  fpl_db_close(db);
  return text;
}

static void assert_same_answers(const char *a, const char *b) {
  struct fpl_db *const dbs[2] = {open_or_fail(a, FPL_DB_READ), open_or_fail(b, FPL_DB_READ)};
  struct fpl_stored_plan *plans[2];
  size_t n[2];
  struct fpl_err err = {0};
  for (int i = 0; i < 2; i++) {
    must(fpl_db_stored_plans(dbs[i], NULL, INT64_MAX, true, &plans[i], &n[i], &err), &err);
    fpl_db_close(dbs[i]);
  }
  assert_int_equal(n[0], n[1]);
  for (size_t i = 0; i < n[0]; i++) {
    assert_int_equal(fpl_stored_plan_compare(&plans[0][i], &plans[1][i]), 0);
    assert_string_equal(plans[0][i].run_key, plans[1][i].run_key);
    assert_int_equal(plans[0][i].attempt, plans[1][i].attempt);
    assert_true(fpl_stored_plan_same_winner(&plans[0][i], &plans[1][i]));
  }
  free(plans[0]);
  free(plans[1]);
}

static void assert_same(const char *a, const char *b) {
  struct fpl_text first = text_of(a), second = text_of(b);
  assert_string_equal(first.text, second.text);
  fpl_text_free(&first);
  fpl_text_free(&second);
  assert_same_answers(a, b);
}

/* Starts a new database in `path` from what is merged. */
static void sum(const struct scratch *s, const char *name, const char *const *terms, int n,
                char out[300]) {
  file_in(s, name, out);
  remove(out);
  merge_or_fail(out, terms, n, NULL);
}

/* Three databases that grew from one, with an open run that some have ended. */
static void grow(const struct scratch *s, char paths[N_SIDES][300]) {
  char root[300];
  file_in(s, "root", root);
  remove(root);
  struct fpl_err err = {0};
  struct fpl_db *db = open_or_fail(root, FPL_DB_CREATE);
  int64_t run = 0;
  must(fpl_db_begin_run(db, 1, "1.0", "tune root.yaml", &run, &err), &err);
  for (int i = 0; i < 2; i++)
    store_one(db, run);
  fpl_db_close(db);
  for (int side = 0; side < N_SIDES; side++) {
    const char *const terms[] = {root};
    const char name[] = {(char)('a' + side), '\0'};
    sum(s, name, terms, 1, paths[side]);
    db = open_or_fail(paths[side], FPL_DB_WRITE);
    if (draw(2))
      must(fpl_db_end_run(db, 1, draw(2) ? FPL_RUN_DONE : FPL_RUN_INTERRUPTED, &err), &err);
    must(fpl_db_begin_run(db, 1, "1.0", "tune more.yaml", &run, &err), &err);
    for (int i = 0; i < 4; i++)
      store_one(db, run);
    must(fpl_db_end_run(db, run, FPL_RUN_DONE, &err), &err);
    fpl_db_close(db);
  }
}

static void check_laws(const struct scratch *s) {
  char paths[N_SIDES][300], ab[300], ba[300], aa[300], bc[300], left[300], right[300], all[300];
  grow(s, paths);
  const char *const a = paths[0], *const b = paths[1], *const c = paths[2];
  sum(s, "ab", (const char *const[]){a, b}, 2, ab);
  sum(s, "ba", (const char *const[]){b, a}, 2, ba);
  assert_same(ab, ba);
  sum(s, "aa", (const char *const[]){a, a}, 2, aa);
  assert_same(aa, a);
  merge_or_fail(aa, (const char *const[]){aa}, 1, NULL); /* into itself */
  assert_same(aa, a);
  sum(s, "bc", (const char *const[]){b, c}, 2, bc);
  sum(s, "left", (const char *const[]){ab, c}, 2, left);
  sum(s, "right", (const char *const[]){a, bc}, 2, right);
  assert_same(left, right);
  sum(s, "all", (const char *const[]){c, a, b}, 3, all);
  assert_same(left, all);
  /* In place: A takes B, B takes A. */
  merge_or_fail(a, (const char *const[]){b}, 1, NULL);
  assert_same(a, ab);
  merge_or_fail(b, (const char *const[]){a}, 1, NULL);
  assert_same(b, ab);
}

static void merging_is_commutative_associative_and_idempotent(void **state) {
  for (int trial = 0; trial < N_TRIALS; trial++) {
    random_state = (uint64_t)trial * 7919 + 1;
    check_laws(*state);
  }
}

/* Ours: measured by a kernel at 1000. Theirs by lot of the table. */
static void a_conflict_names_its_rule(void **state) {
  const struct scratch *const s = *state;
  static const struct {
    enum fpl_provenance provenance;
    int64_t created_unix;
    int answering; /* 2: by the keys of the runs, which are random */
    enum fpl_plan_rule rule;
  } cases[] = {{FPL_PROVENANCE_MEASURED, 2000, 1, FPL_PLAN_RULE_NEWER},
               {FPL_PROVENANCE_MEASURED, 500, 0, FPL_PLAN_RULE_NEWER},
               {FPL_PROVENANCE_PREDICTED, 2000, 0, FPL_PLAN_RULE_PROVENANCE},
               {FPL_PROVENANCE_MEASURED, 1000, 2, FPL_PLAN_RULE_RUN}};
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(128);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char a[300], b[300];
    file_in(s, "ours", a);
    file_in(s, "theirs", b);
    remove(a);
    remove(b);
    struct fpl_db *db = open_or_fail(a, FPL_DB_CREATE);
    struct fpl_plan plan = fixture_plan(&p, 10);
    fixture_store(db, &p, &d, 10, &plan);
    fpl_db_close(db);
    db = open_or_fail(b, FPL_DB_CREATE);
    plan.is_library = true;
    plan.provenance = cases[i].provenance;
    plan.created_unix = cases[i].created_unix;
    fixture_store(db, &p, &d, 10, &plan);
    fpl_db_close(db);
    struct fpl_merge merge;
    merge_or_fail(a, (const char *const[]){b}, 1, &merge);
    assert_int_equal(merge.n_conflicts, 1);
    const struct fpl_merge_conflict *const c = &merge.conflicts[0];
    assert_int_equal(c->rule, cases[i].rule);
    assert_int_equal(c->answering, cases[i].answering < 2
                                       ? cases[i].answering
                                       : strcmp(c->answers[0].run_key, c->answers[1].run_key) > 0);
    assert_false(c->answers[0].is_library);
    assert_true(c->answers[1].is_library);
    const bool is_ours = c->answering == 0;
    fpl_merge_free(&merge);
    /* Merged again there is nothing new; the other's answer is ours by now, or still loses. */
    merge_or_fail(a, (const char *const[]){b}, 1, &merge);
    assert_int_equal(merge.counts.n_added, 0);
    assert_int_equal(merge.n_conflicts, is_ours);
    fpl_merge_free(&merge);
  }
}

static void alter(const char *path, const char *sql) {
  sqlite3 *handle = NULL;
  assert_int_equal(sqlite3_open(path, &handle), SQLITE_OK);
  assert_int_equal(sqlite3_exec(handle, sql, NULL, NULL, NULL), SQLITE_OK);
  assert_int_equal(sqlite3_changes(handle) > 0, 1);
  sqlite3_close(handle);
}

/* All or nothing: what came before the altered one is not kept either. */
static void an_altered_record_refuses_the_merge(void **state) {
  const struct scratch *const s = *state;
  static const char *const alterations[] = {
      "UPDATE measurements SET median_us = median_us / 2",
      "UPDATE candidates SET outcome = 'ok', reason = '' WHERE outcome = 'compile_error'",
      "UPDATE plans SET measured_us = 1", "UPDATE kernels SET cluster = 1",
      /* a second plan of one attempt */
      "INSERT INTO plans (problem_id, device_class_id, candidate_id, environment_id, provenance,"
      " est_us, measured_us, measured_hot_us, library_us, library_hot_us, n_candidates, n_ok,"
      " reason, created_unix, is_promoted, flag)"
      " SELECT p.problem_id, p.device_class_id, d.id, p.environment_id, p.provenance, 0, 0, 0, 0,"
      " 0, 1, 1, '', p.created_unix, 1, '' FROM plans p JOIN candidates c ON c.id = p.candidate_id"
      " JOIN candidates d ON d.run_id = c.run_id AND d.problem_id = c.problem_id"
      " AND d.device_class_id = c.device_class_id AND d.attempt = c.attempt"
      " WHERE d.outcome = 'compile_error'"};
  random_state = 1;
  for (size_t i = 0; i < sizeof alterations / sizeof *alterations; i++) {
    char paths[N_SIDES][300], altered[300];
    grow(s, paths);
    sum(s, "altered", (const char *const[]){paths[0]}, 1, altered);
    alter(altered, alterations[i]);
    struct fpl_text before = text_of(paths[0]);
    struct fpl_db *const db = open_or_fail(paths[0], FPL_DB_WRITE);
    struct fpl_merge merge;
    struct fpl_err err = {0};
    const char *const others[] = {paths[1], altered};
    assert_int_equal(fpl_db_merge(db, others, 2, &merge, &err), FPL_PARSE);
    assert_non_null(strstr(err.text, altered));
    assert_int_equal(merge.n_conflicts, 0);
    fpl_db_close(db);
    struct fpl_text after = text_of(paths[0]);
    assert_string_equal(before.text, after.text);
    fpl_text_free(&before);
    fpl_text_free(&after);
  }
}

static void a_cubin_on_either_side_is_kept(void **state) {
  const struct scratch *const s = *state;
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(128);
  const struct fpl_plan plan = fixture_plan(&p, 10);
  char full[300], bare[300], sums[2][300];
  file_in(s, "full", full);
  struct fpl_db *db = open_or_fail(full, FPL_DB_CREATE);
  fixture_store(db, &p, &d, 10, &plan);
  fpl_db_close(db);
  sum(s, "bare", (const char *const[]){full}, 1, bare);
  alter(bare, "UPDATE kernels SET cubin = NULL");
  sum(s, "forth", (const char *const[]){full, bare}, 2, sums[0]);
  sum(s, "back", (const char *const[]){bare, full}, 2, sums[1]);
  for (int i = 0; i < 2; i++) {
    assert_same(sums[i], full);
    db = open_or_fail(sums[i], FPL_DB_READ);
    struct fpl_plan found;
    bool is_found = false;
    struct fpl_err err = {0};
    must(fpl_db_find_plan(db, &p, &d, true, &found, &is_found, &err), &err);
    assert_true(is_found && found.kernel.cubin_bytes == 1004);
    fpl_plan_free(&found);
    fpl_db_close(db);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(merging_is_commutative_associative_and_idempotent,
                                      scratch_make, scratch_remove),
      cmocka_unit_test_setup_teardown(a_conflict_names_its_rule, scratch_make, scratch_remove),
      cmocka_unit_test_setup_teardown(an_altered_record_refuses_the_merge, scratch_make,
                                      scratch_remove),
      cmocka_unit_test_setup_teardown(a_cubin_on_either_side_is_kept, scratch_make, scratch_remove),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
