/* Leave-one-out over the shipped plans: each measured problem is taken out with all that was measured
 * for it, the rest is asked for it, and what a nearest answer loses is compared with the interval that
 * it states. The loss is known where the answer's schedule was measured for the problem itself. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/db_fixture.h"

#include <dirent.h>

enum { MOST_PROBLEMS = 512, LEAST_ANSWERS = 20 };

static void import_file(struct fpl_db *db, const char *name) {
  struct fpl_arena arena = {0};
  struct fpl_err err = {0};
  struct fpl_import_counts counts;
  char path[512], *text = NULL;
  size_t length = 0;
  snprintf(path, sizeof path, "profiles/plans/%s", name);
  must(fpl_file_read(&arena, path, (size_t)1 << 30, &text, &length, &err), &err);
  must(fpl_db_import(db, path, text, length, &counts, &err), &err);
  fpl_arena_free(&arena);
}

static void import_shipped(struct fpl_db *db) {
  DIR *const folder = opendir("profiles/plans");
  assert_non_null(folder);
  for (const struct dirent *entry; (entry = readdir(folder));)
    if (strstr(entry->d_name, ".jsonl"))
      import_file(db, entry->d_name);
  closedir(folder);
}

struct problems {
  struct fpl_problem items[MOST_PROBLEMS];
  int n;
};

static enum fpl_status note_problem(void *context, const struct fpl_plan *plan,
                                    struct fpl_err *err) {
  (void)err;
  struct problems *const all = context;
  if (plan->provenance == FPL_PROVENANCE_MEASURED && all->n < MOST_PROBLEMS)
    all->items[all->n++] = plan->problem;
  return FPL_OK;
}

static double number(struct fpl_db *db, const char *sql, const char *a, const char *b) {
  sqlite3_stmt *statement = NULL;
  assert_int_equal(sqlite3_prepare_v2(db->handle, sql, -1, &statement, NULL), SQLITE_OK);
  sqlite3_bind_text(statement, 1, a, -1, SQLITE_TRANSIENT);
  if (b)
    sqlite3_bind_text(statement, 2, b, -1, SQLITE_TRANSIENT);
  double out = NAN;
  if (sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_type(statement, 0) != SQLITE_NULL)
    out = sqlite3_column_double(statement, 0);
  sqlite3_finalize(statement);
  return out;
}

/* Time of a schedule for a problem over the best kernel's of the same comparison, less 1; NaN where it
 * was not measured. */
static double loss_of(struct fpl_db *db, const char *problem, const char *schedule) {
  return number(
      db,
      "SELECT s.median_us / (SELECT min(t.median_us) FROM candidates b JOIN measurements t"
      " ON t.candidate_id = b.id AND t.cache_state = 'cold' WHERE b.run_id = c.run_id AND"
      " b.problem_id = c.problem_id AND b.attempt = c.attempt AND b.is_library = 0 AND"
      " b.outcome = 'ok') - 1 FROM candidates c JOIN problems q ON q.id = c.problem_id"
      " JOIN runs r ON r.id = c.run_id JOIN measurements s ON s.candidate_id = c.id AND"
      " s.cache_state = 'cold' WHERE q.text = ?1 AND c.schedule = ?2 AND c.outcome = 'ok'"
      " ORDER BY r.started_unix DESC LIMIT 1",
      problem, schedule);
}

static void take_out(struct fpl_db *db, const char *problem) {
  static const char *const statements[] = {
      "DELETE FROM plans WHERE problem_id = (SELECT id FROM problems WHERE text = ?1)",
      "DELETE FROM candidates WHERE problem_id = (SELECT id FROM problems WHERE text = ?1)"};
  for (size_t i = 0; i < 2; i++)
    number(db, statements[i], problem, NULL);
  struct fpl_err err = {0};
  must(fpl_db_refresh(db, &err), &err);
}

static struct fpl_db *copy_of(struct fpl_db *db) {
  struct fpl_db *const copy = open_or_fail(":memory:", FPL_DB_CREATE);
  sqlite3_backup *const backup = sqlite3_backup_init(copy->handle, "main", db->handle, "main");
  assert_non_null(backup);
  assert_int_equal(sqlite3_backup_step(backup, -1), SQLITE_DONE);
  sqlite3_backup_finish(backup);
  return copy;
}

static enum fpl_status note_device(void *context, const struct fpl_plan *plan,
                                   struct fpl_err *err) {
  (void)err;
  snprintf(context, 32, "%s", plan->device_name);
  return FPL_OK;
}

static void stated_intervals_hold_in_nine_of_ten_cases(void **state) {
  (void)state;
  struct fpl_err err = {0};
  struct fpl_arena arena = {0};
  struct fpl_yaml *root = NULL;
  struct fpl_device device;
  static struct problems all;
  struct fpl_db *const db = open_or_fail(":memory:", FPL_DB_CREATE);
  char name[32] = "", path[128];
  import_shipped(db);
  must(fpl_db_each_plan(db, note_problem, &all, &err), &err);
  must(fpl_db_each_plan(db, note_device, name, &err), &err);
  snprintf(path, sizeof path, "profiles/devices/%s.yaml", name);
  must(fpl_yaml_read(&arena, path, &root, &err), &err);
  must(fpl_device_from_yaml(root, &device, &err), &err);
  int n_near = 0, n_known = 0, n_inside = 0;
  for (int i = 0; i < all.n; i++) {
    char problem[FPL_PROBLEM_TEXT], schedule[FPL_SCHEDULE_TEXT];
    fpl_problem_text(&all.items[i], problem);
    struct fpl_db *const rest = copy_of(db);
    take_out(rest, problem);
    const struct fpl_source source = fpl_db_source(rest);
    const struct fpl_wanted wanted = {.problem = &all.items[i], .device = &device};
    struct fpl_answer answer;
    must(fpl_answer(&source, 1, &wanted, NULL, FPL_TIER_NEAREST, &answer, NULL, &err), &err);
    fpl_db_close(rest);
    if (!answer.is_stored || answer.tier != FPL_TIER_NEAREST || answer.plan.is_library)
      continue;
    fpl_schedule_text(&answer.plan.schedule, schedule);
    const double loss = loss_of(db, problem, schedule);
    n_near++;
    n_known += isfinite(loss);
    n_inside += isfinite(loss) && loss >= answer.regret.low && loss <= answer.regret.high;
  }
  print_message("# %d problems, %d nearest kernels, loss known of %d, inside the interval %d\n",
                all.n, n_near, n_known, n_inside);
  fpl_db_close(db);
  fpl_arena_free(&arena);
  if (n_known < LEAST_ANSWERS)
    skip();
  assert_true(10 * n_inside >= 9 * n_known);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(stated_intervals_hold_in_nine_of_ten_cases)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
