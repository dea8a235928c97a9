/* The page's table: one body for each plan, of a row of numbers and a row that opens to the rest. */
#include "tuner/cli/page.h"

#include <stdarg.h>
#include <stdio.h>

/* `text` empty: nothing to show. `value` counts in number columns alone. */
struct cell {
  char text[FPL_KERNEL_NAME];
  double value;
};

static void put(struct cell *cell, double value, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void put(struct cell *cell, double value, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(cell->text, sizeof cell->text, format, args);
  va_end(args);
  cell->value = value;
}

static void put_count(struct cell *cell, int64_t count) {
  put(cell, (double)count, "%lld", (long long)count);
}

/* A time or a ratio; 0 was not taken. */
static void put_measured(struct cell *cell, double value) {
  if (value > 0)
    put(cell, value, "%.2f", value);
}

static void fill_id(const struct fpl_page_plan *p, struct cell *out) {
  char key[FPL_KEY_HEX];
  fpl_problem_key(&p->plan.problem, key);
  put(out, 0, "%.8s", key);
}
static void fill_kind(const struct fpl_page_plan *p, struct cell *out) {
  put(out, 0, "%s", fpl_kind_names[p->plan.problem.kind]);
}
static void fill_dtype(const struct fpl_page_plan *p, struct cell *out) {
  put(out, 0, "%s", fpl_dtype_names[p->plan.problem.dtype]);
}
static void fill_act(const struct fpl_page_plan *p, struct cell *out) {
  put(out, 0, "%s", fpl_act_names[p->plan.problem.act]);
}
static void fill_m(const struct fpl_page_plan *p, struct cell *out) {
  put_count(out, p->plan.problem.m);
}
static void fill_n(const struct fpl_page_plan *p, struct cell *out) {
  put_count(out, p->plan.problem.n);
}
static void fill_k(const struct fpl_page_plan *p, struct cell *out) {
  put_count(out, p->plan.problem.k);
}
static void fill_l(const struct fpl_page_plan *p, struct cell *out) {
  put_count(out, p->plan.problem.l);
}
static void fill_device(const struct fpl_page_plan *p, struct cell *out) {
  put(out, 0, "%s", p->plan.device_name);
}
static void fill_winner(const struct fpl_page_plan *p, struct cell *out) {
  const struct fpl_plan *const plan = &p->plan;
  put(out, 0, "%s",
      plan->is_library       ? "library"
      : plan->kernel.name[0] ? plan->kernel.name
                             : "not compiled");
}
static void fill_cold(const struct fpl_page_plan *p, struct cell *out) {
  put_measured(out, p->plan.measured_us);
}
static void fill_hot(const struct fpl_page_plan *p, struct cell *out) {
  put_measured(out, p->plan.measured_hot_us);
}
static void fill_library(const struct fpl_page_plan *p, struct cell *out) {
  put_measured(out, p->plan.library_us);
}
static void fill_speedup(const struct fpl_page_plan *p, struct cell *out) {
  put_measured(out, fpl_page_speedup(p));
}
static void fill_floor(const struct fpl_page_plan *p, struct cell *out) {
  const double share = p->plan.measured_us > 0 ? p->floor_us / p->plan.measured_us : 0;
  if (share > 0)
    put(out, share, "%.0f %%", 100 * share);
}
static void fill_provenance(const struct fpl_page_plan *p, struct cell *out) {
  put(out, 0, "%s", fpl_provenance_names[p->plan.provenance]);
}
static void fill_evidence(const struct fpl_page_plan *p, struct cell *out) {
  put(out, (double)p->plan.n_ok, "%lld / %lld", (long long)p->plan.n_ok,
      (long long)p->plan.n_candidates);
}
static void fill_date(const struct fpl_page_plan *p, struct cell *out) {
  char date[FPL_PAGE_DATE];
  fpl_page_date(p->plan.created_unix, date);
  put(out, 0, "%s", date);
}

/* `key` names the column in a fragment (#sort=speedup) and in the filter (speedup>1.2). */
static const struct {
  const char *key, *title, *meaning;
  void (*fill)(const struct fpl_page_plan *p, struct cell *out);
  bool is_number;
  bool is_largest_first; /* when first sorted by */
} columns[] = {
    {"id", "id", "problem: fuseplan show --problem ID lists its candidates", fill_id, 0, 0},
    {"kind", "kind", "what is computed", fill_kind, 0, 0},
    {"dtype", "dtype", "element type", fill_dtype, 0, 0},
    {"act", "act", "activation between the products", fill_act, 0, 0},
    {"m", "m", "rows of A, C and E", fill_m, 1, 0},
    {"n", "n", "columns of C", fill_n, 1, 0},
    {"k", "k", "columns of A", fill_k, 1, 0},
    {"l", "l", "columns of E", fill_l, 1, 0},
    {"device", "device", "profile of the device class", fill_device, 0, 0},
    {"winner", "winner", "entry of the kernel, or the library pair", fill_winner, 0, 0},
    {"cold", "cold us", "median, inputs from memory, microseconds", fill_cold, 1, 0},
    {"hot", "hot us", "median, the same inputs again and again, microseconds", fill_hot, 1, 0},
    {"library", "library us", "library pair in the same run, cold, microseconds", fill_library, 1,
     0},
    {"speedup", "speed-up", "library time / cold time", fill_speedup, 1, 1},
    {"floor", "floor share", "least time by the device's measured rates / cold time", fill_floor, 1,
     1},
    {"provenance", "provenance", "measured, predicted, simulated: in order of trust",
     fill_provenance, 0, 0},
    {"ok", "ok / tried", "candidates verified and measured, of those tried", fill_evidence, 1, 1},
    {"date", "date", "day on which the plan was made, UTC", fill_date, 0, 1}};
enum { N_COLUMNS = sizeof columns / sizeof *columns };

static void write_head(struct fpl_text *out) {
  fpl_text_append(out, "<thead><tr>\n");
  for (int i = 0; i < N_COLUMNS; i++) {
    fpl_text_append(out,
                    "<th scope=\"col\" data-key=\"%s\" data-first=\"%s\" class=\"%s\" title=\"",
                    columns[i].key, columns[i].is_largest_first ? "down" : "up",
                    columns[i].is_number ? "number" : "word");
    fpl_html_text(out, columns[i].meaning);
    fpl_text_append(out, "\">%s</th>\n", columns[i].title);
  }
  fpl_text_append(out, "</tr></thead>\n");
}

static void write_cells(const struct fpl_page_plan *p, struct fpl_text *out) {
  fpl_text_append(out, "<tr>");
  for (int i = 0; i < N_COLUMNS; i++) {
    struct cell cell = {.text = ""};
    columns[i].fill(p, &cell);
    const char *const tag = i == 0 ? "th" : "td"; /* the first names the row */
    fpl_text_append(out, "<%s%s%s", tag, i == 0 ? " scope=\"row\"" : "",
                    columns[i].is_number ? " class=\"number\"" : "");
    if (columns[i].is_number && cell.text[0])
      fpl_text_append(out, " data-value=\"%.10g\"", cell.value);
    fpl_text_append(out, ">");
    fpl_html_text(out, cell.text[0] ? cell.text : "-");
    fpl_text_append(out, "</%s>", tag);
  }
  fpl_text_append(out, "</tr>\n");
}

/* What opens: lists of names and values, each under its title. */
static void open_list(struct fpl_text *out, const char *title) {
  fpl_text_append(out, "<section><h3>%s</h3><dl>\n", title);
}
static void close_list(struct fpl_text *out) {
  fpl_text_append(out, "</dl></section>\n");
}
static void add_text(struct fpl_text *out, const char *name, const char *value) {
  fpl_text_append(out, "<dt>");
  fpl_html_text(out, name);
  fpl_text_append(out, "</dt><dd>");
  fpl_html_text(out, value);
  fpl_text_append(out, "</dd>\n");
}
static void add_count(struct fpl_text *out, const char *name, int64_t value) {
  fpl_text_append(out, "<dt>%s</dt><dd>%lld</dd>\n", name, (long long)value);
}
static void add_us(struct fpl_text *out, const char *name, double us) {
  if (us > 0)
    fpl_text_append(out, "<dt>%s</dt><dd>%.3f us</dd>\n", name, us);
}

static void write_times(const struct fpl_page_plan *p, struct fpl_text *out) {
  open_list(out, "Times");
  add_us(out, "measured, cold", p->plan.measured_us);
  add_us(out, "measured, hot", p->plan.measured_hot_us);
  add_us(out, "library, cold", p->plan.library_us);
  add_us(out, "library, hot", p->plan.library_hot_us);
  add_us(out, "estimated", p->plan.est_us);
  add_us(out, "floor of the bytes", p->bytes_us);
  add_us(out, "floor of the operations", p->flops_us);
  close_list(out);
}

static void write_schedule(const struct fpl_schedule *s, struct fpl_text *out) {
  open_list(out, "Schedule");
  for (int i = 0; i < FPL_N_FIELDS; i++) {
    const struct fpl_schedule_field *const f = &fpl_schedule_fields[i];
    const int32_t value = fpl_schedule_get(s, i);
    if (f->names)
      add_text(out, f->name, f->names[value]);
    else
      add_count(out, f->name, value);
  }
  close_list(out);
}

static void write_kernel(const struct fpl_kernel *k, int64_t m, struct fpl_text *out) {
  open_list(out, "Kernel");
  add_text(out, "name", k->name);
  add_text(out, "family", k->family);
  add_count(out, "grid, blocks", fpl_kernel_grid(k, m));
  add_count(out, "cluster, blocks", k->cluster);
  add_count(out, "block, threads", k->block_threads);
  add_count(out, "shared memory, bytes", k->smem_bytes);
  add_count(out, "workspace, bytes", fpl_kernel_workspace_bytes(k, m));
  add_count(out, "registers of a thread", k->registers);
  add_count(out, "spilled bytes", k->spill_bytes);
  add_text(out, "launch", fpl_kernel_is_cooperative(k) ? "cooperative" : "plain");
  add_text(out, "SHA-256", k->sha);
  close_list(out);
}

static void write_environment(const struct fpl_environment *e, struct fpl_text *out) {
  open_list(out, "Environment");
  for (int i = 0; i < e->n_fields; i++)
    add_text(out, e->fields[i].name, e->fields[i].value);
  close_list(out);
}

static void write_details(const struct fpl_page_plan *p, struct fpl_text *out) {
  const struct fpl_plan *const plan = &p->plan;
  char problem[FPL_PROBLEM_TEXT];
  fpl_problem_text(&plan->problem, problem);
  fpl_text_append(out, "<tr class=\"more\"><td colspan=\"%d\"><details><summary>", N_COLUMNS);
  if (!plan->is_library)
    fpl_text_append(out, "%s/%s: ", fpl_exchange_names[plan->schedule.exchange],
                    fpl_reduce_names[plan->schedule.reduce]);
  fpl_html_text(out, plan->reason);
  fpl_text_append(out, "</summary>\n<p>%s. %s</p>\n<div class=\"lists\">\n", problem,
                  fpl_plan_is_deterministic(plan)
                      ? "Deterministic: the same inputs give the same bits every time."
                      : "Not deterministic: bits may differ from run to run.");
  write_times(p, out);
  if (!plan->is_library)
    write_schedule(&plan->schedule, out);
  if (!plan->is_library && plan->kernel.cluster > 0)
    write_kernel(&plan->kernel, plan->problem.m, out);
  if (plan->environment.n_fields > 0)
    write_environment(&plan->environment, out);
  fpl_text_append(out, "</div></details></td></tr>\n");
}

void fpl_page_table(const struct fpl_page *page, struct fpl_text *out) {
  fpl_text_append(out,
                  "<table id=\"plans\">\n<caption>Plans, largest speed-up first; times in "
                  "microseconds. The line below a plan says why it won, and opens.</caption>\n");
  write_head(out);
  for (size_t i = 0; i < page->n; i++) {
    fpl_text_append(out, "<tbody id=\"plan-%lld\">\n", (long long)page->plans[i].plan.id);
    write_cells(&page->plans[i], out);
    write_details(&page->plans[i], out);
    fpl_text_append(out, "</tbody>\n");
  }
  fpl_text_append(out, "</table>");
}
