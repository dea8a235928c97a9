/* Messages of the worker as text: requests parsed into data, answers built. No GPU. The messages
 * themselves are described in protocol.h. */
#ifndef FPL_MEASURE_WORKER_TEXT_H
#define FPL_MEASURE_WORKER_TEXT_H

#include "tuner/base/str.h"
#include "tuner/core/plan.h"
#include "tuner/launch/failure.h"

enum fpl_op { FPL_OP_OPEN, FPL_OP_LOAD, FPL_OP_VERIFY, FPL_OP_SAMPLE, FPL_OP_UNLOAD, FPL_OP_CLOSE };
/* open load verify sample unload close; NULL-terminated */
extern const char *const fpl_op_names[];

enum { FPL_REQUEST_PATH = 1024, FPL_REQUEST_MOST_ID = 4095, FPL_REQUEST_MOST_SAMPLES = 1 << 20 };

/* Only the members of its op are meaningful. */
struct fpl_request {
  enum fpl_op op;
  int64_t id; /* all but open and close: 0 <= id <= FPL_REQUEST_MOST_ID */
  /* open */
  int device;
  struct fpl_problem problem;
  uint64_t seed;
  char support[FPL_REQUEST_PATH];
  bool is_untraced;
  /* load */
  bool is_library;
  struct fpl_kernel kernel; /* the launch descriptor; no cubin, no hashes */
  char cubin[FPL_REQUEST_PATH];
  /* sample */
  enum fpl_cache_state state;
  int64_t n;
};

/* Errors: FPL_PARSE naming the member that is missing, of a wrong type or out of range. */
enum fpl_status fpl_request_parse(const char *text, size_t length, struct fpl_request *out,
                                  struct fpl_err *err);

struct fpl_sample_answer {
  const double *us;
  int64_t n;
  enum fpl_method method;
  double sm_clock_mhz;  /* 0: unknown */
  const char *throttle; /* "" unknown, "none", or reasons joined by '+' */
};

/* Answers, each appended to `out` as one JSON object. A sample that is not finite is written as
 * -1, which the supervisor rejects as it does every sample <= 0. */
void fpl_answer_ok(struct fpl_text *out);
void fpl_answer_failure(const struct fpl_failure *failure, struct fpl_text *out);
void fpl_answer_open(const struct fpl_environment *environment, struct fpl_text *out);
/* `reason` may be "". */
void fpl_answer_load(const char *reason, struct fpl_text *out);
void fpl_answer_verify(const struct fpl_verification *v, const char *reason, struct fpl_text *out);
void fpl_answer_sample(const struct fpl_sample_answer *sample, struct fpl_text *out);

#endif
