// SPDX-License-Identifier: Apache-2.0
//! Memory that the board may write to: where it is for the processor, and where for the board.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::ptr;

use rustix::mm::{MapFlags, ProtFlags};

use super::PcieError;

/// Bytes of an ordinary page, in which the board counts.
pub const PAGE: usize = 4096;
/// Bytes of a huge page.
pub const HUGE: usize = 2 << 20;

/// Makes memory known to the board.
pub trait Mapper: Send + Sync {
    /// The address with which the board reaches all `len` bytes at `base`, in one piece.
    ///
    /// # Errors
    /// If the board can't reach them, or not in one piece.
    fn map(&self, base: *mut u8, len: usize) -> Result<u64, PcieError>;

    /// Takes the address back; the board must not use it any more.
    fn unmap(&self, address: u64, len: usize);
}

/// Memory for a region or for the board's event ring: zeroed, locked, in huge pages where there are any.
pub struct Buffer {
    base: *mut u8,
    len: usize,
    mapped: usize,
}

// SAFETY: a buffer is plain memory that is unmapped once, when the value is dropped; those who use its bytes together
// do so through volatile or atomic accesses.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// At least `bytes` bytes, in whole pages. Without huge pages it is in ordinary ones, unless `only_huge`.
    ///
    /// # Errors
    /// If there is no memory, or there are no huge pages and they are needed.
    pub fn new(bytes: usize, only_huge: bool) -> Result<Self, PcieError> {
        let len = bytes.max(1).next_multiple_of(PAGE);
        let huge_len = len.next_multiple_of(HUGE);
        let error = match Self::anonymous(huge_len, MapFlags::HUGETLB) {
            Ok(base) => {
                return Ok(Self {
                    base,
                    len,
                    mapped: huge_len,
                });
            }
            Err(error) if only_huge => error,
            Err(_) => match Self::anonymous(len, MapFlags::empty()) {
                Ok(base) => {
                    return Ok(Self {
                        base,
                        len,
                        mapped: len,
                    });
                }
                Err(error) => error,
            },
        };
        Err(PcieError::NoMemory {
            bytes,
            huge: only_huge,
            source: error.into(),
        })
    }

    fn anonymous(len: usize, flags: MapFlags) -> Result<*mut u8, rustix::io::Errno> {
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let base = unsafe {
            rustix::mm::mmap_anonymous(
                ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::POPULATE | flags,
            )
        }?;
        Ok(base.cast())
    }

    /// Its first byte.
    #[must_use]
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// Its bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes; it always has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`; who handed out its bytes has taken them back.
        let _ = unsafe { rustix::mm::munmap(self.base.cast(), self.mapped) };
    }
}

/// Physical addresses from `/proc/self/pagemap`: for machines without an IOMMU and for tests on bare metal. Needs
/// CAP_SYS_ADMIN; the kernel may move pages that are not huge ones.
pub struct Pagemap {
    file: File,
}

impl Pagemap {
    /// Opens the table of this process.
    ///
    /// # Errors
    /// If it can't be opened.
    pub fn open() -> Result<Self, PcieError> {
        let path = "/proc/self/pagemap";
        let file = File::open(path).map_err(|source| PcieError::File {
            path: path.into(),
            source,
        })?;
        Ok(Self { file })
    }

    fn entry(&self, page: usize) -> io::Result<u64> {
        let mut entry = [0; 8];
        self.file.read_exact_at(&mut entry, 8 * page as u64)?;
        Ok(u64::from_ne_bytes(entry))
    }
}

/// The frame number in an entry of the page map, if the page is in memory and the number is shown.
fn frame(entry: u64) -> Option<u64> {
    let number = entry & ((1 << 55) - 1);
    (entry >> 63 == 1 && number != 0).then_some(number)
}

/// The bus address of consecutive frames.
fn contiguous(entries: impl Iterator<Item = io::Result<u64>>) -> Result<u64, PcieError> {
    let mut first = None;
    for (index, entry) in entries.enumerate() {
        let entry = entry.map_err(|source| PcieError::File {
            path: "/proc/self/pagemap".into(),
            source,
        })?;
        let number = frame(entry).ok_or(PcieError::HiddenFrames)?;
        let start = *first.get_or_insert(number);
        if number != start + index as u64 {
            return Err(PcieError::Scattered {
                bytes: index * PAGE,
            });
        }
    }
    first
        .map(|number| number * PAGE as u64)
        .ok_or(PcieError::HiddenFrames)
}

impl Mapper for Pagemap {
    fn map(&self, base: *mut u8, len: usize) -> Result<u64, PcieError> {
        let first = base.addr() / PAGE;
        contiguous((0..len.div_ceil(PAGE)).map(|page| self.entry(first + page)))
    }

    fn unmap(&self, _: u64, _: usize) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRESENT: u64 = 1 << 63;

    #[test]
    fn buffers_are_whole_zeroed_pages() {
        let buffer = Buffer::new(5000, false).expect("memory");
        assert_eq!(buffer.len(), 8192);
        assert_eq!(buffer.base().addr() % PAGE, 0);
        // SAFETY: the buffer is there and nobody writes to it.
        let bytes = unsafe { std::slice::from_raw_parts(buffer.base(), buffer.len()) };
        assert!(bytes.iter().all(|&byte| byte == 0));
    }

    #[test]
    fn frames_in_a_row_are_one_piece() {
        let row = [5, 6, 7].map(|number| Ok(PRESENT | number));
        assert_eq!(contiguous(row.into_iter()).expect("in a row"), 5 * 4096);
        let scattered = [5, 6, 9].map(|number| Ok(PRESENT | number));
        let error = contiguous(scattered.into_iter()).expect_err("a gap");
        assert!(
            matches!(error, PcieError::Scattered { bytes: 8192 }),
            "{error}"
        );
    }

    #[test]
    fn hidden_and_absent_frames_are_an_error() {
        for entry in [PRESENT, 7, 0] {
            let error = contiguous([Ok(entry)].into_iter()).expect_err("no frame");
            assert!(error.to_string().contains("CAP_SYS_ADMIN"), "{error}");
        }
    }

    #[test]
    fn the_table_of_this_process_is_read() {
        let buffer = Buffer::new(PAGE, false).expect("memory");
        let pagemap = Pagemap::open().expect("every process has one");
        match pagemap.map(buffer.base(), PAGE) {
            Ok(address) => assert_eq!(address % PAGE as u64, 0),
            Err(error) => assert!(matches!(error, PcieError::HiddenFrames), "{error}"),
        }
    }
}
