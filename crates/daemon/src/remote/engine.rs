// SPDX-License-Identifier: Apache-2.0
//! The thread with the NIC: it takes stores out of the processes' rings, frames from the network, and does nothing else
//! but what it is called for.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use softnic::{Event, PeerAddress, Share, Shared};
use wire::{KeyEntry, KeyUse};

use crate::Error;
use crate::remote::carry::Carried;
use crate::remote::coordinator::{Asked, Input};
use crate::remote::nic::{Memory, Nic, WindowId};
use crate::remote::options::Options;
use crate::remote::ring::{Ring, Wanted};
use crate::remote::system;
use crate::remote::turns::Turns;

/// Something for the thread to do.
type Call = Box<dyn FnOnce(&mut Engine) + Send>;

/// Longest sleep: longer ones serve nobody.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// Keys of the epoll that are no windows.
const WAKE: u64 = u64::MAX;
const FRAMES: u64 = u64::MAX - 1;
/// Begins the keys of tethers.
const TETHER: u64 = 1 << 62;
/// Calls before the NIC has its turn: a hundred connections that end at once must not hold up those that do not.
const CALLS: usize = 16;
/// Rings of closed windows that are carried yet: a peer that takes nothing must not have the daemon keep them without end.
const MOST_LEAVING: usize = 1024;
/// Turns without sleep until processes that have gone are looked for.
const BLIND: u32 = 8;
/// How long a channel whose store was refused is left standing for the other machine to say that it has ended it.
const REFUSED: Duration = Duration::from_secs(10);
/// How long a position may wait to be told.
const LAZINESS: Duration = Duration::from_millis(100);

/// The NIC and the rings.
#[derive(Debug)]
pub struct Engine {
    nic: Shown,
    rings: BTreeMap<u64, Ring>,
    /// Those of closed windows in which something may be left, the oldest first.
    leaving: VecDeque<u64>,
    /// Ends of channels to other machines, by the channel.
    carried: BTreeMap<u64, Carried>,
    /// Whose turn it is among the rings, and among the ends.
    turns: [Turns; 2],
    /// When a store of a channel was refused that the other machine has not ended.
    refused: BTreeMap<u64, Instant>,
    /// Turns since the descriptors were looked at.
    unseen: u32,
    /// Ends that have said their last, by session, in want of a mark behind it: the NIC has few.
    said: BTreeMap<u8, Vec<u64>>,
    /// Those behind which there is one, by the NIC's number.
    ends: HashMap<u64, Vec<u64>>,
    /// Of processes that have ends of channels: the channel, and this side of the tether.
    tethers: HashMap<u64, (u64, OwnedFd)>,
    last_tether: u64,
    /// When positions were told last that nobody waits for.
    lazy: Instant,
    /// Whose flushes and loads are under way, by the NIC's number.
    marks: HashMap<u64, (u64, Wanted)>,
    loads: HashMap<u64, (u64, Wanted)>,
    last_mark: u64,
    epoll: OwnedFd,
    inputs: mpsc::Sender<Input>,
    /// Sealed sessions, and whether it was told that their keys are worn.
    sealed: BTreeMap<u8, bool>,
    /// Frames after which they are; 0: never.
    rekey_frames: u64,
}

/// A NIC says nothing of itself in messages for people.
struct Shown(Box<dyn Nic>);

impl std::fmt::Debug for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Nic")
    }
}

/// Calls the thread. It ends with the last of these.
#[derive(Clone, Debug)]
pub struct Handle {
    calls: mpsc::Sender<Call>,
    wake: Arc<OwnedFd>,
}

impl Handle {
    /// Has something done by the thread, after all that was asked before, and does not wait for it.
    pub fn post(&self, body: impl FnOnce(&mut Engine) + Send + 'static) {
        // If it has ended, there is nothing to be done.
        if self.calls.send(Box::new(body)).is_ok() {
            let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        }
    }

    /// Has something done by the thread, and waits for it; `None` if it has ended. Not for those who have others wait.
    pub fn call<R: Send + 'static>(
        &self,
        body: impl FnOnce(&mut Engine) -> R + Send + 'static,
    ) -> Option<R> {
        let (give, take) = mpsc::sync_channel(1);
        let call: Call = Box::new(move |engine| {
            let _ = give.send(body(engine));
        });
        self.calls.send(call).ok()?;
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        take.recv().ok()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // If it was the last, the thread sees that nobody can call it any more.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

impl Engine {
    /// Starts the thread.
    pub fn start(
        options: &Options,
        management: Ipv4Addr,
        inputs: mpsc::Sender<Input>,
    ) -> Result<(Handle, JoinHandle<()>), Error> {
        let refused = |error: softnic::Error| {
            let why = error.to_string();
            match options.nic {
                super::Transport::Udp => Error::Resource(why),
                _ => Error::Config {
                    place: "--nic".to_owned(),
                    problem: why,
                },
            }
        };
        let nic = options.open(management).map_err(refused)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("make an epoll"))?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(system("make an event counter"))?;
        let wake = Arc::new(wake);
        let watch = |fd, key| {
            epoll::add(&epoll, fd, EventData::new_u64(key), EventFlags::IN)
                .map_err(system("watch its NIC"))
        };
        watch(wake.as_fd(), WAKE)?;
        if let Some(fd) = nic.descriptor() {
            watch(fd, FRAMES)?;
        }
        let engine = Self {
            nic: Shown(nic),
            rings: BTreeMap::new(),
            leaving: VecDeque::new(),
            carried: BTreeMap::new(),
            turns: Default::default(),
            refused: BTreeMap::new(),
            unseen: 0,
            said: BTreeMap::new(),
            ends: HashMap::new(),
            tethers: HashMap::new(),
            last_tether: 0,
            lazy: Instant::now(),
            marks: HashMap::new(),
            loads: HashMap::new(),
            last_mark: 0,
            epoll,
            inputs,
            sealed: BTreeMap::new(),
            rekey_frames: options.rekey_frames,
        };
        let (calls, queue) = mpsc::channel();
        let spin = match engine.nic.0.polls() {
            true => Duration::from_micros(options.spin_us),
            false => Duration::ZERO,
        };
        let own = Arc::clone(&wake);
        let thread = std::thread::Builder::new()
            .name("ipnuma-nic".to_owned())
            .spawn(move || engine.run(&queue, &own, spin));
        let thread = thread.map_err(super::io_error("start a thread"))?;
        Ok((Handle { calls, wake }, thread))
    }

    /// Tells the coordinator.
    pub fn say(&self, input: Input) {
        // It has ended only if the daemon ends.
        let _ = self.inputs.send(input);
    }

    /// The NIC.
    pub fn nic(&mut self) -> &mut dyn Nic {
        &mut *self.nic.0
    }

    /// Begins a session.
    pub fn open_session(&mut self, session: u8, peer: &PeerAddress) -> Result<(), softnic::Error> {
        self.nic().open_session(session, peer)?;
        if peer.keys.is_some() {
            self.sealed.insert(session, false);
        }
        Ok(())
    }

    /// Ends it.
    pub fn close_session(&mut self, session: u8) {
        self.sealed.remove(&session);
        self.nic().close_session(session);
    }

    /// Gives a sealed session its next keys.
    pub fn write_keys(
        &mut self,
        session: u8,
        writes: &[(KeyEntry, KeyUse)],
    ) -> Result<(), softnic::Error> {
        for (entry, what) in writes {
            self.nic().write_key(session, entry, *what)?;
            if matches!(what, KeyUse::Send(_)) {
                self.sealed.insert(session, false);
            }
        }
        Ok(())
    }

    /// Tells whose keys have sealed as many frames as they should: once.
    fn look_at_keys(&mut self) {
        if self.rekey_frames == 0 {
            return;
        }
        for (&session, told) in &mut self.sealed {
            if !*told && self.nic.0.sealed_frames(session) >= self.rekey_frames {
                *told = true;
                let _ = self.inputs.send(Input::Worn(session));
            }
        }
    }

    /// Takes stores from a ring from now on.
    pub fn attach(&mut self, number: u64, ring: Ring) -> Result<(), Error> {
        let data = EventData::new_u64(number);
        let watched = epoll::add(&self.epoll, &ring.event, data, EventFlags::IN);
        if let Err(errno) = watched {
            self.unmap(ring.close());
            return Err(system("watch a ring")(errno));
        }
        self.rings.insert(number, ring);
        Ok(())
    }

    /// The process has closed the window: what it has stored is carried yet. [`Input::Left`] follows.
    pub fn detach(&mut self, number: u64) {
        let Some(ring) = self.rings.get(&number) else {
            self.say(Input::Left(number));
            return;
        };
        // The last descriptor may be the process's.
        let _ = epoll::delete(&self.epoll, &ring.event);
        self.leaving.push_back(number);
        if self.leaving.len() > MOST_LEAVING
            && let Some(oldest) = self.leaving.pop_front()
        {
            self.part(oldest);
        }
    }

    /// Takes no more stores from a window's ring, and gives its pages back.
    fn part(&mut self, number: u64) {
        if let Some(ring) = self.rings.remove(&number) {
            self.unmap(ring.close());
            self.say(Input::Left(number));
        }
    }

    /// Asks for a mark behind the last store of each closed window.
    fn see_off(&mut self) {
        for _ in 0..self.leaving.len() {
            let Some(number) = self.leaving.pop_front() else {
                return;
            };
            let Some(ring) = self.rings.get(&number) else {
                continue;
            };
            let session = ring.session;
            if ring.readable() {
                self.leaving.push_back(number);
                continue;
            }
            self.last_mark += 1;
            let cookie = self.last_mark;
            match self.nic().flush(session, cookie) {
                Ok(()) => {
                    self.marks.insert(cookie, (number, Wanted::End));
                }
                // Others wait: the mark is set later.
                Err(softnic::Error::Full { .. }) => self.leaving.push_back(number),
                Err(_) => self.part(number),
            }
        }
    }

    fn unmap(&mut self, window: WindowId) {
        self.nic().unmap(window);
    }

    /// The token of a window was taken back.
    pub fn revoke(&mut self, number: u64) {
        if let Some(ring) = self.rings.get_mut(&number) {
            ring.revoke();
        }
    }

    /// The peer of a window is lost.
    pub fn cut(&mut self, number: u64) {
        self.cut_ring(number);
        if let Some(carried) = self.carried.get_mut(&number) {
            carried.cut();
        }
    }

    fn cut_ring(&mut self, number: u64) {
        if let Some(ring) = self.rings.get_mut(&number) {
            ring.cut();
        }
        self.fail_loads(number);
        let ends = |&(of, wanted): &(u64, Wanted)| of == number && matches!(wanted, Wanted::End);
        if self.leaving.contains(&number) || self.marks.values().any(ends) {
            self.part(number);
        }
    }

    /// Nothing more comes of the loads of a window that are under way, whatever the NIC says of them later.
    fn fail_loads(&mut self, window: u64) {
        for (_, (_, wanted)) in self.loads.extract_if(|_, (of, _)| *of == window) {
            if let Some(ring) = self.rings.get(&window) {
                ring.ended(wanted, false);
            }
        }
    }

    /// Carries nothing more of it, and gives its pages back.
    pub fn put_down(&mut self, number: u64) {
        self.refused.remove(&number);
        if let Some(carried) = self.carried.remove(&number) {
            self.unmap(carried.window);
        }
    }

    /// Watches a tether of a channel.
    pub fn tie(&mut self, channel: u64, tether: OwnedFd) {
        self.last_tether += 1;
        let key = EventData::new_u64(TETHER | self.last_tether);
        // One that can't be watched is dropped, and the process takes the daemon for gone: it finds the connection reset.
        if epoll::add(&self.epoll, &tether, key, EventFlags::IN).is_ok() {
            let carried = self.carried.get(&channel).filter(|it| it.is_direct());
            if let Some(file) = carried.and_then(|it| self.nic.0.window(it.window)) {
                hand(&tether, &file);
            }
            self.tethers.insert(self.last_tether, (channel, tether));
        }
    }

    /// Lets the other machine use memory; [`Input::Shared`] follows.
    pub fn share(&mut self, memory: &Memory, share: &Share, asked: Asked) {
        let result = self.nic().share(memory, share);
        let _ = self.inputs.send(Input::Shared(asked, result));
    }

    /// Carries what an end of a channel writes into the window from now on. [`Input::Uncarried`] follows if the NIC has no
    /// room for it.
    pub fn carry_into(
        &mut self,
        number: u64,
        (session, shared): (u8, Shared),
        (first, bytes): (u64, u64),
        end: impl FnOnce(WindowId) -> Carried,
    ) {
        match self.nic().map(session, &shared, first, bytes) {
            Ok(window) => {
                let mut carried = end(window);
                if let Some(file) = self.nic().window(window) {
                    carried.direct();
                    let tethers = self.tethers.values().filter(|(of, _)| *of == number);
                    tethers.for_each(|(_, tether)| hand(tether, &file));
                }
                self.carried.insert(number, carried);
            }
            Err(_) => {
                let _ = self.inputs.send(Input::Uncarried(number));
            }
        }
    }

    /// Bytes in a tether only wake; its end says that a process is gone with all its children.
    fn pull(&mut self, number: u64) {
        let Some((channel, tether)) = self.tethers.get(&number) else {
            return;
        };
        let channel = *channel;
        let mut calls = [0; 256];
        let mut called = false;
        let open = loop {
            match rustix::io::read(tether, &mut calls) {
                Ok(count) if count == calls.len() => called = true,
                Ok(1..) => {
                    called = true;
                    break true;
                }
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => break true,
                _ => break false,
            }
        };
        if open {
            // Who calls has no window: of two who share the end the other may have taken it.
            let direct = self.carried.get(&channel).filter(|it| it.is_direct());
            let window = direct.filter(|_| called).map(|it| it.window);
            if let Some(file) = window.and_then(|window| self.nic.0.window(window)) {
                hand(tether, &file);
            }
            return;
        }
        self.tethers.remove(&number);
        if !self.tethers.values().any(|(other, _)| *other == channel) {
            let tethers = self.last_tether;
            let _ = self.inputs.send(Input::Untethered(channel, tethers));
        }
    }

    /// Nobody has the end of a channel any more. [`Input::Carried`] follows.
    pub fn desert(&mut self, number: u64) {
        if let Some(carried) = self.carried.get_mut(&number) {
            carried.desert();
        }
    }

    fn run(mut self, calls: &mpsc::Receiver<Call>, wake: &OwnedFd, spin: Duration) {
        // Where looking at a NIC lets no time pass, looking at a clock may.
        let mut active = (!spin.is_zero()).then(Instant::now);
        loop {
            let mut busy = false;
            for _ in 0..CALLS {
                match calls.try_recv() {
                    Ok(call) => {
                        call(&mut self);
                        busy = true;
                    }
                    Err(mpsc::TryRecvError::Empty) => break,
                    Err(mpsc::TryRecvError::Disconnected) => return,
                }
            }
            match self.nic().poll() {
                Ok(came) => busy |= came,
                Err(error) => {
                    let _ = self.inputs.send(Input::NicFailed(error.to_string()));
                    // It may come up again.
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
            self.tell();
            self.look_at_keys();
            // A look at the clock takes time where looking at a NIC takes none.
            if !self.refused.is_empty() {
                self.give_up(Instant::now());
            }
            busy |= self.drain();
            self.unseen += 1;
            if self.unseen >= BLIND {
                // Somebody may be at it for ever.
                self.look(wake, Some(&Timespec::default()));
            }
            match &mut active {
                _ if busy && spin.is_zero() => {}
                Some(active) if busy => *active = Instant::now(),
                Some(active) if active.elapsed() < spin => std::hint::spin_loop(),
                active => {
                    self.sleep(wake);
                    *active = active.map(|_| Instant::now());
                }
            }
        }
    }

    fn drain(&mut self) -> bool {
        let mut busy = false;
        let nic = &mut self.nic.0;
        let (last_mark, marks, loads) = (&mut self.last_mark, &mut self.marks, &mut self.loads);
        let [rings, ends] = &mut self.turns;
        busy |= rings.take(
            &mut self.rings,
            |ring| ring.session,
            &mut **nic,
            |number, ring, nic| {
                if !ring.readable() {
                    return false;
                }
                let turn = ring.drain(nic, last_mark);
                marks.extend(turn.marks.iter().map(|(id, mark)| (*id, (number, *mark))));
                loads.extend(turn.loads.iter().map(|(id, load)| (*id, (number, *load))));
                turn.busy
            },
        );
        let said = &mut self.said;
        busy |= ends.take(
            &mut self.carried,
            |carried| carried.session,
            &mut **nic,
            |number, carried, nic| {
                let turn = carried.carry(nic);
                if turn.ended {
                    said.entry(carried.session).or_default().push(number);
                }
                turn.busy
            },
        );
        self.mark_the_last();
        if !self.leaving.is_empty() {
            self.see_off();
        }
        self.nic().kick();
        busy
    }

    /// Passes on what the NIC has to say.
    fn tell(&mut self) {
        while let Some(event) = self.nic().next_event() {
            match event {
                Event::PeerLost { session } => {
                    let rings = self.rings.iter();
                    let lost: Vec<u64> = rings
                        .filter(|(_, ring)| ring.session == session)
                        .map(|(&number, _)| number)
                        .collect();
                    for number in lost {
                        self.cut_ring(number);
                    }
                    let carried = self.carried.values_mut();
                    for carried in carried.filter(|carried| carried.session == session) {
                        carried.cut();
                    }
                    let _ = self.inputs.send(Input::SessionLost(session));
                }
                Event::Refused { session, key, .. } => {
                    for ring in self.rings.values_mut() {
                        if (ring.session, ring.key) == (session, key) {
                            // Whatever the reason: bounds and rights were looked at here, so it is not the region any more
                            // that was granted.
                            ring.fault();
                            ring.revoke();
                        }
                    }
                    self.refuse(session, key);
                }
                Event::Flushed { cookie, delivered } => {
                    if let Some(numbers) = self.ends.remove(&cookie) {
                        self.are_carried(numbers);
                    } else if let Some((number, wanted)) = self.marks.remove(&cookie)
                        && let Some(ring) = self.rings.get(&number)
                    {
                        ring.ended(wanted, delivered);
                        if let Wanted::End = wanted {
                            self.part(number);
                        }
                    }
                }
                Event::Loaded { load, data } => {
                    if let Some((number, Wanted::Load(load))) = self.loads.remove(&load)
                        && let Some(ring) = self.rings.get(&number)
                    {
                        ring.loaded(load, data.as_deref().map_err(|why| *why));
                    }
                }
            }
        }
    }

    /// Asks for a mark behind all that ends have said that say no more: one for each session.
    fn mark_the_last(&mut self) {
        for (session, numbers) in std::mem::take(&mut self.said) {
            self.last_mark += 1;
            match self.nic.0.flush(session, self.last_mark) {
                Ok(()) => {
                    self.ends.insert(self.last_mark, numbers);
                }
                // Others wait: the mark is set later.
                Err(softnic::Error::Full { .. }) => {
                    self.said.insert(session, numbers);
                }
                Err(_) => self.are_carried(numbers),
            }
        }
    }

    fn are_carried(&self, numbers: Vec<u64>) {
        for number in numbers {
            let _ = self.inputs.send(Input::Carried(number));
        }
    }

    /// A store of a channel was refused. Most often the other machine has ended the channel, and says so by the management
    /// network. If it does not, a machine is broken, or a frame was forged: what was refused is not sent again.
    fn refuse(&mut self, session: u8, key: u16) {
        for (&number, carried) in &mut self.carried {
            if (carried.session, carried.key) == (session, key) {
                carried.cut();
                self.refused.entry(number).or_insert_with(Instant::now);
            }
        }
    }

    /// Tells of channels that were refused and never ended: [`Input::Stuck`].
    fn give_up(&mut self, now: Instant) {
        let late = |_: &u64, since: &mut Instant| now.saturating_duration_since(*since) >= REFUSED;
        for (number, _) in self.refused.extract_if(.., late) {
            let _ = self.inputs.send(Input::Stuck(number));
        }
    }

    /// Looks at the descriptors, or waits until one has something to tell.
    fn look(&mut self, wake: &OwnedFd, timeout: Option<&Timespec>) {
        self.unseen = 0;
        let mut events = Vec::with_capacity(16);
        // An interrupted sleep is a short one.
        let _ = epoll::wait(&self.epoll, spare_capacity(&mut events), timeout);
        for event in &events {
            let mut count = [0; 8];
            match event.data.u64() {
                FRAMES => {}
                WAKE => {
                    let _ = rustix::io::read(wake, &mut count);
                }
                key if key & TETHER != 0 => self.pull(key & !TETHER),
                number => {
                    if let Some(ring) = self.rings.get(&number) {
                        let _ = rustix::io::read(&ring.event, &mut count);
                    }
                }
            }
        }
    }

    /// Sleeps until a frame comes, a process wants something, or something is due.
    fn sleep(&mut self, wake: &OwnedFd) {
        for ring in self.rings.values() {
            ring.arm(true);
        }
        for carried in self.carried.values() {
            carried.arm(true);
        }
        // Who stores after this sees that it must wake us; who has stored before is seen by us.
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        // Those whose next store the NIC has no room for do not keep us awake: a frame will, or their session's timer.
        let nic = &self.nic.0;
        let ring = |it: &Ring| it.readable() && (it.is_cut() || nic.can_store(it.session));
        let end = |it: &Carried| it.pending() && nic.can_store(it.session);
        let wanted = self.rings.values().any(ring) || self.carried.values().any(end);
        if !wanted {
            let mut due = self.nic().deadline();
            if self.nic.0.polls() {
                let longest = match self.carried.values().any(Carried::is_lazy) {
                    true => LAZINESS,
                    false => LONGEST_SLEEP,
                };
                due = Some(due.unwrap_or(longest).min(longest));
            }
            // The marks that are under way may be others'.
            let waits = !self.said.is_empty() || !self.leaving.is_empty();
            if waits || !self.refused.is_empty() {
                due = Some(due.unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP));
            }
            let timeout = due.map(|due| Timespec {
                tv_sec: due.as_secs().cast_signed(),
                tv_nsec: due.subsec_nanos().into(),
            });
            self.look(wake, timeout.as_ref());
        }
        for ring in self.rings.values() {
            ring.arm(false);
        }
        if self.nic.0.polls() && self.lazy.elapsed() >= LAZINESS {
            self.lazy = Instant::now();
            self.carried.values_mut().for_each(Carried::idle);
        }
        for carried in self.carried.values() {
            carried.arm(false);
        }
    }
}

/// Gives a process the window into which it carries what it writes. If that is not possible, it goes on calling.
fn hand(tether: &OwnedFd, window: &OwnedFd) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let windows = [window.as_fd()];
    if ancillary.push(SendAncillaryMessage::ScmRights(&windows)) {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let _ = sendmsg(tether, &[IoSlice::new(&[0])], &mut ancillary, flags);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::carry::tests::Stores;

    /// Keeps the thread from sleeping.
    fn keep_busy(handle: &Arc<Handle>) {
        let again = Arc::downgrade(handle);
        handle.post(move |_| {
            if let Some(handle) = again.upgrade() {
                keep_busy(&handle);
            }
        });
    }

    #[test]
    fn ends_are_noticed_by_a_thread_that_never_sleeps() {
        let (inputs, received) = mpsc::channel();
        let address = Ipv4Addr::new(127, 77, 1, 1);
        let (handle, thread) =
            Engine::start(&Options::default(), address, inputs).expect("a NIC in software");
        let handle = Arc::new(handle);
        keep_busy(&handle);
        let (theirs, ours) = std::os::unix::net::UnixStream::pair().expect("a pair");
        ours.set_nonblocking(true).expect("a socket");
        handle.post(move |engine| engine.tie(5, ours.into()));
        drop(theirs);
        // Far longer than it takes: without a look it would never come.
        let said = received.recv_timeout(Duration::from_secs(20));
        assert!(matches!(said, Ok(Input::Untethered(5, 1))), "{said:?}");
        drop(handle);
        thread.join().expect("the thread ends");
    }

    #[test]
    fn however_many_ends_say_their_last_each_waits_for_a_mark() {
        let (inputs, received) = mpsc::channel();
        let address = Ipv4Addr::new(127, 77, 1, 3);
        let (handle, thread) =
            Engine::start(&Options::default(), address, inputs).expect("a NIC in software");
        let carried = || {
            let said = received.try_iter().map(|it| match it {
                Input::Carried(number) => number,
                other => panic!("{other:?}"),
            });
            said.collect::<Vec<_>>()
        };
        let turns = |engine: &mut Engine| {
            for session in 1..=3 {
                let numbers = (0..20).map(|number| 100 * u64::from(session) + number);
                engine.said.entry(session).or_default().extend(numbers);
            }
            engine.mark_the_last();
        };
        handle.call(move |engine| {
            engine.nic = Shown(Box::new(Stores {
                most_marks: 2,
                ..Stores::default()
            }));
            turns(engine);
        });
        // The thread has its turns meanwhile, as with any NIC.
        let mut all = Vec::new();
        while all.len() < 60 {
            handle.call(|engine| {
                engine.tell();
                engine.mark_the_last();
            });
            all.extend(carried());
        }
        all.sort_unstable();
        let wanted: Vec<u64> = (1..=3).flat_map(|it| 100 * it..100 * it + 20).collect();
        assert_eq!(all, wanted);
        drop(handle);
        thread.join().expect("the thread ends");
    }

    #[test]
    fn a_channel_whose_store_is_refused_is_given_up_unless_the_other_machine_ends_it() {
        let (inputs, received) = mpsc::channel();
        let address = Ipv4Addr::new(127, 77, 1, 2);
        let (handle, thread) =
            Engine::start(&Options::default(), address, inputs).expect("a NIC in software");
        handle.call(|engine| {
            for (number, session, key) in [(5, 1, 3), (6, 1, 4), (7, 2, 3), (8, 1, 3)] {
                let (channel, _) = shm::channel::Channel::create(64).expect("memory");
                let end = shm::channel::Carrier::new(Arc::new(channel), 0);
                let carried = Carried::new(end, 1, session, key);
                engine.carried.insert(number, carried);
            }
            let begun = Instant::now();
            engine.refuse(1, 3);
            // That of channel 8 has said that it is over.
            engine.put_down(8);
            engine.give_up(begun + REFUSED / 2);
            assert_eq!(engine.refused.keys().collect::<Vec<_>>(), [&5]);
            // Refused once more; the wait began with the first.
            engine.refuse(1, 3);
            engine.give_up(Instant::now() + REFUSED);
            assert!(engine.refused.is_empty());
        });
        let said: Vec<_> = received.try_iter().collect();
        assert!(matches!(said[..], [Input::Stuck(5)]), "{said:?}");
        drop(handle);
        thread.join().expect("the thread ends");
    }
}
