/* Binary heap with the worst kept candidate on top. */
#include "tuner/core/ranked.h"

bool fpl_ranked_before(const struct fpl_ranked *a, const struct fpl_ranked *b) {
  if (a->est_us < b->est_us || a->est_us > b->est_us)
    return a->est_us < b->est_us;
  if (a->tie_us < b->tie_us || a->tie_us > b->tie_us)
    return a->tie_us < b->tie_us;
  for (int i = 0; i < FPL_N_FIELDS; i++) {
    const int32_t x = fpl_schedule_get(&a->schedule, i), y = fpl_schedule_get(&b->schedule, i);
    if (x != y)
      return x < y;
  }
  return false;
}

static void swap(struct fpl_ranked *a, struct fpl_ranked *b) {
  const struct fpl_ranked held = *a;
  *a = *b;
  *b = held;
}

static void sift_down(struct fpl_ranked *items, int n, int at) {
  for (;;) {
    int worst = at;
    for (int child = 2 * at + 1; child <= 2 * at + 2 && child < n; child++)
      if (fpl_ranked_before(&items[worst], &items[child]))
        worst = child;
    if (worst == at)
      return;
    swap(&items[at], &items[worst]);
    at = worst;
  }
}

static void sift_up(struct fpl_ranked *items, int at) {
  while (at > 0) {
    const int parent = (at - 1) / 2;
    if (!fpl_ranked_before(&items[parent], &items[at]))
      return;
    swap(&items[at], &items[parent]);
    at = parent;
  }
}

void fpl_best_offer(struct fpl_best *best, const struct fpl_ranked *candidate) {
  if (best->n < best->most) {
    best->items[best->n] = *candidate;
    sift_up(best->items, best->n++);
  } else if (fpl_ranked_before(candidate, &best->items[0])) {
    best->items[0] = *candidate;
    sift_down(best->items, best->n, 0);
  }
}

void fpl_best_sort(struct fpl_best *best) {
  for (int end = best->n - 1; end > 0; end--) {
    swap(&best->items[0], &best->items[end]);
    sift_down(best->items, end, 0);
  }
}
