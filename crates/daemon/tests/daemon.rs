// SPDX-License-Identifier: Apache-2.0
//! The daemon over its real socket, with the library's client.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use daemon::{Options, Running};
use ipc::client::{Client, descriptors};
use ipc::protocol::{Notice, Reply, Request, notice_page};
use ipc::{Rights, Token};
use rustix::io::Errno;
use shm::channel::{Channel, flags};
use shm::memory::{Access, Mapping};
use tempfile::TempDir;

/// A machine that is this busy is not expected.
const PATIENCE: Duration = Duration::from_secs(60);

struct Place {
    running: Running,
    _directory: TempDir,
}

fn start_with(change: impl FnOnce(&mut Options)) -> Place {
    let directory = tempfile::tempdir().expect("a directory");
    let mut options = Options {
        socket: directory.path().join("ipnuma/daemon.sock"),
        ..Options::default()
    };
    change(&mut options);
    Place {
        running: daemon::spawn(options).expect("it starts"),
        _directory: directory,
    }
}

fn start() -> Place {
    start_with(|_| ())
}

impl Place {
    fn client(&self) -> Client {
        Client::connect(self.running.socket(), "test").expect("it is welcome")
    }
}

fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn ask(client: &Client, request: Request) -> (Reply, Vec<OwnedFd>) {
    client
        .request(&request)
        .unwrap_or_else(|error| panic!("{request:?}: {error}"))
}

fn refused(client: &Client, request: Request) -> (i32, String) {
    let error = client.request(&request).expect_err("it is refused");
    (error.errno(), error.to_string())
}

fn notice(client: &Client) -> (Notice, Vec<OwnedFd>) {
    let begin = Instant::now();
    loop {
        if let Some(notice) = client.next_notice().expect("the daemon lives") {
            return notice;
        }
        assert!(begin.elapsed() < PATIENCE, "no notice came");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn intent(client: &Client, to: SocketAddr) -> u64 {
    match ask(client, Request::Intend { to, asked: false }).0 {
        Reply::Intent { intent } => intent,
        other => panic!("no intent but {other:?}"),
    }
}

fn channel((reply, fds): (Reply, Vec<OwnedFd>)) -> (u64, Channel) {
    let Reply::Channel { channel } = reply else {
        panic!("no channel but {reply:?}");
    };
    let [memory] = descriptors(fds).expect("one descriptor");
    (channel, Channel::map(&memory).expect("it is a channel"))
}

fn open(client: &Client, server: &Client, from: SocketAddr, to: SocketAddr) -> [(u64, Channel); 2] {
    let intent = intent(client, to);
    let near = channel(ask(client, Request::Announce { intent, from, to }));
    let far = channel(ask(server, Request::Resolve { from, to }));
    [near, far]
}

fn sockets(client: &Client) -> (ipc::protocol::Totals, Vec<ipc::protocol::SocketStatus>) {
    let (mut all, mut sum) = (Vec::new(), None);
    loop {
        let after = all
            .last()
            .map_or(0, |last: &ipc::protocol::SocketStatus| last.channel);
        match ask(client, Request::Sockets { after }).0 {
            Reply::Sockets { totals, sockets } => {
                let sum = *sum.get_or_insert(totals);
                if sockets.is_empty() {
                    return (sum, all);
                }
                all.extend(sockets);
            }
            other => panic!("no list but {other:?}"),
        }
    }
}

#[test]
fn both_ends_of_a_connection_get_one_channel() {
    let place = start();
    let (client, server) = (place.client(), place.client());
    let (from, to) = (at("127.0.0.1:4000"), at("127.0.0.1:80"));
    assert_eq!(
        ask(&client, Request::Intend { to, asked: false }).0,
        Reply::Kernel
    );
    ask(
        &server,
        Request::Listen {
            address: at("0.0.0.0:80"),
        },
    );
    let [(number, near), (same, far)] = open(&client, &server, from, to);
    assert_eq!(number, same);
    near.flags(0).store(flags::FIN, Ordering::Release);
    assert_eq!(far.flags(0).load(Ordering::Acquire), flags::FIN);
    assert_eq!(far.control(1).armed.load(Ordering::Acquire), 3);
    near.control(0).sender.bytes.store(7, Ordering::Relaxed);

    let (totals, list) = sockets(&client);
    assert_eq!((totals.streams, totals.bytes, list.len()), (1, 7, 1));
    let [status] = &list[..] else {
        panic!("{list:?}")
    };
    assert_eq!(status.ends[0].pid, std::process::id());
    assert_eq!((status.ends[0].address, status.ends[1].address), (from, to));
    assert_eq!(
        (status.ends[0].bytes, status.ends[0].program.as_str()),
        (7, "test")
    );

    ask(
        &client,
        Request::Close {
            channel: number,
            shared: false,
        },
    );
    assert_eq!(sockets(&client).1.len(), 1);
    drop(server);
    let begin = Instant::now();
    while !sockets(&client).1.is_empty() {
        assert!(
            begin.elapsed() < PATIENCE,
            "the dead process's channel is still there"
        );
    }
    let (totals, _) = sockets(&client);
    assert_eq!((totals.streams, totals.bytes), (1, 7));
}

#[test]
fn a_client_sees_without_asking_whether_anybody_listens() {
    let place = start();
    let (client, first, second) = (place.client(), place.client(), place.client());
    let (address, other) = (at("127.0.0.1:80"), at("127.0.0.1:81"));
    assert!(!client.may_listen(address));
    for server in [&first, &second, &first] {
        ask(server, Request::Listen { address });
        assert!(client.may_listen(address) && place.client().may_listen(address));
    }
    assert!(!client.may_listen(other) && !place.client().may_listen(other));
    ask(&first, Request::Unlisten { address });
    ask(&first, Request::Unlisten { address });
    assert!(client.may_listen(address), "the other one does still");
    drop(second);
    let begin = Instant::now();
    while client.may_listen(address) {
        assert!(begin.elapsed() < PATIENCE, "nobody listens any more");
    }
    assert!(!place.client().may_listen(address));
}

#[test]
fn of_listeners_of_other_machines_only_the_daemon_can_say() {
    let [_, b, c, d] = std::process::id().to_be_bytes();
    let management = std::net::SocketAddrV4::new([127, b | 128, c, d].into(), 3422);
    let keys = tempfile::tempdir().expect("a directory");
    let start = |networks: Vec<&str>| {
        start_with(|options| {
            options.management = Some(management);
            keyed::among(&mut options.remote, keys.path(), "127.0.0.0/8");
            let parsed = networks.iter().map(|text| text.parse().expect("a network"));
            options.remote.sockets = parsed.collect();
        })
    };
    let place = start(vec!["10.0.0.0/24", "10.7.7.7"]);
    let client = place.client();
    for (address, may) in [
        ("10.0.0.9:80", true),
        ("[::ffff:10.0.0.9]:80", true),
        ("10.7.7.7:80", true),
        ("10.0.1.9:80", false),
        ("10.7.7.8:80", false),
        ("127.0.0.1:80", false),
        ("[::1]:80", false),
    ] {
        assert_eq!(client.may_listen(at(address)), may, "{address}");
    }
    drop((client, place));
    // More than the page has room for.
    let place = start(vec!["10.0.0.0/24"; notice_page::MOST_NETWORKS + 1]);
    assert!(place.client().may_listen(at("192.0.2.1:80")));
}

#[test]
fn an_administrator_can_end_a_connection() {
    let place = start();
    let (client, server) = (place.client(), place.client());
    let (from, to) = (at("[::1]:4000"), at("[::1]:80"));
    ask(
        &server,
        Request::Listen {
            address: at("[::]:80"),
        },
    );
    let [(number, near), _] = open(&client, &server, from, to);
    ask(&place.client(), Request::RevokeChannel { channel: number });
    for half in 0..2 {
        assert_eq!(near.flags(half).load(Ordering::Acquire), flags::REVOKED);
    }
    for process in [&client, &server] {
        let Notice::Revoked { channel, .. } = notice(process).0 else {
            panic!("another notice");
        };
        assert_eq!(channel, Some(number));
    }
    let (errno, sentence) = refused(&client, Request::RevokeChannel { channel: number });
    assert_eq!(errno, Errno::NOENT.raw_os_error());
    assert!(sentence.contains("ipnuma sockets"), "{sentence}");
}

#[test]
fn datagrams_are_announced_to_the_receiver() {
    let place = start();
    let (sender, receiver) = (place.client(), place.client());
    let (from, to) = (at("127.0.0.1:5000"), at("127.0.0.1:53"));
    assert_eq!(
        ask(
            &sender,
            Request::Datagrams {
                from,
                to,
                asked: false,
            }
        )
        .0,
        Reply::Kernel
    );
    let before = sender.generation();
    ask(
        &receiver,
        Request::Bind {
            address: at("0.0.0.0:53"),
        },
    );
    let begin = Instant::now();
    while sender.generation() == before {
        assert!(
            begin.elapsed() < PATIENCE,
            "the sender never hears of the address"
        );
    }
    let (number, near) = channel(ask(
        &sender,
        Request::Datagrams {
            from,
            to,
            asked: false,
        },
    ));
    let (told, fds) = notice(&receiver);
    assert_eq!(
        told,
        Notice::Datagrams {
            channel: number,
            from,
            to
        }
    );
    let [memory] = descriptors(fds).expect("one descriptor");
    let far = Channel::map(&memory).expect("a channel");
    assert_eq!(near.lines(), shm::channel::DATAGRAM_LINES);
    far.flags(1).store(flags::ATTACHED, Ordering::Release);
    assert_eq!(near.flags(1).load(Ordering::Acquire), flags::ATTACHED);
    assert_eq!(
        channel(ask(
            &sender,
            Request::Datagrams {
                from,
                to,
                asked: false
            }
        ))
        .0,
        number
    );
    drop(receiver);
    let begin = Instant::now();
    while near.flags(0).load(Ordering::Acquire) & flags::REVOKED == 0 {
        assert!(
            begin.elapsed() < PATIENCE,
            "the sender never hears that the receiver is gone"
        );
    }
    assert_eq!(
        ask(
            &sender,
            Request::Datagrams {
                from,
                to,
                asked: false
            }
        )
        .0,
        Reply::Kernel
    );
    assert_eq!(sender.doorbell_magic(), place.client().doorbell_magic());
    assert_ne!(sender.doorbell_magic(), [0; 16]);
}

fn region(owner: &Client, bytes: u64) -> (u64, Mapping) {
    let (reply, fds) = ask(owner, Request::Create { bytes });
    let Reply::Region { region } = reply else {
        panic!("no region but {reply:?}");
    };
    let [memory, _event, _signal] = descriptors(fds).expect("three descriptors");
    (
        region,
        Mapping::whole(&memory, Access::ReadWrite).expect("it can be mapped"),
    )
}

fn token(owner: &Client, region: u64, rights: Rights) -> Token {
    let (first, bytes) = (64, 128);
    match ask(
        owner,
        Request::Export {
            region,
            first,
            bytes,
            rights,
            peer: None,
        },
    )
    .0
    {
        Reply::Token(token) => token,
        other => panic!("no token but {other:?}"),
    }
}

#[test]
fn only_a_token_opens_a_region_and_only_as_it_says() {
    let place = start();
    let (owner, other) = (place.client(), place.client());
    let (region, _mapping) = region(&owner, 5000);
    let good = token(&owner, region, Rights::Read);
    assert_eq!((good.first, good.bytes, good.region), (64, 128, region));

    let (reply, fds) = ask(&other, Request::Connect { token: good });
    assert!(
        matches!(
            reply,
            Reply::Window {
                first: 64,
                bytes: 128,
                remote: false,
                ..
            }
        ),
        "{reply:?}"
    );
    let [memory, _event, _signal] = descriptors(fds).expect("three descriptors");
    Mapping::whole(&memory, Access::Read).expect("it can be read");
    Mapping::whole(&memory, Access::ReadWrite).expect_err("it can't be written");

    let mut wrong: Vec<Token> = (0..16)
        .map(|byte| {
            let mut token = good;
            token.secret[byte] ^= 1;
            token
        })
        .collect();
    wrong.push(Token {
        rights: Rights::ReadWrite,
        ..good
    });
    wrong.push(Token { first: 0, ..good });
    wrong.push(Token { bytes: 192, ..good });
    wrong.push(Token {
        region: region + 1000,
        ..good
    });
    for token in wrong {
        let (errno, sentence) = refused(&other, Request::Connect { token });
        assert_eq!(errno, Errno::ACCESS.raw_os_error(), "{token:?}: {sentence}");
    }
    let range = Request::Export {
        region,
        first: 4096,
        bytes: 5000,
        rights: Rights::Read,
        peer: None,
    };
    assert_eq!(refused(&owner, range).0, Errno::INVAL.raw_os_error());
    let foreign = Request::Export {
        region,
        first: 0,
        bytes: 64,
        rights: Rights::Read,
        peer: None,
    };
    assert_eq!(refused(&other, foreign).0, Errno::PERM.raw_os_error());
    assert_eq!(
        refused(&other, Request::Revoke { token: good }).0,
        Errno::PERM.raw_os_error()
    );
    assert_eq!(
        refused(&other, Request::Release { region }).0,
        Errno::PERM.raw_os_error()
    );
}

#[test]
fn a_revoked_token_costs_the_windows_and_the_memory() {
    let place = start();
    let (owner, other) = (place.client(), place.client());
    let (region, old) = region(&owner, 4096);
    let [first, second] = [0, 1].map(|_| token(&owner, region, Rights::ReadWrite));
    let (reply, fds) = ask(&other, Request::Connect { token: first });
    let Reply::Window { window, .. } = reply else {
        panic!("no window but {reply:?}");
    };
    let [memory, _event, _signal] = descriptors(fds).expect("three descriptors");
    let stale = Mapping::whole(&memory, Access::ReadWrite).expect("it can be mapped");

    let (reply, fds) = ask(&owner, Request::Revoke { token: first });
    assert_eq!(reply, Reply::Done);
    let [fresh] = descriptors(fds).expect("fresh memory");
    old.place(0, &fresh, 0, old.len(), Access::ReadWrite)
        .expect("it can be mapped");
    let moved = true;
    let settle = Request::Settle { region, moved };
    assert_eq!(ask(&owner, settle).0, Reply::Done);
    rustix::io::pwrite(&memory, b"stale", 64).expect("the old memory is still there");
    assert_eq!(stale.len(), old.len());
    let mut seen = [0; 5];
    rustix::io::pread(&fresh, &mut seen, 64).expect("it can be read");
    assert_eq!(seen, [0; 5]);

    assert_eq!(
        notice(&other).0,
        Notice::Revoked {
            channel: None,
            window: Some(window),
            region: None
        }
    );
    assert_eq!(
        refused(&other, Request::Connect { token: first }).0,
        Errno::KEYREVOKED.raw_os_error()
    );
    assert_eq!(
        refused(&owner, Request::Revoke { token: first }).0,
        Errno::NOENT.raw_os_error()
    );
    let (reply, _) = ask(&other, Request::Connect { token: second });
    let Reply::Window { window, .. } = reply else {
        panic!("no window but {reply:?}");
    };
    drop(owner);
    assert_eq!(notice(&other).0, Notice::PeerLost { window });
    assert_eq!(
        refused(&other, Request::Connect { token: second }).0,
        Errno::ACCESS.raw_os_error()
    );
}

#[test]
fn socket_and_directory_are_the_owners_alone() {
    let place = start();
    let mode = |path: &Path| {
        std::fs::metadata(path)
            .expect("it exists")
            .permissions()
            .mode()
            & 0o777
    };
    let socket = place.running.socket();
    assert_eq!(mode(socket), 0o600);
    assert_eq!(mode(socket.parent().expect("a directory")), 0o700);
}

#[test]
fn a_second_daemon_says_that_one_runs_and_a_stale_socket_is_replaced() {
    let place = start();
    let socket = place.running.socket().to_owned();
    let again = Options {
        socket: socket.clone(),
        ..Options::default()
    };
    let error = daemon::spawn(again.clone())
        .expect_err("it runs already")
        .to_string();
    assert!(error.contains("already runs"), "{error}");
    assert!(error.contains(&std::process::id().to_string()), "{error}");
    Client::connect(&socket, "test").expect("the first one still serves");
    place.running.stop().expect("it ends well");
    assert!(!socket.exists());
    // What a killed daemon leaves behind: a socket that nobody listens at.
    drop(std::os::unix::net::UnixListener::bind(&socket).expect("it can be bound"));
    let second = daemon::spawn(again).expect("the stale socket is replaced");
    Client::connect(&socket, "test").expect("it serves");
    second.stop().expect("it ends well");
    std::fs::write(&socket, "mine").expect("it can be written");
    let error = daemon::spawn(Options {
        socket: socket.clone(),
        ..Options::default()
    });
    let error = error.expect_err("a file is in the way").to_string();
    assert!(error.contains("is no socket"), "{error}");
    assert_eq!(
        std::fs::read_to_string(&socket).expect("it is still there"),
        "mine"
    );
}

#[test]
fn garbage_is_answered_once_and_harms_nobody() {
    use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketType};
    let place = start();
    let good = place.client();
    let packets: [&[u8]; 5] = [b"\xff", b"hello", &[0; 30000], &[0xff; 40000], &[3, 1]];
    for packet in packets {
        let raw = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None)
            .expect("a socket");
        let address = SocketAddrUnix::new(place.running.socket()).expect("an address");
        rustix::net::connect(&raw, &address).expect("it listens");
        ipc::packet::send(&raw, packet, &[], SendFlags::empty()).expect("it is sent");
        let mut buffer = vec![0; 65536];
        // An answer, or the end; then the end.
        if let Ok((length @ 1.., _)) = ipc::packet::receive(&raw, &mut buffer, RecvFlags::empty()) {
            let reply: Reply = ipc::protocol::decode(&buffer[..length]).expect("an answer");
            assert!(matches!(reply, Reply::Error { .. }), "{reply:?}");
        }
        ask(&good, Request::Sockets { after: 0 });
    }
}

#[test]
fn who_never_reads_is_dropped_and_the_others_go_on() {
    let place = start_with(|options| options.limits.notices = 16);
    let (sender, deaf) = (place.client(), place.client());
    ask(
        &deaf,
        Request::Bind {
            address: at("0.0.0.0:53"),
        },
    );
    let begin = Instant::now();
    for port in 1.. {
        let from = SocketAddr::new(at("127.0.0.1:0").ip(), port);
        match ask(
            &sender,
            Request::Datagrams {
                from,
                to: at("127.0.0.1:53"),
                asked: false,
            },
        )
        .0
        {
            Reply::Channel { .. } => {}
            Reply::Kernel => break,
            other => panic!("{other:?}"),
        }
        assert!(
            begin.elapsed() < PATIENCE,
            "the daemon keeps notices without limit"
        );
    }
    let begin = Instant::now();
    while deaf.next_notice().is_ok() {
        assert!(
            begin.elapsed() < PATIENCE,
            "the deaf one is still connected"
        );
    }
}

#[test]
fn limits_are_named_in_the_refusal() {
    let place = start_with(|options| {
        options.limits.listeners = 2;
        options.limits.channels = 1;
        options.limits.regions = 1;
        options.limits.region_bytes = 1 << 20;
    });
    let client = place.client();
    for port in 1..=2 {
        ask(
            &client,
            Request::Listen {
                address: SocketAddr::new(at("127.0.0.1:0").ip(), port),
            },
        );
    }
    let (errno, sentence) = refused(
        &client,
        Request::Listen {
            address: at("127.0.0.1:3"),
        },
    );
    assert_eq!(errno, Errno::NOBUFS.raw_os_error());
    assert!(sentence.contains("`listeners`"), "{sentence}");
    let (_, sentence) = refused(
        &client,
        Request::Create {
            bytes: (1 << 20) + 1,
        },
    );
    assert!(sentence.contains("`region_bytes`"), "{sentence}");
    ask(&client, Request::Create { bytes: 1 });
    let (_, sentence) = refused(&client, Request::Create { bytes: 1 });
    assert!(sentence.contains("`regions`"), "{sentence}");
}

fn descriptors_now() -> usize {
    std::fs::read_dir("/proc/self/fd")
        .expect("it exists")
        .count()
}

fn resident_kb() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("it exists");
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .expect("it has the line");
    line.split_whitespace()
        .nth(1)
        .and_then(|number| number.parse().ok())
        .expect("a number")
}

/// Alone in its process, by its name: it counts what the whole process has.
#[test]
#[ignore = "counts this process's descriptors, so it must run alone: the test `nothing_leaks` starts it"]
fn leak_cycles() {
    let place = start();
    let (client, server) = (place.client(), place.client());
    ask(
        &server,
        Request::Listen {
            address: at("0.0.0.0:80"),
        },
    );
    let cycle = |round: u32| {
        let port = u16::try_from(1024 + round % 60000).expect("a port");
        let from = SocketAddr::new(at("127.0.0.1:0").ip(), port);
        let [(number, _), _] = open(&client, &server, from, at("127.0.0.1:80"));
        ask(
            &client,
            Request::Close {
                channel: number,
                shared: false,
            },
        );
        ask(
            &server,
            Request::Close {
                channel: number,
                shared: false,
            },
        );
        // And one that does not come about.
        let intent = intent(&client, at("127.0.0.1:80"));
        if round.is_multiple_of(2) {
            ask(
                &client,
                Request::Announce {
                    intent,
                    from,
                    to: at("127.0.0.1:80"),
                },
            );
        }
        ask(&client, Request::Withdraw { intent });
        if round.is_multiple_of(100) {
            let (region, _) = region(&server, 1 << 20);
            let token = token(&server, region, Rights::ReadWrite);
            ask(&client, Request::Connect { token });
            ask(&server, Request::Release { region });
            notice(&client);
            drop(place.client());
        }
    };
    (0..1000).for_each(cycle);
    let before = (descriptors_now(), resident_kb());
    (1000..11000).for_each(cycle);
    let begin = Instant::now();
    // The last clients that went may not have been noticed yet.
    while descriptors_now() > before.0 {
        assert!(
            begin.elapsed() < PATIENCE,
            "{} descriptors became {}",
            before.0,
            descriptors_now()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    let after = resident_kb();
    assert!(after < before.1 + 2048, "{} KiB became {after}", before.1);
    assert_eq!(sockets(&client).1.len(), 0);
}

#[test]
fn nothing_leaks() {
    let program = std::env::current_exe().expect("this test");
    let output = std::process::Command::new(program)
        .args(["--exact", "leak_cycles", "--ignored", "--nocapture"])
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
}
