/* Text import: any bytes are refused with one line or imported; what was imported survives
 * export, import and export unchanged. */
#include "db/db.h"

#include "tuner/base/str.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum fpl_status append(void *context, const char *bytes, size_t length,
                              struct fpl_err *err) {
  (void)err;
  fpl_text_append_bytes(context, bytes, length);
  return FPL_OK;
}

static void require(bool is_so) {
  if (!is_so)
    abort();
}

static struct fpl_db *open_empty(void) {
  struct fpl_db *db = NULL;
  struct fpl_err err = {0};
  require(fpl_db_open(":memory:", FPL_DB_CREATE, &db, &err) == FPL_OK);
  return db;
}

static struct fpl_text export_all(struct fpl_db *db) {
  struct fpl_text text = {0};
  struct fpl_err err = {0};
  require(fpl_db_export(db, true, append, &text, &err) == FPL_OK && !text.is_broken);
  return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fpl_db *const first = open_empty();
  struct fpl_import_counts counts;
  struct fpl_err err = {0};
  const enum fpl_status status =
      fpl_db_import(first, "fuzz", (const char *)data, size, &counts, &err);
  require(status == FPL_OK || (status == FPL_PARSE && !strchr(err.text, '\n')));
  struct fpl_text text = export_all(first);
  struct fpl_db *const second = open_empty();
  require(fpl_db_import(second, "again", text.text, text.length, &counts, &err) == FPL_OK);
  struct fpl_text again = export_all(second);
  require(again.length == text.length && memcmp(again.text, text.text, text.length) == 0);
  fpl_text_free(&text);
  fpl_text_free(&again);
  fpl_db_close(first);
  fpl_db_close(second);
  return 0;
}
