/* fuseplan lookup: the plan for a shape, and how far it can be trusted. Needs no GPU. */
#include "costmodel/timemodel.h"
#include "tuner/cli/ask.h"
#include "tuner/cli/misses.h"
#include "tuner/search/rank.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const struct fpl_command command = {
    .verb = "lookup",
    .arguments = "",
    .summary =
        "Prints the plan for a shape and how it was come by: exact, envelope (another m of the "
        "family),\nnearest shape, model (with --model), library. Exit 0: a plan; 1: nothing "
        "stored answers; 2: usage.",
    .example = "fuseplan lookup --kind gemm_chain --m 96 --n 3072 --k 768 --l 768 --dtype f16 "
               "--act relu --device h200 --model --db /tmp/plans.db --json"};

struct lookup {
  struct fpl_ask ask;
  bool is_hit_required, may_model, may_compile, is_unlogged;
};

enum { SECONDS_PER_DAY = 86400 };

static double age_days(const struct fpl_answer *answer) {
  const double days = (double)(time(NULL) - (time_t)answer->plan.created_unix) / SECONDS_PER_DAY;
  return answer->is_stored && days > 0 ? days : 0;
}

static const char *winner(const struct fpl_plan *plan) {
  return plan->is_library       ? "library"
         : plan->kernel.name[0] ? plan->kernel.name
                                : "a kernel, not compiled";
}

static void print_times(const struct fpl_plan *plan) {
  printf("estimated   %.2f us\n", plan->est_us);
  if (plan->measured_us > 0)
    printf("measured    %.2f us cold, %.2f us hot\nlibrary     %.2f us cold, %.2f us hot\n"
           "speedup     %.2f\n",
           plan->measured_us, plan->measured_hot_us, plan->library_us, plan->library_hot_us,
           plan->library_us / plan->measured_us);
}

static void print_trust(const struct lookup *lookup) {
  const struct fpl_answer *const answer = &lookup->ask.answer;
  const struct fpl_plan *const plan = &answer->plan;
  if (answer->is_stored)
    printf("age         %.0f days, from %s\n", age_days(answer),
           lookup->ask.layer_paths[answer->layer]);
  printf("environment %s%s\n", fpl_match_names[answer->match],
         answer->match == FPL_MATCH_DRIVER ? ": stale until measured again with this driver" : "");
  if (answer->regret.n > 0)
    printf("regret      %.1f %% expected, %.1f to %.1f %% in 9 of 10 cases (of %lld)\n",
           100 * answer->regret.expected, 100 * answer->regret.low, 100 * answer->regret.high,
           (long long)answer->regret.n);
  if (plan->n_candidates > 0)
    printf("evidence    %lld candidates, %lld verified and measured\n",
           (long long)plan->n_candidates, (long long)plan->n_ok);
}

static void print_answer(const struct lookup *lookup) {
  const struct fpl_answer *const answer = &lookup->ask.answer;
  const struct fpl_plan *const plan = &answer->plan;
  printf("tier        %s\nfound       %s\n", fpl_tier_names[answer->tier], answer->reason);
  printf("provenance  %s\nwinner      %s\n", fpl_provenance_names[plan->provenance], winner(plan));
  print_times(plan);
  if (!plan->is_library) {
    char text[FPL_SCHEDULE_TEXT];
    fpl_schedule_text(&plan->schedule, text);
    printf("schedule    %s\n", text);
  }
  if (answer->has_kernel)
    printf("kernel      grid %lld, cluster %d, block %d, %lld bytes of shared memory\n",
           (long long)fpl_kernel_grid(&plan->kernel, lookup->ask.problem.m), plan->kernel.cluster,
           plan->kernel.block_threads, (long long)plan->kernel.smem_bytes);
  printf("bits        %s\n",
         fpl_plan_is_deterministic(plan) ? "the same every time" : "may differ from run to run");
  print_trust(lookup);
  if (plan->reason[0])
    printf("why         %s\n", plan->reason);
}

static json_t *regret_json(const struct fpl_regret *regret) {
  return regret->n > 0 ? json_pack("{s:f, s:f, s:f, s:I}", "expected", regret->expected, "low",
                                   regret->low, "high", regret->high, "n", (json_int_t)regret->n)
                       : json_null();
}

static void print_json(const struct lookup *lookup) {
  const struct fpl_answer *const answer = &lookup->ask.answer;
  char text[FPL_PROBLEM_TEXT];
  fpl_problem_text(&lookup->ask.problem, text);
  json_t *const out = json_pack(
      "{s:s, s:s, s:b, s:s, s:s, s:f, s:b, s:f, s:o}", "tier", fpl_tier_names[answer->tier],
      "tier_reason", answer->reason, "stored", answer->is_stored, "match",
      fpl_match_names[answer->match], "asked", text, "age_days", age_days(answer), "runnable",
      answer->has_kernel, "distance", answer->distance, "regret", regret_json(&answer->regret));
  json_object_set_new(out, "database",
                      answer->is_stored ? json_string(lookup->ask.layer_paths[answer->layer])
                                        : json_null());
  if (answer->is_stored || answer->tier == FPL_TIER_MODEL) {
    json_t *const plan = fpl_json_plan(&answer->plan);
    json_object_update(out, plan);
    json_decref(plan);
    json_object_set_new(out, "m_low", json_integer(answer->plan.m_low));
    json_object_set_new(out, "m_high", json_integer(answer->plan.m_high));
  } else {
    json_object_set_new(out, "problem", json_string(text));
    json_object_set_new(out, "device", json_string(lookup->ask.device.name));
    json_object_set_new(out, "winner", json_string("library"));
    json_object_set_new(out, "reason", json_string(answer->reason));
  }
  fpl_cli_print_json(out);
}

/* The cost model's pick in place of an answer for want of a stored one. */
static void pick_by_model(struct fpl_ask *ask) {
  struct fpl_ranked best;
  const struct fpl_cost_port cost = fpl_cost_port();
  struct fpl_rank_options options = fpl_rank_defaults;
  options.is_deterministic = ask->is_deterministic;
  struct fpl_answer *const answer = &ask->answer;
  if (fpl_rank(&ask->problem, &ask->device, &cost, 1, &options, &best, NULL) < 1)
    return;
  answer->tier = FPL_TIER_MODEL;
  answer->plan.problem = ask->problem;
  answer->plan.is_library = false;
  answer->plan.schedule = best.schedule;
  answer->plan.est_us = best.est_us;
  answer->plan.provenance = FPL_PROVENANCE_PREDICTED;
  answer->plan.m_low = answer->plan.m_high = ask->problem.m;
  snprintf(answer->plan.device_name, sizeof answer->plan.device_name, "%s", ask->device.name);
  snprintf(answer->plan.reason, sizeof answer->plan.reason,
           "least time by the cost model; not compiled, verified or measured");
  snprintf(answer->reason, sizeof answer->reason,
           "nothing stored answers; the model ranks it first");
}

static void complain(struct lookup *lookup) {
  struct fpl_ask *const ask = &lookup->ask;
  char text[FPL_PROBLEM_TEXT], tune[FPL_ASK_COMMAND];
  fpl_problem_text(&ask->problem, text);
  fpl_ask_tune_command(ask, tune);
  fprintf(stderr, "fuseplan: no plan for '%s' on %s (tier %s: %s): '%s' makes one\n", text,
          ask->device.name, fpl_tier_names[ask->answer.tier], ask->answer.reason, tune);
}

/* Tunes by the model alone: its pick is compiled, its dataflow interpreted, and the plan stored as
 * predicted in the uppermost database; then asks again. */
static enum fpl_status compile_pick(struct fpl_ask *ask, struct fpl_err *err) {
  const char *words[FPL_ASK_WORDS + 5];
  int n = fpl_ask_tune_words(ask, words);
  const char *const how[] = {"--measure", "model", "--top-k", "1", "--quiet"};
  for (size_t i = 0; i < sizeof how / sizeof *how; i++)
    words[n++] = how[i];
  /* The command does not write into its arguments. */
  const int exit_code = fpl_cmd_tune(n - 1, (char **)(uintptr_t)(words + 1));
  if (exit_code != FPL_EXIT_OK)
    return fpl_fail(err, FPL_TOOLCHAIN, "--compile: the model's pick could not be compiled");
  fpl_ask_close(ask);
  const enum fpl_status status = fpl_ask_again(ask, FPL_TIER_EXACT, NULL, err);
  if (status == FPL_OK && ask->answer.is_stored)
    ask->answer.tier = FPL_TIER_MODEL;
  return status;
}

static int answer(struct lookup *lookup) {
  struct fpl_ask *const ask = &lookup->ask;
  struct fpl_err err = {0};
  if (!ask->answer.is_stored && lookup->may_compile && compile_pick(ask, &err) != FPL_OK)
    return fpl_cli_fail(&command, &err);
  if (!ask->answer.is_stored && lookup->may_model && !ask->needs_kernel)
    pick_by_model(ask);
  if (!lookup->is_unlogged)
    fpl_misses_note(ask);
  const bool is_answered = ask->answer.is_stored || ask->answer.tier == FPL_TIER_MODEL;
  const bool is_refused = lookup->is_hit_required && !fpl_tier_is_hit(ask->answer.tier);
  if (ask->is_json)
    print_json(lookup);
  else if (is_answered && !is_refused)
    print_answer(lookup);
  if (is_refused || (!is_answered && !ask->is_json))
    complain(lookup);
  return is_answered && !is_refused ? FPL_EXIT_OK : FPL_EXIT_NEGATIVE;
}

enum { OWN_OPTIONS = 4 };

int fpl_cmd_lookup(int argc, char **argv) {
  struct lookup lookup = {.is_unlogged = false};
  struct fpl_option options[FPL_ASK_OPTIONS + OWN_OPTIONS];
  fpl_ask_init(&lookup.ask, options);
  const struct fpl_option own[] = {
      {"--require-hit", FPL_OPTION_FLAG, &lookup.is_hit_required, NULL,
       "exit 1, loudly, unless the tier is exact or envelope", 0, 0, NULL},
      {"--model", FPL_OPTION_FLAG, &lookup.may_model, NULL,
       "where nothing stored answers, the cost model's pick", 0, 0, NULL},
      {"--compile", FPL_OPTION_FLAG, &lookup.may_compile, NULL,
       "the same, compiled and stored as predicted", 0, 0, NULL},
      {"--no-log", FPL_OPTION_FLAG, &lookup.is_unlogged, NULL,
       "do not remember a miss for 'fuseplan list-misses'", 0, 0, NULL}};
  memcpy(options + FPL_ASK_OPTIONS, own, sizeof own);
  int n_arguments = 0, exit_code = 0;
  if (!fpl_cli_begin(&command, options, FPL_ASK_OPTIONS + OWN_OPTIONS, argc, argv, NULL,
                     &n_arguments, &exit_code))
    return exit_code;
  struct fpl_err err = {0};
  const enum fpl_status status = fpl_ask_layers(&lookup.ask, FPL_TIER_NEAREST, NULL, &err);
  exit_code = status == FPL_OK ? answer(&lookup) : fpl_cli_fail(&command, &err);
  fpl_ask_free(&lookup.ask);
  return exit_code;
}
