/* Is a database what a fuseplan wrote? The quick check asks SQLite alone; the thorough one also
 * compares hashes and keys with what they name, parses every text and judges every plan. Findings
 * are gathered first, then repaired, then told, so that only what was committed is told. */
#include "db/handle.h"

#include "tuner/base/str.h"
#include "tuner/base/sys.h"
#include "tuner/core/legal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const fpl_finding_names[] = {"damage",  "dangling", "cubin", "unreadable",
                                         "illegal", "orphan",   NULL};

/* A tune that has run for longer than this without storing anything is not at work any more. */
enum { RUN_SECONDS_MOST = 7 * 24 * 3600 };

enum fpl_status fpl_db_check(struct fpl_db *db, struct fpl_err *err) {
  if (!db)
    return FPL_OK;
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_QUICK_CHECK);
  bool has_row = false;
  enum fpl_status status = fpl_bind_step(&b, &has_row, err);
  if (status == FPL_OK && has_row) {
    const char *const finding = (const char *)sqlite3_column_text(b.statement, 0);
    if (!finding || strcmp(finding, "ok") != 0)
      status = fpl_db_fail_row(db, finding ? finding : "no answer", err);
    fpl_bind_reset(&b);
  }
  if (status != FPL_OK)
    return status;
  b = fpl_bind_start(db, FPL_QUERY_FOREIGN_KEY_CHECK);
  int64_t n_dangling = 0;
  status = fpl_bind_answer(&b, 0, &n_dangling, err);
  if (status == FPL_OK && n_dangling > 0)
    status = fpl_db_fail_row(db, "rows name rows that do not exist", err);
  return status;
}

static enum fpl_status add(struct fpl_db *db, struct fpl_findings *all, enum fpl_finding_kind kind,
                           const char *table, int64_t row, struct fpl_err *err, const char *format,
                           ...) __attribute__((format(printf, 7, 8)));

static enum fpl_status add(struct fpl_db *db, struct fpl_findings *all, enum fpl_finding_kind kind,
                           const char *table, int64_t row, struct fpl_err *err, const char *format,
                           ...) {
  if (all->n == all->room) {
    const size_t room = all->room ? 2 * all->room : 64;
    struct fpl_finding *const list = realloc(all->list, room * sizeof *list);
    if (!list)
      return fpl_fail(err, FPL_NO_MEMORY, "%s: out of memory", db->path);
    all->list = list;
    all->room = room;
  }
  struct fpl_finding *const f = &all->list[all->n++];
  *f = (struct fpl_finding){.kind = kind, .row = row};
  snprintf(f->table, sizeof f->table, "%s", table);
  va_list args;
  va_start(args, format);
  vsnprintf(f->what, sizeof f->what, format, args);
  va_end(args);
  fpl_clean_text(f->what);
  for (char *s = f->what; *s; s++)
    if ((unsigned char)*s < ' ')
      *s = ' ';
  return FPL_OK;
}

static enum fpl_status check_integrity(struct fpl_db *db, struct fpl_findings *all,
                                       struct fpl_err *err) {
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_INTEGRITY_CHECK);
  bool has_row = false;
  enum fpl_status status = FPL_OK;
  while (status == FPL_OK && (status = fpl_bind_step(&b, &has_row, err)) == FPL_OK && has_row) {
    struct fpl_read r = {.statement = b.statement};
    const char *const text = fpl_read_text(&r);
    if (strcmp(text, "ok") != 0)
      status = add(db, all, FPL_FINDING_DAMAGE, "file", 0, err, "%s", text);
  }
  fpl_bind_reset(&b);
  return status;
}

/* Hash of all tables, indices and views. */
static enum fpl_status hash_schema(struct fpl_db *db, char out[FPL_KEY_HEX], struct fpl_err *err) {
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_EACH_OBJECT);
  struct fpl_text text = {0};
  bool has_row = false;
  enum fpl_status status = FPL_OK;
  while ((status = fpl_bind_step(&b, &has_row, err)) == FPL_OK && has_row) {
    struct fpl_read r = {.statement = b.statement};
    fpl_text_append(&text, "%s: ", fpl_read_text(&r));
    fpl_text_append(&text, "%s\n", fpl_read_text(&r));
  }
  if (status == FPL_OK && text.is_broken)
    status = fpl_fail(err, FPL_NO_MEMORY, "%s: out of memory", db->path);
  fpl_hash_key(text.text && status == FPL_OK ? text.text : "", out);
  fpl_text_free(&text);
  return status;
}

/* Every database of the newest schema went through the same migrations, so the texts are equal. */
static enum fpl_status check_schema(struct fpl_db *db, struct fpl_findings *all,
                                    struct fpl_err *err) {
  struct fpl_db *fresh = NULL;
  char wanted[FPL_KEY_HEX] = "", found[FPL_KEY_HEX] = "";
  enum fpl_status status = fpl_db_open(":memory:", FPL_DB_CREATE, &fresh, err);
  if (status == FPL_OK)
    status = hash_schema(fresh, wanted, err);
  if (status == FPL_OK)
    status = hash_schema(db, found, err);
  fpl_db_close(fresh);
  if (status == FPL_OK && strcmp(found, wanted) != 0)
    status = add(db, all, FPL_FINDING_UNREADABLE, "file", 0, err,
                 "its tables, indices or views are not those of schema %d", fpl_db_newest_schema);
  return status;
}

static enum fpl_status check_dangling(struct fpl_db *db, struct fpl_findings *all,
                                      struct fpl_err *err) {
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_EACH_DANGLING);
  bool has_row = false;
  enum fpl_status status = FPL_OK;
  while (status == FPL_OK && (status = fpl_bind_step(&b, &has_row, err)) == FPL_OK && has_row) {
    struct fpl_read r = {.statement = b.statement};
    const char *const table = fpl_read_text(&r);
    const int64_t row = fpl_read_i64(&r);
    status = add(db, all, FPL_FINDING_DANGLING, table, row, err,
                 "names a row of %s that does not exist", fpl_read_text(&r));
  }
  fpl_bind_reset(&b);
  return status;
}

static enum fpl_status check_cubins(struct fpl_db *db, struct fpl_findings *all,
                                    struct fpl_err *err) {
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_EACH_CUBIN);
  bool has_row = false;
  enum fpl_status status = FPL_OK;
  while (status == FPL_OK && (status = fpl_bind_step(&b, &has_row, err)) == FPL_OK && has_row) {
    struct fpl_read r = {.statement = b.statement};
    const int64_t row = fpl_read_i64(&r);
    const char *const sha = fpl_read_text(&r);
    const void *const bytes = sqlite3_column_blob(b.statement, 2);
    const size_t length = (size_t)sqlite3_column_bytes(b.statement, 2);
    char hash[FPL_HASH_HEX];
    fpl_hash_bytes_hex(bytes ? bytes : "", length, hash);
    if (strcmp(hash, sha) != 0)
      status = add(db, all, FPL_FINDING_CUBIN, "kernels", row, err,
                   "sha %.12s... is not that of its cubin of %zu bytes, which is %.12s...", sha,
                   length, hash);
  }
  fpl_bind_reset(&b);
  return status;
}

/* What is wrong with a row of EACH_PROBLEM_ROW, or NULL. */
static const char *problem_fault(struct fpl_read *r) {
  const char *const key = fpl_read_text(r), *const text = fpl_read_text(r);
  struct fpl_problem p;
  char again[FPL_PROBLEM_TEXT], hash[FPL_KEY_HEX];
  if (fpl_problem_parse(text, &p, NULL) != FPL_OK)
    return "its text cannot be read";
  fpl_problem_text(&p, again);
  fpl_problem_key(&p, hash);
  if (strcmp(text, again) != 0)
    return "its text is not in its one form";
  if (strcmp(key, hash) != 0)
    return "its key is not that of its text";
  const int names[] = {fpl_read_name(r, fpl_kind_names), fpl_read_name(r, fpl_dtype_names),
                       fpl_read_name(r, fpl_act_names)};
  const int64_t extents[] = {p.m, p.n, p.k, p.l};
  bool is_equal =
      !r->is_bad && names[0] == (int)p.kind && names[1] == (int)p.dtype && names[2] == (int)p.act;
  for (size_t i = 0; i < sizeof extents / sizeof *extents; i++)
    is_equal = fpl_read_i64(r) == extents[i] && is_equal;
  return is_equal ? NULL : "its columns do not say what its text says";
}

static const char *device_class_fault(struct fpl_read *r) {
  const char *const key = fpl_read_text(r);
  char hash[FPL_KEY_HEX];
  fpl_hash_key(fpl_read_text(r), hash);
  return strcmp(key, hash) == 0 ? NULL : "its key is not that of its class";
}

static const char *candidate_fault(struct fpl_read *r) {
  char keys[4][FPL_KEY_HEX];
  for (int i = 0; i < 4; i++)
    fpl_read_copy(r, keys[i], sizeof keys[i]);
  const int64_t attempt = fpl_read_i64(r);
  const bool is_library = fpl_read_i64(r) != 0;
  const char *const text = fpl_read_text(r);
  struct fpl_schedule s;
  char again[FPL_SCHEDULE_TEXT] = "", hash[FPL_KEY_HEX];
  if (!is_library && fpl_schedule_parse(text, &s, NULL) != FPL_OK)
    return "its schedule cannot be read";
  if (!is_library)
    fpl_schedule_text(&s, again);
  if (strcmp(text, again) != 0)
    return "its schedule is not in its one form";
  fpl_candidate_key(keys[1], keys[2], keys[3], attempt, again, hash);
  if (strcmp(keys[0], hash) != 0)
    return "its key is not that of its run, problem, device class, attempt and schedule";
  for (int i = 0; !is_library && i < FPL_N_FIELDS; i++) {
    const char *const *const names = fpl_schedule_fields[i].names;
    if ((names ? fpl_read_name(r, names) : fpl_read_i64(r)) != fpl_schedule_get(&s, i))
      return "its columns do not say what its schedule says";
  }
  return NULL;
}

typedef const char *row_fault(struct fpl_read *r);
static enum fpl_status check_rows(struct fpl_db *db, struct fpl_findings *all, enum fpl_query query,
                                  const char *table, row_fault *fault, struct fpl_err *err) {
  struct fpl_bind b = fpl_bind_start(db, query);
  bool has_row = false;
  enum fpl_status status = FPL_OK;
  while (status == FPL_OK && (status = fpl_bind_step(&b, &has_row, err)) == FPL_OK && has_row) {
    struct fpl_read r = {.statement = b.statement};
    const int64_t row = fpl_read_i64(&r);
    const char *const what = fault(&r);
    if (what)
      status = add(db, all, FPL_FINDING_UNREADABLE, table, row, err, "%s", what);
  }
  fpl_bind_reset(&b);
  return status;
}

static enum fpl_status check_environments(struct fpl_db *db, struct fpl_findings *all,
                                          struct fpl_err *err) {
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_EACH_ENVIRONMENT_ROW);
  bool has_row = false;
  enum fpl_status status = FPL_OK;
  while (status == FPL_OK && (status = fpl_bind_step(&b, &has_row, err)) == FPL_OK && has_row) {
    struct fpl_read r = {.statement = b.statement};
    const int64_t row = fpl_read_i64(&r);
    struct fpl_environment e = {0};
    char hash[FPL_KEY_HEX];
    status = fpl_db_read_environment(db, row, &e, err);
    fpl_environment_key(&e, hash);
    if (status == FPL_OK && strcmp(fpl_read_text(&r), hash) != 0)
      status = add(db, all, FPL_FINDING_UNREADABLE, "environments", row, err,
                   "its key is not that of its fields");
  }
  fpl_bind_reset(&b);
  return status;
}

/* A row of CANDIDATE_FOR_LEGALITY; false: it cannot be read. */
static bool read_for_legality(struct fpl_read *r, struct fpl_problem *p, struct fpl_schedule *s,
                              struct fpl_device *d, bool *out_is_library) {
  *out_is_library = fpl_read_i64(r) != 0;
  const char *const schedule = fpl_read_text(r);
  if ((!*out_is_library && fpl_schedule_parse(schedule, s, NULL) != FPL_OK) ||
      fpl_problem_parse(fpl_read_text(r), p, NULL) != FPL_OK)
    return false;
  int64_t *const limits[] = {&d->smem_bytes_per_block, &d->smem_bytes_per_sm, &d->registers_per_sm,
                             &d->threads_per_sm,       &d->max_cluster,       &d->sms};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
    *limits[i] = fpl_read_i64(r);
  return true;
}

enum fpl_status fpl_db_judge(struct fpl_db *db, int64_t candidate_id, char out_flag[FPL_FLAG_TEXT],
                             struct fpl_err *err) {
  *out_flag = '\0';
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_CANDIDATE_FOR_LEGALITY);
  fpl_bind_i64(&b, candidate_id);
  bool has_row = false, is_library = false;
  const enum fpl_status status = fpl_bind_step(&b, &has_row, err);
  if (status != FPL_OK || !has_row)
    return status;
  struct fpl_read r = {.statement = b.statement};
  struct fpl_schedule s = {0};
  struct fpl_problem p = {0};
  struct fpl_device d = {0};
  struct fpl_tiling tiling;
  struct fpl_footprint footprint;
  struct fpl_verdict verdict;
  if (!read_for_legality(&r, &p, &s, &d, &is_library))
    snprintf(out_flag, FPL_FLAG_TEXT, "unreadable: its problem or schedule cannot be read");
  else if (!is_library && !fpl_legal(&p, &s, &d, &tiling, &footprint, &verdict))
    snprintf(out_flag, FPL_FLAG_TEXT, "%s: %s", fpl_rule_names[verdict.rule], verdict.why);
  fpl_bind_reset(&b);
  return FPL_OK;
}

static enum fpl_status check_plans(struct fpl_db *db, struct fpl_findings *all,
                                   struct fpl_err *err) {
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_EACH_PLAN_ROW);
  bool has_row = false;
  enum fpl_status status = FPL_OK;
  while (status == FPL_OK && (status = fpl_bind_step(&b, &has_row, err)) == FPL_OK && has_row) {
    struct fpl_read r = {.statement = b.statement};
    const int64_t row = fpl_read_i64(&r), candidate_id = fpl_read_i64(&r);
    const bool is_flagged = fpl_read_i64(&r) != 0, agrees = fpl_read_i64(&r) != 0;
    char flag[FPL_FLAG_TEXT] = "";
    if (!agrees)
      status = add(db, all, FPL_FINDING_DANGLING, "plans", row, err,
                   "names another problem, device class or kernel than its candidate");
    if (status == FPL_OK && !is_flagged)
      status = fpl_db_judge(db, candidate_id, flag, err);
    if (status == FPL_OK && *flag)
      status = add(db, all, FPL_FINDING_ILLEGAL, "plans", row, err, "%s", flag);
  }
  fpl_bind_reset(&b);
  return status;
}

static const struct {
  const char *name;
  enum fpl_query remove;
} orphan_tables[] = {{"kernels", FPL_QUERY_DELETE_KERNEL},
                     {"problems", FPL_QUERY_DELETE_PROBLEM},
                     {"environments", FPL_QUERY_DELETE_ENVIRONMENT},
                     {"device_classes", FPL_QUERY_DELETE_DEVICE_CLASS},
                     {"runs", FPL_QUERY_DELETE_RUN}};
enum { N_ORPHAN_TABLES = sizeof orphan_tables / sizeof *orphan_tables };

enum fpl_status fpl_db_find_orphans(struct fpl_db *db, struct fpl_findings *out,
                                    struct fpl_err *err) {
  struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_EACH_ORPHAN);
  fpl_bind_i64(&b, fpl_unix_seconds() - RUN_SECONDS_MOST);
  bool has_row = false;
  enum fpl_status status = FPL_OK;
  while (status == FPL_OK && (status = fpl_bind_step(&b, &has_row, err)) == FPL_OK && has_row) {
    struct fpl_read r = {.statement = b.statement};
    const int64_t table = fpl_read_i64(&r), row = fpl_read_i64(&r);
    status = add(db, out, FPL_FINDING_ORPHAN, orphan_tables[table].name, row, err,
                 "'%.160s' is named by nothing", fpl_read_text(&r));
  }
  fpl_bind_reset(&b);
  return status;
}

static enum fpl_status run_for_row(struct fpl_db *db, enum fpl_query query, int64_t row,
                                   struct fpl_err *err) {
  struct fpl_bind b = fpl_bind_start(db, query);
  fpl_bind_i64(&b, row);
  return fpl_bind_run(&b, NULL, err);
}

enum fpl_status fpl_db_remove_orphans(struct fpl_db *db, struct fpl_findings *findings,
                                      struct fpl_err *err) {
  enum fpl_status status = FPL_OK;
  for (size_t i = 0; status == FPL_OK && i < findings->n; i++) {
    struct fpl_finding *const f = &findings->list[i];
    for (int t = 0; f->kind == FPL_FINDING_ORPHAN && t < N_ORPHAN_TABLES; t++) {
      if (status == FPL_OK && strcmp(f->table, orphan_tables[t].name) == 0) {
        status = run_for_row(db, orphan_tables[t].remove, f->row, err);
        f->is_repaired = status == FPL_OK;
      }
    }
  }
  return status;
}

static enum fpl_status repair_rows(struct fpl_db *db, struct fpl_findings *all,
                                   struct fpl_err *err) {
  enum fpl_status status = FPL_OK;
  for (size_t i = 0; status == FPL_OK && i < all->n; i++) {
    struct fpl_finding *const f = &all->list[i];
    if (f->kind == FPL_FINDING_CUBIN) {
      status = run_for_row(db, FPL_QUERY_DROP_CUBIN, f->row, err);
      f->is_repaired = true;
    } else if (f->kind == FPL_FINDING_ILLEGAL) {
      struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_FLAG_PLAN);
      fpl_bind_i64(&b, f->row);
      fpl_bind_text(&b, f->what);
      status = fpl_bind_run(&b, NULL, err);
      f->is_repaired = true;
    }
  }
  return status == FPL_OK ? fpl_db_remove_orphans(db, all, err) : status;
}

static enum fpl_status find_all(struct fpl_db *db, struct fpl_findings *all, struct fpl_err *err) {
  enum fpl_status status = check_integrity(db, all, err);
  if (status != FPL_OK || all->n > 0) /* what stands in a damaged file means nothing */
    return status;
  status = check_schema(db, all, err);
  if (status == FPL_OK)
    status = check_dangling(db, all, err);
  if (status == FPL_OK)
    status = check_cubins(db, all, err);
  if (status == FPL_OK)
    status = check_rows(db, all, FPL_QUERY_EACH_PROBLEM_ROW, "problems", problem_fault, err);
  if (status == FPL_OK)
    status = check_rows(db, all, FPL_QUERY_EACH_DEVICE_CLASS_ROW, "device_classes",
                        device_class_fault, err);
  if (status == FPL_OK)
    status = check_environments(db, all, err);
  if (status == FPL_OK)
    status = check_rows(db, all, FPL_QUERY_EACH_CANDIDATE_ROW, "candidates", candidate_fault, err);
  if (status == FPL_OK)
    status = check_plans(db, all, err);
  return status == FPL_OK ? fpl_db_find_orphans(db, all, err) : status;
}

static enum fpl_status repair_body(struct fpl_db *db, void *context, struct fpl_err *err) {
  struct fpl_findings *const all = context;
  all->n = 0; /* it may be the second try */
  const enum fpl_status status = find_all(db, all, err);
  if (status != FPL_OK || (all->n > 0 && all->list[0].kind == FPL_FINDING_DAMAGE))
    return status;
  return repair_rows(db, all, err);
}

/* In one snapshot. */
static enum fpl_status find_only(struct fpl_db *db, struct fpl_findings *all, struct fpl_err *err) {
  enum fpl_status status = fpl_db_run(db, FPL_QUERY_BEGIN_READ, err);
  if (status != FPL_OK)
    return status;
  status = find_all(db, all, err);
  fpl_db_run(db, FPL_QUERY_ROLLBACK, NULL);
  return status;
}

enum fpl_status fpl_db_check_all(struct fpl_db *db, bool repair, fpl_db_visit_finding *visit,
                                 void *context, struct fpl_err *err) {
  if (!db)
    return FPL_OK;
  struct fpl_findings all = {0};
  struct fpl_err inner = {0};
  enum fpl_status status =
      repair ? fpl_db_transaction(db, repair_body, &all, &inner) : find_only(db, &all, &inner);
  if (status == FPL_DB_CORRUPT) { /* and what was found or repaired before is void */
    all.n = 0;
    status = add(db, &all, FPL_FINDING_DAMAGE, "file", 0, &inner, "%s", inner.text);
  }
  if (status != FPL_OK)
    fpl_fail(err, status, "%s", inner.text);
  for (size_t i = 0; status == FPL_OK && i < all.n; i++)
    status = visit(context, &all.list[i], err);
  free(all.list);
  return status;
}
