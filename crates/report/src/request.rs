// SPDX-License-Identifier: Apache-2.0
//! A GET between two Linux hosts, taken apart: from one request's store or doorbell to the next one's.
//!
//! Who had the ball is read from what was seen at the NICs. What a NIC brings forth, a TLP or a frame, the RTL took the time
//! for; what a host brings forth are constants of its bus, CPU costs that its code was charged, and clock readings.

use rack::guests::UmlOutcome;
use rack::platform::{HostTiming, Platform};
use rack::rack::Rack;
use rack::record::CapturedFrame;
use rack::run::cable_delays;
use rack::topology::{NicKind, Topology};
use rack::{Error, NetSpeed, Picoseconds};
use wire::tlp::{TlpHeader, TlpView};

use crate::waterfall::{Kind, Stage, Waterfall};

/// What requests and answers contain; each fits in one frame.
const REQUEST: &[u8] = b"get ";
const ANSWER: &[u8] = b"VALUE ";

/// What crossed the boundary of a NIC on the side of its host.
struct Event {
    first: Picoseconds,
    last: Picoseconds,
    to_nic: bool,
    kind: TlpKind,
    bytes: usize,
}

impl Event {
    /// A store or load, no answer to the NIC.
    fn is_from_code(&self) -> bool {
        self.to_nic && self.kind != TlpKind::Completion
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TlpKind {
    Write,
    Read,
    Completion,
}

struct Cuts<'a> {
    topology: &'a Topology,
    outcome: &'a UmlOutcome,
    platform: Platform,
    stages: Vec<Stage>,
}

/// The last GET of a run that kept its frames and TLPs; host 0 asked host 1. None if there are not two in a row.
pub fn of(
    title: &str,
    topology: &Topology,
    outcome: &UmlOutcome,
) -> Result<Option<Waterfall>, Error> {
    let mut cuts = Cuts {
        topology,
        outcome,
        platform: Platform::load(&topology.platform)?,
        stages: Vec::new(),
    };
    let nic = Rack::ids(0).1;
    let asked = |frame: &&CapturedFrame| frame.from == nic && contains(frame, REQUEST);
    let requests: Vec<_> = outcome.record.frames.iter().filter(asked).collect();
    let [.., before, request, after] = &requests[..] else {
        return Ok(None);
    };
    // The client's own part before this request, without what the one before had to wait for.
    let Some(answered) = cuts.frames(before, request, ANSWER).pop() else {
        return Ok(None);
    };
    cuts.host(0, "request", answered, request)?;
    let begin = cuts
        .stages
        .iter()
        .rposition(|stage| stage.kind == Kind::Cpu);
    cuts.stages.drain(..=begin.unwrap_or(0));
    let start = cuts.stages.first().map_or(request.frame.first, |stage| {
        Picoseconds::from_ns_f64(stage.from_ns)
    });
    cuts.network("request", request, after, REQUEST, false)?;
    let requests = cuts.frames(request, after, REQUEST);
    let answers = cuts.frames(request, after, ANSWER);
    let (Some(arrived), Some(answer), Some(answered)) =
        (requests.last(), answers.first(), answers.last())
    else {
        return Ok(None);
    };
    cuts.host(1, "server", arrived, answer)?;
    cuts.network("answer", answer, after, ANSWER, true)?;
    let there = cuts.stages.len();
    cuts.host(0, "client", answered, after)?;
    // Up to the moment at which the next request begins as this one did.
    let ends = cuts.stages[there..]
        .iter()
        .rposition(|stage| stage.kind == Kind::Cpu);
    cuts.stages
        .truncate(there + ends.map_or(0, |index| index + 1));
    for stage in &mut cuts.stages {
        stage.from_ns -= start.as_ns();
        stage.to_ns -= start.as_ns();
    }
    cuts.stages.retain(|stage| stage.to_ns > stage.from_ns);
    Ok(Some(Waterfall {
        title: title.to_owned(),
        stages: cuts.stages,
        run_hash: outcome.digest(),
    }))
}

fn contains(frame: &CapturedFrame, words: &[u8]) -> bool {
    let mut parts = frame.frame.bytes.windows(words.len());
    parts.any(|part| part == words)
}

impl<'a> Cuts<'a> {
    /// Frames with these words from one request to the next, by time.
    fn frames(
        &self,
        from: &CapturedFrame,
        to: &CapturedFrame,
        words: &'static [u8],
    ) -> Vec<&'a CapturedFrame> {
        let span = from.frame.first..to.frame.first;
        let frames = self.outcome.record.frames.iter();
        let mut frames: Vec<_> = frames
            .filter(|frame| span.contains(&frame.frame.first) && contains(frame, words))
            .collect();
        frames.sort_by_key(|frame| frame.frame.first);
        frames
    }

    fn add(&mut self, name: String, kind: Kind, (from, to): (Picoseconds, Picoseconds)) {
        if to > from {
            self.stages.push(Stage {
                name,
                kind,
                from_ns: from.as_ns(),
                to_ns: to.as_ns(),
                cycles: None,
            });
        }
    }

    /// Of RTL with one clock.
    fn add_cycles(&mut self, name: String, span: (Picoseconds, Picoseconds)) {
        let speed = NetSpeed::from(self.topology.host[0].nic.rate);
        let cycles = span.1.saturating_sub(span.0).0 as f64 / speed.net_period_ps() as f64;
        self.add(name, Kind::Rtl, span);
        if let Some(stage) = self.stages.last_mut() {
            stage.cycles = Some(cycles);
        }
    }

    /// Cables and switches: from the first word at the one NIC's MAC to the last at the other's.
    fn network(
        &mut self,
        way: &str,
        begin: &CapturedFrame,
        end: &CapturedFrame,
        words: &'static [u8],
        back: bool,
    ) -> Result<(), Error> {
        let hops = self.frames(begin, end, words);
        let many = hops.len() > 2;
        for (number, pair) in hops.windows(2).enumerate() {
            let reached = pair[0].frame.first + self.delay(number, hops.len(), back)?;
            let name = format!("{way}: PHYs, cable {}", number + 1);
            self.add(name, Kind::Constant, (pair[0].frame.first, reached));
            let index = if back {
                hops.len() - 2 - number
            } else {
                number
            };
            let switch = &self.topology.switch[index];
            let name = match many {
                true => format!("{way}: switch {}", switch.name.as_ref()),
                false => format!("{way}: switch"),
            };
            let span = (reached, pair[1].frame.first);
            if switch.latency_ns.is_some() {
                self.add(name, Kind::Constant, span);
            } else {
                self.add_cycles(name, span);
            }
        }
        if let Some(last) = hops.last() {
            let reached = last.frame.first + self.delay(hops.len() - 1, hops.len(), back)?;
            let name = format!("{way}: PHYs, cable {}", hops.len());
            self.add(name, Kind::Constant, (last.frame.first, reached));
            let whole = reached + (last.frame.last - last.frame.first);
            self.add_cycles(format!("{way}: frame on the wire"), (reached, whole));
        }
        Ok(())
    }

    /// What a cable and its physical layers take, the `number`th on the way.
    fn delay(&self, number: usize, cables: usize, back: bool) -> Result<Picoseconds, Error> {
        let number = if back { cables - 1 - number } else { number };
        let cable = self.topology.cable.get(number).ok_or_else(|| {
            Error::Config(format!(
                "a frame passed {cables} cables, but the topology has fewer"
            ))
        })?;
        let [there, over] = cable_delays(self.topology, &self.platform, cable);
        Ok(if back { over } else { there })
    }

    fn timing(&self, host: usize) -> Result<HostTiming, Error> {
        let spec = &self.topology.host[host];
        let speed = NetSpeed::from(spec.nic.rate);
        let link = spec
            .link
            .unwrap_or_else(|| self.platform.default_link(speed));
        self.platform.host_timing(link)
    }

    /// A host with its NIC: from a frame's last word at its MAC to the first of what it sends.
    fn host(
        &mut self,
        host: usize,
        way: &str,
        arrived: &CapturedFrame,
        leaves: &CapturedFrame,
    ) -> Result<(), Error> {
        let timing = self.timing(host)?;
        let cables = self.topology.cable.len();
        // The last cable on the way to it.
        let delay = self.delay(cables - 1, cables, host == 0)?;
        let from = arrived.frame.last + delay;
        let to = leaves.frame.first;
        let mut events = self.events(host, from, to);
        // The host goes on at once after a posted write: only the last of several ends what its code does.
        let ends = |events: &[Event], index: usize| {
            let next = events.get(index + 1);
            !events[index].is_from_code() || !next.is_some_and(Event::is_from_code)
        };
        let keep: Vec<_> = (0..events.len())
            .map(|index| ends(&events, index))
            .collect();
        let mut keep = keep.into_iter();
        events.retain(|_| keep.next().unwrap_or(true));
        let mut costs = self.costs(host);
        let mut at = from;
        let mut before: Option<&Event> = None;
        for event in &events {
            if !event.to_nic {
                let name = match before {
                    None => "NIC receives",
                    Some(_) => "NIC works",
                };
                self.add(format!("{way}: {name}"), Kind::Rtl, (at, event.first));
            } else if event.kind == TlpKind::Completion {
                let name = format!("{way}: PCIe and memory, a DMA read");
                self.add(name, Kind::Constant, (at, event.first));
            } else {
                self.code(way, &timing, (at, before), event, &mut costs);
            }
            at = event.first;
            before = Some(event);
        }
        self.add(format!("{way}: NIC sends"), Kind::Rtl, (at, to));
        Ok(())
    }

    /// A host's code, between what its NIC did last and what it does to the NIC.
    fn code(
        &mut self,
        way: &str,
        timing: &HostTiming,
        (at, before): (Picoseconds, Option<&Event>),
        event: &Event,
        costs: &mut Vec<(&'static str, u64)>,
    ) {
        let mut seen = at;
        if let Some(before) = before.filter(|before| !before.to_nic) {
            let mut name = "PCIe to memory";
            seen += up(timing, before);
            if before.kind == TlpKind::Completion {
                name = "PCIe to the CPU, a register's value";
                seen += timing.load.unwrap_or_default();
            }
            seen = seen.min(event.first);
            self.add(format!("{way}: {name}"), Kind::Constant, (at, seen));
        }
        let left = event.first.saturating_sub(down(timing, event)).max(seen);
        let mut at = seen;
        // What was charged by now; the rest comes when the code goes on.
        while let Some((name, ns)) = costs.first().copied() {
            let done = at + Picoseconds::from_ns(ns);
            if done > left {
                break;
            }
            self.add(format!("{way}: {name}"), Kind::Cpu, (at, done));
            at = done;
            costs.remove(0);
        }
        let name = format!("{way}: clock readings, waits of the guest's bus");
        self.add(name, Kind::Cpu, (at, left));
        let name = match event.kind {
            TlpKind::Read => "PCIe to the NIC, a read of a register",
            _ => "PCIe to the NIC",
        };
        self.add(
            format!("{way}: {name}"),
            Kind::Constant,
            (left, event.first),
        );
    }

    /// What the code between a message and its answer is charged, in order.
    fn costs(&self, host: usize) -> Vec<(&'static str, u64)> {
        let guest = &self.outcome.guests[host];
        let cost = |name: &str| {
            let mut costs = guest.costs.iter();
            costs
                .find(|cost| cost.name == name)
                .map_or(0, |cost| cost.ns)
        };
        let server = host == 1;
        let mut costs = Vec::new();
        let kernel = self.topology.host[host].nic.kind != NicKind::Ipnuma;
        if kernel {
            costs.push(("kernel receives", cost("kernel_receive_ns")));
        } else {
            costs.push(("poll", cost("poll_ns")));
        }
        // Of the library's calls: memcached asks which connection it is, the client receives; what some tens of bytes
        // take to copy is left with the rest.
        if server {
            costs.push(("library: epoll_wait", cost("library_epoll_wait_ns")));
        }
        costs.push(("library: recv", cost("library_recv_ns")));
        if server {
            costs.push(("memcached", cost("application_ns")));
        }
        if kernel {
            costs.push(("kernel sends", cost("kernel_send_ns")));
        } else {
            costs.push(("library: send", cost("library_send_ns")));
        }
        // Without the library, or with calls that are free, there is nothing to see of them.
        costs.retain(|(name, ns)| !name.starts_with("library") || *ns > 0);
        costs
    }

    fn events(&self, host: usize, from: Picoseconds, to: Picoseconds) -> Vec<Event> {
        let nic = Rack::ids(host).1;
        let tlps = self.outcome.record.tlps.iter();
        let tlps = tlps.filter(|tlp| tlp.nic == nic && (from..=to).contains(&tlp.beats.0));
        let mut events: Vec<_> = tlps
            .filter_map(|tlp| {
                let header = TlpView::new(&tlp.bytes).and_then(|view| view.header());
                Some(Event {
                    first: tlp.beats.0,
                    last: tlp.beats.1,
                    to_nic: tlp.to_nic,
                    kind: match header.ok()? {
                        TlpHeader::MemWrite(_) => TlpKind::Write,
                        TlpHeader::MemRead(_) => TlpKind::Read,
                        TlpHeader::Completion(_) => TlpKind::Completion,
                    },
                    bytes: tlp.bytes.len(),
                })
            })
            .collect();
        events.sort_by_key(|event| event.first);
        events
    }
}

/// From a TLP's first beat at the NIC until the core can see it.
fn up(timing: &HostTiming, event: &Event) -> Picoseconds {
    let whole = event.last - event.first;
    timing.link.serialisation(event.bytes).max(whole) + timing.up
}

/// From the root complex to the NIC's first beat.
fn down(timing: &HostTiming, event: &Event) -> Picoseconds {
    timing.link.serialisation(event.bytes) + timing.down
}
