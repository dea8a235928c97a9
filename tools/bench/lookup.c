/* Lookup benchmark: a generated database of 100,000 plans, looked up in process through the library
 * (over the database and over its snapshot), by the statement that the command line uses, and by a
 * new process. Prints one JSON line; times are of single lookups of random stored problems.
 * usage: bench_lookup FUSEPLAN FOLDER      the program, and a folder for the files
 *
 *   sqlite_*      fuseplan_lookup in a store opened over the database file
 *   snapshot_*    the same over its snapshot
 *   statement_*   fpl_db_find, SQLite at work
 *   process_ms    median of `fuseplan lookup --db` from start to end
 *   open_*_ms     fuseplan_open
 */
#define _GNU_SOURCE
#include "db/handle.h"
#include "db/snapshot.h"
#include "tuner/base/sys.h"
#include "tuner/lib/fuseplan.h"

#include <dlfcn.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

enum { N_PLANS = 100000, N_LOOKUPS = 200000, N_PROCESSES = 41 };

static long long n_allocations;

/* Every allocation of the process, counted. */
void *malloc(size_t size) {
  static void *(*real)(size_t);
  if (!real)
    *(void **)&real = dlsym(RTLD_NEXT, "malloc");
  n_allocations++;
  return real(size);
}

void *realloc(void *old, size_t size) {
  static void *(*real)(void *, size_t);
  if (!real)
    *(void **)&real = dlsym(RTLD_NEXT, "realloc");
  n_allocations++;
  return real(old, size);
}

static void must(enum fpl_status status, const struct fpl_err *err) {
  if (status == FPL_OK)
    return;
  fprintf(stderr, "bench_lookup: %s\n", err->text);
  exit(1);
}

static void must_answer(int status, const struct fuseplan_message *message) {
  if (status == FUSEPLAN_OK)
    return;
  fprintf(stderr, "bench_lookup: %s\n", message->text);
  exit(1);
}

static uint64_t random_state = 1;
static int draw(int n) {
  random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (int)((random_state >> 33) % (uint64_t)n);
}

/* Problem number i of N_PLANS: 50 n, 40 k, 50 m. */
static struct fpl_problem problem_at(int i) {
  struct fpl_problem p;
  struct fpl_err err = {0};
  const int64_t n = 1024 + 256 * (i % 50), k = 512 + 128 * (i / 50 % 40), m = 1 + 7 * (i / 2000);
  must(fpl_problem_make(FPL_KIND_GATED_FFN, FPL_DTYPE_BF16, FPL_ACT_SILU, m, n, k, k, NULL, &p,
                        &err),
       &err);
  return p;
}

static const struct fpl_device device = {.name = "h200",
                                         .title = "NVIDIA H200",
                                         .capability_major = 9,
                                         .sms = 132,
                                         .l2_bytes = 62914560,
                                         .hbm_bytes = INT64_C(141000000000),
                                         .sm_clock_mhz = 1980,
                                         .smem_bytes_per_block = 232448,
                                         .smem_bytes_per_sm = 233472,
                                         .registers_per_sm = 65536,
                                         .threads_per_sm = 2048,
                                         .max_cluster = 16};

static void store_plan(struct fpl_db *db, int64_t run, int i) {
  static char cubin[1024];
  const struct fpl_problem p = problem_at(i);
  struct fpl_err err = {0};
  struct fpl_result results[2] = {{.is_library = true, .outcome = FPL_OUTCOME_OK},
                                  {.outcome = FPL_OUTCOME_OK, .est_us = 10}};
  must(fpl_schedule_parse("loops=mn|lk cls_m=1 cls_n=2 cls_k=1 cls_l=2 blk_m=64 blk_n=128 blk_k=64 "
                          "blk_l=128 exchange=dsm reduce=l2 gate=sequential stages=2",
                          &results[1].schedule, &err),
       &err);
  snprintf(cubin, sizeof cubin, "%d", i % 512);
  struct fpl_kernel *const k = &results[1].kernel;
  *k = (struct fpl_kernel){.name = "chain_sm90_0",
                           .family = "chain_sm90",
                           .cluster = 2,
                           .block_threads = 384,
                           .smem_bytes = 200000,
                           .rows_per_unit = 64,
                           .units_per_row = 8,
                           .max_clusters = 66,
                           .cubin = cubin,
                           .cubin_bytes = sizeof cubin};
  for (int map = 0; map < FPL_KERNEL_MAPS; map++)
    k->maps[map] = (struct fpl_map_recipe){-1, p.k, 64, 64, 1, 1, 0};
  memset(k->source_key, 'a', FPL_HASH_HEX - 1);
  fpl_hash_bytes_hex(cubin, sizeof cubin, k->sha);
  struct fpl_environment e = {.n_fields = 0};
  fpl_environment_set(&e, "driver", "580.65.06 (CUDA 13.0)");
  fpl_environment_set(&e, "nvrtc", "13.0");
  struct fpl_plan plan = {.problem = p,
                          .schedule = results[1].schedule,
                          .provenance = FPL_PROVENANCE_MEASURED,
                          .measured_us = 10,
                          .library_us = 12,
                          .n_candidates = 2,
                          .n_ok = 2,
                          .created_unix = 1000};
  snprintf(plan.reason, sizeof plan.reason, "kernel at 10 us cold; the library takes 12 us");
  must(fpl_db_store_problem(db, run, &p, &device, results, 2, &e, &plan, &err), &err);
}

static void make_files(const char *db_path, const char *snapshot_path) {
  struct fpl_err err = {0};
  struct fpl_db *db = NULL;
  struct fpl_snapshot_counts counts;
  int64_t run = 0;
  remove(db_path);
  must(fpl_db_open(db_path, FPL_DB_CREATE, &db, &err), &err);
  sqlite3_exec(db->handle, "PRAGMA synchronous = OFF", NULL, NULL, NULL);
  must(fpl_db_begin_run(db, 1, "bench", "", &run, &err), &err);
  for (int i = 0; i < N_PLANS; i++)
    store_plan(db, run, i);
  must(fpl_db_end_run(db, run, FPL_RUN_DONE, &err), &err);
  must(fpl_snapshot_write(db, snapshot_path, &counts, &err), &err);
  fpl_db_close(db);
}

struct figures {
  double p50_us, p99_us, open_ms;
  double allocations; /* a lookup */
};

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static double samples[N_LOOKUPS];

static void summarise(long long allocations, struct figures *out) {
  qsort(samples, N_LOOKUPS, sizeof *samples, ascending);
  out->p50_us = samples[N_LOOKUPS / 2];
  out->p99_us = samples[N_LOOKUPS * 99 / 100];
  out->allocations = (double)allocations / N_LOOKUPS;
}

static struct figures measure_library(const char *path) {
  struct figures out;
  fuseplan_store *store = NULL;
  struct fuseplan_message message;
  double start = now_us();
  must_answer(fuseplan_open(&path, 1, &store, &message), &message);
  out.open_ms = (now_us() - start) / 1e3;
  struct fuseplan_device d = {.size = sizeof d};
  must_answer(fuseplan_device_named(store, "h200", &d, &message), &message);
  const long long before = n_allocations;
  for (int i = 0; i < N_LOOKUPS; i++) {
    const struct fpl_problem p = problem_at(draw(N_PLANS));
    const struct fuseplan_problem q = {.size = sizeof q,
                                       .kind = FUSEPLAN_GATED_FFN,
                                       .dtype = FUSEPLAN_BF16,
                                       .act = FUSEPLAN_ACT_SILU,
                                       .m = p.m,
                                       .n = p.n,
                                       .k = p.k,
                                       .l = p.l};
    struct fuseplan_answer answer = {.size = sizeof answer};
    start = now_us();
    const int status = fuseplan_lookup(store, &q, &d, NULL, &answer, &message);
    samples[i] = now_us() - start;
    must_answer(status, &message);
  }
  summarise(n_allocations - before, &out);
  fuseplan_close(store);
  return out;
}

static struct figures measure_statement(const char *path) {
  struct figures out;
  struct fpl_err err = {0};
  struct fpl_db *db = NULL;
  double start = now_us();
  must(fpl_db_open(path, FPL_DB_READ, &db, &err), &err);
  out.open_ms = (now_us() - start) / 1e3;
  const long long before = n_allocations;
  for (int i = 0; i < N_LOOKUPS; i++) {
    const struct fpl_problem p = problem_at(draw(N_PLANS));
    const struct fpl_wanted wanted = {.problem = &p, .device = &device};
    struct fpl_plan plan;
    bool is_found = false;
    start = now_us();
    must(fpl_db_find(db, &wanted, false, &plan, &is_found, &err), &err);
    samples[i] = now_us() - start;
    if (!is_found)
      must(fpl_fail(&err, FPL_INTERNAL, "a stored problem is not found"), &err);
    fpl_plan_free(&plan);
  }
  summarise(n_allocations - before, &out);
  fpl_db_close(db);
  return out;
}

static double process_ms(char *fuseplan, char *db_path) {
  double times[N_PROCESSES];
  for (int i = 0; i < N_PROCESSES; i++) {
    const struct fpl_problem p = problem_at(draw(N_PLANS));
    char m[24], n[24], k[24];
    snprintf(m, sizeof m, "%lld", (long long)p.m);
    snprintf(n, sizeof n, "%lld", (long long)p.n);
    snprintf(k, sizeof k, "%lld", (long long)p.k);
    char *argv[] = {fuseplan,   "lookup", "--kind", "gated_ffn", "--m",    m,          "--n",
                    n,          "--k",    k,        "--dtype",   "bf16",   "--act",    "silu",
                    "--device", "h200",   "--db",   db_path,     "--json", "--no-log", NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", 1, 0);
    pid_t pid;
    int status = 1;
    const double start = now_us();
    if (posix_spawn(&pid, fuseplan, &actions, NULL, argv, environ) == 0)
      waitpid(pid, &status, 0);
    times[i] = (now_us() - start) / 1e3;
    posix_spawn_file_actions_destroy(&actions);
    if (status != 0) {
      fprintf(stderr, "bench_lookup: %s lookup ended with status %d\n", fuseplan, status);
      exit(1);
    }
  }
  qsort(times, N_PROCESSES, sizeof *times, ascending);
  return times[N_PROCESSES / 2];
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: bench_lookup FUSEPLAN FOLDER\n");
    return 2;
  }
  char db_path[512], snapshot_path[512];
  snprintf(db_path, sizeof db_path, "%s/lookup.db", argv[2]);
  snprintf(snapshot_path, sizeof snapshot_path, "%s/lookup.snapshot", argv[2]);
  make_files(db_path, snapshot_path);
  const struct figures sqlite = measure_library(db_path);
  const struct figures snapshot = measure_library(snapshot_path);
  const struct figures statement = measure_statement(db_path);
  printf("{\"plans\":%d,\"sqlite_p50_us\":%.3f,\"sqlite_p99_us\":%.3f,\"snapshot_p50_us\":%.3f,"
         "\"snapshot_p99_us\":%.3f,\"allocations_per_lookup\":%g,\"process_ms\":%.2f,"
         "\"statement_p50_us\":%.3f,\"statement_p99_us\":%.3f,\"allocations_per_statement\":%g,"
         "\"open_sqlite_ms\":%.1f,\"open_snapshot_ms\":%.1f}\n",
         N_PLANS, sqlite.p50_us, sqlite.p99_us, snapshot.p50_us, snapshot.p99_us,
         sqlite.allocations + snapshot.allocations, process_ms(argv[1], db_path), statement.p50_us,
         statement.p99_us, statement.allocations, sqlite.open_ms, snapshot.open_ms);
  return 0;
}
