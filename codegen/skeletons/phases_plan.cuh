// What a plan of the phases_sm90 family means: counts derived from its constants, maps of shared
// memory and workspace, and its skeleton rules as static_asserts. The rules that every plan shares
// are in plan_rules.cuh.
#ifndef FPL_SKELETONS_PHASES_PLAN_CUH
#define FPL_SKELETONS_PHASES_PLAN_CUH

#include "codegen/skeletons/pipe/shares.cuh"
#include "codegen/skeletons/plan_rules.cuh"

namespace skel {

constexpr int stages_most = 16; // of a ring
constexpr int slab = 64;        // columns of a swizzled row of 128 bytes, in elements of 2 bytes

__host__ __device__ constexpr int smaller(int a, int b) {
  return a < b ? a : b;
}

// Counts of a two-phase plan P, as in tuner/core/tiling.h. blk_k is the step along the reduction of
// both products: along k, then along n.
template <class P> struct phase_counts {
  static constexpr int branches = plan_counts<P>::branches;
  static constexpr int c_columns = branches * P::blk_n; // sums of a C tile's row
  static constexpr int groups = larger(1, P::cls_n *P::cls_k / P::cls_l);
  static constexpr int steps_n = ceil_div(P::n, P::blk_n *P::cls_n);
  static constexpr int steps_l = ceil_div(P::l, P::blk_l *P::cls_l);
  static constexpr int tiles_n = ceil_div(P::n, P::blk_n);
  static constexpr int tiles_l = ceil_div(P::l, P::blk_l);
  static constexpr int depth_k = ceil_div(P::k, P::blk_k); // stages of a C tile
  static constexpr int depth_n = ceil_div(P::n, P::blk_k); // of an E tile, over all groups
  static constexpr int slabs = P::blk_k / slab;
  static constexpr int slabs_n = ceil_div(P::n, slab);
  static constexpr int consumers = P::blk_m > 64 ? 2 : 1; // warpgroups
  static constexpr int consumer_threads = consumers * sm90::warpgroup_threads;
  static constexpr int row_tiles =
      larger(1, P::blk_m / (consumers * sm90::mma_rows)); // a warpgroup
};

// Shared memory of one block:
//   ring     2-byte elements, rows of 64 swizzled
//            phase 1: [stages] of { X: A [slabs][blk_m][64] | W: B [slabs][branches][blk_n][64] }
//            phase 2: [stages_e] of { X: C [slabs][8][blk_m][8] | W: D [slabs][blk_l][64] }
//                     received [groups - 1] shares of E (pipe/shares.cuh)
//   overrun  what a wgmma's 64 rows read behind the last X of fewer rows
//   barriers
template <class P> struct phase_smem {
  using C = phase_counts<P>;
  static constexpr int x_slab_bytes = P::blk_m * slab * 2;
  static constexpr int octet_bytes = P::blk_m * 16; // 8 columns of C
  static constexpr int x_bytes = P::blk_m * P::blk_k * 2;
  static constexpr int b_bytes = C::c_columns * P::blk_k * 2;
  static constexpr int d_bytes = P::blk_l * P::blk_k * 2;
  static constexpr int stage_bytes = x_bytes + b_bytes;
  static constexpr int stage_e_bytes = x_bytes + d_bytes;
  static constexpr int ring_bytes = P::stages * stage_bytes;
  using e_shares = shares<P::blk_l, C::groups, C::row_tiles, C::consumer_threads>;
  static constexpr int received_bytes =
      plan_counts<P>::uses_dsm ? (C::groups - 1) * e_shares::bytes : 0;
  static constexpr int stages_e =
      smaller(stages_most, (ring_bytes - received_bytes) / stage_e_bytes);
  static constexpr int received_at = stages_e * stage_e_bytes;
  static constexpr int overrun_bytes = larger(0, (sm90::mma_rows - P::blk_m) * slab * 2 - b_bytes);
  static constexpr int barriers_at = ring_bytes + overrun_bytes;
  // Partial C received where the cluster splits k: planned, no skeleton has it.
  static constexpr int exchange_bytes =
      (P::cls_k - 1) *
      shares<P::blk_n, P::cls_k, C::branches * C::row_tiles, C::consumer_threads>::bytes;
  static constexpr int smem_bytes =
      barriers_at + exchange_bytes + barrier_bytes + sm90::swizzle_align;
};

// Workspace in global memory, for each row group of blk_m rows:
//   C        [slabs_n][8][blk_m][8], 2-byte elements: octets of columns, as the tensor cores read
//            them; a block's tile is contiguous, and so is each store of a warp
//   flags    [tiles_n] u32: number of the launch that wrote the C tile
//   counter  u64: launches so far, in units of 2^16 (of the first row group)
template <class P> struct phase_workspace {
  using C = phase_counts<P>;
  static constexpr long long flags_at = (long long)C::slabs_n * phase_smem<P>::x_slab_bytes;
  static constexpr long long counter_at = flags_at + round_up(C::tiles_n * 4, 128);
  static constexpr long long row_group_bytes = counter_at + 128;
};

template <class P, class A = matrix> struct check_phases : check_rules<P> {
  using C = phase_counts<P>;
  using S = phase_smem<P>;
  static constexpr int rows = round_up(P::blk_m, sm90::mma_rows);
  static_assert(S::smem_bytes <= sm90::smem_bytes_per_block, "capacity: shared memory");
  static_assert(S::stages_e >= 2, "capacity: stages of C and D");
  static_assert(rows * C::c_columns / C::consumer_threads <= accumulator_most,
                "capacity: sums of C");
  static_assert(rows * P::blk_l / C::consumer_threads <= accumulator_most, "capacity: sums of E");

  static_assert(A::ic % 16 == 0, "skeleton_kind: ic");
  static_assert(P::cls_m == 1 && P::cls_k == 1, "skeleton_loops: m or k split in the cluster");
  static_assert(P::reduce == reduce_none || P::reduce == reduce_dsm, "skeleton_loops: reduce");
  static_assert(P::blk_k % slab == 0, "skeleton_tiles: blk_k");
  static_assert(A::ic % slab == 0, "skeleton_tiles: ic");
  static_assert(C::c_columns <= 256, "skeleton_tiles: blk_n");
  static_assert(P::stages >= 2 && P::stages <= 8, "skeleton_tiles: stages");
  static_assert(P::n % 8 == 0 && P::k % 8 == 0 && P::l % 8 == 0, "skeleton_alignment: n, k, l");

  static constexpr int smem_bytes = S::smem_bytes;
  static constexpr int threads = C::consumer_threads + sm90::warpgroup_threads;
  static constexpr long long workspace_bytes = phase_workspace<P>::row_group_bytes;
};

} // namespace skel

#endif
