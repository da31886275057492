// SPDX-License-Identifier: Apache-2.0
//! Daemons that show each other keys: what travels between them, and who gets nowhere.

mod stranger;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use daemon::keys::{Key, Known};
use daemon::remote::{Faults, Network, Peer};
use daemon::{Options, Running};
use host::{Config, Device, Flush, Rights, Token};
use stranger::{PATIENCE, Stranger, address, counts_more_than, refused};
use tempfile::TempDir;

const BYTES: usize = 1 << 16;
/// What nobody on the network must see.
const SECRET: &[u8; 32] = b"nobody on the network sees this.";

/// A machine with a key.
struct Machine {
    running: Running,
    address: Ipv4Addr,
    directory: TempDir,
}

fn files(directory: &Path) -> [PathBuf; 2] {
    ["key", "known_peers"].map(|name| directory.join(name))
}

impl Machine {
    fn start() -> Self {
        Self::start_with(&|_| {})
    }

    fn start_with(set: &dyn Fn(&mut Options)) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let [key, known] = files(directory.path());
        Key::make(&key).expect("a key");
        loop {
            let address = address();
            let mut options = Options {
                socket: directory.path().join("ipnuma/daemon.sock"),
                management: Some(SocketAddrV4::new(address, 3422)),
                ..Options::default()
            };
            options.remote.key = Some(key.clone());
            options.remote.known_peers = Some(known.clone());
            options.remote.sockets = vec!["127.0.0.0/8".parse().expect("a network")];
            options.remote.patience = 10;
            // Who goes through a relay meets a NIC that is elsewhere.
            let all: Network = "127.0.0.0/8".parse().expect("a network");
            options.remote.peer = vec![Peer {
                daemon: all,
                sources: Vec::new(),
                nics: vec![all],
            }];
            set(&mut options);
            if let Ok(running) = daemon::spawn(options) {
                return Self {
                    running,
                    address,
                    directory,
                };
            }
        }
    }

    fn trust(&self, other: &Self, network: &str) {
        let [_, known] = files(self.directory.path());
        let [key, _] = files(other.directory.path());
        let key = Key::load(&key).expect("it is right").expect("it is there");
        Known::trust(&known, network, key.fingerprint(), "").expect("it can be written");
    }

    fn device(&self) -> Device {
        let config = Config {
            daemon: self.running.socket().to_owned(),
            ..Config::default()
        };
        Device::open(&config).expect("the daemon runs")
    }
}

/// Two that trust each other, wherever they seem to be.
fn pair() -> (Machine, Machine) {
    pair_with(&|_| {})
}

fn pair_with(set: &dyn Fn(&mut Options)) -> (Machine, Machine) {
    let (here, there) = (Machine::start_with(set), Machine::start_with(set));
    here.trust(&there, "127.0.0.0/8");
    there.trust(&here, "127.0.0.0/8");
    (here, there)
}

/// A process here stores into a region of a process there, and reads it again.
fn exchange(here: &Machine, there: &Machine, through: Option<Ipv4Addr>) -> Token {
    let (server, client) = (there.device(), here.device());
    let region = server.alloc(BYTES).expect("memory");
    let mut token = region
        .export(0..BYTES, Rights::ReadWrite, None)
        .expect("a token");
    if let Some(through) = through {
        token.management = SocketAddrV4::new(through, 3422);
    }
    let window = client.connect(&token).expect("the other daemon lets us in");
    let epoch = window.epoch();
    window.put(128, SECRET).expect("it may be written");
    window
        .flush(Flush::Delivered, Some(PATIENCE))
        .expect("it arrives");
    window.check(epoch).expect("nothing is lost");
    let mut seen = [0; SECRET.len()];
    window
        .load(128, &mut seen, Some(PATIENCE))
        .expect("it may be read");
    assert_eq!(&seen, SECRET);
    token
}

/// What went through a relay, to the daemon and back.
type Recorded = Arc<Mutex<[Vec<u8>; 2]>>;

/// Stands between two daemons, at an address of its own, and takes one connection.
fn relay(to: Ipv4Addr) -> (Ipv4Addr, Recorded, JoinHandle<()>) {
    let (own, listener) = loop {
        let own = address();
        if let Ok(listener) = TcpListener::bind((own, 3422)) {
            break (own, listener);
        }
    };
    let recorded = Recorded::default();
    let record = Arc::clone(&recorded);
    let thread = std::thread::spawn(move || {
        let (client, _) = listener.accept().expect("a daemon connects");
        let server = Stranger::reach(to, own).expect("the other listens").stream;
        server.set_read_timeout(None).expect("a socket");
        let copy = |mut from: TcpStream, mut to: TcpStream, record: Recorded, which: usize| {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut bytes) {
                record.lock().expect("nobody panics")[which].extend_from_slice(&bytes[..count]);
                if to.write_all(&bytes[..count]).is_err() {
                    break;
                }
            }
            let _ = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
        };
        let clone = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
        let (from, back) = (clone(&server), clone(&client));
        let answers = Arc::clone(&record);
        let other = std::thread::spawn(move || copy(from, back, answers, 1));
        copy(client, server, record, 0);
        other.join().expect("it ends");
    });
    (own, recorded, thread)
}

/// Whether bytes are records of TLS and nothing else, but for a last one that is on its way; their types.
fn records(mut bytes: &[u8]) -> Vec<u8> {
    let mut types = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<5>() {
        let [kind, 3, 1 | 3, high, low] = *head else {
            panic!("{head:?} begins no record of TLS");
        };
        assert!((20..=23).contains(&kind), "a record of type {kind}");
        types.push(kind);
        let length = usize::from(high) << 8 | usize::from(low);
        bytes = rest.get(length..).unwrap_or(&[]);
    }
    types
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Takes IP packets of the loopback device from now on, if that is allowed.
fn tap() -> Result<rustix::fd::OwnedFd, rustix::io::Errno> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, eth, socket_with};
    socket_with(
        AddressFamily::PACKET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        Some(eth::ALL),
    )
}

/// Looks at the packets that have come: whether some are of these addresses' NICs.
#[track_caller]
fn no_store_in_clear(tap: &rustix::fd::OwnedFd, of: [Ipv4Addr; 2]) -> bool {
    let (mut seen, mut bytes) = (false, [0; 4096]);
    while let Ok((count, _)) = rustix::net::recv(tap, &mut bytes, rustix::net::RecvFlags::empty()) {
        let packet = &bytes[..count];
        seen |= packet.len() > 28
            && packet[9] == 17
            && of.iter().any(|it| packet[12..16] == it.octets());
        assert!(!has(packet, SECRET), "a store went in clear: {packet:?}");
    }
    seen
}

#[test]
fn only_tls_and_sealed_payloads_travel() {
    let (here, there) = pair();
    let tap = tap();
    let (through, recorded, thread) = relay(there.address);
    let token = exchange(&here, &there, Some(through));
    if let Ok(tap) = &tap {
        let begun = Instant::now();
        while !no_store_in_clear(tap, [here.address, there.address]) {
            assert!(begun.elapsed() < PATIENCE, "no frame was seen at all");
            // Other tests' packets may have taken all the room that there was.
            exchange(&here, &there, None);
        }
    }
    if let Err(error) = tap {
        skip::skipped("what the NICs send to each other", &error);
    }
    drop(here);
    drop(there);
    thread.join().expect("nothing went wrong");
    let recorded = recorded.lock().expect("nobody panics");
    for way in &*recorded {
        let types = records(way);
        assert!(types.len() > 3 && types.contains(&23), "{types:?}");
        assert!(!has(way, &token.secret), "the token's secret went in clear");
    }
}

/// Looks at the packets that have come of these addresses' NICs: how often the phase of their keys has changed.
#[derive(Default)]
struct Phases {
    last: std::collections::HashMap<[u8; 6], u8>,
    changes: usize,
}

impl Phases {
    fn look(&mut self, tap: &rustix::fd::OwnedFd, of: [Ipv4Addr; 2]) {
        let mut bytes = [0; 4096];
        while let Ok((count @ 30.., _)) =
            rustix::net::recv(tap, &mut bytes, rustix::net::RecvFlags::empty())
        {
            let from: [u8; 4] = bytes[12..16].try_into().expect("four bytes");
            let sealed = bytes[9] == 17 && bytes[28] == 0xA0;
            if count > 52 && sealed && of.iter().any(|it| it.octets() == from) {
                let sender = [from[0], from[1], from[2], from[3], bytes[20], bytes[21]];
                let before = self.last.insert(sender, bytes[29]);
                self.changes += usize::from(before.is_some_and(|it| it != bytes[29]));
            }
        }
    }
}

/// New keys every few frames, while one frame in a hundred is lost: every store arrives.
#[test]
fn keys_change_and_no_store_is_lost() {
    // So many stores of 64 bytes, and frames with a key.
    let (stores, frames) = match std::env::var_os("IPNUMA_LONG") {
        Some(_) => (1_000_000_usize, 1_000),
        None => (20_000, 200),
    };
    let (here, there) = pair_with(&|options| {
        options.remote.rekey_frames = frames;
        let loss = Faults {
            loss: 10,
            ..Faults::default()
        };
        options.remote.faults = Some((loss, 1));
    });
    let tap = tap();
    let (server, client) = (there.device(), here.device());
    let region = server.alloc(BYTES).expect("memory");
    let token = region.export(0..BYTES, Rights::ReadWrite, None);
    let window = client.connect(&token.expect("a token")).expect("it may");
    let epoch = window.epoch();
    let mut expected = vec![0; BYTES];
    let mut phases = Phases::default();
    for store in 0..stores {
        let at = store * 64 % BYTES;
        let line = [store as u64; 8].map(u64::to_ne_bytes).concat();
        window.put(at, &line).expect("it may be written");
        expected[at..at + 64].copy_from_slice(&line);
        if store % 512 == 511 {
            window
                .flush(Flush::Delivered, Some(PATIENCE))
                .expect("it arrives");
            if let Ok(tap) = &tap {
                phases.look(tap, [here.address, there.address]);
            }
        }
    }
    window
        .flush(Flush::Delivered, Some(PATIENCE))
        .expect("it arrives");
    window.check(epoch).expect("nothing is lost");
    let mut seen = vec![0; BYTES];
    region.read(0, &mut seen).expect("it is there");
    assert!(seen == expected, "a store is missing");
    match tap {
        // A tap that is full misses some.
        Ok(_) => {
            println!("phases changed {} times", phases.changes);
            assert!(phases.changes > 10, "phases changed {}", phases.changes);
        }
        Err(error) => skip::skipped("what the NICs send to each other", &error),
    }
}

#[test]
fn a_key_that_is_not_known_gets_nowhere() {
    let (here, there) = pair();
    exchange(&here, &there, None);
    let other = Machine::start();
    // It trusts, and is not trusted.
    other.trust(&there, "127.0.0.0/8");
    let (server, client) = (there.device(), other.device());
    let region = server.alloc(BYTES).expect("memory");
    let token = region.export(0..BYTES, Rights::ReadWrite, None);
    let token = token.expect("a token");
    let before = refused(&there.running);
    let error = client.connect(&token).expect_err("nobody knows its key");
    assert!(error.to_string().contains("ipnuma key"), "{error}");
    counts_more_than(&there.running, before);
    // It is trusted, and does not trust.
    let another = Machine::start();
    there.trust(&another, "127.0.0.0/8");
    let error = another
        .device()
        .connect(&token)
        .expect_err("it knows nobody's key");
    let sentence = error.to_string();
    assert!(sentence.contains("ipnuma key trust"), "{sentence}");
    // One that is known for another address only.
    let third = Machine::start();
    third.trust(&there, "127.0.0.0/8");
    there.trust(&third, "10.0.0.1");
    third.device().connect(&token).expect_err("it is elsewhere");
    exchange(&here, &there, None);
    // Known now: at once.
    there.trust(&other, &other.address.to_string());
    exchange(&other, &there, None);
}

#[test]
fn a_key_that_is_trusted_no_longer_ends_its_connections() {
    let (here, there) = pair();
    let other = Machine::start();
    other.trust(&there, "127.0.0.0/8");
    there.trust(&other, &other.address.to_string());
    let (server, client) = (there.device(), here.device());
    let region = server.alloc(BYTES).expect("memory");
    let token = region.export(0..BYTES, Rights::ReadWrite, None);
    let token = token.expect("a token");
    let window = client.connect(&token).expect("its key is trusted");
    let third = other.device();
    let kept = third.connect(&token).expect("its key is trusted");
    let epochs = (window.epoch(), kept.epoch());
    let [_, known] = files(there.directory.path());
    let text = std::fs::read_to_string(&known).expect("it is there");
    let (first, rest) = text.split_once('\n').expect("two lines");
    assert!(first.starts_with("127.0.0.0/8"), "{first}");
    std::fs::write(&known, rest).expect("it can be written");
    let begun = Instant::now();
    while window.check(epochs.0).is_ok() {
        assert!(begun.elapsed() < PATIENCE, "its stores still arrive");
        std::thread::sleep(Duration::from_millis(20));
    }
    client.connect(&token).expect_err("nobody trusts it");
    kept.put(0, SECRET).expect("it may be written");
    kept.flush(Flush::Delivered, Some(PATIENCE))
        .expect("it arrives");
    kept.check(epochs.1).expect("another's key was removed");
    std::fs::write(&known, text).expect("it can be written");
    exchange(&here, &there, None);
}

#[test]
fn what_is_no_handshake_harms_nobody() {
    let (here, there) = pair();
    let (through, recorded, thread) = relay(there.address);
    exchange(&here, &there, Some(through));
    let replayed = recorded.lock().expect("nobody panics")[0].clone();
    let before = refused(&there.running);
    let attack = |bytes: &[u8]| {
        let mut stranger = Stranger::reach(there.address, address()).expect("it listens");
        // It may be cut off in the middle.
        let _ = stranger.stream.write_all(bytes);
        let _ = stranger.stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        // What comes back is at most the beginning of a handshake, and an end.
        let _ = stranger.stream.read_to_end(&mut answer);
        answer
    };
    // Nothing that it has said then opens anything now.
    let answer = attack(&replayed);
    assert!(answer.len() < 1024, "{} bytes of an answer", answer.len());
    for cut in [0, 1, 5, 6, 50, 100, 200, 300, 400, replayed.len() - 1] {
        attack(&replayed[..cut.min(replayed.len())]);
    }
    for at in [0, 5, 9, 20, 60, 90, 150] {
        let mut bent = replayed.clone();
        bent[at] ^= 0x55;
        attack(&bent);
    }
    attack(&[0xFF; 70_000]);
    // One who has not heard of keys.
    let mut plain = Stranger::reach(there.address, address()).expect("it listens");
    let answer = plain.greet();
    assert!(!matches!(answer, Ok(Some(_))), "{answer:?}");
    counts_more_than(&there.running, before);
    // Many who say nothing.
    let silent: Vec<_> = (0..100)
        .map(|_| Stranger::reach(there.address, address()).expect("it listens"))
        .collect();
    let other = Machine::start();
    other.trust(&there, "127.0.0.0/8");
    there.trust(&other, "127.0.0.0/8");
    exchange(&other, &there, None);
    drop(silent);
    drop((here, there));
    thread.join().expect("nothing went wrong");
}

#[test]
fn without_a_key_there_is_no_daemon_for_other_machines() {
    let directory = tempfile::tempdir().expect("a directory");
    let [key, known] = files(directory.path());
    let mut options = Options {
        socket: directory.path().join("ipnuma/daemon.sock"),
        management: Some(SocketAddrV4::new(address(), 3422)),
        ..Options::default()
    };
    options.remote.key = Some(key.clone());
    options.remote.known_peers = Some(known.clone());
    let error = daemon::spawn(options.clone()).expect_err("it has no key");
    let error = error.to_string();
    assert!(
        error.contains("`ipnuma key`") && error.contains("--insecure"),
        "{error}"
    );
    Key::make(&key).expect("a key");
    std::fs::write(&known, "10.0.0.1\n").expect("it can be written");
    let error = daemon::spawn(options.clone()).expect_err("a peer without a key");
    assert!(error.to_string().contains("line 1"), "{error}");
    std::fs::remove_file(&known).expect("it is there");
    let running = daemon::spawn(options).expect("it has a key, and trusts nobody");
    running.stop().expect("it ends well");
}
