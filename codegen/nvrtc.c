/* Decides: where libnvrtc and its headers are looked for, the option set, what is read from the
 * log. Leaves to others: where the cubin goes, whether spills disqualify a kernel. */
#define _GNU_SOURCE

#include "codegen/nvrtc.h"

#include "codegen/files.h"
#include "tuner/base/str.h"
#include "tuner/base/sys.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION_FILE_BYTES = 1 << 16, MOST_OPTIONS = 10 };

/* As nvrtc.h declares them. */
typedef struct nvrtc_program *program_handle;
enum { RESULT_SUCCESS = 0, RESULT_OUT_OF_MEMORY = 1, RESULT_COMPILATION = 6 };
struct functions {
  const char *(*error_text)(int result);
  int (*version)(int *major, int *minor);
  int (*create)(program_handle *program, const char *source, const char *name, int n_headers,
                const char *const *headers, const char *const *include_names);
  int (*destroy)(program_handle *program);
  int (*compile)(program_handle program, int n_options, const char *const *options);
  int (*log_size)(program_handle program, size_t *out);
  int (*log)(program_handle program, char *out);
  int (*cubin_size)(program_handle program, size_t *out);
  int (*cubin)(program_handle program, char *out);
};

struct fpl_nvrtc {
  struct fpl_arena arena;
  struct functions call;
  int major;
  char version[32];
  char cccl_version[32];
  const char *library;
  const char *include_dir;
  const char *cccl_dir; /* equal to include_dir in toolkits before 13 */
  const char *option_text;
};

/* a then b, in the arena; NULL when memory is out. */
static char *join(struct fpl_arena *arena, const char *a, const char *b) {
  const size_t length = strlen(a);
  const size_t extra = strlen(b);
  char *path = fpl_arena_alloc(arena, length + extra + 1);
  if (path != NULL) {
    memcpy(path, a, length);
    memcpy(path + length, b, extra + 1);
  }
  return path;
}

/* The library from one folder, ending with '/'; "" is the loader's own path. NULL: not there. */
static void *open_from(struct fpl_arena *arena, const char *folder) {
  static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", NULL};
  for (int i = 0; names[i] != NULL; i++) {
    const char *path = join(arena, folder, names[i]);
    void *library = path == NULL ? NULL : dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library != NULL) {
      return library;
    }
  }
  return NULL;
}

static void *open_library(struct fpl_arena *arena, const char *toolkit_dir) {
  static const char *const usual[] = {"", "/usr/local/cuda/lib64/", "/usr/local/cuda/lib/", NULL};
  static const char *const below[] = {"/", "/lib64/", "/lib/", NULL};
  const char *const *folders = toolkit_dir == NULL ? usual : below;
  const char *root = toolkit_dir == NULL ? "" : toolkit_dir;
  void *library = NULL;
  for (int i = 0; folders[i] != NULL && library == NULL; i++) {
    const char *folder = join(arena, root, folders[i]);
    library = folder == NULL ? NULL : open_from(arena, folder);
  }
  return library;
}

static enum fpl_status bind_functions(void *library, struct functions *call, struct fpl_err *err) {
  /* POSIX lets dlsym's pointer be a function's; C needs the copy. */
  const struct {
    const char *name;
    void *slot;
  } table[] = {
      {"nvrtcGetErrorString", &call->error_text},
      {"nvrtcVersion", &call->version},
      {"nvrtcCreateProgram", &call->create},
      {"nvrtcDestroyProgram", &call->destroy},
      {"nvrtcCompileProgram", &call->compile},
      {"nvrtcGetProgramLogSize", &call->log_size},
      {"nvrtcGetProgramLog", &call->log},
      {"nvrtcGetCUBINSize", &call->cubin_size},
      {"nvrtcGetCUBIN", &call->cubin},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    void *symbol = dlsym(library, table[i].name);
    if (symbol == NULL) {
      return fpl_fail(err, FPL_TOOLCHAIN, "libnvrtc has no %s: install CUDA 12 or newer",
                      table[i].name);
    }
    memcpy(table[i].slot, &symbol, sizeof symbol);
  }
  return FPL_OK;
}

static enum fpl_status find_own_path(struct fpl_nvrtc *nvrtc, void *library, struct fpl_err *err) {
  struct link_map *map = NULL;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == NULL) {
    return fpl_fail(err, FPL_TOOLCHAIN, "libnvrtc: its own path is unknown: %s", dlerror());
  }
  char *real = realpath(map->l_name, NULL);
  const char *path = real != NULL ? real : map->l_name;
  nvrtc->library = fpl_arena_copy(&nvrtc->arena, path, strlen(path));
  free(real);
  return nvrtc->library != NULL ? FPL_OK : fpl_fail(err, FPL_NO_MEMORY, "out of memory");
}

/* NVRTC asks the loader for its builtins by name alone, and has no run path: in a folder the loader
 * does not know they are found only if they are loaded already. Source: readelf -d of CUDA 13.0's
 * libnvrtc; without this a compile ends with NVRTC_ERROR_BUILTIN_OPERATION_FAILURE. */
static void load_builtins(const struct fpl_nvrtc *nvrtc) {
  char path[4096];
  const char *const slash = strrchr(nvrtc->library, '/');
  const int folder = slash == NULL ? 0 : (int)(slash - nvrtc->library) + 1;
  (void)snprintf(path, sizeof path, "%.*slibnvrtc-builtins.so.%s", folder, nvrtc->library,
                 nvrtc->version);
  (void)dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* Takes `include` when it holds the CUDA headers and cuda::ptx, in its cccl folder or beside. */
static bool take_include_dir(struct fpl_nvrtc *nvrtc, const char *include) {
  struct fpl_arena *arena = &nvrtc->arena;
  char *real = realpath(include, NULL);
  const char *folder = real == NULL ? NULL : join(arena, real, "");
  free(real);
  const char *header = folder == NULL ? NULL : join(arena, folder, "/cuda_bf16.h");
  if (header == NULL || !fpl_path_exists(header)) {
    return false;
  }
  static const char *const places[] = {"/cccl", "", NULL};
  for (int i = 0; places[i] != NULL; i++) {
    const char *cccl = join(arena, folder, places[i]);
    const char *ptx = cccl == NULL ? NULL : join(arena, cccl, "/cuda/ptx");
    if (ptx != NULL && fpl_path_exists(ptx)) {
      nvrtc->include_dir = folder;
      nvrtc->cccl_dir = cccl;
      return true;
    }
  }
  return false;
}

static enum fpl_status find_headers(struct fpl_nvrtc *nvrtc, struct fpl_err *err) {
  const char *slash = strrchr(nvrtc->library, '/');
  const size_t length = slash == NULL ? 0 : (size_t)(slash - nvrtc->library);
  const char *folder = fpl_arena_copy(&nvrtc->arena, nvrtc->library, length);
  static const char *const beside[] = {"/../include", "/../../include", NULL};
  for (int i = 0; beside[i] != NULL && folder != NULL; i++) {
    const char *include = join(&nvrtc->arena, folder, beside[i]);
    if (include != NULL && take_include_dir(nvrtc, include)) {
      return FPL_OK;
    }
  }
  if (take_include_dir(nvrtc, "/usr/local/cuda/include")) {
    return FPL_OK;
  }
  return fpl_fail(err, FPL_TOOLCHAIN,
                  "%s: found, but not its headers (cuda_bf16.h, cuda/ptx): install the CUDA "
                  "toolkit's headers and CCCL, or name the toolkit's folder",
                  nvrtc->library);
}

/* CCCL's version is a macro: MMMmmmppp in decimal. Source: its version.h. */
static enum fpl_status read_cccl_version(struct fpl_nvrtc *nvrtc, struct fpl_err *err) {
  const char *path = join(&nvrtc->arena, nvrtc->cccl_dir, "/cuda/std/__cccl/version.h");
  char *text = NULL;
  size_t length = 0;
  if (path == NULL) {
    return fpl_fail(err, FPL_NO_MEMORY, "out of memory");
  }
  const enum fpl_status status =
      fpl_file_read(&nvrtc->arena, path, VERSION_FILE_BYTES, &text, &length, err);
  static const char wanted[] = "#define CCCL_VERSION ";
  const char *at = status == FPL_OK ? strstr(text, wanted) : NULL;
  const long number = at == NULL ? 0 : strtol(at + sizeof wanted - 1, NULL, 10);
  if (number <= 0) {
    return fpl_fail(err, FPL_TOOLCHAIN, "%s: names no CCCL_VERSION: install CCCL's headers", path);
  }
  (void)snprintf(nvrtc->cccl_version, sizeof nvrtc->cccl_version, "%ld.%ld.%ld", number / 1000000,
                 number / 1000 % 1000, number % 1000);
  return FPL_OK;
}

/* The option set, the same everywhere: -v alone changes the cubin's bytes. */
static int list_options(const struct fpl_nvrtc *nvrtc, const char *out[MOST_OPTIONS]) {
  int n = 0;
  out[n++] = "--gpu-architecture=sm_90a";
  out[n++] = "-std=c++17";
  out[n++] = "--no-source-include";
  /* constexpr functions of a skeleton then need no __device__ to serve a static_assert. */
  out[n++] = "--device-as-default-execution-space";
  out[n++] = "--ptxas-options=-v";
  if (nvrtc->major >= 13) {
    /* NVRTC's own cache would answer without the log that the facts are read from. The option is
     * of CUDA 13. */
    out[n++] = "--no-cache";
  }
  return n;
}

static enum fpl_status describe_options(struct fpl_nvrtc *nvrtc, struct fpl_err *err) {
  const char *options[MOST_OPTIONS];
  const int n = list_options(nvrtc, options);
  struct fpl_text text = {0};
  for (int i = 0; i < n; i++) {
    fpl_text_append(&text, "%s%s", i > 0 ? " " : "", options[i]);
  }
  nvrtc->option_text =
      text.is_broken ? NULL : fpl_arena_copy(&nvrtc->arena, text.text, text.length);
  fpl_text_free(&text);
  return nvrtc->option_text != NULL ? FPL_OK : fpl_fail(err, FPL_NO_MEMORY, "out of memory");
}

static enum fpl_status set_up(struct fpl_nvrtc *nvrtc, const char *toolkit_dir,
                              struct fpl_err *err) {
  void *library = open_library(&nvrtc->arena, toolkit_dir);
  if (library == NULL) {
    return fpl_fail(err, FPL_TOOLCHAIN,
                    "libnvrtc (CUDA 12 or 13) was not found in %s: install the CUDA toolkit's "
                    "NVRTC, or name the toolkit's folder",
                    toolkit_dir != NULL ? toolkit_dir : "the library path or /usr/local/cuda");
  }
  enum fpl_status status = bind_functions(library, &nvrtc->call, err);
  int minor = 0;
  if (status == FPL_OK && nvrtc->call.version(&nvrtc->major, &minor) != RESULT_SUCCESS) {
    status = fpl_fail(err, FPL_TOOLCHAIN, "libnvrtc does not tell its version: reinstall it");
  }
  (void)snprintf(nvrtc->version, sizeof nvrtc->version, "%d.%d", nvrtc->major, minor);
  if (status == FPL_OK) {
    status = find_own_path(nvrtc, library, err);
  }
  if (status == FPL_OK) {
    load_builtins(nvrtc);
  }
  if (status == FPL_OK) {
    status = find_headers(nvrtc, err);
  }
  if (status == FPL_OK) {
    status = read_cccl_version(nvrtc, err);
  }
  if (status == FPL_OK) {
    status = describe_options(nvrtc, err);
  }
  return status;
}

enum fpl_status fpl_nvrtc_open(const char *toolkit_dir, struct fpl_nvrtc **out,
                               struct fpl_err *err) {
  *out = NULL;
  struct fpl_nvrtc *nvrtc = calloc(1, sizeof *nvrtc);
  if (nvrtc == NULL) {
    return fpl_fail(err, FPL_NO_MEMORY, "out of memory");
  }
  const enum fpl_status status = set_up(nvrtc, toolkit_dir, err);
  if (status != FPL_OK) {
    fpl_nvrtc_close(nvrtc);
    return status;
  }
  *out = nvrtc;
  return FPL_OK;
}

void fpl_nvrtc_close(struct fpl_nvrtc *nvrtc) {
  if (nvrtc != NULL) {
    fpl_arena_free(&nvrtc->arena);
    free(nvrtc);
  }
}

const char *fpl_nvrtc_version(const struct fpl_nvrtc *nvrtc) {
  return nvrtc->version;
}

const char *fpl_nvrtc_library(const struct fpl_nvrtc *nvrtc) {
  return nvrtc->library;
}

const char *fpl_nvrtc_include_dir(const struct fpl_nvrtc *nvrtc) {
  return nvrtc->include_dir;
}

const char *fpl_nvrtc_cccl_version(const struct fpl_nvrtc *nvrtc) {
  return nvrtc->cccl_version;
}

const char *fpl_nvrtc_options(const struct fpl_nvrtc *nvrtc) {
  return nvrtc->option_text;
}

/* The embedded headers as NVRTC takes them: two parallel lists. The .cu files are not headers. */
static int list_headers(const char **texts, const char **names) {
  int n = 0;
  for (size_t i = 0; i < fpl_n_skeleton_files; i++) {
    const char *dot = strrchr(fpl_skeleton_files[i].name, '.');
    if (dot != NULL && strcmp(dot, ".cuh") == 0) {
      texts[n] = fpl_skeleton_files[i].text;
      names[n] = fpl_skeleton_files[i].name;
      n++;
    }
  }
  return n;
}

/* First line that tells of an error; else the first line at all. */
static void find_reason(const char *log, char out[256]) {
  const char *best = NULL;
  for (const char *line = log; *line != '\0';) {
    const size_t length = strcspn(line, "\n");
    char text[256];
    (void)snprintf(text, sizeof text, "%.*s", (int)(length < 255 ? length : 255), line);
    const bool tells = strstr(text, "error") != NULL || strstr(text, "fatal") != NULL;
    if (tells || (best == NULL && length > 0)) {
      (void)snprintf(out, 256, "%s", text);
      best = line;
    }
    if (tells) {
      return;
    }
    line += length;
    line += *line == '\n';
  }
  if (best == NULL) {
    (void)snprintf(out, 256, "the compiler failed and said nothing");
  }
}

static int32_t larger(int32_t a, long b) {
  return b > a && b <= INT32_MAX ? (int32_t)b : a;
}

/* Lines of ptxas -v, for each function (NVRTC 13.0):
 *   "ptxas         .     256 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"
 *   "ptxas info    : Used 32 registers, used 0 barriers, ..." */
static bool read_facts(const char *log, struct fpl_compiled *out) {
  bool is_told = false;
  for (const char *line = log; *line != '\0';) {
    const size_t length = strcspn(line, "\n");
    char text[256];
    (void)snprintf(text, sizeof text, "%.*s", (int)(length < 255 ? length : 255), line);
    const char *used = strstr(text, ": Used ");
    long registers = 0;
    long stack = 0;
    long stores = 0;
    long loads = 0;
    if (used != NULL && sscanf(used, ": Used %ld registers", &registers) == 1) {
      out->registers = larger(out->registers, registers);
      is_told = true;
    } else if (strncmp(text, "ptxas", 5) == 0 && strlen(text) > 5 &&
               sscanf(text + 5 + strspn(text + 5, " .:info"),
                      "%ld bytes stack frame, %ld bytes spill stores, %ld bytes spill loads",
                      &stack, &stores, &loads) == 3) {
      out->stack_bytes = larger(out->stack_bytes, stack);
      out->spill_bytes = larger(out->spill_bytes, stores + loads);
    }
    line += length;
    line += *line == '\n';
  }
  return is_told;
}

static enum fpl_status fail_call(const struct fpl_nvrtc *nvrtc, const char *what, int result,
                                 struct fpl_err *err) {
  const enum fpl_status code = result == RESULT_OUT_OF_MEMORY ? FPL_NO_MEMORY : FPL_TOOLCHAIN;
  return fpl_fail(err, code, "NVRTC %s: %s: %s", nvrtc->version, what,
                  nvrtc->call.error_text(result));
}

static enum fpl_status take_log(const struct fpl_nvrtc *nvrtc, program_handle program,
                                struct fpl_compiled *out, struct fpl_err *err) {
  size_t size = 0;
  int result = nvrtc->call.log_size(program, &size);
  if (result != RESULT_SUCCESS) {
    return fail_call(nvrtc, "log", result, err);
  }
  out->log = calloc(1, size + 1);
  if (out->log == NULL) {
    return fpl_fail(err, FPL_NO_MEMORY, "out of memory");
  }
  result = nvrtc->call.log(program, out->log);
  return result == RESULT_SUCCESS ? FPL_OK : fail_call(nvrtc, "log", result, err);
}

static enum fpl_status take_cubin(const struct fpl_nvrtc *nvrtc, program_handle program,
                                  struct fpl_compiled *out, struct fpl_err *err) {
  int result = nvrtc->call.cubin_size(program, &out->cubin_bytes);
  if (result != RESULT_SUCCESS || out->cubin_bytes == 0) {
    return fail_call(nvrtc, "cubin", result, err);
  }
  out->cubin = malloc(out->cubin_bytes);
  if (out->cubin == NULL) {
    return fpl_fail(err, FPL_NO_MEMORY, "out of memory");
  }
  result = nvrtc->call.cubin(program, out->cubin);
  return result == RESULT_SUCCESS ? FPL_OK : fail_call(nvrtc, "cubin", result, err);
}

static enum fpl_status compile_program(const struct fpl_nvrtc *nvrtc, program_handle program,
                                       struct fpl_arena *arena, struct fpl_compiled *out,
                                       struct fpl_err *err) {
  const char *options[MOST_OPTIONS];
  int n = list_options(nvrtc, options);
  options[n++] = join(arena, "-I", nvrtc->include_dir);
  options[n++] = join(arena, "-I", nvrtc->cccl_dir);
  if (options[n - 2] == NULL || options[n - 1] == NULL) {
    return fpl_fail(err, FPL_NO_MEMORY, "out of memory");
  }
  const int result = nvrtc->call.compile(program, n, options);
  const enum fpl_status status = take_log(nvrtc, program, out, err);
  if (status != FPL_OK) {
    return status;
  }
  if (result == RESULT_COMPILATION) {
    find_reason(out->log, out->reason);
    return FPL_OK;
  }
  if (result != RESULT_SUCCESS) {
    return fail_call(nvrtc, "compile", result, err);
  }
  if (!read_facts(out->log, out)) {
    return fpl_fail(err, FPL_TOOLCHAIN,
                    "NVRTC %s: its log names no registers: is there a kernel in the text?",
                    nvrtc->version);
  }
  out->is_ok = true;
  return take_cubin(nvrtc, program, out, err);
}

enum fpl_status fpl_nvrtc_compile(const struct fpl_nvrtc *nvrtc, const char *source,
                                  struct fpl_compiled *out, struct fpl_err *err) {
  *out = (struct fpl_compiled){0};
  struct fpl_arena arena = {0};
  const char **texts = fpl_arena_alloc(&arena, (fpl_n_skeleton_files + 1) * sizeof *texts);
  const char **names = fpl_arena_alloc(&arena, (fpl_n_skeleton_files + 1) * sizeof *names);
  enum fpl_status status = FPL_OK;
  if (texts == NULL || names == NULL) {
    status = fpl_fail(err, FPL_NO_MEMORY, "out of memory");
  } else {
    const int n_headers = list_headers(texts, names);
    program_handle program = NULL;
    const int result = nvrtc->call.create(&program, source, "kernel.cu", n_headers, texts, names);
    if (result != RESULT_SUCCESS) {
      status = fail_call(nvrtc, "create", result, err);
    } else {
      status = compile_program(nvrtc, program, &arena, out, err);
      (void)nvrtc->call.destroy(&program);
    }
  }
  fpl_arena_free(&arena);
  if (status != FPL_OK) {
    fpl_compiled_free(out);
  }
  return status;
}

void fpl_compiled_free(struct fpl_compiled *compiled) {
  free(compiled->log);
  free(compiled->cubin);
  *compiled = (struct fpl_compiled){0};
}

enum fpl_status fpl_compile_check(const char *toolkit_dir, const char *source,
                                  struct fpl_compiled *out, struct fpl_err *err) {
  *out = (struct fpl_compiled){0};
  struct fpl_nvrtc *nvrtc = NULL;
  enum fpl_status status = fpl_nvrtc_open(toolkit_dir, &nvrtc, err);
  if (status == FPL_OK) {
    status = fpl_nvrtc_compile(nvrtc, source, out, err);
  }
  fpl_nvrtc_close(nvrtc);
  return status;
}
