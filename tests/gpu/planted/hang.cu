// Planted fault: a kernel that never ends.
#include "codegen/skeletons/ptx/sm90.cuh"

extern "C" __global__ void planted_hang(const __grid_constant__ skel::tensor_map,
                                        const __grid_constant__ skel::tensor_map,
                                        const __grid_constant__ skel::tensor_map, void *e, void *,
                                        int m) {
  volatile int *const never = static_cast<volatile int *>(e);
  while (m >= 0)
    if (*never == 0x7fc0ffee) // read again and again: the compiler may not drop the loop
      m = *never;
}
