// SPDX-License-Identifier: Apache-2.0
//! poll, ppoll, select, pselect.

use crate::support::prelude::*;
use crate::support::process::{mask, signal_set};
use crate::support::sys::raw;
use crate::support::wait::entries;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

cases! { "polling";
    poll_idle Accelerated "an idle connection is writable and not readable"
    poll_readable Accelerated "a connection with bytes is readable until all are read"
    poll_blocked Accelerated "a blocked poll wakes when bytes come"
    poll_timeout Accelerated "poll ends after its time, not before"
    poll_zero Accelerated "poll with time 0 returns at once"
    poll_many Accelerated "poll of twenty connections names exactly those with bytes"
    poll_mixed Accelerated "poll of connections, a pipe, an eventfd and a listener names each"
    poll_wakes_by_pipe Accelerated "a poll that waits for a connection and a pipe wakes by the pipe"
    poll_negative Accelerated "a negative descriptor is left out; a closed one gives POLLNVAL"
    poll_nothing_wanted Accelerated "with no events wanted only POLLHUP and POLLERR are told"
    poll_same_twice Accelerated "the same descriptor twice in one poll, with other events each"
    poll_revents Accelerated "poll writes revents of all entries, 0 where nothing is"
    poll_write_side Accelerated "a poll for writing wakes when the other side reads"
    poll_checked Accelerated "__poll_chk and __poll do what poll does"
    poll_two_threads Accelerated "two threads poll for the same connection: both wake"
    poll_two_directions Accelerated "one thread waits to read while another waits to write on the same connection"
    poll_raw Accelerated "syscall(SYS_poll) and SYS_ppoll see connections' bytes"
    ppoll_time Accelerated "ppoll with a time, without end, and with time 0"
    ppoll_mask Accelerated "ppoll lets a blocked signal in while it waits"
    poll_none Any "poll of nothing is a sleep"
    select_readable Accelerated "select names connections with bytes and those that are writable"
    select_timeout Accelerated "select ends after its time with empty sets"
    select_blocked Accelerated "a blocked select wakes when bytes come"
    select_mixed Accelerated "select of a connection, a pipe and a listener"
    select_end Accelerated "the end of a stream is readable for select"
    select_reset Accelerated "a reset connection is readable and writable for select"
    select_pipe_ends Accelerated "select of a connection and of pipes whose other end is closed"
    select_bad Any "select of a closed descriptor fails with EBADF"
    pselect_mask Accelerated "pselect lets a blocked signal in while it waits"
    datagram_poll Any "poll and select of datagram sockets"
    steady_stream_starves_nobody Accelerated "a connection that is always readable does not hide a pipe's event"
    alternating Accelerated "a thousand poll-driven exchanges over two connections"
}

fn poll_idle() -> Outcome {
    let (client, server) = pair()?;
    for fd in [client, server] {
        same!(poll_one(fd, POLLIN | POLLOUT | POLLRDHUP, 0), Ok(POLLOUT));
        same!(poll_one(fd, POLLIN, 0), Ok(0));
    }
    Ok(())
}

fn poll_readable() -> Outcome {
    let (client, server) = pair()?;
    send_all(client, b"ab")?;
    readable(server)?;
    same!(poll_one(server, POLLIN | POLLOUT, 0), Ok(POLLIN | POLLOUT));
    same!(
        poll_one(server, libc::POLLRDNORM | libc::POLLWRNORM, 0),
        Ok(libc::POLLRDNORM | libc::POLLWRNORM)
    );
    gets!(recv(server, 1, 0), b"a");
    same!(poll_one(server, POLLIN, 0), Ok(POLLIN));
    gets!(recv(server, 1, 0), b"b");
    same!(poll_one(server, POLLIN, 0), Ok(0));
    Ok(())
}

fn poll_blocked() -> Outcome {
    let (client, server) = pair()?;
    let poller = thread(move || {
        same!(poll_one(server, POLLIN, -1), Ok(POLLIN));
        Ok(())
    });
    pause(30);
    holds!(!poller.ended());
    send_all(client, b"x")?;
    poller.join()
}

fn poll_timeout() -> Outcome {
    let (_client, server) = pair()?;
    let began = Instant::now();
    same!(poll_one(server, POLLIN, 40), Ok(0));
    holds!(
        began.elapsed() >= Duration::from_millis(39),
        "{:?}",
        began.elapsed()
    );
    Ok(())
}

fn poll_zero() -> Outcome {
    let (client, server) = pair()?;
    for _ in 0..100 {
        same!(poll_one(server, POLLIN, 0), Ok(0));
    }
    echo(client, server)
}

fn poll_many() -> Outcome {
    let (listener, address) = listener()?;
    let pairs: Vec<_> = (0..20)
        .map(|_| pair_at(listener, &address))
        .collect::<Call<_>>()?;
    for index in [3, 7, 19] {
        send_all(pairs[index].0, b"x")?;
        readable(pairs[index].1)?;
    }
    let wanted: Vec<_> = pairs.iter().map(|pair| (pair.1, POLLIN)).collect();
    let (count, events) = poll(&wanted, 1000)?;
    same!(count, 3);
    let ready: Vec<usize> = (0..20).filter(|&index| events[index] == POLLIN).collect();
    same!(ready, vec![3, 7, 19]);
    Ok(())
}

fn poll_mixed() -> Outcome {
    let (listener, address) = listener()?;
    let (client, server) = pair_at(listener, &address)?;
    let (out, into) = pipe()?;
    let event = eventfd(0, 0)?;
    let wanted = [
        (server, POLLIN),
        (out, POLLIN),
        (event, POLLIN),
        (listener, POLLIN),
        (into, POLLOUT),
    ];
    same!(poll(&wanted, 0), Ok((1, vec![0, 0, 0, 0, POLLOUT])));
    write(into, b"x")?;
    write(event, &1u64.to_ne_bytes())?;
    let _waiting = self::client(&address)?;
    send_all(client, b"x")?;
    readable(server)?;
    readable(listener)?;
    // Who has just asked the kernel is not told of it again at once.
    pause(1);
    same!(
        poll(&wanted, 0),
        Ok((5, vec![POLLIN, POLLIN, POLLIN, POLLIN, POLLOUT]))
    );
    Ok(())
}

fn poll_wakes_by_pipe() -> Outcome {
    let (_client, server) = pair()?;
    let (out, into) = pipe()?;
    let poller = thread(move || {
        same!(
            poll(&[(server, POLLIN), (out, POLLIN)], -1),
            Ok((1, vec![0, POLLIN]))
        );
        Ok(())
    });
    pause(30);
    write(into, b"x")?;
    poller.join()
}

fn poll_negative() -> Outcome {
    let (client, server) = pair()?;
    send_all(client, b"x")?;
    readable(server)?;
    // As above.
    pause(1);
    same!(
        poll(&[(-1, POLLIN), (server, POLLIN), (777, POLLIN)], 0),
        Ok((2, vec![0, POLLIN, POLLNVAL]))
    );
    Ok(())
}

fn poll_nothing_wanted() -> Outcome {
    let (client, server) = pair()?;
    send_all(client, b"x")?;
    readable(server)?;
    same!(poll_one(server, 0, 0), Ok(0));
    gets!(recv(server, 10, 0), b"x");
    linger(client, true, 0)?;
    close(client)?;
    readable(server)?;
    same!(poll_one(server, 0, 0), Ok(POLLERR | POLLHUP));
    Ok(())
}

fn poll_same_twice() -> Outcome {
    let (client, server) = pair()?;
    same!(
        poll(&[(server, POLLIN), (server, POLLOUT)], 0),
        Ok((1, vec![0, POLLOUT]))
    );
    send_all(client, b"x")?;
    readable(server)?;
    same!(
        poll(&[(server, POLLIN), (server, POLLOUT)], 0),
        Ok((2, vec![POLLIN, POLLOUT]))
    );
    Ok(())
}

fn poll_revents() -> Outcome {
    let (_client, server) = pair()?;
    let (out, _into) = pipe()?;
    // The helper fills revents with rubbish before the call.
    same!(
        poll(&[(server, POLLIN), (out, POLLIN), (-5, POLLIN)], 5),
        Ok((0, vec![0, 0, 0]))
    );
    Ok(())
}

fn poll_write_side() -> Outcome {
    let (client, server) = pair()?;
    let filled = fill(client)?;
    let poller = thread(move || {
        same!(poll_one(client, POLLOUT, -1), Ok(POLLOUT));
        Ok(())
    });
    pause(30);
    holds!(!poller.ended());
    recv_all(server, filled)?;
    poller.join()
}

fn poll_checked() -> Outcome {
    let (client, server) = pair()?;
    let mut fds = entries(&[(server, POLLIN)]);
    // SAFETY: pointer, count and size are of one vector.
    same!(
        unsafe { raw::__poll_chk(fds.as_mut_ptr(), 1, 0, size_of::<libc::pollfd>()) },
        0
    );
    send_all(client, b"x")?;
    // SAFETY: as above.
    same!(
        unsafe { raw::__poll_chk(fds.as_mut_ptr(), 1, 5000, size_of::<libc::pollfd>()) },
        1
    );
    same!(fds[0].revents, POLLIN);
    // SAFETY: as above.
    same!(unsafe { raw::__poll(fds.as_mut_ptr(), 1, 5000) }, 1);
    Ok(())
}

fn poll_two_threads() -> Outcome {
    let (client, server) = pair()?;
    let poller = || {
        thread(move || {
            same!(poll_one(server, POLLIN, 5000), Ok(POLLIN));
            Ok(())
        })
    };
    let pollers = [poller(), poller()];
    pause(30);
    send_all(client, b"x")?;
    pollers.into_iter().try_for_each(Thread::join)
}

fn poll_two_directions() -> Outcome {
    let (client, server) = pair()?;
    let filled = fill(server)?;
    let reader = thread(move || {
        same!(poll_one(server, POLLIN, 5000), Ok(POLLIN));
        Ok(())
    });
    let writer = thread(move || {
        same!(poll_one(server, POLLOUT, 5000), Ok(POLLOUT));
        Ok(())
    });
    pause(30);
    holds!(!reader.ended() && !writer.ended());
    recv_all(client, filled)?;
    writer.join()?;
    send_all(client, b"x")?;
    reader.join()
}

fn poll_raw() -> Outcome {
    let (client, server) = pair()?;
    let mut fds = entries(&[(server, POLLIN)]);
    send_all(client, b"x")?;
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: pointer and count are of one vector.
        same!(
            unsafe { libc::syscall(libc::SYS_poll, fds.as_mut_ptr(), 1usize, 5000) },
            1
        );
        same!(fds[0].revents, POLLIN);
    }
    let time = timespec(Duration::from_secs(5));
    // SAFETY: as above; the time outlives the call, and there is no mask.
    let count = unsafe {
        libc::syscall(
            libc::SYS_ppoll,
            fds.as_mut_ptr(),
            1usize,
            &raw const time,
            0usize,
            8usize,
        )
    };
    same!(count, 1);
    gets!(recv(server, 10, 0), b"x");
    Ok(())
}

fn ppoll_time() -> Outcome {
    let (client, server) = pair()?;
    same!(
        ppoll(&[(server, POLLIN)], Some(Duration::ZERO), None),
        Ok(vec![0])
    );
    same!(ppoll(&[(server, POLLIN)], Some(SHORT), None), Ok(vec![0]));
    send_all(client, b"x")?;
    same!(ppoll(&[(server, POLLIN)], None, None), Ok(vec![POLLIN]));
    Ok(())
}

fn ppoll_mask() -> Outcome {
    let (_client, server) = pair()?;
    count_signal(libc::SIGUSR1, 0)?;
    let set = signal_set(libc::SIGUSR1);
    mask(libc::SIG_BLOCK, &set)?;
    // SAFETY: the signal is blocked and handled.
    unsafe { libc::raise(libc::SIGUSR1) };
    same!(SIGNALS.load(Ordering::SeqCst), 0);
    let none = signal_set(libc::SIGUSR2);
    fails!(
        ppoll(
            &[(server, POLLIN)],
            Some(Duration::from_secs(5)),
            Some(&none)
        ),
        EINTR
    );
    same!(SIGNALS.load(Ordering::SeqCst), 1);
    Ok(())
}

fn poll_none() -> Outcome {
    let began = Instant::now();
    same!(poll(&[], 20), Ok((0, vec![])));
    holds!(began.elapsed() >= Duration::from_millis(19));
    Ok(())
}

fn chosen(count: usize, read: &[Fd], write: &[Fd]) -> Call<Selected> {
    Ok(Selected {
        count,
        read: read.to_vec(),
        write: write.to_vec(),
    })
}

fn select_readable() -> Outcome {
    let (client, server) = pair()?;
    let (other, other_server) = pair()?;
    let reads = [server, other_server];
    same!(
        select(&reads, &[client, other], Some(Duration::ZERO)),
        chosen(2, &[], &[client, other])
    );
    send_all(client, b"x")?;
    readable(server)?;
    same!(select(&reads, &[], None), chosen(1, &[server], &[]));
    same!(
        select(&reads, &[server], None),
        chosen(2, &[server], &[server])
    );
    gets!(recv(server, 10, 0), b"x");
    same!(
        select(&reads, &[], Some(Duration::ZERO)),
        chosen(0, &[], &[])
    );
    Ok(())
}

fn select_timeout() -> Outcome {
    let (_client, server) = pair()?;
    let began = Instant::now();
    same!(select(&[server], &[], Some(SHORT)), chosen(0, &[], &[]));
    holds!(began.elapsed() >= SHORT - Duration::from_millis(1));
    Ok(())
}

fn select_blocked() -> Outcome {
    let (client, server) = pair()?;
    let waiter = thread(move || {
        same!(select(&[server], &[], None), chosen(1, &[server], &[]));
        Ok(())
    });
    pause(30);
    holds!(!waiter.ended());
    send_all(client, b"x")?;
    waiter.join()
}

fn select_mixed() -> Outcome {
    let (listener, address) = listener()?;
    let (client, server) = pair_at(listener, &address)?;
    let (out, into) = pipe()?;
    let reads = [server, out, listener];
    same!(
        select(&reads, &[into], Some(Duration::ZERO)),
        chosen(1, &[], &[into])
    );
    write(into, b"x")?;
    send_all(client, b"x")?;
    let _waiting = self::client(&address)?;
    readable(server)?;
    readable(listener)?;
    same!(select(&reads, &[into], None), chosen(4, &reads, &[into]));
    Ok(())
}

fn select_end() -> Outcome {
    let (client, server) = pair()?;
    close(client)?;
    same!(
        select(&[server], &[], Some(Duration::from_secs(5))),
        chosen(1, &[server], &[])
    );
    gets!(recv(server, 10, 0), b"");
    Ok(())
}

fn select_reset() -> Outcome {
    let (client, server) = pair()?;
    linger(client, true, 0)?;
    close(client)?;
    readable(server)?;
    same!(
        select(&[server], &[server], Some(Duration::from_secs(5))),
        chosen(2, &[server], &[server])
    );
    Ok(())
}

fn select_pipe_ends() -> Outcome {
    let (_client, server) = pair()?;
    let (out, into) = pipe()?;
    let (other_out, other_into) = pipe()?;
    close(into)?;
    close(other_out)?;
    same!(
        select(
            &[server, out, other_into],
            &[other_into],
            Some(Duration::ZERO)
        ),
        chosen(3, &[out, other_into], &[other_into])
    );
    Ok(())
}

fn select_bad() -> Outcome {
    // Numbers beyond the process's table are overlooked; this one is within it.
    let (out, _into) = pipe()?;
    let closed = dup(out)?;
    close(closed)?;
    fails!(select(&[closed], &[], Some(Duration::ZERO)), EBADF);
    Ok(())
}

fn pselect_mask() -> Outcome {
    let (client, server) = pair()?;
    count_signal(libc::SIGUSR1, 0)?;
    let set = signal_set(libc::SIGUSR1);
    mask(libc::SIG_BLOCK, &set)?;
    // SAFETY: the signal is blocked and handled.
    unsafe { libc::raise(libc::SIGUSR1) };
    same!(SIGNALS.load(Ordering::SeqCst), 0);
    let none = signal_set(libc::SIGUSR2);
    fails!(
        pselect(&[server], Some(Duration::from_secs(5)), Some(&none)),
        EINTR
    );
    same!(SIGNALS.load(Ordering::SeqCst), 1);
    send_all(client, b"x")?;
    same!(
        pselect(&[server], Some(Duration::from_secs(5)), None),
        chosen(1, &[server], &[])
    );
    Ok(())
}

fn datagram_poll() -> Outcome {
    let (left, right) = datagram_pair()?;
    same!(poll_one(right, POLLIN | POLLOUT, 0), Ok(POLLOUT));
    for round in 0..3u8 {
        send(left, &[round], 0)?;
        same!(poll_one(right, POLLIN, 5000), Ok(POLLIN));
        same!(select(&[right], &[], None), chosen(1, &[right], &[]));
        gets!(recv(right, 10, 0), [round]);
        same!(poll_one(right, POLLIN, 0), Ok(0));
    }
    Ok(())
}

fn steady_stream_starves_nobody() -> Outcome {
    let (client, server) = pair()?;
    let (out, into) = pipe()?;
    send_all(client, &pattern(1000))?;
    readable(server)?;
    for _ in 0..50 {
        same!(
            poll(&[(server, POLLIN), (out, POLLIN)], -1),
            Ok((1, vec![POLLIN, 0]))
        );
    }
    write(into, b"x")?;
    eventually("the pipe is told", || {
        poll(&[(server, POLLIN), (out, POLLIN)], -1) == Ok((2, vec![POLLIN, POLLIN]))
    })
}

fn alternating() -> Outcome {
    let (one, one_server) = pair()?;
    let (two, two_server) = pair()?;
    let mirror = thread(move || {
        for _ in 0..1000 {
            let (_, events) = poll(&[(one_server, POLLIN), (two_server, POLLIN)], 5000)?;
            let fd = if events[0] != 0 {
                one_server
            } else {
                two_server
            };
            let bytes = recv(fd, 10, 0)?;
            send_all(fd, &bytes)?;
        }
        Ok(())
    });
    for round in 0..1000u32 {
        let fd = if round % 3 == 0 { one } else { two };
        send_all(fd, &[round as u8])?;
        let (count, events) = poll(&[(one, POLLIN), (two, POLLIN)], 5000)?;
        same!((count, events[usize::from(fd == two)]), (1, POLLIN));
        gets!(recv(fd, 10, 0), [round as u8]);
    }
    mirror.join()
}
