/* Host rules against the compiler: each sampled legal schedule that fits a skeleton compiles
 * without leaving its registers; each illegal one is refused by the host, and the compiler's first
 * message names the same rule.
 *
 *   p_skeleton [N]   legal schedules, and as many illegal ones; 35 by default
 *
 * This program is its own compile worker. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "codegen/build.h"
#include "codegen/cache.h"
#include "codegen/emit.h"
#include "tuner/base/sys.h"
#include "tuner/core/space.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLE_MOST = 10000, SAMPLE_DEFAULT = 35, LOG_BYTES = 1 << 24, JOBS = 2 };
static const double COMPILE_TIMEOUT_US = 120e6;
static const uint64_t SEED = 20;

static const struct subject {
  const char *legal_name; /* of its test */
  struct fpl_problem problem;
} subjects[] = {
    {"legal schedules of a chain compile and stay in registers",
     {FPL_KIND_GEMM_CHAIN, FPL_DTYPE_F16, FPL_ACT_RELU, 128, 3072, 768, 768, {0}}},
    {"legal schedules of a small chain compile and stay in registers",
     {FPL_KIND_GEMM_CHAIN, FPL_DTYPE_BF16, FPL_ACT_GELU, 128, 512, 32, 256, {0}}},
    {"legal schedules of a gated problem compile and stay in registers",
     {FPL_KIND_GATED_FFN, FPL_DTYPE_F16, FPL_ACT_SILU, 128, 8192, 2048, 2048, {0}}},
    {"legal schedules of a gated problem of odd extents compile and stay in registers",
     {FPL_KIND_GATED_FFN, FPL_DTYPE_BF16, FPL_ACT_SILU, 33, 1096, 520, 264, {0}}},
    {"legal schedules of a chain of odd extents compile and stay in registers",
     {FPL_KIND_GEMM_CHAIN, FPL_DTYPE_F16, FPL_ACT_NONE, 200, 1000, 1032, 328, {0}}},
    {"legal schedules of a convolution compile and stay in registers",
     {FPL_KIND_CONV_CHAIN, FPL_DTYPE_F16, FPL_ACT_RELU, 784, 128, 1152, 512, {1, 128, 28, 28, 3}}},
    {"legal schedules of an image of odd extents compile and stay in registers",
     {FPL_KIND_CONV_CHAIN, FPL_DTYPE_BF16, FPL_ACT_SILU, 273, 232, 864, 328, {3, 96, 7, 13, 3}}},
};
enum { N_SUBJECTS = sizeof subjects / sizeof *subjects };
/* Rows of B and D that no tensor map can have. */
static const struct fpl_problem unaligned = {
    FPL_KIND_GEMM_CHAIN, FPL_DTYPE_F16, FPL_ACT_RELU, 128, 508, 260, 132, {0}};
/* An image that no skeleton reads. */
static const struct fpl_problem narrow = {
    FPL_KIND_CONV_CHAIN, FPL_DTYPE_F16, FPL_ACT_RELU, 128, 512, 72, 256, {1, 8, 8, 16, 3}};

/* One schedule with its text. */
struct candidate {
  const struct fpl_problem *problem;
  struct fpl_schedule schedule;
  struct fpl_verdict verdict; /* FPL_RULE_NONE: legal, and a skeleton implements it */
  struct fpl_text source;
};

static struct {
  struct fpl_arena arena;
  char *dir, *cache;
  struct fpl_device device;
  struct fpl_builder *builder;
  int n_wanted; /* legal schedules, and illegal ones */
} place;

static int set_up(void **state) {
  (void)state;
  struct fpl_err err = {0};
  struct fpl_yaml *root = NULL;
  char *self = NULL;
  if (fpl_yaml_read(&place.arena, "profiles/devices/h200.yaml", &root, &err) != FPL_OK ||
      fpl_device_from_yaml(root, &place.device, &err) != FPL_OK ||
      fpl_dir_temporary(&place.arena, "/tmp", "p_skeleton", &place.dir, &err) != FPL_OK ||
      fpl_self_path(&place.arena, &self, &err) != FPL_OK) {
    print_error("%s\n", err.text);
    return -1;
  }
  place.cache = fpl_cache_file(&place.arena, place.dir, "cache");
  const struct fpl_builder_options options = {.cache_dir = place.cache,
                                              .self_path = self,
                                              .jobs = JOBS,
                                              .compile_timeout_us = COMPILE_TIMEOUT_US};
  if (fpl_builder_open(&options, &place.builder, &err) != FPL_OK)
    print_message("skipped: %s\n", err.text);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  fpl_builder_close(place.builder);
  const enum fpl_status status = fpl_dir_remove(place.dir, NULL);
  fpl_arena_free(&place.arena);
  return status == FPL_OK ? 0 : -1;
}

static void need_nvrtc(void) {
  if (!place.builder)
    skip();
}

static struct fpl_verdict ask_host(const struct fpl_problem *p, const struct fpl_schedule *s) {
  struct fpl_tiling t;
  struct fpl_footprint f;
  struct fpl_verdict verdict;
  if (fpl_legal(p, s, &place.device, &t, &f, &verdict))
    (void)fpl_skeleton_fits(p, s, &verdict);
  return verdict;
}

static void print_candidate(const struct candidate *c) {
  char problem[FPL_PROBLEM_TEXT], schedule[FPL_SCHEDULE_TEXT];
  fpl_problem_text(c->problem, problem);
  fpl_schedule_text(&c->schedule, schedule);
  print_error("%s\n  %s\n  host: %s: %s\n", problem, schedule, fpl_rule_names[c->verdict.rule],
              c->verdict.why);
}

/* Adds a candidate, unless it is there already. */
static void add(struct candidate *all, int *n, const struct fpl_problem *p,
                const struct fpl_schedule *s) {
  for (int i = 0; i < *n; i++)
    if (all[i].problem == p && memcmp(&all[i].schedule, s, sizeof *s) == 0)
      return;
  all[(*n)++] =
      (struct candidate){.problem = p, .schedule = *s, .verdict = ask_host(p, s), .source = {0}};
}

/* Draws until n are there that differ. */
static void draw(struct candidate *all, int n, const struct fpl_problem *p, enum fpl_rule rule) {
  struct fpl_schedule *const drawn = calloc((size_t)n, sizeof *drawn);
  assert_non_null(drawn);
  int n_all = 0;
  for (uint64_t turn = 0; n_all < n; turn++) {
    assert_true(turn < 20);
    const int64_t n_drawn =
        fpl_space_sample(p, &place.device, FPL_SPACE_SKELETON, rule, SEED + turn, n - n_all, drawn);
    for (int64_t i = 0; i < n_drawn; i++)
      add(all, &n_all, p, &drawn[i]);
  }
  free(drawn);
}

/* The text of a candidate: all of it, or what is asserted before the kernel, whose body an illegal
 * plan need not wait for. */
enum part { PART_ALL, PART_ASSERTIONS };

/* Compiles all; frees their texts. */
static struct fpl_build_item *compile(struct candidate *all, int n, enum part part) {
  struct fpl_err err = {0};
  struct fpl_build_item *const items = calloc((size_t)n + 1, sizeof *items);
  assert_non_null(items);
  for (int i = 0; i < n; i++) {
    struct fpl_kernel kernel;
    assert_int_equal(
        fpl_emit(all[i].problem, &all[i].schedule, &place.device, &all[i].source, &kernel, &err),
        FPL_OK);
    char *const entry = strstr(all[i].source.text, "extern \"C\"");
    assert_non_null(entry);
    if (part == PART_ASSERTIONS)
      *entry = '\0';
    items[i].source = all[i].source.text;
  }
  if (fpl_builder_compile(place.builder, items, n, NULL, NULL, &err) != FPL_OK)
    fail_msg("%s", err.text);
  for (int i = 0; i < n; i++) {
    free(items[i].cubin);
    items[i].cubin = NULL;
    fpl_text_free(&all[i].source);
  }
  return items;
}

/* All legal; takes `all` over. */
static void check_built(struct candidate *all, int n) {
  struct fpl_build_item *const items = compile(all, n, PART_ALL);
  int n_bad = 0;
  for (int i = 0; i < n; i++) {
    if (all[i].verdict.rule == FPL_RULE_NONE && items[i].outcome == FPL_OUTCOME_BUILT &&
        items[i].spill_bytes == 0 && items[i].stack_bytes == 0)
      continue;
    n_bad++;
    print_candidate(&all[i]);
    print_error("  compiler: %s%s, %d registers, spills %d, stack %d\n",
                fpl_outcome_names[items[i].outcome], items[i].reason, items[i].registers,
                items[i].spill_bytes, items[i].stack_bytes);
  }
  free(items);
  free(all);
  assert_int_equal(n_bad, 0);
}

static void test_legal(void **state) {
  const struct subject *const subject = *state;
  need_nvrtc();
  const int n = (place.n_wanted + N_SUBJECTS - 1) / N_SUBJECTS;
  struct candidate *const all = calloc((size_t)n, sizeof *all);
  assert_non_null(all);
  draw(all, n, &subject->problem, FPL_RULE_NONE);
  check_built(all, n);
}

/* The first static_assert message of a compilation's log; "" if none. */
static void read_first_message(const struct fpl_build_item *item, char *out, size_t size) {
  static const char opening[] = "static assertion failed with \"";
  struct fpl_arena arena = {0};
  char *text = NULL;
  size_t length = 0;
  const char *const path =
      fpl_cache_file(&arena, fpl_cache_entry(&arena, place.cache, item->key), FPL_CACHE_LOG);
  out[0] = '\0';
  if (fpl_file_read(&arena, path, LOG_BYTES, &text, &length, NULL) == FPL_OK) {
    const char *const at = strstr(text, opening);
    if (at)
      snprintf(out, size, "%.*s", (int)strcspn(at + sizeof opening - 1, "\""),
               at + sizeof opening - 1);
  }
  fpl_arena_free(&arena);
}

/* All illegal; takes `all` over. */
static void check_refused(struct candidate *all, int n) {
  struct fpl_build_item *const items = compile(all, n, PART_ASSERTIONS);
  int n_bad = 0;
  for (int i = 0; i < n; i++) {
    const char *const name = fpl_rule_names[all[i].verdict.rule];
    const size_t length = strlen(name);
    char message[256];
    read_first_message(&items[i], message, sizeof message);
    if (all[i].verdict.rule != FPL_RULE_NONE && items[i].outcome == FPL_OUTCOME_COMPILE_ERROR &&
        strncmp(message, name, length) == 0 && message[length] == ':')
      continue;
    n_bad++;
    print_candidate(&all[i]);
    print_error("  compiler: %s: \"%s\" (%s)\n", fpl_outcome_names[items[i].outcome], message,
                items[i].reason);
  }
  free(items);
  free(all);
  assert_int_equal(n_bad, 0);
}

/* Half of the illegal ones: those that one rule is the first to refuse, each rule in turn. */
static void test_refused_by_rule(void **state) {
  (void)state;
  need_nvrtc();
  static const enum fpl_rule rules[] = {
      FPL_RULE_TILE_LIMITS,    FPL_RULE_CLUSTER_SIZE,   FPL_RULE_ACTIVATION,
      FPL_RULE_DEPENDENCY,     FPL_RULE_CAPACITY,       FPL_RULE_SKELETON_KIND,
      FPL_RULE_SKELETON_LOOPS, FPL_RULE_SKELETON_TILES, FPL_RULE_SKELETON_ALIGNMENT};
  enum { N_RULES = sizeof rules / sizeof *rules };
  const int n_each = (place.n_wanted / 2 + N_RULES - 1) / N_RULES;
  struct candidate *const all = calloc((size_t)n_each * N_RULES, sizeof *all);
  assert_non_null(all);
  for (int i = 0; i < N_RULES; i++) {
    struct candidate *const of_rule = all + i * n_each;
    const struct fpl_problem *const p = rules[i] == FPL_RULE_SKELETON_ALIGNMENT ? &unaligned
                                        : rules[i] == FPL_RULE_SKELETON_KIND
                                            ? &narrow
                                            : &subjects[i % N_SUBJECTS].problem;
    draw(of_rule, n_each, p, rules[i]);
    for (int j = 0; j < n_each; j++)
      assert_int_equal(of_rule[j].verdict.rule, rules[i]);
  }
  check_refused(all, n_each * N_RULES);
}

/* One field of a legal schedule changed to a value on the other side of a limit. */
enum { N_CHANGES = 31 };
static void change_one_field(struct fpl_schedule *s, int turn) {
  static const struct {
    int field;
    int32_t value;
  } changes[N_CHANGES] = {{FPL_FIELD_blk_n, 264},
                          {FPL_FIELD_blk_k, 24},
                          {FPL_FIELD_blk_l, 272},
                          {FPL_FIELD_blk_m, 256},
                          {FPL_FIELD_blk_m, 32},
                          {FPL_FIELD_cls_m, 16},
                          {FPL_FIELD_cls_n, 3},
                          {FPL_FIELD_cls_k, 4},
                          {FPL_FIELD_cls_l, 8},
                          {FPL_FIELD_loops, 0},
                          {FPL_FIELD_loops, 7},
                          {FPL_FIELD_loops, 21},
                          {FPL_FIELD_loops, 40},
                          {FPL_FIELD_exchange, FPL_EXCHANGE_REGISTER},
                          {FPL_FIELD_exchange, FPL_EXCHANGE_SMEM},
                          {FPL_FIELD_exchange, FPL_EXCHANGE_DSM},
                          {FPL_FIELD_exchange, FPL_EXCHANGE_L2},
                          {FPL_FIELD_exchange, FPL_EXCHANGE_RECOMPUTE},
                          {FPL_FIELD_reduce, FPL_REDUCE_NONE},
                          {FPL_FIELD_reduce, FPL_REDUCE_DSM},
                          {FPL_FIELD_reduce, FPL_REDUCE_L2},
                          {FPL_FIELD_reduce, FPL_REDUCE_DSM_L2},
                          {FPL_FIELD_gate, FPL_GATE_SPATIAL},
                          {FPL_FIELD_stages, 1},
                          {FPL_FIELD_stages, 9},
                          {FPL_FIELD_stages, 16},
                          {FPL_FIELD_blk_n, 256},
                          {FPL_FIELD_blk_l, 256},
                          {FPL_FIELD_blk_k, 256},
                          {FPL_FIELD_exchange, FPL_EXCHANGE_HBM},
                          {FPL_FIELD_cls_k, 2}};
  fpl_schedule_set(s, changes[turn % N_CHANGES].field, changes[turn % N_CHANGES].value);
}

/* The other half: neighbours of legal schedules. Their number, that of the subjects and that of the
 * changes have no common factor, so that turns combine them in all ways. */
static void test_refused_neighbours(void **state) {
  (void)state;
  need_nvrtc();
  enum { N_DRAWN = 61 };
  static struct fpl_schedule drawn[N_SUBJECTS][N_DRAWN];
  for (int i = 0; i < N_SUBJECTS; i++)
    assert_int_equal(fpl_space_sample(&subjects[i].problem, &place.device, FPL_SPACE_SKELETON,
                                      FPL_RULE_NONE, SEED + 1000, N_DRAWN, drawn[i]),
                     N_DRAWN);
  const int n = (place.n_wanted + 1) / 2;
  struct candidate *const all = calloc((size_t)n, sizeof *all);
  assert_non_null(all);
  int n_all = 0;
  for (int turn = 0; n_all < n && turn < N_SUBJECTS * N_DRAWN * N_CHANGES; turn++) {
    const struct fpl_problem *const p = &subjects[turn % N_SUBJECTS].problem;
    struct fpl_schedule s = drawn[turn % N_SUBJECTS][turn % N_DRAWN];
    change_one_field(&s, turn);
    if (ask_host(p, &s).rule != FPL_RULE_NONE)
      add(all, &n_all, p, &s);
  }
  assert_int_equal(n_all, n);
  check_refused(all, n);
}

/* A schedule of this exchange and reduce for any of the subjects. */
static bool draw_way(enum fpl_exchange exchange, enum fpl_reduce reduce, struct candidate *all,
                     int *n) {
  enum { N_DRAWN = 60, TURNS = 20 };
  for (uint64_t turn = 0; turn < TURNS * N_SUBJECTS; turn++) {
    const struct fpl_problem *const p = &subjects[turn % N_SUBJECTS].problem;
    struct fpl_schedule drawn[N_DRAWN];
    const int64_t n_drawn = fpl_space_sample(p, &place.device, FPL_SPACE_SKELETON, FPL_RULE_NONE,
                                             SEED + 2000 + turn, N_DRAWN, drawn);
    for (int64_t i = 0; i < n_drawn; i++)
      if (drawn[i].exchange == (int32_t)exchange && drawn[i].reduce == (int32_t)reduce) {
        add(all, n, p, &drawn[i]);
        return true;
      }
  }
  return false;
}

static void test_ways(void **state) {
  (void)state;
  need_nvrtc();
  static const struct {
    enum fpl_exchange exchange;
    enum fpl_reduce reduce;
  } ways[] = {{FPL_EXCHANGE_SMEM, FPL_REDUCE_L2},       {FPL_EXCHANGE_SMEM, FPL_REDUCE_DSM_L2},
              {FPL_EXCHANGE_DSM, FPL_REDUCE_NONE},      {FPL_EXCHANGE_DSM, FPL_REDUCE_DSM},
              {FPL_EXCHANGE_DSM, FPL_REDUCE_L2},        {FPL_EXCHANGE_DSM, FPL_REDUCE_DSM_L2},
              {FPL_EXCHANGE_RECOMPUTE, FPL_REDUCE_DSM}, {FPL_EXCHANGE_RECOMPUTE, FPL_REDUCE_L2},
              {FPL_EXCHANGE_L2, FPL_REDUCE_NONE},       {FPL_EXCHANGE_L2, FPL_REDUCE_DSM}};
  enum { N_WAYS = sizeof ways / sizeof *ways };
  struct candidate *const all = calloc(N_WAYS, sizeof *all);
  assert_non_null(all);
  int n = 0;
  for (int i = 0; i < N_WAYS; i++)
    if (!draw_way(ways[i].exchange, ways[i].reduce, all, &n))
      fail_msg("no legal schedule with exchange %s and reduce %s was drawn",
               fpl_exchange_names[ways[i].exchange], fpl_reduce_names[ways[i].reduce]);
  check_built(all, n);
}

static bool read_number(int argc, char **argv, int *out) {
  int64_t n = SAMPLE_DEFAULT;
  if (argc > 2 || (argc == 2 && !fpl_parse_i64(argv[1], 1, SAMPLE_MOST, &n)))
    return false;
  *out = (int)n;
  return true;
}

int main(int argc, char **argv) {
  if (argc >= 3 && strcmp(argv[1], FPL_COMPILE_VERB) == 0) {
    struct fpl_err err;
    return fpl_compile_worker(argv[2], argc > 3 ? argv[3] : NULL, &err) == FPL_OK ? 0 : 5;
  }
  if (!read_number(argc, argv, &place.n_wanted)) {
    fprintf(stderr, "usage: p_skeleton [N]\n");
    return 2;
  }
  struct CMUnitTest tests[N_SUBJECTS + 3] = {0};
  for (int i = 0; i < N_SUBJECTS; i++)
    tests[i] = (struct CMUnitTest){subjects[i].legal_name, test_legal, NULL, NULL,
                                   (void *)(uintptr_t)&subjects[i]};
  tests[N_SUBJECTS] = (struct CMUnitTest)cmocka_unit_test(test_ways);
  tests[N_SUBJECTS].name = "every exchange with every reduction compiles and stays in registers";
  tests[N_SUBJECTS + 1] = (struct CMUnitTest)cmocka_unit_test(test_refused_by_rule);
  tests[N_SUBJECTS + 1].name = "host and compiler name the same rule for each kind of refusal";
  tests[N_SUBJECTS + 2] = (struct CMUnitTest)cmocka_unit_test(test_refused_neighbours);
  tests[N_SUBJECTS + 2].name = "host and compiler name the same rule for neighbours of legal "
                               "schedules";
  cmocka_set_message_output(CM_OUTPUT_TAP);
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
