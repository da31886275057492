// SPDX-License-Identifier: Apache-2.0
/*
 * A key-value table that its writer pushes into its readers' memory: a reader's get is a load from its own memory.
 *
 *   kvpush reader FILE WRITES &
 *   kvpush writer FILE WRITES
 *
 * FILE carries the token. Slot k of the table has a version, the length and the value; the version is odd while the value
 * changes, so a reader that sees the same even version before and after has seen one value, whole.
 */
#define _POSIX_C_SOURCE 200809L
#include "common.h"

enum { SLOTS = 64, SLOT = 256, VALUE = SLOT - 16, DONE = SLOTS * SLOT, BYTES = DONE + 64 };

/* What the writer's write number n puts into its slot. */
static size_t make(uint64_t n, unsigned char *value) {
  size_t length = 1 + (size_t)(n * 37 % VALUE);
  for (size_t at = 0; at < length; at++) value[at] = (unsigned char)(n + at);
  return length;
}

static int reader(ipn_device *device, const char *path, uint64_t writes) {
  ipn_region *region;
  ipn_token token;
  must(ipn_mem_alloc(device, BYTES, &region), "ipn_mem_alloc");
  must(ipn_export(region, 0, BYTES, IPN_WRITE, NULL, &token), "ipn_export");
  give_token(path, &token);
  unsigned char *table = (unsigned char *)ipn_mem_address(region);
  uint64_t done = 0, gets = 0, torn = 0;
  while (done < writes) {
    uint64_t seen = done;
    must(ipn_wait(region, DONE, seen, 10000000000, &done), "ipn_wait");
    for (unsigned key = 0; key < SLOTS; key++) {
      const volatile uint64_t *slot = (const volatile uint64_t *)(const void *)(table + key * SLOT);
      uint64_t before = slot[0];
      __atomic_thread_fence(__ATOMIC_ACQUIRE);
      uint64_t meta = slot[1], length = meta & 0xFFFF, n = meta >> 16;
      unsigned char value[VALUE], expected[VALUE];
      if (length > VALUE) length = VALUE;
      memcpy(value, table + key * SLOT + 16, (size_t)length);
      __atomic_thread_fence(__ATOMIC_ACQUIRE);
      if (before == 0 || before % 2 == 1 || slot[0] != before) {
        torn++;
        continue;
      }
      gets++;
      if (make(n, expected) != length || n % SLOTS != key || memcmp(value, expected, (size_t)length) != 0) {
        fprintf(stderr, "key %u: write %llu is not whole\n", key, (unsigned long long)n);
        return 1;
      }
    }
  }
  printf("%llu gets, all whole; %llu met a write\n", (unsigned long long)gets, (unsigned long long)torn);
  ipn_mem_free(region);
  return 0;
}

static int writer(ipn_device *device, const char *path, uint64_t writes) {
  ipn_window *window;
  ipn_token token = take_token(path);
  must_accept(ipn_connect(device, &token, &window), path);
  uint64_t epoch;
  must(ipn_epoch(window, &epoch), "ipn_epoch");
  uint64_t versions[SLOTS] = {0};
  for (uint64_t n = 0; n < writes; n++) {
    size_t slot = (size_t)(n % SLOTS);
    unsigned char value[VALUE];
    size_t length = make(n, value);
    must(ipn_store64(window, slot * SLOT, ++versions[slot]), "ipn_store64");
    must(ipn_fence(window), "ipn_fence");
    must(ipn_put(window, slot * SLOT + 16, value, length), "ipn_put");
    must(ipn_store64(window, slot * SLOT + 8, n << 16 | length), "ipn_store64");
    must(ipn_store64(window, slot * SLOT, ++versions[slot]), "ipn_store64");
    if (n % SLOTS == SLOTS - 1 && n + 1 < writes) must(ipn_put_signal(window, 0, NULL, 0, DONE, n + 1), "ipn_put_signal");
  }
  must(ipn_flush(window, IPN_DELIVERED, 10000000000), "ipn_flush");
  must(ipn_check(window, epoch), "ipn_check");
  must(ipn_put_signal(window, 0, NULL, 0, DONE, writes), "ipn_put_signal");
  settle(window);
  printf("%llu writes pushed\n", (unsigned long long)writes);
  ipn_disconnect(window);
  return 0;
}

int main(int argc, char **argv) {
  ipn_device *device;
  if (argc != 4 || (strcmp(argv[1], "reader") != 0 && strcmp(argv[1], "writer") != 0)) {
    fprintf(stderr, "usage: kvpush reader|writer FILE WRITES\n");
    return 2;
  }
  uint64_t writes = number("WRITES", argv[3], UINT64_MAX >> 16);
  must(ipn_open(NULL, &device), "ipn_open");
  int status = strcmp(argv[1], "reader") == 0 ? reader(device, argv[2], writes) : writer(device, argv[2], writes);
  ipn_close(device);
  return status;
}
