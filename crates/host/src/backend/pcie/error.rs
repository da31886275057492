// SPDX-License-Identifier: Apache-2.0
//! What can go wrong with a board.

use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use rustix::io::Errno;

/// Why the board, or something on it, can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PcieError {
    /// Not a PCI address.
    #[error(
        "{0:?} is not the address of a PCI function; write it as 0000:01:00.0, as lspci -D does"
    )]
    BadAddress(String),
    /// No such function.
    #[error("there is no PCI function {address} in {}; lspci -D lists those there are", devices.display())]
    NoDevice {
        /// The function.
        address: String,
        /// Where it was looked for.
        devices: PathBuf,
    },
    /// `resource` is not as expected.
    #[error("{}: {line:?} is not a line of first address, last address and flags", path.display())]
    BadResource {
        /// The file.
        path: PathBuf,
        /// The line.
        line: String,
    },
    /// A BAR that is missing or too small.
    #[error("BAR {bar} of {} has {bytes} bytes, {least} are needed: is this the board, and is it programmed?", path.display())]
    NoBar {
        /// The function.
        path: PathBuf,
        /// Which BAR.
        bar: usize,
        /// What it has.
        bytes: u64,
        /// What is needed.
        least: u64,
    },
    /// A file of the kernel.
    #[error("{}: {source}; the board needs root, and a kernel that is not locked down", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// BAR 0 is too small.
    #[error("BAR 0 has {bytes} bytes, an IP-NUMA NIC has {least}")]
    SmallBar {
        /// What it has.
        bytes: usize,
        /// What is needed.
        least: usize,
    },
    /// Another device.
    #[error(
        "the device's first register reads {0:#010x}, not \"IPNM\": it is not an IP-NUMA NIC, or does not answer"
    )]
    NotOurs(u32),
    /// Another version.
    #[error(
        "the board has version {board} of the register map, this library knows {ours}: install the library that belongs to the bitstream"
    )]
    Version {
        /// The board's.
        board: u32,
        /// Ours.
        ours: u32,
    },
    /// No memory.
    #[error("no {} of {bytes} bytes: {source}{}", if *huge { "huge pages" } else { "memory" },
        if *huge { "; reserve some in /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages" } else { "" })]
    NoMemory {
        /// How much.
        bytes: usize,
        /// In huge pages.
        huge: bool,
        /// Why.
        source: io::Error,
    },
    /// Physical addresses are not shown.
    #[error(
        "/proc/self/pagemap does not show where memory is: this needs CAP_SYS_ADMIN; use memory = \"vfio\" instead"
    )]
    HiddenFrames,
    /// Not in one piece.
    #[error(
        "only the first {bytes} bytes of the memory are in one piece for the board: ask for 2 MB at most, or use memory = \"vfio\""
    )]
    Scattered {
        /// What is in one piece.
        bytes: usize,
    },
    /// No IOMMU.
    #[error(
        "PCI function {0} has no iommu group: switch the IOMMU on in the firmware and the kernel (intel_iommu=on), or use memory = \"hugepages\""
    )]
    NoIommu(String),
    /// Another driver.
    #[error("PCI function {address} has the driver {}, not vfio-pci: bind it with driverctl set-override {address} vfio-pci", driver.as_deref().unwrap_or("(none)"))]
    NotBound {
        /// The function.
        address: String,
        /// Its driver.
        driver: Option<String>,
    },
    /// Others of the group are in use.
    #[error(
        "another function in the iommu group of {0} has a driver of its own: bind it to vfio-pci, too"
    )]
    NotViable(String),
    /// VFIO refused.
    #[error("VFIO refused {what}: {source}")]
    Vfio {
        /// What was asked.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The configuration.
    #[error("[pcie] in the configuration: {0}")]
    Config(String),
    /// Something on the board is used up.
    #[error("all {what} of the board are in use: close windows or revoke tokens")]
    Exhausted {
        /// What.
        what: &'static str,
    },
    /// A range outside its region.
    #[error("{bytes} bytes at {offset:#x} are outside the region or window of {len} bytes")]
    Outside {
        /// First byte.
        offset: u64,
        /// Length.
        bytes: u64,
        /// What there is.
        len: u64,
    },
    /// Not whole words.
    #[error(
        "{bytes} bytes at {first:#x} can't be shared: a board shares whole words of 4 bytes, of regions up to 4 GB"
    )]
    Granularity {
        /// First byte.
        first: u64,
        /// Length.
        bytes: u64,
    },
    /// Nobody has this address.
    #[error("no peer has the address {0}: add a [[pcie.peer]] to the configuration")]
    UnknownPeer(Ipv4Addr),
    /// A token that this board did not give.
    #[error(
        "the token is not one of a region that this board shares: it was revoked, or is another's"
    )]
    UnknownToken,
}

impl PcieError {
    /// The error number for it.
    #[must_use]
    pub fn errno(&self) -> Errno {
        let of = |error: &io::Error| Errno::from_io_error(error).unwrap_or(Errno::IO);
        match self {
            Self::BadAddress(_)
            | Self::Config(_)
            | Self::Outside { .. }
            | Self::Granularity { .. } => Errno::INVAL,
            Self::NoDevice { .. }
            | Self::NoBar { .. }
            | Self::SmallBar { .. }
            | Self::NotOurs(_)
            | Self::Version { .. }
            | Self::NoIommu(_)
            | Self::NotBound { .. } => Errno::NODEV,
            Self::BadResource { .. } => Errno::IO,
            Self::File { source, .. }
            | Self::NoMemory { source, .. }
            | Self::Vfio { source, .. } => of(source),
            Self::HiddenFrames => Errno::PERM,
            Self::Scattered { .. } => Errno::NOMEM,
            Self::NotViable(_) => Errno::BUSY,
            Self::Exhausted { .. } => Errno::NOSPC,
            Self::UnknownPeer(_) => Errno::HOSTUNREACH,
            Self::UnknownToken => Errno::ACCESS,
        }
    }
}
