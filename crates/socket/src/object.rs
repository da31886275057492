// SPDX-License-Identifier: Apache-2.0
//! What an open description can be.

use std::os::fd::RawFd;

use crate::datagram::Datagram;
use crate::epoll::Epoll;
use crate::listener::Listener;
use crate::lost::Lost;
use crate::pending::Pending;
use crate::ready::{Events, Pollable};
use crate::stream::Stream;
use crate::table::Description;

/// What an open description is.
pub enum Object {
    /// A TCP or UDP socket for which nothing is decided yet; the kernel serves it.
    Pending(Pending),
    /// An accelerated connection.
    Stream(Stream),
    /// A listening TCP socket.
    Listener(Listener),
    /// A connection whose channel this process cannot have.
    Lost(Lost),
    /// A UDP socket with an address.
    Datagram(Datagram),
    /// An epoll set.
    Epoll(Epoll),
    /// What a test says.
    #[cfg(test)]
    Fake(std::sync::Arc<dyn Pollable + Send + Sync>),
}

impl Object {
    /// The accelerated connection, if it is one.
    #[inline]
    pub fn stream(&self) -> Option<&Stream> {
        match self {
            Object::Stream(stream) => Some(stream),
            _ => None,
        }
    }

    /// Whether it is a connection that waits in vain for its peer, or for room if the program wants that, and goes back to the
    /// kernel with the next call; or a set with such a connection.
    #[inline]
    pub fn is_overdue(&self, want: Events) -> bool {
        match self {
            Object::Stream(stream) => stream.is_overdue() || stream.waits_for_room(want),
            Object::Epoll(epoll) => !epoll.overdue().is_empty(),
            _ => false,
        }
    }

    /// Gives what is overdue back to the kernel. No lock of a set is held.
    #[cold]
    pub fn fall_back(&self, fd: RawFd, description: &Description) {
        match self {
            Object::Stream(stream) => stream.fall_back(fd, description),
            Object::Epoll(epoll) => {
                for (fd, description) in epoll.overdue() {
                    description.object().fall_back(fd, &description);
                }
            }
            _ => {}
        }
    }

    /// User-level readiness; None: only the kernel knows.
    #[inline]
    pub fn pollable(&self) -> Option<&dyn Pollable> {
        match self {
            Object::Stream(stream) if stream.is_kernel() => None,
            Object::Stream(stream) => Some(stream),
            Object::Datagram(datagram) => datagram.pollable(),
            Object::Epoll(epoll) => Some(epoll),
            #[cfg(test)]
            Object::Fake(fake) => Some(&**fake),
            Object::Pending(_) | Object::Listener(_) | Object::Lost(_) => None,
        }
    }
}
