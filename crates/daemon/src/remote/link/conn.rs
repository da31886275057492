// SPDX-License-Identifier: Apache-2.0
//! One connection: what has come and is no message yet, and what waits until the other side reads.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};
use rustls::Connection;

use super::Shared;
use crate::remote::messages::{self, Message};

/// Bytes that are read at once.
const CHUNK: usize = 4096;
/// Chunks that are read before others have their turn.
const CHUNKS: usize = 4;
/// With so many bytes that it does not read another daemon is not listened to.
const OUT_PAUSE: usize = 16 << 10;
/// With so many it is given up.
const OUT_MOST: usize = 1 << 20;

/// A machine that says nothing is asked after so long,
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
/// so often,
const KEEPALIVE_BETWEEN: Duration = Duration::from_secs(5);
/// and so many times before its connection ends. A daemon that is stopped has a kernel that answers.
const KEEPALIVE_MOST: u32 = 6;

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// This daemon connects.
    Connecting,
    /// It is not known yet who the other side is.
    Shaking,
    /// Messages go both ways.
    Up,
    /// It is closed.
    Over,
}

#[derive(Debug)]
pub struct Conn {
    pub socket: TcpStream,
    pub peer: Ipv4Addr,
    /// This daemon has made it.
    pub ours: bool,
    pub stage: Stage,
    pub tls: Option<Box<Connection>>,
    pub shared: Arc<Shared>,
    /// What epoll is asked.
    pub interest: EventFlags,
    /// Until then something must have moved.
    pub deadline: Option<Instant>,
    /// Something has gone since the deadline was set.
    pub moved: bool,
    /// Its key was not trusted when that was asked last.
    pub doubted: bool,
    /// What has come and was not listened to.
    taken: Vec<u8>,
    /// Messages that have not gone, and bytes that have of the first.
    out: VecDeque<Vec<u8>>,
    gone: usize,
    bytes: usize,
    /// Nothing more will come.
    ended: Option<String>,
    /// It has said what no daemon says.
    pub wrong: bool,
}

impl Conn {
    fn new(
        socket: OwnedFd,
        peer: Ipv4Addr,
        ours: bool,
        tls: Option<Connection>,
        shared: Arc<Shared>,
    ) -> Self {
        let stage = match (ours, &tls) {
            (true, _) => Stage::Connecting,
            (false, Some(_)) => Stage::Shaking,
            (false, None) => Stage::Up,
        };
        Self {
            socket: socket.into(),
            peer,
            ours,
            stage,
            tls: tls.map(Box::new),
            shared,
            interest: EventFlags::empty(),
            deadline: None,
            moved: false,
            doubted: false,
            taken: Vec::new(),
            out: VecDeque::new(),
            gone: 0,
            bytes: 0,
            ended: None,
            wrong: false,
        }
    }

    /// One that this daemon makes, from its own address.
    pub fn connect(
        from: Ipv4Addr,
        to: SocketAddrV4,
        tls: Option<Connection>,
        shared: Arc<Shared>,
    ) -> Result<Self, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
        bind(&socket, &SocketAddrV4::new(from, 0))?;
        match rustix::net::connect(&socket, &to) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(errno) => return Err(errno),
        }
        Ok(Self::new(socket, *to.ip(), true, tls, shared))
    }

    /// One that another daemon has made.
    pub fn accepted(
        socket: OwnedFd,
        peer: Ipv4Addr,
        tls: Option<Connection>,
        shared: Arc<Shared>,
    ) -> Result<Self, Errno> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        let conn = Self::new(socket, peer, false, tls, shared);
        conn.tune();
        Ok(conn)
    }

    /// Without these it is only slower, and of a machine that is gone without a word its places stay taken.
    fn tune(&self) {
        let _ = self.socket.set_nodelay(true);
        let _ = sockopt::set_socket_keepalive(&self.socket, true);
        let _ = sockopt::set_tcp_keepidle(&self.socket, KEEPALIVE_IDLE);
        let _ = sockopt::set_tcp_keepintvl(&self.socket, KEEPALIVE_BETWEEN);
        let _ = sockopt::set_tcp_keepcnt(&self.socket, KEEPALIVE_MOST);
    }

    /// Queues a message.
    pub fn say(&mut self, message: &Message) -> Result<(), String> {
        let mut packet = Vec::new();
        messages::write(&mut packet, message).map_err(|error| error.to_string())?;
        self.bytes += packet.len();
        self.out.push_back(packet);
        if self.bytes > OUT_MOST {
            self.wrong = true;
            return Err(READS_NOT.to_owned());
        }
        Ok(())
    }

    /// Bytes that have not gone.
    pub fn out_bytes(&self) -> usize {
        self.bytes
    }

    /// Closes it; what can go at once goes.
    pub fn part(&mut self) {
        if self.stage == Stage::Over {
            return;
        }
        let _ = self.flush();
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _ = tls.write_tls(&mut self.socket);
        }
        self.stage = Stage::Over;
        // It may be closed already.
        let _ = self.socket.shutdown(Shutdown::Both);
        (self.taken, self.out, self.tls) = (Vec::new(), VecDeque::new(), None);
        (self.bytes, self.deadline) = (0, None);
    }

    /// What to ask epoll for.
    pub fn wants(&self) -> EventFlags {
        let mut wants = EventFlags::empty();
        wants.set(EventFlags::IN, !self.waits() && self.ended.is_none());
        let tls = self.tls.as_ref().is_some_and(|tls| tls.wants_write());
        let more = tls || self.stage == Stage::Up && !self.out.is_empty();
        wants.set(EventFlags::OUT, more || self.stage == Stage::Connecting);
        wants
    }

    /// Whether it is not listened to at present.
    fn waits(&self) -> bool {
        self.stage == Stage::Connecting
            || self.stage == Stage::Up
                && (self.shared.is_full() || !self.ours && self.bytes > OUT_PAUSE)
    }

    /// Moves bytes as far as they go. The sentence says why it is over.
    pub fn turn(&mut self, flags: EventFlags) -> Result<(), String> {
        if self.stage == Stage::Connecting {
            if !flags.intersects(EventFlags::OUT | EventFlags::ERR | EventFlags::HUP) {
                return Ok(());
            }
            sockopt::socket_error(&self.socket)
                .and_then(|error| error)
                .map_err(|errno| errno.to_string())?;
            self.tune();
            self.shared.hear();
            self.stage = match self.tls {
                Some(_) => Stage::Shaking,
                None => Stage::Up,
            };
        }
        self.flush()?;
        let over = EventFlags::ERR | EventFlags::HUP;
        if flags.intersects(over) && self.waits() {
            // It is gone, and has said more than there was room for.
            return Err(CLOSED.to_owned());
        }
        if flags.intersects(over | EventFlags::IN) && !self.waits() {
            self.read();
        }
        if self.stage == Stage::Shaking {
            if let Some(why) = &self.ended {
                // What went wrong is told to the other side, too.
                let why = why.clone();
                let _ = self.flush();
                return Err(why);
            }
            if self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking()) {
                self.stage = Stage::Up;
            }
            self.flush()?;
        }
        Ok(())
    }

    /// Takes what has come. Its end is told when all before it was listened to.
    fn read(&mut self) {
        for _ in 0..CHUNKS {
            let ended = match &mut self.tls {
                None => read_plain(&mut self.socket, &mut self.taken),
                Some(tls) => read_sealed(&mut self.socket, tls, &mut self.taken, &mut self.wrong),
            };
            match ended {
                Ok(true) => self.shared.hear(),
                Ok(false) => return,
                Err(why) => {
                    self.ended.get_or_insert(why);
                    return;
                }
            }
        }
    }

    /// Calls `each` with the messages that have come, as long as there is room for them.
    pub fn listen(&mut self, mut each: impl FnMut(Message, &Arc<Shared>)) -> Result<(), String> {
        let mut done = 0;
        let mut result = Ok(());
        while !self.waits() {
            match messages::split(&self.taken[done..]) {
                Ok(Some((message, bytes))) => {
                    done += bytes;
                    match message {
                        Message::Pong => {}
                        Message::Ping => self.say(&Message::Pong)?,
                        message => {
                            self.shared.owed.fetch_add(1, Ordering::SeqCst);
                            each(message, &self.shared);
                        }
                    }
                }
                Ok(None) => {
                    result = self.ended.clone().map_or(Ok(()), Err);
                    break;
                }
                Err(_) => {
                    self.wrong = true;
                    result = Err("it has said what is no message".to_owned());
                    break;
                }
            }
        }
        self.taken.drain(..done);
        result
    }

    /// Writes what waits, each message by itself, as far as the other side has room.
    pub fn flush(&mut self) -> Result<(), String> {
        if self.stage == Stage::Connecting || self.stage == Stage::Over {
            return Ok(());
        }
        loop {
            if let Some(tls) = &mut self.tls {
                while tls.wants_write() {
                    match tls.write_tls(&mut self.socket) {
                        Ok(_) => self.moved = true,
                        Err(error) if error.kind() == ErrorKind::Interrupted => {}
                        Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                        Err(error) => return Err(error.to_string()),
                    }
                }
            }
            if self.stage != Stage::Up {
                return Ok(());
            }
            let Some(packet) = self.out.front() else {
                return Ok(());
            };
            let rest = &packet[self.gone..];
            let written = match &mut self.tls {
                Some(tls) => tls.writer().write(rest),
                None => self.socket.write(rest),
            };
            match written {
                Ok(0) => return Ok(()),
                Ok(count) => {
                    self.gone += count;
                    self.bytes -= count;
                    self.moved = true;
                    if self.gone == packet.len() {
                        self.out.pop_front();
                        self.gone = 0;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

/// Why a connection is over.
const CLOSED: &str = "it has closed the connection";

/// The same, by this side.
pub const READS_NOT: &str = "it does not read what it is told";

/// Whether anything has come.
fn read_plain(socket: &mut TcpStream, into: &mut Vec<u8>) -> Result<bool, String> {
    let mut chunk = [0; CHUNK];
    match socket.read(&mut chunk) {
        Ok(0) => Err(CLOSED.to_owned()),
        Ok(count) => {
            into.extend_from_slice(&chunk[..count]);
            Ok(true)
        }
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(true),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error.to_string()),
    }
}

fn read_sealed(
    socket: &mut TcpStream,
    tls: &mut Connection,
    into: &mut Vec<u8>,
    wrong: &mut bool,
) -> Result<bool, String> {
    let ended = match tls.read_tls(socket) {
        Ok(0) => Some(CLOSED.to_owned()),
        Ok(_) => None,
        Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(true),
        Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
        Err(error) => return Err(error.to_string()),
    };
    let processed = tls.process_new_packets();
    *wrong |= matches!(&processed, Err(error) if !matches!(error, rustls::Error::AlertReceived(_)));
    let state = processed.map_err(|error| match error {
        rustls::Error::AlertReceived(alert) => format!(
            "it has ended the connection ({alert:?}); see that it knows this machine's key, which `ipnuma key` shows"
        ),
        rustls::Error::General(sentence) => sentence,
        error => error.to_string(),
    })?;
    let before = into.len();
    into.resize(before + state.plaintext_bytes_to_read(), 0);
    let mut filled = before;
    while filled < into.len() {
        match tls.reader().read(&mut into[filled..]) {
            Ok(0) | Err(_) => break,
            Ok(count) => filled += count,
        }
    }
    into.truncate(filled);
    match ended {
        Some(why) => Err(why),
        None => Ok(true),
    }
}
