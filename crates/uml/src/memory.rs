// SPDX-License-Identifier: Apache-2.0
//! The guest's memory, mapped: the file behind it comes with the vhost-user message SET_MEM_TABLE.
//!
//! The kernel's own code and data are not in that file and can't be reached. Addresses are the guest's physical ones; the
//! kernel gives the rings' addresses in the same numbers.

use std::fs::File;
use std::os::fd::OwnedFd;

use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryMmap};

/// A part of the guest's memory, as SET_MEM_TABLE names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Region {
    pub address: u64,
    pub size: u64,
    pub offset: u64,
}

/// All of the guest's memory that devices can reach. A clone is the same memory.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    regions: Vec<Region>,
    mapped: GuestMemoryMmap,
}

impl Memory {
    /// Maps the regions, each from its file.
    pub fn map(regions: Vec<Region>, files: Vec<OwnedFd>) -> Result<Memory, String> {
        let ranges: Vec<_> = regions
            .iter()
            .zip(files)
            .map(|(region, file)| {
                let size = usize::try_from(region.size).map_err(|_| "a region is too large")?;
                Ok((
                    GuestAddress(region.address),
                    size,
                    Some(FileOffset::new(File::from(file), region.offset)),
                ))
            })
            .collect::<Result<_, &str>>()?;
        let mapped =
            GuestMemoryMmap::from_ranges_with_files(ranges).map_err(|error| error.to_string())?;
        Ok(Memory { regions, mapped })
    }

    /// Whether it is these regions: every device of a guest is told the same ones.
    pub fn is(&self, regions: &[Region]) -> bool {
        self.regions == regions
    }

    /// Reads; false if that is not all inside.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        self.mapped.read_slice(bytes, GuestAddress(address)).is_ok()
    }

    /// Writes; false if that is not all inside, and then a first part may have been written.
    pub fn write(&self, address: u64, bytes: &[u8]) -> bool {
        self.mapped
            .write_slice(bytes, GuestAddress(address))
            .is_ok()
    }

    /// For the rings.
    pub fn mapped(&self) -> &GuestMemoryMmap {
        &self.mapped
    }
}
