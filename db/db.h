/* Plan database: one SQLite file with problems, candidates, kernels, measurements and plans.
 * Tables and columns: db/SCHEMA.md. All times in microseconds.
 *
 * A connection belongs to one thread; any number of processes may use one file at once. An empty
 * path means "no store": fpl_db_open answers NULL, and every function accepts it (a writer does
 * nothing, a lookup finds nothing). Messages begin with the file's path.
 *
 * Errors of every function, beside those named with it: FPL_DB_BUSY (locked too long),
 * FPL_DB_CORRUPT (damaged), FPL_DB (disk full, read-only, a broken rule of the schema), FPL_IO,
 * FPL_NO_MEMORY. A failed write leaves the database as it was before the call.
 */
#ifndef FPL_DB_DB_H
#define FPL_DB_DB_H

#include "tuner/core/device.h"
#include "tuner/core/plan.h"
#include "tuner/core/problem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fpl_db;

/* READ never writes and never makes a file, so that read-only directories serve; a file of an older
 * schema is read from a copy in memory, brought up to date, as it was when opened. WRITE needs an
 * existing file. CREATE makes one where there is none or where it is empty. */
enum fpl_db_mode { FPL_DB_READ, FPL_DB_WRITE, FPL_DB_CREATE };

/* Opens, checks that the file is a plan database, and (WRITE, CREATE) brings its schema up to date
 * in one transaction. The special path ":memory:" is a private database of this connection.
 * On error `*out` is NULL and the file is untouched.
 * Errors: FPL_IO (missing, not readable, not a regular file), FPL_DB_SCHEMA (of another program, or
 * of a newer fuseplan), FPL_DB_CORRUPT (not a database, empty, damaged), FPL_DB_BUSY. */
enum fpl_status fpl_db_open(const char *path, enum fpl_db_mode mode, struct fpl_db **out,
                            struct fpl_err *err);
/* Never fails; NULL allowed. The last writer leaves a single file behind, without -wal and -shm. */
void fpl_db_close(struct fpl_db *db);

/* How long a call waits for other processes' locks before FPL_DB_BUSY; 10 seconds at first. */
void fpl_db_set_busy_ms(struct fpl_db *db, int busy_ms);

/* Reads every page and every reference; FPL_DB_CORRUPT with SQLite's first finding. */
enum fpl_status fpl_db_check(struct fpl_db *db, struct fpl_err *err);

/* The file system under a path (or under its folder while the file does not exist). */
struct fpl_db_file_system {
  char name[16];     /* "nfs", "overlay", ...; "local" for those that need no care */
  bool is_wal_safe;  /* false: locks or shared memory are unreliable; a rollback journal is used */
  bool is_read_only; /* mounted so */
};
enum fpl_status fpl_db_file_system(const char *path, struct fpl_db_file_system *out,
                                   struct fpl_err *err);

/* Runs: one a `tune`. A run that never ended stays "running". */
enum fpl_run_state { FPL_RUN_RUNNING, FPL_RUN_DONE, FPL_RUN_FAILED, FPL_RUN_INTERRUPTED };
extern const char *const fpl_run_state_names[]; /* running done failed interrupted */

enum fpl_status fpl_db_begin_run(struct fpl_db *db, uint64_t seed, const char *tool_version,
                                 const char *arguments, int64_t *out_run_id, struct fpl_err *err);
enum fpl_status fpl_db_end_run(struct fpl_db *db, int64_t run_id, enum fpl_run_state state,
                               struct fpl_err *err);

/* Stores what a run found for one problem: every candidate with its kernel, samples and
 * statistics, and the plan, in one transaction. `plan` NULL: none was found; otherwise
 * plan->schedule (or is_library) must be that of one result. plan->environment is not read:
 * `environment` serves all; plan->created_unix 0 means now. Storing a problem twice in one run
 * keeps both, as attempts 1 and 2. Texts that are not UTF-8 are stored with '?' for the bad bytes;
 * a time that is not finite is stored as 0, a sample that is not as NaN. Errors: FPL_INTERNAL (the
 * plan is not among the results, or a schedule stands twice). */
enum fpl_status fpl_db_store_problem(struct fpl_db *db, int64_t run_id,
                                     const struct fpl_problem *problem,
                                     const struct fpl_device *device,
                                     const struct fpl_result *results, int n,
                                     const struct fpl_environment *environment,
                                     const struct fpl_plan *plan, struct fpl_err *err);

/* For --resume: is there a plan of this provenance or a better one (measured, then predicted, then
 * simulated)? */
enum fpl_status fpl_db_has_plan(struct fpl_db *db, const struct fpl_problem *problem,
                                const struct fpl_device *device, enum fpl_provenance provenance,
                                bool *out, struct fpl_err *err);

/* The answer for exactly this problem and device class (never the device's name): the most trusted
 * promoted plan, then the newest. Where `*out_found`, `out` is filled and the caller frees it with
 * fpl_plan_free; otherwise it is all zero. The cubin is loaded when asked for and stored. The plan
 * was legal when it was stored; whether it still is, fpl_legal tells. */
enum fpl_status fpl_db_find_plan(struct fpl_db *db, const struct fpl_problem *problem,
                                 const struct fpl_device *device, bool with_cubin,
                                 struct fpl_plan *out, bool *out_found, struct fpl_err *err);

/* As above, among deterministic plans alone (fpl_plan_is_deterministic). */
enum fpl_status fpl_db_find_deterministic_plan(struct fpl_db *db, const struct fpl_problem *problem,
                                               const struct fpl_device *device, bool with_cubin,
                                               struct fpl_plan *out, bool *out_found,
                                               struct fpl_err *err);

/* The answers of the whole database by kind, dtype, act, n, k, l, m, device class. `visit` must not
 * keep the plan; a status other than FPL_OK ends the walk and is returned. During a walk the same
 * walk must not be started again on this connection. */
typedef enum fpl_status fpl_db_visit_plan(void *context, const struct fpl_plan *plan,
                                          struct fpl_err *err);
enum fpl_status fpl_db_each_plan(struct fpl_db *db, fpl_db_visit_plan *visit, void *context,
                                 struct fpl_err *err);

/* A problem by its number, its key or a unique beginning (4 digits or more) of its key. */
enum fpl_status fpl_db_find_problem(struct fpl_db *db, const char *id, int64_t *out_id,
                                    struct fpl_problem *out, bool *out_found, struct fpl_err *err);
/* The number of a stored problem; 0 when it is not stored. */
enum fpl_status fpl_db_problem_id(struct fpl_db *db, const struct fpl_problem *problem,
                                  int64_t *out_id, struct fpl_err *err);

/* A stored candidate. result.samples are not loaded, nor is the cubin; result.method is that of
 * the cold measurement where there is one. */
struct fpl_db_candidate {
  int64_t id, run_id, attempt;
  char device_name[32];
  bool is_plan; /* chosen by its run */
  struct fpl_result result;
};
/* Candidates of a problem: by device class, newest run first, then measured ones by cold median,
 * then the rest by predicted time. Rules of `visit` as above. */
typedef enum fpl_status fpl_db_visit_candidate(void *context,
                                               const struct fpl_db_candidate *candidate,
                                               struct fpl_err *err);
enum fpl_status fpl_db_each_candidate(struct fpl_db *db, int64_t problem_id,
                                      fpl_db_visit_candidate *visit, void *context,
                                      struct fpl_err *err);

/* Text export: JSON lines with sorted keys, in an order that depends on contents alone. `write`
 * gets whole lines. Cubins (base64) only when asked for. Exporting, importing into a new database
 * and exporting again gives the same bytes. */
typedef enum fpl_status fpl_db_write(void *context, const char *bytes, size_t length,
                                     struct fpl_err *err);
enum fpl_status fpl_db_export(struct fpl_db *db, bool with_cubins, fpl_db_write *write,
                              void *context, struct fpl_err *err);

struct fpl_import_counts {
  int64_t n_lines;   /* read, the header included */
  int64_t n_added;   /* records that were new */
  int64_t n_known;   /* records that were there already */
  int64_t n_plans;   /* plans among the new ones */
  int64_t n_flagged; /* plans that fpl_legal refuses here: stored, never an answer */
};
/* Text import: all or nothing. Importing twice adds nothing; the order in which files are imported
 * does not matter. `name` stands in messages "name:line: what: remedy".
 * Errors: FPL_PARSE (malformed, or of a newer schema). */
enum fpl_status fpl_db_import(struct fpl_db *db, const char *name, const char *text, size_t length,
                              struct fpl_import_counts *out, struct fpl_err *err);

/* What a thorough check finds. */
enum fpl_finding_kind {
  FPL_FINDING_DAMAGE,     /* SQLite cannot read the file, or it breaks a rule of the schema */
  FPL_FINDING_DANGLING,   /* a row names a row that does not exist, or two that disagree */
  FPL_FINDING_CUBIN,      /* a kernel's sha is not that of its cubin */
  FPL_FINDING_UNREADABLE, /* a text, key or column that no fuseplan wrote */
  FPL_FINDING_ILLEGAL,    /* a plan that could answer and that fpl_legal refuses, or unreadable */
  FPL_FINDING_ORPHAN      /* a row that nothing names */
};
extern const char *const fpl_finding_names[]; /* damage dangling cubin unreadable illegal orphan */

struct fpl_finding {
  enum fpl_finding_kind kind;
  char table[24];
  int64_t row;    /* 0: not of one row */
  char what[256]; /* one line */
  bool is_repaired;
};
typedef enum fpl_status fpl_db_visit_finding(void *context, const struct fpl_finding *finding,
                                             struct fpl_err *err);
/* Reads everything: pages, rules, references, hashes, texts, legality. `visit` is called when all
 * is done. With `repair`, in the same transaction: orphans are removed, wrong cubins dropped (such
 * a kernel is as one that was imported without: it can be compiled anew), illegal plans flagged;
 * a damaged file is left alone. A file too damaged to be read on is a finding, not an error. */
enum fpl_status fpl_db_check_all(struct fpl_db *db, bool repair, fpl_db_visit_finding *visit,
                                 void *context, struct fpl_err *err);

/* Rows removed, and cubins dropped from kernels that stay. */
struct fpl_gc_counts {
  int64_t n_candidates, n_measurements, n_cubins;
  int64_t n_orphans; /* kernels, problems, environments, runs that nothing names any more */
  int64_t bytes_before, bytes_after; /* of the file */
};
/* Removes, in one transaction, candidates with their samples that are older than the newest
 * `keep_runs` runs of their problem and device class, never those of a plan, promoted or history,
 * nor the library candidate beside it; then cubins of kernels that no plan names, and orphans (as
 * above). Then gives the space back, which needs as much again for a while; where that fails the
 * rows are gone, the file keeps its size, and the message says so. With `dry_run` nothing is
 * changed, and bytes_after is what it would be. */
enum fpl_status fpl_db_gc(struct fpl_db *db, int64_t keep_runs, bool dry_run,
                          struct fpl_gc_counts *out, struct fpl_err *err);

#endif
