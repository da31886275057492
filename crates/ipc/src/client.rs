// SPDX-License-Identifier: Apache-2.0
//! A process's connection to its daemon.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use shm::memory::{Access, Mapping};

use crate::error::{Error, Result};
use crate::packet;
use crate::protocol::{self, MAX_PACKET, Notice, Reply, Request, notice_page};

/// How long an answer may take: the daemon answers at once, unless it hangs or waits for another machine's.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a daemon may say nothing, for programs whose sockets do without it.
pub const SILENCE: Duration = Duration::from_secs(3);

/// A connection to the daemon. Threads may share it; requests wait for each other.
#[derive(Debug)]
pub struct Client {
    socket: OwnedFd,
    buffer: Mutex<Vec<u8>>,
    lost: AtomicBool,
    /// It is lost because it has said nothing for too long.
    silent: AtomicBool,
    /// How it is asked whether it is there while it waits for another machine's.
    again: Option<(PathBuf, Greeted)>,
    page: Mapping,
    notices: OwnedFd,
    taken: AtomicU64,
    management: Option<std::net::SocketAddrV4>,
    peers: Vec<std::net::Ipv4Addr>,
}

/// Where the daemon is unless told otherwise: `$IPNUMA_DAEMON`, `$XDG_RUNTIME_DIR/ipnuma/daemon.sock`,
/// `/run/ipnuma/daemon.sock` (root), `/tmp/ipnuma-UID/daemon.sock`.
#[must_use]
pub fn default_path() -> PathBuf {
    if let Some(path) = std::env::var_os("IPNUMA_DAEMON").filter(|path| !path.is_empty()) {
        return path.into();
    }
    if let Some(directory) = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty()) {
        return Path::new(&directory).join("ipnuma/daemon.sock");
    }
    match rustix::process::getuid().as_raw() {
        0 => "/run/ipnuma/daemon.sock".into(),
        uid => format!("/tmp/ipnuma-{uid}/daemon.sock").into(),
    }
}

/// Whether a directory is the calling user's alone: nobody else can put a socket there. The sentence says why not.
///
/// # Errors
/// If it is not, or can't be looked at.
pub fn check_directory(directory: &Path) -> Result<(), String> {
    let shown = directory.display();
    let there =
        rustix::fs::lstat(directory).map_err(|errno| format!("{shown} can't be seen: {errno}"))?;
    let own = rustix::process::geteuid().as_raw();
    match FileType::from_raw_mode(there.st_mode) {
        FileType::Directory => {}
        FileType::Symlink => return Err(format!("{shown} is a symbolic link")),
        _ => return Err(format!("{shown} is no directory")),
    }
    if there.st_uid != own {
        let owner = there.st_uid;
        return Err(format!("{shown} belongs to user {owner}, not to {own}"));
    }
    let others = there.st_mode & 0o077;
    match others {
        0 => Ok(()),
        _ => Err(format!("others may use {shown}, whose mode is not 0700")),
    }
}

/// Whether the daemon behind a connection may be believed: it runs as the calling user, or as root. A place in /tmp whose
/// name anybody could have taken must be the user's, too.
fn trust(path: &Path, socket: &OwnedFd) -> Result<()> {
    let untrusted = |why| Error::Untrusted {
        path: path.to_path_buf(),
        why,
    };
    let own = rustix::process::geteuid();
    let guessed = |directory: &&Path| {
        let name = directory.file_name().map(std::ffi::OsStr::as_encoded_bytes);
        directory.parent() == Some(Path::new("/tmp"))
            && name.is_some_and(|name| name.starts_with(b"ipnuma-"))
    };
    if let Some(directory) = path.parent().filter(guessed) {
        check_directory(directory).map_err(untrusted)?;
    }
    let daemon = crate::credentials::of_peer(socket)
        .map_err(|errno| untrusted(format!("its user can't be known: {errno}")))?
        .uid;
    // Root may have been told to use anybody's.
    if own.is_root() || daemon.is_root() || [own, rustix::process::getuid()].contains(&daemon) {
        return Ok(());
    }
    let (daemon, own) = (daemon.as_raw(), own.as_raw());
    Err(untrusted(format!(
        "user {daemon} listens there, who is neither root nor user {own}"
    )))
}

/// Inode of the calling process's network namespace; 0 if it cannot be known.
#[must_use]
pub fn network_namespace() -> u64 {
    rustix::fs::stat("/proc/self/ns/net").map_or(0, |stat| stat.st_ino)
}

/// Moves a descriptor to the lowest free number from `floor` on, if there is one.
#[must_use]
pub fn move_up(fd: OwnedFd, floor: i32) -> OwnedFd {
    if floor <= 0 {
        return fd;
    }
    rustix::io::fcntl_dupfd_cloexec(&fd, floor).unwrap_or(fd)
}

impl Client {
    /// Connects to the daemon at `path` and introduces the process as `program`.
    ///
    /// # Errors
    /// [`Error::NoDaemon`] if there is none, [`Error::Untrusted`] if it is another user's, others if it refuses.
    pub fn connect(path: &Path, program: &str) -> Result<Self> {
        Greeting::send(path, program, Greeted::default())?.finish()
    }

    /// As [`Client::connect`], for who does not wait so long for an answer: the connection's answers have that time, too.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_within(path: &Path, program: &str, patience: Duration) -> Result<Self> {
        let how = Greeted {
            patience,
            ..Greeted::default()
        };
        Greeting::send(path, program, how)?.finish()
    }

    /// Asks, and waits for the answer, which is never [`Reply::Error`].
    ///
    /// # Errors
    /// [`Error::Refused`] if the daemon says no, [`Error::DaemonLost`] if it does not answer: then this client is of
    /// no more use.
    pub fn request(&self, request: &Request) -> Result<(Reply, Vec<OwnedFd>)> {
        let mut buffer = self
            .buffer
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if self.is_lost() {
            return Err(Error::DaemonLost {
                source: Errno::PIPE,
            });
        }
        let mut result = exchange(&self.socket, &mut buffer, request);
        if waits_for_others(request) {
            let asked = Instant::now();
            // It has the question, and says nothing because another machine's says nothing: if it is there.
            while is_silence(&result) && asked.elapsed() < PATIENCE && self.is_there() {
                result = answer(&self.socket, &mut buffer);
            }
        }
        if is_silence(&result) {
            self.silent.store(true, Ordering::Relaxed);
        }
        // After a missing or odd answer, questions and answers no longer belong together.
        if matches!(
            result,
            Err(Error::DaemonLost { .. } | Error::Protocol { .. })
        ) {
            self.lost.store(true, Ordering::Relaxed);
        }
        result
    }

    /// Asks for something that has no answer but that it is done.
    ///
    /// # Errors
    /// As [`Client::request`].
    pub fn done(&self, request: &Request) -> Result<()> {
        match self.request(request)?.0 {
            Reply::Done => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    /// Whether a daemon that says nothing on this connection answers on another one.
    fn is_there(&self) -> bool {
        let Some((path, how)) = &self.again else {
            return false;
        };
        Greeting::send(path, "are you there?", *how)
            .and_then(Greeting::finish)
            .is_ok()
    }

    /// Whether the daemon is lost because it has said nothing for too long: it may be there again at any time.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.silent.load(Ordering::Relaxed)
    }

    /// Whether the daemon is known to be gone.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Readable when there are notices, or when the daemon is gone.
    #[must_use]
    pub fn notice_socket(&self) -> BorrowedFd<'_> {
        self.notices.as_fd()
    }

    /// The request socket, for those who must not close it by mistake.
    #[must_use]
    pub fn request_socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether notices wait: a load, no system call.
    #[inline]
    #[must_use]
    pub fn has_notices(&self) -> bool {
        self.page_word(notice_page::NOTICES).load(Ordering::Acquire)
            != self.taken.load(Ordering::Relaxed)
    }

    /// Grows whenever a datagram address is bound or unbound anywhere on this machine: a load, no system call.
    #[inline]
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.page_word(notice_page::GENERATION)
            .load(Ordering::Acquire)
    }

    /// Whether no client is about to connect to a program on this machine by a channel: a load, no system call. It stays as it
    /// was when the daemon is gone.
    #[inline]
    #[must_use]
    pub fn nobody_connects(&self) -> bool {
        self.page_word(notice_page::CONNECTING)
            .load(Ordering::Acquire)
            == notice_page::NOBODY
    }

    /// Whether a program with the library may listen at an address, on this machine or on one whose daemon this one asks: some
    /// loads, no system call. It stays as it was when the daemon is gone.
    #[must_use]
    pub fn may_listen(&self, at: SocketAddr) -> bool {
        if self.has_bit(
            notice_page::LISTENERS,
            notice_page::listener_place(at.port()),
        ) {
            return true;
        }
        self.is_among(at.ip())
    }

    /// Whether an address is of a machine whose daemon this one asks: some loads, no system call. It stays as it was when the
    /// daemon is gone.
    #[must_use]
    pub fn is_among(&self, ip: IpAddr) -> bool {
        let IpAddr::V4(ip) = ip.to_canonical() else {
            return false;
        };
        let count = self
            .page_word(notice_page::NETWORKS)
            .load(Ordering::Acquire);
        if count == notice_page::EVERYWHERE {
            return true;
        }
        (0..count as usize).any(|index| {
            let word = self.page_word(notice_page::NETWORK + 8 * index);
            let word = word.load(Ordering::Relaxed);
            u32::from(ip) & word as u32 == (word >> 32) as u32
        })
    }

    fn has_bit(&self, words: usize, place: usize) -> bool {
        let word = self.page_word(words + place / 64 * 8);
        word.load(Ordering::Acquire) >> (place % 64) & 1 != 0
    }

    /// Whether a stream between two ports may be in a channel, seen from either end: a load, no system call. It stays as it was
    /// when the daemon is gone.
    #[must_use]
    pub fn may_be_stream(&self, own: u16, peer: u16) -> bool {
        self.has_bit(notice_page::STREAMS, notice_page::place(own, peer))
    }

    /// Content of a kernel datagram that is only a doorbell.
    #[must_use]
    pub fn doorbell_magic(&self) -> [u8; 16] {
        let mut magic = [0; 16];
        for (index, word) in magic.chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(
                &self
                    .page_word(notice_page::MAGIC + 8 * index)
                    .load(Ordering::Relaxed)
                    .to_ne_bytes(),
            );
        }
        magic
    }

    /// Takes the next notice, if there is one; never blocks.
    ///
    /// # Errors
    /// [`Error::DaemonLost`] when the daemon is gone.
    pub fn next_notice(&self) -> Result<Option<(Notice, Vec<OwnedFd>)>> {
        let mut buffer = [0; 1024];
        match packet::receive(&self.notices, &mut buffer, RecvFlags::DONTWAIT) {
            Ok((0, _)) => {
                self.lost.store(true, Ordering::Relaxed);
                Err(Error::DaemonLost {
                    source: Errno::CONNRESET,
                })
            }
            Ok((length, fds)) => {
                self.taken.fetch_add(1, Ordering::Relaxed);
                protocol::decode(&buffer[..length]).map(|notice| Some((notice, fds)))
            }
            Err(Errno::AGAIN) => Ok(None),
            // The notice is gone, but it was one.
            Err(Errno::MFILE) => {
                self.taken.fetch_add(1, Ordering::Relaxed);
                Err(Error::System {
                    what: "receiving the descriptor of a notice",
                    source: Errno::MFILE,
                })
            }
            Err(source) => {
                self.lost.store(true, Ordering::Relaxed);
                Err(Error::DaemonLost { source })
            }
        }
    }

    /// Where the daemon listens for other machines' daemons.
    #[must_use]
    pub fn management(&self) -> Option<std::net::SocketAddrV4> {
        self.management
    }

    /// Machines the daemon had sessions with when this client connected.
    #[must_use]
    pub fn peers(&self) -> &[std::net::Ipv4Addr] {
        &self.peers
    }

    #[inline]
    fn page_word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the page is mapped as long as `self` lives; the offsets are aligned and inside of it. Only loads are
        // done on the word: the page is read-only.
        unsafe { AtomicU64::from_ptr(self.page.as_ptr().add(offset).cast()) }
    }
}

/// How a daemon is spoken with.
#[derive(Debug, Clone, Copy)]
pub struct Greeted {
    /// The connection's descriptors get numbers from here on, so that they are not in the way of a program that expects low ones.
    pub floor: i32,
    /// How long an answer may take.
    pub patience: Duration,
    /// Whether a daemon that waits for another machine's gets more time than that, as long as it answers others.
    pub asks_on: bool,
    /// Whether one that takes no connection now is taken for absent.
    pub at_once: bool,
}

impl Default for Greeted {
    fn default() -> Self {
        Self {
            floor: 0,
            patience: PATIENCE,
            asks_on: false,
            at_once: false,
        }
    }
}

/// A connection to a daemon that has been greeted, and may not have answered yet.
#[derive(Debug)]
pub struct Greeting {
    socket: OwnedFd,
    path: PathBuf,
    how: Greeted,
}

impl Greeting {
    /// Connects to the daemon at `path` and introduces the process as `program`.
    ///
    /// # Errors
    /// [`Error::NoDaemon`] if there is none, [`Error::Untrusted`] if it is another user's.
    pub fn send(path: &Path, program: &str, how: Greeted) -> Result<Self> {
        let absent = |source| Error::NoDaemon {
            path: path.to_path_buf(),
            source,
        };
        let socket = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(absent)?;
        let socket = move_up(socket, how.floor);
        // Also for a daemon that accepts nobody.
        for side in [
            rustix::net::sockopt::Timeout::Recv,
            rustix::net::sockopt::Timeout::Send,
        ] {
            rustix::net::sockopt::set_socket_timeout(&socket, side, Some(how.patience))
                .map_err(absent)?;
        }
        let address = SocketAddrUnix::new(path).map_err(absent)?;
        rustix::io::ioctl_fionbio(&socket, how.at_once).map_err(absent)?;
        rustix::net::connect(&socket, &address).map_err(absent)?;
        rustix::io::ioctl_fionbio(&socket, false).map_err(absent)?;
        trust(path, &socket)?;
        let hello = Request::Hello {
            version: protocol::VERSION,
            program: program.to_owned(),
            netns: network_namespace(),
        };
        let lost = |source| Error::DaemonLost { source };
        let hello = protocol::encode(&hello)?;
        packet::send(&socket, &hello, &[], SendFlags::empty()).map_err(lost)?;
        Ok(Self {
            socket,
            path: path.to_path_buf(),
            how,
        })
    }

    /// Whether [`Greeting::finish`] need not wait: the daemon has answered, or is gone.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
        matches!(
            rustix::event::poll(&mut polled, Some(&rustix::time::Timespec::default())),
            Ok(1..)
        )
    }

    /// The connection, for those who must not close it by mistake.
    #[must_use]
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Waits for the answer.
    ///
    /// # Errors
    /// [`Error::DaemonLost`] if there is none, others if the daemon refuses.
    pub fn finish(self) -> Result<Client> {
        let Self { socket, path, how } = self;
        let mut buffer = vec![0; MAX_PACKET];
        let (reply, fds) = answer(&socket, &mut buffer)?;
        let Reply::Hello {
            version,
            management,
            peers,
        } = reply
        else {
            return Err(unexpected(reply));
        };
        if version != protocol::VERSION {
            return Err(Error::Protocol {
                what: "another version",
            });
        }
        let [page, notices] = descriptors(fds)?;
        let page = Mapping::new(&page, 0, notice_page::BYTES, Access::Read)?;
        let notices = move_up(notices, how.floor);
        Ok(Client {
            socket,
            buffer: Mutex::new(buffer),
            lost: AtomicBool::new(false),
            silent: AtomicBool::new(false),
            again: how.asks_on.then_some((path, how)),
            page,
            notices,
            taken: AtomicU64::new(0),
            management,
            peers,
        })
    }
}

/// Whether the daemon may have to ask another machine's before it answers, and that one has its own time.
fn waits_for_others(request: &Request) -> bool {
    matches!(
        request,
        Request::Announce { .. } | Request::Abandon { .. } | Request::Datagrams { .. }
    )
}

/// Whether a daemon was given up because it took too long.
pub fn is_silence<T>(result: &Result<T>) -> bool {
    matches!(
        result,
        Err(Error::DaemonLost {
            source: Errno::AGAIN
        } | Error::NoDaemon {
            source: Errno::AGAIN,
            ..
        })
    )
}

fn exchange(
    socket: &OwnedFd,
    buffer: &mut [u8],
    request: &Request,
) -> Result<(Reply, Vec<OwnedFd>)> {
    let lost = |source| Error::DaemonLost { source };
    packet::send(socket, &protocol::encode(request)?, &[], SendFlags::empty()).map_err(lost)?;
    answer(socket, buffer)
}

fn answer(socket: &OwnedFd, buffer: &mut [u8]) -> Result<(Reply, Vec<OwnedFd>)> {
    let lost = |source| Error::DaemonLost { source };
    let (length, fds) = match packet::receive(socket, buffer, RecvFlags::empty()) {
        // The answer is gone, but it was the one to this question.
        Err(source @ Errno::MFILE) => {
            return Err(Error::System {
                what: "receiving descriptors from the daemon",
                source,
            });
        }
        other => other.map_err(lost)?,
    };
    if length == 0 {
        return Err(lost(Errno::CONNRESET));
    }
    match protocol::decode(&buffer[..length])? {
        Reply::Error { errno, message } => Err(Error::Refused {
            errno: Errno::from_raw_os_error(errno),
            message,
        }),
        reply => Ok((reply, fds)),
    }
}

/// The descriptors of an answer, if there are as many as there must be.
///
/// # Errors
/// [`Error::Protocol`] if not.
pub fn descriptors<const N: usize>(fds: Vec<OwnedFd>) -> Result<[OwnedFd; N]> {
    fds.try_into().map_err(|_| Error::Protocol {
        what: "another number of descriptors",
    })
}

/// The error for an answer that does not fit.
#[must_use]
pub fn unexpected(_reply: Reply) -> Error {
    Error::Protocol {
        what: "another kind of answer",
    }
}
