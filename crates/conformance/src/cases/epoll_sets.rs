// SPDX-License-Identifier: Apache-2.0
//! epoll: sets in sets and in other calls, sets of several threads and of several processes.

use crate::support::epoll::*;
use crate::support::prelude::*;
use crate::support::process::{give_descriptor, take_descriptor};
use crate::support::seen;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

cases! { "epoll";
    nested Accelerated "a set in a set tells when its members are ready"
    nested_edge Accelerated "a set in an edge-triggered set"
    nested_told_within Accelerated "a set around a set tells of what a wait in that has told of, too, as long as it is there"
    nested_exclusive Accelerated "EPOLLEXCLUSIVE of a set fails with EINVAL, whatever is in it"
    nested_beside_member Accelerated "a connection that is in a set and in a set of that: both tell, whoever looks first"
    nested_one_at_a_time Accelerated "where a wait had no room for both, the next one tells of both, whoever has looked within"
    given_away Accelerated "a set that another process was sent tells that process, too, with the program's data"
    nested_kept Accelerated "what a set around it was told of is told within as it is by then, and not if it is gone"
    nested_twice Accelerated "a set in a set in a set"
    set_in_poll Accelerated "a set in poll and select"
    add_while_waiting Accelerated "a connection added by another thread wakes the waiter if it is readable"
    add_then_data_while_waiting Accelerated "a connection added by another thread wakes the waiter when bytes come"
    modify_while_waiting Accelerated "MOD by another thread wakes the waiter if it makes an event"
    delete_while_waiting Accelerated "DEL by another thread: the waiter is not woken by the member"
    accept_and_add Accelerated "main accepts and adds, a worker waits: memcached's way"
    many_waiters Accelerated "several threads wait in one set: each event is told to one at least"
    two_sets Accelerated "a connection in two sets is told in both"
    read_in_other_thread Accelerated "bytes read by another thread between event and read give EAGAIN"
    dup_of_set Accelerated "a dup of a set is the same set; the set lives until the last is closed"
    set_after_fork Accelerated "a child's DEL counts for the parent, as the set is shared"
    set_after_exec Accelerated "a program that inherits a set adds a connection to it, and is told"
    changed_after_exec Accelerated "a program that inherits a set with a connection in it changes that member, and is told"
    own_sets_after_fork Accelerated "a child makes a set of its own for an inherited connection"
}

fn nested() -> Outcome {
    let (client, server) = pair()?;
    let (inner, outer) = (create()?, create()?);
    add(inner, server, IN, 5)?;
    add(outer, inner, IN, 6)?;
    same!(wait(outer, 0), Ok(vec![]));
    let waiter = thread(move || {
        same!(wait(outer, 5000), Ok(vec![(IN, 6)]));
        same!(wait(inner, 0), Ok(vec![(IN, 5)]));
        gets!(recv(server, 10, 0), b"x");
        same!(wait(outer, 0), Ok(vec![]));
        Ok(())
    });
    pause(20);
    send_all(client, b"x")?;
    waiter.join()
}

fn nested_edge() -> Outcome {
    let (client, server) = pair()?;
    let (inner, outer) = (create()?, create()?);
    add(inner, server, IN, 5)?;
    add(outer, inner, IN | ET, 6)?;
    send_all(client, b"x")?;
    same!(wait(outer, 5000), Ok(vec![(IN, 6)]));
    // Between machines bytes may be seen before the doorbell that tells of them, which then is an edge, too: for each wake-up
    // of what is within epoll may tell once.
    let again = wait(outer, 5)?;
    holds!(again.is_empty() || seen::far() && again == [(IN, 6)]);
    same!(wait(outer, 5), Ok(vec![]));
    same!(wait(inner, 0), Ok(vec![(IN, 5)]));
    Ok(())
}

fn nested_told_within() -> Outcome {
    let (client, server) = pair()?;
    let (inner, outer) = (create()?, create()?);
    add(inner, server, IN, 5)?;
    add(outer, inner, IN, 6)?;
    same!(poll_one(outer, POLLIN, 8), Ok(0));
    send_all(client, b"x")?;
    readable(server)?;
    same!(wait(inner, 100), Ok(vec![(IN, 5)]));
    same!(poll_one(outer, POLLIN, 100), Ok(POLLIN));
    same!(wait(outer, 0), Ok(vec![(IN, 6)]));
    gets!(recv(server, 10, 0), b"x");
    same!(wait(outer, 0), Ok(vec![]));
    same!(poll_one(outer, POLLIN, 0), Ok(0));
    Ok(())
}

fn nested_exclusive() -> Outcome {
    let (_client, server) = pair()?;
    let (outer, inner) = (create()?, create()?);
    fails!(add(outer, inner, IN | EXCLUSIVE, 1), libc::EINVAL);
    add(inner, server, IN, 2)?;
    fails!(add(outer, inner, IN | EXCLUSIVE, 1), libc::EINVAL);
    fails!(remove(outer, inner), libc::ENOENT);
    add(outer, inner, IN, 1)?;
    Ok(())
}

fn nested_beside_member() -> Outcome {
    let (client, server) = pair()?;
    let (inner, outer) = (create()?, create()?);
    add(inner, server, IN, 5)?;
    add(outer, server, IN, 7)?;
    add(outer, inner, IN, 6)?;
    let sender = thread(move || {
        for round in 0..300u64 {
            send_all(client, b"x")?;
            gets!(recv(client, 1, 0), b"y");
            std::thread::sleep(std::time::Duration::from_micros(round * 37 % 400));
        }
        Ok(())
    });
    for round in 0..300 {
        let told = wait(outer, 5000)?;
        holds!(!told.is_empty(), "nothing in round {round}");
        // Who is told of both tells of both.
        same!(wait(inner, 5000), Ok(vec![(IN, 5)]));
        let mut both = wait(outer, 0)?;
        both.sort_unstable();
        same!(both, vec![(IN, 6), (IN, 7)]);
        gets!(recv(server, 1, 0), b"x");
        send_all(server, b"y")?;
    }
    sender.join()
}

fn nested_one_at_a_time() -> Outcome {
    let (client, server) = pair()?;
    for round in 0..8u8 {
        let (inner, outer) = (create()?, create()?);
        if round % 2 == 0 {
            add(inner, server, IN, 5)?;
            add(outer, inner, IN, 6)?;
            add(outer, server, IN, 7)?;
        } else {
            add(outer, server, IN, 7)?;
            add(inner, server, IN, 5)?;
            add(outer, inner, IN, 6)?;
        }
        let sender = thread(move || {
            pause(20);
            Ok(send_all(client, b"x")?)
        });
        same!(wait_up_to(outer, 1, 5000).map(|told| told.len()), Ok(1));
        sender.join()?;
        if round % 4 < 2 {
            same!(wait(inner, 1000), Ok(vec![(IN, 5)]));
        }
        same!(wait(outer, 0), Ok(vec![(IN, 6), (IN, 7)]));
        gets!(recv(server, 1, 0), b"x");
        same!(wait(outer, 0), Ok(vec![]));
        close(inner)?;
        close(outer)?;
    }
    Ok(())
}

fn given_away() -> Outcome {
    let [here, there] = unix_pair()?;
    let child = fork(|| {
        let set = take_descriptor(there)?;
        same!(wait(set, 5000), Ok(vec![(IN, 5)]));
        Ok(())
    })?;
    let (client, server) = pair()?;
    echo(client, server)?;
    if seen::far() {
        // Such a connection cannot leave its rings.
        return Ok(child.kill()?);
    }
    let set = create()?;
    add(set, server, IN, 5)?;
    same!(wait(set, 0), Ok(vec![]));
    give_descriptor(here, set)?;
    pause(5);
    send_all(client, b"x")?;
    child.join()?;
    same!(wait(set, 1000), Ok(vec![(IN, 5)]));
    gets!(recv(server, 10, 0), b"x");
    same!(wait(set, 0), Ok(vec![]));
    Ok(())
}

fn nested_kept() -> Outcome {
    let (client, server) = pair()?;
    echo(client, server)?;
    let (inner, outer) = (create()?, create()?);
    add(inner, server, IN | ONESHOT, 5)?;
    add(outer, inner, IN, 6)?;
    same!(poll_one(outer, POLLIN, 0), Ok(0));
    // SAFETY: takes numbers only; signals of what arrives are the kernel's, so that the connection leaves its rings.
    same!(
        unsafe { libc::fcntl(server, libc::F_SETFL, libc::O_ASYNC) },
        0
    );
    send_all(client, b"x")?;
    same!(poll_one(outer, POLLIN, 1000), Ok(POLLIN));
    gets!(recv(server, 10, 0), b"x");
    same!(wait(inner, 0), Ok(vec![]));
    send_all(client, b"y")?;
    same!(wait(inner, 1000), Ok(vec![(IN, 5)]));
    same!(wait(inner, 5), Ok(vec![]));
    gets!(recv(server, 10, 0), b"y");
    Ok(())
}

fn nested_twice() -> Outcome {
    let (client, server) = pair()?;
    let sets = [create()?, create()?, create()?];
    add(sets[0], server, IN, 1)?;
    add(sets[1], sets[0], IN, 2)?;
    add(sets[2], sets[1], IN, 3)?;
    fails!(add(sets[0], sets[2], IN, 4), libc::ELOOP);
    same!(wait(sets[2], 5), Ok(vec![]));
    send_all(client, b"x")?;
    same!(wait(sets[2], 5000), Ok(vec![(IN, 3)]));
    same!(wait(sets[1], 0), Ok(vec![(IN, 2)]));
    Ok(())
}

fn set_in_poll() -> Outcome {
    let (client, server) = pair()?;
    let set = create()?;
    add(set, server, IN, 5)?;
    same!(poll_one(set, POLLIN, 0), Ok(0));
    let poller = thread(move || {
        same!(poll_one(set, POLLIN, 5000), Ok(POLLIN));
        Ok(())
    });
    pause(20);
    send_all(client, b"x")?;
    poller.join()?;
    let chosen = select(&[set], &[], Some(Duration::from_secs(5)))?;
    same!(chosen.read, vec![set]);
    gets!(recv(server, 10, 0), b"x");
    same!(poll_one(set, POLLIN, 0), Ok(0));
    Ok(())
}

/// A thread that waits in the set for one event of this number.
fn waiter(set: Fd, events: u32, number: u64) -> Thread {
    thread(move || {
        same!(wait(set, 5000), Ok(vec![(events, number)]));
        Ok(())
    })
}

fn add_while_waiting() -> Outcome {
    let (client, server) = pair()?;
    send_all(client, b"x")?;
    arrived(server, 1)?;
    let set = create()?;
    let waiting = waiter(set, IN, 5);
    pause(30);
    add(set, server, IN, 5)?;
    waiting.join()
}

fn add_then_data_while_waiting() -> Outcome {
    let (client, server) = pair()?;
    let (_other, other_server) = pair()?;
    let set = create()?;
    add(set, other_server, IN, 4)?;
    let waiting = waiter(set, IN, 5);
    pause(30);
    add(set, server, IN, 5)?;
    pause(30);
    holds!(!waiting.ended());
    send_all(client, b"x")?;
    waiting.join()
}

fn modify_while_waiting() -> Outcome {
    let (_client, server) = pair()?;
    let set = create()?;
    add(set, server, IN, 5)?;
    let waiting = waiter(set, OUT, 6);
    pause(30);
    change(set, server, OUT, 6)?;
    waiting.join()
}

fn delete_while_waiting() -> Outcome {
    let (client, server) = pair()?;
    let (other, other_server) = pair()?;
    let set = create()?;
    add(set, server, IN, 5)?;
    add(set, other_server, IN, 6)?;
    let waiting = waiter(set, IN, 6);
    pause(30);
    remove(set, server)?;
    send_all(client, b"x")?;
    pause(20);
    holds!(!waiting.ended());
    send_all(other, b"x")?;
    waiting.join()
}

fn accept_and_add() -> Outcome {
    let (listener, address) = listener()?;
    let set = create()?;
    let worker = thread(move || {
        let mut ended = 0;
        while ended < 20 {
            let events = wait(set, 5000)?;
            holds!(
                !events.is_empty(),
                "no event for five seconds; {ended} connections had ended"
            );
            for (_, number) in events {
                let fd = number as Fd;
                let bytes = recv(fd, 100, 0)?;
                if bytes.is_empty() {
                    close(fd)?;
                    ended += 1;
                } else {
                    send_all(fd, &bytes)?;
                }
            }
        }
        Ok(())
    });
    let clients = thread(move || {
        for round in 0..20u8 {
            let client = client(&address)?;
            for _ in 0..3 {
                send_all(client, &[round; 5])?;
                gets!(recv_all(client, 5), [round; 5]);
            }
            close(client)?;
        }
        Ok(())
    });
    for _ in 0..20 {
        let server = accept4(listener, SOCK_NONBLOCK)?;
        crate::support::seen::stream(server);
        add(set, server, IN, server as u64)?;
    }
    clients.join()?;
    worker.join()
}

fn many_waiters() -> Outcome {
    let (listener, address) = listener()?;
    let set = create()?;
    let (total, waiters) = (40, 4);
    let pairs: Vec<_> = (0..total)
        .map(|_| pair_at(listener, &address))
        .collect::<Call<_>>()?;
    for (_, server) in &pairs {
        nonblocking(*server, true)?;
        add(set, *server, IN | ONESHOT, *server as u64)?;
    }
    let event = eventfd(0, 0)?;
    add(set, event, IN, 0)?;
    let got = Arc::new(AtomicUsize::new(0));
    let workers: Vec<_> = (0..waiters)
        .map(|_| {
            let got = got.clone();
            std::thread::spawn(move || {
                while let Ok(events) = wait(set, 5000)
                    && !events.is_empty()
                {
                    for (_, number) in events {
                        if number == 0 {
                            return;
                        }
                        let bytes = recv(number as Fd, 10, 0).map_or(0, |bytes| bytes.len());
                        got.fetch_add(bytes, Ordering::SeqCst);
                    }
                }
            })
        })
        .collect();
    pause(10);
    for (client, _) in &pairs {
        send_all(*client, b"x")?;
    }
    // Not by what is left to be read: bytes may still be on their way.
    eventually("all bytes are read", || got.load(Ordering::SeqCst) >= total)?;
    pause(10);
    write(event, &1u64.to_ne_bytes())?;
    for worker in workers {
        worker
            .join()
            .map_err(|_| Failure::new("a worker panicked"))?;
    }
    same!(got.load(Ordering::SeqCst), total);
    Ok(())
}

fn two_sets() -> Outcome {
    let (client, server) = pair()?;
    let sets = [create()?, create()?];
    let waiters = sets.map(|set| {
        thread(move || {
            add(set, server, IN | ET, 5)?;
            same!(wait(set, 5000), Ok(vec![(IN, 5)]));
            Ok(())
        })
    });
    pause(30);
    send_all(client, b"x")?;
    waiters.into_iter().try_for_each(Thread::join)
}

fn read_in_other_thread() -> Outcome {
    let (client, server) = pair()?;
    nonblocking(server, true)?;
    let set = create()?;
    add(set, server, IN, 5)?;
    send_all(client, b"x")?;
    same!(wait(set, 5000), Ok(vec![(IN, 5)]));
    thread(move || {
        gets!(recv(server, 10, 0), b"x");
        Ok(())
    })
    .join()?;
    fails!(recv(server, 10, 0), EAGAIN);
    same!(wait(set, 5), Ok(vec![]));
    Ok(())
}

fn dup_of_set() -> Outcome {
    let (client, server) = pair()?;
    let set = create()?;
    let copy = dup(set)?;
    add(copy, server, IN, 5)?;
    send_all(client, b"x")?;
    same!(wait(set, 5000), Ok(vec![(IN, 5)]));
    close(set)?;
    same!(wait(copy, 5000), Ok(vec![(IN, 5)]));
    remove(copy, server)?;
    same!(wait(copy, 0), Ok(vec![]));
    Ok(())
}

fn set_after_fork() -> Outcome {
    let (client, server) = pair()?;
    let (other, other_server) = pair()?;
    let set = create()?;
    add(set, server, IN, 5)?;
    let child = fork(|| {
        same!(wait(set, 0), Ok(vec![]));
        Ok(())
    })?;
    child.join()?;
    add(set, other_server, IN, 6)?;
    send_all(client, b"x")?;
    same!(wait(set, 5000), Ok(vec![(IN, 5)]));
    gets!(recv(server, 10, 0), b"x");
    send_all(other, b"x")?;
    same!(wait(set, 5000), Ok(vec![(IN, 6)]));
    Ok(())
}

fn own_sets_after_fork() -> Outcome {
    let (client, server) = pair()?;
    let child = fork(|| {
        close(client)?;
        let set = create()?;
        add(set, server, IN | ET, 5)?;
        for _ in 0..10 {
            same!(wait(set, 5000), Ok(vec![(IN, 5)]));
            let bytes = recv(server, 10, 0)?;
            send_all(server, &bytes)?;
        }
        Ok(())
    })?;
    close(server)?;
    let set = create()?;
    add(set, client, IN | ET, 6)?;
    for round in 0..10u8 {
        send_all(client, &[round])?;
        same!(wait(set, 5000), Ok(vec![(IN, 6)]));
        gets!(recv(client, 10, 0), [round]);
    }
    child.join()
}

/// The new program's part is [`inherited_set`].
fn set_after_exec() -> Outcome {
    let set = create()?;
    let (data, give) = pipe()?;
    add(set, data, IN, 3)?;
    close_on_exec(set, false)?;
    let mut role = Role::start(&["inherited-set", &set.to_string()], false)?;
    let (client, server) = pair()?;
    echo(client, server)?;
    same!(role.line()?, "told");
    write(give, b"x")?;
    same!(role.line()?, "told of the pipe");
    role.join()
}

/// The new program's part is [`inherited_member`].
fn changed_after_exec() -> Outcome {
    let (client, server) = pair()?;
    echo(client, server)?;
    let set = create()?;
    add(set, server, IN, 5)?;
    close_on_exec(set, false)?;
    close_on_exec(server, false)?;
    let arguments = ["inherited-member", &set.to_string(), &server.to_string()];
    let mut role = Role::start(&arguments, false)?;
    close(server)?;
    close(set)?;
    same!(role.line()?, "changed");
    send_all(client, b"now")?;
    same!(role.line()?, "told");
    role.join()
}

/// Uses a set that another program made, and its member.
pub fn inherited_member(set: Fd, member: Fd) -> Outcome {
    change(set, member, IN, 6)?;
    println!("changed");
    same!(wait(set, 5000), Ok(vec![(IN, 6)]));
    gets!(recv(member, 10, 0), b"now");
    println!("told");
    remove(set, member)?;
    fails!(change(set, member, IN, 6), libc::ENOENT);
    Ok(())
}

/// Uses a set that another program made.
pub fn inherited_set(set: Fd) -> Outcome {
    let (client, server) = pair()?;
    add(set, server, IN, 7)?;
    same!(wait(set, 0), Ok(vec![]));
    send_all(client, b"now")?;
    same!(wait(set, 5000), Ok(vec![(IN, 7)]));
    gets!(recv(server, 10, 0), b"now");
    let sender = thread(move || {
        pause(50);
        Ok(send_all(client, b"later")?)
    });
    same!(wait(set, 5000), Ok(vec![(IN, 7)]));
    sender.join()?;
    gets!(recv(server, 10, 0), b"later");
    println!("told");
    same!(wait(set, 5000), Ok(vec![(IN, 3)]));
    remove(set, server)?;
    println!("told of the pipe");
    Ok(())
}
