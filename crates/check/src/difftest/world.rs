// SPDX-License-Identifier: Apache-2.0
//! The addresses and tables around one NIC, and the random operations on it.

use model::{BAR_PAGES, BAR_REGISTERS, Config};
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use wire::{PageMapEntry, PcIdEntry, RegionEntry, registers as reg};

/// Another machine.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Its entry in the PC ID table.
    pub id: u16,
    /// MAC address.
    pub mac: u64,
    /// IPv4 address.
    pub ip: u32,
}

/// Addresses, tables and what is drawn from them.
#[derive(Clone, Debug)]
pub struct World {
    /// How the NIC was built.
    pub config: Config,
    /// Own MAC address.
    pub mac: u64,
    /// Own IPv4 address.
    pub ip: u32,
    /// Own netmask.
    pub netmask: u32,
    /// The gateway's MAC address.
    pub gateway_mac: u64,
    /// The other machines.
    pub peers: Vec<Peer>,
    /// Pages that are mapped now and then.
    pub pages: Vec<u32>,
    /// No region gives the network the right to read.
    pub no_loads: bool,
    /// The regions of the NIC at the other end, if there is one: the first peer.
    pub far: Vec<(u16, RegionEntry)>,
    /// The regions as they were last written.
    pub regions: Vec<(u16, RegionEntry)>,
}

/// A chance in percent.
pub fn percent(rng: &mut ChaCha8Rng, chance: u32) -> bool {
    rng.random_range(0..100) < chance
}

fn unicast(rng: &mut ChaCha8Rng) -> u64 {
    rng.random_range(1..1 << 48) & !(1 << 40)
}

impl World {
    /// Draws addresses, peers, pages and keys.
    pub fn new(config: Config, rng: &mut ChaCha8Rng) -> Self {
        let netmask = *[0xFFFF_FF00, 0xFFFF_0000, 0xFF00_0000, 0xFFFF_FFF8]
            .choose(rng)
            .expect("the list is not empty");
        let ip: u32 = rng.random_range(1..u32::MAX);
        let mut ids: Vec<u16> = vec![1, config.pc_ids as u16 - 1];
        while ids.len() < 8 {
            let id = rng.random_range(1..config.pc_ids as u16);
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        let peers = ids
            .iter()
            .map(|&id| Peer {
                id,
                mac: unicast(rng),
                ip: if rng.random() {
                    ip & netmask | rng.random_range(1..0xFFFF) & !netmask
                } else {
                    rng.random()
                },
            })
            .collect();
        let mut pages = vec![0, config.pages as u32 - 1];
        pages.extend((0..38).map(|_| rng.random_range(0..config.pages as u32)));
        let mut keys = vec![0, config.regions as u16 - 1];
        while keys.len() < 20 {
            let key = rng.random_range(0..config.regions as u16);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        Self {
            config,
            mac: unicast(rng),
            ip,
            netmask,
            gateway_mac: unicast(rng),
            peers,
            pages,
            no_loads: false,
            far: Vec::new(),
            regions: keys
                .into_iter()
                .map(|key| (key, RegionEntry::default()))
                .collect(),
        }
    }

    /// The writes that set a NIC up: offset in BAR 0 and value.
    pub fn setup(&mut self, rng: &mut ChaCha8Rng) -> Vec<(u32, u32)> {
        let mut writes = vec![(reg::REG_EPOCH, rng.random())];
        writes.extend(self.identity());
        for index in 0..self.peers.len() {
            writes.extend(self.peer_entry(index, true, rng));
        }
        for index in 0..self.pages.len() {
            writes.extend(self.page_entry(index, rng));
        }
        for index in 0..self.regions.len() {
            writes.extend(self.new_region(index, rng));
        }
        writes
    }

    fn identity(&self) -> [(u32, u32); 7] {
        [
            (reg::REG_MAC_LO, self.mac as u32),
            (reg::REG_MAC_HI, (self.mac >> 32) as u32),
            (reg::REG_IP, self.ip),
            (reg::REG_NETMASK, self.netmask),
            (reg::REG_GATEWAY_IP, self.ip ^ 1),
            (reg::REG_GATEWAY_MAC_LO, self.gateway_mac as u32),
            (reg::REG_GATEWAY_MAC_HI, (self.gateway_mac >> 32) as u32),
        ]
    }

    /// Writes that give the NIC another MAC and netmask.
    pub fn new_identity(&mut self, rng: &mut ChaCha8Rng) -> Vec<(u32, u32)> {
        self.mac = unicast(rng);
        self.gateway_mac = unicast(rng);
        self.netmask = if rng.random() {
            0
        } else {
            !0 << rng.random_range(0..24)
        };
        let mut writes = vec![(reg::REG_EPOCH, rng.random())];
        writes.extend(self.identity());
        writes
    }

    fn entry_writes(base: u32, index: u32, dws: &[u32]) -> Vec<(u32, u32)> {
        let at = base + index * 4 * dws.len() as u32;
        (0..)
            .zip(dws)
            .map(|(dw, &value)| (at + 4 * dw, value))
            .collect()
    }

    /// Writes a peer's entry in the PC ID table, always valid at `setup`.
    pub fn peer_entry(&self, index: usize, setup: bool, rng: &mut ChaCha8Rng) -> Vec<(u32, u32)> {
        let peer = &self.peers[index];
        let entry = PcIdEntry {
            compact: percent(rng, 60),
            valid: setup || percent(rng, 92),
            // Ports from 0xC000 belong to sessions.
            source_port: rng.random_range(0..0xC000),
            mac: peer.mac,
            ip: peer.ip,
            ..PcIdEntry::default()
        };
        Self::entry_writes(reg::PC_ID_BASE, peer.id.into(), &entry.to_dws())
    }

    /// Makes the two the first peer and the gateway of each other.
    pub fn link(&mut self, other: &mut Self) {
        (self.peers[0].mac, self.peers[0].ip) = (other.mac, other.ip);
        (other.peers[0].mac, other.peers[0].ip) = (self.mac, self.ip);
        (self.gateway_mac, other.gateway_mac) = (other.mac, self.mac);
    }

    /// Writes a page's entry in the page map.
    pub fn page_entry(&self, index: usize, rng: &mut ChaCha8Rng) -> Vec<(u32, u32)> {
        if percent(rng, 90)
            && let Some((key, region)) = self.far.choose(rng)
        {
            let pages = (region.last - region.first) >> 12;
            let offset = region
                .first
                .saturating_add(rng.random_range(0..=pages) << 12);
            let tag = if percent(rng, 97) {
                region.tag
            } else {
                !region.tag & 0xFFF
            };
            let entry = PageMapEntry::new(self.peers[0].id, *key, offset, tag);
            return Self::entry_writes(reg::PAGE_MAP_BASE, self.pages[index], &entry.to_dws());
        }
        let pc_id = match rng.random_range(0..20) {
            0 => 0,
            1 => rng.random(),
            2 => rng.random_range(0..self.config.pc_ids as u16),
            // Most go to one peer, so that its sequence number wraps in a long run.
            3..13 => self.peers[0].id,
            _ => self.peers.choose(rng).expect("there are peers").id,
        };
        let key = if percent(rng, 10) {
            rng.random()
        } else {
            rng.random_range(0..1 << wire::COMPACT_KEY_W)
        };
        let offset = match rng.random_range(0..10) {
            0 => rng.random(),
            1 => u32::MAX,
            2 => (1 << wire::COMPACT_OFFSET_W) - 1,
            _ => rng.random_range(0..1 << wire::COMPACT_OFFSET_W),
        };
        let tag = if percent(rng, 30) {
            0
        } else {
            rng.random_range(0..1 << 12)
        };
        let entry = PageMapEntry::new(pc_id, key, offset, tag);
        Self::entry_writes(reg::PAGE_MAP_BASE, self.pages[index], &entry.to_dws())
    }

    /// Draws a new region for a key; the writes must come at a quiet point.
    pub fn new_region(&mut self, index: usize, rng: &mut ChaCha8Rng) -> Vec<(u32, u32)> {
        let peer = *self.peers.choose(rng).expect("there are peers");
        let first: u32 = match rng.random_range(0..6) {
            0 => 0,
            1 => rng.random(),
            2 => u32::MAX - rng.random_range(0..0x3000),
            _ => rng.random_range(0..1 << 27),
        };
        let size = match rng.random_range(0..4) {
            0 => rng.random_range(0..64),
            1 => 0xFFF,
            _ => rng.random_range(0..0x10000),
        };
        let base_page: u64 = match rng.random_range(0..4) {
            0 => rng.random_range(0..1 << 12),
            1 => rng.random_range(0..1 << 40),
            // Some pages of the region are below 4 GB, others not.
            2 => (1 << 20) - u64::from(first >> 12) % (1 << 20),
            _ => rng.random_range(0..1 << 20),
        };
        let entry = RegionEntry {
            read: percent(rng, 80) && !self.no_loads,
            write: percent(rng, 80),
            valid: percent(rng, 90),
            tag: if percent(rng, 30) {
                0
            } else {
                rng.random_range(0..1 << 12)
            },
            mask: *[0, !0, !0, 0xFFFF_FF00, 0xFFFF_0000]
                .choose(rng)
                .expect("the list is not empty"),
            ip: peer.ip,
            last: first.saturating_add(size),
            first,
            base: base_page << 12,
            ..RegionEntry::default()
        };
        let key = self.regions[index].0;
        self.regions[index].1 = entry;
        Self::entry_writes(reg::REGION_BASE, key.into(), &entry.to_dws())
    }

    /// Whether a DMA access lies in a region with the right for it: the invariant, in words of the
    /// tables and without the model.
    pub fn permits(&self, address: u64, bytes: u64, write: bool) -> bool {
        let last = address + bytes - 1;
        address >> 12 == last >> 12
            && self.regions.iter().any(|(_, region)| {
                let right = if write { region.write } else { region.read };
                let low = region.base + u64::from(region.first & !3);
                let high = region.base + u64::from(region.last | 3);
                region.valid && right && low <= address && last <= high
            })
    }
}

/// Header fields of a TLP from the root complex, right or wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct TlpFields {
    /// Byte 0.
    pub fmt_type: u8,
    /// Traffic class.
    pub tc: u8,
    /// Byte 2 without length.
    pub flags: u8,
    /// Length field.
    pub length: u16,
    /// Requester ID.
    pub requester_id: u16,
    /// Tag.
    pub tag: u8,
    /// Last and first byte enables.
    pub enables: u8,
    /// Address.
    pub address: u64,
}

impl TlpFields {
    /// The TLP; the header has four DWs if `fmt_type` says so.
    pub fn emit(&self, data: &[u8]) -> Vec<u8> {
        let mut tlp = vec![
            self.fmt_type,
            self.tc << 4,
            self.flags | (self.length >> 8 & 3) as u8,
            self.length as u8,
        ];
        tlp.extend_from_slice(&self.requester_id.to_be_bytes());
        tlp.extend_from_slice(&[self.tag, self.enables]);
        if self.fmt_type & 0x20 == 0 {
            tlp.extend_from_slice(&(self.address as u32).to_be_bytes());
        } else {
            tlp.extend_from_slice(&self.address.to_be_bytes());
        }
        tlp.extend_from_slice(data);
        tlp
    }
}

/// A completion from the root complex.
#[derive(Clone, Copy, Debug, Default)]
pub struct CompletionFields {
    /// With data.
    pub has_data: bool,
    /// Byte 2 without length.
    pub flags: u8,
    /// Length field.
    pub length: u16,
    /// Completion status.
    pub status: u8,
    /// Byte count.
    pub byte_count: u16,
    /// Who asked.
    pub requester_id: u16,
    /// Its tag.
    pub tag: u8,
    /// Lower address.
    pub lower_address: u8,
}

impl CompletionFields {
    /// The TLP.
    pub fn emit(&self, data: &[u8]) -> Vec<u8> {
        let fmt_type = if self.has_data { 0x4A } else { 0x0A };
        let mut tlp = vec![
            fmt_type,
            0,
            self.flags | (self.length >> 8 & 3) as u8,
            self.length as u8,
            0,
            0,
        ];
        let status = u16::from(self.status) << 13 | self.byte_count & 0xFFF;
        tlp.extend_from_slice(&status.to_be_bytes());
        tlp.extend_from_slice(&self.requester_id.to_be_bytes());
        tlp.extend_from_slice(&[self.tag, self.lower_address]);
        tlp.extend_from_slice(data);
        tlp
    }
}

/// Random bytes.
pub fn random_bytes(rng: &mut ChaCha8Rng, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    rng.fill(&mut bytes[..]);
    bytes
}

/// Lengths of stores and loads in DW: the borders and the line more often.
pub fn random_dws(rng: &mut ChaCha8Rng) -> u16 {
    match rng.random_range(0..10) {
        0..4 => 1,
        4 => 2,
        5 => 16,
        6 => 64,
        7 => rng.random_range(1..=64),
        _ => rng.random_range(1..=20),
    }
}

/// Last and first byte enables: mostly all, often contiguous, sometimes anything that is legal at this address.
pub fn random_enables(rng: &mut ChaCha8Rng, dws: u16, address: u64) -> u8 {
    match rng.random_range(0..10) {
        0..5 if dws == 1 => 0x0F,
        0..5 => 0xFF,
        8.. if dws == 1 => rng.random_range(0..16),
        5..8 if dws == 1 => {
            let (low, high) = (rng.random_range(0..4), rng.random_range(0..4));
            (0xF << low) & (0xF >> high)
        }
        pick if pick < 8 || dws > 2 || address & 4 != 0 => {
            let (low, high) = (rng.random_range(0..4), rng.random_range(0..4));
            (0xF_u8 >> high) << 4 | 0xF_u8 << low & 0xF
        }
        _ => rng.random_range(1..16) << 4 | rng.random_range(1..16),
    }
}

impl World {
    /// A store to or load from BAR 2, mostly a good one.
    pub fn page_access(&self, is_load: bool, rng: &mut ChaCha8Rng) -> (Vec<u8>, u8) {
        let dws = random_dws(rng);
        let bytes = 4 * u64::from(dws);
        let page = match rng.random_range(0..40) {
            0 => rng.random_range(0..1 << 18),
            1 => rng.random_range(0..self.config.pages as u32),
            _ => *self.pages.choose(rng).expect("there are pages"),
        };
        let offset = match rng.random_range(0..50) {
            0 => rng.random_range(0..1024) * 4,
            1..8 => 4096 - bytes,
            _ => rng.random_range(0..=(4096 - bytes) / 4) * 4,
        };
        // The BAR lies anywhere, aligned to its size.
        let four_dw: bool = rng.random();
        let bar: u64 = if four_dw {
            rng.random::<u64>()
        } else {
            rng.random::<u32>().into()
        };
        let address = bar >> reg::BAR2_ADDR_W << reg::BAR2_ADDR_W | u64::from(page) << 12 | offset;
        let mut fields = TlpFields {
            fmt_type: if is_load { 0x00 } else { 0x40 } | u8::from(four_dw) << 5,
            tc: rng.random_range(0..8),
            flags: rng.random_range(0..4) << 4,
            length: dws,
            requester_id: rng.random(),
            tag: rng.random(),
            enables: random_enables(rng, dws, address),
            address,
        };
        if dws > 1 && percent(rng, 1) {
            // Nobody may send this; it leaves as it came, and the receiver refuses it.
            fields.enables &= *[0x0F, 0xF0, 0, 0x5F, 0xF9]
                .choose(rng)
                .expect("the list is not empty");
        }
        let mut data = random_bytes(rng, if is_load { 0 } else { bytes as usize });
        if percent(rng, 10) {
            // A digest, which is no data.
            fields.flags |= 0x80;
            data.extend_from_slice(&random_bytes(rng, 4));
        }
        (fields.emit(&data), BAR_PAGES)
    }

    /// A write of one DW to BAR 0.
    pub fn register_write(&self, offset: u32, value: u32, rng: &mut ChaCha8Rng) -> (Vec<u8>, u8) {
        let four_dw: bool = rng.random();
        let bar = rng.random::<u32>() >> reg::BAR0_ADDR_W << reg::BAR0_ADDR_W;
        let high = if four_dw { rng.random::<u32>() } else { 0 };
        let fields = TlpFields {
            fmt_type: 0x40 | u8::from(four_dw) << 5,
            length: 1,
            enables: 0x0F,
            requester_id: rng.random(),
            tag: rng.random(),
            address: u64::from(high) << 32 | u64::from(bar | offset),
            ..TlpFields::default()
        };
        (fields.emit(&value.to_le_bytes()), BAR_REGISTERS)
    }

    /// A read of one or two DWs of BAR 0.
    pub fn register_read(&self, offset: u32, dws: u16, rng: &mut ChaCha8Rng) -> (Vec<u8>, u8) {
        let fields = TlpFields {
            fmt_type: 0x00,
            tc: rng.random_range(0..8),
            length: dws,
            enables: if dws == 1 { 0x0F } else { 0xFF },
            requester_id: rng.random(),
            tag: rng.random(),
            address: offset.into(),
            ..TlpFields::default()
        };
        (fields.emit(&[]), BAR_REGISTERS)
    }

    /// A register operation that changes nothing others depend on.
    pub fn harmless_register(&self, rng: &mut ChaCha8Rng) -> (Vec<u8>, u8) {
        let dws = rng.random_range(1..=2);
        let page = *self.pages.choose(rng).expect("there are pages");
        let peer = self.peers.choose(rng).expect("there are peers");
        let (key, _) = self.regions.choose(rng).expect("there are regions");
        let beyond_pages = reg::PAGE_MAP_BASE + 8 * self.config.pages as u32;
        let beyond_regions = reg::REGION_BASE + 32 * self.config.regions as u32;
        let offset = match rng.random_range(0..10) {
            0 => reg::PAGE_MAP_BASE + 8 * page,
            1 => reg::PC_ID_BASE + 16 * u32::from(peer.id) + 8 * rng.random_range(0..2),
            2 => reg::REGION_BASE + 32 * u32::from(*key) + 8 * rng.random_range(0..4),
            // Not LAST_ERROR, which changes with what is on the wire.
            3 => rng.random_range(0..6) * 8,
            4 => rng.random_range(0x10..0x200) * 8,
            5 => reg::PC_ID_BASE + 16 * self.config.pc_ids as u32 + 8 * rng.random_range(0..4),
            6 if beyond_pages < 1 << reg::BAR0_ADDR_W => beyond_pages,
            7 => beyond_regions + 8 * rng.random_range(0..4),
            // Sessions are not used here, so nothing depends on their registers.
            8 => *[
                reg::REG_RESEND_TICKS,
                reg::REG_RESEND_LIMIT,
                reg::REG_EVENT_BASE_LO,
                reg::REG_MSI_ADDRESS_LO,
                reg::REG_MSI_DATA,
            ]
            .choose(rng)
            .expect("the list is not empty"),
            _ => reg::REG_MAC_LO,
        };
        if percent(rng, 70) {
            let enables = random_enables(rng, dws, 0);
            let (mut tlp, bar) = self.register_read(offset, dws, rng);
            tlp[7] = enables;
            return (tlp, bar);
        }
        // Writes: to read-only places, beyond the tables, or with byte enables that are refused.
        let refused = match offset {
            reg::PAGE_MAP_BASE.. => offset >= beyond_pages,
            reg::REGION_BASE.. => offset >= beyond_regions,
            reg::PC_ID_BASE.. => offset >= reg::PC_ID_BASE + 16 * self.config.pc_ids as u32,
            _ => !(reg::REG_FEATURES..=reg::REG_LAST_ERROR_IP).contains(&offset),
        };
        let mut enables = random_enables(rng, dws, 0);
        if !refused {
            // No byte enable is whole, so that neither DW is written.
            enables = if dws == 1 {
                enables & 0x07
            } else {
                enables & 0x7E | 0x22
            };
        }
        let (mut tlp, bar) = self.register_write(offset, rng.random(), rng);
        if dws == 2 {
            tlp[3] = 2;
            tlp.extend_from_slice(&random_bytes(rng, 4));
        }
        tlp[7] = enables;
        (tlp, bar)
    }

    /// A TLP that the NIC must not take as it is.
    pub fn bad_tlp(&self, rng: &mut ChaCha8Rng) -> (Vec<u8>, u8) {
        let is_load = percent(rng, 40);
        let (mut tlp, mut bar) = self.page_access(is_load, rng);
        let header = wire::tlp::header_bytes(tlp[0]);
        match rng.random_range(0..9) {
            // Poisoned.
            0 => tlp[2] |= 0x40,
            // A digest, announced and not there, or there and not announced.
            1 => tlp[2] ^= 0x80,
            // Another BAR.
            2 => {
                bar = *[1, 3, 4, 5, 6, 7]
                    .choose(rng)
                    .expect("the list is not empty")
            }
            // Longer or shorter than it says.
            3 => {
                if rng.random() || is_load {
                    let more = 4 * rng.random_range(1..5);
                    tlp.extend_from_slice(&random_bytes(rng, more));
                } else {
                    let left = rng.random_range(1..tlp.len() / 4);
                    tlp.truncate(4 * left);
                }
            }
            // Ends in its header.
            4 => tlp.truncate(4 * rng.random_range(1..header / 4)),
            // Across a 4 KB boundary, or more than 64 DWs.
            5 => {
                let dws: u16 = rng.random_range(2..100);
                let at = tlp.len().min(header) - 4;
                let offset = if dws > 64 {
                    0
                } else {
                    4096 - 4 * rng.random_range(1..dws)
                };
                let low = u32::from_be_bytes([tlp[at], tlp[at + 1], tlp[at + 2], tlp[at + 3]]);
                let low = low & !0xFFF | u32::from(offset);
                tlp.truncate(header);
                tlp[at..].copy_from_slice(&low.to_be_bytes());
                tlp[2] &= 0x7C;
                tlp[3] = dws as u8;
                tlp[7] = 0xFF;
                if !is_load {
                    tlp.extend_from_slice(&random_bytes(rng, 4 * usize::from(dws)));
                }
            }
            // Neither MRd nor MWr: locked, I/O, configuration, message, atomic; often what does not exist.
            6 => {
                let kind = *[0x01, 0x02, 0x04, 0x05, 0x10, 0x14, 0x0C, 0x0D, 0x0E, 0x0B]
                    .choose(rng)
                    .expect("the list is not empty");
                tlp[0] = tlp[0] & 0x60 | kind;
            }
            // Too long for the registers, or of another BAR.
            7 => {
                bar = BAR_REGISTERS;
                if wire::TlpView::new(&tlp).is_ok_and(|view| view.length() <= 2) {
                    bar = 5;
                }
            }
            // A read of 1024 DWs.
            _ => {
                tlp.truncate(header);
                tlp[0] &= 0x20;
                tlp[2] &= 0x7C;
                tlp[3] = 0;
                tlp[7] = 0xFF;
            }
        }
        (tlp, bar)
    }
}
