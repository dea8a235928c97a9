#include "tuner/cli/known.h"

#include <string.h>

struct own {
  const char *device_name;
  int64_t run_id;
  struct fpl_known *known;
};

static bool is_same(const struct fpl_schedule *a, const struct fpl_schedule *b) {
  for (int field = 0; field < FPL_N_FIELDS; field++)
    if (fpl_schedule_get(a, field) != fpl_schedule_get(b, field))
      return false;
  return true;
}

static void add(struct fpl_known *known, const struct fpl_schedule *s) {
  for (int i = 0; i < known->n; i++)
    if (is_same(&known->schedules[i], s))
      return;
  if (known->n < FPL_KNOWN_MOST)
    known->schedules[known->n++] = *s;
}

/* Candidates come newest run first, by time. */
static enum fpl_status take_own(void *context, const struct fpl_db_candidate *c,
                                struct fpl_err *err) {
  (void)err;
  struct own *const own = context;
  if (c->result.is_library || c->result.outcome != FPL_OUTCOME_OK ||
      strcmp(c->device_name, own->device_name) != 0 || own->known->n == FPL_KNOWN_OWN ||
      (own->known->n > 0 && c->run_id != own->run_id))
    return FPL_OK;
  own->run_id = c->run_id;
  add(own->known, &c->result.schedule);
  return FPL_OK;
}

struct near {
  const struct fpl_problem *problem;
  struct {
    double distance;
    char schedule[FPL_SCHEDULE_TEXT];
  } best[FPL_KNOWN_NEAR];
  int n;
};

static enum fpl_status take_near(void *context, const struct fpl_neighbour *neighbour,
                                 struct fpl_err *err) {
  (void)err;
  struct near *const near = context;
  const double distance = fpl_problem_distance(near->problem, &neighbour->problem);
  if (neighbour->is_library || !fpl_problem_is_near(near->problem, &neighbour->problem))
    return FPL_OK;
  for (int i = 0; i < near->n; i++)
    if (strcmp(near->best[i].schedule, neighbour->schedule) == 0)
      return FPL_OK;
  int at = near->n;
  while (at > 0 && distance < near->best[at - 1].distance)
    at--;
  if (at == FPL_KNOWN_NEAR)
    return FPL_OK;
  near->n += near->n < FPL_KNOWN_NEAR;
  memmove(&near->best[at + 1], &near->best[at], (size_t)(near->n - 1 - at) * sizeof near->best[0]);
  near->best[at].distance = distance;
  strncpy(near->best[at].schedule, neighbour->schedule, FPL_SCHEDULE_TEXT - 1);
  near->best[at].schedule[FPL_SCHEDULE_TEXT - 1] = '\0';
  return FPL_OK;
}

enum fpl_status fpl_known_find(struct fpl_db *db, const struct fpl_problem *p,
                               const struct fpl_device *d, struct fpl_known *out,
                               struct fpl_err *err) {
  *out = (struct fpl_known){.n = 0};
  int64_t problem_id = 0;
  enum fpl_status status = fpl_db_problem_id(db, p, &problem_id, err);
  struct own own = {.device_name = d->name, .known = out};
  if (status == FPL_OK && problem_id != 0)
    status = fpl_db_each_candidate(db, problem_id, take_own, &own, err);
  struct near near = {.problem = p};
  const struct fpl_wanted wanted = {.problem = p, .device = d};
  const struct fpl_source source = fpl_db_source(db);
  if (status == FPL_OK)
    status = source.each_neighbour(source.self, &wanted, take_near, &near, err);
  for (int i = 0; status == FPL_OK && i < near.n; i++) {
    struct fpl_schedule s;
    if (fpl_schedule_parse(near.best[i].schedule, &s, NULL) == FPL_OK)
      add(out, &s);
  }
  return status;
}
