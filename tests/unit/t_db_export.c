/* Text export and import. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/db_fixture.h"

static struct fpl_import_counts import_or_fail(struct fpl_db *db, const struct fpl_text *text) {
  struct fpl_import_counts counts;
  struct fpl_err err = {0};
  must(fpl_db_import(db, "plans.jsonl", text->text, text->length, &counts, &err), &err);
  return counts;
}

/* Two problems, one of them tuned twice, one without a plan. */
static struct fpl_db *filled(int64_t m) {
  struct fpl_db *const db = open_or_fail(":memory:", FPL_DB_CREATE);
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(m), q = fixture_problem(m + 1);
  struct fpl_plan plan = fixture_plan(&p, 10);
  fixture_store(db, &p, &d, 10, &plan);
  plan.created_unix = 2000;
  plan.is_library = true;
  fixture_store(db, &p, &d, 11.0 / 3, &plan);
  fixture_store(db, &q, &d, 12, NULL);
  return db;
}

static void exports_equal(struct fpl_db *a, struct fpl_db *b, bool with_cubins) {
  struct fpl_text first = export_or_fail(a, with_cubins), second = export_or_fail(b, with_cubins);
  assert_string_equal(first.text, second.text);
  fpl_text_free(&first);
  fpl_text_free(&second);
}

static void export_import_export_gives_the_same_bytes(void **state) {
  (void)state;
  for (int with_cubins = 0; with_cubins < 2; with_cubins++) {
    struct fpl_db *const a = filled(128), *const b = open_or_fail(":memory:", FPL_DB_CREATE);
    struct fpl_text text = export_or_fail(a, with_cubins != 0);
    const struct fpl_import_counts counts = import_or_fail(b, &text);
    assert_int_equal(counts.n_plans, 2);
    assert_int_equal(counts.n_known, 0);
    assert_int_equal(counts.n_flagged, 0);
    assert_int_equal(counts.n_lines, counts.n_added + 1);
    exports_equal(a, b, with_cubins != 0);
    assert_int_equal(strstr(text.text, "\"cubin\"") != NULL, with_cubins);
    fpl_text_free(&text);
    fpl_db_close(a);
    fpl_db_close(b);
  }
}

static void an_imported_plan_answers_like_the_original(void **state) {
  (void)state;
  struct fpl_db *const a = open_or_fail(":memory:", FPL_DB_CREATE);
  struct fpl_db *const b = open_or_fail(":memory:", FPL_DB_CREATE);
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(128);
  const struct fpl_plan plan = fixture_plan(&p, 10.0 / 3);
  fixture_store(a, &p, &d, 10.0 / 3, &plan);
  struct fpl_text text = export_or_fail(a, true);
  import_or_fail(b, &text);
  fpl_text_free(&text);
  struct fpl_plan from_a, from_b;
  bool found_a = false, found_b = false;
  struct fpl_err err = {0};
  must(fpl_db_find_plan(a, &p, &d, true, &from_a, &found_a, &err), &err);
  must(fpl_db_find_plan(b, &p, &d, true, &from_b, &found_b, &err), &err);
  assert_true(found_a && found_b);
  assert_true(from_a.kernel.cubin_bytes > 0);
  assert_int_equal(from_a.kernel.cubin_bytes, from_b.kernel.cubin_bytes);
  assert_true(memcmp(from_a.kernel.cubin, from_b.kernel.cubin, from_a.kernel.cubin_bytes) == 0);
  assert_string_equal(from_a.kernel.sha, from_b.kernel.sha);
  assert_string_equal(from_a.kernel.name, from_b.kernel.name);
  assert_same_maps(&from_a.kernel, &from_b.kernel);
  assert_int_equal(fpl_kernel_grid(&from_a.kernel, 128), fpl_kernel_grid(&from_b.kernel, 128));
  assert_true(memcmp(&from_a.schedule, &from_b.schedule, sizeof from_a.schedule) == 0);
  const double times_a[] = {from_a.est_us, from_a.measured_us, from_a.measured_hot_us,
                            from_a.library_us};
  const double times_b[] = {from_b.est_us, from_b.measured_us, from_b.measured_hot_us,
                            from_b.library_us};
  assert_true(memcmp(times_a, times_b, sizeof times_a) == 0);
  assert_string_equal(from_a.reason, from_b.reason);
  assert_int_equal(from_a.created_unix, from_b.created_unix);
  assert_string_equal(fpl_environment_get(&from_b.environment, "driver"), "580.65.06");
  fpl_plan_free(&from_a);
  fpl_plan_free(&from_b);
  fpl_db_close(a);
  fpl_db_close(b);
}

static void importing_twice_adds_nothing(void **state) {
  (void)state;
  struct fpl_db *const a = filled(128), *const b = open_or_fail(":memory:", FPL_DB_CREATE);
  struct fpl_text text = export_or_fail(a, false);
  const struct fpl_import_counts first = import_or_fail(b, &text);
  const struct fpl_import_counts second = import_or_fail(b, &text);
  assert_int_equal(second.n_added, 0);
  assert_int_equal(second.n_known, first.n_added);
  const struct fpl_import_counts own = import_or_fail(a, &text);
  assert_int_equal(own.n_added, 0);
  exports_equal(a, b, false);
  fpl_text_free(&text);
  fpl_db_close(a);
  fpl_db_close(b);
}

static void the_order_of_imports_does_not_matter(void **state) {
  (void)state;
  struct fpl_db *const a = filled(128), *const b = filled(128), *const c = filled(64);
  struct fpl_text texts[3] = {export_or_fail(a, true), export_or_fail(b, true),
                              export_or_fail(c, true)};
  struct fpl_db *const forth = open_or_fail(":memory:", FPL_DB_CREATE);
  struct fpl_db *const back = open_or_fail(":memory:", FPL_DB_CREATE);
  for (int i = 0; i < 3; i++) {
    import_or_fail(forth, &texts[i]);
    import_or_fail(back, &texts[2 - i]);
  }
  exports_equal(forth, back, true);
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(128);
  struct fpl_plan one, two;
  bool found_one = false, found_two = false;
  struct fpl_err err = {0};
  must(fpl_db_find_plan(forth, &p, &d, false, &one, &found_one, &err), &err);
  must(fpl_db_find_plan(back, &p, &d, false, &two, &found_two, &err), &err);
  assert_true(found_one && found_two);
  assert_true(one.is_library && two.is_library);
  assert_int_equal(one.created_unix, 2000);
  assert_true(memcmp(&one.measured_us, &two.measured_us, sizeof one.measured_us) == 0);
  for (int i = 0; i < 3; i++)
    fpl_text_free(&texts[i]);
  struct fpl_db *const all[] = {a, b, c, forth, back};
  for (int i = 0; i < 5; i++)
    fpl_db_close(all[i]);
}

static void an_import_brings_cubins_that_were_left_out(void **state) {
  (void)state;
  struct fpl_db *const a = filled(128), *const b = open_or_fail(":memory:", FPL_DB_CREATE);
  struct fpl_text without = export_or_fail(a, false), with = export_or_fail(a, true);
  import_or_fail(b, &without);
  import_or_fail(b, &with);
  exports_equal(a, b, true);
  fpl_text_free(&without);
  fpl_text_free(&with);
  fpl_db_close(a);
  fpl_db_close(b);
}

static void odd_values_survive_the_round_trip(void **state) {
  (void)state;
  struct fpl_db *const a = open_or_fail(":memory:", FPL_DB_CREATE);
  struct fpl_db *const b = open_or_fail(":memory:", FPL_DB_CREATE);
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(128);
  struct fpl_environment e = {0};
  fpl_environment_set(&e, "driver", "580 \xff \"quoted\" \\ \t \xc3\xa9");
  struct fpl_result r = {.is_library = true, .outcome = FPL_OUTCOME_INVALID_TIME, .est_us = NAN};
  snprintf(r.reason, sizeof r.reason, "cut in the middle: \xe2\x82");
  double us[] = {-0.0, -1, NAN, INFINITY, 5e-324, 1.7976931348623157e308, 1e22, 123456789012345680};
  enum { N = sizeof us / sizeof *us };
  r.samples[FPL_HOT] = (struct fpl_samples){us, N};
  r.stats[FPL_HOT] = (struct fpl_stats){.n = N, .median_us = -1, .p05_us = NAN, .p95_us = 0.1};
  r.verification.relative_error = INFINITY;
  struct fpl_err err = {0};
  int64_t run = 0;
  must(fpl_db_begin_run(a, UINT64_MAX, "1", "tune \x80 --only '\n'", &run, &err), &err);
  must(fpl_db_store_problem(a, run, &p, &d, &r, 1, &e, NULL, &err), &err);
  struct fpl_text text = export_or_fail(a, false);
  import_or_fail(b, &text);
  exports_equal(a, b, false);
  if (!strstr(text.text,
              "\"samples\":[0,-1,null,null,4.94065645841247e-324,1.7976931348623157e+308,1e+22,"))
    fail_msg("%s", text.text);
  assert_non_null(strstr(text.text, "cut in the middle: ??"));
  fpl_text_free(&text);
  fpl_db_close(a);
  fpl_db_close(b);
}

static void lines_are_sorted_and_compact(void **state) {
  (void)state;
  struct fpl_db *const db = filled(128);
  struct fpl_text text = export_or_fail(db, false);
  static const char header[] = "{\"format\":\"fuseplan\",\"schema\":3,\"type\":\"header\"}\n"
                               "{\"capability_major\":9,\"capability_minor\":0,\"class\":\"";
  assert_true(strncmp(text.text, header, sizeof header - 1) == 0);
  assert_non_null(strstr(text.text, ",\"samples\":[10,10.1,10.2],\"type\":\"measurement\"}\n"));
  assert_int_equal(text.text[text.length - 1], '\n');
  fpl_text_free(&text);
  fpl_db_close(db);
}

/* `text` with the first `from` replaced by `to`; the caller frees it. */
static struct fpl_text replaced(const struct fpl_text *text, const char *from, const char *to) {
  const char *const at = strstr(text->text, from);
  if (!at)
    fail_msg("the export lacks '%s'", from);
  struct fpl_text out = {0};
  fpl_text_append_bytes(&out, text->text, (size_t)(at - text->text));
  fpl_text_append(&out, "%s%s", to, at + strlen(from));
  assert_false(out.is_broken);
  return out;
}

static const struct {
  const char *from, *to, *message;
} malformed[] = {
    {"{\"format\"", "[{\"format\"", "plans.jsonl:1: not a JSON object"},
    {"\"fuseplan\"", "\"other\"", "plans.jsonl:1: not the header"},
    {"\"schema\":3", "\"schema\":99", "plans.jsonl:1: schema 99 is newer"},
    {"\"schema\":3", "\"schema\":0", "plans.jsonl:1: schema 0"},
    {"\"type\":\"header\"", "\"type\":\"plan\"", "plans.jsonl:1: the first line is not a header"},
    {"{\"format\":\"fuseplan\",\"schema\":3,\"type\":\"header\"}\n", "", "not a header"},
    {"\"type\":\"device_class\"", "\"type\":\"gpu\"", "plans.jsonl:2: type 'gpu' is unknown"},
    {"\"sms\":132", "\"sms\":132,\"sms\":132", "plans.jsonl:2: not a JSON object"},
    {"\"sms\":132", "\"sms\":132,\"smss\":1", "plans.jsonl:2: a device_class has no 'smss'"},
    {"\"sms\":132", "\"sms\":-1", "plans.jsonl:2: sms is -1"},
    {"\"sms\":132", "\"sms\":1e2", "plans.jsonl:2: sms is not an integer"},
    {"\"sms\":132", "\"sms\":99999999999999999999", "plans.jsonl:2: not a JSON object"},
    {"\"sms\":132,", "", "plans.jsonl:2: sms is missing"},
    {"sm_90 sms=132", "sm_90 sms=133", "plans.jsonl:2: key is not that of its class"},
    {"580.65.06", "580.65.07", "plans.jsonl:3: key is not that of its fields"},
    {"\"driver\":\"580.65.06\"", "\"driver\":580", "plans.jsonl:3: fields has a bad field"},
    {"\"text\":\"gemm_chain", "\"text\":\"Gemm_chain", "key is not that of its text"},
    {"\"state\":\"done\"", "\"state\":\"maybe\"", "state 'maybe' is unknown"},
    {"\"cubin\":\"", "\"cubin\":\"!", "cubin is not base64"},
    {"\"cubin\":\"BAQE", "\"cubin\":\"BAQF", "sha is not that of its cubin"},
    {"\"cluster\":2", "\"cluster\":0", "cluster is 0"},
    {"\"map_b_parts\":2", "\"map_b_parts\":0", "map_b_parts is 0"},
    {"\"map_b_parts\":2,", "", "map_b_parts is missing"},
    {"\"map_a_is_image\":true", "\"map_a_is_image\":1", "map_a_is_image is not true or false"},
    {"\"sha\":\"", "\"sha\":\"00", "sha is not 64 hex digits"},
    {"stages=4", "stages=7", "key is not that of this candidate"},
    {"stages=4", "stages=99", "stages"},
    {"\"attempt\":1", "\"attempt\":2", "key is not that of this candidate"},
    {"\"device_class\":\"", "\"device_class\":\"f", "is in no earlier line"},
    {"\"est_us\":0", "\"est_us\":-1", "est_us is not a number >= 0"},
    {"\"was_exact_ok\":false", "\"was_exact_ok\":0", "was_exact_ok is not true or false"},
    {"\"samples\":[", "\"samples\":[\"x\",", "samples[0] is not a number"},
    {"\"cache_state\":\"cold\"", "\"cache_state\":\"warm\"", "cache_state 'warm' is unknown"},
    {"\"provenance\":\"measured\"", "\"provenance\":1", "provenance is not a text"},
    {"fastest of", "fast\\u0000est of", "not a JSON object"},
    {"fastest of",
     "fast\xff"
     "est of",
     "not a JSON object"},
    {"\n", "\n\n", "plans.jsonl:2: not a JSON object"},
};

static void a_malformed_line_refuses_the_whole_file(void **state) {
  (void)state;
  struct fpl_db *const a = filled(128), *const b = open_or_fail(":memory:", FPL_DB_CREATE);
  struct fpl_text text = export_or_fail(a, true), empty = export_or_fail(b, false);
  for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
    struct fpl_text bad = replaced(&text, malformed[i].from, malformed[i].to);
    struct fpl_import_counts counts;
    struct fpl_err err = {0};
    assert_int_equal(fpl_db_import(b, "plans.jsonl", bad.text, bad.length, &counts, &err),
                     FPL_PARSE);
    if (!strstr(err.text, malformed[i].message))
      fail_msg("case %zu: '%s' lacks '%s'", i, err.text, malformed[i].message);
    assert_true(strncmp(err.text, "plans.jsonl:", 12) == 0);
    assert_int_equal(counts.n_added, 0);
    struct fpl_text after = export_or_fail(b, false);
    assert_string_equal(after.text, empty.text);
    fpl_text_free(&after);
    fpl_text_free(&bad);
  }
  fpl_text_free(&text);
  fpl_text_free(&empty);
  fpl_db_close(a);
  fpl_db_close(b);
}

/* What schema 2 added, with the values that every kernel of schema 1 has. */
static const char *const added[] = {"\"map_a_is_image\":false,", "\"map_a_parts\":1,",
                                    "\"map_b_is_image\":false,", "\"map_b_parts\":1,",
                                    "\"map_d_is_image\":false,", "\"map_d_parts\":1,"};

static void replace(struct fpl_text *text, const char *from, const char *to) {
  struct fpl_text out = replaced(text, from, to);
  fpl_text_free(text);
  *text = out;
}

static void a_text_of_schema_1_is_completed(void **state) {
  (void)state;
  struct fpl_db *const a = filled(128), *const b = open_or_fail(":memory:", FPL_DB_CREATE);
  assert_int_equal(sqlite3_exec(a->handle, "UPDATE kernels SET map_a_is_image = 0, map_b_parts = 1",
                                NULL, NULL, NULL),
                   SQLITE_OK);
  struct fpl_text text = export_or_fail(a, true);
  replace(&text, "\"schema\":3", "\"schema\":1");
  for (size_t i = 0; i < sizeof added / sizeof *added; i++)
    replace(&text, added[i], "");
  assert_null(strstr(text.text, "_parts"));
  assert_int_equal(import_or_fail(b, &text).n_flagged, 0);
  exports_equal(a, b, true);
  fpl_text_free(&text);
  fpl_db_close(a);
  fpl_db_close(b);
}

static void a_cut_file_is_refused(void **state) {
  (void)state;
  struct fpl_db *const a = filled(128), *const b = open_or_fail(":memory:", FPL_DB_CREATE);
  struct fpl_text text = export_or_fail(a, false);
  struct fpl_import_counts counts;
  struct fpl_err err = {0};
  assert_int_equal(fpl_db_import(b, "x", text.text, text.length - 5, &counts, &err), FPL_PARSE);
  assert_int_equal(fpl_db_import(b, "x", "", 0, &counts, &err), FPL_PARSE);
  assert_non_null(strstr(err.text, "x:1: empty"));
  fpl_text_free(&text);
  fpl_db_close(a);
  fpl_db_close(b);
}

static void an_illegal_plan_is_stored_flagged_and_never_answers(void **state) {
  (void)state;
  struct fpl_db *const a = open_or_fail(":memory:", FPL_DB_CREATE);
  struct fpl_db *const b = open_or_fail(":memory:", FPL_DB_CREATE);
  struct fpl_device d = fixture_device("h200");
  d.max_cluster = 1; /* the fixture's plan has clusters of 2 */
  const struct fpl_problem p = fixture_problem(128);
  const struct fpl_plan plan = fixture_plan(&p, 10);
  fixture_store(a, &p, &d, 10, &plan);
  struct fpl_text text = export_or_fail(a, false);
  for (int round = 0; round < 2; round++)
    assert_int_equal(import_or_fail(b, &text).n_flagged, 1);
  struct fpl_plan out;
  bool found = true, has_plan = true;
  struct fpl_err err = {0};
  must(fpl_db_find_plan(b, &p, &d, false, &out, &found, &err), &err);
  assert_false(found);
  must(fpl_db_has_plan(b, &p, &d, FPL_PROVENANCE_SIMULATED, &has_plan, &err), &err);
  assert_false(has_plan);
  exports_equal(a, b, false);
  fpl_text_free(&text);
  fpl_db_close(a);
  fpl_db_close(b);
}

static enum fpl_status refuse_bytes(void *context, const char *bytes, size_t length,
                                    struct fpl_err *err) {
  (void)context, (void)bytes, (void)length;
  return fpl_fail(err, FPL_IO, "pipe closed");
}

static void a_failing_sink_ends_the_export(void **state) {
  (void)state;
  struct fpl_db *const db = filled(128);
  struct fpl_err err = {0};
  assert_int_equal(fpl_db_export(db, false, refuse_bytes, NULL, &err), FPL_IO);
  assert_string_equal(err.text, "pipe closed");
  struct fpl_text text = export_or_fail(db, false);
  fpl_text_free(&text);
  fpl_db_close(db);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(export_import_export_gives_the_same_bytes),
      cmocka_unit_test(an_imported_plan_answers_like_the_original),
      cmocka_unit_test(importing_twice_adds_nothing),
      cmocka_unit_test(the_order_of_imports_does_not_matter),
      cmocka_unit_test(an_import_brings_cubins_that_were_left_out),
      cmocka_unit_test(odd_values_survive_the_round_trip),
      cmocka_unit_test(lines_are_sorted_and_compact),
      cmocka_unit_test(a_malformed_line_refuses_the_whole_file),
      cmocka_unit_test(a_text_of_schema_1_is_completed),
      cmocka_unit_test(a_cut_file_is_refused),
      cmocka_unit_test(an_illegal_plan_is_stored_flagged_and_never_answers),
      cmocka_unit_test(a_failing_sink_ends_the_export),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
