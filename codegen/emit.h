/* Emission: the small .cu of a candidate and the launch descriptor of its kernel. Knows no CUDA
 * beyond the entry's signature: what the GPU does stands in codegen/skeletons alone. */
#ifndef FPL_CODEGEN_EMIT_H
#define FPL_CODEGEN_EMIT_H

#include "tuner/base/str.h"
#include "tuner/core/kernel.h"

/* Appends the generated text to `source` and fills `kernel` except sha, source_key, registers,
 * spill_bytes and the cubin. The schedule must be legal and fit a skeleton (fpl_skeleton_fits); the
 * text of one that is not still compiles to static_asserts that name the rule. Errors:
 * FPL_NO_MEMORY. */
enum fpl_status fpl_emit(const struct fpl_problem *p, const struct fpl_schedule *s,
                         const struct fpl_device *d, struct fpl_text *source,
                         struct fpl_kernel *kernel, struct fpl_err *err);

#endif
