// SPDX-License-Identifier: Apache-2.0
//! What can be chosen.

use std::time::Duration;

/// How a NIC in software is built, and how patient it is. Its clock has microseconds, unless `tick` says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// What passes for a microsecond: more for peers that are slow because they are simulated.
    pub tick: Duration,
    /// Pages of remote memory that may be mapped at once; a power of two, 262,144 at most.
    pub pages: usize,
    /// Regions that may be shared at once; a power of two, 4096 at most, so that all keys have a compact form.
    pub regions: usize,
    /// Sessions, one fewer than the number given; a power of two, 256 at most.
    pub sessions: usize,
    /// Frames of all sessions that may wait for their acknowledgement.
    pub send_slots: usize,
    /// Frames of a session in flight, 127 at most.
    pub window: u8,
    /// Frames that are acknowledged at once; others wait for `ack_us`.
    pub acknowledge_every: u8,
    /// Microseconds without progress after which a session sends again, 65,535 at most.
    pub resend_us: u16,
    /// How often that time doubles at most, 15 at most.
    pub doublings: u8,
    /// Time-outs in a row after which a peer is lost.
    pub resend_limit: u8,
    /// Microseconds that an acknowledgement waits for a frame that takes it along.
    pub ack_us: u8,
    /// Microseconds after which a load is asked for again.
    pub load_retry_us: u16,
    /// Microseconds after which a load has failed.
    pub read_timeout_us: u32,
    /// Network mask: peers that differ under it are reached through `gateway_mac`. 0 (nobody is) over a [`crate::Udp`],
    /// where routes are the kernel's.
    pub netmask: u32,
    /// MAC address of the gateway.
    pub gateway_mac: u64,
    /// Stores, loads and flushes that may wait for their session before no more stores are taken.
    pub backlog: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            tick: Duration::from_micros(1),
            pages: 262_144,
            regions: 4096,
            sessions: 256,
            send_slots: 4096,
            window: 120,
            acknowledge_every: 16,
            resend_us: 5_000,
            doublings: 5,
            resend_limit: 20,
            ack_us: 50,
            load_retry_us: 20_000,
            read_timeout_us: 2_000_000,
            netmask: 0,
            gateway_mac: 0,
            backlog: 64,
        }
    }
}

impl Config {
    pub(crate) fn model(&self) -> model::Config {
        model::Config {
            pages: self.pages,
            pc_ids: self.sessions,
            regions: self.regions,
            sessions: self.sessions,
            send_slots: self.send_slots,
            voids_revoked: true,
            ..model::Config::default()
        }
    }
}
