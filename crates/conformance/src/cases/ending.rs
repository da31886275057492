// SPDX-License-Identifier: Apache-2.0
//! How connections end: shutdown, close, reset.

use crate::support::prelude::*;
use std::sync::atomic::Ordering;

cases! { "ending";
    end_of_stream Accelerated "after the peer's close recv gives what is left and then 0, again and again"
    half_close_client Accelerated "after SHUT_WR the peer reads the end and can still answer"
    half_close_server Accelerated "the same from the accepting side"
    half_close_both Accelerated "both sides shut down writing: both read the end"
    write_after_half_close Accelerated "a write after the own SHUT_WR fails with EPIPE"
    shut_read Accelerated "after SHUT_RD recv gives 0 when nothing is left"
    shut_read_with_data Accelerated "SHUT_RD leaves what is already there readable"
    shut_both Accelerated "SHUT_RDWR ends both directions at both sides"
    send_to_deaf Accelerated "what is sent to a peer that has shut down both directions is answered by a reset: then EPIPE, hung up at both sides"
    send_to_deaf_unread Accelerated "what such a peer had not read by then it can still read, and is then told of the reset"
    blocked_by_deaf Accelerated "a send that is blocked when the peer shuts down both directions and takes what came ends with EPIPE"
    dissolve Accelerated "connect to AF_UNSPEC resets the connection, after what was sent; the socket has none then, and can connect again"
    dissolve_shared Accelerated "a process that shares the socket sees that the other one has dissolved the connection"
    shutdown_twice Accelerated "SHUT_WR twice is no error"
    shutdown_when_over Accelerated "shutdown of a connection that both sides have ended fails with ENOTCONN"
    shutdown_after_reset Accelerated "shutdown of a connection that was reset fails with ENOTCONN"
    shutdown_wrong Accelerated "shutdown with another number fails with EINVAL"
    shutdown_after_peer Accelerated "shutdown after the peer has closed works or says ENOTCONN"
    shutdown_wakes_own_reader Accelerated "SHUT_RDWR wakes a recv blocked in another thread with 0"
    shutdown_wakes_peer Accelerated "SHUT_WR wakes the peer's blocked recv with 0"
    close_wakes_peer Accelerated "close wakes the peer's blocked recv with 0"
    shutdown_listener Any "SHUT_RDWR on a listener wakes a blocked accept with EINVAL"
    broken_pipe Accelerated "writes after the peer has closed: the first works, a later one fails with EPIPE or ECONNRESET"
    writes_of_nothing Accelerated "writes of no bytes after the peer has closed work, and do not count as the first"
    signal_pipe Accelerated "EPIPE comes with SIGPIPE, not with MSG_NOSIGNAL"
    signal_pipe_write Accelerated "write and writev raise SIGPIPE as well"
    linger_zero Accelerated "close with SO_LINGER 0 resets the connection: the peer gets ECONNRESET"
    linger_zero_wakes Accelerated "a reset wakes a blocked recv with ECONNRESET"
    reset_after_shut Accelerated "a reset behind the own end: the next send is told ECONNRESET, the one after EPIPE"
    reset_after_both_shut Accelerated "a connection that both have ended gets no error from a peer that closes it with SO_LINGER 0 and data unread"
    reset_then_shut Accelerated "a reset behind the peer's end stays EPIPE, whatever is shut down after it"
    name_of_peer_when_over Accelerated "getpeername of a connection that is over fails with ENOTCONN"
    linger_time Accelerated "close with SO_LINGER and time sends what is there and ends in order"
    unread_data Accelerated "close with unread bytes resets the peer after what was sent to it"
    unread_after_shut_read Accelerated "the same after SHUT_RD, also for a peer that is blocked in send"
    reset_error_once Accelerated "ECONNRESET is given once, then recv gives 0"
    reset_error_option Accelerated "SO_ERROR gives ECONNRESET after a reset and clears it"
    reset_poll Accelerated "a reset connection polls as readable, hung up and in error"
    reset_while_writing Accelerated "a reset while the peer is blocked in send gives ECONNRESET, then EPIPE"
    close_while_peer_writes Accelerated "closing a reader whose peer is blocked in send ends the send with ECONNRESET, then EPIPE"
    end_poll Accelerated "the peer's SHUT_WR polls as POLLIN and POLLRDHUP; both ends shut as POLLHUP too"
    end_then_zero_write Accelerated "a write of nothing after the peer's end is no error"
    peek_end Accelerated "MSG_PEEK at the end gives 0 and leaves the end"
    data_then_close_large Accelerated "a megabyte sent before close arrives whole"
    close_order Accelerated "bytes, SHUT_WR and close of both sides in every order end in order"
    get_names_after_end Accelerated "getpeername after the peer's close still works or says ENOTCONN"
    inquiry_at_end Accelerated "FIONREAD at the end of a stream is 0"
    many_closes Accelerated "five hundred connections made and closed from either side"
}

fn closed_by_peer(fd: Fd) -> Outcome {
    readable(fd)?;
    gets!(recv(fd, 10, 0), b"");
    Ok(())
}

fn end_of_stream() -> Outcome {
    let (client, server) = pair()?;
    send_all(client, b"rest")?;
    close(client)?;
    gets!(recv_all(server, 10), b"rest");
    for _ in 0..3 {
        gets!(recv(server, 10, 0), b"");
        gets!(read(server, 10), b"");
        gets!(recv(server, 10, MSG_DONTWAIT), b"");
    }
    Ok(())
}

fn half(one: Fd, other: Fd) -> Outcome {
    send_all(one, b"question")?;
    shutdown(one, SHUT_WR)?;
    gets!(recv_all(other, 100), b"question");
    gets!(recv(other, 100, 0), b"");
    send_all(other, &pattern(5000))?;
    same!(recv_all(one, 5000), Ok(pattern(5000)));
    close(other)?;
    closed_by_peer(one)
}

fn half_close_client() -> Outcome {
    let (client, server) = pair()?;
    half(client, server)
}

fn half_close_server() -> Outcome {
    let (client, server) = pair()?;
    half(server, client)
}

fn half_close_both() -> Outcome {
    let (client, server) = pair()?;
    send_all(client, b"c")?;
    send_all(server, b"s")?;
    shutdown(client, SHUT_WR)?;
    shutdown(server, SHUT_WR)?;
    gets!(recv_all(client, 10), b"s");
    gets!(recv_all(server, 10), b"c");
    closed_by_peer(client)?;
    closed_by_peer(server)
}

fn write_after_half_close() -> Outcome {
    let (client, server) = pair()?;
    shutdown(client, SHUT_WR)?;
    fails!(send(client, b"x", MSG_NOSIGNAL), EPIPE);
    closed_by_peer(server)
}

fn shut_read() -> Outcome {
    let (client, server) = pair()?;
    shutdown(server, SHUT_RD)?;
    gets!(recv(server, 10, 0), b"");
    gets!(recv(server, 10, MSG_DONTWAIT), b"");
    same!(
        poll_one(server, POLLIN | POLLRDHUP, 0),
        Ok(POLLIN | POLLRDHUP)
    );
    // Writing is still possible.
    send_all(server, b"out")?;
    gets!(recv(client, 10, 0), b"out");
    Ok(())
}

fn shut_read_with_data() -> Outcome {
    let (client, server) = pair()?;
    send_all(client, b"there")?;
    arrived(server, 5)?;
    shutdown(server, SHUT_RD)?;
    gets!(recv(server, 10, 0), b"there");
    gets!(recv(server, 10, 0), b"");
    Ok(())
}

fn shut_both() -> Outcome {
    let (client, server) = pair()?;
    shutdown(client, SHUT_RDWR)?;
    gets!(recv(client, 10, 0), b"");
    fails!(send(client, b"x", MSG_NOSIGNAL), EPIPE);
    closed_by_peer(server)
}

const BOTH: [&[i32]; 3] = [&[SHUT_RDWR], &[SHUT_RD, SHUT_WR], &[SHUT_WR, SHUT_RD]];
const ALL: i16 = POLLIN | POLLOUT | POLLRDHUP;
const OVER: i16 = ALL | POLLERR | POLLHUP;

fn polls(fd: Fd, events: i16) -> Outcome {
    eventually("poll tells it", || poll_one(fd, ALL, 0) == Ok(events))
}

/// Shuts down both directions of `deaf`, in one of the ways, and sends to it until that fails.
fn deafen(speaker: Fd, deaf: Fd, how: &[i32]) -> Outcome {
    for direction in how {
        shutdown(deaf, *direction)?;
    }
    polls(speaker, ALL)?;
    polls(deaf, ALL | POLLHUP)?;
    if how.len() > 1 && crate::support::seen::far() {
        // The second word may have been lost on its way, and come later than the first: what is sent until then is taken.
        pause(500);
    }
    same!(send(speaker, b"", MSG_NOSIGNAL), Ok(0));
    same!(send(speaker, b"unheard", MSG_NOSIGNAL), Ok(7));
    polls(speaker, OVER)?;
    polls(deaf, OVER)?;
    fails!(send(speaker, b"x", MSG_NOSIGNAL), EPIPE);
    same!(poll_one(speaker, ALL, 0), Ok(ALL | POLLHUP));
    fails!(send(speaker, b"x", MSG_NOSIGNAL), EPIPE);
    Ok(())
}

fn send_to_deaf() -> Outcome {
    for how in BOTH {
        for swapped in [false, true] {
            let (client, server) = pair()?;
            let (speaker, deaf) = match swapped {
                true => (server, client),
                false => (client, server),
            };
            deafen(speaker, deaf, how)?;
            gets!(recv(speaker, 10, 0), b"");
            fails!(recv(deaf, 10, 0), ECONNRESET);
            gets!(recv(deaf, 10, 0), b"");
            same!(poll_one(deaf, ALL, 0), Ok(ALL | POLLHUP));
            fails!(send(deaf, b"x", MSG_NOSIGNAL), EPIPE);
            for fd in [speaker, deaf] {
                fails!(shutdown(fd, SHUT_WR), ENOTCONN);
            }
            close(speaker)?;
            close(deaf)?;
        }
    }
    // The deaf side learns of it after the speaker has closed, too.
    let (client, server) = pair()?;
    deafen(client, server, BOTH[0])?;
    close(client)?;
    fails!(recv(server, 10, 0), ECONNRESET);
    // SO_ERROR tells it once.
    let (client, server) = pair()?;
    shutdown(server, SHUT_RDWR)?;
    polls(client, ALL)?;
    send_all(client, b"unheard")?;
    polls(client, OVER)?;
    same!(socket_error(client), Ok(Errno(EPIPE)));
    same!(socket_error(client), Ok(Errno(0)));
    polls(server, OVER)?;
    same!(socket_error(server), Ok(Errno(ECONNRESET)));
    Ok(())
}

fn send_to_deaf_unread() -> Outcome {
    for how in BOTH {
        let (client, server) = pair()?;
        send_all(client, b"question")?;
        send_all(server, b"answer")?;
        arrived(server, 8)?;
        arrived(client, 6)?;
        deafen(client, server, how)?;
        gets!(recv(client, 10, 0), b"answer");
        gets!(recv(client, 10, 0), b"");
        gets!(recv(server, 10, 0), b"question");
        fails!(recv(server, 10, 0), ECONNRESET);
        gets!(recv(server, 10, 0), b"");
    }
    Ok(())
}

fn blocked_by_deaf() -> Outcome {
    for how in BOTH {
        let (client, server) = pair()?;
        let sender = thread(move || {
            let block = vec![1; 65536];
            for _ in 0..1000 {
                match send(client, &block, MSG_NOSIGNAL) {
                    Ok(_) => {}
                    other => {
                        fails!(other, EPIPE);
                        return Ok(());
                    }
                }
            }
            Err(Failure::new("sixty megabytes were taken by the deaf"))
        });
        pause(50);
        holds!(!sender.ended());
        for direction in how {
            shutdown(server, *direction)?;
        }
        eventually("the sender is told", || {
            let _ = recv(server, 1 << 20, MSG_DONTWAIT);
            sender.ended()
        })?;
        sender.join()?;
        polls(client, ALL | POLLHUP)?;
    }
    Ok(())
}

fn dissolve() -> Outcome {
    for swapped in [false, true] {
        let (client, server) = pair()?;
        let (one, other) = match swapped {
            true => (server, client),
            false => (client, server),
        };
        send_all(one, b"last words")?;
        arrived(other, 10)?;
        same!(connect(one, &Address::unspecified()), Ok(()));
        polls(other, OVER)?;
        gets!(recv(other, 100, 0), b"last words");
        fails!(recv(other, 100, 0), ECONNRESET);
        gets!(recv(other, 100, 0), b"");
        fails!(send(other, b"x", MSG_NOSIGNAL), EPIPE);
        same!(socket_error(one), Ok(Errno(ECONNRESET)));
        polls(one, POLLOUT | POLLHUP)?;
        fails!(recv(one, 10, 0), ENOTCONN);
        fails!(send(one, b"x", MSG_NOSIGNAL), EPIPE);
        fails!(getpeername(one), ENOTCONN);
        let (listener, address) = listener()?;
        connect(one, &address)?;
        let next = accept(listener)?;
        echo(one, next)?;
        close(one)?;
        closed_by_peer(next)?;
    }
    Ok(())
}

fn dissolve_shared() -> Outcome {
    let (client, server) = pair()?;
    let child = fork(move || {
        // By now the parent has dissolved it.
        dissolved(client)?;
        break_pipe(client)?;
        fails!(recv(client, 10, 0), ENOTCONN);
        Ok(())
    })?;
    pause(30);
    same!(connect(client, &Address::unspecified()), Ok(()));
    polls(server, OVER)?;
    child.join()?;
    let (listener, address) = listener()?;
    connect(client, &address)?;
    echo(client, accept(listener)?)
}

/// Waits until poll says that there is no connection.
fn dissolved(fd: Fd) -> Outcome {
    eventually("there is no connection", || {
        poll_one(fd, POLLIN, 10).is_ok_and(|events| events & POLLHUP != 0)
    })
}

fn shutdown_twice() -> Outcome {
    let (client, server) = pair()?;
    shutdown(client, SHUT_WR)?;
    shutdown(client, SHUT_WR)?;
    closed_by_peer(server)
}

fn shutdown_when_over() -> Outcome {
    let (client, server) = pair()?;
    shutdown(client, SHUT_WR)?;
    closed_by_peer(server)?;
    shutdown(server, SHUT_WR)?;
    closed_by_peer(client)?;
    for fd in [client, server] {
        for how in [SHUT_WR, SHUT_RD, SHUT_RDWR] {
            // The kernel's last acknowledgement may be on its way.
            eventually("there is no connection", || {
                shutdown(fd, how) == Err(Errno(ENOTCONN))
            })?;
        }
    }
    Ok(())
}

fn shutdown_after_reset() -> Outcome {
    let (client, server) = pair()?;
    linger(client, true, 0)?;
    close(client)?;
    eventually("the reset arrived", || {
        poll_one(server, POLLIN, 0).is_ok_and(|events| events & POLLERR != 0)
    })?;
    fails!(shutdown(server, SHUT_WR), ENOTCONN);
    Ok(())
}

fn shutdown_wrong() -> Outcome {
    let (client, server) = pair()?;
    fails!(shutdown(client, 3), EINVAL);
    echo(client, server)
}

fn shutdown_after_peer() -> Outcome {
    let (client, server) = pair()?;
    close(client)?;
    closed_by_peer(server)?;
    match shutdown(server, SHUT_WR) {
        Ok(()) => {}
        other => fails!(other, ENOTCONN),
    }
    Ok(close(server)?)
}

fn shutdown_wakes_own_reader() -> Outcome {
    let (client, server) = pair()?;
    let reader = thread(move || {
        gets!(recv(server, 10, 0), b"");
        Ok(())
    });
    pause(30);
    holds!(!reader.ended());
    shutdown(server, SHUT_RDWR)?;
    reader.join()?;
    closed_by_peer(client)
}

fn shutdown_wakes_peer() -> Outcome {
    let (client, server) = pair()?;
    let reader = thread(move || {
        gets!(recv(server, 10, 0), b"");
        Ok(())
    });
    pause(30);
    shutdown(client, SHUT_WR)?;
    reader.join()
}

fn close_wakes_peer() -> Outcome {
    let (client, server) = pair()?;
    let reader = thread(move || {
        gets!(recv(server, 10, 0), b"");
        Ok(())
    });
    pause(30);
    close(client)?;
    reader.join()
}

fn shutdown_listener() -> Outcome {
    let (listener, _) = listener()?;
    let acceptor = thread(move || {
        fails!(accept(listener), EINVAL);
        Ok(())
    });
    pause(30);
    shutdown(listener, SHUT_RDWR)?;
    acceptor.join()
}

fn broken_pipe() -> Outcome {
    let (client, server) = pair()?;
    close(server)?;
    pause(10);
    same!(send(client, b"into the void", MSG_NOSIGNAL), Ok(13));
    let mut last = Ok(0);
    eventually("a write fails", || {
        last = send(client, b"x", MSG_NOSIGNAL);
        last.is_err()
    })?;
    match last {
        Err(Errno(ECONNRESET)) => {}
        other => fails!(other, EPIPE),
    }
    fails!(send(client, b"x", MSG_NOSIGNAL), EPIPE);
    Ok(())
}

fn writes_of_nothing() -> Outcome {
    let (client, server) = pair()?;
    close(server)?;
    pause(10);
    for _ in 0..3 {
        same!(send(client, b"", MSG_NOSIGNAL), Ok(0));
    }
    same!(send(client, b"into the void", MSG_NOSIGNAL), Ok(13));
    eventually("a write of nothing fails", || {
        send(client, b"", MSG_NOSIGNAL).is_err()
    })
}

fn break_pipe(fd: Fd) -> Outcome {
    eventually("a write fails with EPIPE", || {
        send(fd, b"x", MSG_NOSIGNAL) == Err(Errno(EPIPE))
    })
}

fn signal_pipe() -> Outcome {
    let (client, server) = pair()?;
    count_signal(libc::SIGPIPE, 0)?;
    close(server)?;
    break_pipe(client)?;
    same!(SIGNALS.load(Ordering::SeqCst), 0);
    fails!(send(client, b"x", 0), EPIPE);
    same!(SIGNALS.load(Ordering::SeqCst), 1);
    fails!(sendmsg(client, &[b"x"], None, 0), EPIPE);
    same!(SIGNALS.load(Ordering::SeqCst), 2);
    Ok(())
}

fn signal_pipe_write() -> Outcome {
    let (client, server) = pair()?;
    count_signal(libc::SIGPIPE, 0)?;
    close(server)?;
    break_pipe(client)?;
    fails!(write(client, b"x"), EPIPE);
    fails!(writev(client, &[b"x", b"y"]), EPIPE);
    same!(SIGNALS.load(Ordering::SeqCst), 2);
    // Writing nothing is checked by nobody.
    let (client, _server) = pair()?;
    shutdown(client, SHUT_WR)?;
    fails!(write(client, b"x"), EPIPE);
    same!(SIGNALS.load(Ordering::SeqCst), 3);
    Ok(())
}

fn linger_zero() -> Outcome {
    let (client, server) = pair()?;
    linger(client, true, 0)?;
    close(client)?;
    readable(server)?;
    fails!(recv(server, 10, 0), ECONNRESET);
    Ok(())
}

fn linger_zero_wakes() -> Outcome {
    let (client, server) = pair()?;
    let reader = thread(move || {
        fails!(recv(server, 10, 0), ECONNRESET);
        Ok(())
    });
    pause(30);
    linger(client, true, 0)?;
    close(client)?;
    reader.join()
}

fn reset_after_shut() -> Outcome {
    let (client, server) = pair()?;
    echo(client, server)?;
    shutdown(client, SHUT_WR)?;
    linger(server, true, 0)?;
    close(server)?;
    same!(poll_one(client, POLLERR, 1000), Ok(POLLERR | POLLHUP));
    fails!(send(client, b"x", 0), ECONNRESET);
    fails!(send(client, b"x", 0), EPIPE);
    same!(poll_one(client, POLLERR, 0), Ok(POLLHUP));
    Ok(())
}

fn reset_after_both_shut() -> Outcome {
    let (client, server) = pair()?;
    send_all(client, b"unread")?;
    readable(server)?;
    shutdown(client, SHUT_RDWR)?;
    shutdown(server, SHUT_RDWR)?;
    pause(5);
    linger(server, true, 0)?;
    close(server)?;
    pause(5);
    same!(
        poll_one(client, POLLIN | POLLOUT | POLLERR, 0),
        Ok(POLLIN | POLLOUT | POLLHUP)
    );
    same!(getsockopt(client, SOL_SOCKET, libc::SO_ERROR), Ok(0));
    fails!(send(client, b"x", 0), EPIPE);
    Ok(())
}

fn reset_then_shut() -> Outcome {
    let (client, server) = pair()?;
    send_all(client, b"unread")?;
    readable(server)?;
    shutdown(server, SHUT_WR)?;
    pause(5);
    linger(server, true, 0)?;
    close(server)?;
    same!(poll_one(client, POLLERR, 1000), Ok(POLLERR | POLLHUP));
    fails!(shutdown(client, SHUT_RDWR), ENOTCONN);
    same!(
        getsockopt(client, SOL_SOCKET, libc::SO_ERROR),
        Ok(libc::EPIPE)
    );
    same!(getsockopt(client, SOL_SOCKET, libc::SO_ERROR), Ok(0));
    Ok(())
}

fn name_of_peer_when_over() -> Outcome {
    let (client, server) = pair()?;
    echo(client, server)?;
    shutdown(client, SHUT_WR)?;
    holds!(
        getpeername(client).is_ok(),
        "no peer while one direction is open"
    );
    shutdown(server, SHUT_WR)?;
    readable(client)?;
    pause(5);
    fails!(getpeername(client), ENOTCONN);
    fails!(getpeername(server), ENOTCONN);
    Ok(())
}

fn linger_time() -> Outcome {
    let (client, server) = pair()?;
    linger(client, true, 5)?;
    send_all(client, &pattern(10_000))?;
    close(client)?;
    same!(recv_all(server, 20_000), Ok(pattern(10_000)));
    gets!(recv(server, 10, 0), b"");
    Ok(())
}

fn unread_data() -> Outcome {
    let (client, server) = pair()?;
    send_all(server, b"never read")?;
    arrived(client, 10)?;
    close(client)?;
    readable(server)?;
    fails!(recv(server, 10, 0), ECONNRESET);
    Ok(())
}

fn unread_after_shut_read() -> Outcome {
    let (client, server) = pair()?;
    send_all(client, b"unread")?;
    arrived(server, 6)?;
    shutdown(server, SHUT_RD)?;
    close(server)?;
    readable(client)?;
    fails!(recv(client, 10, 0), ECONNRESET);
    let (client, server) = pair()?;
    fill(client)?;
    nonblocking(client, false)?;
    let writer = thread(move || {
        fails!(send(client, &pattern(100_000), MSG_NOSIGNAL), ECONNRESET);
        Ok(())
    });
    shutdown(server, SHUT_RD)?;
    pause(30);
    close(server)?;
    writer.join()
}

fn reset_error_once() -> Outcome {
    let (client, server) = pair()?;
    linger(client, true, 0)?;
    close(client)?;
    readable(server)?;
    fails!(recv(server, 10, 0), ECONNRESET);
    gets!(recv(server, 10, 0), b"");
    fails!(send(server, b"x", MSG_NOSIGNAL), EPIPE);
    Ok(())
}

fn reset_error_option() -> Outcome {
    let (client, server) = pair()?;
    linger(client, true, 0)?;
    close(client)?;
    readable(server)?;
    same!(socket_error(server), Ok(Errno(ECONNRESET)));
    same!(socket_error(server), Ok(Errno(0)));
    gets!(recv(server, 10, 0), b"");
    Ok(())
}

fn reset_poll() -> Outcome {
    let (client, server) = pair()?;
    linger(client, true, 0)?;
    close(client)?;
    readable(server)?;
    let events = poll_one(server, POLLIN | POLLOUT | POLLRDHUP, 0)?;
    same!(events, POLLIN | POLLOUT | POLLRDHUP | POLLERR | POLLHUP);
    Ok(())
}

fn blocked_sender(fd: Fd) -> Thread {
    thread(move || {
        let block = vec![1; 65536];
        for _ in 0..1000 {
            match send(fd, &block, MSG_NOSIGNAL) {
                Ok(_) => {}
                other => {
                    fails!(other, ECONNRESET);
                    fails!(send(fd, &block, MSG_NOSIGNAL), EPIPE);
                    return Ok(());
                }
            }
        }
        Err(Failure::new(
            "sixty megabytes were taken though nobody read",
        ))
    })
}

fn reset_while_writing() -> Outcome {
    let (client, server) = pair()?;
    let sender = blocked_sender(client);
    pause(50);
    holds!(!sender.ended());
    linger(server, true, 0)?;
    close(server)?;
    sender.join()
}

fn close_while_peer_writes() -> Outcome {
    let (client, server) = pair()?;
    let sender = blocked_sender(client);
    pause(50);
    close(server)?;
    sender.join()
}

fn end_poll() -> Outcome {
    let (client, server) = pair()?;
    shutdown(client, SHUT_WR)?;
    readable(server)?;
    same!(
        poll_one(server, POLLIN | POLLOUT | POLLRDHUP, 0),
        Ok(POLLIN | POLLOUT | POLLRDHUP)
    );
    same!(poll_one(server, POLLIN, 0), Ok(POLLIN));
    shutdown(server, SHUT_WR)?;
    same!(
        poll_one(server, POLLIN | POLLOUT | POLLRDHUP, 0),
        Ok(POLLIN | POLLOUT | POLLRDHUP | POLLHUP)
    );
    eventually("the client is hung up", || {
        poll_one(client, POLLIN | POLLOUT | POLLRDHUP, 0)
            == Ok(POLLIN | POLLOUT | POLLRDHUP | POLLHUP)
    })
}

fn end_then_zero_write() -> Outcome {
    let (client, server) = pair()?;
    close(client)?;
    closed_by_peer(server)?;
    same!(send(server, b"", MSG_NOSIGNAL), Ok(0));
    Ok(())
}

fn peek_end() -> Outcome {
    let (client, server) = pair()?;
    send_all(client, b"x")?;
    shutdown(client, SHUT_WR)?;
    gets!(recv(server, 10, 0), b"x");
    gets!(recv(server, 10, MSG_PEEK), b"");
    gets!(recv(server, 10, 0), b"");
    Ok(())
}

fn data_then_close_large() -> Outcome {
    let (client, server) = pair()?;
    let sender = thread(move || {
        send_all(client, &pattern(1_000_000))?;
        Ok(close(client)?)
    });
    let got = recv_all(server, 2_000_000)?;
    holds!(got == pattern(1_000_000), "{} bytes came", got.len());
    sender.join()
}

fn close_order() -> Outcome {
    for order in 0..8 {
        let (client, server) = pair()?;
        send_all(client, b"client")?;
        send_all(server, b"server")?;
        gets!(recv_all(client, 6), b"server");
        gets!(recv_all(server, 6), b"client");
        let (first, second) = if order & 1 == 0 {
            (client, server)
        } else {
            (server, client)
        };
        if order & 2 != 0 {
            shutdown(first, SHUT_WR)?;
        }
        if order & 4 != 0 {
            closing(second, order & 2 != 0)?;
        }
        close(first)?;
        closed_by_peer(second)?;
        close(second)?;
    }
    Ok(())
}

fn closing(fd: Fd, expected: bool) -> Outcome {
    if expected {
        closed_by_peer(fd)
    } else {
        quiet(fd)
    }
}

fn get_names_after_end() -> Outcome {
    let (client, server) = pair()?;
    let (own, peer) = (getsockname(server)?, getpeername(server)?);
    close(client)?;
    closed_by_peer(server)?;
    same!(getsockname(server), Ok(own));
    same!(getpeername(server), Ok(peer));
    Ok(())
}

fn inquiry_at_end() -> Outcome {
    let (client, server) = pair()?;
    send_all(client, b"abc")?;
    shutdown(client, SHUT_WR)?;
    arrived(server, 3)?;
    recv(server, 3, 0)?;
    readable(server)?;
    same!(fionread(server), Ok(0));
    Ok(())
}

fn many_closes() -> Outcome {
    let (listener, address) = listener()?;
    for round in 0..500 {
        let client = client(&address)?;
        let server = accept(listener)?;
        if round % 100 == 0 {
            crate::support::seen::stream(server);
        }
        let (first, second) = if round % 2 == 0 {
            (client, server)
        } else {
            (server, client)
        };
        send_all(first, b"x")?;
        close(first)?;
        gets!(recv_all(second, 9), b"x");
        close(second)?;
    }
    Ok(())
}
