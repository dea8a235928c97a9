/* The fake worker's script, and where tests find the program.
 *
 * The program answers tuner/measure/protocol.h on stdin and stdout without a GPU. Its script is the
 * text of the environment variable FPL_FAKE_SCRIPT, directives separated by blanks:
 *
 *   log=PATH          appends one line "OP ID [STATE N]" for each request
 *   noise=PART        relative standard deviation of times
 *   us:ID=X           time of candidate ID, microseconds (otherwise 10 + ID)
 *   clock=MHZ         sm_clock_mhz of each sample answer
 *   wait=MS           before each sample answer
 *   WHAT:OP:ID        what happens on request OP (open load verify sample unload close) of ID (-1
 *                     for open and close)
 *   WHAT:OP:ID@K      the same, only on the K-th such request over all processes (needs log=)
 *
 * WHAT: hang crash sticky garbage shout (bytes without a frame) refuse (launch_error) device
 * (outcome "none") exit; for verify also inexact error bounds; for sample also zero negative null
 * short, throttle (by the hardware), cap (by power).
 */
#ifndef FPL_TESTS_FAKE_WORKER_H
#define FPL_TESTS_FAKE_WORKER_H

#include "tuner/base/sys.h"

#include <stdio.h>
#include <string.h>

/* Path of the program: ../fakes/fake_worker from the folder of the test program. In static storage.
 */
static inline const char *fake_worker_path(void) {
  static char path[4096 + 32];
  struct fpl_arena arena = {0};
  char *self = NULL;
  if (fpl_self_path(&arena, &self, NULL) == FPL_OK) {
    const char *const name = strrchr(self, '/');
    snprintf(path, sizeof path, "%.*s/../fakes/fake_worker", (int)(name - self), self);
  }
  fpl_arena_free(&arena);
  return path;
}

#endif
