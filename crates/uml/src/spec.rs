// SPDX-License-Identifier: Apache-2.0
//! What a guest is made of, and what it does: the words that the crate and its callers share.

use std::path::PathBuf;

/// A guest to start.
#[derive(Debug, Clone)]
pub struct GuestSpec {
    /// Its name, in errors and in the seed of its random numbers.
    pub name: String,
    /// The User-Mode Linux kernel ([`crate::kernel`] finds it).
    pub kernel: PathBuf,
    /// Its memory in MB.
    pub memory_mb: u32,
    /// A directory of its own, made if it is missing (not the one it lies in): sockets, `console.log`. It is the working
    /// directory of the kernel's process, so that no path is on the kernel's command line.
    pub directory: PathBuf,
    /// The first program of the guest, a file of the host. It should end by switching the machine off
    /// (`echo o > /proc/sysrq-trigger`, or reboot(2)); if it only ends, the kernel panics.
    pub init: PathBuf,
    /// More of the kernel's command line. It goes into the guest's random pool: no temporary paths, please.
    pub parameters: Vec<String>,
    /// Its devices; an index into these is the `device` of all calls and events.
    pub devices: Vec<DeviceSpec>,
    /// Its programs' time stamp counter (`rdtsc`) is its clock in nanoseconds, and takes as long to read; else it is this
    /// machine's. The C library of most programs reads it when they start.
    pub counter: bool,
    /// A number of its own: the seed of its random numbers, with the name.
    pub id: u64,
}

/// A device of a guest.
#[derive(Debug, Clone)]
pub enum DeviceSpec {
    /// A virtio network card without offloads; frames of up to 1514 bytes.
    Network {
        /// Its hardware address.
        mac: [u8; 6],
    },
    /// The same with a link that can be lost, see [`crate::Guest::set_link`]; it is up when the guest starts.
    NetworkWithLink {
        /// Its hardware address.
        mac: [u8; 6],
    },
    /// A PCI device: the caller is what is behind its BARs.
    Pci(PciSpec),
}

/// The configuration space of a PCI device.
#[derive(Debug, Clone, Default)]
pub struct PciSpec {
    /// Vendor, of the subsystem as well.
    pub vendor: u16,
    /// Device.
    pub device: u16,
    /// Subsystem.
    pub subsystem: u16,
    /// Class, subclass and interface: 24 bits.
    pub class: u32,
    /// Sizes of the BARs, 0 for none: powers of two from 16 bytes to 16 MB, memory with 32-bit addresses. (The kernel's
    /// table of mappings keeps 24 bits of offset.)
    pub bars: [u64; 6],
    /// Interrupt vectors: none, 1 (MSI), or 2 to 32 (MSI-X, whose table is in the highest BAR left unused: 4 KB that this
    /// crate serves).
    pub msi_vectors: u8,
    /// A BAR and an offset where a read of 8 bytes (or of either half) gives the guest's time in ns, at once. The kernel's
    /// own clock counts in steps of 256 ns.
    pub clock: Option<(u8, u64)>,
    /// The driver is interrupted to take back the buffers of its posted writes after so many. A read takes a microsecond more
    /// for each that it has not taken back, so 1 for a device whose driver reads while it works; more saves turns.
    pub posted_before_interrupt: u16,
}

/// Something the guest did, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timed {
    /// The guest's time.
    pub ns: u64,
    /// What it did.
    pub event: GuestEvent,
}

/// Something a guest did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuestEvent {
    /// It sent a frame, which is here without its FCS.
    Frame {
        /// From which device.
        device: usize,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// It wrote to a BAR and does not wait for it. A `memcpy_toio` is one write, however long.
    MmioWrite {
        /// To which device.
        device: usize,
        /// Which BAR.
        bar: u8,
        /// Where in the BAR.
        offset: u64,
        /// What.
        bytes: Vec<u8>,
    },
    /// It reads from a BAR and waits until [`crate::Guest::complete_read`].
    MmioRead {
        /// From which device.
        device: usize,
        /// Which BAR.
        bar: u8,
        /// Where in the BAR.
        offset: u64,
        /// How many bytes.
        length: u32,
        /// What the answer carries.
        tag: u64,
    },
    /// It allowed the device DMA, or forbade it (bus master enable of the command register).
    BusMaster {
        /// Which device.
        device: usize,
        /// Whether it may now.
        on: bool,
    },
    /// It ended; nothing comes after this.
    Exited {
        /// The exit status of the kernel's process: 0 if the machine was switched off, 128 and the signal's number if it
        /// was killed, something else after a panic.
        status: i32,
    },
}

/// What a guest that waits, waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It wants to run at this time, in ns.
    At(u64),
    /// It waits for a device.
    Never,
    /// It ended with this status.
    Exited(i32),
}
