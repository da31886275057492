// SPDX-License-Identifier: Apache-2.0
//! What the project shows: the dissertation's experiments beside its figures, requests taken apart, chapter 6 and the
//! switch's measurements as tables, plots and one page of HTML.
//!
//! ```no_run
//! struct Quiet;
//! impl report::paper::Watch for Quiet {}
//!
//! let request = report::paper::Request {
//!     only: vec!["table-4.5".to_owned()],
//!     experiments: None,
//!     loops: 100,
//!     count: 20,
//!     shares: false,
//!     html: None,
//! };
//! let paper = report::paper::run(&request, &mut Quiet)?;
//! print!("{}", report::paper::brief(&paper, None));
//! # Ok::<(), report::Failure>(())
//! ```
//!
//! Not done here: arguments, printing, and anything about programs of this machine.

#![forbid(unsafe_code)]

pub mod echo;
mod error;
pub mod fitted;
pub mod memcached;
pub mod offload;
pub mod paper;
pub mod plot;
pub mod program;
pub mod request;
pub mod rfc2544;
pub mod sessions;
pub mod stream;
pub mod text;
pub mod waiting;
pub mod waterfall;

pub use error::Failure;
