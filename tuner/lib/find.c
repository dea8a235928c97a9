/* Decides which layer answers and what the answer says. Exact hits alone: the plan stored for the
 * problem on its device class, from the first layer that has one. */
#include "tuner/lib/arguments.h"
#include "tuner/lib/store.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static_assert((int)FUSEPLAN_MEASURED == (int)FPL_PROVENANCE_MEASURED &&
                  (int)FUSEPLAN_PREDICTED == (int)FPL_PROVENANCE_PREDICTED &&
                  (int)FUSEPLAN_SIMULATED == (int)FPL_PROVENANCE_SIMULATED,
              "one number for one provenance");

/* What is recorded as driver ends with "(CUDA 13.0)"; that version is what a caller can ask its own
 * driver for. 0 where it does not. */
static int64_t driver_of(const struct fpl_environment *environment) {
  const char *const at = strstr(fpl_environment_get(environment, "driver"), "(CUDA ");
  int64_t numbers[2] = {0}; /* major, minor */
  const char *digit = at ? at + strlen("(CUDA ") : "";
  for (int i = 0; i < 2; i++) {
    for (; *digit >= '0' && *digit <= '9' && numbers[i] < 1000; digit++)
      numbers[i] = numbers[i] * 10 + (*digit - '0');
    digit += *digit == '.';
  }
  return numbers[0] * 1000 + numbers[1] * 10;
}

static void fill(const struct fpl_plan *plan, int layer, struct fuseplan_answer *out) {
  const bool has_kernel = !plan->is_library && plan->kernel.cubin_bytes > 0;
  *out = (struct fuseplan_answer){.size = sizeof *out,
                                  .tier = FUSEPLAN_TIER_EXACT,
                                  .provenance = (int32_t)plan->provenance,
                                  .is_library = plan->is_library,
                                  .has_kernel = has_kernel,
                                  .is_deterministic = fpl_plan_is_deterministic(plan),
                                  .layer = layer,
                                  .plan = plan->id,
                                  .m_low = plan->problem.m,
                                  .m_high = plan->problem.m,
                                  .estimated_us = plan->est_us,
                                  .measured_us = plan->measured_us,
                                  .measured_hot_us = plan->measured_hot_us,
                                  .library_us = plan->library_us,
                                  .library_hot_us = plan->library_hot_us,
                                  .created_unix = plan->created_unix,
                                  .candidates = plan->n_candidates,
                                  .verified = plan->n_ok};
  fpl_problem_text(&plan->problem, out->problem);
  if (!plan->is_library) {
    /* Legal schedules take half of it. */
    char text[FPL_SCHEDULE_TEXT];
    fpl_schedule_text(&plan->schedule, text);
    snprintf(out->schedule, sizeof out->schedule, "%.255s", text);
  }
  memcpy(out->kernel, plan->kernel.name, sizeof out->kernel);
  snprintf(out->reason, sizeof out->reason, "stored for this problem: %.229s", plan->reason);
}

static_assert(sizeof((struct fuseplan_answer *)0)->problem >= FPL_PROBLEM_TEXT, "fits");
static_assert(sizeof((struct fuseplan_answer *)0)->kernel == FPL_KERNEL_NAME, "fits");

struct reading {
  struct fpl_layer *layer;
  int index;
  size_t capacity;
};

static enum fpl_status keep(void *context, const struct fpl_plan *plan,
                            const char *device_class_key, struct fpl_err *err) {
  struct reading *const reading = context;
  struct fpl_layer *const layer = reading->layer;
  if (layer->n_answers == reading->capacity) {
    reading->capacity = reading->capacity == 0 ? 64 : 2 * reading->capacity;
    void *const grown = realloc(layer->answers, reading->capacity * sizeof *layer->answers);
    if (!grown)
      return fpl_fail(err, FPL_NO_MEMORY, "open: out of memory for %zu plans", reading->capacity);
    layer->answers = grown;
  }
  struct fpl_stored_answer *const out = &layer->answers[layer->n_answers++];
  fpl_problem_key(&plan->problem, out->problem_key);
  snprintf(out->device_class_key, sizeof out->device_class_key, "%s", device_class_key);
  out->driver = driver_of(&plan->environment);
  fill(plan, reading->index, &out->answer);
  return FPL_OK;
}

enum fpl_status fpl_layer_read(struct fpl_layer *layer, int index, struct fpl_err *err) {
  struct reading reading = {.layer = layer, .index = index};
  return fpl_db_each_usable_plan(layer->db, keep, &reading, err);
}

static int compare(const struct fpl_stored_answer *stored, const char *problem_key,
                   const char *device_class_key) {
  const int by_problem = strcmp(stored->problem_key, problem_key);
  return by_problem != 0 ? by_problem : strcmp(stored->device_class_key, device_class_key);
}

static bool is_wanted(const struct fuseplan_answer *answer, const struct fuseplan_options *wanted) {
  return (answer->is_deterministic || !wanted->is_deterministic) &&
         (answer->has_kernel || !wanted->needs_kernel);
}

/* The best one that is wanted, or NULL. */
static const struct fpl_stored_answer *find_in_layer(const struct fpl_layer *layer,
                                                     const char *problem_key,
                                                     const char *device_class_key,
                                                     const struct fuseplan_options *wanted) {
  size_t low = 0, high = layer->n_answers;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (compare(&layer->answers[middle], problem_key, device_class_key) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  for (; low < layer->n_answers; low++) {
    const struct fpl_stored_answer *const stored = &layer->answers[low];
    if (compare(stored, problem_key, device_class_key) != 0)
      return NULL;
    if (is_wanted(&stored->answer, wanted))
      return stored;
  }
  return NULL;
}

static enum fpl_status look_up(const struct fuseplan_store *store,
                               const struct fpl_problem *problem, const struct fpl_device *device,
                               const struct fuseplan_options *wanted, int64_t driver,
                               struct fuseplan_answer *out, struct fpl_err *err) {
  char problem_key[FPL_KEY_HEX], device_class_key[FPL_KEY_HEX];
  fpl_problem_key(problem, problem_key);
  fpl_device_class_key(device, device_class_key);
  for (int i = 0; i < store->n_layers; i++) {
    const struct fpl_stored_answer *const stored =
        find_in_layer(&store->layers[i], problem_key, device_class_key, wanted);
    if (!stored)
      continue;
    *out = stored->answer;
    out->match = driver == 0 || stored->driver == 0 ? FUSEPLAN_MATCH_UNKNOWN
                 : driver == stored->driver         ? FUSEPLAN_MATCH_SAME
                                                    : FUSEPLAN_MATCH_DRIVER;
    return FPL_OK;
  }
  char problem_text[FPL_PROBLEM_TEXT], class_text[FPL_DEVICE_CLASS_TEXT];
  fpl_problem_text(problem, problem_text);
  fpl_device_class_text(device, class_text);
  return fpl_fail(err, fpl_no_plan(),
                  "no %s%splan is stored for %s on %s: tune it, or ask for less",
                  wanted->is_deterministic ? "deterministic " : "",
                  wanted->needs_kernel ? "launchable " : "", problem_text, class_text);
}

int fuseplan_lookup(fuseplan_store *store, const struct fuseplan_problem *problem,
                    const struct fuseplan_device *device, const struct fuseplan_options *options,
                    struct fuseplan_answer *out, struct fuseplan_message *message) {
  struct fpl_err err = {0};
  struct fpl_problem p;
  struct fpl_device d;
  struct fuseplan_options wanted;
  enum fpl_status status = store ? FPL_OK : fpl_fail(&err, FPL_USAGE, "store is NULL");
  if (status == FPL_OK)
    status = fpl_argument_struct(out, sizeof *out, "out", &err);
  if (status == FPL_OK)
    status = fpl_argument_problem(problem, &p, &err);
  if (status == FPL_OK)
    status = fpl_argument_device(device, &d, &err);
  if (status == FPL_OK)
    status = fpl_argument_options(options, &wanted, &err);
  if (status == FPL_OK)
    status = look_up(store, &p, &d, &wanted, device->driver, out, &err);
  return fpl_answer(status, &err, message);
}
