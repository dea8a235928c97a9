/* Tuning of one problem: rank, build, measure or check by model, decide. The ports do the work;
 * this is their order. */
#ifndef FPL_CLI_TUNE_H
#define FPL_CLI_TUNE_H

#include "tuner/cli/progress.h"
#include "tuner/core/ports.h"

struct fpl_tuner {
  const struct fpl_device *device;
  struct fpl_builder_port builder;
  bool has_builder;
  struct fpl_measurer_port measurer;
  bool has_measurer; /* --measure cupti; else plans are predicted */
  struct fpl_measure_options measure;
  struct fpl_environment base_environment; /* toolchain versions; the device's are added */
  int top_k;
  /* Candidates in place of the ranking's top K, where is_again: known schedules to be measured anew.
   * Those that a rule refuses by now are left out. */
  bool is_again;
  const struct fpl_schedule *again;
  int n_again;
  /* Schedules measured beside the top K, where they are legal and not among them. */
  const struct fpl_schedule *known;
  int n_known;
  bool is_deterministic; /* deterministic kernels alone may win; the library plan is measured */
  bool is_kernels_only;  /* the library plan is not measured */
  double least_gain;     /* a kernel must beat the library by this share, or be separated from it */
  struct fpl_progress *progress;
};

/* What came of it. `results` (heap) holds the library first when it was measured, then the top K.
 */
struct fpl_tuned {
  struct fpl_result *results;
  int n_results;
  struct fpl_environment environment;
  struct fpl_plan plan;
  bool has_plan;
  int64_t n_ranked; /* candidates that the model ranked */
  char reason[256]; /* without a plan: why */
};
void fpl_tuned_free(struct fpl_tuned *tuned);

/* Errors: those of the ports. A problem that ends without a plan is an outcome. */
enum fpl_status fpl_tune_problem(const struct fpl_tuner *tuner, const struct fpl_problem *p,
                                 struct fpl_tuned *out, struct fpl_err *err);

#endif
