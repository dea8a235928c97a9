/* The page's frame: plans.html, each {{mark}} of it replaced by what it names. */
#include "tuner/cli/page.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_DEVICES = 256 };

static bool add_device(void *context, const struct fpl_device *d) {
  struct fpl_page *const page = context;
  page->devices[page->n_devices++] = *d;
  return page->n_devices < MOST_DEVICES;
}

enum fpl_status fpl_page_init(struct fpl_page *page, struct fpl_arena *arena,
                              const struct fpl_paths *paths, struct fpl_err *err) {
  *page =
      (struct fpl_page){.devices = fpl_arena_alloc(arena, MOST_DEVICES * sizeof *page->devices)};
  if (!page->devices)
    return fpl_fail(err, FPL_NO_MEMORY, "out of memory");
  return fpl_paths_each_device(arena, paths, add_device, page, err);
}

void fpl_page_free(struct fpl_page *page) {
  free(page->plans);
  *page = (struct fpl_page){0};
}

static void set_floor(const struct fpl_page *page, struct fpl_page_plan *p) {
  for (size_t i = 0; i < page->n_devices; i++) {
    const struct fpl_device *const d = &page->devices[i];
    if (strcmp(d->name, p->plan.device_name) != 0)
      continue;
    p->bytes_us = fpl_problem_min_bytes(&p->plan.problem) / d->hbm_bytes_per_us;
    p->flops_us = fpl_problem_flops(&p->plan.problem) / d->tensor_flops_per_us;
    p->floor_us = fmax(p->bytes_us, p->flops_us);
  }
}

enum fpl_status fpl_page_add(void *context, const struct fpl_plan *plan, struct fpl_err *err) {
  struct fpl_page *const page = context;
  if (page->n == page->capacity) {
    const size_t capacity = page->capacity ? 2 * page->capacity : 64;
    struct fpl_page_plan *const grown = realloc(page->plans, capacity * sizeof *grown);
    if (!grown)
      return fpl_fail(err, FPL_NO_MEMORY, "out of memory");
    page->plans = grown;
    page->capacity = capacity;
  }
  struct fpl_page_plan *const p = &page->plans[page->n++];
  *p = (struct fpl_page_plan){.plan = *plan};
  set_floor(page, p);
  return FPL_OK;
}

double fpl_page_speedup(const struct fpl_page_plan *p) {
  const double speedup = p->plan.library_us / p->plan.measured_us;
  return p->plan.measured_us > 0 && isfinite(speedup) ? speedup : 0;
}

void fpl_html_text(struct fpl_text *out, const char *text) {
  for (const char *at = text; *at; at++) {
    const char *const entity = *at == '&'                                               ? "&amp;"
                               : *at == '<'                                             ? "&lt;"
                               : *at == '>'                                             ? "&gt;"
                               : *at == '"'                                             ? "&quot;"
                               : *at == '\''                                            ? "&#39;"
                               : (unsigned char)*at < ' ' && *at != '\n' && *at != '\t' ? "&#65533;"
                                                                                        : NULL;
    if (entity)
      fpl_text_append(out, "%s", entity);
    else
      fpl_text_append_bytes(out, at, 1);
  }
}

void fpl_page_date(int64_t unix_seconds, char out[FPL_PAGE_DATE]) {
  const time_t seconds = (time_t)unix_seconds;
  const struct tm *const utc = gmtime(&seconds);
  if (!utc || strftime(out, FPL_PAGE_DATE, "%Y-%m-%d", utc) == 0)
    snprintf(out, FPL_PAGE_DATE, "-");
}

/* One sentence on all of it. */
static void write_summary(const struct fpl_page *page, struct fpl_text *out) {
  size_t n_measured = 0, n_library = 0;
  double log_sum = 0;
  int64_t oldest_unix = INT64_MAX, newest_unix = 0;
  for (size_t i = 0; i < page->n; i++) {
    const struct fpl_plan *const plan = &page->plans[i].plan;
    const double speedup = fpl_page_speedup(&page->plans[i]);
    n_library += plan->is_library;
    if (speedup > 0) {
      n_measured++;
      log_sum += log(speedup);
    }
    oldest_unix = plan->created_unix < oldest_unix ? plan->created_unix : oldest_unix;
    newest_unix = plan->created_unix > newest_unix ? plan->created_unix : newest_unix;
  }
  fpl_text_append(out, "%zu plans", page->n);
  if (page->n == 0)
    return;
  char oldest[FPL_PAGE_DATE], newest[FPL_PAGE_DATE];
  fpl_page_date(oldest_unix, oldest);
  fpl_page_date(newest_unix, newest);
  fpl_text_append(out, ", %zu of them the library pair; the oldest of %s, the newest of %s.",
                  n_library, oldest, newest);
  if (n_measured > 0)
    fpl_text_append(out,
                    " Of the %zu measured beside the library, the geometric mean of the speed-ups"
                    " is %.2f.",
                    n_measured, exp(log_sum / (double)n_measured));
}

static void write_file(const char *name, struct fpl_text *out) {
  for (size_t i = 0; i < fpl_n_page_files; i++)
    if (strcmp(fpl_page_files[i].name, name) == 0)
      fpl_text_append_bytes(out, fpl_page_files[i].text, fpl_page_files[i].length);
}

static void write_css(const struct fpl_page *page, struct fpl_text *out) {
  (void)page;
  write_file("tuner/cli/page/plans.css", out);
}

static void write_script(const struct fpl_page *page, struct fpl_text *out) {
  (void)page;
  write_file("tuner/cli/page/plans.js", out);
}

static const struct {
  const char *mark; /* as it stands in plans.html */
  void (*write)(const struct fpl_page *page, struct fpl_text *out);
} marks[] = {{"{{style}}", write_css},
             {"{{script}}", write_script},
             {"{{summary}}", write_summary},
             {"{{plot}}", fpl_page_plot},
             {"{{table}}", fpl_page_table}};

static int by_speedup(const void *a, const void *b) {
  const struct fpl_page_plan *const x = a, *const y = b;
  const double x_gain = fpl_page_speedup(x), y_gain = fpl_page_speedup(y);
  if (x_gain != y_gain)
    return x_gain < y_gain ? 1 : -1;
  char x_text[FPL_PROBLEM_TEXT], y_text[FPL_PROBLEM_TEXT];
  fpl_problem_text(&x->plan.problem, x_text);
  fpl_problem_text(&y->plan.problem, y_text);
  const int order = strcmp(x_text, y_text);
  return order != 0 ? order : strcmp(x->plan.device_name, y->plan.device_name);
}

enum fpl_status fpl_page_write(struct fpl_page *page, struct fpl_text *out, struct fpl_err *err) {
  if (page->n > 0)
    qsort(page->plans, page->n, sizeof *page->plans, by_speedup);
  struct fpl_text frame = {0};
  write_file("tuner/cli/page/plans.html", &frame);
  const char *at = frame.text ? frame.text : "";
  for (const char *open; (open = strstr(at, "{{")) != NULL;) {
    fpl_text_append_bytes(out, at, (size_t)(open - at));
    at = open + 2;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
      if (strncmp(open, marks[i].mark, strlen(marks[i].mark)) == 0) {
        marks[i].write(page, out);
        at = open + strlen(marks[i].mark);
      }
  }
  fpl_text_append(out, "%s", at);
  const bool is_broken = frame.is_broken || out->is_broken;
  fpl_text_free(&frame);
  return is_broken ? fpl_fail(err, FPL_NO_MEMORY, "out of memory") : FPL_OK;
}
