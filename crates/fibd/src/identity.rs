// SPDX-License-Identifier: Apache-2.0
//! By what the kernel tells routes of IPv4 to one prefix apart that lead to the same next hops.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::message::{
    Attributes, DEAD, HOP, LINK_DOWN, Malformed, align, route_flags, u16_at, u32_at,
};

/// Flags of next hops and routes that say what becomes of them, and not which they are: dead, in hardware, without a carrier,
/// not resolved, trapped, not taken by the hardware.
const PASSING: u32 = (DEAD | LINK_DOWN | 1 << 3 | 1 << 5 | 1 << 6) as u32
    | route_flags::OFFLOAD
    | route_flags::TRAP
    | route_flags::OFFLOAD_FAILED;

/// What the kernel tells routes of IPv4 apart by, beside where they lead: protocol, scope, metrics, and, unless they go by an
/// object, flags, realm and encapsulation of each next hop.
pub(crate) fn of(head: &[u8], attributes: &[u8], by_object: bool) -> Result<u64, Malformed> {
    const RTA_METRICS: u16 = 8;
    let mut hasher = DefaultHasher::new();
    (head[5], head[6]).hash(&mut hasher);
    for attribute in Attributes(attributes) {
        let (kind, value) = attribute?;
        if kind == RTA_METRICS {
            value.hash(&mut hasher);
        }
    }
    if !by_object {
        let flags = u32_at(head, 8).ok_or(Malformed::Length)?;
        (flags & !PASSING).hash(&mut hasher);
        of_hops(attributes, &mut hasher)?;
    }
    Ok(hasher.finish())
}

fn of_hops(attributes: &[u8], hasher: &mut DefaultHasher) -> Result<(), Malformed> {
    const RTA_MULTIPATH: u16 = 9;
    const RTA_FLOW: u16 = 11;
    const RTA_ENCAP_TYPE: u16 = 21;
    const RTA_ENCAP: u16 = 22;
    for attribute in Attributes(attributes) {
        match attribute? {
            (kind @ (RTA_FLOW | RTA_ENCAP | RTA_ENCAP_TYPE), value) => {
                (kind, value).hash(hasher);
            }
            (RTA_MULTIPATH, mut list) => {
                while list.len() >= HOP {
                    let length = usize::from(u16_at(list, 0).ok_or(Malformed::Length)?);
                    let more = list.get(HOP..length).ok_or(Malformed::Length)?;
                    (u32::from(list[2]) & !PASSING).hash(hasher);
                    of_hops(more, hasher)?;
                    list = list.get(align(length)..).unwrap_or_default();
                }
            }
            _ => {}
        }
    }
    Ok(())
}
