/* fuseplan show: plans of a database as a ranked table or as a page (page.h); one problem's
 * candidates with --problem. */
#include "db/db.h"
#include "tuner/cli/cli.h"
#include "tuner/cli/page.h"
#include "tuner/cli/stored.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct fpl_command command = {
    .verb = "show",
    .arguments = "",
    .summary =
        "Lists the plans of a database, largest gain over the library first; with --problem every\n"
        "candidate of one problem with its time, prediction and outcome; with --html as a page "
        "for\n"
        "a browser, one file that needs no other.",
    .example = "fuseplan show --db /tmp/plans.db"};

struct row {
  char problem[FPL_PROBLEM_TEXT];
  char key[FPL_KEY_HEX];
  char device[32];
  char winner[FPL_KERNEL_NAME];
  char where[24]; /* exchange/reduce */
  enum fpl_provenance provenance;
  double measured_us, library_us, est_us, ratio;
};
struct table {
  struct row *rows;
  size_t n, capacity;
  json_t *json; /* NULL: rows */
};

static enum fpl_status add_plan(void *context, const struct fpl_plan *plan, struct fpl_err *err) {
  struct table *const t = context;
  if (t->json) {
    json_array_append_new(t->json, fpl_json_plan(plan));
    return FPL_OK;
  }
  if (t->n == t->capacity) {
    t->capacity = t->capacity ? 2 * t->capacity : 64;
    struct row *const grown = realloc(t->rows, t->capacity * sizeof *t->rows);
    if (!grown)
      return fpl_fail(err, FPL_NO_MEMORY, "out of memory");
    t->rows = grown;
  }
  struct row *const r = &t->rows[t->n++];
  *r = (struct row){.provenance = plan->provenance,
                    .measured_us = plan->measured_us,
                    .library_us = plan->library_us,
                    .est_us = plan->est_us,
                    .ratio = plan->measured_us > 0 ? plan->library_us / plan->measured_us : 0};
  fpl_problem_text(&plan->problem, r->problem);
  fpl_problem_key(&plan->problem, r->key);
  snprintf(r->device, sizeof r->device, "%s", plan->device_name);
  snprintf(r->winner, sizeof r->winner, "%s",
           plan->is_library       ? "library"
           : plan->kernel.name[0] ? plan->kernel.name
                                  : "not compiled");
  if (!plan->is_library)
    snprintf(r->where, sizeof r->where, "%s/%s", fpl_exchange_names[plan->schedule.exchange],
             fpl_reduce_names[plan->schedule.reduce]);
  return FPL_OK;
}

static int by_gain(const void *a, const void *b) {
  const struct row *const x = a, *const y = b;
  if (x->ratio != y->ratio)
    return x->ratio < y->ratio ? 1 : -1;
  return strcmp(x->problem, y->problem);
}

static void print_plans(struct table *t) {
  if (t->n == 0) {
    printf("no plans\n");
    return;
  }
  qsort(t->rows, t->n, sizeof *t->rows, by_gain);
  printf("%-9s %8s %8s %6s %8s  %-18s %-19s %s\n", "id", "cold us", "library", "gain", "est us",
         "exchange/reduce", "winner", "problem");
  for (size_t i = 0; i < t->n; i++) {
    const struct row *const r = &t->rows[i];
    if (r->provenance == FPL_PROVENANCE_MEASURED)
      printf("%.8s  %8.2f %8.2f %5.2fx", r->key, r->measured_us, r->library_us, r->ratio);
    else
      printf("%.8s  %8s %8s %6s", r->key, "-", "-", "-");
    if (r->est_us > 0)
      printf(" %8.2f", r->est_us);
    else
      printf(" %8s", "-");
    printf("  %-18s %-19s %s on %s\n", r->where, r->winner, r->problem, r->device);
  }
}

static json_t *candidate_json(const struct fpl_db_candidate *c) {
  json_t *const out = fpl_json_result(&c->result);
  json_object_set_new(out, "id", json_integer(c->id));
  json_object_set_new(out, "run", json_integer(c->run_id));
  json_object_set_new(out, "device", json_string(c->device_name));
  json_object_set_new(out, "is_plan", json_boolean(c->is_plan));
  return out;
}

static enum fpl_status show_candidate(void *context, const struct fpl_db_candidate *c,
                                      struct fpl_err *err) {
  (void)err;
  json_t *const list = context;
  if (list) {
    json_array_append_new(list, candidate_json(c));
    return FPL_OK;
  }
  char text[FPL_SCHEDULE_TEXT] = "library";
  if (!c->result.is_library)
    fpl_schedule_text(&c->result.schedule, text);
  printf("%s %8.2f %8.2f %8.2f  %-14s %s%s%s\n", c->is_plan ? "*" : " ",
         c->result.stats[FPL_COLD].median_us, c->result.stats[FPL_HOT].median_us, c->result.est_us,
         fpl_outcome_names[c->result.outcome], text, c->result.reason[0] ? "  # " : "",
         c->result.reason);
  return FPL_OK;
}

static int show_problem(struct fpl_db *db, const char *id, bool is_json, struct fpl_err *err) {
  struct fpl_problem p;
  int64_t number = 0;
  bool is_found = false;
  enum fpl_status status = fpl_db_find_problem(db, id, &number, &p, &is_found, err);
  if (status != FPL_OK)
    return fpl_cli_fail(&command, err);
  if (!is_found) {
    fprintf(stderr, "fuseplan: no problem '%s': 'fuseplan show' lists the ids\n", id);
    return FPL_EXIT_NEGATIVE;
  }
  char text[FPL_PROBLEM_TEXT];
  fpl_problem_text(&p, text);
  json_t *const list = is_json ? json_array() : NULL;
  if (!is_json)
    printf("%s\n  %8s %8s %8s  %-14s schedule\n", text, "cold us", "hot us", "est us", "outcome");
  status = fpl_db_each_candidate(db, number, show_candidate, list, err);
  if (is_json) {
    json_t *const out = json_pack("{s:s, s:o}", "problem", text, "candidates", list);
    fpl_cli_print_json(out);
  }
  return status == FPL_OK ? FPL_EXIT_OK : fpl_cli_fail(&command, err);
}

static int show_plans(struct fpl_db *db, int64_t as_of_unix, bool is_json, struct fpl_err *err) {
  struct table t = {.json = is_json ? json_array() : NULL};
  const enum fpl_status status = fpl_db_each_plan_as_of(db, as_of_unix, add_plan, &t, err);
  if (status == FPL_OK && is_json)
    fpl_cli_print_json(json_pack("{s:O}", "plans", t.json));
  else if (status == FPL_OK)
    print_plans(&t);
  json_decref(t.json);
  free(t.rows);
  return status == FPL_OK ? FPL_EXIT_OK : fpl_cli_fail(&command, err);
}

static int show_page(struct fpl_db *db, const struct fpl_paths *paths, int64_t as_of_unix,
                     const char *file, bool is_json, struct fpl_err *err) {
  struct fpl_arena arena = {0};
  struct fpl_page page = {0};
  struct fpl_text text = {0};
  enum fpl_status status = fpl_page_init(&page, &arena, paths, err);
  if (status == FPL_IO) {
    fprintf(stderr, "fuseplan: %s: the page is without floors\n", err->text);
    status = FPL_OK;
  }
  if (status == FPL_OK)
    status = as_of_unix == INT64_MAX
                 ? fpl_db_each_plan(db, fpl_page_add, &page, err)
                 : fpl_db_each_plan_as_of(db, as_of_unix, fpl_page_add, &page, err);
  if (status == FPL_OK)
    status = fpl_page_write(&page, &text, err);
  if (status == FPL_OK)
    status = fpl_cli_write(file, &text, err);
  if (status == FPL_OK && is_json)
    fpl_cli_print_json(json_pack("{s:s, s:I, s:I}", "file", file, "plans", (json_int_t)page.n,
                                 "bytes", (json_int_t)text.length));
  fpl_text_free(&text);
  fpl_page_free(&page);
  fpl_arena_free(&arena);
  return status == FPL_OK ? FPL_EXIT_OK : fpl_cli_fail(&command, err);
}

/* A page is of plans, and alone on stdout. */
static enum fpl_status check_page(const char *html, const char *problem, bool is_json,
                                  struct fpl_err *err) {
  if (html && problem)
    return fpl_fail(err, FPL_USAGE, "--html is a page of plans: leave --problem out");
  if (html && is_json && strcmp(html, "-") == 0)
    return fpl_fail(err, FPL_USAGE, "--html - and --json both go to stdout: name a file");
  return FPL_OK;
}

int fpl_cmd_show(int argc, char **argv) {
  const char *db_path = NULL, *problem = NULL, *as_of = NULL, *html = NULL;
  bool is_json = false;
  const struct fpl_option options[] = {
      {"--db", FPL_OPTION_TEXT, &db_path, "FILE", "database (default: $FUSEPLAN_DB)", 0, 0, NULL},
      {"--problem", FPL_OPTION_TEXT, &problem, "ID", "candidates of this problem (id of the table)",
       0, 0, NULL},
      {"--as-of", FPL_OPTION_TEXT, &as_of, "DATE", FPL_AS_OF_MEANING, 0, 0, NULL},
      {"--html", FPL_OPTION_TEXT, &html, "FILE", "a page for a browser (- for stdout)", 0, 0, NULL},
      {"--json", FPL_OPTION_FLAG, &is_json, NULL, "one JSON object; with --html FILE: about it", 0,
       0, NULL}};
  int n_arguments = 0, exit_code = 0;
  if (!fpl_cli_begin(&command, options, sizeof options / sizeof *options, argc, argv, NULL,
                     &n_arguments, &exit_code))
    return exit_code;
  struct fpl_arena arena = {0};
  struct fpl_err err = {0};
  struct fpl_paths paths;
  struct fpl_db *db = NULL;
  int64_t as_of_unix = INT64_MAX;
  enum fpl_status status = fpl_as_of_read(as_of, &as_of_unix, &err);
  if (status == FPL_OK && problem && as_of)
    status = fpl_fail(&err, FPL_USAGE, "--as-of: candidates have no date: see `fuseplan history`");
  if (status == FPL_OK)
    status = check_page(html, problem, is_json, &err);
  if (status == FPL_OK)
    status = fpl_paths_find(&arena, &paths, &err);
  if (status == FPL_OK)
    status = fpl_cli_database(&paths, db_path, &db_path, &err);
  if (status == FPL_OK)
    status = fpl_cli_open_existing(db_path, &db, &err);
  if (status != FPL_OK)
    exit_code = fpl_cli_fail(&command, &err);
  else
    exit_code = html      ? show_page(db, &paths, as_of_unix, html, is_json, &err)
                : problem ? show_problem(db, problem, is_json, &err)
                          : show_plans(db, as_of_unix, is_json, &err);
  fpl_db_close(db);
  fpl_arena_free(&arena);
  return exit_code;
}
