/* Kernel: a compiled candidate, with all that a launch needs. m is a run-time argument; n, k, l are
 * constants of the kernel.
 *
 * Entry of every kernel: name(map_a, map_b, map_d, void *e, void *workspace, int m), where the
 * three maps are __grid_constant__ tensor maps. Launch: grid x clusters of `cluster` blocks.
 * Workspace: zero before the first launch; every launch leaves it ready for the next (chain_sm90:
 * zero; phases_sm90: C's tiles, and flags that count launches). Launches that share a workspace run
 * one after the other.
 * Blocks of phases_sm90 wait for one another across the grid, so all must run at once: such a kernel
 * is launched cooperatively (fpl_kernel_is_cooperative). The driver then refuses a grid that does not
 * fit and starts it whole or not at all, so that kernels on several streams take turns where they do
 * not fit together. Launched otherwise, two that each hold a part of the SMs wait forever.
 */
#ifndef FPL_CORE_KERNEL_H
#define FPL_CORE_KERNEL_H

#include "tuner/core/device.h"
#include "tuner/core/problem.h"
#include "tuner/core/schedule.h"

#include <stddef.h>
#include <stdint.h>

enum { FPL_KERNEL_MAPS = 3, FPL_KERNEL_NAME = 64 };

/* How to encode a tensor map over a row-major matrix. Dimensions, inner to outer, and box:
 *   always      {cols, rows / parts}                 box {box_cols, box_rows}
 *   parts > 1   {..., parts}                         box {..., parts}
 *   slabs > 1   {box_cols, ..., cols / box_cols}     box {..., slabs}
 * parts: `rows` are so many matrices one behind the other, and a box takes its rows of each (gate and
 * up of a gated_ffn). slabs > 1: cols is a multiple of box_cols; strides {row, part, box_cols}.
 * is_image: A of a conv_chain whose kernel is larger than 1 x 1, read as its im2col matrix
 * (cuTensorMapEncodeIm2col over the image [batch][h][w][ic], geometry from the problem): a box is
 * box_rows pixels x box_cols channels; rows -1, cols = ic, slabs = parts = 1.
 * Swizzle: box_cols x 2 bytes (128, 64 or 32). Out-of-range elements read zero. */
struct fpl_map_recipe {
  int64_t rows; /* -1: the run-time m */
  int64_t cols;
  int32_t box_rows, box_cols, slabs, parts, is_image;
};

struct fpl_kernel {
  char name[FPL_KERNEL_NAME];    /* entry symbol */
  char family[24];               /* skeleton: "chain_sm90", "phases_sm90" */
  char sha[FPL_HASH_HEX];        /* SHA-256 of the cubin */
  char source_key[FPL_HASH_HEX]; /* cache key: generated text, skeleton headers, NVRTC, options */
  struct fpl_map_recipe maps[FPL_KERNEL_MAPS]; /* A, B, D */
  int32_t cluster;                             /* blocks */
  int32_t block_threads;
  int64_t smem_bytes;                    /* dynamic */
  int64_t rows_per_unit;                 /* rows of m one work unit covers: cls_m blk_m */
  int64_t units_per_row;                 /* work units for each such row group */
  int64_t max_clusters;                  /* persistent grid: clusters that fit the device at once */
  int64_t workspace_bytes_per_row_group; /* for each rows_per_unit rows of m; 0: none needed */
  int32_t registers;                     /* per thread, of the build; 0 unknown */
  int32_t spill_bytes;
  void *cubin; /* heap, owned; NULL when not loaded */
  size_t cubin_bytes;
};

/* Blocks of a launch for m rows: a multiple of the cluster. */
int64_t fpl_kernel_grid(const struct fpl_kernel *k, int64_t m);
/* Must its launches be cooperative (CU_LAUNCH_ATTRIBUTE_COOPERATIVE)? */
bool fpl_kernel_is_cooperative(const struct fpl_kernel *k);
int64_t fpl_kernel_workspace_bytes(const struct fpl_kernel *k, int64_t m);
void fpl_kernel_free(struct fpl_kernel *k);

#endif
