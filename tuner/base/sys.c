/* Files, directories, child processes, pipes, time.
 *
 * Decides: what is durable (temporary, fsync, rename, fsync of the folder), how a child is bound to
 * us (own process group, dies with us, inherits three descriptors and nothing else), how a message
 * crosses a pipe. Leaves to others: what is in a file or a message, when a child is started.
 */
#define _GNU_SOURCE

#include "tuner/base/sys.h"

#include "tuner/base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
  READ_STEP_BYTES = 1 << 16,
  TEMPORARY_NAME_TRIES = 100,
  TREE_OPEN_FOLDERS = 16,      /* descriptors that nftw may hold */
  MESSAGE_MOST_BYTES = 1 << 30 /* a longer length is garbage, not a message */
};

static void close_quietly(int fd) {
  if (fd >= 0) {
    (void)close(fd);
  }
}

/* "path: cannot <verb>: <reason>", with the remedy where the reason has a common one. */
static enum fpl_status fail_errno(struct fpl_err *err, const char *path, const char *verb,
                                  int error) {
  const char *remedy = "";
  if (error == ENOSPC || error == EDQUOT) {
    remedy = ": free some space or choose another place; nothing was replaced";
  } else if (error == EROFS || error == EACCES || error == EPERM) {
    remedy = ": choose a place that this user may use";
  }
  return fpl_fail(err, FPL_IO, "%s: cannot %s: %s%s", path, verb, strerror(error), remedy);
}

static enum fpl_status read_to_end(int fd, const char *path, size_t most_bytes,
                                   struct fpl_text *text, struct fpl_err *err) {
  char *step = malloc(READ_STEP_BYTES);
  if (step == NULL) {
    return fpl_fail(err, FPL_NO_MEMORY, "%s: out of memory", path);
  }
  enum fpl_status status = FPL_OK;
  for (;;) {
    const ssize_t got = read(fd, step, READ_STEP_BYTES);
    if (got == 0) {
      break;
    }
    if (got < 0) {
      if (errno == EINTR) {
        continue;
      }
      status = fail_errno(err, path, "read", errno);
      break;
    }
    fpl_text_append_bytes(text, step, (size_t)got);
    if (text->is_broken) {
      status = fpl_fail(err, FPL_NO_MEMORY, "%s: out of memory", path);
      break;
    }
    if (text->length > most_bytes) {
      status = fpl_fail(err, FPL_PARSE, "%s: file is larger than %zu bytes", path, most_bytes);
      break;
    }
  }
  free(step);
  return status;
}

enum fpl_status fpl_file_read(struct fpl_arena *arena, const char *path, size_t most_bytes,
                              char **out, size_t *out_length, struct fpl_err *err) {
  /* O_NONBLOCK: opening a FIFO must not wait for its writer. */
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return fail_errno(err, path, "open", errno);
  }
  struct fpl_text text = {0};
  enum fpl_status status = FPL_OK;
  struct stat facts;
  if (fstat(fd, &facts) != 0) {
    status = fail_errno(err, path, "read", errno);
  } else if (!S_ISREG(facts.st_mode)) {
    status = fpl_fail(err, FPL_IO, "%s: not a regular file", path);
  } else if ((uint64_t)facts.st_size > most_bytes) {
    status = fpl_fail(err, FPL_PARSE, "%s: file is larger than %zu bytes", path, most_bytes);
  } else {
    status = read_to_end(fd, path, most_bytes, &text, err);
  }
  if (status == FPL_OK) {
    char *copy = fpl_arena_copy(arena, text.length > 0 ? text.text : "", text.length);
    if (copy == NULL) {
      status = fpl_fail(err, FPL_NO_MEMORY, "%s: out of memory", path);
    } else {
      *out = copy;
      *out_length = text.length;
    }
  }
  fpl_text_free(&text);
  close_quietly(fd);
  return status;
}

/* Makes the name in a folder durable. Some file systems cannot sync a folder: not an error. */
static enum fpl_status sync_parent(const char *path, struct fpl_err *err) {
  const char *slash = strrchr(path, '/');
  char *folder = NULL;
  if (slash == NULL) {
    folder = strdup(".");
  } else {
    folder = strndup(path, slash == path ? 1 : (size_t)(slash - path));
  }
  if (folder == NULL) {
    return fpl_fail(err, FPL_NO_MEMORY, "%s: out of memory", path);
  }
  enum fpl_status status = FPL_OK;
  const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    status = fail_errno(err, folder, "open", errno);
  } else if (fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP && errno != EROFS) {
    status = fail_errno(err, folder, "sync", errno);
  }
  close_quietly(fd);
  free(folder);
  return status;
}

/* Opens a fresh "<path>.tmp-<pid>-<n>"; the mode follows the umask, as for any new file. */
static int open_temporary(const char *path, char **out_name) {
  for (int try_index = 0; try_index < TEMPORARY_NAME_TRIES; try_index++) {
    char *name = NULL;
    if (asprintf(&name, "%s.tmp-%d-%d", path, (int)getpid(), try_index) < 0) {
      errno = ENOMEM;
      return -1;
    }
    const int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) {
      *out_name = name;
      return fd;
    }
    const int error = errno;
    free(name);
    errno = error;
    if (error != EEXIST) {
      return -1;
    }
  }
  return -1;
}

/* 0, or the errno. */
static int write_all(int fd, const char *bytes, size_t length) {
  while (length > 0) {
    const ssize_t put = write(fd, bytes, length);
    if (put < 0) {
      if (errno == EINTR) {
        continue;
      }
      return errno;
    }
    bytes += put;
    length -= (size_t)put;
  }
  return 0;
}

enum fpl_status fpl_file_write(const char *path, const void *bytes, size_t length,
                               struct fpl_err *err) {
  char *temporary = NULL;
  const int fd = open_temporary(path, &temporary);
  if (fd < 0) {
    return fail_errno(err, path, "write", errno);
  }
  int error = write_all(fd, bytes, length);
  if (error == 0 && fsync(fd) != 0) {
    error = errno;
  }
  /* Network file systems report a full disk only here. */
  if (close(fd) != 0 && error == 0) {
    error = errno;
  }
  if (error == 0 && rename(temporary, path) != 0) {
    error = errno;
  }
  enum fpl_status status = FPL_OK;
  if (error != 0) {
    (void)unlink(temporary);
    status = fail_errno(err, path, "write", error);
  } else {
    status = sync_parent(path, err);
  }
  free(temporary);
  return status;
}

static bool is_dir(const char *path) {
  struct stat facts;
  return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

static enum fpl_status make_one_dir(const char *path, struct fpl_err *err) {
  if (mkdir(path, 0777) == 0 || (errno == EEXIST && is_dir(path))) {
    return FPL_OK;
  }
  if (errno == EEXIST) {
    return fpl_fail(err, FPL_IO, "%s: exists and is not a directory", path);
  }
  return fail_errno(err, path, "make directory", errno);
}

enum fpl_status fpl_dir_make(const char *path, struct fpl_err *err) {
  if (is_dir(path)) {
    return FPL_OK;
  }
  char *part = strdup(path);
  if (part == NULL) {
    return fpl_fail(err, FPL_NO_MEMORY, "%s: out of memory", path);
  }
  enum fpl_status status = FPL_OK;
  for (char *at = part; *at != '\0' && status == FPL_OK; at++) {
    if (*at != '/' || at == part) {
      continue;
    }
    *at = '\0';
    status = make_one_dir(part, err);
    *at = '/';
  }
  if (status == FPL_OK) {
    status = make_one_dir(path, err);
  }
  free(part);
  return status;
}

bool fpl_path_exists(const char *path) {
  struct stat facts;
  return stat(path, &facts) == 0;
}

static int remove_entry(const char *path, const struct stat *facts, int type, struct FTW *place) {
  (void)facts;
  (void)type;
  (void)place;
  /* Another process may remove the same tree at the same time. */
  return remove(path) != 0 && errno != ENOENT ? -1 : 0;
}

enum fpl_status fpl_dir_remove(const char *path, struct fpl_err *err) {
  if (path[0] == '\0' || strcmp(path, "/") == 0 || strcmp(path, ".") == 0 ||
      strcmp(path, "..") == 0) {
    return fpl_fail(err, FPL_INTERNAL, "'%s': refused to remove", path);
  }
  if (nftw(path, remove_entry, TREE_OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS) != 0 && errno != ENOENT) {
    return fail_errno(err, path, "remove", errno);
  }
  return FPL_OK;
}

enum fpl_status fpl_dir_temporary(struct fpl_arena *arena, const char *parent, const char *prefix,
                                  char **out, struct fpl_err *err) {
  struct fpl_text name = {0};
  fpl_text_append(&name, "%s/%s-XXXXXX", parent, prefix);
  char *path = name.is_broken ? NULL : fpl_arena_copy(arena, name.text, name.length);
  fpl_text_free(&name);
  if (path == NULL) {
    return fpl_fail(err, FPL_NO_MEMORY, "%s: out of memory", parent);
  }
  if (mkdtemp(path) == NULL) {
    return fail_errno(err, parent, "make a temporary directory in", errno);
  }
  *out = path;
  return FPL_OK;
}

enum fpl_status fpl_dir_publish(const char *from, const char *to, bool *out_lost,
                                struct fpl_err *err) {
  *out_lost = false;
  if (rename(from, to) == 0) {
    return sync_parent(to, err);
  }
  if (errno == EEXIST || errno == ENOTEMPTY) {
    *out_lost = true;
    return FPL_OK;
  }
  return fail_errno(err, to, "rename a directory to", errno);
}

double fpl_now_us(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

int64_t fpl_unix_seconds(void) {
  return (int64_t)time(NULL);
}

/* A pipe whose ends are above stderr, so that dup2 onto 0..2 never meets itself. */
static int open_pipe(int ends[2]) {
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return errno;
  }
  for (int i = 0; i < 2; i++) {
    if (ends[i] > STDERR_FILENO) {
      continue;
    }
    const int moved = fcntl(ends[i], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (moved < 0) {
      const int error = errno;
      close_quietly(ends[0]);
      close_quietly(ends[1]);
      ends[0] = ends[1] = -1;
      return error;
    }
    close_quietly(ends[i]);
    ends[i] = moved;
  }
  return 0;
}

/* The pipes of a child that is being started: [0] is read, [1] is written. */
enum { PIPE_IN, PIPE_OUT, PIPE_ERRORS, PIPE_EXEC, N_PIPES };

static void close_pipes(int pipes[N_PIPES][2]) {
  for (int i = 0; i < N_PIPES; i++) {
    close_quietly(pipes[i][0]);
    close_quietly(pipes[i][1]);
  }
}

/* Between fork and exec: only calls that are safe after the fork of a threaded process. */
static _Noreturn void become(const char *const *argv, enum fpl_child_stderr stderr_mode,
                             int pipes[N_PIPES][2], pid_t parent) {
  int error = 0;
  (void)setpgid(0, 0);
  sigset_t none;
  (void)sigemptyset(&none);
  (void)sigprocmask(SIG_SETMASK, &none, NULL);
  (void)signal(SIGPIPE, SIG_DFL);
  /* Linux ties this to the thread that forked: start children from one that stays. */
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
    error = errno;
  }
  if (getppid() != parent) {
    _exit(128 + SIGKILL); /* the parent died before the request above */
  }
  int errors = pipes[PIPE_ERRORS][1];
  if (stderr_mode == FPL_STDERR_DISCARDED) {
    errors = open("/dev/null", O_WRONLY | O_CLOEXEC);
  }
  if (error == 0 &&
      (dup2(pipes[PIPE_IN][0], STDIN_FILENO) < 0 || dup2(pipes[PIPE_OUT][1], STDOUT_FILENO) < 0 ||
       (stderr_mode != FPL_STDERR_SHARED && dup2(errors, STDERR_FILENO) < 0))) {
    error = errno;
  }
  /* Descriptors that some library opened without the flag; an old kernel refuses, harmlessly. */
  (void)close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  if (error == 0) {
    union {
      const char *const *given;
      char *const *wanted;
    } words = {.given = argv}; /* execv does not write through it; POSIX keeps the old type */
    (void)execv(argv[0], words.wanted);
    error = errno;
  }
  (void)!write(pipes[PIPE_EXEC][1], &error, sizeof error);
  _exit(127);
}

static int take(int *fd) {
  const int taken = *fd;
  *fd = -1;
  return taken;
}

enum fpl_status fpl_child_start(const char *const *argv, enum fpl_child_stderr stderr_mode,
                                struct fpl_child *out, struct fpl_err *err) {
  int pipes[N_PIPES][2] = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
  *out = (struct fpl_child){.pid = 0, .to_child = -1, .from_child = -1, .errors = -1};
  for (int i = 0; i < N_PIPES; i++) {
    if (i == PIPE_ERRORS && stderr_mode != FPL_STDERR_CAPTURED) {
      continue;
    }
    const int error = open_pipe(pipes[i]);
    if (error != 0) {
      close_pipes(pipes);
      return fail_errno(err, argv[0], "make a pipe for", error);
    }
  }
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    become(argv, stderr_mode, pipes, parent);
  }
  if (pid < 0) {
    const int error = errno;
    close_pipes(pipes);
    return fail_errno(err, argv[0], "start", error);
  }
  (void)setpgid(pid, pid); /* here too: a kill may come before the child's own call */
  *out = (struct fpl_child){.pid = pid,
                            .to_child = take(&pipes[PIPE_IN][1]),
                            .from_child = take(&pipes[PIPE_OUT][0]),
                            .errors = take(&pipes[PIPE_ERRORS][0])};
  close_quietly(take(&pipes[PIPE_EXEC][1]));
  int error = 0;
  ssize_t got = 0;
  do {
    got = read(pipes[PIPE_EXEC][0], &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  close_pipes(pipes);
  if (got == (ssize_t)sizeof error) {
    fpl_child_kill(out);
    return fail_errno(err, argv[0], "start", error);
  }
  return FPL_OK;
}

static void close_child_pipes(struct fpl_child *child) {
  int *const fds[] = {&child->to_child, &child->from_child, &child->errors};
  for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
    if (*fds[i] > STDERR_FILENO) { /* an all-zero child owns none */
      close_quietly(*fds[i]);
    }
    *fds[i] = -1;
  }
}

/* Kills what is left of the group while the leader's id cannot be reused, then reaps the leader.
 * Returns its exit code, or 128 + signal. */
static int reap(struct fpl_child *child) {
  (void)kill(-child->pid, SIGKILL);
  (void)kill(child->pid, SIGKILL);
  int word = 0;
  pid_t got = 0;
  do {
    got = waitpid(child->pid, &word, 0);
  } while (got < 0 && errno == EINTR);
  child->pid = 0;
  if (got < 0) {
    return 128 + SIGKILL; /* somebody else reaped it; its code is lost */
  }
  return WIFSIGNALED(word) ? 128 + WTERMSIG(word) : WEXITSTATUS(word);
}

void fpl_child_kill(struct fpl_child *child) {
  if (child->pid > 0) {
    (void)reap(child);
  }
  close_child_pipes(child);
}

/* Has it ended? It stays a zombie: its id is still its own. */
static bool has_ended(int pid) {
  siginfo_t facts = {0};
  if (waitid(P_PID, (id_t)pid, &facts, WEXITED | WNOHANG | WNOWAIT) != 0) {
    return errno == ECHILD;
  }
  return facts.si_pid == pid;
}

int fpl_child_first_ended(const struct fpl_child *children, int n, double timeout_us) {
  const double end_us = fpl_now_us() + timeout_us;
  long pause_ns = 20000;
  const long most_pause_ns = 2000000;
  for (;;) {
    for (int i = 0; i < n; i++) {
      if (children[i].pid > 0 && has_ended(children[i].pid)) {
        return i;
      }
    }
    if (fpl_now_us() >= end_us) {
      return -1;
    }
    const struct timespec pause = {.tv_nsec = pause_ns};
    (void)nanosleep(&pause, NULL);
    pause_ns = pause_ns * 2 < most_pause_ns ? pause_ns * 2 : most_pause_ns;
  }
}

enum fpl_status fpl_child_wait(struct fpl_child *child, double deadline_us, int *out_exit,
                               struct fpl_err *err) {
  if (child->pid <= 0) {
    return fpl_fail(err, FPL_INTERNAL, "waited for a child that is not running");
  }
  const bool is_late = fpl_child_first_ended(child, 1, deadline_us) < 0;
  *out_exit = reap(child);
  if (is_late) {
    return fpl_fail(err, FPL_IO_TIMEOUT, "child did not end within %.3f s: killed",
                    deadline_us * 1e-6);
  }
  return FPL_OK;
}

/* Waits until `fd` is ready for `events` or the end is reached. */
static enum fpl_status wait_ready(int fd, short events, double end_us, struct fpl_err *err) {
  for (;;) {
    const double left_ms = (end_us - fpl_now_us()) * 1e-3 + 1.0;
    int timeout_ms = 0;
    if (left_ms >= (double)INT_MAX) {
      timeout_ms = INT_MAX;
    } else if (left_ms > 0.0) {
      timeout_ms = (int)left_ms;
    }
    struct pollfd ready = {.fd = fd, .events = events};
    const int n = poll(&ready, 1, timeout_ms);
    if (n > 0) {
      return FPL_OK;
    }
    if (n < 0 && errno != EINTR) {
      return fpl_fail(err, FPL_IO, "pipe: cannot wait: %s", strerror(errno));
    }
    if (fpl_now_us() >= end_us) {
      return fpl_fail(err, FPL_IO_TIMEOUT, "pipe: the other end did not answer in time");
    }
  }
}

static enum fpl_status put_bytes(int fd, const char *bytes, size_t length, double end_us,
                                 struct fpl_err *err) {
  while (length > 0) {
    const enum fpl_status status = wait_ready(fd, POLLOUT, end_us, err);
    if (status != FPL_OK) {
      return status;
    }
    /* PIPE_BUF: the most that a pipe found writable takes without blocking. */
    const ssize_t put = write(fd, bytes, length < PIPE_BUF ? length : PIPE_BUF);
    if (put < 0) {
      if (errno == EINTR || errno == EAGAIN) {
        continue;
      }
      return fpl_fail(err, FPL_IO, "pipe: cannot write: %s", strerror(errno));
    }
    bytes += put;
    length -= (size_t)put;
  }
  return FPL_OK;
}

enum fpl_status fpl_pipe_write(int fd, const void *bytes, size_t length, double timeout_us,
                               struct fpl_err *err) {
  if (length > MESSAGE_MOST_BYTES) {
    return fpl_fail(err, FPL_INTERNAL, "pipe: message of %zu bytes is too long", length);
  }
  const double end_us = fpl_now_us() + timeout_us;
  char head[4];
  for (int i = 0; i < 4; i++) {
    head[i] = (char)(unsigned char)(length >> (8 * i));
  }
  /* A reader that is gone must be an error, not a signal that ends us: hold SIGPIPE back in this
   * thread, and swallow the one that we cause. */
  sigset_t pipe_signal;
  sigset_t before;
  sigset_t pending;
  (void)sigemptyset(&pipe_signal);
  (void)sigaddset(&pipe_signal, SIGPIPE);
  (void)sigpending(&pending);
  (void)pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  enum fpl_status status = put_bytes(fd, head, sizeof head, end_us, err);
  if (status == FPL_OK) {
    status = put_bytes(fd, bytes, length, end_us, err);
  }
  if (status == FPL_IO && sigismember(&pending, SIGPIPE) == 0) {
    const struct timespec now = {0};
    while (sigtimedwait(&pipe_signal, NULL, &now) < 0 && errno == EINTR) {
    }
  }
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  return status;
}

static enum fpl_status get_bytes(int fd, char *bytes, size_t length, double end_us,
                                 struct fpl_err *err) {
  while (length > 0) {
    const enum fpl_status status = wait_ready(fd, POLLIN, end_us, err);
    if (status != FPL_OK) {
      return status;
    }
    const ssize_t got = read(fd, bytes, length);
    if (got < 0) {
      if (errno == EINTR || errno == EAGAIN) {
        continue;
      }
      return fpl_fail(err, FPL_IO, "pipe: cannot read: %s", strerror(errno));
    }
    if (got == 0) {
      return fpl_fail(err, FPL_IO, "pipe: the other end is gone");
    }
    bytes += got;
    length -= (size_t)got;
  }
  return FPL_OK;
}

enum fpl_status fpl_pipe_read(int fd, double timeout_us, struct fpl_arena *arena, char **out,
                              size_t *out_length, struct fpl_err *err) {
  const double end_us = fpl_now_us() + timeout_us;
  char head[4];
  enum fpl_status status = get_bytes(fd, head, sizeof head, end_us, err);
  if (status != FPL_OK) {
    return status;
  }
  size_t length = 0;
  for (int i = 0; i < 4; i++) {
    length |= (size_t)(unsigned char)head[i] << (8 * i);
  }
  if (length > MESSAGE_MOST_BYTES) {
    return fpl_fail(err, FPL_IO, "pipe: the other end sent no message of ours");
  }
  char *bytes = fpl_arena_alloc(arena, length + 1);
  if (bytes == NULL) {
    return fpl_fail(err, FPL_NO_MEMORY, "pipe: out of memory for a message of %zu bytes", length);
  }
  status = get_bytes(fd, bytes, length, end_us, err);
  if (status == FPL_OK) {
    *out = bytes;
    *out_length = length;
  }
  return status;
}

enum fpl_status fpl_self_path(struct fpl_arena *arena, char **out, struct fpl_err *err) {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  if (length < 0 || (size_t)length >= sizeof path) {
    return fail_errno(err, "/proc/self/exe", "read", length < 0 ? errno : ENAMETOOLONG);
  }
  *out = fpl_arena_copy(arena, path, (size_t)length);
  return *out != NULL ? FPL_OK : fpl_fail(err, FPL_NO_MEMORY, "out of memory");
}

int fpl_cpu_count(void) {
  cpu_set_t usable;
  if (sched_getaffinity(0, sizeof usable, &usable) == 0 && CPU_COUNT(&usable) > 0) {
    return CPU_COUNT(&usable);
  }
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 && online < INT_MAX ? (int)online : 1;
}
