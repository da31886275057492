// SPDX-License-Identifier: Apache-2.0
//! Accelerated connections without a daemon: both ends in this process, on a real pair of TCP sockets.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use ipc::protocol::Fallback;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use rustix::io::Errno;
use shm::channel::{Channel, End, armed, flags};
use socket::epoll::SignalMask;
use socket::object::Object;
use socket::ready::{Events, Pollable};
use socket::stream::{Stream, option};
use socket::table::{self, Ref};

/// One end: the twin, and the description that its number has in the table.
struct Side {
    twin: TcpStream,
    description: Ref,
}

impl Side {
    fn new(channel: &Arc<Channel>, half: usize, twin: TcpStream) -> Self {
        let end = End::new(channel.clone(), half);
        end.flags()
            .fetch_or(flags::ATTACHED, std::sync::atomic::Ordering::AcqRel);
        end.own()
            .armed
            .store(0, std::sync::atomic::Ordering::SeqCst);
        let stream = Stream::new(end, 0, 0, true, None);
        let (description, _) = table::install(twin.as_raw_fd(), Object::Stream(stream));
        Self {
            twin,
            description: description.unwrap(),
        }
    }

    fn fd(&self) -> RawFd {
        self.twin.as_raw_fd()
    }

    fn stream(&self) -> &Stream {
        self.description.object().stream().unwrap()
    }

    fn send(&self, bytes: &[u8], how: i32) -> Result<usize, Errno> {
        // In odd pieces: the gathering is part of what is tested.
        let (first, rest) = bytes.split_at(bytes.len() / 3);
        let part = |bytes: &[u8]| libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let parts = [part(first), part(&[]), part(rest)];
        // SAFETY: the parts are readable.
        unsafe {
            self.stream().send(
                self.fd(),
                &self.description,
                &parts,
                how | libc::MSG_NOSIGNAL,
            )
        }
    }

    fn receive(&self, room: usize, how: i32) -> Result<Vec<u8>, Errno> {
        let mut first = vec![0_u8; room / 2];
        let mut second = vec![0_u8; room - room / 2];
        let part = |bytes: &mut [u8]| libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        let parts = [part(&mut first), part(&mut second)];
        // SAFETY: the parts are writable.
        let count = unsafe {
            self.stream()
                .receive(self.fd(), &self.description, &parts, how)
        }?;
        first.append(&mut second);
        first.truncate(count);
        Ok(first)
    }

    fn close(self) {
        let removed = table::remove(self.fd()).unwrap();
        assert!(removed.last);
        self.stream().close(self.fd());
    }
}

fn pair(lines: u32) -> (Side, Side) {
    let (client, server, _) = pair_with_channel(lines);
    (client, server)
}

fn pair_with_channel(lines: u32) -> (Side, Side, Arc<Channel>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let server = listener.accept().unwrap().0;
    let channel = Arc::new(Channel::create(lines).unwrap().0);
    (
        Side::new(&channel, 0, client),
        Side::new(&channel, 1, server),
        channel,
    )
}

const NOW: i32 = libc::MSG_DONTWAIT;

#[test]
fn bytes_come_in_order_whatever_the_pieces() {
    let seed = rand::rng().random();
    println!("seed {seed}");
    let mut numbers = StdRng::seed_from_u64(seed);
    let (a, b) = pair(256);
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    for _ in 0..3_000 {
        if numbers.random() {
            let message: Vec<u8> = (0..numbers.random_range(1..5_000))
                .map(|_| numbers.random())
                .collect();
            match a.send(&message, NOW) {
                Ok(count) => sent.extend_from_slice(&message[..count]),
                Err(error) => assert_eq!(error, Errno::AGAIN),
            }
        } else {
            let room = numbers.random_range(1..9_000);
            let queued = b.stream().queued_bytes();
            assert_eq!(queued, sent.len() - received.len());
            let look = b.receive(room, NOW | libc::MSG_PEEK);
            let taken = b.receive(room, NOW);
            assert_eq!(look, taken);
            match taken {
                Ok(bytes) => {
                    assert_eq!(bytes.len(), room.min(queued));
                    received.extend_from_slice(&bytes);
                }
                Err(error) => assert_eq!((error, queued), (Errno::AGAIN, 0)),
            }
        }
        assert!(sent.starts_with(&received));
    }
    assert!(!received.is_empty());
}

#[test]
fn threads_move_more_than_fits_and_sleep_between() {
    let (a, b) = pair(64);
    let size = 300_000_usize;
    let content: Vec<u8> = (0..size).map(|index| (index * 7 % 251) as u8).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (number, piece) in content.chunks(30_000).enumerate() {
                assert_eq!(a.send(piece, 0), Ok(piece.len()));
                if number % 4 == 0 {
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        });
        let mut received = Vec::new();
        while received.len() < size {
            received.extend(b.receive(10_000, 0).unwrap());
        }
        assert!(received == content);
    });
}

#[test]
fn an_end_after_the_last_bytes() {
    let (a, b) = pair(64);
    a.send(b"last", 0).unwrap();
    assert_eq!(a.stream().shutdown(a.fd(), false, true), Ok(()));
    assert_eq!(a.send(b"x", 0), Err(Errno::PIPE));
    assert_eq!(b.stream().ready(), Events::IN | Events::OUT | Events::RDHUP);
    assert_eq!(b.receive(10, 0).unwrap(), b"last");
    assert_eq!(b.receive(10, 0).unwrap(), b"");
    // The other direction goes on.
    b.send(b"still", 0).unwrap();
    assert_eq!(a.receive(10, 0).unwrap(), b"still");
    assert_eq!(b.stream().shutdown(b.fd(), false, true), Ok(()));
    for end in [&a, &b] {
        let again = end.stream().shutdown(end.fd(), false, true);
        assert_eq!(again, Err(Errno::NOTCONN));
    }
}

#[test]
fn close_with_unread_bytes_resets() {
    let (a, b) = pair(64);
    a.send(b"unread", 0).unwrap();
    b.send(b"read", 0).unwrap();
    b.close();
    assert!(a.stream().ready().has(Events::ERR));
    assert_eq!(a.receive(10, 0).unwrap(), b"read");
    assert_eq!(a.receive(10, 0), Err(Errno::CONNRESET));
    assert_eq!(a.receive(10, 0).unwrap(), b"");
    assert_eq!(a.send(b"x", 0), Err(Errno::PIPE));
}

#[test]
fn the_first_write_after_a_close_is_taken() {
    let (a, b) = pair(64);
    b.close();
    assert_eq!(a.receive(10, 0).unwrap(), b"");
    assert_eq!(a.send(b"lost", 0), Ok(4));
    assert_eq!(a.send(b"x", 0), Err(Errno::PIPE));
}

#[test]
fn lingering_not_at_all_resets() {
    let (a, b) = pair(64);
    b.stream().set_option(option::RESET, true);
    b.close();
    assert_eq!(a.receive(10, 0), Err(Errno::CONNRESET));
}

#[test]
fn a_twin_that_ends_without_a_word_was_killed() {
    let (a, b) = pair(64);
    a.send(b"never read", 0).unwrap();
    kill(b);
    assert_eq!(a.receive(10, 0), Err(Errno::CONNRESET));

    let (a, b) = pair(64);
    b.send(b"said", 0).unwrap();
    kill(b);
    assert_eq!(a.receive(10, 0).unwrap(), b"said");
    assert_eq!(a.receive(10, 0).unwrap(), b"");
}

/// As a process does that is killed.
fn kill(side: Side) {
    table::remove(side.fd());
    drop(side.twin);
}

#[test]
fn an_end_that_was_said_is_no_reset_whatever_was_not_read() {
    let (a, b) = pair(64);
    a.send(b"never read", 0).unwrap();
    b.stream().shutdown(b.fd(), false, true).unwrap();
    kill(b);
    // As whoever waits does, who has heard it of the kernel.
    a.stream().woken(a.fd(), Events::IN | Events::RDHUP);
    assert_eq!(a.stream().ready(), Events::IN | Events::OUT | Events::RDHUP);
    assert_eq!(a.stream().take_error(), None);
    assert_eq!(a.receive(10, 0).unwrap(), b"");
    assert_eq!(a.send(b"lost", 0), Ok(4));
    assert_eq!(a.send(b"x", 0), Err(Errno::PIPE));
}

#[test]
fn a_writer_notices_the_death_of_a_peer_that_reads_nothing() {
    let (a, b) = pair(64);
    kill(b);
    // It never sleeps: before the ring is full, only its own look at the twin can tell it. The peer had read all, so its end is
    // none of a reset: as with the kernel, the first write after it is lost, and the next one is told.
    let told = (0..32).find_map(|_| {
        std::thread::sleep(Duration::from_millis(2));
        a.send(b"x", NOW).err()
    });
    assert_eq!(told, Some(Errno::PIPE));
}

#[test]
fn the_twin_that_an_end_has_shut_itself_says_nothing_of_the_peer() {
    let (a, b) = pair(64);
    // Somebody of this side waits for room, whom only the twin can wake.
    a.stream().arm(Events::IN | Events::OUT);
    a.stream().shutdown(a.fd(), false, true).unwrap();
    let mut twin = [rustix::event::PollFd::new(
        &a.twin,
        rustix::event::PollFlags::RDHUP,
    )];
    let limit = rustix::time::Timespec {
        tv_sec: 10,
        tv_nsec: 0,
    };
    assert_eq!(rustix::event::poll(&mut twin, Some(&limit)), Ok(1));
    a.stream().woken(a.fd(), Events::IN | Events::RDHUP);
    assert!(!a.stream().ready().has(Events::IN | Events::RDHUP));
    b.send(b"still", 0).unwrap();
    assert_eq!(a.receive(10, NOW).unwrap(), b"still");
    assert_eq!(a.receive(10, NOW), Err(Errno::AGAIN));
}

#[test]
fn a_poll_that_does_not_wait_notices_the_death_of_a_peer() {
    let (a, b) = pair(64);
    let poll = || {
        let mut entry = libc::pollfd {
            fd: a.fd(),
            events: libc::POLLIN | libc::POLLRDHUP,
            revents: 0,
        };
        // SAFETY: there is one entry.
        let found = unsafe {
            socket::poll::poll(&raw mut entry, 1, Some(Duration::ZERO), SignalMask::NONE)
        };
        (found, entry.revents)
    };
    assert_eq!(poll(), (Some(Ok(0)), 0));
    kill(b);
    let ended = libc::POLLIN | libc::POLLRDHUP;
    assert_eq!(poll(), (Some(Ok(1)), ended));
    assert_eq!(a.receive(10, NOW).unwrap(), b"");
}

#[test]
fn a_revoked_channel_is_a_reset_connection() {
    let (a, b) = pair(64);
    b.stream()
        .end()
        .flags()
        .fetch_or(flags::REVOKED, std::sync::atomic::Ordering::AcqRel);
    assert_eq!(a.receive(10, 0), Err(Errno::CONNRESET));
    assert_eq!(a.send(b"x", 0), Err(Errno::CONNRESET));
    assert_eq!(b.receive(10, 0), Err(Errno::CONNRESET));
}

/// Between machines each has a copy of the flags, and only what an end says of itself reaches the other one.
#[test]
fn an_end_that_was_broken_off_says_no_end_in_order_when_it_is_closed() {
    for shut in [false, true] {
        let (a, b, channel) = pair_with_channel(64);
        let own = channel.flags(1);
        own.fetch_or(flags::REVOKED, std::sync::atomic::Ordering::AcqRel);
        assert_eq!(b.receive(10, 0), Err(Errno::CONNRESET));
        if shut {
            let _ = b.stream().shutdown(b.fd(), false, true);
        }
        b.close();
        let said = own.fetch_and(!flags::REVOKED, std::sync::atomic::Ordering::AcqRel);
        let ends = flags::FIN | flags::RESET | flags::CLOSED;
        assert_eq!(said & ends, flags::RESET | flags::CLOSED, "shut: {shut}");
        assert_eq!(a.receive(10, 0), Err(Errno::CONNRESET), "shut: {shut}");
    }
}

#[test]
fn what_no_sender_writes_is_a_reset_and_no_input() {
    for (kind, bytes) in [(7, &b"x"[..]), (0, b"")] {
        for ended in [false, true] {
            for how in [0, libc::MSG_PEEK] {
                let (client, server, channel) = pair_with_channel(64);
                client.send(b"before", 0).unwrap();
                let hostile = End::new(channel, 0);
                hostile.sender().try_send(kind, &[bytes]).unwrap();
                if ended {
                    let said = flags::FIN | flags::CLOSED;
                    let flags = hostile.flags();
                    flags.fetch_or(said, std::sync::atomic::Ordering::AcqRel);
                }
                assert_eq!(server.receive(6, NOW).unwrap(), b"before");
                let mut told = server.receive(100, how | NOW);
                if told == Err(Errno::AGAIN) {
                    // A message of no bytes was stepped over.
                    assert!(
                        bytes.is_empty() && how == 0 && !ended,
                        "{kind} {ended} {how}"
                    );
                    assert!(!server.stream().ready().has(Events::IN));
                    continue;
                }
                if told == Err(Errno::CONNRESET) {
                    told = Ok(Vec::new());
                }
                assert_eq!(told, Ok(Vec::new()), "{kind} {ended} {how}");
                assert_eq!(server.receive(100, NOW), Ok(Vec::new()));
            }
        }
    }
}

#[test]
fn time_limits_end_waits() {
    let (a, _b) = pair(64);
    a.stream()
        .set_timeout(false, Some(Duration::from_millis(5)));
    assert_eq!(a.receive(10, 0), Err(Errno::AGAIN));
    a.stream().set_timeout(true, Some(Duration::from_millis(5)));
    let count = a.send(&[0; 100_000], 0).unwrap();
    assert!(count < 64 * 64);
    assert_eq!(a.send(b"x".repeat(4_000).as_slice(), 0), Err(Errno::AGAIN));
}

#[test]
fn room_is_an_edge_only_for_a_writer_that_found_none() {
    let (a, b) = pair(64);
    let before = a.stream().edges().1;
    a.send(b"little", 0).unwrap();
    b.receive(10, 0).unwrap();
    assert_eq!(a.stream().edges().1, before);
    while a.send(&[0; 500], NOW).is_ok() {}
    assert!(!a.stream().ready().has(Events::OUT));
    assert_eq!(a.stream().edges().1, before);
    while b.receive(1_000, NOW).is_ok() {}
    assert!(a.stream().ready().has(Events::OUT));
    assert_eq!(a.stream().edges().1, before + 1);
    assert_eq!(a.stream().edges().1, before + 1);
}

#[test]
fn a_retirement_in_whose_middle_a_process_died_is_ended_by_the_next() {
    for first in [0, 1] {
        let (a, b) = pair(64);
        let mut before = 0;
        while let Ok(count) = a.send(&[7; 1000], NOW) {
            before += count;
        }
        // A process that shares this end sleeps until there is room; another has died when it had set the flag, and no more.
        let end = a.stream().end();
        end.own()
            .armed
            .store(armed::SPACE, std::sync::atomic::Ordering::SeqCst);
        end.flags()
            .fetch_or(flags::RETIRED, std::sync::atomic::Ordering::AcqRel);
        if first == 0 {
            assert!(a.stream().retire(a.fd(), &a.description, Fallback::Exec));
        }
        while before > 0 {
            before -= b.receive(before, NOW).unwrap().len();
        }
        if first == 1 {
            assert!(a.stream().retire(a.fd(), &a.description, Fallback::Exec));
        }
        // Nothing but what is sent comes by the kernel from now on.
        let by_kernel = b.send(b"after", NOW);
        if by_kernel.is_err() {
            (&b.twin).write_all(b"after").unwrap();
        }
        let mut got = [0; 100];
        a.twin
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let count = (&a.twin).read(&mut got).unwrap();
        assert_eq!(&got[..count], b"after", "first {first}");
    }
}

#[test]
fn an_end_that_is_shut_for_both_stays_deaf_when_either_retires() {
    for retires in ["speaker", "deaf"] {
        let (a, b) = pair(64);
        b.stream().shutdown(b.fd(), true, true).unwrap();
        let leaves = if retires == "deaf" { &b } else { &a };
        assert!(
            leaves
                .stream()
                .retire(leaves.fd(), &leaves.description, Fallback::Exec)
        );
        let told = (0..500).find_map(|_| {
            std::thread::sleep(Duration::from_millis(2));
            match a.stream().is_kernel() {
                true => (&a.twin)
                    .write_all(&[0; 10_000])
                    .err()
                    .map(|error| error.kind()),
                false => a.send(b"x", NOW).err().map(|error| error.kind()),
            }
        });
        assert_eq!(told, Some(std::io::ErrorKind::BrokenPipe), "{retires}");
    }
}

#[test]
fn a_writer_without_room_is_told_at_an_edge_that_its_peer_has_become_deaf() {
    let (a, b) = pair(64);
    while a.send(&[0; 500], NOW).is_ok() {}
    b.stream().shutdown(b.fd(), false, true).unwrap();
    let before = a.stream().edges().1;
    assert!(!a.stream().ready().has(Events::OUT));
    b.stream().shutdown(b.fd(), true, false).unwrap();
    assert!(a.stream().ready().has(Events::OUT));
    assert_eq!(a.stream().edges().1, before + 1);
    assert_eq!(a.send(b"x", 0), Ok(1));
    assert_eq!(a.send(b"x", 0), Err(Errno::PIPE));
    // The reset is one more.
    assert_eq!(a.stream().edges().1, before + 2);
}

#[test]
fn a_peer_that_has_left_its_rings_is_neither_input_nor_room_of_itself() {
    let (a, b) = pair(64);
    assert!(a.stream().retire(a.fd(), &a.description, Fallback::Exec));
    // Before the next call goes over, and when it has.
    assert_eq!(b.stream().ready(), Events::KERNEL);
    assert_eq!(b.receive(8, NOW), Err(Errno::AGAIN));
    assert!(b.stream().is_kernel());
    assert_eq!(b.stream().ready(), Events::KERNEL);
}
