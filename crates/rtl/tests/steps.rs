// SPDX-License-Identifier: Apache-2.0
//! Models that are evaluated in halves do what they do when they are evaluated whole, as they are while waves are written.

use std::path::Path;

use ipnuma_rtl::{Error, NetSpeed, NetWord, Nic, Switch, SwitchSize, TlpBeat};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Format and type of a memory write with a 32-bit address.
const MWR32: u8 = 0x40;
const EDGES: usize = 3_000;
/// So long goes on what has not crossed yet: what crosses, and when, the seed decides.
const MOST_EDGES: usize = 100 * EDGES;
const SPEEDS: [NetSpeed; 2] = [NetSpeed::TenGig, NetSpeed::OneGig];

fn random(name: &str) -> ChaCha8Rng {
    let seed = match std::env::var("IPNUMA_SEED") {
        Ok(seed) => seed.parse().expect("IPNUMA_SEED is a number"),
        Err(_) => rand::random(),
    };
    println!("{name}: IPNUMA_SEED={seed}");
    ChaCha8Rng::seed_from_u64(seed)
}

fn word(speed: NetSpeed, random: &mut ChaCha8Rng) -> NetWord {
    if random.random_ratio(3, 4) {
        return speed.idle();
    }
    match speed {
        NetSpeed::TenGig => NetWord::Xgmii {
            data: random.random(),
            control: random.random(),
        },
        NetSpeed::OneGig => NetWord::Gmii {
            data: random.random(),
            enable: random.random(),
            error: random.random_ratio(1, 50),
        },
    }
}

/// A store of one DW, to a register or a page: header, address and data.
fn store(random: &mut ChaCha8Rng) -> [TlpBeat; 2] {
    let user = [0, 2][random.random_range(0..2)];
    let address = random.random_range(0..0x80_u32) * 4;
    let head = u64::from(MWR32) | 1 << 24 | 0xF << 56;
    let rest = u64::from(address.swap_bytes()) | u64::from(random.random::<u32>()) << 32;
    [(head, false), (rest, true)].map(|(data, last)| TlpBeat {
        data,
        keep: 0xFF,
        last,
        user,
    })
}

fn nics_agree(make: fn(NetSpeed) -> Result<Nic, Error>, speed: NetSpeed, waves: &Path) {
    let mut random = random("nic");
    let [mut halves, mut whole] = [make(speed), make(speed)].map(|nic| nic.expect("it is built"));
    whole.trace(waves).expect("waves can be written");
    for nic in [&mut halves, &mut whole] {
        nic.reset().expect("reset works");
    }
    // At rest no synchroniser holds anything else than what it reads.
    for _ in 0..64 {
        halves.edge(true, true).expect("it has an edge");
        whole.edge(true, true).expect("it has an edge");
    }
    assert!(!halves.crossing(), "crossings of a NIC at rest are told");
    let mut beats = Vec::new();
    let mut crossed = false;
    let mut next = [4_000, 4_000 + random.random_range(0..4_000)];
    for edge in 0.. {
        if edge >= EDGES && crossed {
            break;
        }
        assert!(
            edge < MOST_EDGES,
            "nothing went from one clock to the other"
        );
        if beats.is_empty() && random.random_ratio(1, 8) {
            beats = store(&mut random).into_iter().rev().collect();
        }
        // As the clocks run: the NIC relies on their periods.
        let now = next[0].min(next[1]);
        let [pcie, net] = next.map(|next| next == now);
        next[0] += u64::from(pcie) * 4_000;
        next[1] += u64::from(net) * speed.net_period_ps();
        let (ready, word) = (random.random(), word(speed, &mut random));
        let change = random.random_ratio(1, 4);
        for nic in [&mut halves, &mut whole] {
            nic.set_time(now);
            nic.inputs.s_tlp = beats.last().copied();
            if change {
                nic.inputs.m_tlp_ready = ready;
                nic.inputs.net = word;
            }
        }
        let before = *halves.settle().expect("it settles");
        assert_eq!(
            before,
            *whole.settle().expect("it settles"),
            "before edge {edge}"
        );
        let after = *halves.edge(pcie, net).expect("it has an edge");
        assert_eq!(
            after,
            *whole.edge(pcie, net).expect("it has an edge"),
            "edge {edge}"
        );
        assert_eq!(halves.crossing(), whole.crossing(), "edge {edge}");
        crossed |= halves.crossing();
        if pcie && before.s_tlp_ready {
            beats.pop();
        }
    }
}

#[test]
fn nics_in_halves() {
    let directory = tempfile::tempdir().expect("there is room");
    for speed in SPEEDS {
        for make in [Nic::new, Nic::ring] {
            nics_agree(make, speed, &directory.path().join("nic.fst"));
        }
    }
}

#[test]
fn switches_in_halves() {
    let directory = tempfile::tempdir().expect("there is room");
    for speed in SPEEDS {
        let mut random = random("switch");
        let make = || Switch::new(speed, SwitchSize::Small).expect("it is built");
        let (mut halves, mut whole) = (make(), make());
        let waves = directory.path().join("switch.fst");
        whole.trace(&waves).expect("waves can be written");
        for switch in [&mut halves, &mut whole] {
            switch.reset().expect("reset works");
        }
        for edge in 0..EDGES / 3 {
            let words = std::array::from_fn(|_| word(speed, &mut random));
            let (change, ready) = (random.random_ratio(1, 3), random.random());
            for switch in [&mut halves, &mut whole] {
                switch.set_time(8_000 * (edge as u64 + 1));
                if change {
                    switch.inputs.net = words;
                    switch.inputs.host_ready = ready;
                }
            }
            let before = *halves.settle().expect("it settles");
            assert_eq!(
                before,
                *whole.settle().expect("it settles"),
                "before edge {edge}"
            );
            let after = *halves.edge().expect("it has an edge");
            assert_eq!(after, *whole.edge().expect("it has an edge"), "edge {edge}");
        }
    }
}
