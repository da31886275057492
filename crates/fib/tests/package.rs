// SPDX-License-Identifier: Apache-2.0
//! The RTL writes the layout of the memories down once more: this reads its text and compares.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fib::layout::{self, Field, Memory};

/// Source of a module or package, without comments.
fn source(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../rtl/fibnic")
        .join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let lines: Vec<&str> = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect();
    lines.join("\n")
}

/// A decimal or hexadecimal literal, with or without width.
fn literal(text: &str) -> Option<u64> {
    let text = text.trim().replace('_', "");
    match text.split_once('\'') {
        None => text.parse().ok(),
        Some((_, digits)) if digits.starts_with('d') => digits[1..].parse().ok(),
        Some((_, digits)) if digits.starts_with('h') => u64::from_str_radix(&digits[1..], 16).ok(),
        Some(_) => None,
    }
}

/// Local parameters that are plain numbers.
fn constants(text: &str) -> BTreeMap<String, u64> {
    text.split("localparam")
        .skip(1)
        .filter_map(|part| {
            let (left, right) = part.split_once(';')?.0.split_once('=')?;
            let name = left.split_whitespace().last()?;
            Some((name.to_owned(), literal(right)?))
        })
        .collect()
}

/// Bits of a type: `logic`, `logic [W-1:0]`, or a struct whose width is known.
fn width(text: &str, known: &BTreeMap<String, u64>) -> u32 {
    let value = match text.split_once('[') {
        None if text.trim() == "logic" => 1,
        None => known[text.trim()],
        Some((_, range)) => {
            let top = range.split(':').next().unwrap_or_default();
            match top.split_once('-') {
                None => literal(top).expect("a number at the top of a range") + 1,
                Some((name, _)) => known[name.trim()],
            }
        }
    };
    u32::try_from(value).expect("a width")
}

/// Fields of a packed struct, from the least significant one.
fn fields(text: &str, name: &str, known: &BTreeMap<String, u64>) -> Vec<(String, u32, u32)> {
    let end = text
        .find(&format!("}} {name};"))
        .unwrap_or_else(|| panic!("no struct {name}"));
    let begin = text[..end].rfind('{').expect("a struct begins");
    let mut lsb = 0;
    let mut found = Vec::new();
    for line in text[begin + 1..end].split(';').rev() {
        let Some((kind, name)) = line.trim().rsplit_once([' ', '\n']) else {
            continue;
        };
        let bits = width(kind.trim(), known);
        found.push((name.to_owned(), lsb, bits));
        lsb += bits;
    }
    found
}

fn compare(name: &str, rtl: &[(String, u32, u32)], rust: &[Field]) {
    let rust: Vec<_> = rust
        .iter()
        .map(|f| (f.name.to_owned(), f.lsb, f.width))
        .collect();
    assert_eq!(
        rtl, rust,
        "{name}: name, lsb, width from the lowest field on"
    );
}

/// `v4_host_0` as the RTL has it: `MemV4Host0`.
fn enum_name(name: &str) -> String {
    let mut out = String::from("Mem");
    for part in name.split('_') {
        let (first, rest) = part.split_at(1);
        out += &first.to_uppercase();
        out += rest;
    }
    out
}

#[test]
fn memories_have_the_same_ids() {
    let text = source("fib_pkg.sv");
    let end = text.find("} memory_e;").expect("the enum of memories");
    let begin = text[..end].rfind('{').expect("an enum begins");
    let ids: BTreeMap<String, u64> = text[begin + 1..end]
        .split(',')
        .map(|entry| {
            let (name, id) = entry.split_once('=').expect("every memory has its number");
            (name.trim().to_owned(), literal(id).expect("a number"))
        })
        .collect();
    for memory in Memory::ALL {
        let name = enum_name(memory.name());
        assert_eq!(ids.get(&name), Some(&u64::from(memory.id())), "{name}");
    }
    let distinct: BTreeSet<u64> = ids.values().copied().collect();
    assert_eq!(distinct.len(), ids.len(), "two memories have one number");
    let own: BTreeSet<String> = Memory::ALL.map(|m| enum_name(m.name())).into();
    let others: Vec<&str> = ids
        .keys()
        .filter(|name| !own.contains(*name))
        .map(String::as_str)
        .collect();
    assert_eq!(others, ["MemAcl", "MemDrain", "MemPort"]);
}

#[test]
fn words_have_the_same_fields() {
    let text = source("fib_pkg.sv");
    let mut known = constants(&text);
    let leaf = fields(&text, "leaf_t", &known);
    compare(
        "leaf_t",
        &leaf,
        &[
            layout::LEAF_NEXT_HOP,
            layout::LEAF_PORT,
            layout::LEAF_ESCAPE,
        ],
    );
    known.insert("leaf_t".to_owned(), u64::from(layout::LEAF_BITS));
    let mut checked = BTreeSet::new();
    let mut check = |memories: &[Memory], name: &str, rtl: &[(String, u32, u32)]| {
        for memory in memories {
            compare(name, rtl, layout::fields(*memory));
            checked.insert(*memory);
        }
    };
    check(
        &[Memory::V4Dir],
        "v4_dir_t",
        &fields(&text, "v4_dir_t", &known),
    );
    check(
        &Memory::V6_NODE,
        "v6_node_t",
        &fields(&text, "v6_node_t", &known),
    );
    check(
        &[Memory::V6Tcam],
        "tcam_t",
        &fields(&text, "tcam_t", &known),
    );
    let package = source("fibnic_pkg.sv");
    check(
        &[Memory::NextHop],
        "next_hop_t",
        &fields(&package, "next_hop_t", &known),
    );
    let exact = source("exact_match.sv");
    for (memories, bits) in [(Memory::V4_HOST, 32), (Memory::V6_HOST, 128)] {
        known.insert("KeyW".to_owned(), bits);
        check(&memories, "entry_t", &fields(&exact, "entry_t", &known));
    }
    // These hold a leaf alone; the SRAM's four codes are one field.
    let plain = [("leaf".to_owned(), 0, layout::LEAF_BITS)];
    check(
        &[
            Memory::V4Leaf,
            Memory::V4Group,
            Memory::V6Leaf,
            Memory::Register,
            Memory::Sram22NextHop,
        ],
        "leaf",
        &plain,
    );
    check(&[Memory::Sram22], "codes", &[("codes".to_owned(), 0, 8)]);
    assert_eq!(checked, Memory::ALL.into());
    let widest = Memory::ALL.map(Memory::width).into_iter().max();
    assert!(widest <= u32::try_from(known["WordW"]).ok());
}

#[test]
fn constants_are_the_same() {
    let text = source("fib_pkg.sv");
    let known = constants(&text);
    for (name, value) in [
        ("LeafW", layout::LEAF_BITS.into()),
        ("NextHopW", layout::NEXT_HOPS.ilog2().into()),
        ("V4DirIndexW", layout::V4_DIR_INDEX_BITS.into()),
        ("V6DirectW", layout::V6_DIRECT_BITS.into()),
        ("V6StrideW", layout::V6_STRIDE.into()),
        ("V6Levels", layout::V6_LEVELS as u64),
        ("HostBanks", layout::HOST_BANKS as u64),
        ("PortHost", layout::PORT_HOST.into()),
        ("PortDiscard", layout::PORT_DISCARD.into()),
        ("RegisterDefault4", layout::REGISTER_DEFAULT4.into()),
        ("RegisterDefault6", layout::REGISTER_DEFAULT6.into()),
    ] {
        assert_eq!(known.get(name), Some(&value), "{name}");
    }
    let list = text
        .split_once("HostPolynomials = {")
        .and_then(|(_, rest)| rest.split_once('}'))
        .expect("the polynomials")
        .0;
    // A packed array: the first bank is the last in the text.
    let polynomials: Vec<u64> = list.split(',').rev().filter_map(literal).collect();
    assert_eq!(polynomials, layout::HOST_POLYNOMIALS.map(u64::from));
}
