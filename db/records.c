/* The record types, and the two encodings that JSON lacks: a canonical form and bytes. */
#include "db/records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sizes are those of the structs in tuner/core that hold the texts. */
static const struct fpl_column device_class_columns[] = {
    {.name = "key", .kind = FPL_COLUMN_KEY},
    {.name = "class", .kind = FPL_COLUMN_TEXT, .most = FPL_DEVICE_CLASS_TEXT - 1},
    {.name = "name", .kind = FPL_COLUMN_TEXT, .most = 32 - 1},
    {.name = "title", .kind = FPL_COLUMN_TEXT, .most = 64 - 1},
    {.name = "capability_major", .kind = FPL_COLUMN_I64, .most = INT32_MAX},
    {.name = "capability_minor", .kind = FPL_COLUMN_I64, .most = INT32_MAX},
    {.name = "sms", .kind = FPL_COLUMN_I64, .most = INT32_MAX},
    {.name = "l2_bytes", .kind = FPL_COLUMN_I64, .most = INT64_MAX},
    {.name = "hbm_bytes", .kind = FPL_COLUMN_I64, .most = INT64_MAX},
    {.name = "sm_clock_mhz", .kind = FPL_COLUMN_F64},
    {.name = "smem_bytes_per_block", .kind = FPL_COLUMN_I64, .most = INT64_MAX},
    {.name = "smem_bytes_per_sm", .kind = FPL_COLUMN_I64, .most = INT64_MAX},
    {.name = "registers_per_sm", .kind = FPL_COLUMN_I64, .most = INT64_MAX},
    {.name = "threads_per_sm", .kind = FPL_COLUMN_I64, .most = INT64_MAX},
    {.name = "max_cluster", .kind = FPL_COLUMN_I64, .most = INT32_MAX},
};

static const struct fpl_column environment_columns[] = {
    {.name = "key", .kind = FPL_COLUMN_KEY},
    {.name = "fields", .kind = FPL_COLUMN_FIELDS},
};

static const struct fpl_column problem_columns[] = {
    {.name = "key", .kind = FPL_COLUMN_KEY},
    {.name = "text", .kind = FPL_COLUMN_TEXT, .most = FPL_PROBLEM_TEXT - 1},
};

static const struct fpl_column run_columns[] = {
    {.name = "key", .kind = FPL_COLUMN_KEY},
    {.name = "started_unix", .kind = FPL_COLUMN_I64, .most = INT64_MAX},
    {.name = "ended_unix", .kind = FPL_COLUMN_I64, .is_optional = true, .most = INT64_MAX},
    {.name = "seed", .kind = FPL_COLUMN_I64, .least = INT64_MIN, .most = INT64_MAX},
    {.name = "tool_version", .kind = FPL_COLUMN_TEXT, .most = INT32_MAX},
    {.name = "arguments", .kind = FPL_COLUMN_TEXT, .most = INT32_MAX},
    {.name = "state", .kind = FPL_COLUMN_NAME, .names = fpl_run_state_names},
};

static const struct fpl_column kernel_columns[] = {
    {.name = "sha", .kind = FPL_COLUMN_SHA},
    {.name = "name", .kind = FPL_COLUMN_TEXT, .most = FPL_KERNEL_NAME - 1},
    {.name = "family", .kind = FPL_COLUMN_TEXT, .most = 24 - 1},
    {.name = "source_key", .kind = FPL_COLUMN_TEXT, .most = FPL_HASH_HEX - 1},
    {.name = "cluster", .kind = FPL_COLUMN_I64, .least = 1, .most = INT32_MAX},
    {.name = "block_threads", .kind = FPL_COLUMN_I64, .least = 1, .most = INT32_MAX},
    {.name = "smem_bytes", .kind = FPL_COLUMN_I64, .most = INT64_MAX},
    {.name = "rows_per_unit", .kind = FPL_COLUMN_I64, .least = 1, .most = INT64_MAX},
    {.name = "units_per_row", .kind = FPL_COLUMN_I64, .least = 1, .most = INT64_MAX},
    {.name = "max_clusters", .kind = FPL_COLUMN_I64, .least = 1, .most = INT64_MAX},
    {.name = "workspace_bytes_per_row_group", .kind = FPL_COLUMN_I64, .most = INT64_MAX},
    {.name = "registers", .kind = FPL_COLUMN_I64, .most = INT32_MAX},
    {.name = "spill_bytes", .kind = FPL_COLUMN_I64, .most = INT32_MAX},
    {.name = "map_a_rows", .kind = FPL_COLUMN_I64, .least = -1, .most = INT64_MAX},
    {.name = "map_a_cols", .kind = FPL_COLUMN_I64, .most = INT64_MAX},
    {.name = "map_a_box_rows", .kind = FPL_COLUMN_I64, .most = INT32_MAX},
    {.name = "map_a_box_cols", .kind = FPL_COLUMN_I64, .most = INT32_MAX},
    {.name = "map_a_slabs", .kind = FPL_COLUMN_I64, .most = INT32_MAX},
    {.name = "map_a_parts",
     .kind = FPL_COLUMN_I64,
     .least = 1,
     .most = INT32_MAX,
     .since_schema = 2,
     .older_value = 1},
    {.name = "map_a_is_image", .kind = FPL_COLUMN_BOOL, .since_schema = 2},
    {.name = "map_b_rows", .kind = FPL_COLUMN_I64, .least = -1, .most = INT64_MAX},
    {.name = "map_b_cols", .kind = FPL_COLUMN_I64, .most = INT64_MAX},
    {.name = "map_b_box_rows", .kind = FPL_COLUMN_I64, .most = INT32_MAX},
    {.name = "map_b_box_cols", .kind = FPL_COLUMN_I64, .most = INT32_MAX},
    {.name = "map_b_slabs", .kind = FPL_COLUMN_I64, .most = INT32_MAX},
    {.name = "map_b_parts",
     .kind = FPL_COLUMN_I64,
     .least = 1,
     .most = INT32_MAX,
     .since_schema = 2,
     .older_value = 1},
    {.name = "map_b_is_image", .kind = FPL_COLUMN_BOOL, .since_schema = 2},
    {.name = "map_d_rows", .kind = FPL_COLUMN_I64, .least = -1, .most = INT64_MAX},
    {.name = "map_d_cols", .kind = FPL_COLUMN_I64, .most = INT64_MAX},
    {.name = "map_d_box_rows", .kind = FPL_COLUMN_I64, .most = INT32_MAX},
    {.name = "map_d_box_cols", .kind = FPL_COLUMN_I64, .most = INT32_MAX},
    {.name = "map_d_slabs", .kind = FPL_COLUMN_I64, .most = INT32_MAX},
    {.name = "map_d_parts",
     .kind = FPL_COLUMN_I64,
     .least = 1,
     .most = INT32_MAX,
     .since_schema = 2,
     .older_value = 1},
    {.name = "map_d_is_image", .kind = FPL_COLUMN_BOOL, .since_schema = 2},
    {.name = "cubin", .kind = FPL_COLUMN_BYTES, .is_optional = true},
};

static const struct fpl_column candidate_columns[] = {
    {.name = "key", .kind = FPL_COLUMN_KEY},
    {.name = "run", .kind = FPL_COLUMN_REFERENCE, .find = FPL_QUERY_RUN_ID},
    {.name = "problem", .kind = FPL_COLUMN_REFERENCE, .find = FPL_QUERY_PROBLEM_ID},
    {.name = "device_class", .kind = FPL_COLUMN_REFERENCE, .find = FPL_QUERY_DEVICE_CLASS_ID},
    {.name = "attempt", .kind = FPL_COLUMN_I64, .least = 1, .most = INT64_MAX},
    {.name = "is_library", .kind = FPL_COLUMN_BOOL},
    {.name = "schedule", .kind = FPL_COLUMN_TEXT, .most = FPL_SCHEDULE_TEXT - 1},
    {.name = "est_us", .kind = FPL_COLUMN_F64},
    {.name = "est_plain_us", .kind = FPL_COLUMN_F64},
    {.name = "outcome", .kind = FPL_COLUMN_NAME, .names = fpl_outcome_names},
    {.name = "reason", .kind = FPL_COLUMN_TEXT, .most = 256 - 1},
    {.name = "was_exact_ok", .kind = FPL_COLUMN_BOOL},
    {.name = "relative_error", .kind = FPL_COLUMN_F64, .is_optional = true},
    {.name = "was_in_bounds", .kind = FPL_COLUMN_BOOL},
    {.name = "kernel",
     .kind = FPL_COLUMN_REFERENCE,
     .is_optional = true,
     .find = FPL_QUERY_KERNEL_ID},
};

static const struct fpl_column measurement_columns[] = {
    {.name = "candidate", .kind = FPL_COLUMN_REFERENCE, .find = FPL_QUERY_CANDIDATE_ID},
    {.name = "cache_state", .kind = FPL_COLUMN_NAME, .names = fpl_cache_state_names},
    {.name = "method", .kind = FPL_COLUMN_NAME, .names = fpl_method_names},
    {.name = "environment", .kind = FPL_COLUMN_REFERENCE, .find = FPL_QUERY_ENVIRONMENT_ID},
    {.name = "n", .kind = FPL_COLUMN_I64, .most = INT64_MAX},
    {.name = "median_us", .kind = FPL_COLUMN_F64, .least = INT64_MIN},
    {.name = "p05_us", .kind = FPL_COLUMN_F64, .least = INT64_MIN},
    {.name = "p95_us", .kind = FPL_COLUMN_F64, .least = INT64_MIN},
    {.name = "least_us", .kind = FPL_COLUMN_F64, .least = INT64_MIN},
    {.name = "low_us", .kind = FPL_COLUMN_F64, .least = INT64_MIN},
    {.name = "high_us", .kind = FPL_COLUMN_F64, .least = INT64_MIN},
    {.name = "samples", .kind = FPL_COLUMN_SAMPLES},
};

static const struct fpl_column plan_columns[] = {
    {.name = "candidate", .kind = FPL_COLUMN_REFERENCE, .find = FPL_QUERY_CANDIDATE_ID},
    {.name = "environment", .kind = FPL_COLUMN_REFERENCE, .find = FPL_QUERY_ENVIRONMENT_ID},
    {.name = "provenance", .kind = FPL_COLUMN_NAME, .names = fpl_provenance_names},
    {.name = "est_us", .kind = FPL_COLUMN_F64},
    {.name = "measured_us", .kind = FPL_COLUMN_F64},
    {.name = "measured_hot_us", .kind = FPL_COLUMN_F64},
    {.name = "library_us", .kind = FPL_COLUMN_F64},
    {.name = "library_hot_us", .kind = FPL_COLUMN_F64},
    {.name = "n_candidates", .kind = FPL_COLUMN_I64, .most = INT64_MAX},
    {.name = "n_ok", .kind = FPL_COLUMN_I64, .most = INT64_MAX},
    {.name = "reason", .kind = FPL_COLUMN_TEXT, .most = 256 - 1},
    {.name = "created_unix", .kind = FPL_COLUMN_I64, .most = INT64_MAX},
    {.name = "is_promoted", .kind = FPL_COLUMN_BOOL},
};

_Static_assert(sizeof kernel_columns / sizeof *kernel_columns <= FPL_RECORD_COLUMNS,
               "the longest record fits a reader");

const struct fpl_record_type fpl_record_types[FPL_N_RECORDS] = {
    {"device_class", device_class_columns,
     sizeof device_class_columns / sizeof *device_class_columns, FPL_QUERY_EXPORT_DEVICE_CLASS,
     FPL_N_QUERIES},
    {"environment", environment_columns, sizeof environment_columns / sizeof *environment_columns,
     FPL_QUERY_EXPORT_ENVIRONMENT, FPL_N_QUERIES},
    {"problem", problem_columns, sizeof problem_columns / sizeof *problem_columns,
     FPL_QUERY_EXPORT_PROBLEM, FPL_N_QUERIES},
    {"run", run_columns, sizeof run_columns / sizeof *run_columns, FPL_QUERY_EXPORT_RUN,
     FPL_N_QUERIES},
    {"kernel", kernel_columns, sizeof kernel_columns / sizeof *kernel_columns,
     FPL_QUERY_EXPORT_KERNEL, FPL_QUERY_SAME_KERNEL},
    {"candidate", candidate_columns, sizeof candidate_columns / sizeof *candidate_columns,
     FPL_QUERY_EXPORT_CANDIDATE, FPL_QUERY_SAME_CANDIDATE},
    {"measurement", measurement_columns, sizeof measurement_columns / sizeof *measurement_columns,
     FPL_QUERY_EXPORT_MEASUREMENT, FPL_QUERY_SAME_MEASUREMENT},
    {"plan", plan_columns, sizeof plan_columns / sizeof *plan_columns, FPL_QUERY_EXPORT_PLAN,
     FPL_QUERY_SAME_PLAN},
};

static void append_number(struct fpl_text *text, double value) {
  char digits[32] = "0"; /* also for minus zero, which JSON readers take for the integer 0 */
  if (value < 0 || value > 0)
    for (int precision = 15; precision <= 17; precision++) {
      snprintf(digits, sizeof digits, "%.*g", precision, value);
      if (!(strtod(digits, NULL) < value) && !(strtod(digits, NULL) > value))
        break;
    }
  fpl_text_append(text, "%s", digits);
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void append_object(struct fpl_text *text, const json_t *object) {
  const size_t n = json_object_size(object);
  const char **const names = malloc((n ? n : 1) * sizeof *names);
  if (!names) {
    text->is_broken = true;
    return;
  }
  size_t at = 0;
  json_t *const walked = (json_t *)(uintptr_t)object; /* jansson's iterators take no const */
  for (void *i = json_object_iter(walked); i; i = json_object_iter_next(walked, i))
    names[at++] = json_object_iter_key(i);
  qsort(names, n, sizeof *names, compare_names);
  fpl_text_append_bytes(text, "{", 1);
  for (size_t i = 0; i < n; i++) {
    json_t *const name = json_string(names[i]);
    fpl_text_append_bytes(text, ",", i > 0);
    fpl_json_append(text, name);
    fpl_text_append_bytes(text, ":", 1);
    fpl_json_append(text, json_object_get(object, names[i]));
    json_decref(name);
  }
  fpl_text_append_bytes(text, "}", 1);
  free(names);
}

void fpl_json_append(struct fpl_text *text, const json_t *value) {
  if (!value) {
    text->is_broken = true;
  } else if (json_is_object(value)) {
    append_object(text, value);
  } else if (json_is_array(value)) {
    fpl_text_append_bytes(text, "[", 1);
    for (size_t i = 0; i < json_array_size(value); i++) {
      fpl_text_append_bytes(text, ",", i > 0);
      fpl_json_append(text, json_array_get(value, i));
    }
    fpl_text_append_bytes(text, "]", 1);
  } else if (json_is_real(value)) {
    append_number(text, json_real_value(value));
  } else {
    char *const plain = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    if (plain)
      fpl_text_append_bytes(text, plain, strlen(plain));
    else
      text->is_broken = true;
    free(plain);
  }
}

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void fpl_base64_append(struct fpl_text *text, const unsigned char *bytes, size_t length) {
  for (size_t i = 0; i < length; i += 3) {
    const size_t n = length - i < 3 ? length - i : 3;
    uint32_t group = (uint32_t)bytes[i] << 16;
    group |= n > 1 ? (uint32_t)bytes[i + 1] << 8 : 0;
    group |= n > 2 ? bytes[i + 2] : 0;
    char four[4];
    for (size_t digit = 0; digit < 4; digit++)
      four[digit] = digit <= n ? base64_digits[group >> (18 - 6 * digit) & 63] : '=';
    fpl_text_append_bytes(text, four, sizeof four);
  }
}

bool fpl_base64_decode(const char *text, size_t length, unsigned char *out, size_t *out_length) {
  *out_length = 0;
  if (length % 4 != 0)
    return false;
  for (size_t i = 0; i < length; i += 4) {
    size_t n = 4; /* digits of this group */
    if (i + 4 == length)
      n = text[i + 2] == '=' && text[i + 3] == '=' ? 2 : text[i + 3] == '=' ? 3 : 4;
    uint32_t group = 0;
    for (size_t digit = 0; digit < n; digit++) {
      const char *const at = text[i + digit] ? strchr(base64_digits, text[i + digit]) : NULL;
      if (!at)
        return false;
      group |= (uint32_t)(at - base64_digits) << (18 - 6 * digit);
    }
    /* Bits beyond the last byte are zero: one text for one value. */
    if (n < 4 && (group & (n == 2 ? 0xffffu : 0xffu)) != 0)
      return false;
    for (size_t byte = 0; byte + 1 < n; byte++)
      out[(*out_length)++] = (unsigned char)(group >> (16 - 8 * byte));
  }
  return true;
}
