/* Device profiles, driven by two tables: single numbers, and numbers for each cluster size. A unit
 * is accepted only for the kind of quantity it measures, so that 4.5 TB/s can never be read as 4.5
 * bytes a microsecond. Only what is impossible is refused; whether a number is true is the
 * source's business. */
#include "tuner/core/device.h"

#include "tuner/base/str.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum quantity {
  COUNT,
  BYTES,
  RATE,    /* of the whole chip, bytes/us */
  SM_RATE, /* of one SM, bytes/us */
  TIME,    /* us */
  CLOCK,   /* MHz */
  FLOPS    /* operations/us */
};

/* How a unit depends on the chip. */
enum scale { PLAIN, PER_CLOCK, CLOCKS, PER_CLOCK_AND_SM };

static const struct {
  const char *name;
  enum quantity quantity;
  enum scale scale;
  double factor;
} units[] = {
    {"count", COUNT, PLAIN, 1},
    {"B", BYTES, PLAIN, 1},
    {"KiB", BYTES, PLAIN, 1024},
    {"MiB", BYTES, PLAIN, 1048576},
    {"GiB", BYTES, PLAIN, 1073741824},
    {"GB", BYTES, PLAIN, 1e9},
    {"TB/s", RATE, PLAIN, 1e6},
    {"GB/s", RATE, PLAIN, 1e3},
    {"B/clk/SM", RATE, PER_CLOCK_AND_SM, 1},
    {"GB/s", SM_RATE, PLAIN, 1e3},
    {"B/clk", SM_RATE, PER_CLOCK, 1},
    {"us", TIME, PLAIN, 1},
    {"ns", TIME, PLAIN, 1e-3},
    {"clk", TIME, CLOCKS, 1},
    {"MHz", CLOCK, PLAIN, 1},
    {"TFLOP/s", FLOPS, PLAIN, 1e6},
};
enum { N_UNITS = sizeof units / sizeof *units };

struct field {
  const char *key;
  enum quantity quantity;
  size_t offset;      /* in struct fpl_device; int64_t for counts and bytes, else double */
  double least, most; /* in the unit of struct fpl_device: what no GPU can be */
};

/* sm_clock and sms first: the units B/clk/SM, B/clk and clk need them. */
static const struct field fields[] = {
    {"sms", COUNT, offsetof(struct fpl_device, sms), 1, 4096},
    {"sm_clock", CLOCK, offsetof(struct fpl_device, sm_clock_mhz), 1, 1e5},
    {"capability_major", COUNT, offsetof(struct fpl_device, capability_major), 1, 99},
    {"capability_minor", COUNT, offsetof(struct fpl_device, capability_minor), 0, 9},
    {"l2", BYTES, offsetof(struct fpl_device, l2_bytes), 1, 1e12},
    {"hbm", BYTES, offsetof(struct fpl_device, hbm_bytes), 1, 1e15},
    {"smem_per_block", BYTES, offsetof(struct fpl_device, smem_bytes_per_block), 1, 1e9},
    {"smem_per_sm", BYTES, offsetof(struct fpl_device, smem_bytes_per_sm), 1, 1e9},
    {"registers_per_sm", COUNT, offsetof(struct fpl_device, registers_per_sm), 1, 1e9},
    {"threads_per_sm", COUNT, offsetof(struct fpl_device, threads_per_sm), 32, 1e6},
    {"max_cluster", COUNT, offsetof(struct fpl_device, max_cluster), 1, 16},
    {"hbm_rate", RATE, offsetof(struct fpl_device, hbm_bytes_per_us), 1, 1e12},
    {"l2_disjoint_rate", RATE, offsetof(struct fpl_device, l2_disjoint_bytes_per_us), 1, 1e12},
    {"l2_shared_rate", RATE, offsetof(struct fpl_device, l2_shared_bytes_per_us), 1, 1e12},
    {"l2_reduce_rate", RATE, offsetof(struct fpl_device, l2_reduce_bytes_per_us), 1, 1e12},
    {"smem_rate", RATE, offsetof(struct fpl_device, smem_bytes_per_us), 1, 1e12},
    {"register_rate", RATE, offsetof(struct fpl_device, register_bytes_per_us), 1, 1e12},
    {"sm_ingress_rate", SM_RATE, offsetof(struct fpl_device, sm_ingress_bytes_per_us), 1, 1e12},
    {"tensor_rate", FLOPS, offsetof(struct fpl_device, tensor_flops_per_us), 1, 1e15},
    {"launch", TIME, offsetof(struct fpl_device, launch_us), 0, 1e6},
    {"cluster_launch", TIME, offsetof(struct fpl_device, cluster_launch_us), 0, 1e6},
    {"fill", TIME, offsetof(struct fpl_device, fill_us), 0, 1e6},
    {"tail", TIME, offsetof(struct fpl_device, tail_us), 0, 1e6},
    {"grid_barrier", TIME, offsetof(struct fpl_device, grid_barrier_us), 0, 1e6},
    {"dsm_latency", TIME, offsetof(struct fpl_device, dsm_latency_us), 0, 1e6},
    {"copy_issue", TIME, offsetof(struct fpl_device, copy_issue_us), 0, 1e6},
};
enum { N_FIELDS = sizeof fields / sizeof *fields };

static const struct {
  struct field field;
  int first; /* index of the smallest cluster size that has a value */
} tables[] = {
    {{"active_sms", COUNT, offsetof(struct fpl_device, active_sms), 1, 4096}, 0},
    {{"dsm_rate", RATE, offsetof(struct fpl_device, dsm_bytes_per_us), 1, 1e12}, 1},
    {{"cluster_barrier", TIME, offsetof(struct fpl_device, cluster_barrier_us), 0, 1e6}, 1},
};
enum { N_TABLES = sizeof tables / sizeof *tables };

static const char *const cluster_keys[FPL_CLUSTER_SIZES] = {"1", "2", "4", "8", "16"};

static double scaled(const struct fpl_device *d, enum scale scale) {
  if (scale == PER_CLOCK)
    return d->sm_clock_mhz; /* MHz: clocks in a microsecond */
  if (scale == PER_CLOCK_AND_SM)
    return d->sm_clock_mhz * (double)d->sms;
  return scale == CLOCKS ? 1 / d->sm_clock_mhz : 1;
}

static enum fpl_status read_unit(const struct fpl_yaml *map, const struct field *field,
                                 const struct fpl_device *d, double *out, struct fpl_err *err) {
  const char *name = NULL;
  const enum fpl_status status = fpl_yaml_get_text(map, "unit", NULL, &name, err);
  if (status != FPL_OK)
    return status;
  char allowed[96] = "";
  for (size_t i = 0, used = 0; i < N_UNITS && used < sizeof allowed; i++) {
    if (units[i].quantity != field->quantity)
      continue;
    if (strcmp(units[i].name, name) == 0) {
      *out = units[i].factor * scaled(d, units[i].scale);
      return FPL_OK;
    }
    used += (size_t)snprintf(allowed + used, sizeof allowed - used, "%s%s", used ? ", " : "",
                             units[i].name);
  }
  return fpl_yaml_fail(fpl_yaml_find(map, "unit"), err, "unit '%.20s' does not fit %s: use %s",
                       name, field->key, allowed);
}

static enum fpl_status check_source(const struct fpl_yaml *map, struct fpl_err *err) {
  const char *source = NULL;
  const enum fpl_status status = fpl_yaml_get_text(map, "source", NULL, &source, err);
  if (status != FPL_OK)
    return status;
  if (source[strspn(source, " \r\n")] != '\0')
    return FPL_OK;
  return fpl_yaml_fail(fpl_yaml_find(map, "source"), err,
                       "source is empty: say where the number comes from");
}

/* One number under `key`, converted, checked, and stored as element `index` of the field. */
static enum fpl_status store_number(const struct fpl_yaml *map, const char *key,
                                    const struct field *field, double factor, size_t index,
                                    struct fpl_device *d, struct fpl_err *err) {
  const bool is_integer = field->quantity == COUNT || field->quantity == BYTES;
  double value = 0;
  int64_t whole = 0;
  enum fpl_status status;
  if (is_integer) {
    status = fpl_yaml_get_i64(map, key, 0, INT64_C(1) << 53, NULL, &whole, err);
    value = (double)whole;
  } else {
    status = fpl_yaml_get_f64(map, key, 0, 1e300, NULL, &value, err);
  }
  if (status != FPL_OK)
    return status;
  value *= factor;
  if (!(value >= field->least && value <= field->most))
    return fpl_yaml_fail(fpl_yaml_find(map, key), err,
                         "%s is out of range: in base units it must lie between %g and %g",
                         field->key, field->least, field->most);
  whole = is_integer ? (int64_t)value : 0;
  const size_t bytes = is_integer ? sizeof whole : sizeof value;
  memcpy((char *)d + field->offset + index * bytes, is_integer ? (void *)&whole : (void *)&value,
         bytes);
  return FPL_OK;
}

/* {value: 132, unit: count, source: "..."} */
static enum fpl_status read_number(const struct fpl_yaml *root, const struct field *field,
                                   struct fpl_device *d, struct fpl_err *err) {
  static const char *const keys[] = {"value", "unit", "source", NULL};
  const struct fpl_yaml *const map = fpl_yaml_find(root, field->key);
  if (!map)
    return fpl_yaml_fail(root, err, "key '%s' is missing: add {value, unit, source}", field->key);
  double factor = 0;
  enum fpl_status status = fpl_yaml_only_keys(map, keys, err);
  if (status == FPL_OK)
    status = check_source(map, err);
  if (status == FPL_OK)
    status = read_unit(map, field, d, &factor, err);
  return status == FPL_OK ? store_number(map, "value", field, factor, 0, d, err) : status;
}

/* {1: 132, 2: 132, ..., unit: count, source: "..."}; sizes below `first` stay 0. */
static enum fpl_status read_table(const struct fpl_yaml *root, const struct field *field, int first,
                                  struct fpl_device *d, struct fpl_err *err) {
  const struct fpl_yaml *const map = fpl_yaml_find(root, field->key);
  if (!map)
    return fpl_yaml_fail(root, err, "key '%s' is missing: add {%s .. 16, unit, source}", field->key,
                         cluster_keys[first]);
  const char *keys[FPL_CLUSTER_SIZES + 3] = {"unit", "source"};
  for (int i = first; i < FPL_CLUSTER_SIZES; i++)
    keys[2 + i - first] = cluster_keys[i];
  double factor = 0;
  enum fpl_status status = fpl_yaml_only_keys(map, keys, err);
  if (status == FPL_OK)
    status = check_source(map, err);
  if (status == FPL_OK)
    status = read_unit(map, field, d, &factor, err);
  for (int i = first; i < FPL_CLUSTER_SIZES && status == FPL_OK; i++)
    status = store_number(map, cluster_keys[i], field, factor, (size_t)i, d, err);
  return status;
}

/* The profile's name is a word of the command line; the title is for people. */
static enum fpl_status read_names(const struct fpl_yaml *root, struct fpl_device *d,
                                  struct fpl_err *err) {
  const char *name = NULL, *title = NULL;
  enum fpl_status status = fpl_yaml_get_text(root, "name", NULL, &name, err);
  if (status == FPL_OK)
    status = fpl_yaml_get_text(root, "title", NULL, &title, err);
  if (status != FPL_OK)
    return status;
  if (!*name || strlen(name) >= sizeof d->name ||
      strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(name))
    return fpl_yaml_fail(fpl_yaml_find(root, "name"), err,
                         "name '%.40s' is not usable: at most %zu of a-z, 0-9 and _", name,
                         sizeof d->name - 1);
  if (!*title || strlen(title) >= sizeof d->title || strpbrk(title, "\r\n"))
    return fpl_yaml_fail(fpl_yaml_find(root, "title"), err,
                         "title is not usable: one line of at most %zu bytes", sizeof d->title - 1);
  strcpy(d->name, name);
  strcpy(d->title, title);
  return FPL_OK;
}

/* What single ranges cannot see. */
static enum fpl_status check_together(const struct fpl_yaml *root, const struct fpl_device *d,
                                      struct fpl_err *err) {
  if ((d->max_cluster & (d->max_cluster - 1)) != 0)
    return fpl_yaml_fail(fpl_yaml_find(root, "max_cluster"), err,
                         "max_cluster is %lld: it must be 1, 2, 4, 8 or 16",
                         (long long)d->max_cluster);
  if (d->smem_bytes_per_block > d->smem_bytes_per_sm)
    return fpl_yaml_fail(fpl_yaml_find(root, "smem_per_block"), err,
                         "smem_per_block is more than smem_per_sm: correct one of them");
  for (int i = 0; i < FPL_CLUSTER_SIZES; i++) {
    const int64_t active = d->active_sms[i];
    if (active > d->sms || active % (INT64_C(1) << i) != 0)
      return fpl_yaml_fail(fpl_yaml_find(root, "active_sms"), err,
                           "active_sms of cluster size %d is %lld: it must be a multiple of the "
                           "size, at most %lld",
                           1 << i, (long long)active, (long long)d->sms);
  }
  return FPL_OK;
}

static enum fpl_status check_header(const struct fpl_yaml *root, struct fpl_err *err) {
  const char *keys[N_FIELDS + N_TABLES + 4] = {"schema_version", "name", "title"};
  for (size_t i = 0; i < N_FIELDS; i++)
    keys[3 + i] = fields[i].key;
  for (size_t i = 0; i < N_TABLES; i++)
    keys[3 + N_FIELDS + i] = tables[i].field.key;
  int64_t version = 0;
  enum fpl_status status = fpl_yaml_only_keys(root, keys, err);
  if (status == FPL_OK)
    status = fpl_yaml_get_i64(root, "schema_version", 1, 1, NULL, &version, err);
  return status;
}

enum fpl_status fpl_device_from_yaml(const struct fpl_yaml *root, struct fpl_device *out,
                                     struct fpl_err *err) {
  struct fpl_device d = {0};
  enum fpl_status status = check_header(root, err);
  if (status == FPL_OK)
    status = read_names(root, &d, err);
  for (size_t i = 0; i < N_FIELDS && status == FPL_OK; i++)
    status = read_number(root, &fields[i], &d, err);
  for (size_t i = 0; i < N_TABLES && status == FPL_OK; i++)
    status = read_table(root, &tables[i].field, tables[i].first, &d, err);
  if (status == FPL_OK)
    status = check_together(root, &d, err);
  if (status == FPL_OK)
    *out = d;
  return status;
}

void fpl_device_class_text(const struct fpl_device *d, char out[FPL_DEVICE_CLASS_TEXT]) {
  snprintf(out, FPL_DEVICE_CLASS_TEXT, "sm_%lld%lld sms=%lld l2=%.0fMiB hbm=%.0fGB clock=%.0fMHz",
           (long long)d->capability_major, (long long)d->capability_minor, (long long)d->sms,
           round((double)d->l2_bytes / 1048576), round((double)d->hbm_bytes / 1e9),
           round(d->sm_clock_mhz));
}

void fpl_device_class_key(const struct fpl_device *d, char out[FPL_KEY_HEX]) {
  char text[FPL_DEVICE_CLASS_TEXT];
  fpl_device_class_text(d, text);
  fpl_hash_key(text, out);
}
