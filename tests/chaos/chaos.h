/* What the chaos tests share: seeded numbers, children that say why they failed, a problem stored
 * step by step, and the state a database is found in.
 *   CHAOS_KILLS  writers killed by each test that kills (200)
 *   CHAOS_SEED   of all random numbers (1) */
#ifndef FPL_TESTS_CHAOS_CHAOS_H
#define FPL_TESTS_CHAOS_CHAOS_H

#include "tests/unit/db_fixture.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static inline int64_t chaos_setting(const char *name, int64_t otherwise) {
  const char *const text = getenv(name);
  return text && *text ? strtoll(text, NULL, 10) : otherwise;
}

/* xorshift64*, below `n`. Source: Vigna, "An experimental exploration of Marsaglia's xorshift
 * generators, scrambled". */
static inline uint64_t chaos_random(uint64_t *state, uint64_t n) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return (*state * UINT64_C(0x2545f4914f6cdd1d) >> 16) % n;
}

static inline uint64_t chaos_seed(void) {
  const uint64_t seed = (uint64_t)chaos_setting("CHAOS_SEED", 1);
  printf("# CHAOS_SEED=%llu\n", (unsigned long long)seed);
  fflush(stdout);
  return seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

/* In a child: cmocka's assertions belong to the parent. */
static inline void chaos_expect(bool is_so, const char *what, const struct fpl_err *err) {
  if (is_so)
    return;
  fprintf(stderr, "# %s: %s\n", what, err->text);
  _exit(1);
}

/* Waits for `n` children, each of which must end well. */
static inline void chaos_join(const pid_t *children, int n) {
  int n_failed = 0;
  for (int i = 0; i < n; i++) {
    int status = 0;
    assert_int_equal(waitpid(children[i], &status, 0), children[i]);
    n_failed += status != 0;
  }
  assert_int_equal(n_failed, 0);
}

/* Stores problem m with the fixture's results in the run; times are derived from m. */
static inline enum fpl_status chaos_store(struct fpl_db *db, int64_t run, int64_t m,
                                          struct fpl_err *err) {
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(m);
  const struct fpl_environment e = fixture_environment();
  const struct fpl_plan plan = fixture_plan(&p, 10);
  struct fpl_result results[FIXTURE_RESULTS];
  fixture_results(results, 10);
  const enum fpl_status status =
      fpl_db_store_problem(db, run, &p, &d, results, FIXTURE_RESULTS, &e, &plan, err);
  fixture_results_free(results);
  return status;
}

/* A run that stores problems first .. last. */
static inline enum fpl_status chaos_store_run(struct fpl_db *db, int64_t first, int64_t last,
                                              struct fpl_err *err) {
  int64_t run = 0;
  enum fpl_status status = fpl_db_begin_run(db, 1, "1", "tune x.yaml", &run, err);
  for (int64_t m = first; status == FPL_OK && m <= last; m++)
    status = chaos_store(db, run, m, err);
  return status == FPL_OK ? fpl_db_end_run(db, run, FPL_RUN_DONE, err) : status;
}

static inline void chaos_make(const char *path, int64_t first, int64_t last) {
  struct fpl_err err = {0};
  struct fpl_db *const db = open_or_fail(path, FPL_DB_CREATE);
  must(chaos_store_run(db, first, last, &err), &err);
  fpl_db_close(db);
}

static inline int64_t chaos_ask(struct fpl_db *db, const char *sql) {
  sqlite3_stmt *statement = NULL;
  assert_int_equal(sqlite3_prepare_v2(db->handle, sql, -1, &statement, NULL), SQLITE_OK);
  assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
  const int64_t answer = sqlite3_column_int64(statement, 0);
  sqlite3_finalize(statement);
  return answer;
}

static inline bool chaos_has(struct fpl_db *db, int64_t m) {
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_problem p = fixture_problem(m);
  struct fpl_plan plan = {0};
  bool found = false;
  struct fpl_err err = {0};
  must(fpl_db_find_plan(db, &p, &d, true, &plan, &found, &err), &err);
  assert_true(!found || plan.kernel.cubin != NULL);
  fpl_plan_free(&plan);
  return found;
}

/* Sound, and every stored problem whole: as many candidates, samples and plans as a store makes. */
static inline void chaos_is_whole(struct fpl_db *db) {
  struct fpl_err err = {0};
  must(fpl_db_check(db, &err), &err);
  sqlite3_stmt *statement = NULL;
  assert_int_equal(sqlite3_prepare_v2(db->handle, "PRAGMA integrity_check", -1, &statement, NULL),
                   SQLITE_OK);
  assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
  assert_string_equal((const char *)sqlite3_column_text(statement, 0), "ok");
  sqlite3_finalize(statement);
  const int64_t n = chaos_ask(db, "SELECT count(*) FROM plans");
  assert_int_equal(chaos_ask(db, "SELECT count(*) FROM candidates"), n * FIXTURE_RESULTS);
  assert_int_equal(chaos_ask(db, "SELECT count(*) FROM measurements"), n * 3);
  assert_true(chaos_ask(db, "SELECT count(*) FROM problems") <= n);
}

/* The file's bytes; they live in the arena. */
static inline char *chaos_read_file(struct fpl_arena *arena, const char *path, size_t *length) {
  char *bytes = NULL;
  struct fpl_err err = {0};
  must(fpl_file_read(arena, path, 1 << 26, &bytes, length, &err), &err);
  return bytes;
}

static inline void chaos_write_file(const char *path, const void *bytes, size_t length) {
  FILE *const file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, length, file), length);
  assert_int_equal(fclose(file), 0);
}

/* Removes a database and what may lie beside it. */
static inline void chaos_remove(const char *path) {
  static const char *const endings[] = {"", "-journal", "-wal", "-shm"};
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
    char name[320];
    snprintf(name, sizeof name, "%s%s", path, endings[i]);
    unlink(name);
  }
}

#endif
