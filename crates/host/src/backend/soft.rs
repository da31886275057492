// SPDX-License-Identifier: Apache-2.0
//! The `soft` back end: no board.
//!
//! Windows of this machine are the region's memory itself, mapped. Windows of other machines go through the daemon and
//! its software NIC, by way of an [operations ring](ipc::operations).

mod region;
mod remote;
mod window;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ipc::client::{Client, descriptors, unexpected};
use ipc::protocol::{Notice, Reply, Request};
use ipc::token::Token;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::backend::{Backend, Info, RegionMemory, WindowAccess};
use crate::config::Config;
use crate::error::{Error, Result};

/// The back end.
#[derive(Debug)]
pub struct Soft {
    link: Arc<Link>,
}

/// What regions and windows share: the daemon, and what it said about them.
#[derive(Debug)]
struct Link {
    client: Client,
    told: Mutex<Told>,
    daemon_gone: AtomicBool,
}

/// Whom the daemon's notices are about.
#[derive(Debug, Default)]
struct Told {
    windows: HashMap<u64, Weak<Fate>>,
    /// Own regions, and whether their memory has to be left behind.
    regions: HashMap<u64, Weak<AtomicBool>>,
    /// Requests under way for a window or a region.
    opening: usize,
    /// What was said meanwhile of windows and regions that are not known here yet: the answer that names them comes by
    /// another socket, and another thread may take the notice first.
    early: Vec<Said>,
}

/// What the daemon says of a window or a region.
#[derive(Clone, Copy, Debug)]
enum Said {
    Revoked { window: u64 },
    PeerLost { window: u64 },
    RegionRevoked { region: u64 },
}

impl Told {
    /// Whether it is about something that is known here.
    fn pass_on(&self, said: Said) -> bool {
        let fate = |window| self.windows.get(window).and_then(Weak::upgrade);
        match &said {
            Said::Revoked { window } => fate(window).map(|fate| fate.ends(&fate.revoked)),
            Said::PeerLost { window } => fate(window).map(|fate| fate.ends(&fate.lost)),
            Said::RegionRevoked { region } => {
                let tainted = self.regions.get(region).and_then(Weak::upgrade);
                tainted.map(|tainted| tainted.store(true, Ordering::Release))
            }
        }
        .is_some()
    }

    /// A window or a region is known from now on.
    fn catch_up(&mut self) {
        let mut early = std::mem::take(&mut self.early);
        early.retain(|&said| !self.pass_on(said));
        self.early = early;
    }
}

/// A request for a window or a region is under way.
struct Opening<'a>(&'a Link);

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        let mut told = self.0.told();
        told.opening -= 1;
        if told.opening == 0 {
            told.early.clear();
        }
    }
}

/// What became of a window.
#[derive(Debug, Default)]
struct Fate {
    revoked: AtomicBool,
    /// The server was said to be gone. A machine may come back, a process does not.
    lost: AtomicBool,
    faults: AtomicU64,
}

impl Fate {
    fn ends(&self, how: &AtomicBool) {
        how.store(true, Ordering::Relaxed);
        self.faults.fetch_add(1, Ordering::Relaxed);
    }
}

impl Soft {
    /// Connects to the daemon.
    ///
    /// # Errors
    /// If there is none.
    pub fn open(config: &Config) -> Result<Self> {
        let client = Client::connect(&config.daemon, &program())?;
        let link = Link {
            client,
            told: Mutex::default(),
            daemon_gone: AtomicBool::new(false),
        };
        Ok(Self {
            link: Arc::new(link),
        })
    }
}

impl Backend for Soft {
    fn info(&self) -> Info {
        Info {
            backend: "soft",
            max_store: usize::MAX,
            line_atomic: true,
            mappable: true,
            link_up: true,
            peers: self.link.client.peers().to_vec(),
        }
    }

    fn alloc(&self, bytes: usize) -> Result<Box<dyn RegionMemory>> {
        let _opening = self.link.opening();
        let (reply, fds) = self.link.client.request(&Request::Create {
            // The daemon counts what is asked for, and the region is whole pages.
            bytes: bytes.next_multiple_of(shm::memory::PAGE) as u64,
        })?;
        let Reply::Region { region } = reply else {
            return Err(unexpected(reply).into());
        };
        Ok(Box::new(region::SoftRegion::new(
            Arc::clone(&self.link),
            region,
            descriptors(fds)?,
        )?))
    }

    fn connect(&self, token: &Token) -> Result<Arc<dyn WindowAccess>> {
        let _opening = self.link.opening();
        let (reply, fds) = self
            .link
            .client
            .request(&Request::Connect { token: *token })?;
        let Reply::Window {
            window,
            first,
            bytes,
            rights,
            remote,
        } = reply
        else {
            return Err(unexpected(reply).into());
        };
        let lease = self.link.lease(window);
        if (first, bytes) != (token.first, token.bytes) {
            return Err(ipc::Error::Protocol {
                what: "another range than the token's",
            }
            .into());
        }
        let range = window::Range {
            first,
            bytes,
            rights,
        };
        if remote {
            return Ok(Arc::new(remote::RemoteWindow::new(
                lease,
                range,
                descriptors(fds)?,
            )?));
        }
        Ok(Arc::new(window::SoftWindow::new(
            lease,
            range,
            descriptors(fds)?,
        )?))
    }
}

impl Link {
    /// Keeps what is said of unknown windows and regions, until the answer to a request has named them.
    fn opening(&self) -> Opening<'_> {
        self.told().opening += 1;
        Opening(self)
    }

    /// Begins to follow a window's fate.
    fn lease(self: &Arc<Self>, window: u64) -> Lease {
        let fate = Arc::new(Fate::default());
        let mut told = self.told();
        told.windows.insert(window, Arc::downgrade(&fate));
        told.catch_up();
        drop(told);
        Lease {
            link: Arc::clone(self),
            window,
            fate,
        }
    }

    /// Begins to listen for a region's revocation.
    fn watch(&self, region: u64) -> Arc<AtomicBool> {
        let tainted = Arc::new(AtomicBool::new(false));
        let mut told = self.told();
        told.regions.insert(region, Arc::downgrade(&tainted));
        told.catch_up();
        tainted
    }

    /// Takes what the daemon has said meanwhile; a load if that is nothing.
    fn listen(&self) {
        if !self.client.has_notices() {
            return;
        }
        let mut told = self.told();
        loop {
            // Descriptors of notices that are not for us are closed here.
            let said = match self.client.next_notice() {
                Ok(None) => return,
                Ok(Some((Notice::Revoked { window, region, .. }, _))) => match (window, region) {
                    (Some(window), _) => Said::Revoked { window },
                    (None, Some(region)) => Said::RegionRevoked { region },
                    (None, None) => continue,
                },
                Ok(Some((Notice::PeerLost { window }, _))) => Said::PeerLost { window },
                Ok(Some(_)) => continue,
                Err(ipc::Error::DaemonLost { .. }) => {
                    self.daemon_gone.store(true, Ordering::Relaxed);
                    return;
                }
                // A notice that could not be read was perhaps about any of them.
                Err(_) => {
                    for fate in told.windows.values().filter_map(Weak::upgrade) {
                        fate.faults.fetch_add(1, Ordering::Relaxed);
                    }
                    continue;
                }
            };
            if !told.pass_on(said) && told.opening > 0 {
                told.early.push(said);
            }
        }
    }

    /// Whether the daemon still carries what is sent.
    fn alive(&self) -> Result<()> {
        self.listen();
        self.answers()
    }

    /// The same, without listening: for handlers of signals.
    fn answers(&self) -> Result<()> {
        // A daemon that dies sends no notice; its socket tells, but only to those who ask.
        let mut socket = [PollFd::from_borrowed_fd(
            self.client.notice_socket(),
            PollFlags::empty(),
        )];
        let none = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        if matches!(rustix::event::poll(&mut socket, Some(&none)), Ok(1..)) {
            self.daemon_gone.store(true, Ordering::Relaxed);
        }
        if self.daemon_gone.load(Ordering::Relaxed) {
            Err(ipc::Error::DaemonLost {
                source: Errno::CONNRESET,
            }
            .into())
        } else {
            Ok(())
        }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A window's number at the daemon, given back when dropped.
#[derive(Debug)]
struct Lease {
    link: Arc<Link>,
    window: u64,
    fate: Arc<Fate>,
}

impl Lease {
    fn faults(&self) -> u64 {
        self.link.listen();
        self.fate.faults.load(Ordering::Relaxed)
    }

    /// Whether the token still holds.
    fn valid(&self) -> Result<()> {
        self.link.listen();
        self.known_valid()
    }

    /// The same, as far as is known already: for handlers of signals.
    fn known_valid(&self) -> Result<()> {
        if self.fate.revoked.load(Ordering::Relaxed) {
            Err(Error::Revoked)
        } else {
            Ok(())
        }
    }

    /// Whether the server was ever said to be gone.
    fn lost(&self) -> bool {
        self.fate.lost.load(Ordering::Relaxed)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.link.told().windows.remove(&self.window);
        // A daemon that is gone has forgotten the window anyway.
        let _ = self.link.client.done(&Request::Disconnect {
            window: self.window,
        });
    }
}

/// Name of the running program.
fn program() -> String {
    std::env::args_os().next().map_or_else(String::new, |name| {
        std::path::Path::new(&name)
            .file_name()
            .unwrap_or(&name)
            .to_string_lossy()
            .into_owned()
    })
}
