// SPDX-License-Identifier: Apache-2.0
//! Listeners and connected pairs, and whole transfers over them.

use super::address::Address;
use super::errno::{Call, Errno};
use super::outcome::{Failure, Outcome};
use super::seen;
use super::sys::*;
pub use super::wait::{Selected, eventually, poll, poll_one, ppoll, pselect, select};
use std::time::Duration;

/// A socket that listens at 127.0.0.1, and where.
pub fn listener() -> Call<(Fd, Address)> {
    listener_at(&Address::v4(0), 16)
}

/// A socket that listens at an address, and at which port it does.
pub fn listener_at(address: &Address, backlog: i32) -> Call<(Fd, Address)> {
    let fd = socket(address.family(), SOCK_STREAM)?;
    bind(fd, address)?;
    listen(fd, backlog)?;
    Ok((fd, getsockname(fd)?))
}

/// A new stream socket connected to the address.
pub fn client(to: &Address) -> Call<Fd> {
    let fd = socket(to.family(), SOCK_STREAM)?;
    connect(fd, to)?;
    Ok(fd)
}

/// A connected pair of stream sockets: client, server. The listener is closed.
pub fn pair() -> Call<(Fd, Fd)> {
    let (listener, address) = listener()?;
    let pair = pair_at(listener, &address)?;
    close(listener)?;
    Ok(pair)
}

/// A connected pair through this listener: client, server.
pub fn pair_at(listener: Fd, address: &Address) -> Call<(Fd, Fd)> {
    let client = client(address)?;
    let server = accept(listener)?;
    seen::stream(server);
    Ok((client, server))
}

/// A datagram socket bound to 127.0.0.1, and where.
pub fn datagram() -> Call<(Fd, Address)> {
    let fd = socket(AF_INET, SOCK_DGRAM)?;
    bind(fd, &Address::v4(0))?;
    Ok((fd, getsockname(fd)?))
}

/// Two datagram sockets, each connected to the other, which have exchanged nothing yet.
pub fn datagram_pair() -> Call<(Fd, Fd)> {
    let ((left, left_at), (right, right_at)) = (datagram()?, datagram()?);
    connect(left, &right_at)?;
    connect(right, &left_at)?;
    Ok((left, right))
}

/// Sends all of it.
pub fn send_all(fd: Fd, mut bytes: &[u8]) -> Call<()> {
    while !bytes.is_empty() {
        let count = send(fd, bytes, MSG_NOSIGNAL)?;
        bytes = &bytes[count..];
    }
    Ok(())
}

/// Receives exactly this much, or less at the end of the stream.
pub fn recv_all(fd: Fd, len: usize) -> Call<Vec<u8>> {
    let mut all = Vec::with_capacity(len);
    while all.len() < len {
        let bytes = recv(fd, len - all.len(), 0)?;
        if bytes.is_empty() {
            break;
        }
        all.extend_from_slice(&bytes);
    }
    Ok(all)
}

/// Waits until that many bytes can be read.
#[track_caller]
pub fn arrived(fd: Fd, bytes: usize) -> Outcome {
    eventually("the bytes arrived", || fionread(fd) == Ok(bytes))
}

/// Waits until the descriptor can be read, at most five seconds.
#[track_caller]
pub fn readable(fd: Fd) -> Outcome {
    match poll_one(fd, POLLIN, 5000) {
        Ok(0) => Err(Failure::new("nothing could be read within five seconds")),
        Ok(_) => Ok(()),
        Err(errno) => Err(Failure::new(format!("poll failed with {errno:?}"))),
    }
}

/// Nothing can be read now, and not shortly after.
#[track_caller]
pub fn quiet(fd: Fd) -> Outcome {
    match poll_one(fd, POLLIN, 20) {
        Ok(0) => Ok(()),
        other => Err(Failure::new(format!(
            "poll gave {other:?} where nothing was expected"
        ))),
    }
}

/// How often in a row, 30 ms apart, a full socket must take nothing: the kernel asks a closed window again after
/// 200 ms, and the receiver then puts its small pieces together and has room.
const FULL_ROUNDS: usize = 12;

/// Sends until the socket takes no more, without blocking; gives how much it took.
pub fn fill(fd: Fd) -> Call<usize> {
    let block = vec![b'f'; 16384];
    let mut total = 0;
    let mut rounds = 0;
    while rounds < FULL_ROUNDS {
        let before = total;
        // Where a block does not fit a few bytes may.
        for size in [block.len(), 1] {
            loop {
                match send(fd, &block[..size], MSG_DONTWAIT | MSG_NOSIGNAL) {
                    Ok(count) => total += count,
                    Err(Errno(libc::EAGAIN)) => break,
                    Err(errno) => return Err(errno),
                }
            }
        }
        rounds = if total == before { rounds + 1 } else { 0 };
        // Not all room is told: the kernel calls a socket writable from a third of its buffer on.
        poll_one(fd, POLLOUT, 30)?;
    }
    Ok(total)
}

/// The exchange of a few bytes both ways: the connection works.
#[track_caller]
pub fn echo(left: Fd, right: Fd) -> Outcome {
    let place = |text: String| Failure::new(text);
    for (from, to) in [(left, right), (right, left)] {
        if send(from, b"echo", 0) != Ok(4) {
            return Err(place(format!("could not send from {from} to {to}")));
        }
        // A nonblocking socket would not wait for what is under way.
        readable(to)?;
        match recv_all(to, 4) {
            Ok(bytes) if bytes == b"echo" => {}
            other => {
                return Err(place(format!(
                    "sent echo from {from} to {to}, which received {other:?}"
                )));
            }
        }
    }
    Ok(())
}

/// Bytes that show where they are in a stream.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len)
        .map(|index| (index.wrapping_mul(31) ^ (index >> 8)) as u8)
        .collect()
}

/// A short time for calls that are to run into their timeout.
pub const SHORT: Duration = Duration::from_millis(40);
