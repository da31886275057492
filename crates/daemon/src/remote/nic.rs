// SPDX-License-Identifier: Apache-2.0
//! The NIC as the daemon uses it. Its thread owns it; nothing else calls it.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use shm::channel::Carrier;
use softnic::{Error, Event, Identity, PeerAddress, Segment, Share, Shared, SoftNic};
use wire::{KeyEntry, KeyUse};

/// A window on memory of another machine, by a number that is not used again.
pub type WindowId = u64;

/// When the owner of memory is woken.
#[derive(Clone, Debug)]
pub enum Sleeper {
    /// While the 32-bit word that this page (a memfd) begins with is not zero.
    Page(Arc<OwnedFd>),
    /// While an end of a channel sleeps, in whose memory that is said. Offset of the word, and the end: what arrives for
    /// it arrives at [`Carrier::expected_at`] or from [`Carrier::mail_at`] up to the lines.
    End(usize, Carrier),
}

/// Memory of this machine that others may use.
#[derive(Clone, Debug)]
pub struct Memory {
    /// The memory: a memfd, or what [`Nic::memory`] gave.
    pub memory: Arc<OwnedFd>,
    /// Its size.
    pub bytes: usize,
    /// An eventfd that is written when something has arrived and the sleeper sleeps. Memory that [`Nic::memory`] gave tells of
    /// arrivals by itself.
    pub event: Arc<OwnedFd>,
    /// When it sleeps.
    pub sleeper: Sleeper,
}

/// A NIC. Stores of one session arrive once and in order, or the peer is lost.
pub trait Nic: Send {
    /// How others reach it.
    fn identity(&self) -> Identity;

    /// Memory that it can receive into; `None`: any memfd will do.
    ///
    /// # Errors
    /// If there is no more.
    fn memory(&mut self, bytes: usize) -> Result<Option<OwnedFd>, Error> {
        let _ = bytes;
        Ok(None)
    }

    /// Takes a number for a session, to tell the peer.
    ///
    /// # Errors
    /// [`Error::Full`]
    fn reserve_session(&mut self) -> Result<u8, Error>;

    /// Begins a session under an own number that was reserved.
    ///
    /// # Errors
    /// [`Error::Port`] if another epoch may do; others.
    fn open_session(&mut self, session: u8, peer: &PeerAddress) -> Result<(), Error>;

    /// Gives a sealed session one of its next keys.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is no such session, or it is not sealed.
    fn write_key(&mut self, session: u8, keys: &KeyEntry, what: KeyUse) -> Result<(), Error> {
        let _ = (keys, what);
        Err(Error::Missing {
            what: "sealed session",
            number: session.into(),
        })
    }

    /// Frames that were sent with the key that a session sends with now.
    fn sealed_frames(&self, session: u8) -> u64 {
        let _ = session;
        0
    }

    /// Ends it; its number may be used again.
    fn close_session(&mut self, session: u8);

    /// Lets peers with a session use a part of memory, under a key of its own.
    ///
    /// # Errors
    /// [`Error::Full`], and what mapping it gives.
    fn share(&mut self, memory: &Memory, share: &Share) -> Result<Shared, Error>;

    /// Ends it: when this returns nothing of it is written any more.
    fn unshare(&mut self, key: u16);

    /// Maps bytes of a region of the peer of a session; `first` is their offset in it.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Range`]
    fn map(
        &mut self,
        session: u8,
        shared: &Shared,
        first: u64,
        bytes: u64,
    ) -> Result<WindowId, Error>;

    /// Gives a window's pages back, whoever else has it.
    fn unmap(&mut self, window: WindowId);

    /// A window for a process that stores by itself, by `pwrite`; `None`: all stores go by [`Nic::store`].
    fn window(&self, window: WindowId) -> Option<OwnedFd> {
        let _ = window;
        None
    }

    /// Whether stores into windows of a session are taken at present.
    fn can_store(&self, session: u8) -> bool;

    /// Stores bytes; returns how many were taken, fewer than all while too much waits.
    ///
    /// # Errors
    /// [`Error::Range`] if they are not all inside of the window.
    fn store(&mut self, window: WindowId, offset: u64, data: &[u8]) -> Result<usize, Error>;

    /// Loads bytes; [`Event::Loaded`] brings them.
    ///
    /// # Errors
    /// [`Error::Range`] if they are not all inside of the window.
    fn load(&mut self, window: WindowId, offset: u64, bytes: usize) -> Result<u64, Error>;

    /// Asks to be told by [`Event::Flushed`] when all stores of a session that were taken so far are delivered.
    ///
    /// # Errors
    /// [`Error::Full`]
    fn flush(&mut self, session: u8, cookie: u64) -> Result<(), Error>;

    /// Sends what was stored at once.
    fn kick(&mut self);

    /// Takes what has come and does what is due; whether there was anything.
    ///
    /// # Errors
    /// If the device fails.
    fn poll(&mut self) -> Result<bool, Error>;

    /// What it has to say.
    fn next_event(&mut self) -> Option<Event>;

    /// When [`Nic::poll`] has something to do although nothing comes.
    fn deadline(&self) -> Option<Duration>;

    /// Readable when something has come.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// Whether looking at it again and again lets time pass. If not, the thread sleeps at once.
    fn polls(&self) -> bool {
        true
    }
}

/// The NIC in software.
pub struct Soft {
    nic: SoftNic,
    windows: HashMap<WindowId, softnic::Window>,
    last: WindowId,
}

impl Soft {
    /// With its transport.
    pub fn new(nic: SoftNic) -> Self {
        Self {
            nic,
            windows: HashMap::new(),
            last: 0,
        }
    }
}

impl Nic for Soft {
    fn identity(&self) -> Identity {
        self.nic.identity()
    }

    fn reserve_session(&mut self) -> Result<u8, Error> {
        self.nic.reserve_session()
    }

    fn open_session(&mut self, session: u8, peer: &PeerAddress) -> Result<(), Error> {
        self.nic.open_session(session, peer)
    }

    fn write_key(&mut self, session: u8, keys: &KeyEntry, what: KeyUse) -> Result<(), Error> {
        self.nic.write_key(session, keys, what)
    }

    fn sealed_frames(&self, session: u8) -> u64 {
        self.nic.sealed_frames(session)
    }

    fn close_session(&mut self, session: u8) {
        self.nic.close_session(session);
    }

    fn share(&mut self, memory: &Memory, share: &Share) -> Result<Shared, Error> {
        // What readers of this machine have was sealed.
        let map = match share.write {
            true => Segment::map,
            false => Segment::map_read_only,
        };
        let segment = map(memory.memory.as_fd(), memory.bytes)?;
        let event = Arc::clone(&memory.event);
        let segment = match &memory.sleeper {
            Sleeper::Page(page) => segment.with_wake(event, Some(page.as_fd()))?,
            Sleeper::End(word, _) => segment.with_wake_word(event, *word)?,
        };
        self.nic.share(&segment, share)
    }

    fn unshare(&mut self, key: u16) {
        self.nic.unshare(key);
    }

    fn map(
        &mut self,
        session: u8,
        shared: &Shared,
        first: u64,
        bytes: u64,
    ) -> Result<WindowId, Error> {
        let window = self.nic.map(session, shared, first, bytes)?;
        self.last += 1;
        self.windows.insert(self.last, window);
        Ok(self.last)
    }

    fn unmap(&mut self, window: WindowId) {
        if let Some(window) = self.windows.remove(&window) {
            self.nic.unmap(window);
        }
    }

    fn can_store(&self, session: u8) -> bool {
        self.nic.can_store(session)
    }

    fn store(&mut self, window: WindowId, offset: u64, data: &[u8]) -> Result<usize, Error> {
        match self.windows.get(&window) {
            Some(window) => self.nic.store(window, offset, data),
            None => Err(missing(offset, data.len())),
        }
    }

    fn load(&mut self, window: WindowId, offset: u64, bytes: usize) -> Result<u64, Error> {
        match self.windows.get(&window) {
            Some(window) => self.nic.load(window, offset, bytes),
            None => Err(missing(offset, bytes)),
        }
    }

    fn flush(&mut self, session: u8, cookie: u64) -> Result<(), Error> {
        self.nic.flush(session, cookie)
    }

    fn kick(&mut self) {
        self.nic.kick();
    }

    fn poll(&mut self) -> Result<bool, Error> {
        self.nic.poll()
    }

    fn next_event(&mut self) -> Option<Event> {
        self.nic.next_event()
    }

    fn deadline(&self) -> Option<Duration> {
        self.nic.deadline()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.nic.descriptor()
    }
}

/// No window has this number any more.
fn missing(first: u64, bytes: usize) -> Error {
    Error::Range {
        what: "window that is closed",
        first,
        bytes: bytes as u64,
        limit: 0,
    }
}
