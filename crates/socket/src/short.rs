// SPDX-License-Identifier: Apache-2.0
//! Connections that are too short to gain.
//!
//! To agree on a channel takes the daemon's answer thrice, some ten times what an exchange over the kernel costs more than one
//! over the rings. So a process counts what its connections to an address were used for. Where many in a row were short the
//! next ones are the kernel's, and their acceptors need not ask the daemon either; then one is tried again, and if it is
//! short, too, still more are left out.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use ipc::protocol::Fallback;

use crate::latch::Latch;
use crate::{process, reasons};

/// Messages of both directions that make up for the agreement.
const MESSAGES: u64 = 32;
/// Bytes that do.
const BYTES: u64 = 1 << 17;
/// Short connections in a row before any is left to the kernel.
const PATIENCE: u32 = 16;
/// Connections that are left out then, and at most.
const FIRST: u32 = 32;
const MOST: u32 = 4096;
/// Addresses that are remembered.
const ADDRESSES: usize = 64;

struct Record {
    address: SocketAddr,
    /// Short connections in a row.
    short: u32,
    /// Connections to leave out yet.
    left: u32,
    /// How many were left out last.
    spell: u32,
}

static RECORDS: Latch<Vec<Record>> = Latch::new(Vec::new());
static ANY: AtomicBool = AtomicBool::new(false);

/// Whether a connection to the address is better left to the kernel.
pub fn leaves_out(address: SocketAddr) -> bool {
    if !ANY.load(Ordering::Relaxed) {
        return false;
    }
    let mut records = RECORDS.lock();
    let record = records
        .iter_mut()
        .find(|record| record.address == address && record.left > 0);
    let Some(record) = record else {
        return false;
    };
    record.left -= 1;
    drop(records);
    reasons::note(Fallback::Short);
    true
}

/// What went one way over a connection.
#[derive(Debug, Clone, Copy)]
pub struct Carried {
    /// Messages, as the rings count them.
    pub messages: u64,
    /// Bytes in them.
    pub bytes: u64,
}

/// An accelerated connection to the address has ended, after this went out and came back.
pub fn ended(address: SocketAddr, out: Carried, back: Carried) {
    if !process::learns() {
        return;
    }
    let (messages, bytes) = (out.messages + back.messages, out.bytes + back.bytes);
    let mut records = RECORDS.lock();
    let at = records.iter().position(|record| record.address == address);
    let at = at.unwrap_or_else(|| {
        if records.len() == ADDRESSES {
            records.remove(0);
        }
        records.push(Record {
            address,
            short: 0,
            left: 0,
            spell: 0,
        });
        records.len() - 1
    });
    let record = &mut records[at];
    if messages >= MESSAGES || bytes >= BYTES {
        (record.short, record.spell) = (0, 0);
        return;
    }
    record.short = record.short.saturating_add(1);
    if record.short >= PATIENCE {
        record.spell = (record.spell * 4).clamp(FIRST, MOST);
        record.left = record.spell;
        ANY.store(true, Ordering::Relaxed);
    }
}

/// Before a fork, and after it.
pub(crate) fn before_fork() {
    RECORDS.acquire();
}

pub(crate) fn after_fork() {
    RECORDS.release();
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Carried = Carried {
        messages: 0,
        bytes: 0,
    };
    const BRIEF: Carried = Carried {
        messages: 2,
        bytes: 300,
    };

    /// Whether after so many of them all are still tried.
    fn all_are_tried(address: SocketAddr, out: Carried, back: Carried) -> bool {
        (0..1_000).all(|_| {
            ended(address, out, back);
            !leaves_out(address)
        })
    }

    #[test]
    fn what_is_short_is_left_out_and_tried_again() {
        let address: SocketAddr = "192.0.2.1:80".parse().unwrap();
        let mut tried = 0;
        for _ in 0..10_000 {
            if !leaves_out(address) {
                tried += 1;
                ended(address, BRIEF, BRIEF);
            }
        }
        // The first ones, and one after each spell.
        assert_eq!(tried, PATIENCE + 5);
        while leaves_out(address) {}
        let messages = Carried {
            messages: MESSAGES,
            bytes: 0,
        };
        ended(address, messages, NOTHING);
        let bytes = Carried {
            messages: 1,
            bytes: BYTES,
        };
        assert!(all_are_tried(address, bytes, NOTHING));
    }

    #[test]
    fn one_way_is_enough_and_both_ways_count() {
        let address: SocketAddr = "192.0.2.2:80".parse().unwrap();
        let (messages, bytes) = (MESSAGES / 2, BYTES / 2);
        for carried in [
            Carried { messages, bytes: 0 },
            Carried { messages: 0, bytes },
        ] {
            let whole = Carried {
                messages: 2 * carried.messages,
                bytes: 2 * carried.bytes,
            };
            assert!(all_are_tried(address, whole, NOTHING));
            assert!(all_are_tried(address, NOTHING, whole));
            assert!(all_are_tried(address, carried, carried));
        }
        assert!(!all_are_tried(address, BRIEF, NOTHING));
    }
}
