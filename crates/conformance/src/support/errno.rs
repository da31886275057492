// SPDX-License-Identifier: Apache-2.0
//! Error numbers of calls, shown by name.

use std::fmt;

/// An `errno` value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

/// What a call of the C library gave.
pub type Call<T = usize> = Result<T, Errno>;

impl Errno {
    /// The calling thread's present `errno`.
    pub fn last() -> Errno {
        Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            libc::EPERM => "EPERM",
            libc::ENOENT => "ENOENT",
            libc::EINTR => "EINTR",
            libc::EIO => "EIO",
            libc::EBADF => "EBADF",
            libc::EAGAIN => "EAGAIN",
            libc::ENOMEM => "ENOMEM",
            libc::EACCES => "EACCES",
            libc::EFAULT => "EFAULT",
            libc::EEXIST => "EEXIST",
            libc::EINVAL => "EINVAL",
            libc::ENFILE => "ENFILE",
            libc::EMFILE => "EMFILE",
            libc::ENOTTY => "ENOTTY",
            libc::ESPIPE => "ESPIPE",
            libc::EPIPE => "EPIPE",
            libc::ELOOP => "ELOOP",
            libc::ENOSYS => "ENOSYS",
            libc::ENOTSOCK => "ENOTSOCK",
            libc::EDESTADDRREQ => "EDESTADDRREQ",
            libc::EMSGSIZE => "EMSGSIZE",
            libc::ENOPROTOOPT => "ENOPROTOOPT",
            libc::EOPNOTSUPP => "EOPNOTSUPP",
            libc::EAFNOSUPPORT => "EAFNOSUPPORT",
            libc::EADDRINUSE => "EADDRINUSE",
            libc::EADDRNOTAVAIL => "EADDRNOTAVAIL",
            libc::ENETUNREACH => "ENETUNREACH",
            libc::ECONNABORTED => "ECONNABORTED",
            libc::ECONNRESET => "ECONNRESET",
            libc::ENOBUFS => "ENOBUFS",
            libc::EISCONN => "EISCONN",
            libc::ENOTCONN => "ENOTCONN",
            libc::ETIMEDOUT => "ETIMEDOUT",
            libc::ECONNREFUSED => "ECONNREFUSED",
            libc::EALREADY => "EALREADY",
            libc::EINPROGRESS => "EINPROGRESS",
            other => return write!(f, "errno {other}"),
        };
        f.write_str(name)
    }
}
