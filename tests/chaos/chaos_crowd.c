/* Many processes on one database: all make it at once and write; many read while one writes and one
 * migrates; writers are killed among others that go on. No error, no lost row. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/chaos/chaos.h"

#include <poll.h>

enum { CROWD = 64, ROUNDS_LEAST = 5, N_WRITTEN = 12, SQL_MOST_BYTES = 1 << 20 };

/* A gate: children wait at it until the parent closes its end. */
struct gate {
  int in, out;
};

static struct gate gate_make(void) {
  int pipes[2];
  assert_int_equal(pipe(pipes), 0);
  return (struct gate){pipes[0], pipes[1]};
}

static void gate_wait(const struct gate *g) {
  char byte = 0;
  close(g->out);
  if (read(g->in, &byte, 1) != 0)
    _exit(1);
}

/* Has the parent closed its end yet? */
static bool gate_is_open(const struct gate *g) {
  struct pollfd end = {.fd = g->in};
  return poll(&end, 1, 0) > 0;
}

static void gate_open(const struct gate *g) {
  close(g->out);
  close(g->in);
}

static void create_and_write(const char *path, int64_t m) {
  struct fpl_db *db = NULL;
  struct fpl_err err = {0};
  enum fpl_status status = fpl_db_open(path, FPL_DB_CREATE, &db, &err);
  if (status == FPL_OK)
    status = chaos_store_run(db, m, m, &err);
  chaos_expect(status == FPL_OK, "create and write", &err);
  fpl_db_close(db);
  _exit(0);
}

static void many_processes_make_and_write_one_new_database(void **state) {
  const struct scratch *const s = *state;
  const struct gate start = gate_make();
  pid_t children[CROWD];
  for (int i = 0; i < CROWD; i++) {
    children[i] = fork();
    assert_true(children[i] >= 0);
    if (children[i] == 0) {
      gate_wait(&start);
      create_and_write(s->path, 1 + i);
    }
  }
  gate_open(&start);
  chaos_join(children, CROWD);
  struct fpl_db *const db = open_or_fail(s->path, FPL_DB_READ);
  chaos_is_whole(db);
  for (int i = 0; i < CROWD; i++)
    assert_true(chaos_has(db, 1 + i));
  assert_int_equal(chaos_ask(db, "SELECT count(*) FROM runs WHERE state = 'done'"), CROWD);
  fpl_db_close(db);
}

/* An answer of the fixture. */
static void look_up(struct fpl_db *db, const struct fpl_device *d) {
  struct fpl_problem p;
  struct fpl_plan plan = {0};
  bool found = false;
  struct fpl_err err = {0};
  enum fpl_status status =
      fpl_problem_parse("gemm_chain m=128 n=512 k=32 l=256 dtype=f16 act=relu", &p, &err);
  if (status == FPL_OK)
    status = fpl_db_find_plan(db, &p, d, true, &plan, &found, &err);
  chaos_expect(status == FPL_OK, "look up", &err);
  chaos_expect(found && strcmp(plan.kernel.name, "chain_sm90_b0610102") == 0, "answer", &err);
  fpl_plan_free(&plan);
}

static enum fpl_status count_plan(void *context, const struct fpl_plan *plan, struct fpl_err *err) {
  (void)plan, (void)err;
  ++*(int64_t *)context;
  return FPL_OK;
}

/* Every second reader keeps its connection; the others open the file anew each time. */
static void keep_reading(const char *path, bool keeps_open, const struct gate *stop) {
  const struct fpl_device d = fixture_device("h200");
  struct fpl_device real = d;
  real.sm_clock_mhz = 1980;
  struct fpl_db *db = NULL;
  struct fpl_err err = {0};
  int64_t n_before = 0;
  close(stop->out);
  for (int round = 0; round < ROUNDS_LEAST || !gate_is_open(stop); round++) {
    if (!db)
      chaos_expect(fpl_db_open(path, FPL_DB_READ, &db, &err) == FPL_OK, "open to read", &err);
    look_up(db, &real);
    int64_t n = 0;
    chaos_expect(fpl_db_each_plan(db, count_plan, &n, &err) == FPL_OK, "walk", &err);
    chaos_expect(n >= n_before, "an answer was lost", &err);
    n_before = n;
    if (!keeps_open) {
      fpl_db_close(db);
      db = NULL;
    }
  }
  fpl_db_close(db);
  _exit(0);
}

static void write_slowly(const char *path) {
  struct fpl_err err = {0};
  for (int64_t m = 1; m <= N_WRITTEN; m++) { /* WRITE: it migrates where it comes first */
    struct fpl_db *db = NULL;
    enum fpl_status status = fpl_db_open(path, FPL_DB_WRITE, &db, &err);
    if (status == FPL_OK)
      status = chaos_store_run(db, m, m, &err);
    chaos_expect(status == FPL_OK, "write", &err);
    fpl_db_close(db);
    usleep(20000);
  }
  _exit(0);
}

static void migrate(const char *path) {
  struct fpl_db *db = NULL;
  struct fpl_err err = {0};
  usleep(30000);
  chaos_expect(fpl_db_open(path, FPL_DB_CREATE, &db, &err) == FPL_OK, "migrate", &err);
  fpl_db_close(db);
  _exit(0);
}

static void make_schema_1(struct scratch *s) {
  size_t length = 0;
  char *sql = NULL;
  struct fpl_err err = {0};
  must(fpl_file_read(&s->arena, "tests/fixtures/schema_1.sql", SQL_MOST_BYTES, &sql, &length, &err),
       &err);
  sqlite3 *handle = NULL;
  assert_int_equal(sqlite3_open(s->path, &handle), SQLITE_OK);
  assert_int_equal(sqlite3_exec(handle, sql, NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(handle);
}

static void many_read_while_one_writes_and_one_migrates(void **state) {
  struct scratch *const s = *state;
  make_schema_1(s);
  const struct gate start = gate_make(), stop = gate_make();
  pid_t readers[CROWD], writers[2];
  for (int i = 0; i < CROWD + 2; i++) {
    pid_t *const child = i < CROWD ? &readers[i] : &writers[i - CROWD];
    *child = fork();
    assert_true(*child >= 0);
    if (*child == 0) {
      gate_wait(&start);
      if (i < CROWD)
        keep_reading(s->path, i % 2 == 0, &stop);
      if (i == CROWD)
        write_slowly(s->path);
      migrate(s->path);
    }
  }
  gate_open(&start);
  chaos_join(writers, 2);
  gate_open(&stop);
  chaos_join(readers, CROWD);
  struct fpl_db *const db = open_or_fail(s->path, FPL_DB_READ);
  struct fpl_err err = {0};
  must(fpl_db_check(db, &err), &err);
  assert_int_equal(chaos_ask(db, "PRAGMA user_version"), fpl_db_newest_schema);
  /* Beside the fixture's rows, those of the writer. */
  assert_int_equal(chaos_ask(db, "SELECT count(*) FROM plans"), 5 + N_WRITTEN);
  assert_int_equal(chaos_ask(db, "SELECT count(*) FROM candidates"),
                   19 + N_WRITTEN * FIXTURE_RESULTS);
  assert_int_equal(chaos_ask(db, "SELECT count(*) FROM measurements"), 26 + N_WRITTEN * 3);
  for (int64_t m = 1; m <= N_WRITTEN; m++)
    assert_true(chaos_has(db, m));
  fpl_db_close(db);
}

enum { WRITERS = 8 };

/* Stores problems of its own, one after another, and reports each. */
static void write_on(const char *path, int64_t first, int64_t n, int fd) {
  struct fpl_db *db = NULL;
  struct fpl_err err = {0};
  int64_t run = 0;
  enum fpl_status status = fpl_db_open(path, FPL_DB_CREATE, &db, &err);
  if (status == FPL_OK)
    status = fpl_db_begin_run(db, 1, "1", "", &run, &err);
  for (int64_t m = first; status == FPL_OK && m < first + n; m++) {
    status = chaos_store(db, run, m, &err);
    if (status == FPL_OK && write(fd, &m, sizeof m) != sizeof m)
      _exit(1);
  }
  chaos_expect(status == FPL_OK, "write beside killed writers", &err);
  fpl_db_close(db);
  _exit(0);
}

/* Every second writer of a crowd is killed after a random time; answers how many were. */
static int kill_some(const struct scratch *s, uint64_t *random, int fd) {
  enum { OF_VICTIM = 1000, OF_OTHER = 6 };
  pid_t children[WRITERS];
  for (int i = 0; i < WRITERS; i++) {
    children[i] = fork();
    assert_true(children[i] >= 0);
    if (children[i] == 0)
      write_on(s->path, 1 + i * OF_VICTIM, i % 2 ? OF_VICTIM : OF_OTHER, fd);
  }
  int n_killed = 0;
  for (int i = 1; i < WRITERS; i += 2) {
    usleep((useconds_t)(1000 + chaos_random(random, 30000)));
    assert_int_equal(kill(children[i], SIGKILL), 0);
    int status = 0;
    assert_int_equal(waitpid(children[i], &status, 0), children[i]);
    assert_true(WIFSIGNALED(status));
    n_killed++;
    children[i / 2] = children[i - 1];
  }
  chaos_join(children, WRITERS / 2);
  return n_killed;
}

static void writers_killed_among_others_disturb_nobody(void **state) {
  const struct scratch *const s = *state;
  uint64_t random = chaos_seed();
  const int64_t kills = chaos_setting("CHAOS_KILLS", 200);
  for (int64_t n_killed = 0; n_killed < kills;) {
    int pipes[2];
    int64_t m = 0;
    chaos_remove(s->path);
    assert_int_equal(pipe(pipes), 0);
    n_killed += kill_some(s, &random, pipes[1]);
    close(pipes[1]);
    struct fpl_db *const db = open_or_fail(s->path, FPL_DB_READ);
    chaos_is_whole(db);
    while (read(pipes[0], &m, sizeof m) == sizeof m)
      assert_true(chaos_has(db, m));
    close(pipes[0]);
    fpl_db_close(db);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(many_processes_make_and_write_one_new_database, scratch_make,
                                      scratch_remove),
      cmocka_unit_test_setup_teardown(many_read_while_one_writes_and_one_migrates, scratch_make,
                                      scratch_remove),
      cmocka_unit_test_setup_teardown(writers_killed_among_others_disturb_nobody, scratch_make,
                                      scratch_remove),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
