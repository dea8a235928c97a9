/* Golden text: each tests/golden/emit/NAME.case (a problem, a schedule, a line each) emits NAME.cu,
 * byte for byte. With FPL_GOLDEN=update in the environment (tools/golden-update.sh) the files are
 * rewritten instead; the diff is then reviewed. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "codegen/emit.h"
#include "tuner/base/sys.h"
#include "tuner/core/legal.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER "tests/golden/emit/"

static bool is_update(void) {
  const char *const wish = getenv("FPL_GOLDEN");
  return wish && strcmp(wish, "update") == 0;
}

static char *read_text(struct fpl_arena *arena, const char *path) {
  struct fpl_err err = {0};
  char *text = NULL;
  size_t length = 0;
  if (fpl_file_read(arena, path, 1 << 20, &text, &length, &err) != FPL_OK)
    fail_msg("%s", err.text);
  return text;
}

static struct fpl_device read_device(struct fpl_arena *arena) {
  struct fpl_device d = {0};
  struct fpl_err err = {0};
  struct fpl_yaml *root = NULL;
  if (fpl_yaml_read(arena, "profiles/devices/h200.yaml", &root, &err) != FPL_OK ||
      fpl_device_from_yaml(root, &d, &err) != FPL_OK)
    fail_msg("%s", err.text);
  return d;
}

/* The two lines of a case; both must be what a skeleton can run. */
static void read_case(struct fpl_arena *arena, const char *path, const struct fpl_device *d,
                      struct fpl_problem *p, struct fpl_schedule *s) {
  struct fpl_err err = {0};
  struct fpl_verdict why;
  struct fpl_tiling t;
  struct fpl_footprint f;
  char *rest = NULL;
  const char *const problem = strtok_r(read_text(arena, path), "\n", &rest);
  const char *const schedule = strtok_r(NULL, "\n", &rest);
  assert_non_null(problem);
  assert_non_null(schedule);
  if (fpl_problem_parse(problem, p, &err) != FPL_OK ||
      fpl_schedule_parse(schedule, s, &err) != FPL_OK)
    fail_msg("%s: %s", path, err.text);
  if (!fpl_legal(p, s, d, &t, &f, &why) || !fpl_skeleton_fits(p, s, &why))
    fail_msg("%s: %s: %s", path, fpl_rule_names[why.rule], why.why);
}

static void check_case(const char *name, const struct fpl_device *d) {
  struct fpl_arena arena = {0};
  struct fpl_err err = {0};
  struct fpl_problem p;
  struct fpl_schedule s;
  struct fpl_kernel kernel;
  struct fpl_text text = {0};
  char path[512];
  snprintf(path, sizeof path, FOLDER "%s.case", name);
  read_case(&arena, path, d, &p, &s);
  assert_int_equal(fpl_emit(&p, &s, d, &text, &kernel, &err), FPL_OK);
  snprintf(path, sizeof path, FOLDER "%s.cu", name);
  if (is_update())
    assert_int_equal(fpl_file_write(path, text.text, text.length, &err), FPL_OK);
  else if (strcmp(read_text(&arena, path), text.text) != 0)
    fail_msg("%s differs from what is emitted now: `make golden-update`, and review", path);
  fpl_text_free(&text);
  fpl_kernel_free(&kernel);
  fpl_arena_free(&arena);
}

static void every_case_emits_its_golden_text(void **state) {
  (void)state;
  struct fpl_arena arena = {0};
  const struct fpl_device d = read_device(&arena);
  DIR *const folder = opendir(FOLDER);
  assert_non_null(folder);
  int n = 0;
  for (const struct dirent *entry; (entry = readdir(folder));) {
    char name[256];
    snprintf(name, sizeof name, "%s", entry->d_name);
    char *const dot = strrchr(name, '.');
    if (!dot || strcmp(dot, ".case") != 0)
      continue;
    *dot = '\0';
    check_case(name, &d);
    n++;
  }
  closedir(folder);
  fpl_arena_free(&arena);
  assert_true(n >= 5);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_case_emits_its_golden_text)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
