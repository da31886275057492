// SPDX-License-Identifier: Apache-2.0
//! Against the memcached of this machine, and against servers that answer wrongly.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mcb::{Command, Error, Job, Transport, run};

/// A memcached of its own, which ends with the test.
struct Server {
    child: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that is free for TCP and UDP.
fn free_port() -> u16 {
    for _ in 0..100 {
        let stream = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = stream.local_addr().expect("it has one").port();
        if UdpSocket::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("found no port that is free for TCP and UDP");
}

/// The process that answers at a port by TCP, if one does.
fn who(port: u16) -> Option<u32> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    stream.write_all(b"stats\r\nquit\r\n").ok()?;
    let mut said = String::new();
    stream.read_to_string(&mut said).ok()?;
    let line = said
        .lines()
        .find_map(|line| line.strip_prefix("STAT pid "))?;
    line.trim().parse().ok()
}

/// Whether somebody answers at a port by UDP, which is opened behind TCP's.
fn answers_datagrams(port: u16) -> bool {
    let ask = || {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        socket.connect(("127.0.0.1", port))?;
        socket.send(b"\0\x01\0\0\0\x01\0\0version\r\n")?;
        socket.recv(&mut [0; 64])
    };
    ask().is_ok()
}

fn memcached(more: &[&str]) -> Server {
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        let port = free_port();
        let text = port.to_string();
        let child = Process::new("memcached")
            .args(["-u", "root", "-l", "127.0.0.1", "-p", &text, "-U", &text])
            .args(more)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("memcached is installed; tools/setup brings it");
        let mut server = Server { child, port };
        // It ends where somebody else has taken the port since.
        while let Ok(None) = server.child.try_wait() {
            if who(port) == Some(server.child.id()) && answers_datagrams(port) {
                return server;
            }
            assert!(Instant::now() < patience, "memcached does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn job(port: u16, command: Command, transport: Transport) -> Job {
    Job {
        command,
        transport,
        port,
        count: 200,
        // Generous: only a hang shall end a test.
        timeout: Duration::from_secs(30),
        ..Job::default()
    }
}

const COMMANDS: [Command; 3] = [Command::Set, Command::Get, Command::Add];
const TRANSPORTS: [Transport; 2] = [Transport::Udp, Transport::Tcp];

#[test]
fn all_commands_sizes_and_transports() {
    let server = memcached(&["-I", "2m"]);
    for transport in TRANSPORTS {
        for command in COMMANDS {
            // 5,000 bytes come back in several datagrams.
            for length in [1, 16, 512, 5_000] {
                let report = run(&Job {
                    length,
                    ..job(server.port, command, transport)
                });
                let report = report.expect("it is measured");
                assert_eq!(
                    (report.count, report.length, report.resent),
                    (200, length, 0)
                );
                assert!(report.ns.mean * 200.0 <= report.elapsed_ns as f64);
                let each = report.ns.each.expect("one by one");
                assert!(
                    0 < each.min
                        && each.min <= each.p50
                        && each.p50 <= each.p99
                        && each.p99 <= each.max
                );
            }
        }
    }
}

#[test]
fn the_longest_values() {
    let server = memcached(&["-I", "2m"]);
    for (transport, length) in [
        (Transport::Udp, mcb::MOST_BY_UDP),
        (Transport::Tcp, mcb::MOST_BY_TCP),
    ] {
        for command in COMMANDS {
            let measured = run(&Job {
                length,
                count: 3,
                keys: 2,
                ..job(server.port, command, transport)
            });
            assert!(measured.is_ok(), "{measured:?}");
        }
    }
}

#[test]
fn threads_share_the_commands() {
    let server = memcached(&[]);
    for transport in TRANSPORTS {
        for command in COMMANDS {
            let report = run(&Job {
                threads: 5,
                count: 203,
                warmup: 3,
                ..job(server.port, command, transport)
            });
            assert_eq!(report.expect("it is measured").count, 203);
        }
    }
}

#[test]
fn all_commands_together() {
    let server = memcached(&[]);
    for threads in [1, 2] {
        let report = run(&Job {
            total: true,
            warmup: 5,
            threads,
            ..job(server.port, Command::Get, Transport::Udp)
        });
        let report = report.expect("it is measured");
        assert_eq!(report.ns.each, None);
        let mean = report.elapsed_ns as f64 * threads as f64 / 200.0;
        assert!((report.ns.mean - mean).abs() < 1e-6);
    }
}

/// It begins when that time has come, and not before; a time that is over is an error.
#[test]
fn clients_begin_together() {
    let server = memcached(&[]);
    let now = || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.expect("it is later than 1970")
    };
    let at = Duration::from_secs(now().as_secs() + 2);
    let together = Job {
        threads: 2,
        at: Some(at),
        ..job(server.port, Command::Get, Transport::Udp)
    };
    assert!(run(&together).is_ok());
    assert!(now() >= at);
    let error = run(&together).expect_err("it is over");
    assert!(
        error.is_usage() && error.to_string().starts_with("--at: "),
        "{error}"
    );
}

#[test]
fn an_add_to_a_fresh_server_needs_no_deletes() {
    let server = memcached(&[]);
    let fresh = Job {
        fresh: true,
        ..job(server.port, Command::Add, Transport::Udp)
    };
    assert!(run(&fresh).is_ok());
    let Err(Error::Wrong {
        got, expected, at, ..
    }) = run(&fresh)
    else {
        panic!("the keys are there already");
    };
    assert_eq!(
        (got.as_str(), expected.as_str(), at),
        (r#""NOT_STORED\r\n""#, r#""STORED\r\n""#, 0)
    );
    // With the deletes it goes.
    assert!(
        run(&Job {
            fresh: false,
            ..fresh
        })
        .is_ok()
    );
}

#[test]
fn nobody_there() {
    let port = free_port();
    for transport in TRANSPORTS {
        let error = run(&job(port, Command::Get, transport)).expect_err("nobody is there");
        assert!(matches!(error, Error::Unreachable { .. }), "{error}");
        assert!(
            error
                .to_string()
                .contains(&format!("port {port} of 127.0.0.1")),
            "{error}"
        );
    }
    let nowhere = Job {
        address: "no.such.host.invalid".to_owned(),
        ..Job::default()
    };
    assert!(matches!(run(&nowhere), Err(Error::Usage(_))));
}

/// A UDP server that gives each request to a function, which says what to send back.
fn impostor(mut answer: impl FnMut(usize, &[u8]) -> Vec<Vec<u8>> + Send + 'static) -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let port = socket.local_addr().expect("it has one").port();
    std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        for number in 0.. {
            let Ok((length, from)) = socket.recv_from(&mut buffer) else {
                return;
            };
            for datagram in answer(number, &buffer[..length]) {
                let _ = socket.send_to(&datagram, from);
            }
        }
    });
    port
}

/// An answer in one datagram, with the request's own number.
fn reply(request: &[u8], text: &[u8]) -> Vec<u8> {
    [&request[..8], text].concat()
}

#[test]
fn a_wrong_answer_is_an_error_that_shows_it() {
    // The value of another length, of another key, and an error of the server.
    for answer in [
        &b"VALUE mcb-0-0 0 15\r\n"[..],
        b"VALUE mcb-0-1 0 16\r\n",
        b"SERVER_ERROR out of memory\r\n",
    ] {
        let port = impostor(move |_, request| {
            let stored = request[8..].starts_with(b"set ");
            vec![reply(request, if stored { b"STORED\r\n" } else { answer })]
        });
        let error = run(&job(port, Command::Get, Transport::Udp)).expect_err("it is wrong");
        let Error::Wrong { place, got, .. } = error else {
            panic!("{error}");
        };
        assert!(place.starts_with("get mcb-0-0 at UDP port"), "{place}");
        let beginning = &answer[..answer.len() - 2];
        assert_eq!(got, format!("\"{}\\r\\n\"", beginning.escape_ascii()));
    }
    let port = impostor(|_, request| vec![reply(request, b"STOR")]);
    let error = run(&job(port, Command::Set, Transport::Udp)).expect_err("half an answer");
    assert!(
        error.to_string().ends_with("the answer ends after 4 bytes"),
        "{error}"
    );
}

#[test]
fn lost_datagrams_are_sent_again_only_if_asked() {
    // Every third request is lost.
    let lossy = || {
        impostor(|number, request| match number % 3 {
            1 => Vec::new(),
            _ if request[8..].starts_with(b"get ") => {
                let text = String::from_utf8_lossy(&request[8..]).into_owned();
                let key = text.trim().trim_start_matches("get ").to_owned();
                let head = format!("VALUE {key} 0 16\r\n").into_bytes();
                let whole = [&head[..], &mcb::value(&key, 16), b"\r\nEND\r\n"].concat();
                vec![reply(request, &whole)]
            }
            _ => vec![reply(request, b"STORED\r\n")],
        })
    };
    let once = Job {
        count: 12,
        keys: 4,
        timeout: Duration::from_millis(50),
        ..job(lossy(), Command::Set, Transport::Udp)
    };
    let error = run(&once).expect_err("one is lost");
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert!(error.to_string().contains("--retries"), "{error}");
    let again = Job {
        retries: 20,
        port: lossy(),
        ..once
    };
    let report = run(&again).expect("all come in the end");
    assert!(report.resent >= 3, "{report:?}");
}

#[test]
fn late_answers_are_passed_over() {
    // Each answer comes twice, and after that of the request before.
    let mut before = None;
    let port = impostor(move |_, request| {
        let now = reply(request, b"STORED\r\n");
        let late = before.replace(now.clone());
        late.into_iter().chain([now.clone(), now]).collect()
    });
    let set = Job {
        keys: 1,
        ..job(port, Command::Set, Transport::Udp)
    };
    // What is read back is no value: everything before was right.
    let error = run(&set).expect_err("the server has no values");
    assert!(
        matches!(&error, Error::Wrong { place, .. } if place.starts_with("get ")),
        "{error}"
    );
}

#[test]
fn a_server_that_hangs_up() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("it has one").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut buffer = [0; 64];
            let _ = stream.read(&mut buffer);
            let _ = stream.write_all(b"STO");
        }
    });
    let error = run(&job(port, Command::Set, Transport::Tcp)).expect_err("it hangs up");
    assert!(matches!(error, Error::Broken { .. }), "{error}");
    assert!(
        error.to_string().contains("after 3 bytes of the answer"),
        "{error}"
    );
}

#[test]
fn a_report_is_json_and_text() {
    let server = memcached(&[]);
    let report = run(&job(server.port, Command::Get, Transport::Tcp)).expect("it is measured");
    let json = serde_json::to_string(&report).expect("it has JSON");
    assert!(!json.contains('\n'));
    let back: mcb::Report = serde_json::from_str(&json).expect("it is a report");
    assert_eq!(back, report);
    assert!(
        report
            .text()
            .starts_with("200 x GET of 16 bytes by TCP to 127.0.0.1:")
    );
}
