/* Lookup, resume and walks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/db_fixture.h"

static int open_memory(void **state) {
  struct fpl_err err = {0};
  struct fpl_db *db = NULL;
  if (fpl_db_open(":memory:", FPL_DB_CREATE, &db, &err) != FPL_OK)
    return -1;
  *state = db;
  return 0;
}

static int close_memory(void **state) {
  fpl_db_close(*state);
  return 0;
}

static struct fpl_plan find(struct fpl_db *db, const struct fpl_problem *p,
                            const struct fpl_device *d, bool with_cubin) {
  struct fpl_plan out;
  bool found = false;
  struct fpl_err err = {0};
  must(fpl_db_find_plan(db, p, d, with_cubin, &out, &found, &err), &err);
  assert_true(found);
  return out;
}

static void assert_same_problem(const struct fpl_problem *a, const struct fpl_problem *b) {
  char text_a[FPL_PROBLEM_TEXT], text_b[FPL_PROBLEM_TEXT];
  fpl_problem_text(a, text_a);
  fpl_problem_text(b, text_b);
  assert_string_equal(text_a, text_b);
}

static void a_stored_plan_is_found_with_all_its_fields(void **state) {
  struct fpl_db *const db = *state;
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(128);
  const struct fpl_plan stored = fixture_plan(&p, 10);
  fixture_store(db, &p, &d, 10, &stored);
  struct fpl_plan out = find(db, &p, &d, true);
  struct fpl_kernel kernel = {0};
  fixture_kernel(&kernel, 4);
  assert_same_problem(&out.problem, &p);
  assert_true(memcmp(&out.schedule, &stored.schedule, sizeof stored.schedule) == 0);
  assert_string_equal(out.device_name, "h200");
  assert_string_equal(out.reason, stored.reason);
  assert_int_equal(out.provenance, FPL_PROVENANCE_MEASURED);
  assert_true(out.measured_us >= stored.measured_us && out.measured_us <= stored.measured_us);
  assert_true(out.measured_hot_us >= 5 && out.measured_hot_us <= 5);
  assert_true(out.library_us >= 20 && out.library_us <= 20);
  assert_true(out.est_us >= 9 && out.est_us <= 9);
  assert_int_equal(out.n_candidates, FIXTURE_RESULTS);
  assert_int_equal(out.n_ok, 2);
  assert_int_equal(out.created_unix, 1000);
  assert_false(out.is_library);
  assert_string_equal(fpl_environment_get(&out.environment, "driver"), "580.65.06");
  assert_int_equal(out.environment.n_fields, 3);
  assert_int_equal(out.kernel.cubin_bytes, kernel.cubin_bytes);
  assert_true(memcmp(out.kernel.cubin, kernel.cubin, kernel.cubin_bytes) == 0);
  assert_string_equal(out.kernel.sha, kernel.sha);
  assert_string_equal(out.kernel.name, kernel.name);
  assert_string_equal(out.kernel.family, kernel.family);
  assert_string_equal(out.kernel.source_key, kernel.source_key);
  assert_same_maps(&out.kernel, &kernel);
  assert_int_equal(fpl_kernel_grid(&out.kernel, 128), fpl_kernel_grid(&kernel, 128));
  assert_int_equal(fpl_kernel_workspace_bytes(&out.kernel, 128), 8192);
  assert_int_equal(out.kernel.block_threads, 384);
  assert_int_equal(out.kernel.smem_bytes, 200000);
  assert_int_equal(out.kernel.registers, 168);
  fpl_kernel_free(&kernel);
  fpl_plan_free(&out);
  out = find(db, &p, &d, false);
  assert_null(out.kernel.cubin);
  fpl_plan_free(&out);
}

static void an_unknown_shape_or_device_class_is_a_miss(void **state) {
  struct fpl_db *const db = *state;
  struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(128), other = fixture_problem(129);
  const struct fpl_plan plan = fixture_plan(&p, 10);
  fixture_store(db, &p, &d, 10, &plan);
  struct fpl_plan out;
  bool found = true;
  struct fpl_err err = {0};
  must(fpl_db_find_plan(db, &other, &d, true, &out, &found, &err), &err);
  assert_false(found);
  assert_int_equal(out.id, 0);
  d.sms = 114;
  must(fpl_db_find_plan(db, &p, &d, true, &out, &found, &err), &err);
  assert_false(found);
}

static void a_device_is_known_by_its_class_not_its_name(void **state) {
  struct fpl_db *const db = *state;
  const struct fpl_device d = fixture_device("h200"), twin = fixture_device("h200_nvl");
  const struct fpl_problem p = fixture_problem(128);
  const struct fpl_plan plan = fixture_plan(&p, 10);
  fixture_store(db, &p, &d, 10, &plan);
  struct fpl_plan out = find(db, &p, &twin, false);
  assert_string_equal(out.device_name, "h200");
  fpl_plan_free(&out);
}

static void store_at(struct fpl_db *db, const struct fpl_problem *p, const struct fpl_device *d,
                     enum fpl_provenance provenance, int64_t created_unix, double us) {
  struct fpl_plan plan = fixture_plan(p, us);
  plan.provenance = provenance;
  plan.created_unix = created_unix;
  fixture_store(db, p, d, us, &plan);
}

static void the_most_trusted_then_the_newest_plan_answers(void **state) {
  struct fpl_db *const db = *state;
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(128);
  store_at(db, &p, &d, FPL_PROVENANCE_SIMULATED, 900, 1);
  store_at(db, &p, &d, FPL_PROVENANCE_PREDICTED, 500, 2);
  struct fpl_plan out = find(db, &p, &d, false);
  assert_int_equal(out.provenance, FPL_PROVENANCE_PREDICTED);
  fpl_plan_free(&out);
  store_at(db, &p, &d, FPL_PROVENANCE_MEASURED, 300, 3);
  store_at(db, &p, &d, FPL_PROVENANCE_MEASURED, 400, 4);
  store_at(db, &p, &d, FPL_PROVENANCE_MEASURED, 200, 5);
  out = find(db, &p, &d, false);
  assert_int_equal(out.created_unix, 400);
  fpl_plan_free(&out);
}

static void resume_asks_for_a_provenance_or_better(void **state) {
  struct fpl_db *const db = *state;
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(128);
  struct fpl_err err = {0};
  bool has_plan = true;
  must(fpl_db_has_plan(db, &p, &d, FPL_PROVENANCE_PREDICTED, &has_plan, &err), &err);
  assert_false(has_plan);
  store_at(db, &p, &d, FPL_PROVENANCE_PREDICTED, 1, 10);
  must(fpl_db_has_plan(db, &p, &d, FPL_PROVENANCE_PREDICTED, &has_plan, &err), &err);
  assert_true(has_plan);
  must(fpl_db_has_plan(db, &p, &d, FPL_PROVENANCE_MEASURED, &has_plan, &err), &err);
  assert_false(has_plan);
  store_at(db, &p, &d, FPL_PROVENANCE_MEASURED, 1, 10);
  must(fpl_db_has_plan(db, &p, &d, FPL_PROVENANCE_PREDICTED, &has_plan, &err), &err);
  assert_true(has_plan);
}

static void a_problem_without_a_plan_keeps_its_failures(void **state) {
  struct fpl_db *const db = *state;
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(128);
  fixture_store(db, &p, &d, 10, NULL);
  struct fpl_plan out;
  bool found = true;
  struct fpl_err err = {0};
  must(fpl_db_find_plan(db, &p, &d, true, &out, &found, &err), &err);
  assert_false(found);
  int64_t id = 0;
  must(fpl_db_problem_id(db, &p, &id, &err), &err);
  assert_true(id > 0);
}

static void the_library_may_win(void **state) {
  struct fpl_db *const db = *state;
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(128);
  struct fpl_plan plan = fixture_plan(&p, 10);
  plan.is_library = true;
  fixture_store(db, &p, &d, 10, &plan);
  struct fpl_plan out = find(db, &p, &d, true);
  assert_true(out.is_library);
  assert_string_equal(out.kernel.sha, "");
  assert_null(out.kernel.cubin);
  fpl_plan_free(&out);
}

/* Stores the fixture's candidate and its plan with another reduce. */
static void store_reduced(struct fpl_db *db, const struct fpl_problem *p,
                          const struct fpl_device *d, enum fpl_reduce reduce, int64_t created) {
  struct fpl_err err = {0};
  struct fpl_result results[FIXTURE_RESULTS];
  const struct fpl_environment e = fixture_environment();
  struct fpl_plan plan = fixture_plan(p, 10);
  int64_t run = 0;
  fixture_results(results, 10);
  results[1].schedule.reduce = plan.schedule.reduce = (int32_t)reduce;
  plan.created_unix = created;
  must(fpl_db_begin_run(db, 1, "1", "", &run, &err), &err);
  must(fpl_db_store_problem(db, run, p, d, results, FIXTURE_RESULTS, &e, &plan, &err), &err);
  fixture_results_free(results);
}

static void the_newest_deterministic_plan_answers_who_asks_for_one(void **state) {
  struct fpl_db *const db = *state;
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(128);
  struct fpl_err err = {0};
  struct fpl_plan out;
  bool found = true;
  store_reduced(db, &p, &d, FPL_REDUCE_L2, 500);
  store_reduced(db, &p, &d, FPL_REDUCE_DSM_L2, 600);
  must(fpl_db_find_deterministic_plan(db, &p, &d, true, &out, &found, &err), &err);
  assert_false(found);
  store_reduced(db, &p, &d, FPL_REDUCE_NONE, 100);
  store_reduced(db, &p, &d, FPL_REDUCE_DSM, 200);
  must(fpl_db_find_deterministic_plan(db, &p, &d, true, &out, &found, &err), &err);
  assert_true(found && fpl_plan_is_deterministic(&out));
  assert_int_equal(out.created_unix, 200);
  assert_non_null(out.kernel.cubin);
  fpl_plan_free(&out);
  out = find(db, &p, &d, false);
  assert_int_equal(out.created_unix, 600);
  assert_false(fpl_plan_is_deterministic(&out));
  out.is_library = true;
  out.schedule.reduce = FPL_REDUCE_NONE;
  assert_false(fpl_plan_is_deterministic(&out));
  fpl_plan_free(&out);
}

struct usable {
  int n;
  int64_t created_unix[8], ids[8];
  size_t cubin_bytes[8];
  char device_class_key[FPL_KEY_HEX];
};

static enum fpl_status note_usable(void *context, const struct fpl_plan *plan,
                                   const char *device_class_key, struct fpl_err *err) {
  (void)err;
  struct usable *const seen = context;
  assert_true(seen->n < 8);
  assert_null(plan->kernel.cubin);
  seen->created_unix[seen->n] = plan->created_unix;
  seen->cubin_bytes[seen->n] = plan->kernel.cubin_bytes;
  seen->ids[seen->n++] = plan->id;
  snprintf(seen->device_class_key, sizeof seen->device_class_key, "%s", device_class_key);
  return FPL_OK;
}

static void usable_plans_come_in_the_order_in_which_they_answer(void **state) {
  struct fpl_db *const db = *state;
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(128);
  struct fpl_err err = {0};
  struct usable seen = {0};
  char key[FPL_KEY_HEX];
  store_reduced(db, &p, &d, FPL_REDUCE_L2, 100);
  store_reduced(db, &p, &d, FPL_REDUCE_NONE, 300);
  store_reduced(db, &p, &d, FPL_REDUCE_L2, 200);
  must(fpl_db_each_usable_plan(db, note_usable, &seen, &err), &err);
  assert_int_equal(seen.n, 3);
  fpl_device_class_key(&d, key);
  assert_string_equal(seen.device_class_key, key);
  struct fpl_plan out = find(db, &p, &d, true);
  assert_int_equal(seen.ids[0], out.id);
  assert_int_equal(seen.cubin_bytes[0], out.kernel.cubin_bytes);
  fpl_plan_free(&out);
  assert_int_equal(seen.created_unix[0], 300);
  assert_int_equal(seen.created_unix[1], 200);
  assert_int_equal(seen.created_unix[2], 100);
  bool found = false;
  must(fpl_db_find_plan_by_id(db, seen.ids[2], &out, &found, &err), &err);
  assert_true(found);
  assert_int_equal(out.created_unix, 100);
  assert_non_null(out.kernel.cubin);
  fpl_plan_free(&out);
  must(fpl_db_find_plan_by_id(db, 999, &out, &found, &err), &err);
  assert_false(found);
}

static enum fpl_status note_device(void *context, const struct fpl_device *device,
                                   struct fpl_err *err) {
  (void)err;
  fpl_text_append(context, "%s %lld %lld\n", device->name, (long long)device->sms,
                  (long long)device->max_cluster);
  return FPL_OK;
}

static void the_device_class_of_the_newest_plan_comes_first(void **state) {
  struct fpl_db *const db = *state;
  const struct fpl_problem p = fixture_problem(128);
  struct fpl_device d = fixture_device("older");
  struct fpl_err err = {0};
  struct fpl_text text = {0};
  store_reduced(db, &p, &d, FPL_REDUCE_L2, 100);
  snprintf(d.name, sizeof d.name, "newer");
  d.sms = 114;
  store_reduced(db, &p, &d, FPL_REDUCE_L2, 200);
  must(fpl_db_each_device_class(db, note_device, &text, &err), &err);
  assert_string_equal(text.text, "newer 114 16\nolder 132 16\n");
  fpl_text_free(&text);
}

static void one_run_may_store_a_problem_twice(void **state) {
  struct fpl_db *const db = *state;
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(128);
  const struct fpl_environment e = fixture_environment();
  struct fpl_err err = {0};
  int64_t run = 0;
  must(fpl_db_begin_run(db, 1, "1", "", &run, &err), &err);
  for (int attempt = 1; attempt <= 2; attempt++) {
    struct fpl_result results[FIXTURE_RESULTS];
    fixture_results(results, 10 * attempt);
    const struct fpl_plan plan = fixture_plan(&p, 10 * attempt);
    must(fpl_db_store_problem(db, run, &p, &d, results, FIXTURE_RESULTS, &e, &plan, &err), &err);
    fixture_results_free(results);
  }
  struct fpl_plan out = find(db, &p, &d, false);
  assert_true(out.measured_us > 20);
  fpl_plan_free(&out);
}

struct walk {
  int n;
  char text[1024];
  struct fpl_db_candidate candidates[8];
};

static enum fpl_status note_plan(void *context, const struct fpl_plan *plan, struct fpl_err *err) {
  (void)err;
  struct walk *const w = context;
  const size_t used = strlen(w->text);
  snprintf(w->text + used, sizeof w->text - used, "%s%s m=%lld l2=%s t=%lld", w->n++ ? "; " : "",
           fpl_kind_names[plan->problem.kind], (long long)plan->problem.m, plan->device_name,
           (long long)plan->created_unix);
  return FPL_OK;
}

static void a_walk_gives_each_answer_once_in_order(void **state) {
  struct fpl_db *const db = *state;
  struct fpl_device d = fixture_device("h200");
  const int64_t ms[] = {256, 1, 128};
  for (int i = 0; i < 3; i++) {
    const struct fpl_problem p = fixture_problem(ms[i]);
    store_at(db, &p, &d, FPL_PROVENANCE_MEASURED, 1, 10);
    store_at(db, &p, &d, FPL_PROVENANCE_MEASURED, 2, 10);
  }
  struct fpl_err err = {0};
  struct fpl_problem gated;
  must(fpl_problem_make(FPL_KIND_GATED_FFN, FPL_DTYPE_F16, FPL_ACT_SILU, 64, 3072, 768, 768, NULL,
                        &gated, &err),
       &err);
  store_at(db, &gated, &d, FPL_PROVENANCE_MEASURED, 3, 10);
  struct walk w = {0};
  must(fpl_db_each_plan(db, note_plan, &w, &err), &err);
  assert_string_equal(w.text, "gated_ffn m=64 l2=h200 t=3; gemm_chain m=1 l2=h200 t=2; "
                              "gemm_chain m=128 l2=h200 t=2; gemm_chain m=256 l2=h200 t=2");
}

static enum fpl_status stop_walk(void *context, const struct fpl_plan *plan, struct fpl_err *err) {
  (void)plan;
  ++*(int *)context;
  return fpl_fail(err, FPL_IO, "stopped");
}

static void a_visitor_can_end_a_walk(void **state) {
  struct fpl_db *const db = *state;
  const struct fpl_device d = fixture_device("h200");
  for (int64_t m = 1; m <= 2; m++) {
    const struct fpl_problem p = fixture_problem(m);
    store_at(db, &p, &d, FPL_PROVENANCE_MEASURED, 1, 10);
  }
  int n = 0;
  struct fpl_err err = {0};
  assert_int_equal(fpl_db_each_plan(db, stop_walk, &n, &err), FPL_IO);
  assert_string_equal(err.text, "stopped");
  assert_int_equal(n, 1);
}

static enum fpl_status note_candidate(void *context, const struct fpl_db_candidate *candidate,
                                      struct fpl_err *err) {
  (void)err;
  struct walk *const w = context;
  assert_true(w->n < 8);
  w->candidates[w->n++] = *candidate;
  return FPL_OK;
}

static void candidates_of_a_problem_are_ranked(void **state) {
  struct fpl_db *const db = *state;
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(128);
  const struct fpl_plan plan = fixture_plan(&p, 10);
  fixture_store(db, &p, &d, 10, &plan);
  struct fpl_err err = {0};
  int64_t id = 0;
  must(fpl_db_problem_id(db, &p, &id, &err), &err);
  struct walk w = {0};
  must(fpl_db_each_candidate(db, id, note_candidate, &w, &err), &err);
  assert_int_equal(w.n, FIXTURE_RESULTS);
  const struct fpl_db_candidate *const best = &w.candidates[0];
  assert_true(best->is_plan);
  assert_int_equal(best->result.schedule.stages, 4);
  assert_int_equal(best->result.method, FPL_METHOD_CUPTI);
  assert_int_equal(best->result.stats[FPL_COLD].n, 3);
  assert_true(best->result.stats[FPL_HOT].least_us >= 5 && best->result.stats[FPL_HOT].n == 3);
  assert_true(best->result.verification.was_exact_ok && best->result.verification.was_in_bounds);
  assert_int_equal(best->result.kernel.units_per_row, 12);
  assert_true(w.candidates[1].result.is_library);
  assert_string_equal(w.candidates[1].result.reason, "algorithm 13");
  assert_int_equal(w.candidates[1].result.stats[FPL_HOT].n, 0);
  assert_int_equal(w.candidates[2].result.outcome, FPL_OUTCOME_COMPILE_ERROR);
  assert_string_equal(w.candidates[2].result.reason, "spills 16 bytes");
  assert_true(isnan(w.candidates[2].result.verification.relative_error));
  assert_int_equal(w.candidates[3].result.outcome, FPL_OUTCOME_PENDING);
  assert_int_equal(w.candidates[3].result.method, FPL_METHOD_NONE);
}

static void a_problem_is_found_by_number_key_and_beginning(void **state) {
  struct fpl_db *const db = *state;
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(128);
  fixture_store(db, &p, &d, 10, NULL);
  struct fpl_err err = {0};
  char key[FPL_KEY_HEX];
  fpl_problem_key(&p, key);
  char number[24];
  int64_t id = 0;
  must(fpl_db_problem_id(db, &p, &id, &err), &err);
  snprintf(number, sizeof number, "%lld", (long long)id);
  char beginning[8];
  snprintf(beginning, sizeof beginning, "%.6s", key);
  const char *const good[] = {number, key, beginning};
  for (int i = 0; i < 3; i++) {
    struct fpl_problem out;
    int64_t out_id = 0;
    bool found = false;
    must(fpl_db_find_problem(db, good[i], &out_id, &out, &found, &err), &err);
    assert_true(found);
    assert_int_equal(out_id, id);
    assert_same_problem(&out, &p);
  }
  char short_key[4];
  snprintf(short_key, sizeof short_key, "%.3s", key);
  const char *const bad[] = {"", "999", short_key, "gggggggg", "%", "'; DROP TABLE plans; --"};
  for (int i = 0; i < 6; i++) {
    struct fpl_problem out;
    int64_t out_id = 0;
    bool found = true;
    must(fpl_db_find_problem(db, bad[i], &out_id, &out, &found, &err), &err);
    assert_false(found);
  }
}

static void lookups_reuse_their_statements(void **state) {
  struct fpl_db *const db = *state;
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(128);
  const struct fpl_plan plan = fixture_plan(&p, 10);
  fixture_store(db, &p, &d, 10, &plan);
  struct fpl_plan out = find(db, &p, &d, false);
  fpl_plan_free(&out);
  const sqlite3_stmt *const statement = db->statements[FPL_QUERY_FIND_PLAN];
  const int64_t used_bytes = sqlite3_memory_used();
  for (int i = 0; i < 1000; i++) {
    out = find(db, &p, &d, false);
    fpl_plan_free(&out);
  }
  assert_ptr_equal(statement, db->statements[FPL_QUERY_FIND_PLAN]);
  assert_true(sqlite3_memory_used() <= used_bytes + 4096);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_stored_plan_is_found_with_all_its_fields, open_memory,
                                      close_memory),
      cmocka_unit_test_setup_teardown(an_unknown_shape_or_device_class_is_a_miss, open_memory,
                                      close_memory),
      cmocka_unit_test_setup_teardown(a_device_is_known_by_its_class_not_its_name, open_memory,
                                      close_memory),
      cmocka_unit_test_setup_teardown(the_most_trusted_then_the_newest_plan_answers, open_memory,
                                      close_memory),
      cmocka_unit_test_setup_teardown(resume_asks_for_a_provenance_or_better, open_memory,
                                      close_memory),
      cmocka_unit_test_setup_teardown(a_problem_without_a_plan_keeps_its_failures, open_memory,
                                      close_memory),
      cmocka_unit_test_setup_teardown(the_library_may_win, open_memory, close_memory),
      cmocka_unit_test_setup_teardown(the_newest_deterministic_plan_answers_who_asks_for_one,
                                      open_memory, close_memory),
      cmocka_unit_test_setup_teardown(usable_plans_come_in_the_order_in_which_they_answer,
                                      open_memory, close_memory),
      cmocka_unit_test_setup_teardown(the_device_class_of_the_newest_plan_comes_first, open_memory,
                                      close_memory),
      cmocka_unit_test_setup_teardown(one_run_may_store_a_problem_twice, open_memory, close_memory),
      cmocka_unit_test_setup_teardown(a_walk_gives_each_answer_once_in_order, open_memory,
                                      close_memory),
      cmocka_unit_test_setup_teardown(a_visitor_can_end_a_walk, open_memory, close_memory),
      cmocka_unit_test_setup_teardown(candidates_of_a_problem_are_ranked, open_memory,
                                      close_memory),
      cmocka_unit_test_setup_teardown(a_problem_is_found_by_number_key_and_beginning, open_memory,
                                      close_memory),
      cmocka_unit_test_setup_teardown(lookups_reuse_their_statements, open_memory, close_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
