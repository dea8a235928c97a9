/* Envelopes and regrets from measurements, and the log of misses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/db_fixture.h"

static int memory_open(void **state) {
  *state = open_or_fail(":memory:", FPL_DB_CREATE);
  return 0;
}

static int memory_close(void **state) {
  fpl_db_close(*state);
  return 0;
}

/* Stores a problem for which schedules of 2, 3, ... stages were measured at these times (0: not);
 * the fastest wins. The samples' median is the time itself. */
static void store_times(struct fpl_db *db, const struct fpl_problem *p, const double *times,
                        int n) {
  struct fpl_result results[4] = {{.is_library = false}};
  struct fpl_err err = {0};
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_environment e = fixture_environment();
  int64_t run = 0;
  int n_results = 0, best = 0;
  for (int i = 0; i < n; i++) {
    if (times[i] == 0)
      continue;
    struct fpl_result *const r = &results[n_results];
    r->schedule = fixture_schedule(2 + i);
    r->outcome = FPL_OUTCOME_OK;
    r->method = FPL_METHOD_CUPTI;
    fixture_samples(r, FPL_COLD, times[i] - 0.1);
    if (r->stats[FPL_COLD].median_us < results[best].stats[FPL_COLD].median_us)
      best = n_results;
    n_results++;
  }
  struct fpl_plan plan = fixture_plan(p, results[best].stats[FPL_COLD].median_us);
  plan.schedule = results[best].schedule;
  must(fpl_db_begin_run(db, 1, "1", "", &run, &err), &err);
  must(fpl_db_store_problem(db, run, p, &d, results, n_results, &e, &plan, &err), &err);
  for (int i = 0; i < n_results; i++)
    fpl_result_free(&results[i]);
}

static struct fpl_plan refreshed_plan(struct fpl_db *db, const struct fpl_problem *p) {
  struct fpl_err err = {0};
  const struct fpl_device d = fixture_device("h200");
  struct fpl_plan plan;
  bool is_found = false;
  must(fpl_db_refresh(db, &err), &err);
  must(fpl_db_find_plan(db, p, &d, false, &plan, &is_found, &err), &err);
  assert_true(is_found);
  return plan;
}

static void assert_envelope(struct fpl_db *db, int64_t m, int64_t low, int64_t high) {
  const struct fpl_problem p = fixture_problem(m);
  const struct fpl_plan plan = refreshed_plan(db, &p);
  assert_int_equal(plan.m_low, low);
  assert_int_equal(plan.m_high, high);
}

static void envelopes_meet_where_the_times_cross(void **state) {
  struct fpl_db *const db = *state;
  const struct fpl_problem low = fixture_problem(64), high = fixture_problem(128);
  store_times(db, &low, (const double[]){10, 12}, 2);
  assert_envelope(db, 64, 64, 64);
  store_times(db, &high, (const double[]){25, 20}, 2);
  /* ln 1.2 / (ln 1.2 + ln 1.25) of the way from ln 64 to ln 128: 87.4 */
  assert_envelope(db, 64, 64, 87);
  assert_envelope(db, 128, 88, 128);
}

static void one_schedule_for_both_divides_in_the_middle(void **state) {
  struct fpl_db *const db = *state;
  const struct fpl_problem low = fixture_problem(64), high = fixture_problem(128);
  store_times(db, &low, (const double[]){10}, 1);
  store_times(db, &high, (const double[]){20}, 1);
  assert_envelope(db, 64, 64, 90);
  assert_envelope(db, 128, 91, 128);
}

static void without_a_measurement_at_both_m_there_is_no_envelope(void **state) {
  struct fpl_db *const db = *state;
  const struct fpl_problem low = fixture_problem(64), high = fixture_problem(128);
  store_times(db, &low, (const double[]){10, 12}, 2);
  store_times(db, &high, (const double[]){0, 20}, 2);
  assert_envelope(db, 64, 64, 64);
  assert_envelope(db, 128, 128, 128);
}

static void anchors_too_far_apart_say_nothing_of_what_lies_between(void **state) {
  struct fpl_db *const db = *state;
  const struct fpl_problem low = fixture_problem(64), high = fixture_problem(257);
  store_times(db, &low, (const double[]){10}, 1);
  store_times(db, &high, (const double[]){20}, 1);
  assert_envelope(db, 64, 64, 64);
}

static struct fpl_regret regret_of(struct fpl_db *db, int regret_class) {
  struct fpl_err err = {0};
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(64);
  const struct fpl_wanted wanted = {.problem = &p, .device = &d};
  const struct fpl_source source = fpl_db_source(db);
  struct fpl_regret out;
  must(fpl_db_refresh(db, &err), &err);
  must(source.regret(source.self, &wanted, regret_class, &out, &err), &err);
  return out;
}

static void regrets_are_what_near_winners_lost(void **state) {
  struct fpl_db *const db = *state;
  /* m = 64 ... 73, all near one another: 2 stages win for the first, 3 for the others, where 2 lose
   * 10, 20, ... 90 %. */
  for (int i = 0; i < 10; i++) {
    const struct fpl_problem p = fixture_problem(64 + i);
    const double times[] = {i == 0 ? 10 : 20 * (1 + 0.1 * i), 20};
    store_times(db, &p, times, i == 0 ? 1 : 2);
  }
  const struct fpl_regret near = regret_of(db, 0);
  /* 9 losses of the first winner for the others; 3 stages, which won 9 times, lost nothing in 8
   * others of each. */
  assert_int_equal(near.n, 9 + 9 * 8);
  assert_true(near.low == 0 && near.expected == 0);
  assert_true(near.high > 0.1 && near.high <= 0.9 + 1e-9);
  assert_int_equal(regret_of(db, 5).n, 0);
}

static void too_few_losses_are_no_evidence(void **state) {
  struct fpl_db *const db = *state;
  for (int i = 0; i < 3; i++) {
    const struct fpl_problem p = fixture_problem(64 + i);
    store_times(db, &p, (const double[]){10}, 1);
  }
  assert_int_equal(regret_of(db, 0).n, 0); /* 6 */
}

static enum fpl_status collect_miss(void *context, const struct fpl_miss *miss,
                                    struct fpl_err *err) {
  (void)err;
  char text[FPL_PROBLEM_TEXT];
  fpl_problem_text(&miss->problem, text);
  fpl_text_append(context, "%s %s %s %lld %lld-%lld;", strstr(text, "m="), miss->device_name,
                  fpl_miss_names[miss->cause], (long long)miss->n, (long long)miss->first_unix,
                  (long long)miss->last_unix);
  return FPL_OK;
}

static void misses_are_counted_and_listed_most_often_first(void **state) {
  struct fpl_db *const db = *state;
  struct fpl_err err = {0};
  struct fpl_text text = {0};
  const struct fpl_problem a = fixture_problem(1), b = fixture_problem(2);
  must(fpl_db_note_miss(db, &a, "h200", FPL_MISS_NO_PLAN, 100, &err), &err);
  must(fpl_db_note_miss(db, &b, "h200", FPL_MISS_NO_PLAN, 110, &err), &err);
  must(fpl_db_note_miss(db, &b, "h200", FPL_MISS_STALE, 120, &err), &err);
  must(fpl_db_note_miss(db, &b, "other", FPL_MISS_STALE, 130, &err), &err);
  must(fpl_db_each_miss(db, "h200", collect_miss, &text, &err), &err);
  assert_string_equal(text.text, "m=2 n=3072 k=768 l=768 dtype=f16 act=relu h200 stale 2 110-120;"
                                 "m=1 n=3072 k=768 l=768 dtype=f16 act=relu h200 miss 1 100-100;");
  fpl_text_free(&text);
  must(fpl_db_clear_misses(db, "h200", &err), &err);
  must(fpl_db_each_miss(db, "", collect_miss, &text, &err), &err);
  assert_string_equal(text.text,
                      "m=2 n=3072 k=768 l=768 dtype=f16 act=relu other stale 1 130-130;");
  fpl_text_free(&text);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, memory_open, memory_close)
  const struct CMUnitTest tests[] = {TEST(envelopes_meet_where_the_times_cross),
                                     TEST(one_schedule_for_both_divides_in_the_middle),
                                     TEST(without_a_measurement_at_both_m_there_is_no_envelope),
                                     TEST(anchors_too_far_apart_say_nothing_of_what_lies_between),
                                     TEST(regrets_are_what_near_winners_lost),
                                     TEST(too_few_losses_are_no_evidence),
                                     TEST(misses_are_counted_and_listed_most_often_first)};
#undef TEST
  return cmocka_run_group_tests(tests, NULL, NULL);
}
