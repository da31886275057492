// SPDX-License-Identifier: Apache-2.0
// Two processes of which one has the other's set of epoll by a fork do random things to it and its members, one after the other, and
// say what they were told: the same, whatever serves the connections.
//
//   shared_set SEED ROUNDS
//
// Edges are left out: where a set changes hands, one may be told once more.
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MEMBERS = 4, STEPS = 60, SAID = 400, PATIENCE = 20 };
enum operation { ADD, MODIFY, DELETE, WAIT, RECEIVE, SEND, SHUT, CLOSE };

struct step {
  enum operation operation;
  unsigned member, events, number;
};

static uint64_t state;
static int clients[MEMBERS], servers[MEMBERS], set;

static unsigned below(unsigned bound) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (state >> 20) % bound;
}

static int by_number(const void *one, const void *other) {
  uint64_t a = ((const struct epoll_event *)one)->data.u64, b = ((const struct epoll_event *)other)->data.u64;
  return a < b ? -1 : a > b;
}

static void do_step(struct step step, char *said) {
  static const int controls[] = {EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL};
  struct epoll_event event = {step.events, {.u64 = step.number}}, told[16];
  char bytes[60];
  unsigned member = step.member, left = step.number % 2 ? 1 + step.number % 5 : 1000, all = 0;
  int result;
  switch (step.operation) {
    case ADD:
    case MODIFY:
    case DELETE:
      result = epoll_ctl(set, controls[step.operation], servers[member], &event);
      sprintf(said, "control %d of %u, %x, %u: %d", step.operation, member, step.events, step.number, result ? errno : 0);
      break;
    case WAIT:
      result = epoll_wait(set, told, 16, step.number % 8 ? 0 : 10);
      said += sprintf(said, "wait: %d", result);
      if (result > 0) qsort(told, result, sizeof *told, by_number);
      for (int at = 0; at < result; at++)
        said += sprintf(said, " (%x, %llu)", told[at].events, (unsigned long long)told[at].data.u64);
      break;
    case RECEIVE:
      while (left && (result = recv(servers[member], bytes, left < sizeof bytes ? left : sizeof bytes, MSG_DONTWAIT)) > 0) {
        all += result;
        left -= result;
      }
      sprintf(said, "receive of %u: %u, %d", member, all, left && result < 0 ? errno : 0);
      break;
    case SEND:
      result = send(clients[member], "12345678", 1 + step.number % 8, MSG_NOSIGNAL);
      sprintf(said, "send to %u: %d", member, result);
      break;
    case SHUT:
      sprintf(said, "shut %u: %d", member, shutdown(clients[member], SHUT_WR));
      break;
    case CLOSE:
      sprintf(said, "close %u: %d", member, close(clients[member]));
  }
  // What was sent has arrived.
  if (step.operation >= SEND) nanosleep(&(struct timespec){0, 1000000}, NULL);
}

static void connect_all(int listener, struct sockaddr_in *name) {
  char hello[2];
  int one = 1;
  for (int at = 0; at < MEMBERS; at++) {
    clients[at] = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(clients[at], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(clients[at], (struct sockaddr *)name, sizeof *name)) exit(2);
    servers[at] = accept(listener, NULL, NULL);
    for (int back = 0; back < 2; back++) {
      int from = back ? servers[at] : clients[at], to = back ? clients[at] : servers[at];
      if (send(from, "hi", 2, 0) != 2 || recv(to, hello, 2, MSG_WAITALL) != 2) exit(2);
    }
  }
}

static struct step random_step(void) {
  static const unsigned events[] = {EPOLLIN, EPOLLIN, EPOLLIN | EPOLLOUT, EPOLLOUT, EPOLLIN | EPOLLRDHUP};
  static const enum operation likely[] = {ADD, ADD, MODIFY, MODIFY, DELETE, WAIT, WAIT, WAIT, WAIT, WAIT,
                                          RECEIVE, RECEIVE, SEND, SEND, SEND, SEND};
  unsigned once = below(3) ? 0 : EPOLLONESHOT;
  struct step step = {likely[below(16)], below(MEMBERS), events[below(5)] | once, below(1000)};
  if (!below(60)) step.operation = SHUT;
  return step;
}

// In the child, by its answer, or here.
static void say(unsigned round, unsigned at, int childs, struct step step, int to_child, int from_child) {
  char said[SAID] = {0};
  if (!childs) {
    do_step(step, said);
  } else if (write(to_child, &step, sizeof step) != sizeof step || read(from_child, said, sizeof said) != sizeof said) {
    strcpy(said, "nothing is heard of the child");
  }
  printf("%u.%u %s %s\n", round, at, childs ? "child" : "parent", said);
}

int main(int count, char **words) {
  if (count != 3) return 2;
  unsigned seed = strtoul(words[1], NULL, 10), rounds = strtoul(words[2], NULL, 10);
  struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof name;
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(listener, (struct sockaddr *)&name, length) || listen(listener, 16)) return 2;
  getsockname(listener, (struct sockaddr *)&name, &length);
  for (unsigned round = 0; round < rounds; round++) {
    state = 88172645463325252u ^ ((uint64_t)seed << 32) ^ ((round + 1) * 0x9E3779B97F4A7C15u);
    for (int at = 0; at < 9; at++) below(2);
    set = epoll_create1(0);
    connect_all(listener, &name);
    unsigned forks = below(12), idle = !below(3);
    int to_child[2], from_child[2];
    pid_t child = 0;
    for (unsigned at = 0; at < forks + STEPS; at++) {
      struct step step = random_step();
      int childs = below(2) && at >= forks && !idle;
      if (at == forks) {
        fflush(stdout);
        if (pipe(to_child) || pipe(from_child)) return 2;
        child = fork();
        if (!child) {
          alarm(PATIENCE);
          close(to_child[1]);
          while (read(to_child[0], &step, sizeof step) == sizeof step) {
            char said[SAID] = {0};
            do_step(step, said);
            if (write(from_child[1], said, sizeof said) != sizeof said) _exit(1);
          }
          _exit(0);
        }
        close(from_child[1]);
      }
      say(round, at, childs, step, to_child[1], from_child[0]);
    }
    // Of the end of those that have gone nobody is told twice.
    unsigned at = forks + STEPS, once = EPOLLIN | EPOLLONESHOT;
    for (unsigned member = 0; member < MEMBERS; member++) {
      for (enum operation operation = ADD; operation <= MODIFY; operation++)
        say(round, at++, 0, (struct step){operation, member, once, member}, to_child[1], from_child[0]);
      for (int childs = 0; childs < 2; childs++)
        say(round, at++, childs, (struct step){CLOSE, member, 0, 0}, to_child[1], from_child[0]);
    }
    for (int childs = 0; childs < 2; childs++)
      say(round, at++, childs, (struct step){.operation = WAIT}, to_child[1], from_child[0]);
    close(to_child[1]);
    close(to_child[0]);
    close(from_child[0]);
    waitpid(child, NULL, 0);
    for (int member = 0; member < MEMBERS; member++) close(servers[member]);
    close(set);
  }
  return 0;
}
