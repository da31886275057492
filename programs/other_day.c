// SPDX-License-Identifier: Apache-2.0
// Preloaded, it makes a program see this machine on another day: its clock, the times of its files, its name. Only for the
// test that runs of the rack do not depend on them (test_rack_hash.py).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <time.h>

// A year less some hours: date, weekday and time of day are others.
enum { LATER = 365 * 24 * 3600 - 7 * 3600 - 11 };

static void *next(const char *name) { return dlsym(RTLD_NEXT, name); }

int clock_gettime(clockid_t clock, struct timespec *time) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = next("clock_gettime");
  int result = real(clock, time);
  // The machine has been up for longer, too.
  if (!result) time->tv_sec += LATER;
  return result;
}

int gettimeofday(struct timeval *time, void *zone) {
  static int (*real)(struct timeval *, void *);
  if (!real) real = next("gettimeofday");
  int result = real(time, zone);
  if (!result) time->tv_sec += LATER;
  return result;
}

time_t time(time_t *time) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (time) *time = now.tv_sec;
  return now.tv_sec;
}

int uname(struct utsname *name) {
  static int (*real)(struct utsname *);
  if (!real) real = next("uname");
  int result = real(name);
  if (!result) strcpy(name->nodename, "another-machine");
  return result;
}

#define LATER_BY(found)                                              \
  (found->st_atim.tv_sec += LATER, found->st_mtim.tv_sec += LATER, found->st_ctim.tv_sec += LATER)

#define STAT(function, type, object)                                 \
  int function(object, struct type *found) {                         \
    static int (*real)(object, struct type *);                       \
    if (!real) real = next(#function);                               \
    int result = real(which, found);                                 \
    if (!result) LATER_BY(found);                                    \
    return result;                                                   \
  }

#define PATH const char *which
#define DESCRIPTOR int which
STAT(stat, stat, PATH)
STAT(lstat, stat, PATH)
STAT(fstat, stat, DESCRIPTOR)
STAT(stat64, stat64, PATH)
STAT(lstat64, stat64, PATH)
STAT(fstat64, stat64, DESCRIPTOR)

int fstatat64(int directory, const char *path, struct stat64 *found, int flags) {
  static int (*real)(int, const char *, struct stat64 *, int);
  if (!real) real = next("fstatat64");
  int result = real(directory, path, found, flags);
  if (!result) LATER_BY(found);
  return result;
}
