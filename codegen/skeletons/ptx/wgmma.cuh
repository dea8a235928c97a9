// wgmma: one wrapper per number of columns, m64nNk16, both operands in shared memory, K-major,
// f16 or bf16 in, f32 sums. Source: PTX ISA, wgmma.mma_async; cuda::ptx has no wrapper.
#ifndef FPL_SKELETONS_PTX_WGMMA_CUH
#define FPL_SKELETONS_PTX_WGMMA_CUH

#include <cuda/std/cstdint>

namespace skel {

// Orders register and shared-memory accesses before the warpgroup's next wgmma.
__device__ inline void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ inline void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most `pending` groups of this warpgroup are unfinished.
template <int pending> __device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

// Shared-memory matrix descriptor of a K-major tile whose rows are slab_bytes (128, 64 or 32) long
// and swizzled at that width: address, stride of 8 rows, swizzle mode.
// Source: PTX ISA, "Matrix descriptor format": bits 0-13 address / 16, 32-45 stride / 16, 62-63
// mode.
template <int slab_bytes> __device__ inline uint64_t wgmma_descriptor(uint32_t smem_address) {
  constexpr uint64_t mode = slab_bytes == 128 ? 1 : slab_bytes == 64 ? 2 : 3;
  constexpr uint64_t fixed = uint64_t(1) << 16 | uint64_t(8 * slab_bytes / 16) << 32 | mode << 62;
  return fixed | uint64_t((smem_address & 0x3FFFF) >> 4);
}

// The same of a tile that is not swizzled: octets of 8 columns one behind the other, octet_bytes
// apart, each with all its rows of 16 bytes. Bits 16-29 distance of octets / 16, 32-45 of 8 rows.
template <int octet_bytes> __device__ inline uint64_t octet_descriptor(uint32_t smem_address) {
  constexpr uint64_t fixed = uint64_t(octet_bytes / 16) << 16 | uint64_t(8 * 16 / 16) << 32;
  return fixed | uint64_t((smem_address & 0x3FFFF) >> 4);
}

// D[64][columns] += A[64][16] . B[columns][16].
// Thread t of the warpgroup holds rows 16 (t / 32) + t % 32 / 4 + {0, 8} and, for each j, columns
// 8 j + 2 (t % 4) + {0, 1}: d[4 j + 2 row + column].
template <int columns, bool is_bf16> struct wgmma;

// Register lists %0 .. %(8 i + 7), and the operands that stand for them.
#define FPL_REGISTERS_0 "%0,%1,%2,%3,%4,%5,%6,%7"
#define FPL_REGISTERS_1                                                                            \
  FPL_REGISTERS_0 ","                                                                              \
                  "%8,%9,%10,%11,%12,%13,%14,%15"
#define FPL_REGISTERS_2                                                                            \
  FPL_REGISTERS_1 ","                                                                              \
                  "%16,%17,%18,%19,%20,%21,%22,%23"
#define FPL_REGISTERS_3                                                                            \
  FPL_REGISTERS_2 ","                                                                              \
                  "%24,%25,%26,%27,%28,%29,%30,%31"
#define FPL_REGISTERS_4                                                                            \
  FPL_REGISTERS_3 ","                                                                              \
                  "%32,%33,%34,%35,%36,%37,%38,%39"
#define FPL_REGISTERS_5                                                                            \
  FPL_REGISTERS_4 ","                                                                              \
                  "%40,%41,%42,%43,%44,%45,%46,%47"
#define FPL_REGISTERS_6                                                                            \
  FPL_REGISTERS_5 ","                                                                              \
                  "%48,%49,%50,%51,%52,%53,%54,%55"
#define FPL_REGISTERS_7                                                                            \
  FPL_REGISTERS_6 ","                                                                              \
                  "%56,%57,%58,%59,%60,%61,%62,%63"
#define FPL_REGISTERS_8                                                                            \
  FPL_REGISTERS_7 ","                                                                              \
                  "%64,%65,%66,%67,%68,%69,%70,%71"
#define FPL_REGISTERS_9                                                                            \
  FPL_REGISTERS_8 ","                                                                              \
                  "%72,%73,%74,%75,%76,%77,%78,%79"
#define FPL_REGISTERS_10                                                                           \
  FPL_REGISTERS_9 ","                                                                              \
                  "%80,%81,%82,%83,%84,%85,%86,%87"
#define FPL_REGISTERS_11                                                                           \
  FPL_REGISTERS_10 ","                                                                             \
                   "%88,%89,%90,%91,%92,%93,%94,%95"
#define FPL_REGISTERS_12                                                                           \
  FPL_REGISTERS_11 ","                                                                             \
                   "%96,%97,%98,%99,%100,%101,%102,%103"
#define FPL_REGISTERS_13                                                                           \
  FPL_REGISTERS_12 ","                                                                             \
                   "%104,%105,%106,%107,%108,%109,%110,%111"
#define FPL_REGISTERS_14                                                                           \
  FPL_REGISTERS_13 ","                                                                             \
                   "%112,%113,%114,%115,%116,%117,%118,%119"
#define FPL_REGISTERS_15                                                                           \
  FPL_REGISTERS_14 ","                                                                             \
                   "%120,%121,%122,%123,%124,%125,%126,%127"
#define FPL_SUMS(i)                                                                                \
  "+f"(d[8 * i]), "+f"(d[8 * i + 1]), "+f"(d[8 * i + 2]), "+f"(d[8 * i + 3]), "+f"(d[8 * i + 4]),  \
      "+f"(d[8 * i + 5]), "+f"(d[8 * i + 6]), "+f"(d[8 * i + 7])
#define FPL_SUMS_0 FPL_SUMS(0)
#define FPL_SUMS_1 FPL_SUMS_0, FPL_SUMS(1)
#define FPL_SUMS_2 FPL_SUMS_1, FPL_SUMS(2)
#define FPL_SUMS_3 FPL_SUMS_2, FPL_SUMS(3)
#define FPL_SUMS_4 FPL_SUMS_3, FPL_SUMS(4)
#define FPL_SUMS_5 FPL_SUMS_4, FPL_SUMS(5)
#define FPL_SUMS_6 FPL_SUMS_5, FPL_SUMS(6)
#define FPL_SUMS_7 FPL_SUMS_6, FPL_SUMS(7)
#define FPL_SUMS_8 FPL_SUMS_7, FPL_SUMS(8)
#define FPL_SUMS_9 FPL_SUMS_8, FPL_SUMS(9)
#define FPL_SUMS_10 FPL_SUMS_9, FPL_SUMS(10)
#define FPL_SUMS_11 FPL_SUMS_10, FPL_SUMS(11)
#define FPL_SUMS_12 FPL_SUMS_11, FPL_SUMS(12)
#define FPL_SUMS_13 FPL_SUMS_12, FPL_SUMS(13)
#define FPL_SUMS_14 FPL_SUMS_13, FPL_SUMS(14)
#define FPL_SUMS_15 FPL_SUMS_14, FPL_SUMS(15)

#define FPL_WGMMA(columns, type, is_bf16, last, a, b)                                              \
  template <> struct wgmma<columns, is_bf16> {                                                     \
    static __device__ __forceinline__ void mma(float (&d)[columns / 2], uint64_t a_descriptor,     \
                                               uint64_t b_descriptor) {                            \
      asm volatile("{.reg .pred p; setp.eq.u32 p, 0, 0; "                                          \
                   "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type "." type           \
                   " {" FPL_REGISTERS_##last "}, " a ", " b ", p, 1, 1, 0, 0;}"                    \
                   : FPL_SUMS_##last                                                               \
                   : "l"(a_descriptor), "l"(b_descriptor));                                        \
    }                                                                                              \
  };
#define FPL_WGMMA_BOTH(columns, last, a, b)                                                        \
  FPL_WGMMA(columns, "f16", false, last, a, b)                                                     \
  FPL_WGMMA(columns, "bf16", true, last, a, b)

FPL_WGMMA_BOTH(16, 0, "%8", "%9")
FPL_WGMMA_BOTH(32, 1, "%16", "%17")
FPL_WGMMA_BOTH(48, 2, "%24", "%25")
FPL_WGMMA_BOTH(64, 3, "%32", "%33")
FPL_WGMMA_BOTH(80, 4, "%40", "%41")
FPL_WGMMA_BOTH(96, 5, "%48", "%49")
FPL_WGMMA_BOTH(112, 6, "%56", "%57")
FPL_WGMMA_BOTH(128, 7, "%64", "%65")
FPL_WGMMA_BOTH(144, 8, "%72", "%73")
FPL_WGMMA_BOTH(160, 9, "%80", "%81")
FPL_WGMMA_BOTH(176, 10, "%88", "%89")
FPL_WGMMA_BOTH(192, 11, "%96", "%97")
FPL_WGMMA_BOTH(208, 12, "%104", "%105")
FPL_WGMMA_BOTH(224, 13, "%112", "%113")
FPL_WGMMA_BOTH(240, 14, "%120", "%121")
FPL_WGMMA_BOTH(256, 15, "%128", "%129")

#undef FPL_WGMMA_BOTH
#undef FPL_WGMMA
#undef FPL_SUMS
} // namespace skel

#endif
