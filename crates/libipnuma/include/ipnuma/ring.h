// SPDX-License-Identifier: Apache-2.0
/*
 * libipnuma: rings, which carry messages.
 *
 * ipnuma.h includes this, and says at its head what holds for all functions.
 *
 * Generated from crates/libipnuma/src/ring.rs by 'cargo run -p libipnuma --example header -- --write'; do not edit.
 */

#ifndef IPNUMA_RING_H
#define IPNUMA_RING_H

#include <stddef.h>
#include <stdint.h>
#include "device.h"
#include "region.h"

// The end of a ring that receives. Made by ipn_ring_create().
typedef struct ipn_receiver ipn_receiver;

// The end of a ring that sends. Made by ipn_ring_connect().
typedef struct ipn_sender ipn_sender;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

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
// -EINVAL: a pointer is NULL, or there is no ring of so many lines. -ENOMEM: there is no memory. -ENOBUFS: the daemon allows no
// more regions (`[limits]`). -ECONNRESET: the daemon no longer answers.
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
int ipn_ring_create(const ipn_device *device,
                    uint32_t lines,
                    ipn_receiver **receiver,
                    ipn_token *token);

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
int ipn_ring_connect(const ipn_device *device,
                     const ipn_token *token,
                     ipn_sender **sender);

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
int ipn_receiver_close(ipn_receiver *receiver);

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
int ipn_sender_close(ipn_sender *sender);

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
size_t ipn_ring_max(const ipn_sender *sender);

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
int ipn_ring_send(ipn_sender *sender,
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
int ipn_ring_check(const ipn_sender *sender);

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
// -EAGAIN: there is none. -EBADMSG: the ring holds what no sender writes; close it. -EACCES, -EHOSTUNREACH, said once: an
// ipn_ring_release() could not reach the sender's memory, to which credit returns; the next one tries again. -EINVAL: `receiver`
// is NULL.
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
int ipn_ring_peek(ipn_receiver *receiver,
                  uint32_t *kind,
                  const void **data,
                  size_t *size);

// Releases the message that ipn_ring_peek() showed.
//
// DESCRIPTION
// Its place goes back to the sender. Without a message it does nothing. The first one asks the daemon for the sender's memory,
// which for a sender on a machine that does not answer takes up to 20 s; all others wait for nobody.
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
int ipn_ring_release(ipn_receiver *receiver);

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
int ipn_ring_receive(ipn_receiver *receiver,
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
int ipn_ring_event_fd(const ipn_receiver *receiver);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* IPNUMA_RING_H */
