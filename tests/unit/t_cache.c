#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "codegen/cache.h"
#include "tuner/base/sys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char key[] = "ab00000000000000000000000000000000000000000000000000000000000001";

struct place {
  struct fpl_arena arena;
  char *dir;
  struct fpl_err err;
};

static int set_up(void **state) {
  static struct place place;
  place = (struct place){0};
  *state = &place;
  return fpl_dir_temporary(&place.arena, "/tmp", "t_cache", &place.dir, &place.err) == FPL_OK ? 0
                                                                                              : -1;
}

static int tear_down(void **state) {
  struct place *place = *state;
  const enum fpl_status status = fpl_dir_remove(place->dir, &place->err);
  fpl_arena_free(&place->arena);
  return status == FPL_OK ? 0 : -1;
}

/* A finished folder whose cubin is `cubin`; NULL: a text that did not compile. */
static const char *make_folder(struct place *place, const char *cubin) {
  char *dir = NULL;
  struct fpl_facts facts = {.is_ok = cubin != NULL, .registers = 40};
  assert_int_equal(fpl_dir_temporary(&place->arena, place->dir, "build", &dir, &place->err),
                   FPL_OK);
  if (cubin != NULL) {
    fpl_hash_bytes_hex(cubin, strlen(cubin), facts.sha);
    assert_int_equal(fpl_file_write(fpl_cache_file(&place->arena, dir, FPL_CACHE_CUBIN), cubin,
                                    strlen(cubin), &place->err),
                     FPL_OK);
  } else {
    (void)snprintf(facts.reason, sizeof facts.reason, "line = bad");
  }
  assert_int_equal(fpl_facts_write(dir, &facts, &place->err), FPL_OK);
  return dir;
}

static void assert_entry(struct place *place, const char *wanted) {
  const char *entry = fpl_cache_entry(&place->arena, place->dir, key);
  struct fpl_facts facts;
  void *cubin = NULL;
  size_t length = 0;
  assert_true(fpl_cache_load(entry, &facts, &cubin, &length));
  assert_true(facts.is_ok);
  assert_int_equal(facts.registers, 40);
  assert_int_equal(length, strlen(wanted));
  assert_int_equal(memcmp(cubin, wanted, length), 0);
  free(cubin);
}

static void keeps_the_entry_that_was_first(void **state) {
  struct place *place = *state;
  const char *const first = make_folder(place, "first");
  const char *const second = make_folder(place, "second");
  assert_int_equal(fpl_cache_publish(place->dir, key, first, &place->err), FPL_OK);
  assert_entry(place, "first");
  assert_int_equal(fpl_cache_publish(place->dir, key, second, &place->err), FPL_OK);
  assert_entry(place, "first");
  assert_false(fpl_path_exists(first));
  assert_false(fpl_path_exists(second));
}

static void replaces_a_damaged_entry(void **state) {
  struct place *place = *state;
  const char *const first = make_folder(place, "first");
  assert_int_equal(fpl_file_write(fpl_cache_file(&place->arena, first, FPL_CACHE_CUBIN), "f1rst", 5,
                                  &place->err),
                   FPL_OK);
  assert_int_equal(fpl_cache_publish(place->dir, key, first, &place->err), FPL_OK);
  struct fpl_facts facts;
  void *cubin = NULL;
  size_t length = 0;
  const char *entry = fpl_cache_entry(&place->arena, place->dir, key);
  assert_false(fpl_cache_load(entry, &facts, &cubin, &length));
  assert_null(cubin);
  const char *const second = make_folder(place, "second");
  assert_int_equal(fpl_cache_publish(place->dir, key, second, &place->err), FPL_OK);
  assert_entry(place, "second");
}

static void remembers_a_text_that_does_not_compile(void **state) {
  struct place *place = *state;
  const char *const folder = make_folder(place, NULL);
  assert_int_equal(fpl_cache_publish(place->dir, key, folder, &place->err), FPL_OK);
  struct fpl_facts facts;
  void *cubin = NULL;
  size_t length = 0;
  const char *entry = fpl_cache_entry(&place->arena, place->dir, key);
  assert_true(fpl_cache_load(entry, &facts, &cubin, &length));
  assert_false(facts.is_ok);
  assert_string_equal(facts.reason, "line = bad");
  assert_null(cubin);
}

static void refuses_malformed_facts(void **state) {
  struct place *place = *state;
  static const char *const texts[] = {
      "",
      "outcome=ok\n",
      "outcome=maybe\nregisters=1\nspill_bytes=0\nstack_bytes=0\nsha=\nreason=\n",
      "outcome=ok\nregisters=-1\nspill_bytes=0\nstack_bytes=0\nsha=\nreason=\n",
      "outcome=ok\nregisters=1\nspill_bytes=0\nstack_bytes=0\nsha=\nreason=",
      "outcome=ok\nregisters=1\nspill_bytes=0\nstack_bytes=0\nsha=\nreason=\nmore=1\n",
      "outcome=ok\nspill_bytes=0\nregisters=1\nstack_bytes=0\nsha=\nreason=\n",
  };
  const char *path = fpl_cache_file(&place->arena, place->dir, FPL_CACHE_FACTS);
  struct fpl_facts facts;
  assert_false(fpl_facts_read(place->dir, &facts));
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    assert_int_equal(fpl_file_write(path, texts[i], strlen(texts[i]), &place->err), FPL_OK);
    assert_false(fpl_facts_read(place->dir, &facts));
  }
  const char good[] = "outcome=ok\nregisters=1\nspill_bytes=2\nstack_bytes=3\nsha=\nreason=\n";
  assert_int_equal(fpl_file_write(path, good, sizeof good - 1, &place->err), FPL_OK);
  assert_true(fpl_facts_read(place->dir, &facts));
  assert_int_equal(facts.spill_bytes, 2);
  assert_int_equal(facts.stack_bytes, 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(keeps_the_entry_that_was_first, set_up, tear_down),
      cmocka_unit_test_setup_teardown(replaces_a_damaged_entry, set_up, tear_down),
      cmocka_unit_test_setup_teardown(remembers_a_text_that_does_not_compile, set_up, tear_down),
      cmocka_unit_test_setup_teardown(refuses_malformed_facts, set_up, tear_down),
  };
  cmocka_set_message_output(CM_OUTPUT_TAP);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
