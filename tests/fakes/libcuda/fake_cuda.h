/* A libcuda without a GPU, for tests of the library: it is an H200, keeps what it was asked for, and
 * fails on request. Its name (soname) is the real one's, so that it takes its place in a process
 * that has loaded it first. */
#ifndef FPL_TESTS_FAKE_CUDA_H
#define FPL_TESTS_FAKE_CUDA_H

#include <stdint.h>

struct fake_cuda {
  int n_loads, n_unloads, n_maps, n_launches, n_pushes, n_pops;
  int sms; /* of the device */
  int is_failing_launches;
  /* of the last launch */
  void *stream, *context;
  unsigned grid, cluster;
  int is_cooperative, m;
  uint64_t e, workspace;
  uint64_t addresses[3]; /* of the last maps */
};

/* dlsym("fake_cuda_state") */
struct fake_cuda *fake_cuda_state(void);

#endif
