// SPDX-License-Identifier: Apache-2.0
//! Peers without the library: the connection is the kernel's and works.

use crate::support::epoll;
use crate::support::prelude::*;
use crate::support::seen;

cases! { "mixed";
    plain_client Kernel "a client without the library connects"
    plain_server Kernel "a server without the library is connected to"
    plain_server_epoll Kernel "the same with a non-blocking connect and epoll"
    plain_large Kernel "megabytes to and from a server without the library"
    plain_datagrams Kernel "datagrams to and from a program without the library"
    both_kinds Any "a listener serves clients with and without the library by turns"
    both_kinds_in_one_set Any "one epoll set with accelerated and plain connections"
    library_client Accelerated "a client in another program with the library connects"
    library_server Accelerated "a server in another program with the library is connected to"
    plain_peer_killed Kernel "a peer without the library that is killed ends the connection"
}

fn address_of(line: &str) -> Result<Address, Failure> {
    let port = line
        .strip_prefix("port ")
        .and_then(|port| port.parse().ok());
    port.map(Address::v4)
        .ok_or_else(|| Failure::new(format!("the role said {line:?} instead of its port")))
}

fn client_of(plain: bool) -> Outcome {
    let (listener, address) = listener()?;
    let mut role = Role::start(&["client", &address.port().to_string()], plain)?;
    let server = accept(listener)?;
    seen::stream(server);
    gets!(recv_all(server, 5), b"hello");
    send_all(server, &pattern(1000))?;
    gets!(recv_all(server, 10), b"done");
    same!(role.line()?, "1000 bytes");
    role.join()
}

fn plain_client() -> Outcome {
    client_of(true)
}

fn library_client() -> Outcome {
    client_of(false)
}

fn server_of(plain: bool) -> Outcome {
    let mut role = Role::start(&["echo"], plain)?;
    let address = address_of(&role.line()?)?;
    let client = client(&address)?;
    for size in [1, 100, 5000] {
        send_all(client, &pattern(size))?;
        same!(recv_all(client, size), Ok(pattern(size)));
    }
    seen::stream(client);
    shutdown(client, SHUT_WR)?;
    gets!(recv(client, 10, 0), b"");
    role.join()
}

fn plain_server() -> Outcome {
    server_of(true)
}

fn library_server() -> Outcome {
    server_of(false)
}

fn plain_server_epoll() -> Outcome {
    let mut role = Role::start(&["echo"], true)?;
    let address = address_of(&role.line()?)?;
    let client = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK)?;
    let set = epoll::create()?;
    match connect(client, &address) {
        Ok(()) => {}
        other => fails!(other, EINPROGRESS),
    }
    epoll::add(set, client, epoll::OUT, 1)?;
    same!(epoll::wait(set, 5000), Ok(vec![(epoll::OUT, 1)]));
    epoll::change(set, client, epoll::IN, 2)?;
    send_all(client, b"hello")?;
    same!(epoll::wait(set, 5000), Ok(vec![(epoll::IN, 2)]));
    gets!(recv(client, 10, 0), b"hello");
    seen::stream(client);
    close(client)?;
    role.join()
}

fn plain_large() -> Outcome {
    let mut role = Role::start(&["echo"], true)?;
    let client = client(&address_of(&role.line()?)?)?;
    seen::stream(client);
    let total = 3_000_000;
    let sender = thread(move || {
        send_all(client, &pattern(total))?;
        Ok(shutdown(client, SHUT_WR)?)
    });
    let got = recv_all(client, total + 1)?;
    holds!(
        got == pattern(total),
        "{} bytes came back, or others",
        got.len()
    );
    sender.join()?;
    role.join()
}

fn plain_datagrams() -> Outcome {
    let mut role = Role::start(&["echo-datagrams", "20"], true)?;
    let address = address_of(&role.line()?)?;
    let (fd, own) = datagram()?;
    for round in 0..20u8 {
        sendto(fd, &[round; 30], 0, &address)?;
        same!(recvfrom(fd, 100, 0), Ok((vec![round; 30], address)));
    }
    if let (Some(own), Some(peer)) = (own.socket_addr(), address.socket_addr()) {
        seen::datagrams(own, peer);
    }
    role.join()
}

fn both_kinds() -> Outcome {
    let (listener, address) = listener()?;
    for round in 0..4 {
        if round % 2 == 0 {
            let mut role = Role::start(&["client", &address.port().to_string()], true)?;
            let server = accept(listener)?;
            gets!(recv_all(server, 5), b"hello");
            send_all(server, &pattern(1000))?;
            gets!(recv_all(server, 10), b"done");
            same!(role.line()?, "1000 bytes");
            role.join()?;
        } else {
            let (client, server) = pair_at(listener, &address)?;
            echo(client, server)?;
            close(client)?;
            close(server)?;
        }
    }
    if seen::library() {
        same!(seen::counts(), (2, 2));
    }
    Ok(())
}

fn both_kinds_in_one_set() -> Outcome {
    let mut role = Role::start(&["echo"], true)?;
    let plain = client(&address_of(&role.line()?)?)?;
    let (client, server) = pair()?;
    let set = epoll::create()?;
    epoll::add(set, plain, epoll::IN, 1)?;
    epoll::add(set, server, epoll::IN, 2)?;
    for _ in 0..20 {
        send_all(plain, b"plain")?;
        same!(epoll::wait(set, 5000), Ok(vec![(epoll::IN, 1)]));
        gets!(recv_all(plain, 5), b"plain");
        send_all(client, b"ring")?;
        same!(epoll::wait(set, 5000), Ok(vec![(epoll::IN, 2)]));
        gets!(recv_all(server, 4), b"ring");
    }
    if seen::library() {
        same!(seen::counts(), (1, 1));
    }
    close(plain)?;
    role.join()
}

fn plain_peer_killed() -> Outcome {
    let (listener, address) = listener()?;
    let mut role = Role::start(&["killed", &address.port().to_string()], true)?;
    let server = accept(listener)?;
    seen::stream(server);
    gets!(recv_all(server, 20), b"hello");
    gets!(recv(server, 10, 0), b"");
    same!(role.line()?, "");
    Ok(())
}
