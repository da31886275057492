// SPDX-License-Identifier: Apache-2.0
//! Connections to other daemons: one thread for all of them, which reads and writes, and decides nothing. It answers by itself
//! when it is asked whether it is there: so a daemon that has much to do is not taken for one that is gone.
//!
//! Whoever reaches the management address can make connections and send anything, so all is counted: connections of a host
//! and in all, those that have not shown their key yet, messages that nobody has taken care of, bytes that the other side does
//! not read. Who has too much of one is not read any more, or loses its connection; others do not notice.

mod conn;

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::Error;
use crate::refusals::Refusals;
use crate::remote::coordinator::Input;
use crate::remote::messages::Message;
use crate::remote::system;
use crate::remote::tls::{Secret, Tls};
use conn::{Conn, READS_NOT, Stage};

/// Number of a connection.
pub type LinkId = u64;

/// Keys of the epoll that are no connections.
const WAKE: u64 = u64::MAX;
const LISTENER: u64 = u64::MAX - 1;
/// Connections that are accepted before others have their turn.
const ACCEPTS: usize = 16;
/// Connections of other daemons in all.
const MOST: usize = 192;
/// Connections that have not shown their key yet, in all and of one host. The oldest gives way.
const MOST_UNKNOWN: usize = 64;
const MOST_UNKNOWN_OF_HOST: usize = 8;
/// Messages of one connection that nobody has taken care of.
const MOST_OWED: usize = 256;
/// The longest that nothing may move.
const LONGEST: Duration = Duration::from_secs(15);
/// How long it waits after it has told how many connections were refused until it tells of more.
const QUIET: Duration = Duration::from_millis(100);
/// How often it looks whether the keys of connections are still trusted.
const LOOK: Duration = Duration::from_secs(1);

/// What the thread is told.
#[derive(Debug)]
enum Command {
    Connect(LinkId, SocketAddrV4, Arc<Shared>),
    Send(LinkId, Message),
    /// Messages were taken care of.
    Resume(LinkId),
    /// Nobody wants it any more.
    Close(LinkId),
    Stop,
}

/// What the thread and others know of a connection.
#[derive(Debug)]
pub(super) struct Shared {
    /// When the other side has said something last.
    heard: Mutex<Instant>,
    /// Messages that nobody has taken care of yet.
    owed: AtomicUsize,
    /// It is not read until they are.
    paused: AtomicBool,
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            heard: Mutex::new(Instant::now()),
            owed: AtomicUsize::new(0),
            paused: AtomicBool::new(false),
        })
    }

    fn hear(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Whether as much waits as may.
    fn is_full(&self) -> bool {
        let full = || self.owed.load(Ordering::SeqCst) >= MOST_OWED;
        if !full() {
            return false;
        }
        // Who takes care of one after this sees it; who has done so before is seen now.
        self.paused.store(true, Ordering::SeqCst);
        full()
    }
}

/// Tells the thread.
#[derive(Clone, Debug)]
pub struct Wire {
    commands: mpsc::Sender<Command>,
    wake: Arc<OwnedFd>,
    last: Arc<AtomicU64>,
}

impl Wire {
    fn tell(&self, command: Command) {
        // It has ended only if the daemon ends.
        if self.commands.send(command).is_ok() {
            let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        }
    }

    fn fresh(&self) -> LinkId {
        1 + self.last.fetch_add(1, Ordering::Relaxed)
    }

    /// Connects to a daemon. [`Input::Connected`] or [`Input::Closed`] follows.
    pub fn connect(&self, to: SocketAddrV4) -> Link {
        let (id, shared) = (self.fresh(), Shared::new());
        self.tell(Command::Connect(id, to, Arc::clone(&shared)));
        Link {
            id,
            shared,
            wire: self.clone(),
        }
    }

    /// Ends the thread.
    pub fn stop(&self) {
        self.tell(Command::Stop);
    }
}

/// A connection, or one in the making. Dropped, it is closed.
#[derive(Debug)]
pub struct Link {
    pub id: LinkId,
    shared: Arc<Shared>,
    wire: Wire,
}

impl Link {
    /// When the other side has said something last, or the connection was begun.
    pub fn heard(&self) -> Instant {
        let heard = &self.shared.heard;
        *heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message, without waiting. If the connection is gone, [`Input::Closed`] says so.
    pub fn send(&self, message: Message) {
        self.wire.tell(Command::Send(self.id, message));
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.wire.tell(Command::Close(self.id));
    }
}

/// A message that was read. Dropped, it is taken care of.
#[derive(Debug)]
pub struct Owed {
    id: LinkId,
    shared: Arc<Shared>,
    wire: Wire,
}

impl Drop for Owed {
    fn drop(&mut self) {
        self.shared.owed.fetch_sub(1, Ordering::SeqCst);
        if self.shared.paused.swap(false, Ordering::SeqCst) {
            self.wire.tell(Command::Resume(self.id));
        }
    }
}

/// What the thread is told at its start.
#[derive(Debug)]
pub struct Setting {
    pub listener: TcpListener,
    /// The own address, from which it connects.
    pub from: Ipv4Addr,
    /// How long making a connection may take.
    pub patience: Duration,
    /// Connections of one host.
    pub of_host: usize,
    /// Without it everything is in clear, and everybody is believed.
    pub tls: Option<Tls>,
    /// Logs what other daemons must not say.
    pub refusals: Refusals,
}

/// The thread.
struct Thread {
    setting: Setting,
    wire: Wire,
    epoll: OwnedFd,
    inputs: mpsc::Sender<Input>,
    conns: HashMap<LinkId, Conn>,
    /// So many refusals were not told to the coordinator.
    refused: u64,
    told: Instant,
    /// When it looked last whether keys are still trusted.
    looked: Instant,
    /// Given up to accept and close a connection when descriptors run out.
    spare: Option<OwnedFd>,
}

fn spare() -> Option<OwnedFd> {
    rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// Starts the thread, which listens from now on.
pub fn start(
    setting: Setting,
    inputs: mpsc::Sender<Input>,
) -> Result<(Wire, JoinHandle<()>), Error> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("make an epoll"))?;
    let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .map_err(system("make an event counter"))?;
    let watch = |fd: std::os::fd::BorrowedFd<'_>, key| {
        epoll::add(&epoll, fd, EventData::new_u64(key), EventFlags::IN)
            .map_err(system("watch its management address"))
    };
    use std::os::fd::AsFd;
    watch(wake.as_fd(), WAKE)?;
    watch(setting.listener.as_fd(), LISTENER)?;
    let (commands, queue) = mpsc::channel();
    let wire = Wire {
        commands,
        wake: Arc::new(wake),
        last: Arc::default(),
    };
    let thread = Thread {
        setting,
        wire: wire.clone(),
        epoll,
        inputs,
        conns: HashMap::new(),
        refused: 0,
        told: Instant::now(),
        looked: Instant::now(),
        spare: spare(),
    };
    let started = std::thread::Builder::new()
        .name("ipnuma-links".to_owned())
        .spawn(move || thread.run(&queue));
    let started = started.map_err(super::io_error("start a thread"))?;
    Ok((wire, started))
}

impl Thread {
    fn run(mut self, queue: &mpsc::Receiver<Command>) {
        let mut events = Vec::with_capacity(64);
        loop {
            events.clear();
            let due = [self.deadline(), self.next_look(), self.next_told()];
            let timeout = due.into_iter().flatten().min().map(|due| {
                let left = due.saturating_duration_since(Instant::now());
                Timespec {
                    tv_sec: left.as_secs().cast_signed(),
                    tv_nsec: left.subsec_nanos().into(),
                }
            });
            // Interrupted or not: what is there is looked at.
            let _ = epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref());
            for event in &events {
                match event.data.u64() {
                    WAKE => {
                        let _ = rustix::io::read(&*self.wire.wake, &mut [0_u8; 8]);
                    }
                    LISTENER => self.accept(),
                    id => self.turn(id, event.flags),
                }
            }
            while let Ok(command) = queue.try_recv() {
                match command {
                    Command::Connect(id, to, shared) => self.connect(id, to, shared),
                    Command::Send(id, message) => self.send(id, &message),
                    Command::Resume(id) => self.turn(id, EventFlags::empty()),
                    Command::Close(id) => {
                        if let Some(mut conn) = self.conns.remove(&id) {
                            conn.part();
                        }
                    }
                    Command::Stop => return,
                }
            }
            if timeout.is_some() {
                self.lose_patience();
            }
            if self.looked.elapsed() >= LOOK {
                self.look_at_keys();
            }
            self.tell_refused();
        }
    }

    /// When it has to look whether keys are still trusted.
    fn next_look(&self) -> Option<Instant> {
        let up = |conn: &Conn| conn.stage == Stage::Up && conn.tls.is_some();
        self.conns.values().any(up).then(|| self.looked + LOOK)
    }

    /// Ends connections whose keys are not trusted any longer: at the second look, as programs that change a file may take
    /// it away for a moment.
    fn look_at_keys(&mut self) {
        self.looked = Instant::now();
        let Some(tls) = &self.setting.tls else {
            return;
        };
        let mut gone = Vec::new();
        for (&id, conn) in &mut self.conns {
            let shown = conn.tls.as_ref().filter(|_| conn.stage == Stage::Up);
            let trusted = shown.is_none_or(|connection| tls.trusts(conn.peer, connection));
            if !trusted && conn.doubted {
                gone.push(id);
            }
            conn.doubted = !trusted;
        }
        for id in gone {
            self.over(id, "its key is not trusted any longer");
        }
    }

    /// When somebody has waited for too long.
    fn deadline(&self) -> Option<Instant> {
        self.conns.values().filter_map(|it| it.deadline).min()
    }

    fn lose_patience(&mut self) {
        let now = Instant::now();
        let late: Vec<LinkId> = self
            .conns
            .iter()
            .filter(|(_, conn)| conn.deadline.is_some_and(|due| due <= now))
            .map(|(&id, _)| id)
            .collect();
        for id in late {
            let why = match self.conns.get_mut(&id) {
                Some(conn) if conn.stage == Stage::Up => {
                    conn.wrong = true;
                    READS_NOT
                }
                _ => "it does not answer",
            };
            self.over(id, why);
        }
    }

    fn watch(&self, id: LinkId, conn: &mut Conn, flags: EventFlags) -> Result<(), Errno> {
        conn.interest = flags;
        epoll::add(&self.epoll, &conn.socket, EventData::new_u64(id), flags)
    }

    fn connect(&mut self, id: LinkId, to: SocketAddrV4, shared: Arc<Shared>) {
        let begun = self.setting.tls.as_ref().map(|tls| tls.connect(*to.ip()));
        let made = begun
            .transpose()
            .map_err(io::Error::other)
            .and_then(|tls| Ok(Conn::connect(self.setting.from, to, tls, shared)?));
        let mut conn = match made {
            Ok(conn) => conn,
            Err(error) => return self.closed(id, &error.to_string()),
        };
        conn.deadline = Some(Instant::now() + self.setting.patience);
        match self.watch(id, &mut conn, EventFlags::OUT) {
            Ok(()) => {
                self.conns.insert(id, conn);
            }
            Err(errno) => self.closed(id, &errno.to_string()),
        }
    }

    fn closed(&self, id: LinkId, why: &str) {
        let _ = self.inputs.send(Input::Closed(id, why.to_owned()));
    }

    fn accept(&mut self) {
        // It may have been lost to others while it was given up.
        self.spare = self.spare.take().or_else(spare);
        for _ in 0..ACCEPTS {
            match self.setting.listener.accept() {
                Ok((stream, SocketAddr::V4(from))) => {
                    if let Err(why) = self.welcome(stream.into(), *from.ip()) {
                        self.refuse(&why);
                    }
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Nothing can be done for this one, but it must not wake us for ever.
                Err(error)
                    if [Some(Errno::MFILE), Some(Errno::NFILE)]
                        .contains(&Errno::from_io_error(&error)) =>
                {
                    if self.spare.take().is_some() {
                        drop(self.setting.listener.accept());
                        self.spare = spare();
                    }
                    return self.refuse("the daemon has no descriptors left for other daemons");
                }
                Err(_) => {}
            }
        }
    }

    /// Another daemon's connection, or what says so. The sentence says why there is no room for it.
    fn welcome(&mut self, socket: OwnedFd, peer: Ipv4Addr) -> Result<(), String> {
        let theirs = || self.conns.iter().filter(|(_, conn)| !conn.ours);
        let mut oldest = None;
        if self.setting.tls.is_some() {
            let unknown = || theirs().filter(|(_, conn)| conn.stage == Stage::Shaking);
            let of_host = || unknown().filter(|(_, conn)| conn.peer == peer);
            let first =
                |of: &mut dyn Iterator<Item = (&LinkId, &Conn)>| of.map(|(id, _)| *id).min();
            if of_host().count() >= MOST_UNKNOWN_OF_HOST {
                oldest = first(&mut of_host());
            } else if unknown().count() >= MOST_UNKNOWN {
                oldest = first(&mut unknown());
            }
        } else {
            self.room(peer)?;
        }
        if let Some(oldest) = oldest {
            self.conns.remove(&oldest);
            self.refuse(&format!(
                "{peer} makes connections and does not show a key: the oldest of these was closed"
            ));
        }
        let tls = self.setting.tls.as_ref().map(Tls::accept).transpose();
        let tls = tls.map_err(|error| error.to_string())?;
        let shakes = tls.is_some();
        let id = self.wire.fresh();
        let mut conn = Conn::accepted(socket, peer, tls, Shared::new())
            .map_err(|errno| format!("the connection of {peer} can't be used: {errno}"))?;
        if shakes {
            conn.deadline = Some(Instant::now() + self.setting.patience);
        }
        self.watch(id, &mut conn, EventFlags::IN)
            .map_err(|errno| format!("the connection of {peer} can't be watched: {errno}"))?;
        if !shakes {
            self.introduce(id, &conn, None);
        }
        self.conns.insert(id, conn);
        Ok(())
    }

    /// Whether a host may have one more connection. The sentence says why not.
    fn room(&self, peer: Ipv4Addr) -> Result<(), String> {
        let known = |conn: &&Conn| !conn.ours && conn.stage != Stage::Shaking;
        let all = self.conns.values().filter(known);
        let of_host = all.clone().filter(|conn| conn.peer == peer).count();
        let most = self.setting.of_host;
        if of_host >= most {
            return Err(format!(
                "{peer} has {of_host} connections to this daemon and was refused another; `sessions` in the \
                 configuration's [remote.guests] allows more"
            ));
        }
        if all.count() >= MOST {
            return Err(format!(
                "{peer} was refused: {MOST} connections of other daemons are the most"
            ));
        }
        Ok(())
    }

    /// Tells the coordinator of a connection that may be used.
    fn introduce(&self, id: LinkId, conn: &Conn, secret: Option<Secret>) {
        let _ = self.inputs.send(match conn.ours {
            true => Input::Connected(id, secret),
            false => {
                let (wire, shared) = (self.wire.clone(), Arc::clone(&conn.shared));
                Input::Accepted(Link { id, shared, wire }, conn.peer, secret)
            }
        });
    }

    /// Counts what was refused, and logs a sentence a second at most.
    fn refuse(&mut self, why: &str) {
        self.setting.refusals.say(why);
        self.refused += 1;
    }

    /// When it has to tell of refused connections: each by itself would keep the others busy.
    fn next_told(&self) -> Option<Instant> {
        (self.refused > 0).then(|| self.told + QUIET)
    }

    fn tell_refused(&mut self) {
        let now = Instant::now();
        if self.next_told().is_some_and(|due| due <= now) {
            self.told = now;
            let count = std::mem::take(&mut self.refused);
            let _ = self.inputs.send(Input::Refused(count));
        }
    }

    /// Ends another daemon's connection before the coordinator knows it.
    fn turn_away(&mut self, id: LinkId, why: &str) {
        if let Some(mut conn) = self.conns.remove(&id) {
            conn.part();
            let _ = epoll::delete(&self.epoll, &conn.socket);
        }
        self.refuse(why);
    }

    /// Ends a connection. The coordinator lets it go, too, if it knows it.
    fn over(&mut self, id: LinkId, why: &str) {
        let Some(conn) = self.conns.get_mut(&id) else {
            return;
        };
        let (peer, stage, ours, wrong) = (conn.peer, conn.stage, conn.ours, conn.wrong);
        if stage == Stage::Over {
            return;
        }
        if !ours && stage == Stage::Shaking {
            return self.turn_away(id, &format!("{peer} is no known daemon: {why}"));
        }
        conn.part();
        let _ = epoll::delete(&self.epoll, &conn.socket);
        if wrong {
            self.refuse(&format!("{peer} was refused: {why}"));
        }
        // It counts until the coordinator lets go of it, so what is told to that is bounded, too.
        self.closed(id, why);
    }

    fn send(&mut self, id: LinkId, message: &Message) {
        let Some(conn) = self.conns.get_mut(&id) else {
            return;
        };
        match conn.say(message) {
            Ok(()) => self.turn(id, EventFlags::empty()),
            Err(why) => self.over(id, &why),
        }
    }

    /// Does what there is to do for a connection.
    fn turn(&mut self, id: LinkId, flags: EventFlags) {
        let Some(conn) = self.conns.get_mut(&id) else {
            return;
        };
        if conn.stage == Stage::Over {
            return;
        }
        let before = conn.stage;
        let mut result = conn.turn(flags);
        if before != Stage::Up && conn.stage == Stage::Up {
            // Nothing that it has said was listened to before.
            let (peer, ours) = (conn.peer, conn.ours);
            let secret = match (&self.setting.tls, &conn.tls) {
                (Some(tls), Some(connection)) => tls.secret(peer, connection).map(Some),
                _ => Ok(None),
            };
            let room = match ours {
                true => Ok(()),
                false => {
                    conn.stage = Stage::Shaking;
                    self.room(peer)
                }
            };
            let Some(conn) = self.conns.get_mut(&id) else {
                return;
            };
            match (secret, room) {
                // It is known, and there is no room for it.
                (Ok(_), Err(why)) => return self.turn_away(id, &why),
                (Ok(secret), Ok(())) => {
                    conn.stage = Stage::Up;
                    conn.deadline = None;
                    let Some(conn) = self.conns.get(&id) else {
                        return;
                    };
                    self.introduce(id, conn, secret);
                }
                (Err(why), _) => return self.over(id, &why),
            }
        }
        let Some(conn) = self.conns.get_mut(&id) else {
            return;
        };
        if conn.stage == Stage::Up {
            let (inputs, wire) = (&self.inputs, &self.wire);
            let listened = conn.listen(|message, shared| {
                let (shared, wire) = (Arc::clone(shared), wire.clone());
                let owed = Owed { id, shared, wire };
                let _ = inputs.send(Input::Arrived(id, message, owed));
            });
            result = match (result, listened) {
                // What came before the end was heard.
                (Err(why), Ok(())) | (_, Err(why)) => Err(why),
                (Ok(()), Ok(())) => conn.flush(),
            };
        }
        if let Err(why) = result {
            return self.over(id, &why);
        }
        let (now, patience) = (Instant::now, (self.setting.patience * 4).min(LONGEST));
        if conn.stage == Stage::Up {
            // Each time something goes, it gets more time.
            match (conn.out_bytes() > 0, conn.moved) {
                (false, _) => conn.deadline = None,
                (true, true) => conn.deadline = Some(now() + patience),
                (true, false) if conn.deadline.is_none() => {
                    conn.deadline = Some(now() + patience);
                }
                _ => {}
            }
            conn.moved = false;
        }
        let wanted = conn.wants();
        if wanted != conn.interest {
            conn.interest = wanted;
            let data = EventData::new_u64(id);
            if let Err(errno) = epoll::modify(&self.epoll, &conn.socket, data, wanted) {
                self.over(id, &errno.to_string());
            }
        }
    }
}

#[cfg(test)]
mod tests;
