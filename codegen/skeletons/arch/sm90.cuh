// Limits of compute capability 9.0, once. Source: CUDA C++ Programming Guide, table "Technical
// specifications per compute capability"; PTX ISA for boxes and transaction counts.
#ifndef FPL_SKELETONS_ARCH_SM90_CUH
#define FPL_SKELETONS_ARCH_SM90_CUH

namespace skel::sm90 {

constexpr int smem_bytes_per_block = 232448;
constexpr int max_cluster = 16; // blocks, non-portable
constexpr int warpgroup_threads = 128;
constexpr int mma_rows = 64;              // rows of one wgmma
constexpr int mma_k = 16;                 // elements of k of one wgmma, f16 and bf16
constexpr int tile_most = 256;            // wgmma columns, rows of a tensor-map box
constexpr int swizzle_align = 1024;       // bytes
constexpr int transaction_most = 1 << 20; // bytes one mbarrier phase may expect (less than)

} // namespace skel::sm90

#endif
