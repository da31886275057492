// SPDX-License-Identifier: Apache-2.0
// A memcached client that measures single GETs: one connection, one request at a time.
//
//   memget HOST PORT [--size BYTES] [--count GETS]    prints one line of JSON
//   memget HOST PORT --check                          stores and reads values of many sizes
//
// It uses plain blocking send and recv, as a simple client library does. Every answer is compared
// with what was stored.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BIGGEST = 1000 * 1000, MARGIN = 256 };

static char request[BIGGEST + MARGIN];
static char expected[BIGGEST + MARGIN];
static char answer[BIGGEST + MARGIN];

static void fail(const char *what) {
  fprintf(stderr, "memget: %s: %s\n", what, errno ? strerror(errno) : "not as expected");
  exit(1);
}

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int dial(const char *host, int port) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  if (fd < 0) fail("socket");
  if (inet_pton(AF_INET, host, &to.sin_addr) != 1) fail("the host must be an IPv4 address");
  if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0) fail("connect");
  int on = 1;
  if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) fail("TCP_NODELAY");
  return fd;
}

static void exchange(int fd, size_t asked, size_t wanted) {
  errno = 0;
  for (size_t sent = 0; sent < asked;) {
    ssize_t n = send(fd, request + sent, asked - sent, MSG_NOSIGNAL);
    if (n <= 0) fail("send");
    sent += (size_t)n;
  }
  for (size_t got = 0; got < wanted;) {
    ssize_t n = recv(fd, answer + got, wanted - got, 0);
    if (n <= 0) fail("recv");
    got += (size_t)n;
  }
  if (memcmp(answer, expected, wanted) != 0) fail("the answer differs from what was stored");
}

// Stores a value, and leaves the request that reads it and its answer in the buffers.
static void store(int fd, size_t size, unsigned seed, size_t *asked, size_t *wanted) {
  int head = sprintf(request, "set key 0 0 %zu\r\n", size);
  for (size_t i = 0; i < size; i++) {
    seed = seed * 1103515245u + 12345u;
    request[(size_t)head + i] = (char)(seed >> 16);
  }
  memcpy(request + head + size, "\r\n", 2);
  int value = sprintf(expected, "VALUE key 0 %zu\r\n", size);
  static char keep[BIGGEST];
  memcpy(keep, request + head, size);
  memcpy(expected, "STORED\r\n", 8);
  exchange(fd, (size_t)head + size + 2, 8);
  value = sprintf(expected, "VALUE key 0 %zu\r\n", size);
  memcpy(expected + value, keep, size);
  memcpy(expected + (size_t)value + size, "\r\nEND\r\n", 7);
  *wanted = (size_t)value + size + 7;
  *asked = (size_t)sprintf(request, "get key\r\n");
}

static int ascending(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

static void check(int fd) {
  static const size_t sizes[] = {0,    1,    13,   32,   33,    34,    55,    56,    57,
                                 63,   64,   65,   100,  1000,  1448,  4096,  16000, 16384,
                                 17000, 65535, 65536, 100000, 262144, 500000, 999000};
  size_t asked, wanted;
  for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    store(fd, sizes[i], 7 + i, &asked, &wanted);
    exchange(fd, asked, wanted);
  }
  puts("all values as stored");
}

static void measure(int fd, size_t size, unsigned count) {
  uint32_t *took = malloc(count * sizeof *took);
  size_t asked, wanted;
  if (!took) fail("no memory");
  store(fd, size, 1, &asked, &wanted);
  for (unsigned i = 0; i < count / 10; i++) exchange(fd, asked, wanted);
  uint64_t begin = now_ns(), before = begin;
  for (unsigned i = 0; i < count; i++) {
    exchange(fd, asked, wanted);
    uint64_t after = now_ns();
    took[i] = (uint32_t)(after - before);
    before = after;
  }
  double seconds = (double)(before - begin) / 1e9;
  qsort(took, count, sizeof *took, ascending);
  printf("{\"size\": %zu, \"count\": %u, \"p50_ns\": %u, \"p99_ns\": %u, \"mean_ns\": %.0f, "
         "\"ops_per_s\": %.0f}\n",
         size, count, took[count / 2], took[(uint64_t)count * 99 / 100],
         seconds * 1e9 / count, count / seconds);
  free(took);
}

int main(int argc, char **argv) {
  size_t size = 32;
  unsigned count = 100000;
  int checking = 0;
  if (argc < 3) {
    fprintf(stderr, "usage: memget HOST PORT [--check | [--size BYTES] [--count GETS]]\n");
    return 2;
  }
  for (int i = 3; i < argc; i++) {
    if (!strcmp(argv[i], "--check")) checking = 1;
    else if (!strcmp(argv[i], "--size") && i + 1 < argc) size = strtoul(argv[++i], NULL, 10);
    else if (!strcmp(argv[i], "--count") && i + 1 < argc) count = (unsigned)atoi(argv[++i]);
    else fail(argv[i]);
  }
  if (size > BIGGEST || count < 10) fail("--size or --count is out of range");
  int fd = dial(argv[1], atoi(argv[2]));
  if (checking) check(fd);
  else measure(fd, size, count);
  close(fd);
  return 0;
}
