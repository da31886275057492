// SPDX-License-Identifier: Apache-2.0
//! Rings: messages from one sender to one receiver.

use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use host::ring::{self, RingReceiver, RingSender};

use crate::device::{Counts, ipn_device};
use crate::region::{ipn_token, token};
use crate::status::{Failure, bytes, object, result, room, run, timeout};

/// The end of a ring that receives. Made by ipn_ring_create().
pub struct ipn_receiver {
    ring: RingReceiver,
    counts: Arc<Counts>,
}

/// The end of a ring that sends. Made by ipn_ring_connect().
pub struct ipn_sender {
    ring: RingSender,
    counts: Arc<Counts>,
}

/// Makes a ring, as its receiver.
///
/// # Description
/// A ring carries messages from one sender to one receiver, in order, through lines of 64 bytes: a message of up to 56 bytes is
/// one line, one frame, one DMA write, of which only what is used is stored. Credit returns on its own; nothing is dropped.
///
/// # Units
/// `lines` of 64 bytes: a power of two from 8 to 1048576. The longest message is a quarter of them, and 65535 bytes at most.
///
/// # Return
/// 0, the receiver in `*receiver`, and in `*token` the token with which one sender connects. On an error `*receiver` is NULL.
///
/// # Errors
/// -EINVAL: a pointer is NULL, or there is no ring of so many lines. -ENOMEM: there is no memory. -ENOBUFS: the daemon allows no
/// more regions (`[limits]`). -ECONNRESET: the daemon no longer answers.
///
/// # Threads
/// Any thread.
///
/// # Example
/// @code
/// ipn_receiver *receiver;
/// ipn_token token;
/// int status = ipn_ring_create(device, 1024, &receiver, &token);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_ring_create(
    device: *const ipn_device,
    lines: u32,
    receiver: *mut *mut ipn_receiver,
    token: *mut ipn_token,
) -> c_int {
    run(|| {
        // SAFETY: see `result`.
        let place = unsafe { result(receiver, "receiver") }?;
        *place = std::ptr::null_mut();
        // SAFETY: see `object` and `result`.
        let (device, token) = unsafe { (object(device, "device")?, result(token, "token")?) };
        let counts = Arc::clone(&device.counts);
        let (ring, own) = ring::create(&device.device, lines)?;
        token.bytes = own.to_bytes();
        counts.rings.fetch_add(1, Ordering::Relaxed);
        counts.exported.fetch_add(1, Ordering::Relaxed);
        *place = Box::into_raw(Box::new(ipn_receiver { ring, counts }));
        Ok(())
    })
}

/// Connects to a ring, as its sender.
///
/// # Description
/// A ring has one sender: a second one with the same token would write over the first one's messages. Make a ring each.
///
/// # Return
/// 0, and the sender in `*sender`. On an error `*sender` is NULL.
///
/// # Errors
/// -EINVAL: a pointer is NULL, or the token is none, or none of a ring. -EACCES: the token is refused. -EHOSTUNREACH: its server
/// can't be reached.
///
/// # Threads
/// Any thread.
///
/// # Example
/// @code
/// ipn_sender *sender;
/// int status = ipn_ring_connect(device, &token, &sender);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_ring_connect(
    device: *const ipn_device,
    token: *const ipn_token,
    sender: *mut *mut ipn_sender,
) -> c_int {
    run(|| {
        // SAFETY: see `result`.
        let place = unsafe { result(sender, "sender") }?;
        *place = std::ptr::null_mut();
        // SAFETY: see `object`.
        let (device, token) = unsafe { (object(device, "device")?, self::token(token)?) };
        let counts = Arc::clone(&device.counts);
        let ring = ring::connect(&device.device, &token).inspect_err(|_| {
            counts.refused.fetch_add(1, Ordering::Relaxed);
        })?;
        counts.rings.fetch_add(1, Ordering::Relaxed);
        *place = Box::into_raw(Box::new(ipn_sender { ring, counts }));
        Ok(())
    })
}

/// Closes the receiving end of a ring.
///
/// # Description
/// Messages that were not taken are gone, and the ring's token with them.
///
/// # Return
/// 0. NULL is closed already.
///
/// # Errors
/// None.
///
/// # Threads
/// No other thread may use it meanwhile or afterwards.
///
/// # Example
/// @code
/// ipn_receiver_close(receiver);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_receiver_close(receiver: *mut ipn_receiver) -> c_int {
    run(|| {
        if !receiver.is_null() {
            // SAFETY: made by `ipn_ring_create`, and not used any more.
            let receiver = unsafe { Box::from_raw(receiver) };
            receiver.counts.rings.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(())
    })
}

/// Closes the sending end of a ring.
///
/// # Description
/// Messages that were sent stay in the ring.
///
/// # Return
/// 0. NULL is closed already.
///
/// # Errors
/// None.
///
/// # Threads
/// No other thread may use it meanwhile or afterwards.
///
/// # Example
/// @code
/// ipn_sender_close(sender);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_sender_close(sender: *mut ipn_sender) -> c_int {
    run(|| {
        if !sender.is_null() {
            // SAFETY: made by `ipn_ring_connect`, and not used any more.
            let sender = unsafe { Box::from_raw(sender) };
            sender.counts.rings.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(())
    })
}

/// The longest message of a ring.
///
/// # Units
/// Bytes.
///
/// # Return
/// The length; 0 if `sender` is NULL.
///
/// # Errors
/// None.
///
/// # Threads
/// Any thread.
///
/// # Example
/// @code
/// size_t most = ipn_ring_max(sender);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_ring_max(sender: *const ipn_sender) -> usize {
    // SAFETY: NULL or a sender, by the contract of the interface.
    unsafe { sender.as_ref() }.map_or(0, |sender| sender.ring.max_message())
}

/// Sends a message.
///
/// # Description
/// Waits for room if need be, first spinning, then sleeping; with `timeout_ns` 0 it does not wait. `kind` is a number for the
/// receiver. The receiver is woken if it sleeps.
///
/// # Units
/// `size` in bytes. `timeout_ns` in nanoseconds; negative: for ever.
///
/// # Ordering
/// Messages arrive in the order in which they were sent, whole.
///
/// # Return
/// 0; `data` may be changed at once.
///
/// # Errors
/// -EAGAIN: there is no room, and `timeout_ns` is 0. -ETIMEDOUT: no room in time. -EMSGSIZE: longer than ipn_ring_max().
/// -EKEYREVOKED, -EHOSTUNREACH: the receiver is gone. -EINTR: a signal handler ran. -EINVAL: a pointer is NULL, or `kind` is above
/// 254.
///
/// # Threads
/// One thread at a time.
///
/// # Example
/// @code
/// status = ipn_ring_send(sender, 0, "hello", 5, -1);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_ring_send(
    sender: *mut ipn_sender,
    kind: u32,
    data: *const c_void,
    size: usize,
    timeout_ns: i64,
) -> c_int {
    run(|| {
        // SAFETY: see `result` and `bytes`; one thread at a time, by the contract of the interface.
        let (sender, data) = unsafe { (result(sender, "sender")?, bytes(data, size)?) };
        let kind = u8::try_from(kind).ok().filter(|&kind| kind != ring::PAD);
        let kind = kind.ok_or_else(|| Failure::invalid("kind is above 254"))?;
        match timeout_ns {
            0 => Ok(sender.ring.try_send(kind, &[data])?),
            _ => Ok(sender.ring.send(kind, &[data], timeout(timeout_ns))?),
        }
    })
}

/// Says whether sent messages may have been lost.
///
/// # Description
/// Never waits.
///
/// # Return
/// 0 if nothing bad is known.
///
/// # Errors
/// -EKEYREVOKED: the receiver has gone or taken its token back. -EHOSTUNREACH: its machine can't be reached. -EINVAL: `sender` is
/// NULL.
///
/// # Threads
/// One thread at a time.
///
/// # Example
/// @code
/// if (ipn_ring_check(sender) != 0) reconnect();
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_ring_check(sender: *const ipn_sender) -> c_int {
    run(|| {
        // SAFETY: see `object`.
        Ok(unsafe { object(sender, "sender") }?.ring.check()?)
    })
}

/// Shows the next message in place.
///
/// # Description
/// Nothing is copied: `*data` points into the ring until ipn_ring_release(). Calling it again before shows the same message. It
/// never waits.
///
/// # Units
/// `*size` in bytes.
///
/// # Ordering
/// Messages come in the order in which they were sent, whole.
///
/// # Return
/// 0, with kind, address and length; each may be NULL.
///
/// # Errors
/// -EAGAIN: there is none. -EBADMSG: the ring holds what no sender writes; close it. -EACCES, -EHOSTUNREACH, said once: an
/// ipn_ring_release() could not reach the sender's memory, to which credit returns; the next one tries again. -EINVAL: `receiver`
/// is NULL.
///
/// # Threads
/// One thread at a time.
///
/// # Example
/// @code
/// const void *data;
/// size_t size;
/// while (ipn_ring_peek(receiver, NULL, &data, &size) == 0) {
///   handle(data, size);
///   ipn_ring_release(receiver);
/// }
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_ring_peek(
    receiver: *mut ipn_receiver,
    kind: *mut u32,
    data: *mut *const c_void,
    size: *mut usize,
) -> c_int {
    run(|| {
        // SAFETY: see `result`; one thread at a time, by the contract of the interface.
        let receiver = unsafe { result(receiver, "receiver") }?;
        let message = receiver.ring.peek()?.ok_or_else(Failure::again)?;
        // SAFETY: each is NULL or has room, by the contract of the interface.
        unsafe {
            if let Some(kind) = kind.as_mut() {
                *kind = message.kind().into();
            }
            if let Some(data) = data.as_mut() {
                *data = message.as_ptr().cast();
            }
            if let Some(size) = size.as_mut() {
                *size = message.len();
            }
        }
        Ok(())
    })
}

/// Releases the message that ipn_ring_peek() showed.
///
/// # Description
/// Its place goes back to the sender. Without a message it does nothing. The first one asks the daemon for the sender's memory,
/// which for a sender on a machine that does not answer takes up to 20 s; all others wait for nobody.
///
/// # Return
/// 0.
///
/// # Errors
/// -EINVAL: `receiver` is NULL. -EBADMSG: the ring holds what no sender writes.
///
/// # Threads
/// One thread at a time.
///
/// # Example
/// @code
/// ipn_ring_release(receiver);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_ring_release(receiver: *mut ipn_receiver) -> c_int {
    run(|| {
        // SAFETY: see `result`; one thread at a time, by the contract of the interface.
        let receiver = unsafe { result(receiver, "receiver") }?;
        if receiver.ring.peek()?.is_some() {
            receiver.ring.release();
        }
        Ok(())
    })
}

/// Receives a message.
///
/// # Description
/// Waits for one, first spinning, then sleeping; with `timeout_ns` 0 it does not wait. Copies it to `data` and releases it. A
/// message that is longer than `size` is cut, and `*length` says how long it was.
///
/// # Units
/// `size` and `*length` in bytes. `timeout_ns` in nanoseconds; negative: for ever.
///
/// # Ordering
/// Messages come in the order in which they were sent, whole.
///
/// # Return
/// 0, with kind and length; each may be NULL.
///
/// # Errors
/// -EAGAIN: there is none, and `timeout_ns` is 0. -ETIMEDOUT: none came in time. -EINTR: a signal handler ran. Others as
/// ipn_ring_peek().
///
/// # Threads
/// One thread at a time.
///
/// # Example
/// @code
/// char text[256];
/// size_t length;
/// status = ipn_ring_receive(receiver, NULL, text, sizeof text, &length, -1);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_ring_receive(
    receiver: *mut ipn_receiver,
    kind: *mut u32,
    data: *mut c_void,
    size: usize,
    length: *mut usize,
    timeout_ns: i64,
) -> c_int {
    run(|| {
        // SAFETY: see `result` and `room`; one thread at a time, by the contract of the interface.
        let (receiver, into) = unsafe { (result(receiver, "receiver")?, room(data, size)?) };
        let (found, whole) = match timeout_ns {
            0 => receiver
                .ring
                .try_receive(into)?
                .ok_or_else(Failure::again)?,
            _ => receiver.ring.receive(into, timeout(timeout_ns))?,
        };
        // SAFETY: each is NULL or has room, by the contract of the interface.
        unsafe {
            if let Some(kind) = kind.as_mut() {
                *kind = found.into();
            }
            if let Some(length) = length.as_mut() {
                *length = whole;
            }
        }
        Ok(())
    })
}

/// The descriptor that becomes readable when messages come, prepared for sleep.
///
/// # Description
/// For programs with a loop of their own around poll(2) or epoll(7): call this, then ipn_ring_peek() once more, and only if there is
/// nothing sleep. Call it again before each sleep. Do not read or close the descriptor.
///
/// # Ordering
/// A full fence: messages sent before are seen by the ipn_ring_peek() that follows.
///
/// # Return
/// The descriptor; it is the ring's.
///
/// # Errors
/// -EINVAL: `receiver` is NULL.
///
/// # Threads
/// One thread at a time.
///
/// # Example
/// @code
/// int fd = ipn_ring_event_fd(receiver);
/// if (ipn_ring_peek(receiver, NULL, NULL, NULL) == -EAGAIN) poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, -1);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_ring_event_fd(receiver: *const ipn_receiver) -> c_int {
    let mut descriptor = -1;
    let status = run(|| {
        // SAFETY: see `object`.
        let region = unsafe { object(receiver, "receiver") }?.ring.region();
        region.recheck();
        descriptor = region.event_fd().as_raw_fd();
        Ok(())
    });
    if status < 0 { status } else { descriptor }
}
