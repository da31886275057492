// SPDX-License-Identifier: Apache-2.0
//! What the rack asks of hardware: clocks, and values on pins.

use std::path::Path;

use ipnuma_rtl::{
    Error, NarrowSwitch, NetSpeed, NetWord, Nic, NicInputs, NicOutputs, PortSwitch, Switch,
    SwitchInputs, SwitchOutputs, WideSwitch,
};

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

    /// Whether something is on its way from one clock to the other; a model that cannot tell says so.
    fn crossing(&mut self) -> bool {
        true
    }

    /// Period of the PCIe side's clock.
    fn pcie_period(&self) -> Picoseconds {
        PCIE_PERIOD
    }

    /// The word between frames.
    fn idle(&self) -> NetWord {
        self.speed().unwrap_or(NetSpeed::TenGig).idle()
    }
}

/// Ports of a switch as most are.
pub const PORTS: usize = Switch::PORTS;
/// Ports of a wide switch.
pub const WIDE_PORTS: usize = WideSwitch::PORTS;
/// Ports of a switch between two cables.
pub const NARROW_PORTS: usize = NarrowSwitch::PORTS;

/// A switch with its `N` ports and its host side, clock edge by clock edge.
pub trait SwitchModel<const N: usize = PORTS> {
    /// Pins to write before [`SwitchModel::settle`].
    fn inputs(&mut self) -> &mut SwitchInputs<N>;
    /// The outputs before the coming edge.
    fn settle(&mut self) -> Result<SwitchOutputs<N>, Error>;
    /// One edge of all clocks; the outputs after it.
    fn edge(&mut self) -> Result<SwitchOutputs<N>, Error>;
    /// Puts the switch through reset: its tables are empty then.
    fn reset(&mut self) -> Result<(), Error>;
    /// Time of the coming edge, for waves and messages.
    fn set_time(&mut self, time: Picoseconds);
    /// Begins to write waves.
    fn trace(&mut self, path: &Path) -> Result<(), Error>;
    /// Ends the waves.
    fn trace_close(&mut self);
    /// Line rate of all ports.
    fn speed(&self) -> NetSpeed;
}

/// Where the hardware of a rack comes from.
pub trait Hardware {
    /// A NIC.
    fn nic(&self, speed: NetSpeed) -> Result<Box<dyn NicModel>, crate::Error>;
    /// A switch.
    fn switch(&self, speed: NetSpeed) -> Result<Box<dyn SwitchModel>, crate::Error>;

    /// A conventional NIC, with rings of descriptors, under the pins of the IP-NUMA NIC.
    fn ring_nic(&self, speed: NetSpeed) -> Result<Box<dyn NicModel>, crate::Error> {
        let rate = match speed {
            NetSpeed::TenGig => "10g",
            NetSpeed::OneGig => "1g",
        };
        Err(crate::Error::Config(format!(
            "host.nic.kind: there is no ring NIC of {rate} in this hardware; use virtio or ipnuma"
        )))
    }

    /// A NIC whose first function is the conventional one and whose second is the IP-NUMA NIC, with one cable.
    fn shared_nic(&self, _: NetSpeed) -> Result<Box<dyn NicModel>, crate::Error> {
        Err(crate::Error::Config(
            "host.nic.kind: there is no NIC of two functions in this hardware; use ring or ipnuma"
                .to_owned(),
        ))
    }

    /// A NIC whose first function is the conventional one and whose second is the RDMA engine, with one cable; 10G.
    fn uzura_nic(&self) -> Result<Box<dyn NicModel>, crate::Error> {
        Err(crate::Error::Config(
            "host.nic.kind: there is no RDMA engine in this hardware; use ring or ipnuma"
                .to_owned(),
        ))
    }

    /// A switch with more ports.
    fn wide_switch(
        &self,
        speed: NetSpeed,
    ) -> Result<Box<dyn SwitchModel<WIDE_PORTS>>, crate::Error> {
        Ok(Box::new(WideSwitch::wide(speed)?))
    }

    /// A switch with two ports.
    fn narrow_switch(
        &self,
        speed: NetSpeed,
    ) -> Result<Box<dyn SwitchModel<NARROW_PORTS>>, crate::Error> {
        Ok(Box::new(NarrowSwitch::narrow(speed)?))
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

    fn crossing(&mut self) -> bool {
        Nic::crossing(self)
    }
}

impl<const N: usize> SwitchModel<N> for PortSwitch<N> {
    fn inputs(&mut self) -> &mut SwitchInputs<N> {
        &mut self.inputs
    }

    fn settle(&mut self) -> Result<SwitchOutputs<N>, Error> {
        PortSwitch::settle(self).copied()
    }

    fn edge(&mut self) -> Result<SwitchOutputs<N>, Error> {
        PortSwitch::edge(self).copied()
    }

    fn reset(&mut self) -> Result<(), Error> {
        PortSwitch::reset(self)
    }

    fn set_time(&mut self, time: Picoseconds) {
        PortSwitch::set_time(self, time.0);
    }

    fn trace(&mut self, path: &Path) -> Result<(), Error> {
        PortSwitch::trace(self, path)
    }

    fn trace_close(&mut self) {
        PortSwitch::trace_close(self);
    }

    fn speed(&self) -> NetSpeed {
        PortSwitch::speed(self)
    }
}

/// The bus meter in a NIC's place: the PCIe side only.
pub struct Meter {
    card: Nic,
    period: Picoseconds,
}

impl Meter {
    /// A meter whose 64-bit stream has this clock.
    pub fn new(period: Picoseconds) -> Result<Self, Error> {
        Ok(Self {
            card: Nic::bus_meter()?,
            period,
        })
    }
}

impl NicModel for Meter {
    fn inputs(&mut self) -> &mut NicInputs {
        &mut self.card.inputs
    }

    fn settle(&mut self) -> Result<NicOutputs, Error> {
        self.card.settle().copied()
    }

    fn edge(&mut self, pcie: bool, net: bool) -> Result<NicOutputs, Error> {
        self.card.edge(pcie, net).copied()
    }

    fn reset(&mut self) -> Result<(), Error> {
        self.card.reset()
    }

    fn set_time(&mut self, time: Picoseconds) {
        self.card.set_time(time.0);
    }

    fn trace(&mut self, path: &Path) -> Result<(), Error> {
        self.card.trace(path)
    }

    fn trace_close(&mut self) {
        self.card.trace_close();
    }

    fn speed(&self) -> Option<NetSpeed> {
        None
    }

    fn pcie_period(&self) -> Picoseconds {
        self.period
    }
}
