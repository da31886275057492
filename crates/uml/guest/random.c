// SPDX-License-Identifier: Apache-2.0
// Stands in for the host's randomness in the process of a User-Mode Linux kernel, which takes the seed of its random
// generator from getrandom(2), and more of it later. The same seed (IPNUMA_UML_SEED) gives the same numbers; so port
// numbers, sequence numbers and hash tables of the guest are the same in every run. Not for secrets.
//
// Preloaded. /dev/random and /dev/hwrng of the host can't be opened: a driver of the kernel would read them.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static uint64_t state;

// FNV-1a of the seed.
__attribute__((constructor)) static void seed(void) {
  const char *text = getenv("IPNUMA_UML_SEED");
  state = 0xcbf29ce484222325u;
  for (; text && *text; text++) state = (state ^ (unsigned char)*text) * 0x100000001b3u;
}

// SplitMix64.
static uint64_t next(void) {
  uint64_t word = state += 0x9e3779b97f4a7c15u;
  word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9u;
  word = (word ^ word >> 27) * 0x94d049bb133111ebu;
  return word ^ word >> 31;
}

ssize_t getrandom(void *buffer, size_t length, unsigned int flags) {
  (void)flags;
  for (size_t at = 0; at < length; at += 8) {
    uint64_t word = next();
    memcpy((char *)buffer + at, &word, length - at < 8 ? length - at : 8);
  }
  return (ssize_t)length;
}

static int open_any(const char *path, int flags, unsigned int mode) {
  if (!strcmp(path, "/dev/random") || !strcmp(path, "/dev/hwrng")) {
    errno = ENOENT;
    return -1;
  }
  return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int open(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  unsigned int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, unsigned int) : 0;
  va_end(rest);
  return open_any(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  unsigned int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, unsigned int) : 0;
  va_end(rest);
  return open_any(path, flags | O_LARGEFILE, mode);
}
