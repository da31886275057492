// SPDX-License-Identifier: Apache-2.0
//! Whole files and large amounts, both ways at once.

use crate::support::epoll;
use crate::support::prelude::*;
use crate::support::seen;
use std::io::Write;
use std::os::fd::AsRawFd;

cases! { "transfer";
    sendfile_whole Accelerated "sendfile sends a file and moves the file's offset"
    sendfile_offset Accelerated "sendfile with an offset sends from there, moves the offset and not the file's"
    sendfile_past_end Accelerated "sendfile past the end of the file gives 0"
    sendfile_from_socket Accelerated "sendfile from a socket fails with EINVAL"
    sendfile_nonblocking Accelerated "sendfile on a full non-blocking socket fails with EAGAIN and moves nothing"
    sendfile_large Accelerated "a file larger than every buffer arrives whole"
    splice_out Accelerated "splice from a pipe to a socket and from a socket to a pipe moves bytes"
    both_ways Accelerated "megabytes both ways at once with poll don't deadlock"
    written_before_read Accelerated "both ends write a megabyte before either reads: as much as the kernel's buffers hold"
    written_before_read_by_poll Accelerated "the same, with a poll for writing between writes that find no room"
    written_before_read_by_level Accelerated "the same, with an epoll set"
    written_before_read_by_edge Accelerated "the same, edge-triggered in both directions"
    pieces_before_read Accelerated "both ends write thousands of small pieces before either reads, each after a poll for writing"
    pieces_before_read_by_level Accelerated "the same, with an epoll set that has a busy member besides"
    written_ahead Accelerated "a reader that does not read holds up a writer of half a megabyte no more than the kernel does"
    answered_before_full Accelerated "a writer that has found no room for long reads what its peer had sent before, and its end, though the peer makes no call"
    answered_around_full Accelerated "and behind it what the peer sends when it goes on, in a child, too, byte for byte"
    edge_behind_full Accelerated "epoll tells at an edge of what the peer sends when it goes on"
    full_behind_unread Accelerated "an end that has much to read and fills the other direction is not writable, and is again when that is read"
    bulk_small_reads Accelerated "megabytes in odd sizes, read in other odd sizes"
    many_pairs Accelerated "thirty connections at once carry their own bytes each"
    fill_and_drain Accelerated "a full socket is not writable, and is again when the other side has read"
    partial_write Accelerated "a non-blocking send of more than fits takes a part"
}

fn file(bytes: &[u8]) -> Result<std::fs::File, Failure> {
    use std::io::Seek;
    let mut file = tempfile::tempfile()?;
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

fn position(fd: Fd) -> isize {
    // SAFETY: takes numbers only.
    unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) as isize }
}

fn sendfile_whole() -> Outcome {
    let (client, server) = pair()?;
    let file = file(&pattern(9000))?;
    same!(sendfile(client, file.as_raw_fd(), None, 5000), Ok(5000));
    same!(position(file.as_raw_fd()), 5000);
    same!(sendfile(client, file.as_raw_fd(), None, 100_000), Ok(4000));
    same!(sendfile(client, file.as_raw_fd(), None, 100_000), Ok(0));
    same!(recv_all(server, 9000), Ok(pattern(9000)));
    Ok(())
}

fn sendfile_offset() -> Outcome {
    let (client, server) = pair()?;
    let file = file(&pattern(9000))?;
    let mut offset = 100;
    same!(
        sendfile(client, file.as_raw_fd(), Some(&mut offset), 50),
        Ok(50)
    );
    same!((offset, position(file.as_raw_fd())), (150, 0));
    gets!(recv_all(server, 50), pattern(9000)[100..150]);
    Ok(())
}

fn sendfile_past_end() -> Outcome {
    let (client, server) = pair()?;
    let file = file(b"short")?;
    let mut offset = 5;
    same!(
        sendfile(client, file.as_raw_fd(), Some(&mut offset), 50),
        Ok(0)
    );
    same!(offset, 5);
    echo(client, server)
}

fn sendfile_from_socket() -> Outcome {
    let (client, server) = pair()?;
    fails!(sendfile(client, server, None, 50), EINVAL);
    echo(client, server)
}

fn sendfile_nonblocking() -> Outcome {
    let (client, server) = pair()?;
    nonblocking(client, true)?;
    let filled = fill(client)?;
    let file = file(&pattern(9000))?;
    let mut offset = 7;
    fails!(
        sendfile(client, file.as_raw_fd(), Some(&mut offset), 50),
        EAGAIN
    );
    same!(offset, 7);
    recv_all(server, filled)?;
    quiet(server)
}

fn sendfile_large() -> Outcome {
    let (client, server) = pair()?;
    let size = 5_000_000;
    let file = file(&pattern(size))?;
    let sender = thread(move || {
        let mut offset = 0;
        while (offset as usize) < size {
            let rest = size - offset as usize;
            sendfile(client, file.as_raw_fd(), Some(&mut offset), rest)?;
        }
        Ok(())
    });
    holds!(
        recv_all(server, size)? == pattern(size),
        "the file was changed on the way"
    );
    sender.join()
}

fn splice_out() -> Outcome {
    let (client, server) = pair()?;
    let (out, into) = pipe()?;
    write(into, b"through a pipe")?;
    same!(splice(out, client, 14, 0), Ok(14));
    readable(server)?;
    same!(splice(server, into, 64, 0), Ok(14));
    gets!(read(out, 64), b"through a pipe");
    echo(client, server)
}

fn both_ways() -> Outcome {
    let (client, server) = pair()?;
    let total = 4_000_000;
    let run = move |fd: Fd, seed: u8| -> Outcome {
        nonblocking(fd, true)?;
        let block = vec![seed; 20_000];
        let (mut sent, mut got) = (0, 0);
        while sent < total || got < total {
            let events = if sent < total {
                POLLIN | POLLOUT
            } else {
                POLLIN
            };
            let ready = poll_one(fd, events, 5000)?;
            holds!(
                ready != 0,
                "neither side can go on after {sent} bytes out and {got} bytes in"
            );
            if ready & POLLOUT != 0 {
                match send(fd, &block[..block.len().min(total - sent)], 0) {
                    Ok(count) => sent += count,
                    other => fails!(other, EAGAIN),
                }
            }
            if ready & POLLIN != 0 {
                match recv(fd, 30_000, 0) {
                    Ok(bytes) => {
                        holds!(!bytes.is_empty(), "the stream ended after {got} bytes");
                        holds!(
                            bytes.iter().all(|&byte| byte == 3 - seed),
                            "bytes of the wrong direction"
                        );
                        got += bytes.len();
                    }
                    other => fails!(other, EAGAIN),
                }
            }
        }
        Ok(())
    };
    let other = thread(move || run(server, 2));
    run(client, 1)?;
    other.join()
}

/// Writes a megabyte to an end that sends back what comes, and reads then. After a write that found no room, `wait`.
fn written_then_read(client: Fd, server: Fd, wait: impl Fn() -> Outcome) -> Outcome {
    if seen::far() {
        // Between machines the rings are all there is.
        return Ok(());
    }
    let other = thread(move || {
        loop {
            let bytes = recv(server, 65_536, 0)?;
            if bytes.is_empty() {
                return Ok(close(server)?);
            }
            send_all(server, &bytes)?;
        }
    });
    let bytes = pattern(1_000_000);
    let mut sent = 0;
    while sent < bytes.len() {
        match send(client, &bytes[sent..], 0) {
            Ok(count) => sent += count,
            Err(Errno(EAGAIN)) => wait()?,
            other => return Err(Failure::new(format!("send: {other:?} after {sent} bytes"))),
        }
    }
    shutdown(client, SHUT_WR)?;
    nonblocking(client, false)?;
    same!(recv_all(client, bytes.len()), Ok(bytes));
    gets!(recv(client, 10, 0), b"");
    other.join()
}

fn written_before_read() -> Outcome {
    let (client, server) = pair()?;
    written_then_read(client, server, || Ok(()))
}

fn written_before_read_by_poll() -> Outcome {
    let (client, server) = pair()?;
    nonblocking(client, true)?;
    written_then_read(client, server, || {
        same!(poll_one(client, POLLOUT, -1), Ok(POLLOUT));
        Ok(())
    })
}

fn written_before_read_by_level() -> Outcome {
    let (client, server) = pair()?;
    nonblocking(client, true)?;
    let set = epoll::create()?;
    epoll::add(set, client, epoll::OUT, 1)?;
    written_then_read(client, server, || {
        same!(epoll::wait(set, -1), Ok(vec![(epoll::OUT, 1)]));
        Ok(())
    })
}

fn written_before_read_by_edge() -> Outcome {
    let (client, server) = pair()?;
    nonblocking(client, true)?;
    let set = epoll::create()?;
    epoll::add(set, client, epoll::IN | epoll::OUT | epoll::ET, 1)?;
    written_then_read(client, server, || {
        holds!(!epoll::wait(set, -1)?.is_empty());
        Ok(())
    })
}

/// Both ends write small pieces, each when `wait` has said that there is room, and read then.
fn pieces_then_read(wait: fn(Fd) -> Outcome) -> Outcome {
    let (client, server) = pair()?;
    if seen::far() {
        return Ok(());
    }
    let run = move |fd: Fd| -> Outcome {
        let bytes = pattern(30_000);
        for piece in bytes.chunks(10) {
            wait(fd)?;
            same!(send(fd, piece, 0), Ok(10));
        }
        same!(recv_all(fd, bytes.len()), Ok(bytes));
        Ok(())
    };
    let other = thread(move || run(server));
    run(client)?;
    other.join()
}

fn pieces_before_read() -> Outcome {
    pieces_then_read(|fd| {
        same!(poll_one(fd, POLLOUT, -1), Ok(POLLOUT));
        Ok(())
    })
}

fn pieces_before_read_by_level() -> Outcome {
    pieces_then_read(|fd| {
        let (reader, writer) = pipe()?;
        write(writer, b"x")?;
        let set = epoll::create()?;
        epoll::add(set, reader, epoll::IN, 1)?;
        epoll::add(set, fd, epoll::OUT, 2)?;
        while !epoll::wait(set, -1)?.contains(&(epoll::OUT, 2)) {}
        for fd in [set, reader, writer] {
            close(fd)?;
        }
        Ok(())
    })
}

fn written_ahead() -> Outcome {
    let (client, server) = pair()?;
    if seen::far() {
        return Ok(());
    }
    send_all(server, b"unread")?;
    send_all(client, &pattern(500_000))?;
    same!(recv_all(server, 500_000), Ok(pattern(500_000)));
    gets!(recv_all(client, 6), b"unread");
    send_all(server, b"after")?;
    gets!(recv_all(client, 5), b"after");
    Ok(())
}

/// More than a ring holds, and less than the kernel's buffers.
const LONG: usize = 300_000;

fn answered_before_full() -> Outcome {
    let (client, server) = pair()?;
    if seen::far() {
        return Ok(());
    }
    send_all(server, b"answer")?;
    shutdown(server, SHUT_WR)?;
    send_all(client, &pattern(LONG))?;
    let both = POLLIN | POLLRDHUP;
    same!(poll_one(client, both | POLLOUT, 0), Ok(both | POLLOUT));
    gets!(recv(client, 3, 0), b"ans");
    gets!(recv(client, 10, MSG_PEEK), b"wer");
    gets!(recv(client, 10, 0), b"wer");
    gets!(recv(client, 10, 0), b"");
    same!(poll_one(client, both, 0), Ok(both));
    send_all(client, b"more")?;
    shutdown(client, SHUT_WR)?;
    same!(recv_all(server, LONG), Ok(pattern(LONG)));
    gets!(recv_all(server, 4), b"more");
    gets!(recv(server, 10, 0), b"");
    Ok(())
}

fn answered_around_full() -> Outcome {
    let (client, server) = pair()?;
    if seen::far() {
        return Ok(());
    }
    let bytes = pattern(90_000);
    send_all(server, &bytes[..50_000])?;
    send_all(client, &pattern(LONG))?;
    same!(recv_all(client, 10_000)?, bytes[..10_000]);
    // Who shares the end reads on where this process was.
    let child = fork(|| {
        same!(recv_all(client, 10_000)?, pattern(20_000)[10_000..]);
        send_all(client, b"child")?;
        Ok(())
    })?;
    child.join()?;
    same!(recv_all(server, LONG), Ok(pattern(LONG)));
    gets!(recv_all(server, 5), b"child");
    send_all(server, &bytes[50_000..])?;
    shutdown(server, SHUT_WR)?;
    let mut got = bytes[..20_000].to_vec();
    let mut size = 1;
    loop {
        let part = recv(client, size, 0)?;
        if part.is_empty() {
            break;
        }
        got.extend(part);
        size = size * 7 % 9001;
    }
    same!(got.len(), bytes.len());
    holds!(got == bytes);
    Ok(())
}

fn edge_behind_full() -> Outcome {
    let (client, server) = pair()?;
    if seen::far() {
        return Ok(());
    }
    send_all(server, b"answer")?;
    let set = epoll::create()?;
    let all = epoll::IN | epoll::OUT | epoll::ET;
    epoll::add(set, client, all, 1)?;
    same!(
        epoll::wait(set, 1000),
        Ok(vec![(epoll::IN | epoll::OUT, 1)])
    );
    send_all(client, &pattern(LONG))?;
    gets!(recv(client, 100, 0), b"answer");
    nonblocking(client, true)?;
    fails!(recv(client, 100, 0), EAGAIN);
    while !epoll::wait(set, 0)?.is_empty() {}
    same!(recv_all(server, LONG), Ok(pattern(LONG)));
    send_all(server, b"after")?;
    let waited = epoll::wait(set, 5000)?;
    holds!(waited.len() == 1 && waited[0].0 & epoll::IN != 0);
    gets!(recv(client, 100, 0), b"after");
    close(server)?;
    holds!(!epoll::wait(set, 5000)?.is_empty());
    gets!(recv(client, 100, 0), b"");
    Ok(())
}

fn full_behind_unread() -> Outcome {
    let (client, server) = pair()?;
    if seen::far() {
        return Ok(());
    }
    let set = epoll::create()?;
    epoll::add(set, server, epoll::OUT, 1)?;
    send_all(client, &pattern(500_000))?;
    let filled = fill(server)?;
    same!(poll_one(server, POLLOUT, 0), Ok(0));
    same!(epoll::wait(set, 0), Ok(vec![]));
    let poller = thread(move || {
        same!(poll_one(server, POLLOUT, -1), Ok(POLLOUT));
        same!(epoll::wait(set, 5000), Ok(vec![(epoll::OUT, 1)]));
        Ok(())
    });
    pause(30);
    holds!(!poller.ended());
    recv_all(client, filled)?;
    poller.join()?;
    same!(recv_all(server, 500_000), Ok(pattern(500_000)));
    send_all(server, b"after")?;
    gets!(recv_all(client, 5), b"after");
    Ok(())
}

fn bulk_small_reads() -> Outcome {
    let (client, server) = pair()?;
    let total = 3_000_000;
    let sender = thread(move || {
        let bytes = pattern(total);
        let (mut at, mut size) = (0, 1);
        while at < total {
            let end = (at + size).min(total);
            send_all(client, &bytes[at..end])?;
            at = end;
            size = size * 7 % 40_009;
        }
        Ok(())
    });
    let mut got = Vec::with_capacity(total);
    let mut size = 5;
    while got.len() < total {
        let bytes = recv(server, size, 0)?;
        holds!(!bytes.is_empty());
        got.extend(bytes);
        size = size * 11 % 30_011;
    }
    holds!(got == pattern(total), "the stream was changed");
    sender.join()
}

fn many_pairs() -> Outcome {
    let (listener, address) = listener()?;
    let pairs: Vec<_> = (0..30)
        .map(|_| pair_at(listener, &address))
        .collect::<Call<_>>()?;
    for round in 0..20u8 {
        for (index, (client, server)) in pairs.iter().enumerate() {
            send_all(*client, &[round, index as u8])?;
            send_all(*server, &[index as u8, round])?;
        }
        for (index, (client, server)) in pairs.iter().enumerate() {
            gets!(recv_all(*server, 2), [round, index as u8]);
            gets!(recv_all(*client, 2), [index as u8, round]);
        }
    }
    Ok(())
}

fn fill_and_drain() -> Outcome {
    let (client, server) = pair()?;
    nonblocking(client, true)?;
    let filled = fill(client)?;
    holds!(filled >= 65_536, "only {filled} bytes fitted");
    fails!(send(client, &[0; 16384], 0), EAGAIN);
    same!(poll_one(client, POLLOUT, 0), Ok(0));
    recv_all(server, filled)?;
    same!(poll_one(client, POLLOUT, 5000), Ok(POLLOUT));
    echo(client, server)
}

fn partial_write() -> Outcome {
    let (client, server) = pair()?;
    nonblocking(client, true)?;
    let bytes = pattern(32 << 20);
    let count = send(client, &bytes, 0)?;
    holds!(count > 0 && count < bytes.len(), "{count} bytes went");
    holds!(
        recv_all(server, count)? == bytes[..count],
        "other bytes came than were sent"
    );
    quiet(server)
}
