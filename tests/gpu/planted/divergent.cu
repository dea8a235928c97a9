// Planted fault: half of each warp leaves out a barrier of the block.
#include "codegen/skeletons/ptx/sm90.cuh"

extern "C" __global__ void planted_divergent(const __grid_constant__ skel::tensor_map,
                                             const __grid_constant__ skel::tensor_map,
                                             const __grid_constant__ skel::tensor_map, void *e,
                                             void *, int) {
  if (threadIdx.x % 32 < 16)
    __syncthreads();
  static_cast<volatile uint16_t *>(e)[threadIdx.x] = 0;
}
