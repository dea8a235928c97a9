/* Problems: canonical form, text, keys, arithmetic. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tuner/core/problem.h"

#include <stdio.h>
#include <string.h>

static struct fpl_problem make(enum fpl_kind kind, int64_t m, int64_t n, int64_t k, int64_t l) {
  struct fpl_problem p = {0};
  struct fpl_err err = {0};
  if (fpl_problem_make(kind, FPL_DTYPE_F16, FPL_ACT_RELU, m, n, k, l, NULL, &p, &err) != FPL_OK)
    fail_msg("%s", err.text);
  return p;
}

static struct fpl_problem make_conv(struct fpl_conv conv, int64_t n, int64_t l) {
  struct fpl_problem p = {0};
  struct fpl_err err = {0};
  if (fpl_problem_make(FPL_KIND_CONV_CHAIN, FPL_DTYPE_F16, FPL_ACT_RELU, 0, n, 0, l, &conv, &p,
                       &err) != FPL_OK)
    fail_msg("%s", err.text);
  return p;
}

static void test_text(void **state) {
  (void)state;
  char text[FPL_PROBLEM_TEXT];
  const struct fpl_problem p = make(FPL_KIND_GEMM_CHAIN, 128, 3072, 768, 768);
  fpl_problem_text(&p, text);
  assert_string_equal(text, "gemm_chain m=128 n=3072 k=768 l=768 dtype=f16 act=relu");
  const struct fpl_problem conv = make_conv((struct fpl_conv){1, 512, 7, 7, 3}, 512, 2048);
  fpl_problem_text(&conv, text);
  assert_string_equal(text, "conv_chain m=49 n=512 k=4608 l=2048 dtype=f16 act=relu batch=1 "
                            "ic=512 h=7 w=7 k1=3");
}

static void test_round_trip(void **state) {
  (void)state;
  static const char *const texts[] = {
      "gemm_chain m=1 n=1 k=1 l=1 dtype=f16 act=none",
      "gemm_chain m=2147483647 n=1 k=1 l=1 dtype=bf16 act=gelu",
      "gated_ffn m=8192 n=28672 k=8192 l=8192 dtype=bf16 act=silu",
      "conv_chain m=3136 n=64 k=576 l=256 dtype=f16 act=relu batch=1 ic=64 h=56 w=56 k1=3",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    struct fpl_problem p = {0};
    struct fpl_err err = {0};
    char text[FPL_PROBLEM_TEXT];
    if (fpl_problem_parse(texts[i], &p, &err) != FPL_OK)
      fail_msg("%s", err.text);
    fpl_problem_text(&p, text);
    assert_string_equal(text, texts[i]);
  }
}

static void test_field_order(void **state) {
  (void)state;
  struct fpl_problem a, b;
  char key_a[FPL_KEY_HEX], key_b[FPL_KEY_HEX];
  assert_int_equal(fpl_problem_parse("gemm_chain m=1 n=2 k=3 l=4 dtype=f16 act=relu", &a, NULL),
                   FPL_OK);
  assert_int_equal(fpl_problem_parse("gemm_chain act=relu l=4 k=3 n=2 m=1 dtype=f16", &b, NULL),
                   FPL_OK);
  fpl_problem_key(&a, key_a);
  fpl_problem_key(&b, key_b);
  assert_string_equal(key_a, key_b);
}

static void test_bad_texts(void **state) {
  (void)state;
  static const struct {
    const char *text;
    const char *names; /* what the message must name */
  } cases[] = {
      {"", "kind"},
      {"gemm m=1 n=1 k=1 l=1 dtype=f16 act=relu", "'gemm'"},
      {"gemm_chain m=1 n=1 k=1 l=1 dtype=f32 act=relu", "dtype"},
      {"gemm_chain m=1 n=1 k=1 l=1 dtype=f16 act=swish", "act"},
      {"gemm_chain m=1 n=1 k=1 l=1 dtype=f16", "lacks a field"},
      {"gemm_chain m=1 n=1 k=1 l=1 dtype=f16 act=relu w=3", "one too many"},
      {"gemm_chain m=1 m=1 n=1 k=1 l=1 dtype=f16 act=relu", "'m'"},
      {"gemm_chain m=0 n=1 k=1 l=1 dtype=f16 act=relu", "m has bad value"},
      {"gemm_chain m=01 n=1 k=1 l=1 dtype=f16 act=relu", "m has bad value"},
      {"gemm_chain m=-1 n=1 k=1 l=1 dtype=f16 act=relu", "m has bad value"},
      {"gemm_chain m=2147483648 n=1 k=1 l=1 dtype=f16 act=relu", "m is 2147483648"},
      {"gemm_chain m n=1 k=1 l=1 dtype=f16 act=relu", "'m'"},
      {"gemm_chain z=1 m=1 n=1 k=1 l=1 dtype=f16 act=relu", "'z'"},
      {"gemm_chain averyveryverylongname=1 n=1 k=1 l=1 dtype=f16 act=relu", "averyvery"},
      {"conv_chain m=50 n=8 k=27 l=8 dtype=f16 act=relu batch=1 ic=3 h=7 w=7 k1=3", "m or k"},
      {"conv_chain m=49 n=8 k=28 l=8 dtype=f16 act=relu batch=1 ic=3 h=7 w=7 k1=3", "m or k"},
      {"conv_chain m=49 n=8 k=12 l=8 dtype=f16 act=relu batch=1 ic=3 h=7 w=7 k1=2", "k1"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct fpl_problem p;
    struct fpl_err err = {0};
    assert_int_equal(fpl_problem_parse(cases[i].text, &p, &err), FPL_PARSE);
    assert_int_equal(err.code, FPL_PARSE);
    if (!strstr(err.text, cases[i].names))
      fail_msg("'%s' is not named in: %s", cases[i].names, err.text);
  }
  char longer[2 * FPL_PROBLEM_TEXT];
  memset(longer, 'x', sizeof longer - 1);
  longer[sizeof longer - 1] = '\0';
  struct fpl_problem p;
  assert_int_equal(fpl_problem_parse(longer, &p, NULL), FPL_PARSE);
}

static void test_bad_extents(void **state) {
  (void)state;
  static const struct {
    int64_t m, n, k, l;
    const char *message;
  } cases[] = {
      {0, 1, 1, 1, "m is 0: it must lie between 1 and 2147483647"},
      {1, -1, 1, 1, "n is -1: it must lie between 1 and 2147483647"},
      {1, 1, INT64_C(1) << 31, 1, "k is 2147483648: it must lie between 1 and 2147483647"},
      {1, 1, 1, INT64_MIN, "l is -9223372036854775808: it must lie between 1 and 2147483647"},
      {1 << 21, 1 << 21, (1 << 20) + 1, 1, "m*n*k overflows: it must not exceed 2^62"},
      {1 << 21, 1 << 21, 1, (1 << 20) + 1, "m*n*l overflows: it must not exceed 2^62"},
      {INT32_MAX, INT32_MAX, INT32_MAX, 1, "m*n*k overflows: it must not exceed 2^62"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct fpl_problem p = {.m = 77};
    struct fpl_err err = {0};
    assert_int_equal(fpl_problem_make(FPL_KIND_GEMM_CHAIN, FPL_DTYPE_F16, FPL_ACT_RELU, cases[i].m,
                                      cases[i].n, cases[i].k, cases[i].l, NULL, &p, &err),
                     FPL_USAGE);
    assert_string_equal(err.text, cases[i].message);
    assert_int_equal(p.m, 77);
  }
  const struct fpl_problem largest = make(FPL_KIND_GEMM_CHAIN, 1 << 21, 1 << 21, 1 << 20, 1);
  assert_int_equal(largest.k, 1 << 20);
}

static void test_geometry(void **state) {
  (void)state;
  static const struct fpl_conv bad[] = {
      {0, 3, 7, 7, 3}, {1, 0, 7, 7, 3}, {1, 3, 0, 7, 3},  {1, 3, 7, 0, 3},
      {1, 3, 7, 7, 0}, {1, 3, 7, 7, 4}, {1, 3, 7, 7, 17}, {INT32_MAX, 3, INT32_MAX, 7, 3}};
  struct fpl_problem p;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_int_equal(fpl_problem_make(FPL_KIND_CONV_CHAIN, FPL_DTYPE_F16, FPL_ACT_RELU, 0, 8, 0, 8,
                                      &bad[i], &p, NULL),
                     FPL_USAGE);
  const struct fpl_conv good = {2, 3, 5, 7, 3};
  assert_int_equal(fpl_problem_make(FPL_KIND_CONV_CHAIN, FPL_DTYPE_F16, FPL_ACT_RELU, 0, 8, 0, 8,
                                    NULL, &p, NULL),
                   FPL_USAGE);
  assert_int_equal(fpl_problem_make(FPL_KIND_GATED_FFN, FPL_DTYPE_F16, FPL_ACT_RELU, 1, 8, 8, 8,
                                    &good, &p, NULL),
                   FPL_USAGE);
  const struct fpl_problem conv = make_conv(good, 8, 8);
  assert_int_equal(conv.m, 70);
  assert_int_equal(conv.k, 27);
}

static void test_keys(void **state) {
  (void)state;
  struct fpl_problem problems[11];
  for (size_t i = 0; i < 8; i++)
    problems[i] = make(FPL_KIND_GEMM_CHAIN, 16, 32, 48, 64);
  problems[1].m++;
  problems[2].n++;
  problems[3].k++;
  problems[4].l++;
  problems[5].dtype = FPL_DTYPE_BF16;
  problems[6].act = FPL_ACT_GELU;
  problems[7].kind = FPL_KIND_GATED_FFN;
  /* Same m and k, other geometry. */
  problems[8] = make_conv((struct fpl_conv){1, 16, 4, 9, 1}, 32, 64);
  problems[9] = make_conv((struct fpl_conv){1, 16, 9, 4, 1}, 32, 64);
  problems[10] = make_conv((struct fpl_conv){4, 16, 3, 3, 1}, 32, 64);
  char keys[11][FPL_KEY_HEX];
  for (size_t i = 0; i < 11; i++)
    fpl_problem_key(&problems[i], keys[i]);
  for (size_t i = 0; i < 11; i++)
    for (size_t j = 0; j < i; j++)
      assert_string_not_equal(keys[i], keys[j]);
  const struct fpl_problem again = make(FPL_KIND_GEMM_CHAIN, 16, 32, 48, 64);
  char key[FPL_KEY_HEX];
  fpl_problem_key(&again, key);
  assert_string_equal(key, keys[0]);
}

/* sha256sum of the text, first 32 digits: a key outlives compilers and versions. */
static void test_stable_key(void **state) {
  (void)state;
  const struct fpl_problem p = make(FPL_KIND_GEMM_CHAIN, 128, 3072, 768, 768);
  char key[FPL_KEY_HEX];
  fpl_problem_key(&p, key);
  assert_string_equal(key, "2310cc07b6ad2a5fb45c9a67877fc87f");
}

static void test_arithmetic(void **state) {
  (void)state;
  const struct fpl_problem g4 = make(FPL_KIND_GEMM_CHAIN, 128, 3072, 768, 768);
  assert_true(fpl_problem_flops(&g4) == 2.0 * 128 * 3072 * (768 + 768));
  assert_true(fpl_problem_min_bytes(&g4) == 9830400);
  const struct fpl_problem gated = make(FPL_KIND_GATED_FFN, 128, 3072, 1024, 1024);
  assert_int_equal(fpl_problem_branches(&gated), 2);
  assert_true(fpl_problem_flops(&gated) == 2.0 * 128 * 3072 * (2 * 1024 + 1024));
  assert_true(fpl_problem_min_bytes(&gated) ==
              2.0 * (128 * 1024 + 2 * 1024 * 3072 + 3072 * 1024 + 128 * 1024));
  const struct fpl_problem conv = make_conv((struct fpl_conv){1, 64, 56, 56, 3}, 64, 256);
  assert_int_equal(fpl_problem_branches(&conv), 1);
  assert_true(fpl_problem_min_bytes(&conv) ==
              2.0 * (64 * 56 * 56 + 576 * 64 + 64 * 256 + 3136 * 256));
}

static void test_reads(void **state) {
  (void)state;
  static const struct {
    struct fpl_conv conv;
    int64_t elements, reads;
  } cases[] = {
      {{1, 64, 56, 56, 3}, 64 * 56 * 56, 64 * 166 * 166}, /* a border tap misses one pixel a line */
      {{2, 16, 7, 13, 1}, 2 * 16 * 7 * 13, 2 * 16 * 7 * 13},
      {{3, 48, 3, 2, 5}, 3 * 48 * 3 * 2, 3 * 48 * (3 + 2 * 2 + 2 * 1) * (2 + 2 * 1)},
      {{1, 8, 1, 1, 15}, 8, 8},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const struct fpl_problem p = make_conv(cases[i].conv, 64, 64);
    assert_int_equal(fpl_problem_a_elements(&p), cases[i].elements);
    assert_int_equal(fpl_problem_a_reads(&p), cases[i].reads);
  }
  const struct fpl_problem gated = make(FPL_KIND_GATED_FFN, 128, 3072, 1024, 1024);
  assert_int_equal(fpl_problem_a_elements(&gated), 128 * 1024);
  assert_int_equal(fpl_problem_a_reads(&gated), 128 * 1024);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      {"prints its canonical text", test_text, NULL, NULL, NULL},
      {"reads back what it prints", test_round_trip, NULL, NULL, NULL},
      {"reads fields in any order into one key", test_field_order, NULL, NULL, NULL},
      {"names what is wrong with a text", test_bad_texts, NULL, NULL, NULL},
      {"refuses extents out of range and leaves the output alone", test_bad_extents, NULL, NULL,
       NULL},
      {"derives m and k of a convolution from sane geometry only", test_geometry, NULL, NULL, NULL},
      {"gives equal problems equal keys and differing ones different keys", test_keys, NULL, NULL,
       NULL},
      {"keeps its key over versions", test_stable_key, NULL, NULL, NULL},
      {"counts operations and least bytes", test_arithmetic, NULL, NULL, NULL},
      {"reads an image tap by tap, without its padding", test_reads, NULL, NULL, NULL},
  };
  return cmocka_run_group_tests_name("problem", tests, NULL, NULL);
}
