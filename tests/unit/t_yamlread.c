/* The strict reader: what it accepts, and the exact line for everything it refuses. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tuner/base/str.h"
#include "tuner/base/sys.h"
#include "tuner/base/yamlread.h"
#include "tuner/core/device.h"
#include "tuner/core/workload.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct fpl_arena arena;

static int free_arena(void **state) {
  (void)state;
  fpl_arena_free(&arena);
  return 0;
}

static const struct fpl_yaml *parse(const char *text) {
  struct fpl_yaml *root = NULL;
  struct fpl_err err = {0};
  if (fpl_yaml_parse(&arena, "f.yaml", text, strlen(text), &root, &err) != FPL_OK)
    fail_msg("refused: %s", err.text);
  return root;
}

static void test_tree(void **state) {
  (void)state;
  const struct fpl_yaml *const root = parse("a: 1\nb:\n  - x\n  - {c: 'q', d: [1, 2, 3]}\n");
  assert_int_equal(root->kind, FPL_YAML_MAP);
  assert_int_equal(root->n_children, 2);
  const struct fpl_yaml *const b = fpl_yaml_find(root, "b");
  assert_non_null(b);
  assert_int_equal(b->kind, FPL_YAML_LIST);
  assert_int_equal(b->key_line, 2);
  assert_int_equal(b->key_column, 1);
  assert_int_equal(b->n_children, 2);
  assert_string_equal(b->children[0].text, "x");
  assert_null(b->children[0].key);
  assert_int_equal(b->children[0].line, 3);
  assert_int_equal(b->children[0].column, 5);
  const struct fpl_yaml *const c = fpl_yaml_find(&b->children[1], "c");
  assert_non_null(c);
  assert_true(c->is_quoted);
  assert_string_equal(c->text, "q");
  assert_int_equal(fpl_yaml_find(&b->children[1], "d")->n_children, 3);
  assert_null(fpl_yaml_find(root, "z"));
  assert_null(fpl_yaml_find(b, "a"));
}

static void test_crlf(void **state) {
  (void)state;
  const struct fpl_yaml *const root = parse("a: 1\r\nb: 2\r\n");
  int64_t value = 0;
  assert_int_equal(fpl_yaml_get_i64(root, "b", 0, 9, NULL, &value, NULL), FPL_OK);
  assert_int_equal(value, 2);
  assert_int_equal(fpl_yaml_find(root, "b")->line, 2);
}

static void test_unicode(void **state) {
  (void)state;
  const struct fpl_yaml *const root = parse("{a: \xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80, b: x}");
  assert_string_equal(fpl_yaml_find(root, "a")->text, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  assert_int_equal(fpl_yaml_find(root, "b")->key_column, 10);
  const char *const tagged = "{a: \xc3\xa9\xe2\x82\xac, b: ! x}";
  struct fpl_yaml *out = NULL;
  struct fpl_err err = {0};
  assert_int_equal(fpl_yaml_parse(&arena, "f", tagged, strlen(tagged), &out, &err), FPL_PARSE);
  assert_string_equal(err.text, "f:1:12: tag: remove it");
}

static void test_depth_limit(void **state) {
  (void)state;
  char text[80];
  for (int depth = FPL_YAML_DEPTH - 1; depth <= FPL_YAML_DEPTH + 1; depth++) {
    memset(text, '[', (size_t)depth);
    memset(text + depth, ']', (size_t)depth);
    text[2 * depth] = '\0';
    struct fpl_yaml *root = NULL;
    struct fpl_err err = {0};
    const enum fpl_status status = fpl_yaml_parse(&arena, "f", text, strlen(text), &root, &err);
    assert_int_equal(status, depth <= FPL_YAML_DEPTH ? FPL_OK : FPL_PARSE);
  }
}

static void test_node_limit(void **state) {
  (void)state;
  const size_t n = FPL_YAML_NODES + 8;
  char *const text = malloc(2 * n + 3);
  assert_non_null(text);
  text[0] = '[';
  for (size_t i = 0; i < n; i++)
    memcpy(text + 1 + 2 * i, "1,", 2);
  memcpy(text + 1 + 2 * n, "]", 2);
  struct fpl_yaml *root = NULL;
  struct fpl_err err = {0};
  const enum fpl_status status = fpl_yaml_parse(&arena, "f", text, 2 * n + 2, &root, &err);
  free(text);
  assert_int_equal(status, FPL_PARSE);
  assert_non_null(strstr(err.text, ": more than 1048576 values: split the file"));
}

static void test_many_keys(void **state) {
  (void)state;
  struct fpl_text text = {0};
  for (int i = 0; i < 20000; i++)
    fpl_text_append(&text, "k%d: 1\n", i);
  fpl_text_append(&text, "k77: 1\n");
  struct fpl_yaml *root = NULL;
  struct fpl_err err = {0};
  assert_int_equal(fpl_yaml_parse(&arena, "f", text.text, text.length, &root, &err), FPL_PARSE);
  fpl_text_free(&text);
  assert_string_equal(err.text, "f:20001:1: duplicate key 'k77', first on line 78: keep one");
}

static void test_huge_file(void **state) {
  (void)state;
  char path[] = "/tmp/t_yamlread-XXXXXX";
  const int fd = mkstemp(path);
  assert_true(fd >= 0);
  const int grown = ftruncate(fd, (off_t)1 << 36);
  close(fd);
  struct fpl_yaml *root = NULL;
  struct fpl_err err = {0};
  const clock_t start = clock();
  const enum fpl_status status = fpl_yaml_read(&arena, path, &root, &err);
  const double spent_s = (double)(clock() - start) / CLOCKS_PER_SEC;
  unlink(path);
  char expected[128];
  snprintf(expected, sizeof expected, "%s:1:1: file is larger than 16777216 bytes: split it", path);
  assert_int_equal(grown, 0);
  assert_int_equal(status, FPL_PARSE);
  assert_string_equal(err.text, expected);
  /* Processor time: reading 64 GiB, even of holes, takes more than this. */
  assert_true(spent_s < 1);
}

static void test_long_text(void **state) {
  (void)state;
  struct fpl_yaml *root = NULL;
  struct fpl_err err = {0};
  const size_t length = FPL_YAML_BYTES + 1;
  char *const text = calloc(1, length);
  assert_non_null(text);
  const enum fpl_status status = fpl_yaml_parse(&arena, "f", text, length, &root, &err);
  free(text);
  assert_int_equal(status, FPL_PARSE);
  assert_string_equal(err.text, "f:1:1: file is larger than 16777216 bytes: split it");
}

static void test_missing_file(void **state) {
  (void)state;
  struct fpl_yaml *root = NULL;
  struct fpl_err err = {0};
  assert_int_equal(fpl_yaml_read(&arena, "tests/no/such.yaml", &root, &err), FPL_IO);
  assert_non_null(strstr(err.text, "tests/no/such.yaml"));
}

/* UTF-8 that is too long, a surrogate, out of range or cut, each with its place. */
static void test_malformed_utf8(void **state) {
  (void)state;
  static const char *const bad[] = {"a: \xc0\x80",         "a: \xe0\x80\x80", "a: \xed\xa0\x80",
                                    "a: \xf4\x90\x80\x80", "a: \xe2\x82",     "a: \x80",
                                    "a: \xf8\x88\x80\x80", "a: \xc3\x28"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct fpl_yaml *root = NULL;
    struct fpl_err err = {0};
    assert_int_equal(fpl_yaml_parse(&arena, "f", bad[i], strlen(bad[i]), &root, &err), FPL_PARSE);
    assert_string_equal(err.text, "f:1:4: not UTF-8: save the file as UTF-8");
  }
}

static void test_numbers(void **state) {
  (void)state;
  static const struct {
    const char *text;
    const char *message; /* NULL: accepted */
  } cases[] = {
      {"v: 7", NULL},
      {"v: 0", NULL},
      {"v: -5", NULL},
      {"v: 11", "f.yaml:1:4: v 11 is out of range: it must lie between -5 and 10"},
      {"v: 007", "f.yaml:1:4: v '007' has a leading zero: write it without"},
      {"v: 0x7", "f.yaml:1:4: v '0x7' is not a whole number: write digits only"},
      {"v: 0o7", "f.yaml:1:4: v '0o7' is not a whole number: write digits only"},
      {"v: 1_0", "f.yaml:1:4: v '1_0' is not a whole number: write digits only"},
      {"v: +1", "f.yaml:1:4: v '+1' is not a whole number: write digits only"},
      {"v: 1.0", "f.yaml:1:4: v '1.0' is not a whole number: write digits only"},
      {"v: 1e3", "f.yaml:1:4: v '1e3' is not a whole number: write digits only"},
      {"v: true", "f.yaml:1:4: v 'true' is not a whole number: write digits only"},
      {"v: '7'", "f.yaml:1:4: v is a quoted text: write a whole number without quotes"},
      {"v: 9223372036854775808",
       "f.yaml:1:4: v 9223372036854775808 is out of range: it must lie between -5 and 10"},
      {"v:", "f.yaml:1:3: v has no value: write a whole number"},
      {"v: [7]", "f.yaml:1:4: v is a list: write a whole number"},
      {"w: 7", "f.yaml:1:1: key 'v' is missing: add it"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct fpl_err err = {0};
    int64_t value = 99;
    const enum fpl_status status =
        fpl_yaml_get_i64(parse(cases[i].text), "v", -5, 10, NULL, &value, &err);
    assert_int_equal(status, cases[i].message ? FPL_PARSE : FPL_OK);
    assert_string_equal(err.text, cases[i].message ? cases[i].message : "");
    assert_true(cases[i].message ? value == 99 : value <= 10);
  }
}

static void test_floats(void **state) {
  (void)state;
  static const char *const good[] = {"v: 0.25", "v: 25e-2", "v: +0.25", "v: .25"};
  static const char *const bad[] = {"v: .nan",  "v: nan", "v: .inf", "v: -inf", "v: 1e999",
                                    "v: 0x1p3", "v: 1,5", "v: '1'",  "v: 2.5",  "v: -1"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    double value = 0;
    assert_int_equal(fpl_yaml_get_f64(parse(good[i]), "v", 0, 2, NULL, &value, NULL), FPL_OK);
    assert_true(value == 0.25);
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    double value = 0;
    struct fpl_err err = {0};
    assert_int_equal(fpl_yaml_get_f64(parse(bad[i]), "v", 0, 2, NULL, &value, &err), FPL_PARSE);
    assert_memory_equal(err.text, "f.yaml:1:4: v ", 14);
  }
}

static void test_fallbacks(void **state) {
  (void)state;
  static const char *const names[] = {"red", "green", NULL};
  const struct fpl_yaml *const root = parse("x: green");
  const int64_t seven = 7;
  const double half = 0.5;
  int64_t whole = 0;
  double real = 0;
  const char *text = NULL;
  int name = -1;
  assert_int_equal(fpl_yaml_get_i64(root, "v", 0, 9, &seven, &whole, NULL), FPL_OK);
  assert_int_equal(whole, 7);
  assert_int_equal(fpl_yaml_get_f64(root, "v", 0, 9, &half, &real, NULL), FPL_OK);
  assert_true(real == 0.5);
  assert_int_equal(fpl_yaml_get_text(root, "v", "none", &text, NULL), FPL_OK);
  assert_string_equal(text, "none");
  assert_int_equal(fpl_yaml_get_name(root, "v", names, 0, &name, NULL), FPL_OK);
  assert_int_equal(name, 0);
  assert_int_equal(fpl_yaml_get_name(root, "x", names, -1, &name, NULL), FPL_OK);
  assert_int_equal(name, 1);
  assert_int_equal(fpl_yaml_get_name(root, "v", names, -1, &name, NULL), FPL_PARSE);
}

static void test_nearest_key(void **state) {
  (void)state;
  static const char *const keys[] = {"budget", "defaults", "problems", NULL};
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"budgte: 1", "f.yaml:1:1: unknown key 'budgte': did you mean 'budget'?"},
      {"budget: 1\nproblem: 1", "f.yaml:2:1: unknown key 'problem': did you mean 'problems'?"},
      {"{Defaults: 1}", "f.yaml:1:2: unknown key 'Defaults': did you mean 'defaults'?"},
      {"[1]", "f.yaml:1:1: this is a list: write a map of keys and values"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct fpl_err err = {0};
    assert_int_equal(fpl_yaml_only_keys(parse(cases[i].text), keys, &err), FPL_PARSE);
    assert_string_equal(err.text, cases[i].message);
  }
  assert_int_equal(fpl_yaml_only_keys(parse("budget: 1"), keys, NULL), FPL_OK);
}

static void test_one_line(void **state) {
  (void)state;
  static const char *const names[] = {"red", NULL};
  int name = 0;
  struct fpl_err err = {0};
  assert_int_equal(fpl_yaml_get_name(parse("v: \"a\\nb\\e[31m\""), "v", names, -1, &name, &err),
                   FPL_PARSE);
  assert_string_equal(err.text, "f.yaml:1:4: v 'a?b?[31m' is unknown: use one of red");
}

/* What tests/golden/yaml/<kind>_<name>.yaml is read as. */
static enum fpl_status read_golden(const char *path, const char *name, struct fpl_err *err) {
  struct fpl_yaml *root = NULL;
  const enum fpl_status status = fpl_yaml_read(&arena, path, &root, err);
  if (status != FPL_OK)
    return status;
  if (strncmp(name, "device_", 7) == 0) {
    struct fpl_device device;
    return fpl_device_from_yaml(root, &device, err);
  }
  struct fpl_workload *list = NULL;
  size_t n = 0;
  double budget_us = 0;
  return fpl_workloads_from_yaml(&arena, root, &list, &n, &budget_us, err);
}

static void check_golden(const char *name) {
  char path[512], expected_path[512];
  snprintf(path, sizeof path, "tests/golden/yaml/%s", name);
  snprintf(expected_path, sizeof expected_path, "%.*s.expected", (int)(strlen(path) - 5), path);
  struct fpl_err err = {0};
  assert_int_equal(read_golden(path, name, &err), FPL_PARSE);
  char got[sizeof err.text + 2];
  snprintf(got, sizeof got, "%s\n", err.text);
  char *expected = NULL;
  size_t length = 0;
  struct fpl_err io = {0};
  if (fpl_file_read(&arena, expected_path, 4096, &expected, &length, &io) != FPL_OK)
    fail_msg("%s; the message is: %s", io.text, got);
  assert_string_equal(got, expected);
}

static void test_golden(void **state) {
  (void)state;
  DIR *const folder = opendir("tests/golden/yaml");
  assert_non_null(folder);
  int n = 0;
  for (const struct dirent *entry; (entry = readdir(folder));) {
    const size_t length = strlen(entry->d_name);
    if (length < 6 || strcmp(entry->d_name + length - 5, ".yaml") != 0)
      continue;
    check_golden(entry->d_name);
    n++;
  }
  closedir(folder);
  assert_true(n >= 75);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      {"builds a tree that knows keys, lines and columns", test_tree, NULL, free_arena, NULL},
      {"accepts CRLF line ends", test_crlf, NULL, free_arena, NULL},
      {"accepts text beyond ASCII and counts columns in characters", test_unicode, NULL, free_arena,
       NULL},
      {"accepts 16 levels of nesting and refuses 17", test_depth_limit, NULL, free_arena, NULL},
      {"refuses more than a million values", test_node_limit, NULL, free_arena, NULL},
      {"finds a duplicate among 20000 keys", test_many_keys, NULL, free_arena, NULL},
      {"refuses a file of 64 GiB by its size", test_huge_file, NULL, free_arena, NULL},
      {"refuses a text larger than 16 MiB", test_long_text, NULL, free_arena, NULL},
      {"says which file is missing", test_missing_file, NULL, free_arena, NULL},
      {"refuses every malformed form of UTF-8", test_malformed_utf8, NULL, free_arena, NULL},
      {"reads whole numbers and nothing that merely looks like one", test_numbers, NULL, free_arena,
       NULL},
      {"reads finite numbers only", test_floats, NULL, free_arena, NULL},
      {"takes fallbacks for missing keys", test_fallbacks, NULL, free_arena, NULL},
      {"names the nearest key for an unknown one", test_nearest_key, NULL, free_arena, NULL},
      {"keeps a message on one line", test_one_line, NULL, free_arena, NULL},
      {"gives each bad file its exact line", test_golden, NULL, free_arena, NULL},
  };
  return cmocka_run_group_tests_name("yamlread", tests, NULL, NULL);
}
