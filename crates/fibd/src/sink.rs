// SPDX-License-Identifier: Apache-2.0
//! Where the words go.

use std::io;
use std::ops::Range;

use fib::layout::Memory as Which;
use fib::{Image, Op};

/// The memories of a switch.
pub trait Sink {
    /// Writes a list in its order.
    ///
    /// # Errors
    /// What the way to the switch says.
    fn apply(&mut self, ops: &[Op]) -> io::Result<()>;

    /// What is in the memories, if they can be read.
    fn image(&mut self) -> Option<&Image>;

    /// The same, of which only some words of one memory have to be those of now.
    fn part(&mut self, _memory: Which, _words: Range<u32>) -> Option<&Image> {
        self.image()
    }
}

/// A switch's memories without the switch.
#[derive(Clone, Debug)]
pub struct Memory {
    /// The words.
    pub image: Image,
}

impl Memory {
    /// Memories after reset, of the depths of this image.
    pub fn like(image: &Image) -> Self {
        Self {
            image: image.cleared(),
        }
    }
}

impl Sink for Memory {
    fn apply(&mut self, ops: &[Op]) -> io::Result<()> {
        for op in ops {
            self.image.apply(op);
        }
        Ok(())
    }

    fn image(&mut self) -> Option<&Image> {
        Some(&self.image)
    }
}
