// SPDX-License-Identifier: Apache-2.0
//! What code is taken to cost, in a guest of the virtual rack: it takes no simulated time there.
//!
//! `IPNUMA_REQUEST_NS` has the time from a request to its answer. The processor is busy for so long before the first piece
//! that a program sends after it has received something; with the conventional NIC the driver charges the same.
//!
//! `IPNUMA_CALLS_NS` has what this library's own calls take: sending is charged before the data leaves, all others when
//! they return, so that nothing of it hides in the time that a call waits.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use host::backend::rack::{CallCosts, Nic, charge};

use crate::private::Private;

/// 0: nothing is charged, as on every real machine.
static REQUEST_NS: AtomicU32 = AtomicU32::new(0);
/// Whether [`CALLS`] has something.
static CHARGES_CALLS: AtomicBool = AtomicBool::new(false);
static CALLS: OnceLock<CallCosts> = OnceLock::new();
static NIC: OnceLock<Private> = OnceLock::new();

/// From now on each answer costs this much, and so do the calls.
///
/// # Errors
/// If there is no such NIC.
pub(crate) fn configure(device: &Path, request_ns: u32, calls: CallCosts) -> host::Result<()> {
    if request_ns > 0 || calls.any() {
        let nic = OwnedFd::from(Nic::open(device)?);
        // One that cannot is not to be found out by the first answer.
        charge(nic.as_fd(), 0)?;
        NIC.get_or_init(|| Private::new(nic));
        REQUEST_NS.store(request_ns, Ordering::Relaxed);
        CALLS.get_or_init(|| calls);
        CHARGES_CALLS.store(calls.any(), Ordering::Relaxed);
    }
    Ok(())
}

/// What a call has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Sending was begun.
    Send,
    /// So many bytes are about to be sent.
    SendBytes(usize),
    /// Receiving has given so many bytes, or none.
    Receive(usize),
    EpollWait,
    /// poll, select and the like.
    Poll,
}

impl Work {
    fn ns(self, costs: &CallCosts) -> u32 {
        let copying = |per_kib: u32, bytes: usize| {
            let ns = u64::from(per_kib)
                .saturating_mul(bytes as u64)
                .div_ceil(1024);
            u32::try_from(ns).unwrap_or(u32::MAX)
        };
        match self {
            Self::Send => costs.send,
            Self::SendBytes(bytes) => copying(costs.send_kib, bytes),
            Self::Receive(bytes) => costs.recv.saturating_add(copying(costs.recv_kib, bytes)),
            Self::EpollWait => costs.epoll_wait,
            Self::Poll => costs.poll,
        }
    }
}

/// A call of this library does that.
#[inline]
pub(crate) fn call(work: Work) {
    if CHARGES_CALLS.load(Ordering::Relaxed) {
        charge_call(work);
    }
}

#[cold]
fn charge_call(does: Work) {
    let ns = CALLS.get().map_or(0, |costs| does.ns(costs));
    if ns > 0 {
        work(ns, "IPNUMA_CALLS_NS");
    }
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
            work(ns, "IPNUMA_REQUEST_NS");
        }
    }
}

#[cold]
fn work(ns: u32, why: &str) {
    let charged = NIC.get().map(|nic| charge(nic.as_fd(), ns));
    // A figure without this cost would be wrong, and nobody would see it.
    assert!(
        matches!(charged, Some(Ok(()))),
        "{why}: the NIC of this guest does not take {ns} ns: {charged:?}"
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

    #[test]
    fn a_call_costs_what_its_kind_does_and_its_bytes() {
        let costs = CallCosts {
            send: 10,
            send_kib: 100,
            recv: 1_000,
            recv_kib: 2_000,
            epoll_wait: 7,
            poll: 8,
        };
        for (work, ns) in [
            (Work::Send, 10),
            (Work::SendBytes(0), 0),
            (Work::SendBytes(1), 1),
            (Work::SendBytes(1024), 100),
            (Work::Receive(0), 1_000),
            (Work::Receive(512), 2_000),
            (Work::EpollWait, 7),
            (Work::Poll, 8),
        ] {
            assert_eq!(work.ns(&costs), ns, "{work:?}");
        }
        assert_eq!(
            Work::SendBytes(usize::MAX >> 8).ns(&CallCosts {
                send_kib: 1 << 30,
                ..costs
            }),
            u32::MAX
        );
        // On a machine that is none of the rack's.
        call(Work::Send);
    }
}
