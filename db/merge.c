/* Merging: the other databases' exports are imported, one behind the other, in one transaction. Their
 * answers are compared with the ones before, so that a change of mind is told. */
#include "db/handle.h"

#include <stdlib.h>
#include <string.h>

const char *const fpl_plan_rule_names[] = {"provenance", "newer", "run", "attempt", "other", NULL};

struct answers {
  struct fpl_stored_plan *plans;
  size_t n;
};

static enum fpl_status read_answers(struct fpl_db *db, struct answers *out, struct fpl_err *err) {
  return fpl_db_stored_plans(db, NULL, INT64_MAX, true, &out->plans, &out->n, err);
}

static bool is_same_plan(const struct fpl_stored_plan *a, const struct fpl_stored_plan *b) {
  return strcmp(a->run_key, b->run_key) == 0 && a->attempt == b->attempt;
}

/* As the answers view ranks. */
static enum fpl_plan_rule decide(const struct fpl_stored_plan *a, const struct fpl_stored_plan *b) {
  if (a->provenance != b->provenance)
    return FPL_PLAN_RULE_PROVENANCE;
  if (a->created_unix != b->created_unix)
    return FPL_PLAN_RULE_NEWER;
  return strcmp(a->run_key, b->run_key) != 0 ? FPL_PLAN_RULE_RUN : FPL_PLAN_RULE_ATTEMPT;
}

struct merge {
  const char *const *paths;
  int n;
  struct fpl_merge *out;
};

static enum fpl_status add_conflict(struct merge *m, const struct fpl_db *db, const char *path,
                                    const struct fpl_stored_plan *ours,
                                    const struct fpl_stored_plan *theirs,
                                    const struct fpl_stored_plan *now, struct fpl_err *err) {
  struct fpl_merge *const out = m->out;
  if (out->n_conflicts == out->capacity) {
    const size_t capacity = out->capacity ? 2 * out->capacity : 16;
    struct fpl_merge_conflict *const grown =
        realloc(out->conflicts, capacity * sizeof *out->conflicts);
    if (!grown)
      return fpl_fail(err, FPL_NO_MEMORY, "%s: out of memory", db->path);
    out->conflicts = grown;
    out->capacity = capacity;
  }
  const int answering = !now                        ? -1
                        : is_same_plan(now, ours)   ? 0
                        : is_same_plan(now, theirs) ? 1
                                                    : -1;
  out->conflicts[out->n_conflicts++] = (struct fpl_merge_conflict){
      .paths = {db->path, path},
      .answers = {*ours, *theirs},
      .answering = answering,
      .rule = answering < 0 ? FPL_PLAN_RULE_OTHER : decide(ours, theirs)};
  return FPL_OK;
}

/* Moves *at to the first answer that is not before `plan`; NULL: that is another problem's. */
static const struct fpl_stored_plan *find_answer(const struct answers *a, size_t *at,
                                                 const struct fpl_stored_plan *plan) {
  while (*at < a->n && fpl_stored_plan_compare(&a->plans[*at], plan) < 0)
    ++*at;
  return *at < a->n && fpl_stored_plan_compare(&a->plans[*at], plan) == 0 ? &a->plans[*at] : NULL;
}

static enum fpl_status compare(struct merge *m, const struct fpl_db *db, const char *path,
                               const struct answers *before, const struct answers *theirs,
                               const struct answers *after, struct fpl_err *err) {
  enum fpl_status status = FPL_OK;
  size_t at_before = 0, at_after = 0;
  for (size_t i = 0; status == FPL_OK && i < theirs->n; i++) {
    const struct fpl_stored_plan *const their = &theirs->plans[i];
    const struct fpl_stored_plan *const our = find_answer(before, &at_before, their);
    const struct fpl_stored_plan *const now = find_answer(after, &at_after, their);
    if (our && !fpl_stored_plan_same_winner(our, their))
      status = add_conflict(m, db, path, our, their, now, err);
  }
  return status;
}

static enum fpl_status merge_one(struct merge *m, struct fpl_db *db, const char *path,
                                 struct fpl_err *err) {
  struct fpl_db *other = NULL;
  struct answers before = {0}, theirs = {0}, after = {0};
  enum fpl_status status = fpl_db_open(path, FPL_DB_READ, &other, err);
  if (status == FPL_OK)
    status = read_answers(db, &before, err);
  if (status == FPL_OK)
    status = read_answers(other, &theirs, err);
  if (status == FPL_OK)
    status = fpl_db_import_from(db, other, &m->out->counts, err);
  if (status == FPL_OK)
    status = fpl_db_judge_plans(db, err);
  if (status == FPL_OK)
    status = read_answers(db, &after, err);
  if (status == FPL_OK)
    status = compare(m, db, path, &before, &theirs, &after, err);
  free(before.plans);
  free(theirs.plans);
  free(after.plans);
  fpl_db_close(other);
  return status;
}

static enum fpl_status merge_body(struct fpl_db *db, void *context, struct fpl_err *err) {
  struct merge *const m = context;
  m->out->counts = (struct fpl_import_counts){0};
  m->out->n_conflicts = 0;
  enum fpl_status status = FPL_OK;
  for (int i = 0; status == FPL_OK && i < m->n; i++)
    status = merge_one(m, db, m->paths[i], err);
  return status;
}

enum fpl_status fpl_db_merge(struct fpl_db *db, const char *const *paths, int n,
                             struct fpl_merge *out, struct fpl_err *err) {
  *out = (struct fpl_merge){0};
  if (!db)
    return FPL_OK;
  struct merge m = {.paths = paths, .n = n, .out = out};
  const enum fpl_status status = fpl_db_transaction(db, merge_body, &m, err);
  if (status != FPL_OK)
    fpl_merge_free(out);
  return status;
}

void fpl_merge_free(struct fpl_merge *merge) {
  free(merge->conflicts);
  *merge = (struct fpl_merge){0};
}
