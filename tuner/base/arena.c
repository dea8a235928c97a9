/* Chunks grow by doubling; a large request gets a chunk of its own. */
#include "tuner/base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__has_feature)
#define HAS_ASAN __has_feature(address_sanitizer) /* clang */
#elif defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1 /* gcc */
#else
#define HAS_ASAN 0
#endif

enum { FIRST_CHUNK_BYTES = 4096, LARGEST_CHUNK_BYTES = 1 << 20 };

struct fpl_arena_chunk {
  struct fpl_arena_chunk *next;
  size_t capacity;
  size_t used;
  max_align_t data[];
};

static struct fpl_arena_chunk *add_chunk(struct fpl_arena *arena, size_t bytes) {
#if HAS_ASAN
  const size_t capacity = bytes;
#else
  size_t capacity = arena->chunks ? 2 * arena->chunks->capacity : FIRST_CHUNK_BYTES;
  if (capacity > LARGEST_CHUNK_BYTES)
    capacity = LARGEST_CHUNK_BYTES;
  if (capacity < bytes)
    capacity = bytes;
#endif
  if (capacity > SIZE_MAX - sizeof(struct fpl_arena_chunk))
    return NULL;
  struct fpl_arena_chunk *const chunk = calloc(1, sizeof *chunk + capacity);
  if (!chunk)
    return NULL;
  chunk->capacity = capacity;
  chunk->next = arena->chunks;
  arena->chunks = chunk;
  return chunk;
}

void *fpl_arena_alloc(struct fpl_arena *arena, size_t bytes) {
  const size_t align = sizeof(max_align_t);
  if (bytes > SIZE_MAX - align)
    return NULL;
  const size_t need = bytes == 0 ? align : (bytes + align - 1) / align * align;
  struct fpl_arena_chunk *chunk = arena->chunks;
  if (!chunk || chunk->capacity - chunk->used < need)
    chunk = add_chunk(arena, need);
  if (!chunk)
    return NULL;
  void *const p = (char *)chunk->data + chunk->used;
  chunk->used += need;
  return p;
}

char *fpl_arena_copy(struct fpl_arena *arena, const char *text, size_t length) {
  if (length == SIZE_MAX)
    return NULL;
  char *const copy = fpl_arena_alloc(arena, length + 1);
  if (copy && length > 0)
    memcpy(copy, text, length);
  return copy;
}

void fpl_arena_free(struct fpl_arena *arena) {
  while (arena->chunks) {
    struct fpl_arena_chunk *const next = arena->chunks->next;
    free(arena->chunks);
    arena->chunks = next;
  }
}
