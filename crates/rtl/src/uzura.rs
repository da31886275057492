// SPDX-License-Identifier: Apache-2.0
//! The RDMA engine alone: registers and DMA on one side, frames without FCS on the other (`docs/uzura.md`, Ports).

use crate::{Error, Handle};

/// An access to a register; it takes one cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UzuraAccess {
    /// Address.
    pub address: u32,
    /// What is written, or nothing for a read.
    pub write: Option<u64>,
}

/// A beat of a DMA read's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UzuraBeat {
    /// First byte in the low bits.
    pub data: u64,
    /// Of the read.
    pub cookie: u8,
    /// The answer ends with it.
    pub last: bool,
    /// The host could not answer.
    pub bad: bool,
}

/// What a DMA reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UzuraSpan {
    /// Physical address.
    pub address: u64,
    /// Bytes.
    pub bytes: u16,
    /// Of a read: what its answer carries.
    pub cookie: u8,
}

/// A word of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UzuraWord {
    /// First byte in the low bits.
    pub data: u64,
    /// Its bytes.
    pub keep: u8,
    /// The frame ends with it.
    pub last: bool,
}

/// Inputs of the engine other than its clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UzuraInputs {
    /// Reset.
    pub rst: bool,
    /// Microseconds.
    pub now_us: u32,
    /// Access to a register.
    pub access: Option<UzuraAccess>,
    /// The offered DMA read is taken at the next edge.
    pub read_ready: bool,
    /// Data of a DMA read.
    pub data: Option<UzuraBeat>,
    /// The offered DMA write is taken at the next edge.
    pub write_ready: bool,
    /// Its data are.
    pub write_data_ready: bool,
    /// A frame's word; the MAC found nothing wrong with it.
    pub rx: Option<UzuraWord>,
    /// The offered frame's word is taken at the next edge.
    pub tx_ready: bool,
}

/// Outputs of the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UzuraOutputs {
    /// What was read from a register, at the edge before.
    pub register: Option<u64>,
    /// DMA read that is wanted.
    pub read: Option<UzuraSpan>,
    /// The offered data are taken at the next edge.
    pub data_ready: bool,
    /// DMA write that is wanted.
    pub write: Option<UzuraSpan>,
    /// Its data; the flag is with the last word.
    pub write_data: Option<(u64, bool)>,
    /// Word of a frame.
    pub tx: Option<UzuraWord>,
    /// Skipping cycles would change something.
    pub busy: bool,
}

/// The Verilated engine.
///
/// A cycle takes three steps: write [`Uzura::inputs`], call [`Uzura::settle`], which shows what is offered before the
/// edge, and call [`Uzura::edge`].
///
/// ```no_run
/// use ipnuma_rtl::Uzura;
/// # fn main() -> Result<(), ipnuma_rtl::Error> {
/// let mut engine = Uzura::new()?;
/// engine.reset()?;
/// assert!(engine.settle()?.tx.is_none());
/// engine.edge()
/// # }
/// ```
pub struct Uzura {
    /// Taken by the next [`Uzura::settle`].
    pub inputs: UzuraInputs,
    model: Handle,
    ports: Ports,
    applied: Option<UzuraInputs>,
}

impl Uzura {
    /// Creates an engine held in reset.
    pub fn new() -> Result<Self, Error> {
        let model = Handle::new("uzura")?;
        Ok(Self {
            inputs: UzuraInputs::default(),
            ports: Ports::of(&model)?,
            model,
            applied: None,
        })
    }

    /// Applies reset for four edges and releases it.
    pub fn reset(&mut self) -> Result<(), Error> {
        const EDGES: usize = 4;
        self.inputs.rst = true;
        for _ in 0..EDGES {
            self.settle()?;
            self.edge()?;
        }
        self.inputs.rst = false;
        Ok(())
    }

    /// Sets the time of the coming edge in picoseconds, for messages.
    pub fn set_time(&mut self, ps: u64) {
        self.model.set_time(ps);
    }

    /// Applies the inputs, and returns the outputs before the coming edge.
    pub fn settle(&mut self) -> Result<UzuraOutputs, Error> {
        let steps = self.applied.is_some() && self.model.has_steps();
        if !steps {
            self.model.set(self.ports.clk_i, false);
        }
        self.apply();
        if steps {
            self.model.eval_inputs()?;
        } else {
            self.model.eval()?;
        }
        self.applied = Some(self.inputs);
        Ok(self.read())
    }

    /// Raises the clock.
    pub fn edge(&mut self) -> Result<(), Error> {
        self.model.set(self.ports.clk_i, true);
        if self.model.has_steps() {
            self.model.eval_edge()
        } else {
            self.model.eval()
        }
    }

    fn apply(&mut self) {
        let (m, p, inputs) = (&mut self.model, &self.ports, &self.inputs);
        m.set(p.rst_i, inputs.rst);
        m.set(p.now_us_i, inputs.now_us);
        m.set(p.reg_valid_i, inputs.access.is_some());
        if let Some(access) = inputs.access {
            m.set(p.reg_write_i, access.write.is_some());
            m.set(p.reg_addr_i, access.address);
            m.set(p.reg_wdata_i, access.write.unwrap_or_default());
        }
        m.set(p.rd_ready_i, inputs.read_ready);
        m.set(p.rd_data_valid_i, inputs.data.is_some());
        if let Some(beat) = inputs.data {
            m.set(p.rd_data_i, beat.data);
            m.set(p.rd_data_cookie_i, beat.cookie);
            m.set(p.rd_data_last_i, beat.last);
            m.set(p.rd_data_bad_i, beat.bad);
        }
        m.set(p.wr_ready_i, inputs.write_ready);
        m.set(p.wr_data_ready_i, inputs.write_data_ready);
        m.set(p.rx_tvalid_i, inputs.rx.is_some());
        if let Some(word) = inputs.rx {
            m.set(p.rx_tdata_i, word.data);
            m.set(p.rx_tkeep_i, word.keep);
            m.set(p.rx_tlast_i, word.last);
        }
        m.set(p.rx_tuser_i, false);
        m.set(p.tx_tready_i, inputs.tx_ready);
    }

    fn read(&self) -> UzuraOutputs {
        let (m, p) = (&self.model, &self.ports);
        UzuraOutputs {
            register: m.bit(p.reg_rvalid_o).then(|| m.get(p.reg_rdata_o)),
            read: m.bit(p.rd_valid_o).then(|| UzuraSpan {
                address: m.get(p.rd_addr_o),
                bytes: m.get(p.rd_bytes_o) as u16,
                cookie: m.get(p.rd_cookie_o) as u8,
            }),
            data_ready: m.bit(p.rd_data_ready_o),
            write: m.bit(p.wr_valid_o).then(|| UzuraSpan {
                address: m.get(p.wr_addr_o),
                bytes: m.get(p.wr_bytes_o) as u16,
                cookie: 0,
            }),
            write_data: m
                .bit(p.wr_data_valid_o)
                .then(|| (m.get(p.wr_data_o), m.bit(p.wr_data_last_o))),
            tx: m.bit(p.tx_tvalid_o).then(|| UzuraWord {
                data: m.get(p.tx_tdata_o),
                keep: m.get(p.tx_tkeep_o) as u8,
                last: m.bit(p.tx_tlast_o),
            }),
            busy: m.bit(p.busy_o),
        }
    }
}

ports!(Ports {
    clk_i,
    rst_i,
    now_us_i,
    reg_valid_i,
    reg_write_i,
    reg_addr_i,
    reg_wdata_i,
    reg_rvalid_o,
    reg_rdata_o,
    rd_addr_o,
    rd_bytes_o,
    rd_cookie_o,
    rd_valid_o,
    rd_ready_i,
    rd_data_i,
    rd_data_cookie_i,
    rd_data_last_i,
    rd_data_bad_i,
    rd_data_valid_i,
    rd_data_ready_o,
    wr_addr_o,
    wr_bytes_o,
    wr_valid_o,
    wr_ready_i,
    wr_data_o,
    wr_data_last_o,
    wr_data_valid_o,
    wr_data_ready_i,
    rx_tdata_i,
    rx_tkeep_i,
    rx_tvalid_i,
    rx_tlast_i,
    rx_tuser_i,
    tx_tdata_o,
    tx_tkeep_o,
    tx_tvalid_o,
    tx_tlast_o,
    tx_tready_i,
    busy_o,
});
