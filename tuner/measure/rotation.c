/* Decides the counts of a measurement; leaves memory, launches and statistics to others. */
#include "tuner/measure/rotation.h"

#include "tuner/base/str.h"

#include <math.h>
#include <stdlib.h>

enum { LEAST_SETS = 2, MOST_SETS = 400, LEAST_LAUNCHES = 8 };
static const int64_t least_rotated_bytes = 240000000;
static const int64_t most_input_bytes = 24000000000;

int64_t fpl_rotation_sets(int64_t weight_bytes, int64_t set_bytes, int64_t l2_bytes) {
  const int64_t wanted = fpl_max_i64(2 * l2_bytes, least_rotated_bytes);
  const int64_t enough = fpl_ceil_div(wanted, fpl_max_i64(weight_bytes, 1));
  const int64_t affordable = most_input_bytes / fpl_max_i64(set_bytes, 1);
  const int64_t most = fpl_min_i64(MOST_SETS, affordable);
  return fpl_max_i64(LEAST_SETS, fpl_min_i64(enough, most));
}

int64_t fpl_rotation_launches(int64_t n_sets) {
  return n_sets * fpl_ceil_div(LEAST_LAUNCHES, n_sets);
}

void fpl_rotation_density(const struct fpl_problem *p, struct fpl_integer_density *out) {
  const double deviations = 6;
  const double most = 2.0 / 3;                        /* -1, 0, 1 equally often */
  const double c_variance = pow(256 / deviations, 2); /* |C| <= 256: bf16 has 8 bits */
  const double e_variance = pow(30000 / deviations, 2);
  /* A product of two branches has the product of their variances. */
  const double branch_variance = fpl_problem_branches(p) == 2 ? sqrt(c_variance) : c_variance;
  out->a = most;
  out->b = fmin(most, branch_variance / ((double)p->k * out->a));
  const double branch_made = (double)p->k * out->a * out->b;
  const double c_made = fpl_problem_branches(p) == 2 ? branch_made * branch_made : branch_made;
  out->d = fmin(most, e_variance / ((double)p->n * fmax(c_made, 1)));
}

static int compare_starts(const void *a, const void *b) {
  const struct fpl_span *x = a;
  const struct fpl_span *y = b;
  if (x->start_ns != y->start_ns)
    return x->start_ns < y->start_ns ? -1 : 1;
  return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

bool fpl_rotation_group(struct fpl_span *spans, int64_t n_spans, int64_t n_launches,
                        double *out_us) {
  if (n_launches < 1 || n_spans < n_launches || n_spans % n_launches != 0)
    return false;
  qsort(spans, (size_t)n_spans, sizeof *spans, compare_starts);
  const int64_t per_launch = n_spans / n_launches;
  for (int64_t launch = 0; launch < n_launches; launch++) {
    const struct fpl_span *group = spans + launch * per_launch;
    uint64_t last_end_ns = group[0].end_ns;
    for (int64_t i = 1; i < per_launch; i++)
      if (group[i].end_ns > last_end_ns)
        last_end_ns = group[i].end_ns;
    out_us[launch] = (double)(int64_t)(last_end_ns - group[0].start_ns) / 1e3;
  }
  return true;
}
