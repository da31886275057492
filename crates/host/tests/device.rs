// SPDX-License-Identifier: Apache-2.0
//! Devices over a real daemon, in one process: rights, refusals, revocation, rings.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use host::backend::Flush;
use host::{Config, Device, Error, Rights, Token};
use rustix::mm::MprotectFlags;
use shm::memory::PAGE;

/// So that nothing hangs for ever; no test waits that long.
const LONG: Option<Duration> = Some(Duration::from_secs(60));

struct Place {
    daemon: Option<daemon::Running>,
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("there is a directory for temporary files");
        let socket = directory.path().join("daemon.sock");
        let options = daemon::Options {
            socket,
            ..Default::default()
        };
        let daemon = daemon::spawn(options).expect("the daemon starts");
        Self {
            daemon: Some(daemon),
            directory,
        }
    }

    fn socket(&self) -> std::path::PathBuf {
        self.directory.path().join("daemon.sock")
    }

    fn device(&self) -> Device {
        self.device_that_spins(Duration::from_micros(20))
    }

    fn device_that_spins(&self, spin: Duration) -> Device {
        Device::open(&Config {
            daemon: self.socket(),
            spin,
            ..Config::default()
        })
        .expect("the daemon lets us in")
    }
}

/// Waits for what plain stores do: they wake nobody.
fn until(mut seen: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while !seen() {
        assert!(std::time::Instant::now() < deadline, "it never happens");
        std::thread::yield_now();
    }
}

/// Lines of /proc/self/maps that are regions.
fn mapped() -> Vec<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("/proc is there");
    maps.lines()
        .filter(|line| line.contains("/memfd:ipnuma-region"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn stores_arrive() {
    let place = Place::new();
    let (server, client) = (place.device(), place.device());
    let region = server.alloc(3 * PAGE + 5).expect("there is memory");
    assert_eq!(region.len(), 4 * PAGE);
    let token = region
        .export(64..3 * PAGE, Rights::ReadWrite, None)
        .expect("inside");
    let window = client.connect(&token).expect("the token is valid");
    assert_eq!(window.len(), 3 * PAGE - 64);
    let epoch = window.epoch();

    window.put(1, b"somewhere").expect("inside");
    window.store32(100, 0xDEAD_BEEF).expect("inside");
    window.store64(104, u64::MAX - 1).expect("inside");
    window.put_line(128, 7, b"a line").expect("inside");
    window
        .put_signal(256, &[9; 1000], 2048, 77)
        .expect("inside");
    window
        .flush(Flush::Delivered, LONG)
        .expect("it is this machine's memory");
    window.check(epoch).expect("nothing went wrong");

    let mut bytes = [0; 9];
    region.read(65, &mut bytes).expect("inside");
    assert_eq!(&bytes, b"somewhere");
    assert_eq!(region.word(64 + 104).load(Ordering::Acquire), u64::MAX - 1);
    assert_eq!(region.word(64 + 2048).load(Ordering::Acquire), 77);
    let mut line = [0; 56];
    assert_eq!(region.poll_line(192, 6, &mut line), None);
    assert_eq!(region.poll_line(192, 7, &mut line), Some(6));
    assert_eq!(&line[..6], b"a line");

    region.write(64 + 4000, b"back").expect("inside");
    let mut back = [0; 4];
    window
        .load(4000, &mut back, LONG)
        .expect("the token allows it");
    assert_eq!(&back, b"back");
    // SAFETY: the window is mapped and this byte is inside.
    assert_eq!(
        unsafe {
            window
                .map()
                .expect("it is this machine's memory")
                .add(4000)
                .read_volatile()
        },
        b'b'
    );
}

#[test]
fn ranges_and_alignment_are_checked() {
    let place = Place::new();
    let device = place.device();
    assert_eq!(device.alloc(0).expect_err("no bytes").errno(), 22);
    let region = device.alloc(PAGE).expect("there is memory");
    for range in [0..PAGE + 1, PAGE..PAGE, PAGE + 1..PAGE + 2, 5..5] {
        assert_eq!(
            region
                .export(range.clone(), Rights::Read, None)
                .expect_err("outside")
                .errno(),
            22,
            "{range:?}"
        );
    }
    let token = region
        .export(4..PAGE - 4, Rights::ReadWrite, None)
        .expect("inside");
    let window = device.connect(&token).expect("the token is valid");
    let wrong = |result: host::Result<()>| result.expect_err("not allowed").errno();
    assert_eq!(wrong(window.put(PAGE - 8, &[0])), 22);
    assert_eq!(wrong(window.put(usize::MAX, &[0; 2])), 22);
    assert_eq!(wrong(window.store64(0, 1)), 22);
    window.store64(4, 1).expect("aligned in the region");
    assert_eq!(region.word(8).load(Ordering::Relaxed), 1);
    window.store32(0, 1).expect("aligned in the region");
    assert_eq!(wrong(window.store32(1, 1)), 22);
    assert_eq!(wrong(window.put64(0, &[0; 64])), 22);
    window.put64(60, &[3; 64]).expect("aligned in the region");
    assert_eq!(wrong(window.put64(PAGE - 68, &[3; 64])), 22);
    assert_eq!(wrong(window.put_line(60, 0, &[0; 57])), 90);
    assert_eq!(wrong(window.put_signal(0, &[1], PAGE - 8, 0)), 22);
    assert_eq!(wrong(window.load(PAGE - 9, &mut [0; 2], LONG)), 22);
}

/// Whoever peeks asks nobody: what has come is shown although the daemon is gone, which a release wants to ask.
#[test]
fn a_peek_does_not_ask_the_daemon() {
    let mut place = Place::new();
    let (server, client) = (place.device(), place.device());
    let (mut receiver, token) = host::ring::create(&server, 8).expect("there is memory");
    let mut sender = host::ring::connect(&client, &token).expect("the token is valid");
    for number in 0..3 {
        sender
            .try_send(number, &[b"message"])
            .expect("there is room");
    }
    drop(place.daemon.take());
    let message = receiver.peek().expect("no question").expect("it has come");
    assert_eq!((message.kind(), message.to_vec()), (0, b"message".to_vec()));
    receiver.release();
    for number in 1..3 {
        let message = receiver.peek().expect("no question");
        assert_eq!(message.expect("it has come").kind(), number);
        receiver.release();
    }
    // What the releases could not do is told once, behind all messages.
    receiver
        .peek()
        .expect_err("the sender's memory was not reached");
    assert!(receiver.peek().expect("told").is_none());
}

#[test]
fn a_fault_of_a_token_says_that_it_is_the_tokens() {
    let fault = Token::parse(b"").expect_err("a token has 64 bytes");
    let sentence = fault.to_string();
    let said = Error::from(fault).to_string();
    assert_eq!(said, format!("the token is not valid: {sentence}"));
}

#[test]
fn wrong_tokens_are_refused() {
    let place = Place::new();
    let (server, client) = (place.device(), place.device());
    let region = server.alloc(2 * PAGE).expect("there is memory");
    let token = region.export(0..PAGE, Rights::Read, None).expect("inside");
    let mut secret = token.secret;
    secret[15] ^= 1;
    let wrong = [
        Token { secret, ..token },
        Token {
            rights: Rights::ReadWrite,
            ..token
        },
        Token {
            bytes: 2 * PAGE as u64,
            ..token
        },
        Token {
            first: PAGE as u64,
            ..token
        },
        Token { bytes: 8, ..token },
        Token {
            region: token.region + 1,
            ..token
        },
        Token {
            region: u64::MAX,
            ..token
        },
    ];
    for token in wrong {
        let error = client.connect(&token).expect_err("the token is wrong");
        assert_eq!(error.errno(), 13, "{token:?}: {error}");
    }
    client.connect(&token).expect("the right one works");
    let another = server.alloc(PAGE).expect("there is memory");
    assert_eq!(
        another.revoke(&token).expect_err("not its token").errno(),
        13
    );
    region.revoke(&token).expect("valid");
    assert_eq!(client.connect(&token).expect_err("revoked").errno(), 128);
    assert_eq!(
        region.revoke(&token).expect_err("revoked already").errno(),
        2
    );
}

#[test]
fn a_read_only_window_cannot_be_written() {
    let place = Place::new();
    let (server, client) = (place.device(), place.device());
    let region = server.alloc(PAGE).expect("there is memory");
    let token = region.export(0..PAGE, Rights::Read, None).expect("inside");
    let window = client.connect(&token).expect("the token is valid");
    for refused in [
        window.put(0, b"x"),
        window.store32(0, 1),
        window.store64(0, 1),
        window.put64(0, &[0; 64]),
        window.put_signal(0, b"x", 8, 1),
        window.signal(),
    ] {
        assert_eq!(refused.expect_err("no right to it").errno(), 13);
    }
    let base = window.map().expect("it is this machine's memory");
    let begin = format!("{:x}-", base as usize);
    let line = mapped()
        .into_iter()
        .find(|line| line.starts_with(&begin))
        .expect("it is mapped");
    assert!(line.contains(" r--s "), "{line}");
    // SAFETY: only the protection of our own mapping would change.
    let forced = unsafe {
        rustix::mm::mprotect(
            base.cast(),
            PAGE,
            MprotectFlags::READ | MprotectFlags::WRITE,
        )
    };
    assert_eq!(
        forced,
        Err(rustix::io::Errno::ACCESS),
        "the kernel let a reader write"
    );
    // What somebody reads here is for no writers, nor the other way round.
    let error = region.export(0..PAGE, Rights::Write, None);
    let error = error.expect_err("readers have the memory").to_string();
    assert!(error.contains("allocate a region for these"), "{error}");
    // The other way round: no right to load.
    let region = server.alloc(PAGE).expect("there is memory");
    let token = region.export(0..PAGE, Rights::Write, None).expect("inside");
    let window = client.connect(&token).expect("the token is valid");
    window.put(0, b"x").expect("the token allows it");
    assert_eq!(
        window
            .load(0, &mut [0], LONG)
            .expect_err("no right to it")
            .errno(),
        13
    );
}

#[test]
fn revocation_under_traffic() {
    let place = Place::new();
    let (server, client, other) = (place.device(), place.device(), place.device());
    let region = server.alloc(PAGE).expect("there is memory");
    let base = region.as_ptr();
    region.write(PAGE - 8, b"own data").expect("inside");
    let token = region.export(0..64, Rights::Write, None).expect("inside");
    let kept = region.export(64..128, Rights::Write, None).expect("inside");
    let window = client.connect(&token).expect("the token is valid");
    let bystander = other.connect(&kept).expect("the token is valid");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let epoch = window.epoch();
            let mut value = 0;
            // Stores go on as long as nothing is said, and some longer.
            while window.check(epoch).is_ok() {
                value += 1;
                window.store64(0, value).expect("the window is there still");
            }
            while !stop.load(Ordering::Relaxed) {
                value += 1;
                window.store64(0, value).expect("the window is there still");
            }
            window.check(epoch).expect_err("it was revoked")
        });
        until(|| region.word(0).load(Ordering::Relaxed) > 1000);
        region.revoke(&token).expect("valid");
        let last = region.word(0).load(Ordering::Relaxed);
        for _ in 0..1000 {
            assert_eq!(
                region.word(0).load(Ordering::Relaxed),
                last,
                "a revoked store arrived"
            );
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
        let error = writer.join().expect("the writer ends");
        assert!(matches!(error, Error::Revoked), "{error}");
        assert_eq!(error.errno(), 128);
    });
    assert_eq!(region.as_ptr(), base, "the region moved");
    let mut own = [0; 8];
    region.read(PAGE - 8, &mut own).expect("inside");
    assert_eq!(&own, b"own data");
    // The other holder's window ended, too, but its token did not.
    assert!(matches!(
        bystander.check(host::Epoch(0)),
        Err(Error::Revoked)
    ));
    let bystander = other.connect(&kept).expect("the token is still valid");
    bystander.store64(0, 5).expect("inside");
    bystander
        .check(bystander.epoch())
        .expect("the new window is whole");
    assert_eq!(region.word(64).load(Ordering::Acquire), 5);
}

#[test]
fn a_dropped_region_ends_its_windows() {
    let place = Place::new();
    let (server, client) = (place.device(), place.device());
    let region = server.alloc(PAGE).expect("there is memory");
    let token = region
        .export(0..PAGE, Rights::ReadWrite, None)
        .expect("inside");
    let window = client.connect(&token).expect("the token is valid");
    drop(region);
    assert!(matches!(window.check(window.epoch()), Err(Error::Revoked)));
    window
        .put(0, b"into the void")
        .expect("the window is there still");
    assert_eq!(
        client
            .connect(&token)
            .expect_err("its region is gone")
            .errno(),
        13
    );
}

#[test]
fn signals_wake() {
    let place = Place::new();
    let server = place.device_that_spins(Duration::ZERO);
    let client = place.device();
    let region = server.alloc(PAGE).expect("there is memory");
    let token = region.export(0..PAGE, Rights::Write, None).expect("inside");
    let window = client.connect(&token).expect("the token is valid");
    std::thread::scope(|scope| {
        // The answer's word is the region's own, so that both sides take turns.
        let region = &region;
        scope.spawn(move || {
            for value in 1..=2000u64 {
                window
                    .put_signal(64, &value.to_le_bytes(), 0, value)
                    .expect("inside");
                while region.word(128).load(Ordering::Acquire) != value {
                    std::thread::yield_now();
                }
            }
        });
        for value in 1..=2000u64 {
            if value % 2 == 0 {
                let seen = region.wait_until(LONG, || {
                    (region.word(0).load(Ordering::Acquire) == value).then_some(())
                });
                seen.expect("the signal comes");
            } else {
                while region.word(0).load(Ordering::Acquire) != value {
                    assert!(
                        region.wait(LONG).expect("waiting works"),
                        "the signal was lost"
                    );
                }
            }
            assert_eq!(region.word(64).load(Ordering::Relaxed), value);
            region.word(128).store(value, Ordering::Release);
        }
    });
    let error = region
        .wait_until(Some(Duration::from_millis(5)), || None::<()>)
        .expect_err("nothing comes");
    assert_eq!(error.errno(), 110);
}

#[test]
fn rings_carry_messages() {
    let place = Place::new();
    // Spinning and sleeping receivers, small and large rings.
    for (spin, lines, messages) in [(0, 16, 3000u64), (50, 64, 20_000), (5, 2048, 20_000)] {
        let (server, client) = (
            place.device_that_spins(Duration::from_micros(spin)),
            place.device_that_spins(Duration::from_micros(spin)),
        );
        let (mut receiver, token) = host::ring::create(&server, lines).expect("there is memory");
        let mut sender = host::ring::connect(&client, &token).expect("the token is valid");
        let most = sender.max_message();
        let length = move |number: u64| {
            (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) as usize % (most.min(3000) + 1)
        };
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for number in 0..messages {
                    let data = vec![number as u8; length(number)];
                    sender
                        .send(
                            (number % 255) as u8,
                            &[&data[..data.len() / 2], &data[data.len() / 2..]],
                            LONG,
                        )
                        .expect("the receiver takes them");
                }
                sender.check().expect("nothing went wrong");
                sender
            });
            let mut into = vec![0; most];
            for number in 0..messages {
                let (kind, count) = receiver.receive(&mut into, LONG).expect("the sender sends");
                assert_eq!(
                    (kind, count),
                    ((number % 255) as u8, length(number)),
                    "message {number}"
                );
                assert!(
                    into[..count].iter().all(|byte| *byte == number as u8),
                    "message {number}"
                );
            }
            assert_eq!(
                receiver.try_receive(&mut into).expect("the ring is whole"),
                None
            );
        });
    }
}

/// Nobody wakes a sender that waits for room when its receiver is gone.
#[test]
fn a_sender_that_waits_without_limit_is_told_that_the_receiver_is_gone() {
    let place = Place::new();
    let (server, client) = (place.device(), place.device());
    let (receiver, token) = host::ring::create(&server, 8).expect("there is memory");
    let mut sender = host::ring::connect(&client, &token).expect("the token is valid");
    while sender.try_send(0, &[b"x"]).is_ok() {}
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || tell.send(sender.send(0, &[b"x"], None)));
    // It most likely waits by then; if it does not yet, it is told all the same.
    std::thread::sleep(Duration::from_millis(50));
    drop(receiver);
    let sent = told.recv_timeout(Duration::from_secs(60));
    let error = sent.expect("it waits for ever").expect_err("it is full");
    assert_ne!(error.errno(), libc::ETIMEDOUT, "{error}");
}

#[test]
fn a_ring_has_its_limits() {
    let place = Place::new();
    let device = place.device();
    for lines in [0, 4, 9, 1 << 21] {
        assert_eq!(
            host::ring::create(&device, lines)
                .expect_err("no such ring")
                .errno(),
            22
        );
    }
    let (mut receiver, token) = host::ring::create(&device, 8).expect("there is memory");
    let mut sender = host::ring::connect(&device, &token).expect("the token is valid");
    assert_eq!(
        sender
            .try_send(0, &[&[0; 65]])
            .expect_err("too long")
            .errno(),
        90
    );
    while sender.try_send(0, &[b"x"]).is_ok() {}
    assert_eq!(sender.try_send(0, &[b"x"]).expect_err("full").errno(), 11);
    assert_eq!(
        sender
            .send(0, &[b"x"], Some(Duration::from_millis(2)))
            .expect_err("full")
            .errno(),
        110
    );
    let mut into = [0; 8];
    assert_eq!(
        receiver.receive(&mut into, LONG).expect("there is one"),
        (0, 1)
    );
    let region = device.alloc(PAGE).expect("there is memory");
    let token = region.export(0..100, Rights::Write, None).expect("inside");
    assert_eq!(
        host::ring::connect(&device, &token)
            .expect_err("no ring")
            .errno(),
        22
    );
    // A receiver that is gone is noticed.
    drop(receiver);
    assert_eq!(
        sender
            .send(0, &[b"x"], LONG)
            .err()
            .or(sender.check().err())
            .map(|error| error.errno()),
        Some(128)
    );
}

#[test]
fn windows_outlive_the_daemon() {
    let mut place = Place::new();
    let device = place.device();
    let region = device.alloc(PAGE).expect("there is memory");
    let token = region
        .export(0..PAGE, Rights::ReadWrite, None)
        .expect("inside");
    let window = device.connect(&token).expect("the token is valid");
    drop(place.daemon.take());
    window.store64(0, 4).expect("the memory is there still");
    window
        .flush(Flush::Delivered, LONG)
        .expect("the memory is there still");
    window.check(window.epoch()).expect("nothing was lost");
    assert_eq!(region.word(0).load(Ordering::Acquire), 4);
    let error = device.alloc(PAGE).expect_err("nobody to ask");
    assert_eq!(error.errno(), 104, "{error}");
    let error = Device::open(&Config {
        daemon: place.socket(),
        ..Config::default()
    })
    .expect_err("nobody there");
    assert!(error.to_string().contains("ipnuma daemon"), "{error}");
}

#[test]
fn threads_share_a_device() {
    let place = Place::new();
    let device = Arc::new(place.device());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0..50u64 {
                    let region = device.alloc(PAGE).expect("there is memory");
                    let token = region
                        .export(0..PAGE, Rights::ReadWrite, None)
                        .expect("inside");
                    let window = device.connect(&token).expect("the token is valid");
                    window.store64(8, round).expect("inside");
                    assert_eq!(region.word(8).load(Ordering::Acquire), round);
                    region.revoke(&token).expect("valid");
                    assert!(window.check(window.epoch()).is_err());
                }
            });
        }
    });
}

#[test]
fn no_daemon_is_said_plainly() {
    let config = Config {
        daemon: Path::new("/nonexistent/daemon.sock").into(),
        ..Config::default()
    };
    let error = Device::open(&config).expect_err("there is none");
    assert_eq!(error.errno(), 111);
    assert!(
        error.to_string().contains("/nonexistent/daemon.sock"),
        "{error}"
    );
}
