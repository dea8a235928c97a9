/* The only user of cupti.h. Decides when records are complete; leaves grouping and statistics to
 * others. The state is static because CUPTI's buffer callbacks have no user pointer; they may run
 * in a thread of CUPTI's, hence the lock. */
#define _POSIX_C_SOURCE 200809L
#include "tuner/measure/sample_cupti.h"

#include "tuner/launch/library.h"

#include <cupti.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* Source: CUPTI guide: buffers of 1 to 10 MB; 8-byte aligned. A kernel record is 224 bytes. */
enum { BUFFER_BYTES = 4 << 20, BUFFER_ALIGN_BYTES = 8 };

#define FPL_CUPTI_CALLS(X)                                                                         \
  X(cuptiGetVersion)                                                                               \
  X(cuptiGetResultString)                                                                          \
  X(cuptiActivityRegisterCallbacks)                                                                \
  X(cuptiActivityEnable)                                                                           \
  X(cuptiActivityDisable)                                                                          \
  X(cuptiActivityFlushAll)                                                                         \
  X(cuptiActivityGetNextRecord)                                                                    \
  X(cuptiActivityGetNumDroppedRecords)

static struct {
  pthread_mutex_t lock; /* guards the four below it */
  struct fpl_span *spans;
  int64_t n_spans, capacity;
  uint64_t n_dropped;
  bool is_broken; /* memory ran out in a callback */
  bool is_on;
  void *library;
#define FPL_CUPTI_MEMBER(function) __typeof__(function) *function;
  FPL_CUPTI_CALLS(FPL_CUPTI_MEMBER)
#undef FPL_CUPTI_MEMBER
} tracer = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void CUPTIAPI hand_out_buffer(uint8_t **out_buffer, size_t *out_bytes,
                                     size_t *out_most_records) {
  *out_buffer = aligned_alloc(BUFFER_ALIGN_BYTES, BUFFER_BYTES);
  *out_bytes = *out_buffer == NULL ? 0 : BUFFER_BYTES;
  *out_most_records = 0; /* as many as fit */
}

/* Called with the lock held. */
static void keep_span(uint64_t start_ns, uint64_t end_ns) {
  if (tracer.n_spans == tracer.capacity) {
    const int64_t capacity = tracer.capacity == 0 ? 4096 : 2 * tracer.capacity;
    struct fpl_span *grown = realloc(tracer.spans, (size_t)capacity * sizeof *grown);
    if (grown == NULL) {
      tracer.is_broken = true;
      return;
    }
    tracer.spans = grown;
    tracer.capacity = capacity;
  }
  tracer.spans[tracer.n_spans++] = (struct fpl_span){start_ns, end_ns};
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream_id, uint8_t *buffer,
                                 size_t bytes, size_t valid_bytes) {
  (void)bytes;
  CUpti_Activity *record = NULL;
  size_t n_dropped = 0;
  pthread_mutex_lock(&tracer.lock);
  while (buffer != NULL && valid_bytes > 0 &&
         tracer.cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL &&
        record->kind != CUPTI_ACTIVITY_KIND_KERNEL)
      continue;
    /* Start and end stand at the same place in every version of the record that has `end`. */
    const CUpti_ActivityKernel10 *kernel = (const CUpti_ActivityKernel10 *)(const void *)record;
    keep_span(kernel->start, kernel->end);
  }
  if (tracer.cuptiActivityGetNumDroppedRecords(context, stream_id, &n_dropped) == CUPTI_SUCCESS)
    tracer.n_dropped += n_dropped;
  pthread_mutex_unlock(&tracer.lock);
  free(buffer);
}

static bool find_functions(void) {
  bool has_all = true;
#define FPL_CUPTI_FIND(function)                                                                   \
  has_all = fpl_library_symbol(tracer.library, #function, &tracer.function) && has_all;
  FPL_CUPTI_CALLS(FPL_CUPTI_FIND)
#undef FPL_CUPTI_FIND
  return has_all;
}

static const char *result_text(CUptiResult result) {
  const char *text = NULL;
  if (tracer.cuptiGetResultString(result, &text) != CUPTI_SUCCESS || text == NULL)
    text = "unknown CUPTI error";
  return text;
}

bool fpl_cupti_open(char out_text[FPL_CUPTI_TEXT]) {
  static const char *const names[] = {"libcupti.so.13",
                                      "/usr/local/cuda/lib64/libcupti.so.13",
                                      "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13",
                                      "/usr/local/cuda/targets/x86_64-linux/lib/libcupti.so.13",
                                      "libcupti.so.12",
                                      "libcupti.so",
                                      NULL};
  tracer.library = fpl_library_open(names);
  if (tracer.library == NULL || !find_functions()) {
    snprintf(out_text, FPL_CUPTI_TEXT, "none: libcupti %s",
             tracer.library == NULL ? "not found" : "lacks a function");
    return false;
  }
  uint32_t version = 0;
  CUptiResult result = tracer.cuptiGetVersion(&version);
  if (result == CUPTI_SUCCESS)
    result = tracer.cuptiActivityRegisterCallbacks(hand_out_buffer, take_buffer);
  /* CONCURRENT_KERNEL: KERNEL would serialise them. */
  if (result == CUPTI_SUCCESS)
    result = tracer.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  tracer.is_on = result == CUPTI_SUCCESS;
  if (tracer.is_on)
    snprintf(out_text, FPL_CUPTI_TEXT, "%u", version);
  else
    snprintf(out_text, FPL_CUPTI_TEXT, "none: %s (%d)", result_text(result), (int)result);
  return tracer.is_on;
}

static bool flush(uint32_t flags) {
  return tracer.cuptiActivityFlushAll(flags) == CUPTI_SUCCESS;
}

bool fpl_cupti_begin(void) {
  /* Forced: the device is idle, so no buffer is still being written, and none may stay behind. */
  if (!tracer.is_on || !flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED))
    return false;
  pthread_mutex_lock(&tracer.lock);
  tracer.n_spans = 0;
  tracer.n_dropped = 0;
  const bool is_ok = !tracer.is_broken;
  pthread_mutex_unlock(&tracer.lock);
  return is_ok;
}

static int64_t count_spans(void) {
  pthread_mutex_lock(&tracer.lock);
  const int64_t n = tracer.n_spans;
  pthread_mutex_unlock(&tracer.lock);
  return n;
}

bool fpl_cupti_end(int64_t wanted, struct fpl_span **out, int64_t *out_n) {
  *out = NULL;
  *out_n = 0;
  if (!tracer.is_on || !flush(0))
    return false;
  if (count_spans() < wanted && !flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED))
    return false;
  pthread_mutex_lock(&tracer.lock);
  *out = tracer.spans;
  *out_n = tracer.n_spans;
  const bool is_ok = !tracer.is_broken && tracer.n_dropped == 0;
  pthread_mutex_unlock(&tracer.lock);
  return is_ok;
}

void fpl_cupti_close(void) {
  if (tracer.is_on) {
    tracer.cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  }
  tracer.is_on = false;
  pthread_mutex_lock(&tracer.lock);
  free(tracer.spans);
  tracer.spans = NULL;
  tracer.n_spans = 0;
  tracer.capacity = 0;
  pthread_mutex_unlock(&tracer.lock);
}
