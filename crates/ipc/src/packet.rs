// SPDX-License-Identifier: Apache-2.0
//! Packets with descriptors over a Unix SOCK_SEQPACKET socket.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

use crate::protocol::MAX_FDS;

/// Sends one packet.
///
/// # Errors
/// As sendmsg(2).
pub fn send(
    socket: impl AsFd,
    packet: &[u8],
    fds: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::MSGSIZE);
    }
    loop {
        match rustix::net::sendmsg(
            socket.as_fd(),
            &[IoSlice::new(packet)],
            &mut ancillary,
            flags | SendFlags::NOSIGNAL,
        ) {
            Err(Errno::INTR) => {}
            other => return other.map(|_| ()),
        }
    }
}

/// Receives one packet into `buffer`: its length (0: the other side is gone) and its descriptors.
///
/// # Errors
/// As recvmsg(2); MSGSIZE if the packet is longer than the buffer, MFILE if descriptors could not be received.
pub fn receive(
    socket: impl AsFd,
    buffer: &mut [u8],
    flags: RecvFlags,
) -> Result<(usize, Vec<OwnedFd>), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let message = loop {
        match rustix::net::recvmsg(
            socket.as_fd(),
            &mut [IoSliceMut::new(buffer)],
            &mut ancillary,
            flags | RecvFlags::CMSG_CLOEXEC,
        ) {
            Err(Errno::INTR) => {}
            other => break other?,
        }
    };
    let fds = ancillary
        .drain()
        .filter_map(|message| {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                Some(fds)
            } else {
                None
            }
        })
        .flatten()
        .collect();
    if message.flags.contains(ReturnFlags::TRUNC) {
        return Err(Errno::MSGSIZE);
    }
    if message.flags.contains(ReturnFlags::CTRUNC) {
        return Err(Errno::MFILE);
    }
    Ok((message.bytes, fds))
}
