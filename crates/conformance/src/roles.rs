// SPDX-License-Identifier: Apache-2.0
//! The other side of a case as a program of its own, with the library or without it.

use crate::support::outcome::{Failure, Outcome};
use crate::support::prelude::*;

/// Plays the role with its arguments.
pub fn play(role: &[String]) -> Outcome {
    let words: Vec<&str> = role.iter().map(String::as_str).collect();
    let number = |word: &str| {
        word.parse::<u64>()
            .map_err(|_| Failure::new(format!("{word} is no number")))
    };
    match words[..] {
        ["client", port] => client_role(number(port)? as u16),
        ["echo"] => echo_role(),
        ["echo-datagrams", count] => echo_datagrams(number(count)?),
        ["datagrams", port, count] => datagrams(number(port)? as u16, number(count)?),
        ["close", fd] => close_role(number(fd)? as Fd),
        ["server", limit] => crate::traffic::serve(number(limit)?, 0),
        ["server", limit, port] => crate::traffic::serve(number(limit)?, number(port)? as u16),
        ["commands"] => crate::traffic::commands(),
        ["door"] => crate::traffic::door(),
        ["races", ref rest @ ..] => crate::races::play(rest),
        ["knock", socket] => crate::daemon::knock(std::path::Path::new(socket)),
        ["swallow", fd] => swallow(number(fd)? as Fd),
        ["inherited-set", fd] => crate::cases::inherited_set(number(fd)? as Fd),
        ["inherited-member", set, fd] => {
            crate::cases::inherited_member(number(set)? as Fd, number(fd)? as Fd)
        }
        ["mirror", fd] => mirror(number(fd)? as Fd),
        ["killed", port] => killed(number(port)? as u16),
        ["daemon", socket] => crate::daemon::serve(std::path::Path::new(socket), None),
        ["daemon", socket, loss, seed] => {
            let far = loss.parse().ok().zip(seed.parse().ok());
            crate::daemon::serve(std::path::Path::new(socket), far)
        }
        ["machine", socket, address, loss, seed, patience, keys] => {
            let address = address.parse().map_err(Failure::new)?;
            let loss = (number(loss)? as u32, number(seed)?);
            let socket = std::path::Path::new(socket);
            let keys = std::path::Path::new(keys);
            crate::daemon::machine(socket, address, loss, number(patience)?, keys)
        }
        ["property", seed] => crate::property::play(number(seed)?),
        _ => Err(Failure::new(format!("there is no role {words:?}"))),
    }
}

/// Connects, says hello, receives a thousand bytes, says so to both sides.
fn client_role(port: u16) -> Outcome {
    let fd = client(&Address::v4(port))?;
    send_all(fd, b"hello")?;
    let got = recv_all(fd, 1000)?;
    holds!(got == pattern(1000), "{} bytes came, or others", got.len());
    println!("{} bytes", got.len());
    send_all(fd, b"done")?;
    Ok(close(fd)?)
}

/// Accepts one connection and sends back what comes until its end.
fn echo_role() -> Outcome {
    let (listener, address) = listener()?;
    println!("port {}", address.port());
    let fd = accept(listener)?;
    loop {
        let bytes = recv(fd, 20_000, 0)?;
        if bytes.is_empty() {
            return Ok(close(fd)?);
        }
        send_all(fd, &bytes)?;
    }
}

fn echo_datagrams(count: u64) -> Outcome {
    let (fd, address) = datagram()?;
    println!("port {}", address.port());
    for _ in 0..count {
        let (bytes, from) = recvfrom(fd, 70_000, 0)?;
        sendto(fd, &bytes, 0, &from)?;
    }
    Ok(())
}

fn datagrams(port: u16, count: u64) -> Outcome {
    let fd = socket(AF_INET, SOCK_DGRAM)?;
    for _ in 0..count {
        sendto(fd, b"plain", 0, &Address::v4(port))?;
    }
    println!("sent");
    Ok(())
}

/// Takes all that comes through a connection that it was started with, and says how much.
fn swallow(fd: Fd) -> Outcome {
    println!("{} bytes", recv_all(fd, 1_000_000)?.len());
    Ok(())
}

/// Goes on with a connection that it was started with: sends back what comes until its end.
fn mirror(fd: Fd) -> Outcome {
    println!("ready");
    loop {
        let bytes = recv(fd, 1000, 0)?;
        if bytes.is_empty() {
            return Ok(close(fd)?);
        }
        send_all(fd, &bytes)?;
    }
}

/// Closes a descriptor that it was started with.
fn close_role(fd: Fd) -> Outcome {
    close(fd)?;
    println!("closed");
    Ok(())
}

/// Connects, says hello and kills itself.
fn killed(port: u16) -> Outcome {
    let fd = client(&Address::v4(port))?;
    send_all(fd, b"hello")?;
    // SAFETY: ends this process.
    unsafe { libc::raise(libc::SIGKILL) };
    Ok(())
}
