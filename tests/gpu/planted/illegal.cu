// Planted fault: a write to an address that nobody owns.
#include "codegen/skeletons/ptx/sm90.cuh"

extern "C" __global__ void planted_illegal(const __grid_constant__ skel::tensor_map,
                                           const __grid_constant__ skel::tensor_map,
                                           const __grid_constant__ skel::tensor_map, void *, void *,
                                           int m) {
  *reinterpret_cast<volatile int *>(16) = m; // the first page is never mapped
}
