// SPDX-License-Identifier: Apache-2.0
//! What cases are written with: the calls, addresses, outcomes, processes, connected pairs.

pub mod address;
pub mod epoll;
pub mod errno;
pub mod outcome;
pub mod pair;
pub mod process;
pub mod seen;
pub mod sys;
pub mod wait;

/// Everything a file of cases needs.
pub mod prelude {
    pub use super::address::Address;
    pub use super::errno::{Call, Errno};
    pub use super::outcome::{Failure, Outcome};
    pub use super::pair::*;
    pub use super::process::*;
    pub use super::sys::*;
    pub use crate::case::{Case, Expect};
    pub use crate::{cases, fails, gets, holds, same};
    pub use libc::{
        EADDRINUSE, EAGAIN, EBADF, ECONNABORTED, ECONNREFUSED, ECONNRESET, EFAULT, EINPROGRESS,
        EINTR, EINVAL, EISCONN, EMFILE, EMSGSIZE, ENOTCONN, ENOTSOCK, EOPNOTSUPP, EPIPE,
    };
}
