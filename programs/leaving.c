// SPDX-License-Identifier: Apache-2.0
// Both ends of a connection send, leave the library's rings somewhere in the middle, end in one way or another, and read all.
//
//   leaving SEED ROUNDS PLAIN
//
// Each end leaves by an option that only the kernel follows, by seccomp, or by a child that becomes PLAIN, a static program, with
// the connection. Every byte and every end is checked; what is wrong is said, with the round that `leaving SEED ROUNDS PLAIN ROUND`
// repeats.
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 100000, PATIENCE = 20 };

enum way { STAYS, SIGNALS, LOW_WATER, COUNTED, STAMPED, CONFINED, BESIDE, HELD, BECOMES, WAYS };
enum place { BEFORE, HALF_SENT, SENT, SHUT, HALF_READ, PLACES };
enum reading { PLAINLY, POLL, POLL_AND_TRY, LEVEL, EDGE, ONCE, READINGS };
enum ending { CLOSES, EXITS, IS_KILLED, ENDINGS };

struct end {
  enum way way;
  enum place place;
  enum reading reading;
  enum ending ending;
  unsigned bytes, pieces, delay;
};

// What one end has to do, and how far it is.
struct task {
  unsigned round, side;
  unsigned out, in;
  unsigned sent, got, shut;
};

static uint64_t state;
static const char *plain;
static struct task task;
static char what_is_done[80];

static unsigned below(unsigned bound) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (state >> 20) % bound;
}

static unsigned char byte_at(unsigned side, unsigned at) {
  unsigned mixed = ((at + 1) * 2654435761u) ^ (task.round * 40503u) ^ (side * 77u);
  return 1 + (mixed >> 13) % 255;
}

static int wrong(const char *what) {
  fprintf(stderr, "round %u side %u, %s: %s after %u of %u sent, %u of %u read: %s\n", task.round,
          task.side, what_is_done, what, task.sent, task.out, task.got, task.in, strerror(errno));
  return 1;
}

static void hangs(int signal) {
  (void)signal;
  errno = 0;
  _exit(wrong("hangs"));
}

static void sleep_us(unsigned long us) {
  struct timespec time = {us / 1000000, us % 1000000 * 1000};
  nanosleep(&time, NULL);
}

static void becomes_plain(int fd) {
  unsigned numbers[] = {fd, task.round, task.side, task.out, task.in, task.sent, task.got, task.shut};
  char words[8][12], *line[12] = {(char *)plain, "goes-on"};
  for (int at = 0; at < 8; at++) {
    snprintf(words[at], sizeof words[at], "%u", numbers[at]);
    line[at + 2] = words[at];
  }
  line[10] = what_is_done;
  if (below(2)) {
    pid_t child = fork();
    if (child) {
      int status;
      close(fd);
      waitpid(child, &status, 0);
      _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
  }
  execv(plain, line);
  _exit(wrong("exec"));
}

static void leave(int fd, enum way way) {
  int one = 1, two = 2;
  char number[12], time[12];
  struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog filter = {1, &allow};
  pid_t child;
  switch (way) {
    case SIGNALS:
      fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_ASYNC);
      break;
    case LOW_WATER:
      setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &two, sizeof two);
      setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof one);
      break;
    case COUNTED:
      setsockopt(fd, IPPROTO_TCP, TCP_INQ, &one, sizeof one);
      break;
    case STAMPED:
      setsockopt(fd, SOL_SOCKET, SO_TIMESTAMP, &one, sizeof one);
      break;
    case CONFINED:
      prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
      break;
    case BESIDE:
    case HELD:
      child = fork();
      if (!child) {
        snprintf(number, sizeof number, "%d", fd);
        snprintf(time, sizeof time, "%u", way == HELD ? below(3000) : 0);
        execl(plain, plain, "holds", number, time, (char *)NULL);
        _exit(1);
      }
      if (way == BESIDE) waitpid(child, NULL, 0);
      break;
    case BECOMES:
      becomes_plain(fd);
      break;
    default:
      break;
  }
}

// Waits as `how` says. Gives the flags for recv, or -1.
static int wait_for(int fd, int set, enum reading how, int again) {
  struct epoll_event event = {EPOLLIN | EPOLLRDHUP | EPOLLONESHOT, {0}};
  struct pollfd entry = {fd, POLLIN, 0};
  int count;
  switch (how) {
    case POLL:
    case POLL_AND_TRY:
      poll(&entry, 1, -1);
      return how == POLL ? 0 : MSG_DONTWAIT;
    case ONCE:
      if (again) epoll_ctl(set, EPOLL_CTL_MOD, fd, &event);
      // Fall through.
    case LEVEL:
    case EDGE:
      if (how == EDGE && !again) return MSG_DONTWAIT;
      while ((count = epoll_wait(set, &event, 1, 1000 * PATIENCE)) < 0 && errno == EINTR) {}
      return count == 1 ? MSG_DONTWAIT : -1;
    default:
      return 0;
  }
}

static int send_all(int fd, struct end *end, unsigned up_to) {
  static unsigned char bytes[MOST];
  while (task.sent < up_to) {
    unsigned count = up_to - task.sent;
    if (end->pieces) {
      unsigned piece = 1 + below(9000);
      if (piece < count) count = piece;
    }
    for (unsigned at = 0; at < count; at++) bytes[at] = byte_at(task.side, task.sent + at);
    ssize_t sent = send(fd, bytes, count, MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) return wrong("send");
    if (sent > 0) task.sent += sent;
  }
  return 0;
}

// Up to a place, or to the end and beyond it.
static int read_all(int fd, struct end *end, unsigned up_to, int to_the_end) {
  static unsigned char bytes[MOST + 1];
  int set = -1, again = 0;
  if (end->reading >= LEVEL) {
    unsigned flags = end->reading == EDGE ? EPOLLET : end->reading == ONCE ? EPOLLONESHOT : 0;
    struct epoll_event event = {EPOLLIN | EPOLLRDHUP | flags, {0}};
    set = epoll_create1(EPOLL_CLOEXEC);
    epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
  }
  while (to_the_end || task.got < up_to) {
    unsigned most = to_the_end ? sizeof bytes : up_to - task.got;
    if (end->pieces && most > 20000) most = 1 + below(20000);
    int flags = wait_for(fd, set, end->reading, again);
    if (flags < 0) return wrong("no event");
    ssize_t count = recv(fd, bytes, most, flags);
    again = end->reading == ONCE || (count < 0 && errno == EAGAIN && end->reading == EDGE);
    if (count < 0 && (errno == EINTR || (errno == EAGAIN && end->reading == EDGE))) continue;
    if (count < 0) return wrong("recv");
    if (count == 0) break;
    for (ssize_t at = 0; at < count; at++)
      if (bytes[at] != byte_at(!task.side, task.got + at)) return wrong("another byte");
    task.got += count;
  }
  if (set >= 0) close(set);
  errno = 0;
  if (task.got < up_to) return wrong("an early end");
  if (to_the_end && recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) != 0) return wrong("no end any more");
  return 0;
}

static int run(int fd, struct end *end) {
  int bad = 0;
  for (enum place place = BEFORE; !bad && place <= PLACES; place++) {
    if (place == HALF_SENT) bad = send_all(fd, end, task.out / 2);
    if (place == SENT) bad = send_all(fd, end, task.out);
    if (place == SHUT && !task.shut) {
      task.shut = 1;
      if (shutdown(fd, SHUT_WR)) bad = wrong("shutdown");
    }
    if (place == HALF_READ) bad = read_all(fd, end, task.in / 2, 0);
    if (place == PLACES) bad = read_all(fd, end, task.in, 1);
    if (!bad && place == end->place) {
      sleep_us(end->delay);
      leave(fd, end->way);
    }
  }
  return bad;
}

static int play(int listener, struct sockaddr_in *name, struct end ends[2], unsigned side) {
  char hello[2];
  alarm(PATIENCE);
  task.side = side;
  task.out = ends[side].bytes;
  task.in = ends[!side].bytes;
  for (unsigned at = 0, length = 0; at < 2; at++)
    length += snprintf(what_is_done + length, sizeof what_is_done - length, "%s way %d place %d reads %d ends %d",
                       at ? " /" : "", ends[at].way, ends[at].place, ends[at].reading, ends[at].ending);
  int fd = side ? socket(AF_INET, SOCK_STREAM, 0) : accept(listener, NULL, NULL);
  if (side && connect(fd, (struct sockaddr *)name, sizeof *name)) return wrong("connect");
  if (send(fd, "hi", 2, 0) != 2 || recv(fd, hello, 2, MSG_WAITALL) != 2) return wrong("greeting");
  int bad = run(fd, &ends[side]);
  if (ends[side].ending == CLOSES) close(fd);
  if (ends[side].ending == IS_KILLED && !bad) raise(SIGKILL);
  return bad;
}

static int one_round(int listener, struct sockaddr_in *name) {
  struct end ends[2];
  pid_t children[2];
  int bad = 0;
  for (int side = 0; side < 2; side++) {
    unsigned sizes[] = {0, below(100), 30000, below(MOST), below(MOST)};
    ends[side] = (struct end){.way = below(WAYS), .place = below(PLACES), .reading = below(READINGS),
                              .ending = below(ENDINGS), .bytes = sizes[below(5)], .pieces = below(2),
                              .delay = below(3) * below(60)};
  }
  for (int side = 0; side < 2; side++) {
    children[side] = fork();
    if (!children[side]) {
      state ^= 0x1234567 * (side + 1);
      _exit(play(listener, name, ends, side));
    }
  }
  for (int side = 0; side < 2; side++) {
    int status;
    waitpid(children[side], &status, 0);
    bad |= WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status) != SIGKILL;
  }
  return bad;
}

int main(int count, char **words) {
  signal(SIGALRM, hangs);
  signal(SIGIO, SIG_IGN);
  if (count == 4 && !strcmp(words[1], "holds")) {
    sleep_us(strtoul(words[3], NULL, 10));
    return 0;
  }
  if (count == 11 && !strcmp(words[1], "goes-on")) {
    unsigned numbers[8];
    for (int at = 0; at < 8; at++) numbers[at] = strtoul(words[at + 2], NULL, 10);
    task = (struct task){numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], numbers[6], numbers[7]};
    snprintf(what_is_done, sizeof what_is_done, "%s", words[10]);
    struct end end = {.way = STAYS, .place = BEFORE};
    alarm(PATIENCE);
    return run(numbers[0], &end);
  }
  if (count < 4) return 2;
  unsigned seed = strtoul(words[1], NULL, 10), rounds = strtoul(words[2], NULL, 10), bad = 0;
  plain = words[3];
  struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof name;
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(listener, (struct sockaddr *)&name, length) || listen(listener, 16)) return 2;
  getsockname(listener, (struct sockaddr *)&name, &length);
  for (task.round = count > 4 ? strtoul(words[4], NULL, 10) : 0; task.round < rounds; task.round++) {
    state = 88172645463325252u ^ ((uint64_t)seed << 32) ^ ((task.round + 1) * 0x9E3779B97F4A7C15u);
    for (int at = 0; at < 9; at++) below(2);
    bad += one_round(listener, &name) != 0;
  }
  printf("seed %u: %u of %u rounds wrong\n", seed, bad, rounds);
  return bad != 0;
}
