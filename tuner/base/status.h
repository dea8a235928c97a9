/* Status codes and the message sink.
 *
 * A function that can fail returns enum fpl_status and writes what and where into the caller's
 * struct fpl_err. An outcome ("does not fit", "no plan") is not a status: it has a type of its own.
 */
#ifndef FPL_BASE_STATUS_H
#define FPL_BASE_STATUS_H

#include <stdbool.h>

/* Grouped by tens; a number is never reused. */
enum fpl_status {
  FPL_OK = 0,
  FPL_USAGE = 10,      /* the command line is wrong */
  FPL_PARSE = 20,      /* an input file or text is malformed */
  FPL_IO = 30,         /* a file could not be read or written */
  FPL_IO_TIMEOUT = 31, /* a child or a pipe did not answer in time */
  FPL_DB = 40,         /* the database answered an error */
  FPL_DB_BUSY = 41,    /* locked too long */
  FPL_DB_SCHEMA = 42,  /* not ours, or of a newer schema */
  FPL_DB_CORRUPT = 43, /* damaged */
  FPL_TOOLCHAIN = 50,  /* NVRTC or a toolkit header is missing or failed */
  FPL_DEVICE = 60,     /* no usable GPU, or the driver failed */
  FPL_VERIFY = 70,     /* a check of results found a difference */
  FPL_INTERNAL = 90,   /* a bug */
  FPL_NO_MEMORY = 91
};

/* Message sink, owned by the caller. The first failure writes it; callers may prepend context. */
struct fpl_err {
  enum fpl_status code;
  char text[512];
};

/* Writes the message (truncated at the sink's size, control characters as '?': it is one line) and
 * returns `code`. `err` may be NULL. */
enum fpl_status fpl_fail(struct fpl_err *err, enum fpl_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "context: " before the message in the sink. */
void fpl_err_prefix(struct fpl_err *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
