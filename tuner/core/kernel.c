#include "tuner/core/kernel.h"

#include "tuner/base/str.h"

#include <stdlib.h>
#include <string.h>

int64_t fpl_kernel_grid(const struct fpl_kernel *k, int64_t m) {
  const int64_t units = fpl_ceil_div(m, k->rows_per_unit) * k->units_per_row;
  return k->cluster * fpl_min_i64(units, k->max_clusters);
}

bool fpl_kernel_is_cooperative(const struct fpl_kernel *k) {
  return strcmp(k->family, "phases_sm90") == 0;
}

int64_t fpl_kernel_workspace_bytes(const struct fpl_kernel *k, int64_t m) {
  return fpl_ceil_div(m, k->rows_per_unit) * k->workspace_bytes_per_row_group;
}

void fpl_kernel_free(struct fpl_kernel *k) {
  free(k->cubin);
  *k = (struct fpl_kernel){0};
}
