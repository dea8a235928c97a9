/* TAP lines of a program: one "ok" or "not ok" each, counted, and the plan at the end. */
#ifndef FPL_TESTS_GPU_TAP_H
#define FPL_TESTS_GPU_TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

static struct { int n_told, n_failed; } tap;

/* The line's text, formatted. At once on the stream: what comes after may hang. */
static void tap_tell(bool is_ok, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void tap_tell(bool is_ok, const char *format, ...) {
  va_list arguments;
  tap.n_told++;
  tap.n_failed += !is_ok;
  printf("%sok %d - ", is_ok ? "" : "not ", tap.n_told);
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  printf("\n");
  fflush(stdout);
}

static inline void tap_skip(const char *what, const char *reason) {
  printf("ok %d - %s # SKIP %s\n", ++tap.n_told, what, reason);
}

/* Exit status of the program. */
static int tap_end(void) {
  printf("1..%d\n", tap.n_told);
  return tap.n_failed > 0;
}

#endif
