// Boxes of the im2col matrix of an image [batch][h][w][ic], of a k1 x k1 convolution of stride 1 and
// padding (k1 - 1) / 2. The matrix is never stored: the copy engine reads it from the image through a
// tensor map of im2col mode, whose base pixels are the first taps of the output pixels.
//
//   row     output pixel (image h + y) w + x
//   column  (r k1 + s) ic + c: channel c of the pixel that tap (r, s) falls upon; outside of the
//           image it reads zero
#ifndef FPL_SKELETONS_PIPE_IMAGE_CUH
#define FPL_SKELETONS_PIPE_IMAGE_CUH

#include "codegen/skeletons/ptx/sm90.cuh"

namespace skel {

// Copies a box whose corner is (row, column): as many pixels and channels as the tensor map says, of
// one tap. Past the last tap, where the last k tile may reach, come channels that no image has.
template <class A>
__device__ inline void copy_image(void *to, const tensor_map *map, int row, int column,
                                  uint64_t *full, uint64_t policy) {
  constexpr int padding = (A::k1 - 1) / 2, last_tap = A::k1 * A::k1 - 1;
  const int tap = min(column / A::ic, last_tap);
  const int32_t base[4] = {column - tap * A::ic, row % A::w - padding, row / A::w % A::h - padding,
                           row / (A::w * A::h)};
  const uint16_t offset[2] = {static_cast<uint16_t>(tap % A::k1),
                              static_cast<uint16_t>(tap / A::k1)};
  copy_im2col(to, map, base, offset, full, policy);
}

} // namespace skel

#endif
