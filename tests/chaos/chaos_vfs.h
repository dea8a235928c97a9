/* A file system under SQLite that counts what a writer does to files and, at the n-th step, kills
 * the process or is full from then on. A step is a write, a truncation, a sync or a removal; a
 * write that is killed is done by half. Without `has_shm` SQLite uses the rollback journal, as on a
 * network file system. For child processes: once in place it stays. */
#ifndef FPL_TESTS_CHAOS_CHAOS_VFS_H
#define FPL_TESTS_CHAOS_CHAOS_VFS_H

#include <sqlite3.h>

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

enum chaos_action { CHAOS_COUNT, CHAOS_KILL, CHAOS_FULL };

static struct {
  sqlite3_vfs vfs; /* the default one, but for what stands below */
  sqlite3_vfs *real;
  sqlite3_io_methods methods;
  enum chaos_action action;
  int64_t at;   /* the step at which it happens, from 1 */
  int64_t step; /* steps so far */
} chaos;

struct chaos_file {
  sqlite3_file base;
  sqlite3_file *real; /* lies behind this struct */
};

static inline sqlite3_file *chaos_real(sqlite3_file *f) {
  return ((struct chaos_file *)f)->real;
}

static inline void chaos_die(void) {
  kill(getpid(), SIGKILL);
  pause();
}

/* Counts a step; true when it is to be refused. */
static inline bool chaos_step(void) {
  chaos.step++;
  if (chaos.action == CHAOS_KILL && chaos.step == chaos.at)
    chaos_die();
  return chaos.action == CHAOS_FULL && chaos.step >= chaos.at;
}

static inline int chaos_write(sqlite3_file *f, const void *bytes, int n, sqlite3_int64 offset) {
  sqlite3_file *const real = chaos_real(f);
  if (chaos.action == CHAOS_KILL && chaos.step + 1 == chaos.at)
    real->pMethods->xWrite(real, bytes, n / 2, offset);
  return chaos_step() ? SQLITE_FULL : real->pMethods->xWrite(real, bytes, n, offset);
}

static inline int chaos_truncate(sqlite3_file *f, sqlite3_int64 size) {
  sqlite3_file *const real = chaos_real(f);
  chaos_step(); /* a full disk can always truncate */
  return real->pMethods->xTruncate(real, size);
}

static inline int chaos_sync(sqlite3_file *f, int flags) {
  sqlite3_file *const real = chaos_real(f);
  chaos_step();
  return real->pMethods->xSync(real, flags);
}

static inline int chaos_delete(sqlite3_vfs *vfs, const char *name, int sync) {
  (void)vfs;
  chaos_step();
  return chaos.real->xDelete(chaos.real, name, sync);
}

static inline int chaos_close(sqlite3_file *f) {
  return chaos_real(f)->pMethods->xClose(chaos_real(f));
}
static inline int chaos_read(sqlite3_file *f, void *bytes, int n, sqlite3_int64 offset) {
  return chaos_real(f)->pMethods->xRead(chaos_real(f), bytes, n, offset);
}
static inline int chaos_file_size(sqlite3_file *f, sqlite3_int64 *size) {
  return chaos_real(f)->pMethods->xFileSize(chaos_real(f), size);
}
static inline int chaos_lock(sqlite3_file *f, int level) {
  return chaos_real(f)->pMethods->xLock(chaos_real(f), level);
}
static inline int chaos_unlock(sqlite3_file *f, int level) {
  return chaos_real(f)->pMethods->xUnlock(chaos_real(f), level);
}
static inline int chaos_check_lock(sqlite3_file *f, int *out) {
  return chaos_real(f)->pMethods->xCheckReservedLock(chaos_real(f), out);
}
static inline int chaos_control(sqlite3_file *f, int op, void *argument) {
  return chaos_real(f)->pMethods->xFileControl(chaos_real(f), op, argument);
}
static inline int chaos_sector(sqlite3_file *f) {
  return chaos_real(f)->pMethods->xSectorSize(chaos_real(f));
}
static inline int chaos_features(sqlite3_file *f) {
  return chaos_real(f)->pMethods->xDeviceCharacteristics(chaos_real(f));
}
static inline int chaos_shm_map(sqlite3_file *f, int page, int size, int extend,
                                void volatile **out) {
  return chaos_real(f)->pMethods->xShmMap(chaos_real(f), page, size, extend, out);
}
static inline int chaos_shm_lock(sqlite3_file *f, int offset, int n, int flags) {
  return chaos_real(f)->pMethods->xShmLock(chaos_real(f), offset, n, flags);
}
static inline void chaos_shm_barrier(sqlite3_file *f) {
  chaos_real(f)->pMethods->xShmBarrier(chaos_real(f));
}
static inline int chaos_shm_unmap(sqlite3_file *f, int is_delete) {
  return chaos_real(f)->pMethods->xShmUnmap(chaos_real(f), is_delete);
}

static inline int chaos_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags,
                             int *out_flags) {
  (void)vfs;
  struct chaos_file *const file = (struct chaos_file *)f;
  file->real = (sqlite3_file *)(file + 1);
  file->base.pMethods = NULL;
  const int rc = chaos.real->xOpen(chaos.real, name, file->real, flags, out_flags);
  if (rc == SQLITE_OK)
    file->base.pMethods = &chaos.methods;
  return rc;
}

static inline void chaos_install(enum chaos_action action, int64_t at, bool has_shm) {
  chaos.real = sqlite3_vfs_find(NULL);
  chaos.vfs = *chaos.real;
  chaos.vfs.zName = "chaos";
  chaos.vfs.pNext = NULL;
  chaos.vfs.szOsFile = (int)sizeof(struct chaos_file) + chaos.real->szOsFile;
  chaos.vfs.xOpen = chaos_open;
  chaos.vfs.xDelete = chaos_delete;
  chaos.methods = (sqlite3_io_methods){.iVersion = has_shm ? 2 : 1,
                                       .xClose = chaos_close,
                                       .xRead = chaos_read,
                                       .xWrite = chaos_write,
                                       .xTruncate = chaos_truncate,
                                       .xSync = chaos_sync,
                                       .xFileSize = chaos_file_size,
                                       .xLock = chaos_lock,
                                       .xUnlock = chaos_unlock,
                                       .xCheckReservedLock = chaos_check_lock,
                                       .xFileControl = chaos_control,
                                       .xSectorSize = chaos_sector,
                                       .xDeviceCharacteristics = chaos_features,
                                       .xShmMap = chaos_shm_map,
                                       .xShmLock = chaos_shm_lock,
                                       .xShmBarrier = chaos_shm_barrier,
                                       .xShmUnmap = chaos_shm_unmap};
  chaos.action = action;
  chaos.at = at;
  chaos.step = 0;
  sqlite3_vfs_register(&chaos.vfs, 1);
}

#endif
