// SPDX-License-Identifier: Apache-2.0
//! What shows on the notice pages: a bit for each place at which there is something, and what has changed of these.

/// How many things are at each place.
#[derive(Debug)]
pub struct Shown {
    counts: Vec<u32>,
    /// Places that got their first (true), or lost their last, since somebody asked.
    changes: Vec<(usize, bool)>,
}

impl Shown {
    /// Nothing at any of so many places.
    pub fn new(places: usize) -> Self {
        Self {
            counts: vec![0; places],
            changes: Vec::new(),
        }
    }

    /// One more at a place.
    pub fn add(&mut self, place: usize) {
        self.counts[place] += 1;
        if self.counts[place] == 1 {
            self.changes.push((place, true));
        }
    }

    /// One less.
    pub fn remove(&mut self, place: usize) {
        self.counts[place] -= 1;
        if self.counts[place] == 0 {
            self.changes.push((place, false));
        }
    }

    /// What has changed on the pages since the last time.
    pub fn take_changes(&mut self) -> Vec<(usize, bool)> {
        std::mem::take(&mut self.changes)
    }

    /// All places that have something, for a new page.
    pub fn all(&self) -> impl Iterator<Item = usize> {
        let places = self.counts.iter().enumerate();
        places.filter(|(_, count)| **count > 0).map(|(at, _)| at)
    }
}
