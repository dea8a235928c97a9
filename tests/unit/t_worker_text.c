/* The worker's messages and the numbers of a measurement, without a GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tuner/measure/rotation.h"
#include "tuner/measure/worker_text.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char load_text[] =
    "{\"op\":\"load\",\"id\":7,\"kernel\":{\"name\":\"chain_sm90_00000000\",\"cluster\":4,"
    "\"block_threads\":384,\"smem_bytes\":200000,\"rows_per_unit\":128,\"units_per_row\":30,"
    "\"max_clusters\":33,\"workspace_bytes_per_row_group\":4096,\"maps\":["
    "{\"rows\":-1,\"cols\":768,\"box_rows\":128,\"box_cols\":64,\"slabs\":1,"
    "\"parts\":1,\"is_image\":true},"
    "{\"rows\":3072,\"cols\":768,\"box_rows\":64,\"box_cols\":64,\"slabs\":2,"
    "\"parts\":3,\"is_image\":false},"
    "{\"rows\":768,\"cols\":3072,\"box_rows\":64,\"box_cols\":32,\"slabs\":1,"
    "\"parts\":1,\"is_image\":false}]},"
    "\"cubin\":\"/tmp/k.cubin\"}";

static enum fpl_status parse(const char *text, struct fpl_request *out, struct fpl_err *err) {
  *err = (struct fpl_err){0};
  return fpl_request_parse(text, strlen(text), out, err);
}

static void reads_every_field_of_a_launch_descriptor(void **state) {
  (void)state;
  struct fpl_request r;
  struct fpl_err err;
  assert_int_equal(parse(load_text, &r, &err), FPL_OK);
  assert_int_equal(r.op, FPL_OP_LOAD);
  assert_int_equal(r.id, 7);
  assert_false(r.is_library);
  assert_string_equal(r.kernel.name, "chain_sm90_00000000");
  assert_int_equal(r.kernel.cluster, 4);
  assert_int_equal(r.kernel.block_threads, 384);
  assert_int_equal(r.kernel.smem_bytes, 200000);
  assert_int_equal(r.kernel.rows_per_unit, 128);
  assert_int_equal(r.kernel.units_per_row, 30);
  assert_int_equal(r.kernel.max_clusters, 33);
  assert_int_equal(r.kernel.workspace_bytes_per_row_group, 4096);
  assert_int_equal(r.kernel.maps[0].rows, -1);
  assert_int_equal(r.kernel.maps[1].slabs, 2);
  assert_int_equal(r.kernel.maps[1].box_rows, 64);
  assert_int_equal(r.kernel.maps[0].parts, 1);
  assert_int_equal(r.kernel.maps[1].parts, 3);
  assert_int_equal(r.kernel.maps[0].is_image, 1);
  assert_int_equal(r.kernel.maps[1].is_image, 0);
  assert_int_equal(r.kernel.maps[2].cols, 3072);
  assert_int_equal(r.kernel.maps[2].box_cols, 32);
  assert_string_equal(r.cubin, "/tmp/k.cubin");
}

static void reads_open_with_its_problem(void **state) {
  (void)state;
  struct fpl_problem p;
  char text[FPL_PROBLEM_TEXT];
  char message[FPL_PROBLEM_TEXT + 128];
  struct fpl_request r;
  struct fpl_err err = {0};
  assert_int_equal(fpl_problem_make(FPL_KIND_GATED_FFN, FPL_DTYPE_BF16, FPL_ACT_SILU, 128, 8192,
                                    3072, 3072, NULL, &p, &err),
                   FPL_OK);
  fpl_problem_text(&p, text);
  snprintf(message, sizeof message,
           "{\"op\":\"open\",\"device\":1,\"problem\":\"%s\",\"seed\":-3,\"support\":\"s.cubin\"}",
           text);
  assert_int_equal(parse(message, &r, &err), FPL_OK);
  assert_int_equal(r.device, 1);
  assert_int_equal(r.problem.n, 8192);
  assert_int_equal(r.problem.act, FPL_ACT_SILU);
  assert_true(r.seed == (uint64_t)-3);
  assert_string_equal(r.support, "s.cubin");
  assert_false(r.is_untraced);
  message[strlen(message) - 1] = '\0';
  strcat(message, ",\"trace\":false}");
  assert_int_equal(parse(message, &r, &err), FPL_OK);
  assert_true(r.is_untraced);
}

static void reads_the_library_and_the_short_requests(void **state) {
  (void)state;
  struct fpl_request r;
  struct fpl_err err;
  assert_int_equal(parse("{\"op\":\"load\",\"id\":0,\"library\":true}", &r, &err), FPL_OK);
  assert_true(r.is_library);
  assert_int_equal(parse("{\"op\":\"sample\",\"id\":3,\"state\":\"hot\",\"n\":50}", &r, &err),
                   FPL_OK);
  assert_int_equal(r.state, FPL_HOT);
  assert_int_equal(r.n, 50);
  assert_int_equal(parse("{\"op\":\"sample\",\"id\":3,\"state\":\"cold\",\"n\":1}", &r, &err),
                   FPL_OK);
  assert_int_equal(r.state, FPL_COLD);
  assert_int_equal(parse("{\"op\":\"close\"}", &r, &err), FPL_OK);
  assert_int_equal(r.op, FPL_OP_CLOSE);
}

static void refuses_malformed_requests_by_name(void **state) {
  (void)state;
  static const struct {
    const char *text, *named;
  } cases[] = {
      {"", "request"},
      {"[]", "op"},
      {"{\"op\":\"format_disk\"}", "format_disk"},
      {"{\"op\":\"verify\"}", "id"},
      {"{\"op\":\"verify\",\"id\":-1}", "id"},
      {"{\"op\":\"verify\",\"id\":4096}", "id"},
      {"{\"op\":\"verify\",\"id\":\"1\"}", "id"},
      {"{\"op\":\"sample\",\"id\":1,\"state\":\"warm\",\"n\":3}", "warm"},
      {"{\"op\":\"sample\",\"id\":1,\"state\":\"hot\",\"n\":0}", "n"},
      {"{\"op\":\"load\",\"id\":1}", "name"},
      {"{\"op\":\"open\",\"device\":0,\"problem\":\"nonsense\",\"seed\":1,\"support\":\"s\"}", ""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct fpl_request r;
    struct fpl_err err;
    assert_int_equal(parse(cases[i].text, &r, &err), FPL_PARSE);
    assert_non_null(strstr(err.text, cases[i].named));
  }
}

/* Replaces the first `from` of the good load message. */
static enum fpl_status parse_changed(const char *from, const char *to, struct fpl_err *err) {
  char text[2048];
  struct fpl_request r;
  const char *at = strstr(load_text, from);
  assert_non_null(at);
  snprintf(text, sizeof text, "%.*s%s%s", (int)(at - load_text), load_text, to, at + strlen(from));
  return parse(text, &r, err);
}

static void refuses_launch_descriptors_out_of_range(void **state) {
  (void)state;
  struct fpl_err err;
  assert_int_equal(parse_changed("\"cluster\":4", "\"cluster\":4", &err), FPL_OK);
  assert_int_equal(parse_changed("\"cluster\":4", "\"cluster\":32", &err), FPL_PARSE);
  assert_non_null(strstr(err.text, "cluster"));
  assert_int_equal(parse_changed("\"block_threads\":384", "\"block_threads\":2048", &err),
                   FPL_PARSE);
  assert_int_equal(parse_changed("\"rows_per_unit\":128", "\"rows_per_unit\":0", &err), FPL_PARSE);
  assert_int_equal(parse_changed("\"rows\":3072", "\"rows\":0", &err), FPL_PARSE);
  assert_non_null(strstr(err.text, "map 1"));
  assert_int_equal(parse_changed("\"box_rows\":128", "\"box_rows\":512", &err), FPL_PARSE);
  assert_int_equal(parse_changed("\"parts\":3", "\"parts\":0", &err), FPL_PARSE);
  assert_non_null(strstr(err.text, "parts"));
  assert_int_equal(parse_changed("\"is_image\":true", "\"is_image\":1", &err), FPL_PARSE);
  assert_non_null(strstr(err.text, "is_image"));
  assert_non_null(strstr(err.text, "map 0"));
}

static json_t *read_back(struct fpl_text *text) {
  assert_false(text->is_broken);
  json_t *object = json_loadb(text->text, text->length, 0, NULL);
  assert_non_null(object);
  fpl_text_free(text);
  return object;
}

static void answers_failures_with_outcome_and_stickiness(void **state) {
  (void)state;
  struct fpl_failure failure;
  struct fpl_text text = {0};
  assert_false(fpl_failure_candidate(&failure, FPL_OUTCOME_STICKY_ERROR, "illegal \"%d\"", 7));
  fpl_answer_failure(&failure, &text);
  json_t *object = read_back(&text);
  assert_true(json_is_false(json_object_get(object, "ok")));
  assert_true(json_is_true(json_object_get(object, "sticky")));
  assert_string_equal(json_string_value(json_object_get(object, "outcome")), "sticky_error");
  assert_string_equal(json_string_value(json_object_get(object, "reason")), "illegal \"7\"");
  json_decref(object);

  assert_false(fpl_failure_device(&failure, "no driver \xff"));
  fpl_answer_failure(&failure, &text);
  object = read_back(&text);
  assert_null(json_object_get(object, "sticky"));
  assert_string_equal(json_string_value(json_object_get(object, "outcome")), "none");
  json_decref(object);
}

static void answers_samples_as_numbers_even_when_not_finite(void **state) {
  (void)state;
  const double us[] = {12.5, (double)NAN, -3.0};
  const struct fpl_sample_answer sample = {us, 3, FPL_METHOD_CUPTI, 1980, "none"};
  struct fpl_text text = {0};
  fpl_answer_sample(&sample, &text);
  json_t *object = read_back(&text);
  const json_t *list = json_object_get(object, "us");
  assert_int_equal(json_array_size(list), 3);
  assert_true(fabs(json_number_value(json_array_get(list, 0)) - 12.5) < 1e-12);
  assert_true(json_number_value(json_array_get(list, 1)) < 0);
  assert_true(json_number_value(json_array_get(list, 2)) < 0);
  assert_string_equal(json_string_value(json_object_get(object, "method")), "cupti");
  json_decref(object);
}

static void answers_verification_and_environment(void **state) {
  (void)state;
  const struct fpl_verification v = {.was_exact_ok = true, .relative_error = 1e-4};
  struct fpl_environment environment = {0};
  struct fpl_text text = {0};
  fpl_answer_verify(&v, "order-dependent", &text);
  json_t *object = read_back(&text);
  assert_true(json_is_true(json_object_get(object, "exact")));
  assert_true(json_is_false(json_object_get(object, "in_bounds")));
  json_decref(object);
  fpl_environment_set(&environment, "sms", "132");
  fpl_answer_open(&environment, &text);
  object = read_back(&text);
  assert_string_equal(
      json_string_value(json_object_get(json_object_get(object, "environment"), "sms")), "132");
  json_decref(object);
}

static void rotates_over_twice_the_l2_within_its_limits(void **state) {
  (void)state;
  const int64_t mb = 1000000;
  /* 240 MB at least, where the L2 is small; twice a larger L2 */
  assert_int_equal(fpl_rotation_sets(10 * mb, 11 * mb, 60 * mb), 24);
  assert_int_equal(fpl_rotation_sets(10 * mb, 11 * mb, 150 * mb), 30);
  assert_int_equal(fpl_rotation_sets(500 * mb, 600 * mb, 60 * mb), 2);
  assert_int_equal(fpl_rotation_sets(1000, 2000, 60 * mb), 400);
  /* large activations: 24 GB hold 8 sets */
  assert_int_equal(fpl_rotation_sets(10 * mb, 3000 * mb, 60 * mb), 8);
  assert_int_equal(fpl_rotation_sets(10 * mb, 30000 * mb, 60 * mb), 2);
}

static void replays_whole_rotations_of_at_least_8_launches(void **state) {
  (void)state;
  for (int64_t n_sets = 2; n_sets <= 400; n_sets++) {
    const int64_t n = fpl_rotation_launches(n_sets);
    assert_true(n >= 8 && n % n_sets == 0 && n < n_sets + 8);
  }
}

static void keeps_exact_inputs_within_what_the_types_hold(void **state) {
  (void)state;
  static const int64_t extents[][2] = {{512, 32}, {3072, 768}, {16384, 4096}, {28672, 8192}};
  for (size_t i = 0; i < sizeof extents / sizeof extents[0]; i++) {
    const double n = (double)extents[i][0], k = (double)extents[i][1];
    struct fpl_problem p = {
        .kind = FPL_KIND_GEMM_CHAIN, .m = 1, .n = extents[i][0], .k = extents[i][1], .l = 1};
    struct fpl_integer_density density;
    fpl_rotation_density(&p, &density);
    assert_true(density.a > 0 && density.b > 0 && density.d > 0);
    assert_true(density.a < 1 && density.b < 1 && density.d < 1);
    const double c_variance = k * density.a * density.b;
    assert_true(6 * sqrt(c_variance) <= 256.001);
    assert_true(6 * sqrt(n * c_variance * density.d) <= 30000.001);
    p.kind = FPL_KIND_GATED_FFN;
    fpl_rotation_density(&p, &density);
    const double branch_variance = k * density.a * density.b;
    assert_true(6 * branch_variance <= 256.001);
  }
}

static void groups_records_of_a_plan_from_first_start_to_last_end(void **state) {
  (void)state;
  /* two kernels a launch, records in no order; the second launch's kernels overlap */
  struct fpl_span spans[] = {{5000, 7000}, {1000, 2000}, {5500, 6000}, {2500, 4000}};
  double us[2] = {0};
  assert_true(fpl_rotation_group(spans, 4, 2, us));
  assert_true(fabs(us[0] - 3.0) < 1e-9);
  assert_true(fabs(us[1] - 2.0) < 1e-9);
}

static void reports_impossible_records_as_they_are(void **state) {
  (void)state;
  struct fpl_span backwards[] = {{3000, 1000}};
  struct fpl_span three[] = {{1, 2}, {3, 4}, {5, 6}};
  double us[3] = {0};
  assert_true(fpl_rotation_group(backwards, 1, 1, us));
  assert_true(us[0] < 0);
  assert_false(fpl_rotation_group(three, 3, 2, us));
  assert_false(fpl_rotation_group(three, 1, 2, us));
  assert_false(fpl_rotation_group(three, 0, 0, us));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_every_field_of_a_launch_descriptor),
      cmocka_unit_test(reads_open_with_its_problem),
      cmocka_unit_test(reads_the_library_and_the_short_requests),
      cmocka_unit_test(refuses_malformed_requests_by_name),
      cmocka_unit_test(refuses_launch_descriptors_out_of_range),
      cmocka_unit_test(answers_failures_with_outcome_and_stickiness),
      cmocka_unit_test(answers_samples_as_numbers_even_when_not_finite),
      cmocka_unit_test(answers_verification_and_environment),
      cmocka_unit_test(rotates_over_twice_the_l2_within_its_limits),
      cmocka_unit_test(replays_whole_rotations_of_at_least_8_launches),
      cmocka_unit_test(keeps_exact_inputs_within_what_the_types_hold),
      cmocka_unit_test(groups_records_of_a_plan_from_first_start_to_last_end),
      cmocka_unit_test(reports_impossible_records_as_they_are),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
