// SPDX-License-Identifier: Apache-2.0
//! Programs for the tests of faults: a server that sends back what it gets, and a client that does what it is told
//! line by line. Both say what happened, also when a call fails; who started them decides whether that is right.

use crate::support::prelude::*;
use std::io::BufRead;

/// Accepts for ever and serves each connection in a thread; ends are told by a line each. With a limit of
/// descriptors it says when there are none, and goes on as soon as there are.
pub fn serve(limit: u64, port: u16) -> Outcome {
    if limit > 0 {
        limit_descriptors(limit)?;
    }
    let (listener, address) = listener_at(&Address::v4(port), 1024)?;
    // Where datagrams are sent back, too.
    let datagrams = socket(AF_INET, SOCK_DGRAM)?;
    bind(datagrams, &Address::v4(address.port()))?;
    std::thread::spawn(move || send_datagrams_back(datagrams));
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

fn send_datagrams_back(fd: Fd) {
    loop {
        match recvfrom(fd, 65_536, 0) {
            Ok((bytes, from)) => {
                if let Err(errno) = sendto(fd, &bytes, 0, &from) {
                    println!("sendto {errno:?}");
                }
            }
            Err(errno) => println!("recvfrom {errno:?}"),
        }
    }
}

/// Sends so many datagrams, up to 16 at once, and says how many came back, and how many of these are not as they were sent.
fn datagrams(fd: Fd, port: u16, count: i32) -> Call<String> {
    let to = Address::v4(port);
    let (mut back, mut garbled) = (0, 0);
    let mut sent = 0;
    while sent < count {
        let first = sent;
        while sent < count && sent - first < 1 + first % 16 {
            // Some are longer than a ring takes.
            let length = match sent % 97 {
                96 => 60_000,
                other => other * 29,
            };
            sendto(fd, &datagram(sent, length as usize), 0, &to)?;
            sent += 1;
        }
        for _ in first..sent {
            if poll_one(fd, libc::POLLIN, 2_000)? == 0 {
                break;
            }
            let (bytes, from) = recvfrom(fd, 65_536, 0)?;
            let number = bytes
                .first_chunk()
                .map(|number| i32::from_le_bytes(*number));
            let right = number.is_some_and(|number| {
                (first..sent).contains(&number) && bytes == datagram(number, bytes.len() - 4)
            });
            garbled += i32::from(!right || from != to);
            back += 1;
        }
    }
    Ok(format!("back {back} garbled {garbled}"))
}

fn datagram(number: i32, length: usize) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend(pattern(length));
    bytes
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
/// `send FD COUNT` answers `sent`, `drain FD` answers as at a [`door`], `close FD` answers `closed`; `socket ADDRESS` answers `socket FD`, of
/// datagrams, and `datagrams FD PORT COUNT` `back COUNT garbled COUNT`. Any may answer `error NAME`.
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
            ["send", fd, count] => {
                send_all(number(fd)?, &pattern(number(count)? as usize)).map(|()| "sent".into())
            }
            ["drain", fd] => {
                let fd = number(fd)?;
                Ok(drain(|| recv(fd, 4096, 0)))
            }
            ["socket", host] => {
                let host: std::net::IpAddr = host.parse().map_err(Failure::new)?;
                let at = std::net::SocketAddr::from((host, 0)).into();
                socket(AF_INET, SOCK_DGRAM)
                    .and_then(|fd| bind(fd, &at).map(|()| format!("socket {fd}")))
            }
            ["datagrams", fd, port, count] => {
                datagrams(number(fd)?, number(port)? as u16, number(count)?)
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

/// Listens, and does what its standard input says.
///
/// `accept` answers `accepted FD`, and so does `accept plain`, which goes past the library, as a program without it would.
/// `drain FD` and `drain plain FD` read until the end, close, and answer how many bytes came, and `in order` or the error.
/// `send FD COUNT` and `send plain FD COUNT` answer `sent`, `close FD` and `close plain FD` answer `closed`.
/// `receive plain FD COUNT` waits for so many bytes, and answers `received COUNT`.
pub fn door() -> Outcome {
    let (listener, address) = listener_at(&Address::v4(0), 64)?;
    println!("port {}", address.port());
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        let number = |word: &str| {
            word.parse::<i32>()
                .map_err(|_| Failure::new(format!("{word} is no number")))
        };
        let answer = match words[..] {
            ["accept"] => accept(listener).map(|fd| format!("accepted {fd}")),
            ["accept", "plain"] => plain::accept(listener).map(|fd| format!("accepted {fd}")),
            ["drain", fd] => {
                let fd = number(fd)?;
                let said = drain(|| recv(fd, 4096, 0));
                close(fd).map(|()| said)
            }
            ["drain", "plain", fd] => {
                let fd = number(fd)?;
                let said = drain(|| plain::read(fd));
                plain::close(fd).map(|()| said)
            }
            ["send", fd, count] => {
                send_all(number(fd)?, &pattern(number(count)? as usize)).map(|()| "sent".into())
            }
            ["send", "plain", fd, count] => {
                plain::write(number(fd)?, &pattern(number(count)? as usize)).map(|()| "sent".into())
            }
            ["close", fd] => close(number(fd)?).map(|()| "closed".into()),
            ["receive", "plain", fd, count] => {
                let (fd, count) = (number(fd)?, number(count)? as usize);
                plain::read_all(fd, count).map(|got| format!("received {got}"))
            }
            ["close", "plain", fd] => plain::close(number(fd)?).map(|()| "closed".into()),
            _ => return Err(Failure::new(format!("there is no command {line:?}"))),
        };
        println!(
            "{}",
            answer.unwrap_or_else(|errno| format!("error {errno:?}"))
        );
    }
    Ok(())
}

/// Reads until the end: how many bytes came, and how it ended.
fn drain(mut read: impl FnMut() -> Call<Vec<u8>>) -> String {
    let mut all = Vec::new();
    loop {
        match read() {
            Ok(bytes) if bytes.is_empty() => {
                let right = all == pattern(all.len());
                let end = if right { "in order" } else { "garbled" };
                return format!("{} {end}", all.len());
            }
            Ok(bytes) => all.extend(bytes),
            Err(errno) => return format!("{} {errno:?}", all.len()),
        }
    }
}

/// System calls of which the library does not know.
mod plain {
    use crate::support::prelude::*;

    fn call(number: libc::c_long, fd: Fd, at: *mut u8, length: usize) -> Call<usize> {
        // SAFETY: callers pass null, or memory of `length` bytes.
        let result = unsafe { libc::syscall(number, fd, at, length, 0) };
        usize::try_from(result).map_err(|_| {
            let error = std::io::Error::last_os_error();
            Errno(error.raw_os_error().unwrap_or(libc::EIO))
        })
    }

    pub fn accept(listener: Fd) -> Call<Fd> {
        call(libc::SYS_accept4, listener, std::ptr::null_mut(), 0).map(|fd| fd as Fd)
    }

    pub fn read(fd: Fd) -> Call<Vec<u8>> {
        let mut room = vec![0; 4096];
        let count = call(libc::SYS_read, fd, room.as_mut_ptr(), room.len())?;
        room.truncate(count);
        Ok(room)
    }

    /// Reads so many bytes, or until the end: how many came that are right.
    pub fn read_all(fd: Fd, count: usize) -> Call<usize> {
        let mut all = Vec::new();
        while all.len() < count {
            let bytes = read(fd)?;
            if bytes.is_empty() {
                break;
            }
            all.extend(bytes);
        }
        let right = all.iter().zip(pattern(all.len()));
        Ok(right.take_while(|(came, sent)| **came == *sent).count())
    }

    pub fn write(fd: Fd, bytes: &[u8]) -> Call<()> {
        let mut bytes = bytes.to_vec();
        let mut done = 0;
        while done < bytes.len() {
            let rest = &mut bytes[done..];
            done += call(libc::SYS_write, fd, rest.as_mut_ptr(), rest.len())?;
        }
        Ok(())
    }

    pub fn close(fd: Fd) -> Call<()> {
        call(libc::SYS_close, fd, std::ptr::null_mut(), 0).map(|_| ())
    }
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
