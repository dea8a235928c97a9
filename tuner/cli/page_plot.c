/* The page's plot: measured time against the floor of each plan, both axes logarithmic. */
#include "tuner/cli/page.h"

#include <math.h>

/* In units of the SVG's view box. */
enum { WIDTH = 860, HEIGHT = 460, LEFT = 62, RIGHT = 16, TOP = 34, BOTTOM = 48 };

struct axis {
  double least_us, most_us;
  double from, to; /* where they lie; `from` is larger on the vertical axis */
};

/* Marks by kind, drawn around a point; shapes, so that colour is not needed to tell them apart. */
static const char *const shapes[] = {[FPL_KIND_GEMM_CHAIN] = "m-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0z",
                                     [FPL_KIND_GATED_FFN] = "m-4.5-4.5h9v9h-9z",
                                     [FPL_KIND_CONV_CHAIN] = "m0-5.5l5.5 10h-11z"};
static const enum fpl_kind kinds[] = {FPL_KIND_GEMM_CHAIN, FPL_KIND_GATED_FFN, FPL_KIND_CONV_CHAIN};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

/* What a logarithmic axis can hold; a stored number may be any. */
static bool is_time(double us) {
  return us > 1e-9 && us < 1e12;
}

static bool has_point(const struct fpl_page_plan *p) {
  return is_time(p->floor_us) && is_time(p->plan.measured_us);
}

static double position(const struct axis *a, double us) {
  const double share = log(us / a->least_us) / log(a->most_us / a->least_us);
  return a->from + share * (a->to - a->from);
}

/* The tick 1, 2 or 5 times a power of ten at or below a time, and the next above. */
static double tick_below_us(double us) {
  const double decade = pow(10, floor(log10(us) + 1e-9));
  const double lead = us / decade * (1 + 1e-9);
  return decade * (lead >= 5 ? 5 : lead >= 2 ? 2 : 1);
}
static double tick_above_us(double us) {
  return tick_below_us(tick_below_us(us) * 2.5);
}

static void widen(struct axis *a, double us) {
  a->least_us = fmin(a->least_us, us);
  a->most_us = fmax(a->most_us, us);
}

/* Rounds outwards to ticks, so that no point lies on the frame. */
static void round_axis(struct axis *a) {
  a->least_us = tick_below_us(a->least_us / 1.1);
  a->most_us = tick_above_us(a->most_us * 1.1);
}

static void write_ticks(const struct axis *x, const struct axis *y, struct fpl_text *out) {
  for (double us = x->least_us; us < x->most_us * 1.01; us = tick_above_us(us))
    fpl_text_append(out,
                    "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/><text x=\"%.1f\" y=\"%.1f\" "
                    "text-anchor=\"middle\">%g</text>\n",
                    position(x, us), y->from, y->to, position(x, us), y->from + 17, us);
  for (double us = y->least_us; us < y->most_us * 1.01; us = tick_above_us(us))
    fpl_text_append(out,
                    "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/><text x=\"%.1f\" y=\"%.1f\" "
                    "text-anchor=\"end\">%g</text>\n",
                    x->from, position(y, us), x->to, x->from - 7, position(y, us) + 4, us);
  fpl_text_append(
      out,
      "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">floor, us: the least bytes at the "
      "memory's rate, or the operations at the tensor rate</text>\n"
      "<text transform=\"translate(15 %.1f) rotate(-90)\" text-anchor=\"middle\">measured, "
      "cold, us</text>\n",
      (x->from + x->to) / 2, HEIGHT - 10, (y->from + y->to) / 2);
}

/* measured = times x floor, as far as it lies in the frame. */
static void write_line(const struct axis *x, const struct axis *y, int times,
                       struct fpl_text *out) {
  const double least_us = fmax(x->least_us, y->least_us / times);
  const double most_us = fmin(x->most_us, y->most_us / times);
  if (least_us >= most_us)
    return;
  fpl_text_append(
      out,
      "<path class=\"%s\" d=\"M%.1f %.1fL%.1f %.1f\"/><text class=\"of-line\" x=\"%.1f\" "
      "y=\"%.1f\">%s</text>\n",
      times == 1 ? "floor" : "times", position(x, least_us), position(y, times * least_us),
      position(x, most_us), position(y, times * most_us), position(x, least_us) + 8,
      position(y, times * least_us) - 3,
      times == 1   ? "floor"
      : times == 2 ? "2 x floor"
                   : "4 x floor");
}

static void write_point(const struct axis *x, const struct axis *y, const struct fpl_page_plan *p,
                        struct fpl_text *out) {
  const struct fpl_plan *const plan = &p->plan;
  const bool is_of_bytes = p->bytes_us >= p->flops_us;
  const double at_x = position(x, p->floor_us), at_y = position(y, plan->measured_us);
  char problem[FPL_PROBLEM_TEXT];
  fpl_problem_text(&plan->problem, problem);
  fpl_text_append(out, "<a href=\"#plan-%lld\"><title>%s on ", (long long)plan->id, problem);
  fpl_html_text(out, plan->device_name);
  fpl_text_append(out, ": %.2f us, %.0f %% of it the floor of its %s; library %.2f us</title>",
                  plan->measured_us, 100 * p->floor_us / plan->measured_us,
                  is_of_bytes ? "bytes" : "operations", plan->library_us);
  if (is_time(plan->library_us))
    fpl_text_append(out, "<path class=\"gap\" d=\"M%.1f %.1fV%.1f\"/>", at_x, at_y,
                    position(y, plan->library_us));
  fpl_text_append(out, "<path class=\"point %s%s\" d=\"M%.1f %.1f%s\"/></a>\n",
                  fpl_kind_names[plan->problem.kind], is_of_bytes ? "" : " of-operations", at_x,
                  at_y, shapes[plan->problem.kind]);
}

static void write_legend(const struct axis *x, struct fpl_text *out) {
  double at = x->from + 6;
  for (int i = 0; i < N_KINDS; i++) {
    fpl_text_append(
        out, "<path class=\"point %s\" d=\"M%.1f 16%s\"/><text x=\"%.1f\" y=\"20\">%s</text>\n",
        fpl_kind_names[kinds[i]], at, shapes[kinds[i]], at + 10, fpl_kind_names[kinds[i]]);
    at += 110;
  }
  fpl_text_append(out,
                  "<text x=\"%.1f\" y=\"20\">hollow: the operations set the floor; thin line: up "
                  "to the library's time</text>\n",
                  at);
}

void fpl_page_plot(const struct fpl_page *page, struct fpl_text *out) {
  struct axis x = {.least_us = INFINITY, .from = LEFT, .to = WIDTH - RIGHT};
  struct axis y = {.least_us = INFINITY, .from = HEIGHT - BOTTOM, .to = TOP};
  size_t n = 0;
  for (size_t i = 0; i < page->n; i++) {
    const struct fpl_page_plan *const p = &page->plans[i];
    if (!has_point(p))
      continue;
    n++;
    widen(&x, p->floor_us);
    widen(&y, p->plan.measured_us);
    if (is_time(p->plan.library_us))
      widen(&y, p->plan.library_us);
  }
  if (n == 0) {
    fpl_text_append(out,
                    "<p>No plot: no plan was measured on a device that has a profile here.</p>");
    return;
  }
  round_axis(&x);
  round_axis(&y);
  fpl_text_append(
      out,
      "<svg viewBox=\"0 0 %d %d\" role=\"group\" aria-label=\"Measured time against the "
      "floor of %zu plans\">\n",
      WIDTH, HEIGHT, n);
  write_ticks(&x, &y, out);
  for (int times = 1; times <= 4; times *= 2)
    write_line(&x, &y, times, out);
  for (size_t i = 0; i < page->n; i++)
    if (has_point(&page->plans[i]))
      write_point(&x, &y, &page->plans[i], out);
  write_legend(&x, out);
  fpl_text_append(out, "</svg>");
}
