// SPDX-License-Identifier: Apache-2.0
//! A window of another machine that is mapped: two daemons on loopback addresses, each the one of a machine.
#![cfg(target_arch = "x86_64")]

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use daemon::remote::{self, Transport};
use daemon::{Options, Running};
use host::{Config, Device, Flush, Region, Rights, Stores, Token, Window};

const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));

struct Machine {
    running: Running,
    address: Ipv4Addr,
    _directory: tempfile::TempDir,
}

impl Machine {
    fn start(seed: u8) -> Self {
        for last in 1..=254 {
            let pid = std::process::id().to_le_bytes();
            let address = Ipv4Addr::new(127, pid[0], pid[1] ^ seed, last);
            let directory = tempfile::tempdir().expect("a directory");
            let mut options = Options {
                socket: directory.path().join("daemon.sock"),
                management: Some(SocketAddrV4::new(address, 3422)),
                remote: remote::Options {
                    nic: Transport::Udp,
                    ..remote::Options::default()
                },
                ..Options::default()
            };
            keyed::among(&mut options.remote, directory.path(), "127.0.0.0/8");
            if let Ok(running) = daemon::spawn(options) {
                return Self {
                    running,
                    address,
                    _directory: directory,
                };
            }
        }
        panic!("no loopback address is free");
    }

    fn device(&self) -> Device {
        let config = Config {
            daemon: self.running.socket().to_owned(),
            ..Config::default()
        };
        Device::open(&config).expect("the daemon runs")
    }
}

fn pair(seed: u8) -> (Machine, Machine, Region, Token, Window) {
    let (there, here) = (Machine::start(seed), Machine::start(seed ^ 0x80));
    let region = there.device().alloc(8192).expect("memory");
    let token = region
        .export(64..4196, Rights::ReadWrite, None)
        .expect("a token");
    let window = here.device().connect(&token).expect("the other machine");
    (there, here, region, token, window)
}

/// Stores 4 bytes by one instruction. `false`: SIGBUS.
fn assign(place: *mut u8, value: u32) -> bool {
    let refused: u64;
    // SAFETY: at worst it is refused, and the handler goes on at the label in R11.
    unsafe {
        std::arch::asm!(
            "lea r11, [rip + 2f]",
            "xor r10d, r10d",
            "mov dword ptr [{place}], {value:e}",
            "2:",
            place = in(reg) place,
            value = in(reg) value,
            out("r10") refused,
            out("r11") _,
        );
    }
    refused == 0
}

extern "C" fn go_on(_: i32, _: *mut libc::siginfo_t, context: *mut libc::ucontext_t) {
    // SAFETY: the kernel's context, of `assign`.
    unsafe {
        let registers = &mut (*context).uc_mcontext.gregs;
        registers[libc::REG_RIP as usize] = registers[libc::REG_R11 as usize];
        registers[libc::REG_R10 as usize] = 1;
    }
}

fn handle(signal: i32, handler: usize) {
    // SAFETY: an action of numbers, and a handler for three arguments.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut());
    }
}

fn said() -> String {
    let mut sentence = [0; 256];
    let length = trap::last_fault(&mut sentence);
    String::from_utf8_lossy(&sentence[..length]).into_owned()
}

#[test]
fn what_cannot_arrive_is_refused_with_a_sentence() {
    handle(libc::SIGBUS, go_on as *const () as usize);
    let (there, here, region, token, window) = pair(1);
    let base = window.map().expect("addresses");
    assert!(assign(base, 1));
    window.flush(Flush::Delivered, PATIENCE).expect("delivered");
    assert_eq!(region.word(64).load(Ordering::Acquire), 1);
    assert!(!assign(base.wrapping_add(4132), 1), "beyond the window");
    assert!(said().contains("it has 4132 bytes"), "{}", said());
    region.revoke(&token).expect("its own");
    // It is known here when the other NIC has refused a store, or its daemon has said so.
    let until = Instant::now() + Duration::from_secs(20);
    while assign(base, 2) {
        assert!(Instant::now() < until, "never refused");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(said().contains("revoked"), "{}", said());
    assert!(window.check(host::Epoch(0)).is_err());
    let next = region.export(0..64, Rights::Write, None).expect("a token");
    let next = here.device().connect(&next).expect("the other machine");
    let unharmed = next.map().expect("addresses");
    assert!(assign(unharmed, 7), "others are unharmed");
    next.flush(Flush::Delivered, PATIENCE).expect("delivered");
    assert_eq!(region.word(0).load(Ordering::Acquire), 7);
    drop(region);
    drop(there);
    let until = Instant::now() + Duration::from_secs(40);
    while assign(unharmed, 2) {
        assert!(Instant::now() < until, "never lost");
        std::thread::sleep(Duration::from_millis(10));
    }
}

static BASE: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static TICKS: AtomicU64 = AtomicU64::new(0);

extern "C" fn tick(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let count = TICKS.fetch_add(1, Ordering::Relaxed) + 1;
    // SAFETY: a word of the window.
    unsafe {
        BASE.load(Ordering::Relaxed)
            .add(8)
            .cast::<u64>()
            .write_volatile(count)
    };
}

#[test]
fn a_signal_within_a_call_stores_to_the_same_window() {
    let (_there, _here, region, _token, window) = pair(2);
    BASE.store(window.map().expect("addresses"), Ordering::Relaxed);
    handle(libc::SIGUSR1, tick as *const () as usize);
    // To this thread only: the daemons of this test, which carry what is stored, must not wait for themselves.
    // SAFETY: it only asks.
    let own = unsafe { libc::pthread_self() };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                // SAFETY: the thread waits for this one.
                unsafe { libc::pthread_kill(own, libc::SIGUSR1) };
                std::thread::sleep(Duration::from_micros(500));
            }
        });
        let until = Instant::now() + Duration::from_secs(20);
        let mut round = 0;
        while TICKS.load(Ordering::Relaxed) < 100 && Instant::now() < until {
            round += 1;
            window.put(64, &[round as u8; 2000]).expect("inside");
        }
        over.store(true, Ordering::Relaxed);
    });
    window.flush(Flush::Delivered, PATIENCE).expect("delivered");
    let ticks = TICKS.load(Ordering::Relaxed);
    assert!(ticks > 0, "no signal came");
    assert_eq!(region.word(72).load(Ordering::Acquire), ticks);
}

#[test]
fn a_load_of_more_than_a_page_is_asked_for_in_parts() {
    let (there, here, region, _token, window) = pair(9);
    let tap = keyed::Tap::start(&[there.address, here.address]);
    let bytes: Vec<u8> = (0..4132u32).map(|at| (at / 7) as u8).collect();
    region.write(64, &bytes).expect("inside");
    let mut loaded = vec![0; bytes.len()];
    window.load(0, &mut loaded, PATIENCE).expect("an answer");
    assert!(loaded == bytes, "other bytes than are there");
    match tap.map(keyed::Tap::end) {
        Ok(seen) => seen.verify().expect("with keys all is sealed"),
        Err(error) => skip::skipped("what the NICs send to each other", &error),
    }
}

/// A sender of a ring that waits for room is woken by nobody when either daemon has ended.
#[test]
fn a_ring_that_is_full_does_not_outlive_the_daemons() {
    for own in [true, false] {
        let (there, here) = (Machine::start(12), Machine::start(12 ^ 0x80));
        let (_receiver, token) = host::ring::create(&there.device(), 8).expect("memory");
        let mut sender = host::ring::connect(&here.device(), &token).expect("the other machine");
        while sender.try_send(0, &[b"x"]).is_ok() {}
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || tell.send(sender.send(0, &[b"x"], None)));
        // It most likely waits by then; if it does not yet, it is told all the same.
        std::thread::sleep(Duration::from_millis(50));
        let _other = if own {
            drop(here);
            there
        } else {
            drop(there);
            here
        };
        let sent = told.recv_timeout(Duration::from_secs(60));
        let error = sent.expect("it waits for ever").expect_err("it is full");
        assert_ne!(error.errno(), libc::ETIMEDOUT, "{error}");
    }
}

#[test]
fn collected_stores_leave_with_a_fence_and_with_calls() {
    let (_there, _here, region, _token, window) = pair(3);
    let base = window.map_with(Stores::Collected).expect("addresses");
    let word = |at: usize| region.word(64 + at).load(Ordering::Acquire);
    assert!(assign(base, 5));
    window.flush(Flush::Delivered, PATIENCE).expect("delivered");
    assert_eq!(word(0), 5);
    assert!(assign(base, 6));
    window.fence();
    let until = Instant::now() + Duration::from_secs(20);
    while word(0) != 6 {
        assert!(Instant::now() < until, "it has not left");
        std::thread::yield_now();
    }
    assert!(assign(base, 7));
    window.put(64, &[1; 8]).expect("inside");
    window.flush(Flush::Delivered, PATIENCE).expect("delivered");
    assert_eq!((word(0), word(64)), (7, 0x0101_0101_0101_0101));
    // The source of a call may be such memory itself, also that of the same window.
    // SAFETY: in the window.
    let from = unsafe { std::slice::from_raw_parts(window.map().expect("addresses"), 8) };
    window.put(128, from).expect("inside");
    window.flush(Flush::Delivered, PATIENCE).expect("delivered");
    assert_eq!(word(128), 7);
    // Also with those that only ask.
    for (value, ask) in [(8, true), (9, false)] {
        assert!(assign(base, value));
        if ask {
            let _ = window.epoch();
        } else {
            window.check(host::Epoch(0)).expect("nothing was lost");
        }
        let until = Instant::now() + Duration::from_secs(20);
        while word(0) != u64::from(value) {
            assert!(Instant::now() < until, "it has not left");
            std::thread::yield_now();
        }
    }
}

#[test]
fn collected_stores_leave_before_those_by_the_ordered_mapping() {
    let (_there, _here, region, _token, window) = pair(4);
    let collected = window.map_with(Stores::Collected).expect("addresses");
    let ordered = window.map().expect("addresses");
    assert!(assign(collected, 5) && assign(ordered, 6));
    window.flush(Flush::Delivered, PATIENCE).expect("delivered");
    assert_eq!(region.word(64).load(Ordering::Acquire), 6);
    assert!(assign(collected, 7));
    // SAFETY: in the window.
    assert_eq!(unsafe { ordered.cast::<u32>().read_volatile() }, 7);
}
