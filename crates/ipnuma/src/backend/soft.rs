// SPDX-License-Identifier: Apache-2.0
//! The `soft` back end: no board.
//!
//! Windows of this machine are the region's memory itself, mapped. Windows of other machines go through the daemon and
//! its software NIC, by way of an [operations ring](crate::operations).

mod region;
mod remote;
mod window;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::backend::{Backend, Info, RegionMemory, WindowAccess};
use crate::client::{Client, descriptors, unexpected};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::ipc::{Notice, Reply, Request};
use crate::token::Token;

/// The back end.
#[derive(Debug)]
pub struct Soft {
    link: Arc<Link>,
}

/// What regions and windows share: the daemon, and what it said about them.
#[derive(Debug)]
struct Link {
    client: Client,
    windows: Mutex<HashMap<u64, Weak<Fate>>>,
    daemon_gone: AtomicBool,
}

/// What became of a window.
#[derive(Debug, Default)]
struct Fate {
    revoked: AtomicBool,
    /// The server was said to be gone. A machine may come back, a process does not.
    lost: AtomicBool,
    faults: AtomicU64,
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
            windows: Mutex::default(),
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
        let (reply, fds) = self.link.client.request(&Request::Create {
            // The daemon counts what is asked for, and the region is whole pages.
            bytes: bytes.next_multiple_of(crate::memory::PAGE) as u64,
        })?;
        let Reply::Region { region } = reply else {
            return Err(unexpected(reply));
        };
        Ok(Box::new(region::SoftRegion::new(
            Arc::clone(&self.link),
            region,
            descriptors(fds)?,
        )?))
    }

    fn connect(&self, token: &Token) -> Result<Box<dyn WindowAccess>> {
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
            return Err(unexpected(reply));
        };
        let lease = self.link.lease(window);
        if (first, bytes) != (token.first, token.bytes) {
            return Err(Error::Protocol {
                what: "another range than the token's",
            });
        }
        let range = window::Range {
            first,
            bytes,
            rights,
        };
        if remote {
            return Ok(Box::new(remote::RemoteWindow::new(
                lease,
                range,
                descriptors(fds)?,
            )?));
        }
        Ok(Box::new(window::SoftWindow::new(
            lease,
            range,
            descriptors(fds)?,
        )?))
    }
}

impl Link {
    /// Begins to follow a window's fate.
    fn lease(self: &Arc<Self>, window: u64) -> Lease {
        let fate = Arc::new(Fate::default());
        self.windows().insert(window, Arc::downgrade(&fate));
        Lease {
            link: Arc::clone(self),
            window,
            fate,
        }
    }

    /// Takes what the daemon has said meanwhile; a load if that is nothing.
    fn listen(&self) {
        if !self.client.has_notices() {
            return;
        }
        let windows = self.windows();
        loop {
            let (window, revoked) = match self.client.next_notice() {
                Ok(None) => return,
                // Descriptors of notices that are not for us are closed here.
                Ok(Some((
                    Notice::Revoked {
                        window: Some(window),
                        ..
                    },
                    _,
                ))) => (window, true),
                Ok(Some((Notice::PeerLost { window }, _))) => (window, false),
                Ok(Some(_)) => continue,
                Err(Error::DaemonLost { .. }) => {
                    self.daemon_gone.store(true, Ordering::Relaxed);
                    return;
                }
                // A notice that could not be read was perhaps about any of them.
                Err(_) => {
                    for fate in windows.values().filter_map(Weak::upgrade) {
                        fate.faults.fetch_add(1, Ordering::Relaxed);
                    }
                    continue;
                }
            };
            if let Some(fate) = windows.get(&window).and_then(Weak::upgrade) {
                let which = if revoked { &fate.revoked } else { &fate.lost };
                which.store(true, Ordering::Relaxed);
                fate.faults.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Whether the daemon still carries what is sent.
    fn alive(&self) -> Result<()> {
        self.listen();
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
            Err(Error::DaemonLost {
                source: Errno::CONNRESET,
            })
        } else {
            Ok(())
        }
    }

    fn windows(&self) -> MutexGuard<'_, HashMap<u64, Weak<Fate>>> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.link.windows().remove(&self.window);
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
