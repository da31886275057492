// SPDX-License-Identifier: Apache-2.0
//! epoll: level, edge, once; changes of the set. What several sets, threads and processes do is in `epoll_sets`.

use crate::support::epoll::*;
use crate::support::prelude::*;
use crate::support::process::{mask, signal_set};
use crate::support::seen;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

cases! { "epoll";
    level Accelerated "a level-triggered member is told until its bytes are read"
    level_out Accelerated "a member that waits for writing is told as long as it is writable"
    edge Accelerated "an edge-triggered member is told once for each arrival"
    edge_partial Accelerated "an edge-triggered member that is read in part is not told again until more comes"
    edge_new_arrival Accelerated "an edge-triggered member with unread bytes is told again when more comes"
    edge_out Accelerated "an edge-triggered member tells writing once, and again after it was full"
    edge_modify Accelerated "EPOLL_CTL_MOD tells an edge-triggered member with bytes again"
    edge_end Accelerated "the end of a stream is an edge: EPOLLIN and EPOLLRDHUP"
    edge_drain Accelerated "nginx's loop: edge-triggered, read until EAGAIN, a megabyte"
    edge_both_sides Accelerated "edge-triggered, both directions in one member"
    once Accelerated "EPOLLONESHOT tells once, and again after EPOLL_CTL_MOD"
    once_edge Accelerated "EPOLLONESHOT with EPOLLET re-armed by MOD tells what is there"
    once_before_connect Accelerated "what has gone off before connect stays silent until EPOLL_CTL_MOD"
    exclusive Accelerated "EPOLLEXCLUSIVE members wake at least one waiter"
    exclusive_modify Accelerated "EPOLL_CTL_MOD of an exclusive member fails with EINVAL"
    half_closed Accelerated "EPOLLRDHUP is told when asked for, with EPOLLIN"
    hung_up Accelerated "EPOLLHUP is told unasked when both directions are shut"
    reset Accelerated "EPOLLERR and EPOLLHUP are told unasked after a reset"
    modify_events Accelerated "EPOLL_CTL_MOD changes the events"
    modify_data Accelerated "EPOLL_CTL_MOD changes the number"
    delete Accelerated "a member that was deleted is not told"
    errors Accelerated "ADD twice is EEXIST, MOD and DEL of others ENOENT, closed ones EBADF, a set in itself EINVAL"
    file_refused Any "a plain file cannot be a member: EPERM"
    add_readable Accelerated "a connection that is readable before ADD is told"
    close_removes Accelerated "closing a member takes it out"
    close_with_dup Accelerated "a closed member whose dup lives is still told"
    dup_as_members Accelerated "a connection and its dup are two members"
    number_reused Accelerated "a new connection with a closed member's number is not a member until it is added"
    mixed Accelerated "connections, an eventfd, a pipe, a timerfd and a listener in one set"
    eventfd_wakes Accelerated "an eventfd wakes a set of connections, as memcached's workers are woken"
    many_members Accelerated "two hundred members, some ready"
    room Accelerated "with room for one event all members get their turn"
    timeouts Accelerated "epoll_wait with 0, with a time and without end"
    wait_two Accelerated "epoll_pwait2 with a time, and without"
    pwait_mask Accelerated "epoll_pwait lets a blocked signal in while it waits"
    bad_room Accelerated "epoll_wait with no room fails with EINVAL"
    bad_set Accelerated "epoll_wait on something else fails with EINVAL, on a closed descriptor with EBADF"
    listener_edge Accelerated "an edge-triggered listener tells each connection"
    datagrams Any "datagram sockets, level and edge"
    wakeup_race Accelerated "two thousand exchanges driven by epoll on both sides lose no wake-up"
    wakeup_race_edge Accelerated "the same, edge-triggered"
    steady_stream_starves_nobody Accelerated "a member that is always ready does not hide an eventfd"
    connected_in_set Accelerated "a socket added before connect is told when the connection is there"
    raw_calls Accelerated "syscall(SYS_epoll_pwait) sees connections' bytes"
}

fn level() -> Outcome {
    let (client, server) = pair()?;
    let set = create()?;
    add(set, server, IN, 11)?;
    same!(wait(set, 0), Ok(vec![]));
    send_all(client, b"ab")?;
    for _ in 0..3 {
        same!(wait(set, 5000), Ok(vec![(IN, 11)]));
    }
    gets!(recv(server, 1, 0), b"a");
    same!(wait(set, 0), Ok(vec![(IN, 11)]));
    gets!(recv(server, 1, 0), b"b");
    same!(wait(set, 0), Ok(vec![]));
    same!(wait(set, 10), Ok(vec![]));
    Ok(())
}

fn level_out() -> Outcome {
    let (client, server) = pair()?;
    let set = create()?;
    add(set, client, OUT, 1)?;
    same!(wait(set, 0), Ok(vec![(OUT, 1)]));
    same!(wait(set, 0), Ok(vec![(OUT, 1)]));
    let filled = fill(client)?;
    same!(wait(set, 0), Ok(vec![]));
    recv_all(server, filled)?;
    same!(wait(set, 5000), Ok(vec![(OUT, 1)]));
    Ok(())
}

fn edge() -> Outcome {
    let (client, server) = pair()?;
    let set = create()?;
    add(set, server, IN | ET, 5)?;
    for _ in 0..20 {
        same!(wait(set, 0), Ok(vec![]));
        send_all(client, b"x")?;
        same!(wait(set, 5000), Ok(vec![(IN, 5)]));
        same!(wait(set, 0), Ok(vec![]));
        gets!(recv(server, 10, 0), b"x");
    }
    same!(wait(set, 5), Ok(vec![]));
    Ok(())
}

fn edge_partial() -> Outcome {
    let (client, server) = pair()?;
    let set = create()?;
    add(set, server, IN | ET, 5)?;
    send_all(client, b"abcd")?;
    same!(wait(set, 5000), Ok(vec![(IN, 5)]));
    gets!(recv(server, 1, 0), b"a");
    same!(wait(set, 5), Ok(vec![]));
    gets!(recv(server, 1, 0), b"b");
    same!(wait(set, 5), Ok(vec![]));
    send_all(client, b"e")?;
    same!(wait(set, 5000), Ok(vec![(IN, 5)]));
    gets!(recv_all(server, 3), b"cde");
    Ok(())
}

fn edge_new_arrival() -> Outcome {
    let (client, server) = pair()?;
    let set = create()?;
    add(set, server, IN | ET, 5)?;
    for round in 1..=10 {
        send_all(client, b"x")?;
        arrived(server, round)?;
        same!(wait(set, 5000), Ok(vec![(IN, 5)]));
        same!(wait(set, 0), Ok(vec![]));
    }
    Ok(())
}

fn edge_out() -> Outcome {
    let (client, server) = pair()?;
    let set = create()?;
    add(set, client, OUT | ET, 1)?;
    same!(wait(set, 5000), Ok(vec![(OUT, 1)]));
    same!(wait(set, 5), Ok(vec![]));
    let filled = fill(client)?;
    // Filling may have made edges in between.
    wait(set, 0)?;
    same!(wait(set, 5), Ok(vec![]));
    recv_all(server, filled)?;
    same!(wait(set, 5000), Ok(vec![(OUT, 1)]));
    Ok(())
}

fn edge_modify() -> Outcome {
    let (client, server) = pair()?;
    let set = create()?;
    add(set, server, IN | ET, 5)?;
    send_all(client, b"x")?;
    same!(wait(set, 5000), Ok(vec![(IN, 5)]));
    same!(wait(set, 5), Ok(vec![]));
    change(set, server, IN | ET, 6)?;
    same!(wait(set, 5000), Ok(vec![(IN, 6)]));
    same!(wait(set, 5), Ok(vec![]));
    Ok(())
}

fn edge_end() -> Outcome {
    let (client, server) = pair()?;
    let set = create()?;
    add(set, server, IN | RDHUP | ET, 5)?;
    shutdown(client, SHUT_WR)?;
    same!(wait(set, 5000), Ok(vec![(IN | RDHUP, 5)]));
    same!(wait(set, 5), Ok(vec![]));
    gets!(recv(server, 10, 0), b"");
    close(client)?;
    Ok(())
}

fn edge_drain() -> Outcome {
    let (client, server) = pair()?;
    let total = 1_000_000;
    let sender = thread(move || {
        for part in pattern(total).chunks(777) {
            send_all(client, part)?;
        }
        Ok(shutdown(client, SHUT_WR)?)
    });
    nonblocking(server, true)?;
    let set = create()?;
    add(set, server, IN | RDHUP | ET, 5)?;
    let mut got = Vec::new();
    'events: loop {
        let events = wait(set, 5000)?;
        holds!(
            !events.is_empty(),
            "no event for five seconds after {} bytes",
            got.len()
        );
        loop {
            match recv(server, 4096, 0) {
                Ok(bytes) if bytes.is_empty() => break 'events,
                Ok(bytes) => got.extend(bytes),
                other => {
                    fails!(other, EAGAIN);
                    break;
                }
            }
        }
    }
    holds!(
        got == pattern(total),
        "{} bytes came, other than were sent",
        got.len()
    );
    sender.join()
}

fn edge_both_sides() -> Outcome {
    let (client, server) = pair()?;
    let set = create()?;
    add(set, client, IN | OUT | ET, 5)?;
    same!(wait(set, 5000), Ok(vec![(OUT, 5)]));
    same!(wait(set, 5), Ok(vec![]));
    send_all(server, b"x")?;
    // With an arrival everything that is so is told.
    same!(wait(set, 5000), Ok(vec![(IN | OUT, 5)]));
    same!(wait(set, 5), Ok(vec![]));
    Ok(())
}

fn once() -> Outcome {
    let (client, server) = pair()?;
    let set = create()?;
    add(set, server, IN | ONESHOT, 5)?;
    send_all(client, b"a")?;
    same!(wait(set, 5000), Ok(vec![(IN, 5)]));
    same!(wait(set, 5), Ok(vec![]));
    send_all(client, b"b")?;
    same!(wait(set, 5), Ok(vec![]));
    change(set, server, IN | ONESHOT, 6)?;
    same!(wait(set, 5000), Ok(vec![(IN, 6)]));
    same!(wait(set, 5), Ok(vec![]));
    gets!(recv_all(server, 2), b"ab");
    change(set, server, IN | ONESHOT, 7)?;
    same!(wait(set, 5), Ok(vec![]));
    send_all(client, b"c")?;
    same!(wait(set, 5000), Ok(vec![(IN, 7)]));
    Ok(())
}

fn once_edge() -> Outcome {
    let (client, server) = pair()?;
    let set = create()?;
    add(set, server, IN | ONESHOT | ET, 5)?;
    for round in 0..10u8 {
        send_all(client, &[round])?;
        same!(wait(set, 5000), Ok(vec![(IN, 5)]));
        same!(wait(set, 0), Ok(vec![]));
        gets!(recv(server, 10, 0), [round]);
        change(set, server, IN | ONESHOT | ET, 5)?;
        same!(wait(set, 0), Ok(vec![]));
    }
    Ok(())
}

fn once_before_connect() -> Outcome {
    for flags in [ONESHOT, ONESHOT | ET] {
        let (listener, address) = listener()?;
        let client = socket(AF_INET, SOCK_STREAM)?;
        let set = create()?;
        add(set, client, IN | flags, 5)?;
        same!(wait(set, 5000), Ok(vec![(HUP, 5)]));
        connect(client, &address)?;
        let server = accept(listener)?;
        seen::stream(server);
        send_all(server, b"a")?;
        readable(client)?;
        same!(wait(set, 5), Ok(vec![]));
        send_all(server, b"b")?;
        same!(wait(set, 5), Ok(vec![]));
        change(set, client, IN | flags, 6)?;
        same!(wait(set, 5000), Ok(vec![(IN, 6)]));
        same!(wait(set, 5), Ok(vec![]));
        close(server)?;
        same!(wait(set, 5), Ok(vec![]));
    }
    Ok(())
}

fn exclusive() -> Outcome {
    let (client, server) = pair()?;
    let waiter = || {
        thread(move || {
            let set = create()?;
            add(set, server, IN | EXCLUSIVE, 5)?;
            same!(wait(set, 5000), Ok(vec![(IN, 5)]));
            // Bytes are left so that every waiter sees them at last.
            Ok(())
        })
    };
    let waiters = [waiter(), waiter()];
    pause(20);
    send_all(client, b"x")?;
    eventually("one waiter wakes", || waiters.iter().any(Thread::ended))?;
    send_all(client, b"y")?;
    waiters.into_iter().try_for_each(Thread::join)
}

fn exclusive_modify() -> Outcome {
    let (_client, server) = pair()?;
    let set = create()?;
    add(set, server, IN | EXCLUSIVE, 5)?;
    fails!(change(set, server, IN, 5), EINVAL);
    fails!(change(set, server, IN | EXCLUSIVE, 5), EINVAL);
    let other = create()?;
    fails!(add(other, server, IN | EXCLUSIVE | ONESHOT, 5), EINVAL);
    fails!(add(other, server, IN | EXCLUSIVE | RDHUP, 5), EINVAL);
    Ok(())
}

fn half_closed() -> Outcome {
    let (client, server) = pair()?;
    let set = create()?;
    add(set, server, IN | OUT | RDHUP, 5)?;
    same!(wait(set, 0), Ok(vec![(OUT, 5)]));
    shutdown(client, SHUT_WR)?;
    readable(server)?;
    same!(wait(set, 5000), Ok(vec![(IN | OUT | RDHUP, 5)]));
    change(set, server, RDHUP, 5)?;
    same!(wait(set, 5000), Ok(vec![(RDHUP, 5)]));
    change(set, server, IN, 5)?;
    same!(wait(set, 5000), Ok(vec![(IN, 5)]));
    Ok(())
}

fn hung_up() -> Outcome {
    let (client, server) = pair()?;
    let set = create()?;
    add(set, server, 0, 5)?;
    same!(wait(set, 0), Ok(vec![]));
    shutdown(client, SHUT_WR)?;
    readable(server)?;
    same!(wait(set, 5), Ok(vec![]));
    shutdown(server, SHUT_WR)?;
    same!(wait(set, 5000), Ok(vec![(HUP, 5)]));
    Ok(())
}

fn reset() -> Outcome {
    let (client, server) = pair()?;
    let set = create()?;
    add(set, server, IN | RDHUP, 5)?;
    linger(client, true, 0)?;
    close(client)?;
    same!(wait(set, 5000), Ok(vec![(IN | RDHUP | ERR | HUP, 5)]));
    fails!(recv(server, 10, 0), ECONNRESET);
    same!(wait(set, 5000), Ok(vec![(IN | RDHUP | HUP, 5)]));
    Ok(())
}

fn modify_events() -> Outcome {
    let (client, server) = pair()?;
    let set = create()?;
    add(set, server, IN, 5)?;
    same!(wait(set, 0), Ok(vec![]));
    change(set, server, OUT, 5)?;
    same!(wait(set, 0), Ok(vec![(OUT, 5)]));
    send_all(client, b"x")?;
    readable(server)?;
    same!(wait(set, 0), Ok(vec![(OUT, 5)]));
    change(set, server, IN | OUT, 5)?;
    same!(wait(set, 0), Ok(vec![(IN | OUT, 5)]));
    change(set, server, 0, 5)?;
    same!(wait(set, 5), Ok(vec![]));
    Ok(())
}

fn modify_data() -> Outcome {
    let (_client, server) = pair()?;
    let set = create()?;
    add(set, server, OUT, u64::MAX)?;
    same!(wait(set, 0), Ok(vec![(OUT, u64::MAX)]));
    change(set, server, OUT, 0x1234_5678_9abc_def0)?;
    same!(wait(set, 0), Ok(vec![(OUT, 0x1234_5678_9abc_def0)]));
    Ok(())
}

fn delete() -> Outcome {
    let (client, server) = pair()?;
    let set = create()?;
    add(set, server, IN, 5)?;
    send_all(client, b"x")?;
    same!(wait(set, 5000), Ok(vec![(IN, 5)]));
    remove(set, server)?;
    same!(wait(set, 5), Ok(vec![]));
    add(set, server, IN, 6)?;
    same!(wait(set, 5000), Ok(vec![(IN, 6)]));
    Ok(())
}

fn errors() -> Outcome {
    let (client, server) = pair()?;
    let set = create()?;
    add(set, server, IN, 5)?;
    fails!(add(set, server, OUT, 6), libc::EEXIST);
    fails!(change(set, client, IN, 5), libc::ENOENT);
    fails!(remove(set, client), libc::ENOENT);
    fails!(add(set, 777, IN, 5), EBADF);
    fails!(add(777, server, IN, 5), EBADF);
    fails!(add(server, client, IN, 5), EINVAL);
    fails!(add(set, set, IN, 5), EINVAL);
    fails!(control(set, 77, server, IN, 5), EINVAL);
    // SAFETY: the kernel checks the pointer; that is what this is about.
    fails!(
        done(unsafe { libc::epoll_ctl(set, EPOLL_CTL_MOD, server, std::ptr::null_mut()) }),
        EFAULT
    );
    send_all(client, b"x")?;
    same!(wait(set, 5000), Ok(vec![(IN, 5)]));
    Ok(())
}

fn file_refused() -> Outcome {
    use std::os::fd::AsRawFd;
    let file = tempfile::tempfile()?;
    fails!(add(create()?, file.as_raw_fd(), IN, 1), libc::EPERM);
    Ok(())
}

fn add_readable() -> Outcome {
    let (client, server) = pair()?;
    send_all(client, b"x")?;
    arrived(server, 1)?;
    for flags in [0, ET, ONESHOT] {
        let set = create()?;
        add(set, server, IN | flags, 9)?;
        same!(wait(set, 5000), Ok(vec![(IN, 9)]));
    }
    Ok(())
}

fn close_removes() -> Outcome {
    let (client, server) = pair()?;
    let (other, other_server) = pair()?;
    let set = create()?;
    add(set, server, IN, 5)?;
    add(set, other_server, IN, 6)?;
    send_all(client, b"x")?;
    same!(wait(set, 5000), Ok(vec![(IN, 5)]));
    close(server)?;
    same!(wait(set, 5), Ok(vec![]));
    send_all(other, b"x")?;
    same!(wait(set, 5000), Ok(vec![(IN, 6)]));
    Ok(())
}

fn close_with_dup() -> Outcome {
    let (client, server) = pair()?;
    let copy = dup(server)?;
    let set = create()?;
    add(set, server, IN, 5)?;
    close(server)?;
    send_all(client, b"x")?;
    same!(wait(set, 5000), Ok(vec![(IN, 5)]));
    gets!(recv(copy, 10, 0), b"x");
    same!(wait(set, 0), Ok(vec![]));
    close(copy)?;
    same!(wait(set, 5), Ok(vec![]));
    Ok(())
}

fn dup_as_members() -> Outcome {
    let (client, server) = pair()?;
    let copy = dup(server)?;
    let set = create()?;
    add(set, server, IN, 5)?;
    add(set, copy, IN, 6)?;
    send_all(client, b"x")?;
    readable(server)?;
    same!(wait(set, 5000), Ok(vec![(IN, 5), (IN, 6)]));
    remove(set, server)?;
    same!(wait(set, 5000), Ok(vec![(IN, 6)]));
    Ok(())
}

fn number_reused() -> Outcome {
    let (listener, address) = listener()?;
    let (first, first_server) = pair_at(listener, &address)?;
    let set = create()?;
    add(set, first_server, IN, 5)?;
    close(first_server)?;
    let (second, second_server) = pair_at(listener, &address)?;
    // The client took the freed number, or the server did.
    let (member, peer) = if second == first_server {
        (second, second_server)
    } else {
        (second_server, second)
    };
    same!(member, first_server);
    send_all(peer, b"x")?;
    readable(member)?;
    same!(wait(set, 5), Ok(vec![]));
    add(set, member, IN, 6)?;
    same!(wait(set, 5000), Ok(vec![(IN, 6)]));
    close(first)?;
    Ok(())
}

fn mixed() -> Outcome {
    let (listener, address) = listener()?;
    let (client, server) = pair_at(listener, &address)?;
    let (out, into) = pipe()?;
    let event = eventfd(0, 0)?;
    // SAFETY: takes numbers only.
    let timer = descriptor(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, 0) })?;
    let set = create()?;
    for (number, fd) in [server, out, event, timer, listener]
        .into_iter()
        .enumerate()
    {
        add(set, fd, IN, number as u64)?;
    }
    same!(wait(set, 0), Ok(vec![]));
    write(event, &1u64.to_ne_bytes())?;
    same!(wait(set, 5000), Ok(vec![(IN, 2)]));
    read(event, 8)?;
    let soon = libc::itimerspec {
        it_interval: timespec(Duration::ZERO),
        it_value: timespec(Duration::from_millis(20)),
    };
    // SAFETY: the specification outlives the call.
    done(unsafe { libc::timerfd_settime(timer, 0, &raw const soon, std::ptr::null_mut()) })?;
    same!(wait(set, 5000), Ok(vec![(IN, 3)]));
    write(into, b"x")?;
    send_all(client, b"x")?;
    let _waiting = self::client(&address)?;
    readable(server)?;
    readable(listener)?;
    same!(
        wait(set, 5000),
        Ok(vec![(IN, 0), (IN, 1), (IN, 3), (IN, 4)])
    );
    Ok(())
}

fn eventfd_wakes() -> Outcome {
    let (client, server) = pair()?;
    let event = eventfd(0, libc::EFD_NONBLOCK)?;
    let (out, into) = pipe()?;
    let set = create()?;
    add(set, server, IN, 1)?;
    add(set, event, IN, 2)?;
    let worker = thread(move || {
        for _ in 0..20 {
            same!(wait(set, 5000), Ok(vec![(IN, 2)]));
            read(event, 8)?;
            write(into, b"x")?;
            same!(wait(set, 5000), Ok(vec![(IN, 1)]));
            recv(server, 10, 0)?;
            write(into, b"x")?;
        }
        Ok(())
    });
    for _ in 0..20 {
        pause(1);
        write(event, &1u64.to_ne_bytes())?;
        read(out, 1)?;
        pause(1);
        send_all(client, b"x")?;
        read(out, 1)?;
    }
    worker.join()
}

fn many_members() -> Outcome {
    limit_descriptors(seen::descriptors(1024))?;
    let (listener, address) = listener()?;
    let set = create()?;
    let mut pairs = Vec::new();
    for number in 0..200 {
        let (client, server) = if number % 20 == 0 {
            pair_at(listener, &address)?
        } else {
            let client = client(&address)?;
            (client, accept(listener)?)
        };
        add(set, server, IN, number)?;
        pairs.push((client, server));
    }
    same!(wait(set, 0), Ok(vec![]));
    for number in [0, 77, 150, 199] {
        send_all(pairs[number].0, b"x")?;
        readable(pairs[number].1)?;
    }
    // Who looks is sometimes ahead of who rings: then the rest is told a little later.
    eventually("all that is there is told", || {
        wait(set, 5000) == Ok(vec![(IN, 0), (IN, 77), (IN, 150), (IN, 199)])
    })?;
    for number in [0, 77, 150, 199] {
        recv(pairs[number].1, 10, 0)?;
    }
    same!(wait(set, 5), Ok(vec![]));
    Ok(())
}

fn room() -> Outcome {
    let (listener, address) = listener()?;
    let set = create()?;
    for number in 0..5 {
        let (client, server) = pair_at(listener, &address)?;
        add(set, server, IN, number)?;
        send_all(client, b"x")?;
        readable(server)?;
    }
    let mut told = [0; 5];
    for _ in 0..25 {
        let events = wait_up_to(set, 1, 5000)?;
        same!(events.len(), 1);
        told[events[0].1 as usize] += 1;
    }
    same!(told, [5; 5]);
    Ok(())
}

fn timeouts() -> Outcome {
    let (client, server) = pair()?;
    let set = create()?;
    add(set, server, IN, 5)?;
    same!(wait(set, 0), Ok(vec![]));
    let began = Instant::now();
    same!(wait(set, 30), Ok(vec![]));
    holds!(began.elapsed() >= Duration::from_millis(29));
    let waiter = thread(move || {
        same!(wait(set, -1), Ok(vec![(IN, 5)]));
        Ok(())
    });
    pause(30);
    holds!(!waiter.ended());
    send_all(client, b"x")?;
    waiter.join()
}

fn wait_two() -> Outcome {
    let (client, server) = pair()?;
    let set = create()?;
    add(set, server, IN, 5)?;
    let began = Instant::now();
    same!(pwait2(set, Some(Duration::from_micros(20_500))), Ok(vec![]));
    holds!(began.elapsed() >= Duration::from_millis(20));
    same!(pwait2(set, Some(Duration::ZERO)), Ok(vec![]));
    send_all(client, b"x")?;
    same!(pwait2(set, None), Ok(vec![(IN, 5)]));
    Ok(())
}

fn pwait_mask() -> Outcome {
    let (_client, server) = pair()?;
    let set = create()?;
    add(set, server, IN, 5)?;
    count_signal(libc::SIGUSR1, 0)?;
    mask(libc::SIG_BLOCK, &signal_set(libc::SIGUSR1))?;
    // SAFETY: the signal is blocked and handled.
    unsafe { libc::raise(libc::SIGUSR1) };
    same!(pwait(set, 5, None), Ok(vec![]));
    same!(SIGNALS.load(Ordering::SeqCst), 0);
    fails!(pwait(set, 5000, Some(&signal_set(libc::SIGUSR2))), EINTR);
    same!(SIGNALS.load(Ordering::SeqCst), 1);
    Ok(())
}

fn bad_room() -> Outcome {
    let (_client, server) = pair()?;
    let set = create()?;
    add(set, server, OUT, 5)?;
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    for room in [0, -1] {
        // SAFETY: room for one event.
        fails!(
            descriptor(unsafe { libc::epoll_wait(set, &raw mut event, room, 0) }),
            EINVAL
        );
    }
    Ok(())
}

fn bad_set() -> Outcome {
    let (_client, server) = pair()?;
    fails!(wait(server, 0), EINVAL);
    let set = create()?;
    add(set, server, OUT, 5)?;
    close(set)?;
    fails!(wait(set, 0), EBADF);
    fails!(add(set, server, IN, 5), EBADF);
    Ok(())
}

fn listener_edge() -> Outcome {
    let (listener, address) = listener()?;
    nonblocking(listener, true)?;
    let set = create()?;
    add(set, listener, IN | ET, 5)?;
    for _ in 0..5 {
        let client = client(&address)?;
        same!(wait(set, 5000), Ok(vec![(IN, 5)]));
        let server = accept(listener)?;
        crate::support::seen::stream(server);
        same!(wait(set, 5), Ok(vec![]));
        echo(client, server)?;
    }
    Ok(())
}

fn datagrams() -> Outcome {
    let (left, right) = datagram_pair()?;
    let (level, edge) = (create()?, create()?);
    add(level, right, IN, 1)?;
    add(edge, right, IN | ET, 2)?;
    for round in 0..5u8 {
        same!(wait(level, 0), Ok(vec![]));
        send(left, &[round], 0)?;
        same!(wait(level, 5000), Ok(vec![(IN, 1)]));
        same!(wait(level, 0), Ok(vec![(IN, 1)]));
        same!(wait(edge, 5000), Ok(vec![(IN, 2)]));
        same!(wait(edge, 0), Ok(vec![]));
        gets!(recv(right, 10, 0), [round]);
    }
    same!(wait(level, 5), Ok(vec![]));
    Ok(())
}

/// Exchanges with epoll on both sides, with pauses of many lengths so that the sides sleep at every point.
fn exchange(flags: u32) -> Outcome {
    let (client, server) = pair()?;
    let rounds = 2000;
    let mirror = thread(move || {
        let set = create()?;
        add(set, server, IN | flags, 1)?;
        for _ in 0..rounds {
            same!(wait(set, 5000), Ok(vec![(IN, 1)]));
            let bytes = recv(server, 10, 0)?;
            send_all(server, &bytes)?;
        }
        Ok(())
    });
    let set = create()?;
    add(set, client, IN | flags, 2)?;
    for round in 0..rounds {
        send_all(client, &[round as u8])?;
        same!(wait(set, 5000), Ok(vec![(IN, 2)]));
        gets!(recv(client, 10, 0), [round as u8]);
        if round % 50 == 0 {
            std::thread::sleep(Duration::from_micros(round as u64 / 5));
        }
    }
    mirror.join()
}

fn wakeup_race() -> Outcome {
    exchange(0)
}

fn wakeup_race_edge() -> Outcome {
    exchange(ET)
}

fn steady_stream_starves_nobody() -> Outcome {
    let (client, server) = pair()?;
    let event = eventfd(0, 0)?;
    let set = create()?;
    add(set, server, IN, 1)?;
    add(set, event, IN, 2)?;
    send_all(client, b"always there")?;
    for _ in 0..50 {
        same!(wait(set, 5000), Ok(vec![(IN, 1)]));
    }
    write(event, &1u64.to_ne_bytes())?;
    let mut told = false;
    eventually("the eventfd is told", || {
        told |= wait(set, 5000).is_ok_and(|events| events.contains(&(IN, 2)));
        told
    })
}

fn connected_in_set() -> Outcome {
    let (listener, address) = listener()?;
    let client = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK)?;
    match connect(client, &address) {
        Ok(()) => {}
        other => fails!(other, EINPROGRESS),
    }
    let set = create()?;
    add(set, client, IN | OUT | RDHUP | ET, 5)?;
    same!(wait(set, 5000), Ok(vec![(OUT, 5)]));
    same!(socket_error(client), Ok(Errno(0)));
    let server = accept(listener)?;
    crate::support::seen::stream(server);
    send_all(server, b"x")?;
    same!(wait(set, 5000), Ok(vec![(IN | OUT, 5)]));
    gets!(recv(client, 10, 0), b"x");
    same!(wait(set, 5), Ok(vec![]));
    Ok(())
}

fn raw_calls() -> Outcome {
    let (client, server) = pair()?;
    let set = create()?;
    add(set, server, IN, 5)?;
    send_all(client, b"x")?;
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    // SAFETY: room for one event; no mask.
    let count = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait,
            set,
            &raw mut event,
            1,
            5000,
            0usize,
            8usize,
        )
    };
    let number = event.u64;
    same!((count, number), (1, 5));
    Ok(())
}
