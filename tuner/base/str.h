/* Text building and number parsing with range checks. */
#ifndef FPL_BASE_STR_H
#define FPL_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Growing text; all-zero is empty. `text` is NUL-terminated once anything was appended. A failed
 * allocation sets `is_broken`, and later appends do nothing: check it once, at the end. */
struct fpl_text {
  char *text;
  size_t length;
  size_t capacity;
  bool is_broken;
};

void fpl_text_append(struct fpl_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void fpl_text_append_bytes(struct fpl_text *text, const char *bytes, size_t length);
void fpl_text_free(struct fpl_text *text);

/* As many of the bytes as fit, and a NUL. */
void fpl_copy_bytes(char *out, size_t size, const char *bytes, size_t length);

/* A text of fixed size in the making, always closed by NUL; what does not fit is left out. A lookup
 * fills its answers with it: printf takes longer than the search. */
struct fpl_line {
  char *at; /* where the closing NUL stands */
  char *end;
};
struct fpl_line fpl_line_start(char *out, size_t size); /* size >= 1 */
void fpl_line_text(struct fpl_line *line, const char *text);
void fpl_line_i64(struct fpl_line *line, int64_t value);

/* Decimal integer, the whole of `text`, least <= value <= most. No sign but '-', no blanks, no
 * leading zeros (an octal-looking number is refused). */
bool fpl_parse_i64(const char *text, int64_t least, int64_t most, int64_t *out);

/* Decimal or scientific number, the whole of `text`; NaN and infinities are refused. */
bool fpl_parse_f64(const char *text, double *out);

/* Index of `name` in a NULL-terminated list, or -1. */
int fpl_name_index(const char *const *names, const char *name);

/* Sums and products that report overflow. */
bool fpl_mul_u64(uint64_t a, uint64_t b, uint64_t *out);
bool fpl_add_u64(uint64_t a, uint64_t b, uint64_t *out);

static inline int64_t fpl_ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
static inline int64_t fpl_round_up(int64_t a, int64_t multiple) {
  return fpl_ceil_div(a, multiple) * multiple;
}
static inline int64_t fpl_min_i64(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static inline int64_t fpl_max_i64(int64_t a, int64_t b) {
  return a > b ? a : b;
}

#endif
