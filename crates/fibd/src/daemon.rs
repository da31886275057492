// SPDX-License-Identifier: Apache-2.0
//! The agent: sources, state, tables and control socket in one loop.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use thiserror::Error;

use crate::audit::Plan;
use crate::control::{self, Control, PortStatus, Reply, Request, Status};
use crate::fpm::Fpm;
use crate::message::{self, AF_INET, AF_INET6, Malformed, Message, Messages, kind};
use crate::net::Net;
use crate::notice::{self, Notices};
use crate::rules;
use crate::settle;
use crate::sink::Sink;
use crate::socket::{Netlink, Read};
use crate::state::{Config, Source, State};
use crate::tables::{self, Tables};

mod asking;
mod auditing;
mod looking;

/// What the kernel is asked for, in an order in which nothing refers to what comes later.
const DUMPS: [(u16, u8); 11] = [
    (kind::GET_RULE, AF_INET),
    (kind::GET_RULE, AF_INET6),
    (kind::GET_LINK, 0),
    (kind::GET_NETCONF, AF_INET),
    (kind::GET_NETCONF, AF_INET6),
    (kind::GET_ADDR, 0),
    (kind::GET_NEIGH, AF_INET),
    (kind::GET_NEIGH, AF_INET6),
    (kind::GET_NEXTHOP, 0),
    (kind::GET_ROUTE, AF_INET),
    (kind::GET_ROUTE, AF_INET6),
];
/// What a device has taken over of settings is in none of the messages about it.
const SETTINGS: [(u16, u8); 2] = [(kind::GET_NETCONF, AF_INET), (kind::GET_NETCONF, AF_INET6)];
/// How often a dump that changes under it is begun anew.
const ATTEMPTS: u32 = 5;
/// Prefixes that wait while a dump goes on.
const CHUNK: usize = 4096;
/// Reads of the listening socket before others have their turn.
const TURNS: u32 = 64;
/// Turns after which an audit no longer waits for the kernel to say nothing new.
const MOST_TURNS: u32 = 10_000;
/// Bytes of events that wait while a dump goes on; more are an overrun.
const MOST_WAITING: usize = 512 << 20;
/// After what the kernel may do without a message, its routes are looked at again, so much later at least.
const VERIFY: Duration = Duration::from_secs(1);

/// Why it ends.
#[derive(Debug, Error)]
pub enum Failure {
    /// Of the kernel's sockets.
    #[error("rtnetlink fails: {0}")]
    Netlink(io::Error),
    /// Of the control socket.
    #[error("the control socket {path} can't be had: {source}")]
    Control {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Of FPM's socket.
    #[error("FPM can't be listened for at {address}: {source}; {}", remedy(source))]
    Fpm {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Of the tables.
    #[error(transparent)]
    Tables(#[from] tables::Error),
}

/// What to do where FPM can't be listened for.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrNotAvailable => {
            "give --fpm an address of this machine, in this network namespace; 127.0.0.1 needs lo to be up"
        }
        io::ErrorKind::PermissionDenied => "give --fpm a port from 1024 on, or run fibd as root",
        _ => "is another fibd there?",
    }
}

/// How it is to be.
#[derive(Clone, Debug)]
pub struct Options {
    /// Ports and tables.
    pub state: Config,
    /// What the switch was built with.
    pub fib: fib::Config,
    /// Bytes of the listening socket's buffer.
    pub buffer: usize,
    /// Where the control socket is.
    pub control: PathBuf,
    /// Where FPM is listened for.
    pub fpm: Option<SocketAddr>,
    /// How long routes stay that a daemon that came back has not told again.
    pub hold: Duration,
    /// The kernel is asked to keep neighbours known.
    pub manage: bool,
}

/// The agent.
pub struct Daemon {
    options: Options,
    state: State,
    tables: Tables,
    listener: Netlink,
    asker: Netlink,
    control: Control,
    fpm: Option<Fpm>,
    first: Duration,
    notices: Notices,
    /// Ports of which it was said that the kernel forwards nothing from there.
    deaf: Vec<bool>,
    /// Ports of which it was said that the kernel takes redirects there, of IPv4 and of IPv6.
    redirected: Vec<[bool; 2]>,
    /// When settings of which the kernel says nothing were looked at.
    looked: Option<Instant>,
    /// The last prefix with a route that expires that was asked about.
    lapsing: Option<Net>,
    /// Those that the kernel did not name, and for which it was dumped.
    lapsed: HashSet<Net>,
    /// When the kernel's routes are to be looked at again.
    verify: Option<Instant>,
    /// How long the last full dump took.
    took: Duration,
    /// When it ended.
    dumped: Instant,
    audits: auditing::Audits,
}

/// How much of what the kernel said was taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    /// All.
    All,
    /// More waits.
    Some,
    /// Some was lost.
    Lost,
}

/// Reads the listening socket into a list, to be taken in later.
fn queue(listener: &mut Netlink, waiting: &mut Vec<u8>) -> io::Result<bool> {
    for _ in 0..TURNS {
        match listener.read()? {
            Read::Bytes(count) if waiting.len() < MOST_WAITING => {
                waiting.extend_from_slice(listener.bytes(count));
                // Messages begin at multiples of four.
                waiting.resize(waiting.len().next_multiple_of(4), 0);
            }
            Read::Bytes(_) | Read::Overrun => return Ok(true),
            Read::Nothing => break,
        }
    }
    Ok(false)
}

fn take(state: &mut State, event: Result<message::Event, Malformed>) -> bool {
    state.counters.messages += 1;
    match event {
        Ok(event) => {
            let overrun = event.message == Message::Overrun;
            state.take(event, Source::Kernel);
            overrun
        }
        Err(error) => {
            state.refused(error);
            false
        }
    }
}

impl Daemon {
    /// Opens everything, and brings what the kernel has into the tables.
    ///
    /// # Errors
    /// If something can't be had.
    pub fn start(
        options: Options,
        sink: impl FnOnce(&fib::Image) -> io::Result<Box<dyn Sink>>,
    ) -> Result<Self, Failure> {
        let listener = Netlink::listener(options.buffer).map_err(Failure::Netlink)?;
        let asker = Netlink::asker().map_err(Failure::Netlink)?;
        let control = Control::listen(&options.control).map_err(|source| Failure::Control {
            path: options.control.clone(),
            source,
        })?;
        let fpm = options.fpm.map(|address| {
            Fpm::listen(address, options.hold).map_err(|source| Failure::Fpm { address, source })
        });
        let fpm = fpm.transpose()?;
        let mut daemon = Self {
            state: State::new(options.state.clone()),
            tables: Tables::new(options.fib, sink)?,
            deaf: vec![false; options.state.ports.len()],
            redirected: vec![[false; 2]; options.state.ports.len()],
            looked: None,
            lapsing: None,
            lapsed: HashSet::new(),
            options,
            listener,
            asker,
            control,
            fpm,
            first: Duration::ZERO,
            notices: Notices::default(),
            verify: None,
            took: Duration::ZERO,
            dumped: Instant::now(),
            audits: auditing::Audits::default(),
        };
        let began = Instant::now();
        daemon.resync(false)?;
        daemon.first = began.elapsed();
        for (number, name) in daemon.options.state.ports.iter().enumerate() {
            if daemon.state.port(number as u8).is_none() {
                notice::say(&format!(
                    "port {number}: there is no device `{name}` in this network namespace; nothing is forwarded there \
                     until it comes. If the name is wrong, start fibd with another --port"
                ));
            }
        }
        if !daemon.listener.is_privileged() && daemon.options.manage {
            notice::say(
                "this process has no CAP_NET_ADMIN: the kernel keeps no neighbour known for it, and its buffer for the \
                 kernel's messages is a small one; run it as root, or with --unmanaged",
            );
        }
        Ok(daemon)
    }

    /// Runs for ever.
    ///
    /// # Errors
    /// If the kernel or the switch fail.
    pub fn run(&mut self) -> Result<(), Failure> {
        loop {
            self.wait().map_err(Failure::Netlink)?;
            self.turn()?;
        }
    }

    fn wait(&self) -> io::Result<()> {
        let mut fds = vec![
            PollFd::new(&self.listener, PollFlags::IN),
            PollFd::new(&self.control.listener, PollFlags::IN),
        ];
        fds.extend(
            self.control
                .streams()
                .map(|it| PollFd::new(it, PollFlags::IN)),
        );
        if let Some(fpm) = &self.fpm {
            fds.push(PollFd::new(&fpm.listener, PollFlags::IN));
            for (stream, writes) in fpm.streams() {
                let out = if writes {
                    PollFlags::OUT
                } else {
                    PollFlags::empty()
                };
                fds.push(PollFd::from_borrowed_fd(
                    stream.as_fd(),
                    PollFlags::IN | out,
                ));
            }
        }
        let due = self.verify.into_iter().chain(self.state.expiry()).min();
        let due = due.map(|due| due.saturating_duration_since(Instant::now()));
        let longest = self.audits.pause().unwrap_or(Duration::from_secs(1));
        let time = due.unwrap_or(longest).min(longest);
        let time = Timespec {
            tv_sec: time.as_secs() as i64,
            tv_nsec: time.subsec_nanos().into(),
        };
        match poll(&mut fds, Some(&time)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn turn(&mut self) -> Result<(), Failure> {
        if self.events()? == Heard::Lost {
            self.overrun()?;
        }
        if self.state.take_unset() {
            self.settings()?;
        }
        self.hurry()?;
        self.look()?;
        if let Some(fpm) = &mut self.fpm {
            fpm.read(&mut self.state);
            // What a daemon tells of it tells after the kernel: what it was told of links is here by now.
            if self.events()? == Heard::Lost {
                self.overrun()?;
            }
        }
        self.settle()?;
        if let Some(fpm) = &mut self.fpm {
            fpm.answer(&mut self.state, &self.tables);
        }
        for notice in self.notices.of(&self.state.counters) {
            notice::say(&notice);
        }
        self.say_deaf();
        if self.state.take_expired(Instant::now()) {
            // At once, unless there was a dump just now.
            let due = self.dumped + VERIFY.max(self.took * 10);
            self.verify = Some(self.verify.map_or(due, |verify| verify.min(due)));
        }
        if self.state.take_doubt() || self.state.is_unsure() {
            // Often enough to be right soon, seldom enough that a port that flaps does not keep this busy.
            let after = VERIFY.max(self.took * 10);
            self.verify.get_or_insert(Instant::now() + after);
        }
        if self.verify.is_some_and(|due| due <= Instant::now()) {
            self.verify = None;
            self.resync(false)?;
        }
        for (stream, request) in self.control.requests() {
            match request {
                Ok(request) => self.obey(stream, &request)?,
                Err(text) => control::reply(stream, &Reply::Error(text)),
            }
        }
        self.audit()
    }

    /// Says which ports the kernel forwards nothing from, once of each time.
    fn say_deaf(&mut self) {
        let ports = self.options.state.ports.iter().enumerate();
        for ((number, name), said) in ports.zip(&mut self.deaf) {
            let port = number as u8;
            let is_deaf = self.state.forwards(false)
                && self.state.port(port).is_some()
                && !self.state.port_forwards(port);
            if is_deaf && !*said {
                notice::say(&notice::deaf(number, name));
            }
            *said = is_deaf;
        }
    }

    /// Asks what settings devices have.
    fn settings(&mut self) -> Result<(), Failure> {
        for (kind, family) in SETTINGS {
            let state = &mut self.state;
            let mut take = |event| {
                take(state, event);
            };
            let done = self.asker.dump(kind, family, &mut take, &mut || Ok(()));
            done.map_err(Failure::Netlink)?;
        }
        // The dump tells of what stands for all devices to come, too, which is no news.
        self.state.take_unset();
        Ok(())
    }

    fn overrun(&mut self) -> Result<(), Failure> {
        self.state.counters.overruns += 1;
        self.resync(true)
    }

    /// Takes in what the kernel says, for as long as others can wait.
    fn events(&mut self) -> Result<Heard, Failure> {
        for _ in 0..TURNS {
            match self.listener.read().map_err(Failure::Netlink)? {
                Read::Bytes(count) => {
                    for bytes in Messages(self.listener.bytes(count)) {
                        if take(&mut self.state, bytes.and_then(message::parse)) {
                            return Ok(Heard::Lost);
                        }
                    }
                }
                Read::Nothing => return Ok(Heard::All),
                Read::Overrun => return Ok(Heard::Lost),
            }
            if self.state.waiting() > CHUNK {
                self.settle()?;
            }
        }
        Ok(Heard::Some)
    }

    /// Takes in all that the kernel has said up to now, and dumps it anew if that leaves something open.
    fn catch_up(&mut self) -> Result<(), Failure> {
        for _ in 0..MOST_TURNS {
            match self.events()? {
                Heard::All if self.state.has_late_devices() => self.hurry()?,
                Heard::All => break,
                Heard::Some => {}
                Heard::Lost => self.overrun()?,
            }
        }
        looking::look(&mut self.state);
        self.ask_lapsing()?;
        self.state.take_expired(Instant::now());
        if self.state.is_unsure() {
            self.resync(false)?;
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), Failure> {
        settle(&mut self.state, &mut self.tables)?;
        let mut fresh = self.tables.fresh();
        // What the kernel keeps known it keeps known at a device.
        let moved = self.state.take_moved();
        if !moved.is_empty() {
            let hops = self.tables.neighbours().into_iter();
            let hops = hops.filter(|(_, port, _)| moved.contains(port));
            fresh.extend(hops.map(|(_, port, address)| (port, address)));
            fresh.sort_unstable();
            fresh.dedup();
        }
        let released = self.state.take_released();
        let tables = &self.tables;
        let needed = |(port, address): &(u8, IpAddr)| tables.has_hop(*port, *address);
        fresh.extend(released.into_iter().filter(needed));
        if self.options.manage {
            for (port, address) in fresh {
                self.manage(port, address)?;
            }
        }
        Ok(())
    }

    /// Asks the kernel to keep a neighbour known: what hardware forwards does not pass by its ARP.
    fn manage(&mut self, port: u8, address: IpAddr) -> Result<(), Failure> {
        let Some((device, true, _)) = self.state.port(port) else {
            return Ok(());
        };
        // One that somebody gave stays as it is: the kernel would forget what was given, and probe instead.
        let known = self
            .asker
            .ask(|sequence| message::whether(device, address, sequence));
        if let Message::Neighbour { given: true, .. } = known.map_err(Failure::Netlink)? {
            return Ok(());
        }
        let answer = self
            .asker
            .ask(|sequence| message::manage(device, address, sequence));
        match answer.map_err(Failure::Netlink)? {
            Message::Error(0) => self.state.counters.managed += 1,
            _ => self.state.counters.manage_refused += 1,
        }
        Ok(())
    }

    /// Dumps the kernel anew, perhaps since messages were lost.
    fn resync(&mut self, mut lost: bool) -> Result<(), Failure> {
        let began = Instant::now();
        for _ in 0..ATTEMPTS {
            // What waits is older than the dump that begins now, but says in which order routes came.
            loop {
                let mut old = Vec::new();
                lost |= queue(&mut self.listener, &mut old).map_err(Failure::Netlink)?;
                if old.is_empty() {
                    break;
                }
                for bytes in Messages(&old) {
                    lost |= take(&mut self.state, bytes.and_then(message::parse));
                }
            }
            self.state.begin_resync(lost);
            // A rule that was there once leaves nothing else behind.
            if !self.state.is_split() && rules::are_apart(Path::new("/proc/self/net")) {
                self.state.keep_apart();
            }
            let mut waiting = Vec::new();
            let (whole, mut again) = self.dump(&mut waiting)?;
            looking::look(&mut self.state);
            if whole {
                self.state.end_resync();
                again |= self.ask_in_doubt(&mut waiting)?;
            } else {
                self.state.abandon_resync();
            }
            self.settle()?;
            for bytes in Messages(&waiting) {
                self.state.counters.messages += 1;
                match bytes.and_then(message::parse) {
                    Ok(event) => self.state.take_late(event),
                    Err(error) => self.state.refused(error),
                }
            }
            self.settle()?;
            lost = again;
            if !lost {
                break;
            }
            self.state.counters.overruns += 1;
        }
        let mut counters = std::mem::take(&mut self.state.counters);
        let mac = |port, address| self.state.mac(port, address);
        let healed = self.tables.heal(mac, &mut counters);
        self.state.counters = counters;
        healed?;
        self.took = began.elapsed();
        self.dumped = Instant::now();
        Ok(())
    }

    /// All dumps into the state; whether they are whole, and whether events were lost meanwhile.
    fn dump(&mut self, waiting: &mut Vec<u8>) -> Result<(bool, bool), Failure> {
        let (mut whole, mut lost) = (true, false);
        for (kind, family) in DUMPS {
            for attempt in 1..=ATTEMPTS {
                if attempt > 1 && kind == kind::GET_ROUTE {
                    self.state.dump_again(family == AF_INET6);
                }
                let (state, tables) = (&mut self.state, &mut self.tables);
                let mut refused = None;
                let done = self.asker.dump(
                    kind,
                    family,
                    &mut |event| {
                        take(state, event);
                        if state.waiting() > CHUNK && refused.is_none() {
                            refused = settle(state, tables).err();
                        }
                    },
                    &mut || {
                        lost |= queue(&mut self.listener, waiting)?;
                        Ok(())
                    },
                );
                if let Some(error) = refused {
                    return Err(error.into());
                }
                if done.map_err(Failure::Netlink)? {
                    break;
                }
                self.state.counters.dumps_interrupted += 1;
                whole &= attempt < ATTEMPTS;
            }
        }
        Ok((whole, lost))
    }

    fn obey(&mut self, client: UnixStream, request: &Request) -> Result<(), Failure> {
        match request {
            Request::Status => {
                let status = Box::new(self.status());
                control::reply(client, &Reply::Status(status));
            }
            &Request::Audit { random, ask, seed } => {
                let plan = Plan { random, ask, seed };
                if let Err((client, text)) = self.audits.push(client, plan) {
                    control::reply(client, &Reply::Error(text));
                }
            }
            Request::Resync => {
                self.resync(false)?;
                control::reply(client, &Reply::Done);
            }
        }
        Ok(())
    }

    fn status(&self) -> Status {
        let ports = self.state.config().ports.iter().enumerate();
        let ports = ports.map(|(number, name)| {
            let port = self.state.port(number as u8);
            PortStatus {
                name: name.clone(),
                there: port.is_some(),
                up: port.is_some_and(|(_, up, _)| up),
                carrier: port.is_some_and(|(.., carrier)| carrier),
                forwards4: self.state.port_forwards(number as u8),
            }
        });
        let counters = self.state.counters.list().into_iter();
        let fib = self.tables.fib();
        let memories = fib.usage().into_iter();
        Status {
            ports: ports.collect(),
            forwards4: self.state.forwards(false),
            forwards6: self.state.forwards(true),
            prefixes: self.state.net_count() as u64,
            routes4: fib.routes4().into(),
            routes6: fib.routes6().into(),
            spilled: self.tables.spilled() as u64,
            shed: self.tables.shed() as u64,
            neighbours: self.state.neighbour_count() as u64,
            next_hops: self.tables.hop_count() as u64,
            objects: self.state.object_count() as u64,
            rules: self.state.rule_count() as u64,
            paths: self.state.path_count() as u64,
            fpm: self.fpm.as_ref().is_some_and(Fpm::is_connected),
            first_ms: self.first.as_millis() as u64,
            memory: memory(),
            counters: counters
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            memories: memories
                .map(|it| {
                    (
                        it.memory.name().to_owned(),
                        it.used.into(),
                        it.capacity.into(),
                    )
                })
                .collect(),
        }
    }
}

/// Bytes of memory that this process has, as the kernel counts them.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
