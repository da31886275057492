// SPDX-License-Identifier: Apache-2.0
/*
 * Flushes to a machine that nobody has, more than the NIC has places for marks: each gives up, and its place is the NIC's until
 * that has answered. A store to a machine that is there must not wait for that, as it would behind a mark without a place; a
 * flush must, and be answered.
 *
 *   late_mark ping|pong DIRECTORY sealed|clear
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "ipnuma_uapi.h"

#define EPOCH 5
#define TAG 7
#define SHORT_NS 20000
#define MOST_MARKS 8
/* A store is there long before; the NIC asks a machine for milliseconds before it is lost. */
#define SOON_NS 100000

static void must(long result, const char *what) {
  if (result < 0) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
  }
}

/* What a machine sends to another with: anybody can guess it. */
static void key(unsigned *words, unsigned *salt, unsigned from, unsigned to) {
  for (unsigned word = 0; word < 4; word++)
    words[word] = from << 16 | to << 8 | word;
  *salt = from << 8 | to;
}

static void know(int nic, unsigned session, unsigned own, unsigned machine, int sealed) {
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

static int window(int nic, unsigned session, unsigned key) {
  struct ipnuma_window wanted = {.bytes = 4096, .session = session, .key = key, .tag = TAG, .rights = IPNUMA_WRITE};
  must(ioctl(nic, IPNUMA_WINDOW, &wanted), "WINDOW");
  return wanted.fd;
}

/* 0, or an error's number. */
static int flush(int window, long long timeout_ns) {
  struct ipnuma_flush wanted = {.timeout_ns = timeout_ns};
  return ioctl(window, IPNUMA_FLUSH, &wanted) == 0 ? 0 : errno;
}

static unsigned long long now(int nic) {
  unsigned long long ns;
  must(ioctl(nic, IPNUMA_NOW, &ns), "NOW");
  return ns;
}

static void store(int window, unsigned long long value) {
  must(pwrite(window, &value, sizeof value, 0), "a store");
}

/* Numbers that the two tell each other, each in a file of its own. */
static void tell(const char *directory, const char *name, unsigned long long number) {
  char written[2048], path[2048];
  snprintf(written, sizeof written, "%s/%s.new", directory, name);
  snprintf(path, sizeof path, "%s/%s", directory, name);
  FILE *file = fopen(written, "w");
  must(file ? 0 : -1, written);
  fprintf(file, "%llu\n", number);
  fclose(file);
  must(rename(written, path), path);
}

static unsigned long long hear(const char *directory, const char *name) {
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

static void ping(int nic, const char *directory, int sealed) {
  unsigned key = hear(directory, "key");
  know(nic, 2, 1, 9, sealed);
  int there = window(nic, 1, key), nowhere = window(nic, 2, 1);
  store(nowhere, 1);
  for (int mark = 0; mark < MOST_MARKS + 2; mark++) {
    int ended = flush(nowhere, SHORT_NS);
    if (ended != ETIMEDOUT)
      printf("flush %d to nobody: %s\n", mark, strerror(ended));
  }
  unsigned long long stored = now(nic);
  store(there, 1);
  int ended = flush(there, 1000000000);
  printf("to a machine that is there: %s\n", ended ? strerror(ended) : "flushed");
  unsigned long long took = hear(directory, "arrived") - stored;
  printf("it arrived %s\n", took < SOON_NS ? "soon" : "late");
  fprintf(stderr, "the store arrived after %llu ns\n", took);
  ended = flush(nowhere, -1);
  printf("to nobody: %s\n", strerror(ended));
  store(there, 2);
  ended = flush(there, -1);
  printf("again: %s\n", ended ? strerror(ended) : "flushed");
}

static void pong(int nic, const char *directory, int sealed) {
  struct ipnuma_region region = {.bytes = 4096};
  struct ipnuma_export share = {.bytes = 4096, .rights = IPNUMA_WRITE, .tag = TAG,
                                .flags = sealed ? IPNUMA_EXPORT_SEALED : 0};
  struct ipnuma_wait wait = {.timeout_ns = -1};
  must(ioctl(nic, IPNUMA_REGION, &region), "REGION");
  must(ioctl(region.fd, IPNUMA_EXPORT, &share), "EXPORT");
  tell(directory, "key", share.key);
  must(ioctl(region.fd, IPNUMA_WAIT, &wait), "WAIT");
  tell(directory, "arrived", now(nic));
  wait.seen = 1;
  must(ioctl(region.fd, IPNUMA_WAIT, &wait), "WAIT");
}

int main(int argc, char **argv) {
  if (argc != 4)
    return 2;
  int first = strcmp(argv[1], "ping") == 0, sealed = strcmp(argv[3], "sealed") == 0;
  unsigned own = first ? 1 : 2;
  struct ipnuma_identity identity = {
      .mac = 0x020000000000ull + own, .ip = 0x0A000000 + own, .netmask = 0xFFFFFF00};
  int nic = open("/dev/ipnuma0", O_RDWR);
  must(nic, "/dev/ipnuma0");
  must(ioctl(nic, IPNUMA_IDENTITY, &identity), "IDENTITY");
  know(nic, 1, own, 3 - own, sealed);
  (first ? ping : pong)(nic, argv[2], sealed);
  return 0;
}
