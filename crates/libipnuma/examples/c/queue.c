// SPDX-License-Identifier: Apache-2.0
/*
 * A queue in its receiver's memory: the sender fills an entry by plain assignments, the last of which says that it is whole. How many
 * entries are free again, the receiver stores into the sender's memory.
 *
 *   queue receiver DIRECTORY MESSAGES &
 *   queue sender DIRECTORY MESSAGES
 *
 * Tokens are in the directory's files receiver and sender. In a guest of the rack say `wait` at the end, as for figure43.
 */
#define _POSIX_C_SOURCE 200809L
#include "common.h"

enum { ENTRIES = 64, WORDS = 6, RETURN_EVERY = ENTRIES / 4 };

struct entry {
  uint64_t number; /* of the message, from 1: stored last */
  uint64_t length; /* in words */
  uint64_t words[WORDS];
};

/* What word `at` of message n is, and how many it has. */
static uint64_t word(uint64_t n, uint64_t at) { return n * 0x9E3779B97F4A7C15u + at; }
static uint64_t length(uint64_t n) { return 1 + n % WORDS; }

static void send(volatile struct entry *queue, const ipn_region *region, const ipn_window *window, uint64_t messages, int waits) {
  const uint64_t *taken = ipn_mem_address(region);
  for (uint64_t n = 1; n <= messages; n++) {
    uint64_t free_from;
    while (n - (free_from = __atomic_load_n(taken, __ATOMIC_ACQUIRE)) > ENTRIES) make_way(region, window, 0, free_from, waits);
    volatile struct entry *entry = &queue[n % ENTRIES];
    for (uint64_t at = 0; at < length(n); at++) entry->words[at] = word(n, at);
    entry->length = length(n);
    __atomic_store_n(&entry->number, n, __ATOMIC_RELEASE);
  }
  /* The receiver still stores here: this memory must not go before. */
  uint64_t last = messages - messages % RETURN_EVERY, taken_now;
  while ((taken_now = __atomic_load_n(taken, __ATOMIC_ACQUIRE)) < last) make_way(region, window, 0, taken_now, waits);
}

/* Returns whether each message came once, in order and whole. */
static int receive(const ipn_region *region, volatile uint64_t *taken, const ipn_window *window, uint64_t messages, int waits) {
  const struct entry *queue = ipn_mem_address(region);
  for (uint64_t n = 1; n <= messages; n++) {
    const struct entry *entry = &queue[n % ENTRIES];
    size_t offset = (size_t)(n % ENTRIES) * sizeof *entry;
    uint64_t number;
    while ((number = __atomic_load_n(&entry->number, __ATOMIC_ACQUIRE)) < n) make_way(region, window, offset, number, waits);
    int whole = number == n && entry->length == length(n);
    for (uint64_t at = 0; whole && at < length(n); at++) whole = entry->words[at] == word(n, at);
    if (!whole) {
      fprintf(stderr, "queue: message %llu is not whole\n", (unsigned long long)n);
      return 0;
    }
    if (n % RETURN_EVERY == 0) __atomic_store_n(taken, n, __ATOMIC_RELEASE);
  }
  return 1;
}

int main(int argc, char **argv) {
  int waits = argc == 5 && strcmp(argv[4], "wait") == 0;
  if (argc != 4 + waits || (strcmp(argv[1], "sender") != 0 && strcmp(argv[1], "receiver") != 0)) {
    fprintf(stderr, "usage: queue sender|receiver DIRECTORY MESSAGES [wait]\n");
    return 2;
  }
  int sends = strcmp(argv[1], "sender") == 0;
  uint64_t messages = number("MESSAGES", argv[3], UINT64_MAX);
  char own[4096], peer[4096];
  snprintf(own, sizeof own, "%s/%s", argv[2], sends ? "sender" : "receiver");
  snprintf(peer, sizeof peer, "%s/%s", argv[2], sends ? "receiver" : "sender");

  ipn_device *device;
  ipn_region *region;
  ipn_window *window;
  ipn_token token;
  void *page;
  size_t bytes = sends ? sizeof(uint64_t) : ENTRIES * sizeof(struct entry);
  must(ipn_open(NULL, &device), "ipn_open");
  must(ipn_mem_alloc(device, bytes, &region), "ipn_mem_alloc");
  must(ipn_export(region, 0, bytes, IPN_WRITE, NULL, &token), "ipn_export");
  give_token(own, &token);
  token = take_token(peer);
  must_accept(ipn_connect(device, &token, &window), peer);
  must(ipn_window_map(window, IPN_MAP_ORDERED, &page), "ipn_window_map");

  int good = 1;
  if (sends) send(page, region, window, messages, waits);
  else good = receive(region, page, window, messages, waits);
  settle(window);
  if (good) printf("%llu messages %s\n", (unsigned long long)messages, sends ? "sent" : "received, all whole");
  ipn_disconnect(window);
  ipn_mem_free(region);
  ipn_close(device);
  return good ? 0 : 1;
}
