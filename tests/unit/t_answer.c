/* Tiers, distance, regret, and who wins, over sources made of arrays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tuner/core/answer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 8 };
struct stored {
  struct fpl_plan plan;
  char schedule[FPL_SCHEDULE_TEXT];
};
struct fake {
  struct stored plans[MOST];
  int n;
  struct fpl_regret regrets[FPL_REGRET_CLASSES];
  int n_reads;
};

static enum fpl_status fake_find(void *self, const struct fpl_wanted *wanted, struct fpl_plan *out,
                                 bool *out_found, struct fpl_err *err) {
  (void)err;
  const struct fake *const f = self;
  *out = (struct fpl_plan){0};
  *out_found = false;
  for (int i = 0; i < f->n && !*out_found; i++)
    if (fpl_problem_equals(&f->plans[i].plan.problem, wanted->problem) &&
        (!wanted->needs_kernel || f->plans[i].plan.has_cubin)) {
      *out = f->plans[i].plan;
      *out_found = true;
    }
  return FPL_OK;
}

static enum fpl_status fake_each(void *self, const struct fpl_wanted *wanted,
                                 fpl_visit_neighbour *visit, void *context, struct fpl_err *err) {
  const struct fake *const f = self;
  enum fpl_status status = FPL_OK;
  for (int i = 0; status == FPL_OK && i < f->n; i++) {
    const struct fpl_plan *const p = &f->plans[i].plan;
    const struct fpl_neighbour neighbour = {.plan_id = i,
                                            .problem = p->problem,
                                            .provenance = p->provenance,
                                            .is_library = p->is_library,
                                            .has_cubin = p->has_cubin,
                                            .schedule = f->plans[i].schedule,
                                            .measured_us = p->measured_us,
                                            .library_us = p->library_us,
                                            .created_unix = p->created_unix,
                                            .m_low = p->m_low,
                                            .m_high = p->m_high};
    if (fpl_is_wanted(wanted, &neighbour))
      status = visit(context, &neighbour, err);
  }
  return status;
}

static enum fpl_status fake_read(void *self, int64_t plan_id, struct fpl_plan *out,
                                 struct fpl_err *err) {
  (void)err;
  struct fake *const f = self;
  f->n_reads++;
  *out = f->plans[plan_id].plan;
  return FPL_OK;
}

static enum fpl_status fake_regret(void *self, const struct fpl_wanted *wanted, int regret_class,
                                   struct fpl_regret *out, struct fpl_err *err) {
  (void)wanted;
  (void)err;
  *out = ((struct fake *)self)->regrets[regret_class];
  return FPL_OK;
}

static struct fpl_source source_of(struct fake *f) {
  return (struct fpl_source){.self = f,
                             .find = fake_find,
                             .each_neighbour = fake_each,
                             .read = fake_read,
                             .regret = fake_regret};
}

static struct fpl_device device(void) {
  return (struct fpl_device){.name = "h200",
                             .capability_major = 9,
                             .sms = 132,
                             .smem_bytes_per_block = 232448,
                             .smem_bytes_per_sm = 233472,
                             .registers_per_sm = 65536,
                             .threads_per_sm = 2048,
                             .max_cluster = 16};
}

static struct fpl_problem problem(int64_t m, int64_t n, int64_t k) {
  struct fpl_problem p;
  assert_int_equal(fpl_problem_make(FPL_KIND_GEMM_CHAIN, FPL_DTYPE_F16, FPL_ACT_RELU, m, n, k, k,
                                    NULL, &p, NULL),
                   FPL_OK);
  return p;
}

/* A measured kernel, twice as fast as the library. */
static struct fpl_plan *add(struct fake *f, struct fpl_problem p) {
  struct stored *const s = &f->plans[f->n++];
  snprintf(s->schedule, sizeof s->schedule,
           "loops=mn|lk cls_m=1 cls_n=2 cls_k=1 cls_l=2 blk_m=64 blk_n=128 blk_k=64 blk_l=128 "
           "exchange=dsm reduce=l2 gate=sequential stages=2");
  s->plan = (struct fpl_plan){.problem = p,
                              .measured_us = 10,
                              .library_us = 20,
                              .created_unix = 1000,
                              .m_low = p.m,
                              .m_high = p.m};
  assert_int_equal(fpl_schedule_parse(s->schedule, &s->plan.schedule, NULL), FPL_OK);
  return &s->plan;
}

static void know_regret(struct fake *f, double expected) {
  for (int i = 0; i < FPL_REGRET_CLASSES; i++)
    f->regrets[i] = (struct fpl_regret){20, 0, expected, 2 * expected};
}

static struct fpl_answer ask(struct fake *fakes, int n, struct fpl_problem p, enum fpl_tier last,
                             struct fpl_trace *trace) {
  struct fpl_source sources[2];
  for (int i = 0; i < n; i++)
    sources[i] = source_of(&fakes[i]);
  const struct fpl_device d = device();
  const struct fpl_wanted wanted = {.problem = &p, .device = &d};
  struct fpl_answer out;
  struct fpl_err err = {0};
  assert_int_equal(fpl_answer(sources, n, &wanted, NULL, last, &out, trace, &err), FPL_OK);
  return out;
}

static void the_exact_plan_answers_before_any_other(void **state) {
  (void)state;
  struct fake f = {.n = 0};
  add(&f, problem(64, 3072, 768))->m_high = 200;
  add(&f, problem(128, 3072, 768));
  const struct fpl_answer a = ask(&f, 1, problem(128, 3072, 768), FPL_TIER_NEAREST, NULL);
  assert_int_equal(a.tier, FPL_TIER_EXACT);
  assert_int_equal(a.plan.problem.m, 128);
  assert_int_equal(f.n_reads, 0);
}

static void an_envelope_that_holds_m_answers_and_one_that_ends_before_does_not(void **state) {
  (void)state;
  struct fake f = {.n = 0};
  add(&f, problem(64, 3072, 768))->m_high = 90;
  struct fpl_answer a = ask(&f, 1, problem(90, 3072, 768), FPL_TIER_NEAREST, NULL);
  assert_int_equal(a.tier, FPL_TIER_ENVELOPE);
  assert_true(a.is_stored);
  a = ask(&f, 1, problem(91, 3072, 768), FPL_TIER_NEAREST, NULL);
  assert_int_equal(a.tier, FPL_TIER_LIBRARY);
  assert_false(a.is_stored);
}

static void the_nearest_answers_only_with_evidence_that_it_beats_the_library(void **state) {
  (void)state;
  struct fake f = {.n = 0};
  add(&f, problem(128, 3072, 768));
  const struct fpl_problem p = problem(100, 2560, 768);
  struct fpl_trace trace;
  struct fpl_answer a = ask(&f, 1, p, FPL_TIER_NEAREST, &trace);
  assert_int_equal(a.tier, FPL_TIER_LIBRARY);
  assert_int_equal(trace.n_closest, 1);
  assert_non_null(strstr(trace.closest[0].why, "no evidence"));
  know_regret(&f, 0.5);
  a = ask(&f, 1, p, FPL_TIER_NEAREST, &trace);
  assert_int_equal(a.tier, FPL_TIER_NEAREST);
  assert_string_equal(trace.closest[0].why, "");
  assert_int_equal(a.regret.n, 20);
  know_regret(&f, 1.5);
  a = ask(&f, 1, p, FPL_TIER_NEAREST, &trace);
  assert_int_equal(a.tier, FPL_TIER_LIBRARY);
  assert_non_null(strstr(trace.closest[0].why, "less than it may lose"));
}

static void a_tier_beyond_the_last_is_not_tried(void **state) {
  (void)state;
  struct fake f = {.n = 0};
  add(&f, problem(128, 3072, 768))->m_low = 64;
  know_regret(&f, 0.1);
  assert_int_equal(ask(&f, 1, problem(70, 3072, 768), FPL_TIER_EXACT, NULL).tier, FPL_TIER_LIBRARY);
  assert_int_equal(ask(&f, 1, problem(60, 3072, 768), FPL_TIER_ENVELOPE, NULL).tier,
                   FPL_TIER_LIBRARY);
  assert_int_equal(ask(&f, 1, problem(60, 3072, 768), FPL_TIER_NEAREST, NULL).tier,
                   FPL_TIER_NEAREST);
}

static void shapes_beyond_the_limits_are_no_neighbours(void **state) {
  (void)state;
  struct fake f = {.n = 0};
  add(&f, problem(128, 3072, 768));
  know_regret(&f, 0.1);
  assert_int_equal(ask(&f, 1, problem(512, 1536, 768), FPL_TIER_NEAREST, NULL).tier,
                   FPL_TIER_NEAREST);
  assert_int_equal(ask(&f, 1, problem(513, 3072, 768), FPL_TIER_NEAREST, NULL).tier,
                   FPL_TIER_LIBRARY);
  assert_int_equal(ask(&f, 1, problem(128, 6145, 768), FPL_TIER_NEAREST, NULL).tier,
                   FPL_TIER_LIBRARY);
  assert_int_equal(ask(&f, 1, problem(INT64_C(2147483647), 3072, 768), FPL_TIER_NEAREST, NULL).tier,
                   FPL_TIER_LIBRARY);
}

static void equal_distances_go_to_the_newer_plan_then_to_the_smaller_m(void **state) {
  (void)state;
  struct fake f = {.n = 0};
  add(&f, problem(256, 3072, 768));
  add(&f, problem(64, 3072, 768));
  know_regret(&f, 0.1);
  const struct fpl_problem p = problem(128, 3072, 768);
  assert_int_equal(ask(&f, 1, p, FPL_TIER_NEAREST, NULL).plan.problem.m, 64);
  f.plans[0].plan.created_unix++;
  assert_int_equal(ask(&f, 1, p, FPL_TIER_NEAREST, NULL).plan.problem.m, 256);
  f.plans[0].plan.provenance = FPL_PROVENANCE_PREDICTED;
  assert_int_equal(ask(&f, 1, p, FPL_TIER_NEAREST, NULL).plan.problem.m, 64);
}

static void a_predicted_plan_of_another_shape_never_answers(void **state) {
  (void)state;
  struct fake f = {.n = 0};
  add(&f, problem(128, 3072, 768))->provenance = FPL_PROVENANCE_PREDICTED;
  know_regret(&f, 0.1);
  assert_false(ask(&f, 1, problem(127, 3072, 768), FPL_TIER_NEAREST, NULL).is_stored);
}

static void a_measured_plan_below_beats_a_predicted_one_above(void **state) {
  (void)state;
  struct fake layers[2] = {{.n = 0}, {.n = 0}};
  const struct fpl_problem p = problem(128, 3072, 768);
  add(&layers[0], p);
  add(&layers[1], p)->created_unix = 9000;
  assert_int_equal(ask(layers, 2, p, FPL_TIER_NEAREST, NULL).layer, 0);
  layers[0].plans[0].plan.provenance = FPL_PROVENANCE_PREDICTED;
  assert_int_equal(ask(layers, 2, p, FPL_TIER_NEAREST, NULL).layer, 1);
}

static void an_exact_plan_below_beats_a_near_one_above(void **state) {
  (void)state;
  struct fake layers[2] = {{.n = 0}, {.n = 0}};
  add(&layers[0], problem(120, 3072, 768))->m_high = 200;
  add(&layers[1], problem(128, 3072, 768));
  const struct fpl_answer a = ask(layers, 2, problem(128, 3072, 768), FPL_TIER_NEAREST, NULL);
  assert_int_equal(a.tier, FPL_TIER_EXACT);
  assert_int_equal(a.layer, 1);
}

static void a_kernel_serves_its_family_alone(void **state) {
  (void)state;
  struct fake f = {.n = 0};
  add(&f, problem(128, 3072, 768))->has_cubin = true;
  know_regret(&f, 0.1);
  assert_true(ask(&f, 1, problem(100, 3072, 768), FPL_TIER_NEAREST, NULL).has_kernel);
  assert_false(ask(&f, 1, problem(128, 3000, 768), FPL_TIER_NEAREST, NULL).has_kernel);
  const struct fpl_problem other = problem(128, 3000, 768);
  const struct fpl_device d = device();
  const struct fpl_wanted wanted = {.problem = &other, .device = &d, .needs_kernel = true};
  const struct fpl_source source = source_of(&f);
  struct fpl_answer a;
  assert_int_equal(fpl_answer(&source, 1, &wanted, NULL, FPL_TIER_NEAREST, &a, NULL, NULL), FPL_OK);
  assert_false(a.is_stored);
}

static void distance_is_symmetric_and_equal_ratios_are_equal_to_the_bit(void **state) {
  (void)state;
  const struct fpl_problem a = problem(96, 3072, 768), b = problem(192, 3072, 768),
                           c = problem(48, 3072, 768), d = problem(96, 1536, 768);
  assert_true(fpl_problem_distance(&a, &b) == fpl_problem_distance(&b, &a));
  assert_true(fpl_problem_distance(&a, &b) == fpl_problem_distance(&a, &c));
  assert_true(fpl_problem_distance(&a, &b) == fpl_problem_distance(&a, &d));
  assert_true(fabs(fpl_problem_distance(&a, &b) - log(2)) < 1e-12);
  assert_int_equal(fpl_regret_class(0), 0);
  assert_int_equal(fpl_regret_class(log(2)), 2);
  assert_int_equal(fpl_regret_class(100), FPL_REGRET_CLASSES - 1);
}

static void a_regret_holds_nine_of_ten_and_says_nothing_of_too_few(void **state) {
  (void)state;
  double values[99];
  for (int i = 0; i < 99; i++)
    values[i] = i + 1;
  assert_int_equal(fpl_regret_of(values, FPL_REGRET_LEAST - 1).n, 0);
  const struct fpl_regret r = fpl_regret_of(values, 99);
  assert_true(r.low == 5 && r.expected == 50 && r.high == 95);
  const struct fpl_regret few = fpl_regret_of(values, 9);
  assert_true(few.low == 1 && few.expected == 5 && few.high == 9);
}

static void set_driver(struct fpl_environment *e, const char *driver, const char *nvrtc) {
  *e = (struct fpl_environment){.n_fields = 0};
  fpl_environment_set(e, "driver", driver);
  if (nvrtc)
    fpl_environment_set(e, "nvrtc", nvrtc);
}

static void environments_match_by_driver_then_toolkit(void **state) {
  (void)state;
  struct fpl_environment stored, asking;
  set_driver(&stored, "580.65.06 (CUDA 13.0)", "13.0");
  assert_int_equal(fpl_environment_match(&stored, NULL), FPL_MATCH_UNKNOWN);
  static const struct {
    const char *driver, *nvrtc;
    enum fpl_match match;
  } cases[] = {{"580.65.06 (CUDA 13.0)", "13.0", FPL_MATCH_SAME},
               {"580.65.06 (CUDA 13.0)", NULL, FPL_MATCH_SAME},
               {"580.65.06 (CUDA 13.0)", "13.1", FPL_MATCH_TOOLKIT},
               {"580.95.05 (CUDA 13.0)", "13.0", FPL_MATCH_DRIVER},
               {"13.0", NULL, FPL_MATCH_SAME},
               {"13.1", "13.0", FPL_MATCH_DRIVER},
               {"", "13.0", FPL_MATCH_UNKNOWN}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    set_driver(&asking, cases[i].driver, cases[i].nvrtc);
    assert_int_equal(fpl_environment_match(&stored, &asking), cases[i].match);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_exact_plan_answers_before_any_other),
      cmocka_unit_test(an_envelope_that_holds_m_answers_and_one_that_ends_before_does_not),
      cmocka_unit_test(the_nearest_answers_only_with_evidence_that_it_beats_the_library),
      cmocka_unit_test(a_tier_beyond_the_last_is_not_tried),
      cmocka_unit_test(shapes_beyond_the_limits_are_no_neighbours),
      cmocka_unit_test(equal_distances_go_to_the_newer_plan_then_to_the_smaller_m),
      cmocka_unit_test(a_predicted_plan_of_another_shape_never_answers),
      cmocka_unit_test(a_measured_plan_below_beats_a_predicted_one_above),
      cmocka_unit_test(an_exact_plan_below_beats_a_near_one_above),
      cmocka_unit_test(a_kernel_serves_its_family_alone),
      cmocka_unit_test(distance_is_symmetric_and_equal_ratios_are_equal_to_the_bit),
      cmocka_unit_test(a_regret_holds_nine_of_ten_and_says_nothing_of_too_few),
      cmocka_unit_test(environments_match_by_driver_then_toolkit)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
