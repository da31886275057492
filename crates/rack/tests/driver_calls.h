// SPDX-License-Identifier: Apache-2.0
/* What programs that speak to the driver itself have in common: linux/ipnuma/ipnuma_uapi.h. */
#ifndef DRIVER_CALLS_H
#define DRIVER_CALLS_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#include "ipnuma_uapi.h"

#define EPOCH 5
#define TAG 7

static inline void must(long result, const char *what) {
  if (result < 0) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
  }
}

/* What a machine sends to another with: anybody can guess it. */
static inline void key(unsigned *words, unsigned *salt, unsigned from, unsigned to) {
  for (unsigned word = 0; word < 4; word++)
    words[word] = from << 16 | to << 8 | word;
  *salt = from << 8 | to;
}

static inline void know(int nic, unsigned session, unsigned own, unsigned machine, int sealed) {
  struct ipnuma_peer peer = {
      .mac = 0x020000000000ull + machine,
      .ip = 0x0A000000 + machine,
      .session = session,
      .peer_session = 1,
      .epoch = EPOCH,
      .flags = IPNUMA_PEER_VALID,
  };
  struct ipnuma_sealed_peer keyed = {.peer = peer};
  key(keyed.words, &keyed.words[8], own, machine);
  key(keyed.words + 4, &keyed.words[9], machine, own);
  if (sealed)
    must(ioctl(nic, IPNUMA_SEALED_PEER, &keyed), "SEALED_PEER");
  else
    must(ioctl(nic, IPNUMA_PEER, &peer), "PEER");
}

static inline int window_at(int nic, unsigned session, unsigned key, unsigned long long first) {
  struct ipnuma_window wanted = {.first = first, .bytes = 4096, .session = session, .key = key, .tag = TAG, .rights = IPNUMA_WRITE};
  must(ioctl(nic, IPNUMA_WINDOW, &wanted), "WINDOW");
  return wanted.fd;
}

static inline int window(int nic, unsigned session, unsigned key) { return window_at(nic, session, key, 0); }

/* Numbers that the two tell each other, each in a file of its own. */
static inline void tell(const char *directory, const char *name, unsigned long long number) {
  char written[2048], path[2048];
  snprintf(written, sizeof written, "%s/%s.new", directory, name);
  snprintf(path, sizeof path, "%s/%s", directory, name);
  FILE *file = fopen(written, "w");
  must(file ? 0 : -1, written);
  fprintf(file, "%llu\n", number);
  fclose(file);
  must(rename(written, path), path);
}

static inline unsigned long long hear(const char *directory, const char *name) {
  char path[2048];
  FILE *file;
  unsigned long long number = 0;
  snprintf(path, sizeof path, "%s/%s", directory, name);
  while ((file = fopen(path, "r")) == NULL) {
    struct timespec some = {.tv_nsec = 100000};
    nanosleep(&some, NULL);
  }
  must(fscanf(file, "%llu", &number) == 1 ? 0 : -1, path);
  fclose(file);
  return number;
}

#endif
