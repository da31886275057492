// SPDX-License-Identifier: Apache-2.0
//! Round trips of a few bytes over ordinary sockets: the ping-pong of section 4.2 of the dissertation as its sockets run
//! it. One end sends a message, the other sends the same bytes back, and only then comes the next.
//!
//! ```no_run
//! use std::net::{Ipv4Addr, SocketAddr};
//!
//! let job = echo::Job {
//!     server: SocketAddr::from((Ipv4Addr::LOCALHOST, 7000)),
//!     ..echo::Job::default()
//! };
//! let report = echo::run(&job)?;
//! println!("{} ns", report.ns.mean);
//! # Ok::<(), echo::Error>(())
//! ```
//!
//! [`Server`] is the other end: it serves one TCP connection after the other, or datagrams of anybody. Not done here: many
//! messages on their way at once, other sockets than UDP and TCP.

#![forbid(unsafe_code)]

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use mcb::{Summary, Transport};
use serde::{Deserialize, Serialize};

/// Bytes of a message at most: one datagram on an Ethernet without fragments.
pub const MOST_BYTES: usize = 1_472;
/// Round trips at most, timed or before: the time of each is kept.
pub const MOST_COUNT: u64 = 100_000_000;
/// Longest time-out.
const MOST_PATIENCE: Duration = Duration::from_secs(3600);

/// What to measure.
#[derive(Clone, Debug)]
pub struct Job {
    /// The other end.
    pub server: SocketAddr,
    /// How messages travel.
    pub transport: Transport,
    /// Of a message.
    pub bytes: usize,
    /// Round trips that are timed.
    pub count: u64,
    /// Round trips before.
    pub warmup: u64,
    /// How long to wait for an answer.
    pub timeout: Duration,
    /// The clock is read only before the first message and after the last: where reading it takes time.
    pub total: bool,
}

impl Default for Job {
    fn default() -> Self {
        Self {
            server: SocketAddr::from((Ipv4Addr::LOCALHOST, 7_000)),
            transport: Transport::Udp,
            bytes: 4,
            count: 10_000,
            warmup: 10,
            timeout: Duration::from_secs(1),
            total: false,
        }
    }
}

/// What a measurement gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The other end.
    pub server: SocketAddr,
    /// How messages travelled.
    pub transport: Transport,
    /// Of a message.
    pub bytes: usize,
    /// Round trips that were timed.
    pub count: u64,
    /// Of a round trip.
    pub ns: Summary,
}

impl Report {
    /// In words.
    pub fn text(&self) -> String {
        let mut out = format!(
            "{} round trips of {} bytes by {} with {}: {:.2} us each",
            self.count,
            self.bytes,
            self.transport.name(),
            self.server,
            self.ns.mean / 1e3
        );
        if let Some(each) = self.ns.each {
            out += &format!(
                "; least {:.2}, half {:.2}, 99 of 100 {:.2}, most {:.2}",
                each.min as f64 / 1e3,
                each.p50 as f64 / 1e3,
                each.p99 as f64 / 1e3,
                each.max as f64 / 1e3
            );
        }
        out + "\n"
    }
}

/// What ends a measurement.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A job that can't be.
    #[error("{0}")]
    Usage(String),
    /// The other end can't be reached, or the own address not be had.
    #[error("cannot {what} {address}: {reason}; {remedy}")]
    Socket {
        /// What failed.
        what: &'static str,
        /// Whose address.
        address: SocketAddr,
        /// What the system says.
        reason: String,
        /// What may help.
        remedy: &'static str,
    },
    /// Other bytes came back.
    #[error("message {number}: {server} sent other bytes back; is an `ipnuma echo --serve` there?")]
    Wrong {
        /// Counted from 0.
        number: u64,
        /// The other end.
        server: SocketAddr,
    },
}

impl Error {
    /// Whether the user's input is at fault.
    pub const fn is_usage(&self) -> bool {
        matches!(self, Self::Usage(_))
    }
}

/// A message of its number; two that follow each other differ in every byte.
fn message(number: u64, bytes: usize) -> Vec<u8> {
    let step = |at: usize| (number as u8).wrapping_mul(17).wrapping_add(at as u8);
    (0..bytes).map(step).collect()
}

fn check(job: &Job) -> Result<(), Error> {
    let sentence = if !(1..=MOST_BYTES).contains(&job.bytes) {
        format!("--bytes: {} is not from 1 to {MOST_BYTES}", job.bytes)
    } else if job.server.port() == 0 {
        format!(
            "SERVER: nobody serves port 0; write {}:PORT, as in 192.0.2.1:7000",
            job.server.ip()
        )
    } else if !(1..=MOST_COUNT).contains(&job.count) {
        let (count, what) = (job.count, "round trips are too few or too many");
        format!("--count: {count} {what}; write 1 to {MOST_COUNT}")
    } else if job.warmup > MOST_COUNT {
        let (count, what) = (job.warmup, "round trips are too many");
        format!("--warmup: {count} {what}; write 0 to {MOST_COUNT}")
    } else if job.timeout.is_zero() || job.timeout > MOST_PATIENCE {
        format!("--timeout-ms: write 1 to {}", MOST_PATIENCE.as_millis())
    } else {
        return Ok(());
    };
    Err(Error::Usage(sentence))
}

/// The near end's socket.
enum Link {
    Udp(UdpSocket),
    Tcp(TcpStream),
}

impl Link {
    fn open(job: &Job) -> std::io::Result<Self> {
        Ok(match job.transport {
            Transport::Udp => {
                let any = match job.server {
                    SocketAddr::V4(_) => "0.0.0.0:0",
                    SocketAddr::V6(_) => "[::]:0",
                };
                let socket = UdpSocket::bind(any)?;
                socket.connect(job.server)?;
                socket.set_read_timeout(Some(job.timeout))?;
                Self::Udp(socket)
            }
            Transport::Tcp => {
                let stream = TcpStream::connect_timeout(&job.server, job.timeout)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(job.timeout))?;
                Self::Tcp(stream)
            }
        })
    }

    /// Sends a message; returns whether it came back.
    fn exchange(&mut self, message: &[u8], answer: &mut [u8]) -> std::io::Result<bool> {
        match self {
            Self::Udp(socket) => {
                socket.send(message)?;
                // One byte more than the message has room, so that a longer answer is not taken for it.
                let length = socket.recv(answer)?;
                Ok(answer[..length] == *message)
            }
            Self::Tcp(stream) => {
                stream.write_all(message)?;
                let answer = &mut answer[..message.len()];
                stream.read_exact(answer)?;
                Ok(*answer == *message)
            }
        }
    }
}

/// Measures.
///
/// # Errors
/// A job that can't be, a server that can't be reached or does not answer in time, or other bytes than were sent.
pub fn run(job: &Job) -> Result<Report, Error> {
    check(job)?;
    let failed = |what| {
        move |error: std::io::Error| Error::Socket {
            what,
            address: job.server,
            reason: match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                    format!("no answer within {:?}", job.timeout)
                }
                _ => error.to_string(),
            },
            remedy: "is an `ipnuma echo --serve` there, for the same transport?",
        }
    };
    let mut link = Link::open(job).map_err(failed("reach"))?;
    let mut answer = vec![0; job.bytes + 1];
    let mut times = Vec::new();
    let mut began = Instant::now();
    for number in 0..job.warmup + job.count {
        let sent = message(number, job.bytes);
        let clock = (!job.total).then(Instant::now);
        if number == job.warmup && job.total {
            began = Instant::now();
        }
        let same = link.exchange(&sent, &mut answer);
        let took = clock.map(|clock| clock.elapsed().as_nanos() as u64);
        if !same.map_err(failed("exchange messages with"))? {
            return Err(Error::Wrong {
                number,
                server: job.server,
            });
        }
        times.extend(took.filter(|_| number >= job.warmup));
    }
    let ns = match job.total {
        true => Summary::together(began.elapsed().as_nanos() as u64, job.count),
        false => Summary::of(times),
    };
    Ok(Report {
        server: job.server,
        transport: job.transport,
        bytes: job.bytes,
        count: job.count,
        ns,
    })
}

/// The far end.
#[derive(Debug)]
pub struct Server(Socket);

#[derive(Debug)]
enum Socket {
    Udp(UdpSocket),
    Tcp(TcpListener),
}

impl Server {
    /// Takes an address; what is sent there afterwards is answered once [`Server::serve`] runs.
    ///
    /// # Errors
    /// The address can't be had.
    pub fn bind(address: SocketAddr, transport: Transport) -> Result<Self, Error> {
        let socket = match transport {
            Transport::Udp => UdpSocket::bind(address).map(Socket::Udp),
            Transport::Tcp => TcpListener::bind(address).map(Socket::Tcp),
        };
        socket.map(Self).map_err(|error| Error::Socket {
            what: "listen at",
            address,
            reason: error.to_string(),
            remedy: "choose an address of this machine and a port that is free",
        })
    }

    /// Where it listens.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        match &self.0 {
            Socket::Udp(socket) => socket.local_addr(),
            Socket::Tcp(listener) => listener.local_addr(),
        }
    }

    /// Sends back what comes, until the process ends. A peer that goes away, however it does, is no reason to stop.
    pub fn serve(&self) -> ! {
        let mut buffer = vec![0; 65_536];
        loop {
            // What can fail here is a peer's: an ICMP error, a reset, an address that is gone.
            let _ = match &self.0 {
                Socket::Udp(socket) => socket
                    .recv_from(&mut buffer)
                    .and_then(|(length, peer)| socket.send_to(&buffer[..length], peer).map(|_| ())),
                Socket::Tcp(listener) => listener
                    .accept()
                    .and_then(|(stream, _)| serve_stream(stream, &mut buffer)),
            };
        }
    }
}

fn serve_stream(mut stream: TcpStream, buffer: &mut [u8]) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    loop {
        let length = stream.read(buffer)?;
        if length == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..length])?;
    }
}
