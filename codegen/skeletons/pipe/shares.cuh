// Partial sums of a tile, added up over blocks of a cluster: every thread sends sums from its
// registers to the same thread of a peer, in the order of threads, so that all accesses are whole
// lines and nothing is staged.
//
//   octet    8 neighbouring columns of a tile: of each, a thread holds four sums (two rows, two
//            columns; wgmma's layout)
//   share    the octets that one block of `groups` adds up: octet j is group j % groups'.
//            In memory [octets][parts][threads][4] f32; parts: tiles that a thread holds
#ifndef FPL_SKELETONS_PIPE_SHARES_CUH
#define FPL_SKELETONS_PIPE_SHARES_CUH

#include "codegen/skeletons/plan_rules.cuh"
#include "codegen/skeletons/ptx/sm90.cuh"

namespace skel {

template <int columns, int groups, int parts, int threads> struct shares {
  static constexpr int octets = ceil_div(columns / 8, groups); // at most, of one share
  static constexpr int bytes = octets * parts * threads * 16;
  using sums = float[parts][columns / 2];

  __device__ static float4 *place(char *share, int octet, int part) {
    const int thread = threadIdx.x - sm90::warpgroup_threads;
    return reinterpret_cast<float4 *>(share) + (octet / groups * parts + part) * threads + thread;
  }

  // f(octet, part, the first of its four sums) for what group `group` adds up.
  template <class S, class F> __device__ static void each(S &x, int group, F f) {
#pragma unroll
    for (int j = 0; j < columns / 8; j++)
      if (j % groups == group)
#pragma unroll
        for (int part = 0; part < parts; part++)
          f(j, part, &x[part][4 * j]);
  }

  // Writes group `group`'s sums to a share of the peer `rank`.
  __device__ static void send(const sums &x, int group, char *share, int rank) {
    put(x, group, at_rank(share, rank));
  }
  __device__ static void put(const sums &x, int group, char *share) {
    each(x, group, [&](int j, int part, const float *from) {
      *place(share, j, part) = make_float4(from[0], from[1], from[2], from[3]);
    });
  }
  // x = f(x, what lies in a share).
  template <class F> __device__ static void merge(sums &x, int group, char *share, F f) {
    each(x, group, [&](int j, int part, float *to) {
      const float4 y = *place(share, j, part);
      to[0] = f(to[0], y.x);
      to[1] = f(to[1], y.y);
      to[2] = f(to[2], y.z);
      to[3] = f(to[3], y.w);
    });
  }
  __device__ static void add(sums &x, int group, char *share) {
    merge(x, group, share, [](float a, float b) { return a + b; });
  }
  // Takes the sums out of a share in global memory and leaves zeros.
  __device__ static void take(sums &x, int group, char *share) {
    each(x, group, [&](int j, int part, float *to) {
      const float4 y = __ldcg(place(share, j, part));
      to[0] = y.x;
      to[1] = y.y;
      to[2] = y.z;
      to[3] = y.w;
    });
    each(x, group, [&](int j, int part, float *) {
      *place(share, j, part) = make_float4(0.f, 0.f, 0.f, 0.f);
    });
  }
};

} // namespace skel

#endif
