// SPDX-License-Identifier: Apache-2.0
//! A ring seen by who carries its lines elsewhere.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Header, INLINE, LINE, PAD, Parsed, TAG, begin};

/// A message as it lies in a ring; offsets count from the ring's begin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written<'a> {
    /// Lines that it takes.
    pub lines: u32,
    /// Where what is used of its header line begins.
    pub head_at: usize,
    /// What is used of the header line, up to the line's end.
    pub head: &'a [u8],
    /// All of the header line.
    pub line: &'a [u8],
    /// Where the lines behind it are.
    pub body_at: usize,
    /// Its bytes there; none if the header carries all.
    pub body: &'a [u8],
}

/// The message whose header is line `line` of the ring of `lines` lines at `base`; `None` if there is none.
///
/// # Safety
/// `base` is aligned to 64 bytes, and `lines` lines from there on, a power of two, are mapped for `'a`.
pub(crate) unsafe fn written<'a>(base: *const u8, lines: u32, line: u64) -> Option<Written<'a>> {
    let place = (line as u32 & (lines - 1)) as usize * LINE;
    // SAFETY: inside of the ring and aligned, as all places of lines are.
    let tag = unsafe { AtomicU64::from_ptr(base.add(place + TAG).cast_mut().cast()) };
    let Parsed::Header(header) =
        Header::parse(u64::from_le(tag.load(Ordering::Acquire)), line, lines)
    else {
        return None;
    };
    let bytes = if header.kind == PAD || header.length <= INLINE {
        0
    } else {
        header.length
    };
    let used = begin(header.length);
    let head_at = place + used;
    let body_at = place + LINE;
    // SAFETY: `Header::parse` accepts only messages that lie inside of the ring; without a body nothing of it is used.
    let (line, body) = unsafe {
        (
            std::slice::from_raw_parts(base.add(place), LINE),
            std::slice::from_raw_parts(base.wrapping_add(body_at), bytes),
        )
    };
    Some(Written {
        lines: header.lines,
        head_at,
        head: &line[used..],
        line,
        body_at,
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
        let first = at(0).expect("a message");
        assert_eq!((first.lines, first.head_at, first.body.len()), (1, 48, 0));
        assert_eq!((first.head.len(), &first.head[..5]), (16, &b"short"[..]));
        let second = at(1).expect("a message");
        assert_eq!(
            (second.lines, second.head_at, second.body_at),
            (3, 120, 128)
        );
        assert_eq!(second.head.len(), 8);
        assert_eq!(second.body, [7; 100]);
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
        assert_eq!((pad.lines, pad.body.len()), (2, 0));
        assert_eq!(at(16).expect("behind it").body, [9; 150]);
    }
}
