// SPDX-License-Identifier: Apache-2.0
//! New keys for sealed sessions while they carry stores, and an eye on all that is sealed: each frame must have the key that is
//! due, and no packet number comes twice with a key.

use super::*;
use std::collections::VecDeque;
use wire::KeyUse;
use wire::seal::packet_number;

/// Longest pause between two steps.
const PAUSE_PS: u64 = 5 * US;

/// A frame has reached its receiver's keys, or is lost, this long after it left: the cable, and what waits for the line and the host.
const FLIGHT_PS: u64 = 10 * US;

/// The keys of a session, beside those that its pair has.
#[derive(Clone, Debug)]
struct Ring {
    /// Those before and those after the pair's.
    before: Option<[KeyEntry; 2]>,
    after: Option<[KeyEntry; 2]>,
    /// Number of the pair's keys, from 0.
    number: u64,
    /// Number and packet number of the last frame from either end.
    last: [(u64, u64); 2],
    /// When frames left either end, within `FLIGHT_PS`, and the number of their keys.
    flying: [VecDeque<(u64, u64)>; 2],
    /// Frames that may have met, at their receiver, the key after next, and then do not open.
    outdated: u64,
    /// Epoch that this is about.
    epoch: u8,
}

/// What is done next for a session: receive at one end, send at the other, and the same the other way round.
#[derive(Clone, Copy, Debug)]
struct Change {
    pair: usize,
    first: usize,
    step: usize,
    due_ps: u64,
    /// The end whose write is not known to have been carried out.
    fence: Option<usize>,
}

/// All sessions' keys, and the change that is under way.
#[derive(Debug, Default)]
pub(super) struct Rekey {
    rings: Vec<Ring>,
    change: Option<Change>,
    changes: u64,
}

impl Rekey {
    /// Nothing is under way.
    pub(super) fn is_still(&self) -> bool {
        self.change.is_none()
    }

    /// Keys that were replaced at both ends.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }
}

impl Ring {
    fn new(epoch: u8) -> Self {
        Self {
            before: None,
            after: None,
            number: 0,
            last: [(0, 0); 2],
            flying: Default::default(),
            outdated: 0,
            epoch,
        }
    }

    fn forget_flown(&mut self, now_ps: u64) {
        for flying in &mut self.flying {
            while flying
                .front()
                .is_some_and(|(left, _)| left + FLIGHT_PS < now_ps)
            {
                flying.pop_front();
            }
        }
    }

    /// The receiver at `end` gets key `number`, which takes the place of the one two before.
    fn outdate(&mut self, end: usize, number: u64, now_ps: u64) {
        self.forget_flown(now_ps);
        let met = self.flying[1 - end]
            .iter()
            .filter(|(_, sealed)| sealed + 2 == number);
        self.outdated += met.count() as u64;
    }
}

impl Sim {
    /// Does the next step of a change of keys, or begins one.
    pub(super) fn rekey(&mut self) {
        if self.plan.rekey == 0 {
            return;
        }
        let Some(mut change) = self.rekey.change.take() else {
            return self.begin_change();
        };
        if let Some(end) = change.fence {
            let RegisterRead::Done(_) = self.hosts[end].register_read else {
                self.rekey.change = Some(change);
                return;
            };
            self.hosts[end].register_read = RegisterRead::None;
            change.fence = None;
        }
        if change.step == 4 {
            self.end_change(change.pair);
            return;
        }
        if self.now_ps >= change.due_ps {
            let end = change.first ^ [0, 1, 1, 0][change.step];
            let next = self.rekey.rings[change.pair].number + 1;
            let phase = next % 2 == 1;
            let what = match change.step {
                0 | 2 => KeyUse::Receive(phase),
                _ => KeyUse::Send(phase),
            };
            self.write_next_key(end, change.pair, what);
            if let KeyUse::Receive(_) = what {
                self.rekey.rings[change.pair].outdate(end, next, self.now_ps);
            }
            change.step += 1;
            change.fence = Some(end);
            change.due_ps = self.now_ps + self.rng.random_range(0..PAUSE_PS);
        }
        self.rekey.change = Some(change);
    }

    fn begin_change(&mut self) {
        let every = self.plan.rekey;
        // Memories are compared when nothing moves.
        let busy = self.quota == 0 || self.hosts.iter().any(|host| host.register_read.is_used());
        let worn = |ring: &Ring| ring.last.iter().any(|(_, packet)| *packet >= every);
        let Some(pair) = self.rekey.rings.iter().position(worn).filter(|_| !busy) else {
            return;
        };
        self.rekey.rings[pair].after = Some(setup::draw_keys(&mut self.rng));
        self.rekey.change = Some(Change {
            pair,
            first: self.rng.random_range(0..2),
            step: 0,
            due_ps: self.now_ps,
            fence: None,
        });
    }

    fn end_change(&mut self, pair: usize) {
        let ring = &mut self.rekey.rings[pair];
        if let Some(after) = ring.after.take() {
            ring.before = Some(std::mem::replace(&mut self.pairs[pair].keys, after));
            ring.number += 1;
            self.rekey.changes += 1;
        }
    }

    fn write_next_key(&mut self, end: usize, pair: usize, what: KeyUse) {
        let Some(keys) = self.rekey.rings[pair].after else {
            return;
        };
        let id = u32::from(self.pairs[pair].ids[end]);
        let dws = keys[end].to_dws_for(what);
        let writes = setup::entry_writes(reg::KEY_BASE, id, 64, &dws);
        self.registers(end, &writes);
        // Its answer comes behind the write.
        self.ask_register(end, reg::REG_ID);
    }

    /// A frame leaves a NIC.
    pub(super) fn watch_seal(&mut self, end: usize, frame: &[u8]) -> Result<(), String> {
        if self.plan.rekey == 0 {
            return Ok(());
        }
        if self.rekey.rings.is_empty() {
            let epochs = self.pairs.iter().map(|pair| pair.epoch);
            self.rekey.rings = epochs.map(Ring::new).collect();
        }
        let port = SessionPort::from_port(u16::from_be_bytes([frame[34], frame[35]]));
        let of_session = |pair: &Pair| {
            port.is_some_and(|port| {
                (port.epoch, u16::from(port.index)) == (pair.epoch, pair.ids[1 - end])
            })
        };
        let Some(index) = self.pairs.iter().position(of_session) else {
            return Ok(());
        };
        let (pair, ring) = (&self.pairs[index], &mut self.rekey.rings[index]);
        if ring.epoch != pair.epoch {
            return Err("a session began anew in a run whose keys change".to_owned());
        }
        let (phase, packet) = packet_number(&frame[wire::PAYLOAD_OFFSET..])
            .ok_or_else(|| format!("NIC {end} has sent a frame of session {index} unsealed"))?;
        // While a change is under way an end may be ahead of the pair, and before that writes reach it late.
        let candidates = [
            ring.after.map(|keys| (ring.number + 1, keys)),
            Some((ring.number, pair.keys)),
            ring.before.map(|keys| (ring.number.wrapping_sub(1), keys)),
        ];
        let due = candidates.into_iter().flatten().find(|(number, keys)| {
            let sealer = Sealer::new(keys[end].tx_key, keys[end].tx_salt).in_phase(phase);
            phase == (number % 2 == 1) && sealer.open_frame(&mut frame.to_vec()).is_ok()
        });
        let Some((number, _)) = due else {
            return Err(format!(
                "NIC {end} has sealed a frame of session {index} with a key that is not due: phase {phase}, packet \
                 {packet}, after key and packet {:?}",
                ring.last[end]
            ));
        };
        if (number, packet) <= ring.last[end] {
            return Err(format!(
                "NIC {end} has used packet number {packet} of key {number} of session {index} after {:?}",
                ring.last[end]
            ));
        }
        ring.last[end] = (number, packet);
        ring.flying[end].push_back((self.now_ps, number));
        ring.forget_flown(self.now_ps);
        Ok(())
    }

    /// A run in which no key changed proves nothing, and loss alone breaks no store, and no seal but of a frame that a whole key overtook.
    pub(super) fn check_rekey(&self, bad_seals: u64) -> Result<(), String> {
        let Some(least) = self.report.channel.sent.checked_div(8 * self.plan.rekey) else {
            return Ok(());
        };
        let changes = self.rekey.changes();
        let faults = &self.plan.faults;
        let only_loss = faults.corrupt + faults.duplicate + faults.reorder + faults.replay == 0;
        if changes < least {
            return Err(format!("keys changed {changes} times, not {least}"));
        }
        let outdated: u64 = self.rekey.rings.iter().map(|ring| ring.outdated).sum();
        if only_loss && bad_seals > outdated {
            return Err(format!(
                "{bad_seals} frames did not open, though none was altered and {outdated} at most met the key after next"
            ));
        }
        let tally = &self.report.tally;
        let lost = tally.stores - tally.delivered;
        if only_loss && self.plan.others[2] == 0 && lost > 0 {
            return Err(format!("{lost} stores were not delivered"));
        }
        Ok(())
    }
}
