// SPDX-License-Identifier: Apache-2.0
//! Loads a full table, changes it, looks everything up, and prints what that cost.
//!
//! `cargo run -p fib --release --example churn -- [--table FILE] [--v4 N] [--v6 N] [--seed S]
//! [--changes N] [--keys N] [--hops N]`
//!
//! Without `--table` (one prefix a line, as `crates/fib/tools/fetch-routes` brings it) the table
//! is made up from the seed. Times are of this process's processor, so that other work on the
//! machine does not count; the lookups are checked against another implementation, and a
//! difference ends the program with an error.

use fib::synth::{Random, Table};
use fib::{Config, Fib, Metrics, NextHop, NextHopId, Port, Prefix4, Prefix6};
use prefix_trie::PrefixMap;
use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

struct Options {
    table: Option<String>,
    v4: u32,
    v6: u32,
    seed: u64,
    changes: u32,
    keys: u32,
    hops: u16,
}

fn options() -> Result<Options> {
    let mut options = Options {
        table: None,
        v4: 1_200_000,
        v6: 280_000,
        seed: 1,
        changes: 200_000,
        keys: 1_000_000,
        hops: 256,
    };
    let mut args = std::env::args().skip(1);
    while let Some(name) = args.next() {
        let value = args.next().ok_or_else(|| format!("{name} wants a value"))?;
        match name.as_str() {
            "--table" => options.table = Some(value),
            "--v4" => options.v4 = value.parse()?,
            "--v6" => options.v6 = value.parse()?,
            "--seed" => options.seed = value.parse()?,
            "--changes" => options.changes = value.parse()?,
            "--keys" => options.keys = value.parse()?,
            "--hops" => options.hops = value.parse::<u16>()?.clamp(1, 4095),
            _ => return Err(format!("unknown option {name}").into()),
        }
    }
    Ok(options)
}

/// Time this process has used the processor, in seconds; wall time where the system does not say.
fn processor_seconds(start: Instant) -> f64 {
    let ticks = std::fs::read_to_string("/proc/self/stat")
        .ok()
        .and_then(|stat| {
            let (_, rest) = stat.rsplit_once(')')?;
            let mut fields = rest.split_whitespace().skip(11);
            let user: f64 = fields.next()?.parse().ok()?;
            let system: f64 = fields.next()?.parse().ok()?;
            Some(user + system)
        });
    // The kernel reports these two in hundredths of a second on every Linux there is.
    ticks.map_or_else(|| start.elapsed().as_secs_f64(), |ticks| ticks / 100.0)
}

fn report(name: &str, metrics: &Metrics, seconds: f64) {
    println!(
        "{name:<28} {:>9} changes {:>10.0} /s   words: mean {:.2}, p50 {}, p99 {}, p99.9 {}, max {}",
        metrics.changes,
        metrics.changes as f64 / seconds.max(0.01),
        metrics.mean(),
        metrics.quantile(0.5),
        metrics.quantile(0.99),
        metrics.quantile(0.999),
        metrics.most,
    );
}

enum Prefix {
    V4(Prefix4),
    V6(Prefix6),
}

struct Run {
    fib: Fib,
    oracle4: PrefixMap<ipnet::Ipv4Net, u16>,
    oracle6: PrefixMap<ipnet::Ipv6Net, u16>,
    start: Instant,
}

fn net4(prefix: Prefix4) -> ipnet::Ipv4Net {
    ipnet::Ipv4Net::new_assert(prefix.addr().into(), prefix.len())
}

fn net6(prefix: Prefix6) -> ipnet::Ipv6Net {
    ipnet::Ipv6Net::new_assert(prefix.addr().into(), prefix.len())
}

impl Run {
    /// Does the changes (no next hop: withdraw), counts their cost, then tells the oracle.
    fn play(&mut self, name: &str, changes: &[(Prefix, Option<u16>)]) -> Result<()> {
        self.fib.clear_metrics();
        let before = processor_seconds(self.start);
        let mut refusals = Vec::new();
        for (at, (prefix, hop)) in changes.iter().enumerate() {
            let result = match (prefix, hop) {
                (Prefix::V4(prefix), Some(hop)) => self.fib.announce4(*prefix, NextHopId(*hop)),
                (Prefix::V4(prefix), None) => self.fib.withdraw4(*prefix),
                (Prefix::V6(prefix), Some(hop)) => self.fib.announce6(*prefix, NextHopId(*hop)),
                (Prefix::V6(prefix), None) => self.fib.withdraw6(*prefix),
            };
            if let Err(error) = result {
                refusals.push((at, error));
            }
        }
        let seconds = processor_seconds(self.start) - before;
        report(name, self.fib.metrics(), seconds);
        if let Some((_, first)) = refusals.first() {
            println!("  {} refused, the first because: {first}", refusals.len());
        }
        let mut refused = refusals.iter().map(|(at, _)| *at).peekable();
        for (at, (prefix, hop)) in changes.iter().enumerate() {
            if refused.next_if_eq(&at).is_some() {
                continue;
            }
            match (prefix, hop) {
                (Prefix::V4(prefix), Some(hop)) => drop(self.oracle4.insert(net4(*prefix), *hop)),
                (Prefix::V4(prefix), None) => drop(self.oracle4.remove(&net4(*prefix))),
                (Prefix::V6(prefix), Some(hop)) => drop(self.oracle6.insert(net6(*prefix), *hop)),
                (Prefix::V6(prefix), None) => drop(self.oracle6.remove(&net6(*prefix))),
            }
        }
        Ok(())
    }

    fn usage(&self) {
        let mut totals = [(0.0, 0.0); 2];
        for usage in self.fib.usage() {
            println!(
                "  {:<16} {:>9} of {:>9} words of {:>3} bits, {:>9.0} KiB (held {:>9.0} KiB)",
                usage.memory.name(),
                usage.used,
                usage.capacity,
                usage.memory.width(),
                usage.used_bytes() / 1024.0,
                usage.held_bytes() / 1024.0,
            );
            let family = match usage.memory.name().as_bytes() {
                [b'v', b'4', ..] => 0,
                [b'v', b'6', ..] => 1,
                _ => continue,
            };
            totals[family].0 += usage.used_bytes();
            totals[family].1 += usage.held_bytes();
        }
        let routes = [self.fib.routes4(), self.fib.routes6()];
        for ((name, (used, held)), routes) in ["IPv4", "IPv6"].iter().zip(totals).zip(routes) {
            println!(
                "  {name}: {routes} routes, {:.2} MiB used, {:.2} MiB held: {:.2} and {:.2} bytes a route",
                used / 1048576.0,
                held / 1048576.0,
                used / f64::from(routes.max(1)),
                held / f64::from(routes.max(1)),
            );
        }
    }

    /// Random keys, keys inside routes, and the edges of routes and their neighbours.
    fn verify(&self, table: &Table, keys: u32, random: &mut Random) -> Result<()> {
        let mut wrong = 0u32;
        let mut check4 = |key: u32| {
            let want = self
                .oracle4
                .get_lpm(&net4(Prefix4::around(key, 32)))
                .map(|(_, hop)| *hop);
            wrong += u32::from(self.fib.lookup4(key).map(|id| id.0) != want);
        };
        for _ in 0..keys {
            check4(random.bits() as u32);
        }
        if !table.v4.is_empty() {
            for _ in 0..keys.div_ceil(6) {
                let prefix = table.v4[random.below(table.v4.len() as u64) as usize];
                let inside = random.bits() as u32 & (prefix.last() - prefix.addr());
                check4(prefix.addr());
                check4(prefix.last());
                check4(prefix.addr().wrapping_sub(1));
                check4(prefix.last().wrapping_add(1));
                check4(prefix.addr() | inside);
                check4(prefix.addr() ^ 1 << random.below(32));
            }
        }
        let mut check6 = |key: u128| {
            let want = self
                .oracle6
                .get_lpm(&net6(Prefix6::around(key, 128)))
                .map(|(_, hop)| *hop);
            wrong += u32::from(self.fib.lookup6(key).map(|id| id.0) != want);
        };
        for _ in 0..keys {
            check6(random.wide() >> 3 | 1 << 125);
        }
        if !table.v6.is_empty() {
            for _ in 0..keys.div_ceil(6) {
                let prefix = table.v6[random.below(table.v6.len() as u64) as usize];
                let inside = random.wide() & (prefix.last() - prefix.addr());
                check6(prefix.addr());
                check6(prefix.last());
                check6(prefix.addr().wrapping_sub(1));
                check6(prefix.last().wrapping_add(1));
                check6(prefix.addr() | inside);
                check6(prefix.addr() ^ 1 << random.below(128));
            }
        }
        println!("lookups: 2 x {keys} random and 2 x {keys} adversarial keys, {wrong} wrong");
        if wrong != 0 {
            return Err(format!("{wrong} lookups differ from the other implementation").into());
        }
        Ok(())
    }
}

fn shuffle<T>(list: &mut [T], random: &mut Random) {
    for at in (1..list.len()).rev() {
        list.swap(at, random.below(at as u64 + 1) as usize);
    }
}

fn run() -> Result<()> {
    let options = options()?;
    let mut random = Random::new(options.seed);
    let mut table = match &options.table {
        Some(path) => {
            Table::parse(&std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?)?
        }
        None => Table::synthetic(options.seed, options.v4, options.v6),
    };
    let source = options.table.as_deref().unwrap_or("synthetic");
    println!(
        "{source}: {} + {} prefixes, seed {}",
        table.v4.len(),
        table.v6.len(),
        options.seed
    );
    shuffle(&mut table.v4, &mut random);
    shuffle(&mut table.v6, &mut random);

    let mut fib = Fib::new(Config::default())?;
    for id in 1..=options.hops {
        let next_hop = NextHop {
            port: Port::Network((id % 4) as u8),
            mac: Some([2; 6]),
        };
        fib.set_next_hop(NextHopId(id), next_hop)?;
    }
    let (oracle4, oracle6) = (PrefixMap::new(), PrefixMap::new());
    let mut run = Run {
        fib,
        oracle4,
        oracle6,
        start: Instant::now(),
    };
    let hop = |random: &mut Random| Some(1 + random.below(options.hops.into()) as u16);

    let mut changes: Vec<_> = table
        .v4
        .iter()
        .map(|p| (Prefix::V4(*p), hop(&mut random)))
        .collect();
    run.play("load IPv4", &changes)?;
    changes = table
        .v6
        .iter()
        .map(|p| (Prefix::V6(*p), hop(&mut random)))
        .collect();
    run.play("load IPv6", &changes)?;
    run.usage();
    run.verify(&table, options.keys, &mut random)?;

    for (name, v6) in [("IPv4", false), ("IPv6", true)] {
        let count = if v6 { table.v6.len() } else { table.v4.len() } as u64;
        if count == 0 {
            continue;
        }
        let pick = |random: &mut Random| {
            let at = random.below(count) as usize;
            if v6 {
                Prefix::V6(table.v6[at])
            } else {
                Prefix::V4(table.v4[at])
            }
        };
        changes.clear();
        for _ in 0..options.changes {
            changes.push((pick(&mut random), hop(&mut random)));
        }
        run.play(&format!("{name} new next hop"), &changes)?;
        changes.clear();
        for _ in 0..options.changes / 2 {
            let (withdraw, announce) = match pick(&mut random) {
                Prefix::V4(prefix) => (Prefix::V4(prefix), Prefix::V4(prefix)),
                Prefix::V6(prefix) => (Prefix::V6(prefix), Prefix::V6(prefix)),
            };
            changes.push((withdraw, None));
            changes.push((announce, hop(&mut random)));
        }
        run.play(&format!("{name} withdraw, announce"), &changes)?;
    }
    run.verify(&table, options.keys, &mut random)?;
    run.usage();

    // What changes the most words: a prefix around half of the table comes, and goes.
    for short in ["0.0.0.0/1", "128.0.0.0/1"] {
        let change = |hop| [(Prefix::V4(short.parse().expect("a prefix")), hop)];
        run.play(&format!("announce {short}"), &change(Some(1)))?;
        run.play(&format!("withdraw {short}"), &change(None))?;
    }
    let change = |hop| [(Prefix::V6("2000::/3".parse().expect("a prefix")), hop)];
    run.play("announce 2000::/3", &change(Some(1)))?;
    run.play("withdraw 2000::/3", &change(None))?;

    changes = table.v4.iter().map(|p| (Prefix::V4(*p), None)).collect();
    changes.extend(table.v6.iter().map(|p| (Prefix::V6(*p), None)));
    run.play("withdraw everything", &changes)?;
    run.verify(&table, options.keys / 10, &mut random)
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("churn: {error}");
            ExitCode::FAILURE
        }
    }
}
