// SPDX-License-Identifier: Apache-2.0
//! Sentences about accesses that were refused, by thread, kept and read without locks or allocation.

use std::fmt::Write;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Bytes of the longest sentence.
pub const LONGEST: usize = 256;
/// Threads whose last sentence is kept.
const KEPT: usize = 64;
/// In a record that is being written.
const WRITING: u32 = u32::MAX;

struct Record {
    /// The thread; 0: nobody.
    thread: AtomicU32,
    length: AtomicUsize,
    words: [AtomicU64; LONGEST / 8],
}

static RECORDS: [Record; KEPT] = [const {
    Record {
        thread: AtomicU32::new(0),
        length: AtomicUsize::new(0),
        words: [const { AtomicU64::new(0) }; LONGEST / 8],
    }
}; KEPT];
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// A sentence that is being made.
pub struct Sentence {
    bytes: [u8; LONGEST],
    length: usize,
}

impl Sentence {
    pub const fn new() -> Self {
        Self {
            bytes: [0; LONGEST],
            length: 0,
        }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Write for Sentence {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = LONGEST - self.length;
        let mut count = text.len().min(room);
        while !text.is_char_boundary(count) {
            count -= 1;
        }
        self.bytes[self.length..self.length + count].copy_from_slice(&text.as_bytes()[..count]);
        self.length += count;
        Ok(())
    }
}

/// Keeps the sentence of a thread, instead of its last one.
pub fn keep(thread: u32, sentence: &Sentence) {
    let own = RECORDS
        .iter()
        .find(|record| record.thread.load(Ordering::Relaxed) == thread);
    let free = || {
        RECORDS.iter().find(|record| {
            let taken =
                record
                    .thread
                    .compare_exchange(0, WRITING, Ordering::Acquire, Ordering::Relaxed);
            taken.is_ok()
        })
    };
    let Some(record) = own.or_else(free).or_else(|| {
        // That of a thread that has perhaps ended long ago.
        let old = &RECORDS[NEXT.fetch_add(1, Ordering::Relaxed) % KEPT];
        (old.thread.swap(WRITING, Ordering::Acquire) != WRITING).then_some(old)
    }) else {
        return;
    };
    for (word, bytes) in record.words.iter().zip(sentence.bytes.chunks_exact(8)) {
        let bytes = bytes.try_into().unwrap_or([0; 8]);
        word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
    }
    record.length.store(sentence.length, Ordering::Relaxed);
    record.thread.store(thread, Ordering::Release);
}

/// The last sentence of a thread.
pub fn last(thread: u32, into: &mut [u8; LONGEST]) -> Option<usize> {
    let record = RECORDS
        .iter()
        .find(|record| record.thread.load(Ordering::Acquire) == thread)?;
    for (bytes, word) in into.chunks_exact_mut(8).zip(&record.words) {
        bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
    }
    Some(record.length.load(Ordering::Relaxed).min(LONGEST))
}

/// Forgets the last sentence of a thread.
pub fn forget(thread: u32) {
    for record in &RECORDS {
        let _ = record
            .thread
            .compare_exchange(thread, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_its_threads_and_cut_at_a_character() {
        let mut into = [0; LONGEST];
        let first = 1_000_000;
        for thread in first..first + 3 {
            let mut sentence = Sentence::new();
            write!(sentence, "of {thread}").expect("room");
            keep(thread, &sentence);
        }
        let length = last(first + 1, &mut into).expect("it was kept");
        assert_eq!(&into[..length], format!("of {}", first + 1).as_bytes());
        forget(first + 1);
        assert_eq!(last(first + 1, &mut into), None);
        assert!(last(first + 2, &mut into).is_some());
        let mut long = Sentence::new();
        write!(long, "{}é", "x".repeat(LONGEST - 1)).expect("it is cut");
        assert_eq!(long.bytes().len(), LONGEST - 1);
        forget(first);
        forget(first + 2);
    }
}
