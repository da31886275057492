// SPDX-License-Identifier: Apache-2.0
//! The procedures, one file for each kind of question.

mod congestion;
mod latency;
mod rates;
mod trial;

pub use congestion::{Congestion, Share, congestion};
pub use latency::{Latency, Sweep, latency, sweep};
pub use rates::{BackToBack, LossRate, LossStep, Throughput, back_to_back, loss_rate, throughput};
pub use trial::{Traffic, Trial};
