/* Decides which YAML is accepted and where an error stands; what keys mean is left to the callers.
 *
 * Two passes: check_bytes() over the raw text (encoding, tabs, control characters), then libyaml's
 * events, built into nodes. Children of open containers wait on one heap stack (`pending`); when a
 * container ends, its children move to the arena as one array. */
#define _POSIX_C_SOURCE 200809L
#include "tuner/base/yamlread.h"

#include "tuner/base/str.h"
#include "tuner/base/sys.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { FILE_NAME_SHOWN = 200, VALUE_SHOWN = 40, KEY_COMPARED = 64 };

static const char *const kind_names[] = {"a scalar", "a map", "a list"};

/* One line: control characters of quoted user text become '?'. */
static void flatten(char *text) {
  for (; *text; text++)
    if ((unsigned char)*text < ' ' || *text == 127)
      *text = '?';
}

static enum fpl_status fail_list(struct fpl_err *err, const char *file, int line, int column,
                                 const char *format, va_list args) {
  char what[sizeof err->text];
  vsnprintf(what, sizeof what, format, args);
  const size_t length = strlen(file);
  const char *const shown = length > FILE_NAME_SHOWN ? file + length - FILE_NAME_SHOWN : file;
  fpl_fail(err, FPL_PARSE, "%s:%d:%d: %s", shown, line, column, what);
  if (err)
    flatten(err->text);
  return FPL_PARSE;
}

static enum fpl_status fail_at(struct fpl_err *err, const char *file, int line, int column,
                               const char *format, ...) __attribute__((format(printf, 5, 6)));

static enum fpl_status fail_at(struct fpl_err *err, const char *file, int line, int column,
                               const char *format, ...) {
  va_list args;
  va_start(args, format);
  const enum fpl_status status = fail_list(err, file, line, column, format, args);
  va_end(args);
  return status;
}

enum fpl_status fpl_yaml_fail(const struct fpl_yaml *at, struct fpl_err *err, const char *format,
                              ...) {
  va_list args;
  va_start(args, format);
  const enum fpl_status status = fail_list(err, at->file, at->line, at->column, format, args);
  va_end(args);
  return status;
}

/* Length of the UTF-8 sequence at `s` and its code point; 0 when malformed (too long a form,
 * surrogates and values above 10FFFF included). Source: RFC 3629. */
static size_t decode_utf8(const unsigned char *s, size_t left, uint32_t *out) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const size_t length = s[0] < 0x80           ? 1
                        : (s[0] >> 5) == 0x6  ? 2
                        : (s[0] >> 4) == 0xe  ? 3
                        : (s[0] >> 3) == 0x1e ? 4
                                              : 0;
  if (length == 0 || length > left)
    return 0;
  uint32_t code = length == 1 ? s[0] : s[0] & (0xffu >> (length + 1));
  for (size_t i = 1; i < length; i++) {
    if ((s[i] & 0xc0) != 0x80)
      return 0;
    code = code << 6 | (s[i] & 0x3fu);
  }
  if (code < least[length] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
    return 0;
  *out = code;
  return length;
}

/* What is wrong with a code point, or NULL. The printable set is libyaml's (YAML 1.1, 5.1). */
static const char *refuse_code(uint32_t code) {
  if (code == 0)
    return "NUL byte: remove it";
  if (code == '\t')
    return "tab: use spaces";
  if (code == 0xfeff)
    return "byte-order mark: save the file as UTF-8 without one";
  const bool is_break = code == '\n' || code == '\r';
  if ((code < ' ' && !is_break) || (code >= 0x7f && code < 0xa0 && code != 0x85) ||
      code == 0xfffe || code == 0xffff)
    return "control character: remove it";
  return NULL;
}

static enum fpl_status check_bytes(const char *file, const char *text, size_t length,
                                   struct fpl_err *err) {
  if (length > FPL_YAML_BYTES)
    return fail_at(err, file, 1, 1, "file is larger than %d bytes: split it", FPL_YAML_BYTES);
  const unsigned char *const bytes = (const unsigned char *)text;
  if (length >= 2 &&
      ((bytes[0] == 0xff && bytes[1] == 0xfe) || (bytes[0] == 0xfe && bytes[1] == 0xff)))
    return fail_at(err, file, 1, 1, "UTF-16 text: save the file as UTF-8");
  int line = 1, column = 1;
  for (size_t i = 0; i < length;) {
    uint32_t code = 0;
    const size_t n_bytes = decode_utf8(bytes + i, length - i, &code);
    const char *const what = n_bytes == 0 ? "not UTF-8: save the file as UTF-8" : refuse_code(code);
    if (what)
      return fail_at(err, file, line, column, "%s", what);
    i += n_bytes;
    const bool is_half_of_crlf = code == '\r' && i < length && bytes[i] == '\n';
    if (code == '\n' || (code == '\r' && !is_half_of_crlf)) {
      line++;
      column = 1;
    } else {
      column++;
    }
  }
  return FPL_OK;
}

struct reader {
  yaml_parser_t parser;
  struct fpl_arena *arena;
  struct fpl_err *err;
  const char *file;
  const char *text;
  size_t length;
  size_t byte, character; /* the same place, counted both ways; moves forward only */
  struct fpl_yaml *pending;
  size_t n_pending, capacity;
  size_t n_nodes;
};

static int line_of(yaml_mark_t mark) {
  return (int)mark.line + 1;
}

static int column_of(yaml_mark_t mark) {
  return (int)mark.column + 1;
}

static enum fpl_status fail_memory(struct fpl_err *err) {
  return fpl_fail(err, FPL_NO_MEMORY, "out of memory while reading YAML");
}

static enum fpl_status next_event(struct reader *r, yaml_event_t *event) {
  if (yaml_parser_parse(&r->parser, event))
    return FPL_OK;
  if (r->parser.error == YAML_MEMORY_ERROR)
    return fail_memory(r->err);
  return fail_at(r->err, r->file, line_of(r->parser.problem_mark),
                 column_of(r->parser.problem_mark),
                 "%s: fix the YAML syntax, for example its indentation or quotes",
                 r->parser.problem ? r->parser.problem : "malformed YAML");
}

/* First byte of the text at a mark (libyaml counts characters); marks come in order. */
static char byte_at(struct reader *r, yaml_mark_t mark) {
  while (r->character < mark.index && r->byte < r->length) {
    r->byte++;
    while (r->byte < r->length && ((unsigned char)r->text[r->byte] & 0xc0) == 0x80)
      r->byte++;
    r->character++;
  }
  return r->byte < r->length ? r->text[r->byte] : '\0';
}

/* Anchors, aliases and tags. A lone "!" before a plain scalar leaves no trace in the event, hence
 * the look at the text. */
static enum fpl_status check_event(struct reader *r, const yaml_event_t *event) {
  const int line = line_of(event->start_mark), column = column_of(event->start_mark);
  const char *what = byte_at(r, event->start_mark) == '!' ? "tag" : NULL;
  if (event->type == YAML_ALIAS_EVENT)
    return fail_at(r->err, r->file, line, column, "alias: write the value out");
  const yaml_char_t *anchor = NULL, *tag = NULL;
  if (event->type == YAML_SCALAR_EVENT) {
    anchor = event->data.scalar.anchor;
    tag = event->data.scalar.tag;
  } else if (event->type == YAML_SEQUENCE_START_EVENT) {
    anchor = event->data.sequence_start.anchor;
    tag = event->data.sequence_start.tag;
  } else if (event->type == YAML_MAPPING_START_EVENT) {
    anchor = event->data.mapping_start.anchor;
    tag = event->data.mapping_start.tag;
  }
  if (tag)
    what = "tag";
  if (anchor)
    what = "anchor";
  return what ? fail_at(r->err, r->file, line, column, "%s: remove it", what) : FPL_OK;
}

static enum fpl_status copy_scalar(struct reader *r, const yaml_event_t *event, const char **out) {
  const char *const value = (const char *)event->data.scalar.value;
  const size_t length = event->data.scalar.length;
  if (memchr(value, '\0', length))
    return fail_at(r->err, r->file, line_of(event->start_mark), column_of(event->start_mark),
                   "NUL character in a text: remove it");
  *out = fpl_arena_copy(r->arena, value, length);
  return *out ? FPL_OK : fail_memory(r->err);
}

static enum fpl_status push_pending(struct reader *r, const struct fpl_yaml *node) {
  if (r->n_pending == r->capacity) {
    const size_t capacity = r->capacity ? 2 * r->capacity : 64;
    struct fpl_yaml *const grown = realloc(r->pending, capacity * sizeof *grown);
    if (!grown)
      return fail_memory(r->err);
    r->pending = grown;
    r->capacity = capacity;
  }
  r->pending[r->n_pending++] = *node;
  return FPL_OK;
}

static int compare_keys(const void *left, const void *right) {
  const struct fpl_yaml *const a = *(const struct fpl_yaml *const *)left;
  const struct fpl_yaml *const b = *(const struct fpl_yaml *const *)right;
  const int order = strcmp(a->key, b->key);
  return order != 0 ? order : (a > b) - (a < b);
}

/* By sorting: a file of a million keys is legal input and must not cost 10^12 comparisons. */
static enum fpl_status check_duplicates(const struct fpl_yaml *map, struct fpl_err *err) {
  if (map->n_children < 2)
    return FPL_OK;
  const struct fpl_yaml **const sorted = malloc(map->n_children * sizeof *sorted);
  if (!sorted)
    return fail_memory(err);
  for (size_t i = 0; i < map->n_children; i++)
    sorted[i] = &map->children[i];
  qsort(sorted, map->n_children, sizeof *sorted, compare_keys);
  const struct fpl_yaml *first = NULL, *again = NULL;
  for (size_t i = 1; i < map->n_children; i++) {
    if (strcmp(sorted[i - 1]->key, sorted[i]->key) == 0 && (!again || sorted[i] < again)) {
      first = sorted[i - 1];
      again = sorted[i];
    }
  }
  free(sorted);
  if (!again)
    return FPL_OK;
  return fail_at(err, again->file, again->key_line, again->key_column,
                 "duplicate key '%.*s', first on line %d: keep one", VALUE_SHOWN, again->key,
                 first->key_line);
}

/* Moves what waits above `base` into `out`. */
static enum fpl_status take_children(struct reader *r, size_t base, struct fpl_yaml *out) {
  out->n_children = r->n_pending - base;
  r->n_pending = base;
  if (out->n_children == 0)
    return FPL_OK;
  out->children = fpl_arena_alloc(r->arena, out->n_children * sizeof *out->children);
  if (!out->children)
    return fail_memory(r->err);
  memcpy(out->children, r->pending + base, out->n_children * sizeof *out->children);
  return out->kind == FPL_YAML_MAP ? check_duplicates(out, r->err) : FPL_OK;
}

static enum fpl_status read_node(struct reader *r, int depth, const yaml_event_t *event,
                                 struct fpl_yaml *out);

/* A key event and the value that follows. */
static enum fpl_status read_pair(struct reader *r, int depth, const yaml_event_t *key_event,
                                 struct fpl_yaml *out) {
  enum fpl_status status = check_event(r, key_event);
  if (status != FPL_OK)
    return status;
  const int line = line_of(key_event->start_mark), column = column_of(key_event->start_mark);
  if (key_event->type != YAML_SCALAR_EVENT ||
      key_event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE || key_event->data.scalar.length == 0)
    return fail_at(r->err, r->file, line, column,
                   "key is not a plain word: write it without quotes or brackets");
  const char *key = NULL;
  status = copy_scalar(r, key_event, &key);
  if (status != FPL_OK)
    return status;
  yaml_event_t event;
  status = next_event(r, &event);
  if (status != FPL_OK)
    return status;
  status = read_node(r, depth, &event, out);
  yaml_event_delete(&event);
  out->key = key;
  out->key_line = line;
  out->key_column = column;
  return status;
}

static enum fpl_status read_children(struct reader *r, int depth, struct fpl_yaml *out) {
  if (depth > FPL_YAML_DEPTH)
    return fpl_yaml_fail(out, r->err, "nesting is deeper than %d: flatten it", FPL_YAML_DEPTH);
  const size_t base = r->n_pending;
  for (;;) {
    yaml_event_t event;
    enum fpl_status status = next_event(r, &event);
    if (status != FPL_OK)
      return status;
    const bool is_end =
        event.type == YAML_SEQUENCE_END_EVENT || event.type == YAML_MAPPING_END_EVENT;
    struct fpl_yaml child;
    if (!is_end)
      status = out->kind == FPL_YAML_MAP ? read_pair(r, depth, &event, &child)
                                         : read_node(r, depth, &event, &child);
    yaml_event_delete(&event);
    if (is_end)
      return take_children(r, base, out);
    if (status == FPL_OK)
      status = push_pending(r, &child);
    if (status != FPL_OK)
      return status;
  }
}

/* `depth`: containers around the node. */
static enum fpl_status read_node(struct reader *r, int depth, const yaml_event_t *event,
                                 struct fpl_yaml *out) {
  *out = (struct fpl_yaml){.file = r->file,
                           .line = line_of(event->start_mark),
                           .column = column_of(event->start_mark),
                           .text = ""};
  const enum fpl_status status = check_event(r, event);
  if (status != FPL_OK)
    return status;
  if (++r->n_nodes > FPL_YAML_NODES)
    return fpl_yaml_fail(out, r->err, "more than %d values: split the file", FPL_YAML_NODES);
  if (event->type == YAML_SCALAR_EVENT) {
    out->is_quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    return copy_scalar(r, event, &out->text);
  }
  out->kind = event->type == YAML_MAPPING_START_EVENT ? FPL_YAML_MAP : FPL_YAML_LIST;
  return read_children(r, depth + 1, out);
}

static enum fpl_status fail_empty(struct reader *r) {
  return fail_at(r->err, r->file, 1, 1, "empty document: write a map of keys and values");
}

/* The root: from the document's start to its node's end. */
static enum fpl_status read_document(struct reader *r, struct fpl_yaml *root) {
  yaml_event_t event;
  enum fpl_status status = next_event(r, &event);
  if (status != FPL_OK)
    return status;
  const bool is_empty = event.type == YAML_STREAM_END_EVENT;
  const bool has_directive = !is_empty && (event.data.document_start.version_directive ||
                                           event.data.document_start.tag_directives.start !=
                                               event.data.document_start.tag_directives.end);
  const int line = line_of(event.start_mark), column = column_of(event.start_mark);
  yaml_event_delete(&event);
  if (is_empty)
    return fail_empty(r);
  if (has_directive)
    return fail_at(r->err, r->file, line, column, "directive: remove the line");
  status = next_event(r, &event);
  if (status != FPL_OK)
    return status;
  status = read_node(r, 0, &event, root);
  yaml_event_delete(&event);
  if (status == FPL_OK && root->kind == FPL_YAML_SCALAR && !root->is_quoted && !*root->text)
    return fail_empty(r);
  return status;
}

/* Nothing but the ends of document and stream may follow the root. */
static enum fpl_status read_end(struct reader *r) {
  for (;;) {
    yaml_event_t event;
    const enum fpl_status status = next_event(r, &event);
    if (status != FPL_OK)
      return status;
    const yaml_event_type_t type = event.type;
    const int line = line_of(event.start_mark), column = column_of(event.start_mark);
    yaml_event_delete(&event);
    if (type == YAML_STREAM_END_EVENT)
      return FPL_OK;
    if (type == YAML_DOCUMENT_START_EVENT)
      return fail_at(r->err, r->file, line, column, "second document: keep one a file");
  }
}

static enum fpl_status read_stream(struct reader *r, struct fpl_yaml *root) {
  yaml_event_t event;
  enum fpl_status status = next_event(r, &event);
  if (status != FPL_OK)
    return status;
  yaml_event_delete(&event);
  status = read_document(r, root);
  return status == FPL_OK ? read_end(r) : status;
}

enum fpl_status fpl_yaml_parse(struct fpl_arena *arena, const char *file, const char *text,
                               size_t length, struct fpl_yaml **out, struct fpl_err *err) {
  const enum fpl_status checked = check_bytes(file, text, length, err);
  if (checked != FPL_OK)
    return checked;
  struct fpl_yaml *const root = fpl_arena_alloc(arena, sizeof *root);
  const char *const name = fpl_arena_copy(arena, file, strlen(file));
  struct reader r = {.arena = arena, .err = err, .file = name, .text = text, .length = length};
  if (!root || !name || !yaml_parser_initialize(&r.parser))
    return fail_memory(err);
  yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
  yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, length);
  const enum fpl_status status = read_stream(&r, root);
  yaml_parser_delete(&r.parser);
  free(r.pending);
  if (status == FPL_OK)
    *out = root;
  return status;
}

enum fpl_status fpl_yaml_read(struct fpl_arena *arena, const char *path, struct fpl_yaml **out,
                              struct fpl_err *err) {
  char *text = NULL;
  size_t length = 0;
  const enum fpl_status status = fpl_file_read(arena, path, FPL_YAML_BYTES, &text, &length, err);
  if (status == FPL_PARSE)
    return fail_at(err, path, 1, 1, "file is larger than %d bytes: split it", FPL_YAML_BYTES);
  return status == FPL_OK ? fpl_yaml_parse(arena, path, text, length, out, err) : status;
}

/* Edit distance (Levenshtein) of the first KEY_COMPARED characters. */
static size_t edit_distance(const char *a, const char *b) {
  size_t row[KEY_COMPARED + 1];
  const size_t n_a = strnlen(a, KEY_COMPARED), n_b = strnlen(b, KEY_COMPARED);
  for (size_t j = 0; j <= n_b; j++)
    row[j] = j;
  for (size_t i = 1; i <= n_a; i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= n_b; j++) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      const size_t moved = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
      diagonal = row[j];
      row[j] = replaced < moved ? replaced : moved;
    }
  }
  return row[n_b];
}

static const char *nearest_name(const char *const *names, const char *name) {
  const char *best = names[0];
  for (size_t i = 1; names[i]; i++)
    if (edit_distance(names[i], name) < edit_distance(best, name))
      best = names[i];
  return best;
}

static enum fpl_status check_map(const struct fpl_yaml *at, struct fpl_err *err) {
  if (at->kind == FPL_YAML_MAP)
    return FPL_OK;
  return fpl_yaml_fail(at, err, "%s%s is %s: write a map of keys and values",
                       at->key ? "value of " : "this", at->key ? at->key : "",
                       kind_names[at->kind]);
}

enum fpl_status fpl_yaml_only_keys(const struct fpl_yaml *at, const char *const *keys,
                                   struct fpl_err *err) {
  const enum fpl_status status = check_map(at, err);
  if (status != FPL_OK)
    return status;
  for (size_t i = 0; i < at->n_children; i++) {
    const struct fpl_yaml *const child = &at->children[i];
    if (fpl_name_index(keys, child->key) < 0)
      return fail_at(err, child->file, child->key_line, child->key_column,
                     "unknown key '%.*s': did you mean '%s'?", VALUE_SHOWN, child->key,
                     nearest_name(keys, child->key));
  }
  return FPL_OK;
}

const struct fpl_yaml *fpl_yaml_find(const struct fpl_yaml *map, const char *key) {
  if (map->kind == FPL_YAML_MAP)
    for (size_t i = 0; i < map->n_children; i++)
      if (strcmp(map->children[i].key, key) == 0)
        return &map->children[i];
  return NULL;
}

/* A scalar child with a value; *out stays NULL when it is missing and may be. */
static enum fpl_status find_scalar(const struct fpl_yaml *map, const char *key, bool is_optional,
                                   const char *wanted, const struct fpl_yaml **out,
                                   struct fpl_err *err) {
  *out = NULL;
  const enum fpl_status status = check_map(map, err);
  if (status != FPL_OK)
    return status;
  const struct fpl_yaml *const child = fpl_yaml_find(map, key);
  if (!child)
    return is_optional ? FPL_OK : fpl_yaml_fail(map, err, "key '%s' is missing: add it", key);
  if (child->kind != FPL_YAML_SCALAR)
    return fpl_yaml_fail(child, err, "%s is %s: write %s", key, kind_names[child->kind], wanted);
  if (!child->is_quoted && !*child->text)
    return fpl_yaml_fail(child, err, "%s has no value: write %s", key, wanted);
  *out = child;
  return FPL_OK;
}

static enum fpl_status find_number(const struct fpl_yaml *map, const char *key, bool is_optional,
                                   const char *wanted, const struct fpl_yaml **out,
                                   struct fpl_err *err) {
  const enum fpl_status status = find_scalar(map, key, is_optional, wanted, out, err);
  if (status == FPL_OK && *out && (*out)->is_quoted)
    return fpl_yaml_fail(*out, err, "%s is a quoted text: write %s without quotes", key, wanted);
  return status;
}

enum fpl_status fpl_yaml_get_i64(const struct fpl_yaml *map, const char *key, int64_t least,
                                 int64_t most, const int64_t *fallback, int64_t *out,
                                 struct fpl_err *err) {
  const struct fpl_yaml *node = NULL;
  const enum fpl_status status =
      find_number(map, key, fallback != NULL, "a whole number", &node, err);
  if (status != FPL_OK)
    return status;
  if (!node) {
    *out = *fallback;
    return FPL_OK;
  }
  if (fpl_parse_i64(node->text, least, most, out))
    return FPL_OK;
  const char *const digits = node->text + (*node->text == '-');
  const bool is_digits = *digits && strspn(digits, "0123456789") == strlen(digits);
  if (is_digits && digits[0] == '0' && digits[1])
    return fpl_yaml_fail(node, err, "%s '%.*s' has a leading zero: write it without", key,
                         VALUE_SHOWN, node->text);
  if (is_digits && least == most)
    return fpl_yaml_fail(node, err, "%s is %.*s: it must be %lld", key, VALUE_SHOWN, node->text,
                         (long long)least);
  if (is_digits)
    return fpl_yaml_fail(node, err, "%s %.*s is out of range: it must lie between %lld and %lld",
                         key, VALUE_SHOWN, node->text, (long long)least, (long long)most);
  return fpl_yaml_fail(node, err, "%s '%.*s' is not a whole number: write digits only", key,
                       VALUE_SHOWN, node->text);
}

enum fpl_status fpl_yaml_get_f64(const struct fpl_yaml *map, const char *key, double least,
                                 double most, const double *fallback, double *out,
                                 struct fpl_err *err) {
  const struct fpl_yaml *node = NULL;
  const enum fpl_status status = find_number(map, key, fallback != NULL, "a number", &node, err);
  if (status != FPL_OK)
    return status;
  if (!node) {
    *out = *fallback;
    return FPL_OK;
  }
  double value = 0;
  if (!fpl_parse_f64(node->text, &value))
    return fpl_yaml_fail(node, err, "%s '%.*s' is not a finite number: write one such as 4.5", key,
                         VALUE_SHOWN, node->text);
  if (value < least || value > most)
    return fpl_yaml_fail(node, err, "%s %.*s is out of range: it must lie between %g and %g", key,
                         VALUE_SHOWN, node->text, least, most);
  *out = value;
  return FPL_OK;
}

enum fpl_status fpl_yaml_get_text(const struct fpl_yaml *map, const char *key, const char *fallback,
                                  const char **out, struct fpl_err *err) {
  const struct fpl_yaml *node = NULL;
  const enum fpl_status status = find_scalar(map, key, fallback != NULL, "a text", &node, err);
  if (status == FPL_OK)
    *out = node ? node->text : fallback;
  return status;
}

enum fpl_status fpl_yaml_get_name(const struct fpl_yaml *map, const char *key,
                                  const char *const *names, int fallback, int *out,
                                  struct fpl_err *err) {
  const struct fpl_yaml *node = NULL;
  const enum fpl_status status = find_scalar(map, key, fallback >= 0, "a name", &node, err);
  if (status != FPL_OK)
    return status;
  const int index = node ? fpl_name_index(names, node->text) : fallback;
  if (index >= 0) {
    *out = index;
    return FPL_OK;
  }
  char list[160] = "";
  for (size_t i = 0, used = 0; names[i] && used < sizeof list; i++)
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
  return fpl_yaml_fail(node, err, "%s '%.*s' is unknown: use one of %s", key, VALUE_SHOWN,
                       node->text, list);
}
