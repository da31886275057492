// SPDX-License-Identifier: Apache-2.0
//! What can go wrong, in one sentence each.

/// Errors of a test.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The RTL failed.
    #[error(transparent)]
    Rtl(#[from] ipnuma_rtl::Error),
    /// A route was refused.
    #[error(transparent)]
    Routes(#[from] fib::Error),
    /// The device did what no test allows.
    #[error(
        "frames of port {from} at port {to}: {count} {what}; the device under test is at fault"
    )]
    Damage {
        /// Sender.
        from: usize,
        /// Receiver.
        to: usize,
        /// How many.
        count: u64,
        /// What is wrong with them.
        what: &'static str,
    },
    /// Frames arrived that nobody sent like that.
    #[error("port {port} received {count} {what}; the device under test is at fault")]
    Garbage {
        /// Receiver.
        port: usize,
        /// How many.
        count: u64,
        /// What they are.
        what: &'static str,
    },
    /// More arrived than was sent.
    #[error("port {from} sent {sent} frames and {received} arrived; the instrument is at fault")]
    Surplus {
        /// Sender.
        from: usize,
        /// Frames sent.
        sent: u64,
        /// Frames received.
        received: u64,
    },
    /// Not one frame came through, so there is nothing to measure.
    #[error("of {sent} frames of {size} bytes from port {from} none arrived; is there a route?")]
    Nothing {
        /// Sender.
        from: usize,
        /// Frames sent.
        sent: u64,
        /// Their size.
        size: usize,
    },
    /// The device does not come to rest.
    #[error("after {cycles} cycles {what} still has something to do; it hangs")]
    Stuck {
        /// How long was waited.
        cycles: u64,
        /// Who.
        what: &'static str,
    },
    /// A stream that the instrument can't send.
    #[error("{0}")]
    Stream(String),
}
