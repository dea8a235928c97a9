/* Decides how a recipe becomes a tensor map, and which recipes are refused. */
#include "tuner/launch/maps.h"

#include <string.h>

static int64_t recipe_rows(const struct fpl_map_recipe *recipe, const struct fpl_problem *p) {
  return recipe->rows < 0 ? p->m : recipe->rows;
}

static bool choose_swizzle(const struct fpl_map_recipe *recipe, CUtensorMapSwizzle *out,
                           struct fpl_failure *failure) {
  const int row_bytes = recipe->box_cols * FPL_ELEMENT_BYTES;
  *out = CU_TENSOR_MAP_SWIZZLE_128B;
  if (row_bytes == 64)
    *out = CU_TENSOR_MAP_SWIZZLE_64B;
  else if (row_bytes == 32)
    *out = CU_TENSOR_MAP_SWIZZLE_32B;
  else if (row_bytes != 128)
    return fpl_failure_candidate(failure, FPL_OUTCOME_LAUNCH_ERROR,
                                 "tensor map: a box row of %d bytes has no swizzle", row_bytes);
  return true;
}

/* Both element types are 16 bits that TMA only moves; the type matters for the fill alone, which is
 * zero. */
static const CUtensorMapDataType map_type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
enum { MOST_RANK = 4 };

/* The image [batch][h][w][ic]. Base pixels are those from which a kernel of k1 x k1 reaches no
 * further than the padding: from -(k1-1)/2 to extent - 1 - (k1-1)/2, so that there is one for each
 * output pixel. The upper corner counts from the far end. */
static CUresult encode_image(const struct fpl_driver *call, const struct fpl_map_recipe *recipe,
                             const struct fpl_conv *conv, void *base, CUtensorMapSwizzle swizzle,
                             CUtensorMap *out) {
  const cuuint64_t ic = (cuuint64_t)conv->ic, w = (cuuint64_t)conv->w, h = (cuuint64_t)conv->h;
  const cuuint64_t sizes[MOST_RANK] = {ic, w, h, (cuuint64_t)conv->batch};
  const cuuint64_t strides_bytes[] = {ic * FPL_ELEMENT_BYTES, w * ic * FPL_ELEMENT_BYTES,
                                      h * w * ic * FPL_ELEMENT_BYTES};
  const int corner = -(int)((conv->k1 - 1) / 2);
  const int lower[] = {corner, corner}, upper[] = {corner, corner};
  const cuuint32_t steps[MOST_RANK] = {1, 1, 1, 1};
  return call->map_encode_image(out, map_type, MOST_RANK, base, sizes, strides_bytes, lower, upper,
                                (cuuint32_t)recipe->box_cols, (cuuint32_t)recipe->box_rows, steps,
                                CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                                CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

/* Dimensions, inner to outer: columns (of a slab), rows, parts, slabs. */
static CUresult encode_matrix(const struct fpl_driver *call, const struct fpl_map_recipe *recipe,
                              int64_t rows, void *base, CUtensorMapSwizzle swizzle,
                              CUtensorMap *out) {
  const bool has_slabs = recipe->slabs > 1;
  const cuuint64_t box_cols = (cuuint64_t)recipe->box_cols;
  const cuuint64_t row_bytes = (cuuint64_t)recipe->cols * FPL_ELEMENT_BYTES;
  const cuuint64_t part_rows = (cuuint64_t)(rows / recipe->parts);
  cuuint64_t sizes[MOST_RANK] = {has_slabs ? box_cols : (cuuint64_t)recipe->cols, part_rows};
  cuuint64_t strides_bytes[MOST_RANK - 1] = {row_bytes}; /* of all dimensions but the innermost */
  cuuint32_t box[MOST_RANK] = {(cuuint32_t)recipe->box_cols, (cuuint32_t)recipe->box_rows};
  const cuuint32_t steps[MOST_RANK] = {1, 1, 1, 1};
  cuuint32_t rank = 2;
  if (recipe->parts > 1) {
    sizes[rank] = box[rank] = (cuuint32_t)recipe->parts;
    strides_bytes[rank++ - 1] = part_rows * row_bytes;
  }
  if (has_slabs) {
    sizes[rank] = (cuuint64_t)recipe->cols / box_cols;
    box[rank] = (cuuint32_t)recipe->slabs;
    strides_bytes[rank++ - 1] = box_cols * FPL_ELEMENT_BYTES;
  }
  return call->map_encode(out, map_type, rank, base, sizes, strides_bytes, box, steps,
                          CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                          CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

bool fpl_map_encode(const struct fpl_driver *call, const struct fpl_map_recipe *recipe,
                    const struct fpl_problem *p, CUdeviceptr address, CUtensorMap *out,
                    struct fpl_failure *failure) {
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
  if (!choose_swizzle(recipe, &swizzle, failure))
    return false;
  void *base = NULL;
  memcpy(&base, &address, sizeof base); /* a device address travels as a pointer here */
  const CUresult code =
      recipe->is_image ? encode_image(call, recipe, &p->conv, base, swizzle, out)
                       : encode_matrix(call, recipe, recipe_rows(recipe, p), base, swizzle, out);
  return fpl_driver_ok(call, code, "encode a tensor map", failure);
}

static int64_t matrix_elements(const struct fpl_problem *p, int index) {
  const int64_t n_elements[FPL_KERNEL_MAPS] = {fpl_problem_a_elements(p),
                                               fpl_problem_branches(p) * p->n * p->k, p->l * p->n};
  return n_elements[index];
}

bool fpl_map_check(const struct fpl_map_recipe *recipe, const struct fpl_problem *p, int index,
                   struct fpl_failure *failure) {
  const int64_t rows = recipe_rows(recipe, p), n_elements = matrix_elements(p, index);
  if (rows < 1 || recipe->cols < 1 || recipe->box_rows < 1 || recipe->box_cols < 1 ||
      recipe->slabs < 1 || recipe->parts < 1)
    return fpl_failure_candidate(failure, FPL_OUTCOME_LAUNCH_ERROR,
                                 "tensor map %d: an extent below 1", index);
  const bool is_whole =
      (recipe->slabs == 1 || recipe->cols % recipe->box_cols == 0) && rows % recipe->parts == 0;
  const bool is_of_image = index == 0 && p->kind == FPL_KIND_CONV_CHAIN && rows == p->m &&
                           recipe->cols == p->conv.ic && recipe->slabs == 1 && recipe->parts == 1;
  if (is_whole && rows <= n_elements / recipe->cols && (!recipe->is_image || is_of_image))
    return true;
  return fpl_failure_candidate(failure, FPL_OUTCOME_LAUNCH_ERROR,
                               "tensor map %d: %lld x %lld elements do not fit %s of %lld", index,
                               (long long)rows, (long long)recipe->cols,
                               recipe->is_image ? "an image" : "a matrix", (long long)n_elements);
}
