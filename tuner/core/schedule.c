/* Everything here is driven by schedule_fields.def and by the table of loops. */
#define _POSIX_C_SOURCE 200809L
#include "tuner/core/schedule.h"

#include "tuner/base/str.h"

#include <stdio.h>
#include <string.h>

const char *const fpl_exchange_names[] = {"register", "smem",      "dsm", "l2",
                                          "hbm",      "recompute", NULL};
const char *const fpl_reduce_names[] = {"none", "dsm", "l2", "dsm_l2", NULL};
const char *const fpl_gate_names[] = {"sequential", "spatial", NULL};

const char *const fpl_loops_names[] = {
    "m|nkl", "m|nlk", "m|knl", "m|kln", "m|lnk", "m|lkn", "n|mkl", "n|mlk", "n|kml",
    "n|klm", "n|lmk", "n|lkm", "k|mnl", "k|mln", "k|nml", "k|nlm", "k|lmn", "k|lnm",
    "l|mnk", "l|mkn", "l|nmk", "l|nkm", "l|kmn", "l|knm", "mn|kl", "mn|lk", "mk|nl",
    "mk|ln", "ml|nk", "ml|kn", "nk|ml", "nk|lm", "nl|mk", "nl|km", "kl|mn", "kl|nm",
    "mnk|l", "mnl|k", "mkl|n", "nkl|m", "mnkl|", NULL};

#define S_M                                                                                        \
  { true, false, false, false }
#define S_N                                                                                        \
  { false, true, false, false }
#define S_K                                                                                        \
  { false, false, true, false }
#define S_L                                                                                        \
  { false, false, false, true }
enum { M = FPL_DIM_M, N = FPL_DIM_N, K = FPL_DIM_K, L = FPL_DIM_L };

static const struct fpl_loops loops_table[FPL_N_LOOPS] = {
    {S_M, 3, {N, K, L}},
    {S_M, 3, {N, L, K}},
    {S_M, 3, {K, N, L}},
    {S_M, 3, {K, L, N}},
    {S_M, 3, {L, N, K}},
    {S_M, 3, {L, K, N}},
    {S_N, 3, {M, K, L}},
    {S_N, 3, {M, L, K}},
    {S_N, 3, {K, M, L}},
    {S_N, 3, {K, L, M}},
    {S_N, 3, {L, M, K}},
    {S_N, 3, {L, K, M}},
    {S_K, 3, {M, N, L}},
    {S_K, 3, {M, L, N}},
    {S_K, 3, {N, M, L}},
    {S_K, 3, {N, L, M}},
    {S_K, 3, {L, M, N}},
    {S_K, 3, {L, N, M}},
    {S_L, 3, {M, N, K}},
    {S_L, 3, {M, K, N}},
    {S_L, 3, {N, M, K}},
    {S_L, 3, {N, K, M}},
    {S_L, 3, {K, M, N}},
    {S_L, 3, {K, N, M}},
    {{true, true, false, false}, 2, {K, L}},
    {{true, true, false, false}, 2, {L, K}},
    {{true, false, true, false}, 2, {N, L}},
    {{true, false, true, false}, 2, {L, N}},
    {{true, false, false, true}, 2, {N, K}},
    {{true, false, false, true}, 2, {K, N}},
    {{false, true, true, false}, 2, {M, L}},
    {{false, true, true, false}, 2, {L, M}},
    {{false, true, false, true}, 2, {M, K}},
    {{false, true, false, true}, 2, {K, M}},
    {{false, false, true, true}, 2, {M, N}},
    {{false, false, true, true}, 2, {N, M}},
    {{true, true, true, false}, 1, {L}},
    {{true, true, false, true}, 1, {K}},
    {{true, false, true, true}, 1, {N}},
    {{false, true, true, true}, 1, {M}},
    {{true, true, true, true}, 0, {M}},
};

const struct fpl_loops *fpl_loops_get(int32_t index) {
  return &loops_table[index];
}

int32_t fpl_loops_index(const char *name) {
  return fpl_name_index(fpl_loops_names, name);
}

const struct fpl_schedule_field fpl_schedule_fields[FPL_N_FIELDS] = {
#define FPL_FIELD(name, least, most, names, unit, meaning)                                         \
  {#name, least, most, names, unit, meaning},
#include "tuner/core/schedule_fields.def"
#undef FPL_FIELD
};

int32_t fpl_schedule_get(const struct fpl_schedule *s, int field) {
  const int32_t values[] = {
#define FPL_FIELD(name, least, most, names, unit, meaning) s->name,
#include "tuner/core/schedule_fields.def"
#undef FPL_FIELD
  };
  return values[field];
}

void fpl_schedule_set(struct fpl_schedule *s, int field, int32_t value) {
  int32_t *const slots[] = {
#define FPL_FIELD(name, least, most, names, unit, meaning) &s->name,
#include "tuner/core/schedule_fields.def"
#undef FPL_FIELD
  };
  *slots[field] = value;
}

void fpl_schedule_text(const struct fpl_schedule *s, char out[FPL_SCHEDULE_TEXT]) {
  struct fpl_line line = fpl_line_start(out, FPL_SCHEDULE_TEXT);
  for (int i = 0; i < FPL_N_FIELDS; i++) {
    const struct fpl_schedule_field *const f = &fpl_schedule_fields[i];
    const int32_t value = fpl_schedule_get(s, i);
    if (i > 0)
      fpl_line_text(&line, " ");
    fpl_line_text(&line, f->name);
    fpl_line_text(&line, "=");
    if (f->names)
      fpl_line_text(&line, f->names[value]);
    else
      fpl_line_i64(&line, value);
  }
}

static int find_field(const char *name, size_t length) {
  for (int i = 0; i < FPL_N_FIELDS; i++)
    if (strlen(fpl_schedule_fields[i].name) == length &&
        memcmp(fpl_schedule_fields[i].name, name, length) == 0)
      return i;
  return -1;
}

static enum fpl_status read_field(const char *word, struct fpl_schedule *s, uint32_t *seen,
                                  struct fpl_err *err) {
  const char *const equals = strchr(word, '=');
  const int field = equals ? find_field(word, (size_t)(equals - word)) : -1;
  if (field < 0)
    return fpl_fail(err, FPL_PARSE, "schedule field '%s' is unknown", word);
  const struct fpl_schedule_field *const f = &fpl_schedule_fields[field];
  if (*seen & UINT32_C(1) << field)
    return fpl_fail(err, FPL_PARSE, "schedule field '%s' stands twice", f->name);
  *seen |= UINT32_C(1) << field;
  int64_t value = 0;
  if (f->names)
    value = fpl_name_index(f->names, equals + 1);
  else if (!fpl_parse_i64(equals + 1, f->least, f->most, &value))
    value = -1;
  if (value < f->least || value > f->most)
    return fpl_fail(err, FPL_PARSE, "schedule field %s has bad value '%s'", f->name, equals + 1);
  fpl_schedule_set(s, field, (int32_t)value);
  return FPL_OK;
}

enum fpl_status fpl_schedule_parse(const char *text, struct fpl_schedule *out,
                                   struct fpl_err *err) {
  char copy[FPL_SCHEDULE_TEXT];
  if (strlen(text) >= sizeof copy)
    return fpl_fail(err, FPL_PARSE, "schedule text is longer than %d characters",
                    FPL_SCHEDULE_TEXT - 1);
  strcpy(copy, text);
  struct fpl_schedule s = {0};
  uint32_t seen = 0;
  char *rest = NULL;
  for (const char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
    const enum fpl_status status = read_field(word, &s, &seen, err);
    if (status != FPL_OK)
      return status;
  }
  for (int i = 0; i < FPL_N_FIELDS; i++)
    if (!(seen & UINT32_C(1) << i))
      return fpl_fail(err, FPL_PARSE, "schedule text lacks field '%s'",
                      fpl_schedule_fields[i].name);
  *out = s;
  return FPL_OK;
}

bool fpl_schedule_is_deterministic(const struct fpl_schedule *s) {
  return s->reduce == FPL_REDUCE_NONE || s->reduce == FPL_REDUCE_DSM;
}

void fpl_schedule_key(const struct fpl_schedule *s, char out[FPL_KEY_HEX]) {
  char text[FPL_SCHEDULE_TEXT];
  fpl_schedule_text(s, text);
  fpl_hash_key(text, out);
}
