/* Writes what a supervisor would ask a worker, for runs under a tool that must own the worker:
 * `TOOL fuseplan worker <DIR/chain.frames`. Small kernels of all families, loaded and verified once;
 * every third of them in chain-few.frames, for tools that slow a kernel down a thousand times.
 *
 *   gpu_frames DIR    prints for each file "NAME ANSWERS", the answers a worker must give */
#include "tests/gpu/gpu_common.h"

#include "tuner/base/sys.h"
#include "tuner/core/plan.h"

#include <jansson.h>
#include <stdio.h>

static const struct {
  const char *name;
  struct fpl_problem problem;
} files[] = {
    {"chain", {FPL_KIND_GEMM_CHAIN, FPL_DTYPE_F16, FPL_ACT_RELU, 72, 120, 136, 104, {0}}},
    {"gated", {FPL_KIND_GATED_FFN, FPL_DTYPE_BF16, FPL_ACT_SILU, 40, 264, 136, 128, {0}}},
};
enum { N_FILES = sizeof files / sizeof *files, KERNELS_EACH = GPU_PICKS_MOST, FEW_STRIDE = 3 };

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

static json_t *kernel_json(const struct fpl_kernel *k) {
  json_t *const maps = json_array();
  for (int i = 0; i < FPL_KERNEL_MAPS; i++) {
    const struct fpl_map_recipe *const map = &k->maps[i];
    json_array_append_new(maps,
                          json_pack("{s:I,s:I,s:i,s:i,s:i}", "rows", (json_int_t)map->rows, "cols",
                                    (json_int_t)map->cols, "box_rows", (int)map->box_rows,
                                    "box_cols", (int)map->box_cols, "slabs", (int)map->slabs));
  }
  return json_pack("{s:s,s:i,s:i,s:I,s:I,s:I,s:I,s:I,s:o}", "name", k->name, "cluster",
                   (int)k->cluster, "block_threads", (int)k->block_threads, "smem_bytes",
                   (json_int_t)k->smem_bytes, "rows_per_unit", (json_int_t)k->rows_per_unit,
                   "units_per_row", (json_int_t)k->units_per_row, "max_clusters",
                   (json_int_t)k->max_clusters, "workspace_bytes_per_row_group",
                   (json_int_t)k->workspace_bytes_per_row_group, "maps", maps);
}

static bool write_session(FILE *out, const char *dir, int file, const char *support,
                          const struct fpl_result *results, int n, int stride,
                          struct fpl_err *err) {
  char problem[FPL_PROBLEM_TEXT];
  fpl_problem_text(&files[file].problem, problem);
  bool is_ok = write_frame(out, json_pack("{s:s,s:i,s:s,s:i,s:s}", "op", "open", "device", 0,
                                          "problem", problem, "seed", 1, "support", support));
  for (int i = 0; i < n && is_ok; i += stride) {
    const struct fpl_kernel *const k = &results[i].kernel;
    char path[512];
    snprintf(path, sizeof path, "%s/%s-%d.cubin", dir, files[file].name, i);
    is_ok = fpl_file_write(path, k->cubin, k->cubin_bytes, err) == FPL_OK &&
            write_frame(out, json_pack("{s:s,s:i,s:o,s:s}", "op", "load", "id", i, "kernel",
                                       kernel_json(k), "cubin", path)) &&
            write_frame(out, json_pack("{s:s,s:i}", "op", "verify", "id", i));
  }
  return is_ok && write_frame(out, json_pack("{s:s}", "op", "close"));
}

/* Writes and announces one file of messages. */
static bool write_frames(const struct gpu_place *place, const char *dir, int file,
                         const char *suffix, const struct fpl_result *results, int n, int stride,
                         struct fpl_err *err) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s%s.frames", dir, files[file].name, suffix);
  FILE *const out = fopen(path, "wb");
  bool is_ok = out && write_session(out, dir, file, place->support, results, n, stride, err);
  if (out && fclose(out) != 0)
    is_ok = false;
  if (is_ok)
    printf("%s%s %d\n", files[file].name, suffix, 2 + 2 * ((n + stride - 1) / stride));
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
  is_ok = is_ok && write_frames(place, dir, file, "", results, picks.n, 1, err) &&
          write_frames(place, dir, file, "-few", results, picks.n, FEW_STRIDE, err);
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
