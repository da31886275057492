// SPDX-License-Identifier: Apache-2.0
//! The driver's list of registers and tables is that of `crates/wire`.

use std::collections::HashMap;

fn defines(text: &str) -> HashMap<&str, u64> {
    let lines = text
        .lines()
        .filter_map(|line| line.strip_prefix("#define "));
    lines
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let (name, value) = (words.next()?, words.next()?);
            let value = match value.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16),
                None => value.parse(),
            };
            Some((name, value.ok()?))
        })
        .collect()
}

#[test]
fn the_driver_knows_the_nic() {
    let header = defines(include_str!("../../../linux/ipnuma/ipnuma_hw.h"));
    let mut registers = 0;
    for (name, value) in &header {
        let Some(register) = name.strip_prefix("REG_") else {
            continue;
        };
        let known = wire::registers::REGISTERS
            .iter()
            .find(|known| known.name == register);
        assert_eq!(
            known.map(|known| u64::from(known.offset)),
            Some(*value),
            "{name}"
        );
        registers += 1;
    }
    let there = header
        .keys()
        .filter(|name| name.starts_with("REG_"))
        .count();
    assert_eq!(registers, there);
    assert!(there >= 15, "{there} registers were found in the header");
    use wire::registers as r;
    for (name, value) in [
        ("BAR0_BYTES", 1 << r::BAR0_ADDR_W),
        ("ID_VALUE", u64::from(r::ID_VALUE)),
        ("VERSION_MAJOR", u64::from(r::VERSION_VALUE >> 16)),
        ("SESSION_BASE", u64::from(r::SESSION_BASE)),
        ("KEY_BASE", u64::from(r::KEY_BASE)),
        ("KEY_DWS", wire::KeyEntry::DWS as u64),
        ("KEY_USE_BEGIN", wire::KeyUse::Begin.to_dw().into()),
        (
            "KEY_USE_RECEIVE",
            wire::KeyUse::Receive(false).to_dw().into(),
        ),
        ("KEY_USE_SEND", wire::KeyUse::Send(false).to_dw().into()),
        ("PC_ID_BASE", u64::from(r::PC_ID_BASE)),
        ("REGION_BASE", u64::from(r::REGION_BASE)),
        ("PAGE_MAP_BASE", u64::from(r::PAGE_MAP_BASE)),
        ("UDP_PORT", u64::from(wire::UDP_PORT)),
        ("EVENT_ERR_BAD_KEY", u64::from(wire::ERR_BAD_KEY)),
        ("EVENT_ERR_BAD_BOUNDS", u64::from(wire::ERR_BAD_BOUNDS)),
        ("EVENT_PEER_LOST", u64::from(wire::EVENT_PEER_LOST)),
        ("EVENT_FLUSHED", u64::from(wire::EVENT_FLUSHED)),
        ("EVENT_FLUSH_FAILED", u64::from(wire::EVENT_FLUSH_FAILED)),
        ("EVENT_LINK_DOWN", u64::from(wire::EVENT_LINK_DOWN)),
        ("EVENT_LINK_UP", u64::from(wire::EVENT_LINK_UP)),
        ("EVENT_OVERFLOW", u64::from(wire::EVENT_OVERFLOW)),
        ("EVENT_BYTES", wire::EventEntry::BYTES as u64),
    ] {
        assert_eq!(header.get(name), Some(&value), "{name}");
    }
    let session = wire::SessionEntry {
        valid: true,
        sealed: true,
        epoch: 1,
        ..wire::SessionEntry::default()
    };
    let word =
        header["SESSION_VALID"] | header["SESSION_SEALED"] | 1 << header["SESSION_EPOCH_SHIFT"];
    assert_eq!(u64::from(session.to_dws()[7]), word);
    let peer = wire::PcIdEntry {
        session: true,
        compact: true,
        valid: true,
        ..wire::PcIdEntry::default()
    };
    let word = header["PC_VALID"] | header["PC_COMPACT"] | header["PC_SESSION"];
    assert_eq!(u64::from(peer.to_dws()[3]), word);
    let region = wire::RegionEntry {
        number: 1,
        bound: true,
        valid: true,
        write: true,
        read: true,
        notify: true,
        session: true,
        sealed: true,
        ..wire::RegionEntry::default()
    };
    let word = [
        "VALID", "WRITE", "READ", "NOTIFY", "SESSION", "SEALED", "BOUND",
    ]
    .map(|bit| header[format!("REGION_{bit}").as_str()])
    .iter()
    .sum::<u64>()
        | 1 << header["REGION_NUMBER_SHIFT"];
    assert_eq!(u64::from(region.to_dws()[7]), word);
}
