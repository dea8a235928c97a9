/* Comparing two databases: their answers, problem by problem and device class by device class. */
#include "db/db.h"

#include <math.h>
#include <stdlib.h>

const char *const fpl_diff_verdict_names[] = {"FAST",  "SLOW",    "SAME", "AMBIGUOUS",
                                              "ADDED", "REMOVED", NULL};
const char *const fpl_diff_basis_names[] = {"measured", "predicted", "none", NULL};

struct interval {
  double us, low_us, high_us;
};

/* Without a stored interval the median may lie anywhere. */
static struct interval measured(const struct fpl_stored_plan *p) {
  const bool has_interval = p->cold.n > 0 && p->cold.high_us > 0;
  return (struct interval){p->measured_us, has_interval ? p->cold.low_us : 0,
                           has_interval ? p->cold.high_us : INFINITY};
}

static struct interval predicted(const struct fpl_stored_plan *p) {
  return (struct interval){p->est_us, p->est_us, p->est_us};
}

static enum fpl_diff_verdict judge(const struct interval *a, const struct interval *b,
                                   double least_change) {
  if (a->high_us < b->low_us || b->high_us < a->low_us) {
    const double change = fmax(a->us, b->us) / fmin(a->us, b->us) - 1;
    if (change < least_change)
      return FPL_DIFF_SAME;
    return b->us < a->us ? FPL_DIFF_FAST : FPL_DIFF_SLOW;
  }
  const bool is_tight = a->high_us - a->low_us < least_change * a->us &&
                        b->high_us - b->low_us < least_change * b->us;
  /* Equal predictions are the same at any least change, 0 included. */
  const bool is_equal = a->low_us >= b->high_us && b->low_us >= a->high_us;
  return is_tight || is_equal ? FPL_DIFF_SAME : FPL_DIFF_AMBIGUOUS;
}

static bool was_measured(const struct fpl_stored_plan *p) {
  return p->provenance == FPL_PROVENANCE_MEASURED && p->measured_us > 0;
}

static struct fpl_diff_row compare(const struct fpl_stored_plan *a, const struct fpl_stored_plan *b,
                                   double least_change) {
  struct fpl_diff_row row = {
      .verdict = FPL_DIFF_AMBIGUOUS, .basis = FPL_DIFF_BY_NONE, .a = a, .b = b};
  if (was_measured(a) && was_measured(b))
    row.basis = FPL_DIFF_BY_MEASURED;
  else if (a->est_us > 0 && b->est_us > 0)
    row.basis = FPL_DIFF_BY_PREDICTED;
  else
    return row;
  const bool is_measured = row.basis == FPL_DIFF_BY_MEASURED;
  const struct interval x = is_measured ? measured(a) : predicted(a);
  const struct interval y = is_measured ? measured(b) : predicted(b);
  row.a_us = x.us;
  row.b_us = y.us;
  row.verdict = judge(&x, &y, least_change);
  return row;
}

/* Walks both lists, which are in one order. */
static void compare_all(struct fpl_diff *d, size_t n_a, size_t n_b, double least_change) {
  for (size_t i = 0, j = 0; i < n_a || j < n_b;) {
    const int order = i == n_a ? 1 : j == n_b ? -1 : fpl_stored_plan_compare(&d->a[i], &d->b[j]);
    struct fpl_diff_row *const row = &d->rows[d->n_rows++];
    if (order == 0)
      *row = compare(&d->a[i], &d->b[j], least_change);
    else if (order < 0)
      *row = (struct fpl_diff_row){
          .verdict = FPL_DIFF_REMOVED, .basis = FPL_DIFF_BY_NONE, .a = &d->a[i]};
    else
      *row = (struct fpl_diff_row){
          .verdict = FPL_DIFF_ADDED, .basis = FPL_DIFF_BY_NONE, .b = &d->b[j]};
    d->counts[row->verdict]++;
    i += order <= 0;
    j += order >= 0;
  }
}

enum fpl_status fpl_db_diff(struct fpl_db *a, struct fpl_db *b, double least_change,
                            struct fpl_diff *out, struct fpl_err *err) {
  *out = (struct fpl_diff){0};
  size_t n_a = 0, n_b = 0;
  enum fpl_status status = fpl_db_stored_plans(a, NULL, INT64_MAX, true, &out->a, &n_a, err);
  if (status == FPL_OK)
    status = fpl_db_stored_plans(b, NULL, INT64_MAX, true, &out->b, &n_b, err);
  if (status == FPL_OK) {
    out->rows = calloc(n_a + n_b + 1, sizeof *out->rows);
    if (out->rows)
      compare_all(out, n_a, n_b, least_change);
    else
      status = fpl_fail(err, FPL_NO_MEMORY, "out of memory");
  }
  if (status != FPL_OK)
    fpl_diff_free(out);
  return status;
}

void fpl_diff_free(struct fpl_diff *diff) {
  free(diff->rows);
  free(diff->a);
  free(diff->b);
  *diff = (struct fpl_diff){0};
}
