// SPDX-License-Identifier: Apache-2.0
//! Several clients on one memcached: what all of them get together, and who has nothing left to give.
//!
//! Each thread asks again as soon as it has its answer. A command takes from a thread's request to its next one, as both
//! leave its host: so nobody has to read a clock, which would take a guest 256 ns.

use std::collections::BTreeMap;

use mcb::{Command, Each, Report, Summary};
use rack::faults::Faults;
use rack::guests::{GuestOutcome, UmlOutcome};
use rack::ids::ComponentId;
use rack::init::mac_text;
use rack::platform::Platform;
use rack::rack::Rack;
use rack::record::CapturedFrame;
use rack::topology::{GuestStar, Rate};
use rack::{Error, Picoseconds, Topology, tables};
use serde::Serialize;
use wire::tlp::{TlpHeader, TlpView};

use super::batch::prefix;
use super::run::{Cost, check, costs, kernel, run, told};
use super::topology::LIMIT_S;
use super::{Batch, CLIENT, Path, Place, SERVER, Setup};

/// Threads of a client at most.
pub const MOST_THREADS: usize = 16;
/// Keys of a thread, which it asks for in turn: mcb's own default.
const KEYS: u64 = 16;
/// Between two frames on a cable, at least: preamble and gap, in bytes.
const BETWEEN_FRAMES: usize = 20;

/// An arrangement in the rack with so many clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Load {
    /// The arrangement.
    pub setup: Setup,
    /// Hosts that ask, each at a port of the one switch.
    pub clients: usize,
    /// Of each.
    pub threads: usize,
}

/// Hundredths of the time in which something was at work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Busy {
    /// The server's processor: what is known to be charged. A socket library's call that finds nothing is not in it.
    pub server: f64,
    /// The first client's, likewise.
    pub client: f64,
    /// The server's cable, the way that has more.
    pub cable: f64,
}

/// What came out.
#[derive(Clone, Debug, Serialize)]
pub struct Loaded {
    /// Commands a second of all clients, while all of them asked.
    pub per_second: f64,
    /// Of a command in that time, in nanoseconds.
    pub ns: Summary,
    /// Commands that it is of.
    pub commands: usize,
    /// Who was at work then, in hundredths.
    pub busy: Busy,
    /// What each client's mcb says of all its commands, also of those beside which others had ended.
    pub reports: Vec<Report>,
    /// Of all frames and TLPs with their times.
    pub hash: String,
    /// CPU costs that were charged.
    pub costs: Vec<Cost>,
    /// Kernel and programs.
    pub guests: String,
    /// Simulated.
    pub simulated_ns: f64,
    /// Seconds that it took, without the starting of the hosts.
    #[serde(skip)]
    pub wall_seconds: f64,
}

impl Load {
    /// The error is a sentence that begins with the option.
    pub fn check(self) -> Result<(), String> {
        let Self {
            setup,
            clients,
            threads,
        } = self;
        let most = GuestStar::MOST_CLIENTS;
        if !(1..=most).contains(&clients) {
            return Err(format!(
                "--clients: {clients} hosts are too few or too many for one switch; write 1 to {most}"
            ));
        }
        if !(1..=MOST_THREADS).contains(&threads) {
            return Err(format!(
                "--threads: {threads} threads are too few or too many; write 1 to {MOST_THREADS}"
            ));
        }
        if setup.place != Place::Rack {
            return Err(format!(
                "--place: clients share one switch, which there is not {}; write --place rack, or leave --clients \
                 and --threads out",
                setup.place.name()
            ));
        }
        Ok(())
    }

    /// In tables.
    pub fn name(self) -> String {
        format!("{}, {} x {}", self.setup.name(), self.clients, self.threads)
    }

    fn client(number: usize) -> String {
        format!("{CLIENT}{}", number + 1)
    }

    /// The topology, with the commands of the hosts.
    pub fn topology(self, batch: &Batch) -> Result<Topology, Error> {
        self.check().map_err(Error::Config)?;
        let setup = self.setup;
        let batch = Batch {
            together: Some(self.threads),
            ..batch.clone()
        };
        let server = self.clients;
        let address = GuestStar::address(server).to_string();
        let asked = match setup.path {
            // By the name's address the daemons know each other's connections.
            Path::Ipnuma => SERVER,
            Path::Socket => &address,
        };
        let gateway = |port| Some(mac_text(tables::port_mac(0, port)));
        let client = |number| {
            let command = batch.client(setup.path, gateway(number), asked, number);
            (Self::client(number), command + "\n")
        };
        let listens = batch.server(setup.path, gateway(server)) + "\n";
        let star = GuestStar {
            platform: setup.constants.platform(),
            seed: batch.seed,
            rate: setup.rate,
            nic: setup.nic(batch.nic),
            server: (SERVER.to_owned(), listens),
            clients: (0..self.clients).map(client).collect(),
            latency_ns: setup.latency_ns(),
            metres: setup.place.way().1 / 2.0,
            faults: Faults {
                loss: batch.loss,
                ..Faults::default()
            },
            cpu: setup.constants.costs(setup.rate, setup.costs(&batch.costs)),
            limit_s: LIMIT_S,
        };
        Topology::guest_star(star).checked()
    }

    /// As a file, with a sentence that says what it is.
    pub fn file(self, batch: &Batch) -> Result<String, Error> {
        Ok(format!(
            "# SPDX-License-Identifier: Apache-2.0\n# memcached, {} threads, {}; made by ipnuma memcached.\n{}",
            self.name(),
            self.setup.rate,
            self.topology(batch)?.to_toml()
        ))
    }

    /// Runs it. A batch has one command of one length here, which every thread sends `count` times.
    pub fn measure(self, batch: &Batch) -> Result<Loaded, Error> {
        let [(command, _)] = batch.commands[..] else {
            return Err(Error::Config(
                "several clients are asked for one command of one length at a time".to_owned(),
            ));
        };
        let directory = batch.keep.as_ref().map(|keep| {
            let name = format!("{}_{}x{}", self.setup.key(), self.clients, self.threads);
            keep.join(name)
        });
        let (topology, outcome) = run(self.topology(batch)?, directory, usize::MAX)?;
        let clients = &outcome.guests[..self.clients];
        let mut reports = Vec::new();
        for client in clients {
            let told = told(&outcome, client)?;
            check(self.setup, client, &told)?;
            reports.extend(told);
        }
        let keys = match command {
            Command::Add => batch.warmup + batch.count,
            Command::Set | Command::Get => KEYS,
        };
        let mut threads = Vec::new();
        for (number, client) in clients.iter().enumerate() {
            let mut asked = requests(&outcome, number, command, keys);
            for thread in 0..self.threads {
                let sent = asked.remove(&thread).unwrap_or_default();
                let wanted = batch.warmup + batch.count;
                if sent.len() as u64 != wanted {
                    return Err(Error::Config(format!(
                        "{}: {} requests of thread {thread} left {}, where {wanted} should have; this is a fault of \
                         ipnuma memcached",
                        self.name(),
                        sent.len(),
                        client.name
                    )));
                }
                threads.push(sent[batch.warmup as usize..].to_vec());
            }
        }
        let span = span(&threads).ok_or_else(|| {
            Error::Config(format!(
                "{}: some clients had ended before all of them had begun; write more than --count {}",
                self.name(),
                batch.count
            ))
        })?;
        let platform = Platform::load(&topology.platform)?;
        let link = platform.default_link(self.setup.rate.into());
        let seen = Seen {
            load: self,
            command,
            outcome: &outcome,
            from: span.0,
            to: span.1,
            read_ns: platform
                .load_latency
                .at(link)
                .map_or(0.0, Picoseconds::as_ns),
        };
        let times = times(&threads, span);
        let begun = threads.iter().flatten();
        let begun = begun.filter(|time| seen.within(**time)).count();
        Ok(Loaded {
            per_second: begun as f64 * 1e9 / (span.1 - span.0).as_ns(),
            commands: times.len(),
            ns: Summary::of(times),
            busy: seen.busy(),
            reports,
            hash: outcome.digest(),
            costs: costs(&clients[0]),
            guests: kernel(&clients[0].console),
            simulated_ns: outcome.simulated.as_ns(),
            wall_seconds: outcome.wall_seconds,
        })
    }
}

/// What was seen of a load while all asked.
struct Seen<'a> {
    load: Load,
    command: Command,
    outcome: &'a UmlOutcome,
    from: Picoseconds,
    to: Picoseconds,
    /// What a reading of a NIC's register takes.
    read_ns: f64,
}

impl Seen<'_> {
    fn within(&self, time: Picoseconds) -> bool {
        (self.from..self.to).contains(&time)
    }

    /// Frames that left a port.
    fn frames(&self, from: ComponentId, port: usize) -> impl Iterator<Item = &CapturedFrame> {
        let frames = self.outcome.record.frames.iter();
        frames.filter(move |frame| {
            (frame.from, frame.port) == (from, port) && self.within(frame.frame.first)
        })
    }

    /// The one switch, behind all hosts and their NICs.
    fn switch(&self) -> ComponentId {
        ComponentId(2 * self.outcome.guests.len() as u32)
    }

    /// Requests of a client.
    fn requests(&self, client: usize) -> usize {
        let verb = verb(self.command);
        let sent = self.frames(Rack::ids(client).1, 0);
        sent.filter(|frame| key(frame, &verb, client).is_some())
            .count()
    }

    /// Stores to a host's NIC, and readings of its registers.
    fn accesses(&self, host: usize) -> (usize, usize) {
        let nic = Rack::ids(host).1;
        let tlps = self.outcome.record.tlps.iter();
        let tlps = tlps.filter(|tlp| tlp.nic == nic && tlp.to_nic && self.within(tlp.beats.0));
        tlps.fold((0, 0), |(stores, reads), tlp| {
            match TlpView::new(&tlp.bytes).and_then(|view| view.header()) {
                Ok(TlpHeader::MemWrite(_)) => (stores + 1, reads),
                Ok(TlpHeader::MemRead(_)) => (stores, reads + 1),
                _ => (stores, reads),
            }
        })
    }

    /// Hundredths of the time that the processor of a host was charged, or waited for a register.
    fn processor(&self, host: usize) -> f64 {
        let guest = &self.outcome.guests[host];
        let is_server = host == self.load.clients;
        let clients = if is_server { 0..host } else { host..host + 1 };
        let requests = clients.map(|client| self.requests(client)).sum::<usize>() as f64;
        let (stores, reads) = self.accesses(host);
        let mut ns = reads as f64 * self.read_ns;
        if is_server {
            ns += requests * cost(guest, "application_ns");
        }
        match self.load.setup.path {
            Path::Socket => {
                let sent = self.frames(Rack::ids(host).1, 0).count();
                let received = self.frames(self.switch(), host).count();
                ns += sent as f64 * cost(guest, "kernel_send_ns");
                ns += received as f64 * cost(guest, "kernel_receive_ns");
            }
            Path::Ipnuma => {
                ns += stores as f64 * cost(guest, "store_ns");
                let calls = ["library_send_ns", "library_recv_ns"].map(|name| cost(guest, name));
                ns += requests * calls.iter().sum::<f64>();
                if is_server {
                    ns += requests * cost(guest, "library_epoll_wait_ns");
                }
            }
        }
        self.percent(ns)
    }

    /// Hundredths of the time that a cable had frames this way.
    fn cable(&self, from: ComponentId, port: usize) -> f64 {
        let frames = self.frames(from, port);
        let bytes: usize = frames
            .map(|frame| frame.frame.bytes.len() + BETWEEN_FRAMES)
            .sum();
        let byte_ns = match self.load.setup.rate {
            Rate::Ten => 0.8,
            Rate::One => 8.0,
        };
        self.percent(bytes as f64 * byte_ns)
    }

    fn percent(&self, ns: f64) -> f64 {
        100.0 * ns / (self.to - self.from).as_ns()
    }

    fn busy(&self) -> Busy {
        let server = self.load.clients;
        let [there, back] = [(self.switch(), server), (Rack::ids(server).1, 0)];
        Busy {
            server: self.processor(server),
            client: self.processor(0),
            cable: self.cable(there.0, there.1).max(self.cable(back.0, back.1)),
        }
    }
}

/// A cost of a guest.
fn cost(guest: &GuestOutcome, name: &str) -> f64 {
    let mut costs = guest.costs.iter();
    let found = costs.find(|cost| cost.name == name);
    found.map_or(0.0, |cost| cost.ns as f64)
}

fn verb(command: Command) -> String {
    format!("{} ", command.name())
}

/// Thread and number of the key that a request of a client is for.
fn key(frame: &CapturedFrame, verb: &str, client: usize) -> Option<(usize, u64)> {
    let begin = format!("{verb}{}-", prefix(client));
    let bytes = &frame.frame.bytes;
    let at = bytes
        .windows(begin.len())
        .position(|part| part == begin.as_bytes())?;
    let rest = &bytes[at + begin.len()..];
    let end = rest.iter().position(|byte| b" \r".contains(byte))?;
    let (thread, number) = std::str::from_utf8(&rest[..end]).ok()?.split_once('-')?;
    Some((thread.parse().ok()?, number.parse().ok()?))
}

/// When the requests of each thread of a client left it; those that were sent again count once.
fn requests(
    outcome: &UmlOutcome,
    client: usize,
    command: Command,
    keys: u64,
) -> BTreeMap<usize, Vec<Picoseconds>> {
    let mut found: BTreeMap<usize, Vec<Picoseconds>> = BTreeMap::new();
    let verb = verb(command);
    let nic = Rack::ids(client).1;
    for frame in outcome
        .record
        .frames
        .iter()
        .filter(|frame| frame.from == nic)
    {
        let Some((thread, number)) = key(frame, &verb, client) else {
            continue;
        };
        let sent = found.entry(thread).or_default();
        if number == sent.len() as u64 % keys {
            sent.push(frame.frame.first);
        }
    }
    found
}

/// When all threads asked: from the last one's first request to the first one's last.
fn span(threads: &[Vec<Picoseconds>]) -> Option<(Picoseconds, Picoseconds)> {
    let from = threads.iter().filter_map(|sent| sent.first()).max()?;
    let to = threads.iter().filter_map(|sent| sent.last()).min()?;
    (from < to).then_some((*from, *to))
}

/// Nanoseconds of each command that was sent and answered within this time.
fn times(threads: &[Vec<Picoseconds>], span: (Picoseconds, Picoseconds)) -> Vec<u64> {
    let pairs = threads.iter().flat_map(|sent| sent.windows(2));
    let within = pairs.filter(|pair| pair[0] >= span.0 && pair[1] <= span.1);
    within
        .map(|pair| (pair[1] - pair[0]).as_ns().round() as u64)
        .collect()
}

impl Loaded {
    /// Median and 99 of 100.
    pub fn each(&self) -> Each {
        // They are always timed one by one.
        self.ns.each.unwrap_or(Each {
            min: 0,
            p50: 0,
            p99: 0,
            max: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: &[u64]) -> Vec<Picoseconds> {
        us.iter().copied().map(Picoseconds::from_us).collect()
    }

    /// What one thread did before all had begun, or after one had ended, does not count.
    #[test]
    fn only_the_time_in_which_all_ask_counts() {
        let threads = [at(&[0, 10, 20, 30]), at(&[12, 22, 32, 42])];
        let all = span(&threads).expect("they overlap");
        assert_eq!(all, (Picoseconds::from_us(12), Picoseconds::from_us(30)));
        assert_eq!(times(&threads, all), [10_000; 2]);
        assert_eq!(span(&[at(&[0, 10]), at(&[10, 20])]), None);
        assert_eq!(span(&[]), None);
    }
}
