/* Workload files: the two that ship, m lists, defaults, budgets. Refusals: tests/golden/yaml. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tuner/base/str.h"
#include "tuner/core/workload.h"

#include <stdio.h>
#include <string.h>

static struct fpl_arena arena;
static struct fpl_workload *list;
static size_t n_list;
static double budget_us;

static int free_arena(void **state) {
  (void)state;
  fpl_arena_free(&arena);
  return 0;
}

static enum fpl_status load(const char *text, struct fpl_err *err) {
  struct fpl_yaml *root = NULL;
  const enum fpl_status status = fpl_yaml_parse(&arena, "w", text, strlen(text), &root, err);
  return status == FPL_OK ? fpl_workloads_from_yaml(&arena, root, &list, &n_list, &budget_us, err)
                          : status;
}

static void read_file(const char *path) {
  struct fpl_err err = {0};
  if (fpl_workloads_read(&arena, path, &list, &n_list, &budget_us, &err) != FPL_OK)
    fail_msg("%s", err.text);
}

static const struct fpl_workload *find(const char *id) {
  for (size_t i = 0; i < n_list; i++)
    if (strcmp(list[i].id, id) == 0)
      return &list[i];
  fail_msg("no problem has the id %s", id);
  return NULL;
}

static void check_text(const char *id, const char *expected) {
  char text[FPL_PROBLEM_TEXT];
  fpl_problem_text(&find(id)->problem, text);
  assert_string_equal(text, expected);
}

static void test_paper(void **state) {
  (void)state;
  read_file("profiles/workloads/paper.yaml");
  assert_int_equal(n_list, 26);
  assert_true(budget_us == 0);
  check_text("G1", "gemm_chain m=128 n=512 k=32 l=256 dtype=f16 act=relu");
  check_text("G5", "gemm_chain m=128 n=16384 k=4096 l=4096 dtype=f16 act=relu");
  check_text("C1", "conv_chain m=3136 n=256 k=64 l=64 dtype=f16 act=relu batch=1 ic=64 h=56 w=56 "
                   "k1=1");
  check_text("C8", "conv_chain m=49 n=512 k=4608 l=2048 dtype=f16 act=relu batch=1 ic=512 h=7 "
                   "w=7 k1=3");
  check_text("S8", "gated_ffn m=128 n=3072 k=1024 l=1024 dtype=f16 act=silu");
  assert_string_equal(find("S3")->model, "Llama-2-7b");
}

/* Least bytes of the roofline table (MB): a slip in any extent shows. */
static void test_paper_bytes(void **state) {
  (void)state;
  static const struct {
    const char *id;
    double mb;
  } rows[] = {{"G4", 9.8},   {"G5", 270.5}, {"G6", 17.3},  {"G8", 68.2},
              {"S1", 152.6}, {"S2", 70.3},  {"S3", 272.6}, {"S4", 101.7},
              {"S5", 136.3}, {"S6", 83.4},  {"S7", 150.7}, {"S8", 19.4}};
  read_file("profiles/workloads/paper.yaml");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const double mb = fpl_problem_min_bytes(&find(rows[i].id)->problem) / 1e6;
    assert_true(mb > rows[i].mb - 0.06 && mb < rows[i].mb + 0.06);
  }
}

static void test_llm(void **state) {
  (void)state;
  read_file("profiles/workloads/llm_ffn.yaml");
  assert_true(n_list >= 12 * 7);
  check_text("llama-3.1-8b@m1", "gated_ffn m=1 n=14336 k=4096 l=4096 dtype=bf16 act=silu");
  check_text("llama-3.1-8b@m8192", "gated_ffn m=8192 n=14336 k=4096 l=4096 dtype=bf16 act=silu");
  check_text("gpt2@m64", "gemm_chain m=64 n=3072 k=768 l=768 dtype=bf16 act=gelu");
  assert_true(find("llama-3.1-8b@m1")->calls == 32);
}

static void test_lists(void **state) {
  (void)state;
  struct fpl_err err = {0};
  assert_int_equal(load("schema_version: 1\n"
                        "budget: 1.5h\n"
                        "defaults: {dtype: bf16, act: silu, m: [1, 7]}\n"
                        "problems:\n"
                        "  - {id: a, kind: gated_ffn, n: 64, k: 32, l: 16}\n"
                        "  - {id: b, kind: gemm_chain, m: 5, n: 64, k: 32, l: 16, act: none}\n"
                        "  - {id: c, kind: gemm_chain, m: [3], n: 64, k: 32, l: 16, dtype: f16}\n"
                        "  - {id: d, kind: conv_chain, batch: 2, ic: 3, h: 4, w: 5, oc1: 8, oc2: 9,"
                        " k1: 3, calls: 2.5}\n",
                        &err),
                   FPL_OK);
  assert_int_equal(n_list, 5);
  assert_true(budget_us == 5400e6);
  check_text("a@m1", "gated_ffn m=1 n=64 k=32 l=16 dtype=bf16 act=silu");
  check_text("a@m7", "gated_ffn m=7 n=64 k=32 l=16 dtype=bf16 act=silu");
  check_text("b", "gemm_chain m=5 n=64 k=32 l=16 dtype=bf16 act=none");
  check_text("c@m3", "gemm_chain m=3 n=64 k=32 l=16 dtype=f16 act=silu");
  check_text("d", "conv_chain m=40 n=8 k=27 l=9 dtype=bf16 act=silu batch=2 ic=3 h=4 w=5 k1=3");
  assert_true(find("d")->calls == 2.5);
  assert_true(find("b")->calls == 1);
  assert_string_equal(find("b")->model, "");
  for (size_t i = 1; i < n_list; i++)
    assert_string_not_equal(list[i].id, list[i - 1].id);
}

static void test_bounded(void **state) {
  (void)state;
  struct fpl_text text = {0};
  fpl_text_append(&text, "schema_version: 1\ndefaults: {dtype: f16, act: relu, m: [1");
  for (int m = 2; m <= 300; m++)
    fpl_text_append(&text, ", %d", m);
  fpl_text_append(&text, "]}\nproblems:\n");
  for (int i = 0; i < 300; i++)
    fpl_text_append(&text, "  - {id: p%d, kind: gemm_chain, n: 16, k: 16, l: 16}\n", i);
  struct fpl_err err = {0};
  const enum fpl_status status = load(text.text, &err);
  fpl_text_free(&text);
  assert_int_equal(status, FPL_PARSE);
  assert_string_equal(err.text, "w:222:5: more than 65536 problems: split the file");
}

static void test_long_id(void **state) {
  (void)state;
  char text[512], id[80];
  struct fpl_err err = {0};
  for (int length = 60; length <= 70; length++) {
    memset(id, 'x', (size_t)length);
    id[length] = '\0';
    snprintf(text, sizeof text,
             "schema_version: 1\nproblems:\n  - {id: %s, kind: gemm_chain, m: 1, n: 16, k: 16, "
             "l: 16, dtype: f16, act: relu}\n",
             id);
    assert_int_equal(load(text, &err), length < FPL_WORKLOAD_ID ? FPL_OK : FPL_PARSE);
  }
}

static void test_budget(void **state) {
  (void)state;
  static const struct {
    const char *text;
    double us;
  } good[] = {{"90s", 90e6}, {"10m", 600e6}, {"6h", 21600e6}, {"0.5s", 0.5e6}, {"1.5h", 5400e6}};
  static const char *const bad[] = {"",
                                    "s",
                                    "10",
                                    "-10m",
                                    "0s",
                                    "10 m",
                                    "10M",
                                    "m10",
                                    "10m10",
                                    "nanm",
                                    "infh",
                                    "1e9h",
                                    "1h30m",
                                    "--1s",
                                    " 1s",
                                    "1e999s",
                                    "0x10s",
                                    "10d",
                                    "11111111111111111111111111111111s"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    double us = 0;
    assert_true(fpl_budget_parse(good[i].text, &us));
    assert_true(us == good[i].us);
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    double us = -1;
    assert_false(fpl_budget_parse(bad[i], &us));
    assert_true(us == -1);
  }
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      {"reads the 26 workloads of the paper", test_paper, NULL, free_arena, NULL},
      {"agrees with the paper's roofline on least bytes", test_paper_bytes, NULL, free_arena, NULL},
      {"reads the FFNs of language models", test_llm, NULL, free_arena, NULL},
      {"expands m lists and applies defaults", test_lists, NULL, free_arena, NULL},
      {"bounds the product of m values and problems", test_bounded, NULL, free_arena, NULL},
      {"refuses ids of 64 characters", test_long_id, NULL, free_arena, NULL},
      {"reads budgets above 0 with a unit", test_budget, NULL, NULL, NULL},
  };
  return cmocka_run_group_tests_name("workload", tests, NULL, NULL);
}
