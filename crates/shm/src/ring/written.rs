// SPDX-License-Identifier: Apache-2.0
//! A ring seen by who carries its lines elsewhere.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Header, INLINE, LINE, PAD, Parsed, TAG, begin};

/// A message as it lies in a ring; offsets count from the ring's begin. Its bytes others may write: they are copied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written {
    /// Lines that it takes.
    pub lines: u32,
    /// Where its header line begins.
    pub line_at: usize,
    /// Where what is used of it begins, up to the line's end.
    pub head_at: usize,
    /// Where the lines behind it are.
    pub body_at: usize,
    /// Bytes there; none if the header carries all.
    pub body: usize,
}

/// The message whose header is line `line` of the ring of `lines` lines at `base`; `None` if there is none.
///
/// # Safety
/// `base` is aligned to 64 bytes, and `lines` lines from there on, a power of two, are mapped.
pub(crate) unsafe fn written(base: *const u8, lines: u32, line: u64) -> Option<Written> {
    let place = (line as u32 & (lines - 1)) as usize * LINE;
    // SAFETY: inside of the ring and aligned, as all places of lines are.
    let tag = unsafe { AtomicU64::from_ptr(base.add(place + TAG).cast_mut().cast()) };
    let Parsed::Header(header) =
        Header::parse(u64::from_le(tag.load(Ordering::Acquire)), line, lines)
    else {
        return None;
    };
    let body = if header.kind == PAD || header.length <= INLINE {
        0
    } else {
        header.length
    };
    // `Header::parse` accepts only messages that lie inside of the ring.
    Some(Written {
        lines: header.lines,
        line_at: place,
        head_at: place + begin(header.length),
        body_at: place + LINE,
        body,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::super::{Mapped, Sender, SenderState};
    use super::*;

    #[test]
    fn messages_are_found_as_they_were_sent() {
        #[repr(align(64))]
        struct Memory([u8; 16 * LINE]);
        let mut memory = Box::new(Memory([0; 16 * LINE]));
        let base = memory.0.as_mut_ptr();
        let (state, credit) = (SenderState::default(), AtomicU64::new(0));
        // SAFETY: the memory is aligned and outlives the target.
        let target = unsafe { Mapped::new(base, 16 * LINE) };
        let sender = Sender::new(&state, &target, 0, 16, &credit);
        sender.try_send(1, &[b"short"]).expect("there is room");
        sender.try_send(1, &[&[7; 100]]).expect("there is room");
        // SAFETY: as above.
        let at = |line| unsafe { written(base, 16, line) };
        let bytes = |at, count| {
            let mut bytes = vec![0; count];
            // SAFETY: as above; the places are inside.
            unsafe { super::super::copy::copy_out(base.add(at), bytes.as_mut_ptr(), count) };
            bytes
        };
        let first = at(0).expect("a message");
        assert_eq!((first.lines, first.line_at, first.head_at), (1, 0, 48));
        assert_eq!(
            (first.body, bytes(first.head_at, 5)),
            (0, b"short".to_vec())
        );
        let second = at(1).expect("a message");
        assert_eq!(
            (second.lines, second.head_at, second.body_at),
            (3, 120, 128)
        );
        assert_eq!(bytes(second.body_at, second.body), [7; 100]);
        assert!(at(4).is_none());
        // To the end of the ring: then one that does not fit there, behind a pad.
        credit.store(4, Ordering::Relaxed);
        for _ in 0..3 {
            sender.try_send(1, &[&[8; 100]]).expect("there is room");
        }
        sender.try_send(1, &[b"x"]).expect("there is room");
        credit.store(14, Ordering::Relaxed);
        sender.try_send(1, &[&[9; 150]]).expect("there is room");
        let pad = at(14).expect("a pad");
        assert_eq!((pad.lines, pad.body), (2, 0));
        let last = at(16).expect("behind it");
        assert_eq!(bytes(last.body_at, last.body), [9; 150]);
    }
}
