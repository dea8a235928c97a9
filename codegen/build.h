/* Builder: candidates in, cubins out. Emits, looks into the kernel cache (codegen/cache.h), and
 * compiles what is missing in child processes, several at a time, each with a deadline.
 *
 * Cache key: SHA-256 over the generated text, all embedded skeleton headers, NVRTC's version,
 * CCCL's version and the options. Equal texts of one call are compiled once.
 */
#ifndef FPL_CODEGEN_BUILD_H
#define FPL_CODEGEN_BUILD_H

#include "tuner/core/ports.h"

struct fpl_builder;

struct fpl_builder_options {
  const char *cache_dir;     /* made when missing */
  const char *toolkit_dir;   /* where NVRTC is; may be NULL: see fpl_nvrtc_open */
  const char *self_path;     /* program that understands the worker's command line, below */
  int jobs;                  /* compilations at a time; < 1: one a processor */
  double compile_timeout_us; /* of one text, then SIGKILL; > 0 */
};

/* Copies the options. Errors: FPL_TOOLCHAIN with a remedy (no NVRTC, no headers), FPL_IO (cache
 * folder), FPL_NO_MEMORY. */
enum fpl_status fpl_builder_open(const struct fpl_builder_options *options,
                                 struct fpl_builder **out, struct fpl_err *err);
void fpl_builder_close(struct fpl_builder *builder);

/* Table for the tuner; valid until close. A kernel that spills or uses local memory is refused:
 * outcome compile_error, reason "spills N bytes". A result that was built stays pending. */
struct fpl_builder_port fpl_builder_port(struct fpl_builder *builder);

/* Versions for the record of a run; valid until close. */
const char *fpl_builder_nvrtc_version(const struct fpl_builder *builder);   /* "13.0" */
const char *fpl_builder_headers_version(const struct fpl_builder *builder); /* CCCL, "3.0.1" */

/* Builds the support kernels (reference, inputs, comparison); `*out_path`: their cubin in the
 * cache, owned by the builder, valid until close. Errors: FPL_TOOLCHAIN with the compiler's first
 * error. */
enum fpl_status fpl_builder_support(struct fpl_builder *builder, const char **out_path,
                                    struct fpl_err *err);

/* One text to compile. */
struct fpl_build_item {
  const char *source; /* in, the caller's */

  enum fpl_outcome outcome; /* built, compile_error, compile_timeout */
  char reason[256];         /* when not built */
  bool was_cached;
  char key[FPL_HASH_HEX];
  char sha[FPL_HASH_HEX]; /* of the cubin */
  int32_t registers;      /* a thread */
  int32_t spill_bytes;    /* a thread, stores + loads */
  int32_t stack_bytes;    /* a thread */
  void *cubin;            /* heap, of the item; NULL when not built */
  size_t cubin_bytes;
};

/* Compiles items[0..n) through the cache. Spills are told, not judged. `progress` may be NULL.
 * Errors: FPL_IO (cache, or self_path cannot be started), FPL_NO_MEMORY. Free the items in any
 * case. */
enum fpl_status fpl_builder_compile(struct fpl_builder *builder, struct fpl_build_item *items,
                                    int n, void (*progress)(void *context, int n_done, int n_all),
                                    void *context, struct fpl_err *err);
void fpl_build_item_free(struct fpl_build_item *item);

/* The worker: what `self_path compile-kernel DIR [TOOLKIT_DIR]` must call and then exit with 0 for
 * FPL_OK. TOOLKIT_DIR is given when the builder has one. Reads DIR/kernel.cu, writes
 * DIR/kernel.cubin, log.txt and last facts.txt. A text that does not compile is FPL_OK, with its
 * reason in facts.txt; any other failure leaves no facts.txt and its message in log.txt. */
#define FPL_COMPILE_VERB "compile-kernel"
enum fpl_status fpl_compile_worker(const char *dir, const char *toolkit_dir, struct fpl_err *err);

#endif
