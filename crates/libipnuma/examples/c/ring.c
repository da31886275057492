// SPDX-License-Identifier: Apache-2.0
/*
 * Messages from one process to another through a ring.
 *
 *   ring receive FILE MESSAGES &
 *   ring send FILE MESSAGES
 *
 * FILE carries the ring's token. Lengths and contents follow from the message's number, and the receiver checks them.
 */
#define _POSIX_C_SOURCE 200809L
#include "common.h"

enum { LINES = 256, MOST = 3000 };

static size_t make(uint64_t n, unsigned char *message) {
  size_t length = n % 4 != 0 ? (size_t)(n * 13 % 57) : (size_t)(n * 101 % (MOST + 1));
  for (size_t at = 0; at < length; at++) message[at] = (unsigned char)(n * 7 + at);
  return length;
}

static int receive(ipn_device *device, const char *path, uint64_t messages) {
  ipn_receiver *receiver;
  ipn_token token;
  unsigned char expected[MOST], copy[MOST];
  must(ipn_ring_create(device, LINES, &receiver, &token), "ipn_ring_create");
  give_token(path, &token);
  uint64_t bytes = 0;
  for (uint64_t n = 0; n < messages; n++) {
    size_t length = make(n, expected), size = 0;
    uint32_t kind = 0;
    const void *data = NULL;
    /* Every second message in place, the others as copies. */
    int status = n % 2 == 0 ? ipn_ring_peek(receiver, &kind, &data, &size) : -EAGAIN;
    if (status == -EAGAIN) {
      status = ipn_ring_receive(receiver, &kind, copy, sizeof copy, &size, 10000000000);
      data = copy;
      must(status, "ipn_ring_receive");
      if (size != length || memcmp(data, expected, size) != 0 || kind != n % 200) status = -EIO;
    } else {
      must(status, "ipn_ring_peek");
      if (size != length || memcmp(data, expected, size) != 0 || kind != n % 200) status = -EIO;
      must(ipn_ring_release(receiver), "ipn_ring_release");
    }
    if (status != 0) {
      fprintf(stderr, "message %llu is another\n", (unsigned long long)n);
      return 1;
    }
    bytes += size;
  }
  printf("%llu messages of %llu bytes received\n", (unsigned long long)messages, (unsigned long long)bytes);
  ipn_receiver_close(receiver);
  return 0;
}

static int send(ipn_device *device, const char *path, uint64_t messages) {
  ipn_sender *sender;
  ipn_token token = take_token(path);
  unsigned char message[MOST];
  must_accept(ipn_ring_connect(device, &token, &sender), path);
  for (uint64_t n = 0; n < messages; n++) {
    size_t length = make(n, message);
    must(ipn_ring_send(sender, (uint32_t)(n % 200), message, length, 10000000000), "ipn_ring_send");
  }
  printf("%llu messages sent\n", (unsigned long long)messages);
  ipn_sender_close(sender);
  return 0;
}

int main(int argc, char **argv) {
  ipn_device *device;
  if (argc != 4 || (strcmp(argv[1], "receive") != 0 && strcmp(argv[1], "send") != 0)) {
    fprintf(stderr, "usage: ring receive|send FILE MESSAGES\n");
    return 2;
  }
  uint64_t messages = number("MESSAGES", argv[3], UINT64_MAX);
  must(ipn_open(NULL, &device), "ipn_open");
  int status = strcmp(argv[1], "receive") == 0 ? receive(device, argv[2], messages) : send(device, argv[2], messages);
  ipn_close(device);
  return status;
}
