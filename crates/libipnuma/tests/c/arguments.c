// SPDX-License-Identifier: Apache-2.0
/* Every function with every wrong argument, and once with right ones. Compiled as C and as C++. */
#ifndef _GNU_SOURCE /* setitimer */
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include <ipnuma.h>

static int failures;

#define IS(call, expected)                                                                       \
  do {                                                                                           \
    long long got_ = (long long)(call), expected_ = (long long)(expected);                       \
    if (got_ != expected_) {                                                                     \
      printf("line %d: %s is %lld, not %lld\n", __LINE__, #call, got_, expected_);               \
      failures++;                                                                                \
    }                                                                                            \
  } while (0)
#define BAD(call) IS(call, -EINVAL)

/* What all that follows is tried with. */
#define NEEDED(pointer)                                                                          \
  do {                                                                                           \
    if ((pointer) == NULL) {                                                                     \
      printf("line %d: there is no %s\n", __LINE__, #pointer);                                   \
      exit(1);                                                                                   \
    }                                                                                            \
  } while (0)

/* What one part makes and the next ones use. */
static ipn_device *device;
static ipn_region *region, *readable;
static ipn_window *window;
static ipn_receiver *receiver;
static ipn_sender *sender;
/* Of region, later of the ring; of readable. */
static ipn_token token, other;
static unsigned char bytes[128];

static void said(const char *part) {
  char text[512] = "";
  ipn_error_message(text, sizeof text);
  if (strstr(text, part) == NULL) {
    printf("\"%s\" does not say \"%s\"\n", text, part);
    failures++;
  }
}

/* Whoever is not interrupted says so, instead of waiting for ever. */
#define LONG_NS 10000000000ll

/* As many as interrupt a wait for certain; whoever goes on sleeping is left alone then, until its time is up. */
#define ALARMS 1000
static volatile sig_atomic_t alarms;
static void on_alarm(int number) {
  const struct itimerval never = {{0, 0}, {0, 0}};
  (void)number;
  alarms = alarms + 1;
  if (alarms == ALARMS)
    setitimer(ITIMER_REAL, &never, NULL);
}

/* Handlers end a wait that sleeps, those with SA_RESTART too; a wait afterwards is as any other. */
static void interrupted(void) {
  struct sigaction action, before;
  struct itimerval often, never;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_alarm;
  action.sa_flags = SA_RESTART;
  memset(&never, 0, sizeof never);
  /* Again and again: one may come before the wait sleeps. */
  often.it_value.tv_sec = often.it_interval.tv_sec = 0;
  often.it_value.tv_usec = often.it_interval.tv_usec = 5000;
  sigaction(SIGALRM, &action, &before);
  setitimer(ITIMER_REAL, &often, NULL);
  IS(ipn_wait(region, 8, 77, LONG_NS, NULL), -EINTR);
  IS(ipn_wait_line(region, 192, 10, bytes, NULL, LONG_NS), -EINTR);
  setitimer(ITIMER_REAL, &never, NULL);
  sigaction(SIGALRM, &before, NULL);
  IS(ipn_wait(region, 8, 77, 1000, NULL), -ETIMEDOUT);
}

static void errors(void) {
  IS(ipn_version() >= IPN_VERSION, 1);
  IS(strcmp(ipn_strerror(0), "success"), 0);
  IS(strcmp(ipn_strerror(-EINVAL), ipn_strerror(EINVAL)), 0);
  IS(strcmp(ipn_strerror(-ENOBUFS), "the daemon allows no more"), 0);
  IS(strcmp(ipn_strerror(-99999), "unknown error"), 0);
  IS(ipn_strerror(INT32_MIN) != NULL, 1);
}

static void opening(const char *daemon) {
  ipn_options options;
  char text[64];
  memset(&options, 0, sizeof options);
  BAD(ipn_open(NULL, NULL));
  said("device is NULL");
  IS(ipn_error_message(NULL, 5), strlen("device is NULL"));
  IS(ipn_error_message(text, 7), strlen("device is NULL"));
  IS(strcmp(text, "device"), 0);
  IS(ipn_error_message(text, 0), strlen("device is NULL"));
  device = (ipn_device *)bytes;
  BAD(ipn_open(&options, &device));
  IS(device == NULL, 1);
  said("struct_size");
  options.struct_size = sizeof options;
  options.backend = "steam";
  BAD(ipn_open(&options, &device));
  said("steam");
  options.backend = "\xff";
  BAD(ipn_open(&options, &device));
  options.backend = "pcie";
  BAD(ipn_open(&options, &device));
  said("[pcie]");
  options.backend = "soft";
  options.config = "/nonexistent/ipnuma.toml";
  BAD(ipn_open(&options, &device));
  said("/nonexistent/ipnuma.toml");
  options.config = NULL;
  options.daemon = "/nonexistent/daemon.sock";
  IS(ipn_open(&options, &device), -ECONNREFUSED);
  said("ipnuma daemon");
  options.daemon = daemon;
  options.spin_ns = -1;
  IS(ipn_open(&options, &device), 0);
  NEEDED(device);
}

static void querying(void) {
  ipn_info info;
  ipn_statistics statistics;
  memset(&info, 0, sizeof info);
  BAD(ipn_query(NULL, &info));
  BAD(ipn_query(device, NULL));
  BAD(ipn_query(device, &info));
  info.struct_size = sizeof info;
  IS(ipn_query(device, &info), 0);
  IS(strcmp(info.backend, "soft"), 0);
  IS(info.mappable, 1);
  /* A caller with an older, shorter struct: nothing behind it is touched. */
  memset(&info, 0x55, sizeof info);
  info.struct_size = sizeof info.struct_size + 4;
  IS(ipn_query(device, &info), 0);
  IS(memcmp(info.backend, "soft", 4), 0);
  IS(info.backend[4], 0x55);
  memset(&statistics, 0, sizeof statistics);
  BAD(ipn_stats(NULL, &statistics));
  BAD(ipn_stats(device, NULL));
  BAD(ipn_stats(device, &statistics));
}

static void regions(void) {
  BAD(ipn_mem_alloc(NULL, 4096, &region));
  BAD(ipn_mem_alloc(device, 4096, NULL));
  BAD(ipn_mem_alloc(device, 0, &region));
  said("a region of 0 bytes: it has 1 at least");
  BAD(ipn_mem_alloc(device, SIZE_MAX, &region));
  IS(region == NULL, 1);
  IS(ipn_mem_alloc(device, 5000, &region), 0);
  NEEDED(region);
  IS(ipn_mem_address(NULL) == NULL, 1);
  IS(ipn_mem_address(region) != NULL, 1);
  IS(ipn_mem_size(NULL), 0);
  IS(ipn_mem_size(region), 8192);
  BAD(ipn_export(NULL, 0, 64, IPN_WRITE, NULL, &token));
  BAD(ipn_export(region, 0, 64, IPN_WRITE, NULL, NULL));
  BAD(ipn_export(region, 0, 64, 0, NULL, &token));
  BAD(ipn_export(region, 0, 64, 4, NULL, &token));
  BAD(ipn_export(region, 0, 64, 0x101, NULL, &token));
  BAD(ipn_export(region, 0, 0, IPN_WRITE, NULL, &token));
  BAD(ipn_export(region, 8192, 1, IPN_WRITE, NULL, &token));
  BAD(ipn_export(region, SIZE_MAX, 2, IPN_WRITE, NULL, &token));
  BAD(ipn_export(region, 64, SIZE_MAX, IPN_WRITE, NULL, &token));
  BAD(ipn_export(region, 0, 64, IPN_WRITE, "localhost", &token));
  said("localhost");
  BAD(ipn_export(region, 0, 64, IPN_WRITE, "0.0.0.0", &token));
  said("peer 0.0.0.0 is no machine's address");
  BAD(ipn_export(region, 0, 64, IPN_WRITE, "255.255.255.255", &token));
  BAD(ipn_export(region, 0, 64, IPN_WRITE, "224.0.0.1", &token));
  /* On one machine a region is for readers or for writers. */
  IS(ipn_mem_alloc(device, 64, &readable), 0);
  NEEDED(readable);
  IS(ipn_export(readable, 0, 64, IPN_READ, NULL, &other), 0);
  IS(ipn_export(region, 0, 8192, IPN_READ | IPN_WRITE, NULL, &token), 0);
}

static void refused_windows(void) {
  BAD(ipn_connect(NULL, &token, &window));
  BAD(ipn_connect(device, NULL, &window));
  BAD(ipn_connect(device, &token, NULL));
  token.bytes[63] ^= 1;
  BAD(ipn_connect(device, &token, &window));
  said("token");
  token.bytes[63] ^= 1;
  IS(ipn_connect(device, &other, &window), 0);
  IS(ipn_window_size(window), 64);
  IS(ipn_put(window, 0, bytes, 1), -EACCES);
  IS(ipn_store32(window, 0, 1), -EACCES);
  IS(ipn_store64(window, 0, 1), -EACCES);
  IS(ipn_put64(window, 0, bytes), -EACCES);
  IS(ipn_put_line(window, 0, 1, bytes, 1), -EACCES);
  IS(ipn_put_signal(window, 0, bytes, 1, 8, 1), -EACCES);
  IS(ipn_signal(window), -EACCES);
  IS(ipn_disconnect(window), 0);
}

static void windows(void) {
  void *address = NULL;
  IS(ipn_connect(device, &token, &window), 0);
  NEEDED(window);
  IS(ipn_window_size(NULL), 0);
  IS(ipn_window_size(window), 8192);
  BAD(ipn_map(NULL, &address));
  BAD(ipn_map(window, NULL));
  IS(ipn_map(window, &address), 0);
  NEEDED(address);
  BAD(ipn_window_map(NULL, IPN_MAP_ORDERED, &address));
  BAD(ipn_window_map(window, IPN_MAP_ORDERED, NULL));
  BAD(ipn_window_map(window, 2, &address));
  IS(ipn_window_map(window, IPN_MAP_COMBINED, &address), 0);
  IS(ipn_window_map(window, IPN_MAP_ORDERED, &address), 0);
  NEEDED(address);
  *(volatile uint32_t *)address = 0x01020304;
  IS(*(volatile uint32_t *)ipn_mem_address(region), 0x01020304);
}

static void stores(void) {
  BAD(ipn_store32(NULL, 0, 1));
  BAD(ipn_store32(window, 2, 1));
  BAD(ipn_store32(window, 8192, 1));
  BAD(ipn_store32(window, SIZE_MAX - 3, 1));
  IS(ipn_store32(window, 8188, 0x0A0B0C0D), 0);
  IS(((volatile unsigned char *)ipn_mem_address(region))[8188], 0x0D);
  BAD(ipn_store64(NULL, 0, 1));
  BAD(ipn_store64(window, 4, 1));
  BAD(ipn_store64(window, 8192, 1));
  IS(ipn_store64(window, 0, 5), 0);
  BAD(ipn_put(NULL, 0, bytes, 1));
  BAD(ipn_put(window, 0, NULL, 1));
  BAD(ipn_put(window, 8191, bytes, 2));
  BAD(ipn_put(window, SIZE_MAX, bytes, 2));
  BAD(ipn_put(window, 0, bytes, SIZE_MAX));
  IS(ipn_put(window, 8192, NULL, 0), 0);
  IS(ipn_put(window, 8191, bytes, 1), 0);
  BAD(ipn_put64(NULL, 0, bytes));
  BAD(ipn_put64(window, 0, NULL));
  BAD(ipn_put64(window, 32, bytes));
  BAD(ipn_put64(window, 8192, bytes));
  IS(ipn_put64(window, 128, bytes), 0);
  BAD(ipn_put_line(NULL, 0, 1, bytes, 1));
  BAD(ipn_put_line(window, 0, 1, NULL, 1));
  BAD(ipn_put_line(window, 8, 1, bytes, 1));
  IS(ipn_put_line(window, 0, 1, bytes, 57), -EMSGSIZE);
  IS(ipn_put_line(window, 192, 9, bytes, 56), 0);
  BAD(ipn_put_signal(NULL, 0, bytes, 1, 8, 1));
  BAD(ipn_put_signal(window, 0, NULL, 1, 8, 1));
  BAD(ipn_put_signal(window, 8192, bytes, 1, 8, 1));
  BAD(ipn_put_signal(window, 0, bytes, 1, 4, 1));
  BAD(ipn_put_signal(window, 0, bytes, 1, 8192, 1));
  IS(ipn_put_signal(window, 300, bytes, 3, 8, 77), 0);
}

static void flushes_and_loads(void) {
  uint64_t word = 0;
  BAD(ipn_signal(NULL));
  IS(ipn_signal(window), 0);
  BAD(ipn_fence(NULL));
  IS(ipn_fence(window), 0);
  BAD(ipn_flush(NULL, IPN_LOCAL, 0));
  BAD(ipn_flush(window, 2, 0));
  IS(ipn_flush(window, IPN_LOCAL, 0), 0);
  IS(ipn_flush(window, IPN_DELIVERED, -1), 0);
  BAD(ipn_get(NULL, 0, bytes, 1, -1));
  BAD(ipn_get(window, 0, NULL, 1, -1));
  BAD(ipn_get(window, 8192, bytes, 1, -1));
  IS(ipn_get(window, 8, &word, 8, -1), 0);
  IS(word, 77);
  BAD(ipn_epoch(NULL, &word));
  BAD(ipn_epoch(window, NULL));
  IS(ipn_epoch(window, &word), 0);
  BAD(ipn_check(NULL, word));
  IS(ipn_check(window, word), 0);
}

/* All functions that take a token, with one that is none: what is wrong with it, and what helps. */
static void no_token(ipn_token wrong, const char *what, const char *remedy) {
  window = (ipn_window *)bytes;
  BAD(ipn_connect(device, &wrong, &window));
  IS(window == NULL, 1);
  said("the token is not valid");
  said(what);
  said(remedy);
  BAD(ipn_revoke(region, &wrong));
  said("the token is not valid");
  said(what);
  said(remedy);
  sender = (ipn_sender *)bytes;
  BAD(ipn_ring_connect(device, &wrong, &sender));
  IS(sender == NULL, 1);
  said("the token is not valid");
  said(what);
  said(remedy);
}

static void wrong_tokens(void) {
  ipn_token wrong;
  memset(&wrong, 0, sizeof wrong);
  no_token(wrong, "IPNT", "pass on the bytes");
  memset(&wrong, 'f', sizeof wrong);
  no_token(wrong, "IPNT", "pass on the bytes");
  wrong = token;
  wrong.bytes[4] = 2;
  no_token(wrong, "version 2", "install the same");
  wrong = token;
  wrong.bytes[20] ^= 1;
  no_token(wrong, "check sum", "fetch it again");
  /* A token that is right, for something else. */
  IS(ipn_revoke(region, &other), -EACCES);
  said("not this region's");
  said("the region that exported it");
  BAD(ipn_ring_connect(device, &other, &sender));
  said("not a ring's");
  said("came with the ring");
}

static void receiving(void) {
  size_t size = 0;
  uint64_t word = 0;
  BAD(ipn_poll_line(NULL, 192, 9, bytes, &size));
  BAD(ipn_poll_line(region, 200, 9, bytes, &size));
  BAD(ipn_poll_line(region, 8192, 9, bytes, &size));
  IS(ipn_poll_line(region, 192, 8, bytes, &size), -EAGAIN);
  IS(ipn_poll_line(region, 192, 9, bytes, &size), 0);
  IS(size, 56);
  IS(ipn_poll_line(region, 192, 9, NULL, NULL), 0);
  BAD(ipn_wait_line(NULL, 192, 9, bytes, &size, 0));
  BAD(ipn_wait_line(region, 193, 9, bytes, &size, 0));
  IS(ipn_wait_line(region, 192, 9, bytes, &size, -1), 0);
  IS(ipn_wait_line(region, 192, 10, bytes, &size, 1000), -ETIMEDOUT);
  BAD(ipn_wait(NULL, 8, 0, 0, &word));
  BAD(ipn_wait(region, 4, 0, 0, &word));
  BAD(ipn_wait(region, 8192, 0, 0, &word));
  IS(ipn_wait(region, 8, 0, -1, &word), 0);
  IS(word, 77);
  IS(ipn_wait(region, 8, 77, 0, NULL), -ETIMEDOUT);
  interrupted();
  BAD(ipn_event_fd(NULL));
  IS(ipn_event_fd(region) >= 0, 1);
  BAD(ipn_recheck(NULL));
  IS(ipn_recheck(region), 0);
  BAD(ipn_mem_read(NULL, 0, bytes, 1));
  BAD(ipn_mem_read(region, 0, NULL, 1));
  BAD(ipn_mem_read(region, 8190, bytes, 3));
  IS(ipn_mem_read(region, 300, bytes, 3), 0);
}

static void revoking(void) {
  uint64_t word = 0;
  BAD(ipn_revoke(NULL, &token));
  BAD(ipn_revoke(region, NULL));
  IS(ipn_epoch(window, &word), 0);
  IS(ipn_revoke(region, &token), 0);
  IS(ipn_revoke(region, &token) < 0, 1);
  IS(ipn_put(window, 0, bytes, 8), 0);
  IS(ipn_check(window, word), -EKEYREVOKED);
  IS(ipn_mem_read(region, 0, &word, 8), 0);
  IS(word, 5);
  IS(ipn_disconnect(window), 0);
  IS(ipn_connect(device, &token, &window), -EKEYREVOKED);
  IS(window == NULL, 1);
  IS(ipn_disconnect(NULL), 0);
}

static void ring_ends(void) {
  BAD(ipn_ring_create(NULL, 64, &receiver, &token));
  BAD(ipn_ring_create(device, 64, NULL, &token));
  BAD(ipn_ring_create(device, 64, &receiver, NULL));
  BAD(ipn_ring_create(device, 63, &receiver, &token));
  BAD(ipn_ring_create(device, 4, &receiver, &token));
  BAD(ipn_ring_create(device, 1u << 31, &receiver, &token));
  IS(ipn_ring_create(device, 64, &receiver, &token), 0);
  NEEDED(receiver);
  BAD(ipn_ring_connect(NULL, &token, &sender));
  BAD(ipn_ring_connect(device, NULL, &sender));
  BAD(ipn_ring_connect(device, &token, NULL));
  BAD(ipn_ring_connect(device, &other, &sender));
  IS(ipn_ring_connect(device, &token, &sender), 0);
  NEEDED(sender);
  IS(ipn_ring_max(NULL), 0);
  IS(ipn_ring_max(sender), 15 * 64);
}

static void ring_arguments(void) {
  size_t size = 0;
  uint32_t kind = 0;
  const void *data = NULL;
  BAD(ipn_ring_send(NULL, 0, bytes, 1, 0));
  BAD(ipn_ring_send(sender, 0, NULL, 1, 0));
  BAD(ipn_ring_send(sender, 255, bytes, 1, 0));
  BAD(ipn_ring_send(sender, 256, bytes, 1, 0));
  IS(ipn_ring_send(sender, 0, ipn_mem_address(region), 15 * 64 + 1, 0), -EMSGSIZE);
  BAD(ipn_ring_check(NULL));
  IS(ipn_ring_check(sender), 0);
  BAD(ipn_ring_peek(NULL, NULL, NULL, NULL));
  IS(ipn_ring_peek(receiver, &kind, &data, &size), -EAGAIN);
  BAD(ipn_ring_release(NULL));
  IS(ipn_ring_release(receiver), 0);
  BAD(ipn_ring_receive(NULL, NULL, bytes, 1, &size, 0));
  BAD(ipn_ring_receive(receiver, NULL, NULL, 1, &size, 0));
  IS(ipn_ring_receive(receiver, NULL, bytes, 1, &size, 0), -EAGAIN);
  IS(ipn_ring_receive(receiver, NULL, bytes, 1, &size, 1000), -ETIMEDOUT);
  BAD(ipn_ring_event_fd(NULL));
  IS(ipn_ring_event_fd(receiver) >= 0, 1);
}

static void ring_messages(void) {
  size_t size = 0;
  uint32_t kind = 0;
  const void *data = NULL;
  for (int sent = 0; sent < 64; sent++) IS(ipn_ring_send(sender, 3, bytes, 20, 0), 0);
  IS(ipn_ring_send(sender, 3, bytes, 20, 0), -EAGAIN);
  IS(ipn_ring_send(sender, 3, bytes, 20, 1000), -ETIMEDOUT);
  IS(ipn_ring_peek(receiver, NULL, NULL, NULL), 0);
  IS(ipn_ring_peek(receiver, &kind, &data, &size), 0);
  IS(kind, 3);
  IS(size, 20);
  IS(memcmp(data, bytes, 20), 0);
  for (int taken = 0; taken < 32; taken++) IS(ipn_ring_release(receiver), 0);
  IS(ipn_ring_receive(receiver, &kind, bytes, 4, &size, -1), 0);
  IS(size, 20);
  IS(ipn_ring_send(sender, 3, bytes, 20, -1), 0);
}

static void closing(void) {
  ipn_statistics statistics;
  memset(&statistics, 0, sizeof statistics);
  statistics.struct_size = sizeof statistics;
  IS(ipn_stats(device, &statistics), 0);
  IS(statistics.regions, 2);
  IS(statistics.windows, 0);
  IS(statistics.rings, 2);
  IS(statistics.exported, 3);
  IS(statistics.revoked, 1);
  IS(statistics.refused >= 2, 1);
  /* Ends may go in any order, and the device before them. */
  IS(ipn_close(device), 0);
  IS(ipn_receiver_close(receiver), 0);
  IS(ipn_ring_check(sender), -EKEYREVOKED);
  IS(ipn_sender_close(sender), 0);
  IS(ipn_receiver_close(NULL), 0);
  IS(ipn_sender_close(NULL), 0);
  IS(ipn_mem_free(readable), 0);
  IS(ipn_mem_free(region), 0);
  IS(ipn_mem_free(NULL), 0);
  IS(ipn_close(NULL), 0);
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  memset(bytes, 7, sizeof bytes);
  errors();
  opening(argv[1]);
  querying();
  regions();
  wrong_tokens();
  refused_windows();
  windows();
  stores();
  flushes_and_loads();
  receiving();
  revoking();
  ring_ends();
  ring_arguments();
  ring_messages();
  closing();
  if (failures == 0) printf("all as documented\n");
  return failures != 0;
}
