/* Fake worker; see fake_worker.h. Faults are real: it hangs, ends by signals, writes garbage. */
#define _POSIX_C_SOURCE 200809L
#include "tests/fakes/fake_worker.h"

#include "tuner/base/arena.h"
#include "tuner/base/sys.h"

#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const double FOREVER_US = 1e9;

struct fake {
  char script[4096];
  char log_path[1024];
  char op[16];
  int id;
  bool is_untraced;
  uint64_t random;
};

static void pause_ms(long ms) {
  const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
  nanosleep(&pause, NULL);
}

/* Value of directive `name=`, or the fallback. */
static double script_number(const struct fake *f, const char *name, double fallback) {
  char key[64];
  snprintf(key, sizeof key, " %s=", name);
  const char *const at = strstr(f->script, key);
  return at ? strtod(at + strlen(key), NULL) : fallback;
}

/* Requests of this op and id so far, this one included. */
static int count_requests(const struct fake *f) {
  FILE *const log = fopen(f->log_path, "r");
  char line[128];
  char op[16];
  int id = 0;
  int n = 0;
  while (log && fgets(line, sizeof line, log))
    n += sscanf(line, "%15s %d", op, &id) == 2 && strcmp(op, f->op) == 0 && id == f->id;
  if (log)
    fclose(log);
  return n;
}

static bool is_scripted(const struct fake *f, const char *what) {
  char key[64];
  const int length = snprintf(key, sizeof key, " %s:%s:%d", what, f->op, f->id);
  for (const char *at = strstr(f->script, key); at; at = strstr(at + 1, key)) {
    const char end = at[length];
    if (end == ' ' || (end == '@' && atoi(at + length + 1) == count_requests(f)))
      return true;
  }
  return false;
}

static void log_request(const struct fake *f, const json_t *request) {
  FILE *const log = f->log_path[0] ? fopen(f->log_path, "a") : NULL;
  if (!log)
    return;
  const char *const state = json_string_value(json_object_get(request, "state"));
  if (state)
    fprintf(log, "%s %d %s %d\n", f->op, f->id, state,
            (int)json_integer_value(json_object_get(request, "n")));
  else
    fprintf(log, "%s %d\n", f->op, f->id);
  fclose(log);
}

static void send_answer(json_t *answer) {
  char *const text = json_dumps(answer, JSON_COMPACT);
  fpl_pipe_write(STDOUT_FILENO, text, strlen(text), FOREVER_US, NULL);
  free(text);
  json_decref(answer);
}

static double random_unit(struct fake *f) {
  f->random = f->random * 6364136223846793005U + 1442695040888963407U;
  return ((double)(f->random >> 11) + 0.5) / 9007199254740992.0;
}

static double random_normal(struct fake *f) {
  return sqrt(-2 * log(random_unit(f))) * cos(6.283185307179586 * random_unit(f));
}

static json_t *one_time(struct fake *f) {
  char name[32];
  snprintf(name, sizeof name, "us:%d", f->id);
  const double us = script_number(f, name, 10.0 + f->id);
  if (is_scripted(f, "zero"))
    return json_integer(0);
  if (is_scripted(f, "negative"))
    return json_real(-us);
  if (is_scripted(f, "null"))
    return json_null();
  return json_real(us * (1 + script_number(f, "noise", 0) * random_normal(f)));
}

static json_t *sample(struct fake *f, const json_t *request) {
  const bool is_capped = is_scripted(f, "cap");
  const bool is_throttled = is_scripted(f, "throttle");
  const int64_t n =
      json_integer_value(json_object_get(request, "n")) - (is_scripted(f, "short") ? 1 : 0);
  json_t *const us = json_array();
  for (int64_t i = 0; i < n; i++)
    json_array_append_new(us, one_time(f));
  pause_ms((long)script_number(f, "wait", 0));
  return json_pack("{s:b,s:o,s:s,s:f,s:s}", "ok", 1, "us", us, "method",
                   f->is_untraced ? "graph" : "cupti", "sm_clock_mhz",
                   is_throttled || is_capped ? 900.0 : script_number(f, "clock", 1980), "throttle",
                   is_throttled ? "hw_slowdown"
                   : is_capped  ? "sw_power_cap"
                                : "none");
}

static json_t *answer_for(struct fake *f, const json_t *request) {
  if (strcmp(f->op, "open") == 0)
    f->is_untraced = json_is_false(json_object_get(request, "trace"));
  if (strcmp(f->op, "open") == 0)
    return json_pack("{s:b,s:{s:s,s:s,s:i}}", "ok", 1, "environment", "device_name", "fake",
                     "sm_clock_mhz", "1980", "sms", 132);
  if (strcmp(f->op, "load") == 0)
    return json_pack("{s:b,s:s}", "ok", 1, "reason", "fake algorithm");
  if (strcmp(f->op, "verify") == 0)
    return json_pack("{s:b,s:b,s:f,s:b}", "ok", 1, "exact", !is_scripted(f, "inexact"),
                     "relative_error", is_scripted(f, "error") ? 0.5 : 3e-4, "in_bounds",
                     !is_scripted(f, "bounds"));
  if (strcmp(f->op, "sample") == 0)
    return sample(f, request);
  return json_pack("{s:b}", "ok", 1);
}

static json_t *failure(const char *outcome, bool is_sticky) {
  return json_pack("{s:b,s:s,s:s,s:b}", "ok", 0, "outcome", outcome, "reason", "scripted", "sticky",
                   is_sticky);
}

/* Does what the script says instead of an answer; true when it did. */
static bool misbehave(const struct fake *f) {
  if (is_scripted(f, "hang"))
    pause_ms(600000);
  if (is_scripted(f, "crash")) {
    signal(SIGSEGV, SIG_DFL); /* a sanitizer would turn it into an exit code */
    raise(SIGSEGV);
  }
  if (is_scripted(f, "exit"))
    _exit(3);
  if (is_scripted(f, "shout")) {
    const char text[] = "cudaErrorWhatever: it went wrong\n";
    return write(STDOUT_FILENO, text, sizeof text) > 0;
  }
  if (is_scripted(f, "garbage")) {
    fpl_pipe_write(STDOUT_FILENO, "{\"ok\":tru\xff", 10, FOREVER_US, NULL);
    return true;
  }
  if (is_scripted(f, "sticky")) {
    send_answer(failure("sticky_error", true));
    _exit(1);
  }
  if (is_scripted(f, "refuse") || is_scripted(f, "device")) {
    send_answer(failure(is_scripted(f, "device") ? "none" : "launch_error", false));
    return true;
  }
  return false;
}

static void read_script(struct fake *f) {
  const char *const script = getenv("FPL_FAKE_SCRIPT");
  snprintf(f->script, sizeof f->script, " %s ", script ? script : "");
  const char *const log = strstr(f->script, " log=");
  if (log)
    sscanf(log + strlen(" log="), "%1023s", f->log_path);
}

int main(void) {
  struct fake fake = {.random = (uint64_t)getpid()};
  struct fpl_arena arena = {0};
  char *bytes = NULL;
  size_t length = 0;
  bool is_closed = false;
  read_script(&fake);
  while (!is_closed &&
         fpl_pipe_read(STDIN_FILENO, FOREVER_US, &arena, &bytes, &length, NULL) == FPL_OK) {
    json_t *const request = json_loadb(bytes, length, 0, NULL);
    const json_t *const id = json_object_get(request, "id");
    const char *const op = json_string_value(json_object_get(request, "op"));
    snprintf(fake.op, sizeof fake.op, "%s", op ? op : "");
    fake.id = id ? (int)json_integer_value(id) : -1;
    log_request(&fake, request);
    if (!misbehave(&fake))
      send_answer(answer_for(&fake, request));
    is_closed = strcmp(fake.op, "close") == 0;
    json_decref(request);
    fpl_arena_free(&arena);
  }
  return 0;
}
