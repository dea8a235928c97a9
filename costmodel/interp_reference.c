/* Plain loops. */
#include "costmodel/interp_reference.h"

#include "costmodel/element.h"

#include <math.h>

/* SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t draw(uint64_t *state) {
  *state += UINT64_C(0x9e3779b97f4a7c15);
  uint64_t z = *state;
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

/* What the matrices of one problem are drawn from. */
struct source {
  const struct fpl_problem *p;
  enum fpl_interp_values values;
  uint64_t state;
  struct fpl_arena *arena;
};

static float *draw_matrix(struct source *source, int64_t n, double scale) {
  float *const at = fpl_arena_alloc(source->arena, (size_t)n * sizeof *at);
  for (int64_t i = 0; at && i < n; i++) {
    const uint64_t bits = draw(&source->state);
    const double real = ldexp((double)(bits >> 11), -52) - 1;
    at[i] = source->values == FPL_INTERP_INTEGERS
                ? (float)((int)(bits % 3) - 1)
                : fpl_element_round(source->p->dtype, (float)(real * scale));
  }
  return at;
}

/* Where the image has (image, y, x, channel); -1 in the padding. */
static int64_t raw_index(const struct fpl_conv *conv, int64_t image, int64_t y, int64_t x,
                         int64_t channel) {
  if (y < 0 || y >= conv->h || x < 0 || x >= conv->w)
    return -1;
  return ((image * conv->h + y) * conv->w + x) * conv->ic + channel;
}

static void make_im2col(const struct fpl_problem *p, struct fpl_arena *arena,
                        struct fpl_interp_inputs *out) {
  const struct fpl_conv *const conv = &p->conv;
  const int64_t k1 = conv->k1, pixels = conv->h * conv->w;
  const size_t n = (size_t)(p->m * p->k);
  out->a = fpl_arena_alloc(arena, n * sizeof *out->a);
  out->a_raw = fpl_arena_alloc(arena, n * sizeof *out->a_raw);
  for (int64_t row = 0; out->a && out->a_raw && row < p->m; row++)
    for (int64_t col = 0; col < p->k; col++) {
      const int64_t tap = col / conv->ic;
      const int64_t y = row % pixels / conv->w + tap / k1 - (k1 - 1) / 2;
      const int64_t x = row % conv->w + tap % k1 - (k1 - 1) / 2;
      const int64_t from = raw_index(conv, row / pixels, y, x, col % conv->ic);
      out->a_raw[row * p->k + col] = from;
      out->a[row * p->k + col] = from < 0 ? 0 : out->raw[from];
    }
}

enum fpl_status fpl_interp_inputs_make(const struct fpl_problem *p, enum fpl_interp_values values,
                                       uint64_t seed, struct fpl_arena *arena,
                                       struct fpl_interp_inputs *out, struct fpl_err *err) {
  const bool is_conv = p->kind == FPL_KIND_CONV_CHAIN;
  const int branches = fpl_problem_branches(p);
  const double k_scale = 1 / sqrt((double)p->k), n_scale = 1 / sqrt((double)p->n);
  struct source source = {p, values, seed, arena};
  struct fpl_interp_inputs inputs = {0};
  if (is_conv)
    inputs.raw = draw_matrix(&source, p->m * p->conv.ic, 1);
  if (!is_conv)
    inputs.a = draw_matrix(&source, p->m * p->k, 1);
  else if (inputs.raw)
    make_im2col(p, arena, &inputs);
  for (int i = 0; i < branches; i++)
    inputs.b[i] = draw_matrix(&source, p->n * p->k, k_scale);
  inputs.d = draw_matrix(&source, p->l * p->n, n_scale);
  if (!inputs.a || (is_conv && !inputs.a_raw) || !inputs.b[0] || !inputs.b[branches - 1] ||
      !inputs.d)
    return fpl_fail(err, FPL_NO_MEMORY, "interpreter: out of memory for the inputs");
  *out = inputs;
  return FPL_OK;
}

static double dot(const float *x, const float *y, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++)
    sum += (double)x[i] * (double)y[i];
  return sum;
}

/* Output channel n of the first convolution at one pixel (row of m). */
static double convolve(const struct fpl_problem *p, const float *raw, const float *weights,
                       int64_t row) {
  const struct fpl_conv *const conv = &p->conv;
  const int64_t image = row / (conv->h * conv->w), pixel = row % (conv->h * conv->w);
  const int64_t pad = (conv->k1 - 1) / 2;
  double sum = 0;
  for (int64_t dy = 0; dy < conv->k1; dy++)
    for (int64_t dx = 0; dx < conv->k1; dx++)
      for (int64_t channel = 0; channel < conv->ic; channel++) {
        const int64_t from =
            raw_index(conv, image, pixel / conv->w + dy - pad, pixel % conv->w + dx - pad, channel);
        if (from >= 0)
          sum += (double)raw[from] * (double)weights[(dy * conv->k1 + dx) * conv->ic + channel];
      }
  return sum;
}

static float c_at(const struct fpl_problem *p, const struct fpl_interp_inputs *in, int64_t row,
                  int64_t col) {
  const float *const weights = in->b[0] + col * p->k;
  const double sum = p->kind == FPL_KIND_CONV_CHAIN ? convolve(p, in->raw, weights, row)
                                                    : dot(in->a + row * p->k, weights, p->k);
  double c = fpl_act_apply(p->act, sum);
  if (p->kind == FPL_KIND_GATED_FFN)
    c *= dot(in->a + row * p->k, in->b[1] + col * p->k, p->k);
  return fpl_element_round(p->dtype, (float)c);
}

enum fpl_status fpl_interp_reference(const struct fpl_problem *p,
                                     const struct fpl_interp_inputs *inputs,
                                     struct fpl_arena *arena, float **out, struct fpl_err *err) {
  float *const c_row = fpl_arena_alloc(arena, (size_t)p->n * sizeof *c_row);
  float *const e = fpl_arena_alloc(arena, (size_t)(p->m * p->l) * sizeof *e);
  if (!c_row || !e)
    return fpl_fail(err, FPL_NO_MEMORY, "interpreter: out of memory for the reference");
  for (int64_t row = 0; row < p->m; row++) {
    for (int64_t n = 0; n < p->n; n++)
      c_row[n] = c_at(p, inputs, row, n);
    for (int64_t l = 0; l < p->l; l++)
      e[row * p->l + l] =
          fpl_element_round(p->dtype, (float)dot(c_row, inputs->d + l * p->n, p->n));
  }
  *out = e;
  return FPL_OK;
}
