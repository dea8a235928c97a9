/* The communication primitives between blocks, each on plain arrays, moving numbers and counting
 * bytes as MODEL.md section 1.5 says: what arrives over DSM counts at dsm and as a write at smem,
 * what is read to be added counts at smem, workspace traffic counts at l2.
 * Source: FlashFuser section IV-A (Figs 6 to 8); inter_cluster_reduce: cp.reduce.async.bulk.
 *
 * A list such as `staged[]` has one pointer for each block of the group, in the group's order; the
 * pointers are distinct arrays. None of these can fail. */
#ifndef FPL_COSTMODEL_PRIMITIVES_H
#define FPL_COSTMODEL_PRIMITIVES_H

#include "costmodel/analyzer.h"

#include <stddef.h>

enum fpl_exchange_op { FPL_EXCHANGE_ADD, FPL_EXCHANGE_MUL };

/* Every block ends with the combination of all blocks' tiles, combined in the group's order.
 * staged[b]: n_floats, the block's own partial tile(s), f32
 * received[b]: room for (n_blocks - 1) n_floats
 * result[b]: n_floats, in registers. */
void fpl_dsm_all_exchange(enum fpl_exchange_op op, size_t n_blocks, size_t n_floats,
                          const float *const staged[], float *const received[],
                          float *const result[], struct fpl_traffic *traffic);

/* Every block ends with the whole strip of its group.
 * strip[b]: n_blocks tiles of n_elements 2-byte elements each; tile b is block b's own. */
void fpl_dsm_shuffle(size_t n_blocks, size_t n_elements, float *const strip[],
                     struct fpl_traffic *traffic);

/* Block b ends with the sum of share b over all blocks, added in the group's order.
 * staged[b]: n_blocks shares of share_floats, f32
 * received[b]: room for (n_blocks - 1) share_floats
 * result[b]: share_floats, in registers. */
void fpl_dsm_reduce_scatter(size_t n_blocks, size_t share_floats, const float *const staged[],
                            float *const received[], float *const result[],
                            struct fpl_traffic *traffic);

/* The same from registers, in octets of columns: block j % n_blocks ends with octet j of the sum, and
 * with its own part of the other octets.
 * sums[b]: [rows][columns], f32, in registers; columns a multiple of 8
 * received[b]: room for (n_blocks - 1) times as much. */
enum { FPL_OCTET_COLUMNS = 8 };
void fpl_dsm_reduce_octets(size_t n_blocks, size_t rows, size_t columns, float *const sums[],
                           float *const received[], struct fpl_traffic *traffic);

/* One adder's step. Adds its f32 tile to the workspace tile in L2; the last of `parts` adders
 * takes the sums into `result` (registers) and leaves workspace and arrivals zero.
 * Returns whether this was the last. */
bool fpl_inter_cluster_reduce(int64_t parts, size_t n_floats, const float *staged, float *workspace,
                              int64_t *arrivals, float *result, struct fpl_traffic *traffic);

#endif
