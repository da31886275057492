// SPDX-License-Identifier: Apache-2.0
//! What a flush says where stores were lost, whatever the back end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;

/// A window whose stores are lost when the test says so. Its flushes have nothing to say themselves.
#[derive(Debug, Default)]
struct Lossy {
    faults: AtomicU64,
    lost: AtomicBool,
    /// Faults that come while a flush waits.
    meanwhile: AtomicU64,
}

impl Lossy {
    fn lose(&self) {
        self.faults.fetch_add(1, Ordering::Release);
    }
}

impl WindowAccess for Lossy {
    fn first(&self) -> u64 {
        0
    }

    fn bytes(&self) -> u64 {
        4096
    }

    fn rights(&self) -> Rights {
        Rights::Write
    }

    fn mapped(&self) -> Option<*mut u8> {
        None
    }

    fn coherent(&self) -> bool {
        false
    }

    fn store(&self, _: usize, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn store_line(&self, _: usize, _: &[u8; 64]) -> Result<()> {
        Ok(())
    }

    fn store64(&self, _: usize, _: u64) -> Result<()> {
        Ok(())
    }

    fn fence(&self) {}

    fn signal(&self) {}

    fn load(&self, _: usize, _: &mut [u8], _: Deadline) -> Result<()> {
        Ok(())
    }

    fn flush(&self, _: Flush, _: Deadline) -> Result<()> {
        let more = self.meanwhile.swap(0, Ordering::AcqRel);
        self.faults.fetch_add(more, Ordering::Release);
        Ok(())
    }

    fn faults(&self) -> u64 {
        self.faults.load(Ordering::Acquire)
    }

    fn state(&self) -> Result<()> {
        match self.lost.load(Ordering::Acquire) {
            true => Err(Error::PeerLost),
            false => Ok(()),
        }
    }
}

fn window() -> (Arc<Lossy>, Window) {
    let access = Arc::new(Lossy::default());
    (access.clone(), Window::new(access))
}

fn is_lost(result: &Result<()>) -> bool {
    matches!(result, Err(Error::PeerLost))
}

#[test]
fn a_flush_tells_what_was_lost_since_the_one_before_and_once() {
    let (access, window) = window();
    let delivered = || window.flush(Flush::Delivered, None);
    assert!(delivered().is_ok());
    for before in [true, false] {
        // Known before the flush, or only by it.
        match before {
            true => access.lose(),
            false => access.meanwhile.store(1, Ordering::Release),
        }
        assert!(is_lost(&delivered()), "before the flush: {before}");
        assert!(delivered().is_ok(), "it was told: {before}");
    }
}

#[test]
fn a_window_that_is_lost_flushes_nothing_any_more() {
    let (access, window) = window();
    access.lose();
    access.lost.store(true, Ordering::Release);
    for _ in 0..3 {
        assert!(is_lost(&window.flush(Flush::Delivered, None)));
    }
    assert!(window.flush(Flush::Local, None).is_ok());
}

#[test]
fn each_of_two_flushes_at_once_tells_a_loss() {
    let (access, window) = window();
    let told = window.told();
    access.lose();
    assert!(is_lost(&window.flush(Flush::Delivered, None)));
    // One that had begun before.
    assert!(is_lost(&window.arrived(told)));
}
