// SPDX-License-Identifier: Apache-2.0
//! The protocol of the two ends of a stream channel as a model, of which every reachable state is looked at: come, wait in vain,
//! give up, send on, ring, sleep, retire, follow, end, and the death of either process between any two steps, also while it holds
//! all locks and another process shares its end.
//!
//! The steps are those of `crates/socket/src/stream`: what is one step here happens there under one lock or by one exchange.
//! What flags allow comes from the table that the library itself asks, `shm::channel::seat`. Bells are rung by other
//! threads as late as they like. There are no heartbeats: a sleeper whose peer has come wakes only by its twin.

use shm::channel::flags::{ATTACHED, CLOSED, FIN, PASSED, READS_ON, RETIRED};
use shm::channel::seat;
use stateright::{Checker, Model, Property};

/// Bytes that each end sends.
const BYTES: u8 = 2;

/// What a twin brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Byte {
    Data(u8),
    Bell,
}

/// The receiving side of a kernel socket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Twin {
    queue: Vec<Byte>,
    ended: bool,
    reset: bool,
}

impl Twin {
    fn is_readable(&self) -> bool {
        !self.queue.is_empty() || self.ended || self.reset
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    /// Has not come to its channel.
    Outside,
    Idle,
    /// Sends what lies in its ring through the twin, having given up its peer.
    Flushing,
    /// The same before it closes.
    FlushingToClose,
    /// Has armed, and looks once more.
    Armed,
    Asleep,
    /// Takes the bells that were counted, and uses the kernel then.
    GoingOver,
    /// Has set the flag of who retires, and holds all locks.
    Retiring,
    /// The same, and sends on what its peer has not read; or not, where the kernel has no room for it.
    Emptying,
    /// Has retired and reads no more: looks whether its peer is there to send on what that has sent.
    Leaving,
    /// Its peer has retired: sends on what that one has not read.
    PassingOn,
    /// Has said that it closes.
    Closing,
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Saw {
    Nothing,
    End,
    Reset,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct End {
    at: At,
    /// Without the library.
    plain: bool,
    /// The kernel's: nothing of the channel counts any more.
    kernel: bool,
    crashed: bool,
    sent: u8,
    shut: bool,
    got: Vec<u8>,
    saw: Saw,
    /// Has sent on what a retired peer had not read.
    flushed: bool,
    /// SO_LINGER of no time: its death is a reset.
    lingers_not: bool,
    /// Bells that were counted and are not in the twin yet.
    under_way: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    flags: [u32; 2],
    /// What an end has written and its peer has not read.
    ring: [Vec<u8>; 2],
    armed: [bool; 2],
    bells: [u8; 2],
    /// No more bells are counted.
    silent: [bool; 2],
    drained: [u8; 2],
    twin: [Twin; 2],
    end: [End; 2],
    crashes: u8,
    wrong: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    Come(usize),
    Send(usize),
    Receive(usize),
    /// Has waited for its peer for long.
    Tire(usize),
    Shut(usize),
    Close(usize),
    /// True: it reads its ring to the end by itself.
    Retire(usize, bool),
    /// Has retired, and cannot read its ring any more.
    StopReading(usize),
    /// The kernel has no room for what the peer has not read: the peer reads it in its ring.
    Withhold(usize),
    /// Sends on what its peer has sent, in its peer's place.
    StandIn(usize),
    Crash(usize),
    /// Of two processes that share this end, one of which sleeps, the other dies while it retires.
    CrashRetiring(usize),
    /// A bell that was counted gets into the twin.
    Ring(usize),
    /// Whatever comes next where it is.
    Step(usize),
}

/// Who has the library, who may retire, and read on then, how many may die.
struct Protocol {
    plain_server: bool,
    retires: [bool; 2],
    reads_on: bool,
    crashes: u8,
}

impl World {
    fn is_retired(&self) -> bool {
        (self.flags[0] | self.flags[1]) & RETIRED != 0
    }

    fn may_read(&self, who: usize) -> bool {
        seat::may_read(self.flags[who], self.flags[who ^ 1])
    }

    fn has_come(&self, who: usize) -> bool {
        self.flags[who] & ATTACHED != 0
    }

    /// Something through the kernel to the other one.
    fn through(&mut self, from: usize, byte: Byte) {
        if self.end[from ^ 1].at != At::Gone && !self.twin[from ^ 1].reset {
            self.twin[from ^ 1].queue.push(byte);
        }
    }

    /// Whether the other end's process holds all locks.
    fn is_locked_out(&self, who: usize) -> bool {
        matches!(self.end[who ^ 1].at, At::Retiring | At::Emptying)
    }

    /// No more bells, as far as that was not so; who has retired rings a last one.
    fn close_bells(&mut self, who: usize) {
        self.silent[who ^ 1] = true;
        let rings = !std::mem::replace(&mut self.silent[who], true);
        if self.flags[who] & RETIRED == 0 {
            return;
        }
        if rings {
            self.bells[who] += 1;
            self.through(who, Byte::Bell);
        }
    }

    fn ring_if_armed(&mut self, from: usize) {
        let to = from ^ 1;
        if seat::may_ring(self.flags[to]) && self.armed[to] {
            self.armed[to] = false;
            if !self.silent[from] {
                self.bells[from] += 1;
                self.end[from].under_way += 1;
            }
        }
    }

    /// The kernel ends what the process had.
    fn leave(&mut self, who: usize) {
        let reset = self.end[who].lingers_not || !self.twin[who].queue.is_empty();
        let peer = &mut self.twin[who ^ 1];
        match reset {
            true => peer.reset = true,
            false => peer.ended = true,
        }
        self.end[who].at = At::Gone;
        self.end[who].under_way = 0;
    }

    fn take(&mut self, who: usize, value: u8) {
        if self.end[who].got.len() != usize::from(value) {
            self.wrong = Some("a byte is lost, doubled or out of order");
        }
        self.end[who].got.push(value);
    }

    /// One byte of the own ring through the twin. False: none is left.
    fn pass_one(&mut self, who: usize) -> bool {
        self.end[who].lingers_not = true;
        if self.ring[who].is_empty() {
            self.end[who].lingers_not = false;
            if self.flags[who] & FIN != 0 {
                self.twin[who ^ 1].ended = true;
            }
            return false;
        }
        let value = self.ring[who].remove(0);
        self.through(who, Byte::Data(value));
        true
    }

    /// The next bell of those that were counted. None: it is not there yet; false: none is missing.
    fn take_bell(&mut self, who: usize) -> Option<bool> {
        if self.drained[who] == self.bells[who ^ 1] {
            return Some(false);
        }
        if self.twin[who].queue.is_empty() {
            // Its peer has died over it: the kernel tells the rest.
            let over = self.twin[who].ended || self.twin[who].reset;
            return over.then_some(false);
        }
        if self.twin[who].queue.remove(0) != Byte::Bell {
            self.wrong = Some("data is taken for a bell");
        }
        self.drained[who] += 1;
        Some(true)
    }

    /// Whether there is something for a reader to do.
    fn concerns(&self, who: usize) -> bool {
        let peer = self.flags[who ^ 1];
        !self.ring[who ^ 1].is_empty() && self.may_read(who)
            || self.is_retired()
            || peer & (FIN | CLOSED) != 0
    }

    fn receive(&mut self, who: usize) {
        if self.end[who].kernel {
            return self.receive_plainly(who);
        }
        if self.may_read(who) && !self.ring[who ^ 1].is_empty() {
            let value = self.ring[who ^ 1].remove(0);
            self.take(who, value);
            return self.ring_if_armed(who);
        }
        if self.is_retired() {
            self.end[who].at = At::PassingOn;
            return;
        }
        if !self.has_come(who ^ 1) && self.twin[who].is_readable() {
            return self.give_up(who, At::Flushing);
        }
        let gone = self.has_come(who ^ 1) && (self.twin[who].ended || self.twin[who].reset);
        if self.flags[who ^ 1] & (FIN | CLOSED) != 0 || gone {
            self.end[who].saw = Saw::End;
            return;
        }
        self.armed[who] = true;
        self.end[who].at = At::Armed;
    }

    fn receive_plainly(&mut self, who: usize) {
        if self.twin[who].queue.is_empty() {
            self.end[who].saw = match self.twin[who].reset {
                true => Saw::Reset,
                false => Saw::End,
            };
            return;
        }
        match self.twin[who].queue.remove(0) {
            Byte::Data(value) => self.take(who, value),
            Byte::Bell => self.wrong = Some("a bell is read as data"),
        }
    }

    /// From the moment before its peer can find its seat given up, the death of who gives it up is a reset.
    fn give_up(&mut self, who: usize, then: At) {
        if let Some(flags) = seat::give_up(self.flags[who ^ 1]) {
            self.flags[who ^ 1] = flags;
            self.end[who].lingers_not = true;
            self.end[who].at = then;
        }
    }

    /// Whether what the end sends goes by the kernel.
    fn uses_twin(&self, who: usize) -> bool {
        let left = self.flags[who] & RETIRED != 0 && self.silent == [true; 2];
        left && self.end[who].under_way == 0 || self.end[who].kernel || self.end[who].flushed
    }

    fn send(&mut self, who: usize) {
        let value = self.end[who].sent;
        if self.uses_twin(who) {
            self.through(who, Byte::Data(value));
        } else if seat::may_write(self.flags[who], self.flags[who ^ 1]) {
            self.ring[who].push(value);
            self.ring_if_armed(who);
        } else {
            self.end[who].at = At::PassingOn;
            return;
        }
        self.end[who].sent += 1;
    }

    fn shut(&mut self, who: usize) {
        if self.is_retired() && !self.uses_twin(who) {
            self.end[who].at = At::PassingOn;
            return;
        }
        self.end[who].shut = true;
        if self.uses_twin(who) {
            self.twin[who ^ 1].ended = true;
        } else {
            self.flags[who] |= FIN;
            self.ring_if_armed(who);
        }
    }

    fn close(&mut self, who: usize) {
        if self.end[who].kernel {
            self.leave(who);
        } else if self.is_retired() {
            self.end[who].at = At::PassingOn;
        } else if !self.has_come(who ^ 1) {
            self.give_up(who, At::FlushingToClose);
        } else {
            self.flags[who] |= CLOSED;
            self.ring_if_armed(who);
            self.end[who].at = At::Closing;
        }
    }

    fn step(&mut self, who: usize) {
        match self.end[who].at {
            At::Flushing => {
                if !self.pass_one(who) {
                    self.end[who].kernel = true;
                    self.end[who].at = At::Idle;
                }
            }
            At::FlushingToClose => {
                if !self.pass_one(who) {
                    self.leave(who);
                }
            }
            At::Armed => {
                let awake = self.concerns(who);
                self.armed[who] &= !awake;
                self.end[who].at = if awake { At::Idle } else { At::Asleep };
            }
            At::Asleep => self.wake(who),
            At::PassingOn => self.pass_on(who),
            At::GoingOver => {
                if self.take_bell(who) == Some(false) {
                    self.end[who].kernel = true;
                    self.end[who].at = At::Idle;
                    if self.flags[who] & FIN != 0 {
                        self.twin[who ^ 1].ended = true;
                    }
                    let heard = self.flags[who ^ 1] & FIN != 0 && !self.end[who ^ 1].flushed;
                    // Its own twin is shut down for reading.
                    self.twin[who].ended |= heard && self.flags[who] & READS_ON != 0;
                }
            }
            At::Retiring => {
                self.close_bells(who);
                self.end[who].at = At::Emptying;
            }
            At::Emptying => {
                self.flags[who] |= PASSED;
                if !self.pass_one(who) {
                    self.end[who].at = self.or_reads_on(who, At::Leaving);
                }
            }
            At::Leaving => self.go_or_come_back(who),
            At::Closing => self.leave(who),
            At::Outside | At::Idle | At::Gone => {}
        }
    }

    /// A peer that died before it sent anything on has left all in the ring.
    fn go_or_come_back(&mut self, who: usize) {
        self.end[who].at = At::GoingOver;
        let peer = &self.end[who ^ 1];
        if (self.twin[who].ended || self.twin[who].reset) && !peer.flushed {
            if !peer.lingers_not {
                self.flags[who] = seat::come_back(self.flags[who]);
                self.end[who].at = At::Idle;
                return;
            }
            self.twin[who].reset = true;
            self.twin[who].queue.clear();
        }
    }

    fn pass_on(&mut self, who: usize) {
        if self.silent != [true; 2] {
            self.close_bells(who);
        } else if self.flags[who] & RETIRED != 0 {
            let reads = self.flags[who] & READS_ON != 0;
            let then = if reads { At::GoingOver } else { At::Leaving };
            self.end[who].at = self.or_reads_on(who, then);
        } else if !self.end[who].flushed {
            self.flags[who ^ 1] &= !READS_ON;
            self.end[who].flushed = !self.pass_one(who);
        } else if self.take_bell(who) == Some(false) {
            self.end[who].at = self.or_reads_on(who, At::GoingOver);
        }
    }

    fn or_reads_on(&self, who: usize, then: At) -> At {
        match self.may_read(who) && !self.ring[who ^ 1].is_empty() {
            true => At::Idle,
            false => then,
        }
    }

    /// Whether a process that has retired may send on in its peer's place: that one is not about to, and no bell of it is
    /// under way.
    fn may_stand_in(&self, who: usize) -> bool {
        let peer = &self.end[who ^ 1];
        let left = !self.may_read(who) && self.silent == [true; 2];
        left && peer.at != At::Gone && !peer.lingers_not && !peer.flushed && peer.under_way == 0
    }

    /// All in one step: the peer's lock for sending is held. The bells are left to who sleeps.
    fn stand_in(&mut self, who: usize) {
        let peer = who ^ 1;
        while self.pass_one(peer) {}
        self.end[peer].flushed = true;
        while !self.armed[peer] && self.take_bell(peer) == Some(true) {}
    }

    /// The twin is readable, or, where the peer has not come, the sleep was short.
    fn wake(&mut self, who: usize) {
        self.armed[who] = false;
        self.end[who].at = At::Idle;
        if seat::may_hold_data(self.flags[who], self.flags[who ^ 1]) {
            return;
        }
        let drained = std::mem::take(&mut self.twin[who].queue);
        if drained.iter().any(|byte| *byte != Byte::Bell) {
            self.wrong = Some("data is drained with the bells");
        }
        self.drained[who] += drained.len() as u8;
    }

    /// Whether a process can go on from where it is.
    fn can_step(&self, who: usize) -> bool {
        let end = &self.end[who];
        let missing = self.drained[who] != self.bells[who ^ 1];
        let bell = !missing || self.twin[who].is_readable();
        match end.at {
            At::Flushing | At::FlushingToClose | At::Armed => true,
            At::Asleep => self.twin[who].is_readable() || !self.has_come(who ^ 1),
            At::Retiring | At::Leaving => true,
            At::Emptying => end.under_way == 0,
            At::PassingOn if self.is_locked_out(who) => false,
            At::PassingOn if end.flushed => bell,
            At::PassingOn => end.under_way == 0,
            At::GoingOver => end.under_way == 0 && bell,
            At::Closing => end.under_way == 0,
            At::Outside | At::Idle | At::Gone => false,
        }
    }
}

impl Model for Protocol {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let end = End {
            at: At::Outside,
            plain: false,
            kernel: false,
            crashed: false,
            sent: 0,
            shut: false,
            got: Vec::new(),
            saw: Saw::Nothing,
            flushed: false,
            lingers_not: false,
            under_way: 0,
        };
        let server = End {
            plain: self.plain_server,
            ..end.clone()
        };
        vec![World {
            flags: [0; 2],
            ring: Default::default(),
            // Armed from their birth on: nobody sleeps yet.
            armed: [true; 2],
            bells: [0; 2],
            silent: [false; 2],
            drained: [0; 2],
            twin: Default::default(),
            end: [end, server],
            crashes: 0,
            wrong: None,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for who in 0..2 {
            let end = &world.end[who];
            if end.at == At::Gone {
                continue;
            }
            if world.crashes < self.crashes {
                actions.push(Action::Crash(who));
                if matches!(end.at, At::Retiring | At::Emptying) {
                    actions.push(Action::CrashRetiring(who));
                }
            }
            if end.under_way > 0 {
                actions.push(Action::Ring(who));
            }
            if world.can_step(who) {
                actions.push(Action::Step(who));
            }
            if end.at == At::Emptying && end.under_way == 0 && !end.lingers_not {
                actions.push(Action::Withhold(who));
            }
            if end.at == At::Leaving && world.may_stand_in(who) {
                actions.push(Action::StandIn(who));
            }
            if end.at == At::Outside {
                actions.push(Action::Come(who));
            }
            if end.at != At::Idle || !end.kernel && world.is_locked_out(who) {
                continue;
            }
            match end.sent {
                BYTES if !end.shut => actions.push(Action::Shut(who)),
                BYTES => {}
                _ => actions.push(Action::Send(who)),
            }
            if end.saw == Saw::Nothing && (!end.kernel || world.twin[who].is_readable()) {
                actions.push(Action::Receive(who));
            }
            if end.saw != Saw::Nothing && end.shut {
                actions.push(Action::Close(who));
            }
            let ring = !end.kernel && !end.plain;
            if ring && seat::give_up(world.flags[who ^ 1]).is_some() {
                actions.push(Action::Tire(who));
            }
            // Who sees that its peer has died does not rely on it.
            let alive = !world.twin[who].ended && !world.twin[who].reset;
            let retire = seat::retire(world.flags[who], world.flags[who ^ 1], true);
            if ring && alive && self.retires[who] && retire.is_some() {
                actions.push(Action::Retire(who, self.reads_on));
            }
            let reads = world.flags[who] & READS_ON != 0 && world.silent == [true; 2];
            if ring && reads {
                actions.push(Action::StopReading(who));
            }
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        match action {
            Action::Come(who) => {
                next.end[who].at = At::Idle;
                match seat::take(next.flags[who]) {
                    Some(flags) if !next.end[who].plain => {
                        next.flags[who] = flags;
                        next.armed[who] = false;
                    }
                    _ => next.end[who].kernel = true,
                }
            }
            Action::Send(who) => next.send(who),
            Action::Receive(who) => next.receive(who),
            Action::Tire(who) => next.give_up(who, At::Flushing),
            Action::Shut(who) => next.shut(who),
            Action::Close(who) => next.close(who),
            Action::Retire(who, reads_on) => {
                let peer = next.flags[who ^ 1];
                next.flags[who] = seat::retire(next.flags[who], peer, reads_on)?;
                next.end[who].at = At::Retiring;
            }
            Action::StopReading(who) => {
                next.flags[who] = seat::stop_reading(next.flags[who])?;
                next.end[who].at = At::Leaving;
            }
            Action::Withhold(who) => next.end[who].at = next.or_reads_on(who, At::Leaving),
            Action::StandIn(who) => next.stand_in(who),
            Action::Crash(who) => {
                next.crashes += 1;
                next.end[who].crashed = true;
                next.leave(who);
            }
            Action::CrashRetiring(who) => {
                next.crashes += 1;
                next.end[who].at = At::Idle;
                next.armed[who] = true;
                if next.flags[who] & PASSED != 0 {
                    // How much was sent on nobody knows: who shares the end breaks it off.
                    next.crashes = self.crashes;
                    next.end[who].crashed = true;
                    next.leave(who);
                }
            }
            Action::Ring(who) => {
                next.end[who].under_way -= 1;
                next.through(who, Byte::Bell);
            }
            Action::Step(who) => next.step(who),
        }
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(
                "no byte is added, lost, doubled or moved",
                |_, world: &World| world.wrong.is_none(),
            ),
            Property::always("nobody takes a part for the whole", |_, world: &World| {
                (0..2).all(|who| {
                    let (end, peer) = (&world.end[who], &world.end[who ^ 1]);
                    // Nobody is left to send what lies in the ring of a client that was killed before a plain acceptor came.
                    let excepted = end.plain && peer.crashed && !world.ring[who ^ 1].is_empty();
                    end.saw != Saw::End || end.got.len() == usize::from(peer.sent) || excepted
                })
            }),
            Property::always(
                "no wait is without a waker",
                |model: &Self, world: &World| {
                    let mut actions = Vec::new();
                    model.actions(world, &mut actions);
                    // What dies is not what wakes.
                    actions.retain(|action| {
                        !matches!(action, Action::Crash(_) | Action::CrashRetiring(_))
                    });
                    let moves = |action: &Action| model.next_state(world, action.clone()).is_some();
                    // Two programs that both wait for the other one wait rightly.
                    let rightly = |who: usize| match world.end[who].at {
                        At::Gone => true,
                        At::Asleep => !world.concerns(who),
                        At::Idle => world.end[who].kernel,
                        _ => false,
                    };
                    (0..2).all(rightly) || actions.iter().any(moves)
                },
            ),
            Property::sometimes("both end by the rings", |_, world: &World| {
                world
                    .end
                    .iter()
                    .all(|end| end.at == At::Gone && !end.kernel)
                    && world
                        .end
                        .iter()
                        .all(|end| end.got.len() == usize::from(BYTES))
            }),
        ]
    }
}

fn check(name: &str, protocol: Protocol, by_the_rings: bool) {
    let checker = protocol.checker().threads(2).spawn_bfs().join();
    println!("{name}: {} states", checker.unique_state_count());
    for (property, path) in checker.discoveries() {
        if property != "both end by the rings" {
            let last = path.last_state().clone();
            let steps: Vec<_> = path.into_actions();
            panic!("{name}: it is not so that {property}: {steps:?}\nleads to {last:#?}");
        }
    }
    assert!(checker.is_done());
    let seen = checker.discovery("both end by the rings").is_some();
    assert_eq!(
        seen, by_the_rings,
        "{name}: whether both can end by the rings"
    );
}

#[test]
fn both_have_the_library() {
    let protocol = Protocol {
        plain_server: false,
        retires: [false; 2],
        reads_on: false,
        crashes: 1,
    };
    check("come, give up, end, one death", protocol, true);
}

#[test]
fn the_server_has_not() {
    let protocol = Protocol {
        plain_server: true,
        retires: [false; 2],
        reads_on: false,
        crashes: 1,
    };
    check("a server without the library, one death", protocol, false);
}

/// The ends do the same, but for who comes first: one of them has to do, here and where it reads on.
#[test]
fn an_end_retires() {
    let protocol = Protocol {
        plain_server: false,
        retires: [false, true],
        reads_on: false,
        crashes: 1,
    };
    check("retiring, one death", protocol, true);
}

#[test]
fn an_end_retires_and_reads_on() {
    let protocol = Protocol {
        plain_server: false,
        retires: [true, false],
        reads_on: true,
        crashes: 1,
    };
    check("retiring and reading on, one death", protocol, true);
}

#[test]
#[ignore = "a minute"]
fn either_end_retires() {
    for reads_on in [false, true] {
        let protocol = Protocol {
            plain_server: false,
            retires: [true; 2],
            reads_on,
            crashes: 1,
        };
        check("either retiring, one death", protocol, true);
    }
}
