#include "tuner/cli/opts.h"

#include "tuner/base/str.h"

#include <stdio.h>
#include <string.h>

static const struct fpl_option *find_option(const struct fpl_option *options, int n_options,
                                            const char *name, size_t length) {
  for (int i = 0; i < n_options; i++)
    if (strlen(options[i].name) == length && memcmp(options[i].name, name, length) == 0)
      return &options[i];
  return NULL;
}

static enum fpl_status set_name(const struct fpl_option *o, const char *value,
                                struct fpl_err *err) {
  const int index = fpl_name_index(o->names, value);
  if (index < 0) {
    struct fpl_text list = {0};
    for (int i = 0; o->names[i]; i++)
      fpl_text_append(&list, "%s%s", i ? ", " : "", o->names[i]);
    fpl_fail(err, FPL_USAGE, "%s is '%s': one of %s", o->name, value,
             list.text ? list.text : "the listed names");
    fpl_text_free(&list);
    return FPL_USAGE;
  }
  *(int *)o->out = index;
  return FPL_OK;
}

static enum fpl_status set_value(const struct fpl_option *o, const char *value,
                                 struct fpl_err *err) {
  if (o->kind == FPL_OPTION_TEXT)
    *(const char **)o->out = value;
  else if (o->kind == FPL_OPTION_NAME)
    return set_name(o, value, err);
  else if (!fpl_parse_i64(value, o->least, o->most, o->out))
    return fpl_fail(err, FPL_USAGE, "%s is '%s': an integer from %lld to %lld", o->name, value,
                    (long long)o->least, (long long)o->most);
  return FPL_OK;
}

static bool asks_help(int argc, char **argv) {
  for (int i = 0; i < argc; i++)
    if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
      return true;
  return false;
}

/* One option at argv[*at]; its value may be the next argument. */
static enum fpl_status read_option(const struct fpl_option *options, int n_options, int argc,
                                   char **argv, int *at, struct fpl_err *err) {
  const char *const argument = argv[*at];
  const char *const equals = strchr(argument, '=');
  const size_t length = equals ? (size_t)(equals - argument) : strlen(argument);
  const struct fpl_option *const o = find_option(options, n_options, argument, length);
  if (!o)
    return fpl_fail(err, FPL_USAGE, "unknown option '%.*s'", (int)length, argument);
  if (o->kind == FPL_OPTION_FLAG) {
    if (equals)
      return fpl_fail(err, FPL_USAGE, "%s takes no value", o->name);
    *(bool *)o->out = true;
    return FPL_OK;
  }
  const char *value = equals ? equals + 1 : NULL;
  if (!value) {
    if (*at + 1 >= argc)
      return fpl_fail(err, FPL_USAGE, "%s needs a value", o->name);
    value = argv[++*at];
  }
  return set_value(o, value, err);
}

enum fpl_status fpl_opts_parse(const struct fpl_command *command, const struct fpl_option *options,
                               int n_options, int argc, char **argv, const char **arguments,
                               int *out_n_arguments, bool *out_help, struct fpl_err *err) {
  int n = 0;
  bool only_arguments = false;
  *out_n_arguments = 0;
  *out_help = asks_help(argc, argv);
  if (*out_help)
    return FPL_OK;
  for (int i = 0; i < argc; i++) {
    if (!only_arguments && strcmp(argv[i], "--") == 0) {
      only_arguments = true;
    } else if (!only_arguments && argv[i][0] == '-' && argv[i][1] != '\0') {
      const enum fpl_status status = read_option(options, n_options, argc, argv, &i, err);
      if (status != FPL_OK)
        return status;
    } else if (n >= command->most_arguments) {
      return fpl_fail(err, FPL_USAGE, "unexpected argument '%s'", argv[i]);
    } else {
      arguments[n++] = argv[i];
    }
  }
  if (n < command->least_arguments)
    return fpl_fail(err, FPL_USAGE, "%s is missing", command->arguments);
  *out_n_arguments = n;
  return FPL_OK;
}

void fpl_opts_help(const struct fpl_command *command, const struct fpl_option *options,
                   int n_options) {
  printf("usage: fuseplan %s [options]%s%s\n\n%s\n\noptions:\n", command->verb,
         command->arguments[0] ? " " : "", command->arguments, command->summary);
  for (int i = 0; i < n_options; i++) {
    char left[48];
    snprintf(left, sizeof left, "%s%s%s", options[i].name, options[i].value ? " " : "",
             options[i].value ? options[i].value : "");
    printf("  %-22s %s\n", left, options[i].meaning);
    if (options[i].names) {
      printf("  %-22s (", "");
      for (int j = 0; options[i].names[j]; j++)
        printf("%s%s", j ? " " : "", options[i].names[j]);
      printf(")\n");
    }
  }
  printf("  %-22s %s\n\nexample:\n  %s\n", "--help", "this text", command->example);
}

void fpl_problem_opts_init(struct fpl_problem_opts *o, struct fpl_option out[FPL_PROBLEM_OPTIONS]) {
  *o = (struct fpl_problem_opts){.kind = -1, .dtype = -1, .act = -1, .conv = {.batch = 1}};
  const int64_t most = INT32_MAX;
  const struct fpl_option options[FPL_PROBLEM_OPTIONS] = {
      {"--kind", FPL_OPTION_NAME, &o->kind, "KIND", "kind of problem", 0, 0, fpl_kind_names},
      {"--m", FPL_OPTION_I64, &o->m, "M", "rows of A and E", 1, most, NULL},
      {"--n", FPL_OPTION_I64, &o->n, "N", "columns of C (conv_chain: oc1)", 1, most, NULL},
      {"--k", FPL_OPTION_I64, &o->k, "K", "columns of A", 1, most, NULL},
      {"--l", FPL_OPTION_I64, &o->l, "L", "columns of E (default: k; conv_chain: oc2)", 1, most,
       NULL},
      {"--dtype", FPL_OPTION_NAME, &o->dtype, "TYPE", "element type (default f16)", 0, 0,
       fpl_dtype_names},
      {"--act", FPL_OPTION_NAME, &o->act, "ACT", "activation (default relu; gated_ffn: silu)", 0, 0,
       fpl_act_names},
      {"--batch", FPL_OPTION_I64, &o->conv.batch, "B", "conv_chain: images (default 1)", 1, most,
       NULL},
      {"--ic", FPL_OPTION_I64, &o->conv.ic, "C", "conv_chain: input channels", 1, most, NULL},
      {"--h", FPL_OPTION_I64, &o->conv.h, "H", "conv_chain: height", 1, most, NULL},
      {"--w", FPL_OPTION_I64, &o->conv.w, "W", "conv_chain: width", 1, most, NULL},
      {"--k1", FPL_OPTION_I64, &o->conv.k1, "K1", "conv_chain: size of the first kernel, odd", 1,
       15, NULL},
  };
  memcpy(out, options, sizeof options);
}

enum fpl_status fpl_problem_opts_make(const struct fpl_problem_opts *o, struct fpl_problem *out,
                                      struct fpl_err *err) {
  if (o->kind < 0)
    return fpl_fail(err, FPL_USAGE, "--kind is missing");
  const enum fpl_kind kind = (enum fpl_kind)o->kind;
  const bool is_conv = kind == FPL_KIND_CONV_CHAIN;
  const enum fpl_act act = o->act >= 0                  ? (enum fpl_act)o->act
                           : kind == FPL_KIND_GATED_FFN ? FPL_ACT_SILU
                                                        : FPL_ACT_RELU;
  const struct {
    const char *name;
    int64_t value;
    bool is_needed;
  } needs[] = {{"--m", o->m, !is_conv},       {"--n", o->n, true},
               {"--k", o->k, !is_conv},       {"--l", o->l, is_conv},
               {"--ic", o->conv.ic, is_conv}, {"--h", o->conv.h, is_conv},
               {"--w", o->conv.w, is_conv},   {"--k1", o->conv.k1, is_conv}};
  for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
    if (needs[i].is_needed && needs[i].value == 0)
      return fpl_fail(err, FPL_USAGE, "%s is missing: %s needs it", needs[i].name,
                      fpl_kind_names[kind]);
  return fpl_problem_make(kind, o->dtype < 0 ? FPL_DTYPE_F16 : (enum fpl_dtype)o->dtype, act, o->m,
                          o->n, o->k, o->l ? o->l : o->k, is_conv ? &o->conv : NULL, out, err);
}
