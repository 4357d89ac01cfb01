/* What may a test change under a process from outside? How long a sync takes, and what time its wall clock shows.
 *
 * Preloaded (LD_PRELOAD) into a node. HEADRACE_SHIM names a file of two int64: the delay of each sync in ms, and how far the wall
 * clock is ahead in ms. The file is mapped, so a test changes both while the node runs.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *control;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("HEADRACE_SHIM");
  int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  void *mapped = mmap(NULL, 16, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (mapped != MAP_FAILED) control = mapped;
}

static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

static void wait_for_sync(void) {
  int64_t ms = control == NULL ? 0 : control[0];
  if (ms > 0) {
    struct timespec span = {ms / 1000, (ms % 1000) * 1000000};
    nanosleep(&span, NULL);
  }
}

int fsync(int file) {
  static int (*next)(int);
  if (next == NULL) next = real("fsync");
  wait_for_sync();
  return next(file);
}

int fdatasync(int file) {
  static int (*next)(int);
  if (next == NULL) next = real("fdatasync");
  wait_for_sync();
  return next(file);
}

static int64_t ahead_ms(void) { return control == NULL ? 0 : control[1]; }

int clock_gettime(clockid_t clock, struct timespec *out) {
  static int (*next)(clockid_t, struct timespec *);
  if (next == NULL) next = real("clock_gettime");
  int result = next(clock, out);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    int64_t ns = (int64_t)out->tv_sec * 1000000000 + out->tv_nsec + ahead_ms() * 1000000;
    out->tv_sec = ns / 1000000000;
    out->tv_nsec = ns % 1000000000;
  }
  return result;
}

time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != NULL) *out = now.tv_sec;
  return now.tv_sec;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
  struct timespec now;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  out->tv_sec = now.tv_sec;
  out->tv_usec = now.tv_nsec / 1000;
  return 0;
}
