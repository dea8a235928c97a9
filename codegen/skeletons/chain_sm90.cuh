// chain_sm90: two products in one kernel, C exchanged through shared memory, over distributed
// shared memory of a cluster, or recomputed.
//
//   C[m,n] = act(A[m,k] . B[n,k]^T)            gated: C = act(A . Bgate^T) * (A . Bup^T)
//   E[m,l] = C[m,n] . D[l,n]^T                 B gated: [2 n][k], gate rows first
//
// Global: A [m][k], B, D row-major, read by tensor maps (out of range reads zero); E [m][l]. A may be
// an image, read as its im2col matrix (pipe/image.cuh).
// Dataflow, addresses of blocks, masked tiles: costmodel/MODEL.md section 1.
// Shared memory: smem_map in chain_plan.cuh.
//
// Roles: warpgroup 0 produces (four warps, or two where the ring is short, issue the copies of
// every fourth or second stage: a lone thread takes 213 ns a copy, four 62 ns), the others consume,
// 64 rows each. D's tiles are in flight while C is still being made: the ring knows no boundary
// between the products.
//
// Barriers beside the ring, each between peers, none spans the cluster:
//   exchange_full  an arrival of each sending warp of cls_k - 1 peers      exchange_free  likewise
//   strip_full[j]  own arrival + bytes of C tile j of the group            strip_free  shuffle - 1
//   reduce_full    an arrival of each sending warp of groups - 1 peers     reduce_free  likewise
// A *_free barrier counts the peers that have read what this block sent; the block waits for it
// before it writes those buffers (or their sources) again. exchange_*, strip_* turn once a unit,
// reduce_* once a round.
//
// Fewer than 64 rows: the tensor cores always take 64, so they read what lies behind A or C as well.
// Rows of a product are independent; the rows beyond blk_m are never looked at.
//
// Registers: producers 56, consumers 224 where two warpgroups consume; one consumer needs no
// change.
#ifndef FPL_SKELETONS_CHAIN_SM90_CUH
#define FPL_SKELETONS_CHAIN_SM90_CUH

#include "codegen/skeletons/chain_plan.cuh"
#include "codegen/skeletons/epilogue/activation.cuh"
#include "codegen/skeletons/pipe/image.cuh"
#include "codegen/skeletons/pipe/ring.cuh"
#include "codegen/skeletons/ptx/grid_sm90.cuh"
#include "codegen/skeletons/ptx/sm90.cuh"
#include "codegen/skeletons/ptx/wgmma.cuh"

namespace skel {

constexpr int prefetch_bytes = 96 << 10; // a block brings into L2 beyond its ring

// Address of an element inside a tile [columns / slab][rows][slab] swizzled at the slab's width:
// 16-byte pieces of a row are exchanged by the row's number. Source: PTX ISA, "Swizzling modes".
template <int rows, int columns> __device__ inline uint32_t swizzled(int row, int column) {
  constexpr int slab = slab_columns(columns);
  constexpr uint32_t mask = slab == 64 ? 0x70 : slab == 32 ? 0x30 : 0x10;
  const uint32_t at = (column / slab * rows + row) * slab * 2 + column % slab * 2;
  return at ^ (at >> 3 & mask);
}

template <class P, class A = matrix> struct chain {
  using C = plan_counts<P>;
  using S = smem_map<P>;
  using W = workspace_map<P>;
  static constexpr int consumers = C::consumer_threads / sm90::warpgroup_threads;
  // Producers whose stages lie `producer_warps` apart must not wait on a slot two rounds ahead: its
  // phase bit would read as free. That needs producer_warps <= stages.
  static constexpr int producer_warps = P::stages >= 4 ? 4 : 2;
  static constexpr int slab_k = slab_columns(P::blk_k), slab_n = slab_columns(P::blk_n);
  // One copy brings all slabs of a tile where no slab crosses the end of a row.
  static constexpr bool is_one_copy_k = P::k % slab_k == 0, is_one_copy_n = P::n % slab_n == 0;
  static constexpr int verdicts_at = 512; // bytes, behind the barriers: one word a round
  static constexpr int stage_tx_ab = S::a_bytes + C::branches * S::b_bytes;
  static_assert(stage_tx_ab < sm90::transaction_most);

  // Where this block stands in its cluster.
  int im, in, ik, il, ir, own; // own: tile of the group's strip that this block makes
  char *smem;
  ring<P::stages> pipe;
  uint64_t *strip_full, *strip_free, *exchange_full, *exchange_free, *reduce_full, *reduce_free;
  int m;

  // The part of the problem a unit is.
  struct unit {
    int tile_m, tile_n, step_n, l_begin, l_end; // l steps
    bool is_m_empty, is_n_empty;
  };

  __device__ static int peer(int m_index, int n_index, int k_index) {
    return (m_index * P::cls_n + n_index) * P::cls_k + k_index;
  }

  __device__ int units() const {
    constexpr int per_row = C::steps_n * (P::exchange == recomputed ? C::steps_l : 1);
    return (m + P::cls_m * P::blk_m - 1) / (P::cls_m * P::blk_m) * per_row;
  }

  __device__ unit unit_at(int index) const {
    unit u;
    constexpr bool is_l_spatial = P::exchange == recomputed;
    constexpr int l_units = is_l_spatial ? C::steps_l : 1;
    const int row_group = index / (C::steps_n * l_units);
    u.step_n = index / l_units % C::steps_n;
    u.l_begin = is_l_spatial ? index % l_units : 0;
    u.l_end = is_l_spatial ? u.l_begin + 1 : C::steps_l;
    u.tile_m = row_group * P::cls_m + im;
    u.tile_n = u.step_n * P::cls_n + in;
    u.is_m_empty = u.tile_m * P::blk_m >= m;
    u.is_n_empty = u.tile_n >= C::tiles_n;
    return u;
  }

  // k tiles that this block multiplies in a unit.
  __device__ int k_tiles(const unit &u) const {
    const int layer = C::is_split_gate ? 0 : ik;
    return u.is_m_empty || u.is_n_empty ? 0 : (C::tiles_k - layer + C::k_layers - 1) / C::k_layers;
  }
  __device__ int l_tile(int step_l) const {
    return step_l * P::cls_l + il;
  }
  __device__ bool is_e_empty(const unit &u, int step_l) const {
    return u.is_m_empty || l_tile(step_l) >= C::tiles_l;
  }
  // C tiles of the group's strip inside the problem.
  __device__ int strip_tiles(const unit &u) const {
    const int first = u.step_n * P::cls_n + ir * C::shuffle;
    return min(C::shuffle, max(0, C::tiles_n - first));
  }
  // Order in which those are used: own tile first, then as the peers' tiles arrive.
  __device__ int strip_order(int i, int n_strip) const {
    const int j = own < n_strip ? own + i : i;
    return j < n_strip ? j : j - n_strip;
  }

  __device__ void set_up(char *raw, int rows) {
    m = rows;
    const int rank = ptx::get_sreg_cluster_ctarank();
    ik = rank % P::cls_k;
    in = rank / P::cls_k % P::cls_n;
    im = rank / P::cls_k / P::cls_n;
    own = in % C::shuffle;
    ir = in / C::shuffle;
    il = ik * C::shuffle + own;
    smem = raw + (-smem_address(raw) & (sm90::swizzle_align - 1));
    uint64_t *const barriers = reinterpret_cast<uint64_t *>(smem + S::barriers_at);
    pipe = {barriers, barriers + P::stages};
    strip_full = barriers + 2 * P::stages;
    strip_free = strip_full + C::shuffle;
    exchange_full = strip_free + 1;
    exchange_free = exchange_full + 1;
    reduce_full = exchange_free + 1;
    reduce_free = reduce_full + 1;
    if (threadIdx.x == 0) {
      for (int s = 0; s < P::stages; s++) {
        ptx::mbarrier_init(pipe.full + s, 1);
        ptx::mbarrier_init(pipe.empty + s, consumers);
      }
      for (int j = 0; j < C::shuffle; j++)
        ptx::mbarrier_init(strip_full + j, 1);
      ptx::mbarrier_init(strip_free, larger(1, C::shuffle - 1));
      for (uint64_t *exchange : {exchange_full, exchange_free})
        ptx::mbarrier_init(exchange, larger(1, (P::cls_k - 1) * sending_warps));
      for (uint64_t *reduce : {reduce_full, reduce_free})
        ptx::mbarrier_init(reduce, larger(1, (C::groups - 1) * sending_warps));
      ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    }
  }

  // Where a copy goes: into a stage, counted on its barrier, or (stage NULL) no further than L2.
  struct target {
    char *stage;
    uint64_t *full;
  };

  // Copies a tile [columns / slab][rows][slab] whose corner is (row, column) of the matrix to byte
  // `at` of the target.
  template <int columns, int tile_rows, bool is_one_copy>
  __device__ static void copy_tile(const target &to, int at, const tensor_map *map, int row,
                                   int column) {
    constexpr int slab = slab_columns(columns);
    if constexpr (is_one_copy && columns > slab) {
      const int32_t corner[3] = {0, row, column / slab};
      if (to.stage)
        ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, to.stage + at, map, corner,
                                  to.full);
      else
        prefetch_tile(map, corner);
    } else {
#pragma unroll
      for (int s = 0; s < columns / slab; s++) {
        const int32_t corner[2] = {column + s * slab, row};
        if (to.stage)
          ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global,
                                    to.stage + at + s * tile_rows * slab * 2, map, corner, to.full);
        else
          prefetch_tile(map, corner);
      }
    }
  }

  // The stages of a unit: its k tiles, then for each l step that is not empty the tiles of the
  // strip. Stages that wait for a free slot are brought into L2 meanwhile, `ahead` of them: HBM's
  // latency lies behind the ring (gain and price: codegen/NOTES.md). Unrolled, 56 registers spill.
  __device__ void produce(const tensor_map *map_a, const tensor_map *map_b,
                          const tensor_map *map_d) {
    constexpr int ahead = larger(1, prefetch_bytes / S::stage_bytes);
    const int warp = threadIdx.x / 32;
    int begin = 0; // number of the unit's first stage, counted over the kernel
    uint32_t turn = 0;
    for (int index = blockIdx.x / C::blocks; index < units();
         index += gridDim.x / C::blocks, turn++) {
      const unit u = unit_at(index);
      const int n_k = k_tiles(u), n_strip = strip_tiles(u);
      const int n_stages = n_k + l_steps(u) * n_strip;
      int i = (warp - begin) & (producer_warps - 1), fetched = i;
      if (turn == 0)
        i = fill_ring(u, i, n_k, n_strip, n_stages, map_a, map_b, map_d);
#pragma unroll 1
      for (; i < n_stages; i += producer_warps) {
        const int t = begin + i;
        if (t >= P::stages)
#pragma unroll 1
          for (; fetched < min(i + ahead, n_stages); fetched += producer_warps)
            if (fetched > i)
              copy_stage(u, fetched, n_k, n_strip, {nullptr, nullptr}, map_a, map_b, map_d);
        pipe.wait_empty(t);
        copy_stage(u, i, n_k, n_strip, stage_to_fill(t, i < n_k), map_a, map_b, map_d);
      }
      begin += n_stages;
    }
  }

  // The first round of the ring: weights do not wait for the kernels before this one, A does.
  // Returns the first stage of this warp after it.
  __device__ int fill_ring(const unit &u, int first, int n_k, int n_strip, int n_stages,
                           const tensor_map *map_a, const tensor_map *map_b,
                           const tensor_map *map_d) const {
    int i = first;
#pragma unroll 1
    for (; i < min(P::stages, n_stages); i += producer_warps)
      copy_weights(u, i, n_k, n_strip, stage_to_fill(i, i < n_k), map_b, map_d);
    wait_for_kernels_before();
#pragma unroll 1
    for (int at = first; at < min(P::stages, n_k); at += producer_warps)
      copy_a(u, at, stage_at(at), map_a);
    return i;
  }

  __device__ target stage_at(int t) const {
    return {smem + t % P::stages * S::stage_bytes, pipe.full + t % P::stages};
  }
  __device__ target stage_to_fill(int t, bool is_ab) const {
    const target to = stage_at(t);
    expect_bytes(to.full, is_ab ? stage_tx_ab : S::d_bytes);
    return to;
  }

  // l steps of a unit in which this block has an E tile: the first ones.
  __device__ int l_steps(const unit &u) const {
    const int all = (C::tiles_l - il + P::cls_l - 1) / P::cls_l;
    return u.is_m_empty ? 0 : max(0, min(all, u.l_end) - u.l_begin);
  }

  __device__ void copy_stage(const unit &u, int i, int n_k, int n_strip, const target &to,
                             const tensor_map *map_a, const tensor_map *map_b,
                             const tensor_map *map_d) const {
    if (i < n_k)
      copy_a(u, i, to, map_a);
    copy_weights(u, i, n_k, n_strip, to, map_b, map_d);
  }

  // Step along k of stage i.
  __device__ int k_at(int i) const {
    return (C::is_split_gate ? i : i * C::k_layers + ik) * P::blk_k;
  }
  // Nothing of an image comes into L2 ahead: of k1 k1 copies of a pixel only the first would gain.
  __device__ void copy_a(const unit &u, int i, const target &to, const tensor_map *map_a) const {
    const int row = u.tile_m * P::blk_m, column = k_at(i);
    if constexpr (A::k1 == 1) {
      copy_tile<P::blk_k, P::blk_m, is_one_copy_k>(to, 0, map_a, row, column);
    } else if (to.stage) {
#pragma unroll
      for (int s = 0; s < P::blk_k / slab_k; s++)
        copy_image<A>(to.stage + s * P::blk_m * slab_k * 2, map_a, row, column + s * slab_k,
                      to.full, policy_evict_last());
    }
  }
  __device__ void copy_weights(const unit &u, int i, int n_k, int n_strip, const target &to,
                               const tensor_map *map_b, const tensor_map *map_d) const {
    if (i < n_k) {
#pragma unroll
      for (int b = 0; b < C::branches; b++) {
        const int branch = C::is_split_gate ? ik : b;
        copy_tile<P::blk_k, P::blk_n, is_one_copy_k>(to, S::a_bytes + b * S::b_bytes, map_b,
                                                     branch * P::n + u.tile_n * P::blk_n, k_at(i));
      }
      return;
    }
    const int d = i - n_k;
    const bool is_full = n_strip == C::shuffle; // the usual case divides by a constant
    const int step_l = u.l_begin + (is_full ? d / C::shuffle : d / n_strip);
    const int j = strip_order(is_full ? d % C::shuffle : d % n_strip, n_strip);
    copy_tile<P::blk_n, P::blk_l, is_one_copy_n>(to, 0, map_d, l_tile(step_l) * P::blk_l,
                                                 (u.step_n * P::cls_n + ir * C::shuffle + j) *
                                                     P::blk_n);
  }

  // One stage of a product: sums[branches] += A tile . B tiles^T over `depth` elements.
  template <int depth, int rows, int columns, int n_products>
  __device__ static void multiply(float (&sums)[n_products][columns / 2], uint32_t a, uint32_t b) {
    constexpr int slab = slab_columns(depth);
#pragma unroll
    for (int step = 0; step < depth / sm90::mma_k; step++) {
      constexpr int steps_per_slab = slab / sm90::mma_k;
      const uint32_t part = step / steps_per_slab, along = step % steps_per_slab * sm90::mma_k * 2;
      const uint64_t a_at = wgmma_descriptor<slab * 2>(a + part * rows * slab * 2 + along);
#pragma unroll
      for (int product = 0; product < n_products; product++)
        wgmma<columns, P::is_bf16>::mma(
            sums[product], a_at,
            wgmma_descriptor<slab * 2>(b + product * columns * depth * 2 +
                                       part * columns * slab * 2 + along));
    }
  }

  __device__ static int warpgroup() {
    return threadIdx.x / sm90::warpgroup_threads - 1;
  }
  // First row of a tile that this thread holds sums of; the other is 8 below.
  __device__ static int row() {
    return threadIdx.x / 32 * 16 - 64 + threadIdx.x % 32 / 4;
  }
  __device__ static int column() {
    return threadIdx.x % 4 * 2;
  }
  __device__ static bool is_leader() {
    return threadIdx.x == sm90::warpgroup_threads;
  }
  __device__ static bool is_warpgroup_leader() {
    return threadIdx.x % sm90::warpgroup_threads == 0;
  }
  __device__ static void join() {
    named_barrier<1, C::consumer_threads>();
  }

  // Peers are served by the lanes of the first consumer warp, one each: a lone thread takes 0.2 us
  // for every push or arrival (H200). f(q) for q = 1 .. n - 1.
  template <class F> __device__ static void each_peer(int n, F f) {
    const int q = threadIdx.x - sm90::warpgroup_threads + 1;
    if (q >= 1 && q < n)
      f(q);
  }

  __device__ void release_stage(int t) const {
    if (is_warpgroup_leader())
      pipe.release(t);
  }

  // GEMM0: C's sums of this block, over its k tiles.
  __device__ void multiply_ab(float (&c)[C::branches][P::blk_n / 2], int &t, int n_k) {
    const uint32_t base = smem_address(smem);
    constexpr int own_rows = sm90::mma_rows * slab_k * 2; // bytes to the next warpgroup's rows
    clear(c);
    for (int i = 0; i < n_k; i++, t++) {
      pipe.wait_full(t);
      const uint32_t stage = base + t % P::stages * S::stage_bytes;
      wgmma_fence();
      multiply<P::blk_k, P::blk_m, P::blk_n>(c, stage + warpgroup() * own_rows, stage + S::a_bytes);
      wgmma_commit();
      wgmma_wait<1>();
      if (i > 0)
        release_stage(t - 1);
    }
    wgmma_wait<0>();
    if (n_k > 0)
      release_stage(t - 1);
  }

  template <int products, int sums> __device__ static void clear(float (&x)[products][sums]) {
#pragma unroll
    for (int p = 0; p < products; p++)
#pragma unroll
      for (int i = 0; i < sums; i++)
        x[p][i] = 0.f;
  }

  // Visits this thread's pairs of neighbouring columns: f(row, column, index of the first sum).
  template <int columns, class F> __device__ static void each_pair(F f) {
#pragma unroll
    for (int j = 0; j < columns / 8; j++)
#pragma unroll
      for (int half = 0; half < 2; half++)
        if (P::blk_m >= sm90::mma_rows || row() + 8 * half < P::blk_m)
          f(row() + 8 * half, 8 * j + column(), 4 * j + 2 * half);
  }

  // Warps whose 16 rows belong to the tile send sums to peers.
  static constexpr int sending_warps =
      (C::consumer_threads < 2 * P::blk_m ? C::consumer_threads : 2 * P::blk_m) / 32;
  __device__ static bool is_sender() {
    return P::blk_m >= sm90::mma_rows || row() / 16 * 16 < P::blk_m;
  }
  // This warp counts itself on a barrier of n - 1 peers, of rank(q) for q = 1 .. n - 1.
  template <class F> __device__ static void tell_peers(int n, uint64_t *barrier, F rank) {
    __syncwarp();
    const int q = threadIdx.x % 32 + 1;
    if (is_sender() && q < n)
      arrive_remote(at_rank(barrier, rank(q)));
  }

  // dsm_all_exchange: sends this block's partial tiles to its cls_k - 1 peers and adds theirs, or
  // (spatial gate) multiplies the two branches.
  __device__ void all_exchange(float (&c)[C::branches][P::blk_n / 2], uint32_t turn) {
    using K = typename S::c_shares;
    const auto of_layer = [&](int q) { return peer(im, in, (ik + q) % P::cls_k); };
    if constexpr (C::is_split_gate)
      if (ik == 0)
        activate_sums(c[0]);
    for (int q = 1; q < P::cls_k; q++)
      if (is_sender())
        K::send(c, 0, smem + S::exchange_at + (P::cls_k - 1 - q) * K::bytes, of_layer(q));
    tell_peers(P::cls_k, exchange_full, of_layer);
    wait_phase_of_cluster(exchange_full, turn & 1);
#pragma unroll
    for (int slot = 0; slot < P::cls_k - 1; slot++)
      K::merge(c, 0, smem + S::exchange_at + slot * K::bytes,
               [](float x, float y) { return C::is_split_gate ? x * y : x + y; });
    tell_peers(P::cls_k, exchange_free, of_layer);
  }

  __device__ static void activate_sums(float (&x)[P::blk_n / 2]) {
#pragma unroll
    for (int i = 0; i < P::blk_n / 2; i++)
      x[i] = activate<static_cast<activation>(P::act)>(x[i]);
  }

  // Bulk copy of this block's shared memory to the same or another place of a peer's; the bytes are
  // counted on the peer's barrier.
  __device__ static void push(char *to, const char *from, uint32_t bytes, uint64_t *full,
                              int rank) {
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_shared, at_rank(to, rank), from, bytes,
                       at_rank(full, rank));
  }

  // C = act(sums) (times the other branch), rounded, into this block's tile of the strip.
  __device__ void finish_c(const unit &u, float (&c)[C::branches][P::blk_n / 2]) {
    char *const tile = smem + S::strip_at + own * S::c_bytes;
    if constexpr (!C::is_split_gate)
      activate_sums(c[0]);
    each_pair<P::blk_n>([&](int r, int col, int i) {
      float x = c[0][i], y = c[0][i + 1];
      if constexpr (C::branches == 2) {
        x *= c[C::branches - 1][i];
        y *= c[C::branches - 1][i + 1];
      }
      // Past the last column a gated B holds rows of the other branch: those sums are no numbers of
      // C.
      if (P::is_gated && P::n % P::blk_n != 0 && u.tile_n * P::blk_n + col >= P::n)
        x = y = 0.f;
      *reinterpret_cast<uint32_t *>(tile + swizzled<P::blk_m, P::blk_n>(r, col)) =
          round_pair<P::is_bf16>(x, y);
    });
    ptx::fence_proxy_async(ptx::space_shared);
    join();
  }

  // dsm_shuffle: this block's C tile to the other blocks of its group.
  __device__ void send_c() {
    each_peer(C::shuffle, [&](int q) {
      const int j = (own + q) % C::shuffle;
      char *const tile = smem + S::strip_at + own * S::c_bytes;
      expect_bytes(strip_full + j, S::c_bytes);
      push(tile, tile, S::c_bytes, strip_full + own, peer(im, ir * C::shuffle + j, ik));
    });
  }

  // GEMM1: E's sums of this block's l tile over the group's strip.
  __device__ void multiply_cd(const unit &u, float (&e)[1][P::blk_l / 2], int &t, int step_l,
                              uint32_t turn) {
    const uint32_t base = smem_address(smem);
    constexpr int own_rows = sm90::mma_rows * slab_n * 2;
    const int n_strip = is_e_empty(u, step_l) ? 0 : strip_tiles(u);
    clear(e);
    for (int i = 0; i < n_strip; i++, t++) {
      const int j = strip_order(i, n_strip);
      if (j != own)
        wait_phase(strip_full + j, turn & 1);
      pipe.wait_full(t);
      wgmma_fence();
      multiply<P::blk_n, P::blk_m, P::blk_l>(
          e, base + S::strip_at + j * S::c_bytes + warpgroup() * own_rows,
          base + t % P::stages * S::stage_bytes);
      wgmma_commit();
      wgmma_wait<1>();
      if (i > 0)
        release_stage(t - 1);
    }
    wgmma_wait<0>();
    if (n_strip > 0)
      release_stage(t - 1);
  }

  // E's sums are added up by all blocks that have some of them: this block adds up and stores a share
  // of the columns, or all (pipe/shares.cuh).
  using E = typename S::e_shares;
  static constexpr int e_shares = C::uses_dsm ? C::groups : 1;
  __device__ int own_share() const {
    return e_shares > 1 ? ir : 0;
  }

  __device__ void store_e(const unit &u, const float (&e)[P::blk_l / 2], int step_l,
                          uint16_t *out) const {
    each_pair<P::blk_l>([&](int r, int col, int i) {
      const int at_m = u.tile_m * P::blk_m + r, at_l = l_tile(step_l) * P::blk_l + col;
      if (col / 8 % e_shares == own_share() && at_m < m && at_l < P::l)
        *reinterpret_cast<uint32_t *>(out + static_cast<int64_t>(at_m) * P::l + at_l) =
            round_pair<P::is_bf16>(e[i], e[i + 1]);
    });
  }

  // Reduces and stores one E tile whose partial sums lie in `e`. `round` counts over the kernel.
  __device__ void finish_e(const unit &u, float (&e)[1][P::blk_l / 2], int step_l, uint32_t round,
                           bool is_last_round, uint16_t *out, char *workspace) {
    if constexpr (C::uses_dsm)
      reduce_scatter(e, round, is_last_round);
    if (is_e_empty(u, step_l))
      return;
    if constexpr (C::uses_l2)
      add_in_l2(u, e, step_l, workspace);
    else
      store_e(u, e[0], step_l, out);
  }

  // dsm_reduce_scatter
  __device__ void reduce_scatter(float (&e)[1][P::blk_l / 2], uint32_t round, bool is_last_round) {
    const auto of_group = [&](int q) {
      return peer(im, (ir + q) % C::groups * C::shuffle + own, ik);
    };
    char *const received = smem + S::reduce_at;
    if (round > 0)
      wait_phase(reduce_free, (round - 1) & 1);
    for (int q = 1; q < C::groups; q++)
      if (is_sender())
        E::send(e, (ir + q) % C::groups, received + (C::groups - 1 - q) * E::bytes, of_group(q));
    tell_peers(C::groups, reduce_full, of_group);
    wait_phase_of_cluster(reduce_full, round & 1);
#pragma unroll
    for (int slot = 0; slot < C::groups - 1; slot++)
      E::add(e, ir, received + slot * E::bytes);
    if (!is_last_round)
      tell_peers(C::groups, reduce_free, of_group);
  }

  __device__ int l_index(int step_l) const {
    return im * C::tiles_l + l_tile(step_l);
  }
  __device__ int share_index(int step_l) const {
    return l_index(step_l) * W::n_shares + (W::n_shares > 1 ? ir : 0);
  }
  __device__ char *workspace_share(const unit &u, int step_l, char *workspace) const {
    return workspace + u.tile_m / P::cls_m * W::row_group_bytes +
           static_cast<int64_t>(share_index(step_l)) * E::bytes;
  }
  __device__ unsigned *workspace_counter(const unit &u, int step_l, char *workspace) const {
    return reinterpret_cast<unsigned *>(workspace + u.tile_m / P::cls_m * W::row_group_bytes +
                                        W::counters_at) +
           share_index(step_l);
  }

  // inter_cluster_reduce, first half: starts the bulk add of what this block has. Nobody waits for it
  // before the unit's rounds are over.
  __device__ void add_in_l2(const unit &u, const float (&e)[1][P::blk_l / 2], int step_l,
                            char *workspace) const {
    if (is_leader())
      ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
    join(); // the round before has left the staging
    E::put(e, own_share(), smem + S::staging_at);
    ptx::fence_proxy_async(ptx::space_shared);
    join();
    if (!is_leader())
      return;
    const int octets = (P::blk_l / 8 - own_share() + e_shares - 1) / e_shares;
    ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add,
                              reinterpret_cast<float *>(workspace_share(u, step_l, workspace)),
                              reinterpret_cast<const float *>(smem + S::staging_at),
                              octets * C::consumer_threads * 16);
    ptx::cp_async_bulk_commit_group();
  }

  // Second half, once a unit: counts this block's adds; whoever counts last reads the sums, leaves
  // zeros behind and stores E. 128 rounds at a time.
  __device__ void settle_l2(const unit &u, uint16_t *out, char *workspace) const {
    if (u.is_m_empty)
      return;
    uint32_t *const is_last = reinterpret_cast<uint32_t *>(smem + S::barriers_at + verdicts_at);
    const int lane = threadIdx.x - sm90::warpgroup_threads;
    if (is_leader()) {
      ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
      ptx::fence_proxy_async();
    }
    join();
    for (int begin = u.l_begin; begin < u.l_end; begin += sm90::warpgroup_threads) {
      const int n_rounds = min(u.l_end - begin, sm90::warpgroup_threads);
      if (lane < n_rounds) {
        is_last[lane] = 0;
        if (!is_e_empty(u, begin + lane)) {
          unsigned *const counter = workspace_counter(u, begin + lane, workspace);
          __threadfence();
          if (atomicAdd(counter, 1u) == W::parts - 1) {
            __threadfence();
            *counter = 0;
            is_last[lane] = 1;
          }
        }
      }
      join();
      for (int i = 0; i < n_rounds; i++)
        if (is_last[i])
          collect(u, begin + i, out, workspace_share(u, begin + i, workspace));
      join();
    }
  }

  __device__ void collect(const unit &u, int step_l, uint16_t *out, char *share) const {
    float e[1][P::blk_l / 2];
    clear(e);
    ptx::fence_proxy_async();
    E::take(e, own_share(), share);
    store_e(u, e[0], step_l, out);
  }

  // Every block of the cluster has started and set up its barriers.
  __device__ static void meet_peers() {
    if constexpr (C::blocks > 1)
      ptx::barrier_cluster_wait();
  }

  __device__ void consume(uint16_t *out, char *workspace) {
    int t = 0;
    uint32_t turn = 0, round = 0;
    const int n_clusters = gridDim.x / C::blocks;
    wait_for_kernels_before(); // they may still read E, or use the workspace
    for (int index = blockIdx.x / C::blocks; index < units(); index += n_clusters, turn++) {
      const bool is_last_unit = index + n_clusters >= units();
      const unit u = unit_at(index);
      {
        float c[C::branches][P::blk_n / 2];
        multiply_ab(c, t, k_tiles(u));
        if (turn == 0)
          meet_peers();
        if constexpr (P::cls_k > 1)
          all_exchange(c, turn);
        if (C::shuffle > 1 && turn > 0)
          wait_phase(strip_free, (turn - 1) & 1);
        finish_c(u, c);
      }
      send_c();
      if constexpr (P::cls_k > 1)
        wait_phase(exchange_free, turn & 1);
      for (int step_l = u.l_begin; step_l < u.l_end; step_l++, round++) {
        float e[1][P::blk_l / 2];
        multiply_cd(u, e, t, step_l, turn);
        finish_e(u, e, step_l, round, is_last_unit && step_l + 1 == u.l_end, out, workspace);
      }
      if constexpr (C::uses_l2)
        settle_l2(u, out, workspace);
      if (C::shuffle > 1 && !is_last_unit)
        leave_strip(turn);
    }
  }

  // The unit's strip has been read: tells the blocks that sent its tiles.
  __device__ void leave_strip(uint32_t turn) {
    for (int q = 1; q < C::shuffle; q++)
      wait_phase(strip_full + (own + q) % C::shuffle, turn & 1);
    join();
    each_peer(C::shuffle, [&](int q) {
      arrive_remote(at_rank(strip_free, peer(im, ir * C::shuffle + (own + q) % C::shuffle, ik)));
    });
  }

  __device__ static void run(const tensor_map *map_a, const tensor_map *map_b,
                             const tensor_map *map_d, void *e, void *workspace, int rows) {
    extern __shared__ char raw[];
    chain self;
    self.set_up(raw, rows);
    if (threadIdx.x == 0) {
      prefetch_map(map_a);
      prefetch_map(map_b);
      prefetch_map(map_d);
    }
    if constexpr (C::blocks > 1)
      ptx::barrier_cluster_arrive(); // waited for before the first access to a peer
    __syncthreads();
    let_next_kernel_start();
    if (threadIdx.x < sm90::warpgroup_threads) {
      if constexpr (consumers == 2)
        registers_lower<56>();
      if (threadIdx.x % 32 == 0 && threadIdx.x / 32 < producer_warps)
        self.produce(map_a, map_b, map_d);
      __syncwarp();
      meet_peers();
    } else {
      if constexpr (consumers == 2)
        registers_raise<224>();
      self.consume(static_cast<uint16_t *>(e), static_cast<char *>(workspace));
    }
    if constexpr (C::blocks > 1) { // a peer may still send to this block or count on its barriers
      ptx::barrier_cluster_arrive();
      ptx::barrier_cluster_wait();
    }
  }
};

} // namespace skel

#endif
