/* fuseplan worker, fuseplan compile-kernel (hidden): the processes that tune starts. */
#include "codegen/build.h"
#include "tuner/cli/cli.h"
#include "tuner/measure/worker.h"

#include <stdio.h>
#include <unistd.h>

static int finish(enum fpl_status status, const struct fpl_err *err) {
  if (status != FPL_OK)
    fprintf(stderr, "fuseplan: %s\n", err->text);
  return fpl_cli_exit(status);
}

int fpl_cmd_worker(int argc, char **argv) {
  (void)argc;
  (void)argv;
  struct fpl_err err = {0};
  return finish(fpl_worker_run(STDIN_FILENO, STDOUT_FILENO, &err), &err);
}

int fpl_cmd_compile_kernel(int argc, char **argv) {
  struct fpl_err err = {0};
  if (argc < 1)
    return FPL_EXIT_USAGE;
  return finish(fpl_compile_worker(argv[0], argc > 1 ? argv[1] : NULL, &err), &err);
}
