// Activations on f32 sums, and rounding to the element type.
#ifndef FPL_SKELETONS_EPILOGUE_ACTIVATION_CUH
#define FPL_SKELETONS_EPILOGUE_ACTIVATION_CUH

#include <cuda/std/cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace skel {

// Order of enum fpl_act.
enum class activation { none, relu, gelu, silu };

template <activation act> __device__ inline float activate(float x) {
  if constexpr (act == activation::relu)
    return fmaxf(x, 0.f);
  if constexpr (act == activation::silu)
    return __fdividef(x, 1.f + __expf(-x));
  if constexpr (act == activation::gelu) { // tanh form; tanh(u) = 1 - 2 / (1 + exp(2 u))
    const float u = 0.7978845608f * (x + 0.044715f * x * x * x);
    return x * (1.f - __fdividef(1.f, 1.f + __expf(2.f * u)));
  }
  return x;
}

// Two neighbouring columns, rounded to nearest even, as one word.
template <bool is_bf16> __device__ inline uint32_t round_pair(float x, float y) {
  if constexpr (is_bf16) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(x, y);
    return *reinterpret_cast<const uint32_t *>(&pair);
  } else {
    const __half2 pair = __floats2half2_rn(x, y);
    return *reinterpret_cast<const uint32_t *>(&pair);
  }
}

} // namespace skel

#endif
