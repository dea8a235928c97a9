/* Answer: which stored plan serves a problem, and how well.
 *
 * Tiers, tried in this order; the first that holds answers:
 *   exact     a plan stored for this problem on this device class
 *   envelope  a plan of the same family (all but m equal) whose envelope [m_low, m_high] holds m
 *   nearest   the measured plan of the nearest shape, where its schedule is legal for this problem
 *             and its lead over the library is at least the regret to be expected at that distance;
 *             without evidence of that regret there is no such answer
 *   model     the cost model's pick; not stored, so the command line makes it where it is allowed
 *   library   the library's pair of products, for want of anything better
 * The plan of any tier may itself be the library's, where that was the fastest.
 *
 * Distance of two shapes: the Euclidean one of ln(extent) over m, n, k, l. Limits of `nearest`:
 * FPL_NEAREST_MOST times more or less in n, k, l, and FPL_NEAREST_MOST_M in m; kind, dtype, act and
 * the image's kernel size equal.
 *
 * Who wins, among plans of one tier: the trusted provenance (measured, predicted, simulated), then
 * the smaller distance, then the upper layer, then the newer plan, then the smaller m, n, k, l,
 * batch, ic, h, w.
 * A source visits plans of one problem best first.
 *
 * Pure: no clock, no files; the same sources give the same answer everywhere.
 */
#ifndef FPL_CORE_ANSWER_H
#define FPL_CORE_ANSWER_H

#include "tuner/core/plan.h"

enum fpl_tier {
  FPL_TIER_EXACT,
  FPL_TIER_ENVELOPE,
  FPL_TIER_NEAREST,
  FPL_TIER_MODEL,
  FPL_TIER_LIBRARY,
  FPL_N_TIERS
};
extern const char *const fpl_tier_names[]; /* exact envelope nearest model library */

/* How well the machine that asks matches the one that measured. */
enum fpl_match {
  FPL_MATCH_SAME,
  FPL_MATCH_TOOLKIT, /* built by another NVRTC; its machine code stands */
  FPL_MATCH_DRIVER,  /* another driver: stale until measured again */
  FPL_MATCH_UNKNOWN  /* one side does not say */
};
extern const char *const fpl_match_names[]; /* same toolkit driver unknown */
enum fpl_match fpl_environment_match(const struct fpl_environment *stored,
                                     const struct fpl_environment *asking);

enum { FPL_NEAREST_MOST = 2, FPL_NEAREST_MOST_M = 4 };

/* A stored plan as a walk shows it; texts live until the next one. */
struct fpl_neighbour {
  int64_t plan_id;
  struct fpl_problem problem;
  enum fpl_provenance provenance;
  bool is_library, is_deterministic, has_cubin;
  const char *schedule; /* text; "" for the library */
  double est_us, measured_us, library_us;
  int64_t created_unix;
  int64_t m_low, m_high;
};

/* Measured time of other problems' schedules over the best of a problem, less 1, in the class of
 * distances that a distance falls into. n = 0: no evidence. */
struct fpl_regret {
  int64_t n;
  double low, expected, high; /* 0.05 is 5 % slower than the best; 90 % of cases in [low, high] */
};
/* Upper ends of the classes of distances: thirds of a factor of 2 in one extent, and on. */
enum { FPL_REGRET_CLASSES = 6 };
extern const double fpl_regret_distances[FPL_REGRET_CLASSES];
int fpl_regret_class(double distance); /* the last one for what lies beyond */
double fpl_problem_distance(const struct fpl_problem *a, const struct fpl_problem *b);
/* Within the limits of `nearest`? */
bool fpl_problem_is_near(const struct fpl_problem *a, const struct fpl_problem *b);
/* From n regrets in ascending order: median, and the interval that holds a further one in at least
 * 90 % of cases (order statistics 5 % and 95 % of n + 1; the ends where n is small, and n is 0 below
 * FPL_REGRET_LEAST). Source: split conformal prediction, Vovk et al. 2005. */
enum { FPL_REGRET_LEAST = 9 };
struct fpl_regret fpl_regret_of(const double *sorted, int64_t n);

/* What is wanted. */
struct fpl_wanted {
  const struct fpl_problem *problem;
  const struct fpl_device *device;
  bool is_deterministic; /* same bits every time: kernels of such schedules alone */
  bool needs_kernel;     /* with machine code that runs this problem; the library has none */
  bool is_brief;         /* plan.kernel may be left empty: it is read when it is loaded */
};

/* Is a neighbour of the kind that is wanted? */
static inline bool fpl_is_wanted(const struct fpl_wanted *wanted,
                                 const struct fpl_neighbour *neighbour) {
  return (!wanted->is_deterministic || neighbour->is_deterministic) &&
         (!wanted->needs_kernel || neighbour->has_cubin);
}

typedef enum fpl_status fpl_visit_neighbour(void *context, const struct fpl_neighbour *neighbour,
                                            struct fpl_err *err);
/* A database or a snapshot. The plans it fills own nothing: no cubin is loaded. */
struct fpl_source {
  void *self;
  /* The best plan stored for exactly this problem and device class, or none. */
  enum fpl_status (*find)(void *self, const struct fpl_wanted *wanted, struct fpl_plan *out,
                          bool *out_found, struct fpl_err *err);
  /* Every promoted plan that is as wanted, of the problem's kind, dtype, act, image kernel size and
   * device class, with n, k, l within the limits of `nearest`; plans of one problem best first. */
  enum fpl_status (*each_neighbour)(void *self, const struct fpl_wanted *wanted,
                                    fpl_visit_neighbour *visit, void *context, struct fpl_err *err);
  enum fpl_status (*read)(void *self, int64_t plan_id, struct fpl_plan *out, struct fpl_err *err);
  enum fpl_status (*regret)(void *self, const struct fpl_wanted *wanted, int regret_class,
                            struct fpl_regret *out, struct fpl_err *err);
};

/* How the answer was come by, for `explain`. */
enum { FPL_CLOSEST = 3 };
struct fpl_trace {
  char tiers[FPL_N_TIERS][200]; /* why each tier did not answer; "" when not tried */
  struct {
    int64_t plan_id;
    int layer;
    double distance;
    struct fpl_problem problem;
    char why[160]; /* why it did not answer; "" for the answer */
  } closest[FPL_CLOSEST];
  int n_closest;
};

/* Does the plan claim to be the best for this very problem? */
static inline bool fpl_tier_is_hit(enum fpl_tier tier) {
  return tier <= FPL_TIER_ENVELOPE;
}

struct fpl_answer {
  enum fpl_tier tier;
  enum fpl_match match;
  bool is_stored; /* a plan answers; else the library, for want of one */
  int layer;      /* index of the source */
  struct fpl_plan plan;
  struct fpl_regret regret;
  double distance;
  bool has_kernel;  /* stored machine code runs this problem */
  char reason[512]; /* why this tier, one sentence */
};

/* The answer of n sources, the first one uppermost, up to tier `last`. `asking` NULL: environments
 * are not compared. `trace` may be NULL. out->plan owns nothing. */
enum fpl_status fpl_answer(const struct fpl_source *sources, int n, const struct fpl_wanted *wanted,
                           const struct fpl_environment *asking, enum fpl_tier last,
                           struct fpl_answer *out, struct fpl_trace *trace, struct fpl_err *err);

#endif
