/* fuseplan space: how many candidates each rule leaves, and the best by the model. */
#include "costmodel/timemodel.h"
#include "tuner/base/sys.h"
#include "tuner/cli/cli.h"
#include "tuner/core/space_paper.h"
#include "tuner/search/rank.h"

#include <stdio.h>

static const struct fpl_command command = {
    .verb = "space",
    .arguments = "",
    .summary = "Counts the candidates that each rule leaves (--count), and ranks the survivors by "
               "the cost model.\n--paper: FlashFuser's own space, rules and plain cost model.",
    .example = "fuseplan space --kind gemm_chain --m 256 --n 16384 --k 4096 --l 4096 --dtype f16 "
               "--device h100_sxm --paper --count --json"};

struct ranking {
  struct fpl_ranked best[FPL_RANK_MOST];
  int n;
  int64_t n_ranked;
};

static void rank_paper(const struct fpl_problem *p, const struct fpl_device *d, int k,
                       struct fpl_space_counts *counts, struct ranking *out) {
  struct fpl_best best = {.items = out->best, .n = 0, .most = k};
  out->n_ranked = fpl_space_paper_rank(p, d, &best, counts);
  out->n = best.n;
}

enum { MODEL_TIME, MODEL_PLAIN };
static const char *const model_names[] = {"time", "plain", NULL};

static void rank_all(const struct fpl_problem *p, const struct fpl_device *d, int model, int k,
                     struct ranking *out) {
  const struct fpl_cost_port cost = model == MODEL_PLAIN ? fpl_cost_plain_port() : fpl_cost_port();
  struct fpl_rank_counts counts = {0};
  out->n = fpl_rank(p, d, &cost, k, &fpl_rank_defaults, out->best, &counts);
  out->n_ranked = counts.n_costed;
}

static json_t *to_json(const struct fpl_space_counts *counts, const struct ranking *ranking,
                       double seconds) {
  json_t *const out = json_object();
  json_t *const rules = json_array();
  for (int i = 0; i < counts->n_rules; i++)
    json_array_append_new(rules, json_pack("{s:s, s:I}", "name", counts->rules[i].name, "remaining",
                                           (json_int_t)counts->rules[i].remaining));
  json_object_set_new(out, "rules", rules);
  if (ranking->n > 0) {
    json_t *const best = json_array();
    for (int i = 0; i < ranking->n; i++)
      json_array_append_new(best,
                            json_pack("{s:f, s:o}", "est_us", ranking->best[i].est_us, "schedule",
                                      fpl_json_schedule(&ranking->best[i].schedule)));
    json_object_set_new(out, "ranked", json_integer(ranking->n_ranked));
    json_object_set_new(out, "best", best);
  }
  json_object_set_new(out, "seconds", json_real(seconds));
  return out;
}

static void print_text(const struct fpl_space_counts *counts, const struct ranking *ranking,
                       double seconds) {
  for (int i = 0; i < counts->n_rules; i++)
    printf("%-16s %20lld\n", counts->rules[i].name, (long long)counts->rules[i].remaining);
  if (ranking->n > 0)
    printf("\n%lld ranked; the best:\n", (long long)ranking->n_ranked);
  for (int i = 0; i < ranking->n; i++) {
    char text[FPL_SCHEDULE_TEXT];
    fpl_schedule_text(&ranking->best[i].schedule, text);
    printf("%8.2f us  %s\n", ranking->best[i].est_us, text);
  }
  printf("%.3f s\n", seconds);
}

int fpl_cmd_space(int argc, char **argv) {
  struct fpl_problem_opts problem_opts;
  struct fpl_option options[FPL_PROBLEM_OPTIONS + 6];
  const char *device = "h200";
  bool is_paper = false, is_count = false, is_json = false;
  int64_t top = 11;
  int model = MODEL_TIME;
  fpl_problem_opts_init(&problem_opts, options);
  const struct fpl_option own[] = {
      {"--device", FPL_OPTION_TEXT, &device, "NAME", "device profile (default h200)", 0, 0, NULL},
      {"--paper", FPL_OPTION_FLAG, &is_paper, NULL, "FlashFuser's space and plain model", 0, 0,
       NULL},
      {"--count", FPL_OPTION_FLAG, &is_count, NULL, "counts only, no ranking", 0, 0, NULL},
      {"--top", FPL_OPTION_I64, &top, "N", "how many of the ranking to print (default 11)", 1,
       FPL_RANK_MOST, NULL},
      {"--model", FPL_OPTION_NAME, &model, "MODEL",
       "time: the time model (default); plain: the paper's largest V/B", 0, 0, model_names},
      {"--json", FPL_OPTION_FLAG, &is_json, NULL, "one JSON object", 0, 0, NULL}};
  for (int i = 0; i < 6; i++)
    options[FPL_PROBLEM_OPTIONS + i] = own[i];
  int n_arguments = 0, exit_code = 0;
  if (!fpl_cli_begin(&command, options, FPL_PROBLEM_OPTIONS + 6, argc, argv, NULL, &n_arguments,
                     &exit_code))
    return exit_code;

  struct fpl_arena arena = {0};
  struct fpl_err err = {0};
  struct fpl_paths paths;
  struct fpl_problem p;
  struct fpl_device d;
  enum fpl_status status = fpl_problem_opts_make(&problem_opts, &p, &err);
  if (status == FPL_OK)
    status = fpl_paths_find(&arena, &paths, &err);
  if (status == FPL_OK)
    status = fpl_paths_device(&arena, &paths, device, &d, &err);
  fpl_arena_free(&arena);
  if (status != FPL_OK)
    return fpl_cli_fail(&command, &err);

  struct fpl_space_counts counts = {0};
  static struct ranking ranking;
  const double start_us = fpl_now_us();
  if (is_paper)
    rank_paper(&p, &d, (int)top, &counts, &ranking);
  else
    fpl_space_count(&p, &d, &counts);
  if (!is_paper && !is_count)
    rank_all(&p, &d, model, (int)top, &ranking);
  const double seconds = (fpl_now_us() - start_us) / 1e6;
  if (is_count)
    ranking.n = 0;
  if (is_json)
    return fpl_cli_print_json(to_json(&counts, &ranking, seconds)) ? FPL_EXIT_OK
                                                                   : FPL_EXIT_INTERNAL;
  print_text(&counts, &ranking, seconds);
  return FPL_EXIT_OK;
}
