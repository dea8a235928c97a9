#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tuner/base/sys.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECOND_US 1e6

struct place {
  struct fpl_arena arena;
  char *dir;
  struct fpl_err err;
};

static int set_up(void **state) {
  static struct place place;
  place = (struct place){0};
  *state = &place;
  return fpl_dir_temporary(&place.arena, "/tmp", "t_sys", &place.dir, &place.err) == FPL_OK ? 0
                                                                                            : -1;
}

static int tear_down(void **state) {
  struct place *place = *state;
  const enum fpl_status status = fpl_dir_remove(place->dir, &place->err);
  fpl_arena_free(&place->arena);
  return status == FPL_OK ? 0 : -1;
}

static const char *path_in(struct place *place, const char *name) {
  char path[512];
  const int length = snprintf(path, sizeof path, "%s/%s", place->dir, name);
  return fpl_arena_copy(&place->arena, path, (size_t)length);
}

static void assert_content(struct place *place, const char *path, const char *wanted) {
  char *text = NULL;
  size_t length = 0;
  assert_int_equal(fpl_file_read(&place->arena, path, 1 << 20, &text, &length, &place->err),
                   FPL_OK);
  assert_string_equal(text, wanted);
  assert_int_equal(length, strlen(wanted));
}

static void writes_a_file_and_reads_it_back(void **state) {
  struct place *place = *state;
  const char *path = path_in(place, "file");
  assert_int_equal(fpl_file_write(path, "one", 3, &place->err), FPL_OK);
  assert_content(place, path, "one");
  assert_int_equal(fpl_file_write(path, "second", 6, &place->err), FPL_OK);
  assert_content(place, path, "second");
  assert_int_equal(fpl_file_write(path, "", 0, &place->err), FPL_OK);
  assert_content(place, path, "");
}

static void keeps_the_old_file_when_a_write_fails(void **state) {
  struct place *place = *state;
  const char *path = path_in(place, "file");
  assert_int_equal(fpl_file_write(path, "old", 3, &place->err), FPL_OK);
  static char big[1 << 16];
  struct rlimit before;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  void (*const handler)(int) = signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small = {.rlim_cur = 4096, .rlim_max = before.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  const enum fpl_status status = fpl_file_write(path, big, sizeof big, &place->err);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  (void)signal(SIGXFSZ, handler);
  assert_int_equal(status, FPL_IO);
  assert_non_null(strstr(place->err.text, path));
  assert_content(place, path, "old");
  assert_int_equal(unlink(path), 0);
  assert_int_equal(rmdir(place->dir), 0); /* no temporary stayed */
  assert_int_equal(mkdir(place->dir, 0700), 0);
}

static void refuses_what_is_no_regular_file_or_too_large(void **state) {
  struct place *place = *state;
  char *text = NULL;
  size_t length = 0;
  assert_int_equal(fpl_file_read(&place->arena, "/dev/zero", 100, &text, &length, &place->err),
                   FPL_IO);
  assert_int_equal(fpl_file_read(&place->arena, place->dir, 100, &text, &length, &place->err),
                   FPL_IO);
  const char *path = path_in(place, "missing");
  assert_int_equal(fpl_file_read(&place->arena, path, 100, &text, &length, &place->err), FPL_IO);
  assert_non_null(strstr(place->err.text, path));
  assert_int_equal(fpl_file_write(path, "12345", 5, &place->err), FPL_OK);
  assert_int_equal(fpl_file_read(&place->arena, path, 4, &text, &length, &place->err), FPL_PARSE);
  assert_non_null(strstr(place->err.text, "larger than 4 bytes"));
  assert_int_equal(fpl_file_read(&place->arena, path, 5, &text, &length, &place->err), FPL_OK);
  const char *fifo = path_in(place, "fifo");
  assert_int_equal(mkfifo(fifo, 0600), 0);
  assert_int_equal(fpl_file_read(&place->arena, fifo, 5, &text, &length, &place->err), FPL_IO);
}

static void makes_and_removes_nested_directories(void **state) {
  struct place *place = *state;
  const char *deep = path_in(place, "a/b/c");
  assert_int_equal(fpl_dir_make(deep, &place->err), FPL_OK);
  assert_int_equal(fpl_dir_make(deep, &place->err), FPL_OK);
  assert_true(fpl_path_exists(deep));
  const char *file = path_in(place, "a/file");
  assert_int_equal(fpl_file_write(file, "x", 1, &place->err), FPL_OK);
  assert_int_equal(fpl_dir_make(file, &place->err), FPL_IO);
  assert_int_equal(fpl_dir_make(path_in(place, "a/file/b"), &place->err), FPL_IO);
  assert_int_equal(fpl_dir_remove(path_in(place, "a"), &place->err), FPL_OK);
  assert_false(fpl_path_exists(path_in(place, "a")));
  assert_int_equal(fpl_dir_remove(path_in(place, "a"), &place->err), FPL_OK);
  assert_int_equal(fpl_dir_remove("/", &place->err), FPL_INTERNAL);
}

static void removes_a_link_but_not_what_it_names(void **state) {
  struct place *place = *state;
  assert_int_equal(fpl_dir_make(path_in(place, "kept"), &place->err), FPL_OK);
  assert_int_equal(fpl_dir_make(path_in(place, "gone"), &place->err), FPL_OK);
  assert_int_equal(symlink(path_in(place, "kept"), path_in(place, "gone/link")), 0);
  assert_int_equal(fpl_dir_remove(path_in(place, "gone"), &place->err), FPL_OK);
  assert_true(fpl_path_exists(path_in(place, "kept")));
}

static void publishes_a_directory_once(void **state) {
  struct place *place = *state;
  const char *const names[] = {"first", "second"};
  for (int i = 0; i < 2; i++) {
    char file[32];
    assert_int_equal(fpl_dir_make(path_in(place, names[i]), &place->err), FPL_OK);
    (void)snprintf(file, sizeof file, "%s/name", names[i]);
    assert_int_equal(fpl_file_write(path_in(place, file), names[i], strlen(names[i]), &place->err),
                     FPL_OK);
  }
  bool is_lost = true;
  const char *target = path_in(place, "target");
  assert_int_equal(fpl_dir_publish(path_in(place, "first"), target, &is_lost, &place->err), FPL_OK);
  assert_false(is_lost);
  assert_int_equal(fpl_dir_publish(path_in(place, "second"), target, &is_lost, &place->err),
                   FPL_OK);
  assert_true(is_lost);
  assert_content(place, path_in(place, "target/name"), "first");
  assert_int_equal(fpl_dir_publish(path_in(place, "none"), target, &is_lost, &place->err), FPL_IO);
}

static void talks_to_a_child_in_whole_messages(void **state) {
  struct place *place = *state;
  const char *const argv[] = {"/bin/cat", NULL};
  struct fpl_child child;
  assert_int_equal(fpl_child_start(argv, FPL_STDERR_SHARED, &child, &place->err), FPL_OK);
  static char sent[40000]; /* many times PIPE_BUF; less than a pipe holds */
  for (size_t i = 0; i < sizeof sent; i++) {
    sent[i] = (char)('a' + i % 23);
  }
  const size_t lengths[] = {0, 1, 4096, sizeof sent};
  for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
    char *got = NULL;
    size_t length = 1;
    assert_int_equal(fpl_pipe_write(child.to_child, sent, lengths[i], 10 * SECOND_US, &place->err),
                     FPL_OK);
    assert_int_equal(
        fpl_pipe_read(child.from_child, 10 * SECOND_US, &place->arena, &got, &length, &place->err),
        FPL_OK);
    assert_int_equal(length, lengths[i]);
    assert_int_equal(memcmp(got, sent, length), 0);
    assert_int_equal(got[length], '\0');
  }
  fpl_child_kill(&child);
  assert_int_equal(child.pid, 0);
  fpl_child_kill(&child);
}

static void tells_exit_codes_and_signals(void **state) {
  struct place *place = *state;
  static const struct {
    const char *script;
    int wanted;
  } cases[] = {{"exit 0", 0}, {"exit 7", 7}, {"kill -TERM $$", 128 + SIGTERM}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const char *const argv[] = {"/bin/sh", "-c", cases[i].script, NULL};
    struct fpl_child child;
    int code = -1;
    assert_int_equal(fpl_child_start(argv, FPL_STDERR_DISCARDED, &child, &place->err), FPL_OK);
    assert_int_equal(fpl_child_wait(&child, 10 * SECOND_US, &code, &place->err), FPL_OK);
    assert_int_equal(code, cases[i].wanted);
    fpl_child_kill(&child);
  }
}

static void kills_a_child_at_its_deadline(void **state) {
  struct place *place = *state;
  const char *const argv[] = {"/bin/sh", "-c", "trap '' TERM INT; sleep 100; sleep 100", NULL};
  struct fpl_child child;
  int code = 0;
  assert_int_equal(fpl_child_start(argv, FPL_STDERR_SHARED, &child, &place->err), FPL_OK);
  const double start_us = fpl_now_us();
  assert_int_equal(fpl_child_wait(&child, 0.05 * SECOND_US, &code, &place->err), FPL_IO_TIMEOUT);
  assert_true(fpl_now_us() - start_us < 10 * SECOND_US);
  assert_int_equal(code, 128 + SIGKILL);
  fpl_child_kill(&child);
}

static void kills_the_childs_own_children(void **state) {
  struct place *place = *state;
  const char *const argv[] = {"/bin/sh", "-c", "sleep 100 & printf '\\002\\0\\0\\0ok'; wait", NULL};
  struct fpl_child child;
  char *got = NULL;
  size_t length = 0;
  assert_int_equal(fpl_child_start(argv, FPL_STDERR_SHARED, &child, &place->err), FPL_OK);
  assert_int_equal(
      fpl_pipe_read(child.from_child, 10 * SECOND_US, &place->arena, &got, &length, &place->err),
      FPL_OK);
  assert_string_equal(got, "ok");
  const int watch = dup(child.from_child);
  fpl_child_kill(&child);
  /* The grandchild held the pipe open, too: it ends only with the last of them. */
  assert_int_equal(fpl_pipe_read(watch, 10 * SECOND_US, &place->arena, &got, &length, &place->err),
                   FPL_IO);
  (void)close(watch);
}

static void tells_why_a_program_cannot_be_started(void **state) {
  struct place *place = *state;
  const char *const argv[] = {"/no/such/program", NULL};
  struct fpl_child child;
  assert_int_equal(fpl_child_start(argv, FPL_STDERR_SHARED, &child, &place->err), FPL_IO);
  assert_non_null(strstr(place->err.text, "/no/such/program"));
  assert_non_null(strstr(place->err.text, "No such file"));
  assert_int_equal(child.pid, 0);
}

static void captures_stderr(void **state) {
  struct place *place = *state;
  const char *const argv[] = {"/bin/sh", "-c", "printf oops >&2", NULL};
  struct fpl_child child;
  int code = 0;
  char text[16] = "";
  assert_int_equal(fpl_child_start(argv, FPL_STDERR_CAPTURED, &child, &place->err), FPL_OK);
  assert_int_equal(fpl_child_wait(&child, 10 * SECOND_US, &code, &place->err), FPL_OK);
  assert_int_equal(read(child.errors, text, sizeof text - 1), 4);
  assert_string_equal(text, "oops");
  fpl_child_kill(&child);
}

static void hands_no_other_descriptor_to_a_child(void **state) {
  struct place *place = *state;
  const int leaky = open("/dev/null", O_RDONLY); /* without O_CLOEXEC */
  assert_true(leaky >= 0);
  char script[64];
  (void)snprintf(script, sizeof script, "test ! -e /proc/self/fd/%d", leaky);
  const char *const argv[] = {"/bin/sh", "-c", script, NULL};
  struct fpl_child child;
  int code = -1;
  assert_int_equal(fpl_child_start(argv, FPL_STDERR_SHARED, &child, &place->err), FPL_OK);
  assert_int_equal(fpl_child_wait(&child, 10 * SECOND_US, &code, &place->err), FPL_OK);
  assert_int_equal(code, 0);
  fpl_child_kill(&child);
  (void)close(leaky);
}

static void finds_the_child_that_ends_first(void **state) {
  struct place *place = *state;
  const char *const slow[] = {"/bin/sleep", "100", NULL};
  const char *const fast[] = {"/bin/sh", "-c", "exit 3", NULL};
  struct fpl_child children[3] = {{0}};
  int code = 0;
  assert_int_equal(fpl_child_start(slow, FPL_STDERR_SHARED, &children[1], &place->err), FPL_OK);
  assert_int_equal(fpl_child_first_ended(children, 3, 0.01 * SECOND_US), -1);
  assert_int_equal(fpl_child_start(fast, FPL_STDERR_SHARED, &children[2], &place->err), FPL_OK);
  assert_int_equal(fpl_child_first_ended(children, 3, 10 * SECOND_US), 2);
  assert_int_equal(fpl_child_wait(&children[2], 0.0, &code, &place->err), FPL_OK);
  assert_int_equal(code, 3);
  fpl_child_kill(&children[1]);
  fpl_child_kill(&children[2]);
}

static void gives_up_on_a_silent_pipe(void **state) {
  struct place *place = *state;
  int ends[2];
  char *got = NULL;
  size_t length = 0;
  assert_int_equal(pipe(ends), 0);
  assert_int_equal(fpl_pipe_read(ends[0], 1000.0, &place->arena, &got, &length, &place->err),
                   FPL_IO_TIMEOUT);
  assert_int_equal(write(ends[1], "\x05\0\0\0ab", 6), 6); /* half a message */
  assert_int_equal(fpl_pipe_read(ends[0], 1000.0, &place->arena, &got, &length, &place->err),
                   FPL_IO_TIMEOUT);
  static char big[1 << 20]; /* more than a pipe holds */
  assert_int_equal(fpl_pipe_write(ends[1], big, sizeof big, 1000.0, &place->err), FPL_IO_TIMEOUT);
  (void)close(ends[0]);
  (void)close(ends[1]);
}

static void reports_a_pipe_whose_other_end_is_gone(void **state) {
  struct place *place = *state;
  int ends[2];
  char *got = NULL;
  size_t length = 0;
  assert_int_equal(pipe(ends), 0);
  (void)close(ends[0]);
  assert_int_equal(fpl_pipe_write(ends[1], "x", 1, SECOND_US, &place->err), FPL_IO);
  (void)close(ends[1]);
  assert_int_equal(pipe(ends), 0);
  assert_int_equal(write(ends[1], "\xff\xff\xff\xff", 4), 4); /* no length of ours */
  assert_int_equal(fpl_pipe_read(ends[0], SECOND_US, &place->arena, &got, &length, &place->err),
                   FPL_IO);
  (void)close(ends[1]);
  assert_int_equal(fpl_pipe_read(ends[0], SECOND_US, &place->arena, &got, &length, &place->err),
                   FPL_IO);
  (void)close(ends[0]);
}

static void knows_its_own_path_and_processors(void **state) {
  struct place *place = *state;
  char *path = NULL;
  assert_int_equal(fpl_self_path(&place->arena, &path, &place->err), FPL_OK);
  assert_int_equal(path[0], '/');
  assert_true(fpl_path_exists(path));
  assert_true(fpl_cpu_count() >= 1);
  assert_true(fpl_unix_seconds() > 1700000000);
  const double before_us = fpl_now_us();
  assert_true(fpl_now_us() >= before_us);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(writes_a_file_and_reads_it_back, set_up, tear_down),
      cmocka_unit_test_setup_teardown(keeps_the_old_file_when_a_write_fails, set_up, tear_down),
      cmocka_unit_test_setup_teardown(refuses_what_is_no_regular_file_or_too_large, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(makes_and_removes_nested_directories, set_up, tear_down),
      cmocka_unit_test_setup_teardown(removes_a_link_but_not_what_it_names, set_up, tear_down),
      cmocka_unit_test_setup_teardown(publishes_a_directory_once, set_up, tear_down),
      cmocka_unit_test_setup_teardown(talks_to_a_child_in_whole_messages, set_up, tear_down),
      cmocka_unit_test_setup_teardown(tells_exit_codes_and_signals, set_up, tear_down),
      cmocka_unit_test_setup_teardown(kills_a_child_at_its_deadline, set_up, tear_down),
      cmocka_unit_test_setup_teardown(kills_the_childs_own_children, set_up, tear_down),
      cmocka_unit_test_setup_teardown(tells_why_a_program_cannot_be_started, set_up, tear_down),
      cmocka_unit_test_setup_teardown(captures_stderr, set_up, tear_down),
      cmocka_unit_test_setup_teardown(hands_no_other_descriptor_to_a_child, set_up, tear_down),
      cmocka_unit_test_setup_teardown(finds_the_child_that_ends_first, set_up, tear_down),
      cmocka_unit_test_setup_teardown(gives_up_on_a_silent_pipe, set_up, tear_down),
      cmocka_unit_test_setup_teardown(reports_a_pipe_whose_other_end_is_gone, set_up, tear_down),
      cmocka_unit_test_setup_teardown(knows_its_own_path_and_processors, set_up, tear_down),
  };
  cmocka_set_message_output(CM_OUTPUT_TAP);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
