// SPDX-License-Identifier: Apache-2.0
//! Windows: somebody else's memory.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use host::{Epoch, Flush, Stores, Window};

use crate::device::{Counts, ipn_device};
use crate::region::{ipn_token, token};
use crate::status::{Failure, bytes, object, result, room, run, timeout};

/// ipn_flush() waits until the stores have left the processor.
pub const IPN_LOCAL: u32 = 0;
/// ipn_flush() waits until the stores are in the server's memory (over a board: acknowledged by its NIC).
pub const IPN_DELIVERED: u32 = 1;

/// ipn_window_map(): plain stores leave at once, in the order in which they are made.
pub const IPN_MAP_ORDERED: u32 = 0;
/// ipn_window_map(): plain stores are collected, a line of 64 bytes at a time, and ipn_fence() has them leave.
pub const IPN_MAP_COMBINED: u32 = 1;

/// The range of a token, in somebody else's memory. Made by ipn_connect(). Offsets count from the begin of the range.
pub struct ipn_window {
    window: Window,
    counts: Arc<Counts>,
}

/// Connects to the memory that a token is for.
///
/// # Description
/// On the same machine, over the soft back end, the memory is mapped and a store is a store; else stores travel.
///
/// # Return
/// 0, and the window in `*window`; end it with ipn_disconnect(). On an error `*window` is NULL.
///
/// # Errors
/// -EINVAL: a pointer is NULL, or the bytes are no token. -EKEYREVOKED: it was revoked. -EACCES: it is refused: another machine's,
/// or made up, or of a region that is gone. -EHOSTUNREACH: its server can't be reached. -ENOSPC: the device has no room for more
/// windows. -ENOBUFS: a daemon allows no more of them (`[limits]`, `[remote.guests]`). -ECONNRESET: the daemon no longer answers.
///
/// # Threads
/// Any thread. The window may be used by several threads at a time.
///
/// # Example
/// @code
/// ipn_window *window;
/// int status = ipn_connect(device, &token, &window);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_connect(
    device: *const ipn_device,
    token: *const ipn_token,
    window: *mut *mut ipn_window,
) -> c_int {
    run(|| {
        // SAFETY: see `result`.
        let place = unsafe { result(window, "window") }?;
        *place = std::ptr::null_mut();
        // SAFETY: see `object`.
        let (device, token) = unsafe { (object(device, "device")?, self::token(token)?) };
        let counts = Arc::clone(&device.counts);
        let window = device.device.connect(&token).inspect_err(|_| {
            counts.refused.fetch_add(1, Ordering::Relaxed);
        })?;
        counts.windows.fetch_add(1, Ordering::Relaxed);
        *place = Box::into_raw(Box::new(ipn_window { window, counts }));
        Ok(())
    })
}

/// Ends a window.
///
/// # Description
/// Stores before it are on their way; ipn_flush() first if they must arrive. Its mapping ends with it.
///
/// # Return
/// 0. NULL is ended already.
///
/// # Errors
/// None.
///
/// # Threads
/// No other thread may use the window or its mapping meanwhile or afterwards.
///
/// # Example
/// @code
/// ipn_disconnect(window);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_disconnect(window: *mut ipn_window) -> c_int {
    run(|| {
        if !window.is_null() {
            // SAFETY: made by `ipn_connect`, and not used any more.
            let window = unsafe { Box::from_raw(window) };
            window.counts.windows.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(())
    })
}

/// How large a window is.
///
/// # Units
/// Bytes.
///
/// # Return
/// The size of the token's range; 0 if `window` is NULL.
///
/// # Errors
/// None.
///
/// # Threads
/// Any thread.
///
/// # Example
/// @code
/// size_t last = ipn_window_size(window) - 1;
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_window_size(window: *const ipn_window) -> usize {
    // SAFETY: NULL or a window, by the contract of the interface.
    unsafe { window.as_ref() }.map_or(0, |window| window.window.len())
}

/// Where a window is mapped.
///
/// # Description
/// As ipn_window_map() with IPN_MAP_ORDERED.
///
/// # Ordering
/// As there.
///
/// # Return
/// 0, and the address in `*address`.
///
/// # Errors
/// As ipn_window_map().
///
/// # Threads
/// Any thread.
///
/// # Example
/// @code
/// void *address;
/// if (ipn_map(window, &address) == 0) *(volatile uint32_t *)address = 1;
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_map(window: *const ipn_window, address: *mut *mut c_void) -> c_int {
    run(|| {
        // SAFETY: see `object` and `result`.
        let (window, place) = unsafe { (object(window, "window")?, result(address, "address")?) };
        *place = std::ptr::null_mut();
        *place = window.window.map()?.cast();
        Ok(())
    })
}

/// Where a window is mapped: plain loads and stores reach the peer's memory.
///
/// # Description
/// The processor's own loads and stores to `*address` reach the peer's memory until ipn_disconnect(), of every width. On the
/// same machine it is the memory itself; on a board, the board's pages, which are write-combined whatever `how` says. Else the
/// addresses trap: each access is carried out in a handler of SIGSEGV, as ipn_put() and ipn_get() would, in microseconds. A load
/// is a round trip: let the peer store instead. Where addresses trap, system calls get EFAULT for them, and atomic instructions
/// are a load and a store, atomic between threads of this process only.
///
/// An access that cannot be carried out is SIGBUS at that instruction, with the address: without the right to it, beyond the
/// window, after the token was revoked or the server lost, when the daemon of this machine has stood still for 20 s, or by an
/// instruction that transfers control, uses the stack, gathers, scatters or saves the processor's state. A handler finds the
/// sentence by ipn_error_message(); without one it goes to standard error. A handler of SIGSEGV of the program's is to be
/// installed before, or calls the one that it replaces. Threads must not block SIGSEGV. A thread's alternate signal stack
/// (sigaltstack()) needs 8 KB, or sysconf(_SC_SIGSTKSZ) if that is more.
///
/// # Units
/// `how`: IPN_MAP_ORDERED or IPN_MAP_COMBINED.
///
/// # Ordering
/// IPN_MAP_ORDERED: stores of a thread become visible in the order in which they are made, but on a board. IPN_MAP_COMBINED: and
/// on a board: none but by ipn_fence(), which has them leave, too; so does a load, and every other call for the window.
///
/// # Return
/// 0, and the address in `*address`.
///
/// # Errors
/// -EINVAL: a pointer is NULL, or `how` is something else. -ENOMEM, -ENOSPC: no addresses. -EOPNOTSUPP: not on this processor.
///
/// # Threads
/// Any thread.
///
/// # Example
/// @code
/// void *address;
/// if (ipn_window_map(window, IPN_MAP_ORDERED, &address) == 0) *(volatile uint32_t *)address = 1;
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_window_map(
    window: *const ipn_window,
    how: u32,
    address: *mut *mut c_void,
) -> c_int {
    run(|| {
        // SAFETY: see `object` and `result`.
        let (window, place) = unsafe { (object(window, "window")?, result(address, "address")?) };
        *place = std::ptr::null_mut();
        let stores = match how {
            IPN_MAP_ORDERED => Stores::AtOnce,
            IPN_MAP_COMBINED => Stores::Collected,
            other => {
                return Err(Failure::invalid(format!(
                    "how is {other}; there are IPN_MAP_ORDERED and IPN_MAP_COMBINED"
                )));
            }
        };
        *place = window.window.map_with(stores)?.cast();
        Ok(())
    })
}

/// Stores 4 bytes.
///
/// # Description
/// The value arrives whole. Stores are posted: success says that range and rights are in order, not that it has arrived.
///
/// # Units
/// `offset` in bytes, so that the place in the region is a multiple of 4. The value is stored little-endian.
///
/// # Ordering
/// None with other stores but by ipn_fence() and ipn_store64().
///
/// # Return
/// 0.
///
/// # Errors
/// -EINVAL: `window` is NULL, or the place is outside or not aligned. -EACCES: the token gives no right to store.
/// -ETIMEDOUT: the daemon of this machine has taken no stores for 20 s, and it is given up.
///
/// # Threads
/// Any thread.
///
/// # Example
/// @code
/// ipn_store32(window, 16, 42);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_store32(
    window: *const ipn_window,
    offset: usize,
    value: u32,
) -> c_int {
    run(|| {
        // SAFETY: see `object`.
        Ok(unsafe { object(window, "window") }?
            .window
            .store32(offset, value)?)
    })
}

/// Stores 8 bytes after all stores before.
///
/// # Description
/// The value arrives whole. Stores are posted: success says that range and rights are in order, not that it has arrived.
///
/// # Units
/// `offset` in bytes, so that the place in the region is a multiple of 8. The value is stored little-endian.
///
/// # Ordering
/// Becomes visible after all stores of this thread to the window before it.
///
/// # Return
/// 0.
///
/// # Errors
/// -EINVAL: `window` is NULL, or the place is outside or not aligned. -EACCES: the token gives no right to store.
/// -ETIMEDOUT: the daemon of this machine has taken no stores for 20 s, and it is given up.
///
/// # Threads
/// Any thread.
///
/// # Example
/// @code
/// ipn_put(window, 64, value, sizeof value);
/// ipn_store64(window, 0, ++version);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_store64(
    window: *const ipn_window,
    offset: usize,
    value: u64,
) -> c_int {
    run(|| {
        // SAFETY: see `object`.
        Ok(unsafe { object(window, "window") }?
            .window
            .store64(offset, value)?)
    })
}

/// Stores bytes.
///
/// # Description
/// Stores are posted: success says that range and rights are in order, not that they have arrived.
///
/// # Units
/// `offset` and `size` in bytes.
///
/// # Ordering
/// None, neither within the bytes nor with other stores, but by ipn_fence() and ipn_store64().
///
/// # Return
/// 0; `data` may be changed at once.
///
/// # Errors
/// -EINVAL: a pointer is NULL, or the bytes are outside. -EACCES: the token gives no right to store.
/// -ETIMEDOUT: the daemon of this machine has taken no stores for 20 s, and it is given up.
///
/// # Threads
/// Any thread.
///
/// # Example
/// @code
/// ipn_put(window, 4096, image, image_size);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_put(
    window: *const ipn_window,
    offset: usize,
    data: *const c_void,
    size: usize,
) -> c_int {
    run(|| {
        // SAFETY: see `object` and `bytes`.
        let (window, data) = unsafe { (object(window, "window")?, bytes(data, size)?) };
        Ok(window.window.put(offset, data)?)
    })
}

/// Stores a line of 64 bytes.
///
/// # Description
/// The line arrives whole where the device can (ipn_info.line_atomic); else its last 8 bytes become visible last. So a number
/// in them tells that the line is there, on every device.
///
/// # Units
/// `offset` in bytes, so that the place in the region is a multiple of 64. `line` has 64 bytes.
///
/// # Ordering
/// None with other stores but by ipn_fence() and ipn_store64().
///
/// # Return
/// 0; `line` may be changed at once.
///
/// # Errors
/// -EINVAL: a pointer is NULL, or the place is outside or not aligned. -EACCES: the token gives no right to store.
/// -ETIMEDOUT: the daemon of this machine has taken no stores for 20 s, and it is given up.
///
/// # Threads
/// Any thread.
///
/// # Example
/// @code
/// ipn_put64(window, 128, line);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_put64(
    window: *const ipn_window,
    offset: usize,
    line: *const c_void,
) -> c_int {
    run(|| {
        // SAFETY: see `object`; 64 bytes or NULL, by the contract of the interface.
        let (window, line) = unsafe {
            (
                object(window, "window")?,
                object(line.cast::<[u8; 64]>(), "line")?,
            )
        };
        Ok(window.window.put64(offset, line)?)
    })
}

/// Stores a line that carries up to 56 bytes and a number.
///
/// # Description
/// The server finds it with ipn_poll_line() or ipn_wait_line() when all of it is there. To fill the same line again, take
/// another number.
///
/// # Units
/// `offset` in bytes, so that the place in the region is a multiple of 64. `size` in bytes, 56 at most.
///
/// # Ordering
/// None with other stores but by ipn_fence() and ipn_store64().
///
/// # Return
/// 0; `data` may be changed at once.
///
/// # Errors
/// -EINVAL: a pointer is NULL, or the place is outside or not aligned. -EMSGSIZE: more than 56 bytes. -EACCES: the token gives no
/// right to store. -ETIMEDOUT: the daemon of this machine has taken no stores for 20 s, and it is given up.
///
/// # Threads
/// Any thread.
///
/// # Example
/// @code
/// ipn_put_line(window, 64 * (n % lines), n + 1, &sample, sizeof sample);
/// ipn_signal(window);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_put_line(
    window: *const ipn_window,
    offset: usize,
    sequence: u32,
    data: *const c_void,
    size: usize,
) -> c_int {
    run(|| {
        // SAFETY: see `object` and `bytes`.
        let (window, data) = unsafe { (object(window, "window")?, bytes(data, size)?) };
        Ok(window.window.put_line(offset, sequence, data)?)
    })
}

/// Stores bytes, then a word, then wakes the server.
///
/// # Description
/// The server that sees the new word, by ipn_wait() or with its own eyes, sees the bytes, too.
///
/// # Units
/// Offsets and `size` in bytes; the place of the word in the region is a multiple of 8. The word is stored little-endian.
///
/// # Ordering
/// The word becomes visible after the bytes and all stores before; the signal comes after both.
///
/// # Return
/// 0; `data` may be changed at once.
///
/// # Errors
/// -EINVAL: a pointer is NULL, or a place is outside or not aligned. -EACCES: the token gives no right to store. Then nothing
/// is stored.
/// -ETIMEDOUT: the daemon of this machine has taken no stores for 20 s; what is left of it is given up.
///
/// # Threads
/// Any thread.
///
/// # Example
/// @code
/// ipn_put_signal(window, 64, value, sizeof value, 0, ++version);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_put_signal(
    window: *const ipn_window,
    offset: usize,
    data: *const c_void,
    size: usize,
    word_offset: usize,
    word: u64,
) -> c_int {
    run(|| {
        // SAFETY: see `object` and `bytes`.
        let (window, data) = unsafe { (object(window, "window")?, bytes(data, size)?) };
        Ok(window.window.put_signal(offset, data, word_offset, word)?)
    })
}

/// Wakes the server if it sleeps.
///
/// # Description
/// Costs next to nothing while the server is awake.
///
/// # Ordering
/// After all stores of this thread before it.
///
/// # Return
/// 0.
///
/// # Errors
/// -EINVAL: `window` is NULL. -EACCES: the token gives no right to store.
///
/// # Threads
/// Any thread.
///
/// # Example
/// @code
/// ipn_signal(window);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_signal(window: *const ipn_window) -> c_int {
    run(|| {
        // SAFETY: see `object`.
        Ok(unsafe { object(window, "window") }?.window.signal()?)
    })
}

/// Orders stores.
///
/// # Description
/// Has plain stores leave that ipn_window_map() collects. Does not wait for anything to arrive: ipn_flush() does.
///
/// # Ordering
/// Stores of this thread to the window before it become visible before stores after it.
///
/// # Return
/// 0.
///
/// # Errors
/// -EINVAL: `window` is NULL.
///
/// # Threads
/// Any thread.
///
/// # Example
/// @code
/// ipn_put(window, 64, value, sizeof value);
/// ipn_fence(window);
/// ipn_store32(window, 0, 1);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_fence(window: *const ipn_window) -> c_int {
    run(|| {
        // SAFETY: see `object`.
        unsafe { object(window, "window") }?.window.fence();
        Ok(())
    })
}

/// Waits until stores have left, or have arrived.
///
/// # Description
/// IPN_LOCAL: all stores before have left the processor. IPN_DELIVERED: they are where the server's loads see them; over a
/// board, where its NIC has acknowledged them and will write them before anything that follows.
/// IPN_DELIVERED also says whether stores may have been lost since the last flush of this window that did. Each loss is told once, by
/// all flushes that were under way when it was told first; of a window that is of no more use every flush says so. What a server
/// refuses, because the token was revoked, may become known only after the flush: ipn_check() and the next flush tell it. Threads that
/// share a window and each have to know of their own stores compare with ipn_epoch().
///
/// # Units
/// `timeout_ns` in nanoseconds; negative: for ever.
///
/// # Ordering
/// As ipn_fence().
///
/// # Return
/// 0.
///
/// # Errors
/// -ETIMEDOUT: not known in time. -EHOSTUNREACH: the server can't be reached, or has refused stores: some may be lost. -ECONNRESET:
/// the daemon of this machine no longer answers: so may all that it has not sent.
/// -EKEYREVOKED: the token was revoked. -EINVAL: `window` is NULL, or `how` is something else.
///
/// # Threads
/// Any thread.
///
/// # Example
/// @code
/// status = ipn_flush(window, IPN_DELIVERED, 1000000000);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_flush(window: *const ipn_window, how: u32, timeout_ns: i64) -> c_int {
    run(|| {
        // SAFETY: see `object`.
        let window = unsafe { object(window, "window") }?;
        let how = match how {
            IPN_LOCAL => Flush::Local,
            IPN_DELIVERED => Flush::Delivered,
            other => {
                return Err(Failure::invalid(format!(
                    "how is {other}; there are IPN_LOCAL and IPN_DELIVERED"
                )));
            }
        };
        Ok(window.window.flush(how, timeout(timeout_ns))?)
    })
}

/// Loads bytes from the peer.
///
/// # Description
/// A round trip over the network where the memory is another machine's, so not for a fast path: let the peer store instead.
/// A server that stands still is asked again until it answers, it is taken for lost, or time is over.
///
/// # Units
/// `offset` and `size` in bytes. `timeout_ns` in nanoseconds; negative: for ever.
///
/// # Ordering
/// After all stores of this thread to the window before it.
///
/// # Return
/// 0, and the bytes in `data`.
///
/// # Errors
/// -EINVAL: a pointer is NULL, or the bytes are outside. -EACCES: the token gives no right to load. -ETIMEDOUT: no answer in time.
/// -EHOSTUNREACH: the server can't be reached. -EKEYREVOKED: the token was revoked.
///
/// # Threads
/// Any thread.
///
/// # Example
/// @code
/// status = ipn_get(window, 0, &head, sizeof head, 1000000);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_get(
    window: *const ipn_window,
    offset: usize,
    data: *mut c_void,
    size: usize,
    timeout_ns: i64,
) -> c_int {
    run(|| {
        // SAFETY: see `object` and `room`.
        let (window, into) = unsafe { (object(window, "window")?, room(data, size)?) };
        window.window.fence();
        Ok(window.window.load(offset, into, timeout(timeout_ns))?)
    })
}

/// A mark in the stream of stores, for ipn_check().
///
/// # Description
/// Take one before the stores that are to be checked. It costs a few loads. Plain stores leave that ipn_window_map() has collected.
///
/// # Return
/// 0, and the mark in `*epoch`.
///
/// # Errors
/// -EINVAL: a pointer is NULL.
///
/// # Threads
/// Any thread.
///
/// # Example
/// @code
/// uint64_t epoch;
/// ipn_epoch(window, &epoch);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_epoch(window: *const ipn_window, epoch: *mut u64) -> c_int {
    run(|| {
        // SAFETY: see `object` and `result`.
        let (window, place) = unsafe { (object(window, "window")?, result(epoch, "epoch")?) };
        *place = window.window.epoch().0;
        Ok(())
    })
}

/// Says whether stores since a mark may have been lost.
///
/// # Description
/// Never waits, but where plain stores that ipn_window_map() has collected leave. After an ipn_flush() with IPN_DELIVERED it is certain that all stores between mark and flush have arrived; without
/// one, that nothing bad is known yet.
///
/// # Return
/// 0 if nothing was lost.
///
/// # Errors
/// -EKEYREVOKED: the token was revoked. -EHOSTUNREACH: the server could not be reached, or refused stores. -ECONNRESET: a flush or a
/// load has found that the daemon of this machine no longer answers. -EINVAL: `window` is NULL.
///
/// # Threads
/// Any thread.
///
/// # Example
/// @code
/// ipn_epoch(window, &epoch);
/// ipn_put(window, 0, data, size);
/// if (ipn_flush(window, IPN_DELIVERED, -1) == 0 && ipn_check(window, epoch) == 0) puts("arrived");
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_check(window: *const ipn_window, epoch: u64) -> c_int {
    run(|| {
        // SAFETY: see `object`.
        Ok(unsafe { object(window, "window") }?
            .window
            .check(Epoch(epoch))?)
    })
}
