// SPDX-License-Identifier: Apache-2.0
//! Signals while a call is blocked: EINTR, or going on where SA_RESTART says so.

use crate::support::epoll;
use crate::support::prelude::*;
use crate::support::process::mask;
use crate::support::process::signal_set;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

cases! { "signals";
    recv_interrupted Accelerated "a signal interrupts a blocked recv with EINTR"
    read_interrupted Accelerated "a signal interrupts a blocked read with EINTR"
    recvmsg_interrupted Accelerated "a signal interrupts a blocked recvmsg with EINTR"
    send_interrupted Accelerated "a signal interrupts a blocked send with EINTR, or with what it took"
    accept_interrupted Any "a signal interrupts a blocked accept with EINTR"
    poll_interrupted Accelerated "a signal interrupts a blocked poll with EINTR"
    select_interrupted Accelerated "a signal interrupts a blocked select with EINTR"
    epoll_interrupted Accelerated "a signal interrupts a blocked epoll_wait with EINTR"
    datagram_interrupted Accelerated "a signal interrupts a blocked recvfrom of datagrams with EINTR"
    nothing_interrupted Accelerated "recv of no bytes gives 0 when a handler ends its wait, with SA_RESTART, too"
    recv_restarts Accelerated "with SA_RESTART a blocked recv goes on after a signal"
    accept_restarts Accelerated "with SA_RESTART a blocked accept goes on after a signal"
    send_restarts Accelerated "with SA_RESTART a blocked send goes on after a signal"
    poll_never_restarts Accelerated "poll and epoll_wait fail with EINTR even with SA_RESTART"
    timeout_never_restarts Accelerated "a recv with SO_RCVTIMEO fails with EINTR even with SA_RESTART"
    wait_all_interrupted Accelerated "MSG_WAITALL interrupted by a signal gives what came"
    wait_all_never_restarts Accelerated "MSG_WAITALL interrupted gives what came even with SA_RESTART, with MSG_PEEK, too"
    part_sent Accelerated "a send that is interrupted gives the part that it sent even with SA_RESTART"
    masked Accelerated "a signal that is blocked interrupts nothing"
    handler_writes Accelerated "a handler may send on a connection that the program is waiting for"
    wakes_itself Any "epoll_wait for a pipe that a handler fills ends, whenever the signal comes"
    pwait_interrupted Accelerated "a signal interrupts epoll_pwait with a mask of its own, whenever it comes"
    two_at_once Accelerated "two signals that only ppoll, pselect and epoll_pwait let in come there, one within the other, and are blocked again"
    kinds_at_once Accelerated "two dozen kinds of signals that ppoll lets in at once, with SA_NODEFER, come once each"
    timer Accelerated "signals of a timer during transfers lose no byte"
    ignored Accelerated "an ignored signal interrupts nothing"
    mixed Accelerated "a handler with SA_RESTART has recv go on, whatever other signals' handlers want"
    once Accelerated "a handler that is for one time (SA_RESETHAND) interrupts recv, and is gone"
    from_itself Accelerated "a handler of SIGPIPE is told that the process itself has sent it"
    pending Accelerated "ppoll without a wait lets in a signal that is blocked but for it"
    left Accelerated "a handler leaves a blocked recv for good, as siglongjmp does: the connection can still be closed"
    cancelled Accelerated "pthread_cancel ends threads that wait in recv, poll, accept and epoll_wait, also where they let it end them anywhere"
}

const SIGNAL: i32 = libc::SIGUSR1;
/// So often at most a handler wakes its own thread, or ends its call: each time meets another moment.
const TIMES: usize = 60_000;
/// No longer, however slow the machine is.
const LONG_ENOUGH: Duration = Duration::from_secs(4);

fn interrupted<T: std::fmt::Debug + 'static>(
    call: impl FnOnce() -> Call<T> + Send + 'static,
) -> Outcome {
    count_signal(SIGNAL, 0)?;
    thread(move || {
        fails!(call(), EINTR);
        Ok(())
    })
    .interrupt(SIGNAL)?;
    holds!(SIGNALS.load(Ordering::SeqCst) > 0);
    Ok(())
}

fn recv_interrupted() -> Outcome {
    let (client, server) = pair()?;
    interrupted(move || recv(server, 10, 0))?;
    echo(client, server)
}

fn nothing_interrupted() -> Outcome {
    let (client, server) = pair()?;
    for flags in [0, libc::SA_RESTART] {
        count_signal(SIGNAL, flags)?;
        thread(move || {
            gets!(recv(server, 0, 0), b"");
            Ok(())
        })
        .interrupt(SIGNAL)?;
    }
    echo(client, server)
}

fn read_interrupted() -> Outcome {
    let (client, server) = pair()?;
    interrupted(move || read(server, 10))?;
    echo(client, server)
}

fn recvmsg_interrupted() -> Outcome {
    let (client, server) = pair()?;
    interrupted(move || recvmsg(server, &[10], 0))?;
    echo(client, server)
}

fn send_interrupted() -> Outcome {
    let (client, server) = pair()?;
    let filled = fill(client)?;
    count_signal(SIGNAL, 0)?;
    // More than all buffers together hold: the kernel lets them grow.
    let total = 64 << 20;
    thread(move || {
        match send(client, &vec![1; total], 0) {
            Ok(count) => holds!(count < total),
            other => fails!(other, EINTR),
        }
        Ok(())
    })
    .interrupt(SIGNAL)?;
    recv_all(server, filled)?;
    Ok(())
}

fn accept_interrupted() -> Outcome {
    let (listener, address) = listener()?;
    interrupted(move || accept(listener))?;
    let (client, server) = pair_at(listener, &address)?;
    echo(client, server)
}

fn poll_interrupted() -> Outcome {
    let (client, server) = pair()?;
    interrupted(move || poll_one(server, POLLIN, -1))?;
    echo(client, server)
}

fn select_interrupted() -> Outcome {
    let (client, server) = pair()?;
    interrupted(move || select(&[server], &[], None))?;
    echo(client, server)
}

fn epoll_interrupted() -> Outcome {
    let (client, server) = pair()?;
    let set = epoll::create()?;
    epoll::add(set, server, epoll::IN, 1)?;
    interrupted(move || epoll::wait(set, -1))?;
    echo(client, server)
}

fn datagram_interrupted() -> Outcome {
    let (left, right) = datagram_pair()?;
    send(left, b"x", 0)?;
    gets!(recv(right, 10, 0), b"x");
    if let (Some(from), Some(to)) = (
        getsockname(left)?.socket_addr(),
        getpeername(left)?.socket_addr(),
    ) {
        crate::support::seen::datagrams(from, to);
    }
    interrupted(move || recvfrom(right, 10, 0))?;
    send(left, b"y", 0)?;
    gets!(recv(right, 10, 0), b"y");
    Ok(())
}

/// A thread that blocks in the call gets twenty signals and is still blocked.
fn goes_on(blocked: Thread, thread_id: libc::pthread_t) -> Result<Thread, Failure> {
    pause(20);
    for _ in 0..20 {
        // SAFETY: the thread is blocked until we end its call.
        unsafe { libc::pthread_kill(thread_id, SIGNAL) };
        pause(1);
    }
    if blocked.ended() {
        blocked.join()?;
        return Err(Failure::new("the call ended"));
    }
    holds!(SIGNALS.load(Ordering::SeqCst) > 0);
    Ok(blocked)
}

/// A thread and its identity.
fn identified(
    body: impl FnOnce() -> Outcome + Send + 'static,
) -> Result<(Thread, libc::pthread_t), Failure> {
    let (say, hear) = std::sync::mpsc::channel();
    let thread = thread(move || {
        // SAFETY: takes nothing.
        say.send(unsafe { libc::pthread_self() })
            .map_err(Failure::new)?;
        body()
    });
    let id = hear.recv().map_err(Failure::new)?;
    Ok((thread, id))
}

fn recv_restarts() -> Outcome {
    let (client, server) = pair()?;
    count_signal(SIGNAL, libc::SA_RESTART)?;
    let (reader, id) = identified(move || {
        gets!(recv(server, 10, 0), b"late");
        Ok(())
    })?;
    let reader = goes_on(reader, id)?;
    send_all(client, b"late")?;
    reader.join()
}

fn accept_restarts() -> Outcome {
    let (listener, address) = listener()?;
    count_signal(SIGNAL, libc::SA_RESTART)?;
    let (acceptor, id) = identified(move || {
        let server = accept(listener)?;
        crate::support::seen::stream(server);
        gets!(recv(server, 10, 0), b"late");
        Ok(())
    })?;
    let acceptor = goes_on(acceptor, id)?;
    let client = client(&address)?;
    send_all(client, b"late")?;
    acceptor.join()
}

fn send_restarts() -> Outcome {
    let (client, server) = pair()?;
    let filled = fill(client)?;
    count_signal(SIGNAL, libc::SA_RESTART)?;
    // A send that has taken a part gives that; none may give EINTR.
    let total = 8_000_000;
    let (sender, id) = identified(move || Ok(send_all(client, &pattern(total))?))?;
    let sender = goes_on(sender, id)?;
    recv_all(server, filled)?;
    holds!(
        recv_all(server, total)? == pattern(total),
        "other bytes came than were sent"
    );
    sender.join()
}

fn poll_never_restarts() -> Outcome {
    let (client, server) = pair()?;
    count_signal(SIGNAL, libc::SA_RESTART)?;
    thread(move || {
        fails!(poll_one(server, POLLIN, -1), EINTR);
        Ok(())
    })
    .interrupt(SIGNAL)?;
    let set = epoll::create()?;
    epoll::add(set, server, epoll::IN, 1)?;
    thread(move || {
        fails!(epoll::wait(set, -1), EINTR);
        Ok(())
    })
    .interrupt(SIGNAL)?;
    echo(client, server)
}

fn timeout_never_restarts() -> Outcome {
    let (client, server) = pair()?;
    timeout(server, libc::SO_RCVTIMEO, Duration::from_secs(20))?;
    count_signal(SIGNAL, libc::SA_RESTART)?;
    thread(move || {
        fails!(recv(server, 10, 0), EINTR);
        Ok(())
    })
    .interrupt(SIGNAL)?;
    echo(client, server)
}

fn wait_all_interrupted() -> Outcome {
    let (client, server) = pair()?;
    send_all(client, b"part")?;
    arrived(server, 4)?;
    count_signal(SIGNAL, 0)?;
    thread(move || {
        gets!(recv(server, 100, MSG_WAITALL), b"part");
        Ok(())
    })
    .interrupt(SIGNAL)?;
    echo(client, server)
}

fn wait_all_never_restarts() -> Outcome {
    let (client, server) = pair()?;
    send_all(client, b"part")?;
    arrived(server, 4)?;
    count_signal(SIGNAL, libc::SA_RESTART)?;
    thread(move || {
        gets!(recv(server, 100, MSG_WAITALL | MSG_PEEK), b"part");
        Ok(())
    })
    .interrupt(SIGNAL)?;
    thread(move || {
        gets!(recv(server, 100, MSG_WAITALL), b"part");
        Ok(())
    })
    .interrupt(SIGNAL)?;
    send_all(client, b"more")?;
    arrived(server, 4)?;
    thread(move || {
        same!(recvmsg(server, &[2, 100], MSG_WAITALL)?.bytes, b"more");
        Ok(())
    })
    .interrupt(SIGNAL)?;
    echo(client, server)
}

fn part_sent() -> Outcome {
    let (client, server) = pair()?;
    count_signal(SIGNAL, libc::SA_RESTART)?;
    // More than all buffers together hold.
    let total = 64 << 20;
    let part = Arc::new(AtomicUsize::new(0));
    let sent = Arc::clone(&part);
    thread(move || {
        let count = send(client, &vec![1; total], 0)?;
        holds!(count > 0 && count < total);
        sent.store(count, Ordering::SeqCst);
        Ok(())
    })
    .interrupt(SIGNAL)?;
    let part = part.load(Ordering::SeqCst);
    same!(recv_all(server, part)?.len(), part);
    quiet(server)?;
    echo(client, server)
}

fn masked() -> Outcome {
    let (client, server) = pair()?;
    count_signal(SIGNAL, 0)?;
    let (reader, id) = identified(move || {
        mask(libc::SIG_BLOCK, &signal_set(SIGNAL))?;
        gets!(recv(server, 10, 0), b"late");
        same!(SIGNALS.load(Ordering::SeqCst), 0);
        Ok(())
    })?;
    pause(20);
    for _ in 0..5 {
        // SAFETY: the thread is blocked until we send.
        unsafe { libc::pthread_kill(id, SIGNAL) };
    }
    pause(10);
    holds!(!reader.ended());
    send_all(client, b"late")?;
    reader.join()
}

fn mixed() -> Outcome {
    let (client, server) = pair()?;
    count_signal(SIGNAL, libc::SA_RESTART)?;
    count_signal(libc::SIGUSR2, 0)?;
    let (reader, id) = identified(move || {
        gets!(recv(server, 10, 0), b"late");
        Ok(())
    })?;
    pause(20);
    // SAFETY: the thread is blocked until we send.
    unsafe { libc::pthread_kill(id, SIGNAL) };
    // On a busy machine the thread is late.
    while SIGNALS.load(Ordering::SeqCst) == 0 {
        pause(1);
    }
    pause(20);
    holds!(!reader.ended());
    send_all(client, b"late")?;
    reader.join()
}

fn once() -> Outcome {
    let (client, server) = pair()?;
    let (reader, id) = identified(move || {
        fails!(recv(server, 10, 0), EINTR);
        Ok(())
    })?;
    // A thread that is late may have had the first ones before it slept.
    for _ in 0..100 {
        pause(20);
        if reader.ended() {
            break;
        }
        count_signal(SIGNAL, libc::SA_RESETHAND)?;
        // SAFETY: it was not joined.
        unsafe { libc::pthread_kill(id, SIGNAL) };
    }
    reader.join()?;
    holds!(SIGNALS.load(Ordering::SeqCst) > 0);
    // SAFETY: asks only.
    let now = unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        done(libc::sigaction(SIGNAL, std::ptr::null(), &raw mut now))?;
        now
    };
    same!(now.sa_sigaction, libc::SIG_DFL);
    let kinds = libc::SA_RESETHAND | libc::SA_SIGINFO;
    same!(now.sa_flags & kinds, libc::SA_RESETHAND);
    echo(client, server)
}

fn pending() -> Outcome {
    let (_client, server) = pair()?;
    count_signal(SIGNAL, 0)?;
    mask(libc::SIG_BLOCK, &signal_set(SIGNAL))?;
    let mut polled = libc::pollfd {
        fd: server,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: the calling thread; zeros are no time and no signals.
    let result = unsafe {
        libc::pthread_kill(libc::pthread_self(), SIGNAL);
        let (now, nothing): (libc::timespec, libc::sigset_t) =
            (std::mem::zeroed(), std::mem::zeroed());
        done(libc::ppoll(
            &raw mut polled,
            1,
            &raw const now,
            &raw const nothing,
        ))
    };
    fails!(result, EINTR);
    same!(SIGNALS.load(Ordering::SeqCst), 1);
    Ok(())
}

static HANDLER_FD: std::sync::atomic::AtomicI32 = std::sync::atomic::AtomicI32::new(-1);

extern "C" fn send_one(_signal: i32) {
    let _ = send(
        HANDLER_FD.load(Ordering::SeqCst),
        b"!",
        MSG_NOSIGNAL | MSG_DONTWAIT,
    );
}

fn handler_writes() -> Outcome {
    let (client, server) = pair()?;
    HANDLER_FD.store(server, Ordering::SeqCst);
    // SAFETY: the handler calls send only, which is safe in handlers.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = send_one as extern "C" fn(i32) as usize;
        action.sa_flags = libc::SA_RESTART;
        done(libc::sigaction(
            SIGNAL,
            &raw const action,
            std::ptr::null_mut(),
        ))?;
    }
    let (reader, id) = identified(move || {
        for round in 0..200u32 {
            gets!(recv(server, 4, MSG_WAITALL), round.to_le_bytes());
        }
        Ok(())
    })?;
    let mut expected = 0;
    for round in 0..200u32 {
        if round % 10 == 5 {
            // SAFETY: the thread is blocked until we send the last.
            unsafe { libc::pthread_kill(id, SIGNAL) };
            expected += 1;
            gets!(recv_all(client, 1), b"!");
        }
        send_all(client, &round.to_le_bytes())?;
    }
    reader.join()?;
    same!(expected, 20);
    Ok(())
}

/// What event loops do: the handler writes, and the thread waits for that. With an epoll set that the library looks after.
fn wakes_itself() -> Outcome {
    extern "C" fn note(_signal: i32) {
        // SAFETY: a byte of ours.
        unsafe { libc::write(HANDLER_FD.load(Ordering::SeqCst), [1].as_ptr().cast(), 1) };
    }
    let (listener, _) = listener()?;
    let mut ends = [0; 2];
    // SAFETY: room for two numbers; the handler calls write only, which is safe in handlers.
    unsafe {
        done(libc::pipe2(ends.as_mut_ptr(), libc::O_NONBLOCK))?;
        HANDLER_FD.store(ends[1], Ordering::SeqCst);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = note as extern "C" fn(i32) as usize;
        action.sa_flags = libc::SA_RESTART;
        done(libc::sigaction(
            SIGNAL,
            &raw const action,
            std::ptr::null_mut(),
        ))?;
    }
    let set = epoll::create()?;
    epoll::add(set, listener, epoll::IN, 1)?;
    epoll::add(set, ends[0], epoll::IN, 2)?;
    static ROUND: AtomicUsize = AtomicUsize::new(0);
    static LAST: AtomicUsize = AtomicUsize::new(TIMES);
    let (waiter, id) = identified(move || {
        for round in 1.. {
            ROUND.store(round, Ordering::SeqCst);
            if round > LAST.load(Ordering::SeqCst) {
                break;
            }
            let began = std::time::Instant::now();
            // As long as a signal takes to come, more or less.
            (0..round % 1009).for_each(|step| {
                std::hint::black_box(step);
            });
            let mut byte = [0];
            // SAFETY: a byte of ours.
            while unsafe { libc::read(ends[0], byte.as_mut_ptr().cast(), 1) } != 1 {
                let _ = epoll::wait(set, if round % 2 == 0 { 5_000 } else { -1 });
                holds!(
                    began.elapsed() < Duration::from_secs(4),
                    "round {round} slept on"
                );
            }
        }
        Ok(())
    })?;
    let began = std::time::Instant::now();
    for round in 1..=TIMES {
        let mut looks = 0_u32;
        while ROUND.load(Ordering::SeqCst) < round && !waiter.ended() {
            looks += 1;
            match looks % 8192 {
                0 => std::thread::yield_now(),
                _ => std::hint::spin_loop(),
            }
        }
        if waiter.ended() {
            break;
        }
        let is_last = began.elapsed() > LONG_ENOUGH;
        if is_last {
            LAST.store(round, Ordering::SeqCst);
        }
        // SAFETY: the thread ends when all signals have come.
        unsafe { libc::pthread_kill(id, SIGNAL) };
        if is_last {
            break;
        }
    }
    waiter.join()
}

fn pwait_interrupted() -> Outcome {
    let (_client, server) = pair()?;
    count_signal(SIGNAL, libc::SA_RESTART)?;
    let other = signal_set(libc::SIGUSR2);
    let set = epoll::create()?;
    epoll::add(set, server, epoll::IN, 1)?;
    static ROUND: AtomicUsize = AtomicUsize::new(0);
    let began = std::time::Instant::now();
    let (waiter, id) = identified(move || {
        for round in 1..=TIMES {
            if began.elapsed() > LONG_ENOUGH {
                break;
            }
            ROUND.store(round, Ordering::SeqCst);
            fails!(epoll::pwait(set, 4_000, Some(&other)), EINTR);
        }
        ROUND.store(TIMES + 1, Ordering::SeqCst);
        Ok(())
    })?;
    for round in 1..=TIMES {
        // One that comes before the call interrupts nothing.
        while ROUND.load(Ordering::SeqCst) <= round && !waiter.ended() {
            (0..round % 4001).for_each(|step| {
                std::hint::black_box(step);
            });
            // SAFETY: the thread has not been joined.
            unsafe { libc::pthread_kill(id, SIGNAL) };
        }
    }
    waiter.join()
}

/// The handler of the first sends the second, which the call's mask lets in, too.
fn two_at_once() -> Outcome {
    const OTHER: i32 = libc::SIGUSR2;
    const LONG: Duration = Duration::from_secs(3);
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn first(_signal: i32) {
        // SAFETY: to this thread.
        unsafe { libc::raise(OTHER) };
        // The other one has put its mark there.
        SEEN.fetch_add(10 * SEEN.load(Ordering::SeqCst), Ordering::SeqCst);
    }
    extern "C" fn second(_signal: i32) {
        SEEN.fetch_add(1, Ordering::SeqCst);
    }
    let (_client, server) = pair()?;
    for (signal, handler) in [(SIGNAL, first as extern "C" fn(i32)), (OTHER, second)] {
        // SAFETY: the handlers touch an atomic, and send a signal.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as usize;
            done(libc::sigaction(
                signal,
                &raw const action,
                std::ptr::null_mut(),
            ))?;
        }
        mask(libc::SIG_BLOCK, &signal_set(signal))?;
    }
    let set = epoll::create()?;
    epoll::add(set, server, epoll::IN, 1)?;
    let lone = epoll::create()?;
    let none = signal_set(libc::SIGHUP);
    let calls: [&dyn Fn() -> Call<usize>; 4] = [
        &|| ppoll(&[(server, libc::POLLIN)], Some(LONG), Some(&none)).map(|found| found.len()),
        &|| pselect(&[server], Some(LONG), Some(&none)).map(|_| 0),
        &|| epoll::pwait(set, 3_000, Some(&none)).map(|events| events.len()),
        &|| epoll::pwait(lone, 3_000, Some(&none)).map(|events| events.len()),
    ];
    for (call, both) in calls.iter().flat_map(|call| [(call, false), (call, true)]) {
        SEEN.store(0, Ordering::SeqCst);
        // SAFETY: to this thread, where they are blocked.
        unsafe {
            libc::raise(SIGNAL);
            if both {
                libc::raise(OTHER);
            }
        }
        fails!(call(), EINTR);
        same!(SEEN.load(Ordering::SeqCst), if both { 22 } else { 11 });
        // SAFETY: zeroes are a set of no signals.
        let mut now = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes into the set.
        done(unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut now) })?;
        for signal in [SIGNAL, OTHER] {
            // SAFETY: the set was filled in.
            holds!(
                unsafe { libc::sigismember(&raw const now, signal) } == 1,
                "{signal} is let in"
            );
        }
    }
    Ok(())
}

fn kinds_at_once() -> Outcome {
    let (_client, server) = pair()?;
    let kinds = libc::SIGRTMIN()..libc::SIGRTMIN() + 24;
    for signal in kinds.clone() {
        count_signal(signal, libc::SA_NODEFER)?;
        mask(libc::SIG_BLOCK, &signal_set(signal))?;
        // SAFETY: to this thread, where it is blocked.
        unsafe { libc::raise(signal) };
    }
    let none = signal_set(libc::SIGHUP);
    let time = Some(Duration::from_secs(3));
    fails!(ppoll(&[(server, libc::POLLIN)], time, Some(&none)), EINTR);
    same!(SIGNALS.load(Ordering::SeqCst), kinds.len());
    Ok(())
}

fn timer() -> Outcome {
    let (client, server) = pair()?;
    count_signal(libc::SIGALRM, libc::SA_RESTART)?;
    let often = libc::timeval {
        tv_sec: 0,
        tv_usec: 300,
    };
    let value = libc::itimerval {
        it_interval: often,
        it_value: often,
    };
    unsafe extern "C" {
        fn setitimer(which: i32, new: *const libc::itimerval, old: *mut libc::itimerval) -> i32;
    }
    // SAFETY: reads one value.
    done(unsafe { setitimer(0, &raw const value, std::ptr::null_mut()) })?;
    let total = 4_000_000;
    let sender = thread(move || {
        for part in pattern(total).chunks(3000) {
            send_all(client, part)?;
        }
        Ok(shutdown(client, SHUT_WR)?)
    });
    let got = recv_all(server, total + 1)?;
    holds!(got == pattern(total), "{} bytes came, or others", got.len());
    sender.join()
}

fn ignored() -> Outcome {
    let (client, server) = pair()?;
    // SAFETY: SIG_IGN is a valid disposition.
    unsafe { libc::signal(SIGNAL, libc::SIG_IGN) };
    let (reader, id) = identified(move || {
        gets!(recv(server, 10, 0), b"late");
        Ok(())
    })?;
    pause(20);
    // SAFETY: the thread is blocked until we send.
    unsafe { libc::pthread_kill(id, SIGNAL) };
    pause(10);
    holds!(!reader.ended());
    send_all(client, b"late")?;
    reader.join()
}

/// Where the program goes on, where it was interrupted, and what it did there.
static PLACES: AtomicUsize = AtomicUsize::new(0);
static WAITS_ON: std::sync::atomic::AtomicI32 = std::sync::atomic::AtomicI32::new(-1);

unsafe extern "C" {
    fn getcontext(place: *mut libc::ucontext_t) -> i32;
    fn setcontext(place: *const libc::ucontext_t) -> i32;
    fn makecontext(place: *mut libc::ucontext_t, body: extern "C" fn(), arguments: i32, ...);
    fn swapcontext(from: *mut libc::ucontext_t, to: *const libc::ucontext_t) -> i32;
}

extern "C" fn leave(_: i32) {
    let place = PLACES.load(Ordering::SeqCst) as *const libc::ucontext_t;
    // SAFETY: filled in by `swapcontext`, whose frame lives. As siglongjmp, it restores the mask of signals.
    unsafe { setcontext(place) };
}

extern "C" fn receives_for_ever() {
    loop {
        let mut byte = 0u8;
        let fd = WAITS_ON.load(Ordering::SeqCst);
        // SAFETY: one byte of room.
        unsafe { libc::recv(fd, (&raw mut byte).cast(), 1, 0) };
    }
}

fn left() -> Outcome {
    for _ in 0..5 {
        let (client, server) = pair()?;
        WAITS_ON.store(client, Ordering::SeqCst);
        count_signal(SIGNAL, 0)?;
        // SAFETY: a function that takes a number is what a handler is.
        unsafe { libc::signal(SIGNAL, leave as extern "C" fn(i32) as libc::sighandler_t) };
        // SAFETY: takes nothing.
        let waits = unsafe { libc::pthread_self() };
        let waker = thread(move || {
            pause(20);
            // SAFETY: the thread joins this one.
            unsafe { libc::pthread_kill(waits, SIGNAL) };
            Ok(())
        });
        let mut stack = vec![0u8; 1 << 18];
        // SAFETY: zeros are a context without content; the stack lives until nothing runs on it any more.
        unsafe {
            let mut here: Box<libc::ucontext_t> = Box::new(std::mem::zeroed());
            let mut there: Box<libc::ucontext_t> = Box::new(std::mem::zeroed());
            done(getcontext(&raw mut *there))?;
            there.uc_stack.ss_sp = stack.as_mut_ptr().cast();
            there.uc_stack.ss_size = stack.len();
            PLACES.store(&raw mut *here as usize, Ordering::SeqCst);
            makecontext(&raw mut *there, receives_for_ever, 0);
            done(swapcontext(&raw mut *here, &raw const *there))?;
        }
        waker.join()?;
        close(client)?;
        readable(server)?;
        gets!(recv(server, 1, 0), b"");
        close(server)?;
    }
    Ok(())
}

/// What a thread waits in.
const WAYS: usize = 4;
/// Of `pthread.h`, which the libc crate leaves out.
const PTHREAD_CANCEL_ASYNCHRONOUS: i32 = 1;

unsafe extern "C" {
    fn pthread_setcanceltype(new: i32, old: *mut i32) -> i32;
}

extern "C" fn waits(what: *mut libc::c_void) -> *mut libc::c_void {
    let fd = WAITS_ON.load(Ordering::SeqCst);
    let mut byte = 0u8;
    let mut polled = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    // SAFETY: room for what is asked.
    unsafe {
        if what as usize >= WAYS {
            let mut old = 0;
            pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &raw mut old);
        }
        match what as usize % WAYS {
            0 => libc::recv(fd, (&raw mut byte).cast(), 1, 0) as i32,
            1 => libc::poll(&raw mut polled, 1, -1),
            2 => libc::accept(fd, std::ptr::null_mut(), std::ptr::null_mut()),
            _ => libc::epoll_wait(fd, &raw mut event, 1, -1),
        }
    };
    std::ptr::null_mut()
}

fn cancelled() -> Outcome {
    unsafe extern "C" {
        fn pthread_timedjoin_np(
            thread: libc::pthread_t,
            result: *mut *mut libc::c_void,
            limit: *const libc::timespec,
        ) -> i32;
    }
    let (_client, server) = pair()?;
    let (listener, _) = listener()?;
    // Has nothing of the library's: the kernel waits alone.
    let set = epoll::create()?;
    for what in 0..2 * WAYS {
        let fd = match what % WAYS {
            2 => listener,
            3 => set,
            _ => server,
        };
        WAITS_ON.store(fd, Ordering::SeqCst);
        // SAFETY: as the manual pages say.
        unsafe {
            let mut thread = 0;
            let none = std::ptr::null();
            same!(
                libc::pthread_create(&raw mut thread, none, waits, what as *mut libc::c_void),
                0
            );
            pause(20);
            same!(libc::pthread_cancel(thread), 0);
            let mut limit: libc::timespec = std::mem::zeroed();
            libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut limit);
            limit.tv_sec += 5;
            let mut result = std::ptr::null_mut();
            same!(
                pthread_timedjoin_np(thread, &raw mut result, &raw const limit),
                0
            );
            same!(result as isize, -1);
        }
    }
    Ok(())
}

/// Code and sender of the last signal.
static ORIGIN: [AtomicUsize; 2] = [const { AtomicUsize::new(usize::MAX) }; 2];

extern "C" fn note_origin(_signal: i32, info: *const libc::siginfo_t, _context: usize) {
    // SAFETY: what the kernel gives to a handler with SA_SIGINFO.
    let (code, process) = unsafe { ((*info).si_code, (*info).si_pid()) };
    ORIGIN[0].store(code as usize, Ordering::SeqCst);
    ORIGIN[1].store(process as usize, Ordering::SeqCst);
}

fn from_itself() -> Outcome {
    let (client, server) = pair()?;
    // SAFETY: all zeroes is a valid sigaction; the handler touches atomics alone.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = note_origin as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        same!(
            libc::sigaction(libc::SIGPIPE, &raw const action, std::ptr::null_mut()),
            0
        );
    }
    close(server)?;
    eventually("a write fails with EPIPE", || {
        send(client, b"x", 0) == Err(Errno(libc::EPIPE))
    })?;
    let origin = [&ORIGIN[0], &ORIGIN[1]].map(|part| part.load(Ordering::SeqCst));
    same!(
        origin,
        [libc::SI_USER as usize, std::process::id() as usize]
    );
    Ok(())
}
