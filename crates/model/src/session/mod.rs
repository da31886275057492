// SPDX-License-Identifier: Apache-2.0
//! Sessions: the reliable connections to peers. `docs/wire-format.md` says what travels, this is who remembers what.

mod engine;
pub mod receiver;
pub mod sender;
pub mod timers;

use wire::seal::{LAST_PACKET, Sealer};
use wire::{KeyEntry, SessionEntry, SessionPort};

use crate::tables::Table;
use receiver::Receiver;
use sender::{SendBuffer, Sender};
use timers::Timers;

pub(crate) use engine::{Mark, Outgoing, Ticket};

/// Keys of a sealed session, and the packet numbers that were used with them.
#[derive(Clone, Debug)]
struct Keys {
    tx: Sealer,
    rx: Sealer,
    last_sent: u64,
    last_taken: u64,
}

/// Both halves of a session.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// What is sent.
    pub sender: Sender,
    /// What is received.
    pub receiver: Receiver,
    keys: Option<Keys>,
}

/// All sessions of a NIC.
#[derive(Clone, Debug)]
pub struct Sessions {
    /// What software wrote.
    pub(crate) table: Table<SessionEntry>,
    pub(crate) sessions: Vec<Session>,
    pub(crate) buffer: SendBuffer,
    pub(crate) timers: Timers,
    staged_key: [u32; KeyEntry::DWS],
}

impl Sessions {
    /// No session is valid yet.
    pub fn new(sessions: usize, send_slots: usize) -> Self {
        Self {
            table: Table::new(sessions),
            sessions: vec![Session::default(); sessions],
            buffer: SendBuffer::new(send_slots),
            timers: Timers::new(sessions),
            staged_key: [0; KeyEntry::DWS],
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether the NIC has no sessions at all.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// A session's state; `None` beyond the table.
    pub fn get(&self, session: u8) -> Option<&Session> {
        self.sessions.get(usize::from(session))
    }

    /// The entry of a valid session.
    pub fn valid(&self, session: u8) -> Option<&SessionEntry> {
        let entry = self.table.get(usize::from(session))?;
        entry.valid.then_some(entry)
    }

    /// Line 9b: the sequence number that the session of this source port expects, if the frame is from its peer.
    pub(crate) fn known(&self, port: SessionPort, ip: u32, sealed: bool) -> Option<u32> {
        let entry = self.valid(port.index)?;
        let same = entry.epoch == port.epoch && entry.ip == ip && entry.sealed == sealed;
        let session = self.get(port.index)?;
        same.then_some(session.receiver.expected)
    }

    /// Opens a frame whose sealed payload ends at `end`: the plain frame is in `room` afterwards. An error: it does not
    /// open, or is not newer than what was taken before.
    pub(crate) fn open(&self, frame: &[u8], end: usize, room: &mut Vec<u8>) -> Opened {
        room.clear();
        room.extend_from_slice(&frame[..end]);
        let port = u16::from_be_bytes([frame[34], frame[35]]);
        let index = SessionPort::from_port(port).map(|port| port.index);
        let sealed = index.filter(|index| self.valid(*index).is_some_and(|entry| entry.sealed));
        let keys = sealed.and_then(|index| self.get(index)?.keys.as_ref());
        let (Some(index), Some(keys)) = (index, keys) else {
            return Err(());
        };
        let packet = keys.rx.open_frame(room).map_err(|_| ())?;
        if packet <= keys.last_taken {
            return Err(());
        }
        Ok((index, packet))
    }

    /// A sealed frame was opened: older ones are refused from now on.
    pub(crate) fn opened(&mut self, session: u8, packet: u64) {
        if let Some(keys) = &mut self.sessions[usize::from(session)].keys {
            keys.last_taken = packet;
        }
    }

    /// Whether frames can be sent in the session: it is valid, and has a key if it needs one.
    pub(crate) fn can_send(&self, session: u8) -> bool {
        self.valid(session).is_some_and(|entry| {
            let keys = self.sessions[usize::from(session)].keys.as_ref();
            !entry.sealed || keys.is_some_and(|keys| keys.last_sent < LAST_PACKET)
        })
    }

    /// Seals a frame of a session, if the session is a sealed one.
    pub(crate) fn seal(&mut self, session: u8, frame: &mut Vec<u8>) {
        if !self.valid(session).is_some_and(|entry| entry.sealed) {
            return;
        }
        let Some(keys) = &mut self.sessions[usize::from(session)].keys else {
            return;
        };
        keys.last_sent += 1;
        keys.tx
            .seal_frame(frame, keys.last_sent)
            .expect("can_send was asked, and frames of the builder have payloads");
    }

    /// Writes a DW of the window of keys; `None` beyond it.
    pub(crate) fn write_key(&mut self, offset: usize, value: u32) -> Option<()> {
        let session = self.sessions.get_mut(offset / KeyEntry::BYTES)?;
        let dw = offset % KeyEntry::BYTES / 4;
        self.staged_key[dw] = value;
        if dw + 1 == KeyEntry::DWS {
            let key = KeyEntry::from_dws(&self.staged_key);
            session.keys = Some(Keys {
                tx: Sealer::new(key.tx_key, key.tx_salt),
                rx: Sealer::new(key.rx_key, key.rx_salt),
                last_sent: 0,
                last_taken: 0,
            });
        }
        Some(())
    }
}

/// Session and packet number of a sealed frame, or that it is a bad one.
pub(crate) type Opened = Result<(u8, u64), ()>;
