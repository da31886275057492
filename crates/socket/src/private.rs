// SPDX-License-Identifier: Apache-2.0
//! Descriptors of the library's own that come and go with connections: a program that closes what it does not know must
//! not hit them.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers that are guarded; higher ones are not.
const MOST: usize = 1 << 16;

static GUARDED: [AtomicU64; MOST / 64] = [const { AtomicU64::new(0) }; MOST / 64];

fn place(fd: RawFd) -> Option<(&'static AtomicU64, u64)> {
    let fd = usize::try_from(fd).ok().filter(|fd| *fd < MOST)?;
    Some((&GUARDED[fd / 64], 1 << (fd % 64)))
}

/// Whether a number is guarded.
#[inline]
pub fn is_guarded(fd: RawFd) -> bool {
    place(fd).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

/// All that are guarded, in ascending order.
pub fn guarded() -> impl Iterator<Item = RawFd> {
    (0..MOST as RawFd / 64)
        .filter(|index| GUARDED[*index as usize].load(Ordering::Relaxed) != 0)
        .flat_map(|index| index * 64..(index + 1) * 64)
        .filter(|fd| is_guarded(*fd))
}

/// Guards a descriptor that is never closed.
pub fn guard(fd: RawFd) {
    if let Some((word, bit)) = place(fd) {
        word.fetch_or(bit, Ordering::Relaxed);
    }
}

/// A guarded descriptor.
#[derive(Debug)]
pub struct Private(Option<OwnedFd>, RawFd);

impl Private {
    /// Guards a descriptor, at a high number if there is one.
    #[must_use]
    pub fn new(fd: OwnedFd) -> Self {
        let fd = ipc::client::move_up(fd, crate::process::floor());
        let number = fd.as_raw_fd();
        guard(number);
        Self(Some(fd), number)
    }

    /// Its number.
    #[inline]
    #[must_use]
    pub fn number(&self) -> RawFd {
        self.1
    }
}

impl AsFd for Private {
    fn as_fd(&self) -> BorrowedFd<'_> {
        crate::stream::borrow(self.1)
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // First the guard: to close a guarded descriptor is refused.
        if let Some((word, bit)) = place(self.1) {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
        drop(self.0.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_is_guarded_as_long_as_it_is_there() {
        let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC);
        let own = Private::new(event.expect("an event counter"));
        let number = own.number();
        assert!(is_guarded(number));
        assert!(guarded().any(|fd| fd == number));
        drop(own);
        assert!(!is_guarded(number));
        assert!(!is_guarded(-1) && !is_guarded(RawFd::MAX));
    }
}
