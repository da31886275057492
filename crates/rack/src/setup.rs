// SPDX-License-Identifier: Apache-2.0
//! What software writes into a NIC before programs use it, and what it reads from it afterwards.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use wire::registers::{
    KEY_BASE, PAGE_BYTES, PAGE_MAP_BASE, PC_ID_BASE, REG_CONTROL, REG_EVENT_BASE_HI,
    REG_EVENT_BASE_LO, REG_EVENT_LOG2, REG_EVENT_TAIL, REG_FLUSH, REG_GATEWAY_IP,
    REG_GATEWAY_MAC_HI, REG_GATEWAY_MAC_LO, REG_IP, REG_MAC_HI, REG_MAC_LO, REG_NETMASK,
    REGION_BASE, SESSION_BASE,
};
use wire::{
    EVENT_FLUSHED, EventEntry, KeyEntry, PageMapEntry, PcIdEntry, RegionEntry, SessionEntry,
    SessionPort,
};

use crate::host::{BAR0, HostApi};

/// Tag of all regions; not 0, which could hide a fault.
const TAG: u16 = 0x3A5;
/// Sequence number with which sessions start: 2^32 comes soon, so that every run goes beyond it.
const START: u32 = u32::MAX - 15;
/// Where the ring of events is in the memory of every host.
pub const EVENT_RING: u64 = 0x1000_0000;
/// log2 of its entries.
pub const EVENT_LOG2: u32 = 6;
/// Bytes of an entry.
const EVENT_BYTES: u64 = 16;
/// The epoch of all sessions: nobody restarts here.
const EPOCH: u8 = 1;
/// Bits of REG_CONTROL.
const CONTROL_MERGE: u32 = 1;
const CONTROL_AUTH: u32 = 2;

/// What a NIC must know of itself and its peers.
#[derive(Clone, Debug)]
pub struct NicConfig {
    /// Own MAC address.
    pub mac: u64,
    /// Own IPv4 address.
    pub ip: u32,
    /// Own netmask: a peer outside is reached through the gateway.
    pub netmask: u32,
    /// The gateway, if there is one.
    pub gateway: Option<Gateway>,
    /// Stores that wait anyway may travel in one frame.
    pub merge: bool,
    /// Registers that are to have another value than after reset: offset, value.
    pub registers: Vec<(u32, u32)>,
    /// The peers.
    pub peers: Vec<Peer>,
}

/// The switch port that a NIC sends to what is not in its subnet.
#[derive(Clone, Copy, Debug)]
pub struct Gateway {
    /// Its IPv4 address.
    pub ip: u32,
    /// Its MAC address.
    pub mac: u64,
}

/// A peer.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// PC ID, and number of the session.
    pub pc_id: u16,
    /// Its MAC address.
    pub mac: u64,
    /// Its IPv4 address.
    pub ip: u32,
    /// Send stores in the compact format.
    pub compact: bool,
    /// The session, if stores and loads are to belong to one.
    pub session: Option<Session>,
    /// Own memory that the peer may use.
    pub region: Option<Region>,
    /// Pages that lead to the peer's memory.
    pub pages: Option<Pages>,
}

/// One end of a session.
#[derive(Clone, Copy, Debug)]
pub struct Session {
    /// Number of the session at the peer, which is the own PC ID there.
    pub index: u8,
    /// Keys, if it is sealed.
    pub keys: Option<KeyEntry>,
}

/// Own memory for a peer.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// Index of the region.
    pub key: u16,
    /// Local address.
    pub base: u64,
    /// Length.
    pub bytes: u32,
    /// Stores to it may interrupt.
    pub notify: bool,
}

/// Pages of BAR 2 that lead to a peer's region from its first byte on.
#[derive(Clone, Copy, Debug)]
pub struct Pages {
    /// First page.
    pub first: u32,
    /// Number of pages.
    pub count: u32,
    /// Index of the region at the peer.
    pub key: u16,
}

/// The two keys of a session as its end `own` has them, drawn by a seed: what one end sends with the other receives with.
pub fn keys(seed: u64, own: usize, peer: usize) -> KeyEntry {
    let half = |from: usize, to: usize| {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream((from as u64) << 32 | to as u64);
        let mut bytes = [0; 20];
        random.fill_bytes(&mut bytes);
        let (key, salt) = bytes.split_at(16);
        (
            <[u8; 16]>::try_from(key).expect("16 bytes"),
            <[u8; 4]>::try_from(salt).expect("4 bytes"),
        )
    };
    let (tx_key, tx_salt) = half(own, peer);
    let (rx_key, rx_salt) = half(peer, own);
    KeyEntry {
        tx_key,
        rx_key,
        tx_salt,
        rx_salt,
    }
}

async fn register(api: &HostApi, offset: u32, value: u32) {
    api.store4(BAR0 + u64::from(offset), value).await;
}

async fn entry(api: &HostApi, base: u32, dws: &[u32]) {
    for (offset, value) in (base..).step_by(4).zip(dws) {
        register(api, offset, *value).await;
    }
}

/// Writes registers and tables.
pub async fn configure(api: &HostApi, config: &NicConfig) {
    register(api, REG_MAC_LO, config.mac as u32).await;
    register(api, REG_MAC_HI, (config.mac >> 32) as u32).await;
    register(api, REG_IP, config.ip).await;
    register(api, REG_NETMASK, config.netmask).await;
    if let Some(gateway) = config.gateway {
        register(api, REG_GATEWAY_IP, gateway.ip).await;
        register(api, REG_GATEWAY_MAC_LO, gateway.mac as u32).await;
        register(api, REG_GATEWAY_MAC_HI, (gateway.mac >> 32) as u32).await;
    }
    for (offset, value) in &config.registers {
        register(api, *offset, *value).await;
    }
    let mut sessions = config.peers.iter().filter_map(|peer| peer.session);
    let auth = sessions.clone().any(|session| session.keys.is_some());
    if config.merge || auth {
        let control = u32::from(config.merge) * CONTROL_MERGE + u32::from(auth) * CONTROL_AUTH;
        register(api, REG_CONTROL, control).await;
    }
    if sessions.next().is_some() {
        register(api, REG_EVENT_BASE_LO, EVENT_RING as u32).await;
        register(api, REG_EVENT_BASE_HI, (EVENT_RING >> 32) as u32).await;
        register(api, REG_EVENT_LOG2, EVENT_LOG2).await;
    }
    for peer in &config.peers {
        configure_peer(api, config, peer).await;
    }
}

async fn configure_peer(api: &HostApi, config: &NicConfig, peer: &Peer) {
    let pc_id = PcIdEntry {
        session: peer.session.is_some(),
        compact: peer.compact,
        valid: true,
        source_port: wire::UDP_PORT,
        mac: peer.mac,
        ip: peer.ip,
    };
    let at = u32::from(peer.pc_id);
    entry(api, PC_ID_BASE + 16 * at, &pc_id.to_dws()).await;
    let sealed = peer.session.is_some_and(|session| session.keys.is_some());
    if let Some(region) = peer.region {
        let region_entry = RegionEntry {
            number: peer.pc_id as u8,
            bound: peer.session.is_some(),
            sealed,
            session: peer.session.is_some(),
            notify: region.notify,
            read: true,
            write: true,
            valid: true,
            tag: TAG,
            mask: 0xFFFF_FFFF,
            ip: peer.ip,
            last: region.bytes - 1,
            first: 0,
            base: region.base,
        };
        let base = REGION_BASE + 32 * u32::from(region.key);
        entry(api, base, &region_entry.to_dws()).await;
    }
    if let Some(session) = peer.session {
        if let Some(keys) = session.keys {
            entry(api, KEY_BASE + KeyEntry::BYTES as u32 * at, &keys.to_dws()).await;
        }
        let outside = (peer.ip ^ config.ip) & config.netmask != 0;
        let gateway = config.gateway.filter(|_| outside);
        let port = SessionPort {
            epoch: EPOCH,
            index: session.index,
        };
        let session_entry = SessionEntry {
            epoch: EPOCH,
            sealed,
            valid: true,
            start: START,
            port: port.to_port(),
            mac: gateway.map_or(peer.mac, |gateway| gateway.mac),
            ip: peer.ip,
        };
        entry(api, SESSION_BASE + 32 * at, &session_entry.to_dws()).await;
    }
    if let Some(pages) = peer.pages {
        for page in 0..pages.count {
            let map = PageMapEntry::new(peer.pc_id, pages.key, page * PAGE_BYTES, TAG);
            let base = PAGE_MAP_BASE + 8 * (pages.first + page);
            entry(api, base, &map.to_dws()).await;
        }
    }
}

/// Reads the ring of events.
#[derive(Clone, Debug, Default)]
pub struct Events {
    taken: u32,
}

impl Events {
    /// Waits for the next event.
    pub async fn next(&mut self, api: &HostApi) -> EventEntry {
        let slot = u64::from(self.taken) % (1 << EVENT_LOG2);
        let address = EVENT_RING + slot * EVENT_BYTES;
        let mut old = api.read_memory(address, 4).await;
        loop {
            let bytes = api.read_memory(address, EVENT_BYTES as usize).await;
            let dws: [u32; EventEntry::DWS] = std::array::from_fn(|index| {
                let dw = &bytes[4 * index..4 * index + 4];
                u32::from_le_bytes(dw.try_into().expect("4 bytes"))
            });
            let event = EventEntry::from_dws(&dws);
            if event.count == (self.taken + 1) as u16 {
                self.taken += 1;
                register(api, REG_EVENT_TAIL, self.taken).await;
                return event;
            }
            old = api.poll(address, &old).await;
        }
    }

    /// Asks whether all earlier stores to a peer are delivered, and waits for the answer; false if the peer is lost.
    ///
    /// Other events are handed to `other`.
    pub async fn flush(
        &mut self,
        api: &HostApi,
        pc_id: u16,
        cookie: u16,
        mut other: impl FnMut(EventEntry),
    ) -> bool {
        let mark = u32::from(cookie) << 16 | u32::from(pc_id);
        register(api, REG_FLUSH, mark).await;
        loop {
            let event = self.next(api).await;
            let mine = event.number == cookie && event.who == pc_id;
            match event.code {
                EVENT_FLUSHED if mine => return true,
                wire::EVENT_FLUSH_FAILED if mine => return false,
                _ => other(event),
            }
        }
    }
}

/// Reads a register.
pub async fn read(api: &HostApi, offset: u32) -> u32 {
    api.load4(BAR0 + u64::from(offset)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_session_have_the_same_keys() {
        let (one, two) = (keys(7, 0, 1), keys(7, 1, 0));
        assert_eq!((one.tx_key, one.tx_salt), (two.rx_key, two.rx_salt));
        assert_eq!((one.rx_key, one.rx_salt), (two.tx_key, two.tx_salt));
        assert_ne!(one.tx_key, one.rx_key);
        assert_ne!(one.tx_key, keys(8, 0, 1).tx_key);
        assert_ne!(one.tx_key, keys(7, 0, 2).tx_key);
    }
}
