// SPDX-License-Identifier: Apache-2.0
//! Windows of time: frames and TLPs go from one to the other, and what was planned happens.

use super::*;

use crate::difftest::phy::CutFrame;

impl Sim {
    /// Goes on by one window.
    pub(super) fn window(&mut self) -> Result<(), String> {
        let until = self.now_ps + self.window_ps;
        self.act()?;
        self.drive()?;
        self.rekey();
        self.inject();
        for end in 0..2 {
            while self.ends[end].backlog() < ANSWER_BACKLOG
                && let Some(next) = self.hosts[end].answers.front()
                && next.due_ps < until
            {
                let answer = self.hosts[end].answers.pop_front().unwrap_or_default();
                // Too late: the NIC may have given its tag to another read, again and again.
                if self.now_ps < answer.asked_ps + ANSWER_PS {
                    self.ends[end].push_tlp(&answer.tlp, 7);
                }
            }
            while let Some((at, frame, cut)) = self.channels[1 - end].take(until) {
                if let Some(ends) = cut {
                    self.ends[end].push_cut(at, CutFrame { bytes: frame, ends });
                    continue;
                }
                if self.plan.one_sided > 0 {
                    self.ledger.frame_arrives(end, at, &frame);
                }
                self.arrived[end] += 1;
                if end == 0 {
                    self.show_fuzzer(&frame);
                }
                self.ends[end].push_frame(at, frame);
            }
        }
        for end in 0..2 {
            let mut out = std::mem::take(&mut self.out);
            let run = self.ends[end].run(until, &mut out);
            if let Some(reborn) = out.reborn.take().filter(|_| self.plan.one_sided > 0) {
                self.reborn(end, reborn);
            }
            for (at, frame) in out.frames.drain(..) {
                if self.plan.one_sided > 0 {
                    self.ledger.frame_left(end, at, &frame)?;
                }
                self.watch_seal(end, &frame)?;
                self.channels[end].send(at, frame);
            }
            for (at, cut) in out.cuts.drain(..) {
                self.report.resets.frames_cut += 1;
                self.channels[end].send_cut(at, cut);
            }
            for (at, tlp) in out.tlps.drain(..) {
                let taken = self.tlp_from_nic(end, at, &tlp);
                if !self.failed {
                    taken?;
                }
            }
            self.out = out;
            run?;
        }
        self.now_ps = until;
        Ok(())
    }

    /// Lets the fuzzer see a genuine frame, and what is in it if it is sealed.
    pub(super) fn show_fuzzer(&mut self, frame: &[u8]) {
        let Some(fuzzer) = &mut self.fuzzer else {
            return;
        };
        fuzzer.observe(frame);
        let index = u16::from(frame[35]);
        if let Some(pair) = self
            .pairs
            .iter()
            .find(|pair| pair.sealed && pair.ids[0] == index)
        {
            let mut plain = frame.to_vec();
            let key = &pair.keys[0];
            if Sealer::new(key.rx_key, key.rx_salt)
                .open_frame(&mut plain)
                .is_ok()
            {
                fuzzer.observe(&plain);
            }
        }
    }

    /// Keeps the line to end 0 busy with forged frames.
    pub(super) fn inject(&mut self) {
        let Some(fuzzer) = self.fuzzer.as_mut().filter(|_| self.inject > 0) else {
            return;
        };
        while self.inject > 0 && self.ends[0].line_backlog() < LINE_BACKLOG {
            let Some(frame) = fuzzer.frame() else {
                return;
            };
            self.inject -= 1;
            self.arrived[0] += 1;
            self.report.fuzzed += 1;
            self.ends[0].push_frame(self.now_ps, frame);
        }
    }

    /// Goes on by a window, or to the next thing that happens if nothing moves.
    pub(super) fn pass(&mut self) -> Result<(), String> {
        if self.is_still() {
            let due = |channel: &Channel| channel.next_due_ps();
            let next = due(&self.channels[0]).min(due(&self.channels[1]));
            let actions = self.actions.iter().map(|(at, _)| *at).min();
            let next = next
                .min(actions.unwrap_or(u64::MAX))
                .min(self.ends[0].wake_ps())
                .min(self.ends[1].wake_ps());
            if next != u64::MAX && next > self.now_ps + self.window_ps {
                self.now_ps = next - self.window_ps / 2;
                let mut nothing = Outputs::default();
                for end in &mut self.ends {
                    end.run(self.now_ps, &mut nothing)?;
                }
                if !nothing.frames.is_empty() || !nothing.tlps.is_empty() {
                    return Err("a NIC that said that it was idle sent something".to_owned());
                }
            }
        }
        self.window()
    }

    /// No end does anything now.
    pub(super) fn is_still(&self) -> bool {
        self.ends
            .iter()
            .all(|end| end.wake_ps() > self.now_ps + self.window_ps)
            && self.hosts.iter().all(|host| host.answers.is_empty())
    }

    pub(super) fn act(&mut self) -> Result<(), String> {
        let until = self.now_ps + self.window_ps;
        while let Some(at) = self.actions.iter().position(|(at, _)| *at < until) {
            let (_, action) = self.actions.swap_remove(at);
            match action {
                Action::Outage { direction, ps } => self.outage(direction, ps),
                Action::LinkUp => {
                    self.link_up_ps = Some(self.now_ps);
                    self.ends.iter_mut().for_each(|end| end.set_link(true));
                }
                Action::BeginAnew { pair } => self.begin_anew(pair, None),
                Action::WriteSession { end, pair, last } => {
                    self.write_session(end, pair);
                    self.pairs[pair].up[end] = true;
                    if last {
                        self.pairs[pair].changing = false;
                        self.pairs[pair].up = [true; 2];
                    }
                }
                Action::ResetNic { end } => self.reset_nic(end)?,
                Action::Disturb { end } => self.disturb(end)?,
                Action::Probe { end, turn } => self.probe(end, turn),
                Action::Sound { end, turn } => self.sound(end, turn),
                Action::MasterOff { end } => self.take_master(end),
                Action::MasterOn { end } => {
                    self.masters_off[end] = false;
                    self.sound_later(end);
                }
                Action::Toggle { end, pair } => {
                    self.pairs[pair].granted[end] ^= true;
                    if !self.is_silent(end) {
                        self.write_region(end, pair, REVOCABLE);
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn later(&mut self, ps: u64, action: Action) {
        self.actions.push((self.now_ps + ps, action));
    }

    pub(super) fn outage(&mut self, direction: Option<usize>, ps: u64) {
        let until = self.now_ps + ps;
        let is_down = self
            .actions
            .iter()
            .any(|(_, action)| *action == Action::LinkUp);
        // A link that comes up and goes down in one window was not up for any NIC.
        if self.plan.flaps && (is_down || self.link_up_ps == Some(self.now_ps)) {
            return;
        }
        for (index, channel) in self.channels.iter_mut().enumerate() {
            if direction.is_none_or(|only| only == index) {
                channel.outage(until, self.plan.flaps);
            }
        }
        if self.plan.flaps {
            self.flaps += 1;
            self.ends.iter_mut().for_each(|end| end.set_link(false));
            self.later(ps, Action::LinkUp);
        }
    }

    /// Gives a session a new epoch, as management software does: one end, then the other.
    pub(super) fn begin_anew(&mut self, index: usize, reset: Option<usize>) {
        if self.pairs[index].changing && reset.is_none() {
            return;
        }
        self.report.anew += 1;
        for end in 0..2 {
            self.streams[end][index].excuse(self.now_ps, reset == Some(1 - end));
            if reset == Some(end) {
                self.streams[end][index].forget_flushes();
            }
        }
        let keys = setup::draw_keys(&mut self.rng);
        let early: bool = self.rng.random();
        let pair = &mut self.pairs[index];
        pair.epoch = (pair.epoch + 1) % 64;
        pair.start = setup::draw_start(&mut self.rng);
        pair.keys = keys;
        (pair.up, pair.changing) = ([false; 2], true);
        // Nothing tells a frame in the clear of this epoch's number from one of 64 epochs ago.
        if !pair.sealed {
            for (end, channel) in self.channels.iter_mut().enumerate() {
                channel.forget(pair.ids[1 - end] as u8, pair.epoch);
            }
        }
        self.actions.retain(
            |(_, action)| !matches!(action, Action::WriteSession { pair, .. } if *pair == index),
        );
        let first = reset.unwrap_or_else(|| self.rng.random_range(0..2));
        let wait = self.rng.random_range(0..30 * US);
        self.write_session(first, index);
        self.pairs[index].up[first] = early;
        let second = Action::WriteSession {
            end: 1 - first,
            pair: index,
            last: true,
        };
        self.later(wait, second);
    }

    pub(super) fn reset_nic(&mut self, end: usize) -> Result<(), String> {
        self.ends[end].restart()?;
        (self.arrived[end], self.was_reset[end]) = (0, true);
        let host = &mut self.hosts[end];
        host.loads.iter_mut().for_each(|load| *load = None);
        host.answers.clear();
        host.msi_owed = false;
        host.register_read = RegisterRead::None;
        self.ends[end].set_link(true);
        self.ledger.set_up(end);
        self.set_up(end, false);
        if !self.reliable() {
            return Ok(());
        }
        for index in 0..self.pairs.len() {
            self.begin_anew(index, Some(end));
        }
        Ok(())
    }
}
