/* fuseplan diff: the answers of one database against those of another. */
#include "db/db.h"
#include "tuner/base/str.h"
#include "tuner/cli/cli.h"
#include "tuner/cli/stored.h"

#include <stdio.h>

static const struct fpl_command command = {
    .verb = "diff",
    .arguments = "A.db B.db",
    .summary =
        "Compares the answers of two databases, for each problem and device class: is B's FAST, "
        "SLOW\n"
        "or the SAME against A's, by the winners' cold medians and their stored 95 % intervals?\n"
        "  FAST, SLOW  intervals apart, and the slower takes at least the least change longer\n"
        "  SAME        apart but closer than that; or overlapping, both narrower than it\n"
        "  AMBIGUOUS   overlapping and wide, or nothing to compare: measure longer\n"
        "  ADDED, REMOVED   an answer in B alone, in A alone\n"
        "Unless both were measured, predictions are compared (`predicted` in column `by`).",
    .example = "fuseplan diff /tmp/plans.db /tmp/all.db",
    .least_arguments = 2,
    .most_arguments = 2};

static void print_us(double us) {
  if (us > 0)
    printf(" %9.2f", us);
  else
    printf(" %9s", "-");
}

static void print_row(const struct fpl_diff_row *r) {
  const struct fpl_stored_plan *const either = r->a ? r->a : r->b;
  printf("%-9s", fpl_diff_verdict_names[r->verdict]);
  print_us(r->a && !r->b ? fpl_stored_us(r->a) : r->a_us);
  print_us(r->b && !r->a ? fpl_stored_us(r->b) : r->b_us);
  if (r->a_us > 0)
    printf(" %+7.1f%%", 100 * (r->b_us / r->a_us - 1));
  else
    printf(" %8s", "-");
  printf("  %-9s  %s on %s\n", fpl_diff_basis_names[r->basis], either->problem,
         either->device_class);
}

static size_t count_predicted(const struct fpl_diff *d) {
  size_t n = 0;
  for (size_t i = 0; i < d->n_rows; i++)
    n += d->rows[i].basis == FPL_DIFF_BY_PREDICTED;
  return n;
}

static void print_diff(const struct fpl_diff *d) {
  if (d->n_rows > 0)
    printf("%-9s %9s %9s %8s  %-9s  %s\n", "verdict", "A us", "B us", "change", "by", "problem");
  for (size_t i = 0; i < d->n_rows; i++)
    print_row(&d->rows[i]);
  for (int v = 0; v < FPL_N_DIFF_VERDICTS; v++)
    printf("%s%zu %s", v ? ", " : "", d->counts[v], fpl_diff_verdict_names[v]);
  printf("\n");
  const size_t n_predicted = count_predicted(d);
  if (n_predicted > 0)
    printf("%zu compared by prediction (est_us): not measured on both sides\n", n_predicted);
}

static json_t *side_json(const struct fpl_stored_plan *plan) {
  return plan ? fpl_json_stored_plan(plan) : json_null();
}

static void print_diff_json(const struct fpl_diff *d, double least_change) {
  json_t *const rows = json_array(), *const counts = json_object();
  for (size_t i = 0; i < d->n_rows; i++) {
    const struct fpl_diff_row *const r = &d->rows[i];
    const struct fpl_stored_plan *const either = r->a ? r->a : r->b;
    json_array_append_new(
        rows, json_pack("{s:s, s:s, s:s, s:s, s:f, s:f, s:o, s:o, s:o}", "verdict",
                        fpl_diff_verdict_names[r->verdict], "problem", either->problem,
                        "device_class", either->device_class, "by", fpl_diff_basis_names[r->basis],
                        "a_us", r->a_us, "b_us", r->b_us, "change_percent",
                        r->a_us > 0 ? json_real(100 * (r->b_us / r->a_us - 1)) : json_null(), "a",
                        side_json(r->a), "b", side_json(r->b)));
  }
  for (int v = 0; v < FPL_N_DIFF_VERDICTS; v++)
    json_object_set_new(counts, fpl_diff_verdict_names[v], json_integer((json_int_t)d->counts[v]));
  fpl_cli_print_json(json_pack("{s:f, s:o, s:I, s:o}", "least_change_percent", 100 * least_change,
                               "counts", counts, "n_predicted", (json_int_t)count_predicted(d),
                               "rows", rows));
}

static enum fpl_status read_least_change(const char *text, double *out, struct fpl_err *err) {
  double percent = 0;
  if (!fpl_parse_f64(text, &percent) || !(percent >= 0) || !(percent <= 1000))
    return fpl_fail(err, FPL_USAGE, "--least-change is '%s': a percentage from 0 to 1000", text);
  *out = percent / 100;
  return FPL_OK;
}

static enum fpl_status open_and_diff(const char *const paths[2], double least_change,
                                     struct fpl_diff *out, struct fpl_err *err) {
  struct fpl_db *a = NULL, *b = NULL;
  enum fpl_status status = fpl_cli_open_existing(paths[0], &a, err);
  if (status == FPL_OK)
    status = fpl_cli_open_existing(paths[1], &b, err);
  if (status == FPL_OK)
    status = fpl_db_diff(a, b, least_change, out, err);
  fpl_db_close(a);
  fpl_db_close(b);
  return status;
}

int fpl_cmd_diff(int argc, char **argv) {
  const char *paths[2], *least_change_text = "3";
  bool is_json = false, must_not_regress = false;
  const struct fpl_option options[] = {
      {"--least-change", FPL_OPTION_TEXT, &least_change_text, "PERCENT",
       "least change that counts (default 3)", 0, 0, NULL},
      {"--fail-on-regression", FPL_OPTION_FLAG, &must_not_regress, NULL,
       "exit 1 when anything is SLOW or REMOVED", 0, 0, NULL},
      {"--json", FPL_OPTION_FLAG, &is_json, NULL, "one JSON object", 0, 0, NULL}};
  int n_arguments = 0, exit_code = 0;
  if (!fpl_cli_begin(&command, options, 3, argc, argv, paths, &n_arguments, &exit_code))
    return exit_code;
  struct fpl_err err = {0};
  struct fpl_diff diff = {0};
  double least_change = 0;
  enum fpl_status status = read_least_change(least_change_text, &least_change, &err);
  if (status == FPL_OK)
    status = open_and_diff(paths, least_change, &diff, &err);
  if (status != FPL_OK)
    return fpl_cli_fail(&command, &err);
  if (is_json)
    print_diff_json(&diff, least_change);
  else
    print_diff(&diff);
  const bool is_worse = diff.counts[FPL_DIFF_SLOW] > 0 || diff.counts[FPL_DIFF_REMOVED] > 0;
  fpl_diff_free(&diff);
  return must_not_regress && is_worse ? FPL_EXIT_NEGATIVE : FPL_EXIT_OK;
}
