/* How tensor maps are encoded: a driver whose functions write down what they are asked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#if __has_include(<cuda.h>)

#include "tuner/measure/sample_cuda.h"

#include <string.h>

/* What the last map of each operand was asked for; cuTensorMapEncode... is told the address. */
struct encoded {
  bool is_image;
  cuuint32_t rank, pixels, channels;
  cuuint64_t sizes[5], strides_bytes[5];
  cuuint32_t box[5];
  int lower[3], upper[3];
  CUtensorMapSwizzle swizzle;
};
enum { A_ADDRESS = 0x1000, B_ADDRESS = 0x2000, D_ADDRESS = 0x3000 };
static struct encoded encoded[FPL_KERNEL_MAPS];

static struct encoded *at_address(const void *address) {
  struct encoded *out = &encoded[(uintptr_t)address / A_ADDRESS - 1];
  *out = (struct encoded){0};
  return out;
}

static CUresult map_encode(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                           void *address, const cuuint64_t *sizes, const cuuint64_t *strides_bytes,
                           const cuuint32_t *box, const cuuint32_t *steps,
                           CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                           CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  (void)map, (void)type, (void)steps, (void)interleave, (void)promotion, (void)fill;
  struct encoded *out = at_address(address);
  out->rank = rank;
  out->swizzle = swizzle;
  memcpy(out->sizes, sizes, rank * sizeof *sizes);
  memcpy(out->strides_bytes, strides_bytes, (rank - 1) * sizeof *strides_bytes);
  memcpy(out->box, box, rank * sizeof *box);
  return CUDA_SUCCESS;
}

static CUresult map_encode_image(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                 void *address, const cuuint64_t *sizes,
                                 const cuuint64_t *strides_bytes, const int *lower,
                                 const int *upper, cuuint32_t channels, cuuint32_t pixels,
                                 const cuuint32_t *steps, CUtensorMapInterleave interleave,
                                 CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                 CUtensorMapFloatOOBfill fill) {
  (void)map, (void)type, (void)steps, (void)interleave, (void)promotion, (void)fill;
  struct encoded *out = at_address(address);
  out->is_image = true;
  out->rank = rank;
  out->swizzle = swizzle;
  out->channels = channels;
  out->pixels = pixels;
  memcpy(out->sizes, sizes, rank * sizeof *sizes);
  memcpy(out->strides_bytes, strides_bytes, (rank - 1) * sizeof *strides_bytes);
  memcpy(out->lower, lower, (rank - 2) * sizeof *lower);
  memcpy(out->upper, upper, (rank - 2) * sizeof *upper);
  return CUDA_SUCCESS;
}

static CUresult module_load(CUmodule *out, const void *image) {
  (void)image;
  *out = NULL;
  return CUDA_SUCCESS;
}
static CUresult module_function(CUfunction *out, CUmodule module, const char *name) {
  (void)module, (void)name;
  *out = NULL;
  return CUDA_SUCCESS;
}
static CUresult function_set(CUfunction function, CUfunction_attribute attribute, int value) {
  (void)function, (void)attribute, (void)value;
  return CUDA_SUCCESS;
}
static CUresult active_blocks(int *out, CUfunction function, int threads, size_t smem_bytes) {
  (void)function, (void)threads, (void)smem_bytes;
  *out = 1;
  return CUDA_SUCCESS;
}
static CUresult mem_alloc(CUdeviceptr *out, size_t bytes) {
  *out = bytes;
  return CUDA_SUCCESS;
}
static CUresult mem_free(CUdeviceptr pointer) {
  (void)pointer;
  return CUDA_SUCCESS;
}
static CUresult mem_set(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  (void)to, (void)value, (void)bytes, (void)stream;
  return CUDA_SUCCESS;
}
static CUresult launch(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned block_x,
                       unsigned block_y, unsigned block_z, unsigned smem_bytes, CUstream stream,
                       void **parameters, void **extra) {
  (void)function, (void)x, (void)y, (void)z, (void)block_x, (void)block_y, (void)block_z;
  (void)smem_bytes, (void)stream, (void)parameters, (void)extra;
  return CUDA_SUCCESS;
}
static CUresult stream_wait(CUstream stream) {
  (void)stream;
  return CUDA_SUCCESS;
}

static const struct fpl_gpu gpu = {.sms = 132,
                                   .call = {.map_encode = map_encode,
                                            .map_encode_image = map_encode_image,
                                            .module_load = module_load,
                                            .module_function = module_function,
                                            .function_set = function_set,
                                            .active_blocks = active_blocks,
                                            .mem_alloc = mem_alloc,
                                            .mem_free = mem_free,
                                            .mem_set = mem_set,
                                            .launch = launch,
                                            .stream_wait = stream_wait}};

/* Three maps that fit any problem below. */
static struct fpl_kernel plain_kernel(const struct fpl_problem *p) {
  return (struct fpl_kernel){.maps = {{-1, p->k, 128, 64, 1, 1, 0},
                                      {p->n, p->k, 64, 64, 1, 1, 0},
                                      {p->l, p->n, 80, 32, 1, 1, 0}},
                             .cluster = 1,
                             .block_threads = 384,
                             .rows_per_unit = 128,
                             .units_per_row = 1,
                             .max_clusters = 132};
}

static bool load(const struct fpl_problem *p, const struct fpl_kernel *k,
                 struct fpl_failure *failure) {
  struct fpl_operands set = {A_ADDRESS, B_ADDRESS, D_ADDRESS};
  const struct fpl_inputs inputs = {.problem = *p, .n_sets = 0, .sets = &set};
  struct fpl_cuda_kernel kernel;
  *failure = (struct fpl_failure){0};
  memset(encoded, 0, sizeof encoded);
  if (!fpl_cuda_kernel_load(&gpu, &inputs, k, "", false, &kernel, failure))
    return false;
  fpl_cuda_kernel_unload(&kernel);
  return true;
}

static void assert_dimension(const struct encoded *map, cuuint32_t i, uint64_t size,
                             uint64_t stride_bytes, uint32_t box) {
  assert_true(i < map->rank);
  assert_int_equal(map->sizes[i], size);
  assert_int_equal(map->box[i], box);
  if (i > 0)
    assert_int_equal(map->strides_bytes[i - 1], stride_bytes);
}

static struct fpl_problem gated_problem(void) {
  struct fpl_problem p;
  struct fpl_err err = {0};
  assert_int_equal(fpl_problem_make(FPL_KIND_GATED_FFN, FPL_DTYPE_F16, FPL_ACT_SILU, 200, 3072,
                                    1024, 512, NULL, &p, &err),
                   FPL_OK);
  return p;
}

static void a_plain_map_has_two_dimensions(void **state) {
  (void)state;
  const struct fpl_problem p = gated_problem();
  const struct fpl_kernel k = plain_kernel(&p);
  struct fpl_failure failure;
  assert_true(load(&p, &k, &failure));
  assert_int_equal(encoded[0].rank, 2);
  assert_dimension(&encoded[0], 0, 1024, 0, 64);
  assert_dimension(&encoded[0], 1, 200, 2048, 128);
  assert_int_equal(encoded[0].swizzle, CU_TENSOR_MAP_SWIZZLE_128B);
  assert_dimension(&encoded[2], 1, 512, 6144, 80);
  assert_int_equal(encoded[2].swizzle, CU_TENSOR_MAP_SWIZZLE_64B);
}

static void parts_and_slabs_are_a_dimension_each(void **state) {
  (void)state;
  const struct fpl_problem p = gated_problem();
  struct fpl_kernel k = plain_kernel(&p);
  k.maps[0].slabs = 2;
  k.maps[1] = (struct fpl_map_recipe){6144, 1024, 80, 64, 4, 2, 0};
  struct fpl_failure failure;
  assert_true(load(&p, &k, &failure));
  assert_int_equal(encoded[0].rank, 3);
  assert_dimension(&encoded[0], 0, 64, 0, 64);
  assert_dimension(&encoded[0], 1, 200, 2048, 128);
  assert_dimension(&encoded[0], 2, 16, 128, 2);
  assert_int_equal(encoded[1].rank, 4);
  assert_dimension(&encoded[1], 0, 64, 0, 64);
  assert_dimension(&encoded[1], 1, 3072, 2048, 80);
  assert_dimension(&encoded[1], 2, 2, 3072 * 2048, 2);
  assert_dimension(&encoded[1], 3, 16, 128, 4);
  k.maps[1].slabs = 1;
  assert_true(load(&p, &k, &failure));
  assert_int_equal(encoded[1].rank, 3);
  assert_dimension(&encoded[1], 0, 1024, 0, 64);
  assert_dimension(&encoded[1], 2, 2, 3072 * 2048, 2);
}

static void an_image_is_encoded_as_its_im2col_matrix(void **state) {
  (void)state;
  const struct fpl_conv conv = {.batch = 3, .ic = 64, .h = 28, .w = 56, .k1 = 5};
  struct fpl_problem p;
  struct fpl_err err = {0};
  assert_int_equal(fpl_problem_make(FPL_KIND_CONV_CHAIN, FPL_DTYPE_BF16, FPL_ACT_RELU, 0, 256, 0,
                                    64, &conv, &p, &err),
                   FPL_OK);
  struct fpl_kernel k = plain_kernel(&p);
  struct fpl_failure failure;
  assert_false(load(&p, &k, &failure)); /* the matrix itself does not exist */
  k.maps[0] = (struct fpl_map_recipe){-1, 64, 128, 64, 1, 1, 1};
  assert_true(load(&p, &k, &failure));
  const struct encoded *map = &encoded[0];
  assert_true(map->is_image);
  assert_int_equal(map->rank, 4);
  const uint64_t sizes[] = {64, 56, 28, 3}, strides_bytes[] = {128, 56 * 128, 28 * 56 * 128};
  assert_memory_equal(map->sizes, sizes, sizeof sizes);
  assert_memory_equal(map->strides_bytes, strides_bytes, sizeof strides_bytes);
  for (int i = 0; i < 2; i++) {
    /* as many base pixels as output pixels, and all of the kernel between the paddings */
    assert_int_equal(map->upper[i], map->lower[i]);
    assert_int_equal(map->lower[i], -2);
  }
  assert_int_equal(map->channels, 64);
  assert_int_equal(map->pixels, 128);
  assert_false(encoded[1].is_image);
}

static void a_recipe_past_its_matrix_is_refused(void **state) {
  (void)state;
  const struct fpl_problem p = gated_problem();
  const struct fpl_kernel good = plain_kernel(&p);
  static const struct {
    int map;
    struct fpl_map_recipe recipe;
  } cases[] = {{0, {201, 1024, 128, 64, 1, 1, 0}}, {0, {-1, 1088, 128, 64, 1, 1, 0}},
               {1, {6145, 1024, 64, 64, 1, 1, 0}}, {1, {6143, 1024, 64, 64, 1, 2, 0}},
               {2, {512, 3040, 64, 64, 2, 1, 0}},  {0, {-1, 1024, 128, 64, 1, 1, 1}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct fpl_kernel k = good;
    struct fpl_failure failure;
    k.maps[cases[i].map] = cases[i].recipe;
    assert_false(load(&p, &k, &failure));
    assert_non_null(strstr(failure.reason, "do not fit"));
    assert_false(failure.is_device);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_plain_map_has_two_dimensions),
      cmocka_unit_test(parts_and_slabs_are_a_dimension_each),
      cmocka_unit_test(an_image_is_encoded_as_its_im2col_matrix),
      cmocka_unit_test(a_recipe_past_its_matrix_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

static void needs_the_headers_of_the_toolkit(void **state) {
  (void)state;
  skip();
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(needs_the_headers_of_the_toolkit)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
