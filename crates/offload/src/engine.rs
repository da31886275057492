// SPDX-License-Identifier: Apache-2.0
//! The engine's receive side: network buffer, distributor, analyzers, controller. Event by event, at clock edges.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;

use serde::Serialize;

use crate::Picoseconds;
use crate::commit::{Book, Released, Tag};
use crate::mix::{ETHERNET_HEADER, HEADERS};
use crate::policy::Policy;

/// What is received.
pub trait Packet {
    /// Bytes that an analyzer reads: Ethernet header to the end of the payload.
    fn bytes(&self) -> u64;
    /// Whether its checksum is right, which an analyzer knows when it has read all.
    fn is_good(&self) -> bool;
    /// Whether all before it must have counted before anything behind it is analyzed: SYN, FIN, RST, URG.
    fn is_fence(&self) -> bool;
    /// Bytes of the stream that the header says it has.
    fn claim(&self) -> Range<u64>;
    /// Bytes of the stream that it really has.
    fn truth(&self) -> Range<u64>;
}

/// Sizes and times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Hardware {
    /// Analyzers, 1 to 8.
    pub analyzers: usize,
    /// Bytes that an analyzer reads in a cycle, as a fraction: an iterative function may need several cycles for one.
    pub bytes_per_cycle: f64,
    /// Period of the clock.
    #[serde(serialize_with = "as_ps")]
    pub clock: Picoseconds,
    /// Cycles of an analyzer besides the packet's bytes.
    pub turn_cycles: u64,
    /// Cycles of the controller for a packet.
    pub core_cycles: u64,
    /// Bytes of the network buffer.
    pub buffer_bytes: u64,
}

fn as_ps<S: serde::Serializer>(time: &Picoseconds, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(time.0)
}

impl Hardware {
    /// The document's: five analyzers, 32 bits at 62.5 MHz, 1.2 us of the controller for a packet, 1597.4 kbit.
    pub const DOCUMENT: Self = Self {
        analyzers: 5,
        bytes_per_cycle: 4.0,
        clock: Picoseconds(16_000),
        turn_cycles: 2,
        core_cycles: 75,
        buffer_bytes: 199_675,
    };

    /// The document's analyzers and clock with this project's controller, which does not use more than a few cycles.
    pub const OURS: Self = Self {
        core_cycles: 8,
        ..Self::DOCUMENT
    };

    /// 64 bits at 156.25 MHz.
    pub const FAST: Self = Self {
        bytes_per_cycle: 8.0,
        clock: Picoseconds(6_400),
        ..Self::OURS
    };

    fn cycles(&self, bytes: u64) -> u64 {
        (bytes as f64 / self.bytes_per_cycle).ceil() as u64
    }

    /// Cycles from a packet's first byte in an analyzer to its header result, the same for every packet.
    pub fn header_cycles(&self) -> u64 {
        self.cycles(ETHERNET_HEADER + HEADERS) + 1
    }

    /// Cycles of a packet in an analyzer.
    fn packet_cycles(&self, bytes: u64) -> u64 {
        self.cycles(bytes).max(self.header_cycles()) + self.turn_cycles
    }
}

/// What the engine tells, each with its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output<S> {
    /// A checksum has passed; the bytes of the stream are those that the packet really has.
    Passed(Range<u64>),
    /// A header changed the provisional state: these bytes.
    Header(Range<u64>),
    /// A packet counts, or does not.
    Released {
        /// The packet.
        released: Released<S>,
        /// When its last byte was in.
        arrived: Picoseconds,
    },
    /// All that were released together.
    Committed,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Packets in.
    pub packets: u64,
    /// Packets for which the network buffer had no room.
    pub overflows: u64,
    /// The most bytes that were in the network buffer.
    pub greatest_buffer: u64,
    /// Packets that found an idle analyzer and had to wait for the controller.
    pub stalls: u64,
}

struct Held<S> {
    packet: S,
    arrived: Picoseconds,
}

struct Job<S> {
    held: Option<Held<S>>,
    tag: Tag,
    bytes: u64,
    good: bool,
    truth: Range<u64>,
}

enum Task<S> {
    Header {
        tag: Tag,
        held: Held<S>,
    },
    Result {
        tag: Tag,
        good: bool,
        held: Option<Held<S>>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Of an analyzer.
    Header(usize),
    Done(usize),
    /// The controller has done the next of its tasks.
    Core,
    /// The distributor looks again.
    Look,
}

/// The receive side.
pub struct Engine<S> {
    hardware: Hardware,
    book: Book<Held<S>>,
    queue: VecDeque<Held<S>>,
    buffered: u64,
    analyzers: Vec<Option<Job<S>>>,
    tasks: VecDeque<Task<S>>,
    core_free: Picoseconds,
    events: BinaryHeap<Reverse<(Picoseconds, u64, Event)>>,
    number: u64,
    fence: bool,
    waiting: bool,
    counts: Counts,
}

impl<S: Packet> Engine<S> {
    /// With nothing in it.
    pub fn new(hardware: Hardware, policy: Policy) -> Self {
        let analyzers = match policy {
            Policy::Single => 1,
            _ => hardware.analyzers,
        };
        Self {
            hardware,
            book: Book::new(policy),
            queue: VecDeque::new(),
            buffered: 0,
            analyzers: (0..analyzers).map(|_| None).collect(),
            tasks: VecDeque::new(),
            core_free: Picoseconds::ZERO,
            events: BinaryHeap::new(),
            number: 0,
            fence: false,
            waiting: false,
            counts: Counts::default(),
        }
    }

    /// What was counted.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// The most packets whose results were awaited at once.
    pub const fn greatest_held(&self) -> usize {
        self.book.greatest()
    }

    /// When something happens next.
    pub fn next(&self) -> Picoseconds {
        let first = self.events.peek();
        first.map_or(Picoseconds::NEVER, |Reverse((time, ..))| *time)
    }

    /// A packet's last byte is in.
    pub fn arrive(&mut self, now: Picoseconds, packet: S) {
        self.counts.packets += 1;
        let bytes = packet.bytes();
        if self.buffered + bytes > self.hardware.buffer_bytes {
            self.counts.overflows += 1;
            return;
        }
        self.buffered += bytes;
        self.counts.greatest_buffer = self.counts.greatest_buffer.max(self.buffered);
        self.queue.push_back(Held {
            packet,
            arrived: now,
        });
        self.at(self.hardware.clock.edge(now), Event::Look);
    }

    fn at(&mut self, time: Picoseconds, event: Event) {
        self.number += 1;
        self.events.push(Reverse((time, self.number, event)));
    }

    fn after(&mut self, now: Picoseconds, cycles: u64, event: Event) {
        self.at(now + self.hardware.clock.times(cycles), event);
    }

    /// Does all that happens at the time of [`Engine::next`].
    pub fn step(&mut self, out: &mut Vec<(Picoseconds, Output<S>)>) {
        let Some(Reverse((now, _, event))) = self.events.pop() else {
            return;
        };
        match event {
            Event::Look => {}
            Event::Header(number) => self.header(now, number),
            Event::Done(number) => self.done(now, number, out),
            Event::Core => self.core(now, out),
        }
        self.distribute(now);
    }

    /// Packets in their order to idle analyzers.
    fn distribute(&mut self, now: Picoseconds) {
        while let Some(idle) = self.analyzers.iter().position(Option::is_none) {
            if self.queue.is_empty() {
                return;
            }
            if self.fence && self.book.is_empty() {
                self.fence = false;
            }
            if self.fence || !self.book.has_room() {
                self.counts.stalls += u64::from(!self.waiting);
                self.waiting = true;
                return;
            }
            self.waiting = false;
            let Some(held) = self.queue.pop_front() else {
                return;
            };
            let bytes = held.packet.bytes();
            let job = Job {
                tag: self.book.dispatch(),
                bytes,
                good: held.packet.is_good(),
                truth: held.packet.truth(),
                held: Some(held),
            };
            self.analyzers[idle] = Some(job);
            if self.book.splits() {
                self.after(now, self.hardware.header_cycles(), Event::Header(idle));
            }
            self.after(now, self.hardware.packet_cycles(bytes), Event::Done(idle));
        }
    }

    /// The controller takes its tasks one after the other.
    fn task(&mut self, now: Picoseconds, cycles: u64, task: Task<S>) {
        let done = self.core_free.max(now) + self.hardware.clock.times(cycles);
        self.core_free = done;
        self.tasks.push_back(task);
        self.at(done, Event::Core);
    }

    fn header(&mut self, now: Picoseconds, number: usize) {
        let Some(job) = &mut self.analyzers[number] else {
            return;
        };
        let tag = job.tag;
        if let Some(held) = job.held.take() {
            self.task(now, self.hardware.core_cycles, Task::Header { tag, held });
        }
    }

    fn done(&mut self, now: Picoseconds, number: usize, out: &mut Vec<(Picoseconds, Output<S>)>) {
        let Some(job) = self.analyzers[number].take() else {
            return;
        };
        self.buffered -= job.bytes;
        if job.good {
            out.push((now, Output::Passed(job.truth)));
        }
        let cycles = match job.held {
            Some(_) => self.hardware.core_cycles,
            None => 1,
        };
        let task = Task::Result {
            tag: job.tag,
            good: job.good,
            held: job.held,
        };
        self.task(now, cycles, task);
    }

    fn core(&mut self, now: Picoseconds, out: &mut Vec<(Picoseconds, Output<S>)>) {
        match self.tasks.pop_front() {
            Some(Task::Header { tag, held }) => {
                self.fence |= held.packet.is_fence();
                out.push((now, Output::Header(held.packet.claim())));
                self.book.header(tag, held);
            }
            Some(Task::Result { tag, good, held }) => self.book.result(tag, good, held),
            None => {}
        }
        let mut time = now;
        loop {
            let released = self.book.take();
            if released.is_empty() {
                break;
            }
            let at_once = self.book.commits_at_once();
            for one in released {
                if !at_once {
                    time += self.hardware.clock;
                }
                let output = Output::Released {
                    released: Released {
                        packet: one.packet.packet,
                        verdict: one.verdict,
                    },
                    arrived: one.packet.arrived,
                };
                out.push((time, output));
            }
            time += self.hardware.clock;
            out.push((time, Output::Committed));
        }
        self.core_free = self.core_free.max(time);
    }
}
