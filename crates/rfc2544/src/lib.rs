// SPDX-License-Identifier: Apache-2.0
//! RFC 2544 for a switch: procedures over an [`Instrument`], and the instrument in RTL.
//!
//! A procedure sends trials and reads what arrived; what it finds are plain numbers in the
//! instrument's own units, which [`Line`] turns into seconds exactly.
//!
//! ```
//! use rfc2544::fake::Fake;
//! use rfc2544::{Family, Instrument, Load, Traffic, latency, throughput};
//! # fn main() -> Result<(), rfc2544::Error> {
//! let mut instrument = Fake::default();
//! let traffic = Traffic::ring(&instrument, 4, Family::V4, 64, 1_000);
//! let found = throughput(&mut instrument, &traffic)?;
//! assert_eq!(found.load, Load::FULL);
//! assert_eq!(found.frames_per_second.floor(), 1_488_095.0);
//! let found = latency(&mut instrument, &traffic, found.load)?;
//! assert_eq!(found.min, found.max);
//! # Ok(())
//! # }
//! ```
//!
//! Latency is RFC 1242's for devices that forward bits as they come: from the first bit in to the
//! first bit out, the first bit being that of the preamble.
//!
//! Trials are counted in frames, not in seconds: RFC 2544 asks for 60 s a trial, which simulated
//! hardware can't reach. System recovery and reset are not here: nothing in the switch recovers
//! slowly. How the tester is built is not here either, see `rtl/tester`.

#![forbid(unsafe_code)]

mod error;
pub mod fake;
mod instrument;
mod line;
mod procedures;
mod registers;
mod rtl;

pub use error::Error;
pub use instrument::{
    Counts, Destinations, Drops, Family, Histogram, Instrument, Stream, host4, host6,
};
pub use line::{Line, Load, Spacing};
pub use procedures::{
    BackToBack, Congestion, Latency, LossRate, LossStep, Share, Sweep, Throughput, Traffic, Trial,
    back_to_back, congestion, latency, loss_rate, sweep, throughput,
};
pub use rtl::{Loaded, SWEEP_FROM, SwitchRig};

/// Frame sizes of RFC 2544 for Ethernet, and one jumbo frame; with FCS.
pub const FRAME_SIZES: [usize; 8] = [64, 128, 256, 512, 1024, 1280, 1518, 9216];
