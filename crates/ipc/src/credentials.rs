// SPDX-License-Identifier: Apache-2.0
//! Who is at the other end of a Unix socket, by the kernel's word: SO_PEERCRED, unix(7).

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;
use rustix::process::{Pid, Uid};

/// The process at the other end when it connected or began to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Its number; none if it is in a PID namespace from which this one can't be seen, as the host is from a container.
    pub pid: Option<Pid>,
    /// Its effective user.
    pub uid: Uid,
}

/// Credentials of the process at the other end of a Unix socket.
///
/// rustix has a function for it that must not be told of process 0.
///
/// # Errors
/// As getsockopt(2).
pub fn of_peer(socket: impl AsFd) -> Result<Credentials, Errno> {
    let mut told = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut length = size_of_val(&told) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `told`, which is that long and valid whatever they are.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut told).cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL));
    }
    Ok(Credentials {
        pid: Pid::from_raw(told.pid),
        uid: Uid::from_raw(told.uid),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_s_own_end_is_one_s_own() {
        let (here, _there) = std::os::unix::net::UnixStream::pair().expect("sockets");
        let own = Credentials {
            pid: Some(rustix::process::getpid()),
            uid: rustix::process::geteuid(),
        };
        assert_eq!(of_peer(&here), Ok(own));
    }

    #[test]
    fn what_is_no_socket_has_no_peer() {
        let file = std::fs::File::open("/dev/null").expect("it is there");
        assert_eq!(of_peer(&file), Err(Errno::NOTSOCK));
    }
}
