/* Decides: the cache key, which texts are compiled, how many at a time, what a child's end means.
 * Leaves to others: the text (emit), the compiler (nvrtc), the folders (cache).
 *
 *   results -> emit -> items -> equal keys share a leader -> cache? -> child per missing leader
 *           -> publish -> load from the cache -> items -> results
 */
#include "codegen/build.h"

#include "codegen/cache.h"
#include "codegen/emit.h"
#include "codegen/files.h"
#include "codegen/nvrtc.h"
#include "tuner/base/str.h"
#include "tuner/base/sys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUPPORT_FILE "codegen/skeletons/support_sm90.cu"

struct fpl_builder {
  struct fpl_arena arena;
  struct fpl_nvrtc *nvrtc;
  struct fpl_builder_options options; /* texts in the arena */
  char headers_sha[FPL_HASH_HEX];     /* names and bytes of the embedded headers */
};

/* One call of fpl_builder_compile. */
struct build {
  struct fpl_builder *builder;
  struct fpl_build_item *items;
  int *leader; /* index of the first item with the same key; own index: a leader */
  int n;
  int n_done;
  void (*progress)(void *context, int n_done, int n_all);
  void *context;
  struct fpl_arena arena;
  struct fpl_child *children; /* [jobs], pid 0: free */
  struct slot {
    int item;
    char *dir; /* where the child works */
    double end_us;
  } * slots; /* [jobs] */
};

static enum fpl_status no_memory(struct fpl_err *err) {
  return fpl_fail(err, FPL_NO_MEMORY, "builder: out of memory");
}

static enum fpl_status hash_headers(struct fpl_builder *builder, struct fpl_err *err) {
  struct fpl_hash_piece *pieces = calloc(2 * fpl_n_skeleton_files + 1, sizeof *pieces);
  if (pieces == NULL) {
    return no_memory(err);
  }
  size_t n = 0;
  for (size_t i = 0; i < fpl_n_skeleton_files; i++) {
    const struct fpl_embedded_file *file = &fpl_skeleton_files[i];
    const char *dot = strrchr(file->name, '.');
    if (dot != NULL && strcmp(dot, ".cuh") == 0) {
      pieces[n++] = (struct fpl_hash_piece){file->name, strlen(file->name)};
      pieces[n++] = (struct fpl_hash_piece){file->text, file->length};
    }
  }
  fpl_hash_hex(pieces, n, builder->headers_sha);
  free(pieces);
  return FPL_OK;
}

static enum fpl_status copy_text(struct fpl_arena *arena, const char *text, const char **out,
                                 struct fpl_err *err) {
  *out = text == NULL ? NULL : fpl_arena_copy(arena, text, strlen(text));
  return text != NULL && *out == NULL ? no_memory(err) : FPL_OK;
}

static enum fpl_status set_up(struct fpl_builder *builder,
                              const struct fpl_builder_options *options, struct fpl_err *err) {
  struct fpl_builder_options *own = &builder->options;
  own->jobs = options->jobs < 1 ? fpl_cpu_count() : options->jobs;
  own->compile_timeout_us = options->compile_timeout_us;
  enum fpl_status status = copy_text(&builder->arena, options->cache_dir, &own->cache_dir, err);
  if (status == FPL_OK) {
    status = copy_text(&builder->arena, options->toolkit_dir, &own->toolkit_dir, err);
  }
  if (status == FPL_OK) {
    status = copy_text(&builder->arena, options->self_path, &own->self_path, err);
  }
  if (status == FPL_OK) {
    status = fpl_nvrtc_open(own->toolkit_dir, &builder->nvrtc, err);
  }
  if (status == FPL_OK) {
    status = fpl_dir_make(own->cache_dir, err);
  }
  return status == FPL_OK ? hash_headers(builder, err) : status;
}

enum fpl_status fpl_builder_open(const struct fpl_builder_options *options,
                                 struct fpl_builder **out, struct fpl_err *err) {
  *out = NULL;
  struct fpl_builder *builder = calloc(1, sizeof *builder);
  if (builder == NULL) {
    return no_memory(err);
  }
  const enum fpl_status status = set_up(builder, options, err);
  if (status != FPL_OK) {
    fpl_builder_close(builder);
    return status;
  }
  *out = builder;
  return FPL_OK;
}

void fpl_builder_close(struct fpl_builder *builder) {
  if (builder != NULL) {
    fpl_nvrtc_close(builder->nvrtc);
    fpl_arena_free(&builder->arena);
    free(builder);
  }
}

const char *fpl_builder_nvrtc_version(const struct fpl_builder *builder) {
  return fpl_nvrtc_version(builder->nvrtc);
}

const char *fpl_builder_headers_version(const struct fpl_builder *builder) {
  return fpl_nvrtc_cccl_version(builder->nvrtc);
}

static void make_key(const struct fpl_builder *builder, const char *source,
                     char out[FPL_HASH_HEX]) {
  const char *const texts[] = {source, builder->headers_sha, fpl_nvrtc_version(builder->nvrtc),
                               fpl_nvrtc_cccl_version(builder->nvrtc),
                               fpl_nvrtc_options(builder->nvrtc)};
  enum { N_TEXTS = sizeof texts / sizeof texts[0] };
  struct fpl_hash_piece pieces[N_TEXTS];
  for (size_t i = 0; i < N_TEXTS; i++) {
    pieces[i] = (struct fpl_hash_piece){texts[i], strlen(texts[i])};
  }
  fpl_hash_hex(pieces, N_TEXTS, out);
}

/* Fills a leader from its entry; false when there is none that is whole. */
static bool load_item(struct build *build, struct fpl_build_item *item) {
  struct fpl_arena arena = {0};
  struct fpl_facts facts;
  const char *entry = fpl_cache_entry(&arena, build->builder->options.cache_dir, item->key);
  const bool is_whole =
      entry != NULL && fpl_cache_load(entry, &facts, &item->cubin, &item->cubin_bytes);
  fpl_arena_free(&arena);
  if (!is_whole) {
    return false;
  }
  item->outcome = facts.is_ok ? FPL_OUTCOME_BUILT : FPL_OUTCOME_COMPILE_ERROR;
  item->registers = facts.registers;
  item->spill_bytes = facts.spill_bytes;
  item->stack_bytes = facts.stack_bytes;
  (void)snprintf(item->reason, sizeof item->reason, "%s", facts.reason);
  (void)snprintf(item->sha, sizeof item->sha, "%s", facts.sha);
  return true;
}

static void fail_item(struct fpl_build_item *item, enum fpl_outcome outcome, const char *reason) {
  item->outcome = outcome;
  (void)snprintf(item->reason, sizeof item->reason, "%s", reason);
}

/* A leader is done: its followers are, too. */
static enum fpl_status settle(struct build *build, int index, struct fpl_err *err) {
  const struct fpl_build_item *from = &build->items[index];
  for (int i = index; i < build->n; i++) {
    if (build->leader[i] != index) {
      continue;
    }
    build->n_done++;
    if (i == index) {
      continue;
    }
    struct fpl_build_item *to = &build->items[i];
    const char *source = to->source;
    *to = *from;
    to->source = source;
    if (from->cubin != NULL) {
      to->cubin = malloc(from->cubin_bytes);
      if (to->cubin == NULL) {
        return no_memory(err);
      }
      memcpy(to->cubin, from->cubin, from->cubin_bytes);
    }
  }
  if (build->progress != NULL) {
    build->progress(build->context, build->n_done, build->n);
  }
  return FPL_OK;
}

static enum fpl_status start_child(struct build *build, int slot_index, int index,
                                   struct fpl_err *err) {
  const struct fpl_builder_options *options = &build->builder->options;
  struct slot *slot = &build->slots[slot_index];
  enum fpl_status status =
      fpl_dir_temporary(&build->arena, options->cache_dir, "build", &slot->dir, err);
  if (status != FPL_OK) {
    return status;
  }
  const char *source = build->items[index].source;
  const char *path = fpl_cache_file(&build->arena, slot->dir, FPL_CACHE_SOURCE);
  status = path == NULL ? no_memory(err) : fpl_file_write(path, source, strlen(source), err);
  if (status == FPL_OK) {
    const char *const argv[] = {options->self_path, FPL_COMPILE_VERB, slot->dir,
                                options->toolkit_dir, NULL};
    status = fpl_child_start(argv, FPL_STDERR_DISCARDED, &build->children[slot_index], err);
  }
  if (status != FPL_OK) {
    (void)fpl_dir_remove(slot->dir, NULL);
    return status;
  }
  slot->item = index;
  slot->end_us = fpl_now_us() + options->compile_timeout_us;
  return FPL_OK;
}

/* Why a child left no facts: what it wrote into its log, or its exit code. */
static void explain_loss(struct build *build, const char *dir, int exit_code, char out[256]) {
  char *text = NULL;
  size_t length = 0;
  const char *path = fpl_cache_file(&build->arena, dir, FPL_CACHE_LOG);
  if (path != NULL &&
      fpl_file_read(&build->arena, path, FPL_CACHE_FILE_BYTES, &text, &length, NULL) == FPL_OK &&
      length > 0) {
    const size_t line = strcspn(text, "\n");
    (void)snprintf(out, 256, "%.*s", (int)(line < 255 ? line : 255), text);
  } else {
    (void)snprintf(out, 256, "the compiler process ended with exit code %d", exit_code);
  }
}

/* The child of a slot has ended, or is late: judges it and frees the slot. */
static enum fpl_status finish_child(struct build *build, int slot_index, bool is_late,
                                    struct fpl_err *err) {
  struct slot *slot = &build->slots[slot_index];
  struct fpl_build_item *item = &build->items[slot->item];
  struct fpl_child *child = &build->children[slot_index];
  char reason[256];
  int exit_code = 0;
  enum fpl_status status = FPL_OK;
  struct fpl_facts facts;
  if (!is_late) {
    (void)fpl_child_wait(child, 0.0, &exit_code, NULL);
  }
  fpl_child_kill(child);
  if (is_late) {
    (void)snprintf(reason, sizeof reason, "killed after %.1f s",
                   build->builder->options.compile_timeout_us * 1e-6);
    fail_item(item, FPL_OUTCOME_COMPILE_TIMEOUT, reason);
    (void)fpl_dir_remove(slot->dir, NULL);
  } else if (exit_code != 0 || !fpl_facts_read(slot->dir, &facts)) {
    explain_loss(build, slot->dir, exit_code, reason);
    fail_item(item, FPL_OUTCOME_COMPILE_ERROR, reason);
    (void)fpl_dir_remove(slot->dir, NULL);
  } else {
    status = fpl_cache_publish(build->builder->options.cache_dir, item->key, slot->dir, err);
    if (status == FPL_OK && !load_item(build, item)) {
      status = fpl_fail(err, FPL_IO, "%s: the entry %s was damaged as it was written",
                        build->builder->options.cache_dir, item->key);
    }
    if (status != FPL_OK) {
      (void)fpl_dir_remove(slot->dir, NULL);
    }
  }
  return status == FPL_OK ? settle(build, slot->item, err) : status;
}

/* Waits until one child has ended or is late, and finishes it. At least one child runs. */
static enum fpl_status finish_one(struct build *build, struct fpl_err *err) {
  const int jobs = build->builder->options.jobs;
  int next = -1; /* to be late */
  for (int i = 0; i < jobs; i++) {
    if (build->children[i].pid > 0 &&
        (next < 0 || build->slots[i].end_us < build->slots[next].end_us)) {
      next = i;
    }
  }
  const double left_us = build->slots[next].end_us - fpl_now_us();
  const int ended = fpl_child_first_ended(build->children, jobs, left_us);
  return finish_child(build, ended < 0 ? next : ended, ended < 0, err);
}

static int free_slot(const struct build *build) {
  for (int i = 0; i < build->builder->options.jobs; i++) {
    if (build->children[i].pid <= 0) {
      return i;
    }
  }
  return -1;
}

static enum fpl_status compile_missing(struct build *build, struct fpl_err *err) {
  enum fpl_status status = FPL_OK;
  for (int i = 0; i < build->n && status == FPL_OK; i++) {
    struct fpl_build_item *item = &build->items[i];
    if (build->leader[i] != i) {
      continue;
    }
    if (load_item(build, item)) {
      item->was_cached = true;
      status = settle(build, i, err);
      continue;
    }
    if (free_slot(build) < 0) {
      status = finish_one(build, err);
    }
    if (status == FPL_OK) {
      status = start_child(build, free_slot(build), i, err);
    }
  }
  while (status == FPL_OK && build->n_done < build->n) {
    status = finish_one(build, err);
  }
  return status;
}

/* After a failure: no child and no unfinished folder stays. */
static void stop_children(struct build *build) {
  for (int i = 0; i < build->builder->options.jobs; i++) {
    if (build->children[i].pid > 0) {
      fpl_child_kill(&build->children[i]);
      (void)fpl_dir_remove(build->slots[i].dir, NULL);
    }
  }
}

static void find_leaders(struct build *build) {
  for (int i = 0; i < build->n; i++) {
    make_key(build->builder, build->items[i].source, build->items[i].key);
    build->leader[i] = i;
    for (int j = 0; j < i; j++) {
      if (strcmp(build->items[j].key, build->items[i].key) == 0) {
        build->leader[i] = j;
        break;
      }
    }
  }
}

enum fpl_status fpl_builder_compile(struct fpl_builder *builder, struct fpl_build_item *items,
                                    int n, void (*progress)(void *context, int n_done, int n_all),
                                    void *context, struct fpl_err *err) {
  struct build build = {
      .builder = builder, .items = items, .n = n, .progress = progress, .context = context};
  for (int i = 0; i < n; i++) {
    items[i] = (struct fpl_build_item){.source = items[i].source};
  }
  const size_t jobs = (size_t)builder->options.jobs;
  build.leader = fpl_arena_alloc(&build.arena, ((size_t)n + 1) * sizeof *build.leader);
  build.children = fpl_arena_alloc(&build.arena, jobs * sizeof *build.children);
  build.slots = fpl_arena_alloc(&build.arena, jobs * sizeof *build.slots);
  enum fpl_status status = FPL_OK;
  if (build.leader == NULL || build.children == NULL || build.slots == NULL) {
    status = no_memory(err);
  } else {
    find_leaders(&build);
    status = compile_missing(&build, err);
    stop_children(&build);
  }
  fpl_arena_free(&build.arena);
  return status;
}

void fpl_build_item_free(struct fpl_build_item *item) {
  free(item->cubin);
  item->cubin = NULL;
  item->cubin_bytes = 0;
}

/* Moves an item's cubin and facts to its result; refuses a kernel that leaves its registers. */
static void give_result(struct fpl_build_item *item, struct fpl_result *result) {
  struct fpl_kernel *kernel = &result->kernel;
  (void)snprintf(kernel->source_key, sizeof kernel->source_key, "%s", item->key);
  (void)snprintf(kernel->sha, sizeof kernel->sha, "%s", item->sha);
  kernel->registers = item->registers;
  kernel->spill_bytes = item->spill_bytes;
  if (item->outcome != FPL_OUTCOME_BUILT) {
    result->outcome = item->outcome;
    (void)snprintf(result->reason, sizeof result->reason, "%s", item->reason);
  } else if (item->spill_bytes > 0) {
    result->outcome = FPL_OUTCOME_COMPILE_ERROR;
    (void)snprintf(result->reason, sizeof result->reason, "spills %d bytes",
                   (int)item->spill_bytes);
  } else if (item->stack_bytes > 0) {
    result->outcome = FPL_OUTCOME_COMPILE_ERROR;
    (void)snprintf(result->reason, sizeof result->reason, "uses %d bytes of local memory",
                   (int)item->stack_bytes);
  } else {
    kernel->cubin = item->cubin;
    kernel->cubin_bytes = item->cubin_bytes;
    item->cubin = NULL;
  }
}

static bool is_wanted(const struct fpl_result *result) {
  return result->outcome == FPL_OUTCOME_PENDING && !result->is_library;
}

/* Emits the wanted results' texts, in their order. */
static enum fpl_status emit_all(const struct fpl_problem *p, const struct fpl_device *d,
                                struct fpl_result *results, int n, struct fpl_arena *arena,
                                struct fpl_build_item *items, int *out_n, struct fpl_err *err) {
  *out_n = 0;
  for (int i = 0; i < n; i++) {
    if (!is_wanted(&results[i])) {
      continue;
    }
    struct fpl_text source = {0};
    fpl_kernel_free(&results[i].kernel);
    enum fpl_status status = fpl_emit(p, &results[i].schedule, d, &source, &results[i].kernel, err);
    if (status == FPL_OK) {
      const char *copy =
          source.is_broken ? NULL : fpl_arena_copy(arena, source.text, source.length);
      items[(*out_n)++].source = copy;
      status = copy == NULL ? no_memory(err) : FPL_OK;
    }
    fpl_text_free(&source);
    if (status != FPL_OK) {
      return status;
    }
  }
  return FPL_OK;
}

static enum fpl_status build_results(void *self, const struct fpl_problem *p,
                                     const struct fpl_device *d, struct fpl_result *results, int n,
                                     void (*progress)(void *context, int n_done, int n_all),
                                     void *context, struct fpl_err *err) {
  struct fpl_arena arena = {0};
  int n_items = 0;
  struct fpl_build_item *items = fpl_arena_alloc(&arena, ((size_t)n + 1) * sizeof *items);
  if (items == NULL) {
    return no_memory(err);
  }
  enum fpl_status status = emit_all(p, d, results, n, &arena, items, &n_items, err);
  if (status == FPL_OK) {
    status = fpl_builder_compile(self, items, n_items, progress, context, err);
  }
  int next = 0;
  for (int i = 0; i < n && status == FPL_OK; i++) {
    if (is_wanted(&results[i])) {
      give_result(&items[next++], &results[i]);
    }
  }
  for (int i = 0; i < n_items; i++) {
    fpl_build_item_free(&items[i]);
  }
  fpl_arena_free(&arena);
  return status;
}

struct fpl_builder_port fpl_builder_port(struct fpl_builder *builder) {
  return (struct fpl_builder_port){.self = builder, .build = build_results};
}

enum fpl_status fpl_builder_support(struct fpl_builder *builder, const char **out_path,
                                    struct fpl_err *err) {
  *out_path = NULL;
  struct fpl_build_item item = {0};
  for (size_t i = 0; i < fpl_n_skeleton_files; i++) {
    if (strcmp(fpl_skeleton_files[i].name, SUPPORT_FILE) == 0) {
      item.source = fpl_skeleton_files[i].text;
    }
  }
  if (item.source == NULL) {
    return fpl_fail(err, FPL_INTERNAL, "%s is not embedded", SUPPORT_FILE);
  }
  enum fpl_status status = fpl_builder_compile(builder, &item, 1, NULL, NULL, err);
  if (status == FPL_OK && item.outcome != FPL_OUTCOME_BUILT) {
    status = fpl_fail(err, FPL_TOOLCHAIN, "support kernels: %s", item.reason);
  }
  if (status == FPL_OK) {
    const char *entry = fpl_cache_entry(&builder->arena, builder->options.cache_dir, item.key);
    *out_path = entry == NULL ? NULL : fpl_cache_file(&builder->arena, entry, FPL_CACHE_CUBIN);
    status = *out_path == NULL ? no_memory(err) : FPL_OK;
  }
  fpl_build_item_free(&item);
  return status;
}

static enum fpl_status compile_in_dir(const char *dir, const char *toolkit_dir,
                                      struct fpl_arena *arena, struct fpl_compiled *compiled,
                                      struct fpl_err *err) {
  char *source = NULL;
  size_t length = 0;
  const char *source_path = fpl_cache_file(arena, dir, FPL_CACHE_SOURCE);
  const char *cubin_path = fpl_cache_file(arena, dir, FPL_CACHE_CUBIN);
  const char *log_path = fpl_cache_file(arena, dir, FPL_CACHE_LOG);
  if (source_path == NULL || cubin_path == NULL || log_path == NULL) {
    return no_memory(err);
  }
  enum fpl_status status =
      fpl_file_read(arena, source_path, FPL_CACHE_FILE_BYTES, &source, &length, err);
  if (status == FPL_OK) {
    status = fpl_compile_check(toolkit_dir, source, compiled, err);
  }
  if (status != FPL_OK) {
    if (err != NULL) {
      (void)fpl_file_write(log_path, err->text, strlen(err->text), NULL);
    }
    return status;
  }
  struct fpl_facts facts = {.is_ok = compiled->is_ok,
                            .registers = compiled->registers,
                            .spill_bytes = compiled->spill_bytes,
                            .stack_bytes = compiled->stack_bytes};
  (void)snprintf(facts.reason, sizeof facts.reason, "%s", compiled->reason);
  status = fpl_file_write(log_path, compiled->log, strlen(compiled->log), err);
  if (status == FPL_OK && compiled->is_ok) {
    fpl_hash_bytes_hex(compiled->cubin, compiled->cubin_bytes, facts.sha);
    status = fpl_file_write(cubin_path, compiled->cubin, compiled->cubin_bytes, err);
  }
  return status == FPL_OK ? fpl_facts_write(dir, &facts, err) : status;
}

enum fpl_status fpl_compile_worker(const char *dir, const char *toolkit_dir, struct fpl_err *err) {
  struct fpl_arena arena = {0};
  struct fpl_compiled compiled = {0};
  const enum fpl_status status = compile_in_dir(dir, toolkit_dir, &arena, &compiled, err);
  fpl_compiled_free(&compiled);
  fpl_arena_free(&arena);
  return status;
}
