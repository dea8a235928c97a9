/* The inside of the library: the store behind its handle, and what its files share.
 *
 * A layer is one database, with its answers in memory: SQLite allocates in every statement, and a
 * connection belongs to one thread. So lookups read a sorted array that never changes after
 * opening, without a lock, and the one read connection behind a mutex, not a pool of them, serves
 * what is rare: device classes and cubins. */
#ifndef FPL_LIB_STORE_H
#define FPL_LIB_STORE_H

#include "db/db.h"
#include "tuner/lib/fuseplan.h"

#include <pthread.h>

/* A plan that may answer. */
struct fpl_stored_answer {
  char problem_key[FPL_KEY_HEX], device_class_key[FPL_KEY_HEX];
  int64_t driver; /* of its measurement, 13000 for CUDA 13.0; 0: not known */
  struct fuseplan_answer answer;
};

struct fpl_layer {
  struct fpl_db *db;
  pthread_mutex_t lock;              /* of the connection and its statements */
  struct fpl_stored_answer *answers; /* by problem, device class, then the best first */
  size_t n_answers;
};

struct fpl_driver;
struct fpl_module;

struct fuseplan_store {
  struct fpl_layer *layers; /* the first one answers first */
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
int fpl_answer(enum fpl_status status, const struct fpl_err *err, struct fuseplan_message *message);

/* Reads the answers of layer number `index`, whose connection is open. */
enum fpl_status fpl_layer_read(struct fpl_layer *layer, int index, struct fpl_err *err);

/* Opens libcuda when that was not done yet. Under the store's lock. */
enum fpl_status fpl_store_driver(struct fuseplan_store *store, struct fpl_err *err);

#endif
