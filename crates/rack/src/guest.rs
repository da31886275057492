// SPDX-License-Identifier: Apache-2.0
//! A host whose CPU is a guest: a whole Linux kernel with its programs, run by the calendar.
//!
//! The guest computes in no time, until it waits or a driver charges time. [`GuestNode`] joins its devices to the rack: a
//! network device to a cable, a PCI device to the root complex of the host and the NIC behind it. A NIC of several functions is
//! as many PCI devices, in the order of their numbers.
//!
//! BAR 4 of the PCI device is no hardware. It models a core that polls: code of a guest that takes no time cannot poll.
//! A driver that wants to wait arms a block of memory there and sleeps, and is woken when a polling core would have seen
//! a DMA write to the block.
//!
//! The IP-NUMA NIC has no network device. Guests with one have an ordinary network beside it, for what has to be told
//! before stores can go: a constant delay from guest to guest, no cables, no share in any result.

use std::collections::VecDeque;

use wire::tlp::{Completion, CompletionStatus};

use crate::calendar::{ComponentId, Message, Outbox, Tlp};
use crate::error::Error;
use crate::platform::HostTiming;
use crate::rack::Rack;
use crate::record::Recorder;
use crate::root::{FromNic, RootComplex, enabled_runs};
use crate::tables;
use crate::time::Picoseconds;

mod behind;
mod place;

pub use behind::Behind;
use place::{FUNCTIONS, Place, lines, seat, seated};

pub use uml::{GuestEvent, Next, Timed};

/// Nanoseconds that a guest is let run alone at most, so that the rack looks at its limits now and then.
const MOST_FREE: u64 = 100_000_000;
/// Times that a guest may want to run again at one and the same time before it counts as hung.
const MOST_RUNS: u32 = 100_000;
/// The device of a guest that is its NIC without RTL.
const DEVICE: usize = 0;
/// The network card of the network beside the rack's.
const MANAGEMENT_DEVICE: usize = 1;
/// From guest to guest over that network, kernels included; nobody measures it.
const MANAGEMENT_DELAY: Picoseconds = Picoseconds::from_us(30);
/// MSI vector of the NIC itself.
pub const NIC_VECTOR: u8 = 0;
/// MSI vector that wakes what waits for memory, see BAR 4.
pub const POLL_VECTOR: u8 = 1;
/// Blocks that can be armed at once.
const MOST_ARMED: usize = 4096;
const PAGE_SHIFT: u32 = 12;
/// BAR 4: address of a block to watch, once; its low six bits are log2 of its pages.
const POLL_ARM: u64 = 0x00;
/// BAR 4: forget all blocks.
const POLL_DISARM_ALL: u64 = 0x08;
/// BAR 4: forget the block that was armed with this value.
const POLL_DISARM: u64 = 0x10;
/// BAR 4: the time in nanoseconds, to be read; the guest's process answers that itself.
pub const POLL_CLOCK: u64 = 0x18;

/// A guest as the rack sees it: `uml::Guest`, or a script in a test. Times are nanoseconds.
pub trait GuestPort {
    /// Lets the guest run from `now`, on its own until `free_until` at most, and after each of its events until the
    /// event's time and `lookahead` at most; returns when it waits.
    fn run(
        &mut self,
        now: u64,
        free_until: u64,
        lookahead: u64,
        events: &mut Vec<Timed>,
    ) -> Result<Next, String>;
    /// Gives the network device a frame; false if it had no buffer for it.
    fn receive(&mut self, now: u64, device: usize, frame: &[u8]) -> Result<bool, String>;
    /// Answers a load.
    fn complete_read(&mut self, now: u64, tag: u64, bytes: &[u8]) -> Result<(), String>;
    /// Raises a vector of the PCI device.
    fn interrupt(&mut self, now: u64, device: usize, vector: u8) -> Result<(), String>;
    /// The link of a network device is lost or comes back.
    fn set_link(&mut self, now: u64, device: usize, up: bool) -> Result<(), String> {
        let _ = (now, up);
        Err(format!("network device {device} has no link to be lost"))
    }
    /// The vector that a write to this address means, if it does.
    fn msi_vector(&self, device: usize, address: u64, data: u32) -> Option<u8>;
    /// Reads guest memory.
    fn read_memory(&self, address: u64, bytes: &mut [u8]) -> Result<(), String>;
    /// Writes guest memory.
    fn write_memory(&mut self, address: u64, bytes: &[u8]) -> Result<(), String>;
    /// What the guest waits for.
    fn next(&self) -> Next;
}

impl GuestPort for uml::Guest {
    fn run(
        &mut self,
        now: u64,
        free_until: u64,
        lookahead: u64,
        events: &mut Vec<Timed>,
    ) -> Result<Next, String> {
        Self::run(self, now, free_until, lookahead, events).map_err(|error| error.to_string())
    }

    fn receive(&mut self, now: u64, device: usize, frame: &[u8]) -> Result<bool, String> {
        Self::receive(self, now, device, frame).map_err(|error| error.to_string())
    }

    fn complete_read(&mut self, now: u64, tag: u64, bytes: &[u8]) -> Result<(), String> {
        Self::complete_read(self, now, tag, bytes).map_err(|error| error.to_string())
    }

    fn interrupt(&mut self, now: u64, device: usize, vector: u8) -> Result<(), String> {
        Self::interrupt(self, now, device, vector).map_err(|error| error.to_string())
    }

    fn set_link(&mut self, now: u64, device: usize, up: bool) -> Result<(), String> {
        Self::set_link(self, now, device, up).map_err(|error| error.to_string())
    }

    fn msi_vector(&self, device: usize, address: u64, data: u32) -> Option<u8> {
        Self::msi_vector(self, device, address, data)
    }

    fn read_memory(&self, address: u64, bytes: &mut [u8]) -> Result<(), String> {
        Self::read_memory(self, address, bytes).map_err(|error| error.to_string())
    }

    fn write_memory(&mut self, address: u64, bytes: &[u8]) -> Result<(), String> {
        Self::write_memory(self, address, bytes).map_err(|error| error.to_string())
    }

    fn next(&self) -> Next {
        Self::next(self)
    }
}

/// What a guest did, and how long it took.
#[derive(Clone, Copy, Debug, Default)]
pub struct GuestReport {
    /// Frames that it sent through a network device without RTL.
    pub frames_sent: u64,
    /// Frames that it was given that way.
    pub frames_received: u64,
    /// Frames for which it had no buffer.
    pub frames_dropped: u64,
    /// Its stores, as TLPs.
    pub stores: u64,
    /// Its loads.
    pub loads: u64,
    /// DMA writes to its memory.
    pub dma_writes: u64,
    /// Interrupts by the NIC.
    pub interrupts: u64,
    /// What they took of the processor, as far as they are charged, nanoseconds.
    pub interrupted_ns: u64,
    /// Times that a waiting program was woken as if it polled.
    pub polls: u64,
    /// Times that the guest was let run.
    pub runs: u64,
}

/// A block of pages that a program waits for.
#[derive(Clone, Copy, Debug)]
struct Armed {
    /// As it was written.
    value: u64,
    /// By the driver of this device.
    device: usize,
    since: Picoseconds,
}

impl Armed {
    const fn has(&self, page: u64) -> bool {
        let log2 = (self.value & 0x3F) as u32;
        let first = self.value >> PAGE_SHIFT;
        page >= first && (log2 >= 52 || page - first < 1 << log2)
    }
}

/// A load under way: one TLP for each line that it touches.
#[derive(Debug)]
struct Load {
    nic: usize,
    tag: u64,
    bytes: Vec<u8>,
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    tlp_tag: u8,
    /// Bytes of its first DW that were not asked for.
    lead: usize,
    /// Where its bytes belong.
    at: std::ops::Range<usize>,
    /// Whole DWs that have come.
    data: Vec<u8>,
}

/// What is due for the guest at a time.
#[derive(Debug)]
enum Due {
    Answer { tag: u64, bytes: Vec<u8> },
    Frame { device: usize, bytes: Vec<u8> },
    Poll { device: usize },
    Interrupt { device: usize, vector: u8 },
}

/// The component.
pub struct GuestNode {
    id: ComponentId,
    /// Its name in the topology.
    pub name: String,
    nic: ComponentId,
    port: Box<dyn GuestPort>,
    behind: Option<Behind>,
    /// One for each NIC.
    roots: Vec<RootComplex>,
    timing: HostTiming,
    /// Events of the guest that are still to happen, in the order of their times.
    events: VecDeque<Timed>,
    armed: Vec<Armed>,
    loads: Vec<Load>,
    due: Vec<(Picoseconds, Due)>,
    /// Which devices may use memory, and which ever could.
    bus_master: Vec<bool>,
    was_bus_master: Vec<bool>,
    /// What the rack charges for a frame, sent and received.
    charge: (u64, u64),
    /// The device whose interrupts are charged, and what each costs until the program that it wakes goes on.
    interrupt: Option<(usize, u64)>,
    /// When the core has done with the frames so far.
    core_free: Picoseconds,
    /// How far the guest was let run, in nanoseconds.
    free: u64,
    lookahead: u64,
    runs_now: (u64, u32),
    /// The time for which a wake-up is in the calendar because the guest wants to run.
    asked: Option<u64>,
    exit: Option<i32>,
    /// How many there are in the rack.
    hosts: usize,
    /// What it did.
    pub report: GuestReport,
}

const fn guest_time(time: Picoseconds) -> u64 {
    time.0.div_ceil(1_000)
}

/// Fixed parts of a guest.
pub struct GuestNodeSetup {
    /// This component.
    pub id: ComponentId,
    /// Name.
    pub name: String,
    /// Its NIC's component.
    pub nic: ComponentId,
    /// Those of further NICs, each one PCI device.
    pub cards: Vec<ComponentId>,
    /// Constants of its bus; of several NICs all have the same.
    pub timing: HostTiming,
    /// What the kernel's way of a frame costs, sent and received, if the driver does not charge it itself.
    pub charge: Option<(u64, u64)>,
    /// The device whose interrupts cost so many nanoseconds each.
    pub interrupt: Option<(usize, u64)>,
    /// How many guests the rack will have.
    pub hosts: usize,
    /// The guest, started.
    pub port: Box<dyn GuestPort>,
    /// The switch whose host it is, if it is one's.
    pub behind: Option<Behind>,
}

impl GuestNode {
    /// A guest that has been started.
    pub fn new(setup: GuestNodeSetup) -> Self {
        let (id, nic, timing) = (setup.id, setup.nic, setup.timing);
        let nics = std::iter::once(nic).chain(setup.cards);
        let roots: Vec<_> = nics.map(|nic| RootComplex::new(id, nic, timing)).collect();
        let devices = roots.len().max(FUNCTIONS);
        Self {
            id,
            name: setup.name,
            nic,
            port: setup.port,
            behind: setup.behind,
            roots,
            timing,
            events: VecDeque::new(),
            armed: Vec::new(),
            loads: Vec::new(),
            due: Vec::new(),
            bus_master: vec![false; devices],
            was_bus_master: vec![false; devices],
            charge: setup.charge.unwrap_or_default(),
            interrupt: setup.interrupt,
            core_free: Picoseconds::ZERO,
            free: 0,
            // What the guest does has to reach the NIC, and come back.
            lookahead: (timing.down + timing.up).0 / 1_000,
            runs_now: (0, 0),
            asked: None,
            exit: None,
            hosts: setup.hosts,
            report: GuestReport::default(),
        }
    }

    /// Least time from anything in the rack to the guest.
    pub const fn least_delay(&self) -> Picoseconds {
        self.timing.up
    }

    /// The exit status, when it has ended.
    pub const fn exit(&self) -> Option<i32> {
        self.exit
    }

    /// Whether it has ended.
    pub const fn is_done(&self) -> bool {
        self.exit.is_some()
    }

    /// What it waits for, as part of a sentence.
    pub fn describe(&self) -> Option<String> {
        let what = match self.port.next() {
            _ if self.is_done() => return None,
            Next::Exited(_) => return None,
            Next::Never if self.loads.is_empty() => "waits for a device".to_owned(),
            Next::Never => "waits for the completion of a load".to_owned(),
            Next::At(time) => format!("sleeps until {time} ns"),
        };
        Some(format!("guest {} {what}", self.name))
    }

    /// The first wake-up.
    pub fn start(&mut self, now: Picoseconds, out: &mut Outbox) {
        out.send(now, self.id, Message::Wake);
    }

    fn fail(&self, now: Picoseconds, reason: String) -> Error {
        Error::Program {
            time: now,
            host: self.name.clone(),
            reason,
        }
    }

    /// Something arrives.
    pub fn receive(
        &mut self,
        now: Picoseconds,
        (from, message): (ComponentId, Message),
        out: &mut Outbox,
        record: &mut Recorder,
    ) -> Result<(), Error> {
        if self.is_done() {
            return Ok(());
        }
        let outcome = match message {
            Message::Wake => self.wake(now, out, record),
            Message::Credits(count) => {
                let nic = self.nic_of(from);
                self.roots[nic].credits(now, count, out, record);
                Ok(())
            }
            Message::Tlp(tlp) => self.take_tlp(now, (self.nic_of(from), &tlp), out, record),
            Message::Frame(frame) => {
                let time = self.charge(now, self.charge.1);
                let (device, bytes) = (DEVICE, frame);
                self.later(time, Due::Frame { device, bytes }, out);
                Ok(())
            }
            Message::Management(frame) => self.frame(now, MANAGEMENT_DEVICE, &frame),
            Message::HostSide(message) => self.hear_switch(now, message, out, record),
            Message::Word { .. } | Message::Tick | Message::Edge => {
                unreachable!("a guest is sent TLPs, credits, frames and wake-ups only")
            }
        };
        outcome.map_err(|reason| self.fail(now, reason))
    }

    /// The number of the NIC that is this component.
    fn nic_of(&self, component: ComponentId) -> usize {
        let mut nics = self.roots.iter();
        let number = nics.position(|root| root.nic() == component);
        number.expect("TLPs and credits come from the guest's NICs")
    }

    /// The guest's own time for something that is delivered now.
    fn delivery(&self, now: Picoseconds) -> u64 {
        let at = guest_time(now);
        assert!(
            at >= self.free,
            "something for guest {} at {now} has no lookahead: it ran until {} ns",
            self.name,
            self.free
        );
        at
    }

    /// The core works for so long as soon as it can; when it has done.
    fn charge(&mut self, now: Picoseconds, ns: u64) -> Picoseconds {
        self.core_free = self.core_free.max(now) + Picoseconds::from_ns(ns);
        self.core_free
    }

    fn frame(&mut self, now: Picoseconds, device: usize, frame: &[u8]) -> Result<(), String> {
        let at = self.delivery(now);
        if self.port.receive(at, device, frame)? {
            self.report.frames_received += 1;
        } else {
            self.report.frames_dropped += 1;
        }
        Ok(())
    }

    /// Whether the guest is to be let run now.
    pub fn wants_to_run(&self, now: Picoseconds) -> bool {
        !self.is_done()
            && match self.port.next() {
                Next::At(time) => time <= guest_time(now),
                Next::Never => false,
                Next::Exited(_) => true,
            }
    }

    /// Lets the guest run; nothing reaches it before `horizon`.
    pub fn run(
        &mut self,
        now: Picoseconds,
        horizon: Picoseconds,
        out: &mut Outbox,
        record: &mut Recorder,
    ) -> Result<(), Error> {
        self.run_once(now, horizon, out, record)
            .map_err(|reason| self.fail(now, reason))
    }

    /// Sees to it that the guest is woken when it wants to run; to be called when everything else is done.
    pub fn settle(&mut self, now: Picoseconds, out: &mut Outbox) {
        let Next::At(time) = self.port.next() else {
            return;
        };
        if !self.is_done() && self.asked != Some(time) {
            self.asked = Some(time);
            out.send(Picoseconds::from_ns(time).max(now), self.id, Message::Wake);
        }
    }

    fn run_once(
        &mut self,
        now: Picoseconds,
        horizon: Picoseconds,
        out: &mut Outbox,
        record: &mut Recorder,
    ) -> Result<(), String> {
        let at = guest_time(now);
        self.asked = None;
        if let Next::Exited(status) = self.port.next() {
            self.exit = Some(status);
            return Ok(());
        }
        if self.runs_now.0 == at {
            self.runs_now.1 += 1;
            if self.runs_now.1 > MOST_RUNS {
                return Err(format!("the guest does not let time go on from {at} ns"));
            }
        } else {
            self.runs_now = (at, 0);
        }
        // Strictly before the horizon: what the guest does at a time comes before what reaches it at that time.
        let free = (horizon.0.saturating_sub(1) / 1_000).clamp(at, at + MOST_FREE);
        let mut events = Vec::new();
        let next = self.port.run(at, free, self.lookahead, &mut events)?;
        self.report.runs += 1;
        let limit = events.first().map_or(free, |first| {
            free.min(first.ns.saturating_add(self.lookahead))
        });
        self.free = limit.max(at);
        for event in events {
            self.accept(now, at, event, out, record)?;
        }
        debug_assert_eq!(next, self.port.next());
        Ok(())
    }

    /// An event of the guest's run: it happens at its time, but for the arming of lines, see below.
    fn accept(
        &mut self,
        now: Picoseconds,
        at: u64,
        event: Timed,
        out: &mut Outbox,
        record: &mut Recorder,
    ) -> Result<(), String> {
        if event.ns < at {
            return Err(format!(
                "the guest says that something happened at {} ns, and it is {at} ns",
                event.ns
            ));
        }
        // The guest looked at its memory before it armed the line, and no DMA write came in between: whatever comes from
        // now on is seen, also what comes within the nanosecond to which the guest's time was rounded up.
        if let GuestEvent::MmioWrite {
            device,
            bar: 4,
            offset,
            bytes,
        } = &event.event
        {
            let time = Picoseconds::from_ns(event.ns);
            return self.poll_register(time, *device, *offset, bytes);
        }
        let time = Picoseconds::from_ns(event.ns).max(now);
        if time == now && self.events.is_empty() {
            return self.happen(now, event.event, out, record);
        }
        self.events.push_back(event);
        out.send(time, self.id, Message::Wake);
        Ok(())
    }

    /// Everything whose time has come.
    fn wake(
        &mut self,
        now: Picoseconds,
        out: &mut Outbox,
        record: &mut Recorder,
    ) -> Result<(), String> {
        let port = &self.port;
        let read = |address: u64, bytes: &mut [u8]| port.read_memory(address, bytes);
        for root in &mut self.roots {
            root.answer_reads(now, read, out, record)?;
        }
        while self
            .events
            .front()
            .is_some_and(|event| Picoseconds::from_ns(event.ns) <= now)
        {
            let event = self.events.pop_front().expect("looked at above");
            self.happen(now, event.event, out, record)?;
        }
        let at = guest_time(now);
        while let Some(index) = self.due.iter().position(|(time, _)| *time <= now) {
            self.delivery(now);
            match self.due.remove(index).1 {
                Due::Frame { device, bytes } => self.frame(now, device, &bytes)?,
                Due::Answer { tag, bytes } => self.port.complete_read(at, tag, &bytes)?,
                Due::Interrupt { device, vector } => self.port.interrupt(at, device, vector)?,
                Due::Poll { device } => {
                    self.report.polls += 1;
                    self.port.interrupt(at, device, POLL_VECTOR)?;
                }
            }
        }
        Ok(())
    }

    /// An event of the guest happens now.
    fn happen(
        &mut self,
        now: Picoseconds,
        event: GuestEvent,
        out: &mut Outbox,
        record: &mut Recorder,
    ) -> Result<(), String> {
        if self.behind.is_some() && !matches!(event, GuestEvent::Exited { .. }) {
            return self.tell_switch(now, event, out, record);
        }
        match event {
            GuestEvent::Frame {
                device: MANAGEMENT_DEVICE,
                bytes,
            } => {
                self.report.frames_sent += 1;
                // A guest's component has its number in its MAC address; whoever is not there does not answer.
                let to = bytes.get(..6).and_then(tables::management_host);
                if let Some(host) = to.filter(|host| *host < self.hosts) {
                    let to = Rack::ids(host).0;
                    out.send(now + MANAGEMENT_DELAY, to, Message::Management(bytes));
                }
                Ok(())
            }
            GuestEvent::Frame { bytes, .. } => {
                self.report.frames_sent += 1;
                let arrival = self.charge(now, self.charge.0) + self.timing.down;
                out.send(arrival, self.nic, Message::Frame(bytes));
                Ok(())
            }
            GuestEvent::MmioWrite {
                device,
                bar,
                offset,
                bytes,
            } => {
                let (nic, function) = seat(device, self.roots.len())?;
                let place = Place::of(function, bar, offset)?;
                self.store(now, (nic, place), &bytes, out, record)
            }
            GuestEvent::MmioRead {
                device,
                bar,
                offset,
                length,
                tag,
            } => {
                let length = length as usize;
                if bar == 4 {
                    self.load_nothing(now, length, tag, out);
                    return Ok(());
                }
                let (nic, function) = seat(device, self.roots.len())?;
                let place = Place::of(function, bar, offset)?;
                self.load(now, (nic, place), length, tag, out, record)
            }
            GuestEvent::BusMaster { device, on } => {
                seat(device, self.roots.len())?;
                self.bus_master[device] = on;
                self.was_bus_master[device] |= on;
                Ok(())
            }
            GuestEvent::Exited { status } => {
                self.exit = Some(status);
                Ok(())
            }
        }
    }

    /// A store, as a write-combining buffer lets it out: a TLP for each line.
    fn store(
        &mut self,
        now: Picoseconds,
        (nic, place): (usize, Place),
        bytes: &[u8],
        out: &mut Outbox,
        record: &mut Recorder,
    ) -> Result<(), String> {
        for range in lines(place.address, bytes.len()) {
            self.report.stores += 1;
            let address = place.address + range.start as u64;
            let data = &bytes[range];
            self.roots[nic].store(now, now, place.hit, address, data, out, record)?;
        }
        Ok(())
    }

    /// Nothing is to be read in BAR 4; it takes as long as any other load.
    fn load_nothing(&mut self, now: Picoseconds, length: usize, tag: u64, out: &mut Outbox) {
        self.report.loads += 1;
        let timing = &self.timing;
        let time = now + timing.down + timing.up + timing.load.unwrap_or_default();
        let bytes = vec![0; length];
        self.later(time, Due::Answer { tag, bytes }, out);
    }

    fn load(
        &mut self,
        now: Picoseconds,
        (nic, place): (usize, Place),
        length: usize,
        tag: u64,
        out: &mut Outbox,
        record: &mut Recorder,
    ) -> Result<(), String> {
        self.report.loads += 1;
        let bytes = vec![0; length];
        let mut parts = Vec::new();
        for at in lines(place.address, length) {
            let address = place.address + at.start as u64;
            let tlp_tag = self.roots[nic].load(now, place.hit, address, at.len(), out, record)?;
            parts.push(Part {
                tlp_tag,
                lead: (address % 4) as usize,
                at,
                data: Vec::new(),
            });
        }
        self.loads.push(Load {
            nic,
            tag,
            bytes,
            parts,
        });
        Ok(())
    }

    fn later(&mut self, time: Picoseconds, due: Due, out: &mut Outbox) {
        self.due.push((time, due));
        out.send(time, self.id, Message::Wake);
    }

    /// The registers of BAR 4.
    fn poll_register(
        &mut self,
        time: Picoseconds,
        device: usize,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), String> {
        match (offset, <[u8; 8]>::try_from(bytes)) {
            (POLL_ARM, Ok(value)) => {
                let value = u64::from_le_bytes(value);
                self.armed
                    .retain(|armed| (armed.device, armed.value) != (device, value));
                if self.armed.len() >= MOST_ARMED {
                    return Err(format!("more than {MOST_ARMED} blocks are polled at once"));
                }
                let since = time;
                self.armed.push(Armed {
                    value,
                    device,
                    since,
                });
                Ok(())
            }
            (POLL_DISARM, Ok(value)) => {
                let value = u64::from_le_bytes(value);
                self.armed
                    .retain(|armed| (armed.device, armed.value) != (device, value));
                Ok(())
            }
            (POLL_DISARM_ALL, _) => {
                self.armed.retain(|armed| armed.device != device);
                Ok(())
            }
            _ => Err(format!(
                "a store of {} bytes to offset {offset:#x} of BAR 4; docs/linux.md has what it takes",
                bytes.len()
            )),
        }
    }

    /// A TLP from the NIC is at the root complex, and a write in memory.
    fn take_tlp(
        &mut self,
        now: Picoseconds,
        (nic, tlp): (usize, &Tlp),
        out: &mut Outbox,
        record: &mut Recorder,
    ) -> Result<(), String> {
        match self.roots[nic].take(now, tlp, out, record)? {
            FromNic::Write(request, data) => {
                let device = seated(nic, request.requester_id, self.roots.len())?;
                if let Ok(value) = <[u8; 4]>::try_from(data)
                    && let Some(vector) =
                        self.port
                            .msi_vector(device, request.address, u32::from_le_bytes(value))
                {
                    self.report.interrupts += 1;
                    if let Some((charged, ns)) = self.interrupt
                        && charged == device
                    {
                        self.report.interrupted_ns += ns;
                        let time = self.charge(now, ns);
                        self.later(time, Due::Interrupt { device, vector }, out);
                        return Ok(());
                    }
                    let at = self.delivery(now);
                    return self.port.interrupt(at, device, vector);
                }
                if !self.may_master(device, "writes to", request.address)? {
                    return Ok(());
                }
                // Memory is shared with a guest that may be ahead of the rack; what it has not looked at is not late.
                self.delivery(now);
                self.report.dma_writes += 1;
                for (address, range) in enabled_runs(&request, data.len()) {
                    self.port.write_memory(address, &data[range])?;
                    self.written(now, address, out);
                }
                Ok(())
            }
            FromNic::Read => Ok(()),
            FromNic::Completion(completion, data) => {
                self.completed(now, (nic, &completion), data, out)
            }
        }
    }

    /// Whether the NIC may use memory: a driver must have said so once; afterwards it may take that back.
    fn may_master(&self, device: usize, what: &str, address: u64) -> Result<bool, String> {
        if self.was_bus_master[device] {
            return Ok(self.bus_master[device]);
        }
        Err(format!(
            "function {device} of the NIC {what} {address:#x}, but no driver has made it a bus master (pci_set_master)"
        ))
    }

    /// Wakes what waits for a page.
    fn written(&mut self, now: Picoseconds, address: u64, out: &mut Outbox) {
        let page = address >> PAGE_SHIFT;
        let period = self.timing.poll_period;
        while let Some(index) = self.armed.iter().position(|armed| armed.has(page)) {
            let armed = self.armed.remove(index);
            let look = if period.0 == 0 {
                now.max(armed.since)
            } else {
                period.next_edge(armed.since, now)
            };
            let look = look + self.timing.unexplained;
            // One interrupt tells of all that a look sees.
            let device = armed.device;
            let told = |(time, due): &(Picoseconds, Due)| {
                *time == look && matches!(due, Due::Poll { device: told } if *told == device)
            };
            if !self.due.iter().any(told) {
                self.later(look, Due::Poll { device }, out);
            }
        }
    }

    fn completed(
        &mut self,
        now: Picoseconds,
        (nic, completion): (usize, &Completion),
        data: &[u8],
        out: &mut Outbox,
    ) -> Result<(), String> {
        let mut found = None;
        let of_nic = self.loads.iter_mut().enumerate();
        for (index, load) in of_nic.filter(|(_, load)| load.nic == nic) {
            if let Some(part) = load
                .parts
                .iter_mut()
                .position(|part| part.tlp_tag == completion.tag)
            {
                found = Some((index, part));
                break;
            }
        }
        let (index, part) = found.ok_or_else(|| {
            format!(
                "a completion with tag {}, which is no load's",
                completion.tag
            )
        })?;
        let load = &mut self.loads[index];
        let whole = {
            let part = &mut load.parts[part];
            if completion.status == CompletionStatus::Successful {
                part.data.extend_from_slice(data);
            } else {
                // What a failed load reads on a PC.
                part.data = vec![0xFF; (part.lead + part.at.len()).next_multiple_of(4)];
            }
            part.data.len() >= part.lead + part.at.len()
        };
        if whole {
            let part = load.parts.remove(part);
            load.bytes[part.at.clone()].copy_from_slice(&part.data[part.lead..][..part.at.len()]);
        }
        if load.parts.is_empty() {
            let load = self.loads.remove(index);
            let time = now + self.timing.load.unwrap_or_default();
            let answer = Due::Answer {
                tag: load.tag,
                bytes: load.bytes,
            };
            self.later(time, answer, out);
        }
        Ok(())
    }
}
