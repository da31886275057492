// SPDX-License-Identifier: Apache-2.0
/*
 * The first and the last line of a region are stored to, then comes a ping-pong: every other round waits for a word, the
 * others for the region's descriptor.
 *
 *   board ping|pong DIRECTORY ROUNDS BYTES
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver_calls.h"

#define PAGE 4096
#define LINE 64
/* Of the ping-pong, in a line of its own. */
#define WORD 128
/* Whoever is not woken says so, instead of waiting for ever. */
#define LONG_NS 1000000000ll

static const char *is_refused(int result) {
  if (result == 0)
    return "here";
  return errno == EOPNOTSUPP ? "not here" : strerror(errno);
}

static void look_around(int nic, unsigned long long bytes) {
  struct ipnuma_info info;
  unsigned ns = 1;
  unsigned long long time;
  must(ioctl(nic, IPNUMA_INFO, &info), "INFO");
  if (info.flags & IPNUMA_CHARGES || info.store_ns)
    printf("stores cost %u ns\n", info.store_ns);
  if (info.most_region < bytes)
    printf("regions have %llu bytes at most\n", (unsigned long long)info.most_region);
  const char *charge = is_refused(ioctl(nic, IPNUMA_CHARGE, &ns));
  const char *now = is_refused(ioctl(nic, IPNUMA_NOW, &time));
  printf("charging and the time to the nanosecond: %s\n", strcmp(charge, now) ? "one of them" : now);
}

/* Until the word is what it is to be: arms, looks, and sleeps. */
static void poll_for(int region, const volatile unsigned long long *word, unsigned long long value) {
  for (;;) {
    struct pollfd asked = {.fd = region, .events = POLLIN};
    unsigned long long signals;
    unsigned on = 1;
    must(ioctl(region, IPNUMA_ARM, &on), "ARM");
    if (*word == value)
      return;
    if (poll(&asked, 1, LONG_NS / 1000000) == 0) {
      fprintf(stderr, "the region's descriptor was never readable, and the word is %llu\n", *word);
      exit(1);
    }
    must(read(region, &signals, sizeof signals), "a read");
  }
}

static void wait_for(int region, const volatile unsigned long long *word, unsigned long long value) {
  struct ipnuma_wait wait = {.offset = WORD, .seen = value - 1, .timeout_ns = LONG_NS};
  must(ioctl(region, IPNUMA_WAIT, &wait), "WAIT");
  if (*word != value) {
    fprintf(stderr, "the word is %llu instead of %llu\n", *word, value);
    exit(1);
  }
}

static unsigned char pattern(unsigned long long at) { return at * 7 + at / 251 + 1; }

/* What the other has stored before the first round, and nothing else. */
static void check(const volatile unsigned char *memory, unsigned long long bytes) {
  for (unsigned long long at = 0; at < bytes; at++) {
    int stored = at < LINE || at >= bytes - LINE;
    if (at / LINE != WORD / LINE && memory[at] != (stored ? pattern(at) : 0)) {
      fprintf(stderr, "byte %llu of %llu is %d\n", at, bytes, memory[at]);
      exit(1);
    }
  }
  printf("the first and the last line came, and nothing else\n");
}

static void store_line(int window, unsigned long long first, unsigned long long at) {
  unsigned char line[LINE];
  for (unsigned byte = 0; byte < LINE; byte++)
    line[byte] = pattern(at + byte);
  must(pwrite(window, line, LINE, at - first), "a store");
}

int main(int argc, char **argv) {
  if (argc != 5)
    return 2;
  int first = strcmp(argv[1], "ping") == 0;
  unsigned own = first ? 1 : 2;
  unsigned long long rounds = strtoull(argv[3], NULL, 10), bytes = strtoull(argv[4], NULL, 10);
  struct ipnuma_identity identity = {
      .mac = 0x020000000000ull + own, .ip = 0x0A000000 + own, .netmask = 0xFFFFFF00};
  int nic = open("/dev/ipnuma0", O_RDWR);
  must(nic, "/dev/ipnuma0");
  must(ioctl(nic, IPNUMA_IDENTITY, &identity), "IDENTITY");
  know(nic, 1, own, 3 - own, 0);
  look_around(nic, bytes);

  struct ipnuma_region region = {.bytes = bytes};
  struct ipnuma_export share = {.bytes = bytes, .rights = IPNUMA_WRITE, .tag = TAG};
  must(ioctl(nic, IPNUMA_REGION, &region), "REGION");
  must(ioctl(region.fd, IPNUMA_EXPORT, &share), "EXPORT");
  const volatile unsigned char *memory = mmap(NULL, bytes, PROT_READ, MAP_SHARED, region.fd, 0);
  must(memory == MAP_FAILED ? -1 : 0, "mmap");
  const volatile unsigned long long *word = (const volatile void *)(memory + WORD);
  tell(argv[2], argv[1], share.key);
  unsigned key = hear(argv[2], first ? "pong" : "ping");
  int there = window(nic, 1, key);
  if (first) {
    int end = window_at(nic, 1, key, bytes - PAGE);
    store_line(there, 0, 0);
    store_line(end, bytes - PAGE, bytes - LINE);
  }
  for (unsigned long long round = 1; round <= rounds; round++) {
    if (first)
      must(pwrite(there, &round, sizeof round, WORD), "a store");
    (round % 2 ? wait_for : poll_for)(region.fd, word, round);
    if (!first && round == 1)
      check(memory, bytes);
    if (!first)
      must(pwrite(there, &round, sizeof round, WORD), "a store");
  }
  printf("%llu rounds\n", rounds);
  return 0;
}
