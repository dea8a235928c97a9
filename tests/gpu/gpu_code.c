/* Machine code, without a GPU: every instance and every kernel plan of profiles/plans is emitted,
 * compiled and read. Each must multiply on the tensor cores, copy by tensor maps and leave local
 * memory alone. Speaks TAP.
 *
 *   gpu_code [N]   N instances and N plans, evenly over each list; all by default */
#include "tests/gpu/instances.h"

#include "db/db.h"
#include "tests/gpu/gpu_tap.h"
#include "tests/gpu/machine_code.h"
#include "tuner/base/str.h"
#include "tuner/base/sys.h"

enum { PLANS_MOST = 256, TEXT_BYTES = 64 << 20 };
static const char *const plan_files[] = {"profiles/plans/h200-paper-first.jsonl",
                                         "profiles/plans/h200-paper.jsonl"};

struct kernel_wanted {
  char what[FPL_PROBLEM_TEXT];
  struct fpl_problem problem;
  struct fpl_schedule schedule;
};
static struct {
  struct gpu_place place;
  struct kernel_wanted plans[PLANS_MOST];
  int n_plans;
} run;

static enum fpl_status take_plan(void *context, const struct fpl_plan *plan, struct fpl_err *err) {
  (void)context;
  (void)err;
  if (plan->is_library || run.n_plans == PLANS_MOST)
    return FPL_OK;
  struct kernel_wanted *const wanted = &run.plans[run.n_plans++];
  *wanted = (struct kernel_wanted){.problem = plan->problem, .schedule = plan->schedule};
  fpl_problem_text(&plan->problem, wanted->what);
  return FPL_OK;
}

/* Kernel plans that are answers, of each file by itself: a newer file's hide those of an older. */
static enum fpl_status list_plans(struct fpl_err *err) {
  enum fpl_status status = FPL_OK;
  for (size_t i = 0; i < sizeof plan_files / sizeof *plan_files && status == FPL_OK; i++) {
    struct fpl_db *db = NULL;
    struct fpl_import_counts counts;
    char *text = NULL;
    size_t length = 0;
    status = fpl_file_read(&run.place.arena, plan_files[i], TEXT_BYTES, &text, &length, err);
    if (status == FPL_OK)
      status = fpl_db_open(":memory:", FPL_DB_CREATE, &db, err);
    if (status == FPL_OK)
      status = fpl_db_import(db, plan_files[i], text, length, &counts, err);
    if (status == FPL_OK)
      status = fpl_db_each_plan(db, take_plan, NULL, err);
    fpl_db_close(db);
  }
  return status;
}

static struct kernel_wanted instance_wanted(const struct instance *instance) {
  struct kernel_wanted wanted = {.problem = instance_problems[instance->problem],
                                 .schedule = instance_schedule(instance)};
  snprintf(wanted.what, sizeof wanted.what, "%s", instance->name);
  return wanted;
}

static void judge(const struct kernel_wanted *wanted, const struct fpl_build_item *item) {
  struct machine_code code;
  if (item->outcome != FPL_OUTCOME_BUILT || !machine_read(item->cubin, item->cubin_bytes, &code)) {
    tap_tell(false, "machine code of %s: %s", wanted->what,
             item->outcome == FPL_OUTCOME_BUILT ? "not a cubin" : item->reason);
    return;
  }
  const int *const n = code.n;
  const bool is_ok = n[MACHINE_HGMMA] > 0 && n[MACHINE_UTMALDG] > 0 && n[MACHINE_LDL] == 0 &&
                     n[MACHINE_STL] == 0 && code.frame_bytes == 0;
  tap_tell(is_ok,
           "machine code of %s: %d HGMMA, %d UTMALDG, %d UBLKCP, %d LDL, %d STL, %u bytes of stack",
           wanted->what, n[MACHINE_HGMMA], n[MACHINE_UTMALDG], n[MACHINE_UBLKCP], n[MACHINE_LDL],
           n[MACHINE_STL], code.frame_bytes);
}

/* Compiles all at once, then reads each. */
static enum fpl_status check(const struct kernel_wanted *wanted, int n, struct fpl_err *err) {
  struct fpl_text *const texts = calloc((size_t)n, sizeof *texts);
  struct fpl_build_item *const items = calloc((size_t)n, sizeof *items);
  enum fpl_status status = texts && items ? FPL_OK : fpl_fail(err, FPL_NO_MEMORY, "out of memory");
  for (int i = 0; i < n && status == FPL_OK; i++) {
    struct fpl_kernel kernel;
    status = fpl_emit(&wanted[i].problem, &wanted[i].schedule, &run.place.device, &texts[i],
                      &kernel, err);
    items[i].source = texts[i].text;
  }
  if (status == FPL_OK)
    status = fpl_builder_compile(run.place.builder, items, n, NULL, NULL, err);
  for (int i = 0; i < n; i++) {
    if (status == FPL_OK)
      judge(&wanted[i], &items[i]);
    if (items)
      fpl_build_item_free(&items[i]);
    if (texts)
      fpl_text_free(&texts[i]);
  }
  free(items);
  free(texts);
  return status;
}

/* A kernel that keeps an array in local memory: what the reading must see. */
static void check_planted(void) {
  static const char path[] = "tests/gpu/planted/local.cu";
  struct fpl_err err = {0};
  struct fpl_build_item item = {0};
  struct machine_code code = {0};
  char *source = NULL;
  size_t length = 0;
  bool is_ok = fpl_file_read(&run.place.arena, path, 1 << 20, &source, &length, &err) == FPL_OK;
  item.source = source;
  is_ok = is_ok && fpl_builder_compile(run.place.builder, &item, 1, NULL, NULL, &err) == FPL_OK &&
          item.cubin && machine_read(item.cubin, item.cubin_bytes, &code);
  tap_tell(is_ok && code.n[MACHINE_LDL] > 0 && code.n[MACHINE_STL] > 0 && code.frame_bytes > 0 &&
               code.n[MACHINE_HGMMA] == 0,
           "local memory of a planted kernel is seen: %d LDL, %d STL, %u bytes of stack%s",
           code.n[MACHINE_LDL], code.n[MACHINE_STL], code.frame_bytes, err.text);
  fpl_build_item_free(&item);
}

static bool is_runnable(const struct kernel_wanted *wanted) {
  struct fpl_tiling t;
  struct fpl_footprint f;
  struct fpl_verdict why;
  const bool is_ok =
      fpl_legal(&wanted->problem, &wanted->schedule, &run.place.device, &t, &f, &why) &&
      fpl_skeleton_fits(&wanted->problem, &wanted->schedule, &why);
  if (!is_ok)
    tap_tell(false, "%s: %s: %s", wanted->what, fpl_rule_names[why.rule], why.why);
  return is_ok;
}

static enum fpl_status run_all(int n_most, struct fpl_err *err) {
  static struct kernel_wanted wanted[N_INSTANCES + PLANS_MOST];
  int n = 0;
  enum fpl_status status = list_plans(err);
  const int n_instances = n_most < N_INSTANCES ? n_most : N_INSTANCES;
  const int n_plans = n_most < run.n_plans ? n_most : run.n_plans;
  for (int i = 0; i < N_INSTANCES; i++) {
    const struct kernel_wanted one = instance_wanted(&instances[i]);
    if (is_runnable(&one) && i == n * N_INSTANCES / n_instances && n < n_instances)
      wanted[n++] = one;
  }
  tap_tell(tap.n_failed == 0, "all %d instances are legal and fit a skeleton", (int)N_INSTANCES);
  check_planted();
  for (int i = 0; i < n_plans; i++)
    wanted[n++] = run.plans[i * run.n_plans / n_plans];
  if (status == FPL_OK)
    status = check(wanted, n, err);
  return status;
}

int main(int argc, char **argv) {
  struct fpl_err err = {0};
  int64_t n_most = N_INSTANCES + PLANS_MOST;
  if (argc > 2 || (argc == 2 && !fpl_parse_i64(argv[1], 1, n_most, &n_most))) {
    fprintf(stderr, "usage: gpu_code [N]\n");
    return 2;
  }
  enum fpl_status status = gpu_place_open(&run.place, &err);
  if (status == FPL_TOOLCHAIN)
    tap_skip("machine code of instances and plans", err.text);
  else if (status == FPL_OK)
    status = run_all((int)n_most, &err);
  if (status != FPL_OK && status != FPL_TOOLCHAIN)
    tap_tell(false, "machine code is read: %s", err.text);
  gpu_place_close(&run.place);
  return tap_end();
}
