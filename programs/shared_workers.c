// SPDX-License-Identifier: Apache-2.0
// Workers in several processes and threads wait in one set of epoll that they have by fork: of each one-shot event one of them is
// told, there is something to read, and every byte arrives once, in its order.
//
//   shared_workers SEED ROUNDS
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS = 3, CHILDREN = 3, PIECE = 9000, PATIENCE_MS = 8000, ALL_OVER = 99 };
// What the process does that has made the set and its children.
enum role { WORKS, WAITS, LEAVES, CLOSES, ROLES };

// What all workers of a round know.
struct shared {
  atomic_uint received[CONNECTIONS];
  atomic_int taken[CONNECTIONS], ended[CONNECTIONS], open;
  atomic_int told_twice, told_after_end, told_nothing, wrong_bytes, failed;
};

static struct shared *shared;
static uint64_t state;
static int set, over, servers[CONNECTIONS];
static unsigned flags;

static unsigned below(unsigned bound) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (state >> 20) % bound;
}

static unsigned char byte_at(unsigned connection, unsigned place) {
  return (place + 1) * 2654435761u >> 13 ^ connection * 99;
}

static void pause_us(unsigned microseconds) {
  struct timespec time = {0, microseconds * 1000L};
  nanosleep(&time, NULL);
}

static void check(long result, const char *what) {
  if (result < 0) {
    perror(what);
    exit(2);
  }
}

// Reads what is there, or one piece of it. Says whether that was the end.
static int take(unsigned connection, size_t most, int all) {
  char bytes[PIECE];
  for (int first = 1;; first = 0) {
    ssize_t count = recv(servers[connection], bytes, most, MSG_DONTWAIT);
    if (count == 0) return 1;
    if (count < 0) {
      if (errno != EAGAIN) shared->failed++;
      else if (first) shared->told_nothing++;
      return errno != EAGAIN;
    }
    for (ssize_t at = 0; at < count; at++)
      if ((unsigned char)bytes[at] != byte_at(connection, shared->received[connection] + at)) shared->wrong_bytes++;
    shared->received[connection] += count;
    if (!all) return 0;
  }
}

static void *work(void *number) {
  unsigned own = (uintptr_t)number;
  struct epoll_event told[4];
  while (shared->open) {
    int count = epoll_wait(set, told, 1 + own % 3, own % 2 ? 40 : -1);
    for (int at = 0; at < count; at++) {
      unsigned connection = told[at].data.u32;
      int nobody = 0;
      if (connection == ALL_OVER) continue;
      if (!atomic_compare_exchange_strong(&shared->taken[connection], &nobody, 1)) {
        shared->told_twice++;
        continue;
      }
      int end = 0;
      if (shared->ended[connection]) shared->told_after_end++;
      else end = take(connection, 1 + own % 7 * 1200, flags & EPOLLET || own % 2);
      if (end) {
        shared->ended[connection] = 1;
        shared->open--;
        uint64_t many = 100;
        if (!shared->open) check(write(over, &many, sizeof many), "write");
      }
      int armed = !shared->ended[connection];
      shared->taken[connection] = 0;
      struct epoll_event again = {EPOLLIN | flags, {.u64 = connection}};
      if (armed) check(epoll_ctl(set, EPOLL_CTL_MOD, servers[connection], &again), "EPOLL_CTL_MOD");
    }
  }
  return NULL;
}

static void work_in(unsigned threads, unsigned first) {
  pthread_t others[2];
  for (unsigned at = 1; at < threads; at++) pthread_create(&others[at - 1], NULL, work, (void *)(uintptr_t)(first + at));
  work((void *)(uintptr_t)first);
  for (unsigned at = 1; at < threads; at++) pthread_join(others[at - 1], NULL);
}

static void send_all(const struct sockaddr_in *address, unsigned total) {
  int clients[CONNECTIONS], one = 1;
  unsigned sent[CONNECTIONS] = {0}, open = CONNECTIONS;
  char bytes[PIECE];
  for (unsigned at = 0; at < CONNECTIONS; at++) {
    clients[at] = socket(AF_INET, SOCK_STREAM, 0);
    check(connect(clients[at], (const void *)address, sizeof *address), "connect");
    check(setsockopt(clients[at], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one), "setsockopt");
    check(send(clients[at], "hi", 2, 0), "send");
    check(recv(clients[at], bytes, 2, MSG_WAITALL), "recv");
  }
  while (open) {
    unsigned at = below(CONNECTIONS), count = 1 + below(below(3) ? 100 : PIECE);
    if (clients[at] < 0) continue;
    if (count > total - sent[at]) count = total - sent[at];
    for (unsigned place = 0; place < count; place++) bytes[place] = byte_at(at, sent[at] + place);
    if (send(clients[at], bytes, count, 0) != (ssize_t)count) shared->failed++;
    sent[at] += count;
    if (sent[at] == total) {
      check(shutdown(clients[at], SHUT_WR), "shutdown");
      clients[at] = -1;
      open--;
    }
    if (!below(3)) pause_us(below(300));
  }
  while (shared->open) pause_us(1000);
  exit(0);
}

static void serve(int listener, enum role role) {
  char bytes[2];
  setpgid(0, 0);
  set = epoll_create1(0);
  over = eventfd(0, 0);
  struct epoll_event event = {EPOLLIN, {.u64 = ALL_OVER}};
  check(epoll_ctl(set, EPOLL_CTL_ADD, over, &event), "EPOLL_CTL_ADD");
  for (unsigned at = 0; at < CONNECTIONS; at++) {
    check(servers[at] = accept(listener, NULL, NULL), "accept");
    check(send(servers[at], "hi", 2, 0), "send");
    check(recv(servers[at], bytes, 2, MSG_WAITALL), "recv");
    event = (struct epoll_event){EPOLLIN | flags, {.u64 = at}};
    check(epoll_ctl(set, EPOLL_CTL_ADD, servers[at], &event), "EPOLL_CTL_ADD");
  }
  unsigned children = 1 + below(CHILDREN), threads = 1 + below(2), delay = below(2) ? below(400) : below(3000);
  pid_t all[CHILDREN];
  if (below(2)) pause_us(delay);
  for (unsigned at = 0; at < children; at++) {
    unsigned late = below(2) ? 0 : below(2000);
    check(all[at] = fork(), "fork");
    if (!all[at]) {
      pause_us(late);
      work_in(threads, 10 * (at + 1) + below(7));
      _exit(0);
    }
  }
  if (role == LEAVES) _exit(0);
  if (role == CLOSES) close(set);
  if (role == WORKS) work_in(threads, below(7));
  for (unsigned at = 0; at < children; at++) waitpid(all[at], NULL, 0);
  _exit(0);
}

static int is_wrong(unsigned round, int listener, const struct sockaddr_in *address) {
  enum role role = below(ROLES);
  unsigned total = 1 + below(below(3) ? 20000 : 200000), waited = 0;
  flags = EPOLLONESHOT | (below(2) ? EPOLLET : 0);
  memset(shared, 0, sizeof *shared);
  shared->open = CONNECTIONS;
  pid_t client, server;
  check(client = fork(), "fork");
  if (!client) send_all(address, total);
  check(server = fork(), "fork");
  if (!server) serve(listener, role);
  for (; shared->open && waited < PATIENCE_MS; waited++) pause_us(1000);
  pause_us(2000);
  int hangs = shared->open != 0, short_of = 0;
  kill(-server, SIGKILL);
  kill(client, SIGKILL);
  waitpid(client, NULL, 0);
  waitpid(server, NULL, 0);
  for (unsigned at = 0; at < CONNECTIONS; at++) short_of += !hangs && shared->received[at] != total;
  int wrong = hangs || short_of || shared->told_twice || shared->told_after_end || shared->told_nothing || shared->wrong_bytes || shared->failed;
  if (wrong)
    printf("round %u, role %d, %u bytes, flags %x: told twice %d, after the end %d, of nothing %d; wrong bytes %d, failed calls %d, streams that were short %d, hung %d\n",
           round, role, total, flags, shared->told_twice, shared->told_after_end, shared->told_nothing, shared->wrong_bytes, shared->failed, short_of, hangs);
  return wrong;
}

int main(int count, char **arguments) {
  if (count != 3) {
    fprintf(stderr, "usage: shared_workers SEED ROUNDS\n");
    return 2;
  }
  state = strtoull(arguments[1], NULL, 10) * 0x9e3779b97f4a7c15 + 1;
  unsigned rounds = strtoul(arguments[2], NULL, 10), wrong = 0;
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t length = sizeof address;
  check(bind(listener, (void *)&address, length), "bind");
  check(listen(listener, 16), "listen");
  check(getsockname(listener, (void *)&address, &length), "getsockname");
  setvbuf(stdout, NULL, _IOLBF, 0);
  for (unsigned round = 0; round < rounds; round++) wrong += is_wrong(round, listener, &address);
  printf("%u of %u rounds wrong\n", wrong, rounds);
  return wrong != 0;
}
