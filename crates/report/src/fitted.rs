// SPDX-License-Identifier: Apache-2.0
//! Constants that were fitted to what the dissertation measured, beside those that it published: runs have the ones or the
//! others, and say which.

use std::collections::BTreeMap;

use rack::cpu::CpuSpec;
use rack::topology::Rate;
use serde::Deserialize;

/// What hosts take for that which is not simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Constants {
    /// What was published, and nothing more.
    #[default]
    Published,
    /// More, so that the round trips of table 4.5 come out as they were measured.
    Fitted,
}

const FILE: &str = include_str!("../../../experiments/fitted.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    platform: String,
    /// By rate, for a packet that is sent, and for one that is received.
    kernel_ns: BTreeMap<Rate, u64>,
}

fn file() -> File {
    let Ok(file) = toml::from_str(FILE) else {
        unreachable!("experiments/fitted.toml is built in, and a test reads it")
    };
    file
}

impl Constants {
    /// The platform of the hosts.
    pub fn platform(self) -> String {
        match self {
            Self::Published => "keio-2016".to_owned(),
            Self::Fitted => file().platform,
        }
    }

    /// `costs` with what was fitted of the kernel, where they do not say it themselves.
    pub fn costs(self, rate: Rate, costs: CpuSpec) -> CpuSpec {
        let fitted = match self {
            Self::Published => None,
            Self::Fitted => file().kernel_ns.get(&rate).copied(),
        };
        CpuSpec {
            kernel_send_ns: costs.kernel_send_ns.or(fitted),
            kernel_receive_ns: costs.kernel_receive_ns.or(fitted),
            ..costs
        }
    }

    /// `how` a figure came about, with what it owes to fitted constants.
    pub fn marked(self, how: &str) -> String {
        match self {
            Self::Published => how.to_owned(),
            Self::Fitted => format!("{how}, fitted"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fitted_constants_are_nowhere_but_where_they_are_asked_for() {
        for rate in [Rate::One, Rate::Ten] {
            let published = Constants::Published.costs(rate, CpuSpec::default());
            assert!(published.is_empty());
            let fitted = Constants::Fitted.costs(rate, CpuSpec::default());
            assert!(
                fitted.kernel_send_ns.is_some()
                    && fitted.kernel_send_ns == fitted.kernel_receive_ns
            );
        }
        assert_eq!(Constants::Fitted.marked("RTL"), "RTL, fitted");
    }
}
