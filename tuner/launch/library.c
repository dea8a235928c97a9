/* Decides nothing: the two calls of dlfcn.h, as every user of a CUDA library makes them. */
#include "tuner/launch/library.h"

#include <dlfcn.h>
#include <string.h>

void *fpl_library_open(const char *const *names) {
  void *library = NULL;
  for (; *names != NULL && library == NULL; names++)
    library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
  return library;
}

bool fpl_library_symbol(void *library, const char *symbol, void *out) {
  void *address = dlsym(library, symbol);
  /* A copy of the bits: ISO C has no conversion from a data pointer to a function pointer. */
  memcpy(out, &address, sizeof address);
  return address != NULL;
}
