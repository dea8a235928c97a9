#include "tuner/core/answer.h"

#include "tuner/base/str.h"
#include "tuner/core/legal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const fpl_tier_names[] = {"exact", "envelope", "nearest", "model", "library", NULL};
const char *const fpl_match_names[] = {"same", "toolkit", "driver", "unknown", NULL};

/* "580.65.06 (CUDA 13.0)", or "13.0" where only the CUDA version is known. */
static const char *cuda_version(const char *driver, size_t *out_length) {
  const char *const mark = strstr(driver, "(CUDA ");
  const char *const version = mark ? mark + strlen("(CUDA ") : driver;
  *out_length = strcspn(version, ")");
  return version;
}

static bool is_same_driver(const char *a, const char *b) {
  size_t a_length, b_length;
  const char *const a_cuda = cuda_version(a, &a_length), *const b_cuda = cuda_version(b, &b_length);
  if (a_cuda != a && b_cuda != b)
    return strcmp(a, b) == 0;
  return a_length == b_length && strncmp(a_cuda, b_cuda, a_length) == 0;
}

enum fpl_match fpl_environment_match(const struct fpl_environment *stored,
                                     const struct fpl_environment *asking) {
  if (!asking)
    return FPL_MATCH_UNKNOWN;
  const char *const there = fpl_environment_get(stored, "driver");
  const char *const here = fpl_environment_get(asking, "driver");
  if (!there[0] || !here[0])
    return FPL_MATCH_UNKNOWN;
  if (!is_same_driver(there, here))
    return FPL_MATCH_DRIVER;
  /* A machine without the toolkit runs stored machine code all the same. */
  const char *const built = fpl_environment_get(stored, "nvrtc");
  const char *const builds = fpl_environment_get(asking, "nvrtc");
  return built[0] && builds[0] && strcmp(built, builds) != 0 ? FPL_MATCH_TOOLKIT : FPL_MATCH_SAME;
}

/* ln of 2^(1/3), 2^(2/3), 2, 2 sqrt 2, 4, and the most that the limits allow. */
const double fpl_regret_distances[FPL_REGRET_CLASSES] = {0.2311, 0.4622, 0.6932,
                                                         1.0398, 1.3863, 1.8356};

int fpl_regret_class(double distance) {
  int i = 0;
  while (i < FPL_REGRET_CLASSES - 1 && distance > fpl_regret_distances[i])
    i++;
  return i;
}

/* The same for a and b in either order, and for equal ratios, to the last bit. */
static double log_ratio(int64_t a, int64_t b) {
  return log((double)fpl_max_i64(a, b) / (double)fpl_min_i64(a, b));
}

double fpl_problem_distance(const struct fpl_problem *a, const struct fpl_problem *b) {
  const double m = log_ratio(a->m, b->m), n = log_ratio(a->n, b->n), k = log_ratio(a->k, b->k),
               l = log_ratio(a->l, b->l);
  return sqrt(m * m + n * n + k * k + l * l);
}

struct fpl_regret fpl_regret_of(const double *sorted, int64_t n) {
  if (n < FPL_REGRET_LEAST)
    return (struct fpl_regret){0};
  const int64_t low = (n + 1) / 20, high = fpl_ceil_div(19 * (n + 1), 20);
  return (struct fpl_regret){.n = n,
                             .low = sorted[fpl_max_i64(low, 1) - 1],
                             .expected = sorted[(n - 1) / 2],
                             .high = sorted[fpl_min_i64(high, n) - 1]};
}

static bool is_within(int64_t a, int64_t b, int64_t most) {
  return a / most <= b && b / most <= a && a <= b * most && b <= a * most;
}

bool fpl_problem_is_near(const struct fpl_problem *a, const struct fpl_problem *b) {
  return is_within(a->m, b->m, FPL_NEAREST_MOST_M) && is_within(a->n, b->n, FPL_NEAREST_MOST) &&
         is_within(a->k, b->k, FPL_NEAREST_MOST) && is_within(a->l, b->l, FPL_NEAREST_MOST);
}

/* One of the plans that a tier may answer with. */
struct pick {
  bool is_set;
  int64_t plan_id;
  int layer;
  struct fpl_problem problem;
  enum fpl_provenance provenance;
  double distance;
  int64_t created_unix;
};

static int compare_i64(int64_t a, int64_t b) {
  return (a > b) - (a < b);
}

/* The rule of who wins, in answer.h. Problems of one source differ, so no two are equal. */
static bool is_better(const struct pick *a, const struct pick *b) {
  if (!b->is_set)
    return true;
  if (a->provenance != b->provenance)
    return a->provenance < b->provenance;
  if (a->distance != b->distance)
    return a->distance < b->distance;
  if (a->layer != b->layer)
    return a->layer < b->layer;
  const struct fpl_problem *const p = &a->problem, *const q = &b->problem;
  const int orders[] = {compare_i64(b->created_unix, a->created_unix),
                        compare_i64(p->m, q->m),
                        compare_i64(p->n, q->n),
                        compare_i64(p->k, q->k),
                        compare_i64(p->l, q->l),
                        compare_i64(p->conv.batch, q->conv.batch),
                        compare_i64(p->conv.ic, q->conv.ic),
                        compare_i64(p->conv.h, q->conv.h),
                        compare_i64(p->conv.w, q->conv.w)};
  for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
    if (orders[i] != 0)
      return orders[i] < 0;
  return false;
}

struct walk {
  const struct fpl_wanted *wanted;
  const struct fpl_source *sources;
  int n;
  int layer;
  bool has_last;
  struct fpl_problem last; /* visited in this layer */
  struct pick envelope, nearest;
  struct fpl_trace *trace;
};

/* Why a neighbour's schedule does not run this problem; "" when it does. */
static void check_runs(const struct walk *w, const struct fpl_neighbour *neighbour, char *why,
                       size_t size) {
  const struct fpl_problem *const p = w->wanted->problem;
  struct fpl_schedule schedule;
  struct fpl_tiling t;
  struct fpl_footprint f;
  struct fpl_verdict verdict = {FPL_RULE_NONE, ""};
  why[0] = '\0';
  if (neighbour->is_library)
    return;
  if (fpl_schedule_parse(neighbour->schedule, &schedule, NULL) != FPL_OK)
    snprintf(why, size, "its schedule cannot be read");
  else if (!fpl_legal(p, &schedule, w->wanted->device, &t, &f, &verdict) ||
           !fpl_skeleton_fits(p, &schedule, &verdict))
    snprintf(why, size, "its schedule breaks rule %s here: %.100s", fpl_rule_names[verdict.rule],
             verdict.why);
}

/* The regret of the layer that knows most about this class of distances. */
static enum fpl_status find_regret(const struct walk *w, double distance, struct fpl_regret *out,
                                   struct fpl_err *err) {
  *out = (struct fpl_regret){0};
  for (int i = 0; i < w->n; i++) {
    struct fpl_regret regret = {0};
    const enum fpl_status status = w->sources[i].regret(w->sources[i].self, w->wanted,
                                                        fpl_regret_class(distance), &regret, err);
    if (status != FPL_OK)
      return status;
    if (regret.n > out->n)
      *out = regret;
  }
  return FPL_OK;
}

/* Why a measured plan of another shape would not be safe here; "" when it is. */
static enum fpl_status check_lead(const struct walk *w, const struct fpl_neighbour *neighbour,
                                  double distance, char *why, size_t size, struct fpl_err *err) {
  why[0] = '\0';
  if (neighbour->provenance != FPL_PROVENANCE_MEASURED) {
    snprintf(why, size, "it was not measured: the model predicts this very shape as well");
    return FPL_OK;
  }
  if (neighbour->is_library)
    return FPL_OK;
  struct fpl_regret regret;
  const enum fpl_status status = find_regret(w, distance, &regret, err);
  const double lead = neighbour->library_us / neighbour->measured_us;
  if (regret.n == 0)
    snprintf(why, size, "no evidence of what a plan loses at distance %.2f", distance);
  else if (lead < 1 + regret.expected)
    snprintf(why, size, "its lead over the library, %.2f, is less than it may lose, %.2f", lead,
             1 + regret.expected);
  return status;
}

static void note_closest(struct fpl_trace *trace, const struct pick *pick, const char *why) {
  if (!trace)
    return;
  int at = trace->n_closest;
  while (at > 0 && pick->distance < trace->closest[at - 1].distance)
    at--;
  if (at == FPL_CLOSEST)
    return;
  if (trace->n_closest < FPL_CLOSEST)
    trace->n_closest++;
  for (int i = trace->n_closest - 1; i > at; i--)
    trace->closest[i] = trace->closest[i - 1];
  trace->closest[at].plan_id = pick->plan_id;
  trace->closest[at].layer = pick->layer;
  trace->closest[at].distance = pick->distance;
  trace->closest[at].problem = pick->problem;
  snprintf(trace->closest[at].why, sizeof trace->closest[at].why, "%s", why);
}

static enum fpl_status visit(void *context, const struct fpl_neighbour *neighbour,
                             struct fpl_err *err) {
  struct walk *const w = context;
  const struct fpl_problem *const p = w->wanted->problem;
  const struct pick pick = {.is_set = true,
                            .plan_id = neighbour->plan_id,
                            .layer = w->layer,
                            .problem = neighbour->problem,
                            .provenance = neighbour->provenance,
                            .distance = fpl_problem_distance(p, &neighbour->problem),
                            .created_unix = neighbour->created_unix};
  /* The first plan of a problem speaks for it. */
  if (w->has_last && fpl_problem_equals(&w->last, &neighbour->problem))
    return FPL_OK;
  w->last = neighbour->problem;
  w->has_last = true;
  const bool is_family = fpl_problem_is_same_family(p, &neighbour->problem);
  const bool is_inside = is_family && neighbour->m_low <= p->m && p->m <= neighbour->m_high;
  struct pick *const best = is_inside ? &w->envelope : &w->nearest;
  if (!fpl_problem_is_near(p, &neighbour->problem) && !is_inside)
    return FPL_OK;
  if (!is_better(&pick, best) && (!w->trace || w->trace->n_closest == FPL_CLOSEST))
    return FPL_OK;
  char why[160] = "";
  enum fpl_status status = FPL_OK;
  if (w->wanted->needs_kernel && !is_family)
    snprintf(why, sizeof why, "its kernel is for another n, k, l");
  else
    check_runs(w, neighbour, why, sizeof why);
  if (!why[0] && !is_inside)
    status = check_lead(w, neighbour, pick.distance, why, sizeof why, err);
  if (!why[0] && is_better(&pick, best))
    *best = pick;
  note_closest(w->trace, &pick, why);
  return status;
}

static void note(struct fpl_trace *trace, enum fpl_tier tier, const char *why) {
  if (trace)
    snprintf(trace->tiers[tier], sizeof trace->tiers[tier], "%.199s", why);
}

/* A stored schedule that a rule refuses by now (the device's profile or the rules have changed) is
 * not an answer. */
static bool is_still_legal(const struct fpl_wanted *wanted, const struct fpl_plan *plan,
                           struct fpl_verdict *why) {
  struct fpl_tiling t;
  struct fpl_footprint f;
  return plan->is_library ||
         fpl_legal(wanted->problem, &plan->schedule, wanted->device, &t, &f, why);
}

/* The plan of one layer that may answer. */
static enum fpl_status find_in_layer(const struct fpl_source *source,
                                     const struct fpl_wanted *wanted, struct fpl_plan *plan,
                                     bool *out_found, struct fpl_answer *out,
                                     struct fpl_trace *trace, struct fpl_err *err) {
  const enum fpl_status status = source->find(source->self, wanted, plan, out_found, err);
  if (status != FPL_OK || !*out_found)
    return status;
  struct fpl_verdict verdict = {FPL_RULE_NONE, ""};
  if (is_still_legal(wanted, plan, &verdict))
    return FPL_OK;
  char why[256];
  snprintf(why, sizeof why, "the stored plan is refused by rule %s (%s)",
           fpl_rule_names[verdict.rule], verdict.why);
  note(trace, FPL_TIER_EXACT, why);
  snprintf(out->reason, sizeof out->reason, "%s", why);
  *out_found = false;
  return FPL_OK;
}

/* Replaces the plan of an upper layer where this one's is more trusted. */
static enum fpl_status take_better(const struct fpl_source *source, int layer,
                                   const struct fpl_wanted *wanted, struct fpl_answer *out,
                                   struct fpl_trace *trace, struct fpl_err *err) {
  struct fpl_plan plan;
  bool is_found = false;
  const enum fpl_status status = find_in_layer(source, wanted, &plan, &is_found, out, trace, err);
  if (status == FPL_OK && is_found && plan.provenance < out->plan.provenance) {
    out->plan = plan;
    out->layer = layer;
  }
  return status;
}

static enum fpl_status find_exact(const struct fpl_source *sources, int n,
                                  const struct fpl_wanted *wanted, struct fpl_answer *out,
                                  struct fpl_trace *trace, struct fpl_err *err) {
  note(trace, FPL_TIER_EXACT, "nothing is stored for this problem and device class");
  enum fpl_status status = FPL_OK;
  for (int i = 0; status == FPL_OK && i < n; i++) {
    if (out->is_stored) {
      status = take_better(&sources[i], i, wanted, out, trace, err);
    } else {
      status = find_in_layer(&sources[i], wanted, &out->plan, &out->is_stored, out, trace, err);
      out->layer = i;
    }
  }
  return status;
}

static enum fpl_status take(const struct walk *w, const struct pick *pick, enum fpl_tier tier,
                            struct fpl_answer *out, struct fpl_err *err) {
  const struct fpl_source *const source = &w->sources[pick->layer];
  enum fpl_status status = source->read(source->self, pick->plan_id, &out->plan, err);
  if (status != FPL_OK)
    return status;
  out->tier = tier;
  out->layer = pick->layer;
  out->is_stored = true;
  out->distance = pick->distance;
  const long long m = (long long)pick->problem.m, n = (long long)pick->problem.n,
                  k = (long long)pick->problem.k, l = (long long)pick->problem.l;
  if (tier == FPL_TIER_NEAREST) {
    status = find_regret(w, pick->distance, &out->regret, err);
    snprintf(out->reason, sizeof out->reason,
             "nothing is stored for this problem; nearest is m=%lld n=%lld k=%lld l=%lld, distance "
             "%.2f",
             m, n, k, l, pick->distance);
  } else {
    snprintf(out->reason, sizeof out->reason,
             "the plan for m=%lld is the best known from m=%lld to %lld", m,
             (long long)out->plan.m_low, (long long)out->plan.m_high);
  }
  return status;
}

static enum fpl_status find_near(struct walk *w, enum fpl_tier last, struct fpl_answer *out,
                                 struct fpl_err *err) {
  enum fpl_status status = FPL_OK;
  for (w->layer = 0; status == FPL_OK && w->layer < w->n; w->layer++) {
    const struct fpl_source *const source = &w->sources[w->layer];
    w->has_last = false;
    status = source->each_neighbour(source->self, w->wanted, visit, w, err);
  }
  if (status != FPL_OK)
    return status;
  if (w->envelope.is_set)
    return take(w, &w->envelope, FPL_TIER_ENVELOPE, out, err);
  note(w->trace, FPL_TIER_ENVELOPE, "no plan of this family says that it is valid for this m");
  if (last >= FPL_TIER_NEAREST && w->nearest.is_set)
    return take(w, &w->nearest, FPL_TIER_NEAREST, out, err);
  if (last >= FPL_TIER_NEAREST)
    note(w->trace, FPL_TIER_NEAREST, "no plan of a shape near enough can be trusted here");
  return FPL_OK;
}

enum fpl_status fpl_answer(const struct fpl_source *sources, int n, const struct fpl_wanted *wanted,
                           const struct fpl_environment *asking, enum fpl_tier last,
                           struct fpl_answer *out, struct fpl_trace *trace, struct fpl_err *err) {
  /* The plan is large, and filled by a source. */
  out->tier = FPL_TIER_EXACT;
  out->is_stored = out->has_kernel = false;
  out->layer = 0;
  out->regret = (struct fpl_regret){0};
  out->distance = 0;
  out->reason[0] = '\0';
  if (trace)
    memset(trace, 0, sizeof *trace);
  struct walk w = {.wanted = wanted, .sources = sources, .n = n, .trace = trace};
  enum fpl_status status = find_exact(sources, n, wanted, out, trace, err);
  if (status == FPL_OK && out->is_stored) {
    note(trace, FPL_TIER_EXACT, "");
    struct fpl_line line = fpl_line_start(out->reason, sizeof out->reason);
    fpl_line_text(&line, "stored for this problem");
  } else if (status == FPL_OK && last >= FPL_TIER_ENVELOPE) {
    status = find_near(&w, last, out, err);
  }
  if (status != FPL_OK || !out->is_stored)
    out->plan = (struct fpl_plan){.is_library = true};
  if (status != FPL_OK)
    return status;
  out->match = fpl_environment_match(&out->plan.environment, asking);
  out->has_kernel = out->is_stored && !out->plan.is_library && out->plan.has_cubin &&
                    fpl_problem_is_same_family(wanted->problem, &out->plan.problem);
  if (!out->is_stored) {
    out->tier = FPL_TIER_LIBRARY;
    if (!out->reason[0])
      snprintf(out->reason, sizeof out->reason, "nothing is stored%s that answers",
               wanted->is_deterministic ? ", of deterministic plans," : "");
  }
  return FPL_OK;
}
