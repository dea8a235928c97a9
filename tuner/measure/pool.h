/* One worker process: started, asked with a deadline, killed, started again.
 *
 * Speaks tuner/measure/protocol.h and never touches CUDA itself. It remembers the "open" request
 * and every "load" that succeeded, so that after a fault a fresh worker is brought to the same
 * state. The worker shares our stderr.
 */
#ifndef FPL_MEASURE_POOL_H
#define FPL_MEASURE_POOL_H

#include "tuner/base/status.h"
#include "tuner/core/outcome.h"

#include <stdbool.h>

struct json_t; /* jansson.h */

enum fpl_reply_kind {
  FPL_REPLY_OK,
  FPL_REPLY_REFUSED, /* the candidate failed; the worker lives */
  FPL_REPLY_FAULT    /* the worker is gone: past its deadline, ended, unreadable, or sticky */
};

enum { FPL_REPLY_REASON = 256 };

struct fpl_reply {
  enum fpl_reply_kind kind;
  enum fpl_outcome outcome;      /* FPL_OUTCOME_OK, or what became of the candidate */
  char reason[FPL_REPLY_REASON]; /* of a failure; one line */
  struct json_t *json;           /* owned; the answer, when kind is FPL_REPLY_OK */
};
void fpl_reply_free(struct fpl_reply *reply);

struct fpl_pool_options {
  const char *self_path; /* argv[0] of the worker; argv[1] is "worker" */
  double open_timeout_us;
  double load_timeout_us;
  int n_ids; /* ids of loads are 0 .. n_ids - 1 */
};

struct fpl_pool;

/* Starts no process yet. Takes `open_request` over, also on failure. Errors: FPL_NO_MEMORY. */
enum fpl_status fpl_pool_open(const struct fpl_pool_options *options, struct json_t *open_request,
                              struct fpl_pool **out, struct fpl_err *err);
/* Asks the worker to close, waits briefly, kills what is left. NULL is allowed. */
void fpl_pool_close(struct fpl_pool *pool);

/* Called for a load that succeeded before and fails in a fresh worker; it is forgotten. */
typedef void fpl_pool_dropped(void *context, int id, const struct fpl_reply *reply);

/* Makes sure that a worker runs, is open and has everything loaded; does nothing when one does.
 * Errors: FPL_DEVICE when opening fails twice in a row. */
enum fpl_status fpl_pool_ready(struct fpl_pool *pool, fpl_pool_dropped *dropped, void *context,
                               struct fpl_err *err);
bool fpl_pool_is_running(const struct fpl_pool *pool);
/* The "environment" object of the latest "open"; NULL before. Owned by the pool. */
const struct json_t *fpl_pool_environment(const struct fpl_pool *pool);
/* Process id of the worker; 0 when none runs. */
int fpl_pool_pid(const struct fpl_pool *pool);

/* One request, one answer. Takes `request` over. A FPL_REPLY_FAULT leaves no worker: call
 * fpl_pool_ready before the next request. */
void fpl_pool_request(struct fpl_pool *pool, struct json_t *request, double timeout_us,
                      struct fpl_reply *out);
/* The same for a "load" of `id`, which is remembered when it succeeds. */
void fpl_pool_load(struct fpl_pool *pool, int id, struct json_t *request, struct fpl_reply *out);
/* Forgets `id`; tells the worker when one runs. */
void fpl_pool_unload(struct fpl_pool *pool, int id);

#endif
