/* Decides with which attributes and on how many blocks a kernel is launched. */
#include "tuner/launch/loaded.h"

#include "tuner/base/str.h"

enum {
  PORTABLE_CLUSTER = 8, /* blocks; larger ones want consent (CUDA programming guide, clusters) */
  MOST_ATTRIBUTES = 3
};

static CUlaunchConfig launch_config(const struct fpl_kernel *kernel, int64_t m, bool is_early,
                                    CUstream stream,
                                    CUlaunchAttribute attributes[MOST_ATTRIBUTES]) {
  unsigned n = 0;
  if (kernel->cluster > 1) {
    attributes[n] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
    attributes[n].value.clusterDim.x = (unsigned)kernel->cluster;
    attributes[n].value.clusterDim.y = 1;
    attributes[n++].value.clusterDim.z = 1;
  }
  if (fpl_kernel_is_cooperative(kernel)) {
    attributes[n] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE};
    attributes[n++].value.cooperative = 1;
  }
  if (is_early) {
    attributes[n] =
        (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
    attributes[n++].value.programmaticStreamSerializationAllowed = 1;
  }
  return (CUlaunchConfig){.gridDimX = (unsigned)fpl_kernel_grid(kernel, m),
                          .gridDimY = 1,
                          .gridDimZ = 1,
                          .blockDimX = (unsigned)kernel->block_threads,
                          .blockDimY = 1,
                          .blockDimZ = 1,
                          .sharedMemBytes = (unsigned)kernel->smem_bytes,
                          .hStream = stream,
                          .attrs = attributes,
                          .numAttrs = n};
}

/* Refusal of shared memory or of a cluster size is a limit, whatever code the driver gives it. */
static bool set_function(const struct fpl_driver *call, CUfunction function,
                         CUfunction_attribute attribute, int value, const char *what,
                         struct fpl_failure *failure) {
  if (fpl_driver_ok(call, call->function_set(function, attribute, value), what, failure))
    return true;
  if (failure->outcome == FPL_OUTCOME_LAUNCH_ERROR)
    failure->outcome = FPL_OUTCOME_RESOURCE_LIMIT;
  return false;
}

/* Clusters that the device holds at once. */
static bool count_active(const struct fpl_driver *call, const struct fpl_loaded *loaded, int sms,
                         int64_t m, bool is_early, int *out, struct fpl_failure *failure) {
  const struct fpl_kernel *const k = &loaded->kernel;
  if (k->cluster == 1) {
    const bool is_ok = fpl_driver_ok(
        call, call->active_blocks(out, loaded->function, k->block_threads, (size_t)k->smem_bytes),
        "count active blocks", failure);
    *out *= sms;
    return is_ok;
  }
  CUlaunchAttribute attributes[MOST_ATTRIBUTES];
  const CUlaunchConfig config = launch_config(k, m, is_early, NULL, attributes);
  return fpl_driver_ok(call, call->active_clusters(out, loaded->function, &config),
                       "count active clusters", failure);
}

/* Attributes, then the most clusters: kernels are persistent and may wait for one another across
 * the grid, so no more clusters are launched than run at once. */
static bool fit_device(const struct fpl_driver *call, int sms, int64_t m, bool is_early,
                       struct fpl_loaded *loaded, struct fpl_failure *failure) {
  struct fpl_kernel *const k = &loaded->kernel;
  if (!set_function(call, loaded->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                    (int)k->smem_bytes, "shared memory", failure))
    return false;
  if (k->cluster > PORTABLE_CLUSTER &&
      !set_function(call, loaded->function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1,
                    "cluster size", failure))
    return false;
  int active = 0;
  if (!count_active(call, loaded, sms, m, is_early, &active, failure)) {
    if (failure->outcome == FPL_OUTCOME_LAUNCH_ERROR)
      failure->outcome = FPL_OUTCOME_RESOURCE_LIMIT;
    return false;
  }
  if (active < 1)
    return fpl_failure_candidate(
        failure, FPL_OUTCOME_RESOURCE_LIMIT,
        "no cluster of %d blocks fits: %d threads, %lld bytes of shared memory a block", k->cluster,
        k->block_threads, (long long)k->smem_bytes);
  k->max_clusters = fpl_min_i64(k->max_clusters, active);
  return true;
}

bool fpl_loaded_open(const struct fpl_driver *call, const struct fpl_kernel *kernel,
                     const void *image, int sms, int64_t m, bool is_early, struct fpl_loaded *out,
                     struct fpl_failure *failure) {
  *out = (struct fpl_loaded){.kernel = *kernel, .is_early = is_early};
  out->kernel.cubin = NULL;
  if (fpl_driver_ok(call, call->module_load(&out->module, image), "load the cubin", failure) &&
      fpl_driver_ok(call, call->module_function(&out->function, out->module, kernel->name),
                    kernel->name, failure) &&
      fit_device(call, sms, m, is_early, out, failure))
    return true;
  fpl_loaded_close(call, out);
  return false;
}

void fpl_loaded_close(const struct fpl_driver *call, struct fpl_loaded *loaded) {
  if (loaded->module != NULL)
    call->module_unload(loaded->module);
  *loaded = (struct fpl_loaded){0};
}

bool fpl_loaded_launch(const struct fpl_driver *call, const struct fpl_loaded *loaded,
                       const struct fpl_launch *launch, CUstream stream,
                       struct fpl_failure *failure) {
  CUtensorMap *const maps = launch->maps;
  CUdeviceptr e = launch->e, workspace = launch->workspace;
  int m = launch->m;
  void *parameters[] = {&maps[0], &maps[1], &maps[2], &e, &workspace, &m};
  CUlaunchAttribute attributes[MOST_ATTRIBUTES];
  const CUlaunchConfig config =
      launch_config(&loaded->kernel, m, loaded->is_early, stream, attributes);
  return fpl_driver_ok(call, call->launch_with(&config, loaded->function, parameters, NULL),
                       "launch", failure);
}
