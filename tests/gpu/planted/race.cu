// Planted fault: one warp reads what another writes to shared memory, without a barrier between.
#include "codegen/skeletons/ptx/sm90.cuh"

extern "C" __global__ void planted_race(const __grid_constant__ skel::tensor_map,
                                        const __grid_constant__ skel::tensor_map,
                                        const __grid_constant__ skel::tensor_map, void *e, void *,
                                        int) {
  __shared__ volatile uint16_t words[64];
  if (threadIdx.x < 32)
    words[threadIdx.x] = threadIdx.x;
  else if (threadIdx.x < 64)
    static_cast<volatile uint16_t *>(e)[threadIdx.x] = words[threadIdx.x - 32];
}
