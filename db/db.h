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

#include "tuner/core/answer.h"

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
/* A run that is done and has stored nothing leaves no row. */
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
 * promoted plan that is as wanted, then the newest. Where `*out_found`, `out` is filled and the
 * caller frees it with fpl_plan_free; otherwise it is all zero. The cubin is loaded when asked for
 * and stored. The plan was legal when it was stored; whether it still is, fpl_legal tells. */
enum fpl_status fpl_db_find(struct fpl_db *db, const struct fpl_wanted *wanted, bool with_cubin,
                            struct fpl_plan *out, bool *out_found, struct fpl_err *err);
/* As above, of all plans. */
enum fpl_status fpl_db_find_plan(struct fpl_db *db, const struct fpl_problem *problem,
                                 const struct fpl_device *device, bool with_cubin,
                                 struct fpl_plan *out, bool *out_found, struct fpl_err *err);
/* Loads the stored cubin of a plan's kernel, where there is one. */
enum fpl_status fpl_db_load_cubin(struct fpl_db *db, struct fpl_kernel *kernel,
                                  struct fpl_err *err);
/* For fpl_answer. The database must outlive it. */
struct fpl_source fpl_db_source(struct fpl_db *db);

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
 * Errors: FPL_PARSE (malformed, of a newer schema, or another record than the one of its key). */
enum fpl_status fpl_db_import(struct fpl_db *db, const char *name, const char *text, size_t length,
                              struct fpl_import_counts *out, struct fpl_err *err);

/* What lookups asked for in vain (no plan), or found a plan of another driver for (stale). */
enum fpl_miss_cause { FPL_MISS_NO_PLAN, FPL_MISS_STALE };
extern const char *const fpl_miss_names[]; /* miss stale */
struct fpl_miss {
  struct fpl_problem problem;
  char device_name[32];
  enum fpl_miss_cause cause; /* of the last time */
  int64_t n;                 /* how often */
  int64_t first_unix, last_unix;
};
enum fpl_status fpl_db_note_miss(struct fpl_db *db, const struct fpl_problem *problem,
                                 const char *device_name, enum fpl_miss_cause cause,
                                 int64_t now_unix, struct fpl_err *err);
/* Most often asked first. `device_name` "": of every device. Rules of `visit` as above. */
typedef enum fpl_status fpl_db_visit_miss(void *context, const struct fpl_miss *miss,
                                          struct fpl_err *err);
enum fpl_status fpl_db_each_miss(struct fpl_db *db, const char *device_name,
                                 fpl_db_visit_miss *visit, void *context, struct fpl_err *err);
enum fpl_status fpl_db_clear_misses(struct fpl_db *db, const char *device_name,
                                    struct fpl_err *err);

/* Makes anew what is derived from measurements: the regrets of plans for other shapes, and the
 * envelopes. Called after a run, an import and a merge.
 * Envelope: between two measured plans of a family whose m are at most FPL_NEAREST_MOST_M times
 * apart, the end lies where the times of their schedules cross, each measured at both m in the plan's
 * own comparison, their logarithms linear in ln m between. Where one was not measured at the other's
 * m, the envelope ends at the plan's own m. */
enum fpl_status fpl_db_refresh(struct fpl_db *db, struct fpl_err *err);

/* A plan as history, diff and merge tell of it. */
struct fpl_stored_plan {
  char problem_key[FPL_KEY_HEX], problem[FPL_PROBLEM_TEXT];
  char device_class[FPL_DEVICE_CLASS_TEXT], device_name[32];
  bool is_library;
  char schedule[FPL_SCHEDULE_TEXT]; /* empty for the library */
  char kernel[FPL_KERNEL_NAME];     /* empty: not compiled */
  enum fpl_provenance provenance;
  double est_us, measured_us, measured_hot_us, library_us, library_hot_us;
  int64_t n_candidates, n_ok, created_unix;
  char reason[256];
  char run_key[FPL_KEY_HEX], tool_version[32];
  int64_t run_started_unix, attempt;
  char driver[96], nvrtc[96]; /* of its environment; empty: not said */
  struct fpl_stats cold;      /* of the winner: n, median_us, low_us, high_us; n 0: not measured */
  bool is_promoted;
  char flag[224];
  bool is_answer; /* at the time that was asked for */
};
/* The plans there were at `as_of_unix` (INT64_MAX: now) of one problem (NULL: of all), by problem
 * text and device class, oldest first; with `only_answers` those that answered then. Promotion and
 * flags are those of today. The caller frees `*out`; NULL when there are none. */
enum fpl_status fpl_db_stored_plans(struct fpl_db *db, const struct fpl_problem *problem,
                                    int64_t as_of_unix, bool only_answers,
                                    struct fpl_stored_plan **out, size_t *out_n,
                                    struct fpl_err *err);
/* By problem text and device class: the order above. */
int fpl_stored_plan_compare(const struct fpl_stored_plan *a, const struct fpl_stored_plan *b);
/* The library, or the same schedule: the kernel compiled from it may differ. */
bool fpl_stored_plan_same_winner(const struct fpl_stored_plan *a, const struct fpl_stored_plan *b);

/* What decides between two plans for one problem and device class; the first that differs. */
enum fpl_plan_rule {
  FPL_PLAN_RULE_PROVENANCE, /* measured before predicted before simulated */
  FPL_PLAN_RULE_NEWER,
  FPL_PLAN_RULE_RUN,     /* equal times: the lesser key of its run */
  FPL_PLAN_RULE_ATTEMPT, /* of one run: the later attempt */
  FPL_PLAN_RULE_OTHER    /* neither answers: what does is in fpl_db_stored_plans */
};
extern const char *const fpl_plan_rule_names[]; /* provenance newer run attempt other */

/* One problem and device class with different winners on both sides. */
struct fpl_merge_conflict {
  const char *paths[2];              /* the database merged into, one merged from */
  struct fpl_stored_plan answers[2]; /* of each, before */
  int answering;                     /* 0, 1: which of them answers now; -1: neither */
  enum fpl_plan_rule rule;
};
struct fpl_merge {
  struct fpl_import_counts counts;
  struct fpl_merge_conflict *conflicts;
  size_t n_conflicts, capacity;
};
/* Joins other databases into `db`, all of them or none, cubins included. What a database then holds
 * and answers does not depend on the order of merges, nor on how often one was merged. Conflicts are
 * those of each other one with what had been merged before it. The caller frees `out`; the paths in
 * it live as long as those given and `db`.
 * Errors: FPL_PARSE (a record differs from the one of its key: one was altered), and those of
 * opening `paths` for reading. */
enum fpl_status fpl_db_merge(struct fpl_db *db, const char *const *paths, int n,
                             struct fpl_merge *out, struct fpl_err *err);
void fpl_merge_free(struct fpl_merge *merge);

/* How the second of two answers compares with the first. */
enum fpl_diff_verdict {
  FPL_DIFF_FAST,
  FPL_DIFF_SLOW,
  FPL_DIFF_SAME,
  FPL_DIFF_AMBIGUOUS,
  FPL_DIFF_ADDED,
  FPL_DIFF_REMOVED,
  FPL_N_DIFF_VERDICTS
};
extern const char *const fpl_diff_verdict_names[]; /* FAST SLOW SAME AMBIGUOUS ADDED REMOVED */
/* By what: cold medians with their intervals where both were measured, else both predictions; none
 * where a side has no prediction, or no plan. */
enum fpl_diff_basis { FPL_DIFF_BY_MEASURED, FPL_DIFF_BY_PREDICTED, FPL_DIFF_BY_NONE };
extern const char *const fpl_diff_basis_names[]; /* measured predicted none */

struct fpl_diff_row {
  enum fpl_diff_verdict verdict;
  enum fpl_diff_basis basis;
  const struct fpl_stored_plan *a, *b; /* NULL: no answer there */
  double a_us, b_us;                   /* what was compared; 0: nothing */
};
struct fpl_diff {
  struct fpl_diff_row *rows; /* by problem text and device class */
  size_t n_rows, counts[FPL_N_DIFF_VERDICTS];
  struct fpl_stored_plan *a, *b;
};
/* Compares the answers of two databases. Let the ratio be that of the slower to the faster time:
 *   intervals apart, ratio - 1 >= least_change    FAST or SLOW
 *   intervals apart, ratio - 1 <  least_change    SAME
 *   they overlap, both narrower than least_change times their median    SAME, else AMBIGUOUS
 * A prediction counts as an interval without width. The caller frees `out`. */
enum fpl_status fpl_db_diff(struct fpl_db *a, struct fpl_db *b, double least_change,
                            struct fpl_diff *out, struct fpl_err *err);
void fpl_diff_free(struct fpl_diff *diff);

/* fpl_db_each_plan as it was at a time; promotion and flags are those of today. */
enum fpl_status fpl_db_each_plan_as_of(struct fpl_db *db, int64_t as_of_unix,
                                       fpl_db_visit_plan *visit, void *context,
                                       struct fpl_err *err);

/* What a candidate of fpl_db_each_candidate lacks: every sample, and when its run began. The caller
 * frees the samples' `us`; n 0: none was taken in that cache state. */
enum fpl_status fpl_db_read_samples(struct fpl_db *db, int64_t candidate_id,
                                    struct fpl_samples out[FPL_CACHE_STATES],
                                    int64_t *out_run_started_unix, struct fpl_err *err);

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
