/* fuseplan list-misses: what lookups asked for in vain, as a workload for `fuseplan tune`. */
#include "tuner/cli/misses.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const struct fpl_command command = {
    .verb = "list-misses",
    .arguments = "",
    .summary = "Prints problems that lookups found no plan for, or a stale one, as a workload.\n"
               "Exit 0: some; 1: none.",
    .example = "fuseplan list-misses --db /tmp/plans.db > /tmp/tonight.yaml"};

enum { LOG_BUSY_MS = 20 };

void fpl_misses_note(struct fpl_ask *ask) {
  const struct fpl_answer *const answer = &ask->answer;
  const bool is_hit = fpl_tier_is_hit(answer->tier);
  const bool is_stale = is_hit && answer->match == FPL_MATCH_DRIVER;
  const char *const path = ask->db_path ? ask->db_path : ask->paths.database;
  struct fpl_db *db = NULL;
  if ((is_hit && !is_stale) || !path[0] ||
      fpl_db_open(path, ask->db_path ? FPL_DB_WRITE : FPL_DB_CREATE, &db, NULL) != FPL_OK)
    return;
  fpl_db_set_busy_ms(db, LOG_BUSY_MS);
  fpl_db_note_miss(db, &ask->problem, ask->device.name,
                   is_stale ? FPL_MISS_STALE : FPL_MISS_NO_PLAN, time(NULL), NULL);
  fpl_db_close(db);
}

struct list {
  int64_t n;
};

static enum fpl_status print_miss(void *context, const struct fpl_miss *miss, struct fpl_err *err) {
  (void)err;
  struct list *const list = context;
  const struct fpl_problem *const p = &miss->problem;
  if (list->n++ == 0)
    printf("# What lookups found no plan for (miss), or one of another driver (stale): most often "
           "asked first.\nschema_version: 1\nproblems:\n");
  char text[FPL_PROBLEM_TEXT];
  fpl_problem_text(p, text);
  printf("  # %s on %s, asked %lld times\n  - {id: miss-%lld, kind: %s, dtype: %s, act: %s, ",
         fpl_miss_names[miss->cause], miss->device_name, (long long)miss->n, (long long)list->n,
         fpl_kind_names[p->kind], fpl_dtype_names[p->dtype], fpl_act_names[p->act]);
  if (p->kind == FPL_KIND_CONV_CHAIN)
    printf("batch: %lld, ic: %lld, h: %lld, w: %lld, oc1: %lld, oc2: %lld, k1: %lld",
           (long long)p->conv.batch, (long long)p->conv.ic, (long long)p->conv.h,
           (long long)p->conv.w, (long long)p->n, (long long)p->l, (long long)p->conv.k1);
  else
    printf("m: %lld, n: %lld, k: %lld, l: %lld", (long long)p->m, (long long)p->n, (long long)p->k,
           (long long)p->l);
  printf(", calls: %lld}\n", (long long)miss->n);
  return FPL_OK;
}

static enum fpl_status list_misses(const char *db_path, const char *device, bool is_cleared,
                                   struct list *list, struct fpl_err *err) {
  struct fpl_arena arena = {0};
  struct fpl_paths paths;
  struct fpl_db *db = NULL;
  enum fpl_status status = fpl_paths_find(&arena, &paths, err);
  if (status == FPL_OK)
    status = fpl_cli_database(&paths, db_path, &db_path, err);
  if (status == FPL_OK)
    status = fpl_cli_open_existing(db_path, &db, err);
  if (status == FPL_OK)
    status = fpl_db_each_miss(db, device, print_miss, list, err);
  fpl_db_close(db);
  db = NULL;
  if (status == FPL_OK && is_cleared)
    status = fpl_db_open(db_path, FPL_DB_WRITE, &db, err);
  if (status == FPL_OK && is_cleared)
    status = fpl_db_clear_misses(db, device, err);
  fpl_db_close(db);
  fpl_arena_free(&arena);
  return status;
}

int fpl_cmd_list_misses(int argc, char **argv) {
  const char *db_path = NULL, *device = "";
  bool is_cleared = false;
  const struct fpl_option options[] = {
      {"--db", FPL_OPTION_TEXT, &db_path, "FILE", "database (default: $FUSEPLAN_DB)", 0, 0, NULL},
      {"--device", FPL_OPTION_TEXT, &device, "NAME", "misses on this device alone", 0, 0, NULL},
      {"--clear", FPL_OPTION_FLAG, &is_cleared, NULL, "forget them once they are printed", 0, 0,
       NULL}};
  int n_arguments = 0, exit_code = 0;
  if (!fpl_cli_begin(&command, options, 3, argc, argv, NULL, &n_arguments, &exit_code))
    return exit_code;
  struct fpl_err err = {0};
  struct list list = {0};
  if (list_misses(db_path, device, is_cleared, &list, &err) != FPL_OK)
    return fpl_cli_fail(&command, &err);
  if (list.n == 0)
    fprintf(stderr, "fuseplan: no misses\n");
  return list.n > 0 ? FPL_EXIT_OK : FPL_EXIT_NEGATIVE;
}
