/* CUPTI activity tracing: start and end of every kernel, from the hardware's clock.
 *
 * One tracer per process (CUPTI's own limit: its callbacks carry no user pointer), opened before
 * the context exists. Every error switches tracing off; the caller then times by other means.
 */
#ifndef FPL_MEASURE_SAMPLE_CUPTI_H
#define FPL_MEASURE_SAMPLE_CUPTI_H

#include "tuner/measure/rotation.h"

#include <stddef.h>

enum { FPL_CUPTI_TEXT = 96 };

/* Loads libcupti and enables kernel records. `out_text`: the version ("130000"), or why there is
 * no tracing. */
bool fpl_cupti_open(char out_text[FPL_CUPTI_TEXT]);

/* Forgets all records so far. Call with the device idle. False: tracing is off. */
bool fpl_cupti_begin(void);

/* Flushes and hands over the kernel records since fpl_cupti_begin; the device must be idle. The
 * spans stay valid until the next fpl_cupti_begin. Flushes again, forced, when fewer than `wanted`
 * have arrived. False: tracing failed or records were dropped. */
bool fpl_cupti_end(int64_t wanted, struct fpl_span **out, int64_t *out_n);

void fpl_cupti_close(void);

#endif
