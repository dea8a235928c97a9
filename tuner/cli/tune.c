#include "tuner/cli/tune.h"

#include "costmodel/analyzer.h"
#include "costmodel/interp.h"
#include "costmodel/timemodel.h"
#include "tuner/base/str.h"
#include "tuner/base/sys.h"
#include "tuner/core/space.h"
#include "tuner/measure/decide.h"
#include "tuner/search/rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fpl_tuned_free(struct fpl_tuned *tuned) {
  for (int i = 0; i < tuned->n_results; i++)
    fpl_result_free(&tuned->results[i]);
  free(tuned->results);
  *tuned = (struct fpl_tuned){0}; /* the plan borrows its kernel from a result */
}

static double plain_us(const struct fpl_problem *p, const struct fpl_schedule *s,
                       const struct fpl_device *d) {
  struct fpl_tiling t;
  struct fpl_footprint f;
  struct fpl_traffic traffic;
  if (!fpl_legal(p, s, d, &t, &f, NULL))
    return 0;
  fpl_analyze(p, s, &t, &f, &traffic);
  return fpl_time_plain_us(d, s, &traffic);
}

static bool is_among(const struct fpl_schedule *s, const struct fpl_ranked *ranked, int n) {
  char wanted[FPL_KEY_HEX], key[FPL_KEY_HEX];
  fpl_schedule_key(s, wanted);
  for (int i = 0; i < n; i++) {
    fpl_schedule_key(&ranked[i].schedule, key);
    if (strcmp(wanted, key) == 0)
      return true;
  }
  return false;
}

/* Appends given schedules to the n of `out`, as the ranking would answer them: those that are legal
 * and not there yet. Answers how many there are then. */
static int append(const struct fpl_tuner *tuner, const struct fpl_problem *p,
                  const struct fpl_cost_port *cost, const struct fpl_schedule *given, int n_given,
                  struct fpl_ranked *out, int n) {
  for (int i = 0; i < n_given && n < FPL_RANK_MOST; i++) {
    const struct fpl_schedule *const s = &given[i];
    struct fpl_tiling t;
    struct fpl_footprint f;
    if (!fpl_legal(p, s, tuner->device, &t, &f, NULL) || !fpl_skeleton_fits(p, s, NULL) ||
        (tuner->is_deterministic && !fpl_schedule_is_deterministic(s)) || is_among(s, out, n))
      continue;
    out[n++] = (struct fpl_ranked){.schedule = *s,
                                   .est_us = cost->est_us(cost->self, p, s, tuner->device, &t, &f)};
  }
  return n;
}

/* The library (when it can be measured) and the top K, all pending. */
static enum fpl_status list_candidates(const struct fpl_tuner *tuner, const struct fpl_problem *p,
                                       struct fpl_tuned *out, struct fpl_err *err) {
  static struct fpl_ranked ranked[FPL_RANK_MOST];
  struct fpl_rank_counts counts = {0};
  const struct fpl_cost_port cost = fpl_cost_port();
  struct fpl_rank_options options = fpl_rank_defaults;
  options.is_deterministic = tuner->is_deterministic;
  int n_ranked = tuner->is_again
                     ? append(tuner, p, &cost, tuner->again, tuner->n_again, ranked, 0)
                     : fpl_rank(p, tuner->device, &cost, tuner->top_k, &options, ranked, &counts);
  n_ranked = append(tuner, p, &cost, tuner->known, tuner->n_known, ranked, n_ranked);
  const bool has_library = tuner->has_measurer && !tuner->is_kernels_only;
  const int n_library = has_library ? 1 : 0;
  out->n_ranked = counts.n_costed;
  if (n_ranked + n_library == 0)
    return FPL_OK;
  out->results = calloc((size_t)(n_ranked + n_library), sizeof *out->results);
  if (!out->results)
    return fpl_fail(err, FPL_NO_MEMORY, "out of memory");
  out->n_results = n_ranked + n_library;
  if (n_library)
    out->results[0].is_library = true;
  for (int i = 0; i < n_ranked; i++) {
    struct fpl_result *const r = &out->results[n_library + i];
    r->schedule = ranked[i].schedule;
    r->est_us = ranked[i].est_us;
    r->est_plain_us = plain_us(p, &r->schedule, tuner->device);
  }
  return FPL_OK;
}

/* The smallest problem on which a schedule runs every part of its dataflow: each dimension one
 * cluster step, and half a tile of a second one where the problem has more than one step. */
static struct fpl_problem shrunken(const struct fpl_problem *p, const struct fpl_schedule *s) {
  struct fpl_problem small = *p;
  const int64_t k_layers = s->gate == FPL_GATE_SPATIAL ? 1 : s->cls_k;
  const int64_t steps[] = {(int64_t)s->cls_m * s->blk_m, (int64_t)s->cls_n * s->blk_n,
                           k_layers * s->blk_k, (int64_t)s->cls_l * s->blk_l};
  const int64_t halves[] = {s->blk_m / 2, s->blk_n / 2, s->blk_k / 2, s->blk_l / 2};
  int64_t *const extents[] = {&small.m, &small.n, &small.k, &small.l};
  for (int d = 0; d < FPL_DIMS; d++)
    *extents[d] = fpl_min_i64(*extents[d], steps[d] + halves[d]);
  return small;
}

/* Without a GPU: the interpreter runs the schedule's dataflow on a shrunken problem. */
static enum fpl_status check_dataflow(const struct fpl_problem *p, const struct fpl_device *d,
                                      struct fpl_result *r, struct fpl_err *err) {
  if (r->outcome != FPL_OUTCOME_PENDING)
    return FPL_OK;
  if (p->kind == FPL_KIND_CONV_CHAIN)
    return FPL_OK; /* its extents are bound to the image */
  const struct fpl_problem small = shrunken(p, &r->schedule);
  struct fpl_interp_report report;
  struct fpl_err interp_err = {0};
  const enum fpl_status status = fpl_interpret(&small, &r->schedule, d, 1, &report, &interp_err);
  if (status == FPL_USAGE) { /* still too large for the interpreter */
    snprintf(r->reason, sizeof r->reason, "dataflow not interpreted: %.200s", interp_err.text);
    return FPL_OK;
  }
  if (status != FPL_OK)
    return fpl_fail(err, status, "%s", interp_err.text);
  const bool needs_exact = p->act == FPL_ACT_NONE || p->act == FPL_ACT_RELU;
  const double most_error = report.max_abs_value * 0x1p-6;
  if (report.verdict.rule != FPL_RULE_NONE)
    snprintf(r->reason, sizeof r->reason, "dataflow not interpreted: %s", report.verdict.why);
  else if (!report.is_sound || (needs_exact && !report.is_exact) ||
           !(report.max_abs_error <= most_error))
    r->outcome = FPL_OUTCOME_WRONG_RESULT;
  else
    snprintf(r->reason, sizeof r->reason,
             "dataflow interpreted, error at most %.1e of the largest value",
             report.max_abs_value > 0 ? report.max_abs_error / report.max_abs_value : 0.0);
  return FPL_OK;
}

static void make_plan(const struct fpl_tuner *tuner, const struct fpl_problem *p, int winner,
                      const char *reason, struct fpl_tuned *out) {
  const struct fpl_result *const r = &out->results[winner];
  struct fpl_plan *const plan = &out->plan;
  *plan = (struct fpl_plan){.problem = *p,
                            .is_library = r->is_library,
                            .schedule = r->schedule,
                            .kernel = r->kernel,
                            .est_us = r->est_us,
                            .measured_us = r->stats[FPL_COLD].median_us,
                            .measured_hot_us = r->stats[FPL_HOT].median_us,
                            .n_candidates = out->n_results,
                            .created_unix = fpl_unix_seconds(),
                            .environment = out->environment};
  plan->provenance = tuner->has_measurer ? FPL_PROVENANCE_MEASURED : FPL_PROVENANCE_PREDICTED;
  snprintf(plan->device_name, sizeof plan->device_name, "%s", tuner->device->name);
  snprintf(plan->reason, sizeof plan->reason, "%s", reason);
  for (int i = 0; i < out->n_results; i++) {
    plan->n_ok += out->results[i].outcome == FPL_OUTCOME_OK;
    if (out->results[i].is_library) {
      plan->library_us = out->results[i].stats[FPL_COLD].median_us;
      plan->library_hot_us = out->results[i].stats[FPL_HOT].median_us;
    }
  }
  out->has_plan = true;
}

/* Predicted: the first candidate of the ranking that is not refused. */
static enum fpl_status plan_by_model(const struct fpl_tuner *tuner, const struct fpl_problem *p,
                                     struct fpl_tuned *out, struct fpl_err *err) {
  int winner = -1;
  for (int i = 0; i < out->n_results; i++) {
    struct fpl_result *const r = &out->results[i];
    const enum fpl_status status = check_dataflow(p, tuner->device, r, err);
    if (status != FPL_OK)
      return status;
    fpl_progress_measure(tuner->progress, "interpret", i + 1, out->n_results);
    if (r->outcome == FPL_OUTCOME_PENDING && tuner->has_builder)
      r->outcome = FPL_OUTCOME_BUILT;
    if (winner < 0 && (r->outcome == FPL_OUTCOME_BUILT || r->outcome == FPL_OUTCOME_PENDING))
      winner = i;
  }
  if (winner < 0)
    return FPL_OK;
  char reason[256];
  snprintf(reason, sizeof reason,
           "predicted: lowest estimate of %lld ranked candidates (%.2f us)%s; %.100s",
           (long long)out->n_ranked, out->results[winner].est_us,
           tuner->has_builder ? ", compiled" : "", out->results[winner].reason);
  make_plan(tuner, p, winner, reason, out);
  return FPL_OK;
}

/* Index of the winner, or -1. The library plan is timed for comparison, but is not deterministic. */
static int decide(const struct fpl_tuner *tuner, const struct fpl_tuned *tuned,
                  char reason[FPL_DECIDE_REASON]) {
  const bool is_held_back = tuner->is_deterministic && tuned->results[0].is_library;
  const int first = is_held_back ? 1 : 0;
  const int winner =
      fpl_decide(tuned->results + first, tuned->n_results - first, tuner->least_gain, reason);
  if (winner >= 0 && is_held_back)
    snprintf(reason, FPL_DECIDE_REASON,
             "deterministic: the fastest such kernel at %.3f us cold; the library plan, which is "
             "not, at %.3f us",
             tuned->results[winner + first].stats[FPL_COLD].median_us,
             tuned->results[0].stats[FPL_COLD].median_us);
  return winner < 0 ? -1 : winner + first;
}

static enum fpl_status plan_by_measurement(const struct fpl_tuner *tuner,
                                           const struct fpl_problem *p, struct fpl_tuned *out,
                                           struct fpl_err *err) {
  const enum fpl_status status = tuner->measurer.measure(
      tuner->measurer.self, p, &tuner->measure, out->results, out->n_results, &out->environment,
      fpl_progress_measure, tuner->progress, err);
  if (status != FPL_OK)
    return status;
  char reason[FPL_DECIDE_REASON];
  const int winner = decide(tuner, out, reason);
  if (winner >= 0)
    make_plan(tuner, p, winner, reason, out);
  else
    snprintf(out->reason, sizeof out->reason, "no %scandidate was verified and measured",
             tuner->is_deterministic ? "deterministic " : "");
  return FPL_OK;
}

static void explain_absence(const struct fpl_problem *p, const struct fpl_device *d,
                            struct fpl_tuned *out) {
  struct fpl_schedule s;
  struct fpl_verdict why = {FPL_RULE_NONE, ""};
  if (out->has_plan || out->reason[0])
    return;
  if (out->n_results == 0 && fpl_space_sample(p, d, FPL_SPACE_LEGAL, FPL_RULE_NONE, 1, 1, &s) == 1)
    fpl_skeleton_fits(p, &s, &why);
  if (why.rule != FPL_RULE_NONE)
    snprintf(out->reason, sizeof out->reason, "%s: %s", fpl_rule_names[why.rule], why.why);
  else
    snprintf(out->reason, sizeof out->reason, "no legal candidate was built");
}

enum fpl_status fpl_tune_problem(const struct fpl_tuner *tuner, const struct fpl_problem *p,
                                 struct fpl_tuned *out, struct fpl_err *err) {
  *out = (struct fpl_tuned){.environment = tuner->base_environment};
  enum fpl_status status = list_candidates(tuner, p, out, err);
  if (status == FPL_OK && tuner->has_builder && out->n_results > 0)
    status = tuner->builder.build(tuner->builder.self, p, tuner->device, out->results,
                                  out->n_results, fpl_progress_build, tuner->progress, err);
  if (status == FPL_OK && out->n_results > 0)
    status = tuner->has_measurer ? plan_by_measurement(tuner, p, out, err)
                                 : plan_by_model(tuner, p, out, err);
  if (status == FPL_OK)
    explain_absence(p, tuner->device, out);
  fpl_progress_clear(tuner->progress);
  return status;
}
