// SPDX-License-Identifier: Apache-2.0
/*
 * A window that was given to another process is taken back from it: what that one stores from then on is refused, and does not reach
 * whoever gets its pages next. Who shares a region wakes who sleeps on it.
 *
 *   given_window ping|pong DIRECTORY
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver_calls.h"

#define REGION_BYTES 8192
#define HALF (REGION_BYTES / 2)
#define SOME 16

static const char *store(int window, unsigned long long value) {
  return pwrite(window, &value, sizeof value, 0) == sizeof value ? "stored" : strerror(errno);
}

static void ping(int nic, const char *directory) {
  unsigned key = hear(directory, "key");
  int window = window_at(nic, 1, key, 0), turns[2], answers[2];
  char turn;
  must(pipe(turns), "pipe");
  must(pipe(answers), "pipe");
  pid_t child = fork();
  must(child, "fork");
  if (child == 0) {
    for (int at = 0; at < 3; at++) {
      must(read(turns[0], &turn, 1), "read");
      printf("the child: %s\n", store(window, 1));
      fflush(stdout);
      must(write(answers[1], &turn, 1), "write");
    }
    exit(0);
  }
  for (int at = 0; at < 3; at++) {
    if (at == 1) {
      must(ioctl(window, IPNUMA_UNMAP), "UNMAP");
      must(ioctl(window, IPNUMA_UNMAP), "UNMAP again");
    }
    /* The pages that were given back are among the first that are free. */
    if (at == 2)
      for (int page = 0; page < SOME; page++)
        window_at(nic, 1, key, HALF);
    must(write(turns[1], "t", 1), "write");
    must(read(answers[0], &turn, 1), "read");
  }
  must(waitpid(child, NULL, 0), "waitpid");
  int other = window_at(nic, 1, key, HALF);
  printf("the next window: %s\n", store(other, 2));
  fflush(stdout);
}

static void pong(int nic, const char *directory) {
  struct ipnuma_region region = {.bytes = REGION_BYTES};
  struct ipnuma_export share = {.bytes = REGION_BYTES, .rights = IPNUMA_WRITE, .tag = TAG};
  struct ipnuma_wait wait = {.offset = HALF, .timeout_ns = -1};
  must(ioctl(nic, IPNUMA_REGION, &region), "REGION");
  volatile unsigned long long *words =
      mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, region.fd, 0);
  must(words == MAP_FAILED ? -1 : 0, "mmap");
  must(ioctl(region.fd, IPNUMA_EXPORT, &share), "EXPORT");
  tell(directory, "key", share.key);
  must(ioctl(region.fd, IPNUMA_WAIT, &wait), "WAIT");
  printf("there: %llu %llu\n", words[0], words[HALF / sizeof *words]);
  fflush(stdout);

  unsigned long long count = 3;
  struct pollfd polled = {.fd = region.fd, .events = POLLIN};
  if (fork() == 0) {
    must(write(region.fd, &count, sizeof count), "write");
    _exit(0);
  }
  must(poll(&polled, 1, -1), "poll");
  count = 0;
  must(read(region.fd, &count, sizeof count), "read");
  printf("woken: %llu, a short count: %s\n", count, write(region.fd, &count, 4) < 0 ? strerror(errno) : "taken");
}

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  int first = strcmp(argv[1], "ping") == 0;
  unsigned own = first ? 1 : 2;
  struct ipnuma_identity identity = {
      .mac = 0x020000000000ull + own, .ip = 0x0A000000 + own, .netmask = 0xFFFFFF00};
  int nic = open("/dev/ipnuma0", O_RDWR);
  must(nic, "/dev/ipnuma0");
  must(ioctl(nic, IPNUMA_IDENTITY, &identity), "IDENTITY");
  know(nic, 1, own, 3 - own, 0);
  (first ? ping : pong)(nic, argv[2]);
  return 0;
}
