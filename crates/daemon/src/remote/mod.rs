// SPDX-License-Identifier: Apache-2.0
//! Windows on regions of other machines, and other machines' windows on regions of this one.
//!
//! Daemons agree over TCP, the management network, by TLS with keys that they know of each other (`tls`), unless they were
//! told to do without: then that network has to be trusted, and tokens travel there in clear. Stores travel
//! between NICs, here the one in software (`softnic`), as a rule one session for two machines. Channels of sockets
//! are two windows, one each way, whose stores this daemon makes itself (`carry`). The threads:
//!
//! | thread | does |
//! |---|---|
//! | `engine` | the NIC, the rings by which processes hand it stores, and the channels of sockets |
//! | `coordinator` | decides: who speaks with whom, which window is whose |
//! | `link` | takes connections of other daemons, makes those to them, reads and writes all of them |

mod carry;
mod coordinator;
mod engine;
mod link;
pub mod messages;
pub mod nic;
mod options;
mod rack;
mod ring;
mod tls;
mod turns;

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use ipc::token::Token;
use rustix::io::Errno;

use crate::Error;
use crate::keys::{Key, Known};
use crate::machine::Handle;
use crate::outside::{Announcement, Half, Inbox, Outside};
use crate::refusals::Refusals;
use crate::state::Refusal;
use coordinator::{Coordinator, Input};
use engine::Engine;

pub use options::{Guests, Network, Options, Peer, Transport};
pub use softnic::Faults;

/// Speaks with other machines.
#[derive(Debug)]
pub struct Remote {
    inputs: mpsc::Sender<Input>,
    peers: Arc<Mutex<Vec<Ipv4Addr>>>,
    wire: link::Wire,
    engine: Option<engine::Handle>,
    /// The NIC has said that it receives into any memory.
    any_memory: bool,
    /// How many tethers were made, and which of them was the last of a channel.
    tethers: u64,
    tied: HashMap<u64, u64>,
    threads: Vec<JoinHandle<()>>,
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
    refusals: Refusals,
) -> Result<Box<dyn Outside>, Error> {
    let listener = TcpListener::bind(management).map_err(|error| Error::Config {
        place: "--management".to_owned(),
        problem: format!(
            "the daemon can't listen at {management}: {error}; give an address of this machine and a port that is free"
        ),
    })?;
    listener
        .set_nonblocking(true)
        .map_err(io_error("listen at its --management address"))?;
    let tls = match options.insecure {
        true => None,
        false => Some(secure(options)?),
    };
    let (inputs, received) = mpsc::channel();
    let (engine, engine_thread) = Engine::start(options, *management.ip(), inputs.clone())?;
    let nic = engine.call(|engine| engine.nic().identity().ip);
    let nic = nic.map_or(*management.ip(), Ipv4Addr::from);
    let setting = link::Setting {
        listener,
        from: *management.ip(),
        patience: Duration::from_secs(options.patience.max(1)),
        of_host: options.guests.sessions,
        tls,
        refusals: refusals.clone(),
    };
    let (wire, wire_thread) = link::start(setting, inputs.clone())?;
    let peers = Arc::new(Mutex::new(Vec::new()));
    let coordinator = Coordinator::new(
        options.clone(),
        (management, nic),
        engine.clone(),
        wire.clone(),
        inbox,
        inputs.clone(),
        (Arc::clone(&peers), refusals),
    );
    let mut remote = Remote {
        inputs,
        peers,
        wire,
        engine: Some(engine),
        any_memory: false,
        tethers: 0,
        tied: HashMap::new(),
        threads: vec![engine_thread, wire_thread],
    };
    remote.spawn("ipnuma-remote", move || coordinator.run(&received))?;
    Ok(Box::new(remote))
}

/// This machine's key, and those that it knows.
fn secure(options: &Options) -> Result<tls::Tls, Error> {
    let path = options.key_file();
    let wrong = |problem| Error::Config {
        place: "--management".to_owned(),
        problem,
    };
    let Some(key) = Key::load(&path).map_err(wrong)? else {
        return Err(wrong(format!(
            "other machines' daemons must be able to tell who this one is, and it has no key at {}: make one with \
             `ipnuma key`, and trust theirs with `ipnuma key trust`; or start it with --insecure, and whoever reaches the \
             address is believed to be another daemon",
            path.display()
        )));
    };
    let known = options.known_peers_file();
    Known::read(&known).map_err(wrong)?;
    let known = Known::new(known);
    known.look();
    tls::Tls::new(&key, known).map_err(|error| wrong(error.to_string()))
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

    fn forgotten(&mut self, channel: u64) {
        self.tied.remove(&channel);
        self.tell(Input::Forgotten(channel));
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
            self.tethers += 1;
            self.tied.insert(channel, self.tethers);
            engine.post(move |engine| engine.tie(channel, ours));
        }
        Ok(Arc::new(theirs))
    }

    fn is_tied_since(&self, channel: u64, tethers: u64) -> bool {
        self.tied.get(&channel).is_some_and(|last| *last > tethers)
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.wire.stop();
        self.tell(Input::Stop);
        self.engine = None;
        // The engine's thread is the first, and ends when the coordinator does.
        while let Some(thread) = self.threads.pop() {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}
