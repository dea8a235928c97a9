// Support kernels of the measuring worker: inputs, reference results, comparison, and the
// activation between the two products of the library plan.
//
//   C[m,n] = act(A . Bgate^T) * (A . Bup^T)   or   act(A . B^T),   rounded to the element type
//   E[m,l] = C . D^T                                               kept in f64
//
// Elements are 16-bit; `dtype` is 0 for f16 and 1 for bf16 (enum fpl_dtype), `act` is enum fpl_act.
// All matrices are row-major: A [m][k], B [branches n][k], C [m][n], D [l][n], E [m][l]. A of a
// convolution is the im2col matrix of an image [batch][h][w][ic], B is [n][k1][k1][ic].
#include "codegen/skeletons/epilogue/activation.cuh"
#include "codegen/skeletons/ptx/grid_sm90.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace {

using u16 = unsigned short;
using u64 = unsigned long long;

constexpr int act_relu = 1;
constexpr int act_gelu = 2;
constexpr int act_silu = 3;

__device__ float widen(u16 bits, int dtype) {
  return dtype == 0 ? __half2float(__ushort_as_half(bits))
                    : __bfloat162float(__ushort_as_bfloat16(bits));
}

// One rounding, to nearest even.
__device__ u16 narrow(double value, int dtype) {
  return dtype == 0 ? __half_as_ushort(__double2half(value))
                    : __bfloat16_as_ushort(__double2bfloat16(value));
}

__device__ u16 narrow(float value, int dtype) {
  return dtype == 0 ? __half_as_ushort(__float2half_rn(value))
                    : __bfloat16_as_ushort(__float2bfloat16_rn(value));
}

// Element `index` of the random stream `seed`. Source: splitmix64 (Steele, Lea, Flood 2014).
__device__ u64 hash(u64 seed, u64 index) {
  u64 z = seed + (index + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// gelu is the tanh form, as in the library's epilogue.
__device__ double activate(double x, int act) {
  if (act == act_relu)
    return x > 0.0 ? x : 0.0;
  if (act == act_gelu)
    return 0.5 * x * (1.0 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
  if (act == act_silu)
    return x / (1.0 + exp(-x));
  return x;
}

constexpr int tile = 64;  // rows and columns of a block's product
constexpr int depth = 16; // elements of the sum per step
constexpr int threads = 256;
constexpr int per_thread = 4; // rows and columns of a thread: 16 apart

struct tiles {
  double x[depth][tile + 1]; // [depth][row], one longer so that a column's writes do not collide
  double w[depth][tile + 1]; // [depth][column]
};

// An operand answers its element (row, k); zero outside.
struct matrix {
  const u16 *data; // [rows][n_sum]
  long long rows, n_sum;
  int dtype;

  __device__ double operator()(long long row, long long k) const {
    return row < rows && k < n_sum ? double(widen(data[row * n_sum + k], dtype)) : 0.0;
  }
};

// Row: an output pixel of a k1 x k1 convolution with stride 1 and padding (k1 - 1) / 2; k: element
// (r k1 + s) ic + c of its surroundings. Fewer than 2^31 rows and columns.
struct im2col {
  const u16 *data; // [batch][h][w][ic]
  long long rows;  // batch h w
  int h, w, ic, k1, dtype;

  __device__ double operator()(long long row, long long k) const {
    if (row >= rows || k >= (long long)k1 * k1 * ic)
      return 0.0;
    const int pixel = int(row);
    const int tap = int(k) / ic;
    const int y = pixel / w % h + tap / k1 - (k1 - 1) / 2;
    const int x = pixel % w + tap % k1 - (k1 - 1) / 2;
    if (y < 0 || y >= h || x < 0 || x >= w)
      return 0.0;
    const long long from = ((long long)(pixel / (h * w)) * h + y) * w + x;
    return double(widen(data[from * ic + int(k) % ic], dtype));
  }
};

// sums[i][j] = row (row0 + ty + 16 i) of x times row (col0 + tx + 16 j) of w, over n_sum elements.
template <class X>
__device__ void multiply(const X &x, const matrix &w, long long row0, long long col0, tiles &smem,
                         double (&sums)[per_thread][per_thread]) {
  const int tx = threadIdx.x % 16;
  const int ty = threadIdx.x / 16;
#pragma unroll
  for (int i = 0; i < per_thread; i++)
#pragma unroll
    for (int j = 0; j < per_thread; j++)
      sums[i][j] = 0.0;
  for (long long k0 = 0; k0 < w.n_sum; k0 += depth) {
    for (int e = threadIdx.x; e < tile * depth; e += threads) {
      const int k = e % depth;
      const int r = e / depth;
      smem.x[k][r] = x(row0 + r, k0 + k);
      smem.w[k][r] = w(col0 + r, k0 + k);
    }
    __syncthreads();
    for (int k = 0; k < depth; k++)
#pragma unroll
      for (int i = 0; i < per_thread; i++)
#pragma unroll
        for (int j = 0; j < per_thread; j++)
          sums[i][j] = fma(smem.x[k][ty + 16 * i], smem.w[k][tx + 16 * j], sums[i][j]);
    __syncthreads();
  }
}

// Calls store(row, column, i, j) for each sum of the thread that lies inside.
template <class Store>
__device__ void each_sum(long long row0, long long col0, long long rows, long long cols,
                         const Store &store) {
#pragma unroll
  for (int i = 0; i < per_thread; i++)
#pragma unroll
    for (int j = 0; j < per_thread; j++) {
      const long long row = row0 + threadIdx.x / 16 + 16 * i;
      const long long col = col0 + threadIdx.x % 16 + 16 * j;
      if (row < rows && col < cols)
        store(row, col, i, j);
    }
}

struct sums {
  double diff_squares; // sum of (out - ref)^2
  double ref_squares;  // sum of ref^2
  u64 max_abs_bits;    // largest |out - ref|, as the bits of a double (they order as numbers do)
  u64 n_unequal;       // elements that differ from the reference rounded to the element type
  u64 n_unwritten;     // elements that still hold the sentinel
};

template <class T> __device__ T warp_sum(T value) {
  for (int lane = 16; lane > 0; lane /= 2)
    value += __shfl_down_sync(0xffffffffu, value, lane);
  return value;
}

__device__ u64 first_index() {
  return u64(blockIdx.x) * blockDim.x + threadIdx.x;
}

__device__ u64 index_step() {
  return u64(gridDim.x) * blockDim.x;
}

// Two neighbouring elements in one word, the first in the low half.
template <bool is_bf16> __device__ float2 widen_pair(uint32_t word) {
  if constexpr (is_bf16)
    return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162 *>(&word));
  else
    return __half22float2(*reinterpret_cast<const __half2 *>(&word));
}

constexpr int vector = 8; // elements of one 16-byte access

template <bool is_bf16, skel::activation act>
__device__ uint32_t activate_pair(uint32_t gate_word, uint32_t up_word, bool is_gated) {
  const float2 gate = widen_pair<is_bf16>(gate_word);
  const float2 up = is_gated ? widen_pair<is_bf16>(up_word) : make_float2(1.0f, 1.0f);
  return skel::round_pair<is_bf16>(skel::activate<act>(gate.x) * up.x,
                                   skel::activate<act>(gate.y) * up.y);
}

// The thread's 8 columns of each row that its block has.
template <bool is_bf16, skel::activation act>
__device__ void activate_rows(const u16 *x, u16 *c, int m, int n, bool is_gated) {
  const int col0 = int(blockIdx.x * blockDim.x + threadIdx.x) * vector;
  if (col0 >= n)
    return;
  const long long pitch = is_gated ? 2ll * n : n;
  for (int row = int(blockIdx.y); row < m; row += int(gridDim.y)) {
    const u16 *gate = x + row * pitch + col0;
    const u16 *up = is_gated ? gate + n : gate;
    u16 *to = c + (long long)row * n + col0;
    if (n % vector == 0) {
      const uint4 g = *reinterpret_cast<const uint4 *>(gate);
      const uint4 u = is_gated ? *reinterpret_cast<const uint4 *>(up) : g;
      *reinterpret_cast<uint4 *>(to) = make_uint4(activate_pair<is_bf16, act>(g.x, u.x, is_gated),
                                                  activate_pair<is_bf16, act>(g.y, u.y, is_gated),
                                                  activate_pair<is_bf16, act>(g.z, u.z, is_gated),
                                                  activate_pair<is_bf16, act>(g.w, u.w, is_gated));
    } else {
      for (int i = 0; i < vector && col0 + i < n; i++)
        to[i] = u16(activate_pair<is_bf16, act>(gate[i], up[i], is_gated));
    }
  }
}

template <skel::activation act>
__device__ void activate_matrix(const u16 *x, u16 *c, int m, int n, bool is_gated, int dtype) {
  if (dtype == 0)
    activate_rows<false, act>(x, c, m, n, is_gated);
  else
    activate_rows<true, act>(x, c, m, n, is_gated);
}

} // namespace

extern "C" __global__ void fill_bits(u16 *out, u64 count, unsigned value) {
  for (u64 i = first_index(); i < count; i += index_step())
    out[i] = u16(value);
}

// Uniform in [-scale, scale).
extern "C" __global__ void fill_random(u16 *out, u64 count, u64 seed, float scale, int dtype) {
  for (u64 i = first_index(); i < count; i += index_step()) {
    const float unit = float(hash(seed, i) >> 40) * (2.0f / 16777216.0f) - 1.0f; // 24 random bits
    out[i] = narrow(scale * unit, dtype);
  }
}

// -1 or 1, with probability density / 2 each; else 0.
extern "C" __global__ void fill_integers(u16 *out, u64 count, u64 seed, float density, int dtype) {
  for (u64 i = first_index(); i < count; i += index_step()) {
    const u64 bits = hash(seed, i);
    const bool is_set = float(bits >> 40) < density * 16777216.0f;
    const float sign = (bits & 1) != 0 ? 1.0f : -1.0f;
    out[i] = narrow(is_set ? sign : 0.0f, dtype);
  }
}

// C, one 64 x 64 tile a block: grid (row tiles, column tiles), 256 threads.
extern "C" __global__ void __launch_bounds__(threads)
    reference_gemm0(const u16 *a, const u16 *b, u16 *c, long long m, long long n, long long k,
                    int branches, int act, int dtype) {
  __shared__ tiles smem;
  const long long row0 = (long long)blockIdx.x * tile;
  const long long col0 = (long long)blockIdx.y * tile;
  double gate[per_thread][per_thread];
  double up[per_thread][per_thread];
  const matrix x = {a, m, k, dtype};
  multiply(x, matrix{b, n, k, dtype}, row0, col0, smem, gate);
  if (branches == 2)
    multiply(x, matrix{b + n * k, n, k, dtype}, row0, col0, smem, up);
  each_sum(row0, col0, m, n, [&](long long row, long long col, int i, int j) {
    const double value = activate(gate[i][j], act) * (branches == 2 ? up[i][j] : 1.0);
    c[row * n + col] = narrow(value, dtype);
  });
}

// C of a convolution, as above.
extern "C" __global__ void __launch_bounds__(threads)
    reference_conv0(const u16 *a, const u16 *b, u16 *c, long long m, long long n, int h, int w,
                    int ic, int k1, int act, int dtype) {
  __shared__ tiles smem;
  const long long row0 = (long long)blockIdx.x * tile;
  const long long col0 = (long long)blockIdx.y * tile;
  double values[per_thread][per_thread];
  multiply(im2col{a, m, h, w, ic, k1, dtype}, matrix{b, n, (long long)k1 * k1 * ic, dtype}, row0,
           col0, smem, values);
  each_sum(row0, col0, m, n, [&](long long row, long long col, int i, int j) {
    c[row * n + col] = narrow(activate(values[i][j], act), dtype);
  });
}

// E in f64, one 64 x 64 tile a block: grid (row tiles, column tiles), 256 threads.
extern "C" __global__ void __launch_bounds__(threads)
    reference_gemm1(const u16 *c, const u16 *d, double *e, long long m, long long l, long long n,
                    int dtype) {
  __shared__ tiles smem;
  const long long row0 = (long long)blockIdx.x * tile;
  const long long col0 = (long long)blockIdx.y * tile;
  double values[per_thread][per_thread];
  multiply(matrix{c, m, n, dtype}, matrix{d, l, n, dtype}, row0, col0, smem, values);
  each_sum(row0, col0, m, l,
           [&](long long row, long long col, int i, int j) { e[row * l + col] = values[i][j]; });
}

// Adds to *out, which the host has zeroed. Blocks are multiples of 32 threads.
extern "C" __global__ void compare(const u16 *values, const double *reference, u64 count,
                                   unsigned sentinel, int dtype, sums *out) {
  double diff_squares = 0.0, ref_squares = 0.0;
  u64 n_unequal = 0, n_unwritten = 0, max_abs_bits = 0;
  for (u64 i = first_index(); i < count; i += index_step()) {
    const double ref = reference[i];
    const double diff = double(widen(values[i], dtype)) - ref;
    const u64 abs_bits = u64(__double_as_longlong(fabs(diff)));
    diff_squares += diff * diff;
    ref_squares += ref * ref;
    max_abs_bits = abs_bits > max_abs_bits ? abs_bits : max_abs_bits;
    n_unequal += widen(values[i], dtype) == widen(narrow(ref, dtype), dtype) ? 0 : 1;
    n_unwritten += values[i] == u16(sentinel) ? 1 : 0;
  }
  diff_squares = warp_sum(diff_squares);
  ref_squares = warp_sum(ref_squares);
  n_unequal = warp_sum(n_unequal);
  n_unwritten = warp_sum(n_unwritten);
  atomicMax(&out->max_abs_bits, max_abs_bits);
  if (threadIdx.x % 32 == 0) {
    atomicAdd(&out->diff_squares, diff_squares);
    atomicAdd(&out->ref_squares, ref_squares);
    atomicAdd(&out->n_unequal, n_unequal);
    atomicAdd(&out->n_unwritten, n_unwritten);
  }
}

// Adds the number of elements that are not `value` to *out: canaries.
extern "C" __global__ void count_changed(const u16 *values, u64 count, unsigned value, u64 *out) {
  u64 n = 0;
  for (u64 i = first_index(); i < count; i += index_step())
    n += values[i] != u16(value) ? 1 : 0;
  n = warp_sum(n);
  if (threadIdx.x % 32 == 0 && n > 0)
    atomicAdd(out, n);
}

// Adds the number of positions at which x and y differ, bit by bit, to *out.
extern "C" __global__ void count_different(const u16 *x, const u16 *y, u64 count, u64 *out) {
  u64 n = 0;
  for (u64 i = first_index(); i < count; i += index_step())
    n += x[i] != y[i] ? 1 : 0;
  n = warp_sum(n);
  if (threadIdx.x % 32 == 0 && n > 0)
    atomicAdd(out, n);
}

// c[m][n] = act(x[m][:n]) * x[m][n:] for x [m][2n] (is_gated), or act(x) for x [m][n], where c may
// be x. Grid: x over columns, 8 a thread (any n; 16-byte accesses where n is a multiple of 8), y
// over rows. May be launched early.
extern "C" __global__ void activation(const u16 *x, u16 *c, int m, int n, int is_gated, int act,
                                      int dtype) {
  skel::wait_for_kernels_before();
  if (act == act_relu)
    activate_matrix<skel::activation::relu>(x, c, m, n, is_gated != 0, dtype);
  else if (act == act_gelu)
    activate_matrix<skel::activation::gelu>(x, c, m, n, is_gated != 0, dtype);
  else if (act == act_silu)
    activate_matrix<skel::activation::silu>(x, c, m, n, is_gated != 0, dtype);
  else
    activate_matrix<skel::activation::none>(x, c, m, n, is_gated != 0, dtype);
}
