// SPDX-License-Identifier: Apache-2.0
//! `ipnuma bench`: how fast the simulation is, and where the time goes.

use std::fmt::Write as _;
use std::process::ExitCode;

use ::mcb::Command;
use rack::faults::Faults;
use rack::guests::UmlOutcome;
use rack::run::{Options, rtl, run as run_topology};
use rack::topology::{Format, NicOptions, Pair, Rate};
use rack::{Error, Topology};
use serde::Serialize;

use crate::output;
use report::fitted::Constants;
use report::memcached::{self, Batch, Library, Measured, Path, Place, Setup, SwitchKind};
use report::text;

/// Options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
GETs a second are those of memcached and its client in two Linux hosts, NICs and FIBNIC in RTL, all on one core. Each row
is run twice, with few GETs and with many, and has the difference: the start of the hosts does not count. It needs the
kernel that tools/uml-kernel builds, and times mean something only while this machine does nothing else.")]
pub struct Arguments {
    /// Round trips of each measurement
    #[arg(long, default_value_t = 2_000)]
    loops: u64,
    /// GETs of each measurement; 0 leaves them out
    #[arg(long, default_value_t = 1_000)]
    gets: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How fast ping-pongs are simulated.
#[derive(Debug, Serialize)]
struct Speed {
    name: &'static str,
    pingpongs_per_s: f64,
    clock_edges_per_s: f64,
    simulated_ns_per_s: f64,
    seconds: f64,
}

/// How fast GETs are, and where the time goes, in parts of a hundred.
#[derive(Debug, Serialize)]
struct Gets {
    name: String,
    gets_per_s: f64,
    clock_edges_per_get: f64,
    guests_percent: f64,
    nics_percent: f64,
    switch_percent: f64,
    calendar_percent: f64,
}

/// Everything, for JSON; GETs that were not run are not there.
#[derive(Debug, Serialize)]
struct Speeds {
    pingpongs: Vec<Speed>,
    gets: Option<Vec<Gets>>,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    rack::topology::check_pingpong(4, arguments.loops)
        .map_err(|sentence| Error::Config(format!("--{sentence}")))?;
    if arguments.gets > MOST_GETS {
        return Err(Error::Config(format!(
            "--gets: {} are too many; write 0 to {MOST_GETS}",
            arguments.gets
        )));
    }
    let pingpongs = pingpongs(arguments.loops)?;
    if !arguments.json {
        output::print(&show_pingpongs(&pingpongs))?;
    }
    let ready = memcached::ready();
    let gets = match arguments.gets {
        0 => None,
        _ if ready.is_err() => None,
        count => Some(gets(count)?),
    };
    if arguments.json {
        let speeds = Speeds { pingpongs, gets };
        output::print(&output::json("bench", &speeds))?;
    } else if let Some(gets) = gets {
        output::print(&show_gets(&gets))?;
    } else if let (Err(needs), 1..) = (ready, arguments.gets) {
        output::print(&format!(
            "\nmemcached, GET {BYTES} bytes: left out: it needs {needs}\n"
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show_pingpongs(speeds: &[Speed]) -> String {
    let mut out = format!(
        "{:<26}{:>14}{:>16}{:>18}{:>14}\n",
        "", "ping-pongs/s", "clock edges/s", "simulated ns/s", "seconds"
    );
    for speed in speeds {
        let _ = writeln!(
            out,
            "{:<26}{:>14.0}{:>16.0}{:>18.0}{:>14.2}",
            speed.name,
            speed.pingpongs_per_s,
            speed.clock_edges_per_s,
            speed.simulated_ns_per_s,
            speed.seconds,
        );
    }
    out
}

fn pingpongs(loops: u64) -> Result<Vec<Speed>, Error> {
    let mut speeds = Vec::new();
    for (name, rate, skip_idle, metres) in [
        ("10g", Rate::Ten, true, 1.0),
        ("10g, no idle skipping", Rate::Ten, false, 1.0),
        ("10g, idle: 100 km", Rate::Ten, true, 100_000.0),
        ("1g", Rate::One, true, 1.0),
    ] {
        let topology = Topology::pair(Pair {
            platform: "keio-2016".to_owned(),
            seed: 1,
            rate,
            format: Format::Compact,
            metres,
            bytes: 4,
            loops,
            warmup: 10,
            // A session keeps the time until it has its acknowledgement, and the NIC awake.
            nic: NicOptions {
                reliable: metres < 2.0,
                ..NicOptions::default()
            },
            faults: Faults::default(),
        });
        let options = Options {
            skip_idle,
            ..Options::default()
        };
        let outcome = run_topology(&topology, &options, &rtl)?;
        let per_second = |amount: f64| amount / outcome.wall_seconds.max(1e-9);
        speeds.push(Speed {
            name,
            pingpongs_per_s: per_second(loops as f64),
            clock_edges_per_s: per_second(outcome.effort.edges as f64),
            simulated_ns_per_s: per_second(outcome.simulated.as_ns()),
            seconds: outcome.wall_seconds,
        });
    }
    Ok(speeds)
}

/// GETs of a measurement at most, as many as `ipnuma memcached` takes.
const MOST_GETS: u64 = 1_000_000;
/// GETs of the run that is taken off the other.
const FEW: u64 = 20;
/// Bytes of a value.
const BYTES: usize = 16;

/// What a run took; the difference of two is what the GETs took that one has more.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    gets: f64,
    edges: f64,
    /// Seconds in all.
    wall: f64,
    /// Of these, see [`PARTS`]; what is left is the calendar's.
    parts: [f64; 3],
}

/// Where the time goes, in the order of [`Taken::shares`].
const PARTS: [&str; 4] = ["guests", "NICs", "switch", "calendar"];

impl Taken {
    fn of(gets: u64, outcome: &UmlOutcome) -> Self {
        let profile = &outcome.profile;
        Self {
            gets: gets as f64,
            edges: outcome.effort.edges as f64,
            wall: outcome.wall_seconds,
            parts: [profile.guests, profile.nics, profile.switches].map(|part| part.as_secs_f64()),
        }
    }

    fn without(&self, other: &Self) -> Self {
        let parts: [f64; 3] = std::array::from_fn(|part| self.parts[part] - other.parts[part]);
        Self {
            gets: self.gets - other.gets,
            edges: self.edges - other.edges,
            wall: self.wall - other.wall,
            parts,
        }
    }

    /// Parts of a hundred, which they are together. Most are estimates: if they come to more than the whole, they share
    /// it, and if one comes to less than nothing, it has none.
    fn shares(&self) -> [f64; 4] {
        let [guests, nics, switch] = self.parts.map(|part| part.max(0.0));
        let rest = (self.wall - guests - nics - switch).max(0.0);
        let all = [guests, nics, switch, rest];
        let whole: f64 = all.iter().sum();
        if whole <= 0.0 {
            return [0.0, 0.0, 0.0, 100.0];
        }
        all.map(|part| 100.0 * part / whole)
    }
}

fn show_gets(gets: &[Gets]) -> String {
    let mut out = format!(
        "\n{:<26}{:>10}{:>12}",
        format!("memcached, GET {BYTES} bytes"),
        "GETs/s",
        "edges/GET"
    );
    for part in PARTS {
        let _ = write!(out, "{part:>10}");
    }
    out.push('\n');
    for row in gets {
        out += &row.text();
    }
    out += &text::wrap(
        "Two NICs and one FIBNIC in RTL between two Linux hosts, on one core; without the start of the hosts.",
        2,
    );
    out
}

fn gets(count: u64) -> Result<Vec<Gets>, Error> {
    let mut rows = Vec::new();
    for (path, rate) in [
        (Path::Socket, Rate::One),
        (Path::Socket, Rate::Ten),
        (Path::Ipnuma, Rate::One),
        (Path::Ipnuma, Rate::Ten),
    ] {
        let setup = Setup {
            place: Place::Rack,
            path,
            switch: Some(SwitchKind::Fibnic),
            rate,
            library: Library::Free,
            constants: Constants::Published,
        };
        let taken = |count| -> Result<Taken, Error> {
            let batch = Batch {
                commands: vec![(Command::Get, BYTES)],
                count,
                ..Batch::all()
            };
            let (_, outcome) = memcached::run_setup(setup, &batch, 0)?;
            // Only commands that were answered count.
            let answered = Measured::of(&outcome)?
                .reports
                .iter()
                .map(|r| r.count)
                .sum();
            Ok(Taken::of(answered, &outcome))
        };
        let taken = taken(FEW + count)?.without(&taken(FEW)?);
        rows.push(Gets::of(
            format!("{}, {}", path.name(), rate.name()),
            &taken,
        ));
    }
    Ok(rows)
}

impl Gets {
    fn of(name: String, taken: &Taken) -> Self {
        let [guests, nics, switch, calendar] = taken.shares();
        Self {
            name,
            gets_per_s: taken.gets / taken.wall.max(1e-9),
            clock_edges_per_get: taken.edges / taken.gets.max(1.0),
            guests_percent: guests,
            nics_percent: nics,
            switch_percent: switch,
            calendar_percent: calendar,
        }
    }

    fn text(&self) -> String {
        let mut out = format!(
            "{:<26}{:>10.0}{:>12.0}",
            self.name, self.gets_per_s, self.clock_edges_per_get
        );
        for share in [
            self.guests_percent,
            self.nics_percent,
            self.switch_percent,
            self.calendar_percent,
        ] {
            let _ = write!(out, "{share:>8.1} %");
        }
        out.push('\n');
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(wall: f64, parts: [f64; 3]) -> Taken {
        Taken {
            gets: 1_000.0,
            edges: 2e6,
            wall,
            parts,
        }
    }

    #[test]
    fn shares_are_a_hundred_together() {
        for (wall, parts) in [
            (4.0, [1.0, 1.5, 1.0]),
            // Estimates of more than there was, of nothing, and of less than nothing.
            (2.0, [1.0, 1.5, 1.0]),
            (0.0, [0.0; 3]),
            (1.0, [-0.1, 0.3, 0.2]),
        ] {
            let shares = taken(wall, parts).shares();
            let sum: f64 = shares.iter().sum();
            assert!((sum - 100.0).abs() < 1e-9, "{shares:?}");
            assert!(shares.iter().all(|share| *share >= 0.0), "{shares:?}");
        }
        let exact = taken(4.0, [1.0, 1.5, 1.0]).shares();
        assert_eq!(exact, [25.0, 37.5, 25.0, 12.5]);
    }

    #[test]
    fn a_row_is_the_difference_of_two_runs() {
        let few = taken(1.0, [0.5, 0.2, 0.1]);
        let mut many = taken(5.0, [1.5, 1.7, 1.1]);
        many.gets += 1_000.0;
        many.edges += 2e6;
        let words = Gets::of("socket, 1g".to_owned(), &many.without(&few)).text();
        let words: Vec<_> = words.split_whitespace().collect();
        assert_eq!(
            words,
            [
                "socket,", "1g", "250", "2000", "25.0", "%", "37.5", "%", "25.0", "%", "12.5", "%"
            ]
        );
    }
}
