// SPDX-License-Identifier: Apache-2.0
//! The driver's device, its regions and windows as objects.

use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use ipc::token::Rights;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use shm::channel::Channel;
use shm::memory::{Access, Mapping, PAGE};

pub use super::sys::{Identity, Info, KEY_DWS, Peer, event, info, peer};

use super::sys::{self, status};
use crate::clock::Deadline;
use crate::error::{Error, Result};

/// Most bytes that are stored by one call.
const CHUNK: usize = 1 << 20;

/// The NIC: `/dev/ipnuma0`.
#[derive(Debug)]
pub struct Nic {
    fd: OwnedFd,
    path: PathBuf,
}

/// What the NIC has told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A peer refused a store to one of its regions.
    Refused {
        /// Own number of the session with it.
        session: u8,
        /// Key of the region.
        key: u16,
        /// Error code of the wire: 1 key, 2 source, 3 rights, 4 bounds.
        code: u32,
    },
    /// A peer does not answer any more.
    PeerLost {
        /// Own number of the session with it.
        session: u8,
    },
    /// What came of a mark.
    Flushed {
        /// Its number.
        number: u64,
        /// All stores before it have arrived.
        delivered: bool,
    },
    /// Some events are missing.
    Missing,
    /// The link came or went.
    Link {
        /// It is up.
        up: bool,
    },
}

impl Event {
    /// What a read of the device has brought.
    fn decode(bytes: &[u8; sys::EVENT_BYTES]) -> Self {
        let word = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|byte| bytes[at + byte]));
        let session = u16::from_ne_bytes([bytes[4], bytes[5]]) as u8;
        let key = u16::from_ne_bytes([bytes[6], bytes[7]]);
        let number = u64::from(word(8)) | u64::from(word(12)) << 32;
        match word(0) {
            code @ event::BAD_KEY..=event::BAD_BOUNDS => Event::Refused { session, key, code },
            event::LOST => Event::PeerLost { session },
            event::FLUSHED => Event::Flushed {
                number,
                delivered: true,
            },
            event::FLUSH_FAILED => Event::Flushed {
                number,
                delivered: false,
            },
            event::LINK_DOWN => Event::Link { up: false },
            event::LINK_UP => Event::Link { up: true },
            // What we do not know is as good as missing.
            _ => Event::Missing,
        }
    }
}

/// To store and load by it, without waiting for events, and not for programs that this one becomes or starts.
fn open_device(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    rustix::fs::open(path, flags, Mode::empty())
}

fn failed(what: &'static str) -> impl Fn(Errno) -> Error {
    move |source| match source {
        Errno::HOSTUNREACH => Error::PeerLost,
        Errno::TIMEDOUT => Error::TimedOut { what },
        source => Error::System { what, source },
    }
}

/// Time that is left, as the driver wants it.
fn timeout(deadline: Deadline) -> i64 {
    deadline.left().map_or(-1, |left| {
        i64::try_from(left.as_nanos()).unwrap_or(i64::MAX)
    })
}

/// Bytes of memory that the driver has given out; `None` if it is other memory.
#[must_use]
pub fn region_bytes(fd: BorrowedFd<'_>) -> Option<usize> {
    sys::bytes(fd)
        .ok()
        .and_then(|bytes| usize::try_from(bytes).ok())
}

/// Maps a channel that a daemon has given: in shared memory, or in memory that the driver has given out, which has no seals but
/// never shrinks.
///
/// # Errors
/// As [`Channel::map`].
pub fn map_channel(fd: impl AsFd) -> shm::Result<Channel> {
    match Channel::map(&fd) {
        Err(shm::Error::Unsealed) => {
            let bytes = region_bytes(fd.as_fd()).ok_or(shm::Error::Unsealed)?;
            Channel::device(fd, bytes)
        }
        other => other,
    }
}

/// Has this processor be busy for a while, a second at most: what the caller's own code would take.
///
/// # Errors
/// If it is longer, or the descriptor is no NIC's.
pub fn charge(nic: BorrowedFd<'_>, ns: u32) -> Result<()> {
    sys::charge(nic, ns).map_err(failed("charging time"))
}

/// The words of keys and salts.
fn words_of(entry: &[u32; KEY_DWS]) -> [u32; sys::KEY_WORDS] {
    std::array::from_fn(|word| entry[word])
}

impl From<Nic> for OwnedFd {
    fn from(nic: Nic) -> Self {
        nic.fd
    }
}

impl Nic {
    /// Opens the device.
    ///
    /// # Errors
    /// If it is not there, or its driver is of another version.
    pub fn open(path: &Path) -> Result<Self> {
        let config = |problem: String| Error::Config {
            place: path.display().to_string(),
            problem,
        };
        let fd = open_device(path).map_err(|errno| {
            config(format!(
                "{errno}; it is there in guests of the rack that have an IP-NUMA NIC, once ipnuma.ko is loaded"
            ))
        })?;
        let nic = Self {
            fd,
            path: path.to_owned(),
        };
        let abi = nic.info()?.abi;
        if abi != sys::ABI {
            return Err(config(format!(
                "the driver speaks version {abi}, this library {}: build both from one source",
                sys::ABI
            )));
        }
        Ok(nic)
    }

    /// Where it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it is.
    ///
    /// # Errors
    /// If it is no IP-NUMA NIC.
    pub fn info(&self) -> Result<Info> {
        sys::info(&self.fd).map_err(failed("asking the NIC what it is"))
    }

    /// Simulated time, nanoseconds.
    ///
    /// # Errors
    /// Never, for a NIC.
    pub fn now(&self) -> Result<u64> {
        sys::now(&self.fd).map_err(failed("asking the NIC for the time"))
    }

    /// See [`charge`].
    ///
    /// # Errors
    /// If it is longer than a second.
    pub fn charge(&self, ns: u32) -> Result<()> {
        charge(self.fd.as_fd(), ns)
    }

    /// Says who it is. Needs CAP_NET_ADMIN.
    ///
    /// # Errors
    /// If that is not permitted.
    pub fn identify(&self, identity: &Identity) -> Result<()> {
        sys::identity(&self.fd, *identity).map_err(failed("giving the NIC its addresses"))
    }

    /// Begins a session with a peer, or ends it, without [`peer::VALID`]. Needs CAP_NET_ADMIN.
    ///
    /// # Errors
    /// If that is not permitted, or there is no such session.
    pub fn set_peer(&self, peer: &Peer) -> Result<()> {
        sys::peer(&self.fd, *peer).map_err(failed("giving the NIC a peer"))
    }

    /// Begins a sealed session with a peer, with keys as an entry of the NIC's table has them (docs/registers.md), which must
    /// never have been used before. Needs CAP_NET_ADMIN.
    ///
    /// # Errors
    /// If that is not permitted, there is no such session, or the NIC was built without AES-GCM.
    pub fn seal_peer(&self, peer: &Peer, entry: &[u32; KEY_DWS]) -> Result<()> {
        let words = words_of(entry);
        let wanted = sys::SealedPeer { peer: *peer, words };
        sys::sealed_peer(&self.fd, wanted).map_err(failed("sealing a session with a peer"))
    }

    /// Gives a sealed session its next key for one direction, which the entry's last word says. Needs CAP_NET_ADMIN.
    ///
    /// # Errors
    /// If that is not permitted, or the session is not sealed.
    pub fn next_key(&self, session: u8, entry: &[u32; KEY_DWS]) -> Result<()> {
        let wanted = sys::Keys {
            session: session.into(),
            r#use: entry[KEY_DWS - 1],
            words: words_of(entry),
        };
        sys::keys(&self.fd, wanted).map_err(failed("giving a session its next key"))
    }

    /// Stores and loads to a peer since its session is sent with the present key: frames, but for what was sent again and
    /// what answers.
    ///
    /// # Errors
    /// Never, for a NIC.
    pub fn frames(&self, session: u8) -> Result<u64> {
        let mut asked = sys::Frames {
            session: session.into(),
            ..sys::Frames::default()
        };
        sys::frames(&self.fd, &mut asked).map_err(failed("asking how much a key has sealed"))?;
        Ok(asked.frames)
    }

    /// The peer of a session.
    ///
    /// # Errors
    /// Never, for a NIC.
    pub fn peer(&self, session: u8) -> Result<Peer> {
        let mut peer = Peer {
            session,
            ..Peer::default()
        };
        sys::peer_get(&self.fd, &mut peer).map_err(failed("asking the NIC for a peer"))?;
        Ok(peer)
    }

    /// Memory that it can write to: zeroed, whole pages.
    ///
    /// # Errors
    /// If there is none in one piece.
    pub fn region(&self, bytes: usize) -> Result<RegionFile> {
        let refused = |source| shm::Error::Memory {
            what: "getting memory that the NIC can write to",
            bytes,
            source,
        };
        let (fd, id, bytes) = sys::region(self.fd.as_fd(), bytes as u64).map_err(refused)?;
        Ok(RegionFile {
            fd,
            id,
            bytes: bytes as usize,
        })
    }

    /// A part of a peer's region.
    ///
    /// # Errors
    /// If there is no such peer, or no more pages.
    pub fn window(&self, wanted: &Wanted) -> Result<WindowFile> {
        let fd = sys::window(
            self.fd.as_fd(),
            sys::Window {
                first: wanted.first,
                bytes: wanted.bytes,
                peer: wanted.peer.map_or(0, u32::from),
                session: wanted.session.map_or(0, u32::from),
                key: wanted.key,
                tag: wanted.tag,
                rights: wanted.rights.bits().into(),
                ..sys::Window::default()
            },
        );
        let fd = fd.map_err(|errno| match errno {
            Errno::DQUOT => {
                failed("having half of the NIC's pages without CAP_SYS_RESOURCE")(errno)
            }
            _ => failed("mapping pages of the NIC")(errno),
        })?;
        let status = Mapping::device(&fd, PAGE, Access::Read)?;
        Ok(WindowFile { fd, status })
    }

    /// Asks for [`Event::Flushed`] with this number. `false`: too many wait.
    ///
    /// # Errors
    /// If there is no such session.
    pub fn mark(&self, session: u8, number: u64) -> Result<bool> {
        let mark = sys::Mark {
            number,
            session: session.into(),
            reserved: 0,
        };
        match sys::mark(&self.fd, mark) {
            Ok(()) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Err(error) => Err(failed("marking the stream of stores")(error)),
        }
    }

    /// The next event since it was opened, if there is one.
    #[must_use]
    pub fn next_event(&self) -> Option<Event> {
        loop {
            let mut bytes = [0; sys::EVENT_BYTES];
            match rustix::io::read(&self.fd, &mut bytes) {
                Ok(sys::EVENT_BYTES) => return Some(Event::decode(&bytes)),
                Err(Errno::INTR) => {}
                _ => return None,
            }
        }
    }
}

impl AsFd for Nic {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Which part of whose region.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// The peer's address; `None`: the session says it.
    pub peer: Option<Ipv4Addr>,
    /// Own number of the session; `None`: the first with this peer.
    pub session: Option<u8>,
    /// Key of the region.
    pub key: u16,
    /// Its tag.
    pub tag: u16,
    /// First byte, in the region.
    pub first: u64,
    /// Length.
    pub bytes: u64,
    /// What may be done.
    pub rights: Rights,
}

/// Memory that the driver has given out. The descriptor can be mapped, passed on, and polled: it is readable after an
/// arrival, if it was armed.
#[derive(Debug)]
pub struct RegionFile {
    fd: OwnedFd,
    id: u64,
    bytes: usize,
}

/// What is shared of a region, and with whom.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// First byte.
    pub first: u64,
    /// Length.
    pub bytes: u64,
    /// What may be done.
    pub rights: Rights,
    /// The only one who may; `None`: everybody with a session.
    pub peer: Option<Ipv4Addr>,
    /// What is folded into the end code, 1 to 0xFFF.
    pub tag: u16,
    /// Only frames that come sealed may.
    pub sealed: bool,
    /// The only session whose frames may; `None`: all of the peer's.
    pub session: Option<u8>,
}

impl RegionFile {
    /// Its number, which no other region has.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Its size.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The descriptor alone; the region lasts as long as it, or a mapping.
    #[must_use]
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// Maps it.
    ///
    /// # Errors
    /// If there are no addresses.
    pub fn map(&self) -> Result<Mapping> {
        Ok(Mapping::device(&self.fd, self.bytes, Access::ReadWrite)?)
    }

    /// Shares a part; the key.
    ///
    /// # Errors
    /// If the part is outside or no whole words, or the NIC has no more keys.
    pub fn export(&self, part: &Part) -> Result<u16> {
        export(&self.fd, part)
    }

    /// Takes a key back. When it returns, nothing of it is written any more.
    ///
    /// # Errors
    /// If it is none of this region.
    pub fn revoke(&self, key: u16) -> Result<()> {
        revoke(&self.fd, key)
    }

    /// From now on arrivals are counted, or not. What was not seen before is.
    ///
    /// # Errors
    /// Never, for a region.
    pub fn arm(&self, armed: bool) -> Result<()> {
        arm(&self.fd, armed)
    }

    /// Waits until the word at `offset` is not `seen` any more.
    ///
    /// # Errors
    /// [`Error::TimedOut`], or an interruption by a signal handler.
    pub fn wait(&self, offset: usize, seen: u64, deadline: Deadline) -> Result<()> {
        let wait = sys::Wait {
            offset: offset as u64,
            seen,
            timeout_ns: timeout(deadline),
        };
        sys::wait(&self.fd, wait).map_err(failed("waiting for a store"))
    }
}

impl AsFd for RegionFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Shares a part of a region that is known by its descriptor.
///
/// # Errors
/// As [`RegionFile::export`].
pub fn export(region: impl AsFd, part: &Part) -> Result<u16> {
    let mut export = sys::Export {
        first: part.first,
        bytes: part.bytes,
        peer: part.peer.map_or(0, u32::from),
        rights: part.rights.bits().into(),
        tag: part.tag,
        flags: if part.sealed { sys::EXPORT_SEALED } else { 0 },
        session: part.session.unwrap_or_default().into(),
        ..sys::Export::default()
    };
    sys::export(region, &mut export).map_err(|source| match source {
        Errno::INVAL => Error::System {
            what: "sharing memory (a NIC shares whole words of 4 bytes)",
            source,
        },
        Errno::DQUOT => Error::System {
            what: "having half of the NIC's keys without CAP_SYS_RESOURCE",
            source,
        },
        source => Error::System {
            what: "sharing memory",
            source,
        },
    })?;
    Ok(export.key)
}

/// Takes a key of a region back.
///
/// # Errors
/// As [`RegionFile::revoke`].
pub fn revoke(region: impl AsFd, key: u16) -> Result<()> {
    sys::revoke(region, key.into()).map_err(failed("taking a token back"))
}

/// Whether arrivals in a region are counted.
///
/// # Errors
/// As [`RegionFile::arm`].
pub fn arm(region: impl AsFd, armed: bool) -> Result<()> {
    sys::arm(region, armed.into()).map_err(failed("arming a region"))
}

/// Pages of the NIC that are a peer's memory.
#[derive(Debug)]
pub struct WindowFile {
    fd: OwnedFd,
    status: Mapping,
}

impl WindowFile {
    /// Stores bytes. They are on their way when it returns, in this order.
    ///
    /// # Errors
    /// If they are outside or may not be stored.
    pub fn store(&self, mut offset: u64, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let chunk = &bytes[..bytes.len().min(CHUNK)];
            match rustix::io::pwrite(&self.fd, chunk, offset) {
                Ok(done) => {
                    offset += done as u64;
                    bytes = &bytes[done..];
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(failed("storing")(error)),
            }
        }
        Ok(())
    }

    /// A descriptor for another process, which stores by `pwrite`.
    ///
    /// # Errors
    /// If there are no more descriptors.
    pub fn share(&self) -> Result<OwnedFd> {
        let copy = rustix::io::fcntl_dupfd_cloexec(&self.fd, 0);
        copy.map_err(failed("a descriptor for a window"))
    }

    /// Gives the pages back, whoever else has the window: what is stored from now on is refused.
    pub fn unmap(&self) {
        // It cannot fail: the descriptor is a window's.
        let _ = sys::unmap(&self.fd);
    }

    /// Loads bytes: a round trip each line. What nobody answers is ones.
    ///
    /// # Errors
    /// If they are outside or may not be loaded.
    pub fn load(&self, mut offset: u64, mut into: &mut [u8]) -> Result<()> {
        while !into.is_empty() {
            match rustix::io::pread(&self.fd, &mut *into, offset) {
                Ok(done) => {
                    offset += done as u64;
                    into = &mut into[done..];
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(failed("loading")(error)),
            }
        }
        Ok(())
    }

    /// Waits until all stores so far are acknowledged.
    ///
    /// # Errors
    /// [`Error::PeerLost`], [`Error::TimedOut`], or an interruption by a signal handler.
    pub fn flush(&self, deadline: Deadline) -> Result<()> {
        let flush = sys::Flush {
            timeout_ns: timeout(deadline),
        };
        sys::flush(&self.fd, flush).map_err(failed("the peer's acknowledgement of earlier stores"))
    }

    /// Stores that were refused or lost, as far as is known.
    #[must_use]
    pub fn faults(&self) -> u64 {
        // SAFETY: the driver's page is mapped as long as `self` lives, and the word in it is aligned; it is only loaded.
        unsafe { AtomicU64::from_ptr(self.status.as_ptr().add(status::FAULTS).cast()) }
            .load(Ordering::Acquire)
    }

    /// Whether stores still reach the region.
    ///
    /// # Errors
    /// [`Error::PeerLost`], [`Error::Revoked`]
    pub fn state(&self) -> Result<()> {
        // SAFETY: as above.
        let state = unsafe { AtomicU32::from_ptr(self.status.as_ptr().add(status::STATE).cast()) }
            .load(Ordering::Acquire);
        if state & status::LOST != 0 {
            Err(Error::PeerLost)
        } else if state & status::REVOKED != 0 {
            Err(Error::Revoked)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// As `struct ipnuma_event` has it.
    fn event(code: u32, session: u16, key: u16, number: u64) -> Event {
        let mut bytes = [0; sys::EVENT_BYTES];
        bytes[..4].copy_from_slice(&code.to_ne_bytes());
        bytes[4..6].copy_from_slice(&session.to_ne_bytes());
        bytes[6..8].copy_from_slice(&key.to_ne_bytes());
        bytes[8..].copy_from_slice(&number.to_ne_bytes());
        Event::decode(&bytes)
    }

    #[test]
    fn the_driver_is_told_the_time_that_is_left() {
        assert_eq!(timeout(Deadline::after(None)), -1, "for ever");
        assert_eq!(timeout(Deadline::after(Some(Duration::ZERO))), 0);
        let hour = Duration::from_secs(3600);
        let left = timeout(Deadline::after(Some(hour)));
        assert!(0 < left && left <= 3_600_000_000_000, "{left} ns");
    }

    #[test]
    fn a_region_has_the_number_and_the_size_that_the_driver_gave() {
        let fd = shm::memory::create("region", PAGE).expect("there is memory");
        let (id, bytes) = (0x1234_5678_9ABC, PAGE);
        let region = RegionFile { fd, id, bytes };
        assert_eq!((region.id(), region.bytes()), (id, bytes));
    }

    #[test]
    fn events_are_those_of_the_driver() {
        let (session, key, number) = (3, 0x1234, 0x0123_4567_89AB_CDEF);
        for code in 1..=4 {
            let refused = Event::Refused { session, key, code };
            assert_eq!(event(code, 3, key, number), refused);
        }
        let flushed = |delivered| Event::Flushed { number, delivered };
        for (code, expected) in [
            (16, Event::PeerLost { session }),
            (17, flushed(true)),
            (18, flushed(false)),
            (19, Event::Link { up: false }),
            (20, Event::Link { up: true }),
            (21, Event::Missing),
            // Of a later driver, perhaps.
            (0, Event::Missing),
            (5, Event::Missing),
            (22, Event::Missing),
        ] {
            assert_eq!(event(code, 3, key, number), expected, "code {code}");
        }
    }

    #[test]
    fn the_device_is_opened_for_both_directions_without_waiting_and_for_no_other_program() {
        use rustix::io::FdFlags;
        use std::os::fd::AsRawFd;

        let page = shm::memory::create("device", PAGE).expect("there is memory");
        let path = format!("/proc/self/fd/{}", page.as_raw_fd());
        let fd = open_device(Path::new(&path)).expect("it is there");
        let flags = rustix::fs::fcntl_getfl(&fd).expect("it is open");
        assert_eq!(flags & OFlags::ACCMODE, OFlags::RDWR);
        assert!(flags.contains(OFlags::NONBLOCK));
        let own = rustix::io::fcntl_getfd(&fd).expect("it is open");
        assert!(own.contains(FdFlags::CLOEXEC));
    }

    #[test]
    fn what_the_driver_writes_into_its_page_is_what_a_window_says() {
        let page = shm::memory::create("status", PAGE).expect("there is memory");
        let map = |access| Mapping::new(&page, 0, PAGE, access).expect("it is there");
        let (driver, status) = (map(Access::ReadWrite), map(Access::Read));
        let window = WindowFile {
            fd: page.try_clone().expect("there are descriptors"),
            status,
        };
        // SAFETY: the page is mapped as long as `driver` lives, and its words are aligned.
        let faults = unsafe { AtomicU64::from_ptr(driver.as_ptr().add(status::FAULTS).cast()) };
        // SAFETY: as above.
        let state = unsafe { AtomicU32::from_ptr(driver.as_ptr().add(status::STATE).cast()) };

        assert_eq!(window.faults(), 0);
        assert!(window.state().is_ok());
        let many = (3 << 32) + 7;
        faults.store(many, Ordering::Release);
        assert_eq!(window.faults(), many);
        assert!(window.state().is_ok());
        state.store(status::REVOKED, Ordering::Release);
        assert!(matches!(window.state(), Err(Error::Revoked)));
        state.store(status::LOST | status::REVOKED, Ordering::Release);
        assert!(matches!(window.state(), Err(Error::PeerLost)));
    }
}
