// SPDX-License-Identifier: Apache-2.0
//! Makes an accelerated connection of a connected twin and a channel.

use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use host::backend::rack::map_channel;
use ipc::protocol::Reply;
use rustix::net::sockopt;
use shm::channel::{End, flags, seat as rules};

use crate::process;
use crate::stream::{Far, Stream, borrow, option, seat};

/// The stream of a channel that the daemon gave: half 0 is the client's, half 1 the server's.
///
/// `open` says whether the twin is connected already; `intent` is the client's.
pub fn attach(
    fd: RawFd,
    reply: (Reply, Vec<OwnedFd>),
    half: usize,
    intent: u64,
    open: bool,
) -> Option<Stream> {
    let (Reply::Channel { channel } | Reply::FarChannel { channel }, descriptors) = reply else {
        return None;
    };
    let mapped = map(descriptors, half).filter(|(end, _)| seat::take(end.flags()));
    let Some((end, far)) = mapped else {
        // The peer waits no longer and uses the kernel, or will when this end does not come.
        if half == 0 {
            process::withdraw(intent);
        } else {
            process::close(channel);
        }
        return None;
    };
    end.own().pid.store(
        rustix::process::getpid().as_raw_nonzero().get() as u32,
        Ordering::Relaxed,
    );
    // Armed from its birth on; nobody sleeps yet, and whoever will, looks at the ring first.
    end.own().armed.store(0, Ordering::SeqCst);
    let stream = Stream::new(end, channel, intent, open, far);
    stream.call_far();
    inherit(fd, &stream);
    stream.mark(fd);
    stream.note_inode(fd);
    Some(stream)
}

/// What a connection is that this process got from another one.
pub enum Adopted {
    /// One in a channel.
    Stream(Stream),
    /// The kernel serves it since.
    Kernel,
    /// Nothing is known of a channel, or it cannot be had.
    Unknown,
}

/// The stream of a connection that this process got from another one.
pub fn adopt(reply: (Reply, Vec<OwnedFd>)) -> Adopted {
    let (Reply::Adopted { channel, half }, descriptors) = reply else {
        return Adopted::Unknown;
    };
    let Some((end, far)) = map(descriptors, usize::from(half)) else {
        process::close(channel);
        return Adopted::Unknown;
    };
    let reads = |own| rules::may_read(own, 0) && own & flags::DISSOLVED == 0;
    if seat::is_given_up(end.peer_flags())
        || !seat::take(end.flags())
        || !reads(end.flags().load(Ordering::Acquire))
    {
        process::close(channel);
        return Adopted::Kernel;
    }
    // The options and the place in the stream are in the channel already.
    let stream = Stream::new(end, channel, 0, true, far);
    if stream.take_reserved() {
        stream.count_user(false);
    }
    Adopted::Stream(stream)
}

/// Maps a channel; with more descriptors than its memory it is one to another machine.
pub(crate) fn map(descriptors: Vec<OwnedFd>, half: usize) -> Option<(End, Option<Far>)> {
    let mut descriptors = descriptors.into_iter();
    let memory = descriptors.next();
    let mapped = memory.map(map_channel);
    let far = descriptors.next().zip(descriptors.next());
    drop(descriptors);
    process::refill();
    let mapped = Arc::new(mapped?.ok()?);
    let far = far.map(|(bell, tether)| {
        mapped.set_carried();
        Far::new(bell, tether, &mapped, half)
    });
    Some((End::new(mapped, half), far))
}

/// Takes over what the program has set on the socket, and makes the twin a good doorbell.
fn inherit(fd: RawFd, stream: &Stream) {
    let twin = borrow(fd);
    if let Ok(flags) = rustix::fs::fcntl_getfl(twin) {
        stream.set_option(
            option::NONBLOCKING,
            flags.contains(rustix::fs::OFlags::NONBLOCK),
        );
    }
    if let Ok(limit) = sockopt::socket_timeout(twin, sockopt::Timeout::Recv) {
        stream.set_timeout(false, limit);
    }
    if let Ok(limit) = sockopt::socket_timeout(twin, sockopt::Timeout::Send) {
        stream.set_timeout(true, limit);
    }
    if let Ok(Some(time)) = sockopt::socket_linger(twin) {
        stream.set_option(option::RESET, time.is_zero());
    }
    // A doorbell is not to wait for the acknowledgement of the one before.
    let nodelay = sockopt::tcp_nodelay(twin).unwrap_or(false);
    stream.set_option(option::NODELAY, nodelay);
    if !nodelay {
        let _ = sockopt::set_tcp_nodelay(twin, true);
    }
    if sockopt::tcp_cork(twin).unwrap_or(false) {
        stream.set_option(option::CORK, true);
        let _ = sockopt::set_tcp_cork(twin, false);
    }
}
