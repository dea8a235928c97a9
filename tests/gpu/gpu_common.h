/* What the GPU tests share: the device's profile, a builder, and schedules worth trying. Programs
 * run from the repository root; FPL_BUILD is the build directory. */
#ifndef FPL_TESTS_GPU_COMMON_H
#define FPL_TESTS_GPU_COMMON_H

#include "codegen/build.h"
#include "tuner/core/space.h"

#include <stdlib.h>
#include <string.h>

/* The program: worker of the measurer and of the builder. */
#define GPU_PROGRAM FPL_BUILD "/fuseplan"
#define GPU_DIR FPL_BUILD "/gpu"

struct gpu_place {
  struct fpl_arena arena;
  struct fpl_device device; /* the H200's profile */
  struct fpl_builder *builder;
  const char *support; /* cubin of the worker's own kernels */
};

/* Errors: FPL_TOOLCHAIN without NVRTC; FPL_IO and others when the tree is not whole. Close in any
 * case. */
static enum fpl_status gpu_place_open(struct gpu_place *place, struct fpl_err *err) {
  const struct fpl_builder_options options = {
      .cache_dir = GPU_DIR "/cache", .self_path = GPU_PROGRAM, .compile_timeout_us = 120e6};
  struct fpl_yaml *root = NULL;
  enum fpl_status status = fpl_yaml_read(&place->arena, "profiles/devices/h200.yaml", &root, err);
  if (status == FPL_OK)
    status = fpl_device_from_yaml(root, &place->device, err);
  if (status == FPL_OK)
    status = fpl_builder_open(&options, &place->builder, err);
  if (status == FPL_OK)
    status = fpl_builder_support(place->builder, &place->support, err);
  return status;
}

static void gpu_place_close(struct gpu_place *place) {
  fpl_builder_close(place->builder);
  fpl_arena_free(&place->arena);
}

/* Schedules chosen for one problem. */
enum {
  GPU_PICKS_MOST = 12,    /* that a check takes */
  GPU_FAMILIES_MOST = 32, /* one of each family */
  GPU_FAMILIES = 256
};
struct gpu_picks {
  struct fpl_schedule schedules[GPU_FAMILIES_MOST];
  int n;
  bool was_seen[GPU_FAMILIES];
};

/* Number of the ways in which a schedule exchanges, reduces, gates and splits k. */
static int gpu_family(const struct fpl_schedule *s) {
  return ((s->exchange * 4 + s->reduce) * 2 + s->gate) * 2 + (s->cls_k > 1);
}

/* Takes `s` unless it is there already, or (only_new) one of its family is. */
static void gpu_pick(struct gpu_picks *picks, const struct fpl_schedule *s, bool only_new,
                     int n_most) {
  const int family = gpu_family(s);
  bool is_wanted = picks->n < n_most && !(only_new && picks->was_seen[family]);
  for (int i = 0; i < picks->n; i++)
    is_wanted = is_wanted && memcmp(&picks->schedules[i], s, sizeof *s) != 0;
  if (!is_wanted)
    return;
  picks->schedules[picks->n++] = *s;
  picks->was_seen[family] = true;
}

/* Draws at random: first one of each family that is not there, then any. */
static inline void gpu_pick_drawn(struct gpu_picks *picks, const struct fpl_problem *p,
                                  const struct fpl_device *d, int n_most, bool is_filled) {
  enum { N_DRAWN = 300 };
  static struct fpl_schedule drawn[N_DRAWN];
  const int64_t n = fpl_space_sample(p, d, FPL_SPACE_SKELETON, FPL_RULE_NONE, 1, N_DRAWN, drawn);
  for (int turn = 0; turn < (is_filled ? 2 : 1); turn++)
    for (int64_t i = 0; i < n; i++)
      gpu_pick(picks, &drawn[i], turn == 0, n_most);
}

#endif
