// SPDX-License-Identifier: Apache-2.0
//! The parallel TCP offload engine as a model: its receive side event by event, senders, and the document's evaluation, all
//! in virtual time.
//!
//! ```
//! use offload::{Mix, Policy, Scenario};
//!
//! let scenario = Scenario {
//!     policy: Policy::DEFAULT,
//!     mix: Mix::TABLE_3,
//!     window: 128 * 1024,
//!     duration_us: 10_000,
//!     ..Scenario::default()
//! };
//! let outcome = scenario.run()?;
//! assert!(outcome.ceiling_percent > 99.0);
//! # Ok::<(), offload::Error>(())
//! ```
//!
//! [`engine`] has buffer, distributor, analyzers and controller, [`commit`] the policies, [`sender`] a NewReno sender with
//! SACK, [`run`] one connection in bulk. With real packets: [`node`] is the engine with a connection behind it, [`client`] the
//! sender, [`peer`] smoltcp, [`link`] a cable with faults between them. Not done here: the engine's transmit side beyond
//! acknowledgements, more than one connection at a time, and anything in RTL.

#![forbid(unsafe_code)]

pub mod client;
pub mod commit;
pub mod endpoint;
pub mod engine;
mod error;
pub mod frame;
pub mod link;
pub mod mix;
pub mod node;
pub mod peer;
pub mod policy;
pub mod receive;
pub mod run;
pub mod sender;
mod time;

pub use engine::Hardware;
pub use error::Error;
pub use mix::Mix;
pub use policy::Policy;
pub use run::{Outcome, Scenario};
pub use time::Picoseconds;
