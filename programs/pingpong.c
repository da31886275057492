// SPDX-License-Identifier: Apache-2.0
// Round trips of a small message between two processes on two cores, over one of several ways.
//
//   pingpong WAY [--size BYTES] [--count ROUNDS] [--cores A,B] [--work-us N]      prints one line of JSON
//
// With --work-us the other end computes so long before each answer.
//
//   udp       kernel UDP over loopback, blocking send and recv
//   udp-poll  the same, both ends asking again and again (MSG_DONTWAIT)
//   tcp       kernel TCP over loopback with TCP_NODELAY, blocking
//   ring      a line ring of libipnuma each way (this and the next only with -DWITH_IPNUMA)
//   line      a line of libipnuma in the other's memory each way, no ring around it
//
// All ways run the same loop: the message carries the number of the round, and both ends check it.
// The time of every round is taken with the processor's own counter.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pingpong.h"

void fail(const char *what) {
  fprintf(stderr, "pingpong: %s: %s\n", what, errno ? strerror(errno) : "not as expected");
  exit(1);
}

static uint64_t ticks(void) {
#if defined __x86_64__
  return __builtin_ia32_rdtsc();
#elif defined __aarch64__
  uint64_t t;
  __asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(t));
  return t;
#else
#error "no counter is known for this processor"
#endif
}

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

// Kernel sockets ---------------------------------------------------------------------------------

static int flags;

static void socket_send(void *end, const void *data, size_t size) {
  if (send(*(int *)end, data, size, MSG_NOSIGNAL) != (ssize_t)size) fail("send");
}

static void socket_receive(void *end, void *data, size_t size) {
  for (size_t got = 0; got < size;) {
    ssize_t n = recv(*(int *)end, (char *)data + got, size - got, flags);
    if (n > 0) got += (size_t)n;
    else if (n == 0 || errno != EAGAIN) fail("recv");
  }
}

static struct sockaddr_in bound(int fd) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof at;
  if (bind(fd, (struct sockaddr *)&at, sizeof at)) fail("bind");
  if (getsockname(fd, (struct sockaddr *)&at, &length)) fail("getsockname");
  return at;
}

static void *socket_open(int side, const struct setup *setup) {
  static int fd;
  struct sockaddr_in other;
  int tcp = !strcmp(setup->way, "tcp");
  flags = !strcmp(setup->way, "udp-poll") ? MSG_DONTWAIT : 0;
  fd = socket(AF_INET, tcp ? SOCK_STREAM : SOCK_DGRAM, 0);
  if (fd < 0) fail("socket");
  if (!tcp || side == 0) {
    struct sockaddr_in own = bound(fd);
    if (tcp && listen(fd, 1)) fail("listen");
    tell(setup, &own, sizeof own);
  }
  if (!tcp || side == 1) {
    hear(setup, &other, sizeof other);
    if (connect(fd, (struct sockaddr *)&other, sizeof other)) fail("connect");
  } else {
    fd = accept(fd, NULL, NULL);
    if (fd < 0) fail("accept");
  }
  int on = 1;
  if (tcp && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on)) fail("TCP_NODELAY");
  return &fd;
}

// The loop ---------------------------------------------------------------------------------------

void tell(const struct setup *setup, const void *data, size_t size) {
  if (write(setup->out, data, size) != (ssize_t)size) fail("write to the other process");
}

void hear(const struct setup *setup, void *data, size_t size) {
  if (read(setup->in, data, size) != (ssize_t)size) fail("the other process is gone");
}

static const struct way sockets = {socket_open, socket_send, socket_receive};

static const struct way *find(const char *name) {
  if (!strcmp(name, "udp") || !strcmp(name, "udp-poll") || !strcmp(name, "tcp")) return &sockets;
#ifdef WITH_IPNUMA
  if (!strcmp(name, "ring")) return &ring;
  if (!strcmp(name, "line")) return &line;
#endif
  fprintf(stderr, "pingpong: there is no way %s in this build\n", name);
  exit(2);
}

static void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  if (sched_setaffinity(0, sizeof set, &set)) fail("sched_setaffinity");
}

static int ascending(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static void answer(const struct way *way, void *end, size_t size, unsigned rounds, double work_ns) {
  uint64_t message[MAX_SIZE / 8];
  for (uint64_t i = 0; i < rounds; i++) {
    way->receive(end, message, size);
    if (message[0] != i) fail("a message came out of turn");
    if (work_ns > 0) for (double until = now_ns() + work_ns; now_ns() < until;) continue;
    way->send(end, message, size);
  }
}

static void ask(const struct way *way, void *end, size_t size, unsigned rounds, uint64_t *took) {
  uint64_t message[MAX_SIZE / 8] = {0};
  uint64_t before = ticks();
  for (uint64_t i = 0; i < rounds; i++) {
    message[0] = i;
    way->send(end, message, size);
    way->receive(end, message, size);
    if (message[0] != i) fail("an answer came out of turn");
    uint64_t after = ticks();
    took[i] = after - before;
    before = after;
  }
}

static double used_us(void) {
  struct rusage used;
  if (getrusage(RUSAGE_SELF, &used)) fail("getrusage");
  return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e6 +
         (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

int main(int argc, char **argv) {
  struct setup setup = {.size = 8};
  unsigned count = 200000, work_us = 0;
  int cores[2] = {0, 1}, there[2], back[2];
  if (argc < 2) {
    fprintf(stderr, "usage: pingpong WAY [--size BYTES] [--count ROUNDS] [--cores A,B] [--work-us N]\n");
    return 2;
  }
  setup.way = argv[1];
  for (int i = 2; i + 1 < argc; i += 2) {
    if (!strcmp(argv[i], "--size")) setup.size = strtoul(argv[i + 1], NULL, 10);
    else if (!strcmp(argv[i], "--count")) count = (unsigned)atoi(argv[i + 1]);
    else if (!strcmp(argv[i], "--work-us")) work_us = (unsigned)atoi(argv[i + 1]);
    else if (!strcmp(argv[i], "--cores") &&
             sscanf(argv[i + 1], "%d,%d", &cores[0], &cores[1]) == 2) continue;
    else fail(argv[i]);
  }
  if (setup.size < 8 || setup.size > MAX_SIZE || count < 10) fail("--size or --count");
  const struct way *way = find(setup.way);
  unsigned rounds = count + count / 10;
  if (pipe(there) || pipe(back)) fail("pipe");
  pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pin(cores[1]);
    setup.in = there[0], setup.out = back[1];
    answer(way, way->open(1, &setup), setup.size, rounds, work_us * 1e3);
    // The other end may still wait for what this one would give back when it goes.
    char bye;
    hear(&setup, &bye, 1);
    return 0;
  }
  pin(cores[0]);
  setup.in = back[0], setup.out = there[1];
  uint64_t *took = malloc(rounds * sizeof *took);
  if (!took) fail("no memory");
  void *end = way->open(0, &setup);
  double began = now_ns(), used = used_us();
  uint64_t first = ticks();
  ask(way, end, setup.size, rounds, took);
  double per_tick = (now_ns() - began) / (double)(ticks() - first);
  used = used_us() - used;
  tell(&setup, "", 1);
  int status;
  if (waitpid(child, &status, 0) != child || status != 0) fail("the other process failed");
  // The first tenth warms up.
  uint64_t *counted = took + count / 10, sum = 0;
  for (unsigned i = 0; i < count; i++) sum += counted[i];
  qsort(counted, count, sizeof *counted, ascending);
  printf("{\"way\": \"%s\", \"size\": %zu, \"count\": %u, \"rtt_min_ns\": %.0f, "
         "\"rtt_p50_ns\": %.0f, \"rtt_p99_ns\": %.0f, \"rtt_mean_ns\": %.0f, "
         "\"cpu_us\": %.2f}\n",
         setup.way, setup.size, count, (double)counted[0] * per_tick,
         (double)counted[count / 2] * per_tick, (double)counted[(uint64_t)count * 99 / 100] * per_tick,
         (double)sum / count * per_tick, used / rounds);
  return 0;
}
