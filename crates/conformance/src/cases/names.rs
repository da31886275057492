// SPDX-License-Identifier: Apache-2.0
//! Calls by other names, and calls that the C library carries out from within.

use crate::support::prelude::*;
use std::ffi::c_void;
use std::sync::atomic::Ordering;

cases! { "names";
    aliases Accelerated "the C library's own names of calls move the same bytes"
    no_place Accelerated "preadv2 and pwritev2 at no place, waiting and not"
    asynchronous Any "aio_read and aio_write of a connection"
    io_signal Any "with O_ASYNC each arrival is a signal"
    reopened Any "freopen of a standard stream that is a connection: the peer reads the end"
    terminal Any "forkpty in a program whose 0, 1 and 2 are a connection: the child writes to the terminal"
}

unsafe extern "C" {
    fn __read(fd: Fd, buffer: *mut c_void, count: usize) -> isize;
    fn __write(fd: Fd, buffer: *const c_void, count: usize) -> isize;
    fn __send(fd: Fd, buffer: *const c_void, count: usize, flags: i32) -> isize;
    static mut stdin: *mut libc::FILE;
}

fn aliases() -> Outcome {
    let (client, server) = pair()?;
    let mut buffer = [0_u8; 8];
    // SAFETY: buffers of the lengths that are told.
    unsafe {
        same!(__write(client, c"one".as_ptr().cast(), 3), 3);
        same!(__send(client, c"two".as_ptr().cast(), 3, 0), 3);
        gets!(recv_all(server, 6), b"onetwo");
        send_all(server, b"three")?;
        same!(__read(client, buffer.as_mut_ptr().cast(), 8), 5);
    }
    same!(&buffer[..5], b"three");
    Ok(())
}

fn no_place() -> Outcome {
    let (client, server) = pair()?;
    let mut buffer = [0_u8; 8];
    let to = libc::iovec {
        iov_base: c"vector".as_ptr().cast_mut().cast(),
        iov_len: 6,
    };
    let from = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: 8,
    };
    // SAFETY: one part each, of the length that is told.
    unsafe {
        same!(
            libc::preadv2(server, &raw const from, 1, -1, libc::RWF_NOWAIT),
            -1
        );
        same!(Errno::last(), Errno(EAGAIN));
        same!(libc::pwritev2(client, &raw const to, 1, -1, 0), 6);
        same!(libc::preadv2(server, &raw const from, 1, -1, 0), 6);
        same!(libc::preadv2(server, &raw const from, 1, 0, 0), -1);
        same!(Errno::last(), Errno(libc::ESPIPE));
    }
    same!(&buffer[..6], b"vector");
    echo(client, server)
}

fn asynchronous() -> Outcome {
    let (client, server) = pair()?;
    let mut buffer = [0_u8; 8];
    // SAFETY: zeros are a control block; the buffers live until the calls have ended.
    unsafe {
        let mut block: libc::aiocb = std::mem::zeroed();
        (block.aio_fildes, block.aio_nbytes) = (server, 8);
        block.aio_buf = buffer.as_mut_ptr().cast();
        let wait = |block: &libc::aiocb| {
            let list = [std::ptr::from_ref(block)];
            libc::aio_suspend(list.as_ptr(), 1, std::ptr::null());
        };
        same!(libc::aio_read(&raw mut block), 0);
        send_all(client, b"question")?;
        wait(&block);
        same!(
            (
                libc::aio_error(&raw const block),
                libc::aio_return(&raw mut block)
            ),
            (0, 8)
        );
        same!(&buffer, b"question");
        block.aio_buf = c"answer".as_ptr().cast_mut().cast();
        block.aio_nbytes = 6;
        same!(libc::aio_write(&raw mut block), 0);
        wait(&block);
        same!(
            (
                libc::aio_error(&raw const block),
                libc::aio_return(&raw mut block)
            ),
            (0, 6)
        );
    }
    gets!(recv_all(client, 6), b"answer");
    echo(client, server)
}

fn io_signal() -> Outcome {
    let (client, server) = pair()?;
    count_signal(libc::SIGIO, 0)?;
    // SAFETY: takes numbers only.
    unsafe {
        same!(libc::fcntl(server, libc::F_SETOWN, libc::getpid()), 0);
        let flags = libc::fcntl(server, libc::F_GETFL);
        same!(libc::fcntl(server, libc::F_SETFL, flags | libc::O_ASYNC), 0);
    }
    for round in 1..=3 {
        let before = SIGNALS.load(Ordering::SeqCst);
        send_all(client, b"now")?;
        for _ in 0..500 {
            if SIGNALS.load(Ordering::SeqCst) > before {
                break;
            }
            pause(10);
        }
        holds!(
            SIGNALS.load(Ordering::SeqCst) > before,
            "no signal in round {round}"
        );
        gets!(recv_all(server, 3), b"now");
    }
    Ok(())
}

fn reopened() -> Outcome {
    let (client, server) = pair()?;
    let (ours, theirs) = pair()?;
    send_all(client, b"line\n")?;
    let child = fork(move || {
        close(client)?;
        close(ours)?;
        // SAFETY: the child's own streams.
        unsafe {
            same!(libc::dup2(server, 0), 0);
            close(server)?;
            same!(libc::fgetc(stdin), i32::from(b'l'));
            let again = libc::freopen(c"/dev/zero".as_ptr(), c"r".as_ptr(), stdin);
            holds!(!again.is_null());
            same!(libc::fgetc(stdin), 0);
        }
        gets!(recv_all(theirs, 2), b"go");
        Ok(())
    })?;
    close(server)?;
    close(theirs)?;
    // While the child lives, which waits for the word.
    same!(poll_one(client, POLLIN, 5000), Ok(POLLIN));
    send_all(ours, b"go")?;
    child.join()
}

fn terminal() -> Outcome {
    let (client, server) = pair()?;
    let child = fork(move || {
        close(client)?;
        let mut master = -1;
        // SAFETY: the child's own descriptors; its child writes and ends.
        unsafe {
            for number in 0..3 {
                libc::dup2(server, number);
            }
            let writer = libc::forkpty(
                &raw mut master,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            );
            if writer == 0 {
                libc::write(1, c"tty".as_ptr().cast(), 3);
                libc::_exit(0);
            }
            holds!(writer > 0);
            let mut buffer = [0_u8; 16];
            let got = libc::read(master, buffer.as_mut_ptr().cast(), 16);
            libc::waitpid(writer, std::ptr::null_mut(), 0);
            let got = usize::try_from(got).unwrap_or(0);
            send_all(server, b"relay:")?;
            send_all(server, &buffer[..got])?;
        }
        Ok(())
    })?;
    close(server)?;
    gets!(recv_all(client, 100), b"relay:tty");
    child.join()
}
