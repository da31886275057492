// SPDX-License-Identifier: Apache-2.0
//! A packet: its headers, all of them, of which its opcode says which are there.

/// Opcodes of the reliable service, by the names of the specification.
pub mod opcode {
    #![allow(missing_docs)]
    pub const SEND_FIRST: u8 = 0x00;
    pub const SEND_MIDDLE: u8 = 0x01;
    pub const SEND_LAST: u8 = 0x02;
    pub const SEND_LAST_IMM: u8 = 0x03;
    pub const SEND_ONLY: u8 = 0x04;
    pub const SEND_ONLY_IMM: u8 = 0x05;
    pub const WRITE_FIRST: u8 = 0x06;
    pub const WRITE_MIDDLE: u8 = 0x07;
    pub const WRITE_LAST: u8 = 0x08;
    pub const WRITE_LAST_IMM: u8 = 0x09;
    pub const WRITE_ONLY: u8 = 0x0A;
    pub const WRITE_ONLY_IMM: u8 = 0x0B;
    pub const READ_REQUEST: u8 = 0x0C;
    pub const READ_RESPONSE_FIRST: u8 = 0x0D;
    pub const READ_RESPONSE_MIDDLE: u8 = 0x0E;
    pub const READ_RESPONSE_LAST: u8 = 0x0F;
    pub const READ_RESPONSE_ONLY: u8 = 0x10;
    pub const ACKNOWLEDGE: u8 = 0x11;
    pub const ATOMIC_ACKNOWLEDGE: u8 = 0x12;
    pub const COMPARE_SWAP: u8 = 0x13;
    pub const FETCH_ADD: u8 = 0x14;
    pub const SEND_LAST_INV: u8 = 0x16;
    pub const SEND_ONLY_INV: u8 = 0x17;
    pub const UD_SEND_ONLY: u8 = 0x64;
    pub const UD_SEND_ONLY_IMM: u8 = 0x65;

    /// All that the engine knows.
    pub const ALL: [u8; 25] = [
        SEND_FIRST,
        SEND_MIDDLE,
        SEND_LAST,
        SEND_LAST_IMM,
        SEND_ONLY,
        SEND_ONLY_IMM,
        WRITE_FIRST,
        WRITE_MIDDLE,
        WRITE_LAST,
        WRITE_LAST_IMM,
        WRITE_ONLY,
        WRITE_ONLY_IMM,
        READ_REQUEST,
        READ_RESPONSE_FIRST,
        READ_RESPONSE_MIDDLE,
        READ_RESPONSE_LAST,
        READ_RESPONSE_ONLY,
        ACKNOWLEDGE,
        ATOMIC_ACKNOWLEDGE,
        COMPARE_SWAP,
        FETCH_ADD,
        SEND_LAST_INV,
        SEND_ONLY_INV,
        UD_SEND_ONLY,
        UD_SEND_ONLY_IMM,
    ];
}

/// A header behind the BTH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// Remote address, key and length.
    Reth,
    /// Immediate, or a key to invalidate.
    Word,
    /// Syndrome and number of messages.
    Aeth,
    /// What an atomic found.
    Original,
    /// Remote address, key, and the operands of an atomic.
    Atomic,
    /// Q_Key and source of a datagram.
    Deth,
}

impl Header {
    /// Bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Word | Self::Aeth => 4,
            Self::Original | Self::Deth => 8,
            Self::Reth => 16,
            Self::Atomic => 28,
        }
    }

    /// Those of an opcode, in their order; none for one that the engine does not know.
    #[must_use]
    pub const fn of(opcode: u8) -> Option<&'static [Self]> {
        use opcode::{
            ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE, COMPARE_SWAP, FETCH_ADD, READ_REQUEST,
            READ_RESPONSE_FIRST, READ_RESPONSE_LAST, READ_RESPONSE_MIDDLE, READ_RESPONSE_ONLY,
            SEND_FIRST, SEND_LAST, SEND_LAST_IMM, SEND_LAST_INV, SEND_MIDDLE, SEND_ONLY,
            SEND_ONLY_IMM, SEND_ONLY_INV, UD_SEND_ONLY, UD_SEND_ONLY_IMM, WRITE_FIRST, WRITE_LAST,
            WRITE_LAST_IMM, WRITE_MIDDLE, WRITE_ONLY, WRITE_ONLY_IMM,
        };
        Some(match opcode {
            SEND_FIRST | SEND_MIDDLE | SEND_LAST | SEND_ONLY | WRITE_MIDDLE | WRITE_LAST
            | READ_RESPONSE_MIDDLE => &[],
            SEND_LAST_IMM | SEND_ONLY_IMM | SEND_LAST_INV | SEND_ONLY_INV | WRITE_LAST_IMM => {
                &[Self::Word]
            }
            WRITE_FIRST | WRITE_ONLY | READ_REQUEST => &[Self::Reth],
            WRITE_ONLY_IMM => &[Self::Reth, Self::Word],
            READ_RESPONSE_FIRST | READ_RESPONSE_LAST | READ_RESPONSE_ONLY | ACKNOWLEDGE => {
                &[Self::Aeth]
            }
            ATOMIC_ACKNOWLEDGE => &[Self::Aeth, Self::Original],
            COMPARE_SWAP | FETCH_ADD => &[Self::Atomic],
            UD_SEND_ONLY => &[Self::Deth],
            UD_SEND_ONLY_IMM => &[Self::Deth, Self::Word],
            _ => return None,
        })
    }
}

/// A packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// The other end's MAC address: who sent it, or who is to have it.
    pub mac: u64,
    /// Its IPv4 address.
    pub ip: u32,
    /// UDP source port.
    pub port: u16,
    /// The network has marked congestion.
    pub congestion: bool,
    /// Opcode.
    pub opcode: u8,
    /// The receiver may want an event.
    pub solicited: bool,
    /// An acknowledgement is asked for.
    pub ack_req: bool,
    /// Destination queue pair.
    pub qpn: u32,
    /// Packet sequence number.
    pub psn: u32,
    /// RETH, AtomicETH.
    pub va: u64,
    /// RETH, AtomicETH; DETH: Q_Key.
    pub key: u32,
    /// RETH; DETH: source.
    pub length: u32,
    /// AtomicETH: swap or add; AtomicAckETH: the value before.
    pub swap: u64,
    /// AtomicETH.
    pub compare: u64,
    /// Immediate, or key to invalidate.
    pub imm: u32,
    /// AETH.
    pub syndrome: u8,
    /// AETH.
    pub msn: u32,
    /// Payload without its padding.
    pub payload: Vec<u8>,
}

impl Packet {
    /// It goes from a responder to a requester.
    #[must_use]
    pub const fn is_response(&self) -> bool {
        matches!(
            self.opcode,
            opcode::READ_RESPONSE_FIRST..=opcode::ATOMIC_ACKNOWLEDGE
        )
    }

    /// Only these carry payload.
    #[must_use]
    pub const fn may_have_payload(opcode: u8) -> bool {
        !matches!(
            opcode,
            opcode::READ_REQUEST | opcode::ACKNOWLEDGE..=opcode::FETCH_ADD
        )
    }
}

impl Packet {
    /// It without the fields that its opcode does not carry.
    #[must_use]
    pub fn relevant(mut self) -> Self {
        let headers = Header::of(self.opcode).unwrap_or(&[]);
        let has = |header| headers.contains(&header);
        if !has(Header::Reth) && !has(Header::Atomic) {
            self.va = 0;
        }
        if !has(Header::Reth) && !has(Header::Atomic) && !has(Header::Deth) {
            self.key = 0;
        }
        if !has(Header::Reth) && !has(Header::Deth) {
            self.length = 0;
        }
        if !has(Header::Original) && !has(Header::Atomic) {
            self.swap = 0;
        }
        if !has(Header::Atomic) {
            self.compare = 0;
        }
        if !has(Header::Word) {
            self.imm = 0;
        }
        if !has(Header::Aeth) {
            (self.syndrome, self.msn) = (0, 0);
        }
        self
    }
}
