/* Arena: one lifetime, one free.
 *
 * A request (one file read, one tune, one lookup) allocates from its arena and frees it as a whole.
 * Under AddressSanitizer each allocation is a heap block of its own, so that overruns are seen.
 */
#ifndef FPL_BASE_ARENA_H
#define FPL_BASE_ARENA_H

#include <stddef.h>

struct fpl_arena_chunk;
struct fpl_arena {
  struct fpl_arena_chunk *chunks;
};

/* Zeroed memory, aligned for any type; NULL when memory is out. Valid until fpl_arena_free. */
void *fpl_arena_alloc(struct fpl_arena *arena, size_t bytes);

/* A NUL-terminated copy of ⟨text, length⟩, or NULL. */
char *fpl_arena_copy(struct fpl_arena *arena, const char *text, size_t length);

/* Frees all; the arena may be used again. An all-zero arena is empty. */
void fpl_arena_free(struct fpl_arena *arena);

#endif
