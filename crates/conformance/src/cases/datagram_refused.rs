// SPDX-License-Identifier: Apache-2.0
//! UDP: calls of nothing.

use super::datagram::{look, two};
use crate::support::prelude::*;

cases! { "datagram";
    no_buffer Accelerated "no room and no bytes at a null pointer are no mistake, in vectors, too"
}

fn no_buffer() -> Outcome {
    let (left, left_at, right, right_at) = two()?;
    let null = std::ptr::null_mut();
    connect(left, &right_at)?;
    for bytes in [b"lost", b"kept"] {
        send(left, bytes, 0)?;
    }
    look(&left_at, &right_at);
    for flags in [MSG_PEEK, MSG_PEEK | MSG_DONTWAIT, 0] {
        // SAFETY: no bytes at null.
        same!(answer(unsafe { libc::recv(right, null, 0, flags) }), Ok(0));
    }
    let nothing = libc::iovec {
        iov_base: null,
        iov_len: 0,
    };
    let mut room = [0u8; 3];
    let mut parts = [nothing; 3];
    parts[1].iov_base = room.as_mut_ptr().cast();
    parts[1].iov_len = room.len();
    // SAFETY: all zeros is a header of nothing.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = parts.as_mut_ptr();
    header.msg_iovlen = parts.len();
    // SAFETY: the parts are empty, or the room.
    same!(
        answer(unsafe { libc::recvmsg(right, &raw mut header, 0) }),
        Ok(3)
    );
    same!(room, *b"kep");
    header.msg_flags = 0;
    // SAFETY: as above.
    same!(
        answer(unsafe { libc::sendmsg(left, &raw const header, 0) }),
        Ok(3)
    );
    gets!(recv(right, 9, 0), b"kep");
    // SAFETY: no bytes at null.
    same!(answer(unsafe { libc::send(left, null, 0, 0) }), Ok(0));
    // SAFETY: as above.
    same!(answer(unsafe { libc::recv(right, null, 0, 0) }), Ok(0));
    header.msg_iov = std::ptr::null_mut();
    // SAFETY: the kernel checks the address; that is what this is about.
    fails!(
        answer(unsafe { libc::sendmsg(left, &raw const header, 0) }),
        EFAULT
    );
    quiet(right)
}
