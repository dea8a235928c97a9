/* Where things are: the only reader of the environment.
 *
 *   FUSEPLAN_DB        plan database (default: $XDG_DATA_HOME/fuseplan/plans.db)
 *   FUSEPLAN_SYSTEM_DB plans that come with the program, "" for none (default: plans.db beside the
 *                      program, or share/fuseplan/plans.db of its prefix)
 *   FUSEPLAN_PROFILES  profiles (default: beside the program, ../profiles)
 *   FUSEPLAN_CACHE     compiled kernels (default: $XDG_CACHE_HOME/fuseplan)
 */
#ifndef FPL_CLI_PATHS_H
#define FPL_CLI_PATHS_H

#include "tuner/base/arena.h"
#include "tuner/core/device.h"

struct fpl_paths {
  const char *self;            /* this program */
  const char *database;        /* "" when there is no home to put it in */
  const char *system_database; /* "" when there is none */
  const char *profiles;
  const char *cache;
};

/* Texts live in the arena. Errors: FPL_IO, FPL_NO_MEMORY. */
enum fpl_status fpl_paths_find(struct fpl_arena *arena, struct fpl_paths *out, struct fpl_err *err);

/* Reads a device profile: a name ("h200") under the profiles, or the path of a .yaml file. A name
 * that is not there: FPL_USAGE with the names that are. */
enum fpl_status fpl_paths_device(struct fpl_arena *arena, const struct fpl_paths *paths,
                                 const char *name, struct fpl_device *out, struct fpl_err *err);

/* Calls `visit` with each device profile that reads well, by name, until it answers false. */
enum fpl_status fpl_paths_each_device(struct fpl_arena *arena, const struct fpl_paths *paths,
                                      bool (*visit)(void *context, const struct fpl_device *d),
                                      void *context, struct fpl_err *err);

/* Makes the folder a file will stand in. */
enum fpl_status fpl_paths_make_parent(struct fpl_arena *arena, const char *file,
                                      struct fpl_err *err);

#endif
