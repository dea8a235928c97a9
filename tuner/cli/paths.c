#define _POSIX_C_SOURCE 200809L
#include "tuner/cli/paths.h"

#include "tuner/base/str.h"
#include "tuner/base/sys.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static char *joined(struct fpl_arena *arena, const char *a, const char *b) {
  const size_t a_length = strlen(a), b_length = strlen(b);
  char *const out = fpl_arena_alloc(arena, a_length + b_length + 1);
  if (out) {
    memcpy(out, a, a_length);
    memcpy(out + a_length, b, b_length + 1);
  }
  return out;
}

/* $variable, or $home_variable/..., or "". */
static const char *from_environment(struct fpl_arena *arena, const char *own, const char *xdg,
                                    const char *below_home, const char *rest) {
  const char *const mine = getenv(own);
  if (mine)
    return fpl_arena_copy(arena, mine, strlen(mine));
  const char *const base = getenv(xdg);
  if (base && base[0] == '/')
    return joined(arena, base, rest);
  const char *const home = getenv("HOME");
  if (!home || home[0] != '/')
    return "";
  const char *const below = joined(arena, home, below_home);
  return below ? joined(arena, below, rest) : NULL;
}

/* The folder above the program's: build/fuseplan -> the repository, bin/fuseplan -> the prefix. */
static const char *find_profiles(struct fpl_arena *arena, const char *self) {
  const char *const mine = getenv("FUSEPLAN_PROFILES");
  if (mine)
    return fpl_arena_copy(arena, mine, strlen(mine));
  char *const root = fpl_arena_copy(arena, self, strlen(self));
  if (!root)
    return NULL;
  for (int level = 0; level < 3; level++) {
    char *const slash = strrchr(root, '/');
    if (!slash)
      break;
    *slash = '\0';
    static const char *const places[] = {"/profiles", "/share/fuseplan/profiles"};
    for (size_t i = 0; i < 2; i++) {
      const char *const path = joined(arena, root, places[i]);
      const char *const devices = path ? joined(arena, path, "/devices") : NULL;
      if (devices && fpl_path_exists(devices))
        return path;
    }
  }
  return "profiles";
}

/* build/fuseplan -> build/plans.db, bin/fuseplan -> share/fuseplan/plans.db. */
static const char *find_system_database(struct fpl_arena *arena, const char *self) {
  const char *const mine = getenv("FUSEPLAN_SYSTEM_DB");
  if (mine)
    return fpl_arena_copy(arena, mine, strlen(mine));
  const char *const slash = strrchr(self, '/');
  const char *const folder = fpl_arena_copy(arena, self, slash ? (size_t)(slash - self) : 0);
  static const char *const places[] = {"/plans.db", "/../share/fuseplan/plans.db"};
  for (size_t i = 0; folder && i < 2; i++) {
    const char *const path = joined(arena, folder, places[i]);
    if (path && fpl_path_exists(path))
      return path;
  }
  return "";
}

enum fpl_status fpl_paths_find(struct fpl_arena *arena, struct fpl_paths *out,
                               struct fpl_err *err) {
  char *self = NULL;
  const enum fpl_status status = fpl_self_path(arena, &self, err);
  if (status != FPL_OK)
    return status;
  out->self = self;
  out->database = from_environment(arena, "FUSEPLAN_DB", "XDG_DATA_HOME", "/.local/share",
                                   "/fuseplan/plans.db");
  out->cache = from_environment(arena, "FUSEPLAN_CACHE", "XDG_CACHE_HOME", "/.cache", "/fuseplan");
  out->system_database = find_system_database(arena, self);
  out->profiles = find_profiles(arena, self);
  if (!out->database || !out->system_database || !out->cache || !out->profiles)
    return fpl_fail(err, FPL_NO_MEMORY, "out of memory");
  if (out->cache[0] == '\0')
    out->cache = "/tmp/fuseplan-cache";
  return FPL_OK;
}

static enum fpl_status read_profile(struct fpl_arena *arena, const char *path,
                                    struct fpl_device *out, struct fpl_err *err) {
  struct fpl_yaml *root = NULL;
  const enum fpl_status status = fpl_yaml_read(arena, path, &root, err);
  return status == FPL_OK ? fpl_device_from_yaml(root, out, err) : status;
}

static bool ends_with(const char *text, const char *end) {
  const size_t length = strlen(text), end_length = strlen(end);
  return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Names of the device profiles, sorted. */
static enum fpl_status list_devices(struct fpl_arena *arena, const struct fpl_paths *paths,
                                    const char ***out, size_t *n_out, struct fpl_err *err) {
  enum { MOST = 256 };
  const char *const folder = joined(arena, paths->profiles, "/devices");
  const char **const names = fpl_arena_alloc(arena, MOST * sizeof *names);
  if (!folder || !names)
    return fpl_fail(err, FPL_NO_MEMORY, "out of memory");
  DIR *const dir = opendir(folder);
  if (!dir)
    return fpl_fail(err, FPL_IO, "%s: no device profiles: set FUSEPLAN_PROFILES", folder);
  size_t n = 0;
  for (const struct dirent *entry; n < MOST && (entry = readdir(dir));)
    if (ends_with(entry->d_name, ".yaml"))
      names[n++] = fpl_arena_copy(arena, entry->d_name, strlen(entry->d_name) - strlen(".yaml"));
  closedir(dir);
  qsort(names, n, sizeof *names, by_name);
  *out = names;
  *n_out = n;
  return FPL_OK;
}

static const char *profile_path(struct fpl_arena *arena, const struct fpl_paths *paths,
                                const char *name) {
  const char *const folder = joined(arena, paths->profiles, "/devices/");
  const char *const stem = folder ? joined(arena, folder, name) : NULL;
  return stem ? joined(arena, stem, ".yaml") : NULL;
}

enum fpl_status fpl_paths_device(struct fpl_arena *arena, const struct fpl_paths *paths,
                                 const char *name, struct fpl_device *out, struct fpl_err *err) {
  if (ends_with(name, ".yaml"))
    return read_profile(arena, name, out, err);
  const char *const path = profile_path(arena, paths, name);
  if (!path)
    return fpl_fail(err, FPL_NO_MEMORY, "out of memory");
  if (!strchr(name, '/') && fpl_path_exists(path))
    return read_profile(arena, path, out, err);
  const char **names = NULL;
  size_t n = 0;
  const enum fpl_status status = list_devices(arena, paths, &names, &n, err);
  if (status != FPL_OK)
    return status;
  struct fpl_text list = {0};
  for (size_t i = 0; i < n; i++)
    fpl_text_append(&list, "%s%s", i ? ", " : "", names[i]);
  fpl_fail(err, FPL_USAGE, "no device profile '%s': there are %s", name,
           list.text ? list.text : "none");
  fpl_text_free(&list);
  return FPL_USAGE;
}

enum fpl_status fpl_paths_each_device(struct fpl_arena *arena, const struct fpl_paths *paths,
                                      bool (*visit)(void *context, const struct fpl_device *d),
                                      void *context, struct fpl_err *err) {
  const char **names = NULL;
  size_t n = 0;
  enum fpl_status status = list_devices(arena, paths, &names, &n, err);
  for (size_t i = 0; status == FPL_OK && i < n; i++) {
    const char *const path = profile_path(arena, paths, names[i]);
    struct fpl_device d;
    if (path && read_profile(arena, path, &d, err) == FPL_OK && !visit(context, &d))
      break;
  }
  return status;
}

enum fpl_status fpl_paths_make_parent(struct fpl_arena *arena, const char *file,
                                      struct fpl_err *err) {
  const char *const slash = strrchr(file, '/');
  if (!slash || slash == file)
    return FPL_OK;
  const char *const folder = fpl_arena_copy(arena, file, (size_t)(slash - file));
  return folder ? fpl_dir_make(folder, err) : fpl_fail(err, FPL_NO_MEMORY, "out of memory");
}
