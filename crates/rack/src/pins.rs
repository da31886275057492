// SPDX-License-Identifier: Apache-2.0
//! The switch's pins.

use ipnuma_rtl::NetWord;

/// Ports.
pub const PORTS: usize = 4;

/// Up to eight bytes of a frame from the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostBeat {
    /// Byte 0 in the low bits.
    pub data: u64,
    /// One bit a byte.
    pub keep: u8,
    /// The last one of the frame.
    pub last: bool,
    /// Where the frame goes.
    pub port: u8,
}

/// Up to eight bytes of a frame for the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostOut {
    /// Byte 0 in the low bits.
    pub data: u64,
    /// One bit a byte.
    pub keep: u8,
    /// The last one of the frame.
    pub last: bool,
    /// With the last: the frame ended bad.
    pub bad: bool,
    /// Where the frame came in.
    pub port: u8,
    /// Why.
    pub verdict: u8,
}

/// One word for a memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchWrite {
    /// Which.
    pub memory: u8,
    /// Where.
    pub address: u32,
    /// What.
    pub data: [u64; 3],
}

/// Inputs.
#[derive(Clone, Copy, Debug)]
pub struct SwitchInputs {
    /// Reset.
    pub rst: bool,
    /// Words from the PHYs.
    pub net: [NetWord; PORTS],
    /// From the host.
    pub host: Option<HostBeat>,
    /// The host takes.
    pub host_ready: bool,
    /// Write channel.
    pub write: Option<SwitchWrite>,
    /// Counter to read.
    pub counter: u16,
}

/// Outputs.
#[derive(Clone, Copy, Debug)]
pub struct SwitchOutputs {
    /// Words to the PHYs.
    pub net: [NetWord; PORTS],
    /// For the host.
    pub host: Option<HostOut>,
    /// The host's beat is taken.
    pub host_in_ready: bool,
    /// The write is taken.
    pub write_ready: bool,
    /// The counter.
    pub counter: u32,
    /// Ports in store-and-check.
    pub check: u8,
    /// Something is under way.
    pub busy: bool,
}
