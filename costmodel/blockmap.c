/* Block addresses. */
#include "costmodel/blockmap.h"

struct fpl_block_address fpl_block_at(const struct fpl_schedule *s, const struct fpl_tiling *t,
                                      int64_t rank) {
  struct fpl_block_address at = {0};
  at.ik = rank % s->cls_k;
  at.in = rank / s->cls_k % s->cls_n;
  at.im = rank / s->cls_k / s->cls_n;
  at.ir = at.in / t->shuffle;
  at.il = at.ik * t->shuffle + at.in % t->shuffle;
  return at;
}

int64_t fpl_block_rank_gemm0(const struct fpl_schedule *s, int64_t im, int64_t in, int64_t ik) {
  return (im * s->cls_n + in) * s->cls_k + ik;
}

int64_t fpl_block_rank_gemm1(const struct fpl_schedule *s, const struct fpl_tiling *t, int64_t im,
                             int64_t il, int64_t ir) {
  const int64_t in = ir * t->shuffle + il % t->shuffle;
  return fpl_block_rank_gemm0(s, im, in, il / t->shuffle);
}
