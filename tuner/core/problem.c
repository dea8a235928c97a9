/* Canonical problems and their text form. */
#define _POSIX_C_SOURCE 200809L
#include "tuner/core/problem.h"

#include "tuner/base/str.h"

#include <stdio.h>
#include <string.h>

const char *const fpl_kind_names[] = {"gemm_chain", "gated_ffn", "conv_chain", NULL};
const char *const fpl_dtype_names[] = {"f16", "bf16", NULL};
const char *const fpl_act_names[] = {"none", "relu", "gelu", "silu", NULL};

static const int64_t most_extent = INT32_MAX;

static enum fpl_status check_extent(const char *name, int64_t value, struct fpl_err *err) {
  if (value >= 1 && value <= most_extent)
    return FPL_OK;
  return fpl_fail(err, FPL_USAGE, "%s is %lld: it must lie between 1 and %lld", name,
                  (long long)value, (long long)most_extent);
}

static enum fpl_status check_product(const char *name, int64_t a, int64_t b, int64_t c,
                                     struct fpl_err *err) {
  uint64_t product = 0;
  if (fpl_mul_u64((uint64_t)a, (uint64_t)b, &product) &&
      fpl_mul_u64(product, (uint64_t)c, &product) && product <= UINT64_C(1) << 62)
    return FPL_OK;
  return fpl_fail(err, FPL_USAGE, "%s overflows: it must not exceed 2^62", name);
}

static enum fpl_status derive_conv(const struct fpl_conv *conv, struct fpl_problem *p,
                                   struct fpl_err *err) {
  const struct {
    const char *name;
    int64_t value;
  } extents[] = {
      {"batch", conv->batch}, {"ic", conv->ic}, {"h", conv->h}, {"w", conv->w}, {"k1", conv->k1}};
  for (size_t i = 0; i < sizeof extents / sizeof *extents; i++) {
    const enum fpl_status status = check_extent(extents[i].name, extents[i].value, err);
    if (status != FPL_OK)
      return status;
  }
  if (conv->k1 % 2 == 0 || conv->k1 > 15)
    return fpl_fail(err, FPL_USAGE, "k1 is %lld: it must be odd and at most 15",
                    (long long)conv->k1);
  enum fpl_status status = check_product("batch*h*w", conv->batch, conv->h, conv->w, err);
  if (status != FPL_OK)
    return status;
  p->conv = *conv;
  p->m = conv->batch * conv->h * conv->w;
  p->k = conv->ic * conv->k1 * conv->k1;
  return FPL_OK;
}

enum fpl_status fpl_problem_make(enum fpl_kind kind, enum fpl_dtype dtype, enum fpl_act act,
                                 int64_t m, int64_t n, int64_t k, int64_t l,
                                 const struct fpl_conv *conv, struct fpl_problem *out,
                                 struct fpl_err *err) {
  struct fpl_problem p = {.kind = kind, .dtype = dtype, .act = act, .m = m, .n = n, .k = k, .l = l};
  if ((kind == FPL_KIND_CONV_CHAIN) != (conv != NULL))
    return fpl_fail(err, FPL_USAGE, "%s %s conv geometry (batch ic h w k1)", fpl_kind_names[kind],
                    conv ? "takes no" : "needs");
  if (conv) {
    const enum fpl_status status = derive_conv(conv, &p, err);
    if (status != FPL_OK)
      return status;
  }
  const struct {
    const char *name;
    int64_t value;
  } extents[] = {{"m", p.m}, {"n", p.n}, {"k", p.k}, {"l", p.l}};
  for (size_t i = 0; i < sizeof extents / sizeof *extents; i++) {
    const enum fpl_status status = check_extent(extents[i].name, extents[i].value, err);
    if (status != FPL_OK)
      return status;
  }
  enum fpl_status status = check_product("m*n*k", p.m, p.n, p.k, err);
  if (status == FPL_OK)
    status = check_product("m*n*l", p.m, p.n, p.l, err);
  if (status == FPL_OK)
    *out = p;
  return status;
}

static void put_number(struct fpl_line *line, const char *name, int64_t value) {
  fpl_line_text(line, name);
  fpl_line_i64(line, value);
}

void fpl_problem_text(const struct fpl_problem *p, char out[FPL_PROBLEM_TEXT]) {
  struct fpl_line line = fpl_line_start(out, FPL_PROBLEM_TEXT);
  fpl_line_text(&line, fpl_kind_names[p->kind]);
  put_number(&line, " m=", p->m);
  put_number(&line, " n=", p->n);
  put_number(&line, " k=", p->k);
  put_number(&line, " l=", p->l);
  fpl_line_text(&line, " dtype=");
  fpl_line_text(&line, fpl_dtype_names[p->dtype]);
  fpl_line_text(&line, " act=");
  fpl_line_text(&line, fpl_act_names[p->act]);
  if (p->kind != FPL_KIND_CONV_CHAIN)
    return;
  put_number(&line, " batch=", p->conv.batch);
  put_number(&line, " ic=", p->conv.ic);
  put_number(&line, " h=", p->conv.h);
  put_number(&line, " w=", p->conv.w);
  put_number(&line, " k1=", p->conv.k1);
}

/* Fields of the text form while it is read. */
struct fields {
  int64_t m, n, k, l, batch, ic, h, w, k1;
  int dtype, act;
  unsigned seen;
};

static enum fpl_status read_field(const char *word, struct fields *f, struct fpl_err *err) {
  static const char *const names[] = {"m", "n", "k",  "l",     "batch", "ic",
                                      "h", "w", "k1", "dtype", "act",   NULL};
  char name[16];
  const char *const equals = strchr(word, '=');
  if (!equals || (size_t)(equals - word) >= sizeof name)
    return fpl_fail(err, FPL_PARSE, "problem field '%s' is not name=value", word);
  memcpy(name, word, (size_t)(equals - word));
  name[equals - word] = '\0';
  const int index = fpl_name_index(names, name);
  if (index < 0)
    return fpl_fail(err, FPL_PARSE, "problem field '%s' is unknown", name);
  if (f->seen & 1u << index)
    return fpl_fail(err, FPL_PARSE, "problem field '%s' stands twice", name);
  f->seen |= 1u << index;
  const char *const value = equals + 1;
  int64_t *const extents[] = {&f->m, &f->n, &f->k, &f->l, &f->batch, &f->ic, &f->h, &f->w, &f->k1};
  bool is_good = false;
  if (index < 9) {
    is_good = fpl_parse_i64(value, 1, INT64_MAX, extents[index]);
  } else {
    int *const out = index == 9 ? &f->dtype : &f->act;
    *out = fpl_name_index(index == 9 ? fpl_dtype_names : fpl_act_names, value);
    is_good = *out >= 0;
  }
  return is_good ? FPL_OK
                 : fpl_fail(err, FPL_PARSE, "problem field %s has bad value '%s'", name, value);
}

enum fpl_status fpl_problem_parse(const char *text, struct fpl_problem *out, struct fpl_err *err) {
  char copy[FPL_PROBLEM_TEXT];
  if (strlen(text) >= sizeof copy)
    return fpl_fail(err, FPL_PARSE, "problem text is longer than %d characters",
                    FPL_PROBLEM_TEXT - 1);
  strcpy(copy, text);
  char *rest = NULL;
  const char *const kind_name = strtok_r(copy, " ", &rest);
  const int kind = kind_name ? fpl_name_index(fpl_kind_names, kind_name) : -1;
  if (kind < 0)
    return fpl_fail(err, FPL_PARSE, "problem kind '%s' is unknown", kind_name ? kind_name : "");
  struct fields f = {0};
  for (const char *word; (word = strtok_r(NULL, " ", &rest));) {
    const enum fpl_status status = read_field(word, &f, err);
    if (status != FPL_OK)
      return status;
  }
  const bool is_conv = kind == FPL_KIND_CONV_CHAIN;
  const unsigned need = is_conv ? 0x7ffu : 0x60fu;
  if (f.seen != need)
    return fpl_fail(err, FPL_PARSE, "problem text '%s' lacks a field or has one too many", text);
  const struct fpl_conv conv = {f.batch, f.ic, f.h, f.w, f.k1};
  struct fpl_problem p;
  const enum fpl_status status =
      fpl_problem_make((enum fpl_kind)kind, (enum fpl_dtype)f.dtype, (enum fpl_act)f.act, f.m, f.n,
                       f.k, f.l, is_conv ? &conv : NULL, &p, err);
  if (status != FPL_OK)
    return err ? (err->code = FPL_PARSE) : FPL_PARSE;
  if (p.m != f.m || p.k != f.k)
    return fpl_fail(err, FPL_PARSE, "problem text '%s': m or k contradicts the conv geometry",
                    text);
  *out = p;
  return FPL_OK;
}

void fpl_problem_key(const struct fpl_problem *p, char out[FPL_KEY_HEX]) {
  char text[FPL_PROBLEM_TEXT];
  fpl_problem_text(p, text);
  fpl_hash_key(text, out);
}

double fpl_problem_flops(const struct fpl_problem *p) {
  return 2.0 * (double)p->m * (double)p->n *
         ((double)fpl_problem_branches(p) * (double)p->k + (double)p->l);
}

int64_t fpl_problem_a_elements(const struct fpl_problem *p) {
  return p->m * (fpl_problem_has_image(p) ? p->conv.ic : p->k);
}

/* Pixels of a line of `extent` that the k1 taps of all of its pixels fall upon. */
static int64_t taps_inside(int64_t extent, int64_t k1) {
  int64_t n = 0;
  for (int64_t shift = -(k1 - 1) / 2; shift <= (k1 - 1) / 2; shift++)
    n += fpl_max_i64(0, extent - (shift < 0 ? -shift : shift));
  return n;
}

int64_t fpl_problem_a_reads(const struct fpl_problem *p) {
  const struct fpl_conv *const conv = &p->conv;
  if (!fpl_problem_has_image(p))
    return p->m * p->k;
  return conv->batch * taps_inside(conv->h, conv->k1) * taps_inside(conv->w, conv->k1) * conv->ic;
}

double fpl_problem_min_bytes(const struct fpl_problem *p) {
  const double m = (double)p->m, n = (double)p->n, k = (double)p->k, l = (double)p->l;
  const double a = (double)fpl_problem_a_elements(p);
  return FPL_ELEMENT_BYTES * (a + (double)fpl_problem_branches(p) * k * n + n * l + m * l);
}

bool fpl_problem_equals(const struct fpl_problem *a, const struct fpl_problem *b) {
  return a->kind == b->kind && a->dtype == b->dtype && a->act == b->act && a->m == b->m &&
         a->n == b->n && a->k == b->k && a->l == b->l && a->conv.batch == b->conv.batch &&
         a->conv.ic == b->conv.ic && a->conv.h == b->conv.h && a->conv.w == b->conv.w &&
         a->conv.k1 == b->conv.k1;
}

bool fpl_problem_is_same_family(const struct fpl_problem *a, const struct fpl_problem *b) {
  return a->kind == b->kind && a->dtype == b->dtype && a->act == b->act && a->n == b->n &&
         a->k == b->k && a->l == b->l && a->conv.k1 == b->conv.k1 &&
         (a->conv.k1 <= 1 || (a->conv.h == b->conv.h && a->conv.w == b->conv.w));
}
