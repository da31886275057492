// SPDX-License-Identifier: Apache-2.0
//! Which pages of BAR 2 are free.

use std::collections::BTreeMap;

/// Hands out runs of pages, the lowest that fits first.
#[derive(Debug)]
pub struct Pages {
    /// First page and length of each free run; runs don't touch.
    free: BTreeMap<usize, usize>,
}

impl Pages {
    /// Pages from `first` on, up to `end`.
    #[must_use]
    pub fn new(first: usize, end: usize) -> Self {
        let free = (first < end).then(|| (first, end - first));
        Self {
            free: free.into_iter().collect(),
        }
    }

    /// Takes `count` pages in a row.
    pub fn take(&mut self, count: usize) -> Option<usize> {
        let (&first, &length) = self.free.iter().find(|(_, length)| **length >= count)?;
        self.free.remove(&first);
        if length > count {
            self.free.insert(first + count, length - count);
        }
        Some(first)
    }

    /// Gives pages back that were taken.
    pub fn give(&mut self, mut first: usize, mut count: usize) {
        if let Some((&before, &length)) = self.free.range(..first).next_back()
            && before + length == first
        {
            self.free.remove(&before);
            first = before;
            count += length;
        }
        if let Some(length) = self.free.remove(&(first + count)) {
            count += length;
        }
        self.free.insert(first, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn runs_join_again() {
        let mut pages = Pages::new(1, 9);
        let taken: Vec<_> = (0..4).map(|_| pages.take(2).expect("free")).collect();
        assert_eq!(taken, [1, 3, 5, 7]);
        assert_eq!(pages.take(1), None);
        for first in [3, 7, 5, 1] {
            pages.give(first, 2);
        }
        assert_eq!(pages.take(8), Some(1));
    }

    proptest! {
        #[test]
        fn no_page_is_handed_out_twice(steps in proptest::collection::vec((1usize..9, any::<bool>()), 1..200)) {
            let mut pages = Pages::new(3, 67);
            let mut used: Vec<(usize, usize)> = Vec::new();
            for (count, give) in steps {
                if give && !used.is_empty() {
                    let (first, count) = used.swap_remove(count % used.len());
                    pages.give(first, count);
                } else if let Some(first) = pages.take(count) {
                    prop_assert!(first >= 3 && first + count <= 67);
                    prop_assert!(used.iter().all(|&(f, c)| first + count <= f || f + c <= first));
                    used.push((first, count));
                }
            }
            for (first, count) in used {
                pages.give(first, count);
            }
            prop_assert_eq!(pages.take(64), Some(3), "all came back");
        }
    }
}
