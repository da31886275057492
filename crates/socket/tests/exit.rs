// SPDX-License-Identifier: Apache-2.0
//! The end of a process, which ends all of its connections: so this test is alone in its program.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use ipc::protocol::Reply;
use shm::channel::Channel;
use socket::attach::attach;
use socket::object::Object;
use socket::table;

/// A process that exits without closing has sent what it has sent, whoever accepts.
#[test]
fn an_exit_leaves_what_was_sent_to_the_kernel() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let twin = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut server = listener.accept().unwrap().0;
    let reply = (
        Reply::Channel { channel: 1 },
        vec![Channel::create(256).unwrap().1],
    );
    let fd = twin.as_raw_fd();
    let stream = attach(fd, reply, 0, 0, true).unwrap();
    let (description, _) = table::install(fd, Object::Stream(stream));
    let description = description.unwrap();
    let content = b"last words";
    let part = libc::iovec {
        iov_base: content.as_ptr().cast_mut().cast(),
        iov_len: content.len(),
    };
    let stream = description.object().stream().unwrap();
    // SAFETY: the part is readable.
    let sent = unsafe { stream.send(fd, &description, &[part], 0) };
    assert_eq!(sent, Ok(content.len()));
    socket::fork::leave();
    // As the kernel does with the process's descriptors.
    table::remove(fd);
    drop(twin);
    let mut got = Vec::new();
    server.read_to_end(&mut got).unwrap();
    assert_eq!(got, content);
}
