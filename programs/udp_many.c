// SPDX-License-Identifier: Apache-2.0
// Many senders of datagrams and several receivers that sleep between them, each a process with a socket of its own.
//
//   udp_many echo|flood RECEIVERS SENDERS BYTES SECONDS
//
// echo: each sender waits for its answer; flood: nobody answers. Prints how many datagrams a second were received.
#include <arpa/inet.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 64, LONGEST = 9000 };

struct process {
  volatile uint16_t port;
  volatile uint64_t received;
  char unshared[112];
};

static struct process *all;

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static int open_socket(struct sockaddr_in *name) {
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  socklen_t length = sizeof *name;
  *name = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (fd < 0 || bind(fd, (struct sockaddr *)name, sizeof *name) ||
      getsockname(fd, (struct sockaddr *)name, &length))
    fail("a socket");
  return fd;
}

static void receive(struct process *self, int answers) {
  struct sockaddr_in name, from;
  char bytes[LONGEST];
  int fd = open_socket(&name);
  self->port = name.sin_port;
  for (;;) {
    socklen_t length = sizeof from;
    ssize_t count = recvfrom(fd, bytes, sizeof bytes, 0, (struct sockaddr *)&from, &length);
    if (count < 0) fail("recvfrom");
    self->received += 1;
    if (answers && sendto(fd, bytes, count, 0, (struct sockaddr *)&from, length) != count)
      fail("sendto");
  }
}

static void send_to(uint16_t port, size_t length, int waits) {
  struct sockaddr_in name, to = {.sin_family = AF_INET, .sin_port = port};
  char bytes[LONGEST] = {0}, got[LONGEST];
  // An answer that was lost is asked for again.
  struct timeval patience = {.tv_usec = 200000};
  int fd = open_socket(&name);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience)) fail("setsockopt");
  for (uint64_t number = 0;; ++number) {
    memcpy(bytes, &number, length < sizeof number ? length : sizeof number);
    if (sendto(fd, bytes, length, 0, (struct sockaddr *)&to, sizeof to) != (ssize_t)length)
      fail("sendto");
    if (waits && recv(fd, got, sizeof got, 0) == (ssize_t)length && memcmp(bytes, got, length)) {
      fprintf(stderr, "udp_many: another datagram came back than was sent\n");
      exit(1);
    }
  }
}

static uint64_t total(int receivers) {
  uint64_t sum = 0;
  for (int at = 0; at < receivers; ++at) sum += all[at].received;
  return sum;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

static void child(void) {
  // Nobody outlives the first process.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL)) fail("prctl");
}

int main(int argc, char **argv) {
  int echo = argc > 1 && !strcmp(argv[1], "echo");
  int receivers = argc > 2 ? atoi(argv[2]) : 0, senders = argc > 3 ? atoi(argv[3]) : 0;
  int length = argc > 4 ? atoi(argv[4]) : 0, seconds = argc > 5 ? atoi(argv[5]) : 0;
  if (argc != 6 || (!echo && strcmp(argv[1], "flood")) || receivers < 1 || receivers > MOST ||
      senders < 1 || senders > MOST || length < 1 || length > LONGEST || seconds < 1) {
    fprintf(stderr, "usage: udp_many echo|flood RECEIVERS SENDERS BYTES SECONDS\n");
    return 2;
  }
  all = mmap(0, MOST * sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) fail("mmap");
  for (int at = 0; at < receivers + senders; ++at) {
    pid_t made = fork();
    if (made < 0) fail("fork");
    if (made) {
      while (at < receivers && !all[at].port) usleep(1000);
      continue;
    }
    child();
    if (at < receivers) receive(&all[at], echo);
    send_to(all[(at - receivers) % receivers].port, length, echo);
  }
  usleep(300000);
  double begun = now();
  uint64_t before = total(receivers);
  sleep(seconds);
  double rate = (total(receivers) - before) / (now() - begun);
  if (waitpid(-1, 0, WNOHANG)) {
    fprintf(stderr, "udp_many: a process has ended\n");
    return 1;
  }
  printf("%.0f\n", rate);
  signal(SIGTERM, SIG_IGN);
  kill(0, SIGTERM);
  return 0;
}
