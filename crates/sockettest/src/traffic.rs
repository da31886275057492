// SPDX-License-Identifier: Apache-2.0
//! Programs for the tests of faults: a server that sends back what it gets, and a client that does what it is told
//! line by line. Both say what happened, also when a call fails; who started them decides whether that is right.

use crate::support::prelude::*;
use std::io::BufRead;

/// Accepts for ever and serves each connection in a thread; ends are told by a line each. With a limit of
/// descriptors it says when there are none, and goes on as soon as there are.
pub fn serve(limit: u64) -> Outcome {
    if limit > 0 {
        limit_descriptors(limit)?;
    }
    let (listener, address) = listener_at(&Address::v4(0), 1024)?;
    println!("port {}", address.port());
    let mut exhausted = false;
    loop {
        match accept(listener) {
            Ok(fd) => {
                exhausted = false;
                std::thread::Builder::new()
                    .stack_size(128 * 1024)
                    .spawn(move || mirror(fd))?;
            }
            Err(Errno(EMFILE)) => {
                if !std::mem::replace(&mut exhausted, true) {
                    println!("exhausted");
                }
                pause(5);
            }
            Err(errno) => println!("accept {errno:?}"),
        }
    }
}

fn mirror(fd: Fd) {
    let end = loop {
        match recv(fd, 4096, 0) {
            Ok(bytes) if bytes.is_empty() => break "in order".to_string(),
            Ok(bytes) => {
                if let Err(errno) = send_all(fd, &bytes) {
                    break format!("{errno:?}");
                }
            }
            Err(errno) => break format!("{errno:?}"),
        }
    };
    if end != "in order" {
        println!("ended {end}");
    }
    if let Err(errno) = close(fd) {
        println!("close {errno:?}");
    }
}

/// Does what its standard input says; answers each line with a line.
///
/// `connect PORT` answers `connected FD`, `exchange FD COUNT` answers `exchanged`, `cycles PORT COUNT` answers `cycled`,
/// `close FD` answers `closed`; any may answer `error NAME`.
pub fn commands() -> Outcome {
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        let number = |word: &str| {
            word.parse::<i32>()
                .map_err(|_| Failure::new(format!("{word} is no number")))
        };
        let answer = match words[..] {
            ["connect", port] => {
                client(&Address::v4(number(port)? as u16)).map(|fd| format!("connected {fd}"))
            }
            ["exchange", fd, count] => {
                exchange(number(fd)?, number(count)?).map(|()| "exchanged".into())
            }
            ["cycles", port, count] => {
                cycles(number(port)? as u16, number(count)?).map(|()| "cycled".into())
            }
            ["close", fd] => close(number(fd)?).map(|()| "closed".into()),
            _ => return Err(Failure::new(format!("there is no command {line:?}"))),
        };
        println!(
            "{}",
            answer.unwrap_or_else(|errno| format!("error {errno:?}"))
        );
    }
    Ok(())
}

/// Round trips of blocks with many sizes.
fn exchange(fd: Fd, count: i32) -> Call<()> {
    for round in 0..count {
        let block = pattern(1 + (round as usize * 37) % 3000);
        send_all(fd, &block)?;
        let back = recv_all(fd, block.len())?;
        if back != block {
            return Err(Errno(if back.len() < block.len() {
                ECONNRESET
            } else {
                libc::EIO
            }));
        }
    }
    Ok(())
}

fn cycles(port: u16, count: i32) -> Call<()> {
    for round in 0..count {
        let fd = client(&Address::v4(port))?;
        exchange(fd, 1)?;
        if round % 3 == 0 {
            shutdown(fd, SHUT_WR)?;
            recv(fd, 1, 0)?;
        }
        close(fd)?;
    }
    Ok(())
}
