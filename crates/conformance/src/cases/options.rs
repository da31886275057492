// SPDX-License-Identifier: Apache-2.0
//! Options, flags and names of sockets.

use crate::support::prelude::*;
use crate::support::seen;
use std::time::{Duration, Instant};

cases! { "options";
    nonblocking_by_fcntl Accelerated "O_NONBLOCK set by fcntl makes recv fail with EAGAIN, and F_GETFL shows it"
    nonblocking_by_ioctl Accelerated "FIONBIO does the same"
    nonblocking_by_socket Accelerated "SOCK_NONBLOCK at socket() does the same"
    nonblocking_by_accept4 Accelerated "accept4 gives SOCK_NONBLOCK and SOCK_CLOEXEC as asked"
    accept_inherits_nothing Accelerated "accept gives a blocking socket though the listener does not block"
    blocking_again Accelerated "O_NONBLOCK taken away makes recv block again"
    close_on_exec_flag Accelerated "FD_CLOEXEC is the descriptor's, not the socket's"
    receive_timeout Accelerated "SO_RCVTIMEO ends a blocked recv with EAGAIN, and getsockopt shows it"
    receive_nothing_timeout Accelerated "recv of no bytes waits for some, and gives 0 when SO_RCVTIMEO ends that"
    receive_timeout_off Accelerated "SO_RCVTIMEO of 0 blocks without end"
    receive_timeout_early Accelerated "a timeout set before connect counts for the connection"
    send_timeout Accelerated "SO_SNDTIMEO ends a blocked send with EAGAIN, or with what it took"
    wait_all_timeout Accelerated "MSG_WAITALL with a timeout gives what came"
    error_none Accelerated "SO_ERROR of a sound connection is 0"
    kind Accelerated "SO_TYPE, SO_DOMAIN and SO_PROTOCOL tell what the socket is"
    accepting Accelerated "SO_ACCEPTCONN is 1 for listeners only"
    names Accelerated "getsockname and getpeername of both sides mirror each other"
    accept_name Accelerated "accept writes the client's address"
    name_cut Accelerated "getsockname into little room cuts the address and says the true length"
    no_delay Accelerated "TCP_NODELAY, SO_KEEPALIVE, SO_REUSEADDR and buffer sizes can be set and read"
    kernels_own Accelerated "TCP_INQ tells how much is left to read; what was sent before it was set arrives"
    low_water Accelerated "SO_RCVLOWAT: a connection with less is not readable"
    kernels_own_before Any "the same where it was set on the listener, or before connect"
    kernels_own_at_end Accelerated "and where it is set when the peer has closed; what is left can be read"
    not_sent Accelerated "TCP_NOTSENT_LOWAT is nothing until it is set, and reads back then"
    buffer_search Accelerated "SO_SNDBUF can be searched for its largest value, as memcached does"
    tcp_info Accelerated "TCP_INFO says that the connection is established"
    linger_option Accelerated "SO_LINGER reads back as it was set"
    bad_option Accelerated "an option that does not exist fails with ENOPROTOOPT"
    asynchronous Accelerated "FIOASYNC and F_SETOWN are taken"
    not_a_socket Any "socket calls on a file fail with ENOTSOCK, on a closed descriptor with EBADF"
    other_families Any "AF_UNIX sockets, socketpairs and pipes work as ever"
    passed_rights Any "a connection sent with SCM_RIGHTS over a socketpair works in the same process"
}

fn nonblocking_by_fcntl() -> Outcome {
    let (client, server) = pair()?;
    same!(fcntl(server, libc::F_GETFL, 0)? & O_NONBLOCK, 0);
    nonblocking(server, true)?;
    same!(fcntl(server, libc::F_GETFL, 0)? & O_NONBLOCK, O_NONBLOCK);
    fails!(recv(server, 10, 0), EAGAIN);
    fails!(read(server, 10), EAGAIN);
    send_all(client, b"x")?;
    readable(server)?;
    gets!(recv(server, 10, 0), b"x");
    Ok(())
}

fn nonblocking_by_ioctl() -> Outcome {
    let (client, server) = pair()?;
    ioctl(server, libc::FIONBIO as _, 1)?;
    same!(fcntl(server, libc::F_GETFL, 0)? & O_NONBLOCK, O_NONBLOCK);
    fails!(recv(server, 10, 0), EAGAIN);
    ioctl(server, libc::FIONBIO as _, 0)?;
    same!(fcntl(server, libc::F_GETFL, 0)? & O_NONBLOCK, 0);
    send_all(client, b"x")?;
    gets!(recv(server, 10, 0), b"x");
    Ok(())
}

fn nonblocking_by_socket() -> Outcome {
    let (listener, address) = listener()?;
    let client = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC)?;
    same!(fcntl(client, libc::F_GETFD, 0)?, libc::FD_CLOEXEC);
    match connect(client, &address) {
        Ok(()) => {}
        other => fails!(other, EINPROGRESS),
    }
    let server = accept(listener)?;
    crate::support::seen::stream(server);
    same!(poll_one(client, POLLOUT, 5000), Ok(POLLOUT));
    fails!(recv(client, 10, 0), EAGAIN);
    echo(server, client).or_else(|_| {
        readable(client)?;
        gets!(recv(client, 4, 0), b"echo");
        Ok(())
    })
}

fn nonblocking_by_accept4() -> Outcome {
    let (listener, address) = listener()?;
    let client = client(&address)?;
    let server = accept4(listener, SOCK_NONBLOCK | SOCK_CLOEXEC)?;
    crate::support::seen::stream(server);
    same!(fcntl(server, libc::F_GETFL, 0)? & O_NONBLOCK, O_NONBLOCK);
    same!(fcntl(server, libc::F_GETFD, 0)?, libc::FD_CLOEXEC);
    fails!(recv(server, 10, 0), EAGAIN);
    send_all(client, b"x")?;
    readable(server)?;
    gets!(recv(server, 10, 0), b"x");
    fails!(accept4(listener, 0x4000_0000), EINVAL);
    Ok(())
}

fn accept_inherits_nothing() -> Outcome {
    let (listener, address) = listener()?;
    nonblocking(listener, true)?;
    let client = client(&address)?;
    readable(listener)?;
    let server = accept(listener)?;
    crate::support::seen::stream(server);
    same!(fcntl(server, libc::F_GETFL, 0)? & O_NONBLOCK, 0);
    echo(client, server)
}

fn blocking_again() -> Outcome {
    let (client, server) = pair()?;
    nonblocking(server, true)?;
    fails!(recv(server, 10, 0), EAGAIN);
    nonblocking(server, false)?;
    let reader = thread(move || {
        gets!(recv(server, 10, 0), b"late");
        Ok(())
    });
    pause(20);
    send_all(client, b"late")?;
    reader.join()
}

fn close_on_exec_flag() -> Outcome {
    let (client, server) = pair()?;
    let copy = dup(client)?;
    close_on_exec(client, true)?;
    same!(fcntl(client, libc::F_GETFD, 0)?, libc::FD_CLOEXEC);
    same!(fcntl(copy, libc::F_GETFD, 0)?, 0);
    ioctl(copy, libc::FIOCLEX as _, 0)?;
    same!(fcntl(copy, libc::F_GETFD, 0)?, libc::FD_CLOEXEC);
    echo(copy, server)
}

fn receive_timeout() -> Outcome {
    let (client, server) = pair()?;
    timeout(server, libc::SO_RCVTIMEO, SHORT)?;
    let began = Instant::now();
    fails!(recv(server, 10, 0), EAGAIN);
    fails!(recvmsg(server, &[10], 0), EAGAIN);
    fails!(read(server, 10), EAGAIN);
    holds!(
        began.elapsed() >= 2 * SHORT,
        "three timeouts took only {:?}",
        began.elapsed()
    );
    let mut value = libc::timeval {
        tv_sec: 9,
        tv_usec: 9,
    };
    let mut len = size_of::<libc::timeval>() as libc::socklen_t;
    // SAFETY: pointer and length are of one object.
    let read = unsafe {
        libc::getsockopt(
            server,
            SOL_SOCKET,
            libc::SO_RCVTIMEO,
            (&raw mut value).cast(),
            &raw mut len,
        )
    };
    same!((read, value.tv_sec, value.tv_usec), (0, 0, 40_000));
    echo(client, server)
}

fn receive_nothing_timeout() -> Outcome {
    let (client, server) = pair()?;
    timeout(server, libc::SO_RCVTIMEO, SHORT)?;
    let began = Instant::now();
    gets!(recv(server, 0, 0), b"");
    holds!(
        began.elapsed() >= SHORT,
        "waited only for {:?}",
        began.elapsed()
    );
    fails!(recv(server, 0, libc::MSG_DONTWAIT), EAGAIN);
    echo(client, server)
}

fn receive_timeout_off() -> Outcome {
    let (client, server) = pair()?;
    timeout(server, libc::SO_RCVTIMEO, Duration::from_millis(1))?;
    timeout(server, libc::SO_RCVTIMEO, Duration::ZERO)?;
    let reader = thread(move || {
        gets!(recv(server, 10, 0), b"late");
        Ok(())
    });
    pause(30);
    send_all(client, b"late")?;
    reader.join()
}

fn receive_timeout_early() -> Outcome {
    let (listener, address) = listener()?;
    let client = socket(AF_INET, SOCK_STREAM)?;
    timeout(client, libc::SO_RCVTIMEO, SHORT)?;
    timeout(listener, libc::SO_RCVTIMEO, SHORT)?;
    fails!(accept(listener), EAGAIN);
    connect(client, &address)?;
    let server = accept(listener)?;
    crate::support::seen::stream(server);
    fails!(recv(client, 10, 0), EAGAIN);
    // The accepted socket has the listener's timeout.
    fails!(recv(server, 10, 0), EAGAIN);
    echo(client, server)
}

fn send_timeout() -> Outcome {
    let (client, server) = pair()?;
    timeout(client, libc::SO_SNDTIMEO, SHORT)?;
    let bytes = pattern(8 << 20);
    let mut sent = 0;
    // The kernel's buffers may grow meanwhile.
    for _ in 0..50 {
        match send(client, &bytes, 0) {
            Ok(count) => sent += count,
            other => {
                fails!(other, EAGAIN);
                holds!(sent > 0);
                same!(recv_all(server, sent)?.len(), sent);
                return Ok(());
            }
        }
    }
    Err(Failure::new(format!(
        "{sent} bytes were taken though nobody read"
    )))
}

fn wait_all_timeout() -> Outcome {
    let (client, server) = pair()?;
    timeout(server, libc::SO_RCVTIMEO, SHORT)?;
    send_all(client, b"part")?;
    eventually("it has come", || fionread(server) == Ok(4))?;
    gets!(recv(server, 100, MSG_WAITALL), b"part");
    Ok(())
}

fn error_none() -> Outcome {
    let (client, server) = pair()?;
    same!(socket_error(client), Ok(Errno(0)));
    same!(socket_error(server), Ok(Errno(0)));
    Ok(())
}

fn kind() -> Outcome {
    let (client, server) = pair()?;
    for fd in [client, server] {
        same!(getsockopt(fd, SOL_SOCKET, libc::SO_TYPE), Ok(SOCK_STREAM));
        same!(getsockopt(fd, SOL_SOCKET, libc::SO_DOMAIN), Ok(AF_INET));
        same!(
            getsockopt(fd, SOL_SOCKET, libc::SO_PROTOCOL),
            Ok(libc::IPPROTO_TCP)
        );
    }
    Ok(())
}

fn accepting() -> Outcome {
    let (listener, address) = listener()?;
    let (client, server) = pair_at(listener, &address)?;
    same!(getsockopt(listener, SOL_SOCKET, libc::SO_ACCEPTCONN), Ok(1));
    same!(getsockopt(client, SOL_SOCKET, libc::SO_ACCEPTCONN), Ok(0));
    same!(getsockopt(server, SOL_SOCKET, libc::SO_ACCEPTCONN), Ok(0));
    Ok(())
}

fn names() -> Outcome {
    let (client, server) = pair()?;
    same!(getsockname(client), getpeername(server));
    same!(getpeername(client), getsockname(server));
    echo(client, server)
}

fn accept_name() -> Outcome {
    let (listener, address) = listener()?;
    let client = client(&address)?;
    let (server, from) = accept_from(listener)?;
    crate::support::seen::stream(server);
    same!(Ok(from), getsockname(client));
    same!(from.len, 16);
    Ok(())
}

fn name_cut() -> Outcome {
    let (client, _server) = pair()?;
    let mut bytes = [0xEEu8; 16];
    let mut len: libc::socklen_t = 4;
    // SAFETY: the call may write four bytes.
    same!(
        unsafe { libc::getsockname(client, bytes.as_mut_ptr().cast(), &raw mut len) },
        0
    );
    same!(len, 16);
    same!(bytes[4..], [0xEE; 12]);
    Ok(())
}

fn no_delay() -> Outcome {
    let (client, server) = pair()?;
    for fd in [client, server] {
        setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, &1i32)?;
        same!(getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY), Ok(1));
        setsockopt(fd, SOL_SOCKET, libc::SO_KEEPALIVE, &1i32)?;
        same!(getsockopt(fd, SOL_SOCKET, libc::SO_KEEPALIVE), Ok(1));
        setsockopt(fd, SOL_SOCKET, libc::SO_REUSEADDR, &1i32)?;
        same!(getsockopt(fd, SOL_SOCKET, libc::SO_REUSEADDR), Ok(1));
        setsockopt(fd, SOL_SOCKET, libc::SO_RCVBUF, &50_000i32)?;
        same!(getsockopt(fd, SOL_SOCKET, libc::SO_RCVBUF), Ok(100_000));
    }
    echo(client, server)
}

fn not_sent() -> Outcome {
    let (client, server) = pair()?;
    for fd in [client, server] {
        same!(
            getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT),
            Ok(0)
        );
        setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &30_000i32)?;
        same!(
            getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT),
            Ok(30_000)
        );
    }
    echo(client, server)
}

/// The option, and the kind of message that it brings.
const TCP_INQ: i32 = 36;

/// How many bytes recvmsg says are left, if it does.
fn left_over(fd: Fd) -> Call<Option<i32>> {
    let mut room = [0u8; 4];
    let mut part = libc::iovec {
        iov_base: room.as_mut_ptr().cast(),
        iov_len: room.len(),
    };
    let mut control = [0u64; 16];
    // SAFETY: all zeros is a header of nothing.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control);
    // SAFETY: the header's buffers outlive the call; what it says of the control messages the kernel or the library wrote.
    unsafe {
        answer(libc::recvmsg(fd, &raw mut header, 0))?;
        let first = libc::CMSG_FIRSTHDR(&raw const header);
        if first.is_null() || (*first).cmsg_type != TCP_INQ {
            return Ok(None);
        }
        Ok(Some(libc::CMSG_DATA(first).cast::<i32>().read_unaligned()))
    }
}

/// No kernel feature of a socket is taken and then does nothing: bytes of before come first.
fn kernels_own() -> Outcome {
    let (client, server) = pair()?;
    if seen::far() {
        fails!(
            setsockopt(server, libc::IPPROTO_TCP, TCP_INQ, &1),
            libc::ENOPROTOOPT
        );
        return echo(client, server);
    }
    send_all(client, b"before")?;
    arrived(server, 6)?;
    setsockopt(server, libc::IPPROTO_TCP, TCP_INQ, &1)?;
    send_all(client, b"after")?;
    recv_all(server, 6)?;
    arrived(server, 5)?;
    same!(left_over(server), Ok(Some(1)));
    gets!(recv_all(server, 1), b"r");
    echo(client, server)
}

fn low_water() -> Outcome {
    let (client, server) = pair()?;
    if seen::far() {
        return Ok(());
    }
    setsockopt(server, SOL_SOCKET, libc::SO_RCVLOWAT, &5)?;
    send_all(client, b"four")?;
    same!(poll_one(server, POLLIN, 30), Ok(0));
    send_all(client, b"!")?;
    same!(poll_one(server, POLLIN, 5000), Ok(POLLIN));
    gets!(recv(server, 10, 0), b"four!");
    Ok(())
}

fn kernels_own_at_end() -> Outcome {
    for reset in [false, true] {
        let (client, server) = pair()?;
        send_all(client, b"left")?;
        arrived(server, 4)?;
        linger(client, reset, 0)?;
        close(client)?;
        let end = if reset { POLLERR } else { POLLRDHUP };
        same!(
            poll_one(server, POLLRDHUP, 5000).map(|told| told & end),
            Ok(end)
        );
        setsockopt(server, SOL_SOCKET, libc::SO_RCVLOWAT, &2)?;
        same!(getsockopt(server, SOL_SOCKET, libc::SO_RCVLOWAT), Ok(2));
        setsockopt(server, SOL_SOCKET, libc::SO_TIMESTAMP, &1)?;
        setsockopt(server, libc::IPPROTO_TCP, libc::TCP_INQ, &1)?;
        if !reset {
            gets!(recv_all(server, 4), b"left");
            gets!(recv(server, 10, 0), b"");
        }
    }
    Ok(())
}

fn kernels_own_before() -> Outcome {
    let (listener, address) = listener()?;
    setsockopt(listener, SOL_SOCKET, libc::SO_RCVLOWAT, &5)?;
    let client = socket(libc::AF_INET, libc::SOCK_STREAM)?;
    setsockopt(client, SOL_SOCKET, libc::SO_RCVLOWAT, &5)?;
    connect(client, &address)?;
    let server = accept(listener)?;
    for (one, other) in [(client, server), (server, client)] {
        send_all(one, b"four")?;
        same!(poll_one(other, POLLIN, 30), Ok(0));
        send_all(one, b"!")?;
        same!(poll_one(other, POLLIN, 5000), Ok(POLLIN));
        gets!(recv(other, 10, 0), b"four!");
    }
    Ok(())
}

fn buffer_search() -> Outcome {
    let (client, server) = pair()?;
    let (mut low, mut high) = (getsockopt(client, SOL_SOCKET, libc::SO_SNDBUF)?, 256 << 20);
    while low < high {
        let middle = low + (high - low) / 2;
        match setsockopt(client, SOL_SOCKET, libc::SO_SNDBUF, &middle) {
            Ok(()) => low = middle + 1,
            Err(_) => high = middle - 1,
        }
    }
    echo(client, server)
}

fn tcp_info() -> Outcome {
    let (client, _server) = pair()?;
    let mut info = [0u8; 104];
    let mut len: libc::socklen_t = 104;
    // SAFETY: pointer and length are of one array.
    let result = unsafe {
        libc::getsockopt(
            client,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    same!(result, 0);
    // The first byte is the state; 1 is TCP_ESTABLISHED.
    same!(info[0], 1);
    Ok(())
}

fn linger_option() -> Outcome {
    let (client, server) = pair()?;
    linger(client, true, 3)?;
    let mut value = libc::linger {
        l_onoff: 9,
        l_linger: 9,
    };
    let mut len = size_of::<libc::linger>() as libc::socklen_t;
    // SAFETY: pointer and length are of one object.
    let result = unsafe {
        libc::getsockopt(
            client,
            SOL_SOCKET,
            libc::SO_LINGER,
            (&raw mut value).cast(),
            &raw mut len,
        )
    };
    same!((result, value.l_onoff, value.l_linger), (0, 1, 3));
    echo(client, server)
}

fn bad_option() -> Outcome {
    let (client, server) = pair()?;
    fails!(
        setsockopt(client, SOL_SOCKET, 9999, &1i32),
        libc::ENOPROTOOPT
    );
    fails!(
        getsockopt(client, libc::IPPROTO_TCP, 9999),
        libc::ENOPROTOOPT
    );
    echo(client, server)
}

fn asynchronous() -> Outcome {
    let (client, server) = pair()?;
    count_signal(libc::SIGIO, libc::SA_RESTART)?;
    // SAFETY: takes numbers only.
    fcntl(client, libc::F_SETOWN, unsafe { libc::getpid() })?;
    ioctl(client, libc::FIOASYNC as _, 1)?;
    ioctl(client, libc::FIOASYNC as _, 0)?;
    echo(client, server)
}

fn not_a_socket() -> Outcome {
    let (out, into) = pipe()?;
    fails!(send(into, b"x", 0), ENOTSOCK);
    fails!(recv(out, 1, 0), ENOTSOCK);
    fails!(connect(out, &Address::v4(1)), ENOTSOCK);
    fails!(listen(out, 1), ENOTSOCK);
    fails!(accept(out), ENOTSOCK);
    fails!(getpeername(out), ENOTSOCK);
    for fd in [-1, 777] {
        fails!(send(fd, b"x", 0), EBADF);
        fails!(recv(fd, 1, 0), EBADF);
        fails!(read(fd, 1), EBADF);
        fails!(connect(fd, &Address::v4(1)), EBADF);
        fails!(accept(fd), EBADF);
        fails!(close(fd), EBADF);
        fails!(dup(fd), EBADF);
        fails!(shutdown(fd, SHUT_RD), EBADF);
    }
    Ok(())
}

fn other_families() -> Outcome {
    let mut ends = [0; 2];
    for kind in [SOCK_STREAM, SOCK_DGRAM, libc::SOCK_SEQPACKET] {
        // SAFETY: room for two descriptors.
        same!(
            unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) },
            0
        );
        echo(ends[0], ends[1])?;
        same!(poll_one(ends[0], POLLIN | POLLOUT, 0), Ok(POLLOUT));
        close(ends[0])?;
        close(ends[1])?;
    }
    let (out, into) = pipe()?;
    same!(write(into, b"pipe"), Ok(4));
    gets!(read(out, 10), b"pipe");
    Ok(())
}

fn passed_rights() -> Outcome {
    let (client, server) = pair()?;
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors.
    same!(
        unsafe { libc::socketpair(libc::AF_UNIX, SOCK_STREAM, 0, ends.as_mut_ptr()) },
        0
    );
    give_descriptor(ends[0], server)?;
    let copy = take_descriptor(ends[1])?;
    close(server)?;
    holds!(copy != server);
    echo(client, copy)
}
