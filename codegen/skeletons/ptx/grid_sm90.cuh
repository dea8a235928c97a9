// Order between kernels of one stream, one instruction a function (PTX ISA, griddepcontrol).
#ifndef FPL_SKELETONS_PTX_GRID_SM90_CUH
#define FPL_SKELETONS_PTX_GRID_SM90_CUH

namespace skel {

// For a kernel that was launched early (programmatic stream serialization): waits until the kernels
// before it have ended and what they wrote is visible. At once where it was not.
__device__ inline void wait_for_kernels_before() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

// Lets the next kernel of the stream, if launched so, take SMs as this one's blocks leave them.
__device__ inline void let_next_kernel_start() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

} // namespace skel

#endif
