// SPDX-License-Identifier: Apache-2.0
//! The state by itself: awkward orders of requests, and what is left when everybody has gone.

mod adopting;
mod announcements;
mod datagrams;
mod listing;
mod moving;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use ipc::protocol::{self, Notice, Reply, Request, notice_page};
use ipc::{Rights, Token};
use proptest::prelude::*;
use rustix::io::Errno;

use super::directory::Server;
use super::{Answer, Counted, Effect, Kind, Machine, ProcessId, Refusal, Settings, State};

/// A machine that only counts.
#[derive(Debug, Default)]
struct Fake {
    made: u64,
    rung: Vec<u64>,
    open: bool,
    revoked: Vec<u64>,
    fails: bool,
    flags: u32,
}

impl Fake {
    fn make(&mut self) -> Result<u64, Refusal> {
        if self.fails {
            return Err(Refusal::new(Errno::MFILE, "no more descriptors"));
        }
        self.made += 1;
        Ok(self.made)
    }
}

impl Machine for Fake {
    type Handle = u64;

    fn memory(&mut self, _: u64) -> Result<u64, Refusal> {
        self.make()
    }

    fn event(&mut self) -> Result<u64, Refusal> {
        self.make()
    }

    fn read_only(&mut self, memory: &u64) -> Result<u64, Refusal> {
        Ok(*memory)
    }

    fn channel(&mut self, _: Kind) -> Result<u64, Refusal> {
        self.make()
    }

    fn far_channel(&mut self) -> Result<u64, Refusal> {
        self.make()
    }

    fn living(&mut self) -> Result<u64, Refusal> {
        self.make()
    }

    fn channel_bytes(&self, _: &u64) -> u64 {
        shm::channel::bytes(shm::channel::STREAM_LINES) as u64
    }

    fn ring(&mut self, event: &u64) {
        self.rung.push(*event);
    }

    fn revoke_channel(&mut self, memory: &u64) {
        self.revoked.push(*memory);
    }

    fn counters(&self, memory: &u64) -> Option<[Counted; 2]> {
        let bytes = *memory;
        Some(
            [Counted {
                bytes,
                flags: self.flags,
                ..Counted::default()
            }; 2],
        )
    }

    fn is_open(&mut self, _: SocketAddr, _: SocketAddr, _: Duration) -> bool {
        self.open
    }

    fn is_connected(&mut self, _: SocketAddr, _: SocketAddr) -> bool {
        self.open
    }

    fn is_local(&mut self, ip: IpAddr) -> bool {
        ip.is_loopback() || ip == IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1))
    }

    fn secret(&mut self) -> Result<[u8; 16], Refusal> {
        Ok([7; 16])
    }
}

const NETNS: u64 = 99;

struct World {
    state: State<u64>,
    machine: Fake,
    now: Duration,
    pids: u32,
}

impl World {
    fn new() -> Self {
        let state = State::new(Settings {
            netns: NETNS,
            management: Some("10.0.0.1:3422".parse().expect("an address")),
            ..Settings::default()
        });
        Self {
            state,
            machine: Fake::default(),
            now: Duration::ZERO,
            pids: 0,
        }
    }

    fn process(&mut self) -> ProcessId {
        self.process_in(NETNS)
    }

    fn process_in(&mut self, netns: u64) -> ProcessId {
        self.pids += 1;
        let id = self.state.arrive(self.pids);
        let hello = Request::Hello {
            version: protocol::VERSION,
            program: "test".to_owned(),
            netns,
        };
        assert!(matches!(self.ask(id, hello), Reply::Hello { .. }));
        id
    }

    fn answer(&mut self, id: ProcessId, request: Request) -> Answer<u64> {
        self.state.request(&mut self.machine, self.now, id, request)
    }

    fn ask(&mut self, id: ProcessId, request: Request) -> Reply {
        self.answer(id, request).reply
    }

    fn leave(&mut self, id: ProcessId) {
        self.state.leave(&mut self.machine, self.now, id);
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        self.state.tick(&mut self.machine, self.now);
    }

    fn intent(&mut self, id: ProcessId, to: SocketAddr) -> u64 {
        match self.ask(id, Request::Intend { to, asked: false }) {
            Reply::Intent { intent } => intent,
            other => panic!("{other:?}"),
        }
    }

    fn notices(&mut self) -> Vec<(ProcessId, Notice)> {
        let effects = self.state.take_effects().into_iter();
        effects
            .filter_map(|effect| match effect {
                Effect::Notify {
                    process, notice, ..
                } => Some((process, notice)),
                _ => None,
            })
            .collect()
    }
}

fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn server() -> SocketAddr {
    at("127.0.0.1:80")
}

fn client() -> SocketAddr {
    at("127.0.0.1:4000")
}

#[test]
fn hello_comes_first_and_once() {
    let mut world = World::new();
    let id = world.state.arrive(1);
    let refused = |reply: Reply, wanted: Errno| match reply {
        Reply::Error { errno, .. } => assert_eq!(errno, wanted.raw_os_error()),
        other => panic!("{other:?}"),
    };
    refused(world.ask(id, Request::Sockets { after: 0 }), Errno::PROTO);
    let hello = |version| Request::Hello {
        version,
        program: String::new(),
        netns: 0,
    };
    refused(
        world.ask(id, hello(protocol::VERSION + 1)),
        Errno::PROTONOSUPPORT,
    );
    assert!(matches!(
        world.ask(id, hello(protocol::VERSION)),
        Reply::Hello { .. }
    ));
    refused(world.ask(id, hello(protocol::VERSION)), Errno::PROTO);
}

#[test]
fn an_acceptor_waits_for_an_intent_that_is_older_than_its_question() {
    let mut world = World::new();
    let [a, b, s] = [0; 3].map(|_| world.process());
    world.ask(s, Request::Listen { address: server() });
    let resolve = |from| Request::Resolve { from, to: server() };
    // Nobody is about to connect: it is a program without the library.
    assert_eq!(world.ask(s, resolve(at("127.0.0.1:1"))), Reply::Kernel);
    let first = world.intent(a, server());
    assert_eq!(world.ask(s, resolve(at("127.0.0.1:1"))), Reply::Wait);
    // Later intents are not what it waits for.
    let second = world.intent(b, server());
    let announce = |intent, from| Request::Announce {
        intent,
        from,
        to: server(),
    };
    assert!(matches!(
        world.ask(a, announce(first, client())),
        Reply::Channel { .. }
    ));
    assert_eq!(world.ask(s, resolve(at("127.0.0.1:1"))), Reply::Kernel);
    assert!(
        matches!(world.ask(s, resolve(client())), Reply::Channel { channel } if channel == first)
    );
    world.ask(b, Request::Withdraw { intent: second });
    assert!(world.state.intents.is_empty() && world.state.waiting.is_empty());
}

/// The processes of a connection were killed, its port is used again, and the acceptor asks before the new client has
/// announced: it must not get the channel of the dead.
#[test]
fn an_acceptor_does_not_get_the_channel_of_an_earlier_connection() {
    let mut world = World::new();
    let [dead, c, s] = [0; 3].map(|_| world.process());
    world.ask(s, Request::Listen { address: server() });
    let resolve = Request::Resolve {
        from: client(),
        to: server(),
    };
    let announce = |intent| Request::Announce {
        intent,
        from: client(),
        to: server(),
    };
    let old = world.intent(dead, server());
    world.ask(dead, announce(old));
    let reply = Reply::Channel { channel: old };
    assert_eq!(world.ask(s, resolve.clone()), reply);
    // The answer was lost on the way.
    assert_eq!(world.ask(s, resolve.clone()), reply);
    world.machine.flags = shm::channel::flags::ATTACHED;
    world.leave(dead);
    world.ask(
        s,
        Request::Close {
            channel: old,
            shared: false,
        },
    );
    let intent = world.intent(c, server());
    assert_eq!(world.ask(s, resolve.clone()), Reply::Wait);
    world.ask(c, announce(intent));
    assert_eq!(world.ask(s, resolve), Reply::Channel { channel: intent });
}

#[test]
fn an_acceptor_waits_a_second_and_then_both_use_the_kernel() {
    let mut world = World::new();
    let [c, s] = [0; 2].map(|_| world.process());
    world.ask(s, Request::Listen { address: server() });
    let intent = world.intent(c, server());
    let resolve = Request::Resolve {
        from: client(),
        to: server(),
    };
    assert_eq!(world.ask(s, resolve.clone()), Reply::Wait);
    world.wait(Duration::from_millis(999));
    assert_eq!(world.ask(s, resolve.clone()), Reply::Wait);
    world.wait(Duration::from_millis(1));
    assert_eq!(world.ask(s, resolve), Reply::Kernel);
    let late = Request::Announce {
        intent,
        from: client(),
        to: server(),
    };
    assert_eq!(world.ask(c, late), Reply::Kernel);
    assert_eq!(world.state.channels.len(), 0);
}

#[test]
fn a_dead_client_keeps_no_acceptor_waiting() {
    let mut world = World::new();
    let [c, s] = [0; 2].map(|_| world.process());
    world.ask(s, Request::Listen { address: server() });
    world.intent(c, server());
    let resolve = Request::Resolve {
        from: client(),
        to: server(),
    };
    assert_eq!(world.ask(s, resolve.clone()), Reply::Wait);
    world.leave(c);
    assert_eq!(world.ask(s, resolve), Reply::Kernel);
}

#[test]
fn a_closed_connection_still_reaches_its_acceptor() {
    let mut world = World::new();
    let [c, s] = [0; 2].map(|_| world.process());
    world.ask(s, Request::Listen { address: server() });
    let channel = world.intent(c, server());
    let announce = Request::Announce {
        intent: channel,
        from: client(),
        to: server(),
    };
    let memory = world.answer(c, announce).handles;
    world.ask(
        c,
        Request::Close {
            channel,
            shared: false,
        },
    );
    world.leave(c);
    world.wait(Duration::from_secs(60));
    let taken = world.answer(
        s,
        Request::Resolve {
            from: client(),
            to: server(),
        },
    );
    assert_eq!(
        (taken.reply, taken.handles),
        (Reply::Channel { channel }, memory)
    );
    world.ask(
        s,
        Request::Close {
            channel,
            shared: false,
        },
    );
    assert_eq!(world.state.channels.len(), 0);
}

#[test]
fn a_closed_connection_without_a_listener_is_dropped_in_time() {
    let mut world = World::new();
    let [c, s] = [0; 2].map(|_| world.process());
    world.ask(s, Request::Listen { address: server() });
    let intent = world.intent(c, server());
    world.ask(
        c,
        Request::Announce {
            intent,
            from: client(),
            to: server(),
        },
    );
    world.leave(s);
    world.wait(Duration::from_secs(60));
    assert_eq!(world.state.channels.len(), 1, "its client still has it");
    world.leave(c);
    world.wait(Duration::from_secs(1));
    assert_eq!(world.state.channels.len(), 0);
    assert_eq!(world.state.streams.numbers().count(), 0);
}

#[test]
fn a_withdrawn_connection_is_gone_even_when_announced() {
    let mut world = World::new();
    let [c, s] = [0; 2].map(|_| world.process());
    world.ask(s, Request::Listen { address: server() });
    let intent = world.intent(c, server());
    world.ask(
        c,
        Request::Announce {
            intent,
            from: client(),
            to: server(),
        },
    );
    // A stranger's intent is not its to withdraw.
    world.ask(s, Request::Withdraw { intent });
    assert_eq!(world.state.channels.len(), 1);
    world.ask(c, Request::Withdraw { intent });
    assert_eq!(world.state.channels.len(), 0);
    assert_eq!(
        world.ask(
            s,
            Request::Resolve {
                from: client(),
                to: server()
            }
        ),
        Reply::Kernel
    );
}

#[test]
fn acceptors_have_to_ask_from_the_intent_until_the_connection_is_taken_or_withdrawn() {
    let mut world = World::new();
    let [c, s] = [0; 2].map(|_| world.process());
    let (from, to) = (client(), server());
    world.ask(s, Request::Listen { address: to });
    assert!(!world.state.is_somebody_connecting());
    for taken in [true, false] {
        let intent = world.intent(c, to);
        assert!(world.state.is_somebody_connecting(), "there is an intent");
        world.ask(c, Request::Announce { intent, from, to });
        assert!(world.state.is_somebody_connecting(), "nobody has taken it");
        if taken {
            world.ask(s, Request::Resolve { from, to });
        } else {
            world.ask(c, Request::Withdraw { intent });
        }
        assert!(!world.state.is_somebody_connecting(), "taken: {taken}");
    }
}

#[test]
fn a_port_that_is_used_again_gets_a_channel_of_its_own() {
    let mut world = World::new();
    let [c, s] = [0; 2].map(|_| world.process());
    world.ask(s, Request::Listen { address: server() });
    let mut numbers = Vec::new();
    for _ in 0..2 {
        let intent = world.intent(c, server());
        world.ask(
            c,
            Request::Announce {
                intent,
                from: client(),
                to: server(),
            },
        );
        match world.ask(
            s,
            Request::Resolve {
                from: client(),
                to: server(),
            },
        ) {
            Reply::Channel { channel } => numbers.push(channel),
            other => panic!("{other:?}"),
        }
    }
    assert_ne!(numbers[0], numbers[1]);
    world.ask(
        s,
        Request::Close {
            channel: numbers[0],
            shared: false,
        },
    );
    world.ask(
        c,
        Request::Close {
            channel: numbers[0],
            shared: false,
        },
    );
    assert_eq!(
        world.state.streams.get(Server::Here, &(client(), server())),
        Some(numbers[1])
    );
}

#[test]
fn a_process_can_connect_to_itself() {
    let mut world = World::new();
    let me = world.process();
    world.ask(me, Request::Listen { address: server() });
    let channel = world.intent(me, server());
    world.ask(
        me,
        Request::Announce {
            intent: channel,
            from: client(),
            to: server(),
        },
    );
    world.ask(
        me,
        Request::Resolve {
            from: client(),
            to: server(),
        },
    );
    world.ask(
        me,
        Request::Close {
            channel,
            shared: false,
        },
    );
    assert_eq!(world.state.channels.len(), 1, "one side is still open");
    world.ask(
        me,
        Request::Close {
            channel,
            shared: false,
        },
    );
    assert_eq!(world.state.channels.len(), 0);
}

#[test]
fn other_namespaces_and_other_machines_use_the_kernel() {
    let mut world = World::new();
    let [c, s] = [0; 2].map(|_| world.process());
    let far = world.process_in(NETNS + 1);
    world.ask(
        s,
        Request::Listen {
            address: at("0.0.0.0:80"),
        },
    );
    world.ask(
        s,
        Request::Bind {
            address: at("0.0.0.0:53"),
        },
    );
    world.ask(
        far,
        Request::Listen {
            address: at("0.0.0.0:81"),
        },
    );
    for to in ["127.0.0.1:81", "10.0.0.2:80", "127.0.0.1:82"] {
        assert_eq!(
            world.ask(
                c,
                Request::Intend {
                    to: at(to),
                    asked: false
                }
            ),
            Reply::Kernel,
            "{to}"
        );
    }
    assert_eq!(
        world.ask(
            far,
            Request::Intend {
                to: server(),
                asked: false
            }
        ),
        Reply::Kernel
    );
    let datagrams = |to| Request::Datagrams {
        from: client(),
        to: at(to),
        asked: false,
    };
    assert_eq!(world.ask(c, datagrams("10.0.0.2:53")), Reply::Kernel);
    assert_eq!(world.ask(far, datagrams("127.0.0.1:53")), Reply::Kernel);
    world.intent(c, at("10.0.0.1:80"));
    assert!(matches!(
        world.ask(c, datagrams("[::ffff:10.0.0.1]:53")),
        Reply::Channel { .. }
    ));
}

#[test]
fn when_memory_fails_nobody_waits() {
    let mut world = World::new();
    let [c, s] = [0; 2].map(|_| world.process());
    world.ask(s, Request::Listen { address: server() });
    let intent = world.intent(c, server());
    world.machine.fails = true;
    let failed = world.ask(
        c,
        Request::Announce {
            intent,
            from: client(),
            to: server(),
        },
    );
    assert!(matches!(failed, Reply::Error { .. }), "{failed:?}");
    assert_eq!(
        world.ask(
            s,
            Request::Resolve {
                from: client(),
                to: server()
            }
        ),
        Reply::Kernel
    );
    assert!(matches!(
        world.ask(c, Request::Create { bytes: 1 }),
        Reply::Error { .. }
    ));
    assert_eq!(world.state.regions.len(), 0);
}

fn region(world: &mut World, owner: ProcessId) -> (u64, Token) {
    let Reply::Region { region } = world.ask(owner, Request::Create { bytes: 4096 }) else {
        panic!("no region");
    };
    (region, export(world, owner, region))
}

fn export(world: &mut World, owner: ProcessId, region: u64) -> Token {
    let export = Request::Export {
        region,
        first: 0,
        bytes: 64,
        rights: Rights::Write,
        peer: None,
    };
    match world.ask(owner, export) {
        Reply::Token(token) => token,
        other => panic!("{other:?}"),
    }
}

#[test]
fn another_machine_gets_what_its_token_allows_and_loses_it_with_the_token() {
    let mut world = World::new();
    let outside = world.state.outside();
    let owner = world.process();
    let (region, token) = region(&mut world, owner);
    assert!(!world.state.is_elsewhere(&token));
    let peer = Ipv4Addr::new(10, 0, 0, 2);
    let granted = world
        .state
        .grant(&mut world.machine, outside, peer, &token)
        .expect("it is allowed");
    assert_eq!((granted.region_bytes, granted.token), (4096, token));
    let only = Request::Export {
        region,
        first: 0,
        bytes: 64,
        rights: Rights::Read,
        peer: Some(peer),
    };
    let Reply::Token(only) = world.ask(owner, only) else {
        panic!("no token")
    };
    let other = Ipv4Addr::new(10, 0, 0, 3);
    let refused = world
        .state
        .grant(&mut world.machine, outside, other, &only)
        .expect_err("not its token");
    assert_eq!(refused.errno, Errno::ACCESS);
    let refused = world.ask(owner, Request::Connect { token: only });
    assert!(matches!(refused, Reply::Error { errno, .. } if errno == Errno::ACCESS.raw_os_error()));
    // The other machine's NIC may still write by it.
    assert_eq!(world.ask(owner, Request::Revoke { token }), Reply::Wait);
    let told = Notice::Revoked {
        channel: None,
        window: Some(granted.grant),
        region: None,
    };
    assert_eq!(world.notices(), [(outside, told)]);
    assert_eq!(world.state.moving(region).reply, Reply::Wait);
    world.state.withdrawn(granted.grant);
    let answer = world.state.moving(region);
    assert_eq!((answer.reply, answer.handles.len()), (Reply::Done, 1));
    let refused = world
        .state
        .grant(&mut world.machine, outside, peer, &token)
        .expect_err("revoked");
    assert_eq!(refused.errno, Errno::KEYREVOKED);
}

#[test]
fn a_window_elsewhere_is_closed_with_its_holder() {
    let mut world = World::new();
    let holder = world.process();
    let window = world
        .state
        .connect_elsewhere(holder)
        .expect("there is room");
    world.state.tell_holder(window, Notice::PeerLost { window });
    assert_eq!(world.notices(), [(holder, Notice::PeerLost { window })]);
    world.leave(holder);
    let effects = world.state.take_effects();
    assert!(
        matches!(effects[..], [Effect::CloseElsewhere { window: closed }] if closed == window),
        "{effects:?}"
    );
}

/// Any request, with numbers and addresses from a small set, so that they often mean something.
fn requests() -> impl Strategy<Value = Request> {
    let address = (0..3_u8, 1..4_u16).prop_map(|(ip, port)| match ip {
        0 => SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port),
        1 => SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port),
        _ => SocketAddr::new(IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED), port),
    });
    let number = 1..40_u64;
    let token = (1..40_u64).prop_map(|region| Token {
        rights: Rights::ReadWrite,
        management: "0.0.0.0:0".parse().expect("an address"),
        region,
        first: 0,
        bytes: 64,
        secret: [7; 16],
    });
    let pair = (address.clone(), address.clone());
    prop_oneof![
        (1..9000_u64).prop_map(|bytes| Request::Create { bytes }),
        number.clone().prop_map(|region| Request::Export {
            region,
            first: 0,
            bytes: 64,
            rights: Rights::ReadWrite,
            peer: None
        }),
        token.clone().prop_map(|token| Request::Revoke { token }),
        token.prop_map(|token| Request::Connect { token }),
        number
            .clone()
            .prop_map(|region| Request::Release { region }),
        number
            .clone()
            .prop_map(|window| Request::Disconnect { window }),
        address
            .clone()
            .prop_map(|address| Request::Listen { address }),
        address
            .clone()
            .prop_map(|address| Request::Unlisten { address }),
        address
            .clone()
            .prop_map(|to| Request::Intend { to, asked: false }),
        (number.clone(), pair.clone()).prop_map(|(intent, (from, to))| Request::Announce {
            intent,
            from,
            to
        }),
        number
            .clone()
            .prop_map(|intent| Request::Withdraw { intent }),
        pair.clone()
            .prop_map(|(from, to)| Request::Resolve { from, to }),
        pair.clone()
            .prop_map(|(own, peer)| Request::Adopt { own, peer }),
        (number.clone(), any::<bool>())
            .prop_map(|(channel, shared)| Request::Close { channel, shared }),
        address
            .clone()
            .prop_map(|address| Request::Bind { address }),
        address.prop_map(|address| Request::Unbind { address }),
        pair.prop_map(|(from, to)| Request::Datagrams {
            from,
            to,
            asked: false
        }),
        number
            .clone()
            .prop_map(|channel| Request::RevokeChannel { channel }),
        number
            .clone()
            .prop_map(|region| Request::RevokeRegion { region }),
        number.clone().prop_map(|region| Request::Renew { region }),
        (number, any::<bool>()).prop_map(|(region, moved)| Request::Settle { region, moved }),
    ]
}

impl World {
    /// What must hold after every request.
    fn check(&self) {
        let state = &self.state;
        for (number, channel) in &state.channels {
            for side in &channel.sides {
                for holder in &side.holders {
                    assert!(state.processes[holder].channels.contains(number));
                }
            }
            let ends = (channel.from, channel.to);
            let indexed = match channel.kind {
                Kind::Stream => state.streams.get(Server::Here, &ends),
                Kind::Datagram => state.datagrams.get(&ends).copied(),
            };
            assert!(indexed.is_some_and(|indexed| indexed >= *number) || channel.taken);
        }
        let mut places = BTreeSet::new();
        for number in state.streams.numbers() {
            let channel = &state.channels[&number];
            let [client, server] = [channel.from, channel.to].map(|end| end.port());
            places.insert(notice_page::place(server, client));
        }
        assert!(state.streams.shown.all().eq(places));
        let listeners = state.processes.values().flat_map(|one| &one.listeners);
        let places: BTreeSet<_> = listeners
            .map(|address| notice_page::listener_place(address.port()))
            .collect();
        assert!(state.listening.all().eq(places));
        for number in state.datagrams.values() {
            assert!(state.channels.contains_key(number));
        }
        for (id, process) in &state.processes {
            for channel in &process.channels {
                let sides = &state.channels[channel].sides;
                assert!(sides.iter().any(|side| side.holders.contains(id)));
            }
            for window in &process.windows {
                assert_eq!(state.windows[window].holder, *id);
            }
            let bytes: u64 = process
                .regions
                .iter()
                .map(|region| state.regions[region].bytes)
                .sum();
            assert_eq!(process.region_bytes, bytes);
        }
        for region in state.regions.values() {
            assert!(
                region
                    .windows
                    .iter()
                    .all(|window| state.windows.contains_key(window))
            );
        }
        assert!(state.retired.is_empty());
    }
}

proptest! {
    #[test]
    fn in_any_order_the_tables_agree_and_nothing_is_left(
        steps in proptest::collection::vec((0..4_usize, requests(), 0..400_u64), 0..200)
    ) {
        let mut world = World::new();
        let processes = [0; 3].map(|_| world.process());
        for (who, request, passes) in steps {
            // The fourth process is always a new one that goes at once.
            match processes.get(who) {
                Some(&id) => drop(world.ask(id, request)),
                None => {
                    let id = world.process();
                    world.ask(id, request);
                    world.leave(id);
                }
            }
            world.check();
            world.wait(Duration::from_millis(passes));
            world.check();
        }
        processes.into_iter().for_each(|id| world.leave(id));
        world.wait(Duration::from_secs(3600));
        let state = &world.state;
        prop_assert!(state.channels.is_empty() && state.streams.numbers().next().is_none() && state.datagrams.is_empty());
        prop_assert!(state.regions.is_empty() && state.windows.is_empty() && state.intents.is_empty());
        prop_assert!(state.waiting.is_empty() && state.left_to_kernel.is_empty());
        prop_assert!(state.processes.is_empty());
    }
}
