// SPDX-License-Identifier: Apache-2.0
/*
 * A hash table in its owner's memory, without locks. The other machine alone writes into it: it finds a key's slot by plain loads, and
 * changes the slot by plain stores. The owner looks keys up meanwhile, and never sees half a change.
 *
 *   hashtable owner DIRECTORY CHANGES &
 *   hashtable writer DIRECTORY CHANGES
 *
 * Tokens are in the directory's files owner and writer. In a guest of the rack say `wait` at the end, as for figure43.
 */
#define _POSIX_C_SOURCE 200809L
#include "common.h"

enum { SLOTS = 128, KEYS = 100, WORDS = 5, SHOW_EVERY = 16 };

struct slot {
  uint64_t version; /* odd while the slot is being changed */
  uint64_t key;     /* 0: nobody's; once it is somebody's it stays so */
  uint64_t change;  /* that the value is of; 0: the key was erased */
  uint64_t words[WORDS];
};

struct table {
  uint64_t shown; /* one more than the changes that are in it; 0: who writes them is not there yet */
  uint64_t unused[7];
  struct slot slots[SLOTS];
};

static uint64_t mix(uint64_t n) {
  n *= 0x9E3779B97F4A7C15u;
  return n ^ n >> 29;
}

/* What the n-th change is about. */
static uint64_t key_of(uint64_t n) { return 1 + mix(n) % KEYS; }
static int erases(uint64_t n) { return n % 7 == 0; }
static uint64_t word(uint64_t n, uint64_t at) { return mix(n + at); }

/* The slot of a key, or the free one that it would get: no key is ever moved, so whoever looks finds it. */
static volatile struct slot *find(volatile struct slot *slots, uint64_t key) {
  for (uint64_t at = mix(key);; at++) {
    volatile struct slot *slot = &slots[at % SLOTS];
    uint64_t there = __atomic_load_n(&slot->key, __ATOMIC_ACQUIRE);
    if (there == key || there == 0) return slot;
  }
}

static void change(volatile struct slot *slot, uint64_t n) {
  uint64_t version = slot->version;
  __atomic_store_n(&slot->version, version + 1, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_RELEASE);
  slot->change = erases(n) ? 0 : n;
  for (uint64_t at = 0; at < WORDS && !erases(n); at++) slot->words[at] = word(n, at);
  slot->key = key_of(n);
  __atomic_store_n(&slot->version, version + 2, __ATOMIC_RELEASE);
}

/*
 * What a key's value is, and the change that it is of: 0 if it has none. Returns 0 if it was being changed just then: ask again, unless who
 * changes it has died.
 */
static int look_up(struct table *table, uint64_t key, uint64_t *change, uint64_t *words) {
  volatile struct slot *slot = find(table->slots, key);
  uint64_t version = __atomic_load_n(&slot->version, __ATOMIC_ACQUIRE);
  *change = slot->key == key ? slot->change : 0;
  for (uint64_t at = 0; at < WORDS; at++) words[at] = slot->words[at];
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  return version % 2 == 0 && __atomic_load_n(&slot->version, __ATOMIC_RELAXED) == version;
}

/* The last of the first n changes that a key had; 0: it had none. */
static uint64_t last_of(uint64_t key, uint64_t n) {
  while (n > 0 && key_of(n) != key) n--;
  return n;
}

/* Whether the key's value is one that it was given, whole, and none from before the first n changes. */
static int is_right(uint64_t key, uint64_t change, const uint64_t *words, uint64_t n) {
  for (uint64_t at = 0; change != 0 && at < WORDS; at++) {
    if (words[at] != word(change, at)) return 0;
  }
  return change == 0 || (key_of(change) == key && change >= last_of(key, n));
}

static int own(struct table *table, const ipn_region *region, const ipn_window *window, uint64_t changes, int waits) {
  uint64_t key = 1, change, words[WORDS], seen;
  do {
    seen = __atomic_load_n(&table->shown, __ATOMIC_ACQUIRE);
    if (look_up(table, key, &change, words)) {
      if (!is_right(key, change, words, seen > 0 ? seen - 1 : 0)) {
        fprintf(stderr, "hashtable: key %llu has a value that it was not given\n", (unsigned long long)key);
        return 0;
      }
      key = 1 + key % KEYS;
    }
    make_way(region, window, 0, seen, waits);
  } while (seen <= changes);
  /* Now nothing changes any more. */
  for (key = 1; key <= KEYS; key++) {
    uint64_t last = last_of(key, changes);
    int whole = look_up(table, key, &change, words) && is_right(key, change, words, changes);
    if (!whole || change != (last == 0 || erases(last) ? 0 : last)) {
      fprintf(stderr, "hashtable: key %llu has not its last value\n", (unsigned long long)key);
      return 0;
    }
  }
  return 1;
}

static void write_all(volatile struct table *table, uint64_t changes) {
  __atomic_store_n(&table->shown, 1, __ATOMIC_RELEASE);
  for (uint64_t n = 1; n <= changes; n++) {
    change(find(table->slots, key_of(n)), n);
    if (n % SHOW_EVERY == 0 || n == changes) __atomic_store_n(&table->shown, n + 1, __ATOMIC_RELEASE);
  }
}

int main(int argc, char **argv) {
  int waits = argc == 5 && strcmp(argv[4], "wait") == 0;
  if (argc != 4 + waits || (strcmp(argv[1], "owner") != 0 && strcmp(argv[1], "writer") != 0)) {
    fprintf(stderr, "usage: hashtable owner|writer DIRECTORY CHANGES [wait]\n");
    return 2;
  }
  int owns = strcmp(argv[1], "owner") == 0;
  uint64_t changes = number("CHANGES", argv[3], UINT64_MAX - 1);
  char own_token[4096], peer[4096];
  snprintf(own_token, sizeof own_token, "%s/%s", argv[2], owns ? "owner" : "writer");
  snprintf(peer, sizeof peer, "%s/%s", argv[2], owns ? "writer" : "owner");

  ipn_device *device;
  ipn_region *region;
  ipn_window *window;
  ipn_token token;
  void *page;
  must(ipn_open(NULL, &device), "ipn_open");
  must(ipn_mem_alloc(device, sizeof(struct table), &region), "ipn_mem_alloc");
  must(ipn_export(region, 0, sizeof(struct table), IPN_READ | IPN_WRITE, NULL, &token), "ipn_export");
  give_token(own_token, &token);
  token = take_token(peer);
  must_accept(ipn_connect(device, &token, &window), peer);

  must(ipn_window_map(window, IPN_MAP_ORDERED, &page), "ipn_window_map");

  int good = 1;
  struct table *here = ipn_mem_address(region);
  volatile struct table *there = page;
  if (owns) {
    good = own(here, region, window, changes, waits);
    there->shown = changes + 1;
  } else {
    write_all(there, changes);
    /* Until the owner has seen them. */
    uint64_t seen;
    while ((seen = __atomic_load_n(&here->shown, __ATOMIC_ACQUIRE)) <= changes) make_way(region, window, 0, seen, waits);
  }
  settle(window);
  if (good) printf("%llu changes%s\n", (unsigned long long)changes, owns ? ", every value was whole" : " written");
  ipn_disconnect(window);
  ipn_mem_free(region);
  ipn_close(device);
  return good ? 0 : 1;
}
