// SPDX-License-Identifier: Apache-2.0
//! What the CPUs ask for.

use super::*;

impl Sim {
    pub(super) fn choose_pair(&mut self, end: usize) -> Option<usize> {
        let (pair, left) = self.focus[end];
        if left > 0 && self.pairs[pair].up[end] {
            self.focus[end].1 -= 1;
            return Some(pair);
        }
        let up: Vec<usize> = (0..self.pairs.len())
            .filter(|p| self.pairs[*p].up[end])
            .collect();
        let pair = *up.choose(&mut self.rng)?;
        let most = if self.plan.small { 200 } else { 12 };
        self.focus[end] = (pair, self.rng.random_range(0..most));
        Some(pair)
    }

    /// Bytes up to which new operations are issued: none while an answer waits.
    pub(super) fn backlog(&self, end: usize) -> usize {
        let waits = self.hosts[end].answers.front();
        if waits.is_some_and(|answer| answer.due_ps < self.now_ps + self.window_ps) {
            0
        } else {
            BACKLOG
        }
    }

    /// Issues operations as the style of this end asks for.
    pub(super) fn issue(&mut self, end: usize) -> Result<(), String> {
        match self.styles[end] {
            _ if self.is_silent(end) => {}
            Style::Silent => {}
            Style::Flood => {
                while self.quota > 0 && self.ends[end].backlog() < self.backlog(end) {
                    if !self.issue_one(end)? {
                        break;
                    }
                }
            }
            Style::Trickle(chance) => {
                if self.quota > 0
                    && self.ends[end].backlog() < self.backlog(end)
                    && percent(&mut self.rng, chance)
                {
                    self.issue_one(end)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn issue_one(&mut self, end: usize) -> Result<bool, String> {
        let Some(pair) = self.choose_pair(end) else {
            return Ok(false);
        };
        let [loads, flushes, refusals] = self.plan.others;
        if thousandths(&mut self.rng, loads) {
            self.issue_load(end, pair);
        }
        if self.reliable() && self.flushes[end] < 6 && thousandths(&mut self.rng, flushes) {
            self.issue_flush(end, pair);
        }
        let refuse = self.reliable() && thousandths(&mut self.rng, refusals);
        self.issue_store(end, pair, refuse)?;
        self.quota -= 1;
        Ok(true)
    }

    pub(super) fn issue_flush(&mut self, end: usize, pair: usize) {
        self.cookie = self.cookie.wrapping_add(1);
        self.flushes[end] += 1;
        let id = self.pairs[pair].ids[end];
        let value = u32::from(self.cookie) << 16 | u32::from(id);
        self.streams[end][pair].issue(Entry {
            what: What::Flush(self.cookie),
            fate: Fate::Deliver,
            page: 0,
            dws: 0,
            first_be: 0,
            last_be: 0,
            offset: 0,
            seed: 0,
            wire: 0,
            reported: false,
            excused: false,
            promised: false,
        });
        self.register(end, reg::REG_FLUSH, value);
    }

    pub(super) fn page_access(
        &mut self,
        end: usize,
        entry: &Entry,
        pair: usize,
        is_load: bool,
        tag: u8,
    ) {
        let page = self.pairs[pair].first_page[end] + usize::from(entry.page);
        let four_dw: bool = self.rng.random();
        let bar: u64 = if four_dw { 0x7F_4000_0000 } else { 0x8000_0000 };
        let length = u16::from(entry.dws);
        let header = if four_dw { 16 } else { 12 };
        let address = bar | (page * PAGE) as u64 | u64::from(entry.offset);
        let mut tlp = std::mem::take(&mut self.tlp);
        tlp.clear();
        let fmt_type = if is_load { 0 } else { 0x40 } | u8::from(four_dw) << 5;
        tlp.extend_from_slice(&[fmt_type, 0, (length >> 8) as u8, length as u8]);
        tlp.extend_from_slice(&self.hosts[end].cpu_id.to_be_bytes());
        tlp.extend_from_slice(&[tag, entry.last_be << 4 | entry.first_be]);
        if four_dw {
            tlp.extend_from_slice(&address.to_be_bytes());
        } else {
            tlp.extend_from_slice(&(address as u32).to_be_bytes());
        }
        if !is_load {
            tlp.resize(header + 4 * usize::from(length), 0);
            crate::faulttest::stream::fill(entry.seed, &mut tlp[header..]);
        }
        self.ends[end].push_tlp(&tlp, model::BAR_PAGES);
        self.tlp = tlp;
    }

    pub(super) fn issue_store(
        &mut self,
        end: usize,
        index: usize,
        refuse: bool,
    ) -> Result<(), String> {
        let small = self.plan.small;
        let rng = &mut self.rng;
        let pair = &mut self.pairs[index];
        let mut plain_enables = false;
        let (page, fate) = if refuse {
            let (page, code) = *[(NO_KEY, 1), (READ_ONLY, 3), (BOUNDED, 4), (FOREIGN, 2)]
                .choose(rng)
                .unwrap_or(&(NO_KEY, 1));
            (page, Fate::Refuse(code))
        } else {
            match rng.random_range(0..100) {
                0..=3
                    if self.plan.sessions > 0
                        && (pair.granted[1 - end] && !small || rng.random_range(0..8) == 0) =>
                {
                    plain_enables = true;
                    let fate = match (pair.toggles[1 - end], pair.granted[1 - end]) {
                        (true, _) => Fate::Either,
                        (false, true) => Fate::Deliver,
                        // Gone, or without the right.
                        (false, false) if pair.routes[end][REVOCABLE].tag & 1 == 1 => {
                            Fate::Refuse(1)
                        }
                        (false, false) => Fate::Refuse(3),
                    };
                    (REVOCABLE, fate)
                }
                4..6 => (NOTIFY, Fate::Deliver),
                6..10 => (HIGH, Fate::Deliver),
                10..12 => (WRITE_ONLY, Fate::Deliver),
                _ if small => (pair.cursor[end].0, Fate::Deliver),
                _ => (rng.random_range(PLAIN), Fate::Deliver),
            }
        };
        let dws: usize = if small {
            match rng.random_range(0..20) {
                0 => rng.random_range(1..=16),
                1..3 => 2,
                _ => 1,
            }
        } else {
            match rng.random_range(0..12) {
                0..4 => 1,
                4 => 2,
                5..8 => 16,
                8 => 64,
                9 => rng.random_range(1..=64),
                _ => rng.random_range(1..=20),
            }
        };
        let bytes = 4 * dws;
        let cursor = pair.cursor[end];
        let follows = page == cursor.0 && cursor.1 + bytes <= PAGE && {
            let chance = if small { 97 } else { 50 };
            percent(rng, chance)
        };
        let offset = if page == BOUNDED {
            rng.random_range(512..=(PAGE - bytes) / 4) * 4
        } else if follows {
            cursor.1
        } else {
            rng.random_range(0..=(PAGE - bytes) / 4) * 4
        };
        pair.cursor[end] = match page {
            _ if offset + bytes >= PAGE => (rng.random_range(PLAIN), 0),
            page => (page, offset + bytes),
        };
        if small && !PLAIN.contains(&pair.cursor[end].0) {
            pair.cursor[end].0 = rng.random_range(PLAIN);
        }
        let plain = plain_enables || percent(rng, if small { 98 } else { 70 });
        let enables = match (plain, dws) {
            (true, 1) => 0x0F,
            (true, _) => 0xFF,
            (false, _) => crate::difftest::world::random_enables(rng, dws as u16, offset as u64),
        };
        let route = pair.routes[end][page];
        let halves = (enables & 0xF, enables >> 4);
        let seed = if self.plan.one_sided > 0 {
            let place = (page as u8, offset as u16);
            self.ledger.issue(end, index, place, dws as u8, halves)?
        } else {
            self.rng.random::<u64>() & !IDENTIFIED
        };
        let entry = Entry {
            what: What::Store,
            fate,
            page: page as u8,
            dws: dws as u8,
            first_be: halves.0,
            last_be: halves.1,
            offset: offset as u16,
            seed,
            wire: wire::wire_address(route.key, route.offset + offset as u32),
            reported: false,
            excused: false,
            promised: false,
        };
        self.streams[end][index].issue(entry);
        self.page_access(end, &entry, index, false, 0);
        Ok(())
    }

    pub(super) fn issue_load(&mut self, end: usize, index: usize) {
        let host = &self.hosts[end];
        // With more loads than DMA tags two hosts that flood each other hold up each other's answers
        // until they are given up.
        if host.loads.iter().flatten().count() >= MAX_LOADS {
            return;
        }
        let rng = &mut self.rng;
        let tag = rng.random_range(0..256);
        if host.loads[tag].is_some() {
            return;
        }
        let refused = self.plan.sessions > 0 && percent(rng, 5);
        let (page, fate) = match rng.random_range(0..10) {
            _ if refused && rng.random() => (WRITE_ONLY, Fate::Refuse(3)),
            _ if refused => (NO_KEY, Fate::Refuse(1)),
            0 | 1 => (READ_ONLY, Fate::Deliver),
            2 => (HIGH, Fate::Deliver),
            _ => (rng.random_range(PLAIN), Fate::Deliver),
        };
        let dws: u16 = *[1, 1, 2, 16, 64].choose(rng).unwrap_or(&1);
        let offset = rng.random_range(0..=(PAGE - 4 * usize::from(dws)) / 4) * 4;
        let range = offset..offset + 4 * usize::from(dws);
        let mut others = host.loads.iter().flatten();
        if others.any(|load| load.overlaps(index, page, &range)) {
            return;
        }
        let enables = match (percent(rng, 70), dws) {
            (true, 1) => 0x0F,
            (true, _) => 0xFF,
            (false, 1) => *[0x1, 0x3, 0x6, 0xC, 0x8].choose(rng).unwrap_or(&0xF),
            (false, _) => {
                let (low, high) = (rng.random_range(0..4), rng.random_range(0..4));
                (0xF_u8 >> high) << 4 | 0xF_u8 << low & 0xF
            }
        };
        let route = self.pairs[index].routes[end][page];
        let entry = Entry {
            what: What::Load(tag as u8),
            fate,
            page: page as u8,
            dws: dws as u8,
            first_be: enables & 0xF,
            last_be: enables >> 4,
            offset: offset as u16,
            seed: 0,
            wire: wire::wire_address(route.key, route.offset + offset as u32),
            reported: false,
            excused: false,
            promised: false,
        };
        self.hosts[end].loads[tag] = Some(Load {
            pair: index,
            page,
            offset,
            dws,
            enables: (entry.first_be, entry.last_be),
            issued_ps: self.now_ps,
            values: Vec::new(),
            refused,
            got: Vec::new(),
            // Of a reset that its host does not know of yet, or nobody is told of.
            doomed: self.care[end].driver != super::resets::Driver::Up
                || self.streams[end][index].is_lossy(),
            bare: self.care[1 - end].bare,
        });
        self.streams[end][index].issue(entry);
        self.page_access(end, &entry, index, true, tag as u8);
    }
}
