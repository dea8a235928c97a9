/* Making a snapshot from a database. */
#define _POSIX_C_SOURCE 200809L
#include "db/handle.h"
#include "db/snapshot.h"
#include "db/snapshot_format.h"

#include "tuner/base/str.h"
#include "tuner/base/sys.h"

#include <stdlib.h>
#include <string.h>

/* A plan on its way into the file. */
struct item {
  struct fpl_snapshot_plan record;
  char sha[FPL_HASH_HEX];       /* of its kernel; "" for none */
  char kernel[FPL_KERNEL_NAME]; /* its name */
  int64_t environment_id;
  int64_t rank; /* best first among the plans of a problem: the order of the query */
  char *reason; /* heap */
};

struct environment {
  int64_t id;
  int32_t place; /* in the file; -1 before it has one */
  struct fpl_environment environment;
};

/* A growing array of records of one size. */
struct array {
  void *items; /* heap */
  size_t n, most, item_bytes;
};

struct making {
  struct fpl_db *db;
  struct array items, environments, kernels, devices, regrets;
  struct fpl_text texts, cubins;
  struct array device_keys; /* char[FPL_KEY_HEX] */
};

static void *add(struct array *a, enum fpl_status *status, struct fpl_err *err) {
  if (*status != FPL_OK)
    return NULL;
  if (a->n == a->most) {
    const size_t most = a->most ? 2 * a->most : 64;
    void *const items = realloc(a->items, most * a->item_bytes);
    if (!items) {
      *status = fpl_fail(err, FPL_NO_MEMORY, "out of memory");
      return NULL;
    }
    a->items = items;
    a->most = most;
  }
  void *const item = (char *)a->items + a->n++ * a->item_bytes;
  memset(item, 0, a->item_bytes);
  return item;
}

static enum fpl_status read_devices(struct making *m, struct fpl_err *err) {
  struct fpl_bind b = fpl_bind_start(m->db, FPL_QUERY_EXPORT_DEVICE_CLASS);
  bool has_row = false;
  enum fpl_status status = FPL_OK;
  while (status == FPL_OK && (status = fpl_bind_step(&b, &has_row, err)) == FPL_OK && has_row) {
    char *const key = add(&m->device_keys, &status, err);
    struct fpl_snapshot_device *const d = add(&m->devices, &status, err);
    if (!key || !d)
      break;
    struct fpl_read r = {.statement = b.statement};
    fpl_read_copy(&r, key, FPL_KEY_HEX);
    fpl_read_text(&r); /* the class, which its numbers say again */
    fpl_read_copy(&r, d->name, sizeof d->name);
    fpl_read_copy(&r, d->title, sizeof d->title);
    d->capability_major = fpl_read_i64(&r);
    d->capability_minor = fpl_read_i64(&r);
    d->sms = fpl_read_i64(&r);
    d->l2_bytes = fpl_read_i64(&r);
    d->hbm_bytes = fpl_read_i64(&r);
    d->sm_clock_mhz = fpl_read_f64(&r);
    d->smem_bytes_per_block = fpl_read_i64(&r);
    d->smem_bytes_per_sm = fpl_read_i64(&r);
    d->registers_per_sm = fpl_read_i64(&r);
    d->threads_per_sm = fpl_read_i64(&r);
    d->max_cluster = fpl_read_i64(&r);
  }
  fpl_bind_reset(&b);
  return status;
}

static int32_t place_of_key(const struct array *keys, const char *key) {
  for (size_t i = 0; i < keys->n; i++)
    if (strcmp((const char *)keys->items + i * FPL_KEY_HEX, key) == 0)
      return (int32_t)i;
  return -1;
}

static void take_kernel(const struct fpl_kernel *k, struct fpl_snapshot_kernel *out) {
  memcpy(out->name, k->name, sizeof out->name);
  memcpy(out->family, k->family, sizeof out->family);
  memcpy(out->sha, k->sha, sizeof out->sha);
  memcpy(out->source_key, k->source_key, sizeof out->source_key);
  for (int i = 0; i < FPL_KERNEL_MAPS; i++) {
    out->maps[i].rows = k->maps[i].rows;
    out->maps[i].cols = k->maps[i].cols;
    out->maps[i].box_rows = k->maps[i].box_rows;
    out->maps[i].box_cols = k->maps[i].box_cols;
    out->maps[i].slabs = k->maps[i].slabs;
    out->maps[i].parts = k->maps[i].parts;
    out->maps[i].is_image = k->maps[i].is_image;
  }
  out->cluster = k->cluster;
  out->block_threads = k->block_threads;
  out->smem_bytes = k->smem_bytes;
  out->rows_per_unit = k->rows_per_unit;
  out->units_per_row = k->units_per_row;
  out->max_clusters = k->max_clusters;
  out->workspace_bytes_per_row_group = k->workspace_bytes_per_row_group;
  out->registers = k->registers;
  out->spill_bytes = k->spill_bytes;
}

/* Extents are at most 2^31 - 1; counts are cut there. */
static int32_t small(int64_t value) {
  return (int32_t)fpl_min_i64(value, INT32_MAX);
}

static void take_plan(const struct fpl_plan *p, struct fpl_snapshot_plan *out) {
  const struct fpl_problem *const q = &p->problem;
  *out = (struct fpl_snapshot_plan){.m = small(q->m),
                                    .n = small(q->n),
                                    .k = small(q->k),
                                    .l = small(q->l),
                                    .batch = small(q->conv.batch),
                                    .ic = small(q->conv.ic),
                                    .h = small(q->conv.h),
                                    .w = small(q->conv.w),
                                    .k1 = small(q->conv.k1),
                                    .kind = (int8_t)q->kind,
                                    .dtype = (int8_t)q->dtype,
                                    .act = (int8_t)q->act,
                                    .kernel = -1,
                                    .provenance = (int8_t)p->provenance,
                                    .is_library = p->is_library,
                                    .has_cubin = p->has_cubin,
                                    .est_us = p->est_us,
                                    .measured_us = p->measured_us,
                                    .measured_hot_us = p->measured_hot_us,
                                    .library_us = p->library_us,
                                    .library_hot_us = p->library_hot_us,
                                    .n_candidates = small(p->n_candidates),
                                    .n_ok = small(p->n_ok),
                                    .created_unix = p->created_unix,
                                    .m_low = small(p->m_low),
                                    .m_high = small(p->m_high)};
  for (int field = 0; !p->is_library && field < FPL_N_FIELDS; field++)
    out->schedule[field] = fpl_schedule_get(&p->schedule, field);
}

static enum fpl_status keep_environment(struct making *m, int64_t id,
                                        const struct fpl_environment *environment,
                                        struct fpl_err *err) {
  const struct environment *const known = m->environments.items;
  for (size_t i = m->environments.n; i-- > 0;)
    if (known[i].id == id)
      return FPL_OK;
  enum fpl_status status = FPL_OK;
  struct environment *const e = add(&m->environments, &status, err);
  if (e)
    *e = (struct environment){.id = id, .place = -1, .environment = *environment};
  return status;
}

static enum fpl_status read_item(struct making *m, sqlite3_stmt *row, struct fpl_err *err) {
  /* Columns after those of plan_records. */
  const int n_columns = sqlite3_column_count(row);
  const int64_t environment_id = sqlite3_column_int64(row, n_columns - 2);
  const char *const device_key = (const char *)sqlite3_column_text(row, n_columns - 1);
  struct fpl_plan plan = {0};
  enum fpl_status status = fpl_db_read_plan(m->db, row, NULL, &plan, err);
  struct item *const item = add(&m->items, &status, err);
  if (item) {
    take_plan(&plan, &item->record);
    item->record.device = place_of_key(&m->device_keys, device_key ? device_key : "");
    item->rank = (int64_t)m->items.n;
    item->environment_id = environment_id;
    memcpy(item->sha, plan.kernel.sha, sizeof item->sha);
    memcpy(item->kernel, plan.kernel.name, sizeof item->kernel);
    item->reason = strdup(plan.reason);
    if (!item->reason)
      status = fpl_fail(err, FPL_NO_MEMORY, "out of memory");
  }
  if (plan.kernel.sha[0]) {
    struct fpl_snapshot_kernel *const k = add(&m->kernels, &status, err);
    if (k)
      take_kernel(&plan.kernel, k);
  }
  if (status == FPL_OK)
    status = keep_environment(m, environment_id, &plan.environment, err);
  fpl_plan_free(&plan);
  return status;
}

static enum fpl_status read_items(struct making *m, struct fpl_err *err) {
  struct fpl_bind b = fpl_bind_start(m->db, FPL_QUERY_EACH_PROMOTED);
  bool has_row = false;
  enum fpl_status status = FPL_OK;
  while (status == FPL_OK && (status = fpl_bind_step(&b, &has_row, err)) == FPL_OK && has_row)
    status = read_item(m, b.statement, err);
  fpl_bind_reset(&b);
  return status;
}

static enum fpl_status read_regrets(struct making *m, struct fpl_err *err) {
  struct fpl_bind b = fpl_bind_start(m->db, FPL_QUERY_EACH_REGRET);
  bool has_row = false;
  enum fpl_status status = FPL_OK;
  while (status == FPL_OK && (status = fpl_bind_step(&b, &has_row, err)) == FPL_OK && has_row) {
    struct fpl_read r = {.statement = b.statement};
    struct fpl_snapshot_regret *const regret = add(&m->regrets, &status, err);
    if (!regret)
      break;
    regret->device = place_of_key(&m->device_keys, fpl_read_text(&r));
    regret->kind = fpl_read_name(&r, fpl_kind_names);
    regret->distance_class = (int32_t)fpl_read_i64(&r);
    regret->n = fpl_read_i64(&r);
    regret->low = fpl_read_f64(&r);
    regret->expected = fpl_read_f64(&r);
    regret->high = fpl_read_f64(&r);
  }
  fpl_bind_reset(&b);
  return status;
}

static int compare_i64(int64_t a, int64_t b) {
  return (a > b) - (a < b);
}

static int by_problem(const void *left, const void *right) {
  const struct item *const x = left, *const y = right;
  const struct fpl_snapshot_plan *const a = &x->record, *const b = &y->record;
  const int orders[] = {compare_i64(a->device, b->device), compare_i64(a->kind, b->kind),
                        compare_i64(a->dtype, b->dtype),   compare_i64(a->act, b->act),
                        compare_i64(a->n, b->n),           compare_i64(a->k, b->k),
                        compare_i64(a->l, b->l),           compare_i64(a->m, b->m),
                        compare_i64(a->batch, b->batch),   compare_i64(a->ic, b->ic),
                        compare_i64(a->h, b->h),           compare_i64(a->w, b->w),
                        compare_i64(a->k1, b->k1),         compare_i64(x->rank, y->rank)};
  for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
    if (orders[i] != 0)
      return orders[i];
  return 0;
}

static int by_sha(const void *a, const void *b) {
  return strcmp(((const struct fpl_snapshot_kernel *)a)->sha,
                ((const struct fpl_snapshot_kernel *)b)->sha);
}

/* Sorts the kernels, leaves each once, and appends their machine code. */
static enum fpl_status place_kernels(struct making *m, bool with_cubins, struct fpl_err *err) {
  struct fpl_snapshot_kernel *const kernels = m->kernels.items;
  if (m->kernels.n > 0)
    qsort(kernels, m->kernels.n, sizeof *kernels, by_sha);
  size_t n = 0;
  for (size_t i = 0; i < m->kernels.n; i++)
    if (n == 0 || strcmp(kernels[n - 1].sha, kernels[i].sha) != 0)
      kernels[n++] = kernels[i];
  m->kernels.n = n;
  for (size_t i = 0; with_cubins && i < n; i++) {
    struct fpl_kernel code = {0};
    memcpy(code.sha, kernels[i].sha, sizeof code.sha);
    const enum fpl_status status = fpl_db_load_cubin(m->db, &code, err);
    if (status != FPL_OK)
      return status;
    kernels[i].cubin_offset = m->cubins.length;
    kernels[i].cubin_bytes = code.cubin_bytes;
    if (code.cubin_bytes > 0)
      fpl_text_append_bytes(&m->cubins, code.cubin, code.cubin_bytes);
    fpl_kernel_free(&code);
  }
  return FPL_OK;
}

static int32_t place_of_kernel(const struct making *m, const char *sha) {
  if (!sha[0])
    return -1;
  struct fpl_snapshot_kernel key = {.name = ""};
  memcpy(key.sha, sha, sizeof key.sha);
  const struct fpl_snapshot_kernel *const first = m->kernels.items;
  const struct fpl_snapshot_kernel *const k =
      bsearch(&key, first, m->kernels.n, sizeof key, by_sha);
  return (int32_t)(k - first);
}

/* In the order of the sorted plans, so that row numbers decide nothing. */
static int32_t place_of_environment(struct making *m, int64_t id, int32_t *n) {
  struct environment *const e = m->environments.items;
  size_t i = 0;
  while (e[i].id != id)
    i++;
  if (e[i].place < 0)
    e[i].place = (*n)++;
  return e[i].place;
}

static struct fpl_problem problem_of(const struct fpl_snapshot_plan *p) {
  return (struct fpl_problem){.kind = (enum fpl_kind)p->kind,
                              .dtype = (enum fpl_dtype)p->dtype,
                              .act = (enum fpl_act)p->act,
                              .m = p->m,
                              .n = p->n,
                              .k = p->k,
                              .l = p->l,
                              .conv = {p->batch, p->ic, p->h, p->w, p->k1}};
}

static void align(struct fpl_text *text) {
  static const char zeros[FPL_SNAPSHOT_LINE];
  fpl_text_append_bytes(text, zeros,
                        (FPL_SNAPSHOT_LINE - text->length % FPL_SNAPSHOT_LINE) % FPL_SNAPSHOT_LINE);
}

static void append_texts(struct making *m, struct item *item) {
  const struct fpl_problem problem = problem_of(&item->record);
  char text[FPL_PROBLEM_TEXT], schedule[FPL_SCHEDULE_TEXT] = "";
  fpl_problem_text(&problem, text);
  if (!item->record.is_library) {
    struct fpl_schedule s;
    for (int field = 0; field < FPL_N_FIELDS; field++)
      fpl_schedule_set(&s, field, item->record.schedule[field]);
    fpl_schedule_text(&s, schedule);
  }
  const char *const texts[FPL_SNAPSHOT_TEXTS] = {item->reason, text, schedule, item->kernel};
  for (int i = 0; i < FPL_SNAPSHOT_TEXTS; i++) {
    const size_t length = strlen(texts[i]);
    item->record.text_bytes[i] = (uint16_t)length;
    fpl_text_append_bytes(&m->texts, texts[i], length + 1);
  }
}

static void place_plans(struct making *m) {
  struct item *const items = m->items.items;
  int32_t n_environments = 0;
  if (m->items.n > 0)
    qsort(items, m->items.n, sizeof *items, by_problem);
  for (size_t i = 0; i < m->items.n; i++) {
    items[i].record.kernel = place_of_kernel(m, items[i].sha);
    items[i].record.environment = place_of_environment(m, items[i].environment_id, &n_environments);
    align(&m->texts);
    items[i].record.texts_by64 = (uint32_t)(m->texts.length / FPL_SNAPSHOT_LINE);
    append_texts(m, &items[i]);
  }
}

static bool is_first_of_problem(const struct item *items, size_t i) {
  struct item a = items[i];
  if (i == 0)
    return true;
  a.rank = items[i - 1].rank;
  return by_problem(&items[i - 1], &a) != 0;
}

static struct fpl_snapshot_slot *make_slots(const struct making *m, uint64_t *out_n) {
  uint64_t n = 16;
  while (n < 2 * (uint64_t)m->items.n)
    n *= 2;
  struct fpl_snapshot_slot *const slots = calloc(n, sizeof *slots);
  const struct item *const items = m->items.items;
  for (size_t i = 0; slots && i < m->items.n; i++) {
    if (!is_first_of_problem(items, i))
      continue;
    const struct fpl_problem problem = problem_of(&items[i].record);
    uint64_t slot = fpl_snapshot_hash(&problem, items[i].record.device) & (n - 1);
    while (slots[slot].plan != 0)
      slot = (slot + 1) & (n - 1);
    slots[slot] = (struct fpl_snapshot_slot){.plan = (uint32_t)i + 1,
                                             .texts_by64 = items[i].record.texts_by64};
  }
  *out_n = n;
  return slots;
}

static void append_section(struct fpl_text *out, struct fpl_snapshot_header *header,
                           enum fpl_section section, const void *records, uint64_t n,
                           uint32_t record_bytes) {
  align(out);
  header->sections[section].offset = out->length;
  header->sections[section].n = n;
  header->sections[section].record_bytes = record_bytes;
  if (n > 0)
    fpl_text_append_bytes(out, records, n * record_bytes);
}

static void append_environments(struct making *m, struct fpl_text *out,
                                struct fpl_snapshot_header *header) {
  append_section(out, header, FPL_SECTION_ENVIRONMENTS, NULL, 0,
                 sizeof(struct fpl_snapshot_environment));
  const struct environment *const known = m->environments.items;
  for (size_t place = 0; place < m->environments.n; place++)
    for (size_t i = 0; i < m->environments.n; i++) {
      if (known[i].place != (int32_t)place)
        continue;
      struct fpl_snapshot_environment record = {.n_fields = known[i].environment.n_fields};
      memcpy(record.fields, known[i].environment.fields, sizeof record.fields);
      fpl_text_append_bytes(out, (const char *)&record, sizeof record);
      header->sections[FPL_SECTION_ENVIRONMENTS].n++;
    }
}

static void append_plans(const struct making *m, struct fpl_text *out,
                         struct fpl_snapshot_header *header) {
  const struct item *const items = m->items.items;
  append_section(out, header, FPL_SECTION_PLANS, NULL, 0, sizeof(struct fpl_snapshot_plan));
  for (size_t i = 0; i < m->items.n; i++)
    fpl_text_append_bytes(out, (const char *)&items[i].record, sizeof items[i].record);
  header->sections[FPL_SECTION_PLANS].n = m->items.n;
}

/* `out` is the caller's to free. */
static enum fpl_status assemble(struct making *m, struct fpl_text *out, struct fpl_err *err) {
  struct fpl_snapshot_header header = {.version = FPL_SNAPSHOT_VERSION,
                                       .header_bytes = sizeof header};
  memcpy(header.magic, FPL_SNAPSHOT_MAGIC, sizeof header.magic);
  uint64_t n_slots = 0;
  struct fpl_snapshot_slot *const slots = make_slots(m, &n_slots);
  fpl_text_append_bytes(out, (const char *)&header, sizeof header);
  append_section(out, &header, FPL_SECTION_DEVICES, m->devices.items, m->devices.n,
                 sizeof(struct fpl_snapshot_device));
  append_environments(m, out, &header);
  append_section(out, &header, FPL_SECTION_KERNELS, m->kernels.items, m->kernels.n,
                 sizeof(struct fpl_snapshot_kernel));
  append_plans(m, out, &header);
  if (slots)
    append_section(out, &header, FPL_SECTION_SLOTS, slots, n_slots, sizeof *slots);
  append_section(out, &header, FPL_SECTION_REGRETS, m->regrets.items, m->regrets.n,
                 sizeof(struct fpl_snapshot_regret));
  append_section(out, &header, FPL_SECTION_TEXTS, m->texts.text, m->texts.length, 1);
  append_section(out, &header, FPL_SECTION_CUBINS, m->cubins.text, m->cubins.length, 1);
  free(slots);
  if (!slots || out->is_broken || m->texts.is_broken || m->cubins.is_broken)
    return fpl_fail(err, FPL_NO_MEMORY, "out of memory");
  header.file_bytes = out->length;
  memcpy(out->text, &header, sizeof header);
  fpl_hash_bytes_hex(out->text + FPL_SNAPSHOT_DIGEST_FROM, out->length - FPL_SNAPSHOT_DIGEST_FROM,
                     header.digest);
  memcpy(out->text, &header, sizeof header);
  return FPL_OK;
}

static void free_making(struct making *m) {
  struct item *const items = m->items.items;
  for (size_t i = 0; i < m->items.n; i++)
    free(items[i].reason);
  struct array *const arrays[] = {&m->items,   &m->environments, &m->kernels,
                                  &m->devices, &m->regrets,      &m->device_keys};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
    free(arrays[i]->items);
  fpl_text_free(&m->texts);
  fpl_text_free(&m->cubins);
}

enum fpl_status fpl_snapshot_make(struct fpl_db *db, bool with_cubins, char **out_bytes,
                                  size_t *out_length, struct fpl_snapshot_counts *out,
                                  struct fpl_err *err) {
  struct fpl_text text = {0};
  *out_bytes = NULL;
  struct making m = {.db = db,
                     .items.item_bytes = sizeof(struct item),
                     .environments.item_bytes = sizeof(struct environment),
                     .kernels.item_bytes = sizeof(struct fpl_snapshot_kernel),
                     .devices.item_bytes = sizeof(struct fpl_snapshot_device),
                     .regrets.item_bytes = sizeof(struct fpl_snapshot_regret),
                     .device_keys.item_bytes = FPL_KEY_HEX};
  *out = (struct fpl_snapshot_counts){0};
  enum fpl_status status = fpl_db_run(db, FPL_QUERY_BEGIN_READ, err);
  if (status != FPL_OK)
    return status;
  status = read_devices(&m, err);
  if (status == FPL_OK)
    status = read_items(&m, err);
  if (status == FPL_OK)
    status = read_regrets(&m, err);
  if (status == FPL_OK)
    status = place_kernels(&m, with_cubins, err);
  fpl_db_run(db, FPL_QUERY_ROLLBACK, NULL);
  if (status == FPL_OK) {
    place_plans(&m);
    status = assemble(&m, &text, err);
  }
  if (status == FPL_OK)
    *out_bytes = text.text;
  else
    fpl_text_free(&text);
  *out_length = text.length;
  out->n_bytes = (int64_t)text.length;
  out->n_plans = (int64_t)m.items.n;
  out->n_kernels = (int64_t)m.kernels.n;
  free_making(&m);
  return status;
}

enum fpl_status fpl_snapshot_write(struct fpl_db *db, const char *path,
                                   struct fpl_snapshot_counts *out, struct fpl_err *err) {
  char *bytes = NULL;
  size_t length = 0;
  enum fpl_status status = fpl_snapshot_make(db, true, &bytes, &length, out, err);
  if (status == FPL_OK)
    status = fpl_file_write(path, bytes, length, err);
  free(bytes);
  return status;
}
