// SPDX-License-Identifier: Apache-2.0
//! Tags of outstanding reads: a small index that is reused and a generation that tells uses apart.

/// Bits of the generation beside those in the tag byte.
const NUMBER_BITS: u32 = 16;

/// A pool of at most 32 tags, each with what is remembered about its read.
///
/// The lowest free index is taken first. The generation of an index grows by one when it is free again,
/// so that a late answer to an earlier read does not match.
///
/// With a quarantine an index whose read timed out is not free before its answer has come
/// ([`TagPool::end_late`]) or the read is that many time-outs old.
#[derive(Clone, Debug)]
pub struct TagPool<T> {
    slots: Vec<Slot<T>>,
    quarantine: u32,
    index_bits: u32,
    generation_bits: u32,
    generation_mask: u32,
}

#[derive(Clone, Debug)]
struct Slot<T> {
    generation: u32,
    started_us: u32,
    entry: Option<T>,
    /// It timed out, and its answer may still come.
    is_late: bool,
}

impl<T> Slot<T> {
    fn is_free(&self) -> bool {
        self.entry.is_none() && !self.is_late
    }
}

impl<T> TagPool<T> {
    /// A pool of `count` tags, whose tag bytes carry `generation_bits` above the index. The generation itself has
    /// 16 bits more: see [`TagPool::number`].
    ///
    /// # Panics
    /// When the index and the generation do not fit a byte.
    pub fn new(count: usize, generation_bits: u32) -> Self {
        let index_bits = count.next_power_of_two().trailing_zeros();
        assert!(
            count > 0 && index_bits + generation_bits <= 8,
            "{count} tags and {generation_bits} bits of generation do not fit a tag byte"
        );
        let slot = || Slot {
            generation: 0,
            started_us: 0,
            entry: None,
            is_late: false,
        };
        Self {
            slots: (0..count).map(|_| slot()).collect(),
            quarantine: 0,
            index_bits,
            generation_bits,
            generation_mask: (1 << (generation_bits + NUMBER_BITS)) - 1,
        }
    }

    /// The pool with a quarantine of so many time-outs; 0 is none.
    pub fn with_quarantine(self, time_outs: u32) -> Self {
        Self {
            quarantine: time_outs,
            ..self
        }
    }

    fn tag(&self, index: usize) -> u8 {
        // At eight index bits there is no generation, and the shift is done in a wider type.
        let generation = self.slots[index].generation & ((1 << self.generation_bits) - 1);
        (generation << self.index_bits) as u8 | index as u8
    }

    fn index(&self, tag: u8) -> Option<usize> {
        let index = usize::from(tag) & ((1 << self.index_bits) - 1);
        let live =
            index < self.slots.len() && self.slots[index].entry.is_some() && self.tag(index) == tag;
        live.then_some(index)
    }

    /// The upper 16 bits of the generation of an outstanding tag, which the tag byte does not carry.
    pub fn number(&self, tag: u8) -> Option<u16> {
        let index = self.index(tag)?;
        Some((self.slots[index].generation >> self.generation_bits) as u16)
    }

    /// Whether a tag is free.
    pub fn has_free(&self) -> bool {
        self.slots.iter().any(Slot::is_free)
    }

    /// Number of outstanding tags.
    pub fn outstanding(&self) -> usize {
        self.slots.iter().filter(|s| s.entry.is_some()).count()
    }

    /// Takes the lowest free tag at the time `now_us`; gives the entry back when there is none.
    pub fn take(&mut self, entry: T, now_us: u32) -> Result<u8, T> {
        let Some(index) = self.slots.iter().position(Slot::is_free) else {
            return Err(entry);
        };
        let slot = &mut self.slots[index];
        slot.entry = Some(entry);
        slot.started_us = now_us;
        Ok(self.tag(index))
    }

    /// The entry of an outstanding tag.
    pub fn get(&self, tag: u8) -> Option<&T> {
        self.index(tag)
            .and_then(|index| self.slots[index].entry.as_ref())
    }

    /// The entry of an outstanding tag, to change it.
    pub fn get_mut(&mut self, tag: u8) -> Option<&mut T> {
        self.index(tag)
            .and_then(|index| self.slots[index].entry.as_mut())
    }

    /// Frees an outstanding tag.
    pub fn free(&mut self, tag: u8) -> Option<T> {
        let index = self.index(tag)?;
        self.free_index(index)
    }

    fn free_index(&mut self, index: usize) -> Option<T> {
        let slot = &mut self.slots[index];
        let entry = slot.entry.take()?;
        slot.generation = slot.generation.wrapping_add(1) & self.generation_mask;
        Some(entry)
    }

    /// Lets an index out of quarantine: the answer to its read, the whole of it, has come.
    pub fn end_late(&mut self, tag: u8) {
        let index = usize::from(tag) & ((1 << self.index_bits) - 1);
        if index < self.slots.len() && self.tag(index) == tag {
            self.release(index);
        }
    }

    fn release(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        if std::mem::take(&mut slot.is_late) {
            slot.generation = slot.generation.wrapping_add(1) & self.generation_mask;
        }
    }

    /// Lets those out of quarantine that are old enough at `now_us`, for a time-out of `timeout_us`.
    pub fn end_quarantines(&mut self, now_us: u32, timeout_us: u32) {
        for index in 0..self.slots.len() {
            let age = now_us.wrapping_sub(self.slots[index].started_us);
            if age / self.quarantine.max(1) >= timeout_us {
                self.release(index);
            }
        }
    }

    /// Frees the lowest tag that is at least `timeout_us` old at `now_us`; the clock may wrap.
    pub fn expire(&mut self, now_us: u32, timeout_us: u32) -> Option<T> {
        let index = self.slots.iter().position(|slot| {
            slot.entry.is_some() && now_us.wrapping_sub(slot.started_us) >= timeout_us
        })?;
        if self.quarantine == 0 {
            return self.free_index(index);
        }
        let slot = &mut self.slots[index];
        slot.is_late = true;
        slot.entry.take()
    }

    /// Outstanding tags with their entries and the time they were taken, lowest index first.
    pub fn iter(&self) -> impl Iterator<Item = (u8, u32, &T)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let entry = slot.entry.as_ref()?;
            Some((self.tag(index), slot.started_us, entry))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_the_lowest_and_tells_uses_apart() {
        let mut pool = TagPool::new(4, 3);
        for expected in 0..4 {
            assert_eq!(pool.take(expected, 0), Ok(expected));
        }
        assert_eq!(pool.take(9, 0), Err(9));
        assert_eq!(pool.free(2), Some(2));
        assert_eq!(pool.free(2), None, "freed twice");
        assert_eq!(pool.take(7, 0), Ok(1 << 2 | 2));
        assert_eq!(pool.get(2), None, "the earlier generation still matches");
        assert_eq!(pool.get(1 << 2 | 2), Some(&7));
    }

    #[test]
    fn generations_wrap() {
        let mut pool = TagPool::new(8, 2);
        for use_ in 0..9 {
            let tag = pool.take((), 0).expect("one of eight is free");
            assert_eq!(tag, (use_ % 4) << 3);
            assert_eq!(pool.free(tag), Some(()));
        }
    }

    #[test]
    fn what_timed_out_is_not_used_again_until_it_is_over() {
        let mut pool = TagPool::new(2, 2).with_quarantine(4);
        assert_eq!(pool.take('a', 0), Ok(0));
        assert_eq!(pool.expire(10, 10), Some('a'));
        assert_eq!(pool.take('b', 10), Ok(1));
        assert_eq!(pool.take('c', 10), Err('c'));
        pool.end_quarantines(39, 10);
        assert_eq!(pool.take('c', 39), Err('c'));
        pool.end_quarantines(40, 10);
        assert_eq!(pool.take('c', 41), Ok(1 << 1));
        assert_eq!(pool.expire(50, 10), Some('b'));
        assert_eq!(pool.get(1), None);
        pool.end_late(1);
        assert_eq!(pool.take('d', 50), Ok(1 << 1 | 1));
    }

    #[test]
    fn expires_across_the_wrap_of_the_clock() {
        let mut pool = TagPool::new(2, 3);
        let start = u32::MAX - 3;
        assert_eq!(pool.take('a', start), Ok(0));
        assert_eq!(pool.expire(start.wrapping_add(9), 10), None);
        assert_eq!(pool.expire(start.wrapping_add(10), 10), Some('a'));
        assert!(pool.has_free() && pool.outstanding() == 0);
    }
}
