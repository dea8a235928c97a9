/* Decides when a worker is given up. Every failure that leaves the worker in doubt (late, gone,
 * unreadable, sticky) ends it with SIGKILL at once: a context after a fault proves nothing, and a
 * worker that hangs in the driver does not hear SIGTERM. */
#define _POSIX_C_SOURCE 200809L
#include "tuner/measure/pool.h"

#include "tuner/base/str.h"
#include "tuner/base/sys.h"
#include "tuner/measure/protocol.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPEN_ATTEMPTS = 2 };
static const double CLOSE_US = 2e6;  /* unloading modules and freeing buffers takes far less */
static const double END_US = 1e6;    /* from the end of its stdout to the end of the process */
static const double UNLOAD_US = 1e7; /* frees memory, which waits for the device */

struct fpl_pool {
  char *self_path;
  double open_timeout_us, load_timeout_us;
  struct fpl_child child;
  bool is_running; /* a process exists */
  bool is_ready;   /* it is open and has all loads */
  json_t *open_request;
  json_t *environment;
  json_t **loads; /* [n_ids]; NULL: not loaded */
  int n_ids;
};

void fpl_reply_free(struct fpl_reply *reply) {
  json_decref(reply->json);
  reply->json = NULL;
}

enum fpl_status fpl_pool_open(const struct fpl_pool_options *options, struct json_t *open_request,
                              struct fpl_pool **out, struct fpl_err *err) {
  struct fpl_pool *const pool = calloc(1, sizeof *pool);
  *out = NULL;
  if (!pool) {
    json_decref(open_request);
    return fpl_fail(err, FPL_NO_MEMORY, "no memory for a worker");
  }
  pool->self_path = strdup(options->self_path);
  pool->open_timeout_us = options->open_timeout_us;
  pool->load_timeout_us = options->load_timeout_us;
  pool->open_request = open_request;
  pool->loads = calloc((size_t)options->n_ids + 1, sizeof(json_t *));
  pool->n_ids = options->n_ids;
  if (!pool->self_path || !pool->open_request || !pool->loads) {
    fpl_pool_close(pool);
    return fpl_fail(err, FPL_NO_MEMORY, "no memory for a worker");
  }
  *out = pool;
  return FPL_OK;
}

static void kill_worker(struct fpl_pool *pool) {
  fpl_child_kill(&pool->child);
  pool->is_running = false;
  pool->is_ready = false;
}

void fpl_pool_close(struct fpl_pool *pool) {
  if (!pool)
    return;
  if (pool->is_running) {
    struct fpl_reply reply;
    fpl_pool_request(pool, json_pack("{s:s}", "op", "close"), CLOSE_US, &reply);
    fpl_reply_free(&reply);
    int code = 0;
    if (pool->is_running)
      (void)fpl_child_wait(&pool->child, CLOSE_US, &code, NULL);
    kill_worker(pool);
  }
  for (int id = 0; pool->loads && id < pool->n_ids; id++)
    json_decref(pool->loads[id]);
  json_decref(pool->open_request);
  json_decref(pool->environment);
  free(pool->loads);
  free(pool->self_path);
  free(pool);
}

bool fpl_pool_is_running(const struct fpl_pool *pool) {
  return pool->is_running;
}

const struct json_t *fpl_pool_environment(const struct fpl_pool *pool) {
  return pool->environment;
}

int fpl_pool_pid(const struct fpl_pool *pool) {
  return pool->is_running ? pool->child.pid : 0;
}

static void set_fault(struct fpl_pool *pool, enum fpl_outcome outcome, struct fpl_reply *out) {
  kill_worker(pool);
  out->kind = FPL_REPLY_FAULT;
  out->outcome = outcome;
}

/* The pipe is closed, or carries no message of ours: how did the worker end? */
static void report_lost(struct fpl_pool *pool, const char *why, struct fpl_reply *out) {
  int code = 0;
  const enum fpl_status status = fpl_child_wait(&pool->child, END_US, &code, NULL);
  if (status != FPL_OK)
    snprintf(out->reason, sizeof out->reason, "worker killed: %.200s", why);
  else if (code > 128)
    snprintf(out->reason, sizeof out->reason, "worker ended by signal %d (%s)", code - 128,
             strsignal(code - 128));
  else
    snprintf(out->reason, sizeof out->reason, "worker ended with code %d", code);
  set_fault(pool, FPL_OUTCOME_WORKER_LOST, out);
}

/* {"ok":false,...}; "none" is a failure of the device, which a fresh worker may survive. */
static void read_failure(struct fpl_pool *pool, const json_t *answer, struct fpl_reply *out) {
  const char *const name = json_string_value(json_object_get(answer, "outcome"));
  const char *const reason = json_string_value(json_object_get(answer, "reason"));
  const int index = name ? fpl_name_index(fpl_outcome_names, name) : -1;
  snprintf(out->reason, sizeof out->reason, "%s", reason ? reason : "no reason given");
  if (index <= FPL_OUTCOME_OK) {
    set_fault(pool, FPL_OUTCOME_WORKER_LOST, out);
  } else if (json_is_true(json_object_get(answer, "sticky"))) {
    set_fault(pool, (enum fpl_outcome)index, out);
  } else {
    out->kind = FPL_REPLY_REFUSED;
    out->outcome = (enum fpl_outcome)index;
  }
}

static void read_answer(struct fpl_pool *pool, const char *bytes, size_t length,
                        struct fpl_reply *out) {
  json_error_t error;
  json_t *const answer = length <= FPL_PROTOCOL_MOST_BYTES
                             ? json_loadb(bytes, length, JSON_REJECT_DUPLICATES, &error)
                             : NULL;
  const json_t *const ok = json_object_get(answer, "ok");
  if (!json_is_boolean(ok)) {
    snprintf(out->reason, sizeof out->reason, "worker sent an unreadable answer of %zu bytes",
             length);
    set_fault(pool, FPL_OUTCOME_WORKER_LOST, out);
  } else if (json_is_true(ok)) {
    out->kind = FPL_REPLY_OK;
    out->outcome = FPL_OUTCOME_OK;
    out->json = json_incref(answer);
  } else {
    read_failure(pool, answer, out);
  }
  json_decref(answer);
}

static void exchange(struct fpl_pool *pool, const json_t *request, double timeout_us,
                     struct fpl_reply *out) {
  *out = (struct fpl_reply){.kind = FPL_REPLY_FAULT, .outcome = FPL_OUTCOME_WORKER_LOST};
  char *const text = request ? json_dumps(request, JSON_COMPACT) : NULL;
  if (!pool->is_running || !text) {
    snprintf(out->reason, sizeof out->reason, "%s",
             pool->is_running ? "no memory for a request" : "no worker is running");
    free(text);
    return;
  }
  struct fpl_arena arena = {0};
  struct fpl_err err = {0};
  char *bytes = NULL;
  size_t length = 0;
  enum fpl_status status =
      fpl_pipe_write(pool->child.to_child, text, strlen(text), timeout_us, &err);
  if (status == FPL_OK)
    status = fpl_pipe_read(pool->child.from_child, timeout_us, &arena, &bytes, &length, &err);
  if (status == FPL_OK) {
    read_answer(pool, bytes, length, out);
  } else if (status == FPL_IO_TIMEOUT) {
    snprintf(out->reason, sizeof out->reason, "no answer within %.3g s: worker killed",
             timeout_us * 1e-6);
    set_fault(pool, FPL_OUTCOME_RUN_TIMEOUT, out);
  } else {
    report_lost(pool, err.text, out);
  }
  fpl_arena_free(&arena);
  free(text);
}

void fpl_pool_request(struct fpl_pool *pool, struct json_t *request, double timeout_us,
                      struct fpl_reply *out) {
  exchange(pool, request, timeout_us, out);
  json_decref(request);
}

void fpl_pool_load(struct fpl_pool *pool, int id, struct json_t *request, struct fpl_reply *out) {
  exchange(pool, request, pool->load_timeout_us, out);
  if (out->kind == FPL_REPLY_OK) {
    json_decref(pool->loads[id]);
    pool->loads[id] = json_incref(request);
  }
  json_decref(request);
}

void fpl_pool_unload(struct fpl_pool *pool, int id) {
  if (!pool->loads[id])
    return;
  json_decref(pool->loads[id]);
  pool->loads[id] = NULL;
  if (!pool->is_ready)
    return;
  struct fpl_reply reply; /* a fault here is seen by the next fpl_pool_ready */
  fpl_pool_request(pool, json_pack("{s:s,s:i}", "op", "unload", "id", id), UNLOAD_US, &reply);
  fpl_reply_free(&reply);
}

/* Starts a process and opens it; tries again once. */
static enum fpl_status start_worker(struct fpl_pool *pool, struct fpl_err *err) {
  const char *const argv[] = {pool->self_path, "worker", NULL};
  struct fpl_reply reply = {0};
  for (int attempt = 0; attempt < OPEN_ATTEMPTS; attempt++) {
    const enum fpl_status status = fpl_child_start(argv, FPL_STDERR_SHARED, &pool->child, err);
    if (status != FPL_OK)
      return status;
    pool->is_running = true;
    exchange(pool, pool->open_request, pool->open_timeout_us, &reply);
    if (reply.kind == FPL_REPLY_OK) {
      json_decref(pool->environment);
      pool->environment = json_incref(json_object_get(reply.json, "environment"));
      fpl_reply_free(&reply);
      return FPL_OK;
    }
    kill_worker(pool);
  }
  return fpl_fail(err, FPL_DEVICE, "no usable device: worker failed to open it %d times: %s",
                  (int)OPEN_ATTEMPTS, reply.reason);
}

/* Loads again what is remembered, until done or until the worker is lost. */
static void load_again(struct fpl_pool *pool, fpl_pool_dropped *dropped, void *context) {
  for (int id = 0; id < pool->n_ids && pool->is_running; id++) {
    if (!pool->loads[id])
      continue;
    struct fpl_reply reply;
    exchange(pool, pool->loads[id], pool->load_timeout_us, &reply);
    if (reply.kind != FPL_REPLY_OK) {
      json_decref(pool->loads[id]);
      pool->loads[id] = NULL;
      dropped(context, id, &reply);
    }
    fpl_reply_free(&reply);
  }
}

enum fpl_status fpl_pool_ready(struct fpl_pool *pool, fpl_pool_dropped *dropped, void *context,
                               struct fpl_err *err) {
  /* Ends: each turn that loses the worker also loses a load. */
  while (!pool->is_ready || !pool->is_running) {
    const enum fpl_status status = start_worker(pool, err);
    if (status != FPL_OK)
      return status;
    load_again(pool, dropped, context);
    pool->is_ready = pool->is_running;
  }
  return FPL_OK;
}
