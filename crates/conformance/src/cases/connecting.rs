// SPDX-License-Identifier: Apache-2.0
//! connect, listen, accept.

use crate::support::prelude::*;
use crate::support::seen;

cases! { "connecting";
    nonblocking_success Accelerated "a non-blocking connect gives EINPROGRESS or success, then becomes writable with SO_ERROR 0"
    nonblocking_refused Any "a non-blocking connect to nobody becomes writable with ECONNREFUSED, once"
    nonblocking_again Accelerated "connect again on a connecting socket: EALREADY or success, then EISCONN"
    refused Any "connect to a port without a listener fails with ECONNREFUSED; the socket can be used again"
    refused_then_accepted Accelerated "a socket whose connect was refused connects to a listener afterwards"
    bound_only Any "connect to a port that is bound but does not listen is refused"
    already_connected Accelerated "connect on a connected socket fails with EISCONN"
    connect_listener Any "connect on a listening socket fails with EISCONN"
    listen_connected Accelerated "listen on a connected socket fails with EINVAL"
    accept_not_listening Any "accept on a socket that does not listen fails with EINVAL"
    not_connected Any "send and recv on an unconnected socket fail with EPIPE and ENOTCONN"
    accept_empty Any "accept on a non-blocking listener with nobody there fails with EAGAIN"
    accept_blocks Accelerated "a blocked accept wakes when a client connects"
    accept_many_blocked Accelerated "several threads in accept get one connection each"
    accept_order Accelerated "connections are accepted in the order of connect"
    data_before_accept Accelerated "what the client sends before accept is there afterwards"
    data_and_end_before_accept Accelerated "a client that sends and closes before accept leaves its bytes and an end"
    reset_at_accept Any "a server that resets at once: connect has worked, and the next call is told"
    sent_and_reset_at_accept Any "a server that sends and resets at once: what it sent is read, and then the reset is told"
    reset_before_accept Any "a client that resets before accept gives a connection that is reset, or none"
    listen_poll Accelerated "a listener is readable exactly when accept has something"
    backlog_overflow Any "connections beyond the backlog wait in the kernel and all work once accepted"
    listen_again Accelerated "listen on a listener changes the backlog and leaves what waits"
    close_listener_with_waiting Any "closing a listener resets connections that nobody accepted"
    close_listener_polled Any "the same, seen by poll and by SO_ERROR first, whatever was sent"
    close_listener_keeps Accelerated "closing a listener leaves accepted connections alone"
    relisten Accelerated "a port can be listened at again after close, and connections are accelerated again"
    address_in_use Any "bind to a port in use fails with EADDRINUSE"
    bind_client Accelerated "a client that is bound before connect keeps its port"
    wildcard Accelerated "a listener at 0.0.0.0 is reached at 127.0.0.1"
    wildcard_connect Accelerated "connect to 0.0.0.0 reaches this machine"
    listen_unbound Accelerated "listen without bind chooses a port"
    ipv6 Accelerated "streams over ::1"
    ipv6_wildcard Accelerated "a listener at :: is reached at ::1"
    mapped_client Accelerated "an IPv6 socket connects to ::ffff:127.0.0.1 and to an IPv4 listener"
    dual_stack Accelerated "a listener at :: accepts an IPv4 client and shows its mapped address"
    v6_only Accelerated "IPV6_V6ONLY leaves the IPv4 port to another listener"
    other_loopback Accelerated "127.0.0.2 is another address than 127.0.0.1"
    reuse_port Accelerated "two listeners with SO_REUSEPORT share the port; each connection works"
    epoll_before_connect Accelerated "a socket in an epoll set before connect reports when it is connected"
    poll_before_connect Any "an unconnected socket polls as writable and hung up"
    defer_accept Accelerated "TCP_DEFER_ACCEPT wakes accept with the first bytes"
    blocking_connect_thread Accelerated "connect works while another thread sleeps in accept, a hundred times"
    connect_self Any "a socket bound and connected to itself talks to itself"
    wrong_family Any "an IPv4 socket does not connect to an IPv6 address"
    short_address Any "an address that is too short fails with EINVAL"
}

fn connecting(address: &Address) -> Call<Fd> {
    let fd = socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK)?;
    match connect(fd, address) {
        Ok(()) | Err(Errno(EINPROGRESS)) => Ok(fd),
        Err(errno) => Err(errno),
    }
}

/// A port where nobody listens: one that was just ours.
fn nobody() -> Call<Address> {
    let (fd, address) = listener()?;
    close(fd)?;
    Ok(address)
}

fn nonblocking_success() -> Outcome {
    let (listener, address) = listener()?;
    let client = connecting(&address)?;
    same!(poll_one(client, POLLOUT, 5000), Ok(POLLOUT));
    same!(socket_error(client), Ok(Errno(0)));
    let server = accept(listener)?;
    seen::stream(server);
    same!(send(client, b"x", 0), Ok(1));
    gets!(recv(server, 9, 0), b"x");
    // The first connect afterwards says that it has worked.
    match connect(client, &address) {
        Ok(()) => fails!(connect(client, &address), EISCONN),
        other => fails!(other, EISCONN),
    }
    Ok(())
}

fn nonblocking_refused() -> Outcome {
    let client = connecting(&nobody()?)?;
    let events = poll_one(client, POLLOUT, 5000)?;
    same!(events, POLLOUT | POLLERR | POLLHUP);
    same!(socket_error(client), Ok(Errno(ECONNREFUSED)));
    same!(socket_error(client), Ok(Errno(0)));
    Ok(())
}

fn nonblocking_again() -> Outcome {
    let (listener, address) = listener()?;
    let client = connecting(&address)?;
    match connect(client, &address) {
        Ok(()) => {}
        Err(Errno(libc::EALREADY)) => {}
        other => fails!(other, EISCONN),
    }
    same!(poll_one(client, POLLOUT, 5000), Ok(POLLOUT));
    // The first successful answer may have been given already.
    match connect(client, &address) {
        Ok(()) => fails!(connect(client, &address), EISCONN),
        other => fails!(other, EISCONN),
    }
    let server = accept(listener)?;
    seen::stream(server);
    nonblocking(client, false)?;
    echo(client, server)
}

fn refused() -> Outcome {
    let address = nobody()?;
    let fd = socket(AF_INET, SOCK_STREAM)?;
    fails!(connect(fd, &address), ECONNREFUSED);
    fails!(connect(fd, &address), ECONNREFUSED);
    same!(socket_error(fd), Ok(Errno(0)));
    Ok(())
}

fn refused_then_accepted() -> Outcome {
    let fd = socket(AF_INET, SOCK_STREAM)?;
    fails!(connect(fd, &nobody()?), ECONNREFUSED);
    let (listener, address) = listener()?;
    connect(fd, &address)?;
    let server = accept(listener)?;
    seen::stream(server);
    echo(fd, server)
}

fn bound_only() -> Outcome {
    let bound = socket(AF_INET, SOCK_STREAM)?;
    bind(bound, &Address::v4(0))?;
    fails!(client(&getsockname(bound)?), ECONNREFUSED);
    Ok(())
}

fn already_connected() -> Outcome {
    let (listener, address) = listener()?;
    let (client, server) = pair_at(listener, &address)?;
    fails!(connect(client, &address), EISCONN);
    fails!(connect(server, &address), EISCONN);
    echo(client, server)
}

fn connect_listener() -> Outcome {
    let (one, _) = listener()?;
    let (_other, address) = listener()?;
    fails!(connect(one, &address), EISCONN);
    Ok(())
}

fn listen_connected() -> Outcome {
    let (client, server) = pair()?;
    fails!(listen(client, 5), EINVAL);
    fails!(listen(server, 5), EINVAL);
    echo(client, server)
}

fn accept_not_listening() -> Outcome {
    let fd = socket(AF_INET, SOCK_STREAM)?;
    fails!(accept(fd), EINVAL);
    bind(fd, &Address::v4(0))?;
    fails!(accept(fd), EINVAL);
    let datagrams = socket(AF_INET, SOCK_DGRAM)?;
    fails!(accept(datagrams), EOPNOTSUPP);
    fails!(listen(datagrams, 1), EOPNOTSUPP);
    Ok(())
}

fn not_connected() -> Outcome {
    let fd = socket(AF_INET, SOCK_STREAM)?;
    fails!(send(fd, b"x", MSG_NOSIGNAL), EPIPE);
    fails!(recv(fd, 1, 0), ENOTCONN);
    fails!(getpeername(fd), ENOTCONN);
    fails!(shutdown(fd, SHUT_WR), ENOTCONN);
    let (listener, _) = listener()?;
    fails!(recv(listener, 1, 0), ENOTCONN);
    fails!(send(listener, b"x", MSG_NOSIGNAL), EPIPE);
    Ok(())
}

fn accept_empty() -> Outcome {
    let (listener, _) = listener()?;
    nonblocking(listener, true)?;
    fails!(accept(listener), EAGAIN);
    fails!(accept4(listener, SOCK_CLOEXEC), EAGAIN);
    Ok(())
}

fn accept_blocks() -> Outcome {
    let (listener, address) = listener()?;
    let acceptor = thread(move || {
        let server = accept(listener)?;
        seen::stream(server);
        gets!(recv(server, 9, 0), b"hello");
        Ok(())
    });
    pause(30);
    let client = client(&address)?;
    send_all(client, b"hello")?;
    acceptor.join()
}

fn accept_many_blocked() -> Outcome {
    let (listener, address) = listener()?;
    let acceptors: Vec<_> = (0..4)
        .map(|_| {
            thread(move || {
                let server = accept(listener)?;
                seen::stream(server);
                let bytes = recv(server, 9, 0)?;
                Ok(send_all(server, &bytes)?)
            })
        })
        .collect();
    pause(10);
    let clients: Vec<Fd> = (0..4).map(|_| client(&address)).collect::<Call<_>>()?;
    for (index, client) in clients.iter().enumerate() {
        send_all(*client, &[index as u8])?;
    }
    for (index, client) in clients.iter().enumerate() {
        gets!(recv(*client, 9, 0), [index as u8]);
    }
    acceptors.into_iter().try_for_each(Thread::join)
}

fn accept_order() -> Outcome {
    let (listener, address) = listener()?;
    let clients: Vec<Fd> = (0..5).map(|_| client(&address)).collect::<Call<_>>()?;
    for client in clients {
        let (server, from) = accept_from(listener)?;
        seen::stream(server);
        same!(Ok(from), getsockname(client));
        echo(client, server)?;
    }
    Ok(())
}

fn data_before_accept() -> Outcome {
    let (listener, address) = listener()?;
    let client = client(&address)?;
    send_all(client, &pattern(3000))?;
    let server = accept(listener)?;
    seen::stream(server);
    same!(recv_all(server, 3000), Ok(pattern(3000)));
    echo(client, server)
}

fn data_and_end_before_accept() -> Outcome {
    let (listener, address) = listener()?;
    let (first, second) = (client(&address)?, client(&address)?);
    send_all(first, b"last words")?;
    close(first)?;
    send_all(second, b"also")?;
    shutdown(second, SHUT_WR)?;
    let server = accept(listener)?;
    gets!(recv_all(server, 100), b"last words");
    gets!(recv(server, 100, 0), b"");
    let server = accept(listener)?;
    seen::stream(server);
    gets!(recv_all(server, 100), b"also");
    send_all(server, b"answer")?;
    gets!(recv(second, 100, 0), b"answer");
    Ok(())
}

fn reset_before_accept() -> Outcome {
    let (listener, address) = listener()?;
    let client = client(&address)?;
    send_all(client, b"lost")?;
    linger(client, true, 0)?;
    close(client)?;
    pause(10);
    nonblocking(listener, true)?;
    match accept(listener) {
        Ok(server) => {
            // The reset may throw away what was sent, or come after it.
            match recv(server, 10, 0) {
                Ok(bytes) => same!(bytes, b"lost"),
                other => fails!(other, ECONNRESET),
            }
        }
        Err(Errno(ECONNABORTED)) => {}
        other => fails!(other, EAGAIN),
    }
    nonblocking(listener, false)?;
    let (client, server) = pair_at(listener, &address)?;
    echo(client, server)
}

/// A client, but where the reset came before connect had looked at the connection: the kernel then says so at once.
fn client_unless_reset(address: &Address) -> Call<Option<Fd>> {
    match client(address) {
        Err(Errno(ECONNRESET)) => Ok(None),
        other => other.map(Some),
    }
}

fn reset_at_accept() -> Outcome {
    let (listener, address) = listener()?;
    let resets = thread(move || {
        for _ in 0..100 {
            let server = accept(listener)?;
            linger(server, true, 0)?;
            close(server)?;
        }
        Ok(())
    });
    for _ in 0..100 {
        let Some(client) = client_unless_reset(&address)? else {
            continue;
        };
        fails!(recv(client, 10, 0), ECONNRESET);
        close(client)?;
    }
    resets.join()
}

fn sent_and_reset_at_accept() -> Outcome {
    let (listener, address) = listener()?;
    let resets = thread(move || {
        for _ in 0..100 {
            let server = accept(listener)?;
            send_all(server, b"sent")?;
            linger(server, true, 0)?;
            close(server)?;
        }
        Ok(())
    });
    for _ in 0..100 {
        let Some(client) = client_unless_reset(&address)? else {
            continue;
        };
        gets!(recv_all(client, 4), b"sent");
        fails!(recv(client, 10, 0), ECONNRESET);
        close(client)?;
    }
    resets.join()
}

fn listen_poll() -> Outcome {
    let (listener, address) = listener()?;
    same!(poll_one(listener, POLLIN, 0), Ok(0));
    let client = client(&address)?;
    same!(poll_one(listener, POLLIN | POLLOUT, 5000), Ok(POLLIN));
    let server = accept(listener)?;
    seen::stream(server);
    same!(poll_one(listener, POLLIN, 0), Ok(0));
    echo(client, server)
}

fn backlog_overflow() -> Outcome {
    let (listener, address) = listener_at(&Address::v4(0), 1)?;
    let clients: Vec<Fd> = (0..4).map(|_| connecting(&address)).collect::<Call<_>>()?;
    // Two fit; the others are asked again by the kernel's timers.
    for index in 0..clients.len() {
        readable(listener)?;
        let (server, from) = accept_from(listener)?;
        seen::stream(server);
        let client = clients
            .iter()
            .copied()
            .find(|&client| getsockname(client) == Ok(from));
        let client = client
            .ok_or_else(|| Failure::new(format!("nobody's connection was accepted: {from:?}")))?;
        same!(poll_one(client, POLLOUT, 5000), Ok(POLLOUT));
        same!(socket_error(client), Ok(Errno(0)));
        send_all(client, &[index as u8])?;
        gets!(recv(server, 9, 0), [index as u8]);
    }
    Ok(())
}

fn listen_again() -> Outcome {
    let (listener, address) = listener()?;
    let client = client(&address)?;
    listen(listener, 3)?;
    let server = accept(listener)?;
    seen::stream(server);
    echo(client, server)
}

fn close_listener_with_waiting() -> Outcome {
    let (listener, address) = listener()?;
    let client = client(&address)?;
    send_all(client, b"to nobody")?;
    close(listener)?;
    eventually("the connection is reset", || {
        recv(client, 10, MSG_DONTWAIT) == Err(Errno(ECONNRESET))
    })?;
    fails!(send(client, b"x", MSG_NOSIGNAL), EPIPE);
    Ok(())
}

fn close_listener_polled() -> Outcome {
    let all = POLLIN | POLLOUT | POLLRDHUP;
    for bytes in [&b""[..], b"to nobody"] {
        for asks in [false, true] {
            let (listener, address) = listener()?;
            let client = client(&address)?;
            send_all(client, bytes)?;
            close(listener)?;
            eventually("poll tells of the reset", || {
                poll_one(client, all, 0) == Ok(all | POLLERR | POLLHUP)
            })?;
            if asks {
                same!(socket_error(client), Ok(Errno(ECONNRESET)));
            } else {
                fails!(recv(client, 10, 0), ECONNRESET);
            }
            same!(poll_one(client, all, 0), Ok(all | POLLHUP));
            gets!(recv(client, 10, 0), b"");
            fails!(send(client, b"x", MSG_NOSIGNAL), EPIPE);
        }
    }
    Ok(())
}

fn close_listener_keeps() -> Outcome {
    let (listener, address) = listener()?;
    let (client, server) = pair_at(listener, &address)?;
    close(listener)?;
    echo(client, server)
}

fn relisten() -> Outcome {
    let (mut address, mut reused) = (Address::v4(0), None);
    for _ in 0..3 {
        let listener = socket(AF_INET, SOCK_STREAM)?;
        setsockopt(listener, SOL_SOCKET, libc::SO_REUSEADDR, &1i32)?;
        bind(listener, &address)?;
        listen(listener, 4)?;
        address = getsockname(listener)?;
        holds!(reused.is_none_or(|port| port == address.port()));
        reused = Some(address.port());
        let (client, server) = pair_at(listener, &address)?;
        echo(client, server)?;
        for fd in [client, server, listener] {
            close(fd)?;
        }
    }
    Ok(())
}

fn address_in_use() -> Outcome {
    let (_listener, address) = listener()?;
    let fd = socket(AF_INET, SOCK_STREAM)?;
    fails!(bind(fd, &address), EADDRINUSE);
    fails!(
        bind(
            fd,
            &Address::from(std::net::SocketAddr::from(([192, 0, 2, 1], 0)))
        ),
        libc::EADDRNOTAVAIL
    );
    Ok(())
}

fn bind_client() -> Outcome {
    let (listener, address) = listener()?;
    let client = socket(AF_INET, SOCK_STREAM)?;
    bind(client, &Address::v4(0))?;
    let bound = getsockname(client)?;
    connect(client, &address)?;
    let (server, from) = accept_from(listener)?;
    seen::stream(server);
    same!(from, bound);
    echo(client, server)
}

fn wildcard() -> Outcome {
    let (listener, address) = listener_at(&Address::any_v4(0), 4)?;
    let (client, server) = pair_at(listener, &address.local())?;
    same!(getsockname(server), Ok(address.local()));
    echo(client, server)
}

fn wildcard_connect() -> Outcome {
    let (listener, address) = listener()?;
    let (client, server) = pair_at(listener, &Address::any_v4(address.port()))?;
    same!(getpeername(client), Ok(address));
    echo(client, server)
}

fn listen_unbound() -> Outcome {
    let fd = socket(AF_INET, SOCK_STREAM)?;
    listen(fd, 4)?;
    let address = getsockname(fd)?;
    holds!(address.port() != 0);
    let (client, server) = pair_at(fd, &address.local())?;
    echo(client, server)
}

fn ipv6() -> Outcome {
    let (listener, address) = listener_at(&Address::v6(0), 4)?;
    let (client, server) = pair_at(listener, &address)?;
    same!(getsockname(client), getpeername(server));
    same!(getpeername(client)?.family(), AF_INET6);
    echo(client, server)
}

fn ipv6_wildcard() -> Outcome {
    let (listener, address) = listener_at(&Address::any_v6(0), 4)?;
    let (client, server) = pair_at(listener, &address.local())?;
    echo(client, server)
}

fn mapped_client() -> Outcome {
    let (listener, address) = listener()?;
    let (client, server) = pair_at(listener, &Address::mapped(address.port()))?;
    same!(getpeername(client), Ok(Address::mapped(address.port())));
    same!(getpeername(server)?.family(), AF_INET);
    echo(client, server)
}

fn dual_stack() -> Outcome {
    let (listener, address) = listener_at(&Address::any_v6(0), 4)?;
    let client = client(&Address::v4(address.port()))?;
    let (server, from) = accept_from(listener)?;
    seen::stream(server);
    same!(from, Address::mapped(getsockname(client)?.port()));
    echo(client, server)
}

fn v6_only() -> Outcome {
    // Some other program may hold the same IPv4 port; then another is tried.
    for _ in 0..20 {
        let six = socket(AF_INET6, SOCK_STREAM)?;
        setsockopt(six, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &1i32)?;
        bind(six, &Address::any_v6(0))?;
        listen(six, 4)?;
        let port = getsockname(six)?.port();
        let four = socket(AF_INET, SOCK_STREAM)?;
        if bind(four, &Address::any_v4(port)).is_err() {
            continue;
        }
        listen(four, 4)?;
        let (client, server) = pair_at(four, &Address::v4(port))?;
        echo(client, server)?;
        let client = self::client(&Address::v6(port))?;
        let server = accept(six)?;
        same!(getpeername(server)?.family(), AF_INET6);
        return echo(client, server);
    }
    Err(Failure::new(
        "no port was free in both families in twenty attempts",
    ))
}

fn other_loopback() -> Outcome {
    let second = Address::from(std::net::SocketAddr::from(([127, 0, 0, 2], 0)));
    let (listener, address) = listener_at(&second, 4)?;
    let (client, server) = pair_at(listener, &address)?;
    echo(client, server)?;
    fails!(self::client(&Address::v4(address.port())), ECONNREFUSED);
    Ok(())
}

fn reuse_port() -> Outcome {
    let one = socket(AF_INET, SOCK_STREAM)?;
    setsockopt(one, SOL_SOCKET, libc::SO_REUSEPORT, &1i32)?;
    bind(one, &Address::v4(0))?;
    listen(one, 16)?;
    let address = getsockname(one)?;
    let two = socket(AF_INET, SOCK_STREAM)?;
    setsockopt(two, SOL_SOCKET, libc::SO_REUSEPORT, &1i32)?;
    bind(two, &address)?;
    listen(two, 16)?;
    for round in 0..10u8 {
        let client = client(&address)?;
        send_all(client, &[round])?;
        let (_, events) = poll(&[(one, POLLIN), (two, POLLIN)], 5000)?;
        let server = accept(if events[0] != 0 { one } else { two })?;
        seen::stream(server);
        gets!(recv(server, 9, 0), [round]);
    }
    Ok(())
}

fn epoll_before_connect() -> Outcome {
    use crate::support::epoll::{self, HUP, IN, OUT};
    let (listener, address) = listener()?;
    let client = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK)?;
    let set = epoll::create()?;
    epoll::add(set, client, IN | OUT, 7)?;
    same!(epoll::wait(set, 0), Ok(vec![(OUT | HUP, 7)]));
    match connect(client, &address) {
        Ok(()) => {}
        other => fails!(other, EINPROGRESS),
    }
    same!(epoll::wait(set, 5000), Ok(vec![(OUT, 7)]));
    let server = accept(listener)?;
    seen::stream(server);
    send_all(server, b"x")?;
    readable(client)?;
    same!(epoll::wait(set, 5000), Ok(vec![(IN | OUT, 7)]));
    gets!(recv(client, 9, 0), b"x");
    same!(epoll::wait(set, 0), Ok(vec![(OUT, 7)]));
    Ok(())
}

fn poll_before_connect() -> Outcome {
    let fd = socket(AF_INET, SOCK_STREAM)?;
    same!(poll_one(fd, POLLIN | POLLOUT, 0), Ok(POLLOUT | POLLHUP));
    Ok(())
}

fn defer_accept() -> Outcome {
    let (listener, address) = listener()?;
    setsockopt(listener, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, &5i32)?;
    let acceptor = thread(move || {
        let server = accept(listener)?;
        seen::stream(server);
        gets!(recv(server, 9, 0), b"first");
        Ok(send_all(server, b"answer")?)
    });
    let client = client(&address)?;
    pause(20);
    send_all(client, b"first")?;
    gets!(recv_all(client, 6), b"answer");
    acceptor.join()
}

fn blocking_connect_thread() -> Outcome {
    let (listener, address) = listener()?;
    let acceptor = thread(move || {
        for round in 0..100u8 {
            let server = accept(listener)?;
            if round % 10 == 0 {
                seen::stream(server);
            }
            gets!(recv(server, 9, 0), [round]);
            send_all(server, &[round])?;
            close(server)?;
        }
        Ok(())
    });
    for round in 0..100u8 {
        let client = client(&address)?;
        send_all(client, &[round])?;
        gets!(recv(client, 9, 0), [round]);
        gets!(recv(client, 9, 0), b"");
        close(client)?;
    }
    acceptor.join()
}

fn connect_self() -> Outcome {
    let fd = socket(AF_INET, SOCK_STREAM)?;
    bind(fd, &Address::v4(0))?;
    let address = getsockname(fd)?;
    connect(fd, &address)?;
    same!(send(fd, b"to myself", 0), Ok(9));
    gets!(recv(fd, 20, 0), b"to myself");
    Ok(())
}

fn wrong_family() -> Outcome {
    let fd = socket(AF_INET, SOCK_STREAM)?;
    fails!(connect(fd, &Address::v6(1)), libc::EAFNOSUPPORT);
    fails!(bind(fd, &Address::v6(0)), libc::EAFNOSUPPORT);
    Ok(())
}

fn short_address() -> Outcome {
    let fd = socket(AF_INET, SOCK_STREAM)?;
    let mut address = Address::v4(1);
    address.len = 8;
    fails!(connect(fd, &address), EINVAL);
    fails!(bind(fd, &address), EINVAL);
    Ok(())
}
