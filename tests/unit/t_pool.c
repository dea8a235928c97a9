/* One worker process against the fake's faults: what each answer means, and what a fresh worker
 * is brought back to. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/fakes/fake_worker.h"
#include "tuner/measure/pool.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double DEADLINE_US = 10e6;
static const double HANG_US = 300e3;

enum { IDS = 4, LOG_MOST = 4096 };

struct drops {
  int n;
  int id;
  enum fpl_outcome outcome;
};

static void note_drop(void *context, int id, const struct fpl_reply *reply) {
  struct drops *const drops = context;
  drops->n++;
  drops->id = id;
  drops->outcome = reply->outcome;
}

static char log_path[64];

/* A pool whose worker follows `script`; started lazily. */
static struct fpl_pool *open_pool(const char *script, double timeout_us) {
  const struct fpl_pool_options options = {.self_path = fake_worker_path(),
                                           .open_timeout_us = timeout_us,
                                           .load_timeout_us = timeout_us,
                                           .n_ids = IDS};
  char text[512];
  struct fpl_pool *pool = NULL;
  snprintf(log_path, sizeof log_path, "/tmp/fpl-t_pool-%d.log", (int)getpid());
  unlink(log_path);
  snprintf(text, sizeof text, "log=%s %s", log_path, script);
  setenv("FPL_FAKE_SCRIPT", text, 1);
  assert_int_equal(fpl_pool_open(&options, json_pack("{s:s}", "op", "open"), &pool, NULL), FPL_OK);
  return pool;
}

static void close_pool(struct fpl_pool *pool) {
  fpl_pool_close(pool);
  unlink(log_path);
}

/* The log as one line "open -1,load 0,...". */
static const char *read_log(void) {
  static char text[LOG_MOST];
  FILE *const log = fopen(log_path, "r");
  assert_non_null(log);
  const size_t length = fread(text, 1, sizeof text - 1, log);
  fclose(log);
  text[length > 0 ? length - 1 : 0] = '\0';
  for (char *at = text; *at; at++)
    if (*at == '\n')
      *at = ',';
  return text;
}

static void be_ready(struct fpl_pool *pool) {
  struct drops drops = {0};
  struct fpl_err err = {0};
  if (fpl_pool_ready(pool, note_drop, &drops, &err) != FPL_OK)
    fail_msg("%s", err.text);
  assert_int_equal(drops.n, 0);
}

static json_t *request_of(const char *op, int id) {
  return json_pack("{s:s,s:i}", "op", op, "id", id);
}

static void load(struct fpl_pool *pool, int id) {
  struct fpl_reply reply;
  fpl_pool_load(pool, id, request_of("load", id), &reply);
  assert_int_equal(reply.kind, FPL_REPLY_OK);
  fpl_reply_free(&reply);
}

static void verify(struct fpl_pool *pool, int id, double timeout_us, struct fpl_reply *out) {
  fpl_pool_request(pool, request_of("verify", id), timeout_us, out);
}

static void answers_a_request_and_ends_when_closed(void **state) {
  (void)state;
  struct fpl_pool *const pool = open_pool("", DEADLINE_US);
  assert_null(fpl_pool_environment(pool));
  be_ready(pool);
  const int pid = fpl_pool_pid(pool);
  assert_string_equal(json_string_value(json_object_get(fpl_pool_environment(pool), "device_name")),
                      "fake");
  struct fpl_reply reply;
  verify(pool, 1, DEADLINE_US, &reply);
  assert_int_equal(reply.kind, FPL_REPLY_OK);
  assert_int_equal(reply.outcome, FPL_OUTCOME_OK);
  assert_true(json_is_true(json_object_get(reply.json, "exact")));
  fpl_reply_free(&reply);
  be_ready(pool);
  assert_int_equal(fpl_pool_pid(pool), pid); /* a worker that runs is left alone */
  fpl_pool_close(pool);
  assert_string_equal(read_log(), "open -1,verify 1,close -1");
  assert_int_equal(kill(pid, 0), -1);
  assert_int_equal(errno, ESRCH);
  unlink(log_path);
}

static void each_fault_has_its_outcome_and_reason(void **state) {
  (void)state;
  const struct {
    const char *script;
    enum fpl_reply_kind kind;
    enum fpl_outcome outcome;
    const char *reason;
  } rows[] = {
      {"hang:verify:1", FPL_REPLY_FAULT, FPL_OUTCOME_RUN_TIMEOUT, "no answer within 0.3 s"},
      {"crash:verify:1", FPL_REPLY_FAULT, FPL_OUTCOME_WORKER_LOST, "signal 11"},
      {"exit:verify:1", FPL_REPLY_FAULT, FPL_OUTCOME_WORKER_LOST, "code 3"},
      {"garbage:verify:1", FPL_REPLY_FAULT, FPL_OUTCOME_WORKER_LOST, "unreadable answer of 10"},
      {"shout:verify:1", FPL_REPLY_FAULT, FPL_OUTCOME_WORKER_LOST, "killed"},
      {"sticky:verify:1", FPL_REPLY_FAULT, FPL_OUTCOME_STICKY_ERROR, "scripted"},
      {"device:verify:1", FPL_REPLY_FAULT, FPL_OUTCOME_WORKER_LOST, "scripted"},
      {"refuse:verify:1", FPL_REPLY_REFUSED, FPL_OUTCOME_LAUNCH_ERROR, "scripted"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct fpl_pool *const pool = open_pool(rows[i].script, DEADLINE_US);
    be_ready(pool);
    const int pid = fpl_pool_pid(pool);
    struct fpl_reply reply;
    verify(pool, 1, strstr(rows[i].script, "hang") ? HANG_US : DEADLINE_US, &reply);
    if (reply.kind != rows[i].kind || reply.outcome != rows[i].outcome ||
        !strstr(reply.reason, rows[i].reason))
      fail_msg("%s: kind %d, outcome %s, reason: %s", rows[i].script, (int)reply.kind,
               fpl_outcome_names[reply.outcome], reply.reason);
    assert_null(reply.json);
    assert_int_equal(fpl_pool_is_running(pool), reply.kind == FPL_REPLY_REFUSED);
    if (reply.kind == FPL_REPLY_FAULT)
      assert_int_equal(kill(pid, 0), -1);
    be_ready(pool); /* and another candidate is served */
    verify(pool, 0, DEADLINE_US, &reply);
    assert_int_equal(reply.kind, FPL_REPLY_OK);
    fpl_reply_free(&reply);
    close_pool(pool);
  }
}

static void a_request_without_a_worker_is_a_fault(void **state) {
  (void)state;
  struct fpl_pool *const pool = open_pool("", DEADLINE_US);
  struct fpl_reply reply;
  verify(pool, 0, DEADLINE_US, &reply);
  assert_int_equal(reply.kind, FPL_REPLY_FAULT);
  assert_non_null(strstr(reply.reason, "no worker"));
  close_pool(pool);
}

static void a_fresh_worker_gets_what_was_loaded(void **state) {
  (void)state;
  struct fpl_pool *const pool = open_pool("crash:verify:1", DEADLINE_US);
  be_ready(pool);
  load(pool, 0);
  load(pool, 1);
  load(pool, 2);
  load(pool, 3);
  fpl_pool_unload(pool, 3);
  struct fpl_reply reply;
  verify(pool, 1, DEADLINE_US, &reply);
  fpl_pool_unload(pool, 1);
  be_ready(pool);
  assert_string_equal(read_log(), "open -1,load 0,load 1,load 2,load 3,unload 3,verify 1,"
                                  "open -1,load 0,load 2");
  close_pool(pool);
}

static void a_load_that_fails_again_is_dropped_and_the_rest_kept(void **state) {
  (void)state;
  struct fpl_pool *const pool = open_pool("crash:verify:3 hang:load:1@2", 5 * HANG_US);
  be_ready(pool);
  for (int id = 0; id < IDS; id++)
    load(pool, id);
  struct fpl_reply reply;
  verify(pool, 3, DEADLINE_US, &reply);
  fpl_pool_unload(pool, 3);
  struct drops drops = {0};
  assert_int_equal(fpl_pool_ready(pool, note_drop, &drops, NULL), FPL_OK);
  assert_int_equal(drops.n, 1);
  assert_int_equal(drops.id, 1);
  assert_int_equal(drops.outcome, FPL_OUTCOME_RUN_TIMEOUT);
  assert_non_null(strstr(read_log(), "verify 3,open -1,load 0,load 1,open -1,load 0,load 2"));
  close_pool(pool);
}

static void a_load_that_fails_is_not_remembered(void **state) {
  (void)state;
  struct fpl_pool *const pool = open_pool("crash:load:1", DEADLINE_US);
  be_ready(pool);
  load(pool, 0);
  struct fpl_reply reply;
  fpl_pool_load(pool, 1, request_of("load", 1), &reply);
  assert_int_equal(reply.outcome, FPL_OUTCOME_WORKER_LOST);
  be_ready(pool);
  assert_string_equal(read_log(), "open -1,load 0,load 1,open -1,load 0");
  close_pool(pool);
}

static void opening_is_tried_twice(void **state) {
  (void)state;
  struct fpl_pool *pool = open_pool("crash:open:-1@1", DEADLINE_US);
  be_ready(pool);
  close_pool(pool);
  pool = open_pool("device:open:-1", DEADLINE_US);
  struct fpl_err err = {0};
  struct drops drops = {0};
  assert_int_equal(fpl_pool_ready(pool, note_drop, &drops, &err), FPL_DEVICE);
  assert_non_null(strstr(err.text, "2 times: scripted"));
  assert_false(fpl_pool_is_running(pool));
  assert_string_equal(read_log(), "open -1,open -1");
  close_pool(pool);
}

static void a_missing_program_is_an_error(void **state) {
  (void)state;
  const struct fpl_pool_options options = {.self_path = "/nonexistent/worker",
                                           .open_timeout_us = DEADLINE_US,
                                           .load_timeout_us = DEADLINE_US,
                                           .n_ids = IDS};
  struct fpl_pool *pool = NULL;
  struct fpl_err err = {0};
  struct drops drops = {0};
  assert_int_equal(fpl_pool_open(&options, json_pack("{s:s}", "op", "open"), &pool, NULL), FPL_OK);
  assert_int_not_equal(fpl_pool_ready(pool, note_drop, &drops, &err), FPL_OK);
  assert_non_null(strstr(err.text, "/nonexistent/worker"));
  fpl_pool_close(pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(answers_a_request_and_ends_when_closed),
      cmocka_unit_test(each_fault_has_its_outcome_and_reason),
      cmocka_unit_test(a_request_without_a_worker_is_a_fault),
      cmocka_unit_test(a_fresh_worker_gets_what_was_loaded),
      cmocka_unit_test(a_load_that_fails_again_is_dropped_and_the_rest_kept),
      cmocka_unit_test(a_load_that_fails_is_not_remembered),
      cmocka_unit_test(opening_is_tried_twice),
      cmocka_unit_test(a_missing_program_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
