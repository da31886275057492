// SPDX-License-Identifier: Apache-2.0
//! Calls that wait on a connection while another thread closes it.
//!
//! The kernel's call holds the open description, not the number: it goes on until something comes, and the connection ends
//! when the last such call has returned. So does ours: whoever closes the last number while a call waits hands it the twin
//! under a number of the library's own, and the last call to return closes that.

use std::os::fd::RawFd;

use crate::close;
use crate::latch::Latch;
use crate::private::Private;
use crate::ready;
use crate::stream::borrow;
use crate::table::{self, Description};

/// Who is inside of a description.
#[derive(Default)]
struct State {
    /// Calls that wait.
    calls: u32,
    /// The program has closed the last number.
    closed: bool,
    /// The twin, if calls waited then.
    twin: Option<Private>,
}

/// Of each description.
#[derive(Default)]
pub struct Inside(Latch<State>);

impl Inside {
    /// Nobody.
    pub const fn new() -> Self {
        Self(Latch::new(State {
            calls: 0,
            closed: false,
            twin: None,
        }))
    }

    /// The description is about to be used again.
    pub(crate) fn reset(&self) {
        *self.0.lock() = State::default();
    }

    pub(crate) fn before_fork(&self) {
        self.0.acquire();
    }

    /// In the child nobody is inside: its only thread has forked.
    pub(crate) fn after_fork(&self, child: bool) {
        self.0.release();
        if child {
            self.0.lock().calls = 0;
        }
    }
}

/// A call that waits. The connection does not end while it lives.
pub struct Call<'a>(&'a Description);

impl<'a> Call<'a> {
    /// Goes inside. None: the last number is closed.
    pub fn begin(description: &'a Description) -> Option<Self> {
        let mut state = description.inside.0.lock();
        if state.closed {
            return None;
        }
        state.calls += 1;
        Some(Self(description))
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let twin = {
            let mut state = self.0.inside.0.lock();
            state.calls = state.calls.saturating_sub(1);
            match state.calls {
                0 => state.twin.take(),
                _ => None,
            }
        };
        if let Some(twin) = twin {
            close::end(twin.number(), self.0);
        }
    }
}

/// The last number is about to be closed. True: calls wait, the last of them ends the connection.
pub(crate) fn outlives(fd: RawFd, description: &Description) -> bool {
    let mut state = description.inside.0.lock();
    if state.calls > 0
        && let Ok(twin) = rustix::io::fcntl_dupfd_cloexec(borrow(fd), crate::process::floor())
    {
        state.twin = Some(Private::new(twin));
    }
    state.closed = true;
    state.twin.is_some()
}

/// A number under which the description can be reached: `fd`, unless that was closed meanwhile.
pub(crate) fn number(fd: RawFd, description: &Description) -> Option<RawFd> {
    if table::still(fd, description) {
        return Some(fd);
    }
    let own = {
        let state = description.inside.0.lock();
        state.twin.as_ref().map(Private::number)
    };
    own.or_else(|| ready::any_fd(description))
}
