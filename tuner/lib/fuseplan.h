/* libfuseplan: look a plan up, load its kernel, launch it on a stream of one's own.
 *
 *   fuseplan_store  databases or snapshots, in layers. Any number of threads may look up in one
 *                   store at the same time.
 *   fuseplan_kernel a plan's kernel, loaded in one CUDA context. Launches need no lock.
 *
 * The library prints nothing, never ends the program, reads no environment variable and keeps no
 * state outside its handles. It opens libcuda when it is asked for a GPU; looking up needs none. A
 * store does not survive fork(): open one in the child.
 * Structures, those that are filled too, begin with their size, which the caller sets (sizeof):
 * later versions only add members, and an older caller's shorter structure is understood. Any other
 * size, also that of a newer header, is FUSEPLAN_USAGE.
 *
 * Every function that can fail answers a status and, where `message` is not NULL, writes one line
 * of what, where and the remedy into it; after FUSEPLAN_OK the line is empty.
 */
#ifndef FUSEPLAN_H
#define FUSEPLAN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

#define FUSEPLAN_VERSION_MAJOR 0
#define FUSEPLAN_VERSION_MINOR 1
#define FUSEPLAN_VERSION_PATCH 0

/* Grouped by tens; a number is never reused. */
enum fuseplan_status {
  FUSEPLAN_OK = 0,
  FUSEPLAN_NO_PLAN = 1,     /* an outcome: nothing stored answers; the message says why */
  FUSEPLAN_USAGE = 10,      /* an argument is out of range */
  FUSEPLAN_PARSE = 20,      /* a file's text is malformed */
  FUSEPLAN_IO = 30,         /* a file could not be read */
  FUSEPLAN_DB = 40,         /* the database answered an error */
  FUSEPLAN_DB_BUSY = 41,    /* locked too long */
  FUSEPLAN_DB_SCHEMA = 42,  /* not a plan database or snapshot, or of a newer fuseplan */
  FUSEPLAN_DB_CORRUPT = 43, /* damaged */
  FUSEPLAN_DEVICE = 60,     /* no usable GPU or context, or the driver failed */
  FUSEPLAN_INTERNAL = 90,   /* a bug */
  FUSEPLAN_NO_MEMORY = 91
};

enum { FUSEPLAN_MESSAGE = 512 };
struct fuseplan_message {
  char text[FUSEPLAN_MESSAGE];
};

enum fuseplan_kind { FUSEPLAN_GEMM_CHAIN, FUSEPLAN_GATED_FFN, FUSEPLAN_CONV_CHAIN };
enum fuseplan_dtype { FUSEPLAN_F16, FUSEPLAN_BF16 };
/* gelu is the tanh form. */
enum fuseplan_act { FUSEPLAN_ACT_NONE, FUSEPLAN_ACT_RELU, FUSEPLAN_ACT_GELU, FUSEPLAN_ACT_SILU };

/*   gemm_chain  C[m,n] = act(A[m,k] B[n,k]^T)                    E[m,l] = C D[l,n]^T
 *   gated_ffn   C[m,n] = act(A Bgate[n,k]^T) * (A Bup[n,k]^T)    E[m,l] = C D[l,n]^T
 *   conv_chain  m = batch h w, n = oc1, k = ic k1 k1, l = oc2; pass m = k = 0
 * All row-major and contiguous; B of a gated_ffn is Bgate, then Bup. */
struct fuseplan_problem {
  size_t size;
  int32_t kind, dtype, act;
  int64_t m, n, k, l;
  int64_t batch, ic, h, w, k1; /* conv_chain alone; else 0 */
};

/* A device class: what decides which plans are for this GPU. Never its name. */
struct fuseplan_device {
  size_t size;
  int32_t capability_major, capability_minor;
  int64_t sms, l2_bytes, hbm_bytes;
  double sm_clock_mhz; /* the profile's */
  int64_t driver;      /* 13000 for CUDA 13.0; 0: not known, environments are not compared */
};

/* How the answer came about, best first. */
enum fuseplan_tier {
  FUSEPLAN_TIER_EXACT,    /* stored for this problem */
  FUSEPLAN_TIER_ENVELOPE, /* stored for another m; its envelope holds this one */
  FUSEPLAN_TIER_NEAREST,  /* stored for the nearest shape */
  FUSEPLAN_TIER_MODEL,    /* the cost model's pick: not stored */
  FUSEPLAN_TIER_LIBRARY   /* the library's pair of products */
};
enum fuseplan_provenance { FUSEPLAN_MEASURED, FUSEPLAN_PREDICTED, FUSEPLAN_SIMULATED };
/* How well the machine that asks matches the one that measured. */
enum fuseplan_match {
  FUSEPLAN_MATCH_SAME,
  FUSEPLAN_MATCH_TOOLKIT, /* built by another toolkit; its machine code stands */
  FUSEPLAN_MATCH_DRIVER,  /* another driver: stale until measured again */
  FUSEPLAN_MATCH_DEVICE,  /* another device class of the same capability */
  FUSEPLAN_MATCH_UNKNOWN  /* nothing to compare with */
};

struct fuseplan_options {
  size_t size;
  int32_t is_deterministic; /* plans that give the same bits every time, alone */
  int32_t needs_kernel;     /* plans whose kernel can be launched for this problem, alone */
  int32_t last_tier;        /* fuseplan_tier: no answer beyond it. FUSEPLAN_TIER_EXACT for hits */
};

struct fuseplan_answer {
  size_t size;
  int32_t tier, provenance, match;
  int32_t is_library; /* the library pair is the plan: nothing to load */
  int32_t has_kernel; /* fuseplan_kernel_load will find machine code for this problem */
  int32_t is_deterministic;
  int32_t layer;         /* index of the path that answered */
  int64_t plan;          /* number of the plan in that layer */
  int64_t m_low, m_high; /* rows for which the plan is the best one known */
  double estimated_us, measured_us, measured_hot_us; /* of the stored problem; 0: not measured */
  double library_us, library_hot_us;
  double regret, regret_low,
      regret_high; /* expected time over the best time, less 1: 0.05 is 5 % */
  int64_t created_unix, candidates, verified; /* evidence */
  char problem[256];                          /* the problem it is stored for */
  char schedule[256];                         /* empty for the library */
  char kernel[64];
  char reason[256]; /* one sentence: why this answer */
};

typedef struct fuseplan_store fuseplan_store;
typedef struct fuseplan_kernel fuseplan_kernel;

const char *fuseplan_version(void); /* "0.1.0" */

/* Opens `n_paths` databases or snapshots, the first one above the others: FUSEPLAN_IO when one is
 * missing. Nothing is written. Lookups answer from what was stored when the store was opened. */
int fuseplan_open(const char *const *paths, int n_paths, fuseplan_store **out,
                  struct fuseplan_message *message);
/* Kernels of the store must have been released. NULL allowed. */
void fuseplan_close(fuseplan_store *store);

/* The device class stored under a profile's name ("h200"); FUSEPLAN_NO_PLAN when there is none. */
int fuseplan_device_named(fuseplan_store *store, const char *name, struct fuseplan_device *out,
                          struct fuseplan_message *message);
/* The stored device class of the GPU of the calling thread's CUDA context, with its driver. */
int fuseplan_device_current(fuseplan_store *store, struct fuseplan_device *out,
                            struct fuseplan_message *message);

/* `options` NULL: every tier that is stored. Allocates nothing. */
int fuseplan_lookup(fuseplan_store *store, const struct fuseplan_problem *problem,
                    const struct fuseplan_device *device, const struct fuseplan_options *options,
                    struct fuseplan_answer *out, struct fuseplan_message *message);

/* The kernel of an answer of this store, in the calling thread's CUDA context. A second load in the
 * same context shares the first one's module. FUSEPLAN_USAGE: the answer has no kernel, or is not
 * for this problem. FUSEPLAN_NO_PLAN: the plan was deleted since: look up again. Not while a stream
 * is capturing. */
int fuseplan_kernel_load(fuseplan_store *store, const struct fuseplan_problem *problem,
                         const struct fuseplan_answer *answer, fuseplan_kernel **out,
                         struct fuseplan_message *message);
/* Its launches must have ended, and its context must live. NULL allowed. */
void fuseplan_kernel_release(fuseplan_kernel *kernel);

/* Bytes of device memory a launch over m rows needs besides its matrices; 0: none; -1: m is out of
 * range (of a conv_chain, m is whole images: a multiple of h w). All zero before the first launch; every launch leaves it ready for the next. Launches that share a workspace must
 * run one after the other. */
int64_t fuseplan_kernel_workspace_bytes(const fuseplan_kernel *kernel, int64_t m);

/* Device addresses, 16-byte aligned; shapes as in fuseplan_problem, with m rows. */
struct fuseplan_matrices {
  size_t size;
  uint64_t a, b, d, e;
  uint64_t workspace; /* 256-byte aligned; 0 where none is needed */
};
/* Enqueues one launch on `stream` (a CUstream or cudaStream_t, NULL: the default one) of the kernel's
 * context, which may be capturing and need not be the thread's. Returns before it has run. */
int fuseplan_kernel_launch(fuseplan_kernel *kernel, int64_t m,
                           const struct fuseplan_matrices *matrices, void *stream,
                           struct fuseplan_message *message);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
