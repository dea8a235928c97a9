/* The skeletons, embedded: every .cuh and .cu below codegen/skeletons, as one table. A name is as an
 * #include writes it: "codegen/skeletons/chain_sm90.cuh". Read-only, static. */
#ifndef FPL_CODEGEN_FILES_H
#define FPL_CODEGEN_FILES_H

#include "tuner/base/embedded.h"

extern const struct fpl_embedded_file fpl_skeleton_files[]; /* sorted by name */
extern const size_t fpl_n_skeleton_files;

#endif
