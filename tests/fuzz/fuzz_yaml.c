/* Fuzz target: any bytes, read as YAML, then as a device profile and as a workload. A refusal must
 * be one line that begins with the file's name. */
#include "tuner/core/device.h"
#include "tuner/core/workload.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static void check_message(enum fpl_status status, const struct fpl_err *err) {
  if (status == FPL_OK)
    return;
  if (status != FPL_PARSE || err->code != FPL_PARSE || strncmp(err->text, "fuzz:", 5) != 0 ||
      strchr(err->text, '\n'))
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  struct fpl_arena arena = {0};
  struct fpl_err err = {0};
  struct fpl_yaml *root = NULL;
  const enum fpl_status status =
      fpl_yaml_parse(&arena, "fuzz", (const char *)bytes, length, &root, &err);
  check_message(status, &err);
  if (status == FPL_OK) {
    struct fpl_device device;
    struct fpl_workload *list = NULL;
    size_t n_list = 0;
    double budget_us = 0;
    check_message(fpl_device_from_yaml(root, &device, &err), &err);
    check_message(fpl_workloads_from_yaml(&arena, root, &list, &n_list, &budget_us, &err), &err);
  }
  fpl_arena_free(&arena);
  return 0;
}
