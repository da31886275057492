// SPDX-License-Identifier: Apache-2.0
//! Sockets of rtnetlink: one that listens, others that ask.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

use crate::message::{self, Event, Malformed, Message, Messages};

/// Room for what the kernel sends at once.
const ROOM: usize = 1 << 20;
/// How long the kernel may take to answer, milliseconds.
const PATIENCE_MS: i64 = 10_000;

/// Groups that are listened to, as bits: link, neighbours, addresses, routes and settings of both families, next-hop
/// objects; rules of IPv4 and IPv6.
const GROUPS: u32 =
    RULES | 1 << 0 | 1 << 2 | 1 << 4 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 23 | 1 << 24 | 1 << 31;
const RULES: u32 = 1 << 7 | 1 << 18;

/// A socket of rtnetlink.
pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
    room: Vec<u8>,
    privileged: bool,
}

/// What a read of the listening socket gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// Bytes at the beginning of the buffer.
    Bytes(usize),
    /// Nothing waits.
    Nothing,
    /// The kernel had no room for messages and has thrown some away.
    Overrun,
}

impl Netlink {
    fn open(groups: u32) -> io::Result<Self> {
        let socket = net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            // NETLINK_ROUTE is protocol 0.
            None,
        )?;
        net::bind(&socket, &SocketAddrNetlink::new(0, groups))?;
        Ok(Self {
            socket,
            sequence: 0,
            room: vec![0; ROOM],
            privileged: true,
        })
    }

    /// A socket that is told of every change, with a receive buffer of so many bytes: more than the system's limit if the
    /// process may.
    pub fn listener(buffer: usize) -> io::Result<Self> {
        let mut netlink = Self::open(GROUPS)?;
        // The kernel doubles what it is asked for.
        let half = buffer / 2;
        if sockopt::set_socket_recv_buffer_size_force(&netlink.socket, half).is_err() {
            netlink.privileged = false;
            sockopt::set_socket_recv_buffer_size(&netlink.socket, half)?;
        }
        Ok(netlink)
    }

    /// A socket for questions.
    pub fn asker() -> io::Result<Self> {
        let netlink = Self::open(0)?;
        let _ = sockopt::set_socket_recv_buffer_size_force(&netlink.socket, 4 << 20);
        Ok(netlink)
    }

    /// Whether a listener could go beyond the system's limit, which takes CAP_NET_ADMIN.
    pub const fn is_privileged(&self) -> bool {
        self.privileged
    }

    /// Reads what waits; see [`Netlink::bytes`].
    pub fn read(&mut self) -> io::Result<Read> {
        match net::recv(&self.socket, &mut self.room[..], RecvFlags::empty()) {
            Ok((count, _)) => Ok(Read::Bytes(count)),
            Err(Errno::AGAIN) => Ok(Read::Nothing),
            Err(Errno::NOBUFS) => Ok(Read::Overrun),
            Err(Errno::INTR) => self.read(),
            Err(error) => Err(error.into()),
        }
    }

    /// The bytes of the last read.
    pub fn bytes(&self, count: usize) -> &[u8] {
        &self.room[..count]
    }

    /// Sends a request; returns the number its answer will have.
    fn send(&mut self, build: impl FnOnce(u32) -> Vec<u8>) -> io::Result<u32> {
        self.sequence = self.sequence.wrapping_add(1);
        let request = build(self.sequence);
        net::send(&self.socket, &request, SendFlags::empty())?;
        Ok(self.sequence)
    }

    fn wait(&self) -> io::Result<()> {
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        let patience = Timespec {
            tv_sec: PATIENCE_MS / 1000,
            tv_nsec: 0,
        };
        loop {
            match poll(&mut fds, Some(&patience)) {
                Ok(0) => {
                    let text = "the kernel does not answer a question over rtnetlink";
                    return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                }
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Asks for all of a kind; gives each answer's bytes to `take`, between whose calls `between` may do other things.
    /// Returns whether the answers are whole: not if what they tell of changed meanwhile.
    pub fn dump(
        &mut self,
        kind: u16,
        family: u8,
        take: &mut dyn FnMut(Result<Event, Malformed>),
        between: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<bool> {
        let sequence = self.send(|sequence| message::dump(kind, family, sequence))?;
        let mut whole = true;
        loop {
            let count = match self.read()? {
                Read::Bytes(count) => count,
                Read::Nothing => {
                    self.wait()?;
                    continue;
                }
                Read::Overrun => {
                    whole = false;
                    continue;
                }
            };
            for bytes in Messages(&self.room[..count]) {
                let event = bytes.and_then(message::parse);
                let Ok(event) = event else {
                    take(event);
                    continue;
                };
                if event.sequence != sequence {
                    continue;
                }
                whole &= event.flags & message::flags::DUMP_INTERRUPTED == 0;
                match event.message {
                    Message::Done => return Ok(whole),
                    // A kernel without a family or without this kind of thing.
                    Message::Error(code) if -code == Errno::OPNOTSUPP.raw_os_error() => {
                        return Ok(whole);
                    }
                    Message::Error(code) => return Err(io::Error::from_raw_os_error(-code)),
                    _ => take(Ok(event)),
                }
            }
            between()?;
        }
    }

    /// Sends one request and waits for its answer.
    pub fn ask(&mut self, build: impl FnOnce(u32) -> Vec<u8>) -> io::Result<Message> {
        let sequence = self.send(build)?;
        loop {
            let count = match self.read()? {
                Read::Bytes(count) => count,
                Read::Nothing | Read::Overrun => {
                    self.wait()?;
                    continue;
                }
            };
            for bytes in Messages(&self.room[..count]) {
                match bytes.and_then(message::parse) {
                    Ok(event) if event.sequence == sequence => return Ok(event.message),
                    _ => {}
                }
            }
        }
    }
}

impl AsFd for Netlink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
