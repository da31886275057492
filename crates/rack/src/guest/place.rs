// SPDX-License-Identifier: Apache-2.0
//! Where an access of a guest to its NIC's BARs lies in the address space of its root complex.

use crate::root::{BAR0, BAR2, LINE_BYTES};

/// Functions of a NIC at most: function `n` is device `n` of its guest.
pub(super) const FUNCTIONS: usize = 2;
/// Where the function is in what the NIC is told of a BAR hit.
const FUNCTION_SHIFT: u8 = 3;
/// Bits of a requester ID that are the function.
const FUNCTION_MASK: u16 = 7;
/// Bytes of address space for BAR 0 of each function.
const BAR0_BYTES: u64 = 1 << wire::registers::BAR0_ADDR_W;

/// The NIC that a PCI device of the guest is, and the function of it: one of several NICs has one function.
pub(super) fn seat(device: usize, nics: usize) -> Result<(usize, usize), String> {
    match nics {
        1 => Ok((0, function(device)?)),
        _ if device < nics => Ok((device, 0)),
        _ => Err(format!("PCI device {device} of a guest with {nics} NICs")),
    }
}

/// The PCI device that a NIC is to the guest when it acts with this requester ID.
pub(super) fn seated(nic: usize, id: u16, nics: usize) -> Result<usize, String> {
    match nics {
        1 => requester(id),
        _ => Ok(nic),
    }
}

/// The function that is a PCI device of the guest.
fn function(device: usize) -> Result<usize, String> {
    if device < FUNCTIONS {
        return Ok(device);
    }
    Err(format!(
        "PCI device {device} of the guest, where a NIC has {FUNCTIONS} functions at most"
    ))
}

/// The function whose requester ID this is.
fn requester(id: u16) -> Result<usize, String> {
    function(usize::from(id & FUNCTION_MASK))
}

/// A place in a BAR of the NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// What the NIC is told: function and BAR.
    pub hit: u8,
    /// In the address space of the host's root complex.
    pub address: u64,
}

impl Place {
    pub fn of(which: usize, bar: u8, offset: u64) -> Result<Self, String> {
        let function = function(which)? as u8;
        let base = match bar {
            0 => BAR0 + u64::from(function) * BAR0_BYTES,
            // Only one function has pages.
            2 => BAR2,
            _ => return Err(format!("an access to BAR {bar}, which the NIC has not")),
        };
        Ok(Self {
            hit: function << FUNCTION_SHIFT | bar,
            address: base + offset,
        })
    }
}

/// The parts of an access that lie in one line each, as ranges of its bytes.
pub(super) fn lines(address: u64, length: usize) -> Vec<std::ops::Range<usize>> {
    let mut parts = Vec::new();
    let mut at = 0;
    while at < length {
        let inside = ((address + at as u64) % LINE_BYTES as u64) as usize;
        let end = length.min(at + LINE_BYTES - inside);
        parts.push(at..end);
        at = end;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_places_of_their_own() {
        let place = |device, bar| Place::of(device, bar, 0x10).expect("a BAR of the NIC");
        assert_eq!((place(0, 0).hit, place(0, 0).address), (0, BAR0 + 0x10));
        let second = place(1, 0);
        assert_eq!(
            (second.hit, second.address),
            (0o10, BAR0 + BAR0_BYTES + 0x10)
        );
        assert_eq!((place(1, 2).hit, place(1, 2).address), (0o12, BAR2 + 0x10));
        assert!(Place::of(2, 0, 0).is_err());
        assert!(Place::of(0, 1, 0).is_err());
        assert_eq!((requester(0x0100), requester(0x0101)), (Ok(0), Ok(1)));
        assert!(requester(0x0102).is_err());
    }

    #[test]
    fn a_guest_s_device_is_a_function_or_a_nic() {
        assert_eq!(seat(1, 1), Ok((0, 1)));
        assert_eq!(seat(1, 2), Ok((1, 0)));
        assert_eq!(seat(2, 3), Ok((2, 0)));
        assert!(seat(2, 1).is_err() && seat(2, 2).is_err());
        assert_eq!((seated(0, 0x0101, 1), seated(1, 0x0100, 2)), (Ok(1), Ok(1)));
    }

    #[test]
    fn accesses_by_lines() {
        assert_eq!(lines(0x1000, 64).first(), Some(&(0..64)));
        assert_eq!(lines(0x103C, 8), [0..4, 4..8]);
        assert_eq!(lines(0x1001, 130), [0..63, 63..127, 127..130]);
        assert_eq!(lines(0x1000, 0), Vec::<std::ops::Range<usize>>::new());
    }
}
