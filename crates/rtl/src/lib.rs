// SPDX-License-Identifier: Apache-2.0
//! Verilated models of the project's RTL behind a safe Rust interface.
//!
//! A model is a shared library that `crates/verilate` builds once for all profiles and processes; it is loaded when its
//! first instance is created. A [`Handle`] is one instance: its ports have names, ports wider than 64 bits have lanes of 64
//! bits. Nothing moves until [`Handle::eval`]; a clock is an input like any other.
//!
//! ```
//! use ipnuma_rtl::{Handle, ports};
//! ports!(Ports { clk_i, rst_i, add_i, sum_o });
//! # fn main() -> Result<(), ipnuma_rtl::Error> {
//! let mut model = Handle::new("self_test")?;
//! let ports = Ports::of(&model)?;
//! model.set(ports.rst_i, true);
//! for value in [0_u64, 5, 7] {
//!     model.set(ports.clk_i, false);
//!     model.set(ports.add_i, value);
//!     model.eval()?;
//!     model.set(ports.clk_i, true);
//!     model.eval()?;
//!     model.set(ports.rst_i, false);
//! }
//! assert_eq!(model.get(ports.sum_o), 12);
//! # Ok(())
//! # }
//! ```
//!
//! [`Nic`] is the two-clock interface of the IP-NUMA NIC on top of it, [`Switch`] that of the FIBNIC
//! switch, [`Toe`] that of the TCP offload engine, [`Uzura`] the RDMA engine, and [`Rig`] the switch between the ports of an RFC 2544 instrument.
//!
//! An RTL assertion that fails, `$error` and `$finish` end the model, not the process: the
//! evaluation returns [`Error::Rtl`] with the simulator's message, and so does every later one.
//!
//! Not done here: time (the caller's calendar), checkpoints, several threads in one model.

/// Declares a struct of the ports of a model, each found by its name in the RTL.
///
/// ```
/// use ipnuma_rtl::{Handle, ports};
/// ports!(Ports { clk_i, sum_o });
/// # fn main() -> Result<(), ipnuma_rtl::Error> {
/// let mut model = Handle::new("self_test")?;
/// let ports = Ports::of(&model)?;
/// model.set(ports.clk_i, false);
/// assert_eq!(model.get(ports.sum_o), 0);
/// # Ok(())
/// # }
/// ```
#[macro_export]
macro_rules! ports {
    ($name:ident { $($port:ident),* $(,)? }) => {
        #[derive(Clone, Copy)]
        struct $name {
            $($port: $crate::PortId),*
        }

        impl $name {
            fn of(model: &$crate::Handle) -> ::std::result::Result<Self, $crate::Error> {
                Ok(Self {
                    $($port: model.port(stringify!($port))?),*
                })
            }
        }
    };
}

mod nic;
mod rig;
mod switch;
mod sys;
mod toe;
mod uzura;

use std::path::PathBuf;

pub use nic::{BusSettings, NetSpeed, NetWord, Nic, NicInputs, NicOutputs, TlpBeat};
pub use rig::Rig;
pub use switch::{
    HostBeat, HostOut, NarrowSwitch, PortSwitch, Switch, SwitchInputs, SwitchOutputs, SwitchSize,
    SwitchWrite, WideSwitch,
};
pub use sys::{Handle, PortId, PortInfo};
pub use toe::{
    Toe, ToeCommand, ToeCommandKind, ToeCounts, ToeEvent, ToeInputs, ToeOutputs, ToeRead, ToeState,
    ToeWrite,
};
pub use uzura::{Uzura, UzuraAccess, UzuraBeat, UzuraInputs, UzuraOutputs, UzuraSpan, UzuraWord};

/// What can go wrong with a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The RTL reported an error, or the simulator did; the model cannot go on.
    #[error("model {model} failed: {message}")]
    Rtl {
        /// Name of the model.
        model: &'static str,
        /// What the simulator printed, with source, line and simulated time.
        message: String,
    },
    /// A wave file was refused.
    #[error("cannot write waves to {}: {reason}", path.display())]
    Trace {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The model cannot be built or loaded.
    #[error("there is no model {model}: {reason}")]
    NotBuilt {
        /// Name of the model.
        model: String,
        /// Why.
        reason: String,
    },
    /// The RTL has no such port; the program was made for another version of it.
    #[error("model {model} has no port {port}")]
    NoPort {
        /// Name of the model.
        model: &'static str,
        /// Name of the port.
        port: String,
    },
}
