// What a plan of the chain_sm90 family means: the maps of shared memory and workspace, and the rules
// of capacity and skeleton, in the order and with the names of tuner/core/legal.c. The host emits
// its own results as static_asserts against these.
#ifndef FPL_SKELETONS_CHAIN_PLAN_CUH
#define FPL_SKELETONS_CHAIN_PLAN_CUH

#include "codegen/skeletons/phases_plan.cuh"

namespace skel {

// Shared memory of one block, regions in this order; as in tuner/core/footprint.c.
//   ring      [stages] of A [blk_k / slab][blk_m][slab] and B [branches][blk_k / slab][blk_n][slab],
//             or of D [blk_n / slab][blk_l][slab]; 2-byte elements, swizzled at the slab's width
//   strip     C [shuffle][blk_n / slab][blk_m][slab], 2-byte elements, swizzled
//   staging   what the block adds in L2: its share of E, or all (pipe/shares.cuh)
//   exchange  partial C received: [cls_k - 1]
//   reduce    partial E received: [groups - 1] shares
//   barriers
//   overrun   what a wgmma's 64 rows read behind the last A or C of fewer rows
template <class P> struct smem_map {
  using C = plan_counts<P>;
  static constexpr int a_bytes = P::blk_m * P::blk_k * 2;
  static constexpr int b_bytes = P::blk_n * P::blk_k * 2; // one branch
  static constexpr int d_bytes = P::blk_l * P::blk_n * 2;
  static constexpr int c_bytes = P::blk_m * P::blk_n * 2; // one tile
  static constexpr int stage_bytes =
      round_up(larger(a_bytes + C::branches * b_bytes, d_bytes), sm90::swizzle_align);
  static constexpr int ring_bytes = P::stages * stage_bytes;
  static constexpr int strip_bytes = round_up(C::shuffle * c_bytes, sm90::swizzle_align);
  using c_shares = shares<P::blk_n, 1, C::branches, C::consumer_threads>;
  using e_shares = shares<P::blk_l, C::uses_dsm ? C::groups : 1, 1, C::consumer_threads>;
  static constexpr int staging_bytes = C::uses_l2 ? e_shares::bytes : 0;
  static constexpr int exchange_bytes = (P::cls_k - 1) * c_shares::bytes;
  static constexpr int reduce_bytes = C::uses_dsm ? (C::groups - 1) * e_shares::bytes : 0;
  static constexpr int strip_at = ring_bytes;
  static constexpr int staging_at = strip_at + strip_bytes;
  static constexpr int exchange_at = staging_at + staging_bytes;
  static constexpr int reduce_at = exchange_at + exchange_bytes;
  static constexpr int barriers_at = reduce_at + reduce_bytes;
  static constexpr int overrun_bytes = larger(0, (sm90::mma_rows - P::blk_m) * slab * 2);
  static constexpr int smem_bytes =
      barriers_at + barrier_bytes + overrun_bytes + sm90::swizzle_align;
};

// Workspace in global memory, zero between launches. For each group of cls_m blk_m rows:
//   tiles [cls_m][tiles_l] of all shares, then a counter for each tile (and share: dsm_l2)
template <class P> struct workspace_map {
  using C = plan_counts<P>;
  static constexpr int n_shares = P::reduce == reduce_dsm_l2 ? C::groups : 1;
  static constexpr int parts = P::reduce == reduce_l2 ? C::e_parts * C::groups : C::e_parts;
  static constexpr long long counters_at =
      (long long)P::cls_m * C::tiles_l * n_shares * smem_map<P>::e_shares::bytes;
  static constexpr long long row_group_bytes =
      C::uses_l2 ? counters_at + round_up(P::cls_m * C::tiles_l * n_shares * 4, 128) : 0;
};

// What a block of any plan of the space needs, as in tuner/core/footprint.c; a plan may be refused
// for it before a rule says that no skeleton runs its loops. Equal to smem_map where one does.
template <class P> struct plan_needs {
  using C = plan_counts<P>;
  using S = smem_map<P>;
  static constexpr long long steps(char dim) {
    return dim == 'm' ? C::steps_m : dim == 'n' ? C::steps_n : dim == 'k' ? C::steps_k : C::steps_l;
  }
  // Product of the steps of a and b among the temporal loops inside loop `outer`.
  static constexpr long long steps_inside(char outer, char a, char b) {
    long long product = 1;
    bool is_temporal = false, is_inside = false;
    for (const char *at = P::loops; *at; at++) {
      if (is_inside && (*at == a || *at == b))
        product *= steps(*at);
      is_temporal = is_temporal || *at == '|';
      is_inside = is_inside || (is_temporal && *at == outer);
    }
    return product;
  }
  static constexpr bool is_repeated(char dim) {
    return !C::is_two_phase && !is_spatial(P::loops, dim) && steps(dim) > 1;
  }
  static constexpr long long c_kept = is_repeated('l') ? steps_inside('l', 'm', 'n') : 1;
  static constexpr long long e_kept = is_repeated('n') ? steps_inside('n', 'm', 'l') : 1;
  static constexpr long long strip_bytes =
      P::exchange == in_register ? 0
                                 : (c_kept * C::shuffle * S::c_bytes + sm90::swizzle_align - 1) /
                                       sm90::swizzle_align * sm90::swizzle_align;
  static constexpr int rows = round_up(P::blk_m, sm90::mma_rows);
  static constexpr int c_sums = ceil_div(C::branches * rows * P::blk_n, C::consumer_threads);
  static constexpr int e_sums = ceil_div(rows * P::blk_l, C::consumer_threads);
  static constexpr bool is_e_in_smem = e_kept > 1 && c_sums + e_kept *e_sums > accumulator_most;
  static constexpr long long e_bytes = is_e_in_smem ? e_kept * P::blk_m * P::blk_l * 4 : 0;
  static constexpr long long fused_bytes = S::ring_bytes + strip_bytes + S::staging_bytes +
                                           S::exchange_bytes + S::reduce_bytes + e_bytes +
                                           barrier_bytes + S::overrun_bytes + sm90::swizzle_align;
  static constexpr long long smem_bytes = C::is_two_phase ? phase_smem<P>::smem_bytes : fused_bytes;
};

template <class P, class A = matrix> struct check_plan : check_rules<P> {
  using C = plan_counts<P>;
  using S = smem_map<P>;
  using N = plan_needs<P>;
  static_assert(N::smem_bytes <= sm90::smem_bytes_per_block, "capacity: shared memory");
  static_assert(!C::is_two_phase || phase_smem<P>::stages_e >= 2, "capacity: stages of C and D");
  static_assert(N::c_sums <= accumulator_most, "capacity: sums of C");
  static_assert(N::e_sums <= accumulator_most, "capacity: sums of E");
  static_assert(P::exchange != in_register || N::c_kept == 1,
                "capacity: registers keep one C tile");

  static_assert(A::ic % 16 == 0, "skeleton_kind: ic");
  static constexpr bool is_fused = P::exchange == in_smem || P::exchange == in_dsm;
  static_assert(is_fused || P::exchange == recomputed, "skeleton_loops: exchange");
  static_assert(is_named(P::loops, is_fused ? "mn|lk" : "mnl|k"), "skeleton_loops: loops");
  static_assert(P::blk_m <= 128 && is_power_of_two(P::blk_m), "skeleton_tiles: blk_m");
  static_assert(A::ic % slab_columns(P::blk_k) == 0, "skeleton_tiles: blk_k and ic");
  static_assert(P::stages >= 2 && P::stages <= 8, "skeleton_tiles: stages");
  static_assert(C::k_layers == 1 || C::branches * P::blk_n <= 192, "skeleton_tiles: blk_n");
  static_assert(P::n % 8 == 0 && P::k % 8 == 0 && P::l % 8 == 0, "skeleton_alignment: n, k, l");

  static_assert(N::smem_bytes == S::smem_bytes);
  static constexpr int smem_bytes = S::smem_bytes;
  static constexpr int threads = C::consumer_threads + sm90::warpgroup_threads;
  static constexpr long long workspace_bytes = workspace_map<P>::row_group_bytes;
};

} // namespace skel

#endif
