// SPDX-License-Identifier: Apache-2.0
//! The switch as its users see it: a MAC word a port and cycle, frame streams of the host, one
//! write port, counters.

use std::path::Path;

use crate::{Error, Handle, NetSpeed, NetWord};

/// How large the switch's tables are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SwitchSize {
    /// Some thousand routes, and VLAN stages, which make frames at 10G a cycle later.
    Small,
    /// 1.3 million IPv4 and 300,000 IPv6 routes: `fib::Config::default()`.
    Full,
    /// Some hundred routes: [`WideSwitch`].
    Wide,
}

/// Eight bytes of a frame of the host at most; byte 0 is in the low bits. Frames have no FCS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HostBeat {
    /// `tdata`.
    pub data: u64,
    /// `tkeep`: ones from bit 0 on; all of them but with the last beat.
    pub keep: u8,
    /// `tlast`.
    pub last: bool,
    /// The port that the frame is to leave by; read with the first beat.
    pub port: u8,
}

/// Eight bytes of a frame for the host at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HostOut {
    /// `tdata`.
    pub data: u64,
    /// `tkeep`.
    pub keep: u8,
    /// `tlast`.
    pub last: bool,
    /// With the last beat: the frame ended bad.
    pub bad: bool,
    /// Port of arrival.
    pub port: u8,
    /// Why it comes: `fibnic_pkg::verdict_e`.
    pub verdict: u8,
}

/// One word of one memory, as `fib::Write` has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SwitchWrite {
    /// The memory: `fib_pkg::memory_e`.
    pub memory: u8,
    /// Address in words.
    pub address: u32,
    /// The word, least significant bits first.
    pub data: [u64; 3],
}

impl SwitchWrite {
    /// In the place of a word: waits until all lookups under way have ended.
    pub const DRAIN: Self = Self {
        memory: 31,
        address: 0,
        data: [0; 3],
    };
}

/// Inputs of the switch other than its clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchInputs<const N: usize = 4> {
    /// Reset of the core; of all receive sides, too.
    pub rst: bool,
    /// Reset of the core alone.
    pub rst_core: bool,
    /// Resets of receive sides, a bit for each port.
    pub rst_rx: u64,
    /// Words from the PHYs, of the kind that the switch's speed asks for.
    pub net: [NetWord; N],
    /// Beat offered by the host; it is taken at an edge with `host_in_ready`.
    pub host: Option<HostBeat>,
    /// The host takes the offered `host` beat at the next edge.
    pub host_ready: bool,
    /// Word to be written; it is taken at an edge with `write_ready`.
    pub write: Option<SwitchWrite>,
    /// Counter to be read: `{access list, port[3:0], index[6:0]}`.
    pub counter: u16,
}

/// Outputs of the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchOutputs<const N: usize = 4> {
    /// Words to the PHYs.
    pub net: [NetWord; N],
    /// Beat offered to the host.
    pub host: Option<HostOut>,
    /// The offered beat of the host is taken at the next edge.
    pub host_in_ready: bool,
    /// The offered word is taken at the next edge.
    pub write_ready: bool,
    /// The counter that was named two edges before.
    pub counter: u32,
    /// Ports that store and check now, one bit each.
    pub check: u16,
    /// Something may still come out without new input.
    pub busy: bool,
}

/// The Verilated switch, `fibnic_10g` or `fibnic_1g`, with four ports.
pub type Switch = PortSwitch<4>;

/// The Verilated switch, `fibnic_10g` or `fibnic_1g`, with nine ports and small tables, [`SwitchSize::Wide`]. It has no
/// waves.
pub type WideSwitch = PortSwitch<9>;

/// The Verilated switch with two ports and the tables of [`SwitchSize::Small`]: as [`Switch`], in less time. It has no
/// waves.
pub type NarrowSwitch = PortSwitch<2>;

/// The Verilated switch with `N` ports: [`Switch`], [`NarrowSwitch`] or [`WideSwitch`]. All clocks are one, but for
/// who uses [`PortSwitch::edge_of`].
///
/// A cycle takes three steps: write [`PortSwitch::inputs`], call [`PortSwitch::settle`], which shows what is
/// ready before the edge, and call [`PortSwitch::edge`], which returns the outputs after it.
///
/// ```no_run
/// use ipnuma_rtl::{NetSpeed, Switch, SwitchSize};
/// # fn main() -> Result<(), ipnuma_rtl::Error> {
/// let mut switch = Switch::new(NetSpeed::TenGig, SwitchSize::Small)?;
/// switch.reset()?;
/// switch.inputs.host_ready = true;
/// let ready = switch.settle()?.write_ready;
/// let word = switch.edge()?.net[0];
/// # let _ = (ready, word); Ok(())
/// # }
/// ```
pub struct PortSwitch<const N: usize> {
    /// Taken by the next [`PortSwitch::settle`].
    pub inputs: SwitchInputs<N>,
    outputs: SwitchOutputs<N>,
    speed: NetSpeed,
    pins: Pins<N>,
    /// The inputs that the last evaluation had.
    applied: Option<SwitchInputs<N>>,
    settled: bool,
    time_ps: u64,
    dumped_ps: u64,
    tracing: bool,
}

impl Switch {
    /// Creates a switch held in reset, with its clocks low.
    pub fn new(speed: NetSpeed, size: SwitchSize) -> Result<Self, Error> {
        let model = match (speed, size) {
            (NetSpeed::TenGig, SwitchSize::Small) => "fibnic_10g",
            (NetSpeed::TenGig, SwitchSize::Full) => "fibnic_10g_full",
            (NetSpeed::OneGig, SwitchSize::Small) => "fibnic_1g",
            (NetSpeed::OneGig, SwitchSize::Full) => "fibnic_1g_full",
            (_, SwitchSize::Wide) => {
                return Err(Error::NotBuilt {
                    model: "fibnic_wide".into(),
                    reason: "it has nine ports, and this asks for four: use WideSwitch".into(),
                });
            }
        };
        Self::of(speed, model)
    }

    /// Depth of a memory of the lookup, by the parameter of the top that sets it (`V4Leaves`).
    pub fn depth(size: SwitchSize, parameter: &str) -> Option<u32> {
        let parameters = match size {
            SwitchSize::Small => verilate::SMALL_TABLES,
            SwitchSize::Full => verilate::FULL_TABLES,
            SwitchSize::Wide => verilate::WIDE_TABLES,
        };
        let found = parameters.iter().find(|(name, _)| *name == parameter);
        found.and_then(|(_, value)| value.parse().ok())
    }
}

impl WideSwitch {
    /// Creates a switch of nine ports held in reset, with its clocks low.
    pub fn wide(speed: NetSpeed) -> Result<Self, Error> {
        let model = match speed {
            NetSpeed::TenGig => "fibnic_10g_wide",
            NetSpeed::OneGig => "fibnic_1g_wide",
        };
        Self::of(speed, model)
    }
}

impl NarrowSwitch {
    /// Creates a switch of two ports held in reset, with its clocks low.
    pub fn narrow(speed: NetSpeed) -> Result<Self, Error> {
        let model = match speed {
            NetSpeed::TenGig => "fibnic_10g_narrow",
            NetSpeed::OneGig => "fibnic_1g_narrow",
        };
        Self::of(speed, model)
    }
}

impl<const N: usize> PortSwitch<N> {
    /// Network ports.
    pub const PORTS: usize = N;

    fn of(speed: NetSpeed, model: &str) -> Result<Self, Error> {
        let net = [speed.idle(); N];
        Ok(Self {
            inputs: SwitchInputs {
                rst: true,
                rst_core: false,
                rst_rx: 0,
                net,
                host: None,
                host_ready: false,
                write: None,
                counter: 0,
            },
            outputs: SwitchOutputs {
                net,
                host: None,
                host_in_ready: false,
                write_ready: false,
                counter: 0,
                check: 0,
                busy: false,
            },
            speed,
            pins: Pins::of(model, speed)?,
            applied: None,
            settled: false,
            time_ps: 0,
            dumped_ps: 0,
            tracing: false,
        })
    }

    /// Line rate.
    pub fn speed(&self) -> NetSpeed {
        self.speed
    }

    /// Applies reset for eight edges, releases it and waits until the ports receive.
    pub fn reset(&mut self) -> Result<(), Error> {
        const EDGES: usize = 8;
        // A port opens when both of its sides have been cleared (port_reset).
        const OPENING: usize = 64;
        self.inputs.rst = true;
        for _ in 0..EDGES {
            self.settle()?;
            self.edge()?;
        }
        self.inputs.rst = false;
        for _ in 0..OPENING {
            self.settle()?;
            self.edge()?;
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

    /// Lowers the clocks, applies the inputs, and returns the outputs before the coming edge.
    pub fn settle(&mut self) -> Result<&SwitchOutputs<N>, Error> {
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
        self.pins.clocks(false, 0);
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

    /// Raises the clocks and returns the outputs after the edge.
    pub fn edge(&mut self) -> Result<&SwitchOutputs<N>, Error> {
        self.edge_of(true, Pins::<N>::ALL)
    }

    /// Raises the core's clock, or not, and those of the receive sides whose bits are set; returns the outputs after
    /// the edge.
    pub fn edge_of(&mut self, core: bool, receivers: u64) -> Result<&SwitchOutputs<N>, Error> {
        if !self.settled {
            self.settle()?;
        }
        self.settled = false;
        self.pins.clocks(core, receivers);
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

    /// Outputs as of the last evaluation.
    #[inline]
    pub fn outputs(&self) -> &SwitchOutputs<N> {
        &self.outputs
    }

    /// Begins to write FST waves; the times are those of [`PortSwitch::set_time`]. Refused by
    /// [`SwitchSize::Full`], [`WideSwitch`] and [`NarrowSwitch`], which are built without them.
    pub fn trace(&mut self, path: &Path) -> Result<(), Error> {
        self.pins.model.trace(path)?;
        self.tracing = true;
        // The next edge wants its clocks to have been low.
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

ports!(Ports {
    clk_i,
    rst_i,
    clk_rx_i,
    rst_rx_i,
    s_host_tvalid_i,
    s_host_tdata_i,
    s_host_tkeep_i,
    s_host_tlast_i,
    s_host_tuser_i,
    s_host_tready_o,
    m_host_tvalid_o,
    m_host_tdata_o,
    m_host_tkeep_o,
    m_host_tlast_o,
    m_host_tuser_o,
    m_host_tready_i,
    wr_valid_i,
    wr_mem_i,
    wr_addr_i,
    wr_data_i,
    wr_ready_o,
    cnt_idx_i,
    cnt_o,
    check_o,
    busy_o,
});
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

/// The network ports, side by side in vectors.
enum Network {
    Xgmii(XgmiiPorts),
    Gmii(GmiiPorts),
}

/// A model and its ports.
struct Pins<const N: usize> {
    model: Handle,
    ports: Ports,
    network: Network,
}

/// Fields of the host stream's `tuser`, from its low bit: verdict, port, bad.
const VERDICT_BITS: u32 = 5;
const BAD_BIT: u32 = 9;
/// Ports whose XGMII control bits fill a lane.
const CONTROLS_IN_LANE: usize = 8;
/// Bytes of GMII in a lane of 64 bits.
const BYTES_IN_LANE: usize = 8;

impl<const N: usize> Pins<N> {
    /// All clocks of the receivers.
    const ALL: u64 = (1 << N) - 1;

    fn of(model: &str, speed: NetSpeed) -> Result<Self, Error> {
        let model = Handle::new(model)?;
        Ok(Self {
            ports: Ports::of(&model)?,
            network: match speed {
                NetSpeed::TenGig => Network::Xgmii(XgmiiPorts::of(&model)?),
                NetSpeed::OneGig => Network::Gmii(GmiiPorts::of(&model)?),
            },
            model,
        })
    }

    fn apply(&mut self, inputs: &SwitchInputs<N>) {
        let (model, ports) = (&mut self.model, &self.ports);
        model.set(ports.rst_i, inputs.rst || inputs.rst_core);
        let all = if inputs.rst { Self::ALL } else { 0 };
        model.set(ports.rst_rx_i, all | inputs.rst_rx);
        let beat = inputs.host.unwrap_or_default();
        model.set(ports.s_host_tvalid_i, inputs.host.is_some());
        model.set(ports.s_host_tdata_i, beat.data);
        model.set(ports.s_host_tkeep_i, beat.keep);
        model.set(ports.s_host_tlast_i, beat.last);
        model.set(ports.s_host_tuser_i, beat.port);
        model.set(ports.m_host_tready_i, inputs.host_ready);
        model.set(ports.wr_valid_i, inputs.write.is_some());
        if let Some(word) = inputs.write {
            model.set(ports.wr_mem_i, word.memory);
            model.set(ports.wr_addr_i, word.address);
            model.set_wide(ports.wr_data_i, word.data);
        }
        model.set(ports.cnt_idx_i, inputs.counter);
        self.apply_words(&inputs.net);
    }

    fn apply_words(&mut self, words: &[NetWord; N]) {
        let model = &mut self.model;
        match &self.network {
            Network::Xgmii(ports) => {
                for (lane, words) in words.chunks(CONTROLS_IN_LANE).enumerate() {
                    let mut controls = 0;
                    for (place, word) in words.iter().enumerate() {
                        let NetWord::Xgmii { data, control } = *word else {
                            panic!("a 10G switch takes XGMII words, not {word:?}")
                        };
                        let port = lane * CONTROLS_IN_LANE + place;
                        model.set_lane(ports.xgmii_rxd_i, port, data);
                        controls |= u64::from(control) << (8 * place);
                    }
                    model.set_lane(ports.xgmii_rxc_i, lane, controls);
                }
            }
            Network::Gmii(ports) => {
                let (mut enables, mut errors) = (0_u64, 0_u64);
                for (lane, words) in words.chunks(BYTES_IN_LANE).enumerate() {
                    let mut bytes = 0;
                    for (place, word) in words.iter().enumerate() {
                        let NetWord::Gmii {
                            data,
                            enable,
                            error,
                        } = *word
                        else {
                            panic!("a 1G switch takes GMII words, not {word:?}")
                        };
                        let port = lane * BYTES_IN_LANE + place;
                        bytes |= u64::from(data) << (8 * place);
                        enables |= u64::from(enable) << port;
                        errors |= u64::from(error) << port;
                    }
                    model.set_lane(ports.gmii_rxd_i, lane, bytes);
                }
                model.set(ports.gmii_rx_dv_i, enables);
                model.set(ports.gmii_rx_er_i, errors);
            }
        }
    }

    #[inline]
    fn clocks(&mut self, core: bool, receivers: u64) {
        self.model.set(self.ports.clk_i, core);
        self.model.set(self.ports.clk_rx_i, receivers);
    }

    fn words(&self) -> [NetWord; N] {
        let model = &self.model;
        match &self.network {
            Network::Xgmii(ports) => std::array::from_fn(|port| {
                let controls = model.lane(ports.xgmii_txc_o, port / CONTROLS_IN_LANE);
                NetWord::Xgmii {
                    data: model.lane(ports.xgmii_txd_o, port),
                    control: (controls >> (8 * (port % CONTROLS_IN_LANE))) as u8,
                }
            }),
            Network::Gmii(ports) => {
                let [enables, errors] =
                    [ports.gmii_tx_en_o, ports.gmii_tx_er_o].map(|port| model.get(port));
                std::array::from_fn(|port| {
                    let bytes = model.lane(ports.gmii_txd_o, port / BYTES_IN_LANE);
                    NetWord::Gmii {
                        data: (bytes >> (8 * (port % BYTES_IN_LANE))) as u8,
                        enable: enables >> port & 1 != 0,
                        error: errors >> port & 1 != 0,
                    }
                })
            }
        }
    }

    fn outputs(&self) -> SwitchOutputs<N> {
        let (model, ports) = (&self.model, &self.ports);
        SwitchOutputs {
            net: self.words(),
            host: model.bit(ports.m_host_tvalid_o).then(|| {
                let user = model.get(ports.m_host_tuser_o);
                HostOut {
                    data: model.get(ports.m_host_tdata_o),
                    keep: model.get(ports.m_host_tkeep_o) as u8,
                    last: model.bit(ports.m_host_tlast_o),
                    bad: user >> BAD_BIT & 1 != 0,
                    port: (user >> VERDICT_BITS & 15) as u8,
                    verdict: (user & 31) as u8,
                }
            }),
            host_in_ready: model.bit(ports.s_host_tready_o),
            write_ready: model.bit(ports.wr_ready_o),
            counter: model.get(ports.cnt_o) as u32,
            check: model.get(ports.check_o) as u16,
            busy: model.bit(ports.busy_o),
        }
    }
}
