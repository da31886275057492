// SPDX-License-Identifier: Apache-2.0
//! The machine as it is: memory from memfd, events from eventfd, addresses as the kernel has them.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use host::backend::rack::map_channel;
use rustix::event::EventfdFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use shm::channel::{Channel, flags, mark_both};

use crate::descriptors::{self, Use};
use crate::state::{Counted, Kind, Machine, Refusal};
use crate::twins::Twins;

/// The real one.
#[derive(Debug)]
pub struct Real {
    /// Lines of a stream's rings.
    pub stream_lines: u32,
    /// Lines of a datagram ring.
    pub datagram_lines: u32,
    /// Lines of a ring to another machine.
    pub far_lines: u32,
    /// Memory for channels to other machines, taken from the NIC before it is asked for; none: any will do.
    pub far_memory: Option<OwnedFd>,
    /// The kernel's TCP sockets.
    pub twins: Twins,
    /// The register in which processes that have ends of channels have their numbers; made when it is asked for.
    pub living: Option<Handle>,
    /// Its key.
    pub living_key: u64,
}

/// A descriptor that several may hold; closed with the last.
pub type Handle = Arc<OwnedFd>;

fn because(what: &'static str) -> impl Fn(shm::Error) -> Refusal {
    move |error| {
        let errno = Errno::from_raw_os_error(error.errno());
        let remedy = match errno {
            Errno::FBIG => {
                "; the daemon's limit of a file's size (RLIMIT_FSIZE) is too low: raise it with `ulimit -f` or its unit's \
                 LimitFSIZE="
            }
            _ => "",
        };
        let why = format!("the daemon could not {what}: {error}{remedy}");
        Refusal::new(errno, why)
    }
}

/// A new descriptor, unless it is one too many.
fn kept(descriptor: OwnedFd, what: Use) -> Result<Handle, Refusal> {
    descriptors::keep(descriptor, what).map(Arc::new)
}

impl Machine for Real {
    type Handle = Handle;

    fn memory(&mut self, bytes: u64) -> Result<Handle, Refusal> {
        let size = usize::try_from(bytes).unwrap_or(usize::MAX - shm::memory::PAGE);
        shm::memory::create_sealable("ipnuma-region", shm::memory::pages(size))
            .map_err(because("make memory for a region"))
            .and_then(|memory| kept(memory, Use::Process))
    }

    fn event(&mut self) -> Result<Handle, Refusal> {
        rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|errno| {
                let message = format!("the daemon could not make an event counter: {errno}");
                Refusal::new(errno, message)
            })
            .and_then(|event| kept(event, Use::Process))
    }

    fn bell(&mut self, memory: &Handle) -> Result<Handle, Refusal> {
        match host::backend::rack::region_bytes(memory.as_fd()) {
            Some(_) => Ok(Arc::clone(memory)),
            None => self.event(),
        }
    }

    fn read_only(&mut self, memory: &Handle) -> Result<Handle, Refusal> {
        shm::memory::read_only(memory)
            .map_err(because("open a region for reading only"))
            .and_then(|memory| kept(memory, Use::Process))
    }

    fn channel(&mut self, kind: Kind) -> Result<Handle, Refusal> {
        let lines = match kind {
            Kind::Stream => self.stream_lines,
            Kind::Datagram => self.datagram_lines,
        };
        Channel::create_for(self.living_key, lines)
            .map_err(because("make memory for a channel"))
            .and_then(|(_, memory)| kept(memory, Use::Process))
    }

    fn living(&mut self) -> Result<Handle, Refusal> {
        if let Some(living) = &self.living {
            return Ok(living.clone());
        }
        let made = shm::living::create().map(Arc::new);
        let made = made.map_err(because("make a register of the living"))?;
        // It has locks in channels, too, whose owners may die.
        if shm::living::find(self.living_key).is_none() {
            let copy = rustix::io::fcntl_dupfd_cloexec(&made, 0);
            shm::living::join(
                self.living_key,
                copy.map_err(|errno| {
                    Refusal::new(
                        errno,
                        format!("the daemon could not keep a register: {errno}"),
                    )
                })?,
            );
        }
        Ok(self.living.insert(made).clone())
    }

    fn revoke_channel(&mut self, memory: &Handle) {
        // Without addresses to map it at, the processes still get their notices.
        if let Ok(channel) = map_channel(memory) {
            mark_both(&channel, flags::REVOKED);
        }
    }

    fn far_channel(&mut self) -> Result<Handle, Refusal> {
        match self.far_memory.take() {
            Some(memory) => map_channel(&memory).map(|channel| {
                channel.prepare(self.living_key);
                memory
            }),
            None => Channel::create_for(self.living_key, self.far_lines).map(|(_, memory)| memory),
        }
        .map_err(because("make memory for a channel"))
        .and_then(|memory| kept(memory, Use::Machine))
    }

    fn channel_bytes(&self, memory: &Handle) -> u64 {
        // One that can't be mapped here can't be used either: then nobody gets a window on it.
        map_channel(memory).map_or(0, |channel| shm::channel::bytes(channel.lines()) as u64)
    }

    fn ring(&mut self, event: &Handle) {
        // A counter that is full wakes as well.
        let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
    }

    fn counters(&self, memory: &Handle) -> Option<[Counted; 2]> {
        let channel = map_channel(memory).ok()?;
        Some([0, 1].map(|half| {
            let control = channel.control(half);
            Counted {
                flags: channel.flags(half).load(Relaxed),
                messages: control.sender.messages.load(Relaxed),
                bytes: control.sender.bytes.load(Relaxed),
                doorbells: control.counters.doorbells.load(Relaxed),
                sleeps: control.counters.sleeps.load(Relaxed),
                spins_found: control.counters.spins_found.load(Relaxed),
                dropped: control.counters.dropped.load(Relaxed),
            }
        }))
    }

    fn is_open(&mut self, own: SocketAddr, peer: SocketAddr, age: Duration) -> bool {
        self.twins.has(own, peer, age)
    }

    fn is_connected(&mut self, own: SocketAddr, peer: SocketAddr) -> bool {
        self.twins.knows(own, peer)
    }

    fn is_local(&mut self, ip: IpAddr) -> bool {
        if ip.is_loopback() {
            return true;
        }
        if ip.is_multicast() || ip == IpAddr::V4(std::net::Ipv4Addr::BROADCAST) {
            return false;
        }
        // Only an own address can be bound.
        let family = match ip {
            IpAddr::V4(_) => AddressFamily::INET,
            IpAddr::V6(_) => AddressFamily::INET6,
        };
        rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
            .and_then(|socket| rustix::net::bind(&socket, &SocketAddr::new(ip, 0)))
            .is_ok()
    }

    fn secret(&mut self) -> Result<[u8; 16], Refusal> {
        random().map_err(|error| Refusal::new(Errno::IO, error))
    }
}

/// Sixteen bytes that nobody can guess.
pub fn random() -> Result<[u8; 16], String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| format!("the daemon got no random bytes from the system: {error}"))?;
    Ok(bytes)
}
