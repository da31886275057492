// SPDX-License-Identifier: Apache-2.0
/*
 * Flushes to a machine that nobody has, more than the NIC has places for marks: each gives up, and its place is the NIC's until
 * that has answered. A store to a machine that is there must not wait for that, as it would behind a mark without a place; a
 * flush must, and be answered.
 *
 *   late_mark ping|pong DIRECTORY sealed|clear
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>

#include "driver_calls.h"

#define SHORT_NS 20000
#define MOST_MARKS 8
/* A store is there long before; the NIC asks a machine for milliseconds before it is lost. */
#define SOON_NS 100000

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
