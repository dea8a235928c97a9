/* Which of a library's algorithms make its fastest pair of products; a search over numbers, with
 * the clock and the device behind a table of functions.
 *
 * First the first product's algorithm by the cold time of the pair, then the second one's with that
 * winner; each time all are timed quickly and the best few well, against one another. Last the
 * first one's best few again, beside the second one's winner, with and without an early launch of
 * the activation between the products. So an algorithm is judged where it will run.
 */
#ifndef FPL_MEASURE_BASELINE_SEARCH_H
#define FPL_MEASURE_BASELINE_SEARCH_H

#include "tuner/launch/failure.h"

struct fpl_baseline_choice {
  int algorithms[2]; /* of the first and the second product */
  bool is_early;     /* the activation is launched before the first product has ended */
};

/* All times are microseconds of one cold pair. */
struct fpl_baseline_timer {
  void *self;
  /* False: an algorithm that does not run, passed over; a sticky failure ends the search. */
  bool (*quickly)(void *self, const struct fpl_baseline_choice *choice, double *out_us,
                  struct fpl_failure *failure);
  /* n choices in turns, each to out_us; INFINITY: did not run. False: a sticky failure. */
  bool (*well)(void *self, const struct fpl_baseline_choice *choices, int n, double *out_us,
               struct fpl_failure *failure);
  /* Whether a kernel of its own applies the activation. */
  bool (*has_activation)(void *self, const struct fpl_baseline_choice *choice);
};

enum { FPL_BASELINE_WELL_MOST = 9 }; /* choices that are timed well at once */

struct fpl_baseline_found {
  struct fpl_baseline_choice choice;
  double us;
  double suggested_us; /* the library's first suggestion for each; INFINITY where it did not run */
  int n_tried[2];      /* algorithms timed */
};

/* n_algorithms[i] >= 1, in the library's order. `most_us`: wall clock after which a quick pass over
 * one product's algorithms ends. False with the last failure when nothing ran. */
bool fpl_baseline_search(const struct fpl_baseline_timer *timer, const int n_algorithms[2],
                         double most_us, struct fpl_baseline_found *out,
                         struct fpl_failure *failure);

#endif
