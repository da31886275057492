// SPDX-License-Identifier: Apache-2.0
//! One connection in bulk: the document's figures, this project's goals, and what no policy may do.

use std::panic::catch_unwind;

use offload::{Hardware, Mix, Outcome, Policy, Scenario};

fn run(scenario: Scenario) -> Outcome {
    scenario.run().expect("the scenario is right")
}

const COUNTER: Policy = Policy::Counter { stall: None };
/// The document gives no window; this one is fitted.
const FITTED_WINDOW: u64 = 448 * 1024;

#[test]
fn payloads_of_one_length_reach_the_ceiling_in_the_documents_way() {
    for mix in Mix::FIGURE_8 {
        let outcome = run(Scenario {
            hardware: Hardware::DOCUMENT,
            policy: Policy::Naive,
            mix,
            window: FITTED_WINDOW,
            ..Scenario::default()
        });
        assert!(outcome.ceiling_percent >= 99.0, "{mix}: {outcome:?}");
        assert_eq!(outcome.sender.retransmissions, 0, "{mix}");
    }
}

#[test]
fn mixed_payloads_collapse_the_naive_way_and_the_counter_is_near_its_published_figure() {
    let document = Scenario {
        hardware: Hardware::DOCUMENT,
        window: FITTED_WINDOW,
        recovery_us: 14_000,
        duration_us: 560_000,
        ..Scenario::default()
    };
    let with = |policy| run(Scenario { policy, ..document });
    let naive = with(Policy::Naive);
    assert!(naive.ceiling_percent < 5.0, "{naive:?}");
    assert!((0.15..0.20).contains(&naive.goodput_gbps), "{naive:?}");
    // Most of it comes from having no reassembly.
    let kept = with(Policy::Reassembly);
    assert!((3.0..6.0).contains(&kept.goodput_gbps), "{kept:?}");
    let counter = with(COUNTER);
    assert!((counter.goodput_gbps - 8.6).abs() < 0.15, "{counter:?}");
    assert!(counter.commit_lag_us.p99 > 300.0, "{counter:?}");
}

#[test]
fn the_default_reaches_the_ceiling_with_128_kib() {
    for mix in [Mix::TABLE_3, Mix::Uniform(1024), Mix::SKEWED] {
        let outcome = run(Scenario {
            mix,
            ..Scenario::default()
        });
        assert_eq!(outcome.scenario.window, 128 * 1024);
        assert!(outcome.ceiling_percent >= 99.0, "{mix}: {outcome:?}");
        // The line is the limit: what was measured can't be more.
        assert!(outcome.ceiling_percent <= 100.02, "{mix}: {outcome:?}");
    }
    let damaged = run(Scenario {
        corruption: 1e-4,
        duration_us: 500_000,
        ..Scenario::default()
    });
    assert!(damaged.bad > 5, "{damaged:?}");
    assert!(damaged.ceiling_percent >= 95.0, "{damaged:?}");
}

/// 64 slots are 1 + (N - 1) * (longest / shortest), and more.
#[test]
fn no_more_packets_wait_than_the_longest_and_the_shortest_allow() {
    let outcome = run(Scenario {
        mix: Mix::SKEWED,
        policy: Policy::Epochs {
            epochs: 256,
            packets: 1,
        },
        ..Scenario::default()
    });
    let bound = 1 + 4 * 8;
    // Results wait for the controller, too.
    assert!(outcome.greatest_held <= bound + 4, "{outcome:?}");
}

/// The runs assert at every acknowledgement that all checksums before it have passed.
#[test]
fn no_policy_acknowledges_what_has_not_passed() {
    for policy in Policy::ALL {
        for mix in [Mix::TABLE_3, Mix::SKEWED] {
            for (corruption, loss) in [(0.02, 0.0), (0.01, 0.01)] {
                let outcome = run(Scenario {
                    policy,
                    mix,
                    corruption,
                    loss,
                    duration_us: 30_000,
                    seed: 7,
                    ..Scenario::default()
                });
                let unbelieved = outcome.bad + outcome.discarded;
                assert!(unbelieved > 0 && outcome.segments > 0, "{outcome:?}");
            }
        }
    }
}

/// The check above finds the mistake that the document's counter invites.
#[test]
fn a_counter_that_an_error_resets_is_found() {
    let scenario = Scenario {
        policy: Policy::ResetOnError,
        corruption: 0.02,
        duration_us: 30_000,
        ..Scenario::default()
    };
    let panic = catch_unwind(|| scenario.run()).expect_err("it acknowledges too much");
    let said = panic.downcast_ref::<String>().expect("a sentence");
    assert!(said.contains("has not passed"), "{said}");
}

#[test]
fn the_same_seed_gives_the_same_and_another_does_not() {
    let scenario = Scenario {
        corruption: 1e-3,
        duration_us: 20_000,
        ..Scenario::default()
    };
    let again = run(scenario);
    assert_eq!(run(scenario), again);
    let other = run(Scenario {
        seed: 2,
        ..scenario
    });
    assert_ne!(other.commit_lag_us, again.commit_lag_us);
}

#[test]
fn a_network_buffer_that_is_too_small_drops_and_counts() {
    let outcome = run(Scenario {
        hardware: Hardware {
            buffer_bytes: 20_000,
            ..Hardware::OURS
        },
        policy: Policy::Single,
        duration_us: 20_000,
        ..Scenario::default()
    });
    assert!(outcome.engine.overflows > 0, "{outcome:?}");
    assert!(outcome.engine.greatest_buffer <= 20_000, "{outcome:?}");
    assert!(outcome.goodput_gbps > 0.2, "{outcome:?}");
}

/// Several analyzers pay where one is slower than the line.
#[test]
fn a_function_slower_than_the_line_needs_several_analyzers() {
    let slow = |analyzers| {
        run(Scenario {
            hardware: Hardware {
                analyzers,
                bytes_per_cycle: 1.0,
                ..Hardware::FAST
            },
            window: 256 * 1024,
            ..Scenario::default()
        })
    };
    assert!(slow(1).ceiling_percent < 15.0);
    assert!(slow(8).ceiling_percent > 99.0);
    let wide = run(Scenario {
        hardware: Hardware {
            analyzers: 1,
            ..Hardware::FAST
        },
        policy: Policy::Single,
        ..Scenario::default()
    });
    assert!(wide.ceiling_percent > 99.0, "{wide:?}");
}

#[test]
fn what_is_wrong_is_said_with_its_remedy() {
    let wrong = |scenario: Scenario| scenario.run().expect_err("it is wrong").to_string();
    let default = Scenario::default();
    let small = wrong(Scenario {
        window: 1000,
        ..default
    });
    assert!(
        small.starts_with("window: ") && small.contains("write"),
        "{small}"
    );
    let rate = wrong(Scenario {
        corruption: 1.5,
        ..default
    });
    assert!(rate.starts_with("corruption: "), "{rate}");
    for (text, word) in [
        ("x8", "EPOCHS"),
        ("1x4", "2 to 256"),
        ("counters", "counter"),
    ] {
        let error = text.parse::<Policy>().expect_err(text).to_string();
        assert!(error.contains(word), "{error}");
    }
    for policy in Policy::ALL {
        assert_eq!(policy.to_string().parse(), Ok(policy));
    }
    for text in ["0", "1024-1500", "8192-1024", "99999", "a", "1/2/3"] {
        assert!(text.parse::<Mix>().is_err(), "{text}");
    }
    for mix in [Mix::TABLE_3, Mix::SKEWED, Mix::Uniform(1460)] {
        assert_eq!(mix.to_string().parse(), Ok(mix));
    }
}
