/* Writes what a supervisor would ask a worker, for runs under a tool that must own the worker:
 * `TOOL fuseplan worker <DIR/NAME.frames`. The small instances, a few to a session, each loaded and
 * verified; and planted faults, one to a session, which a tool must find.
 *
 *   gpu_frames DIR    prints for each file "NAME ANSWERS WHAT...", the answers a worker must give */
#include "tests/gpu/instances.h"

#include "tuner/base/sys.h"
#include "tuner/core/plan.h"
#include "tuner/measure/protocol.h"

#include <jansson.h>
#include <stdio.h>

enum { KERNELS_EACH = 3 };
static const char *const planted[] = {"illegal", "overrun", "race", "unawaited", "divergent"};
enum { N_PLANTED = sizeof planted / sizeof *planted };

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

static bool write_kernel(FILE *out, const char *dir, int id, const struct fpl_kernel *k,
                         struct fpl_err *err) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s.cubin", dir, k->name);
  return fpl_file_write(path, k->cubin, k->cubin_bytes, err) == FPL_OK &&
         write_frame(out, json_pack("{s:s,s:i,s:o,s:s}", "op", "load", "id", id, "kernel",
                                    fpl_protocol_kernel(k), "cubin", path)) &&
         write_frame(out, json_pack("{s:s,s:i}", "op", "verify", "id", id));
}

/* A session of n kernels on one problem, as DIR/name.frames. */
static bool write_session(const struct gpu_place *place, const char *dir, const char *name,
                          const struct fpl_problem *p, const struct fpl_result *results, int n,
                          struct fpl_err *err) {
  char problem[FPL_PROBLEM_TEXT], path[512];
  fpl_problem_text(p, problem);
  snprintf(path, sizeof path, "%s/%s.frames", dir, name);
  FILE *const out = fopen(path, "wb");
  if (!out)
    return false;
  bool is_ok =
      write_frame(out, json_pack("{s:s,s:i,s:s,s:i,s:s,s:b}", "op", "open", "device", 0, "problem",
                                 problem, "seed", 1, "support", place->support, "trace", 0));
  for (int i = 0; i < n && is_ok; i++)
    is_ok = write_kernel(out, dir, i, &results[i].kernel, err);
  is_ok = is_ok && write_frame(out, json_pack("{s:s}", "op", "close"));
  return fclose(out) == 0 && is_ok;
}

static bool write_instances(struct gpu_place *place, const char *dir, struct fpl_result *results,
                            struct fpl_err *err) {
  bool is_ok = instances_build(place, results, err) == FPL_OK;
  for (int first = 0, n = 0; first < N_INSTANCES && is_ok; first += n) {
    const enum instance_problem problem = instances[first].problem;
    char name[32];
    for (n = 1;
         n < KERNELS_EACH && first + n < N_INSTANCES && instances[first + n].problem == problem;)
      n++;
    if (problem == INSTANCE_WIDE)
      continue;
    snprintf(name, sizeof name, "instances-%d", first);
    is_ok = write_session(place, dir, name, &instance_problems[problem], &results[first], n, err);
    printf("%s %d", name, 2 + 2 * n);
    for (int i = 0; i < n; i++)
      printf("%s %s", i > 0 ? "," : "", instances[first + i].name);
    printf("\n");
  }
  return is_ok;
}

/* A kernel of tests/gpu/planted under the launch descriptor of `good`. */
static bool write_planted(struct gpu_place *place, const char *dir, const char *name,
                          const struct fpl_result *good, struct fpl_err *err) {
  char path[128], session[64];
  char *source = NULL;
  size_t length = 0;
  struct fpl_build_item item = {0};
  struct fpl_result result = *good;
  snprintf(path, sizeof path, "tests/gpu/planted/%s.cu", name);
  snprintf(session, sizeof session, "planted-%s", name);
  bool is_ok = fpl_file_read(&place->arena, path, 1 << 20, &source, &length, err) == FPL_OK;
  item.source = source;
  is_ok = is_ok && fpl_builder_compile(place->builder, &item, 1, NULL, NULL, err) == FPL_OK;
  if (is_ok && item.outcome != FPL_OUTCOME_BUILT)
    is_ok = fpl_fail(err, FPL_TOOLCHAIN, "%s: %s", path, item.reason) == FPL_OK;
  snprintf(result.kernel.name, sizeof result.kernel.name, "planted_%s", name);
  result.kernel.cubin = item.cubin;
  result.kernel.cubin_bytes = item.cubin_bytes;
  is_ok = is_ok &&
          write_session(place, dir, session, &instance_problems[INSTANCE_CHAIN], &result, 1, err);
  fpl_build_item_free(&item);
  printf("%s 4 %s\n", session, name);
  return is_ok;
}

int main(int argc, char **argv) {
  static struct fpl_result results[N_INSTANCES];
  struct gpu_place place = {0};
  struct fpl_err err = {0};
  if (argc != 2) {
    fprintf(stderr, "usage: gpu_frames DIR\n");
    return 2;
  }
  bool is_ok = gpu_place_open(&place, &err) == FPL_OK && fpl_dir_make(argv[1], &err) == FPL_OK &&
               write_instances(&place, argv[1], results, &err);
  for (int i = 0; i < N_PLANTED && is_ok; i++)
    is_ok = write_planted(&place, argv[1], planted[i], &results[0], &err);
  for (int i = 0; i < N_INSTANCES; i++)
    fpl_result_free(&results[i]);
  if (!is_ok)
    fprintf(stderr, "gpu_frames: %s\n", err.code == FPL_OK ? "cannot write" : err.text);
  gpu_place_close(&place);
  return is_ok ? 0 : 1;
}
