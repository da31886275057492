// SPDX-License-Identifier: Apache-2.0
//! Several carry for one end: what any of them leaves undone, the next one does, and nothing goes twice that matters.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::*;
use crate::channel::{Channel, End, flags, inbox};

const LINES: u32 = 64;

/// The other machine's copy.
struct There {
    memory: OwnedFd,
    first: u64,
    /// Stores that it takes yet.
    room: usize,
    stores: usize,
}

impl There {
    fn store(&mut self, at: u64, bytes: &[u8]) -> bool {
        assert!(
            at >= self.first && at + bytes.len() as u64 <= inbox(1, LINES).end as u64,
            "{} bytes at {at}",
            bytes.len()
        );
        if self.room == 0 {
            return false;
        }
        self.room -= 1;
        self.stores += 1;
        rustix::io::pwrite(&self.memory, bytes, at) == Ok(bytes.len())
    }
}

impl Copy for There {
    fn message(&mut self, message: &Outgoing<'_>, at: u64, bytes: usize) -> Option<usize> {
        let mut copy = vec![0; bytes];
        message.copy(at, &mut copy);
        self.store(at, &copy).then_some(bytes)
    }

    fn word(&mut self, at: u64, word: &[u8]) -> bool {
        self.store(at, word)
    }
}

/// An end, those who carry for it, and the peer on the other machine.
struct Machines {
    end: End,
    carriers: [Carrier; 2],
    peer: End,
    there: There,
}

impl Machines {
    fn new() -> Self {
        let (here, _) = Channel::create(LINES).expect("memory");
        let here = Arc::new(here);
        here.set_carried();
        let (copy, memory) = Channel::create(LINES).expect("memory");
        copy.set_carried();
        let carriers = [0; 2].map(|_| Carrier::new(Arc::clone(&here), 0));
        Self {
            there: There {
                memory,
                first: carriers[0].target().start,
                room: usize::MAX,
                stores: 0,
            },
            end: End::new(here, 0),
            carriers,
            peer: End::new(Arc::new(copy), 1),
        }
    }

    fn send(&self, bytes: &[u8]) {
        self.end
            .sender()
            .try_send(1, &[bytes])
            .expect("there is room");
    }

    fn receive(&self) -> Vec<u8> {
        let mut bytes = vec![0; 8192];
        let (count, _) = self.peer.receiver().read(1, &mut bytes);
        bytes.truncate(count);
        bytes
    }

    /// The peer's credit comes back.
    fn give_back(&self) {
        let credit = self.peer.channel().mail(0).credit.load(Ordering::Acquire);
        let mail = self.end.channel().mail(0);
        mail.credit.store(credit, Ordering::Release);
    }
}

#[test]
fn each_goes_on_where_the_other_stopped() {
    let mut machines = Machines::new();
    let mut sent = 0u32;
    for round in 0..200usize {
        for length in [1, 60, 0, 200] {
            let bytes = vec![sent as u8; (length + round) % 250];
            machines.send(&bytes);
            sent += 1;
        }
        let by = &machines.carriers[round % 2];
        let hold = [Hold::Wait, Hold::Try, Hold::Take][round % 3];
        let outcome = by.carry(hold, 0, &mut machines.there);
        assert_eq!(outcome, Some(Outcome::Said { busy: true }));
        assert!(!machines.carriers[(round + 1) % 2].unsaid(0));
        let expected: Vec<u8> = [1, 60, 0, 200]
            .iter()
            .zip(sent - 4..)
            .flat_map(|(length, tag)| vec![tag as u8; (length + round) % 250])
            .collect();
        assert_eq!(machines.receive(), expected);
        machines.give_back();
    }
}

/// Whoever carries may die behind any store. The lock's owner is a thread that has ended.
#[test]
fn who_dies_behind_a_store_leaves_nothing_undone() {
    for room in 0.. {
        let mut machines = Machines::new();
        let all: Vec<Vec<u8>> = (0..12u8).map(|at| vec![at; usize::from(at) * 17]).collect();
        all.iter().for_each(|bytes| machines.send(bytes));
        machines.there.room = room;
        // It dies in the middle of the store that is not taken any more.
        let died = std::thread::scope(|scope| {
            let (carrier, there) = (&machines.carriers[0], &mut machines.there);
            let dying = scope.spawn(move || {
                let guard = carrier
                    .own()
                    .carried
                    .lock
                    .try_lock(carrier.channel.living());
                std::mem::forget(guard.expect("nobody has it"));
                carrier.carry(Hold::Take, 0, &mut Dying(there))
            });
            dying.join()
        });
        machines.there.room = usize::MAX;
        let hold = [Hold::Wait, Hold::Try, Hold::Take][room % 3];
        // For the kernel a thread that was joined may be alive for some microseconds more, and who only tries then has to come again.
        let outcome = (0..10_000).find_map(|_| {
            let outcome = machines.carriers[1].carry(hold, flags::DESERTED, &mut machines.there);
            if outcome.is_none() {
                std::thread::sleep(std::time::Duration::from_micros(100));
            }
            outcome
        });
        assert_eq!(outcome, Some(Outcome::Said { busy: true }));
        assert_eq!(machines.receive(), all.concat(), "it died behind {room}");
        let told = machines.peer.peer_flags().load(Ordering::Acquire);
        assert_eq!(told, flags::DESERTED);
        assert!(!machines.carriers[0].unsaid(flags::DESERTED));
        if died.is_ok() {
            assert!(room > 12);
            return;
        }
    }
}

/// Dies where there is no room.
struct Dying<'a>(&'a mut There);

impl Copy for Dying<'_> {
    fn message(&mut self, message: &Outgoing<'_>, at: u64, bytes: usize) -> Option<usize> {
        let taken = self.0.message(message, at, bytes);
        assert!(taken.is_some(), "died");
        taken
    }

    fn word(&mut self, at: u64, word: &[u8]) -> bool {
        assert!(self.0.word(at, word), "died");
        true
    }
}

/// Whoever carries in a loop must see that it gets no further: a window that was taken back takes nothing.
#[test]
fn what_is_not_taken_is_no_progress() {
    let mut machines = Machines::new();
    machines.there.room = 0;
    let own = machines.end.flags();
    own.fetch_or(flags::FIN, Ordering::AcqRel);
    let outcome = machines.carriers[0].carry(Hold::Wait, 0, &mut machines.there);
    assert_eq!(outcome, Some(Outcome::Later { busy: false }));
    machines.send(b"x");
    let outcome = machines.carriers[0].carry(Hold::Wait, 0, &mut machines.there);
    assert_eq!(outcome, Some(Outcome::Never));
}

/// Writes more while it carries, as a signal handler of the thread does.
struct Interrupted<'a> {
    there: &'a mut There,
    carrier: &'a Carrier,
    end: &'a End,
    once: bool,
}

impl Copy for Interrupted<'_> {
    fn message(&mut self, message: &Outgoing<'_>, at: u64, bytes: usize) -> Option<usize> {
        if !std::mem::replace(&mut self.once, true) {
            let sent = self.end.sender().try_send(1, &[b"handler"]);
            sent.expect("there is room");
            let nested = self.carrier.carry(Hold::Wait, 0, &mut *self.there);
            assert_eq!(nested, None, "this thread is at it");
        }
        self.there.message(message, at, bytes)
    }

    fn word(&mut self, at: u64, word: &[u8]) -> bool {
        self.there.word(at, word)
    }
}

#[test]
fn who_was_interrupted_sees_what_the_handler_wrote() {
    let mut machines = Machines::new();
    machines.send(b"first");
    let mut interrupted = Interrupted {
        there: &mut machines.there,
        carrier: &machines.carriers[1],
        end: &machines.end,
        once: false,
    };
    let carrier = &machines.carriers[0];
    carrier.carry(Hold::Wait, 0, &mut interrupted);
    assert!(carrier.unsaid(0));
    carrier.carry(Hold::Wait, 0, &mut interrupted);
    assert!(!carrier.unsaid(0));
    assert_eq!(machines.receive(), b"firsthandler");
}

/// Two threads write and carry at the same time.
#[test]
fn all_of_several_threads_arrives_in_order() {
    let machines = Machines::new();
    let Machines {
        end,
        carriers,
        peer,
        there,
    } = machines;
    let there = std::sync::Mutex::new(there);
    let carry = |carrier: &Carrier| {
        struct Locked<'a>(&'a std::sync::Mutex<There>);
        impl Copy for Locked<'_> {
            fn message(&mut self, message: &Outgoing<'_>, at: u64, bytes: usize) -> Option<usize> {
                self.0
                    .lock()
                    .expect("nobody dies")
                    .message(message, at, bytes)
            }
            fn word(&mut self, at: u64, word: &[u8]) -> bool {
                self.0.lock().expect("nobody dies").word(at, word)
            }
        }
        while carrier.unsaid(0) {
            carrier.carry(Hold::Wait, 0, &mut Locked(&there));
        }
    };
    const EACH: u32 = 20_000;
    let mut got = Vec::new();
    std::thread::scope(|scope| {
        for (thread, carrier) in carriers.iter().enumerate() {
            let (end, carry) = (&end, &carry);
            scope.spawn(move || {
                for number in 0..EACH {
                    let word = (thread as u32) << 31 | number;
                    loop {
                        let guard = end.lock_sender().expect("no handler");
                        let sent = end.sender().try_send(1, &[&word.to_le_bytes()]);
                        drop(guard);
                        if sent.is_ok() {
                            break;
                        }
                        std::thread::yield_now();
                    }
                    carry(carrier);
                }
            });
        }
        let mut bytes = vec![0; 8192];
        while got.len() < 2 * 4 * EACH as usize {
            let (count, _) = peer.receiver().read(1, &mut bytes);
            got.extend_from_slice(&bytes[..count]);
            let credit = peer.channel().mail(0).credit.load(Ordering::Acquire);
            end.channel()
                .mail(0)
                .credit
                .store(credit, Ordering::Release);
            if count == 0 {
                std::thread::yield_now();
            }
        }
    });
    let words = got
        .chunks(4)
        .map(|word| u32::from_le_bytes(word.try_into().expect("4")));
    let mut next = [0; 2];
    for word in words {
        let thread = (word >> 31) as usize;
        assert_eq!(word & (u32::MAX >> 1), next[thread], "of thread {thread}");
        next[thread] += 1;
    }
    assert_eq!(next, [EACH; 2]);
}
