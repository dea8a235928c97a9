/* Legality, with the tiling and the footprint it fills: every rule refuses, by its name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tuner/base/str.h"
#include "tuner/core/legal.h"

#include <stdio.h>
#include <string.h>

/* The two limits that legality reads. Source: CUDA programming guide, compute capability 9.0. */
static const struct fpl_device device = {.smem_bytes_per_block = 232448, .max_cluster = 16};

static const char *const base = "loops=mn|lk cls_m=1 cls_n=1 cls_k=1 cls_l=1 blk_m=128 blk_n=64 "
                                "blk_k=64 blk_l=128 exchange=smem reduce=l2 gate=sequential "
                                "stages=4";

static const char *const g4 = "gemm_chain m=128 n=3072 k=768 l=768 dtype=f16 act=relu";
static const char *const gated = "gated_ffn m=128 n=3072 k=768 l=768 dtype=f16 act=silu";
static const char *const conv =
    "conv_chain m=49 n=512 k=4608 l=2048 dtype=f16 act=relu batch=1 ic=512 h=7 w=7 k1=3";
static const char *const conv_of_48_channels =
    "conv_chain m=128 n=512 k=432 l=256 dtype=f16 act=relu batch=1 ic=48 h=8 w=16 k1=3";
static const char *const conv_of_8_channels =
    "conv_chain m=128 n=512 k=72 l=256 dtype=f16 act=relu batch=1 ic=8 h=8 w=16 k1=3";
static const char *const conv_1x1 =
    "conv_chain m=128 n=512 k=72 l=256 dtype=f16 act=relu batch=1 ic=72 h=8 w=16 k1=1";

static struct fpl_problem problem_of(const char *text) {
  struct fpl_problem p;
  struct fpl_err err = {0};
  if (fpl_problem_parse(text, &p, &err) != FPL_OK)
    fail_msg("%s", err.text);
  return p;
}

static void set_field(struct fpl_schedule *s, const char *name, const char *value) {
  for (int i = 0; i < FPL_N_FIELDS; i++) {
    const struct fpl_schedule_field *const f = &fpl_schedule_fields[i];
    int64_t number = 0;
    if (strcmp(f->name, name) != 0)
      continue;
    if (f->names)
      number = fpl_name_index(f->names, value);
    else
      assert_true(fpl_parse_i64(value, 0, INT32_MAX, &number));
    assert_true(number >= 0);
    fpl_schedule_set(s, i, (int32_t)number);
    return;
  }
  fail_msg("no field %s", name);
}

/* The base with fields replaced: "blk_m=24 cls_k=2". Values a text could not hold are allowed. */
static struct fpl_schedule schedule_of(const char *edits) {
  struct fpl_schedule s;
  assert_int_equal(fpl_schedule_parse(base, &s, NULL), FPL_OK);
  char name[32], value[32];
  int used = 0;
  for (; sscanf(edits, " %31[a-z_]=%31s%n", name, value, &used) == 2; edits += used)
    set_field(&s, name, value);
  assert_string_equal(edits, "");
  return s;
}

struct refusal {
  enum fpl_rule rule;
  const char *problem, *edits, *why;
};

static const struct refusal refusals[] = {
    {FPL_RULE_TILE_LIMITS, "", "blk_m=24", "blk_m is 24: it must be a multiple of 16 up to 256"},
    {FPL_RULE_TILE_LIMITS, "", "blk_n=272", "blk_n is 272: it must be a multiple of 16 up to 256"},
    {FPL_RULE_TILE_LIMITS, "", "blk_k=0", "blk_k is 0: it must be a multiple of 16 up to 256"},
    {FPL_RULE_TILE_LIMITS, "", "blk_l=8", "blk_l is 8: it must be a multiple of 16 up to 256"},
    {FPL_RULE_TILE_LIMITS, "gemm_chain m=128 n=64 k=768 l=768 dtype=f16 act=relu", "blk_n=128",
     "blk_n is 128: the problem has only 64"},
    {FPL_RULE_CLUSTER_SIZE, "", "cls_m=3", "cls_m is 3: it must be 1, 2, 4, 8 or 16"},
    {FPL_RULE_CLUSTER_SIZE, "", "cls_l=12", "cls_l is 12: it must be 1, 2, 4, 8 or 16"},
    {FPL_RULE_CLUSTER_SIZE, "", "cls_m=2 cls_n=4 cls_k=4 cls_l=4",
     "32 blocks: the device allows 16"},
    {FPL_RULE_CLUSTER_SIZE, "", "cls_m=1 cls_n=2 cls_k=4 cls_l=2",
     "cls_k 4 does not divide cls_l 2"},
    {FPL_RULE_CLUSTER_SIZE, "", "cls_l=2", "cls_l 2 does not divide cls_n cls_k 1"},
    {FPL_RULE_ACTIVATION, "", "loops=mk|nl", "k is spatial and one step covers 1 of 12 parts"},
    {FPL_RULE_ACTIVATION, "", "loops=mn|kl", "k is not the innermost loop of mn|kl"},
    {FPL_RULE_ACTIVATION, "", "loops=mnkl|", "k is spatial and one step covers 1 of 12 parts"},
    {FPL_RULE_DEPENDENCY, "", "loops=ml|nk", "l is spatial, which exchange smem cannot serve"},
    {FPL_RULE_DEPENDENCY, "", "exchange=recompute",
     "l is temporal, which exchange recompute does not serve"},
    {FPL_RULE_DEPENDENCY, "", "exchange=l2", "l is temporal, which exchange l2 does not serve"},
    {FPL_RULE_DEPENDENCY, "", "exchange=l2 loops=ml|nk", "exchange l2 needs loops mnl|k"},
    {FPL_RULE_DEPENDENCY, "", "exchange=hbm loops=nl|mk", "exchange hbm needs loops mnl|k"},
    {FPL_RULE_DEPENDENCY, "", "exchange=dsm", "exchange dsm with cls_k = cls_l = 1 has no peer"},
    {FPL_RULE_DEPENDENCY, "", "cls_n=2 cls_l=2", "exchange smem needs cls_k = cls_l = 1"},
    {FPL_RULE_DEPENDENCY, "", "cls_n=2 cls_l=2 exchange=register",
     "exchange register needs cls_k = cls_l = 1"},
    {FPL_RULE_DEPENDENCY, "", "gate=spatial", "gate spatial is for gated_ffn"},
    {FPL_RULE_DEPENDENCY, "gated", "gate=spatial", "gate spatial needs cls_k = 2 and exchange dsm"},
    {FPL_RULE_DEPENDENCY, "gated", "gate=spatial cls_k=2 cls_l=2 exchange=hbm loops=mnl|k",
     "gate spatial needs cls_k = 2 and exchange dsm"},
    {FPL_RULE_DEPENDENCY, "", "reduce=dsm", "reduce dsm, but one group makes each E tile"},
    {FPL_RULE_DEPENDENCY, "", "reduce=dsm_l2", "reduce dsm_l2, but one group makes each E tile"},
    {FPL_RULE_DEPENDENCY, "", "cls_n=2 reduce=none", "2 groups make one E tile, reduce is none"},
    {FPL_RULE_DEPENDENCY, "", "reduce=none", "48 clusters add to one E tile, reduce is none"},
    {FPL_RULE_DEPENDENCY, "", "cls_n=2 reduce=dsm", "24 clusters add to one E tile, reduce is dsm"},
    {FPL_RULE_DEPENDENCY, "", "loops=m|nlk", "reduce l2, but nothing is left to add in L2"},
    {FPL_RULE_DEPENDENCY, "", "loops=m|nlk cls_n=2 reduce=dsm_l2",
     "reduce dsm_l2, but nothing is left to add in L2"},
    {FPL_RULE_CAPACITY, "", "stages=8", "needs 280576 of 232448 bytes of shared memory"},
    {FPL_RULE_CAPACITY, "", "loops=m|nlk reduce=none",
     "needs 509952 of 232448 bytes of shared memory"},
    {FPL_RULE_CAPACITY, "",
     "exchange=l2 loops=mnl|k reduce=none blk_m=64 blk_n=16 blk_l=128 stages=4",
     "the ring holds 1 stages of C and D: it takes 2"},
    /* the same ring holds two, without what three peers send */
    {FPL_RULE_CAPACITY, "", "exchange=l2 loops=mnl|k reduce=dsm cls_n=4 blk_m=64 blk_n=32",
     "the ring holds 1 stages of C and D: it takes 2"},
    {FPL_RULE_CAPACITY, "", "exchange=hbm loops=mnl|k reduce=none blk_m=64 blk_n=16 stages=1",
     "the ring holds 0 stages of C and D: it takes 2"},
    {FPL_RULE_CAPACITY, "gated",
     "exchange=l2 loops=mnl|k reduce=none blk_m=16 blk_n=144 blk_l=16 stages=2",
     "needs 144 sums a thread, registers hold 128"},
    {FPL_RULE_CAPACITY, "gemm_chain m=256 n=3072 k=768 l=768 dtype=f16 act=relu",
     "blk_m=256 blk_n=256 blk_k=16 exchange=register stages=1",
     "needs 256 sums a thread, registers hold 128"},
    {FPL_RULE_CAPACITY, "", "loops=m|lnk exchange=register reduce=none",
     "registers keep 1 C tile, the loops keep 48"},
};

static const struct refusal skeleton_refusals[] = {
    {FPL_RULE_SKELETON_KIND, "conv8", "blk_k=16",
     "no skeleton reads an image of 8 channels: they must be a multiple of 16"},
    {FPL_RULE_SKELETON_LOOPS, "", "exchange=register", "no skeleton has exchange register"},
    {FPL_RULE_SKELETON_LOOPS, "", "loops=m|nlk",
     "chain_sm90 runs exchange smem in loops mn|lk only"},
    {FPL_RULE_SKELETON_LOOPS, "", "exchange=recompute",
     "chain_sm90 runs exchange recompute in loops mnl|k only"},
    {FPL_RULE_SKELETON_TILES, "", "blk_m=48", "blk_m is 48: chain_sm90 has 16, 32, 64 and 128"},
    {FPL_RULE_SKELETON_TILES, "", "stages=1", "stages is 1: chain_sm90 has 2 to 8"},
    {FPL_RULE_SKELETON_TILES, "", "stages=9", "stages is 9: chain_sm90 has 2 to 8"},
    {FPL_RULE_SKELETON_TILES, "", "exchange=dsm cls_k=2 cls_l=2 blk_n=256",
     "blk_n is 256: with a split k chain_sm90 adds at most 192 columns"},
    {FPL_RULE_SKELETON_TILES, "gated", "exchange=dsm cls_k=2 cls_l=2 blk_n=128",
     "blk_n is 128: with a split k chain_sm90 adds at most 192 columns"},
    {FPL_RULE_SKELETON_TILES, "conv48", "", "slabs of 64 channels reach over the 48 of a tap"},
    {FPL_RULE_SKELETON_TILES, "conv48", "blk_k=96",
     "slabs of 32 channels reach over the 48 of a tap"},
    {FPL_RULE_SKELETON_TILES, "conv48", "exchange=l2 loops=mnl|k reduce=none",
     "slabs of 64 channels reach over the 48 of a tap"},
    {FPL_RULE_SKELETON_ALIGNMENT, "gemm_chain m=128 n=3076 k=768 l=768 dtype=f16 act=relu", "",
     "n, k and l must be multiples of 8"},
    {FPL_RULE_SKELETON_ALIGNMENT, "gemm_chain m=128 n=3072 k=770 l=768 dtype=f16 act=relu", "",
     "n, k and l must be multiples of 8"},
    {FPL_RULE_SKELETON_ALIGNMENT, "gemm_chain m=128 n=3072 k=768 l=767 dtype=f16 act=relu", "",
     "n, k and l must be multiples of 8"},
    {FPL_RULE_SKELETON_LOOPS, "", "exchange=l2 loops=mnl|k reduce=none cls_m=2",
     "phases_sm90 splits neither m nor k in a cluster"},
    {FPL_RULE_SKELETON_LOOPS, "", "exchange=l2 loops=mnl|k reduce=none cls_k=2 cls_l=2",
     "phases_sm90 splits neither m nor k in a cluster"},
    {FPL_RULE_SKELETON_LOOPS, "", "exchange=l2 loops=mnl|k reduce=l2 cls_n=2",
     "phases_sm90 has no reduce l2"},
    {FPL_RULE_SKELETON_TILES, "", "exchange=l2 loops=mnl|k reduce=none blk_k=32",
     "blk_k is 32: phases_sm90 has multiples of 64"},
    {FPL_RULE_SKELETON_TILES, "gated", "exchange=l2 loops=mnl|k reduce=none blk_n=144",
     "blk_n is 144: phases_sm90 makes at most 256 columns of all branches"},
    {FPL_RULE_SKELETON_TILES, "", "exchange=l2 loops=mnl|k reduce=none stages=1",
     "stages is 1: phases_sm90 has 2 to 8"},
    {FPL_RULE_SKELETON_TILES, "", "exchange=l2 loops=mnl|k reduce=none stages=9",
     "stages is 9: phases_sm90 has 2 to 8"},
    {FPL_RULE_SKELETON_ALIGNMENT, "gemm_chain m=128 n=3072 k=768 l=764 dtype=f16 act=relu",
     "exchange=l2 loops=mnl|k reduce=none", "n, k and l must be multiples of 8"},
};

static struct fpl_problem problem_named(const char *name) {
  if (!*name)
    return problem_of(g4);
  if (strcmp(name, "gated") == 0)
    return problem_of(gated);
  static const struct {
    const char *name;
    const char *const *text;
  } convs[] = {{"conv", &conv},
               {"conv48", &conv_of_48_channels},
               {"conv8", &conv_of_8_channels},
               {"conv1x1", &conv_1x1}};
  for (size_t i = 0; i < sizeof convs / sizeof *convs; i++)
    if (strcmp(name, convs[i].name) == 0)
      return problem_of(*convs[i].text);
  return problem_of(name);
}

static bool is_legal(const struct fpl_problem *p, const struct fpl_schedule *s,
                     struct fpl_verdict *why) {
  struct fpl_tiling t;
  struct fpl_footprint f;
  return fpl_legal(p, s, &device, &t, &f, why);
}

static void test_refusals(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
    const struct refusal *const r = &refusals[i];
    const struct fpl_problem p = problem_named(r->problem);
    const struct fpl_schedule s = schedule_of(r->edits);
    struct fpl_verdict why;
    if (is_legal(&p, &s, &why))
      fail_msg("'%s' is legal", r->edits);
    assert_string_equal(why.why, r->why);
    assert_string_equal(fpl_rule_names[why.rule], fpl_rule_names[r->rule]);
    assert_false(is_legal(&p, &s, NULL));
  }
}

static void test_skeleton_refusals(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof skeleton_refusals / sizeof *skeleton_refusals; i++) {
    const struct refusal *const r = &skeleton_refusals[i];
    const struct fpl_problem p = problem_named(r->problem);
    const struct fpl_schedule s = schedule_of(r->edits);
    struct fpl_verdict why;
    if (fpl_skeleton_fits(&p, &s, &why))
      fail_msg("'%s' fits", r->edits);
    assert_string_equal(why.why, r->why);
    assert_string_equal(fpl_rule_names[why.rule], fpl_rule_names[r->rule]);
    assert_false(fpl_skeleton_fits(&p, &s, NULL));
  }
}

static void test_every_rule(void **state) {
  (void)state;
  bool is_seen[FPL_N_RULES] = {true};
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
    is_seen[refusals[i].rule] = true;
  for (size_t i = 0; i < sizeof skeleton_refusals / sizeof *skeleton_refusals; i++)
    is_seen[skeleton_refusals[i].rule] = true;
  for (int i = 0; i < FPL_N_RULES; i++) {
    if (!is_seen[i])
      fail_msg("no case for rule %s", fpl_rule_names[i]);
    assert_non_null(fpl_rule_names[i]);
  }
  assert_null(fpl_rule_names[FPL_N_RULES]);
}

static void test_legal(void **state) {
  (void)state;
  static const struct {
    const char *problem, *edits;
    bool fits;
  } cases[] = {
      {"", "", true},
      {"gated", "", true},
      {"conv", "blk_m=64", true},
      {"conv", "blk_m=64 exchange=l2 loops=mnl|k reduce=none", true},
      {"conv48", "blk_k=48", true},
      {"conv48", "blk_k=64", false},
      {"conv48", "blk_k=80", true},
      {"conv8", "blk_k=16", false},
      {"conv1x1", "", true},
      {"conv1x1", "blk_k=48 blk_m=64", true},
      {"conv1x1", "exchange=l2 loops=mnl|k reduce=none", true},
      {"", "loops=mnl|k exchange=recompute", true},
      {"", "loops=mnl|k exchange=l2 reduce=none", true},
      {"", "loops=mnl|k exchange=l2 reduce=dsm cls_n=4 cls_l=2", true},
      {"gated", "loops=mnl|k exchange=l2 reduce=none blk_m=32 blk_n=128", true},
      {"", "loops=mnl|k exchange=hbm reduce=none", false},
      {"", "exchange=register", false},
      {"", "cls_n=2 cls_l=2 exchange=dsm", true},
      {"", "cls_n=2 cls_k=1 cls_l=1 exchange=smem reduce=dsm_l2", true},
      {"", "cls_n=4 cls_k=2 cls_l=4 exchange=dsm blk_m=64 reduce=dsm_l2", true},
      {"gated", "cls_k=2 cls_l=2 exchange=dsm gate=spatial", true},
      {"", "cls_n=16 reduce=dsm_l2 blk_m=64", true},
      {"gemm_chain m=1 n=3072 k=768 l=768 dtype=f16 act=relu", "blk_m=64", true},
      {"gemm_chain m=128 n=3000 k=700 l=132 dtype=f16 act=relu", "", false},
      {"gemm_chain m=128 n=64 k=64 l=64 dtype=f16 act=relu", "blk_l=64 reduce=none loops=mk|nl",
       false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const struct fpl_problem p = problem_named(cases[i].problem);
    const struct fpl_schedule s = schedule_of(cases[i].edits);
    struct fpl_verdict why;
    if (!is_legal(&p, &s, &why))
      fail_msg("'%s': %s: %s", cases[i].edits, fpl_rule_names[why.rule], why.why);
    assert_int_equal(why.rule, FPL_RULE_NONE);
    assert_string_equal(why.why, "");
    assert_true(is_legal(&p, &s, NULL));
    assert_int_equal(fpl_skeleton_fits(&p, &s, &why), cases[i].fits);
  }
}

/* A schedule that breaks all rules answers the first; mending it, the next. */
static void test_order(void **state) {
  (void)state;
  static const struct {
    const char *edits;
    enum fpl_rule rule;
  } steps[] = {
      {"blk_m=24 cls_m=3 loops=mn|kl exchange=recompute stages=16", FPL_RULE_TILE_LIMITS},
      {"cls_m=3 loops=mn|kl exchange=recompute stages=16", FPL_RULE_CLUSTER_SIZE},
      {"loops=mn|kl exchange=recompute stages=16", FPL_RULE_ACTIVATION},
      {"exchange=recompute stages=16", FPL_RULE_DEPENDENCY},
      {"stages=16", FPL_RULE_CAPACITY},
      {"", FPL_RULE_NONE},
  };
  const struct fpl_problem p = problem_of(g4);
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    const struct fpl_schedule s = schedule_of(steps[i].edits);
    struct fpl_verdict why;
    assert_int_equal(is_legal(&p, &s, &why), steps[i].rule == FPL_RULE_NONE);
    assert_int_equal(why.rule, steps[i].rule);
  }
}

static void test_device_limits(void **state) {
  (void)state;
  const struct fpl_problem p = problem_of(g4);
  const struct fpl_schedule s = schedule_of("cls_n=8 reduce=dsm_l2 blk_m=64");
  struct fpl_tiling t;
  struct fpl_footprint f;
  struct fpl_verdict why;
  struct fpl_device d = device;
  assert_true(fpl_legal(&p, &s, &d, &t, &f, &why));
  d.smem_bytes_per_block = f.smem_bytes;
  assert_true(fpl_legal(&p, &s, &d, &t, &f, &why));
  d.smem_bytes_per_block--;
  assert_false(fpl_legal(&p, &s, &d, &t, &f, &why));
  assert_int_equal(why.rule, FPL_RULE_CAPACITY);
  d.max_cluster = 4;
  assert_false(fpl_legal(&p, &s, &d, &t, &f, &why));
  assert_string_equal(why.why, "8 blocks: the device allows 4");
}

/* FlashFuser, Fig. 7 (a) and (b), and further vectors. */
static void test_clusters(void **state) {
  (void)state;
  static const struct {
    const char *edits;
    int64_t shuffle, groups, blocks;
  } cases[] = {
      {"cls_m=2 cls_n=4 cls_k=2 cls_l=4 blk_n=128", 2, 2, 16},
      {"cls_m=2 cls_n=4 cls_k=2 cls_l=8 blk_n=128 blk_k=128", 4, 1, 16},
      {"cls_m=1 cls_n=4 cls_k=1 cls_l=4", 4, 1, 4},
      {"cls_m=1 cls_n=8 cls_k=2 cls_l=4", 2, 4, 16},
      {"cls_m=4 cls_n=2 cls_k=2 cls_l=4", 2, 1, 16},
  };
  const struct fpl_problem p = problem_of(g4);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const struct fpl_schedule s = schedule_of(cases[i].edits);
    struct fpl_tiling t;
    fpl_tiling_make(&p, &s, &t);
    assert_int_equal(t.shuffle, cases[i].shuffle);
    assert_int_equal(t.groups, cases[i].groups);
    assert_int_equal(t.blocks, cases[i].blocks);
    assert_int_equal(s.cls_m * s.cls_l * t.groups, cases[i].blocks);
  }
}

static void test_tiling(void **state) {
  (void)state;
  static const struct {
    const char *problem, *edits;
    int64_t steps[FPL_DIMS];
    int64_t units, units_gemm1, c_steps, c_kept, e_kept, e_rounds, e_parts, gemm1_depth,
        gemm1_steps;
  } cases[] = {
      {"", "", {1, 48, 12, 6}, 48, 48, 1, 1, 1, 6, 48, 64, 48},
      {"", "loops=m|nlk", {1, 48, 12, 6}, 1, 1, 48, 1, 6, 6, 1, 64, 48},
      {"", "loops=m|lnk", {1, 48, 12, 6}, 1, 1, 48, 48, 1, 6, 1, 64, 48},
      {"", "loops=n|lmk blk_m=64", {2, 48, 12, 6}, 48, 48, 2, 2, 1, 12, 48, 64, 48},
      {"", "loops=n|mlk blk_m=64", {2, 48, 12, 6}, 48, 48, 2, 1, 1, 12, 48, 64, 48},
      {"", "loops=mnl|k exchange=recompute", {1, 48, 12, 6}, 288, 288, 1, 1, 1, 1, 48, 64, 48},
      {"", "loops=mnl|k exchange=l2", {1, 48, 12, 6}, 48, 6, 1, 1, 1, 1, 1, 64, 48},
      {"",
       "loops=mnl|k exchange=hbm blk_k=256 blk_n=32 cls_n=2 cls_l=1",
       {1, 48, 3, 6},
       48,
       6,
       1,
       1,
       1,
       1,
       1,
       256,
       12},
      {"", "cls_n=4 cls_k=2 cls_l=4", {1, 12, 6, 2}, 12, 12, 1, 1, 1, 2, 12, 64, 48},
      {"gemm_chain m=129 n=3000 k=700 l=132 dtype=f16 act=relu",
       "",
       {2, 47, 11, 2},
       94,
       94,
       1,
       1,
       1,
       2,
       47,
       64,
       47},
      {"gated", "cls_k=2 cls_l=2 gate=spatial", {1, 48, 12, 3}, 48, 48, 1, 1, 1, 3, 48, 64, 48},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const struct fpl_problem p = problem_named(cases[i].problem);
    const struct fpl_schedule s = schedule_of(cases[i].edits);
    struct fpl_tiling t;
    fpl_tiling_make(&p, &s, &t);
    assert_memory_equal(t.steps, cases[i].steps, sizeof t.steps);
    assert_int_equal(t.units, cases[i].units);
    assert_int_equal(t.units_gemm1, cases[i].units_gemm1);
    assert_int_equal(t.c_steps, cases[i].c_steps);
    assert_int_equal(t.c_kept, cases[i].c_kept);
    assert_int_equal(t.e_kept, cases[i].e_kept);
    assert_int_equal(t.e_rounds, cases[i].e_rounds);
    assert_int_equal(t.e_parts, cases[i].e_parts);
    assert_int_equal(t.gemm1_depth, cases[i].gemm1_depth);
    assert_int_equal(t.gemm1_steps, cases[i].gemm1_steps);
  }
}

static void test_gate(void **state) {
  (void)state;
  const struct fpl_problem chain = problem_of(g4), ffn = problem_of(gated);
  const struct fpl_schedule sequential = schedule_of("cls_k=2 cls_l=2");
  const struct fpl_schedule spatial = schedule_of("cls_k=2 cls_l=2 gate=spatial");
  struct fpl_tiling t;
  fpl_tiling_make(&chain, &sequential, &t);
  assert_int_equal(t.branches, 1);
  assert_int_equal(t.k_layers, 2);
  fpl_tiling_make(&ffn, &sequential, &t);
  assert_int_equal(t.branches, 2);
  assert_int_equal(t.k_layers, 2);
  fpl_tiling_make(&ffn, &spatial, &t);
  assert_int_equal(t.branches, 1);
  assert_int_equal(t.k_layers, 1);
}

/* Worked by hand from the formulas of footprint.h's regions. */
static void test_footprint(void **state) {
  (void)state;
  static const struct {
    const char *problem, *edits;
    int64_t stage, stages_e, strip, staging, exchange, reduce, e, smem, accumulators;
  } cases[] = {
      {"", "", 24576, 0, 16384, 65536, 0, 0, 0, 182272, 64},
      {"gated", "", 32768, 0, 16384, 65536, 0, 0, 0, 215040, 64},
      {"", "cls_n=4 cls_k=2 cls_l=4 exchange=dsm reduce=dsm_l2", 24576, 0, 32768, 32768, 32768,
       32768, 0, 231424, 64},
      {"", "loops=mnl|k exchange=l2 reduce=none", 24576, 3, 0, 0, 0, 0, 0, 100352, 64},
      /* 48 rows of 128 bytes read beyond the last A tile, 16 of them in the B tile behind it */
      {"", "loops=mnl|k exchange=l2 reduce=none blk_m=16 blk_n=16 blk_l=32", 4096, 2, 0, 0, 0, 0, 0,
       22528, 16},
      /* a B tile of 128 rows: nothing is read beyond the ring */
      {"gated", "loops=mnl|k exchange=l2 reduce=none blk_m=16", 18432, 4, 0, 0, 0, 0, 0, 75776, 64},
      /* A share is the sums of 16 / 4 octets of columns, 64 rows of 32 bytes each: 8192. Three are
         received; of the ring's 49152 they leave 24576: one stage of 64 x 64 of C and 128 x 64 of D */
      {"", "loops=mnl|k exchange=l2 reduce=dsm cls_n=4 blk_m=64 blk_n=32", 12288, 1, 0, 0, 0, 24576,
       0, 51200, 64},
      /* 10 octets in 4 shares: at most 3. 16 rows, but all 64 that a wgmma sums: 3 x 6144 received;
         of the ring's 40960 they leave 22528: one stage of 12288 */
      {"", "loops=mnl|k exchange=l2 reduce=dsm cls_n=4 blk_m=16 blk_l=80", 10240, 1, 0, 0, 0, 18432,
       0, 43008, 40},
      /* two groups: 8 octets of 128 rows received, 32768; (98304 - 32768) / 32768 */
      {"", "loops=mnl|k exchange=l2 reduce=dsm cls_n=4 cls_l=2", 24576, 2, 0, 0, 0, 32768, 0,
       100352, 64},
      /* a share of all groups in L2: nothing is received */
      {"", "loops=mnl|k exchange=l2 reduce=l2 cls_n=4 blk_m=64 blk_n=32", 12288, 2, 0, 0, 0, 0, 0,
       51200, 64},
      /* partial C of half a k range: half of it received, 128 x 32 sums */
      {"", "loops=mnl|k exchange=hbm reduce=none cls_k=2 cls_l=2", 24576, 3, 0, 0, 16384, 0, 0,
       116736, 64},
      /* stages of C and D: 16 at most */
      {"", "loops=mnl|k exchange=hbm reduce=none blk_m=16 blk_n=256 blk_l=16", 34816, 16, 0, 0, 0,
       0, 0, 141312, 128},
      {"", "exchange=register", 24576, 0, 0, 65536, 0, 0, 0, 165888, 64},
      {"", "loops=m|nlk reduce=none", 24576, 0, 16384, 0, 0, 0, 393216, 509952, 64},
      {"", "blk_m=64 blk_n=128", 32768, 0, 16384, 32768, 0, 0, 0, 182272, 64},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const struct fpl_problem p = problem_named(cases[i].problem);
    const struct fpl_schedule s = schedule_of(cases[i].edits);
    struct fpl_tiling t;
    struct fpl_footprint f;
    fpl_tiling_make(&p, &s, &t);
    fpl_footprint_make(&t, &s, &f);
    assert_int_equal(f.stage_bytes, cases[i].stage);
    assert_int_equal(f.ring_bytes, cases[i].stage * s.stages);
    assert_int_equal(f.stages_e, cases[i].stages_e);
    assert_int_equal(f.strip_bytes, cases[i].strip);
    assert_int_equal(f.staging_bytes, cases[i].staging);
    assert_int_equal(f.exchange_bytes, cases[i].exchange);
    assert_int_equal(f.reduce_bytes, cases[i].reduce);
    assert_int_equal(f.e_bytes, cases[i].e);
    assert_int_equal(f.e_home, cases[i].e ? FPL_HOME_SMEM : FPL_HOME_REGISTER);
    assert_int_equal(f.smem_bytes, cases[i].smem);
    assert_int_equal(f.accumulators, cases[i].accumulators);
  }
}

static uint32_t next_random(uint64_t *seed) {
  *seed ^= *seed << 13;
  *seed ^= *seed >> 7;
  *seed ^= *seed << 17;
  return (uint32_t)(*seed >> 32);
}

/* Over many schedules: the answer does not depend on `why`, and both views of a cluster agree. */
static void test_random(void **state) {
  (void)state;
  const struct fpl_problem problems[] = {problem_of(g4), problem_of(gated), problem_of(conv)};
  uint64_t seed = UINT64_C(0x2545f4914f6cdd1d);
  int n_legal = 0;
  for (int i = 0; i < 200000; i++) {
    struct fpl_schedule s = {0};
    int32_t *const dims[] = {&s.cls_m, &s.cls_n, &s.cls_k, &s.cls_l};
    int32_t *const tiles[] = {&s.blk_m, &s.blk_n, &s.blk_k, &s.blk_l};
    for (int d = 0; d < FPL_DIMS; d++) {
      *dims[d] = 1 << next_random(&seed) % 3;
      *tiles[d] = 16 << next_random(&seed) % 4;
    }
    /* Half of them with k innermost and l temporal, where most legal ones are. */
    s.loops = i % 2 ? fpl_loops_index("mn|lk") : (int32_t)(next_random(&seed) % FPL_N_LOOPS);
    s.exchange = (int32_t)(next_random(&seed) % 6);
    s.reduce = (int32_t)(next_random(&seed) % 4);
    s.gate = (int32_t)(next_random(&seed) % 2);
    s.stages = 1 + (int32_t)(next_random(&seed) % 8);
    const struct fpl_problem *const p = &problems[i % 3];
    struct fpl_tiling t;
    struct fpl_footprint f;
    struct fpl_verdict why;
    const bool legal = fpl_legal(p, &s, &device, &t, &f, &why);
    assert_int_equal(legal, is_legal(p, &s, NULL));
    assert_int_equal(legal, why.rule == FPL_RULE_NONE);
    assert_int_equal(legal, why.why[0] == '\0');
    assert_true(why.rule <= FPL_RULE_CAPACITY);
    if (!legal)
      continue;
    n_legal++;
    assert_int_equal(t.blocks, s.cls_m * s.cls_l * t.groups);
    assert_true(t.units >= 1 && t.e_rounds >= 1 && t.c_kept >= 1 && t.c_kept <= t.c_steps);
    assert_true(f.smem_bytes <= device.smem_bytes_per_block);
  }
  assert_true(n_legal > 500);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      {"refuses by each rule of the space, and says why", test_refusals, NULL, NULL, NULL},
      {"refuses by each rule of the skeletons, and says why", test_skeleton_refusals, NULL, NULL,
       NULL},
      {"has a case for every rule", test_every_rule, NULL, NULL, NULL},
      {"accepts one schedule of every exchange", test_legal, NULL, NULL, NULL},
      {"checks the rules in their order", test_order, NULL, NULL, NULL},
      {"takes its limits from the device", test_device_limits, NULL, NULL, NULL},
      {"cuts a cluster into shuffle groups as the paper's figure 7 does", test_clusters, NULL, NULL,
       NULL},
      {"counts steps, units and kept tiles", test_tiling, NULL, NULL, NULL},
      {"gives each gate its branches and layers", test_gate, NULL, NULL, NULL},
      {"adds up shared memory region by region", test_footprint, NULL, NULL, NULL},
      {"answers alike with and without a reason, for 200000 schedules", test_random, NULL, NULL,
       NULL},
  };
  return cmocka_run_group_tests_name("legal", tests, NULL, NULL);
}
