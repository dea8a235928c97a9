/* What the plan of another shape loses: from schedules that won for one problem and were measured
 * for another as well. */
#include "db/handle.h"

#include <stdlib.h>
#include <string.h>

enum { RECENT_PLANS = 500 };

/* The regrets of one device class and kind, by class of distance. */
struct group {
  int64_t device_class_id;
  char kind[24];
  struct {
    double *values; /* heap */
    int64_t n, most;
  } classes[FPL_REGRET_CLASSES];
};

static void group_free(struct group *g) {
  for (int i = 0; i < FPL_REGRET_CLASSES; i++)
    free(g->classes[i].values);
  memset(g, 0, sizeof *g);
}

static bool group_add(struct group *g, int at, double regret) {
  if (g->classes[at].n == g->classes[at].most) {
    const int64_t most = g->classes[at].most ? 2 * g->classes[at].most : 64;
    double *const values = realloc(g->classes[at].values, (size_t)most * sizeof *values);
    if (!values)
      return false;
    g->classes[at].values = values;
    g->classes[at].most = most;
  }
  g->classes[at].values[g->classes[at].n++] = regret;
  return true;
}

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Stores the group and empties it. */
static enum fpl_status group_store(struct fpl_db *db, struct group *g, struct fpl_err *err) {
  enum fpl_status status = FPL_OK;
  for (int i = 0; status == FPL_OK && i < FPL_REGRET_CLASSES; i++) {
    double *const values = g->classes[i].values;
    if (values)
      qsort(values, (size_t)g->classes[i].n, sizeof *values, ascending);
    const struct fpl_regret regret = fpl_regret_of(values, g->classes[i].n);
    if (regret.n == 0)
      continue;
    struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_INSERT_REGRET);
    fpl_bind_i64(&b, g->device_class_id);
    fpl_bind_text(&b, g->kind);
    fpl_bind_i64(&b, i);
    fpl_bind_i64(&b, regret.n);
    fpl_bind_f64(&b, regret.low);
    fpl_bind_f64(&b, regret.expected);
    fpl_bind_f64(&b, regret.high);
    status = fpl_bind_run(&b, NULL, err);
  }
  group_free(g);
  return status;
}

static enum fpl_status take_transfer(struct fpl_db *db, sqlite3_stmt *row, struct group *g,
                                     struct fpl_err *err) {
  struct fpl_read r = {.statement = row};
  struct fpl_problem here, there;
  const int64_t device_class_id = fpl_read_i64(&r);
  const char *const kind = fpl_read_text(&r);
  enum fpl_status status = FPL_OK;
  if (device_class_id != g->device_class_id || strcmp(kind, g->kind) != 0) {
    status = group_store(db, g, err);
    g->device_class_id = device_class_id;
    fpl_read_copy(&(struct fpl_read){.statement = row, .next = 1}, g->kind, sizeof g->kind);
  }
  if (fpl_problem_parse(fpl_read_text(&r), &here, NULL) != FPL_OK ||
      fpl_problem_parse(fpl_read_text(&r), &there, NULL) != FPL_OK)
    return fpl_db_fail_row(db, "a problem's text cannot be read", err);
  const double regret = fpl_read_f64(&r);
  const bool is_kept = status != FPL_OK || !fpl_problem_is_near(&here, &there) || !(regret >= 0) ||
                       group_add(g, fpl_regret_class(fpl_problem_distance(&here, &there)), regret);
  return is_kept ? status : fpl_fail(err, FPL_NO_MEMORY, "%s: out of memory", db->path);
}

enum fpl_status fpl_db_put_regrets(struct fpl_db *db, struct fpl_err *err) {
  enum fpl_status status = fpl_db_run(db, FPL_QUERY_CLEAR_REGRETS, err);
  struct group g = {0};
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_EACH_TRANSFER);
  fpl_bind_i64(&b, RECENT_PLANS);
  fpl_bind_i64(&b, FPL_NEAREST_MOST);
  fpl_bind_i64(&b, FPL_NEAREST_MOST_M);
  bool has_row = false;
  while (status == FPL_OK && (status = fpl_bind_step(&b, &has_row, err)) == FPL_OK && has_row)
    status = take_transfer(db, b.statement, &g, err);
  if (status == FPL_OK)
    status = group_store(db, &g, err);
  fpl_bind_reset(&b);
  group_free(&g);
  return status;
}
