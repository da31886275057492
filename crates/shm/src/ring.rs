// SPDX-License-Identifier: Apache-2.0
//! The line ring: messages from one producer to one consumer through 64-byte lines.
//!
//! A line carries 56 bytes of data and an 8-byte tag. The tag holds the line's sequence number, so that the receiver
//! needs no index from the sender: it looks at the next line until the tag is the expected one. A message of up to
//! [`INLINE`] bytes is a single line, hence a single store, frame and DMA write. It begins as far in front of the tag as
//! it has whole DWs, so that a short message is one short store up to the end of its line: what lies in front of it is
//! not written, and nobody reads it. A longer one is a header line, of which only the tag is used, and raw lines behind
//! it; the raw lines are written first, and delivery is in order, so a valid header says that everything is there.
//!
//! [`Sender`] and [`Receiver`] work on any memory that is a [`Target`].
//!
//! Nothing of it blocks, allocates or enters the kernel. Each side is for one thread at a time: callers hold a lock.
//! If it is shared by processes one of them may die with it in its hands. Each step that another process sees is therefore one
//! store: a tag sends a message, `next` of the receiver takes it (with its offset for a part of it). All else follows from these
//! and is made good by whoever takes the lock from the dead: [`crate::channel::End::lock_sender`], [`Receiver::recover`].
//!
//! The receiver trusts nothing that lies in the ring: a tag that describes an impossible message marks the ring as
//! [corrupt](Receiver::is_corrupt), and nothing more is read from it.

mod copy;
mod receiver;
mod recover;
mod sender;
mod target;
mod written;

pub use copy::copy_out;
pub use receiver::{Message, Receiver, ReceiverState};
pub(crate) use recover::recover_sender;
pub use sender::{Full, Sender, SenderState};
pub use target::{Mapped, Target, assemble};
pub(crate) use written::written;

/// Bytes of a line.
pub const LINE: usize = 64;
/// Bytes of the longest message that fits into a single line.
pub const INLINE: usize = 56;
/// Kind of a line that says: the rest of the ring up to its end is unused.
pub const PAD: u8 = 0xFF;
/// Fewest lines a ring can have.
pub const MIN_LINES: u32 = 8;
/// Most bytes a tag can describe.
pub const MAX_LENGTH: usize = u16::MAX as usize;

/// Top byte of every tag: a cleared line is never valid.
const MAGIC: u64 = 0x5A;
/// Where the tag lies in its line.
const TAG: usize = INLINE;

/// Where in its line a message of `bytes` bytes begins, or what is written of the header of one that does not fit.
///
/// From there to the line's end all is one store, of whole DWs: what a NIC sends and writes without byte enables.
#[inline(always)]
#[must_use]
pub const fn begin(bytes: usize) -> usize {
    if bytes <= INLINE {
        (INLINE - bytes) & !3
    } else {
        TAG
    }
}

/// Lines that a message of `bytes` bytes takes.
#[inline(always)]
#[must_use]
pub const fn lines_for(bytes: usize) -> u32 {
    if bytes <= INLINE {
        1
    } else {
        1 + bytes.div_ceil(LINE) as u32
    }
}

/// The longest message of a ring with `lines` lines: a quarter of it, so that a returned quarter is always enough.
#[inline]
#[must_use]
pub const fn max_message(lines: u32) -> usize {
    let raw = (lines as usize / 4 - 1) * LINE;
    if raw > MAX_LENGTH { MAX_LENGTH } else { raw }
}

/// Whether a ring can have this many lines.
#[inline]
#[must_use]
pub const fn valid_lines(lines: u32) -> bool {
    lines >= MIN_LINES && lines.is_power_of_two()
}

/// The tag of the line with absolute number `line`.
#[inline(always)]
const fn tag(line: u64, length: usize, kind: u8) -> u64 {
    (line.wrapping_add(1) & 0xFFFF_FFFF)
        | ((length as u64) << 32)
        | ((kind as u64) << 48)
        | (MAGIC << 56)
}

/// What a valid tag says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Header {
    length: usize,
    kind: u8,
    /// Lines the message takes, its header included.
    lines: u32,
}

/// What the receiver makes of a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parsed {
    /// Nothing there yet.
    Empty,
    /// A message, or a pad.
    Header(Header),
    /// A tag that no sender writes.
    Corrupt,
}

impl Header {
    /// Reads the tag of absolute line `line` in a ring of `lines` lines.
    #[inline(always)]
    fn parse(word: u64, line: u64, lines: u32) -> Parsed {
        if (word ^ tag(line, 0, 0)) & 0xFF00_0000_FFFF_FFFF != 0 {
            return Parsed::Empty;
        }
        let length = ((word >> 32) & 0xFFFF) as usize;
        let kind = (word >> 48) as u8;
        let left = lines - (line as u32 & (lines - 1));
        if kind == PAD {
            // A sender pads only in front of a message that is too long for what is left.
            return if left < lines / 4 {
                Parsed::Header(Header {
                    length: 0,
                    kind,
                    lines: left,
                })
            } else {
                Parsed::Corrupt
            };
        }
        let needed = lines_for(length);
        if needed > left || needed > lines / 4 {
            Parsed::Corrupt
        } else {
            Parsed::Header(Header {
                length,
                kind,
                lines: needed,
            })
        }
    }
}

/// The tag of a line of its own, numbered `sequence`, that carries `length` bytes.
#[inline(always)]
#[must_use]
pub const fn line_tag(sequence: u32, length: usize) -> u64 {
    tag((sequence as u64).wrapping_sub(1), length, 0)
}

/// Bytes that a line of its own carries if its tag `word` is that of number `sequence`.
#[inline(always)]
#[must_use]
pub const fn line_length(word: u64, sequence: u32) -> Option<usize> {
    let length = ((word >> 32) & 0xFFFF) as usize;
    if length <= INLINE && word == line_tag(sequence, length) {
        Some(length)
    } else {
        None
    }
}
