// SPDX-License-Identifier: Apache-2.0
//! While all routes of a table move from one set of neighbours to another, some go and some come, every frame goes where the
//! table before or the table after a change sends it, never elsewhere: also where numbers of next hops are used again.
//!
//!     cargo test --release -p fibd --test hitless -- --nocapture
//!     crates/fib/tools/fetch-routes
//!     cargo test --release -p fibd --test hitless -- --ignored --nocapture
#![cfg(target_os = "linux")]

mod common;

use std::cell::RefCell;
use std::net::{IpAddr, Ipv6Addr};
use std::rc::Rc;

use common::checking::{Checker, Checking, Frame, Order, Probe};
use fib::synth::{Random, Table};
use fib::{Config4, Config6};
use fibd::message::{Event, Hop, Message, RouteKind, RouteMessage, flags};
use fibd::{Config, Net, Source, State, Tables, Terms, settle};

const PORTS: u8 = 4;
/// Neighbours of a set and family: so many that with the third set numbers of next hops are used again.
const PEERS: u32 = 800;
/// Prefixes of a change of many; of so many the addresses are looked at while it lasts.
const CHUNK: usize = 4096;
const LOOKED_AT: usize = 2;

/// A neighbour: which of its set, and which set.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Peer {
    set: u8,
    number: u32,
    six: bool,
}

impl Peer {
    fn port(self) -> u8 {
        (self.number % u32::from(PORTS)) as u8
    }

    fn address(self) -> IpAddr {
        let [_, _, high, low] = self.number.to_be_bytes();
        match self.six {
            false => IpAddr::from([100, 64 + self.set, high, low]),
            true => {
                let tail = self.number as u16;
                Ipv6Addr::new(0xfd00, self.set.into(), 0, 0, 0, 0, 0, tail).into()
            }
        }
    }

    fn mac(self) -> [u8; 6] {
        let [_, _, high, low] = self.number.to_be_bytes();
        [2, self.six.into(), self.set, self.port(), high, low]
    }

    fn frame(self) -> Frame {
        let mac = self.mac().into_iter();
        Frame::To {
            port: self.port(),
            mac: mac.fold(0, |mac, byte| mac << 8 | u64::from(byte)),
        }
    }
}

/// How a table moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Each route in a change of its own.
    Each,
    /// Many in one change.
    Many,
}

/// A kernel's table, the tables of the switch, and the checker behind them.
struct Bench {
    nets: Vec<Net>,
    /// The next shorter prefix of each.
    around: Vec<Option<u32>>,
    /// By which set of neighbours each has a route now.
    now: Vec<Option<u8>>,
    peers: u32,
    /// Of so many routes one is not there in a set; none if 0.
    absent: u64,
    state: State,
    tables: Tables,
    checker: Rc<RefCell<Checker>>,
    random: Random,
}

fn mixed(number: u64) -> u64 {
    Random::new(number).bits()
}

impl Bench {
    fn new(mut nets: Vec<Net>, config: fib::Config, peers: u32, order: Order, seed: u64) -> Self {
        nets.retain(|net| !net.is_never_looked_up());
        nets.sort_unstable();
        nets.dedup();
        let mut above: Vec<u32> = Vec::new();
        let mut around = Vec::with_capacity(nets.len());
        for (net, at) in nets.iter().zip(0..) {
            while above
                .last()
                .is_some_and(|last| !nets[*last as usize].covers(*net))
            {
                above.pop();
            }
            around.push(above.last().copied());
            above.push(at);
        }
        let mut state = State::new(Config {
            ports: (0..PORTS).map(|port| format!("sw{port}")).collect(),
            ..Config::default()
        });
        for port in 0..PORTS {
            let message = Message::Link {
                device: u32::from(port) + 1,
                name: format!("sw{port}"),
                up: true,
                carrier: true,
                running: true,
                mac: None,
                mtu: 1500,
            };
            tell(&mut state, 0, message);
        }
        let mut made = None;
        let tables = Tables::new(config, |image| {
            let checker = Rc::new(RefCell::new(Checker::new(image, seed)));
            made = Some(checker.clone());
            Ok(Box::new(Checking {
                checker,
                order,
                late: Vec::new(),
            }))
        });
        Self {
            now: vec![None; nets.len()],
            nets,
            around,
            peers,
            absent: 0,
            state,
            tables: tables.unwrap(),
            checker: made.unwrap(),
            random: Random::new(seed),
        }
    }

    /// The neighbours of a set become known.
    fn meet(&mut self, set: u8) {
        for number in 0..self.peers {
            for six in [false, true] {
                let peer = Peer { set, number, six };
                let message = Message::Neighbour {
                    device: u32::from(peer.port()) + 1,
                    address: peer.address(),
                    mac: Some(peer.mac()),
                    given: false,
                };
                tell(&mut self.state, 0, message);
            }
        }
    }

    /// The neighbour of a prefix in a set.
    fn peer(&self, at: usize, set: u8) -> Peer {
        let number = mixed(at as u64 * 64 + u64::from(set)) % u64::from(self.peers);
        Peer {
            set,
            number: number as u32,
            six: self.nets[at].is_ipv6(),
        }
    }

    /// Whether a prefix has a route in a set.
    fn is_in(&self, at: usize, set: u8) -> bool {
        !mixed(!(at as u64 * 64 + u64::from(set))).is_multiple_of(self.absent)
    }

    fn route(&self, at: usize, set: u8) -> RouteMessage {
        let peer = self.peer(at, set);
        RouteMessage {
            net: self.nets[at],
            table: 254,
            tos: 0,
            metric: 20,
            protocol: 12,
            kind: RouteKind::Unicast,
            source: None,
            object: None,
            hops: vec![Hop {
                device: u32::from(peer.port()) + 1,
                gateway: Some(peer.address()),
                weight: 1,
                dead: false,
                terms: Terms::default(),
            }],
            dead: Vec::new(),
            idle: Vec::new(),
            expires: 0,
            from: None,
            terms: Terms::default(),
            identity: 0,
            flags: 0,
        }
    }

    /// Tells that a prefix is by another set now, as the kernel does.
    fn change(&mut self, at: usize, set: u8) {
        let old = self.now[at].map(|old| self.route(at, old));
        self.now[at] = self.is_in(at, set).then_some(set);
        let new = self.now[at].map(|set| self.route(at, set));
        let by_replacing = self.random.below(2) == 0;
        let state = &mut self.state;
        match (old, new) {
            (Some(_), Some(new)) if by_replacing => {
                tell(state, flags::REPLACE | flags::CREATE, Message::Route(new));
            }
            (old, new) => {
                if let Some(old) = old {
                    tell(state, 0, Message::RouteGone(old));
                }
                if let Some(new) = new {
                    tell(state, flags::CREATE, Message::Route(new));
                }
            }
        }
    }

    /// What becomes of a frame for an address, by the longest prefix that has a route.
    fn frame(&self, address: IpAddr) -> Frame {
        let host = Net::host(address);
        let mut at = match self.nets.partition_point(|net| *net <= host) {
            0 => None,
            behind => Some(behind as u32 - 1),
        };
        while let Some(here) = at {
            let index = here as usize;
            if let (true, Some(set)) = (self.nets[index].covers(host), self.now[index]) {
                return self.peer(index, set).frame();
            }
            at = self.around[index];
        }
        Frame::Host
    }

    /// Addresses where a mistake with a prefix would show.
    fn addresses(&mut self, at: usize) -> [IpAddr; 5] {
        let net = self.nets[at];
        let beside = |address: IpAddr, up: bool| match address {
            IpAddr::V4(four) => {
                let four = u32::from(four);
                let beside = if up {
                    four.wrapping_add(1)
                } else {
                    four.wrapping_sub(1)
                };
                IpAddr::V4(beside.into())
            }
            IpAddr::V6(six) => {
                let six = u128::from(six);
                let beside = if up {
                    six.wrapping_add(1)
                } else {
                    six.wrapping_sub(1)
                };
                IpAddr::V6(beside.into())
            }
        };
        let inside = net.inside(self.random.wide());
        let (first, last) = (net.first(), net.last());
        [
            first,
            last,
            inside,
            beside(first, false),
            beside(last, true),
        ]
    }

    /// Some prefixes move in one change, under the eyes of the checker.
    fn step(&mut self, some: &[usize], set: u8) {
        let mut addresses = Vec::new();
        let most = some.len().min(LOOKED_AT);
        for _ in 0..most {
            let at = match some {
                [only] => *only,
                _ => some[self.random.below(some.len() as u64) as usize],
            };
            addresses.extend(self.addresses(at));
        }
        // One of all the others, whose table is the same.
        let other = self.random.below(self.nets.len() as u64) as usize;
        addresses.push(self.nets[other].inside(self.random.wide()));
        let before: Vec<Frame> = addresses.iter().map(|it| self.frame(*it)).collect();
        some.iter().for_each(|at| self.change(*at, set));
        let probes = addresses.iter().zip(before).map(|(address, before)| Probe {
            address: *address,
            may: [before, self.frame(*address)],
        });
        self.checker.borrow_mut().probes = probes.collect();
        settle(&mut self.state, &mut self.tables).unwrap();
    }

    /// The whole table moves to another set of neighbours; then all of it must be there.
    fn flap(&mut self, way: Way, set: u8) {
        let mut order: Vec<usize> = (0..self.nets.len()).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, self.random.below(at as u64 + 1) as usize);
        }
        let size = if way == Way::Each { 1 } else { CHUNK };
        order.chunks(size).for_each(|some| self.step(some, set));
        let all = (0..self.nets.len()).step_by(1 + self.nets.len() / 200_000);
        let all: Vec<Probe> = all
            .map(|at| {
                let address = self.nets[at].inside(self.random.wide());
                let may = [self.frame(address); 2];
                Probe { address, may }
            })
            .collect();
        self.checker.borrow_mut().look_all(&all);
    }

    fn report(&self, what: &str) {
        let checker = self.checker.borrow();
        println!(
            "{what}: {} routes, {} words, {} look-ups between them and {} across them; {} numbers of next hops used again; \
             {} frames went elsewhere",
            self.nets.len(),
            checker.writes,
            checker.whole,
            checker.torn,
            checker.reused,
            checker.wrong
        );
    }

    #[track_caller]
    fn is_right(&self) {
        let checker = self.checker.borrow();
        assert_eq!(checker.wrong, 0, "{:#?}", checker.told);
    }
}

fn tell(state: &mut State, flags: u16, message: Message) {
    let event = Event {
        flags,
        sequence: 1,
        port: 1,
        message,
    };
    state.take(event, Source::Kernel);
}

fn seed() -> u64 {
    common::seed()
}

fn nets(table: &Table) -> Vec<Net> {
    let four = table.v4.iter();
    let four = four.map(|it| Net::new(IpAddr::V4(it.addr().into()), it.len()).unwrap());
    let six = table.v6.iter();
    let six = six.map(|it| Net::new(IpAddr::V6(it.addr().into()), it.len()).unwrap());
    four.chain(six).collect()
}

/// There and back again, so often that numbers of next hops are used again.
fn flaps(bench: &mut Bench, ways: &[Way]) {
    (0..3).for_each(|set| bench.meet(set));
    for (round, way) in ways.iter().enumerate() {
        bench.flap(*way, round as u8 % 3);
        bench.report(&format!("{way:?} to set {}", round % 3));
    }
    bench.is_right();
    assert!(
        bench.checker.borrow().reused > 0,
        "no number was used again"
    );
}

#[test]
fn a_full_flap_sends_no_frame_elsewhere() {
    let seed = seed();
    let table = nets(&Table::synthetic(seed, 4000, 2000));
    for absent in [0, 5] {
        println!("one of {absent} routes is not there");
        let config = fib::Config::default();
        let mut bench = Bench::new(table.clone(), config, PEERS, Order::Right, seed);
        bench.absent = absent;
        flaps(&mut bench, &[Way::Many, Way::Each, Way::Many, Way::Each]);
    }
}

/// With all numbers taken each one that becomes free is used again at once; who has none goes by the host port.
#[test]
fn without_numbers_and_without_room_it_is_the_host_port_or_right() {
    let seed = seed();
    let table = nets(&Table::synthetic(seed, 4000, 2000));
    let small = fib::Config {
        v4: Config4::RunVec {
            leaves: 1 << 11,
            groups: 4,
            hosts: 16,
        },
        v6: Config6::Trie {
            nodes: [256; 7],
            leaves: 1 << 10,
            hosts: 16,
            tcam: 8,
        },
    };
    for (what, config, peers) in [
        ("few numbers", fib::Config::default(), 4000),
        ("little room", small, PEERS),
    ] {
        let mut bench = Bench::new(table.clone(), config, peers, Order::Right, seed);
        bench.absent = 7;
        bench.checker.borrow_mut().may_be_full = true;
        (0..3).for_each(|set| bench.meet(set));
        for (set, way) in [(0, Way::Many), (1, Way::Each), (2, Way::Many)] {
            bench.flap(way, set);
        }
        bench.report(what);
        bench.is_right();
        let counters = &bench.state.counters;
        assert!(
            counters.hops_full + counters.spilled > 0,
            "{what}: there was room"
        );
    }
}

/// The checker finds what a switch would do with words in another order.
#[test]
fn words_in_a_wrong_order_are_found() {
    let seed = seed();
    let table = nets(&Table::synthetic(seed, 2000, 1000));
    for order in [Order::Backwards, Order::WithoutDrains, Order::NextHopsFirst] {
        let config = fib::Config::default();
        let mut bench = Bench::new(table.clone(), config, PEERS, order, seed);
        bench.absent = 5;
        (0..3).for_each(|set| bench.meet(set));
        for set in [0, 1, 2, 0] {
            bench.flap(Way::Each, set);
        }
        bench.report(&format!("{order:?}"));
        let checker = bench.checker.borrow();
        assert!(checker.wrong > 0, "{order:?} went unnoticed");
        println!("  {:.300}", checker.told[0]);
    }
}

#[test]
#[ignore = "the Internet's table three times over: minutes"]
fn a_full_flap_of_the_internet_sends_no_frame_elsewhere() {
    let seed = seed();
    let path = "../../.build/routes/bart-v0.30.0.txt";
    let text = std::fs::read_to_string(path).expect("run crates/fib/tools/fetch-routes first");
    let table = nets(&Table::parse(&text).unwrap());
    let config = fib::Config::default();
    let mut bench = Bench::new(table, config, PEERS, Order::Right, seed);
    bench.checker.borrow_mut().torn_every = 8;
    flaps(&mut bench, &[Way::Many, Way::Each, Way::Many]);
}
