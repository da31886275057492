// SPDX-License-Identifier: Apache-2.0
//! Registered memory: keys, rights, bounds.

use std::collections::BTreeMap;

use crate::request::Segment;

/// What may be done with a region; bits.
pub type Rights = u8;

/// A region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Its first address.
    pub va: u64,
    /// Its protection domain.
    pub pd: u16,
    /// What may be done.
    pub rights: Rights,
    /// What it holds.
    pub bytes: Vec<u8>,
}

impl Region {
    /// The host's own queues may write.
    pub const LOCAL_WRITE: Rights = 1;
    /// The peer may write.
    pub const REMOTE_WRITE: Rights = 2;
    /// The peer may read.
    pub const REMOTE_READ: Rights = 4;
    /// The peer's atomics may change it.
    pub const REMOTE_ATOMIC: Rights = 8;
    /// Everything.
    pub const ALL: Rights = 15;
}

/// A region and the tag of its key.
#[derive(Clone, Debug)]
struct Entry {
    tag: u8,
    valid: bool,
    region: Region,
}

/// All regions of an engine; a key is its index and a tag of eight bits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    entries: BTreeMap<u32, Entry>,
}

impl Memory {
    pub fn set(&mut self, key: u32, region: Region) {
        let entry = Entry {
            tag: key as u8,
            valid: true,
            region,
        };
        self.entries.insert(key >> 8, entry);
    }

    /// Ends a key, if it is one of that domain.
    pub fn end(&mut self, key: u32, pd: u16) {
        if let Some(entry) = self.entries.get_mut(&(key >> 8))
            && entry.tag == key as u8
            && entry.region.pd == pd
        {
            entry.valid = false;
        }
    }

    pub fn region(&self, index: u32) -> &Region {
        &self.entries[&index].region
    }

    pub fn region_mut(&mut self, index: u32) -> &mut Region {
        &mut self.entries.get_mut(&index).expect("a region").region
    }

    /// The bytes of a segment, if all of them may be used so.
    pub fn bytes(&mut self, s: Segment, pd: u16, need: Rights) -> Option<&mut [u8]> {
        let entry = self.entries.get_mut(&(s.key >> 8))?;
        let region = &mut entry.region;
        let right = entry.valid
            && entry.tag == s.key as u8
            && region.pd == pd
            && need & !region.rights == 0;
        let from = usize::try_from(s.va.checked_sub(region.va)?).ok()?;
        let to = from.checked_add(s.bytes as usize)?;
        region.bytes.get_mut(from..to).filter(|_| right)
    }
}

/// The list is shorter than what was asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Short;

/// The parts of a list that are its bytes from `offset` on; none is empty.
pub(crate) fn parts(
    list: &[Segment],
    offset: u32,
    bytes: u32,
) -> impl Iterator<Item = Result<Segment, Short>> + use<> {
    let (mut skip, mut left) = (u64::from(offset), u64::from(bytes));
    // Its own: who asks may change where the list is.
    let mut list = Vec::from(list).into_iter();
    std::iter::from_fn(move || {
        while left != 0 {
            let Some(segment) = list.next() else {
                left = 0;
                return Some(Err(Short));
            };
            let own = u64::from(segment.bytes);
            if own <= skip {
                skip -= own;
                continue;
            }
            let count = (own - skip).min(left);
            let part = Segment {
                va: segment.va.wrapping_add(skip),
                key: segment.key,
                bytes: count as u32,
            };
            skip = 0;
            left -= count;
            return Some(Ok(part));
        }
        None
    })
}
