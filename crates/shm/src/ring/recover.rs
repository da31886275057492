// SPDX-License-Identifier: Apache-2.0
//! A ring whose sender died in the middle.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Header, LINE, Parsed, SenderState, TAG};

/// Makes good what a sender left undone that died with the ring in its hands. To publish a message is one store, of its tag;
/// what the sender says of its place comes after it. So:
///
/// - a message whose tag is there, or that the receiver has stepped over (`consumed`), counts as sent;
/// - of one without a tag nothing is left: what its body would have looked like in the place of a tag is cleared.
///
/// Whoever dies over this leaves it to the next one, who does the same again.
///
/// # Safety
/// `base` is aligned to 64 bytes, and `lines` lines from there on, a power of two, are mapped; the ring is this machine's alone.
pub(crate) unsafe fn recover_sender(
    state: &SenderState,
    base: *mut u8,
    lines: u32,
    credit: &AtomicU64,
    consumed: &AtomicU64,
) {
    let tag = |line: u64| {
        let place = (line as u32 & (lines - 1)) as usize * LINE;
        // SAFETY: inside of the ring and aligned, as all places of lines are.
        unsafe { AtomicU64::from_ptr(base.add(place + TAG).cast()) }
    };
    let most = u64::from(lines);
    let mut next = state.next.load(Ordering::Relaxed);
    let free = loop {
        let returned = credit.load(Ordering::Acquire);
        let used = next.wrapping_sub(returned);
        let word = if used < most {
            u64::from_le(tag(next).load(Ordering::Acquire))
        } else {
            // Where no line is free none was written: what lies there is older.
            0
        };
        // A receiver steps over a message before it clears its tag, and who sees it cleared sees that.
        let ahead = consumed.load(Ordering::Acquire).wrapping_sub(next);
        if (1..=most).contains(&ahead) {
            next = next.wrapping_add(ahead);
            continue;
        }
        match Header::parse(word, next, lines) {
            Parsed::Header(header) if used + u64::from(header.lines) <= most => {
                next = next.wrapping_add(u64::from(header.lines));
            }
            _ => break most.saturating_sub(used),
        }
    };
    state.next.store(next, Ordering::Release);
    for index in 0..free {
        tag(next.wrapping_add(index)).store(0, Ordering::Relaxed);
    }
}
