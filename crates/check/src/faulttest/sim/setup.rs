// SPDX-License-Identifier: Apache-2.0
//! Writes registers and tables, at the beginning and after a reset.

use super::*;

impl Sim {
    pub(super) fn register(&mut self, end: usize, offset: u32, value: u32) {
        self.remember_write(end, offset);
        let fields = TlpFields {
            fmt_type: FMT_MWR32,
            length: 1,
            enables: 0x0F,
            requester_id: self.hosts[end].software_id,
            address: u64::from(offset),
            ..TlpFields::default()
        };
        self.ends[end].push_tlp(&fields.emit(&value.to_le_bytes()), model::BAR_REGISTERS);
    }

    pub(super) fn registers(&mut self, end: usize, writes: &[(u32, u32)]) {
        for &(offset, value) in writes {
            self.register(end, offset, value);
        }
    }

    pub(super) fn set_up(&mut self, end: usize, sessions: bool) {
        let other = &self.hosts[1 - end];
        let (peer_mac, peer_ip) = (other.mac, other.ip);
        let host = &mut self.hosts[end];
        (host.events, host.tail) = (0, 0);
        let timers = self.plan.timers;
        let control = u32::from(self.plan.merge) | u32::from(self.plan.sealed > 0) << 1;
        let pace = *[reg_pace(511), reg_pace(32), reg_pace(0)]
            .choose(&mut self.rng)
            .unwrap_or(&0);
        let retry_us = *[30, 100].choose(&mut self.rng).unwrap_or(&30);
        // The model sends again all that is in flight at once: no more than the line takes.
        let window = match self.plan.ends {
            [first, second] if first.is_rtl() && second.is_rtl() => 120,
            [Kind::Model, Kind::Model] => *[4, 8, 32].choose(&mut self.rng).unwrap_or(&8),
            _ => 8,
        };
        let host = &self.hosts[end];
        let mut writes = vec![
            (reg::REG_MAC_LO, host.mac as u32),
            (reg::REG_MAC_HI, (host.mac >> 32) as u32),
            (reg::REG_IP, host.ip),
            (reg::REG_NETMASK, 0xFFFF_FF00),
            (reg::REG_EPOCH, 7),
            (reg::REG_READ_TIMEOUT_US, self.read_timeout_us()),
        ];
        if self.reliable() {
            writes.extend([
                (reg::REG_CONTROL, control),
                (reg::REG_RESEND_TICKS, timers.resend_ticks),
                (
                    reg::REG_RESEND_LIMIT,
                    timers.stretch << 12 | timers.max_shift << 8 | timers.limit,
                ),
                (reg::REG_PACE, pace),
                (reg::REG_LOAD_RETRY_US, retry_us),
                (reg::REG_WINDOW, WINDOW | window),
                (reg::REG_EVENT_BASE_LO, host.ring as u32),
                (reg::REG_EVENT_BASE_HI, (host.ring >> 32) as u32),
                (reg::REG_EVENT_LOG2, RING_LOG2),
                (reg::REG_MSI_ADDRESS_LO, host.msi.0 as u32),
                (reg::REG_MSI_ADDRESS_HI, (host.msi.0 >> 32) as u32),
                (reg::REG_MSI_DATA, host.msi.1),
                (reg::REG_MSI_MODERATION_US, 3),
                (reg::REG_MSI_CONTROL, 1),
            ]);
        }
        for pair in &self.pairs {
            let id = pair.ids[end];
            let entry = PcIdEntry {
                compact: pair.compact,
                valid: true,
                session: self.plan.sessions > 0,
                source_port: 4000,
                mac: peer_mac,
                ip: peer_ip,
            };
            writes.extend(entry_writes(
                reg::PC_ID_BASE,
                id.into(),
                16,
                &entry.to_dws(),
            ));
            for (page, route) in pair.routes[end].iter().enumerate() {
                let entry = PageMapEntry::new(id, route.key, route.offset, route.tag);
                let index = (pair.first_page[end] + page) as u32;
                writes.extend(entry_writes(reg::PAGE_MAP_BASE, index, 8, &entry.to_dws()));
            }
        }
        self.registers(end, &writes);
        for pair in 0..self.pairs.len() {
            self.write_regions(end, pair);
            if self.reliable() && sessions {
                self.write_session(end, pair);
            }
        }
        self.set_up_ends(end);
    }

    /// Writes what others may do to the pages of a session.
    pub(super) fn write_regions(&mut self, end: usize, pair: usize) {
        if self.plan.sessions > 0 {
            self.write_region(end, pair, NO_KEY);
        }
        for page in [
            PLAIN.start,
            REVOCABLE,
            READ_ONLY,
            BOUNDED,
            FOREIGN,
            NOTIFY,
            HIGH,
            WRITE_ONLY,
        ] {
            self.write_region(end, pair, page);
        }
    }

    pub(super) fn write_region(&mut self, end: usize, index: usize, page: usize) {
        let peer_ip = self.hosts[1 - end].ip;
        let pair = &self.pairs[index];
        // What the other end uses to reach this one.
        let route = pair.routes[1 - end][page];
        let pages = if page == PLAIN.start { PLAIN.len() } else { 1 };
        let at = self.hosts[end].arena + ((index * SESSION_PAGES + page) * PAGE) as u64;
        let last = match page {
            BOUNDED => route.offset + BOUND,
            _ => route.offset + (pages * PAGE) as u32 - 1,
        };
        let granted = page != REVOCABLE || pair.granted[end];
        let reliable = self.plan.sessions > 0;
        // A revoked region is sometimes gone, sometimes has no right.
        let gone = page == NO_KEY || !granted && route.tag & 1 == 1;
        let foreign = page == FOREIGN;
        let bound = reliable && route.tag & 8 == 8;
        let entry = RegionEntry {
            number: pair.ids[end] as u8 ^ u8::from(foreign),
            bound,
            read: matches!(page, 0 | READ_ONLY | HIGH),
            write: page != READ_ONLY && granted,
            valid: !gone,
            notify: page == NOTIFY,
            session: reliable && route.tag & 2 == 2,
            sealed: pair.sealed && (self.plan.fuzz.is_some() || route.tag & 4 == 4),
            tag: route.tag,
            mask: !0,
            ip: if foreign && !bound { !peer_ip } else { peer_ip },
            last,
            first: route.offset,
            base: at.wrapping_sub(u64::from(route.offset)),
        };
        let writes = entry_writes(reg::REGION_BASE, route.key.into(), 32, &entry.to_dws());
        self.registers(end, &writes);
    }

    pub(super) fn write_session(&mut self, end: usize, index: usize) {
        if self.is_silent(end) {
            // Its tables come first, and then a new epoch.
            return;
        }
        let other = &self.hosts[1 - end];
        let pair = &self.pairs[index];
        let port = SessionPort {
            epoch: pair.epoch,
            index: pair.ids[1 - end] as u8,
        };
        let entry = SessionEntry {
            epoch: pair.epoch,
            sealed: pair.sealed,
            valid: true,
            start: pair.start,
            port: port.to_port(),
            mac: other.mac,
            ip: other.ip,
        };
        let id = u32::from(pair.ids[end]);
        let mut writes = Vec::new();
        if pair.sealed {
            let keys = pair.keys[end].to_dws();
            writes.extend(entry_writes(reg::KEY_BASE, id, 64, &keys));
        }
        writes.extend(entry_writes(reg::SESSION_BASE, id, 32, &entry.to_dws()));
        self.registers(end, &writes);
    }
}

pub(super) fn entry_writes(base: u32, index: u32, stride: u32, dws: &[u32]) -> Vec<(u32, u32)> {
    let at = base + index * stride;
    (0..)
        .zip(dws)
        .map(|(dw, &value)| (at + 4 * dw, value))
        .collect()
}

fn reg_pace(max: u32) -> u32 {
    256 << 16 | 6 << 12 | max
}

/// A sequence number with which a session begins; often the end of the numbers is near.
pub(super) fn draw_start(rng: &mut ChaCha8Rng) -> u32 {
    let start: u32 = rng.random();
    match start % 4 {
        0 => u32::MAX - (start >> 24),
        1 => start | 0xFF80,
        _ => start,
    }
}

pub(super) fn draw_keys(rng: &mut ChaCha8Rng) -> [KeyEntry; 2] {
    let one = KeyEntry {
        tx_key: rng.random(),
        rx_key: rng.random(),
        tx_salt: rng.random(),
        rx_salt: rng.random(),
    };
    let other = KeyEntry {
        tx_key: one.rx_key,
        rx_key: one.tx_key,
        tx_salt: one.rx_salt,
        rx_salt: one.tx_salt,
    };
    [one, other]
}

pub(super) fn draw_pairs(plan: &Plan, count: usize, rng: &mut ChaCha8Rng) -> Vec<Pair> {
    let mut ids = [Vec::new(), Vec::new()];
    let mut keys = [Vec::new(), Vec::new()];
    for end in 0..2 {
        while ids[end].len() < count {
            let id = rng.random_range(1..64);
            if !ids[end].contains(&id) {
                ids[end].push(id);
            }
        }
        while keys[end].len() < 9 * count {
            let key = rng.random_range(0..256);
            if !keys[end].contains(&key) {
                keys[end].push(key);
            }
        }
    }
    let mut take_key = |end: usize| keys[end].pop().unwrap_or(0);
    let pairs = 0..count;
    pairs
        .map(|index| {
            let mut routes = [[Route::default(); SESSION_PAGES]; 2];
            for (end, routes) in routes.iter_mut().enumerate() {
                for page in 0..SESSION_PAGES {
                    let in_plain = PLAIN.contains(&page) && page > PLAIN.start;
                    routes[page] = if in_plain {
                        Route {
                            offset: routes[page - 1].offset + PAGE as u32,
                            ..routes[page - 1]
                        }
                    } else if page == NO_KEY {
                        // In a session it is one that is no more; else beyond the table, or never written.
                        let beyond = plan.sessions == 0 && rng.random();
                        let key = if beyond { 300 } else { take_key(1 - end) };
                        let tag = rng.random_range(0..1 << 12);
                        Route {
                            key,
                            offset: 0x5000,
                            tag,
                        }
                    } else {
                        let pages: u32 = rng.random_range(0..0xFFF0);
                        let high = if page == HIGH { 1 << 28 } else { 0 };
                        Route {
                            key: take_key(1 - end),
                            offset: high + (pages << 12),
                            tag: rng.random_range(0..1 << 12),
                        }
                    };
                }
            }
            Pair {
                ids: [ids[0][index], ids[1][index]],
                epoch: rng.random_range(0..64),
                start: draw_start(rng),
                sealed: percent(rng, plan.sealed),
                compact: match plan.format {
                    Format::Compact => true,
                    Format::Tlp => false,
                    Format::Mixed => rng.random(),
                },
                up: [true; 2],
                changing: false,
                first_page: [
                    index * SESSION_PAGES + 3,
                    (count - 1 - index) * SESSION_PAGES + 11,
                ],
                routes,
                granted: [true; 2],
                toggles: [false; 2],
                cursor: [(0, 0); 2],
                keys: draw_keys(rng),
            }
        })
        .collect()
}
