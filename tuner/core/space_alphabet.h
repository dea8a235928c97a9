/* Alphabets of the plan space: shared by the walk (space.c) and by sampling (space_sample.c). */
#ifndef FPL_CORE_SPACE_ALPHABET_H
#define FPL_CORE_SPACE_ALPHABET_H

#include "tuner/core/space.h"

enum {
  FPL_SPACE_N_CLUSTERS = 5,
  FPL_SPACE_N_VECTORS = 625, /* 5^4 */
  FPL_SPACE_N_TILES_MK = 5,
  FPL_SPACE_N_TILES_NL = 16,
  FPL_SPACE_N_EXCHANGES = FPL_EXCHANGE_RECOMPUTE + 1,
  FPL_SPACE_N_REDUCES = FPL_REDUCE_DSM_L2 + 1
};
extern const int32_t fpl_space_clusters[FPL_SPACE_N_CLUSTERS];
extern const int32_t fpl_space_tiles_mk[FPL_SPACE_N_TILES_MK];

/* 0 <= index < fpl_space_n_tiles(dim), ascending. */
int32_t fpl_space_tile(enum fpl_dim dim, int index);
int fpl_space_n_tiles(enum fpl_dim dim);
int fpl_space_n_gates(const struct fpl_problem *p);
/* 0 <= index < FPL_SPACE_N_VECTORS: sets cls_m cls_n cls_k cls_l. */
void fpl_space_set_vector(struct fpl_schedule *s, int index);

#endif
