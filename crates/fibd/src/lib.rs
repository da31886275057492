// SPDX-License-Identifier: Apache-2.0
//! The agent that keeps the tables of a FIBNIC switch equal to what the kernel forwards by, so that unmodified routing
//! daemons run it.
//!
//! [`State`] takes messages of rtnetlink and of FPM and says where the packets to each prefix are to go; [`Tables`] brings
//! that into the memories of a switch. Neither needs privileges, time or sockets:
//!
//! ```
//! use fibd::message::{self, Messages};
//! use fibd::{Config, Source, State, Tables, sink};
//!
//! let config = Config { ports: vec!["sw0".into()], ..Config::default() };
//! let mut state = State::new(config);
//! let mut tables = Tables::new(fib::Config::default(), |image| Ok(Box::new(sink::Memory::like(image))))?;
//! # let bytes_of_the_kernel: &[u8] = &[];
//! for bytes in Messages(bytes_of_the_kernel) {
//!     state.take(message::parse(bytes?)?, Source::Kernel);
//! }
//! fibd::settle(&mut state, &mut tables)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `docs/fibd.md` says how it is used. It does not follow policy rules or more than one table, and spreads several next hops by
//! prefix, not by flow.

#![forbid(unsafe_code)]

pub mod audit;
pub mod command;
pub mod control;
pub mod counters;
pub mod daemon;
pub mod device;
pub mod entry;
mod expiry;
mod follow;
pub mod fpm;
mod identity;
mod ignored;
pub mod message;
mod net;
pub mod notice;
mod objects;
mod paths;
mod routes;
mod rules;
pub mod sink;
pub mod socket;
mod sourced;
mod state;
mod tables;
mod terms;
mod told;
mod unsettled;

pub use net::{Net, Table};
pub use state::{Changes, Config, Source, State, Target, is_frr};
pub use tables::{DISCARD, Error, HOST, Tables};
pub use terms::{Preference, Terms};
pub use told::{Outcome, Told};

/// How often what has changed may make other prefixes be set again, in one go.
const PASSES: u32 = 16;

/// Brings what has changed into the tables.
///
/// # Errors
/// If the switch does not take it.
pub fn settle(state: &mut State, tables: &mut Tables) -> Result<(), Error> {
    let mut counters = std::mem::take(&mut state.counters);
    let result = bring(state, tables, &mut counters);
    state.counters = counters;
    result
}

fn bring(
    state: &mut State,
    tables: &mut Tables,
    counters: &mut counters::Counters,
) -> Result<(), Error> {
    let changes = state.changes();
    for (port, address) in changes.neighbours {
        tables.set_mac(port, address, state.mac(port, address), counters)?;
    }
    let mut nets = changes.nets;
    // What is set again may free or need room once more; what is left then waits for the next change.
    for _ in 0..PASSES {
        if nets.is_empty() {
            break;
        }
        // In this order each address is answered as before or as after all of it, never by what is only there meanwhile:
        // longer prefixes are set before those around them, and what is to take over is there before anything is taken out.
        let mac = |port, address| state.mac(port, address);
        for net in nets.iter().rev() {
            if let Some(target) = state.desired(*net) {
                tables.set(*net, Some(target), mac, counters)?;
            }
        }
        for net in nets {
            if state.desired(net).is_none() {
                tables.set(net, None, mac, counters)?;
            }
        }
        nets = tables.again();
        nets.sort_unstable();
    }
    tables.tidy(counters)
}
