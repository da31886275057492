// SPDX-License-Identifier: Apache-2.0
//! The IP-NUMA NIC as its users see it, and the conventional one: TLP beats on one side, MAC words on the other, two
//! clocks.

use std::path::Path;

use crate::{Error, Handle};

/// Line rate, which chooses the top: `ipnuma_nic_10g` or `ipnuma_nic_1g`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NetSpeed {
    /// XGMII, 64 bits at 156.25 MHz.
    TenGig,
    /// GMII, 8 bits at 125 MHz.
    OneGig,
}

impl NetSpeed {
    /// Period of `clk_net_i` in picoseconds.
    pub const fn net_period_ps(self) -> u64 {
        match self {
            Self::TenGig => 6_400,
            Self::OneGig => 8_000,
        }
    }

    /// What the wire carries between frames.
    pub const fn idle(self) -> NetWord {
        match self {
            Self::TenGig => NetWord::Xgmii {
                data: 0x0707_0707_0707_0707,
                control: 0xFF,
            },
            Self::OneGig => NetWord::Gmii {
                data: 0,
                enable: false,
                error: false,
            },
        }
    }
}

/// Eight bytes of a TLP stream at most; byte 0 is in the low bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TlpBeat {
    /// `tdata`.
    pub data: u64,
    /// `tkeep`: 0xFF, or 0x0F on a last beat with one DW.
    pub keep: u8,
    /// `tlast`.
    pub last: bool,
    /// `tuser`: the BAR hit of a TLP from the root complex (0, 2, or 7 for none), and in bits 5:3 the function of a NIC
    /// that has several; 0 towards it.
    pub user: u8,
}

/// What crosses the boundary to the PHY in one cycle of `clk_net_i`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NetWord {
    /// 10G.
    Xgmii {
        /// Lane 0 in the low byte.
        data: u64,
        /// One bit a lane, 1 for a control character.
        control: u8,
    },
    /// 1G.
    Gmii {
        /// One byte.
        data: u8,
        /// `tx_en` or `rx_dv`.
        enable: bool,
        /// `tx_er` or `rx_er`.
        error: bool,
    },
}

/// What the host has set in the NIC's configuration space, encoded as its registers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusSettings {
    /// Most payload of a TLP: 128 bytes times two to this.
    pub max_payload: u8,
    /// Most that one read may ask for: 128 bytes times two to this.
    pub max_read: u8,
    /// The root complex cuts its completions at 128 bytes, not at 64.
    pub rcb_128: bool,
    /// The NIC may send memory requests.
    pub bus_master: bool,
}

impl Default for BusSettings {
    /// 256 and 512 bytes, 64, permitted.
    fn default() -> Self {
        Self {
            max_payload: 1,
            max_read: 2,
            rcb_128: false,
            bus_master: true,
        }
    }
}

/// Inputs of the NIC other than its clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NicInputs {
    /// Reset of the PCIe side.
    pub rst_pcie: bool,
    /// Reset of the network side.
    pub rst_net: bool,
    /// Function-level resets of a NIC that has functions, function 0 in bit 0.
    pub flr: u8,
    /// The NIC's own bus, device and function number.
    pub completer_id: u16,
    /// What the host has set; the ring NIC and the bus meter do not look at it.
    pub bus: BusSettings,
    /// Microseconds, free to jump while the NIC is idle.
    pub now_us: u32,
    /// The PHY has a link.
    pub link_up: bool,
    /// Beat offered by the root complex; it is taken at a PCIe edge with `s_tlp_ready`.
    pub s_tlp: Option<TlpBeat>,
    /// The root complex takes the offered `m_tlp` at the next PCIe edge.
    pub m_tlp_ready: bool,
    /// Word from the PHY, of the kind that the NIC's speed asks for.
    pub net: NetWord,
}

/// Outputs of the NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NicOutputs {
    /// The offered `s_tlp` is taken at the next PCIe edge.
    pub s_tlp_ready: bool,
    /// Beat offered to the root complex.
    pub m_tlp: Option<TlpBeat>,
    /// Word to the PHY.
    pub net: NetWord,
    /// The PCIe side has something to do.
    pub busy_pcie: bool,
    /// The network side has something to do.
    pub busy_net: bool,
    /// The end of a function-level reset, a pulse for each function.
    pub flr_done: u8,
}

/// The Verilated NIC.
///
/// One edge of either clock, or of both at once, takes three steps: write [`Nic::inputs`], call
/// [`Nic::settle`], which shows the outputs as they stand before the edge (which beats are offered,
/// and what is ready for them), and call [`Nic::edge`]. Inputs written between the two count at
/// the next `settle`. While inputs stay as they were, and no waves are written, `settle` has nothing to evaluate.
///
/// ```no_run
/// use ipnuma_rtl::{NetSpeed, Nic};
/// # fn main() -> Result<(), ipnuma_rtl::Error> {
/// let mut nic = Nic::new(NetSpeed::TenGig)?;
/// nic.reset()?;
/// nic.inputs.m_tlp_ready = true;
/// let word = nic.settle()?.net;
/// nic.edge(true, false)?;
/// # let _ = word; Ok(())
/// # }
/// ```
pub struct Nic {
    /// Taken by the next [`Nic::settle`].
    pub inputs: NicInputs,
    outputs: NicOutputs,
    speed: NetSpeed,
    pins: Pins,
    /// The inputs that the last evaluation had.
    applied: Option<NicInputs>,
    settled: bool,
    time_ps: u64,
    dumped_ps: u64,
    tracing: bool,
}

impl Nic {
    /// Creates a NIC held in reset, with both clocks low.
    pub fn new(speed: NetSpeed) -> Result<Self, Error> {
        let model = match speed {
            NetSpeed::TenGig => "ipnuma_nic_10g",
            NetSpeed::OneGig => "ipnuma_nic_1g",
        };
        Ok(Self::with(speed, Pins::of(model, speed)?))
    }

    /// Creates a NIC whose page map has only 1,024 pages, so that a test can reach beyond it.
    pub fn new_small(speed: NetSpeed) -> Result<Self, Error> {
        let model = match speed {
            NetSpeed::TenGig => "ipnuma_nic_10g_small",
            NetSpeed::OneGig => "ipnuma_nic_1g_small",
        };
        Ok(Self::with(speed, Pins::of(model, speed)?))
    }

    /// Creates the conventional descriptor-ring NIC (`rtl/ring`), held in reset. It has BAR 0 only.
    pub fn ring(speed: NetSpeed) -> Result<Self, Error> {
        let model = match speed {
            NetSpeed::TenGig => "ring_nic_10g",
            NetSpeed::OneGig => "ring_nic_1g",
        };
        Ok(Self::with(speed, Pins::of(model, speed)?))
    }

    /// Creates the NIC of two functions (`rtl/shell`), held in reset: the conventional NIC is function 0, the
    /// IP-NUMA NIC function 1.
    pub fn shared(speed: NetSpeed) -> Result<Self, Error> {
        let model = match speed {
            NetSpeed::TenGig => "nic_shell_10g",
            NetSpeed::OneGig => "nic_shell_1g",
        };
        Ok(Self::with(speed, Pins::of(model, speed)?))
    }

    /// Creates the NIC for RDMA at 10G (`rtl/shell`), held in reset: the conventional NIC is function 0, UZURA function 1.
    pub fn uzura() -> Result<Self, Error> {
        let speed = NetSpeed::TenGig;
        Ok(Self::with(speed, Pins::of("uzura_shell_10g", speed)?))
    }

    /// Creates the bus meter in the place of a NIC.
    ///
    /// It has the PCIe side only: [`NicInputs::net`], `now_us` and the network's clock and reset are
    /// not looked at, and [`NicOutputs::net`] is idle for ever.
    pub fn bus_meter() -> Result<Self, Error> {
        Ok(Self::with(NetSpeed::TenGig, Pins::of_bus_meter()?))
    }

    fn with(speed: NetSpeed, pins: Pins) -> Self {
        Self {
            inputs: NicInputs {
                rst_pcie: true,
                rst_net: true,
                flr: 0,
                completer_id: 0,
                bus: BusSettings::default(),
                now_us: 0,
                link_up: true,
                s_tlp: None,
                m_tlp_ready: false,
                net: speed.idle(),
            },
            outputs: NicOutputs {
                s_tlp_ready: false,
                m_tlp: None,
                net: speed.idle(),
                busy_pcie: false,
                busy_net: false,
                flr_done: 0,
            },
            speed,
            pins,
            applied: None,
            settled: false,
            time_ps: 0,
            dumped_ps: 0,
            tracing: false,
        }
    }

    /// Line rate of this NIC.
    pub fn speed(&self) -> NetSpeed {
        self.speed
    }

    /// Applies reset for eight edges of both clocks and releases it.
    pub fn reset(&mut self) -> Result<(), Error> {
        const EDGES: usize = 8;
        const SETTLED: usize = 24;
        (self.inputs.rst_pcie, self.inputs.rst_net) = (true, true);
        for _ in 0..EDGES {
            self.settle()?;
            self.edge(true, true)?;
        }
        (self.inputs.rst_pcie, self.inputs.rst_net) = (false, false);
        // The NIC holds both sides in reset until each has seen the other there.
        for _ in 0..SETTLED {
            self.settle()?;
            self.edge(true, true)?;
        }
        self.settle()?;
        Ok(())
    }

    /// Sets the time of the coming edge in picoseconds, for waves and messages.
    #[inline]
    pub fn set_time(&mut self, ps: u64) {
        self.time_ps = ps;
        self.pins.model.set_time(ps);
    }

    /// Lowers both clocks, applies the inputs, and returns the outputs before the coming edge.
    pub fn settle(&mut self) -> Result<&NicOutputs, Error> {
        if self.has_steps() {
            if self.applied != Some(self.inputs) {
                self.pins.apply(&self.inputs);
                self.pins.model.eval_inputs()?;
                self.applied = Some(self.inputs);
                self.outputs = self.pins.outputs();
            }
            self.settled = true;
            return Ok(&self.outputs);
        }
        self.pins.clocks(false, false);
        self.pins.apply(&self.inputs);
        self.pins.model.eval()?;
        self.applied = Some(self.inputs);
        self.settled = true;
        if self.tracing {
            // Half way to the coming edge, so that waves show clocks and not needles.
            self.dump(self.dumped_ps.midpoint(self.time_ps));
        }
        self.outputs = self.pins.outputs();
        Ok(&self.outputs)
    }

    /// Raises one clock or both, and returns the outputs after the edge.
    ///
    /// What the NIC offers and takes at this edge is what [`Nic::settle`] returned.
    pub fn edge(&mut self, pcie: bool, net: bool) -> Result<&NicOutputs, Error> {
        if !self.settled {
            self.settle()?;
        }
        self.settled = false;
        self.pins.clocks(pcie, net);
        if self.has_steps() {
            self.pins.model.eval_edge()?;
        } else {
            self.pins.model.eval()?;
        }
        if self.tracing {
            self.dump(self.time_ps);
        }
        self.outputs = self.pins.outputs();
        Ok(&self.outputs)
    }

    /// Whether half an evaluation will do: waves show the clocks low as well, and the first evaluation is a whole one.
    fn has_steps(&self) -> bool {
        !self.tracing && self.applied.is_some() && self.pins.model.has_steps()
    }

    /// Whether something is on its way from one clock to the other. While nothing is, a side that has nothing to do
    /// sees nothing of the other. True if the model cannot tell.
    pub fn crossing(&self) -> bool {
        self.pins.model.crossing()
    }

    /// Outputs as of the last evaluation.
    #[inline]
    pub fn outputs(&self) -> &NicOutputs {
        &self.outputs
    }

    /// Begins to write FST waves; the times are those of [`Nic::set_time`].
    pub fn trace(&mut self, path: &Path) -> Result<(), Error> {
        self.pins.model.trace(path)?;
        self.tracing = true;
        // The next edge wants its clock to have been low.
        self.settled = false;
        self.dumped_ps = self.time_ps;
        Ok(())
    }

    /// Ends the waves and completes their file.
    pub fn trace_close(&mut self) {
        self.tracing = false;
        self.pins.model.trace_close();
    }

    /// Wave files hold one set of values for a time; edges without a time of their own are left out.
    fn dump(&mut self, ps: u64) {
        if ps > self.dumped_ps {
            self.dumped_ps = ps;
            self.pins.model.dump(ps);
        }
    }
}

ports!(PciePorts {
    clk_pcie_i,
    rst_pcie_i,
    completer_id_i,
    s_tlp_tvalid_i,
    s_tlp_tdata_i,
    s_tlp_tkeep_i,
    s_tlp_tlast_i,
    s_tlp_tuser_i,
    s_tlp_tready_o,
    m_tlp_tvalid_o,
    m_tlp_tdata_o,
    m_tlp_tkeep_o,
    m_tlp_tlast_o,
    m_tlp_tready_i,
});
ports!(NetPorts {
    clk_net_i,
    rst_net_i,
    now_us_i,
    link_up_i,
    busy_pcie_o,
    busy_net_o,
});
ports!(HostPorts {
    cfg_max_payload_i,
    cfg_max_read_i,
    cfg_rcb_128_i,
    cfg_bus_master_i,
});
ports!(FunctionPorts { flr_i, flr_done_o });
ports!(XgmiiPorts {
    xgmii_rxd_i,
    xgmii_rxc_i,
    xgmii_txd_o,
    xgmii_txc_o,
});
ports!(GmiiPorts {
    gmii_rxd_i,
    gmii_rx_dv_i,
    gmii_rx_er_i,
    gmii_txd_o,
    gmii_tx_en_o,
    gmii_tx_er_o,
});
ports!(MeterPorts { busy_o });

/// The network side, if there is one.
enum Network {
    None(MeterPorts),
    Xgmii(NetPorts, XgmiiPorts),
    Gmii(NetPorts, GmiiPorts),
}

/// A model and its ports.
struct Pins {
    model: Handle,
    pcie: PciePorts,
    /// Only the IP-NUMA NIC has them.
    host: Option<HostPorts>,
    /// Only shells have them.
    functions: Option<FunctionPorts>,
    network: Network,
}

impl Pins {
    fn of(model: &str, speed: NetSpeed) -> Result<Self, Error> {
        let model = Handle::new(model)?;
        let net = NetPorts::of(&model)?;
        Ok(Self {
            pcie: PciePorts::of(&model)?,
            host: HostPorts::of(&model).ok(),
            functions: FunctionPorts::of(&model).ok(),
            network: match speed {
                NetSpeed::TenGig => Network::Xgmii(net, XgmiiPorts::of(&model)?),
                NetSpeed::OneGig => Network::Gmii(net, GmiiPorts::of(&model)?),
            },
            model,
        })
    }

    fn of_bus_meter() -> Result<Self, Error> {
        let model = Handle::new("bus_meter")?;
        Ok(Self {
            pcie: PciePorts::of(&model)?,
            host: None,
            functions: None,
            network: Network::None(MeterPorts::of(&model)?),
            model,
        })
    }

    fn apply(&mut self, inputs: &NicInputs) {
        let (model, pcie) = (&mut self.model, &self.pcie);
        model.set(pcie.rst_pcie_i, inputs.rst_pcie);
        model.set(pcie.completer_id_i, inputs.completer_id);
        if let Some(host) = &self.host {
            model.set(host.cfg_max_payload_i, inputs.bus.max_payload);
            model.set(host.cfg_max_read_i, inputs.bus.max_read);
            model.set(host.cfg_rcb_128_i, inputs.bus.rcb_128);
            model.set(host.cfg_bus_master_i, inputs.bus.bus_master);
        }
        if let Some(functions) = &self.functions {
            model.set(functions.flr_i, inputs.flr);
        }
        let beat = inputs.s_tlp.unwrap_or_default();
        model.set(pcie.s_tlp_tvalid_i, inputs.s_tlp.is_some());
        model.set(pcie.s_tlp_tdata_i, beat.data);
        model.set(pcie.s_tlp_tkeep_i, beat.keep);
        model.set(pcie.s_tlp_tlast_i, beat.last);
        model.set(pcie.s_tlp_tuser_i, beat.user);
        model.set(pcie.m_tlp_tready_i, inputs.m_tlp_ready);
        match (&self.network, inputs.net) {
            (Network::None(_), _) => return,
            (Network::Xgmii(_, ports), NetWord::Xgmii { data, control }) => {
                model.set(ports.xgmii_rxd_i, data);
                model.set(ports.xgmii_rxc_i, control);
            }
            (
                Network::Gmii(_, ports),
                NetWord::Gmii {
                    data,
                    enable,
                    error,
                },
            ) => {
                model.set(ports.gmii_rxd_i, data);
                model.set(ports.gmii_rx_dv_i, enable);
                model.set(ports.gmii_rx_er_i, error);
            }
            (Network::Xgmii(..), word) => panic!("a 10G NIC takes XGMII words, not {word:?}"),
            (Network::Gmii(..), word) => panic!("a 1G NIC takes GMII words, not {word:?}"),
        }
        if let Network::Xgmii(net, _) | Network::Gmii(net, _) = &self.network {
            model.set(net.rst_net_i, inputs.rst_net);
            model.set(net.now_us_i, inputs.now_us);
            model.set(net.link_up_i, inputs.link_up);
        }
    }

    #[inline]
    fn clocks(&mut self, pcie: bool, net: bool) {
        self.model.set(self.pcie.clk_pcie_i, pcie);
        if let Network::Xgmii(ports, _) | Network::Gmii(ports, _) = &self.network {
            self.model.set(ports.clk_net_i, net);
        }
    }

    fn outputs(&self) -> NicOutputs {
        let (model, pcie) = (&self.model, &self.pcie);
        let net = match &self.network {
            Network::None(_) => NetSpeed::TenGig.idle(),
            Network::Xgmii(_, ports) => NetWord::Xgmii {
                data: model.get(ports.xgmii_txd_o),
                control: model.get(ports.xgmii_txc_o) as u8,
            },
            Network::Gmii(_, ports) => NetWord::Gmii {
                data: model.get(ports.gmii_txd_o) as u8,
                enable: model.bit(ports.gmii_tx_en_o),
                error: model.bit(ports.gmii_tx_er_o),
            },
        };
        let (busy_pcie, busy_net) = match &self.network {
            Network::None(ports) => (model.bit(ports.busy_o), false),
            Network::Xgmii(ports, _) | Network::Gmii(ports, _) => {
                (model.bit(ports.busy_pcie_o), model.bit(ports.busy_net_o))
            }
        };
        NicOutputs {
            s_tlp_ready: model.bit(pcie.s_tlp_tready_o),
            m_tlp: model.bit(pcie.m_tlp_tvalid_o).then(|| TlpBeat {
                data: model.get(pcie.m_tlp_tdata_o),
                keep: model.get(pcie.m_tlp_tkeep_o) as u8,
                last: model.bit(pcie.m_tlp_tlast_o),
                user: 0,
            }),
            net,
            busy_pcie,
            busy_net,
            flr_done: self
                .functions
                .as_ref()
                .map_or(0, |functions| model.get(functions.flr_done_o) as u8),
        }
    }
}
