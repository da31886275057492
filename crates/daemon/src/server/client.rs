// SPDX-License-Identifier: Apache-2.0
//! One client: its sockets, and the notices that it has not read yet.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use ipc::protocol::{self, Notice};
use ipc::token::Token;
use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};

use super::{LIFE, NOTICES, REQUESTS, key};
use crate::machine::Handle;
use crate::page::NoticePage;
use crate::state::{Answer, ProcessId, Refusal};

/// The client is gone, or is to go.
#[derive(Debug)]
pub struct Gone;

/// What an answer waits for: another machine's, or a region on the move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// A window on its region.
    Window(u64, Token),
    /// Whether somebody listens there.
    Intent(u64),
    /// Whether a connection is accelerated.
    Channel(u64),
    /// Whether an acceptor has come.
    Abandoned(u64),
    /// Fresh memory for an own region, when nobody writes to the old any more.
    Fresh(u64),
    /// A window on a region that its owner is about to move, since then.
    Settled(Token, Instant),
}

/// A connection to a process.
#[derive(Debug)]
pub struct Client {
    /// Requests and replies.
    pub socket: OwnedFd,
    /// Tells when the process exits.
    life: Option<OwnedFd>,
    /// The process.
    pub pid: u32,
    /// It gets this answer and no other.
    pub refusal: Option<Refusal>,
    /// What it waits for.
    pub awaits: Option<Awaited>,
    notices: Option<Notices>,
}

#[derive(Debug)]
struct Notices {
    socket: OwnedFd,
    page: NoticePage,
    /// What epoll is asked about the socket.
    interest: EventFlags,
    /// Those that the socket has no room for, in order.
    waiting: VecDeque<(Vec<u8>, Vec<Handle>)>,
}

impl Client {
    pub const fn new(
        socket: OwnedFd,
        life: Option<OwnedFd>,
        pid: u32,
        refusal: Option<Refusal>,
    ) -> Self {
        Self {
            socket,
            life,
            pid,
            refusal,
            awaits: None,
            notices: None,
        }
    }

    pub fn watch(&mut self, epoll: &OwnedFd, id: ProcessId) -> Result<(), Errno> {
        epoll::add(epoll, &self.socket, key(id, REQUESTS), EventFlags::IN)?;
        if let Some(life) = &self.life {
            epoll::add(epoll, life, key(id, LIFE), EventFlags::IN)?;
        }
        Ok(())
    }

    /// Page and socket for notices; returns the process's ends.
    pub fn open_notices(
        &mut self,
        epoll: &OwnedFd,
        id: ProcessId,
        magic: [u8; 16],
        generation: u64,
    ) -> Result<Vec<Handle>, Refusal> {
        let refused = |errno: Errno, why: String| {
            Refusal::new(
                errno,
                format!("the daemon has no room for another process: {why}"),
            )
        };
        let (page, theirs) = NoticePage::new(magic, generation)
            .map_err(|error| refused(Errno::from_raw_os_error(error.errno()), error.to_string()))?;
        let pair = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        );
        let (socket, far) = pair.map_err(|errno| refused(errno, errno.to_string()))?;
        // No interest: what is told anyhow is that the other end is closed.
        epoll::add(epoll, &socket, key(id, NOTICES), EventFlags::empty())
            .map_err(|errno| refused(errno, errno.to_string()))?;
        self.notices = Some(Notices {
            socket,
            page,
            interest: EventFlags::empty(),
            waiting: VecDeque::new(),
        });
        Ok(vec![Arc::new(theirs), Arc::new(far)])
    }

    /// Sends an answer. A process that asks before it has read the last answer is not worth waiting for.
    pub fn reply(&self, answer: &Answer<Handle>) -> Result<(), Gone> {
        let packet = protocol::encode(&answer.reply).map_err(|_| Gone)?;
        send(&self.socket, &packet, &answer.handles).map_err(|_| Gone)
    }

    pub fn refuse(&self, refusal: Refusal) -> Result<(), Gone> {
        self.reply(&Answer::refused(refusal))
    }

    /// Sends a notice, now or when there is room.
    pub fn notify(
        &mut self,
        epoll: &OwnedFd,
        id: ProcessId,
        notice: &Notice,
        handles: Vec<Handle>,
        most: usize,
    ) -> Result<(), Gone> {
        let Some(notices) = &mut self.notices else {
            return Ok(());
        };
        if notices.waiting.len() >= most {
            return Err(Gone);
        }
        let packet = protocol::encode(notice).map_err(|_| Gone)?;
        notices.waiting.push_back((packet, handles));
        // The others wait already; this one waits behind them.
        if notices.waiting.len() > 1 {
            return Ok(());
        }
        self.flush(epoll, id)
    }

    /// Sends waiting notices as far as there is room, and asks to be told when there is more.
    pub fn flush(&mut self, epoll: &OwnedFd, id: ProcessId) -> Result<(), Gone> {
        let Some(notices) = &mut self.notices else {
            return Ok(());
        };
        let mut interest = EventFlags::empty();
        while let Some((packet, handles)) = notices.waiting.front() {
            match send(&notices.socket, packet, handles) {
                Ok(()) => {
                    notices.waiting.pop_front();
                    notices.page.count();
                }
                Err(Errno::AGAIN) => {
                    interest = EventFlags::OUT;
                    break;
                }
                // Too many descriptors are on their way: the socket would say that it has room, so time must tell.
                Err(Errno::TOOMANYREFS | Errno::NOBUFS) => break,
                Err(_) => return Err(Gone),
            }
        }
        if interest != notices.interest {
            notices.interest = interest;
            epoll::modify(epoll, &notices.socket, key(id, NOTICES), interest).map_err(|_| Gone)?;
        }
        Ok(())
    }

    pub fn set_connecting(&self, word: u64) {
        if let Some(notices) = &self.notices {
            notices.page.set_connecting(word);
        }
    }

    pub fn set_stream(&self, place: usize, there: bool) {
        if let Some(notices) = &self.notices {
            notices.page.set_stream(place, there);
        }
    }

    pub fn set_networks(&self, networks: &[(u32, u32)]) {
        if let Some(notices) = &self.notices {
            notices.page.set_networks(networks);
        }
    }

    pub fn set_listener(&self, place: usize, there: bool) {
        if let Some(notices) = &self.notices {
            notices.page.set_listener(place, there);
        }
    }

    pub fn set_generation(&self, generation: u64) {
        if let Some(notices) = &self.notices {
            notices.page.set_generation(generation);
        }
    }
}

fn send(socket: &OwnedFd, packet: &[u8], handles: &[Handle]) -> Result<(), Errno> {
    let fds: Vec<_> = handles.iter().map(AsFd::as_fd).collect();
    ipc::packet::send(socket, packet, &fds, SendFlags::DONTWAIT)
}
