// SPDX-License-Identifier: Apache-2.0
/*
 * MAC addresses that the driver has from the kernel, and follows.
 *
 *   neighbours ping|pong DIRECTORY INTERFACE
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "driver_calls.h"

#define NETWORK 0x0A000000u
/* Whoever is not told says so, instead of waiting for ever. */
#define LONG_MS 1000

static void command(const char *text, const char *interface) {
  char whole[512];
  snprintf(whole, sizeof whole, text, interface);
  must(system(whole) == 0 ? 0 : -1, whole);
}

static int identify(int nic, unsigned machine) {
  struct ipnuma_identity identity = {.ip = NETWORK + machine, .netmask = 0xFFFFFF00};
  return ioctl(nic, IPNUMA_IDENTITY, &identity);
}

static int begin(int nic, unsigned machine, unsigned session, unsigned epoch) {
  struct ipnuma_peer peer = {.ip = NETWORK + machine,
                             .session = session,
                             .peer_session = 1,
                             .epoch = epoch,
                             .flags = IPNUMA_PEER_VALID};
  return ioctl(nic, IPNUMA_PEER, &peer);
}

static unsigned long long own(int nic) {
  struct ipnuma_info info;
  must(ioctl(nic, IPNUMA_INFO, &info), "INFO");
  return info.mac;
}

static unsigned long long other(int nic) {
  struct ipnuma_peer peer = {.session = 1};
  must(ioctl(nic, IPNUMA_PEER_GET, &peer), "PEER_GET");
  return peer.mac;
}

static void store(int window, unsigned long long value) {
  struct ipnuma_flush wanted = {.timeout_ns = -1};
  must(pwrite(window, &value, sizeof value, 0), "a store");
  int result = ioctl(window, IPNUMA_FLUSH, &wanted);
  printf("a store: %s\n", result ? strerror(errno) : "flushed");
}

static unsigned lost(int nic) {
  struct pollfd asked = {.fd = nic, .events = POLLIN};
  struct ipnuma_event event;
  while (poll(&asked, 1, LONG_MS) == 1) {
    must(read(nic, &event, sizeof event), "an event");
    if (event.code == IPNUMA_LOST)
      return event.session;
  }
  return 0;
}

static void ping(int nic, const char *directory, const char *interface) {
  printf("no interface has 10.0.0.77: %s\n", identify(nic, 77) ? strerror(errno) : "it has");
  must(identify(nic, 1), "IDENTITY");
  printf("nobody has 10.0.0.99: %s\n", begin(nic, 99, 2, EPOCH) ? strerror(errno) : "somebody has");
  must(begin(nic, 2, 1, EPOCH), "PEER");
  printf("own: %012llx, the other's: %012llx\n", own(nic), other(nic));
  int there = window(nic, 1, hear(directory, "key"));
  store(there, 1);

  command("ip neighbour replace 10.0.0.2 lladdr 02:00:00:00:00:99 nud permanent dev %s", interface);
  printf("the neighbour moves: session %u is lost\n", lost(nic));
  store(there, 2);
  command("ip neighbour delete 10.0.0.2 dev %s", interface);
  tell(directory, "anew", 1);
  hear(directory, "begun");
  must(begin(nic, 2, 1, EPOCH + 1), "PEER");
  printf("begun anew: %012llx\n", other(nic));
  store(there, 3);

  command("ip link set dev %s down", interface);
  command("ip link set dev %s address 02:00:00:00:00:77 up", interface);
  for (int look = 0; look < LONG_MS && own(nic) != 0x020000000077; look++) {
    struct timespec some = {.tv_nsec = 1000000};
    nanosleep(&some, NULL);
  }
  printf("own: %012llx\n", own(nic));
}

static void pong(int nic, const char *directory) {
  struct ipnuma_region region = {.bytes = 4096};
  struct ipnuma_export share = {.bytes = 4096, .rights = IPNUMA_WRITE, .tag = TAG};
  struct ipnuma_wait wait = {.timeout_ns = -1};
  must(identify(nic, 2), "IDENTITY");
  must(begin(nic, 1, 1, EPOCH), "PEER");
  must(ioctl(nic, IPNUMA_REGION, &region), "REGION");
  must(ioctl(region.fd, IPNUMA_EXPORT, &share), "EXPORT");
  tell(directory, "key", share.key);
  must(ioctl(region.fd, IPNUMA_WAIT, &wait), "WAIT");
  hear(directory, "anew");
  must(begin(nic, 1, 1, EPOCH + 1), "PEER");
  tell(directory, "begun", 1);
  wait.seen = 1;
  must(ioctl(region.fd, IPNUMA_WAIT, &wait), "WAIT");
}

int main(int argc, char **argv) {
  if (argc != 4)
    return 2;
  int nic = open("/dev/ipnuma0", O_RDWR | O_NONBLOCK);
  must(nic, "/dev/ipnuma0");
  if (strcmp(argv[1], "ping") == 0)
    ping(nic, argv[2], argv[3]);
  else
    pong(nic, argv[2]);
  return 0;
}
