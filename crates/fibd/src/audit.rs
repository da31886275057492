// SPDX-License-Identifier: Apache-2.0
//! Compares what should be the same: the kernel, what this process believes of it, the image of the tables, and the
//! memories of the switch.

use std::collections::HashSet;
use std::io;
use std::net::IpAddr;
use std::ops::Range;

use fib::Image;
use fib::layout::{Leaf, Memory};
use fib::synth::Random;
use serde::{Deserialize, Serialize};

use crate::entry::{self, Entry};
use crate::message::{Message, RouteKind};
use crate::net::Net;
use crate::socket::Netlink;
use crate::state::{State, Target};
use crate::tables::Tables;

/// Differences that are told one by one; more are only counted.
const MOST: usize = 50;

/// What an audit found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Prefixes that were compared between a fresh dump of the kernel and what this process believes.
    pub prefixes: u64,
    /// Addresses that were looked up in the image and compared with the routes: the first and last of each prefix, and
    /// random ones.
    pub lookups: u64,
    /// Addresses for which the kernel itself was asked.
    pub asked: u64,
    /// Addresses for which it was not asked, since it does not forward IPv6: then it looks for routes as a host does, and
    /// passes over those whose next hop does not answer; or for which it only says what it does with packets of its own, as it may
    /// not with others.
    pub unasked: u64,
    /// Words of the memories of the switch that were compared with the image; 0 if they can't be read.
    pub words: u64,
    /// Prefixes that go by the host port since there is no room.
    pub spilled: u64,
    /// Words of the tables that lead to the host since there is no room for what is to be in them.
    pub shed: u64,
    /// Prefixes for which a daemon wants several next hops by FPM of which the kernel has lost some.
    pub shrunk: u64,
    /// How many differences there are.
    pub differences: u64,
    /// The first of them.
    pub told: Vec<String>,
    /// All of them, to be looked at again.
    #[serde(skip)]
    pub suspects: Vec<Suspect>,
}

/// What differed, perhaps only since something changed meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspect {
    /// The kernel's routes to a prefix.
    Net(Net),
    /// Where the image leads for an address.
    Address(IpAddr),
    /// The kernel's own look-up of an address, for a packet that comes in so.
    Asked(IpAddr, Option<Entry>),
    /// The MAC address of a neighbour at a port.
    Hop(u8, IpAddr),
    /// A word of a memory.
    Word(Memory, u32),
}

impl Report {
    fn tell(&mut self, suspect: Suspect, what: impl FnOnce() -> String) {
        self.differences += 1;
        self.suspects.push(suspect);
        if self.told.len() < MOST {
            self.told.push(what());
        }
    }

    /// Forgets the differences, and returns what is to be looked at again.
    pub fn doubt(&mut self) -> Vec<Suspect> {
        self.differences = 0;
        self.told.clear();
        std::mem::take(&mut self.suspects)
    }

    /// Takes over the differences that were found by looking again.
    pub fn found_again(&mut self, again: Self) {
        (self.differences, self.told, self.suspects) =
            (again.differences, again.told, again.suspects);
    }
}

/// A target in words.
fn say(target: Option<Target>) -> String {
    match target {
        None => "no route".to_owned(),
        Some(Target::Host) => "the host".to_owned(),
        Some(Target::Discard) => "nowhere".to_owned(),
        Some(Target::Neighbour { port, address }) => format!("{address} at port {port}"),
    }
}

/// Where the routes lead for an address: the longest prefix that has a target.
pub fn longest(state: &State, address: IpAddr) -> Option<(Net, Target)> {
    let host = Net::host(address);
    std::iter::once(host)
        .chain(host.ancestors())
        .find_map(|net| Some((net, state.desired(net)?)))
}

/// Where the image leads for an address.
pub fn looked_up(tables: &Tables, image: &Image, address: IpAddr) -> Option<Target> {
    let leaf = match address {
        IpAddr::V4(address) => image.lookup4(address.into()),
        IpAddr::V6(address) => image.lookup6(address.into()),
    };
    if leaf == Leaf::NONE {
        return None;
    }
    tables.meaning(fib::NextHopId(leaf.next_hop()))
}

/// Random addresses of an audit at most, and addresses for which the kernel is asked.
pub const MOST_RANDOM: u32 = 10_000_000;
/// See [`MOST_RANDOM`].
pub const MOST_ASKED: u32 = 1_000_000;

/// What is compared.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Random addresses beside those of all prefixes.
    pub random: u32,
    /// Addresses for which the kernel is asked.
    pub ask: u32,
    /// For the random ones.
    pub seed: u64,
}

impl Plan {
    /// That an audit of this takes a time that can be waited for.
    ///
    /// # Errors
    /// The remedy.
    pub fn check(&self) -> Result<(), String> {
        for (name, value, most) in [
            ("random", self.random, MOST_RANDOM),
            ("ask", self.ask, MOST_ASKED),
        ] {
            if value > most {
                return Err(format!(
                    "--{name}: {value} addresses are too many for one audit; give {most} at most, and more by several \
                     audits, each with another --seed"
                ));
            }
        }
        Ok(())
    }
}

/// All prefixes that a fresh dump of the kernel has, or that are believed to be there.
pub fn prefixes(fresh: &State, state: &State) -> Vec<Net> {
    let nets: HashSet<Net> = fresh.candidates().chain(state.candidates()).collect();
    nets.into_iter().collect()
}

/// The kernel's own routes to a prefix, dumped anew, against what is believed.
pub fn belief(fresh: &State, state: &State, net: Net, report: &mut Report) {
    report.prefixes += 1;
    let (kernel, own) = (fresh.desired(net), state.desired(net));
    // Of what is interleaved a dump says too little; the kernel is asked instead.
    if kernel == own || state.is_interleaved(net) {
        return;
    }
    if kernel.is_some_and(|target| state.wants_among_others(net, target)) {
        report.shrunk += 1;
        return;
    }
    report.tell(Suspect::Net(net), || {
        let (kernel, own) = (say(kernel), say(own));
        let (these, those) = (fresh.describe(net), state.describe(net));
        format!(
            "{net}: the kernel's routes lead to {kernel}, fibd believes {own}; \
             the kernel has {these}; fibd has {those}"
        )
    });
}

fn check(state: &State, tables: &Tables, address: IpAddr, report: &mut Report) {
    report.lookups += 1;
    if Net::host(address).is_never_looked_up() {
        return;
    }
    let want = longest(state, address);
    let found = looked_up(tables, tables.fib().image(), address);
    let target = want.map(|(_, target)| target);
    if target == found {
        return;
    }
    // What there is no room for goes by the host port: the prefix itself, or by a shorter one that leads there, or with
    // all that lies around it.
    let to_host = matches!(found, None | Some(Target::Host));
    let excused = to_host && want.is_some_and(|(net, target)| {
        let full =
            matches!(target, Target::Neighbour { port, address } if !tables.has_hop(port, address));
        tables.by_host(net) || tables.is_shed(address) || full
    });
    if !excused {
        report.tell(Suspect::Address(address), || {
            let (want, found) = (say(target), say(found));
            format!("{address}: the routes lead to {want}, the image to {found}")
        });
    }
}

/// What is believed against the image: both ends of a prefix, and a random address inside.
pub fn within(state: &State, tables: &Tables, net: Net, random: &mut Random, report: &mut Report) {
    check(state, tables, net.first(), report);
    check(state, tables, net.last(), report);
    if !net.is_host() {
        check(state, tables, net.inside(random.wide()), report);
    }
}

/// What is believed against the image: a random address of each family.
pub fn anywhere(state: &State, tables: &Tables, random: &mut Random, report: &mut Report) {
    let four = random.bits() as u32;
    check(state, tables, IpAddr::V4(four.into()), report);
    check(state, tables, IpAddr::V6(random.wide().into()), report);
}

/// What there is no room for.
pub fn room(tables: &Tables, report: &mut Report) {
    report.spilled = tables.spilled() as u64;
    report.shed = tables.shed() as u64;
}

/// What is believed against the image, all at once.
pub fn image(state: &State, tables: &Tables, plan: Plan, report: &mut Report) {
    let mut random = Random::new(plan.seed);
    for net in state.candidates() {
        within(state, tables, net, &mut random, report);
    }
    for _ in 0..plan.random {
        anywhere(state, tables, &mut random, report);
    }
    room(tables, report);
}

/// Each next hop's MAC address in the image against the neighbours.
pub fn hops(state: &State, tables: &Tables, report: &mut Report) {
    hops_of(state, tables, |_, _| true, report);
}

fn hops_of(state: &State, tables: &Tables, of: impl Fn(u8, IpAddr) -> bool, report: &mut Report) {
    let neighbours = tables.neighbours().into_iter();
    for (id, port, address) in neighbours.filter(|(_, port, at)| of(*port, *at)) {
        let mac = state.mac(port, address);
        let word = tables.fib().image().read(Memory::NextHop, id.into());
        let resolved = fib::layout::NEXT_HOP_RESOLVED.get(&word) != 0;
        let value = fib::layout::NEXT_HOP_MAC.get(&word);
        let wanted = mac.map(|mac| mac.iter().fold(0, |mac, &byte| mac << 8 | u64::from(byte)));
        if resolved.then_some(value) != wanted {
            report.tell(Suspect::Hop(port, address), || {
                format!("{address} at port {port}: its MAC address in the image is {value:012x}, not {wanted:012x?}")
            });
        }
    }
}

/// Some words of the image against those of the switch.
pub fn words(tables: &mut Tables, memory: Memory, words: Range<u32>, report: &mut Report) {
    let (image, Some(hardware)) = tables.images(memory, words.clone()) else {
        return;
    };
    for addr in words {
        report.words += 1;
        let (want, found) = (image.read(memory, addr), hardware.read(memory, addr));
        if want != found {
            report.tell(Suspect::Word(memory, addr), || {
                let name = memory.name();
                format!("word {addr} of {name} is {found:x?} in the switch, not {want:x?}")
            });
        }
    }
}

/// The image against the memories of the switch, word by word, and each next hop's MAC address against the neighbours.
pub fn hardware(state: &State, tables: &mut Tables, report: &mut Report) {
    hops(state, tables, report);
    for memory in Memory::ALL {
        let depth = tables.fib().image().depth(memory);
        words(tables, memory, 0..depth, report);
    }
}

/// An address to ask the kernel for: one in each interleaved prefix first, then in any.
pub fn question(nets: &[Net], interleaved: &[Net], at: usize, random: &mut Random) -> IpAddr {
    match (interleaved.get(at), nets.len() as u64) {
        (Some(net), _) => net.inside(random.wide()),
        (None, 0) => IpAddr::V4((random.bits() as u32).into()),
        (None, count) => nets[random.below(count) as usize].inside(random.wide()),
    }
}

/// Whether the kernel, which gave this answer for an address, may send as a target says.
pub fn fits(state: &State, answer: &Message, address: IpAddr, found: Option<Target>) -> bool {
    match (answer, found) {
        // Network unreachable, or a route that says so with an error of its own.
        (Message::Error(_), found) => {
            matches!(found, None | Some(Target::Host | Target::Discard))
        }
        (Message::Route(route), Some(Target::Discard)) => route.kind == RouteKind::Blackhole,
        // By the host port is always right, if slow; what is slow without need, the comparison above finds.
        (Message::Route(_), None | Some(Target::Host)) => true,
        (Message::Route(route), Some(Target::Neighbour { port, address: to })) => {
            let shrunk = || {
                let target = Target::Neighbour { port, address: to };
                longest(state, address)
                    .is_some_and(|(net, _)| state.wants_among_others(net, target))
            };
            route.kind == RouteKind::Unicast
                && (state.leads_to(route, address, port, to)
                    || shrunk()
                    || state.shares_object(route, address))
        }
        _ => false,
    }
}

/// The kernel's own look-up of an address against the image, as for a packet that comes in and is to be forwarded: for its own
/// it may choose another of several routes.
///
/// # Errors
/// If the kernel can't be asked.
pub fn kernel(
    state: &State,
    tables: &Tables,
    asker: &mut Netlink,
    address: IpAddr,
    entry: Option<Entry>,
    report: &mut Report,
) -> io::Result<()> {
    if Net::host(address).is_never_looked_up() || is_martian(address) {
        return Ok(());
    }
    if address.is_ipv6() && !state.forwards(true) {
        report.unasked += 1;
        return Ok(());
    }
    let Some(answer) = entry::ask(asker, address, entry)? else {
        report.unasked += 1;
        return Ok(());
    };
    report.asked += 1;
    let found = looked_up(tables, tables.fib().image(), address);
    let fits = fits(state, &answer, address, found);
    if !fits {
        report.tell(Suspect::Asked(address, entry), || {
            let found = say(found);
            let by = longest(state, address).map_or("no prefix".to_owned(), |(net, _)| {
                format!("{net}, where fibd has {}", state.describe(net))
            });
            let at = entry.and_then(|entry| state.name(entry.device));
            let at = at.map_or(String::new(), |name| format!(" coming in at {name}"));
            format!(
                "{address}{at}: the kernel answers {answer:?}, the image leads to {found} by {by}"
            )
        });
    }
    Ok(())
}

/// What differed before, once more.
///
/// # Errors
/// If the kernel can't be asked.
pub fn again(
    fresh: &State,
    state: &State,
    tables: &mut Tables,
    asker: &mut Netlink,
    suspect: Suspect,
    report: &mut Report,
) -> io::Result<()> {
    match suspect {
        Suspect::Net(net) => belief(fresh, state, net, report),
        Suspect::Address(address) => check(state, tables, address, report),
        Suspect::Asked(address, entry) => kernel(state, tables, asker, address, entry, report)?,
        Suspect::Hop(port, address) => {
            hops_of(state, tables, |at, of| (at, of) == (port, address), report);
        }
        Suspect::Word(memory, at) => words(tables, memory, at..at + 1, report),
    }
    Ok(())
}

/// Addresses that hardware drops before it looks for a route.
fn is_martian(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => matches!(address.octets()[0], 0 | 127 | 240..),
        IpAddr::V6(address) => address.is_unspecified() || address.is_loopback(),
    }
}
