/* One answer whoever gives it: two databases with the same contents in another order of rows, and
 * their snapshots are asked the same random questions. Also: damaged snapshots. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/db_fixture.h"

#include "db/snapshot.h"

enum { N_PLANS = 300, N_QUESTIONS = 4000 };

static uint64_t random_state = 1;
static int draw(int n) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (int)((random_state >> 33) % (uint64_t)n);
}

static struct fpl_problem draw_problem(void) {
  static const int64_t ms[] = {1, 2, 16, 64, 96, 128, 192, 256, 1024};
  static const int64_t ns[] = {1024, 2048, 2304, 3072}, ks[] = {512, 768, 1024};
  struct fpl_problem p;
  struct fpl_err err = {0};
  const struct fpl_conv conv = {1 + draw(2), 64 * (1 + draw(2)), 14 << draw(2), 14,
                                draw(2) ? 3 : 1};
  const enum fpl_kind kind = draw(4) ? FPL_KIND_GEMM_CHAIN : FPL_KIND_CONV_CHAIN;
  const bool is_conv = kind == FPL_KIND_CONV_CHAIN;
  must(fpl_problem_make(kind, draw(3) ? FPL_DTYPE_F16 : FPL_DTYPE_BF16, FPL_ACT_RELU,
                        is_conv ? 0 : ms[draw(9)] + draw(2), is_conv ? 128 : ns[draw(4)],
                        is_conv ? 0 : ks[draw(3)], is_conv ? 64 : ks[draw(3)],
                        is_conv ? &conv : NULL, &p, &err),
       &err);
  return p;
}

static void store_plan(struct fpl_db *db, const struct fpl_device *devices) {
  const struct fpl_problem p = draw_problem();
  const struct fpl_device *const d = &devices[draw(2)];
  struct fpl_result results[FIXTURE_RESULTS];
  struct fpl_err err = {0};
  fixture_results(results, 10 + draw(3));
  if (draw(3) == 0) {
    free(results[1].kernel.cubin);
    results[1].kernel.cubin = NULL;
    results[1].kernel.cubin_bytes = 0;
    memset(results[1].kernel.sha, 'b', FPL_HASH_HEX - 1);
  }
  struct fpl_plan plan = fixture_plan(&p, 10);
  results[1].schedule.reduce = draw(2) ? FPL_REDUCE_L2 : FPL_REDUCE_DSM;
  plan.schedule = results[1].schedule;
  plan.is_library = draw(4) == 0;
  plan.provenance = draw(4) ? FPL_PROVENANCE_MEASURED : FPL_PROVENANCE_PREDICTED;
  plan.created_unix = 1000 + draw(3);
  plan.measured_us = 10 + draw(5);
  snprintf(plan.reason, sizeof plan.reason, "reason %d", draw(1000));
  struct fpl_environment e = fixture_environment();
  fpl_environment_set(&e, "driver", draw(2) ? "580.1 (CUDA 13.0)" : "590.1 (CUDA 13.1)");
  int64_t run = 0;
  must(fpl_db_begin_run(db, 7, "1.0", "tune x.yaml", &run, &err), &err);
  must(fpl_db_store_problem(db, run, &p, d, results, FIXTURE_RESULTS, &e, &plan, &err), &err);
  must(fpl_db_end_run(db, run, FPL_RUN_DONE, &err), &err);
  fixture_results_free(results);
}

/* Envelopes and regrets that do not depend on row numbers, in place of measured ones. */
static void derive(struct fpl_db *db) {
  static const char sql[] =
      "INSERT INTO envelopes SELECT p.id, max(1, q.m / 2), q.m * 2 FROM plans p JOIN"
      " problems q ON q.id = p.problem_id WHERE q.n % 3 = 0;"
      "INSERT INTO regrets SELECT d.id, k.kind, c.value, 20, 0, 0.1 * c.value, 0.2 * c.value FROM"
      " device_classes d, (SELECT DISTINCT kind FROM problems) k, (SELECT 0 AS value UNION SELECT 2"
      " UNION SELECT 3 UNION SELECT 4) c;";
  assert_int_equal(sqlite3_exec(db->handle, sql, NULL, NULL, NULL), SQLITE_OK);
}

static void assert_same_plan(const struct fpl_plan *a, const struct fpl_plan *b) {
  assert_true(fpl_problem_equals(&a->problem, &b->problem));
  assert_string_equal(a->device_name, b->device_name);
  assert_int_equal(a->is_library, b->is_library);
  assert_int_equal(a->has_cubin, b->has_cubin);
  assert_int_equal(a->provenance, b->provenance);
  assert_string_equal(a->reason, b->reason);
  assert_string_equal(a->kernel.sha, b->kernel.sha);
  assert_string_equal(a->kernel.name, b->kernel.name);
  assert_int_equal(a->kernel.max_clusters, b->kernel.max_clusters);
  assert_int_equal(a->kernel.workspace_bytes_per_row_group,
                   b->kernel.workspace_bytes_per_row_group);
  for (int i = 0; i < FPL_KERNEL_MAPS; i++) {
    assert_int_equal(a->kernel.maps[i].rows, b->kernel.maps[i].rows);
    assert_int_equal(a->kernel.maps[i].box_cols, b->kernel.maps[i].box_cols);
    assert_int_equal(a->kernel.maps[i].slabs, b->kernel.maps[i].slabs);
    assert_int_equal(a->kernel.maps[i].is_image, b->kernel.maps[i].is_image);
  }
  for (int field = 0; !a->is_library && field < FPL_N_FIELDS; field++)
    assert_int_equal(fpl_schedule_get(&a->schedule, field), fpl_schedule_get(&b->schedule, field));
  assert_true(a->est_us == b->est_us && a->measured_us == b->measured_us &&
              a->measured_hot_us == b->measured_hot_us && a->library_us == b->library_us &&
              a->library_hot_us == b->library_hot_us);
  assert_true(a->n_candidates == b->n_candidates && a->n_ok == b->n_ok &&
              a->created_unix == b->created_unix && a->m_low == b->m_low && a->m_high == b->m_high);
  assert_int_equal(a->environment.n_fields, b->environment.n_fields);
  for (int i = 0; i < a->environment.n_fields; i++)
    assert_string_equal(a->environment.fields[i].value, b->environment.fields[i].value);
}

static void assert_same_answer(const struct fpl_answer *a, const struct fpl_answer *b) {
  assert_int_equal(a->tier, b->tier);
  assert_int_equal(a->match, b->match);
  assert_int_equal(a->is_stored, b->is_stored);
  assert_int_equal(a->has_kernel, b->has_kernel);
  assert_true(a->distance == b->distance && a->regret.n == b->regret.n &&
              a->regret.expected == b->regret.expected);
  assert_string_equal(a->reason, b->reason);
  if (a->is_stored)
    assert_same_plan(&a->plan, &b->plan);
}

static void ask_all(const struct fpl_source *sources, int n, const struct fpl_device *devices,
                    int counts[FPL_N_TIERS]) {
  struct fpl_environment here = {.n_fields = 0};
  fpl_environment_set(&here, "driver", "580.1 (CUDA 13.0)");
  for (int question = 0; question < N_QUESTIONS; question++) {
    const struct fpl_problem p = draw_problem();
    const struct fpl_wanted wanted = {.problem = &p,
                                      .device = &devices[draw(3)],
                                      .is_deterministic = draw(4) == 0,
                                      .needs_kernel = draw(4) == 0};
    struct fpl_answer first = {0};
    struct fpl_trace first_trace;
    for (int i = 0; i < n; i++) {
      struct fpl_answer a;
      struct fpl_trace trace;
      struct fpl_err err = {0};
      must(fpl_answer(&sources[i], 1, &wanted, &here, FPL_TIER_NEAREST, &a, &trace, &err), &err);
      if (i == 0) {
        first = a;
        first_trace = trace;
        counts[a.is_stored ? a.tier : FPL_TIER_LIBRARY]++;
        continue;
      }
      assert_same_answer(&first, &a);
      assert_int_equal(first_trace.n_closest, trace.n_closest);
      fpl_plan_free(&a.plan);
    }
    fpl_plan_free(&first.plan);
  }
}

static struct fpl_snapshot *snapshot_of(const struct scratch *s, struct fpl_db *db,
                                        const char *name, char path[300]) {
  struct fpl_err err = {0};
  struct fpl_snapshot_counts counts;
  struct fpl_snapshot *snapshot = NULL;
  snprintf(path, 300, "%s/%s", s->folder, name);
  must(fpl_snapshot_write(db, path, &counts, &err), &err);
  must(fpl_snapshot_open(path, &snapshot, &err), &err);
  must(fpl_snapshot_check(snapshot, &err), &err);
  assert_int_equal(counts.n_plans, fpl_snapshot_plans(snapshot));
  return snapshot;
}

static struct fpl_db *import_both(const char *path, const struct fpl_text *first,
                                  const struct fpl_text *second) {
  struct fpl_db *const db = open_or_fail(path, FPL_DB_CREATE);
  struct fpl_import_counts counts;
  struct fpl_err err = {0};
  must(fpl_db_import(db, "first", first->text, first->length, &counts, &err), &err);
  must(fpl_db_import(db, "second", second->text, second->length, &counts, &err), &err);
  return db;
}

static void every_source_gives_the_same_answers(void **state) {
  struct scratch *const s = *state;
  struct fpl_err err = {0};
  struct fpl_device devices[3] = {fixture_device("h200"), fixture_device("half"),
                                  fixture_device("other")};
  devices[1].sms = 66;
  devices[2].sms = 100;
  struct fpl_text halves[2];
  for (int half = 0; half < 2; half++) {
    struct fpl_db *const source = open_or_fail(":memory:", FPL_DB_CREATE);
    for (int i = 0; i < N_PLANS / 2; i++)
      store_plan(source, devices);
    halves[half] = export_or_fail(source, true);
    fpl_db_close(source);
  }
  char copy_path[300], path_a[300], path_b[300];
  snprintf(copy_path, sizeof copy_path, "%s/copy.db", s->folder);
  struct fpl_db *const db = import_both(s->path, &halves[0], &halves[1]);
  struct fpl_db *const copy = import_both(copy_path, &halves[1], &halves[0]);
  derive(db);
  derive(copy);
  struct fpl_snapshot *const a = snapshot_of(s, db, "a.snapshot", path_a);
  struct fpl_snapshot *const b = snapshot_of(s, copy, "b.snapshot", path_b);
  struct fpl_arena arena = {0};
  char *bytes[2];
  size_t lengths[2];
  must(fpl_file_read(&arena, path_a, 1 << 30, &bytes[0], &lengths[0], &err), &err);
  must(fpl_file_read(&arena, path_b, 1 << 30, &bytes[1], &lengths[1], &err), &err);
  assert_int_equal(lengths[0], lengths[1]);
  assert_memory_equal(bytes[0], bytes[1], lengths[0]);
  const struct fpl_source sources[] = {fpl_db_source(db), fpl_db_source(copy),
                                       fpl_snapshot_source(a), fpl_snapshot_source(b)};
  int tiers[FPL_N_TIERS] = {0};
  ask_all(sources, 4, devices, tiers);
  for (int tier = FPL_TIER_EXACT; tier <= FPL_TIER_NEAREST; tier++)
    if (tiers[tier] < 20)
      fail_msg("only %d answers of tier %s", tiers[tier], fpl_tier_names[tier]);
  assert_true(tiers[FPL_TIER_LIBRARY] > 20);
  fpl_snapshot_close(a);
  fpl_snapshot_close(b);
  fpl_db_close(db);
  fpl_db_close(copy);
  fpl_text_free(&halves[0]);
  fpl_text_free(&halves[1]);
  fpl_arena_free(&arena);
}

static void a_snapshot_carries_the_machine_code(void **state) {
  struct scratch *const s = *state;
  struct fpl_err err = {0};
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(128);
  struct fpl_db *const db = open_or_fail(s->path, FPL_DB_CREATE);
  const struct fpl_plan stored = fixture_plan(&p, 10);
  fixture_store(db, &p, &d, 10, &stored);
  char path[300];
  struct fpl_snapshot *const snapshot = snapshot_of(s, db, "one.snapshot", path);
  struct fpl_plan plan = {0};
  bool is_found = false;
  const struct fpl_wanted wanted = {.problem = &p, .device = &d, .needs_kernel = true};
  const struct fpl_source source = fpl_snapshot_source(snapshot);
  must(source.find(source.self, &wanted, &plan, &is_found, &err), &err);
  assert_true(is_found);
  must(fpl_snapshot_load_cubin(snapshot, &plan.kernel, &err), &err);
  assert_int_equal(plan.kernel.cubin_bytes, 1004);
  assert_int_equal(((unsigned char *)plan.kernel.cubin)[1003], 4);
  struct fpl_device there;
  assert_true(fpl_snapshot_device(snapshot, "h200", &there));
  assert_int_equal(there.smem_bytes_per_block, d.smem_bytes_per_block);
  assert_false(fpl_snapshot_device(snapshot, "none", &there));
  fpl_plan_free(&plan);
  fpl_snapshot_close(snapshot);
  fpl_db_close(db);
}

/* Every byte of a small snapshot changed in turn: refused, or read without harm. */
static void damage_is_refused_or_harmless(void **state) {
  struct scratch *const s = *state;
  struct fpl_err err = {0};
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(128);
  struct fpl_db *const db = open_or_fail(s->path, FPL_DB_CREATE);
  const struct fpl_plan stored = fixture_plan(&p, 10);
  fixture_store(db, &p, &d, 10, &stored);
  char path[300];
  fpl_snapshot_close(snapshot_of(s, db, "one.snapshot", path));
  fpl_db_close(db);
  struct fpl_arena arena = {0};
  char *file = NULL;
  size_t length = 0;
  must(fpl_file_read(&arena, path, 1 << 30, &file, &length, &err), &err);
  uint64_t *const copy = malloc(length + 8);
  assert_non_null(copy);
  int n_refused = 0;
  for (size_t at = 0; at < length; at += at < 6000 ? 1 : 37) {
    memcpy(copy, file, length);
    ((unsigned char *)copy)[at] ^= (unsigned char)(1 + draw(255));
    struct fpl_snapshot *snapshot = NULL;
    if (fpl_snapshot_from_bytes("bytes", copy, length, &snapshot, &err) != FPL_OK) {
      assert_null(snapshot);
      n_refused++;
      continue;
    }
    assert_int_equal(fpl_snapshot_check(snapshot, &err), FPL_DB_CORRUPT);
    const struct fpl_wanted wanted = {.problem = &p, .device = &d};
    const struct fpl_source source = fpl_snapshot_source(snapshot);
    struct fpl_answer answer;
    must(fpl_answer(&source, 1, &wanted, NULL, FPL_TIER_NEAREST, &answer, NULL, &err), &err);
    fpl_snapshot_load_cubin(snapshot, &answer.plan.kernel, &err);
    fpl_plan_free(&answer.plan);
    fpl_snapshot_close(snapshot);
  }
  assert_true(n_refused > 100);
  for (size_t shorter = 0; shorter < length; shorter += 97) {
    struct fpl_snapshot *snapshot = NULL;
    memcpy(copy, file, length);
    assert_int_not_equal(fpl_snapshot_from_bytes("bytes", copy, shorter, &snapshot, &err), FPL_OK);
  }
  free(copy);
  fpl_arena_free(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(every_source_gives_the_same_answers, scratch_make,
                                      scratch_remove),
      cmocka_unit_test_setup_teardown(a_snapshot_carries_the_machine_code, scratch_make,
                                      scratch_remove),
      cmocka_unit_test_setup_teardown(damage_is_refused_or_harmless, scratch_make, scratch_remove)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
