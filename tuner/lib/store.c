/* Decides what a store holds, and what a status says to a caller. */
#include "tuner/lib/store.h"

#include "tuner/launch/resident.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_LAYERS = 64 };

static_assert((int)FUSEPLAN_OK == (int)FPL_OK, "one number for one status");
static_assert((int)FUSEPLAN_USAGE == (int)FPL_USAGE, "one number for one status");
static_assert((int)FUSEPLAN_PARSE == (int)FPL_PARSE, "one number for one status");
static_assert((int)FUSEPLAN_IO == (int)FPL_IO, "one number for one status");
static_assert((int)FUSEPLAN_DB == (int)FPL_DB, "one number for one status");
static_assert((int)FUSEPLAN_DB_BUSY == (int)FPL_DB_BUSY, "one number for one status");
static_assert((int)FUSEPLAN_DB_SCHEMA == (int)FPL_DB_SCHEMA, "one number for one status");
static_assert((int)FUSEPLAN_DB_CORRUPT == (int)FPL_DB_CORRUPT, "one number for one status");
static_assert((int)FUSEPLAN_DEVICE == (int)FPL_DEVICE, "one number for one status");
static_assert((int)FUSEPLAN_INTERNAL == (int)FPL_INTERNAL, "one number for one status");
static_assert((int)FUSEPLAN_NO_MEMORY == (int)FPL_NO_MEMORY, "one number for one status");

#define FPL_TEXT_OF(number) #number
#define FPL_EXPANDED_TEXT_OF(number) FPL_TEXT_OF(number)

const char *fuseplan_version(void) {
  return FPL_EXPANDED_TEXT_OF(FUSEPLAN_VERSION_MAJOR) "." FPL_EXPANDED_TEXT_OF(
      FUSEPLAN_VERSION_MINOR) "." FPL_EXPANDED_TEXT_OF(FUSEPLAN_VERSION_PATCH);
}

int fpl_report(enum fpl_status status, const struct fpl_err *err,
               struct fuseplan_message *message) {
  if (message && status == FPL_OK)
    message->text[0] = '\0';
  else if (message)
    snprintf(message->text, sizeof message->text, "%s", err->text);
  return (int)status;
}

static enum fpl_status open_layer(const char *path, struct fpl_layer *out, struct fpl_err *err) {
  if (fpl_snapshot_is_one(path))
    return fpl_snapshot_open(path, &out->snapshot, err);
  size_t length = 0;
  struct fpl_snapshot_counts counts;
  enum fpl_status status = fpl_db_open(path, FPL_DB_READ, &out->db, err);
  if (status == FPL_OK)
    status = fpl_snapshot_make(out->db, false, &out->bytes, &length, &counts, err);
  return status == FPL_OK ? fpl_snapshot_from_bytes(path, out->bytes, length, &out->snapshot, err)
                          : status;
}

static void close_layer(struct fpl_layer *layer) {
  fpl_snapshot_close(layer->snapshot);
  free(layer->bytes);
  fpl_db_close(layer->db);
  pthread_mutex_destroy(&layer->lock);
}

static enum fpl_status check_paths(const char *const *paths, int n_paths, struct fpl_err *err) {
  if (!paths || n_paths < 1 || n_paths > MOST_LAYERS)
    return fpl_fail(err, FPL_USAGE, "open: %d paths: give 1 to %d", paths ? n_paths : 0,
                    MOST_LAYERS);
  for (int i = 0; i < n_paths; i++)
    if (!paths[i] || !*paths[i])
      return fpl_fail(err, FPL_USAGE, "open: path %d is empty: give the path of a database", i);
  return FPL_OK;
}

static enum fpl_status make_store(const char *const *paths, int n_paths, struct fuseplan_store *out,
                                  struct fpl_err *err) {
  out->layers = calloc((size_t)n_paths, sizeof *out->layers);
  out->sources = calloc((size_t)n_paths, sizeof *out->sources);
  if (!out->layers || !out->sources)
    return fpl_fail(err, FPL_NO_MEMORY, "open: out of memory");
  enum fpl_status status = FPL_OK;
  for (int i = 0; i < n_paths && status == FPL_OK; i++) {
    pthread_mutex_init(&out->layers[i].lock, NULL);
    out->n_layers++;
    status = open_layer(paths[i], &out->layers[i], err);
    if (status == FPL_OK)
      out->sources[i] = fpl_snapshot_source(out->layers[i].snapshot);
  }
  return status;
}

int fuseplan_open(const char *const *paths, int n_paths, fuseplan_store **out,
                  struct fuseplan_message *message) {
  struct fpl_err err = {0};
  if (!out)
    return fpl_report(fpl_fail(&err, FPL_USAGE, "open: out is NULL"), &err, message);
  *out = NULL;
  enum fpl_status status = check_paths(paths, n_paths, &err);
  if (status != FPL_OK)
    return fpl_report(status, &err, message);
  struct fuseplan_store *const store = calloc(1, sizeof *store);
  if (!store)
    return fpl_report(fpl_fail(&err, FPL_NO_MEMORY, "open: out of memory"), &err, message);
  pthread_mutex_init(&store->lock, NULL);
  status = make_store(paths, n_paths, store, &err);
  if (status == FPL_OK)
    *out = store;
  else
    fuseplan_close(store);
  return fpl_report(status, &err, message);
}

void fuseplan_close(fuseplan_store *store) {
  if (!store)
    return;
  for (int i = 0; i < store->n_layers; i++)
    close_layer(&store->layers[i]);
  pthread_mutex_destroy(&store->lock);
  free(store->driver);
  free(store->sources);
  free(store->layers);
  free(store);
}

enum fpl_status fpl_store_driver(struct fuseplan_store *store, struct fpl_err *err) {
  struct fpl_failure failure = {0};
  if (store->driver || fpl_resident_driver(&store->driver, &failure))
    return FPL_OK;
  return fpl_fail(err, FPL_DEVICE, "%s", failure.reason);
}
