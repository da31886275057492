// SPDX-License-Identifier: Apache-2.0
// Stands between the process of a User-Mode Linux kernel and the host. Preloaded; nothing of the kernel is changed.
//
// Randomness. The kernel takes the seed of its random generator from getrandom(2), and more of it later. Here the same seed
// (IPNUMA_UML_SEED) gives the same numbers, so that port numbers, sequence numbers and hash tables of the guest are the same
// in every run. Not for secrets. /dev/random and /dev/hwrng can't be opened: a driver of the kernel would read them.
//
// Names. The guest finds its init at /proc/self/cwd/init of the host: links, which it would follow itself, and then keep every
// directory of the host's path in its memory, so that where its pages are would depend on that path. Here they look like what
// they lead to, and the host follows them.
//
// Large registers. Linux 6.1 saves 2,696 bytes of a process's floating-point state, and sets as many by ptrace(2); the host
// refuses unless it is all that the processor has, which is more where there is AMX. What is missing is added here: zeros.
//
// The end. Who started the kernel may be killed while a guest computes: the kernel ends with it, and its programs with the kernel.
//
// The time stamp counter is in counter.c.
#define _GNU_SOURCE
#include "host.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static uint64_t state;

static void end_with_parent(void) { prctl(PR_SET_PDEATHSIG, SIGKILL); }

// While it begins the kernel forks, to try out ptrace: who is stopped then would outlive it.
__attribute__((constructor)) static void end_all_with_parent(void) {
  end_with_parent();
  pthread_atfork(NULL, NULL, end_with_parent);
}

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

// As if these links were what they lead to. The kernel's file system puts slashes before a name.
static int leads_to_init(const char *path) {
  while (path[0] == '/' && path[1] == '/') path++;
  return !strcmp(path, "/proc/self") || !strcmp(path, "/proc/self/cwd") || !strcmp(path, "/proc/self/cwd/init");
}

int lstat64(const char *path, struct stat64 *found) {
  return fstatat64(AT_FDCWD, path, found, leads_to_init(path) ? 0 : AT_SYMLINK_NOFOLLOW);
}

#ifdef __x86_64__
// Where the XSAVE header says which parts are there, and the parts that end within 2,696 bytes: up to PKRU.
enum { XSTATE_BV = 512, KERNEL_BYTES = 2696, MOST_BYTES = 65536 };
static const uint64_t kernel_parts = 0x3ff;

// Sets the whole state of a process, of which the kernel knows the first part.
static long set_state(pid_t pid, const struct iovec *part) {
  static _Alignas(64) unsigned char whole[MOST_BYTES];
  static size_t length;
  if (!length) {
    struct iovec all = {whole, sizeof whole};
    if (syscall(SYS_ptrace, PTRACE_GETREGSET, pid, NT_X86_XSTATE, &all)) return -1;
    length = all.iov_len;
    memset(whole, 0, sizeof whole);
  }
  if (length <= part->iov_len || part->iov_len != KERNEL_BYTES)
    return syscall(SYS_ptrace, PTRACE_SETREGSET, pid, NT_X86_XSTATE, part);
  memcpy(whole, part->iov_base, KERNEL_BYTES);
  uint64_t parts;
  memcpy(&parts, whole + XSTATE_BV, sizeof parts);
  parts &= kernel_parts;
  memcpy(whole + XSTATE_BV, &parts, sizeof parts);
  struct iovec all = {whole, length};
  return syscall(SYS_ptrace, PTRACE_SETREGSET, pid, NT_X86_XSTATE, &all);
}

long ptrace(enum __ptrace_request request, ...) {
  va_list rest;
  va_start(rest, request);
  pid_t pid = va_arg(rest, pid_t);
  void *address = va_arg(rest, void *);
  void *data = va_arg(rest, void *);
  va_end(rest);
  if (request == PTRACE_TRACEME) counter_begin();
  // Both numbers mean the same; the kernel uses the old one, which has no name here.
  if (request == PTRACE_SETOPTIONS || (int)request == 21) data = (void *)((uintptr_t)data | PTRACE_O_EXITKILL);
  if (request == PTRACE_SETREGSET && (uintptr_t)address == NT_X86_XSTATE) return set_state(pid, data);
  if (request >= PTRACE_PEEKTEXT && request <= PTRACE_PEEKUSER) {
    // The library returns the word itself.
    long word;
    long result = syscall(SYS_ptrace, request, pid, address, &word);
    return result < 0 ? result : word;
  }
  return syscall(SYS_ptrace, request, pid, address, data);
}
#endif
