/* The operating system: files, temporary directories, child processes, time.
 * The only file of the library that needs POSIX feature macros beside those named in
 * ARCHITECTURE.md. */
#ifndef FPL_BASE_SYS_H
#define FPL_BASE_SYS_H

#include "tuner/base/arena.h"
#include "tuner/base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Reads a whole regular file into the arena, NUL-terminated. Larger than `most_bytes`: FPL_PARSE
 * with "path: ... larger than N bytes". */
enum fpl_status fpl_file_read(struct fpl_arena *arena, const char *path, size_t most_bytes,
                              char **out, size_t *out_length, struct fpl_err *err);

/* Writes a file atomically: temporary beside it, fsync, rename. */
enum fpl_status fpl_file_write(const char *path, const void *bytes, size_t length,
                               struct fpl_err *err);

/* mkdir -p. */
enum fpl_status fpl_dir_make(const char *path, struct fpl_err *err);
bool fpl_path_exists(const char *path);
/* rm -r of a directory this program made. */
enum fpl_status fpl_dir_remove(const char *path, struct fpl_err *err);
/* A fresh directory `parent`/prefix-XXXXXX. */
enum fpl_status fpl_dir_temporary(struct fpl_arena *arena, const char *parent, const char *prefix,
                                  char **out, struct fpl_err *err);
/* rename(2) of a directory; `*out_lost` true when the target exists already (another process won).
 */
enum fpl_status fpl_dir_publish(const char *from, const char *to, bool *out_lost,
                                struct fpl_err *err);

double fpl_now_us(void);        /* monotonic clock, microseconds */
int64_t fpl_unix_seconds(void); /* wall clock */

/* A child process with three pipes. argv[0] is the path; no shell. The child dies with its parent
 * (PR_SET_PDEATHSIG) and leads a process group of its own. */
struct fpl_child {
  int pid;
  int to_child;   /* write end of its stdin, or -1 */
  int from_child; /* read end of its stdout, or -1 */
  int errors;     /* read end of its stderr, or -1 when it shares ours */
};
enum fpl_child_stderr { FPL_STDERR_SHARED, FPL_STDERR_CAPTURED, FPL_STDERR_DISCARDED };

enum fpl_status fpl_child_start(const char *const *argv, enum fpl_child_stderr stderr_mode,
                                struct fpl_child *out, struct fpl_err *err);
/* SIGKILL to the whole group, wait, close the pipes. Harmless on an all-zero or stopped child. */
void fpl_child_kill(struct fpl_child *child);
/* Waits at most deadline_us for its end, then kills it. `*out_exit`: exit code, or 128 + signal. */
enum fpl_status fpl_child_wait(struct fpl_child *child, double deadline_us, int *out_exit,
                               struct fpl_err *err);
/* Index of a child that has ended (not yet reaped: fpl_child_wait follows), or -1 after
 * timeout_us. Entries with pid 0 are passed over. */
int fpl_child_first_ended(const struct fpl_child *children, int n, double timeout_us);
/* Whole messages over pipes: 4-byte little-endian length, then that many bytes. Reading answers
 * FPL_IO_TIMEOUT at the deadline and FPL_IO when the other end is gone. */
enum fpl_status fpl_pipe_write(int fd, const void *bytes, size_t length, double timeout_us,
                               struct fpl_err *err);
enum fpl_status fpl_pipe_read(int fd, double timeout_us, struct fpl_arena *arena, char **out,
                              size_t *out_length, struct fpl_err *err);

/* Path of this program's own executable. */
enum fpl_status fpl_self_path(struct fpl_arena *arena, char **out, struct fpl_err *err);
/* Number of processors this process may use. */
int fpl_cpu_count(void);

#endif
