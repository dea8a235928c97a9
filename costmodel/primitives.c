/* Blocks run one after the other: first all sends, then all additions, as the barriers between them
 * order it on the device. */
#include "costmodel/primitives.h"

#include <string.h>

enum { FLOAT_BYTES = 4, OCTET = FPL_OCTET_COLUMNS };

static void count(struct fpl_traffic *traffic, enum fpl_level level, size_t bytes) {
  traffic->bytes[level] += (double)bytes;
}

/* One block's push of n values into another block's shared memory. */
static void send(const float *from, float *to, size_t n, size_t value_bytes,
                 struct fpl_traffic *traffic, double *primitive_bytes) {
  memcpy(to, from, n * sizeof *to);
  count(traffic, FPL_LEVEL_DSM, n * value_bytes);
  count(traffic, FPL_LEVEL_SMEM, n * value_bytes);
  *primitive_bytes += (double)(n * value_bytes);
}

/* Where block `to` keeps what block `from` sent: slots in the group's order, without its own. */
static size_t slot_of(size_t from, size_t to) {
  return from < to ? from : from - 1;
}

static void add_from_smem(const float *part, size_t n, float *sums, struct fpl_traffic *traffic) {
  for (size_t i = 0; i < n; i++)
    sums[i] += part[i];
  count(traffic, FPL_LEVEL_SMEM, n * FLOAT_BYTES);
}

static void mul_from_smem(const float *part, size_t n, float *products,
                          struct fpl_traffic *traffic) {
  for (size_t i = 0; i < n; i++)
    products[i] *= part[i];
  count(traffic, FPL_LEVEL_SMEM, n * FLOAT_BYTES);
}

void fpl_dsm_all_exchange(enum fpl_exchange_op op, size_t n_blocks, size_t n_floats,
                          const float *const staged[], float *const received[],
                          float *const result[], struct fpl_traffic *traffic) {
  for (size_t from = 0; from < n_blocks; from++)
    for (size_t to = 0; to < n_blocks; to++)
      if (to != from)
        send(staged[from], received[to] + slot_of(from, to) * n_floats, n_floats, FLOAT_BYTES,
             traffic, &traffic->dsm.all_exchange);
  for (size_t block = 0; block < n_blocks; block++) {
    const float neutral = op == FPL_EXCHANGE_MUL ? 1.0f : 0.0f;
    for (size_t i = 0; i < n_floats; i++)
      result[block][i] = neutral;
    for (size_t from = 0; from < n_blocks; from++) {
      const float *const part =
          from == block ? staged[block] : received[block] + slot_of(from, block) * n_floats;
      if (op == FPL_EXCHANGE_MUL)
        mul_from_smem(part, n_floats, result[block], traffic);
      else
        add_from_smem(part, n_floats, result[block], traffic);
    }
  }
}

void fpl_dsm_shuffle(size_t n_blocks, size_t n_elements, float *const strip[],
                     struct fpl_traffic *traffic) {
  for (size_t from = 0; from < n_blocks; from++)
    for (size_t to = 0; to < n_blocks; to++)
      if (to != from)
        send(strip[from] + from * n_elements, strip[to] + from * n_elements, n_elements,
             FPL_ELEMENT_BYTES, traffic, &traffic->dsm.shuffle);
}

void fpl_dsm_reduce_scatter(size_t n_blocks, size_t share_floats, const float *const staged[],
                            float *const received[], float *const result[],
                            struct fpl_traffic *traffic) {
  for (size_t from = 0; from < n_blocks; from++)
    for (size_t to = 0; to < n_blocks; to++)
      if (to != from)
        send(staged[from] + to * share_floats, received[to] + slot_of(from, to) * share_floats,
             share_floats, FLOAT_BYTES, traffic, &traffic->dsm.reduce_scatter);
  for (size_t block = 0; block < n_blocks; block++) {
    memset(result[block], 0, share_floats * sizeof *result[block]);
    for (size_t from = 0; from < n_blocks; from++) {
      const float *const part = from == block
                                    ? staged[block] + block * share_floats
                                    : received[block] + slot_of(from, block) * share_floats;
      add_from_smem(part, share_floats, result[block], traffic);
    }
  }
}

void fpl_dsm_reduce_octets(size_t n_blocks, size_t rows, size_t columns, float *const sums[],
                           float *const received[], struct fpl_traffic *traffic) {
  const size_t octets = columns / OCTET;
  for (size_t from = 0; from < n_blocks; from++)
    for (size_t j = 0; j < octets; j++) {
      const size_t to = j % n_blocks;
      if (to == from)
        continue;
      float *const share = received[to] + slot_of(from, to) * rows * columns;
      for (size_t row = 0; row < rows; row++) {
        const size_t at = row * columns + j * OCTET;
        send(sums[from] + at, share + at, OCTET, FLOAT_BYTES, traffic,
             &traffic->dsm.reduce_scatter);
      }
    }
  for (size_t j = 0; j < octets; j++) {
    const size_t to = j % n_blocks;
    for (size_t slot = 0; slot + 1 < n_blocks; slot++)
      for (size_t row = 0; row < rows; row++) {
        const size_t at = row * columns + j * OCTET;
        add_from_smem(received[to] + slot * rows * columns + at, OCTET, sums[to] + at, traffic);
      }
  }
}

bool fpl_inter_cluster_reduce(int64_t parts, size_t n_floats, const float *staged, float *workspace,
                              int64_t *arrivals, float *result, struct fpl_traffic *traffic) {
  for (size_t i = 0; i < n_floats; i++)
    workspace[i] += staged[i];
  count(traffic, FPL_LEVEL_L2, n_floats * FLOAT_BYTES);
  traffic->l2_reduce_bytes += (double)(n_floats * FLOAT_BYTES);
  if (++*arrivals < parts)
    return false;
  memcpy(result, workspace, n_floats * sizeof *result);
  count(traffic, FPL_LEVEL_L2, n_floats * FLOAT_BYTES);
  memset(workspace, 0, n_floats * sizeof *workspace);
  count(traffic, FPL_LEVEL_L2, n_floats * FLOAT_BYTES);
  *arrivals = 0;
  return true;
}
