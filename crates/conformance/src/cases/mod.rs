// SPDX-License-Identifier: Apache-2.0
//! The cases, by what they are about.

mod connecting;
mod datagram;
mod datagram_refused;
mod datagram_shared;
mod descriptors;
mod ending;
mod epoll;
mod epoll_forked;
mod epoll_sets;
mod fallback;
mod forking;
mod mixed;
mod names;
mod options;
mod polling;
mod signals;
mod soak;
mod splicing;
mod stream;
mod transfer;
mod unaligned;

use crate::case::Case;

pub use epoll_sets::{inherited_member, inherited_set};

/// Every case.
pub fn all() -> Vec<Case> {
    [
        stream::CASES,
        transfer::CASES,
        splicing::CASES,
        options::CASES,
        connecting::CASES,
        ending::CASES,
        descriptors::CASES,
        forking::CASES,
        polling::CASES,
        epoll::CASES,
        epoll_sets::CASES,
        epoll_forked::CASES,
        fallback::CASES,
        datagram::CASES,
        datagram_refused::CASES,
        datagram_shared::CASES,
        signals::CASES,
        mixed::CASES,
        names::CASES,
        unaligned::CASES,
        soak::CASES,
    ]
    .into_iter()
    .flatten()
    .copied()
    .collect()
}
