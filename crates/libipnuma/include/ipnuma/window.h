// SPDX-License-Identifier: Apache-2.0
/*
 * libipnuma: windows, memory that somebody else has exported.
 *
 * ipnuma.h includes this, and says at its head what holds for all functions.
 *
 * Generated from crates/libipnuma/src/window.rs by 'cargo run -p libipnuma --example header -- --write'; do not edit.
 */

#ifndef IPNUMA_WINDOW_H
#define IPNUMA_WINDOW_H

#include <stddef.h>
#include <stdint.h>
#include "device.h"
#include "region.h"

// ipn_flush() waits until the stores have left the processor.
#define IPN_LOCAL 0

// ipn_flush() waits until the stores are in the server's memory (over a board: acknowledged by its NIC).
#define IPN_DELIVERED 1

// ipn_window_map(): plain stores leave at once, in the order in which they are made.
#define IPN_MAP_ORDERED 0

// ipn_window_map(): plain stores are collected, a line of 64 bytes at a time, and ipn_fence() has them leave.
#define IPN_MAP_COMBINED 1

// The range of a token, in somebody else's memory. Made by ipn_connect(). Offsets count from the begin of the range.
typedef struct ipn_window ipn_window;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

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
// or made up, or of a region that is gone. -EHOSTUNREACH: its server can't be reached. -ENOSPC: the device has no room for more
// windows. -ENOBUFS: a daemon allows no more of them (`[limits]`, `[remote.guests]`). -ECONNRESET: the daemon no longer answers.
//
// THREADS
// Any thread. The window may be used by several threads at a time.
//
// EXAMPLE
// @code
// ipn_window *window;
// int status = ipn_connect(device, &token, &window);
// @endcode
int ipn_connect(const ipn_device *device,
                const ipn_token *token,
                ipn_window **window);

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
int ipn_disconnect(ipn_window *window);

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
size_t ipn_window_size(const ipn_window *window);

// Where a window is mapped.
//
// DESCRIPTION
// As ipn_window_map() with IPN_MAP_ORDERED.
//
// ORDERING
// As there.
//
// RETURN
// 0, and the address in `*address`.
//
// ERRORS
// As ipn_window_map().
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// void *address;
// if (ipn_map(window, &address) == 0) *(volatile uint32_t *)address = 1;
// @endcode
int ipn_map(const ipn_window *window, void **address);

// Where a window is mapped: plain loads and stores reach the peer's memory.
//
// DESCRIPTION
// The processor's own loads and stores to `*address` reach the peer's memory until ipn_disconnect(), of every width. On the
// same machine it is the memory itself; on a board, the board's pages, which are write-combined whatever `how` says. Else the
// addresses trap: each access is carried out in a handler of SIGSEGV, as ipn_put() and ipn_get() would, in microseconds. A load
// is a round trip: let the peer store instead. Where addresses trap, system calls get EFAULT for them, and atomic instructions
// are a load and a store, atomic between threads of this process only.
//
// An access that cannot be carried out is SIGBUS at that instruction, with the address: without the right to it, beyond the
// window, after the token was revoked or the server lost, when the daemon of this machine has stood still for 20 s, or by an
// instruction that transfers control, uses the stack, gathers, scatters or saves the processor's state. A handler finds the
// sentence by ipn_error_message(); without one it goes to standard error. A handler of SIGSEGV of the program's is to be
// installed before, or calls the one that it replaces. Threads must not block SIGSEGV. A thread's alternate signal stack
// (sigaltstack()) needs 8 KB, or sysconf(_SC_SIGSTKSZ) if that is more.
//
// UNITS
// `how`: IPN_MAP_ORDERED or IPN_MAP_COMBINED.
//
// ORDERING
// IPN_MAP_ORDERED: stores of a thread become visible in the order in which they are made, but on a board. IPN_MAP_COMBINED: and
// on a board: none but by ipn_fence(), which has them leave, too; so does a load, and every other call for the window.
//
// RETURN
// 0, and the address in `*address`.
//
// ERRORS
// -EINVAL: a pointer is NULL, or `how` is something else. -ENOMEM, -ENOSPC: no addresses. -EOPNOTSUPP: not on this processor.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// void *address;
// if (ipn_window_map(window, IPN_MAP_ORDERED, &address) == 0) *(volatile uint32_t *)address = 1;
// @endcode
int ipn_window_map(const ipn_window *window,
                   uint32_t how,
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
// -ETIMEDOUT: the daemon of this machine has taken no stores for 20 s, and it is given up.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// ipn_store32(window, 16, 42);
// @endcode
int ipn_store32(const ipn_window *window,
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
// -ETIMEDOUT: the daemon of this machine has taken no stores for 20 s, and it is given up.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// ipn_put(window, 64, value, sizeof value);
// ipn_store64(window, 0, ++version);
// @endcode
int ipn_store64(const ipn_window *window,
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
// -ETIMEDOUT: the daemon of this machine has taken no stores for 20 s, and it is given up.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// ipn_put(window, 4096, image, image_size);
// @endcode
int ipn_put(const ipn_window *window, size_t offset, const void *data, size_t size);

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
// -ETIMEDOUT: the daemon of this machine has taken no stores for 20 s, and it is given up.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// ipn_put64(window, 128, line);
// @endcode
int ipn_put64(const ipn_window *window,
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
// right to store. -ETIMEDOUT: the daemon of this machine has taken no stores for 20 s, and it is given up.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// ipn_put_line(window, 64 * (n % lines), n + 1, &sample, sizeof sample);
// ipn_signal(window);
// @endcode
int ipn_put_line(const ipn_window *window,
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
// -ETIMEDOUT: the daemon of this machine has taken no stores for 20 s; what is left of it is given up.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// ipn_put_signal(window, 64, value, sizeof value, 0, ++version);
// @endcode
int ipn_put_signal(const ipn_window *window,
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
int ipn_signal(const ipn_window *window);

// Orders stores.
//
// DESCRIPTION
// Has plain stores leave that ipn_window_map() collects. Does not wait for anything to arrive: ipn_flush() does.
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
int ipn_fence(const ipn_window *window);

// Waits until stores have left, or have arrived.
//
// DESCRIPTION
// IPN_LOCAL: all stores before have left the processor. IPN_DELIVERED: they are where the server's loads see them; over a
// board, where its NIC has acknowledged them and will write them before anything that follows.
// IPN_DELIVERED also says whether stores may have been lost since the last flush of this window that did. Each loss is told once, by
// all flushes that were under way when it was told first; of a window that is of no more use every flush says so. What a server
// refuses, because the token was revoked, may become known only after the flush: ipn_check() and the next flush tell it. Threads that
// share a window and each have to know of their own stores compare with ipn_epoch().
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
// -ETIMEDOUT: not known in time. -EHOSTUNREACH: the server can't be reached, or has refused stores: some may be lost. -ECONNRESET:
// the daemon of this machine no longer answers: so may all that it has not sent.
// -EKEYREVOKED: the token was revoked. -EINVAL: `window` is NULL, or `how` is something else.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// status = ipn_flush(window, IPN_DELIVERED, 1000000000);
// @endcode
int ipn_flush(const ipn_window *window,
              uint32_t how,
              int64_t timeout_ns);

// Loads bytes from the peer.
//
// DESCRIPTION
// A round trip over the network where the memory is another machine's, so not for a fast path: let the peer store instead.
// A server that stands still is asked again until it answers, it is taken for lost, or time is over.
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
int ipn_get(const ipn_window *window,
            size_t offset,
            void *data,
            size_t size,
            int64_t timeout_ns);

// A mark in the stream of stores, for ipn_check().
//
// DESCRIPTION
// Take one before the stores that are to be checked. It costs a few loads. Plain stores leave that ipn_window_map() has collected.
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
int ipn_epoch(const ipn_window *window,
              uint64_t *epoch);

// Says whether stores since a mark may have been lost.
//
// DESCRIPTION
// Never waits, but where plain stores that ipn_window_map() has collected leave. After an ipn_flush() with IPN_DELIVERED it is certain that all stores between mark and flush have arrived; without
// one, that nothing bad is known yet.
//
// RETURN
// 0 if nothing was lost.
//
// ERRORS
// -EKEYREVOKED: the token was revoked. -EHOSTUNREACH: the server could not be reached, or refused stores. -ECONNRESET: a flush or a
// load has found that the daemon of this machine no longer answers. -EINVAL: `window` is NULL.
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
int ipn_check(const ipn_window *window,
              uint64_t epoch);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* IPNUMA_WINDOW_H */
