#include "tuner/base/str.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reserve(struct fpl_text *text, size_t extra) {
  if (text->is_broken)
    return false;
  const size_t need = text->length + extra + 1;
  if (need <= text->capacity)
    return true;
  size_t capacity = text->capacity ? text->capacity : 128;
  while (capacity < need)
    capacity *= 2;
  char *const grown = realloc(text->text, capacity);
  if (!grown) {
    text->is_broken = true;
    return false;
  }
  text->text = grown;
  text->capacity = capacity;
  return true;
}

void fpl_text_append(struct fpl_text *text, const char *format, ...) {
  va_list args;
  va_start(args, format);
  va_list again;
  va_copy(again, args);
  const int length = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (length < 0)
    text->is_broken = true;
  else if (reserve(text, (size_t)length)) {
    vsnprintf(text->text + text->length, (size_t)length + 1, format, again);
    text->length += (size_t)length;
  }
  va_end(again);
}

void fpl_text_append_bytes(struct fpl_text *text, const char *bytes, size_t length) {
  if (!reserve(text, length))
    return;
  if (length > 0)
    memcpy(text->text + text->length, bytes, length);
  text->length += length;
  text->text[text->length] = '\0';
}

void fpl_text_free(struct fpl_text *text) {
  free(text->text);
  *text = (struct fpl_text){0};
}

bool fpl_parse_i64(const char *text, int64_t least, int64_t most, int64_t *out) {
  const char *digits = text;
  if (*digits == '-')
    digits++;
  if (*digits == '\0' || strspn(digits, "0123456789") != strlen(digits))
    return false;
  if (digits[0] == '0' && (digits[1] != '\0' || text[0] == '-'))
    return false;
  errno = 0;
  const long long value = strtoll(text, NULL, 10);
  if (errno != 0 || value < least || value > most)
    return false;
  *out = value;
  return true;
}

bool fpl_parse_f64(const char *text, double *out) {
  if (*text == '\0' || strspn(text, "0123456789+-.eE") != strlen(text))
    return false;
  char *end = NULL;
  const double value = strtod(text, &end);
  if (*end != '\0' || !isfinite(value))
    return false;
  *out = value;
  return true;
}

int fpl_name_index(const char *const *names, const char *name) {
  for (int i = 0; names[i]; i++)
    if (strcmp(names[i], name) == 0)
      return i;
  return -1;
}

bool fpl_mul_u64(uint64_t a, uint64_t b, uint64_t *out) {
  return !__builtin_mul_overflow(a, b, out);
}

bool fpl_add_u64(uint64_t a, uint64_t b, uint64_t *out) {
  return !__builtin_add_overflow(a, b, out);
}

void fpl_copy_bytes(char *out, size_t size, const char *bytes, size_t length) {
  const size_t n = length < size ? length : size - 1;
  memcpy(out, bytes, n);
  out[n] = '\0';
}

struct fpl_line fpl_line_start(char *out, size_t size) {
  *out = '\0';
  return (struct fpl_line){.at = out, .end = out + size - 1};
}

/* Byte by byte: names are a few bytes long. */
void fpl_line_text(struct fpl_line *line, const char *text) {
  char *at = line->at;
  while (at < line->end && *text)
    *at++ = *text++;
  *at = '\0';
  line->at = at;
}

void fpl_line_i64(struct fpl_line *line, int64_t value) {
  char digits[24];
  char *at = &digits[sizeof digits - 1];
  uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
  *at = '\0';
  do
    *--at = (char)('0' + rest % 10);
  while (rest /= 10);
  if (value < 0)
    *--at = '-';
  fpl_line_text(line, at);
}
