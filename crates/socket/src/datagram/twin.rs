// SPDX-License-Identifier: Apache-2.0
//! The twin of a UDP socket: datagrams of the kernel, and doorbells among them.

use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

use rustix::io::Errno;

use super::Datagram;
use crate::latch::Latch;
use crate::raw;
use crate::wait::clock;

/// The twin has a datagram.
pub(super) const DATA: u8 = 1;
/// The twin has an error.
pub(super) const ERROR: u8 = 2;
/// The program has shut its receiving side.
pub(super) const SHUT: u8 = 4;
/// The program has shut its sending side: the kernel says so to who sends.
pub(super) const MUTE: u8 = 8;

/// Bytes of a doorbell.
pub(super) const BELL: usize = 16;

/// What doorbells look like: of each daemon that this process has had. Few.
static BELLS: Latch<Vec<[u8; BELL]>> = Latch::new(Vec::new());

/// Learns what a daemon's doorbells look like.
pub(super) fn learn(bell: [u8; BELL]) {
    let mut bells = BELLS.lock();
    if !bells.contains(&bell) {
        bells.push(bell);
    }
}

fn is_bell(bytes: &[u8]) -> bool {
    bytes.len() == BELL && BELLS.lock().iter().any(|bell| bell == bytes)
}

/// Receives into a scratch buffer. Returns the datagram's length.
fn peek(fd: RawFd, scratch: &mut [u8; BELL], flags: i32) -> Result<usize, Errno> {
    let flags = flags | libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: the kernel writes at most the scratch buffer's size.
    unsafe {
        raw::call(
            libc::SYS_recvfrom,
            [
                fd as usize,
                scratch.as_mut_ptr() as usize,
                BELL,
                flags as usize,
                0,
                0,
            ],
        )
    }
}

/// Whether the program's buffers hold a doorbell, which has just been received.
///
/// # Safety
/// The message is the program's.
pub(super) unsafe fn holds_bell(message: &libc::msghdr) -> bool {
    // SAFETY: by the caller.
    is_bell(&unsafe { beginning(message, BELL) })
}

/// Bytes that the program's buffers take.
///
/// # Safety
/// The message is the program's.
unsafe fn capacity(message: &libc::msghdr) -> usize {
    (0..message.msg_iovlen)
        // SAFETY: by the caller.
        .map(|index| unsafe { message.msg_iov.add(index).read_unaligned().iov_len })
        .fold(0, usize::saturating_add)
}

/// The first bytes of what the program's buffers hold.
///
/// # Safety
/// The message is the program's, and its buffers hold that much.
unsafe fn beginning(message: &libc::msghdr, count: usize) -> [u8; BELL] {
    let mut bytes = [0; BELL];
    let mut at = 0;
    for index in 0..message.msg_iovlen {
        // SAFETY: by the caller.
        unsafe {
            let part = message.msg_iov.add(index).read_unaligned();
            let length = part.iov_len.min(count - at);
            if length > 0 {
                std::ptr::copy_nonoverlapping(
                    part.iov_base.cast::<u8>(),
                    bytes[at..].as_mut_ptr(),
                    length,
                );
            }
            at += length;
        }
        if at == count {
            break;
        }
    }
    bytes
}

impl Datagram {
    /// An error that the next send or SO_ERROR must give, and is gone then. None: the kernel has it, or there is none.
    pub(crate) fn take_error(&self) -> Option<Errno> {
        self.twin.fetch_and(!ERROR, Ordering::AcqRel);
        match self.error.swap(0, Ordering::Relaxed) {
            0 => None,
            error => Some(Errno::from_raw_os_error(error)),
        }
    }

    /// Swallows doorbells, and remembers whether the twin has anything else.
    pub(super) fn look_at_twin(&self, fd: RawFd) {
        let mut scratch = [0; BELL];
        let state = loop {
            match peek(fd, &mut scratch, libc::MSG_PEEK) {
                Ok(BELL) if is_bell(&scratch) => {
                    let _ = peek(fd, &mut scratch, 0);
                }
                Ok(_) => break DATA,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break 0,
                Err(error) => {
                    self.error.store(error.raw_os_error(), Ordering::Relaxed);
                    break ERROR;
                }
            }
        };
        let error = if self.error.load(Ordering::Relaxed) != 0 {
            ERROR
        } else {
            0
        };
        self.note(state | error);
    }

    /// What is known about the twin now. What was shut stays shut.
    fn note(&self, state: u8) {
        self.looked.store(clock::ticks(), Ordering::Relaxed);
        self.served.store(0, Ordering::Relaxed);
        let shut = self.twin.load(Ordering::Relaxed) & (SHUT | MUTE);
        self.twin.store(state | shut, Ordering::Release);
    }

    /// Takes a datagram of the kernel's, or an error. None: there is neither.
    ///
    /// # Safety
    /// The message is the program's.
    pub(super) unsafe fn receive_from_twin(
        &self,
        fd: RawFd,
        message: &mut libc::msghdr,
        flags: i32,
    ) -> Option<Result<usize, Errno>> {
        // SAFETY: by the caller.
        if unsafe { capacity(message) } < BELL {
            // A doorbell could not be told from what the program would get of it.
            self.look_at_twin(fd);
            if self.twin.load(Ordering::Relaxed) & (DATA | ERROR) == 0 {
                return None;
            }
        }
        match self.error.swap(0, Ordering::Relaxed) {
            0 => {}
            error => {
                self.look_at_twin(fd);
                return Some(Err(Errno::from_raw_os_error(error)));
            }
        }
        let before = (message.msg_namelen, message.msg_controllen);
        loop {
            // SAFETY: by the caller.
            let result = unsafe {
                raw::call(
                    libc::SYS_recvmsg,
                    [
                        fd as usize,
                        std::ptr::from_mut(message) as usize,
                        (flags | libc::MSG_DONTWAIT) as usize,
                        0,
                        0,
                        0,
                    ],
                )
            };
            match result {
                // SAFETY: by the caller; the kernel has just written so many bytes.
                Ok(BELL) if is_bell(&unsafe { beginning(message, BELL) }) => {
                    if flags & libc::MSG_PEEK != 0 {
                        let _ = peek(fd, &mut [0; BELL], 0);
                    }
                    (message.msg_namelen, message.msg_controllen) = before;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.note(0);
                    return None;
                }
                result => {
                    self.look_at_twin(fd);
                    return Some(result);
                }
            }
        }
    }
}
