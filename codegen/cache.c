#include "codegen/cache.h"

#include "tuner/base/str.h"
#include "tuner/base/sys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PUBLISH_TRIES = 3 };

char *fpl_cache_file(struct fpl_arena *arena, const char *dir, const char *name) {
  struct fpl_text path = {0};
  fpl_text_append(&path, "%s/%s", dir, name);
  char *copy = path.is_broken ? NULL : fpl_arena_copy(arena, path.text, path.length);
  fpl_text_free(&path);
  return copy;
}

char *fpl_cache_entry(struct fpl_arena *arena, const char *cache_dir, const char *key) {
  char name[2 + 1 + FPL_HASH_HEX];
  (void)snprintf(name, sizeof name, "%.2s/%s", key, key);
  return fpl_cache_file(arena, cache_dir, name);
}

enum fpl_status fpl_facts_write(const char *dir, const struct fpl_facts *facts,
                                struct fpl_err *err) {
  struct fpl_arena arena = {0};
  struct fpl_text text = {0};
  fpl_text_append(&text, "outcome=%s\n", facts->is_ok ? "ok" : "compile_error");
  fpl_text_append(&text, "registers=%d\n", (int)facts->registers);
  fpl_text_append(&text, "spill_bytes=%d\n", (int)facts->spill_bytes);
  fpl_text_append(&text, "stack_bytes=%d\n", (int)facts->stack_bytes);
  fpl_text_append(&text, "sha=%s\n", facts->sha);
  fpl_text_append(&text, "reason=%s\n", facts->reason);
  const char *path = fpl_cache_file(&arena, dir, FPL_CACHE_FACTS);
  enum fpl_status status = FPL_OK;
  if (text.is_broken || path == NULL) {
    status = fpl_fail(err, FPL_NO_MEMORY, "out of memory");
  } else {
    status = fpl_file_write(path, text.text, text.length, err);
  }
  fpl_text_free(&text);
  fpl_arena_free(&arena);
  return status;
}

/* Cuts "name=value\n" off the front of `*at`; NULL when the line has another name. */
static char *take_line(char **at, const char *name) {
  const size_t length = strlen(name);
  char *end = strchr(*at, '\n');
  if (end == NULL || strncmp(*at, name, length) != 0 || (*at)[length] != '=') {
    return NULL;
  }
  char *value = *at + length + 1;
  *end = '\0';
  *at = end + 1;
  return value;
}

static bool take_number(char **at, const char *name, int32_t *out) {
  const char *value = take_line(at, name);
  int64_t number = 0;
  if (value == NULL || !fpl_parse_i64(value, 0, INT32_MAX, &number)) {
    return false;
  }
  *out = (int32_t)number;
  return true;
}

static bool take_text(char **at, const char *name, char *out, size_t capacity) {
  const char *value = take_line(at, name);
  if (value == NULL || strlen(value) >= capacity) {
    return false;
  }
  (void)snprintf(out, capacity, "%s", value);
  return true;
}

static bool parse_facts(char *text, struct fpl_facts *out) {
  *out = (struct fpl_facts){0};
  char outcome[32] = "";
  if (!take_text(&text, "outcome", outcome, sizeof outcome) ||
      !take_number(&text, "registers", &out->registers) ||
      !take_number(&text, "spill_bytes", &out->spill_bytes) ||
      !take_number(&text, "stack_bytes", &out->stack_bytes) ||
      !take_text(&text, "sha", out->sha, sizeof out->sha) ||
      !take_text(&text, "reason", out->reason, sizeof out->reason) || *text != '\0') {
    return false;
  }
  out->is_ok = strcmp(outcome, "ok") == 0;
  return out->is_ok || strcmp(outcome, "compile_error") == 0;
}

bool fpl_facts_read(const char *dir, struct fpl_facts *out) {
  struct fpl_arena arena = {0};
  char *text = NULL;
  size_t length = 0;
  const char *path = fpl_cache_file(&arena, dir, FPL_CACHE_FACTS);
  const bool is_read =
      path != NULL &&
      fpl_file_read(&arena, path, FPL_CACHE_FILE_BYTES, &text, &length, NULL) == FPL_OK &&
      parse_facts(text, out);
  fpl_arena_free(&arena);
  return is_read;
}

bool fpl_cache_load(const char *entry_dir, struct fpl_facts *out, void **out_cubin,
                    size_t *out_cubin_bytes) {
  *out_cubin = NULL;
  *out_cubin_bytes = 0;
  if (!fpl_facts_read(entry_dir, out)) {
    return false;
  }
  if (!out->is_ok) {
    return true;
  }
  struct fpl_arena arena = {0};
  char *bytes = NULL;
  size_t length = 0;
  char sha[FPL_HASH_HEX] = "";
  const char *path = fpl_cache_file(&arena, entry_dir, FPL_CACHE_CUBIN);
  if (path != NULL &&
      fpl_file_read(&arena, path, FPL_CACHE_FILE_BYTES, &bytes, &length, NULL) == FPL_OK &&
      length > 0) {
    fpl_hash_bytes_hex(bytes, length, sha);
  }
  if (sha[0] != '\0' && strcmp(sha, out->sha) == 0) {
    *out_cubin = malloc(length);
    if (*out_cubin != NULL) {
      memcpy(*out_cubin, bytes, length);
      *out_cubin_bytes = length;
    }
  }
  fpl_arena_free(&arena);
  return *out_cubin != NULL;
}

static bool is_whole(const char *entry_dir) {
  struct fpl_facts facts;
  void *cubin = NULL;
  size_t cubin_bytes = 0;
  const bool whole = fpl_cache_load(entry_dir, &facts, &cubin, &cubin_bytes);
  free(cubin);
  return whole;
}

enum fpl_status fpl_cache_publish(const char *cache_dir, const char *key, const char *from,
                                  struct fpl_err *err) {
  struct fpl_arena arena = {0};
  const char prefix[3] = {key[0], key[1], '\0'};
  const char *parent = fpl_cache_file(&arena, cache_dir, prefix);
  const char *entry = fpl_cache_entry(&arena, cache_dir, key);
  enum fpl_status status = parent == NULL || entry == NULL
                               ? fpl_fail(err, FPL_NO_MEMORY, "out of memory")
                               : fpl_dir_make(parent, err);
  /* More than once: between our removal of a damaged entry and our rename another may publish. */
  bool is_lost = true;
  for (int i = 0; i < PUBLISH_TRIES && is_lost && status == FPL_OK; i++) {
    status = fpl_dir_publish(from, entry, &is_lost, err);
    if (status != FPL_OK || !is_lost) {
      break;
    }
    if (is_whole(entry)) {
      status = fpl_dir_remove(from, err);
      is_lost = false;
    } else {
      status = fpl_dir_remove(entry, err);
    }
  }
  if (status == FPL_OK && is_lost) {
    status = fpl_fail(err, FPL_IO, "%s: cannot replace a damaged entry: remove it", entry);
  }
  fpl_arena_free(&arena);
  return status;
}
