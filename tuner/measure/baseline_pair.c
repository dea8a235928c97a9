/* Decides how a pair of library products runs and is timed; leaves the choice of algorithms to
 * baseline_search and each library to its own file. */
#include "tuner/measure/baseline_pair.h"

#include "tuner/base/str.h"
#include "tuner/measure/baseline_cublaslt.h"
#include "tuner/measure/baseline_cudnn.h"
#include "tuner/measure/baseline_search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
  ACTIVATION_THREADS = 128,
  ACTIVATION_ELEMENTS = 8,  /* a thread, see support_sm90.cu */
  ACTIVATION_ROUNDS = 4,    /* blocks beyond so many times what the chip holds take more rows */
  SM_BLOCKS = 16,           /* of ACTIVATION_THREADS: 2048 threads an SM (CUDA guide, sm_90) */
  MOST_GRID_Y = 65535,      /* CUDA programming guide, compute capabilities */
  ROUGH_LAUNCHES = 4,       /* to learn how long a pair takes */
  QUICK_LEAST_LAUNCHES = 8, /* of a graph; no fewer can be asked for */
  QUICK_MOST_LAUNCHES = 32,
  LONG_LAUNCHES = 2,
  WELL_LEAST_ROUNDS = 2,
  WELL_MOST_ROUNDS = 6
};
static const double quick_us = 1500;        /* aim of one quick time */
static const double long_us = 200;          /* a pair so long hides its launches: no graph needed */
static const double well_us = 300e3;        /* no further round after it */
static const double quick_most_us = 1500e3; /* of one product's quick pass */

struct fpl_baseline {
  const struct fpl_gpu *gpu;
  const struct fpl_inputs *inputs;
  struct fpl_cublaslt *library;
  struct fpl_cublaslt_product *first; /* NULL: conv */
  struct fpl_cudnn *conv;             /* NULL: first */
  struct fpl_cublaslt_product *second;
  bool has_epilogue;     /* the first product applies the activation */
  CUdeviceptr made;      /* first product's result, [m][branches n] */
  CUdeviceptr activated; /* [m][n]; 0: in place */
  struct fpl_baseline_choice choice;
  int64_t next_set;       /* of quick times */
  int64_t quick_launches; /* 0: the pair is long */
};

static bool has_activation(void *self, const struct fpl_baseline_choice *choice) {
  const struct fpl_baseline *pair = self;
  const struct fpl_problem *p = &pair->inputs->problem;
  if (pair->conv != NULL)
    return p->act != FPL_ACT_NONE && !fpl_cudnn_is_fused(pair->conv, choice->algorithms[0]);
  return !pair->has_epilogue;
}

static bool enqueue_activation(const struct fpl_baseline *pair, CUdeviceptr to,
                               struct fpl_failure *failure) {
  const struct fpl_gpu *gpu = pair->gpu;
  const struct fpl_problem *p = &pair->inputs->problem;
  CUdeviceptr from = pair->made;
  int m = (int)p->m, n = (int)p->n, is_gated = fpl_problem_branches(p) == 2 ? 1 : 0;
  int act = (int)p->act, dtype = (int)p->dtype;
  void *parameters[] = {&from, &to, &m, &n, &is_gated, &act, &dtype};
  /* Blocks of equal size over a row, so that none is mostly idle. */
  const int64_t vectors = fpl_ceil_div(p->n, ACTIVATION_ELEMENTS);
  const int64_t x = fpl_ceil_div(vectors, ACTIVATION_THREADS);
  const int64_t most_blocks = (int64_t)ACTIVATION_ROUNDS * SM_BLOCKS * gpu->sms;
  const int64_t y = fpl_min_i64(p->m, fpl_min_i64(MOST_GRID_Y, fpl_ceil_div(most_blocks, x)));
  CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
  attribute.value.programmaticStreamSerializationAllowed = 1;
  const CUlaunchConfig config = {.gridDimX = (unsigned)x,
                                 .gridDimY = (unsigned)y,
                                 .gridDimZ = 1,
                                 .blockDimX = (unsigned)fpl_round_up(fpl_ceil_div(vectors, x), 32),
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .hStream = gpu->stream,
                                 .attrs = &attribute,
                                 .numAttrs = pair->choice.is_early ? 1 : 0};
  return fpl_driver_ok(
      &gpu->call,
      gpu->call.launch_with(&config, gpu->support[FPL_SUPPORT_ACTIVATION], parameters, NULL),
      "launch the activation", failure);
}

static bool enqueue_pair(void *self, int64_t set, struct fpl_failure *failure) {
  const struct fpl_baseline *pair = self;
  const struct fpl_operands *from = &pair->inputs->sets[set];
  const int *algorithms = pair->choice.algorithms;
  CUdeviceptr c = pair->made;
  const bool is_made =
      pair->conv != NULL
          ? fpl_cudnn_enqueue(pair->conv, algorithms[0], from->a, from->b, c, failure)
          : fpl_cublaslt_enqueue(pair->first, algorithms[0], from->a, from->b, c, failure);
  if (!is_made)
    return false;
  if (has_activation(self, &pair->choice)) {
    c = pair->activated != 0 ? pair->activated : pair->made;
    if (!enqueue_activation(pair, c, failure))
      return false;
  }
  return fpl_cublaslt_enqueue(pair->second, algorithms[1], c, from->d, pair->inputs->e, failure);
}

struct fpl_runner fpl_baseline_runner(struct fpl_baseline *pair) {
  return (struct fpl_runner){.self = pair, .is_library = true, .enqueue = enqueue_pair};
}

/* Goes on through the sets from one graph to the next, whatever set is asked for: so few launches
 * as one quick time takes would otherwise find their weights in the L2. */
static bool enqueue_next(void *self, int64_t set, struct fpl_failure *failure) {
  (void)set;
  struct fpl_baseline *pair = self;
  const int64_t own = pair->next_set;
  pair->next_set = (own + 1) % pair->inputs->n_sets;
  return enqueue_pair(self, own, failure);
}

/* Mean of n launches without a graph. */
static bool time_launches(struct fpl_baseline *pair, int n, double *out_us,
                          struct fpl_failure *failure) {
  const struct fpl_gpu *gpu = pair->gpu;
  const struct fpl_driver *call = &gpu->call;
  float elapsed_ms = 0;
  if (!fpl_driver_ok(call, call->event_record(gpu->start, gpu->stream), "record", failure))
    return false;
  for (int i = 0; i < n; i++)
    if (!enqueue_next(pair, 0, failure))
      return false;
  if (!fpl_driver_ok(call, call->event_record(gpu->stop, gpu->stream), "record", failure) ||
      !fpl_gpu_wait(gpu, "run the library pair", failure) ||
      !fpl_driver_ok(call, call->event_elapsed_ms(&elapsed_ms, gpu->start, gpu->stop),
                     "elapsed time", failure))
    return false;
  *out_us = (double)elapsed_ms * 1e3 / n;
  return true;
}

/* Once outside of any timing: a library loads a kernel at its first use, and may then refuse. */
static bool run_once(struct fpl_baseline *pair, const struct fpl_baseline_choice *choice,
                     struct fpl_failure *failure) {
  pair->choice = *choice;
  return enqueue_next(pair, 0, failure) && fpl_gpu_wait(pair->gpu, "run the library pair", failure);
}

static bool time_quickly(void *self, const struct fpl_baseline_choice *choice, double *out_us,
                         struct fpl_failure *failure) {
  struct fpl_baseline *pair = self;
  const struct fpl_runner runner = {.self = pair, .is_library = true, .enqueue = enqueue_next};
  struct fpl_replay replay;
  if (!run_once(pair, choice, failure))
    return false;
  if (pair->quick_launches == 0)
    return time_launches(pair, LONG_LAUNCHES, out_us, failure);
  struct fpl_inputs window = *pair->inputs;
  window.n_sets = pair->quick_launches; /* the graph's launches; the sets are enqueue_next's */
  if (!fpl_replay_make(pair->gpu, &runner, &window, FPL_COLD, &replay, failure))
    return false;
  const bool is_ok = fpl_replay_mean_us(pair->gpu, &replay, out_us, failure);
  fpl_replay_free(pair->gpu, &replay);
  return is_ok;
}

/* The least of the means of a few replays, which take turns. */
static bool time_replays(const struct fpl_baseline *pair, const struct fpl_replay *replays, int n,
                         double *us, struct fpl_failure *failure) {
  double spent_us = 0;
  for (int round = 0; round < WELL_MOST_ROUNDS; round++) {
    if (round >= WELL_LEAST_ROUNDS && spent_us > well_us)
      break;
    for (int i = 0; i < n; i++) {
      double mean_us = 0;
      if (replays[i].exec == NULL)
        continue;
      if (!fpl_replay_mean_us(pair->gpu, &replays[i], &mean_us, failure))
        return false;
      us[i] = fmin(us[i], mean_us);
      spent_us += mean_us * (double)replays[i].n_launches;
    }
  }
  return true;
}

static bool time_well(void *self, const struct fpl_baseline_choice *choices, int n, double *out_us,
                      struct fpl_failure *failure) {
  struct fpl_baseline *pair = self;
  const struct fpl_runner runner = fpl_baseline_runner(pair);
  struct fpl_replay replays[FPL_BASELINE_WELL_MOST] = {{0}};
  bool is_ok = true;
  for (int i = 0; i < n && is_ok; i++) {
    out_us[i] = INFINITY;
    is_ok = (run_once(pair, &choices[i], failure) &&
             fpl_replay_make(pair->gpu, &runner, pair->inputs, FPL_COLD, &replays[i], failure)) ||
            !failure->is_sticky;
  }
  /* Without a sticky failure a replay that was made runs: what could be refused was run before. */
  is_ok = is_ok && time_replays(pair, replays, n, out_us, failure);
  for (int i = 0; i < n; i++)
    fpl_replay_free(pair->gpu, &replays[i]);
  return is_ok;
}

static bool open_first(struct fpl_baseline *pair, struct fpl_failure *failure) {
  const struct fpl_problem *p = &pair->inputs->problem;
  const struct fpl_operands *from = &pair->inputs->sets[0];
  struct fpl_cublaslt_shape shape = {p->m, fpl_problem_branches(p) * p->n, p->k, p->dtype,
                                     FPL_CUBLASLT_PLAIN};
  if (p->kind == FPL_KIND_CONV_CHAIN && p->conv.k1 > 1)
    return fpl_cudnn_open(pair->gpu, p, from->a, from->b, pair->made, &pair->conv, failure);
  if (fpl_problem_branches(p) == 1 && p->act == FPL_ACT_RELU)
    shape.epilogue = FPL_CUBLASLT_RELU;
  if (fpl_problem_branches(p) == 1 && p->act == FPL_ACT_GELU)
    shape.epilogue = FPL_CUBLASLT_GELU;
  pair->has_epilogue = shape.epilogue != FPL_CUBLASLT_PLAIN ||
                       (fpl_problem_branches(p) == 1 && p->act == FPL_ACT_NONE);
  return fpl_cublaslt_product_open(pair->library, &shape, &pair->first, failure);
}

static bool prepare(struct fpl_baseline *pair, struct fpl_failure *failure) {
  const struct fpl_problem *p = &pair->inputs->problem;
  const struct fpl_cublaslt_shape second = {p->m, p->l, p->n, p->dtype, FPL_CUBLASLT_PLAIN};
  const bool is_gated = fpl_problem_branches(p) == 2;
  const uint64_t c_bytes = (uint64_t)(p->m * p->n) * FPL_ELEMENT_BYTES;
  return fpl_cublaslt_open(pair->gpu, &pair->library, failure) &&
         fpl_gpu_alloc(pair->gpu, is_gated ? 2 * c_bytes : c_bytes, &pair->made, failure) &&
         (!is_gated || fpl_gpu_alloc(pair->gpu, c_bytes, &pair->activated, failure)) &&
         open_first(pair, failure) &&
         fpl_cublaslt_product_open(pair->library, &second, &pair->second, failure);
}

/* How many launches a quick time takes; the first suggestions serve as a measure. */
static bool size_up(struct fpl_baseline *pair, struct fpl_failure *failure) {
  const struct fpl_baseline_choice suggested = {{0, 0}, false};
  double us = 0;
  if (!run_once(pair, &suggested, failure) || !time_launches(pair, ROUGH_LAUNCHES, &us, failure)) {
    pair->quick_launches = QUICK_LEAST_LAUNCHES;
    return !failure->is_sticky;
  }
  if (us < long_us)
    pair->quick_launches = fpl_max_i64(
        QUICK_LEAST_LAUNCHES, fpl_min_i64(QUICK_MOST_LAUNCHES, (int64_t)(quick_us / fmax(us, 1))));
  return true;
}

static int first_algorithms(const struct fpl_baseline *pair) {
  return pair->conv != NULL ? fpl_cudnn_algorithms(pair->conv)
                            : fpl_cublaslt_algorithms(pair->first);
}

static void write_text(struct fpl_baseline *pair, const struct fpl_baseline_found *found,
                       char out[FPL_BASELINE_TEXT]) {
  const struct fpl_baseline_choice *choice = &found->choice;
  char first[FPL_CUBLASLT_TEXT], second[FPL_CUBLASLT_TEXT];
  const char *between = "";
  if (pair->conv != NULL)
    fpl_cudnn_algorithm_text(pair->conv, choice->algorithms[0], first);
  else
    fpl_cublaslt_algorithm_text(pair->first, choice->algorithms[0], first);
  fpl_cublaslt_algorithm_text(pair->second, choice->algorithms[1], second);
  if (has_activation(pair, choice))
    between = choice->is_early ? "activation launched early; " : "activation; ";
  snprintf(out, FPL_BASELINE_TEXT,
           "choice %d, %d timed: %.70s; %schoice %d, %d timed: %.60s; graph %.2f us, first choices "
           "%.2f us",
           choice->algorithms[0] + 1, found->n_tried[0], first, between, choice->algorithms[1] + 1,
           found->n_tried[1], second, found->us, found->suggested_us);
}

bool fpl_baseline_open(const struct fpl_gpu *gpu, const struct fpl_inputs *inputs,
                       struct fpl_baseline **out, char out_text[FPL_BASELINE_TEXT],
                       struct fpl_failure *failure) {
  *out = NULL;
  struct fpl_baseline *pair = calloc(1, sizeof *pair);
  if (pair == NULL)
    return fpl_failure_candidate(failure, FPL_OUTCOME_OOM, "out of host memory");
  pair->gpu = gpu;
  pair->inputs = inputs;
  const struct fpl_baseline_timer timer = {pair, time_quickly, time_well, has_activation};
  struct fpl_baseline_found found;
  bool is_ok = prepare(pair, failure) && size_up(pair, failure);
  if (is_ok) {
    const int n_algorithms[2] = {first_algorithms(pair), fpl_cublaslt_algorithms(pair->second)};
    is_ok = fpl_baseline_search(&timer, n_algorithms, quick_most_us, &found, failure);
  }
  if (!is_ok) {
    fpl_baseline_close(pair);
    return false;
  }
  pair->choice = found.choice;
  write_text(pair, &found, out_text);
  *out = pair;
  return true;
}

void fpl_baseline_close(struct fpl_baseline *pair) {
  if (pair == NULL)
    return;
  fpl_cublaslt_product_close(pair->second);
  fpl_cublaslt_product_close(pair->first);
  fpl_cudnn_close(pair->conv);
  fpl_cublaslt_close(pair->library);
  fpl_gpu_free(pair->gpu, &pair->activated);
  fpl_gpu_free(pair->gpu, &pair->made);
  free(pair);
}
