/* Device profiles: the two that ship, conversions, and the class that identifies a card. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tuner/base/str.h"
#include "tuner/base/sys.h"
#include "tuner/core/device.h"

#include <stdio.h>
#include <string.h>

static struct fpl_arena arena;

static int free_arena(void **state) {
  (void)state;
  fpl_arena_free(&arena);
  return 0;
}

static struct fpl_device read_profile(const char *path) {
  struct fpl_yaml *root = NULL;
  struct fpl_device d = {0};
  struct fpl_err err = {0};
  if (fpl_yaml_read(&arena, path, &root, &err) != FPL_OK ||
      fpl_device_from_yaml(root, &d, &err) != FPL_OK)
    fail_msg("%s", err.text);
  return d;
}

static bool is_near(double a, double b) {
  return a - b <= 1e-9 * b && b - a <= 1e-9 * b;
}

static void test_h200(void **state) {
  (void)state;
  const struct fpl_device d = read_profile("profiles/devices/h200.yaml");
  const int64_t active[FPL_CLUSTER_SIZES] = {132, 132, 120, 120, 112};
  assert_string_equal(d.name, "h200");
  assert_string_equal(d.title, "NVIDIA H200");
  assert_int_equal(d.capability_major, 9);
  assert_int_equal(d.capability_minor, 0);
  assert_int_equal(d.sms, 132);
  assert_int_equal(d.l2_bytes, 62914560);
  assert_int_equal(d.hbm_bytes, INT64_C(141000000000));
  assert_int_equal(d.smem_bytes_per_block, 232448);
  assert_int_equal(d.smem_bytes_per_sm, 233472);
  assert_int_equal(d.registers_per_sm, 65536);
  assert_int_equal(d.threads_per_sm, 2048);
  assert_int_equal(d.max_cluster, 16);
  assert_memory_equal(d.active_sms, active, sizeof active);
}

/* Each kind of unit reaches the unit of the struct. */
static void test_units(void **state) {
  (void)state;
  const struct fpl_device d = read_profile("profiles/devices/h200.yaml");
  assert_true(is_near(d.hbm_bytes_per_us, 4.5e6));
  assert_true(is_near(d.smem_bytes_per_us, 128.0 * 132 * 1980));
  assert_true(is_near(d.register_bytes_per_us, 1024.0 * 132 * 1980));
  assert_true(is_near(d.sm_ingress_bytes_per_us, 160e3));
  assert_true(is_near(d.tensor_flops_per_us, 790e6));
  assert_true(is_near(d.launch_us, 0.61));
  assert_true(is_near(d.copy_issue_us, 0.213));
  assert_true(is_near(d.dsm_latency_us, 200.0 / 1980));
  assert_true(d.dsm_bytes_per_us[0] == 0);
  assert_true(is_near(d.dsm_bytes_per_us[1], 4.11e6));
  assert_true(is_near(d.dsm_bytes_per_us[4], 2.67e6));
  assert_true(d.cluster_barrier_us[0] == 0);
  assert_true(is_near(d.cluster_barrier_us[1], 0.23));
}

static void test_h100(void **state) {
  (void)state;
  const struct fpl_device d = read_profile("profiles/devices/h100_sxm.yaml");
  const double dsm[FPL_CLUSTER_SIZES] = {0, 3.3e6, 3.2e6, 3.1e6, 2.9e6};
  assert_string_equal(d.name, "h100_sxm");
  assert_int_equal(d.sms, 132);
  assert_int_equal(d.l2_bytes, 52428800);
  assert_int_equal(d.smem_bytes_per_block, 227 * 1024);
  assert_true(is_near(d.hbm_bytes_per_us, 3.35e6));
  for (int i = 0; i < FPL_CLUSTER_SIZES; i++)
    assert_true(dsm[i] == d.dsm_bytes_per_us[i] || is_near(d.dsm_bytes_per_us[i], dsm[i]));
}

/* A borrowed number must say so: every source of h100_sxm that names the H200 begins with it. */
static void test_borrowed_sources(void **state) {
  (void)state;
  struct fpl_yaml *root = NULL;
  int n_borrowed = 0;
  assert_int_equal(fpl_yaml_read(&arena, "profiles/devices/h100_sxm.yaml", &root, NULL), FPL_OK);
  for (size_t i = 0; i < root->n_children; i++) {
    const struct fpl_yaml *const source = fpl_yaml_find(&root->children[i], "source");
    if (!source || !strstr(source->text, "micro-benchmark"))
      continue;
    n_borrowed++;
    assert_memory_equal(source->text, "carried from the H200 profile", 29);
  }
  assert_true(n_borrowed > 5);
}

static void test_class_text(void **state) {
  (void)state;
  char text[FPL_DEVICE_CLASS_TEXT];
  const struct fpl_device h200 = read_profile("profiles/devices/h200.yaml");
  const struct fpl_device h100 = read_profile("profiles/devices/h100_sxm.yaml");
  fpl_device_class_text(&h200, text);
  assert_string_equal(text, "sm_90 sms=132 l2=60MiB hbm=141GB clock=1980MHz");
  fpl_device_class_text(&h100, text);
  assert_string_equal(text, "sm_90 sms=132 l2=50MiB hbm=80GB clock=1980MHz");
}

static void test_class_key(void **state) {
  (void)state;
  const struct fpl_device base = read_profile("profiles/devices/h200.yaml");
  char key[FPL_KEY_HEX], other[FPL_KEY_HEX];
  fpl_device_class_key(&base, key);
  struct fpl_device d = base;
  strcpy(d.name, "other");
  strcpy(d.title, "NVIDIA H200 NVL");
  d.hbm_bytes += 1000;
  d.hbm_bytes_per_us /= 2;
  fpl_device_class_key(&d, other);
  assert_string_equal(key, other);
  struct fpl_device differing[6];
  for (int i = 0; i < 6; i++)
    differing[i] = base;
  differing[0].capability_major++;
  differing[1].capability_minor++;
  differing[2].sms--;
  differing[3].l2_bytes /= 2;
  differing[4].hbm_bytes /= 2;
  differing[5].sm_clock_mhz -= 100;
  for (int i = 0; i < 6; i++) {
    fpl_device_class_key(&differing[i], other);
    assert_string_not_equal(key, other);
  }
}

/* Removing any line of numbers from a profile is noticed, and names the key. */
static void test_every_key_is_needed(void **state) {
  (void)state;
  char *text = NULL;
  size_t length = 0;
  int n_keys = 0;
  assert_int_equal(
      fpl_file_read(&arena, "profiles/devices/h200.yaml", 1 << 20, &text, &length, NULL), FPL_OK);
  for (char *line = text; *line; line = strchr(line, '\n') + 1) {
    const size_t key_length = strcspn(line, ":\n");
    if (*line == '#' || *line == '\n')
      continue;
    const char kept = *line;
    char key[64];
    snprintf(key, sizeof key, "'%.*s' is missing", (int)key_length, line);
    *line = '#';
    struct fpl_yaml *root = NULL;
    struct fpl_device d;
    struct fpl_err err = {0};
    assert_int_equal(fpl_yaml_parse(&arena, "f", text, length, &root, &err), FPL_OK);
    assert_int_equal(fpl_device_from_yaml(root, &d, &err), FPL_PARSE);
    assert_non_null(strstr(err.text, key));
    *line = kept;
    n_keys++;
  }
  assert_int_equal(n_keys, 32);
}

static void test_cluster_index(void **state) {
  (void)state;
  for (int i = 0; i < FPL_CLUSTER_SIZES; i++)
    assert_int_equal(fpl_cluster_index(INT64_C(1) << i), i);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      {"reads limits and sizes of the H200 profile", test_h200, NULL, free_arena, NULL},
      {"converts every unit to that of the struct", test_units, NULL, free_arena, NULL},
      {"reads the H100 profile", test_h100, NULL, free_arena, NULL},
      {"says of each borrowed number that it is borrowed", test_borrowed_sources, NULL, free_arena,
       NULL},
      {"writes the device class", test_class_text, NULL, free_arena, NULL},
      {"gives equal cards equal keys and others different ones", test_class_key, NULL, free_arena,
       NULL},
      {"misses every key that is taken away", test_every_key_is_needed, NULL, free_arena, NULL},
      {"indexes cluster sizes by their logarithm", test_cluster_index, NULL, NULL, NULL},
  };
  return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
