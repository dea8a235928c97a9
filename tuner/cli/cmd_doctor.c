/* fuseplan doctor: what was found, what works, and what to do about the rest. */
#include "codegen/nvrtc.h"
#include "db/db.h"
#include "tuner/base/sys.h"
#include "tuner/cli/autodevice.h"
#include "tuner/cli/cli.h"

#include <stdio.h>
#include <string.h>

static const struct fpl_command command = {
    .verb = "doctor",
    .arguments = "",
    .summary = "Says what this machine has for planning, compiling, measuring and storing.\n"
               "Exit 0: all of it works; 1: planning and lookup work, the rest is listed.",
    .example = "fuseplan doctor --json"};

/* A finding: works, or what to do. */
struct finding {
  char name[16];
  bool is_good;
  char found[320];
  char remedy[160];
};
enum { FINDINGS_MOST = 16 };
struct findings {
  struct finding list[FINDINGS_MOST];
  int n;
};

static void add(struct findings *all, const char *name, bool is_good, const char *found,
                const char *remedy) {
  if (all->n == FINDINGS_MOST)
    return;
  struct finding *const f = &all->list[all->n++];
  f->is_good = is_good;
  snprintf(f->name, sizeof f->name, "%s", name);
  snprintf(f->found, sizeof f->found, "%s", found);
  snprintf(f->remedy, sizeof f->remedy, "%s", is_good ? "" : remedy);
}

static void check_compiler(struct findings *all) {
  struct fpl_nvrtc *nvrtc = NULL;
  struct fpl_err err = {0};
  char found[320];
  if (fpl_nvrtc_open(NULL, &nvrtc, &err) != FPL_OK) {
    add(all, "nvrtc", false, err.text, "install the CUDA toolkit: kernels cannot be compiled");
    return;
  }
  snprintf(found, sizeof found, "%s at %s, headers %s (CCCL %s)", fpl_nvrtc_version(nvrtc),
           fpl_nvrtc_library(nvrtc), fpl_nvrtc_include_dir(nvrtc), fpl_nvrtc_cccl_version(nvrtc));
  add(all, "nvrtc", true, found, "");
  fpl_nvrtc_close(nvrtc);
}

static const char *text_of(const json_t *object, const char *key) {
  const char *const text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

static void check_device(struct findings *all, struct fpl_arena *arena,
                         const struct fpl_paths *paths, const json_t *probe) {
  const json_t *const devices = json_object_get(probe, "devices");
  char found[320];
  if (json_array_size(devices) == 0) {
    add(all, "gpu", false, "none",
        "planning by model and lookup work; measuring needs a Hopper GPU");
    return;
  }
  const json_t *const gpu = json_array_get(devices, 0);
  snprintf(found, sizeof found, "%zu: %s, %lld SMs, clock %.0f of %.0f MHz, throttle %s",
           json_array_size(devices), text_of(gpu, "name"),
           (long long)json_integer_value(json_object_get(gpu, "sms")),
           json_real_value(json_object_get(gpu, "sm_clock_now_mhz")),
           json_real_value(json_object_get(gpu, "sm_clock_mhz")), text_of(gpu, "throttle"));
  add(all, "gpu", true, found, "");
  const int is_mig = (int)json_integer_value(json_object_get(gpu, "is_mig"));
  const int n_processes = (int)json_integer_value(json_object_get(gpu, "n_processes"));
  add(all, "mig", is_mig <= 0,
      is_mig < 0 ? "unknown"
      : is_mig   ? "on"
                 : "off",
      "a slice is another device: tune on a whole card, or write a profile for the slice");
  snprintf(found, sizeof found, n_processes < 0 ? "unknown" : "%d compute on it now", n_processes);
  add(all, "others", n_processes <= 0, found,
      "wait for them, or choose another card by CUDA_VISIBLE_DEVICES: their work spoils times");
  struct fpl_device d;
  struct fpl_err err = {0};
  const bool is_known = fpl_auto_device(arena, paths, &d, NULL, &err) == FPL_OK;
  add(all, "profile", is_known, is_known ? d.name : err.text,
      "write a profile for this card: profiles/README.md");
}

/* Does the driver reserve counters for administrators? Timing does not need them. */
static void check_permissions(struct findings *all, struct fpl_arena *arena) {
  static const char path[] = "/proc/driver/nvidia/params";
  char *text = NULL;
  size_t length = 0;
  if (!fpl_path_exists(path) || fpl_file_read(arena, path, 1 << 20, &text, &length, NULL) != FPL_OK)
    return;
  const bool is_restricted = strstr(text, "RmProfilingAdminOnly: 1") != NULL;
  add(all, "counters", !is_restricted,
      is_restricted ? "reserved for administrators (timing works without them)" : "open to users",
      "run as root, or set NVreg_RestrictProfilingToAdminUsers=0 for the nvidia module");
}

/* The path itself, or the nearest folder above it that exists: tune makes what is missing. */
static void nearest_existing(const char *path, char *out, size_t size) {
  snprintf(out, size, "%s", path);
  while (!fpl_path_exists(out)) {
    char *const slash = strrchr(out, '/');
    if (!slash || slash == out) {
      snprintf(out, size, "%s", slash ? "/" : ".");
      return;
    }
    *slash = '\0';
  }
}

static void check_database(struct findings *all, const char *path) {
  struct fpl_db_file_system fs;
  struct fpl_err err = {0};
  char found[320];
  if (path[0] == '\0') {
    add(all, "database", false, "no place for it", "set FUSEPLAN_DB or HOME");
    return;
  }
  char place[256];
  nearest_existing(path, place, sizeof place);
  if (fpl_db_file_system(place, &fs, &err) != FPL_OK) {
    add(all, "database", false, err.text, "set FUSEPLAN_DB to a writable place");
    return;
  }
  snprintf(found, sizeof found, "%.200s on a %s file system%s%s", path, fs.name,
           fs.is_read_only ? ", read-only" : "", fpl_path_exists(path) ? "" : ", not made yet");
  add(all, "database", fs.is_wal_safe && !fs.is_read_only, found,
      fs.is_read_only ? "lookup works; set FUSEPLAN_DB to a writable place to tune"
                      : "several writers may wait long: put it on a local disk");
  struct fpl_db *db = NULL;
  if (!fpl_path_exists(path))
    return;
  const bool is_sound =
      fpl_db_open(path, FPL_DB_READ, &db, &err) == FPL_OK && fpl_db_check(db, &err) == FPL_OK;
  add(all, "integrity", is_sound, is_sound ? "ok" : err.text,
      "restore it from an export, or start a new one");
  fpl_db_close(db);
}

static bool is_version(const char *text) {
  return text[0] >= '0' && text[0] <= '9';
}

static int print_findings(const struct findings *all, bool is_json) {
  bool is_all_good = true;
  json_t *const list = json_array();
  for (int i = 0; i < all->n; i++) {
    const struct finding *const f = &all->list[i];
    is_all_good = is_all_good && f->is_good;
    json_array_append_new(list, json_pack("{s:s, s:b, s:s, s:s}", "name", f->name, "is_good",
                                          f->is_good, "found", f->found, "remedy", f->remedy));
    if (!is_json)
      printf("%s %-10s %s%s%s\n", f->is_good ? "ok  " : "MISS", f->name, f->found,
             f->remedy[0] ? "\n                -> " : "", f->remedy);
  }
  if (is_json)
    fpl_cli_print_json(json_pack("{s:b, s:O}", "is_all_good", is_all_good, "findings", list));
  json_decref(list);
  return is_all_good ? FPL_EXIT_OK : FPL_EXIT_NEGATIVE;
}

int fpl_cmd_doctor(int argc, char **argv) {
  const char *db_path = NULL;
  bool is_json = false;
  const struct fpl_option options[] = {
      {"--db", FPL_OPTION_TEXT, &db_path, "FILE", "database (default: $FUSEPLAN_DB)", 0, 0, NULL},
      {"--json", FPL_OPTION_FLAG, &is_json, NULL, "one JSON object", 0, 0, NULL}};
  int n_arguments = 0, exit_code = 0;
  if (!fpl_cli_begin(&command, options, 2, argc, argv, NULL, &n_arguments, &exit_code))
    return exit_code;
  struct fpl_arena arena = {0};
  struct fpl_err err = {0};
  struct fpl_paths paths;
  static struct findings all;
  if (fpl_paths_find(&arena, &paths, &err) != FPL_OK)
    return fpl_cli_fail(&command, &err);
  json_t *probe = NULL;
  check_compiler(&all);
  if (fpl_probe_ask(&paths, &probe, &err) != FPL_OK) {
    add(&all, "driver", false, err.text, "the probe failed: run 'fuseplan doctor' again");
  } else {
    add(&all, "driver", json_is_true(json_object_get(probe, "has_driver")),
        text_of(probe, "driver"), "install the NVIDIA driver to measure here");
    add(&all, "cupti", is_version(text_of(probe, "cupti")), text_of(probe, "cupti"),
        "times are then taken by graph replay: install CUPTI (part of the toolkit)");
    add(&all, "cublaslt", is_version(text_of(probe, "cublaslt")), text_of(probe, "cublaslt"),
        "the library plan cannot be measured: install cuBLAS (part of the toolkit)");
    check_device(&all, &arena, &paths, probe);
  }
  json_decref(probe);
  check_permissions(&all, &arena);
  check_database(&all, db_path ? db_path : paths.database);
  exit_code = print_findings(&all, is_json);
  fpl_arena_free(&arena);
  return exit_code;
}
