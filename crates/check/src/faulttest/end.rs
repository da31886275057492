// SPDX-License-Identifier: Apache-2.0
//! The two kinds of NIC behind one interface: TLPs and frames in, TLPs and frames out, time.

use std::collections::VecDeque;
use std::path::Path;

use crate::difftest::dut::{Dut, Event, Pace, RtlDut};
use crate::difftest::phy::{CutFrame, Fault, LineFrame};
use crate::difftest::pins::{Change, Reborn};
use ipnuma_rtl::{BusSettings, NetSpeed};
use model::{Config, FrameSource, LineFault, Sink, TlpSource};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// What a NIC is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The Verilated NIC.
    Rtl,
    /// The same as a function of a shell, which can be reset for itself.
    Shell,
    /// The reference model.
    Model,
}

impl Kind {
    /// Whether it is Verilated.
    pub fn is_rtl(self) -> bool {
        self != Self::Model
    }
}

/// What came out, each with its time in picoseconds.
#[derive(Debug, Default)]
pub struct Outputs {
    /// TLPs to the root complex.
    pub tlps: Vec<(u64, Vec<u8>)>,
    /// Frames without FCS, at the time when their last byte left.
    pub frames: Vec<(u64, Vec<u8>)>,
    /// Frames that a reset has cut, likewise.
    pub cuts: Vec<(u64, CutFrame)>,
    /// The NIC is through with a reset.
    pub reborn: Option<Reborn>,
}

/// A NIC in time.
pub trait End: Send {
    /// Queues a TLP from the root complex.
    fn push_tlp(&mut self, tlp: &[u8], bar: u8);
    /// Bytes of TLPs that were not yet taken.
    fn backlog(&self) -> usize;
    /// Bytes of frames that wait for the line.
    fn line_backlog(&self) -> usize;
    /// A frame (without FCS) that begins to arrive then; in order of time.
    fn push_frame(&mut self, at_ps: u64, frame: Vec<u8>);
    /// The same for one that was cut.
    fn push_cut(&mut self, at_ps: u64, frame: CutFrame);
    /// Goes on until a point in time.
    fn run(&mut self, until_ps: u64, out: &mut Outputs) -> Result<(), String>;
    /// Nothing is queued, and nothing will happen without new inputs.
    fn is_idle(&self) -> bool;
    /// When something can happen next without new inputs; a bound from below.
    fn wake_ps(&self) -> u64;
    /// The signal from the PHY.
    fn set_link(&mut self, up: bool);
    /// Takes the NIC through a reset: all that it knew is gone.
    fn restart(&mut self) -> Result<(), String>;
    /// Lets pins change later, if it has pins.
    fn schedule(&mut self, changes: &[Change]);
    /// Sets what the host has set in configuration space.
    fn set_bus(&mut self, bus: BusSettings);
    /// Writes of registers and stores that the NIC has taken since its last reset, and how many more there may be; if
    /// somebody counts.
    fn taken(&mut self) -> Option<[(u32, u32); 2]>;
    /// Whether a register may have been written since a reset was asserted.
    fn was_written(&mut self, offset: u32) -> bool;
    /// A function-level reset of a shell is under way, or about to be.
    fn in_function_reset(&self) -> bool;
    /// TLPs to the root complex that a function-level reset has cut.
    fn tlps_cut(&self) -> u64;
    /// How fast the root complex takes TLPs.
    fn set_pace(&mut self, pace: Pace);
    /// Writes waves from now on, if it can.
    fn trace(&mut self, file: &Path) -> Result<(), String>;
}

/// The RTL.
pub struct RtlEnd {
    dut: RtlDut,
    speed: NetSpeed,
    arrivals: VecDeque<(u64, Vec<u8>, Fault)>,
    events: Vec<Event>,
    now_us: u32,
    rng: ChaCha8Rng,
}

impl RtlEnd {
    /// A NIC after reset, in a shell or for itself.
    pub fn new(
        speed: NetSpeed,
        shell: bool,
        completer_id: u16,
        mut rng: ChaCha8Rng,
    ) -> Result<Self, String> {
        let fork = ChaCha8Rng::seed_from_u64(rng.random());
        let mut dut = if shell {
            RtlDut::shell(speed, completer_id, fork)?
        } else {
            RtlDut::new(speed, true, completer_id, fork)?
        };
        dut.slow_when_idle(true);
        Ok(Self {
            dut,
            speed,
            arrivals: VecDeque::new(),
            events: Vec::new(),
            now_us: 0,
            rng,
        })
    }
}

impl End for RtlEnd {
    fn push_tlp(&mut self, tlp: &[u8], bar: u8) {
        self.dut.push_tlp(tlp, bar);
    }

    fn backlog(&self) -> usize {
        8 * self.dut.backlog().0
    }

    fn line_backlog(&self) -> usize {
        let waiting = self.arrivals.iter().map(|(_, frame, _)| frame.len());
        waiting.sum::<usize>() + self.dut.backlog().1
    }

    fn push_frame(&mut self, at_ps: u64, mut frame: Vec<u8>) {
        let fcs = wire::fcs(&frame);
        frame.extend_from_slice(&fcs);
        self.arrivals.push_back((at_ps, frame, Fault::None));
    }

    fn push_cut(&mut self, at_ps: u64, frame: CutFrame) {
        let fault = if frame.ends {
            Fault::None
        } else {
            Fault::CutAt(frame.bytes.len())
        };
        self.arrivals.push_back((at_ps, frame.bytes, fault));
    }

    fn run(&mut self, until_ps: u64, out: &mut Outputs) -> Result<(), String> {
        let now_us = (self.dut.time_ps() / 1_000_000) as u32;
        if now_us != self.now_us && !self.is_idle() {
            self.now_us = now_us;
            self.dut.set_now(now_us);
        }
        while self.dut.next_edge_ps() < until_ps {
            if let Some((at, ..)) = self.arrivals.front() {
                if *at <= self.dut.next_edge_ps() {
                    let Some((_, bytes, fault)) = self.arrivals.pop_front() else {
                        break;
                    };
                    let lane_4 = self.speed == NetSpeed::TenGig && self.rng.random();
                    self.dut.push_frame(&LineFrame {
                        bytes,
                        fault,
                        gap: 12,
                        lane_4,
                        preamble: 7,
                    });
                    continue;
                }
            } else if self.dut.is_quiet(false) {
                self.dut.skip_to(until_ps);
                break;
            }
            self.dut.edge(None, &mut self.events)?;
            for event in self.events.drain(..) {
                let at = self.dut.time_ps();
                match event {
                    Event::Tlp(bytes) => out.tlps.push((at, bytes)),
                    Event::Frame(bytes) => out.frames.push((at, bytes)),
                    Event::Cut(cut) => out.cuts.push((at, cut)),
                }
            }
            out.reborn = self.dut.watch().take_reborn().or(out.reborn);
        }
        Ok(())
    }

    fn is_idle(&self) -> bool {
        self.arrivals.is_empty() && self.dut.backlog() == (0, 0) && self.dut.is_quiet(false)
    }

    fn wake_ps(&self) -> u64 {
        if self.is_idle() {
            u64::MAX
        } else {
            self.dut.next_edge_ps()
        }
    }

    fn set_link(&mut self, up: bool) {
        self.dut.set_link(up);
    }

    fn restart(&mut self) -> Result<(), String> {
        self.arrivals.clear();
        self.dut.restart()
    }

    fn schedule(&mut self, changes: &[Change]) {
        self.dut.schedule(changes.iter().copied());
    }

    fn set_bus(&mut self, bus: BusSettings) {
        self.dut.nic().inputs.bus = bus;
    }

    fn taken(&mut self) -> Option<[(u32, u32); 2]> {
        Some(self.dut.watch().taken())
    }

    fn was_written(&mut self, offset: u32) -> bool {
        self.dut.watch().was_written(offset)
    }

    fn in_function_reset(&self) -> bool {
        self.dut.in_function_reset()
    }

    fn tlps_cut(&self) -> u64 {
        self.dut.tlps_cut()
    }

    fn set_pace(&mut self, pace: Pace) {
        self.dut.set_pace(pace);
    }

    fn trace(&mut self, file: &Path) -> Result<(), String> {
        let traced = self.dut.nic().trace(file);
        traced.map_err(|error| error.to_string())
    }
}

/// Picoseconds that a byte takes on the PCI Express side.
const PCIE_BYTE_PS: u64 = 500;
/// Picoseconds that a byte takes on a line of 100 Gb/s.
const FAST_BYTE_PS: u64 = 80;
/// Bytes around a frame on the line: preamble, FCS and gap.
const LINE_BYTES: u64 = 24;

/// Gives what the model sends its time.
struct Clocked<'a> {
    now_ps: u64,
    byte_ps: u64,
    line_free_ps: &'a mut u64,
    out: &'a mut Outputs,
}

impl Sink for Clocked<'_> {
    fn tlp(&mut self, _source: TlpSource, bytes: &[u8]) {
        self.out.tlps.push((self.now_ps, bytes.to_vec()));
    }

    fn frame(&mut self, _source: FrameSource, bytes: &[u8]) {
        let begin = self.now_ps.max(*self.line_free_ps);
        *self.line_free_ps = begin + (bytes.len() as u64 + LINE_BYTES) * self.byte_ps;
        self.out.frames.push((*self.line_free_ps, bytes.to_vec()));
    }
}

/// Operations that wait for their session in the model before it takes no more TLPs: the slots of
/// the hardware.
const MAX_OUTGOING: usize = 16;

/// The model, which takes no time but that of bytes on its two lines.
pub struct ModelEnd {
    nic: model::Nic,
    config: Config,
    byte_ps: u64,
    tick_ps: u64,
    ticks: u64,
    tlps: VecDeque<(Vec<u8>, u8)>,
    backlog: usize,
    arrivals: VecDeque<(u64, Vec<u8>)>,
    now_ps: u64,
    tlp_free_ps: u64,
    line_free_ps: u64,
    now_us: u32,
    link: Option<bool>,
}

impl ModelEnd {
    /// A model after reset; with `fast` its line never waits for what its root complex asks for.
    pub fn new(speed: NetSpeed, fast: bool, config: Config) -> Self {
        // A peer may ask for a window of frames with each of its own: without an end, on a line that takes no time.
        let config = Config {
            paced: true,
            ..config
        };
        Self {
            nic: model::Nic::new(config.clone()),
            config,
            byte_ps: match speed {
                _ if fast => FAST_BYTE_PS,
                NetSpeed::TenGig => 800,
                NetSpeed::OneGig => 8_000,
            },
            tick_ps: u64::from(wire::SESSION_TICK_CYCLES) * speed.net_period_ps(),
            ticks: 0,
            tlps: VecDeque::new(),
            backlog: 0,
            arrivals: VecDeque::new(),
            now_ps: 0,
            tlp_free_ps: 0,
            line_free_ps: 0,
            now_us: 0,
            link: None,
        }
    }

    /// When the line takes the next frame that must be sent again.
    fn resend_ps(&self) -> u64 {
        if self.nic.has_resends() {
            self.line_free_ps
        } else {
            u64::MAX
        }
    }

    /// Moves the model's clocks on to `now_ps`.
    fn clock(&mut self, now_ps: u64, out: &mut Outputs) {
        self.now_ps = now_ps;
        let (ticks, now_us) = (now_ps / self.tick_ps, (now_ps / 1_000_000) as u32);
        if ticks == self.ticks && now_us == self.now_us && self.link.is_none() {
            return;
        }
        let mut sink = Clocked {
            now_ps,
            byte_ps: self.byte_ps,
            line_free_ps: &mut self.line_free_ps,
            out,
        };
        if ticks != self.ticks {
            self.nic.tick_net(ticks - self.ticks, &mut sink);
            self.ticks = ticks;
        }
        if now_us != self.now_us {
            self.nic.tick(now_us, &mut sink);
            self.now_us = now_us;
        }
        if let Some(up) = self.link.take() {
            self.nic.set_link(up, &mut sink);
        }
    }
}

impl End for ModelEnd {
    fn push_tlp(&mut self, tlp: &[u8], bar: u8) {
        self.backlog += tlp.len();
        self.tlps.push_back((tlp.to_vec(), bar));
    }

    fn backlog(&self) -> usize {
        self.backlog
    }

    fn line_backlog(&self) -> usize {
        self.arrivals.iter().map(|(_, frame)| frame.len()).sum()
    }

    fn push_frame(&mut self, at_ps: u64, mut frame: Vec<u8>) {
        let fcs = wire::fcs(&frame);
        frame.extend_from_slice(&fcs);
        self.arrivals.push_back((at_ps, frame));
    }

    fn push_cut(&mut self, _at_ps: u64, _frame: CutFrame) {
        // The model has no MAC that would refuse it.
    }

    fn run(&mut self, until_ps: u64, out: &mut Outputs) -> Result<(), String> {
        loop {
            let arrival = self.arrivals.front().map_or(u64::MAX, |next| next.0);
            let request = if self.tlps.is_empty() || self.nic.outgoing() >= MAX_OUTGOING {
                u64::MAX
            } else {
                self.tlp_free_ps
            };
            let again = self.resend_ps();
            let next = arrival.min(request).min(again).max(self.now_ps);
            if next >= until_ps {
                break;
            }
            self.clock(next, out);
            let mut sink = Clocked {
                now_ps: next,
                byte_ps: self.byte_ps,
                line_free_ps: &mut self.line_free_ps,
                out,
            };
            if arrival <= next {
                if let Some((_, frame)) = self.arrivals.pop_front() {
                    self.nic.frame_from_wire(&frame, LineFault::None, &mut sink);
                }
            } else if again <= next {
                self.nic.resend_next(&mut sink);
            } else if let Some((tlp, bar)) = self.tlps.pop_front() {
                self.backlog -= tlp.len();
                self.tlp_free_ps = next + tlp.len() as u64 * PCIE_BYTE_PS;
                self.nic.tlp_from_root(&tlp, bar, &mut sink);
            }
        }
        // What is due by itself comes at the end of the window.
        self.clock(self.now_ps.max(until_ps), out);
        Ok(())
    }

    fn is_idle(&self) -> bool {
        self.arrivals.is_empty()
            && self.tlps.is_empty()
            && self.link.is_none()
            && self.nic.is_quiet()
    }

    fn wake_ps(&self) -> u64 {
        let taken = self.tlps.is_empty() || self.nic.outgoing() >= MAX_OUTGOING;
        if !self.arrivals.is_empty() || !taken || self.link.is_some() {
            return self.now_ps;
        }
        let ticks = self.nic.net_deadline();
        let us = self.nic.us_deadline();
        let by_ticks = ticks.map_or(u64::MAX, |ticks| (self.ticks + ticks) * self.tick_ps);
        let by_us = us.map_or(u64::MAX, |us| {
            (u64::from(self.now_us) + u64::from(us)) * 1_000_000
        });
        by_ticks.min(by_us).min(self.resend_ps())
    }

    fn set_link(&mut self, up: bool) {
        self.link = Some(up);
    }

    fn restart(&mut self) -> Result<(), String> {
        self.nic = model::Nic::new(self.config.clone());
        self.tlps.clear();
        self.backlog = 0;
        self.arrivals.clear();
        Ok(())
    }

    fn schedule(&mut self, _changes: &[Change]) {}

    fn set_bus(&mut self, _bus: BusSettings) {}

    fn taken(&mut self) -> Option<[(u32, u32); 2]> {
        None
    }

    fn was_written(&mut self, _offset: u32) -> bool {
        true
    }

    fn in_function_reset(&self) -> bool {
        false
    }

    fn tlps_cut(&self) -> u64 {
        0
    }

    fn set_pace(&mut self, _pace: Pace) {}

    fn trace(&mut self, _file: &Path) -> Result<(), String> {
        Err("the model has no waves: choose a cell with RTL".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    /// A read of a register, as the root complex sends it.
    fn register_read() -> Vec<u8> {
        let request = wire::MemRequest {
            length: 1,
            first_be: 0xF,
            address: wire::registers::REG_MAC_LO.into(),
            ..wire::MemRequest::default()
        };
        let tlp = wire::TlpHeader::MemRead(request).emit(&[]);
        tlp.expect("a read")
    }

    #[test]
    fn a_nic_that_stood_still_goes_on_at_the_time_it_is() {
        const FAR_PS: u64 = 50_000_000_000;
        for speed in [NetSpeed::TenGig, NetSpeed::OneGig] {
            let mut end =
                RtlEnd::new(speed, false, 1, ChaCha8Rng::seed_from_u64(1)).expect("a NIC");
            let mut out = Outputs::default();
            end.run(10_000_000, &mut out).expect("it runs");
            assert!(end.is_idle());
            end.run(FAR_PS, &mut out).expect("it runs");
            end.push_tlp(&register_read(), model::BAR_REGISTERS);
            end.run(FAR_PS + 1_000_000, &mut out).expect("it runs");
            let [(at, _)] = &out.tlps[..] else {
                panic!("{} completions", out.tlps.len());
            };
            assert!(*at >= FAR_PS, "answered at {at} ps");
            assert_eq!(end.now_us, 50_000, "its clock tells another time");
        }
    }
}
