/* Decides which stored device class a name or a GPU is. */
#include "tuner/launch/resident.h"
#include "tuner/lib/arguments.h"
#include "tuner/lib/store.h"

#include <math.h>
#include <string.h>

/* The class that is looked for: by name, or by what the driver says of a GPU. */
struct wanted {
  const char *name; /* NULL: the GPU */
  struct fpl_context gpu;
  struct fpl_device best;
  double distance; /* of the memory sizes, relative; 1 while none was found */
};

/* A profile states a card's memory as sold, the driver what is left of it. */
static const double most_distance = 0.1;

static double distance_of(const struct wanted *wanted, const struct fpl_device *d) {
  const struct fpl_context *const gpu = &wanted->gpu;
  if (wanted->name)
    return strcmp(wanted->name, d->name) == 0 ? 0 : 1;
  if (d->capability_major != gpu->capability_major ||
      d->capability_minor != gpu->capability_minor || d->sms != gpu->sms ||
      d->l2_bytes >> 20 != gpu->l2_bytes >> 20)
    return 1;
  return fabs((double)d->hbm_bytes - (double)gpu->memory_bytes) / (double)(gpu->memory_bytes + 1);
}

/* The first of equals stays. */
static void consider(struct wanted *wanted, const struct fpl_device *device) {
  const double distance = distance_of(wanted, device);
  if (distance < wanted->distance && distance <= most_distance) {
    wanted->distance = distance;
    wanted->best = *device;
  }
}

/* False: no layer has it. */
static bool find_class(const struct fuseplan_store *store, struct wanted *wanted,
                       struct fuseplan_device *out) {
  wanted->distance = 1;
  for (int i = 0; i < store->n_layers && wanted->distance == 1; i++) {
    const struct fpl_snapshot *const snapshot = store->layers[i].snapshot;
    for (int64_t at = 0; at < fpl_snapshot_devices(snapshot); at++) {
      struct fpl_device device;
      fpl_snapshot_device_at(snapshot, at, &device);
      consider(wanted, &device);
    }
  }
  if (wanted->distance == 1)
    return false;
  const struct fpl_device *const d = &wanted->best;
  *out = (struct fuseplan_device){.size = out->size,
                                  .capability_major = (int32_t)d->capability_major,
                                  .capability_minor = (int32_t)d->capability_minor,
                                  .sms = d->sms,
                                  .l2_bytes = d->l2_bytes,
                                  .hbm_bytes = d->hbm_bytes,
                                  .sm_clock_mhz = d->sm_clock_mhz,
                                  .driver = wanted->gpu.driver_version};
  return true;
}

static enum fpl_status check(const struct fuseplan_store *store, const struct fuseplan_device *out,
                             struct fpl_err *err) {
  if (!store)
    return fpl_fail(err, FPL_USAGE, "store is NULL");
  return fpl_argument_struct(out, sizeof *out, "out", err);
}

int fuseplan_device_named(fuseplan_store *store, const char *name, struct fuseplan_device *out,
                          struct fuseplan_message *message) {
  struct fpl_err err = {0};
  enum fpl_status status = check(store, out, &err);
  if (status == FPL_OK && !name)
    status = fpl_fail(&err, FPL_USAGE, "name is NULL");
  if (status != FPL_OK)
    return fpl_report(status, &err, message);
  struct wanted wanted = {.name = name};
  if (!find_class(store, &wanted, out))
    status = fpl_fail(&err, fpl_no_plan(),
                      "no device class is stored as '%s': tune for it, or import its plans", name);
  return fpl_report(status, &err, message);
}

static enum fpl_status ask_driver(struct fuseplan_store *store, struct fpl_context *out,
                                  struct fpl_err *err) {
  struct fpl_failure failure = {0};
  pthread_mutex_lock(&store->lock);
  enum fpl_status status = fpl_store_driver(store, err);
  pthread_mutex_unlock(&store->lock);
  if (status == FPL_OK && !fpl_context_current(store->driver, out, &failure))
    status = fpl_fail(err, FPL_DEVICE, "%s", failure.reason);
  return status;
}

int fuseplan_device_current(fuseplan_store *store, struct fuseplan_device *out,
                            struct fuseplan_message *message) {
  struct fpl_err err = {0};
  struct wanted wanted = {0};
  enum fpl_status status = check(store, out, &err);
  if (status == FPL_OK)
    status = ask_driver(store, &wanted.gpu, &err);
  if (status != FPL_OK)
    return fpl_report(status, &err, message);
  if (!find_class(store, &wanted, out))
    status = fpl_fail(
        &err, fpl_no_plan(),
        "no stored device class is this GPU (sm_%lld%lld, %lld SMs, %lld MiB of L2, %lld MiB "
        "of memory): tune on it, or import its plans",
        (long long)wanted.gpu.capability_major, (long long)wanted.gpu.capability_minor,
        (long long)wanted.gpu.sms, (long long)(wanted.gpu.l2_bytes >> 20),
        (long long)(wanted.gpu.memory_bytes >> 20));
  return fpl_report(status, &err, message);
}
