/* Problem: what is to be computed.
 *
 *   gemm_chain   C[m,n] = act(A[m,k] . B[k,n]);               E[m,l] = C[m,n] . D[n,l]
 *   gated_ffn    C[m,n] = act(A . Bgate) * (A . Bup);         E[m,l] = C . D
 *   conv_chain   the chain above in im2col form: m = batch*h*w, n = oc1, k = ic*k1*k1, l = oc2;
 *                conv1 is k1 x k1 with stride 1 and padding (k1-1)/2, conv2 is 1 x 1 (FlashFuser,
 *                Tables V to VII)
 *
 * A, E: row-major [rows][columns]. Weights as PyTorch's Linear stores them: B is [n][k] (gated:
 * Bgate's n rows, then Bup's n rows), D is [l][n]. All of `dtype`; sums in f32.
 * Canonical when made: equal problems have equal text and equal keys.
 */
#ifndef FPL_CORE_PROBLEM_H
#define FPL_CORE_PROBLEM_H

#include "tuner/base/hash.h"
#include "tuner/base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum fpl_kind { FPL_KIND_GEMM_CHAIN, FPL_KIND_GATED_FFN, FPL_KIND_CONV_CHAIN };
enum fpl_dtype { FPL_DTYPE_F16, FPL_DTYPE_BF16 };
/* gelu is the tanh form, as cuBLASLt's epilogue computes it. */
enum fpl_act { FPL_ACT_NONE, FPL_ACT_RELU, FPL_ACT_GELU, FPL_ACT_SILU };

/* NULL-terminated, indexed by the enums above. */
extern const char *const fpl_kind_names[];
extern const char *const fpl_dtype_names[];
extern const char *const fpl_act_names[];

/* Geometry of a conv_chain; all zero for other kinds. */
struct fpl_conv {
  int64_t batch, ic, h, w, k1;
};

struct fpl_problem {
  enum fpl_kind kind;
  enum fpl_dtype dtype;
  enum fpl_act act;
  int64_t m, n, k, l;
  struct fpl_conv conv;
};

enum { FPL_PROBLEM_TEXT = 256 };

/* Checks and canonicalises. For conv_chain pass `conv` and leave m and k 0 (they are derived); for
 * other kinds `conv` is NULL. Errors: FPL_USAGE naming the field: an extent < 1 or > 2^31-1, m*n*k
 * or m*n*l above 2^62, an even k1. */
enum fpl_status fpl_problem_make(enum fpl_kind kind, enum fpl_dtype dtype, enum fpl_act act,
                                 int64_t m, int64_t n, int64_t k, int64_t l,
                                 const struct fpl_conv *conv, struct fpl_problem *out,
                                 struct fpl_err *err);

/* "gemm_chain m=128 n=3072 k=768 l=768 dtype=f16 act=relu"; conv_chain adds
 * "batch= ic= h= w= k1=". */
void fpl_problem_text(const struct fpl_problem *p, char out[FPL_PROBLEM_TEXT]);
/* The inverse; FPL_PARSE naming the field. */
enum fpl_status fpl_problem_parse(const char *text, struct fpl_problem *out, struct fpl_err *err);
/* Key: hash of the text. */
void fpl_problem_key(const struct fpl_problem *p, char out[FPL_KEY_HEX]);

/* Matrices B holds: 2 for gated_ffn, else 1. */
static inline int fpl_problem_branches(const struct fpl_problem *p) {
  return p->kind == FPL_KIND_GATED_FFN ? 2 : 1;
}
/* Whether A is an image, of which GEMM0 reads the im2col matrix; with k1 = 1 that is the image. */
static inline bool fpl_problem_has_image(const struct fpl_problem *p) {
  return p->conv.k1 > 1;
}
/* Elements of A in memory, and elements of it that GEMM0 reads for one n tile: those of the im2col
 * matrix that fall upon the image. Both are m k without an image. */
int64_t fpl_problem_a_elements(const struct fpl_problem *p);
int64_t fpl_problem_a_reads(const struct fpl_problem *p);
bool fpl_problem_equals(const struct fpl_problem *a, const struct fpl_problem *b);
/* All but m equal, so that one kernel runs both: of an image, only the batch may differ. */
bool fpl_problem_is_same_family(const struct fpl_problem *a, const struct fpl_problem *b);
/* Bytes of one element of A, B, C, D, E. */
enum { FPL_ELEMENT_BYTES = 2 };

/* Operations: 2 m n (branches k + l). */
double fpl_problem_flops(const struct fpl_problem *p);
/* Least bytes through memory: A, B, D read once, E written once; a conv's A is its raw input.
 * Source: reference roofline, 2(MK + gKN + NL + ML). */
double fpl_problem_min_bytes(const struct fpl_problem *p);

#endif
