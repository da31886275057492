// SPDX-License-Identifier: Apache-2.0
//! Descriptors that come and go: close, dup, and what was decided about them.

use std::os::fd::RawFd;

use crate::object::Object;
use crate::signals::handlers::Quiet;
use crate::table::{self, Description, Removed};
use crate::{datagram, inside, process, ready};

/// The program is about to close `fd`.
#[inline]
pub fn closing(fd: RawFd) {
    if table::known(fd) && !process::is_borrowed() {
        let _quiet = Quiet::begin();
        finish(fd, table::remove(fd));
    }
}

/// The program is about to close all numbers from `first` to `last`.
pub fn closing_range(first: RawFd, last: RawFd) {
    if process::is_borrowed() {
        return;
    }
    let _quiet = Quiet::begin();
    let mut hit = Vec::new();
    table::each(|fd, _| {
        if (first..=last).contains(&fd) {
            hit.push(fd);
        }
    });
    for fd in hit {
        finish(fd, table::remove(fd));
    }
}

/// `old` was duplicated to `new`, which did not exist, or was [`closing`] before.
pub fn duplicated(old: RawFd, new: RawFd) {
    if old == new || process::is_borrowed() {
        return;
    }
    if table::known(old) || table::known(new) {
        let _quiet = Quiet::begin();
        finish(new, table::duplicate(old, new));
    }
}

/// Ends what `fd` referred to, if nothing else of this process refers to it.
pub(crate) fn finish(fd: RawFd, removed: Option<Removed>) {
    let Some(Removed {
        description,
        last: true,
    }) = removed
    else {
        return;
    };
    ready::closed(fd, &description);
    if description.object().stream().is_some() && inside::outlives(fd, &description) {
        return;
    }
    end(fd, &description);
}

/// Ends what nobody uses any more.
pub(crate) fn end(fd: RawFd, description: &Description) {
    match description.object() {
        Object::Stream(stream) => stream.close(fd),
        Object::Listener(listener) => listener.close(),
        Object::Datagram(_) => datagram::closing(fd, description),
        _ => {}
    }
}
