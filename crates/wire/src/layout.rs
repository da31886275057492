// SPDX-License-Identifier: Apache-2.0
//! How a layout is described: a list of fields, the first one in the most significant bits.

/// How people want to read a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// Hexadecimal number.
    Hex,
    /// Decimal number.
    Dec,
    /// One bit, yes or no.
    Flag,
    /// Hexadecimal number whose values have names.
    Names(&'static [(u64, &'static str)]),
    /// Filler: written as zero. It is not shown to readers of packets.
    Zero,
}

/// One field of a layout.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Name, the same in Rust, SystemVerilog, the documentation and the dissector.
    pub name: &'static str,
    /// Width in bits, at most 64.
    pub bits: u32,
    /// How to show it.
    pub show: Show,
    /// What it means, one phrase.
    pub doc: &'static str,
}

impl Field {
    /// A field; used by the tables of this crate.
    #[must_use]
    pub const fn new(name: &'static str, bits: u32, show: Show, doc: &'static str) -> Self {
        Self {
            name,
            bits,
            show,
            doc,
        }
    }
}

/// Fields one after the other, most significant bit first: on the wire, the first field is in the first byte.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Name of the layout.
    pub name: &'static str,
    /// What it is, one phrase.
    pub doc: &'static str,
    /// The fields.
    pub fields: &'static [Field],
}

impl Layout {
    /// Sum of the fields' widths in bits.
    #[must_use]
    pub const fn bits(&self) -> u32 {
        let mut sum = 0;
        let mut i = 0;
        while i < self.fields.len() {
            sum += self.fields[i].bits;
            i += 1;
        }
        sum
    }

    /// Size in bytes.
    ///
    /// # Panics
    /// If the layout is not a whole number of bytes; evaluated at compile time by this crate's codecs.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        let bits = self.bits();
        assert!(bits.is_multiple_of(8), "a layout is whole bytes");
        (bits / 8) as usize
    }

    /// Where field number `index` lies, counted in bytes from the start of the layout.
    #[must_use]
    pub const fn span_at(&self, index: usize) -> Span {
        let mut start = 0;
        let mut i = 0;
        while i < index {
            start += self.fields[i].bits;
            i += 1;
        }
        let end = start + self.fields[index].bits;
        let first = start / 8;
        let last = (end - 1) / 8;
        Span {
            first_byte: first as usize,
            bytes: (last - first + 1) as usize,
            shift: (last + 1) * 8 - end,
            bits: self.fields[index].bits,
        }
    }

    /// Where the field called `name` lies.
    ///
    /// # Panics
    /// If there is no such field; evaluated at compile time by this crate's codecs.
    #[must_use]
    pub const fn span(&self, name: &str) -> Span {
        let mut i = 0;
        while i < self.fields.len() {
            if same(self.fields[i].name, name) {
                return self.span_at(i);
            }
            i += 1;
        }
        panic!("the layout has no field of this name")
    }
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// The place of a field in bytes: the covering bytes, big-endian, and the position inside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First byte that holds a bit of the field.
    pub first_byte: usize,
    /// Number of bytes that hold bits of the field, at most 8.
    pub bytes: usize,
    /// Bits below the field in the last of these bytes.
    pub shift: u32,
    /// Width in bits.
    pub bits: u32,
}

impl Span {
    /// All ones in the field's width.
    #[must_use]
    pub const fn max(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// Reads the field from a buffer that starts where the layout starts.
    ///
    /// # Panics
    /// If the buffer ends before the field does; views check the length once before.
    #[inline]
    #[must_use]
    pub fn get(self, buffer: &[u8]) -> u64 {
        let covering = &buffer[self.first_byte..self.first_byte + self.bytes];
        let word = covering
            .iter()
            .fold(0_u64, |word, &byte| word << 8 | u64::from(byte));
        word >> self.shift & self.max()
    }

    /// Writes the field; bits of `value` above its width are dropped.
    ///
    /// # Panics
    /// If the buffer ends before the field does.
    #[inline]
    pub fn put(self, buffer: &mut [u8], value: u64) {
        let covering = &mut buffer[self.first_byte..self.first_byte + self.bytes];
        let mask = self.max() << self.shift;
        let value = value << self.shift & mask;
        let bytes = self.bytes;
        for (i, byte) in covering.iter_mut().enumerate() {
            let down = 8 * (bytes - 1 - i);
            *byte = *byte & !(mask >> down) as u8 | (value >> down) as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const L: Layout = Layout {
        name: "l",
        doc: "",
        fields: &[
            Field::new("a", 4, Show::Hex, ""),
            Field::new("b", 12, Show::Hex, ""),
            Field::new("c", 28, Show::Hex, ""),
            Field::new("d", 20, Show::Hex, ""),
        ],
    };

    #[test]
    fn fields_do_not_disturb_each_other() {
        let mut buffer = [0xFF; 8];
        L.span("b").put(&mut buffer, 0x123);
        L.span("c").put(&mut buffer, 0x456_789A);
        assert_eq!(
            buffer,
            [0xF1, 0x23, 0x45, 0x67, 0x89, 0xAF, 0xFF, 0xFF],
            "only b and c change"
        );
        assert_eq!(L.span("a").get(&buffer), 0xF);
        assert_eq!(L.span("b").get(&buffer), 0x123);
        assert_eq!(L.span("c").get(&buffer), 0x456_789A);
        assert_eq!(L.span("d").get(&buffer), 0xF_FFFF);
        assert_eq!(L.bytes(), 8);
    }
}
