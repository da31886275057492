// SPDX-License-Identifier: Apache-2.0
//! The rig of RFC 2544: the switch with a port of the instrument at each of its ports, in one clock.

use crate::{Error, Handle, NetSpeed};

/// The Verilated rig, `rfc2544_10g` or `rfc2544_1g`; the switch's tables are as large as those of
/// `fib::Config::default`.
///
/// There are no pins: frames come from the instrument and go to it, both are driven by registers
/// (`docs/rfc2544.md`). Frames for the switch's host are taken and forgotten.
///
/// ```no_run
/// use ipnuma_rtl::{NetSpeed, Rig};
/// # fn main() -> Result<(), ipnuma_rtl::Error> {
/// let mut rig = Rig::new(NetSpeed::OneGig)?;
/// assert_eq!(&rig.register(0, 0)?.to_be_bytes(), b"RFC2544\0");
/// # Ok(())
/// # }
/// ```
pub struct Rig {
    pins: Pins,
    speed: NetSpeed,
    cycles: u64,
}

impl Rig {
    /// Ports of the switch and of the instrument.
    pub const PORTS: usize = 4;
    /// In the place of a port: the write goes to all of them.
    pub const ALL_PORTS: usize = 15;

    /// Creates a rig, out of reset.
    pub fn new(speed: NetSpeed) -> Result<Self, Error> {
        let model = match speed {
            NetSpeed::TenGig => "rig_10g",
            NetSpeed::OneGig => "rig_1g",
        };
        Self::of(speed, model)
    }

    /// Creates a rig whose switch has the lookup of the dissertation, `fib::Config::DISSERTATION`.
    pub fn dissertation(speed: NetSpeed) -> Result<Self, Error> {
        let model = match speed {
            NetSpeed::TenGig => "rig_10g_sram22",
            NetSpeed::OneGig => "rig_1g_sram22",
        };
        Self::of(speed, model)
    }

    fn of(speed: NetSpeed, model: &str) -> Result<Self, Error> {
        let mut rig = Self {
            pins: Pins::of(model)?,
            speed,
            cycles: 0,
        };
        const EDGES: usize = 8;
        // A port of the switch opens when both of its sides have been cleared (port_reset).
        const OPENING: usize = 64;
        rig.pins.word(None);
        rig.pins.bus(false, 0, 0);
        rig.pins.counter_index(0);
        rig.pins.host_ready();
        rig.pins.reset(true);
        for _ in 0..EDGES {
            rig.step()?;
        }
        rig.pins.reset(false);
        for _ in 0..OPENING {
            rig.step()?;
        }
        rig.settle()?;
        Ok(rig)
    }

    /// Line rate.
    pub fn speed(&self) -> NetSpeed {
        self.speed
    }

    /// Clock cycles so far.
    pub fn cycles(&self) -> u64 {
        self.cycles
    }

    /// One cycle.
    pub fn step(&mut self) -> Result<(), Error> {
        self.settle()?;
        self.edge()
    }

    fn edge(&mut self) -> Result<(), Error> {
        self.pins.clock(true);
        self.cycles += 1;
        self.pins.model.eval()
    }

    fn settle(&mut self) -> Result<(), Error> {
        self.pins.clock(false);
        self.pins.model.eval()
    }

    /// Whether something may still happen without a new write.
    pub fn busy(&self) -> bool {
        self.pins.busy()
    }

    /// Writes a register of a port of the instrument, or of all.
    pub fn set_register(&mut self, port: usize, register: u16, value: u64) -> Result<(), Error> {
        self.pins.bus(true, bus_address(port, register), value);
        self.step()?;
        self.pins.bus(false, 0, 0);
        Ok(())
    }

    /// Reads a register of a port of the instrument.
    pub fn register(&mut self, port: usize, register: u16) -> Result<u64, Error> {
        self.pins.bus(false, bus_address(port, register), 0);
        self.step()?;
        Ok(self.pins.bus_data())
    }

    /// Writes a word of the switch's memories, and waits until it is taken.
    pub fn write(&mut self, memory: u8, address: u32, data: [u64; 3]) -> Result<(), Error> {
        /// Longer than any drain of the lookups.
        const PATIENCE: usize = 10_000;
        self.pins.word(Some((memory, address, data)));
        for _ in 0..PATIENCE {
            self.settle()?;
            let taken = self.pins.word_ready();
            self.edge()?;
            if taken {
                self.pins.word(None);
                return Ok(());
            }
        }
        Err(Error::Rtl {
            model: self.pins.model.name(),
            message: format!("memory {memory} takes no word for {PATIENCE} cycles"),
        })
    }

    /// Reads a counter of the switch.
    pub fn counter(&mut self, index: u16) -> Result<u32, Error> {
        self.pins.counter_index(index);
        self.step()?;
        self.step()?;
        Ok(self.pins.counter())
    }
}

fn bus_address(port: usize, register: u16) -> u16 {
    const REGISTER_BITS: usize = 12;
    (port << REGISTER_BITS) as u16 | register
}

ports!(Ports {
    clk_i,
    rst_i,
    t_wr_i,
    t_addr_i,
    t_wdata_i,
    t_rdata_o,
    wr_valid_i,
    wr_mem_i,
    wr_addr_i,
    wr_data_i,
    wr_ready_o,
    cnt_idx_i,
    cnt_o,
    s_host_tvalid_i,
    m_host_tready_i,
    busy_o,
});

/// A model and its ports.
struct Pins {
    model: Handle,
    ports: Ports,
}

impl Pins {
    fn of(model: &str) -> Result<Self, Error> {
        let model = Handle::new(model)?;
        Ok(Self {
            ports: Ports::of(&model)?,
            model,
        })
    }

    fn clock(&mut self, high: bool) {
        self.model.set(self.ports.clk_i, high);
    }

    fn reset(&mut self, on: bool) {
        self.model.set(self.ports.rst_i, on);
    }

    fn bus(&mut self, write: bool, address: u16, data: u64) {
        self.model.set(self.ports.t_wr_i, write);
        self.model.set(self.ports.t_addr_i, address);
        self.model.set(self.ports.t_wdata_i, data);
    }

    fn bus_data(&self) -> u64 {
        self.model.get(self.ports.t_rdata_o)
    }

    fn word(&mut self, word: Option<(u8, u32, [u64; 3])>) {
        let (memory, address, data) = word.unwrap_or_default();
        self.model.set(self.ports.wr_valid_i, word.is_some());
        self.model.set(self.ports.wr_mem_i, memory);
        self.model.set(self.ports.wr_addr_i, address);
        self.model.set_wide(self.ports.wr_data_i, data);
    }

    fn word_ready(&self) -> bool {
        self.model.bit(self.ports.wr_ready_o)
    }

    fn counter_index(&mut self, index: u16) {
        self.model.set(self.ports.cnt_idx_i, index);
    }

    fn counter(&self) -> u32 {
        self.model.get(self.ports.cnt_o) as u32
    }

    fn host_ready(&mut self) {
        self.model.set(self.ports.s_host_tvalid_i, false);
        self.model.set(self.ports.m_host_tready_i, true);
    }

    fn busy(&self) -> bool {
        self.model.bit(self.ports.busy_o)
    }
}
