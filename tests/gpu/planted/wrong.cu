// Planted fault: every element of E is written, none with a sum.
#include "codegen/skeletons/ptx/sm90.cuh"

extern "C" __global__ void planted_wrong(const __grid_constant__ skel::tensor_map,
                                         const __grid_constant__ skel::tensor_map,
                                         const __grid_constant__ skel::tensor_map, void *e, void *,
                                         int m) {
  constexpr int l = 128; // columns of E of the problem it is planted into
  uint16_t *const out = static_cast<uint16_t *>(e);
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < m * l; i += gridDim.x * blockDim.x)
    out[i] = static_cast<uint16_t>(0x3c00 + i % 97); // f16: 1 and a little more
}
