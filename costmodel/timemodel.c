/* Time of a candidate: two streams of work in waves of the clusters that fit, and between them what
 * cannot overlap. The terms carry the numbers of MODEL.md section 3. */
#include "costmodel/timemodel.h"

#include "costmodel/work.h"
#include "tuner/base/str.h"

/* Threads of a block that issue copies: the 4 warps of a producer warpgroup (4 producers: 62 ns a
 * copy, 1: 213 ns; H200, bulk-copy micro-benchmark). */
static const double PRODUCERS = 4;

/* How far a fused kernel brings its weights into L2 ahead of the ring, and who does so
 * (codegen/skeletons/chain_sm90.cuh, prefetch_bytes and producer_warps). */
enum { PREFETCH_BYTES = 96 << 10, LONG_RING = 4, LONG_RING_WARPS = 4, SHORT_RING_WARPS = 2 };

/* The next eight constants: fitted to 1457 candidates of 18 problems, NVIDIA H200, CUDA 13.0,
 * 2026-11-30; the first two were set by hand, the others refitted (MODEL.md 3.9). */

/* A ring slot from its release to its data: wait, issue, latency of L2 under load. */
static const double SLOT_US = 1.02;

/* A stage at its consumers beside the products: wait, fence, commit, wait for the stage before. */
static const double STAGE_US = 0.05;

/* Share of HBM's time that the ring of a fused kernel waits for beside its own turns. The rows of
 * the two-phase kernel in MODEL.md 3.9 are met without: there it is 0. */
static const double HBM_SHARE = 0.68;

/* Sums of C through the activation into place. */
static const double FINISH_C_US = 0.49;

/* An E tile from sums to staging, fence, start of the pushes or adds. */
static const double STAGE_E_US = 0.65;

/* A unit's adds complete, fence, counter. */
static const double SETTLE_US = 1.77;

/* One block reads a workspace tile, leaves zeros and stores E. */
static const double COLLECT_BYTES_PER_US = 41e3;

/* The copy engine's time for a row of a stage (of 32, 64 or 128 bytes) that it first brings into L2
 * and then into the ring. */
static const double TWICE_ROW_US = 1.83e-3;

/* Exchange l2: 2.1 us from C stored to the first product, less a barrier of 0.9 us (H200, hand-written
 * kernel with a grid barrier; flags take as long in all, MODEL.md 3.6). */
static const double RELOAD_C_US = 1.2;

/* Data that SMs of both halves of the chip read lies in both halves of L2. */
static const double L2_COPIES = 2;

struct chip {
  int64_t clusters;        /* that run at once, one block an SM */
  double dsm_bytes_per_us; /* into one SM */
};

/* One product as the waves see it. */
struct stream {
  const struct fpl_work *work;
  double slots;       /* of the ring */
  double hbm_repeats; /* how often the weights come from HBM */
  double hbm_share;   /* of HBM's time, beside the ring's turns */
  double row_us;      /* of the copy engine, average of the stages */
};

/* Time that GEMM1's weights may use before its first product. */
struct gap {
  double us;          /* of one unit */
  bool is_every_unit; /* else in the first wave only */
};

static struct chip describe_chip(const struct fpl_device *d, int64_t blocks) {
  const int index = fpl_cluster_index(blocks);
  const int64_t sms = fpl_max_i64(blocks, d->active_sms[index]);
  const struct chip c = {sms / blocks, d->dsm_bytes_per_us[index] / (double)sms};
  return c;
}

static double larger(double a, double b) {
  return a > b ? a : b;
}

static double smaller(double a, double b) {
  return a < b ? a : b;
}

/* MODEL.md 3.3: how often the weights come from HBM. Rows of a later m step find them in L2 if they
 * run in the same wave, or if the weights fit. */
static double hbm_repeats(const struct fpl_problem *p, const struct fpl_schedule *s,
                          const struct fpl_device *d, const struct fpl_tiling *t,
                          const struct chip *chip) {
  const int64_t m_steps = t->steps[FPL_DIM_M];
  if (m_steps == 1 || t->units <= chip->clusters || !fpl_loops_get(s->loops)->is_spatial[FPL_DIM_M])
    return 1;
  const double weight_bytes =
      (double)FPL_ELEMENT_BYTES * (double)p->n * (double)(fpl_problem_branches(p) * p->k + p->l);
  const double resident = (double)d->l2_bytes / L2_COPIES / weight_bytes;
  if (resident >= 1)
    return 1;
  const double apart = smaller(1, (double)(t->units / m_steps) / (double)chip->clusters);
  return 1 + (double)(m_steps - 1) * apart * (1 - resident);
}

/* MODEL.md 3.4: the copy engine's time for a row, averaged over a unit's stages: those that do not
 * fit into the ring come over L2 first, if that reaches beyond a producer's next stage. */
static double row_us(const struct fpl_schedule *s, const struct fpl_footprint *f, double stages) {
  const int64_t warps = s->stages >= LONG_RING ? LONG_RING_WARPS : SHORT_RING_WARPS;
  if (fpl_is_two_phase(s) || PREFETCH_BYTES / f->stage_bytes <= warps || stages <= s->stages)
    return 0;
  return TWICE_ROW_US * (1 - s->stages / stages);
}

/* MODEL.md 3.4: adds `times` waves of `clusters` clusters to `out`; returns the time of the ring
 * that the gap hid. */
static double add_waves(const struct fpl_device *d, const struct stream *x, double times,
                        int64_t clusters, double gap_us, struct fpl_product_terms *out) {
  if (times <= 0 || clusters <= 0)
    return 0;
  const struct fpl_work *const w = x->work;
  const double n = (double)clusters;
  const double hbm_us = x->hbm_repeats * n * w->hbm_bytes / d->hbm_bytes_per_us;
  const double l2_us = n * (w->l2_shared_bytes / d->l2_shared_bytes_per_us +
                            w->l2_disjoint_bytes / d->l2_disjoint_bytes_per_us);
  const double smem_us = w->smem_bytes * (double)d->sms / d->smem_bytes_per_us;
  const double consume_us = larger(smem_us, w->tensor_us) + w->stages * STAGE_US;
  const double turn_us =
      w->stages * SLOT_US + w->load_bytes / d->sm_ingress_bytes_per_us + consume_us;
  const double ring_us = turn_us / x->slots + x->hbm_share * hbm_us;
  const double filled = smaller(1, x->slots / w->stages);
  const double hidden_us = smaller(gap_us, filled * ring_us);
  const double issue_us =
      larger(w->copies * d->copy_issue_us / PRODUCERS, w->copy_rows * x->row_us);
  const double chip_us = larger(larger(hbm_us - smaller(gap_us, filled * hbm_us), l2_us), issue_us);
  out->hbm_us += times * hbm_us;
  out->l2_us += times * l2_us;
  out->issue_us += times * issue_us;
  out->smem_us += times * smem_us;
  out->tensor_us += times * w->tensor_us;
  out->consume_us += times * consume_us;
  out->ring_us += times * (ring_us - hidden_us);
  out->stream_us += times * larger(larger(ring_us - hidden_us, consume_us), chip_us);
  return times * hidden_us;
}

static int64_t count_waves(const struct chip *chip, int64_t units) {
  return fpl_ceil_div(units, chip->clusters);
}

/* All waves of one product: full ones, then one of the clusters that are left. Returns what the gap
 * hid. */
static double stream(const struct fpl_device *d, const struct chip *chip, const struct stream *x,
                     struct gap gap, struct fpl_product_terms *out) {
  const int64_t full = x->work->units / chip->clusters, left = x->work->units % chip->clusters;
  const double later_us = gap.is_every_unit ? gap.us : 0;
  const bool is_first_full = full > 0;
  double hidden_us = 0;
  if (is_first_full) {
    hidden_us += add_waves(d, x, 1, chip->clusters, gap.us, out);
    hidden_us += add_waves(d, x, (double)(full - 1), chip->clusters, later_us, out);
  }
  hidden_us += add_waves(d, x, 1, left, is_first_full ? later_us : gap.us, out);
  return hidden_us;
}

/* MODEL.md 3.5, one unit: C from sums to the place where GEMM1 reads it. */
static double exchange_us(const struct fpl_schedule *s, const struct fpl_device *d,
                          const struct fpl_tiling *t, const struct chip *chip,
                          const struct fpl_traffic *v) {
  const double bytes = (v->dsm.all_exchange + v->dsm.shuffle) / (double)(t->units * t->blocks);
  double run_us = FINISH_C_US;
  if (s->cls_k > 1)
    run_us += d->dsm_latency_us;
  if (t->shuffle > 1 && !fpl_is_two_phase(s))
    run_us += d->dsm_latency_us;
  return (double)t->c_steps * run_us + (bytes > 0 ? bytes / chip->dsm_bytes_per_us : 0);
}

/* MODEL.md 3.6 */
static double handover_us(const struct fpl_schedule *s, const struct fpl_device *d,
                          double launch_us) {
  if (s->exchange == FPL_EXCHANGE_L2)
    return d->grid_barrier_us + RELOAD_C_US;
  return s->exchange == FPL_EXCHANGE_HBM ? d->tail_us + launch_us + d->fill_us : 0;
}

/* MODEL.md 3.7, all waves. */
static double reduce_us(const struct fpl_schedule *s, const struct fpl_device *d,
                        const struct fpl_tiling *t, const struct chip *chip,
                        const struct fpl_traffic *v) {
  const double waves = (double)count_waves(chip, t->units_gemm1);
  const double rounds = waves * (double)t->e_rounds;
  const bool uses_dsm = s->reduce == FPL_REDUCE_DSM || s->reduce == FPL_REDUCE_DSM_L2;
  const bool uses_l2 = s->reduce == FPL_REDUCE_L2 || s->reduce == FPL_REDUCE_DSM_L2;
  const double dsm_bytes = v->dsm.reduce_scatter / (double)(t->units_gemm1 * t->blocks);
  double us = dsm_bytes > 0 ? waves * dsm_bytes / chip->dsm_bytes_per_us : 0;
  if (s->reduce != FPL_REDUCE_NONE) /* dsm_l2 stages the cluster's sum again, for the adds */
    us += rounds * STAGE_E_US * (s->reduce == FPL_REDUCE_DSM_L2 ? 2 : 1);
  if (uses_dsm)
    us += rounds * d->dsm_latency_us;
  if (uses_l2) {
    const double share = uses_dsm ? 1 / (double)t->groups : 1;
    const double workspace_bytes = 2.0 * s->blk_m * s->blk_l * (double)sizeof(float) * share;
    us += waves * SETTLE_US + v->l2_reduce_bytes / d->l2_reduce_bytes_per_us +
          (double)t->e_rounds * workspace_bytes / COLLECT_BYTES_PER_US;
  }
  return us;
}

double fpl_time_us(const struct fpl_problem *p, const struct fpl_schedule *s,
                   const struct fpl_device *d, const struct fpl_tiling *t,
                   const struct fpl_footprint *f, const struct fpl_traffic *traffic,
                   struct fpl_time_terms *out) {
  const struct chip chip = describe_chip(d, t->blocks);
  struct fpl_work work[FPL_PRODUCTS];
  fpl_work_make(p, s, d, t, traffic, work);
  struct fpl_time_terms x = {0};
  x.launch_us = t->blocks > 1 ? d->cluster_launch_us : d->launch_us;
  x.fill_us = d->fill_us;
  const double unit_exchange_us = exchange_us(s, d, t, &chip, traffic);
  x.exchange_us = (double)count_waves(&chip, t->units) * unit_exchange_us;
  x.handover_us = handover_us(s, d, x.launch_us);
  x.reduce_us = reduce_us(s, d, t, &chip, traffic);
  const struct gap none = {0, false};
  struct gap gap = {unit_exchange_us, true};
  if (fpl_is_two_phase(s)) /* a second kernel starts with an empty ring */
    gap = s->exchange == FPL_EXCHANGE_L2 ? (struct gap){x.handover_us, false} : none;
  const double repeats = hbm_repeats(p, s, d, t, &chip);
  const double share = fpl_is_two_phase(s) ? 0 : HBM_SHARE;
  const double twice_us = row_us(s, f, work[FPL_GEMM0].stages + work[FPL_GEMM1].stages);
  const struct stream s0 = {&work[FPL_GEMM0], s->stages, repeats, share, twice_us};
  const double slots1 = fpl_is_two_phase(s) ? (double)f->stages_e : s->stages;
  const struct stream s1 = {&work[FPL_GEMM1], slots1, repeats, share, twice_us};
  stream(d, &chip, &s0, none, &x.gemm0);
  x.prefetch_us = stream(d, &chip, &s1, gap, &x.gemm1);
  x.total_us = x.launch_us + x.fill_us + x.gemm0.stream_us + x.exchange_us + x.handover_us +
               x.gemm1.stream_us + x.reduce_us;
  if (out)
    *out = x;
  return x.total_us;
}

double fpl_time_plain_us(const struct fpl_device *d, const struct fpl_schedule *s,
                         const struct fpl_traffic *traffic) {
  const int64_t blocks = (int64_t)s->cls_m * s->cls_n * s->cls_k;
  const double rates[FPL_LEVELS] = {d->register_bytes_per_us, d->smem_bytes_per_us,
                                    d->dsm_bytes_per_us[fpl_cluster_index(blocks)],
                                    d->l2_disjoint_bytes_per_us, d->hbm_bytes_per_us};
  double most_us = 0;
  for (int level = 0; level < FPL_LEVELS; level++)
    if (traffic->bytes[level] > 0)
      most_us = larger(most_us, traffic->bytes[level] / rates[level]);
  return most_us;
}

static double estimate(void *self, const struct fpl_problem *p, const struct fpl_schedule *s,
                       const struct fpl_device *d, const struct fpl_tiling *t,
                       const struct fpl_footprint *f) {
  (void)self;
  struct fpl_traffic traffic;
  fpl_analyze(p, s, t, f, &traffic);
  return fpl_time_us(p, s, d, t, f, &traffic, NULL);
}

static double estimate_plain(void *self, const struct fpl_problem *p, const struct fpl_schedule *s,
                             const struct fpl_device *d, const struct fpl_tiling *t,
                             const struct fpl_footprint *f) {
  (void)self;
  struct fpl_traffic traffic;
  fpl_analyze(p, s, t, f, &traffic);
  return fpl_time_plain_us(d, s, &traffic);
}

struct fpl_cost_port fpl_cost_port(void) {
  return (struct fpl_cost_port){NULL, estimate};
}

struct fpl_cost_port fpl_cost_plain_port(void) {
  return (struct fpl_cost_port){NULL, estimate_plain};
}
