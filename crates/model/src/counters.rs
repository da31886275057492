// SPDX-License-Identifier: Apache-2.0
//! The counters of both sides, by the names of the `wire` crate.

use wire::{NetCounter, PcieCounter};

/// All counters of a NIC; each wraps at 32 bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters {
    pcie: [u32; PcieCounter::ALL.len()],
    net: [u32; NetCounter::ALL.len()],
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            pcie: [0; PcieCounter::ALL.len()],
            net: [0; NetCounter::ALL.len()],
        }
    }
}

impl Counters {
    pub(crate) fn count_pcie(&mut self, counter: PcieCounter) {
        let value = &mut self.pcie[counter as usize];
        *value = value.wrapping_add(1);
    }

    pub(crate) fn count_net(&mut self, counter: NetCounter) {
        let value = &mut self.net[counter as usize];
        *value = value.wrapping_add(1);
    }

    /// A counter of the PCIe side.
    pub fn pcie(&self, counter: PcieCounter) -> u32 {
        self.pcie[counter as usize]
    }

    /// A counter of the network side.
    pub fn net(&self, counter: NetCounter) -> u32 {
        self.net[counter as usize]
    }

    /// The window of the PCIe side as BAR 0 shows it.
    pub fn pcie_window(&self) -> &[u32] {
        &self.pcie
    }

    /// The window of the network side as BAR 0 shows it.
    pub fn net_window(&self) -> &[u32] {
        &self.net
    }
}
