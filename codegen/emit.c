/* Emits constants. The name of a kernel is a hash of its constants, so that equal plans are one
 * kernel whatever problem they were made for. */
#include "codegen/emit.h"

#include "tuner/core/footprint.h"

#include <stdio.h>
#include <string.h>

/* How a tile of tile_rows x tile_columns of a rows x columns matrix is copied. */
static struct fpl_map_recipe tile_recipe(int64_t rows, int64_t columns, int64_t tile_rows,
                                         int64_t tile_columns) {
  const int64_t slab = fpl_slab_columns(tile_columns);
  const bool is_one_copy = columns % slab == 0 && tile_columns > slab;
  return (struct fpl_map_recipe){.rows = rows,
                                 .cols = columns,
                                 .box_rows = (int32_t)tile_rows,
                                 .box_cols = (int32_t)slab,
                                 .slabs = is_one_copy ? (int32_t)(tile_columns / slab) : 1,
                                 .parts = 1};
}

/* A's tiles, of an image: a copy brings one slab of channels. */
static void read_image(const struct fpl_problem *p, struct fpl_map_recipe *a) {
  if (!fpl_problem_has_image(p))
    return;
  a->cols = p->conv.ic;
  a->slabs = 1;
  a->is_image = true;
}

enum { SLAB = 64, LINE_BYTES = 128 }; /* phases_plan.cuh */

static void describe_phases(const struct fpl_problem *p, const struct fpl_schedule *s,
                            const struct fpl_tiling *t, const struct fpl_footprint *f,
                            struct fpl_kernel *k) {
  (void)f;
  const int64_t slabs = s->blk_k / SLAB;
  const struct fpl_map_recipe fixed = {.box_cols = SLAB, .slabs = 1, .parts = 1};
  for (int i = 0; i < FPL_KERNEL_MAPS; i++)
    k->maps[i] = fixed;
  k->maps[0].rows = -1;
  k->maps[0].cols = k->maps[1].cols = p->k;
  k->maps[0].box_rows = s->blk_m;
  k->maps[1].rows = t->branches * p->n;
  k->maps[1].box_rows = s->blk_n;
  k->maps[1].parts = (int32_t)t->branches;
  k->maps[2].rows = p->l;
  k->maps[2].cols = p->n;
  k->maps[2].box_rows = s->blk_l;
  for (int i = 0; i < FPL_KERNEL_MAPS; i++)
    if (k->maps[i].cols % SLAB == 0 && slabs > 1)
      k->maps[i].slabs = (int32_t)slabs;
  read_image(p, &k->maps[0]);
  k->units_per_row = fpl_max_i64(t->steps[FPL_DIM_N], t->steps[FPL_DIM_L]);
  k->workspace_bytes_per_row_group = fpl_round_up(p->n, SLAB) * s->blk_m * FPL_ELEMENT_BYTES +
                                     fpl_round_up(t->tiles[FPL_DIM_N] * 4, LINE_BYTES) + LINE_BYTES;
}

static void describe_chain(const struct fpl_problem *p, const struct fpl_schedule *s,
                           const struct fpl_tiling *t, const struct fpl_footprint *f,
                           struct fpl_kernel *k) {
  k->maps[0] = tile_recipe(-1, p->k, s->blk_m, s->blk_k);
  read_image(p, &k->maps[0]);
  k->maps[1] = tile_recipe(fpl_problem_branches(p) * p->n, p->k, s->blk_n, s->blk_k);
  k->maps[2] = tile_recipe(p->l, p->n, s->blk_l, s->blk_n);
  k->units_per_row =
      t->steps[FPL_DIM_N] * (s->exchange == FPL_EXCHANGE_RECOMPUTE ? t->steps[FPL_DIM_L] : 1);
  if (s->reduce == FPL_REDUCE_L2 || s->reduce == FPL_REDUCE_DSM_L2) {
    const int64_t tiles = s->cls_m * t->tiles[FPL_DIM_L];
    const int64_t shares = s->reduce == FPL_REDUCE_DSM_L2 ? t->groups : 1;
    k->workspace_bytes_per_row_group =
        tiles * shares * f->staging_bytes + fpl_round_up(tiles * shares * 4, LINE_BYTES);
  }
}

/* A family of kernels: its skeleton, that skeleton's template and rules, and what a launch needs
 * beside what all have in common. */
struct family {
  const char *name, *kernel, *check;
  void (*describe)(const struct fpl_problem *p, const struct fpl_schedule *s,
                   const struct fpl_tiling *t, const struct fpl_footprint *f, struct fpl_kernel *k);
};
static const struct family chain_family = {"chain_sm90", "chain", "check_plan", describe_chain};
static const struct family phases_family = {"phases_sm90", "phases", "check_phases",
                                            describe_phases};

static const struct family *family_of(const struct fpl_schedule *s) {
  return s->exchange == FPL_EXCHANGE_L2 ? &phases_family : &chain_family;
}

static void describe_launch(const struct fpl_problem *p, const struct fpl_schedule *s,
                            const struct fpl_device *d, const struct fpl_tiling *t,
                            const struct fpl_footprint *f, struct fpl_kernel *k) {
  snprintf(k->family, sizeof k->family, "%s", family_of(s)->name);
  k->cluster = (int32_t)t->blocks;
  k->block_threads = (int32_t)(fpl_consumer_threads(s) + 128);
  k->smem_bytes = f->smem_bytes;
  k->rows_per_unit = (int64_t)s->cls_m * s->blk_m;
  k->max_clusters =
      t->blocks <= d->max_cluster ? d->active_sms[fpl_cluster_index(t->blocks)] / t->blocks : 1;
  family_of(s)->describe(p, s, t, f, k);
}

static void emit_constants(const struct fpl_problem *p, const struct fpl_schedule *s,
                           struct fpl_text *out) {
  fpl_text_append(out,
                  "  static constexpr int m = %lld; // rows it was tuned for; m is a run-time "
                  "argument\n"
                  "  static constexpr int n = %lld, k = %lld, l = %lld;\n"
                  "  static constexpr bool is_gated = %s, is_bf16 = %s;\n"
                  "  static constexpr int act = %d; // %s\n",
                  (long long)p->m, (long long)p->n, (long long)p->k, (long long)p->l,
                  p->kind == FPL_KIND_GATED_FFN ? "true" : "false",
                  p->dtype == FPL_DTYPE_BF16 ? "true" : "false", (int)p->act,
                  fpl_act_names[p->act]);
  for (int i = 0; i < FPL_N_FIELDS; i++) {
    const struct fpl_schedule_field *const f = &fpl_schedule_fields[i];
    const int32_t value = fpl_schedule_get(s, i);
    if (i == FPL_FIELD_loops)
      fpl_text_append(out, "  static constexpr char loops[] = \"%s\";\n", f->names[value]);
    else if (f->names)
      fpl_text_append(out, "  static constexpr int %s = %d; // %s\n", f->name, value,
                      f->names[value]);
    else
      fpl_text_append(out, "  static constexpr int %s = %d; // %s\n", f->name, value, f->unit);
  }
}

/* Where A is an image, a second struct: ends the plan's and leaves its own open. */
static void emit_image(const struct fpl_problem *p, struct fpl_text *out) {
  if (fpl_problem_has_image(p))
    fpl_text_append(out,
                    "};\n\n"
                    "struct image { // A: [batch][h][w][ic], convolved k1 x k1\n"
                    "  static constexpr int h = %lld, w = %lld, ic = %lld, k1 = %lld;\n",
                    (long long)p->conv.h, (long long)p->conv.w, (long long)p->conv.ic,
                    (long long)p->conv.k1);
}

/* Entry name: family and 8 hex digits of the constants. */
static void name_kernel(const struct fpl_text *constants, struct fpl_kernel *k) {
  char key[FPL_KEY_HEX];
  fpl_hash_key(constants->text, key);
  snprintf(k->name, sizeof k->name, "%s_%.8s", k->family, key);
}

enum fpl_status fpl_emit(const struct fpl_problem *p, const struct fpl_schedule *s,
                         const struct fpl_device *d, struct fpl_text *source,
                         struct fpl_kernel *kernel, struct fpl_err *err) {
  struct fpl_tiling t;
  struct fpl_footprint f;
  const struct family *const family = family_of(s);
  *kernel = (struct fpl_kernel){0};
  struct fpl_schedule guarded = *s; /* an illegal cluster must not divide by zero here */
  if (s->cls_l % s->cls_k != 0 || s->cls_n * s->cls_k % s->cls_l != 0)
    guarded.cls_l = guarded.cls_k;
  fpl_tiling_make(p, &guarded, &t);
  fpl_footprint_make(&t, &guarded, &f);
  describe_launch(p, &guarded, d, &t, &f, kernel);
  struct fpl_text constants = {0};
  emit_constants(p, s, &constants);
  emit_image(p, &constants);
  const char *const arguments = fpl_problem_has_image(p) ? "plan, image" : "plan";
  if (!constants.is_broken)
    name_kernel(&constants, kernel);
  fpl_text_append(source,
                  "// Generated by fuseplan: do not edit.\n"
                  "#include \"codegen/skeletons/%s.cuh\"\n\n"
                  "struct plan {\n%s};\n\n",
                  family->name, constants.is_broken ? "" : constants.text);
  fpl_text_append(
      source,
      "using checked = skel::%s<%s>;\n"
      "static_assert(checked::smem_bytes == %lld,\n"
      "              \"host and device disagree on shared memory\");\n"
      "static_assert(checked::threads == %d, \"host and device disagree on threads\");\n"
      "static_assert(checked::workspace_bytes == %lld,\n"
      "              \"host and device disagree on the workspace\");\n\n",
      family->check, arguments, (long long)kernel->smem_bytes, kernel->block_threads,
      (long long)kernel->workspace_bytes_per_row_group);
  fpl_text_append(
      source,
      "extern \"C\" __global__ void __launch_bounds__(%d, 1)\n"
      "%s(const __grid_constant__ skel::tensor_map map_a,\n"
      "    const __grid_constant__ skel::tensor_map map_b,\n"
      "    const __grid_constant__ skel::tensor_map map_d, void *e, void *workspace, int m) {\n"
      "  skel::%s<%s>::run(&map_a, &map_b, &map_d, e, workspace, m);\n"
      "}\n",
      kernel->block_threads, kernel->name, family->kernel, arguments);
  const bool is_broken = source->is_broken || constants.is_broken;
  fpl_text_free(&constants);
  return is_broken ? fpl_fail(err, FPL_NO_MEMORY, "out of memory while writing a kernel") : FPL_OK;
}
