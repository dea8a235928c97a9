/* The inside of the library: the store behind its handle, and what its files share.
 *
 * A layer is a snapshot: a file of that format, or one made in memory from a database when the store
 * is opened, without machine code. SQLite allocates in every statement, and a connection belongs to
 * one thread; a snapshot never changes, so that lookups need neither lock nor memory. The
 * database's one connection, behind a mutex, serves what is rare: machine code. */
#ifndef FPL_LIB_STORE_H
#define FPL_LIB_STORE_H

#include "db/snapshot.h"
#include "tuner/lib/fuseplan.h"

#include <pthread.h>

struct fpl_layer {
  struct fpl_snapshot *snapshot;
  char *bytes;          /* of a snapshot in memory, heap; else NULL */
  struct fpl_db *db;    /* of a database; else NULL */
  pthread_mutex_t lock; /* of the connection */
};

struct fpl_driver;
struct fpl_module;

struct fuseplan_store {
  struct fpl_layer *layers;   /* the first one answers first */
  struct fpl_source *sources; /* one a layer */
  int n_layers;
  pthread_mutex_t lock;       /* of the two below */
  struct fpl_driver *driver;  /* NULL until a GPU is asked for */
  struct fpl_module *modules; /* loaded, by context and cubin */
};

/* The library's own outcome travels as a status: fpl_status has no such number. */
static inline enum fpl_status fpl_no_plan(void) {
  return (enum fpl_status)FUSEPLAN_NO_PLAN;
}

/* The end of a public function: the sink's line, empty after FPL_OK, to the caller. */
int fpl_report(enum fpl_status status, const struct fpl_err *err, struct fuseplan_message *message);

/* Opens libcuda when that was not done yet. Under the store's lock. */
enum fpl_status fpl_store_driver(struct fuseplan_store *store, struct fpl_err *err);

#endif
