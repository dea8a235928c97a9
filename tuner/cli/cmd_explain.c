/* fuseplan explain: why a lookup answers what it answers. */
#include "tuner/cli/ask.h"

#include <stdio.h>
#include <string.h>

static const struct fpl_command command = {
    .verb = "explain",
    .arguments = "",
    .summary = "Tells how the answer for a shape is come by: tiers tried, closest plans and what "
               "differs, the\ncommand that would tune it.",
    .example = "fuseplan explain --kind gemm_chain --m 96 --n 3072 --k 768 --l 768 --dtype f16 "
               "--act relu --device h200 --db /tmp/plans.db"};

/* "m 96, not 128; k 768, not 1024": of the wanted problem and a stored one. */
static void differences(const struct fpl_problem *wanted, const struct fpl_problem *stored,
                        char *out, size_t size) {
  const struct {
    const char *name;
    int64_t wanted, stored;
  } fields[] = {{"m", wanted->m, stored->m},
                {"n", wanted->n, stored->n},
                {"k", wanted->k, stored->k},
                {"l", wanted->l, stored->l},
                {"batch", wanted->conv.batch, stored->conv.batch},
                {"h", wanted->conv.h, stored->conv.h},
                {"w", wanted->conv.w, stored->conv.w}};
  size_t length = 0;
  out[0] = '\0';
  for (size_t i = 0; i < sizeof fields / sizeof *fields && length < size; i++)
    if (fields[i].wanted != fields[i].stored)
      length += (size_t)snprintf(out + length, size - length, "%s%s %lld, not %lld",
                                 length ? "; " : "", fields[i].name, (long long)fields[i].stored,
                                 (long long)fields[i].wanted);
}

static json_t *trace_json(struct fpl_ask *ask, const struct fpl_trace *trace) {
  json_t *const tiers = json_object(), *const closest = json_array();
  for (int i = 0; i < FPL_N_TIERS; i++)
    if (trace->tiers[i][0])
      json_object_set_new(tiers, fpl_tier_names[i], json_string(trace->tiers[i]));
  for (int i = 0; i < trace->n_closest; i++) {
    char text[FPL_PROBLEM_TEXT], what[256];
    fpl_problem_text(&trace->closest[i].problem, text);
    differences(&ask->problem, &trace->closest[i].problem, what, sizeof what);
    json_array_append_new(closest,
                          json_pack("{s:s, s:f, s:s, s:s, s:s}", "problem", text, "distance",
                                    trace->closest[i].distance, "differs", what, "database",
                                    ask->layer_paths[trace->closest[i].layer], "refused",
                                    trace->closest[i].why));
  }
  char tune[FPL_ASK_COMMAND];
  fpl_ask_tune_command(ask, tune);
  return json_pack("{s:s, s:s, s:s, s:o, s:o, s:s}", "tier", fpl_tier_names[ask->answer.tier],
                   "reason", ask->answer.reason, "match", fpl_match_names[ask->answer.match],
                   "not_answered", tiers, "closest", closest, "tune", tune);
}

static void print_environment(const struct fpl_ask *ask) {
  const struct fpl_environment *const stored = &ask->answer.plan.environment;
  printf("environment  %s\n", fpl_match_names[ask->answer.match]);
  for (int i = 0; i < ask->environment.n_fields; i++) {
    const char *const name = ask->environment.fields[i].name;
    const char *const here = ask->environment.fields[i].value;
    const char *const there = fpl_environment_get(stored, name);
    if (strcmp(here, there) != 0)
      printf("             %s: measured with %s, here %s\n", name,
             there[0] ? there : "nothing known", here);
  }
}

static void print_trace(struct fpl_ask *ask, const struct fpl_trace *trace) {
  char text[FPL_PROBLEM_TEXT], tune[FPL_ASK_COMMAND];
  fpl_problem_text(&ask->problem, text);
  fpl_ask_tune_command(ask, tune);
  printf("problem      %s\ndevice       %s\n", text, ask->device.name);
  for (int i = 0; i < ask->n_layers; i++)
    printf("%-12s %s\n", i ? "" : "databases", ask->layer_paths[i]);
  for (int i = 0; i < FPL_N_TIERS; i++)
    if (trace->tiers[i][0])
      printf("not %-9s%s\n", fpl_tier_names[i], trace->tiers[i]);
  printf("answer       %s: %s\n", fpl_tier_names[ask->answer.tier], ask->answer.reason);
  if (ask->answer.is_stored)
    print_environment(ask);
  for (int i = 0; i < trace->n_closest; i++) {
    char what[256];
    differences(&ask->problem, &trace->closest[i].problem, what, sizeof what);
    printf("%-12s distance %.2f: %s%s%s\n", i ? "" : "closest", trace->closest[i].distance, what,
           trace->closest[i].why[0] ? ": " : "", trace->closest[i].why);
  }
  printf("to tune it   %s\n", tune);
}

int fpl_cmd_explain(int argc, char **argv) {
  struct fpl_ask ask;
  struct fpl_option options[FPL_ASK_OPTIONS];
  fpl_ask_init(&ask, options);
  int n_arguments = 0, exit_code = 0;
  if (!fpl_cli_begin(&command, options, FPL_ASK_OPTIONS, argc, argv, NULL, &n_arguments,
                     &exit_code))
    return exit_code;
  struct fpl_err err = {0};
  struct fpl_trace trace;
  const enum fpl_status status = fpl_ask_layers(&ask, FPL_TIER_NEAREST, &trace, &err);
  if (status != FPL_OK) {
    exit_code = fpl_cli_fail(&command, &err);
  } else {
    if (ask.is_json)
      fpl_cli_print_json(trace_json(&ask, &trace));
    else
      print_trace(&ask, &trace);
  }
  fpl_ask_free(&ask);
  return exit_code;
}
