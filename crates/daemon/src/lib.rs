// SPDX-License-Identifier: Apache-2.0
//! The daemon: it owns the memory of regions and channels, hands out tokens, and introduces to each other the two ends
//! of a connection. On one machine no data passes through it and a connection outlives it; what goes to other machines goes
//! through its NIC ([`remote`]).
//!
//! ```no_run
//! let options = daemon::Options { socket: "/tmp/example/daemon.sock".into(), ..Default::default() };
//! let running = daemon::spawn(options)?; // in a thread of this process
//! let client = ipc::client::Client::connect(running.socket(), "example")?;
//! # drop(client);
//! running.stop()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`state`] decides, without sockets and clocks; [`Server`] carries requests to it and answers back.
//!
//! It serves processes of its own user and of root. It does not protect these from each other more than the kernel
//! does: a user's processes can read each other's memory anyhow.

#![deny(unsafe_code)]

mod descriptors;
mod error;
pub mod keys;
mod machine;
mod options;
pub mod outside;
mod page;
mod place;
mod refusals;
pub mod remote;
pub mod sandbox;
mod server;
pub mod state;
mod twins;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::event::EventfdFlags;
use rustix::process::{Resource, Rlimit};

pub use error::Error;
pub use options::Options;
pub use server::Server;

/// Ends a server from elsewhere: another thread or, through its descriptor, a signal handler.
#[derive(Clone, Debug)]
pub struct Stopper {
    event: Arc<OwnedFd>,
}

impl Stopper {
    fn new() -> Result<Self, Error> {
        rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map(|event| Self {
                event: Arc::new(event),
            })
            .map_err(|source| Error::System {
                what: "make an event counter",
                source,
            })
    }

    /// The server ends soon.
    pub fn stop(&self) {
        // It can only fail when it was stopped 2^64 times.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }
}

/// Raises this process's limit of descriptors as far as it is allowed: a daemon has one for each channel.
pub fn raise_descriptor_limit() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // As it was, the limit is only lower.
    let _ = rustix::process::setrlimit(Resource::Nofile, raised);
}

/// A line of the log. Nobody needs to read it, and who did may be gone.
fn log(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "ipnuma daemon: {line}");
}

/// A daemon in a thread; dropped, it ends.
#[derive(Debug)]
pub struct Running {
    socket: PathBuf,
    stopper: Stopper,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

/// Starts a daemon in a thread; when this returns, it can be connected to.
///
/// # Errors
/// If it can't be started.
pub fn spawn(options: Options) -> Result<Running, Error> {
    let mut server = Server::new(options)?;
    let (socket, stopper) = (server.socket().to_owned(), server.stopper());
    let thread = std::thread::Builder::new()
        .name("ipnuma-daemon".to_owned())
        .spawn(move || server.run())
        .map_err(|error| {
            Error::Resource(format!("the daemon could not start a thread: {error}"))
        })?;
    Ok(Running {
        socket,
        stopper,
        thread: Some(thread),
    })
}

impl Running {
    /// Its socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Ends it and waits until it has ended.
    ///
    /// # Errors
    /// What had ended it before.
    pub fn stop(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        self.stopper.stop();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(Error::Resource("the daemon's thread panicked".to_owned())),
            None => Ok(()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Who wants to know calls `stop`.
        let _ = self.end();
    }
}
