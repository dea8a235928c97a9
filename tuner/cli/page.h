/* The page of plans (`show --html`): one HTML file that needs nothing beside itself.
 *
 * Its skeleton (frame, style, script) is in tuner/cli/page/, embedded at build; C writes the data:
 * page.c the frame's marks, page_table.c the table, page_plot.c the plot. Equal databases give
 * equal bytes. */
#ifndef FPL_CLI_PAGE_H
#define FPL_CLI_PAGE_H

#include "tuner/base/arena.h"
#include "tuner/base/embedded.h"
#include "tuner/base/str.h"
#include "tuner/cli/paths.h"
#include "tuner/core/plan.h"

extern const struct fpl_embedded_file fpl_page_files[];
extern const size_t fpl_n_page_files;

/* A plan, and the least time that its device's rates allow: all 0 without a profile of it. */
struct fpl_page_plan {
  struct fpl_plan plan;
  double bytes_us; /* least bytes at the memory's measured rate */
  double flops_us; /* operations at the tensor rate */
  double floor_us; /* the larger */
};

/* All-zero is a page without plans. */
struct fpl_page {
  struct fpl_page_plan *plans; /* heap */
  size_t n, capacity;
  struct fpl_device *devices; /* of the profiles, in the arena of fpl_page_init */
  size_t n_devices;
};

/* Reads the device profiles; those that cannot be read are passed over. After FPL_IO (no profiles)
 * the page can be written, without floors. */
enum fpl_status fpl_page_init(struct fpl_page *page, struct fpl_arena *arena,
                              const struct fpl_paths *paths, struct fpl_err *err);
void fpl_page_free(struct fpl_page *page);
/* Keeps a copy; for fpl_db_each_plan (`context` is the page). The cubin must not be loaded. */
enum fpl_status fpl_page_add(void *context, const struct fpl_plan *plan, struct fpl_err *err);
/* Sorts the plans, largest speed-up first, and appends the page. Errors: FPL_NO_MEMORY. */
enum fpl_status fpl_page_write(struct fpl_page *page, struct fpl_text *out, struct fpl_err *err);

/* library / plan, cold; 0 when either was not measured. */
double fpl_page_speedup(const struct fpl_page_plan *p);

/* The day, UTC: "2026-12-01"; "-" for a time that no calendar holds. */
enum { FPL_PAGE_DATE = 16 };
void fpl_page_date(int64_t unix_seconds, char out[FPL_PAGE_DATE]);

/* The parts. */
void fpl_page_table(const struct fpl_page *page, struct fpl_text *out);
void fpl_page_plot(const struct fpl_page *page, struct fpl_text *out);

/* Appends text so that HTML shows it and runs none of it, in elements and in quoted attributes;
 * control characters become U+FFFD. */
void fpl_html_text(struct fpl_text *out, const char *text);

#endif
