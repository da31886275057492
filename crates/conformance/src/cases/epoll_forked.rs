// SPDX-License-Identifier: Apache-2.0
//! epoll: a set that a child has by a fork, and changes. It is one set for both.

use crate::support::epoll::*;
use crate::support::prelude::*;
use crate::support::seen;

cases! { "epoll";
    child_changes Accelerated "a child's MOD of an inherited member counts for the parent"
    child_changes_under_way Accelerated "the same while the parent sleeps in the set"
    child_adds Accelerated "a child adds a connection to an inherited set: the parent is told, with the child's number"
    child_deletes Accelerated "a child takes a member out: the parent is not told of it"
    child_takes_once Accelerated "a one-shot event that a child is told, the parent is not; what the child arms again, the parent is told"
    children_take_once Accelerated "of several children one is told a one-shot event"
    child_is_silent Accelerated "a child is not told the end of a connection of which the parent was told a one-shot event"
    child_after_changes Accelerated "a child goes on with a set as its parent has left it"
    child_takes_edge Accelerated "an edge is told to one of both, each new one again"
    parent_changes_first Accelerated "what the parent has changed since the fork counts for the child"
    child_in_background Accelerated "a child whose parent is gone goes on with the set alone"
    child_outlives_set Accelerated "a child goes on with a set that its parent has closed"
    child_without_proc Accelerated "a child that sees no /proc changes a set"
    child_of_other_namespace Accelerated "a child that does not see its parent's process changes a set"
}

/// A set with a connection in it, and the connection's other end.
fn with_member(events: u32) -> Result<(Fd, Fd, Fd), Failure> {
    let (client, server) = pair()?;
    echo(client, server)?;
    let set = create()?;
    add(set, server, events, 5)?;
    same!(
        wait(set, 0).map(|told| told.len()),
        Ok(usize::from(events & OUT != 0))
    );
    Ok((set, client, server))
}

/// Between machines connections cannot leave their rings: there each process's set is its own, which the documentation says.
fn is_left_out() -> bool {
    seen::far()
}

/// A byte comes, and a child is told.
fn child_is_told(set: Fd, client: Fd) -> Outcome {
    send_all(client, b"x")?;
    let told = fork(|| {
        same!(wait(set, 1000), Ok(vec![(IN, 5)]));
        Ok(())
    })?;
    told.join()
}

fn child_changes() -> Outcome {
    let (set, client, server) = with_member(IN)?;
    if is_left_out() {
        return Ok(());
    }
    fork(|| Ok(change(set, server, IN | OUT, 9)?))?.join()?;
    same!(wait(set, 1000), Ok(vec![(OUT, 9)]));
    send_all(client, b"x")?;
    readable(server)?;
    same!(wait(set, 1000), Ok(vec![(IN | OUT, 9)]));
    change(set, server, IN, 6)?;
    same!(wait(set, 1000), Ok(vec![(IN, 6)]));
    gets!(recv(server, 10, 0), b"x");
    same!(wait(set, 0), Ok(vec![]));
    remove(set, server)?;
    fails!(remove(set, server), libc::ENOENT);
    Ok(())
}

fn child_changes_under_way() -> Outcome {
    let (set, _client, server) = with_member(IN)?;
    if is_left_out() {
        return Ok(());
    }
    let child = fork(|| {
        pause(50);
        Ok(change(set, server, OUT, 9)?)
    })?;
    same!(wait(set, 5000), Ok(vec![(OUT, 9)]));
    child.join()
}

fn child_adds() -> Outcome {
    let (set, _client, _server) = with_member(IN)?;
    if is_left_out() {
        return Ok(());
    }
    let (client, server) = pair()?;
    echo(client, server)?;
    fork(|| Ok(add(set, server, IN, 8)?))?.join()?;
    same!(wait(set, 0), Ok(vec![]));
    send_all(client, b"x")?;
    same!(wait(set, 1000), Ok(vec![(IN, 8)]));
    fails!(add(set, server, IN, 8), libc::EEXIST);
    gets!(recv(server, 10, 0), b"x");
    same!(wait(set, 0), Ok(vec![]));
    Ok(())
}

fn child_deletes() -> Outcome {
    let (set, client, server) = with_member(IN)?;
    if is_left_out() {
        return Ok(());
    }
    fork(|| Ok(remove(set, server)?))?.join()?;
    send_all(client, b"x")?;
    readable(server)?;
    same!(wait(set, 20), Ok(vec![]));
    fails!(change(set, server, IN, 5), libc::ENOENT);
    add(set, server, IN, 7)?;
    same!(wait(set, 1000), Ok(vec![(IN, 7)]));
    Ok(())
}

fn child_takes_once() -> Outcome {
    let (set, client, server) = with_member(IN | ONESHOT)?;
    if is_left_out() {
        return Ok(());
    }
    child_is_told(set, client)?;
    same!(wait(set, 20), Ok(vec![]));
    fork(|| Ok(change(set, server, IN | ONESHOT, 6)?))?.join()?;
    same!(wait(set, 1000), Ok(vec![(IN, 6)]));
    same!(wait(set, 20), Ok(vec![]));
    Ok(())
}

fn children_take_once() -> Outcome {
    if is_left_out() {
        let (client, server) = pair()?;
        return echo(client, server);
    }
    for _ in 0..10 {
        let (set, client, server) = with_member(IN | ONESHOT)?;
        let (count, told) = pipe()?;
        let child = || {
            fork(|| {
                for _ in 0..8 {
                    for _ in wait(set, 10)? {
                        write(told, b"x")?;
                    }
                }
                Ok(())
            })
        };
        let children = [child()?, child()?];
        for _ in 0..3 {
            pause(2);
            send_all(client, b"x")?;
        }
        for child in children {
            child.join()?;
        }
        gets!(read(count, 10), b"x");
        gets!(recv_all(server, 3), b"xxx");
        for fd in [set, client, server, count, told] {
            close(fd)?;
        }
    }
    Ok(())
}

fn child_is_silent() -> Outcome {
    let (set, client, server) = with_member(OUT | ONESHOT)?;
    if is_left_out() {
        return Ok(());
    }
    let child = fork(|| {
        same!(wait(set, 10), Ok(vec![]));
        linger(client, true, 0)?;
        close(client)?;
        same!(wait(set, 30), Ok(vec![]));
        change(set, server, IN | ONESHOT, 6)?;
        pause(5);
        let told = wait(set, 1000)?;
        holds!(
            told.len() == 1 && told[0].1 == 6,
            "told {told:?} of the end"
        );
        Ok(())
    })?;
    close(client)?;
    child.join()
}

fn child_after_changes() -> Outcome {
    let (set, client, server) = with_member(IN | ONESHOT)?;
    if is_left_out() {
        return Ok(());
    }
    let (go, start) = pipe()?;
    let child = fork(|| {
        gets!(read(go, 1), b"x");
        same!(wait(set, 30), Ok(vec![]));
        change(set, server, IN | ONESHOT, 8)?;
        same!(wait(set, 1000), Ok(vec![(IN, 8)]));
        gets!(recv(server, 10, 0), b"y");
        Ok(())
    })?;
    send_all(client, b"y")?;
    same!(wait(set, 1000), Ok(vec![(IN, 5)]));
    close(set)?;
    write(start, b"x")?;
    child.join()
}

fn child_takes_edge() -> Outcome {
    let (set, client, server) = with_member(IN | ET)?;
    if is_left_out() {
        return Ok(());
    }
    child_is_told(set, client)?;
    same!(wait(set, 20), Ok(vec![]));
    send_all(client, b"y")?;
    same!(wait(set, 1000), Ok(vec![(IN, 5)]));
    gets!(recv_all(server, 2), b"xy");
    Ok(())
}

fn parent_changes_first() -> Outcome {
    let (set, client, server) = with_member(IN)?;
    if is_left_out() {
        return Ok(());
    }
    let (go, start) = pipe()?;
    let child = fork(|| {
        same!(read(go, 1)?, b"x");
        same!(wait(set, 5000), Ok(vec![(IN, 6)]));
        gets!(recv(server, 1, 0), b"x");
        Ok(())
    })?;
    change(set, server, IN, 6)?;
    // It sleeps in the set, and may be told as well.
    let waiting = thread(move || {
        let told = wait(set, 300)?;
        holds!(
            told.iter().all(|event| *event == (IN, 6)),
            "the parent was told {told:?}"
        );
        Ok(())
    });
    pause(20);
    write(start, b"x")?;
    pause(50);
    send_all(client, b"x")?;
    child.join()?;
    waiting.join()
}

fn child_in_background() -> Outcome {
    let (report, done) = pipe()?;
    let parent = fork(|| {
        let (set, client, server) = with_member(IN)?;
        fork(|| {
            pause(50);
            for number in 6..9 {
                change(set, server, IN, number)?;
                send_all(client, b"x")?;
                same!(wait(set, 1000), Ok(vec![(IN, number)]));
                gets!(recv(server, 10, 0), b"x");
            }
            write(done, b"x")?;
            Ok(())
        })?;
        Ok(())
    })?;
    parent.join()?;
    same!(poll_one(report, POLLIN, 5000), Ok(POLLIN));
    gets!(read(report, 1), b"x");
    Ok(())
}

fn child_outlives_set() -> Outcome {
    let (set, client, server) = with_member(IN)?;
    let child = fork(|| {
        pause(50);
        change(set, server, IN, 6)?;
        same!(wait(set, 1000), Ok(vec![(IN, 6)]));
        gets!(recv(server, 10, 0), b"x");
        Ok(())
    })?;
    close(set)?;
    send_all(client, b"x")?;
    child.join()
}

/// Changes the member of a set in a child that `leave` has taken elsewhere; a machine may forbid that.
fn changed_by(leave: fn() -> bool, arrive: fn() -> bool) -> Outcome {
    let (set, client, server) = with_member(IN)?;
    if is_left_out() {
        return Ok(());
    }
    let (report, done) = pipe()?;
    let child = fork(|| {
        if !leave() {
            write(done, b"-")?;
            return Ok(());
        }
        let change = fork(|| {
            holds!(arrive(), "no file system of the new namespace's processes");
            change(set, server, IN, 9)?;
            write(done, b"x")?;
            Ok(())
        });
        change?.join()
    })?;
    same!(poll_one(report, POLLIN, 5000), Ok(POLLIN));
    if read(report, 1)? == b"x" {
        send_all(client, b"x")?;
        same!(wait(set, 1000), Ok(vec![(IN, 9)]));
        gets!(recv(server, 10, 0), b"x");
        same!(wait(set, 0), Ok(vec![]));
    }
    child.join()
}

fn child_without_proc() -> Outcome {
    // SAFETY: the call takes a path that lives and ends with a zero.
    changed_by(|| unsafe { libc::chroot(c"/dev".as_ptr()) } == 0, || true)
}

fn child_of_other_namespace() -> Outcome {
    let leave = || {
        // SAFETY: the call takes flags alone; the children of the calling process are in the new namespaces.
        unsafe { libc::unshare(libc::CLONE_NEWPID | libc::CLONE_NEWNS) == 0 }
    };
    let arrive = || {
        let (proc, none) = (c"proc".as_ptr(), std::ptr::null());
        let private = libc::MS_PRIVATE | libc::MS_REC;
        // SAFETY: the calls take paths that live and end with a zero, and no data.
        unsafe {
            libc::mount(none, c"/".as_ptr(), none, private, std::ptr::null()) == 0
                && libc::mount(proc, c"/proc".as_ptr(), proc, 0, std::ptr::null()) == 0
        }
    };
    changed_by(leave, arrive)
}
