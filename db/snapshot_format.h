/* Layout of a snapshot file: db/SNAPSHOT.md. Little-endian; sections begin at a multiple of 64. */
#ifndef FPL_DB_SNAPSHOT_FORMAT_H
#define FPL_DB_SNAPSHOT_FORMAT_H

#include "tuner/core/answer.h"

#include <assert.h>
#include <stdint.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "snapshots are little-endian");

#define FPL_SNAPSHOT_MAGIC "FPLNSNAP"
enum { FPL_SNAPSHOT_VERSION = 1, FPL_SNAPSHOT_TEXTS = 4 };

enum fpl_section {
  FPL_SECTION_DEVICES,
  FPL_SECTION_ENVIRONMENTS,
  FPL_SECTION_KERNELS,
  FPL_SECTION_PLANS,
  FPL_SECTION_SLOTS, /* hash table of the first plan of each problem */
  FPL_SECTION_REGRETS,
  FPL_SECTION_TEXTS,  /* bytes: four a plan, each ended by NUL */
  FPL_SECTION_CUBINS, /* bytes */
  FPL_SECTIONS
};

struct fpl_snapshot_header {
  char magic[8];
  char digest[FPL_HASH_HEX]; /* SHA-256 of all that follows `zero`, in hex */
  char zero[7];
  uint32_t version;
  uint32_t header_bytes;
  uint64_t file_bytes;
  struct {
    uint64_t offset, n; /* of the first record, and how many; both of bytes for texts and cubins */
    uint32_t record_bytes, zero;
  } sections[FPL_SECTIONS];
};
enum { FPL_SNAPSHOT_DIGEST_FROM = 80, FPL_SNAPSHOT_LINE = 64 };

struct fpl_snapshot_device {
  char name[32], title[64];
  int64_t capability_major, capability_minor, sms, l2_bytes, hbm_bytes;
  double sm_clock_mhz;
  int64_t smem_bytes_per_block, smem_bytes_per_sm, registers_per_sm, threads_per_sm, max_cluster;
};

struct fpl_snapshot_environment {
  struct {
    char name[24], value[96];
  } fields[FPL_ENVIRONMENT_FIELDS];
  int64_t n_fields;
};

struct fpl_snapshot_kernel {
  char name[FPL_KERNEL_NAME], family[24], sha[FPL_HASH_HEX], source_key[FPL_HASH_HEX];
  char zero[6];
  struct {
    int64_t rows, cols;
    int32_t box_rows, box_cols, slabs, parts, is_image, zero;
  } maps[FPL_KERNEL_MAPS];
  int64_t smem_bytes, rows_per_unit, units_per_row, max_clusters, workspace_bytes_per_row_group;
  int32_t cluster, block_threads, registers, spill_bytes;
  uint64_t cubin_offset, cubin_bytes; /* within the section; 0 bytes: not stored */
};

/* Three lines of a processor's cache. */
struct fpl_snapshot_plan {
  int32_t m, n, k, l, batch, ic, h, w, k1;
  int32_t device, environment, kernel; /* kernel -1: none */
  int8_t kind, dtype, act, provenance, is_library, has_cubin;
  int16_t zero;
  int32_t schedule[FPL_N_FIELDS];
  int32_t n_candidates, n_ok, m_low, m_high; /* what is larger is stored as the largest */
  /* Texts, one behind the other: reason, problem, schedule, kernel ("" for the library). */
  uint16_t text_bytes[FPL_SNAPSHOT_TEXTS]; /* without the NUL */
  uint32_t texts_by64;                     /* a 64th of the offset of the first */
  int64_t created_unix;
  double est_us, measured_us, measured_hot_us, library_us, library_hot_us;
  int32_t zeros[2];
};

/* Free: both 0. That a slot says where the texts are lets memory fetch plan and texts at once. */
struct fpl_snapshot_slot {
  uint32_t plan; /* place of the plan, plus 1 */
  uint32_t texts_by64;
};

struct fpl_snapshot_regret {
  int32_t device, kind, distance_class, zero;
  int64_t n;
  double low, expected, high;
};

_Static_assert(sizeof(struct fpl_snapshot_header) == 80 + 16 + 24 * FPL_SECTIONS, "no padding");
_Static_assert(sizeof(struct fpl_snapshot_device) == 96 + 11 * 8, "no padding");
_Static_assert(sizeof(struct fpl_snapshot_environment) == 24 * 120 + 8, "no padding");
_Static_assert(sizeof(struct fpl_snapshot_kernel) == 224 + 3 * 40 + 5 * 8 + 4 * 4 + 16,
               "no padding");
_Static_assert(FPL_N_FIELDS == 13 && sizeof(struct fpl_snapshot_plan) == 192, "no padding");
_Static_assert(sizeof(struct fpl_schedule) == FPL_N_FIELDS * sizeof(int32_t), "fields in a row");
_Static_assert(sizeof(struct fpl_snapshot_slot) == 8, "no padding");
_Static_assert(sizeof(struct fpl_snapshot_regret) == 48, "no padding");

/* Where the search for a problem's plans begins: its numbers as digits of base 2^64 / golden ratio,
 * then splitmix64's finaliser. Source: Steele, Lea, Flood, Fast splittable pseudorandom number
 * generators, 2014. */
static inline uint64_t fpl_snapshot_hash(const struct fpl_problem *p, int64_t device) {
  const int64_t numbers[] = {p->m,      p->n,       p->k,         p->l,       p->kind,
                             p->dtype,  p->act,     device,       p->conv.ic, p->conv.h,
                             p->conv.w, p->conv.k1, p->conv.batch};
  uint64_t hash = 0;
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    hash = hash * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)numbers[i];
  hash = (hash ^ (hash >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  hash = (hash ^ (hash >> 27)) * UINT64_C(0x94d049bb133111eb);
  return hash ^ (hash >> 31);
}

#endif
