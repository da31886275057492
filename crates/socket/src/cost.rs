// SPDX-License-Identifier: Apache-2.0
//! What a program's own work is taken to cost, in a guest of the virtual rack: code takes no simulated time there.
//!
//! `IPNUMA_REQUEST_NS` has the time from a request to its answer. The processor is busy for so long before the first piece
//! that a program sends after it has received something; with the conventional NIC the driver charges the same.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use host::backend::rack::{Nic, charge};

use crate::private::Private;

/// 0: nothing is charged, as on every real machine.
static REQUEST_NS: AtomicU32 = AtomicU32::new(0);
static NIC: OnceLock<Private> = OnceLock::new();

/// From now on each answer costs this much.
///
/// # Errors
/// If there is no such NIC.
pub(crate) fn configure(device: &Path, request_ns: u32) -> host::Result<()> {
    if request_ns > 0 {
        let nic = OwnedFd::from(Nic::open(device)?);
        NIC.get_or_init(|| Private::new(nic));
        REQUEST_NS.store(request_ns, Ordering::Relaxed);
    }
    Ok(())
}

/// Whether a connection has received a request that it has not answered.
#[derive(Debug, Default)]
pub(crate) struct Request(AtomicBool);

impl Request {
    /// Something has arrived.
    #[inline]
    pub(crate) fn received(&self) {
        self.note(REQUEST_NS.load(Ordering::Relaxed));
    }

    #[inline]
    fn note(&self, cost_ns: u32) {
        if cost_ns > 0 {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// Something is about to be sent.
    #[inline]
    pub(crate) fn answered(&self) {
        let ns = REQUEST_NS.load(Ordering::Relaxed);
        if ns > 0 && self.0.swap(false, Ordering::Relaxed) {
            work(ns);
        }
    }
}

#[cold]
fn work(ns: u32) {
    let charged = NIC.get().map(|nic| charge(nic.as_fd(), ns));
    // A figure without this cost would be wrong, and nobody would see it.
    assert!(
        matches!(charged, Some(Ok(()))),
        "IPNUMA_REQUEST_NS: the NIC of this guest does not take {ns} ns: {charged:?}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_remembered_if_it_costs_anything() {
        let request = Request::default();
        request.note(0);
        assert!(!request.0.load(Ordering::Relaxed));
        request.note(1);
        assert!(request.0.load(Ordering::Relaxed));
    }
}
