// Ring of shared-memory stages between producer warps and consumer warpgroups.
//
// full[s]:  1 arrival (the producer's, with the bytes expected) + the bytes of the copies
// empty[s]: 1 arrival of each consumer warpgroup
// Stage number t, counted from 0 over the whole kernel, lies in slot t % stages; its phase is
// t / stages % 2. A producer waits for `empty` of the opposite phase: the first round passes at
// once.
#ifndef FPL_SKELETONS_PIPE_RING_CUH
#define FPL_SKELETONS_PIPE_RING_CUH

#include <cuda/ptx>

namespace skel {

namespace ptx = cuda::ptx;

__device__ inline void wait_phase(uint64_t *barrier, uint32_t phase) {
  while (!ptx::mbarrier_try_wait_parity(barrier, phase)) {
  }
}

// The same where peers have written to this block's memory.
__device__ inline void wait_phase_of_cluster(uint64_t *barrier, uint32_t phase) {
  while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, barrier, phase)) {
  }
}

__device__ inline void expect_bytes(uint64_t *barrier, uint32_t bytes) {
  ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, barrier,
                                 bytes);
}

__device__ inline void arrive_remote(uint64_t *barrier_of_peer) {
  ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cluster, ptx::space_cluster, barrier_of_peer);
}

template <int stages> struct ring {
  uint64_t *full, *empty;

  __device__ void wait_empty(int t) const {
    wait_phase(empty + t % stages, (t / stages + 1) & 1);
  }
  __device__ bool is_empty(int t) const {
    return ptx::mbarrier_test_wait_parity(empty + t % stages, (t / stages + 1) & 1);
  }
  __device__ void wait_full(int t) const {
    wait_phase(full + t % stages, t / stages & 1);
  }
  __device__ void release(int t) const {
    ptx::mbarrier_arrive(empty + t % stages);
  }
};

} // namespace skel

#endif
