// SPDX-License-Identifier: Apache-2.0
/*
 * The ping-pong of the dissertation's figure 4.3: each of two programs stores a number into the other's memory by a plain
 * assignment, and polls its own memory by plain loads.
 *
 *   figure43 ping DIRECTORY LOOPS &
 *   figure43 pong DIRECTORY LOOPS
 *
 * The same program between two processes, two machines and two guests of the rack. Steps 1 to 3, the exchange of where RBUF is,
 * are tokens in the directory's files ping and pong. Time is the processor's own counter's, of all loops together, as in section
 * 4.2.3; but for the first, in which the other side may not be there yet.
 *
 * In a guest of the rack, where no time passes while a program spins, say `wait` at the end.
 */
#define _POSIX_C_SOURCE 200809L
#include "common.h"

#if defined __x86_64__
#include <immintrin.h>
static uint64_t rdtsc(void) { return __rdtsc(); }
static void clflush(const volatile void *line) { _mm_clflush((const void *)line); }
#else
static uint64_t rdtsc(void) { return now_ns(); }
static void clflush(const volatile void *line) { (void)line; }
#endif

int main(int argc, char **argv) {
  int waits = argc == 5 && strcmp(argv[4], "wait") == 0;
  if (argc != 4 + waits || (strcmp(argv[1], "ping") != 0 && strcmp(argv[1], "pong") != 0)) {
    fprintf(stderr, "usage: figure43 ping|pong DIRECTORY LOOPS [wait]\n");
    return 2;
  }
  int pc1 = strcmp(argv[1], "ping") == 0;
  uint64_t loops = number("LOOPS", argv[3], UINT64_MAX / 2);
  char own[4096], peer[4096];
  snprintf(own, sizeof own, "%s/%s", argv[2], pc1 ? "ping" : "pong");
  snprintf(peer, sizeof peer, "%s/%s", argv[2], pc1 ? "pong" : "ping");

  ipn_device *device;
  ipn_region *region;
  ipn_window *window;
  ipn_token token;
  void *page;
  must(ipn_open(NULL, &device), "ipn_open");
  must(ipn_mem_alloc(device, 4096, &region), "ipn_mem_alloc");
  must(ipn_export(region, 0, 64, IPN_WRITE, NULL, &token), "ipn_export");
  give_token(own, &token);
  token = take_token(peer);
  must_accept(ipn_connect(device, &token, &window), peer);
  must(ipn_window_map(window, IPN_MAP_ORDERED, &page), "ipn_window_map");

  volatile uint64_t *RBUF = ipn_mem_address(region); /* written by the other side */
  volatile uint64_t *BAR = page;                     /* the other side's RBUF */
  uint64_t A = 0, last = 0;
  uint64_t began = rdtsc(), began_ns = now_ns();
  for (uint64_t loop = 0; loop < loops; loop++) {
    if (loop == 1) {
      began = rdtsc();
      began_ns = now_ns();
    }
    if (pc1) {
      A = A + 1;
      *BAR = A;
    }
    while (*RBUF == last) {
      clflush(RBUF);
      make_way(region, window, 0, last, waits); /* not in the figure */
    }
    last = *RBUF;
    A = last;
    if (!pc1) {
      A = A + 1;
      *BAR = A;
    }
  }
  uint64_t cycles = rdtsc() - began, ns = now_ns() - began_ns;
  if (A != 2 * loops) {
    fprintf(stderr, "figure43: %llu came back instead of %llu\n", (unsigned long long)A, (unsigned long long)(2 * loops));
    return 1;
  }
  if (pc1 && loops > 1) {
    uint64_t timed = loops - 1;
    printf("%llu loops: %llu cycles, %llu ns a loop\n", (unsigned long long)loops, (unsigned long long)(cycles / timed),
           (unsigned long long)(ns / timed));
  }
  settle(window);
  ipn_disconnect(window);
  ipn_mem_free(region);
  ipn_close(device);
  return 0;
}
