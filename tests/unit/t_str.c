#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tuner/base/str.h"

#include <string.h>

static void builds_text_that_grows(void **state) {
  (void)state;
  struct fpl_text text = {0};
  for (int i = 0; i < 1000; i++) {
    fpl_text_append(&text, "%d,", i % 10);
  }
  assert_false(text.is_broken);
  assert_int_equal(text.length, 2000);
  assert_int_equal(strlen(text.text), 2000);
  assert_int_equal(strncmp(text.text, "0,1,2,3,4,5,6,7,8,9,0,", 22), 0);
  fpl_text_free(&text);
  assert_null(text.text);
  fpl_text_append(&text, "%s", "");
  assert_string_equal(text.text, "");
  fpl_text_free(&text);
}

static void appends_bytes_with_zeros(void **state) {
  (void)state;
  struct fpl_text text = {0};
  fpl_text_append_bytes(&text, "a\0b", 3);
  fpl_text_append_bytes(&text, NULL, 0);
  assert_int_equal(text.length, 3);
  assert_int_equal(memcmp(text.text, "a\0b", 4), 0);
  fpl_text_free(&text);
}

static void does_nothing_to_a_broken_text(void **state) {
  (void)state;
  struct fpl_text text = {.is_broken = true};
  fpl_text_append(&text, "more");
  fpl_text_append_bytes(&text, "more", 4);
  assert_null(text.text);
  assert_int_equal(text.length, 0);
}

static void parses_whole_integers_in_range_only(void **state) {
  (void)state;
  static const struct {
    const char *text;
    bool is_good;
    int64_t value;
  } cases[] = {
      {"0", true, 0},     {"7", true, 7},       {"-5", true, -5},
      {"100", true, 100}, {"-100", true, -100}, {"101", false, 0},
      {"-101", false, 0}, {"", false, 0},       {"-", false, 0},
      {"+1", false, 0},   {" 1", false, 0},     {"1 ", false, 0},
      {"01", false, 0},   {"-0", false, 0},     {"0x10", false, 0},
      {"1e1", false, 0},  {"1.0", false, 0},    {"99999999999999999999", false, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    int64_t value = 0;
    assert_int_equal(fpl_parse_i64(cases[i].text, -100, 100, &value), cases[i].is_good);
    assert_int_equal(value, cases[i].value);
  }
  int64_t value = 0;
  assert_true(fpl_parse_i64("9223372036854775807", INT64_MIN, INT64_MAX, &value));
  assert_true(value == INT64_MAX);
  assert_true(fpl_parse_i64("-9223372036854775808", INT64_MIN, INT64_MAX, &value));
  assert_true(value == INT64_MIN);
  assert_false(fpl_parse_i64("9223372036854775808", INT64_MIN, INT64_MAX, &value));
}

static void parses_finite_numbers_only(void **state) {
  (void)state;
  static const struct {
    const char *text;
    bool is_good;
    double value;
  } cases[] = {
      {"0", true, 0.0},    {"1.5", true, 1.5},  {"-2e3", true, -2000.0}, {"1e-2", true, 0.01},
      {"nan", false, 0.0}, {"inf", false, 0.0}, {"1e999", false, 0.0},   {"", false, 0.0},
      {"1x", false, 0.0},  {" 1", false, 0.0},  {"0x1p3", false, 0.0},   {"1e", false, 0.0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    double value = 0.0;
    assert_int_equal(fpl_parse_f64(cases[i].text, &value), cases[i].is_good);
    assert_true(value >= cases[i].value && value <= cases[i].value);
  }
}

static void finds_names_by_their_whole_text(void **state) {
  (void)state;
  static const char *const names[] = {"none", "relu", "gelu", NULL};
  assert_int_equal(fpl_name_index(names, "none"), 0);
  assert_int_equal(fpl_name_index(names, "gelu"), 2);
  assert_int_equal(fpl_name_index(names, "rel"), -1);
  assert_int_equal(fpl_name_index(names, "RELU"), -1);
  assert_int_equal(fpl_name_index(names, ""), -1);
}

static void reports_overflow_of_sums_and_products(void **state) {
  (void)state;
  uint64_t out = 0;
  assert_true(fpl_mul_u64(UINT64_C(1) << 32, UINT64_C(1) << 31, &out));
  assert_true(out == UINT64_C(1) << 63);
  assert_false(fpl_mul_u64(UINT64_C(1) << 32, UINT64_C(1) << 32, &out));
  assert_true(fpl_add_u64(UINT64_MAX - 1, 1, &out));
  assert_true(out == UINT64_MAX);
  assert_false(fpl_add_u64(UINT64_MAX, 1, &out));
}

static void rounds_up(void **state) {
  (void)state;
  assert_int_equal(fpl_ceil_div(0, 8), 0);
  assert_int_equal(fpl_ceil_div(8, 8), 1);
  assert_int_equal(fpl_ceil_div(9, 8), 2);
  assert_int_equal(fpl_round_up(9, 8), 16);
  assert_int_equal(fpl_round_up(16, 8), 16);
  assert_int_equal(fpl_min_i64(-1, 2), -1);
  assert_int_equal(fpl_max_i64(-1, 2), 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(builds_text_that_grows),
      cmocka_unit_test(appends_bytes_with_zeros),
      cmocka_unit_test(does_nothing_to_a_broken_text),
      cmocka_unit_test(parses_whole_integers_in_range_only),
      cmocka_unit_test(parses_finite_numbers_only),
      cmocka_unit_test(finds_names_by_their_whole_text),
      cmocka_unit_test(reports_overflow_of_sums_and_products),
      cmocka_unit_test(rounds_up),
  };
  cmocka_set_message_output(CM_OUTPUT_TAP);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
