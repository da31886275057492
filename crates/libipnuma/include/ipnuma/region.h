// SPDX-License-Identifier: Apache-2.0
/*
 * libipnuma: regions and their tokens, memory that others store to.
 *
 * ipnuma.h includes this, and says at its head what holds for all functions.
 *
 * Generated from crates/libipnuma/src/region.rs by 'cargo run -p libipnuma --example header -- --write'; do not edit.
 */

#ifndef IPNUMA_REGION_H
#define IPNUMA_REGION_H

#include <stddef.h>
#include <stdint.h>
#include "device.h"

// The holder of the token may load.
#define IPN_READ 1

// The holder of the token may store.
#define IPN_WRITE 2

// Memory that others store to. Made by ipn_mem_alloc().
typedef struct ipn_region ipn_region;

// A token: 64 bytes that let their holder use a range of a region. It is a capability, so pass it on as a password. Copy it
// as it is, over any channel; all machines have the same byte order in it.
typedef struct ipn_token {
  // The token.
  uint8_t bytes[64];
} ipn_token;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

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
// -EINVAL: a pointer is NULL, or `bytes` is 0 or more than there can be. -ENOMEM: there is no memory. -ENOBUFS: the daemon allows no
// more of it, or no more regions (`[limits]`). -ECONNRESET: the daemon no longer answers.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// ipn_region *region;
// int status = ipn_mem_alloc(device, 1 << 20, &region);
// @endcode
int ipn_mem_alloc(const ipn_device *device,
                  size_t bytes,
                  ipn_region **region);

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
int ipn_mem_free(ipn_region *region);

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
void *ipn_mem_address(const ipn_region *region);

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
size_t ipn_mem_size(const ipn_region *region);

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
// machine's address. -ENOSPC: the device has no room for more tokens. -ENOBUFS: the daemon allows no more of them (`[limits]`).
// -ECONNRESET: the daemon no longer answers.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// ipn_token token;
// int status = ipn_export(region, 0, 4096, IPN_READ | IPN_WRITE, NULL, &token);
// @endcode
int ipn_export(const ipn_region *region,
               size_t first,
               size_t bytes,
               uint32_t rights,
               const char *peer,
               ipn_token *token);

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
int ipn_revoke(const ipn_region *region,
               const ipn_token *token);

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
int ipn_poll_line(const ipn_region *region,
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
int ipn_wait_line(const ipn_region *region,
                  size_t offset,
                  uint32_t sequence,
                  void *data,
                  size_t *size,
                  int64_t timeout_ns);

// Waits until a word is another.
//
// DESCRIPTION
// Waits while the 8-byte word at `offset` is `old`: spins for the configured time, then sleeps until somebody says
// ipn_put_signal() or ipn_signal(). A store without a signal may be noticed late, or not before the timeout. Over the rack back end
// any store wakes: on a board the NIC interrupts.
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
// -ETIMEDOUT: it stayed the same. -EINTR: a signal handler ran while it slept, with SA_RESTART or without; no store is missed by calling
// again. -EINVAL: `region` is NULL, or `offset` is outside or no multiple of 8.
//
// THREADS
// One thread at a time may wait for a region.
//
// EXAMPLE
// @code
// uint64_t seen = 0;
// while (ipn_wait(region, 0, seen, -1, &seen) == 0) handle(seen);
// @endcode
int ipn_wait(const ipn_region *region,
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
int ipn_event_fd(const ipn_region *region);

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
int ipn_recheck(const ipn_region *region);

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
int ipn_mem_read(const ipn_region *region,
                 size_t offset,
                 void *data,
                 size_t size);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* IPNUMA_REGION_H */
