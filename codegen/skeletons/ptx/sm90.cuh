// One-instruction wrappers that cuda::ptx lacks: cluster addresses, register budgets, named
// barriers, tensor-map prefetch. Source of each: PTX ISA, section of that name.
#ifndef FPL_SKELETONS_PTX_SM90_CUH
#define FPL_SKELETONS_PTX_SM90_CUH

#include <cuda/std/cstdint>

namespace skel {

__device__ inline uint32_t smem_address(const void *p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// The same variable in the shared memory of block `rank` of this cluster (mapa).
template <class T> __device__ inline T *at_rank(T *p, uint32_t rank) {
  T *mapped;
  asm("mapa.u64 %0, %1, %2;" : "=l"(mapped) : "l"(p), "r"(rank));
  return mapped;
}

// setmaxnreg: gives registers back, or takes them, for the whole warpgroup.
template <int registers> __device__ inline void registers_lower() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers> __device__ inline void registers_raise() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

// Barrier among `threads` threads of the block; 0 is __syncthreads.
template <int id, int threads> __device__ inline void named_barrier() {
  asm volatile("bar.sync %0, %1;" ::"n"(id), "n"(threads) : "memory");
}

// Counts this warp on such a barrier without waiting.
template <int id, int threads> __device__ inline void named_barrier_arrive() {
  asm volatile("bar.arrive %0, %1;" ::"n"(id), "n"(threads) : "memory");
}

// A tensor map as the driver encodes it (CUtensorMap: 128 opaque bytes). Declared here because
// NVRTC cannot read the driver's header.
struct alignas(64) tensor_map {
  uint64_t opaque[16];
};

__device__ inline void prefetch_map(const void *map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Brings a box of a tensor into L2 (cp.async.bulk.prefetch.tensor).
__device__ inline void prefetch_tile(const void *map, const int32_t (&corner)[2]) {
  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];" ::"l"(map),
               "r"(corner[0]), "r"(corner[1])
               : "memory");
}
__device__ inline void prefetch_tile(const void *map, const int32_t (&corner)[3]) {
  asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%0, {%1, %2, %3}];" ::"l"(map),
               "r"(corner[0]), "r"(corner[1]), "r"(corner[2])
               : "memory");
}

// Loads, a store and an add in global memory with the order that flags between blocks need.
__device__ inline uint64_t load_relaxed(const uint64_t *p) {
  uint64_t x;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(x) : "l"(p) : "memory");
  return x;
}
__device__ inline uint32_t load_acquire(const uint32_t *p) {
  uint32_t x;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(x) : "l"(p) : "memory");
  return x;
}
__device__ inline void store_release(uint32_t *p, uint32_t x) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(x) : "memory");
}
__device__ inline void add_relaxed(uint64_t *p, uint64_t x) {
  asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(p), "l"(x) : "memory");
}

// How long data stays in L2 once it has passed (createpolicy): weights are read once, so they give
// way first.
__device__ inline uint64_t policy_evict_first() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ inline uint64_t policy_evict_last() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// Copies a box of a tensor into shared memory, counted on `full` (cp.async.bulk.tensor with a
// policy, which cuda::ptx lacks).
__device__ inline void copy_tensor(void *to, const tensor_map *map, const int32_t (&corner)[2],
                                   uint64_t *full, uint64_t policy) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
               ".L2::cache_hint [%0], [%1, {%4, %5}], [%2], %3;" ::"r"(smem_address(to)),
               "l"(map), "r"(smem_address(full)), "l"(policy), "r"(corner[0]), "r"(corner[1])
               : "memory");
}
__device__ inline void copy_tensor(void *to, const tensor_map *map, const int32_t (&corner)[3],
                                   uint64_t *full, uint64_t policy) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
               ".L2::cache_hint [%0], [%1, {%4, %5, %6}], [%2], %3;" ::"r"(smem_address(to)),
               "l"(map), "r"(smem_address(full)), "l"(policy), "r"(corner[0]), "r"(corner[1]),
               "r"(corner[2])
               : "memory");
}
__device__ inline void copy_tensor(void *to, const tensor_map *map, const int32_t (&corner)[4],
                                   uint64_t *full, uint64_t policy) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
               ".L2::cache_hint [%0], [%1, {%4, %5, %6, %7}], [%2], %3;" ::"r"(smem_address(to)),
               "l"(map), "r"(smem_address(full)), "l"(policy), "r"(corner[0]), "r"(corner[1]),
               "r"(corner[2]), "r"(corner[3])
               : "memory");
}

// The same in im2col mode: pixels from a base pixel on, each moved by the offset of a filter's tap
// (cp.async.bulk.tensor, which cuda::ptx has in tile mode only). Channel, x, y, image; dx, dy.
__device__ inline void copy_im2col(void *to, const tensor_map *map, const int32_t (&base)[4],
                                   const uint16_t (&offset)[2], uint64_t *full, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%4, %5, %6, %7}], [%2], {%8, %9}, %3;" ::"r"(smem_address(to)),
      "l"(map), "r"(smem_address(full)), "l"(policy), "r"(base[0]), "r"(base[1]), "r"(base[2]),
      "r"(base[3]), "h"(offset[0]), "h"(offset[1])
      : "memory");
}

} // namespace skel

#endif
