// SPDX-License-Identifier: Apache-2.0
//! Two processes over a daemon: the other one is this test program, started anew with a role.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use host::backend::Flush;
use host::{Config, Device, Error, Rights, Token};
use shm::memory::PAGE;

/// So that nothing hangs for ever; no test waits that long.
const LONG: Option<Duration> = Some(Duration::from_secs(60));
const ROLE: &str = "IPNUMA_TEST_ROLE";
const TOKEN: &str = "IPNUMA_TEST_TOKEN";
const SOCKET: &str = "IPNUMA_TEST_SOCKET";

/// The other process; killed when dropped.
struct Other {
    child: Child,
    input: ChildStdin,
    output: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Other {
    fn start(role: &str, socket: &Path, token: &Token) -> Self {
        let digits: String = token
            .to_bytes()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let mut child = Command::new(std::env::current_exe().expect("this program has a name"))
            .args(["--exact", "the_other_process", "--ignored", "--nocapture"])
            .envs([(ROLE, role), (TOKEN, &digits)])
            .env(SOCKET, socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be started");
        let input = child.stdin.take().expect("it is piped");
        let output = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        Self {
            child,
            input,
            output,
        }
    }

    fn say(&mut self, word: &str) {
        writeln!(self.input, "{word}").expect("the other process listens");
    }

    /// What it says next; the test harness's own lines don't count.
    fn hear(&mut self) -> String {
        for line in self.output.by_ref() {
            let line = line.expect("the other process's output is text");
            if let Some((_, said)) = line.split_once("SAYS ") {
                return said.to_owned();
            }
        }
        panic!("the other process has ended");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Place {
    directory: tempfile::TempDir,
    _daemon: daemon::Running,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("there is a directory for temporary files");
        let socket = directory.path().join("daemon.sock");
        let options = daemon::Options {
            socket,
            ..Default::default()
        };
        Self {
            _daemon: daemon::spawn(options).expect("the daemon starts"),
            directory,
        }
    }

    fn socket(&self) -> std::path::PathBuf {
        self.directory.path().join("daemon.sock")
    }
}

fn device(socket: &Path) -> Device {
    Device::open(&Config {
        daemon: socket.into(),
        ..Config::default()
    })
    .expect("the daemon lets us in")
}

/// Waits for what plain stores do: they wake nobody.
fn until(mut seen: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while !seen() {
        assert!(std::time::Instant::now() < deadline, "it never happens");
        std::thread::yield_now();
    }
}

#[test]
fn stores_and_revocation() {
    let place = Place::new();
    let device = device(&place.socket());
    let region = device.alloc(PAGE).expect("there is memory");
    let token = region
        .export(0..2048, Rights::ReadWrite, None)
        .expect("inside");
    let mut other = Other::start("storer", &place.socket(), &token);
    for value in 1..=100u64 {
        let seen = region.wait_until(LONG, || {
            (region.word(0).load(Ordering::Acquire) == value).then_some(())
        });
        seen.expect("the other process signals");
        assert_eq!(region.word(64).load(Ordering::Relaxed), value * 3);
        region.word(128).store(value, Ordering::Release);
    }
    assert_eq!(other.hear(), "checked");
    // It stores on and on; the region must not change once the token is taken back.
    let moving = region.word(0);
    let begin = moving.load(Ordering::Relaxed);
    until(|| moving.load(Ordering::Relaxed) != begin);
    region.revoke(&token).expect("valid");
    let last = moving.load(Ordering::Relaxed);
    assert_eq!(other.hear(), "revoked 128");
    other.say("store on");
    assert_eq!(other.hear(), "stored");
    assert_eq!(
        moving.load(Ordering::Relaxed),
        last,
        "a revoked store arrived"
    );
}

#[test]
fn rings() {
    let place = Place::new();
    let device = device(&place.socket());
    let (mut receiver, token) = host::ring::create(&device, 64).expect("there is memory");
    let mut other = Other::start("sender", &place.socket(), &token);
    let mut into = [0; 1024];
    for number in 0..5000u32 {
        let (kind, count) = receiver
            .receive(&mut into, LONG)
            .expect("the other process sends");
        assert_eq!((kind, count), (3, 4 + number as usize % 900));
        assert_eq!(into[..4], number.to_le_bytes());
    }
    assert_eq!(other.hear(), "sent");
}

/// An owner that is killed: its tokens end, and holders are told.
#[test]
fn a_killed_owner() {
    let place = Place::new();
    let device = device(&place.socket());
    let mailbox = device.alloc(PAGE).expect("there is memory");
    let token = mailbox
        .export(0..PAGE, Rights::Write, None)
        .expect("inside");
    let mut other = Other::start("owner", &place.socket(), &token);
    mailbox
        .wait_until(LONG, || {
            (mailbox.word(64).load(Ordering::Acquire) == 1).then_some(())
        })
        .expect("it leaves a token");
    let mut bytes = [0; 64];
    mailbox.read(0, &mut bytes).expect("inside");
    let window = device
        .connect(&Token::parse(&bytes).expect("it is one"))
        .expect("it is valid");
    window.store64(0, 9).expect("inside");
    assert_eq!(other.hear(), "exported");
    window.check(window.epoch()).expect("its owner lives");
    other.child.kill().expect("it can be killed");
    other.child.wait().expect("it is ours");
    until(|| matches!(window.check(window.epoch()), Err(Error::PeerLost)));
    window
        .store64(0, 10)
        .expect("the memory is there as long as the window");
}

/// A wrong secret: refused, and nothing is mapped. (The right one maps the range and the signal page.)
#[test]
fn an_intruder() {
    let place = Place::new();
    let device = device(&place.socket());
    let region = device.alloc(PAGE).expect("there is memory");
    let token = region
        .export(0..PAGE, Rights::ReadWrite, None)
        .expect("inside");
    let mut secret = token.secret;
    secret[0] ^= 0x80;
    let wrong = Token { secret, ..token };
    assert_eq!(
        Other::start("intruder", &place.socket(), &wrong).hear(),
        "13 0"
    );
    assert_eq!(
        Other::start("intruder", &place.socket(), &token).hear(),
        "0 2"
    );
}

/// Not a test of its own: the other process of the tests above.
#[test]
#[ignore = "it is started by other tests"]
fn the_other_process() {
    let (Ok(role), Some(socket), Ok(digits)) = (
        std::env::var(ROLE),
        std::env::var_os(SOCKET),
        std::env::var(TOKEN),
    ) else {
        println!("nothing to do: other tests start this one with a role");
        return;
    };
    let bytes: Vec<u8> = (0..digits.len() / 2)
        .map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).expect("hexadecimal digits"))
        .collect();
    let token = Token::parse(&bytes).expect("the token came through");
    let device = device(Path::new(&socket));
    match role.as_str() {
        "storer" => store(&device, &token),
        "sender" => send(&device, &token),
        "owner" => own(&device, &token),
        "intruder" => intrude(&device, &token),
        other => panic!("no role {other}"),
    }
}

fn say(word: &str) {
    println!("SAYS {word}");
    std::io::stdout()
        .flush()
        .expect("the other process listens");
}

fn hear() -> String {
    let mut line = String::new();
    std::io::stdin()
        .read_line(&mut line)
        .expect("the other process speaks");
    line.trim().to_owned()
}

fn store(device: &Device, token: &Token) {
    let window = device.connect(token).expect("the token is valid");
    let epoch = window.epoch();
    for value in 1..=100u64 {
        window
            .put_signal(64, &(value * 3).to_le_bytes(), 0, value)
            .expect("inside");
        let mut answer = [0; 8];
        while answer != value.to_le_bytes() {
            window
                .load(128, &mut answer, LONG)
                .expect("the token allows it");
            std::thread::yield_now();
        }
    }
    window
        .flush(Flush::Delivered, LONG)
        .expect("it is this machine's memory");
    window.check(epoch).expect("nothing went wrong");
    say("checked");
    let mut value = 1000;
    let error = loop {
        value += 1;
        window.store64(0, value).expect("the window is there");
        if let Err(error) = window.check(epoch) {
            break error;
        }
    };
    say(&format!("revoked {}", error.errno()));
    assert_eq!(hear(), "store on");
    for _ in 0..1000 {
        value += 1;
        window.store64(0, value).expect("the window is there");
    }
    assert_eq!(device.connect(token).expect_err("revoked").errno(), 128);
    say("stored");
    hear();
}

fn send(device: &Device, token: &Token) {
    let mut sender = host::ring::connect(device, token).expect("the token is valid");
    for number in 0..5000u32 {
        let rest = vec![7; number as usize % 900];
        sender
            .send(3, &[&number.to_le_bytes(), &rest], LONG)
            .expect("the other process receives");
    }
    say("sent");
    hear();
}

fn own(device: &Device, token: &Token) {
    let region = device.alloc(PAGE).expect("there is memory");
    let own = region.export(0..PAGE, Rights::Write, None).expect("inside");
    let mailbox = device.connect(token).expect("the token is valid");
    mailbox
        .put_signal(0, &own.to_bytes(), 64, 1)
        .expect("inside");
    until(|| region.word(0).load(Ordering::Acquire) == 9);
    say("exported");
    hear();
}

/// Says what became of it, and how many regions are mapped.
fn intrude(device: &Device, token: &Token) {
    let result = device.connect(token);
    let maps = std::fs::read_to_string("/proc/self/maps").expect("/proc is there");
    let mapped = maps
        .lines()
        .filter(|line| line.contains("/memfd:ipnuma-region"))
        .count();
    let errno = result.as_ref().err().map_or(0, Error::errno);
    say(&format!("{errno} {mapped}"));
}
