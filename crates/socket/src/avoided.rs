// SPDX-License-Identifier: Apache-2.0
//! Addresses whose acceptors do not come to their channels.
//!
//! Who waits in vain for its acceptor goes over to the kernel after a while, which the next connections to the address are spared:
//! for two seconds at first, as the acceptor may just have been busy, and four times as long whenever the one that is tried then
//! waits in vain, too. A server whose workers may not talk to the daemon costs a client little in the long run.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::latch::Latch;
use crate::wait::clock;

/// For how long an address is left to the kernel, nanoseconds: the first time, and at most.
const FIRST: u64 = 2_000_000_000;
const MOST: u64 = 64 * FIRST;
/// Addresses that are remembered.
const ADDRESSES: usize = 64;

struct Record {
    address: SocketAddr,
    /// Until when it is the kernel's.
    until: u64,
    /// For how long that was.
    spell: u64,
}

struct Records(Vec<Record>);

static RECORDS: Latch<Records> = Latch::new(Records(Vec::new()));
static ANY: AtomicBool = AtomicBool::new(false);

/// An acceptor at the address did not come.
pub fn waited_in_vain(address: SocketAddr) {
    RECORDS.lock().waited_in_vain(address, clock::nanoseconds());
    ANY.store(true, Ordering::Relaxed);
}

/// An acceptor at the address has come.
pub fn came(address: SocketAddr) {
    if ANY.load(Ordering::Relaxed) {
        RECORDS.lock().came(address);
    }
}

/// Whether a connection to the address is better left to the kernel.
pub fn is_avoided(address: SocketAddr) -> bool {
    ANY.load(Ordering::Relaxed) && RECORDS.lock().is_avoided(address, clock::nanoseconds())
}

impl Records {
    fn waited_in_vain(&mut self, address: SocketAddr, now: u64) {
        let at = self.0.iter().position(|record| record.address == address);
        let mut record = at.map_or(
            Record {
                address,
                until: 0,
                spell: 0,
            },
            |at| self.0.remove(at),
        );
        // Of several that waited at once the first has said it.
        if record.until <= now {
            record.spell = (record.spell * 4).clamp(FIRST, MOST);
            record.until = now + record.spell;
        }
        if self.0.len() == ADDRESSES {
            self.0.remove(0);
        }
        self.0.push(record);
    }

    fn came(&mut self, address: SocketAddr) {
        self.0.retain(|record| record.address != address);
    }

    fn is_avoided(&self, address: SocketAddr, now: u64) -> bool {
        let mut records = self.0.iter();
        records.any(|record| record.address == address && now < record.until)
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

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    #[test]
    fn the_longer_in_vain_the_longer_avoided() {
        let mut records = Records(Vec::new());
        let mut now = 0;
        let mut spells = Vec::new();
        for _ in 0..5 {
            records.waited_in_vain(address(1), now);
            // Another one that has waited at the same time makes it no longer.
            records.waited_in_vain(address(1), now + 1_000_000);
            assert!(!records.is_avoided(address(2), now));
            let until = (now..)
                .step_by(FIRST as usize)
                .find(|at| !records.is_avoided(address(1), *at))
                .unwrap();
            spells.push((until - now) / FIRST);
            now = until;
        }
        assert_eq!(spells, [1, 4, 16, 64, 64]);
        records.came(address(1));
        assert!(!records.is_avoided(address(1), now));
        records.waited_in_vain(address(1), now);
        assert!(records.is_avoided(address(1), now + FIRST - 1));
        assert!(!records.is_avoided(address(1), now + FIRST));
    }

    #[test]
    fn the_latest_addresses_are_remembered() {
        let mut records = Records(Vec::new());
        let ports = 1..=2 * ADDRESSES as u16;
        for port in ports.clone() {
            records.waited_in_vain(address(port), 0);
        }
        let avoided = ports
            .clone()
            .filter(|port| records.is_avoided(address(*port), 1));
        assert!(avoided.eq(ADDRESSES as u16 + 1..=*ports.end()));
    }
}
