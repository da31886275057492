// SPDX-License-Identifier: Apache-2.0
/*
 * libipnuma: memory of other machines.
 *
 * A server allocates a region, exports a range of it as a token of 64 bytes, and gives the token away. Whoever connects with
 * the token gets a window and stores into it; the server polls, or waits for signals. Rings carry messages on top.
 *
 * Status numbers are 0 or a negative errno. Handles and other pointers are NULL where a function says so, or valid as C wants
 * them: from the function that made the handle until the one that ends it, and with room for what is said at the argument.
 * Structs that may grow begin with struct_size. There is nothing to initialise and no state but in handles and, for
 * ipn_error_message(), in threads. Calls that may be made by several threads at a time say "any thread".
 *
 * Generated from crates/libipnuma/src by 'cargo run -p libipnuma --example header -- --write'; do not edit.
 */

#ifndef IPNUMA_H
#define IPNUMA_H

#include <stddef.h>
#include <stdint.h>

// Version of this header: major in bits 31:16, minor in bits 15:0.
#define IPN_VERSION 1

// The holder of the token may load.
#define IPN_READ 1

// The holder of the token may store.
#define IPN_WRITE 2

// ipn_flush() waits until the stores have left the processor.
#define IPN_LOCAL 0

// ipn_flush() waits until the stores are in the server's memory (over a board: acknowledged by its NIC).
#define IPN_DELIVERED 1

// A way to other memory: a board, or the daemon. Opened by ipn_open().
typedef struct ipn_device ipn_device;

// The end of a ring that receives. Made by ipn_ring_create().
typedef struct ipn_receiver ipn_receiver;

// Memory that others store to. Made by ipn_mem_alloc().
typedef struct ipn_region ipn_region;

// The end of a ring that sends. Made by ipn_ring_connect().
typedef struct ipn_sender ipn_sender;

// The range of a token, in somebody else's memory. Made by ipn_connect(). Offsets count from the begin of the range.
typedef struct ipn_window ipn_window;

// How a device is opened. Set everything to 0 and struct_size to sizeof(ipn_options).
typedef struct ipn_options {
  // sizeof(ipn_options).
  size_t struct_size;
  // Back end: "soft", "pcie" or "rack"; NULL: as configured.
  const char *backend;
  // Configuration file; NULL: $IPNUMA_CONFIG, ~/.config/ipnuma/config.toml or /etc/ipnuma.toml.
  const char *config;
  // Socket of the daemon; NULL: as configured.
  const char *daemon;
  // How long waits spin before they sleep, nanoseconds; 0: as configured; negative: not at all.
  int64_t spin_ns;
} ipn_options;

// What a device is and can do. Set struct_size to sizeof(ipn_info) before the call.
typedef struct ipn_info {
  // sizeof(ipn_info).
  size_t struct_size;
  // Back end: "soft", "pcie" or "rack".
  char backend[16];
  // Bytes that one store takes at most without being split.
  size_t max_store;
  // 1 if a line of 64 bytes arrives whole (ipn_put64()).
  uint32_t line_atomic;
  // 1 if windows of this machine can be mapped (ipn_map()).
  uint32_t mappable;
  // 1 if the network can be reached.
  uint32_t link_up;
  // Other machines that are known.
  uint32_t peers;
} ipn_info;

// What was done with a device. Set struct_size to sizeof(ipn_statistics) before the call.
typedef struct ipn_statistics {
  // sizeof(ipn_statistics).
  size_t struct_size;
  // Regions there are.
  uint64_t regions;
  // Windows there are.
  uint64_t windows;
  // Ends of rings there are.
  uint64_t rings;
  // Tokens handed out.
  uint64_t exported;
  // Tokens taken back by ipn_revoke().
  uint64_t revoked;
  // Tokens that ipn_connect() and ipn_ring_connect() were refused.
  uint64_t refused;
} ipn_statistics;

// A token: 64 bytes that let their holder use a range of a region. It is a capability, so pass it on as a password. Copy it
// as it is, over any channel; all machines have the same byte order in it.
typedef struct ipn_token {
  // The token.
  uint8_t bytes[64];
} ipn_token;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Version of the library, as a number.
//
// DESCRIPTION
// Major version in bits 31:16, minor in bits 15:0. A program that was built for a minor version runs with every later one.
//
// RETURN
// The version; compare it with IPN_VERSION, that of the header.
//
// ERRORS
// None.
//
// THREADS
// Any thread, at any time.
//
// EXAMPLE
// @code
// if (ipn_version() < IPN_VERSION) puts("libipnuma is older than this program");
// @endcode
uint32_t ipn_version(void);

// What an error number means.
//
// DESCRIPTION
// As strerror(3), for what the functions of this library return: 0 or a negative errno. A positive number is taken as the
// errno itself. More about the calling thread's last error: ipn_error_message().
//
// RETURN
// A string that stays valid for ever.
//
// ERRORS
// None: an unknown number gives "unknown error".
//
// THREADS
// Any thread, at any time.
//
// EXAMPLE
// @code
// int status = ipn_open(NULL, &device);
// if (status != 0) fprintf(stderr, "ipn_open: %s\n", ipn_strerror(status));
// @endcode
const char *ipn_strerror(int status);

// What was wrong with the calling thread's last call that failed, as a sentence.
//
// DESCRIPTION
// Copies a sentence that names the thing, the place and the remedy to `buffer`, cut to `size` bytes with the zero at its
// end. Calls that succeed, and those that return -EAGAIN, leave or empty it.
//
// UNITS
// `size` in bytes.
//
// RETURN
// Bytes of the whole sentence without the zero, as snprintf(3); 0 if nothing is known.
//
// ERRORS
// None: a NULL `buffer` is taken as `size` 0.
//
// THREADS
// Any thread; each sees its own.
//
// EXAMPLE
// @code
// char why[256];
// if (ipn_connect(device, &token, &window) != 0 && ipn_error_message(why, sizeof why) > 0) puts(why);
// @endcode
size_t ipn_error_message(char *buffer,
                         size_t size);

// Opens a device.
//
// DESCRIPTION
// With `options` NULL, as the configuration file and the environment say (IPNUMA_BACKEND, IPNUMA_DAEMON, IPNUMA_SPIN_US); else
// what is set there counts. The soft back end needs a daemon (ipnuma daemon). After fork(2) the child opens a device of
// its own and leaves the parent's alone.
//
// UNITS
// spin_ns in nanoseconds.
//
// RETURN
// 0, and the device in `*device`; close it with ipn_close(). On an error `*device` is NULL.
//
// ERRORS
// -EINVAL: `device` is NULL, or options or configuration are wrong. -ECONNREFUSED: there is no daemon. -EACCES: the daemon
// belongs to another user. -EPROTO: it is of another version. -ENODEV: there is no such board.
//
// THREADS
// Any thread. The device may be used by several threads at a time.
//
// EXAMPLE
// @code
// ipn_device *device;
// int status = ipn_open(NULL, &device);
// if (status != 0) return fprintf(stderr, "%s\n", ipn_strerror(status)), 1;
// @endcode
int ipn_open(const struct ipn_options *options,
             struct ipn_device **device);

// Closes a device.
//
// DESCRIPTION
// Its regions, windows and rings stay usable until they are closed themselves; new ones can't be made.
//
// RETURN
// 0. NULL is closed already.
//
// ERRORS
// None.
//
// THREADS
// No other thread may use the handle meanwhile or afterwards.
//
// EXAMPLE
// @code
// ipn_close(device);
// @endcode
int ipn_close(struct ipn_device *device);

// Says what a device is and can do.
//
// DESCRIPTION
// Fills `*info` as far as its struct_size says. link_up and peers are those of this moment.
//
// RETURN
// 0.
//
// ERRORS
// -EINVAL: a pointer is NULL, or struct_size is not set.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// ipn_info info = {.struct_size = sizeof info};
// if (ipn_query(device, &info) == 0) printf("%s\n", info.backend);
// @endcode
int ipn_query(const struct ipn_device *device, struct ipn_info *info);

// Says what was done with a device.
//
// DESCRIPTION
// Fills `*statistics` as far as its struct_size says. The counts are of this handle, not of the machine.
//
// RETURN
// 0.
//
// ERRORS
// -EINVAL: a pointer is NULL, or struct_size is not set.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// ipn_statistics now = {.struct_size = sizeof now};
// if (ipn_stats(device, &now) == 0) printf("%llu windows\n", (unsigned long long)now.windows);
// @endcode
int ipn_stats(const struct ipn_device *device, struct ipn_statistics *statistics);

// Allocates memory that others may be given access to.
//
// DESCRIPTION
// The memory is zeroed and begins at a page. On a board it is locked, and in huge pages where there are any.
//
// UNITS
// `bytes` in bytes, rounded up to whole pages; ipn_mem_size() tells.
//
// RETURN
// 0, and the region in `*region`; free it with ipn_mem_free(). On an error `*region` is NULL.
//
// ERRORS
// -EINVAL: a pointer is NULL, or `bytes` is 0 or more than there can be. -ENOMEM: there is no memory. -ECONNRESET: the daemon no
// longer answers.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// ipn_region *region;
// int status = ipn_mem_alloc(device, 1 << 20, &region);
// @endcode
int ipn_mem_alloc(const struct ipn_device *device,
                  size_t bytes,
                  struct ipn_region **region);

// Frees a region.
//
// DESCRIPTION
// Its tokens are taken back, and what others still store into windows of it is lost.
//
// RETURN
// 0. NULL is freed already.
//
// ERRORS
// None.
//
// THREADS
// No other thread may use the region or its memory meanwhile or afterwards.
//
// EXAMPLE
// @code
// ipn_mem_free(region);
// @endcode
int ipn_mem_free(struct ipn_region *region);

// Where a region is.
//
// DESCRIPTION
// Others store to this memory at any time: read it with ipn_poll_line(), volatile or atomic loads. The address stays the same
// until ipn_mem_free().
//
// RETURN
// Address of the first byte; NULL if `region` is NULL.
//
// ERRORS
// None.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// volatile uint64_t *counter = ipn_mem_address(region);
// @endcode
void *ipn_mem_address(const struct ipn_region *region);

// How large a region is.
//
// UNITS
// Bytes.
//
// RETURN
// Its size, a multiple of the page size; 0 if `region` is NULL.
//
// ERRORS
// None.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// memset(ipn_mem_address(region), 0xFF, ipn_mem_size(region));
// @endcode
size_t ipn_mem_size(const struct ipn_region *region);

// Makes a token for a range of a region.
//
// DESCRIPTION
// Whoever has the token may ipn_connect() with it from any machine, or, if `peer` is not NULL, from the machine with that IPv4
// address only ("10.0.0.2"). Each call gives another token; each is taken back on its own. Tokens end with the region and with
// the process.
//
// UNITS
// `first` and `bytes` in bytes. The pcie back end shares whole words: both are multiples of 4 there. The soft back end maps
// whole pages, so over it a neighbour in the same page on the same machine sees the whole page: begin and end ranges at pages
// where that matters.
//
// RETURN
// 0, and the token in `*token`.
//
// ERRORS
// -EINVAL: a pointer is NULL, the range is empty or outside, `rights` is not IPN_READ, IPN_WRITE or both, or `peer` is no
// address. -ENOSPC: the device has no room for more tokens. -ECONNRESET: the daemon no longer answers.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// ipn_token token;
// int status = ipn_export(region, 0, 4096, IPN_READ | IPN_WRITE, NULL, &token);
// @endcode
int ipn_export(const struct ipn_region *region,
               size_t first,
               size_t bytes,
               uint32_t rights,
               const char *peer,
               struct ipn_token *token);

// Takes a token back.
//
// DESCRIPTION
// When the call returns, nothing that the holder stores afterwards reaches the region; the holder's ipn_check() says
// -EKEYREVOKED. The soft back end moves the region to fresh memory with the same content at the same address, so stores of
// this process during the call may get lost, and other windows of the region must be connected anew.
//
// RETURN
// 0.
//
// ERRORS
// -EINVAL: a pointer is NULL, or the bytes are no token. -EACCES or -ENOENT: it is none of this region, or was taken back
// before.
//
// THREADS
// Any thread; none may store to the region meanwhile.
//
// EXAMPLE
// @code
// ipn_revoke(region, &token);
// @endcode
int ipn_revoke(const struct ipn_region *region,
               const struct ipn_token *token);

// Looks whether a line has come.
//
// DESCRIPTION
// A line is 64 bytes at a multiple of 64, stored by ipn_put_line() with a number: if the line at `offset` has the number
// `sequence`, all of it is there, and its data are copied. This never waits and makes no system call.
//
// UNITS
// `offset` in bytes from the begin of the region. `data` has room for 56 bytes; `*size` becomes how many there are. Both may be
// NULL.
//
// ORDERING
// What its sender stored before the line (and a fence) is visible, too.
//
// RETURN
// 0 if it is there.
//
// ERRORS
// -EAGAIN: it is not there yet. -EINVAL: `region` is NULL, or `offset` is outside or no multiple of 64.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// while ((status = ipn_poll_line(region, 64 * (n % lines), n + 1, data, &size)) == -EAGAIN) ;
// @endcode
int ipn_poll_line(const struct ipn_region *region,
                  size_t offset,
                  uint32_t sequence,
                  void *data,
                  size_t *size);

// Waits for a line.
//
// DESCRIPTION
// As ipn_poll_line(), but spins for the configured time and then sleeps until the sender says ipn_put_signal() or
// ipn_signal(). A line without a signal may be noticed late, or not before the timeout.
//
// UNITS
// `timeout_ns` in nanoseconds; negative: for ever. Otherwise as ipn_poll_line().
//
// ORDERING
// As ipn_poll_line().
//
// RETURN
// 0 when it is there.
//
// ERRORS
// -ETIMEDOUT: it did not come in time. -EINTR: a signal handler ran. -EINVAL: as ipn_poll_line().
//
// THREADS
// One thread at a time may wait for a region.
//
// EXAMPLE
// @code
// status = ipn_wait_line(region, 0, 1, data, &size, 1000000000);
// @endcode
int ipn_wait_line(const struct ipn_region *region,
                  size_t offset,
                  uint32_t sequence,
                  void *data,
                  size_t *size,
                  int64_t timeout_ns);

// Waits until a word is another.
//
// DESCRIPTION
// Waits while the 8-byte word at `offset` is `old`: spins for the configured time, then sleeps until somebody says
// ipn_put_signal() or ipn_signal(). A store without a signal may be noticed late, or not before the timeout.
//
// UNITS
// `offset` in bytes, a multiple of 8. The word is little-endian. `timeout_ns` in nanoseconds; negative: for ever; 0: only looks.
//
// ORDERING
// What its sender stored before the word (and a fence) is visible, too.
//
// RETURN
// 0, and the word in `*now` unless `now` is NULL.
//
// ERRORS
// -ETIMEDOUT: it stayed the same. -EINTR: a signal handler ran. -EINVAL: `region` is NULL, or `offset` is outside or no
// multiple of 8.
//
// THREADS
// One thread at a time may wait for a region.
//
// EXAMPLE
// @code
// uint64_t seen = 0;
// while (ipn_wait(region, 0, seen, -1, &seen) == 0) handle(seen);
// @endcode
int ipn_wait(const struct ipn_region *region,
             size_t offset,
             uint64_t old,
             int64_t timeout_ns,
             uint64_t *now);

// The descriptor that becomes readable when a signal comes.
//
// DESCRIPTION
// For programs with a loop of their own around poll(2) or epoll(7): call ipn_recheck(), look at the memory once more, and only
// then sleep. Do not read or close the descriptor: ipn_recheck() empties it.
//
// RETURN
// The descriptor; it is the region's.
//
// ERRORS
// -EINVAL: `region` is NULL.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// ipn_recheck(region);
// if (nothing_new(region)) poll(&(struct pollfd){.fd = ipn_event_fd(region), .events = POLLIN}, 1, -1);
// @endcode
int ipn_event_fd(const struct ipn_region *region);

// Prepares for sleep on ipn_event_fd().
//
// DESCRIPTION
// From now on signals make the descriptor readable. Look at the memory once more afterwards: what came before is not told
// again.
//
// ORDERING
// A full fence: what was stored and signalled before is visible afterwards.
//
// RETURN
// 0.
//
// ERRORS
// -EINVAL: `region` is NULL.
//
// THREADS
// The thread that sleeps.
//
// EXAMPLE
// @code
// ipn_recheck(region);
// @endcode
int ipn_recheck(const struct ipn_region *region);

// Copies bytes out of a region.
//
// DESCRIPTION
// Stores that happen meanwhile may be seen in part; a line number or a word that its sender stores last tells that all is
// there.
//
// UNITS
// `offset` and `size` in bytes.
//
// RETURN
// 0.
//
// ERRORS
// -EINVAL: a pointer is NULL, or the bytes are outside.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// ipn_mem_read(region, 4096, value, sizeof value);
// @endcode
int ipn_mem_read(const struct ipn_region *region,
                 size_t offset,
                 void *data,
                 size_t size);

// Connects to the memory that a token is for.
//
// DESCRIPTION
// On the same machine, over the soft back end, the memory is mapped and a store is a store; else stores travel.
//
// RETURN
// 0, and the window in `*window`; end it with ipn_disconnect(). On an error `*window` is NULL.
//
// ERRORS
// -EINVAL: a pointer is NULL, or the bytes are no token. -EKEYREVOKED: it was revoked. -EACCES: it is refused: another machine's,
// or made up, or of a region that is gone. -EHOSTUNREACH: its server can't be reached. -ENOSPC: the device has no room for more windows.
//
// THREADS
// Any thread. The window may be used by several threads at a time.
//
// EXAMPLE
// @code
// ipn_window *window;
// int status = ipn_connect(device, &token, &window);
// @endcode
int ipn_connect(const struct ipn_device *device,
                const struct ipn_token *token,
                struct ipn_window **window);

// Ends a window.
//
// DESCRIPTION
// Stores before it are on their way; ipn_flush() first if they must arrive. Its mapping ends with it.
//
// RETURN
// 0. NULL is ended already.
//
// ERRORS
// None.
//
// THREADS
// No other thread may use the window or its mapping meanwhile or afterwards.
//
// EXAMPLE
// @code
// ipn_disconnect(window);
// @endcode
int ipn_disconnect(struct ipn_window *window);

// How large a window is.
//
// UNITS
// Bytes.
//
// RETURN
// The size of the token's range; 0 if `window` is NULL.
//
// ERRORS
// None.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// size_t last = ipn_window_size(window) - 1;
// @endcode
size_t ipn_window_size(const struct ipn_window *window);

// Where a window is mapped.
//
// DESCRIPTION
// The processor's own loads and stores to `*address` reach the peer's memory until ipn_disconnect(). Without the right to
// store, stores there fault. On a board the mapping is write-combined: order stores with ipn_fence(), and avoid loads.
//
// ORDERING
// That of the processor for such memory: ordinary on the same machine, none on a board but by ipn_fence().
//
// RETURN
// 0, and the address in `*address`.
//
// ERRORS
// -EOPNOTSUPP: stores are calls here; use ipn_put() and its kin, which work everywhere. -EINVAL: a pointer is NULL.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// void *address;
// if (ipn_map(window, &address) == 0) *(volatile uint32_t *)address = 1;
// @endcode
int ipn_map(const struct ipn_window *window,
            void **address);

// Stores 4 bytes.
//
// DESCRIPTION
// The value arrives whole. Stores are posted: success says that range and rights are in order, not that it has arrived.
//
// UNITS
// `offset` in bytes, so that the place in the region is a multiple of 4. The value is stored little-endian.
//
// ORDERING
// None with other stores but by ipn_fence() and ipn_store64().
//
// RETURN
// 0.
//
// ERRORS
// -EINVAL: `window` is NULL, or the place is outside or not aligned. -EACCES: the token gives no right to store.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// ipn_store32(window, 16, 42);
// @endcode
int ipn_store32(const struct ipn_window *window,
                size_t offset,
                uint32_t value);

// Stores 8 bytes after all stores before.
//
// DESCRIPTION
// The value arrives whole. Stores are posted: success says that range and rights are in order, not that it has arrived.
//
// UNITS
// `offset` in bytes, so that the place in the region is a multiple of 8. The value is stored little-endian.
//
// ORDERING
// Becomes visible after all stores of this thread to the window before it.
//
// RETURN
// 0.
//
// ERRORS
// -EINVAL: `window` is NULL, or the place is outside or not aligned. -EACCES: the token gives no right to store.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// ipn_put(window, 64, value, sizeof value);
// ipn_store64(window, 0, ++version);
// @endcode
int ipn_store64(const struct ipn_window *window,
                size_t offset,
                uint64_t value);

// Stores bytes.
//
// DESCRIPTION
// Stores are posted: success says that range and rights are in order, not that they have arrived.
//
// UNITS
// `offset` and `size` in bytes.
//
// ORDERING
// None, neither within the bytes nor with other stores, but by ipn_fence() and ipn_store64().
//
// RETURN
// 0; `data` may be changed at once.
//
// ERRORS
// -EINVAL: a pointer is NULL, or the bytes are outside. -EACCES: the token gives no right to store.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// ipn_put(window, 4096, image, image_size);
// @endcode
int ipn_put(const struct ipn_window *window, size_t offset, const void *data, size_t size);

// Stores a line of 64 bytes.
//
// DESCRIPTION
// The line arrives whole where the device can (ipn_info.line_atomic); else its last 8 bytes become visible last. So a number
// in them tells that the line is there, on every device.
//
// UNITS
// `offset` in bytes, so that the place in the region is a multiple of 64. `line` has 64 bytes.
//
// ORDERING
// None with other stores but by ipn_fence() and ipn_store64().
//
// RETURN
// 0; `line` may be changed at once.
//
// ERRORS
// -EINVAL: a pointer is NULL, or the place is outside or not aligned. -EACCES: the token gives no right to store.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// ipn_put64(window, 128, line);
// @endcode
int ipn_put64(const struct ipn_window *window,
              size_t offset,
              const void *line);

// Stores a line that carries up to 56 bytes and a number.
//
// DESCRIPTION
// The server finds it with ipn_poll_line() or ipn_wait_line() when all of it is there. To fill the same line again, take
// another number.
//
// UNITS
// `offset` in bytes, so that the place in the region is a multiple of 64. `size` in bytes, 56 at most.
//
// ORDERING
// None with other stores but by ipn_fence() and ipn_store64().
//
// RETURN
// 0; `data` may be changed at once.
//
// ERRORS
// -EINVAL: a pointer is NULL, or the place is outside or not aligned. -EMSGSIZE: more than 56 bytes. -EACCES: the token gives no
// right to store.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// ipn_put_line(window, 64 * (n % lines), n + 1, &sample, sizeof sample);
// ipn_signal(window);
// @endcode
int ipn_put_line(const struct ipn_window *window,
                 size_t offset,
                 uint32_t sequence,
                 const void *data,
                 size_t size);

// Stores bytes, then a word, then wakes the server.
//
// DESCRIPTION
// The server that sees the new word, by ipn_wait() or with its own eyes, sees the bytes, too.
//
// UNITS
// Offsets and `size` in bytes; the place of the word in the region is a multiple of 8. The word is stored little-endian.
//
// ORDERING
// The word becomes visible after the bytes and all stores before; the signal comes after both.
//
// RETURN
// 0; `data` may be changed at once.
//
// ERRORS
// -EINVAL: a pointer is NULL, or a place is outside or not aligned. -EACCES: the token gives no right to store. Then nothing
// is stored.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// ipn_put_signal(window, 64, value, sizeof value, 0, ++version);
// @endcode
int ipn_put_signal(const struct ipn_window *window,
                   size_t offset,
                   const void *data,
                   size_t size,
                   size_t word_offset,
                   uint64_t word);

// Wakes the server if it sleeps.
//
// DESCRIPTION
// Costs next to nothing while the server is awake.
//
// ORDERING
// After all stores of this thread before it.
//
// RETURN
// 0.
//
// ERRORS
// -EINVAL: `window` is NULL. -EACCES: the token gives no right to store.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// ipn_signal(window);
// @endcode
int ipn_signal(const struct ipn_window *window);

// Orders stores.
//
// DESCRIPTION
// Does not wait for anything to arrive: ipn_flush() does.
//
// ORDERING
// Stores of this thread to the window before it become visible before stores after it.
//
// RETURN
// 0.
//
// ERRORS
// -EINVAL: `window` is NULL.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// ipn_put(window, 64, value, sizeof value);
// ipn_fence(window);
// ipn_store32(window, 0, 1);
// @endcode
int ipn_fence(const struct ipn_window *window);

// Waits until stores have left, or have arrived.
//
// DESCRIPTION
// IPN_LOCAL: all stores before have left the processor. IPN_DELIVERED: they are where the server's loads see them; over a
// board, where its NIC has acknowledged them and will write them before anything that follows.
//
// UNITS
// `timeout_ns` in nanoseconds; negative: for ever.
//
// ORDERING
// As ipn_fence().
//
// RETURN
// 0.
//
// ERRORS
// -ETIMEDOUT: not known in time. -EHOSTUNREACH: the server can't be reached, stores may be lost. -EKEYREVOKED: the token was
// revoked. -EINVAL: `window` is NULL, or `how` is something else.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// status = ipn_flush(window, IPN_DELIVERED, 1000000000);
// @endcode
int ipn_flush(const struct ipn_window *window,
              uint32_t how,
              int64_t timeout_ns);

// Loads bytes from the peer.
//
// DESCRIPTION
// A round trip over the network where the memory is another machine's, so not for a fast path: let the peer store instead.
//
// UNITS
// `offset` and `size` in bytes. `timeout_ns` in nanoseconds; negative: for ever.
//
// ORDERING
// After all stores of this thread to the window before it.
//
// RETURN
// 0, and the bytes in `data`.
//
// ERRORS
// -EINVAL: a pointer is NULL, or the bytes are outside. -EACCES: the token gives no right to load. -ETIMEDOUT: no answer in time.
// -EHOSTUNREACH: the server can't be reached. -EKEYREVOKED: the token was revoked.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// status = ipn_get(window, 0, &head, sizeof head, 1000000);
// @endcode
int ipn_get(const struct ipn_window *window,
            size_t offset,
            void *data,
            size_t size,
            int64_t timeout_ns);

// A mark in the stream of stores, for ipn_check().
//
// DESCRIPTION
// Take one before the stores that are to be checked. It costs a few loads.
//
// RETURN
// 0, and the mark in `*epoch`.
//
// ERRORS
// -EINVAL: a pointer is NULL.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// uint64_t epoch;
// ipn_epoch(window, &epoch);
// @endcode
int ipn_epoch(const struct ipn_window *window, uint64_t *epoch);

// Says whether stores since a mark may have been lost.
//
// DESCRIPTION
// Never waits. After an ipn_flush() with IPN_DELIVERED it is certain that all stores between mark and flush have arrived; without
// one, that nothing bad is known yet.
//
// RETURN
// 0 if nothing was lost.
//
// ERRORS
// -EKEYREVOKED: the token was revoked. -EHOSTUNREACH: the server could not be reached, or refused stores. -EINVAL: `window` is NULL.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// ipn_epoch(window, &epoch);
// ipn_put(window, 0, data, size);
// if (ipn_flush(window, IPN_DELIVERED, -1) == 0 && ipn_check(window, epoch) == 0) puts("arrived");
// @endcode
int ipn_check(const struct ipn_window *window,
              uint64_t epoch);

// Makes a ring, as its receiver.
//
// DESCRIPTION
// A ring carries messages from one sender to one receiver, in order, through lines of 64 bytes: a message of up to 56 bytes is
// one line, one frame, one DMA write, of which only what is used is stored. Credit returns on its own; nothing is dropped.
//
// UNITS
// `lines` of 64 bytes: a power of two from 8 to 1048576. The longest message is a quarter of them, and 65535 bytes at most.
//
// RETURN
// 0, the receiver in `*receiver`, and in `*token` the token with which one sender connects. On an error `*receiver` is NULL.
//
// ERRORS
// -EINVAL: a pointer is NULL, or there is no ring of so many lines. -ENOMEM: there is no memory. -ECONNRESET: the daemon no longer
// answers.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// ipn_receiver *receiver;
// ipn_token token;
// int status = ipn_ring_create(device, 1024, &receiver, &token);
// @endcode
int ipn_ring_create(const struct ipn_device *device,
                    uint32_t lines,
                    struct ipn_receiver **receiver,
                    struct ipn_token *token);

// Connects to a ring, as its sender.
//
// DESCRIPTION
// A ring has one sender: a second one with the same token would write over the first one's messages. Make a ring each.
//
// RETURN
// 0, and the sender in `*sender`. On an error `*sender` is NULL.
//
// ERRORS
// -EINVAL: a pointer is NULL, or the token is none, or none of a ring. -EACCES: the token is refused. -EHOSTUNREACH: its server
// can't be reached.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// ipn_sender *sender;
// int status = ipn_ring_connect(device, &token, &sender);
// @endcode
int ipn_ring_connect(const struct ipn_device *device,
                     const struct ipn_token *token,
                     struct ipn_sender **sender);

// Closes the receiving end of a ring.
//
// DESCRIPTION
// Messages that were not taken are gone, and the ring's token with them.
//
// RETURN
// 0. NULL is closed already.
//
// ERRORS
// None.
//
// THREADS
// No other thread may use it meanwhile or afterwards.
//
// EXAMPLE
// @code
// ipn_receiver_close(receiver);
// @endcode
int ipn_receiver_close(struct ipn_receiver *receiver);

// Closes the sending end of a ring.
//
// DESCRIPTION
// Messages that were sent stay in the ring.
//
// RETURN
// 0. NULL is closed already.
//
// ERRORS
// None.
//
// THREADS
// No other thread may use it meanwhile or afterwards.
//
// EXAMPLE
// @code
// ipn_sender_close(sender);
// @endcode
int ipn_sender_close(struct ipn_sender *sender);

// The longest message of a ring.
//
// UNITS
// Bytes.
//
// RETURN
// The length; 0 if `sender` is NULL.
//
// ERRORS
// None.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// size_t most = ipn_ring_max(sender);
// @endcode
size_t ipn_ring_max(const struct ipn_sender *sender);

// Sends a message.
//
// DESCRIPTION
// Waits for room if need be, first spinning, then sleeping; with `timeout_ns` 0 it does not wait. `kind` is a number for the
// receiver. The receiver is woken if it sleeps.
//
// UNITS
// `size` in bytes. `timeout_ns` in nanoseconds; negative: for ever.
//
// ORDERING
// Messages arrive in the order in which they were sent, whole.
//
// RETURN
// 0; `data` may be changed at once.
//
// ERRORS
// -EAGAIN: there is no room, and `timeout_ns` is 0. -ETIMEDOUT: no room in time. -EMSGSIZE: longer than ipn_ring_max().
// -EKEYREVOKED, -EHOSTUNREACH: the receiver is gone. -EINTR: a signal handler ran. -EINVAL: a pointer is NULL, or `kind` is above
// 254.
//
// THREADS
// One thread at a time.
//
// EXAMPLE
// @code
// status = ipn_ring_send(sender, 0, "hello", 5, -1);
// @endcode
int ipn_ring_send(struct ipn_sender *sender,
                  uint32_t kind,
                  const void *data,
                  size_t size,
                  int64_t timeout_ns);

// Says whether sent messages may have been lost.
//
// DESCRIPTION
// Never waits.
//
// RETURN
// 0 if nothing bad is known.
//
// ERRORS
// -EKEYREVOKED: the receiver has gone or taken its token back. -EHOSTUNREACH: its machine can't be reached. -EINVAL: `sender` is
// NULL.
//
// THREADS
// One thread at a time.
//
// EXAMPLE
// @code
// if (ipn_ring_check(sender) != 0) reconnect();
// @endcode
int ipn_ring_check(const struct ipn_sender *sender);

// Shows the next message in place.
//
// DESCRIPTION
// Nothing is copied: `*data` points into the ring until ipn_ring_release(). Calling it again before shows the same message. It
// never waits.
//
// UNITS
// `*size` in bytes.
//
// ORDERING
// Messages come in the order in which they were sent, whole.
//
// RETURN
// 0, with kind, address and length; each may be NULL.
//
// ERRORS
// -EAGAIN: there is none. -EBADMSG: the ring holds what no sender writes; close it. -EACCES, -EHOSTUNREACH: the sender's memory, to
// which credit returns, can't be reached. -EINVAL: `receiver` is NULL.
//
// THREADS
// One thread at a time.
//
// EXAMPLE
// @code
// const void *data;
// size_t size;
// while (ipn_ring_peek(receiver, NULL, &data, &size) == 0) {
//   handle(data, size);
//   ipn_ring_release(receiver);
// }
// @endcode
int ipn_ring_peek(struct ipn_receiver *receiver,
                  uint32_t *kind,
                  const void **data,
                  size_t *size);

// Releases the message that ipn_ring_peek() showed.
//
// DESCRIPTION
// Its place goes back to the sender. Without a message it does nothing.
//
// RETURN
// 0.
//
// ERRORS
// -EINVAL: `receiver` is NULL. -EBADMSG: the ring holds what no sender writes.
//
// THREADS
// One thread at a time.
//
// EXAMPLE
// @code
// ipn_ring_release(receiver);
// @endcode
int ipn_ring_release(struct ipn_receiver *receiver);

// Receives a message.
//
// DESCRIPTION
// Waits for one, first spinning, then sleeping; with `timeout_ns` 0 it does not wait. Copies it to `data` and releases it. A
// message that is longer than `size` is cut, and `*length` says how long it was.
//
// UNITS
// `size` and `*length` in bytes. `timeout_ns` in nanoseconds; negative: for ever.
//
// ORDERING
// Messages come in the order in which they were sent, whole.
//
// RETURN
// 0, with kind and length; each may be NULL.
//
// ERRORS
// -EAGAIN: there is none, and `timeout_ns` is 0. -ETIMEDOUT: none came in time. -EINTR: a signal handler ran. Others as
// ipn_ring_peek().
//
// THREADS
// One thread at a time.
//
// EXAMPLE
// @code
// char text[256];
// size_t length;
// status = ipn_ring_receive(receiver, NULL, text, sizeof text, &length, -1);
// @endcode
int ipn_ring_receive(struct ipn_receiver *receiver,
                     uint32_t *kind,
                     void *data,
                     size_t size,
                     size_t *length,
                     int64_t timeout_ns);

// The descriptor that becomes readable when messages come, prepared for sleep.
//
// DESCRIPTION
// For programs with a loop of their own around poll(2) or epoll(7): call this, then ipn_ring_peek() once more, and only if there is
// nothing sleep. Call it again before each sleep. Do not read or close the descriptor.
//
// ORDERING
// A full fence: messages sent before are seen by the ipn_ring_peek() that follows.
//
// RETURN
// The descriptor; it is the ring's.
//
// ERRORS
// -EINVAL: `receiver` is NULL.
//
// THREADS
// One thread at a time.
//
// EXAMPLE
// @code
// int fd = ipn_ring_event_fd(receiver);
// if (ipn_ring_peek(receiver, NULL, NULL, NULL) == -EAGAIN) poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, -1);
// @endcode
int ipn_ring_event_fd(const struct ipn_receiver *receiver);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* IPNUMA_H */
