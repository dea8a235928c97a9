/* The verdicts of a diff, at their edges. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/db_fixture.h"

/* A database with one plan whose winner has this cold median and interval. */
static struct fpl_db *with_plan(int64_t m, enum fpl_provenance provenance, double us, double low_us,
                                double high_us, double est_us) {
  struct fpl_db *const db = open_or_fail(":memory:", FPL_DB_CREATE);
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(m);
  const struct fpl_environment e = fixture_environment();
  struct fpl_result results[FIXTURE_RESULTS];
  fixture_results(results, us);
  struct fpl_stats *const cold = &results[1].stats[FPL_COLD];
  cold->median_us = us;
  cold->low_us = low_us;
  cold->high_us = high_us;
  struct fpl_plan plan = fixture_plan(&p, us);
  plan.provenance = provenance;
  plan.measured_us = provenance == FPL_PROVENANCE_MEASURED ? us : 0;
  plan.est_us = est_us;
  struct fpl_err err = {0};
  int64_t run = 0;
  must(fpl_db_begin_run(db, 7, "1.0", "tune x.yaml", &run, &err), &err);
  must(fpl_db_store_problem(db, run, &p, &d, results, FIXTURE_RESULTS, &e, &plan, &err), &err);
  fixture_results_free(results);
  return db;
}

struct side {
  enum fpl_provenance provenance;
  double us, low_us, high_us, est_us;
};

static struct fpl_diff_row diff_one(const struct side *a, const struct side *b,
                                    double least_change) {
  struct fpl_db *const x = with_plan(128, a->provenance, a->us, a->low_us, a->high_us, a->est_us);
  struct fpl_db *const y = with_plan(128, b->provenance, b->us, b->low_us, b->high_us, b->est_us);
  struct fpl_diff d;
  struct fpl_err err = {0};
  must(fpl_db_diff(x, y, least_change, &d, &err), &err);
  assert_int_equal(d.n_rows, 1);
  assert_int_equal(d.counts[d.rows[0].verdict], 1);
  const struct fpl_diff_row row = d.rows[0];
  fpl_diff_free(&d);
  fpl_db_close(x);
  fpl_db_close(y);
  return row;
}

static const struct {
  struct side a, b;
  double least_change;
  enum fpl_diff_verdict verdict;
  enum fpl_diff_basis basis;
} cases[] = {
    /* apart, and far enough */
    {{FPL_PROVENANCE_MEASURED, 10, 9.9, 10.1, 1},
     {FPL_PROVENANCE_MEASURED, 9, 8.9, 9.1, 1},
     0.03,
     FPL_DIFF_FAST,
     FPL_DIFF_BY_MEASURED},
    {{FPL_PROVENANCE_MEASURED, 10, 9.9, 10.1, 1},
     {FPL_PROVENANCE_MEASURED, 11, 10.9, 11.1, 1},
     0.03,
     FPL_DIFF_SLOW,
     FPL_DIFF_BY_MEASURED},
    /* exactly the least change: 8 to 9 is 1/8 */
    {{FPL_PROVENANCE_MEASURED, 8, 7.9, 8.1, 1},
     {FPL_PROVENANCE_MEASURED, 9, 8.9, 9.1, 1},
     0.125,
     FPL_DIFF_SLOW,
     FPL_DIFF_BY_MEASURED},
    {{FPL_PROVENANCE_MEASURED, 9, 8.9, 9.1, 1},
     {FPL_PROVENANCE_MEASURED, 8, 7.9, 8.1, 1},
     0.125,
     FPL_DIFF_FAST,
     FPL_DIFF_BY_MEASURED},
    {{FPL_PROVENANCE_MEASURED, 8, 7.9, 8.1, 1},
     {FPL_PROVENANCE_MEASURED, 9, 8.9, 9.1, 1},
     0.126,
     FPL_DIFF_SAME,
     FPL_DIFF_BY_MEASURED},
    /* overlapping, narrow and wide; touching is overlapping */
    {{FPL_PROVENANCE_MEASURED, 10, 9.9, 10.1, 1},
     {FPL_PROVENANCE_MEASURED, 10.1, 10.0, 10.2, 1},
     0.03,
     FPL_DIFF_SAME,
     FPL_DIFF_BY_MEASURED},
    {{FPL_PROVENANCE_MEASURED, 10, 9.9, 10.1, 1},
     {FPL_PROVENANCE_MEASURED, 10.1, 9.0, 12.0, 1},
     0.03,
     FPL_DIFF_AMBIGUOUS,
     FPL_DIFF_BY_MEASURED},
    {{FPL_PROVENANCE_MEASURED, 10, 8.0, 11.0, 1},
     {FPL_PROVENANCE_MEASURED, 13, 11.0, 14.0, 1},
     0.03,
     FPL_DIFF_AMBIGUOUS,
     FPL_DIFF_BY_MEASURED},
    /* no interval was stored */
    {{FPL_PROVENANCE_MEASURED, 10, 0, 0, 1},
     {FPL_PROVENANCE_MEASURED, 20, 19.9, 20.1, 1},
     0.03,
     FPL_DIFF_AMBIGUOUS,
     FPL_DIFF_BY_MEASURED},
    /* predictions, of one side or both */
    {{FPL_PROVENANCE_PREDICTED, 10, 9.9, 10.1, 4},
     {FPL_PROVENANCE_PREDICTED, 10, 9.9, 10.1, 5},
     0.03,
     FPL_DIFF_SLOW,
     FPL_DIFF_BY_PREDICTED},
    {{FPL_PROVENANCE_PREDICTED, 10, 9.9, 10.1, 4},
     {FPL_PROVENANCE_MEASURED, 20, 19.9, 20.1, 3},
     0.03,
     FPL_DIFF_FAST,
     FPL_DIFF_BY_PREDICTED},
    {{FPL_PROVENANCE_PREDICTED, 10, 9.9, 10.1, 4},
     {FPL_PROVENANCE_PREDICTED, 10, 9.9, 10.1, 4},
     0,
     FPL_DIFF_SAME,
     FPL_DIFF_BY_PREDICTED},
    {{FPL_PROVENANCE_PREDICTED, 10, 9.9, 10.1, 4},
     {FPL_PROVENANCE_MEASURED, 20, 19.9, 20.1, 0},
     0.03,
     FPL_DIFF_AMBIGUOUS,
     FPL_DIFF_BY_NONE},
};

static void verdicts_follow_the_rule(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const struct fpl_diff_row row = diff_one(&cases[i].a, &cases[i].b, cases[i].least_change);
    if (row.verdict != cases[i].verdict || row.basis != cases[i].basis)
      fail_msg("case %zu: %s by %s", i, fpl_diff_verdict_names[row.verdict],
               fpl_diff_basis_names[row.basis]);
  }
}

static void what_one_side_lacks_is_added_or_removed(void **state) {
  (void)state;
  struct fpl_db *const a = with_plan(64, FPL_PROVENANCE_MEASURED, 10, 9, 11, 1);
  struct fpl_db *const b = with_plan(128, FPL_PROVENANCE_MEASURED, 10, 9, 11, 1);
  struct fpl_diff d;
  struct fpl_err err = {0};
  must(fpl_db_diff(a, b, 0.03, &d, &err), &err);
  assert_int_equal(d.n_rows, 2);
  assert_int_equal(d.counts[FPL_DIFF_ADDED], 1);
  assert_int_equal(d.counts[FPL_DIFF_REMOVED], 1);
  for (size_t i = 0; i < 2; i++) {
    const struct fpl_diff_row *const r = &d.rows[i];
    assert_int_equal(r->verdict, r->a ? FPL_DIFF_REMOVED : FPL_DIFF_ADDED);
    assert_non_null(strstr((r->a ? r->a : r->b)->problem, r->a ? "m=64 " : "m=128 "));
  }
  fpl_diff_free(&d);
  must(fpl_db_diff(a, a, 0.03, &d, &err), &err);
  assert_int_equal(d.n_rows, 1);
  assert_ptr_equal(d.rows[0].a, &d.a[0]);
  fpl_diff_free(&d);
  fpl_db_close(a);
  fpl_db_close(b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(verdicts_follow_the_rule),
      cmocka_unit_test(what_one_side_lacks_is_added_or_removed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
