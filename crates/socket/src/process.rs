// SPDX-License-Identifier: Apache-2.0
//! This process and its daemon.
//!
//! The daemon is needed to set connections up, never to use them. If there is none, or it goes away, sockets are the
//! kernel's; at the next occasion the process looks for one again, but not more often than every 100 ms. One that says nothing for
//! three seconds is greeted anew, and as long as it has not answered to that nobody waits for it.

use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use host::config::{Config, Profile};
use ipc::client::{Client, Greeted, Greeting, SILENCE, move_up};
use ipc::protocol::{Reply, Request, notice_page};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};

use crate::latch::Latch;
use crate::raw;
use crate::signals::handlers::Quiet;

/// Between two looks whether another thread has found the daemon.
const SEARCH_STEP: std::time::Duration = std::time::Duration::from_micros(50);

/// How long a failed search for a daemon counts, nanoseconds.
const REST: u64 = 100_000_000;

struct Known {
    client: Option<Arc<Client>>,
    /// The daemon was silent when it was asked last.
    silent: bool,
    /// Said to such a daemon, which has not answered yet.
    greeting: Option<Greeting>,
    searched: u64,
    /// A thread talks to a daemon that it has found.
    searching: bool,
}

static KNOWN: Latch<Known> = Latch::new(Known {
    client: None,
    silent: false,
    greeting: None,
    searched: 0,
    searching: false,
});
static CONFIG: OnceLock<Config> = OnceLock::new();
static CONFINED: AtomicBool = AtomicBool::new(false);
static EPOCH: AtomicU64 = AtomicU64::new(1);
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Descriptors of the library's own, which programs that close everything must not hit.
static PRIVATE: [AtomicI32; 3] = [const { AtomicI32::new(-1) }; 3];
const REQUESTS: usize = 0;
const NOTICES: usize = 1;
const SPARE: usize = 2;

/// The daemon's client; looks for the daemon if there is none.
pub fn client() -> Option<Arc<Client>> {
    if !is_enabled() {
        return None;
    }
    // A handler that looked for the daemon in the middle of this would wait for its own thread.
    let _quiet = Quiet::begin();
    let greeting = loop {
        let mut known = KNOWN.lock();
        if let Some(client) = &known.client {
            if !client.is_lost() {
                return Some(client.clone());
            }
            known.silent = client.is_silent();
            forget(&mut known);
        }
        if known.searching {
            if known.silent {
                return None;
            }
            drop(known);
            // It may take as long as the daemon lets it: nobody spins on the lock meanwhile, and a fork does not wait.
            let _ = rustix::thread::nanosleep(&crate::wait::timespec(SEARCH_STEP));
            continue;
        }
        if known.greeting.as_ref().is_some_and(|it| !it.is_answered()) {
            return None;
        }
        let now = crate::wait::clock::nanoseconds();
        let rests = known.searched != 0 && now.saturating_sub(known.searched) < REST;
        if rests && known.greeting.is_none() {
            return None;
        }
        known.searched = now;
        known.searching = true;
        PRIVATE[REQUESTS].store(-1, Ordering::Relaxed);
        break match known.greeting.take() {
            None if known.silent => Err(()),
            greeting => Ok(greeting),
        };
    };
    let found = match greeting {
        Ok(Some(answered)) => answered.finish(),
        Ok(None) => greet(false).and_then(Greeting::finish),
        Err(()) => {
            // Nobody waits for this one: whoever looks next sees whether it has answered.
            let sent = greet(true);
            let mut known = KNOWN.lock();
            known.searching = false;
            known.silent = sent.is_ok() || ipc::client::is_silence(&sent);
            if let Ok(sent) = sent {
                PRIVATE[REQUESTS].store(sent.socket().as_raw_fd(), Ordering::Relaxed);
                known.greeting = Some(sent);
            }
            return None;
        }
    };
    let silent = ipc::client::is_silence(&found);
    let found = found.ok();
    if let Some(client) = &found {
        meet_the_living(client);
    }
    let mut known = KNOWN.lock();
    known.searching = false;
    known.silent = silent;
    let client = found?;
    PRIVATE[REQUESTS].store(client.request_socket().as_raw_fd(), Ordering::Relaxed);
    PRIVATE[NOTICES].store(client.notice_socket().as_raw_fd(), Ordering::Relaxed);
    EPOCH.fetch_add(1, Ordering::Relaxed);
    refill();
    let client = Arc::new(client);
    known.client = Some(client.clone());
    Some(client)
}

/// Greets the daemon; `at_once`: only one that takes a connection now.
fn greet(at_once: bool) -> ipc::Result<Greeting> {
    let how = Greeted {
        floor: floor(),
        patience: SILENCE,
        asks_on: true,
        at_once,
    };
    Greeting::send(&config().daemon, &program(), how)
}

/// Learns of the register in which processes with ends of this daemon's channels have their numbers, unless it is known
/// already, as in a forked child. Without it nobody is taken for dead.
fn meet_the_living(client: &Client) {
    let key = notice_page::living_key(client.doorbell_magic());
    if shm::living::find(key).is_some() {
        return;
    }
    if let Ok((Reply::Done, descriptors)) = client.request(&Request::Living)
        && let Some(file) = descriptors.into_iter().next()
    {
        let number = shm::living::join(key, move_up(file, floor()));
        crate::private::guard(number);
    }
}

/// The daemon's client if there is one already.
pub fn current() -> Option<Arc<Client>> {
    if CONFINED.load(Ordering::Relaxed) {
        return None;
    }
    KNOWN.lock().client.clone()
}

/// Another number for each client: what was registered with another one is to be registered anew.
pub fn epoch() -> u64 {
    EPOCH.load(Ordering::Relaxed)
}

fn forget(known: &mut Known) {
    PRIVATE[REQUESTS].store(-1, Ordering::Relaxed);
    PRIVATE[NOTICES].store(-1, Ordering::Relaxed);
    known.client = None;
}

/// Asks the daemon. A daemon that is gone is looked for once more, unless the question belongs to the old one.
pub fn ask(request: &Request) -> Option<(Reply, Vec<OwnedFd>)> {
    // A handler that asked in the middle of a question would wait for its own thread.
    let _quiet = Quiet::begin();
    let client = client()?;
    match client.request(request) {
        Ok(answer) => Some(answer),
        Err(_) if client.is_lost() => None,
        // It refused, or the descriptor did not fit: with the spare one it does.
        Err(ipc::Error::System { .. }) => {
            empty();
            client.request(request).ok()
        }
        Err(_) => None,
    }
}

/// Asks for something that has no answer but that it is done.
pub(crate) fn done(client: &Client, request: &Request) -> ipc::Result<()> {
    // As in `ask`.
    let _quiet = Quiet::begin();
    client.done(request)
}

/// How long a daemon is believed without a question, nanoseconds: one that is gone says nothing more.
const BELIEF: u64 = 100_000_000;
/// When it was asked last, by an acceptor and by a client.
static ASKED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
const ACCEPTED: usize = 0;
const CONNECTS: usize = 1;

fn believes(question: usize) -> bool {
    let (now, asked) = (crate::wait::clock::nanoseconds(), &ASKED[question]);
    let believes = now.saturating_sub(asked.load(Ordering::Relaxed)) <= BELIEF;
    if !believes {
        asked.store(now, Ordering::Relaxed);
    }
    believes
}

/// Whether the daemon says that no client is about to connect to this machine by a channel, so that an acceptor need not ask.
pub fn nobody_connects() -> bool {
    current().is_some_and(|client| client.nobody_connects()) && believes(ACCEPTED)
}

/// Whether it says that no program at an address listens with the library, so that a client need not ask.
pub fn nobody_listens(at: SocketAddr) -> bool {
    current().is_some_and(|client| !client.may_listen(at)) && believes(CONNECTS)
}

/// Which daemon this process has last talked to: 0 for none, and another number for each.
pub(crate) fn identity() -> u64 {
    current().map_or(0, |client| identity_of(&client))
}

fn identity_of(client: &Client) -> u64 {
    u64::from_ne_bytes(client.doorbell_magic()[..8].try_into().unwrap_or_default())
}

/// The daemon that this process can ask, if it lives.
pub(crate) fn living() -> Option<u64> {
    // A forked child has none of its own yet. Who only borrows this memory takes its owner's, which may be such a child.
    let client = match is_borrowed() {
        true => current().or_else(in_passing),
        false => client(),
    }?;
    is_alive(&client).then(|| identity_of(&client))
}

/// A client of which nobody keeps anything.
fn in_passing() -> Option<Arc<Client>> {
    if !is_enabled() || CONFINED.load(Ordering::Relaxed) {
        return None;
    }
    let _quiet = Quiet::begin();
    let found = greet(false).and_then(Greeting::finish).ok();
    found.map(Arc::new)
}

/// Whether a daemon is there, be it busy.
fn is_alive(client: &Client) -> bool {
    let notices = client.notice_socket();
    let mut polled = [PollFd::new(&notices, PollFlags::empty())];
    matches!(poll(&mut polled, Some(&Timespec::default())), Ok(0))
}

/// Whether a living daemon says that no stream between two ports is in a channel.
pub(crate) fn has_no_stream(own: u16, peer: u16) -> bool {
    let Some(client) = current() else {
        return false;
    };
    if client.may_be_stream(own, peer) {
        return false;
    }
    // The page of one that is gone says what was.
    is_alive(&client)
}

/// Says that this process has no more use of a channel, and nobody else has its end.
pub fn close(channel: u64) {
    close_shared(channel, false);
}

/// Says that this process has no more use of a channel; whether others have the same end.
pub fn close_shared(channel: u64, shared: bool) {
    if let Some(client) = current() {
        let _ = done(&client, &Request::Close { channel, shared });
    }
}

/// Says that an announced connection does not come about.
pub fn withdraw(intent: u64) {
    if let Some(client) = current() {
        let _ = done(&client, &Request::Withdraw { intent });
    }
}

/// Whether a number is one of the library's own descriptors.
#[inline]
pub fn is_private(fd: RawFd) -> bool {
    fd >= 0
        && (PRIVATE.iter().any(|own| own.load(Ordering::Relaxed) == fd)
            || crate::private::is_guarded(fd))
}

/// The library's own descriptors, in ascending order.
pub fn private() -> impl Iterator<Item = RawFd> {
    let mut own: Vec<RawFd> = PRIVATE
        .iter()
        .map(|own| own.load(Ordering::Relaxed))
        .chain(crate::private::guarded())
        .collect();
    own.sort_unstable();
    own.into_iter().filter(|fd| *fd >= 0)
}

/// Whether this code runs in another process than the one whose memory it is: a child of vfork before its exec.
#[inline]
pub fn is_borrowed() -> bool {
    let process = rustix::process::getpid().as_raw_nonzero().get() as u32;
    match PROCESS.load(Ordering::Relaxed) {
        0 => {
            PROCESS.store(process, Ordering::Relaxed);
            false
        }
        known => known != process,
    }
}

/// The process whose memory this is, as [`is_borrowed`] knows it.
pub(crate) fn owner() -> u32 {
    PROCESS.load(Ordering::Relaxed)
}

/// Opens the spare descriptor, which makes room for one to receive when there is no other. False: it cannot be had.
pub fn refill() -> bool {
    if PRIVATE[SPARE].load(Ordering::Relaxed) >= 0 {
        return true;
    }
    let Ok(null) = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
    else {
        return false;
    };
    let spare = std::os::fd::IntoRawFd::into_raw_fd(move_up(null, floor()));
    PRIVATE[SPARE].store(spare, Ordering::Relaxed);
    true
}

/// Whether a connection to another machine could be had: it takes descriptors of its own, besides the spare one.
pub fn has_room() -> bool {
    if !refill() {
        return false;
    }
    if current().is_none_or(|client| client.management().is_none()) {
        return true;
    }
    let more: Vec<_> = (0..FAR_DESCRIPTORS - 1)
        .map(|_| rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()))
        .collect();
    more.iter().all(Result::is_ok)
}

/// The same, for what a program does not expect to take descriptors at all: about half of them are left to it.
pub fn has_room_apart() -> bool {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let null = || rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    // The system gives the lowest number that is free.
    let half = |it: OwnedFd| limit.is_none_or(|limit| (it.as_raw_fd() as u64) < limit / 2);
    has_room() && null().is_ok_and(half)
}

/// Descriptors that come with a channel to another machine.
const FAR_DESCRIPTORS: usize = 3;

/// The program has changed how many descriptors it may have: a spare one above the limit would make no room.
pub fn limit_changed() {
    if PRIVATE[SPARE].load(Ordering::Relaxed) >= 0 {
        empty();
        refill();
    }
}

fn empty() {
    close_own(SPARE);
}

fn close_own(which: usize) {
    let fd = PRIVATE[which].swap(-1, Ordering::Relaxed);
    if fd >= 0 {
        // SAFETY: our own descriptor, taken out of the list by the exchange.
        unsafe { raw::syscall(libc::SYS_close as usize, [fd as usize, 0, 0, 0, 0, 0]) };
    }
}

/// Own descriptors get high numbers, so that a program finds the low ones that it expects.
pub(crate) fn floor() -> i32 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile)
        .current
        .unwrap_or(1 << 20);
    (limit.saturating_sub(40).min(960)).max(limit / 2).min(960) as i32
}

fn program() -> String {
    let mut name = [0; 32];
    let length = rustix::fs::open(
        "/proc/self/comm",
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .and_then(|file| rustix::io::read(&file, &mut name))
    .unwrap_or(0);
    String::from_utf8_lossy(&name[..length]).trim().to_owned()
}

/// Has the kernel make room for own descriptors while the process has one thread. Where there are more, the one that
/// needs the room waits in the kernel until no other can still be reading the old table, which on a busy machine may take
/// seconds, and whoever connects waits behind it.
fn make_room() {
    use rustix::event::{EventfdFlags, eventfd};
    if let Ok(any) = eventfd(0, EventfdFlags::CLOEXEC) {
        // It is the number that makes the room. If it is refused there is none to be made.
        let _ = rustix::io::fcntl_dupfd_cloexec(&any, floor());
    }
}

/// At start: remembers whose memory this is, and where the daemon is; programs change their environment.
pub fn start() {
    make_room();
    is_borrowed();
    crate::policy::start();
    let spin = config().spin.as_micros();
    let persistent = config().profile == Profile::Latency;
    crate::wait::configure(u32::try_from(spin).unwrap_or(u32::MAX), persistent);
    if !config().socket.heartbeat {
        crate::wait::without_heartbeat();
    }
    let rack = &config().rack;
    if let Err(error) = crate::cost::configure(&rack.device, rack.request_ns, rack.calls_ns) {
        say(&format!(
            "ipnuma: IPNUMA_REQUEST_NS, IPNUMA_CALLS_NS: {error}\n"
        ));
        std::process::exit(1);
    }
}

/// The configuration, as it was when the program started: some programs empty their environment.
fn config() -> &'static Config {
    CONFIG.get_or_init(|| {
        Config::load().unwrap_or_else(|error| {
            // A program must not do something else than its user has configured.
            say(&format!(
                "ipnuma: {error}; until then sockets are the kernel's\n"
            ));
            let mut config = Config::default();
            config.socket.enable = false;
            config
        })
    })
}

/// Writes to standard error, come of it what may: the program's work does not depend on it.
pub(crate) fn say(text: &str) {
    let errors = crate::stream::borrow(2);
    // A pipe that nobody reads any more would end the program by SIGPIPE, and a full one hold it up.
    let mut polled = [PollFd::new(&errors, PollFlags::OUT)];
    let now = Timespec::default();
    if matches!(poll(&mut polled, Some(&now)), Ok(1..)) && polled[0].revents() == PollFlags::OUT {
        let _ = rustix::io::write(errors, text.as_bytes());
    }
}

/// Says on standard error what becomes of a connection, if the user wants to know.
#[inline]
pub fn trace(what: impl FnOnce() -> String) {
    if config().trace && !CONFINED.load(Ordering::Relaxed) {
        let process = rustix::process::getpid().as_raw_nonzero();
        say(&format!("ipnuma[{process}]: {}\n", what()));
    }
}

/// Whether the library does anything in this process.
pub fn is_enabled() -> bool {
    config().socket.enable && !CONFINED.load(Ordering::Relaxed)
}

/// The process may soon call the kernel for little: from now on its sockets are the kernel's, and nobody asks the daemon.
pub fn confine() {
    CONFINED.store(true, Ordering::Relaxed);
}

/// Whether connections to an address that are all short are left to the kernel.
pub fn learns() -> bool {
    config().socket.learn
}

/// Whether connections and datagrams of servers at `port` may be accelerated.
pub fn accelerates(port: u16) -> bool {
    !CONFINED.load(Ordering::Relaxed) && config().socket.accelerates(port)
}

/// Before a fork: nobody talks to the daemon when the child is made.
pub fn before_fork() {
    KNOWN.acquire();
}

/// After a fork, in both processes. The child gets a client of its own when it needs one.
pub fn after_fork(child: bool) {
    if child {
        PROCESS.store(
            rustix::process::getpid().as_raw_nonzero().get() as u32,
            Ordering::Relaxed,
        );
        close_own(REQUESTS);
        close_own(NOTICES);
    }
    KNOWN.release();
    if child {
        let mut known = KNOWN.lock();
        known.searched = 0;
        known.searching = false;
        // Its descriptors are closed, and the numbers may be others' soon: it must not close them again.
        std::mem::forget(known.client.take());
        std::mem::forget(known.greeting.take());
    }
}
