/* Arbitrary bytes as a database file: to a reader every use is an answer or one line, and the file
 * stays; a writer repairs, collects garbage and imports, or says in one line why not. */
#define _POSIX_C_SOURCE 200809L
#include "db/db.h"

#include "tuner/base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char path[64];

static void require(bool is_so) {
  if (!is_so)
    abort();
}

static void remove_files(void) {
  static const char *const endings[] = {"", "-journal", "-wal", "-shm"};
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
    char name[80];
    snprintf(name, sizeof name, "%s%s", path, endings[i]);
    unlink(name);
  }
}

static void write_file(const uint8_t *data, size_t size) {
  FILE *const file = fopen(path, "wb");
  require(file && fwrite(data, 1, size, file) == size && fclose(file) == 0);
}

static void require_same(const uint8_t *data, size_t size) {
  FILE *const file = fopen(path, "rb");
  uint8_t *const bytes = malloc(size + 1);
  require(file && bytes && fread(bytes, 1, size + 1, file) == size);
  require(size == 0 || memcmp(bytes, data, size) == 0);
  free(bytes);
  fclose(file);
}

/* An error comes with one line. */
static enum fpl_status told(enum fpl_status status, struct fpl_err *err) {
  require(status == FPL_OK || (err->text[0] != '\0' && !strchr(err->text, '\n')));
  require(status != FPL_INTERNAL && status != FPL_USAGE);
  *err = (struct fpl_err){0};
  return status;
}

static enum fpl_status append(void *context, const char *bytes, size_t length,
                              struct fpl_err *err) {
  (void)err;
  fpl_text_append_bytes(context, bytes, length);
  return FPL_OK;
}

static enum fpl_status visit_plan(void *context, const struct fpl_plan *plan, struct fpl_err *err) {
  (void)context, (void)err;
  require(strlen(plan->reason) < sizeof plan->reason);
  return FPL_OK;
}

static enum fpl_status visit_candidate(void *context, const struct fpl_db_candidate *candidate,
                                       struct fpl_err *err) {
  (void)context, (void)err;
  require(strlen(candidate->result.reason) < sizeof candidate->result.reason);
  return FPL_OK;
}

static enum fpl_status visit_finding(void *context, const struct fpl_finding *finding,
                                     struct fpl_err *err) {
  (void)err;
  require(finding->what[0] != '\0' && !strchr(finding->what, '\n'));
  ++*(int *)context;
  return FPL_OK;
}

static void look_up(struct fpl_db *db) {
  struct fpl_err err = {0};
  struct fpl_device d = {.capability_major = 9,
                         .sms = 132,
                         .l2_bytes = 60 << 20,
                         .hbm_bytes = INT64_C(141000000000),
                         .sm_clock_mhz = 1980};
  struct fpl_problem p;
  struct fpl_plan plan = {0};
  bool found = false;
  require(fpl_problem_parse("gemm_chain m=128 n=512 k=32 l=256 dtype=f16 act=relu", &p, &err) ==
          FPL_OK);
  told(fpl_db_find_plan(db, &p, &d, true, &plan, &found, &err), &err);
  fpl_plan_free(&plan);
  const struct fpl_wanted wanted = {.problem = &p, .device = &d, .is_deterministic = true};
  told(fpl_db_find(db, &wanted, false, &plan, &found, &err), &err);
  fpl_plan_free(&plan);
}

static void read_all(void) {
  struct fpl_db *db = NULL;
  struct fpl_err err = {0};
  if (told(fpl_db_open(path, FPL_DB_READ, &db, &err), &err) != FPL_OK)
    return;
  struct fpl_text text = {0};
  int n = 0;
  look_up(db);
  told(fpl_db_each_plan(db, visit_plan, NULL, &err), &err);
  told(fpl_db_each_candidate(db, 1, visit_candidate, NULL, &err), &err);
  told(fpl_db_export(db, true, append, &text, &err), &err);
  told(fpl_db_check(db, &err), &err);
  told(fpl_db_check_all(db, false, visit_finding, &n, &err), &err);
  fpl_text_free(&text);
  fpl_db_close(db);
}

static void write_all(void) {
  static const char text[] = "{\"format\":\"fuseplan\",\"schema\":1,\"type\":\"header\"}\n";
  struct fpl_db *db = NULL;
  struct fpl_err err = {0};
  if (told(fpl_db_open(path, FPL_DB_CREATE, &db, &err), &err) != FPL_OK)
    return;
  struct fpl_import_counts imported;
  struct fpl_gc_counts removed;
  int n = 0;
  told(fpl_db_check_all(db, true, visit_finding, &n, &err), &err);
  told(fpl_db_import(db, "fuzz", text, sizeof text - 1, &imported, &err), &err);
  told(fpl_db_gc(db, 1, false, &removed, &err), &err);
  fpl_db_close(db);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (path[0] == '\0') {
    snprintf(path, sizeof path, "/tmp/fuseplan-fuzz-%ld.db", (long)getpid());
    atexit(remove_files);
  }
  remove_files();
  write_file(data, size);
  read_all();
  require_same(data, size);
  write_all();
  return 0;
}
