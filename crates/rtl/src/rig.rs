// SPDX-License-Identifier: Apache-2.0
//! The rig of RFC 2544: the switch with a port of the instrument at each of its ports, in one clock.

use crate::{Error, Model, NetSpeed};

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
    top: Box<dyn Top>,
    speed: NetSpeed,
    cycles: u64,
}

/// The tops alike.
trait Top: Send {
    fn clock(&mut self, high: bool);
    fn reset(&mut self, on: bool);
    fn bus(&mut self, write: bool, address: u16, data: u64);
    fn bus_data(&self) -> u64;
    fn word(&mut self, word: Option<(u8, u32, [u64; 3])>);
    fn word_ready(&self) -> bool;
    fn counter_index(&mut self, index: u16);
    fn counter(&self) -> u32;
    fn host_ready(&mut self);
    fn busy(&self) -> bool;
    fn model(&mut self) -> &mut dyn Model;
}

impl Rig {
    /// Ports of the switch and of the instrument.
    pub const PORTS: usize = 4;
    /// In the place of a port: the write goes to all of them.
    pub const ALL_PORTS: usize = 15;

    /// Creates a rig, out of reset.
    pub fn new(speed: NetSpeed) -> Result<Self, Error> {
        let mut rig = Self {
            top: new_top(speed)?,
            speed,
            cycles: 0,
        };
        const EDGES: usize = 8;
        rig.top.word(None);
        rig.top.bus(false, 0, 0);
        rig.top.counter_index(0);
        rig.top.host_ready();
        rig.top.reset(true);
        for _ in 0..EDGES {
            rig.step()?;
        }
        rig.top.reset(false);
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
        self.top.clock(true);
        self.cycles += 1;
        self.top.model().eval()
    }

    fn settle(&mut self) -> Result<(), Error> {
        self.top.clock(false);
        self.top.model().eval()
    }

    /// Whether something may still happen without a new write.
    pub fn busy(&self) -> bool {
        self.top.busy()
    }

    /// Writes a register of a port of the instrument, or of all.
    pub fn set_register(&mut self, port: usize, register: u16, value: u64) -> Result<(), Error> {
        self.top.bus(true, bus_address(port, register), value);
        self.step()?;
        self.top.bus(false, 0, 0);
        Ok(())
    }

    /// Reads a register of a port of the instrument.
    pub fn register(&mut self, port: usize, register: u16) -> Result<u64, Error> {
        self.top.bus(false, bus_address(port, register), 0);
        self.step()?;
        Ok(self.top.bus_data())
    }

    /// Writes a word of the switch's memories, and waits until it is taken.
    pub fn write(&mut self, memory: u8, address: u32, data: [u64; 3]) -> Result<(), Error> {
        /// Longer than any drain of the lookups.
        const PATIENCE: usize = 10_000;
        self.top.word(Some((memory, address, data)));
        for _ in 0..PATIENCE {
            self.settle()?;
            let taken = self.top.word_ready();
            self.edge()?;
            if taken {
                self.top.word(None);
                return Ok(());
            }
        }
        Err(Error::Rtl {
            model: self.top.model().handle().name(),
            message: format!("memory {memory} takes no word for {PATIENCE} cycles"),
        })
    }

    /// Reads a counter of the switch.
    pub fn counter(&mut self, index: u16) -> Result<u32, Error> {
        self.top.counter_index(index);
        self.step()?;
        self.step()?;
        Ok(self.top.counter())
    }
}

fn bus_address(port: usize, register: u16) -> u16 {
    const REGISTER_BITS: usize = 12;
    (port << REGISTER_BITS) as u16 | register
}

// What this returns as an error is unreachable in a build that has both tops.
#[allow(unreachable_patterns)]
fn new_top(speed: NetSpeed) -> Result<Box<dyn Top>, Error> {
    match speed {
        #[cfg(has_rig_10g)]
        NetSpeed::TenGig => Ok(Box::new(crate::Rig10g::new())),
        #[cfg(has_rig_1g)]
        NetSpeed::OneGig => Ok(Box::new(crate::Rig1g::new())),
        NetSpeed::TenGig => Err(Error::NotBuilt { model: "rig_10g" }),
        NetSpeed::OneGig => Err(Error::NotBuilt { model: "rig_1g" }),
    }
}

#[allow(unused_macros)]
macro_rules! impl_top {
    ($model:ty) => {
        impl Top for $model {
            fn clock(&mut self, high: bool) {
                self.set_clk_i(high);
            }

            fn reset(&mut self, on: bool) {
                self.set_rst_i(on);
            }

            fn bus(&mut self, write: bool, address: u16, data: u64) {
                self.set_t_wr_i(write);
                self.set_t_addr_i(u64::from(address));
                self.set_t_wdata_i(data);
            }

            fn bus_data(&self) -> u64 {
                self.t_rdata_o()
            }

            fn word(&mut self, word: Option<(u8, u32, [u64; 3])>) {
                let (memory, address, data) = word.unwrap_or_default();
                self.set_wr_valid_i(word.is_some());
                self.set_wr_mem_i(u64::from(memory));
                self.set_wr_addr_i(u64::from(address));
                self.set_wr_data_i(data);
            }

            fn word_ready(&self) -> bool {
                self.wr_ready_o()
            }

            fn counter_index(&mut self, index: u16) {
                self.set_cnt_idx_i(u64::from(index));
            }

            fn counter(&self) -> u32 {
                self.cnt_o() as u32
            }

            fn host_ready(&mut self) {
                self.set_s_host_tvalid_i(false);
                self.set_m_host_tready_i(true);
            }

            fn busy(&self) -> bool {
                self.busy_o()
            }

            fn model(&mut self) -> &mut dyn Model {
                self
            }
        }
    };
}

#[cfg(has_rig_10g)]
impl_top!(crate::Rig10g);
#[cfg(has_rig_1g)]
impl_top!(crate::Rig1g);
