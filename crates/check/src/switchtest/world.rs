// SPDX-License-Identifier: Apache-2.0
//! The switch's configuration: random settings, routes, next hops and rules, for the model and as
//! words for the hardware.

use fib::{Config, Config4, Config6, Fib, NextHopId, Op, Prefix4, Prefix6};
use ipnuma_rtl::{NetSpeed, Switch, SwitchSize, SwitchWrite};
use model::switch::{
    AclPrefix, AclRule, Check, Media, NextHop, Police, Port, SwitchConfig, SwitchModel, Target,
};
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

/// Memories of the switch that are none of `crates/fib`'s.
const MEM_ACL: u8 = 25;
const MEM_PORT: u8 = 26;
/// Rules of the access list.
pub const RULES: usize = 64;
/// Longest frame, with FCS.
pub const MAX_FRAME: usize = 9216;
const HOPS: u16 = 96;
/// Routes that a world tends towards, of each family.
const ROUTES: usize = 400;
/// Protocols and ports that frames and rules have in common.
pub const PROTOCOLS: [u8; 5] = [6, 17, 132, 1, 58];
/// See [`PROTOCOLS`].
pub const PORTS: [u16; 6] = [22, 53, 80, 443, 1024, 65535];

/// Depths of the lookup of a build.
pub fn fib_config(size: SwitchSize) -> Config {
    let depth = |name: &str| Switch::depth(size, name).expect("the build sets it");
    Config {
        v4: Config4::RunVec {
            leaves: depth("V4Leaves"),
            groups: depth("V4Groups"),
            hosts: depth("V4Hosts"),
        },
        v6: Config6::Trie {
            nodes: std::array::from_fn(|level| depth(&format!("V6Nodes{}", level + 1))),
            leaves: depth("V6Leaves"),
            hosts: depth("V6Hosts"),
            tcam: depth("V6TcamEntries"),
        },
    }
}

/// Words of a write list.
pub fn words(ops: &[Op]) -> impl Iterator<Item = SwitchWrite> + '_ {
    ops.iter().map(|op| match op {
        Op::Write(write) => SwitchWrite {
            memory: write.memory.id(),
            address: write.addr,
            data: write.data,
        },
        Op::Drain => SwitchWrite::DRAIN,
    })
}

/// Words that set a port. The bucket of its policer is full then, since it was off for a word.
pub fn port_words(number: u8, port: &Port) -> [SwitchWrite; 6] {
    let mac = port
        .mac
        .iter()
        .fold(0, |mac, &byte| mac << 8 | u64::from(byte));
    let tag = |vlan: Option<u16>| vlan.map_or(0, |vid| 1 << 12 | u64::from(vid));
    let check = match port.check {
        Check::Never => 0,
        Check::Auto { on, off } => 1 | u64::from(on) << 2 | u64::from(off) << 10,
        Check::Always => 2,
    };
    let vlan = tag(port.vlan_out) << 13 | tag(port.vlan_in);
    let burst = u64::from(port.police.burst) << 24;
    let fields = [
        (0, mac),
        (1, port.mtu.into()),
        (2, vlan),
        (3, check),
        (4, burst),
        (4, burst | u64::from(port.police.rate)),
    ];
    fields.map(|(field, value)| SwitchWrite {
        memory: MEM_PORT,
        address: u32::from(number) << 3 | field,
        data: [value, 0, 0],
    })
}

fn wide(value: u128) -> [u64; 3] {
    [value as u64, (value >> 64) as u64, 0]
}

/// Words that set a rule.
fn rule_words(number: usize, rule: Option<&AclRule>) -> Vec<SwitchWrite> {
    let word = |word: u32, value: u128| SwitchWrite {
        memory: MEM_ACL,
        address: (number as u32) << 3 | word,
        data: wide(value),
    };
    let Some(rule) = rule else {
        return vec![word(4, 0)];
    };
    let range = |ports: Option<(u16, u16)>| match ports {
        None => 1u128 << 32,
        Some((from, to)) => u128::from(to) << 16 | u128::from(from),
    };
    let terms = 1 << 94
        | u128::from(rule.deny) << 93
        | u128::from(rule.v6) << 92
        | u128::from(rule.v4) << 91
        | u128::from(rule.protocol.is_none()) << 90
        | u128::from(rule.protocol.unwrap_or(0)) << 82
        | range(rule.src_ports) << 49
        | range(rule.dst_ports) << 16
        | u128::from(rule.ingress);
    vec![
        word(0, rule.src.value),
        word(1, rule.src.mask),
        word(2, rule.dst.value),
        word(3, rule.dst.mask),
        word(4, terms),
    ]
}

/// Model and tables of one switch.
pub struct World {
    /// The reference.
    pub model: SwitchModel,
    fib: Fib,
    /// Prefixes with routes.
    pub v4: Vec<Prefix4>,
    /// Likewise.
    pub v6: Vec<Prefix6>,
}

impl World {
    /// A switch after reset.
    pub fn new(speed: NetSpeed) -> Result<Self, String> {
        let media = match speed {
            NetSpeed::TenGig => Media::Xgmii,
            NetSpeed::OneGig => Media::Gmii,
        };
        let fib = Fib::new(fib_config(SwitchSize::Small)).map_err(|error| error.to_string())?;
        Ok(Self {
            model: SwitchModel::new(SwitchConfig {
                ports: Switch::PORTS as u8,
                max_frame: MAX_FRAME,
                media,
            }),
            fib,
            v4: Vec::new(),
            v6: Vec::new(),
        })
    }

    /// Changes everything at random; returns the words.
    pub fn change(&mut self, rng: &mut ChaCha8Rng) -> Result<Vec<SwitchWrite>, String> {
        let mut list = Vec::new();
        for number in 0..Switch::PORTS as u8 {
            let port = random_port(number, rng);
            list.extend(port_words(number, &port));
            self.model.set_port(number, port);
        }
        for id in 1..=HOPS {
            self.change_hop(id, &mut list, rng)?;
        }
        let (gone4, gone6) = (self.v4.len() / 4, self.v6.len() / 4);
        for _ in 0..gone4 {
            let prefix = self.v4.swap_remove(rng.random_range(0..self.v4.len()));
            let ops = self.fib.withdraw4(prefix);
            list.extend(words(ops.map_err(|error| error.to_string())?));
            self.model.set_route4(prefix.addr(), prefix.len(), None);
        }
        for _ in 0..gone6 {
            let prefix = self.v6.swap_remove(rng.random_range(0..self.v6.len()));
            let ops = self.fib.withdraw6(prefix);
            list.extend(words(ops.map_err(|error| error.to_string())?));
            self.model.set_route6(prefix.addr(), prefix.len(), None);
        }
        while self.v4.len() < ROUTES {
            self.announce4(&mut list, rng);
        }
        while self.v6.len() < ROUTES {
            self.announce6(&mut list, rng);
        }
        self.change_acl(&mut list, rng);
        // Nothing is looked up meanwhile, so that only the last marker matters.
        list.retain(|write| *write != SwitchWrite::DRAIN);
        list.push(SwitchWrite::DRAIN);
        Ok(list)
    }

    fn change_hop(
        &mut self,
        id: u16,
        list: &mut Vec<SwitchWrite>,
        rng: &mut ChaCha8Rng,
    ) -> Result<(), String> {
        // Where it leads never changes; some are neither host nor discard nor a port there is.
        let target = match id % 24 {
            0 => Target::Host,
            1 => Target::Discard,
            2 => Target::Port(4 + (id % 12) as u8),
            _ => Target::Port((id % 4) as u8),
        };
        let mac = rng.random_bool(0.94).then(|| {
            let mut mac: [u8; 6] = rng.random();
            mac[0] &= 0xFE;
            mac
        });
        let port = match target {
            Target::Port(port) => fib::Port::Network(port),
            Target::Host => fib::Port::Host,
            Target::Discard => fib::Port::Discard,
        };
        let ops = self
            .fib
            .set_next_hop(NextHopId(id), fib::NextHop { port, mac });
        list.extend(words(ops.map_err(|error| error.to_string())?));
        self.model.set_next_hop(id, Some(NextHop { target, mac }));
        Ok(())
    }

    /// Announces a random route; a full table refuses, and nothing happens.
    fn announce4(&mut self, list: &mut Vec<SwitchWrite>, rng: &mut ChaCha8Rng) {
        let len = match rng.random_range(0..16) {
            // Short prefixes are thousands of words, but for the default route.
            0 if rng.random_bool(0.3) => *[0, 0, 0, 5, 6, 7, 8].choose(rng).unwrap_or(&0),
            0..=3 => rng.random_range(10..=16),
            4..=9 => rng.random_range(17..=24),
            10..=13 => rng.random_range(25..=31),
            _ => 32,
        };
        let base = match self.v4.choose(rng) {
            Some(prefix) if rng.random_bool(0.5) => {
                prefix.addr() | rng.random::<u32>() & (prefix.last() - prefix.addr())
            }
            _ => rng.random_range(1..224) << 24 | rng.random::<u32>() >> 8,
        };
        let prefix = Prefix4::around(base, len);
        let hop = rng.random_range(1..=HOPS);
        if let Ok(ops) = self.fib.announce4(prefix, NextHopId(hop)) {
            list.extend(words(ops));
            self.model.set_route4(prefix.addr(), len, Some(hop));
            if !self.v4.contains(&prefix) {
                self.v4.push(prefix);
            }
        }
    }

    /// See [`World::announce4`].
    fn announce6(&mut self, list: &mut Vec<SwitchWrite>, rng: &mut ChaCha8Rng) {
        let len = match rng.random_range(0..32) {
            0 if rng.random_bool(0.3) => *[0, 0, 0, 6, 9, 12, 15].choose(rng).unwrap_or(&0),
            0..=23 => rng.random_range(16..=64),
            24 => rng.random_range(65..=127),
            _ => 128,
        };
        let base = match self.v6.choose(rng) {
            Some(prefix) if rng.random_bool(0.5) => {
                prefix.addr() | rng.random::<u128>() & (prefix.last() - prefix.addr())
            }
            _ => rng.random::<u128>() >> 3 | 1 << 125,
        };
        let prefix = Prefix6::around(base, len);
        let hop = rng.random_range(1..=HOPS);
        if let Ok(ops) = self.fib.announce6(prefix, NextHopId(hop)) {
            list.extend(words(ops));
            self.model.set_route6(prefix.addr(), len, Some(hop));
            if !self.v6.contains(&prefix) {
                self.v6.push(prefix);
            }
        }
    }

    fn change_acl(&mut self, list: &mut Vec<SwitchWrite>, rng: &mut ChaCha8Rng) {
        self.model.acl.rules.resize(RULES, None);
        for number in 0..RULES {
            let rule = rng.random_bool(0.6).then(|| self.random_rule(rng));
            list.extend(rule_words(number, rule.as_ref()));
            self.model.acl.rules[number] = rule;
        }
        self.model.acl.default_deny = rng.random_bool(0.08);
        list.push(SwitchWrite {
            memory: MEM_ACL,
            address: 5,
            data: [u64::from(self.model.acl.default_deny), 0, 0],
        });
    }

    fn random_prefix(&self, v6: bool, rng: &mut ChaCha8Rng) -> AclPrefix {
        let (address, len) = if v6 {
            let prefix = self.v6.choose(rng).copied();
            let prefix = prefix.unwrap_or(Prefix6::around(0, 0));
            (prefix.addr(), prefix.len())
        } else {
            let prefix = self.v4.choose(rng).copied();
            let prefix = prefix.unwrap_or(Prefix4::around(0, 0));
            (u128::from(prefix.addr()) << 96, prefix.len())
        };
        let mask = !u128::MAX.checked_shr(len.into()).unwrap_or(0);
        // Bits behind the mask don't count.
        let value = address & mask | rng.random::<u128>() & !mask;
        AclPrefix { value, mask }
    }

    fn random_rule(&self, rng: &mut ChaCha8Rng) -> AclRule {
        let any = AclPrefix { value: 0, mask: 0 };
        let v6: bool = rng.random();
        let by_address = rng.random_bool(0.6);
        let range = |rng: &mut ChaCha8Rng| {
            let (a, b) = (*PORTS.choose(rng)?, *PORTS.choose(rng)?);
            Some(if rng.random() {
                (a, a)
            } else {
                (a.min(b), a.max(b))
            })
        };
        AclRule {
            deny: rng.random(),
            v4: !v6 || rng.random_bool(0.1),
            v6: v6 || rng.random_bool(0.1),
            src: if rng.random_bool(0.1) {
                self.random_prefix(v6, rng)
            } else {
                any
            },
            dst: if by_address {
                self.random_prefix(v6, rng)
            } else {
                any
            },
            protocol: PROTOCOLS
                .choose(rng)
                .copied()
                .filter(|_| !by_address || rng.random()),
            src_ports: if rng.random_bool(0.15) {
                range(rng)
            } else {
                None
            },
            dst_ports: if by_address && rng.random() {
                None
            } else {
                range(rng)
            },
            ingress: if rng.random() { 0xFFFF } else { rng.random() },
        }
    }
}

fn random_port(number: u8, rng: &mut ChaCha8Rng) -> Port {
    let mut mac: [u8; 6] = rng.random();
    mac[0] &= 0xFE;
    // Two ports of one switch have different addresses.
    mac[5] = mac[5] & 0xF0 | number;
    let vlan = |rng: &mut ChaCha8Rng| rng.random_bool(0.3).then(|| rng.random_range(0..4096));
    Port {
        mac,
        mtu: *[68, 576, 1280, 1500, 1500, 9000, 9198, 65535]
            .choose(rng)
            .unwrap_or(&1500),
        vlan_in: vlan(rng),
        vlan_out: vlan(rng),
        check: match rng.random_range(0..6) {
            0..=2 => Check::Never,
            3 => Check::Always,
            4 => Check::Auto {
                on: rng.random_range(0..60),
                off: rng.random_range(0..30),
            },
            _ => Check::Auto {
                on: rng.random_range(10..40),
                off: rng.random_range(20..60),
            },
        },
        police: match rng.random_range(0..8) {
            0..=3 => Police {
                rate: 0,
                burst: rng.random_range(0..4096),
            },
            4 => Police::default(),
            // Tokens come while an epoch lasts.
            _ => Police {
                rate: rng.random_range(10_000..1 << 24) >> rng.random_range(0..8),
                burst: rng.random_range(0..4096) >> rng.random_range(3..12),
            },
        },
    }
}

/// The full build has the depths that `crates/fib` means.
#[cfg(test)]
#[test]
fn full_tables_are_those_of_the_default() {
    assert_eq!(fib_config(SwitchSize::Full), Config::default());
    for (name, value) in verilate::model("fib_lookup_full")
        .expect("the lookup is in the catalogue")
        .parameters
    {
        let depth = Switch::depth(SwitchSize::Full, name);
        assert_eq!(
            depth.map(|depth| depth.to_string()).as_deref(),
            Some(*value),
            "{name}"
        );
    }
}
