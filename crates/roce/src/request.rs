// SPDX-License-Identifier: Apache-2.0
//! What a host asks for, and what it is told.

/// What a work request is, as the send queue's entries number it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Operation {
    /// A message.
    Send,
    /// One with an immediate.
    SendImm,
    /// One that ends a key at the peer.
    SendInv,
    /// RDMA WRITE.
    Write,
    /// One that takes a receive buffer, for its immediate.
    WriteImm,
    /// RDMA READ.
    Read,
    /// Compare and swap.
    CompareSwap,
    /// Fetch and add.
    FetchAdd,
    /// None that the engine knows.
    Unknown,
}

impl Operation {
    /// All that there are.
    pub const ALL: [Self; 8] = [
        Self::Send,
        Self::SendImm,
        Self::SendInv,
        Self::Write,
        Self::WriteImm,
        Self::Read,
        Self::CompareSwap,
        Self::FetchAdd,
    ];

    /// Takes a receive buffer.
    #[must_use]
    pub const fn is_send(self) -> bool {
        matches!(self, Self::Send | Self::SendImm | Self::SendInv)
    }

    /// With or without an immediate.
    #[must_use]
    pub const fn is_write(self) -> bool {
        matches!(self, Self::Write | Self::WriteImm)
    }

    /// One of eight bytes.
    #[must_use]
    pub const fn is_atomic(self) -> bool {
        matches!(self, Self::CompareSwap | Self::FetchAdd)
    }

    /// It ends with what its answer brings.
    #[must_use]
    pub const fn waits(self) -> bool {
        self.is_atomic() || matches!(self, Self::Read)
    }
}

/// Part of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Address.
    pub va: u64,
    /// Key.
    pub key: u32,
    /// Bytes.
    pub bytes: u32,
}

/// A work request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkRequest {
    /// What it is.
    pub operation: Operation,
    /// Its success is told, too.
    pub signaled: bool,
    /// The peer may want an event.
    pub solicited: bool,
    /// It waits for READs and atomics before it.
    pub fence: bool,
    /// Its data, if they are in the entry.
    pub inline: Option<Vec<u8>>,
    /// Where its data lie, or shall lie. One alone has [`WorkRequest::length`] bytes.
    pub segments: Vec<Segment>,
    /// Bytes of all segments.
    pub length: u32,
    /// Address at the peer.
    pub remote_va: u64,
    /// Key at the peer.
    pub remote_key: u32,
    /// Immediate, or the key to invalidate.
    pub imm: u32,
    /// What is swapped in or added.
    pub swap: u64,
    /// With what it is compared.
    pub compare: u64,
}

impl WorkRequest {
    /// A signaled one with the length of its segments.
    #[must_use]
    pub fn new(operation: Operation, segments: Vec<Segment>) -> Self {
        Self {
            operation,
            signaled: true,
            solicited: false,
            fence: false,
            inline: None,
            length: segments.iter().fold(0, |sum, s| sum.wrapping_add(s.bytes)),
            segments,
            remote_va: 0,
            remote_key: 0,
            imm: 0,
            swap: 0,
            compare: 0,
        }
    }

    /// Its segments, with the length of one that is alone.
    pub(crate) fn list(&self) -> Vec<Segment> {
        match self.segments[..] {
            [one] => vec![Segment {
                bytes: self.length,
                ..one
            }],
            _ => self.segments.clone(),
        }
    }
}

/// How a work request has ended, by the numbers of `ibv_wc_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// Well.
    Success = 0,
    /// A length is wrong.
    LocalLength = 1,
    /// There is no such operation.
    LocalOperation = 2,
    /// Own memory may not be used so.
    LocalProtection = 4,
    /// The queue pair had stopped before.
    Flushed = 5,
    /// An answer that does not belong to the request.
    BadResponse = 7,
    /// The peer calls it invalid.
    RemoteInvalid = 9,
    /// The peer does not permit it.
    RemoteAccess = 10,
    /// The peer cannot do it.
    RemoteOperation = 11,
    /// The peer does not answer.
    Retry = 12,
    /// The peer is never ready.
    NotReady = 13,
}

/// A completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Of the receive queue.
    pub is_receive: bool,
    /// Of the work request's entry.
    pub index: u16,
    /// The number of its [`Status`].
    pub status: u8,
    /// Of a success: bytes received, or read.
    pub bytes: u32,
    /// Of a success: the operation; of a receive: the opcode of its last packet.
    pub operation: u8,
    /// Immediate.
    pub imm: Option<u32>,
    /// Key that the peer has ended.
    pub invalidated: Option<u32>,
}

impl Completion {
    /// One without more than its status.
    #[must_use]
    pub const fn plain(is_receive: bool, index: u16, status: Status) -> Self {
        Self {
            is_receive,
            index,
            status: status as u8,
            bytes: 0,
            operation: 0,
            imm: None,
            invalidated: None,
        }
    }
}
