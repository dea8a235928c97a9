#include "tuner/core/kernel.h"

#include "tuner/base/str.h"

#include <stdlib.h>

int64_t fpl_kernel_grid(const struct fpl_kernel *k, int64_t m) {
  const int64_t units = fpl_ceil_div(m, k->rows_per_unit) * k->units_per_row;
  return k->cluster * fpl_min_i64(units, k->max_clusters);
}

int64_t fpl_kernel_workspace_bytes(const struct fpl_kernel *k, int64_t m) {
  return fpl_ceil_div(m, k->rows_per_unit) * k->workspace_bytes_per_row_group;
}

void fpl_kernel_free(struct fpl_kernel *k) {
  free(k->cubin);
  *k = (struct fpl_kernel){0};
}
