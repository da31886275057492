// SPDX-License-Identifier: Apache-2.0
//! splice between pipes and connections: what one of both does not take stays in the other.

use crate::support::prelude::*;

cases! { "splicing";
    shut Accelerated "splice to an end that was shut leaves the bytes in the pipe"
    reset Accelerated "splice to a connection that was reset leaves the bytes in the pipe"
    full_socket Accelerated "splice to a full non-blocking socket takes nothing from the pipe, and goes on when there is room"
    full_pipe Accelerated "splice to a full pipe takes nothing from the socket"
    empty_pipe Accelerated "splice from an empty pipe: EAGAIN, or 0 if nobody writes to it"
    ended Accelerated "splice from a socket that has ended gives 0, from an empty one EAGAIN"
    large Accelerated "half a megabyte through two pipes arrives whole"
    no_pipe Accelerated "splice between sockets and files fails with EINVAL, and moves nothing"
    no_reader Accelerated "splice to a pipe that nobody reads fails with EPIPE, and takes nothing from the socket"
}

fn shut() -> Outcome {
    let (client, server) = pair()?;
    let (out, into) = pipe()?;
    echo(client, server)?;
    write(into, b"stays")?;
    shutdown(client, SHUT_WR)?;
    fails!(splice(out, client, 5, 0), EPIPE);
    gets!(read(out, 10), b"stays");
    Ok(())
}

fn reset() -> Outcome {
    let (client, server) = pair()?;
    let (out, into) = pipe()?;
    echo(client, server)?;
    write(into, b"stays")?;
    linger(server, true, 0)?;
    close(server)?;
    pause(5);
    fails!(splice(out, client, 5, 0), ECONNRESET);
    fails!(splice(out, client, 5, 0), EPIPE);
    gets!(read(out, 10), b"stays");
    Ok(())
}

fn full_socket() -> Outcome {
    let (client, server) = pair()?;
    let (out, into) = pipe()?;
    nonblocking(client, true)?;
    let filled = fill(client)?;
    let sent = pattern(5000);
    write(into, &sent)?;
    let mut taken = 0;
    while taken < sent.len() {
        match splice(out, client, sent.len() - taken, 0) {
            // Where there was no room for a block there may be some for a page.
            Ok(count) => taken += count,
            other => {
                fails!(other, EAGAIN);
                break;
            }
        }
    }
    holds!(taken < sent.len(), "a full socket took {taken} bytes");
    recv_all(server, filled)?;
    same!(poll_one(client, POLLOUT, 1000), Ok(POLLOUT));
    while taken < sent.len() {
        taken += splice(out, client, sent.len() - taken, 0)?;
    }
    gets!(recv_all(server, sent.len()), sent);
    Ok(())
}

fn full_pipe() -> Outcome {
    let (client, server) = pair()?;
    let (out, into) = pipe()?;
    nonblocking(into, true)?;
    let mut filled = 0;
    while let Ok(count) = write(into, &[0; 4096]) {
        filled += count;
    }
    send_all(client, b"stays")?;
    readable(server)?;
    fails!(splice(server, into, 5, 0), EAGAIN);
    nonblocking(into, false)?;
    fails!(splice(server, into, 5, libc::SPLICE_F_NONBLOCK), EAGAIN);
    gets!(read(out, 4096), [0; 4096]);
    same!(splice(server, into, 3, libc::SPLICE_F_NONBLOCK), Ok(3));
    let mut left = filled - 4096;
    while left > 0 {
        left -= read(out, left.min(4096))?.len();
    }
    gets!(read(out, 10), b"sta");
    gets!(recv(server, 10, 0), b"ys");
    Ok(())
}

fn empty_pipe() -> Outcome {
    let (client, server) = pair()?;
    let (out, into) = pipe()?;
    echo(client, server)?;
    fails!(splice(out, client, 5, libc::SPLICE_F_NONBLOCK), EAGAIN);
    nonblocking(out, true)?;
    fails!(splice(out, client, 5, 0), EAGAIN);
    nonblocking(out, false)?;
    let writer = thread(move || {
        pause(30);
        write(into, b"late")?;
        close(into)?;
        Ok(())
    });
    same!(splice(out, client, 5, 0), Ok(4));
    writer.join()?;
    same!(splice(out, client, 5, 0), Ok(0));
    gets!(recv(server, 10, 0), b"late");
    Ok(())
}

fn ended() -> Outcome {
    let (client, server) = pair()?;
    let (_out, into) = pipe()?;
    echo(client, server)?;
    nonblocking(server, true)?;
    fails!(splice(server, into, 5, 0), EAGAIN);
    shutdown(client, SHUT_WR)?;
    readable(server)?;
    same!(splice(server, into, 5, 0), Ok(0));
    Ok(())
}

fn large() -> Outcome {
    let (client, server) = pair()?;
    let size = 500_000;
    let through = move |from: Fd, to: Fd| -> Outcome {
        let mut moved = 0;
        while moved < size {
            moved += splice(from, to, size - moved, 0)?;
        }
        Ok(())
    };
    let (out, into) = pipe()?;
    let (end, start) = pipe()?;
    let writer = thread(move || {
        let all = pattern(size);
        let mut at = 0;
        while at < size {
            at += write(into, &all[at..size.min(at + 7777)])?;
        }
        Ok(())
    });
    let sender = thread(move || through(out, client));
    let receiver = thread(move || through(server, start));
    let mut got = Vec::new();
    while got.len() < size {
        got.extend(read(end, 9999)?);
    }
    holds!(got == pattern(size), "bytes were changed on the way");
    writer.join()?;
    sender.join()?;
    receiver.join()
}

fn no_pipe() -> Outcome {
    use std::os::fd::AsRawFd;
    let (client, server) = pair()?;
    let file = tempfile::tempfile()?;
    send_all(client, b"x")?;
    readable(server)?;
    fails!(splice(server, client, 5, 0), EINVAL);
    fails!(splice(server, file.as_raw_fd(), 5, 0), EINVAL);
    fails!(splice(file.as_raw_fd(), server, 5, 0), EINVAL);
    gets!(recv(server, 10, 0), b"x");
    Ok(())
}

fn no_reader() -> Outcome {
    let (client, server) = pair()?;
    let (out, into) = pipe()?;
    send_all(client, b"x")?;
    readable(server)?;
    close(out)?;
    fails!(splice(server, into, 5, 0), EPIPE);
    gets!(recv(server, 10, 0), b"x");
    Ok(())
}
