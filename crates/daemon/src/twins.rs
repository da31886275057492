// SPDX-License-Identifier: Apache-2.0
//! Whether a process has the kernel's socket of a connection.
//!
//! The kernel is asked for the one socket (`sock_diag`), which takes microseconds however many there are. Kernels without
//! that have only a table of all sockets. To read it takes milliseconds on a busy machine, and whoever asks has hundreds to
//! ask about at once: so it is read a few times a second at most.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

/// How long lies between two readings of the table at least: so long, and so many times as long as one takes.
const INTERVAL: Duration = Duration::from_millis(10);
const SHARE: u32 = 50;

/// The kernel's sockets.
#[derive(Debug, Default)]
pub enum Twins {
    /// Nothing was asked yet.
    #[default]
    Unasked,
    /// Asks for one.
    Single(OwnedFd, u32),
    /// Looks into a copy of the tables.
    Table(Option<Tables>),
}

/// A copy of the tables of IPv4 and IPv6.
#[derive(Debug)]
pub struct Tables {
    /// Before they were read: the first line may be older than the last.
    read: Instant,
    took: Duration,
    text: [String; 2],
}

impl Tables {
    fn read() -> Self {
        let read = Instant::now();
        let text = ["tcp", "tcp6"].map(|file| {
            std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default()
        });
        let took = read.elapsed();
        Self { read, took, text }
    }

    /// Whether they say how it was within the last `age`.
    fn are_of(&self, age: Duration) -> bool {
        self.read.elapsed() <= age
    }

    fn may_be_read_again(&self) -> bool {
        self.read.elapsed() >= INTERVAL.max(SHARE * self.took)
    }
}

impl Twins {
    /// As the kernel lets it.
    fn open() -> Self {
        let first = || {
            // A listener of our own must be found.
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
            let at = listener.local_addr().ok()?;
            let kinds = (
                AddressFamily::NETLINK,
                SocketType::RAW,
                SocketFlags::CLOEXEC,
            );
            let (family, kind, flags) = kinds;
            let socket =
                rustix::net::socket_with(family, kind, flags, Some(netlink::SOCK_DIAG)).ok()?;
            let nobody = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
            let found = ask(&socket, 0, at, nobody).ok()??;
            (found.ports == [at.port(), 0]).then_some(socket)
        };
        first().map_or_else(Self::table, |socket| Self::Single(socket, 0))
    }

    fn table() -> Self {
        Self::Table(None)
    }

    /// Whether a process has the end at `own` of a connection, or had it within the last `age`. True, too, if that is not
    /// known yet: ask again later.
    pub fn has(&mut self, own: SocketAddr, peer: SocketAddr, age: Duration) -> bool {
        let (own, peer) = (canonical(own), canonical(peer));
        if own.is_ipv4() != peer.is_ipv4() {
            return false;
        }
        // What nobody has, has no inode.
        if let Some(found) = self.look_up(own, peer) {
            return found.is_some_and(|found| found.inode != 0);
        }
        match self {
            Self::Table(tables) => look(tables, own, peer, age),
            Self::Unasked | Self::Single(..) => true,
        }
    }

    /// Whether the kernel has a connection with these ends, also one that nobody has accepted. True, too, if it cannot be asked.
    pub fn knows(&mut self, own: SocketAddr, peer: SocketAddr) -> bool {
        let (own, peer) = (canonical(own), canonical(peer));
        self.look_up(own, peer).is_none_or(|found| found.is_some())
    }

    /// The kernel's answer about one connection. None: it cannot be asked so.
    fn look_up(&mut self, own: SocketAddr, peer: SocketAddr) -> Option<Option<Found>> {
        if matches!(self, Self::Unasked) {
            *self = Self::open();
        }
        let Self::Single(socket, number) = self else {
            return None;
        };
        *number = number.wrapping_add(1);
        match ask(socket, *number, own, peer) {
            // The lookup gives a listener if there is no connection.
            Ok(found) => Some(found.filter(|it| it.ports == [own.port(), peer.port()])),
            Err(_) => {
                *self = Self::table();
                None
            }
        }
    }
}

/// An address of IPv4 is one of IPv4, however it is written.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), address.port()),
        IpAddr::V6(_) => address,
    }
}

/// `SOCK_DIAG_BY_FAMILY`
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST`
const REQUEST: u16 = 1;
/// `NLMSG_ERROR`
const ERROR: u16 = 2;
/// Bytes of `struct nlmsghdr`.
const HEADER: usize = 16;
/// Bytes of the header and of `struct inet_diag_req_v2`.
const QUESTION: usize = HEADER + 56;
/// Where the ports lie in `struct inet_diag_msg`, and where the inode.
const PORTS: usize = HEADER + 4;
const INODE: usize = HEADER + 68;

/// A socket of the kernel's.
struct Found {
    /// Its port and the peer's; a listener has no peer.
    ports: [u16; 2],
    /// 0: no process has it.
    inode: u32,
}

/// Asks for the socket at `own` whose peer is at `peer`; none if there is no such socket.
fn ask(
    socket: &OwnedFd,
    number: u32,
    own: SocketAddr,
    peer: SocketAddr,
) -> Result<Option<Found>, Errno> {
    let mut question = Vec::with_capacity(QUESTION);
    question.extend((QUESTION as u32).to_ne_bytes());
    question.extend([BY_FAMILY, REQUEST].map(u16::to_ne_bytes).concat());
    question.extend([number, 0].map(u32::to_ne_bytes).concat());
    let family = match own {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    // TCP, no extensions; in all states.
    question.extend([family.as_raw() as u8, 6, 0, 0]);
    question.extend(u32::MAX.to_ne_bytes());
    question.extend([own.port(), peer.port()].map(u16::to_be_bytes).concat());
    for ip in [own.ip(), peer.ip()] {
        match ip {
            IpAddr::V4(ip) => question.extend([ip.octets(), [0; 4], [0; 4], [0; 4]].concat()),
            IpAddr::V6(ip) => question.extend(ip.octets()),
        }
    }
    // On any device, with any cookie.
    question.extend(0_u32.to_ne_bytes());
    question.extend([0xFF; 8]);
    rustix::net::send(socket, &question, SendFlags::DONTWAIT)?;
    let mut answer = [0; 512];
    loop {
        // It was answered before `send` returned.
        let (length, _) = rustix::net::recv(socket, &mut answer, RecvFlags::DONTWAIT)?;
        let answer = &answer[..length.min(answer.len())];
        let short = Errno::PROTO;
        let word = |at: usize| {
            let bytes = answer.get(at..at + 4).and_then(|it| it.try_into().ok());
            bytes.map(u32::from_ne_bytes).ok_or(short)
        };
        let port = |at: usize| {
            let bytes = answer.get(at..at + 2).and_then(|it| it.try_into().ok());
            bytes.map(u16::from_be_bytes).ok_or(short)
        };
        if word(8)? != number {
            // The answer to a question that was given up.
            continue;
        }
        let kind = (word(4)?.to_ne_bytes()[..2].try_into()).map_or(0, u16::from_ne_bytes);
        if kind == BY_FAMILY {
            return Ok(Some(Found {
                ports: [port(PORTS)?, port(PORTS + 2)?],
                inode: word(INODE)?,
            }));
        }
        let errno = Errno::from_raw_os_error(word(HEADER)?.cast_signed().wrapping_neg());
        return match (kind, errno) {
            (ERROR, Errno::NOENT) => Ok(None),
            (ERROR, errno) => Err(errno),
            _ => Err(Errno::PROTO),
        };
    }
}

/// Looks into the copy of the tables. What is not there is gone; what is there may be gone meanwhile, and a new copy says so, if
/// one may be made.
fn look(tables: &mut Option<Tables>, own: SocketAddr, peer: SocketAddr, age: Duration) -> bool {
    let without = |tables: &Tables| tables.are_of(age) && !found(&tables.text, own, peer);
    if tables.as_ref().is_some_and(without) {
        return false;
    }
    if tables.as_ref().is_none_or(Tables::may_be_read_again) {
        return found(&tables.insert(Tables::read()).text, own, peer);
    }
    true
}

fn found([four, six]: &[String; 2], own: SocketAddr, peer: SocketAddr) -> bool {
    let ends = [own, peer];
    let long = ends.map(|end| match end.ip() {
        IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), end.port()),
        IpAddr::V6(_) => end,
    });
    own.is_ipv4() && has_socket(four, ends) || has_socket(six, long)
}

/// Whether a table has a socket with these ends that a process has: others have no inode.
fn has_socket(table: &str, ends: [SocketAddr; 2]) -> bool {
    let wanted = ends.map(|end| {
        let octets = match end.ip() {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        // Words as they lie in memory, and as the machine reads them there.
        let words = (octets.chunks_exact(4))
            .filter_map(|word| word.try_into().ok())
            .map(|word| format!("{:08X}", u32::from_ne_bytes(word)));
        format!("{}:{:04X}", words.collect::<String>(), end.port())
    });
    table.lines().any(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let both = [words.next(), words.next()];
        let inode = words.nth(6);
        both == [Some(wanted[0].as_str()), Some(wanted[1].as_str())]
            && inode.is_some_and(|inode| inode != "0")
    })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    #[test]
    fn what_waits_for_its_acceptor_is_known() {
        let mut twins = Twins::default();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        let client = std::net::TcpStream::connect(at).expect("it listens");
        let own = client.local_addr().expect("an address");
        let asked = !matches!(Twins::open(), Twins::Table(..));
        assert!(twins.knows(at, own) && twins.knows(own, at));
        let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        assert!(!(asked && twins.knows(at, nobody)));
        // A reset one is not.
        rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).expect("a socket");
        drop(client);
        assert!(!(asked && twins.knows(at, own)));
    }

    /// Asks at once, or waits until the table may be read again.
    fn follows_the_kernel(mut twins: Twins) {
        let mut is_open = |own, peer| {
            if let Twins::Table(tables) = &mut twins {
                *tables = None;
            }
            twins.has(own, peer, Duration::ZERO)
        };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        let client = std::net::TcpStream::connect(at).expect("it listens");
        let own = client.local_addr().expect("an address");
        assert!(is_open(own, at));
        // Not accepted yet: no process has that end.
        assert!(!is_open(at, own));
        let server = listener.accept().expect("it has connected");
        assert!(is_open(at, own));
        drop(client);
        assert!(!is_open(own, at));
        assert!(is_open(at, own));
        drop(server);
        // Only the listener is left at that address.
        assert!(!is_open(at, own));
        // Of IPv6, too.
        let listener = TcpListener::bind("[::]:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let client = std::net::TcpStream::connect(at).expect("it listens");
        let own = client.local_addr().expect("an address");
        let _server = listener.accept().expect("it has connected");
        assert!(is_open(at, own) && is_open(own, at));
        let mapped = SocketAddr::from((Ipv4Addr::LOCALHOST.to_ipv6_mapped(), port));
        assert!(is_open(mapped, own));
        let six = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
        assert!(!is_open(six, own));
        let client = std::net::TcpStream::connect(six).expect("it listens");
        let own = client.local_addr().expect("an address");
        assert!(is_open(own, six) && !is_open(six, own));
        let server = listener.accept().expect("it has connected");
        assert!(is_open(six, own));
        drop(server);
        assert!(!is_open(six, own));
    }

    #[test]
    fn sockets_are_found_as_long_as_somebody_has_them() {
        follows_the_kernel(Twins::default());
        follows_the_kernel(Twins::table());
    }

    /// A program that is exiting has its socket still when the daemon asks first.
    #[test]
    fn a_copy_that_has_a_socket_does_not_count_for_ever() {
        let mut twins = Twins::table();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        let client = std::net::TcpStream::connect(at).expect("it listens");
        let own = client.local_addr().expect("an address");
        let asked = Instant::now();
        assert!(twins.has(own, at, Duration::ZERO));
        drop(client);
        while twins.has(own, at, asked.elapsed()) {
            assert!(asked.elapsed() < Duration::from_secs(60), "it is gone");
            std::thread::sleep(INTERVAL);
        }
    }

    #[test]
    fn the_table_is_not_read_for_each_question() {
        let mut twins = Twins::table();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        assert!(!twins.has(at, nowhere, Duration::ZERO));
        let long = Duration::from_secs(3600);
        for _ in 0..1000 {
            // An old copy will do.
            assert!(!twins.has(at, nowhere, long));
        }
        let Twins::Table(Some(tables)) = &mut twins else {
            panic!("it has changed its ways");
        };
        // A new one may not be made yet, so nobody knows.
        tables.read = Instant::now();
        tables.took = long;
        assert!(twins.has(at, nowhere, Duration::ZERO));
    }
}
