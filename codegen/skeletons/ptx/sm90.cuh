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

} // namespace skel

#endif
