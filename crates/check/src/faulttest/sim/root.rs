// SPDX-License-Identifier: Apache-2.0
//! The root complexes: DMA, events, interrupts, completions.

use super::*;

impl Sim {
    pub(super) fn tlp_from_nic(
        &mut self,
        end: usize,
        at_ps: u64,
        tlp: &[u8],
    ) -> Result<(), String> {
        let wrong = |error: String| format!("TLP from NIC {end}: {error}");
        let view = TlpView::new(tlp).map_err(|error| wrong(error.to_string()))?;
        match view.fmt_type() {
            FMT_MWR32 | FMT_MWR64 => self.dma_write(end, at_ps, &view).map_err(wrong),
            FMT_MRD32 | FMT_MRD64 => self.dma_read(end, at_ps, &view).map_err(wrong),
            FMT_CPL | FMT_CPLD => self.completion(end, at_ps, tlp, &view).map_err(wrong),
            other => Err(wrong(format!("fmt/type {other:#04x}"))),
        }
    }

    pub(super) fn dma_write(
        &mut self,
        end: usize,
        at_ps: u64,
        view: &TlpView<'_>,
    ) -> Result<(), String> {
        self.ledger.may_write(end, at_ps)?;
        let address = view.address_field() & !3;
        let data = view.data();
        let most = 128 << self.bus[end].max_payload;
        if data.len() > most || address % 4096 + data.len() as u64 > 4096 {
            return Err(format!(
                "a DMA write of {} bytes to {address:#x}, with a maximum payload of {most}",
                data.len()
            ));
        }
        let host = &mut self.hosts[end];
        if address == host.msi.0 {
            if data != host.msi.1.to_le_bytes() {
                return Err(format!("an interrupt with data {data:02x?}"));
            }
            host.msi_owed = false;
            host.interrupts += 1;
            return Ok(());
        }
        if let Some(event) = host.event(address, data)? {
            return self.event(end, &event);
        }
        let host = &mut self.hosts[end];
        let Some((pair, page, offset)) = host.locate(address, data.len()) else {
            return Err(format!("a DMA write to {address:#x}, which nobody shares"));
        };
        let write = Write {
            page,
            offset,
            first_be: view.first_be(),
            last_be: view.last_be(),
            data,
        };
        if self.loose {
            self.progress.0 += 1;
            return self.loose_write(end, pair, &write);
        }
        if self.plan.one_sided > 0 {
            self.ledger.write(end, at_ps, pair, &write)?;
        }
        let memory = pair * SESSION_PAGES * PAGE..(pair + 1) * SESSION_PAGES * PAGE;
        let shadow = &mut host.shadow[memory.clone()];
        let stream = &mut self.streams[1 - end][pair];
        let written = stream.write(&write, shadow);
        written.map_err(|error| format!("session {pair}: {error}"))?;
        write.apply(&mut host.memory[memory]);
        host.msi_owed |= page == NOTIFY && self.plan.sessions > 0;
        Ok(())
    }

    /// A write that may come of a forged frame: it must be permitted all the same.
    pub(super) fn loose_write(
        &mut self,
        end: usize,
        pair: usize,
        write: &Write<'_>,
    ) -> Result<(), String> {
        let granted = self.pairs[pair].granted[end];
        let last = write.offset + write.data.len() - 1;
        let permitted = match write.page {
            NO_KEY | READ_ONLY | FOREIGN => false,
            REVOCABLE => granted,
            BOUNDED => last <= BOUND as usize,
            _ => true,
        };
        if !permitted {
            return Err(format!(
                "a forged store was written to page {} of session {pair}",
                write.page
            ));
        }
        let host = &mut self.hosts[end];
        let memory = pair * SESSION_PAGES * PAGE..(pair + 1) * SESSION_PAGES * PAGE;
        write.apply(&mut host.memory[memory.clone()]);
        write.apply(&mut host.shadow[memory]);
        host.msi_owed |= write.page == NOTIFY;
        Ok(())
    }

    pub(super) fn event(&mut self, end: usize, event: &EventEntry) -> Result<(), String> {
        let pair = self
            .pairs
            .iter()
            .position(|pair| pair.ids[end] == event.who);
        let stream = |streams: &mut [Vec<Stream>; 2]| -> Result<usize, String> {
            let pair = pair.ok_or_else(|| format!("{event:x?} is about no session"))?;
            if streams[end].len() <= pair {
                return Err(format!("{event:x?} is about no stream"));
            }
            Ok(pair)
        };
        match event.code {
            _ if self.loose => {}
            // Forged frames outside of sessions are answered outside of them, and so are frames
            // whose source port and key were altered both.
            1..=4
                if event.who == NO_SESSION
                    && (self.plan.fuzz.is_some() || self.plan.faults.corrupt > 0) => {}
            EVENT_PEER_LOST => {
                let pair = stream(&mut self.streams)?;
                self.report.lost_peers += 1;
                if !self.plan.may_lose_peers() {
                    return Err(format!(
                        "the peer was reported lost for no reason: {event:x?}"
                    ));
                }
                let wait = self.rng.random_range(0..20 * US);
                self.pairs[pair].up[end] = false;
                self.later(wait, Action::BeginAnew { pair });
            }
            EVENT_FLUSHED => {
                let pair = stream(&mut self.streams)?;
                self.flushes[end] = self.flushes[end].saturating_sub(1);
                self.streams[end][pair].flushed(event.number, UNDER_WAY)?;
            }
            EVENT_FLUSH_FAILED => {
                let pair = stream(&mut self.streams)?;
                self.flushes[end] = self.flushes[end].saturating_sub(1);
                if !self.plan.may_lose_peers() {
                    return Err(format!("a flush failed for no reason: {event:x?}"));
                }
                self.streams[end][pair].flush_failed(event.number)?;
            }
            EVENT_LINK_DOWN => self.hosts[end].link_events.0 += 1,
            EVENT_LINK_UP => self.hosts[end].link_events.1 += 1,
            EVENT_OVERFLOW => self.events_lost(end, event)?,
            1..=4 => {
                let pair = stream(&mut self.streams)?;
                let stream = &mut self.streams[end][pair];
                let reported = stream.report(
                    self.now_ps,
                    event.code,
                    event.op,
                    event.number,
                    event.address,
                );
                reported.map_err(|error| format!("session {pair}: {error}"))?;
            }
            _ => return Err(format!("an event of no known kind: {event:x?}")),
        }
        let host = &mut self.hosts[end];
        if host.events.wrapping_sub(host.tail) > 40 || host.rng.random_range(0..16) == 0 {
            host.tail = host.events;
            let tail = host.tail;
            self.register(end, reg::REG_EVENT_TAIL, tail);
        }
        Ok(())
    }

    pub(super) fn dma_read(
        &mut self,
        end: usize,
        at_ps: u64,
        view: &TlpView<'_>,
    ) -> Result<(), String> {
        let host = &mut self.hosts[end];
        let (address, dws) = (view.address_field() & !3, view.length());
        let bytes = 4 * usize::from(dws);
        let bus = self.bus[end];
        let most = 128 << bus.max_read;
        if bytes > most {
            return Err(format!(
                "a DMA read of {bytes} bytes at {address:#x}, with a maximum read request of {most}"
            ));
        }
        let Some((pair, page, offset)) = host.locate(address, bytes) else {
            return Err(format!("a DMA read of {address:#x}, which nobody shares"));
        };
        if !(PLAIN.contains(&page) || page == READ_ONLY || page == HIGH) {
            return Err(format!("a DMA read of page {page} of session {pair}"));
        }
        let at = (pair * SESSION_PAGES + page) * PAGE + offset;
        let value = host.memory[at..at + bytes].to_vec();
        // The completion, in pieces that end at the root complex's boundary, after a while.
        let boundary = if bus.rcb_128 { 128 } else { 64 };
        let enables = (view.first_be(), view.last_be());
        let mut left = read_byte_count(dws, enables.0, enables.1);
        let mut from = 0;
        let mut due = at_ps + host.rng.random_range(100_000..1_500_000);
        if let Some(last) = host.answers.back() {
            due = due.max(last.due_ps);
        }
        while from < bytes {
            let to_border = boundary - (offset + from) % boundary;
            let fits = bytes - from <= 128 << bus.max_payload;
            let whole = host.rng.random::<bool>() && fits;
            let piece = if whole {
                bytes - from
            } else {
                (bytes - from).min(to_border)
            };
            let skipped = if from == 0 { first_byte(enables.0) } else { 0 };
            let fields = CompletionFields {
                has_data: true,
                length: (piece / 4) as u16,
                byte_count: left,
                requester_id: view.requester_id(),
                tag: view.tag(),
                lower_address: (address as usize + from) as u8 & 0x7C | skipped,
                ..CompletionFields::default()
            };
            let tlp = fields.emit(&value[from..from + piece]);
            host.answers.push_back(Answer {
                asked_ps: at_ps,
                due_ps: due,
                tlp,
            });
            let counted = piece as u16 - u16::from(skipped);
            left = left.saturating_sub(counted);
            from += piece;
        }
        // Which load was it?
        let streams = &self.streams[1 - end];
        let Host { loads, ended, .. } = &mut self.hosts[1 - end];
        let range = offset..offset + bytes;
        let late = ended.iter().any(|load| load.overlaps(pair, page, &range));
        for (tag, load) in loads.iter_mut().enumerate() {
            let Some(load) = load else { continue };
            let inside = load.offset <= offset && offset + bytes <= load.offset + load.bytes();
            if (load.pair, load.page) != (pair, page) || !inside {
                continue;
            }
            load.values.push((offset - load.offset, value.clone()));
            if self.loose {
                continue;
            }
            if load.refused {
                return Err(format!("a load that must be refused was served: {load:x?}"));
            }
            if self.plan.sessions > 0 && !late {
                streams[pair].load_served(tag as u8)?;
            }
        }
        Ok(())
    }

    pub(super) fn completion(
        &mut self,
        end: usize,
        at_ps: u64,
        tlp: &[u8],
        view: &TlpView<'_>,
    ) -> Result<(), String> {
        let requester = u16::from_be_bytes([tlp[8], tlp[9]]);
        let (tag, status) = (tlp[10], tlp[6] >> 5);
        let timeout_us = self.read_timeout_us();
        let host = &mut self.hosts[end];
        let data = view.data();
        let most = 128 << self.bus[end].max_payload;
        if data.len() > most {
            return Err(format!(
                "a completion with {} bytes, with a maximum payload of {most}",
                data.len()
            ));
        }
        if requester == host.software_id {
            if tag != host.register_tag {
                // Of a driver that a reset has made begin anew meanwhile.
                return Ok(());
            }
            let Ok(dw) = <[u8; 4]>::try_from(data) else {
                return Err(format!("a register read gave {data:02x?}"));
            };
            host.register_read = RegisterRead::Done(u32::from_le_bytes(dw));
            return Ok(());
        }
        let place = &mut host.loads[usize::from(tag)];
        let Some(load) = place.as_mut().filter(|_| requester == host.cpu_id) else {
            return Err(format!("a completion that nobody waits for: {tlp:02x?}"));
        };
        if status != 0 {
            // Given up: only after its time.
            let waited = (at_ps.saturating_sub(load.issued_ps)) / US;
            let early = waited + 8 < u64::from(timeout_us) && !load.doomed;
            if early && !self.loose {
                return Err(format!("status {status} after {waited} us for {load:x?}"));
            }
            host.loads_done.1 += 1;
            host.ended.extend(place.take());
            return Ok(());
        }
        load.got.extend_from_slice(data);
        if self.loose {
            // The NIC knows when it is the last.
            if load.got.len() >= load.bytes() {
                *place = None;
            }
            return Ok(());
        }
        let bytes = load.bytes();
        if load.got.len() > bytes || data.is_empty() {
            return Err(format!("{} bytes more for {load:x?}", data.len()));
        }
        if load.got.len() == bytes {
            if load.refused {
                if load.got.iter().any(|byte| *byte != 0) {
                    return Err(format!("a refused load gave data: {load:x?}"));
                }
                host.loads_done.2 += 1;
            } else if (load.doomed || load.bare) && load.got.iter().all(|byte| *byte == 0) {
                // It came to tables that were empty.
                host.loads_done.2 += 1;
            } else {
                check_load(load)?;
                host.loads_done.0 += 1;
            }
            host.ended.extend(place.take());
        }
        Ok(())
    }

    /// Microseconds until the NIC gives a load up. A reset of the network side waits for that, and not for ever.
    pub(super) fn read_timeout_us(&self) -> u32 {
        if self.plan.one_sided > 0 {
            60
        } else {
            READ_TIMEOUT_US
        }
    }

    /// Sends a read of a register.
    pub(super) fn ask_register(&mut self, end: usize, offset: u32) {
        let host = &mut self.hosts[end];
        host.register_tag = host.register_tag.wrapping_add(1);
        let fields = TlpFields {
            fmt_type: FMT_MRD32,
            length: 1,
            enables: 0x0F,
            requester_id: host.software_id,
            tag: host.register_tag,
            address: u64::from(offset),
            ..TlpFields::default()
        };
        host.register_read = RegisterRead::Waits;
        self.ends[end].push_tlp(&fields.emit(&[]), model::BAR_REGISTERS);
    }

    /// Reads a register, letting time pass.
    pub fn read_register(&mut self, end: usize, offset: u32) -> Result<u32, String> {
        self.ask_register(end, offset);
        for _ in 0..5_000 {
            self.window()?;
            if let RegisterRead::Done(value) = self.hosts[end].register_read {
                self.hosts[end].register_read = RegisterRead::None;
                return Ok(value);
            }
        }
        Err(format!(
            "NIC {end} does not answer a read of register {offset:#x}"
        ))
    }
}

/// Every enabled byte of a load must be one that the receiver's memory held when it was served.
fn check_load(load: &Load) -> Result<(), String> {
    let dws = usize::from(load.dws);
    for dw in 0..dws {
        let enables = match dw {
            0 => load.enables.0,
            _ if dw + 1 == dws => load.enables.1,
            _ => 0xF,
        };
        let got = &load.got[4 * dw..4 * dw + 4];
        let same = |(from, value): &(usize, Vec<u8>)| {
            let Some(at) = (4 * dw)
                .checked_sub(*from)
                .filter(|at| at + 4 <= value.len())
            else {
                return false;
            };
            let pairs = value[at..at + 4].iter().zip(got);
            let mut enabled = pairs
                .enumerate()
                .filter(|(byte, _)| enables >> byte & 1 == 1);
            enabled.all(|(_, (a, b))| a == b)
        };
        if !load.values.iter().any(same) {
            return Err(format!(
                "DW {dw} of a load is none of what memory held when it was served: {load:x?}"
            ));
        }
    }
    Ok(())
}
