// SPDX-License-Identifier: Apache-2.0
//! What the bench offers the NIC: random operations of the root complex and frames of the network.

use super::*;

impl Bench {
    /// Offers the NIC something new, as far as it may be offered now.
    pub(super) fn play(&mut self, tlp_share: u32) {
        let (beats, line) = self.dut.backlog();
        if beats < MAX_BEATS {
            if percent(&mut self.rng, 10) || self.model.waiting() > 0 {
                self.answer_a_read();
            }
            if self.next_tlp.is_none() && percent(&mut self.rng, tlp_share) {
                self.next_tlp = Some(self.draw_tlp());
            }
            if let Some((tlp, bar, is_load)) = self.next_tlp.take() {
                // A load takes a tag: completions that free tags must be through.
                if is_load && self.completions_under_way() {
                    self.next_tlp = Some((tlp, bar, is_load));
                } else {
                    self.send_tlp(&tlp, bar);
                }
            }
        }
        if line < MAX_LINE {
            if self.next_frame.is_none() && percent(&mut self.rng, 100 - tlp_share) {
                self.next_frame = self.draw_frame();
            }
            if let Some(frame) = self.next_frame.take() {
                if self.may_receive(&frame) {
                    self.send_frame(frame);
                } else {
                    self.next_frame = Some(frame);
                }
            }
        }
    }

    pub(super) fn draw_tlp(&mut self) -> (Vec<u8>, u8, bool) {
        let rng = &mut self.rng;
        let (tlp, bar) = match rng.random_range(0..100) {
            0..62 => self.world.page_access(false, rng),
            62..72 => self.world.page_access(true, rng),
            72..77 => self.world.harmless_register(rng),
            77..82 => {
                // A page or a peer changes in the midst of traffic, for the TLPs that follow.
                if self.writes.is_empty() {
                    self.writes = if rng.random() {
                        let index = rng.random_range(0..self.world.pages.len());
                        self.world.page_entry(index, rng).into()
                    } else {
                        let index = rng.random_range(0..self.world.peers.len());
                        self.world.peer_entry(index, false, rng).into()
                    };
                }
                self.next_write()
            }
            82..90 => self.world.bad_tlp(rng),
            90..93 => self.stray_completion(),
            _ if !self.writes.is_empty() => self.next_write(),
            _ => self.world.page_access(false, rng),
        };
        let is_load = bar == model::BAR_PAGES && tlp[0] & 0x5F == 0;
        if is_load && self.load == Load::Stress {
            let (tlp, bar) = self.world.page_access(false, &mut self.rng);
            return (tlp, bar, false);
        }
        (tlp, bar, is_load)
    }

    pub(super) fn next_write(&mut self) -> (Vec<u8>, u8) {
        let (offset, value) = self.writes.pop_front().unwrap_or((reg::REG_ID, 0));
        self.world.register_write(offset, value, &mut self.rng)
    }

    /// A completion that belongs to no read, or is spoiled.
    pub(super) fn stray_completion(&mut self) -> (Vec<u8>, u8) {
        let rng = &mut self.rng;
        let dws: u16 = rng.random_range(0..20);
        let mut fields = CompletionFields {
            has_data: dws > 0,
            flags: 0,
            length: dws,
            status: if dws > 0 { 0 } else { 1 },
            byte_count: rng.random_range(0..4096),
            requester_id: self.world.config.completer_id,
            tag: rng.random(),
            lower_address: rng.random_range(0..128),
        };
        let mut data = random_bytes(rng, 4 * usize::from(dws));
        // The tag may be anybody's if the TLP is not taken anyway.
        match rng.random_range(0..4) {
            0 => fields.flags = 0x40,
            1 => data.extend_from_slice(&random_bytes(rng, 4)),
            pick => {
                if pick == 2 {
                    fields.flags = 0x80;
                    data.extend_from_slice(&random_bytes(rng, 4));
                }
                // Another generation of a tag that is in use, or a tag that never is.
                fields.tag |= 0x20;
                if let Some(read) = self.reads.choose(rng) {
                    fields.tag = read.tag ^ (rng.random_range(1..4) << 3);
                }
            }
        }
        let mut tlp = fields.emit(&data);
        if rng.random() && data.is_empty() {
            tlp[3] = 0;
        }
        (tlp, 7)
    }

    pub(super) fn draw_frame(&mut self) -> Option<LineFrame> {
        if self.load == Load::Stress {
            // The shortest gaps, and nothing that a drop would change for what follows.
            let draw = match self.flood {
                Flood::None => any_frame,
                Flood::Loads => load_frame,
                Flood::Arp => arp_frame,
            };
            let mut frame = draw(&self.world, self.speed, &mut self.rng);
            frame.gap = frame.gap.min(12);
            return self.may_receive(&frame).then_some(frame);
        }
        if percent(&mut self.rng, 15) && !self.loads.is_empty() {
            return Some(self.answer_a_load());
        }
        let rng = &mut self.rng;
        if percent(rng, 2) && !self.loads.is_empty() {
            return Some(self.stray_net_completion());
        }
        Some(any_frame(&self.world, self.speed, rng))
    }

    /// The peer that was asked answers a load, whole or in part, or refuses.
    pub(super) fn answer_a_load(&mut self) -> LineFrame {
        let rng = &mut self.rng;
        let index = rng.random_range(0..self.loads.len());
        let load = &mut self.loads[index];
        let from = Peer {
            id: 0,
            mac: rng.random::<u64>() >> 16,
            ip: load.peer_ip,
        };
        let lead = u16::from(load.lower_address & 3);
        let mut fields = NetCompletion {
            tag: load.tag,
            status: 0,
            byte_count: load.left,
            lower_address: load.lower_address,
            dws: (lead + load.left).div_ceil(4),
        };
        let mut done = true;
        match rng.random_range(0..12) {
            0 => {
                (fields.status, fields.dws) = (rng.random_range(1..8), 0);
                (fields.byte_count, fields.lower_address) =
                    (rng.random_range(0..4096), rng.random_range(0..128));
            }
            1 => {
                misfit(&mut fields, rng);
                done = false;
            }
            2..6 if fields.dws > 1 => {
                // It counts where a root complex may cut: at multiples of 64 bytes.
                let first = u16::from(load.lower_address >> 2);
                let boundary = 16 - first % 16;
                let part = if boundary < fields.dws && percent(rng, 80) {
                    boundary + 16 * rng.random_range(0..(fields.dws - boundary).div_ceil(16))
                } else {
                    rng.random_range(1..fields.dws)
                };
                fields.dws = part;
                if (first + part).is_multiple_of(16) {
                    load.left -= 4 * part - lead;
                    load.lower_address =
                        (load.lower_address & 0x7C).wrapping_add(4 * part as u8) & 0x7F;
                }
                done = false;
            }
            _ => {}
        }
        if done {
            self.loads.swap_remove(index);
        }
        let rng = &mut self.rng;
        let bytes = completion(&self.world, from, fields, rng);
        on_line(bytes, Fault::None, self.speed, rng)
    }

    /// A completion that no load waits for, or from somebody else.
    pub(super) fn stray_net_completion(&mut self) -> LineFrame {
        let rng = &mut self.rng;
        let mut from = *self.world.peers.choose(rng).expect("there are peers");
        let mut fields = NetCompletion {
            tag: rng.random(),
            status: 0,
            byte_count: 4,
            lower_address: rng.random_range(0..128),
            dws: rng.random_range(0..4),
        };
        let load = self.loads.choose(rng).expect("the caller has seen loads");
        if rng.random() {
            fields.tag = load.tag;
            from.ip = load.peer_ip ^ 1 << rng.random_range(0..32);
        } else {
            // Another generation.
            fields.tag = load.tag ^ (rng.random_range(1..8) << 5);
        }
        let bytes = completion(&self.world, from, fields, rng);
        on_line(bytes, Fault::None, self.speed, rng)
    }

    /// Loads that were given to the NIC and are not yet seen on the wire or refused.
    pub(super) fn loads_in_flight(&self) -> bool {
        let is_read = |frame: &Vec<u8>| frame.len() > 50 && frame[42] == 0x4E && frame[50] == 0x20;
        self.expect
            .frames(FrameSource::Requester)
            .iter()
            .any(is_read)
            || !self.expect.tlps(TlpSource::Refusal).is_empty()
    }

    /// Completions for the CPU that the NIC may not have finished.
    pub(super) fn completions_under_way(&self) -> bool {
        self.slots.contains(&Slot::Completion)
    }

    /// The next operation of this kind was seen; what was in front of it is done.
    pub(super) fn leave_slot(&mut self, kind: Slot) {
        while let Some(slot) = self.slots.pop_front() {
            if slot == kind {
                break;
            }
        }
    }

    pub(super) fn is_quiet(&self) -> bool {
        let tags_out = self.model.outstanding_loads().next().is_some()
            || self.model.outstanding_reads().next().is_some();
        self.dut.is_quiet(tags_out)
    }

    pub(super) fn reads_in_flight(&self) -> bool {
        let is_read = |tlp: &Vec<u8>| tlp[0] & 0x5F == 0;
        self.expect.tlps(TlpSource::Server).iter().any(is_read)
    }

    /// Whether the frame's end does not depend on what the NIC has not yet finished.
    pub(super) fn may_receive(&self, frame: &LineFrame) -> bool {
        let end = self.model.verdict(&frame.bytes, frame.fault.for_model());
        if self.load == Load::Stress {
            return end != NetCounter::RxLoad;
        }
        match end {
            NetCounter::RxStore => self.slots.len() < RX_CREDIT,
            NetCounter::RxLoad => {
                self.slots.len() < RX_CREDIT
                    && self.expect.frames(FrameSource::Completions).is_empty()
            }
            NetCounter::RxCompletion => self.slots.len() < RX_CREDIT && !self.loads_in_flight(),
            NetCounter::RxBadKey
            | NetCounter::RxBadSource
            | NetCounter::RxBadRights
            | NetCounter::RxBadBounds => {
                self.expect.frames(FrameSource::Refusals).len() < DENY_CREDIT
            }
            NetCounter::RxArp => self.expect.frames(FrameSource::Arp).is_empty(),
            NetCounter::RxOverflow => false,
            _ => true,
        }
    }

    pub(super) fn send_frame(&mut self, frame: LineFrame) {
        let end = self.give_to_model(&frame.bytes, frame.fault);
        self.dut.push_frame(&frame);
        self.remember(Input::Frame(frame, end));
        self.totals.operations += 1;
    }

    pub(super) fn give_to_model(&mut self, frame: &[u8], fault: Fault) -> NetCounter {
        let fault = fault.for_model();
        let end = self.model.frame_from_wire(frame, fault, &mut self.expect);
        match end {
            NetCounter::RxStore => self.slots.push_back(Slot::Store),
            NetCounter::RxLoad => self.slots.push_back(Slot::Load),
            NetCounter::RxCompletion => self.slots.push_back(Slot::Completion),
            _ => {}
        }
        end
    }

    /// In a pair: a frame that the other NIC sent to this one.
    pub(super) fn receive(&mut self, frame: &[u8]) -> NetCounter {
        self.give_to_model(frame, Fault::None)
    }

    pub(super) fn send_tlp(&mut self, tlp: &[u8], bar: u8) {
        self.model.tlp_from_root(tlp, bar, &mut self.expect);
        self.dut.push_tlp(tlp, bar);
        if self.counters.is_none() {
            self.remember(Input::Tlp(tlp.to_vec(), bar));
        }
        self.totals.operations += 1;
    }

    pub(super) fn remember(&mut self, input: Input) {
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(input);
    }

    /// The root complex answers one DMA read, or a part of it.
    pub(super) fn answer_a_read(&mut self) {
        if self.reads.is_empty() {
            return;
        }
        // The end of a read frees its tag: loads that take one must be through, and when loads
        // wait for one, the tags must be freed one by one.
        let may_end = !self.reads_in_flight()
            && (self.model.waiting() == 0
                || self.expect.frames(FrameSource::Completions).is_empty());
        let rng = &mut self.rng;
        let index = rng.random_range(0..self.reads.len());
        let forgotten = self.model.outstanding_reads().count() > self.reads.len() + 2;
        let read = &mut self.reads[index];
        if !read.answered && !forgotten && self.model.waiting() == 0 && percent(rng, 2) {
            // Nobody ever answers this one.
            self.reads.swap_remove(index);
            return;
        }
        let lead = (read.address & 3) as u16;
        let mut fields = CompletionFields {
            has_data: true,
            length: (lead + read.left).div_ceil(4),
            byte_count: read.left,
            requester_id: self.world.config.completer_id,
            tag: read.tag,
            lower_address: (read.address & 0x7F) as u8,
            ..CompletionFields::default()
        };
        // Where it may be split: at multiples of 64 bytes.
        let first_cut = 64 - (read.address & 63) as u16;
        let cuts = (read.left.saturating_sub(first_cut)).div_ceil(64);
        let mut taken = read.left;
        if percent(rng, 4) {
            fields.has_data = false;
            fields.length = 0;
            fields.status = *[1, 2, 4].choose(rng).unwrap_or(&1);
        } else if cuts > 0 && percent(rng, 60) {
            taken = first_cut + 64 * rng.random_range(0..cuts);
            fields.length = (lead + taken) / 4;
        }
        let ends = taken == read.left || fields.status != 0;
        if ends && !may_end {
            return;
        }
        let mut data = vec![0; 4 * usize::from(fields.length)];
        self.memory.read(read.address & !3, &mut data);
        if percent(rng, 10) {
            // A digest, which is no data.
            fields.flags |= 0x80;
            data.extend_from_slice(&random_bytes(rng, 4));
        }
        read.address += u64::from(taken);
        read.left -= taken;
        read.answered = true;
        if ends {
            self.reads.swap_remove(index);
        }
        let tlp = fields.emit(&data);
        self.send_tlp(&tlp, 7);
    }
}

/// Changes a right answer into one that does not fit its load.
fn misfit(fields: &mut NetCompletion, rng: &mut ChaCha8Rng) {
    match rng.random_range(0..5) {
        0 => fields.byte_count ^= 1 << rng.random_range(0..12),
        1 => fields.lower_address ^= 1 << rng.random_range(0..7),
        2 => fields.dws = 0,
        3 if fields.dws < 64 => fields.dws = rng.random_range(fields.dws + 1..=64),
        _ => fields.status = rng.random_range(1..8),
    }
}
