// SPDX-License-Identifier: Apache-2.0
//! The board's registers and tables, through BAR 0. Layouts are those of `crates/wire`; `docs/registers.md` explains them.

use std::sync::{Mutex, PoisonError};

use wire::registers::{
    ID_VALUE, KEY_BASE, PAGE_MAP_BASE, PC_ID_BASE, REG_EPOCH, REG_EVENT_BASE_HI, REG_EVENT_BASE_LO,
    REG_EVENT_LOG2, REG_EVENT_TAIL, REG_FEATURES, REG_FLUSH, REG_GATEWAY_MAC_HI,
    REG_GATEWAY_MAC_LO, REG_ID, REG_IP, REG_MAC_HI, REG_MAC_LO, REG_NETMASK, REG_VERSION,
    REGION_BASE, SESSION_BASE, SESSION_STATUS_BASE, VERSION_VALUE,
};
use wire::{
    KeyEntry, KeyUse, NetCounter, PageMapEntry, PcIdEntry, PcieCounter, RegionEntry, SessionEntry,
    SessionStatus,
};

use super::PcieError;
use super::bar::Bar;

/// Bytes from the beginning of a region's entry to the word with its tag.
const REGION_TAG: u32 = 24;

/// What the board was built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Pages of BAR 2.
    pub pages: usize,
    /// Entries of the PC ID table.
    pub pc_ids: usize,
    /// Entries of the shared-region table.
    pub regions: usize,
    /// Sessions.
    pub sessions: usize,
    /// It can seal sessions.
    pub seals: bool,
}

impl Features {
    /// From the register.
    #[must_use]
    pub fn from_register(value: u32) -> Self {
        let sessions = value >> 25 & 1 == 1;
        Self {
            pages: 1 << (value & 0x1F),
            pc_ids: 1 << (value >> 8 & 0x1F),
            regions: 1 << (value >> 16 & 0x1F),
            sessions: if sessions { 1 << (value >> 28) } else { 0 },
            seals: value >> 26 & 1 == 1,
        }
    }
}

/// Who the board is in its network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Own MAC address.
    pub mac: u64,
    /// Own IPv4 address.
    pub ip: u32,
    /// Netmask.
    pub netmask: u32,
    /// MAC address of the gateway.
    pub gateway_mac: u64,
}

/// The board's control side.
pub struct Control {
    bar: Box<dyn Bar>,
    features: Features,
    /// Each table has one staging register: entries are written one after the other.
    writing: Mutex<()>,
}

impl Control {
    /// Checks that an IP-NUMA NIC of a version that we know is behind the BAR.
    ///
    /// # Errors
    /// If it is another device or version.
    pub fn new(bar: Box<dyn Bar>) -> Result<Self, PcieError> {
        let least = 1 << wire::registers::BAR0_ADDR_W;
        if bar.len() < least {
            return Err(PcieError::SmallBar {
                bytes: bar.len(),
                least,
            });
        }
        let id = bar.read32(REG_ID as usize);
        if id != ID_VALUE {
            return Err(PcieError::NotOurs(id));
        }
        let version = bar.read32(REG_VERSION as usize);
        if version >> 16 != VERSION_VALUE >> 16 {
            return Err(PcieError::Version {
                board: version >> 16,
                ours: VERSION_VALUE >> 16,
            });
        }
        let features = Features::from_register(bar.read32(REG_FEATURES as usize));
        Ok(Self {
            bar,
            features,
            writing: Mutex::new(()),
        })
    }

    /// What the board was built with.
    #[must_use]
    pub fn features(&self) -> Features {
        self.features
    }

    /// Reads a register.
    #[must_use]
    pub fn read(&self, register: u32) -> u32 {
        self.bar.read32(register as usize)
    }

    /// Writes a register.
    pub fn write(&self, register: u32, value: u32) {
        self.bar.write32(register as usize, value);
    }

    /// Waits until all writes before have taken effect: a read comes back after them.
    pub fn settle(&self) {
        let _ = self.read(REG_ID);
    }

    /// Says who the board is, and with which epoch its frames go.
    pub fn identify(&self, identity: &Identity, epoch: u8) {
        self.write(REG_MAC_LO, identity.mac as u32);
        self.write(REG_MAC_HI, (identity.mac >> 32) as u32);
        self.write(REG_IP, identity.ip);
        self.write(REG_NETMASK, identity.netmask);
        self.write(REG_GATEWAY_MAC_LO, identity.gateway_mac as u32);
        self.write(REG_GATEWAY_MAC_HI, (identity.gateway_mac >> 32) as u32);
        self.write(REG_EPOCH, u32::from(epoch));
    }

    fn write_entry(&self, base: u32, index: usize, count: usize, dws: &[u32]) {
        assert!(index < count, "entry {index} of a table with {count}");
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let start = base as usize + index * 4 * dws.len();
        for (dw, value) in dws.iter().enumerate() {
            self.bar.write32(start + 4 * dw, *value);
        }
    }

    /// Maps a page of BAR 2.
    pub fn set_page(&self, page: usize, entry: &PageMapEntry) {
        self.write_entry(PAGE_MAP_BASE, page, self.features.pages, &entry.to_dws());
    }

    /// Says how a peer is reached.
    pub fn set_peer(&self, pc_id: usize, entry: &PcIdEntry) {
        self.write_entry(PC_ID_BASE, pc_id, self.features.pc_ids, &entry.to_dws());
    }

    /// Shares memory, or takes it back.
    pub fn set_region(&self, key: usize, entry: &RegionEntry) {
        self.write_entry(REGION_BASE, key, self.features.regions, &entry.to_dws());
    }

    /// Takes memory back; the entry keeps its tag, see [`RegionEntry::revoked`].
    pub fn revoke_region(&self, key: usize) {
        let entry = (RegionEntry::BYTES * key) as u32;
        let tag = self.read(REGION_BASE + entry + REGION_TAG) as u16;
        self.set_region(key, &RegionEntry::revoked(tag));
    }

    /// Begins a session anew.
    pub fn set_session(&self, session: usize, entry: &SessionEntry) {
        self.write_entry(
            SESSION_BASE,
            session,
            self.features.sessions,
            &entry.to_dws(),
        );
    }

    /// Gives a session its keys, or one of its next ones. A key must never be written twice.
    pub fn set_keys(&self, session: usize, entry: &KeyEntry, what: KeyUse) {
        let dws = entry.to_dws_for(what);
        self.write_entry(KEY_BASE, session, self.features.sessions, &dws);
    }

    /// What a session does at the moment.
    #[must_use]
    pub fn session_status(&self, session: usize) -> SessionStatus {
        let start = SESSION_STATUS_BASE as usize + session * SessionStatus::BYTES;
        SessionStatus::from_dws(&std::array::from_fn(|dw| self.bar.read32(start + 4 * dw)))
    }

    /// A counter of the PCIe side.
    #[must_use]
    pub fn pcie_counter(&self, counter: PcieCounter) -> u32 {
        self.read(counter.offset())
    }

    /// A counter of the network side.
    #[must_use]
    pub fn net_counter(&self, counter: NetCounter) -> u32 {
        self.read(counter.offset())
    }

    /// Puts a mark behind all stores to a peer so far; its event has the cookie.
    pub fn flush(&self, pc_id: u16, cookie: u16) {
        self.write(REG_FLUSH, u32::from(cookie) << 16 | u32::from(pc_id));
    }

    /// Where the board writes its events: `1 << log2` entries at a bus address.
    pub fn set_events(&self, address: u64, log2: u32) {
        self.write(REG_EVENT_LOG2, 0);
        self.write(REG_EVENT_BASE_LO, address as u32);
        self.write(REG_EVENT_BASE_HI, (address >> 32) as u32);
        self.write(REG_EVENT_LOG2, log2);
    }

    /// How many events have been taken since [`Control::set_events`].
    pub fn events_taken(&self, count: u32) {
        self.write(REG_EVENT_TAIL, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_what_the_register_says() {
        let built = Features::from_register(wire::registers::features(1024, 16, 64, 8, false));
        let expected = Features {
            pages: 1024,
            pc_ids: 16,
            regions: 64,
            sessions: 8,
            seals: false,
        };
        assert_eq!(built, expected);
    }
}
