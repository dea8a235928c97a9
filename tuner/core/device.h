/* Device: what a GPU is. Plain data, built from the text of a profile (profiles/devices), where
 * each number stands with its source. `est` numbers feed the time model; limits feed legality. */
#ifndef FPL_CORE_DEVICE_H
#define FPL_CORE_DEVICE_H

#include "tuner/base/hash.h"
#include "tuner/base/status.h"
#include "tuner/base/yamlread.h"

#include <stdint.h>

/* Cluster sizes 1, 2, 4, 8, 16: index log2. */
enum { FPL_CLUSTER_SIZES = 5 };

struct fpl_device {
  char name[32];  /* "h200": the profile's name */
  char title[64]; /* "NVIDIA H200" */
  /* Identity: the device class is (capability, sms, l2_bytes, hbm_bytes rounded, clock), never the
   * marketing name. */
  int64_t capability_major, capability_minor;
  int64_t sms;
  int64_t l2_bytes;
  int64_t hbm_bytes;
  double sm_clock_mhz; /* under load */
  /* Limits */
  int64_t smem_bytes_per_block; /* opt-in dynamic limit */
  int64_t smem_bytes_per_sm;
  int64_t registers_per_sm;
  int64_t threads_per_sm;
  int64_t max_cluster; /* blocks, non-portable size included */
  /* SMs that hold a block when clusters of 1, 2, 4, 8, 16 fill the chip, one block per SM */
  int64_t active_sms[FPL_CLUSTER_SIZES];
  /* Rates, whole chip, bytes per microsecond */
  double hbm_bytes_per_us;
  double l2_disjoint_bytes_per_us; /* each SM reads its own resident data */
  double l2_shared_bytes_per_us;   /* all SMs read the same data */
  double l2_reduce_bytes_per_us;   /* bulk reduce-add f32 into L2 */
  double smem_bytes_per_us;
  double register_bytes_per_us;
  double dsm_bytes_per_us[FPL_CLUSTER_SIZES]; /* push; index 0 unused (0) */
  double sm_ingress_bytes_per_us;             /* most one SM takes from L2 alone */
  double tensor_flops_per_us;                 /* dense f16/bf16, library's large product */
  /* Latencies, microseconds */
  double launch_us;         /* kernel in a graph, empty */
  double cluster_launch_us; /* the same with clusters */
  double fill_us;           /* first byte from HBM to the first product */
  double tail_us;           /* last product to the end of the kernel */
  double grid_barrier_us;
  double cluster_barrier_us[FPL_CLUSTER_SIZES];
  double dsm_latency_us;
  double copy_issue_us; /* one producer: wait, expect, one copy */
};

/* From a parsed profile; refuses unknown keys, missing sources, values out of range. */
enum fpl_status fpl_device_from_yaml(const struct fpl_yaml *root, struct fpl_device *out,
                                     struct fpl_err *err);

/* Device class text: "sm_90 sms=132 l2=60MiB hbm=141GB clock=1980MHz": equal on equal cards. */
enum { FPL_DEVICE_CLASS_TEXT = 128 };
void fpl_device_class_text(const struct fpl_device *d, char out[FPL_DEVICE_CLASS_TEXT]);
void fpl_device_class_key(const struct fpl_device *d, char out[FPL_KEY_HEX]);

/* 0 for 1 block, 1 for 2, ... ; blocks must be a power of two up to 16. */
static inline int fpl_cluster_index(int64_t blocks) {
  return __builtin_ctzll((unsigned long long)blocks);
}

#endif
