/* The program: finds the verb and runs its command. */
#include "tuner/cli/cli.h"

#include <stdio.h>
#include <string.h>

static const struct {
  const char *verb;
  int (*run)(int argc, char **argv);
  const char *summary; /* NULL: hidden */
} commands[] = {
    {"tune", fpl_cmd_tune, "tune the problems of a workload into a plan database"},
    {"lookup", fpl_cmd_lookup, "the plan for a shape"},
    {"explain", fpl_cmd_explain, "why a lookup answers what it answers"},
    {"list-misses", fpl_cmd_list_misses, "what lookups found no plan for, as a workload"},
    {"show", fpl_cmd_show, "what a database holds"},
    {"history", fpl_cmd_history, "every plan ever stored for a problem"},
    {"space", fpl_cmd_space, "count and rank the plan space of a problem"},
    {"export", fpl_cmd_export, "write a database as text"},
    {"import", fpl_cmd_import, "read such text into a database"},
    {"merge", fpl_cmd_merge, "join databases into one"},
    {"diff", fpl_cmd_diff, "compare the answers of two databases"},
    {"snapshot", fpl_cmd_snapshot, "a database's answers as one immutable file"},
    {"check", fpl_cmd_check, "find, and repair, what is wrong in a database"},
    {"gc", fpl_cmd_gc, "remove what no answer needs from a database"},
    {"doctor", fpl_cmd_doctor, "what this machine has, and what to do about the rest"},
    {"worker", fpl_cmd_worker, NULL},
    {"compile-kernel", fpl_cmd_compile_kernel, NULL},
    {"probe", fpl_cmd_probe, NULL},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void print_usage(FILE *out) {
  fprintf(out,
          "usage: fuseplan <command> [options]\n\n"
          "Offline schedule autotuner and plan database for fused GPU kernels.\n\ncommands:\n");
  for (int i = 0; i < N_COMMANDS; i++)
    if (commands[i].summary)
      fprintf(out, "  %-8s %s\n", commands[i].verb, commands[i].summary);
  fprintf(out, "\n'fuseplan <command> --help' tells more.\n"
               "exit codes: 0 done, 1 negative answer, 2 usage, 3 input file, 4 database,\n"
               "  5 toolchain or device, 70 internal, 75 budget spent, 130 and 143 interrupted\n");
}

int main(int argc, char **argv) {
  if (argc < 2) {
    print_usage(stderr);
    return FPL_EXIT_USAGE;
  }
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
    print_usage(stdout);
    return FPL_EXIT_OK;
  }
  if (strcmp(argv[1], "--version") == 0) {
    printf("fuseplan %s\n", FPL_VERSION);
    return FPL_EXIT_OK;
  }
  for (int i = 0; i < N_COMMANDS; i++)
    if (strcmp(argv[1], commands[i].verb) == 0)
      return commands[i].run(argc - 2, argv + 2);
  fprintf(stderr, "fuseplan: unknown command '%s'\nsee 'fuseplan --help'\n", argv[1]);
  return FPL_EXIT_USAGE;
}
