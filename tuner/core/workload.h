/* Workload: a list of problems to tune, from a YAML file (profiles/workloads).
 *
 *   schema_version: 1
 *   budget: 10m                                 # optional: wall clock for the whole file
 *   defaults: {dtype: bf16, act: silu, m: [1, 128]} # optional
 *   problems:
 *     - {id: ffn, kind: gated_ffn, n: 14336, k: 4096, l: 4096, model: Llama-3.1-8B, calls: 32}
 *     - {id: c1, kind: conv_chain, batch: 1, ic: 64, h: 56, w: 56, oc1: 256, oc2: 64, k1: 1}
 *
 * An m that is a list makes one problem for each value, with ids "ffn@m1", "ffn@m128".
 */
#ifndef FPL_CORE_WORKLOAD_H
#define FPL_CORE_WORKLOAD_H

#include "tuner/base/arena.h"
#include "tuner/base/yamlread.h"
#include "tuner/core/problem.h"

#include <stddef.h>

enum {
  FPL_WORKLOAD_ID = 64,       /* bytes of an id, with the closing NUL */
  FPL_WORKLOAD_MOST = 1 << 16 /* problems of one file, m values counted singly */
};

struct fpl_workload {
  const char *id;    /* unique in its file; letters, digits and . _ + @ - only */
  const char *model; /* where the shape comes from; "" when not given */
  struct fpl_problem problem;
  double calls; /* weight: how often a step of the model runs it; 1 when not given */
};

/* From a parsed file; list and texts live in the arena. `*budget_us_out`: 0 when none is given.
 * Errors: FPL_PARSE (unknown key, missing key, duplicate id, extent out of range, m*n*k too large,
 * ...) and FPL_NO_MEMORY. */
enum fpl_status fpl_workloads_from_yaml(struct fpl_arena *arena, const struct fpl_yaml *root,
                                        struct fpl_workload **out, size_t *n_out,
                                        double *budget_us_out, struct fpl_err *err);

/* Reads the file first. Errors: also FPL_IO. */
enum fpl_status fpl_workloads_read(struct fpl_arena *arena, const char *path,
                                   struct fpl_workload **out, size_t *n_out, double *budget_us_out,
                                   struct fpl_err *err);

/* "90s", "10m", "1.5h" in microseconds: above 0, at most a year. False when the text is anything
 * else. */
bool fpl_budget_parse(const char *text, double *out_us);

#endif
