#include "tuner/cli/autodevice.h"

#include "tuner/base/sys.h"

#include <math.h>
#include <string.h>

enum { PROBE_TIMEOUT_US = 60000000 };

enum fpl_status fpl_probe_ask(const struct fpl_paths *paths, json_t **out, struct fpl_err *err) {
  const char *const argv[] = {paths->self, "probe", NULL};
  struct fpl_child child = {0};
  struct fpl_arena arena = {0};
  char *text = NULL;
  size_t length = 0;
  enum fpl_status status = fpl_child_start(argv, FPL_STDERR_DISCARDED, &child, err);
  if (status == FPL_OK)
    status = fpl_pipe_read(child.from_child, PROBE_TIMEOUT_US, &arena, &text, &length, err);
  fpl_child_kill(&child);
  if (status != FPL_OK) {
    fpl_err_prefix(err, "asking the driver");
    fpl_arena_free(&arena);
    return status;
  }
  *out = json_loadb(text, length, 0, NULL);
  fpl_arena_free(&arena);
  return *out ? FPL_OK : fpl_fail(err, FPL_INTERNAL, "the probe's answer is no JSON");
}

struct match {
  int64_t capability_major, capability_minor, sms, smem_bytes_per_block, hbm_bytes;
  struct fpl_device best;
  double distance; /* of the memory sizes, relative; 1 while none matched */
};

static bool consider(void *context, const struct fpl_device *d) {
  struct match *const m = context;
  const double distance =
      fabs((double)d->hbm_bytes - (double)m->hbm_bytes) / (double)(m->hbm_bytes + 1);
  if (d->capability_major == m->capability_major && d->capability_minor == m->capability_minor &&
      d->sms == m->sms && d->smem_bytes_per_block == m->smem_bytes_per_block &&
      distance < m->distance) {
    m->best = *d;
    m->distance = distance;
  }
  return true;
}

static int64_t integer(const json_t *object, const char *key) {
  return json_integer_value(json_object_get(object, key));
}

enum fpl_status fpl_auto_device(struct fpl_arena *arena, const struct fpl_paths *paths,
                                struct fpl_device *out, struct fpl_environment *environment,
                                struct fpl_err *err) {
  json_t *probe = NULL;
  enum fpl_status status = fpl_probe_ask(paths, &probe, err);
  if (status != FPL_OK)
    return status;
  const json_t *const gpu = json_array_get(json_object_get(probe, "devices"), 0);
  if (!gpu) {
    const char *const driver = json_string_value(json_object_get(probe, "driver"));
    status = fpl_fail(err, FPL_DEVICE, "no GPU (%s): name a profile with --device", driver);
  } else {
    struct match m = {.capability_major = integer(gpu, "capability_major"),
                      .capability_minor = integer(gpu, "capability_minor"),
                      .sms = integer(gpu, "sms"),
                      .smem_bytes_per_block = integer(gpu, "smem_bytes_per_block"),
                      .hbm_bytes = integer(gpu, "hbm_bytes"),
                      .distance = 1};
    status = fpl_paths_each_device(arena, paths, consider, &m, err);
    if (status == FPL_OK && m.distance > 0.1)
      status = fpl_fail(err, FPL_DEVICE, "no profile fits '%s' (%lld SMs): add one to %s/devices",
                        json_string_value(json_object_get(gpu, "name")), (long long)m.sms,
                        paths->profiles);
    *out = m.best;
    const char *const driver = json_string_value(json_object_get(probe, "driver"));
    if (environment && driver)
      fpl_environment_set(environment, "driver", driver);
  }
  json_decref(probe);
  return status;
}
