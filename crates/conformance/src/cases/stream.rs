// SPDX-License-Identifier: Apache-2.0
//! Every call that moves bytes of a stream, and its flags.

use crate::support::prelude::*;
use crate::support::seen;
use crate::support::sys::raw;

cases! { "stream";
    echo_small Accelerated "a few bytes go both ways"
    send_recv Accelerated "send and recv carry bytes"
    write_read Accelerated "write and read carry bytes"
    sendto_recvfrom Accelerated "sendto without address and recvfrom carry bytes; recvfrom writes no address"
    sendto_with_name Accelerated "sendto with an address on a connected stream ignores it or says EISCONN"
    sendmsg_recvmsg Accelerated "sendmsg gathers, recvmsg scatters, and the name's length becomes 0"
    sendmsg_with_name Accelerated "sendmsg with a name on a connected stream ignores the name"
    sendmmsg_recvmmsg Accelerated "sendmmsg sends each message's bytes, recvmmsg fills one message after the other"
    writev_readv Accelerated "writev gathers and readv scatters, empty vectors included"
    writev_many Accelerated "writev of 1024 vectors sends them all"
    writev_too_many Accelerated "writev of 1025 vectors fails with EINVAL"
    checked_forms Accelerated "__recv_chk, __recvfrom_chk and __read_chk, which hardened programs call, receive"
    raw_system_calls Accelerated "syscall(SYS_write), SYS_read, SYS_sendto and SYS_recvfrom work on the same stream"
    merged Accelerated "several small sends are one stream: one recv may take them all"
    split Accelerated "a large send is received in small parts, in order"
    one_byte_each Accelerated "a stream read byte by byte is in order"
    zero_write Accelerated "a write of no bytes gives 0 and sends nothing"
    zero_read Accelerated "a read into no room gives 0 at once when data is there"
    flags_come_back Accelerated "recvmsg gives MSG_CMSG_CLOEXEC back in the message's flags, with bytes and without"
    no_buffer Accelerated "no room at a null pointer is no mistake, whatever the flags and in vectors, too"
    zero_vectors Accelerated "readv and writev of empty vectors give 0 whatever the state of the stream"
    peek Accelerated "MSG_PEEK shows bytes and leaves them"
    peek_across_sends Accelerated "MSG_PEEK shows bytes of several sends at once"
    peek_then_part Accelerated "after a partial recv MSG_PEEK begins with the rest"
    recv_trunc Accelerated "MSG_TRUNC on a stream throws the bytes away and counts them"
    wait_all Accelerated "MSG_WAITALL waits until all of the room is filled"
    wait_all_end Accelerated "MSG_WAITALL gives less at the end of the stream"
    wait_all_peek Accelerated "MSG_WAITALL with MSG_PEEK waits and leaves the bytes"
    dont_wait Accelerated "MSG_DONTWAIT with nothing there fails with EAGAIN"
    inquiry Accelerated "FIONREAD counts the bytes that can be read, across sends and partial reads"
    outgoing_queue Accelerated "SIOCOUTQ is 0 when the other side has read everything"
    outgoing_unread Accelerated "and when all has arrived there, though nobody reads it"
    bad_pointer Accelerated "send from and recv to memory that is not there fails with EFAULT and loses nothing"
    blocking_recv Accelerated "a blocked recv wakes when bytes come"
    blocking_send Accelerated "a blocked send goes on when the other side reads"
    two_writers Accelerated "two threads send on one socket: each small send stays in one piece"
    two_readers Accelerated "two threads block in recv on one socket: each byte goes to one of them"
    reader_and_writer Accelerated "one thread sends and another receives on the same socket"
    message_after_idle Accelerated "bytes sent after both sides have slept wake the other side, many times"
    ping_pong Accelerated "a thousand round trips of one byte"
    sizes Accelerated "every size around the ring's units arrives whole"
    line_input Accelerated "stdio's fprintf and fgets over fdopen'ed sockets exchange lines"
    send_more Accelerated "MSG_MORE and TCP_CORK hold bytes back at most, they don't lose them"
    urgent Any "MSG_OOB on a stream sends a byte out of band, or, between machines, gives EOPNOTSUPP; the rest stays in order"
}

fn echo_small() -> Outcome {
    let (client, server) = pair()?;
    echo(client, server)
}

fn send_recv() -> Outcome {
    let (client, server) = pair()?;
    same!(send(client, b"from the client", 0), Ok(15));
    gets!(recv(server, 64, 0), b"from the client");
    same!(send(server, b"from the server", 0), Ok(15));
    gets!(recv(client, 64, 0), b"from the server");
    Ok(())
}

fn write_read() -> Outcome {
    let (client, server) = pair()?;
    same!(write(client, b"written"), Ok(7));
    gets!(read(server, 64), b"written");
    same!(write(server, b"back"), Ok(4));
    gets!(read(client, 64), b"back");
    Ok(())
}

fn sendto_recvfrom() -> Outcome {
    let (client, server) = pair()?;
    // SAFETY: no address is given; pointer and length are of one array.
    let sent = unsafe { libc::sendto(client, b"bytes".as_ptr().cast(), 5, 0, std::ptr::null(), 0) };
    same!(sent, 5);
    let (bytes, from) = recvfrom(server, 64, 0)?;
    same!(bytes, b"bytes");
    same!(from.len, 0);
    Ok(())
}

fn sendto_with_name() -> Outcome {
    let (client, server) = pair()?;
    let peer = getpeername(client)?;
    match sendto(client, b"named", 0, &peer) {
        Ok(5) => gets!(recv(server, 64, 0), b"named"),
        other => fails!(other, EISCONN),
    }
    echo(client, server)
}

fn sendmsg_recvmsg() -> Outcome {
    let (client, server) = pair()?;
    same!(
        sendmsg(client, &[b"one ", b"", b"two ", b"three"], None, 0),
        Ok(13)
    );
    let message = recvmsg(server, &[3, 0, 5, 100], 0)?;
    same!(message.bytes, b"one two three");
    same!(message.name_len, 0);
    same!(message.flags, 0);
    Ok(())
}

fn sendmsg_with_name() -> Outcome {
    let (client, server) = pair()?;
    let peer = getpeername(client)?;
    match sendmsg(client, &[b"named"], Some(&peer), 0) {
        Ok(5) => gets!(recv(server, 64, 0), b"named"),
        other => fails!(other, EISCONN),
    }
    echo(client, server)
}

fn sendmmsg_recvmmsg() -> Outcome {
    let (client, server) = pair()?;
    same!(
        sendmmsg(client, &[b"first", b"second", b"third"], None, 0),
        Ok(vec![5, 6, 5])
    );
    arrived(server, 16)?;
    let messages = recvmmsg(server, 4, 10, MSG_DONTWAIT, None)?;
    let bytes: Vec<u8> = messages
        .iter()
        .flat_map(|message| message.bytes.clone())
        .collect();
    same!(bytes, b"firstsecondthird");
    same!(messages.len(), 2);
    Ok(())
}

fn writev_readv() -> Outcome {
    let (client, server) = pair()?;
    same!(writev(client, &[b"", b"a", b"", b"bcd", b"efghi"]), Ok(9));
    arrived(server, 9)?;
    let rooms = readv(server, &[0, 2, 1, 0, 4, 9])?;
    same!(
        rooms,
        vec![
            b"".to_vec(),
            b"ab".to_vec(),
            b"c".to_vec(),
            b"".to_vec(),
            b"defg".to_vec(),
            b"hi".to_vec()
        ]
    );
    same!(writev(client, &[]), Ok(0));
    quiet(server)
}

fn writev_many() -> Outcome {
    let (client, server) = pair()?;
    let bytes = pattern(3 * 1024);
    let parts: Vec<&[u8]> = bytes.chunks(3).collect();
    same!(writev(client, &parts), Ok(bytes.len()));
    same!(recv_all(server, bytes.len()), Ok(bytes));
    Ok(())
}

fn writev_too_many() -> Outcome {
    let (client, server) = pair()?;
    let parts: Vec<&[u8]> = vec![b"x"; 1025];
    fails!(writev(client, &parts), EINVAL);
    echo(client, server)
}

fn checked_forms() -> Outcome {
    let (client, server) = pair()?;
    send_all(client, b"abcdefghijkl")?;
    arrived(server, 12)?;
    // SAFETY: room for four bytes each time; no address is asked for.
    gets!(
        filled(4, |room, len| unsafe {
            raw::__recv_chk(server, room, len, len, 0)
        }),
        b"abcd"
    );
    let null = std::ptr::null_mut();
    let got = filled(4, |room, len| {
        // SAFETY: as above.
        unsafe { raw::__recvfrom_chk(server, room, len, len, 0, null, std::ptr::null_mut()) }
    });
    gets!(got, b"efgh");
    // SAFETY: as above.
    gets!(
        filled(4, |room, len| unsafe {
            raw::__read_chk(server, room, len, len)
        }),
        b"ijkl"
    );
    Ok(())
}

fn raw_system_calls() -> Outcome {
    let (client, server) = pair()?;
    let bytes = b"by number";
    // SAFETY: pointer and length are of one array.
    same!(
        answer(unsafe { libc::syscall(libc::SYS_write, client, bytes.as_ptr(), 9usize) } as isize),
        Ok(9)
    );
    // SAFETY: room for len bytes.
    gets!(
        filled(
            64,
            |room, len| unsafe { libc::syscall(libc::SYS_read, server, room, len) } as isize
        ),
        bytes
    );
    let none = 0usize;
    // SAFETY: pointer and length are of one array; no address.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_sendto,
            server,
            bytes.as_ptr(),
            9usize,
            0,
            none,
            none,
        )
    };
    same!(sent, 9);
    let got = filled(64, |room, len| {
        // SAFETY: room for len bytes; no address.
        unsafe { libc::syscall(libc::SYS_recvfrom, client, room, len, 0, none, none) as isize }
    });
    gets!(got, bytes);
    // Raw and ordinary calls see one stream.
    send_all(client, b"mixed")?;
    // SAFETY: room for len bytes.
    gets!(
        filled(
            2,
            |room, len| unsafe { libc::syscall(libc::SYS_read, server, room, len) } as isize
        ),
        b"mi"
    );
    gets!(recv(server, 64, 0), b"xed");
    Ok(())
}

fn merged() -> Outcome {
    let (client, server) = pair()?;
    for part in [&b"one"[..], b"two", b"three"] {
        send_all(client, part)?;
    }
    arrived(server, 11)?;
    gets!(recv(server, 64, 0), b"onetwothree");
    Ok(())
}

fn split() -> Outcome {
    let (client, server) = pair()?;
    let bytes = pattern(10_000);
    send_all(client, &bytes)?;
    let mut got = Vec::new();
    let mut size = 1;
    while got.len() < bytes.len() {
        got.extend(recv(server, size, 0)?);
        size = size * 3 % 701 + 1;
    }
    holds!(got == bytes, "the bytes came in another order");
    Ok(())
}

fn one_byte_each() -> Outcome {
    let (client, server) = pair()?;
    let bytes = pattern(600);
    for byte in &bytes {
        send_all(client, &[*byte])?;
    }
    for byte in &bytes {
        gets!(recv(server, 1, 0), [*byte]);
    }
    Ok(())
}

fn zero_write() -> Outcome {
    let (client, server) = pair()?;
    same!(write(client, b""), Ok(0));
    same!(send(client, b"", 0), Ok(0));
    same!(sendmsg(client, &[b"", b""], None, 0), Ok(0));
    quiet(server)?;
    echo(client, server)
}

fn zero_read() -> Outcome {
    let (client, server) = pair()?;
    send_all(client, b"data")?;
    arrived(server, 4)?;
    gets!(recv(server, 0, 0), b"");
    gets!(read(server, 0), b"");
    gets!(recv(server, 9, 0), b"data");
    Ok(())
}

fn flags_come_back() -> Outcome {
    let (client, server) = pair()?;
    send_all(client, b"x")?;
    let got = recvmsg(server, &[10], libc::MSG_CMSG_CLOEXEC)?;
    same!((got.count, got.flags), (1, libc::MSG_CMSG_CLOEXEC));
    send_all(client, b"y")?;
    let got = recvmsg(server, &[10], 0)?;
    same!((got.count, got.flags), (1, 0));
    shutdown(client, SHUT_WR)?;
    let got = recvmsg(server, &[10], libc::MSG_CMSG_CLOEXEC)?;
    same!((got.count, got.flags), (0, libc::MSG_CMSG_CLOEXEC));
    Ok(())
}

fn no_buffer() -> Outcome {
    let (client, server) = pair()?;
    send_all(client, b"data")?;
    arrived(server, 4)?;
    let null = std::ptr::null_mut();
    for flags in [0, MSG_PEEK, MSG_TRUNC, MSG_PEEK | MSG_TRUNC, MSG_WAITALL] {
        for flags in [flags, flags | MSG_DONTWAIT] {
            // SAFETY: no bytes at null.
            same!(answer(unsafe { libc::recv(server, null, 0, flags) }), Ok(0));
        }
    }
    // SAFETY: as above.
    same!(answer(unsafe { libc::send(client, null, 0, 0) }), Ok(0));
    let nothing = libc::iovec {
        iov_base: null,
        iov_len: 0,
    };
    let mut room = [0u8; 3];
    let mut parts = [nothing; 3];
    parts[1].iov_base = room.as_mut_ptr().cast();
    parts[1].iov_len = room.len();
    // SAFETY: all zeros is a header of nothing.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = parts.as_mut_ptr();
    header.msg_iovlen = parts.len();
    for flags in [MSG_PEEK, 0] {
        room.fill(0);
        // SAFETY: the parts are empty, or the room.
        same!(
            answer(unsafe { libc::recvmsg(server, &raw mut header, flags) }),
            Ok(3)
        );
        same!(room, *b"dat");
    }
    gets!(recv(server, 9, 0), b"a");
    // SAFETY: as above.
    same!(
        answer(unsafe { libc::sendmsg(client, &raw const header, 0) }),
        Ok(3)
    );
    gets!(recv(server, 9, 0), b"dat");
    header.msg_iov = std::ptr::null_mut();
    // SAFETY: the kernel checks the address; that is what this is about.
    fails!(
        answer(unsafe { libc::sendmsg(client, &raw const header, 0) }),
        EFAULT
    );
    // SAFETY: as above.
    fails!(
        answer(unsafe { libc::recvmsg(server, &raw mut header, MSG_DONTWAIT) }),
        EFAULT
    );
    echo(client, server)
}

fn zero_vectors() -> Outcome {
    let (client, server) = pair()?;
    nonblocking(server, true)?;
    same!(readv(server, &[0, 0]), Ok(vec![vec![], vec![]]));
    shutdown(server, SHUT_WR)?;
    same!(writev(server, &[b"", b""]), Ok(0));
    send_all(client, b"x")?;
    readable(server)?;
    same!(readv(server, &[0]), Ok(vec![vec![]]));
    gets!(recv(server, 10, 0), b"x");
    Ok(())
}

fn peek() -> Outcome {
    let (client, server) = pair()?;
    send_all(client, b"look")?;
    arrived(server, 4)?;
    gets!(recv(server, 2, MSG_PEEK), b"lo");
    gets!(recv(server, 64, MSG_PEEK), b"look");
    same!(fionread(server), Ok(4));
    gets!(recv(server, 64, 0), b"look");
    fails!(recv(server, 64, MSG_PEEK | MSG_DONTWAIT), EAGAIN);
    Ok(())
}

fn peek_across_sends() -> Outcome {
    let (client, server) = pair()?;
    send_all(client, b"one")?;
    send_all(client, &pattern(200))?;
    send_all(client, b"two")?;
    arrived(server, 206)?;
    let expected = [b"one".to_vec(), pattern(200), b"two".to_vec()].concat();
    gets!(recv(server, 1000, MSG_PEEK), expected);
    gets!(recv(server, 1000, 0), expected);
    Ok(())
}

fn peek_then_part() -> Outcome {
    let (client, server) = pair()?;
    send_all(client, b"abcdef")?;
    arrived(server, 6)?;
    gets!(recv(server, 2, 0), b"ab");
    gets!(recv(server, 3, MSG_PEEK), b"cde");
    gets!(recv(server, 64, 0), b"cdef");
    Ok(())
}

fn recv_trunc() -> Outcome {
    let (client, server) = pair()?;
    send_all(client, b"throw away, keep")?;
    arrived(server, 16)?;
    // SAFETY: with MSG_TRUNC a stream writes nothing to the room, which may be null.
    same!(
        unsafe { libc::recv(server, std::ptr::null_mut(), 12, MSG_TRUNC) },
        12
    );
    gets!(recv(server, 64, 0), b"keep");
    Ok(())
}

fn wait_all() -> Outcome {
    let (client, server) = pair()?;
    let sender = thread(move || {
        for part in pattern(1000).chunks(250) {
            pause(5);
            send_all(client, part)?;
        }
        Ok(())
    });
    gets!(recv(server, 1000, MSG_WAITALL), pattern(1000));
    sender.join()
}

fn wait_all_end() -> Outcome {
    let (client, server) = pair()?;
    let sender = thread(move || {
        send_all(client, b"short")?;
        pause(20);
        Ok(shutdown(client, SHUT_WR)?)
    });
    gets!(recv(server, 1000, MSG_WAITALL), b"short");
    gets!(recv(server, 1000, MSG_WAITALL), b"");
    sender.join()
}

fn wait_all_peek() -> Outcome {
    let (client, server) = pair()?;
    let sender = thread(move || {
        send_all(client, b"first")?;
        pause(20);
        Ok(send_all(client, b"second")?)
    });
    gets!(recv(server, 11, MSG_WAITALL | MSG_PEEK), b"firstsecond");
    gets!(recv(server, 64, 0), b"firstsecond");
    sender.join()
}

fn dont_wait() -> Outcome {
    let (client, server) = pair()?;
    fails!(recv(server, 10, MSG_DONTWAIT), EAGAIN);
    fails!(recvmsg(server, &[10], MSG_DONTWAIT), EAGAIN);
    fails!(recvmmsg(server, 2, 10, MSG_DONTWAIT, None), EAGAIN);
    send_all(client, b"now")?;
    readable(server)?;
    gets!(recv(server, 10, MSG_DONTWAIT), b"now");
    Ok(())
}

fn inquiry() -> Outcome {
    let (client, server) = pair()?;
    same!(fionread(server), Ok(0));
    send_all(client, b"12345")?;
    send_all(client, &pattern(100))?;
    arrived(server, 105)?;
    gets!(recv(server, 2, 0), b"12");
    same!(fionread(server), Ok(103));
    recv_all(server, 103)?;
    same!(fionread(server), Ok(0));
    Ok(())
}

fn outgoing_queue() -> Outcome {
    let (client, server) = pair()?;
    send_all(client, &pattern(5000))?;
    recv_all(server, 5000)?;
    eventually("everything is acknowledged", || {
        ioctl(client, libc::TIOCOUTQ as _, -1) == Ok(0)
    })
}

fn outgoing_unread() -> Outcome {
    // Of another machine it is known what was read.
    if seen::far() {
        return outgoing_queue();
    }
    let (client, server) = pair()?;
    send_all(client, &pattern(5000))?;
    eventually("everything is acknowledged", || {
        ioctl(client, libc::TIOCOUTQ as _, -1) == Ok(0)
    })?;
    gets!(recv_all(server, 5000), pattern(5000));
    Ok(())
}

fn bad_pointer() -> Outcome {
    let (client, server) = pair()?;
    let nowhere = 8 as *mut libc::c_void;
    // SAFETY: the kernel checks the address; that is what this case is about.
    fails!(
        answer(unsafe { libc::send(client, nowhere, 10, 0) }),
        EFAULT
    );
    send_all(client, b"kept")?;
    readable(server)?;
    // SAFETY: as above.
    fails!(
        answer(unsafe { libc::recv(server, nowhere, 10, 0) }),
        EFAULT
    );
    gets!(recv(server, 10, 0), b"kept");
    Ok(())
}

fn blocking_recv() -> Outcome {
    let (client, server) = pair()?;
    let reader = thread(move || {
        gets!(recv(server, 10, 0), b"wake");
        Ok(())
    });
    pause(30);
    holds!(!reader.ended());
    send_all(client, b"wake")?;
    reader.join()
}

fn blocking_send() -> Outcome {
    let (client, server) = pair()?;
    let total = 16 << 20;
    let writer = thread(move || Ok(send_all(client, &pattern(total))?));
    pause(30);
    holds!(!writer.ended(), "sixteen megabytes fitted without a reader");
    holds!(
        recv_all(server, total)? == pattern(total),
        "other bytes came than were sent"
    );
    writer.join()
}

fn two_writers() -> Outcome {
    let (client, server) = pair()?;
    let rounds = 500;
    let writer = |byte: u8| {
        thread(move || {
            for _ in 0..rounds {
                same!(send(client, &[byte; 40], 0), Ok(40));
            }
            Ok(())
        })
    };
    let writers = [writer(b'a'), writer(b'b')];
    let mut counts = [0; 2];
    for _ in 0..2 * rounds {
        let block = recv_all(server, 40)?;
        holds!(
            block.iter().all(|&byte| byte == block[0]),
            "two sends are mixed: {block:?}"
        );
        counts[usize::from(block[0] == b'b')] += 1;
    }
    same!(counts, [rounds; 2]);
    writers.into_iter().try_for_each(Thread::join)
}

fn two_readers() -> Outcome {
    let (client, server) = pair()?;
    let readers: Vec<_> = (0..2)
        .map(|_| {
            std::thread::spawn(move || {
                let mut sum = (0usize, 0u64);
                while let Ok(bytes) = recv(server, 100, 0) {
                    if bytes.is_empty() {
                        break;
                    }
                    sum.0 += bytes.len();
                    sum.1 += bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>();
                }
                sum
            })
        })
        .collect();
    let bytes = pattern(50_000);
    for part in bytes.chunks(333) {
        send_all(client, part)?;
    }
    shutdown(client, SHUT_WR)?;
    let mut sum = (0, 0);
    for reader in readers {
        let part = reader
            .join()
            .map_err(|_| Failure::new("a reader panicked"))?;
        sum = (sum.0 + part.0, sum.1 + part.1);
    }
    same!(
        sum,
        (bytes.len(), bytes.iter().map(|&byte| u64::from(byte)).sum())
    );
    Ok(())
}

fn reader_and_writer() -> Outcome {
    let (client, server) = pair()?;
    let mirror = thread(move || {
        loop {
            let bytes = recv(server, 5000, 0)?;
            if bytes.is_empty() {
                return Ok(());
            }
            send_all(server, &bytes)?;
        }
    });
    let writer = thread(move || {
        send_all(client, &pattern(2_000_000))?;
        Ok(shutdown(client, SHUT_WR)?)
    });
    let got = recv_all(client, 2_000_000)?;
    holds!(got == pattern(2_000_000), "the mirror gave other bytes");
    writer.join()?;
    mirror.join()
}

fn message_after_idle() -> Outcome {
    let (client, server) = pair()?;
    let mirror = thread(move || {
        for _ in 0..25 {
            let bytes = recv(server, 100, 0)?;
            pause(2);
            send_all(server, &bytes)?;
        }
        Ok(())
    });
    for round in 0..25u8 {
        pause(2);
        send_all(client, &[round; 10])?;
        gets!(recv(client, 100, 0), [round; 10]);
    }
    mirror.join()
}

fn ping_pong() -> Outcome {
    let (client, server) = pair()?;
    let mirror = thread(move || {
        for _ in 0..1000 {
            let bytes = recv(server, 100, 0)?;
            send_all(server, &bytes)?;
        }
        Ok(())
    });
    for round in 0..1000u32 {
        send_all(client, &[round as u8])?;
        gets!(recv(client, 100, 0), [round as u8]);
    }
    mirror.join()
}

fn sizes() -> Outcome {
    let (client, server) = pair()?;
    let around = [
        1usize, 8, 55, 56, 57, 63, 64, 65, 112, 119, 120, 121, 128, 129, 1000, 4096, 16383, 16384,
        16385, 30_000,
    ];
    for size in around {
        let bytes = pattern(size);
        same!(send(client, &bytes, 0), Ok(size));
        holds!(
            recv_all(server, size)? == bytes,
            "{size} bytes were changed"
        );
        same!(send(server, &bytes, 0), Ok(size));
        holds!(
            recv(client, size, MSG_WAITALL)? == bytes,
            "{size} bytes were changed on the way back"
        );
    }
    Ok(())
}

fn line_input() -> Outcome {
    let (client, server) = pair()?;
    // SAFETY: each descriptor gets one stream; lines fit into their rooms.
    unsafe {
        let output = libc::fdopen(client, c"w".as_ptr());
        let input = libc::fdopen(server, c"r".as_ptr());
        holds!(!output.is_null() && !input.is_null());
        for number in 0..3 {
            raw::fprintf(output, c"line %d\n".as_ptr(), number as libc::c_int);
            same!(libc::fflush(output), 0);
            let mut line = [0 as libc::c_char; 64];
            holds!(
                !libc::fgets(line.as_mut_ptr(), 64, input).is_null(),
                "fgets gave nothing"
            );
            let line = std::ffi::CStr::from_ptr(line.as_ptr());
            same!(line.to_string_lossy(), format!("line {number}\n"));
        }
    }
    Ok(())
}

fn send_more() -> Outcome {
    let (client, server) = pair()?;
    same!(send(client, b"held ", libc::MSG_MORE), Ok(5));
    same!(send(client, b"and sent", 0), Ok(8));
    gets!(recv(server, 13, MSG_WAITALL), b"held and sent");
    setsockopt(client, libc::IPPROTO_TCP, libc::TCP_CORK, &1i32)?;
    send_all(client, b"corked ")?;
    send_all(client, b"bytes")?;
    setsockopt(client, libc::IPPROTO_TCP, libc::TCP_CORK, &0i32)?;
    gets!(recv(server, 12, MSG_WAITALL), b"corked bytes");
    Ok(())
}

fn urgent() -> Outcome {
    let (client, server) = pair()?;
    send_all(client, b"before")?;
    let sent = send(client, b"!", libc::MSG_OOB);
    send_all(client, b"after")?;
    if sent == Ok(1) {
        eventually("the urgent byte is there", || {
            recv(server, 1, libc::MSG_OOB) == Ok(b"!".to_vec())
        })?;
    } else {
        fails!(sent, EOPNOTSUPP);
    }
    gets!(recv(server, 6, MSG_WAITALL), b"before");
    gets!(recv(server, 5, MSG_WAITALL), b"after");
    echo(client, server)
}
