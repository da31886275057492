// SPDX-License-Identifier: Apache-2.0
//! What is left of memory when tokens are taken back: by its owner and by the administrator, while others store.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use daemon::{Options, Running};
use host::{Config, Device, Error, Flush, Region, Rights, Token, Window};
use ipc::client::Client;
use ipc::protocol::Request;
use rand::RngExt;
use tempfile::TempDir;

/// Longer than anything takes: only so that a test does not hang.
const LIMIT: Duration = Duration::from_secs(60);
const PATIENCE: Option<Duration> = Some(LIMIT);

struct Machine {
    running: Running,
    _directory: TempDir,
}

impl Machine {
    /// Without others, or at a loopback address that nobody uses.
    fn start(alone: bool) -> Self {
        loop {
            let directory = tempfile::tempdir().expect("a directory");
            let [a, b, c]: [u8; 3] = rand::rng().random();
            let address = Ipv4Addr::new(127, a.max(1), b, c.clamp(1, 254));
            let mut options = Options {
                socket: directory.path().join("ipnuma/daemon.sock"),
                management: (!alone).then_some(SocketAddrV4::new(address, 3422)),
                ..Options::default()
            };
            keyed::among(&mut options.remote, directory.path(), "127.0.0.0/8");
            if let Ok(running) = daemon::spawn(options) {
                return Self {
                    running,
                    _directory: directory,
                };
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

    /// As `ipnuma regions --revoke` does.
    fn revoke(&self, region: &Region) {
        let administrator = Client::connect(self.running.socket(), "ipnuma").expect("it runs");
        let region = region.id();
        administrator
            .done(&Request::RevokeRegion { region })
            .expect("there is this region");
    }
}

fn export(region: &Region) -> Token {
    region
        .export(0..region.len(), Rights::ReadWrite, None)
        .expect("a token")
}

/// Stores a word that is delivered for certain, or says that the window has ended.
fn deliver(window: &Window, offset: usize, value: u64) -> Result<(), Error> {
    let epoch = window.epoch();
    window.store64(offset, value)?;
    window.flush(Flush::Delivered, PATIENCE)?;
    window.check(epoch)
}

fn word(region: &Region, offset: usize) -> u64 {
    let mut bytes = [0; 8];
    region.read(offset, &mut bytes).expect("inside");
    u64::from_le_bytes(bytes)
}

fn an_administrator_takes_back(owner: &Machine, holder: &Machine) {
    let (server, client) = (owner.device(), holder.device());
    let region = server.alloc(4096).expect("memory");
    let window = client.connect(&export(&region)).expect("a window");
    deliver(&window, 0, 1).expect("it is valid");
    region.write(64, &[5; 8]).expect("inside");
    owner.revoke(&region);
    // What was there is there, and what is stored from now on with the old token is not.
    assert_eq!(word(&region, 0), 1);
    assert_eq!(word(&region, 64), u64::from_le_bytes([5; 8]));
    let _ = window.store64(0, 2);
    let _ = window.flush(Flush::Delivered, PATIENCE);
    assert_eq!(word(&region, 0), 1, "a revoked store reached the owner");
    let why = deliver(&window, 0, 3).expect_err("its token was taken back");
    assert!(matches!(why, Error::Revoked), "{why}");
    // A new token is as good as ever.
    let window = client.connect(&export(&region)).expect("a window");
    for value in 10..20 {
        deliver(&window, 8, value).expect("it is valid");
        assert_eq!(word(&region, 8), value, "a delivered store did not arrive");
    }
    // Who sleeps in the region is still woken.
    std::thread::scope(|scope| {
        let sleeper =
            scope.spawn(|| region.wait_until(PATIENCE, || (word(&region, 16) == 7).then_some(())));
        window.put_signal(24, &[7; 8], 16, 7).expect("inside");
        sleeper.join().expect("the sleeper").expect("a signal");
    });
}

#[test]
fn an_administrator_takes_memory_back_and_the_region_lives_on() {
    let machine = Machine::start(true);
    an_administrator_takes_back(&machine, &machine);
}

#[test]
fn an_administrator_takes_memory_back_from_another_machine() {
    let [owner, holder] = [Machine::start(false), Machine::start(false)];
    an_administrator_takes_back(&owner, &holder);
}

#[test]
fn an_owner_that_sleeps_leaves_memory_behind_that_the_administrator_has_taken_back() {
    let machine = Machine::start(true);
    let (server, client) = (machine.device(), machine.device());
    let region = server.alloc(4096).expect("memory");
    let window = client.connect(&export(&region)).expect("a window");
    let stale = Word(window.map().expect("it is of this machine").cast());
    let own = Word(region.as_ptr().cast());
    std::thread::scope(|scope| {
        // Nothing but the memory is looked at here.
        let sleeper =
            scope.spawn(|| region.wait_until(PATIENCE, || (own.read() == 9).then_some(())));
        machine.revoke(&region);
        // The region moves although nobody stores anything there or asks about it.
        let begun = Instant::now();
        for value in 10.. {
            stale.write(value);
            if own.read() != value {
                break;
            }
            assert!(begun.elapsed() < LIMIT, "the owner keeps the old memory");
            std::thread::yield_now();
        }
        stale.write(9);
        let window = client.connect(&export(&region)).expect("a window");
        deliver(&window, 8, 1).expect("it is valid");
        assert!(!sleeper.is_finished(), "a revoked store reached the owner");
        window.put_signal(8, &[1; 8], 0, 9).expect("inside");
        sleeper.join().expect("the sleeper").expect("a signal");
    });
}

/// A word of memory that others write.
#[derive(Clone, Copy)]
struct Word(*mut u64);

// SAFETY: it is only loaded and stored whole, as others do.
unsafe impl Send for Word {}
// SAFETY: as above.
unsafe impl Sync for Word {}

impl Word {
    fn read(&self) -> u64 {
        // SAFETY: mapped as long as its test runs, and aligned.
        unsafe { AtomicU64::from_ptr(self.0) }.load(Ordering::SeqCst)
    }

    fn write(&self, value: u64) {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(self.0) }.store(value, Ordering::SeqCst);
    }
}

struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn wait_for_more(delivered: &AtomicU64, than: u64) {
    let begun = Instant::now();
    while delivered.load(Ordering::SeqCst) <= than {
        assert!(begun.elapsed() < LIMIT, "nothing is delivered any more");
        std::thread::yield_now();
    }
}

/// One holder delivers numbers while the owner takes another one's token back again and again. None may get lost.
fn delivered_stores_survive(owner: &Machine, holder: &Machine, bytes: usize, rounds: u32) {
    let (server, client) = (owner.device(), holder.device());
    let region = server.alloc(bytes).expect("memory");
    let token = export(&region);
    let over = AtomicBool::new(false);
    let delivered = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut windows = 0;
            let mut value = 1;
            while !over.load(Ordering::Relaxed) {
                let window = client.connect(&token).expect("its token is valid");
                windows += 1;
                // The last word: what is moved in order is moved last there.
                while !over.load(Ordering::Relaxed) && deliver(&window, bytes - 8, value).is_ok() {
                    delivered.store(value, Ordering::SeqCst);
                    value += 1;
                }
            }
            windows
        });
        // Also if something is wrong: the writer must not go on for ever.
        let _over = Over(&over);
        wait_for_more(&delivered, 0);
        let mut own = 0_u64;
        for round in 0..rounds {
            let other = region.export(0..64, Rights::Write, None).expect("a token");
            // What the owner writes meanwhile is not lost either.
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for _ in 0..50 {
                        own += 1;
                        region.write(128, &own.to_le_bytes()).expect("inside");
                        assert_eq!(word(&region, 128), own, "round {round}");
                    }
                });
                region.revoke(&other).expect("it was valid");
            });
            let after = delivered.load(Ordering::SeqCst);
            let there = word(&region, bytes - 8);
            assert!(
                there >= after,
                "round {round}: {after} was delivered, and there is {there}"
            );
            // It goes on with the next window.
            wait_for_more(&delivered, after);
            let there = word(&region, bytes - 8);
            assert!(
                there > after,
                "round {round}: {after} was delivered, and there is {there}"
            );
        }
        over.store(true, Ordering::Relaxed);
        let windows = writer.join().expect("the writer");
        // A store that was delivered just before a revocation may count as one behind it, and its window ends with the next.
        assert!(
            windows > rounds / 2,
            "{windows} windows: revocations end them"
        );
    });
}

#[test]
fn what_was_delivered_survives_the_revocation_of_another_token() {
    let machine = Machine::start(true);
    delivered_stores_survive(&machine, &machine, 4 << 20, 40);
}

#[test]
fn what_another_machine_has_delivered_survives_the_revocation_of_another_token() {
    let [owner, holder] = [Machine::start(false), Machine::start(false)];
    delivered_stores_survive(&owner, &holder, 1 << 20, 20);
}

#[test]
fn a_revocation_between_an_answer_and_its_window_is_not_lost() {
    let machine = Machine::start(true);
    let (server, client) = (machine.device(), machine.device());
    let region = server.alloc(4096).expect("memory");
    // This one is asked all the time for its faults, so it takes notices for all others.
    let listener = client.connect(&export(&region)).expect("a window");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let _ = listener.check(listener.epoch());
            }
        });
        for _ in 0..300 {
            let token = export(&region);
            let (give, take) = std::sync::mpsc::channel();
            let client = &client;
            scope.spawn(move || {
                let _ = give.send(client.connect(&token));
            });
            region.revoke(&token).expect("it was valid");
            if let Ok(window) = take.recv().expect("an answer") {
                let why = window.check(window.epoch());
                assert!(matches!(why, Err(Error::Revoked)), "{why:?}");
            }
        }
        over.store(true, Ordering::Relaxed);
    });
}
