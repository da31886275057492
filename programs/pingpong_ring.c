// SPDX-License-Identifier: Apache-2.0
// libipnuma's ways for the ping-pong benchmark: a line ring in each direction, and bare lines that
// each process stores into the other's memory.
#include <errno.h>
#include <ipnuma.h>
#include <string.h>

#include "pingpong.h"

enum { LINES = 1024 };

static void must(int status, const char *what) {
  errno = -status;
  if (status < 0) fail(what);
}

// Rings ------------------------------------------------------------------------------------------

static struct {
  ipn_device *device;
  ipn_receiver *receiver;
  ipn_sender *sender;
} rings;

static void *ring_open(int side, const struct setup *setup) {
  ipn_token token;
  (void)side;
  must(ipn_open(NULL, &rings.device), "ipn_open");
  must(ipn_ring_create(rings.device, LINES, &rings.receiver, &token), "ipn_ring_create");
  tell(setup, &token, sizeof token);
  hear(setup, &token, sizeof token);
  must(ipn_ring_connect(rings.device, &token, &rings.sender), "ipn_ring_connect");
  return &rings;
}

static void ring_send(void *end, const void *data, size_t size) {
  (void)end;
  must(ipn_ring_send(rings.sender, 0, data, size, -1), "ipn_ring_send");
}

static void ring_receive(void *end, void *data, size_t size) {
  size_t length;
  (void)end;
  must(ipn_ring_receive(rings.receiver, NULL, data, size, &length, -1), "ipn_ring_receive");
  errno = 0;
  if (length != size) fail("a message of another length came");
}

const struct way ring = {ring_open, ring_send, ring_receive};

// Lines ------------------------------------------------------------------------------------------

static struct {
  ipn_device *device;
  ipn_region *region;
  ipn_window *window;
  uint32_t sent, received;
} lines;

static void *line_open(int side, const struct setup *setup) {
  ipn_token token;
  (void)side;
  must(ipn_open(NULL, &lines.device), "ipn_open");
  must(ipn_mem_alloc(lines.device, 4096, &lines.region), "ipn_mem_alloc");
  must(ipn_export(lines.region, 0, 64, IPN_WRITE, NULL, &token), "ipn_export");
  tell(setup, &token, sizeof token);
  hear(setup, &token, sizeof token);
  must(ipn_connect(lines.device, &token, &lines.window), "ipn_connect");
  return &lines;
}

static void line_send(void *end, const void *data, size_t size) {
  (void)end;
  must(ipn_put_line(lines.window, 0, ++lines.sent, data, size), "ipn_put_line");
  // A peer that sleeps is to be woken; if it spins this is a look at one word.
  must(ipn_signal(lines.window), "ipn_signal");
}

static void line_receive(void *end, void *data, size_t size) {
  unsigned char line[56];
  size_t length;
  (void)end;
  must(ipn_wait_line(lines.region, 0, ++lines.received, line, &length, -1), "ipn_wait_line");
  errno = 0;
  if (length != size) fail("a line of another length came");
  memcpy(data, line, size);
}

const struct way line = {line_open, line_send, line_receive};
