// SPDX-License-Identifier: Apache-2.0
//! A cable is cut: what happened at each switch until its tables led past it, by the simulated clock.
//!
//! Three sources say it: the topology, when the cable was cut; the rack, when a guest was told of its carrier, stored words,
//! and when the switch took them; and each guest's kernel (`ip monitor`), when it spoke of a link or a route.

use std::str::FromStr;

use serde::Serialize;

use crate::ids::ComponentId;
use crate::time::Picoseconds;
use crate::timeline::{Timeline, What};
use crate::topology::Topology;

/// When guests' clocks begin, as `ip -ts` writes it with `TZ=UTC0`; runs are shorter than the rest of the month.
const BEGIN: &str = "2026-01-";
/// The kernel's message and fibd's words for it have the same time, for code takes none; who of the two readers of the
/// message is first is the guest's to decide.
const SLACK: Picoseconds = Picoseconds::from_us(200);

const PER_MICROSECOND: u64 = 1_000_000;
/// Changes that are told of a switch and a cut.
const MOST_CHANGES: usize = 100;

/// What a guest's kernel said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// When.
    pub at: Picoseconds,
    /// Of a link; else of a route.
    pub link: bool,
    /// In the words of `ip`.
    pub text: String,
}

/// Reads what `ip -ts -oneline monitor label link route` has written.
pub fn parse(log: &str) -> Vec<Said> {
    log.lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<Said> {
    let (stamp, rest) = line.strip_prefix('[')?.split_once("] ")?;
    let (day, time) = stamp.strip_prefix(BEGIN)?.split_once('T')?;
    let mut clock = time.split(':');
    let mut next = || -> Option<&str> { clock.next() };
    // The file is the guest's: numbers of so few bits can't overflow what is made of them, but picoseconds.
    let whole = |text: &str| u8::from_str(text).ok().map(u64::from);
    let days = whole(day)?.checked_sub(1)?;
    let (hours, minutes) = (whole(next()?)?, whole(next()?)?);
    let (seconds, micros) = next()?.split_once('.')?;
    let seconds = ((days * 24 + hours) * 60 + minutes) * 60 + whole(seconds)?;
    let micros = u64::from(u32::from_str(micros).ok()?);
    let picoseconds = (seconds * 1_000_000 + micros).checked_mul(PER_MICROSECOND)?;
    let at = Picoseconds(picoseconds);
    let (link, text) = match rest.strip_prefix("[LINK]") {
        Some(text) => (true, text),
        None => (false, rest.strip_prefix("[ROUTE]")?),
    };
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(Said { at, link, text })
}

/// A route that a daemon changed, on its way into a switch; times since the cable was cut, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Change {
    /// In the words of `ip`.
    pub route: String,
    /// The kernel told of it.
    pub route_ns: f64,
    /// fibd's first word of the burst that has it left the processor.
    pub stored_ns: Option<f64>,
    /// The switch had the last word of that burst in its memories.
    pub taken_ns: Option<f64>,
}

/// A switch's share in an outage; times as in [`Change`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Share {
    /// The switch.
    pub switch: String,
    /// The guest that is its host.
    pub guest: String,
    /// The guest's network device lost its carrier.
    pub carrier_ns: Option<f64>,
    /// The kernel told its programs so.
    pub link_ns: Option<f64>,
    /// Routes that changed, in the order of their times, until something else happens to a cable.
    pub changes: Vec<Change>,
    /// How many more there were.
    pub more: usize,
}

/// A cut cable.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outage {
    /// Its ends.
    pub cable: [String; 2],
    /// When, in simulated nanoseconds.
    pub cut_ns: f64,
    /// The switches with guests, in the order of the topology.
    pub switches: Vec<Share>,
}

/// All cuts of a topology, in the order of their times. `said` has what each guest's kernel said, by number.
pub fn outages(topology: &Topology, timeline: &Timeline, said: &[Vec<Said>]) -> Vec<Outage> {
    let cuts = topology.cable.iter().filter_map(|cable| {
        let (from, to) = cable.cut?.span();
        Some((cable, from, to))
    });
    let mut cuts: Vec<_> = cuts.collect();
    cuts.sort_by_key(|(_, from, _)| *from);
    let times = cuts.iter().flat_map(|(_, from, to)| [Some(*from), *to]);
    let times: Vec<_> = times.flatten().collect();
    let mut outages = Vec::new();
    for (cable, cut, _) in cuts {
        let later = times.iter().copied().filter(|time| *time > cut).min();
        let window = (cut, later.unwrap_or(Picoseconds(u64::MAX)));
        let switches = (0..topology.switch.len())
            .filter_map(|switch| share(topology, timeline, said, switch, window));
        outages.push(Outage {
            cable: cable.between.as_ref().clone(),
            cut_ns: cut.as_ns(),
            switches: switches.collect(),
        });
    }
    outages
}

fn share(
    topology: &Topology,
    timeline: &Timeline,
    said: &[Vec<Said>],
    switch: usize,
    (cut, end): (Picoseconds, Picoseconds),
) -> Option<Share> {
    let spec = &topology.switch[switch];
    let control = spec.control.as_ref()?.as_ref();
    let guest = topology.host_index(control)?;
    let at_guest = ComponentId(2 * guest as u32);
    let at_switch = ComponentId((2 * topology.host.len() + switch) as u32);
    let inside = |time: Picoseconds| time >= cut && time < end;
    let since = |time: Picoseconds| time.saturating_sub(cut).as_ns();
    let entries = || timeline.entries.iter().filter(|entry| inside(entry.from));
    let spoken = || {
        said.get(guest)
            .into_iter()
            .flatten()
            .filter(|said| inside(said.at))
    };

    let lost = |what: What| matches!(what, What::Carrier { up: false, .. });
    let carrier = entries().find(|entry| entry.at == at_guest && lost(entry.what));
    let link = spoken()
        .find(|said| said.link)
        .filter(|_| carrier.is_some());
    let bursts = |at: ComponentId, what: What| {
        entries().filter(move |entry| entry.at == at && entry.what == what)
    };
    let change = |said: &Said| {
        let stored = bursts(at_guest, What::Stored).find(|entry| entry.to + SLACK >= said.at);
        let taken = stored
            .and_then(|stored| bursts(at_switch, What::Taken).find(|entry| entry.to >= stored.to));
        Change {
            route: said.text.clone(),
            route_ns: since(said.at),
            stored_ns: stored.map(|entry| since(entry.from)),
            taken_ns: taken.map(|entry| since(entry.to)),
        }
    };
    let routes: Vec<&Said> = spoken().filter(|said| !said.link).collect();
    Some(Share {
        switch: spec.name.as_ref().clone(),
        guest: control.clone(),
        carrier_ns: carrier.map(|entry| since(entry.from)),
        link_ns: link.map(|said| since(said.at)),
        changes: routes
            .iter()
            .take(MOST_CHANGES)
            .map(|said| change(said))
            .collect(),
        more: routes.len().saturating_sub(MOST_CHANGES),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const RACK: &str = r#"
        platform = "keio-2016"
        [[host]]
        name = "r1"
        kind = "uml"
        nic = { kind = "host-port", rate = "10g" }
        command = "true"
        [[host]]
        name = "r2"
        kind = "uml"
        nic = { kind = "host-port", rate = "10g" }
        [[switch]]
        name = "s1"
        rate = "10g"
        control = "r1"
        port = [{ number = 1, address = "10.0.0.1/24" }]
        [[switch]]
        name = "s2"
        rate = "10g"
        control = "r2"
        port = [{ number = 1, address = "10.0.0.2/24" }]
        [[cable]]
        between = ["s1:1", "s2:1"]
        metres = 1
        cut = { at_s = 2, mend_s = 3, carrier_us = 10 }
        [program]
        kind = "uml"
    "#;

    #[test]
    fn what_the_kernel_said_is_read() {
        let log = "[2026-01-01T00:00:15.020058] [ROUTE]10.1.0.0/24 via 10.0.0.1 dev sw2 \n\
             [2026-01-02T01:00:00.000001] [LINK]3: sw1: <NO-CARRIER>\\    link/ether\n\
             [2026-01-01T00:00:15] [ROUTE]no micros\n[what\n\n[2026-01-01T1:2] x\n\
             [2026-01-99999999999T00:00:00.1] [ROUTE]far\n[2026-01-255T255:255:255.4294967295] [ROUTE]late\n";
        let expected = [
            Said {
                at: Picoseconds::from_us(15_020_058),
                link: false,
                text: "10.1.0.0/24 via 10.0.0.1 dev sw2".to_owned(),
            },
            Said {
                at: Picoseconds::from_us(25 * 3_600_000_000 + 1),
                link: true,
                text: "3: sw1: <NO-CARRIER>\\ link/ether".to_owned(),
            },
        ];
        assert_eq!(parse(log), expected);
    }

    #[test]
    fn an_outage_is_taken_apart() {
        let topology = Topology::parse(RACK, Path::new("rack.toml")).expect("it is sound");
        let (r1, s1) = (ComponentId(0), ComponentId(4));
        let us = Picoseconds::from_us;
        let mut timeline = Timeline::default();
        let lost = What::Carrier { port: 1, up: false };
        for (time, at, what) in [
            // Before it, and what has nothing to do with the route.
            (1_000_000, r1, What::Stored),
            (2_000_011, r1, lost),
            (2_001_000, r1, What::Stored),
            (2_001_001, s1, What::Taken),
            (2_020_000, r1, What::Stored),
            (2_020_001, s1, What::Taken),
            (2_020_002, s1, What::Taken),
            // After it was mended.
            (3_100_000, r1, What::Stored),
        ] {
            timeline.happened(us(time), at, what);
        }
        let said = |time, link| Said {
            at: us(time),
            link,
            text: String::new(),
        };
        let said = [
            vec![
                said(1_500_000, false),
                said(2_000_012, true),
                said(2_020_005, false),
            ],
            vec![said(3_200_000, false)],
        ];
        let found = outages(&topology, &timeline, &said);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].cut_ns, found[0].switches.len()), (2e9, 2));
        let first = &found[0].switches[0];
        assert_eq!((first.carrier_ns, first.link_ns), (Some(11e3), Some(12e3)));
        let change = Change {
            route: String::new(),
            route_ns: 20_005e3,
            stored_ns: Some(20_000e3),
            taken_ns: Some(20_002e3),
        };
        assert_eq!(first.changes, [change]);
        let second = &found[0].switches[1];
        assert_eq!((second.carrier_ns, second.changes.len()), (None, 0));
    }
}
