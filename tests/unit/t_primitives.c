/* The primitives alone, on FlashFuser's Fig. 7 and vectors derived from it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "costmodel/blockmap.h"
#include "costmodel/primitives.h"

#include <string.h>

enum { MOST_BLOCKS = 16, MOST_FLOATS = 64 };

/* Shared memory and registers of a group of blocks. */
struct group {
  float staging[MOST_BLOCKS][MOST_FLOATS];
  float receiving[MOST_BLOCKS][MOST_BLOCKS * MOST_FLOATS];
  float registers[MOST_BLOCKS][MOST_FLOATS];
  const float *staged[MOST_BLOCKS];
  float *received[MOST_BLOCKS], *result[MOST_BLOCKS], *strip[MOST_BLOCKS];
};

/* Block b's value i. */
static float value(size_t b, size_t i) {
  return (float)(b + 2) + (float)(i % 7);
}

static void fill(struct group *group) {
  memset(group, 0, sizeof *group);
  for (size_t b = 0; b < MOST_BLOCKS; b++) {
    for (size_t i = 0; i < MOST_FLOATS; i++)
      group->staging[b][i] = value(b, i);
    group->staged[b] = group->staging[b];
    group->received[b] = group->strip[b] = group->receiving[b];
    group->result[b] = group->registers[b];
  }
}

struct cluster_case {
  int32_t m, n, k, l;
  int64_t blocks, shuffle, groups;
};
/* (a) and (b) of Fig. 7, then vectors derived from it. */
static const struct cluster_case cases[] = {
    {2, 4, 2, 4, 16, 2, 2}, {2, 4, 2, 8, 16, 4, 1}, {1, 4, 1, 4, 4, 4, 1},
    {1, 8, 2, 4, 16, 2, 4}, {4, 2, 2, 4, 16, 2, 1},
};
enum { N_CASES = sizeof cases / sizeof *cases };

static void make_case(const struct cluster_case *c, struct fpl_schedule *s, struct fpl_tiling *t) {
  struct fpl_problem p;
  assert_int_equal(fpl_problem_make(FPL_KIND_GEMM_CHAIN, FPL_DTYPE_F16, FPL_ACT_RELU, 256, 512, 256,
                                    1024, NULL, &p, NULL),
                   FPL_OK);
  *s = (struct fpl_schedule){.loops = fpl_loops_index("mn|lk"),
                             .cls_m = c->m,
                             .cls_n = c->n,
                             .cls_k = c->k,
                             .cls_l = c->l,
                             .blk_m = 128,
                             .blk_n = 128,
                             .blk_k = 128,
                             .blk_l = 128,
                             .exchange = FPL_EXCHANGE_DSM,
                             .stages = 1};
  fpl_tiling_make(&p, s, t);
}

static void test_fig_7_groups(void **state) {
  (void)state;
  for (size_t i = 0; i < N_CASES; i++) {
    struct fpl_schedule s;
    struct fpl_tiling t;
    make_case(&cases[i], &s, &t);
    assert_int_equal(t.blocks, cases[i].blocks);
    assert_int_equal(t.shuffle, cases[i].shuffle);
    assert_int_equal(t.groups, cases[i].groups);
    assert_int_equal(s.cls_m * s.cls_l * t.groups, t.blocks);
  }
}

static void test_both_addresses_name_every_block_once(void **state) {
  (void)state;
  for (size_t i = 0; i < N_CASES; i++) {
    struct fpl_schedule s;
    struct fpl_tiling t;
    make_case(&cases[i], &s, &t);
    for (int64_t rank = 0; rank < t.blocks; rank++) {
      const struct fpl_block_address at = fpl_block_at(&s, &t, rank);
      assert_in_range(at.im, 0, s.cls_m - 1);
      assert_in_range(at.in, 0, s.cls_n - 1);
      assert_in_range(at.ik, 0, s.cls_k - 1);
      assert_in_range(at.il, 0, s.cls_l - 1);
      assert_in_range(at.ir, 0, t.groups - 1);
      assert_int_equal(fpl_block_rank_gemm0(&s, at.im, at.in, at.ik), rank);
      assert_int_equal(fpl_block_rank_gemm1(&s, &t, at.im, at.il, at.ir), rank);
    }
  }
}

/* Fig. 7a: the k layers hold the same C after the exchange and take different halves of L. */
static void test_k_layers_take_different_parts_of_l(void **state) {
  (void)state;
  struct fpl_schedule s;
  struct fpl_tiling t;
  make_case(&cases[0], &s, &t);
  for (int64_t in = 0; in < s.cls_n; in++) {
    const struct fpl_block_address front = fpl_block_at(&s, &t, fpl_block_rank_gemm0(&s, 0, in, 0));
    const struct fpl_block_address back = fpl_block_at(&s, &t, fpl_block_rank_gemm0(&s, 0, in, 1));
    assert_int_equal(front.ir, back.ir);
    assert_true(front.il < s.cls_l / 2);
    assert_int_equal(back.il, front.il + s.cls_l / 2);
  }
}

static void expect_bytes(const struct fpl_traffic *traffic, double dsm, double smem, double l2) {
  assert_true(traffic->bytes[FPL_LEVEL_DSM] == dsm);
  assert_true(traffic->bytes[FPL_LEVEL_SMEM] == smem);
  assert_true(traffic->bytes[FPL_LEVEL_L2] == l2);
  assert_true(traffic->bytes[FPL_LEVEL_REGISTER] == 0);
  assert_true(traffic->bytes[FPL_LEVEL_HBM] == 0);
}

/* Every block receives (cls_k - 1) tiles and reads cls_k. */
static void test_all_exchange_adds(void **state) {
  (void)state;
  const size_t floats = 24;
  for (size_t n = 1; n <= MOST_BLOCKS; n *= 2) {
    struct group group;
    struct fpl_traffic traffic = {0};
    fill(&group);
    fpl_dsm_all_exchange(FPL_EXCHANGE_ADD, n, floats, group.staged, group.received, group.result,
                         &traffic);
    for (size_t b = 0; b < n; b++)
      for (size_t i = 0; i < floats; i++) {
        float sum = 0;
        for (size_t from = 0; from < n; from++)
          sum += value(from, i);
        assert_true(group.registers[b][i] == sum);
      }
    const double received = (double)(n * (n - 1) * floats * 4);
    expect_bytes(&traffic, received, received + (double)(n * n * floats * 4), 0);
    assert_true(traffic.dsm.all_exchange == received);
    assert_true(traffic.dsm.shuffle == 0 && traffic.dsm.reduce_scatter == 0);
  }
}

static void test_all_exchange_multiplies(void **state) {
  (void)state;
  const size_t floats = 24;
  struct group group;
  struct fpl_traffic traffic = {0};
  fill(&group);
  fpl_dsm_all_exchange(FPL_EXCHANGE_MUL, 2, floats, group.staged, group.received, group.result,
                       &traffic);
  for (size_t b = 0; b < 2; b++)
    for (size_t i = 0; i < floats; i++)
      assert_true(group.registers[b][i] == value(0, i) * value(1, i));
  expect_bytes(&traffic, 2 * 24 * 4, 2 * 24 * 4 + 4 * 24 * 4, 0);
}

/* Every block of a group of 2 (Fig. 7a) or 4 (7b) ends with the group's strip in order. */
static void test_shuffle_gathers_the_strip(void **state) {
  (void)state;
  const size_t elements = 10;
  for (size_t n = 1; n <= 8; n *= 2) {
    struct group group;
    struct fpl_traffic traffic = {0};
    fill(&group);
    for (size_t b = 0; b < n; b++)
      memcpy(group.strip[b] + b * elements, group.staging[b], elements * sizeof(float));
    fpl_dsm_shuffle(n, elements, group.strip, &traffic);
    for (size_t b = 0; b < n; b++)
      for (size_t i = 0; i < n * elements; i++)
        assert_true(group.strip[b][i] == value(i / elements, i % elements));
    const double received = (double)(n * (n - 1) * elements * 2);
    expect_bytes(&traffic, received, received, 0);
    assert_true(traffic.dsm.shuffle == received);
  }
}

/* Every block receives (groups - 1) / groups of a tile: Fig. 7a has 2 groups, 7b one. */
static void test_reduce_scatter_leaves_a_share_to_each(void **state) {
  (void)state;
  for (size_t n = 1; n <= MOST_BLOCKS; n *= 2) {
    const size_t share = MOST_FLOATS / n;
    struct group group;
    struct fpl_traffic traffic = {0};
    fill(&group);
    fpl_dsm_reduce_scatter(n, share, group.staged, group.received, group.result, &traffic);
    for (size_t b = 0; b < n; b++)
      for (size_t i = 0; i < share; i++) {
        float sum = 0;
        for (size_t from = 0; from < n; from++)
          sum += value(from, b * share + i);
        assert_true(group.registers[b][i] == sum);
      }
    const double received = (double)((n - 1) * MOST_FLOATS * 4);
    expect_bytes(&traffic, received, received + (double)(n * MOST_FLOATS * 4), 0);
    assert_true(traffic.dsm.reduce_scatter == received);
  }
}

/* 3 octets of 2 rows among 1 to 16 blocks: uneven shares, also none. Each octet is received from all
 * but its owner. */
static void test_octets_take_turns(void **state) {
  (void)state;
  enum { ROWS = 2, COLUMNS = 24, OCTETS = 3 };
  for (size_t n = 1; n <= MOST_BLOCKS; n *= 2) {
    struct group group;
    struct fpl_traffic traffic = {0};
    fill(&group);
    memcpy(group.registers, group.staging, sizeof group.registers);
    fpl_dsm_reduce_octets(n, ROWS, COLUMNS, group.result, group.received, &traffic);
    for (size_t i = 0; i < ROWS * COLUMNS; i++) {
      const size_t owner = i % COLUMNS / 8 % n;
      float sum = 0;
      for (size_t b = 0; b < n; b++)
        sum += value(b, i);
      for (size_t b = 0; b < n; b++)
        assert_true(group.registers[b][i] == (b == owner ? sum : value(b, i)));
    }
    const double bytes = (double)((n - 1) * OCTETS * 8 * ROWS * 4);
    expect_bytes(&traffic, bytes, 2 * bytes, 0);
    assert_true(traffic.dsm.reduce_scatter == bytes);
  }
}

static void test_the_last_adder_takes_the_sums_and_leaves_zeros(void **state) {
  (void)state;
  enum { FLOATS = 12, PARTS = 3 };
  struct group group;
  struct fpl_traffic traffic = {0};
  float workspace[FLOATS] = {0};
  int64_t arrivals = 0;
  fill(&group);
  for (int round = 0; round < 2; round++)
    for (size_t part = 0; part < PARTS; part++)
      assert_int_equal(fpl_inter_cluster_reduce(PARTS, FLOATS, group.staged[part], workspace,
                                                &arrivals, group.result[part], &traffic),
                       part == PARTS - 1);
  assert_int_equal(arrivals, 0);
  for (size_t i = 0; i < FLOATS; i++) {
    assert_true(workspace[i] == 0);
    assert_true(group.result[0][i] == 0);
    assert_true(group.result[PARTS - 1][i] == value(0, i) + value(1, i) + value(2, i));
  }
  expect_bytes(&traffic, 0, 0, 2 * (PARTS + 2) * FLOATS * 4);
  assert_true(traffic.l2_reduce_bytes == 2 * PARTS * FLOATS * 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      {"Fig. 7: shuffle and reduce groups follow from the cluster vector", test_fig_7_groups, NULL,
       NULL, NULL},
      {"both addresses name every block once", test_both_addresses_name_every_block_once, NULL,
       NULL, NULL},
      {"Fig. 7a: k layers take different parts of l", test_k_layers_take_different_parts_of_l, NULL,
       NULL, NULL},
      {"all-exchange adds partials in every block", test_all_exchange_adds, NULL, NULL, NULL},
      {"all-exchange multiplies the branches in every block", test_all_exchange_multiplies, NULL,
       NULL, NULL},
      {"shuffle gathers the strip in every block", test_shuffle_gathers_the_strip, NULL, NULL,
       NULL},
      {"reduce-scatter leaves one share of the sum to each block",
       test_reduce_scatter_leaves_a_share_to_each, NULL, NULL, NULL},
      {"octets of columns take turns: one block has the sum of each", test_octets_take_turns, NULL,
       NULL, NULL},
      {"the last adder takes the sums and leaves zeros",
       test_the_last_adder_takes_the_sums_and_leaves_zeros, NULL, NULL, NULL},
  };
  cmocka_set_message_output(CM_OUTPUT_TAP);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
