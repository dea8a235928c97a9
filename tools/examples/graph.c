/* Captures launches of a stored plan of a gemm_chain (f16, relu) in a CUDA graph, replays it, and
 * compares E with that of a launch outside it. Needs a GPU: exit code 77 without one.
 *
 *   cc graph.c -I/usr/local/cuda/include $(pkg-config --cflags --libs fuseplan) -ldl -o graph
 *   ./graph plans.db 128 512 32 256 */
#include "gpu.h"

enum { LAUNCHES = 3, REPLAYS = 10 };

int main(int argc, char **argv) {
  check(argc == 6, "usage", "graph DATABASE M N K L");
  gpu_open();
  fuseplan_store *store = NULL;
  struct fuseplan_problem p;
  struct fuseplan_message message;
  fuseplan_kernel *const kernel = load_plan(&store, argv[1], argv + 2, &p);
  uint16_t *const a = integers(p.m * p.k, 1, 3), *const b = integers(p.n * p.k, 2, 3);
  uint16_t *const d = integers(p.l * p.n, 3, 16);
  uint16_t *const plain = integers(p.m * p.l, 4, 1), *const replayed = integers(p.m * p.l, 5, 1);
  const size_t e_bytes = (size_t)(p.m * p.l) * sizeof *plain;
  struct fuseplan_matrices at = {
      .size = sizeof at,
      .a = gpu_put(a, (size_t)(p.m * p.k) * sizeof *a),
      .b = gpu_put(b, (size_t)(p.n * p.k) * sizeof *b),
      .d = gpu_put(d, (size_t)(p.l * p.n) * sizeof *d),
      .e = gpu_put(plain, e_bytes),
      .workspace = gpu_put(NULL, (size_t)fuseplan_kernel_workspace_bytes(kernel, p.m))};
  CUstream stream = NULL;
  CUgraph graph = NULL;
  CUgraphExec exec = NULL;
  check(!p_cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "stream", "cannot be made");
  check(!fuseplan_kernel_launch(kernel, p.m, &at, stream, &message), "launch", message.text);
  check(!p_cuStreamSynchronize(stream) && !p_cuMemcpyDtoH(plain, at.e, e_bytes), "run", "failed");

  /* Launches of one workspace follow one another on the stream, in the graph too. */
  at.e = gpu_put(replayed, e_bytes);
  check(!p_cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "capture", "refused");
  for (int i = 0; i < LAUNCHES; i++)
    check(!fuseplan_kernel_launch(kernel, p.m, &at, stream, &message), "launch", message.text);
  check(!p_cuStreamEndCapture(stream, &graph), "capture", "broken");
  check(!p_cuGraphInstantiate(&exec, graph, 0), "graph", "cannot be made");
  for (int i = 0; i < REPLAYS; i++)
    check(!p_cuGraphLaunch(exec, stream), "replay", "refused");
  check(!p_cuStreamSynchronize(stream) && !p_cuMemcpyDtoH(replayed, at.e, e_bytes), "replay",
        "failed");
  const int is_same = memcmp(plain, replayed, e_bytes) == 0;
  printf("%d launches in a graph, %d replays: E is %s\n", LAUNCHES, REPLAYS,
         is_same ? "the same" : "another");
  fuseplan_kernel_release(kernel);
  fuseplan_close(store);
  return is_same ? 0 : 1;
}
