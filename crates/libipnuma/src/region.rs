// SPDX-License-Identifier: Apache-2.0
//! Regions: own memory that others store to.

use std::ffi::{c_char, c_int, c_void};
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use host::ring::INLINE;
use host::{Error, Region, Rights, Token};

use crate::device::{Counts, ipn_device};
use crate::status::{Failure, object, result, room, run, text, timeout};

/// The holder of the token may load.
pub const IPN_READ: u32 = 1;
/// The holder of the token may store.
pub const IPN_WRITE: u32 = 2;

/// Memory that others store to. Made by ipn_mem_alloc().
pub struct ipn_region {
    region: Region,
    counts: Arc<Counts>,
}

/// A token: 64 bytes that let their holder use a range of a region. It is a capability, so pass it on as a password. Copy it
/// as it is, over any channel; all machines have the same byte order in it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ipn_token {
    /// The token.
    pub bytes: [u8; 64],
}

/// Reads a token of the caller's.
pub(crate) unsafe fn token(token: *const ipn_token) -> Result<Token, Failure> {
    // SAFETY: NULL or 64 bytes, by the contract of the interface.
    let token = unsafe { object(token, "token") }?;
    Ok(Token::parse(&token.bytes).map_err(Error::from)?)
}

/// Allocates memory that others may be given access to.
///
/// # Description
/// The memory is zeroed and begins at a page. On a board it is locked, and in huge pages where there are any.
///
/// # Units
/// `bytes` in bytes, rounded up to whole pages; ipn_mem_size() tells.
///
/// # Return
/// 0, and the region in `*region`; free it with ipn_mem_free(). On an error `*region` is NULL.
///
/// # Errors
/// -EINVAL: a pointer is NULL, or `bytes` is 0 or more than there can be. -ENOMEM: there is no memory. -ENOBUFS: the daemon allows no
/// more of it, or no more regions (`[limits]`). -ECONNRESET: the daemon no longer answers.
///
/// # Threads
/// Any thread.
///
/// # Example
/// @code
/// ipn_region *region;
/// int status = ipn_mem_alloc(device, 1 << 20, &region);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_mem_alloc(
    device: *const ipn_device,
    bytes: usize,
    region: *mut *mut ipn_region,
) -> c_int {
    run(|| {
        // SAFETY: see `result`.
        let place = unsafe { result(region, "region") }?;
        *place = std::ptr::null_mut();
        // SAFETY: see `object`.
        let device = unsafe { object(device, "device") }?;
        let counts = Arc::clone(&device.counts);
        let region = device.device.alloc(bytes)?;
        counts.regions.fetch_add(1, Ordering::Relaxed);
        *place = Box::into_raw(Box::new(ipn_region { region, counts }));
        Ok(())
    })
}

/// Frees a region.
///
/// # Description
/// Its tokens are taken back, and what others still store into windows of it is lost.
///
/// # Return
/// 0. NULL is freed already.
///
/// # Errors
/// None.
///
/// # Threads
/// No other thread may use the region or its memory meanwhile or afterwards.
///
/// # Example
/// @code
/// ipn_mem_free(region);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_mem_free(region: *mut ipn_region) -> c_int {
    run(|| {
        if !region.is_null() {
            // SAFETY: made by `ipn_mem_alloc`, and not used any more.
            let region = unsafe { Box::from_raw(region) };
            region.counts.regions.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(())
    })
}

/// Where a region is.
///
/// # Description
/// Others store to this memory at any time: read it with ipn_poll_line(), volatile or atomic loads. The address stays the same
/// until ipn_mem_free().
///
/// # Return
/// Address of the first byte; NULL if `region` is NULL.
///
/// # Errors
/// None.
///
/// # Threads
/// Any thread.
///
/// # Example
/// @code
/// volatile uint64_t *counter = ipn_mem_address(region);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_mem_address(region: *const ipn_region) -> *mut c_void {
    // SAFETY: NULL or a region, by the contract of the interface.
    unsafe { region.as_ref() }.map_or(std::ptr::null_mut(), |region| region.region.as_ptr().cast())
}

/// How large a region is.
///
/// # Units
/// Bytes.
///
/// # Return
/// Its size, a multiple of the page size; 0 if `region` is NULL.
///
/// # Errors
/// None.
///
/// # Threads
/// Any thread.
///
/// # Example
/// @code
/// memset(ipn_mem_address(region), 0xFF, ipn_mem_size(region));
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_mem_size(region: *const ipn_region) -> usize {
    // SAFETY: NULL or a region, by the contract of the interface.
    unsafe { region.as_ref() }.map_or(0, |region| region.region.len())
}

/// Makes a token for a range of a region.
///
/// # Description
/// Whoever has the token may ipn_connect() with it from any machine, or, if `peer` is not NULL, from the machine with that IPv4
/// address only ("10.0.0.2"). Each call gives another token; each is taken back on its own. Tokens end with the region and with
/// the process.
///
/// # Units
/// `first` and `bytes` in bytes. The pcie back end shares whole words: both are multiples of 4 there. The soft back end maps
/// whole pages, so over it a neighbour in the same page on the same machine sees the whole page: begin and end ranges at pages
/// where that matters.
///
/// # Return
/// 0, and the token in `*token`.
///
/// # Errors
/// -EINVAL: a pointer is NULL, the range is empty or outside, `rights` is not IPN_READ, IPN_WRITE or both, or `peer` is no
/// machine's address. -ENOSPC: the device has no room for more tokens. -ENOBUFS: the daemon allows no more of them (`[limits]`).
/// -ECONNRESET: the daemon no longer answers.
///
/// # Threads
/// Any thread.
///
/// # Example
/// @code
/// ipn_token token;
/// int status = ipn_export(region, 0, 4096, IPN_READ | IPN_WRITE, NULL, &token);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_export(
    region: *const ipn_region,
    first: usize,
    bytes: usize,
    rights: u32,
    peer: *const c_char,
    token: *mut ipn_token,
) -> c_int {
    run(|| {
        // SAFETY: see `object`, `text` and `result`.
        let (region, peer, place) = unsafe {
            (
                object(region, "region")?,
                text(peer, "peer")?,
                result(token, "token")?,
            )
        };
        let bits = u8::try_from(rights).ok().and_then(Rights::from_bits);
        let rights = bits.ok_or_else(|| {
            Failure::invalid(format!(
                "rights are {rights}; there are IPN_READ, IPN_WRITE and both"
            ))
        })?;
        let peer = match peer {
            None => None,
            Some(peer) => Some(peer.parse::<Ipv4Addr>().map_err(|_| {
                Failure::invalid(format!(
                    "peer {peer:?} is no IPv4 address; write it as 10.0.0.2"
                ))
            })?),
        };
        let end = first
            .checked_add(bytes)
            .ok_or_else(|| Failure::invalid("first and bytes are more than there can be"))?;
        let token = region.region.export(first..end, rights, peer)?;
        region.counts.exported.fetch_add(1, Ordering::Relaxed);
        place.bytes = token.to_bytes();
        Ok(())
    })
}

/// Takes a token back.
///
/// # Description
/// When the call returns, nothing that the holder stores afterwards reaches the region; the holder's ipn_check() says
/// -EKEYREVOKED. The soft back end moves the region to fresh memory with the same content at the same address, so stores of
/// this process during the call may get lost, and other windows of the region must be connected anew.
///
/// # Return
/// 0.
///
/// # Errors
/// -EINVAL: a pointer is NULL, or the bytes are no token. -EACCES or -ENOENT: it is none of this region, or was taken back
/// before.
///
/// # Threads
/// Any thread; none may store to the region meanwhile.
///
/// # Example
/// @code
/// ipn_revoke(region, &token);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_revoke(region: *const ipn_region, token: *const ipn_token) -> c_int {
    run(|| {
        // SAFETY: see `object`.
        let (region, token) = unsafe { (object(region, "region")?, self::token(token)?) };
        region.region.revoke(&token)?;
        region.counts.revoked.fetch_add(1, Ordering::Relaxed);
        Ok(())
    })
}

/// Looks whether a line has come.
///
/// # Description
/// A line is 64 bytes at a multiple of 64, stored by ipn_put_line() with a number: if the line at `offset` has the number
/// `sequence`, all of it is there, and its data are copied. This never waits and makes no system call.
///
/// # Units
/// `offset` in bytes from the begin of the region. `data` has room for 56 bytes; `*size` becomes how many there are. Both may be
/// NULL.
///
/// # Ordering
/// What its sender stored before the line (and a fence) is visible, too.
///
/// # Return
/// 0 if it is there.
///
/// # Errors
/// -EAGAIN: it is not there yet. -EINVAL: `region` is NULL, or `offset` is outside or no multiple of 64.
///
/// # Threads
/// Any thread.
///
/// # Example
/// @code
/// while ((status = ipn_poll_line(region, 64 * (n % lines), n + 1, data, &size)) == -EAGAIN) ;
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_poll_line(
    region: *const ipn_region,
    offset: usize,
    sequence: u32,
    data: *mut c_void,
    size: *mut usize,
) -> c_int {
    run(|| {
        // SAFETY: see `object`.
        let region = unsafe { object(region, "region") }?;
        line_offset(region, offset)?;
        // SAFETY: `data` and `size` are NULL or have room, by the contract of the interface.
        unsafe { take_line(region, offset, sequence, data, size) }.ok_or_else(Failure::again)
    })
}

fn line_offset(region: &ipn_region, offset: usize) -> Result<(), Failure> {
    if !offset.is_multiple_of(64) || offset >= region.region.len() {
        return Err(Failure::invalid(format!(
            "a line at offset {offset}: it must be a multiple of 64, below {}",
            region.region.len()
        )));
    }
    Ok(())
}

/// Copies a line out if it is there.
unsafe fn take_line(
    region: &ipn_region,
    offset: usize,
    sequence: u32,
    data: *mut c_void,
    size: *mut usize,
) -> Option<()> {
    let mut line = [0; INLINE];
    let length = region.region.poll_line(offset, sequence, &mut line)?;
    // SAFETY: NULL or room for 56 bytes and a size.
    unsafe {
        if let Some(data) = data.cast::<[u8; INLINE]>().as_mut() {
            data[..length].copy_from_slice(&line[..length]);
        }
        if let Some(size) = size.as_mut() {
            *size = length;
        }
    }
    Some(())
}

/// Waits for a line.
///
/// # Description
/// As ipn_poll_line(), but spins for the configured time and then sleeps until the sender says ipn_put_signal() or
/// ipn_signal(). A line without a signal may be noticed late, or not before the timeout.
///
/// # Units
/// `timeout_ns` in nanoseconds; negative: for ever. Otherwise as ipn_poll_line().
///
/// # Ordering
/// As ipn_poll_line().
///
/// # Return
/// 0 when it is there.
///
/// # Errors
/// -ETIMEDOUT: it did not come in time. -EINTR: a signal handler ran. -EINVAL: as ipn_poll_line().
///
/// # Threads
/// One thread at a time may wait for a region.
///
/// # Example
/// @code
/// status = ipn_wait_line(region, 0, 1, data, &size, 1000000000);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_wait_line(
    region: *const ipn_region,
    offset: usize,
    sequence: u32,
    data: *mut c_void,
    size: *mut usize,
    timeout_ns: i64,
) -> c_int {
    run(|| {
        // SAFETY: see `object`.
        let region = unsafe { object(region, "region") }?;
        line_offset(region, offset)?;
        // SAFETY: `data` and `size` are NULL or have room, by the contract of the interface.
        let look = || unsafe { take_line(region, offset, sequence, data, size) };
        Ok(region.region.wait_until(timeout(timeout_ns), look)?)
    })
}

/// Waits until a word is another.
///
/// # Description
/// Waits while the 8-byte word at `offset` is `old`: spins for the configured time, then sleeps until somebody says
/// ipn_put_signal() or ipn_signal(). A store without a signal may be noticed late, or not before the timeout. Over the rack back end
/// any store wakes: on a board the NIC interrupts.
///
/// # Units
/// `offset` in bytes, a multiple of 8. The word is little-endian. `timeout_ns` in nanoseconds; negative: for ever; 0: only looks.
///
/// # Ordering
/// What its sender stored before the word (and a fence) is visible, too.
///
/// # Return
/// 0, and the word in `*now` unless `now` is NULL.
///
/// # Errors
/// -ETIMEDOUT: it stayed the same. -EINTR: a signal handler ran while it slept, with SA_RESTART or without; no store is missed by calling
/// again. -EINVAL: `region` is NULL, or `offset` is outside or no multiple of 8.
///
/// # Threads
/// One thread at a time may wait for a region.
///
/// # Example
/// @code
/// uint64_t seen = 0;
/// while (ipn_wait(region, 0, seen, -1, &seen) == 0) handle(seen);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_wait(
    region: *const ipn_region,
    offset: usize,
    old: u64,
    timeout_ns: i64,
    now: *mut u64,
) -> c_int {
    run(|| {
        // SAFETY: see `object`.
        let region = unsafe { object(region, "region") }?;
        if !offset.is_multiple_of(8) || offset >= region.region.len() {
            return Err(Failure::invalid(format!(
                "a word at offset {offset}: it must be a multiple of 8, below {}",
                region.region.len()
            )));
        }
        let word: &AtomicU64 = region.region.word(offset);
        let other = || Some(u64::from_le(word.load(Ordering::Acquire))).filter(|&word| word != old);
        let found = region.region.wait_until(timeout(timeout_ns), other)?;
        // SAFETY: NULL or room for a word, by the contract of the interface.
        if let Some(now) = unsafe { now.as_mut() } {
            *now = found;
        }
        Ok(())
    })
}

/// The descriptor that becomes readable when a signal comes.
///
/// # Description
/// For programs with a loop of their own around poll(2) or epoll(7): call ipn_recheck(), look at the memory once more, and only
/// then sleep. Do not read or close the descriptor: ipn_recheck() empties it.
///
/// # Return
/// The descriptor; it is the region's.
///
/// # Errors
/// -EINVAL: `region` is NULL.
///
/// # Threads
/// Any thread.
///
/// # Example
/// @code
/// ipn_recheck(region);
/// if (nothing_new(region)) poll(&(struct pollfd){.fd = ipn_event_fd(region), .events = POLLIN}, 1, -1);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_event_fd(region: *const ipn_region) -> c_int {
    let mut descriptor = -1;
    let status = run(|| {
        // SAFETY: see `object`.
        descriptor = unsafe { object(region, "region") }?
            .region
            .event_fd()
            .as_raw_fd();
        Ok(())
    });
    if status < 0 { status } else { descriptor }
}

/// Prepares for sleep on ipn_event_fd().
///
/// # Description
/// From now on signals make the descriptor readable. Look at the memory once more afterwards: what came before is not told
/// again.
///
/// # Ordering
/// A full fence: what was stored and signalled before is visible afterwards.
///
/// # Return
/// 0.
///
/// # Errors
/// -EINVAL: `region` is NULL.
///
/// # Threads
/// The thread that sleeps.
///
/// # Example
/// @code
/// ipn_recheck(region);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_recheck(region: *const ipn_region) -> c_int {
    run(|| {
        // SAFETY: see `object`.
        unsafe { object(region, "region") }?.region.recheck();
        Ok(())
    })
}

/// Copies bytes out of a region.
///
/// # Description
/// Stores that happen meanwhile may be seen in part; a line number or a word that its sender stores last tells that all is
/// there.
///
/// # Units
/// `offset` and `size` in bytes.
///
/// # Return
/// 0.
///
/// # Errors
/// -EINVAL: a pointer is NULL, or the bytes are outside.
///
/// # Threads
/// Any thread.
///
/// # Example
/// @code
/// ipn_mem_read(region, 4096, value, sizeof value);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_mem_read(
    region: *const ipn_region,
    offset: usize,
    data: *mut c_void,
    size: usize,
) -> c_int {
    run(|| {
        // SAFETY: see `object` and `room`.
        let (region, into) = unsafe { (object(region, "region")?, room(data, size)?) };
        Ok(region.region.read(offset, into)?)
    })
}
