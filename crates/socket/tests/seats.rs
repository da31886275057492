// SPDX-License-Identifier: Apache-2.0
//! A connection whose ends do not come to their channel together: whichever comes first, both go the same way, and what
//! one has sent is what the other one reads, whether it came through the ring or through the kernel.
//!
//! No daemon and no races: each interleaving is made here, step by step.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use ipc::protocol::Reply;
use rustix::io::Errno;
use rustix::net::sockopt;
use shm::channel::{Channel, End};
use socket::attach::attach;
use socket::object::Object;
use socket::ready::{Events, Pollable};
use socket::stream::Stream;
use socket::table::{self, Ref};

/// Lines of a ring that holds more than the kernel's buffers do.
const MANY: u32 = 1 << 17;
const CLIENT: usize = 0;
const SERVER: usize = 1;

/// A connection of the kernel's and a channel to which nobody has come.
struct Connection {
    client: TcpStream,
    server: TcpStream,
    memory: OwnedFd,
}

impl Connection {
    fn new(lines: u32) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = listener.accept().unwrap().0;
        let memory = Channel::create(lines).unwrap().1;
        Self {
            client,
            server,
            memory,
        }
    }

    /// As a process does that has got the channel from its daemon.
    fn attach(&self, half: usize) -> Option<Side> {
        let fd = match half {
            CLIENT => self.client.as_raw_fd(),
            _ => self.server.as_raw_fd(),
        };
        let reply = (
            Reply::Channel { channel: 1 },
            vec![self.memory.try_clone().unwrap()],
        );
        attach(fd, reply, half, 0, true).map(|stream| Side::new(fd, stream))
    }

    /// The same end in another process that shares it: it has a phase of its own.
    fn sharer(&self, half: usize, fd: RawFd) -> Side {
        let channel = Channel::map(self.memory.as_fd()).unwrap();
        let end = End::new(Arc::new(channel), half);
        Side::new(fd, Stream::new(end, 1, 0, true, None))
    }
}

struct Side {
    fd: RawFd,
    description: Ref,
}

impl Side {
    fn new(fd: RawFd, stream: Stream) -> Self {
        let (description, _) = table::install(fd, Object::Stream(stream));
        let description = description.unwrap();
        // What hangs fails.
        let side = Self { fd, description };
        side.stream()
            .set_timeout(false, Some(Duration::from_secs(10)));
        side
    }

    fn stream(&self) -> &Stream {
        self.description.object().stream().unwrap()
    }

    fn send(&self, bytes: &[u8], how: i32) -> Result<usize, Errno> {
        let part = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let how = how | libc::MSG_NOSIGNAL;
        // SAFETY: the part is readable.
        unsafe { self.stream().send(self.fd, &self.description, &[part], how) }
    }

    fn receive(&self, how: i32) -> Result<Vec<u8>, Errno> {
        let mut room = vec![0_u8; 100];
        let part = libc::iovec {
            iov_base: room.as_mut_ptr().cast(),
            iov_len: room.len(),
        };
        // SAFETY: the part is writable.
        let count = unsafe {
            self.stream()
                .receive(self.fd, &self.description, &[part], how)
        }?;
        room.truncate(count);
        Ok(room)
    }

    fn close(&self) {
        assert!(table::remove(self.fd).unwrap().last);
        self.stream().close(self.fd);
    }
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|index| (index * 7 % 251) as u8 | 1)
        .collect()
}

/// The acceptor attaches while the client's close sends through the kernel what lay in
/// the ring. The acceptor uses the kernel then, and must find nothing there that the client has not sent.
#[test]
fn an_acceptor_that_comes_during_the_close_reads_what_was_sent() {
    let connection = Connection::new(MANY);
    sockopt::set_socket_recv_buffer_size(&connection.server, 1 << 16).unwrap();
    let client = connection.attach(CLIENT).unwrap();
    let content = pattern(6 << 20);
    let sent = client.send(&content, libc::MSG_DONTWAIT).unwrap();
    assert!(sent > 5 << 20, "{sent} bytes fit into the ring");
    std::thread::scope(|scope| {
        let closing = scope.spawn(|| client.close());
        let mut server = &connection.server;
        let mut got = vec![0; 1];
        // The first byte is here: the client has gone over, and waits for the kernel to take the rest.
        server.read_exact(&mut got).unwrap();
        assert!(!closing.is_finished());
        let attached = connection.attach(SERVER);
        assert!(attached.is_none(), "the client has gone over to the kernel");
        let mut room = vec![0; 1 << 16];
        while got.len() < sent {
            let count = server.read(&mut room).unwrap();
            got.extend(&room[..count]);
        }
        closing.join().unwrap();
        // The client's process would close the twin now.
        connection
            .client
            .shutdown(std::net::Shutdown::Write)
            .unwrap();
        server.read_to_end(&mut got).unwrap();
        assert_eq!(got.len(), sent, "other bytes than were sent");
        assert!(got == content[..sent]);
    });
}

/// A process that shares the client's end takes what the acceptor sends through the kernel for data, never for bells.
#[test]
fn a_sharer_of_an_end_that_has_gone_over_reads_the_kernels_bytes() {
    let connection = Connection::new(256);
    let client = connection.attach(CLIENT).unwrap();
    client.send(b"question", 0).unwrap();
    // What tells the client that its acceptor uses the kernel.
    (&connection.server).write_all(b"answer").unwrap();
    let twin = connection.client.try_clone().unwrap();
    let other = connection.sharer(CLIENT, twin.as_raw_fd());
    assert_eq!(client.receive(0).unwrap(), b"answer");
    assert!(client.stream().is_kernel());
    // The acceptor asks for the channel only now.
    assert!(connection.attach(SERVER).is_none());
    let mut question = [0; 8];
    (&connection.server).read_exact(&mut question).unwrap();
    assert_eq!(&question, b"question");
    (&connection.server).write_all(b"more").unwrap();
    assert_eq!(other.receive(0).unwrap(), b"more");
    assert_eq!(other.send(b"thanks", 0), Ok(6));
    let mut thanks = [0; 6];
    (&connection.server).read_exact(&mut thanks).unwrap();
    assert_eq!(&thanks, b"thanks");
}

/// Nothing was sent, so nothing is to be saved; but the channel of a connection that is over is nobody's any more.
#[test]
fn an_acceptor_does_not_get_the_channel_of_a_client_that_has_closed() {
    let connection = Connection::new(256);
    connection.attach(CLIENT).unwrap().close();
    assert!(connection.attach(SERVER).is_none());
}

/// The acceptor was quicker than the client, which could not map the channel, say, and uses the kernel.
#[test]
fn an_acceptor_whose_client_uses_the_kernel_goes_over() {
    let connection = Connection::new(256);
    let server = connection.attach(SERVER).unwrap();
    server.send(b"welcome", 0).unwrap();
    (&connection.client).write_all(b"hello").unwrap();
    assert_eq!(server.receive(0).unwrap(), b"hello");
    let mut welcome = [0; 7];
    (&connection.client).read_exact(&mut welcome).unwrap();
    assert_eq!(&welcome, b"welcome");
    assert!(connection.attach(CLIENT).is_none());
}

/// The acceptor was quicker than the client, which was killed before it came to the channel.
#[test]
fn an_acceptor_whose_client_never_came_is_told_of_its_end() {
    let connection = Connection::new(256);
    let server = connection.attach(SERVER).unwrap();
    assert!(!server.stream().ready().has(Events::IN));
    connection
        .client
        .shutdown(std::net::Shutdown::Both)
        .unwrap();
    assert_eq!(server.receive(0).unwrap(), b"");
}

/// The acceptor answers and closes before the client has come to the channel.
#[test]
fn a_client_that_comes_after_the_acceptors_close_reads_what_was_sent() {
    let connection = Connection::new(256);
    let server = connection.attach(SERVER).unwrap();
    server.send(b"full", 0).unwrap();
    server.close();
    assert!(connection.attach(CLIENT).is_none());
    connection
        .server
        .shutdown(std::net::Shutdown::Write)
        .unwrap();
    let mut got = Vec::new();
    (&connection.client).read_to_end(&mut got).unwrap();
    assert_eq!(got, b"full");
}

/// Whoever waits for an answer and has shut its own direction gets it, also where the acceptor has no library.
#[test]
fn a_shut_direction_ends_no_other_when_the_connection_goes_over() {
    let connection = Connection::new(256);
    let client = connection.attach(CLIENT).unwrap();
    client.send(b"question", 0).unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| client.receive(0));
        // It has spun, and sleeps now.
        while client
            .stream()
            .end()
            .own()
            .armed
            .load(std::sync::atomic::Ordering::Acquire)
            == 0
        {
            std::thread::yield_now();
        }
        client.stream().shutdown(client.fd, false, true).unwrap();
        let mut question = Vec::new();
        // Ends as soon as the client has gone over.
        (&connection.server).read_to_end(&mut question).unwrap();
        assert_eq!(question, b"question");
        (&connection.server).write_all(b"answer").unwrap();
        assert_eq!(reader.join().unwrap().unwrap(), b"answer");
    });
}

/// Whoever is killed while it sends through the kernel what lay in the ring has sent nobody knows what: the others that
/// share the connection do not go on in the middle, and the peer does not take a part for the whole.
#[test]
fn a_death_in_the_middle_of_going_over_is_a_reset() {
    let middle = (0..20).any(|_| dies_in_the_middle_of_going_over());
    assert!(middle, "it never died in the middle");
}

/// Whether it did. Else the kernel had taken everything, and the peer gets that whole.
fn dies_in_the_middle_of_going_over() -> bool {
    let connection = Connection::new(MANY);
    sockopt::set_socket_recv_buffer_size(&connection.server, 1 << 16).unwrap();
    let client = connection.attach(CLIENT).unwrap();
    let all = pattern(4 << 20);
    let sent = client.send(&all, libc::MSG_DONTWAIT).unwrap();
    // SAFETY: the child does nothing but close its connection, which needs no lock of another thread.
    let child = unsafe { libc::fork() };
    if child == 0 {
        shm::channel::forked();
        // It waits for the kernel to take everything, which nobody reads.
        client.close();
        // SAFETY: ends the child.
        unsafe { libc::_exit(1) };
    }
    let mut first = [0; 1];
    (&connection.server).read_exact(&mut first).unwrap();
    // SAFETY: the child is ours and was not waited for.
    unsafe { libc::kill(child, libc::SIGKILL) };
    let mut status = 0;
    // SAFETY: as above.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert!(status == libc::SIGKILL || status == 1 << 8, "{status:#x}");
    // The parent counted for nothing in this end's users: it is another sharer now.
    let twin = connection.client.try_clone().unwrap();
    let other = connection.sharer(CLIENT, twin.as_raw_fd());
    match other.send(b"more", 0) {
        Ok(4) => {
            let mut rest = vec![0; sent - 1 + 4];
            (&connection.server).read_exact(&mut rest).unwrap();
            assert_eq!(rest, [&all[1..sent], b"more"].concat());
            false
        }
        other => {
            assert_eq!(other, Err(Errno::CONNRESET));
            let end = (&connection.server).read_to_end(&mut Vec::new());
            assert_eq!(end.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
            true
        }
    }
}
