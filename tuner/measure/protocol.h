/* Protocol between the supervisor and its worker process (`fuseplan worker`): JSON messages framed
 * by fpl_pipe_write/read on the worker's stdin and stdout. One request, one answer. The supervisor
 * sets a deadline on each and kills the worker when it passes; it never touches CUDA itself.
 *
 *   {"op":"open","device":0,"problem":TEXT,"seed":N,"support":PATH}
 *        starts a context, makes the inputs and reference results; PATH: the support cubin.
 *        "trace":false leaves CUPTI out: every sample is then the mean of a graph replay
 *     -> {"ok":true,"environment":{NAME:VALUE,...}}
 *   {"op":"load","id":I,"kernel":{"name":..,"cluster":..,"block_threads":..,"smem_bytes":..,
 *        "rows_per_unit":..,"units_per_row":..,"max_clusters":..,"workspace_bytes_per_row_group":..,
 *        "maps":[{"rows":..,"cols":..,"box_rows":..,"box_cols":..,"slabs":..,"parts":..,
 *        "is_image":BOOL} x3]},"cubin":PATH}
 *   {"op":"load","id":I,"library":true}      tunes the library pair over its own heuristic list
 *     -> {"ok":true,"reason":TEXT}
 *   {"op":"verify","id":I}
 *     -> {"ok":true,"exact":BOOL,"relative_error":X,"in_bounds":BOOL}
 *   {"op":"sample","id":I,"state":"cold"|"hot","n":N}
 *     -> {"ok":true,"us":[...],"method":"cupti"|"graph"|"event","sm_clock_mhz":X,"throttle":TEXT}
 *   {"op":"unload","id":I} -> {"ok":true}
 *   {"op":"close"} -> {"ok":true}, then the worker ends
 * A failure of a candidate: {"ok":false,"outcome":NAME,"reason":TEXT}; with "sticky":true the
 * worker ends after the answer. A failure of the device:
 * {"ok":false,"outcome":"none","reason":TEXT}.
 */
#ifndef FPL_MEASURE_PROTOCOL_H
#define FPL_MEASURE_PROTOCOL_H

#include "tuner/core/kernel.h"

#include <jansson.h>

enum { FPL_PROTOCOL_MOST_BYTES = 16 << 20 };

/* The "kernel" of a load request; the caller owns it. NULL: out of memory. */
json_t *fpl_protocol_kernel(const struct fpl_kernel *k);

#endif
