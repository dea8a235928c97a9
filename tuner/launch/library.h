/* Library: shared libraries that are loaded when they are needed, so that one binary serves every
 * machine. They stay loaded: CUDA's register work for the end of the process. */
#ifndef FPL_LAUNCH_LIBRARY_H
#define FPL_LAUNCH_LIBRARY_H

#include <stdbool.h>

/* dlopen of the first name of a NULL-terminated list that loads, or NULL. */
void *fpl_library_open(const char *const *names);
/* Copies the address of `symbol` into the function pointer at `out`; false when it has none. */
bool fpl_library_symbol(void *library, const char *symbol, void *out);

#endif
