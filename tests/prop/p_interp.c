/* The analyzer's closed forms against the interpreter's counted movements, on generated legal
 * schedules of small problems. argv[1]: number of schedules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "costmodel/analyzer.h"
#include "costmodel/interp.h"

#include <stdlib.h>
#include <string.h>

enum { DEFAULT_SCHEDULES = 10500, TRIES = 4000, REALS_EVERY = 8, MOST_REPORTED = 2 };

static size_t n_schedules = DEFAULT_SCHEDULES;

/* H200's limits (CUDA programming guide, compute capability 9.0). */
static const struct fpl_device device = {.smem_bytes_per_block = 232448, .max_cluster = 16};

static const char *const problem_texts[] = {
    "gemm_chain m=16 n=16 k=16 l=16 dtype=f16 act=none",
    "gemm_chain m=64 n=64 k=64 l=64 dtype=f16 act=relu",
    "gemm_chain m=128 n=64 k=32 l=96 dtype=bf16 act=relu",
    "gemm_chain m=33 n=65 k=47 l=31 dtype=f16 act=none",
    "gemm_chain m=1 n=160 k=64 l=96 dtype=f16 act=relu",
    "gemm_chain m=7 n=127 k=129 l=63 dtype=bf16 act=none",
    "gemm_chain m=96 n=96 k=16 l=160 dtype=f16 act=relu",
    "gemm_chain m=130 n=50 k=20 l=70 dtype=f16 act=gelu",
    "gemm_chain m=64 n=128 k=16 l=256 dtype=bf16 act=relu",
    "gemm_chain m=256 n=96 k=16 l=64 dtype=f16 act=relu",
    "gemm_chain m=64 n=48 k=16 l=512 dtype=f16 act=relu",
    "gated_ffn m=64 n=64 k=64 l=64 dtype=f16 act=relu",
    "gated_ffn m=32 n=96 k=32 l=128 dtype=f16 act=none",
    "gated_ffn m=17 n=100 k=75 l=45 dtype=bf16 act=silu",
    "gated_ffn m=1 n=144 k=80 l=48 dtype=f16 act=relu",
    "gated_ffn m=100 n=33 k=65 l=33 dtype=f16 act=none",
    "gated_ffn m=65 n=129 k=17 l=129 dtype=bf16 act=relu",
    "gated_ffn m=128 n=32 k=48 l=32 dtype=f16 act=gelu",
    "gated_ffn m=100 n=48 k=16 l=240 dtype=f16 act=relu",
    "conv_chain m=64 n=32 k=72 l=48 dtype=f16 act=relu batch=1 ic=8 h=8 w=8 k1=3",
    "conv_chain m=70 n=40 k=45 l=24 dtype=bf16 act=none batch=2 ic=5 h=5 w=7 k1=3",
    "conv_chain m=49 n=64 k=16 l=64 dtype=f16 act=relu batch=1 ic=16 h=7 w=7 k1=1",
    "conv_chain m=36 n=96 k=75 l=33 dtype=f16 act=silu batch=1 ic=3 h=6 w=6 k1=5",
    "conv_chain m=150 n=40 k=9 l=160 dtype=bf16 act=relu batch=2 ic=1 h=5 w=15 k1=3",
    "conv_chain m=108 n=17 k=18 l=80 dtype=f16 act=none batch=3 ic=2 h=4 w=9 k1=3",
};
enum { N_PROBLEMS = sizeof problem_texts / sizeof *problem_texts };

enum trait {
  TRAIT_ALL_EXCHANGE_ADD,
  TRAIT_ALL_EXCHANGE_MUL,
  TRAIT_SHUFFLE,
  TRAIT_REDUCE_SCATTER_E,
  TRAIT_REDUCE_SCATTER_C,
  TRAIT_INTER_CLUSTER,
  TRAIT_GATE_SEQUENTIAL,
  TRAIT_GATE_SPATIAL,
  TRAIT_K_STEPS,
  TRAIT_K_SPLIT,
  TRAIT_MASKED,
  TRAIT_EMPTY_BLOCKS,
  TRAIT_STRIPS_KEPT,
  TRAIT_SUMS_IN_REGISTERS,
  TRAIT_SUMS_IN_SMEM,
  TRAIT_ROWS_ABOVE_64,
  TRAIT_REALS,
  N_TRAITS
};
static const char *const trait_names[N_TRAITS] = {"all_exchange add",
                                                  "all_exchange mul",
                                                  "shuffle",
                                                  "reduce_scatter of E",
                                                  "reduce_scatter of C",
                                                  "inter_cluster_reduce",
                                                  "gate sequential",
                                                  "gate spatial",
                                                  "several k steps",
                                                  "k split over layers",
                                                  "masked tiles",
                                                  "empty blocks",
                                                  "several strips kept",
                                                  "E sums wait in registers",
                                                  "E sums wait in smem",
                                                  "blk_m above 64",
                                                  "random reals"};

static struct {
  size_t schedules, problems[N_PROBLEMS], exchange[6], reduce[4], loops[FPL_N_LOOPS];
  size_t traits[N_TRAITS], conv;
} seen;

static uint64_t random_state = UINT64_C(0x2545f4914f6cdd1d);

/* xorshift64* (Vigna 2016). */
static uint64_t draw(void) {
  random_state ^= random_state >> 12;
  random_state ^= random_state << 25;
  random_state ^= random_state >> 27;
  return random_state * UINT64_C(2685821657736338717);
}

static int32_t pick(const int32_t *from, size_t n) {
  return from[(draw() >> 33) % n];
}

static void draw_schedule(const struct fpl_problem *p, enum fpl_exchange exchange,
                          struct fpl_schedule *s) {
  static const int32_t cls[] = {1, 1, 1, 1, 1, 2, 2, 2, 4, 4, 8, 16};
  static const int32_t blk[] = {16, 16, 32, 32, 48, 64, 80, 96, 128};
  const size_t n_cls = sizeof cls / sizeof *cls, n_blk = sizeof blk / sizeof *blk;
  const bool is_two_phase = exchange == FPL_EXCHANGE_L2 || exchange == FPL_EXCHANGE_HBM;
  const bool is_alone = !is_two_phase && exchange != FPL_EXCHANGE_DSM;
  /* Two phases: a ring of one stage seldom holds two of the second. */
  *s = (struct fpl_schedule){.exchange = (int32_t)exchange, .stages = is_two_phase ? 4 : 1};
  s->loops = is_two_phase ? fpl_loops_index("mnl|k") : (int32_t)((draw() >> 33) % FPL_N_LOOPS);
  s->cls_m = pick(cls, n_cls);
  s->cls_n = pick(cls, n_cls);
  s->cls_k = is_alone ? 1 : pick(cls, n_cls);
  s->cls_l = is_alone ? 1 : pick(cls, n_cls);
  s->blk_m = pick(blk, n_blk);
  s->blk_n = pick(blk, n_blk);
  s->blk_k = pick(blk, n_blk);
  s->blk_l = pick(blk, n_blk);
  s->reduce = (int32_t)((draw() >> 33) % 4);
  if (p->kind == FPL_KIND_GATED_FFN && exchange == FPL_EXCHANGE_DSM && draw() >> 63) {
    s->gate = FPL_GATE_SPATIAL;
    s->cls_k = 2;
  }
}

/* Rare dataflows get turns of their own. */
enum wish { WISH_ANY, WISH_STRIPS_KEPT, WISH_SUMS_KEPT, WISH_SUMS_IN_SMEM, WISH_ALL_REDUCTIONS };
static const enum wish wishes[] = {WISH_ANY, WISH_STRIPS_KEPT,  WISH_ANY, WISH_SUMS_KEPT,
                                   WISH_ANY, WISH_SUMS_IN_SMEM, WISH_ANY, WISH_ALL_REDUCTIONS};

static bool is_wished(enum wish wish, const struct fpl_schedule *s, const struct fpl_tiling *t,
                      const struct fpl_footprint *f) {
  switch (wish) {
  case WISH_ANY:
    return true;
  case WISH_STRIPS_KEPT:
    return t->c_kept > 1;
  case WISH_SUMS_KEPT:
    return t->e_kept > 1;
  case WISH_SUMS_IN_SMEM:
    /* in a cluster: over strips of which the last is not full */
    return f->e_home == FPL_HOME_SMEM &&
           (s->exchange != FPL_EXCHANGE_DSM || t->tiles[FPL_DIM_N] % t->shuffle != 0);
  case WISH_ALL_REDUCTIONS:
    return s->reduce == FPL_REDUCE_DSM_L2;
  }
  return false;
}

static uint64_t hash_candidate(size_t problem, const struct fpl_schedule *s) {
  uint64_t hash = UINT64_C(14695981039346656037) ^ problem;
  for (int i = 0; i < FPL_N_FIELDS; i++)
    hash = (hash ^ (uint64_t)fpl_schedule_get(s, i)) * UINT64_C(1099511628211);
  return hash | 1;
}

/* Open addressing; zero is empty. False when it was there already. */
static bool insert(uint64_t *set, size_t capacity, uint64_t hash) {
  size_t at = (size_t)(hash >> 20) % capacity;
  for (; set[at]; at = (at + 1) % capacity)
    if (set[at] == hash)
      return false;
  set[at] = hash;
  return true;
}

static void note_traits(const struct fpl_problem *p, const struct fpl_schedule *s,
                        const struct fpl_tiling *t, const struct fpl_footprint *f,
                        const struct fpl_traffic *traffic) {
  const bool is_two_phase = s->exchange == FPL_EXCHANGE_L2 || s->exchange == FPL_EXCHANGE_HBM;
  const bool is_gated = p->kind == FPL_KIND_GATED_FFN;
  const bool is_scattered = s->reduce == FPL_REDUCE_DSM || s->reduce == FPL_REDUCE_DSM_L2;
  const bool has[N_TRAITS] = {
      [TRAIT_ALL_EXCHANGE_ADD] = traffic->dsm.all_exchange > 0 && s->gate == FPL_GATE_SEQUENTIAL,
      [TRAIT_ALL_EXCHANGE_MUL] = traffic->dsm.all_exchange > 0 && s->gate == FPL_GATE_SPATIAL,
      [TRAIT_SHUFFLE] = traffic->dsm.shuffle > 0,
      [TRAIT_REDUCE_SCATTER_E] = traffic->dsm.reduce_scatter > 0 && is_scattered,
      [TRAIT_REDUCE_SCATTER_C] = traffic->dsm.reduce_scatter > 0 && is_two_phase && s->cls_k > 1,
      [TRAIT_INTER_CLUSTER] = traffic->l2_reduce_bytes > 0,
      [TRAIT_GATE_SEQUENTIAL] = is_gated && s->gate == FPL_GATE_SEQUENTIAL,
      [TRAIT_GATE_SPATIAL] = is_gated && s->gate == FPL_GATE_SPATIAL,
      [TRAIT_K_STEPS] = t->steps[FPL_DIM_K] > 1,
      [TRAIT_K_SPLIT] = t->k_layers > 1,
      [TRAIT_MASKED] = p->m % s->blk_m || p->n % s->blk_n || p->k % s->blk_k || p->l % s->blk_l,
      [TRAIT_EMPTY_BLOCKS] =
          t->tiles[FPL_DIM_M] < t->steps[FPL_DIM_M] * s->cls_m ||
          t->tiles[FPL_DIM_N]<t->steps[FPL_DIM_N] * s->cls_n, [TRAIT_STRIPS_KEPT] = t->c_kept> 1,
      [TRAIT_SUMS_IN_REGISTERS] = t->e_kept > 1 && f->e_home == FPL_HOME_REGISTER,
      [TRAIT_SUMS_IN_SMEM] = f->e_home == FPL_HOME_SMEM,
      [TRAIT_ROWS_ABOVE_64] = s->blk_m > 64,
  };
  for (int i = 0; i < N_TRAITS; i++)
    seen.traits[i] += has[i];
  seen.exchange[s->exchange]++;
  seen.reduce[s->reduce]++;
  seen.loops[s->loops]++;
  seen.conv += p->kind == FPL_KIND_CONV_CHAIN;
  seen.schedules++;
}

static bool is_equal_traffic(const struct fpl_traffic *a, const struct fpl_traffic *b) {
  for (int level = 0; level < FPL_LEVELS; level++)
    if (a->bytes[level] != b->bytes[level])
      return false;
  return a->dsm.all_exchange == b->dsm.all_exchange && a->dsm.shuffle == b->dsm.shuffle &&
         a->dsm.reduce_scatter == b->dsm.reduce_scatter &&
         a->l2_shared_bytes == b->l2_shared_bytes && a->l2_reduce_bytes == b->l2_reduce_bytes;
}

static void print_traffic(const char *who, const struct fpl_traffic *traffic) {
  print_message("#   %-11s", who);
  for (int level = 0; level < FPL_LEVELS; level++)
    print_message(" %s %.0f", fpl_level_names[level], traffic->bytes[level]);
  print_message(" | all_exchange %.0f shuffle %.0f reduce_scatter %.0f | l2 shared %.0f reduce "
                "%.0f\n",
                traffic->dsm.all_exchange, traffic->dsm.shuffle, traffic->dsm.reduce_scatter,
                traffic->l2_shared_bytes, traffic->l2_reduce_bytes);
}

static void print_candidate(const struct fpl_problem *p, const struct fpl_schedule *s) {
  char problem[FPL_PROBLEM_TEXT], schedule[FPL_SCHEDULE_TEXT];
  fpl_problem_text(p, problem);
  fpl_schedule_text(s, schedule);
  print_message("# %s\n#   %s\n", problem, schedule);
}

/* Integers with act none or relu are exact; else a few units in the last place of the largest
 * value, for C may round the other way where f32 and double differ. */
static bool is_right(const struct fpl_problem *p, const struct fpl_interp_report *report,
                     bool is_integer) {
  const double ulp = p->dtype == FPL_DTYPE_F16 ? 0x1p-10 : 0x1p-7;
  if (is_integer && (p->act == FPL_ACT_NONE || p->act == FPL_ACT_RELU))
    return report->is_exact && report->max_abs_error == 0 && report->max_abs_value > 0;
  return report->is_sound && report->max_abs_error <= 4 * ulp * report->max_abs_value;
}

static bool check_candidate(const struct fpl_problem *p, const struct fpl_schedule *s) {
  struct fpl_tiling t;
  struct fpl_footprint f;
  struct fpl_traffic analyzed;
  struct fpl_interp_report report;
  struct fpl_err err = {0};
  assert_true(fpl_legal(p, s, &device, &t, &f, NULL));
  fpl_analyze(p, s, &t, &f, &analyzed);
  assert_int_equal(fpl_interpret(p, s, &device, seen.schedules, &report, &err), FPL_OK);
  assert_int_equal(report.verdict.rule, FPL_RULE_NONE);
  bool is_good = is_equal_traffic(&analyzed, &report.traffic) && is_right(p, &report, true);
  if (is_good && seen.schedules % REALS_EVERY == 0) {
    assert_int_equal(fpl_interpret_reals(p, s, &device, seen.schedules, &report, &err), FPL_OK);
    is_good = is_right(p, &report, false);
    seen.traits[TRAIT_REALS]++;
  }
  note_traits(p, s, &t, &f, &report.traffic);
  if (!is_good) {
    print_candidate(p, s);
    print_traffic("analyzer", &analyzed);
    print_traffic("interpreter", &report.traffic);
    print_message("#   sound %d exact %d max_abs_error %g max_abs_value %g\n", report.is_sound,
                  report.is_exact, report.max_abs_error, report.max_abs_value);
  }
  return is_good;
}

static void test_bytes_and_numbers_agree(void **state) {
  (void)state;
  const size_t capacity = 4 * n_schedules + 1;
  uint64_t *const set = calloc(capacity, sizeof *set);
  assert_non_null(set);
  struct fpl_problem problems[N_PROBLEMS];
  for (size_t i = 0; i < N_PROBLEMS; i++)
    assert_int_equal(fpl_problem_parse(problem_texts[i], &problems[i], NULL), FPL_OK);
  size_t wrong = 0;
  for (size_t turn = 0; seen.schedules < n_schedules && wrong < MOST_REPORTED; turn++) {
    assert_true(turn < 20 * n_schedules);
    const size_t problem = turn % N_PROBLEMS;
    const enum fpl_exchange exchange = (enum fpl_exchange)(turn / N_PROBLEMS % 6);
    const enum wish wish = wishes[turn / N_PROBLEMS / 6 % (sizeof wishes / sizeof *wishes)];
    struct fpl_schedule s;
    struct fpl_tiling t;
    struct fpl_footprint f;
    bool is_found = false;
    for (int i = 0; i < TRIES && !is_found; i++) {
      draw_schedule(&problems[problem], exchange, &s);
      is_found = fpl_legal(&problems[problem], &s, &device, &t, &f, NULL) &&
                 is_wished(wish, &s, &t, &f) && insert(set, capacity, hash_candidate(problem, &s));
    }
    if (!is_found)
      continue;
    seen.problems[problem]++;
    wrong += !check_candidate(&problems[problem], &s);
  }
  free(set);
  assert_int_equal(wrong, 0);
}

static void expect_count(const char *what, size_t count, size_t least) {
  print_message("#   %-26s %6zu\n", what, count);
  if (count < least)
    fail_msg("%s: %zu schedules, expected at least %zu", what, count, least);
}

static void test_everything_was_covered(void **state) {
  (void)state;
  const size_t least = seen.schedules / 200;
  print_message("# %zu distinct legal schedules over %d problems\n", seen.schedules, N_PROBLEMS);
  assert_int_equal(seen.schedules, n_schedules);
  for (size_t i = 0; i < N_PROBLEMS; i++)
    if (seen.problems[i] < least)
      fail_msg("problem '%s': %zu schedules", problem_texts[i], seen.problems[i]);
  for (int i = 0; i < 6; i++)
    expect_count(fpl_exchange_names[i], seen.exchange[i], 10 * least);
  for (int i = 0; i < 4; i++)
    expect_count(fpl_reduce_names[i], seen.reduce[i], 2 * least);
  for (int i = 0; i < N_TRAITS; i++)
    expect_count(trait_names[i], seen.traits[i], least);
  expect_count("conv_chain", seen.conv, 10 * least);
  size_t loops = 0;
  for (int i = 0; i < FPL_N_LOOPS; i++)
    loops += seen.loops[i] > 0;
  expect_count("loop schedules", loops, FPL_N_LOOPS);
}

static const char smallest[] = "loops=mn|lk cls_m=1 cls_n=1 cls_k=1 cls_l=1 blk_m=16 blk_n=16 "
                               "blk_k=16 blk_l=16 exchange=smem reduce=none gate=sequential "
                               "stages=1";

static void test_an_illegal_schedule_is_an_answer(void **state) {
  (void)state;
  struct fpl_problem p;
  struct fpl_schedule s;
  struct fpl_interp_report report;
  assert_int_equal(fpl_problem_parse(problem_texts[0], &p, NULL), FPL_OK);
  assert_int_equal(fpl_schedule_parse(smallest, &s, NULL), FPL_OK);
  assert_int_equal(fpl_interpret(&p, &s, &device, 1, &report, NULL), FPL_OK);
  assert_int_equal(report.verdict.rule, FPL_RULE_NONE);
  assert_true(report.is_exact);
  s.reduce = FPL_REDUCE_DSM;
  assert_int_equal(fpl_interpret(&p, &s, &device, 1, &report, NULL), FPL_OK);
  assert_int_equal(report.verdict.rule, FPL_RULE_DEPENDENCY);
  assert_false(report.is_exact);
}

static void test_what_cannot_be_run_is_refused(void **state) {
  (void)state;
  struct fpl_problem p;
  struct fpl_schedule s;
  struct fpl_interp_report report;
  struct fpl_err err = {0};
  assert_int_equal(fpl_schedule_parse(smallest, &s, NULL), FPL_OK);
  assert_int_equal(
      fpl_problem_parse("gemm_chain m=512 n=512 k=512 l=1 dtype=f16 act=none", &p, NULL), FPL_OK);
  assert_int_equal(fpl_interpret(&p, &s, &device, 1, &report, &err), FPL_USAGE);
  assert_non_null(strstr(err.text, "multiply-adds"));
  assert_int_equal(fpl_problem_parse(problem_texts[0], &p, NULL), FPL_OK);
  s.loops = FPL_N_LOOPS;
  assert_int_equal(fpl_interpret(&p, &s, &device, 1, &report, &err), FPL_USAGE);
  assert_non_null(strstr(err.text, "loops"));
}

int main(int argc, char **argv) {
  const long wanted = argc > 1 ? strtol(argv[1], NULL, 10) : DEFAULT_SCHEDULES;
  n_schedules = wanted > 0 ? (size_t)wanted : DEFAULT_SCHEDULES;
  const struct CMUnitTest tests[] = {
      {"counted and analyzed bytes are equal, and the numbers are right",
       test_bytes_and_numbers_agree, NULL, NULL, NULL},
      {"every exchange, reduction, primitive and gate was covered", test_everything_was_covered,
       NULL, NULL, NULL},
      {"an illegal schedule is an answer", test_an_illegal_schedule_is_an_answer, NULL, NULL, NULL},
      {"what cannot be run is refused", test_what_cannot_be_run_is_refused, NULL, NULL, NULL},
  };
  cmocka_set_message_output(CM_OUTPUT_TAP);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
