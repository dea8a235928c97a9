/* The worker's loop: one request, one answer. Decides which object a request concerns; what is done
 * to it is in inputs, sample_cuda, sample_verify and baseline_pair. */
#define _POSIX_C_SOURCE 200809L
#include "tuner/measure/worker.h"

#include "tuner/base/sys.h"
#include "tuner/measure/baseline_cublaslt.h"
#include "tuner/measure/baseline_pair.h"
#include "tuner/measure/protocol.h"
#include "tuner/measure/sample_cupti.h"
#include "tuner/measure/sample_verify.h"
#include "tuner/measure/worker_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_CUBIN_BYTES = 64 << 20, PCI_TEXT = 32 };
/* The supervisor sets the deadlines; a worker only waits so long for a next request, a day, that a
 * lost supervisor is noticed by the closed pipe first. */
static const double idle_timeout_us = 86400e6;
static const double write_timeout_us = 60e6;

/* One candidate on the device. */
struct loaded {
  bool is_used;
  bool is_library;
  struct fpl_cuda_kernel kernel;
  struct fpl_baseline *pair;
  struct fpl_runner runner;
  struct fpl_replay replays[FPL_CACHE_STATES]; /* made at first use */
};

struct worker {
  bool is_open;
  bool is_lost;     /* the context: no call to the driver succeeds any more */
  bool is_untraced; /* replays are timed as a whole */
  struct fpl_gpu gpu;
  struct fpl_inputs inputs;
  struct fpl_nvml nvml;
  struct loaded *slots[FPL_REQUEST_MOST_ID + 1]; /* by id; heap, for a kernel must not move */
};

static void unload(struct worker *worker, int64_t id) {
  struct loaded *slot = worker->slots[id];
  if (slot == NULL)
    return;
  for (int state = 0; state < FPL_CACHE_STATES; state++)
    fpl_replay_free(&worker->gpu, &slot->replays[state]);
  fpl_cuda_kernel_unload(&slot->kernel);
  fpl_baseline_close(slot->pair);
  free(slot);
  worker->slots[id] = NULL;
}

/* After a sticky error nothing can be freed; the end of the process does it. */
static void close_all(struct worker *worker) {
  if (worker->is_lost)
    return;
  for (int64_t id = 0; id <= FPL_REQUEST_MOST_ID; id++)
    unload(worker, id);
  if (!worker->is_open)
    return;
  fpl_inputs_close(&worker->gpu, &worker->inputs);
  fpl_cupti_close();
  fpl_gpu_close(&worker->gpu);
  worker->is_open = false;
}

/* A whole file, checked to be the ELF image that cuModuleLoadData expects: text would be taken for
 * PTX and compiled. */
static bool read_cubin(struct fpl_arena *arena, const char *path, char **out,
                       struct fpl_failure *failure) {
  struct fpl_err err = {0};
  size_t length = 0;
  if (fpl_file_read(arena, path, MOST_CUBIN_BYTES, out, &length, &err) != FPL_OK)
    return fpl_failure_candidate(failure, FPL_OUTCOME_LAUNCH_ERROR, "%s", err.text);
  if (length < 64 || memcmp(*out, "\177ELF", 4) != 0)
    return fpl_failure_candidate(failure, FPL_OUTCOME_LAUNCH_ERROR, "%s: not a cubin", path);
  return true;
}

static bool open_device(struct worker *worker, const struct fpl_request *request,
                        struct fpl_arena *arena, struct fpl_environment *environment,
                        struct fpl_failure *failure) {
  char text[FPL_CUBLASLT_TEXT];
  char pci[PCI_TEXT] = "";
  char *support = NULL;
  worker->is_open = true;
  if (!fpl_driver_open(&worker->gpu.call, failure))
    return false;
  /* Tracing must be on before the context is made. */
  worker->is_untraced = request->is_untraced;
  if (request->is_untraced)
    snprintf(text, sizeof text, "off");
  else
    fpl_cupti_open(text);
  fpl_environment_set(environment, "cupti", text);
  if (!fpl_gpu_open(request->device, &worker->gpu, failure))
    return false;
  fpl_cublaslt_version(text);
  fpl_environment_set(environment, "cublaslt", text);
  if (!fpl_gpu_describe(&worker->gpu, environment, failure) ||
      !read_cubin(arena, request->support, &support, failure) ||
      !fpl_gpu_load_support(&worker->gpu, support, failure) ||
      !fpl_inputs_open(&worker->gpu, &request->problem, request->seed, &worker->inputs, failure))
    return false;
  if (worker->gpu.call.device_pci(pci, PCI_TEXT, worker->gpu.device) == CUDA_SUCCESS)
    fpl_nvml_open(pci, &worker->nvml);
  struct fpl_nvml_reading reading;
  fpl_nvml_read(&worker->nvml, &reading);
  if (reading.throttle[0] != '\0')
    fpl_environment_set(environment, "throttle", reading.throttle);
  return true;
}

static bool do_open(struct worker *worker, const struct fpl_request *request,
                    struct fpl_arena *arena, struct fpl_text *answer, struct fpl_failure *failure) {
  struct fpl_environment environment = {0};
  if (worker->is_open)
    return fpl_failure_device(failure, "open: the device is open already");
  if (!open_device(worker, request, arena, &environment, failure)) {
    failure->is_device = true;
    return false;
  }
  fpl_answer_open(&environment, answer);
  return true;
}

static bool do_load(struct worker *worker, const struct fpl_request *request,
                    struct fpl_arena *arena, struct fpl_text *answer, struct fpl_failure *failure) {
  unload(worker, request->id);
  struct loaded *slot = calloc(1, sizeof *slot);
  char text[FPL_BASELINE_TEXT] = "";
  char *image = NULL;
  if (slot == NULL)
    return fpl_failure_candidate(failure, FPL_OUTCOME_OOM, "out of host memory");
  worker->slots[request->id] = slot;
  bool is_ok = false;
  if (request->is_library) {
    is_ok = fpl_baseline_open(&worker->gpu, &worker->inputs, &slot->pair, text, failure);
    if (is_ok)
      slot->runner = fpl_baseline_runner(slot->pair);
  } else {
    is_ok = read_cubin(arena, request->cubin, &image, failure) &&
            fpl_cuda_kernel_load(&worker->gpu, &worker->inputs, &request->kernel, image,
                                 worker->is_untraced, &slot->kernel, failure);
    if (is_ok)
      slot->runner = fpl_cuda_kernel_runner(&slot->kernel);
  }
  if (is_ok)
    fpl_answer_load(text, answer);
  else
    unload(worker, request->id);
  return is_ok;
}

static bool find_slot(const struct worker *worker, int64_t id, struct loaded **out,
                      struct fpl_failure *failure) {
  *out = worker->slots[id];
  return *out != NULL || fpl_failure_candidate(failure, FPL_OUTCOME_LAUNCH_ERROR,
                                               "candidate %lld is not loaded", (long long)id);
}

static bool do_verify(struct worker *worker, const struct fpl_request *request,
                      struct fpl_text *answer, struct fpl_failure *failure) {
  struct loaded *slot = NULL;
  struct fpl_verification verification;
  char note[FPL_SAMPLE_NOTE];
  if (!find_slot(worker, request->id, &slot, failure) ||
      !fpl_sample_verify(&worker->gpu, &worker->inputs, &slot->runner, &verification, note,
                         failure))
    return false;
  fpl_answer_verify(&verification, note, answer);
  return true;
}

static bool do_sample(struct worker *worker, const struct fpl_request *request,
                      struct fpl_text *answer, struct fpl_failure *failure) {
  struct loaded *slot = NULL;
  struct fpl_sample_set samples;
  if (!find_slot(worker, request->id, &slot, failure))
    return false;
  struct fpl_replay *replay = &slot->replays[request->state];
  if (replay->exec == NULL && !fpl_replay_make(&worker->gpu, &slot->runner, &worker->inputs,
                                               request->state, replay, failure))
    return false;
  if (!fpl_replay_sample(&worker->gpu, replay, &worker->nvml, request->n, &samples, failure))
    return false;
  const struct fpl_sample_answer sample = {samples.us, samples.n, samples.method,
                                           samples.reading.sm_clock_mhz, samples.reading.throttle};
  fpl_answer_sample(&sample, answer);
  free(samples.us);
  return true;
}

static bool act_on(struct worker *worker, const struct fpl_request *request,
                   struct fpl_arena *arena, struct fpl_text *answer, struct fpl_failure *failure) {
  if (request->op == FPL_OP_OPEN)
    return do_open(worker, request, arena, answer, failure);
  if (request->op != FPL_OP_CLOSE && !worker->is_open)
    return fpl_failure_device(failure, "%s: the device is not open", fpl_op_names[request->op]);
  switch (request->op) {
  case FPL_OP_LOAD:
    return do_load(worker, request, arena, answer, failure);
  case FPL_OP_VERIFY:
    return do_verify(worker, request, answer, failure);
  case FPL_OP_SAMPLE:
    return do_sample(worker, request, answer, failure);
  case FPL_OP_UNLOAD:
    unload(worker, request->id);
    break;
  case FPL_OP_OPEN:
  case FPL_OP_CLOSE:
    break;
  }
  fpl_answer_ok(answer);
  return true;
}

/* A request that cannot be read costs its candidate, or the device where it is none's. */
static bool refuse(const struct fpl_request *request, const struct fpl_err *err,
                   struct fpl_failure *failure) {
  if (request->op == FPL_OP_OPEN || request->op == FPL_OP_CLOSE)
    return fpl_failure_device(failure, "%s", err->text);
  return fpl_failure_candidate(failure, FPL_OUTCOME_LAUNCH_ERROR, "%s", err->text);
}

/* One request and its answer; *out_is_last true when the worker must end. */
static enum fpl_status serve(struct worker *worker, int in_fd, int out_fd, bool *out_is_last,
                             struct fpl_err *err) {
  struct fpl_arena arena = {0};
  struct fpl_text answer = {0};
  struct fpl_failure failure = {0};
  struct fpl_request request;
  struct fpl_err parse_err = {0};
  char *text = NULL;
  size_t length = 0;
  enum fpl_status status = FPL_OK;
  *out_is_last = true;
  /* No more requests: the supervisor closed the pipe or is gone; nobody is left to be told. */
  if (fpl_pipe_read(in_fd, idle_timeout_us, &arena, &text, &length, NULL) != FPL_OK)
    goto out_free;
  const bool is_ok = fpl_request_parse(text, length, &request, &parse_err) == FPL_OK
                         ? act_on(worker, &request, &arena, &answer, &failure)
                         : refuse(&request, &parse_err, &failure);
  if (!is_ok)
    fpl_answer_failure(&failure, &answer);
  worker->is_lost = !is_ok && failure.is_sticky;
  status = answer.is_broken
               ? fpl_fail(err, FPL_NO_MEMORY, "worker: out of memory for an answer")
               : fpl_pipe_write(out_fd, answer.text, answer.length, write_timeout_us, err);
  *out_is_last = status != FPL_OK || worker->is_lost || request.op == FPL_OP_CLOSE;
out_free:
  fpl_text_free(&answer);
  fpl_arena_free(&arena);
  return status;
}

/* A private descriptor for answers; what anything else prints to stdout then goes to stderr. */
static int take_output(int out_fd) {
  const int own_fd = dup(out_fd);
  if (own_fd >= 0 && out_fd == STDOUT_FILENO)
    dup2(STDERR_FILENO, STDOUT_FILENO);
  return own_fd;
}

enum fpl_status fpl_worker_run(int in_fd, int out_fd, struct fpl_err *err) {
  struct worker *worker = calloc(1, sizeof *worker);
  if (worker == NULL)
    return fpl_fail(err, FPL_NO_MEMORY, "worker: out of memory");
  const int own_fd = take_output(out_fd);
  enum fpl_status status = FPL_OK;
  if (own_fd < 0)
    status = fpl_fail(err, FPL_IO, "worker: the output cannot be used");
  bool is_last = status != FPL_OK;
  while (!is_last)
    status = serve(worker, in_fd, own_fd, &is_last, err);
  close_all(worker);
  if (own_fd >= 0)
    close(own_fd);
  free(worker);
  return status;
}
