// SPDX-License-Identifier: Apache-2.0
//! Descriptors of sockets: copies, reuse of numbers, races of close, high numbers, none left.

use crate::support::prelude::*;
use crate::support::seen;
use crate::support::sys::raw;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

cases! { "descriptors";
    dup_works Accelerated "a dup of a connection carries the same stream"
    dup_close_original Accelerated "closing the original leaves the dup working and the peer sees no end"
    dup_close_both Accelerated "the peer sees the end when the last copy is closed"
    dup_shutdown Accelerated "shutdown through one copy counts for all"
    dup_shares_flags Accelerated "O_NONBLOCK set through one copy counts for all"
    dup2_onto_socket Accelerated "dup2 onto a connection closes what was there: its peer sees the end"
    dup2_onto_file Accelerated "dup2 of a connection onto a pipe's number makes a connection of it"
    dup2_file_onto_socket Accelerated "dup2 of a pipe onto a connection's number makes a pipe of it"
    dup2_same Accelerated "dup2 of a descriptor onto itself changes nothing"
    dup3_flags Accelerated "dup3 sets close-on-exec; onto itself it fails with EINVAL"
    fcntl_dup Accelerated "F_DUPFD and F_DUPFD_CLOEXEC give the lowest free number from the given on"
    dup_standard Accelerated "a connection as standard input and output, as inetd does it"
    dup_listener Accelerated "a dup of a listener accepts after the original is closed"
    dup_before_connect Accelerated "a dup made before connect is connected with it"
    dup_raw Accelerated "a dup made by syscall(SYS_dup) works, and keeps the connection"
    lowest_number Any "sockets get the lowest free numbers"
    number_reuse Accelerated "a number that was a connection can be a pipe, then another connection"
    number_reuse_raw Accelerated "a number closed by syscall(SYS_close) can be something else"
    close_twice Accelerated "closing twice fails with EBADF"
    use_after_close Accelerated "calls on a closed connection fail with EBADF"
    close_range_ends Accelerated "close_range closes connections: the peers see the end"
    close_from_ends Accelerated "closefrom closes connections: the peers see the end"
    close_range_cloexec Accelerated "close_range with CLOEXEC leaves connections open"
    close_while_reading Accelerated "close while another thread is blocked in recv: that call goes on, and the connection ends with it"
    dup2_while_reading Accelerated "dup2 over a connection while another thread is blocked in recv: that call goes on"
    close_race Accelerated "threads that send, receive and close the same number get results or EBADF, never a crash"
    reuse_race Accelerated "numbers reused at once never mix two connections"
    high_number Accelerated "a connection at a number above 1024 works with send, recv, poll and epoll"
    number_at_limit Accelerated "a connection at the highest number works"
    none_left_accept Accelerated "accept without free descriptors fails with EMFILE; the connection waits"
    none_left_connect Accelerated "connect works where its socket was the last descriptor"
    none_left_socket Any "socket without free descriptors fails with EMFILE"
    none_left_dup Accelerated "dup without free descriptors fails with EMFILE and harms nothing"
    stdio_closed Accelerated "connections at numbers 0, 1 and 2 work where the standard streams were closed"
}

fn ended(fd: Fd) -> Outcome {
    readable(fd)?;
    gets!(recv(fd, 10, 0), b"");
    Ok(())
}

fn dup_works() -> Outcome {
    let (client, server) = pair()?;
    let copy = dup(client)?;
    echo(copy, server)?;
    send_all(client, b"a")?;
    send_all(copy, b"b")?;
    gets!(recv_all(server, 2), b"ab");
    send_all(server, b"cd")?;
    gets!(recv_all(client, 1), b"c");
    gets!(recv_all(copy, 1), b"d");
    Ok(())
}

fn dup_close_original() -> Outcome {
    let (client, server) = pair()?;
    let copy = dup(client)?;
    close(client)?;
    quiet(server)?;
    echo(copy, server)
}

fn dup_close_both() -> Outcome {
    let (client, server) = pair()?;
    let copies = [dup(client)?, dup(client)?];
    for fd in [client, copies[0]] {
        close(fd)?;
        quiet(server)?;
    }
    close(copies[1])?;
    ended(server)
}

fn dup_shutdown() -> Outcome {
    let (client, server) = pair()?;
    let copy = dup(client)?;
    shutdown(copy, SHUT_WR)?;
    ended(server)?;
    fails!(send(client, b"x", MSG_NOSIGNAL), EPIPE);
    Ok(())
}

fn dup_shares_flags() -> Outcome {
    let (client, server) = pair()?;
    let copy = dup(client)?;
    nonblocking(copy, true)?;
    same!(fcntl(client, libc::F_GETFL, 0)? & O_NONBLOCK, O_NONBLOCK);
    fails!(recv(client, 10, 0), EAGAIN);
    nonblocking(client, false)?;
    same!(fcntl(copy, libc::F_GETFL, 0)? & O_NONBLOCK, 0);
    echo(client, server)
}

fn dup2_onto_socket() -> Outcome {
    let (first, first_peer) = pair()?;
    let (second, second_peer) = pair()?;
    same!(dup2(first, second), Ok(second));
    ended(second_peer)?;
    echo(second, first_peer)?;
    close(first)?;
    echo(second, first_peer)
}

fn dup2_onto_file() -> Outcome {
    let (client, server) = pair()?;
    let (out, into) = pipe()?;
    same!(dup2(client, out), Ok(out));
    close(client)?;
    echo(out, server)?;
    fails!(write(into, b"x").map_err(|_| Errno(EPIPE)), EPIPE);
    Ok(())
}

fn dup2_file_onto_socket() -> Outcome {
    let (client, server) = pair()?;
    let (out, into) = pipe()?;
    same!(dup2(out, client), Ok(client));
    ended(server)?;
    write(into, b"pipe")?;
    gets!(read(client, 10), b"pipe");
    fails!(recv(client, 10, 0), ENOTSOCK);
    Ok(())
}

fn dup2_same() -> Outcome {
    let (client, server) = pair()?;
    same!(dup2(client, client), Ok(client));
    fails!(dup2(555, client), EBADF);
    echo(client, server)
}

fn dup3_flags() -> Outcome {
    let (client, server) = pair()?;
    same!(dup3(client, 300, libc::O_CLOEXEC), Ok(300));
    same!(fcntl(300, libc::F_GETFD, 0), Ok(libc::FD_CLOEXEC));
    fails!(dup3(client, client, 0), EINVAL);
    echo(300, server)
}

fn fcntl_dup() -> Outcome {
    let (client, server) = pair()?;
    same!(fcntl(client, libc::F_DUPFD, 200), Ok(200));
    same!(fcntl(client, libc::F_DUPFD_CLOEXEC, 200), Ok(201));
    same!(fcntl(201, libc::F_GETFD, 0), Ok(libc::FD_CLOEXEC));
    // SAFETY: the command takes a number.
    same!(unsafe { raw::fcntl64(client, libc::F_DUPFD, 200) }, 202);
    close(client)?;
    for fd in [200, 201, 202] {
        echo(fd, server)?;
    }
    Ok(())
}

fn dup_standard() -> Outcome {
    let (client, server) = pair()?;
    let child = fork(|| {
        dup2(server, 0)?;
        dup2(server, 1)?;
        close(server)?;
        close(client)?;
        let line = read(0, 100)?;
        write(1, &line)?;
        Ok(())
    })?;
    close(server)?;
    send_all(client, b"through inetd")?;
    gets!(recv_all(client, 100), b"through inetd");
    child.join()
}

fn dup_listener() -> Outcome {
    let (listener, address) = listener()?;
    let copy = dup(listener)?;
    close(listener)?;
    let (client, server) = pair_at(copy, &address)?;
    echo(client, server)
}

fn dup_before_connect() -> Outcome {
    let (listener, address) = listener()?;
    let client = socket(AF_INET, SOCK_STREAM)?;
    let copy = dup(client)?;
    connect(client, &address)?;
    let server = accept(listener)?;
    seen::stream(server);
    echo(copy, server)?;
    close(client)?;
    echo(copy, server)
}

fn dup_raw() -> Outcome {
    let (client, server) = pair()?;
    // SAFETY: takes numbers only.
    let copy = unsafe { libc::syscall(libc::SYS_dup, client) } as Fd;
    holds!(copy > 0);
    echo(copy, server)?;
    close(client)?;
    quiet(server)?;
    echo(copy, server)
}

fn lowest_number() -> Outcome {
    let (listener, address) = listener()?;
    let (out, into) = pipe()?;
    close(out)?;
    let client = socket(AF_INET, SOCK_STREAM)?;
    same!(client, out);
    close(into)?;
    connect(client, &address)?;
    same!(accept(listener)?, into);
    Ok(())
}

fn number_reuse() -> Outcome {
    for _ in 0..20 {
        let (client, server) = pair()?;
        let number = dup2(client, 100)?;
        close(client)?;
        echo(number, server)?;
        close(number)?;
        let (out, into) = pipe()?;
        same!(dup2(out, number), Ok(number));
        write(into, b"pipe")?;
        gets!(read(number, 10), b"pipe");
        ended(server)?;
        for fd in [out, into, server] {
            close(fd)?;
        }
        // The number is still the pipe's; the next connection takes it over.
        let (next, next_peer) = pair()?;
        same!(dup2(next, number), Ok(number));
        close(next)?;
        echo(number, next_peer)?;
        close(next_peer)?;
        close(number)?;
    }
    Ok(())
}

fn number_reuse_raw() -> Outcome {
    let (client, server) = pair()?;
    // SAFETY: the descriptor is ours.
    same!(unsafe { libc::syscall(libc::SYS_close, client) }, 0);
    ended(server)?;
    let (out, into) = pipe()?;
    // One of the two ends has the number now, or is copied there.
    let number = if into == client {
        out
    } else {
        dup2(out, client)?
    };
    write(into, b"pipe")?;
    gets!(read(number, 10), b"pipe");
    fails!(recv(client, 10, MSG_DONTWAIT), ENOTSOCK);
    Ok(())
}

fn close_twice() -> Outcome {
    let (client, server) = pair()?;
    close(client)?;
    fails!(close(client), EBADF);
    ended(server)
}

fn use_after_close() -> Outcome {
    let (client, server) = pair()?;
    close(client)?;
    fails!(send(client, b"x", 0), EBADF);
    fails!(recv(client, 1, 0), EBADF);
    fails!(shutdown(client, SHUT_WR), EBADF);
    fails!(getsockname(client), EBADF);
    fails!(fcntl(client, libc::F_GETFL, 0), EBADF);
    same!(poll_one(client, POLLIN, 0), Ok(POLLNVAL));
    ended(server)
}

fn close_range_ends() -> Outcome {
    let (client, server) = pair()?;
    let (other, other_server) = pair()?;
    dup2(client, 400)?;
    dup2(other, 401)?;
    close(client)?;
    close(other)?;
    // SAFETY: only the two copies are in the range.
    same!(unsafe { raw::close_range(400, 450, 0) }, 0);
    ended(server)?;
    ended(other_server)
}

fn close_from_ends() -> Outcome {
    let (client, server) = pair()?;
    dup2(client, 400)?;
    close(client)?;
    dup2(server, 300)?;
    // SAFETY: nothing in this process needs a higher descriptor than the copy.
    unsafe { raw::closefrom(350) };
    fails!(send(400, b"x", 0), EBADF);
    ended(300)
}

fn close_range_cloexec() -> Outcome {
    let (client, server) = pair()?;
    dup2(client, 400)?;
    const CLOEXEC: i32 = 4;
    // SAFETY: closes nothing.
    same!(unsafe { raw::close_range(400, 450, CLOEXEC) }, 0);
    same!(fcntl(400, libc::F_GETFD, 0), Ok(libc::FD_CLOEXEC));
    echo(400, server)
}

fn close_while_reading() -> Outcome {
    replaced_while_reading(|server| Ok(close(server)?))
}

fn dup2_while_reading() -> Outcome {
    replaced_while_reading(|server| {
        let (other, _) = listener()?;
        dup2(other, server)?;
        Ok(())
    })
}

/// The kernel's call holds the connection, which ends when it returns.
fn replaced_while_reading(replace: fn(Fd) -> Outcome) -> Outcome {
    let (client, server) = pair()?;
    let reader = thread(move || {
        gets!(recv(server, 10, 0), b"late");
        Ok(())
    });
    pause(30);
    replace(server)?;
    pause(10);
    same!(send(client, b"late", MSG_NOSIGNAL), Ok(4));
    reader.join()?;
    gets!(recv(client, 10, 0), b"");
    Ok(())
}

fn close_race() -> Outcome {
    let (listener, address) = listener()?;
    for round in 0..60 {
        let client = client(&address)?;
        let server = accept(listener)?;
        if round % 20 == 0 {
            seen::stream(server);
        }
        let user = |sends: bool| {
            thread(move || {
                loop {
                    let result = if sends {
                        send(server, b"race", MSG_NOSIGNAL | MSG_DONTWAIT).map(drop)
                    } else {
                        recv(server, 10, MSG_DONTWAIT).map(drop)
                    };
                    match result {
                        Ok(()) | Err(Errno(EAGAIN)) => {}
                        Err(Errno(EBADF | ECONNRESET | EPIPE)) => return Ok(()),
                        other => fails!(other, EBADF),
                    }
                }
            })
        };
        let users = [user(true), user(false)];
        send_all(client, b"some bytes")?;
        std::thread::yield_now();
        close(server)?;
        users.into_iter().try_for_each(Thread::join)?;
        close(client)?;
    }
    Ok(())
}

fn reuse_race() -> Outcome {
    let (listener, address) = listener()?;
    let stop = Arc::new(AtomicBool::new(false));
    // A server that answers each connection's byte with the byte plus one, a thread for each.
    let serving = stop.clone();
    let server = thread(move || {
        let mut threads = Vec::new();
        while !serving.load(Ordering::SeqCst) {
            if poll_one(listener, POLLIN, 20)? == 0 {
                continue;
            }
            let server = accept(listener)?;
            threads.push(thread(move || {
                loop {
                    let bytes = recv(server, 1, 0)?;
                    if bytes.is_empty() {
                        return Ok(close(server)?);
                    }
                    send_all(server, &[bytes[0].wrapping_add(1)])?;
                }
            }));
        }
        threads.into_iter().try_for_each(Thread::join)
    });
    let clients: Vec<_> = (0..3u8)
        .map(|seed| {
            thread(move || {
                for round in 0..100u8 {
                    let fd = client(&address)?;
                    let byte = seed.wrapping_mul(80).wrapping_add(round % 80);
                    send_all(fd, &[byte])?;
                    gets!(recv(fd, 10, 0), [byte.wrapping_add(1)]);
                    close(fd)?;
                }
                Ok(())
            })
        })
        .collect();
    let outcome = clients.into_iter().try_for_each(Thread::join);
    stop.store(true, Ordering::SeqCst);
    server.join()?;
    outcome?;
    let (client, server) = pair()?;
    echo(client, server)
}

fn high_number() -> Outcome {
    limit_descriptors(4096)?;
    let (client, server) = pair()?;
    let high = fcntl(client, libc::F_DUPFD, 2000)?;
    same!(high, 2000);
    close(client)?;
    echo(high, server)?;
    same!(poll_one(high, POLLIN | POLLOUT, 0), Ok(POLLOUT));
    let set = crate::support::epoll::create()?;
    crate::support::epoll::add(set, high, crate::support::epoll::IN, 5)?;
    send_all(server, b"x")?;
    same!(
        crate::support::epoll::wait(set, 5000),
        Ok(vec![(crate::support::epoll::IN, 5)])
    );
    gets!(recv(high, 9, 0), b"x");
    Ok(())
}

fn number_at_limit() -> Outcome {
    limit_descriptors(3000)?;
    let (client, server) = pair()?;
    same!(dup2(client, 2999), Ok(2999));
    fails!(dup2(client, 3000), EBADF);
    close(client)?;
    echo(2999, server)
}

/// Uses up all descriptors but `free`.
fn exhaust(free: usize) -> Call<Vec<Fd>> {
    limit_descriptors(64)?;
    let mut fds = Vec::new();
    loop {
        match eventfd(0, 0) {
            Ok(fd) => fds.push(fd),
            Err(Errno(EMFILE)) => break,
            Err(errno) => return Err(errno),
        }
    }
    for _ in 0..free {
        if let Some(fd) = fds.pop() {
            close(fd)?;
        }
    }
    Ok(fds)
}

fn none_left_accept() -> Outcome {
    let (listener, address) = listener()?;
    let client = client(&address)?;
    let fds = exhaust(0)?;
    fails!(accept(listener), EMFILE);
    fails!(accept(listener), EMFILE);
    send_all(client, b"waiting")?;
    close(fds[0])?;
    let server = accept(listener)?;
    for fd in &fds[1..6] {
        close(*fd)?;
    }
    seen::stream(server);
    gets!(recv_all(server, 7), b"waiting");
    echo(client, server)
}

fn none_left_connect() -> Outcome {
    let (listener, address) = listener()?;
    let fds = exhaust(2)?;
    let client = socket(AF_INET, SOCK_STREAM)?;
    connect(client, &address)?;
    let server = accept(listener)?;
    fails!(eventfd(0, 0), EMFILE);
    echo(client, server)?;
    for fd in &fds[..6] {
        close(*fd)?;
    }
    seen::stream(server);
    echo(client, server)
}

fn none_left_socket() -> Outcome {
    let fds = exhaust(0)?;
    fails!(socket(AF_INET, SOCK_STREAM), EMFILE);
    fails!(socket(AF_INET, SOCK_DGRAM), EMFILE);
    fails!(crate::support::epoll::create(), EMFILE);
    for fd in fds {
        close(fd)?;
    }
    let (client, server) = pair()?;
    echo(client, server)
}

fn none_left_dup() -> Outcome {
    let (client, server) = pair()?;
    let _fds = exhaust(0)?;
    fails!(dup(client), EMFILE);
    fails!(fcntl(client, libc::F_DUPFD, 0), EMFILE);
    echo(client, server)
}

fn stdio_closed() -> Outcome {
    let child = fork(|| {
        for fd in 0..3 {
            close(fd)?;
        }
        let (listener, address) = listener()?;
        same!(listener, 0);
        let client = client(&address)?;
        same!(client, 1);
        let server = accept(listener)?;
        same!(server, 2);
        seen::stream(server);
        echo(client, server)
    })?;
    child.join()
}
