#include "tuner/cli/stored.h"

#include <stdio.h>
#include <string.h>

enum { DAY_SECONDS = 86400 };

/* Days since 1970 of a day of the Gregorian calendar, and back: Hinnant, "chrono-compatible
 * low-level date algorithms". Years begin in March, so that the leap day is the last one. */
static int64_t days_of(int64_t year, int64_t month, int64_t day) {
  const int64_t y = month > 2 ? year : year - 1;
  const int64_t era = y / 400, year_of_era = y - era * 400;
  const int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year -
         719468;
}

static void date_of(int64_t days, int64_t *year, int64_t *month, int64_t *day) {
  const int64_t z = days + 719468, era = z / 146097, day_of_era = z - era * 146097;
  const int64_t year_of_era =
      (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  const int64_t day_of_year =
      day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const int64_t shifted = (5 * day_of_year + 2) / 153;
  *day = day_of_year - (153 * shifted + 2) / 5 + 1;
  *month = shifted < 10 ? shifted + 3 : shifted - 9;
  *year = year_of_era + era * 400 + (*month <= 2);
}

void fpl_date_text(int64_t unix_seconds, char out[FPL_DATE_TEXT]) {
  const int64_t last = days_of(9999, 12, 31) * DAY_SECONDS + DAY_SECONDS - 1;
  const int64_t t = unix_seconds < last ? unix_seconds : last;
  int64_t year = 0, month = 0, day = 0;
  date_of(t / DAY_SECONDS, &year, &month, &day);
  const int64_t second = t % DAY_SECONDS;
  snprintf(out, FPL_DATE_TEXT, "%04d-%02d-%02dT%02d:%02d:%02dZ", (int)year, (int)month, (int)day,
           (int)(second / 3600), (int)(second / 60 % 60), (int)(second % 60));
}

/* Digits of `text` where the picture has '0', else the picture's own characters. */
static bool fits_picture(const char *text, const char *picture) {
  for (; *picture; text++, picture++)
    if (*picture == '0' ? *text < '0' || *text > '9' : *text != *picture)
      return false;
  return *text == '\0' || strcmp(text, "Z") == 0;
}

static int64_t number_at(const char *text, int digits) {
  int64_t value = 0;
  for (int i = 0; i < digits; i++)
    value = value * 10 + (text[i] - '0');
  return value;
}

static bool parse_date(const char *text, int64_t *out_unix_seconds) {
  const bool has_time = fits_picture(text, "0000-00-00T00:00:00");
  if (!has_time && (!fits_picture(text, "0000-00-00") || strlen(text) != 10))
    return false;
  const int64_t year = number_at(text, 4), month = number_at(text + 5, 2),
                day = number_at(text + 8, 2);
  if (year < 1970 || month < 1 || month > 12)
    return false;
  const int64_t days = days_of(year, month, day);
  int64_t same_year = 0, same_month = 0, same_day = 0;
  date_of(days, &same_year, &same_month, &same_day);
  if (same_month != month || same_day != day)
    return false;
  int64_t second = DAY_SECONDS - 1;
  if (has_time) {
    const int64_t hours = number_at(text + 11, 2), minutes = number_at(text + 14, 2),
                  seconds = number_at(text + 17, 2);
    if (hours > 23 || minutes > 59 || seconds > 59)
      return false;
    second = hours * 3600 + minutes * 60 + seconds;
  }
  *out_unix_seconds = days * DAY_SECONDS + second;
  return true;
}

enum fpl_status fpl_as_of_read(const char *text, int64_t *out_unix_seconds, struct fpl_err *err) {
  *out_unix_seconds = INT64_MAX;
  if (text && !parse_date(text, out_unix_seconds))
    return fpl_fail(err, FPL_USAGE,
                    "--as-of is '%s': a date or a date with time, as 2026-12-01 or "
                    "2026-12-01T09:30:00, UTC",
                    text);
  return FPL_OK;
}

const char *fpl_stored_winner(const struct fpl_stored_plan *plan) {
  return plan->is_library ? "library" : plan->kernel[0] ? plan->kernel : plan->schedule;
}

double fpl_stored_us(const struct fpl_stored_plan *plan) {
  return plan->measured_us > 0 ? plan->measured_us : plan->est_us;
}

json_t *fpl_json_stored_plan(const struct fpl_stored_plan *p) {
  char date[FPL_DATE_TEXT];
  fpl_date_text(p->created_unix, date);
  json_t *const out =
      json_pack("{s:s, s:s, s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I}", "device",
                p->device_name, "winner", p->is_library ? "library" : "kernel", "kernel", p->kernel,
                "schedule", p->schedule, "provenance", fpl_provenance_names[p->provenance],
                "est_us", p->est_us, "measured_us", p->measured_us, "measured_hot_us",
                p->measured_hot_us, "cold_low_us", p->cold.low_us, "cold_high_us", p->cold.high_us,
                "library_us", p->library_us, "library_hot_us", p->library_hot_us, "n_candidates",
                (json_int_t)p->n_candidates, "n_ok", (json_int_t)p->n_ok);
  json_object_update_new(
      out,
      json_pack("{s:I, s:s, s:s, s:I, s:I, s:s, s:s, s:s, s:s, s:b, s:s, s:b}", "created_unix",
                (json_int_t)p->created_unix, "created", date, "run", p->run_key, "run_started_unix",
                (json_int_t)p->run_started_unix, "attempt", (json_int_t)p->attempt, "tool_version",
                p->tool_version, "driver", p->driver, "nvrtc", p->nvrtc, "reason", p->reason,
                "is_promoted", p->is_promoted, "flag", p->flag, "is_answer", p->is_answer));
  return out;
}
