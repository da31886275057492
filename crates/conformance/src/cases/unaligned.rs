// SPDX-License-Identifier: Apache-2.0
//! The program's structures at odd addresses, which the kernel takes as any others.

use crate::support::epoll;
use crate::support::prelude::*;
use crate::support::process::count_signal;
use crate::support::seen;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;

cases! { "unaligned";
    controls Accelerated "ioctl reads and writes numbers at odd addresses"
    options Accelerated "getsockopt and setsockopt do"
    names Accelerated "addresses of connect, accept and recvfrom, and their lengths, may lie there"
    vectors Accelerated "so may the buffers' descriptions of readv and writev"
    messages Accelerated "and the headers of sendmsg and recvmsg, with their buffers' descriptions"
    several_messages Accelerated "and those of sendmmsg and recvmmsg, with the lengths and the time"
    datagrams Accelerated "all of that with datagrams, whose names are written back"
    waiting Accelerated "descriptors and times of poll, select and their relatives may"
    epoll_events Accelerated "and events of epoll"
    file_offset Accelerated "and the offset of sendfile"
    rights Accelerated "and control data with descriptors"
    handlers Any "and what sigaction reads and writes"
}

/// A value behind one byte.
#[repr(C, packed)]
struct Behind<T> {
    shift: u8,
    value: T,
}

/// A value at an odd address, whatever its alignment is.
#[repr(C, align(64))]
struct Odd<T>(Behind<T>);

impl<T: Copy> Odd<T> {
    fn new(value: T) -> Self {
        Self(Behind { shift: 0, value })
    }

    fn at(&mut self) -> *mut T {
        let at = &raw mut self.0.value;
        debug_assert!(at.addr() % 2 == 1);
        at
    }

    fn get(&self) -> T {
        self.0.value
    }
}

/// Bytes of a name in these cases.
const NAME: libc::socklen_t = size_of::<libc::sockaddr_in>() as libc::socklen_t;

/// The address as the calls have it.
fn name(address: &Address) -> libc::sockaddr_in {
    // SAFETY: the storage is larger than any address.
    unsafe { address.pointer().cast::<libc::sockaddr_in>().read() }
}

/// Room for a name.
fn nobody() -> Odd<libc::sockaddr_in> {
    // SAFETY: zeros are an address of no family.
    Odd::new(unsafe { std::mem::zeroed() })
}

fn port(name: &Odd<libc::sockaddr_in>) -> u16 {
    u16::from_be(name.get().sin_port)
}

fn part(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    }
}

/// A header of these parts, at whatever address they are.
fn header(parts: *mut libc::iovec, count: usize) -> libc::msghdr {
    // SAFETY: all zeros is a header of nothing.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = parts;
    header.msg_iovlen = count;
    header
}

fn controls() -> Outcome {
    let (client, server) = pair()?;
    send_all(client, b"seven!!")?;
    arrived(server, 7)?;
    let mut number = Odd::new(-1);
    // SAFETY: room for one number, here and below.
    done(unsafe { libc::ioctl(server, libc::FIONREAD as _, number.at()) })?;
    same!(number.get(), 7);
    number = Odd::new(-1);
    // SAFETY: as above.
    done(unsafe { libc::ioctl(client, libc::TIOCOUTQ as _, number.at()) })?;
    holds!(number.get() >= 0);
    for on in [1, 0] {
        number = Odd::new(on);
        // SAFETY: as above.
        done(unsafe { libc::ioctl(server, libc::FIONBIO as _, number.at()) })?;
        same!(
            fcntl(server, libc::F_GETFL, 0)? & O_NONBLOCK != 0,
            number.get() != 0
        );
    }
    // SAFETY: as above.
    done(unsafe { libc::ioctl(server, libc::FIOASYNC as _, number.at()) })?;
    gets!(recv(server, 10, 0), b"seven!!");
    echo(client, server)
}

fn options() -> Outcome {
    let (client, server) = pair()?;
    let size = size_of::<i32>() as libc::socklen_t;
    let on = {
        let mut on = Odd::new(1);
        let at = on.at().cast();
        // SAFETY: the number has that size.
        unsafe { libc::setsockopt(client, libc::IPPROTO_TCP, libc::TCP_NODELAY, at, size) }
    };
    done(on)?;
    for (level, option, expected) in [
        (SOL_SOCKET, libc::SO_ERROR, 0),
        (SOL_SOCKET, libc::SO_TYPE, SOCK_STREAM),
        (libc::IPPROTO_TCP, libc::TCP_NODELAY, 1),
    ] {
        let (mut value, mut length) = (Odd::new(-1), Odd::new(size));
        // SAFETY: the number has that size.
        done(unsafe { libc::getsockopt(client, level, option, value.at().cast(), length.at()) })?;
        same!((value.get(), length.get()), (expected, size));
    }
    let mut time = Odd::new(libc::timeval {
        tv_sec: 0,
        tv_usec: 40_000,
    });
    let size = size_of::<libc::timeval>() as libc::socklen_t;
    // SAFETY: the time has that size.
    done(unsafe {
        libc::setsockopt(
            server,
            SOL_SOCKET,
            libc::SO_RCVTIMEO,
            time.at().cast(),
            size,
        )
    })?;
    fails!(recv(server, 10, 0), EAGAIN);
    echo(client, server)
}

fn names() -> Outcome {
    let (listener, address) = listener()?;
    let client = socket(AF_INET, SOCK_STREAM)?;
    let mut to = Odd::new(name(&address));
    // SAFETY: an address of that size.
    done(unsafe { libc::connect(client, to.at().cast(), NAME) })?;
    let (mut from, mut length) = (nobody(), Odd::new(NAME));
    // SAFETY: room for an address of that size.
    let server = descriptor(unsafe { libc::accept(listener, from.at().cast(), length.at()) })?;
    seen::stream(server);
    let own = getsockname(client)?;
    same!((port(&from), length.get()), (own.port(), NAME));
    let (mut peer, mut length) = (nobody(), Odd::new(NAME));
    // SAFETY: as above.
    done(unsafe { libc::getpeername(server, peer.at().cast(), length.at()) })?;
    same!((port(&peer), length.get()), (own.port(), NAME));
    send_all(client, b"bytes")?;
    let (mut nobody, mut length) = (nobody(), Odd::new(NAME));
    gets!(
        filled(5, |room, size| {
            // SAFETY: as above, and room for the bytes.
            unsafe { libc::recvfrom(server, room, size, 0, nobody.at().cast(), length.at()) }
        }),
        b"bytes"
    );
    // A stream has no names, and says so.
    same!((port(&nobody), length.get()), (0, 0));
    echo(client, server)
}

fn vectors() -> Outcome {
    let (client, server) = pair()?;
    let (mut one, mut two) = (*b"one", *b"two!");
    let mut parts = Odd::new([part(&mut one), part(&mut two)]);
    // SAFETY: two buffers.
    same!(
        answer(unsafe { libc::writev(client, parts.at().cast(), 2) }),
        Ok(7)
    );
    arrived(server, 7)?;
    let (mut first, mut second) = ([0; 5], [0; 5]);
    let mut parts = Odd::new([part(&mut first), part(&mut second)]);
    // SAFETY: two buffers with room.
    same!(
        answer(unsafe { libc::readv(server, parts.at().cast(), 2) }),
        Ok(7)
    );
    same!((&first, &second[..2]), (b"onetw", &b"o!"[..]));
    let mut none = Odd::new([part(&mut []), part(&mut [])]);
    // SAFETY: two buffers of nothing.
    same!(
        answer(unsafe { libc::readv(server, none.at().cast(), 2) }),
        Ok(0)
    );
    // SAFETY: as above.
    same!(
        answer(unsafe { libc::writev(server, none.at().cast(), 2) }),
        Ok(0)
    );
    echo(client, server)
}

fn messages() -> Outcome {
    let (client, server) = pair()?;
    let (mut one, mut two) = (*b"one", *b"two!");
    let mut parts = Odd::new([part(&mut one), part(&mut two)]);
    let mut odd = Odd::new(header(parts.at().cast(), 2));
    // SAFETY: two buffers.
    same!(answer(unsafe { libc::sendmsg(client, odd.at(), 0) }), Ok(7));
    arrived(server, 7)?;
    let (mut first, mut second) = ([0; 5], [0; 5]);
    let mut parts = Odd::new([part(&mut first), part(&mut second)]);
    let mut nobody = nobody();
    let mut asked = header(parts.at().cast(), 2);
    asked.msg_name = nobody.at().cast();
    asked.msg_namelen = NAME;
    asked.msg_flags = -1;
    let mut odd = Odd::new(asked);
    // SAFETY: two buffers with room, and room for a name.
    same!(answer(unsafe { libc::recvmsg(server, odd.at(), 0) }), Ok(7));
    same!((&first, &second[..2]), (b"onetw", &b"o!"[..]));
    let told = odd.get();
    same!((told.msg_namelen, told.msg_flags), (0, 0));
    // Only the buffers' descriptions lie there.
    send_all(client, b"again")?;
    arrived(server, 5)?;
    // SAFETY: two buffers with room.
    same!(
        answer(unsafe { libc::recvmsg(server, &raw mut asked, 0) }),
        Ok(5)
    );
    same!(&first, b"again");
    // A header that was of no use stays as it was.
    let mut odd = Odd::new(header(parts.at().cast(), 2));
    // SAFETY: as above.
    fails!(
        answer(unsafe { libc::recvmsg(server, odd.at(), MSG_DONTWAIT) }),
        EAGAIN
    );
    same!(odd.get().msg_iovlen, 2);
    echo(client, server)
}

fn several_messages() -> Outcome {
    let (client, server) = pair()?;
    let (mut one, mut two) = (*b"one", *b"four");
    let mut parts = Odd::new([part(&mut one), part(&mut two)]);
    let first = parts.at().cast::<libc::iovec>();
    let message = |parts| libc::mmsghdr {
        msg_hdr: header(parts, 1),
        msg_len: 99,
    };
    let mut odd = Odd::new([message(first), message(first.wrapping_add(1))]);
    // SAFETY: two messages of one buffer each, here and below.
    let sent = unsafe { libc::sendmmsg(client, odd.at().cast(), 2, 0) };
    same!(answer(sent as isize), Ok(2));
    same!(odd.get().map(|message| message.msg_len), [3, 4]);
    arrived(server, 7)?;
    let (mut one, mut two) = ([0; 4], [0; 9]);
    let mut parts = Odd::new([part(&mut one), part(&mut two)]);
    let first = parts.at().cast::<libc::iovec>();
    let mut odd = Odd::new([message(first), message(first.wrapping_add(1))]);
    let mut time = Odd::new(libc::timespec {
        tv_sec: 5,
        tv_nsec: 0,
    });
    // SAFETY: as above, with room.
    let got = unsafe { libc::recvmmsg(server, odd.at().cast(), 2, 0, time.at()) };
    same!(answer(got as isize), Ok(2));
    same!(odd.get().map(|message| message.msg_len), [4, 3]);
    same!((&one, &two[..3]), (b"onef", &b"our"[..]));
    echo(client, server)
}

fn datagrams() -> Outcome {
    let ((left, left_at), (right, right_at)) = (datagram()?, datagram()?);
    let mut to = Odd::new(name(&right_at));
    let (mut one, mut two) = (*b"first and more", *b"than sixteen");
    let size = one.len() + two.len();
    let mut parts = Odd::new([part(&mut one), part(&mut two)]);
    let mut asked = header(parts.at().cast(), 2);
    asked.msg_name = to.at().cast();
    asked.msg_namelen = NAME;
    let mut odd = Odd::new(asked);
    let mut several = Odd::new([libc::mmsghdr {
        msg_hdr: asked,
        msg_len: 0,
    }]);
    // The first ones go by the kernel until both sides know of each other.
    for turn in 0..20 {
        // SAFETY: two buffers and a name, here and below.
        let sent = unsafe { libc::sendmsg(left, odd.at(), 0) };
        same!(answer(sent), Ok(size));
        // SAFETY: one message.
        let sent = unsafe { libc::sendmmsg(left, several.at().cast(), 1, 0) };
        same!(answer(sent as isize), Ok(1));
        same!(several.get()[0].msg_len as usize, size);
        if turn == 10 {
            let (from, at) = (left_at.socket_addr(), right_at.socket_addr());
            if let (Some(from), Some(at)) = (from, at) {
                seen::datagrams(from, at);
            }
        }
        let (mut first, mut second) = ([0; 10], [0; 30]);
        let mut parts = Odd::new([part(&mut first), part(&mut second)]);
        let mut from = nobody();
        let mut asked = header(parts.at().cast(), 2);
        asked.msg_name = from.at().cast();
        asked.msg_namelen = NAME;
        let mut odd = Odd::new(asked);
        // SAFETY: buffers with room, and room for the name, here and below.
        let got = unsafe { libc::recvmsg(right, odd.at(), 0) };
        same!(answer(got), Ok(size));
        same!(&first, b"first and ");
        same!(&second[..size - 10], b"morethan sixteen");
        let told = odd.get();
        same!((told.msg_namelen, told.msg_flags), (NAME, 0));
        same!(port(&from), left_at.port());
        let mut from = nobody();
        asked.msg_name = from.at().cast();
        // The second one does not find room.
        asked.msg_iovlen = 1;
        let mut several = Odd::new([libc::mmsghdr {
            msg_hdr: asked,
            msg_len: 0,
        }]);
        // SAFETY: as above.
        let got = unsafe { libc::recvmmsg(right, several.at().cast(), 1, 0, null_mut()) };
        same!(answer(got as isize), Ok(1));
        let [told] = several.get();
        same!((told.msg_len, told.msg_hdr.msg_flags), (10, MSG_TRUNC));
        same!(port(&from), left_at.port());
    }
    Ok(())
}

fn waiting() -> Outcome {
    let (client, server) = pair()?;
    send_all(client, b"x")?;
    arrived(server, 1)?;
    let entry = |fd| libc::pollfd {
        fd,
        events: POLLIN,
        revents: -1,
    };
    let fds = [entry(client), entry(server)];
    let mut time = Odd::new(timespec(SHORT));
    for at_odd_time in [false, true] {
        let mut odd = Odd::new(fds);
        let at = odd.at().cast();
        // SAFETY: two descriptors, and a time, here and below.
        let found = match at_odd_time {
            false => unsafe { libc::poll(at, 2, 5000) },
            true => unsafe { libc::ppoll(at, 2, time.at(), std::ptr::null()) },
        };
        same!(answer(found as isize), Ok(1));
        same!(odd.get().map(|entry| entry.revents), [0, POLLIN]);
    }
    let mut odd = Odd::new([entry(client)]);
    // SAFETY: one descriptor.
    let found = unsafe { libc::poll(odd.at().cast(), 1, 10) };
    same!((found, odd.get()[0].revents), (0, 0));
    // SAFETY: zeros are an empty set.
    let mut set: libc::fd_set = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptors are small.
    unsafe {
        libc::FD_SET(client, &raw mut set);
        libc::FD_SET(server, &raw mut set);
    }
    let top = client.max(server) + 1;
    for at_odd_time in [false, true] {
        let (mut odd, null) = (Odd::new(set), null_mut());
        let mut limit = Odd::new(libc::timeval {
            tv_sec: 5,
            tv_usec: 0,
        });
        // SAFETY: a set, and a time.
        let found = match at_odd_time {
            false => unsafe { libc::select(top, odd.at(), null, null, limit.at()) },
            true => unsafe {
                libc::pselect(top, odd.at(), null, null, time.at(), std::ptr::null())
            },
        };
        same!(answer(found as isize), Ok(1));
        let left = odd.get();
        // SAFETY: the descriptors are small.
        let has = |fd| unsafe { libc::FD_ISSET(fd, &raw const left) };
        same!((has(client), has(server)), (false, true));
        holds!(limit.get().tv_sec <= 5);
    }
    echo_after(client, server)
}

/// The connection works, when the byte that lies there is read.
fn echo_after(client: Fd, server: Fd) -> Outcome {
    gets!(recv(server, 1, 0), b"x");
    echo(client, server)
}

fn epoll_events() -> Outcome {
    let (client, server) = pair()?;
    let set = epoll::create()?;
    let mut event = Odd::new(libc::epoll_event {
        events: epoll::IN,
        u64: 0x1234_5678_9ABC,
    });
    // SAFETY: an event.
    done(unsafe { libc::epoll_ctl(set, epoll::EPOLL_CTL_ADD, server, event.at()) })?;
    send_all(client, b"x")?;
    let mut time = Odd::new(timespec(SHORT));
    for at_odd_time in [false, true] {
        let mut events = Odd::new([libc::epoll_event { events: 0, u64: 0 }; 2]);
        let at = events.at().cast();
        // SAFETY: room for two events, and a time.
        let found = match at_odd_time {
            false => unsafe { libc::epoll_wait(set, at, 2, 5000) },
            true => unsafe { raw::epoll_pwait2(set, at, 2, time.at(), std::ptr::null()) },
        };
        same!(answer(found as isize), Ok(1));
        let [event, _] = events.get();
        same!({ event.events }, epoll::IN);
        same!({ event.u64 }, 0x1234_5678_9ABC);
    }
    echo_after(client, server)
}

fn file_offset() -> Outcome {
    use std::io::Write;
    let (client, server) = pair()?;
    let mut file = tempfile::tempfile()?;
    file.write_all(b"abcdefgh")?;
    let mut offset = Odd::new(2);
    // SAFETY: an offset.
    let sent = unsafe { libc::sendfile(client, file.as_raw_fd(), offset.at(), 4) };
    same!(answer(sent), Ok(4));
    same!(offset.get(), 6);
    gets!(recv_all(server, 4), b"cdef");
    echo(client, server)
}

/// Control data with one descriptor.
#[derive(Clone, Copy)]
#[repr(C)]
struct Rights {
    header: libc::cmsghdr,
    fd: Fd,
}

fn rights() -> Outcome {
    let (client, server) = pair()?;
    let [near, far] = unix_pair()?;
    // SAFETY: zeros are a header of nothing.
    let mut none: libc::cmsghdr = unsafe { std::mem::zeroed() };
    let mut byte = *b"x";
    let mut parts = Odd::new([part(&mut byte)]);
    let mut asked = header(parts.at().cast(), 1);
    asked.msg_controllen = size_of::<Rights>();
    none.cmsg_len = size_of::<libc::cmsghdr>() + size_of::<Fd>();
    none.cmsg_level = SOL_SOCKET;
    none.cmsg_type = libc::SCM_RIGHTS;
    let mut control = Odd::new(Rights {
        header: none,
        fd: server,
    });
    asked.msg_control = control.at().cast();
    let mut odd = Odd::new(asked);
    // SAFETY: a buffer and control data, here and below.
    same!(answer(unsafe { libc::sendmsg(near, odd.at(), 0) }), Ok(1));
    close(server)?;
    let mut control = Odd::new(Rights {
        header: none,
        fd: -1,
    });
    asked.msg_control = control.at().cast();
    let mut odd = Odd::new(asked);
    // SAFETY: with room.
    same!(answer(unsafe { libc::recvmsg(far, odd.at(), 0) }), Ok(1));
    let got = control.get();
    same!(got.header.cmsg_type, libc::SCM_RIGHTS);
    holds!(got.fd >= 0);
    echo(client, got.fd)
}

fn handlers() -> Outcome {
    count_signal(libc::SIGUSR1, libc::SA_RESTART)?;
    // SAFETY: zeros are an action of nothing.
    let mut old = Odd::<libc::sigaction>::new(unsafe { std::mem::zeroed() });
    // SAFETY: room for an action, or one, here and below.
    done(unsafe { libc::sigaction(libc::SIGUSR1, std::ptr::null(), old.at()) })?;
    let first = old.get().sa_sigaction;
    holds!(![libc::SIG_DFL, libc::SIG_IGN].contains(&first));
    same!(old.get().sa_flags & libc::SA_RESTART, libc::SA_RESTART);
    let mut new = old;
    // SAFETY: zeros are an action of nothing.
    let mut old = Odd::<libc::sigaction>::new(unsafe { std::mem::zeroed() });
    // SAFETY: as above.
    done(unsafe { libc::sigaction(libc::SIGUSR1, new.at(), old.at()) })?;
    same!(old.get().sa_sigaction, first);
    // SAFETY: takes a number only; the handler counts.
    same!(unsafe { libc::raise(libc::SIGUSR1) }, 0);
    Ok(())
}
