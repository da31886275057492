// SPDX-License-Identifier: Apache-2.0
//! One side of a NIC is reset at any moment, bus-master enable goes and comes, and the host's driver puts things right.
//!
//! What is promised, and by whom it is checked ([`Ledger`](crate::faulttest::ledger) unless another is named):
//!
//! | what happens | promise |
//! |---|---|
//! | function-level reset: `rst_pcie_i` alone | both sides begin anew at once. The stream ends where it is in both directions, as the PCI Express block's does; nothing is offered or taken while it lasts. A frame that was leaving is cut, and refused by the other MAC; later ones leave whole |
//! | function-level reset of a shell: `flr_i` | requests from then on are dropped, and nothing else is until the shell tells the end: the host sees whole TLPs only. Then both sides have begun anew; a frame that was leaving is spoiled |
//! | reset of the network side: `rst_net_i` alone | the host sees whole TLPs only, and each load and register read that it sent gets an answer (a run does not come to rest without); then both sides begin anew |
//! | both, one before the other | as a function-level reset |
//! | link lost | frames are lost; the host gets an event each for down and up (`compare`) |
//! | bus-master enable off | no memory request begins (`ResetWatch`); nothing is lost that was acknowledged |
//! | in all of them | no DW is written twice, elsewhere, or in the order of another store; nothing from before a reset is written or leaves after it; a register that was written before a reset holds its reset value after it, and is written as often as the host wrote it since |
//! | with a session | its stores come once and in order until it begins anew; what a flush has promised was written; the host knows of the rest that it may be lost, since it wrote the session anew (`Stream`) |
//! | without one | stores may be lost around a reset of either end and while a receiver may not write; the others come once and in order (`Stream`) |
//!
//! The driver does what software has to: it sends nothing to a NIC that it knows to be in reset, reads a register until
//! it is answered, waits until the root complex owes no completion from before (PCI Express Base 2.0, 6.6.2), writes the
//! tables, sets bus-master enable, and gives each session a new epoch at both ends. Where events were lost, for which only
//! a NIC without bus-master enable has a reason, it gives all sessions a new epoch.
//!
//! Of a reset of the network side it learns late. What it wrote meanwhile waits, and holds when the NIC is through: there
//! may be sessions then, and no regions, so that stores and loads of the other end are refused until the tables are there.

use super::*;

use crate::difftest::pins::{Change, Pin, Reborn};
use ipnuma_rtl::BusSettings;
use wire::registers::{REGISTERS, Reset};

/// From a function-level reset until the MAC is silent: two synchronisers, and the slower clock.
const SILENT_PS: u64 = 200_000;
/// From the assertion of a reset until the NIC's gate is certainly shut.
const SHUT_PS: u64 = 100_000;
/// From a sound NIC until what was lost on the way to it is known to be lost.
const SETTLED_PS: u64 = 5 * US;
/// From bus-master enable until events are told that were lost without it.
const STARVED_PS: u64 = 10 * US;
/// Registers that were written last and are looked at after a reset.
const REMEMBERED: usize = 4;

/// What a host's driver does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Driver {
    /// It works.
    #[default]
    Up,
    /// A reset has been asserted, of which it may not know yet.
    Down,
    /// It reads registers, and knows what they must hold: these are left, with the bits that count.
    Probing(Vec<(u32, u32, u32)>),
}

/// A machine's driver.
#[derive(Clone, Debug, Default)]
pub(super) struct Care {
    pub(super) driver: Driver,
    /// Number of the last reset.
    turn: u32,
    /// It knows of it, and sends nothing.
    knows: bool,
    /// The PCIe side was among what was reset.
    function_level: bool,
    /// The NIC may have sessions without regions: its network side was reset, and it is not set up again.
    pub(super) bare: bool,
    /// When the last of its resets is asserted.
    asserted_ps: u64,
    /// All its resets are over by then.
    until_ps: u64,
    /// Registers that were written last.
    written: Vec<u32>,
    /// Writes of registers that were sent so far, and those up to the end of the last set-up.
    sent: u32,
    set_up: u32,
}

/// How often what happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resets {
    /// Function-level resets of shells.
    pub functions: u64,
    /// Resets of the PCIe side alone, as the host sees them.
    pub function_level: u64,
    /// Resets of the network side alone.
    pub network: u64,
    /// Of both, with skew.
    pub both: u64,
    /// Of models.
    pub models: u64,
    /// Frames that were cut.
    pub frames_cut: u64,
    /// TLPs to the host that a function-level reset cut.
    pub tlps_cut: u64,
    /// How often bus-master enable was taken away.
    pub masters: u64,
    /// How often the link was taken away.
    pub links: u64,
    /// Events that were lost meanwhile, and the host was told so.
    pub events_lost: u64,
    /// DWs of DMA writes and stores in frames whose identity was looked at.
    pub looked_at: (u64, u64),
    /// Registers that were read after a reset.
    pub probes: u64,
}

impl std::ops::AddAssign for Resets {
    fn add_assign(&mut self, other: Self) {
        self.functions += other.functions;
        self.function_level += other.function_level;
        self.network += other.network;
        self.both += other.both;
        self.models += other.models;
        self.frames_cut += other.frames_cut;
        self.tlps_cut += other.tlps_cut;
        self.masters += other.masters;
        self.links += other.links;
        self.events_lost += other.events_lost;
        self.looked_at.0 += other.looked_at.0;
        self.looked_at.1 += other.looked_at.1;
        self.probes += other.probes;
    }
}

/// What the host has set, drawn.
fn draw_bus(rng: &mut ChaCha8Rng) -> BusSettings {
    BusSettings {
        max_payload: rng.random_range(0..3),
        max_read: rng.random_range(0..4),
        rcb_128: rng.random(),
        bus_master: true,
    }
}

/// What a register holds after a reset, and which bits count; `None` if software cannot know.
fn after_reset(offset: u32) -> Option<(u32, u32)> {
    let commits = |base: u32, stride: u32, bytes: u32| {
        (base..base + bytes).contains(&offset) && (offset - base) % stride == stride - 4
    };
    if let Some(register) = REGISTERS.iter().find(|register| register.offset == offset) {
        return match register.reset {
            Reset::Value(value) if offset != reg::REG_FLUSH => Some((value, register.mask)),
            _ => None,
        };
    }
    // No entry is valid, whatever else their memories hold.
    let is_entry = commits(reg::PC_ID_BASE, 16, 0x10_0000)
        || commits(reg::REGION_BASE, 32, 0x20_0000)
        || commits(reg::SESSION_BASE, 32, 0x2000);
    is_entry.then_some((0, 1))
}

impl Sim {
    /// Draws what the host has set, and lets stores to it come in as many pieces.
    pub(super) fn set_bus(&mut self, end: usize) {
        let mut bus = draw_bus(&mut self.rng);
        if !self.reliable() {
            // With 128 bytes a read takes its time in the slots' reader (`server_dma`), they fill up, and frames are lost
            // for which nobody but a session makes up.
            bus.max_read = bus.max_read.max(1);
        }
        self.bus[end] = bus;
        self.ends[end].set_bus(bus);
        if bus.max_payload == 0 {
            for stream in &mut self.streams[1 - end] {
                stream.set_piece(128);
            }
        }
    }

    /// The host of this end has something else to do than to store.
    pub(super) fn is_silent(&self, end: usize) -> bool {
        self.care[end].driver != Driver::Up && self.care[end].knows
    }

    pub(super) fn drivers_are_up(&self) -> bool {
        self.care.iter().all(|care| care.driver == Driver::Up)
    }

    /// Notes a register that is written.
    pub(super) fn remember_write(&mut self, end: usize, offset: u32) {
        self.care[end].sent += 1;
        if self.plan.one_sided == 0 || after_reset(offset).is_none() {
            return;
        }
        let written = &mut self.care[end].written;
        written.retain(|other| *other != offset);
        written.push(offset);
        if written.len() > REMEMBERED {
            written.remove(0);
        }
    }

    /// Notes that the tables of a NIC have been sent.
    pub(super) fn set_up_ends(&mut self, end: usize) {
        let care = &mut self.care[end];
        care.set_up = care.sent;
    }

    /// One to three pulses of the resets of a NIC, from anywhere in the coming window on.
    pub(super) fn disturb(&mut self, end: usize) -> Result<(), String> {
        if self.plan.ends[end] == Kind::Model {
            self.report.resets.models += 1;
            self.ledger.reset(end, self.now_ps);
            self.lossy(true);
            self.reset_nic(end)?;
            self.care[end].turn += 1;
            self.sound_later(end);
            return Ok(());
        }
        if self.plan.ends[end] == Kind::Shell && self.rng.random() {
            self.reset_function(end);
            return Ok(());
        }
        let rng = &mut self.rng;
        let mut at = self.now_ps + rng.random_range(0..self.window_ps);
        let mut changes = Vec::new();
        let mut function_level = None;
        let mut bare = false;
        let mut asserted = at;
        let mut until = at;
        let pulses = *[1, 1, 1, 1, 1, 2, 2, 3].choose(rng).unwrap_or(&1);
        for _ in 0..pulses {
            let kind = rng.random_range(0..5);
            let (pcie, net) = (kind != 2 && kind != 3, kind >= 2);
            bare |= !pcie;
            let counts = &mut self.report.resets;
            match (pcie, net) {
                (true, false) => counts.function_level += 1,
                (false, _) => counts.network += 1,
                (true, true) => counts.both += 1,
            }
            let begin = at;
            for (wanted, pin, period) in [
                (pcie, Pin::RstPcie, 4_000),
                (net, Pin::RstNet, self.plan.speed.net_period_ps()),
            ] {
                if !wanted {
                    continue;
                }
                let skew = if pcie && net {
                    rng.random_range(0..20) * period / 2
                } else {
                    0
                };
                let edges = *[1, 1, 2, 3, 8, 30, 300, 4_000].choose(rng).unwrap_or(&1);
                let (on, off) = (begin + skew, begin + skew + edges * period);
                for (at_ps, level) in [(on, true), (off, false)] {
                    changes.push(Change { at_ps, pin, level });
                }
                if pin == Pin::RstPcie {
                    function_level.get_or_insert(on);
                }
                asserted = asserted.max(on);
                until = until.max(off);
            }
            at = until
                + *[100, 4_000, 40_000, 300_000, 3 * US]
                    .choose(rng)
                    .unwrap_or(&0);
        }
        self.ends[end].schedule(&changes);
        if let Some(at) = function_level {
            self.ledger.reset(end, at);
            self.ledger.forbid(end, at + SILENT_PS);
        }
        // Who resets a function knows it; of a PHY's reset the host is told.
        let wait = *[0, 0, 300_000, 3 * US, 20 * US].choose(rng).unwrap_or(&0);
        let wait = rng.random_range(0..=wait);
        let care = &mut self.care[end];
        care.turn += 1;
        care.function_level =
            function_level.is_some() || care.driver != Driver::Up && care.function_level;
        // An earlier disturbance may have more to come.
        care.asserted_ps = care.asserted_ps.max(asserted);
        care.until_ps = care.until_ps.max(until);
        let told = if care.function_level {
            care.until_ps
        } else {
            care.asserted_ps
        };
        care.knows |= care.function_level;
        care.bare |= bare;
        care.driver = Driver::Down;
        let (turn, function_level) = (care.turn, care.function_level);
        let host = &mut self.hosts[end];
        host.register_read = RegisterRead::None;
        for load in host.loads.iter_mut().flatten() {
            load.doomed = true;
        }
        if function_level {
            host.msi_owed = false;
        }
        if bare {
            let loads = self.hosts[1 - end].loads.iter_mut().flatten();
            loads.for_each(|load| load.bare = true);
            // Until the sessions begin anew.
            let streams = self.streams[1 - end].iter_mut();
            streams.for_each(|stream| stream.doubt(u64::MAX));
        }
        self.lossy(true);
        // Actions happen at the beginning of the window that they fall in.
        let at = told + SHUT_PS + self.window_ps + wait;
        self.actions.push((at, Action::Probe { end, turn }));
        Ok(())
    }

    /// A function-level reset of a shell, from anywhere in the coming window on. What went to the function before is not lost by it;
    /// when it is over comes from the shell ([`Sim::reborn`]).
    fn reset_function(&mut self, end: usize) {
        let at_ps = self.now_ps + self.rng.random_range(0..self.window_ps);
        self.report.resets.functions += 1;
        self.ends[end].schedule(&[Change {
            at_ps,
            pin: Pin::Flr,
            level: true,
        }]);
        let care = &mut self.care[end];
        care.turn += 1;
        (care.function_level, care.knows, care.driver) = (true, true, Driver::Down);
        care.asserted_ps = care.asserted_ps.max(at_ps);
        care.until_ps = care.until_ps.max(at_ps);
        let (turn, at) = (care.turn, care.until_ps + SHUT_PS + self.window_ps);
        let host = &mut self.hosts[end];
        host.register_read = RegisterRead::None;
        host.msi_owed = false;
        for load in host.loads.iter_mut().flatten() {
            load.doomed = true;
        }
        self.lossy(true);
        self.actions.push((at, Action::Probe { end, turn }));
    }

    /// Without sessions nobody is told of what is lost from now on, or no more.
    fn lossy(&mut self, lossy: bool) {
        if self.reliable() {
            return;
        }
        let loads = self.hosts.iter_mut().flat_map(|host| &mut host.loads);
        loads.flatten().for_each(|load| load.doomed = true);
        let now_ps = self.now_ps;
        for stream in self.streams.iter_mut().flatten() {
            stream.excuse(now_ps, true);
            stream.set_lossy(lossy);
        }
    }

    pub(super) fn sound_later(&mut self, end: usize) {
        let turn = self.care[end].turn;
        if !self.reliable() {
            self.later(SETTLED_PS, Action::Sound { end, turn });
        }
    }

    /// A NIC takes stores again, and all that went to it before has come or is lost.
    pub(super) fn sound(&mut self, end: usize, turn: u32) {
        if self.care[end].turn != turn {
            return;
        }
        let waits = self.ends.iter().any(|end| end.backlog() > 0)
            || self.masters_off != [false; 2]
            || !self.drivers_are_up();
        if waits {
            self.sound_later(end);
        } else {
            self.lossy(false);
        }
    }

    /// Bus-master enable goes, and comes back after a while.
    pub(super) fn take_master(&mut self, end: usize) {
        if self.care[end].driver != Driver::Up || self.masters_off[end] {
            // A function-level reset takes it away as well, and the driver gives it back.
            return;
        }
        let longest = *[US / 2, 5 * US, 60 * US]
            .choose(&mut self.rng)
            .unwrap_or(&US);
        let from = self.now_ps + self.rng.random_range(0..self.window_ps);
        let until = from + self.rng.random_range(0..longest);
        let changes = [(from, false), (until, true)].map(|(at_ps, level)| Change {
            at_ps,
            pin: Pin::BusMaster,
            level,
        });
        self.ends[end].schedule(&changes);
        self.masters_off[end] = true;
        self.starved_ps[end] = until + STARVED_PS;
        self.report.resets.masters += 1;
        self.lossy(true);
        self.actions
            .push((until + self.window_ps, Action::MasterOn { end }));
    }

    /// The NIC could not tell its host all events: the driver does not know of refusals, flushes and peers.
    pub(super) fn events_lost(&mut self, end: usize, event: &EventEntry) -> Result<(), String> {
        if self.now_ps > self.starved_ps[end] {
            return Err(format!("events were lost for no reason: {event:x?}"));
        }
        self.report.resets.events_lost += event.address;
        self.hosts[end].missed = true;
        for pair in 0..self.pairs.len() {
            self.streams[end][pair].lose_events(self.now_ps);
            self.pairs[pair].up[end] = false;
            let wait = self.rng.random_range(0..20 * US);
            self.later(wait, Action::BeginAnew { pair });
        }
        Ok(())
    }

    /// The driver begins to ask its NIC whether it is through.
    pub(super) fn probe(&mut self, end: usize, turn: u32) {
        if self.care[end].turn != turn {
            return;
        }
        if self.ends[end].in_function_reset() {
            self.later(self.window_ps, Action::Probe { end, turn });
            return;
        }
        let host = &mut self.hosts[end];
        if self.care[end].function_level {
            // The root complex has given them up.
            host.loads.iter_mut().for_each(|load| *load = None);
        }
        let care = &mut self.care[end];
        care.knows = true;
        let mut probes = vec![(reg::REG_ID, wire::registers::ID_VALUE, !0)];
        // The last one that was written is the first that is looked at.
        for offset in care.written.iter().rev() {
            if let Some((value, mask)) = after_reset(*offset) {
                probes.push((*offset, value, mask));
            }
        }
        probes.reverse();
        let first = probes.last().map_or(0, |probe| probe.0);
        care.driver = Driver::Probing(probes);
        self.ask_register(end, first);
    }

    /// The drivers go on, if their NICs have answered.
    pub(super) fn drive(&mut self) -> Result<(), String> {
        for end in 0..2 {
            let Driver::Probing(probes) = &mut self.care[end].driver else {
                continue;
            };
            if let RegisterRead::Done(got) = self.hosts[end].register_read {
                self.hosts[end].register_read = RegisterRead::None;
                self.report.resets.probes += 1;
                let Some((offset, value, mask)) = probes.pop() else {
                    continue;
                };
                if got & mask != value & mask && !self.ends[end].was_written(offset) {
                    return Err(format!(
                        "after a reset of NIC {end}, and before anybody wrote to it, register {offset:#x} holds \
                         {got:#x}, not {value:#x} (mask {mask:#x}): something from before was carried out"
                    ));
                }
                if let Some((next, ..)) = probes.last() {
                    let next = *next;
                    self.ask_register(end, next);
                }
            }
            let done = matches!(&self.care[end].driver, Driver::Probing(left) if left.is_empty());
            if done && self.hosts[end].answers.is_empty() {
                self.recover(end);
            }
        }
        Ok(())
    }

    /// The NIC is through: the driver begins anew.
    fn recover(&mut self, end: usize) {
        self.was_reset[end] = true;
        self.hosts[end].msi_owed = false;
        let care = &mut self.care[end];
        (care.driver, care.knows, care.function_level) = (Driver::Up, false, false);
        care.bare = false;
        care.written.clear();
        self.ledger.set_up(end);
        let master = Change {
            at_ps: self.now_ps + self.rng.random_range(0..2 * US),
            pin: Pin::BusMaster,
            level: true,
        };
        self.masters_off[end] = false;
        self.starved_ps[end] = master.at_ps + STARVED_PS;
        self.ends[end].schedule(&[master]);
        self.set_up(end, false);
        if self.reliable() {
            for index in 0..self.pairs.len() {
                self.begin_anew(index, Some(end));
            }
        } else {
            self.report.anew += 1;
        }
        self.sound_later(end);
    }

    /// A NIC took the first TLP after a reset: from there on nothing is from before it.
    pub(super) fn reborn(&mut self, end: usize, reborn: Reborn) {
        let Reborn { at_ps, stores, .. } = reborn;
        self.ledger.forbid_taken(end, at_ps, stores);
        if reborn.writes < self.care[end].set_up {
            // Its host was writing its tables when the reset came. What waited at the gate holds, and may be enough for
            // the stores behind it.
            self.ledger.reset_amid_set_up(end, at_ps);
        } else {
            self.ledger.reset(end, at_ps);
            self.ledger.forbid(end, at_ps);
        }
    }

    /// What the host sent since the last reset was counted once by its NIC.
    pub(super) fn compare_taken(&mut self, end: usize) -> Result<(), String> {
        let taken = self.ends[end].taken().filter(|_| self.was_reset[end]);
        let Some([(writes, stores), doubted]) = taken else {
            return Ok(());
        };
        let counters = [
            PcieCounter::TlpRegisterWrite,
            PcieCounter::TlpStore,
            PcieCounter::TlpStoreUnmapped,
        ];
        let mut counts = [0; 3];
        for (count, counter) in counts.iter_mut().zip(counters) {
            *count = self.read_register(end, counter.offset())?;
        }
        let [counted, mapped, unmapped] = counts;
        let few = |counted: u32, taken: u32, more: u32| (taken..=taken + more).contains(&counted);
        if !few(counted, writes, doubted.0) || !few(mapped + unmapped, stores, doubted.1) {
            return Err(format!(
                "NIC {end} has taken {writes} writes of registers and {stores} stores since its reset, at most \
                 {doubted:?} more, and counted {counted}, and {mapped} stores and {unmapped} without a page"
            ));
        }
        Ok(())
    }
}
