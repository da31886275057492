// SPDX-License-Identifier: Apache-2.0
//! The run: phases, quiet moments, the fuzzer's batches, the end.

use super::*;

impl Sim {
    /// Plays the whole plan.
    pub fn run(&mut self) -> Result<Report, String> {
        self.run_inner().map_err(|error| {
            let (at, stores) = (self.now_ps as f64 / 1e6, self.stores());
            let quiet = self.report.quiet;
            self.failed = true;
            let state = self.state();
            format!(
                "{error}\n  at {at:.3} us, after {stores} stores and {quiet} quiet moments\n{state}"
            )
        })
    }

    pub(super) fn stores(&self) -> u64 {
        let streams = self.streams.iter().flatten();
        streams.map(|stream| stream.tally().stores).sum()
    }

    pub(super) fn run_inner(&mut self) -> Result<Report, String> {
        if let Some((_, frames)) = self.plan.fuzz {
            return self.run_fuzz(frames);
        }
        self.settle()?;
        while self.stores() < self.plan.stores {
            self.phase()?;
            self.settle()?;
            self.compare()?;
        }
        self.finish()
    }

    /// Genuine traffic, forged frames, and the proof that they did no harm.
    pub(super) fn run_fuzz(&mut self, frames: u64) -> Result<Report, String> {
        const BATCH: u64 = 20_000;
        let keyed = self.plan.sealed == 100;
        self.settle()?;
        while self.report.fuzzed < frames {
            self.styles = [Style::Trickle(4), Style::Trickle(8)];
            self.quota = 60;
            let batch = BATCH.min(frames - self.report.fuzzed);
            if keyed && self.report.quiet > 0 {
                // Nothing may come of them, whatever goes on.
                self.inject = batch;
            }
            while self.quota > 0 || self.inject > 0 {
                if self.quota == 0 {
                    self.quota = 50;
                }
                (0..2).try_for_each(|end| self.issue(end))?;
                self.window()?;
            }
            self.settle()?;
            self.compare()?;
            if !keyed {
                self.loose_batch(batch)?;
            }
        }
        // After all of it genuine stores must still go through.
        self.quota = 60;
        while self.quota > 0 {
            (0..2).try_for_each(|end| self.issue(end))?;
            self.window()?;
        }
        self.settle()?;
        self.compare()?;
        self.finish()
    }

    /// Forged frames in the clear may do what genuine ones may. Then all sessions begin anew.
    pub(super) fn loose_batch(&mut self, batch: u64) -> Result<(), String> {
        self.loose = true;
        self.inject = batch;
        while self.inject > 0 {
            self.quota = 10;
            (0..2).try_for_each(|end| self.issue(end))?;
            self.window()?;
        }
        self.quota = 0;
        self.settle()?;
        for pair in 0..self.pairs.len() {
            self.begin_anew(pair, None);
        }
        self.settle()?;
        for end in 0..2 {
            self.streams[end].iter_mut().for_each(Stream::abandon);
            // What a host's CPU got of a forged answer is nobody's concern any more.
            self.hosts[end]
                .loads
                .iter_mut()
                .for_each(|load| *load = None);
        }
        self.flushes = [0; 2];
        self.loose = false;
        Ok(())
    }

    pub(super) fn phase(&mut self) -> Result<(), String> {
        let left = self.plan.stores - self.stores();
        let most = if self.plan.small { 40_000 } else { 8_000 };
        self.quota = self.rng.random_range(200..most).min(left);
        for end in 0..2 {
            self.styles[end] = match self.rng.random_range(0..10) {
                0 => Style::Silent,
                1 => Style::Trickle(self.rng.random_range(5..100)),
                _ => Style::Flood,
            };
            let pace = *[100, 100, 100, 90, 50]
                .choose(&mut self.rng)
                .unwrap_or(&100);
            self.ends[end].set_pace(Pace {
                ready: pace,
                valid: 100,
            });
        }
        if !self.styles.contains(&Style::Flood) {
            self.styles[self.rng.random_range(0..2)] = Style::Flood;
        }
        if self.plan.one_way {
            self.styles = [Style::Flood, Style::Silent];
        }
        self.plan_incidents();
        let mut stalled = self.now_ps;
        let mut before = self.quota;
        while self.quota > 0 {
            for end in 0..2 {
                self.issue(end)?;
            }
            self.pass()?;
            if self.quota != before || self.moved() {
                (before, stalled) = (self.quota, self.now_ps);
            } else if self.now_ps - stalled > self.hang_ps() {
                return Err("nothing moves any more while operations wait".to_owned());
            }
        }
        Ok(())
    }

    fn hang_ps(&self) -> u64 {
        if self.plan.ends == [Kind::Model; 2] {
            MODEL_HANG_PS
        } else {
            HANG_PS
        }
    }

    pub(super) fn plan_incidents(&mut self) {
        // About as long as the phase lasts.
        let phase_ps = self.quota * 40_000;
        let rng = &mut self.rng;
        let mut list = Vec::new();
        if let Some((shortest, longest)) = self.plan.outage_ps {
            for _ in 0..rng.random_range(1..3) {
                // Evenly over the orders of magnitude.
                let scale = (longest as f64 / shortest as f64).ln();
                let ps = shortest as f64 * (rng.random::<f64>() * scale).exp();
                let direction = if rng.random() || self.plan.flaps {
                    None
                } else {
                    Some(rng.random_range(0..2))
                };
                let ps = ps as u64;
                list.push(Action::Outage { direction, ps });
            }
        }
        // Each about once in so many stores.
        for (every, kind) in [(self.plan.one_sided, 0), (self.plan.masters, 1)] {
            let Some(most) = (2 * self.quota).checked_div(every) else {
                continue;
            };
            for _ in 0..rng.random_range(0..=most) {
                let end = rng.random_range(0..2);
                list.push(if kind == 0 {
                    Action::Disturb { end }
                } else {
                    Action::MasterOff { end }
                });
            }
        }
        match self.plan.restarts {
            Restarts::None => {}
            Restarts::Sessions => {
                for _ in 0..rng.random_range(1..4) {
                    let pair = rng.random_range(0..self.pairs.len());
                    list.push(Action::BeginAnew { pair });
                }
            }
            Restarts::Nics => {
                let end = rng.random_range(0..2);
                list.push(Action::ResetNic { end });
            }
        }
        for (index, pair) in self.pairs.iter_mut().enumerate() {
            for end in 0..2 {
                // Not where nothing may be refused.
                let any = self.plan.sessions > 0 && self.plan.others[2] > 0;
                pair.toggles[end] = any && rng.random_range(0..6) == 0;
                if pair.toggles[end] {
                    for _ in 0..rng.random_range(1..6) {
                        let pair = index;
                        list.push(Action::Toggle { end, pair });
                    }
                }
            }
        }
        for action in list {
            let ps = self.rng.random_range(0..phase_ps.max(1));
            self.later(ps, action);
        }
    }

    /// Whether stores arrived or ended since the last question.
    pub(super) fn moved(&mut self) -> bool {
        let tallies = self.streams.iter().flatten().map(|stream| {
            let tally = stream.tally();
            tally.delivered + tally.refused + tally.excused + tally.flushed + tally.flush_failed
        });
        let delivered = self
            .channels
            .iter()
            .map(|channel| channel.stats().delivered);
        let now = (tallies.sum(), delivered.sum());
        let moved = now != self.progress;
        self.progress = now;
        moved
    }

    /// Waits until nothing moves and everything has ended.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        let mut stalled = self.now_ps;
        loop {
            let channels_empty = self.channels.iter().all(Channel::is_empty);
            let still = channels_empty
                && self.actions.is_empty()
                && self.drivers_are_up()
                && self.rekey.is_still()
                && self.ends.iter().all(|end| end.is_idle())
                && self.hosts.iter().all(|host| host.answers.is_empty());
            let loads = self
                .hosts
                .iter()
                .any(|host| host.loads.iter().any(Option::is_some));
            if still && !loads {
                break;
            }
            if self.moved() || !self.actions.is_empty() {
                stalled = self.now_ps;
            } else if self.now_ps - stalled > self.hang_ps() {
                let mut loads = self
                    .hosts
                    .iter()
                    .flat_map(|host| host.loads.iter().flatten());
                let load = loads.next().map(|load| {
                    let Load {
                        pair,
                        page,
                        offset,
                        dws,
                        enables,
                        refused,
                        ..
                    } = load;
                    let got = load.got.len();
                    format!(
                        "page {page} of session {pair}, offset {offset:#x}, {dws} DWs, \
                         enables {enables:x?}, refused: {refused}, {got} bytes came"
                    )
                });
                return Err(format!(
                    "it does not come to rest; idle: {:?}, channels empty: {channels_empty}, \
                     a load that waits: {load:?}",
                    [self.ends[0].is_idle(), self.ends[1].is_idle()]
                ));
            }
            self.pass()?;
        }
        Ok(())
    }

    /// A quiet moment: everything must be as it should.
    pub(super) fn compare(&mut self) -> Result<(), String> {
        self.report.quiet += 1;
        for (end, streams) in self.streams.iter_mut().enumerate() {
            for (pair, stream) in streams.iter_mut().enumerate() {
                let settled = stream.settle();
                settled.map_err(|error| format!("from NIC {end}, session {pair}: {error}"))?;
            }
        }
        for (end, host) in self.hosts.iter_mut().enumerate() {
            if host.memory != host.shadow {
                let differ = |(a, b): (&u8, &u8)| a != b;
                let at = host.memory.iter().zip(&host.shadow).position(differ);
                return Err(format!(
                    "memory {end} differs at {at:x?} of the shared pages"
                ));
            }
            host.ended.clear();
            if host.msi_owed {
                return Err(format!("NIC {end} owes an interrupt for a store"));
            }
            let (down, up) = host.link_events;
            let wrong = if host.missed {
                down.max(up) > self.flaps
            } else {
                (down, up) != (self.flaps, self.flaps)
            };
            if self.plan.flaps && !self.was_reset[end] && wrong {
                return Err(format!(
                    "NIC {end} saw the link go down {down} and up {up} times, not {}",
                    self.flaps
                ));
            }
        }
        self.flushes = [0; 2];
        self.ledger.settle()?;
        if self.plan.one_sided > 0 {
            (0..2).try_for_each(|end| self.compare_taken(end))?;
        }
        if self.reliable() {
            self.compare_sessions()?;
        }
        Ok(())
    }

    pub(super) fn status(&mut self, end: usize, pair: usize) -> Result<SessionStatus, String> {
        let base = reg::SESSION_STATUS_BASE + 32 * u32::from(self.pairs[pair].ids[end]);
        let mut dws = [0; 8];
        for (dw, value) in (0..).zip(&mut dws) {
            *value = self.read_register(end, base + 4 * dw)?;
        }
        Ok(SessionStatus::from_dws(&dws))
    }

    /// Both ends of a session must agree where they are.
    pub(super) fn compare_sessions(&mut self) -> Result<(), String> {
        let pair = self.rng.random_range(0..self.pairs.len());
        let states = [self.status(0, pair)?, self.status(1, pair)?];
        for end in 0..2 {
            let (own, other) = (&states[end], &states[1 - end]);
            let agree = own.una == own.nxt && own.nxt == other.expected && own.idle;
            if !own.valid || own.lost || !agree {
                return Err(format!(
                    "session {pair} at rest: NIC {end} has {own:x?}, NIC {} {other:x?}",
                    1 - end
                ));
            }
        }
        Ok(())
    }

    pub(super) fn counters(&mut self, end: usize) -> Result<(Vec<u32>, Vec<u32>), String> {
        let net = NetCounter::ALL.iter().map(|counter| counter.offset());
        let pcie = PcieCounter::ALL.iter().map(|counter| counter.offset());
        let net: Result<Vec<u32>, String> =
            net.map(|offset| self.read_register(end, offset)).collect();
        let pcie: Result<Vec<u32>, String> =
            pcie.map(|offset| self.read_register(end, offset)).collect();
        Ok((net?, pcie?))
    }

    pub(super) fn finish(&mut self) -> Result<Report, String> {
        let mut bad_seals = 0;
        for end in 0..2 {
            let (net, _) = self.counters(end)?;
            let count = |counter: NetCounter| u64::from(net[counter.index()]);
            let ends = NetCounter::ALL
                .iter()
                .filter(|c| c.counts() == Counts::FrameEnd);
            let sum: u64 = ends.map(|counter| count(*counter)).sum();
            let frames = count(NetCounter::RxFrames);
            // Those that came during a reset nobody has counted.
            let all = self.plan.one_sided > 0 || frames == self.arrived[end];
            // The port of a shell counts the frame, too, that a function-level reset ended in, and that its function never saw.
            let unseen = self.plan.ends[end] == Kind::Shell && self.report.resets.functions > 0;
            if !(sum..=sum + u64::from(unseen)).contains(&frames) || !all {
                return Err(format!(
                    "NIC {end} got {} frames, counted {frames}, and {sum} by their ends",
                    self.arrived[end]
                ));
            }
            let report = &mut self.report;
            report.resends += count(NetCounter::TxResend);
            report.timeouts += count(NetCounter::TxTimeout);
            report.duplicates += count(NetCounter::RxDuplicate);
            report.gaps += count(NetCounter::RxGap);
            report.broken += count(NetCounter::RxBadEndCode) + count(NetCounter::RxBadSeal);
            bad_seals += count(NetCounter::RxBadSeal);
            report.merged += count(NetCounter::TxMerged);
            report.channel += self.channels[end].stats();
            let (data, none, refused) = self.hosts[end].loads_done;
            report.loads.0 += data;
            report.loads.1 += none;
            report.loads.2 += refused;
        }
        self.check_channel()?;
        for stream in self.streams.iter().flatten() {
            let tally = stream.tally();
            let sum = &mut self.report.tally;
            sum.stores += tally.stores;
            sum.delivered += tally.delivered;
            sum.writes += tally.writes;
            sum.refused += tally.refused;
            sum.excused += tally.excused;
            sum.flushed += tally.flushed;
            sum.flush_failed += tally.flush_failed;
        }
        self.report.time_ps = self.now_ps;
        self.report.rekeyed = self.rekey.changes();
        self.check_rekey(bad_seals)?;
        let looks = self.ledger.looks();
        self.report.resets.looked_at = (looks.written, looks.left);
        self.report.resets.tlps_cut = self.ends.iter().map(|end| end.tlps_cut()).sum();
        self.report.resets.links = u64::from(self.flaps);
        Ok(self.report)
    }

    /// A run that met no trouble proves nothing.
    fn check_channel(&self) -> Result<(), String> {
        let (stats, faults) = (&self.report.channel, &self.plan.faults);
        let kinds = [
            ("lost", faults.loss, stats.lost),
            ("doubled", faults.duplicate, stats.duplicated),
            ("overtaken", faults.reorder, stats.reordered),
            ("altered", faults.corrupt, stats.corrupted),
            ("replayed", faults.replay, stats.replayed),
        ];
        for (name, chance, count) in kinds {
            let expected = stats.sent * u64::from(chance) / 1_000_000;
            if expected > 50 && !(expected / 2..expected * 2).contains(&count) {
                return Err(format!(
                    "{count} frames were {name}, about {expected} should"
                ));
            }
        }
        let wrapped = self.plan.wraps && self.stores() > 2 * 65_536;
        if wrapped && stats.replayed_in_place == 0 {
            return Err("no old frame came in the place of one with its number".to_owned());
        }
        Ok(())
    }

    /// Counters and sessions, for the report of a failure; as far as the NICs still answer.
    pub fn state(&mut self) -> String {
        let mut text = String::new();
        if self.plan.one_sided > 0 {
            for (end, care) in self.care.iter().enumerate() {
                let (read, answers) =
                    (self.hosts[end].register_read, self.hosts[end].answers.len());
                text += &format!("  driver {end}: {care:x?}, {read:?}, {answers} answers owed\n");
            }
        }
        for end in 0..2 {
            text += &format!("  NIC {end}:");
            match self.counters(end) {
                Ok((net, pcie)) => {
                    let net = NetCounter::ALL.iter().map(|c| c.name()).zip(net);
                    let pcie = PcieCounter::ALL.iter().map(|c| c.name()).zip(pcie);
                    for (name, value) in net.chain(pcie).filter(|(_, value)| *value != 0) {
                        text += &format!(" {name} {value}");
                    }
                }
                Err(error) => text += &format!(" {error}"),
            }
            text += "\n";
            for pair in 0..self.pairs.len().min(4) {
                if let (true, Ok(status)) = (self.reliable(), self.status(end, pair)) {
                    let open = self.streams[end][pair].open();
                    text += &format!("  session {pair}, {open} operations open: {status:x?}\n");
                }
            }
        }
        text
    }
}
