// SPDX-License-Identifier: Apache-2.0
//! What the daemon tells about channels and regions, in packets of limited size.

use std::time::Duration;

use ipc::protocol::{
    EndStatus, ExportStatus, Notice, RegionStatus, Reply, SocketKind, SocketStatus, Totals,
};
use rustix::io::Errno;

use super::{Answer, Channel, Counted, Kind, Machine, Refusal, State};

/// Channels in one answer: of some 700 bytes each at most, far inside a packet.
const CHANNELS: usize = 32;

/// Tokens in one answer: of some 30 bytes each at most.
const TOKENS: usize = 1000;

/// Regions in one answer, of some 300 bytes each at most without their tokens.
const REGIONS: usize = 32;

impl<H: Clone> State<H> {
    pub(super) fn sockets<M: Machine<Handle = H>>(
        &self,
        machine: &M,
        now: Duration,
        after: u64,
    ) -> Answer<H> {
        let channels = self
            .channels
            .range(after.saturating_add(1)..)
            .take(CHANNELS)
            .map(|(&number, channel)| describe(machine, now, number, channel))
            .collect();
        // To count everything takes time, and one answer of a list is enough.
        let totals = match after {
            0 => self.totals(machine),
            _ => Totals::default(),
        };
        Answer::new(
            Reply::Sockets {
                totals,
                sockets: channels,
            },
            [],
        )
    }

    /// Sums over the channels that are gone and, now, those that there are.
    fn totals<M: Machine<Handle = H>>(&self, machine: &M) -> Totals {
        let mut totals = self.gone;
        for channel in self.channels.values() {
            add(&mut totals, machine, channel);
        }
        totals
    }

    /// Keeps what was counted in channels that are now dropped.
    pub(super) fn sum_up<M: Machine<Handle = H>>(&mut self, machine: &M) {
        for channel in std::mem::take(&mut self.retired) {
            add(&mut self.gone, machine, &channel);
        }
    }

    pub(super) fn region_list(&self, after: u64) -> Answer<H> {
        let mut list: Vec<RegionStatus> = Vec::new();
        let mut tokens = 0;
        for (&number, region) in self.regions.range(after.saturating_add(1)..).take(REGIONS) {
            let valid = region.exports.iter().filter(|export| !export.revoked);
            let exports: Vec<ExportStatus> = valid
                .take(TOKENS)
                .map(|export| {
                    let windows = region.windows.iter().filter_map(|id| self.windows.get(id));
                    let windows = windows
                        .filter(|window| window.place.is_of(export.id))
                        .count();
                    ExportStatus {
                        first: export.range.start,
                        bytes: export.range.end - export.range.start,
                        rights: export.rights,
                        windows: u32::try_from(windows).unwrap_or(u32::MAX),
                    }
                })
                .collect();
            tokens += exports.len();
            if tokens > TOKENS && !list.is_empty() {
                break;
            }
            let owner = self.processes.get(&region.owner);
            list.push(RegionStatus {
                region: number,
                pid: owner.map_or(0, |owner| owner.pid),
                program: owner.map_or_else(String::new, |owner| owner.program.clone()),
                bytes: region.bytes,
                exports,
            });
        }
        Answer::new(Reply::Regions(list), [])
    }

    /// By its number, for the administrator: both sides find it reset, and it is no longer listed.
    pub(super) fn revoke_channel<M: Machine<Handle = H>>(
        &mut self,
        machine: &mut M,
        number: u64,
    ) -> Result<Answer<H>, Refusal> {
        let Some(channel) = self.channels.get(&number) else {
            return Err(Refusal::new(
                Errno::NOENT,
                format!("there is no channel {number}; `ipnuma sockets` lists them"),
            ));
        };
        machine.revoke_channel(&channel.memory);
        let holders = channel.sides.iter().flat_map(|side| &side.holders);
        for process in holders.copied().collect::<std::collections::BTreeSet<_>>() {
            let notice = Notice::Revoked {
                channel: Some(number),
                window: None,
                region: None,
            };
            self.notify(process, notice, []);
        }
        self.ring_far(machine, number);
        self.forget(number);
        Ok(Answer::done())
    }
}

fn add<M: Machine>(totals: &mut Totals, machine: &M, channel: &Channel<M::Handle>) {
    match channel.kind {
        Kind::Stream => totals.streams += 1,
        Kind::Datagram => totals.datagrams += 1,
    }
    for side in machine.counters(&channel.memory).unwrap_or_default() {
        // Processes write these counters, and they may write anything.
        totals.messages = totals.messages.wrapping_add(side.messages);
        totals.bytes = totals.bytes.wrapping_add(side.bytes);
        totals.doorbells = totals.doorbells.wrapping_add(side.doorbells);
        totals.sleeps = totals.sleeps.wrapping_add(side.sleeps);
    }
}

fn describe<M: Machine>(
    machine: &M,
    now: Duration,
    number: u64,
    channel: &Channel<M::Handle>,
) -> SocketStatus {
    let counted = machine.counters(&channel.memory).unwrap_or_default();
    let end = |side: usize, address| {
        let Counted {
            flags,
            messages,
            bytes,
            doorbells,
            sleeps,
            spins_found,
            dropped,
        } = counted[side];
        EndStatus {
            pid: channel.sides[side].pid,
            program: channel.sides[side].program.clone(),
            address,
            flags,
            messages,
            bytes,
            doorbells,
            sleeps,
            spins_found,
            dropped,
        }
    };
    SocketStatus {
        channel: number,
        kind: match channel.kind {
            Kind::Stream => SocketKind::Stream,
            Kind::Datagram => SocketKind::Datagrams,
        },
        age_ms: u64::try_from(now.saturating_sub(channel.born).as_millis()).unwrap_or(u64::MAX),
        ends: [end(0, channel.from), end(1, channel.to)],
    }
}
