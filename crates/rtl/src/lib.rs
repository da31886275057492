// SPDX-License-Identifier: Apache-2.0
//! Verilated models of the project's RTL behind a safe Rust interface.
//!
//! Each top in the list of `build.rs` becomes a struct with a setter for every input and a getter
//! for every port; ports wider than 64 bits are arrays of 64-bit lanes. Nothing moves until [`Model::eval`]; a clock is an input like any other.
//!
//! ```
//! use ipnuma_rtl::{Model, SelfTest};
//! # fn main() -> Result<(), ipnuma_rtl::Error> {
//! let mut model = SelfTest::new();
//! model.set_rst_i(true);
//! for add in [0, 5, 7] {
//!     model.set_clk_i(false);
//!     model.set_add_i(add);
//!     model.eval()?;
//!     model.set_clk_i(true);
//!     model.eval()?;
//!     model.set_rst_i(false);
//! }
//! assert_eq!(model.sum_o(), 12);
//! # Ok(())
//! # }
//! ```
//!
//! [`Nic`] is the two-clock interface of the IP-NUMA NIC on top of it, [`Switch`] that of the FIBNIC
//! switch, and [`Rig`] the switch between the ports of an RFC 2544 instrument.
//!
//! An RTL assertion that fails, `$error` and `$finish` end the model, not the process: the
//! evaluation returns [`Error::Rtl`] with the simulator's message, and so does every later one.
//!
//! Not done here: time (the caller's calendar), checkpoints, several threads in one model.

mod nic;
mod rig;
mod switch;
mod sys;

use std::path::{Path, PathBuf};

pub use nic::{NetSpeed, NetWord, Nic, NicInputs, NicOutputs, TlpBeat};
pub use rig::Rig;
pub use switch::{
    HostBeat, HostOut, NarrowSwitch, PortSwitch, Switch, SwitchInputs, SwitchOutputs, SwitchSize,
    SwitchWrite, WideSwitch,
};
pub use sys::{Handle, PortInfo};

mod models {
    include!(concat!(env!("OUT_DIR"), "/models.rs"));
}
pub use models::*;

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
    /// The model was left out of this build because its sources were not there.
    #[error("model {model} is not in this build, see the warnings of the ipnuma-rtl build")]
    NotBuilt {
        /// Name of the model.
        model: &'static str,
    },
}

/// What all models have in common.
pub trait Model {
    /// The instance.
    fn handle(&self) -> &Handle;
    /// The instance.
    fn handle_mut(&mut self) -> &mut Handle;

    /// Evaluates the model with its present inputs: outputs settle, clock edges take effect.
    #[inline]
    fn eval(&mut self) -> Result<(), Error> {
        self.handle_mut().eval()
    }

    /// Whether [`Model::eval_inputs`] and [`Model::eval_edge`] can take the place of [`Model::eval`], from the second
    /// evaluation on and while no waves are written.
    #[inline]
    fn has_steps(&self) -> bool {
        self.handle().has_steps()
    }

    /// Lets inputs take effect that are no clocks.
    #[inline]
    fn eval_inputs(&mut self) -> Result<(), Error> {
        self.handle_mut().eval_inputs()
    }

    /// Lets the clocks that are high have a rising edge, whatever they were before. No other input may have changed since
    /// [`Model::eval_inputs`].
    #[inline]
    fn eval_edge(&mut self) -> Result<(), Error> {
        self.handle_mut().eval_edge()
    }

    /// Whether something is on its way from one clock to another, or nobody knows.
    #[inline]
    fn crossing(&self) -> bool {
        self.handle().crossing()
    }

    /// Sets the time that the RTL's messages carry, in picoseconds.
    #[inline]
    fn set_time(&mut self, ps: u64) {
        self.handle_mut().set_time(ps);
    }

    /// Begins to write waves in FST format; a trace that was open is closed.
    fn trace(&mut self, path: &Path) -> Result<(), Error> {
        self.handle_mut().trace_open(path)
    }

    /// Writes the present values at a time in picoseconds, later than the one before; does nothing
    /// when no trace is open.
    #[inline]
    fn dump(&mut self, ps: u64) {
        self.handle_mut().trace_dump(ps);
    }

    /// Ends the trace and completes its file.
    fn trace_close(&mut self) {
        self.handle_mut().trace_close();
    }
}
