// SPDX-License-Identifier: Apache-2.0
//! Several processes: fork, exec, kill.

use crate::support::prelude::*;
use crate::support::seen;

cases! { "forking";
    child_accepts Accelerated "fork after listen: the child accepts and serves"
    children_accept Accelerated "four children accept from one listener, as nginx does; all connections work"
    parent_accepts_too Accelerated "parent and child accept from the same listener"
    child_connects Accelerated "the child connects to the parent"
    child_serves Accelerated "fork after accept: the child serves, the parent closes its copy"
    parent_closes_late Accelerated "the end comes only when parent and child have closed"
    shared_connection Accelerated "parent and child send on one connection; nothing is lost"
    shared_reading Accelerated "parent and child receive from one connection by turns"
    child_takes_over Accelerated "the parent sends, forks, closes; the child goes on in the same stream"
    data_before_fork Accelerated "bytes that arrived before fork can be read in the child"
    child_exits Accelerated "a child that exits with a copy ends nothing"
    child_killed Accelerated "a child that is killed with a copy ends nothing"
    grandchild Accelerated "a connection works in a grandchild whose parents are gone"
    both_ends_in_children Accelerated "both ends move to two children"
    children_pass_on Accelerated "both ends are two children's only, of which one passes its end to another process"
    child_execs Accelerated "both ends are two children's only, of which one becomes another program"
    many_forks Accelerated "a hundred children each serve one connection"
    vfork_exec Accelerated "vfork and exec beside a connection leave it alone"
    plain_beside_ended Accelerated "a program without the library gets a connection that its peer has closed: this one reads on what is left"
    posix_spawn Accelerated "a program started with posix_spawn beside a connection leaves it alone"
    exec_inherits Accelerated "a program that inherits a connection over exec can at least end it in order"
    exec_serves Any "a program that inherits a connection over exec goes on with it, as inetd's services do"
    passed_to_process Any "a connection sent with SCM_RIGHTS to another process works there"
    exec_close_on_exec Accelerated "exec closes a close-on-exec connection: the peer sees the end"
    fork_in_thread Accelerated "fork while other threads use connections"
    epoll_in_child Accelerated "an epoll set made before fork works in the child"
    peer_killed_idle Accelerated "the peer's process is killed: a blocked recv gives the end"
    peer_killed_unread Accelerated "bytes of a peer that was killed are read first, then the end"
    peer_killed_with_ours Accelerated "a peer killed with our bytes unread resets the connection"
    peer_killed_writer Accelerated "a send blocked on a peer that is killed fails with ECONNRESET, without SIGPIPE, the next one with EPIPE"
    peer_killed_poll Accelerated "poll and epoll wake when the peer is killed"
    peer_killed_room Accelerated "poll that asks for room, too, tells of a peer that was killed, at once"
    peer_killed_send Accelerated "a first send to a peer that was killed is taken and lost, recv gives the end, the next send fails with EPIPE"
    peer_killed_before_accept Any "a client killed between connect and accept gives a connection that ends"
    server_killed Accelerated "the listening process is killed: connect is refused, its connections end"
    signal_exit Accelerated "a peer that ends by exit without close ends the connection in order"
    peer_stopped Accelerated "a stopped peer holds the sender up, a continued one goes on"
    setuid_before Any "a program that gives up root before it opens sockets works"
}

fn child_accepts() -> Outcome {
    let (listener, address) = listener()?;
    let child = fork(|| {
        let server = accept(listener)?;
        seen::stream(server);
        let bytes = recv(server, 10, 0)?;
        Ok(send_all(server, &bytes)?)
    })?;
    close(listener)?;
    // A child's listener is known as accelerated once it has begun to accept.
    pause(50);
    let client = client(&address)?;
    send_all(client, b"child")?;
    gets!(recv_all(client, 10), b"child");
    child.join()
}

fn children_accept() -> Outcome {
    let (listener, address) = listener()?;
    let children: Vec<Child> = (0..4)
        .map(|_| {
            fork(|| {
                loop {
                    let server = accept(listener)?;
                    seen::stream(server);
                    let bytes = recv(server, 10, 0)?;
                    send_all(server, &bytes)?;
                    close(server)?;
                    if bytes == b"stop" {
                        return Ok(());
                    }
                }
            })
        })
        .collect::<Call<_>>()?;
    for round in 0..24u8 {
        let client = client(&address)?;
        send_all(client, &[round])?;
        gets!(recv_all(client, 10), [round]);
        close(client)?;
    }
    for _ in &children {
        let client = client(&address)?;
        send_all(client, b"stop")?;
        gets!(recv_all(client, 10), b"stop");
    }
    children.iter().try_for_each(Child::join)
}

fn parent_accepts_too() -> Outcome {
    let (listener, address) = listener()?;
    let (first, first_server) = pair_at(listener, &address)?;
    let child = fork(|| {
        let server = accept(listener)?;
        seen::stream(server);
        gets!(recv_all(server, 1), b"1");
        Ok(send_all(server, b"2")?)
    })?;
    let second = client(&address)?;
    send_all(second, b"1")?;
    gets!(recv_all(second, 10), b"2");
    child.join()?;
    echo(first, first_server)?;
    let (third, third_server) = pair_at(listener, &address)?;
    echo(third, third_server)
}

fn child_connects() -> Outcome {
    let (listener, address) = listener()?;
    let child = fork(|| {
        close(listener)?;
        let client = client(&address)?;
        send_all(client, b"from the child")?;
        gets!(recv_all(client, 100), b"answer");
        Ok(())
    })?;
    let server = accept(listener)?;
    seen::stream(server);
    gets!(recv_all(server, 14), b"from the child");
    send_all(server, b"answer")?;
    close(server)?;
    child.join()
}

fn child_serves() -> Outcome {
    let (client, server) = pair()?;
    let child = fork(|| {
        close(client)?;
        let bytes = recv_all(server, 5000)?;
        Ok(send_all(server, &bytes)?)
    })?;
    close(server)?;
    send_all(client, &pattern(5000))?;
    same!(recv_all(client, 10_000), Ok(pattern(5000)));
    child.join()
}

fn parent_closes_late() -> Outcome {
    let (client, server) = pair()?;
    let child = fork(|| Ok(close(server)?))?;
    child.join()?;
    quiet(client)?;
    echo(client, server)?;
    close(server)?;
    readable(client)?;
    gets!(recv(client, 10, 0), b"");
    Ok(())
}

fn shared_connection() -> Outcome {
    let (client, server) = pair()?;
    let child = fork(|| {
        for _ in 0..300 {
            same!(send(server, &[b'c'; 30], 0), Ok(30));
        }
        Ok(())
    })?;
    let parent = thread(move || {
        for _ in 0..300 {
            same!(send(server, &[b'p'; 30], 0), Ok(30));
        }
        Ok(())
    });
    let mut counts = [0; 2];
    for _ in 0..600 {
        let block = recv_all(client, 30)?;
        same!(block.len(), 30);
        holds!(
            block.iter().all(|&byte| byte == block[0]),
            "two sends are mixed: {block:?}"
        );
        counts[usize::from(block[0] == b'p')] += 1;
    }
    same!(counts, [300, 300]);
    parent.join()?;
    child.join()
}

fn shared_reading() -> Outcome {
    let (client, server) = pair()?;
    let (out, into) = pipe()?;
    send_all(client, b"firstsecondthird")?;
    gets!(recv_all(server, 5), b"first");
    let child = fork(|| {
        gets!(recv_all(server, 6), b"second");
        write(into, b"x")?;
        Ok(())
    })?;
    gets!(read(out, 1), b"x");
    gets!(recv_all(server, 5), b"third");
    child.join()
}

fn child_takes_over() -> Outcome {
    let (client, server) = pair()?;
    let child = fork(|| {
        close(client)?;
        let mut got = recv_all(server, 8)?;
        got.extend(recv_all(server, 10)?);
        same!(got, b"before, after");
        Ok(())
    })?;
    close(server)?;
    send_all(client, b"before, ")?;
    let sender = fork(|| Ok(send_all(client, b"after")?))?;
    close(client)?;
    sender.join()?;
    child.join()
}

fn data_before_fork() -> Outcome {
    let (client, server) = pair()?;
    send_all(client, &pattern(1000))?;
    arrived(server, 1000)?;
    gets!(recv_all(server, 10), pattern(10));
    let child = fork(|| {
        same!(recv_all(server, 990)?, pattern(1000)[10..]);
        Ok(())
    })?;
    child.join()
}

fn child_exits() -> Outcome {
    let (client, server) = pair()?;
    fork(|| Ok(()))?.join()?;
    quiet(client)?;
    quiet(server)?;
    echo(client, server)
}

fn child_killed() -> Outcome {
    let (client, server) = pair()?;
    let child = fork(|| {
        pause(60_000);
        Ok(())
    })?;
    echo(client, server)?;
    child.kill()?;
    quiet(client)?;
    quiet(server)?;
    echo(client, server)?;
    close(client)?;
    readable(server)?;
    gets!(recv(server, 10, 0), b"");
    Ok(())
}

fn grandchild() -> Outcome {
    let (client, server) = pair()?;
    let child = fork(|| {
        fork(|| {
            close(client)?;
            pause(20);
            let bytes = recv_all(server, 3)?;
            Ok(send_all(server, &bytes)?)
        })?;
        Ok(())
    })?;
    child.join()?;
    close(server)?;
    send_all(client, b"old")?;
    gets!(recv_all(client, 10), b"old");
    Ok(())
}

fn both_ends_in_children() -> Outcome {
    let (client, server) = pair()?;
    let one = fork(|| {
        close(server)?;
        send_all(client, &pattern(100_000))?;
        gets!(recv_all(client, 10), b"thanks");
        Ok(())
    })?;
    let two = fork(|| {
        close(client)?;
        same!(recv_all(server, 100_000), Ok(pattern(100_000)));
        Ok(send_all(server, b"thanks")?)
    })?;
    close(client)?;
    close(server)?;
    one.join()?;
    two.join()
}

/// Two children have the two ends of a connection, and nobody else; what the second one does with the server's is `moves`.
fn with_children(moves: impl FnOnce(Fd) -> Outcome) -> Outcome {
    let (client, server) = pair()?;
    echo(client, server)?;
    let [told, tells] = unix_pair()?;
    let one = fork(|| {
        close(server)?;
        send_all(client, &pattern(5000))?;
        same!(recv_all(client, 5000), Ok(pattern(5000)));
        shutdown(client, SHUT_WR)?;
        gets!(recv(client, 10, 0), b"");
        Ok(())
    })?;
    let two = fork(|| {
        close(client)?;
        gets!(recv_all(told, 1), b"!");
        moves(server)
    })?;
    close(client)?;
    close(server)?;
    send_all(tells, b"!")?;
    two.join()?;
    one.join()
}

fn children_pass_on() -> Outcome {
    let [way, place] = unix_pair()?;
    let receiver = fork(|| mirror(take_descriptor(place)?))?;
    with_children(|server| {
        give_descriptor(way, server)?;
        Ok(close(server)?)
    })?;
    receiver.join()
}

fn child_execs() -> Outcome {
    with_children(|server| {
        let role = Role::start(&["mirror", &server.to_string()], false)?;
        close(server)?;
        role.join()
    })
}

fn many_forks() -> Outcome {
    let (listener, address) = listener()?;
    for round in 0..100u8 {
        let client = client(&address)?;
        let server = accept(listener)?;
        if round % 20 == 0 {
            seen::stream(server);
        }
        let child = fork(|| {
            let bytes = recv(server, 10, 0)?;
            Ok(send_all(server, &bytes)?)
        })?;
        close(server)?;
        send_all(client, &[round])?;
        gets!(recv_all(client, 10), [round]);
        close(client)?;
        child.join()?;
    }
    Ok(())
}

/// Runs /bin/true between `vfork` and `exec`, with the program's environment or without one.
fn vfork_true(environment: bool) -> Call<()> {
    let program = c"/bin/true".as_ptr();
    let arguments = [program, std::ptr::null()];
    let none = [std::ptr::null()];
    // SAFETY: the child only calls exec and _exit, as vfork demands.
    #[allow(deprecated)]
    let pid = unsafe {
        let pid = libc::vfork();
        if pid == 0 {
            match environment {
                true => libc::execv(program, arguments.as_ptr()),
                false => libc::execve(program, arguments.as_ptr(), none.as_ptr()),
            };
            libc::_exit(127);
        }
        pid
    };
    same_status(pid)
}

fn same_status(pid: libc::pid_t) -> Call<()> {
    match Child(descriptor(pid)?).status()? {
        0 => Ok(()),
        _ => Err(Errno(libc::ENOENT)),
    }
}

fn vfork_exec() -> Outcome {
    let (client, server) = pair()?;
    for fd in [client, server] {
        close_on_exec(fd, true)?;
    }
    vfork_true(true)?;
    quiet(client)?;
    echo(client, server)
}

fn plain_beside_ended() -> Outcome {
    let (client, server) = pair()?;
    echo(client, server)?;
    send_all(client, b"what is left")?;
    close(client)?;
    readable(server)?;
    vfork_true(false)?;
    gets!(recv(server, 4, 0), b"what");
    vfork_true(false)?;
    gets!(recv_all(server, 8), b" is left");
    gets!(recv(server, 1, 0), b"");
    Ok(())
}

fn posix_spawn() -> Outcome {
    let (client, server) = pair()?;
    let program = c"/bin/true".as_ptr();
    let arguments = [program.cast_mut(), std::ptr::null_mut()];
    let environment = [std::ptr::null_mut()];
    let mut pid = 0;
    // SAFETY: the argument vectors end with null.
    let result = unsafe {
        let null = std::ptr::null();
        libc::posix_spawn(
            &raw mut pid,
            program,
            null,
            null.cast(),
            arguments.as_ptr(),
            environment.as_ptr(),
        )
    };
    same!(result, 0);
    same_status(pid)?;
    quiet(client)?;
    echo(client, server)
}

fn exec_inherits() -> Outcome {
    let (client, server) = pair()?;
    close_on_exec(client, true)?;
    // What was said before is said. The program that comes after may say more, over whatever it has.
    send_all(server, b"before exec")?;
    let number = server.to_string();
    let mut role = Role::start(&["close", &number], false)?;
    close(server)?;
    same!(role.line()?, "closed");
    gets!(recv_all(client, 100), b"before exec");
    gets!(recv(client, 100, 0), b"");
    role.join()
}

fn exec_serves() -> Outcome {
    let (client, server) = pair()?;
    close_on_exec(client, true)?;
    echo(client, server)?;
    let mut role = Role::start(&["mirror", &server.to_string()], false)?;
    close(server)?;
    same!(role.line()?, "ready");
    for size in [5, 500, 5000] {
        send_all(client, &pattern(size))?;
        same!(recv_all(client, size), Ok(pattern(size)));
    }
    shutdown(client, SHUT_WR)?;
    gets!(recv(client, 10, 0), b"");
    role.join()
}

/// Sends back what comes.
fn mirror(fd: Fd) -> Outcome {
    loop {
        let bytes = recv(fd, 1000, 0)?;
        if bytes.is_empty() {
            return Ok(());
        }
        send_all(fd, &bytes)?;
    }
}

fn passed_to_process() -> Outcome {
    let [way, place] = unix_pair()?;
    let child = fork(|| mirror(take_descriptor(place)?))?;
    let (client, server) = pair()?;
    echo(client, server)?;
    give_descriptor(way, server)?;
    close(server)?;
    for size in [5, 500, 5000] {
        send_all(client, &pattern(size))?;
        same!(recv_all(client, size), Ok(pattern(size)));
    }
    close(client)?;
    child.join()
}

fn exec_close_on_exec() -> Outcome {
    let (client, server) = pair()?;
    close_on_exec(client, true)?;
    close_on_exec(server, true)?;
    let child = fork(|| {
        close(client)?;
        send_all(server, b"last")?;
        let arguments = [c"/bin/sleep".as_ptr(), c"0.2".as_ptr(), std::ptr::null()];
        // SAFETY: the argument vector ends with null.
        unsafe { libc::execv(arguments[0], arguments.as_ptr()) };
        Err(Failure::new("exec failed"))
    })?;
    close(server)?;
    gets!(recv_all(client, 10), b"last");
    child.join()
}

fn fork_in_thread() -> Outcome {
    let (client, server) = pair()?;
    let mirror = thread(move || {
        loop {
            let bytes = recv(server, 100, 0)?;
            if bytes.is_empty() {
                return Ok(());
            }
            send_all(server, &bytes)?;
        }
    });
    let user = thread(move || {
        for round in 0..2000u32 {
            send_all(client, &round.to_le_bytes())?;
            gets!(recv_all(client, 4), round.to_le_bytes());
        }
        Ok(())
    });
    for _ in 0..20 {
        // SAFETY: the child does nothing but exit.
        match unsafe { libc::fork() } {
            // SAFETY: as above.
            0 => unsafe { libc::_exit(0) },
            pid => Child(descriptor(pid)?).join()?,
        }
    }
    user.join()?;
    close(client)?;
    mirror.join()
}

fn epoll_in_child() -> Outcome {
    use crate::support::epoll;
    let (client, server) = pair()?;
    let set = epoll::create()?;
    epoll::add(set, server, epoll::IN, 3)?;
    let child = fork(|| {
        same!(epoll::wait(set, 5000), Ok(vec![(epoll::IN, 3)]));
        gets!(recv(server, 10, 0), b"child");
        same!(epoll::wait(set, 0), Ok(vec![]));
        Ok(())
    })?;
    send_all(client, b"child")?;
    child.join()?;
    send_all(client, b"parent")?;
    same!(epoll::wait(set, 5000), Ok(vec![(epoll::IN, 3)]));
    gets!(recv(server, 10, 0), b"parent");
    Ok(())
}

/// A child that holds the client's end and is ready; ours is the server's end.
fn victim(body: impl FnOnce(Fd) -> Outcome) -> Result<(Child, Fd), Failure> {
    let (listener, address) = listener()?;
    let (out, into) = pipe()?;
    let child = fork(|| {
        close(listener)?;
        let client = client(&address)?;
        // The byte tells the other side that the connection is used.
        send_all(client, b"!")?;
        body(client)?;
        write(into, b"x")?;
        pause(60_000);
        Ok(())
    })?;
    let server = accept(listener)?;
    seen::stream(server);
    gets!(recv_all(server, 1), b"!");
    close(listener)?;
    read(out, 1)?;
    Ok((child, server))
}

fn peer_killed_idle() -> Outcome {
    let (child, server) = victim(|_| Ok(()))?;
    let reader = thread(move || {
        gets!(recv(server, 10, 0), b"");
        Ok(())
    });
    pause(30);
    child.kill()?;
    reader.join()
}

fn peer_killed_unread() -> Outcome {
    let (child, server) = victim(|client| Ok(send_all(client, &pattern(5000))?))?;
    child.kill()?;
    pause(10);
    same!(recv_all(server, 10_000), Ok(pattern(5000)));
    gets!(recv(server, 10, 0), b"");
    Ok(())
}

fn peer_killed_with_ours() -> Outcome {
    let (child, server) = victim(|_| Ok(()))?;
    send_all(server, b"nobody reads this")?;
    pause(10);
    child.kill()?;
    readable(server)?;
    fails!(recv(server, 10, 0), ECONNRESET);
    Ok(())
}

fn peer_killed_writer() -> Outcome {
    let (child, server) = victim(|_| Ok(()))?;
    let sender = thread(move || {
        let block = vec![1; 65536];
        for _ in 0..1000 {
            match send(server, &block, 0) {
                Ok(_) => {}
                other => {
                    fails!(other, ECONNRESET);
                    fails!(send(server, &block, MSG_NOSIGNAL), EPIPE);
                    return Ok(());
                }
            }
        }
        Err(Failure::new(
            "sixty megabytes were taken though nobody read",
        ))
    });
    pause(50);
    holds!(!sender.ended());
    child.kill()?;
    sender.join()
}

fn peer_killed_poll() -> Outcome {
    use crate::support::epoll;
    let (child, server) = victim(|_| Ok(()))?;
    let set = epoll::create()?;
    epoll::add(set, server, epoll::IN | epoll::RDHUP | epoll::ET, 1)?;
    same!(epoll::wait(set, 0), Ok(vec![]));
    let poller = thread(move || {
        let events = poll_one(server, POLLIN | POLLRDHUP, 5000)?;
        same!(events & (POLLIN | POLLRDHUP), POLLIN | POLLRDHUP);
        Ok(())
    });
    let waiter = thread(move || {
        let events = epoll::wait(set, 5000)?;
        same!(events.len(), 1);
        same!(
            events[0].0 & (epoll::IN | epoll::RDHUP),
            epoll::IN | epoll::RDHUP
        );
        Ok(())
    });
    pause(30);
    child.kill()?;
    poller.join()?;
    waiter.join()?;
    gets!(recv(server, 10, 0), b"");
    Ok(())
}

fn peer_killed_room() -> Outcome {
    let (child, server) = victim(|_| Ok(()))?;
    let all = POLLIN | POLLOUT | POLLRDHUP;
    same!(poll_one(server, all, 0), Ok(POLLOUT));
    child.kill()?;
    if seen::far() {
        // Its daemon says it to the other one, when each has its turn.
        same!(poll_one(server, POLLIN, 5000), Ok(POLLIN));
    }
    // The kernel is asked each millisecond.
    pause(20);
    same!(poll_one(server, all, 0), Ok(all));
    same!(poll_one(server, all, -1), Ok(all));
    Ok(())
}

fn peer_killed_send() -> Outcome {
    let (child, server) = victim(|_| Ok(()))?;
    if seen::far() {
        // The daemons tell of a death later than that.
        return child.kill().map_err(Into::into);
    }
    same!(send(server, b"", 0), Ok(0));
    child.kill()?;
    // The kernel is asked each millisecond.
    pause(20);
    same!(send(server, b"lost", MSG_NOSIGNAL), Ok(4));
    pause(20);
    gets!(recv(server, 10, 0), b"");
    fails!(send(server, b"more", MSG_NOSIGNAL), EPIPE);
    gets!(recv(server, 10, 0), b"");
    Ok(())
}

fn peer_killed_before_accept() -> Outcome {
    let (listener, address) = listener()?;
    let (out, into) = pipe()?;
    let child = fork(|| {
        let client = client(&address)?;
        send_all(client, b"testament")?;
        write(into, b"x")?;
        pause(60_000);
        Ok(())
    })?;
    read(out, 1)?;
    child.kill()?;
    let server = accept(listener)?;
    gets!(recv_all(server, 100), b"testament");
    gets!(recv(server, 10, 0), b"");
    let (client, server) = pair_at(listener, &address)?;
    echo(client, server)
}

fn server_killed() -> Outcome {
    let (listener, address) = listener()?;
    let child = fork(|| {
        let server = accept(listener)?;
        seen::stream(server);
        send_all(server, b"here")?;
        pause(60_000);
        Ok(())
    })?;
    close(listener)?;
    pause(50);
    let one = client(&address)?;
    gets!(recv_all(one, 4), b"here");
    child.kill()?;
    readable(one)?;
    gets!(recv(one, 10, 0), b"");
    fails!(client(&address), ECONNREFUSED);
    Ok(())
}

fn signal_exit() -> Outcome {
    let (listener, address) = listener()?;
    let child = fork(|| {
        let client = client(&address)?;
        gets!(recv_all(client, 2), b"go");
        Ok(send_all(client, b"and gone")?)
    })?;
    let server = accept(listener)?;
    // Not behind the child's end: of a process that is gone before its peer has accepted, the kernel brings the bytes.
    seen::stream(server);
    send_all(server, b"go")?;
    gets!(recv_all(server, 100), b"and gone");
    child.join()
}

fn peer_stopped() -> Outcome {
    let (listener, address) = listener()?;
    let total = 3_000_000;
    let child = fork(|| {
        let client = client(&address)?;
        let got = recv_all(client, total)?;
        holds!(got == pattern(total), "other bytes came than were sent");
        Ok(send_all(client, b"all")?)
    })?;
    let server = accept(listener)?;
    seen::stream(server);
    let pid = child.0;
    let sender = thread(move || Ok(send_all(server, &pattern(total))?));
    for _ in 0..3 {
        // SAFETY: the child is ours and not yet waited for.
        unsafe { libc::kill(pid, libc::SIGSTOP) };
        pause(10);
        // SAFETY: as above.
        unsafe { libc::kill(pid, libc::SIGCONT) };
    }
    sender.join()?;
    gets!(recv_all(server, 3), b"all");
    child.join()
}

fn setuid_before() -> Outcome {
    // Only root can give something up; for others the case is a plain connection.
    let child = fork(|| {
        // SAFETY: takes numbers only.
        unsafe {
            if libc::getuid() == 0 {
                same!(libc::setgid(65534), 0);
                same!(libc::setuid(65534), 0);
            }
        }
        let (client, server) = pair()?;
        echo(client, server)
    })?;
    child.join()
}
