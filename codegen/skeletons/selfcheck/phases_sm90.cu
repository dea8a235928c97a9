// Instances of phases_sm90: the smallest plan, a cluster whose peers add up E, two branches with two
// row tiles, an image. A header alone compiles even where a template's body is wrong.
#include "codegen/skeletons/phases_sm90.cuh"

// What the instances share.
struct common {
  static constexpr int m = 128;
  static constexpr bool is_gated = false, is_bf16 = false;
  static constexpr int act = 1;
  static constexpr char loops[] = "mnl|k";
  static constexpr int cls_m = 1, cls_n = 1, cls_k = 1, cls_l = 1;
  static constexpr int gate = 0;
  static constexpr int exchange = skel::in_l2, reduce = skel::reduce_none;
  static constexpr int stages = 4;
};

struct smallest : common {
  static constexpr int n = 64, k = 64, l = 16;
  static constexpr int blk_m = 16, blk_n = 16, blk_k = 64, blk_l = 16;
};

// Ten octets of columns for four groups, slabs that reach over the edges of k and n.
struct reduced : common {
  static constexpr int n = 1000, k = 520, l = 328;
  static constexpr int cls_n = 8, cls_l = 2;
  static constexpr int blk_m = 32, blk_n = 48, blk_k = 128, blk_l = 80;
  static constexpr int reduce = skel::reduce_dsm;
};

struct gated : common {
  static constexpr int m = 256;
  static constexpr bool is_gated = true, is_bf16 = true;
  static constexpr int act = 3;
  static constexpr int n = 3072, k = 1024, l = 1024;
  static constexpr int cls_n = 2;
  static constexpr int blk_m = 256, blk_n = 32, blk_k = 64, blk_l = 64;
  static constexpr int reduce = skel::reduce_dsm;
};

struct convolved : common {
  static constexpr int n = 128, k = 576, l = 64;
  static constexpr int blk_m = 128, blk_n = 64, blk_k = 128, blk_l = 64;
};
struct image {
  static constexpr int h = 28, w = 28, ic = 64, k1 = 3;
};

#define FPL_SELFCHECK(plan, source)                                                                \
  extern "C" __global__ void __launch_bounds__(skel::check_phases<plan, source>::threads, 1)       \
      selfcheck_##plan(const __grid_constant__ skel::tensor_map map_a,                             \
                       const __grid_constant__ skel::tensor_map map_b,                             \
                       const __grid_constant__ skel::tensor_map map_d, void *e, void *workspace,   \
                       int m) {                                                                    \
    skel::phases<plan, source>::run(&map_a, &map_b, &map_d, e, workspace, m);                      \
  }

FPL_SELFCHECK(smallest, skel::matrix)
FPL_SELFCHECK(reduced, skel::matrix)
FPL_SELFCHECK(gated, skel::matrix)
FPL_SELFCHECK(convolved, image)
