// SPDX-License-Identifier: Apache-2.0
//! Bad input by FPM: each kind is counted and has a sentence, and what was forwarded before still is.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream};
use std::time::{Duration, Instant};

use fib::synth::Random;
use fibd::audit::looked_up;
use fibd::fpm::{self, Fpm};
use fibd::message::{Event, Message};
use fibd::notice::Notices;
use fibd::{Config, Net, Source, State, Tables, Target, settle, sink};

const NEW_ROUTE: u16 = 24;
const NEW_NEXTHOP: u16 = 104;

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn message(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = (16 + body.len() as u32).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend([0, 4]);
    bytes.extend([0; 8]);
    bytes.extend(body);
    bytes
}

/// A route of Zebra's protocol in the main table, to 192.0.`third`.`fourth`/24.
fn route(third: u8, fourth: u8, by: &[u8]) -> Vec<u8> {
    route_to([192, 0, third, fourth], 0, 254, 11, by)
}

fn route_to(to: [u8; 4], tos: u8, table: u8, protocol: u8, by: &[u8]) -> Vec<u8> {
    let mut body = vec![2, 24, 0, tos, table, protocol, 0, 1, 0, 0, 0, 0];
    body.extend(attribute(1, &to));
    body.extend(by);
    message(NEW_ROUTE, &body)
}

fn gateway() -> Vec<u8> {
    [
        attribute(5, &[10, 0, 0, 7]),
        attribute(4, &1_u32.to_ne_bytes()),
    ]
    .concat()
}

fn by_object(id: u32) -> Vec<u8> {
    attribute(30, &id.to_ne_bytes())
}

fn group(id: u32, member: u32) -> Vec<u8> {
    let mut body = vec![0; 8];
    body.extend(by_object_id(id));
    let mut of = member.to_ne_bytes().to_vec();
    of.extend([0; 4]);
    body.extend(attribute(2, &of));
    message(NEW_NEXTHOP, &body)
}

fn by_object_id(id: u32) -> Vec<u8> {
    attribute(1, &id.to_ne_bytes())
}

/// fibd's end of FPM, with a daemon.
struct Bench {
    fpm: Fpm,
    state: State,
    tables: Tables,
    notices: Notices,
    daemon: TcpStream,
}

impl Bench {
    fn new() -> Self {
        let mut state = State::new(Config {
            ports: vec!["sw0".into()],
            fpm: true,
            ..Config::default()
        });
        let message = Message::Link {
            device: 1,
            name: "sw0".into(),
            up: true,
            carrier: true,
            running: true,
            mac: None,
            mtu: 1500,
        };
        let event = Event {
            flags: 0,
            sequence: 0,
            port: 0,
            message,
        };
        state.take(event, Source::Kernel);
        let tables = Tables::new(fib::Config::default(), |image| {
            Ok(Box::new(sink::Memory::like(image)))
        });
        let fpm = Fpm::listen("127.0.0.1:0".parse().unwrap(), Duration::ZERO).unwrap();
        let daemon = TcpStream::connect(fpm.listener.local_addr().unwrap()).unwrap();
        let mut bench = Self {
            fpm,
            state,
            tables: tables.unwrap(),
            notices: Notices::default(),
            daemon,
        };
        bench.say(&fpm::frame(&route(2, 0, &gateway())).unwrap());
        bench.until("the good route is there", Bench::forwards);
        bench
    }

    fn say(&mut self, bytes: &[u8]) {
        // One that was closed already may be written to in vain.
        let _ = self.daemon.write_all(bytes);
    }

    /// Takes in what comes until something holds.
    #[track_caller]
    fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !holds(self) {
            assert!(Instant::now() < end, "not within a minute: {what}");
            self.fpm.read(&mut self.state);
            settle(&mut self.state, &mut self.tables).unwrap();
        }
    }

    /// Takes in and answers until a route has come back; returns its flags.
    #[track_caller]
    fn answered(&mut self, message: &[u8]) -> u32 {
        self.say(&fpm::frame(message).unwrap());
        self.daemon.set_nonblocking(true).unwrap();
        let mut back = Vec::new();
        let end = Instant::now() + Duration::from_secs(60);
        while back.len() < 4 + message.len() {
            assert!(Instant::now() < end, "no answer within a minute");
            self.fpm.read(&mut self.state);
            settle(&mut self.state, &mut self.tables).unwrap();
            self.fpm.answer(&mut self.state, &self.tables);
            let mut room = [0; 4096];
            if let Ok(count) = self.daemon.read(&mut room) {
                back.extend_from_slice(&room[..count]);
            }
        }
        self.daemon.set_nonblocking(false).unwrap();
        // Behind FPM's header, netlink's, and eight bytes of the route's.
        u32::from_ne_bytes(back[28..32].try_into().unwrap())
    }

    fn count(&self, counter: &str) -> u64 {
        let all = self.state.counters.list();
        all.iter().find(|(name, _)| *name == counter).unwrap().1
    }

    /// The good route leads where it should.
    fn forwards(&self) -> bool {
        let image = self.tables.fib().image();
        let neighbour = Target::Neighbour {
            port: 0,
            address: IpAddr::from([10, 0, 0, 7]),
        };
        looked_up(&self.tables, image, IpAddr::from([192, 0, 2, 1])) == Some(neighbour)
    }

    /// Says something bad, and looks for its counter and its sentence.
    #[track_caller]
    fn bad(&mut self, messages: &[Vec<u8>], counter: &str, sentence: &str) {
        for message in messages {
            self.say(&fpm::frame(message).unwrap());
        }
        let counted = |bench: &Self| {
            let all = bench.state.counters.list();
            all.iter()
                .any(|(name, count)| *name == counter && *count == 1)
        };
        self.until(counter, counted);
        let said = self.notices.of(&self.state.counters);
        assert!(said.iter().any(|it| it.contains(sentence)), "{said:?}");
        assert!(self.forwards(), "after {counter}");
    }
}

#[test]
fn bad_routes_are_counted_said_and_harm_no_other() {
    let mut bench = Bench::new();
    bench.bad(&[route(3, 1, &gateway())], "host_bits", "bits behind");
    bench.bad(&[route(4, 0, &by_object(9))], "unresolvable", "not there");
    let net = Net::new(IpAddr::from([192, 0, 4, 0]), 24).unwrap();
    assert_eq!(bench.state.desired(net), Some(Target::Host));
    let circle = [group(7, 8), group(8, 7), route(5, 0, &by_object(7))];
    bench.bad(&circle, "loops", "groups themselves");
    let mut long = route(6, 0, &gateway());
    long[28] = 99;
    bench.bad(&[long], "malformed", "points behind");
}

#[test]
fn bytes_that_are_no_fpm_end_the_connection_and_routes_stay() {
    let mut bench = Bench::new();
    bench.say(b"GET / HTTP/1.1\r\n\r\n");
    bench.until("closed", |bench| bench.state.counters.fpm_malformed == 1);
    assert!(bench.forwards() && !bench.fpm.is_connected());
    let said = bench.notices.of(&bench.state.counters);
    assert!(said.iter().any(|it| it.contains("no FPM")), "{said:?}");
    assert!(!matches!(bench.daemon.read(&mut [0]), Ok(1..)));
    // It comes back, and tells another route.
    bench.daemon = TcpStream::connect(bench.fpm.listener.local_addr().unwrap()).unwrap();
    bench.say(&fpm::frame(&route(3, 0, &gateway())).unwrap());
    bench.until("the other route", |bench| bench.state.net_count() == 2);
    assert!(bench.forwards());
}

/// Whatever bytes a daemon sends, the routes of before are forwarded.
#[test]
fn altered_streams_harm_no_route() {
    let mut random = Random::new(11);
    let mut bench = Bench::new();
    let (mut sent, address) = (0, bench.fpm.listener.local_addr().unwrap());
    for _ in 0..300 {
        // A route to elsewhere; what is altered is behind its destination, or the header.
        let mut bytes = fpm::frame(&route(7, 0, &gateway())).unwrap();
        let length = bytes.len() as u64;
        let at = [random.below(8), 40 + random.below(length - 40)][random.below(2) as usize];
        bytes[at as usize] = random.bits() as u8;
        bench.say(&bytes);
        sent += 1;
        bench.fpm.read(&mut bench.state);
        settle(&mut bench.state, &mut bench.tables).unwrap();
        assert!(bench.forwards(), "after {sent}: {bytes:x?}");
        if !bench.fpm.is_connected() || random.below(8) == 0 {
            bench.daemon = TcpStream::connect(address).unwrap();
        }
    }
    let counters = &bench.state.counters;
    assert!(
        counters.fpm_malformed > 0 && counters.malformed > 0,
        "{counters:?}"
    );
}

/// FRR waits for what became of a route: one that is in no table must not pass for one in hardware.
#[test]
fn a_route_that_lands_in_no_table_is_answered_as_failed_and_counted_by_reason() {
    const OFFLOAD: u32 = 0x4000;
    const FAILED: u32 = 0x2000_0000;
    let mut bench = Bench::new();
    // What was told before is answered, too.
    assert_eq!(bench.answered(&route(2, 0, &gateway())), OFFLOAD);
    let elsewhere = [
        attribute(5, &[10, 0, 0, 7]),
        attribute(4, &9_u32.to_ne_bytes()),
    ]
    .concat();
    let of_type = |kind| {
        let mut message = route(13, 0, &gateway());
        message[23] = kind;
        message
    };
    let main = |to, tos, protocol| route_to(to, tos, 254, protocol, &gateway());
    for (message, counter) in [
        (
            route_to([192, 0, 9, 0], 0, 100, 11, &gateway()),
            "fpm_failed_table",
        ),
        (main([224, 1, 7, 0], 0, 11), "fpm_failed_multicast"),
        (main([192, 0, 9, 0], 0x10, 11), "fpm_failed_tos"),
        (main([192, 0, 9, 0], 0, 4), "fpm_failed_protocol"),
        (route(10, 0, &by_object(9)), "fpm_failed_object"),
        (route(11, 0, &elsewhere), "fpm_failed_device"),
        (route(12, 0, &[]), "fpm_failed_unusable"),
        (of_type(200), "fpm_failed_type"),
    ] {
        let offloaded = bench.count("fpm_offloaded");
        assert_eq!(bench.answered(&message), FAILED, "{counter}");
        assert_eq!(bench.count(counter), 1, "{counter}");
        assert_eq!(bench.count("fpm_offloaded"), offloaded, "{counter}");
    }
    for kind in [0, 12] {
        assert_eq!(bench.answered(&of_type(kind)), FAILED, "type {kind}");
    }
    // Throw is a type, which only the kernel follows.
    assert_eq!(bench.answered(&of_type(9)), OFFLOAD);
    // Whatever a daemon says of it itself.
    let mut claimed = route_to([192, 0, 9, 0], 0, 100, 11, &gateway());
    claimed[24..28].copy_from_slice(&OFFLOAD.to_ne_bytes());
    assert_eq!(bench.answered(&claimed), FAILED);
    // By the host port is in the tables as well; and what was missing may come.
    let mut object = vec![0; 8];
    object.extend(by_object_id(9));
    object.extend(attribute(5, &1_u32.to_ne_bytes()));
    object.extend(attribute(6, &[10, 0, 0, 7]));
    bench.say(&fpm::frame(&message(NEW_NEXTHOP, &object)).unwrap());
    assert_eq!(bench.answered(&route(10, 0, &by_object(9))), OFFLOAD);
    assert!(bench.forwards());
}

/// Who only connects, a port scanner say, takes nothing from the daemon that works.
#[test]
fn a_silent_connection_does_not_replace_a_daemon_that_works() {
    let mut bench = Bench::new();
    let address = bench.fpm.listener.local_addr().unwrap();
    let connect = || TcpStream::connect(address).unwrap();
    let silent: Vec<_> = (0..12).map(|_| connect()).collect();
    let mut half = connect();
    half.write_all(&[1, 1, 0]).unwrap();
    bench.until("all are let in", |bench| {
        bench.state.counters.fpm_connections == 14
    });
    assert!(
        bench.fpm.streams().count() < 10,
        "those who are silent give way"
    );
    bench.say(&fpm::frame(&route(3, 0, &gateway())).unwrap());
    bench.until("the first works", |bench| bench.state.net_count() == 2);
    // Nor does nonsense.
    connect().write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    bench.until("closed", |bench| bench.state.counters.fpm_malformed == 1);
    bench.say(&fpm::frame(&route(4, 0, &gateway())).unwrap());
    bench.until("it still works", |bench| bench.state.net_count() == 3);
    // One that says something is the one that was started again.
    let old = std::mem::replace(&mut bench.daemon, connect());
    bench.say(&fpm::frame(&route(5, 0, &gateway())).unwrap());
    bench.until("the other works", |bench| bench.state.net_count() == 4);
    old.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert_eq!(
        (&old).read(&mut [0]).unwrap_or(0),
        0,
        "the old one is closed"
    );
    // Where none works, one that says nothing yet will do.
    drop((silent, half));
    bench.daemon = connect();
    bench.until("it is taken", |bench| {
        bench.state.counters.fpm_connections == 17 && bench.fpm.is_connected()
    });
    assert!(bench.forwards());
}
