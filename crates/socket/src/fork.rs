// SPDX-License-Identifier: Apache-2.0
//! Fork: parent and child share every connection.
//!
//! What belongs to a connection lies in its channel, so both go on where it stands; only the number of its users is
//! counted. A process that is killed is not counted off, which is harmless: the twin's end tells the peer.

use crate::along::Along;
use crate::object::Object;
use crate::ready::Pollable;
use crate::stream::Stream;
use crate::{avoided, process, ready, reasons, receivers, short, table};

fn count(more: bool) {
    count_if(more, |_| true);
}

/// Counts this process on or off for each connection that `which` picks.
fn count_if(more: bool, which: impl Fn(&Stream) -> bool) {
    let mut seen = Vec::new();
    table::each(|_, description| {
        if description.fds() > 1 {
            if seen.contains(&description.id()) {
                return;
            }
            seen.push(description.id());
        }
        if let Object::Stream(stream) = description.object()
            && which(stream)
        {
            stream.count_user(more);
        }
    });
}

/// Before a fork: takes the locks that the child must not find taken.
pub fn before() {
    ready::before_fork();
    process::before_fork();
    short::before_fork();
    avoided::before_fork();
    receivers::before_fork();
    table::before_fork();
    // Now that none can come or go: the child has exactly those that are counted.
    count(true);
}

/// After a fork, in the parent.
pub fn after_in_parent() {
    table::after_fork();
    receivers::after_fork();
    avoided::after_fork();
    short::after_fork();
    process::after_fork(false);
    ready::after_fork(false);
}

/// After a fork, in the child.
pub fn after_in_child() {
    shm::channel::forked();
    table::after_fork();
    receivers::after_fork();
    avoided::after_fork();
    short::after_fork();
    process::after_fork(true);
    reasons::after_fork();
    ready::after_fork(true);
}

/// The fork did not happen after all.
pub fn failed() {
    count(false);
}

/// The process is about to end without having closed its connections: others that share them are told.
pub fn leave() {
    if process::is_enabled() && !process::is_borrowed() {
        reasons::finish();
        count_if(false, Pollable::shared);
        table::each(|fd, description| {
            if let Object::Stream(stream) = description.object() {
                stream.leave_at_exit(fd);
            }
        });
    }
}

/// The process, or a child of vfork, is about to become another program: connections that it takes along are reserved
/// for that, others are left. What was changed is given back, for [`stay`].
pub fn leave_for_exec() -> Vec<(u64, bool)> {
    leave_to(process::is_borrowed(), &Along::to_exec())
}

/// A child is about to be made that becomes another program at once (posix_spawn).
pub fn before_spawn() -> Vec<(u64, bool)> {
    leave_to(true, &Along::to_spawn())
}

/// It was not made.
pub fn spawn_failed(taken: &[(u64, bool)]) {
    each_of(taken, |stream, along| stream.after_exec_failed(true, along));
}

/// `borrowed`: it is no user yet.
fn leave_to(borrowed: bool, along: &Along) -> Vec<(u64, bool)> {
    let mut taken = Vec::<(u64, bool)>::new();
    table::each(|fd, description| {
        if description.object().stream().is_none() {
            return;
        }
        let stays = along.number(fd).is_some();
        match taken.iter_mut().find(|(id, _)| *id == description.id()) {
            Some((_, along)) => *along |= stays,
            None => taken.push((description.id(), stays)),
        }
    });
    each_of(&taken, |stream, along| stream.before_exec(borrowed, along));
    taken
}

/// It did not become another program.
pub fn stay(taken: &[(u64, bool)]) {
    let borrowed = process::is_borrowed();
    each_of(taken, |stream, along| {
        stream.after_exec_failed(borrowed, along)
    });
}

/// Visits each connection of the list once.
fn each_of(list: &[(u64, bool)], visit: impl Fn(&Stream, bool)) {
    let mut left: Vec<_> = list.to_vec();
    table::each(|_, description| {
        if let Some(index) = left.iter().position(|(id, _)| *id == description.id())
            && let Object::Stream(stream) = description.object()
        {
            visit(stream, left.swap_remove(index).1);
        }
    });
}
