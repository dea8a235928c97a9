/* The C library on a fake libcuda: the device of a context, loading, sharing, launching, refusing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#if __has_include(<cuda.h>)

#include "tests/fakes/libcuda/fake_cuda.h"
#include "tests/unit/lib_fixture.h"
#include "tuner/launch/library.h"

static struct fake_cuda *cuda;
static int (*set_context)(void *context);
static char contexts[2]; /* their addresses stand for contexts */

/* The library then finds it under the name that it looks for. */
static int load_fake(void **state) {
  (void)state;
  static const char *const names[] = {FPL_BUILD "/tests/fakes/libcuda.so.1", NULL};
  void *const library = fpl_library_open(names);
  struct fake_cuda *(*get_state)(void) = NULL;
  if (!library || !fpl_library_symbol(library, "fake_cuda_state", &get_state) ||
      !fpl_library_symbol(library, "cuCtxSetCurrent", &set_context))
    return -1;
  cuda = get_state();
  return 0;
}

/* A plan with a kernel that can be launched, for m rows; `cols_of_d`: of its last recipe. */
static void store_plan(const char *path, int64_t m, const char *family, int64_t cols_of_d) {
  struct fpl_db *const db = open_or_fail(path, FPL_DB_CREATE);
  const struct fpl_problem p = fixture_problem(m);
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_plan plan = fixture_plan(&p, 10.0);
  const struct fpl_environment e = fixture_environment();
  struct fpl_result results[FIXTURE_RESULTS];
  struct fpl_err err = {0};
  int64_t run = 0;
  fixture_results(results, 10.0);
  struct fpl_kernel *const k = &results[1].kernel;
  memset(k->cubin, (int)(m & 0xff), k->cubin_bytes); /* a kernel of its own */
  fpl_hash_bytes_hex(k->cubin, k->cubin_bytes, k->sha);
  snprintf(k->family, sizeof k->family, "%s", family);
  k->maps[0] = (struct fpl_map_recipe){-1, 768, 64, 64, 1, 1, 0};
  k->maps[1] = (struct fpl_map_recipe){3072, 768, 128, 64, 1, 1, 0};
  k->maps[2] = (struct fpl_map_recipe){768, cols_of_d, 128, 64, 2, 1, 0};
  must(fpl_db_begin_run(db, 7, "1.0", "tune x.yaml", &run, &err), &err);
  must(fpl_db_store_problem(db, run, &p, &d, results, FIXTURE_RESULTS, &e, &plan, &err), &err);
  fixture_results_free(results);
  fpl_db_close(db);
}

enum { PHASES_M = 129, DAMAGED_M = 130 };

static int make(void **state) {
  if (scratch_make(state) != 0)
    return -1;
  const struct scratch *const s = *state;
  store_plan(s->path, STORED_M, "chain_sm90", 3072);
  store_plan(s->path, PHASES_M, "phases_sm90", 3072);
  store_plan(s->path, DAMAGED_M, "chain_sm90", 0);
  *cuda = (struct fake_cuda){.sms = 132};
  set_context(&contexts[0]);
  return 0;
}

static struct fuseplan_answer answer_for(fuseplan_store *store, int64_t m) {
  const struct fuseplan_problem p = lib_problem(m);
  const struct fuseplan_device d = lib_device(store);
  struct fuseplan_answer a = {.size = sizeof a};
  assert_int_equal(fuseplan_lookup(store, &p, &d, NULL, &a, NULL), FUSEPLAN_OK);
  return a;
}

static fuseplan_kernel *load(fuseplan_store *store, int64_t m) {
  const struct fuseplan_problem p = lib_problem(m);
  const struct fuseplan_answer a = answer_for(store, m);
  fuseplan_kernel *kernel = NULL;
  struct fuseplan_message message;
  if (fuseplan_kernel_load(store, &p, &a, &kernel, &message) != FUSEPLAN_OK)
    fail_msg("%s", message.text);
  assert_non_null(kernel);
  return kernel;
}

static const struct fuseplan_matrices matrices = {sizeof matrices, 0x1000, 0x2000,
                                                  0x3000,          0x4000, 0x5000};

static void the_device_of_a_context_is_its_stored_class(void **state) {
  fuseplan_store *const store = lib_store(*state);
  struct fuseplan_device d = {.size = sizeof d};
  struct fuseplan_message message;
  assert_int_equal(fuseplan_device_current(store, &d, &message), FUSEPLAN_OK);
  assert_int_equal(d.sms, 132);
  assert_true(d.sm_clock_mhz == 1980.5); /* the profile's: the driver was not asked */
  assert_int_equal(d.hbm_bytes, INT64_C(141000000000));
  assert_int_equal(d.driver, 13000);
  cuda->sms = 114;
  assert_int_equal(fuseplan_device_current(store, &d, &message), FUSEPLAN_NO_PLAN);
  assert_non_null(strstr(message.text, "114 SMs"));
  set_context(NULL);
  assert_int_equal(fuseplan_device_current(store, &d, &message), FUSEPLAN_DEVICE);
  assert_non_null(strstr(message.text, "no CUDA context"));
  fuseplan_close(store);
}

static void a_launch_is_what_the_plan_says(void **state) {
  fuseplan_store *const store = lib_store(*state);
  fuseplan_kernel *const kernel = load(store, STORED_M);
  int stream = 0;
  assert_int_equal(fuseplan_kernel_launch(kernel, 100, &matrices, &stream, NULL), FUSEPLAN_OK);
  assert_int_equal(cuda->n_launches, 1);
  assert_ptr_equal(cuda->stream, &stream);
  assert_ptr_equal(cuda->context, &contexts[0]);
  assert_int_equal(cuda->n_pushes, 0);
  assert_int_equal(cuda->cluster, 2);
  assert_int_equal(cuda->grid, 2 * 2 * 12); /* clusters of 2, for 2 row groups of 12 units */
  assert_false(cuda->is_cooperative);
  assert_int_equal(cuda->m, 100);
  assert_int_equal(cuda->e, 0x4000);
  assert_int_equal(cuda->workspace, 0x5000);
  assert_int_equal(cuda->addresses[0], 0x1000);
  assert_int_equal(cuda->addresses[1], 0x2000);
  assert_int_equal(cuda->addresses[2], 0x3000);
  assert_int_equal(fuseplan_kernel_launch(kernel, 100000, &matrices, &stream, NULL), FUSEPLAN_OK);
  assert_int_equal(cuda->grid, 2 * 60); /* no more than fit at once */
  fuseplan_kernel *const phases = load(store, PHASES_M);
  assert_int_equal(fuseplan_kernel_launch(phases, 1, &matrices, NULL, NULL), FUSEPLAN_OK);
  assert_true(cuda->is_cooperative);
  fuseplan_kernel_release(phases);
  fuseplan_kernel_release(kernel);
  fuseplan_close(store);
}

static void kernels_of_one_context_share_a_module(void **state) {
  fuseplan_store *const store = lib_store(*state);
  fuseplan_kernel *const first = load(store, STORED_M), *const second = load(store, STORED_M);
  assert_ptr_not_equal(first, second);
  assert_int_equal(cuda->n_loads, 1);
  set_context(&contexts[1]);
  fuseplan_kernel *const elsewhere = load(store, STORED_M);
  assert_int_equal(cuda->n_loads, 2);
  fuseplan_kernel_release(first);
  assert_int_equal(cuda->n_unloads, 0);
  /* A launch of the other context's kernel, from here. */
  assert_int_equal(fuseplan_kernel_launch(second, 1, &matrices, NULL, NULL), FUSEPLAN_OK);
  assert_ptr_equal(cuda->context, &contexts[0]);
  assert_int_equal(cuda->n_pushes, 1);
  assert_int_equal(cuda->n_pops, 1);
  fuseplan_kernel_release(second);
  assert_int_equal(cuda->n_unloads, 1);
  fuseplan_kernel_release(elsewhere);
  assert_int_equal(cuda->n_unloads, 2);
  fuseplan_kernel_release(NULL);
  fuseplan_close(store);
}

static void a_launch_that_cannot_be_right_is_refused(void **state) {
  fuseplan_store *const store = lib_store(*state);
  fuseplan_kernel *const kernel = load(store, STORED_M);
  struct fuseplan_message message;
  assert_int_equal(fuseplan_kernel_workspace_bytes(kernel, 64), 4096);
  assert_int_equal(fuseplan_kernel_workspace_bytes(kernel, 65), 2 * 4096);
  assert_int_equal(fuseplan_kernel_workspace_bytes(kernel, 0), -1);
  assert_int_equal(fuseplan_kernel_workspace_bytes(kernel, INT64_MAX), -1);
  assert_int_equal(fuseplan_kernel_workspace_bytes(NULL, 1), -1);
  struct fuseplan_matrices bad[] = {matrices, matrices, matrices, matrices,
                                    matrices, matrices, matrices};
  bad[0].size = 0;
  bad[1].a += 8;
  bad[2].b = 0;
  bad[3].d += 2;
  bad[4].e += 1;
  bad[5].workspace = 0;
  bad[6].workspace += 128;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_equal(fuseplan_kernel_launch(kernel, 1, &bad[i], NULL, &message), FUSEPLAN_USAGE);
    assert_one_line(&message);
  }
  assert_int_equal(fuseplan_kernel_launch(kernel, 1, NULL, NULL, NULL), FUSEPLAN_USAGE);
  assert_int_equal(fuseplan_kernel_launch(NULL, 1, &matrices, NULL, NULL), FUSEPLAN_USAGE);
  assert_int_equal(fuseplan_kernel_launch(kernel, 0, &matrices, NULL, NULL), FUSEPLAN_USAGE);
  assert_int_equal(fuseplan_kernel_launch(kernel, INT64_C(1) << 32, &matrices, NULL, NULL),
                   FUSEPLAN_USAGE);
  assert_int_equal(cuda->n_launches, 0);
  cuda->is_failing_launches = 1;
  assert_int_equal(fuseplan_kernel_launch(kernel, 1, &matrices, NULL, &message), FUSEPLAN_DEVICE);
  assert_non_null(strstr(message.text, "launch: CUDA_ERROR_FAKE"));
  fuseplan_kernel_release(kernel);
  fuseplan_close(store);
}

static void a_load_that_cannot_be_right_is_refused(void **state) {
  fuseplan_store *const store = lib_store(*state);
  const struct fuseplan_answer good = answer_for(store, STORED_M);
  struct fuseplan_problem p = lib_problem(STORED_M);
  fuseplan_kernel *kernel = NULL;
  struct fuseplan_message message;
  struct {
    struct fuseplan_answer answer;
    int status;
  } cases[] = {{good, FUSEPLAN_USAGE}, {good, FUSEPLAN_USAGE}, {good, FUSEPLAN_USAGE},
               {good, FUSEPLAN_USAGE}, {good, FUSEPLAN_USAGE}, {good, FUSEPLAN_USAGE}};
  cases[0].answer.size = 3;
  cases[1].answer.layer = 1;
  cases[2].answer.is_library = 1;
  cases[3].answer.has_kernel = 0;
  cases[4].answer.plan = 12345;
  cases[5].answer.kernel[0] = 'X';
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(fuseplan_kernel_load(store, &p, &cases[i].answer, &kernel, &message),
                     cases[i].status);
    assert_one_line(&message);
    assert_null(kernel);
  }
  p.n = 64;
  assert_int_equal(fuseplan_kernel_load(store, &p, &good, &kernel, &message), FUSEPLAN_USAGE);
  p = lib_problem(DAMAGED_M);
  const struct fuseplan_answer damaged = answer_for(store, DAMAGED_M);
  assert_int_equal(fuseplan_kernel_load(store, &p, &damaged, &kernel, &message),
                   FUSEPLAN_DB_CORRUPT);
  assert_int_equal(cuda->n_unloads, cuda->n_loads);
  set_context(NULL);
  p = lib_problem(STORED_M);
  assert_int_equal(fuseplan_kernel_load(store, &p, &good, &kernel, &message), FUSEPLAN_DEVICE);
  assert_non_null(strstr(message.text, "no CUDA context"));
  fuseplan_close(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(the_device_of_a_context_is_its_stored_class, make,
                                      scratch_remove),
      cmocka_unit_test_setup_teardown(a_launch_is_what_the_plan_says, make, scratch_remove),
      cmocka_unit_test_setup_teardown(kernels_of_one_context_share_a_module, make, scratch_remove),
      cmocka_unit_test_setup_teardown(a_launch_that_cannot_be_right_is_refused, make,
                                      scratch_remove),
      cmocka_unit_test_setup_teardown(a_load_that_cannot_be_right_is_refused, make, scratch_remove),
  };
  return cmocka_run_group_tests(tests, load_fake, NULL);
}

#else

static void needs_the_headers_of_the_toolkit(void **state) {
  (void)state;
  skip();
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(needs_the_headers_of_the_toolkit)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
