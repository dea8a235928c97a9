/* Time of a candidate: two streams of work in waves of the clusters that fit, and between them what
 * cannot overlap. The terms carry the numbers of MODEL.md section 3. */
#include "costmodel/timemodel.h"

#include "costmodel/work.h"
#include "tuner/base/str.h"

/* Threads of a block that issue copies: the 4 warps of a producer warpgroup (4 producers: 62 ns a
 * copy, 1: 213 ns; H200, bulk-copy micro-benchmark). */
static const double PRODUCERS = 4;

/* HBM read rate against bytes in flight over all SMs: 132 x 48 KB give the full rate, 132 x 24 KB
 * give 3.9 of 4.5 TB/s (H200, bulk-copy micro-benchmark). */
static const double FULL_IN_FLIGHT_BYTES = 132.0 * 48 * 1024;
static const double HALF_IN_FLIGHT_SHARE = 3.9 / 4.5;

/* Fixed part of one exchange or reduce over DSM: stage, fence, push, wait, add. E of G4, S8, S2
 * took 1.3, 1.8, 2.3 us for 12, 24, 36 KB received in clusters of 4: bytes / rate leave 0.8 us, of
 * which 0.1 us is the latency (H200, hand-written kernel with exchange l2). */
static const double EXCHANGE_FIXED_US = 0.7;

/* Sums of C through the activation into place: last product to C stored 0.5 us for 128 x 32 to
 * 128 x 96 (H200, the same kernel, rows S8, S2, S3). */
static const double FINISH_C_US = 0.5;

/* First C tile after the grid barrier: 2.1 us from C stored to the first product, less a barrier of
 * 0.9 us (H200, the same kernel). */
static const double RELOAD_C_US = 1.2;

/* Adds complete, fence, counter, first workspace read: four dependent trips to L2 of 470 cycles
 * (FlashFuser Fig. 4, latency of global memory). */
static const double LAST_ADDER_US = 1.1;

/* Streams against the micro-benchmark's rates: a row in a graph took 2.4, 2.5, 4.0, 7.1 us longer
 * than a lone run, at streams of 5, 8, 19, 71 us (H200, the same kernel, rows G4, S8, S2, S3). The
 * slope is this share; launch and tail cover the rest. */
static const double SLACK_SHARE = 0.07;

struct chip {
  int64_t blocks;          /* of a cluster */
  int64_t clusters;        /* that run at once, one block an SM */
  double dsm_bytes_per_us; /* into one SM */
};

/* Time that GEMM1's weights may use before its first product. */
struct gap {
  double us;          /* of one unit */
  bool is_every_unit; /* else in the first wave only */
};

static struct chip describe_chip(const struct fpl_device *d, int64_t blocks) {
  const int index = fpl_cluster_index(blocks);
  const int64_t sms = fpl_max_i64(blocks, d->active_sms[index]);
  const struct chip c = {blocks, sms / blocks, d->dsm_bytes_per_us[index] / (double)sms};
  return c;
}

static double larger(double a, double b) {
  return a > b ? a : b;
}

static double smaller(double a, double b) {
  return a < b ? a : b;
}

/* MODEL.md 3.3 */
static double hbm_rate(const struct fpl_device *d, double in_flight_bytes) {
  const double part = in_flight_bytes / FULL_IN_FLIGHT_BYTES;
  const double half = HALF_IN_FLIGHT_SHARE;
  if (part >= 1)
    return d->hbm_bytes_per_us;
  return d->hbm_bytes_per_us * (part < 0.5 ? 2 * part * half : half + (2 * part - 1) * (1 - half));
}

/* MODEL.md 3.4: adds `times` waves of `clusters` clusters to `out`; returns the time of HBM that
 * the gap hid. */
static double add_waves(const struct fpl_device *d, const struct chip *chip,
                        const struct fpl_work *w, double times, int64_t clusters, double gap_us,
                        struct fpl_product_terms *out) {
  if (times <= 0 || clusters <= 0)
    return 0;
  const double n = (double)clusters, sms = (double)d->sms;
  const double active = n * (double)chip->blocks * w->active_share;
  const double ring_bytes = active * w->in_flight_bytes, bytes = n * w->hbm_bytes;
  const double rate = hbm_rate(d, ring_bytes);
  const double hidden_us = smaller(gap_us, smaller(ring_bytes, bytes) / rate);
  const double hbm_us = bytes / rate - hidden_us;
  const double l2_us = n * (w->l2_shared_bytes / d->l2_shared_bytes_per_us +
                            w->l2_disjoint_bytes / d->l2_disjoint_bytes_per_us);
  const double ingress_us = w->load_bytes / d->sm_ingress_bytes_per_us;
  const double smem_us = w->smem_bytes * sms / d->smem_bytes_per_us;
  const double issue_us = w->copies * d->copy_issue_us / PRODUCERS;
  out->hbm_us += times * hbm_us;
  out->l2_us += times * l2_us;
  out->ingress_us += times * ingress_us;
  out->smem_us += times * smem_us;
  out->issue_us += times * issue_us;
  out->tensor_us += times * w->tensor_us;
  out->stream_us += times * larger(larger(larger(hbm_us, l2_us), larger(ingress_us, smem_us)),
                                   larger(issue_us, w->tensor_us));
  return times * hidden_us;
}

static int64_t count_waves(const struct chip *chip, int64_t units) {
  return fpl_ceil_div(units, chip->clusters);
}

/* All waves of one product: full ones, then one of the clusters that are left. Returns what the gap
 * hid. */
static double stream(const struct fpl_device *d, const struct chip *chip, const struct fpl_work *w,
                     struct gap gap, struct fpl_product_terms *out) {
  const int64_t full = w->units / chip->clusters, left = w->units % chip->clusters;
  const double later_us = gap.is_every_unit ? gap.us : 0;
  const bool is_first_full = full > 0;
  double hidden_us = 0;
  if (is_first_full) {
    hidden_us += add_waves(d, chip, w, 1, chip->clusters, gap.us, out);
    hidden_us += add_waves(d, chip, w, (double)(full - 1), chip->clusters, later_us, out);
  }
  hidden_us += add_waves(d, chip, w, 1, left, is_first_full ? later_us : gap.us, out);
  return hidden_us;
}

/* MODEL.md 3.5, one unit: C from sums to the place where GEMM1 reads it. */
static double exchange_us(const struct fpl_schedule *s, const struct fpl_device *d,
                          const struct fpl_tiling *t, const struct chip *chip,
                          const struct fpl_traffic *v) {
  const double fixed_us = EXCHANGE_FIXED_US + d->dsm_latency_us;
  const double bytes = (v->dsm.all_exchange + v->dsm.shuffle) / (double)(t->units * t->blocks);
  double run_us = FINISH_C_US;
  if (s->cls_k > 1)
    run_us += fixed_us;
  if (t->shuffle > 1 && !fpl_is_two_phase(s))
    run_us += fixed_us;
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
  if (uses_dsm)
    us += rounds * (EXCHANGE_FIXED_US + d->dsm_latency_us);
  if (uses_l2) {
    const double share = uses_dsm ? 1 / (double)t->groups : 1;
    const double workspace_bytes = 2.0 * s->blk_m * s->blk_l * (double)sizeof(float) * share;
    us += v->l2_reduce_bytes / d->l2_reduce_bytes_per_us +
          rounds * (LAST_ADDER_US + workspace_bytes / d->sm_ingress_bytes_per_us);
  }
  return us;
}

double fpl_time_us(const struct fpl_problem *p, const struct fpl_schedule *s,
                   const struct fpl_device *d, const struct fpl_tiling *t,
                   const struct fpl_footprint *f, const struct fpl_traffic *traffic,
                   struct fpl_time_terms *out) {
  (void)f; /* capacity is legality's; the ring is known from the schedule */
  const struct chip chip = describe_chip(d, t->blocks);
  struct fpl_work work[FPL_PRODUCTS];
  fpl_work_make(p, s, d, t, traffic, work);
  struct fpl_time_terms x = {0};
  x.launch_us = t->blocks > 1 ? d->cluster_launch_us : d->launch_us;
  x.fill_us = d->fill_us;
  x.tail_us = d->tail_us;
  const double unit_exchange_us = exchange_us(s, d, t, &chip, traffic);
  x.exchange_us = (double)count_waves(&chip, t->units) * unit_exchange_us;
  x.handover_us = handover_us(s, d, x.launch_us);
  x.reduce_us = reduce_us(s, d, t, &chip, traffic);
  const struct gap none = {0, false};
  struct gap gap = {unit_exchange_us, true};
  if (fpl_is_two_phase(s)) /* a second kernel starts with an empty ring */
    gap = s->exchange == FPL_EXCHANGE_L2 ? (struct gap){x.handover_us, false} : none;
  stream(d, &chip, &work[FPL_GEMM0], none, &x.gemm0);
  x.prefetch_us = stream(d, &chip, &work[FPL_GEMM1], gap, &x.gemm1);
  x.slack_us = SLACK_SHARE * (x.gemm0.stream_us + x.gemm1.stream_us + x.prefetch_us);
  x.total_us = x.launch_us + x.fill_us + x.gemm0.stream_us + x.exchange_us + x.handover_us +
               x.gemm1.stream_us + x.reduce_us + x.slack_us + x.tail_us;
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
