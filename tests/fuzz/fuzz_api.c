/* The C library: a file of any bytes is opened or refused with one line; structures of any content
 * are answered or refused, and a refusal has its line. Input: one byte of flags, the structures
 * bytes, then the file's. */
#define _POSIX_C_SOURCE 200809L
#include "db/db.h"
#include "tuner/lib/fuseplan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool is_so) {
  if (!is_so)
    abort();
}

static void require_line(int status, const struct fuseplan_message *message) {
  const size_t length = strnlen(message->text, sizeof message->text);
  require(length < sizeof message->text && !strchr(message->text, '\n'));
  require((status == FUSEPLAN_OK) == (length == 0));
}

/* The next bytes of the input, zeros where it has ended. Sizes stay honest half of the time: they
 * are the caller's word on its own memory. */
struct input {
  const uint8_t *data;
  size_t size;
};
static void take(struct input *in, void *out, size_t n) {
  memset(out, 0, n);
  const size_t n_taken = n < in->size ? n : in->size;
  if (n_taken > 0)
    memcpy(out, in->data, n_taken);
  in->data += n_taken;
  in->size -= n_taken;
}
static void take_struct(struct input *in, void *out, size_t n, bool is_honest) {
  take(in, out, n);
  if (is_honest)
    memcpy(out, &n, sizeof n);
}

static void try_structs(fuseplan_store *store, struct input *in) {
  struct fuseplan_problem problem;
  struct fuseplan_device device;
  struct fuseplan_options options;
  struct fuseplan_answer answer;
  struct fuseplan_message message;
  fuseplan_kernel *kernel = NULL;
  uint8_t honest = 0;
  take(in, &honest, 1);
  take_struct(in, &problem, sizeof problem, honest & 1);
  take_struct(in, &device, sizeof device, honest & 2);
  take_struct(in, &options, sizeof options, honest & 4);
  take_struct(in, &answer, sizeof answer, honest & 8);
  require_line(fuseplan_kernel_load(store, &problem, &answer, &kernel, &message), &message);
  require(kernel == NULL); /* there is no GPU, and no plan */
  require_line(fuseplan_lookup(store, honest & 16 ? NULL : &problem, &device,
                               honest & 32 ? NULL : &options, &answer, &message),
               &message);
  char name[16];
  take(in, name, sizeof name);
  name[sizeof name - 1] = '\0';
  require_line(fuseplan_device_named(store, name, &device, &message), &message);
  struct fuseplan_matrices matrices;
  take_struct(in, &matrices, sizeof matrices, true);
  require_line(fuseplan_kernel_launch(NULL, 1, &matrices, NULL, &message), &message);
}

static void try_file(const char *path, struct input *in) {
  FILE *const file = fopen(path, "wb");
  require(file && fwrite(in->data, 1, in->size, file) == in->size);
  fclose(file);
  fuseplan_store *store = NULL;
  struct fuseplan_message message;
  const int status = fuseplan_open(&path, 1, &store, &message);
  require_line(status, &message);
  require((status == FUSEPLAN_OK) == (store != NULL));
  fuseplan_close(store);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char path[] = "/tmp/fpl-fuzz-api-XXXXXX";
  const int fd = mkstemp(path);
  require(fd >= 0);
  close(fd);
  struct fpl_db *db = NULL;
  fuseplan_store *store = NULL;
  const char *const paths[] = {path};
  require(fpl_db_open(path, FPL_DB_CREATE, &db, NULL) == FPL_OK);
  fpl_db_close(db);
  require(fuseplan_open(paths, 1, &store, NULL) == FUSEPLAN_OK);
  struct input in = {data, size};
  try_structs(store, &in);
  fuseplan_close(store);
  try_file(path, &in);
  unlink(path);
  return 0;
}
