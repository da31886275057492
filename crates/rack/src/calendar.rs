// SPDX-License-Identifier: Apache-2.0
//! The one calendar, and what may pass between components.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

use ipnuma_rtl::NetWord;

pub use crate::ids::ComponentId;
use crate::ids::PacketId;
use crate::time::Picoseconds;

/// A transaction layer packet on its way, with what the simulator knows about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tlp {
    /// Header and data, byte 0 first.
    pub bytes: Vec<u8>,
    /// BAR hit; meaningful towards the NIC (0 registers, 2 pages, 7 none). Of a NIC with several functions the one that is
    /// hit is in bits 5:3.
    pub bar: u8,
    /// The traced packet that this TLP belongs to.
    pub packet: Option<PacketId>,
}

/// What passes between a switch and the guest that is its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostMessage {
    /// A frame without its FCS: to the guest with its port of arrival, to the switch with the one that it is to leave by.
    Frame {
        /// The port.
        port: u8,
        /// From the destination MAC on.
        bytes: Vec<u8>,
    },
    /// A store to the switch's BAR.
    Store {
        /// Where in the BAR.
        offset: u64,
        /// What.
        bytes: Vec<u8>,
    },
    /// A load from there.
    Load {
        /// Where in the BAR.
        offset: u64,
        /// Bytes.
        length: usize,
        /// What the answer carries.
        tag: u64,
    },
    /// What a load gives.
    Answer {
        /// Of the load.
        tag: u64,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// What the receiver of a port says of its line.
    Carrier {
        /// The port.
        port: u8,
        /// Whether there is a signal.
        up: bool,
    },
}

/// The port protocol: everything that one component may tell another.
#[derive(Clone, Debug)]
pub enum Message {
    /// PCI Express, either direction: MMIO write and read, DMA, completions.
    Tlp(Tlp),
    /// PCI Express flow control: receive buffers of the NIC that are free again.
    Credits(u32),
    /// One word of the MAC's interface, on the pins of the receiving PHY side.
    Word {
        /// The port of a switch; 0 for a NIC.
        port: usize,
        /// The word.
        word: NetWord,
        /// The packet whose frame ends in this word.
        packet: Option<PacketId>,
    },
    /// A whole frame without its FCS, between a guest and a network card without RTL.
    Frame(Vec<u8>),
    /// The same between two guests, over the network beside the rack's, see [`guest`](crate::guest).
    Management(Vec<u8>),
    /// Between a switch and its host; the state of a line comes from a cable.
    HostSide(HostMessage),
    /// Of a component to itself: the CPU goes on.
    Wake,
    /// Of a switch to itself: its host side looks at its timers. Nobody waits for this.
    Tick,
    /// Of a component to itself: a clock edge.
    Edge,
}

impl Message {
    /// At one and the same time messages come before wake-ups, and both before clock edges, so that what an edge sees
    /// does not depend on how events were put in.
    const fn class(&self) -> u8 {
        match self {
            Self::Tlp(_)
            | Self::Credits(_)
            | Self::Word { .. }
            | Self::Frame(_)
            | Self::Management(_)
            | Self::HostSide(_) => 0,
            Self::Wake | Self::Tick => 1,
            Self::Edge => 2,
        }
    }
}

/// One entry of the calendar.
#[derive(Clone, Debug)]
pub struct Event {
    /// When.
    pub time: Picoseconds,
    /// For whom.
    pub to: ComponentId,
    /// From whom.
    pub from: ComponentId,
    /// What.
    pub message: Message,
    class: u8,
    sequence: u64,
}

impl Event {
    fn key(&self) -> (Picoseconds, u8, ComponentId, ComponentId, u64) {
        (self.time, self.class, self.to, self.from, self.sequence)
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl Eq for Event {}
impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Event {
    fn cmp(&self, other: &Self) -> Ordering {
        // The heap gives its greatest entry first.
        other.key().cmp(&self.key())
    }
}

/// What a component wants to send; the rack takes it after the component has run.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Time, destination, message.
    pub messages: Vec<(Picoseconds, ComponentId, Message)>,
}

impl Outbox {
    /// Sends a message that arrives at `time`.
    pub fn send(&mut self, time: Picoseconds, to: ComponentId, message: Message) {
        self.messages.push((time, to, message));
    }
}

/// All future events in deterministic order: time, kind, destination, source, order of sending.
#[derive(Debug, Default)]
pub struct Calendar {
    heap: BinaryHeap<Event>,
    /// Clock edges, the next one last. Nine events in ten are edges, and there are but one or two of a component.
    edges: Vec<(Picoseconds, ComponentId)>,
    sequences: Vec<u64>,
    /// Messages that may bring a program on: neither edges nor ticks.
    waiting: usize,
    /// Times of all events for components whose horizon is asked for, with how many there are.
    watched: BTreeMap<ComponentId, BTreeMap<Picoseconds, usize>>,
}

impl Calendar {
    /// Keeps what [`Calendar::horizon`] needs for a component; to be called before anything is sent to it.
    pub fn watch(&mut self, component: ComponentId) {
        self.watched.entry(component).or_default();
    }

    /// The time before which nothing reaches a watched component, if everything else takes `least` to reach it: the
    /// next event for it, or what the next event of all could send it.
    pub fn horizon(&self, component: ComponentId, least: Picoseconds) -> Picoseconds {
        let own = self
            .watched
            .get(&component)
            .expect("the component is watched")
            .first_key_value()
            .map(|(time, _)| *time);
        let message = self.heap.peek().map(|event| event.time + least);
        let edge = self.edges.last().map(|(time, _)| *time + least);
        let times = [own, message, edge].into_iter().flatten();
        times.min().unwrap_or(Picoseconds(u64::MAX))
    }

    /// Enters what a component wants to send at `now`.
    pub fn post(&mut self, now: Picoseconds, from: ComponentId, outbox: &mut Outbox) {
        for (time, to, message) in outbox.messages.drain(..) {
            assert!(
                time > now || (time == now && to == from),
                "a message from component {} to {} at {now} has no lookahead",
                from.0,
                to.0
            );
            if matches!(message, Message::Edge) {
                debug_assert!(to == from && !self.watched.contains_key(&to));
                let place = self.edges.partition_point(|edge| *edge > (time, to));
                self.edges.insert(place, (time, to));
                continue;
            }
            let index = from.0 as usize;
            if self.sequences.len() <= index {
                self.sequences.resize(index + 1, 0);
            }
            let class = message.class();
            if let Some(times) = self.watched.get_mut(&to) {
                *times.entry(time).or_default() += 1;
            }
            self.waiting += usize::from(!matches!(message, Message::Tick));
            // Edges are not numbered: skipping them must not renumber messages.
            self.sequences[index] += 1;
            self.heap.push(Event {
                time,
                to,
                from,
                message,
                class,
                sequence: self.sequences[index],
            });
        }
    }

    /// Takes the next event.
    pub fn take(&mut self) -> Option<Event> {
        let message = self.heap.peek().map(|event| event.time);
        if let Some((time, to)) = self.edges.last().copied()
            && message.is_none_or(|message| time < message)
        {
            self.edges.pop();
            return Some(Event {
                time,
                to,
                from: to,
                message: Message::Edge,
                class: Message::Edge.class(),
                sequence: 0,
            });
        }
        let event = self.heap.pop()?;
        self.waiting -= usize::from(!matches!(event.message, Message::Tick));
        if let Some(times) = self.watched.get_mut(&event.to)
            && let Some(mut count) = times.first_entry()
        {
            // Events come in the order of their times, so it is the first.
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        Some(event)
    }

    /// Whether nothing is to come that a program could wait for, but for what clock edges may bring.
    pub fn only_edges(&self) -> bool {
        self.waiting == 0
    }

    /// Whether nothing is to come that a program could wait for, and no clock runs.
    pub fn is_idle(&self) -> bool {
        self.waiting == 0 && self.edges.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(time: u64) -> Picoseconds {
        Picoseconds(time)
    }

    fn post(calendar: &mut Calendar, from: u32, messages: Vec<(u64, u32, Message)>) {
        let messages = messages.into_iter();
        let messages = messages.map(|(time, to, message)| (at(time), ComponentId(to), message));
        let mut outbox = Outbox {
            messages: messages.collect(),
        };
        calendar.post(Picoseconds::ZERO, ComponentId(from), &mut outbox);
    }

    #[test]
    fn edges_come_behind_what_arrives_at_their_time() {
        let mut calendar = Calendar::default();
        post(
            &mut calendar,
            2,
            vec![(50, 2, Message::Edge), (40, 2, Message::Edge)],
        );
        post(
            &mut calendar,
            1,
            vec![(40, 1, Message::Edge), (40, 3, Message::Tick)],
        );
        assert!(calendar.only_edges() && !calendar.is_idle());
        post(
            &mut calendar,
            3,
            vec![(40, 0, Message::Wake), (40, 2, Message::Credits(1))],
        );
        assert!(!calendar.only_edges());
        let taken: Vec<_> = std::iter::from_fn(|| calendar.take())
            .map(|event| (event.time.0, event.to.0, event.class))
            .collect();
        let expected = [
            (40, 2, 0),
            (40, 0, 1),
            (40, 3, 1),
            (40, 1, 2),
            (40, 2, 2),
            (50, 2, 2),
        ];
        assert_eq!(taken, expected);
        assert!(calendar.is_idle());
    }

    #[test]
    fn a_horizon_ends_with_the_first_message_or_what_an_edge_may_send() {
        let mut calendar = Calendar::default();
        let (guest, least) = (ComponentId(0), at(7));
        calendar.watch(guest);
        assert_eq!(calendar.horizon(guest, least), at(u64::MAX));
        post(
            &mut calendar,
            1,
            vec![(30, 0, Message::Wake), (100, 2, Message::Wake)],
        );
        assert_eq!(calendar.horizon(guest, least), at(30));
        post(&mut calendar, 2, vec![(20, 2, Message::Edge)]);
        assert_eq!(calendar.horizon(guest, least), at(27));
        calendar.take();
        assert_eq!(calendar.horizon(guest, least), at(30));
    }
}
