// Instances of chain_sm90: the smallest plan, and one of each exchange, reduce and gate. A header
// alone compiles even where a template's body is wrong.
#include "codegen/skeletons/chain_sm90.cuh"

// What the instances share.
struct common {
  static constexpr int m = 128;
  static constexpr bool is_gated = false, is_bf16 = false;
  static constexpr int act = 1;
  static constexpr int cls_m = 1, cls_n = 1, cls_k = 1, cls_l = 1;
  static constexpr int gate = 0;
  static constexpr int stages = 2;
};

struct smallest : common {
  static constexpr int n = 16, k = 16, l = 16;
  static constexpr char loops[] = "mn|lk";
  static constexpr int blk_m = 64, blk_n = 16, blk_k = 16, blk_l = 16;
  static constexpr int exchange = skel::in_smem, reduce = skel::reduce_none;
};

struct shuffled : common {
  static constexpr int n = 3072, k = 768, l = 768;
  static constexpr char loops[] = "mn|lk";
  static constexpr int cls_n = 8, cls_k = 2, cls_l = 4;
  static constexpr int blk_m = 128, blk_n = 48, blk_k = 64, blk_l = 96;
  static constexpr int exchange = skel::in_dsm, reduce = skel::reduce_dsm_l2;
};

struct gated : common {
  static constexpr bool is_gated = true, is_bf16 = true;
  static constexpr int act = 3;
  static constexpr int n = 3072, k = 1024, l = 1024;
  static constexpr char loops[] = "mn|lk";
  static constexpr int cls_n = 4, cls_k = 2, cls_l = 2;
  static constexpr int blk_m = 64, blk_n = 96, blk_k = 64, blk_l = 128;
  static constexpr int gate = 1;
  static constexpr int exchange = skel::in_dsm, reduce = skel::reduce_l2;
};

struct recomputed : common {
  static constexpr int n = 512, k = 32, l = 256;
  static constexpr char loops[] = "mnl|k";
  static constexpr int cls_n = 8;
  static constexpr int blk_m = 64, blk_n = 64, blk_k = 32, blk_l = 64;
  static constexpr int exchange = skel::recomputed, reduce = skel::reduce_dsm;
};

#define FPL_SELFCHECK(plan)                                                                        \
  extern "C" __global__ void __launch_bounds__(skel::check_plan<plan>::threads, 1)                 \
      selfcheck_##plan(const __grid_constant__ skel::tensor_map map_a,                             \
                       const __grid_constant__ skel::tensor_map map_b,                             \
                       const __grid_constant__ skel::tensor_map map_d, void *e, void *workspace,   \
                       int m) {                                                                    \
    skel::chain<plan>::run(&map_a, &map_b, &map_d, e, workspace, m);                               \
  }

FPL_SELFCHECK(smallest)
FPL_SELFCHECK(shuffled)
FPL_SELFCHECK(gated)
FPL_SELFCHECK(recomputed)
