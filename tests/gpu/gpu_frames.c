/* Writes what a supervisor would ask a worker, for runs under a tool that must own the worker:
 * `TOOL fuseplan worker <DIR/chain.frames`. Small kernels of all families, loaded and verified once;
 * a few in chain-few.frames, for tools that slow a kernel down a thousand times: kernels of one
 * consumer warpgroup. Under racecheck one of two in a cluster of 16 did not come back in 100 s (H200,
 * compute-sanitizer of CUDA 13.0); why is not established.
 *
 *   gpu_frames DIR    prints for each file "NAME ANSWERS", the answers a worker must give */
#include "tests/gpu/gpu_common.h"

#include "tuner/base/sys.h"
#include "tuner/core/plan.h"
#include "tuner/measure/protocol.h"

#include <jansson.h>
#include <stdio.h>

enum { FEW = 4 };
static const struct {
  const char *name;
  struct fpl_problem problem;
  int few[FEW]; /* picks with one consumer warpgroup */
} files[] = {
    {"chain",
     {FPL_KIND_GEMM_CHAIN, FPL_DTYPE_F16, FPL_ACT_RELU, 72, 120, 136, 104, {0}},
     {0, 1, 2, 6}},
    {"gated",
     {FPL_KIND_GATED_FFN, FPL_DTYPE_BF16, FPL_ACT_SILU, 40, 264, 136, 128, {0}},
     {0, 3, 6, 9}},
};
enum { N_FILES = sizeof files / sizeof *files, KERNELS_EACH = GPU_PICKS_MOST };

/* One message of protocol.h; takes `request` over. */
static bool write_frame(FILE *out, json_t *request) {
  char *const text = request ? json_dumps(request, JSON_COMPACT) : NULL;
  json_decref(request);
  if (!text)
    return false;
  const size_t length = strlen(text);
  unsigned char head[4];
  for (int i = 0; i < 4; i++)
    head[i] = (unsigned char)(length >> (8 * i) & 255);
  const bool is_ok =
      fwrite(head, 1, sizeof head, out) == sizeof head && fwrite(text, 1, length, out) == length;
  free(text);
  return is_ok;
}

/* Is pick i of a file among those written? */
static bool is_taken(int file, int i, bool is_few) {
  bool is_listed = false;
  for (int j = 0; j < FEW; j++)
    is_listed = is_listed || files[file].few[j] == i;
  return !is_few || is_listed;
}

static bool write_session(FILE *out, const char *dir, int file, const char *support,
                          const struct fpl_result *results, int n, bool is_few,
                          struct fpl_err *err) {
  char problem[FPL_PROBLEM_TEXT];
  fpl_problem_text(&files[file].problem, problem);
  bool is_ok = write_frame(out, json_pack("{s:s,s:i,s:s,s:i,s:s}", "op", "open", "device", 0,
                                          "problem", problem, "seed", 1, "support", support));
  for (int i = 0; i < n && is_ok; i++) {
    const struct fpl_kernel *const k = &results[i].kernel;
    if (!is_taken(file, i, is_few))
      continue;
    char path[512];
    snprintf(path, sizeof path, "%s/%s-%d.cubin", dir, files[file].name, i);
    is_ok = fpl_file_write(path, k->cubin, k->cubin_bytes, err) == FPL_OK &&
            write_frame(out, json_pack("{s:s,s:i,s:o,s:s}", "op", "load", "id", i, "kernel",
                                       fpl_protocol_kernel(k), "cubin", path)) &&
            write_frame(out, json_pack("{s:s,s:i}", "op", "verify", "id", i));
  }
  return is_ok && write_frame(out, json_pack("{s:s}", "op", "close"));
}

/* Writes and announces one file of messages. */
static bool write_frames(const struct gpu_place *place, const char *dir, int file,
                         const char *suffix, const struct fpl_result *results, int n, bool is_few,
                         struct fpl_err *err) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s%s.frames", dir, files[file].name, suffix);
  FILE *const out = fopen(path, "wb");
  bool is_ok = out && write_session(out, dir, file, place->support, results, n, is_few, err);
  if (out && fclose(out) != 0)
    is_ok = false;
  int n_taken = 0;
  for (int i = 0; i < n; i++)
    n_taken += is_taken(file, i, is_few);
  if (is_ok)
    printf("%s%s %d\n", files[file].name, suffix, 2 + 2 * n_taken);
  return is_ok;
}

static bool write_file(struct gpu_place *place, const char *dir, int file, struct fpl_err *err) {
  const struct fpl_problem *const p = &files[file].problem;
  const struct fpl_builder_port port = fpl_builder_port(place->builder);
  struct fpl_result results[KERNELS_EACH] = {0};
  struct gpu_picks picks = {.n = 0};
  gpu_pick_drawn(&picks, p, &place->device, KERNELS_EACH, false);
  for (int i = 0; i < picks.n; i++)
    results[i].schedule = picks.schedules[i];
  bool is_ok =
      port.build(port.self, p, &place->device, results, picks.n, NULL, NULL, err) == FPL_OK;
  for (int i = 0; i < picks.n && is_ok; i++)
    if (!results[i].kernel.cubin)
      is_ok = fpl_fail(err, FPL_TOOLCHAIN, "%s", results[i].reason) == FPL_OK;
  is_ok = is_ok && write_frames(place, dir, file, "", results, picks.n, false, err) &&
          write_frames(place, dir, file, "-few", results, picks.n, true, err);
  for (int i = 0; i < picks.n; i++)
    fpl_result_free(&results[i]);
  return is_ok;
}

int main(int argc, char **argv) {
  struct gpu_place place = {0};
  struct fpl_err err = {0};
  if (argc != 2) {
    fprintf(stderr, "usage: gpu_frames DIR\n");
    return 2;
  }
  bool is_ok = gpu_place_open(&place, &err) == FPL_OK && fpl_dir_make(argv[1], &err) == FPL_OK;
  for (int i = 0; i < N_FILES && is_ok; i++)
    is_ok = write_file(&place, argv[1], i, &err);
  if (!is_ok)
    fprintf(stderr, "gpu_frames: %s\n", err.code == FPL_OK ? "cannot write" : err.text);
  gpu_place_close(&place);
  return is_ok ? 0 : 1;
}
