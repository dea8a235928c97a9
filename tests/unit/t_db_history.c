/* Stored plans: their order, and the answer at any time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/db_fixture.h"

/* Plans of one problem: two device classes, equal times, all provenances, some not promoted. */
static struct fpl_db *filled(void) {
  struct fpl_db *const db = open_or_fail(":memory:", FPL_DB_CREATE);
  const struct fpl_problem p = fixture_problem(128), q = fixture_problem(64);
  static const int created[] = {1000, 3000, 2000, 2000, 3000, 2000, 1000, 4000};
  for (int i = 0; i < 8; i++) {
    struct fpl_device d = fixture_device("h200");
    d.sms -= i % 2;
    struct fpl_plan plan = fixture_plan(&p, 10 + i);
    plan.created_unix = created[i];
    plan.provenance = (enum fpl_provenance)(i / 2 % 3);
    plan.is_library = i % 3 == 0;
    fixture_store(db, &p, &d, 10 + i, &plan);
    fixture_store(db, &p, &d, 10 + i, &plan);
    fixture_store(db, &q, &d, 10 + i, &plan);
  }
  assert_int_equal(sqlite3_exec(db->handle,
                                "UPDATE plans SET is_promoted = 0 WHERE id % 5 = 0;"
                                "UPDATE plans SET flag = 'x: y' WHERE id % 7 = 0",
                                NULL, NULL, NULL),
                   SQLITE_OK);
  return db;
}

static void plans_come_oldest_first_and_the_answer_last_of_its_time(void **state) {
  (void)state;
  struct fpl_db *const db = filled();
  const struct fpl_problem p = fixture_problem(128);
  struct fpl_stored_plan *plans = NULL;
  size_t n = 0;
  struct fpl_err err = {0};
  must(fpl_db_stored_plans(db, &p, INT64_MAX, false, &plans, &n, &err), &err);
  assert_int_equal(n, 16);
  for (size_t i = 1; i < n; i++) {
    const struct fpl_stored_plan *const a = &plans[i - 1], *const b = &plans[i];
    assert_string_equal(a->problem, b->problem);
    assert_true(fpl_stored_plan_compare(a, b) <= 0);
    if (fpl_stored_plan_compare(a, b) < 0)
      continue;
    assert_true(a->created_unix <= b->created_unix);
    if (a->created_unix == b->created_unix) {
      assert_true(a->provenance >= b->provenance);
      if (a->provenance == b->provenance)
        assert_true(strcmp(a->run_key, b->run_key) > 0);
    }
  }
  assert_string_equal(plans[0].driver, "580.65.06");
  assert_string_equal(plans[0].nvrtc, "13.0");
  assert_string_equal(plans[0].tool_version, "1.0");
  free(plans);
  fpl_db_close(db);
}

/* The answers at a time are those of a database whose later plans are taken out. */
static void the_answer_as_of_a_time_is_the_one_there_was(void **state) {
  (void)state;
  struct fpl_db *const db = filled();
  struct fpl_err err = {0};
  for (int64_t as_of = 4000; as_of >= 500; as_of -= 500) {
    struct fpl_stored_plan *then = NULL, *now = NULL;
    size_t n_then = 0, n_now = 0;
    must(fpl_db_stored_plans(db, NULL, as_of, true, &then, &n_then, &err), &err);
    char sql[128];
    snprintf(sql, sizeof sql, "DELETE FROM plans WHERE created_unix > %lld", (long long)as_of);
    assert_int_equal(sqlite3_exec(db->handle, sql, NULL, NULL, NULL), SQLITE_OK);
    must(fpl_db_stored_plans(db, NULL, INT64_MAX, true, &now, &n_now, &err), &err);
    assert_int_equal(n_then, n_now);
    assert_int_equal(n_then > 0, as_of >= 1000);
    for (size_t i = 0; i < n_now; i++) {
      assert_true(now[i].is_answer && then[i].is_answer);
      assert_string_equal(then[i].run_key, now[i].run_key);
      assert_int_equal(then[i].created_unix, now[i].created_unix);
      /* It is the one that a lookup finds. */
      struct fpl_problem p;
      must(fpl_problem_parse(now[i].problem, &p, &err), &err);
      struct fpl_device d = fixture_device("h200");
      d.sms -= strstr(now[i].device_class, "sms=131") != NULL;
      struct fpl_plan found;
      bool is_found = false;
      must(fpl_db_find_plan(db, &p, &d, false, &found, &is_found, &err), &err);
      assert_true(is_found);
      assert_int_equal(found.is_library, now[i].is_library);
      assert_int_equal(found.created_unix, now[i].created_unix);
      assert_int_equal(found.provenance, now[i].provenance);
      fpl_plan_free(&found);
    }
    free(then);
    free(now);
  }
  fpl_db_close(db);
}

static enum fpl_status count_plan(void *context, const struct fpl_plan *plan, struct fpl_err *err) {
  (void)plan;
  (void)err;
  ++*(size_t *)context;
  return FPL_OK;
}

static void both_walks_as_of_a_time_agree(void **state) {
  (void)state;
  struct fpl_db *const db = filled();
  struct fpl_err err = {0};
  for (int64_t as_of = 500; as_of <= 4000; as_of += 500) {
    struct fpl_stored_plan *plans = NULL;
    size_t n_stored = 0, n_walked = 0;
    must(fpl_db_stored_plans(db, NULL, as_of, true, &plans, &n_stored, &err), &err);
    must(fpl_db_each_plan_as_of(db, as_of, count_plan, &n_walked, &err), &err);
    assert_int_equal(n_stored, n_walked);
    free(plans);
  }
  fpl_db_close(db);
}

static void an_unknown_problem_has_none(void **state) {
  (void)state;
  struct fpl_db *const db = filled();
  const struct fpl_problem p = fixture_problem(7);
  struct fpl_stored_plan *plans = NULL;
  size_t n = 1;
  struct fpl_err err = {0};
  must(fpl_db_stored_plans(db, &p, INT64_MAX, false, &plans, &n, &err), &err);
  assert_int_equal(n, 0);
  assert_null(plans);
  must(fpl_db_stored_plans(NULL, &p, INT64_MAX, false, &plans, &n, &err), &err);
  assert_null(plans);
  fpl_db_close(db);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(plans_come_oldest_first_and_the_answer_last_of_its_time),
      cmocka_unit_test(the_answer_as_of_a_time_is_the_one_there_was),
      cmocka_unit_test(both_walks_as_of_a_time_agree),
      cmocka_unit_test(an_unknown_problem_has_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
