/* The log of misses: what was asked for in vain, or answered by a stale plan, in the database that
 * was asked. */
#ifndef FPL_CLI_MISSES_H
#define FPL_CLI_MISSES_H

#include "tuner/cli/ask.h"

/* Logs an answer of a tier other than exact or envelope, or of another driver, in the uppermost
 * layer. A database that cannot be written stays without: a lookup is never refused for its log. */
void fpl_misses_note(struct fpl_ask *ask);

#endif
