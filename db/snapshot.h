/* Snapshot: the answers of a plan database as one immutable file, mapped into memory and looked up
 * without locks, without SQLite and without allocation. Same answers as the database it was made
 * from: both are sources of tuner/core/answer.h. Format: db/SNAPSHOT.md.
 *
 * Any number of threads may use one snapshot. Replacing the file (a new one is written beside it and
 * renamed) does not disturb who has it open; cutting it short does.
 */
#ifndef FPL_DB_SNAPSHOT_H
#define FPL_DB_SNAPSHOT_H

#include "db/db.h"

struct fpl_snapshot;

/* Does the file begin like a snapshot? False also when it cannot be read. */
bool fpl_snapshot_is_one(const char *path);

/* Maps the file and checks its header, the ends of its sections and every number by which one record
 * names another. Errors: FPL_IO, FPL_DB_SCHEMA (no snapshot, or of a newer format), FPL_DB_CORRUPT,
 * FPL_NO_MEMORY. On error `*out` is NULL. */
enum fpl_status fpl_snapshot_open(const char *path, struct fpl_snapshot **out, struct fpl_err *err);
/* The same over bytes of the caller, which must outlive it: 8-byte aligned. `name` stands in
 * messages. */
enum fpl_status fpl_snapshot_from_bytes(const char *name, const void *bytes, size_t length,
                                        struct fpl_snapshot **out, struct fpl_err *err);
void fpl_snapshot_close(struct fpl_snapshot *snapshot); /* NULL allowed */

/* Reads the whole file: is its digest the one of its header? FPL_DB_CORRUPT otherwise. */
enum fpl_status fpl_snapshot_check(const struct fpl_snapshot *snapshot, struct fpl_err *err);

int64_t fpl_snapshot_plans(const struct fpl_snapshot *snapshot);
/* The device class stored as this name, with the limits that legality needs. */
bool fpl_snapshot_device(const struct fpl_snapshot *snapshot, const char *name,
                         struct fpl_device *out);
/* The stored device class of the same capability, SMs, L2, memory and clock. `out` may be `d`. */
bool fpl_snapshot_find_device(const struct fpl_snapshot *snapshot, const struct fpl_device *d,
                              struct fpl_device *out);
int64_t fpl_snapshot_devices(const struct fpl_snapshot *snapshot);
void fpl_snapshot_device_at(const struct fpl_snapshot *snapshot, int64_t i, struct fpl_device *out);

/* For fpl_answer; plan numbers are places in the snapshot. */
struct fpl_source fpl_snapshot_source(struct fpl_snapshot *snapshot);
/* Of a plan that this snapshot answered with: why it won, what fpl_problem_text and
 * fpl_schedule_text print of it, and its kernel's name; the last two "" for the library. */
struct fpl_snapshot_text {
  const char *text;
  size_t length;
};
struct fpl_snapshot_texts {
  struct fpl_snapshot_text reason, problem, schedule, kernel;
};
void fpl_snapshot_texts(const struct fpl_snapshot *snapshot, int64_t plan_id,
                        struct fpl_snapshot_texts *out);
/* Copies the stored cubin of a plan's kernel, where there is one. */
enum fpl_status fpl_snapshot_load_cubin(const struct fpl_snapshot *snapshot,
                                        struct fpl_kernel *kernel, struct fpl_err *err);

struct fpl_snapshot_counts {
  int64_t n_plans, n_kernels, n_bytes;
};
/* Every promoted plan without a flag, as bytes that the caller frees, 8-byte aligned. Equal databases
 * give equal bytes. Without cubins, plans say all the same whether one is stored. In
 * snapshot_write.c, like the next. */
enum fpl_status fpl_snapshot_make(struct fpl_db *db, bool with_cubins, char **out_bytes,
                                  size_t *out_length, struct fpl_snapshot_counts *out,
                                  struct fpl_err *err);
/* The same, cubins included, to a new file beside `path`, then renamed. */
enum fpl_status fpl_snapshot_write(struct fpl_db *db, const char *path,
                                   struct fpl_snapshot_counts *out, struct fpl_err *err);

#endif
