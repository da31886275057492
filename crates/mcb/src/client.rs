// SPDX-License-Identifier: Apache-2.0
//! Sends commands and waits for their answers.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::sync::Barrier;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::protocol::{self, Datagrams, Exchange, Taken, Verdict};
use crate::report::{Report, Summary};
use crate::{Command, Error, Job, MOST_COUNT, Transport};

/// Threads at most: each has a socket and a stack.
const MOST_THREADS: usize = 256;
/// Longest time-out, also that of connecting.
const MOST_PATIENCE: Duration = Duration::from_secs(3600);

/// One client's socket.
enum Link {
    Udp { socket: UdpSocket, request: u16 },
    Tcp(TcpStream),
}

struct Client<'a> {
    job: &'a Job,
    link: Link,
    buffer: Vec<u8>,
    resent: u64,
}

/// What a thread measured.
#[derive(Default)]
struct Part {
    times: Vec<u64>,
    began: Option<Instant>,
    ended: Option<Instant>,
    resent: u64,
}

fn check(job: &Job) -> Result<(), Error> {
    protocol::check(&job.prefix, job.length, job.transport).map_err(Error::Usage)?;
    let sentence = if job.address.is_empty() {
        "--address: it is empty; write the name or address of the server".to_owned()
    } else if job.port == 0 {
        "--port: nobody serves port 0; write 1 to 65535".to_owned()
    } else if !(1..=MOST_THREADS).contains(&job.threads) {
        format!("--threads: {} is not from 1 to {MOST_THREADS}", job.threads)
    } else if job.count < job.threads as u64 {
        format!(
            "--count: {} commands are too few for {} threads; write at least one for each",
            job.count, job.threads
        )
    } else if job.count > MOST_COUNT {
        let (count, what) = (job.count, "commands are too many");
        format!("--count: {count} {what}; write at most {MOST_COUNT}")
    } else if job.warmup > MOST_COUNT {
        let (count, what) = (job.warmup, "commands are too many");
        format!("--warmup: {count} {what}; write 0 to {MOST_COUNT}")
    } else if !(1..=MOST_COUNT).contains(&job.keys) {
        let (count, what) = (job.keys, "keys are too few or too many");
        format!("--keys: {count} {what}; write 1 to {MOST_COUNT}")
    } else if job.timeout > MOST_PATIENCE {
        let most = MOST_PATIENCE.as_millis();
        format!("--timeout-ms: write 0, which waits for ever, to {most}")
    } else if job.retries > 0 && job.transport == Transport::Tcp {
        "--retries: TCP sends again by itself; leave it out or choose --transport udp".to_owned()
    } else if job.retries > 0 && job.timeout.is_zero() {
        "--retries: who waits for ever sends nothing again; leave it out or write --timeout-ms 20"
            .to_owned()
    } else {
        return Ok(());
    };
    Err(Error::Usage(sentence))
}

impl Job {
    fn unreachable(&self, reason: impl ToString) -> Error {
        Error::Unreachable {
            address: self.address.clone(),
            port: self.port,
            transport: self.transport.name(),
            reason: reason.to_string(),
        }
    }

    fn server(&self) -> Result<SocketAddr, Error> {
        let mut found = (self.address.as_str(), self.port)
            .to_socket_addrs()
            .map_err(|error| {
                let why = error.to_string();
                let why = why.rsplit(": ").next().unwrap_or_default();
                Error::Usage(format!(
                    "--address: no machine `{}` is found ({why}); write the name or address of one that is known here",
                    self.address
                ))
            })?;
        found
            .next()
            .ok_or_else(|| self.unreachable("the name has no address"))
    }

    /// Keys that a thread uses.
    fn keys(&self) -> u64 {
        match self.command {
            Command::Add => self.warmup + self.count.div_ceil(self.threads as u64),
            _ => self.keys,
        }
    }

    fn key(&self, thread: usize, number: u64) -> String {
        format!("{}-{thread}-{}", self.prefix, number % self.keys())
    }
}

impl<'a> Client<'a> {
    fn new(job: &'a Job, server: SocketAddr) -> Result<Self, Error> {
        let patience = (!job.timeout.is_zero()).then_some(job.timeout);
        let link = match job.transport {
            Transport::Udp => {
                let any: SocketAddr = if server.is_ipv4() {
                    ([0; 4], 0).into()
                } else {
                    ([0; 16], 0).into()
                };
                let socket = UdpSocket::bind(any).map_err(|error| job.unreachable(error))?;
                socket
                    .connect(server)
                    .and_then(|()| socket.set_read_timeout(patience))
                    .map_err(|error| job.unreachable(error))?;
                Link::Udp { socket, request: 0 }
            }
            Transport::Tcp => {
                let connected = match patience {
                    Some(patience) => TcpStream::connect_timeout(&server, patience),
                    None => TcpStream::connect(server),
                };
                let stream = connected.map_err(|error| job.unreachable(error))?;
                stream
                    .set_nodelay(true)
                    .and_then(|()| stream.set_read_timeout(patience))
                    .and_then(|()| stream.set_write_timeout(patience))
                    .map_err(|error| job.unreachable(error))?;
                Link::Tcp(stream)
            }
        };
        Ok(Self {
            job,
            link,
            buffer: vec![0; 1 << 16],
            resent: 0,
        })
    }

    /// Sends a command and reads its answer.
    fn exchange(&mut self, exchange: &Exchange, command: Option<Command>) -> Result<(), Error> {
        let mut tries = self.job.retries;
        let mut again;
        let mut exchange = exchange;
        loop {
            let done = match &mut self.link {
                Link::Udp { socket, request } => {
                    *request = request.wrapping_add(1);
                    by_udp(self.job, socket, *request, exchange, &mut self.buffer)
                }
                Link::Tcp(stream) => by_tcp(self.job, stream, exchange, &mut self.buffer),
            };
            match done {
                Err(Error::Timeout { .. }) if tries > 0 => {
                    tries -= 1;
                    self.resent += 1;
                    if let Some(command) = command {
                        again = exchange.clone().again(command);
                        exchange = &again;
                    }
                }
                done => return done,
            }
        }
    }

    /// What the server must have before measuring.
    fn prepare(&mut self, thread: usize) -> Result<(), Error> {
        let job = self.job;
        for number in 0..job.keys() {
            let key = job.key(thread, number);
            match job.command {
                Command::Get => {
                    self.exchange(&Exchange::of(Command::Set, &key, job.length), None)?;
                }
                Command::Add if !job.fresh => self.exchange(&Exchange::delete(&key), None)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads back what was stored.
    fn read_back(&mut self, thread: usize, commands: u64) -> Result<(), Error> {
        let job = self.job;
        if job.command == Command::Get {
            return Ok(());
        }
        // Of an add that has a key for each command, those of the end.
        let first = commands - job.keys.min(commands).min(job.keys());
        for number in first..commands {
            let key = job.key(thread, number);
            self.exchange(&Exchange::of(Command::Get, &key, job.length), None)?;
        }
        Ok(())
    }
}

fn timeout(job: &Job, exchange: &Exchange) -> Error {
    Error::Timeout {
        place: place(job, exchange),
        waited: job.timeout,
        remedy: match job.transport {
            Transport::Udp if job.retries == 0 => {
                "a datagram may be lost, or nobody serves UDP there: --retries sends again, --timeout-ms waits longer"
            }
            Transport::Udp => {
                "it was sent again as often as --retries says: nobody serves UDP there, or the network loses all"
            }
            Transport::Tcp => "the server or the network is stuck; --timeout-ms waits longer",
        },
    }
}

fn place(job: &Job, exchange: &Exchange) -> String {
    format!(
        "{} at {} port {} of {}",
        exchange.name,
        job.transport.name(),
        job.port,
        job.address
    )
}

fn broken(job: &Job, exchange: &Exchange, error: &std::io::Error) -> Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => timeout(job, exchange),
        // An ICMP message has come back.
        ErrorKind::ConnectionRefused => job.unreachable(error),
        _ => Error::Broken {
            place: place(job, exchange),
            reason: error.to_string(),
        },
    }
}

/// An error unless the answer is right; false if more must come.
fn judged(job: &Job, exchange: &Exchange, got: &[u8]) -> Result<bool, Error> {
    match exchange.judge(got) {
        Verdict::Right => Ok(true),
        Verdict::More => Ok(false),
        Verdict::Wrong { expected, got, at } => Err(Error::Wrong {
            place: place(job, exchange),
            got,
            expected,
            at,
        }),
    }
}

fn by_udp(
    job: &Job,
    socket: &UdpSocket,
    request: u16,
    exchange: &Exchange,
    buffer: &mut [u8],
) -> Result<(), Error> {
    socket
        .send(&protocol::framed(request, &exchange.request))
        .map_err(|error| broken(job, exchange, &error))?;
    let mut answer = Datagrams::of(request);
    loop {
        let length = match socket.recv(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            result => result.map_err(|error| broken(job, exchange, &error))?,
        };
        match answer.take(&buffer[..length]) {
            Taken::Late | Taken::Part => {}
            Taken::Wrong(reason) => {
                let place = place(job, exchange);
                return Err(Error::Broken { place, reason });
            }
            Taken::Whole(got) => {
                if judged(job, exchange, &got)? {
                    return Ok(());
                }
                return Err(Error::Broken {
                    place: place(job, exchange),
                    reason: format!("the answer ends after {} bytes", got.len()),
                });
            }
        }
    }
}

fn by_tcp(
    job: &Job,
    stream: &mut TcpStream,
    exchange: &Exchange,
    buffer: &mut [u8],
) -> Result<(), Error> {
    let failed = |error: std::io::Error| broken(job, exchange, &error);
    stream.write_all(&exchange.request).map_err(failed)?;
    let mut got = Vec::new();
    loop {
        let length = match stream.read(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            result => result.map_err(failed)?,
        };
        if length == 0 {
            return Err(Error::Broken {
                place: place(job, exchange),
                reason: format!(
                    "the server closed the connection after {} bytes of the answer",
                    got.len()
                ),
            });
        }
        got.extend_from_slice(&buffer[..length]);
        if judged(job, exchange, &got)? {
            return Ok(());
        }
    }
}

/// Commands of a thread: the first ones take what is over.
fn share(job: &Job, thread: usize) -> u64 {
    let threads = job.threads as u64;
    job.count / threads + u64::from((thread as u64) < job.count % threads)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Waits for the moment at which others begin, too.
fn wait_until(at: Duration) -> Result<(), Error> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default();
    let Some(left) = at.checked_sub(now) else {
        return Err(Error::Usage(format!(
            "--at: everything was ready {:.3} s after that time; write one that is later by so much at least",
            (now - at).as_secs_f64()
        )));
    };
    std::thread::sleep(left);
    Ok(())
}

/// One thread: prepares, waits for the others, measures, reads back.
fn client(job: &Job, server: SocketAddr, thread: usize, start: &Barrier) -> Result<Part, Error> {
    let ready = Client::new(job, server).and_then(|mut client| {
        client.prepare(thread)?;
        Ok(client)
    });
    // Also who failed comes here, for the others wait.
    start.wait();
    let mut client = ready?;
    job.at.map_or(Ok(()), wait_until)?;
    let count = share(job, thread);
    let mut part = Part {
        times: Vec::with_capacity(usize::try_from(count).unwrap_or(0)),
        ..Part::default()
    };
    let resent = client.resent;
    for number in 0..job.warmup + count {
        // Made before the clock is read: only the exchange counts.
        let exchange = Exchange::of(job.command, &job.key(thread, number), job.length);
        let clock = |read: bool| (read && number >= job.warmup).then(Instant::now);
        let began = clock(!job.total || number == job.warmup);
        client.exchange(&exchange, Some(job.command))?;
        let ended = clock(!job.total || number + 1 == job.warmup + count);
        part.began = part.began.or(began);
        part.ended = ended;
        if let (false, Some(began), Some(ended)) = (job.total, began, ended) {
            part.times.push(nanoseconds(ended - began));
        }
    }
    part.resent = client.resent - resent;
    client.read_back(thread, job.warmup + count)?;
    Ok(part)
}

/// Measures; the first thread's error if any has one.
pub fn run(job: &Job) -> Result<Report, Error> {
    check(job)?;
    let server = job.server()?;
    let start = Barrier::new(job.threads);
    let parts = std::thread::scope(|scope| {
        let start = &start;
        let others: Vec<_> = (1..job.threads)
            .map(|thread| scope.spawn(move || client(job, server, thread, start)))
            .collect();
        // This thread is the first client: a single one needs no other.
        let mut parts = vec![client(job, server, 0, start)];
        parts.extend(others.into_iter().map(|other| {
            other.join().unwrap_or_else(|_| {
                Err(Error::Broken {
                    place: "a thread".to_owned(),
                    reason: "it ended by itself".to_owned(),
                })
            })
        }));
        parts.into_iter().collect::<Result<Vec<_>, _>>()
    })?;
    let began = parts.iter().filter_map(|part| part.began).min();
    let ended = parts.iter().filter_map(|part| part.ended).max();
    let elapsed = began.zip(ended).map(|(began, ended)| ended - began);
    let elapsed_ns = nanoseconds(elapsed.unwrap_or_default());
    Ok(Report {
        command: job.command,
        transport: job.transport,
        address: job.address.clone(),
        port: job.port,
        threads: job.threads,
        length: job.length,
        count: job.count,
        resent: parts.iter().map(|part| part.resent).sum(),
        ns: if job.total {
            // Threads are at work at once: each command has taken that many times as long.
            Summary::together(elapsed_ns * job.threads as u64, job.count)
        } else {
            Summary::of(parts.into_iter().flat_map(|part| part.times).collect())
        },
        elapsed_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_thread() {
        let job = Job {
            count: 10,
            threads: 4,
            ..Job::default()
        };
        let shares: Vec<_> = (0..4).map(|thread| share(&job, thread)).collect();
        assert_eq!(shares, [3, 3, 2, 2]);
    }

    #[test]
    fn jobs_that_cannot_be_name_the_option() {
        let job = Job::default;
        for wrong in [
            Job {
                threads: 0,
                ..job()
            },
            Job {
                threads: 3,
                count: 2,
                ..job()
            },
            Job { keys: 0, ..job() },
            Job {
                address: "256.1.1.1".to_owned(),
                ..job()
            },
            Job { port: 0, ..job() },
            Job {
                address: String::new(),
                ..job()
            },
            Job {
                keys: u64::MAX,
                ..job()
            },
            Job {
                count: u64::MAX,
                ..job()
            },
            Job {
                warmup: u64::MAX,
                ..job()
            },
            Job {
                timeout: Duration::MAX,
                ..job()
            },
            Job {
                timeout: Duration::ZERO,
                retries: 1,
                ..job()
            },
            Job {
                retries: 1,
                transport: Transport::Tcp,
                ..job()
            },
            Job { length: 0, ..job() },
        ] {
            let error = run(&wrong).expect_err("it cannot be");
            assert!(
                error.is_usage() && error.to_string().starts_with("--"),
                "{error}"
            );
        }
    }
}
