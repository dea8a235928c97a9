/* Regression driver: runs a fuzz target, as a plain program, over every file of the directories
 * named on the command line. A crash or an abort is the failure; no input at all is one too. */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

/* An exact heap block, so that the address sanitizer sees a read past the end. */
static int run_file(const char *path, size_t length) {
  FILE *const file = fopen(path, "rb");
  uint8_t *const bytes = malloc(length ? length : 1);
  const int is_read = file && bytes && fread(bytes, 1, length, file) == length;
  if (is_read)
    LLVMFuzzerTestOneInput(bytes, length);
  else
    fprintf(stderr, "%s: cannot be read\n", path);
  free(bytes);
  if (file)
    fclose(file);
  return is_read;
}

/* Number of inputs run, or -1. */
static int run_directory(const char *directory) {
  struct dirent **entries = NULL;
  const int n_entries = scandir(directory, &entries, NULL, alphasort);
  if (n_entries < 0) {
    perror(directory);
    return -1;
  }
  int n_run = 0;
  for (int i = 0; i < n_entries; i++) {
    char path[4096];
    struct stat facts;
    const int length = snprintf(path, sizeof path, "%s/%s", directory, entries[i]->d_name);
    if (n_run >= 0 && length > 0 && (size_t)length < sizeof path && stat(path, &facts) == 0 &&
        S_ISREG(facts.st_mode))
      n_run = run_file(path, (size_t)facts.st_size) ? n_run + 1 : -1;
    free(entries[i]);
  }
  free(entries);
  return n_run;
}

int main(int argc, char **argv) {
  int n_all = 0;
  for (int i = 1; i < argc; i++) {
    const int n_run = run_directory(argv[i]);
    if (n_run < 0)
      return 1;
    n_all += n_run;
  }
  printf("%d inputs\n", n_all);
  return n_all > 0 ? 0 : 1;
}
