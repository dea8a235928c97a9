/* Workload files: keys, defaults, m lists, unique ids. What a problem may be is
 * fpl_problem_make's business; its message gets the place in the file here. */
#include "tuner/core/workload.h"

#include "tuner/base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct list {
  struct fpl_arena *arena;
  struct fpl_err *err;
  const struct fpl_yaml *defaults; /* NULL: none */
  struct fpl_workload *items;      /* heap while it grows */
  const struct fpl_yaml **places;  /* of items, for messages */
  size_t n, capacity;
};

bool fpl_budget_parse(const char *text, double *out_us) {
  static const struct {
    char suffix;
    double us;
  } suffixes[] = {{'s', 1e6}, {'m', 60e6}, {'h', 3600e6}};
  const double year_us = 366 * 24 * 3600e6;
  char number[32];
  const size_t length = strlen(text);
  if (length < 2 || length > sizeof number)
    return false;
  memcpy(number, text, length - 1);
  number[length - 1] = '\0';
  double value = 0;
  if (!fpl_parse_f64(number, &value))
    return false;
  for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
    const double us = value * suffixes[i].us;
    if (text[length - 1] == suffixes[i].suffix && us > 0 && us <= year_us) {
      *out_us = us;
      return true;
    }
  }
  return false;
}

static enum fpl_status read_budget(const struct fpl_yaml *root, double *out, struct fpl_err *err) {
  const char *text = NULL;
  *out = 0;
  const enum fpl_status status = fpl_yaml_get_text(root, "budget", "", &text, err);
  const struct fpl_yaml *const node = fpl_yaml_find(root, "budget");
  if (status != FPL_OK || !node || fpl_budget_parse(text, out))
    return status;
  return fpl_yaml_fail(node, err, "budget '%.40s' is not a time above 0: write 90s, 10m or 6h",
                       text);
}

static enum fpl_status grow(struct list *list) {
  if (list->n < list->capacity)
    return FPL_OK;
  const size_t capacity = list->capacity ? 2 * list->capacity : 64;
  struct fpl_workload *const items = realloc(list->items, capacity * sizeof *items);
  if (items)
    list->items = items;
  const struct fpl_yaml **const places = realloc(list->places, capacity * sizeof *places);
  if (places)
    list->places = places;
  if (!items || !places)
    return fpl_fail(list->err, FPL_NO_MEMORY, "out of memory while reading a workload");
  list->capacity = capacity;
  return FPL_OK;
}

/* `suffix`: "@m128" or "". */
static enum fpl_status add_item(struct list *list, const struct fpl_yaml *place,
                                const struct fpl_workload *item, const char *suffix) {
  if (list->n == FPL_WORKLOAD_MOST)
    return fpl_yaml_fail(place, list->err, "more than %d problems: split the file",
                         FPL_WORKLOAD_MOST);
  const enum fpl_status status = grow(list);
  if (status != FPL_OK)
    return status;
  char id[FPL_WORKLOAD_ID + 32];
  snprintf(id, sizeof id, "%s%s", item->id, suffix);
  if (strlen(id) >= FPL_WORKLOAD_ID)
    return fpl_yaml_fail(place, list->err, "id '%s' is too long: use at most %d characters", id,
                         FPL_WORKLOAD_ID - 1);
  struct fpl_workload *const slot = &list->items[list->n];
  *slot = *item;
  slot->id = fpl_arena_copy(list->arena, id, strlen(id));
  if (!slot->id)
    return fpl_fail(list->err, FPL_NO_MEMORY, "out of memory while reading a workload");
  list->places[list->n++] = place;
  return FPL_OK;
}

/* The map that holds `key`: the problem itself, else the defaults if they have it. */
static const struct fpl_yaml *holder(const struct list *list, const struct fpl_yaml *map,
                                     const char *key) {
  const bool is_default =
      !fpl_yaml_find(map, key) && list->defaults && fpl_yaml_find(list->defaults, key);
  return is_default ? list->defaults : map;
}

static enum fpl_status read_extent(const struct fpl_yaml *map, const char *key, int64_t *out,
                                   struct fpl_err *err) {
  return fpl_yaml_get_i64(map, key, 1, INT32_MAX, NULL, out, err);
}

/* Fields common to all kinds, beside the kind itself. */
static enum fpl_status read_common(struct list *list, const struct fpl_yaml *map,
                                   struct fpl_workload *item) {
  static const char allowed[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+@-";
  int dtype = 0, act = 0;
  const double once = 1;
  enum fpl_status status = fpl_yaml_get_text(map, "id", NULL, &item->id, list->err);
  if (status == FPL_OK)
    status = fpl_yaml_get_name(holder(list, map, "dtype"), "dtype", fpl_dtype_names, -1, &dtype,
                               list->err);
  if (status == FPL_OK)
    status = fpl_yaml_get_name(holder(list, map, "act"), "act", fpl_act_names, -1, &act, list->err);
  if (status == FPL_OK)
    status = fpl_yaml_get_text(map, "model", "", &item->model, list->err);
  if (status == FPL_OK)
    status = fpl_yaml_get_f64(map, "calls", 1e-6, 1e12, &once, &item->calls, list->err);
  if (status != FPL_OK)
    return status;
  item->problem.dtype = (enum fpl_dtype)dtype;
  item->problem.act = (enum fpl_act)act;
  if (*item->id && strspn(item->id, allowed) == strlen(item->id))
    return FPL_OK;
  return fpl_yaml_fail(fpl_yaml_find(map, "id"), list->err,
                       "id '%.40s' is not usable: use letters, digits and . _ + @ -", item->id);
}

static enum fpl_status make_problem(struct list *list, const struct fpl_yaml *place,
                                    struct fpl_problem *p, const struct fpl_conv *conv) {
  struct fpl_err why = {0};
  const enum fpl_status status =
      fpl_problem_make(p->kind, p->dtype, p->act, p->m, p->n, p->k, p->l, conv, p, &why);
  return status == FPL_OK ? FPL_OK : fpl_yaml_fail(place, list->err, "%s", why.text);
}

static enum fpl_status read_conv(struct list *list, const struct fpl_yaml *map,
                                 struct fpl_workload *item) {
  struct fpl_conv conv = {0};
  const struct {
    const char *key;
    int64_t *out;
  } extents[] = {{"batch", &conv.batch}, {"ic", &conv.ic},          {"h", &conv.h},
                 {"w", &conv.w},         {"oc1", &item->problem.n}, {"oc2", &item->problem.l},
                 {"k1", &conv.k1}};
  enum fpl_status status = FPL_OK;
  for (size_t i = 0; i < sizeof extents / sizeof *extents && status == FPL_OK; i++)
    status = read_extent(map, extents[i].key, extents[i].out, list->err);
  if (status == FPL_OK)
    status = make_problem(list, map, &item->problem, &conv);
  return status == FPL_OK ? add_item(list, map, item, "") : status;
}

/* One problem for each m. */
static enum fpl_status add_m_list(struct list *list, const struct fpl_yaml *map,
                                  const struct fpl_yaml *values, const struct fpl_workload *item) {
  if (values->n_children == 0)
    return fpl_yaml_fail(values, list->err, "m is an empty list: write at least one value");
  for (size_t i = 0; i < values->n_children; i++) {
    struct fpl_yaml value = values->children[i];
    value.key = "m";
    const struct fpl_yaml one = {.kind = FPL_YAML_MAP,
                                 .file = values->file,
                                 .line = value.line,
                                 .column = value.column,
                                 .text = "",
                                 .children = &value,
                                 .n_children = 1};
    struct fpl_workload copy = *item;
    char suffix[32];
    enum fpl_status status = read_extent(&one, "m", &copy.problem.m, list->err);
    if (status == FPL_OK)
      status = make_problem(list, map, &copy.problem, NULL);
    if (status != FPL_OK)
      return status;
    snprintf(suffix, sizeof suffix, "@m%lld", (long long)copy.problem.m);
    status = add_item(list, map, &copy, suffix);
    if (status != FPL_OK)
      return status;
  }
  return FPL_OK;
}

static enum fpl_status read_chain(struct list *list, const struct fpl_yaml *map,
                                  struct fpl_workload *item) {
  struct fpl_problem *const p = &item->problem;
  enum fpl_status status = read_extent(map, "n", &p->n, list->err);
  if (status == FPL_OK)
    status = read_extent(map, "k", &p->k, list->err);
  if (status == FPL_OK)
    status = read_extent(map, "l", &p->l, list->err);
  if (status != FPL_OK)
    return status;
  const struct fpl_yaml *const m_holder = holder(list, map, "m");
  const struct fpl_yaml *const m = fpl_yaml_find(m_holder, "m");
  if (m && m->kind == FPL_YAML_LIST)
    return add_m_list(list, map, m, item);
  status = read_extent(m_holder, "m", &p->m, list->err);
  if (status == FPL_OK)
    status = make_problem(list, map, p, NULL);
  return status == FPL_OK ? add_item(list, map, item, "") : status;
}

static enum fpl_status read_entry(struct list *list, const struct fpl_yaml *map) {
  static const char *const all_keys[] = {"id",    "kind", "m",     "n",     "k",     "l",
                                         "dtype", "act",  "model", "calls", "batch", "ic",
                                         "h",     "w",    "oc1",   "oc2",   "k1",    NULL};
  static const char *const chain_keys[] = {"id",    "kind", "m",     "n",     "k", "l",
                                           "dtype", "act",  "model", "calls", NULL};
  static const char *const conv_keys[] = {"id",  "kind", "batch", "ic",  "h",     "w",     "oc1",
                                          "oc2", "k1",   "dtype", "act", "model", "calls", NULL};
  int kind = 0;
  enum fpl_status status = fpl_yaml_only_keys(map, all_keys, list->err);
  if (status == FPL_OK)
    status = fpl_yaml_get_name(map, "kind", fpl_kind_names, -1, &kind, list->err);
  if (status != FPL_OK)
    return status;
  const bool is_conv = kind == FPL_KIND_CONV_CHAIN;
  const char *const *const keys = is_conv ? conv_keys : chain_keys;
  for (size_t i = 0; i < map->n_children; i++) {
    struct fpl_yaml child = map->children[i];
    if (fpl_name_index(keys, child.key) >= 0)
      continue;
    child.line = child.key_line;
    child.column = child.key_column;
    return fpl_yaml_fail(&child, list->err, "%s takes no '%s': remove it", fpl_kind_names[kind],
                         child.key);
  }
  struct fpl_workload item = {.problem = {.kind = (enum fpl_kind)kind}};
  status = read_common(list, map, &item);
  if (status != FPL_OK)
    return status;
  return is_conv ? read_conv(list, map, &item) : read_chain(list, map, &item);
}

struct named {
  const char *id;
  size_t index;
};

static int compare_ids(const void *left, const void *right) {
  const struct named *const a = left, *const b = right;
  const int order = strcmp(a->id, b->id);
  return order != 0 ? order : (a->index > b->index) - (a->index < b->index);
}

static enum fpl_status check_ids(const struct list *list) {
  struct named *const sorted = malloc(list->n * sizeof *sorted);
  if (!sorted)
    return fpl_fail(list->err, FPL_NO_MEMORY, "out of memory while reading a workload");
  for (size_t i = 0; i < list->n; i++)
    sorted[i] = (struct named){list->items[i].id, i};
  qsort(sorted, list->n, sizeof *sorted, compare_ids);
  size_t again = list->n, first = 0;
  for (size_t i = 1; i < list->n; i++)
    if (strcmp(sorted[i - 1].id, sorted[i].id) == 0 && sorted[i].index < again) {
      first = sorted[i - 1].index;
      again = sorted[i].index;
    }
  free(sorted);
  if (again == list->n)
    return FPL_OK;
  return fpl_yaml_fail(list->places[again], list->err,
                       "duplicate id '%s', first on line %d: rename one", list->items[again].id,
                       list->places[first]->line);
}

static enum fpl_status read_problems(struct list *list, const struct fpl_yaml *root) {
  const struct fpl_yaml *const problems = fpl_yaml_find(root, "problems");
  if (!problems)
    return fpl_yaml_fail(root, list->err, "key 'problems' is missing: add a list of problems");
  if (problems->kind != FPL_YAML_LIST || problems->n_children == 0)
    return fpl_yaml_fail(problems, list->err,
                         "problems is not a list with entries: write at least one '- {...}'");
  for (size_t i = 0; i < problems->n_children; i++) {
    const enum fpl_status status = read_entry(list, &problems->children[i]);
    if (status != FPL_OK)
      return status;
  }
  return check_ids(list);
}

/* Names are checked here, so that a wrong one is seen even when every problem overrides it. */
static enum fpl_status read_defaults(struct list *list, const struct fpl_yaml *root) {
  static const char *const keys[] = {"dtype", "act", "m", NULL};
  int ignored = 0;
  list->defaults = fpl_yaml_find(root, "defaults");
  if (!list->defaults)
    return FPL_OK;
  enum fpl_status status = fpl_yaml_only_keys(list->defaults, keys, list->err);
  if (status == FPL_OK)
    status = fpl_yaml_get_name(list->defaults, "dtype", fpl_dtype_names, 0, &ignored, list->err);
  if (status == FPL_OK)
    status = fpl_yaml_get_name(list->defaults, "act", fpl_act_names, 0, &ignored, list->err);
  return status;
}

static enum fpl_status take_items(const struct list *list, struct fpl_workload **out,
                                  size_t *n_out) {
  struct fpl_workload *const items = fpl_arena_alloc(list->arena, list->n * sizeof *items);
  if (!items)
    return fpl_fail(list->err, FPL_NO_MEMORY, "out of memory while reading a workload");
  memcpy(items, list->items, list->n * sizeof *items);
  *out = items;
  *n_out = list->n;
  return FPL_OK;
}

enum fpl_status fpl_workloads_from_yaml(struct fpl_arena *arena, const struct fpl_yaml *root,
                                        struct fpl_workload **out, size_t *n_out,
                                        double *budget_us_out, struct fpl_err *err) {
  static const char *const keys[] = {"schema_version", "budget", "defaults", "problems", NULL};
  struct list list = {.arena = arena, .err = err};
  int64_t version = 0;
  enum fpl_status status = fpl_yaml_only_keys(root, keys, err);
  if (status == FPL_OK)
    status = fpl_yaml_get_i64(root, "schema_version", 1, 1, NULL, &version, err);
  if (status == FPL_OK)
    status = read_budget(root, budget_us_out, err);
  if (status == FPL_OK)
    status = read_defaults(&list, root);
  if (status == FPL_OK)
    status = read_problems(&list, root);
  if (status == FPL_OK)
    status = take_items(&list, out, n_out);
  free(list.items);
  free(list.places);
  return status;
}

enum fpl_status fpl_workloads_read(struct fpl_arena *arena, const char *path,
                                   struct fpl_workload **out, size_t *n_out, double *budget_us_out,
                                   struct fpl_err *err) {
  struct fpl_yaml *root = NULL;
  const enum fpl_status status = fpl_yaml_read(arena, path, &root, err);
  return status == FPL_OK ? fpl_workloads_from_yaml(arena, root, out, n_out, budget_us_out, err)
                          : status;
}
