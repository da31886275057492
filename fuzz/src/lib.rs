// SPDX-License-Identifier: Apache-2.0
//! What the targets share: numbers out of the fuzzer's bytes.

/// Takes a script of operations out of bytes. Where they end, it reads zeros.
pub struct Script<'a> {
    rest: &'a [u8],
}

impl<'a> Script<'a> {
    /// From the fuzzer's bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Whether there is anything left.
    pub fn goes_on(&self) -> bool {
        !self.rest.is_empty()
    }

    /// Some bytes, as many as there are at most.
    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// One byte.
    pub fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    /// Two bytes as a number.
    pub fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// Eight bytes as a number.
    pub fn long(&mut self) -> u64 {
        self.bytes(8)
            .iter()
            .rev()
            .fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}
