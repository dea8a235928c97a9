/* Sets up memory, runs the dataflow, compares. */
#include "costmodel/interp.h"

#include "costmodel/interp_cluster.h"
#include "costmodel/interp_reference.h"

#include <math.h>

static enum fpl_status check_usage(const struct fpl_problem *p, const struct fpl_schedule *s,
                                   const struct fpl_device *d, struct fpl_err *err) {
  const double multiply_adds = fpl_problem_flops(p) / 2;
  if (multiply_adds > FPL_INTERP_MULTIPLY_ADDS)
    return fpl_fail(err, FPL_USAGE, "interpreter: %.0f multiply-adds, at most %d are run",
                    multiply_adds, FPL_INTERP_MULTIPLY_ADDS);
  if (d->max_cluster > FPL_INTERP_BLOCKS)
    return fpl_fail(err, FPL_USAGE, "interpreter: clusters of %lld blocks, at most %d are run",
                    (long long)d->max_cluster, FPL_INTERP_BLOCKS);
  for (int i = 0; i < FPL_N_FIELDS; i++) {
    const struct fpl_schedule_field *const field = &fpl_schedule_fields[i];
    const int32_t value = fpl_schedule_get(s, i);
    if (value < field->least || value > field->most)
      return fpl_fail(err, FPL_USAGE, "schedule field %s is %d: it must lie between %d and %d",
                      field->name, (int)value, (int)field->least, (int)field->most);
  }
  return FPL_OK;
}

static bool make_matrix(struct fpl_arena *arena, enum fpl_dtype dtype, int64_t rows, int64_t cols,
                        float *values, struct fpl_matrix *out) {
  const size_t n = (size_t)(rows * cols);
  struct fpl_matrix matrix = {.rows = rows, .cols = cols, .at = values, .dtype = dtype};
  if (!values)
    matrix.at = fpl_arena_alloc(arena, n * sizeof *matrix.at);
  matrix.is_read = fpl_arena_alloc(arena, n);
  matrix.n_stores = fpl_arena_alloc(arena, n);
  matrix.is_in_hbm = true;
  *out = matrix;
  return matrix.at && matrix.is_read && matrix.n_stores;
}

static enum fpl_status make_memory(struct fpl_interp *run, const struct fpl_interp_inputs *inputs,
                                   struct fpl_arena *arena, struct fpl_err *err) {
  const struct fpl_problem *const p = run->p;
  bool is_made = make_matrix(arena, p->dtype, p->m, p->k, inputs->a, &run->a) &&
                 make_matrix(arena, p->dtype, p->l, p->n, inputs->d, &run->d) &&
                 make_matrix(arena, p->dtype, p->m, p->n, NULL, &run->c) &&
                 make_matrix(arena, p->dtype, p->m, p->l, NULL, &run->e);
  for (int i = 0; i < fpl_problem_branches(p); i++)
    is_made = is_made && make_matrix(arena, p->dtype, p->n, p->k, inputs->b[i], &run->b[i]);
  if (!is_made)
    return fpl_fail(err, FPL_NO_MEMORY, "interpreter: out of memory for the matrices");
  run->c.is_in_hbm = run->s->exchange == FPL_EXCHANGE_HBM;
  run->a.source = inputs->a_raw;
  run->a.is_shared = run->c.is_shared = true;
  run->b[0].is_shared = run->b[1].is_shared = run->d.is_shared = run->t.tiles[FPL_DIM_M] > 1;
  return fpl_interp_cluster_make(run, arena, err);
}

static bool is_stored_once(const struct fpl_matrix *matrix) {
  for (int64_t i = 0; i < matrix->rows * matrix->cols; i++)
    if (matrix->n_stores[i] != 1)
      return false;
  return true;
}

static bool is_workspace_zero(const struct fpl_interp *run) {
  const int64_t tiles = run->t.tiles[FPL_DIM_M] * run->t.tiles[FPL_DIM_L];
  for (int64_t i = 0; i < tiles * (int64_t)fpl_interp_e_floats(run); i++)
    if (run->workspace[i] != 0)
      return false;
  for (int64_t i = 0; i < tiles * run->t.groups; i++)
    if (run->arrivals[i] != 0)
      return false;
  return true;
}

static void compare(const struct fpl_interp *run, const float *reference,
                    struct fpl_interp_report *out) {
  out->is_sound = is_stored_once(&run->e) &&
                  (!fpl_interp_is_two_phase(run) || is_stored_once(&run->c)) &&
                  is_workspace_zero(run);
  out->is_exact = out->is_sound;
  for (int64_t i = 0; i < run->e.rows * run->e.cols; i++) {
    const double got = run->e.at[i], wanted = reference[i];
    if (got == wanted) {
      out->max_abs_value = fmax(out->max_abs_value, fabs(wanted));
      continue;
    }
    const double error = fabs(got - wanted);
    out->is_exact = false;
    out->max_abs_value = fmax(out->max_abs_value, fabs(wanted));
    out->max_abs_error = fmax(out->max_abs_error, isnan(error) ? INFINITY : error);
  }
}

static enum fpl_status interpret(struct fpl_interp *run, enum fpl_interp_values values,
                                 uint64_t seed, struct fpl_arena *arena,
                                 struct fpl_interp_report *out, struct fpl_err *err) {
  struct fpl_interp_inputs inputs;
  float *reference = NULL;
  enum fpl_status status = fpl_interp_inputs_make(run->p, values, seed, arena, &inputs, err);
  if (status == FPL_OK)
    status = fpl_interp_reference(run->p, &inputs, arena, &reference, err);
  if (status == FPL_OK)
    status = make_memory(run, &inputs, arena, err);
  if (status != FPL_OK)
    return status;
  if (fpl_interp_is_two_phase(run))
    fpl_interp_run_two_phase(run);
  else
    fpl_interp_run_fused(run);
  out->traffic = run->traffic;
  compare(run, reference, out);
  return FPL_OK;
}

static enum fpl_status check_and_interpret(const struct fpl_problem *p,
                                           const struct fpl_schedule *s, const struct fpl_device *d,
                                           enum fpl_interp_values values, uint64_t seed,
                                           struct fpl_interp_report *out, struct fpl_err *err) {
  *out = (struct fpl_interp_report){0};
  enum fpl_status status = check_usage(p, s, d, err);
  if (status != FPL_OK)
    return status;
  struct fpl_interp run = {.p = p, .s = s};
  if (!fpl_legal(p, s, d, &run.t, &run.f, &out->verdict))
    return FPL_OK;
  struct fpl_arena arena = {0};
  status = interpret(&run, values, seed, &arena, out, err);
  fpl_arena_free(&arena);
  return status;
}

enum fpl_status fpl_interpret(const struct fpl_problem *p, const struct fpl_schedule *s,
                              const struct fpl_device *d, uint64_t seed,
                              struct fpl_interp_report *out, struct fpl_err *err) {
  return check_and_interpret(p, s, d, FPL_INTERP_INTEGERS, seed, out, err);
}

enum fpl_status fpl_interpret_reals(const struct fpl_problem *p, const struct fpl_schedule *s,
                                    const struct fpl_device *d, uint64_t seed,
                                    struct fpl_interp_report *out, struct fpl_err *err) {
  return check_and_interpret(p, s, d, FPL_INTERP_REALS, seed, out, err);
}
