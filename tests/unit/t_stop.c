#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tuner/measure/stop.h"

static struct fpl_stats stats_of(int64_t n, double median_us, double relative_width) {
  return (struct fpl_stats){.n = n,
                            .median_us = median_us,
                            .low_us = median_us * (1 - relative_width / 2),
                            .high_us = median_us * (1 + relative_width / 2)};
}

static void follows_its_table(void **state) {
  (void)state;
  const struct {
    const char *name;
    int64_t n;
    double median_us, width, best_us, elapsed_us;
    enum fpl_stop want;
  } rows[] = {
      {"no samples yet", 0, 0, 0, 10, 0, FPL_STOP_NOT},
      {"too few, though narrow", 19, 10, 0.001, 10, 0, FPL_STOP_NOT},
      {"enough and narrow", 20, 10, 0.0049, 10, 0, FPL_STOP_STEADY},
      {"enough, too wide", 20, 10, 0.0051, 10, 0, FPL_STOP_NOT},
      {"wide, but most samples", 100, 10, 0.1, 10, 0, FPL_STOP_MOST},
      {"above 1.5 times, before 8 samples", 7, 16, 0.01, 10, 0, FPL_STOP_NOT},
      {"above 1.5 times after 8 samples", 8, 16, 0.01, 10, 0, FPL_STOP_SLOWER},
      {"above 1.5 times, but the interval reaches below", 8, 16, 0.2, 10, 0, FPL_STOP_NOT},
      {"below 1.5 times", 8, 14.9, 0.01, 10, 0, FPL_STOP_NOT},
      {"above 3 times after the first", 1, 31, 0, 10, 0, FPL_STOP_SLOWER},
      {"below 3 times after the first", 1, 29, 0, 10, 0, FPL_STOP_NOT},
      {"never abandoned without a best", 8, 1000, 0.01, 0, 0, FPL_STOP_NOT},
      {"budget before all else", 100, 10, 0.001, 10, 1000, FPL_STOP_BUDGET},
      {"budget without samples", 0, 0, 0, 0, 1001, FPL_STOP_BUDGET},
      {"just within the budget", 5, 10, 0.1, 10, 999.9, FPL_STOP_NOT},
  };
  const struct fpl_stop_options options = fpl_stop_options_make(20, 100, 1000);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const struct fpl_stats own = stats_of(rows[i].n, rows[i].median_us, rows[i].width);
    const enum fpl_stop got = fpl_stop_decide(&own, rows[i].best_us, rows[i].elapsed_us, &options);
    if (got != rows[i].want)
      fail_msg("%s: got %d, want %d", rows[i].name, (int)got, (int)rows[i].want);
  }
}

/* A first launch of 2.6 times the steady time must not throw a good candidate out. */
static void a_slow_start_does_not_abandon(void **state) {
  (void)state;
  const struct fpl_stop_options options = fpl_stop_options_make(20, 100, 1e9);
  double us[8] = {26, 10.1, 10, 10.2, 10, 10.1, 10, 10};
  double scratch[8];
  for (int64_t n = 1; n <= 8; n++) {
    struct fpl_stats s;
    fpl_stats_make(us, n, scratch, &s);
    assert_int_equal(fpl_stop_decide(&s, 10, 0, &options), FPL_STOP_NOT);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(follows_its_table),
      cmocka_unit_test(a_slow_start_does_not_abandon),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
