/* Plan: the winner for a problem on a device class, with provenance and evidence; and the records
 * from which it is made. Plain data, shared by measurement, database and command line. */
#ifndef FPL_CORE_PLAN_H
#define FPL_CORE_PLAN_H

#include "tuner/core/kernel.h"
#include "tuner/core/outcome.h"

enum fpl_provenance { FPL_PROVENANCE_MEASURED, FPL_PROVENANCE_PREDICTED, FPL_PROVENANCE_SIMULATED };
extern const char *const fpl_provenance_names[]; /* measured predicted simulated */

/* cold: inputs rotate over at least twice the L2; hot: the same inputs again and again. */
enum fpl_cache_state { FPL_COLD, FPL_HOT, FPL_CACHE_STATES };
/* How a time was taken. */
enum fpl_method { FPL_METHOD_NONE, FPL_METHOD_CUPTI, FPL_METHOD_GRAPH, FPL_METHOD_EVENT };
extern const char *const fpl_method_names[]; /* none cupti graph event */

/* Samples of one candidate in one cache state: first start to last end of its kernels. */
struct fpl_samples {
  double *us; /* heap, owned by the result that holds it */
  int64_t n;
};

/* Order statistics; from tuner/measure/stats.c. */
struct fpl_stats {
  int64_t n;
  double median_us, p05_us, p95_us, least_us;
  double low_us, high_us; /* 95 % interval of the median */
};

struct fpl_verification {
  bool was_exact_ok;     /* small-integer inputs: bit-equal to the reference */
  double relative_error; /* random inputs: |out - ref| / |ref| against f64 */
  bool was_in_bounds;    /* canaries past the end untouched, every element written */
};

/* What became of one candidate. `schedule` is meaningless when is_library. */
struct fpl_result {
  bool is_library;
  struct fpl_schedule schedule;
  double est_us;       /* time model; 0 for the library */
  double est_plain_us; /* the paper's max V/B */
  enum fpl_outcome outcome;
  char reason[256]; /* of an outcome that is not ok; or the library's algorithm */
  struct fpl_verification verification;
  struct fpl_samples samples[FPL_CACHE_STATES];
  struct fpl_stats stats[FPL_CACHE_STATES];
  enum fpl_method method;
  struct fpl_kernel kernel; /* cubin included; empty for the library */
};
void fpl_result_free(struct fpl_result *r);

/* Where and with what: text pairs, sorted by name, so that records can be compared field by field.
 * Names in use: cupti cublaslt device_name driver hbm_mib l2_bytes nvrtc sm_clock_mhz sms uuid
 * throttle toolkit_headers. */
enum { FPL_ENVIRONMENT_FIELDS = 24 };
struct fpl_environment {
  struct {
    char name[24];
    char value[96];
  } fields[FPL_ENVIRONMENT_FIELDS];
  int n_fields;
};
/* Sets or replaces; keeps the order. A 25th field is dropped. */
void fpl_environment_set(struct fpl_environment *e, const char *name, const char *value);
const char *fpl_environment_get(const struct fpl_environment *e, const char *name); /* "" if none */

/* A stored answer. */
struct fpl_plan {
  int64_t id;
  struct fpl_problem problem;
  char device_name[32];
  bool is_library; /* the library pair won */
  struct fpl_schedule schedule;
  struct fpl_kernel kernel; /* cubin NULL unless asked for */
  bool has_cubin;           /* one is stored */
  int64_t m_low, m_high;    /* rows for which it is the best plan known; m alone where not probed */
  enum fpl_provenance provenance;
  double est_us;
  double measured_us, measured_hot_us; /* 0 when not measured */
  double library_us, library_hot_us;
  int64_t n_candidates, n_ok; /* evidence: tried, and verified and measured */
  int64_t created_unix;
  char reason[256]; /* why it won, one sentence */
  struct fpl_environment environment;
};
void fpl_plan_free(struct fpl_plan *p);
/* Same inputs, same bits: a kernel of a deterministic schedule. Not so the library plan: nothing is
 * promised of the algorithms it may choose. */
bool fpl_plan_is_deterministic(const struct fpl_plan *p);

#endif
