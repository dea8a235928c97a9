/* Decides when a kernel is loaded, which launches are refused, and when a module is shared. */
#include "tuner/launch/resident.h"
#include "tuner/lib/arguments.h"
#include "tuner/lib/store.h"

#include <stdlib.h>
#include <string.h>

enum { MATRIX_ALIGN_BYTES = 16, WORKSPACE_ALIGN_BYTES = 256, MOST_CLUSTER = 16 };

/* A cubin in a context, shared by all kernels of the store that were loaded from it there. */
struct fpl_module {
  struct fpl_module *next;
  uint64_t context_id;
  int64_t n_kernels;
  struct fpl_kernel kernel; /* without its cubin */
  struct fpl_resident *resident;
};

struct fuseplan_kernel {
  struct fuseplan_store *store;
  struct fpl_module *module;
  struct fpl_problem problem;
};

/* Same operation but for the rows, so that one kernel runs both. */
static bool is_same_but_for_rows(const struct fpl_problem *a, const struct fpl_problem *b) {
  return a->kind == b->kind && a->dtype == b->dtype && a->act == b->act && a->n == b->n &&
         a->k == b->k && a->l == b->l && a->conv.ic == b->conv.ic && a->conv.h == b->conv.h &&
         a->conv.w == b->conv.w && a->conv.k1 == b->conv.k1;
}

/* A damaged row must become neither an overflow nor a read past the cubin. */
static enum fpl_status check_kernel(const struct fpl_kernel *k, struct fpl_err *err) {
  char sha[FPL_HASH_HEX];
  fpl_hash_bytes_hex(k->cubin, k->cubin_bytes, sha);
  const int64_t numbers[] = {k->smem_bytes, k->rows_per_unit, k->units_per_row, k->max_clusters,
                             k->workspace_bytes_per_row_group};
  bool is_sound = strcmp(sha, k->sha) == 0 && k->cluster <= MOST_CLUSTER;
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    is_sound = is_sound && numbers[i] >= 0 && numbers[i] <= INT32_MAX / MOST_CLUSTER;
  if (is_sound)
    return FPL_OK;
  return fpl_fail(err, FPL_DB_CORRUPT,
                  "kernel %s: damaged: move the database away and import a text export", k->name);
}

static enum fpl_status read_plan(struct fuseplan_store *store, const struct fpl_problem *problem,
                                 const struct fuseplan_answer *answer, struct fpl_plan *out,
                                 struct fpl_err *err) {
  struct fpl_layer *const layer = &store->layers[answer->layer];
  const struct fpl_source *const source = &store->sources[answer->layer];
  enum fpl_status status = source->read(source->self, answer->plan, out, err);
  if (status == FPL_OK && strncmp(out->kernel.name, answer->kernel, sizeof answer->kernel) != 0)
    return fpl_fail(err, FPL_USAGE, "answer: plan %lld is another: pass an answer of this store",
                    (long long)answer->plan);
  if (status == FPL_OK && layer->db) {
    pthread_mutex_lock(&layer->lock);
    status = fpl_db_load_cubin(layer->db, &out->kernel, err);
    pthread_mutex_unlock(&layer->lock);
  } else if (status == FPL_OK) {
    status = fpl_snapshot_load_cubin(layer->snapshot, &out->kernel, err);
  }
  if (status != FPL_OK)
    return status;
  if (!out->kernel.cubin)
    return fpl_fail(err, fpl_no_plan(),
                    "plan %lld is no longer stored with its kernel: look it up again",
                    (long long)answer->plan);
  if (!is_same_but_for_rows(problem, &out->problem))
    return fpl_fail(err, FPL_USAGE,
                    "answer: its kernel is not one for this problem: pass the "
                    "problem that was looked up");
  return check_kernel(&out->kernel, err);
}

/* Under the store's lock. */
static struct fpl_module *find_module(const struct fuseplan_store *store, uint64_t context_id,
                                      const char *sha) {
  struct fpl_module *module = store->modules;
  while (module && (module->context_id != context_id || strcmp(module->kernel.sha, sha) != 0))
    module = module->next;
  return module;
}

/* Under the store's lock. */
static enum fpl_status load_module(struct fuseplan_store *store, const struct fpl_plan *plan,
                                   struct fpl_module **out, struct fpl_err *err) {
  struct fpl_context context;
  struct fpl_failure failure = {0};
  const enum fpl_status status = fpl_store_driver(store, err);
  if (status != FPL_OK)
    return status;
  if (!fpl_context_current(store->driver, &context, &failure))
    return fpl_fail(err, FPL_DEVICE, "%s", failure.reason);
  *out = find_module(store, context.id, plan->kernel.sha);
  if (*out)
    return FPL_OK;
  struct fpl_module *const module = calloc(1, sizeof *module);
  if (!module)
    return fpl_fail(err, FPL_NO_MEMORY, "kernel %s: out of memory", plan->kernel.name);
  if (!fpl_resident_open(store->driver, &plan->kernel, plan->kernel.cubin, plan->problem.m,
                         &module->resident, &failure)) {
    free(module);
    return fpl_fail(err, FPL_DEVICE, "kernel %s: %s", plan->kernel.name, failure.reason);
  }
  module->context_id = context.id;
  module->kernel = plan->kernel;
  module->kernel.cubin = NULL;
  module->next = store->modules;
  store->modules = module;
  *out = module;
  return FPL_OK;
}

static enum fpl_status load(struct fuseplan_store *store, const struct fpl_problem *problem,
                            const struct fpl_plan *plan, struct fuseplan_kernel *out,
                            struct fpl_err *err) {
  pthread_mutex_lock(&store->lock);
  const enum fpl_status status = load_module(store, plan, &out->module, err);
  if (status == FPL_OK)
    out->module->n_kernels++;
  pthread_mutex_unlock(&store->lock);
  out->store = store;
  out->problem = *problem;
  return status;
}

/* The recipes must fit the problem they were made for, or the row is damaged. */
static enum fpl_status check_recipes(const struct fpl_module *module,
                                     const struct fpl_problem *problem, enum fpl_status otherwise,
                                     struct fpl_err *err) {
  struct fpl_failure failure = {0};
  if (fpl_resident_fits(&module->kernel, problem, &failure))
    return FPL_OK;
  return fpl_fail(err, otherwise, "kernel %s: %s", module->kernel.name, failure.reason);
}

static enum fpl_status check_answer(const struct fuseplan_store *store,
                                    const struct fuseplan_answer *answer, struct fpl_err *err) {
  if (!store)
    return fpl_fail(err, FPL_USAGE, "store is NULL");
  const enum fpl_status status = fpl_argument_struct(answer, sizeof *answer, "answer", err);
  if (status != FPL_OK)
    return status;
  if (answer->layer < 0 || answer->layer >= store->n_layers)
    return fpl_fail(err, FPL_USAGE, "answer: layer %d of %d: pass an answer of this store",
                    (int)answer->layer, store->n_layers);
  if (answer->is_library || !answer->has_kernel)
    return fpl_fail(err, FPL_USAGE,
                    "answer: %s: look up with needs_kernel for a plan that has a kernel",
                    answer->is_library ? "the library pair is the plan" : "it has no kernel");
  return FPL_OK;
}

static enum fpl_status load_kernel(struct fuseplan_store *store, const struct fpl_problem *problem,
                                   const struct fuseplan_answer *answer, fuseplan_kernel **out,
                                   struct fpl_err *err) {
  struct fpl_plan plan = {0};
  enum fpl_status status = read_plan(store, problem, answer, &plan, err);
  if (status != FPL_OK) {
    fpl_plan_free(&plan);
    return status;
  }
  struct fuseplan_kernel *const kernel = calloc(1, sizeof *kernel);
  status = kernel ? load(store, problem, &plan, kernel, err)
                  : fpl_fail(err, FPL_NO_MEMORY, "kernel %s: out of memory", plan.kernel.name);
  if (status == FPL_OK)
    status = check_recipes(kernel->module, problem, FPL_DB_CORRUPT, err);
  if (status == FPL_OK)
    *out = kernel;
  else
    fuseplan_kernel_release(kernel);
  fpl_plan_free(&plan);
  return status;
}

int fuseplan_kernel_load(fuseplan_store *store, const struct fuseplan_problem *problem,
                         const struct fuseplan_answer *answer, fuseplan_kernel **out,
                         struct fuseplan_message *message) {
  struct fpl_err err = {0};
  struct fpl_problem p;
  enum fpl_status status = out ? FPL_OK : fpl_fail(&err, FPL_USAGE, "out is NULL");
  if (out)
    *out = NULL;
  if (status == FPL_OK)
    status = check_answer(store, answer, &err);
  if (status == FPL_OK)
    status = fpl_argument_problem(problem, &p, &err);
  if (status == FPL_OK)
    status = load_kernel(store, &p, answer, out, &err);
  return fpl_report(status, &err, message);
}

/* Under the store's lock. */
static void drop_module(struct fuseplan_store *store, struct fpl_module *module) {
  if (--module->n_kernels > 0)
    return;
  struct fpl_module **at = &store->modules;
  while (*at != module)
    at = &(*at)->next;
  *at = module->next;
  fpl_resident_close(module->resident);
  free(module);
}

void fuseplan_kernel_release(fuseplan_kernel *kernel) {
  if (!kernel)
    return;
  if (kernel->module) {
    pthread_mutex_lock(&kernel->store->lock);
    drop_module(kernel->store, kernel->module);
    pthread_mutex_unlock(&kernel->store->lock);
  }
  free(kernel);
}

int64_t fuseplan_kernel_workspace_bytes(const fuseplan_kernel *kernel, int64_t m) {
  struct fpl_problem p;
  if (!kernel || fpl_argument_rows(&kernel->problem, m, &p, NULL) != FPL_OK)
    return -1;
  return fpl_kernel_workspace_bytes(&kernel->module->kernel, m);
}

static enum fpl_status check_address(const char *name, uint64_t address, uint64_t align_bytes,
                                     struct fpl_err *err) {
  if (address != 0 && address % align_bytes == 0)
    return FPL_OK;
  return fpl_fail(err, FPL_USAGE, "matrices: %s is %#llx: it must be a multiple of %llu, not 0",
                  name, (unsigned long long)address, (unsigned long long)align_bytes);
}

static enum fpl_status check_matrices(const struct fuseplan_matrices *given,
                                      int64_t workspace_bytes, struct fpl_err *err) {
  enum fpl_status status = fpl_argument_struct(given, sizeof *given, "matrices", err);
  if (status == FPL_OK)
    status = check_address("a", given->a, MATRIX_ALIGN_BYTES, err);
  if (status == FPL_OK)
    status = check_address("b", given->b, MATRIX_ALIGN_BYTES, err);
  if (status == FPL_OK)
    status = check_address("d", given->d, MATRIX_ALIGN_BYTES, err);
  if (status == FPL_OK)
    status = check_address("e", given->e, MATRIX_ALIGN_BYTES, err);
  if (status == FPL_OK && workspace_bytes > 0)
    status = check_address("workspace", given->workspace, WORKSPACE_ALIGN_BYTES, err);
  return status;
}

int fuseplan_kernel_launch(fuseplan_kernel *kernel, int64_t m,
                           const struct fuseplan_matrices *matrices, void *stream,
                           struct fuseplan_message *message) {
  struct fpl_err err = {0};
  struct fpl_problem p;
  struct fpl_failure failure = {0};
  enum fpl_status status = kernel ? FPL_OK : fpl_fail(&err, FPL_USAGE, "kernel is NULL");
  if (status == FPL_OK)
    status = fpl_argument_rows(&kernel->problem, m, &p, &err);
  if (status == FPL_OK)
    status = check_matrices(matrices, fpl_kernel_workspace_bytes(&kernel->module->kernel, m), &err);
  if (status == FPL_OK)
    status = check_recipes(kernel->module, &p, FPL_USAGE, &err);
  if (status != FPL_OK)
    return fpl_report(status, &err, message);
  const struct fpl_resident_addresses at = {.a = matrices->a,
                                            .b = matrices->b,
                                            .d = matrices->d,
                                            .e = matrices->e,
                                            .workspace = matrices->workspace};
  if (!fpl_resident_launch(kernel->module->resident, &p, &at, stream, &failure))
    status =
        fpl_fail(&err, FPL_DEVICE, "kernel %s: %s", kernel->module->kernel.name, failure.reason);
  return fpl_report(status, &err, message);
}
