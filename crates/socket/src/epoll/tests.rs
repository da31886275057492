// SPDX-License-Identifier: Apache-2.0
//! Sets whose members are ready when the test says so, compared with a model of what epoll promises.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use libc::{EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD};
use proptest::prelude::*;
use rustix::event::epoll::{CreateFlags, create};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, socketpair};

use super::kernel::{Event, NO_EVENT};
use super::members::{EDGE, ONESHOT};
use super::{Epoll, SignalMask};
use crate::object::Object;
use crate::ready::{self, Events, Pollable};
use crate::table::{self, Ref};
use crate::wait::{Deadline, RESCUED, Wait, poll_kernel, wait_one};

const IN: u32 = Events::IN.0;
const OUT: u32 = Events::OUT.0;

/// The counter of rescues is one for all tests.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// What an accelerated socket is to those who wait: messages that wait to be read, room, and a peer who rings.
struct Fake {
    unread: AtomicU32,
    room: AtomicBool,
    arrived: AtomicU64,
    roomy: AtomicU64,
    armed: AtomicU32,
    bell: OwnedFd,
}

impl Pollable for Fake {
    fn ready(&self) -> Events {
        let mut events = Events::NONE;
        if self.unread.load(Ordering::Acquire) > 0 {
            events |= Events::IN;
        }
        if self.room.load(Ordering::Acquire) {
            events |= Events::OUT;
        }
        events
    }

    fn arm(&self, want: Events) {
        self.armed.store(want.0, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    fn woken(&self, fd: RawFd, twin: Events) {
        let mut scratch = [0; 64];
        // SAFETY: the number belongs to the twin that the test holds.
        let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
        while twin.has(Events::IN)
            && rustix::net::recv(fd, &mut scratch, RecvFlags::DONTWAIT).is_ok()
        {}
    }

    fn edges(&self) -> (u64, u64) {
        (
            self.arrived.load(Ordering::Acquire),
            self.roomy.load(Ordering::Acquire),
        )
    }

    fn twin_interest(&self, _want: Events) -> Events {
        Events::IN | Events::RDHUP
    }
}

impl Fake {
    fn ring(&self, want: Events) {
        fence(Ordering::SeqCst);
        if self.armed.load(Ordering::Relaxed) & want.0 != 0 {
            let _ = rustix::net::send(&self.bell, b"!", SendFlags::DONTWAIT);
        }
    }

    fn send(&self) {
        self.unread.fetch_add(1, Ordering::Release);
        self.arrived.fetch_add(1, Ordering::Release);
        self.ring(Events::IN);
    }

    fn read(&self) -> bool {
        self.unread
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |unread| {
                unread.checked_sub(1)
            })
            .is_ok()
    }

    fn set_room(&self, room: bool) {
        if !self.room.swap(room, Ordering::AcqRel) && room {
            self.roomy.fetch_add(1, Ordering::Release);
            self.ring(Events::OUT);
        }
    }
}

/// A fake under a number of its own.
struct Known {
    fake: Arc<Fake>,
    twin: OwnedFd,
    description: Ref,
}

impl Known {
    fn new() -> Self {
        let (twin, bell) = socketpair(
            AddressFamily::UNIX,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        let fake = Arc::new(Fake {
            unread: AtomicU32::new(0),
            room: AtomicBool::new(false),
            arrived: AtomicU64::new(0),
            roomy: AtomicU64::new(0),
            armed: AtomicU32::new(0),
            bell,
        });
        let (description, stale) = table::install(twin.as_raw_fd(), Object::Fake(fake.clone()));
        drop(stale);
        Self {
            fake,
            twin,
            description: description.unwrap(),
        }
    }

    fn fd(&self) -> RawFd {
        self.twin.as_raw_fd()
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        ready::closed(self.fd(), &self.description);
        drop(table::remove(self.fd()));
    }
}

struct Poll {
    fd: OwnedFd,
    epoll: Epoll,
}

impl Poll {
    fn new() -> Self {
        let fd = create(CreateFlags::CLOEXEC).unwrap();
        let epoll = Epoll::new(fd.as_raw_fd());
        // The library looks sets up by their number.
        let object = Epoll(epoll.0.clone());
        drop(table::install(fd.as_raw_fd(), Object::Epoll(object)));
        Self { fd, epoll }
    }

    fn control(&self, op: i32, fd: RawFd, events: u32, data: u64) -> Result<(), Errno> {
        let event = Event { events, u64: data };
        // SAFETY: the event lives as long as the call.
        unsafe {
            self.epoll
                .control(self.fd.as_raw_fd(), op, fd, &raw const event)
        }
    }

    fn wait(&self, max: usize, timeout: Option<Duration>) -> Vec<(u32, u64)> {
        let mut events = vec![NO_EVENT; max];
        // SAFETY: the array has so many events.
        let count = unsafe {
            self.epoll.wait(
                self.fd.as_raw_fd(),
                events.as_mut_ptr(),
                max as i32,
                timeout,
                SignalMask::NONE,
            )
        };
        events[..count.unwrap()]
            .iter()
            .map(|event| (event.events, event.u64))
            .collect()
    }

    fn now(&self) -> Vec<(u32, u64)> {
        self.wait(64, Some(Duration::ZERO))
    }
}

impl Drop for Poll {
    fn drop(&mut self) {
        self.epoll.close();
        drop(table::remove(self.fd.as_raw_fd()));
    }
}

fn linger(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[test]
fn level_edge_and_one_shot() {
    let _alone = alone();
    let set = Poll::new();
    let socket = Known::new();
    assert_eq!(
        set.control(EPOLL_CTL_MOD, socket.fd(), IN, 1),
        Err(Errno::NOENT)
    );
    set.control(EPOLL_CTL_ADD, socket.fd(), IN, 1).unwrap();
    assert_eq!(
        set.control(EPOLL_CTL_ADD, socket.fd(), IN, 1),
        Err(Errno::EXIST)
    );
    assert!(set.now().is_empty());
    socket.fake.send();
    assert_eq!(set.now(), [(IN, 1)]);
    assert_eq!(set.now(), [(IN, 1)]);
    set.control(EPOLL_CTL_MOD, socket.fd(), IN | EDGE, 2)
        .unwrap();
    assert_eq!(set.now(), [(IN, 2)]);
    assert!(set.now().is_empty());
    socket.fake.send();
    assert_eq!(set.now(), [(IN, 2)]);
    set.control(EPOLL_CTL_MOD, socket.fd(), IN | OUT | ONESHOT, 3)
        .unwrap();
    socket.fake.set_room(true);
    assert_eq!(set.now(), [(IN | OUT, 3)]);
    assert!(set.now().is_empty());
    set.control(EPOLL_CTL_MOD, socket.fd(), OUT, 4).unwrap();
    assert_eq!(set.now(), [(OUT, 4)]);
    set.control(EPOLL_CTL_DEL, socket.fd(), 0, 0).unwrap();
    assert!(set.now().is_empty());
    assert_eq!(
        set.control(EPOLL_CTL_DEL, socket.fd(), 0, 0),
        Err(Errno::NOENT)
    );
}

#[test]
fn a_sleeping_member_is_found_when_another_set_has_drained_its_doorbell() {
    let _alone = alone();
    let (one, two) = (Poll::new(), Poll::new());
    let socket = Known::new();
    one.control(EPOLL_CTL_ADD, socket.fd(), IN, 1).unwrap();
    two.control(EPOLL_CTL_ADD, socket.fd(), IN, 2).unwrap();
    // Both sleep once, so the member is cold in both.
    assert!(one.wait(8, Some(Duration::from_millis(1))).is_empty());
    assert!(two.wait(8, Some(Duration::from_millis(1))).is_empty());
    socket.fake.send();
    assert_eq!(one.now(), [(IN, 1)]);
    assert_eq!(two.now(), [(IN, 2)]);
}

#[test]
fn data_that_looks_like_a_key_is_only_data() {
    let _alone = alone();
    let set = Poll::new();
    let (pipe, writer) = rustix::pipe::pipe().unwrap();
    let odd = 0xB1A5 << 48 | 7;
    set.control(EPOLL_CTL_ADD, pipe.as_raw_fd(), IN, odd)
        .unwrap();
    rustix::io::write(&writer, b"x").unwrap();
    assert_eq!(set.now(), [(IN, odd)]);
    set.control(EPOLL_CTL_MOD, pipe.as_raw_fd(), IN, 8).unwrap();
    assert_eq!(set.now(), [(IN, 8)]);
    set.control(EPOLL_CTL_DEL, pipe.as_raw_fd(), 0, 0).unwrap();
    assert!(set.now().is_empty());
}

#[test]
fn a_full_array_leaves_nobody_out() {
    let _alone = alone();
    let set = Poll::new();
    let sockets: Vec<Known> = (0..5).map(|_| Known::new()).collect();
    for (index, socket) in sockets.iter().enumerate() {
        set.control(EPOLL_CTL_ADD, socket.fd(), IN, index as u64)
            .unwrap();
        socket.fake.send();
    }
    let mut seen: Vec<u64> = (0..3)
        .flat_map(|_| set.wait(2, Some(Duration::ZERO)))
        .map(|(_, data)| data)
        .collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, [0, 1, 2, 3, 4]);
}

#[test]
fn a_nested_set_is_ready_when_a_member_is() {
    let _alone = alone();
    let (outer, inner) = (Poll::new(), Poll::new());
    let socket = Known::new();
    outer
        .control(EPOLL_CTL_ADD, inner.fd.as_raw_fd(), IN, 1)
        .unwrap();
    inner.control(EPOLL_CTL_ADD, socket.fd(), IN, 2).unwrap();
    assert!(outer.now().is_empty());
    assert!(outer.wait(4, Some(Duration::from_millis(2))).is_empty());
    socket.fake.send();
    assert_eq!(outer.wait(4, Some(Duration::from_secs(5))), [(IN, 1)]);
    assert_eq!(inner.now(), [(IN, 2)]);
    assert!(socket.fake.read());
    assert!(outer.now().is_empty());
}

/// Sends while a thread goes to sleep and wakes in a set; whether every message was heard of by a doorbell or a look.
fn hear_all(flags: u32, readers: usize) {
    let _alone = alone();
    const MESSAGES: u32 = 3_000;
    let before = RESCUED.load(Ordering::Relaxed);
    let set = Poll::new();
    let sockets: Vec<Known> = (0..3).map(|_| Known::new()).collect();
    for (index, socket) in sockets.iter().enumerate() {
        set.control(EPOLL_CTL_ADD, socket.fd(), IN | flags, index as u64)
            .unwrap();
    }
    let heard = AtomicU32::new(0);
    let total = MESSAGES * sockets.len() as u32;
    let deadline = Instant::now() + Duration::from_secs(60);
    std::thread::scope(|scope| {
        for (index, socket) in sockets.iter().enumerate() {
            scope.spawn(move || {
                for round in 0..MESSAGES {
                    socket.fake.send();
                    // Sometimes at once, sometimes just when the reader falls asleep, sometimes later.
                    linger(Duration::from_micros(
                        u64::from(round * 7 + index as u32 * 13) % 90,
                    ));
                }
            });
        }
        for _ in 0..readers {
            scope.spawn(|| {
                while heard.load(Ordering::Acquire) < total && Instant::now() < deadline {
                    for (_, index) in set.wait(2, Some(Duration::from_millis(200))) {
                        let socket = &sockets[index as usize];
                        if flags & EDGE == 0 {
                            heard.fetch_add(u32::from(socket.fake.read()), Ordering::AcqRel);
                            continue;
                        }
                        while socket.fake.read() {
                            heard.fetch_add(1, Ordering::AcqRel);
                        }
                    }
                }
            });
        }
    });
    assert_eq!(heard.load(Ordering::Acquire), total);
    assert_eq!(
        RESCUED.load(Ordering::Relaxed),
        before,
        "only a heartbeat found what nobody had rung for"
    );
}

#[test]
fn no_message_is_overslept_level() {
    hear_all(0, 1);
}

#[test]
fn no_message_is_overslept_edge() {
    hear_all(EDGE, 1);
}

#[test]
fn no_message_is_overslept_by_several_threads() {
    hear_all(0, 3);
}

#[test]
fn a_member_that_is_taken_out_is_rung_for_no_more() {
    let _alone = alone();
    let set = Poll::new();
    let socket = Known::new();
    set.control(EPOLL_CTL_ADD, socket.fd(), IN, 1).unwrap();
    assert!(set.wait(8, Some(Duration::from_millis(1))).is_empty());
    assert_eq!(socket.fake.armed.load(Ordering::Relaxed), IN, "it sleeps");
    set.control(EPOLL_CTL_DEL, socket.fd(), 0, 0).unwrap();
    assert_eq!(socket.fake.armed.load(Ordering::Relaxed), 0);
}

#[test]
fn who_goes_to_work_arms_the_doorbells_for_those_who_sleep() {
    let _alone = alone();
    let set = Poll::new();
    let (found, later) = (Known::new(), Known::new());
    set.control(EPOLL_CTL_ADD, found.fd(), IN, 1).unwrap();
    set.control(EPOLL_CTL_ADD, later.fd(), IN, 2).unwrap();
    found.fake.send();
    let counts = &set.epoll.0;
    // Another thread sleeps in the set, as the counts say.
    counts.inside.fetch_add(1, Ordering::SeqCst);
    counts.sleepers.fetch_add(1, Ordering::SeqCst);
    assert_eq!(set.now(), [(IN, 1)]);
    later.fake.send();
    let rung = poll_kernel(later.fd(), Events::IN, Duration::ZERO);
    counts.sleepers.fetch_sub(1, Ordering::SeqCst);
    counts.inside.fetch_sub(1, Ordering::SeqCst);
    assert_eq!(rung, Ok(Events::IN), "nobody rang for those who sleep");
}

#[test]
fn a_reader_and_a_writer_of_one_socket_wake_each() {
    let _alone = alone();
    const ROUNDS: u32 = 2_000;
    let before = RESCUED.load(Ordering::Relaxed);
    let socket = Known::new();
    let limit = || Some(Deadline::after(Duration::from_secs(60)));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                while !socket.fake.read() {
                    let wait = wait_one(
                        socket.fd(),
                        &socket.description,
                        &*socket.fake,
                        Events::IN,
                        limit(),
                    );
                    assert_eq!(wait, Wait::Ready);
                }
            }
        });
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                while !socket.fake.room.swap(false, Ordering::AcqRel) {
                    let wait = wait_one(
                        socket.fd(),
                        &socket.description,
                        &*socket.fake,
                        Events::OUT,
                        limit(),
                    );
                    assert_eq!(wait, Wait::Ready);
                }
            }
        });
        scope.spawn(|| {
            for round in 0..ROUNDS {
                socket.fake.send();
                linger(Duration::from_micros(u64::from(round * 11) % 120));
            }
        });
        scope.spawn(|| {
            for round in 0..ROUNDS {
                while socket.fake.room.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
                socket.fake.set_room(true);
                linger(Duration::from_micros(u64::from(round * 5) % 120));
            }
        });
    });
    assert_eq!(
        RESCUED.load(Ordering::Relaxed),
        before,
        "only a heartbeat found what nobody had rung for"
    );
}

#[derive(Debug, Clone)]
enum Step {
    Send(usize),
    Read(usize),
    Room(usize, bool),
    Add(usize, u32),
    Modify(usize, u32),
    Delete(usize),
    Sleep,
    Wait,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    interest: u32,
    spent: bool,
    fresh: bool,
    seen: (u64, u64),
}

const SOCKETS: usize = 3;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let socket = 0..SOCKETS;
    let interest = prop::sample::select(vec![
        IN,
        OUT,
        IN | OUT,
        IN | EDGE,
        IN | OUT | EDGE,
        OUT | EDGE,
        IN | ONESHOT,
        IN | OUT | EDGE | ONESHOT,
        0,
    ]);
    prop::collection::vec(
        prop_oneof![
            4 => socket.clone().prop_map(Step::Send),
            3 => socket.clone().prop_map(Step::Read),
            2 => (socket.clone(), any::<bool>()).prop_map(|(socket, room)| Step::Room(socket, room)),
            2 => (socket.clone(), interest.clone()).prop_map(|(socket, interest)| Step::Add(socket, interest)),
            2 => (socket.clone(), interest).prop_map(|(socket, interest)| Step::Modify(socket, interest)),
            1 => socket.prop_map(Step::Delete),
            1 => Just(Step::Sleep),
            5 => Just(Step::Wait),
        ],
        1..60,
    )
}

/// What the model expects to be reported of a member now.
fn expected(entry: &Entry, fake: &Fake) -> u32 {
    let ready = fake.ready().0 & entry.interest;
    let edges = fake.edges();
    let edge = entry.fresh
        || entry.interest & IN != 0 && edges.0 != entry.seen.0
        || entry.interest & OUT != 0 && edges.1 != entry.seen.1;
    if entry.spent || entry.interest & EDGE != 0 && !edge {
        0
    } else {
        ready
    }
}

fn check(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let set = Poll::new();
    let sockets: Vec<Known> = (0..SOCKETS).map(|_| Known::new()).collect();
    let mut model: [Option<Entry>; SOCKETS] = [None; SOCKETS];
    for step in steps {
        match step {
            Step::Send(socket) => sockets[socket].fake.send(),
            Step::Read(socket) => drop(sockets[socket].fake.read()),
            Step::Room(socket, room) => sockets[socket].fake.set_room(room),
            Step::Add(socket, interest) => {
                let result =
                    set.control(EPOLL_CTL_ADD, sockets[socket].fd(), interest, socket as u64);
                let fresh = Entry {
                    interest,
                    spent: false,
                    fresh: true,
                    seen: (0, 0),
                };
                prop_assert_eq!(result.is_ok(), model[socket].is_none());
                model[socket].get_or_insert(fresh);
            }
            Step::Modify(socket, interest) => {
                let result =
                    set.control(EPOLL_CTL_MOD, sockets[socket].fd(), interest, socket as u64);
                prop_assert_eq!(result.is_ok(), model[socket].is_some());
                if let Some(entry) = &mut model[socket] {
                    *entry = Entry {
                        interest,
                        spent: false,
                        fresh: true,
                        ..*entry
                    };
                }
            }
            Step::Delete(socket) => {
                let result = set.control(EPOLL_CTL_DEL, sockets[socket].fd(), 0, 0);
                prop_assert_eq!(result.is_ok(), model[socket].take().is_some());
            }
            Step::Sleep | Step::Wait => {
                let wanted: Vec<u32> = (0..SOCKETS)
                    .map(|socket| {
                        model[socket]
                            .as_ref()
                            .map_or(0, |entry| expected(entry, &sockets[socket].fake))
                    })
                    .collect();
                let any = wanted.iter().any(|events| *events != 0);
                if matches!(step, Step::Sleep) && any {
                    continue;
                }
                let patience = if matches!(step, Step::Sleep) {
                    Duration::from_micros(100)
                } else {
                    Duration::ZERO
                };
                let mut reported = [0; SOCKETS];
                let mut times = [0; SOCKETS];
                // A wait may leave out members of which only the kernel's set knows, until that is looked at again.
                for _ in 0..2 {
                    for (events, data) in set.wait(8, Some(patience)) {
                        reported[data as usize] |= events;
                        times[data as usize] += 1;
                    }
                    linger(Duration::from_micros(100));
                }
                for socket in 0..SOCKETS {
                    prop_assert_eq!(reported[socket], wanted[socket], "socket {}", socket);
                    let Some(entry) = &mut model[socket] else {
                        continue;
                    };
                    if wanted[socket] != 0 {
                        if entry.interest & (EDGE | ONESHOT) != 0 {
                            prop_assert_eq!(
                                times[socket],
                                1,
                                "socket {} was reported more than once",
                                socket
                            );
                        }
                        entry.fresh = false;
                        entry.spent = entry.interest & ONESHOT != 0;
                    }
                    entry.seen = sockets[socket].fake.edges();
                }
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn behaves_as_the_model(steps in steps()) {
        let _alone = alone();
        check(steps)?;
    }
}
