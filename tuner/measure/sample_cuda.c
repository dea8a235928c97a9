/* Decides on which inputs a plan is launched and how its launches become times; what is enough and what they
 * mean is the supervisor's. */
#include "tuner/measure/sample_cuda.h"

#include "tuner/base/str.h"
#include "tuner/launch/maps.h"
#include "tuner/measure/rotation.h"
#include "tuner/measure/sample_cupti.h"

#include <stdlib.h>

enum { HOT_LAUNCHES = 32, GUARD_BYTES = 65536 };

static bool make_maps(const struct fpl_inputs *inputs, struct fpl_cuda_kernel *kernel,
                      struct fpl_failure *failure) {
  const struct fpl_problem *p = &inputs->problem;
  const size_t n_maps = ((size_t)inputs->n_sets + 1) * FPL_KERNEL_MAPS;
  kernel->maps = aligned_alloc(_Alignof(CUtensorMap), n_maps * sizeof *kernel->maps);
  if (kernel->maps == NULL)
    return fpl_failure_candidate(failure, FPL_OUTCOME_OOM, "out of host memory");
  for (int i = 0; i < FPL_KERNEL_MAPS; i++) {
    const struct fpl_map_recipe *recipe = &kernel->loaded.kernel.maps[i];
    if (!fpl_map_check(recipe, p, i, failure))
      return false;
    for (int64_t set = 0; set <= inputs->n_sets; set++) {
      const struct fpl_operands *from = &inputs->sets[set];
      const CUdeviceptr addresses[FPL_KERNEL_MAPS] = {from->a, from->b, from->d};
      if (!fpl_map_encode(&kernel->gpu->call, recipe, p, addresses[i],
                          &kernel->maps[set * FPL_KERNEL_MAPS + i], failure))
        return false;
    }
  }
  return true;
}

static bool make_workspace(struct fpl_cuda_kernel *kernel, struct fpl_failure *failure) {
  const struct fpl_gpu *gpu = kernel->gpu;
  const uint64_t bytes =
      (uint64_t)fpl_round_up(fpl_kernel_workspace_bytes(&kernel->loaded.kernel, kernel->m), 256);
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
  *out = (struct fpl_cuda_kernel){.gpu = gpu, .e = inputs->e, .m = (int)inputs->problem.m};
  if (fpl_loaded_open(&gpu->call, kernel, image, gpu->sms, out->m, is_early, &out->loaded,
                      failure) &&
      make_maps(inputs, out, failure) && make_workspace(out, failure))
    return true;
  fpl_cuda_kernel_unload(out);
  return false;
}

void fpl_cuda_kernel_unload(struct fpl_cuda_kernel *kernel) {
  if (kernel->gpu != NULL) {
    fpl_gpu_free(kernel->gpu, &kernel->workspace);
    fpl_loaded_close(&kernel->gpu->call, &kernel->loaded);
  }
  free(kernel->maps);
  *kernel = (struct fpl_cuda_kernel){0};
}

static bool enqueue_kernel(void *self, int64_t set, struct fpl_failure *failure) {
  const struct fpl_cuda_kernel *const kernel = self;
  const struct fpl_launch launch = {.maps = &kernel->maps[set * FPL_KERNEL_MAPS],
                                    .e = kernel->e,
                                    .workspace = kernel->workspace,
                                    .m = kernel->m};
  return fpl_loaded_launch(&kernel->gpu->call, &kernel->loaded, &launch, kernel->gpu->stream,
                           failure);
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
