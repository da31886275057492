// SPDX-License-Identifier: Apache-2.0
//! UDP: what the kernel refuses to send, and whom it filters; calls of nothing.

use super::datagram::{look, two};
use crate::support::prelude::*;
use libc::{EAFNOSUPPORT, ENETUNREACH};

cases! { "datagram";
    no_buffer Accelerated "no room and no bytes at a null pointer are no mistake, in vectors, too"
    shutdown_write Accelerated "after shutdown of writing each send of a connected socket fails with EPIPE, without a signal"
    shutdown_unconnected Accelerated "shutdown of a socket without a peer says ENOTCONN and counts all the same"
    shutdown_first Any "shutdown of a socket that has done nothing else says ENOTCONN and counts all the same"
    other_family Accelerated "an IPv4 socket sends to no IPv6 address, mapped or not: EAFNOSUPPORT"
    other_family_first Any "an IPv4 socket whose first send names an IPv6 address fails with EAFNOSUPPORT"
    from_six_to_four Any "a socket bound to ::1 reaches no IPv4 address: ENETUNREACH; one bound to a mapped address not ::1"
    plain_name Any "an IPv6 socket sends to a plain IPv4 address"
    queued_before_connect Accelerated "what is queued when a socket connects elsewhere is still received, and nothing after it"
    filtered_before_reconnect Accelerated "what came from others while a socket was connected does not appear when it is theirs"
}

fn no_buffer() -> Outcome {
    let (left, left_at, right, right_at) = two()?;
    let null = std::ptr::null_mut();
    connect(left, &right_at)?;
    for bytes in [b"lost", b"kept"] {
        send(left, bytes, 0)?;
    }
    look(&left_at, &right_at);
    for flags in [MSG_PEEK, MSG_PEEK | MSG_DONTWAIT, 0] {
        // SAFETY: no bytes at null.
        same!(answer(unsafe { libc::recv(right, null, 0, flags) }), Ok(0));
    }
    let nothing = libc::iovec {
        iov_base: null,
        iov_len: 0,
    };
    let mut room = [0u8; 3];
    let mut parts = [nothing; 3];
    parts[1].iov_base = room.as_mut_ptr().cast();
    parts[1].iov_len = room.len();
    // SAFETY: all zeros is a header of nothing.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = parts.as_mut_ptr();
    header.msg_iovlen = parts.len();
    // SAFETY: the parts are empty, or the room.
    same!(
        answer(unsafe { libc::recvmsg(right, &raw mut header, 0) }),
        Ok(3)
    );
    same!(room, *b"kep");
    header.msg_flags = 0;
    // SAFETY: as above.
    same!(
        answer(unsafe { libc::sendmsg(left, &raw const header, 0) }),
        Ok(3)
    );
    gets!(recv(right, 9, 0), b"kep");
    // SAFETY: no bytes at null.
    same!(answer(unsafe { libc::send(left, null, 0, 0) }), Ok(0));
    // SAFETY: as above.
    same!(answer(unsafe { libc::recv(right, null, 0, 0) }), Ok(0));
    header.msg_iov = std::ptr::null_mut();
    // SAFETY: the kernel checks the address; that is what this is about.
    fails!(
        answer(unsafe { libc::sendmsg(left, &raw const header, 0) }),
        EFAULT
    );
    quiet(right)
}

fn shutdown_write() -> Outcome {
    let (left, right) = datagram_pair()?;
    let (_, other_at) = datagram()?;
    send(left, b"x", 0)?;
    gets!(recv(right, 10, 0), b"x");
    look(&getsockname(left)?, &getsockname(right)?);
    count_signal(libc::SIGPIPE, 0)?;
    shutdown(left, SHUT_WR)?;
    fails!(send(left, b"x", 0), EPIPE);
    fails!(send(left, b"x", MSG_NOSIGNAL), EPIPE);
    fails!(send(left, b"", 0), EPIPE);
    fails!(sendto(left, b"x", 0, &other_at), EPIPE);
    fails!(sendto(left, b"x", 0, &getsockname(right)?), EPIPE);
    same!(SIGNALS.load(std::sync::atomic::Ordering::SeqCst), 0);
    quiet(right)?;
    // The other direction is as before.
    send(right, b"back", 0)?;
    gets!(recv(left, 10, 0), b"back");
    fails!(send(left, b"x", 0), EPIPE);
    Ok(())
}

fn shutdown_unconnected() -> Outcome {
    let (left, left_at, right, right_at) = two()?;
    sendto(left, b"x", 0, &right_at)?;
    gets!(recv(right, 10, 0), b"x");
    look(&left_at, &right_at);
    fails!(shutdown(left, SHUT_WR), ENOTCONN);
    fails!(sendto(left, b"x", 0, &right_at), EPIPE);
    connect(left, &right_at)?;
    fails!(send(left, b"x", 0), EPIPE);
    quiet(right)?;
    sendto(right, b"back", 0, &left_at)?;
    gets!(recv(left, 10, 0), b"back");
    fails!(shutdown(right, SHUT_RD), ENOTCONN);
    gets!(recv(right, 10, 0), b"");
    Ok(())
}

fn shutdown_first() -> Outcome {
    let (right, right_at) = datagram()?;
    let left = socket(AF_INET, SOCK_DGRAM)?;
    fails!(shutdown(left, SHUT_WR), ENOTCONN);
    fails!(sendto(left, b"x", 0, &right_at), EPIPE);
    quiet(right)
}

fn other_family() -> Outcome {
    let (left, left_at, right, right_at) = two()?;
    let six = Address::mapped(right_at.port());
    fails!(sendto(left, b"x", 0, &six), EAFNOSUPPORT);
    sendto(left, b"one", 0, &right_at)?;
    look(&left_at, &right_at);
    fails!(sendto(left, b"x", 0, &six), EAFNOSUPPORT);
    fails!(
        sendto(left, b"x", 0, &Address::v6(right_at.port())),
        EAFNOSUPPORT
    );
    sendto(left, b"two", 0, &right_at)?;
    gets!(recv(right, 10, 0), b"one");
    gets!(recv(right, 10, 0), b"two");
    quiet(right)
}

fn other_family_first() -> Outcome {
    let (right, right_at) = datagram()?;
    let left = socket(AF_INET, SOCK_DGRAM)?;
    let six = Address::mapped(right_at.port());
    fails!(sendto(left, b"x", 0, &six), EAFNOSUPPORT);
    quiet(right)
}

fn from_six_to_four() -> Outcome {
    let (right, right_at) = datagram()?;
    let left = socket(AF_INET6, SOCK_DGRAM)?;
    bind(left, &Address::v6(0))?;
    let mapped = Address::mapped(right_at.port());
    fails!(sendto(left, b"x", 0, &mapped), ENETUNREACH);
    fails!(sendto(left, b"x", 0, &right_at), ENETUNREACH);
    quiet(right)?;
    let six = socket(AF_INET6, SOCK_DGRAM)?;
    bind(six, &Address::v6(0))?;
    let six_at = getsockname(six)?;
    let left = socket(AF_INET6, SOCK_DGRAM)?;
    bind(left, &Address::mapped(0))?;
    fails!(sendto(left, b"x", 0, &six_at), EAFNOSUPPORT);
    same!(sendto(left, b"four", 0, &mapped), Ok(4));
    gets!(recv(right, 10, 0), b"four");
    quiet(six)
}

fn plain_name() -> Outcome {
    let (right, right_at) = datagram()?;
    let left = socket(AF_INET6, SOCK_DGRAM)?;
    same!(sendto(left, b"first", 0, &right_at), Ok(5));
    bind(left, &Address::any_v6(0)).ok();
    gets!(recv(right, 10, 0), b"first");
    let six = Address::mapped(right_at.port());
    same!(sendto(left, b"mapped", 0, &six), Ok(6));
    same!(recv(right, 10, 0), Ok(b"mapped".to_vec()));
    same!(sendto(left, b"plain", 0, &right_at), Ok(5));
    let (bytes, from) = recvfrom(right, 10, 0)?;
    same!(
        (bytes, from),
        (b"plain".to_vec(), Address::v4(getsockname(left)?.port()))
    );
    Ok(())
}

fn queued_before_connect() -> Outcome {
    let (left, left_at, right, right_at) = two()?;
    let (other, other_at) = datagram()?;
    for word in [&b"one"[..], b"three"] {
        sendto(left, word, 0, &right_at)?;
    }
    look(&left_at, &right_at);
    connect(right, &other_at)?;
    sendto(left, b"late", 0, &right_at)?;
    readable(right)?;
    same!(fionread(right)?, 3);
    same!(recvfrom(right, 10, 0), Ok((b"one".to_vec(), left_at)));
    gets!(recv(right, 10, MSG_PEEK), b"three");
    gets!(recv(right, 10, 0), b"three");
    quiet(right)?;
    sendto(left, b"late", 0, &right_at)?;
    sendto(other, b"mine", 0, &right_at)?;
    same!(recvfrom(right, 10, 0), Ok((b"mine".to_vec(), other_at)));
    quiet(right)
}

fn filtered_before_reconnect() -> Outcome {
    let (left, left_at, right, right_at) = two()?;
    let (_, other_at) = datagram()?;
    sendto(left, b"before", 0, &right_at)?;
    look(&left_at, &right_at);
    connect(right, &other_at)?;
    sendto(left, b"never", 0, &right_at)?;
    connect(right, &left_at)?;
    sendto(left, b"after", 0, &right_at)?;
    connect(right, &other_at)?;
    sendto(left, b"never", 0, &right_at)?;
    connect(right, &left_at)?;
    sendto(left, b"last", 0, &right_at)?;
    for word in [&b"before"[..], b"after", b"last"] {
        gets!(recv(right, 10, 0), word);
    }
    quiet(right)
}
