/* Running a plan: a generated kernel or the library pair as one "runner", launched once, or many
 * times in a CUDA graph over rotating inputs, and timed.
 *
 * A graph holds FPL_REPLAY_LEAD launches that are not counted (the first ones after a pause run on
 * a cold clock and an empty pipeline), then `n_launches` that are. cold: launch i uses set
 * i mod n_sets, whole rotations, so a set's weights have left the L2 when it comes round again.
 * hot: every launch uses set 0.
 */
#ifndef FPL_MEASURE_SAMPLE_CUDA_H
#define FPL_MEASURE_SAMPLE_CUDA_H

#include "tuner/launch/loaded.h"
#include "tuner/measure/inputs.h"
#include "tuner/measure/nvml.h"

/* A plan that can be launched on set `set` (0 .. n_sets) of the inputs, writing their E. */
struct fpl_runner {
  void *self;
  bool is_library;
  bool (*enqueue)(void *self, int64_t set, struct fpl_failure *failure); /* to gpu->stream */
  CUdeviceptr guard; /* sentinels past the end of the plan's own memory, or 0 */
  uint64_t guard_elements;
};

/* A generated kernel on the device. The GPU and the inputs must outlive it. */
struct fpl_cuda_kernel {
  const struct fpl_gpu *gpu;
  struct fpl_loaded loaded;
  CUtensorMap *maps; /* [n_sets + 1][FPL_KERNEL_MAPS], heap */
  CUdeviceptr e;
  CUdeviceptr workspace; /* zeroed once; guard behind it */
  CUdeviceptr guard;
  int m;
};

/* `image`: a whole cubin. is_early: launched before the kernels before it have ended (programmatic
 * stream serialization): its weights stream in meanwhile, everything else waits. Not for tracing:
 * the record of such a kernel starts with its waiting. Failures: launch_error (bad image, symbol or
 * map), resource_limit, oom. On failure nothing is left open. `out` must not move afterwards. */
bool fpl_cuda_kernel_load(const struct fpl_gpu *gpu, const struct fpl_inputs *inputs,
                          const struct fpl_kernel *kernel, const void *image, bool is_early,
                          struct fpl_cuda_kernel *out, struct fpl_failure *failure);
void fpl_cuda_kernel_unload(struct fpl_cuda_kernel *kernel);
struct fpl_runner fpl_cuda_kernel_runner(struct fpl_cuda_kernel *kernel);

enum { FPL_REPLAY_LEAD = 2 };
struct fpl_replay {
  CUgraphExec exec; /* NULL: not made */
  int64_t n_launches;
  int64_t n_kernels; /* of the whole graph, the lead included: records a replay must leave */
};

/* Captures and uploads the graph. */
bool fpl_replay_make(const struct fpl_gpu *gpu, const struct fpl_runner *runner,
                     const struct fpl_inputs *inputs, enum fpl_cache_state state,
                     struct fpl_replay *out, struct fpl_failure *failure);
void fpl_replay_free(const struct fpl_gpu *gpu, struct fpl_replay *replay);

/* One replay by events: mean of all its launches, microseconds. */
bool fpl_replay_mean_us(const struct fpl_gpu *gpu, const struct fpl_replay *replay, double *out_us,
                        struct fpl_failure *failure);

struct fpl_sample_set {
  double *us; /* heap */
  int64_t n;
  enum fpl_method method;
  struct fpl_nvml_reading reading; /* while the first replay ran */
};
/* n samples. CUPTI: one a launch, in whole replays, spread evenly over the last replay where not
 * all of it are wanted. Where CUPTI has no answer: one mean a replay, method graph. Free out->us.
 */
bool fpl_replay_sample(const struct fpl_gpu *gpu, const struct fpl_replay *replay,
                       const struct fpl_nvml *nvml, int64_t n, struct fpl_sample_set *out,
                       struct fpl_failure *failure);

#endif
