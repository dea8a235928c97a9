/* Every function of the driver's table that fake_cuda.c leaves out: it succeeds and does nothing. */
#include "tuner/launch/driver.h"

#define TEXT_OF(name) #name
#define EXPANDED_TEXT_OF(name) TEXT_OF(name)
#define WEAK_STUB(member, function)                                                                \
  __asm__(".weak " EXPANDED_TEXT_OF(function) "\n.set " EXPANDED_TEXT_OF(function) ", stub");

CUresult stub(void);
CUresult stub(void) {
  return CUDA_SUCCESS;
}

FPL_DRIVER_CALLS(WEAK_STUB)
