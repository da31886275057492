// SPDX-License-Identifier: Apache-2.0
//! Sessions: the reliable connections to peers. `docs/wire-format.md` says what travels, this is who remembers what.

mod engine;
pub mod receiver;
pub mod sender;
pub mod timers;

use wire::seal::{LAST_PACKET, Phase, Sealer, packet_number};
use wire::{KeyEntry, KeyUse, PAYLOAD_OFFSET, SessionEntry, SessionPort};

use crate::tables::Table;
use receiver::Receiver;
use sender::{SendBuffer, Sender};
use timers::Timers;

pub(crate) use engine::{Mark, Outgoing, Ticket};

/// A key of a sealed session, and the last packet number that was used with it.
#[derive(Clone, Debug)]
struct Key {
    sealer: Sealer,
    last: u64,
}

/// Keys of a sealed session: what it sends with, and by phase what it receives with.
#[derive(Clone, Debug, Default)]
struct Keys {
    tx: Option<Key>,
    rx: [Option<Key>; 2],
}

impl Key {
    fn new(key: [u8; 16], salt: [u8; 4], phase: Phase) -> Option<Self> {
        let sealer = Sealer::new(key, salt).in_phase(phase);
        Some(Self { sealer, last: 0 })
    }
}

impl Keys {
    fn write(&mut self, entry: &KeyEntry, what: KeyUse) {
        let tx = |phase| Key::new(entry.tx_key, entry.tx_salt, phase);
        let rx = |phase| Key::new(entry.rx_key, entry.rx_salt, phase);
        match what {
            KeyUse::Begin => {
                self.tx = tx(false);
                self.rx = [rx(false), None];
            }
            KeyUse::Receive(phase) => self.rx[usize::from(phase)] = rx(phase),
            KeyUse::Send(phase) => self.tx = tx(phase),
        }
    }
}

/// Both halves of a session.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// What is sent.
    pub sender: Sender,
    /// What is received.
    pub receiver: Receiver,
    keys: Keys,
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

    /// Whether there is one.
    pub(crate) fn any(&self) -> bool {
        (0..self.sessions.len()).any(|session| self.valid(session as u8).is_some())
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
        let session = sealed.and_then(|index| self.get(index));
        let (phase, _) = packet_number(&room[PAYLOAD_OFFSET..]).ok_or(())?;
        let key = session.and_then(|session| session.keys.rx[usize::from(phase)].as_ref());
        let (Some(session), Some(key)) = (index, key) else {
            return Err(());
        };
        let packet = key.sealer.open_frame(room).map_err(|_| ())?;
        if packet <= key.last {
            return Err(());
        }
        Ok(Seal {
            session,
            phase,
            packet,
        })
    }

    /// A sealed frame was opened: older ones under its key are refused from now on.
    pub(crate) fn opened(&mut self, seal: &Seal) {
        let keys = &mut self.sessions[usize::from(seal.session)].keys;
        if let Some(key) = &mut keys.rx[usize::from(seal.phase)] {
            key.last = seal.packet;
        }
    }

    /// Frames that were sealed with the key that a session sends with now, the last packet number.
    pub fn sealed_frames(&self, session: u8) -> u64 {
        let key = self.get(session).and_then(|it| it.keys.tx.as_ref());
        key.map_or(0, |key| key.last)
    }

    /// Whether frames can be sent in the session: it is valid, and has a key if it needs one.
    pub(crate) fn can_send(&self, session: u8) -> bool {
        self.valid(session).is_some_and(|entry| {
            let key = self.sessions[usize::from(session)].keys.tx.as_ref();
            !entry.sealed || key.is_some_and(|key| key.last < LAST_PACKET)
        })
    }

    /// Seals a frame of a session, if the session is a sealed one.
    pub(crate) fn seal(&mut self, session: u8, frame: &mut Vec<u8>) {
        if !self.valid(session).is_some_and(|entry| entry.sealed) {
            return;
        }
        let Some(key) = &mut self.sessions[usize::from(session)].keys.tx else {
            return;
        };
        key.last += 1;
        key.sealer
            .seal_frame(frame, key.last)
            .expect("can_send was asked, and frames of the builder have payloads");
    }

    /// Writes a DW of the window of keys; `None` beyond it.
    pub(crate) fn write_key(&mut self, offset: usize, value: u32) -> Option<()> {
        let session = self.sessions.get_mut(offset / KeyEntry::BYTES)?;
        let dw = offset % KeyEntry::BYTES / 4;
        self.staged_key[dw] = value;
        if dw + 1 == KeyEntry::DWS {
            let entry = KeyEntry::from_dws(&self.staged_key);
            if let Some(what) = KeyUse::from_dw(value) {
                session.keys.write(&entry, what);
            }
        }
        Some(())
    }
}

/// Whose a sealed frame is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seal {
    session: u8,
    phase: Phase,
    packet: u64,
}

/// Whose a sealed frame is, or that it is a bad one.
pub(crate) type Opened = Result<Seal, ()>;

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: SessionPort = SessionPort { epoch: 5, index: 1 };

    fn keys(number: u8) -> KeyEntry {
        KeyEntry {
            tx_key: [number; 16],
            rx_key: [0x80 + number; 16],
            tx_salt: [number; 4],
            rx_salt: [0x80 + number; 4],
        }
    }

    fn write(sessions: &mut Sessions, number: u8, what: KeyUse) {
        for (dw, value) in keys(number).to_dws_for(what).into_iter().enumerate() {
            let at = KeyEntry::BYTES * usize::from(PORT.index) + 4 * dw;
            sessions.write_key(at, value).expect("session 1 is there");
        }
    }

    fn begun() -> Sessions {
        let mut sessions = Sessions::new(2, 4);
        let entry = SessionEntry {
            epoch: PORT.epoch,
            sealed: true,
            valid: true,
            port: PORT.to_port(),
            ..SessionEntry::default()
        };
        for (dw, value) in entry.to_dws().into_iter().enumerate() {
            let written = sessions.table.write_dw(SessionEntry::BYTES + 4 * dw, value);
            written.expect("session 1 is there");
        }
        write(&mut sessions, 0, KeyUse::Begin);
        sessions
    }

    fn plain() -> Vec<u8> {
        let control = wire::Control::Acknowledgement {
            expected: 0,
            interval: 0,
        };
        let frame = wire::Frame {
            dst_mac: wire::Mac::from_u64(1),
            src_mac: wire::Mac::from_u64(2),
            src_ip: [10, 0, 0, 1].into(),
            dst_ip: [10, 0, 0, 2].into(),
            src_port: PORT.to_port(),
            dst_port: wire::UDP_PORT,
            payload: wire::Payload::Control(control),
        };
        frame.emit(0).expect("sound")
    }

    /// Whether a frame with this key and packet number is taken.
    fn takes(sessions: &mut Sessions, number: u8, packet: u64) -> bool {
        let keys = keys(number);
        let sealer = Sealer::new(keys.rx_key, keys.rx_salt).in_phase(number % 2 == 1);
        let mut frame = plain();
        sealer.seal_frame(&mut frame, packet).expect("48 bits");
        let end = 34 + usize::from(u16::from_be_bytes([frame[38], frame[39]]));
        let opened = sessions.open(&frame, end, &mut Vec::new());
        opened.map(|seal| sessions.opened(&seal)).is_ok()
    }

    #[test]
    fn late_frames_count_until_the_key_after_the_next_comes() {
        let mut sessions = begun();
        let first = KeyUse::Receive(true);
        assert!(takes(&mut sessions, 0, 7) && !takes(&mut sessions, 1, 1));
        write(&mut sessions, 1, first);
        assert!(takes(&mut sessions, 1, 1), "its numbers begin anew");
        assert!(takes(&mut sessions, 0, 9), "it was on its way");
        assert!(!takes(&mut sessions, 0, 9), "once");
        assert!(!takes(&mut sessions, 1, 1));
        write(&mut sessions, 2, KeyUse::Receive(false));
        assert!(!takes(&mut sessions, 0, 10), "its place is taken");
        assert!(takes(&mut sessions, 2, 1) && takes(&mut sessions, 1, 2));
        write(&mut sessions, 0, KeyUse::Begin);
        assert!(!takes(&mut sessions, 1, 3), "all are forgotten");
        assert!(takes(&mut sessions, 0, 1));
    }

    #[test]
    fn the_next_frame_has_the_key_that_was_written() {
        let mut sessions = begun();
        let mut packets = Vec::new();
        for number in [None, None, Some(1), None, Some(2)] {
            if let Some(number) = number {
                write(&mut sessions, number, KeyUse::Send(number % 2 == 1));
            }
            let mut frame = plain();
            sessions.seal(PORT.index, &mut frame);
            packets.push(packet_number(&frame[PAYLOAD_OFFSET..]).expect("sealed"));
        }
        let expected = [(false, 1), (false, 2), (true, 1), (true, 2), (false, 1)];
        assert_eq!(packets, expected);
        assert_eq!(sessions.sealed_frames(PORT.index), 1);
    }
}
