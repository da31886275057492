// SPDX-License-Identifier: Apache-2.0
//! Connections that are made, used and ended while the server is still accepting them: what a server reads is what its
//! client sent, no byte more, none less, none twice.
//!
//! `IPNUMA_RACES` is how many connections there are, 3,000 if it is not given; `IPNUMA_SEED` repeats a run's plans.

#[allow(dead_code)]
mod support;

use support::{Daemon, Program};

/// Programs that connect, and the threads of each.
const CLIENTS: u64 = 2;
const THREADS: u64 = 10;
/// Processes that keep processors busy.
const LOADS: usize = 8;
/// So many wrong connections are shown.
const SHOWN: usize = 10;

fn number(variable: &str) -> Option<u64> {
    let given = std::env::var(variable).ok()?;
    let number = given.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable} is {given:?}, which is no number")))
}

/// Makes so many connections beside busy processes; what was wrong, and how many were accelerated.
fn race(count: u64, seed: u64, environment: &[(&str, &str)]) -> (Vec<String>, u64) {
    let daemon = Daemon::start();
    let _load: Vec<Program> = (0..LOADS)
        .map(|_| Program::start(&daemon, &["races", "load"]))
        .collect();
    let each = count / CLIENTS;
    let all = (each * CLIENTS).to_string();
    let server = Program::start_with(&daemon, &["races", "server", &all], environment);
    let line = server.line();
    let port = line.strip_prefix("port ").expect("the server has no port");
    let clients: Vec<Program> = (0..CLIENTS)
        .map(|client| {
            let numbers = [seed, client * each, each, THREADS].map(|number| number.to_string());
            let [seed, first, count, threads] = &numbers;
            let role = ["races", "client", port, seed, first, count, threads];
            Program::start_with(&daemon, &role, environment)
        })
        .collect();
    let mut wrong = Vec::new();
    for (program, name, last) in std::iter::once((&server, "the server", "all ")).chain(
        clients
            .iter()
            .map(|client| (client, "a client", "all were made")),
    ) {
        loop {
            let line = program.line();
            match line.strip_prefix("wrong: ") {
                Some(what) => wrong.push(format!("{name}: {what}")),
                None if line.starts_with(last) => break,
                None => assert_ne!(
                    line, "(ended)",
                    "{name} has ended before its time: {wrong:#?}"
                ),
            }
        }
    }
    let (totals, _) = daemon.sockets();
    (wrong, totals.streams)
}

#[test]
fn no_byte_too_many_and_none_lost_or_doubled() {
    let count = number("IPNUMA_RACES").unwrap_or(3000);
    let seed = number("IPNUMA_SEED").unwrap_or_else(rand::random);
    println!("IPNUMA_SEED={seed}");
    // With spinning, and with every wait a sleep.
    for environment in [&[][..], &[("IPNUMA_SPIN_US", "0")]] {
        let (wrong, accelerated) = race(count / 2, seed, environment);
        println!(
            "{} connections, environment {environment:?}: {accelerated} accelerated, {} wrong",
            count / 2,
            wrong.len()
        );
        assert!(
            wrong.is_empty(),
            "the first wrong ones: {:#?}",
            &wrong[..wrong.len().min(SHOWN)]
        );
        // Over the kernel alone it would prove nothing.
        assert!(accelerated > count / 20, "{accelerated} were accelerated");
    }
}
