#include "tuner/base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What a user typed or a file holds may be quoted in a message, which is one line all the same. */
static void keep_one_line(char *text) {
  for (; *text; text++)
    if ((unsigned char)*text < 0x20 || *text == 0x7f)
      *text = '?';
}

enum fpl_status fpl_fail(struct fpl_err *err, enum fpl_status code, const char *format, ...) {
  if (err) {
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    keep_one_line(err->text);
    err->code = code;
  }
  return code;
}

void fpl_err_prefix(struct fpl_err *err, const char *format, ...) {
  if (!err)
    return;
  char text[2 * sizeof err->text];
  va_list args;
  va_start(args, format);
  const int length = vsnprintf(text, sizeof err->text, format, args);
  va_end(args);
  size_t used = length < 0 ? 0 : (size_t)length;
  if (used >= sizeof err->text)
    used = sizeof err->text - 1;
  snprintf(text + used, sizeof text - used, ": %s", err->text);
  memcpy(err->text, text, sizeof err->text - 1);
  err->text[sizeof err->text - 1] = '\0';
  keep_one_line(err->text);
}
