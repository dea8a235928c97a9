/* Loads, stores, products and copies that count. */
#include "costmodel/counted.h"

#include "costmodel/element.h"

#include <string.h>

enum {
  MATRIX_ROWS = 64, /* rows of one matrix instruction (PTX ISA, wgmma): it reads the right operand
                       anew for each group of them */
  STEP = 16,        /* its depth for 2-byte elements */
  SUM_BYTES = 8     /* an f32 sum is read and written */
};

static void count(struct fpl_traffic *traffic, enum fpl_level level, int64_t bytes) {
  traffic->bytes[level] += (double)bytes;
}

/* One element from HBM (the first time) through L2. */
static float load_element(struct fpl_matrix *matrix, int64_t index, struct fpl_traffic *traffic) {
  const int64_t source = matrix->source ? matrix->source[index] : index;
  if (source < 0)
    return 0.0f;
  count(traffic, FPL_LEVEL_L2, FPL_ELEMENT_BYTES);
  if (matrix->is_shared)
    traffic->l2_shared_bytes += FPL_ELEMENT_BYTES;
  if (!matrix->is_read[source] && matrix->is_in_hbm)
    count(traffic, FPL_LEVEL_HBM, FPL_ELEMENT_BYTES);
  matrix->is_read[source] = 1;
  return matrix->at[index];
}

void fpl_counted_load(struct fpl_matrix *matrix, const struct fpl_window *window,
                      enum fpl_tile_order order, float *tile, struct fpl_traffic *traffic) {
  const bool is_turned = order == FPL_TILE_TURNED;
  for (int64_t i = 0; i < window->rows; i++)
    for (int64_t j = 0; j < window->cols; j++) {
      const int64_t row = window->row + i, col = window->col + j;
      const bool is_inside = row < matrix->rows && col < matrix->cols;
      float *const to = is_turned ? &tile[j * window->rows + i] : &tile[i * window->cols + j];
      *to = is_inside ? load_element(matrix, row * matrix->cols + col, traffic) : 0.0f;
    }
  count(traffic, FPL_LEVEL_SMEM, window->rows * window->cols * FPL_ELEMENT_BYTES);
}

void fpl_counted_store(const float *tile, struct fpl_matrix *matrix,
                       const struct fpl_window *window, struct fpl_traffic *traffic) {
  for (int64_t i = 0; i < window->rows; i++)
    for (int64_t j = 0; j < window->cols; j++) {
      const int64_t row = window->row + i, col = window->col + j;
      if (row >= matrix->rows || col >= matrix->cols)
        continue;
      const int64_t index = row * matrix->cols + col;
      matrix->at[index] = fpl_element_round(matrix->dtype, tile[i * window->cols + j]);
      matrix->n_stores[index] = matrix->n_stores[index] == 0 ? 1 : 2;
      count(traffic, FPL_LEVEL_L2, FPL_ELEMENT_BYTES);
      if (matrix->is_in_hbm)
        count(traffic, FPL_LEVEL_HBM, FPL_ELEMENT_BYTES);
    }
}

/* 16 x 16 sums, one step of 16 along the depth. */
static void multiply_fragment(const float *left, int64_t left_stride, const float *right,
                              float *sums, int64_t cols, struct fpl_traffic *traffic) {
  for (int i = 0; i < STEP; i++) {
    float row[STEP];
    memcpy(row, sums + i * cols, sizeof row);
    for (int d = 0; d < STEP; d++) {
      const float x = left[i * left_stride + d];
      const float *const y = right + d * cols;
      for (int j = 0; j < STEP; j++)
        row[j] += x * y[j];
    }
    memcpy(sums + i * cols, row, sizeof row);
  }
  count(traffic, FPL_LEVEL_REGISTER, STEP * STEP * SUM_BYTES);
}

/* At most 64 rows: what one row of matrix instructions does. */
static void multiply_rows(int64_t rows, int64_t depth, int64_t cols, const float *left,
                          enum fpl_home left_home, const float *right, float *sums,
                          struct fpl_traffic *traffic) {
  if (left_home == FPL_HOME_SMEM)
    count(traffic, FPL_LEVEL_SMEM, rows * depth * FPL_ELEMENT_BYTES);
  count(traffic, FPL_LEVEL_SMEM, depth * cols * FPL_ELEMENT_BYTES);
  for (int64_t d = 0; d < depth; d += STEP)
    for (int64_t i = 0; i < rows; i += STEP)
      for (int64_t j = 0; j < cols; j += STEP)
        multiply_fragment(left + i * depth + d, depth, right + d * cols + j, sums + i * cols + j,
                          cols, traffic);
}

void fpl_counted_product(int64_t rows, int64_t depth, int64_t cols, const float *left,
                         enum fpl_home left_home, const float *right, float *sums,
                         struct fpl_traffic *traffic) {
  for (int64_t row = 0; row < rows; row += MATRIX_ROWS) {
    const int64_t group = rows - row < MATRIX_ROWS ? rows - row : MATRIX_ROWS;
    multiply_rows(group, depth, cols, left + row * depth, left_home, right, sums + row * cols,
                  traffic);
  }
}

void fpl_counted_copy(const float *from, float *to, size_t n, size_t value_bytes,
                      enum fpl_level level, struct fpl_traffic *traffic) {
  memcpy(to, from, n * sizeof *to);
  count(traffic, level, (int64_t)(n * value_bytes));
}
