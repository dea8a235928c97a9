/* At a random step of a writer's work on files it is killed, or the disk is full from then on: what
 * it reported as stored is there, the rest is whole or absent, an import happened or did not, and
 * the next writer goes on. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/chaos/chaos.h"
#include "tests/chaos/chaos_vfs.h"

enum {
  BASE_FIRST = 128,
  BASE_LAST = 129,
  TEXT_FIRST = 140,
  TEXT_LAST = 143,
  N_STORED = 3,
  SETUPS = 4
};

/* What is killed. */
struct attack {
  struct scratch *scratch;
  bool is_import;   /* otherwise a store of problems 1 .. N_STORED */
  bool is_new;      /* the file does not exist before */
  bool has_shm;     /* WAL; otherwise a rollback journal */
  const char *text; /* of the import */
  size_t length;
  char *base; /* bytes of the database before; NULL: none */
  size_t base_length;
  struct fpl_text source;        /* where text is */
  struct fpl_text before, after; /* its export, cubins included; of an import alone */
};

static void report(int fd, int64_t value) {
  if (write(fd, &value, sizeof value) != sizeof value)
    _exit(1);
}

/* The child: works, and reports each problem stored (or 1 for the import), then its steps. */
static void work(const struct attack *a, enum chaos_action action, int64_t at, int fd) {
  struct fpl_db *db = NULL;
  struct fpl_err err = {0};
  int64_t run = 0;
  chaos_install(action, at, a->has_shm);
  enum fpl_status status = fpl_db_open(a->scratch->path, FPL_DB_CREATE, &db, &err);
  if (status == FPL_OK && a->is_import) {
    struct fpl_import_counts counts;
    status = fpl_db_import(db, "text", a->text, a->length, &counts, &err);
    if (status == FPL_OK)
      report(fd, 1);
  } else if (status == FPL_OK) {
    status = fpl_db_begin_run(db, 1, "1", "tune x.yaml", &run, &err);
    for (int64_t m = 1; status == FPL_OK && m <= N_STORED; m++) {
      status = chaos_store(db, run, m, &err);
      if (status == FPL_OK)
        report(fd, m);
    }
    if (status == FPL_OK)
      status = fpl_db_end_run(db, run, FPL_RUN_DONE, &err);
  }
  const bool is_told = action == CHAOS_FULL && status == FPL_DB &&
                       strstr(err.text, "no space left") && strstr(err.text, a->scratch->path);
  chaos_expect(status == FPL_OK || is_told, "the writer failed", &err);
  fpl_db_close(db);
  report(fd, -chaos.step);
  _exit(0);
}

/* Answers whether it was killed; `*out_stored` is the last report, `*out_steps` the count where it
 * came to the end. */
static bool run_child(const struct attack *a, enum chaos_action action, int64_t at,
                      int64_t *out_stored, int64_t *out_steps) {
  int pipes[2], status = 0;
  int64_t value = 0;
  *out_stored = *out_steps = 0;
  assert_int_equal(pipe(pipes), 0);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0)
    work(a, action, at, pipes[1]);
  close(pipes[1]);
  while (read(pipes[0], &value, sizeof value) == sizeof value)
    *(value > 0 ? out_stored : out_steps) = value > 0 ? value : -value;
  close(pipes[0]);
  assert_int_equal(waitpid(child, &status, 0), child);
  const bool was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  assert_true(was_killed || status == 0);
  return was_killed;
}

static void restore(const struct attack *a) {
  chaos_remove(a->scratch->path);
  if (a->base)
    chaos_write_file(a->scratch->path, a->base, a->base_length);
}

/* Nothing was stored yet and there was no file: a reader may be told so, in one line. */
static bool is_absent(const struct attack *a, int64_t stored) {
  struct fpl_db *db = NULL;
  struct fpl_err err = {0};
  if (!a->is_new || stored > 0 || fpl_db_open(a->scratch->path, FPL_DB_READ, &db, &err) == FPL_OK) {
    fpl_db_close(db);
    return false;
  }
  assert_true(err.code == FPL_IO || err.code == FPL_DB_CORRUPT);
  assert_non_null(strstr(err.text, a->scratch->path));
  return true;
}

static void check_import(const struct attack *a, struct fpl_db *db, int64_t stored) {
  struct fpl_err err = {0};
  must(fpl_db_check(db, &err), &err);
  struct fpl_text text = export_or_fail(db, true);
  if (stored > 0 || strcmp(text.text, a->before.text) != 0)
    assert_string_equal(text.text, a->after.text);
  fpl_text_free(&text);
}

static void check_store(const struct attack *a, struct fpl_db *db, int64_t stored) {
  chaos_is_whole(db);
  for (int64_t m = BASE_FIRST; !a->is_new && m <= BASE_LAST; m++)
    assert_true(chaos_has(db, m));
  for (int64_t m = 1; m <= stored; m++)
    assert_true(chaos_has(db, m));
}

static void check(const struct attack *a, int64_t stored) {
  if (!is_absent(a, stored)) { /* a lookup comes first: it needs no writer to repair the file */
    struct fpl_db *const reader = open_or_fail(a->scratch->path, FPL_DB_READ);
    (a->is_import ? check_import : check_store)(a, reader, stored);
    fpl_db_close(reader);
  }
  struct fpl_err err = {0};
  struct fpl_db *const writer = open_or_fail(a->scratch->path, FPL_DB_CREATE);
  struct fpl_import_counts counts;
  if (a->is_import)
    must(fpl_db_import(writer, "text", a->text, a->length, &counts, &err), &err);
  else
    must(chaos_store_run(writer, 1, N_STORED, &err), &err);
  (a->is_import ? check_import : check_store)(a, writer, a->is_import ? 1 : N_STORED);
  fpl_db_close(writer);
}

static struct fpl_text export_with(const struct attack *a, bool with_import) {
  restore(a);
  struct fpl_err err = {0};
  struct fpl_import_counts counts;
  struct fpl_db *const db = open_or_fail(a->scratch->path, FPL_DB_CREATE);
  if (with_import)
    must(fpl_db_import(db, "text", a->text, a->length, &counts, &err), &err);
  struct fpl_text text = export_or_fail(db, true);
  fpl_db_close(db);
  return text;
}

/* The text to import: a run over other problems than the base has. */
static void make_text(struct attack *a) {
  char path[300];
  snprintf(path, sizeof path, "%s/text.db", a->scratch->folder);
  chaos_remove(path);
  chaos_make(path, TEXT_FIRST, TEXT_LAST);
  struct fpl_db *const db = open_or_fail(path, FPL_DB_READ);
  a->source = export_or_fail(db, true);
  a->text = a->source.text;
  a->length = a->source.length;
  fpl_db_close(db);
}

static void prepare(struct attack *a) {
  chaos_remove(a->scratch->path);
  if (!a->is_new) {
    chaos_make(a->scratch->path, BASE_FIRST, BASE_LAST);
    a->base = chaos_read_file(&a->scratch->arena, a->scratch->path, &a->base_length);
  }
  if (a->is_import) {
    make_text(a);
    a->before = export_with(a, false);
    a->after = export_with(a, true);
    assert_string_not_equal(a->before.text, a->after.text);
  }
}

static void attack(struct scratch *scratch, bool is_import, enum chaos_action action) {
  uint64_t random = chaos_seed();
  const int64_t kills = chaos_setting("CHAOS_KILLS", 200);
  int64_t n_killed = 0;
  for (int setup = 0; setup < SETUPS; setup++) {
    struct attack a = {.scratch = scratch,
                       .is_import = is_import,
                       .is_new = (setup & 1) != 0,
                       .has_shm = (setup & 2) != 0};
    prepare(&a);
    int64_t stored = 0, steps = 0, none = 0;
    restore(&a);
    assert_false(run_child(&a, CHAOS_COUNT, 0, &stored, &steps));
    assert_int_equal(stored, is_import ? 1 : N_STORED);
    assert_true(steps > 20);
    for (int64_t i = setup; i < kills; i += SETUPS) {
      restore(&a);
      const int64_t at = 1 + (int64_t)chaos_random(&random, (uint64_t)steps);
      n_killed += run_child(&a, action, at, &stored, &none);
      check(&a, stored);
    }
    fpl_text_free(&a.source);
    fpl_text_free(&a.before);
    fpl_text_free(&a.after);
  }
  assert_int_equal(n_killed, action == CHAOS_KILL ? kills : 0);
}

static void a_killed_store_loses_at_most_the_problem_in_flight(void **state) {
  attack(*state, false, CHAOS_KILL);
}

static void a_killed_import_happened_or_did_not(void **state) {
  attack(*state, true, CHAOS_KILL);
}

static void a_store_on_a_full_disk_loses_at_most_the_problem_in_flight(void **state) {
  attack(*state, false, CHAOS_FULL);
}

static void an_import_on_a_full_disk_happened_or_did_not(void **state) {
  attack(*state, true, CHAOS_FULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_killed_store_loses_at_most_the_problem_in_flight,
                                      scratch_make, scratch_remove),
      cmocka_unit_test_setup_teardown(a_killed_import_happened_or_did_not, scratch_make,
                                      scratch_remove),
      cmocka_unit_test_setup_teardown(a_store_on_a_full_disk_loses_at_most_the_problem_in_flight,
                                      scratch_make, scratch_remove),
      cmocka_unit_test_setup_teardown(an_import_on_a_full_disk_happened_or_did_not, scratch_make,
                                      scratch_remove),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
