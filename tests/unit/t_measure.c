/* The measurer against the fake worker: order of requests, faults, budget, what is recorded. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/fakes/fake_worker.h"
#include "tuner/measure/decide.h"
#include "tuner/measure/measure.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 16, LOG_MOST = 1 << 18, PHASES_MOST = 4 };
static const double HANG_US = 300e3; /* deadline of an op that hangs */
static const double AMPLE_US = 30e6; /* of the others: a loaded machine must not fail a test */

/* One measured problem: result 1 is the library, the others are kernels. */
struct bench {
  struct fpl_result results[MOST];
  int n;
  struct fpl_environment environment;
  struct fpl_err err;
  enum fpl_status status;
  char dir[64];
  char log[LOG_MOST];
  const char *phases[PHASES_MOST]; /* in the order of their first report */
  int n_phases;
  int last_done, last_all;
};
static struct bench bench;

static void note_progress(void *context, const char *phase, int n_done, int n_all) {
  struct bench *const b = context;
  if (b->n_phases == 0 || strcmp(b->phases[b->n_phases - 1], phase) != 0) {
    assert_true(b->n_phases < PHASES_MOST);
    b->phases[b->n_phases++] = phase;
  } else {
    assert_true(n_done >= b->last_done && n_all == b->last_all);
  }
  assert_in_range(n_done, 0, n_all);
  b->last_done = n_done;
  b->last_all = n_all;
}

static struct fpl_result kernel_result(int id) {
  struct fpl_result r = {.kernel = {.cluster = 1, .smem_bytes = 1000 + id, .cubin_bytes = 4}};
  snprintf(r.kernel.name, sizeof r.kernel.name, "kernel_%d", id);
  r.kernel.cubin = malloc(4);
  assert_non_null(r.kernel.cubin);
  memcpy(r.kernel.cubin, "cub", 4);
  return r;
}

static void make_results(struct bench *b, int n) {
  memset(b, 0, sizeof *b);
  b->n = n;
  for (int id = 0; id < n; id++)
    b->results[id] = id == 1 ? (struct fpl_result){.is_library = true} : kernel_result(id);
}

static void read_log(struct bench *b, const char *path) {
  FILE *const log = fopen(path, "r");
  const size_t length = log ? fread(b->log, 1, sizeof b->log - 1, log) : 0;
  if (log)
    fclose(log);
  b->log[length] = '\0';
}

static double deadline_us(const char *script, const char *hang) {
  return strstr(script, hang) ? HANG_US : AMPLE_US;
}

/* Measures what make_results made, with the fake following `script`. */
static void measure(struct bench *b, const char *script, const struct fpl_measure_options *limits) {
  const struct fpl_problem problem = {.kind = FPL_KIND_GEMM_CHAIN,
                                      .dtype = FPL_DTYPE_F16,
                                      .act = FPL_ACT_RELU,
                                      .m = 128,
                                      .n = 256,
                                      .k = 64,
                                      .l = 64};
  char text[512];
  char log_path[128];
  snprintf(b->dir, sizeof b->dir, "/tmp/fpl-t_measure-%d", (int)getpid());
  assert_int_equal(fpl_dir_make(b->dir, NULL), FPL_OK);
  snprintf(log_path, sizeof log_path, "%s/log", b->dir);
  snprintf(text, sizeof text, "log=%s %s", log_path, script);
  setenv("FPL_FAKE_SCRIPT", text, 1);
  const struct fpl_measurer_options options = {
      .self_path = fake_worker_path(),
      .support_cubin_path = "",
      .work_dir = b->dir,
      .is_untraced = strstr(script, "untraced") != NULL,
      .open_timeout_us = deadline_us(script, "hang:open"),
      .load_timeout_us = deadline_us(script, "hang:load"),
      .verify_timeout_us = deadline_us(script, "hang:verify"),
      .sample_timeout_us = deadline_us(script, "hang:sample")};
  struct fpl_measurer *measurer = NULL;
  assert_int_equal(fpl_measurer_open(&options, &measurer, NULL), FPL_OK);
  const struct fpl_measurer_port port = fpl_measurer_port(measurer);
  b->status = port.measure(port.self, &problem, limits, b->results, b->n, &b->environment,
                           note_progress, b, &b->err);
  fpl_measurer_close(measurer);
  read_log(b, log_path);
}

/* Frees all, and checks that nothing but the log is left in the work folder. */
static void clear(struct bench *b) {
  int n_left = 0;
  DIR *const dir = opendir(b->dir);
  assert_non_null(dir);
  for (const struct dirent *e = readdir(dir); e; e = readdir(dir))
    n_left += e->d_name[0] != '.' && strcmp(e->d_name, "log") != 0;
  closedir(dir);
  assert_int_equal(n_left, 0);
  assert_int_equal(fpl_dir_remove(b->dir, NULL), FPL_OK);
  for (int id = 0; id < b->n; id++)
    fpl_result_free(&b->results[id]);
}

static const struct fpl_measure_options LIMITS = {
    .budget_us = 60e6, .seed = 1, .least_samples = 12, .most_samples = 24};

static void run(struct bench *b, int n, const char *script) {
  make_results(b, n);
  measure(b, script, &LIMITS);
  if (b->status != FPL_OK)
    fail_msg("%s", b->err.text);
}

static void expect_outcome(const struct bench *b, int id, enum fpl_outcome want,
                           const char *reason) {
  const struct fpl_result *const r = &b->results[id];
  if (r->outcome != want || !strstr(r->reason, reason))
    fail_msg("result %d: %s (%s), want %s (%s)", id, fpl_outcome_names[r->outcome], r->reason,
             fpl_outcome_names[want], reason);
}

static int count_text(const char *text, const char *part) {
  int n = 0;
  for (const char *at = strstr(text, part); at; at = strstr(at + 1, part))
    n++;
  return n;
}

static void measures_cold_and_hot_and_records_everything(void **state) {
  (void)state;
  run(&bench, 4, "noise=0.02 us:3=5");
  for (int id = 0; id < 4; id++) {
    const struct fpl_result *const r = &bench.results[id];
    expect_outcome(&bench, id, FPL_OUTCOME_OK, id == 1 ? "fake algorithm" : "");
    assert_int_equal(r->method, FPL_METHOD_CUPTI);
    assert_true(r->verification.was_exact_ok && r->verification.was_in_bounds);
    assert_true(r->samples[FPL_COLD].n > 0);
    assert_int_equal(r->stats[FPL_COLD].n, r->samples[FPL_COLD].n);
  }
  assert_int_equal(bench.results[3].samples[FPL_HOT].n, 24);
  assert_int_equal(bench.results[1].samples[FPL_COLD].n, 24); /* the library to the end */
  assert_true(fabs(bench.results[3].stats[FPL_COLD].median_us - 5) < 0.2);
  assert_string_equal(fpl_environment_get(&bench.environment, "device_name"), "fake");
  assert_string_equal(fpl_environment_get(&bench.environment, "sms"), "132");
  assert_string_equal(fpl_environment_get(&bench.environment, "sm_clock_mhz"), "1980");
  char reason[FPL_DECIDE_REASON];
  assert_int_equal(fpl_decide(bench.results, 4, 0.02, reason), 3);
  clear(&bench);
}

static void without_tracing_the_worker_is_told_so_and_times_are_those_of_graphs(void **state) {
  (void)state;
  run(&bench, 3, "untraced");
  for (int id = 0; id < 3; id++)
    assert_int_equal(bench.results[id].method, FPL_METHOD_GRAPH);
  clear(&bench);
  run(&bench, 3, "");
  for (int id = 0; id < 3; id++)
    assert_int_equal(bench.results[id].method, FPL_METHOD_CUPTI);
  clear(&bench);
}

static void loads_the_library_first_and_verifies_all_before_timing(void **state) {
  (void)state;
  run(&bench, 4, "");
  const char want[] = "open -1\nload 1\nload 0\nload 2\nload 3\n"
                      "verify 1\nverify 0\nverify 2\nverify 3\nsample ";
  assert_int_equal(strncmp(bench.log, want, sizeof want - 1), 0);
  assert_true(strstr(bench.log, " hot ") > strstr(bench.log, " cold "));
  assert_null(strstr(strstr(bench.log, " hot "), " cold "));
  assert_non_null(strstr(bench.log, "close -1\n"));
  assert_int_equal(bench.n_phases, 4);
  assert_string_equal(bench.phases[0], "load");
  assert_string_equal(bench.phases[1], "verify");
  assert_string_equal(bench.phases[2], "cold");
  assert_string_equal(bench.phases[3], "hot");
  clear(&bench);
}

/* Ids of the cold samples in the log, in order; returns how many. */
static int cold_ids(const char *log, int *ids, int most) {
  int n = 0;
  for (const char *at = strstr(log, "sample "); at && n < most; at = strstr(at + 1, "sample ")) {
    char cache[8];
    if (sscanf(at, "sample %d %7s", &ids[n], cache) == 2 && strcmp(cache, "cold") == 0)
      n++;
  }
  return n;
}

static void every_round_is_a_fresh_permutation_of_the_set(void **state) {
  (void)state;
  enum { N = 12, ROUNDS = 6 };
  int ids[N * ROUNDS];
  /* Equal times under noise: nobody leaves before 6 rounds of 4. The fake's noise depends on its
   * process id, so the count of samples after least_samples is not fixed; at 5 % it is 24. */
  run(&bench, N,
      "noise=0.05 us:0=10 us:1=10 us:2=10 us:3=10 us:4=10 us:5=10 us:6=10 us:7=10 "
      "us:8=10 us:9=10 us:10=10 us:11=10");
  assert_int_equal(cold_ids(bench.log, ids, N * ROUNDS), N * ROUNDS);
  for (int round = 0; round < ROUNDS; round++) {
    int seen = 0;
    for (int i = 0; i < N; i++)
      seen |= 1 << ids[round * N + i];
    assert_int_equal(seen, (1 << N) - 1);
    for (int other = 0; other < round; other++)
      assert_memory_not_equal(&ids[round * N], &ids[other * N], N * sizeof(int));
  }
  clear(&bench);
}

static void the_same_seed_gives_the_same_requests(void **state) {
  (void)state;
  static char first[LOG_MOST];
  run(&bench, 6, "");
  memcpy(first, bench.log, sizeof first);
  clear(&bench);
  run(&bench, 6, "");
  assert_string_equal(bench.log, first);
  clear(&bench);
  struct fpl_measure_options other = LIMITS;
  other.seed = 2;
  make_results(&bench, 6);
  measure(&bench, "", &other);
  assert_string_not_equal(bench.log, first);
  clear(&bench);
}

static void an_order_is_a_permutation_that_depends_on_seed_and_round(void **state) {
  (void)state;
  enum { N = 16 };
  int a[N];
  int b[N];
  int n_first[N] = {0};
  for (uint64_t round = 0; round < 1600; round++) {
    int seen = 0;
    fpl_measure_order(9, round, a, N);
    fpl_measure_order(9, round, b, N);
    assert_memory_equal(a, b, sizeof a);
    fpl_measure_order(9, round + 1, b, N);
    assert_memory_not_equal(a, b, sizeof a);
    fpl_measure_order(10, round, b, N);
    assert_memory_not_equal(a, b, sizeof a);
    for (int i = 0; i < N; i++)
      seen |= 1 << a[i];
    assert_int_equal(seen, (1 << N) - 1);
    n_first[a[0]]++;
  }
  for (int i = 0; i < N; i++) /* 100 expected, standard deviation 10 */
    assert_in_range(n_first[i], 60, 140);
}

static void a_fault_costs_one_candidate(void **state) {
  (void)state;
  const struct {
    const char *script;
    enum fpl_outcome outcome;
    const char *reason;
    int n_opens; /* workers used */
  } rows[] = {
      {"hang:load:2", FPL_OUTCOME_RUN_TIMEOUT, "load: no answer within 0.3 s", 2},
      {"hang:verify:2", FPL_OUTCOME_RUN_TIMEOUT, "verify: no answer", 2},
      {"hang:sample:2", FPL_OUTCOME_RUN_TIMEOUT, "sample: no answer", 2},
      {"hang:sample:2@2", FPL_OUTCOME_RUN_TIMEOUT, "sample: no answer", 2},
      {"crash:load:2", FPL_OUTCOME_WORKER_LOST, "signal 11", 2},
      {"crash:verify:2", FPL_OUTCOME_WORKER_LOST, "signal 11", 2},
      {"crash:sample:2", FPL_OUTCOME_WORKER_LOST, "signal 11", 2},
      {"crash:sample:2@5", FPL_OUTCOME_WORKER_LOST, "signal 11", 2},
      {"exit:sample:2", FPL_OUTCOME_WORKER_LOST, "code 3", 2},
      {"garbage:sample:2", FPL_OUTCOME_WORKER_LOST, "unreadable", 2},
      {"shout:sample:2", FPL_OUTCOME_WORKER_LOST, "worker killed", 2},
      {"sticky:verify:2", FPL_OUTCOME_STICKY_ERROR, "verify: scripted", 2},
      {"sticky:sample:2", FPL_OUTCOME_STICKY_ERROR, "sample: scripted", 2},
      {"device:sample:2", FPL_OUTCOME_WORKER_LOST, "sample: scripted", 2},
      {"refuse:load:2", FPL_OUTCOME_LAUNCH_ERROR, "load: scripted", 1},
      {"refuse:sample:2", FPL_OUTCOME_LAUNCH_ERROR, "sample: scripted", 1},
      {"inexact:verify:2", FPL_OUTCOME_WRONG_RESULT, "exact", 1},
      {"error:verify:2", FPL_OUTCOME_WRONG_RESULT, "relative error 0.5", 1},
      {"bounds:verify:2", FPL_OUTCOME_WRONG_RESULT, "bounds", 1},
      {"zero:sample:2", FPL_OUTCOME_INVALID_TIME, "not above zero", 1},
      {"negative:sample:2", FPL_OUTCOME_INVALID_TIME, "not above zero", 1},
      {"null:sample:2", FPL_OUTCOME_INVALID_TIME, "not finite", 1},
      {"short:sample:2", FPL_OUTCOME_INVALID_TIME, "missing", 1},
      {"throttle:sample:2", FPL_OUTCOME_THROTTLED, "hw_slowdown", 1},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    run(&bench, 4, rows[i].script);
    expect_outcome(&bench, 2, rows[i].outcome, rows[i].reason);
    for (int id = 0; id < 4; id++)
      if (id != 2) {
        expect_outcome(&bench, id, FPL_OUTCOME_OK, "");
        assert_true(bench.results[id].samples[FPL_COLD].n >= LIMITS.least_samples);
        assert_true(bench.results[id].samples[FPL_HOT].n >= LIMITS.least_samples);
      }
    if (count_text(bench.log, "open -1") != rows[i].n_opens)
      fail_msg("%s: %d workers, want %d", rows[i].script, count_text(bench.log, "open -1"),
               rows[i].n_opens);
    clear(&bench);
  }
}

static void several_faults_of_several_kinds_cost_one_candidate_each(void **state) {
  (void)state;
  run(&bench, 8, "hang:verify:0 crash:sample:2 sticky:sample:3 inexact:verify:4 crash:load:5");
  expect_outcome(&bench, 0, FPL_OUTCOME_RUN_TIMEOUT, "verify");
  expect_outcome(&bench, 1, FPL_OUTCOME_OK, "fake algorithm");
  expect_outcome(&bench, 2, FPL_OUTCOME_WORKER_LOST, "signal");
  expect_outcome(&bench, 3, FPL_OUTCOME_STICKY_ERROR, "");
  expect_outcome(&bench, 4, FPL_OUTCOME_WRONG_RESULT, "");
  expect_outcome(&bench, 5, FPL_OUTCOME_WORKER_LOST, "load");
  expect_outcome(&bench, 6, FPL_OUTCOME_OK, "");
  expect_outcome(&bench, 7, FPL_OUTCOME_OK, "");
  clear(&bench);
}

static void the_library_may_fail_like_any_other(void **state) {
  (void)state;
  run(&bench, 3, "crash:load:1");
  expect_outcome(&bench, 1, FPL_OUTCOME_WORKER_LOST, "signal");
  expect_outcome(&bench, 0, FPL_OUTCOME_OK, "");
  clear(&bench);
}

static void one_bad_batch_is_taken_again(void **state) {
  (void)state;
  run(&bench, 4, "zero:sample:2@1 throttle:sample:3@2");
  for (int id = 0; id < 4; id++)
    expect_outcome(&bench, id, FPL_OUTCOME_OK, "");
  for (int64_t i = 0; i < bench.results[2].samples[FPL_COLD].n; i++)
    assert_true(bench.results[2].samples[FPL_COLD].us[i] > 0);
  assert_string_equal(fpl_environment_get(&bench.environment, "throttle"), "hw_slowdown");
  clear(&bench);
}

static void the_power_cap_is_recorded_and_no_fault(void **state) {
  (void)state;
  run(&bench, 3, "cap:sample:2");
  expect_outcome(&bench, 2, FPL_OUTCOME_OK, "");
  assert_string_equal(fpl_environment_get(&bench.environment, "throttle"), "sw_power_cap");
  assert_string_not_equal(fpl_environment_get(&bench.environment, "sm_clock_mhz"), "1980");
  clear(&bench);
}

static void slower_candidates_are_abandoned_early_and_stay_ok(void **state) {
  (void)state;
  /* 3 hopeless: one batch of 4. 2 slower by 1.7: two batches. The library is kept though slow. */
  run(&bench, 4, "us:0=10 us:1=90 us:2=17 us:3=40 noise=0.01");
  assert_int_equal(bench.results[3].samples[FPL_COLD].n, 4);
  assert_int_equal(bench.results[2].samples[FPL_COLD].n, 8);
  assert_int_equal(bench.results[1].samples[FPL_COLD].n, 24);
  assert_int_equal(bench.results[0].samples[FPL_COLD].n, 24);
  assert_int_equal(bench.results[2].samples[FPL_HOT].n, 0);
  assert_int_equal(bench.results[3].samples[FPL_HOT].n, 0);
  assert_int_equal(bench.results[1].samples[FPL_HOT].n, 24);
  for (int id = 0; id < 4; id++)
    expect_outcome(&bench, id, FPL_OUTCOME_OK, "");
  clear(&bench);
}

static void steady_candidates_stop_at_the_least_count(void **state) {
  (void)state;
  run(&bench, 3, "us:0=10 us:1=11 us:2=12"); /* no noise */
  for (int id = 0; id < 3; id++)
    assert_int_equal(bench.results[id].samples[FPL_COLD].n, LIMITS.least_samples);
  clear(&bench);
}

static void the_budget_ends_sampling_and_skips_what_was_not_timed(void **state) {
  (void)state;
  const struct fpl_measure_options limits = {
      .budget_us = 400e3, .seed = 1, .least_samples = 1000, .most_samples = 100000};
  make_results(&bench, 10);
  const double started_us = fpl_now_us();
  measure(&bench, "wait=50 noise=0.1", &limits);
  assert_int_equal(bench.status, FPL_OK);
  assert_true(fpl_now_us() - started_us < 3e6);
  expect_outcome(&bench, 1, FPL_OUTCOME_OK, "");
  int n_skipped = 0;
  for (int id = 0; id < 10; id++) {
    const bool is_skipped = bench.results[id].outcome == FPL_OUTCOME_SKIPPED;
    assert_true(is_skipped || bench.results[id].outcome == FPL_OUTCOME_OK);
    assert_int_equal(is_skipped, bench.results[id].samples[FPL_COLD].n == 0);
    n_skipped += is_skipped;
  }
  assert_in_range(n_skipped, 1, 9);
  clear(&bench);
}

static void without_a_budget_only_the_library_is_timed(void **state) {
  (void)state;
  const struct fpl_measure_options limits = {
      .budget_us = 0, .seed = 1, .least_samples = 12, .most_samples = 24};
  make_results(&bench, 4);
  measure(&bench, "", &limits);
  assert_int_equal(bench.status, FPL_OK);
  expect_outcome(&bench, 1, FPL_OUTCOME_OK, "");
  for (int id = 0; id < 4; id++)
    if (id != 1)
      expect_outcome(&bench, id, FPL_OUTCOME_SKIPPED, "budget spent");
  clear(&bench);
}

static void only_pending_results_are_touched(void **state) {
  (void)state;
  make_results(&bench, 4);
  bench.results[0].outcome = FPL_OUTCOME_COMPILE_ERROR;
  snprintf(bench.results[0].reason, sizeof bench.results[0].reason, "ptxas");
  free(bench.results[2].kernel.cubin);
  bench.results[2].kernel.cubin = NULL;
  measure(&bench, "", &LIMITS);
  assert_int_equal(bench.status, FPL_OK);
  expect_outcome(&bench, 0, FPL_OUTCOME_COMPILE_ERROR, "ptxas");
  expect_outcome(&bench, 2, FPL_OUTCOME_SKIPPED, "no kernel was built");
  expect_outcome(&bench, 3, FPL_OUTCOME_OK, "");
  assert_null(strstr(bench.log, "load 0"));
  assert_null(strstr(bench.log, "load 2"));
  clear(&bench);
}

static void nothing_pending_starts_no_worker(void **state) {
  (void)state;
  make_results(&bench, 1);
  bench.results[0].outcome = FPL_OUTCOME_BUILT;
  measure(&bench, "", &LIMITS);
  assert_int_equal(bench.status, FPL_OK);
  assert_string_equal(bench.log, "");
  clear(&bench);
}

static void a_device_that_does_not_open_is_a_status(void **state) {
  (void)state;
  make_results(&bench, 3);
  measure(&bench, "device:open:-1", &LIMITS);
  assert_int_equal(bench.status, FPL_DEVICE);
  assert_non_null(strstr(bench.err.text, "scripted"));
  assert_int_equal(count_text(bench.log, "open -1"), 2);
  expect_outcome(&bench, 0, FPL_OUTCOME_PENDING, "");
  clear(&bench);
}

static void a_device_that_is_lost_in_the_middle_is_a_status(void **state) {
  (void)state;
  make_results(&bench, 3);
  measure(&bench, "crash:sample:2 device:open:-1@2 hang:open:-1@3", &LIMITS);
  assert_int_equal(bench.status, FPL_DEVICE);
  assert_non_null(strstr(bench.err.text, "2 times"));
  expect_outcome(&bench, 2, FPL_OUTCOME_WORKER_LOST, "signal");
  clear(&bench);
}

static void a_respawn_that_fails_once_goes_on(void **state) {
  (void)state;
  run(&bench, 3, "crash:sample:2 crash:open:-1@2");
  expect_outcome(&bench, 2, FPL_OUTCOME_WORKER_LOST, "signal");
  expect_outcome(&bench, 0, FPL_OUTCOME_OK, "");
  assert_int_equal(count_text(bench.log, "open -1"), 3);
  clear(&bench);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(measures_cold_and_hot_and_records_everything),
      cmocka_unit_test(without_tracing_the_worker_is_told_so_and_times_are_those_of_graphs),
      cmocka_unit_test(loads_the_library_first_and_verifies_all_before_timing),
      cmocka_unit_test(every_round_is_a_fresh_permutation_of_the_set),
      cmocka_unit_test(the_same_seed_gives_the_same_requests),
      cmocka_unit_test(an_order_is_a_permutation_that_depends_on_seed_and_round),
      cmocka_unit_test(a_fault_costs_one_candidate),
      cmocka_unit_test(several_faults_of_several_kinds_cost_one_candidate_each),
      cmocka_unit_test(the_library_may_fail_like_any_other),
      cmocka_unit_test(one_bad_batch_is_taken_again),
      cmocka_unit_test(the_power_cap_is_recorded_and_no_fault),
      cmocka_unit_test(slower_candidates_are_abandoned_early_and_stay_ok),
      cmocka_unit_test(steady_candidates_stop_at_the_least_count),
      cmocka_unit_test(the_budget_ends_sampling_and_skips_what_was_not_timed),
      cmocka_unit_test(without_a_budget_only_the_library_is_timed),
      cmocka_unit_test(only_pending_results_are_touched),
      cmocka_unit_test(nothing_pending_starts_no_worker),
      cmocka_unit_test(a_device_that_does_not_open_is_a_status),
      cmocka_unit_test(a_device_that_is_lost_in_the_middle_is_a_status),
      cmocka_unit_test(a_respawn_that_fails_once_goes_on),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
