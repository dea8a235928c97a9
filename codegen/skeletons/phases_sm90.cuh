// phases_sm90: two products as the two phases of one persistent kernel; C passes through L2.
//
//   phase 1   C[m,n] = act(A[m,k] . B[n,k]^T)     gated: C = act(A . Bgate^T) * (A . Bup^T)
//   phase 2   E[m,l] = C[m,n] . D[l,n]^T          B gated: [2][n][k], gate first
//
// Global: A [m][k], B, D row-major, read by tensor maps (out of range reads zero); E [m][l]; A may be
// an image, read as its im2col matrix (pipe/image.cuh);
// C in the workspace, in tiles that phase 2 reads as they will lie in shared memory.
// Dataflow, masked tiles: costmodel/MODEL.md section 1.4. Memory maps: phases_plan.cuh.
//
// There is no barrier between the phases: whoever has written a C tile sets its flag to the number
// of the launch, and phase 2 waits for the flags of the tiles that it is about to load. All blocks
// of a launch must be resident at once.
//
// Roles: warpgroup 0 produces, two warps the activations X (A, then C), two the weights W (B, then
// D), each every other stage; the other warpgroups consume. A stage is full when both parts have
// arrived. Weights wait for free stages only, so D streams in while C is still being made.
//
// Fewer than 64 rows: the tensor cores always take 64, so they read what lies behind X as well.
// Rows of a product are independent; the rows beyond blk_m are never looked at.
//
// E's partial sums of the groups of a cluster are added over distributed shared memory (pipe/shares.cuh):
// each block adds up, and stores, its octets of columns. Barriers for that:
//   drained      groups - 1 arrivals: what lies in the peers' memory for it has been read
//   reduce_full  an arrival of each sending warp of groups - 1 peers
// c_written (own arrival): this block's C tiles are on their way; asking for others' flags earlier
// would only be in the writers' way.
#ifndef FPL_SKELETONS_PHASES_SM90_CUH
#define FPL_SKELETONS_PHASES_SM90_CUH

#include "codegen/skeletons/epilogue/activation.cuh"
#include "codegen/skeletons/phases_plan.cuh"
#include "codegen/skeletons/pipe/image.cuh"
#include "codegen/skeletons/pipe/ring.cuh"
#include "codegen/skeletons/ptx/grid_sm90.cuh"
#include "codegen/skeletons/ptx/sm90.cuh"
#include "codegen/skeletons/ptx/wgmma.cuh"

namespace skel {

template <class P, class A = matrix> struct phases {
  using C = phase_counts<P>;
  using S = phase_smem<P>;
  using G = phase_workspace<P>;
  using E = typename S::e_shares;
  static constexpr int producers = 2; // warps that load X, and as many that load W
  static constexpr int raster_groups =
      16; // row groups that share their weights' passage through L2
  static constexpr int sending_warps = smaller(C::consumer_threads, 2 * P::blk_m) / 32;
  static_assert(S::stage_bytes < sm90::transaction_most);

  int in, il, ir; // where this block stands in its cluster: C tile, E tile, part of n
  char *smem;
  ring<P::stages> pipe;     // of phase 1
  ring<S::stages_e> pipe_e; // of phase 2, in the same memory
  uint64_t *drained, *reduce_full, *c_written;
  char *workspace;
  int m;

  struct unit {
    int row_group, step;
  };

  __device__ int row_groups() const {
    return (m + P::blk_m - 1) / P::blk_m;
  }

  // Units of a phase, `steps` for each row group: raster_groups row groups at a time, so that
  // neighbouring clusters use the same weights.
  __device__ unit unit_at(int index, int steps) const {
    const int first = index / (raster_groups * steps) * raster_groups;
    const int groups = min(raster_groups, row_groups() - first);
    const int rest = index - first * steps;
    return {first + rest % groups, rest / groups};
  }

  __device__ int first_unit() const {
    return blockIdx.x / P::cls_n;
  }
  __device__ static int clusters() {
    return gridDim.x / P::cls_n;
  }
  __device__ int tile_n(const unit &u) const {
    return u.step * P::cls_n + in;
  }
  __device__ int tile_l(const unit &u) const {
    return u.step * P::cls_l + il;
  }
  __device__ int depth_c(const unit &u) const {
    return tile_n(u) < C::tiles_n ? C::depth_k : 0;
  }
  // Stages [begin_e, end_e) of n that this block multiplies.
  __device__ int begin_e() const {
    return ir * C::depth_n / C::groups;
  }
  __device__ int end_e(const unit &u) const {
    return tile_l(u) < C::tiles_l ? (ir + 1) * C::depth_n / C::groups : begin_e();
  }

  __device__ void set_up(char *raw, void *space, int rows) {
    m = rows;
    workspace = static_cast<char *>(space);
    in = ptx::get_sreg_cluster_ctarank();
    il = in % P::cls_l;
    ir = in / P::cls_l;
    smem = raw + (-smem_address(raw) & (sm90::swizzle_align - 1));
    uint64_t *const barriers = reinterpret_cast<uint64_t *>(smem + S::barriers_at);
    pipe = {barriers, barriers + P::stages};
    pipe_e = {barriers + 2 * P::stages, barriers + 2 * P::stages + S::stages_e};
    drained = barriers + 2 * (P::stages + S::stages_e);
    reduce_full = drained + 1;
    c_written = reduce_full + 1;
  }

  template <int stages> __device__ static void init_ring(const ring<stages> &pipe) {
    for (int s = 0; s < stages; s++) {
      ptx::mbarrier_init(pipe.full + s, 2);
      ptx::mbarrier_init(pipe.empty + s, C::consumers);
    }
  }
  __device__ void init_barriers() const {
    init_ring(pipe);
    init_ring(pipe_e);
    ptx::mbarrier_init(drained, larger(1, C::groups - 1));
    ptx::mbarrier_init(reduce_full, larger(1, (C::groups - 1) * sending_warps));
    ptx::mbarrier_init(c_written, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }

  // ---- workspace ----

  __device__ char *row_group_at(int row_group) const {
    return workspace + row_group * G::row_group_bytes;
  }
  __device__ uint32_t *flags_of(int row_group) const {
    return reinterpret_cast<uint32_t *>(row_group_at(row_group) + G::flags_at);
  }

  // Launches that came before this one, as any thread may ask until its block counts itself. Blocks
  // of a launch count to 2^16 together, so those that have ended are not taken for a launch.
  __device__ uint64_t *counter() const {
    return reinterpret_cast<uint64_t *>(workspace + G::counter_at);
  }
  __device__ uint32_t launches_before() const {
    return static_cast<uint32_t>(load_relaxed(counter()) >> 16);
  }
  __device__ void count_launch() const {
    add_relaxed(counter(), blockIdx.x == 0 ? (1u << 16) - gridDim.x + 1 : 1u);
  }

  // Waits until the C tiles before column `end` are written. A whole warp; `ready`: tiles known to
  // be.
  __device__ void wait_c(int row_group, int end, uint32_t launch, int &ready) const {
    const int needed = min(C::tiles_n, (end + P::blk_n - 1) / P::blk_n);
    if (ready >= needed)
      return;
    const uint32_t *const flags = flags_of(row_group);
    const int lane = threadIdx.x % 32;
    while (ready < needed) {
      const int tile = ready + lane;
      const bool is_ready = tile >= C::tiles_n || load_acquire(flags + tile) == launch;
      const uint32_t waiting = ~__ballot_sync(~0u, is_ready);
      ready += waiting == 0 ? 32 : __ffs(waiting) - 1;
    }
    __syncwarp();
    ptx::fence_proxy_async();
  }

  // ---- producers ----

  __device__ char *stage_at(int t) const {
    return smem + t % P::stages * S::stage_bytes;
  }
  __device__ char *stage_e_at(int t) const {
    return smem + t % S::stages_e * S::stage_e_bytes;
  }

  // Whether, or until, stage t of phase 2 may be filled; `total` stages were in phase 1. The first
  // round waits for the last stages of phase 1 that lie in the same memory.
  __device__ static int last_overlap(int t) {
    return smaller(P::stages - 1, ((t + 1) * S::stage_e_bytes - 1) / S::stage_bytes);
  }
  __device__ static int next_in_slot(int total, int slot) {
    return total + (slot + P::stages - total % P::stages) % P::stages;
  }
  __device__ bool is_empty_e(int t, int total) const {
    if (t >= S::stages_e)
      return pipe_e.is_empty(t);
    bool is_empty = true;
    for (int q = t * S::stage_e_bytes / S::stage_bytes; q <= last_overlap(t); q++)
      is_empty = is_empty && pipe.is_empty(next_in_slot(total, q));
    return is_empty;
  }
  __device__ void wait_empty_e(int t, int total) const {
    if (t >= S::stages_e) {
      pipe_e.wait_empty(t);
      return;
    }
    for (int q = t * S::stage_e_bytes / S::stage_bytes; q <= last_overlap(t); q++)
      pipe.wait_empty(next_in_slot(total, q));
  }

  // A tile of `rows` x blk_k at (row, column) of a matrix whose extent along the columns is
  // `extent`.
  template <int extent, int rows, int parts>
  __device__ static void copy_tile(char *to, uint64_t *full, uint64_t policy, const tensor_map *map,
                                   int row, int column) {
    if constexpr (extent % slab == 0 && C::slabs > 1) {
      if constexpr (parts > 1) {
        const int32_t corner[4] = {0, row, 0, column / slab};
        copy_tensor(to, map, corner, full, policy);
      } else {
        const int32_t corner[3] = {0, row, column / slab};
        copy_tensor(to, map, corner, full, policy);
      }
    } else {
#pragma unroll
      for (int s = 0; s < C::slabs; s++) {
        char *const at = to + s * parts * rows * slab * 2;
        if constexpr (parts > 1) {
          const int32_t corner[3] = {column + s * slab, row, 0};
          copy_tensor(at, map, corner, full, policy);
        } else {
          const int32_t corner[2] = {column + s * slab, row};
          copy_tensor(at, map, corner, full, policy);
        }
      }
    }
  }

  // A warp that produces fills every other stage, from t on; `most` of them are left. How many of
  // the next ones are free: at least one, it waits for that. Lane i then fills stage t + 2 i: a lone
  // thread that fills one after the other takes 0.2 us for each (H200), and a block's first tiles
  // would all wait for it.
  template <class F, class W>
  __device__ static int free_stages(int t, int most, F is_empty, W wait_empty) {
    const int lane = threadIdx.x % 32;
    const bool is_free = lane < most && is_empty(t + lane * producers);
    const int n = __ffs(~__ballot_sync(~0u, is_free)) - 1;
    if (n > 0)
      return n;
    wait_empty(t);
    return 1;
  }

  // Fills this warp's share of the stages [begin, end) of a unit with fill(i, t); t: number of stage
  // begin, counted over the phase. ready(i): how far stages may be filled, at least past i.
  template <int stages, class R, class F, class E, class W>
  __device__ static void fill_stages(int warp, int t, int begin, int end, R ready, F fill,
                                     E is_empty, W wait_empty) {
    const int lane = threadIdx.x % 32;
    for (int i = begin + (warp + t) % producers, n; i < end; i += n * producers) {
      const int most = min((ready(i) - i + producers - 1) / producers, stages / producers);
      n = free_stages(t + i - begin, most, is_empty, wait_empty);
      const int mine = i + lane * producers;
      if (lane < n)
        fill(mine, t + mine - begin);
      __syncwarp();
    }
  }

  // Phase 1 of a producing warp; returns the number of stages.
  template <class F> __device__ int fill_c(int warp, F fill) const {
    int t = 0;
    for (int index = first_unit(); index < row_groups() * C::steps_n; index += clusters()) {
      const unit u = unit_at(index, C::steps_n);
      const int depth = depth_c(u);
      fill_stages<P::stages>(
          warp, t, 0, depth, [&](int) { return depth; }, [&](int i, int at) { fill(u, i, at); },
          [&](int at) { return pipe.is_empty(at); }, [&](int at) { pipe.wait_empty(at); });
      t += depth;
    }
    return t;
  }

  // Phase 2; ready(u, i, tiles): how far the unit's stages may be filled, `tiles`: its memory.
  template <int barrier, class R, class F>
  __device__ void fill_e(int warp, int total, R ready, F fill) const {
    int t = 0;
    // Both warps have filled their last stage of phase 1, so no slot is two rounds behind, where its
    // phase bit would read as free.
    named_barrier<barrier, producers * 32>();
    for (int index = first_unit(); index < row_groups() * C::steps_l; index += clusters()) {
      const unit u = unit_at(index, C::steps_l);
      const int end = end_e(u);
      int tiles = begin_e() * P::blk_k / P::blk_n;
      fill_stages<S::stages_e>(
          warp, t, begin_e(), end, [&](int i) { return ready(u, i, end, tiles); },
          [&](int i, int at) { fill(u, i, at); }, [&](int at) { return is_empty_e(at, total); },
          [&](int at) { wait_empty_e(at, total); });
      t += end - begin_e();
    }
  }

  __device__ void produce_w(const tensor_map *map_b, const tensor_map *map_d, int warp) const {
    const uint64_t policy = policy_evict_first();
    const int total = fill_c(warp, [&](const unit &u, int i, int t) {
      uint64_t *const full = pipe.full + t % P::stages;
      expect_bytes(full, S::b_bytes);
      copy_tile<P::k, P::blk_n, C::branches>(stage_at(t) + S::x_bytes, full, policy, map_b,
                                             tile_n(u) * P::blk_n, i * P::blk_k);
    });
    fill_e<3>(
        warp, total, [](const unit &, int, int end, int &) { return end; },
        [&](const unit &u, int i, int t) {
          uint64_t *const full = pipe_e.full + t % S::stages_e;
          expect_bytes(full, S::d_bytes);
          copy_tile<P::n, P::blk_l, 1>(stage_e_at(t) + S::x_bytes, full, policy, map_d,
                                       tile_l(u) * P::blk_l, i * P::blk_k);
        });
  }

  __device__ static void copy_a(char *to, uint64_t *full, uint64_t policy, const tensor_map *map,
                                int row, int column) {
    if constexpr (A::k1 == 1) {
      copy_tile<P::k, P::blk_m, 1>(to, full, policy, map, row, column);
    } else {
#pragma unroll
      for (int s = 0; s < C::slabs; s++)
        copy_image<A>(to + s * S::x_slab_bytes, map, row, column + s * slab, full, policy);
    }
  }

  __device__ void produce_x(const tensor_map *map_a, int warp) const {
    const uint64_t policy = policy_evict_last();
    wait_for_kernels_before();
    const uint32_t launch = launches_before() + 1;
    const int total = fill_c(warp, [&](const unit &u, int i, int t) {
      uint64_t *const full = pipe.full + t % P::stages;
      expect_bytes(full, S::x_bytes);
      copy_a(stage_at(t), full, policy, map_a, u.row_group * P::blk_m, i * P::blk_k);
    });
    wait_phase(c_written, 0);
    fill_e<4>(
        warp, total,
        [&](const unit &u, int i, int end, int &tiles) {
          wait_c(u.row_group, (i + 1) * P::blk_k, launch, tiles);
          return tiles < C::tiles_n ? min(end, tiles * P::blk_n / P::blk_k) : end;
        },
        [&](const unit &u, int i, int t) { copy_c(u, i, t); });
  }

  __device__ void copy_c(const unit &u, int i, int t) const {
    uint64_t *const full = pipe_e.full + t % S::stages_e;
    const int bytes = slabs_at(i) * S::x_slab_bytes;
    expect_bytes(full, bytes);
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, stage_e_at(t),
                       row_group_at(u.row_group) +
                           static_cast<int64_t>(i) * C::slabs * S::x_slab_bytes,
                       bytes, full);
  }

  // Slabs of stage i of phase 2 that hold columns of C.
  __device__ static int slabs_at(int i) {
    return C::slabs_n % C::slabs == 0 ? C::slabs : min(C::slabs, C::slabs_n - i * C::slabs);
  }

  // ---- consumers ----

  __device__ static int warpgroup() {
    return threadIdx.x / sm90::warpgroup_threads - 1;
  }
  // First row of row tile i that this thread holds sums of; the other is 8 below.
  __device__ static int row(int i) {
    return (warpgroup() * C::row_tiles + i) * sm90::mma_rows +
           threadIdx.x % sm90::warpgroup_threads / 32 * 16 + threadIdx.x % 32 / 4;
  }
  __device__ static int column() {
    return threadIdx.x % 4 * 2;
  }
  __device__ static bool is_leader() {
    return threadIdx.x == sm90::warpgroup_threads;
  }
  __device__ static void join() {
    named_barrier<1, C::consumer_threads>();
  }
  // f(q) for q = 1 .. n - 1, one lane of the first consumer warp each.
  template <class F> __device__ static void each_peer(int n, F f) {
    const int q = threadIdx.x - sm90::warpgroup_threads + 1;
    if (q >= 1 && q < n)
      f(q);
  }
  // Visits this thread's pairs of neighbouring columns: f(row tile, row, column, first sum).
  template <int columns, class F> __device__ static void each_pair(F f) {
#pragma unroll
    for (int i = 0; i < C::row_tiles; i++)
#pragma unroll
      for (int j = 0; j < columns / 8; j++)
#pragma unroll
        for (int half = 0; half < 2; half++)
          if (P::blk_m >= sm90::mma_rows || row(i) + 8 * half < P::blk_m)
            f(i, row(i) + 8 * half, 8 * j + column(), 4 * j + 2 * half);
  }

  // Row tile r of X, 16 columns of slab s.
  template <bool is_c> __device__ static uint64_t x_descriptor(uint32_t x, int r, int s, int step) {
    const int first_row = (warpgroup() * C::row_tiles + r) * sm90::mma_rows;
    const uint32_t at = x + s * S::x_slab_bytes;
    if constexpr (is_c)
      return octet_descriptor<S::octet_bytes>(at + 2 * step * S::octet_bytes + first_row * 16);
    else
      return wgmma_descriptor<slab * 2>(at + first_row * slab * 2 + step * sm90::mma_k * 2);
  }

  // sums += X . W^T over the next stages [begin, end) of a ring, which have slabs(i) slabs.
  template <int columns, bool is_c, int stages, class F>
  __device__ void multiply(float (&sums)[C::row_tiles][columns / 2], const ring<stages> &pipe,
                           int &t, int begin, int end, F slabs) const {
    constexpr int stage_bytes = is_c ? S::stage_e_bytes : S::stage_bytes;
    const bool is_releaser = threadIdx.x % sm90::warpgroup_threads == 0;
#pragma unroll
    for (int r = 0; r < C::row_tiles; r++)
#pragma unroll
      for (int i = 0; i < columns / 2; i++)
        sums[r][i] = 0.f;
    for (int i = begin; i < end; i++, t++) {
      pipe.wait_full(t);
      const uint32_t x = smem_address(smem) + t % stages * stage_bytes, w = x + S::x_bytes;
      const int n_slabs = slabs(i);
      wgmma_fence();
#pragma unroll
      for (int s = 0; s < C::slabs; s++)
        if (s < n_slabs) {
#pragma unroll
          for (int step = 0; step < slab / sm90::mma_k; step++) {
            const uint64_t w_at =
                wgmma_descriptor<slab * 2>(w + s * columns * slab * 2 + step * sm90::mma_k * 2);
#pragma unroll
            for (int r = 0; r < C::row_tiles; r++)
              wgmma<columns, P::is_bf16>::mma(sums[r], x_descriptor<is_c>(x, r, s, step), w_at);
          }
        }
      wgmma_commit();
      wgmma_wait<1>();
      if (i > begin && is_releaser)
        pipe.release(t - 1);
    }
    wgmma_wait<0>();
    if (end > begin && is_releaser)
      pipe.release(t - 1);
  }

  // C = act(sums) (times the other branch), rounded, to the workspace.
  __device__ void store_c(const unit &u, float (&c)[C::row_tiles][C::c_columns / 2],
                          uint32_t launch) const {
    char *const tiles = row_group_at(u.row_group);
    each_pair<P::blk_n>([&](int i, int r, int col, int at) {
      float x = activate<static_cast<activation>(P::act)>(c[i][at]);
      float y = activate<static_cast<activation>(P::act)>(c[i][at + 1]);
      if constexpr (P::is_gated) {
        x *= c[i][at + P::blk_n / 2];
        y *= c[i][at + P::blk_n / 2 + 1];
      }
      const int at_n = tile_n(u) * P::blk_n + col;
      if (u.row_group * P::blk_m + r < m && at_n < P::n)
        *reinterpret_cast<uint32_t *>(tiles + at_n / 8 * S::octet_bytes + r * 16 + at_n % 8 * 2) =
            round_pair<P::is_bf16>(x, y);
    });
    join();
    if (is_leader())
      store_release(flags_of(u.row_group) + tile_n(u), launch);
  }

  // The octets of columns of E that this block has summed up.
  __device__ void store_e(const unit &u, const float (&e)[C::row_tiles][P::blk_l / 2],
                          uint16_t *out) const {
    each_pair<P::blk_l>([&](int i, int r, int col, int at) {
      if (col / 8 % C::groups != ir)
        return;
      const int at_m = u.row_group * P::blk_m + r, at_l = tile_l(u) * P::blk_l + col;
      if (at_m < m && at_l < P::l)
        *reinterpret_cast<uint32_t *>(out + static_cast<int64_t>(at_m) * P::l + at_l) =
            round_pair<P::is_bf16>(e[i][at], e[i][at + 1]);
    });
  }

  __device__ int peer(int group) const {
    return group * P::cls_l + il;
  }
  // dsm_reduce_scatter. `turn`: units before this one.
  __device__ void reduce_e(const unit &u, float (&e)[C::row_tiles][P::blk_l / 2], uint32_t turn,
                           bool is_last, uint16_t *out) const {
    wait_phase(drained, turn & 1);
    if (P::blk_m >= sm90::mma_rows || row(0) / 16 * 16 < P::blk_m)
      send_e(e);
    wait_phase_of_cluster(reduce_full, turn & 1);
    add_e(e);
    store_e(u, e, out);
    if (is_last)
      return;
    join();
    tell_drained();
  }

  __device__ void tell_drained() const {
    each_peer(C::groups,
              [&](int q) { arrive_remote(at_rank(drained, peer((ir + q) % C::groups))); });
  }

  __device__ char *received(int slot) const {
    return smem + S::received_at + slot * E::bytes;
  }

  __device__ void send_e(const float (&e)[C::row_tiles][P::blk_l / 2]) const {
#pragma unroll
    for (int to = 0; to < C::groups; to++)
      if (to != ir)
        E::send(e, to, received((ir - to - 1 + C::groups) % C::groups), peer(to));
    __syncwarp();
    const int q = threadIdx.x % 32 + 1;
    if (q < C::groups)
      arrive_remote(at_rank(reduce_full, peer((ir + q) % C::groups)));
  }

  __device__ void add_e(float (&e)[C::row_tiles][P::blk_l / 2]) const {
#pragma unroll
    for (int slot = 0; slot < C::groups - 1; slot++)
      E::add(e, ir, received(slot));
  }

  // Before the first access to a peer's shared memory every block has set up its barriers. No block
  // ends before its peers are done with its memory: it waits for all that they send.
  static constexpr bool has_peers = C::groups > 1;
  __device__ static void meet_peers() {
    if constexpr (has_peers)
      ptx::barrier_cluster_wait();
  }
  __device__ static void arrive_at_peers() {
    if constexpr (has_peers)
      ptx::barrier_cluster_arrive(ptx::sem_relaxed);
  }

  __device__ void consume(uint16_t *out) {
    int t = 0;
    wait_for_kernels_before();
    const uint32_t launch = is_leader() ? launches_before() + 1 : 0;
    for (int index = first_unit(); index < row_groups() * C::steps_n; index += clusters()) {
      const unit u = unit_at(index, C::steps_n);
      if (depth_c(u) == 0)
        continue;
      float c[C::row_tiles][C::c_columns / 2];
      multiply<C::c_columns, false>(c, pipe, t, 0, C::depth_k, [](int) { return C::slabs; });
      store_c(u, c, launch);
    }
    if (is_leader())
      ptx::mbarrier_arrive(c_written);
    meet_peers();
    tell_drained();
    t = 0;
    uint32_t turn = 0;
    for (int index = first_unit(); index < row_groups() * C::steps_l; index += clusters(), turn++) {
      const unit u = unit_at(index, C::steps_l);
      float e[C::row_tiles][P::blk_l / 2];
      multiply<P::blk_l, true>(e, pipe_e, t, begin_e(), end_e(u),
                               [](int i) { return slabs_at(i); });
      if constexpr (C::groups == 1)
        store_e(u, e, out);
      else
        reduce_e(u, e, turn, index + clusters() >= row_groups() * C::steps_l, out);
    }
    if (C::groups > 1 && turn == 0)
      wait_phase(drained, 0);
    if (is_leader())
      count_launch();
  }

  __device__ static void run(const tensor_map *map_a, const tensor_map *map_b,
                             const tensor_map *map_d, void *e, void *workspace, int rows) {
    extern __shared__ char raw[];
    constexpr int threads = C::consumer_threads + sm90::warpgroup_threads;
    const int warp = threadIdx.x / 32;
    const bool is_first_lane = threadIdx.x % 32 == 0;
    phases self;
    self.set_up(raw, workspace, rows);
    if (warp == producers) { // the first that loads weights does not wait for the others
      if (is_first_lane) {
        prefetch_map(map_b);
        self.init_barriers();
      }
      __syncwarp();
      named_barrier_arrive<2, threads>();
    } else {
      if (is_first_lane && warp < producers)
        prefetch_map(warp == 0 ? map_a : map_d);
      named_barrier<2, threads>();
    }
    arrive_at_peers();
    let_next_kernel_start();
    if (warp < sm90::warpgroup_threads / 32) {
      if constexpr (C::consumers == 2)
        registers_lower<56>();
      if (warp < producers)
        self.produce_x(map_a, warp);
      else
        self.produce_w(map_b, map_d, warp - producers);
      meet_peers();
    } else {
      if constexpr (C::consumers == 2)
        registers_raise<224>();
      self.consume(static_cast<uint16_t *>(e));
    }
  }
};

} // namespace skel

#endif
