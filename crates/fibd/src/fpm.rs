// SPDX-License-Identifier: Apache-2.0
//! FPM, by which FRR's zebra tells a forwarding plane of its routes: netlink messages in a stream of TCP, and back again
//! with a flag that says that a route is in hardware.
//!
//! The stream is read whatever happens, and nothing that is written ever waits: a daemon that is not read from stops.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::message::{self, Malformed, Message, Messages, route_flags};
use crate::net::Net;
use crate::state::{Source, State};
use crate::tables::Tables;

/// Version, kind of messages, length with this header.
const HEADER: usize = 4;
const VERSION: u8 = 1;
const NETLINK: u8 = 1;
/// Bytes that are read in one go, so that the kernel has its turn.
const AT_ONCE: usize = 1 << 20;
/// Answers that may wait for the daemon to read.
const MOST_ANSWERS: usize = 64 << 20;
/// Without a message for so long the daemon has told everything.
const QUIET: Duration = Duration::from_secs(5);

struct Peer {
    stream: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
}

/// The server of FPM.
pub struct Fpm {
    /// Where daemons connect.
    pub listener: TcpListener,
    peer: Option<Peer>,
    /// Routes that came, to be handed back once they are in hardware.
    answers: Vec<(Net, Vec<u8>)>,
    /// Since when the daemon tells everything anew.
    anew: Option<Instant>,
    last: Instant,
    hold: Duration,
}

/// What is wrong with a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonsense;

/// Takes the whole messages off the beginning of a stream.
///
/// # Errors
/// If what comes is not FPM: where the next message begins can't be known.
pub fn split(input: &mut Vec<u8>, take: &mut dyn FnMut(&[u8])) -> Result<(), Nonsense> {
    let mut at = 0;
    while let Some([version, kind, high, low]) = input.get(at..at + HEADER) {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        if *version != VERSION || *kind != NETLINK || length < HEADER {
            return Err(Nonsense);
        }
        let Some(body) = input.get(at + HEADER..at + length) else {
            break;
        };
        take(body);
        at += length;
    }
    input.drain(..at);
    Ok(())
}

/// A message as FPM frames it; none if it is too long.
pub fn frame(message: &[u8]) -> Option<Vec<u8>> {
    let length = u16::try_from(HEADER + message.len()).ok()?;
    let [high, low] = length.to_be_bytes();
    Some([&[VERSION, NETLINK, high, low], message].concat())
}

impl Fpm {
    /// Listens. Routes that are not told again are kept for `hold` after a daemon has come back.
    ///
    /// # Errors
    /// If the address can't be had.
    pub fn listen(address: SocketAddr, hold: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            peer: None,
            answers: Vec::new(),
            anew: None,
            last: Instant::now(),
            hold,
        })
    }

    /// The stream, and whether something waits to be written.
    pub fn stream(&self) -> Option<(&TcpStream, bool)> {
        let peer = self.peer.as_ref()?;
        Some((&peer.stream, !peer.output.is_empty()))
    }

    /// Whether a daemon is connected.
    pub const fn is_connected(&self) -> bool {
        self.peer.is_some()
    }

    fn accept(&mut self, state: &mut State) {
        while let Ok((stream, _)) = self.listener.accept() {
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            // One daemon at a time: that which comes is the one that was started again.
            self.peer = Some(Peer {
                stream,
                input: Vec::new(),
                output: Vec::new(),
            });
            self.answers.clear();
            state.counters.fpm_connections += 1;
            state.begin_generation(Source::Fpm);
            self.anew = Some(Instant::now());
            self.last = Instant::now();
        }
    }

    fn close(&mut self) {
        // Routes stay: the daemon comes back and says which still are.
        self.peer = None;
        self.answers.clear();
    }

    /// Reads what waits, and gives it to the state.
    pub fn read(&mut self, state: &mut State) {
        self.accept(state);
        let mut room = vec![0; 1 << 16];
        let mut read = 0;
        while read < AT_ONCE {
            let Some(peer) = &mut self.peer else { return };
            match peer.stream.read(&mut room) {
                Ok(0) => return self.close(),
                Ok(count) => {
                    read += count;
                    peer.input.extend_from_slice(&room[..count]);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return self.close(),
            }
            self.last = Instant::now();
            let Some(peer) = &mut self.peer else { return };
            let answers = &mut self.answers;
            let whole = split(&mut peer.input, &mut |body| {
                for bytes in Messages(body) {
                    one(state, answers, bytes);
                }
            });
            if whole.is_err() {
                state.counters.fpm_malformed += 1;
                return self.close();
            }
        }
    }

    /// Hands routes back as in hardware, or as not, and takes out what a daemon that came back does not tell any more.
    pub fn answer(&mut self, state: &mut State, tables: &Tables) {
        for (net, message) in std::mem::take(&mut self.answers) {
            let Some(peer) = &mut self.peer else { return };
            let flags = if tables.by_host(net) {
                route_flags::OFFLOAD_FAILED
            } else {
                route_flags::OFFLOAD
            };
            let answer = message::with_route_flags(&message, flags).and_then(|back| frame(&back));
            match answer {
                Some(answer) if peer.output.len() < MOST_ANSWERS => {
                    peer.output.extend(answer);
                    state.counters.fpm_offloaded += u64::from(flags == route_flags::OFFLOAD);
                }
                _ => state.counters.fpm_answers_dropped += 1,
            }
        }
        self.write();
        let told = |since: Instant| since.elapsed() >= self.hold && self.last.elapsed() >= QUIET;
        if self.peer.is_some() && self.anew.is_some_and(told) {
            self.anew = None;
            state.sweep(Source::Fpm);
        }
    }

    fn write(&mut self) {
        let Some(peer) = &mut self.peer else { return };
        let mut done = 0;
        while done < peer.output.len() {
            match peer.stream.write(&peer.output[done..]) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return self.close(),
            }
        }
        peer.output.drain(..done);
    }
}

/// Takes one message of a daemon.
fn one(state: &mut State, answers: &mut Vec<(Net, Vec<u8>)>, bytes: Result<&[u8], Malformed>) {
    state.counters.fpm_messages += 1;
    match bytes.and_then(message::parse) {
        Ok(event) => {
            if let (Message::Route(route), Ok(bytes)) = (&event.message, bytes) {
                answers.push((route.net, bytes.to_vec()));
            }
            state.take(event, Source::Fpm);
        }
        Err(error) => state.refused(error),
    }
}
