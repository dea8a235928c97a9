/* Runs a stored plan of a gemm_chain (f16, relu) on the GPU and checks E against a plain reference.
 * Needs a GPU: exit code 77 without one.
 *
 *   cc launch.c -I/usr/local/cuda/include $(pkg-config --cflags --libs fuseplan) -ldl -o launch
 *   ./launch plans.db 128 512 32 256 */
#include "gpu.h"

static double from_half(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  double value = exponent ? 1024 + (bits & 1023) : bits & 1023;
  for (int i = 25; i < exponent; i++)
    value *= 2;
  for (int i = exponent ? exponent : 1; i < 25; i++)
    value /= 2;
  return bits >> 15 ? -value : value;
}

/* out[rows][cols] = x[rows][depth] y[cols][depth]^T */
static void multiply(const double *x, const uint16_t *y, int64_t rows, int64_t cols, int64_t depth,
                     int is_relu, double *out) {
  for (int64_t i = 0; i < rows * cols; i++) {
    const double *const row = x + i / cols * depth;
    const uint16_t *const col = y + i % cols * depth;
    double sum = 0;
    for (int64_t j = 0; j < depth; j++)
      if (col[j])
        sum += row[j] * from_half(col[j]);
    out[i] = is_relu && sum < 0 ? 0 : sum;
  }
}

int main(int argc, char **argv) {
  check(argc == 6, "usage", "launch DATABASE M N K L");
  gpu_open();
  fuseplan_store *store = NULL;
  struct fuseplan_problem p;
  struct fuseplan_message message;
  fuseplan_kernel *const kernel = load_plan(&store, argv[1], argv + 2, &p);
  uint16_t *const a = integers(p.m * p.k, 1, 3), *const b = integers(p.n * p.k, 2, 3);
  uint16_t *const d = integers(p.l * p.n, 3, 16), *const e = integers(p.m * p.l, 4, 1);
  const size_t e_bytes = (size_t)(p.m * p.l) * sizeof *e;
  const struct fuseplan_matrices at = {
      .size = sizeof at,
      .a = gpu_put(a, (size_t)(p.m * p.k) * sizeof *a),
      .b = gpu_put(b, (size_t)(p.n * p.k) * sizeof *b),
      .d = gpu_put(d, (size_t)(p.l * p.n) * sizeof *d),
      .e = gpu_put(e, e_bytes),
      .workspace = gpu_put(NULL, (size_t)fuseplan_kernel_workspace_bytes(kernel, p.m))};
  CUstream stream = NULL;
  check(!p_cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "stream", "cannot be made");
  check(!fuseplan_kernel_launch(kernel, p.m, &at, stream, &message), "launch", message.text);
  check(!p_cuStreamSynchronize(stream) && !p_cuMemcpyDtoH(e, at.e, e_bytes), "run", "failed");

  double *const x = calloc((size_t)(p.m * p.k), sizeof *x);
  double *const c = calloc((size_t)(p.m * p.n), sizeof *c);
  double *const wanted = calloc((size_t)(p.m * p.l), sizeof *wanted);
  check(x && c && wanted, "host memory", "no room");
  for (int64_t i = 0; i < p.m * p.k; i++)
    x[i] = from_half(a[i]);
  multiply(x, b, p.m, p.n, p.k, 1, c);
  multiply(c, d, p.m, p.l, p.n, 0, wanted);
  int64_t n_wrong = 0;
  for (int64_t i = 0; i < p.m * p.l; i++)
    n_wrong += from_half(e[i]) != wanted[i];
  printf("%lld of %lld elements differ\n", (long long)n_wrong, (long long)(p.m * p.l));
  fuseplan_kernel_release(kernel);
  fuseplan_close(store);
  return n_wrong == 0 ? 0 : 1;
}
