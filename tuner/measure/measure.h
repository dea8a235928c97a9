/* Measurer: verifies, then times, the candidates of one problem against one another, in a worker
 * process of their own. Implements the measurer port of tuner/core/ports.h.
 *
 * For each problem: a fresh worker; the library plan is loaded first; every candidate is loaded and
 * verified before any is timed; then rounds, each in a fresh random order, every candidate still
 * in the set a batch of cold samples a round, so that samples with equal index were taken in the
 * same round; then the same hot, for those not abandoned as slower. The library plan and the best
 * so far stay in the set to the end. A fault costs the candidate that caused it: the worker is
 * killed, a fresh one loads the others again, and the round goes on.
 */
#ifndef FPL_MEASURE_MEASURE_H
#define FPL_MEASURE_MEASURE_H

#include "tuner/core/ports.h"

struct fpl_measurer_options {
  const char *self_path;          /* argv[0] of the worker; argv[1] is "worker" */
  const char *support_cubin_path; /* kernels of the worker itself; "" if none */
  const char *work_dir; /* a fresh folder in it holds cubins while a problem is measured */
  int device;
  bool is_untraced; /* time by replays of a graph, gaps between launches included, without CUPTI */
  /* Deadlines of one request, microseconds; 0: 120 s, 60 s, 30 s, 20 s. */
  double open_timeout_us, load_timeout_us, verify_timeout_us, sample_timeout_us;
};

struct fpl_measurer;

/* Copies the options; starts nothing. Errors: FPL_NO_MEMORY. */
enum fpl_status fpl_measurer_open(const struct fpl_measurer_options *options,
                                  struct fpl_measurer **out, struct fpl_err *err);
void fpl_measurer_close(struct fpl_measurer *measurer); /* NULL is allowed */

/* Its `measure`: the budget is looked at before each request; four fifths of it are for cold
 * samples. It may be passed by one request's deadline, and by one cold batch of the library plan,
 * which is always timed. Candidates it does not reach become "skipped". On a status (FPL_DEVICE,
 * FPL_IO, FPL_NO_MEMORY) what was not judged stays pending. */
struct fpl_measurer_port fpl_measurer_port(struct fpl_measurer *measurer);

/* A permutation of 0 .. n - 1: the order of one round. The same seed and round give the same. */
void fpl_measure_order(uint64_t seed, uint64_t round, int *order, int n);

#endif
