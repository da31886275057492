// SPDX-License-Identifier: Apache-2.0
/* What the examples share: tokens in files, and the end after an error. */
#ifndef COMMON_H
#define COMMON_H

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <ipnuma.h>

/* Ends the program if a call failed. */
static inline void must(int status, const char *what) {
  char why[512];
  if (status >= 0) return;
  if (ipn_error_message(why, sizeof why) == 0) snprintf(why, sizeof why, "%s", ipn_strerror(status));
  fprintf(stderr, "error: %s: %s\n", what, why);
  exit(1);
}

/* Ends the program if a call failed with the token of a file: with 2 if another token would help. */
static inline void must_accept(int status, const char *path) {
  if (status != -EINVAL && status != -EACCES && status != -ENOENT && status != -EKEYREVOKED) {
    must(status, path);
    return;
  }
  char why[512] = "";
  ipn_error_message(why, sizeof why);
  fprintf(stderr, "error: %s: %s\n", path, why);
  exit(2);
}

/* A whole number of the command line, `most` at most; ends the program with 2 if it is none. */
static inline uint64_t number(const char *name, const char *text, uint64_t most) {
  char *end;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 10);
  /* strtoull() takes blanks and signs, too. */
  if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || value > most) {
    fprintf(stderr, "error: %s is \"%s\"; write a whole number up to %llu\n", name, text, (unsigned long long)most);
    exit(2);
  }
  return value;
}

/* A token is a capability: the file is for its owner only, and appears when it is whole. */
static inline void give_token(const char *path, const ipn_token *token) {
  char partial[4200];
  snprintf(partial, sizeof partial, "%s.partial", path);
  FILE *file = fopen(partial, "wbx");
  if (file == NULL || fwrite(token->bytes, sizeof token->bytes, 1, file) != 1 || fclose(file) != 0 || rename(partial, path) != 0) {
    perror(path);
    exit(1);
  }
}

/* Ends the program, as the file holds no token. */
static inline void no_file(const char *path) {
  fprintf(stderr, "error: %s: %s; name the file that the other side writes\n", path, strerror(errno));
  exit(2);
}

/* Reads the token in a file that is there. */
static inline ipn_token read_token(FILE *file, const char *path) {
  ipn_token token;
  size_t count = fread(token.bytes, 1, sizeof token.bytes, file);
  while (fgetc(file) != EOF) count++;
  if (ferror(file)) no_file(path);
  if (count != sizeof token.bytes) {
    fprintf(stderr,
            "error: %s: the token is not valid: it has %zu bytes instead of 64; "
            "pass on all that the server exported, and nothing else\n",
            path, count);
    exit(2);
  }
  fclose(file);
  return token;
}

/* Waits up to ten seconds for the file. */
static inline ipn_token take_token(const char *path) {
  for (int tries = 0; tries < 10000; tries++) {
    FILE *file = fopen(path, "rb");
    if (file != NULL) return read_token(file, path);
    if (errno != ENOENT) no_file(path);
    const struct timespec pause = {0, 1000000};
    nanosleep(&pause, NULL);
  }
  fprintf(stderr, "error: %s: no token came in ten seconds; start the other side, too\n", path);
  exit(1);
}

/* Waits until everything is at the peer, which may have gone already when it has all it wants. */
static inline void settle(const ipn_window *window) {
  int status = ipn_flush(window, IPN_DELIVERED, 10000000000);
  if (status != -EKEYREVOKED && status != -EHOSTUNREACH) must(status, "ipn_flush");
}

/*
 * Between two polls of the word at `offset` that found `seen` there. Where both sides and daemons share a processor, one has to make
 * way. In a guest of the rack no time passes while a program spins: with `waits` it waits in ipn_wait(), and a store wakes it;
 * elsewhere only a signal would. Ends the program if the other side is gone: nothing will come then.
 */
static inline void make_way(const ipn_region *region, const ipn_window *window, size_t offset, uint64_t seen, int waits) {
  static uint64_t polls, epoch;
  if (polls++ == 0) must(ipn_epoch(window, &epoch), "ipn_epoch");
  if (polls % 256 != 0) return;
  int status = ipn_check(window, epoch);
  /* What it stored last is there when it is known to be gone. */
  if (status != 0 && __atomic_load_n((const uint64_t *)((const char *)ipn_mem_address(region) + offset), __ATOMIC_ACQUIRE) != seen) return;
  must(status, "the other side");
  if (waits) ipn_wait(region, offset, seen, -1, NULL);
  else sched_yield();
}

static inline uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
