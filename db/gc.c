/* Garbage: evidence that no answer needs any more. The statement DELETE_OLD_CANDIDATES decides what
 * that is; the space is given back afterwards, because SQLite cannot do it inside a transaction. */
#include "db/handle.h"

#include <stdlib.h>

struct gc {
  int64_t keep_runs;
  int64_t free_pages; /* after it */
  struct fpl_gc_counts counts;
};

static enum fpl_status ask(struct fpl_db *db, enum fpl_query query, int64_t *out,
                           struct fpl_err *err) {
  struct fpl_bind b = fpl_bind_start(db, query);
  return fpl_bind_answer(&b, 0, out, err);
}

static enum fpl_status remove_orphans(struct fpl_db *db, int64_t *out_n, struct fpl_err *err) {
  struct fpl_findings orphans = {0};
  enum fpl_status status = fpl_db_find_orphans(db, &orphans, err);
  if (status == FPL_OK)
    status = fpl_db_remove_orphans(db, &orphans, err);
  *out_n = (int64_t)orphans.n;
  free(orphans.list);
  return status;
}

static enum fpl_status gc_body(struct fpl_db *db, void *context, struct fpl_err *err) {
  struct gc *const gc = context;
  struct fpl_gc_counts *const counts = &gc->counts;
  int64_t n_before = 0, n_after = 0;
  enum fpl_status status = ask(db, FPL_QUERY_COUNT_MEASUREMENTS, &n_before, err);
  if (status == FPL_OK) {
    struct fpl_bind b = fpl_bind_start(db, FPL_QUERY_DELETE_OLD_CANDIDATES);
    fpl_bind_i64(&b, gc->keep_runs);
    status = fpl_bind_run(&b, NULL, err);
    counts->n_candidates = sqlite3_changes64(db->handle);
  }
  if (status == FPL_OK)
    status = ask(db, FPL_QUERY_COUNT_MEASUREMENTS, &n_after, err);
  counts->n_measurements = n_before - n_after;
  if (status == FPL_OK) {
    status = fpl_db_run(db, FPL_QUERY_DROP_SPARE_CUBINS, err);
    counts->n_cubins = sqlite3_changes64(db->handle);
  }
  if (status == FPL_OK)
    status = remove_orphans(db, &counts->n_orphans, err);
  return status == FPL_OK ? ask(db, FPL_QUERY_COUNT_FREE_PAGES, &gc->free_pages, err) : status;
}

/* The same work, undone. */
static enum fpl_status try_only(struct fpl_db *db, struct gc *gc, struct fpl_err *err) {
  enum fpl_status status = fpl_db_run(db, FPL_QUERY_BEGIN, err);
  if (status != FPL_OK)
    return status;
  status = gc_body(db, gc, err);
  fpl_db_run(db, FPL_QUERY_ROLLBACK, NULL);
  return status;
}

static enum fpl_status count_bytes(struct fpl_db *db, int64_t *out, struct fpl_err *err) {
  int64_t page_bytes = 0, n_pages = 0;
  enum fpl_status status = ask(db, FPL_QUERY_PAGE_BYTES, &page_bytes, err);
  if (status == FPL_OK)
    status = ask(db, FPL_QUERY_COUNT_PAGES, &n_pages, err);
  *out = page_bytes * n_pages;
  return status;
}

static enum fpl_status give_back(struct fpl_db *db, int64_t *out_bytes, struct fpl_err *err) {
  const enum fpl_status status = fpl_db_run(db, FPL_QUERY_VACUUM, err);
  if (status != FPL_OK && err)
    fpl_err_prefix(err, "rows are removed, but the file keeps its size");
  return status == FPL_OK ? count_bytes(db, out_bytes, err) : status;
}

enum fpl_status fpl_db_gc(struct fpl_db *db, int64_t keep_runs, bool dry_run,
                          struct fpl_gc_counts *out, struct fpl_err *err) {
  *out = (struct fpl_gc_counts){0};
  if (!db)
    return FPL_OK;
  struct gc gc = {.keep_runs = keep_runs};
  int64_t page_bytes = 0;
  enum fpl_status status = count_bytes(db, &gc.counts.bytes_before, err);
  if (status == FPL_OK)
    status = ask(db, FPL_QUERY_PAGE_BYTES, &page_bytes, err);
  if (status == FPL_OK)
    status = dry_run ? try_only(db, &gc, err) : fpl_db_transaction(db, gc_body, &gc, err);
  gc.counts.bytes_after = gc.counts.bytes_before - gc.free_pages * page_bytes;
  if (status == FPL_OK && !dry_run)
    status = give_back(db, &gc.counts.bytes_after, err);
  if (status == FPL_OK)
    *out = gc.counts;
  return status;
}
