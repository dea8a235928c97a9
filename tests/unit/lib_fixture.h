/* A database file with one plan, and the library's view of it. */
#ifndef FPL_TESTS_LIB_FIXTURE_H
#define FPL_TESTS_LIB_FIXTURE_H

#include "tests/unit/db_fixture.h"
#include "tuner/lib/fuseplan.h"

enum { STORED_M = 128 };

/* Adds the fixture's plan for m rows on the h200 to the database at `path`. */
static inline void lib_fill(const char *path, int64_t m, double us) {
  struct fpl_db *const db = open_or_fail(path, FPL_DB_CREATE);
  const struct fpl_problem p = fixture_problem(m);
  const struct fpl_device d = fixture_device("h200");
  const struct fpl_plan plan = fixture_plan(&p, us);
  fixture_store(db, &p, &d, us, &plan);
  fpl_db_close(db);
}

/* A scratch folder with such a database at its path. */
static inline int lib_make(void **state) {
  if (scratch_make(state) != 0)
    return -1;
  lib_fill(((struct scratch *)*state)->path, STORED_M, 10.0);
  return 0;
}

static inline fuseplan_store *lib_store(const struct scratch *s) {
  const char *const path = s->path;
  fuseplan_store *store = NULL;
  struct fuseplan_message message;
  if (fuseplan_open(&path, 1, &store, &message) != FUSEPLAN_OK)
    fail_msg("%s", message.text);
  assert_non_null(store);
  return store;
}

static inline struct fuseplan_problem lib_problem(int64_t m) {
  return (struct fuseplan_problem){.size = sizeof(struct fuseplan_problem),
                                   .kind = FUSEPLAN_GEMM_CHAIN,
                                   .dtype = FUSEPLAN_F16,
                                   .act = FUSEPLAN_ACT_RELU,
                                   .m = m,
                                   .n = 3072,
                                   .k = 768,
                                   .l = 768};
}

static inline struct fuseplan_device lib_device(fuseplan_store *store) {
  struct fuseplan_device d = {.size = sizeof d};
  assert_int_equal(fuseplan_device_named(store, "h200", &d, NULL), FUSEPLAN_OK);
  return d;
}

static inline void assert_one_line(const struct fuseplan_message *message) {
  assert_true(message->text[0] != '\0');
  assert_null(strchr(message->text, '\n'));
}

#endif
