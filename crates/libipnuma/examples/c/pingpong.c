// SPDX-License-Identifier: Apache-2.0
/*
 * Two processes store a line into each other's memory, in turn, and time the round trips.
 *
 *   pingpong ping DIRECTORY ROUNDS &
 *   pingpong pong DIRECTORY ROUNDS
 *
 * Their tokens are in the directory's files ping and pong, which both processes write and read.
 */
#define _POSIX_C_SOURCE 200809L
#include "common.h"

static int compare(const void *left, const void *right) {
  uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
  return (a > b) - (a < b);
}

int main(int argc, char **argv) {
  if (argc != 4 || (strcmp(argv[1], "ping") != 0 && strcmp(argv[1], "pong") != 0)) {
    fprintf(stderr, "usage: pingpong ping|pong DIRECTORY ROUNDS\n");
    return 2;
  }
  int first = strcmp(argv[1], "ping") == 0;
  uint32_t rounds = (uint32_t)number("ROUNDS", argv[3], UINT32_MAX);
  char own[4096], peer[4096];
  snprintf(own, sizeof own, "%s/%s", argv[2], first ? "ping" : "pong");
  snprintf(peer, sizeof peer, "%s/%s", argv[2], first ? "pong" : "ping");

  ipn_device *device;
  ipn_region *region;
  ipn_window *window;
  ipn_token token;
  must(ipn_open(NULL, &device), "ipn_open");
  must(ipn_mem_alloc(device, 4096, &region), "ipn_mem_alloc");
  must(ipn_export(region, 0, 64, IPN_WRITE, NULL, &token), "ipn_export");
  give_token(own, &token);
  token = take_token(peer);
  must_accept(ipn_connect(device, &token, &window), peer);

  uint64_t *times = calloc(rounds ? rounds : 1, sizeof *times);
  if (times == NULL) return perror("calloc"), 1;
  for (uint32_t round = 1; round <= rounds; round++) {
    uint64_t sent = 0, back = 0;
    uint64_t start = now_ns();
    if (first) {
      sent = start;
      must(ipn_put_line(window, 0, round, &sent, sizeof sent), "ipn_put_line");
      must(ipn_signal(window), "ipn_signal");
    }
    size_t size;
    unsigned char line[56];
    must(ipn_wait_line(region, 0, round, line, &size, 10000000000), "ipn_wait_line");
    memcpy(&back, line, sizeof back);
    if (first && (size != sizeof back || back != sent)) {
      fprintf(stderr, "round %u: another line came back\n", (unsigned)round);
      return 1;
    }
    if (!first) {
      must(ipn_put_line(window, 0, round, &back, sizeof back), "ipn_put_line");
      must(ipn_signal(window), "ipn_signal");
    }
    times[round - 1] = now_ns() - start;
  }
  if (first && rounds > 0) {
    qsort(times, rounds, sizeof *times, compare);
    printf("%u round trips: median %llu ns, 99 %% %llu ns\n", (unsigned)rounds, (unsigned long long)times[rounds / 2],
           (unsigned long long)times[rounds - 1 - rounds / 100]);
  }
  free(times);
  settle(window);
  ipn_disconnect(window);
  ipn_mem_free(region);
  ipn_close(device);
  return 0;
}
