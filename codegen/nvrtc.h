/* NVRTC, loaded at run time: CUDA text in, sm_90a cubin and facts out.
 *
 * One option set for every compile; the embedded skeleton headers are handed over in memory, and
 * nothing else of ours can be included. A compile can hang and cannot be interrupted: product code
 * runs it in a child process (codegen/build.h).
 * Source: NVRTC 13.0 manual; the few functions used keep their binary form since CUDA 11.1, so
 * nvrtc.h itself is not needed.
 */
#ifndef FPL_CODEGEN_NVRTC_H
#define FPL_CODEGEN_NVRTC_H

#include "tuner/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fpl_nvrtc;

/* Loads libnvrtc and finds its toolkit's headers.
 * toolkit_dir: where to look and nowhere else (the folder itself, its lib64 or lib), or NULL: the
 * loader's own path, then /usr/local/cuda.
 * Errors: FPL_TOOLCHAIN, with what was not found and the remedy; FPL_NO_MEMORY. */
enum fpl_status fpl_nvrtc_open(const char *toolkit_dir, struct fpl_nvrtc **out,
                               struct fpl_err *err);
/* The library itself stays loaded. */
void fpl_nvrtc_close(struct fpl_nvrtc *nvrtc);

/* All valid until close. */
const char *fpl_nvrtc_version(const struct fpl_nvrtc *nvrtc);      /* "13.0", asked at run time */
const char *fpl_nvrtc_library(const struct fpl_nvrtc *nvrtc);      /* real path of libnvrtc */
const char *fpl_nvrtc_include_dir(const struct fpl_nvrtc *nvrtc);  /* of the toolkit */
const char *fpl_nvrtc_cccl_version(const struct fpl_nvrtc *nvrtc); /* "3.0.1" */
/* The options, blank-separated, without the include paths (they are stood for by the versions). */
const char *fpl_nvrtc_options(const struct fpl_nvrtc *nvrtc);

/* What a compile gave. Facts are the largest over the text's kernels. */
struct fpl_compiled {
  bool is_ok;       /* the text compiled */
  char reason[256]; /* first error of the log, when it did not */
  char *log;        /* heap; never NULL after FPL_OK */
  void *cubin;      /* heap; NULL when it did not compile */
  size_t cubin_bytes;
  int32_t registers;   /* a thread */
  int32_t spill_bytes; /* spill stores + spill loads, a thread */
  int32_t stack_bytes; /* stack frame (local memory), a thread */
};

/* Compiles in this process. A text that does not compile is an answer (is_ok false), not an error.
 * Errors: FPL_TOOLCHAIN (NVRTC itself failed, or its log names no registers), FPL_NO_MEMORY. */
enum fpl_status fpl_nvrtc_compile(const struct fpl_nvrtc *nvrtc, const char *source,
                                  struct fpl_compiled *out, struct fpl_err *err);
void fpl_compiled_free(struct fpl_compiled *compiled);

/* Open, compile, close: for checks of a text. */
enum fpl_status fpl_compile_check(const char *toolkit_dir, const char *source,
                                  struct fpl_compiled *out, struct fpl_err *err);

#endif
