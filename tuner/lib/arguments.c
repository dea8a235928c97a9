/* Decides which arguments are refused. */
#include "tuner/lib/arguments.h"

#include <assert.h>
#include <string.h>

static_assert((int)FUSEPLAN_GEMM_CHAIN == (int)FPL_KIND_GEMM_CHAIN &&
                  (int)FUSEPLAN_GATED_FFN == (int)FPL_KIND_GATED_FFN &&
                  (int)FUSEPLAN_CONV_CHAIN == (int)FPL_KIND_CONV_CHAIN,
              "one number for one kind");
static_assert((int)FUSEPLAN_F16 == (int)FPL_DTYPE_F16 && (int)FUSEPLAN_BF16 == (int)FPL_DTYPE_BF16,
              "one number for one element type");
static_assert((int)FUSEPLAN_ACT_NONE == (int)FPL_ACT_NONE &&
                  (int)FUSEPLAN_ACT_RELU == (int)FPL_ACT_RELU &&
                  (int)FUSEPLAN_ACT_GELU == (int)FPL_ACT_GELU &&
                  (int)FUSEPLAN_ACT_SILU == (int)FPL_ACT_SILU,
              "one number for one activation");

enum fpl_status fpl_argument_struct(const void *structure, size_t known_size, const char *name,
                                    struct fpl_err *err) {
  size_t size = 0;
  if (!structure)
    return fpl_fail(err, FPL_USAGE, "%s is NULL", name);
  memcpy(&size, structure, sizeof size);
  if (size != known_size)
    return fpl_fail(err, FPL_USAGE,
                    "%s: its size is %zu, fuseplan %s knows %zu: set it to sizeof, and compile "
                    "against this library's header",
                    name, size, fuseplan_version(), known_size);
  return FPL_OK;
}

static enum fpl_status check_range(const char *name, int64_t value, int64_t least, int64_t most,
                                   struct fpl_err *err) {
  if (value >= least && value <= most)
    return FPL_OK;
  return fpl_fail(err, FPL_USAGE, "%s is %lld: it must lie between %lld and %lld", name,
                  (long long)value, (long long)least, (long long)most);
}

enum fpl_status fpl_argument_problem(const struct fuseplan_problem *given, struct fpl_problem *out,
                                     struct fpl_err *err) {
  enum fpl_status status = fpl_argument_struct(given, sizeof *given, "problem", err);
  if (status == FPL_OK)
    status = check_range("problem: kind", given->kind, 0, FUSEPLAN_CONV_CHAIN, err);
  if (status == FPL_OK)
    status = check_range("problem: dtype", given->dtype, 0, FUSEPLAN_BF16, err);
  if (status == FPL_OK)
    status = check_range("problem: act", given->act, 0, FUSEPLAN_ACT_SILU, err);
  if (status != FPL_OK)
    return status;
  const struct fpl_conv conv = {given->batch, given->ic, given->h, given->w, given->k1};
  const bool is_conv = given->kind == FUSEPLAN_CONV_CHAIN;
  if (is_conv && (given->m != 0 || given->k != 0))
    return fpl_fail(err, FPL_USAGE,
                    "problem: m and k of a conv_chain follow from batch, ic, h, w "
                    "and k1: pass 0");
  if (!is_conv && (conv.batch | conv.ic | conv.h | conv.w | conv.k1) != 0)
    return fpl_fail(err, FPL_USAGE, "problem: batch, ic, h, w and k1 are a conv_chain's: pass 0");
  status = fpl_problem_make((enum fpl_kind)given->kind, (enum fpl_dtype)given->dtype,
                            (enum fpl_act)given->act, given->m, given->n, given->k, given->l,
                            is_conv ? &conv : NULL, out, err);
  if (status != FPL_OK)
    fpl_err_prefix(err, "problem");
  return status;
}

enum fpl_status fpl_argument_device(const struct fuseplan_device *given, struct fpl_device *out,
                                    struct fpl_err *err) {
  const int64_t most = INT64_C(1) << 60; /* bytes; far beyond any */
  enum fpl_status status = fpl_argument_struct(given, sizeof *given, "device", err);
  if (status == FPL_OK)
    status = check_range("device: capability_major", given->capability_major, 1, 999, err);
  if (status == FPL_OK)
    status = check_range("device: capability_minor", given->capability_minor, 0, 9, err);
  if (status == FPL_OK)
    status = check_range("device: sms", given->sms, 1, 1 << 20, err);
  if (status == FPL_OK)
    status = check_range("device: l2_bytes", given->l2_bytes, 0, most, err);
  if (status == FPL_OK)
    status = check_range("device: hbm_bytes", given->hbm_bytes, 1, most, err);
  if (status == FPL_OK)
    status = check_range("device: driver", given->driver, 0, INT32_MAX, err);
  if (status != FPL_OK)
    return status;
  if (!(given->sm_clock_mhz > 0 && given->sm_clock_mhz < 1e6))
    return fpl_fail(err, FPL_USAGE, "device: sm_clock_mhz must lie between 0 and 1000000");
  *out = (struct fpl_device){.capability_major = given->capability_major,
                             .capability_minor = given->capability_minor,
                             .sms = given->sms,
                             .l2_bytes = given->l2_bytes,
                             .hbm_bytes = given->hbm_bytes,
                             .sm_clock_mhz = given->sm_clock_mhz};
  return FPL_OK;
}

enum fpl_status fpl_argument_options(const struct fuseplan_options *given,
                                     struct fuseplan_options *out, struct fpl_err *err) {
  *out = (struct fuseplan_options){.size = sizeof *out, .last_tier = FUSEPLAN_TIER_LIBRARY};
  if (!given)
    return FPL_OK;
  enum fpl_status status = fpl_argument_struct(given, sizeof *given, "options", err);
  if (status == FPL_OK)
    status = check_range("options: is_deterministic", given->is_deterministic, 0, 1, err);
  if (status == FPL_OK)
    status = check_range("options: needs_kernel", given->needs_kernel, 0, 1, err);
  if (status == FPL_OK)
    status = check_range("options: last_tier", given->last_tier, 0, FUSEPLAN_TIER_LIBRARY, err);
  if (status == FPL_OK)
    *out = *given;
  return status;
}

enum fpl_status fpl_argument_rows(const struct fpl_problem *problem, int64_t m,
                                  struct fpl_problem *out, struct fpl_err *err) {
  struct fpl_conv conv = problem->conv;
  const bool is_conv = problem->kind == FPL_KIND_CONV_CHAIN;
  const int64_t image_rows = is_conv ? conv.h * conv.w : 1;
  if (m < 1 || m > INT32_MAX || m % image_rows != 0)
    return fpl_fail(err, FPL_USAGE, "m is %lld: it must be a multiple of %lld, at least that",
                    (long long)m, (long long)image_rows);
  conv.batch = m / image_rows;
  return fpl_problem_make(problem->kind, problem->dtype, problem->act, m, problem->n, problem->k,
                          problem->l, is_conv ? &conv : NULL, out, err);
}
