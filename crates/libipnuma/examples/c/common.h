// SPDX-License-Identifier: Apache-2.0
/* What the examples share: tokens in files, and the end after an error. */
#ifndef COMMON_H
#define COMMON_H

#include <errno.h>
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
  fprintf(stderr, "%s: %s\n", what, ipn_strerror(status));
  if (ipn_error_message(why, sizeof why) > 0) fprintf(stderr, "%s\n", why);
  exit(1);
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

/* Waits up to ten seconds for the file. */
static inline ipn_token take_token(const char *path) {
  ipn_token token;
  for (int tries = 0; tries < 10000; tries++) {
    FILE *file = fopen(path, "rb");
    if (file != NULL) {
      size_t count = fread(token.bytes, sizeof token.bytes, 1, file);
      fclose(file);
      if (count == 1) return token;
    }
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  fprintf(stderr, "%s: no token came in ten seconds\n", path);
  exit(1);
}

/* Waits until everything is at the peer, which may have gone already when it has all it wants. */
static inline void settle(const ipn_window *window) {
  int status = ipn_flush(window, IPN_DELIVERED, 10000000000);
  if (status != -EKEYREVOKED && status != -EHOSTUNREACH) must(status, "ipn_flush");
}

static inline uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
