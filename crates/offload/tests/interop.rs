// SPDX-License-Identifier: Apache-2.0
//! Files through cables with faults, byte for byte: smoltcp into the engine, the bulk sender into smoltcp, and both of ours
//! together. Random tests print their seed; `IPNUMA_SEED` repeats one.

mod common;

use common::{Setup, client_to_engine, client_to_smoltcp, seed, smoltcp_to_engine};
use offload::Policy;
use offload::link::Faults;

const POLICIES: [Policy; 6] = [
    Policy::Single,
    Policy::Reassembly,
    Policy::Counter { stall: None },
    Policy::Counter { stall: Some(8) },
    Policy::Epochs {
        epochs: 8,
        packets: 4,
    },
    Policy::DEFAULT,
];

fn faults() -> [Faults; 5] {
    let none = Faults::default();
    [
        none,
        Faults { loss: 0.02, ..none },
        Faults {
            corrupt: 0.02,
            ..none
        },
        Faults {
            reorder: 0.1,
            duplicate: 0.05,
            ..none
        },
        Faults {
            loss: 0.01,
            corrupt: 0.01,
            duplicate: 0.02,
            reorder: 0.05,
        },
    ]
}

fn setup(policy: Policy, faults: Faults, seed: u64) -> Setup {
    Setup {
        policy,
        faults,
        mtu: 1500,
        window: 65_535,
        bytes: 200_000,
        seed,
    }
}

#[test]
fn smoltcp_sends_to_the_engine() {
    let seed = seed();
    for policy in POLICIES {
        for (number, faults) in faults().into_iter().enumerate() {
            smoltcp_to_engine(&setup(policy, faults, seed + number as u64));
        }
    }
}

#[test]
fn smoltcp_sends_to_the_engine_with_scaled_and_with_small_windows() {
    let seed = seed();
    for window in [1 << 18, 3_000] {
        for (number, faults) in faults().into_iter().enumerate() {
            smoltcp_to_engine(&Setup {
                window,
                bytes: 100_000,
                ..setup(Policy::DEFAULT, faults, seed + number as u64)
            });
        }
    }
}

#[test]
fn the_bulk_sender_sends_to_smoltcp() {
    let seed = seed();
    for (number, faults) in faults().into_iter().enumerate() {
        for window in [65_535, 1 << 18] {
            let setup = Setup {
                window,
                ..setup(Policy::DEFAULT, faults, seed + number as u64)
            };
            client_to_smoltcp(&setup);
        }
    }
}

#[test]
fn the_bulk_sender_sends_mixed_jumbo_frames_to_the_engine() {
    let seed = seed();
    let mut bad = 0;
    let lengths = [8192, 1024, 3072, 1024, 5120, 2048, 1024, 7168];
    for policy in POLICIES {
        for (number, faults) in faults().into_iter().enumerate() {
            let setup = Setup {
                mtu: 9000,
                window: 128 * 1024,
                bytes: 2_000_000,
                ..setup(policy, faults, seed + number as u64)
            };
            let (client, node) = client_to_engine(&setup, &lengths);
            let counts = client.counts();
            if faults == Faults::default() && policy != Policy::Reassembly {
                assert_eq!(counts.retransmissions, 0, "{policy}");
            }
            bad += node.bad();
        }
    }
    assert!(bad > 0, "nothing was damaged");
}

/// Retransmission where the numbers wrap: a complaint about other engines.
#[test]
fn numbers_wrap_while_segments_are_lost() {
    let seed = seed();
    for more in 0..10 {
        let faults = Faults {
            loss: 0.2,
            ..Faults::default()
        };
        client_to_engine(
            &Setup {
                bytes: 60_000,
                ..setup(Policy::DEFAULT, faults, seed + more)
            },
            &[],
        );
    }
}
