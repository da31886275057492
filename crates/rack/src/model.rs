// SPDX-License-Identifier: Apache-2.0
//! What the rack asks of a NIC: two clocks, and values on pins.

use std::path::Path;

use ipnuma_rtl::{Error, NetSpeed, NetWord, Nic, NicInputs, NicOutputs};

use crate::time::Picoseconds;

/// Period of the PCIe side's clock.
pub const PCIE_PERIOD: Picoseconds = Picoseconds(4_000);

/// A NIC with a PCIe side and, if it has one, a network side, clock edge by clock edge.
pub trait NicModel {
    /// Pins to write before [`NicModel::settle`].
    fn inputs(&mut self) -> &mut NicInputs;
    /// The outputs before the coming edge.
    fn settle(&mut self) -> Result<NicOutputs, Error>;
    /// One edge of either clock or both; the outputs after it.
    fn edge(&mut self, pcie: bool, net: bool) -> Result<NicOutputs, Error>;
    /// Puts the NIC through reset.
    fn reset(&mut self) -> Result<(), Error>;
    /// Time of the coming edge, for waves and messages.
    fn set_time(&mut self, time: Picoseconds);
    /// Begins to write waves.
    fn trace(&mut self, path: &Path) -> Result<(), Error>;
    /// Ends the waves.
    fn trace_close(&mut self);
    /// Line rate; none for a card without a network.
    fn speed(&self) -> Option<NetSpeed>;

    /// The word between frames.
    fn idle(&self) -> NetWord {
        self.speed().unwrap_or(NetSpeed::TenGig).idle()
    }
}

impl NicModel for Nic {
    fn inputs(&mut self) -> &mut NicInputs {
        &mut self.inputs
    }

    fn settle(&mut self) -> Result<NicOutputs, Error> {
        Nic::settle(self).copied()
    }

    fn edge(&mut self, pcie: bool, net: bool) -> Result<NicOutputs, Error> {
        Nic::edge(self, pcie, net).copied()
    }

    fn reset(&mut self) -> Result<(), Error> {
        Nic::reset(self)
    }

    fn set_time(&mut self, time: Picoseconds) {
        Nic::set_time(self, time.0);
    }

    fn trace(&mut self, path: &Path) -> Result<(), Error> {
        Nic::trace(self, path)
    }

    fn trace_close(&mut self) {
        Nic::trace_close(self);
    }

    fn speed(&self) -> Option<NetSpeed> {
        Some(Nic::speed(self))
    }
}
