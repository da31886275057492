// SPDX-License-Identifier: Apache-2.0
//! One line of stores that are collected, as a write-combining buffer of a processor does.

/// Bytes of a line.
pub const LINE: usize = 64;

/// Stores that have not left yet, all in one line.
#[derive(Debug)]
pub struct Line {
    /// Where the line begins, counted so that lines are multiples of 64.
    first: usize,
    /// A bit for each byte that is there.
    there: u64,
    bytes: [u8; LINE],
}

impl Line {
    pub const fn new() -> Self {
        Self {
            first: 0,
            there: 0,
            bytes: [0; LINE],
        }
    }

    /// Takes bytes of one line. `false`: another line has to leave first.
    pub fn take(&mut self, at: usize, bytes: &[u8]) -> bool {
        let first = at / LINE * LINE;
        if self.there != 0 && self.first != first {
            return false;
        }
        let skip = at - first;
        self.first = first;
        self.bytes[skip..skip + bytes.len()].copy_from_slice(bytes);
        let ones = u64::MAX >> (LINE - bytes.len());
        self.there |= ones << skip;
        true
    }

    /// Whether a full line is there.
    pub fn full(&self) -> bool {
        self.there == u64::MAX
    }

    /// Empties the line: each run of bytes, in ascending order.
    pub fn leave<E>(
        &mut self,
        mut store: impl FnMut(usize, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut there = std::mem::take(&mut self.there);
        while there != 0 {
            let skip = there.trailing_zeros() as usize;
            let count = (there >> skip).trailing_ones() as usize;
            store(self.first + skip, &self.bytes[skip..skip + count])?;
            let run = (u64::MAX >> (LINE - count)) << skip;
            there &= !run;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(line: &mut Line) -> Vec<(usize, Vec<u8>)> {
        let mut runs = Vec::new();
        let all = line.leave(|at, bytes| {
            runs.push((at, bytes.to_vec()));
            Ok::<_, ()>(())
        });
        all.expect("nothing fails");
        runs
    }

    #[test]
    fn a_line_leaves_in_runs_and_once() {
        let mut line = Line::new();
        assert!(line.take(130, &[1, 2]) && line.take(140, &[5]) && line.take(131, &[9, 3]));
        assert!(!line.take(192, &[0]), "another line");
        assert!(!line.full());
        assert_eq!(left(&mut line), [(130, vec![1, 9, 3]), (140, vec![5])]);
        assert_eq!(left(&mut line), []);
        assert!(line.take(64, &[7; 64]) && line.full());
        assert_eq!(left(&mut line), [(64, vec![7; 64])]);
        assert!(line.take(127, &[8]));
        assert_eq!(left(&mut line), [(127, vec![8])]);
    }
}
