// SPDX-License-Identifier: Apache-2.0
//! Which socket of this process has which address: the daemon's notices name addresses, not sockets.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ipc::client::Client;
use ipc::protocol::Notice;
use shm::channel::{self, flags};

use crate::attach;
use crate::latch::Latch;
use crate::object::Object;
use crate::process;
use crate::stream::Far;
use crate::table::Ref;

struct Entry {
    address: SocketAddr,
    description: Ref,
}

static ENTRIES: Latch<Vec<Entry>> = Latch::new(Vec::new());
/// One thread at a time takes notices: their order matters.
static HEARING: Latch<()> = Latch::new(());

/// Enters a socket.
pub(super) fn enter(address: SocketAddr, description: Ref) {
    let id = description.id();
    let mut entries = ENTRIES.lock();
    entries.retain(|entry| entry.description.id() != id);
    entries.push(Entry {
        address,
        description,
    });
}

/// Takes a socket out.
pub(super) fn leave(id: u64) {
    let mut entries = ENTRIES.lock();
    let place = entries
        .iter()
        .position(|entry| entry.description.id() == id);
    let entry = place.map(|place| entries.swap_remove(place));
    drop(entries);
    drop(entry);
}

/// Whether another socket of this process has the same address.
pub(super) fn is_taken(address: SocketAddr) -> bool {
    ENTRIES.lock().iter().any(|entry| entry.address == address)
}

/// The socket that receives what is sent to `to`: the one with that very address, else one with a wildcard.
fn find(to: SocketAddr) -> Option<Ref> {
    let entries = ENTRIES.lock();
    let exact = entries.iter().find(|entry| entry.address == to);
    let any = || {
        entries
            .iter()
            .find(|entry| entry.address.port() == to.port() && entry.address.ip().is_unspecified())
    };
    exact.or_else(any).map(|entry| entry.description.clone())
}

/// Takes all notices that wait.
#[cold]
pub(super) fn hear(client: &Client) {
    let _one = HEARING.lock();
    while client.has_notices() {
        match client.next_notice() {
            Ok(Some((notice, fds))) => take(notice, fds),
            _ => return,
        }
    }
}

fn take(notice: Notice, mut fds: Vec<OwnedFd>) {
    match notice {
        Notice::Datagrams { channel, from, to } => {
            if let Some(memory) = fds.pop()
                && let Ok(end) = channel::attach(memory.as_fd(), 1)
            {
                receive(channel, (from, to), (end, None));
            }
        }
        Notice::FarDatagrams { channel, from, to } => {
            // One that this process does not come to is left to the kernel, as the daemon sees by its tether.
            if process::has_room_apart()
                && let Some((end, Some(far))) = attach::map(fds, 1)
            {
                let far = Arc::new(far);
                end.flags().fetch_or(flags::ATTACHED, Ordering::Release);
                receive(channel, (from, to), (end, Some(Arc::clone(&far))));
                far.call();
            }
        }
        Notice::Revoked {
            channel: Some(channel),
            ..
        } => {
            let all: Vec<Ref> = ENTRIES
                .lock()
                .iter()
                .map(|entry| entry.description.clone())
                .collect();
            for description in all {
                if let Object::Datagram(datagram) = description.object() {
                    datagram.incoming.lock().end(channel);
                }
            }
        }
        _ => {}
    }
}

/// Somebody sends to a socket of this process.
fn receive(
    channel: u64,
    (from, to): (SocketAddr, SocketAddr),
    end: (channel::End, Option<Arc<Far>>),
) {
    if let Some(description) = find(to)
        && let Object::Datagram(datagram) = description.object()
    {
        let peer = datagram.address.lock().peer;
        datagram.incoming.lock().attach(channel, from, end, peer);
    }
}

/// Before a fork, with no lock held: what was said to the parent the child would never hear.
pub(crate) fn hear_all() {
    let all: Vec<Ref> = ENTRIES
        .lock()
        .iter()
        .map(|entry| entry.description.clone())
        .collect();
    for description in all {
        if let Object::Datagram(datagram) = description.object() {
            datagram.hear();
        }
    }
}

/// Before a fork: nobody is in the middle of a notice.
pub(crate) fn before_fork() {
    HEARING.acquire();
    ENTRIES.acquire();
}

/// After a fork, in both processes.
pub(crate) fn after_fork() {
    ENTRIES.release();
    HEARING.release();
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::datagram::Datagram;
    use crate::table;

    #[test]
    fn an_address_is_taken_while_a_socket_has_it() {
        let [one, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let [address, free] = [&one, &other].map(|socket| socket.local_addr().unwrap());
        let object = Object::Datagram(Datagram::new(libc::AF_INET, false));
        let description = table::install(one.as_raw_fd(), object).0.unwrap();
        let id = description.id();
        assert!(!is_taken(address));
        enter(address, description);
        assert!(is_taken(address));
        assert!(!is_taken(free));
        leave(id);
        assert!(!is_taken(address));
        drop(table::remove(one.as_raw_fd()));
    }
}
