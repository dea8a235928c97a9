/* Outline of one problem:
 *
 *   load each -> verify each -> rounds cold -> rounds hot -> outcomes
 *
 * This file decides who is asked what, and when. What an answer of the worker means for its
 * process is pool.c's, whether results are right verify.c's, when to stop sampling stop.c's.
 * A result is `pending` from its first request to the end; any other outcome takes it out.
 */
#include "tuner/measure/measure.h"

#include "tuner/base/str.h"
#include "tuner/base/sys.h"
#include "tuner/measure/pool.h"
#include "tuner/measure/protocol.h"
#include "tuner/measure/stop.h"
#include "tuner/measure/verify.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

static const double OPEN_US = 120e6, LOAD_US = 60e6, VERIFY_US = 30e6, SAMPLE_US = 20e6;
static const double COLD_PART = 0.8; /* of the budget; the rest is for hot samples */
/* Samples a batch: enough to hide the cost of a request, few enough for three rounds at least. */
enum { BATCH_MOST = 16, ROUNDS_LEAST = 3 };
/* A batch is taken again when the clock fell below this part of the greatest seen (nvbench's
 * limit), after a pause that doubles. */
static const double THROTTLE_PART = 0.75;
enum { BATCH_ATTEMPTS = 4, PAUSE_MS = 50 };
/* Rounds of the hot phase have an order of their own. */
static const uint64_t PHASE_ROUNDS = (uint64_t)1 << 32;

static const char *const STATE_NAMES[FPL_CACHE_STATES] = {[FPL_COLD] = "cold", [FPL_HOT] = "hot"};

struct fpl_measurer {
  struct fpl_arena arena; /* of the texts */
  struct fpl_measurer_options options;
};

/* One call of `measure`. */
struct session {
  const struct fpl_measurer_options *options;
  const struct fpl_problem *problem;
  const struct fpl_measure_options *limits;
  struct fpl_result *results;
  int n;
  struct fpl_environment *environment;
  void (*progress)(void *context, const char *phase, int n_done, int n_all);
  void *context;
  struct fpl_arena arena;
  struct fpl_pool *pool;
  const char *cubin_dir;
  double started_us;
  int64_t batch;      /* samples */
  bool *is_in;        /* [n] in the set of the current phase */
  bool *is_abandoned; /* [n] slower than the best in the cold phase */
  int *order;         /* [n] */
  double *scratch;    /* [most_samples] */
  double most_clock_mhz;
  double clock_sum_mhz;
  int64_t n_clocks;
};

void fpl_measure_order(uint64_t seed, uint64_t round, int *order, int n) {
  /* splitmix64 (Steele, Lea, Flood 2014) drives a Fisher-Yates shuffle. */
  uint64_t state = seed ^ (round + 1) * UINT64_C(0xd1342543de82ef95);
  for (int i = 0; i < n; i++)
    order[i] = i;
  for (int i = n - 1; i > 0; i--) {
    state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    const int j = (int)((z ^ (z >> 31)) % (uint64_t)(i + 1));
    const int swapped = order[i];
    order[i] = order[j];
    order[j] = swapped;
  }
}

static double elapsed_us(const struct session *s) {
  return fpl_now_us() - s->started_us;
}

static bool is_pending(const struct session *s, int id) {
  return s->results[id].outcome == FPL_OUTCOME_PENDING;
}

static void report(const struct session *s, const char *phase, int n_done, int n_all) {
  if (s->progress)
    s->progress(s->context, phase, n_done, n_all);
}

static void skip(struct fpl_result *r, const char *reason) {
  r->outcome = FPL_OUTCOME_SKIPPED;
  snprintf(r->reason, sizeof r->reason, "%s", reason);
}

/* Takes a candidate out for what the worker answered, or did not. */
static void charge(struct session *s, int id, const char *op, const struct fpl_reply *reply) {
  struct fpl_result *const r = &s->results[id];
  r->outcome = reply->outcome;
  snprintf(r->reason, sizeof r->reason, "%s: %.200s", op, reply->reason);
  fpl_pool_unload(s->pool, id);
}

static void drop(void *context, int id, const struct fpl_reply *reply) {
  charge(context, id, "load again", reply);
}

static enum fpl_status make_ready(struct session *s, struct fpl_err *err) {
  return fpl_pool_ready(s->pool, drop, s, err);
}

static enum fpl_status load_request(const struct session *s, int id, json_t **out,
                                    struct fpl_err *err) {
  const struct fpl_result *const r = &s->results[id];
  if (r->is_library) {
    *out = json_pack("{s:s,s:i,s:b}", "op", "load", "id", id, "library", 1);
    return FPL_OK;
  }
  struct fpl_text path = {0};
  fpl_text_append(&path, "%s/%d.cubin", s->cubin_dir, id);
  enum fpl_status status =
      path.is_broken ? fpl_fail(err, FPL_NO_MEMORY, "no memory for a path")
                     : fpl_file_write(path.text, r->kernel.cubin, r->kernel.cubin_bytes, err);
  if (status == FPL_OK)
    *out = json_pack("{s:s,s:i,s:o,s:s}", "op", "load", "id", id, "kernel",
                     fpl_protocol_kernel(&r->kernel), "cubin", path.text);
  fpl_text_free(&path);
  return status;
}

static enum fpl_status load_one(struct session *s, int id, struct fpl_err *err) {
  struct fpl_result *const r = &s->results[id];
  if (!r->is_library && (!r->kernel.cubin || r->kernel.cubin_bytes == 0)) {
    skip(r, "no kernel was built");
    return FPL_OK;
  }
  json_t *request = NULL;
  enum fpl_status status = make_ready(s, err);
  if (status == FPL_OK)
    status = load_request(s, id, &request, err);
  if (status != FPL_OK)
    return status;
  struct fpl_reply reply;
  fpl_pool_load(s->pool, id, request, &reply);
  if (reply.kind != FPL_REPLY_OK) {
    charge(s, id, "load", &reply);
  } else if (r->is_library) {
    const char *const algorithm = json_string_value(json_object_get(reply.json, "reason"));
    snprintf(r->reason, sizeof r->reason, "%s", algorithm ? algorithm : "");
  }
  fpl_reply_free(&reply);
  return FPL_OK;
}

static double number_or_nan(const json_t *value) {
  return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static enum fpl_status verify_one(struct session *s, int id, struct fpl_err *err) {
  struct fpl_result *const r = &s->results[id];
  const enum fpl_status status = make_ready(s, err);
  if (status != FPL_OK || !is_pending(s, id))
    return status;
  struct fpl_reply reply;
  fpl_pool_request(s->pool, json_pack("{s:s,s:i}", "op", "verify", "id", id),
                   s->options->verify_timeout_us, &reply);
  if (reply.kind != FPL_REPLY_OK) {
    charge(s, id, "verify", &reply);
  } else {
    r->verification = (struct fpl_verification){
        .was_exact_ok = json_is_true(json_object_get(reply.json, "exact")),
        .relative_error = number_or_nan(json_object_get(reply.json, "relative_error")),
        .was_in_bounds = json_is_true(json_object_get(reply.json, "in_bounds")),
    };
    char reason[FPL_VERIFY_REASON];
    const enum fpl_outcome outcome =
        fpl_verify_judge(s->problem, r->is_library, &r->verification, reason);
    if (outcome != FPL_OUTCOME_OK) {
      r->outcome = outcome;
      const char *const where = json_string_value(json_object_get(reply.json, "reason"));
      snprintf(r->reason, sizeof r->reason, "%.120s%s%.120s", reason, where && *where ? ": " : "",
               where ? where : "");
      fpl_pool_unload(s->pool, id);
    }
  }
  fpl_reply_free(&reply);
  return FPL_OK;
}

/* Runs a step over every pending result: the library first, so that it is there whatever the
 * others do to the budget. */
static enum fpl_status for_each(struct session *s, const char *phase,
                                enum fpl_status (*step)(struct session *, int, struct fpl_err *),
                                struct fpl_err *err) {
  enum fpl_status status = FPL_OK;
  int n_done = 0;
  report(s, phase, 0, s->n);
  for (int turn = 0; turn < 2; turn++)
    for (int id = 0; id < s->n && status == FPL_OK; id++) {
      if (s->results[id].is_library != (turn == 0))
        continue;
      if (is_pending(s, id) && turn == 1 && elapsed_us(s) >= s->limits->budget_us)
        skip(&s->results[id], "budget spent before it was verified");
      if (is_pending(s, id))
        status = step(s, id, err);
      report(s, phase, ++n_done, s->n);
    }
  return status;
}

enum batch_kind { BATCH_GOOD, BATCH_THROTTLED, BATCH_INVALID };

/* Hardware and thermal reasons are trouble, where the clock shows it or is not known. The software
 * power cap is not: large products run at it, here as in production. Names: nvml.c. */
static bool is_slowed(const char *throttle, double clock_mhz, double most_clock_mhz) {
  const bool is_trouble = strstr(throttle, "hw_") || strstr(throttle, "thermal");
  return is_trouble && (clock_mhz <= 0 || clock_mhz < THROTTLE_PART * most_clock_mhz);
}

/* Reads n times into `us`, and what the chip did meanwhile. */
static enum batch_kind read_batch(struct session *s, const json_t *answer, int64_t n, double *us) {
  const json_t *const times = json_object_get(answer, "us");
  const char *const throttle = json_string_value(json_object_get(answer, "throttle"));
  const double clock_mhz = json_number_value(json_object_get(answer, "sm_clock_mhz"));
  if ((int64_t)json_array_size(times) != n)
    return BATCH_INVALID;
  bool is_valid = true;
  for (int64_t i = 0; i < n; i++) {
    us[i] = number_or_nan(json_array_get(times, (size_t)i));
    is_valid = is_valid && fpl_sample_is_valid(us[i]);
  }
  if (clock_mhz > 0) {
    s->clock_sum_mhz += clock_mhz;
    s->n_clocks++;
  }
  s->most_clock_mhz = fmax(s->most_clock_mhz, clock_mhz);
  if (throttle && *throttle && strcmp(throttle, "none") != 0) {
    fpl_environment_set(s->environment, "throttle", throttle);
    if (is_slowed(throttle, clock_mhz, s->most_clock_mhz))
      return BATCH_THROTTLED;
  }
  return is_valid ? BATCH_GOOD : BATCH_INVALID;
}

/* Room for n more samples at the end; NULL without memory. */
static double *grow_samples(struct fpl_samples *samples, int64_t n) {
  double *const us = realloc(samples->us, (size_t)(samples->n + n) * sizeof *us);
  if (!us)
    return NULL;
  samples->us = us;
  return us + samples->n;
}

/* Out of attempts. A throttled candidate with enough samples leaves the set and keeps them. */
static void give_up_batch(struct session *s, int id, enum fpl_cache_state state,
                          enum batch_kind kind) {
  struct fpl_result *const r = &s->results[id];
  s->is_in[id] = false;
  if (kind == BATCH_INVALID) {
    r->outcome = FPL_OUTCOME_INVALID_TIME;
    snprintf(r->reason, sizeof r->reason,
             "sample: %d batches with a time missing, not above zero, or not finite",
             (int)BATCH_ATTEMPTS);
  } else if (state == FPL_COLD && r->samples[FPL_COLD].n < s->limits->least_samples) {
    r->outcome = FPL_OUTCOME_THROTTLED;
    snprintf(r->reason, sizeof r->reason, "sample: %d batches throttled (%.100s)",
             (int)BATCH_ATTEMPTS, fpl_environment_get(s->environment, "throttle"));
  } else {
    return;
  }
  fpl_pool_unload(s->pool, id);
}

static void pause_ms(int ms) {
  thrd_sleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000}, NULL);
}

static void add_batch(struct session *s, struct fpl_result *r, enum fpl_cache_state state,
                      int64_t n, const json_t *answer) {
  const char *const method = json_string_value(json_object_get(answer, "method"));
  const int index = method ? fpl_name_index(fpl_method_names, method) : -1;
  if (index > (int)r->method) /* the least exact method that was used */
    r->method = (enum fpl_method)index;
  struct fpl_samples *const samples = &r->samples[state];
  samples->n += n;
  fpl_stats_make(samples->us, samples->n, s->scratch, &r->stats[state]);
}

/* One batch of n samples of one candidate, again when throttled or invalid. */
static enum fpl_status sample_one(struct session *s, int id, enum fpl_cache_state state, int64_t n,
                                  struct fpl_err *err) {
  struct fpl_result *const r = &s->results[id];
  enum batch_kind kind = BATCH_INVALID;
  for (int attempt = 0; attempt < BATCH_ATTEMPTS; attempt++) {
    const enum fpl_status status = make_ready(s, err);
    if (status != FPL_OK || !is_pending(s, id))
      return status;
    double *const us = grow_samples(&r->samples[state], n);
    if (!us)
      return fpl_fail(err, FPL_NO_MEMORY, "no memory for samples");
    struct fpl_reply reply;
    fpl_pool_request(s->pool,
                     json_pack("{s:s,s:i,s:s,s:I}", "op", "sample", "id", id, "state",
                               STATE_NAMES[state], "n", (json_int_t)n),
                     s->options->sample_timeout_us, &reply);
    const bool is_answer = reply.kind == FPL_REPLY_OK;
    kind = is_answer ? read_batch(s, reply.json, n, us) : BATCH_INVALID;
    if (!is_answer)
      charge(s, id, "sample", &reply);
    else if (kind == BATCH_GOOD)
      add_batch(s, r, state, n, reply.json);
    fpl_reply_free(&reply);
    if (!is_answer || kind == BATCH_GOOD)
      return FPL_OK;
    if (kind == BATCH_THROTTLED && attempt + 1 < BATCH_ATTEMPTS)
      pause_ms(PAUSE_MS << attempt);
  }
  give_up_batch(s, id, state, kind);
  return FPL_OK;
}

/* The candidate with the least median so far; -1 if none. */
static int find_leader(const struct session *s, enum fpl_cache_state state) {
  int best = -1;
  for (int id = 0; id < s->n; id++) {
    const struct fpl_stats *const stats = &s->results[id].stats[state];
    if (is_pending(s, id) && stats->n > 0 &&
        (best < 0 || stats->median_us < s->results[best].stats[state].median_us))
      best = id;
  }
  return best;
}

static int count_in(const struct session *s) {
  int n = 0;
  for (int id = 0; id < s->n; id++)
    n += s->is_in[id] && is_pending(s, id);
  return n;
}

/* After a round: who leaves? Returns whether anybody needs more samples. */
static bool settle(struct session *s, enum fpl_cache_state state,
                   const struct fpl_stop_options *stop) {
  const int leader = find_leader(s, state);
  const double best_us = leader < 0 ? 0 : s->results[leader].stats[state].median_us;
  bool goes_on = false;
  for (int id = 0; id < s->n; id++) {
    if (!s->is_in[id] || !is_pending(s, id))
      continue;
    const bool is_library = s->results[id].is_library;
    const enum fpl_stop decision = fpl_stop_decide(&s->results[id].stats[state],
                                                   is_library ? 0 : best_us, elapsed_us(s), stop);
    if (decision == FPL_STOP_NOT)
      goes_on = true;
    else if (!is_library && id != leader)
      s->is_in[id] = false;
    if (state == FPL_COLD && decision == FPL_STOP_SLOWER)
      s->is_abandoned[id] = true;
  }
  return goes_on;
}

/* Only the library plan is timed when the budget is gone, and only if it has no time yet. */
static bool may_sample(const struct session *s, int id, enum fpl_cache_state state,
                       const struct fpl_stop_options *stop) {
  const struct fpl_result *const r = &s->results[id];
  if (!s->is_in[id] || !is_pending(s, id))
    return false;
  return elapsed_us(s) < stop->budget_us ||
         (r->is_library && state == FPL_COLD && r->samples[FPL_COLD].n == 0);
}

static enum fpl_status run_rounds(struct session *s, enum fpl_cache_state state, double budget_us,
                                  struct fpl_err *err) {
  const struct fpl_stop_options stop =
      fpl_stop_options_make(s->limits->least_samples, s->limits->most_samples, budget_us);
  for (int id = 0; id < s->n; id++)
    s->is_in[id] = is_pending(s, id) && !s->is_abandoned[id];
  const int n_all = count_in(s);
  report(s, STATE_NAMES[state], 0, n_all);
  int64_t n_taken = 0; /* by everybody who is still in */
  bool goes_on = n_all > 0;
  for (uint64_t round = 0; goes_on; round++) {
    const int64_t n = fpl_min_i64(s->batch, stop.most_samples - n_taken);
    fpl_measure_order(s->limits->seed, round + (uint64_t)state * PHASE_ROUNDS, s->order, s->n);
    for (int i = 0; i < s->n; i++) {
      if (!may_sample(s, s->order[i], state, &stop))
        continue;
      const enum fpl_status status = sample_one(s, s->order[i], state, n, err);
      if (status != FPL_OK)
        return status;
      report(s, STATE_NAMES[state], n_all - count_in(s), n_all);
    }
    n_taken += n;
    goes_on = settle(s, state, &stop);
  }
  report(s, STATE_NAMES[state], n_all, n_all);
  return FPL_OK;
}

static void finish(struct session *s) {
  for (int id = 0; id < s->n; id++) {
    if (!is_pending(s, id))
      continue;
    if (s->results[id].stats[FPL_COLD].n > 0)
      s->results[id].outcome = FPL_OUTCOME_OK;
    else
      skip(&s->results[id], "budget spent before it was timed");
  }
}

static void read_environment(struct session *s) {
  const char *name = NULL;
  json_t *value = NULL;
  json_t *const all = json_deep_copy(fpl_pool_environment(s->pool));
  json_object_foreach(all, name, value) {
    char text[96];
    if (json_is_integer(value))
      snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
      snprintf(text, sizeof text, "%.9g", json_real_value(value));
    else
      snprintf(text, sizeof text, "%s", json_is_string(value) ? json_string_value(value) : "");
    fpl_environment_set(s->environment, name, text);
  }
  json_decref(all);
  double clock_mhz = 0;
  if (fpl_parse_f64(fpl_environment_get(s->environment, "sm_clock_mhz"), &clock_mhz))
    s->most_clock_mhz = clock_mhz;
}

/* The mean clock under load replaces what the worker said when it was idle. */
static void write_environment(struct session *s) {
  char text[32];
  snprintf(text, sizeof text, "%.0f", s->clock_sum_mhz / (double)fpl_max_i64(s->n_clocks, 1));
  if (s->n_clocks > 0)
    fpl_environment_set(s->environment, "sm_clock_mhz", text);
}

static enum fpl_status open_session(struct session *s, struct fpl_err *err) {
  char problem[FPL_PROBLEM_TEXT];
  char *cubin_dir = NULL;
  const size_t n = (size_t)s->n;
  const struct fpl_pool_options pool = {.self_path = s->options->self_path,
                                        .open_timeout_us = s->options->open_timeout_us,
                                        .load_timeout_us = s->options->load_timeout_us,
                                        .n_ids = s->n};
  s->is_in = fpl_arena_alloc(&s->arena, n * sizeof *s->is_in);
  s->is_abandoned = fpl_arena_alloc(&s->arena, n * sizeof *s->is_abandoned);
  s->order = fpl_arena_alloc(&s->arena, n * sizeof *s->order);
  s->scratch = fpl_arena_alloc(&s->arena, (size_t)s->limits->most_samples * sizeof *s->scratch);
  if (!s->is_in || !s->is_abandoned || !s->order || !s->scratch)
    return fpl_fail(err, FPL_NO_MEMORY, "no memory to measure %d candidates", s->n);
  enum fpl_status status = fpl_dir_make(s->options->work_dir, err);
  if (status == FPL_OK)
    status = fpl_dir_temporary(&s->arena, s->options->work_dir, "measure", &cubin_dir, err);
  if (status != FPL_OK)
    return status;
  s->cubin_dir = cubin_dir;
  fpl_problem_text(s->problem, problem);
  /* JSON integers are signed: 63 bits of the seed. */
  json_t *const request =
      json_pack("{s:s,s:i,s:s,s:I,s:s}", "op", "open", "device", s->options->device, "problem",
                problem, "seed", (json_int_t)(s->limits->seed & (uint64_t)INT64_MAX), "support",
                s->options->support_cubin_path);
  if (s->options->is_untraced)
    json_object_set_new(request, "trace", json_false());
  status = fpl_pool_open(&pool, request, &s->pool, err);
  if (status == FPL_OK)
    status = make_ready(s, err);
  if (status == FPL_OK)
    read_environment(s);
  return status;
}

static void close_session(struct session *s) {
  fpl_pool_close(s->pool);
  if (s->cubin_dir)
    (void)fpl_dir_remove(s->cubin_dir, NULL);
  fpl_arena_free(&s->arena);
}

static enum fpl_status run_session(struct session *s, struct fpl_err *err) {
  enum fpl_status status = open_session(s, err);
  if (status == FPL_OK)
    status = for_each(s, "load", load_one, err);
  if (status == FPL_OK)
    status = for_each(s, "verify", verify_one, err);
  if (status == FPL_OK)
    status = run_rounds(s, FPL_COLD, COLD_PART * s->limits->budget_us, err);
  if (status == FPL_OK)
    status = run_rounds(s, FPL_HOT, s->limits->budget_us, err);
  if (status == FPL_OK) {
    write_environment(s);
    finish(s);
  }
  close_session(s);
  return status;
}

static enum fpl_status
measure(void *self, const struct fpl_problem *p, const struct fpl_measure_options *options,
        struct fpl_result *results, int n, struct fpl_environment *environment,
        void (*progress)(void *context, const char *phase, int n_done, int n_all), void *context,
        struct fpl_err *err) {
  const struct fpl_measurer *const measurer = self;
  struct fpl_measure_options limits = *options;
  limits.least_samples = fpl_max_i64(limits.least_samples, 1);
  limits.most_samples = fpl_max_i64(limits.most_samples, limits.least_samples);
  struct session s = {
      .options = &measurer->options,
      .problem = p,
      .limits = &limits,
      .results = results,
      .n = n,
      .environment = environment,
      .progress = progress,
      .context = context,
      .started_us = fpl_now_us(),
      .batch = fpl_min_i64(fpl_ceil_div(limits.least_samples, ROUNDS_LEAST), BATCH_MOST),
  };
  for (int id = 0; id < n; id++)
    if (is_pending(&s, id))
      return run_session(&s, err);
  return FPL_OK;
}

static const char *copy_text(struct fpl_arena *arena, const char *text) {
  return fpl_arena_copy(arena, text, strlen(text));
}

static void set_default(double *timeout_us, double fallback_us) {
  if (*timeout_us <= 0)
    *timeout_us = fallback_us;
}

enum fpl_status fpl_measurer_open(const struct fpl_measurer_options *options,
                                  struct fpl_measurer **out, struct fpl_err *err) {
  struct fpl_measurer *const measurer = calloc(1, sizeof *measurer);
  *out = NULL;
  if (!measurer)
    return fpl_fail(err, FPL_NO_MEMORY, "no memory for a measurer");
  struct fpl_measurer_options *const own = &measurer->options;
  *own = *options;
  own->self_path = copy_text(&measurer->arena, options->self_path);
  own->support_cubin_path = copy_text(&measurer->arena, options->support_cubin_path);
  own->work_dir = copy_text(&measurer->arena, options->work_dir);
  set_default(&own->open_timeout_us, OPEN_US);
  set_default(&own->load_timeout_us, LOAD_US);
  set_default(&own->verify_timeout_us, VERIFY_US);
  set_default(&own->sample_timeout_us, SAMPLE_US);
  if (!own->self_path || !own->support_cubin_path || !own->work_dir) {
    fpl_measurer_close(measurer);
    return fpl_fail(err, FPL_NO_MEMORY, "no memory for a measurer");
  }
  *out = measurer;
  return FPL_OK;
}

void fpl_measurer_close(struct fpl_measurer *measurer) {
  if (!measurer)
    return;
  fpl_arena_free(&measurer->arena);
  free(measurer);
}

struct fpl_measurer_port fpl_measurer_port(struct fpl_measurer *measurer) {
  return (struct fpl_measurer_port){.self = measurer, .measure = measure};
}
