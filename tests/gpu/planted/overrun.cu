// Planted fault: a bulk copy from memory that nobody owns, far behind E.
#include "codegen/skeletons/pipe/ring.cuh"
#include "codegen/skeletons/ptx/sm90.cuh"

extern "C" __global__ void planted_overrun(const __grid_constant__ skel::tensor_map,
                                           const __grid_constant__ skel::tensor_map,
                                           const __grid_constant__ skel::tensor_map, void *e,
                                           void *, int) {
  __shared__ alignas(128) uint16_t words[512];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    skel::ptx::mbarrier_init(&full, 1);
    skel::ptx::fence_mbarrier_init(skel::ptx::sem_release, skel::ptx::scope_cluster);
    skel::ptx::mbarrier_arrive_expect_tx(skel::ptx::sem_release, skel::ptx::scope_cta,
                                         skel::ptx::space_shared, &full, sizeof words);
    skel::ptx::cp_async_bulk(skel::ptx::space_cluster, skel::ptx::space_global, words,
                             static_cast<char *>(e) + (1ll << 42), sizeof words, &full);
  }
  __syncthreads();
  while (!skel::ptx::mbarrier_try_wait_parity(&full, 0)) {
  }
  static_cast<volatile uint16_t *>(e)[threadIdx.x] = words[threadIdx.x];
}
