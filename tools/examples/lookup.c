/* Looks a gemm_chain up (f16, relu) and prints what is stored. Needs no GPU.
 *
 *   cc lookup.c $(pkg-config --cflags --libs fuseplan) -o lookup
 *   ./lookup plans.db h200 128 512 32 256 */
#include <fuseplan.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  if (argc != 7) {
    fprintf(stderr, "usage: lookup DATABASE DEVICE M N K L\n");
    return 2;
  }
  struct fuseplan_message message;
  fuseplan_store *store = NULL;
  const char *const paths[] = {argv[1]};
  struct fuseplan_device device = {.size = sizeof device};
  struct fuseplan_answer answer = {.size = sizeof answer};
  const struct fuseplan_problem problem = {.size = sizeof problem,
                                           .kind = FUSEPLAN_GEMM_CHAIN,
                                           .dtype = FUSEPLAN_F16,
                                           .act = FUSEPLAN_ACT_RELU,
                                           .m = strtoll(argv[3], NULL, 10),
                                           .n = strtoll(argv[4], NULL, 10),
                                           .k = strtoll(argv[5], NULL, 10),
                                           .l = strtoll(argv[6], NULL, 10)};
  int status = fuseplan_open(paths, 1, &store, &message);
  if (status == FUSEPLAN_OK)
    status = fuseplan_device_named(store, argv[2], &device, &message);
  if (status == FUSEPLAN_OK)
    status = fuseplan_lookup(store, &problem, &device, NULL, &answer, &message);
  if (status == FUSEPLAN_OK)
    printf("%s\n  %s\n  %s\n  %.2f us expected, %.2f us measured, library %.2f us\n",
           answer.problem, answer.is_library ? "the library's pair of products" : answer.schedule,
           answer.reason, answer.estimated_us, answer.measured_us, answer.library_us);
  else
    fprintf(stderr, "lookup: %s\n", message.text);
  fuseplan_close(store);
  return status == FUSEPLAN_OK ? 0 : status == FUSEPLAN_NO_PLAN ? 1 : 2;
}
