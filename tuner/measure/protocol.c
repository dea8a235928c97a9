#include "tuner/measure/protocol.h"

json_t *fpl_protocol_kernel(const struct fpl_kernel *k) {
  json_t *const maps = json_array();
  for (int i = 0; i < FPL_KERNEL_MAPS; i++) {
    const struct fpl_map_recipe *const map = &k->maps[i];
    json_array_append_new(maps,
                          json_pack("{s:I,s:I,s:i,s:i,s:i,s:i,s:b}", "rows", (json_int_t)map->rows,
                                    "cols", (json_int_t)map->cols, "box_rows", (int)map->box_rows,
                                    "box_cols", (int)map->box_cols, "slabs", (int)map->slabs,
                                    "parts", (int)map->parts, "is_image", (int)map->is_image));
  }
  return json_pack("{s:s,s:i,s:i,s:I,s:I,s:I,s:I,s:I,s:o}", "name", k->name, "cluster",
                   (int)k->cluster, "block_threads", (int)k->block_threads, "smem_bytes",
                   (json_int_t)k->smem_bytes, "rows_per_unit", (json_int_t)k->rows_per_unit,
                   "units_per_row", (json_int_t)k->units_per_row, "max_clusters",
                   (json_int_t)k->max_clusters, "workspace_bytes_per_row_group",
                   (json_int_t)k->workspace_bytes_per_row_group, "maps", maps);
}
