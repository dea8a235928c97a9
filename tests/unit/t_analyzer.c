/* Closed forms against numbers worked out by hand from MODEL.md section 1. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "costmodel/analyzer.h"

struct analysis {
  struct fpl_tiling t;
  struct fpl_footprint f;
  struct fpl_traffic v;
};

/* Without legality: the worked examples of the literature do not fit one block's shared memory. */
static struct analysis analyze(const char *problem_text, const char *schedule_text) {
  struct fpl_problem p;
  struct fpl_schedule s;
  struct fpl_err err;
  assert_int_equal(fpl_problem_parse(problem_text, &p, &err), FPL_OK);
  assert_int_equal(fpl_schedule_parse(schedule_text, &s, &err), FPL_OK);
  struct analysis a;
  fpl_tiling_make(&p, &s, &a.t);
  fpl_footprint_make(&a.t, &s, &a.f);
  fpl_analyze(&p, &s, &a.t, &a.f, &a.v);
  return a;
}

static void assert_bytes(double got, int64_t expected) {
  assert_int_equal((int64_t)got, expected);
}

static void assert_dsm_a_block(const struct analysis *a, int64_t all_exchange, int64_t shuffle,
                               int64_t reduce_scatter) {
  const int64_t blocks = a->t.blocks;
  assert_int_equal(a->t.units, 1);
  assert_bytes(a->v.dsm.all_exchange, blocks * all_exchange);
  assert_bytes(a->v.dsm.shuffle, blocks * shuffle);
  assert_bytes(a->v.dsm.reduce_scatter, blocks * reduce_scatter);
  assert_bytes(a->v.bytes[FPL_LEVEL_DSM], blocks * (all_exchange + shuffle + reduce_scatter));
}

#define FIG7_TILES " blk_m=128 blk_n=128 blk_k=128 blk_l=128 exchange=dsm gate=sequential stages=2"

static void fig_7a_moves_the_bytes_of_the_worked_example(void **state) {
  (void)state;
  const struct analysis a =
      analyze("gemm_chain m=256 n=512 k=256 l=512 dtype=f16 act=relu",
              "loops=mn|lk cls_m=2 cls_n=4 cls_k=2 cls_l=4 reduce=dsm" FIG7_TILES);
  /* C partials travel as f32: 65536 where f16 partials would be 32768. */
  assert_dsm_a_block(&a, 65536, 32768, 32768);
}

static void fig_7b_trades_the_reduction_for_a_wider_shuffle(void **state) {
  (void)state;
  const struct analysis a =
      analyze("gemm_chain m=256 n=512 k=256 l=1024 dtype=f16 act=relu",
              "loops=mn|lk cls_m=2 cls_n=4 cls_k=2 cls_l=8 reduce=none" FIG7_TILES);
  assert_dsm_a_block(&a, 65536, 98304, 0);
}

static void compulsory_bytes_of_gpt_6_7b_are_270532608(void **state) {
  (void)state;
  const struct analysis a =
      analyze("gemm_chain m=128 n=16384 k=4096 l=4096 dtype=f16 act=relu",
              "loops=m|nlk cls_m=1 cls_n=1 cls_k=1 cls_l=1 blk_m=128 blk_n=128 blk_k=64 blk_l=128 "
              "exchange=smem reduce=none gate=sequential stages=2");
  assert_bytes(a.v.bytes[FPL_LEVEL_HBM], 270532608);
  /* A is read again for each of the 128 n tiles. */
  assert_bytes(a.v.bytes[FPL_LEVEL_L2], 134217728 + 2 * 134217728 + 1048576);
  assert_bytes(a.v.l2_shared_bytes, 134217728);
}

#define ONE_TILE                                                                                   \
  "loops=m|nlk cls_m=1 cls_n=1 cls_k=1 cls_l=1 blk_m=16 blk_n=16 blk_k=16 blk_l=16 "               \
  "gate=sequential reduce=none stages=1 exchange="

static void one_tile_through_shared_memory_counts_by_hand(void **state) {
  (void)state;
  const struct analysis a =
      analyze("gemm_chain m=16 n=16 k=16 l=16 dtype=f16 act=none", ONE_TILE "smem");
  const int64_t tile = 512, sums = 1024;
  assert_bytes(a.v.bytes[FPL_LEVEL_HBM], 4 * tile);
  assert_bytes(a.v.bytes[FPL_LEVEL_L2], 4 * tile);
  assert_bytes(a.v.bytes[FPL_LEVEL_DSM], 0);
  /* 3 fills, 4 operand reads, 1 strip */
  assert_bytes(a.v.bytes[FPL_LEVEL_SMEM], 8 * tile);
  assert_bytes(a.v.bytes[FPL_LEVEL_REGISTER], 2 * 2 * sums);
}

static void one_tile_through_registers_saves_strip_and_operand(void **state) {
  (void)state;
  const struct analysis a =
      analyze("gemm_chain m=16 n=16 k=16 l=16 dtype=f16 act=none", ONE_TILE "register");
  assert_bytes(a.v.bytes[FPL_LEVEL_SMEM], 6 * 512);
  assert_bytes(a.v.bytes[FPL_LEVEL_REGISTER], 4 * 1024 + 512);
}

static void masked_tiles_move_only_elements_over_l2_but_whole_tiles_inside(void **state) {
  (void)state;
  const struct analysis a =
      analyze("gemm_chain m=1 n=20 k=10 l=3 dtype=f16 act=none", ONE_TILE "smem");
  const int64_t tile = 512;
  /* A for each of 2 n tiles; B, D once; E */
  assert_bytes(a.v.bytes[FPL_LEVEL_L2], 2 * (2 * 10 + 20 * 10 + 20 * 3 + 3));
  /* two n tiles, each 8 tiles as above */
  assert_bytes(a.v.bytes[FPL_LEVEL_SMEM], 2 * 8 * tile);
}

static void empty_blocks_exchange_whole_tiles_and_load_nothing(void **state) {
  (void)state;
  /* One n tile for four blocks, one l tile for two. */
  const struct analysis a =
      analyze("gemm_chain m=16 n=16 k=16 l=16 dtype=f16 act=none",
              "loops=mn|lk cls_m=1 cls_n=4 cls_k=1 cls_l=2 blk_m=16 blk_n=16 blk_k=16 blk_l=16 "
              "exchange=dsm reduce=dsm gate=sequential stages=1");
  const int64_t tile = 512, sums = 1024;
  assert_dsm_a_block(&a, 0, tile, sums / 2);
  assert_bytes(a.v.bytes[FPL_LEVEL_L2], 4 * tile);
  const int64_t products = 7 * tile, strips = 4 * tile, received = 4 * (tile + sums / 2);
  const int64_t staged = 4 * sums, added = 4 * sums;
  assert_bytes(a.v.bytes[FPL_LEVEL_SMEM], products + strips + received + staged + added);
}

static void reduction_in_l2_adds_every_part_and_visits_the_workspace_once(void **state) {
  (void)state;
  /* 5 n tiles over 3 clusters of 2: 6 parts for each of 2 E tiles. */
  const struct analysis a =
      analyze("gemm_chain m=16 n=80 k=16 l=32 dtype=f16 act=none",
              "loops=mn|lk cls_m=1 cls_n=2 cls_k=1 cls_l=1 blk_m=16 blk_n=16 blk_k=16 blk_l=16 "
              "exchange=smem reduce=l2 gate=sequential stages=1");
  assert_int_equal(a.t.e_parts, 3);
  assert_bytes(a.v.l2_reduce_bytes, 2 * 6 * 1024);
  const int64_t elements = 16 * 16 * 5 + 80 * 16 + 80 * 32 + 16 * 32;
  assert_bytes(a.v.bytes[FPL_LEVEL_L2], 2 * elements + 2 * 6 * 1024 + 2 * 2 * 1024);
}

static void reduction_over_dsm_first_leaves_one_part_a_cluster(void **state) {
  (void)state;
  const struct analysis a =
      analyze("gemm_chain m=16 n=80 k=16 l=32 dtype=f16 act=none",
              "loops=mn|lk cls_m=1 cls_n=2 cls_k=1 cls_l=1 blk_m=16 blk_n=16 blk_k=16 blk_l=16 "
              "exchange=smem reduce=dsm_l2 gate=sequential stages=1");
  assert_bytes(a.v.l2_reduce_bytes, 2 * 3 * 1024);
  /* 3 units x 2 rounds x 2 blocks, half a tile each */
  assert_bytes(a.v.dsm.reduce_scatter, 3 * 2 * 2 * 512);
}

static void recompute_reads_a_and_b_again_for_each_l_part(void **state) {
  (void)state;
  const char *const problem = "gemm_chain m=16 n=32 k=16 l=48 dtype=f16 act=none";
  const struct analysis a =
      analyze(problem, "loops=ml|nk cls_m=1 cls_n=1 cls_k=1 cls_l=1 blk_m=16 blk_n=16 blk_k=16 "
                       "blk_l=16 exchange=recompute reduce=none gate=sequential stages=1");
  assert_bytes(a.v.bytes[FPL_LEVEL_L2], 2 * (3 * (2 * 16 * 16 + 32 * 16) + 32 * 48 + 16 * 48));
  assert_bytes(a.v.bytes[FPL_LEVEL_HBM], 2 * (16 * 16 + 32 * 16 + 32 * 48 + 16 * 48));
}

#define TWO_PHASE                                                                                  \
  "loops=mnl|k cls_m=1 cls_n=2 cls_k=2 cls_l=2 blk_m=16 blk_n=16 blk_k=16 blk_l=16 "               \
  "reduce=dsm gate=sequential stages=1 exchange="

static void two_phases_write_c_once_and_read_it_for_each_l_tile(void **state) {
  (void)state;
  const char *const problem = "gemm_chain m=16 n=48 k=32 l=32 dtype=f16 act=none";
  const struct analysis l2 = analyze(problem, TWO_PHASE "l2");
  const struct analysis hbm = analyze(problem, TWO_PHASE "hbm");
  const int64_t c = 2 * 16 * 48;
  const int64_t others = 2 * (3 * 16 * 32 + 48 * 32 + 48 * 32 + 16 * 32);
  assert_bytes(l2.v.bytes[FPL_LEVEL_L2], others + c + 2 * c);
  assert_bytes(hbm.v.bytes[FPL_LEVEL_L2], others + c + 2 * c);
  assert_bytes(hbm.v.bytes[FPL_LEVEL_HBM] - l2.v.bytes[FPL_LEVEL_HBM], 2 * c);
  assert_bytes(l2.v.dsm.all_exchange + l2.v.dsm.shuffle, 0);
  /* C: 2 units x 4 blocks x half a tile from 1 peer; E: 1 unit x 4 blocks x half a tile */
  assert_bytes(l2.v.dsm.reduce_scatter, 2 * 4 * 512 + 4 * 512);
}

/* Tiles: 2 of m, 2 of n, 3 of k, 2 of l. GEMM1 takes 3 steps of 16 along n: group 0 one, group 1
 * two. */
static void two_phases_of_one_cluster_count_by_hand(void **state) {
  (void)state;
  const struct analysis a =
      analyze("gemm_chain m=32 n=40 k=40 l=24 dtype=f16 act=none",
              "loops=mnl|k cls_m=1 cls_n=2 cls_k=1 cls_l=1 blk_m=16 blk_n=32 blk_k=16 blk_l=16 "
              "exchange=l2 reduce=dsm gate=sequential stages=4");
  assert_int_equal(a.t.gemm1_steps, 3);
  /* 1280 elements of A, 1600 of B, 960 of D, 768 of E; C is not among them */
  assert_bytes(a.v.bytes[FPL_LEVEL_HBM], 2 * (1280 + 1600 + 960 + 768));
  /* A and C (1280) for each of 2 n and 2 l tiles, B and D for each of 2 m tiles; C, E stored */
  const int64_t shared = 2 * (2 * 1280 + 2 * 1280 + 2 * 1600 + 2 * 960);
  assert_bytes(a.v.l2_shared_bytes, shared);
  assert_bytes(a.v.bytes[FPL_LEVEL_L2], shared + 2 * (1280 + 768));
  /* 4 units of 2 blocks, each block gets half of 1024 bytes of sums */
  assert_bytes(a.v.dsm.reduce_scatter, 8 * 512);
  assert_bytes(a.v.bytes[FPL_LEVEL_DSM], 8 * 512);
  /* 2 x 2 x 3 products of each GEMM; filled and read: 512 of A, 1024 of B; 512 of C, 512 of D. What
     came from the peer is written and read; nothing is staged */
  const int64_t products = 12 * 2 * (512 + 1024 + 512 + 512);
  assert_bytes(a.v.bytes[FPL_LEVEL_SMEM], products + 2 * 8 * 512);
  /* one step of 16 along the reduction: 2048 bytes of sums of C, 1024 of E, read and written */
  assert_bytes(a.v.bytes[FPL_LEVEL_REGISTER], 2 * 12 * (2048 + 1024));
}

static void a_spatial_gate_reads_a_in_both_layers_and_b_once(void **state) {
  (void)state;
  const char *const problem = "gated_ffn m=16 n=16 k=32 l=32 dtype=f16 act=silu";
  const struct analysis spatial =
      analyze(problem, "loops=mn|lk cls_m=1 cls_n=1 cls_k=2 cls_l=2 blk_m=16 blk_n=16 blk_k=16 "
                       "blk_l=16 exchange=dsm reduce=none gate=spatial stages=1");
  const struct analysis sequential =
      analyze(problem, "loops=mn|lk cls_m=1 cls_n=1 cls_k=2 cls_l=2 blk_m=16 blk_n=16 blk_k=16 "
                       "blk_l=16 exchange=dsm reduce=none gate=sequential stages=1");
  assert_bytes(spatial.v.bytes[FPL_LEVEL_HBM], (int64_t)sequential.v.bytes[FPL_LEVEL_HBM]);
  assert_bytes(spatial.v.bytes[FPL_LEVEL_L2] - sequential.v.bytes[FPL_LEVEL_L2], 2 * 16 * 32);
  /* One f32 tile for each block, against two branches of partials. */
  assert_bytes(spatial.v.dsm.all_exchange, 2 * 1024);
  assert_bytes(sequential.v.dsm.all_exchange, 2 * 2 * 1024);
}

static void sums_that_wait_in_shared_memory_move_twice_a_step(void **state) {
  (void)state;
  const char *const problem = "gemm_chain m=128 n=48 k=16 l=1024 dtype=f16 act=none";
  const char *const schedule =
      "loops=m|nlk cls_m=1 cls_n=1 cls_k=1 cls_l=1 blk_m=128 blk_n=16 blk_k=16 blk_l=128 "
      "exchange=smem reduce=none gate=sequential stages=1";
  const struct analysis a = analyze(problem, schedule);
  assert_int_equal(a.f.e_home, FPL_HOME_SMEM);
  const int64_t a_tile = 2 * 128 * 16, b_tile = 2 * 16 * 16, c_tile = a_tile, d_tile = a_tile;
  const int64_t gemm0 = 2 * a_tile + 3 * b_tile + c_tile, gemm1 = 3 * d_tile + c_tile;
  const int64_t waits = 2 * 4 * 128 * 128;
  assert_bytes(a.v.bytes[FPL_LEVEL_SMEM], 3 * gemm0 + 3 * 8 * (gemm1 + waits));
}

static void levels_have_names_from_fast_to_slow(void **state) {
  (void)state;
  assert_string_equal(fpl_level_names[FPL_LEVEL_REGISTER], "register");
  assert_string_equal(fpl_level_names[FPL_LEVEL_HBM], "hbm");
  assert_null(fpl_level_names[FPL_LEVELS]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fig_7a_moves_the_bytes_of_the_worked_example),
      cmocka_unit_test(fig_7b_trades_the_reduction_for_a_wider_shuffle),
      cmocka_unit_test(compulsory_bytes_of_gpt_6_7b_are_270532608),
      cmocka_unit_test(one_tile_through_shared_memory_counts_by_hand),
      cmocka_unit_test(one_tile_through_registers_saves_strip_and_operand),
      cmocka_unit_test(masked_tiles_move_only_elements_over_l2_but_whole_tiles_inside),
      cmocka_unit_test(empty_blocks_exchange_whole_tiles_and_load_nothing),
      cmocka_unit_test(reduction_in_l2_adds_every_part_and_visits_the_workspace_once),
      cmocka_unit_test(reduction_over_dsm_first_leaves_one_part_a_cluster),
      cmocka_unit_test(recompute_reads_a_and_b_again_for_each_l_part),
      cmocka_unit_test(two_phases_write_c_once_and_read_it_for_each_l_tile),
      cmocka_unit_test(two_phases_of_one_cluster_count_by_hand),
      cmocka_unit_test(a_spatial_gate_reads_a_in_both_layers_and_b_once),
      cmocka_unit_test(sums_that_wait_in_shared_memory_move_twice_a_step),
      cmocka_unit_test(levels_have_names_from_fast_to_slow),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
