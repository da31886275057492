// SPDX-License-Identifier: Apache-2.0
//! BAR 0: registers, counter windows and table windows.

/// Bits of an offset in BAR 0 (8 MB).
pub const BAR0_ADDR_W: u32 = 23;
/// Bits of an offset in BAR 2 (1 GB: 262,144 pages of 4 KB).
pub const BAR2_ADDR_W: u32 = 30;
/// Bytes of a page.
pub const PAGE_BYTES: u32 = 4096;
/// What [`REG_ID`] reads: "IPNM".
pub const ID_VALUE: u32 = 0x4950_4E4D;
/// What [`REG_VERSION`] reads: major version in the upper half, minor in the lower.
pub const VERSION_VALUE: u32 = 0x0002_0000;
/// Microseconds that a load waits for its completion, after reset.
pub const READ_TIMEOUT_US_RESET: u32 = 100;

/// Who may write a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read only; a write is refused and counted.
    ReadOnly,
    /// Read and write.
    ReadWrite,
    /// Writing does something; it reads as 0.
    WriteOnly,
}

/// What a register holds after reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// This value.
    Value(u32),
    /// Depends on how the NIC was built.
    Build,
}

/// One register of BAR 0.
#[derive(Clone, Copy, Debug)]
pub struct Register {
    /// Name, without the prefix `REG_`.
    pub name: &'static str,
    /// Offset in BAR 0, in bytes.
    pub offset: u32,
    /// Who may write it.
    pub access: Access,
    /// Value after reset.
    pub reset: Reset,
    /// The bits that exist; the others read as 0.
    pub mask: u32,
    /// What it is.
    pub doc: &'static str,
}

/// One window of BAR 0.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Name of the constant that holds the base.
    pub name: &'static str,
    /// Offset of the first entry in BAR 0, in bytes.
    pub base: u32,
    /// Bytes from one entry to the next.
    pub entry_bytes: u32,
    /// Bytes until the next window begins.
    pub bytes: u32,
    /// What it holds.
    pub doc: &'static str,
}

macro_rules! registers {
    ($($constant:ident $name:literal = $offset:literal, $access:ident, $reset:expr, $mask:literal, $doc:literal;)*) => {
        $(#[doc = concat!("Offset in BAR 0: ", $doc)] pub const $constant: u32 = $offset;)*
        /// All registers, by offset.
        pub const REGISTERS: &[Register] = &[$(Register {
            name: $name,
            offset: $offset,
            access: Access::$access,
            reset: $reset,
            mask: $mask,
            doc: $doc,
        }),*];
    };
}

pub(crate) use registers;

registers! {
    REG_ID "ID" = 0x00, ReadOnly, Reset::Value(ID_VALUE), 0xFFFF_FFFF,
        "\"IPNM\": says that this is an IP-NUMA NIC";
    REG_VERSION "VERSION" = 0x04, ReadOnly, Reset::Value(VERSION_VALUE), 0xFFFF_FFFF,
        "version of this register map: major in bits 31:16, minor in bits 15:0";
    REG_FEATURES "FEATURES" = 0x08, ReadOnly, Reset::Build, 0xF71F_1F1F,
        "how it was built: bits 4:0 log2 of the pages, 12:8 log2 of the PC IDs, 20:16 log2 of the regions, bit 24 the compact format is understood, bit 25 it has sessions, bit 26 it can seal them, 31:28 log2 of the sessions";
    REG_MAC_LO "MAC_LO" = 0x10, ReadWrite, Reset::Value(0), 0xFFFF_FFFF,
        "own MAC address, bits 31:0 (the last four bytes on the wire)";
    REG_MAC_HI "MAC_HI" = 0x14, ReadWrite, Reset::Value(0), 0x0000_FFFF,
        "own MAC address, bits 47:32 (the first two bytes on the wire)";
    REG_IP "IP" = 0x18, ReadWrite, Reset::Value(0), 0xFFFF_FFFF,
        "own IPv4 address as a number: 10.0.0.1 is 0x0A000001";
    REG_NETMASK "NETMASK" = 0x1C, ReadWrite, Reset::Value(0), 0xFFFF_FFFF,
        "own netmask; a peer that differs from the own address under it is reached through the gateway";
    REG_GATEWAY_IP "GATEWAY_IP" = 0x20, ReadWrite, Reset::Value(0), 0xFFFF_FFFF,
        "the gateway's IPv4 address, a note for software: the NIC uses only its MAC address";
    REG_GATEWAY_MAC_LO "GATEWAY_MAC_LO" = 0x24, ReadWrite, Reset::Value(0), 0xFFFF_FFFF,
        "the gateway's MAC address, bits 31:0";
    REG_GATEWAY_MAC_HI "GATEWAY_MAC_HI" = 0x28, ReadWrite, Reset::Value(0), 0x0000_FFFF,
        "the gateway's MAC address, bits 47:32";
    REG_READ_TIMEOUT_US "READ_TIMEOUT_US" = 0x2C, ReadWrite, Reset::Value(READ_TIMEOUT_US_RESET), 0xFFFF_FFFF,
        "microseconds that a load waits for its completion, and a DMA read for its answer";
    REG_EPOCH "EPOCH" = 0x30, ReadWrite, Reset::Value(0), 0x0000_00FF,
        "sent in every frame of the tlp format; software changes it when the host restarts";
    REG_LAST_ERROR "LAST_ERROR" = 0x34, ReadOnly, Reset::Value(0), 0xFFFF_FFFF,
        "last error report received: sequence in bits 31:16, fmt/type of the refused operation in 15:8, code in 7:0 (0: none yet)";
    REG_LAST_ERROR_ADDR_LO "LAST_ERROR_ADDR_LO" = 0x38, ReadOnly, Reset::Value(0), 0xFFFF_FFFF,
        "wire address of the refused operation, bits 31:0 (the offset)";
    REG_LAST_ERROR_ADDR_HI "LAST_ERROR_ADDR_HI" = 0x3C, ReadOnly, Reset::Value(0), 0xFFFF_FFFF,
        "wire address of the refused operation, bits 63:32 (the key)";
    REG_LAST_ERROR_IP "LAST_ERROR_IP" = 0x40, ReadOnly, Reset::Value(0), 0xFFFF_FFFF,
        "IPv4 address that sent the last error report";
    REG_CONTROL "CONTROL" = 0x44, ReadWrite, Reset::Value(0), 0x0000_0003,
        "bit 0 stores that wait anyway may travel in one frame, bit 1 sealed frames are opened and sent";
    REG_RESEND_TICKS "RESEND_TICKS" = 0x48, ReadWrite, Reset::Value(200), 0x0000_FFFF,
        "ticks without progress after which a session sends again, at least: twice its round trip if that is longer";
    REG_ACK_TICKS "ACK_TICKS" = 0x4C, ReadWrite, Reset::Value(5), 0x0000_00FF,
        "ticks that an acknowledgement waits for a frame that takes it along";
    REG_RESEND_LIMIT "RESEND_LIMIT" = 0x50, ReadWrite, Reset::Value(0x360A), 0x0000_FFFF,
        "bits 7:0 time-outs in a row after which the peer is lost, 11:8 how often the time-out doubles at most, 15:12 how often it is doubled while the round trip is not known, and for a long one at most (0: round trips are not measured)";
    REG_WINDOW "WINDOW" = 0x54, ReadWrite, Reset::Value(0x0320_0878), 0x0FFF_FFFF,
        "bits 7:0 most frames in flight of a session, 15:8 acknowledge at once after so many frames, 23:16 the interval between frames shrinks after so many acknowledged frames, 27:24 it grows by interval >> this on a negative acknowledgement";
    REG_LOAD_RETRY_US "LOAD_RETRY_US" = 0x58, ReadWrite, Reset::Value(30), 0x0000_FFFF,
        "microseconds after which an unanswered load of a session is sent again; 0: never";
    REG_FLUSH "FLUSH" = 0x5C, WriteOnly, Reset::Value(0), 0xFFFF_FFFF,
        "bits 31:16 cookie, 15:0 PC ID: an event with the cookie says when all earlier stores to the peer are delivered";
    REG_EVENT_BASE_LO "EVENT_BASE_LO" = 0x60, ReadWrite, Reset::Value(0), 0xFFFF_FFF0,
        "local address of the event ring, bits 31:0; 16-byte aligned";
    REG_EVENT_BASE_HI "EVENT_BASE_HI" = 0x64, ReadWrite, Reset::Value(0), 0xFFFF_FFFF,
        "local address of the event ring, bits 63:32";
    REG_EVENT_LOG2 "EVENT_LOG2" = 0x68, ReadWrite, Reset::Value(0), 0x0000_001F,
        "log2 of the entries of the event ring, 1 to 16; 0: off; writing it empties the ring";
    REG_EVENT_TAIL "EVENT_TAIL" = 0x6C, ReadWrite, Reset::Value(0), 0xFFFF_FFFF,
        "events that software has taken since EVENT_LOG2 was written; the NIC writes none while the ring is full";
    REG_MSI_ADDRESS_LO "MSI_ADDRESS_LO" = 0x70, ReadWrite, Reset::Value(0), 0xFFFF_FFFC,
        "address that an interrupt is written to, bits 31:0; DW aligned";
    REG_MSI_ADDRESS_HI "MSI_ADDRESS_HI" = 0x74, ReadWrite, Reset::Value(0), 0xFFFF_FFFF,
        "address that an interrupt is written to, bits 63:32";
    REG_MSI_DATA "MSI_DATA" = 0x78, ReadWrite, Reset::Value(0), 0xFFFF_FFFF,
        "what an interrupt writes";
    REG_MSI_MODERATION_US "MSI_MODERATION_US" = 0x7C, ReadWrite, Reset::Value(0), 0x0000_FFFF,
        "microseconds from one interrupt to the next at least; a cause in between waits";
    REG_MSI_CONTROL "MSI_CONTROL" = 0x80, ReadWrite, Reset::Value(0), 0x0000_0003,
        "bit 0 interrupt when a region with the notify right was written, bit 1 when an event was written";
    REG_PACE "PACE" = 0x84, ReadWrite, Reset::Value(0x0100_61FF), 0xFFFF_FFFF,
        "bits 11:0 longest interval between frames of a session in network cycles (0: never paced; a receiver may ask for more), 15:12 it shrinks by interval >> this, 31:16 ticks without acknowledged frames after which it shrinks too";
}

macro_rules! windows {
    ($($constant:ident = $base:literal, $entry:literal, $bytes:literal, $doc:literal;)*) => {
        $(#[doc = concat!("Offset in BAR 0 of the window: ", $doc)] pub const $constant: u32 = $base;)*
        /// All windows, by offset.
        pub const WINDOWS: &[Window] = &[$(Window {
            name: stringify!($constant),
            base: $base,
            entry_bytes: $entry,
            bytes: $bytes,
            doc: $doc,
        }),*];
    };
}

windows! {
    PCIE_COUNTER_BASE = 0x00_1000, 4, 0x1000, "counters of the PCIe side, read only";
    NET_COUNTER_BASE = 0x00_2000, 4, 0x1000, "counters of the network side, read only";
    SESSION_BASE = 0x01_0000, 32, 0x2000, "sessions";
    KEY_BASE = 0x02_0000, 64, 0x4000, "keys of sealed sessions, write only: they read as 0";
    SESSION_STATUS_BASE = 0x03_0000, 32, 0x2000, "state of the sessions, read only";
    PC_ID_BASE = 0x10_0000, 16, 0x10_0000, "PC ID table";
    REGION_BASE = 0x20_0000, 32, 0x20_0000, "shared-region table";
    PAGE_MAP_BASE = 0x40_0000, 8, 0x40_0000, "page map";
}

/// Finds a register by its offset.
#[must_use]
pub fn register(offset: u32) -> Option<&'static Register> {
    REGISTERS.iter().find(|r| r.offset == offset)
}

/// Finds the window that holds an offset.
#[must_use]
pub fn window(offset: u32) -> Option<&'static Window> {
    WINDOWS
        .iter()
        .find(|w| offset >= w.base && offset - w.base < w.bytes)
}

/// What `FEATURES` reads for a NIC of this build; the numbers of entries are powers of two.
/// `auth` says whether it can seal sessions.
#[must_use]
pub const fn features(pages: u32, pc_ids: u32, regions: u32, sessions: u32, auth: bool) -> u32 {
    sessions.ilog2() << 28
        | (auth as u32) << 26
        | 1 << 25
        | 1 << 24
        | regions.ilog2() << 16
        | pc_ids.ilog2() << 8
        | pages.ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overlaps() {
        for pair in REGISTERS.windows(2) {
            assert!(pair[0].offset + 4 <= pair[1].offset, "{}", pair[1].name);
        }
        assert!(
            REGISTERS
                .iter()
                .all(|r| r.offset < PCIE_COUNTER_BASE && r.offset % 4 == 0)
        );
        for pair in WINDOWS.windows(2) {
            assert!(
                pair[0].base + pair[0].bytes <= pair[1].base,
                "{}",
                pair[1].name
            );
        }
        let last = WINDOWS[WINDOWS.len() - 1];
        assert!(last.base + last.bytes <= 1 << BAR0_ADDR_W);
    }

    #[test]
    fn features_of_the_default_build() {
        assert_eq!(features(262_144, 256, 256, 64, true), 0x6708_0812);
    }
}
