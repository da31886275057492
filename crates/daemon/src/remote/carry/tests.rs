// SPDX-License-Identifier: Apache-2.0
//! What a carried end has the NIC store: no more than is used, in the right order, and a copy that the peer can read.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use shm::channel::{Channel, End, inbox};
use softnic::{Error, Event, Identity, PeerAddress, Share, Shared};

use super::*;
use crate::remote::nic::Memory;

const LINES: u32 = 64;
const LINE: u64 = 64;
/// Where in the window the ring begins that the peer receives from: behind its mail.
const RING: u64 = 128;

/// Remembers what is stored, and does nothing else.
#[derive(Default)]
pub struct Stores {
    pub stores: Vec<(u64, Vec<u8>)>,
    /// Stores that it has room for.
    pub room: Option<usize>,
    /// Marks that are under way, of so many at most.
    pub marks: Vec<u64>,
    pub most_marks: usize,
}

impl Nic for Stores {
    fn identity(&self) -> Identity {
        unreachable!()
    }
    fn reserve_session(&mut self) -> Result<u8, Error> {
        unreachable!()
    }
    fn open_session(&mut self, _: u8, _: &PeerAddress) -> Result<(), Error> {
        unreachable!()
    }
    fn close_session(&mut self, _: u8) {
        unreachable!()
    }
    fn share(&mut self, _: &Memory, _: &Share) -> Result<Shared, Error> {
        unreachable!()
    }
    fn unshare(&mut self, _: u16) {
        unreachable!()
    }
    fn map(&mut self, _: u8, _: &Shared, _: u64, _: u64) -> Result<WindowId, Error> {
        unreachable!()
    }
    fn unmap(&mut self, _: WindowId) {
        unreachable!()
    }
    fn can_store(&self, _: u8) -> bool {
        true
    }
    fn store(&mut self, _: WindowId, offset: u64, data: &[u8]) -> Result<usize, Error> {
        if self.room.is_some_and(|room| self.stores.len() >= room) {
            return Ok(0);
        }
        self.stores.push((offset, data.to_vec()));
        Ok(data.len())
    }
    fn load(&mut self, _: WindowId, _: u64, _: usize) -> Result<u64, Error> {
        unreachable!()
    }
    fn flush(&mut self, _: u8, cookie: u64) -> Result<(), Error> {
        if self.marks.len() == self.most_marks {
            return Err(Error::Full {
                what: "flush marks",
                count: self.most_marks,
            });
        }
        self.marks.push(cookie);
        Ok(())
    }
    fn kick(&mut self) {}
    fn poll(&mut self) -> Result<bool, Error> {
        Ok(false)
    }
    fn next_event(&mut self) -> Option<Event> {
        self.marks.pop().map(|cookie| Event::Flushed {
            cookie,
            delivered: true,
        })
    }
    fn deadline(&self) -> Option<Duration> {
        None
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// An end that sends and its carried copy; the peer's end; the NIC between them.
struct Pair {
    end: End,
    carried: Carried,
    peer: Arc<Channel>,
    memory: OwnedFd,
    nic: Stores,
}

impl Pair {
    fn new() -> Self {
        let (here, _) = Channel::create(LINES).expect("memory");
        let (there, memory) = Channel::create(LINES).expect("memory");
        let here = Arc::new(here);
        let carried = Carried::new(Carrier::new(Arc::clone(&here), 0), 1, 1, 1);
        Self {
            end: End::new(here, 0),
            carried,
            peer: Arc::new(there),
            memory,
            nic: Stores::default(),
        }
    }

    fn send(&self, bytes: &[u8]) {
        let sent = self.end.sender().try_send(1, &[bytes]);
        sent.expect("there is room");
    }

    /// Stores of a turn, which arrive at the peer one after the other.
    fn carry(&mut self) -> Vec<(u64, usize)> {
        self.carried.carry(&mut self.nic);
        let stores = std::mem::take(&mut self.nic.stores);
        for (offset, data) in &stores {
            self.arrive(*offset, data);
        }
        let sizes = stores.iter().map(|(at, data)| (*at, data.len()));
        sizes.collect()
    }

    fn arrive(&self, offset: u64, data: &[u8]) {
        let inbox = inbox(1, LINES);
        let end = offset as usize + data.len();
        assert!(end <= inbox.len(), "{end} is beyond the window");
        let written = rustix::io::pwrite(&self.memory, data, inbox.start as u64 + offset);
        assert_eq!(written, Ok(data.len()));
    }

    fn receive(&self) -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        let end = End::new(Arc::clone(&self.peer), 1);
        let (count, _) = end.receiver().read(1, &mut bytes);
        bytes.truncate(count);
        bytes
    }
}

fn message(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + length) as u8).collect()
}

#[test]
fn a_message_alone_is_a_store_of_what_is_used() {
    for length in 1..=200 {
        let mut pair = Pair::new();
        let sent = message(length);
        pair.send(&sent);
        let stores = pair.carry();
        if length <= 56 {
            let used = length.next_multiple_of(4) + 8;
            assert_eq!(
                stores,
                [(RING + LINE - used as u64, used)],
                "{length} bytes"
            );
        } else {
            let tag = (RING + LINE - 8, 8);
            assert_eq!(stores, [(RING + LINE, length), tag], "{length} bytes");
        }
        assert_eq!(pair.receive(), sent, "{length} bytes");
        assert_eq!(pair.carry(), [], "nothing is new");
    }
}

#[test]
fn messages_in_a_row_are_whole_lines_behind_the_first() {
    let mut pair = Pair::new();
    for length in [5, 0, 56, 13, 100, 7, 8] {
        pair.send(&message(length));
    }
    let lines = |line: u64| RING + LINE * line;
    assert_eq!(
        pair.carry(),
        [
            (lines(1) - 16, 16),
            (lines(1), 64),
            (lines(2), 64),
            (lines(3), 64),
            // Of a long one the body comes first, so its header is contiguous with nothing.
            (lines(5), 100),
            (lines(5) - 8, 8),
            (lines(8) - 16, 16),
            (lines(8), 64),
        ]
    );
    let all: Vec<u8> = [5, 0, 56, 13, 100, 7, 8].map(message).concat();
    assert_eq!(pair.receive(), all);
    // The next turn begins anew.
    pair.send(&message(4));
    assert_eq!(pair.carry(), [(lines(10) - 12, 12)]);
}

#[test]
fn what_finds_no_room_is_stored_later() {
    let mut pair = Pair::new();
    pair.send(&message(20));
    pair.send(&message(30));
    pair.nic.room = Some(1);
    assert_eq!(pair.carry(), [(RING + LINE - 28, 28)]);
    pair.nic.room = None;
    assert_eq!(pair.carry(), [(RING + 2 * LINE - 40, 40)]);
    assert_eq!(pair.receive(), [message(20), message(30)].concat());
}

/// What an end says of itself goes where the peer looks, and nowhere else: its own page stays as it was.
#[test]
fn all_that_an_end_says_lies_in_the_peer_s_inbox() {
    let mut pair = Pair::new();
    let whole = shm::channel::bytes(LINES);
    let read = |pair: &Pair| {
        let mut bytes = vec![0; whole];
        let count = rustix::io::pread(&pair.memory, &mut bytes, 0).expect("it is memory");
        assert_eq!(count, whole);
        bytes
    };
    let before = read(&pair);
    // The end has received nine messages of the peer's, has sent as many as there is room for, and has closed.
    let back = End::new(Arc::clone(pair.end.channel()), 1);
    for length in 0..9 {
        let sent = back.sender().try_send(1, &[&message(40 + length)]);
        sent.expect("there is room");
    }
    let mut bytes = vec![0; 4096];
    assert_ne!(pair.end.receiver().read(1, &mut bytes).0, 0);
    while pair.end.sender().try_send(1, &[&message(300)]).is_ok() {}
    let ends = flags::ATTACHED | flags::FIN | flags::CLOSED;
    pair.end.flags().fetch_or(ends, Ordering::AcqRel);
    pair.carried.idle();
    while !pair.carry().is_empty() {}

    let after = read(&pair);
    let inbox = inbox(1, LINES);
    let changed = (0..whole).filter(|&at| before[at] != after[at]);
    let outside: Vec<usize> = changed.filter(|at| !inbox.contains(at)).collect();
    assert_eq!(outside, [], "of {inbox:?}");
    let peer = End::new(Arc::clone(&pair.peer), 1);
    pair.peer.set_carried();
    assert_eq!(peer.peer_flags().load(Ordering::Acquire), ends);
    assert_eq!(peer.peer_position(), 9);
    assert_eq!(peer.flags().load(Ordering::Acquire), 0);
    assert_eq!(pair.receive().len() % 300, 0);
}

/// An end whose processes have the window: the daemon carries what they have not, and all that is left once they are gone.
#[test]
fn what_processes_carry_by_themselves_the_daemon_ends() {
    let mut pair = Pair::new();
    pair.carried.direct();
    pair.carried.arm(false);
    assert!(
        pair.end.peer_armed(shm::channel::armed::DATA),
        "they never ask"
    );
    pair.send(&message(20));
    assert!(!pair.carried.pending(), "a process is about to carry it");
    // One that has no window yet calls.
    assert_eq!(pair.carry(), [(RING + LINE - 28, 28)]);
    assert_eq!(pair.receive(), message(20));
    assert_eq!(pair.carry(), []);

    // A process carries, by what both know.
    let process = Carrier::new(Arc::clone(pair.end.channel()), 0);
    struct Dies;
    impl Copy for Dies {
        fn message(&mut self, _: &Outgoing<'_>, at: u64, bytes: usize) -> Option<usize> {
            assert_eq!(
                at + bytes as u64,
                inbox(1, LINES).start as u64 + RING + 2 * LINE
            );
            panic!("killed")
        }
        fn word(&mut self, _: u64, _: &[u8]) -> bool {
            unreachable!()
        }
    }
    pair.send(&message(30));
    let killed = std::panic::catch_unwind(|| process.carry(Hold::Wait, 0, &mut Dies));
    assert!(killed.is_err());
    pair.carried.desert();
    assert!(pair.carried.pending());
    let turn = pair.carried.carry(&mut pair.nic);
    assert!(turn.busy && turn.ended, "{turn:?}");
    let stores = std::mem::take(&mut pair.nic.stores);
    stores.iter().for_each(|(at, data)| pair.arrive(*at, data));
    assert_eq!(pair.receive(), message(30));
    let peer = End::new(Arc::clone(&pair.peer), 1);
    assert_eq!(peer.peer_flags().load(Ordering::Acquire), flags::DESERTED);
}
