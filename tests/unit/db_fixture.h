/* A device, problems, results and plans for the database tests, and files in a scratch folder. */
#ifndef FPL_TESTS_DB_FIXTURE_H
#define FPL_TESTS_DB_FIXTURE_H

#include "db/handle.h"

#include "tuner/base/str.h"
#include "tuner/base/sys.h"
#include "tuner/core/legal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void must(enum fpl_status status, const struct fpl_err *err) {
  if (status != FPL_OK)
    fail_msg("status %d: %s", (int)status, err->text);
}

static inline struct fpl_device fixture_device(const char *name) {
  struct fpl_device d = {.capability_major = 9,
                         .sms = 132,
                         .l2_bytes = 60 << 20,
                         .hbm_bytes = INT64_C(141000000000),
                         .sm_clock_mhz = 1980.5,
                         .smem_bytes_per_block = 232448,
                         .smem_bytes_per_sm = 233472,
                         .registers_per_sm = 65536,
                         .threads_per_sm = 2048,
                         .max_cluster = 16};
  snprintf(d.name, sizeof d.name, "%s", name);
  snprintf(d.title, sizeof d.title, "NVIDIA %s", name);
  return d;
}

static inline struct fpl_problem fixture_problem(int64_t m) {
  struct fpl_problem p;
  struct fpl_err err = {0};
  must(fpl_problem_make(FPL_KIND_GEMM_CHAIN, FPL_DTYPE_F16, FPL_ACT_RELU, m, 3072, 768, 768, NULL,
                        &p, &err),
       &err);
  return p;
}

static inline struct fpl_schedule fixture_schedule(int stages) {
  struct fpl_schedule s;
  struct fpl_err err = {0};
  char text[FPL_SCHEDULE_TEXT];
  snprintf(text, sizeof text,
           "loops=mn|lk cls_m=1 cls_n=2 cls_k=1 cls_l=2 blk_m=64 blk_n=128 blk_k=64 blk_l=128 "
           "exchange=dsm reduce=l2 gate=sequential stages=%d",
           stages);
  must(fpl_schedule_parse(text, &s, &err), &err);
  return s;
}

static inline struct fpl_environment fixture_environment(void) {
  struct fpl_environment e = {0};
  fpl_environment_set(&e, "driver", "580.65.06");
  fpl_environment_set(&e, "nvrtc", "13.0");
  fpl_environment_set(&e, "device_name", "NVIDIA H200");
  return e;
}

static inline void fixture_samples(struct fpl_result *r, int state, double first_us) {
  enum { N = 3 };
  r->samples[state].us = malloc(N * sizeof(double));
  assert_non_null(r->samples[state].us);
  r->samples[state].n = N;
  for (int i = 0; i < N; i++)
    r->samples[state].us[i] = first_us + 0.1 * i;
  r->stats[state] = (struct fpl_stats){.n = N,
                                       .median_us = first_us + 0.1,
                                       .p05_us = first_us,
                                       .p95_us = first_us + 0.2,
                                       .least_us = first_us,
                                       .low_us = first_us,
                                       .high_us = first_us + 0.2};
}

static inline void fixture_kernel(struct fpl_kernel *k, int stages) {
  snprintf(k->name, sizeof k->name, "chain_sm90_%08x", (unsigned)stages);
  snprintf(k->family, sizeof k->family, "chain_sm90");
  memset(k->source_key, 'a', FPL_HASH_HEX - 1);
  k->cubin_bytes = 1000 + (size_t)stages;
  k->cubin = malloc(k->cubin_bytes);
  assert_non_null(k->cubin);
  memset(k->cubin, stages, k->cubin_bytes);
  fpl_hash_bytes_hex(k->cubin, k->cubin_bytes, k->sha);
  k->maps[0] = (struct fpl_map_recipe){-1, 768, 64, 64, 1, 1, 1};
  k->maps[1] = (struct fpl_map_recipe){3072, 768, 128, 64, 1, 2, 0};
  k->maps[2] = (struct fpl_map_recipe){768, 3072, 128, 64, 2, 1, 0};
  k->cluster = 2;
  k->block_threads = 384;
  k->smem_bytes = 200000;
  k->rows_per_unit = 64;
  k->units_per_row = 12;
  k->max_clusters = 66;
  k->workspace_bytes_per_row_group = 4096;
  k->registers = 168;
}

/* The library, one measured candidate with a kernel, one that the compiler refused, one pending. */
enum { FIXTURE_RESULTS = 4 };
static inline void fixture_results(struct fpl_result out[FIXTURE_RESULTS], double us) {
  memset(out, 0, FIXTURE_RESULTS * sizeof *out);
  out[0].is_library = true;
  out[0].outcome = FPL_OUTCOME_OK;
  out[0].method = FPL_METHOD_CUPTI;
  snprintf(out[0].reason, sizeof out[0].reason, "algorithm 13");
  fixture_samples(&out[0], FPL_COLD, 2 * us);
  out[1].schedule = fixture_schedule(4);
  out[1].est_us = us * 0.9;
  out[1].est_plain_us = us * 0.5;
  out[1].outcome = FPL_OUTCOME_OK;
  out[1].method = FPL_METHOD_CUPTI;
  out[1].verification = (struct fpl_verification){true, 3e-4, true};
  fixture_samples(&out[1], FPL_COLD, us);
  fixture_samples(&out[1], FPL_HOT, us / 2);
  fixture_kernel(&out[1].kernel, 4);
  out[2].schedule = fixture_schedule(5);
  out[2].outcome = FPL_OUTCOME_COMPILE_ERROR;
  out[2].verification.relative_error = NAN;
  snprintf(out[2].reason, sizeof out[2].reason, "spills 16 bytes");
  out[3].schedule = fixture_schedule(6);
  out[3].est_us = 3 * us;
}

static inline void fixture_results_free(struct fpl_result results[FIXTURE_RESULTS]) {
  for (int i = 0; i < FIXTURE_RESULTS; i++)
    fpl_result_free(&results[i]);
}

static inline struct fpl_plan fixture_plan(const struct fpl_problem *p, double us) {
  struct fpl_plan plan = {.problem = *p,
                          .schedule = fixture_schedule(4),
                          .provenance = FPL_PROVENANCE_MEASURED,
                          .est_us = us * 0.9,
                          .measured_us = us + 0.1,
                          .measured_hot_us = us / 2,
                          .library_us = 2 * us,
                          .n_candidates = FIXTURE_RESULTS,
                          .n_ok = 2,
                          .created_unix = 1000};
  snprintf(plan.reason, sizeof plan.reason, "fastest of 2 verified candidates");
  return plan;
}

/* Stores the fixture's results and `plan` in a run of their own. */
static inline void fixture_store(struct fpl_db *db, const struct fpl_problem *p,
                                 const struct fpl_device *d, double us,
                                 const struct fpl_plan *plan) {
  struct fpl_err err = {0};
  struct fpl_result results[FIXTURE_RESULTS];
  fixture_results(results, us);
  const struct fpl_environment e = fixture_environment();
  int64_t run = 0;
  must(fpl_db_begin_run(db, 7, "1.0", "tune x.yaml", &run, &err), &err);
  must(fpl_db_store_problem(db, run, p, d, results, FIXTURE_RESULTS, &e, plan, &err), &err);
  must(fpl_db_end_run(db, run, FPL_RUN_DONE, &err), &err);
  fixture_results_free(results);
}

/* A scratch folder and the path of a database in it. */
struct scratch {
  struct fpl_arena arena;
  char *folder;
  char path[256];
};

static inline int scratch_make(void **state) {
  struct scratch *const s = calloc(1, sizeof *s);
  struct fpl_err err = {0};
  if (!s || fpl_dir_temporary(&s->arena, "/tmp", "fpl-db", &s->folder, &err) != FPL_OK)
    return -1;
  snprintf(s->path, sizeof s->path, "%s/plans.db", s->folder);
  *state = s;
  return 0;
}

static inline int scratch_remove(void **state) {
  struct scratch *const s = *state;
  struct fpl_err err = {0};
  const enum fpl_status status = fpl_dir_remove(s->folder, &err);
  fpl_arena_free(&s->arena);
  free(s);
  return status == FPL_OK ? 0 : -1;
}

static inline struct fpl_db *open_or_fail(const char *path, enum fpl_db_mode mode) {
  struct fpl_db *db = NULL;
  struct fpl_err err = {0};
  must(fpl_db_open(path, mode, &db, &err), &err);
  assert_non_null(db);
  return db;
}

static inline enum fpl_status append_export(void *context, const char *bytes, size_t length,
                                            struct fpl_err *err) {
  (void)err;
  fpl_text_append_bytes(context, bytes, length);
  return FPL_OK;
}

/* The caller frees the text. */
static inline struct fpl_text export_or_fail(struct fpl_db *db, bool with_cubins) {
  struct fpl_text text = {0};
  struct fpl_err err = {0};
  must(fpl_db_export(db, with_cubins, append_export, &text, &err), &err);
  assert_false(text.is_broken);
  return text;
}

/* Field by field: the struct has padding. */
static inline void assert_same_maps(const struct fpl_kernel *a, const struct fpl_kernel *b) {
  for (int i = 0; i < FPL_KERNEL_MAPS; i++) {
    const struct fpl_map_recipe *const x = &a->maps[i], *const y = &b->maps[i];
    assert_int_equal(x->rows, y->rows);
    assert_int_equal(x->cols, y->cols);
    assert_int_equal(x->box_rows, y->box_rows);
    assert_int_equal(x->box_cols, y->box_cols);
    assert_int_equal(x->slabs, y->slabs);
    assert_int_equal(x->parts, y->parts);
    assert_int_equal(x->is_image, y->is_image);
  }
}

#endif
