// SPDX-License-Identifier: Apache-2.0
//! What the ends of a stream channel may do, by their flags alone: the one table that the socket library works by and that its
//! model checks (`crates/socket/tests/protocol.rs`).
//!
//! Each function tells what a step makes of the flags, or that it may not be taken. Whoever takes it exchanges the word for
//! what the function made of it, and asks again if somebody else was there first.

use super::flags::{ABANDONED, ATTACHED, CLOSED, PASSED, READS_ON, RESET, RETIRED, REVOKED};

/// The owner comes to its channel. None: it was given up.
#[must_use]
pub const fn take(own: u32) -> Option<u32> {
    if own & ABANDONED != 0 {
        return None;
    }
    Some(own | ATTACHED)
}

/// The peer of the end with these flags waits for it no longer. None: it has come.
#[must_use]
pub const fn give_up(awaited: u32) -> Option<u32> {
    if awaited & ATTACHED != 0 {
        return None;
    }
    Some(awaited | ABANDONED)
}

/// The end leaves the rings, holding all locks; `reads_on`: it still reads its own to the end. None: it must not, since an end has
/// not come, has ended, or has left before.
#[must_use]
pub const fn retire(own: u32, peer: u32, reads_on: bool) -> Option<u32> {
    let ends = CLOSED | RESET | REVOKED | RETIRED;
    if own & peer & ATTACHED == 0 || (own | peer) & ends != 0 {
        return None;
    }
    Some(own | RETIRED | if reads_on { READS_ON } else { 0 })
}

/// The end that has left reads on no longer, holding the lock for receiving: its peer sends on what is left, and takes this step
/// itself before it does. None: it has not left.
#[must_use]
pub const fn stop_reading(own: u32) -> Option<u32> {
    if own & RETIRED == 0 {
        return None;
    }
    Some(own & !READS_ON)
}

/// The end that has left comes back, holding all locks, since its peer has died before it did anything about it: what that has
/// sent lies in the ring, and nowhere else.
#[must_use]
pub const fn come_back(own: u32) -> u32 {
    own & !(RETIRED | READS_ON | PASSED)
}

/// Whether the end may write into its ring, holding its lock for sending.
#[must_use]
pub const fn may_write(own: u32, peer: u32) -> bool {
    peer & ABANDONED == 0 && (own | peer) & RETIRED == 0
}

/// Whether the end reads its ring, holding its lock for receiving.
#[must_use]
pub const fn may_read(own: u32, peer: u32) -> bool {
    own & (RETIRED | READS_ON) != RETIRED && peer & PASSED == 0
}

/// Whether the end may begin to ring. Those who retire close the count of bells besides.
#[must_use]
pub const fn may_ring(peer: u32) -> bool {
    peer & ATTACHED != 0
}

/// Whether a byte in the end's twin, beyond the bells that were counted, can be anything but a bell.
#[must_use]
pub const fn may_hold_data(own: u32, peer: u32) -> bool {
    own & peer & ATTACHED == 0 || (own | peer) & RETIRED != 0
}
