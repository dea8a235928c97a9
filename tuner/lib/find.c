/* Lookup: tuner/core/answer.h over the store's layers, in the public structures. */
#include "tuner/lib/arguments.h"
#include "tuner/lib/store.h"

#include "tuner/base/str.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static_assert((int)FUSEPLAN_MEASURED == (int)FPL_PROVENANCE_MEASURED &&
                  (int)FUSEPLAN_PREDICTED == (int)FPL_PROVENANCE_PREDICTED &&
                  (int)FUSEPLAN_SIMULATED == (int)FPL_PROVENANCE_SIMULATED,
              "one number for one provenance");

static const int32_t matches[] = {[FPL_MATCH_SAME] = FUSEPLAN_MATCH_SAME,
                                  [FPL_MATCH_TOOLKIT] = FUSEPLAN_MATCH_TOOLKIT,
                                  [FPL_MATCH_DRIVER] = FUSEPLAN_MATCH_DRIVER,
                                  [FPL_MATCH_UNKNOWN] = FUSEPLAN_MATCH_UNKNOWN};
static_assert((int)FUSEPLAN_TIER_EXACT == (int)FPL_TIER_EXACT &&
                  (int)FUSEPLAN_TIER_ENVELOPE == (int)FPL_TIER_ENVELOPE &&
                  (int)FUSEPLAN_TIER_NEAREST == (int)FPL_TIER_NEAREST &&
                  (int)FUSEPLAN_TIER_MODEL == (int)FPL_TIER_MODEL &&
                  (int)FUSEPLAN_TIER_LIBRARY == (int)FPL_TIER_LIBRARY,
              "one number for one tier");

static void copy_text(char *out, size_t size, const struct fpl_snapshot_text *text) {
  fpl_copy_bytes(out, size, text->text, text->length);
}

static void fill(const struct fuseplan_store *store, const struct fpl_answer *answer,
                 struct fuseplan_answer *out) {
  const struct fpl_plan *const plan = &answer->plan;
  out->tier = (int32_t)answer->tier;
  out->match = matches[answer->match];
  out->provenance = (int32_t)plan->provenance;
  out->is_library = plan->is_library;
  out->has_kernel = answer->has_kernel;
  out->is_deterministic = fpl_plan_is_deterministic(plan);
  out->layer = answer->layer;
  out->plan = plan->id;
  out->m_low = plan->m_low;
  out->m_high = plan->m_high;
  out->estimated_us = plan->est_us;
  out->measured_us = plan->measured_us;
  out->measured_hot_us = plan->measured_hot_us;
  out->library_us = plan->library_us;
  out->library_hot_us = plan->library_hot_us;
  out->regret = answer->regret.expected;
  out->regret_low = answer->regret.low;
  out->regret_high = answer->regret.high;
  out->created_unix = plan->created_unix;
  out->candidates = plan->n_candidates;
  out->verified = plan->n_ok;
  struct fpl_snapshot_texts texts;
  fpl_snapshot_texts(store->layers[answer->layer].snapshot, plan->id, &texts);
  copy_text(out->problem, sizeof out->problem, &texts.problem);
  copy_text(out->schedule, sizeof out->schedule, &texts.schedule); /* legal ones take half of it */
  copy_text(out->kernel, sizeof out->kernel, &texts.kernel);
  struct fpl_line line = fpl_line_start(out->reason, sizeof out->reason);
  fpl_line_text(&line, answer->reason);
  fpl_line_text(&line, ": ");
  copy_text(line.at, (size_t)(line.end - line.at) + 1, &texts.reason);
}

static_assert(sizeof((struct fuseplan_answer *)0)->problem >= FPL_PROBLEM_TEXT, "fits");
static_assert(sizeof((struct fuseplan_answer *)0)->kernel == FPL_KERNEL_NAME, "fits");

/* The limits of the device class, which its plans are checked against, from a layer that has it. */
static bool find_limits(const struct fuseplan_store *store, struct fpl_device *d) {
  for (int i = 0; i < store->n_layers; i++)
    if (fpl_snapshot_find_device(store->layers[i].snapshot, d, d))
      return true;
  return false;
}

static enum fpl_status fail_no_plan(const struct fpl_wanted *wanted, const char *why,
                                    struct fpl_err *err) {
  char problem_text[FPL_PROBLEM_TEXT], class_text[FPL_DEVICE_CLASS_TEXT];
  fpl_problem_text(wanted->problem, problem_text);
  fpl_device_class_text(wanted->device, class_text);
  return fpl_fail(err, fpl_no_plan(), "no %s%splan for %s on %s: %.120s: tune it, or ask for less",
                  wanted->is_deterministic ? "deterministic " : "",
                  wanted->needs_kernel ? "launchable " : "", problem_text, class_text, why);
}

/* 13000 as the environment's "13.0". */
static void set_driver(struct fpl_environment *out, int64_t driver) {
  char version[48];
  struct fpl_line line = fpl_line_start(version, sizeof version);
  fpl_line_i64(&line, driver / 1000);
  fpl_line_text(&line, ".");
  fpl_line_i64(&line, driver % 1000 / 10);
  out->n_fields = 0;
  fpl_environment_set(out, "driver", version);
}

static enum fpl_status look_up(const struct fuseplan_store *store,
                               const struct fpl_problem *problem, struct fpl_device *device,
                               const struct fuseplan_options *options, int64_t driver,
                               struct fuseplan_answer *out, struct fpl_err *err) {
  const struct fpl_wanted wanted = {.problem = problem,
                                    .device = device,
                                    .is_deterministic = options->is_deterministic != 0,
                                    .needs_kernel = options->needs_kernel != 0,
                                    .is_brief = true};
  if (!find_limits(store, device))
    return fail_no_plan(&wanted, "nothing is stored for this device class", err);
  struct fpl_environment asking; /* large: filled where it is asked for */
  if (driver > 0)
    set_driver(&asking, driver);
  const int last =
      options->last_tier < (int32_t)FPL_TIER_NEAREST ? options->last_tier : (int)FPL_TIER_NEAREST;
  struct fpl_answer answer;
  const enum fpl_status status =
      fpl_answer(store->sources, store->n_layers, &wanted, driver > 0 ? &asking : NULL,
                 (enum fpl_tier)last, &answer, NULL, err);
  if (status != FPL_OK)
    return status;
  if (!answer.is_stored)
    return fail_no_plan(&wanted, answer.reason, err);
  fill(store, &answer, out);
  return FPL_OK;
}

int fuseplan_lookup(fuseplan_store *store, const struct fuseplan_problem *problem,
                    const struct fuseplan_device *device, const struct fuseplan_options *options,
                    struct fuseplan_answer *out, struct fuseplan_message *message) {
  struct fpl_err err;
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
  return fpl_report(status, &err, message);
}
