/* The C library: stores, device classes, lookups from many threads, and refused arguments. Kernels
 * are in t_lib_kernels.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/lib_fixture.h"

#include <pthread.h>
#include <stdatomic.h>

/* glibc's own allocator, under names that a program may not define anew. */
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COUNTS_ALLOCATIONS 1
#define VISIBLE __attribute__((visibility("default"))) /* for the calls of other libraries */
static atomic_bool is_counting;
static atomic_int n_allocations;
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *block, size_t size);
VISIBLE void *malloc(size_t size) {
  n_allocations += is_counting;
  return __libc_malloc(size);
}
VISIBLE void *calloc(size_t n, size_t size) {
  n_allocations += is_counting;
  return __libc_calloc(n, size);
}
VISIBLE void *realloc(void *block, size_t size) {
  n_allocations += is_counting;
  return __libc_realloc(block, size);
}
#endif

static void versions_agree(void **state) {
  (void)state;
  char text[32];
  snprintf(text, sizeof text, "%d.%d.%d", FUSEPLAN_VERSION_MAJOR, FUSEPLAN_VERSION_MINOR,
           FUSEPLAN_VERSION_PATCH);
  assert_string_equal(fuseplan_version(), text);
}

/* A program compiled against this version counts on them. */
static void layouts_stay_as_they_were(void **state) {
  (void)state;
  assert_int_equal(sizeof(struct fuseplan_message), 512);
  assert_int_equal(sizeof(struct fuseplan_problem), 96);
  assert_int_equal(sizeof(struct fuseplan_device), 56);
  assert_int_equal(sizeof(struct fuseplan_options), 24);
  assert_int_equal(sizeof(struct fuseplan_answer), 984);
  assert_int_equal(sizeof(struct fuseplan_matrices), 48);
  assert_int_equal(offsetof(struct fuseplan_problem, batch), 56);
  assert_int_equal(offsetof(struct fuseplan_device, driver), 48);
  assert_int_equal(offsetof(struct fuseplan_answer, plan), 40);
  assert_int_equal(offsetof(struct fuseplan_answer, problem), 152);
  assert_int_equal(offsetof(struct fuseplan_answer, reason), 728);
}

static void a_store_that_cannot_open_says_why(void **state) {
  const struct scratch *const s = *state;
  char other[300];
  snprintf(other, sizeof other, "%s/other", s->folder);
  FILE *const file = fopen(other, "w");
  assert_non_null(file);
  fputs("no database, whatever its name may be", file);
  fclose(file);
  const struct {
    const char *path;
    int status;
  } cases[] = {{"/nowhere/plans.db", FUSEPLAN_IO},
               {s->folder, FUSEPLAN_IO},
               {other, FUSEPLAN_DB_CORRUPT},
               {"", FUSEPLAN_USAGE},
               {NULL, FUSEPLAN_USAGE}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fuseplan_store *store = (fuseplan_store *)&other;
    struct fuseplan_message message;
    assert_int_equal(fuseplan_open(&cases[i].path, 1, &store, &message), cases[i].status);
    assert_null(store);
    assert_one_line(&message);
    assert_int_equal(fuseplan_open(&cases[i].path, 1, &store, NULL), cases[i].status);
  }
  fuseplan_store *store = NULL;
  const char *const path = s->path;
  assert_int_equal(fuseplan_open(&path, 0, &store, NULL), FUSEPLAN_USAGE);
  assert_int_equal(fuseplan_open(&path, -1, &store, NULL), FUSEPLAN_USAGE);
  assert_int_equal(fuseplan_open(NULL, 1, &store, NULL), FUSEPLAN_USAGE);
  assert_int_equal(fuseplan_open(&path, 1, NULL, NULL), FUSEPLAN_USAGE);
  fuseplan_close(NULL);
}

static void a_device_class_is_found_by_name(void **state) {
  fuseplan_store *const store = lib_store(*state);
  struct fuseplan_device d = {.size = sizeof d};
  struct fuseplan_message message;
  assert_int_equal(fuseplan_device_named(store, "h200", &d, &message), FUSEPLAN_OK);
  assert_string_equal(message.text, "");
  assert_int_equal(d.size, sizeof d);
  assert_int_equal(d.capability_major, 9);
  assert_int_equal(d.capability_minor, 0);
  assert_int_equal(d.sms, 132);
  assert_int_equal(d.l2_bytes, 60 << 20);
  assert_int_equal(d.hbm_bytes, INT64_C(141000000000));
  assert_true(d.sm_clock_mhz == 1980.5);
  assert_int_equal(d.driver, 0);
  assert_int_equal(fuseplan_device_named(store, "h300", &d, &message), FUSEPLAN_NO_PLAN);
  assert_non_null(strstr(message.text, "'h300'"));
  assert_int_equal(fuseplan_device_named(store, NULL, &d, &message), FUSEPLAN_USAGE);
  assert_int_equal(fuseplan_device_named(NULL, "h200", &d, &message), FUSEPLAN_USAGE);
  assert_int_equal(fuseplan_device_named(store, "h200", NULL, &message), FUSEPLAN_USAGE);
  d.size--;
  assert_int_equal(fuseplan_device_named(store, "h200", &d, &message), FUSEPLAN_USAGE);
  fuseplan_close(store);
}

static void a_hit_tells_what_is_stored(void **state) {
  fuseplan_store *const store = lib_store(*state);
  const struct fuseplan_problem p = lib_problem(STORED_M);
  const struct fuseplan_device d = lib_device(store);
  struct fuseplan_message message;
  struct fuseplan_answer a = {.size = sizeof a, .tier = 77, .regret = 5};
  assert_int_equal(fuseplan_lookup(store, &p, &d, NULL, &a, &message), FUSEPLAN_OK);
  assert_string_equal(message.text, "");
  assert_int_equal(a.size, sizeof a);
  assert_int_equal(a.tier, FUSEPLAN_TIER_EXACT);
  assert_int_equal(a.provenance, FUSEPLAN_MEASURED);
  assert_int_equal(a.match, FUSEPLAN_MATCH_UNKNOWN);
  assert_false(a.is_library);
  assert_true(a.has_kernel);
  assert_false(a.is_deterministic);
  assert_int_equal(a.layer, 0);
  assert_int_equal(a.m_low, STORED_M);
  assert_int_equal(a.m_high, STORED_M);
  assert_true(a.estimated_us == 9.0 && a.measured_us == 10.1 && a.measured_hot_us == 5.0);
  assert_true(a.library_us == 20.0 && a.regret == 0);
  assert_int_equal(a.created_unix, 1000);
  assert_int_equal(a.candidates, FIXTURE_RESULTS);
  assert_int_equal(a.verified, 2);
  assert_string_equal(a.problem, "gemm_chain m=128 n=3072 k=768 l=768 dtype=f16 act=relu");
  assert_string_equal(a.kernel, "chain_sm90_00000004");
  assert_non_null(strstr(a.schedule, "exchange=dsm reduce=l2"));
  assert_string_equal(a.reason, "stored for this problem: fastest of 2 verified candidates");
  fuseplan_close(store);
}

static void a_miss_is_an_outcome_with_a_reason(void **state) {
  fuseplan_store *const store = lib_store(*state);
  struct fuseplan_problem p = lib_problem(STORED_M + 1);
  struct fuseplan_device d = lib_device(store);
  struct fuseplan_answer a = {.size = sizeof a};
  struct fuseplan_message message;
  assert_int_equal(fuseplan_lookup(store, &p, &d, NULL, &a, &message), FUSEPLAN_NO_PLAN);
  assert_one_line(&message);
  assert_non_null(strstr(message.text, "m=129"));
  p.m = STORED_M;
  struct fuseplan_options wanted = {.size = sizeof wanted};
  assert_int_equal(fuseplan_lookup(store, &p, &d, &wanted, &a, &message), FUSEPLAN_OK);
  wanted.needs_kernel = 1;
  assert_int_equal(fuseplan_lookup(store, &p, &d, &wanted, &a, &message), FUSEPLAN_OK);
  wanted.is_deterministic = 1;
  assert_int_equal(fuseplan_lookup(store, &p, &d, &wanted, &a, &message), FUSEPLAN_NO_PLAN);
  assert_non_null(strstr(message.text, "deterministic launchable plan"));
  d.sms = 114;
  assert_int_equal(fuseplan_lookup(store, &p, &d, NULL, &a, &message), FUSEPLAN_NO_PLAN);
  fuseplan_close(store);
}

static void the_first_layer_that_has_a_plan_answers(void **state) {
  const struct scratch *const s = *state;
  char upper[300];
  snprintf(upper, sizeof upper, "%s/upper.db", s->folder);
  lib_fill(upper, STORED_M + 1, 4.0);
  lib_fill(s->path, STORED_M + 1, 8.0);
  const char *const paths[] = {upper, s->path};
  fuseplan_store *store = NULL;
  assert_int_equal(fuseplan_open(paths, 2, &store, NULL), FUSEPLAN_OK);
  const struct fuseplan_device d = lib_device(store);
  struct fuseplan_answer a = {.size = sizeof a};
  struct fuseplan_problem p = lib_problem(STORED_M + 1);
  assert_int_equal(fuseplan_lookup(store, &p, &d, NULL, &a, NULL), FUSEPLAN_OK);
  assert_int_equal(a.layer, 0);
  assert_true(a.measured_us == 4.1);
  p.m = STORED_M;
  assert_int_equal(fuseplan_lookup(store, &p, &d, NULL, &a, NULL), FUSEPLAN_OK);
  assert_int_equal(a.layer, 1);
  fuseplan_close(store);
}

static void arguments_out_of_range_are_refused(void **state) {
  fuseplan_store *const store = lib_store(*state);
  const struct fuseplan_device d = lib_device(store);
  const size_t size = sizeof(struct fuseplan_problem);
  const struct fuseplan_problem cases[] = {
      {size - 1, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0},
      {size + 8, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0},
      {0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0},
      {size, 3, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0},
      {size, -1, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0},
      {size, 0, 2, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0},
      {size, 0, 0, 4, 1, 1, 1, 1, 0, 0, 0, 0, 0},
      {size, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0},
      {size, 0, 0, 0, 1, INT64_MAX, 1, 1, 0, 0, 0, 0, 0},
      {size, 0, 0, 0, INT32_MAX, INT32_MAX, INT32_MAX, 1, 0, 0, 0, 0, 0},
      {size, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0},    /* an image for a gemm_chain */
      {size, 2, 0, 0, 1, 64, 0, 64, 1, 64, 8, 8, 3}, /* m for a conv_chain */
      {size, 2, 0, 0, 0, 64, 0, 64, 1, 64, 8, 8, 2}, /* an even kernel */
  };
  struct fuseplan_answer a = {.size = sizeof a};
  struct fuseplan_message message;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(fuseplan_lookup(store, &cases[i], &d, NULL, &a, &message), FUSEPLAN_USAGE);
    assert_one_line(&message);
  }
  const struct fuseplan_problem p = lib_problem(STORED_M);
  assert_int_equal(fuseplan_lookup(store, NULL, &d, NULL, &a, NULL), FUSEPLAN_USAGE);
  assert_int_equal(fuseplan_lookup(store, &p, NULL, NULL, &a, NULL), FUSEPLAN_USAGE);
  assert_int_equal(fuseplan_lookup(store, &p, &d, NULL, NULL, NULL), FUSEPLAN_USAGE);
  assert_int_equal(fuseplan_lookup(NULL, &p, &d, NULL, &a, NULL), FUSEPLAN_USAGE);
  struct fuseplan_device devices[] = {d, d, d, d, d};
  devices[0].size = 8;
  devices[1].sms = 0;
  devices[2].sm_clock_mhz = NAN;
  devices[3].hbm_bytes = INT64_MIN;
  devices[4].driver = -1;
  for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
    assert_int_equal(fuseplan_lookup(store, &p, &devices[i], NULL, &a, NULL), FUSEPLAN_USAGE);
  const struct fuseplan_options options[] = {{4, 0, 0, 0},
                                             {sizeof *options, 2, 0, 0},
                                             {sizeof *options, 0, -1, 0},
                                             {sizeof *options, 0, 0, 9}};
  for (size_t i = 0; i < sizeof options / sizeof *options; i++)
    assert_int_equal(fuseplan_lookup(store, &p, &d, &options[i], &a, NULL), FUSEPLAN_USAGE);
  a.size = 1;
  assert_int_equal(fuseplan_lookup(store, &p, &d, NULL, &a, NULL), FUSEPLAN_USAGE);
  fuseplan_close(store);
}

enum { N_THREADS = 8, N_LOOKUPS = 500 };

struct looker {
  pthread_t thread;
  fuseplan_store *store;
  int64_t m;
  int expected, n_wrong;
};

static void *look_up_often(void *argument) {
  struct looker *const looker = argument;
  const struct fuseplan_problem p = lib_problem(looker->m);
  struct fuseplan_device d = {.size = sizeof d};
  looker->n_wrong += fuseplan_device_named(looker->store, "h200", &d, NULL) != FUSEPLAN_OK;
  for (int i = 0; i < N_LOOKUPS; i++) {
    struct fuseplan_answer a = {.size = sizeof a};
    const int status = fuseplan_lookup(looker->store, &p, &d, NULL, &a, NULL);
    looker->n_wrong +=
        status != looker->expected || (status == FUSEPLAN_OK && a.m_low != looker->m);
  }
  return NULL;
}

static void eight_threads_look_up_at_once(void **state) {
  fuseplan_store *const store = lib_store(*state);
  struct looker lookers[N_THREADS] = {0};
  for (int i = 0; i < N_THREADS; i++) {
    lookers[i].store = store;
    lookers[i].m = i % 2 ? STORED_M : STORED_M + i + 1;
    lookers[i].expected = i % 2 ? FUSEPLAN_OK : FUSEPLAN_NO_PLAN;
    assert_int_equal(pthread_create(&lookers[i].thread, NULL, look_up_often, &lookers[i]), 0);
  }
  for (int i = 0; i < N_THREADS; i++) {
    pthread_join(lookers[i].thread, NULL);
    assert_int_equal(lookers[i].n_wrong, 0);
  }
  fuseplan_close(store);
}

static void lookups_allocate_nothing(void **state) {
#ifdef COUNTS_ALLOCATIONS
  fuseplan_store *const store = lib_store(*state);
  const struct fuseplan_device d = lib_device(store);
  const struct fuseplan_problem hit = lib_problem(STORED_M), miss = lib_problem(STORED_M + 1);
  struct fuseplan_answer a = {.size = sizeof a};
  struct fuseplan_message message;
  is_counting = true;
  void *volatile block = malloc(1); /* volatile: or the compiler leaves it out */
  is_counting = false;
  free(block);
  assert_int_equal(n_allocations, 1);
  is_counting = true;
  const int on_hit = fuseplan_lookup(store, &hit, &d, NULL, &a, &message);
  const int on_miss = fuseplan_lookup(store, &miss, &d, NULL, &a, &message);
  is_counting = false;
  assert_int_equal(on_hit, FUSEPLAN_OK);
  assert_int_equal(on_miss, FUSEPLAN_NO_PLAN);
  assert_int_equal(n_allocations, 1);
  fuseplan_close(store);
#else
  (void)state;
  skip();
#endif
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(versions_agree),
      cmocka_unit_test(layouts_stay_as_they_were),
      cmocka_unit_test_setup_teardown(a_store_that_cannot_open_says_why, lib_make, scratch_remove),
      cmocka_unit_test_setup_teardown(a_device_class_is_found_by_name, lib_make, scratch_remove),
      cmocka_unit_test_setup_teardown(a_hit_tells_what_is_stored, lib_make, scratch_remove),
      cmocka_unit_test_setup_teardown(a_miss_is_an_outcome_with_a_reason, lib_make, scratch_remove),
      cmocka_unit_test_setup_teardown(the_first_layer_that_has_a_plan_answers, lib_make,
                                      scratch_remove),
      cmocka_unit_test_setup_teardown(arguments_out_of_range_are_refused, lib_make, scratch_remove),
      cmocka_unit_test_setup_teardown(eight_threads_look_up_at_once, lib_make, scratch_remove),
      cmocka_unit_test_setup_teardown(lookups_allocate_nothing, lib_make, scratch_remove),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
