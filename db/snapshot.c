/* Reading a snapshot. Everything that a record says of another is checked once, when it is opened;
 * after that nothing is but the numbers that a schedule or a launch descriptor divides by. */
#define _POSIX_C_SOURCE 200809L
#include "db/snapshot.h"

#include "db/snapshot_format.h"

#include "tuner/base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct fpl_snapshot {
  const unsigned char *bytes;
  size_t length;
  bool is_mapped;
  const struct fpl_snapshot_header *header;
  const struct fpl_snapshot_device *devices;
  const struct fpl_snapshot_environment *environments;
  const struct fpl_snapshot_kernel *kernels;
  const struct fpl_snapshot_plan *plans;
  const struct fpl_snapshot_slot *slots;
  const struct fpl_snapshot_regret *regrets;
  const char *texts;
  const unsigned char *cubins;
  uint64_t n[FPL_SECTIONS];
  char name[]; /* of the file */
};

static const uint32_t record_bytes[FPL_SECTIONS] = {sizeof(struct fpl_snapshot_device),
                                                    sizeof(struct fpl_snapshot_environment),
                                                    sizeof(struct fpl_snapshot_kernel),
                                                    sizeof(struct fpl_snapshot_plan),
                                                    sizeof(struct fpl_snapshot_slot),
                                                    sizeof(struct fpl_snapshot_regret),
                                                    1,
                                                    1};

static enum fpl_status fail_damaged(const struct fpl_snapshot *s, const char *what,
                                    struct fpl_err *err) {
  return fpl_fail(err, FPL_DB_CORRUPT, "%s: damaged (%s): make it anew with 'fuseplan snapshot'",
                  s->name, what);
}

static enum fpl_status check_header(struct fpl_snapshot *s, struct fpl_err *err) {
  const struct fpl_snapshot_header *const h = s->header;
  if (s->length < sizeof *h || memcmp(h->magic, FPL_SNAPSHOT_MAGIC, sizeof h->magic) != 0)
    return fpl_fail(err, FPL_DB_SCHEMA, "%s: no snapshot: 'fuseplan snapshot' makes one", s->name);
  if (h->version != FPL_SNAPSHOT_VERSION)
    return fpl_fail(err, FPL_DB_SCHEMA,
                    "%s: snapshot format %u, this fuseplan reads %d: make it anew with 'fuseplan "
                    "snapshot'",
                    s->name, h->version, FPL_SNAPSHOT_VERSION);
  if (h->header_bytes != sizeof *h || h->file_bytes != s->length)
    return fail_damaged(s, "its length is not the one it names", err);
  static const char zero[sizeof h->zero];
  if (memcmp(h->zero, zero, sizeof zero) != 0 || h->digest[sizeof h->digest - 1] != '\0')
    return fail_damaged(s, "its header", err);
  for (int i = 0; i < FPL_SECTIONS; i++) {
    const uint64_t offset = h->sections[i].offset, n = h->sections[i].n;
    if (h->sections[i].record_bytes != record_bytes[i] || h->sections[i].zero != 0 ||
        offset % FPL_SNAPSHOT_LINE != 0 || offset > s->length ||
        n > (s->length - offset) / record_bytes[i] || n > INT32_MAX * (uint64_t)2)
      return fail_damaged(s, "a section lies outside of it", err);
    s->n[i] = n;
  }
  return FPL_OK;
}

static void place_sections(struct fpl_snapshot *s) {
  const void *at[FPL_SECTIONS];
  for (int i = 0; i < FPL_SECTIONS; i++)
    at[i] = s->bytes + s->header->sections[i].offset;
  s->devices = at[FPL_SECTION_DEVICES];
  s->environments = at[FPL_SECTION_ENVIRONMENTS];
  s->kernels = at[FPL_SECTION_KERNELS];
  s->plans = at[FPL_SECTION_PLANS];
  s->slots = at[FPL_SECTION_SLOTS];
  s->regrets = at[FPL_SECTION_REGRETS];
  s->texts = at[FPL_SECTION_TEXTS];
  s->cubins = at[FPL_SECTION_CUBINS];
}

static bool is_text(const char *text, size_t size) {
  return memchr(text, '\0', size) != NULL;
}

static bool is_kernel_sound(const struct fpl_snapshot *s, const struct fpl_snapshot_kernel *k) {
  return is_text(k->name, sizeof k->name) && is_text(k->family, sizeof k->family) &&
         is_text(k->sha, sizeof k->sha) && is_text(k->source_key, sizeof k->source_key) &&
         k->rows_per_unit >= 1 && k->units_per_row >= 1 && k->max_clusters >= 1 &&
         k->cluster >= 1 && k->block_threads >= 1 && k->smem_bytes >= 0 &&
         k->workspace_bytes_per_row_group >= 0 && k->cubin_offset <= s->n[FPL_SECTION_CUBINS] &&
         k->cubin_bytes <= s->n[FPL_SECTION_CUBINS] - k->cubin_offset;
}

static bool is_within(int64_t value, int64_t least, int64_t most) {
  return value >= least && value <= most;
}

static bool is_schedule_sound(const struct fpl_snapshot_plan *p) {
  for (int field = 0; field < FPL_N_FIELDS; field++)
    if (!is_within(p->schedule[field], fpl_schedule_fields[field].least,
                   fpl_schedule_fields[field].most))
      return false;
  return true;
}

static uint64_t texts_offset(uint32_t by64) {
  return (uint64_t)by64 * FPL_SNAPSHOT_LINE;
}

/* The texts, one behind the other, each with its NUL at its end. */
static bool are_texts_sound(const struct fpl_snapshot *s, const struct fpl_snapshot_plan *p) {
  uint64_t at = texts_offset(p->texts_by64);
  for (int i = 0; i < FPL_SNAPSHOT_TEXTS; i++) {
    const uint64_t length = p->text_bytes[i];
    if (at >= s->n[FPL_SECTION_TEXTS] || length >= s->n[FPL_SECTION_TEXTS] - at ||
        s->texts[at + length] != '\0')
      return false;
    at += length + 1;
  }
  return true;
}

static bool is_plan_sound(const struct fpl_snapshot *s, const struct fpl_snapshot_plan *p) {
  enum { MOST = INT32_MAX };
  return is_within(p->kind, 0, FPL_KIND_CONV_CHAIN) && is_within(p->dtype, 0, FPL_DTYPE_BF16) &&
         is_within(p->act, 0, FPL_ACT_SILU) && is_within(p->m, 1, MOST) &&
         is_within(p->n, 1, MOST) && is_within(p->k, 1, MOST) && is_within(p->l, 1, MOST) &&
         is_within(p->batch, 0, MOST) && is_within(p->ic, 0, MOST) && is_within(p->h, 0, MOST) &&
         is_within(p->w, 0, MOST) && is_within(p->k1, 0, MOST) &&
         is_within(p->device, 0, (int64_t)s->n[FPL_SECTION_DEVICES] - 1) &&
         is_within(p->environment, 0, (int64_t)s->n[FPL_SECTION_ENVIRONMENTS] - 1) &&
         is_within(p->kernel, -1, (int64_t)s->n[FPL_SECTION_KERNELS] - 1) &&
         is_within(p->provenance, 0, FPL_PROVENANCE_SIMULATED) && is_within(p->is_library, 0, 1) &&
         is_within(p->has_cubin, 0, p->kernel >= 0) && (p->is_library || is_schedule_sound(p)) &&
         are_texts_sound(s, p);
}

static bool are_environments_sound(const struct fpl_snapshot *s) {
  for (uint64_t i = 0; i < s->n[FPL_SECTION_ENVIRONMENTS]; i++) {
    const struct fpl_snapshot_environment *const e = &s->environments[i];
    if (!is_within(e->n_fields, 0, FPL_ENVIRONMENT_FIELDS))
      return false;
    for (int64_t field = 0; field < e->n_fields; field++)
      if (!is_text(e->fields[field].name, sizeof e->fields[field].name) ||
          !is_text(e->fields[field].value, sizeof e->fields[field].value))
        return false;
  }
  return true;
}

static enum fpl_status check_records(const struct fpl_snapshot *s, struct fpl_err *err) {
  const uint64_t *const n = s->n;
  for (uint64_t i = 0; i < n[FPL_SECTION_DEVICES]; i++)
    if (!is_text(s->devices[i].name, sizeof s->devices[i].name) ||
        !is_text(s->devices[i].title, sizeof s->devices[i].title))
      return fail_damaged(s, "a device class has no end", err);
  if (!are_environments_sound(s))
    return fail_damaged(s, "an environment", err);
  for (uint64_t i = 0; i < n[FPL_SECTION_KERNELS]; i++)
    if (!is_kernel_sound(s, &s->kernels[i]))
      return fail_damaged(s, "a kernel", err);
  for (uint64_t i = 0; i < n[FPL_SECTION_PLANS]; i++)
    if (!is_plan_sound(s, &s->plans[i]))
      return fail_damaged(s, "a plan", err);
  const uint64_t n_slots = n[FPL_SECTION_SLOTS];
  if (n_slots == 0 || (n_slots & (n_slots - 1)) != 0)
    return fail_damaged(s, "its hash table", err);
  bool has_free = false;
  for (uint64_t i = 0; i < n_slots; i++) {
    const struct fpl_snapshot_slot *const slot = &s->slots[i];
    has_free = has_free || slot->plan == 0;
    if (slot->plan > n[FPL_SECTION_PLANS] ||
        (slot->plan > 0 && s->plans[slot->plan - 1].texts_by64 != slot->texts_by64))
      return fail_damaged(s, "its hash table", err);
  }
  return has_free ? FPL_OK : fail_damaged(s, "its hash table", err);
}

static enum fpl_status open_bytes(struct fpl_snapshot *s, struct fpl_err *err) {
  s->header = (const void *)s->bytes;
  enum fpl_status status = check_header(s, err);
  if (status != FPL_OK)
    return status;
  place_sections(s);
  return check_records(s, err);
}

static struct fpl_snapshot *make(const char *name) {
  const size_t length = strlen(name);
  struct fpl_snapshot *const s = calloc(1, sizeof *s + length + 1);
  if (s)
    memcpy(s->name, name, length + 1);
  return s;
}

enum fpl_status fpl_snapshot_from_bytes(const char *name, const void *bytes, size_t length,
                                        struct fpl_snapshot **out, struct fpl_err *err) {
  *out = NULL;
  struct fpl_snapshot *const s = make(name);
  if (!s)
    return fpl_fail(err, FPL_NO_MEMORY, "%s: out of memory", name);
  s->bytes = bytes;
  s->length = length;
  const enum fpl_status status = open_bytes(s, err);
  if (status == FPL_OK)
    *out = s;
  else
    fpl_snapshot_close(s);
  return status;
}

static enum fpl_status map_file(struct fpl_snapshot *s, struct fpl_err *err) {
  const int fd = open(s->name, O_RDONLY | O_CLOEXEC);
  struct stat info;
  if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    const int reason = fd < 0 ? errno : 0;
    if (fd >= 0)
      close(fd);
    return fpl_fail(err, FPL_IO, "%s: %s", s->name,
                    reason ? strerror(reason) : "not a regular file");
  }
  s->length = (size_t)info.st_size;
  void *const bytes =
      s->length > 0 ? mmap(NULL, s->length, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
  const int reason = errno;
  close(fd);
  if (s->length == 0)
    return fpl_fail(err, FPL_DB_SCHEMA, "%s: empty: 'fuseplan snapshot' makes one", s->name);
  if (bytes == MAP_FAILED)
    return fpl_fail(err, FPL_IO, "%s: cannot be mapped: %s", s->name, strerror(reason));
  s->bytes = bytes;
  s->is_mapped = true;
  return FPL_OK;
}

enum fpl_status fpl_snapshot_open(const char *path, struct fpl_snapshot **out,
                                  struct fpl_err *err) {
  *out = NULL;
  struct fpl_snapshot *const s = make(path);
  if (!s)
    return fpl_fail(err, FPL_NO_MEMORY, "%s: out of memory", path);
  enum fpl_status status = map_file(s, err);
  if (status == FPL_OK)
    status = open_bytes(s, err);
  if (status == FPL_OK)
    *out = s;
  else
    fpl_snapshot_close(s);
  return status;
}

void fpl_snapshot_close(struct fpl_snapshot *s) {
  if (s && s->is_mapped)
    munmap((void *)(uintptr_t)s->bytes, s->length);
  free(s);
}

bool fpl_snapshot_is_one(const char *path) {
  char magic[8] = "";
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  const bool is_read = fd >= 0 && read(fd, magic, sizeof magic) == (ssize_t)sizeof magic;
  if (fd >= 0)
    close(fd);
  return is_read && memcmp(magic, FPL_SNAPSHOT_MAGIC, sizeof magic) == 0;
}

enum fpl_status fpl_snapshot_check(const struct fpl_snapshot *s, struct fpl_err *err) {
  char digest[FPL_HASH_HEX];
  fpl_hash_bytes_hex(s->bytes + FPL_SNAPSHOT_DIGEST_FROM, s->length - FPL_SNAPSHOT_DIGEST_FROM,
                     digest);
  return memcmp(digest, s->header->digest, sizeof digest) == 0
             ? FPL_OK
             : fail_damaged(s, "its digest differs", err);
}

int64_t fpl_snapshot_plans(const struct fpl_snapshot *s) {
  return (int64_t)s->n[FPL_SECTION_PLANS];
}

int64_t fpl_snapshot_devices(const struct fpl_snapshot *s) {
  return (int64_t)s->n[FPL_SECTION_DEVICES];
}

void fpl_snapshot_device_at(const struct fpl_snapshot *s, int64_t i, struct fpl_device *out) {
  const struct fpl_snapshot_device *const d = &s->devices[i];
  *out = (struct fpl_device){.capability_major = d->capability_major,
                             .capability_minor = d->capability_minor,
                             .sms = d->sms,
                             .l2_bytes = d->l2_bytes,
                             .hbm_bytes = d->hbm_bytes,
                             .sm_clock_mhz = d->sm_clock_mhz,
                             .smem_bytes_per_block = d->smem_bytes_per_block,
                             .smem_bytes_per_sm = d->smem_bytes_per_sm,
                             .registers_per_sm = d->registers_per_sm,
                             .threads_per_sm = d->threads_per_sm,
                             .max_cluster = d->max_cluster};
  memcpy(out->name, d->name, sizeof out->name);
  memcpy(out->title, d->title, sizeof out->title);
}

bool fpl_snapshot_device(const struct fpl_snapshot *s, const char *name, struct fpl_device *out) {
  for (int64_t i = 0; i < fpl_snapshot_devices(s); i++)
    if (strcmp(s->devices[i].name, name) == 0) {
      fpl_snapshot_device_at(s, i, out);
      return true;
    }
  return false;
}

/* Rounds to the same number, as fpl_device_class_text prints it? */
static bool is_near(double a, double b, double unit) {
  return a == b || round(a / unit) == round(b / unit);
}

static int64_t find_device(const struct fpl_snapshot *s, const struct fpl_device *d) {
  for (int64_t i = 0; i < fpl_snapshot_devices(s); i++) {
    const struct fpl_snapshot_device *const e = &s->devices[i];
    if (e->capability_major == d->capability_major && e->capability_minor == d->capability_minor &&
        e->sms == d->sms && is_near((double)e->l2_bytes, (double)d->l2_bytes, 1048576) &&
        is_near((double)e->hbm_bytes, (double)d->hbm_bytes, 1e9) &&
        is_near(e->sm_clock_mhz, d->sm_clock_mhz, 1))
      return i;
  }
  return -1;
}

bool fpl_snapshot_find_device(const struct fpl_snapshot *s, const struct fpl_device *d,
                              struct fpl_device *out) {
  const int64_t at = find_device(s, d);
  if (at >= 0)
    fpl_snapshot_device_at(s, at, out);
  return at >= 0;
}

static void read_problem(const struct fpl_snapshot_plan *p, struct fpl_problem *out) {
  *out = (struct fpl_problem){.kind = (enum fpl_kind)p->kind,
                              .dtype = (enum fpl_dtype)p->dtype,
                              .act = (enum fpl_act)p->act,
                              .m = p->m,
                              .n = p->n,
                              .k = p->k,
                              .l = p->l,
                              .conv = {p->batch, p->ic, p->h, p->w, p->k1}};
}

static bool is_of(const struct fpl_snapshot_plan *p, const struct fpl_problem *q, int64_t device) {
  return p->m == q->m && p->n == q->n && p->k == q->k && p->l == q->l && p->device == device &&
         p->kind == (int32_t)q->kind && p->dtype == (int32_t)q->dtype &&
         p->act == (int32_t)q->act && p->batch == q->conv.batch && p->ic == q->conv.ic &&
         p->h == q->conv.h && p->w == q->conv.w && p->k1 == q->conv.k1;
}

/* The fields of a schedule stand in a row, in the order of their list. */
static void read_schedule(const struct fpl_snapshot_plan *p, struct fpl_schedule *out) {
  memcpy(out, p->schedule, sizeof *out);
}

static bool is_deterministic(const struct fpl_snapshot_plan *p) {
  struct fpl_schedule s;
  if (p->is_library)
    return false;
  read_schedule(p, &s);
  return fpl_schedule_is_deterministic(&s);
}

static bool is_wanted(const struct fpl_snapshot_plan *p, const struct fpl_wanted *wanted) {
  return (!wanted->needs_kernel || p->has_cubin) &&
         (!wanted->is_deterministic || is_deterministic(p));
}

static void read_kernel(const struct fpl_snapshot_kernel *k, struct fpl_kernel *out) {
  memcpy(out->name, k->name, sizeof out->name);
  memcpy(out->family, k->family, sizeof out->family);
  memcpy(out->sha, k->sha, sizeof out->sha);
  memcpy(out->source_key, k->source_key, sizeof out->source_key);
  for (int i = 0; i < FPL_KERNEL_MAPS; i++)
    out->maps[i] = (struct fpl_map_recipe){.rows = k->maps[i].rows,
                                           .cols = k->maps[i].cols,
                                           .box_rows = k->maps[i].box_rows,
                                           .box_cols = k->maps[i].box_cols,
                                           .slabs = k->maps[i].slabs,
                                           .parts = k->maps[i].parts,
                                           .is_image = k->maps[i].is_image};
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

static void read_plan(const struct fpl_snapshot *s, int64_t at, bool is_brief,
                      struct fpl_plan *out) {
  const struct fpl_snapshot_plan *const p = &s->plans[at];
  out->id = at;
  read_problem(p, &out->problem);
  memcpy(out->device_name, s->devices[p->device].name, sizeof out->device_name);
  out->is_library = p->is_library != 0;
  if (p->is_library)
    out->schedule = (struct fpl_schedule){0};
  else
    read_schedule(p, &out->schedule);
  if (p->kernel >= 0 && !is_brief)
    read_kernel(&s->kernels[p->kernel], &out->kernel);
  else
    out->kernel.name[0] = out->kernel.sha[0] = '\0';
  out->kernel.cubin = NULL;
  out->kernel.cubin_bytes = 0;
  out->has_cubin = p->has_cubin != 0;
  out->m_low = p->m_low;
  out->m_high = p->m_high;
  out->provenance = (enum fpl_provenance)p->provenance;
  out->est_us = p->est_us;
  out->measured_us = p->measured_us;
  out->measured_hot_us = p->measured_hot_us;
  out->library_us = p->library_us;
  out->library_hot_us = p->library_hot_us;
  out->n_candidates = p->n_candidates;
  out->n_ok = p->n_ok;
  out->created_unix = p->created_unix;
  fpl_copy_bytes(out->reason, sizeof out->reason, s->texts + texts_offset(p->texts_by64),
                 p->text_bytes[0]);
  const struct fpl_snapshot_environment *const e = &s->environments[p->environment];
  _Static_assert(sizeof e->fields == sizeof out->environment.fields, "one layout");
  memcpy(out->environment.fields, e->fields, (size_t)e->n_fields * sizeof e->fields[0]);
  out->environment.n_fields = (int)e->n_fields;
}

void fpl_snapshot_texts(const struct fpl_snapshot *s, int64_t plan_id,
                        struct fpl_snapshot_texts *out) {
  const struct fpl_snapshot_plan *const p = &s->plans[plan_id];
  struct fpl_snapshot_text *const texts[FPL_SNAPSHOT_TEXTS] = {&out->reason, &out->problem,
                                                               &out->schedule, &out->kernel};
  const char *at = s->texts + texts_offset(p->texts_by64);
  for (int i = 0; i < FPL_SNAPSHOT_TEXTS; i++) {
    *texts[i] = (struct fpl_snapshot_text){at, p->text_bytes[i]};
    at += p->text_bytes[i] + 1;
  }
}

enum { MOST_TEXTS_BYTES = 256 }; /* of nearly all plans */

/* Asks memory for all that will be read, at once: each line would be waited for in turn. */
static void fetch_early(const void *at, size_t bytes) {
  for (size_t offset = 0; offset < bytes; offset += FPL_SNAPSHOT_LINE)
    __builtin_prefetch((const char *)at + offset);
}

static enum fpl_status find(void *self, const struct fpl_wanted *wanted, struct fpl_plan *out,
                            bool *out_found, struct fpl_err *err) {
  (void)err;
  const struct fpl_snapshot *const s = self;
  const int64_t device = find_device(s, wanted->device);
  *out_found = false;
  const uint64_t mask = s->n[FPL_SECTION_SLOTS] - 1;
  uint64_t slot = fpl_snapshot_hash(wanted->problem, device) & mask;
  for (; device >= 0 && s->slots[slot].plan != 0; slot = (slot + 1) & mask) {
    const struct fpl_snapshot_plan *const p = &s->plans[s->slots[slot].plan - 1];
    fetch_early(p, sizeof *p);
    fetch_early(s->texts + texts_offset(s->slots[slot].texts_by64), MOST_TEXTS_BYTES);
    if (is_of(p, wanted->problem, device))
      break;
  }
  if (device < 0 || s->slots[slot].plan == 0)
    return FPL_OK;
  for (uint64_t at = s->slots[slot].plan - 1;
       at < s->n[FPL_SECTION_PLANS] && is_of(&s->plans[at], wanted->problem, device); at++)
    if (is_wanted(&s->plans[at], wanted)) {
      read_plan(s, (int64_t)at, wanted->is_brief, out);
      *out_found = true;
      break;
    }
  return FPL_OK;
}

/* Plans are sorted by device class, kind, dtype, act, n: the first place not before these. */
static uint64_t first_of(const struct fpl_snapshot *s, int64_t device, const struct fpl_problem *q,
                         int64_t n) {
  uint64_t low = 0, high = s->n[FPL_SECTION_PLANS];
  const int64_t wanted[] = {device, q->kind, q->dtype, q->act, n};
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    const struct fpl_snapshot_plan *const p = &s->plans[middle];
    const int64_t there[] = {p->device, p->kind, p->dtype, p->act, p->n};
    int i = 0;
    while (i < 4 && there[i] == wanted[i])
      i++;
    if (there[i] < wanted[i])
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static enum fpl_status each_neighbour(void *self, const struct fpl_wanted *wanted,
                                      fpl_visit_neighbour *visit, void *context,
                                      struct fpl_err *err) {
  const struct fpl_snapshot *const s = self;
  const struct fpl_problem *const q = wanted->problem;
  const int64_t device = find_device(s, wanted->device);
  enum fpl_status status = FPL_OK;
  if (device < 0)
    return FPL_OK;
  for (uint64_t at = first_of(s, device, q, q->n / FPL_NEAREST_MOST);
       status == FPL_OK && at < s->n[FPL_SECTION_PLANS]; at++) {
    const struct fpl_snapshot_plan *const p = &s->plans[at];
    if (p->device != device || p->kind != (int32_t)q->kind || p->dtype != (int32_t)q->dtype ||
        p->act != (int32_t)q->act || p->n > q->n * FPL_NEAREST_MOST)
      break;
    if (p->k1 != q->conv.k1 || !is_wanted(p, wanted))
      continue;
    char text[FPL_SCHEDULE_TEXT] = "";
    struct fpl_schedule schedule;
    struct fpl_neighbour neighbour = {.plan_id = (int64_t)at,
                                      .provenance = (enum fpl_provenance)p->provenance,
                                      .is_library = p->is_library != 0,
                                      .is_deterministic = is_deterministic(p),
                                      .has_cubin = p->has_cubin != 0,
                                      .schedule = text,
                                      .est_us = p->est_us,
                                      .measured_us = p->measured_us,
                                      .library_us = p->library_us,
                                      .created_unix = p->created_unix,
                                      .m_low = p->m_low,
                                      .m_high = p->m_high};
    read_problem(p, &neighbour.problem);
    if (!p->is_library) {
      read_schedule(p, &schedule);
      fpl_schedule_text(&schedule, text);
    }
    status = visit(context, &neighbour, err);
  }
  return status;
}

static enum fpl_status read_by_place(void *self, int64_t plan_id, struct fpl_plan *out,
                                     struct fpl_err *err) {
  const struct fpl_snapshot *const s = self;
  if (!is_within(plan_id, 0, fpl_snapshot_plans(s) - 1))
    return fpl_fail(err, FPL_USAGE, "%s: no plan %lld", s->name, (long long)plan_id);
  read_plan(s, plan_id, false, out);
  return FPL_OK;
}

static enum fpl_status find_regret(void *self, const struct fpl_wanted *wanted, int regret_class,
                                   struct fpl_regret *out, struct fpl_err *err) {
  (void)err;
  const struct fpl_snapshot *const s = self;
  const int64_t device = find_device(s, wanted->device);
  *out = (struct fpl_regret){0};
  for (uint64_t i = 0; i < s->n[FPL_SECTION_REGRETS]; i++) {
    const struct fpl_snapshot_regret *const r = &s->regrets[i];
    if (r->device == device && r->kind == (int32_t)wanted->problem->kind &&
        r->distance_class == regret_class)
      *out = (struct fpl_regret){r->n, r->low, r->expected, r->high};
  }
  return FPL_OK;
}

struct fpl_source fpl_snapshot_source(struct fpl_snapshot *snapshot) {
  return (struct fpl_source){.self = snapshot,
                             .find = find,
                             .each_neighbour = each_neighbour,
                             .read = read_by_place,
                             .regret = find_regret};
}

enum fpl_status fpl_snapshot_load_cubin(const struct fpl_snapshot *s, struct fpl_kernel *kernel,
                                        struct fpl_err *err) {
  for (uint64_t i = 0; i < s->n[FPL_SECTION_KERNELS]; i++) {
    const struct fpl_snapshot_kernel *const k = &s->kernels[i];
    if (k->cubin_bytes == 0 || strcmp(k->sha, kernel->sha) != 0)
      continue;
    char sha[FPL_HASH_HEX];
    fpl_hash_bytes_hex(s->cubins + k->cubin_offset, k->cubin_bytes, sha);
    if (strcmp(sha, k->sha) != 0)
      return fail_damaged(s, "a kernel's machine code", err);
    kernel->cubin = malloc(k->cubin_bytes);
    if (!kernel->cubin)
      return fpl_fail(err, FPL_NO_MEMORY, "%s: out of memory", s->name);
    memcpy(kernel->cubin, s->cubins + k->cubin_offset, k->cubin_bytes);
    kernel->cubin_bytes = k->cubin_bytes;
    return FPL_OK;
  }
  return FPL_OK;
}
