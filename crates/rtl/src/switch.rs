// SPDX-License-Identifier: Apache-2.0
//! The switch as its users see it: a MAC word a port and cycle, frame streams of the host, one
//! write port, counters.

use std::path::Path;

use crate::{Error, NetSpeed, NetWord};

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
    /// Reset of all clocks.
    pub rst: bool,
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

/// The Verilated switch `fibnic_10g` with nine ports and small tables, [`SwitchSize::Wide`]. It has no waves.
pub type WideSwitch = PortSwitch<9>;

/// The Verilated switch with two ports and the tables of [`SwitchSize::Small`]: as [`Switch`], in less time. It has no
/// waves.
pub type NarrowSwitch = PortSwitch<2>;

/// The Verilated switch with `N` ports: [`Switch`], [`NarrowSwitch`] or [`WideSwitch`]. All clocks are one here.
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
    top: Box<dyn Top<N>>,
    /// The inputs that the last evaluation had.
    applied: Option<SwitchInputs<N>>,
    settled: bool,
    time_ps: u64,
    dumped_ps: u64,
    tracing: bool,
}

/// The tops alike. Methods are coarse, so that a call through the table costs little.
trait Top<const N: usize>: Send {
    fn apply(&mut self, inputs: &SwitchInputs<N>);
    fn clock(&mut self, high: bool);
    fn outputs(&self) -> SwitchOutputs<N>;
    fn model(&mut self) -> &mut dyn crate::Model;
}

impl Switch {
    /// Creates a switch held in reset, with its clocks low.
    pub fn new(speed: NetSpeed, size: SwitchSize) -> Result<Self, Error> {
        Ok(Self::of(speed, new_top(speed, size)?))
    }

    /// Depth of a memory of the lookup, by the parameter of the top that sets it (`V4Leaves`).
    pub fn depth(size: SwitchSize, parameter: &str) -> Option<u32> {
        let parameters = match size {
            SwitchSize::Small => crate::SMALL_TABLES,
            SwitchSize::Full => crate::FULL_TABLES,
            SwitchSize::Wide => crate::WIDE_TABLES,
        };
        let found = parameters.iter().find(|(name, _)| *name == parameter);
        found.and_then(|(_, value)| value.parse().ok())
    }
}

impl WideSwitch {
    /// Creates a switch of 10G held in reset, with its clocks low.
    pub fn wide() -> Result<Self, Error> {
        Ok(Self::of(NetSpeed::TenGig, new_wide()?))
    }
}

impl NarrowSwitch {
    /// Creates a switch of two ports held in reset, with its clocks low.
    pub fn narrow(speed: NetSpeed) -> Result<Self, Error> {
        Ok(Self::of(speed, new_narrow(speed)?))
    }
}

impl<const N: usize> PortSwitch<N> {
    /// Network ports.
    pub const PORTS: usize = N;

    fn of(speed: NetSpeed, top: Box<dyn Top<N>>) -> Self {
        let net = [speed.idle(); N];
        Self {
            inputs: SwitchInputs {
                rst: true,
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
            top,
            applied: None,
            settled: false,
            time_ps: 0,
            dumped_ps: 0,
            tracing: false,
        }
    }

    /// Line rate.
    pub fn speed(&self) -> NetSpeed {
        self.speed
    }

    /// Applies reset for eight edges and releases it.
    pub fn reset(&mut self) -> Result<(), Error> {
        const EDGES: usize = 8;
        self.inputs.rst = true;
        for _ in 0..EDGES {
            self.settle()?;
            self.edge()?;
        }
        self.inputs.rst = false;
        self.settle()?;
        Ok(())
    }

    /// Sets the time of the coming edge in picoseconds, for waves and messages.
    #[inline]
    pub fn set_time(&mut self, ps: u64) {
        self.time_ps = ps;
        self.top.model().set_time(ps);
    }

    /// Lowers the clocks, applies the inputs, and returns the outputs before the coming edge.
    pub fn settle(&mut self) -> Result<&SwitchOutputs<N>, Error> {
        if self.has_steps() {
            if self.applied != Some(self.inputs) {
                self.top.apply(&self.inputs);
                self.top.model().eval_inputs()?;
                self.applied = Some(self.inputs);
                self.outputs = self.top.outputs();
            }
            self.settled = true;
            return Ok(&self.outputs);
        }
        self.top.clock(false);
        self.top.apply(&self.inputs);
        self.top.model().eval()?;
        self.applied = Some(self.inputs);
        self.settled = true;
        if self.tracing {
            // Half way to the coming edge, so that waves show clocks and not needles.
            self.dump(self.dumped_ps.midpoint(self.time_ps));
        }
        self.outputs = self.top.outputs();
        Ok(&self.outputs)
    }

    /// Raises the clocks and returns the outputs after the edge.
    pub fn edge(&mut self) -> Result<&SwitchOutputs<N>, Error> {
        if !self.settled {
            self.settle()?;
        }
        self.settled = false;
        self.top.clock(true);
        if self.has_steps() {
            self.top.model().eval_edge()?;
        } else {
            self.top.model().eval()?;
        }
        if self.tracing {
            self.dump(self.time_ps);
        }
        self.outputs = self.top.outputs();
        Ok(&self.outputs)
    }

    /// Whether half an evaluation will do: waves show the clocks low as well, and the first evaluation is a whole one.
    fn has_steps(&mut self) -> bool {
        !self.tracing && self.applied.is_some() && self.top.model().has_steps()
    }

    /// Outputs as of the last evaluation.
    #[inline]
    pub fn outputs(&self) -> &SwitchOutputs<N> {
        &self.outputs
    }

    /// Begins to write FST waves; the times are those of [`PortSwitch::set_time`]. Refused by
    /// [`SwitchSize::Full`], [`WideSwitch`] and [`NarrowSwitch`], which are built without them.
    pub fn trace(&mut self, path: &Path) -> Result<(), Error> {
        self.top.model().trace(path)?;
        self.tracing = true;
        // The next edge wants its clocks to have been low.
        self.settled = false;
        self.dumped_ps = self.time_ps;
        Ok(())
    }

    /// Ends the waves and completes their file.
    pub fn trace_close(&mut self) {
        self.tracing = false;
        self.top.model().trace_close();
    }

    /// Wave files hold one set of values for a time; edges without a time of their own are left out.
    fn dump(&mut self, ps: u64) {
        if ps > self.dumped_ps {
            self.dumped_ps = ps;
            self.top.model().dump(ps);
        }
    }
}

// What these return as errors is unreachable in a build that has all tops.
#[allow(unreachable_patterns)]
fn new_top(speed: NetSpeed, size: SwitchSize) -> Result<Box<dyn Top<4>>, Error> {
    match (speed, size) {
        #[cfg(has_fibnic_10g)]
        (NetSpeed::TenGig, SwitchSize::Small) => Ok(Box::new(crate::Fibnic10g::new())),
        #[cfg(has_fibnic_10g_full)]
        (NetSpeed::TenGig, SwitchSize::Full) => Ok(Box::new(crate::Fibnic10gFull::new())),
        #[cfg(has_fibnic_1g)]
        (NetSpeed::OneGig, SwitchSize::Small) => Ok(Box::new(crate::Fibnic1g::new())),
        #[cfg(has_fibnic_1g_full)]
        (NetSpeed::OneGig, SwitchSize::Full) => Ok(Box::new(crate::Fibnic1gFull::new())),
        (NetSpeed::TenGig, SwitchSize::Small) => Err(not_built("fibnic_10g")),
        (NetSpeed::TenGig, SwitchSize::Full) => Err(not_built("fibnic_10g_full")),
        (NetSpeed::OneGig, SwitchSize::Small) => Err(not_built("fibnic_1g")),
        (NetSpeed::OneGig, SwitchSize::Full) => Err(not_built("fibnic_1g_full")),
        (_, SwitchSize::Wide) => Err(not_built("fibnic_wide with four ports")),
    }
}

#[allow(unreachable_patterns)]
fn new_narrow(speed: NetSpeed) -> Result<Box<dyn Top<2>>, Error> {
    match speed {
        #[cfg(has_fibnic_10g_narrow)]
        NetSpeed::TenGig => Ok(Box::new(crate::Fibnic10gNarrow::new())),
        #[cfg(has_fibnic_1g_narrow)]
        NetSpeed::OneGig => Ok(Box::new(crate::Fibnic1gNarrow::new())),
        NetSpeed::TenGig => Err(not_built("fibnic_10g_narrow")),
        NetSpeed::OneGig => Err(not_built("fibnic_1g_narrow")),
    }
}

#[cfg(has_fibnic_10g_wide)]
fn new_wide() -> Result<Box<dyn Top<9>>, Error> {
    Ok(Box::new(crate::Fibnic10gWide::new()))
}

#[cfg(not(has_fibnic_10g_wide))]
fn new_wide() -> Result<Box<dyn Top<9>>, Error> {
    Err(not_built("fibnic_10g_wide"))
}

#[allow(dead_code)]
fn not_built(model: &'static str) -> Error {
    Error::NotBuilt { model }
}

/// All clocks of the receivers.
#[allow(dead_code)]
const fn all(ports: usize) -> u64 {
    (1 << ports) - 1
}
/// Fields of the host stream's `tuser`, from its low bit: verdict, port, bad.
#[allow(dead_code)]
const VERDICT_BITS: u32 = 5;
#[allow(dead_code)]
const BAD_BIT: u32 = 9;

/// Implements [`Top`] for a generated model; the two blocks set and read the network ports.
#[allow(unused_macros)]
macro_rules! impl_top {
    ($model:ty, $ports:literal, |$set:ident, $words:ident| $set_net:block, |$get:ident| $get_net:block) => {
        impl Top<$ports> for $model {
            #[inline]
            fn apply(&mut self, inputs: &SwitchInputs<$ports>) {
                self.set_rst_i(inputs.rst);
                self.set_rst_rx_i(if inputs.rst { all($ports) } else { 0 });
                let beat = inputs.host.unwrap_or_default();
                self.set_s_host_tvalid_i(inputs.host.is_some());
                self.set_s_host_tdata_i(beat.data);
                self.set_s_host_tkeep_i(beat.keep.into());
                self.set_s_host_tlast_i(beat.last);
                self.set_s_host_tuser_i(beat.port.into());
                self.set_m_host_tready_i(inputs.host_ready);
                self.set_wr_valid_i(inputs.write.is_some());
                if let Some(word) = inputs.write {
                    self.set_wr_mem_i(word.memory.into());
                    self.set_wr_addr_i(word.address.into());
                    self.set_wr_data_i(word.data);
                }
                self.set_cnt_idx_i(inputs.counter.into());
                let ($set, $words) = (self, &inputs.net);
                $set_net
            }

            #[inline]
            fn clock(&mut self, high: bool) {
                self.set_clk_i(high);
                self.set_clk_rx_i(if high { all($ports) } else { 0 });
            }

            #[inline]
            fn outputs(&self) -> SwitchOutputs<$ports> {
                let $get = self;
                SwitchOutputs {
                    net: $get_net,
                    host: self.m_host_tvalid_o().then(|| {
                        let user = self.m_host_tuser_o();
                        HostOut {
                            data: self.m_host_tdata_o(),
                            keep: self.m_host_tkeep_o() as u8,
                            last: self.m_host_tlast_o(),
                            bad: user >> BAD_BIT & 1 != 0,
                            port: (user >> VERDICT_BITS & 15) as u8,
                            verdict: (user & 31) as u8,
                        }
                    }),
                    host_in_ready: self.s_host_tready_o(),
                    write_ready: self.wr_ready_o(),
                    counter: self.cnt_o() as u32,
                    check: self.check_o() as u16,
                    busy: self.busy_o(),
                }
            }

            fn model(&mut self) -> &mut dyn crate::Model {
                self
            }
        }
    };
}

#[allow(unused_macros)]
macro_rules! impl_10g {
    ($model:ty, $ports:literal) => {
        impl_top!(
            $model,
            $ports,
            |top, words| {
                let mut controls = 0;
                for (port, word) in words.iter().enumerate() {
                    let NetWord::Xgmii { data, control } = *word else {
                        panic!("a 10G switch takes XGMII words, not {word:?}")
                    };
                    top.set_xgmii_rxd_i_lane(port, data);
                    controls |= u64::from(control) << (8 * port);
                }
                top.set_xgmii_rxc_i(controls);
            },
            |top| {
                let controls = top.xgmii_txc_o();
                std::array::from_fn(|port| NetWord::Xgmii {
                    data: top.xgmii_txd_o_lane(port),
                    control: (controls >> (8 * port)) as u8,
                })
            }
        );
    };
}

#[allow(unused_macros)]
macro_rules! impl_1g {
    ($model:ty, $ports:literal) => {
        impl_top!(
            $model,
            $ports,
            |top, words| {
                let (mut bytes, mut enables, mut errors) = (0, 0, 0);
                for (port, word) in words.iter().enumerate() {
                    let NetWord::Gmii {
                        data,
                        enable,
                        error,
                    } = *word
                    else {
                        panic!("a 1G switch takes GMII words, not {word:?}")
                    };
                    bytes |= u64::from(data) << (8 * port);
                    enables |= u64::from(enable) << port;
                    errors |= u64::from(error) << port;
                }
                top.set_gmii_rxd_i(bytes);
                top.set_gmii_rx_dv_i(enables);
                top.set_gmii_rx_er_i(errors);
            },
            |top| {
                let (bytes, enables, errors) =
                    (top.gmii_txd_o(), top.gmii_tx_en_o(), top.gmii_tx_er_o());
                std::array::from_fn(|port| NetWord::Gmii {
                    data: (bytes >> (8 * port)) as u8,
                    enable: enables >> port & 1 != 0,
                    error: errors >> port & 1 != 0,
                })
            }
        );
    };
}

#[cfg(has_fibnic_10g_wide)]
impl_top!(
    crate::Fibnic10gWide,
    9,
    |top, words| {
        let mut controls = [0; 2];
        for (port, word) in words.iter().enumerate() {
            let NetWord::Xgmii { data, control } = *word else {
                panic!("a 10G switch takes XGMII words, not {word:?}")
            };
            top.set_xgmii_rxd_i_lane(port, data);
            controls[port / 8] |= u64::from(control) << (8 * (port % 8));
        }
        top.set_xgmii_rxc_i(controls);
    },
    |top| {
        let controls = top.xgmii_txc_o();
        std::array::from_fn(|port| NetWord::Xgmii {
            data: top.xgmii_txd_o_lane(port),
            control: (controls[port / 8] >> (8 * (port % 8))) as u8,
        })
    }
);
#[cfg(has_fibnic_10g)]
impl_10g!(crate::Fibnic10g, 4);
#[cfg(has_fibnic_10g_narrow)]
impl_10g!(crate::Fibnic10gNarrow, 2);
#[cfg(has_fibnic_10g_full)]
impl_10g!(crate::Fibnic10gFull, 4);
#[cfg(has_fibnic_1g)]
impl_1g!(crate::Fibnic1g, 4);
#[cfg(has_fibnic_1g_narrow)]
impl_1g!(crate::Fibnic1gNarrow, 2);
#[cfg(has_fibnic_1g_full)]
impl_1g!(crate::Fibnic1gFull, 4);
