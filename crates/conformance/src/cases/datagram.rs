// SPDX-License-Identifier: Apache-2.0
//! UDP: boundaries, sources, filters.

use crate::support::prelude::*;
use crate::support::seen;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

cases! { "datagram";
    boundaries Accelerated "each datagram is received alone, whole and in order"
    source Accelerated "recvfrom and recvmsg give the sender's address"
    reply Accelerated "a reply to the source address arrives: request and answer"
    truncated Accelerated "a datagram larger than the room is cut, MSG_TRUNC is set, the rest is gone"
    truncated_count Accelerated "recv with MSG_TRUNC gives the true length"
    empty Accelerated "a datagram of no bytes is a datagram"
    peek Accelerated "MSG_PEEK leaves the datagram, and its source"
    scattered Accelerated "recvmsg scatters a datagram over vectors, sendmsg gathers one"
    large Accelerated "datagrams of every size up to 65507 bytes arrive, by whatever way"
    too_large Accelerated "a datagram of 65508 bytes fails with EMSGSIZE"
    connected Accelerated "connected sockets exchange datagrams with send and recv"
    connected_filter Accelerated "a connected socket receives from its peer only"
    connected_name Accelerated "getpeername of a connected socket; sendto elsewhere still works"
    reconnect Accelerated "connect again changes the peer"
    dissolve Accelerated "connect to AF_UNSPEC dissolves the connection"
    no_peer Any "send without a destination fails with EDESTADDRREQ"
    refused Any "a datagram to nobody gives ECONNREFUSED on a connected socket"
    receiver_closed Any "datagrams to a receiver that was closed are refused or lost, never an error for good"
    many_senders Accelerated "ten sockets send to one; each source is right, nothing is lost"
    many_receivers Accelerated "one socket sends to ten"
    two_sockets_interleaved Accelerated "datagrams of a plain process and of this one arrive at one socket"
    multiple_messages Accelerated "sendmmsg and recvmmsg carry several datagrams with names"
    multiple_wait Accelerated "recvmmsg with MSG_WAITFORONE gives what is there"
    dont_wait Accelerated "MSG_DONTWAIT and O_NONBLOCK with nothing there fail with EAGAIN"
    receive_timeout Accelerated "SO_RCVTIMEO ends a blocked recv with EAGAIN"
    blocking Accelerated "a blocked recvfrom wakes when a datagram comes"
    blocking_again_and_again Accelerated "request and answer a thousand times, with sleeps between"
    in_order Accelerated "datagrams of one sender keep their order, whether the receiver sleeps or not"
    inquiry Accelerated "FIONREAD gives the length of the next datagram"
    autobind Accelerated "the first send binds the socket; the answer finds it"
    wildcard Accelerated "a receiver at 0.0.0.0 is reached at 127.0.0.1"
    ipv6 Accelerated "datagrams over ::1"
    mapped Accelerated "an IPv6 socket receives from IPv4 senders with mapped addresses"
    shutdown_read Accelerated "shutdown of reading wakes a blocked recv with nothing, if connected"
    overflow Accelerated "more datagrams than fit are lost, the first ones are there, and it goes on"
    poll_edge Accelerated "epoll edge-triggered with a drain loop loses no datagram"
    closed_sender Accelerated "datagrams of a sender that has closed are still there"
    receiver_late Accelerated "a socket bound again at the same address receives again"
    packet_info Any "IP_PKTINFO gives the destination address as ancillary data"
    multicast Any "a datagram to a multicast group reaches its members on loopback, or there is no route"
    broadcast Any "a broadcast without SO_BROADCAST fails with EACCES"
    reuse_port Any "two sockets with SO_REUSEPORT at one address: each datagram reaches one"
    reuse_port_spreads Any "64 senders to two sockets with SO_REUSEPORT at one address: both are reached"
    zero_room Accelerated "recv into no room takes a datagram"
    names Accelerated "getsockname of a socket bound to port 0 has a port"
}

/// A sender that is bound, and a receiver.
pub(super) fn two() -> Call<(Fd, Address, Fd, Address)> {
    let ((left, left_at), (right, right_at)) = (datagram()?, datagram()?);
    Ok((left, left_at, right, right_at))
}

/// Fewer datagrams than any way has room for: on a busy machine a receiver can be late, and what finds no room is lost.
const AHEAD: u32 = 100;

/// Before a sender gets too far ahead of its receivers.
pub(super) fn hold_back(sent: u32, taken: &AtomicU32) -> Outcome {
    if !sent.is_multiple_of(50) {
        return Ok(());
    }
    eventually("a receiver has taken what was sent", || {
        sent < taken.load(Ordering::Acquire) + AHEAD
    })
}

pub(super) fn look(from: &Address, to: &Address) {
    if let (Some(from), Some(to)) = (from.socket_addr(), to.socket_addr()) {
        seen::datagrams(from, to);
    }
}

fn boundaries() -> Outcome {
    let (left, left_at, right, right_at) = two()?;
    for size in [1, 55, 56, 57, 64, 200, 1400, 9000] {
        sendto(left, &pattern(size), 0, &right_at)?;
    }
    look(&left_at, &right_at);
    for size in [1, 55, 56, 57, 64, 200, 1400, 9000] {
        gets!(recv(right, 20_000, 0), pattern(size));
    }
    fails!(recv(right, 10, MSG_DONTWAIT), EAGAIN);
    Ok(())
}

fn source() -> Outcome {
    let (left, left_at, right, right_at) = two()?;
    sendto(left, b"one", 0, &right_at)?;
    sendto(left, b"two", 0, &right_at)?;
    look(&left_at, &right_at);
    let (bytes, from) = recvfrom(right, 10, 0)?;
    same!(bytes, b"one");
    same!((from, from.len), (left_at, 16));
    let message = recvmsg(right, &[10], 0)?;
    same!(message.bytes, b"two");
    same!((message.from, message.name_len), (left_at, 16));
    Ok(())
}

fn reply() -> Outcome {
    let (left, left_at, right, right_at) = two()?;
    let server = thread(move || {
        for _ in 0..10 {
            let (bytes, from) = recvfrom(right, 100, 0)?;
            sendto(right, &bytes, 0, &from)?;
        }
        Ok(())
    });
    for round in 0..10u8 {
        sendto(left, &[round; 20], 0, &right_at)?;
        let (bytes, from) = recvfrom(left, 100, 0)?;
        same!((bytes, from), (vec![round; 20], right_at));
    }
    look(&left_at, &right_at);
    look(&right_at, &left_at);
    server.join()
}

fn truncated() -> Outcome {
    let (left, left_at, right, right_at) = two()?;
    sendto(left, &pattern(100), 0, &right_at)?;
    sendto(left, b"next", 0, &right_at)?;
    look(&left_at, &right_at);
    let message = recvmsg(right, &[10], 0)?;
    same!(
        (message.bytes, message.flags & MSG_TRUNC),
        (pattern(10), MSG_TRUNC)
    );
    let message = recvmsg(right, &[10], 0)?;
    same!((message.bytes, message.flags), (b"next".to_vec(), 0));
    sendto(left, &pattern(3000), 0, &right_at)?;
    gets!(recv(right, 10, 0), pattern(10));
    fails!(recv(right, 10, MSG_DONTWAIT), EAGAIN);
    Ok(())
}

fn truncated_count() -> Outcome {
    let (left, left_at, right, right_at) = two()?;
    sendto(left, &pattern(500), 0, &right_at)?;
    look(&left_at, &right_at);
    let mut room = [0u8; 10];
    // SAFETY: room for ten bytes.
    let count = unsafe { libc::recv(right, room.as_mut_ptr().cast(), 10, MSG_TRUNC | MSG_PEEK) };
    same!(count, 500);
    let message = recvmsg(right, &[10], MSG_TRUNC)?;
    same!((message.count, message.bytes), (500, pattern(10)));
    Ok(())
}

fn empty() -> Outcome {
    let (left, left_at, right, right_at) = two()?;
    same!(sendto(left, b"", 0, &right_at), Ok(0));
    same!(sendto(left, b"x", 0, &right_at), Ok(1));
    look(&left_at, &right_at);
    readable(right)?;
    let (bytes, from) = recvfrom(right, 10, 0)?;
    same!((bytes, from), (vec![], left_at));
    gets!(recv(right, 10, 0), b"x");
    Ok(())
}

fn peek() -> Outcome {
    let (left, left_at, right, right_at) = two()?;
    sendto(left, b"first", 0, &right_at)?;
    sendto(left, b"second", 0, &right_at)?;
    look(&left_at, &right_at);
    gets!(recv(right, 3, MSG_PEEK), b"fir");
    same!(
        recvfrom(right, 10, MSG_PEEK),
        Ok((b"first".to_vec(), left_at))
    );
    same!(recvfrom(right, 10, 0), Ok((b"first".to_vec(), left_at)));
    gets!(recv(right, 10, 0), b"second");
    Ok(())
}

fn scattered() -> Outcome {
    let (left, left_at, right, right_at) = two()?;
    same!(
        sendmsg(left, &[b"abc", b"", b"defg"], Some(&right_at), 0),
        Ok(7)
    );
    look(&left_at, &right_at);
    let message = recvmsg(right, &[2, 0, 100], 0)?;
    same!(
        (message.bytes, message.from),
        (b"abcdefg".to_vec(), left_at)
    );
    connect(left, &right_at)?;
    same!(writev(left, &[b"one", b"two"]), Ok(6));
    same!(readv(right, &[4, 10])?.concat(), b"onetwo");
    Ok(())
}

fn large() -> Outcome {
    let (left, left_at, right, right_at) = two()?;
    for size in [4000, 8192, 16_000, 16_384, 16_385, 40_000, 65_507] {
        same!(sendto(left, &pattern(size), 0, &right_at), Ok(size));
        readable(right)?;
        let (bytes, from) = recvfrom(right, 70_000, 0)?;
        holds!(
            bytes == pattern(size),
            "{} of {size} bytes came, or others",
            bytes.len()
        );
        same!(from, left_at);
    }
    look(&left_at, &right_at);
    Ok(())
}

fn too_large() -> Outcome {
    let (left, left_at, right, right_at) = two()?;
    sendto(left, b"x", 0, &right_at)?;
    look(&left_at, &right_at);
    fails!(sendto(left, &[0; 65_508], 0, &right_at), EMSGSIZE);
    gets!(recv(right, 10, 0), b"x");
    Ok(())
}

fn connected() -> Outcome {
    let (left, right) = datagram_pair()?;
    for round in 0..5u8 {
        same!(send(left, &[round], 0), Ok(1));
        gets!(recv(right, 10, 0), [round]);
        same!(write(right, &[round; 2]), Ok(2));
        gets!(read(left, 10), [round; 2]);
    }
    look(&getsockname(left)?, &getsockname(right)?);
    look(&getsockname(right)?, &getsockname(left)?);
    Ok(())
}

fn connected_filter() -> Outcome {
    let (left, right) = datagram_pair()?;
    let (stranger, _) = datagram()?;
    let right_at = getsockname(right)?;
    sendto(stranger, b"not for you", 0, &right_at)?;
    send(left, b"for you", 0)?;
    look(&getsockname(left)?, &right_at);
    gets!(recv(right, 20, 0), b"for you");
    quiet(right)
}

fn connected_name() -> Outcome {
    let (left, left_at, right, right_at) = two()?;
    let (other, other_at) = datagram()?;
    connect(left, &right_at)?;
    same!(getpeername(left), Ok(right_at));
    same!(sendto(left, b"elsewhere", 0, &other_at), Ok(9));
    same!(send(left, b"peer", 0), Ok(4));
    look(&left_at, &right_at);
    same!(recvfrom(other, 20, 0), Ok((b"elsewhere".to_vec(), left_at)));
    gets!(recv(right, 20, 0), b"peer");
    Ok(())
}

fn reconnect() -> Outcome {
    let (left, left_at, right, right_at) = two()?;
    let (other, other_at) = datagram()?;
    connect(left, &right_at)?;
    send(left, b"one", 0)?;
    look(&left_at, &right_at);
    connect(left, &other_at)?;
    send(left, b"two", 0)?;
    gets!(recv(right, 10, 0), b"one");
    gets!(recv(other, 10, 0), b"two");
    sendto(right, b"filtered", 0, &left_at)?;
    sendto(other, b"taken", 0, &left_at)?;
    gets!(recv(left, 10, 0), b"taken");
    quiet(left)
}

fn dissolve() -> Outcome {
    let (left, left_at, right, right_at) = two()?;
    let (other, _) = datagram()?;
    connect(left, &right_at)?;
    send(left, b"one", 0)?;
    look(&left_at, &right_at);
    connect(left, &Address::unspecified())?;
    fails!(getpeername(left), ENOTCONN);
    fails!(send(left, b"x", 0), libc::EDESTADDRREQ);
    // Dissolving keeps the port where it was bound by name, and the filter is gone.
    let left_at = Address::v4(getsockname(left)?.port());
    holds!(left_at.port() != 0);
    sendto(other, b"anybody", 0, &left_at)?;
    gets!(recv(left, 10, 0), b"anybody");
    gets!(recv(right, 10, 0), b"one");
    Ok(())
}

fn no_peer() -> Outcome {
    let (fd, _) = datagram()?;
    fails!(send(fd, b"x", 0), libc::EDESTADDRREQ);
    fails!(write(fd, b"x"), libc::EDESTADDRREQ);
    fails!(getpeername(fd), ENOTCONN);
    Ok(())
}

fn refused() -> Outcome {
    let (gone, address) = datagram()?;
    close(gone)?;
    let fd = socket(AF_INET, SOCK_DGRAM)?;
    connect(fd, &address)?;
    same!(send(fd, b"x", 0), Ok(1));
    readable(fd)?;
    fails!(recv(fd, 10, 0), ECONNREFUSED);
    fails!(recv(fd, 10, MSG_DONTWAIT), EAGAIN);
    Ok(())
}

fn receiver_closed() -> Outcome {
    let (left, _, right, right_at) = two()?;
    connect(left, &right_at)?;
    send(left, b"before", 0)?;
    gets!(recv(right, 10, 0), b"before");
    close(right)?;
    for _ in 0..5 {
        match send(left, b"after", 0) {
            Ok(5) => {}
            other => fails!(other, ECONNREFUSED),
        }
        pause(2);
    }
    let (again, again_at) = datagram()?;
    sendto(left, b"other", 0, &again_at).or_else(|_| sendto(left, b"other", 0, &again_at))?;
    gets!(recv(again, 10, 0), b"other");
    Ok(())
}

fn many_senders() -> Outcome {
    let (right, right_at) = datagram()?;
    let senders: Vec<_> = (0..10).map(|_| datagram()).collect::<Call<_>>()?;
    for round in 0..20u8 {
        for (index, (fd, _)) in senders.iter().enumerate() {
            sendto(*fd, &[index as u8, round], 0, &right_at)?;
        }
        let mut next = [false; 10];
        for _ in 0..10 {
            let (bytes, from) = recvfrom(right, 10, 0)?;
            let index = usize::from(bytes[0]);
            same!((from, bytes[1]), (senders[index].1, round));
            holds!(!std::mem::replace(&mut next[index], true));
        }
    }
    for (_, address) in &senders {
        look(address, &right_at);
    }
    Ok(())
}

fn many_receivers() -> Outcome {
    let (left, left_at) = datagram()?;
    let receivers: Vec<_> = (0..10).map(|_| datagram()).collect::<Call<_>>()?;
    for round in 0..5u8 {
        for (index, (_, address)) in receivers.iter().enumerate() {
            sendto(left, &[index as u8, round], 0, address)?;
        }
    }
    for (index, (fd, address)) in receivers.iter().enumerate() {
        for round in 0..5u8 {
            same!(
                recvfrom(*fd, 10, 0),
                Ok((vec![index as u8, round], left_at))
            );
        }
        look(&left_at, address);
    }
    Ok(())
}

fn two_sockets_interleaved() -> Outcome {
    let (left, left_at, right, right_at) = two()?;
    let port = right_at.port().to_string();
    let mut role = Role::start(&["datagrams", &port, "10"], true)?;
    for round in 0..10u8 {
        sendto(left, &[round], 0, &right_at)?;
    }
    look(&left_at, &right_at);
    same!(role.line()?, "sent");
    role.join()?;
    let mut counts = [0; 2];
    for _ in 0..20 {
        readable(right)?;
        let (bytes, from) = recvfrom(right, 100, 0)?;
        let ours = from == left_at;
        same!(bytes.len(), if ours { 1 } else { 5 });
        counts[usize::from(ours)] += 1;
    }
    same!(counts, [10, 10]);
    Ok(())
}

fn multiple_messages() -> Outcome {
    let (left, left_at, right, right_at) = two()?;
    same!(
        sendmmsg(left, &[b"one", b"", b"three"], Some(&right_at), 0),
        Ok(vec![3, 0, 5])
    );
    look(&left_at, &right_at);
    readable(right)?;
    let messages = recvmmsg(right, 5, 4, MSG_DONTWAIT, None)?;
    let bytes: Vec<_> = messages
        .iter()
        .map(|message| message.bytes.clone())
        .collect();
    same!(bytes, vec![b"one".to_vec(), b"".to_vec(), b"thre".to_vec()]);
    holds!(
        messages
            .iter()
            .all(|message| message.from == left_at && message.name_len == 16)
    );
    same!(messages[2].flags & MSG_TRUNC, MSG_TRUNC);
    Ok(())
}

fn multiple_wait() -> Outcome {
    let (left, left_at, right, right_at) = two()?;
    let sender = thread(move || {
        pause(20);
        sendto(left, b"alone", 0, &right_at)?;
        Ok(())
    });
    let messages = recvmmsg(right, 5, 10, libc::MSG_WAITFORONE, None)?;
    same!(messages.len(), 1);
    same!(messages[0].bytes, b"alone");
    sender.join()?;
    look(&left_at, &right_at);
    Ok(())
}

fn dont_wait() -> Outcome {
    let (left, left_at, right, right_at) = two()?;
    fails!(recv(right, 10, MSG_DONTWAIT), EAGAIN);
    sendto(left, b"x", 0, &right_at)?;
    look(&left_at, &right_at);
    nonblocking(right, true)?;
    readable(right)?;
    gets!(recv(right, 10, 0), b"x");
    fails!(recvfrom(right, 10, 0), EAGAIN);
    fails!(recvmsg(right, &[10], 0), EAGAIN);
    fails!(recvmmsg(right, 2, 10, 0, None), EAGAIN);
    Ok(())
}

fn receive_timeout() -> Outcome {
    let (left, left_at, right, right_at) = two()?;
    timeout(right, libc::SO_RCVTIMEO, SHORT)?;
    let began = Instant::now();
    fails!(recv(right, 10, 0), EAGAIN);
    sendto(left, b"x", 0, &right_at)?;
    look(&left_at, &right_at);
    gets!(recv(right, 10, 0), b"x");
    fails!(recv(right, 10, 0), EAGAIN);
    holds!(began.elapsed() >= 2 * SHORT - Duration::from_millis(2));
    Ok(())
}

fn blocking() -> Outcome {
    let (left, left_at, right, right_at) = two()?;
    let reader = thread(move || {
        for text in [b"one", b"two"] {
            same!(recvfrom(right, 10, 0), Ok((text.to_vec(), left_at)));
        }
        Ok(())
    });
    for text in [b"one", b"two"] {
        pause(30);
        holds!(!reader.ended());
        sendto(left, text, 0, &right_at)?;
    }
    look(&left_at, &right_at);
    reader.join()
}

fn blocking_again_and_again() -> Outcome {
    let (left, right) = datagram_pair()?;
    let mirror = thread(move || {
        for _ in 0..1000 {
            let bytes = recv(right, 10, 0)?;
            send(right, &bytes, 0)?;
        }
        Ok(())
    });
    for round in 0..1000u32 {
        send(left, &[round as u8], 0)?;
        gets!(recv(left, 10, 0), [round as u8]);
        if round % 40 == 0 {
            std::thread::sleep(Duration::from_micros(u64::from(round)));
        }
    }
    look(&getsockname(left)?, &getpeername(left)?);
    mirror.join()
}

fn in_order() -> Outcome {
    const COUNT: u32 = 20_000;
    let (left, left_at, right, right_at) = two()?;
    let taken = Arc::new(AtomicU32::new(0));
    let reader = thread({
        let taken = taken.clone();
        move || {
            for number in 0..COUNT {
                same!(recv(right, 10, 0), Ok(number.to_ne_bytes().to_vec()));
                taken.store(number + 1, Ordering::Release);
                // Once in a while several wait.
                if number % 97 == 0 {
                    std::thread::sleep(Duration::from_micros(100));
                }
            }
            Ok(())
        }
    });
    for number in 0..COUNT {
        hold_back(number, &taken)?;
        // Sometimes so long that the reader falls asleep, sometimes so that it is about to.
        if number % 31 == 0 {
            std::thread::sleep(Duration::from_micros(u64::from(number % 250)));
        }
        sendto(left, &number.to_ne_bytes(), 0, &right_at)?;
    }
    look(&left_at, &right_at);
    reader.join()
}

fn inquiry() -> Outcome {
    let (left, left_at, right, right_at) = two()?;
    same!(fionread(right), Ok(0));
    sendto(left, &pattern(70), 0, &right_at)?;
    sendto(left, b"xyz", 0, &right_at)?;
    look(&left_at, &right_at);
    readable(right)?;
    same!(fionread(right), Ok(70));
    recv(right, 100, 0)?;
    same!(fionread(right), Ok(3));
    recv(right, 100, 0)?;
    same!(fionread(right), Ok(0));
    Ok(())
}

fn autobind() -> Outcome {
    let (right, right_at) = datagram()?;
    let left = socket(AF_INET, SOCK_DGRAM)?;
    same!(sendto(left, b"hello", 0, &right_at), Ok(5));
    let (bytes, from) = recvfrom(right, 10, 0)?;
    same!(bytes, b"hello");
    same!(from.port(), getsockname(left)?.port());
    sendto(right, b"answer", 0, &from)?;
    same!(recvfrom(left, 10, 0), Ok((b"answer".to_vec(), right_at)));
    look(&right_at, &from);
    Ok(())
}

fn wildcard() -> Outcome {
    let right = socket(AF_INET, SOCK_DGRAM)?;
    bind(right, &Address::any_v4(0))?;
    let right_at = getsockname(right)?.local();
    let (left, left_at) = datagram()?;
    sendto(left, b"hello", 0, &right_at)?;
    let (bytes, from) = recvfrom(right, 10, 0)?;
    same!((bytes, from), (b"hello".to_vec(), left_at));
    sendto(right, b"answer", 0, &left_at)?;
    same!(recvfrom(left, 10, 0), Ok((b"answer".to_vec(), right_at)));
    look(&left_at, &right_at);
    Ok(())
}

fn ipv6() -> Outcome {
    let (left, right) = (socket(AF_INET6, SOCK_DGRAM)?, socket(AF_INET6, SOCK_DGRAM)?);
    bind(left, &Address::v6(0))?;
    bind(right, &Address::v6(0))?;
    let (left_at, right_at) = (getsockname(left)?, getsockname(right)?);
    sendto(left, b"six", 0, &right_at)?;
    look(&left_at, &right_at);
    let (bytes, from) = recvfrom(right, 10, 0)?;
    same!((bytes, from, from.len), (b"six".to_vec(), left_at, 28));
    Ok(())
}

fn mapped() -> Outcome {
    let right = socket(AF_INET6, SOCK_DGRAM)?;
    bind(right, &Address::any_v6(0))?;
    let port = getsockname(right)?.port();
    let (left, left_at) = datagram()?;
    sendto(left, b"four", 0, &Address::v4(port))?;
    look(&left_at, &Address::v4(port));
    let (bytes, from) = recvfrom(right, 10, 0)?;
    same!(
        (bytes, from),
        (b"four".to_vec(), Address::mapped(left_at.port()))
    );
    sendto(right, b"back", 0, &from)?;
    same!(
        recvfrom(left, 10, 0),
        Ok((b"back".to_vec(), Address::v4(port)))
    );
    Ok(())
}

fn shutdown_read() -> Outcome {
    let (left, right) = datagram_pair()?;
    send(left, b"x", 0)?;
    gets!(recv(right, 10, 0), b"x");
    look(&getsockname(left)?, &getsockname(right)?);
    let reader = thread(move || {
        gets!(recv(right, 10, 0), b"");
        Ok(())
    });
    pause(30);
    shutdown(right, SHUT_RD)?;
    reader.join()
}

fn overflow() -> Outcome {
    let (left, left_at, right, right_at) = two()?;
    setsockopt(right, SOL_SOCKET, libc::SO_RCVBUF, &20_000i32)?;
    for number in 0..20_000u32 {
        let mut bytes = [7; 50];
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        same!(sendto(left, &bytes, 0, &right_at), Ok(50));
    }
    look(&left_at, &right_at);
    let mut count = 0u32;
    while let Ok(bytes) = recv(right, 100, MSG_DONTWAIT) {
        same!(bytes[..4], count.to_le_bytes());
        count += 1;
    }
    holds!(
        (10..20_000).contains(&count),
        "{count} of 20000 datagrams were kept"
    );
    sendto(left, b"on", 0, &right_at)?;
    readable(right)?;
    gets!(recv(right, 10, 0), b"on");
    Ok(())
}

fn poll_edge() -> Outcome {
    use crate::support::epoll;
    let (left, left_at, right, right_at) = two()?;
    nonblocking(right, true)?;
    let total = 2000;
    let taken = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&taken);
    let reader = thread(move || {
        let set = epoll::create()?;
        epoll::add(set, right, epoll::IN | epoll::ET, 1)?;
        let mut next = 0u32;
        while next < total {
            holds!(
                !epoll::wait(set, 5000)?.is_empty(),
                "no event for five seconds after {next} datagrams"
            );
            while let Ok((bytes, _)) = recvfrom(right, 10, 0) {
                same!(bytes, next.to_le_bytes());
                next += 1;
                counter.store(next, Ordering::Release);
            }
        }
        Ok(())
    });
    for number in 0..total {
        hold_back(number, &taken)?;
        if number % 50 == 0 {
            // The reader may find nothing more and sleep.
            pause(1);
        }
        sendto(left, &number.to_le_bytes(), 0, &right_at)?;
    }
    look(&left_at, &right_at);
    reader.join()
}

fn closed_sender() -> Outcome {
    let (left, left_at, right, right_at) = two()?;
    for round in 0..5u8 {
        sendto(left, &[round], 0, &right_at)?;
    }
    look(&left_at, &right_at);
    close(left)?;
    pause(5);
    for round in 0..5u8 {
        readable(right)?;
        same!(recvfrom(right, 10, 0), Ok((vec![round], left_at)));
    }
    quiet(right)
}

fn receiver_late() -> Outcome {
    let (left, left_at, mut right, right_at) = two()?;
    for round in 0..4u8 {
        sendto(left, &[round], 0, &right_at)?;
        same!(recvfrom(right, 10, 0), Ok((vec![round], left_at)));
        close(right)?;
        right = socket(AF_INET, SOCK_DGRAM)?;
        bind(right, &right_at)?;
    }
    sendto(left, b"last", 0, &right_at)?;
    gets!(recv(right, 10, 0), b"last");
    look(&left_at, &right_at);
    Ok(())
}

fn packet_info() -> Outcome {
    let (left, _, right, right_at) = two()?;
    setsockopt(right, libc::IPPROTO_IP, libc::IP_PKTINFO, &1i32)?;
    sendto(left, b"x", 0, &right_at)?;
    let mut byte = [0u8; 1];
    let mut vector = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: 1,
    };
    let mut control = [0u64; 16];
    // SAFETY: the header points to one byte of room and to control room.
    unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &raw mut vector;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = 128;
        same!(answer(libc::recvmsg(right, &raw mut header, 0)), Ok(1));
        let first = libc::CMSG_FIRSTHDR(&raw const header);
        holds!(!first.is_null(), "there is no ancillary data");
        same!(
            ((*first).cmsg_level, (*first).cmsg_type),
            (libc::IPPROTO_IP, libc::IP_PKTINFO)
        );
        let info = libc::CMSG_DATA(first)
            .cast::<libc::in_pktinfo>()
            .read_unaligned();
        same!(info.ipi_addr.s_addr.to_ne_bytes(), [127, 0, 0, 1]);
    }
    Ok(())
}

fn multicast() -> Outcome {
    let group = std::net::Ipv4Addr::new(239, 77, 1, 9);
    let right = socket(AF_INET, SOCK_DGRAM)?;
    bind(right, &Address::any_v4(0))?;
    let member = libc::ip_mreq {
        imr_multiaddr: libc::in_addr {
            s_addr: u32::from(group).to_be(),
        },
        imr_interface: libc::in_addr {
            s_addr: u32::from(std::net::Ipv4Addr::LOCALHOST).to_be(),
        },
    };
    if setsockopt(right, libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, &member).is_err() {
        return Ok(());
    }
    let left = socket(AF_INET, SOCK_DGRAM)?;
    setsockopt(
        left,
        libc::IPPROTO_IP,
        libc::IP_MULTICAST_IF,
        &member.imr_interface,
    )?;
    let to = Address::from(std::net::SocketAddr::from((
        group,
        getsockname(right)?.port(),
    )));
    match sendto(left, b"to all", 0, &to) {
        Ok(6) => {
            readable(right)?;
            gets!(recv(right, 10, 0), b"to all");
        }
        other => fails!(other, libc::ENETUNREACH),
    }
    Ok(())
}

fn broadcast() -> Outcome {
    let fd = socket(AF_INET, SOCK_DGRAM)?;
    let to = Address::from(std::net::SocketAddr::from(([255, 255, 255, 255], 9)));
    match sendto(fd, b"x", 0, &to) {
        Err(Errno(libc::ENETUNREACH)) => {}
        other => fails!(other, libc::EACCES),
    }
    Ok(())
}

/// Two sockets at one address, which follows them.
fn at_one_address() -> Call<(Fd, Fd, Address)> {
    let one = socket(AF_INET, SOCK_DGRAM)?;
    setsockopt(one, SOL_SOCKET, libc::SO_REUSEPORT, &1i32)?;
    bind(one, &Address::v4(0))?;
    let address = getsockname(one)?;
    let two = socket(AF_INET, SOCK_DGRAM)?;
    setsockopt(two, SOL_SOCKET, libc::SO_REUSEPORT, &1i32)?;
    bind(two, &address)?;
    Ok((one, two, address))
}

fn reuse_port_spreads() -> Outcome {
    let (one, two, address) = at_one_address()?;
    let mut reached = [0; 2];
    for round in 0..64u8 {
        let (left, _) = datagram()?;
        sendto(left, &[round], 0, &address)?;
        let (count, events) = poll(&[(one, POLLIN), (two, POLLIN)], 5000)?;
        same!(count, 1);
        let at = usize::from(events[0] == 0);
        gets!(recv([one, two][at], 10, 0), [round]);
        reached[at] += 1;
    }
    // By chance, once in 2^63 runs it is one of them only.
    holds!(reached[0] > 0 && reached[1] > 0);
    Ok(())
}

fn reuse_port() -> Outcome {
    let (one, two, address) = at_one_address()?;
    for _ in 0..10 {
        let (left, _) = datagram()?;
        sendto(left, b"x", 0, &address)?;
        let (count, events) = poll(&[(one, POLLIN), (two, POLLIN)], 5000)?;
        same!(count, 1);
        gets!(recv(if events[0] != 0 { one } else { two }, 10, 0), b"x");
    }
    Ok(())
}

fn zero_room() -> Outcome {
    let (left, left_at, right, right_at) = two()?;
    sendto(left, b"lost", 0, &right_at)?;
    sendto(left, b"kept", 0, &right_at)?;
    look(&left_at, &right_at);
    gets!(recv(right, 0, 0), b"");
    gets!(recv(right, 10, 0), b"kept");
    Ok(())
}

fn names() -> Outcome {
    let (left, left_at, right, right_at) = two()?;
    holds!(left_at.port() != 0 && right_at.port() != 0 && left_at != right_at);
    sendto(left, b"x", 0, &right_at)?;
    look(&left_at, &right_at);
    gets!(recv(right, 9, 0), b"x");
    same!(getsockopt(left, SOL_SOCKET, libc::SO_TYPE), Ok(SOCK_DGRAM));
    same!(socket_error(left), Ok(Errno(0)));
    Ok(())
}
