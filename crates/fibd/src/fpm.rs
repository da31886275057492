// SPDX-License-Identifier: Apache-2.0
//! FPM, by which FRR's zebra tells a forwarding plane of its routes: netlink messages in a stream of TCP, and back again
//! with a flag that says whether a route is in hardware.
//!
//! The stream is read whatever happens, and nothing that is written ever waits: a daemon that is not read from stops.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::message::{self, Malformed, Message, Messages, route_flags};
use crate::state::{Source, State};
use crate::tables::Tables;
use crate::told::{Outcome, Told};

/// Version, kind of messages, length with this header.
const HEADER: usize = 4;
const VERSION: u8 = 1;
const NETLINK: u8 = 1;
/// Bytes that are read in one go, so that the kernel has its turn.
const AT_ONCE: usize = 1 << 20;
/// Answers that may wait for the daemon to read.
const MOST_ANSWERS: usize = 64 << 20;
/// Without an old route told again for so long the daemon has told everything, at least.
const QUIET: Duration = Duration::from_secs(5);
/// However slowly it tells them, it has had its time after so many holds.
const MOST_HOLDS: u32 = 10;
/// Connections that have said nothing while another works.
const MOST_SILENT: usize = 4;

struct Peer {
    stream: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
}

/// What a read of a connection gave.
enum Got {
    Something,
    Nothing,
    End,
}

impl Peer {
    /// Reads some of what waits.
    fn read(&mut self, room: &mut [u8]) -> Got {
        loop {
            return match self.stream.read(room) {
                Ok(0) => Got::End,
                Ok(count) => {
                    self.input.extend_from_slice(&room[..count]);
                    Got::Something
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => Got::Nothing,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => Got::End,
            };
        }
    }
}

/// A daemon tells everything anew.
struct Anew {
    /// Since when.
    since: Instant,
    /// When an old route was told again last, or the beginning.
    last: Instant,
    /// How many old routes had been told again by then.
    renewed: u64,
}

/// The server of FPM.
pub struct Fpm {
    /// Where daemons connect.
    pub listener: TcpListener,
    peer: Option<Peer>,
    /// Those who connected while another works, and have said nothing yet.
    silent: Vec<Peer>,
    /// Routes that came, to be handed back once it is known what became of them.
    answers: Vec<(Told, Vec<u8>)>,
    anew: Option<Anew>,
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
    while let Some(body) = first(&input[at..])? {
        take(body);
        at += HEADER + body.len();
    }
    input.drain(..at);
    Ok(())
}

/// The first message of a stream, if it is whole.
fn first(input: &[u8]) -> Result<Option<&[u8]>, Nonsense> {
    let Some([version, kind, high, low]) = input.get(..HEADER) else {
        return Ok(None);
    };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    if *version != VERSION || *kind != NETLINK || length < HEADER {
        return Err(Nonsense);
    }
    Ok(input.get(HEADER..length))
}

/// Whether a stream begins with a message that can be taken; not known yet if there is none.
fn begins_well(input: &[u8]) -> Result<Option<bool>, Nonsense> {
    let body = first(input)?;
    Ok(body.map(|body| {
        let mut messages = Messages(body);
        let is_good = |bytes: Result<&[u8], Malformed>| bytes.and_then(message::parse).is_ok();
        messages.next().is_some_and(is_good)
    }))
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
            silent: Vec::new(),
            answers: Vec::new(),
            anew: None,
            hold,
        })
    }

    /// The streams, and whether something waits to be written to them.
    pub fn streams(&self) -> impl Iterator<Item = (&TcpStream, bool)> {
        let all = self.peer.iter().chain(&self.silent);
        all.map(|peer| (&peer.stream, !peer.output.is_empty()))
    }

    /// Whether a daemon is connected.
    pub const fn is_connected(&self) -> bool {
        self.peer.is_some()
    }

    /// Lets in who connects. One daemon works at a time: the one that spoke last, since it is the one that was started
    /// again. Who only connects takes nothing from one that works.
    fn accept(&mut self, state: &mut State, room: &mut [u8]) {
        for _ in 0..MOST_SILENT {
            let Ok((stream, _)) = self.listener.accept() else {
                break;
            };
            if stream.set_nonblocking(true).is_ok() {
                state.counters.fpm_connections += 1;
                self.silent.push(Peer {
                    stream,
                    input: Vec::new(),
                    output: Vec::new(),
                });
            }
        }
        for mut peer in std::mem::take(&mut self.silent) {
            let got = peer.read(room);
            match (got, begins_well(&peer.input)) {
                (_, Err(Nonsense) | Ok(Some(false))) => state.counters.fpm_malformed += 1,
                (_, Ok(Some(true))) => self.begin(peer, state),
                (Got::End, _) => {}
                (_, Ok(None)) => self.silent.push(peer),
            }
        }
        if self.peer.is_none()
            && let Some(newest) = self.silent.pop()
        {
            self.begin(newest, state);
        }
        let many = self.silent.len().saturating_sub(MOST_SILENT);
        self.silent.drain(..many);
    }

    /// A daemon works from now on, and tells everything anew.
    fn begin(&mut self, peer: Peer, state: &mut State) {
        self.peer = Some(peer);
        self.answers.clear();
        state.begin_generation(Source::Fpm);
        let now = Instant::now();
        self.anew = Some(Anew {
            since: now,
            last: now,
            renewed: state.renewed(),
        });
    }

    fn close(&mut self) {
        // Routes stay: the daemon comes back and says which still are.
        self.peer = None;
        self.answers.clear();
    }

    /// Reads what waits, and gives it to the state.
    pub fn read(&mut self, state: &mut State) {
        let mut room = vec![0; 1 << 16];
        self.accept(state, &mut room);
        let mut read = 0;
        while let Some(peer) = &mut self.peer {
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
            if read >= AT_ONCE {
                break;
            }
            let before = peer.input.len();
            match peer.read(&mut room) {
                Got::Something => read += peer.input.len() - before,
                Got::Nothing => break,
                Got::End => return self.close(),
            }
        }
    }

    /// Hands routes back as in hardware, or as not, and takes out what a daemon that came back does not tell any more.
    pub fn answer(&mut self, state: &mut State, tables: &Tables) {
        for (told, message) in std::mem::take(&mut self.answers) {
            let Some(peer) = &mut self.peer else { return };
            let outcome = state.outcome(&told, tables.by_host(told.net));
            state.counters.outcome(outcome);
            let flags = match outcome {
                Outcome::Offloaded => route_flags::OFFLOAD,
                _ => route_flags::OFFLOAD_FAILED,
            };
            let answer = message::with_route_flags(&message, flags).and_then(|back| frame(&back));
            match answer {
                Some(answer) if peer.output.len() < MOST_ANSWERS => peer.output.extend(answer),
                _ => state.counters.fpm_answers_dropped += 1,
            }
        }
        self.write();
        self.sweep(state, Instant::now());
    }

    /// Takes out what is not told any more once a hold has passed without an old route told again. What else a daemon says
    /// does not count: it never ends. However slowly it tells, its time ends as well.
    fn sweep(&mut self, state: &mut State, now: Instant) {
        let (Some(anew), true) = (&mut self.anew, self.peer.is_some()) else {
            return;
        };
        if state.renewed() != anew.renewed {
            (anew.renewed, anew.last) = (state.renewed(), now);
        }
        let hold = self.hold.max(QUIET);
        if now - anew.last >= hold || now - anew.since >= hold.saturating_mul(MOST_HOLDS) {
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
fn one(state: &mut State, answers: &mut Vec<(Told, Vec<u8>)>, bytes: Result<&[u8], Malformed>) {
    state.counters.fpm_messages += 1;
    match bytes.and_then(message::parse) {
        Ok(event) => {
            if let (Message::Route(route), Ok(bytes)) = (&event.message, bytes) {
                answers.push((state.told(route), bytes.to_vec()));
            }
            state.take(event, Source::Fpm);
        }
        Err(error) => state.refused(error),
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::message::{Event, Hop, RouteKind, RouteMessage};
    use crate::net::Net;
    use crate::state::Config;
    use crate::terms::Terms;

    const HOLD: Duration = Duration::from_secs(60);

    /// A state that was told three routes, and a daemon that has just come back.
    fn back() -> (Fpm, TcpStream, State, Instant) {
        let mut state = State::new(Config {
            fpm: true,
            ..Config::default()
        });
        for third in 0..3 {
            tell(&mut state, third);
        }
        let mut fpm = Fpm::listen("127.0.0.1:0".parse().unwrap(), HOLD).unwrap();
        let daemon = TcpStream::connect(fpm.listener.local_addr().unwrap()).unwrap();
        let (stream, _) = accepted(&fpm);
        let peer = Peer {
            stream,
            input: Vec::new(),
            output: Vec::new(),
        };
        fpm.begin(peer, &mut state);
        let since = fpm.anew.as_ref().unwrap().since;
        (fpm, daemon, state, since)
    }

    fn accepted(fpm: &Fpm) -> (TcpStream, SocketAddr) {
        fpm.listener.set_nonblocking(false).unwrap();
        fpm.listener.accept().unwrap()
    }

    fn tell(state: &mut State, third: u8) {
        let hop = Hop {
            device: 1,
            gateway: Some(IpAddr::from([10, 0, 0, 7])),
            weight: 1,
            dead: false,
            terms: Terms::default(),
        };
        let route = RouteMessage {
            net: Net::new(IpAddr::from([192, 0, third, 0]), 24).unwrap(),
            table: 254,
            tos: 0,
            metric: 0,
            protocol: 11,
            kind: RouteKind::Unicast,
            source: None,
            object: None,
            hops: vec![hop],
            dead: Vec::new(),
            from: None,
            terms: Terms::default(),
            idle: Vec::new(),
            expires: 0,
            identity: 0,
            flags: 0,
        };
        let event = Event {
            flags: message::flags::REPLACE,
            sequence: 0,
            port: 0,
            message: Message::Route(route),
        };
        state.take(event, Source::Fpm);
    }

    #[test]
    fn a_daemon_that_never_falls_silent_does_not_keep_what_it_no_longer_tells() {
        let (mut fpm, _daemon, mut state, since) = back();
        // The same route each second, and nothing else.
        for second in 1..60 {
            tell(&mut state, 0);
            fpm.sweep(&mut state, since + Duration::from_secs(second));
            assert_eq!(state.net_count(), 3, "second {second}");
        }
        // The first time it was an old one.
        fpm.sweep(&mut state, since + Duration::from_secs(61));
        assert_eq!(state.net_count(), 1);
    }

    #[test]
    fn a_daemon_that_tells_slowly_has_time_to_the_bound_and_no_longer() {
        let (mut fpm, _daemon, mut state, since) = back();
        let second = |second| since + Duration::from_secs(second);
        for third in 3..20 {
            tell(&mut state, third);
        }
        state.begin_generation(Source::Fpm);
        // An old one each 50 seconds: a hold never passes without one.
        for (third, at) in (0..).zip((50..600).step_by(50)) {
            tell(&mut state, third);
            fpm.sweep(&mut state, second(at));
            assert_eq!(state.net_count(), 20, "second {at}");
        }
        fpm.sweep(&mut state, second(600));
        assert_eq!(state.net_count(), 11);
        // From then on nothing is old.
        fpm.sweep(&mut state, second(6000));
        assert_eq!(state.net_count(), 11);
    }

    #[test]
    fn no_hold_is_too_long() {
        let (mut fpm, _daemon, mut state, since) = back();
        fpm.hold = Duration::from_secs(u64::MAX);
        fpm.sweep(&mut state, since + Duration::from_secs(1 << 32));
        assert_eq!(state.net_count(), 3);
    }
}
