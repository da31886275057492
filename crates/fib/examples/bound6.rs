// SPDX-License-Identifier: Apache-2.0
//! How much memory an IPv6 table takes, and how little it could take in this structure: 16 bits directly, then six a level.
//!
//! `cargo run -p fib --release --example bound6 -- --table FILE [--hops N] [--seed S]`
//!
//! `crates/fib/tools/fetch-routes` brings a table of 160,147 routes, `crates/fib/tools/grow-routes` one of 281,516. The
//! nodes are counted from the prefixes alone: a node is where a longer prefix lies below, whatever the next hops are. That
//! every one of them is in the memories, and no other, is checked.

use fib::layout::{Memory, Node, V6_DIRECT_BITS, V6_LEVELS, V6_STRIDE};
use fib::synth::{Random, Table};
use fib::{Config, Config6, Fib, NextHop, NextHopId, Port, Prefix6};
use std::collections::HashSet;
use std::error::Error;
use std::process::ExitCode;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const MIB: f64 = 1_048_576.0;

struct Options {
    table: String,
    hops: u16,
    seed: u64,
}

fn options() -> Result<Options> {
    let (mut table, mut hops, mut seed) = (None, 16, 1);
    let mut args = std::env::args().skip(1);
    while let Some(name) = args.next() {
        let value = args.next().ok_or_else(|| format!("{name} wants a value"))?;
        match name.as_str() {
            "--table" => table = Some(value),
            "--hops" => hops = value.parse::<u16>()?.clamp(1, 4095),
            "--seed" => seed = value.parse()?,
            _ => return Err(format!("unknown option {name}").into()),
        }
    }
    let table = table.ok_or("--table FILE is missing: one prefix a line")?;
    Ok(Options { table, hops, seed })
}

/// Nodes of each level that must be there: one for each beginning below which a prefix ends.
fn nodes(table: &[Prefix6]) -> [usize; V6_LEVELS] {
    std::array::from_fn(|level| {
        let bits = V6_DIRECT_BITS + V6_STRIDE * level as u32;
        let below = table
            .iter()
            .filter(|prefix| (bits + 1..=64).contains(&prefix.len().into()));
        let beginnings: HashSet<u128> = below.map(|prefix| prefix.addr() >> (128 - bits)).collect();
        beginnings.len()
    })
}

/// Goes through the nodes of the image: how many there are, and the runs of leaves that they have.
fn walk(
    fib: &Fib,
    level: usize,
    addr: u32,
    count: &mut [usize; V6_LEVELS],
    runs: &mut Vec<Vec<u32>>,
) {
    let image = fib.image();
    let node = Node::from_bits(&image.read(Memory::V6_NODE[level], addr));
    count[level] += 1;
    if node.runs != 0 {
        let leaves = node.leaf_base..=node.leaf_base + node.runs.count_ones();
        runs.push(
            leaves
                .map(|addr| image.leaf(Memory::V6Leaf, addr).0)
                .collect(),
        );
    }
    for child in 0..node.children.count_ones() {
        walk(fib, level + 1, node.child_base + child, count, runs);
    }
}

fn load(table: &[Prefix6], options: &Options) -> Result<Fib> {
    let mut random = Random::new(options.seed);
    let v6 = Config6::Trie {
        nodes: [1 << 18; V6_LEVELS - 1],
        leaves: 1 << 20,
        hosts: 1 << 10,
        tcam: 128,
    };
    let mut fib = Fib::new(Config {
        v6,
        ..Config::default()
    })?;
    for id in 1..=options.hops {
        let next_hop = NextHop {
            port: Port::Network((id % 4) as u8),
            mac: Some([2; 6]),
        };
        fib.set_next_hop(NextHopId(id), next_hop)?;
    }
    for prefix in table {
        let hop = 1 + random.below(options.hops.into()) as u16;
        fib.announce6(*prefix, NextHopId(hop))?;
    }
    Ok(fib)
}

fn run() -> Result<()> {
    let options = options()?;
    let text = std::fs::read_to_string(&options.table)
        .map_err(|error| format!("{}: {error}", options.table))?;
    let mut table = Table::parse(&text)?.v6;
    table.retain(|prefix| prefix.len() <= 64);
    let fib = load(&table, &options)?;
    let direct = 1usize << V6_DIRECT_BITS;
    let must = nodes(&table);
    let (mut there, mut runs) = ([0; V6_LEVELS], Vec::new());
    for addr in 0..direct as u32 {
        walk(&fib, 0, addr, &mut there, &mut runs);
    }
    println!(
        "{} routes of at most 64 bits, {} next hops, seed {}",
        table.len(),
        options.hops,
        options.seed
    );
    for level in 1..V6_LEVELS {
        println!("  level {level}: {:>6} nodes", must[level]);
        if must[level] != there[level] {
            return Err(format!("the memories have {} nodes there", there[level]).into());
        }
    }
    let below: usize = must[1..].iter().sum();
    let leaves: usize = runs.iter().map(Vec::len).sum();
    let distinct: HashSet<&[u32]> = runs.iter().map(Vec::as_slice).collect();
    let distinct: usize = distinct.iter().map(|run| run.len()).sum();
    let mib = |words: usize, memory: Memory| words as f64 * f64::from(memory.width()) / 8.0 / MIB;
    let node = |words| mib(words, Memory::V6Node0);
    let leaf = |words| mib(words, Memory::V6Leaf);
    println!(
        "  direct table {:.2} MiB, of whose {direct} words {} have a route below; {below} nodes {:.2} MiB",
        node(direct),
        must[0],
        node(below)
    );
    println!("  without a single leaf: {:.2} MiB", node(direct + below));
    println!(
        "  with {leaves} leaves: {:.2} MiB; if equal runs of leaves were there once, {distinct} leaves: {:.2} MiB",
        node(direct + below) + leaf(leaves),
        node(direct + below) + leaf(distinct)
    );
    println!(
        "  if words of the direct table without a route below had a leaf alone: {:.2} MiB",
        node(must[0] + below) + leaf(leaves + direct)
    );
    let held = fib.usage().into_iter();
    let held =
        held.filter(|it| Memory::V6_NODE.contains(&it.memory) || it.memory == Memory::V6Leaf);
    let held: f64 = held.map(|it| it.held_bytes()).sum();
    println!(
        "  held, with what the allocator rounds up: {:.2} MiB",
        held / MIB
    );
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bound6: {error}");
            ExitCode::FAILURE
        }
    }
}
