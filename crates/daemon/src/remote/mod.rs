// SPDX-License-Identifier: Apache-2.0
//! Windows on regions of other machines, and other machines' windows on regions of this one.
//!
//! Daemons agree over TCP, the management network, which has to be trusted: tokens travel there in clear. Stores travel
//! between NICs, here the one in software ([`softnic`]), one session for each direction of windows. Channels of sockets
//! are two windows, one each way, whose stores this daemon makes itself ([`carry`]). The threads:
//!
//! | thread | does |
//! |---|---|
//! | [`engine`] | the NIC, the rings by which processes hand it stores, and the channels of sockets |
//! | [`coordinator`] | decides: who speaks with whom, which window is whose |
//! | [`link`] | two for each connection to another daemon: one reads, one writes |
//! | listener | takes connections |

mod carry;
mod coordinator;
mod engine;
mod link;
pub mod messages;
pub mod nic;
mod options;
mod rack;
mod ring;
mod turns;

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use ipnuma::token::Token;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;

use crate::Error;
use crate::machine::Handle;
use crate::outside::{Announcement, Half, Inbox, Outside};
use crate::state::Refusal;
use coordinator::{Coordinator, Input};
use engine::Engine;

pub use options::{Network, Options, Peer, Transport};
pub use softnic::Faults;

/// Speaks with other machines.
#[derive(Debug)]
pub struct Remote {
    inputs: mpsc::Sender<Input>,
    peers: Arc<Mutex<Vec<Ipv4Addr>>>,
    stop: Arc<Stop>,
    engine: Option<engine::Handle>,
    /// The NIC has said that it receives into any memory.
    any_memory: bool,
    threads: Vec<JoinHandle<()>>,
}

/// Ends the threads.
#[derive(Debug)]
pub(crate) struct Stop {
    flag: AtomicBool,
    event: OwnedFd,
}

impl Stop {
    /// Whether it is time to end.
    pub(crate) fn is_set(&self) -> bool {
        self.flag.load(Ordering::Acquire)
    }
}

fn system(what: &'static str) -> impl Fn(Errno) -> Error {
    move |source| Error::System { what, source }
}

fn io_error(what: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |error| system(what)(Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Begins to listen for other daemons at `management`, and to send and receive stores.
///
/// # Errors
/// If an address or a device can't be had.
pub fn start(
    options: &Options,
    management: SocketAddrV4,
    inbox: Inbox,
) -> Result<Box<dyn Outside>, Error> {
    let listener =
        TcpListener::bind(management).map_err(io_error("listen at its --management address"))?;
    listener
        .set_nonblocking(true)
        .map_err(io_error("listen at its --management address"))?;
    let (inputs, received) = mpsc::channel();
    let (engine, engine_thread) = Engine::start(options, *management.ip(), inputs.clone())?;
    let stop = Arc::new(Stop {
        flag: AtomicBool::new(false),
        event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(system("make an event counter"))?,
    });
    let peers = Arc::new(Mutex::new(Vec::new()));
    let coordinator = Coordinator::new(
        options.clone(),
        management,
        engine.clone(),
        inbox,
        inputs.clone(),
        Arc::clone(&peers),
    );
    let mut remote = Remote {
        inputs: inputs.clone(),
        peers,
        stop: Arc::clone(&stop),
        engine: Some(engine),
        any_memory: false,
        threads: vec![engine_thread],
    };
    remote.spawn("ipnuma-remote", move || coordinator.run(&received))?;
    remote.spawn("ipnuma-listener", move || listen(&listener, &stop, &inputs))?;
    Ok(Box::new(remote))
}

/// Takes connections until it is time to end.
fn listen(listener: &TcpListener, stop: &Stop, inputs: &mpsc::Sender<Input>) {
    loop {
        let mut both = [
            PollFd::new(listener, PollFlags::IN),
            PollFd::new(&stop.event, PollFlags::IN),
        ];
        // Interrupted or not: what is there is looked at.
        let _ = poll(&mut both, None);
        if stop.is_set() {
            return;
        }
        // A connection that is gone again, or that there are no descriptors for, is the other side's to repeat.
        if let Ok((stream, std::net::SocketAddr::V4(peer))) = listener.accept() {
            let _ = inputs.send(Input::Accepted(stream, *peer.ip()));
        }
    }
}

impl Remote {
    fn spawn(&mut self, name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(body);
        self.threads
            .push(thread.map_err(io_error("start a thread"))?);
        Ok(())
    }

    fn tell(&self, input: Input) {
        // It has ended only if the daemon ends.
        let _ = self.inputs.send(input);
    }
}

impl Outside for Remote {
    fn open(&mut self, window: u64, token: Token) {
        self.tell(Input::Open(window, token));
    }

    fn close(&mut self, window: u64) {
        self.tell(Input::Close(window));
    }

    fn withdraw(&mut self, grant: u64) {
        self.tell(Input::Withdraw(grant));
    }

    fn peers(&self) -> Vec<Ipv4Addr> {
        let peers = self.peers.lock();
        peers.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn intend(&mut self, question: u64, peer: Ipv4Addr, to: SocketAddr) {
        self.tell(Input::Intend(question, peer, to));
    }

    fn unintend(&mut self, peer: Ipv4Addr, intent: u64) {
        self.tell(Input::Unintend(peer, intent));
    }

    fn announce(&mut self, peer: Ipv4Addr, announcement: Announcement) {
        self.tell(Input::Announce(peer, announcement));
    }

    fn abandon(&mut self, peer: Ipv4Addr, channel: u64, theirs: u64) {
        self.tell(Input::Abandon(peer, channel, theirs));
    }

    fn carry(&mut self, channel: u64, token: Token, end: Half) {
        self.tell(Input::Carry(channel, token, end));
    }

    fn desert(&mut self, channel: u64) {
        self.tell(Input::Desert(channel));
    }

    fn memory(&mut self, bytes: usize) -> Result<Option<OwnedFd>, Refusal> {
        let Some(engine) = self.engine.as_ref().filter(|_| !self.any_memory) else {
            return Ok(None);
        };
        let memory =
            coordinator::nic_result(engine.call(move |engine| engine.nic().memory(bytes)))?;
        self.any_memory = memory.is_none();
        Ok(memory)
    }

    fn tether(&mut self, channel: u64) -> Result<Handle, Refusal> {
        let (theirs, ours) = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
            rustix::net::SocketFlags::CLOEXEC | rustix::net::SocketFlags::NONBLOCK,
            None,
        )
        .map_err(|errno| {
            Refusal::new(
                errno,
                format!("the daemon could not make a pair of sockets: {errno}"),
            )
        })?;
        if let Some(engine) = &self.engine {
            engine.post(move |engine| engine.tie(channel, ours));
        }
        Ok(Arc::new(theirs))
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.stop.flag.store(true, Ordering::Release);
        let _ = rustix::io::write(&self.stop.event, &1_u64.to_ne_bytes());
        self.tell(Input::Stop);
        self.engine = None;
        // The engine's thread is the first, and ends when the coordinator does.
        while let Some(thread) = self.threads.pop() {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}
