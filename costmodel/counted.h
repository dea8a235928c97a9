/* Counted memory: every movement of the interpreter's dataflow outside the primitives. Each
 * function moves numbers and adds what it moved to the traffic, level by level (MODEL.md, 1.5).
 *
 * Tiles are dense float arrays. A tile that stands right of a product ([depth][cols]) is kept with
 * its depth outermost; the weights B and D lie in global memory as [cols][depth] and are turned
 * when they are loaded. */
#ifndef FPL_COSTMODEL_COUNTED_H
#define FPL_COSTMODEL_COUNTED_H

#include "costmodel/analyzer.h"

#include <stddef.h>

/* A matrix in global memory, row-major, of 2-byte elements held as floats. */
struct fpl_matrix {
  int64_t rows, cols;
  float *at;
  const int64_t *source; /* [rows][cols]: its element of memory, -1: none, zero; NULL: itself */
  uint8_t *is_read;      /* by element of memory: was read before */
  uint8_t *n_stores;     /* [rows][cols]: how often it was written, up to 2 */
  enum fpl_dtype dtype;
  bool is_in_hbm; /* false: lives and dies in L2 */
  bool is_shared; /* several blocks read it */
};

/* Where a tile stands; rows and columns may lie outside the matrix. */
struct fpl_window {
  int64_t row, col, rows, cols;
};
enum fpl_tile_order { FPL_TILE_AS_STORED, FPL_TILE_TURNED };

/* Global memory to a tile in shared memory; zeros where the window lies outside. */
void fpl_counted_load(struct fpl_matrix *matrix, const struct fpl_window *window,
                      enum fpl_tile_order order, float *tile, struct fpl_traffic *traffic);
/* f32 values in registers to global memory, rounded and clipped. */
void fpl_counted_store(const float *tile, struct fpl_matrix *matrix,
                       const struct fpl_window *window, struct fpl_traffic *traffic);

/* sums[rows][cols] += left[rows][depth] . right[depth][cols]; all three extents multiples of 16.
 * left_home says whether the left operand is read from shared memory. */
void fpl_counted_product(int64_t rows, int64_t depth, int64_t cols, const float *left,
                         enum fpl_home left_home, const float *right, float *sums,
                         struct fpl_traffic *traffic);

/* Inside one block: n values of value_bytes each, read from or written to the named level. */
void fpl_counted_copy(const float *from, float *to, size_t n, size_t value_bytes,
                      enum fpl_level level, struct fpl_traffic *traffic);

#endif
