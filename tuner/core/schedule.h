/* Schedule: how a problem is computed. All from schedule_fields.def; the dataflow that a schedule
 * stands for is defined in costmodel/MODEL.md, section "Dataflow". */
#ifndef FPL_CORE_SCHEDULE_H
#define FPL_CORE_SCHEDULE_H

#include "tuner/base/hash.h"
#include "tuner/base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum fpl_exchange {
  FPL_EXCHANGE_REGISTER,
  FPL_EXCHANGE_SMEM,
  FPL_EXCHANGE_DSM,
  FPL_EXCHANGE_L2,
  FPL_EXCHANGE_HBM,
  FPL_EXCHANGE_RECOMPUTE
};
enum fpl_reduce { FPL_REDUCE_NONE, FPL_REDUCE_DSM, FPL_REDUCE_L2, FPL_REDUCE_DSM_L2 };
enum fpl_gate { FPL_GATE_SEQUENTIAL, FPL_GATE_SPATIAL };

extern const char *const fpl_exchange_names[]; /* register smem dsm l2 hbm recompute */
extern const char *const fpl_reduce_names[];   /* none dsm l2 dsm_l2 */
extern const char *const fpl_gate_names[];     /* sequential spatial */

/* Dimensions, in the order of the letters in a loop name. */
enum fpl_dim { FPL_DIM_M, FPL_DIM_N, FPL_DIM_K, FPL_DIM_L, FPL_DIMS };

/* The 41 loop schedules: which dimensions are spatial, and the order of the temporal ones.
 * Source: FlashFuser Table IV, sum over s of binom(4,s) (4-s)!. Names: "m|nlk", "mn|lk", "mnkl|".
 */
enum { FPL_N_LOOPS = 41 };
extern const char *const fpl_loops_names[];
struct fpl_loops {
  bool is_spatial[FPL_DIMS];
  int n_temporal;
  uint8_t temporal[FPL_DIMS]; /* enum fpl_dim, outer to inner */
};
/* 0 <= index < FPL_N_LOOPS. */
const struct fpl_loops *fpl_loops_get(int32_t index);
/* Index by name, or -1. */
int32_t fpl_loops_index(const char *name);

struct fpl_schedule {
#define FPL_FIELD(name, least, most, names, unit, meaning) int32_t name;
#include "tuner/core/schedule_fields.def"
#undef FPL_FIELD
};

struct fpl_schedule_field {
  const char *name;
  int32_t least, most;
  const char *const *names; /* NULL for a number */
  const char *unit;
  const char *meaning;
};
enum {
#define FPL_FIELD(name, least, most, names, unit, meaning) FPL_FIELD_##name,
#include "tuner/core/schedule_fields.def"
#undef FPL_FIELD
  FPL_N_FIELDS
};
extern const struct fpl_schedule_field fpl_schedule_fields[FPL_N_FIELDS];

int32_t fpl_schedule_get(const struct fpl_schedule *s, int field);
void fpl_schedule_set(struct fpl_schedule *s, int field, int32_t value);

/* "loops=mn|lk cls_m=1 ... stages=4", every field once, in the order of the list. */
enum { FPL_SCHEDULE_TEXT = 320 };
void fpl_schedule_text(const struct fpl_schedule *s, char out[FPL_SCHEDULE_TEXT]);
/* The inverse, fields in any order; FPL_PARSE naming the field. */
enum fpl_status fpl_schedule_parse(const char *text, struct fpl_schedule *out, struct fpl_err *err);
/* Does it add in the same order every time? E's partial sums that clusters add in L2 come in the order
 * of their arrival; every other sum has an order of its own. */
bool fpl_schedule_is_deterministic(const struct fpl_schedule *s);
void fpl_schedule_key(const struct fpl_schedule *s, char out[FPL_KEY_HEX]);

#endif
