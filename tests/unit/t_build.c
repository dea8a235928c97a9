/* The builder with the real NVRTC of this machine. This program is its own compile worker. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "codegen/build.h"
#include "codegen/cache.h"
#include "codegen/files.h"
#include "codegen/nvrtc.h"
#include "tuner/base/sys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_US 1e6

static const char good_text[] =
    "extern \"C\" __global__ void twice(float *x) { x[threadIdx.x] *= 2.0f; }\n";
static const char other_text[] =
    "extern \"C\" __global__ void thrice(float *x) { x[threadIdx.x] *= 3.0f; }\n";
static const char bad_text[] = "static_assert(sizeof(int) == 5, \"blk_m: must be 5\");\n"
                               "extern \"C\" __global__ void never(float *x) { *x = 0.0f; }\n";
static const char local_text[] = "extern \"C\" __global__ void local(float *x) {\n"
                                 "  float kept[64];\n"
                                 "  for (int i = 0; i < 64; i++) kept[i] = x[i * threadIdx.x];\n"
                                 "  for (int i = 0; i < 64; i++) x[i] = kept[((int)x[i]) & 63];\n"
                                 "}\n";

struct place {
  struct fpl_arena arena;
  char *dir;
  char *self;
  struct fpl_builder *builder;
  struct fpl_err err;
};

static struct fpl_builder *open_builder(struct place *place, const char *self, double timeout_us) {
  const struct fpl_builder_options options = {
      .cache_dir = fpl_cache_file(&place->arena, place->dir, "cache"),
      .self_path = self,
      .jobs = 2,
      .compile_timeout_us = timeout_us};
  struct fpl_builder *builder = NULL;
  if (fpl_builder_open(&options, &builder, &place->err) != FPL_OK) {
    print_message("%s\n", place->err.text);
  }
  return builder;
}

static int set_up(void **state) {
  static struct place place;
  place = (struct place){0};
  *state = &place;
  if (fpl_dir_temporary(&place.arena, "/tmp", "t_build", &place.dir, &place.err) != FPL_OK ||
      fpl_self_path(&place.arena, &place.self, &place.err) != FPL_OK) {
    return -1;
  }
  place.builder = open_builder(&place, place.self, 120 * SECOND_US);
  return 0;
}

static int tear_down(void **state) {
  struct place *place = *state;
  fpl_builder_close(place->builder);
  const enum fpl_status status = fpl_dir_remove(place->dir, &place->err);
  fpl_arena_free(&place->arena);
  return status == FPL_OK ? 0 : -1;
}

static void need_nvrtc(const struct place *place) {
  if (place->builder == NULL) {
    print_message("skipped: no NVRTC with headers on this machine\n");
    skip();
  }
}

static struct fpl_build_item compile_one(struct place *place, struct fpl_builder *builder,
                                         const char *source) {
  struct fpl_build_item item = {.source = source};
  const enum fpl_status status = fpl_builder_compile(builder, &item, 1, NULL, NULL, &place->err);
  if (status != FPL_OK) {
    print_message("%s\n", place->err.text);
  }
  assert_int_equal(status, FPL_OK);
  return item;
}

static const char *file_of(struct place *place, const struct fpl_build_item *item,
                           const char *name) {
  const char *cache = fpl_cache_file(&place->arena, place->dir, "cache");
  return fpl_cache_file(&place->arena, fpl_cache_entry(&place->arena, cache, item->key), name);
}

static void compiles_a_text_to_an_elf_image_with_its_facts(void **state) {
  struct place *place = *state;
  need_nvrtc(place);
  struct fpl_build_item item = compile_one(place, place->builder, good_text);
  assert_string_equal(item.reason, "");
  assert_int_equal(item.outcome, FPL_OUTCOME_BUILT);
  assert_false(item.was_cached);
  assert_true(item.cubin_bytes > 4);
  assert_int_equal(memcmp(item.cubin, "\177ELF", 4), 0);
  assert_true(item.registers > 0 && item.registers <= 255);
  assert_int_equal(item.spill_bytes, 0);
  assert_int_equal(item.stack_bytes, 0);
  char sha[FPL_HASH_HEX];
  fpl_hash_bytes_hex(item.cubin, item.cubin_bytes, sha);
  assert_string_equal(item.sha, sha);
  assert_true(fpl_path_exists(file_of(place, &item, FPL_CACHE_SOURCE)));
  assert_true(fpl_path_exists(file_of(place, &item, FPL_CACHE_LOG)));
  fpl_build_item_free(&item);
}

static void answers_the_second_build_from_the_cache(void **state) {
  struct place *place = *state;
  need_nvrtc(place);
  struct fpl_build_item first = compile_one(place, place->builder, good_text);
  struct fpl_build_item second = compile_one(place, place->builder, good_text);
  assert_true(second.was_cached);
  assert_string_equal(first.key, second.key);
  assert_string_equal(first.sha, second.sha);
  assert_int_equal(first.registers, second.registers);
  /* Another text is another entry. */
  struct fpl_build_item other = compile_one(place, place->builder, other_text);
  assert_false(other.was_cached);
  assert_string_not_equal(first.key, other.key);
  fpl_build_item_free(&first);
  fpl_build_item_free(&second);
  fpl_build_item_free(&other);
}

static void rebuilds_a_damaged_entry(void **state) {
  struct place *place = *state;
  need_nvrtc(place);
  struct fpl_build_item first = compile_one(place, place->builder, good_text);
  const char *const names[] = {FPL_CACHE_CUBIN, FPL_CACHE_FACTS};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const char *file = file_of(place, &first, names[i]);
    assert_int_equal(fpl_file_write(file, "damage", 6, &place->err), FPL_OK);
    struct fpl_build_item again = compile_one(place, place->builder, good_text);
    assert_int_equal(again.outcome, FPL_OUTCOME_BUILT);
    assert_false(again.was_cached);
    assert_string_equal(again.sha, first.sha);
    fpl_build_item_free(&again);
    struct fpl_build_item cached = compile_one(place, place->builder, good_text);
    assert_true(cached.was_cached);
    fpl_build_item_free(&cached);
  }
  fpl_build_item_free(&first);
}

static void tells_the_first_error_of_a_text_that_does_not_compile(void **state) {
  struct place *place = *state;
  need_nvrtc(place);
  for (int i = 0; i < 2; i++) { /* the second time from the cache */
    struct fpl_build_item item = compile_one(place, place->builder, bad_text);
    assert_int_equal(item.outcome, FPL_OUTCOME_COMPILE_ERROR);
    assert_non_null(strstr(item.reason, "blk_m: must be 5"));
    assert_null(item.cubin);
    assert_int_equal(item.was_cached, i == 1);
    fpl_build_item_free(&item);
  }
}

static void count_progress(void *context, int n_done, int n_all) {
  int *last = context;
  assert_true(n_done > *last && n_done <= n_all);
  *last = n_done;
}

static void compiles_equal_texts_of_one_call_once(void **state) {
  struct place *place = *state;
  need_nvrtc(place);
  const char *const texts[] = {good_text, bad_text, good_text, other_text, good_text};
  enum { N = sizeof texts / sizeof texts[0] };
  struct fpl_build_item items[N] = {{0}};
  for (int i = 0; i < N; i++) {
    items[i].source = texts[i];
  }
  int last = 0;
  assert_int_equal(
      fpl_builder_compile(place->builder, items, N, count_progress, &last, &place->err), FPL_OK);
  assert_int_equal(last, N);
  for (int i = 0; i < N; i++) {
    const bool is_bad = texts[i] == bad_text;
    assert_false(items[i].was_cached);
    assert_int_equal(items[i].outcome, is_bad ? FPL_OUTCOME_COMPILE_ERROR : FPL_OUTCOME_BUILT);
    assert_int_equal(items[i].cubin == NULL, is_bad);
  }
  assert_string_equal(items[0].sha, items[4].sha);
  assert_ptr_not_equal(items[0].cubin, items[4].cubin);
  assert_string_not_equal(items[0].sha, items[3].sha);
  for (int i = 0; i < N; i++) {
    fpl_build_item_free(&items[i]);
  }
}

/* A program that plays the worker. */
static const char *write_script(struct place *place, const char *text) {
  const char *path = fpl_cache_file(&place->arena, place->dir, "worker.sh");
  assert_int_equal(fpl_file_write(path, text, strlen(text), &place->err), FPL_OK);
  const char *const argv[] = {"/bin/chmod", "+x", path, NULL};
  struct fpl_child child;
  int code = -1;
  assert_int_equal(fpl_child_start(argv, FPL_STDERR_SHARED, &child, &place->err), FPL_OK);
  assert_int_equal(fpl_child_wait(&child, 10 * SECOND_US, &code, &place->err), FPL_OK);
  assert_int_equal(code, 0);
  fpl_child_kill(&child);
  return path;
}

static void kills_a_compiler_at_its_deadline(void **state) {
  struct place *place = *state;
  need_nvrtc(place);
  const char *script = write_script(place, "#!/bin/sh\nsleep 100\n");
  struct fpl_builder *builder = open_builder(place, script, 0.1 * SECOND_US);
  struct fpl_build_item items[3] = {
      {.source = good_text}, {.source = other_text}, {.source = bad_text}};
  const double start_us = fpl_now_us();
  assert_int_equal(fpl_builder_compile(builder, items, 3, NULL, NULL, &place->err), FPL_OK);
  assert_true(fpl_now_us() - start_us < 30 * SECOND_US);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(items[i].outcome, FPL_OUTCOME_COMPILE_TIMEOUT);
    assert_string_equal(items[i].reason, "killed after 0.1 s");
  }
  fpl_builder_close(builder);
  /* A time-out is not remembered. */
  struct fpl_build_item item = compile_one(place, place->builder, good_text);
  assert_int_equal(item.outcome, FPL_OUTCOME_BUILT);
  fpl_build_item_free(&item);
}

static void survives_a_compiler_that_fails_or_answers_garbage(void **state) {
  struct place *place = *state;
  need_nvrtc(place);
  static const struct {
    const char *script;
    const char *reason;
  } cases[] = {
      {"#!/bin/sh\nexit 9\n", "exit code 9"},
      {"#!/bin/sh\nkill -SEGV $$\n", "exit code 139"},
      {"#!/bin/sh\necho 'disk on fire' > \"$2/log.txt\"; exit 5\n", "disk on fire"},
      {"#!/bin/sh\necho garbage > \"$2/facts.txt\"\n", "exit code 0"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct fpl_builder *builder =
        open_builder(place, write_script(place, cases[i].script), 30 * SECOND_US);
    struct fpl_build_item item = compile_one(place, builder, good_text);
    assert_int_equal(item.outcome, FPL_OUTCOME_COMPILE_ERROR);
    assert_non_null(strstr(item.reason, cases[i].reason));
    fpl_build_item_free(&item);
    fpl_builder_close(builder);
  }
  struct fpl_builder *builder = open_builder(place, "/no/such/program", SECOND_US);
  struct fpl_build_item item = {.source = good_text};
  assert_int_equal(fpl_builder_compile(builder, &item, 1, NULL, NULL, &place->err), FPL_IO);
  fpl_builder_close(builder);
}

static void tells_what_leaves_the_registers(void **state) {
  struct place *place = *state;
  need_nvrtc(place);
  struct fpl_compiled compiled;
  assert_int_equal(fpl_compile_check(NULL, local_text, &compiled, &place->err), FPL_OK);
  assert_true(compiled.is_ok);
  assert_int_equal(compiled.stack_bytes, 256);
  assert_non_null(strstr(compiled.log, "bytes stack frame"));
  fpl_compiled_free(&compiled);
  assert_int_equal(fpl_compile_check(NULL, "int x = ;\n", &compiled, &place->err), FPL_OK);
  assert_false(compiled.is_ok);
  assert_null(compiled.cubin);
  fpl_compiled_free(&compiled);
}

static void gives_no_file_of_the_tree_but_the_embedded_ones(void **state) {
  struct place *place = *state;
  need_nvrtc(place);
  struct fpl_compiled compiled;
  assert_int_equal(fpl_compile_check(NULL,
                                     "#include \"tuner/base/status.h\"\n"
                                     "extern \"C\" __global__ void k() {}\n",
                                     &compiled, &place->err),
                   FPL_OK);
  assert_false(compiled.is_ok);
  assert_non_null(strstr(compiled.reason, "cannot open source file"));
  fpl_compiled_free(&compiled);
}

static void names_what_is_missing_without_nvrtc(void **state) {
  struct place *place = *state;
  struct fpl_nvrtc *nvrtc = NULL;
  assert_int_equal(fpl_nvrtc_open(place->dir, &nvrtc, &place->err), FPL_TOOLCHAIN);
  assert_null(nvrtc);
  assert_non_null(strstr(place->err.text, "libnvrtc"));
  assert_non_null(strstr(place->err.text, place->dir));
  assert_non_null(strstr(place->err.text, "install"));
}

static void knows_its_toolkit(void **state) {
  struct place *place = *state;
  need_nvrtc(place);
  struct fpl_nvrtc *nvrtc = NULL;
  int major = 0;
  int minor = -1;
  int patch = -1;
  assert_int_equal(fpl_nvrtc_open(NULL, &nvrtc, &place->err), FPL_OK);
  assert_int_equal(sscanf(fpl_nvrtc_version(nvrtc), "%d.%d", &major, &minor), 2);
  assert_true(major >= 12 && minor >= 0);
  assert_int_equal(sscanf(fpl_nvrtc_cccl_version(nvrtc), "%d.%d.%d", &major, &minor, &patch), 3);
  assert_true(fpl_path_exists(fpl_nvrtc_library(nvrtc)));
  assert_true(
      fpl_path_exists(fpl_cache_file(&place->arena, fpl_nvrtc_include_dir(nvrtc), "cuda_bf16.h")));
  assert_null(strstr(fpl_nvrtc_options(nvrtc), "-I"));
  fpl_nvrtc_close(nvrtc);
  fpl_nvrtc_close(NULL);
}

static void embeds_the_skeletons_byte_by_byte(void **state) {
  struct place *place = *state;
  assert_true(fpl_n_skeleton_files > 0);
  for (size_t i = 0; i < fpl_n_skeleton_files; i++) {
    const struct fpl_embedded_file *file = &fpl_skeleton_files[i];
    char *text = NULL;
    size_t length = 0;
    assert_int_equal(fpl_file_read(&place->arena, file->name, 1 << 24, &text, &length, &place->err),
                     FPL_OK);
    assert_int_equal(length, file->length);
    assert_int_equal(memcmp(text, file->text, length + 1), 0);
    assert_true(i == 0 || strcmp(fpl_skeleton_files[i - 1].name, file->name) < 0);
  }
}

static void builds_the_support_kernels(void **state) {
  struct place *place = *state;
  need_nvrtc(place);
  const char *path = NULL;
  const enum fpl_status status = fpl_builder_support(place->builder, &path, &place->err);
  if (status != FPL_OK) {
    print_message("%s\n", place->err.text);
  }
  assert_int_equal(status, FPL_OK);
  char *bytes = NULL;
  size_t length = 0;
  assert_int_equal(fpl_file_read(&place->arena, path, 1 << 26, &bytes, &length, &place->err),
                   FPL_OK);
  assert_true(length > 4 && memcmp(bytes, "\177ELF", 4) == 0);
}

static void builds_the_pending_results_of_a_problem(void **state) {
  struct place *place = *state;
  need_nvrtc(place);
  struct fpl_problem problem;
  struct fpl_device device;
  struct fpl_yaml *profile = NULL;
  assert_int_equal(fpl_problem_make(FPL_KIND_GEMM_CHAIN, FPL_DTYPE_F16, FPL_ACT_RELU, 128, 256, 128,
                                    128, NULL, &problem, &place->err),
                   FPL_OK);
  assert_int_equal(
      fpl_yaml_read(&place->arena, "profiles/devices/h200.yaml", &profile, &place->err), FPL_OK);
  assert_int_equal(fpl_device_from_yaml(profile, &device, &place->err), FPL_OK);
  enum { N = 4 };
  struct fpl_result *results = calloc(N, sizeof *results);
  assert_non_null(results);
  for (int i = 0; i < N; i++) {
    assert_int_equal(fpl_schedule_parse("loops=mn|lk cls_m=1 cls_n=1 cls_k=1 cls_l=1 blk_m=64 "
                                        "blk_n=64 blk_k=64 blk_l=64 exchange=smem reduce=l2 "
                                        "gate=sequential stages=2",
                                        &results[i].schedule, &place->err),
                     FPL_OK);
  }
  results[0].is_library = true;
  results[2].outcome = FPL_OUTCOME_CONSTRAINT;
  const struct fpl_builder_port port = fpl_builder_port(place->builder);
  int last = 0;
  assert_int_equal(
      port.build(port.self, &problem, &device, results, N, count_progress, &last, &place->err),
      FPL_OK);
  assert_int_equal(last, 2);
  assert_null(results[0].kernel.cubin);
  assert_int_equal(results[2].outcome, FPL_OUTCOME_CONSTRAINT);
  assert_null(results[2].kernel.cubin);
  for (int i = 1; i < N; i += 2) {
    assert_string_equal(results[i].reason, "");
    assert_int_equal(results[i].outcome, FPL_OUTCOME_PENDING);
    assert_non_null(results[i].kernel.cubin);
    assert_true(results[i].kernel.registers > 0);
    assert_int_equal(results[i].kernel.spill_bytes, 0);
    assert_int_equal(strlen(results[i].kernel.sha), FPL_HASH_HEX - 1);
    assert_int_equal(strlen(results[i].kernel.source_key), FPL_HASH_HEX - 1);
  }
  assert_string_equal(results[1].kernel.sha, results[3].kernel.sha);
  for (int i = 0; i < N; i++) {
    fpl_result_free(&results[i]);
  }
  free(results);
}

int main(int argc, char **argv) {
  if (argc >= 3 && strcmp(argv[1], FPL_COMPILE_VERB) == 0) {
    struct fpl_err err;
    return fpl_compile_worker(argv[2], argc > 3 ? argv[3] : NULL, &err) == FPL_OK ? 0 : 5;
  }
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(compiles_a_text_to_an_elf_image_with_its_facts),
      TEST(answers_the_second_build_from_the_cache),
      TEST(rebuilds_a_damaged_entry),
      TEST(tells_the_first_error_of_a_text_that_does_not_compile),
      TEST(compiles_equal_texts_of_one_call_once),
      TEST(kills_a_compiler_at_its_deadline),
      TEST(survives_a_compiler_that_fails_or_answers_garbage),
      TEST(tells_what_leaves_the_registers),
      TEST(gives_no_file_of_the_tree_but_the_embedded_ones),
      TEST(names_what_is_missing_without_nvrtc),
      TEST(knows_its_toolkit),
      TEST(embeds_the_skeletons_byte_by_byte),
      TEST(builds_the_support_kernels),
      TEST(builds_the_pending_results_of_a_problem),
  };
#undef TEST
  cmocka_set_message_output(CM_OUTPUT_TAP);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
