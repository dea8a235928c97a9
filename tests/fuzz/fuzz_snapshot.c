/* Arbitrary bytes as a snapshot: refused in one line, or every lookup in it is an answer. */
#include "db/snapshot.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool is_so) {
  if (!is_so)
    abort();
}

static void look_up(struct fpl_snapshot *snapshot, const struct fpl_device *device,
                    struct fpl_problem p, bool is_picky) {
  const struct fpl_source source = fpl_snapshot_source(snapshot);
  const struct fpl_wanted wanted = {
      .problem = &p, .device = device, .is_deterministic = is_picky, .needs_kernel = is_picky};
  struct fpl_answer answer;
  struct fpl_trace trace;
  struct fpl_err err = {0};
  require(fpl_answer(&source, 1, &wanted, NULL, FPL_TIER_NEAREST, &answer, &trace, &err) == FPL_OK);
  if (!answer.is_stored || answer.plan.is_library)
    return;
  fpl_kernel_grid(&answer.plan.kernel, p.m);
  fpl_snapshot_load_cubin(snapshot, &answer.plan.kernel, &err);
  fpl_kernel_free(&answer.plan.kernel);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  uint64_t *const bytes = malloc(size + 8);
  struct fpl_snapshot *snapshot = NULL;
  struct fpl_err err = {0};
  require(bytes != NULL);
  memcpy(bytes, data, size);
  const enum fpl_status status = fpl_snapshot_from_bytes("bytes", bytes, size, &snapshot, &err);
  require((status == FPL_OK) == (snapshot != NULL));
  require(status == FPL_OK || (err.text[0] && !strchr(err.text, '\n')));
  if (snapshot) {
    fpl_snapshot_check(snapshot, &err);
    const int64_t n = fpl_snapshot_devices(snapshot);
    for (int64_t i = 0; i < n && i < 3; i++) {
      struct fpl_device device;
      struct fpl_problem p;
      fpl_snapshot_device_at(snapshot, i, &device);
      for (int64_t m = 1; m <= 4096; m *= 8)
        for (int is_picky = 0; is_picky < 2; is_picky++) {
          require(fpl_problem_make(FPL_KIND_GEMM_CHAIN, FPL_DTYPE_F16, FPL_ACT_RELU, m, 512, 32,
                                   256, NULL, &p, &err) == FPL_OK);
          look_up(snapshot, &device, p, is_picky != 0);
          require(fpl_problem_make(FPL_KIND_GATED_FFN, FPL_DTYPE_F16, FPL_ACT_SILU, m, 8192, 2048,
                                   2048, NULL, &p, &err) == FPL_OK);
          look_up(snapshot, &device, p, is_picky != 0);
        }
    }
  }
  fpl_snapshot_close(snapshot);
  free(bytes);
  return 0;
}
