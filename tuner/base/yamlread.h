/* Strict YAML: the only user of yaml.h.
 *
 * Reads one document into a tree of nodes that know their line and column. Refused, each with one
 * line "file:line:column: what: remedy": duplicate keys, keys that are not plain scalars, aliases
 * and anchors, tags, directives, tabs and other control characters anywhere, a byte-order mark,
 * text that is not UTF-8, an empty document, more than one document, nesting deeper than
 * FPL_YAML_DEPTH, more than FPL_YAML_NODES nodes, files larger than FPL_YAML_BYTES.
 */
#ifndef FPL_BASE_YAMLREAD_H
#define FPL_BASE_YAMLREAD_H

#include "tuner/base/arena.h"
#include "tuner/base/status.h"

#include <stddef.h>
#include <stdint.h>

enum { FPL_YAML_DEPTH = 16, FPL_YAML_BYTES = 16 << 20, FPL_YAML_NODES = 1 << 20 };

enum fpl_yaml_kind { FPL_YAML_SCALAR, FPL_YAML_MAP, FPL_YAML_LIST };

struct fpl_yaml {
  enum fpl_yaml_kind kind;
  const char *file; /* name for messages */
  int line;         /* of this node, from 1 */
  int column;
  const char *key; /* this node's key where its parent is a map */
  int key_line;
  int key_column;
  const char *text; /* scalars; never NULL */
  bool is_quoted;
  struct fpl_yaml *children; /* maps and lists, in document order */
  size_t n_children;
};

/* Parses ⟨text, length⟩; nodes live in the arena. Errors: FPL_PARSE, FPL_NO_MEMORY. */
enum fpl_status fpl_yaml_parse(struct fpl_arena *arena, const char *file, const char *text,
                               size_t length, struct fpl_yaml **out, struct fpl_err *err);

/* Reads and parses a file. Errors: also FPL_IO; a file too large is FPL_PARSE. */
enum fpl_status fpl_yaml_read(struct fpl_arena *arena, const char *path, struct fpl_yaml **out,
                              struct fpl_err *err);

/* "file:line:column: what: remedy" into the sink; returns FPL_PARSE. */
enum fpl_status fpl_yaml_fail(const struct fpl_yaml *at, struct fpl_err *err, const char *format,
                              ...) __attribute__((format(printf, 3, 4)));

/* Refuses keys of map `at` that are not in the NULL-terminated list (names the nearest allowed
 * one). Also refuses a node that is not a map. */
enum fpl_status fpl_yaml_only_keys(const struct fpl_yaml *at, const char *const *keys,
                                   struct fpl_err *err);

/* Child by key, or NULL. */
const struct fpl_yaml *fpl_yaml_find(const struct fpl_yaml *map, const char *key);

/* Typed children. A missing key is an error unless `fallback` is given (then *out = *fallback). */
enum fpl_status fpl_yaml_get_i64(const struct fpl_yaml *map, const char *key, int64_t least,
                                 int64_t most, const int64_t *fallback, int64_t *out,
                                 struct fpl_err *err);
enum fpl_status fpl_yaml_get_f64(const struct fpl_yaml *map, const char *key, double least,
                                 double most, const double *fallback, double *out,
                                 struct fpl_err *err);
enum fpl_status fpl_yaml_get_text(const struct fpl_yaml *map, const char *key, const char *fallback,
                                  const char **out, struct fpl_err *err);
/* Index into a NULL-terminated list of names; fallback < 0 means required. */
enum fpl_status fpl_yaml_get_name(const struct fpl_yaml *map, const char *key,
                                  const char *const *names, int fallback, int *out,
                                  struct fpl_err *err);

#endif
