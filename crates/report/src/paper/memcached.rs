// SPDX-License-Identifier: Apache-2.0
//! Rows of chapter 6: memcached in whole Linux hosts on the virtual rack.

use std::collections::BTreeMap;

use rack::Error;
use rack::topology::Rate;
use serde::Deserialize;

use super::Found;
use super::file::{CLIENTS, Figure as Published, Instance};
use crate::fitted::Constants;
pub use crate::memcached::Place;
use crate::memcached::{
    Batch, LENGTHS, Library, Load, Loaded, Measured, Path, Setup, SwitchKind, measure, ready,
    take_apart,
};
use crate::plot::Plot;
use crate::waterfall::{Kind, Waterfall};

/// `run` of a row.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    figure: Figure,
    #[serde(default = "get")]
    command: ::mcb::Command,
    place: Place,
    /// Of loopback there is none.
    #[serde(default = "socket")]
    transport: Path,
    #[serde(default = "one")]
    rate: Rate,
    /// In the rack and between racks.
    switch: Option<SwitchKind>,
    /// Of IP-NUMA: whether the socket library's calls cost what was measured.
    #[serde(default)]
    library: Library,
    /// What the hosts take.
    #[serde(default)]
    constants: Constants,
    /// Of a ratio: what the application itself takes, in place of memcached.
    application_us: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Figure {
    /// Mean time of a command, ns.
    Time,
    /// The same, us.
    TimeUs,
    /// Commands a second, one after the other; with `each_clients` those of all clients.
    PerSecond,
    /// Commands a second beside those of sockets and AX3630S in the same place, hundredths.
    Percent,
    /// The part of the time that the way between the hosts takes.
    Network,
    /// That of the hosts, without the application.
    Hosts,
    /// That of the application.
    Application,
    /// Of times, for an application that takes longer.
    Ratio,
}

const fn get() -> mcb::Command {
    mcb::Command::Get
}

const fn socket() -> Path {
    Path::Socket
}

const fn one() -> Rate {
    Rate::One
}

/// Rounds of the x axis of figures 6.17 and 6.18, us.
const MOST_US: u32 = 500;
const STEP_US: usize = 5;
/// Bytes of a value where the dissertation takes times apart.
const SHORT: usize = LENGTHS[0];

/// GETs of each client at least where there are several: fewer have no steady time in the middle.
const LEAST_OF_MANY: u64 = 50;

/// Arrangements that are run at once; each has some hundred MB of guests.
const MOST_AT_ONCE: usize = 4;

/// GETs that the page takes apart.
pub const TAKEN_APART: [Setup; 3] = [
    rack(Path::Ipnuma, Rate::One),
    rack(Path::Socket, Rate::One),
    rack(Path::Ipnuma, Rate::Ten),
];

const fn rack(path: Path, rate: Rate) -> Setup {
    Setup {
        place: Place::Rack,
        path,
        switch: Some(SwitchKind::Fibnic),
        rate,
        library: Library::Free,
        constants: Constants::Published,
    }
}

mod ahead;
#[cfg(test)]
mod recorded;

use ahead::{Ahead, Done, Job};

/// Runs, each made once.
pub struct Runs {
    count: u64,
    /// Whether GETs are taken apart for the share of RTL, too.
    shares: bool,
    /// With the sentence of a run that failed.
    known: BTreeMap<Setup, Result<Measured, String>>,
    /// Of several clients, likewise.
    loads: BTreeMap<Load, Result<Loaded, String>>,
    /// GETs that were taken apart, likewise.
    apart: BTreeMap<Setup, Result<Option<Waterfall>, String>>,
    /// What is being run before it is asked for.
    ahead: Option<Ahead>,
}

impl Measurement {
    fn setup(&self) -> Setup {
        Setup {
            place: self.place,
            path: self.transport,
            switch: self.switch,
            rate: self.rate,
            library: self.library,
            constants: self.constants,
        }
    }
}

impl Measurement {
    /// The runs that the figure is from.
    fn setups(&self) -> Vec<Setup> {
        let setup = self.setup();
        match self.figure {
            Figure::Percent | Figure::Ratio => vec![setup, setup.base()],
            Figure::Network | Figure::Hosts => vec![setup, setup.direct()],
            Figure::Time | Figure::TimeUs | Figure::PerSecond | Figure::Application => vec![setup],
        }
    }
}

impl Load {
    /// Hosts with one thread each.
    const fn of(setup: Setup, clients: usize) -> Self {
        Self {
            setup,
            clients,
            threads: 1,
        }
    }
}

/// What several clients get, likewise.
fn loaded(load: Load, count: u64) -> Result<Loaded, String> {
    let batch = Batch {
        commands: vec![(get(), SHORT)],
        count: count.max(LEAST_OF_MANY),
        ..Batch::all()
    };
    load.measure(&batch).map_err(|error| error.to_string())
}

impl Setup {
    /// What tables 6.7 and 6.8 have as 100 %.
    fn base(self) -> Self {
        Self {
            path: Path::Socket,
            switch: Some(SwitchKind::Ax3630s),
            library: Library::Free,
            ..self
        }
    }

    /// The same hosts and one cable.
    fn direct(self) -> Self {
        Self {
            place: Place::Direct,
            switch: None,
            ..self
        }
    }
}

/// What an arrangement takes, or the sentence of a run that failed.
fn measured(setup: Setup, count: u64) -> Result<Measured, String> {
    let mut batch = Batch {
        count,
        ..Batch::all()
    };
    // Only table 6.3 has more than GET.
    if setup.path == Path::Ipnuma || setup.switch.is_some() {
        batch.commands.retain(|(command, _)| *command == get());
    }
    measure(setup, &batch).map_err(|error| error.to_string())
}

/// The same of one GET that is taken apart.
fn taken_apart(setup: Setup) -> Result<Option<Waterfall>, String> {
    // By TCP each GET of IP-NUMA's is like the others; by UDP one in some returns credit.
    let protocol = match setup.path {
        Path::Socket => mcb::Transport::Udp,
        Path::Ipnuma => mcb::Transport::Tcp,
    };
    take_apart(setup, protocol).map_err(|error| error.to_string())
}

impl Runs {
    pub const fn new(count: u64, shares: bool) -> Self {
        Self {
            count,
            shares,
            known: BTreeMap::new(),
            loads: BTreeMap::new(),
            apart: BTreeMap::new(),
            ahead: None,
        }
    }

    /// Begins to run what these rows will ask for, in their order, those with several clients where it is true; and with
    /// `page` what it takes apart.
    pub fn begin<'a>(&mut self, rows: impl Iterator<Item = (&'a Measurement, bool)>, page: bool) {
        if ready().is_err() {
            return;
        }
        let mut jobs = Vec::new();
        for (row, each_clients) in rows {
            if each_clients {
                jobs.extend(CLIENTS.map(|clients| Job::Load(Load::of(row.setup(), clients))));
                continue;
            }
            for setup in row.setups() {
                let apart = self.shares && TAKEN_APART.contains(&setup);
                jobs.push(Job::Measure(setup));
                jobs.extend(apart.then_some(Job::TakeApart(setup)));
            }
        }
        if page {
            jobs.extend(TAKEN_APART.map(Job::TakeApart));
        }
        let mut wanted = Vec::new();
        for job in jobs {
            if !wanted.contains(&job) {
                wanted.push(job);
            }
        }
        let count = self.count;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.ahead = Some(Ahead::begin(
            wanted,
            cores.min(MOST_AT_ONCE),
            move |job| match job {
                Job::Measure(setup) => Done::Measured(setup, measured(setup, count)),
                Job::TakeApart(setup) => Done::Apart(setup, taken_apart(setup)),
                Job::Load(load) => Done::Loaded(load, loaded(load, count)),
            },
        ));
    }

    /// Takes what was run ahead, until what is wanted is there or nothing is left.
    fn take_until(&mut self, there: impl Fn(&Self) -> bool) {
        while !there(self)
            && let Some(done) = self.ahead.as_ref().and_then(Ahead::next)
        {
            match done {
                Done::Measured(setup, result) => {
                    self.known.insert(setup, result);
                }
                Done::Apart(setup, waterfall) => {
                    self.apart.insert(setup, waterfall);
                }
                Done::Loaded(load, result) => {
                    self.loads.insert(load, result);
                }
            }
        }
    }

    /// One GET taken apart.
    pub fn waterfall(&mut self, setup: Setup) -> Result<Option<&Waterfall>, Error> {
        self.take_until(|runs| runs.apart.contains_key(&setup));
        let known = self
            .apart
            .entry(setup)
            .or_insert_with(|| taken_apart(setup));
        match known {
            Ok(waterfall) => Ok(waterfall.as_ref()),
            Err(sentence) => Err(Error::Config(sentence.clone())),
        }
    }

    /// Hundredths of a GET's time that RTL simulated, of those that the page takes apart.
    fn rtl_percent(&mut self, setup: Setup) -> Option<f64> {
        if !self.shares || !TAKEN_APART.contains(&setup) {
            return None;
        }
        let waterfall = self.waterfall(setup).ok()??;
        let total = waterfall.total_ns();
        (total > 0.0).then(|| 100.0 * waterfall.sum_ns(Kind::Rtl) / total)
    }

    fn run(&mut self, setup: Setup) -> Result<&Measured, String> {
        self.take_until(|runs| runs.known.contains_key(&setup));
        let count = self.count;
        let known = self.known.entry(setup);
        let known = known.or_insert_with(|| measured(setup, count));
        known.as_ref().map_err(Clone::clone)
    }

    fn time(&mut self, setup: Setup, command: mcb::Command, length: usize) -> Result<f64, String> {
        let report = self.run(setup)?.report(command, length);
        let report =
            report.ok_or_else(|| format!("no {} of {length} bytes was asked", command.name()))?;
        Ok(report.ns.mean)
    }

    /// The figure of a row.
    pub fn measure(&mut self, row: &Measurement, instance: Instance) -> Found {
        let mut setups = row.setups().into_iter();
        let is_known =
            instance.clients.is_none() && setups.all(|setup| self.known.contains_key(&setup));
        if !is_known && let Err(needs) = ready() {
            return Found::nothing(format!("not run: needs {needs}"));
        }
        let found = match instance.clients {
            Some(clients) => self.of_clients(row, clients),
            None => self.try_measure(row, instance.length),
        };
        found.unwrap_or_else(|sentence| {
            let mut found = Found::nothing(format!("not run: it failed {sentence}"));
            found.fault = true;
            found
        })
    }

    /// The figure of a row with several clients.
    fn of_clients(&mut self, row: &Measurement, clients: usize) -> Result<Found, String> {
        let load = Load::of(row.setup(), clients);
        self.take_until(|runs| runs.loads.contains_key(&load));
        let count = self.count;
        let known = self.loads.entry(load);
        let known = known.or_insert_with(|| loaded(load, count));
        let known = known.as_ref().map_err(Clone::clone)?;
        let value = match row.figure {
            Figure::PerSecond => known.per_second,
            Figure::Time => known.ns.mean,
            Figure::TimeUs => known.ns.mean / 1e3,
            _ => return Err("of several clients there are per-second, time and time-us".to_owned()),
        };
        let how = "Linux, memcached, RTL and constants";
        let how = load.setup.constants.marked(how);
        Ok(Found::new(value, how).of_run(&known.hash))
    }

    fn try_measure(&mut self, row: &Measurement, length: Option<usize>) -> Result<Found, String> {
        let setup = row.setup();
        let length = length.unwrap_or(SHORT);
        let ns = self.time(setup, row.command, length)?;
        let application = self.run(setup)?.application_ns;
        let value = match row.figure {
            Figure::Time => ns,
            Figure::TimeUs => ns / 1e3,
            Figure::PerSecond => 1e9 / ns,
            Figure::Percent => 100.0 * self.time(setup.base(), row.command, length)? / ns,
            Figure::Network => ns - self.time(setup.direct(), row.command, length)?,
            Figure::Hosts => self.time(setup.direct(), row.command, length)? - application,
            Figure::Application => application,
            Figure::Ratio => {
                let base = self.time(setup.base(), row.command, length)?;
                let base = base - self.run(setup.base())?.application_ns;
                let x = 1e3 * row.application_us.unwrap_or(0.0);
                (x + base) / (x + ns - application)
            }
        };
        let how = match row.figure {
            Figure::Time | Figure::TimeUs if setup.place == Place::Loopback => {
                "Linux, memcached and constants"
            }
            Figure::Time | Figure::TimeUs => "Linux, memcached, RTL and constants",
            Figure::Application => "constant",
            _ => "computed from runs",
        };
        let hash = self.run(setup)?.hash.clone();
        let percent = match row.figure {
            Figure::Time | Figure::TimeUs | Figure::PerSecond | Figure::Percent
                if row.command == get() && length == SHORT =>
            {
                self.rtl_percent(setup)
            }
            _ => None,
        };
        let how = setup.constants.marked(how);
        Ok(Found::new(value, how).of_run(&hash).with_rtl(percent))
    }

    /// How chapter 6 was run, if it was.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        // Those with the library's calls charged have all costs.
        let mut known = self.known.values().flatten();
        let most = known.by_ref().max_by_key(|measured| measured.costs.len());
        let Some(measured) = most else {
            return match ready() {
                Ok(()) => Vec::new(),
                Err(needs) => vec![("Chapter 6", format!("not run: needs {needs}"))],
            };
        };
        let costs = measured.costs.iter();
        let costs: Vec<_> = costs
            .map(|cost| format!("{} {} ns ({})", cost.name, cost.ns, cost.source))
            .collect();
        vec![
            ("Guests", measured.guests.clone()),
            (
                "memcached's rows",
                format!("{} commands of each kind and length", self.count),
            ),
            ("CPU costs", costs.join("; ")),
        ]
    }

    /// Figures 6.17 and 6.18: the paper's curves from its own figures, ours from what was run.
    pub fn ratio_plot(
        &self,
        place: Place,
        figures: &BTreeMap<String, Published>,
    ) -> Result<Plot, Error> {
        let setup = |path, switch| Setup {
            place,
            path,
            switch: Some(switch),
            rate: Rate::One,
            library: Library::Free,
            constants: Constants::Published,
        };
        let base = setup(Path::Socket, SwitchKind::Ax3630s);
        let application = figures
            .get("memcached_application")
            .and_then(|figure| figure.value)
            .unwrap_or(0.0);
        let published = |setup: Setup| {
            let figure = figures.get(&setup.key());
            figure.and_then(|figure| Some(figure.by_length?[0] - application))
        };
        let run = |setup: Setup| {
            let measured = self.known.get(&setup)?.as_ref().ok()?;
            let report = measured.report(mcb::Command::Get, SHORT)?;
            Some(report.ns.mean - measured.application_ns)
        };
        let mut curves = Vec::new();
        for (path, switch) in [
            (Path::Ipnuma, SwitchKind::Fibnic),
            (Path::Ipnuma, SwitchKind::Ax3630s),
            (Path::Socket, SwitchKind::Fibnic),
        ] {
            let other = setup(path, switch);
            let name = format!("{} + {}", path.name(), switch.name());
            for (paper, pair) in [
                (true, published(base).zip(published(other))),
                (false, run(base).zip(run(other))),
            ] {
                let Some((base, other)) = pair else { continue };
                let points = (0..=MOST_US).step_by(STEP_US).map(|us| {
                    let x = f64::from(us);
                    (x, (1e3 * x + base) / (1e3 * x + other))
                });
                curves.push((name.clone(), points.collect(), paper));
            }
        }
        Ok(Plot::Curves {
            x: "time of the application, us".to_owned(),
            y: "times as fast".to_owned(),
            curves,
        })
    }
}
