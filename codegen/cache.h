/* Kernel cache: content-addressed folders <cache>/<first 2 of key>/<key>/ with
 *
 *   kernel.cu     the generated text
 *   log.txt       what the compiler said
 *   facts.txt     lines "name=value": outcome, registers, spill_bytes, stack_bytes, sha, reason
 *   kernel.cubin  when it compiled
 *
 * A folder is made complete under another name and renamed as a whole, so that an entry is whole or
 * absent; texts that do not compile are entries too. One user's: entries are readable by their
 * owner alone. Folders build-* are unfinished work; what a kill left of them may be removed while
 * no build runs.
 */
#ifndef FPL_CODEGEN_CACHE_H
#define FPL_CODEGEN_CACHE_H

#include "tuner/base/arena.h"
#include "tuner/base/hash.h"
#include "tuner/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FPL_CACHE_SOURCE "kernel.cu"
#define FPL_CACHE_LOG "log.txt"
#define FPL_CACHE_FACTS "facts.txt"
#define FPL_CACHE_CUBIN "kernel.cubin"

enum { FPL_CACHE_FILE_BYTES = 64 << 20 }; /* a larger file is not ours */

/* What facts.txt says. */
struct fpl_facts {
  bool is_ok;             /* compiled */
  int32_t registers;      /* a thread */
  int32_t spill_bytes;    /* a thread, stores + loads */
  int32_t stack_bytes;    /* a thread */
  char sha[FPL_HASH_HEX]; /* of the cubin; "" when it did not compile */
  char reason[256];       /* one line; "" when it compiled */
};

/* dir/name, in the arena; NULL when memory is out. */
char *fpl_cache_file(struct fpl_arena *arena, const char *dir, const char *name);
/* Folder of an entry, in the arena; NULL when memory is out. */
char *fpl_cache_entry(struct fpl_arena *arena, const char *cache_dir, const char *key);

enum fpl_status fpl_facts_write(const char *dir, const struct fpl_facts *facts,
                                struct fpl_err *err);
/* False when the file is missing or malformed. */
bool fpl_facts_read(const char *dir, struct fpl_facts *out);

/* Reads a whole entry; `*out_cubin` is heap, NULL when the text did not compile. False when it is
 * missing or damaged (malformed facts, cubin missing or of another SHA-256). */
bool fpl_cache_load(const char *entry_dir, struct fpl_facts *out, void **out_cubin,
                    size_t *out_cubin_bytes);

/* Moves a finished folder to its place. When a whole entry is there already, that one stays and
 * `from` is removed; a damaged one is replaced. Errors: FPL_IO. */
enum fpl_status fpl_cache_publish(const char *cache_dir, const char *key, const char *from,
                                  struct fpl_err *err);

#endif
