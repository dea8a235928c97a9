#include "tuner/core/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const fpl_provenance_names[] = {"measured", "predicted", "simulated", NULL};
const char *const fpl_method_names[] = {"none", "cupti", "graph", "event", NULL};

void fpl_result_free(struct fpl_result *r) {
  for (int state = 0; state < FPL_CACHE_STATES; state++)
    free(r->samples[state].us);
  fpl_kernel_free(&r->kernel);
  *r = (struct fpl_result){0};
}

void fpl_environment_set(struct fpl_environment *e, const char *name, const char *value) {
  int at = 0;
  while (at < e->n_fields && strcmp(e->fields[at].name, name) < 0)
    at++;
  const bool is_new = at == e->n_fields || strcmp(e->fields[at].name, name) != 0;
  if (is_new) {
    if (e->n_fields == FPL_ENVIRONMENT_FIELDS)
      return;
    memmove(&e->fields[at + 1], &e->fields[at], (size_t)(e->n_fields - at) * sizeof e->fields[0]);
    e->n_fields++;
    snprintf(e->fields[at].name, sizeof e->fields[at].name, "%s", name);
  }
  snprintf(e->fields[at].value, sizeof e->fields[at].value, "%s", value);
}

const char *fpl_environment_get(const struct fpl_environment *e, const char *name) {
  for (int i = 0; i < e->n_fields; i++)
    if (strcmp(e->fields[i].name, name) == 0)
      return e->fields[i].value;
  return "";
}

bool fpl_plan_is_deterministic(const struct fpl_plan *p) {
  return !p->is_library && fpl_schedule_is_deterministic(&p->schedule);
}

void fpl_plan_free(struct fpl_plan *p) {
  fpl_kernel_free(&p->kernel);
  *p = (struct fpl_plan){0};
}
