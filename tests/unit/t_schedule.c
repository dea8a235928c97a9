/* Schedules: the 41 loops, the field list, text and keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tuner/core/schedule.h"

#include <stdio.h>
#include <string.h>

static const char *const sample = "loops=mn|lk cls_m=1 cls_n=4 cls_k=2 cls_l=4 blk_m=128 blk_n=64 "
                                  "blk_k=64 blk_l=128 exchange=dsm reduce=dsm_l2 gate=sequential "
                                  "stages=4";

/* xorshift64 (Marsaglia): the same schedules in every run. */
static uint32_t next_random(uint64_t *seed) {
  *seed ^= *seed << 13;
  *seed ^= *seed >> 7;
  *seed ^= *seed << 17;
  return (uint32_t)(*seed >> 32);
}

static struct fpl_schedule random_schedule(uint64_t *seed) {
  struct fpl_schedule s = {0};
  for (int i = 0; i < FPL_N_FIELDS; i++) {
    const struct fpl_schedule_field *const f = &fpl_schedule_fields[i];
    const uint32_t range = (uint32_t)(f->most - f->least) + 1;
    fpl_schedule_set(&s, i, f->least + (int32_t)(next_random(seed) % range));
  }
  return s;
}

static void test_loop_table(void **state) {
  (void)state;
  for (int i = 0; i < FPL_N_LOOPS; i++) {
    const struct fpl_loops *const loops = fpl_loops_get(i);
    char name[8] = "";
    size_t used = 0;
    for (int d = 0; d < FPL_DIMS; d++)
      if (loops->is_spatial[d])
        name[used++] = "mnkl"[d];
    name[used++] = '|';
    for (int t = 0; t < loops->n_temporal; t++) {
      assert_false(loops->is_spatial[loops->temporal[t]]);
      name[used++] = "mnkl"[loops->temporal[t]];
    }
    assert_int_equal(used, 5);
    assert_string_equal(fpl_loops_names[i], name);
    assert_int_equal(fpl_loops_index(name), i);
  }
  assert_null(fpl_loops_names[FPL_N_LOOPS]);
  assert_int_equal(fpl_loops_index("nm|lk"), -1);
  assert_int_equal(fpl_loops_index(""), -1);
}

/* binom(4,s) (4-s)! schedules with s spatial dimensions, none twice (FlashFuser, Table IV). */
static void test_loop_counts(void **state) {
  (void)state;
  const int expected[FPL_DIMS + 1] = {0, 24, 12, 4, 1};
  int counts[FPL_DIMS + 1] = {0};
  for (int i = 0; i < FPL_N_LOOPS; i++) {
    counts[FPL_DIMS - fpl_loops_get(i)->n_temporal]++;
    for (int j = 0; j < i; j++)
      assert_string_not_equal(fpl_loops_names[i], fpl_loops_names[j]);
  }
  assert_memory_equal(counts, expected, sizeof expected);
}

static void test_fields(void **state) {
  (void)state;
  assert_string_equal(fpl_schedule_fields[FPL_FIELD_loops].name, "loops");
  assert_string_equal(fpl_schedule_fields[FPL_FIELD_stages].name, "stages");
  struct fpl_schedule s = {0};
  for (int i = 0; i < FPL_N_FIELDS; i++) {
    const struct fpl_schedule_field *const f = &fpl_schedule_fields[i];
    fpl_schedule_set(&s, i, f->least + 1);
    assert_int_equal(fpl_schedule_get(&s, i), f->least + 1);
    if (f->names) {
      int n = 0;
      while (f->names[n])
        n++;
      assert_int_equal(f->least, 0);
      assert_int_equal(f->most, n - 1);
    }
  }
  assert_int_equal(s.cls_m, 2);
  assert_int_equal(s.stages, 2);
}

static void test_text(void **state) {
  (void)state;
  struct fpl_schedule s = {0};
  struct fpl_err err = {0};
  char text[FPL_SCHEDULE_TEXT];
  assert_int_equal(fpl_schedule_parse(sample, &s, &err), FPL_OK);
  assert_int_equal(s.loops, fpl_loops_index("mn|lk"));
  assert_int_equal(s.cls_n, 4);
  assert_int_equal(s.exchange, FPL_EXCHANGE_DSM);
  assert_int_equal(s.reduce, FPL_REDUCE_DSM_L2);
  assert_int_equal(s.gate, FPL_GATE_SEQUENTIAL);
  fpl_schedule_text(&s, text);
  assert_string_equal(text, sample);
}

static void test_round_trip(void **state) {
  (void)state;
  uint64_t seed = UINT64_C(0x9e3779b97f4a7c15);
  for (int i = 0; i < 20000; i++) {
    const struct fpl_schedule s = random_schedule(&seed);
    struct fpl_schedule back = {0};
    struct fpl_err err = {0};
    char text[FPL_SCHEDULE_TEXT];
    fpl_schedule_text(&s, text);
    if (fpl_schedule_parse(text, &back, &err) != FPL_OK)
      fail_msg("%s: %s", text, err.text);
    assert_memory_equal(&s, &back, sizeof s);
  }
}

/* The longest text fits, so that nothing is ever cut. */
static void test_longest_text(void **state) {
  (void)state;
  struct fpl_schedule s = {0};
  char text[FPL_SCHEDULE_TEXT];
  for (int i = 0; i < FPL_N_FIELDS; i++) {
    const struct fpl_schedule_field *const f = &fpl_schedule_fields[i];
    int32_t longest = f->most;
    for (int32_t v = 0; f->names && v <= f->most; v++)
      if (strlen(f->names[v]) > strlen(f->names[longest]))
        longest = v;
    fpl_schedule_set(&s, i, longest);
  }
  fpl_schedule_text(&s, text);
  assert_true(strlen(text) + 1 < FPL_SCHEDULE_TEXT);
  assert_non_null(strstr(text, " stages=16"));
}

static void test_field_order(void **state) {
  (void)state;
  struct fpl_schedule a, b;
  assert_int_equal(fpl_schedule_parse(sample, &a, NULL), FPL_OK);
  assert_int_equal(
      fpl_schedule_parse("stages=4 gate=sequential reduce=dsm_l2 exchange=dsm blk_l=128 blk_k=64 "
                         "blk_n=64 blk_m=128 cls_l=4 cls_k=2 cls_n=4 cls_m=1 loops=mn|lk",
                         &b, NULL),
      FPL_OK);
  assert_memory_equal(&a, &b, sizeof a);
}

static void test_bad_texts(void **state) {
  (void)state;
  static const struct {
    const char *from, *to; /* the edit that spoils the sample */
    const char *message;
  } cases[] = {
      {"loops=mn|lk", "loops=nm|lk", "schedule field loops has bad value 'nm|lk'"},
      {"loops=mn|lk", "loops=25", "schedule field loops has bad value '25'"},
      {"cls_n=4", "cls_n=0", "schedule field cls_n has bad value '0'"},
      {"cls_n=4", "cls_n=17", "schedule field cls_n has bad value '17'"},
      {"cls_n=4", "cls_n=04", "schedule field cls_n has bad value '04'"},
      {"cls_n=4", "cls_n=", "schedule field cls_n has bad value ''"},
      {"blk_m=128", "blk_m=-1", "schedule field blk_m has bad value '-1'"},
      {"blk_m=128", "blk_m=99999999999", "schedule field blk_m has bad value '99999999999'"},
      {"exchange=dsm", "exchange=sram", "schedule field exchange has bad value 'sram'"},
      {"gate=sequential ", "", "schedule text lacks field 'gate'"},
      {"gate=sequential", "cls_m=1", "schedule field 'cls_m' stands twice"},
      {"stages=4", "depth=4", "schedule field 'depth=4' is unknown"},
      {"stages=4", "stages", "schedule field 'stages' is unknown"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[FPL_SCHEDULE_TEXT];
    const char *const at = strstr(sample, cases[i].from);
    assert_non_null(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - sample), sample, cases[i].to,
             at + strlen(cases[i].from));
    struct fpl_schedule s = {.stages = 99};
    struct fpl_err err = {0};
    assert_int_equal(fpl_schedule_parse(text, &s, &err), FPL_PARSE);
    assert_string_equal(err.text, cases[i].message);
    assert_int_equal(s.stages, 99);
  }
  char longer[2 * FPL_SCHEDULE_TEXT];
  memset(longer, 'x', sizeof longer - 1);
  longer[sizeof longer - 1] = '\0';
  struct fpl_schedule s;
  assert_int_equal(fpl_schedule_parse(longer, &s, NULL), FPL_PARSE);
}

static void test_keys(void **state) {
  (void)state;
  struct fpl_schedule s;
  char key[FPL_KEY_HEX], other[FPL_KEY_HEX];
  assert_int_equal(fpl_schedule_parse(sample, &s, NULL), FPL_OK);
  fpl_schedule_key(&s, key);
  for (int i = 0; i < FPL_N_FIELDS; i++) {
    struct fpl_schedule differing = s;
    const struct fpl_schedule_field *const f = &fpl_schedule_fields[i];
    const int32_t value = fpl_schedule_get(&s, i);
    fpl_schedule_set(&differing, i, value == f->most ? f->least : value + 1);
    fpl_schedule_key(&differing, other);
    assert_string_not_equal(key, other);
  }
  const struct fpl_schedule same = s;
  fpl_schedule_key(&same, other);
  assert_string_equal(key, other);
}

static void test_deterministic(void **state) {
  (void)state;
  static const bool expected[] = {[FPL_REDUCE_NONE] = true,
                                  [FPL_REDUCE_DSM] = true,
                                  [FPL_REDUCE_L2] = false,
                                  [FPL_REDUCE_DSM_L2] = false};
  for (int reduce = FPL_REDUCE_NONE; reduce <= FPL_REDUCE_DSM_L2; reduce++) {
    const struct fpl_schedule s = {.reduce = reduce};
    assert_int_equal(fpl_schedule_is_deterministic(&s), expected[reduce]);
  }
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      {"names each loop schedule by its table row", test_loop_table, NULL, NULL, NULL},
      {"has 24, 12, 4 and 1 loop schedules", test_loop_counts, NULL, NULL, NULL},
      {"reaches every field through its number", test_fields, NULL, NULL, NULL},
      {"prints what it reads", test_text, NULL, NULL, NULL},
      {"reads back 20000 random schedules", test_round_trip, NULL, NULL, NULL},
      {"has room for the longest text", test_longest_text, NULL, NULL, NULL},
      {"reads fields in any order", test_field_order, NULL, NULL, NULL},
      {"names what is wrong with a text and leaves the output alone", test_bad_texts, NULL, NULL,
       NULL},
      {"is deterministic unless clusters add in L2", test_deterministic, NULL, NULL, NULL},
      {"changes its key with every field", test_keys, NULL, NULL, NULL},
  };
  return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
