// What every plan means: counts derived from its constants, and one static_assert for each legality
// rule that does not depend on a skeleton, in the order and with the names of tuner/core/legal.c.
#ifndef FPL_SKELETONS_PLAN_RULES_CUH
#define FPL_SKELETONS_PLAN_RULES_CUH

#include "codegen/skeletons/arch/sm90.cuh"

namespace skel {

// Orders of the host's enums fpl_exchange and fpl_reduce.
enum exchange_level { in_register, in_smem, in_dsm, in_l2, in_hbm, recomputed };
enum reduce_level { reduce_none, reduce_dsm, reduce_l2, reduce_dsm_l2 };

constexpr int barrier_bytes = 1024;
constexpr int accumulator_most = 128; // f32 sums a consumer thread holds without spilling

__host__ __device__ constexpr int ceil_div(int a, int b) {
  return (a + b - 1) / b;
}
__host__ __device__ constexpr int round_up(int a, int multiple) {
  return ceil_div(a, multiple) * multiple;
}
__host__ __device__ constexpr int larger(int a, int b) {
  return a > b ? a : b;
}
__host__ __device__ constexpr bool is_power_of_two(int x) {
  return x >= 1 && (x & (x - 1)) == 0;
}
// Widest swizzled row, in elements of 2 bytes, that divides a tile of `columns`.
__host__ __device__ constexpr int slab_columns(int columns) {
  return columns % 64 == 0 ? 64 : columns % 32 == 0 ? 32 : 16;
}

// What A is: a matrix [m][k], or a struct of h, w, ic, k1: the image [batch][h][w][ic] of a k1 x k1
// convolution (pipe/image.cuh).
struct matrix {
  static constexpr int h = 1, w = 1, ic = 0, k1 = 1;
};

// A loop name: spatial dimensions | temporal ones, outer to inner.
__host__ __device__ constexpr bool is_spatial(const char *loops, char dim) {
  for (; *loops != '|'; loops++)
    if (*loops == dim)
      return true;
  return false;
}
__host__ __device__ constexpr char innermost(const char *loops) {
  char last = '|';
  for (; *loops; loops++)
    last = *loops;
  return last;
}
__host__ __device__ constexpr bool is_named(const char *loops, const char *name) {
  for (; *loops && *loops == *name; loops++, name++) {
  }
  return *loops == *name;
}

// Counts of plan P, as in tuner/core/tiling.h.
template <class P> struct plan_counts {
  static constexpr bool is_split_gate = P::is_gated && P::gate == 1;
  static constexpr int branches = P::is_gated && !is_split_gate ? 2 : 1;
  static constexpr int blocks = P::cls_m * P::cls_n * P::cls_k;
  static constexpr int shuffle = larger(1, P::cls_l / P::cls_k);
  static constexpr int groups = larger(1, P::cls_n *P::cls_k / P::cls_l);
  static constexpr int k_layers = is_split_gate ? 1 : P::cls_k;
  static constexpr int steps_m = ceil_div(P::m, P::blk_m *P::cls_m);
  static constexpr int steps_n = ceil_div(P::n, P::blk_n *P::cls_n);
  static constexpr int steps_k = ceil_div(P::k, P::blk_k *k_layers);
  static constexpr int steps_l = ceil_div(P::l, P::blk_l *P::cls_l);
  static constexpr int tiles_n = ceil_div(P::n, P::blk_n);
  static constexpr int tiles_k = ceil_div(P::k, P::blk_k);
  static constexpr int tiles_l = ceil_div(P::l, P::blk_l);
  static constexpr bool is_two_phase = P::exchange == in_l2 || P::exchange == in_hbm;
  static constexpr int e_parts = !is_two_phase && is_spatial(P::loops, 'n') ? steps_n : 1;
  // E tiles that a block finishes in one unit.
  static constexpr long long e_rounds = is_two_phase
                                            ? 1
                                            : (is_spatial(P::loops, 'm') ? 1ll : steps_m) *
                                                  (is_spatial(P::loops, 'l') ? 1ll : steps_l);
  static constexpr bool uses_dsm = P::reduce == reduce_dsm || P::reduce == reduce_dsm_l2;
  static constexpr bool uses_l2 = P::reduce == reduce_l2 || P::reduce == reduce_dsm_l2;
  static constexpr int consumer_threads = P::blk_m > 64 ? 256 : 128;
};

// Rules that do not depend on a skeleton, in legal.c's order.
template <class P> struct check_rules {
  using C = plan_counts<P>;
  static constexpr bool is_tile(int tile, int extent) {
    return tile % 16 == 0 && tile >= 16 && tile <= sm90::tile_most &&
           (tile <= 64 || tile < 2 * round_up(extent, 16));
  }
  static_assert(is_tile(P::blk_m, P::m), "tile_limits: blk_m");
  static_assert(is_tile(P::blk_n, P::n), "tile_limits: blk_n");
  static_assert(is_tile(P::blk_k, P::k), "tile_limits: blk_k");
  static_assert(is_tile(P::blk_l, P::l), "tile_limits: blk_l");

  static_assert(is_power_of_two(P::cls_m) && is_power_of_two(P::cls_n) &&
                    is_power_of_two(P::cls_k) && is_power_of_two(P::cls_l),
                "cluster_size: dims are 1, 2, 4, 8 or 16");
  static_assert(C::blocks <= sm90::max_cluster, "cluster_size: too many blocks");
  static_assert(P::cls_l % P::cls_k == 0, "cluster_size: cls_k does not divide cls_l");
  static_assert(P::cls_n * P::cls_k % P::cls_l == 0,
                "cluster_size: cls_l does not divide cls_n cls_k");

  static_assert(C::steps_k == 1 || (!is_spatial(P::loops, 'k') && innermost(P::loops) == 'k'),
                "activation: k is not the innermost loop");

  static constexpr bool needs_spatial_l = C::is_two_phase || P::exchange == recomputed;
  static constexpr bool is_alone = P::cls_k == 1 && P::cls_l == 1;
  static_assert(is_spatial(P::loops, 'l') == needs_spatial_l, "dependency: l and exchange");
  static_assert(!C::is_two_phase || (is_spatial(P::loops, 'm') && is_spatial(P::loops, 'n') &&
                                     !is_spatial(P::loops, 'k')),
                "dependency: two phases need loops mnl|k");
  static_assert(P::exchange != in_dsm || !is_alone, "dependency: exchange dsm has no peer");
  static_assert(C::is_two_phase || P::exchange == in_dsm || is_alone,
                "dependency: exchange needs cls_k = cls_l = 1");
  static_assert(!C::is_two_phase || P::blk_m % P::cls_k == 0,
                "dependency: blk_m not divisible by cls_k");
  static_assert(P::gate == 0 || P::is_gated, "dependency: gate spatial is for gated_ffn");
  static_assert(P::gate == 0 || (P::cls_k == 2 && !C::is_two_phase),
                "dependency: gate spatial needs cls_k = 2");
  static_assert(!C::uses_dsm || C::groups > 1, "dependency: nothing to reduce over dsm");
  static_assert(C::groups == 1 || P::reduce != reduce_none, "dependency: groups need a reduce");
  static_assert(C::e_parts == 1 || C::uses_l2, "dependency: clusters need a reduce in l2");
  static_assert(!C::uses_l2 || C::e_parts > 1 || (C::groups > 1 && !C::uses_dsm),
                "dependency: nothing to reduce in l2");
  static_assert(!C::uses_dsm || P::blk_m % C::groups == 0,
                "dependency: blk_m not divisible into shares");
};

} // namespace skel

#endif
