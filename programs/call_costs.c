// SPDX-License-Identifier: Apache-2.0
// What a call on a connected stream socket costs who makes it: send, recv, epoll_wait, poll.
//
//   call_costs [--rounds N] [--calls N] [--cores A,B]      prints one line of JSON: the median of each, ns
//
// Two processes on two cores. In each round one sends some messages (--calls), into a buffer with room; when they are
// there the other receives them one by one, and in other rounds asks as often by epoll_wait or poll before. So nobody
// waits inside a call that is timed, and what is received was written by another core.
//
// A loop of calls and the same loop without them are timed right after each other, and the difference is shared by the
// calls: clock, fences and the loop fall out, copying the data is in. `recv` is taken in rounds without a call before it.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_BYTES = 1024, MOST_CALLS = 64, KINDS = 3, EPOLL = 1, POLL = 2 };
/// Of a kind in a round.
static unsigned calls = 8;
static const int lengths[] = {16, 64, 512, 1024};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static _Noreturn void fail(const char *what) {
  fprintf(stderr, "call_costs: %s: %s\n", what, errno ? strerror(errno) : "not as expected");
  exit(1);
}

/// The processor's counter, after all that comes before and before all that comes after.
static inline uint64_t ticks(void) {
#if defined __x86_64__
  __builtin_ia32_lfence();
  uint64_t t = __builtin_ia32_rdtsc();
  __builtin_ia32_lfence();
  return t;
#elif defined __aarch64__
  uint64_t t;
  __asm__ volatile("isb; mrs %0, cntvct_el0; isb" : "=r"(t) : : "memory");
  return t;
#else
#error "no counter is known for this processor"
#endif
}

/// What each of `calls` calls takes, in ticks of the counter, beside a loop without them. `call` may use its number, `n`.
#define PAIR(call)                                                             \
  ({                                                                           \
    uint64_t a_ = ticks();                                                     \
    for (unsigned n = 0; n < calls; n++) {                                     \
      call;                                                                    \
      __asm__ volatile("" : : : "memory");                                     \
    }                                                                          \
    uint64_t b_ = ticks();                                                     \
    for (unsigned n = 0; n < calls; n++) __asm__ volatile("" : : : "memory");  \
    uint64_t c_ = ticks();                                                     \
    ((double)(b_ - a_) - (double)(c_ - b_)) / calls;                           \
  })

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  if (sched_setaffinity(0, sizeof set, &set)) fail("sched_setaffinity");
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *of, unsigned count) {
  qsort(of, count, sizeof *of, ascending);
  return of[count / 2];
}

/// Memory of both: rounds that were sent and received, and the sender's times.
struct shared {
  _Atomic uint64_t sent;
  char apart[120];
  _Atomic uint64_t received;
  char apart_too[120];
  double send[];
};

/// Leaves the core to its other thread, which may be the one that is timed.
static inline void rest(void) {
#if defined __x86_64__
  __builtin_ia32_pause();
#elif defined __aarch64__
  __asm__ volatile("yield");
#endif
}

/// Waits until the other has come so far. Whoever shares its core with others must not keep them off for ever.
static void reach(_Atomic uint64_t *counter, uint64_t round) {
  for (unsigned tries = 0; *counter < round; tries++) {
    if (tries > 2000) sched_yield();
    rest();
  }
}

static void send_all(int fd, struct shared *shared, unsigned rounds) {
  static char message[MOST_BYTES];
  for (unsigned i = 0; i < LENGTHS * rounds; i++) {
    size_t length = (size_t)lengths[i / rounds], done = 0;
    memset(message, (int)i, length);
    reach(&shared->received, i);
    shared->send[i] = PAIR(done += (size_t)send(fd, message, length, MSG_NOSIGNAL | MSG_DONTWAIT));
    if (done != calls * length) fail("send");
    shared->sent = i + 1;
  }
}

/// Times of receiving, and of asking.
static void receive_all(int fd, struct shared *shared, unsigned rounds, double *took) {
  static char message[MOST_CALLS * MOST_BYTES], expected[MOST_CALLS * MOST_BYTES];
  struct epoll_event event = {.events = EPOLLIN};
  struct pollfd polled = {.fd = fd, .events = POLLIN};
  int set = epoll_create1(0);
  if (set < 0 || epoll_ctl(set, EPOLL_CTL_ADD, fd, &event)) fail("epoll");
  for (unsigned i = 0; i < LENGTHS * rounds; i++) {
    size_t length = (size_t)lengths[i / rounds], done = 0;
    unsigned found = calls;
    memset(expected, (int)i, calls * length);
    reach(&shared->sent, i + 1);
    if (i % KINDS == EPOLL) {
      found = 0;
      took[i] = PAIR(found += (unsigned)epoll_wait(set, &event, 1, -1));
    } else if (i % KINDS == POLL) {
      found = 0;
      took[i] = PAIR(found += (unsigned)poll(&polled, 1, -1));
    }
    if (found != calls) fail("epoll_wait or poll");
    double receive = PAIR(done += (size_t)recv(fd, message + n * length, length, 0));
    if (i % KINDS == 0) took[i] = receive;
    if (done != calls * length || memcmp(message, expected, done)) fail("recv");
    shared->received = i + 1;
  }
}

/// The median of every third time: those of a kind, of a length or (-1) of all.
static double of_kind(const double *took, unsigned rounds, unsigned kind, int length, double per_tick) {
  double *some = malloc(LENGTHS * rounds * sizeof *some);
  if (!some) fail("no memory");
  unsigned count = 0;
  for (unsigned i = 0; i < LENGTHS * rounds; i++) {
    // The first tenth of each length warms up.
    if (i % KINDS != kind || i % rounds < rounds / 10) continue;
    if (length < 0 || i / rounds == (unsigned)length) some[count++] = took[i];
  }
  double found = median(some, count) * per_tick;
  free(some);
  return found;
}

int main(int argc, char **argv) {
  unsigned rounds = 20000;
  int cores[2] = {0, 1};
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!strcmp(argv[i], "--rounds")) rounds = (unsigned)atoi(argv[i + 1]);
    else if (!strcmp(argv[i], "--calls")) calls = (unsigned)atoi(argv[i + 1]);
    else if (strcmp(argv[i], "--cores") ||
             sscanf(argv[i + 1], "%d,%d", &cores[0], &cores[1]) != 2) fail(argv[i]);
  }
  if (argc % 2 == 0 || rounds < 100 || rounds > 1000000) fail("--rounds");
  if (calls < 1 || calls > MOST_CALLS) fail("--calls");
  size_t bytes = sizeof(struct shared) + LENGTHS * rounds * sizeof(double);
  struct shared *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  double *took = calloc(LENGTHS * rounds, sizeof *took);
  if (shared == MAP_FAILED || !took) fail("no memory");
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof at;
  int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  if (listener < 0 || bind(listener, (struct sockaddr *)&at, size) || listen(listener, 1)) fail("listen");
  if (getsockname(listener, (struct sockaddr *)&at, &size)) fail("getsockname");
  pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pin(cores[1]);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&at, size)) fail("connect");
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on)) fail("TCP_NODELAY");
    send_all(fd, shared, rounds);
    // The connection is there until all was received.
    reach(&shared->received, LENGTHS * rounds);
    return 0;
  }
  pin(cores[0]);
  int fd = accept(listener, NULL, NULL);
  if (fd < 0) fail("accept");
  double began = now_ns();
  uint64_t first = ticks();
  receive_all(fd, shared, rounds, took);
  double per_tick = (now_ns() - began) / (double)(ticks() - first);
  int status;
  if (waitpid(child, &status, 0) != child || status != 0) fail("the other process failed");
  printf("{");
  for (int i = 0; i < LENGTHS; i++) {
    double *sent = shared->send + (unsigned)i * rounds + rounds / 10;
    printf("\"send_%d_ns\": %.1f, \"recv_%d_ns\": %.1f, ", lengths[i],
           median(sent, rounds - rounds / 10) * per_tick, lengths[i],
           of_kind(took, rounds, 0, i, per_tick));
  }
  printf("\"epoll_wait_ns\": %.1f, \"poll_ns\": %.1f, \"calls\": %u, \"rounds\": %u}\n",
         of_kind(took, rounds, EPOLL, -1, per_tick), of_kind(took, rounds, POLL, -1, per_tick), calls, rounds);
  return 0;
}
