/* Decides how a plan is launched and how its launches become times; what is enough and what they
 * mean is the supervisor's. */
#include "tuner/measure/sample_cuda.h"

#include "tuner/base/str.h"
#include "tuner/measure/rotation.h"
#include "tuner/measure/sample_cupti.h"

#include <stdlib.h>
#include <string.h>

enum {
  PORTABLE_CLUSTER = 8, /* blocks; larger ones want consent (CUDA programming guide, clusters) */
  HOT_LAUNCHES = 32,
  GUARD_BYTES = 65536
};

static int64_t recipe_rows(const struct fpl_map_recipe *recipe, const struct fpl_problem *p) {
  return recipe->rows < 0 ? p->m : recipe->rows;
}

static bool choose_swizzle(const struct fpl_map_recipe *recipe, CUtensorMapSwizzle *out,
                           struct fpl_failure *failure) {
  const int row_bytes = recipe->box_cols * FPL_ELEMENT_BYTES;
  *out = CU_TENSOR_MAP_SWIZZLE_128B;
  if (row_bytes == 64)
    *out = CU_TENSOR_MAP_SWIZZLE_64B;
  else if (row_bytes == 32)
    *out = CU_TENSOR_MAP_SWIZZLE_32B;
  else if (row_bytes != 128)
    return fpl_failure_candidate(failure, FPL_OUTCOME_LAUNCH_ERROR,
                                 "tensor map: a box row of %d bytes has no swizzle", row_bytes);
  return true;
}

/* Both element types are 16 bits that TMA only moves; the type matters for the fill alone, which is
 * zero. */
static const CUtensorMapDataType map_type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
enum { MOST_RANK = 4 };

/* The image [batch][h][w][ic]. Base pixels are those from which a kernel of k1 x k1 reaches no
 * further than the padding: from -(k1-1)/2 to extent - 1 - (k1-1)/2, so that there is one for each
 * output pixel. The upper corner counts from the far end. */
static CUresult encode_image(const struct fpl_driver *call, const struct fpl_map_recipe *recipe,
                             const struct fpl_conv *conv, void *base, CUtensorMapSwizzle swizzle,
                             CUtensorMap *out) {
  const cuuint64_t ic = (cuuint64_t)conv->ic, w = (cuuint64_t)conv->w, h = (cuuint64_t)conv->h;
  const cuuint64_t sizes[MOST_RANK] = {ic, w, h, (cuuint64_t)conv->batch};
  const cuuint64_t strides_bytes[] = {ic * FPL_ELEMENT_BYTES, w * ic * FPL_ELEMENT_BYTES,
                                      h * w * ic * FPL_ELEMENT_BYTES};
  const int corner = -(int)((conv->k1 - 1) / 2);
  const int lower[] = {corner, corner}, upper[] = {corner, corner};
  const cuuint32_t steps[MOST_RANK] = {1, 1, 1, 1};
  return call->map_encode_image(out, map_type, MOST_RANK, base, sizes, strides_bytes, lower, upper,
                                (cuuint32_t)recipe->box_cols, (cuuint32_t)recipe->box_rows, steps,
                                CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                                CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

/* Dimensions, inner to outer: columns (of a slab), rows, parts, slabs. */
static CUresult encode_matrix(const struct fpl_driver *call, const struct fpl_map_recipe *recipe,
                              int64_t rows, void *base, CUtensorMapSwizzle swizzle,
                              CUtensorMap *out) {
  const bool has_slabs = recipe->slabs > 1;
  const cuuint64_t box_cols = (cuuint64_t)recipe->box_cols;
  const cuuint64_t row_bytes = (cuuint64_t)recipe->cols * FPL_ELEMENT_BYTES;
  const cuuint64_t part_rows = (cuuint64_t)(rows / recipe->parts);
  cuuint64_t sizes[MOST_RANK] = {has_slabs ? box_cols : (cuuint64_t)recipe->cols, part_rows};
  cuuint64_t strides_bytes[MOST_RANK - 1] = {row_bytes}; /* of all dimensions but the innermost */
  cuuint32_t box[MOST_RANK] = {(cuuint32_t)recipe->box_cols, (cuuint32_t)recipe->box_rows};
  const cuuint32_t steps[MOST_RANK] = {1, 1, 1, 1};
  cuuint32_t rank = 2;
  if (recipe->parts > 1) {
    sizes[rank] = box[rank] = (cuuint32_t)recipe->parts;
    strides_bytes[rank++ - 1] = part_rows * row_bytes;
  }
  if (has_slabs) {
    sizes[rank] = (cuuint64_t)recipe->cols / box_cols;
    box[rank] = (cuuint32_t)recipe->slabs;
    strides_bytes[rank++ - 1] = box_cols * FPL_ELEMENT_BYTES;
  }
  return call->map_encode(out, map_type, rank, base, sizes, strides_bytes, box, steps,
                          CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                          CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

static bool encode_map(const struct fpl_gpu *gpu, const struct fpl_map_recipe *recipe,
                       const struct fpl_problem *p, CUdeviceptr address, CUtensorMap *out,
                       struct fpl_failure *failure) {
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
  if (!choose_swizzle(recipe, &swizzle, failure))
    return false;
  void *base = NULL;
  memcpy(&base, &address, sizeof base); /* a device address travels as a pointer here */
  const CUresult code =
      recipe->is_image
          ? encode_image(&gpu->call, recipe, &p->conv, base, swizzle, out)
          : encode_matrix(&gpu->call, recipe, recipe_rows(recipe, p), base, swizzle, out);
  return fpl_driver_ok(&gpu->call, code, "encode a tensor map", failure);
}

/* A recipe that reaches past its matrix would read a neighbour's memory without a fault. */
static bool check_recipe(const struct fpl_map_recipe *recipe, const struct fpl_problem *p,
                         int index, int64_t n_elements, struct fpl_failure *failure) {
  const int64_t rows = recipe_rows(recipe, p);
  const bool is_whole =
      (recipe->slabs == 1 || recipe->cols % recipe->box_cols == 0) && rows % recipe->parts == 0;
  const bool is_of_image = index == 0 && p->kind == FPL_KIND_CONV_CHAIN && rows == p->m &&
                           recipe->cols == p->conv.ic && recipe->slabs == 1 && recipe->parts == 1;
  if (is_whole && rows <= n_elements / recipe->cols && (!recipe->is_image || is_of_image))
    return true;
  return fpl_failure_candidate(failure, FPL_OUTCOME_LAUNCH_ERROR,
                               "tensor map %d: %lld x %lld elements do not fit %s of %lld", index,
                               (long long)rows, (long long)recipe->cols,
                               recipe->is_image ? "an image" : "a matrix", (long long)n_elements);
}

static bool make_maps(const struct fpl_inputs *inputs, struct fpl_cuda_kernel *kernel,
                      struct fpl_failure *failure) {
  const struct fpl_problem *p = &inputs->problem;
  const int64_t n_elements[FPL_KERNEL_MAPS] = {fpl_problem_a_elements(p),
                                               fpl_problem_branches(p) * p->n * p->k, p->l * p->n};
  const size_t n_maps = ((size_t)inputs->n_sets + 1) * FPL_KERNEL_MAPS;
  kernel->maps = aligned_alloc(_Alignof(CUtensorMap), n_maps * sizeof *kernel->maps);
  if (kernel->maps == NULL)
    return fpl_failure_candidate(failure, FPL_OUTCOME_OOM, "out of host memory");
  for (int i = 0; i < FPL_KERNEL_MAPS; i++) {
    const struct fpl_map_recipe *recipe = &kernel->kernel.maps[i];
    if (!check_recipe(recipe, p, i, n_elements[i], failure))
      return false;
    for (int64_t set = 0; set <= inputs->n_sets; set++) {
      const struct fpl_operands *from = &inputs->sets[set];
      const CUdeviceptr addresses[FPL_KERNEL_MAPS] = {from->a, from->b, from->d};
      if (!encode_map(kernel->gpu, recipe, p, addresses[i],
                      &kernel->maps[set * FPL_KERNEL_MAPS + i], failure))
        return false;
    }
  }
  return true;
}

enum { MOST_ATTRIBUTES = 3 };

static CUlaunchConfig launch_config(const struct fpl_cuda_kernel *kernel,
                                    CUlaunchAttribute attributes[MOST_ATTRIBUTES]) {
  unsigned n = 0;
  if (kernel->kernel.cluster > 1) {
    attributes[n] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
    attributes[n].value.clusterDim.x = (unsigned)kernel->kernel.cluster;
    attributes[n].value.clusterDim.y = 1;
    attributes[n++].value.clusterDim.z = 1;
  }
  if (fpl_kernel_is_cooperative(&kernel->kernel)) {
    attributes[n] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE};
    attributes[n++].value.cooperative = 1;
  }
  if (kernel->is_early) {
    attributes[n] =
        (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
    attributes[n++].value.programmaticStreamSerializationAllowed = 1;
  }
  return (CUlaunchConfig){.gridDimX = kernel->grid_blocks,
                          .gridDimY = 1,
                          .gridDimZ = 1,
                          .blockDimX = (unsigned)kernel->kernel.block_threads,
                          .blockDimY = 1,
                          .blockDimZ = 1,
                          .sharedMemBytes = (unsigned)kernel->kernel.smem_bytes,
                          .hStream = kernel->gpu->stream,
                          .attrs = attributes,
                          .numAttrs = n};
}

/* Refusal of shared memory or of a cluster size is a limit, whatever code the driver gives it. */
static bool set_function(const struct fpl_cuda_kernel *kernel, CUfunction_attribute attribute,
                         int value, const char *what, struct fpl_failure *failure) {
  const struct fpl_driver *call = &kernel->gpu->call;
  if (fpl_driver_ok(call, call->function_set(kernel->function, attribute, value), what, failure))
    return true;
  if (failure->outcome == FPL_OUTCOME_LAUNCH_ERROR)
    failure->outcome = FPL_OUTCOME_RESOURCE_LIMIT;
  return false;
}

/* Clusters that the device holds at once. */
static bool count_active(const struct fpl_cuda_kernel *kernel, int *out,
                         struct fpl_failure *failure) {
  const struct fpl_driver *call = &kernel->gpu->call;
  if (kernel->kernel.cluster == 1) {
    const bool is_ok =
        fpl_driver_ok(call,
                      call->active_blocks(out, kernel->function, kernel->kernel.block_threads,
                                          (size_t)kernel->kernel.smem_bytes),
                      "count active blocks", failure);
    *out *= kernel->gpu->sms;
    return is_ok;
  }
  CUlaunchAttribute attributes[MOST_ATTRIBUTES];
  const CUlaunchConfig config = launch_config(kernel, attributes);
  return fpl_driver_ok(call, call->active_clusters(out, kernel->function, &config),
                       "count active clusters", failure);
}

/* Attributes, then the grid: kernels are persistent and may wait for one another across the grid,
 * so no more clusters are launched than run at once. */
static bool fit_device(struct fpl_cuda_kernel *kernel, struct fpl_failure *failure) {
  struct fpl_kernel *k = &kernel->kernel;
  if (!set_function(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)k->smem_bytes,
                    "shared memory", failure))
    return false;
  if (k->cluster > PORTABLE_CLUSTER &&
      !set_function(kernel, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1, "cluster size",
                    failure))
    return false;
  kernel->grid_blocks = (unsigned)fpl_kernel_grid(k, kernel->m);
  int active = 0;
  if (!count_active(kernel, &active, failure)) {
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
  kernel->grid_blocks = (unsigned)fpl_kernel_grid(k, kernel->m);
  return true;
}

static bool make_workspace(struct fpl_cuda_kernel *kernel, struct fpl_failure *failure) {
  const struct fpl_gpu *gpu = kernel->gpu;
  const uint64_t bytes =
      (uint64_t)fpl_round_up(fpl_kernel_workspace_bytes(&kernel->kernel, kernel->m), 256);
  if (!fpl_gpu_alloc(gpu, bytes + GUARD_BYTES, &kernel->workspace, failure))
    return false;
  kernel->guard = kernel->workspace + bytes;
  return fpl_driver_ok(&gpu->call, gpu->call.mem_set(kernel->workspace, 0, bytes, gpu->stream),
                       "zero the workspace", failure) &&
         fpl_inputs_fill_sentinel(gpu, kernel->guard, GUARD_BYTES / FPL_ELEMENT_BYTES, failure) &&
         fpl_gpu_wait(gpu, "zero the workspace", failure);
}

bool fpl_cuda_kernel_load(const struct fpl_gpu *gpu, const struct fpl_inputs *inputs,
                          const struct fpl_kernel *kernel, const void *image, bool is_early,
                          struct fpl_cuda_kernel *out, struct fpl_failure *failure) {
  *out = (struct fpl_cuda_kernel){.gpu = gpu,
                                  .kernel = *kernel,
                                  .e = inputs->e,
                                  .m = (int)inputs->problem.m,
                                  .is_early = is_early};
  if (fpl_driver_ok(&gpu->call, gpu->call.module_load(&out->module, image), "load the cubin",
                    failure) &&
      fpl_driver_ok(&gpu->call,
                    gpu->call.module_function(&out->function, out->module, kernel->name),
                    kernel->name, failure) &&
      fit_device(out, failure) && make_maps(inputs, out, failure) && make_workspace(out, failure))
    return true;
  fpl_cuda_kernel_unload(out);
  return false;
}

void fpl_cuda_kernel_unload(struct fpl_cuda_kernel *kernel) {
  if (kernel->gpu != NULL) {
    fpl_gpu_free(kernel->gpu, &kernel->workspace);
    if (kernel->module != NULL)
      kernel->gpu->call.module_unload(kernel->module);
  }
  free(kernel->maps);
  *kernel = (struct fpl_cuda_kernel){0};
}

static bool enqueue_kernel(void *self, int64_t set, struct fpl_failure *failure) {
  struct fpl_cuda_kernel *kernel = self;
  const struct fpl_driver *call = &kernel->gpu->call;
  CUtensorMap *maps = &kernel->maps[set * FPL_KERNEL_MAPS];
  void *parameters[] = {&maps[0], &maps[1], &maps[2], &kernel->e, &kernel->workspace, &kernel->m};
  CUlaunchAttribute attributes[MOST_ATTRIBUTES];
  const CUlaunchConfig config = launch_config(kernel, attributes);
  return fpl_driver_ok(call, call->launch_with(&config, kernel->function, parameters, NULL),
                       "launch", failure);
}

struct fpl_runner fpl_cuda_kernel_runner(struct fpl_cuda_kernel *kernel) {
  return (struct fpl_runner){.self = kernel,
                             .enqueue = enqueue_kernel,
                             .guard = kernel->guard,
                             .guard_elements = GUARD_BYTES / FPL_ELEMENT_BYTES};
}

static bool enqueue_all(const struct fpl_runner *runner, const struct fpl_inputs *inputs,
                        enum fpl_cache_state state, int64_t n_launches,
                        struct fpl_failure *failure) {
  for (int64_t i = -FPL_REPLAY_LEAD; i < n_launches; i++) {
    /* The lead uses the last sets of a rotation, as if it had come before. */
    const int64_t set = state == FPL_COLD ? (i + n_launches) % inputs->n_sets : 0;
    if (!runner->enqueue(runner->self, set, failure))
      return false;
  }
  return true;
}

static bool capture(const struct fpl_gpu *gpu, const struct fpl_runner *runner,
                    const struct fpl_inputs *inputs, enum fpl_cache_state state, int64_t n_launches,
                    CUgraph *out, struct fpl_failure *failure) {
  const struct fpl_driver *call = &gpu->call;
  /* THREAD_LOCAL: a tracing thread's calls must not invalidate the capture. */
  if (!fpl_driver_ok(call, call->capture_begin(gpu->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                     "begin a capture", failure))
    return false;
  const bool is_ok = enqueue_all(runner, inputs, state, n_launches, failure);
  const CUresult ended = call->capture_end(gpu->stream, out);
  return is_ok && fpl_driver_ok(call, ended, "end the capture", failure);
}

/* Kernel nodes; copies and memsets leave no kernel record. */
static bool count_kernels(const struct fpl_gpu *gpu, CUgraph graph, int64_t *out,
                          struct fpl_failure *failure) {
  const struct fpl_driver *call = &gpu->call;
  size_t n_nodes = 0;
  *out = 0;
  if (!fpl_driver_ok(call, call->graph_nodes(graph, NULL, &n_nodes), "count nodes", failure))
    return false;
  CUgraphNode *nodes = calloc(n_nodes + 1, sizeof(CUgraphNode));
  if (nodes == NULL)
    return fpl_failure_candidate(failure, FPL_OUTCOME_OOM, "out of host memory");
  bool is_ok =
      fpl_driver_ok(call, call->graph_nodes(graph, nodes, &n_nodes), "list nodes", failure);
  for (size_t i = 0; i < n_nodes && is_ok; i++) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    is_ok = fpl_driver_ok(call, call->graph_node_type(nodes[i], &type), "node type", failure);
    *out += type == CU_GRAPH_NODE_TYPE_KERNEL ? 1 : 0;
  }
  free(nodes);
  return is_ok;
}

bool fpl_replay_make(const struct fpl_gpu *gpu, const struct fpl_runner *runner,
                     const struct fpl_inputs *inputs, enum fpl_cache_state state,
                     struct fpl_replay *out, struct fpl_failure *failure) {
  const struct fpl_driver *call = &gpu->call;
  CUgraph graph = NULL;
  *out = (struct fpl_replay){.n_launches = state == FPL_COLD ? fpl_rotation_launches(inputs->n_sets)
                                                             : HOT_LAUNCHES};
  const bool is_ok =
      capture(gpu, runner, inputs, state, out->n_launches, &graph, failure) &&
      count_kernels(gpu, graph, &out->n_kernels, failure) &&
      fpl_driver_ok(call, call->graph_instantiate(&out->exec, graph, 0), "instantiate a graph",
                    failure) &&
      fpl_driver_ok(call, call->graph_upload(out->exec, gpu->stream), "upload a graph", failure) &&
      fpl_gpu_wait(gpu, "upload a graph", failure);
  if (graph != NULL)
    call->graph_destroy(graph);
  if (!is_ok)
    fpl_replay_free(gpu, out);
  return is_ok;
}

void fpl_replay_free(const struct fpl_gpu *gpu, struct fpl_replay *replay) {
  if (replay->exec != NULL)
    gpu->call.graph_exec_destroy(replay->exec);
  *replay = (struct fpl_replay){0};
}

static bool launch(const struct fpl_gpu *gpu, const struct fpl_replay *replay,
                   struct fpl_failure *failure) {
  return fpl_driver_ok(&gpu->call, gpu->call.graph_launch(replay->exec, gpu->stream),
                       "launch a graph", failure);
}

bool fpl_replay_mean_us(const struct fpl_gpu *gpu, const struct fpl_replay *replay, double *out_us,
                        struct fpl_failure *failure) {
  const struct fpl_driver *call = &gpu->call;
  float elapsed_ms = 0;
  if (!fpl_driver_ok(call, call->event_record(gpu->start, gpu->stream), "record", failure) ||
      !launch(gpu, replay, failure) ||
      !fpl_driver_ok(call, call->event_record(gpu->stop, gpu->stream), "record", failure) ||
      !fpl_gpu_wait(gpu, "run the plan", failure) ||
      !fpl_driver_ok(call, call->event_elapsed_ms(&elapsed_ms, gpu->start, gpu->stop),
                     "elapsed time", failure))
    return false;
  *out_us = (double)elapsed_ms * 1e3 / (double)(replay->n_launches + FPL_REPLAY_LEAD);
  return true;
}

/* One replay under CUPTI into times[lead + n_launches]; *out_is_traced false when the records are
 * not all there. */
static bool trace(const struct fpl_gpu *gpu, const struct fpl_replay *replay,
                  const struct fpl_nvml *nvml, struct fpl_nvml_reading *reading, double *times,
                  bool *out_is_traced, struct fpl_failure *failure) {
  const int64_t n_all = replay->n_launches + FPL_REPLAY_LEAD;
  struct fpl_span *spans = NULL;
  int64_t n_spans = 0;
  const bool is_on = fpl_cupti_begin();
  if (!launch(gpu, replay, failure))
    return false;
  if (reading != NULL)
    fpl_nvml_read(nvml, reading);
  if (!fpl_gpu_wait(gpu, "run the plan", failure))
    return false;
  *out_is_traced = is_on && fpl_cupti_end(replay->n_kernels, &spans, &n_spans) &&
                   n_spans == replay->n_kernels && fpl_rotation_group(spans, n_spans, n_all, times);
  return true;
}

/* Appends up to n of the counted launches, evenly spread. */
static void keep_times(const struct fpl_replay *replay, const double *times, int64_t n,
                       struct fpl_sample_set *out) {
  const int64_t n_kept = fpl_min_i64(n - out->n, replay->n_launches);
  for (int64_t i = 0; i < n_kept; i++)
    out->us[out->n++] = times[FPL_REPLAY_LEAD + i * replay->n_launches / n_kept];
}

static bool sample_traced(const struct fpl_gpu *gpu, const struct fpl_replay *replay,
                          const struct fpl_nvml *nvml, int64_t n, double *times,
                          struct fpl_sample_set *out, bool *out_is_traced,
                          struct fpl_failure *failure) {
  *out_is_traced = true;
  while (out->n < n && *out_is_traced) {
    struct fpl_nvml_reading *reading = out->n == 0 ? &out->reading : NULL;
    if (!trace(gpu, replay, nvml, reading, times, out_is_traced, failure))
      return false;
    if (*out_is_traced)
      keep_times(replay, times, n, out);
  }
  return true;
}

static bool sample_means(const struct fpl_gpu *gpu, const struct fpl_replay *replay, int64_t n,
                         struct fpl_sample_set *out, struct fpl_failure *failure) {
  out->n = 0;
  while (out->n < n)
    if (!fpl_replay_mean_us(gpu, replay, &out->us[out->n++], failure))
      return false;
  return true;
}

bool fpl_replay_sample(const struct fpl_gpu *gpu, const struct fpl_replay *replay,
                       const struct fpl_nvml *nvml, int64_t n, struct fpl_sample_set *out,
                       struct fpl_failure *failure) {
  const size_t n_all = (size_t)(replay->n_launches + FPL_REPLAY_LEAD);
  *out = (struct fpl_sample_set){.method = FPL_METHOD_CUPTI};
  out->us = calloc((size_t)n, sizeof *out->us);
  double *times = calloc(n_all, sizeof *times);
  bool is_traced = false;
  bool is_ok = out->us != NULL && times != NULL;
  if (!is_ok)
    fpl_failure_candidate(failure, FPL_OUTCOME_OOM, "out of host memory");
  is_ok = is_ok && sample_traced(gpu, replay, nvml, n, times, out, &is_traced, failure);
  if (is_ok && !is_traced) {
    out->method = FPL_METHOD_GRAPH;
    is_ok = sample_means(gpu, replay, n, out, failure);
  }
  free(times);
  if (!is_ok) {
    free(out->us);
    out->us = NULL;
  }
  return is_ok;
}
