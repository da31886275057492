// SPDX-License-Identifier: Apache-2.0
//! The matrix: every fault in both formats, at both rates, on RTL and model.

use ipnuma_rtl::NetSpeed;

use crate::faulttest::channel::Faults;
use crate::faulttest::end::Kind;
use crate::faulttest::fuzz::Target;
use crate::faulttest::plan::{Format, Plan, Restarts, Timers};
use crate::faulttest::sim::speed_name;

const NS: u64 = 1_000;
const US: u64 = 1_000 * NS;
const MS: u64 = 1_000 * US;

/// One kind of trouble: its name, and what it makes of a faultless plan. The length of black-outs
/// is a number of the plan's ends.
struct Trouble {
    name: &'static str,
    apply: fn(&mut Plan),
}

fn faults(plan: &mut Plan, faults: Faults) {
    plan.faults = faults;
}

fn is_model(plan: &Plan) -> bool {
    plan.ends == [Kind::Model, Kind::Model]
}

const NONE: Faults = Faults {
    loss: 0,
    duplicate: 0,
    reorder: 0,
    corrupt: 0,
    replay: 0,
    delay_ps: 0,
    jitter_ps: 0,
};

const TROUBLES: &[Trouble] = &[
    Trouble {
        name: "none",
        apply: |_| {},
    },
    Trouble {
        name: "loss-0.1",
        apply: |plan| {
            faults(
                plan,
                Faults {
                    loss: 1_000,
                    ..NONE
                },
            )
        },
    },
    Trouble {
        name: "loss-1",
        apply: |plan| {
            faults(
                plan,
                Faults {
                    loss: 10_000,
                    ..NONE
                },
            )
        },
    },
    Trouble {
        name: "loss-3",
        apply: |plan| {
            faults(
                plan,
                Faults {
                    loss: 30_000,
                    ..NONE
                },
            )
        },
    },
    Trouble {
        name: "loss-10",
        apply: |plan| {
            faults(
                plan,
                Faults {
                    loss: 100_000,
                    ..NONE
                },
            )
        },
    },
    Trouble {
        name: "duplicate",
        apply: |plan| {
            faults(
                plan,
                Faults {
                    duplicate: 50_000,
                    ..NONE
                },
            )
        },
    },
    Trouble {
        name: "reorder",
        apply: |plan| {
            faults(
                plan,
                Faults {
                    reorder: 30_000,
                    ..NONE
                },
            )
        },
    },
    Trouble {
        name: "corrupt",
        apply: |plan| {
            faults(
                plan,
                Faults {
                    corrupt: 20_000,
                    ..NONE
                },
            )
        },
    },
    Trouble {
        name: "delay",
        apply: |plan| {
            let delay_ps = 12 * US;
            let jitter_ps = 8 * US;
            faults(
                plan,
                Faults {
                    delay_ps,
                    jitter_ps,
                    loss: 500,
                    ..NONE
                },
            );
        },
    },
    Trouble {
        name: "replay",
        apply: |plan| {
            faults(
                plan,
                Faults {
                    replay: 50_000,
                    loss: 2_000,
                    ..NONE
                },
            )
        },
    },
    Trouble {
        name: "mix",
        apply: |plan| {
            let some = 8_000;
            let jitter_ps = 2 * US;
            faults(
                plan,
                Faults {
                    loss: some,
                    duplicate: some,
                    reorder: some,
                    corrupt: some,
                    replay: some,
                    delay_ps: 0,
                    jitter_ps,
                },
            );
        },
    },
    // The session outlives these.
    Trouble {
        name: "black-out",
        apply: |plan| {
            let longest = if is_model(plan) { 100 * MS } else { 300 * US };
            plan.outage_ps = Some((US, longest));
            plan.timers = Timers::PATIENT;
        },
    },
    // And not these: the peer is lost, the session begins anew.
    Trouble {
        name: "lost",
        apply: |plan| {
            let longest = if is_model(plan) { 100 * MS } else { 2 * MS };
            plan.outage_ps = Some((20 * US, longest));
            plan.timers = Timers::SHORT;
        },
    },
    Trouble {
        name: "flap",
        apply: |plan| {
            let longest = if is_model(plan) { 20 * MS } else { 300 * US };
            plan.outage_ps = Some((2 * US, longest));
            plan.flaps = true;
            plan.timers = Timers::SHORT;
        },
    },
    Trouble {
        name: "new-epochs",
        apply: |plan| {
            let some = 3_000;
            plan.restarts = Restarts::Sessions;
            plan.timers = Timers::SHORT;
            faults(
                plan,
                Faults {
                    loss: some,
                    replay: some,
                    reorder: some,
                    ..NONE
                },
            );
        },
    },
    Trouble {
        name: "reset",
        apply: |plan| {
            plan.restarts = Restarts::Nics;
            plan.timers = Timers::SHORT;
            faults(
                plan,
                Faults {
                    loss: 1_000,
                    replay: 3_000,
                    ..NONE
                },
            );
        },
    },
];

/// How many stores a run gets on its kind of NIC.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Of any size, on RTL at 10G.
    pub rtl: u64,
    /// Of one DW mostly and merged, on RTL at 10G.
    pub rtl_small: u64,
    /// On models.
    pub model: u64,
}

impl Scale {
    /// For the test command.
    pub const SHORT: Self = Self {
        rtl: 5_000,
        rtl_small: 24_000,
        model: 150_000,
    };
    /// The long form.
    pub const FULL: Self = Self {
        rtl: 80_000,
        rtl_small: 400_000,
        model: 1_500_000,
    };
}

fn ends_name(ends: [Kind; 2]) -> &'static str {
    match ends {
        [Kind::Rtl, Kind::Rtl] => "rtl-rtl",
        [Kind::Model, Kind::Model] => "model-model",
        [Kind::Shell, Kind::Shell] => "shell-shell",
        _ => "rtl-model",
    }
}

/// All runs, those on RTL first.
pub fn plans(scale: Scale) -> Vec<Plan> {
    const RTL: [Kind; 2] = [Kind::Rtl; 2];
    const MODEL: [Kind; 2] = [Kind::Model; 2];
    const MIXED: [Kind; 2] = [Kind::Rtl, Kind::Model];
    let mut plans = Vec::new();
    for (index, trouble) in TROUBLES.iter().enumerate() {
        for ends in [RTL, MIXED, MODEL] {
            for speed in [NetSpeed::TenGig, NetSpeed::OneGig] {
                for format in [Format::Compact, Format::Tlp] {
                    let one_gig = speed == NetSpeed::OneGig;
                    let is_tlp = format == Format::Tlp;
                    // RTL with the model is there for what the two may understand differently.
                    if ends == MIXED && (one_gig == is_tlp) {
                        continue;
                    }
                    let suffix = if is_tlp { "tlp" } else { "compact" };
                    let name = format!(
                        "{}-{}-{}-{suffix}",
                        trouble.name,
                        ends_name(ends),
                        speed_name(speed).to_lowercase()
                    );
                    let mut plan = Plan::new(name, ends, speed, 0);
                    plan.format = format;
                    // Stores are joined in the RTL only; half of the runs, both formats.
                    plan.merge = ends != MODEL && (index + usize::from(is_tlp)) % 2 == 0;
                    plan.small = plan.merge && ends == RTL;
                    if plan.small {
                        plan.others = [3, 1, 1];
                    } else if one_gig && ends != MODEL {
                        // A refusal costs a window or two.
                        plan.others = [20, 3, 3];
                    }
                    plan.sealed = [0, 0, 100, 50][(index + 2 * usize::from(one_gig)) % 4];
                    plan.sessions = [1, 3, 4, 8][(index / 2 + usize::from(is_tlp)) % 4];
                    (trouble.apply)(&mut plan);
                    let stores = match ends {
                        MODEL => scale.model,
                        _ if plan.small => scale.rtl_small,
                        _ => scale.rtl,
                    };
                    let slow = one_gig && ends != MODEL;
                    plan.stores = if slow { stores / 5 } else { stores };
                    plans.push(plan);
                }
            }
        }
    }
    // More than 65,536 frames of one session, so that a number comes again.
    for (ends, stores) in [(MODEL, 2 * scale.model), (RTL, 20 * scale.rtl)] {
        for format in [Format::Compact, Format::Tlp] {
            let suffix = if format == Format::Tlp {
                "tlp"
            } else {
                "compact"
            };
            if ends == RTL && format == Format::Tlp {
                continue;
            }
            let name = format!("wrap-{}-10g-{suffix}", ends_name(ends));
            let mut plan = Plan::new(name, ends, NetSpeed::TenGig, stores);
            plan.format = format;
            plan.sessions = 1;
            plan.small = true;
            plan.others = [5, 1, 2];
            plan.wraps = true;
            plan.one_way = true;
            faults(
                &mut plan,
                Faults {
                    replay: 20_000,
                    ..NONE
                },
            );
            plans.push(plan);
        }
    }
    // Keys that change while one frame in a hundred is lost, or everything happens to frames.
    for (ends, stores) in [(RTL, scale.rtl), (MIXED, scale.rtl), (MODEL, scale.model)] {
        for (name, some) in [("rekey", 0), ("rekey-mix", 5_000)] {
            if ends == RTL && some > 0 {
                continue;
            }
            let name = format!("{name}-{}-10g", ends_name(ends));
            let mut plan = Plan::new(name, ends, NetSpeed::TenGig, stores);
            plan.sealed = 100;
            plan.sessions = 3;
            plan.rekey = (stores / 20).min(1_000);
            if some == 0 {
                // None may be refused.
                plan.others[2] = 0;
            }
            faults(
                &mut plan,
                Faults {
                    loss: 10_000,
                    duplicate: some,
                    reorder: some,
                    corrupt: some,
                    replay: some,
                    ..NONE
                },
            );
            plans.push(plan);
        }
    }
    plans.sort_by_key(|plan| (plan.ends == MODEL, plan.ends == MIXED));
    plans
}

/// How many stores a run with resets has, on RTL at 10G and on RTL at 1G.
#[derive(Clone, Copy, Debug)]
pub struct ResetScale {
    /// At 10G.
    pub ten_gig: u64,
    /// At 1G.
    pub one_gig: u64,
}

impl ResetScale {
    /// For the test command.
    pub const SHORT: Self = Self {
        ten_gig: 3_000,
        one_gig: 800,
    };
    /// More than a million stores in all.
    pub const FULL: Self = Self {
        ten_gig: 140_000,
        one_gig: 40_000,
    };
}

/// A kind of run: its name, what its ends are, and what it makes of a plain one.
type Cell = (&'static str, [Kind; 2], fn(&mut Plan));

/// The runs with resets of one side.
pub fn reset_plans(scale: ResetScale) -> Vec<Plan> {
    const RTL: [Kind; 2] = [Kind::Rtl; 2];
    const MIXED: [Kind; 2] = [Kind::Rtl, Kind::Model];
    const SHELL: [Kind; 2] = [Kind::Shell; 2];
    let plain = |_: &mut Plan| {};
    let alone = |plan: &mut Plan| {
        // Without sessions nothing is mended, so nothing else may be lost.
        plan.sessions = 0;
        plan.others = [20, 0, 0];
    };
    let joined = |plan: &mut Plan| {
        plan.merge = true;
        plan.small = true;
        plan.others = [3, 1, 1];
    };
    let sealed = |plan: &mut Plan| plan.sealed = 60;
    let faulty = |plan: &mut Plan| {
        plan.sealed = 30;
        let (loss, replay, reorder, duplicate) = (2_000, 3_000, 2_000, 2_000);
        faults(
            plan,
            Faults {
                loss,
                replay,
                reorder,
                duplicate,
                ..NONE
            },
        );
    };
    let flaps = |plan: &mut Plan| {
        plan.outage_ps = Some((2 * US, 150 * US));
        plan.flaps = true;
    };
    let cells: [Cell; 8] = [
        ("plain", RTL, plain),
        ("alone", RTL, alone),
        ("joined", RTL, joined),
        ("sealed", RTL, sealed),
        ("faulty", RTL, faulty),
        ("flaps", RTL, flaps),
        ("model", MIXED, plain),
        ("shell", SHELL, faulty),
    ];
    let mut plans = Vec::new();
    for (name, ends, apply) in cells {
        for speed in [NetSpeed::TenGig, NetSpeed::OneGig] {
            let rate = speed_name(speed).to_lowercase();
            let name = format!("resets-{name}-{rate}");
            let stores = match speed {
                NetSpeed::TenGig => scale.ten_gig,
                NetSpeed::OneGig => scale.one_gig,
            };
            let mut plan = Plan::new(name, ends, speed, stores);
            plan.sessions = 3;
            plan.timers = Timers::SHORT;
            plan.one_sided = 400;
            plan.masters = 800;
            plan.draw_bus = true;
            apply(&mut plan);
            plans.push(plan);
        }
    }
    plans
}

/// The runs of the fuzzer, with this number of frames each.
pub fn fuzz_plans(frames: u64) -> Vec<Plan> {
    let mut plans = Vec::new();
    for target in Target::ALL {
        for keys in [true, false] {
            let with = if keys { "keys" } else { "no-keys" };
            let name = format!("fuzz-{}-{with}", target.name());
            let mut plan = Plan::new(name, [Kind::Rtl, Kind::Model], NetSpeed::TenGig, 0);
            plan.sessions = 3;
            plan.sealed = if keys { 100 } else { 0 };
            plan.format = match target {
                Target::Compact => Format::Compact,
                Target::Tlp => Format::Tlp,
                _ => Format::Mixed,
            };
            plan.timers = if keys { Timers::RESET } else { Timers::SHORT };
            plan.others = [60, 5, 10];
            // Short frames, so that many come in a time.
            plan.small = true;
            plan.fuzz = Some((target, frames));
            plans.push(plan);
        }
    }
    plans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_trouble_meets_both_formats_and_rates_and_seals() {
        let plans = plans(Scale::SHORT);
        let names: std::collections::HashSet<&String> = plans.iter().map(|p| &p.name).collect();
        assert_eq!(names.len(), plans.len());
        for trouble in TROUBLES {
            for ends in ["rtl-rtl", "model-model"] {
                for rate in ["10g", "1g"] {
                    for format in ["compact", "tlp"] {
                        let name = format!("{}-{ends}-{rate}-{format}", trouble.name);
                        assert!(names.contains(&name), "{name}");
                    }
                }
            }
        }
        let stores: u64 = plans.iter().map(|plan| plan.stores).sum();
        assert!(stores >= 10_000_000, "{stores}");
        for sealed in [0, 50, 100] {
            assert!(plans.iter().any(|plan| plan.sealed == sealed));
        }
    }
}
