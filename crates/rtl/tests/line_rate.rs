// SPDX-License-Identifier: Apache-2.0
//! Stores of 64 bytes, back to back, through two 10G NICs: the wire has no gap but the smallest
//! allowed, and everything arrives, in order, while the receiving host pauses at random.
//!
//! `IPNUMA_SEED` repeats a run, `IPNUMA_STORES` changes its length.

use std::env;

use ipnuma_rtl::{Error, NetSpeed, NetWord, Nic, NicInputs, TlpBeat};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const PCIE_PS: u64 = 4_000;
const NET_PS: u64 = 6_400;
const REGISTERS: u8 = 0;
const PAGES: u8 = 2;
/// Where the region lies in the receiver's memory.
const BASE: u32 = 0x10_0000;
const STORE_DW: usize = 16;
/// Preamble, headers, payload with packet header and end code, FCS, gap.
const FRAME_BYTES: u64 = 8 + 42 + (8 + 4 * STORE_DW as u64 + 2) + 4 + 12;
/// Cycles without a beat, at most: only so that the test does not hang.
const PATIENCE: u32 = 10_000;

/// Bytes of a memory write of whole DWs with a 3-DW header.
fn memory_write(address: u32, data: &[u32]) -> Vec<u8> {
    let be = if data.len() > 1 { 0xFF } else { 0x0F };
    let mut tlp = vec![0x40, 0, 0, data.len() as u8, 0, 0, 0, be];
    tlp.extend(address.to_be_bytes());
    tlp.extend(data.iter().flat_map(|dw| dw.to_le_bytes()));
    tlp
}

fn beats(tlp: &[u8], bar: u8) -> Vec<TlpBeat> {
    let count = tlp.len().div_ceil(8);
    tlp.chunks(8)
        .enumerate()
        .map(|(i, chunk)| {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            TlpBeat {
                data: u64::from_le_bytes(bytes),
                keep: if chunk.len() == 8 { 0xFF } else { 0x0F },
                last: i + 1 == count,
                user: bar,
            }
        })
        .collect()
}

fn store(n: u32) -> Vec<u32> {
    (0..STORE_DW as u32).map(|i| n << 4 | i).collect()
}

/// One PCIe edge of a NIC; whether its offered beat was taken, and the beat it gave.
fn pcie_edge(nic: &mut Nic) -> Result<(bool, Option<TlpBeat>), Error> {
    let ready = nic.inputs.m_tlp_ready;
    let before = nic.settle()?;
    let taken = before.s_tlp_ready;
    let given = before.m_tlp.filter(|_| ready);
    nic.edge(true, false)?;
    Ok((taken && nic.inputs.s_tlp.is_some(), given))
}

fn net_edge(a: &mut Nic, b: &mut Nic) -> Result<(), Error> {
    // XGMII outputs are registers: as the last edge left them.
    (a.inputs.net, b.inputs.net) = (b.outputs().net, a.outputs().net);
    for nic in [a, b] {
        nic.settle()?;
        nic.edge(false, true)?;
    }
    Ok(())
}

/// Writes registers through TLPs, with both clocks running.
fn configure(a: &mut Nic, b: &mut Nic, to_a: bool, writes: &[(u32, u32)]) -> Result<(), Error> {
    for &(address, value) in writes {
        for beat in beats(&memory_write(address, &[value]), REGISTERS) {
            let nic = if to_a { &mut *a } else { &mut *b };
            nic.inputs.s_tlp = Some(beat);
            while !pcie_edge(if to_a { &mut *a } else { &mut *b })?.0 {
                net_edge(a, b)?;
            }
        }
        if to_a {
            a.inputs.s_tlp = None;
        } else {
            b.inputs.s_tlp = None;
        }
        for _ in 0..20 {
            pcie_edge(a)?;
            pcie_edge(b)?;
            net_edge(a, b)?;
        }
    }
    Ok(())
}

/// Finds the lane of a start of frame.
fn start_lane(word: NetWord) -> Option<u64> {
    let NetWord::Xgmii { data, control } = word else {
        unreachable!("a 10G NIC speaks XGMII")
    };
    [0, 4]
        .into_iter()
        .find(|lane| control >> lane & 1 == 1 && data >> (8 * lane) & 0xFF == 0xFB)
}

/// Two NICs, A with a page and B with the region behind it.
fn pair() -> Result<(Nic, Nic), Error> {
    let mut a = Nic::new(NetSpeed::TenGig)?;
    let mut b = Nic::new(NetSpeed::TenGig)?;
    for nic in [&mut a, &mut b] {
        nic.inputs = NicInputs {
            m_tlp_ready: true,
            ..nic.inputs
        };
        nic.reset()?;
    }
    let own = |last: u32| {
        [
            (0x10, 0xAABB_CC00 | last),
            (0x14, 0x02),
            (0x18, 0x0A00_0000 | last),
        ]
    };
    configure(&mut a, &mut b, true, &own(1))?;
    configure(&mut a, &mut b, false, &own(2))?;
    // PC ID 1 is B, in the compact format; page 0 is B's region 0.
    let peer = [0x0A00_0002, 0xAABB_CC02, 3422 << 16 | 0x02, 0b11];
    let pc_id: Vec<_> = (0..4)
        .map(|i| (0x10_0010 + 4 * i, peer[i as usize]))
        .collect();
    configure(&mut a, &mut b, true, &pc_id)?;
    configure(
        &mut a,
        &mut b,
        true,
        &[(0x1C, 0xFFFF_FF00), (0x40_0000, 0), (0x40_0004, 1 << 16)],
    )?;
    let region = [BASE, 0, 0, 0xFFF, 0, 0, 0, 0b011];
    let region: Vec<_> = (0..8)
        .map(|i| (0x20_0000 + 4 * i, region[i as usize]))
        .collect();
    configure(&mut a, &mut b, false, &region)?;
    Ok((a, b))
}

/// The starts of frames on a wire: from one to the next is what one frame takes.
#[derive(Default)]
struct Wire {
    /// Bytes before the current word.
    position: u64,
    first_start: Option<u64>,
    last_start: Option<u64>,
    frames: u32,
}

impl Wire {
    fn word(&mut self, word: NetWord) {
        if let Some(lane) = start_lane(word) {
            let start = self.position + lane;
            if let Some(last) = self.last_start {
                let distance: u64 = start - last;
                // Gaps of 9 to 15 bytes, and never more.
                assert!(
                    (FRAME_BYTES - 4..=FRAME_BYTES + 4).contains(&distance),
                    "{distance} bytes from start {} to the next",
                    self.frames
                );
            }
            self.first_start.get_or_insert(start);
            self.last_start = Some(start);
            self.frames += 1;
        }
        self.position += 8;
    }

    /// Bytes from the first start to the last.
    fn length(&self) -> u64 {
        self.last_start.unwrap_or(0) - self.first_start.unwrap_or(0)
    }
}

/// The host that stores, as fast as its NIC takes it.
struct Sender {
    stores: u32,
    sent: u32,
    /// What is left of the current store, last beat first.
    queue: Vec<TlpBeat>,
}

impl Sender {
    fn edge(&mut self, nic: &mut Nic) -> Result<(), Error> {
        if self.queue.is_empty() && self.sent < self.stores {
            self.queue = beats(&memory_write(self.sent % 64 * 64, &store(self.sent)), PAGES);
            self.queue.reverse();
            self.sent += 1;
        }
        nic.inputs.s_tlp = self.queue.last().copied();
        if pcie_edge(nic)?.0 {
            self.queue.pop();
        }
        Ok(())
    }
}

/// The host that is stored to.
#[derive(Default)]
struct Receiver {
    /// The part of cycles in which it takes nothing.
    pauses: f64,
    arrived: u32,
    /// The store that is next, and the beat of it.
    expected: Vec<TlpBeat>,
    at: usize,
    /// Cycles since the last beat.
    quiet: u32,
}

impl Receiver {
    fn edge(&mut self, nic: &mut Nic, rng: &mut ChaCha8Rng) -> Result<(), Error> {
        let arrived = self.arrived;
        if self.expected.is_empty() {
            let tlp = memory_write(BASE + arrived % 64 * 64, &store(arrived));
            self.expected = beats(&tlp, 0);
            self.at = 0;
        }
        nic.inputs.m_tlp_ready = !rng.random_bool(self.pauses);
        self.quiet += 1;
        if let (_, Some(beat)) = pcie_edge(nic)? {
            let want = self.expected[self.at];
            let mask = if want.keep == 0xFF { !0 } else { 0xFFFF_FFFF };
            assert_eq!(
                (beat.data & mask, beat.keep, beat.last),
                (want.data, want.keep, want.last),
                "beat {} of store {arrived}",
                self.at
            );
            self.at += 1;
            if want.last {
                self.arrived += 1;
                self.expected.clear();
            }
            self.quiet = 0;
        }
        assert!(
            self.quiet < PATIENCE,
            "nothing arrives after {} stores",
            self.arrived
        );
        Ok(())
    }
}

#[test]
fn stores_at_line_rate_all_arrive() -> Result<(), Error> {
    let number = |name: &str| env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let seed = number("IPNUMA_SEED").unwrap_or_else(rand::random);
    let stores = number("IPNUMA_STORES").unwrap_or(100_000) as u32;
    println!("seed {seed}, {stores} stores");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (mut a, mut b) = pair()?;

    // Odd phases: no two edges at the same time.
    let mut next_a = 1 + 2 * rng.random_range(0..PCIE_PS / 2);
    let mut next_b = 1 + 2 * rng.random_range(0..PCIE_PS / 2);
    let mut next_net = 0;
    let pauses: f64 = rng.random_range(0.0..0.4);
    println!("phases {next_a} and {next_b} ps, pauses {pauses:.2}");

    let mut wire = Wire::default();
    let mut sender = Sender {
        stores,
        sent: 0,
        queue: Vec::new(),
    };
    let mut receiver = Receiver {
        pauses,
        ..Receiver::default()
    };
    while receiver.arrived < stores {
        let now = next_a.min(next_b).min(next_net);
        if now == next_net {
            next_net += NET_PS;
            net_edge(&mut a, &mut b)?;
            wire.word(a.outputs().net);
        } else if now == next_a {
            next_a += PCIE_PS;
            sender.edge(&mut a)?;
        } else {
            next_b += PCIE_PS;
            receiver.edge(&mut b, &mut rng)?;
        }
    }
    let (frames, length) = (wire.frames, wire.length());
    assert_eq!(frames, stores);
    let exact = FRAME_BYTES * u64::from(stores - 1);
    assert!(
        length.abs_diff(exact) <= 8,
        "{length} bytes on the wire, not {exact}"
    );
    println!("{frames} frames, {length} byte times from the first start to the last");
    Ok(())
}
