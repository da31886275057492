// SPDX-License-Identifier: Apache-2.0
//! Connections that go back to the kernel while they are used.

use crate::support::epoll::*;
use crate::support::prelude::*;
use crate::support::seen;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

cases! { "fallback";
    late_in_set Kernel "a connection whose acceptor is late stays level-triggered in its set, and tells no event unasked"
    late_edge Kernel "the same, edge-triggered: each arrival is told once"
    late_once Kernel "the same, EPOLLONESHOT: silent after one event until EPOLL_CTL_MOD"
    late_while_waiting Kernel "a thread waits in the set while another's send makes the connection the kernel's"
    late_in_poll Kernel "poll says of it what the kernel says"
    exec_plain Accelerated "a program without the library goes on with a connection, and with what is under way in it"
    exec_plain_busy Accelerated "the same while the peer is blocked in send and recv: megabytes both ways, byte for byte"
    exec_plain_polled Accelerated "the same while the peer waits in epoll"
    exec_plain_ended Accelerated "the same after the peer has shut its direction"
    exec_plain_closed Accelerated "the same after the peer has closed: what it sent, then the end"
    exec_plain_shared Accelerated "the same of a connection that a forked child has, too"
    exec_plain_aside Accelerated "a forked child becomes a program that reads nothing of a connection whose peer has closed: its parent reads all"
    confined Accelerated "a process that confines itself by seccomp goes on with its connections"
    io_uring Any "a program that asks for an io_uring over the library is told that there is none"
    peer_leaves_a_sleeper Any "poll and epoll_wait that sleep while the peer leaves its rings tell of nothing"
    leaves_what_is_told Any "a thread is told of bytes while another one's call takes the connection out of its rings: they can be read at once"
    end_stays_an_end Any "after the end comes nothing, also if the peer leaves its rings then"
    both_leave Any "both ends leave their rings, at once or one after the other, and end: each reads all, and the end"
    shut_peer_leaves Any "a peer that has shut both directions and leaves its rings has not closed: what is sent to it is taken"
    leaves_shut_peer Any "an end leaves its rings whose peer has shut both directions: the first bytes that it sends are taken"
    queued_behind_leaving Any "FIONREAD counts what a peer has sent that left its rings before"
    told_once_of_two Any "one of two members has left its rings, the other one's peer does: each is told once in a wait"
    leaves_in_nested_set Any "a connection in a set in a set: of what has gone over to the kernel the outer set tells as before"
}

/// Longer than a client waits for its acceptor.
const LATE: u64 = 450;

/// A client that has been connected for long, in a set, and the listener at which it was not accepted.
fn late(events: u32) -> Result<(Fd, Fd, Fd), Failure> {
    let (listener, address) = listener()?;
    let client = client(&address)?;
    let set = create()?;
    add(set, client, events, 7)?;
    same!(
        wait(set, 0).map(|told| told.len()),
        Ok(usize::from(events & OUT != 0))
    );
    pause(LATE);
    Ok((listener, client, set))
}

fn accept_late(listener: Fd) -> Result<Fd, Failure> {
    let server = accept(listener)?;
    seen::stream(server);
    Ok(server)
}

fn late_in_set() -> Outcome {
    let (listener, client, set) = late(IN)?;
    send_all(client, b"request")?;
    let server = accept_late(listener)?;
    gets!(recv_all(server, 7), b"request");
    same!(wait(set, 0), Ok(vec![]));
    send_all(server, b"answer")?;
    for left in [b"answer".as_slice(), b"nswer", b"swer"] {
        same!(wait(set, 5000), Ok(vec![(IN, 7)]));
        gets!(recv(client, 1, 0), &left[..1]);
    }
    gets!(recv_all(client, 3), b"wer");
    same!(wait(set, 0), Ok(vec![]));
    close(server)?;
    // The end is told, again and again, and without what was not asked for.
    same!(wait(set, 5000), Ok(vec![(IN, 7)]));
    same!(wait(set, 5000), Ok(vec![(IN, 7)]));
    gets!(recv(client, 10, 0), b"");
    change(set, client, IN | RDHUP, 8)?;
    same!(wait(set, 5000), Ok(vec![(IN | RDHUP, 8)]));
    remove(set, client)?;
    same!(wait(set, 0), Ok(vec![]));
    Ok(())
}

fn late_edge() -> Outcome {
    let (listener, client, set) = late(IN | ET)?;
    send_all(client, b"request")?;
    let server = accept_late(listener)?;
    for byte in [b"a", b"b"] {
        send_all(server, byte)?;
        same!(wait(set, 5000), Ok(vec![(IN, 7)]));
        same!(wait(set, 5), Ok(vec![]));
    }
    gets!(recv_all(client, 2), b"ab");
    Ok(())
}

fn late_once() -> Outcome {
    let (listener, client, set) = late(OUT | ONESHOT)?;
    send_all(client, b"request")?;
    let server = accept_late(listener)?;
    send_all(server, b"answer")?;
    readable(client)?;
    same!(wait(set, 0), Ok(vec![]));
    change(set, client, IN | ONESHOT, 9)?;
    same!(wait(set, 5000), Ok(vec![(IN, 9)]));
    same!(wait(set, 5), Ok(vec![]));
    change(set, client, IN | OUT, 10)?;
    same!(wait(set, 5000), Ok(vec![(IN | OUT, 10)]));
    Ok(())
}

fn late_while_waiting() -> Outcome {
    let (listener, client, set) = late(IN)?;
    let waiter = thread(move || {
        same!(wait(set, 5000), Ok(vec![(IN, 7)]));
        gets!(recv_all(client, 6), b"answer");
        same!(wait(set, 5000), Ok(vec![(IN, 7)]));
        gets!(recv(client, 10, 0), b"");
        Ok(())
    });
    pause(20);
    send_all(client, b"request")?;
    let server = accept_late(listener)?;
    gets!(recv_all(server, 7), b"request");
    send_all(server, b"answer")?;
    pause(20);
    close(server)?;
    waiter.join()
}

fn late_in_poll() -> Outcome {
    let (listener, address) = listener()?;
    let client = client(&address)?;
    pause(LATE);
    same!(poll_one(client, POLLIN, 0), Ok(0));
    same!(poll_one(client, POLLIN, 20), Ok(0));
    send_all(client, b"request")?;
    let server = accept_late(listener)?;
    gets!(recv_all(server, 7), b"request");
    same!(poll_one(client, POLLIN, 0), Ok(0));
    send_all(server, b"answer")?;
    same!(poll_one(client, POLLIN, 5000), Ok(POLLIN));
    same!(poll_one(client, POLLIN, 5000), Ok(POLLIN));
    gets!(recv_all(client, 6), b"answer");
    close(server)?;
    same!(poll_one(client, POLLIN, 5000), Ok(POLLIN));
    Ok(())
}

fn io_uring() -> Outcome {
    let mut parameters = [0u8; 120];
    // SAFETY: a structure of that size, which the kernel fills in.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 8, parameters.as_mut_ptr()) };
    if seen::library() {
        same!((ring, Errno::last()), (-1, Errno(libc::ENOSYS)));
    }
    Ok(())
}

/// A connection of which a program without the library gets the server's end.
fn handed_over(role: &str, client: Fd, server: Fd) -> Result<Role, Failure> {
    close_on_exec(client, true)?;
    let role = Role::start(&[role, &server.to_string()], true)?;
    close(server)?;
    Ok(role)
}

fn exec_plain() -> Outcome {
    let (client, server) = pair()?;
    echo(client, server)?;
    send_all(client, b"ahead")?;
    let mut role = handed_over("mirror", client, server)?;
    same!(recv_all(client, 5), Ok(b"ahead".to_vec()));
    same!(role.line()?, "ready");
    for size in [5, 500, 50_000] {
        send_all(client, &pattern(size))?;
        same!(recv_all(client, size), Ok(pattern(size)));
    }
    shutdown(client, SHUT_WR)?;
    gets!(recv(client, 10, 0), b"");
    role.join()
}

fn exec_plain_busy() -> Outcome {
    let total = 3_000_000;
    let (client, server) = pair()?;
    let sender = thread(move || {
        send_all(client, &pattern(total))?;
        Ok(shutdown(client, SHUT_WR)?)
    });
    let reader = thread(move || {
        let got = recv_all(client, total + 1)?;
        holds!(
            got == pattern(total),
            "{} bytes came back, or others",
            got.len()
        );
        Ok(())
    });
    pause(30);
    let role = handed_over("mirror", client, server)?;
    sender.join()?;
    reader.join()?;
    role.join()
}

fn exec_plain_polled() -> Outcome {
    let (client, server) = pair()?;
    let set = create()?;
    add(set, client, IN, 3)?;
    let waiter = thread(move || {
        for _ in 0..100 {
            same!(wait(set, 5000), Ok(vec![(IN, 3)]));
            gets!(recv(client, 100, 0), b"answer");
            send_all(client, b"answer")?;
        }
        same!(wait(set, 5000), Ok(vec![(IN, 3)]));
        gets!(recv(client, 100, 0), b"answer");
        Ok(shutdown(client, SHUT_WR)?)
    });
    send_all(server, b"answer")?;
    let role = handed_over("mirror", client, server)?;
    waiter.join()?;
    same!(wait(set, 5000), Ok(vec![(IN | HUP, 3)]));
    gets!(recv(client, 100, 0), b"");
    role.join()
}

fn exec_plain_ended() -> Outcome {
    let (client, server) = pair()?;
    send_all(client, &pattern(40_000))?;
    shutdown(client, SHUT_WR)?;
    let role = handed_over("mirror", client, server)?;
    same!(recv_all(client, 50_000), Ok(pattern(40_000)));
    role.join()
}

fn exec_plain_closed() -> Outcome {
    let (client, server) = pair()?;
    send_all(client, &pattern(40_000))?;
    close(client)?;
    let mut role = Role::start(&["swallow", &server.to_string()], true)?;
    same!(role.line()?, "40000 bytes");
    role.join()
}

fn exec_plain_shared() -> Outcome {
    let (client, server) = pair()?;
    let child = fork(|| {
        // Sees that its parent's program goes on without the library.
        gets!(recv_all(server, 3), b"one");
        send_all(server, b"two")?;
        Ok(())
    })?;
    pause(20);
    let role = handed_over("close", client, server)?;
    send_all(client, b"one")?;
    gets!(recv_all(client, 3), b"two");
    child.join()?;
    gets!(recv(client, 10, 0), b"");
    role.join()
}

fn exec_plain_aside() -> Outcome {
    let (client, server) = pair()?;
    send_all(client, &pattern(40_000))?;
    close(client)?;
    let sent = pattern(40_000);
    holds!(recv_all(server, 10_000)? == sent[..10_000]);
    let child = fork(|| {
        let failed = Command::new("true").env_remove("LD_PRELOAD").exec();
        Err(Failure::new(failed.to_string()))
    })?;
    child.join()?;
    let rest = recv_all(server, 40_000)?;
    holds!(
        rest == sent[10_000..],
        "{} bytes came, or other ones",
        rest.len()
    );
    gets!(recv(server, 10, 0), b"");
    Ok(())
}

/// Ends the process at system calls that the library makes and these cases do not.
fn confine() -> Outcome {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let forbidden = [
        libc::SYS_sendto,
        libc::SYS_recvfrom,
        libc::SYS_sendmsg,
        libc::SYS_recvmsg,
        libc::SYS_sched_yield,
        libc::SYS_nanosleep,
        libc::SYS_clock_nanosleep,
        libc::SYS_gettid,
        libc::SYS_kill,
        libc::SYS_epoll_ctl,
    ];
    let mut program = vec![step(LOAD, 0, 0, 0)];
    for call in forbidden {
        program.push(step(EQUAL, 0, 1, call as u32));
        program.push(step(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS));
    }
    program.push(step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW));
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: a filter that lives as long as the call.
    let result = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const filter,
            0,
            0,
        )
    };
    same!(result, 0);
    Ok(())
}

fn confined() -> Outcome {
    let (client, server) = pair()?;
    echo(client, server)?;
    send_all(client, b"ahead")?;
    let child = fork(|| {
        confine()?;
        loop {
            readable(server)?;
            let bytes = read(server, 64)?;
            if bytes.is_empty() {
                return Ok(close(server)?);
            }
            same!(write(server, &bytes), Ok(bytes.len()));
        }
    })?;
    close(server)?;
    gets!(recv_all(client, 5), b"ahead");
    for _ in 0..50 {
        send_all(client, b"more")?;
        gets!(recv_all(client, 4), b"more");
    }
    shutdown(client, SHUT_WR)?;
    gets!(recv(client, 10, 0), b"");
    child.join()
}

/// Which call sleeps.
#[derive(Clone, Copy, Debug)]
enum Sleep {
    Poll,
    Set,
}

/// Signals of what arrives are the kernel's: the connection leaves its rings.
fn leave_rings(fd: Fd) -> Outcome {
    // SAFETY: takes numbers only.
    same!(unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_ASYNC) }, 0);
    Ok(())
}

fn peer_leaves_a_sleeper() -> Outcome {
    for sleep in [Sleep::Poll, Sleep::Set] {
        for round in 0..150 {
            let (client, server) = pair()?;
            let child = fork(move || {
                close(server)?;
                std::thread::sleep(Duration::from_micros(100 + round * 4));
                leave_rings(client)?;
                gets!(recv_all(client, 1), b"!");
                Ok(())
            })?;
            close(client)?;
            let set = create()?;
            add(set, server, IN, 7)?;
            let told = match sleep {
                Sleep::Poll => poll_one(server, POLLIN, 3)? != 0,
                Sleep::Set => !wait(set, 3)?.is_empty(),
            };
            holds!(
                !told,
                "{sleep:?} told of input in round {round}, of which there is none"
            );
            send_all(server, b"!")?;
            child.join()?;
            for fd in [server, set] {
                close(fd)?;
            }
        }
    }
    Ok(())
}

fn leaves_what_is_told() -> Outcome {
    for round in 0..100 {
        let (client, server) = pair()?;
        echo(client, server)?;
        let reader = thread(move || {
            same!(poll_one(server, POLLIN, 5000), Ok(POLLIN));
            gets!(recv(server, 10, MSG_DONTWAIT), b"bytes");
            Ok(())
        });
        std::thread::sleep(Duration::from_micros(50 + round % 10 * 10));
        send_all(client, b"bytes")?;
        leave_rings(server)?;
        reader.join()?;
        for fd in [client, server] {
            close(fd)?;
        }
    }
    Ok(())
}

fn end_stays_an_end() -> Outcome {
    for _ in 0..100 {
        let (client, server) = pair()?;
        echo(client, server)?;
        let child = fork(move || {
            close(server)?;
            send_all(client, b"all")?;
            shutdown(client, SHUT_WR)?;
            leave_rings(client)?;
            gets!(recv(client, 10, 0), b"");
            Ok(())
        })?;
        close(client)?;
        gets!(recv_all(server, 3), b"all");
        for how in [0, MSG_DONTWAIT, MSG_DONTWAIT] {
            gets!(recv(server, 10, how), b"");
        }
        close(server)?;
        child.join()?;
    }
    Ok(())
}

/// One end: sends, leaves its rings before, in the middle, behind its end, or in the middle of what it reads; then all is read.
fn leave_at(fd: Fd, place: u64, wait: u64) -> Outcome {
    let part = [7; 5000];
    let leave = |here| -> Outcome {
        if here == place {
            std::thread::sleep(Duration::from_micros(wait));
            leave_rings(fd)?;
        }
        Ok(())
    };
    leave(0)?;
    send_all(fd, &part)?;
    leave(1)?;
    send_all(fd, &part)?;
    leave(2)?;
    shutdown(fd, SHUT_WR)?;
    leave(3)?;
    gets!(recv_all(fd, part.len()), part);
    leave(4)?;
    gets!(recv_all(fd, part.len()), part);
    gets!(recv(fd, 10, 0), b"");
    Ok(())
}

fn both_leave() -> Outcome {
    for round in 0..600 {
        let (client, server) = pair()?;
        echo(client, server)?;
        let [first, second] = [round % 6, round / 6 % 6];
        let child = fork(move || {
            close(server)?;
            leave_at(client, first, round % 7 * 10)
        })?;
        close(client)?;
        leave_at(server, second, round % 5 * 10)?;
        close(server)?;
        child.join()?;
    }
    Ok(())
}

fn leaves_in_nested_set() -> Outcome {
    for outer_events in [IN, IN | ET] {
        let (client, server) = pair()?;
        echo(client, server)?;
        let (inner, outer) = (create()?, create()?);
        add(inner, server, IN, 5)?;
        add(outer, inner, outer_events, 6)?;
        for round in 0..40 {
            if round == 20 {
                leave_rings(client)?;
            }
            same!(wait(outer, 2), Ok(vec![]));
            send_all(client, b"x")?;
            same!(wait(outer, 5000), Ok(vec![(IN, 6)]));
            same!(wait(inner, 0), Ok(vec![(IN, 5)]));
            gets!(recv(server, 10, 0), b"x");
            same!(wait(inner, 0), Ok(vec![]));
        }
    }
    Ok(())
}

fn shut_peer_leaves() -> Outcome {
    shut_and_left(|client, _| leave_rings(client))
}

fn leaves_shut_peer() -> Outcome {
    shut_and_left(|_, server| leave_rings(server))
}

fn shut_and_left(leave: fn(Fd, Fd) -> Outcome) -> Outcome {
    let (client, server) = pair()?;
    echo(client, server)?;
    shutdown(client, SHUT_RDWR)?;
    leave(client, server)?;
    readable(server)?;
    same!(
        poll_one(server, POLLIN | POLLOUT | POLLRDHUP, 0),
        Ok(POLLIN | POLLOUT | POLLRDHUP)
    );
    same!(send(server, b"abc", 0), Ok(3));
    same!(poll_one(server, POLLHUP, 1000), Ok(POLLHUP | POLLERR));
    Ok(())
}

fn queued_behind_leaving() -> Outcome {
    let (client, server) = pair()?;
    echo(client, server)?;
    leave_rings(client)?;
    send_all(client, b"after")?;
    pause(5);
    same!(fionread(server), Ok(5));
    gets!(recv(server, 2, 0), b"af");
    same!(fionread(server), Ok(3));
    Ok(())
}

fn told_once_of_two() -> Outcome {
    let (first, second) = (pair()?, pair()?);
    let set = create()?;
    for ((client, server), data) in [(first, 1), (second, 2)] {
        echo(client, server)?;
        add(set, server, IN, data)?;
    }
    same!(wait(set, 0), Ok(vec![]));
    leave_rings(first.1)?;
    send_all(first.0, b"x")?;
    readable(first.1)?;
    leave_rings(second.0)?;
    send_all(second.0, b"y")?;
    pause(5);
    let mut told = wait(set, 0)?;
    told.sort_unstable();
    same!(told, vec![(IN, 1), (IN, 2)]);
    Ok(())
}
