// SPDX-License-Identifier: Apache-2.0
//! Sessions: who the peers are.

use wire::registers as reg;
use wire::{KeyEntry, KeyUse, PcIdEntry, SessionEntry, SessionPort, SessionStatus};

use crate::error::Error;
use crate::nic::{SoftNic, leap};
use crate::transport::Identity;

/// Bits of an epoch.
const EPOCH_MASK: u8 = 0x3F;
/// Bit of `CONTROL`: sealed frames are opened.
const CONTROL_AUTH: u32 = 2;

/// A peer, as the two managements have agreed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAddress {
    /// Its addresses. The MAC address means nothing over a [`crate::Udp`].
    pub identity: Identity,
    /// Its number of the session.
    pub session: u8,
    /// The epoch of the session, 0 to 63, not that of an earlier one between the same two. Source ports come of it:
    /// those of 48 and above are not in the range that Linux gives to programs that ask for any port.
    pub epoch: u8,
    /// Sequence number of the first frame of both sides. Who has not seen the session's frames has to guess it.
    pub start: u32,
    /// Whether it takes stores in the compact format; every NIC of this project does.
    pub compact: bool,
    /// Keys, if frames are sealed. What one side sends with, the other receives with. Never the same ones twice.
    pub keys: Option<KeyEntry>,
}

impl PeerAddress {
    /// Another NIC of this process, its number of the session, and the epoch; frames are counted from 0.
    pub fn of(nic: &SoftNic, session: u8, epoch: u8) -> Self {
        Self {
            identity: nic.identity(),
            session,
            epoch,
            start: 0,
            compact: true,
            keys: None,
        }
    }

    fn port(&self) -> u16 {
        let port = SessionPort {
            epoch: self.epoch & EPOCH_MASK,
            index: self.session,
        };
        port.to_port()
    }
}

/// A session's number that is in use.
#[derive(Clone, Debug)]
pub struct Link {
    /// The peer, once it is known.
    peer: Option<PeerAddress>,
}

impl SoftNic {
    /// Takes a number for a session, to tell the peer.
    ///
    /// # Errors
    /// [`Error::Full`]
    pub fn reserve_session(&mut self) -> Result<u8, Error> {
        let count = self.sessions.len();
        // PC ID 0 means that a page is not mapped.
        let free = (0..count - 1)
            .map(|step| 1 + (self.next_session - 1 + step) % (count - 1))
            .find(|&session| self.sessions[session].is_none());
        let session = free.ok_or(Error::Full {
            what: "sessions",
            count: count - 1,
        })?;
        self.sessions[session] = Some(Link { peer: None });
        self.next_session = 1 + (session - 1 + leap(count - 1)) % (count - 1);
        Ok(session as u8)
    }

    /// Begins a session under an own number that was reserved, or anew in one that is open.
    ///
    /// # Errors
    /// [`Error::Missing`] if the number was not reserved, [`Error::Port`] if its source port is in use: choose another
    /// epoch.
    pub fn open_session(&mut self, session: u8, peer: &PeerAddress) -> Result<(), Error> {
        let missing = Error::Missing {
            what: "session",
            number: session.into(),
        };
        let Some(Some(link)) = self.sessions.get(usize::from(session)) else {
            return Err(missing);
        };
        if link.peer.is_some() {
            self.end_session(session);
        }
        let port = peer.port();
        self.outside.transport.open_port(port)?;
        if let Some(keys) = &peer.keys {
            self.write_register(reg::REG_CONTROL, CONTROL_AUTH);
            self.write_entry(reg::KEY_BASE, session.into(), &keys.to_dws());
        }
        let Identity { mac, ip } = peer.identity;
        let entry = SessionEntry {
            epoch: peer.epoch & EPOCH_MASK,
            sealed: peer.keys.is_some(),
            valid: true,
            start: peer.start,
            port,
            mac,
            ip,
        };
        self.write_entry(reg::SESSION_BASE, session.into(), &entry.to_dws());
        let entry = PcIdEntry {
            session: true,
            compact: peer.compact,
            valid: true,
            source_port: port,
            mac,
            ip,
        };
        self.write_entry(reg::PC_ID_BASE, session.into(), &entry.to_dws());
        self.sessions[usize::from(session)] = Some(Link {
            peer: Some(peer.clone()),
        });
        self.settle();
        Ok(())
    }

    /// Gives a sealed session one of its next keys, as the two managements have agreed: first [`KeyUse::Receive`] at one
    /// side, and when that has said so, [`KeyUse::Send`] at the other. Never the same key twice.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is no such session, or it is not sealed.
    pub fn write_key(&mut self, session: u8, keys: &KeyEntry, what: KeyUse) -> Result<(), Error> {
        let link = self.sessions.get(usize::from(session));
        let peer = link.and_then(|link| link.as_ref()?.peer.as_ref());
        if peer.is_none_or(|peer| peer.keys.is_none()) {
            return Err(Error::Missing {
                what: "sealed session",
                number: session.into(),
            });
        }
        self.write_entry(reg::KEY_BASE, session.into(), &keys.to_dws_for(what));
        Ok(())
    }

    /// Frames that were sent with the key that a session sends with now; 0 if it is not sealed.
    pub fn sealed_frames(&self, session: u8) -> u64 {
        self.nic.sessions().sealed_frames(session)
    }

    /// Stores to the peer are dropped from now on, and nothing of it is taken any more.
    fn end_session(&mut self, session: u8) {
        let none = SessionEntry::default().to_dws();
        self.write_entry(reg::SESSION_BASE, session.into(), &none);
        self.settle();
        if let Some(Some(link)) = self.sessions.get(usize::from(session))
            && let Some(peer) = &link.peer
        {
            self.outside.transport.close_port(peer.port());
        }
    }

    /// Ends a session; its number may be used again. Windows through it take stores, and drop them.
    pub fn close_session(&mut self, session: u8) {
        self.end_session(session);
        let none = PcIdEntry::default().to_dws();
        self.write_entry(reg::PC_ID_BASE, session.into(), &none);
        if let Some(link) = self.sessions.get_mut(usize::from(session)) {
            *link = None;
        }
    }

    /// What a session does at the moment.
    pub fn session_status(&self, session: u8) -> Option<SessionStatus> {
        self.nic.session_status(session)
    }

    /// Asks to be told by [`crate::Event::Flushed`] when all stores of a session that were taken so far are delivered.
    ///
    /// # Errors
    /// [`Error::Full`] if 65,536 flushes wait.
    pub fn flush(&mut self, session: u8, cookie: u64) -> Result<(), Error> {
        let free = (0..=u16::MAX)
            .map(|step| self.next_cookie.wrapping_add(step))
            .find(|number| !self.flushes.contains_key(number));
        let number = free.ok_or(Error::Full {
            what: "flushes",
            count: 1 << 16,
        })?;
        self.next_cookie = number.wrapping_add(1);
        self.flushes.insert(number, cookie);
        let value = u32::from(number) << 16 | u32::from(session);
        self.write_register(reg::REG_FLUSH, value);
        self.settle();
        Ok(())
    }
}
