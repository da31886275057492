// SPDX-License-Identifier: Apache-2.0
//! Two daemons, each the one of a machine: windows of processes here on regions there, through a network that loses
//! frames. Once over loopback addresses, and once in two network namespaces that a virtual cable joins.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use daemon::remote::{self, Transport};
use daemon::{Options, Running};
use host::{Config, Device, Error, Flush, Rights, Token, Window, ring};
use ipc::client::Client;
use ipc::protocol::{Reply, Request};
use keyed::Tap;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustix::thread::{UnshareFlags, gettid, unshare_unsafe};
use softnic::Faults;
use tempfile::TempDir;

/// Longer than anything takes: only so that a test does not hang.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));
const BYTES: usize = 64 * 1024;
/// Where the exported range begins.
const FIRST: usize = 4096 + 64;

/// Of the machines with a cable, and their addresses.
const NETWORK: &str = "10.8.0.0/24";
const ENDS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 8, 0, 1), Ipv4Addr::new(10, 8, 0, 2)];

const LOSSY: Faults = Faults {
    loss: 10,
    duplicate: 5,
    reorder: 5,
    corrupt: 5,
};

fn seed() -> u64 {
    let given = std::env::var("IPNUMA_SEED").ok();
    let seed = given.and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| rand::rng().random());
    println!("IPNUMA_SEED={seed}");
    seed
}

struct Machine {
    running: Running,
    address: Ipv4Addr,
    _directory: TempDir,
}

impl Machine {
    /// A daemon in the network namespace of this thread.
    fn start(
        address: Ipv4Addr,
        nic: Transport,
        faults: Option<(Faults, u64)>,
    ) -> Result<Self, daemon::Error> {
        let directory = tempfile::tempdir().expect("a directory");
        let mut options = Options {
            socket: directory.path().join("ipnuma/daemon.sock"),
            management: Some(SocketAddrV4::new(address, 3422)),
            remote: remote::Options {
                nic,
                faults,
                ..remote::Options::default()
            },
            ..Options::default()
        };
        let network = if address.is_loopback() {
            "127.0.0.0/8"
        } else {
            NETWORK
        };
        keyed::among(&mut options.remote, directory.path(), network);
        Ok(Self {
            running: daemon::spawn(options)?,
            address,
            _directory: directory,
        })
    }

    /// One at a loopback address that nobody uses.
    fn local(seed: u64) -> Self {
        loop {
            let [a, b, c]: [u8; 3] = rand::rng().random();
            let address = Ipv4Addr::new(127, a, b, c.clamp(1, 254));
            if let Ok(machine) = Self::start(address, Transport::Udp, Some((LOSSY, seed))) {
                return machine;
            }
        }
    }

    fn device(&self) -> Device {
        let config = Config {
            daemon: self.running.socket().to_owned(),
            ..Config::default()
        };
        Device::open(&config).expect("the daemon runs")
    }
}

/// Plain assignments of every width, among calls, and what is read back by plain loads.
fn assign(window: &Window, region: &host::Region, shadow: &mut [u8], rng: &mut ChaCha8Rng) {
    let base = window.map().expect("addresses");
    for _ in 0..2000 {
        let width = 1 << rng.random_range(0..4);
        let at = rng.random_range(0..(BYTES - FIRST) / 8) * 8;
        let bytes: [u8; 8] = rng.random();
        // SAFETY: in the window, aligned.
        unsafe {
            let place = base.add(at);
            match width {
                1 => place.write_volatile(bytes[0]),
                2 => place
                    .cast::<u16>()
                    .write_volatile(u16::from_le_bytes([bytes[0], bytes[1]])),
                4 => {
                    let [a, b, c, d, ..] = bytes;
                    place
                        .cast::<u32>()
                        .write_volatile(u32::from_le_bytes([a, b, c, d]));
                }
                _ => place
                    .cast::<u64>()
                    .write_volatile(u64::from_le_bytes(bytes)),
            }
        }
        shadow[FIRST + at..FIRST + at + width].copy_from_slice(&bytes[..width]);
        if rng.random_range(0..10) == 0 {
            // A call behind a plain store to the same place.
            window.put(at, &bytes).expect("inside");
            shadow[FIRST + at..FIRST + at + 8].copy_from_slice(&bytes);
        }
        if rng.random_range(0..50) == 0 {
            // SAFETY: as above.
            let loaded = unsafe { base.add(at).cast::<u64>().read_volatile() };
            assert_eq!(loaded.to_le_bytes(), shadow[FIRST + at..FIRST + at + 8]);
        }
    }
    window.flush(Flush::Delivered, PATIENCE).expect("delivered");
    let mut bytes = vec![0; BYTES];
    region.read(0, &mut bytes).expect("inside");
    assert!(bytes == shadow, "memory is not as it was assigned");
}

/// Stores, loads and a ring between a process there, which has the memory, and one here.
fn talk(there: &Machine, here: &Machine, rng: &mut ChaCha8Rng) {
    let (server, client) = (there.device(), here.device());
    let region = server.alloc(BYTES).expect("memory");
    let token = region
        .export(FIRST..BYTES, Rights::ReadWrite, Some(here.address))
        .expect("a token");
    assert_eq!(token.management.ip(), &there.address);
    let window = client.connect(&token).expect("the other machine's daemon");
    assert_eq!(window.len(), BYTES - FIRST);
    let epoch = window.epoch();

    let mut shadow = vec![0; BYTES];
    for _ in 0..5000 {
        let length = match rng.random_range(0..10) {
            0 => rng.random_range(1..=10_000),
            1..5 => rng.random_range(1..=300),
            _ => 64,
        };
        let at = rng.random_range(0..BYTES - FIRST - length);
        let bytes: Vec<u8> = (0..length).map(|_| rng.random()).collect();
        window.put(at, &bytes).expect("inside");
        shadow[FIRST + at..FIRST + at + length].copy_from_slice(&bytes);
    }
    window.flush(Flush::Delivered, PATIENCE).expect("delivered");
    window.check(epoch).expect("nothing was lost");
    let mut bytes = vec![0; BYTES];
    region.read(0, &mut bytes).expect("inside");
    assert!(bytes == shadow, "memory is not as it was stored");
    for _ in 0..20 {
        let length = rng.random_range(1..=9000);
        let at = rng.random_range(0..BYTES - FIRST - length);
        let mut bytes = vec![0; length];
        window.load(at, &mut bytes, PATIENCE).expect("an answer");
        assert!(bytes == shadow[FIRST + at..FIRST + at + length]);
    }
    assert!(window.put(BYTES - FIRST, &[0]).is_err(), "outside");
    assign(&window, &region, &mut shadow, rng);

    // Who sleeps is woken.
    let word = BYTES - FIRST - 8;
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let word = region.word(BYTES - 8);
            region.wait_until(PATIENCE, || {
                (word.load(std::sync::atomic::Ordering::Acquire) == 0x1234_5678_9ABC_DEF0)
                    .then_some(())
            })
        });
        window
            .put_signal(0, &[7; 100], word, 0x1234_5678_9ABC_DEF0)
            .expect("inside");
        sleeper.join().expect("the sleeper").expect("a signal");
    });

    let (mut receiver, token) = ring::create(&server, 256).expect("a ring");
    let mut sender = ring::connect(&client, &token).expect("its other end");
    let messages: Vec<Vec<u8>> = (0..1000)
        .map(|_| {
            let most = if rng.random() { 56 } else { 1500 };
            let length = rng.random_range(0..=most);
            (0..length).map(|_| rng.random()).collect()
        })
        .collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for message in &messages {
                sender
                    .send(3, &[message], PATIENCE)
                    .expect("there is room in time");
            }
        });
        let mut into = vec![0; 4096];
        for (number, message) in messages.iter().enumerate() {
            let (kind, length) = receiver.receive(&mut into, PATIENCE).expect("a message");
            assert_eq!(
                (kind, &into[..length]),
                (3, &message[..]),
                "message {number}"
            );
        }
    });
}

/// All that the machines have sent to each other was sealed.
#[track_caller]
fn all_sealed(tap: std::io::Result<Tap>) {
    match tap.map(Tap::end) {
        Ok(seen) => {
            println!("{seen:?}");
            seen.without_bent()
                .verify()
                .expect("with keys all is sealed");
        }
        Err(error) => skip::skipped("what the NICs send to each other", &error),
    }
}

/// Until the window says that what it stores is lost.
fn fails(window: &Window) -> Error {
    let epoch = window.epoch();
    let began = Instant::now();
    loop {
        window.put(0, &[9; 64]).expect("inside");
        if let Err(error) = window.check(epoch) {
            return error;
        }
        assert!(
            began.elapsed() < PATIENCE.expect("a limit"),
            "nobody says so"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn processes_of_two_machines_share_memory() {
    let seed = seed();
    let (one, two) = (Machine::local(seed), Machine::local(seed ^ 1));
    let tap = Tap::start(&[one.address, two.address]);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    talk(&one, &two, &mut rng);
    talk(&two, &one, &mut rng);
    all_sealed(tap);
}

#[test]
fn only_who_has_the_token_may() {
    let (one, two) = (Machine::local(0), Machine::local(1));
    let (server, client) = (one.device(), two.device());
    let region = server.alloc(BYTES).expect("memory");
    let token = region
        .export(0..BYTES, Rights::Read, None)
        .expect("a token");
    let refused = |token: &Token, errno: rustix::io::Errno| match client.connect(token) {
        Ok(_) => panic!("{token:?} was let in"),
        Err(error) => assert_eq!(error.errno(), errno.raw_os_error(), "{error}"),
    };
    let mut forged = token;
    forged.secret[3] ^= 1;
    refused(&forged, rustix::io::Errno::ACCESS);
    let more = Token {
        rights: Rights::ReadWrite,
        ..token
    };
    refused(&more, rustix::io::Errno::ACCESS);
    let other = region
        .export(0..64, Rights::Write, Some(Ipv4Addr::new(10, 1, 2, 3)))
        .expect("a token");
    refused(&other, rustix::io::Errno::ACCESS);
    // Nobody is there.
    let nowhere = Token {
        management: SocketAddrV4::new(Ipv4Addr::new(127, 255, 255, 1), 1),
        ..token
    };
    refused(&nowhere, rustix::io::Errno::HOSTUNREACH);

    let window = client.connect(&token).expect("it is the right one");
    assert!(window.put(0, &[1]).is_err(), "it may only be read");
    region.write(5, b"hello").expect("inside");
    let mut bytes = [0; 5];
    window.load(5, &mut bytes, PATIENCE).expect("an answer");
    assert_eq!(&bytes, b"hello");
}

/// The first session asks for a port that another program has, whatever the epoch: the next one comes about.
#[test]
fn a_session_whose_port_is_in_use_is_tried_anew() {
    let (one, two) = (Machine::local(0), Machine::local(1));
    let taken = (0..1 << 6).map(|epoch| wire::SessionPort { epoch, index: 1 });
    let taken: Vec<UdpSocket> = taken
        .map(|port| UdpSocket::bind((one.address, port.to_port())).expect("a free port"))
        .collect();
    let region = one.device().alloc(BYTES).expect("memory");
    let token = region
        .export(0..BYTES, Rights::ReadWrite, None)
        .expect("a token");
    let window = two.device().connect(&token).expect("another session");
    window.put(64, &[5; 8]).expect("inside");
    window.flush(Flush::Delivered, PATIENCE).expect("delivered");
    assert_eq!(
        region.word(64).load(Ordering::Acquire),
        0x0505_0505_0505_0505
    );
    drop(taken);
}

/// A connection within a machine that has others around it is none to another machine.
#[test]
fn who_adopts_a_local_connection_gets_its_memory_alone() {
    let machine = Machine::local(0);
    let join = || Client::connect(machine.running.socket(), "test").expect("it is welcome");
    let (client, server, heir) = (join(), join(), join());
    let (from, to) = ("127.0.0.1:4000", "127.0.0.1:80");
    let (from, to) = (from.parse().expect("one"), to.parse().expect("one"));
    let listen = Request::Listen { address: to };
    server.done(&listen).expect("nobody else listens");
    let intend = Request::Intend { to, asked: true };
    let Ok((Reply::Intent { intent }, _)) = client.request(&intend) else {
        panic!("no intent");
    };
    let announce = Request::Announce { intent, from, to };
    let (reply, memory) = client.request(&announce).expect("an answer");
    assert!(matches!(reply, Reply::Channel { .. }), "{reply:?}");
    let resolve = Request::Resolve { from, to };
    server.request(&resolve).expect("an answer");
    let adopt = Request::Adopt {
        own: from,
        peer: to,
    };
    let (reply, handles) = heir.request(&adopt).expect("an answer");
    assert!(matches!(reply, Reply::Adopted { .. }), "{reply:?}");
    assert_eq!((memory.len(), handles.len()), (1, 1));
}

#[test]
fn what_is_taken_back_is_not_written_any_more() {
    let (one, two) = (Machine::local(0), Machine::local(1));
    let (server, client) = (one.device(), two.device());
    let region = server.alloc(BYTES).expect("memory");
    let tokens = [0, 1].map(|_| {
        region
            .export(0..4096, Rights::ReadWrite, None)
            .expect("a token")
    });
    let window = client.connect(&tokens[0]).expect("a window");
    window.put(0, &[1; 64]).expect("inside");
    window.flush(Flush::Delivered, PATIENCE).expect("delivered");
    region.revoke(&tokens[0]).expect("it was valid");
    region.write(0, &[2; 64]).expect("inside");
    let why = fails(&window);
    assert!(matches!(why, Error::Revoked), "{why}");
    let mut bytes = [0; 64];
    region.read(0, &mut bytes).expect("inside");
    assert_eq!(bytes, [2; 64]);
    assert!(client.connect(&tokens[0]).is_err(), "it was revoked");
    let again = client
        .connect(&tokens[1])
        .expect("the other token is valid");
    again.put(0, &[3; 64]).expect("inside");
    again.flush(Flush::Delivered, PATIENCE).expect("delivered");
    region.read(0, &mut bytes).expect("inside");
    assert_eq!(bytes, [3; 64]);
}

#[test]
fn windows_that_are_closed_make_room_for_others() {
    // More than a third of what a NIC can map.
    const LARGE: usize = 384 << 20;
    let (one, two) = (Machine::local(0), Machine::local(1));
    let (server, client) = (one.device(), two.device());
    let region = server.alloc(LARGE).expect("memory");
    let token = region.export(0..LARGE, Rights::ReadWrite, None);
    let token = token.expect("a token");
    let end = LARGE - 64;
    for round in 0..6 {
        let window = client.connect(&token).expect("a window");
        window.put(end, &[round; 64]).expect("inside");
        window.flush(Flush::Delivered, PATIENCE).expect("delivered");
        let mut bytes = [0; 64];
        region.read(end, &mut bytes).expect("inside");
        assert_eq!(bytes, [round; 64]);
    }
}

#[test]
fn what_was_stored_arrives_although_the_window_is_closed() {
    let seed = seed();
    let (one, two) = (Machine::local(seed), Machine::local(seed ^ 1));
    let (server, client) = (one.device(), two.device());
    for round in 0..20 {
        let (mut receiver, token) = ring::create(&server, 256).expect("a ring");
        let mut sender = ring::connect(&client, &token).expect("its other end");
        let messages = 100 + 5 * round;
        let message = |n: u8| vec![n; 5 * usize::from(n)];
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for n in 0..messages {
                    let sent = sender.send(n, &[&message(n)], PATIENCE);
                    sent.expect("there is room in time");
                }
            });
            for n in 0..messages {
                let mut into = [0; 2048];
                let (kind, length) = receiver
                    .receive(&mut into, PATIENCE)
                    .unwrap_or_else(|why| panic!("round {round}, message {n}: {why}"));
                assert_eq!((kind, &into[..length]), (n, &message(n)[..]));
            }
        });
    }
}

#[test]
fn a_load_that_nobody_waited_for_is_no_other_loads_answer() {
    let seed = seed();
    let (one, two) = (Machine::local(seed), Machine::local(seed ^ 1));
    let (server, client) = (one.device(), two.device());
    let region = server.alloc(BYTES).expect("memory");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let bytes: Vec<u8> = (0..BYTES).map(|_| rng.random()).collect();
    region.write(0, &bytes).expect("inside");
    let token = region.export(0..BYTES, Rights::Read, None);
    let window = client.connect(&token.expect("a token")).expect("a window");
    // More threads than there are pages for answers, which nobody waits for now and then.
    let (threads, pairs) = (12, 500);
    let given_up = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (window, bytes, given_up) = (&window, &bytes, &given_up);
            let mut rng = ChaCha8Rng::seed_from_u64(rng.random());
            scope.spawn(move || {
                for pair in 0..pairs {
                    let short = Duration::from_micros(rng.random_range(0..300));
                    for patience in [Some(short), PATIENCE] {
                        let length = rng.random_range(1..=9000);
                        let at = rng.random_range(0..BYTES - length);
                        let mut into = vec![0; length];
                        match window.load(at, &mut into, patience) {
                            Ok(()) => assert!(
                                into == bytes[at..at + length],
                                "pair {pair}: another load's bytes"
                            ),
                            Err(Error::TimedOut { .. }) if patience != PATIENCE => {
                                given_up.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                            }
                            Err(error) => panic!("pair {pair}: {error}"),
                        }
                    }
                }
            });
        }
    });
    let given_up = given_up.into_inner();
    println!(
        "{given_up} of {} first loads were given up",
        threads * pairs
    );
    assert!(given_up > 0, "the first loads were never too late");
}

/// What a flush says needs no mark from before the stores: a program may know no other call.
#[test]
fn what_was_stored_to_a_machine_that_is_gone_was_not_flushed() {
    let (one, two) = (Machine::local(0), Machine::local(1));
    let (server, client) = (one.device(), two.device());
    let region = server.alloc(BYTES).expect("memory");
    let token = region
        .export(0..4096, Rights::Write, None)
        .expect("a token");
    let window = client.connect(&token).expect("a window");
    window.put(0, &[1; 64]).expect("inside");
    window.flush(Flush::Delivered, PATIENCE).expect("delivered");
    one.running.stop().expect("it ends");
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        // Nobody is there to acknowledge it.
        window.put(0, &[2; 64]).expect("inside");
        let flushed = window.flush(Flush::Delivered, PATIENCE);
        assert!(matches!(flushed, Err(Error::PeerLost)), "{flushed:?}");
        if window.check(window.epoch()).is_err() {
            break;
        }
        assert!(Instant::now() < end, "nobody has noticed");
    }
    for _ in 0..3 {
        let flushed = window.flush(Flush::Delivered, PATIENCE);
        assert!(matches!(flushed, Err(Error::PeerLost)), "{flushed:?}");
    }
}

#[test]
fn a_machine_that_is_gone_is_noticed() {
    let (one, two) = (Machine::local(0), Machine::local(1));
    let (server, client) = (one.device(), two.device());
    let region = server.alloc(BYTES).expect("memory");
    let token = region
        .export(0..4096, Rights::Write, None)
        .expect("a token");
    let window = client.connect(&token).expect("a window");
    window.put(0, &[1; 64]).expect("inside");
    window.flush(Flush::Delivered, PATIENCE).expect("delivered");
    one.running.stop().expect("it ends");
    let why = fails(&window);
    assert!(matches!(why, Error::PeerLost), "{why}");
    drop(window);
    assert!(client.connect(&token).is_err());
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status();
    assert!(
        status.expect("`ip` of iproute2").success(),
        "ip {arguments}"
    );
}

/// A machine in a network namespace of its own, which lives until the sender is dropped. `plug` is called there before
/// the daemon starts.
fn elsewhere(
    address: Ipv4Addr,
    nic: Transport,
    seed: u64,
    plug: impl FnOnce(i32) + Send + 'static,
) -> Option<(Machine, std::io::Result<Tap>, mpsc::Sender<()>)> {
    let (give, take) = mpsc::channel();
    let (stay, leave) = mpsc::channel::<()>();
    // Under the test's name: what is skipped is said of the test.
    let name = std::thread::current().name().unwrap_or("?").to_owned();
    let thread = std::thread::Builder::new().name(name).spawn(move || {
        // SAFETY: of this thread, and those it starts, only the network namespace changes.
        if let Err(error) = unsafe { unshare_unsafe(UnshareFlags::NEWNET) } {
            skip::skip!("no right to make a network namespace: {error}");
            return;
        }
        plug(gettid().as_raw_nonzero().get());
        ip("link set lo up");
        ip(&format!("addr add {address}/24 dev cable"));
        ip("link set cable up");
        let tap = Tap::start(&ENDS);
        let machine = Machine::start(address, nic, Some((LOSSY, seed)));
        let _ = give.send(machine.map(|machine| (machine, tap)));
        let _ = leave.recv();
    });
    thread.expect("a thread");
    match take.recv() {
        Ok(Ok((machine, tap))) => Some((machine, tap, stay)),
        Ok(Err(error)) => panic!("{error}"),
        Err(_) => None,
    }
}

fn across_a_cable(nics: [Transport; 2]) {
    let seed = seed();
    let [first, second] = nics;
    let (give, take) = mpsc::channel();
    let (plugged, wait) = mpsc::channel();
    // The first thread makes the cable once it knows the second one's namespace.
    let name = std::thread::current().name().unwrap_or("?").to_owned();
    let other = std::thread::Builder::new().name(name).spawn(move || {
        elsewhere(ENDS[1], second, seed ^ 1, move |thread| {
            let _ = give.send(thread);
            let _ = wait.recv();
        })
    });
    let one = elsewhere(ENDS[0], first, seed, move |_| {
        let Ok(thread) = take.recv() else { return };
        ip(&format!(
            "link add cable type veth peer name cable netns {thread}"
        ));
        let _ = plugged.send(());
    });
    // What AF_XDP sends and takes nobody else of its namespace sees: the second machine has UDP sockets.
    let (Some((one, _, _stay)), Some((two, tap, _stays))) = (
        one,
        other.expect("a thread").join().expect("the other thread"),
    ) else {
        return;
    };
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    talk(&one, &two, &mut rng);
    talk(&two, &one, &mut rng);
    all_sealed(tap);
}

#[test]
fn machines_speak_over_a_cable_by_udp_sockets() {
    across_a_cable([Transport::Udp, Transport::Udp]);
}

#[test]
fn machines_speak_over_a_cable_by_af_xdp_and_udp() {
    across_a_cable([Transport::Xdp("cable".to_owned(), 0), Transport::Udp]);
}

#[test]
fn who_does_not_answer_is_given_up() {
    let here = Machine::local(0);
    let silent =
        std::net::TcpListener::bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let std::net::SocketAddr::V4(management) = silent.local_addr().expect("an address") else {
        panic!("it was bound to an IPv4 address");
    };
    let token = Token {
        rights: Rights::Write,
        management,
        region: 1,
        first: 0,
        bytes: 64,
        secret: [0; 16],
    };
    match here.device().connect(&token) {
        Ok(_) => panic!("nobody can have let it in"),
        Err(error) => {
            let errno = rustix::io::Errno::HOSTUNREACH.raw_os_error();
            assert_eq!(error.errno(), errno, "{error}");
        }
    }
    // And one that says what makes no sense is not listened to.
    use std::io::{Read, Write};
    let address = SocketAddrV4::new(here.address, 3422);
    let mut stranger = std::net::TcpStream::connect(address).expect("it listens");
    stranger.write_all(&[255; 100]).expect("it listens");
    let mut answer = Vec::new();
    let _ = stranger.read_to_end(&mut answer);
    // A fatal alert of TLS, if anything.
    assert!(
        matches!(answer[..], [] | [21, 3, _, 0, 2, 2, _]),
        "{answer:?}"
    );
}
