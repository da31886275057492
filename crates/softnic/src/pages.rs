// SPDX-License-Identifier: Apache-2.0
//! Which pages of BAR 2 are free.

/// Runs of free pages, in order, none next to another.
#[derive(Clone, Debug)]
pub struct Pages {
    free: Vec<(usize, usize)>,
    count: usize,
}

impl Pages {
    /// `count` pages, all free.
    pub fn new(count: usize) -> Self {
        Self {
            free: vec![(0, count)],
            count,
        }
    }

    /// All pages, free or not.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Takes pages that follow each other: the first one of them.
    pub fn take(&mut self, pages: usize) -> Option<usize> {
        let at = self.free.iter().position(|&(_, free)| free >= pages)?;
        let (first, free) = self.free[at];
        if free == pages {
            self.free.remove(at);
        } else {
            self.free[at] = (first + pages, free - pages);
        }
        Some(first)
    }

    /// Gives pages back.
    pub fn give(&mut self, first: usize, pages: usize) {
        let at = self.free.partition_point(|&(start, _)| start < first);
        self.free.insert(at, (first, pages));
        if at + 1 < self.free.len() && first + pages == self.free[at + 1].0 {
            self.free[at].1 += self.free.remove(at + 1).1;
        }
        if at > 0 && self.free[at - 1].0 + self.free[at - 1].1 == first {
            self.free[at - 1].1 += self.free.remove(at).1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_grows_together() {
        let mut pages = Pages::new(100);
        let taken: Vec<_> = (0..10).map(|_| pages.take(10)).collect();
        assert_eq!(taken, (0..10).map(|i| Some(10 * i)).collect::<Vec<_>>());
        assert_eq!(pages.take(1), None);
        for i in [3, 5, 4, 0, 9, 1, 2, 8, 6, 7] {
            pages.give(10 * i, 10);
        }
        assert_eq!(pages.free, [(0, 100)]);
        assert_eq!(pages.take(100), Some(0));
        assert_eq!(pages.count(), 100);
    }
}
